"""What a mapping is worth: exact values, bounds in floats, what no mapping beats, and the best so far."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
