"""Compiled functions of native code: the compiler, the cache of its objects, and the arrays that callers pass."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
