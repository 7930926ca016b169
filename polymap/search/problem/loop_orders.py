"""Rules about the order of temporal loops, as conditions on storage nodes and on the blocks of loops between them.

A node at temporal tile T is below the loops that lead from the whole extents to T. A rule becomes a condition on T (on
the dims that already have a loop above, and on those that have one below) and a partial order inside each block. A tree
meets the rule exactly if both hold.
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
    """Return, per point of the lattice, whether a storage node may be there (None: everywhere)."""
    found: Bools | None = None
    for rule in order_rules(rules):
        one = _allowed_tiles(rule, {dim: lattice.values[dim] for dim in whole}, whole)
        found = one if found is None else found & one
    return found


def may_stand(rules: Rules, dims: Sequence[str], tile: Sequence[int], whole: Sequence[int]) -> bool:
    """Return whether a storage node may be at one tile."""
    values = {dim: np.array(own) for dim, own in zip(dims, tile, strict=True)}
    extents = dict(zip(dims, whole, strict=True))
    return all(bool(_allowed_tiles(rule, values, extents)) for rule in order_rules(rules))


def _allowed_tiles(rule: OrderRule, tiles: Mapping[str, NDArray[np.int64]], whole: Mapping[str, int]) -> Bools:
    match rule:
        case Outside(outer, inner):
            return (tiles[inner] == whole[inner]) | (tiles[outer] == 1)
        case Outermost(dims):
            return _in_order({dim: tiles[dim] < extent for dim, extent in whole.items()}, _dims_with_loops(dims, whole))
        case Innermost(dims):
            ahead = {dim: tiles[dim] > 1 for dim in whole}
            return _in_order(ahead, tuple(reversed(_dims_with_loops(dims, whole))))


def _dims_with_loops(dims: tuple[str, ...], whole: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(dim for dim in dims if whole[dim] > 1)


def _in_order(there: Mapping[str, Bools], first: tuple[str, ...]) -> Bools:
    """Return where a set of dims (there[d]: d is in it) begins with `first`: each of these before all others."""
    ok: Bools = np.ones((), dtype=np.bool_)
    for place, dim in enumerate(first):
        for other, present in there.items():
            if other not in first[: place + 1]:
                ok = ok & (~present | there[dim])
    return ok


def inside_of(
    rules: Rules, dims: Sequence[str], whole: Sequence[int], outer: Sequence[int], inner: Sequence[int]
) -> dict[int, set[int]]:
    """Return, per dim (number) with a loop in a block, the dims whose loops in the block must be inside it."""
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
                _put_outside(below, [dims.index(name) for name in names], starting)
            case Innermost(names):
                ending = [d for d in here if inner[d] == 1]
                _put_inside(below, [dims.index(name) for name in names], ending)
    return below


def _put_outside(below: dict[int, set[int]], first: list[int], among: list[int]) -> None:
    """Record that each of `first`, in order, is outside all later ones and all others of `among`."""
    ranked = [d for d in first if d in among]
    for place, d in enumerate(ranked):
        below[d] |= set(among) - set(ranked[: place + 1])


def _put_inside(below: dict[int, set[int]], last: list[int], among: list[int]) -> None:
    """Record that each of `last`, in order, is inside all earlier ones and all others of `among`."""
    ranked = [d for d in last if d in among]
    for place, d in enumerate(ranked):
        for other in sorted(set(among) - set(ranked[place:])):
            below[other].add(d)


def order_dims(below: Mapping[int, set[int]]) -> tuple[int, ...] | None:
    """Return the dims, outermost first, each outside those that must be inside it; None if the relation has a cycle."""
    left = {d: set(inner) for d, inner in below.items()}
    found: list[int] = []
    while left:
        free = next((d for d in left if not any(d in inner for other, inner in left.items() if other != d)), None)
        if free is None:
            return None
        found.append(free)
        del left[free]
    return tuple(found)
