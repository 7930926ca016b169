"""What the simulator's memories hold, and the three rules by which elements move (docs/counting.md).

A place follows one of them, by what the statements below it do to its tensor. Every rule answers the same questions:
what leaves a place, also when the child of a Branch around it ends, what enters it, and what one step's compute reads
and writes. Elements move one by one; every move is entered in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from polymap.costmodel.referees.walked_tree import Clock, Coordinates, Element, Tree
from polymap.ir import Fanout, Multicast, Operator


@dataclass(frozen=True, slots=True)
class Stay:
    """When, below one instance of a place and under one position of the loops above it, an element is first read (an
    accumulation onto it counts) and first overwritten (an accumulation onto what nothing touched before counts)."""

    read: Clock | None
    overwritten: Clock | None

    @property
    def opens_with_overwriting(self) -> bool:
        return self.overwritten is not None and (self.read is None or self.overwritten < self.read)


class Copy(Enum):
    """What stands in a copy of an element: zero (nothing that anybody wrote), what stands above too, or changed."""

    ZERO = auto()
    CLEAN = auto()
    CHANGED = auto()


Tile = dict[Element, Stay]
Tiles = dict[Coordinates, Tile]
Where = tuple[int, Coordinates]  # an instance of a place: index into Tree.places, coordinates
Crossing = tuple[str, int, bool]  # tensor, fan-out, whether at the children (else at the instance above)


@dataclass(slots=True)
class Ledger:
    """Elements read, written, filled and drained, per instance of a place; those that go down and up a fan-out."""

    reads: dict[Where, int] = field(default_factory=dict[Where, int])
    writes: dict[Where, int] = field(default_factory=dict[Where, int])
    fills: dict[Where, int] = field(default_factory=dict[Where, int])
    drains: dict[Where, int] = field(default_factory=dict[Where, int])
    down: dict[Crossing, int] = field(default_factory=dict[Crossing, int])
    up: dict[Crossing, int] = field(default_factory=dict[Crossing, int])

    def read(self, where: Where, elements: int = 1) -> None:
        self.reads[where] = self.reads.get(where, 0) + elements

    def write(self, where: Where, elements: int = 1) -> None:
        self.writes[where] = self.writes.get(where, 0) + elements

    def fill(self, where: Where, elements: int = 1) -> None:
        """Elements come from the parent: they are written here."""
        self.fills[where] = self.fills.get(where, 0) + elements
        self.write(where, elements)

    def drain(self, where: Where, elements: int = 1) -> None:
        """Elements go to the parent: they are read here."""
        self.drains[where] = self.drains.get(where, 0) + elements
        self.read(where, elements)


@dataclass(slots=True)
class Store:
    """The elements of one tensor in all its places: per instance, element -> what stands in its copy.

    last_use: of a temporary tensor, when each element is read or accumulated onto last in the run; None: every element
    is needed after the run. now: the step in which elements move.
    """

    tree: Tree
    fanouts: tuple[Fanout, ...]
    ledger: Ledger
    last_use: dict[Element, Clock] | None = None
    held: dict[Where, dict[Element, Copy]] = field(default_factory=dict[Where, dict[Element, Copy]])
    now: Clock = ()

    def is_dead(self, element: Element) -> bool:
        """Return whether nothing reads the element from now on, nor accumulates onto it."""
        return self.last_use is not None and self.last_use.get(element, ()) < self.now

    def at(self, where: Where) -> dict[Element, Copy]:
        return self.held.setdefault(where, {})

    def look_at(self, where: Where, elements: Iterable[Element]) -> None:
        """Note that a copy was read: what stands in it is a value, also where nothing was written."""
        copies = self.at(where)
        for element in elements:
            if copies.get(element, Copy.ZERO) is Copy.ZERO:
                copies[element] = Copy.CLEAN

    def instances(self, place: int) -> list[Coordinates]:
        """Return the instances of the place that have held something, in instance order."""
        return sorted(coordinates for index, coordinates in self.held if index == place)

    def above(self, place: int, coordinates: Coordinates) -> Where:
        """Return the instance that an instance loads from and drains to."""
        parent = self.tree.places[place].parent
        assert parent is not None, "the outermost place has no parent"
        return parent, coordinates[: self.tree.places[parent].width]

    def messages(self, holder: int, loads: Mapping[Coordinates, frozenset[Element]]) -> dict[Coordinates, int]:
        """Return, per instance of `holder`, the elements it reads to serve what the instances below load in one step.

        Group by the coordinates along `none` fan-outs; inside a group unite the loads along `union` fan-outs; of the
        messages that result, each distinct one is read once.
        """
        return self._messages_at(self.tree.places[holder].width, loads)

    def _messages_at(self, width: int, loads: Mapping[Coordinates, frozenset[Element]]) -> dict[Coordinates, int]:
        """Return the same of instances below the first `width` fan-outs, whoever stands there."""
        groups: dict[tuple[Coordinates, Coordinates], dict[Coordinates, set[Element]]] = {}
        for coordinates, load in loads.items():
            parent = coordinates[:width]
            apart = self._along(Multicast.NONE, width, coordinates)
            alike = self._along(Multicast.IDENTICAL, width, coordinates)
            groups.setdefault((parent, apart), {}).setdefault(alike, set()).update(load)
        sizes: dict[Coordinates, int] = {}
        for (parent, _), united in groups.items():
            distinct = {frozenset(message) for message in united.values()}
            sizes[parent] = sizes.get(parent, 0) + sum(len(message) for message in distinct)
        return sizes

    def _along(self, multicast: Multicast, width: int, coordinates: Coordinates) -> Coordinates:
        return tuple(
            coordinate
            for fanout, coordinate in zip(self.fanouts[width:], coordinates[width:], strict=False)
            if fanout.multicast is multicast
        )

    def arrivals(self, holder: int, sent: Iterable[tuple[Coordinates, Element]]) -> list[tuple[Where, Element]]:
        """Return what reaches `holder`: what differs only along fan-outs that add arrives as one."""
        merged = self._merged_at(self.tree.places[holder].width, sent)
        return [((holder, parent), element) for parent, _, element in merged]

    def _merged_at(
        self, width: int, sent: Iterable[tuple[Coordinates, Element]]
    ) -> dict[tuple[Coordinates, Coordinates, Element], None]:
        merged: dict[tuple[Coordinates, Coordinates, Element], None] = {}
        for coordinates, element in sent:
            below = zip(self.fanouts[width:], coordinates[width:], strict=False)
            apart = tuple(coordinate for fanout, coordinate in below if not fanout.reduction)
            merged[coordinates[:width], apart, element] = None
        return merged

    def go_down(self, holder: int, loads: Mapping[Coordinates, frozenset[Element]], *, alone: bool = False) -> None:
        """Enter in the ledger what crosses the fan-outs between the holder and those who load; alone: unmerged."""
        for fanout, inside, width in self._fanouts_on_the_way(holder, next(iter(loads), ())):
            sizes = map(len, loads.values()) if alone else self._messages_at(width, loads).values()
            self._note(self.ledger.down, holder, (fanout, inside), sum(sizes))

    def go_up(self, holder: int, sent: Sequence[tuple[Coordinates, Element]], *, alone: bool = False) -> None:
        """The same for what is sent to the holder."""
        for fanout, inside, width in self._fanouts_on_the_way(holder, sent[0][0] if sent else ()):
            elements = len(sent) if alone else len(self._merged_at(width, sent))
            self._note(self.ledger.up, holder, (fanout, inside), elements)

    def _fanouts_on_the_way(self, holder: int, example: Coordinates) -> Iterator[tuple[int, bool, int]]:
        """Yield (fan-out, whether at its children, fan-outs above that place) on the way to instances like one."""
        for fanout in range(self.tree.places[holder].width, len(example)):
            if self.fanouts[fanout].has_energies:
                yield fanout, False, fanout
                yield fanout, True, fanout + 1

    def _note(self, book: dict[Crossing, int], holder: int, at: tuple[int, bool], elements: int) -> None:
        key = (self.tree.places[holder].tensor, *at)
        book[key] = book.get(key, 0) + elements


def _read_at(store: Store, holder: int, reads: Mapping[Coordinates, Element]) -> None:
    """One read access of the statement instances of one step, each by the compute instance of these coordinates."""
    loads = {coordinates: frozenset((element,)) for coordinates, element in reads.items()}
    store.go_down(holder, loads)
    for coordinates, load in loads.items():
        store.look_at((holder, coordinates[: store.tree.places[holder].width]), load)
    for parent, elements in store.messages(holder, loads).items():
        store.ledger.read((holder, parent), elements)


def _load(store: Store, place: int, loads: dict[Coordinates, frozenset[Element]]) -> None:
    """Each instance of the place writes what it loads; the parents read every message."""
    parent = store.tree.places[place].parent
    assert parent is not None, "the outermost place loads nothing"
    for coordinates, load in loads.items():
        store.ledger.fill((place, coordinates), len(load))
        store.look_at(store.above(place, coordinates), load)
    store.go_down(parent, loads)
    for coordinates, elements in store.messages(parent, loads).items():
        store.ledger.read((parent, coordinates), elements)


def _add(store: Store, arrivals: list[tuple[Where, Element]]) -> None:
    """Each arrival is written; where a value stands already, that is read first."""
    for where, element in arrivals:
        copies = store.at(where)
        store.ledger.write(where)
        if copies.get(element, Copy.ZERO) is not Copy.ZERO:
            store.ledger.read(where)
        copies[element] = Copy.CHANGED


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A place below which the tensor is only read: what is new is filled, an idle instance keeps what it has."""

    store: Store

    def leave(self, place: int, tiles: Tiles) -> None:
        """Nothing is said: an element that leaves is dropped when the next tile enters."""

    def release(self, place: int) -> None:
        """The child of a Branch that the place stands in has ended: all is dropped."""
        for coordinates in self.store.instances(place):
            self.store.held[place, coordinates] = {}

    def enter(self, place: int, tiles: Tiles) -> None:
        loads: dict[Coordinates, frozenset[Element]] = {}
        for coordinates, tile in tiles.items():
            held = self.store.at((place, coordinates))
            loads[coordinates] = frozenset(element for element in tile if element not in held)
            self.store.held[place, coordinates] = dict.fromkeys(tile, Copy.CLEAN)
        _load(self.store, place, loads)

    def read(self, holder: int, reads: Mapping[Coordinates, Element]) -> None:
        _read_at(self.store, holder, reads)

    def write(self, holder: int, operator: Operator, writes: Mapping[Coordinates, Element]) -> None:
        raise AssertionError("nothing below writes the tensor")


