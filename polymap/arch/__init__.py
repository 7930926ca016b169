"""The machine: memory levels, fan-outs and the compute unit; presets with a source for each number."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
