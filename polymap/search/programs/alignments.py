"""Which loops of different nests may become one, shifted and skewed so that fusing and tiling them is legal: candidates
to be tried, each decided exactly afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from polymap.ir import Access, Statement, Workload
from polymap.search.programs.rewriting import NewLoop, Rewriting

LARGEST_SKEW = 3


def rewritings(workload: Workload) -> tuple[Rewriting, ...]:
    """Return rewritings to try, the plain one first: loops merged by the arrays that they index or by their depth, with
    shifts of 0 or as distances ask for, and skewed by the loops around them."""
    found: dict[Rewriting, None] = {(): None}
    for by_depth in (False, True):
        for shifts in (False, True):
            merged = _merged(workload, by_depth=by_depth, shifts=shifts)
            found[_without_identities(merged)] = None
            for skew in range(1, LARGEST_SKEW + 1):
                found[_without_identities(_skewed(workload, merged, skew))] = None
    for skew in range(1, LARGEST_SKEW + 1):
        plain = {each.name: NewLoop(each.name) for each in workload.dims}
        found[_without_identities(_skewed(workload, plain, skew))] = None
    return tuple(found)


def _without_identities(loops: dict[str, NewLoop]) -> Rewriting:
    return tuple((old, loop) for old, loop in loops.items() if loop != NewLoop(old))


def _merged(workload: Workload, *, by_depth: bool, shifts: bool) -> dict[str, NewLoop]:
    """Return every loop with the name of the loop of an earlier nest that it may be fused with."""
    loops: dict[str, NewLoop] = {}
    extents = workload.extents()
    before: list[Statement] = []
    for statement in workload.statements:
        for depth, dim in enumerate(statement.dims):
            if dim in loops:
                continue
            taken = {loops[each].name for each in statement.dims if each in loops}
            choices = [
                (score, old, shift)
                for old, score, shift in _partners(before, statement, depth, by_depth=by_depth)
                if loops[old].name not in taken
                and not loops[old].skews
                and 2 * min(extents[old], extents[dim]) >= max(extents[old], extents[dim])
                and not _together(workload, loops, dim, loops[old].name)
            ]
            if choices:
                _, old, shift = max(choices, key=lambda choice: choice[0])
                loops[dim] = NewLoop(loops[old].name, loops[old].shift + (shift if shifts else 0))
            else:
                loops[dim] = NewLoop(dim)
        before.append(statement)
    return loops


def _together(workload: Workload, loops: dict[str, NewLoop], dim: str, name: str) -> bool:
    """Return whether some statement has the loop and another one of that name."""
    return any(
        dim in each.dims and any(other in loops and loops[other].name == name for other in each.dims)
        for each in workload.statements
    )


def _partners(
    before: list[Statement], statement: Statement, depth: int, *, by_depth: bool
) -> Iterator[tuple[str, int, int]]:
    """Yield loops of earlier statements that a loop may be fused with, how much speaks for each, and the shift at which
    the later statement finds what the earlier one wrote."""
    dim = statement.dims[depth]
    seen: dict[str, tuple[int, int]] = {}
    for number, other in enumerate(before):
        for place, old in enumerate(other.dims):
            if old in statement.dims:
                continue
            score, shift = 0, 0
            for one in (other.target, *other.reads):
                for two in (statement.target, *statement.reads):
                    step = _distance(one, two, old, dim)
                    if step is not None:
                        score += 4
                        if one is other.target or two is statement.target:
                            score, shift = score + 8, max(shift, step)
            if place == depth:
                score = score + 1000 if by_depth else score + 1
            if score:
                known = seen.get(old, (0, 0))
                seen[old] = (max(known[0], score * 1000 + number), max(known[1], shift))
    for old, (score, shift) in seen.items():
        yield old, score, shift


def _distance(one: Access, two: Access, old: str, dim: str) -> int | None:
    """Return by how much the second access runs ahead of the first along an axis that both loops index alone."""
    if one.tensor != two.tensor:
        return None
    for first, second in zip(one.index, two.index, strict=True):
        if first.terms == ((1, old),) and second.terms == ((1, dim),):
            return second.constant - first.constant
    return None


def _skewed(workload: Workload, loops: dict[str, NewLoop], factor: int) -> dict[str, NewLoop]:
    """Return the loops with all inner ones skewed by the outermost loop of their nest."""
    skewed = dict(loops)
    for statement in workload.statements:
        if not statement.dims:
            continue
        outer = statement.dims[0]
        for dim in statement.dims[1:]:
            loop = loops[dim]
            if not loop.skews and loops[outer] == NewLoop(outer):
                skewed[dim] = NewLoop(loop.name, loop.shift, ((outer, factor),))
    return skewed
