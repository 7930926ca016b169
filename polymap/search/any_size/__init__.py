"""Bounds and mappings over tiles of any size."""
