"""The textbook's upper-bound estimates of how many mappings there are, to compare with the exact size of our space.

Source: ML systems textbook, chapter Hardware Acceleration. They count choices as if each were free of the others: equal
trees several times, impossible ones too, and tile sizes as a fixed number of choices. The exact sizes are in `space`.
"""

from __future__ import annotations

from math import comb, factorial, perm


def loop_orders(loops: int, levels: int = 1) -> int:
    """Return the number of orders of `loops` loops, chosen anew at each of `levels` levels of memory."""
    return factorial(loops) ** levels


def parallel_choices(loops: int, parallel: int, *, ordered: bool = True) -> int:
    """Return the number of ways to spread `parallel` of the loops, their order told apart or not."""
    return perm(loops, parallel) if ordered else comb(loops, parallel)


def tilings(choices: int, dims: int, levels: int = 1) -> int:
    """Return the number of ways to give each dim one of `choices` tile sizes at each level."""
    return choices ** (dims * levels)


def mappings(choices: int, dims: int, parallel: int, levels: int = 1) -> int:
    """Return the product of the three, per level: tile sizes, order of the dims, ordered choice of parallel dims."""
    return (tilings(choices, dims) * loop_orders(dims) * parallel_choices(dims, parallel)) ** levels
