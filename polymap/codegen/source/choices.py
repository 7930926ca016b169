"""The orders that C to C offers; a module of its own, so that the command line knows them without loading isl."""

from __future__ import annotations

ORDERS = ("auto", "original", "isl")
