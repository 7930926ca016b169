"""Latency in steps against every step walked: tiles as sets of addresses, pipelines as events."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, product
from math import floor, prod

import pytest

from polymap.costmodel import bounding_machine, evaluate, step_bounds, unsupported_in_steps
from polymap.costmodel.cost import StepClass
from polymap.ir import (
    Architecture,
    BudgetError,
    Compute,
    ComputeUnit,
    Fanout,
    Mapping,
    MemoryLevel,
    Multicast,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules import view_of
from polymap.workload import einsum
from tests.cases import Case, random_case

Digits = tuple[int, ...]
Address = int
START, AT_END = -1, -2
BANDS = ("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle")


@dataclass(frozen=True)
class Walk:
    """What a node of a tensor gets and gives back, (advance, address sets) per step; sender: the level that sends;
    changed: the advances that bring elements which the node has not."""

    tensor: str
    level: str
    sender: MemoryLevel
    depth: int
    loads: list[tuple[int, list[frozenset[Address]]]]
    stores: list[tuple[int, list[frozenset[Address]]]]
    changed: set[int]


def loops_of(mapping: Mapping) -> list[Temporal | Spatial]:
    return [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]


def indices(case: Case, dim: str, digits: dict[int, int]) -> frozenset[int]:
    """Return the indices of a dim where loops (by their number in the tree) stand at these digits, others anywhere."""
    parts = [range(case.workload.extents()[dim])]
    for number, loop in enumerate(loops_of(case.mapping)):
        if loop.dim == dim:
            cut = [part[low : low + loop.tile] for part in parts for low in range(0, len(part), loop.tile)]
            if number in digits:
                cut = [part[digits[number] * loop.tile :][: loop.tile] for part in parts]
            parts = [part for part in cut if len(part)]
    return frozenset(index for part in parts for index in part)


def tile(case: Case, tensor: str, digits: dict[int, int]) -> frozenset[Address]:
    """Return the addresses that the instances below touch, by rows."""
    (statement,) = case.workload.statements
    found = case.workload.tensor(tensor)
    each = {dim: indices(case, dim, digits) for dim in case.workload.extents()}
    access = next(a for a in (statement.target, *statement.reads) if a.tensor == tensor)
    if not all(each.values()):
        return frozenset()
    used = sorted({dim for index in access.index for dim in index.coefficients()})
    addresses: set[Address] = set()
    for values in product(*(sorted(each[dim]) for dim in used)):
        at, address = dict(zip(used, values, strict=True)), 0
        for axis, index in enumerate(access.index):
            place = index.constant + sum(c * at[dim] for dim, c in index.coefficients().items()) - found.origin[axis]
            address = address * found.shape[axis] + place
        addresses.add(address)
    return frozenset(addresses)


def clock_of(case: Case, depth: int) -> Iterator[tuple[int, Digits]]:
    """Yield (the loop that advanced, digits) of every step of the first `depth` temporal loops."""
    loops = loops_of(case.mapping)
    timed = [n for n, loop in enumerate(loops) if isinstance(loop, Temporal)][:depth]
    spread = {n: 0 for n, loop in enumerate(loops) if isinstance(loop, Spatial)}
    trips = [range(-(-case.workload.extents()[loops[n].dim] // loops[n].tile)) for n in timed]
    before: Digits | None = None
    for digits in product(*trips):
        at = dict(zip(timed, digits, strict=True))
        if all(indices(case, dim, spread | at) for dim in case.workload.extents()):
            moved = START if before is None else next(n for n in range(depth) if digits[n] != before[n])
            yield moved, digits
            before = digits


def walk(case: Case, node: Storage, place: int, tensor: str, sender: MemoryLevel, begins: int = 0) -> Walk:
    """Return what one node of a tensor below the sender's first instance gets and gives back. begins: the loops above
    the child of a branch in which the node stands."""
    arch, loops = case.arch, loops_of(case.mapping)
    order = {fanout.name: n for n, fanout in enumerate(arch.fanouts)}
    outer, inner = (len(arch.fanouts_above(name)) for name in (sender.name, node.level))
    above = [n for n, each in enumerate(case.mapping.nodes[:place]) if isinstance(each, Temporal)]
    depth = len(above)
    timed = [n for n, loop in enumerate(loops) if isinstance(loop, Temporal)][:depth]
    fanout_of = {n: order[loop.fanout] for n, loop in enumerate(loops) if isinstance(loop, Spatial)}
    senders = {n: 0 for n, fanout in fanout_of.items() if fanout < outer}
    spread = [n for n, fanout in fanout_of.items() if outer <= fanout < inner]
    ranges = [range(-(-case.workload.extents()[loops[n].dim] // loops[n].tile)) for n in spread]
    target = case.workload.statements[0].target.tensor == tensor
    held: dict[Digits, frozenset[Address]] = {}
    seen = set(range(prod(case.workload.tensor(tensor).shape))) if case.workload.tensor(tensor).initial else set()
    found = Walk(tensor, node.level, sender, depth, [], [], set())
    fanouts = [arch.fanouts[fanout_of[n]] for n in spread]
    for moved, digits in clock_of(case, depth):
        if START < moved < begins:  # one visit of the child ends, and another one begins
            found.stores.extend([(AT_END, list(merged(fanouts, held, added=True)))] if target else [])
            held = {}
        tiles: dict[Digits, frozenset[Address]] = {}
        for siblings in product(*ranges):
            at = senders | dict(zip((*timed, *spread), (*digits, *siblings), strict=True))
            if now := tile(case, tensor, at):
                tiles[siblings] = now
        if target:
            left = {where: held[where] - tiles.get(where, frozenset()) for where in held}
            found.stores.append((moved, list(merged(fanouts, left, added=True))))
            entered = {tuple(sorted(now - held.get(where, frozenset()))) for where, now in tiles.items()}
            found.loads.append(
                (moved, [frozenset(seen.intersection(now)) for now in entered if seen.intersection(now)])
            )
            seen |= {address for now in tiles.values() for address in now}
            held = tiles
        else:
            loads = {where: now - held.get(where, frozenset()) for where, now in tiles.items()}
            if any(loads.values()):
                found.changed.add(moved)
            if not case.arch.levels[case.arch.level_index(node.level)].keeps:
                loads = tiles
            found.loads.append((moved, list(merged(fanouts, loads, added=False))))
            held |= tiles
    if target:
        found.stores.append((AT_END, list(merged(fanouts, held, added=True))))
    return found


def merged(
    fanouts: list[Fanout], sent: dict[Digits, frozenset[Address]], *, added: bool
) -> Iterator[frozenset[Address]]:
    """Yield the messages of one step."""
    groups: dict[Digits, dict[Digits, set[Address]]] = {}
    for where, elements in sent.items():
        kinds = [
            ((Multicast.UNION if fanout.reduction else Multicast.NONE) if added else fanout.multicast, digit)
            for fanout, digit in zip(fanouts, where, strict=True)
        ]
        apart = tuple(digit for kind, digit in kinds if kind is Multicast.NONE)
        alike = tuple(digit for kind, digit in kinds if kind is Multicast.IDENTICAL)
        groups.setdefault(apart, {}).setdefault(alike, set()).update(elements)
    for united in groups.values():
        yield from {frozenset(message) for message in united.values()} - {frozenset()}


def pieces(message: frozenset[Address], bits: int, block: int, offset: int, row: int) -> int:
    """Count the aligned pieces of the runs of a message, bit by bit of where each element begins. row: the elements
    after which a run ends (0: none)."""
    if block < bits:
        return len(message) * bits // block
    return sum(begins(message, a, row) or (a * bits + offset) % block == 0 for a in message)


def begins(message: frozenset[Address], address: Address, row: int) -> bool:
    return address - 1 not in message or bool(row and address % row == 0)


def commanded(
    level: MemoryLevel, message: frozenset[Address], bits: int, row: int, command: int, *, write: bool
) -> tuple[int, int]:
    """Return the beats and requests of commands that follow each run of a row: greedy, as the accelerator's DMA is. A
    request of a load takes the smallest power of two of beats that moves most."""
    beat, limit = level.beat_bits or 1, level.request_bits
    sizes = [beat << n for n in range(20) if beat << n <= (limit or 0)]
    beats = requests = 0
    at, left = 0, 0
    for address in sorted(message):
        if begins(message, address, row) or left == 0:
            at, left = address * bits + level.base_offset_bits, command
            length = next(
                n
                for n in range(1, command // bits + 1)
                if n == command // bits or address + n not in message or begins(message, address + n, row)
            )
            end = at + length * bits
            while not write and limit and sizes and sizes[-1] == limit and at < end:
                moved = [min(size - at % size, end - at) for size in sizes]
                best = moved.index(max(moved))
                beats, requests, at = beats + sizes[best] // beat, requests + 1, at + moved[best]
            if at < end:
                beats += (end - 1) // beat - at // beat + 1
                requests += (end - 1) // limit - at // limit + 1 if limit else 1
        left -= bits
    return beats, requests


def cycles(
    case: Case, level: MemoryLevel, moved: list[tuple[str, list[frozenset[Address]]]], *, write: bool
) -> Fraction:
    """Return what the bus of a level takes for these messages."""
    band = (level.write_bandwidth_bits_per_cycle if write else level.read_bandwidth_bits_per_cycle) or (
        level.bandwidth_bits_per_cycle
    )
    beat, offset = level.beat_bits or 1, level.base_offset_bits
    total, asked = 0, 0
    for tensor, messages in moved:
        bits, shape = case.workload.tensor(tensor).bits, case.workload.tensor(tensor).shape
        row = shape[-1] if level.row_requests and shape else 0
        if command := level.write_command_bits if write else level.command_bits:
            own = [commanded(level, m, bits, shape[-1] if shape else 0, command, write=write) for m in messages]
            total, asked = total + sum(each[0] for each in own), asked + sum(each[1] for each in own)
            continue
        total += sum(pieces(message, bits, beat, offset, row) for message in messages)
        if level.request_bits is None:
            asked += sum(begins(message, address, row) for message in messages for address in message)
        else:
            asked += sum(pieces(message, bits, level.request_bits, offset, row) for message in messages)
    taken = total * beat / band if band else Fraction(0)
    if write or level.in_flight is None:
        return taken
    return max(taken, (taken + asked * level.request_latency_cycles) / level.in_flight)


def walks_of(case: Case) -> list[Walk]:
    found: list[Walk] = []
    for tensor in case.workload.tensors:
        sender = case.arch.levels[0]
        for place, node in enumerate(case.mapping.nodes):
            if isinstance(node, Storage) and tensor.name in node.tensors and node.level != case.arch.levels[0].name:
                found.append(walk(case, node, place, tensor.name, sender))
                sender = case.arch.levels[case.arch.level_index(node.level)]
    return found


def moved_by(case: Case, walks: list[Walk], advance: int, *, write: bool) -> Fraction:
    """Return the cycles of all that an advance begins, levels that send side by side."""
    by_sender: dict[str, list[tuple[str, list[frozenset[Address]]]]] = {}
    for each in walks:
        rows = [row for moved, row in (each.stores if write else each.loads) if moved == advance]
        by_sender.setdefault(each.sender.name, []).append((each.tensor, [m for row in rows for m in row]))
    levels = {level.name: level for level in case.arch.levels}
    return max((cycles(case, levels[name], rows, write=write) for name, rows in by_sender.items()), default=Fraction(0))


def taken_in_turn(case: Case, level: MemoryLevel, walks: list[Walk], advance: int) -> Fraction:
    """Return the cycles that a bus for loads and stores takes for all that an advance begins."""
    total = Fraction(0)
    for write in (False, True):
        rows = [
            (each.tensor, messages)
            for each in walks
            if each.sender.name == level.name
            for moved, messages in (each.stores if write else each.loads)
            if moved == advance
        ]
        total += cycles(case, level, rows, write=write)
    return total


def accessed(case: Case) -> Fraction:
    """Return the cycles of the accesses of statement instances, a beat for each element, at the slowest level."""
    cost = evaluate(case.workload, case.arch.without_steps(), case.mapping)
    cycles: dict[str, Fraction] = {}
    for tensor in case.workload.tensors:
        held = [n.level for n in case.mapping.nodes if isinstance(n, Storage) and tensor.name in n.tensors]
        level = case.arch.levels[case.arch.level_index(held[-1] if held else case.arch.levels[0].name)]
        if level.beat_bits is None:
            continue
        above = case.arch.fanouts_above(level.name)
        unites = any(f.multicast is Multicast.UNION for f in case.arch.fanouts if f not in above)
        instances, size = 1, dict(case.workload.extents())
        for loop in loops_of(case.mapping):
            trips = -(-size[loop.dim] // loop.tile)
            size[loop.dim] = min(size[loop.dim], loop.tile)
            instances *= trips if isinstance(loop, Spatial) and loop.fanout in [f.name for f in above] else 1
        row = next(r for r in cost.traffic if (r.level, r.tensor) == (level.name, tensor.name))
        bits = tensor.bits if unites else max(tensor.bits, level.beat_bits)
        for moved, band in (
            (row.reads - row.drains, level.read_bandwidth_bits_per_cycle),
            (row.writes - row.fills, level.write_bandwidth_bits_per_cycle),
        ):
            rate = band or level.bandwidth_bits_per_cycle
            assert rate is not None
            cycles[level.name] = cycles.get(level.name, Fraction(0)) + Fraction(moved * bits) / rate / instances
    return max(cycles.values(), default=Fraction(0))


def sends(walk: Walk, advance: int) -> bool:
    """Whether the sender gives the node anything in any step that an advance begins."""
    return any(row for moved, row in walk.loads if moved == advance)


def expected(case: Case, walks: list[Walk]) -> tuple[Fraction, dict[tuple[str, int], StepClass]]:
    """Return the run's cycles and its classes, worked out from the walked steps."""
    arch, unit = case.arch, case.arch.compute
    total = sum(isinstance(node, Temporal) for node in case.mapping.nodes)
    depths = {each.level: max(w.depth for w in walks if w.level == each.level) for each in walks}
    names = [level.name for level in arch.levels]
    stages = sorted(depths, key=lambda name: (depths[name], names.index(name)))
    counts = {depth: len(list(clock_of(case, depth))) for depth in {*depths.values(), total}}
    inner: dict[int, Fraction] = {}
    begun_inside: dict[int, int] = {}
    classes: dict[tuple[str, int], StepClass] = {}
    one_bus = [level for level in arch.levels if level.one_bus]
    turns: dict[str, dict[int, Fraction]] = {each.name: {} for each in one_bus}
    last = Fraction(0)
    for stage in reversed(stages):
        level, depth = arch.levels[arch.level_index(stage)], depths[stage]
        own = [each for each in walks if each.level == stage]
        begun: dict[int, int] = {}
        for moved, _ in clock_of(case, depth):
            begun[moved] = begun.get(moved, 0) + 1
        inside = (
            sum(begun_inside[j] * period for j, period in inner.items() if j >= depth) / counts[depth] if inner else 0
        )
        periods: dict[int, Fraction] = {}
        for each in one_bus:
            within = turns[each.name]
            often = sum((begun_inside[j] * taken for j, taken in within.items() if j >= depth), Fraction(0))
            turns[each.name] = {
                moved: taken_in_turn(case, each, own, moved) / number
                + within.get(moved, Fraction(0))
                + often / counts[depth]
                for moved, number in begun.items()
            }
        for moved, number in begun.items():
            load, store = (moved_by(case, own, moved, write=write) / number for write in (False, True))
            if inner:
                work = Fraction(inside) + inner.get(moved, Fraction(0))
            else:
                changes = any(moved in each.changed for each in walks if arch.fanouts_above(each.level) == arch.fanouts)
                stream = max(Fraction(counts[total], unit.per_cycle), accessed(case)) / counts[depth]
                work = max(stream, unit.pass_least_cycles) + unit.fill_cycles + (unit.preload_cycles if changes else 0)
            wait = max((each.sender.request_latency_cycles for each in own if sends(each, moved)), default=Fraction(0))
            slots = max(2, level.buffering) if arch.overlap else 1
            if moved == START:
                period = max(load, level.step_cycles) + wait + work
            elif slots == 1:
                period = max(load + work + store + wait, level.step_cycles)
            else:
                bus = max((taken[moved] for taken in turns.values()), default=Fraction(0))
                period = max(load, work, store, bus, level.step_cycles, (load + work + store + wait) / slots)
            periods[moved] = period
            classes[stage, moved] = StepClass(stage, "", number, load, work, store, period, "")
        inner, begun_inside = periods, begun
        last += moved_by(case, own, AT_END, write=True)
    run = sum(begun_inside[j] * period for j, period in inner.items())
    return arch.start_cycles + run + last, classes


