"""What hangs together: axes that share dims, dims that share constraints, nests that links connect."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


def components(sets: Iterable[Iterable[Hashable]]) -> list[tuple[int, ...]]:
    """Return the numbers of sets in groups, each rising, by their first sets: two sets are in one group if they share
    an item, directly or through others."""
    found: list[tuple[set[Hashable], list[int]]] = []
    for number, own in enumerate(sets):
        items = set(own)
        met = [each for each in found if each[0] & items]
        found = [each for each in found if each not in met]
        found.append((items.union(*(each[0] for each in met)), [*(n for each in met for n in each[1]), number]))
    return sorted(tuple(sorted(numbers)) for _, numbers in found)
