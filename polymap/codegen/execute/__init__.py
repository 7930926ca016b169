"""Generated C, compiled, run and compared with its reference."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
