"""Accepts or refuses certificates; knows nothing of the rest of polymap."""
