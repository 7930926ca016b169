"""Where rules about the order of temporal loops let a storage node stand, and how they order the loops of a block.

A node at temporal tile T has the loops above it that lead from the whole to T. A rule is a condition on T: on the dims
that already have a loop there, and on those that still have one to come; and a partial order inside each block. Both
hold for a tree exactly if the rule holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem.lattice import Lattice
from polymap.search.problem.rules import Innermost, OrderRule, Outermost, Outside, Rules

Bools = NDArray[np.bool_]


def order_rules(rules: Rules) -> tuple[OrderRule, ...]:
    """Return the rules about the order of loops."""
    return tuple(rule for rule in rules if isinstance(rule, Outside | Outermost | Innermost))


def standing_tiles(rules: Rules, lattice: Lattice, whole: Mapping[str, int]) -> Bools | None:
    """Return at every point of the lattice whether a storage node may stand there (None: everywhere)."""
    found: Bools | None = None
    for rule in order_rules(rules):
        one = _standing(rule, {dim: lattice.values[dim] for dim in whole}, whole)
        found = one if found is None else found & one
    return found


def may_stand(rules: Rules, dims: Sequence[str], tile: Sequence[int], whole: Sequence[int]) -> bool:
    """Return whether a storage node may stand at one tile."""
    values = {dim: np.array(own) for dim, own in zip(dims, tile, strict=True)}
    extents = dict(zip(dims, whole, strict=True))
    return all(bool(_standing(rule, values, extents)) for rule in order_rules(rules))


def _standing(rule: OrderRule, tiles: Mapping[str, NDArray[np.int64]], whole: Mapping[str, int]) -> Bools:
    match rule:
        case Outside(outer, inner):
            return (tiles[inner] == whole[inner]) | (tiles[outer] == 1)
        case Outermost(dims):
            return _in_order({dim: tiles[dim] < extent for dim, extent in whole.items()}, _looped(dims, whole))
        case Innermost(dims):
            ahead = {dim: tiles[dim] > 1 for dim in whole}
            return _in_order(ahead, tuple(reversed(_looped(dims, whole))))


def _looped(dims: tuple[str, ...], whole: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(dim for dim in dims if whole[dim] > 1)


def _in_order(there: Mapping[str, Bools], first: tuple[str, ...]) -> Bools:
    """Return where a set of dims (there[d]: d is in it) begins like `first`: each of these before all others."""
    ok: Bools = np.ones((), dtype=np.bool_)
    for place, dim in enumerate(first):
        for other, present in there.items():
            if other not in first[: place + 1]:
                ok = ok & (~present | there[dim])
    return ok


def inside_of(
    rules: Rules, dims: Sequence[str], whole: Sequence[int], outer: Sequence[int], inner: Sequence[int]
) -> dict[int, set[int]]:
    """Return per dim (number) with a loop in a block the dims whose loops in the block must stand inside it."""
    here = [d for d in range(len(dims)) if outer[d] > inner[d]]
    below: dict[int, set[int]] = {d: set() for d in here}
    for rule in order_rules(rules):
        match rule:
            case Outside(first, last):
                a, b = dims.index(first), dims.index(last)
                if a in below and b in below:
                    below[a].add(b)
            case Outermost(names):
                starting = [d for d in here if outer[d] == whole[d]]
                _chain(below, [dims.index(name) for name in names], starting)
            case Innermost(names):
                ending = [d for d in here if inner[d] == 1]
                _chain_last(below, [dims.index(name) for name in names], ending)
    return below


def _chain(below: dict[int, set[int]], first: list[int], among: list[int]) -> None:
    """Note that each of `first`, in order, stands outside all later ones and all others of `among`."""
    ranked = [d for d in first if d in among]
    for place, d in enumerate(ranked):
        below[d] |= set(among) - set(ranked[: place + 1])


def _chain_last(below: dict[int, set[int]], last: list[int], among: list[int]) -> None:
    """Note that each of `last`, in order, stands inside all earlier ones and all others of `among`."""
    ranked = [d for d in last if d in among]
    for place, d in enumerate(ranked):
        for other in set(among) - set(ranked[place:]):
            below[other].add(d)


def ordered(below: Mapping[int, set[int]]) -> tuple[int, ...] | None:
    """Return the dims, outermost first, each outside those that must be inside it; None where they go in a circle."""
    left = {d: set(inner) for d, inner in below.items()}
    found: list[int] = []
    while left:
        free = next((d for d in left if not any(d in inner for other, inner in left.items() if other != d)), None)
        if free is None:
            return None
        found.append(free)
        del left[free]
    return tuple(found)