def with_steps(case: Case, rng: random.Random) -> Case:
    """Return the case on a machine that says something of single steps."""
    bits = max(tensor.bits for tensor in case.workload.tensors)
    least = min(tensor.bits for tensor in case.workload.tensors)

    def changed(node: object) -> object:
        if isinstance(node, MemoryLevel):
            return replace(
                node,
                bandwidth_bits_per_cycle=node.bandwidth_bits_per_cycle
                if node.read_bandwidth_bits_per_cycle
                else Fraction(rng.choice([8, 16, 40])),
                step_cycles=Fraction(rng.choice([0, 0, 7])),
                beat_bits=rng.choice([None, least, bits, 4 * bits]),
                request_bits=rng.choice([None, 8 * bits]),
                base_offset_bits=rng.choice([0, bits, 3 * bits]),
                request_latency_cycles=Fraction(rng.choice([0, 3])),
                in_flight=rng.choice([None, 1, 2]),
                buffering=rng.choice([1, 2, 3]),
                keeps=node.name == case.arch.levels[0].name or rng.random() < 0.7,
            )
        if isinstance(node, ComputeUnit):
            waits = {
                name: Fraction(rng.choice([0, 5])) for name in ("pass_least_cycles", "fill_cycles", "preload_cycles")
            }
            return replace(node, **waits)
        return node

    nodes = tuple(changed(node) for node in case.arch.nodes)
    return replace(case, arch=replace(case.arch, nodes=nodes, start_cycles=Fraction(rng.choice([1, 10]))))


