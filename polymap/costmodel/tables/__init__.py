"""Many mappings of one tree shape at once: tables of tiles in, arrays of cost out."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
