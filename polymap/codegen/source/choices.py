"""The orders that C to C can be asked for; apart, so that the command line knows them without loading isl."""

from __future__ import annotations

ORDERS = ("auto", "original", "isl")
