"""C to C: a function's loop nests in another legal order, everything else of the text untouched."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
