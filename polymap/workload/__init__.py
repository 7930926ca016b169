"""Where loop nests come from: einsums, layers, networks, documents and C; and what they are, as data."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