def row_by_row(case: Case) -> Case:
    """Return the case on the machine that asks for each row by itself."""
    nodes = (replace(node, row_requests=True) if isinstance(node, MemoryLevel) else node for node in case.arch.nodes)
    return replace(case, arch=replace(case.arch, nodes=tuple(nodes)))


def by_commands(case: Case) -> Case:
    """Return the case on the machine that loads and stores rows by commands, requests being powers of two of beats."""
    rng = random.Random(str(case.mapping))
    bits = max(tensor.bits for tensor in case.workload.tensors)

    def changed(node: MemoryLevel) -> MemoryLevel:
        command = rng.choice([None, bits, 3 * bits, 4 * bits, 8 * bits])
        beat = rng.choice([None, min(t.bits for t in case.workload.tensors), 2 * bits])
        return replace(
            node,
            beat_bits=beat,
            request_bits=rng.choice([None, 4 * bits, (beat or 1) * 8, (beat or 1) * 6]),
            command_bits=command,
            write_command_bits=rng.choice([None, command]),
        )

    nodes = (changed(node) if isinstance(node, MemoryLevel) else node for node in case.arch.nodes)
    return replace(case, arch=replace(case.arch, nodes=tuple(nodes)))


def in_turn(case: Case) -> Case:
    """Return the case on the machine whose levels load and store in turn."""
    nodes = (replace(node, one_bus=True) if isinstance(node, MemoryLevel) else node for node in case.arch.nodes)
    return replace(case, arch=replace(case.arch, nodes=tuple(nodes)))


