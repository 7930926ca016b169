"""The mapping of a processor's code, chosen by the model alone: no program is run to choose it.

Two questions, each of facts of the processor. Which register tile: the one whose steps take the fewest cycles, of all
that fit the registers (register_tiles.py). Which loops around it: the ordinary search, on the processor with its
registers dealt out to the tile's sums, finds and proves the order, the tiles of the caches and what they hold that move
the least energy's worth of data. Of the best few register tiles the one is taken whose mapping is fastest.

Dims that the tile does not divide are rounded up for the search; the tree is cut to the real sizes where it is printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from polymap import ir
from polymap.codegen.cpu_caches import transfer_cycles
from polymap.codegen.cpu_machine import CpuFacts, cpu_machine, dealt_machine, facts_of
from polymap.codegen.lower import LINE_BYTES
from polymap.codegen.register_tiles import (
    MemorySteps,
    RegisterTile,
    far_reduction,
    is_scattered,
    is_streamed,
    lone_reduction,
    register_tiles,
    rows_together,
)
from polymap.codegen.tuning import TUNING
from polymap.costmodel import Cost, evaluate
from polymap.explore import search
from polymap.resources import cpu_seconds
from polymap.schedules import view_of
from polymap.search import Hints, SearchResult


@dataclass(frozen=True, slots=True)
class CpuChoice:
    """A mapping for a processor, and how it was found.

    rounded: the question whose dividing tiles it has (the workload itself where these divide). cost: of the mapping for
    it on `arch`, the processor as the machine of this question. tile: the sums in registers. transfers: cycles of
    those beside the steps, and of those that steps wait for (cpu_caches.py). busiest_share: of the work, that of the
    core with most. result: the search's answer on the processor whose registers are dealt out to the tile; None where
    another found the mapping. packed: the mapping for an operand that is packed ahead, where that is another one.
    """

    mapping: ir.Mapping
    arch: ir.Architecture
    rounded: ir.Workload
    tile: RegisterTile
    cost: Cost
    transfers: tuple[float, float]
    busiest_share: float = 1
    result: SearchResult | None = None
    packed: ir.Mapping | None = None

    @property
    def cycles(self) -> float:
        """Predicted cycles: of the register tiles, each visited as often as the loops around it cut its reductions, or
        of the data that moves beside, whichever is more; of what steps wait for, and of starting threads."""
        beside, waited = self.transfers
        again = (self.visits - 1) * self.tile.again_cycles
        steps = (self.tile.cycles + again) * self.busiest_share
        return max(steps, beside) + waited + self._starts() * facts_of(self.arch).start_cycles

    @property
    def is_fastest(self) -> bool:
        """Whether no other loops around this register tile are faster, or hardly."""
        least = self.tile.cycles * self.busiest_share + self._starts() * facts_of(self.arch).start_cycles
        return self.cycles <= least * TUNING.near_best

    @property
    def visits(self) -> int:
        """How often each register tile is loaded and stored: trips of loops over reductions outside of its sums."""
        (statement,) = self.rounded.statements
        own = {dim for index in statement.target.index for dim in index.dims}
        loops = self._loops_outside_sums(statement.target.tensor)
        return prod(trips for node, trips in loops if node.dim not in own)

    def _starts(self) -> int:
        """Return how often a loop over the cores begins: trips of the loops around it."""
        cores = {fanout.name for fanout in self.arch.fanouts if fanout.kind is ir.FanoutKind.CORE}
        starts = 1
        for node, trips in self._loops_outside_sums(self.rounded.statements[0].target.tensor):
            if isinstance(node, ir.Spatial) and node.fanout in cores:
                return starts
            starts *= trips
        return 0

    def _loops_outside_sums(self, output: str) -> list[tuple[ir.Temporal | ir.Spatial, int]]:
        """Return the loops around the registers' node of the output with their trips, outermost first."""
        view, innermost = view_of(self.rounded.extents(), self.mapping), self.arch.levels[-1].name
        own = (each for each in view.storages if each.node.level == innermost and output in each.node.tensors)
        registers = next(own, None)
        return [(each.node, each.trips) for each in (view.loops if registers is None else registers.loops)]

    @property
    def threads(self) -> int:
        """Cores that the mapping uses."""
        cores = {fanout.name for fanout in self.arch.fanouts if fanout.kind is ir.FanoutKind.CORE}
        return self._instances_in_use(cores)

    def _instances_in_use(self, fanouts: set[str]) -> int:
        """Return how many instances of some fan-outs the mapping uses."""
        loops = view_of(self.rounded.extents(), self.mapping).loops
        return prod(each.trips for each in loops if isinstance(each.node, ir.Spatial) and each.node.fanout in fanouts)


