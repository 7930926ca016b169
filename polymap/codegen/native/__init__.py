"""Programs for use, without counters."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