def compared(seeds: range, changed: Callable[[Case], Case] = lambda case: case) -> tuple[int, int]:
    """Compare cases with those that are walked; return how many were, and how many classes."""
    met, seen = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        case = changed(with_steps(random_case(rng), rng))
        if unsupported_in_steps(case.workload, case.arch):
            with pytest.raises(BudgetError, match="PM485"):
                evaluate(case.workload, case.arch, case.mapping)
            continue
        try:
            cost = evaluate(case.workload, case.arch, case.mapping)
        except BudgetError as found:
            if not any(words in str(found) for words in ("idle in between", "rows are not counted")):
                raise
            continue
        assert cost.steps is not None
        plain = evaluate(case.workload, case.arch.without_steps(), case.mapping)
        assert cost.latency_cycles >= plain.latency_cycles
        assert (cost.traffic, cost.occupancy_bits) == (plain.traffic, plain.occupancy_bits)
        walks = walks_of(case)
        if not walks:
            continue
        total, classes = expected(case, walks)
        found = [[*each] for _, each in groupby(cost.steps.classes, key=lambda one: one.level)]
        told = {(own[0].level, j): one for own in found for j, one in zip(advances(case, own, walks), own, strict=True)}
        for key, one in classes.items():
            other = told[key]
            figures = ("steps", "load_cycles", "work_cycles", "store_cycles", "period_cycles")
            assert [getattr(other, name) for name in figures] == [getattr(one, name) for name in figures], (seed, key)
            seen += 1
        assert len(told) == len(classes), seed
        assert cost.steps.cycles == total, seed
        met += 1
    return met, seen


