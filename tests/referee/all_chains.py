"""All chains of two tiny products through one buffer, and what each moves: written out, step by step, in sets.

It shares nothing with the counting and the search. A chain is (around, first leg, second leg), each a tuple of loops
(dim, tile) and nodes (tensor,). Around both legs stand loops over m and n. Tiles divide. What is counted: words that
the outermost level reads and writes (docs/counting.md), T being dead once it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

DIMS = {"T": "mn", "A": "mk", "B": "kn", "D": "np", "E": "mp"}
LEGS = (("T", "A", "B"), ("E", "T", "D"))  # the target first
Sizes = dict[str, int]
Item = tuple[str, int] | tuple[str]
Items = tuple[Item, ...]


def least_words(sizes: Sizes, room: int) -> int:
    """Return how many words any chain moves at least through a buffer of so many words."""
    found: list[int] = []
    for around in arounds(sizes):
        best: list[int] = []
        for number in (0, 1):
            moved = (
                words
                for leg in legs_below(sizes, around, number)
                if (words := words_of_leg(sizes, around, leg, number, room)) is not None
            )
            best.append(min(moved, default=-1))
            if best[-1] < 0:
                break
        found += [sum(best)] if best[-1] >= 0 else []
    return min(found)


def arounds(sizes: Sizes) -> Iterator[Items]:
    """Yield what may stand around both legs: nodes only right above a loop, T's right above the branch."""
    for loops in _loops({dim: sizes[dim] for dim in "mn"}, whole=False):
        places = [None, *range(len(loops))]
        for chosen in product(places, places, places, places, (False, True)):
            items: list[Item] = []
            for number, loop in enumerate(loops):
                items += [(name,) for name, place in zip("ABDE", chosen, strict=False) if place == number]
                items.append(loop)
            yield (*items, ("T",)) if chosen[-1] else tuple(items)


def _loops(sizes: Sizes, *, whole: bool) -> Iterator[Items]:
    """Yield every sequence of loops of which the tiles divide. whole: until every dim's tile is 1."""
    if not whole or all(size == 1 for size in sizes.values()):
        yield ()
    for dim, size in sizes.items():
        for tile in (tile for tile in range(1, size) if size % tile == 0):
            for rest in _loops(sizes | {dim: tile}, whole=whole):
                if not rest or rest[0][0] != dim:  # two loops over one dim in a row are one
                    yield ((dim, tile), *rest)


def legs_below(sizes: Sizes, around: Items, number: int) -> Iterator[Items]:
    """Yield what may stand below, down to single instances: loops, and nodes of tensors that are not held around."""
    inside = sizes | {item[0]: item[1] for item in around if len(item) == 2}
    held = {item[0] for item in around if len(item) == 1}
    dims = {dim for name in LEGS[number] for dim in DIMS[name]}
    free = [name for name in LEGS[number] if name not in held]
    for loops in _loops({dim: inside[dim] for dim in sorted(dims)}, whole=True):
        places = [None, *range(len(loops))]
        for chosen in product(places, repeat=len(free)):
            items: list[Item] = []
            for place, loop in enumerate(loops):
                items += [(name,) for name, own in zip(free, chosen, strict=True) if own == place]
                items.append(loop)
            yield tuple(items)


class _TooMuch(Exception):
    """The buffer is full."""


class _Run:
    """One leg below what stands around both, while the other one does nothing."""

    def __init__(self, sizes: Sizes, around: Items, leg: Items, number: int, room: int) -> None:
        self.items, self.first_inside = (*around, *leg), len(around)
        self.number, self.room, self.sizes = number, room, sizes
        self.tiles: dict[int, set] = {}  # place of a node -> what it holds
        self.outside: set = set()  # sums in the outermost level
        self.words = 0

    def go(self, place: int, box: dict[str, tuple[int, int]]) -> None:
        if place == self.first_inside:
            self.inside(place, box)
            for node in [node for node in self.tiles if node >= place]:
                self.change(node, set())
                del self.tiles[node]
        else:
            self.inside(place, box)

    def inside(self, place: int, box: dict[str, tuple[int, int]]) -> None:
        if place == len(self.items):
            self.compute(box)
            return
        item = self.items[place]
        if len(item) == 1:
            ranges = [range(*box[dim]) for dim in DIMS[item[0]]]
            self.change(place, set(product(*ranges)))
            self.go(place + 1, box)
            return
        begin, end = box[item[0]]
        for start in range(begin, end, item[1]):
            self.go(place + 1, box | {item[0]: (start, start + item[1])})

    def change(self, place: int, new: set) -> None:
        """Load and drain what a node's tile gains and loses."""
        name, old = self.items[place][0], self.tiles.get(place, set())
        for element in sorted(old - new):
            if name == LEGS[self.number][0] and not (name == "T" and place < self.first_inside):
                self.words += 1 + (element in self.outside)
                self.outside.add(element)
        for element in sorted(new - old):
            if name == LEGS[self.number][0]:
                self.words += element in self.outside
                self.outside.discard(element)
            elif name in LEGS[self.number] and not (name == "T" and place < self.first_inside):
                self.words += 1
        self.tiles[place] = new
        if sum(map(len, self.tiles.values())) > self.room:
            raise _TooMuch

    def compute(self, box: dict[str, tuple[int, int]]) -> None:
        held = {item[0] for item in self.items if len(item) == 1}
        for name in (name for name in LEGS[self.number] if name not in held):
            element = tuple(box[dim][0] for dim in DIMS[name])
            self.words += 1
            if name == LEGS[self.number][0]:
                self.words += element in self.outside
                self.outside.add(element)


def words_of_leg(sizes: Sizes, around: Items, leg: Items, number: int, room: int) -> int | None:
    """Return the words that a leg moves, with those of its tensors around both legs; None where there is no room."""
    run = _Run(sizes, around, leg, number, room)
    try:
        run.go(0, {dim: (0, size) for dim, size in sizes.items()})
        for node in list(run.tiles):
            run.change(node, set())
    except _TooMuch:
        return None
    return run.words
