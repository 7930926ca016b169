"""The closed form where tiles need not divide: sums over carries of products over dims (docs/closed_form.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain as joined, product
from math import prod
from typing import Generic, TypeVar

from polymap.costmodel.closed_form.accounting import (
    Moves,
    Numeric,
    Row,
    fills_of_target,
    initial_of,
    moves_of_operand,
    moves_of_target,
    rows_of,
)
from polymap.costmodel.closed_form.carries import (
    NO_PINS,
    Axes,
    Carry,
    Chains,
    Cuts,
    Factors,
    Loops,
    NodeCarries,
    Pins,
    Siblings,
    StepFilter,
    always,
    axes_of,
    none_moves,
    none_starts,
    none_stops,
)
from polymap.costmodel.closed_form.digits import (
    CarryPlace,
    Chain,
    CountedSteps,
    Part,
    PreviousCarry,
    Track,
    changes,
    changes_with_origin,
    kept_indices,
    lengths_at_digit,
    lengths_of_all_digits,
    places,
    siblings,
    times_of,
)
from polymap.costmodel.closed_form.groups import DimKind, TensorModel, UnionForm, WorkloadModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, LoopNestView, MachineModel, Node
from polymap.costmodel.closed_form.unions import (
    Axes as UnionAxes,
    elements_sent,
    ends_of_largest,
    held_at,
    largest_tile,
)
from polymap.costmodel.closed_form.window_sums import (
    all_elements,
    distinct_elements,
    elements_not_read,
    first_tile,
    kept_elements,
)
from polymap.costmodel.closed_form.window_tables import Ask, Axis, WindowTable, is_spread, window_table
from polymap.poly import too_large

Value = TypeVar("Value")
Amount = TypeVar("Amount", bound=Numeric)


class PartialCounts(ABC, Generic[Value, Amount]):
    """Counts of the nodes of one mapping, or plans of these counts for tables.

    pins: digits of spatial loops; only the instances with these digits count. looks_back: changes before the inner
    loops of a carry began are counted, too, where they matter (which is rare and takes long).
    """

    def __init__(
        self,
        factors: Factors[Value, Amount],
        machine: MachineModel,
        nest: LoopNestView,
        *,
        looks_back: bool = True,
    ) -> None:
        self.factors, self.machine, self.nest, self._looks_back = factors, machine, nest, looks_back
        self._chains = Chains(machine, nest)
        self._known: dict[tuple[int, Node, int, Siblings, CountedSteps, StepFilter], NodeCarries[Value]] = {}

    def node(
        self,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins = NO_PINS,
        counted: CountedSteps = CountedSteps.MACHINE,
        step_filter: StepFilter = always,
    ) -> NodeCarries[Value]:
        """Return the carries of a node below its parent."""
        parent, node = between
        key = (tensor.index, node, 0 if siblings is Siblings.APART else parent.fans, siblings, counted, step_filter)
        found = None if pins else self._known.get(key)
        if found is None:
            found = NodeCarries(self.factors, self._chains, tensor, between, siblings, pins, counted, step_filter)
            if not pins:
                self._known[key] = found
        return found

    def fills(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the elements of a read-only tensor that enter the node's instances."""
        return self._entries_of(
            self.node(tensor, (parent, node), Siblings.APART, pins, CountedSteps.OWN), CountedSteps.OWN
        )

    def _entries_of(self, node: NodeCarries[Value], counted: CountedSteps) -> Amount:
        return self.elements_of_all_steps(node) - self._kept_elements(node, counted)

    def elements_of_all_steps(self, node: NodeCarries[Value]) -> Amount:
        """Return the elements that the node's instances hold, summed over steps."""
        return self.factors.product(joined(node.factors_of_all_steps(), map(self.factors.all_elements, node.axes)))

    def _kept_elements(self, node: NodeCarries[Value], counted: CountedSteps) -> Amount:
        """Return the elements that stay from one step to the next, over all carries and instances."""
        factors = self.factors
        return factors.total(
            factors.product(
                joined(
                    values.values(),
                    (
                        factors.kept_elements(axes, cuts, counted)
                        for axes, cuts in zip(node.axes, node.cuts_of_windows(loop, outside), strict=True)
                    ),
                )
            )
            for loop, outside, values in node.carries()
        )

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the elements that the parent's instances read to serve the node's loads."""
        view = self.node(tensor, (parent, node), Siblings.MULTICAST, pins, CountedSteps.OWN)
        distinct = self._distinct(view)
        if node.level < 0:
            return distinct * tensor.reads
        return distinct - self.factors.total(
            self.factors.unread(values.values(), view.axes, view.cuts_of_windows(loop, outside))
            for loop, outside, values in view.carries()
        )

    def _distinct(self, node: NodeCarries[Value]) -> Amount:
        return self.factors.product(joined(node.factors_of_all_steps(), map(self.factors.distinct_elements, node.axes)))

    def entries(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the elements of a written tensor that enter the node's instances."""
        return self._moves(self.node(tensor, (parent, node), Siblings.APART, pins, step_filter=none_starts), node)

    def events(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the entries with siblings merged: an element that enters several in one step counts once."""
        return self._moves(
            self.node(tensor, (parent, node), Siblings.MERGED, pins, step_filter=none_starts), node, together=True
        )

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the drains (of the compute unit: results) that reach the parent's instances."""
        return self._moves(
            self.node(tensor, (parent, node), Siblings.ADDED, pins, step_filter=none_stops), node, together=True
        )

    def _moves(self, view: NodeCarries[Value], node: Node, *, together: bool = False) -> Amount:
        if node.level < 0:
            return self._distinct(view)
        if together and any(map(is_spread, view.axes)):
            return self.factors.product(view.held_by_any()) - self._total(view.kept_factors())
        return self._entries_of(view, CountedSteps.MACHINE)

    def _total(self, products: Iterable[Iterable[Value]]) -> Amount:
        return self.factors.total(map(self.factors.product, products))

    def silent_events(self, tensor: TensorModel, parent: Node, node: Node) -> Amount:
        """Return the events that bring no partial sum, since nothing has arrived at the parent since the event
        before."""
        stops, moves = (
            self.node(tensor, (parent, node), Siblings.MERGED, step_filter=step_filter)
            for step_filter in (none_stops, none_moves)
        )
        if not stops.may_start():
            return self.factors.total(())
        found = self._total(stops.silent_factors()) - self._total(moves.silent_factors())
        if not any(map(is_spread, stops.axes)):
            return found
        # Siblings may start without their inner loops starting again.
        unchanged = self._total(stops.unchanged_factors()) - self._total(moves.unchanged_factors())
        if not (self._looks_back and unchanged) or stops.filtered_dims():
            self.factors.doubt(unchanged)
            return found
        same, held = (
            self._total(stops.visit_factors(dropped=dropped)) - self._total(moves.visit_factors(dropped=dropped))
            for dropped in (False, True)
        )
        self.factors.doubt(same)
        return found + unchanged - held

    def late_events(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Amount:
        """Return the events at which the first sibling keeps the element and only later ones, idle before, take it
        again."""
        stay, all_stay = (
            self._kept_elements(
                self.node(tensor, (parent, node), Siblings.MERGED, pins, step_filter=step_filter), CountedSteps.MACHINE
            )
            for step_filter in (always, none_starts)
        )
        return stay - all_stay

    def tile(self, tensor: TensorModel, node: Node) -> Amount:
        """Return the elements of the largest tile: that of the first step in the first instance."""
        chains, _ = self._chains.at((node, node), Siblings.APART, NO_PINS)
        extents = self.nest.extents
        singles = (self.factors.first_indices(extents[dim], chains[dim]) for dim in tensor.singles)
        return self.factors.product(joined(singles, map(self.factors.first_tile, axes_of(extents, chains, tensor))))

    def steps(self) -> Amount:
        """Return the number of steps: those of the first instance, which works whenever any does."""
        return self._vectors(NO_PINS, timed=True)

    def works(self, pins: Pins) -> Amount:
        """Return 1 where the instance with these digits has work in the first step (and so in any), 0 elsewhere."""
        return self._vectors(pins, timed=False)

    def _vectors(self, pins: Pins, *, timed: bool) -> Amount:
        found: list[Value] = []
        for extent, loops in zip(self.nest.extents, self.nest.chains, strict=True):
            chain = tuple(
                (loop.tile, Part.TIME, 0)
                if loop.fanout == TEMPORAL
                else (loop.tile, Part.PINNED if pins.get(loop.position) else Part.MERGED, pins.get(loop.position, 0))
                for loop in loops
            )
            found.append(self.factors.places(extent, chain, times_of(chain) if timed else 0))
        return self.factors.product(found)

    def accesses(self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> Moves[Amount]:
        """Return the elements that the instance with these digits moves of a tensor at its node `number`."""
        none, node, below = self.factors.total(()), nodes[number], nodes[number + 1]
        if not tensor.written:
            fills = self.fills(tensor, nodes[number - 1], node, pins) if number else none
            return moves_of_operand(self.messages(tensor, node, below, pins), fills, none)
        fills = self.partial_sums_taken(tensor, nodes, number, pins)
        stays = none if number else self.tile(tensor, node)
        arrivals = self.arrivals(tensor, node, below, pins)
        return moves_of_target(arrivals, fills, stays, outermost=not number, none=none)

    def partial_sums_taken(self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> Amount:
        """Return the partial sums that the instance with these digits takes from its parent; siblings take equal
        shares.

        Every event but the first of a residency brings a partial sum to the first of the siblings that enter the
        element. The first sibling enters whenever the element is new to all; at other events it keeps the element, and
        later siblings enter after idling.
        """
        touched = self.fills(tensor, nodes[0], nodes[0], pins)  # of those that the digits of singles allow
        if number == 0:
            return initial_of(tensor, touched, self.factors.total(()))
        parent, node = nodes[number - 1], nodes[number]
        if any(pins[loop.position] for loop in self.idle_siblings(tensor, parent, node)):
            return self.entries_of_later_sibling(tensor, parent, node, pins)
        stays = touched if number == 1 else self.entries(tensor, nodes[number - 2], parent, pins)
        events = self.events(tensor, parent, node, pins) - self.late_events(tensor, parent, node, pins)
        return fills_of_target(events, stays, self.partial_sums_taken(tensor, nodes, number - 1, pins))

    def idle_siblings(self, tensor: TensorModel, parent: Node, node: Node) -> list[Loop[int]]:
        """Return the sibling loops over dims that the tensor lacks, in instance order."""
        found = [
            loop
            for loop in self.nest.loops
            if parent.fans <= loop.fanout < node.fans and tensor.kinds[loop.dim] is DimKind.IDLE
        ]
        return sorted(found, key=lambda loop: (loop.fanout, loop.position))

    def accepted_events(
        self, node: NodeCarries[Value], step_filters: Mapping[int, StepFilter], unmoved: Mapping[int, StepFilter]
    ) -> Amount:
        """Return the steps that the filters accept, minus those before which nothing has arrived since the last entry.

        unmoved: the filters that also require that no sibling stops.
        """
        found = self._total(values.values() for _, _, values in node.with_filters(step_filters).carries())
        return found - self._total(node.with_filters(unmoved).silent_factors())

    @abstractmethod
    def entries_of_later_sibling(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins) -> Amount:
        """Return the events at which one sibling other than the first is the first of the siblings that enter.

        The tensor has no windows along which siblings differ.
        """


def _is_first_entrant(
    kinds: Sequence[tuple[int, ...]], target: tuple[int, ...], tracks: tuple[Track, ...], *, own: bool
) -> bool:
    """Return whether a sibling is the first that enters, judged by one dim. kinds: the digits of siblings.

    own: whether the target differs from the first sibling along this dim.
    """
    back = [kind for kind, (now, before) in zip(kinds, tracks, strict=True) if now and not before]
    first = min(back, default=None)
    return first == target if own else first is None or first > target


def _is_first_entrant_and_none_stops(
    kinds: Sequence[tuple[int, ...]], target: tuple[int, ...], tracks: tuple[Track, ...], *, own: bool
) -> bool:
    return none_stops(tracks) and _is_first_entrant(kinds, target, tracks, own=own)


def accepted_steps(
    extent: int, chain: Chain, cut: CarryPlace, step_filter: StepFilter, previous: PreviousCarry | None
) -> int:
    """Return the number of the machine's steps at one carry that the filter accepts.

    previous: a condition on the last change before the step.
    """
    if previous is None:
        return sum(times for times, tracks in changes(extent, chain, cut) if step_filter(tracks))
    found = changes_with_origin(extent, chain, cut)
    return sum(times for times, tracks, origin in found if step_filter(tracks) and previous.holds(origin))


class IntegerFactors:
    """The factors of one mapping as Python integers."""

    __slots__ = ()
    kept = staticmethod(kept_indices)
    accepted = staticmethod(accepted_steps)
    first_tile = staticmethod(first_tile)
    all_elements = staticmethod(all_elements)
    distinct_elements = staticmethod(distinct_elements)
    kept_elements = staticmethod(kept_elements)

    def places(self, extent: int, chain: Chain, cut: int, *, moving: bool = False) -> int:
        found = places(chain, cut, extent)
        return places(chain, cut + 1, extent) - found if moving else found

    def first_indices(self, extent: int, chain: Chain) -> int:
        branches = ((extent, 1),)
        for tile, part, _ in chain:
            branches = (
                lengths_of_all_digits(branches, tile) if part is Part.FREE else lengths_at_digit(branches, 0, tile)
            )
        return sum(length * many for length, many in branches)

    def held_by_any(self, axes: Axes, loops: Loops, carries: tuple[Carry, ...]) -> int:
        return elements_held_by_any(axes, loops)

    def staying(self, axes: Axes, loops: Loops, carries: tuple[Carry, ...], carry: Carry, cuts: Cuts, ask: Ask) -> int:
        return elements_staying(axes, loops, carry, ask)

    def unread(self, kept: Iterable[int], windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> int:
        steps = self.product(kept)
        return steps * elements_not_read(windows, cuts) if windows else steps

    def product(self, parts: Iterable[int]) -> int:
        total = 1
        for part in parts:
            total *= part
            if not total:
                break  # what comes after it is not counted
        return total

    def total(self, terms: Iterable[int]) -> int:
        return sum(terms)

    def doubt(self, amount: int) -> None:
        if amount:
            raise too_large()


def elements_held_by_any(axes: Axes, loops: Loops) -> int:
    """Return the elements of a window that at least one of the compared siblings holds, summed over steps."""
    return _listed_window(axes, loops).elements_held_by_any()


def elements_staying(axes: Axes, loops: Loops, carry: Carry, ask: Ask) -> int:
    """Return the elements of a window that stay at those steps of a carry that `ask` accepts."""
    table = _listed_window(axes, loops)
    if ask.visit is not None:
        return table.held_since(carry, ask)
    kinds = table.kinds(carry[0], moved=carry[1])
    return sum(kind.often for kind in kinds if ask.approves(kind))


def _listed_window(axes: Axes, loops: Loops) -> WindowTable:
    return window_table(tuple(Axis(*axis, places) for axis, places in zip(axes, loops, strict=True)))


_INTEGERS = IntegerFactors()


class Counter(PartialCounts[int, int]):
    """The counts of one mapping. Raises BudgetError where the closed form does not apply.

    Of a tensor with several read accesses, the compute unit reads each by itself; a level holds the union of what they
    touch (`unions`), with singles as further factors.
    """

    def __init__(self, model: WorkloadModel, machine: MachineModel, nest: LoopNestView) -> None:
        super().__init__(_INTEGERS, machine, nest)
        self.model = model
        self._refills: dict[tuple[int, int], int] = {}

    def fills(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        if tensor.union is None:
            return super().fills(tensor, parent, node, pins)
        return self._loaded_elements(
            self.node(tensor, (parent, node), Siblings.APART, pins, CountedSteps.OWN), tensor.union
        )

    def tile(self, tensor: TensorModel, node: Node) -> int:
        found = super().tile(tensor, node)
        return found if tensor.union is None else found * self.largest_union(tensor, tensor.union, node)[0]

    def largest_union(self, tensor: TensorModel, form: UnionForm, node: Node) -> tuple[int, bool]:
        """Return `unions.largest_tile` of a node."""
        return largest_tile(
            form, self._axes(self.node(tensor, (node, node), Siblings.APART, counted=CountedSteps.OWN), form)
        )

    def meet_at_an_end(self, unions: Sequence[tuple[TensorModel, UnionForm, Node]]) -> bool:
        """Return whether some choice of the first or the last tile along each dim gives all unions their largest
        tile."""
        dims = sorted({dim for _, form, _ in unions for dim in form.dims})
        ends = [
            ends_of_largest(
                form, self._axes(self.node(tensor, (node, node), Siblings.APART, counted=CountedSteps.OWN), form)
            )
            for tensor, form, node in unions
        ]
        return any(
            all(
                tuple(chosen[dims.index(dim)] for dim in form.dims) in found
                for (_, form, _), found in zip(unions, ends, strict=True)
            )
            for chosen in product((0, 1), repeat=len(dims))
        )

    def _axes(self, view: NodeCarries[int], form: UnionForm) -> UnionAxes:
        return tuple((self.nest.extents[dim], view.chains[dim]) for dim in form.dims)

    def _loaded_elements(self, view: NodeCarries[int], form: UnionForm) -> int:
        """Return the elements that siblings load: their distinct tiles over all steps, minus the kept part at each
        carry."""
        axes = self._axes(view, form)
        total = prod(view.factors_of_all_steps()) * elements_sent(form, axes, None)
        for carry, outside, values in view.carries():
            steps = prod(values.values())
            if steps:
                cuts = tuple(CarryPlace(outside[dim], dim == carry.dim) for dim in form.dims)
                total -= steps * (held_at(form, axes, cuts) - elements_sent(form, axes, cuts))
        return total

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        if tensor.union is not None:
            if node.level < 0:
                return sum(self.messages(access, parent, node, pins) for access in tensor.accesses)
            view = self.node(tensor, (parent, node), Siblings.MULTICAST, pins, CountedSteps.OWN)
            self._refuse_uneven_unions(view)
            return self._loaded_elements(view, tensor.union)
        if tensor.windows and node.level >= 0:
            self._refuse_uneven_unions(self.node(tensor, (parent, node), Siblings.MULTICAST, pins, CountedSteps.OWN))
        return super().messages(tensor, parent, node, pins)

    def _refuse_uneven_unions(self, view: NodeCarries[int]) -> None:
        """Raise BudgetError where the loads of united siblings along a single may differ in whether there is one, while
        siblings along a window share reads only where their loads are equal."""
        united = any(
            part is Part.UNITED
            for dim in view.tensor.singles
            if not self.nest.even[dim]
            for _, part, _ in view.chains[dim]
        )
        inside = [chain for axes in view.axes for _, _, chain in axes]
        inside += [view.chains[dim] for dim in (view.tensor.union.dims if view.tensor.union else ())]
        if united and any(part is Part.MERGED for chain in inside for _, part, _ in chain):
            raise too_large()

    def partial_sums_taken(self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> int:
        if number and not self.refills(tensor, nodes[number]):
            return 0
        return super().partial_sums_taken(tensor, nodes, number, pins)

    def entries_of_later_sibling(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins) -> int:
        """Return the events at which one sibling other than the first is the first of the siblings that enter.

        That sibling differs from the first along one dim only.
        """
        idle = self.idle_siblings(tensor, parent, node)
        dims = {loop.dim for loop in idle if pins[loop.position]}
        view = self.node(tensor, (parent, node), Siblings.MERGED, pins)
        filtered = view.filtered_dims()
        if len(dims) > 1 or not dims <= set(filtered):
            return 0
        target = tuple(pins[loop.position] for loop in idle)
        step_filters: dict[int, StepFilter] = {}
        unmoved: dict[int, StepFilter] = {}
        for dim in filtered:
            kinds = self._kinds_of_siblings(view, dim, idle)
            step_filters[dim] = partial(_is_first_entrant, kinds, target, own=dim in dims)
            unmoved[dim] = partial(_is_first_entrant_and_none_stops, kinds, target, own=dim in dims)
        return self.accepted_events(view, step_filters, unmoved)

    def _kinds_of_siblings(self, view: NodeCarries[int], dim: int, idle: list[Loop[int]]) -> list[tuple[int, ...]]:
        """Return the digits of the first sibling of each kind along one dim, in instance order."""
        kinds: list[tuple[int, ...]] = []
        for digits in siblings(self.nest.extents[dim], view.chains[dim]):
            at = {loop.position: digit for loop, digit in zip(self.nest.chains[dim], digits, strict=False)}
            kinds.append(tuple(at.get(loop.position, 0) for loop in idle))
        return kinds

    def is_lopsided(self, tensor: TensorModel, node: Node) -> bool:
        """Return whether the node's instances take unequal shares of partial sums, even where all tiles divide.

        That is so where siblings may hold an element at different offsets of a window, or enter it while others hold
        it.
        """
        may_differ = bool(tensor.windows) and any(
            tensor.kinds[loop.dim] is DimKind.WINDOW
            or (tensor.kinds[loop.dim] is DimKind.IDLE and not self.nest.even[loop.dim])
            for loop in self.nest.loops
            if 0 <= loop.fanout < node.fans
        )
        return may_differ and self.refills(tensor, node) > 0

    def rows(self) -> list[Row[int]]:
        """Return the rows of all tensors."""
        found: list[Row[int]] = []
        for tensor, nodes in zip(self.model.tensors, self.nest.holders, strict=True):
            found += rows_of(self, tensor, nodes, 0)
        return found

    def refills(self, tensor: TensorModel, node: Node) -> int:
        """Return the partial sums that all instances of a node of a written tensor take from their parents."""
        if (tensor.index, node.level) not in self._refills:
            nodes = self.nest.holders[tensor.index]
            self._refills |= {(row.tensor, row.level): row.fills for row in rows_of(self, tensor, nodes, 0)}
        return self._refills[tensor.index, node.level]
