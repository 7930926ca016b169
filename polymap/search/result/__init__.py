"""What a search answers, and the JSON documents of answers: written, and read back."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
