"""How windows may be at the node of their tensor, case by case: in each case costs are sums of monomials.

Cases are told apart by the node's tiles along the short dims (r of p + r), by which of several windows slides, and by
whether it slides inside a visit of an outer node. The last: let c be a dim that the window's tensor has and the tensor
of an outer node lacks. Where the window's tile, as large as it actually is, has less of c than the outer node's, every
visit of that node has two tiles of c or more, so nothing that a visit ends with serves the beginning of the next: each
visit loads all different elements of its own box, and a load serves no more pairs than that box has per element. Else
both tiles have the same of c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil

from polymap.search.any_size.monomials import WindowChoice, WindowChoices
from polymap.search.problem import Problem

Order = tuple[tuple[int, int], ...]
Demand = tuple[int, int, int, int]  # number of a node, dim, the fewest and most indices of its tile


@dataclass(frozen=True, slots=True)
class Placement:
    """Choices of the windows at their node (none: no node). demands: of tiles, for which they hold. within: number of
    the outer node inside whose visits the window slides; None where it may slide on. alike: numbers of two nodes and
    a dim of which their tiles have the same (None: of none)."""

    choices: WindowChoices
    demands: tuple[Demand, ...]
    within: int | None = None
    alike: tuple[int, int, int] | None = None


NO_WINDOW = Placement((), ())


def window_placements(
    problem: Problem, orders: Sequence[tuple[Order, tuple[int, ...]]]
) -> list[tuple[tuple[Order, tuple[int, ...]], Placement]] | None:
    """Return every order with each of its placements of windows: together they cover all mappings. None where there are
    windows and fan-outs, several levels that may hold one, or windows of other forms."""
    windows = [t for t, term in enumerate(problem.terms) if term.is_window]
    if not windows:
        return [(one, NO_WINDOW) for one in orders]
    choices = _window_choices(problem, windows)
    if choices is None:
        return None
    return [(one, placement) for one in orders for placement in _placements(problem, one[0], windows[0], choices)]


def _placements(problem: Problem, order: Order, tensor: int, choices: tuple[WindowChoices, ...]) -> Iterator[Placement]:
    own = next((at for at, (one, _) in enumerate(order) if one == tensor), None)
    if own is None:
        yield NO_WINDOW
        return
    outer, dim = _outer_node(problem, order[:own], tensor)
    for one in choices:
        tiles = tuple((own, choice.short, choice.least, choice.most) for choice in one)
        if outer is None or dim is None:
            yield Placement(one, tiles)
            continue
        extent = problem.extents[dim]
        free = tuple(WindowChoice(c.long, c.short, c.stride, c.least, c.most, c.slides, 1) for c in one)
        yield Placement(free, (*tiles, (outer, dim, 2, extent), (own, dim, 1, extent - 1)), within=outer)
        yield Placement(one, tiles, alike=(outer, own, dim))


def _outer_node(problem: Problem, before: Order, tensor: int) -> tuple[int | None, int | None]:
    """Return the last node before the window's whose tensor lacks a dim of several indices that the window's tensor has
    outside windows, and that dim."""
    window = problem.terms[tensor]
    plain = [group.dims[0] for group in window.groups if not group.is_window]
    for at, (other, _) in reversed(list(enumerate(before))):
        for name in plain:
            dim = problem.dims.index(name)
            if name not in problem.terms[other].dims and problem.extents[dim] > 1:
                return at, dim
    return None, None


def _window_choices(problem: Problem, windows: Sequence[int]) -> tuple[WindowChoices, ...] | None:
    if problem.classes or problem.level_count > 2 or len(windows) > 1:
        return None
    each: list[list[tuple[int, int, int, int, int, int]]] = []
    for group in (group for group in problem.terms[windows[0]].groups if group.is_window):
        if len(group.dims) != 2 or abs(group.coefficients[1]) != 1:
            return None
        first, second = (problem.dims.index(dim) for dim in group.dims)
        whole, stride = problem.extents[second], abs(group.coefficients[0])
        diagonal = min(ceil(whole / stride), problem.extents[first])
        ends = sorted({(1, max(1, whole - 1)), (whole, whole)})
        each.append([(first, second, stride, *pair, diagonal) for pair in ends])
    found: list[WindowChoices] = []
    for tiles in product(*each):
        for sliding in range(len(tiles)):
            cases = enumerate(tiles)
            found.append(tuple(WindowChoice(*t[:5], slides=n == sliding, diagonal=t[5]) for n, t in cases))
    return tuple(found)
