"""Which machines can only cost more than others: the order by which one machine's proof bounds many.

A mapping that is legal on a machine is legal on one with more capacity and larger fan-outs, where it moves the same
elements; more bandwidth, more instances per cycle and smaller energies make it no dearer. So where two machines are
equal in everything else, the least value on the better one is at most that on the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem import Objective, dependence

Good = Fraction | int | float


@dataclass(frozen=True, slots=True)
class MachineClass:
    """What the values of one objective depend on in a machine; machines equal in it have equal values.

    fixed: what must be equal for two classes to be comparable. room: capacities (after buffering) and sizes of
    fan-outs, which decide what is legal. prices: bandwidths, instances per cycle and negated energies, which decide
    what a mapping costs. More of room or prices is never worse.
    """

    fixed: tuple[object, ...]
    room: tuple[Good, ...]
    prices: tuple[Good, ...]


@dataclass(frozen=True, slots=True)
class MachineOrder:
    """The distinct machine classes and their partial order.

    class_of[machine]: the number of its class. ranks[class, field]: the rank of its room and prices among those of all
    classes. groups[class]: a number per distinct `fixed`.
    """

    class_of: tuple[int, ...]
    classes: tuple[MachineClass, ...]
    ranks: NDArray[np.int64]
    groups: NDArray[np.int64]

    def better(self, number: int) -> NDArray[np.bool_]:
        """Return a mask of the classes that are at least as good in every field; the class itself is one of them."""
        found: NDArray[np.bool_] = np.all(self.ranks >= self.ranks[number], axis=1)
        return found & (self.groups == self.groups[number])


def machine_order(machines: Sequence[Architecture], objective: Objective) -> MachineOrder:
    """Return the order of the machines under an objective of one value.

    Fields that the value does not depend on are left out: bandwidths of an energy without leakage, energies of a
    latency. Machines that differ in these alone are of one class. What is neither left out nor room nor a price is
    equal in all machines that are compared, so that a field nobody thought of costs a search, and never a value.
    """
    leaks = any(level.leak_pj_per_cycle for arch in machines for level in arch.levels)
    energy, time = dependence(objective, leaks=leaks)
    steps = time and any(arch.is_timed_by_step for arch in machines)
    told = {_Use.ENERGY: energy, _Use.TIME: time, _Use.STEPS: steps, _Use.PIECES: objective.is_of_pieces}
    used = frozenset(use for use, is_used in told.items() if is_used)
    numbers: dict[MachineClass, int] = {}
    class_of = tuple(numbers.setdefault(_machine_class(arch, used), len(numbers)) for arch in machines)
    classes = tuple(numbers)
    groups: dict[tuple[object, ...], int] = {}
    grouped = [groups.setdefault(each.fixed, len(groups)) for each in classes]
    width = max((len(each.room) + len(each.prices) for each in classes), default=0)
    rows = [(*each.room, *each.prices) for each in classes]
    padded = [(*row, *(0 for _ in range(width - len(row)))) for row in rows]
    ranks = np.zeros((len(rows), width), np.int64)
    for field in range(width):
        place = {value: rank for rank, value in enumerate(sorted({row[field] for row in padded}))}
        ranks[:, field] = [place[row[field]] for row in padded]
    return MachineOrder(class_of, classes, ranks, np.array(grouped, np.int64))


class _Use(Enum):
    """What a value may depend on."""

    ENERGY = "energies"
    TIME = "cycles of the whole run"
    STEPS = "cycles of single steps"
    PIECES = "bursts and requests"


_E, _T, _S, _P, _NEVER = {_Use.ENERGY}, {_Use.TIME}, {_Use.STEPS}, {_Use.PIECES}, set[_Use]()
_WIDTHS = "bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle"
_LEVEL_PJ = "read_pj", "write_pj", "leak_pj_per_cycle"
_WIRE_PJ = "pj_per_word", "pj_per_word_hop", "reduce_pj"
_BETTER = {**dict.fromkeys((*_WIDTHS, "per_cycle"), 1), **dict.fromkeys((*_LEVEL_PJ, *_WIRE_PJ, "pj"), -1)}
"""The prices: 1 where more is better, -1 where less is."""
_STEP_FIELDS = "step_cycles", "beat_bits", "request_latency_cycles", "in_flight", "one_bus", "keeps", "buffering"
_CACHE_FIELDS = "implicit", "line_bits", "ways", "miss_cycles", "write_miss_cycles"

_USES: dict[type, dict[str, set[_Use]]] = {
    Architecture: {"name": _NEVER, "source": _NEVER, "nodes": _NEVER, "overlap": _T, "start_cycles": _S},
    MemoryLevel: {
        **dict.fromkeys(("banks", "bank_bits", "ports", "area_um2", "area_um2_per_bit"), _NEVER),
        **dict.fromkeys(_LEVEL_PJ, _E),
        **dict.fromkeys(_WIDTHS, _T),
        **dict.fromkeys((*_STEP_FIELDS, *_CACHE_FIELDS), _S),
        **dict.fromkeys(("request_bits", "base_offset_bits", "row_requests"), _S | _P),
        "burst_bits": _P,
    },
    Fanout: {**dict.fromkeys(("kind", "start_cycles"), _NEVER), **dict.fromkeys((*_WIRE_PJ, "hops"), _E)},
    ComputeUnit: {
        **dict.fromkeys(("latency_cycles", "area_um2"), _NEVER),
        "pj": _E,
        "per_cycle": _T,
        **dict.fromkeys(("pass_least_cycles", "fill_cycles", "preload_cycles"), _S),
    },
}
"""What depends on a field: of one that is not named here everything does."""


def _machine_class(arch: Architecture, used: frozenset[_Use]) -> MachineClass:
    fixed: list[object] = []
    room: list[Good] = []
    prices: list[Good] = []
    for part in (arch, *arch.nodes):
        uses = _USES[type(part)]
        own = [each.name for each in fields(part) if each.init]  # the others follow from these
        names = [name for name in own if name not in uses or uses[name] & used]
        told = {name: getattr(part, name) for name in names}
        match part:
            case MemoryLevel():
                room.append(_unlimited(part.usable_bits))
                if not (part.implicit and _Use.STEPS in used):  # what a cache keeps decides what is late
                    del told["capacity_bits"]
                told["two"] = part.read_bandwidth_bits_per_cycle is not None and _Use.TIME in used
            case Fanout():
                room.append(part.size)
                if not (part.pj_per_word_hop and _Use.ENERGY in used):  # on a longer line words pass more links
                    del told["size"]
            case _:
                pass
        amounts = [(told.pop(name), sign) for name, sign in _BETTER.items() if name in told]
        prices += [_unlimited(amount) if sign > 0 else -amount for amount, sign in amounts]
        sets = {name: frozenset(told[name]) for name in ("holds", "must_hold", "dims") if told.get(name) is not None}
        fixed += [type(part), *(told | sets).items()]
    return MachineClass(tuple(fixed), tuple(room), tuple(prices))


def _unlimited(value: Good | None) -> Good:
    return math.inf if value is None else value