def advances(case: Case, own: list[StepClass], walks: list[Walk]) -> list[int]:
    """Return which loops' advances the classes of a level are of: in order, those that have any steps."""
    depth = max(each.depth for each in walks if each.level == own[0].level)
    return sorted({moved for moved, _ in clock_of(case, depth)})


def test_rows_that_are_asked_for_one_by_one_are_those_of_the_walked_steps() -> None:
    met, seen = compared(range(60), row_by_row)
    assert met > 8, "few cases are walked"
    assert seen > 30, "few classes are compared"


def test_commands_move_what_a_dma_moves_that_takes_the_largest_request_in_turn() -> None:
    met, seen = compared(range(60), by_commands)
    assert met > 8, "few cases are walked"
    assert seen > 30, "few classes are compared"


def test_levels_that_load_and_store_in_turn_take_what_the_walked_steps_take_together() -> None:
    assert compared(range(11844, 11845), in_turn)[0] == 1, "siblings with equal tiles, of which one was idle, load once"
    met, seen = compared(range(300, 350), in_turn)
    assert met > 12, met
    assert seen > 50, seen


def test_classes_of_steps_are_those_of_the_walked_steps() -> None:
    met, seen = compared(range(130))
    assert met > 30
    assert seen > 150


def simulated(
    loads: list[Fraction], works: list[Fraction], stores: list[Fraction], issue: Fraction, slots: int
) -> Fraction:
    """Return when the last store of a pipeline ends: loads, works, stores and issues each one after the other, a load
    once its slot is free, work after its load and issue, a store after its work."""
    issued = loaded = worked = Fraction(0)
    stored: list[Fraction] = []
    for number, (load, work, store) in enumerate(zip(loads, works, stores, strict=True)):
        issued += issue
        free = stored[number - slots] if number >= slots else Fraction(0)
        loaded = max(loaded, free) + load
        worked = max(worked, loaded, issued) + work
        stored.append(max(worked, stored[-1] if stored else Fraction(0)) + store)
    return stored[-1]


