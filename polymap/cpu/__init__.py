"""Processors as machines: what a question about one looks like, and the mapping that its code is printed from."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
