"""Traffic between the outermost level and one buffer, for all sizes of the buffer at once."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
