"""How large a space of mappings may be to be counted exactly, and how it is drawn from."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits that decide whether a count comes, never its value, and sizes of what is done together (not swept)."""

    # Tables of a count.
    most_operations: int = 4_000_000_000
    """Multiplications of residues of one count."""
    most_entries: int = 1 << 27
    """Of tables of chains, so many of 8 bytes are in memory at once."""
    most_trips: int = 400_000
    """Combinations of trip counts of one dim."""
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

    # Draws.
    batch: int = 8192
    """Draws at a time."""
    most_barren: int = 400
    """Batches without a tree after which a space counts as empty."""


TUNING = Tuning()
