"""Loop tree to C: lowering, printing, compiling, running, and the reference that the result is compared with."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
