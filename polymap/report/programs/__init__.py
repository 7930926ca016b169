"""Figures of programs: data first, then one picture of each."""
