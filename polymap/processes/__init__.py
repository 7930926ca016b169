"""Other processes and their limits; time that a busy machine does not use up."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
