"""A second referee of the counts: the rules of docs/counting.md step by step over plain dicts and sets; no shared code.

It reads the documents (JSON) of a machine and a mapping, and one accumulation as linear forms; slow and small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

Form = tuple[dict[str, int], int]  # coefficients by dim, constant
Point = dict[str, int]
Where = tuple[int, ...]  # digits of loops: an instance, a step, an element
Place = tuple[str, str]  # tensor, level


@dataclass(frozen=True, slots=True)
class Question:
    """`output` += product of `inputs` over the box `extents`; nodes: of the machine and of the mapping, as in JSON."""

    extents: dict[str, int]
    output: tuple[str, tuple[Form, ...]]
    inputs: tuple[tuple[str, tuple[Form, ...]], ...]
    machine: list[dict[str, Any]]
    mapping: list[dict[str, Any]]
    initial: bool = False


@dataclass(slots=True)
class Walk:
    """reads, writes, fills, drains by place; `steps` maps the clock to (spatial digits, point)s."""

    question: Question
    reads: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    writes: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    fills: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    drains: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    steps: dict[Where, list[tuple[Where, Point]]] = field(default_factory=lambda: defaultdict(list))
    spatial: list[int] = field(default_factory=list[int])
    levels: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    across: dict[Place, list[int]] = field(default_factory=dict[Place, list[int]])
    tiles: dict[Place, dict[Where, dict[Where, set[Where]]]] = field(default_factory=lambda: defaultdict(dict))
    above: dict[Place, int] = field(default_factory=dict[Place, int])
    held: dict[Place, dict[Where, set[Where]]] = field(default_factory=lambda: defaultdict(dict))
    partial: dict[tuple[Place, Where], set[Where]] = field(default_factory=lambda: defaultdict(set))

    def rows(self) -> dict[Place, tuple[int, int, int, int]]:
        """Return (reads, writes, fills, drains) of every place."""
        self._lay_out()
        top = (self.question.output[0], self.levels[self.question.output[0]][0])
        if self.question.initial:
            self.partial[top, ()] = {element(self.question.output[1], p) for at in self.steps.values() for _, p in at}
        for time in sorted(self.steps):
            self._leave(time)
            for tensor, levels in self.levels.items():
                for outer, inner in pairwise(levels):
                    self._enter(tensor, outer, inner, time)
            self._compute(sorted(self.steps[time], key=lambda instance: instance[0]))
        self._leave(None)
        books = (self.reads, self.writes, self.fills, self.drains)
        places = [(tensor, level) for tensor, levels in self.levels.items() for level in levels]
        return {(level, tensor): tuple(book[tensor, level] for book in books) for tensor, level in places}  # type: ignore[misc]

    # --- who stands where ---

    def _lay_out(self) -> None:
        ask = self.question
        order = [node.get("level") or node.get("fanout") for node in ask.machine]
        nodes = list(enumerate(ask.mapping))
        self.spatial = sorted(
            (k for k, node in nodes if "par" in node), key=lambda k: (order.index(ask.mapping[k]["over"]), k)
        )
        temporal = [k for k, node in nodes if "for" in node]
        for values in product(*(range(size) for size in ask.extents.values())):
            point = dict(zip(ask.extents, values, strict=True))
            digits = self._digits(point)
            self.steps[tuple(digits[k] for k in temporal)].append((tuple(digits[k] for k in self.spatial), point))
        for name, _ in (ask.output, *ask.inputs):
            stored = {node["store"]: k for k, node in nodes if name in node.get("tensors", ())}
            stored[order[0]] = -1
            self.levels[name] = sorted(stored, key=order.index)
            for level, k in stored.items():
                place = (name, level)
                self.above[place] = sum(loop < k for loop in temporal)
                self.across[place] = [
                    j
                    for j, loop in enumerate(self.spatial)
                    if order.index(ask.mapping[loop]["over"]) < order.index(level)
                ]
                self._tile(place)

    def _digits(self, point: Point) -> dict[int, int]:
        rest, room, digits = dict(point), dict(self.question.extents), dict[int, int]()
        for k, node in enumerate(self.question.mapping):
            dim = node.get("for") or node.get("par")
            if dim:
                room[dim] = min(room[dim], node["tile"])
                digits[k], rest[dim] = divmod(rest[dim], room[dim])
        return digits

    def _tile(self, place: Place) -> None:
        accesses = [forms for name, forms in (self.question.output, *self.question.inputs) if name == place[0]]
        for time, instances in self.steps.items():
            tiles = self.tiles[place].setdefault(time[: self.above[place]], {})
            for digits, point in instances:
                tile = tiles.setdefault(self._part(digits, place), set())
                tile.update(element(forms, point) for forms in accesses)

    def _part(self, digits: Where, place: Place) -> Where:
        return tuple(digits[j] for j in self.across[place])

    def _tiles_at(self, place: Place, time: Where | None) -> dict[Where, set[Where]]:
        return {} if time is None else self.tiles[place][time[: self.above[place]]]

    def _between(self, where: Where, across: list[int], outer: Place) -> tuple[Where, dict[int, int]]:
        """Return the instance of the outer place above one, and the digits between by spatial loop."""
        digits = dict(zip(across, where, strict=True))
        return tuple(digits[j] for j in self.across[outer]), {
            j: digits[j] for j in across if j not in self.across[outer]
        }

    def _fanout(self, j: int) -> dict[str, Any]:
        name = self.question.mapping[self.spatial[j]]["over"]
        return next(node for node in self.question.machine if node.get("fanout") == name)

    # --- what moves ---

    def _leave(self, time: Where | None) -> None:
        tensor, levels = self.question.output[0], self.levels[self.question.output[0]]
        for outer, inner in reversed(list(pairwise(levels))):
            place = (tensor, inner)
            left: list[tuple[Where, Where]] = []
            for where in sorted(self.held[place]):
                gone = self.held[place][where] - self._tiles_at(place, time).get(where, set())
                assert gone <= self.partial[place, where]
                self.partial[place, where] -= gone
                self.drains[place] += len(gone)
                self.reads[place] += len(gone)
                left += [(where, each) for each in gone]
            self._arrive(left, self.across[place], (tensor, outer))

    def _arrive(self, items: Iterable[tuple[Where, Where]], across: list[int], outer: Place) -> None:
        seen: set[object] = set()
        for where, each in items:
            parent, between = self._between(where, across, outer)
            apart = tuple(digit for j, digit in between.items() if not self._fanout(j).get("reduction", True))
            if (parent, each, apart) in seen:
                continue
            seen.add((parent, each, apart))
            self.writes[outer] += 1
            self.reads[outer] += each in self.partial[outer, parent]
            self.partial[outer, parent].add(each)

    def _enter(self, tensor: str, outer: str, inner: str, time: Where) -> None:
        place, parent = (tensor, inner), (tensor, outer)
        tiles = self._tiles_at(place, time)
        fresh = {where: tiles[where] - self.held[place].get(where, set()) for where in sorted(tiles)}
        if tensor == self.question.output[0]:
            for where, news in fresh.items():
                above = (parent, self._between(where, self.across[place], parent)[0])
                moved = news & self.partial[above]
                self.partial[above] -= moved
                self.partial[place, where] |= moved
                self.reads[parent] += len(moved)
                self._fill(place, len(moved))
            self.held[place] = dict(tiles)
            return
        self.held[place].update(tiles)
        self._fill(place, sum(map(len, fresh.values())))
        self.reads[parent] += self._messages(fresh, self.across[place], parent)

    def _fill(self, place: Place, number: int) -> None:
        self.fills[place] += number
        self.writes[place] += number

    def _messages(self, loads: dict[Where, set[Where]], across: list[int], outer: Place) -> int:
        groups: dict[object, dict[object, set[Where]]] = defaultdict(lambda: defaultdict(set))
        for where, load in loads.items():
            parent, between = self._between(where, across, outer)
            kinds = {j: self._fanout(j).get("multicast", "identical") for j in between}
            apart, equal = (tuple(between[j] for j in between if kinds[j] == kind) for kind in ("none", "identical"))
            groups[parent, apart][equal] |= load
        return sum(len(each) for group in groups.values() for each in {frozenset(load) for load in group.values()})

    def _compute(self, instances: list[tuple[Where, Point]]) -> None:
        everything = list(range(len(self.spatial)))
        for name, forms in self.question.inputs:
            place = (name, self.levels[name][-1])
            self.reads[place] += self._messages({d: {element(forms, p)} for d, p in instances}, everything, place)
        name, forms = self.question.output
        self._arrive([(d, element(forms, p)) for d, p in instances], everything, (name, self.levels[name][-1]))


def element(forms: Iterable[Form], point: Point) -> Where:
    """Return the element that an access touches."""
    return tuple(sum(factor * point[dim] for dim, factor in terms.items()) + start for terms, start in forms)
