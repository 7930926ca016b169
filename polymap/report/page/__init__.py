"""Values in terminals and notebooks, and a page of HTML about one question."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
