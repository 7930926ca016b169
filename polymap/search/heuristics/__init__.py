"""Mappings without proof: sampling, annealing, dataflow templates, polish."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
