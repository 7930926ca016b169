"""The proof over tiles that divide: structures best first, exact node costs on the divisor lattice."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
