"""Front ends for loop nests: einsums, layers, networks, documents and C; dependences."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
