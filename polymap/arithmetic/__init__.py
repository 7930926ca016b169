"""Integers of any length: primes, progressions, exact arrays. Knows nothing of loop nests."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
