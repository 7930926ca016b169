"""Proofs that share no code with the search, for the tests."""
