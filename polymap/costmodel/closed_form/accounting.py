"""What both ways of counting in closed form hand on."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One tensor at one level: sums over instances, and the elements that one instance holds at most."""

    level: int
    tensor: int
    reads: int
    writes: int
    fills: int
    drains: int
    tile: int


class Busiest(NamedTuple):
    """The most that one instance of a level reads, writes, and moves in all, in bits."""

    read: int = 0
    written: int = 0
    moved: int = 0
