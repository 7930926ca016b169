"""A machine without steps on which no mapping takes longer than in steps: what bounds are searched on.

Of a run in steps (docs/latency.md) every resource takes its total at least:

- a bus moves whole beats: an element of a tensor takes the beat's share of the longest contiguous run that there is;
  where tiles divide and rows move by commands, its mean share of them with the best tiles;
- before any work the first tiles come, and after all of it the last ones are stored (`waits_per_bit`);
- work is what statement instances take, and `preload_cycles` and `fill_cycles` for every step that brings other tiles
  beside the compute units: one step fills such a level once at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor, lcm, prod

import numpy as np

from polymap.costmodel.contiguous import Commands, Ints, distinct, least_commanded, unite_parts
from polymap.costmodel.step_counts import commands_of
from polymap.costmodel.tuning import TUNING
from polymap.ir import Affine, Architecture, Grain, MemoryLevel, PlaceRule, Tensor, Workload, accesses_of, rule_of
from polymap.schedules import divisors_up_to


def bounding_machine(
    workload: Workload, arch: Architecture, *, by_steps: bool = False, divides: bool = False
) -> Architecture:
    """Return the machine without steps on which each legal mapping's latency is at most that in steps.

    Its tiles, places and energies are those of `arch`. by_steps: without what moves in the whole run, which may go on
    from the start, and with what is waited for: then each latency is at most that in steps less `start_cycles` (their
    whole ones). divides: of each mapping whose tiles divide.
    For workloads whose latency in steps is counted.
    """
    nodes = list(arch.without_steps().nodes)
    if by_steps:
        none = dict.fromkeys(f"{kind}bandwidth_bits_per_cycle" for kind in ("", "read_", "write_"))
        nodes = [replace(node, **none) if isinstance(node, MemoryLevel) else node for node in nodes]
    if arch.overlap:
        levels = arch.levels[1:]
        rates = waits_per_bit(workload, arch, divides=divides) if by_steps else {}
        nodes[0] = replace(nodes[0], grains=_grains(workload, arch, even_plain=by_steps, divides=divides))
        for level in levels:
            place = arch.nodes.index(level)
            if len(arch.fanouts_above(level.name)) == len(arch.fanouts):
                plain = nodes[place]
                assert isinstance(plain, MemoryLevel), "a level without steps is a level"
                nodes[place] = _in_turn(workload, arch, level, plain)
        for place, node in enumerate(nodes):
            if isinstance(node, MemoryLevel) and node.name in rates:
                nodes[place] = replace(node, held_cycles_per_bit=rates[node.name])
    return replace(arch, nodes=tuple(nodes), start_cycles=Fraction(0))


def waits_per_bit(workload: Workload, arch: Architecture, *, divides: bool) -> dict[str, Fraction]:
    """Return of some levels the cycles, at least, in which no work is done for each bit that a mapping holds there: the
    first tiles come before any work, and the last ones are stored after all of it.

    No two of the levels hold tensors that are alike, so that what they say adds up. divides: whether tiles divide, so
    that the last ones are as large as any.
    """
    outer, found = arch.levels[0], dict[str, Fraction]()
    both, apart = outer.bandwidth_bits_per_cycle, set[str]()
    loading, storing = outer.read_bandwidth_bits_per_cycle or both, outer.write_bandwidth_bits_per_cycle or both
    for level in arch.levels[1:]:
        held = [tensor for tensor in workload.tensors if level.may_hold(tensor)]
        is_late = divides and not any(tensor.temporary for tensor in held)
        bands = {loading if _is_read(workload, tensor) else storing if is_late else None for tensor in held}
        names = {tensor.name for tensor in held}
        if level.implicit or arch.fanouts_above(level.name) or not held or names & apart:
            continue
        if None not in bands:
            found[level.name] = min(1 / band for band in bands if band is not None)  # any order: a least
            apart |= names
    return found


def _in_turn(workload: Workload, arch: Architecture, level: MemoryLevel, plain: MemoryLevel) -> MemoryLevel:
    """Return a level beside the compute units whose fills make them wait, where it holds nothing that is written.
    plain: the level without steps."""
    waits = arch.compute.preload_cycles + arch.compute.fill_cycles
    may_change = any(level.may_hold(tensor) and not _is_read(workload, tensor) for tensor in workload.tensors)
    if not level.usable_bits or not waits or plain.has_bandwidth or may_change:
        return plain
    return replace(plain, in_turn=True, write_bandwidth_bits_per_cycle=level.usable_bits / waits)


def _grains(workload: Workload, arch: Architecture, *, even_plain: bool, divides: bool) -> tuple[Grain, ...]:
    """Return what elements take of the outermost level's bus at least. even_plain: also where that is their own bits,
    of tensors whose accesses there by statement instances are counted in beats or do not occur."""
    level, found = arch.levels[0], list[Grain | None]()
    both = level.bandwidth_bits_per_cycle
    loading, storing = level.read_bandwidth_bits_per_cycle or both, level.write_bandwidth_bits_per_cycle or both
    for together in _together(workload, arch):
        in_turn = level.one_bus and _is_held_inside(arch, together[0])
        own = even_plain and level.beat_bits is None
        group = [tensor for tensor in together if not own or _is_held_inside(arch, tensor)]
        read = [tensor for tensor in group if _is_read(workload, tensor)] if loading is not None else []
        written = [tensor for tensor in group if not _is_read(workload, tensor)] if storing is not None else []
        told = {
            each: _least_asked(workload, arch, each, loads=each in read, divides=divides) for each in (*read, *written)
        }
        stores = [_BusShare(each, told[each][0], storing or both) for each in written]
        per_load = [_least_of_load(arch, each, told[each], loading or Fraction(1)) for each in read]
        for number in (0, 1):
            loads = [_BusShare(each, own[number], loading) for each, own in zip(read, per_load, strict=True)]
            found.append(_grain(loads, stores if in_turn else [], even_plain=even_plain and not number))
        if not in_turn:
            found.append(_grain([], stores, even_plain=even_plain))
    return tuple(dict.fromkeys(each for each in found if each is not None))


@dataclass(frozen=True, slots=True)
class _BusShare:
    """What an element takes of a bus: so many bits at so many a cycle."""

    tensor: Tensor
    bits: Fraction
    band: Fraction | None

    @property
    def cycles(self) -> Fraction:
        assert self.band is not None, "only what takes time is listed"
        return self.bits / self.band


def _grain(loads: list[_BusShare], stores: list[_BusShare], *, even_plain: bool) -> Grain | None:
    """Return what a bus takes for elements; None where it is no more than their own bits, each kind by itself."""
    every = [*loads, *stores]
    is_plain = not (loads and stores) and all(each.bits <= each.tensor.bits for each in every)
    if not every or (is_plain and not even_plain):
        return None
    unit = lcm(*(each.cycles.denominator for each in every))
    reads, writes = (tuple((each.tensor.name, int(each.cycles * unit)) for each in own) for own in (loads, stores))
    return Grain(reads, writes, Fraction(unit))


def _least_of_load(
    arch: Architecture, tensor: Tensor, asked: tuple[Fraction, Fraction], band: Fraction
) -> tuple[Fraction, Fraction]:
    """Return what an element that is loaded takes at least of the outermost bus: by beats, and by waits for requests,
    as bits that the bus could move meanwhile."""
    level, (beats, requests) = arch.levels[0], asked
    if level.in_flight is None or not _is_held_inside(arch, tensor):
        return beats, Fraction(0)  # statement instances that access it there ask for nothing
    return beats, (beats + requests * level.request_latency_cycles * band) / level.in_flight


def _least_asked(
    workload: Workload, arch: Architecture, tensor: Tensor, *, loads: bool, divides: bool
) -> tuple[Fraction, Fraction]:
    """Return the bits of the outermost bus that an element takes at least, and its requests: its share of the longest
    run, or of all with the best tiles."""
    level, own = arch.levels[0], Fraction(tensor.bits)
    requests = Fraction(tensor.bits, level.request_bits) if level.request_bits else Fraction(0)
    unites = any(fanout.multicast.unites_tiles for fanout in arch.fanouts)
    if unites and not _is_held_inside(arch, tensor):
        return own, requests  # statement instances may access it there, and their loads unite
    longest = _longest(workload, arch, tensor, loads=loads)
    found = max(own, (level.beat_bits or 0) / longest), max(1 / longest, requests)
    least = _by_commands(workload, arch, tensor, loads=loads) if divides else None
    if least is None:
        return found
    parts, bits = TUNING.parts_of_bits, level.beat_bits or 1
    return max(found[0], Fraction(floor(least[0] * bits * parts), parts)), max(found[1], least[1])


def _by_commands(
    workload: Workload, arch: Architecture, tensor: Tensor, *, loads: bool
) -> tuple[Fraction, Fraction] | None:
    """Return the beats and requests of commands that an element takes at least, in the mean over all loads or stores of
    tiles that divide, each as often as any other; None where it may take less, or nothing is said.

    Where siblings have parts of a dim, a tile above them may be in pieces. Along an axis of one dim these move as tiles
    of a piece do; rows of a window may then be moved as often as they may.
    """
    cut = _cut_by_commands(workload, arch, tensor, loads=loads)
    return None if cut is None else least_commanded(cut.rows, cut.others, cut.commands, cut.base)


@dataclass(frozen=True, slots=True)
class _TileCuts:
    """How tiles that divide cut a tensor: rows, others and base as `least_commanded` has them. whole: the addresses of
    all rows, per further axis."""

    rows: list[tuple[Ints, Ints]]
    others: list[list[Ints]]
    whole: list[list[Ints]]
    commands: Commands
    base: int


def _cut_by_commands(workload: Workload, arch: Architecture, tensor: Tensor, *, loads: bool) -> _TileCuts | None:
    """Return how tiles cut a tensor that moves by commands; None where some may move in other ways."""
    level, inner, extents = arch.levels[0], _next_holder(arch, tensor), workload.extents()
    commands = commands_of(level, tensor.bits, loads=loads)
    (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor.name))
    terms = [
        [(factor, extents[dim]) for dim, factor in index.coefficients().items() if extents[dim] > 1]
        for index in access.index
    ]
    moving = [dim for index in access.index for dim in index.coefficients() if extents[dim] > 1]
    kept = inner is not None and inner.keeps and max(map(len, terms), default=0) > 1  # new parts of tiles alone come
    if commands is None or inner is None or arch.fanouts_above(inner.name) or kept or len({*moving}) < len(moving):
        return None
    if not terms or any(prod(extent for _, extent in each) > TUNING.most_tiles for each in terms):
        return None
    spread = arch.fanouts_above(arch.levels[-1].name)  # loops over these stand above nodes of any level
    in_pieces = [
        len(each) > 1 and any(fanout.may_spread(dim) for fanout in spread for dim in index.dims)
        for index, each in zip(access.index, terms, strict=True)
    ]
    if in_pieces[-1]:
        return None
    tiles: list[list[tuple[Ints, Ints]]] = []
    for index, origin, each in zip(access.index, tensor.origin, terms, strict=True):
        tiles.append([(own, starts + (index - origin).constant) for own, starts in _tiles(each)])
    others, whole = list[list[Ints]](), list[list[Ints]]()
    for axis, told in enumerate(tiles[:-1]):
        rows = [np.add.outer(own, starts).reshape(-1) * prod(tensor.shape[axis + 1 :]) for own, starts in told]
        whole.append([distinct(rows[0])])
        others.append([*whole[-1][0][:, None]] if in_pieces[axis] else rows)
    return _TileCuts(tiles[-1], others, whole, commands, level.base_offset_bits * commands.units // tensor.bits)


def _tiles(terms: list[tuple[int, int]]) -> Iterator[tuple[Ints, Ints]]:
    """Yield, for all tiles of an axis that divide, the offsets of one and where they begin. terms: what its dims add to
    the index, and their extents."""
    for sizes in product(*(divisors_up_to(extent, extent) for _, extent in terms)):
        dims = list(zip(terms, sizes, strict=True))
        starts = np.zeros(1, np.int64)
        for (factor, extent), size in dims:
            starts = np.add.outer(starts, factor * np.arange(0, extent, size)).reshape(-1)
        yield unite_parts([np.arange(size) * factor for (factor, _), size in dims]), starts


def _is_read(workload: Workload, tensor: Tensor) -> bool:
    """Whether the tensor is only read. What is loaded of others are fewer than the reads that are counted: sums are
    added where they arrive."""
    return rule_of(workload, tensor.name) is PlaceRule.READ_ONLY


def _is_held_inside(arch: Architecture, tensor: Tensor) -> bool:
    """Whether statement instances surely access the tensor inside of the outermost level."""
    return any(inner.requires(tensor) for inner in arch.levels[1:])


def _together(workload: Workload, arch: Architecture) -> list[list[Tensor]]:
    """Return the tensors by the level that surely holds them next below the outermost, each that may be held in several
    by itself: only what one level gets takes turns on a bus; of one bus for all, those that some level surely holds."""
    found: dict[str, list[Tensor]] = {}
    for tensor in workload.tensors:
        if arch.levels[0].one_bus and _is_held_inside(arch, tensor):
            found.setdefault("bus", []).append(tensor)
            continue
        inner = _next_holder(arch, tensor)
        found.setdefault(f"level {inner.name}" if inner else f"tensor {tensor.name}", []).append(tensor)
    return list(found.values())


def _next_holder(arch: Architecture, tensor: Tensor) -> MemoryLevel | None:
    """Return the level that surely holds the tensor next below the outermost one; None where there may be several."""
    inner = next((level for level in arch.levels[1:] if level.may_hold(tensor)), None)
    return inner if inner is not None and inner.requires(tensor) else None


def _longest(workload: Workload, arch: Architecture, tensor: Tensor, *, loads: bool) -> Fraction:
    """Return a number of elements that contiguous runs of a tensor's loads or stores have at most in the mean: those of
    commands, where there are any."""
    level = arch.levels[0]
    command = level.command_bits if loads else level.write_command_bits
    (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor.name))
    inner = _next_holder(arch, tensor)
    of_rows = bool(command or level.row_requests)
    alone = inner is not None and not arch.fanouts_above(inner.name)
    extents, run = workload.extents(), Fraction(1)
    for index, size, origin in zip(*map(reversed, (access.index, tensor.shape, tensor.origin)), strict=True):
        own = _longest_run(index - origin, extents, size, alone=alone)
        run *= min(own, size) if of_rows else own
        if own < size or of_rows:
            break
    return run if command is None else min(run, Fraction(command, tensor.bits))


def _longest_run(index: Affine, extents: dict[str, int], size: int, *, alone: bool) -> Fraction:
    """Return a number of neighbours along an axis that runs of what is accessed have at most in the mean. index: from
    0. alone: tiles are not those of siblings, so that one with both ends of a row is the whole row."""
    factors = [(factor, extents[dim]) for dim, factor in index.coefficients().items() if extents[dim] > 1]
    if prod(extent for _, extent in factors) > TUNING.most_tiles:
        return Fraction(size)
    places = {index.constant}
    for factor, extent in factors:
        places = {place + factor * number for place in places for number in range(extent)}
    longest = run = runs = 0
    for place in sorted(places):
        run = run + 1 if place - 1 in places else 1
        runs += run == 1
        longest = max(longest, run)
    if runs == 1 or not {0, size - 1} <= places:
        return Fraction(longest)
    # The end of a row and the beginning of the next one are neighbours.
    return max(Fraction(longest), Fraction(len(places), runs - 1)) if alone else Fraction(min(size, 2 * longest))


def beats_by_rows(workload: Workload, arch: Architecture, tensor: Tensor) -> tuple[dict[int, Fraction], int]:
    """Return the beats of the outermost bus that an element takes at least by how many elements of a row a tile has, in
    the mean over all loads or stores of tiles that divide, and the beats of moving all rows once; nothing where that is
    not told."""
    cut = _cut_by_commands(workload, arch, tensor, loads=_is_read(workload, tensor))
    (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor.name))
    if cut is None or len(access.index[-1].dims) > 1:  # tiles of a window with as many elements are unlike
        return {}, 0
    found: dict[int, Fraction] = {}
    for row, starts in cut.rows:
        own = least_commanded([(row, starts)], cut.others, cut.commands, cut.base)[0]
        found[len(row)] = min((found[each] for each in found if len(row) % each == 0), default=own)
        found[len(row)] = min(found[len(row)], own)  # a tile in pieces moves as smaller ones
    once = least_commanded(cut.rows[-1:], cut.whole, cut.commands, cut.base)[0]
    return found, int(once * len(cut.rows[-1][0]) * prod(len(each[0]) for each in cut.whole))
