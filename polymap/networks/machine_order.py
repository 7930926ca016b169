"""Which machines can only cost more than others: the order by which one machine's proof bounds many.

A mapping that is legal on a machine is legal on one with more capacity and larger fan-outs, where it moves the same
elements; more bandwidth, more instances per cycle and smaller energies make it no dearer. So where two machines are
equal in everything else, the least value on the better one is at most that on the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel, Node
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
    latency. Machines that differ in these alone are of one class.
    """
    leaks = any(level.leak_pj_per_cycle for arch in machines for level in arch.levels)
    energy, time = dependence(objective, leaks=leaks)
    numbers: dict[MachineClass, int] = {}
    class_of = tuple(
        numbers.setdefault(_machine_class(arch, energy=energy, time=time, pieces=objective.is_of_pieces), len(numbers))
        for arch in machines
    )
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


def _machine_class(arch: Architecture, *, energy: bool, time: bool, pieces: bool) -> MachineClass:
    fixed: list[object] = [arch.overlap if time else None]
    if pieces:
        outer = arch.levels[0]
        fixed.append((outer.burst_bits, outer.request_bits, outer.base_offset_bits, outer.row_requests))
    if time and arch.is_timed_by_step:  # what single steps take is not compared
        fixed.append((arch.start_cycles, *(_step_fields(node) for node in arch.nodes)))
    room: list[Good] = []
    prices: list[Good] = []
    for node in arch.nodes:
        match node:
            case MemoryLevel():
                two = node.read_bandwidth_bits_per_cycle is not None
                names = node.holds if node.holds is None else frozenset(node.holds)
                fixed += [node.name, node.word_bits, names, frozenset(node.must_hold), two and time]
                room.append(_unlimited(node.usable_bits))
                prices += _level_prices(node, energy=energy, time=time)
            case Fanout():
                dims = node.dims if node.dims is None else frozenset(node.dims)
                fixed += [node.name, node.multicast, node.reduction, dims]
                room.append(node.size)
                if energy:
                    # On a longer line each word passes more links: then sizes are not compared.
                    fixed += [node.hops, node.size] if node.pj_per_word_hop else []
                    prices += [-node.pj_per_word, -node.pj_per_word_hop, -node.reduce_pj]
            case ComputeUnit():
                fixed.append(node.name)
                prices += [node.per_cycle] if time else []
                prices += [-node.pj] if energy else []
    return MachineClass(tuple(fixed), tuple(room), tuple(prices))


def _step_fields(node: Node) -> tuple[object, ...]:
    match node:
        case MemoryLevel():
            told = node.step_cycles, node.beat_bits, node.request_bits, node.base_offset_bits, node.row_requests
            waits = node.request_latency_cycles, node.in_flight, node.one_bus, node.keeps, node.buffering
            commands = node.command_bits, node.write_command_bits
            misses = node.line_bits, node.ways, node.miss_cycles, node.write_miss_cycles
            return (
                *told,
                *commands,
                *waits,
                *(misses if node.implicit else ()),
                node.capacity_bits if node.implicit else None,
            )
        case ComputeUnit():
            return node.pass_least_cycles, node.fill_cycles, node.preload_cycles
        case Fanout():
            return ()


def _level_prices(level: MemoryLevel, *, energy: bool, time: bool) -> list[Good]:
    widths: tuple[Any, ...] = (
        level.bandwidth_bits_per_cycle,
        level.read_bandwidth_bits_per_cycle,
        level.write_bandwidth_bits_per_cycle,
    )
    found: list[Good] = [_unlimited(each) for each in widths] if time else []
    return found + ([-level.read_pj, -level.write_pj, -level.leak_pj_per_cycle] if energy else [])


def _unlimited(value: Good | None) -> Good:
    return math.inf if value is None else value
