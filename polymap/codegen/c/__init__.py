"""C as data, and its text."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
