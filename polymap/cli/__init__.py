"""The command line: words in, exit code out."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
