"""What a search may use: time, memory, work, processes."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
