"""Lowers a loop tree to the parts of a C program: loops, storage nodes, buffers, elements."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