def choose_cpu_mapping(
    workload: ir.Workload,
    arch: ir.Architecture,
    vector_dims: tuple[str, ...],
    *,
    steps: MemorySteps | None = None,
    threads: int = 1,
    time_limit_s: float | None = None,
    clock: Callable[[], float] | None = None,
) -> CpuChoice | None:
    """Return the mapping that a processor's code is printed from; None where none was found.

    vector_dims: dims of the output along which all arrays are contiguous or packed, the best of equally fast ones
    first. steps: bytes between neighbours in memory, per tensor and dim; without them nothing is known of the arrays.
    time_limit_s: wall time after which what is found is the answer (None: 15 seconds of CPU time); most layers take a
    second or two, and their answers do not depend on the clock.
    Raises ArchError for machines that are no processors.
    """
    facts = facts_of(arch)
    target = workload.tensor(workload.statements[0].target.tensor)
    lanes = facts.vector_bits // target.bits
    clock = clock or (cpu_seconds if time_limit_s is None else time.monotonic)
    time_limit_s = TUNING.cpu_s if time_limit_s is None else time_limit_s
    end = clock() + time_limit_s
    found: list[CpuChoice] = []
    near, others = _tiles_to_try(workload, facts, vector_dims, lanes, steps, threads)
    for number, tile in enumerate((*near, *others)):
        left = (end - clock()) / max(1, len(near) - number)
        if found and (number >= len(near) or left < TUNING.least_share * time_limit_s):
            break
        left = max(left, TUNING.first_share * time_limit_s)
        limit = clock, clock() + left, left
        scattered = is_scattered(workload, tile.vector, steps or {})
        choice = _choice(workload, arch, facts, tile, lanes, threads, limit, is_scattered=scattered)
        if choice is not None:
            found.append(choice)
    best = min(found, key=lambda each: (each.cycles, each.cost.energy_pj), default=None)
    far = None if best is None or best.visits > 1 else far_reduction(workload, facts, best.tile, steps or {})
    if best is None or far is None or not _keeps_order(workload, {*_reductions(workload)} - {far[0]}):
        return best
    return _with_far_rows_together(best, arch, *far, threads)


def _with_far_rows_together(choice: CpuChoice, arch: ir.Architecture, far: str, rows: int, threads: int) -> CpuChoice:
    """Return the choice with few rows at a time of an operand that is read where it lies, as in _with_rows_together:
    a strip of all rows is on as many pages as it has rows. far: the reduction along which they lie apart."""
    nodes, machine = choice.mapping.nodes, choice.arch
    at = next((at for at, node in enumerate(nodes) if isinstance(node, ir.Temporal) and node.dim != far), None)
    if at is None:
        return choice
    mapping = ir.Mapping((*nodes[:at], ir.Temporal(far, rows), *nodes[at:]))
    cost = evaluate(choice.rounded, machine, mapping)
    return replace(
        choice,
        mapping=mapping,
        packed=choice.mapping,
        cost=cost,
        transfers=transfer_cycles(choice.rounded, arch, machine, mapping, threads),
    )


def _tiles_to_try(
    workload: ir.Workload,
    facts: CpuFacts,
    vector_dims: Sequence[str],
    lanes: int,
    steps: MemorySteps | None,
    threads: int,
) -> tuple[list[RegisterTile], list[RegisterTile]]:
    """Return the few tiles whose cycles on the core with the most of them are nearly the fewest, the best first, and
    the best of each vector dim, for where no loops are found around these."""

    def cycles(tile: RegisterTile) -> float:
        rounded = _with_whole_tiles(workload, tile, lanes, threads)
        return tile.cycles * _busiest_share(workload, rounded, _split_over_cores(rounded, tile, lanes, threads))

    by_dim = [register_tiles(workload, facts, vector, lanes, steps) for vector in vector_dims]
    if not by_dim:
        return [], []
    tiles = sorted((tile for each in by_dim for tile in each), key=lambda tile: round(tile.cycles))
    if threads > 1:
        likely = [tile for tile in tiles if tile.cycles <= tiles[0].cycles * threads]
        tiles = sorted(likely, key=lambda tile: round(cycles(tile)))
    near = [tile for tile in tiles if cycles(tile) <= cycles(tiles[0]) * TUNING.near_best]
    # Along a dim of every operand tiles read more and use nothing twice.
    shared = set[str].intersection(*({*access.dims} for access in workload.statements[0].reads))
    near = [tile for tile in near if shared.isdisjoint(dict(tile.sizes))] or near
    return near[: TUNING.tiles_tried], [each[0] for each in by_dim]