@dataclass(frozen=True, slots=True)
class PartialSums:
    """A place below which statements only accumulate, with one operator: every copy is zero or a partial sum."""

    store: Store

    def leave(self, place: int, tiles: Tiles) -> None:
        sent: list[tuple[Coordinates, Element]] = []
        for coordinates in self.store.instances(place):
            held = self.store.at((place, coordinates))
            tile = tiles.get(coordinates, {})
            for element in [element for element in held if element not in tile]:
                copy = held.pop(element)
                if self.store.is_dead(element):
                    continue
                assert copy is Copy.CHANGED, "whatever leaves was accumulated onto"
                self.store.ledger.drain((place, coordinates))
                sent.append((coordinates, element))
        parent = self.store.tree.places[place].parent
        assert parent is not None, "nothing leaves the outermost place"
        self.store.go_up(parent, sent)
        _add(self.store, self.store.arrivals(parent, sent))

    def release(self, place: int) -> None:
        """The child of a Branch that the place stands in has ended: all leaves."""
        self.leave(place, {})

    def enter(self, place: int, tiles: Tiles) -> None:
        for coordinates in sorted(tiles):
            held = self.store.at((place, coordinates))
            above = self.store.above(place, coordinates)
            copies = self.store.at(above)
            for element in tiles[coordinates]:
                if element in held:
                    continue
                held[element] = Copy.ZERO
                if copies.get(element, Copy.ZERO) is not Copy.ZERO:
                    held[element] = Copy.CHANGED
                    copies[element] = Copy.ZERO
                    self.store.ledger.read(above)
                    self.store.ledger.fill((place, coordinates))
                    self.store.go_down(above[0], {coordinates: frozenset((element,))}, alone=True)

    def read(self, holder: int, reads: Mapping[Coordinates, Element]) -> None:
        raise AssertionError("nothing below reads the tensor")

    def write(self, holder: int, operator: Operator, writes: Mapping[Coordinates, Element]) -> None:
        self.store.go_up(holder, list(writes.items()))
        _add(self.store, self.store.arrivals(holder, writes.items()))


