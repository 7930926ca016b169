"""How much the search over program trees tries: numbers that change its speed, never a count."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one search, chosen together by benchmarks/polybench.py (DRAM traffic after 60 s), not swept one by
    one."""

    # Which programs are searched, and which spaces are walked wholly.
    most_instances: int = 12_000_000
    """Of a program: all of them are listed."""
    few_instances: int = 2_000
    """Of a program whose space is walked."""
    most_shapes: int = 60_000
    """Of a space that is walked,"""
    most_rewritings: int = 500
    """and rewritings of it."""
    walking_share: float = 0.7
    """Of the limit, for walking over all trees before climbing."""
    few_to_evaluate: int = 20_000
    """Instances of a program whose cost the cost model counts: of more, it is what the search counted, of every
    instance."""
    most_folded: int = 8
    """Shapes whose temporaries are folded, those that promise most first."""
    largest_skew: int = 3
    """Of one loop by another."""
    scheduler_s: float = 8.0
    """CPU seconds of isl's scheduler,"""
    long_scheduler_s: float = 60.0
    """and where work ends the search, not time."""
    small_moduli: int = 16
    """Moduli of an axis that are tried one by one: beyond, twice as many each time."""

    most_in_tiles: int = 6
    """Statements of a run in tiles (not swept)."""
    selection_s: float = 1.0
    """Deterministic seconds of CP-SAT for one choice of what stays in a level (not swept)."""

    # Climbing.
    small_room: int = 8
    """Levels with less than this part of the largest one's room are left out at first."""
    climbs: int = 2
    """Beginnings of a round that are climbed from."""
    first_tiles: tuple[int, ...] = (16, 8, 32)
    """Tiles that all loops of a shape begin with."""
    nearly_best: Fraction = Fraction(101, 100)
    """An estimate of so many times the best cost is counted exactly."""
    shapes_at_first: int = 60
    """Shapes looked at in a first climb."""
    steps_together: int = 6
    """Steps that are estimated before the best of them is scored."""
    idle_climbs: int = 30
    """Climbs from changed copies of the best, none of which pays, before the search ends."""
    worthless_ratio: int = 3
    """Beginnings that cost more than so many times the best are not climbed from."""
    thinning: int = 8
    """One in so many elements is looked at for an estimate,"""
    fewest_elements: int = 200
    """but no fewer of a tensor than this."""
    partial_choices: int = 2000
    """Of nodes that are kept: beyond, those that cost most are dropped."""
    places_deeper: int = 3
    """Places tried below the outermost one at which a tensor fits."""
    most_rounds: int = 48
    """Numbers of rounds of a tensor's users that a floor tells apart, those that cost least (not swept)."""


TUNING = Tuning()
