"""The referee: every step of a mapping walked, every element moved one by one."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
