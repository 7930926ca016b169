"""What a loop tree is in C: loops, places, buffers, elements."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
