"""Integers of any length: primes, progressions, exact arrays. Knows nothing of loop nests."""