def closed(
    loads: list[Fraction], works: list[Fraction], stores: list[Fraction], issue: Fraction, slots: int
) -> Fraction:
    """Return the latency of a one-level machine whose steps take so long, by evaluate: C[i] += A[i] in tiles."""
    steps, (load, work, store) = len(loads), (int(loads[0]), int(works[0]), int(stores[0]))
    # A tile of A is `load` elements of one bit per cycle; of C `store` elements; the work is fill_cycles.
    workload = einsum("C[t,s] += A[t,l]", t=steps, s=store, l=load, bits=1)
    dram = MemoryLevel("DRAM", read_bandwidth_bits_per_cycle=Fraction(1), write_bandwidth_bits_per_cycle=Fraction(1))
    buffer = MemoryLevel("Buf", buffering=slots, step_cycles=issue)
    lanes = Fanout("X", load * store)
    unit = ComputeUnit("MAC", fill_cycles=Fraction(work - 1))
    arch = Architecture("one", (dram, buffer, lanes, unit))
    points = (Spatial("s", 1, "X"), Spatial("l", 1, "X"))
    mapping = Mapping((Temporal("t", 1), Storage("Buf", ("A", "C")), *points, Compute("S")))
    cost = evaluate(workload, arch, mapping)
    assert cost.steps is not None
    return cost.steps.cycles


