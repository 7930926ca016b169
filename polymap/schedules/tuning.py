"""What questions about schedules may take: limits that decide whether an answer comes, never which."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of isl, in its operations and in seconds, and of what is listed (not swept)."""

    legality_s: float = 20.0
    """CPU seconds of the question whether a mapping is legal."""
    places_operations: int = 5_000_000
    """Operations of isl for the parallel loops of a schedule."""
    shown_orders: int = 6
    """Of the legal orders that a message lists."""
    report_s: float = 4.5
    """Seconds of a report of legality without a limit of its own: a user waits."""
    largest_factor: int = 4
    """Of outer loops that a loop is skewed by, so that loops may change places."""
    nests_operations: int = 300_000
    """Operations of isl for each step of the search of nests,"""
    nests_s: float = 3.5
    """and CPU seconds of it all."""
    most_listed_orders: int = 40_320
    """Legal orders that are listed: all those of 8 loops."""
    most_entangled_loops: int = 20
    """Loops that constrain each other whose orders are counted, by their subsets."""

    # Tables of a count of mappings.
    most_operations: int = 4_000_000_000
    """Multiplications of residues of one count."""
    most_entries: int = 1 << 27
    """Of tables of chains, so many of 8 bytes are in memory at once."""
    most_trips: int = 400_000
    """Combinations of trip counts of one dim."""
    most_unlike_fanouts: int = 7
    """Between two levels, of which each order of loops over a window's dim counts: 5,040 orders."""
    most_shares: int = 400_000
    """States times trip counts of fan-outs."""
    most_sets: int = 1_000_000
    """Sets of nodes that are listed for one machine."""
    summed_at_once: int = 2**18
    """Products of residues that are summed together: 2 MiB."""
    shares_at_once: int = 256
    """States of fan-outs that are multiplied together."""
    primes_at_once: int = 512
    """Numbers of which the primes are tried between two looks at the clock."""

    # Draws of mappings.
    batch: int = 8192
    """Draws at a time."""
    most_barren: int = 400
    """Batches without a tree after which a space counts as empty."""


TUNING = Tuning()
