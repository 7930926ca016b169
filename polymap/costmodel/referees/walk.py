"""The referee: every step of a mapping walked, every element moved one by one, straight from docs/counting.md.

Nothing here is clever, and nothing is shared with the closed form or with the counting by sets. What that text
leaves open is decided here:
- A place inside a Branch is emptied whenever the child that it stands in ends; nothing is kept for the next time.
- A place follows the read-only rule if the statements below it only read the tensor, the rule of partial sums if they
  only accumulate into it, with one operator; else the plain rule, where an idle instance holds nothing either. Where
  accumulations may not be reordered, a tensor that the program also reads or sets has no places of partial sums.
- Of a tensor without initial values, an accumulation in the first step that touches an element overwrites it.
- An element of a temporary array is dead after the last step that reads it or accumulates onto it: it is dropped.
- A place on a fan-out is numbered by its spatial loops side by side, the outermost the most significant.
- The outermost level holds everything all the time: it has no peak, its occupancy is given as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from polymap.costmodel.counts import Counts, LevelUse, Traffic, WireUse
from polymap.costmodel.referees.state import (
    Copy,
    Ledger,
    LoadedPlace,
    PartialSums,
    ReadOnly,
    Rule,
    Stay,
    Store,
    Tiles,
    Where,
)
from polymap.costmodel.referees.walked_tree import (
    Clock,
    Coordinates,
    Element,
    Execution,
    HoldingNode,
    Tree,
    executions,
    resolve,
)
from polymap.ir import Architecture, Mapping, Operator, Statement, Workload

Touch = tuple[str, Element, Operator | None]  # tensor, element, how it is written (None: it is read)


def count_by_simulation(workload: Workload, arch: Architecture, mapping: Mapping) -> Counts:
    """Return the counts of a mapping that `check_mapping` accepts, by walking all its steps.

    Time and memory grow with statement instances times nodes: meant for small cases.
    """
    tree = resolve(workload, arch, mapping)
    work = executions(workload, tree)
    run = _Run.of(workload, arch, tree, work)
    steps = [(clock, list(group)) for clock, group in groupby(work, key=lambda execution: execution.clock)]
    for clock, now in steps:
        run.move(clock)
        run.measure()
        run.compute(now)
    run.finish()
    traffic, uses = run.traffic(), run.uses()
    return Counts(len(work), len(steps), traffic, uses, run.wires())


@dataclass(slots=True)
class _Run:
    """All memories while the steps are walked.

    tiles: per place and position of the loops above it, what each instance touches below. rules: per place. stands:
    per place, where these loops stand now. peaks: per (level, instance) the most bits held.
    """

    workload: Workload
    arch: Architecture
    tree: Tree
    tiles: dict[int, dict[Clock, Tiles]]
    stores: dict[str, Store]
    rules: dict[int, Rule]
    ledger: Ledger
    stands: dict[int, Clock] = field(default_factory=dict[int, Clock])
    peaks: dict[tuple[int, Coordinates], int] = field(default_factory=dict[tuple[int, Coordinates], int])

    @staticmethod
    def of(workload: Workload, arch: Architecture, tree: Tree, work: list[Execution]) -> _Run:
        ledger = Ledger()
        stores: dict[str, Store] = {}
        for tensor in workload.tensors:
            last_use = _last_uses(tree, work, tensor.name) if tensor.temporary else None
            stores[tensor.name] = Store(tree, arch.fanouts, ledger, last_use)
        rules = {index: _rule(workload, tree, index, stores[place.tensor]) for index, place in enumerate(tree.places)}
        run = _Run(workload, arch, tree, _tiles(workload, tree, work), stores, rules, ledger)
        for index, place in enumerate(tree.places):
            if place.level == 0 and workload.tensor(place.tensor).initial:
                run._start_full(index, work)
        return run

    def _start_full(self, place: int, work: list[Execution]) -> None:
        """Let every element of an initial tensor have a value at the outermost level."""
        copies = self.stores[self.tree.places[place].tensor].at((place, ()))
        for execution in work:
            for tensor, element, _ in _touches(self.tree, execution):
                if tensor == self.tree.places[place].tensor:
                    copies[element] = Copy.CLEAN

    def _below_outermost(self, tensor: str) -> list[int]:
        places = enumerate(self.tree.places)
        return [index for index, place in places if place.tensor == tensor and place.level > 0]

    def move(self, clock: Clock) -> None:
        """Let all tiles become those of a step: per tensor, leaves from the inside out, then enters back in."""
        for tensor, store in self.stores.items():
            store.now = clock
            changed = [
                place
                for place in self._below_outermost(tensor)
                if self.stands.get(place) != clock[: self.tree.places[place].depth]
            ]
            now: dict[int, Tiles] = {}
            ended: set[int] = set()
            for place in changed:
                scope, stood = self.tree.places[place].scope, self.stands.get(place, ())
                if stood[:scope] != clock[:scope]:
                    ended.add(place)
                self.stands[place] = clock[: self.tree.places[place].depth]
                now[place] = self.tiles.get(place, {}).get(self.stands[place], {})
            for place in reversed(changed):
                if place in ended:
                    self.rules[place].release(place)
                else:
                    self.rules[place].leave(place, now[place])
            for place in changed:
                self.rules[place].enter(place, now[place])

    def finish(self) -> None:
        """The end of the run: one more step in which all tiles are empty; what is temporary is dead."""
        for tensor in self.workload.tensors:
            if not tensor.temporary:
                for place in reversed(self._below_outermost(tensor.name)):
                    self.rules[place].leave(place, {})

    def measure(self) -> None:
        """Note the bits that every instance of every level below the outermost holds now."""
        bits: dict[tuple[int, Coordinates], int] = {}
        for tensor, store in self.stores.items():
            for (index, coordinates), held in store.held.items():
                level = self.tree.places[index].level
                if level > 0:
                    key = (level, coordinates)
                    bits[key] = bits.get(key, 0) + len(held) * self.workload.tensor(tensor).bits
        for key, amount in bits.items():
            self.peaks[key] = max(self.peaks.get(key, 0), amount)

    def compute(self, now: list[Execution]) -> None:
        """Run the statement instances of one step (all of one statement): first every read access, then the write."""
        leaf = self.tree.leaves[now[0].leaf]
        statement = leaf.statement
        for number, access in enumerate(statement.reads):
            reads = {execution.coordinates: execution.reads[number] for execution in now}
            holder = leaf.holders[access.tensor][-1]
            self.rules[holder].read(holder, reads)
        writes = {execution.coordinates: execution.target for execution in now}
        holder = leaf.holders[statement.target.tensor][-1]
        self.rules[holder].write(holder, statement.operator, writes)

    def traffic(self) -> tuple[Traffic, ...]:
        """Return the sums over instances, per level and tensor held there."""
        rows: list[Traffic] = []
        for index, level in enumerate(self.arch.levels):
            for tensor in self.workload.tensors:
                here = [
                    p for p, place in enumerate(self.tree.places) if (place.level, place.tensor) == (index, tensor.name)
                ]
                if here:
                    ledger = self.ledger
                    sums = [_total(book, here) for book in (ledger.reads, ledger.writes, ledger.fills, ledger.drains)]
                    rows.append(Traffic(level.name, tensor.name, *sums))
        return tuple(rows)

    def uses(self) -> tuple[LevelUse, ...]:
        """Return the most that one instance of each level holds, reads, writes, and moves in all."""
        rows: list[LevelUse] = []
        for index, level in enumerate(self.arch.levels):
            read = self._bits_by_instance(self.ledger.reads, index)
            written = self._bits_by_instance(self.ledger.writes, index)
            moved = {key: read.get(key, 0) + written.get(key, 0) for key in (*read, *written)}
            occupied = max((bits for (at, _), bits in self.peaks.items() if at == index), default=0)
            busiest = [max(book.values(), default=0) for book in (read, written, moved)]
            rows.append(LevelUse(level.name, occupied, *busiest))
        return tuple(rows)

    def wires(self) -> tuple[WireUse, ...]:
        """Return what crosses each fan-out that costs energy, tensor by tensor."""
        rows: list[WireUse] = []
        for number, fanout in enumerate(self.arch.fanouts):
            if fanout.has_energies:
                for tensor in self.workload.tensors:
                    outside, inside = (tensor.name, number, False), (tensor.name, number, True)
                    down, up = self.ledger.down, self.ledger.up
                    counted = (down.get(outside, 0), down.get(inside, 0), up.get(inside, 0), up.get(outside, 0))
                    rows.append(WireUse(fanout.name, tensor.name, *counted))
        return tuple(rows)

    def _bits_by_instance(self, book: dict[Where, int], level: int) -> dict[Coordinates, int]:
        totals: dict[Coordinates, int] = {}
        for (index, coordinates), elements in book.items():
            place: HoldingNode = self.tree.places[index]
            if place.level == level:
                bits = elements * self.workload.tensor(place.tensor).bits
                totals[coordinates] = totals.get(coordinates, 0) + bits
        return totals


def _total(book: dict[Where, int], places: list[int]) -> int:
    return sum(elements for (index, _), elements in book.items() if index in places)


def _last_uses(tree: Tree, work: list[Execution], tensor: str) -> dict[Element, Clock]:
    """Return when each element of a tensor is read or accumulated onto last. `work` is in the order of the clock."""
    return {
        element: execution.clock
        for execution in work
        for name, element, operator in _touches(tree, execution)
        if name == tensor and operator is not Operator.ASSIGN
    }


def _rule(workload: Workload, tree: Tree, place: int, store: Store) -> Rule:
    """Return the rule that a place follows."""
    tensor = tree.places[place].tensor
    below = [leaf.statement for leaf in tree.leaves if place in leaf.holders[tensor]]
    kind = _kind(below, tensor)
    if kind is PartialSums and not workload.associative:
        kind = _kind(workload.statements, tensor)
    return kind(store)


def _kind(statements: Sequence[Statement], tensor: str) -> type[Rule]:
    operators = {each.operator for each in statements if each.target.tensor == tensor}
    if not operators:
        return ReadOnly
    is_read = any(access.tensor == tensor for each in statements for access in each.reads)
    return LoadedPlace if is_read or len(operators) > 1 or Operator.ASSIGN in operators else PartialSums


def _touches(tree: Tree, execution: Execution) -> Iterable[Touch]:
    """Return what one statement instance touches; an accumulation reads its target first."""
    statement = tree.leaves[execution.leaf].statement
    for access, element in zip(statement.reads, execution.reads, strict=True):
        yield access.tensor, element, None
    yield statement.target.tensor, execution.target, statement.operator


def _starts(workload: Workload, tree: Tree, work: list[Execution]) -> set[tuple[str, Element, Clock]]:
    """Return the elements without initial values that the first step which touches them accumulates onto and does not
    read, with that step."""
    first: dict[tuple[str, Element], Clock] = {}
    others: set[tuple[str, Element]] = set()
    for execution in work:
        for tensor, element, operator in _touches(tree, execution):
            if first.setdefault((tensor, element), execution.clock) == execution.clock and operator is None:
                others.add((tensor, element))
    kept = (each for each in first if each not in others and not workload.tensor(each[0]).initial)
    return {(*each, first[each]) for each in kept}


def _tiles(workload: Workload, tree: Tree, work: list[Execution]) -> dict[int, dict[Clock, Tiles]]:
    """Return, per place, position of the temporal loops above it, and instance: every element touched below.

    `work` is in the order of the clock, so the first time noted is the earliest.
    """
    tiles: dict[int, dict[Clock, Tiles]] = {}
    starts = _starts(workload, tree, work)
    for execution in work:
        for tensor, element, operator in _touches(tree, execution):
            overwritten = operator is Operator.ASSIGN or (tensor, element, execution.clock) in starts
            for index in tree.leaves[execution.leaf].holders[tensor]:
                place = tree.places[index]
                position, coordinates = execution.clock[: place.depth], execution.coordinates[: place.width]
                tile = tiles.setdefault(index, {}).setdefault(position, {}).setdefault(coordinates, {})
                stay = tile.get(element, Stay(None, None))
                if overwritten and stay.overwritten is None:
                    tile[element] = Stay(stay.read, execution.clock)
                elif not overwritten and stay.read is None:
                    tile[element] = Stay(execution.clock, stay.overwritten)
                # else: touched in the same way before
    return tiles
