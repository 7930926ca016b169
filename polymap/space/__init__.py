"""The space of mappings: its size, its structures, samples, neighbours and distances."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