def plain_mapping(workload: ir.Workload, arch: ir.Architecture, steps: MemorySteps) -> ir.Mapping:
    """Return the loops of one statement in the order written, all data in the outermost level; innermost is the loop
    whose neighbouring iterations read and write the fewest bytes of other lines.

    steps: bytes between neighbours in memory, per tensor and dim.
    """
    (statement,) = workload.statements
    own = {dim for index in statement.target.index for dim in index.dims}
    dims = [dim.name for dim in workload.dims]
    apart = {dim: sum(min(abs(each.get(dim, 0)), LINE_BYTES) for each in steps.values()) for dim in dims}
    # Accumulations that may not be reordered keep the order of their reductions.
    last = [dim for dim in dims if workload.associative or dim in own or dim == dims[-1]]
    slides = any(len(index.dims) > 1 for access in statement.reads for index in access.index)
    short = [d for d in last if workload.extents()[d] < TUNING.innermost_iterations and (slides or d in own)]
    inner = min(reversed(last), key=lambda dim: (dim in short, apart[dim]))
    nodes: list[ir.MappingNode] = [ir.Storage(arch.levels[0].name, tuple(tensor.name for tensor in workload.tensors))]
    nodes += [ir.Temporal(dim, 1) for dim in (*(dim for dim in dims if dim != inner), inner)]
    return ir.Mapping((*nodes, ir.Compute(statement.name)))


def _choice(
    workload: ir.Workload,
    arch: ir.Architecture,
    facts: CpuFacts,
    tile: RegisterTile,
    lanes: int,
    threads: int,
    limit: tuple[Callable[[], float], float, float],
    *,
    is_scattered: bool,
) -> CpuChoice | None:
    """limit: the clock, when time is over by it, and the seconds until then."""
    rounded = _with_whole_tiles(workload, tile, lanes, threads)
    bits = workload.tensor(workload.statements[0].target.tensor).bits
    machine = cpu_machine(rounded, arch, (tile.vector,), threads, bits)
    counts = {tile.vector: tile.slots, **dict(tile.sizes)}
    output = rounded.statements[0].target.tensor
    own = {dim for index in rounded.statements[0].target.index for dim in index.dims}
    dealt, names = dealt_machine(machine, facts, counts, output, bits)
    factors = {names[dim]: {"factors": {dim: count}} for dim, count in counts.items()}
    factors[facts.lane] = {"factors": {tile.vector: lanes}}
    split = _split_over_cores(rounded, tile, lanes, threads)
    if split is not None and facts.core is not None:
        factors[facts.core] = {"factors": split}
    rules: dict[str, object] = {"fanouts": factors, "store": {facts.registers_level: {"must": [output]}}}
    if is_streamed(rounded, tile.vector):  # neighbouring vectors one after the other, as memory delivers them
        outer = [dim for dim, count in rounded.extents().items() if count > 1 and dim in own and dim != tile.vector]
        rules |= {"order": [*outer, tile.vector]} if outer else {}
    found: list[CpuChoice] = []
    clock, end, seconds = limit
    for kept in _kept_whole(rounded, is_scattered=is_scattered):
        if not _keeps_order(workload, kept):
            continue
        if found and (not kept or found[0].is_fastest):
            break
        windows = {"intrinsic": {dim: rounded.extents()[dim] for dim in kept}} if kept else {}
        left = max(end - clock(), TUNING.least_share * seconds)
        result = _loops_around_tile(rounded, dealt, {**rules, **windows}, left, clock)
        if result.best is not None and _is_one_row(result.best, {facts.lane, *names.values()}):
            mapping = _with_registers(result.best, rounded, machine, facts, set(names.values()), counts, tile.vector)
            mapping = _with_rows_together(mapping, rounded, tile.vector, rows_together(workload, facts, tile.vector))
            mapping = _with_cores_outside(mapping, rounded, facts.core)
            cost = evaluate(rounded, machine, mapping)
            transfers = transfer_cycles(rounded, arch, machine, mapping, threads)
            share = _busiest_share(workload, rounded, split)
            found.append(CpuChoice(mapping, machine, rounded, tile, cost, transfers, share, result))
    return min(found, key=lambda each: (each.cycles, each.cost.energy_pj), default=None)


