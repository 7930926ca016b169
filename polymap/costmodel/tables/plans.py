"""The counts of partial tiles as plans: sums of products of factors, one factor per dim or window.

docs/closed_form.md derives the sums. A plan depends only on the shape of the tree. In its nest a loop's tile is the
number of its column, and a pin is the number of a run of digits; both get values when rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from polymap.costmodel import closed_form
from polymap.costmodel.tables.digits import is_first_entrant
from polymap.costmodel.tables.factors import (
    AcceptedSteps,
    FirstTile,
    KeptIndices,
    Places,
    WindowAll,
    WindowDistinct,
    WindowFirst,
    WindowKept,
    WindowSum,
)
from polymap.costmodel.tables.loops import Extent
from polymap.costmodel.tables.planned_sums import Factor, Numbering, Terms
from polymap.costmodel.tables.shared_windows import WindowStays, WindowWhole

Value = Factor | int


def nest_of_columns(extents: Sequence[Extent], shape: closed_form.Shape) -> closed_form.LoopNestView:
    """Return the nest of a shape with the number of its column as each loop's tile, and as each extent that has one."""
    loops = tuple(closed_form.Loop(place.dim, place.column, 0, place.fanout, place.position) for place in shape.loops)
    chains = tuple(tuple(loop for loop in loops if loop.dim == dim) for dim in range(len(extents)))
    return closed_form.LoopNestView(
        cast("tuple[int, ...]", tuple(extents)), loops, chains, (False,) * len(extents), shape.holders
    )


class PlannedFactors:
    """The factors of a plan. doubts: sums that must be 0 for the plan to hold."""

    accepted = staticmethod(AcceptedSteps)
    first_tile = staticmethod(WindowFirst)
    all_elements = staticmethod(WindowAll)
    distinct_elements = staticmethod(WindowDistinct)
    kept_elements = staticmethod(WindowKept)
    held_by_any = staticmethod(WindowWhole)
    staying = staticmethod(WindowStays)

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.doubts: list[Terms] = []

    def kept(self, extent: int, chain: closed_form.Chain, outside: int, counted: closed_form.CountedSteps) -> Value:
        if outside >= closed_form.times_of(chain):
            if all(part is not closed_form.Part.PINNED for _, part, _ in chain):
                return self.first_indices(extent, ())
            counted = closed_form.CountedSteps.OWN  # no loop is inside
        return KeptIndices(extent, chain, min(outside, closed_form.times_of(chain)), counted)

    def places(self, extent: int, chain: closed_form.Chain, cut: int, *, moving: bool = False) -> Value:
        counted = timed = 0
        for number, (_, part, _) in enumerate(chain):
            timed += part is closed_form.Part.TIME
            if part in (closed_form.Part.EACH, closed_form.Part.PINNED) or (
                part is closed_form.Part.TIME and timed <= cut + moving
            ):
                counted = number + 1  # digit 0 is always there: what it leaves counts no more
        if not counted:
            return 0 if moving else 1
        return Places(extent, chain[:counted], min(cut, closed_form.times_of(chain)), moving)

    def first_indices(self, extent: int, chain: closed_form.Chain) -> Value:
        is_number = isinstance(cast("Extent", extent), int)
        return extent if is_number and not chain else FirstTile(extent, chain)

    def unread(
        self, kept: Iterable[Value], windows: tuple[closed_form.Axes, ...], cuts: tuple[closed_form.Cuts, ...]
    ) -> Terms:
        kept = list(kept)
        chosen = list(zip(windows, cuts, strict=True))
        return self.total(
            self.product([sign, *kept, *(WindowSum(*each, name) for each, name in zip(chosen, names, strict=True))])
            for sign, names in closed_form.terms_not_read(len(windows))
        )

    def product(self, parts: Iterable[Value]) -> Terms:
        return Terms([self.numbering.term(parts)])

    def total(self, terms: Iterable[Terms]) -> Terms:
        return Terms(term for each in terms for term in each.each)

    def doubt(self, amount: Terms) -> None:
        self.doubts.append(amount)


class Plans(closed_form.PartialCounts[Value, Terms]):
    """The counts of `Counter` as sums of products of factors."""

    def __init__(
        self,
        extents: Sequence[Extent],
        machine: closed_form.MachineModel,
        shape: closed_form.Shape,
        *,
        looks_back: bool,
    ) -> None:
        self.planned = PlannedFactors()
        super().__init__(self.planned, machine, nest_of_columns(extents, shape), looks_back=looks_back)

    def entries_of_later_sibling(
        self, tensor: closed_form.TensorModel, parent: closed_form.Node, node: closed_form.Node, pins: closed_form.Pins
    ) -> Terms:
        """Return the events at which the sibling given by the pins is the first of those that enter.

        The sibling differs from the first one in one loop over a dim that the tensor lacks; otherwise the count is 0.
        Siblings that enter along loops before this one in instance order come later.
        """
        idle = self.idle_siblings(tensor, parent, node)
        moved = [loop for loop in idle if pins[loop.position]]
        if len(moved) > 1:
            return Terms()
        (own,) = moved
        at = idle.index(own)
        step_filters: dict[int, closed_form.StepFilter] = {
            loop.dim: closed_form.always if idle.index(loop) < at else closed_form.none_starts for loop in idle
        }
        step_filters[own.dim] = is_first_entrant
        unmoved: dict[closed_form.StepFilter, closed_form.StepFilter] = {
            closed_form.always: closed_form.none_stops,
            closed_form.none_starts: closed_form.none_moves,
            is_first_entrant: is_first_entrant,
        }
        view = self.node(tensor, (parent, node), closed_form.Siblings.MERGED, pins).pinned(own, pins[own.position])
        return self.accepted_events(
            view, step_filters, {dim: unmoved[step_filter] for dim, step_filter in step_filters.items()}
        )
