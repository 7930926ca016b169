"""What both ways of counting in closed form hand on: the numbers of one tensor at one level, and of its movements."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One tensor at one level: sums over instances; then the reads and writes of the busiest instance; then the
    elements that one instance holds at most."""

    level: int
    tensor: int
    reads: int
    writes: int
    fills: int
    drains: int
    busy_reads: int
    busy_writes: int
    tile: int


class Moves(NamedTuple):
    """How often elements of a written tensor move at one node.

    entries: into instances (as often they leave). events: with the siblings of one parent instance merged.
    arrivals: at the parent's instances, siblings merged where adders stand between.
    """

    entries: int
    events: int
    arrivals: int