@pytest.mark.parametrize("slots", [2, 3])
def test_uniform_pipelines_take_what_events_take(slots: int) -> None:
    exact = 0
    for seed in range(150):
        rng = random.Random(seed)
        load, work, store = (Fraction(rng.randint(2, 9)) for _ in range(3))
        issue, steps = Fraction(rng.choice([0, 4, 12])), rng.randint(2, 12)
        each = [[one] * steps for one in (load, work, store)]
        loads, works, stores = each
        found, truth = closed(loads, works, stores, issue, slots), simulated(loads, works, stores, issue, slots)
        bound_by_slots = (load + work + store) / slots > max(load, work, store, issue)
        if bound_by_slots:
            assert abs(found - truth) <= load + work + store, seed
        else:
            assert found == truth, seed
            exact += 1
    assert exact > 50


def test_parts_of_unlike_tiles_that_are_the_same_elements_are_one_message() -> None:
    """Of I, one holder gets 12 after 0, 4, 8, another one after 4, 8: they were counted as two messages."""
    dram = MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(8), beat_bits=8)
    nodes = (dram, Fanout("X", 4), MemoryLevel("L2"), Fanout("Z", 3), ComputeUnit("MAC"))
    tree = (Spatial("r", 2, "Z"), Spatial("r", 1, "X"), Temporal("p", 2), Spatial("p", 1, "X"))
    workload = einsum("O[p] += I[2*p+2*r] * W[r]", sizes={"p": 4, "r": 5}, bits=8)
    mapping = Mapping((*tree, Storage("L2", ("I",)), Compute("S")))
    case = Case(workload, Architecture("parts", nodes), mapping, frozenset())
    cost = evaluate(case.workload, case.arch, case.mapping)
    assert cost.steps is not None, "this machine is timed by step"
    loads = [each.load_cycles for each in cost.steps.classes]
    assert loads == [found.load_cycles for _, found in sorted(expected(case, walks_of(case))[1].items())]
    assert sum(loads) == next(row.reads for row in cost.traffic if (row.level, row.tensor) == ("DRAM", "I"))


def with_requirements(case: Case, rng: random.Random) -> Case:
    """Return the case on a machine whose levels require some of the tensors that the mapping holds there, and hold
    nothing else at times."""
    held = {node.level: node.tensors for node in case.mapping.nodes if isinstance(node, Storage)}

    def changed(node: object) -> object:
        if not isinstance(node, MemoryLevel) or node.name == case.arch.levels[0].name:
            return node
        own = held.get(node.name, ())
        must = tuple(name for name in own if rng.random() < 0.7)
        plain = replace(node, must_hold=must, holds=own if rng.random() < 0.5 else None)
        if rng.random() < 0.5 and node.beat_bits is None and node.in_flight is None:
            return replace(plain, **dict.fromkeys(BANDS))
        return plain

    return replace(case, arch=replace(case.arch, nodes=tuple(changed(node) for node in case.arch.nodes)))


def strided(rng: random.Random) -> Case:
    """Return a convolution with strides, dilations and rows that are read in part, in a random tree of two levels."""
    sizes = {dim: rng.choice([1, 2, 3, 4, 6]) for dim in "kpcr"}
    pixel = f"{rng.choice([1, 1, 2, 3])}*p+{rng.choice([1, 1, 2])}*r"
    order = rng.choice([f"I[c,{pixel}]", f"I[{pixel},c]"])
    workload = einsum(f"O[k,p] += {order} * W[k,c,r]", sizes=sizes, bits=8)
    tiles = {dim: rng.choice([size for size in range(1, full + 1) if full % size == 0]) for dim, full in sizes.items()}
    outer = [Temporal(dim, tiles[dim]) for dim in rng.sample("kpcr", 4) if tiles[dim] < sizes[dim]]
    inner = [Temporal(dim, 1) for dim in rng.sample("kpcr", 4) if tiles[dim] > 1]
    places = sorted(rng.choices(range(len(outer) + 1), k=3))
    nodes: list[object] = [*outer]
    for place, name in reversed(list(zip(places, rng.sample("OIW", 3), strict=True))):
        nodes.insert(place, Storage("Buf", (name,)))
    where = rng.randint(0, len(inner))
    registers = [Storage("Reg", ("W",))] if rng.random() < 0.7 else []
    tree = Mapping((*nodes, *inner[:where], *registers, *inner[where:], Compute("S")))  # type: ignore[arg-type]
    slow = Fraction(rng.choice([1, 2, 8]))
    dram = MemoryLevel("DRAM", read_bandwidth_bits_per_cycle=slow, write_bandwidth_bits_per_cycle=slow)
    register = MemoryLevel("Reg", capacity_bits=8 * rng.choice([1, 4, 100]), holds=("W",))
    return Case(
        workload, Architecture("two", (dram, MemoryLevel("Buf"), register, ComputeUnit("MAC"))), tree, frozenset()
    )


