"""Models of other tools as networks; their packages are extras, imported when used."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
