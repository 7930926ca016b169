"""The preprocessor of C: text to words, with what was decided on the way."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