def demanding(case: Case, rng: random.Random) -> Case:
    """Return the case on a machine whose outermost bus moves much at once, and whose array waits for its weights."""
    outer, *inner = case.arch.nodes
    assert isinstance(outer, MemoryLevel)
    waits = Fraction(rng.choice([0, 5]))
    bus = replace(outer, beat_bits=rng.choice([None, 8, 64, 128]), request_bits=rng.choice([None, 256]), in_flight=1)
    bus = replace(bus, request_latency_cycles=waits, base_offset_bits=0)
    unit = replace(case.arch.compute, preload_cycles=Fraction(rng.choice([5, 40])))
    return replace(case, arch=replace(case.arch, nodes=(bus, *inner[:-1], unit)))


def bounded(seeds: range) -> tuple[int, int]:
    """Compare latencies in steps with those of the machine that bounds them; return how many there were, and how many
    are bounded better than by what moves in the whole run."""
    met, better = 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        case = with_steps(random_case(rng), rng) if seed % 4 == 0 else demanding(with_steps(strided(rng), rng), rng)
        case = with_requirements(case, rng)
        if seed % 3 == 0:  # what takes turns takes no less
            outer, *inner = case.arch.nodes
            assert isinstance(outer, MemoryLevel), "the outermost node"
            case = replace(case, arch=replace(case.arch, nodes=(replace(outer, one_bus=True), *inner)))
        if seed % 4 == 1:
            case = by_commands(case)
        if unsupported_in_steps(case.workload, case.arch):
            continue
        try:
            cost = evaluate(case.workload, case.arch, case.mapping)
        except BudgetError:
            continue
        if not cost.legal:
            continue
        least = evaluate(case.workload, bounding_machine(case.workload, case.arch, divides=divides(case)), case.mapping)
        assert least.latency_cycles <= cost.latency_cycles, seed
        machine = bounding_machine(case.workload, case.arch, by_steps=True, divides=divides(case))
        begun = evaluate(case.workload, machine, case.mapping)
        assert begun.latency_cycles + floor(case.arch.start_cycles) <= cost.latency_cycles, seed
        assert least.traffic == cost.traffic
        assert least.energy_pj_exact <= cost.energy_pj_exact, seed  # leakage lasts as long as the run
        met += 1
        plain = evaluate(case.workload, case.arch.without_steps(), case.mapping)
        better += least.latency_cycles > plain.latency_cycles
    return met, better


def divides(case: Case) -> bool:
    """Return whether every tile of a tree divides what it is a tile of."""
    sizes, found = case.workload.extents(), True
    for loop in view_of(case.workload.extents(), case.mapping).loops:
        found = found and sizes[loop.node.dim] % loop.tile == 0
        sizes[loop.node.dim] = loop.tile
    return found


def test_the_bounding_machine_never_takes_longer() -> None:
    met, better = bounded(range(150))
    assert met > 37
    assert better > 2


def test_waits_that_are_told_twice_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded mistake: each bit that a level holds is waited for twice as long as it takes."""
    true = step_bounds.waits_per_bit

    def twice(workload: Workload, arch: Architecture, *, divides: bool) -> dict[str, Fraction]:
        return {name: 2 * rate for name, rate in true(workload, arch, divides=divides).items()}

    monkeypatch.setattr(step_bounds, "waits_per_bit", twice)
    with pytest.raises(AssertionError):
        bounded(range(10))
