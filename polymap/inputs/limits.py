"""How much of a file, a text or a number is read: what is beyond is refused in words, and never makes a reader hang."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Limits of what users give (not swept: beyond what files of this kind hold)."""

    file_bytes: int = 16 * 1024 * 1024
    """Of one file."""
    answer_bytes: int = 256 * 1024 * 1024
    """Of one answer that was saved: a sweep of 100,000 rows."""
    depth: int = 100
    """Lists and tables inside each other, and branches of a loop tree."""
    tree_nodes: int = 10_000
    """Of one loop tree in a file."""
    digits: int = 4300
    """Of a number: what Python reads as an integer."""
    exponent: int = 400
    """Of a number: floats end at 10^308."""
    integer: int = 10**100
    """Sizes, widths and counts, so that products of many of them can still be printed."""
    label_characters: int = 200
    """Of a name that is only shown."""
    mistakes_told: int = 20
    """Of the numbers in one file."""
    searched_characters: int = 2**20
    """Of a text in which the lines of mistakes are looked up."""
    threads: int = 1024
    """Of a program that is run."""
    workers: int = 256
    """Processes of a search."""


LIMITS = Limits()
