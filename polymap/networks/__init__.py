"""Whole networks: layers with multiplicities, their exploration layer by layer, and its text."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
