"""Figures of the mapping space: data first, then one picture of each."""
