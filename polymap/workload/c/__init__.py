"""C programs as workloads: from text to a loop nest with C's meaning."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
