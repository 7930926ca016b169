"""The least values of one workload on many machines: searched where no proof on another machine tells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel import Cost, evaluate
from polymap.inputs import as_fraction, mapping_from_document
from polymap.ir import Architecture, Mapping, MemoryLevel, Spatial, Workload
from polymap.networks.machine_order import Good, MachineOrder, machine_order
from polymap.networks.told import told_cost, told_result
from polymap.schedules import view_of
from polymap.search import among, head_document
from polymap.search.problem import objective_values, parse_single

_SETTLED = ("OPTIMAL", "INFEASIBLE", "DISMISSED")


class Provenance(Enum):
    """What an answer rests on.

    SEARCHED: a search of this run. KNOWN: an answer in the store. NEIGHBOUR: a proof on another machine and a mapping
    that attains it here. DOMINATED: nothing was sought; a proof on a better machine keeps this one off the front.
    """

    SEARCHED = "searched"
    KNOWN = "known"
    NEIGHBOUR = "neighbour"
    DOMINATED = "dismissed"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer on one machine. status: as of a search; "OPTIMAL among ..." where it is proven over some trees only,
    which says nothing of other machines. value, bound: of the objective; value is None without a mapping. seconds:
    searched. mapping: one of that value (None also where it is of a workload that computes the same with other
    loops)."""

    status: str
    value: Fraction | None
    bound: Fraction | None
    how: Provenance
    seconds: float = 0.0
    mapping: Mapping | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A mapping that some machine's answer gave. need: bits held per level, siblings used per fan-out, as
    `MachineClass.room`; values: by the prices of a machine class."""

    mapping: Mapping
    fixed: tuple[object, ...]
    need: tuple[int, ...]
    values: dict[tuple[Good, ...], Fraction]


@dataclass(slots=True)
class Column:
    """One workload and objective on all machines; numbers are of the classes of `order`."""

    workload: Workload
    objective: str
    multiplicity: int
    machines: tuple[Architecture, ...]
    order: MachineOrder
    name: str = ""
    replies: dict[int, Reply] = field(default_factory=dict[int, Reply])
    floors: dict[int, Fraction] = field(default_factory=dict[int, Fraction])
    _found: list[_Found] = field(default_factory=list[_Found])
    _first: dict[int, Architecture] = field(default_factory=dict[int, Architecture])
    _is_open: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    _document: object = None  # of the workload

    def __post_init__(self) -> None:
        for arch, number in zip(self.machines, self.order.class_of, strict=True):
            self._first.setdefault(number, arch)
        self._is_open = np.ones(len(self.order.classes), np.bool_)
        self._document = head_document("result", self.workload)["workload"]

    def arch(self, number: int) -> Architecture:
        """Return the first machine of a class."""
        return self._first[number]

    def open_classes(self) -> list[int]:
        """Return the classes without a reply."""
        return [int(number) for number in np.flatnonzero(self._is_open)]

    def next_classes(self) -> list[int]:
        """Return the open classes that no other open one is better than: what to search next. What is best there takes
        less room than there is, so that it settles many others."""
        found: list[int] = []
        for number in self.open_classes():
            better = self.order.better(number) & self._is_open
            better[number] = False
            if not better.any():
                found.append(number)
        return found

    def known_before(self, number: int) -> tuple[Mapping | None, Fraction | None]:
        """Return what a question may be told: the best mapping of others that is legal on the class's machine, and the
        greatest value that a better machine is proven to need."""
        best = self._best_known(number)
        return None if best is None else best[1], self.floors.get(number)

    def settle(self, number: int, answer: dict[str, Any], how: Provenance) -> None:
        """Take what `run_question` returned on the first machine of a class. Raises OutputError (PM703) for an answer
        whose mapping does not cost what it says."""
        status, bound = among(answer["status"], answer["space"].get("name", "")), _number(answer["bound"])
        value = mapping = None
        if answer["mapping"] is not None:
            mapping = mapping_from_document(answer["mapping"])
            if answer.get("workload", self._document) == self._document:
                value = self._learn(number, mapping, answer["value"])
            else:  # of one that computes the same with other loops: no mapping of this workload
                value, mapping = self._rewritten_value(number, mapping, answer), None
            bound = value if status == "OPTIMAL" else bound
        self._reply(number, Reply(status, value, bound, how, float(_number(answer["seconds"]) or 0), mapping))
        if status == "INFEASIBLE":
            for worse in self._worse(number):
                self._reply(worse, Reply(status, None, bound, Provenance.NEIGHBOUR))
        if status == "OPTIMAL" and value is not None:
            for worse in self._worse(number):
                self.floors[worse] = max(self.floors.get(worse, value), value)

    def infer(self) -> None:
        """Settle the open classes where a known mapping costs what a better machine's proof says is least."""
        for number in self.open_classes():
            floor = self.floors.get(number)
            if floor is None:
                continue
            attained = self._best_known(number, floor)
            if attained is not None:
                self._reply(number, Reply("OPTIMAL", floor, floor, Provenance.NEIGHBOUR, mapping=attained[1]))

    def dismiss(self, number: int) -> None:
        """Leave a class without a value; its bound is what better machines prove."""
        self._reply(number, Reply("DISMISSED", None, self.floors.get(number), Provenance.DOMINATED))

    def tightened(self, number: int) -> Reply:
        """Return the reply of a class, with the value and the bound of others where they say more."""
        reply, floor = self.replies[number], self.floors.get(number)
        if reply.status in _SETTLED:
            return reply
        value, mapping, own = reply.value, reply.mapping, reply.bound
        other, is_among = self._best_known(number), reply.status not in ("FEASIBLE", "TIMEOUT")
        if other is not None and (value is None or other[0] < value):
            value, mapping = other
        elif is_among and value != floor:
            return reply
        bounds = [each for each in (None if is_among else own, floor) if each is not None]
        bound = max(bounds, default=None)  # exact, or rounded down: what it meets is proven
        status = reply.status if value is None else "OPTIMAL" if value == bound else "FEASIBLE"
        return Reply(status, value, bound, reply.how, reply.seconds, mapping)

    def _reply(self, number: int, reply: Reply) -> None:
        self.replies[number] = reply
        self._is_open[number] = False

    def _worse(self, number: int) -> Iterable[int]:
        """Return the classes, not settled over all mappings, that the class is at least as good as; itself left out."""
        ranks, groups = self.order.ranks, self.order.groups
        found = np.all(ranks <= ranks[number], axis=1) & (groups == groups[number])
        found[number] = False
        for other in np.flatnonzero(found):
            reply = self.replies.get(int(other))
            if reply is None or reply.status not in _SETTLED:
                yield int(other)

    def _upper_bounds(self, number: int) -> list[tuple[Fraction, _Found]]:
        """Return the mappings that are known and fit the class's machine with their values there, least first."""
        machine_class = self.order.classes[number]
        found: list[tuple[Fraction, _Found]] = []
        for each in self._found:
            if each.fixed != machine_class.fixed or any(
                n > room for n, room in zip(each.need, machine_class.room, strict=True)
            ):
                continue
            if machine_class.prices not in each.values:
                arch = self._first[number]
                each.values[machine_class.prices] = self._value(arch, evaluate(self.workload, arch, each.mapping))
            found.append((each.values[machine_class.prices], each))
        return sorted(found, key=lambda pair: pair[0])

    def _best_known(self, number: int, most: Fraction | None = None) -> tuple[Fraction, Mapping] | None:
        """Return the best mapping that is known to be legal on the class's machine, with its value; None where none is,
        or none of at most `most`."""
        for value, each in self._upper_bounds(number):
            if most is not None and value > most:
                break
            if evaluate(self.workload, self._first[number], each.mapping).legal:
                return value, each.mapping
        return None

    def _learn(self, number: int, mapping: Mapping, told: object) -> Fraction:
        """Return the exact value of a mapping on the machine of a class, and remember it for others."""
        arch, machine_class = self._first[number], self.order.classes[number]
        cost, value = told_cost(self.workload, arch, self.objective, mapping, told)
        need = _need(self.workload, arch, mapping, cost)
        if not any(each.mapping == mapping for each in self._found):
            self._found.append(_Found(mapping, machine_class.fixed, need, {machine_class.prices: value}))
        return value

    def _rewritten_value(self, number: int, mapping: Mapping, answer: dict[str, Any]) -> Fraction:
        """Return the exact value of a mapping of the rewritten workload that an answer names."""
        workload = told_result(answer).workload or self.workload
        return told_cost(workload, self._first[number], self.objective, mapping, answer["value"])[1]

    def _value(self, arch: Architecture, cost: Cost) -> Fraction:
        return objective_values(self.workload, arch, parse_single(self.objective, arch), cost)[0]


def column_of(
    workload: Workload, multiplicity: int, objective: str, machines: Sequence[Architecture], name: str = ""
) -> Column:
    """Return a column of one or more machines, without replies. name: what tells it from other columns. Raises
    OptionError for an objective that some machine does not know."""
    goals = [parse_single(objective, arch) for arch in machines]
    return Column(workload, objective, multiplicity, tuple(machines), machine_order(machines, goals[0]), name)


def _need(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost) -> tuple[int, ...]:
    """Return what the mapping takes of each level (bits; the outermost: none) and fan-out (siblings), in order."""
    held = dict(cost.occupancy_bits)
    loops = view_of(workload.extents(), mapping).loops
    used = {
        fanout.name: prod(
            loop.trips for loop in loops if isinstance(loop.node, Spatial) and loop.node.fanout == fanout.name
        )
        for fanout in arch.fanouts
    }
    nodes = arch.nodes[:-1]
    return tuple(held.get(node.name, 0) if isinstance(node, MemoryLevel) else used[node.name] for node in nodes)


def _number(value: object) -> Fraction | None:
    return None if value is None else as_fraction(int(value) if isinstance(value, str) else value)