def _kept_whole(rounded: ir.Workload, *, is_scattered: bool) -> list[list[str]]:
    """Return the reductions that stay in one piece, the ways that are tried in their order: all, so that sums leave
    their registers once; the windows; none.

    Sums whose lanes lie apart in memory are written there once: to add to them takes a step per lane, twice.
    """
    near = _reductions(rounded)
    ways = [near, [] if is_scattered else _windows(rounded), []]
    return [way for number, way in enumerate(ways) if way not in ways[:number]]


def _reductions(workload: ir.Workload) -> list[str]:
    """Return the dims of more than one index over which sums run, in the order of the text."""
    (statement,) = workload.statements
    own = {dim for index in statement.target.index for dim in index.dims}
    return [dim for dim in statement.dims if dim not in own and workload.extents()[dim] > 1]


def _keeps_order(workload: ir.Workload, kept: Collection[str]) -> bool:
    """Return whether sums are added up as they may be where the loops of all reductions but some may be cut: in the
    order of the text only the outermost one is."""
    return workload.associative or all(dim in kept for dim in _reductions(workload)[1:])


def _loops_around_tile(
    workload: ir.Workload,
    machine: ir.Architecture,
    rules: dict[str, object],
    time_limit_s: float,
    clock: Callable[[], float],
) -> SearchResult:
    return search(
        workload,
        machine,
        "energy",
        tiles="divide",
        constraints=rules,
        time_limit_s=time_limit_s,
        work_limit=TUNING.work_limit,
        clock=clock,
        hints=Hints(counts_space=False),
    )


def _windows(workload: ir.Workload) -> list[str]:
    """Return the reductions that slide over an operand, such as the taps of a filter: they are short, neighbouring
    results share what they read, and code that leaves out padding wants all of them in one place."""
    (statement,) = workload.statements
    own = {dim for index in statement.target.index for dim in index.dims}
    slid = [index.dims for access in statement.reads for index in access.index if len(index.dims) > 1]
    found = dict.fromkeys(dim for dims in slid for dim in dims if dim not in own)
    return [dim for dim in found if workload.extents()[dim] > 1]