@dataclass(frozen=True, slots=True)
class LoadedPlace:
    """Any other place: loaded unless overwritten first, drained where changed."""

    store: Store

    def leave(self, place: int, tiles: Tiles) -> None:
        for coordinates in self.store.instances(place):
            held = self.store.at((place, coordinates))
            tile = tiles.get(coordinates, {})
            above = self.store.above(place, coordinates)
            for element in [element for element in held if element not in tile]:
                if held.pop(element) is Copy.CHANGED and not self.store.is_dead(element):
                    self.store.ledger.drain((place, coordinates))
                    self.store.ledger.write(above)
                    self.store.go_up(above[0], [(coordinates, element)], alone=True)
                    self.store.at(above)[element] = Copy.CHANGED

    def release(self, place: int) -> None:
        """The child of a Branch that the place stands in has ended: all leaves."""
        self.leave(place, {})

    def enter(self, place: int, tiles: Tiles) -> None:
        loads: dict[Coordinates, frozenset[Element]] = {}
        for coordinates, tile in tiles.items():
            held = self.store.at((place, coordinates))
            new = [element for element in tile if element not in held]
            loads[coordinates] = frozenset(element for element in new if not tile[element].opens_with_overwriting)
            held.update({each: Copy.CLEAN if each in loads[coordinates] else Copy.ZERO for each in new})
        _load(self.store, place, loads)

    def read(self, holder: int, reads: Mapping[Coordinates, Element]) -> None:
        _read_at(self.store, holder, reads)

    def write(self, holder: int, operator: Operator, writes: Mapping[Coordinates, Element]) -> None:
        """An accumulation reads the element and writes it back; siblings that add on the way arrive as one."""
        self.store.go_up(holder, list(writes.items()), alone=operator is Operator.ASSIGN)
        if operator is not Operator.ASSIGN:
            _add(self.store, self.store.arrivals(holder, writes.items()))
            return
        width = self.store.tree.places[holder].width
        for coordinates, element in writes.items():
            where = holder, coordinates[:width]
            self.store.ledger.write(where)
            self.store.at(where)[element] = Copy.CHANGED


Rule = ReadOnly | PartialSums | LoadedPlace
