"""The counts of one mapping by integer sets: exact for every nest, also where the closed form does not reach."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
