"""Lower bounds of the traffic of programs that know what the memories hold."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