def _split_over_cores(rounded: ir.Workload, tile: RegisterTile, lanes: int, threads: int) -> dict[str, int] | None:
    """Return the dim that is dealt to the cores: the output's with the most tiles, in even parts."""
    if threads == 1:
        return None
    extents = rounded.extents()
    units = {**dict(tile.sizes), tile.vector: tile.slots * lanes}
    own = {dim for index in rounded.statements[0].target.index for dim in index.dims}
    counts = {dim: extents[dim] // units.get(dim, 1) for dim in extents if dim in own}
    whole = [dim for dim, count in counts.items() if count % threads == 0]
    return {max(whole, key=lambda dim: (dim == tile.vector, counts[dim])): threads} if whole else None


def _busiest_share(workload: ir.Workload, rounded: ir.Workload, split: dict[str, int] | None) -> float:
    """Return how much of the work the core has that gets the most: whole register tiles are dealt out."""
    if not split:
        return 1
    ((dim, threads),) = split.items()
    extent = workload.extents()[dim]
    return min(rounded.extents()[dim] // threads, extent) / extent


def _is_one_row(mapping: ir.Mapping, fanouts: set[str]) -> bool:
    """Return whether no storage node stands between spatial loops over some fan-outs."""
    places = [n for n, node in enumerate(mapping.nodes) if isinstance(node, ir.Spatial) and node.fanout in fanouts]
    return not any(isinstance(node, ir.Storage) for node in mapping.nodes[min(places) : max(places)])


def _with_registers(
    mapping: ir.Mapping,
    workload: ir.Workload,
    machine: ir.Architecture,
    facts: CpuFacts,
    dealt: set[str],
    counts: dict[str, int],
    vector: str,
) -> ir.Mapping:
    """Return the tree with the sums as one tile of the registers, and what a step reads held beside them.

    Rewrite:
        par q over reg_q { REG: O; for c { S } }   ->   REG: O; for c { REG: W; for q { REG: I; for k { S } } }
    """
    (statement,) = workload.statements
    nodes = _loops_outside(mapping, workload, {facts.lane, *dealt}, ir.Spatial(vector, counts[vector], facts.lane))
    compute = nodes.pop()
    others = [dim for dim, count in counts.items() if dim != vector and count > 1]
    inner: list[ir.MappingNode] = []
    reads = list(dict.fromkeys(access.tensor for access in statement.reads))
    early = [
        name for name in reads if name in _with_dim(workload, vector) and not set(_dims(workload, name)) & set(others)
    ]
    if early:
        inner.append(ir.Storage(facts.registers_level, tuple(early)))
    inner += [ir.Temporal(dim, 1) for dim in others]
    late = [name for name in reads if name not in early]
    if late:
        inner.append(ir.Storage(facts.registers_level, tuple(late)))
    if counts[vector] > 1:
        inner.append(ir.Temporal(vector, 1))
    return ir.Mapping((*nodes, *inner, compute))


def _with_rows_together(mapping: ir.Mapping, workload: ir.Workload, vector: str, rows: int | None) -> ir.Mapping:
    """Return the tree with few rows of a matrix at a time, each read to its end, where every row is read once and by
    one reduction alone: the memory delivers rows faster than pieces of them, and the sums stay in the first cache.
    rows: of a large matrix.

    Rewrite:
        for n { REG: y; for k { S } }   ->   for k in steps of 4 { for n { REG: y; for k { S } } }
    """
    reduction = lone_reduction(workload, vector)
    loops = [at for at, node in enumerate(mapping.nodes) if isinstance(node, ir.Temporal)]
    if reduction is None or not loops:
        return mapping
    first = mapping.nodes[loops[0]]
    if not isinstance(first, ir.Temporal) or first.dim != vector:
        return mapping
    at = loops[0]
    return ir.Mapping((*mapping.nodes[:at], ir.Temporal(reduction, rows or TUNING.rows_together), *mapping.nodes[at:]))


def _with_cores_outside(mapping: ir.Mapping, workload: ir.Workload, core: str | None) -> ir.Mapping:
    """Return the tree with the loop over the cores before the loops right around it, so that threads start less often:
    each core has the same tiles as before, in the same order.

    Rewrite:
        for n { par m over core { S } }      ->   par m over core { for n { S } }
        for g { par g over core (2) { S } }  ->   par g over core (2 halves) { for g { S } }
    """
    nodes = list(mapping.nodes)
    at = next((n for n, node in enumerate(nodes) if isinstance(node, ir.Spatial) and node.fanout == core), None)
    if at is None:
        return mapping
    first = at
    while first and isinstance(nodes[first - 1], ir.Temporal):
        first -= 1
    left = dict(workload.extents())
    for node in nodes[:first]:
        if isinstance(node, ir.Temporal | ir.Spatial):
            left[node.dim] = min(left[node.dim], node.tile)
    spread, inside = nodes[at], dict(left)
    assert isinstance(spread, ir.Spatial)
    for node in nodes[first:at]:
        assert isinstance(node, ir.Temporal)
        inside[node.dim] = min(inside[node.dim], node.tile)
    parts = ceil(inside[spread.dim] / spread.tile)
    whole = left[spread.dim] // parts
    moved = [
        ir.Temporal(node.dim, node.tile // parts) if isinstance(node, ir.Temporal) and node.dim == spread.dim else node
        for node in nodes[first:at]
    ]
    return ir.Mapping((*nodes[:first], ir.Spatial(spread.dim, whole, spread.fanout), *moved, *nodes[at + 1 :]))


def _loops_outside(
    mapping: ir.Mapping, workload: ir.Workload, fanouts: set[str], lanes: ir.Spatial
) -> list[ir.MappingNode]:
    """Return the nodes with the spatial loops over some fan-outs, which stand in one row, replaced by the one over the
    lanes, and the loops among and behind these brought before them: the same steps on tiles of the same sizes. Loops
    right above the sums which these do not depend on come below: the sums stay in registers.

    Rewrite:
        par q in 14 { for q in 2 { REG: O } }   ->   for q in 2 { par q in 14 { REG: O } }
        for c { par k over lane { REG: O } }    ->   par k over lane { REG: O; for c }
    """
    nodes = list(mapping.nodes)
    places = [number for number, node in enumerate(nodes) if isinstance(node, ir.Spatial) and node.fanout in fanouts]
    first = min(places)
    last = next(number for number in range(first, len(nodes)) if isinstance(nodes[number], ir.Storage))
    at_start = dict(workload.extents())
    for node in nodes[:first]:
        if isinstance(node, ir.Temporal | ir.Spatial):
            at_start[node.dim] = min(at_start[node.dim], node.tile)
    tile, moved = dict(at_start), list[ir.MappingNode]()
    for node in nodes[first:last]:
        assert isinstance(node, ir.Temporal | ir.Spatial)
        if isinstance(node, ir.Temporal):
            at_start[node.dim] //= tile[node.dim] // node.tile
            moved.append(ir.Temporal(node.dim, at_start[node.dim]))
        tile[node.dim] = node.tile
    outside, inside = [*nodes[:first], *moved], list[ir.MappingNode]()
    own = {dim for index in workload.statements[0].target.index for dim in index.dims}
    while outside and isinstance(outside[-1], ir.Temporal) and outside[-1].dim not in own:
        inside.insert(0, outside.pop())
    return [*outside, lanes, nodes[last], *inside, *nodes[last + 1 :]]


def _dims(workload: ir.Workload, tensor: str) -> tuple[str, ...]:
    (statement,) = workload.statements
    return tuple(
        dim for access in statement.reads if access.tensor == tensor for index in access.index for dim in index.dims
    )


def _with_dim(workload: ir.Workload, dim: str) -> frozenset[str]:
    return frozenset(tensor.name for tensor in workload.tensors if dim in _dims(workload, tensor.name))


def _with_whole_tiles(workload: ir.Workload, tile: RegisterTile, lanes: int, threads: int) -> ir.Workload:
    """Return the workload whose dims are whole register tiles, the vector dim one per core where it has as many; every
    tensor in the type of the sums, as registers hold it. Which loops keep the order of sums is no question of it
    (_keeps_order)."""
    units = {**dict(tile.sizes), tile.vector: tile.slots * lanes}
    extents = workload.extents()
    sizes = {dim: ceil(extent / units.get(dim, 1)) * units.get(dim, 1) for dim, extent in extents.items()}
    own = {dim for index in workload.statements[0].target.index for dim in index.dims}
    counts = {dim: sizes[dim] // units.get(dim, 1) for dim in extents if dim in own}
    if threads > 1 and all(count % threads for count in counts.values()):
        widest = max(counts, key=lambda dim: counts[dim])
        unit = units.get(widest, 1)
        sizes[widest] = ceil(counts[widest] / threads) * threads * unit
    bits = workload.tensor(workload.statements[0].target.tensor).bits
    return _with_extents(replace(workload, associative=True), sizes, bits)


def _with_extents(workload: ir.Workload, sizes: dict[str, int], bits: int) -> ir.Workload:
    """Return the workload with other extents, its tensors as large as these need, without constraints of its domain
    (padding is counted as if it were read)."""
    grown = tuple(ir.Dim(dim.name, sizes[dim.name]) for dim in workload.dims)
    (statement,) = workload.statements
    corners: dict[str, list[tuple[int, int]]] = {}
    for access in (statement.target, *statement.reads):
        ends = [ir.bounds(index, sizes) for index in access.index]
        known = corners.get(access.tensor, ends)
        corners[access.tensor] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, ends, strict=True)]
    tensors = tuple(
        replace(
            tensor,
            shape=tuple(high - low + 1 for low, high in corners[tensor.name]),
            origin=tuple(low for low, _ in corners[tensor.name]),
            bits=bits,
            element_type=None,
        )
        for tensor in workload.tensors
    )
    return replace(
        workload,
        dims=grown,
        tensors=tensors,
        statements=(replace(statement, constraints=()),),
        original=None,
        bare=None,
    )
