"""Register tiles of a statement, each with the cycles that its code takes at least when all data is near.

A tile holds so many sums of the output in vector registers; one step of the reductions loads each operand of the tile
once and multiplies. A step takes the most of: its multiply-adds over the pipes, its loads over the ports, and the
latency of the sum that the next step continues. Before and after its steps the sums are loaded and stored; lines that
do not fit a set of the first cache (`SetUse`) are fetched each time.

A set holds `ways` lines; lines that lie a multiple of `way_bytes` apart share one. Arrays are taken to begin at a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil, prod

from polymap.codegen.cpu_machine import CpuFacts
from polymap.codegen.tuning import TUNING
from polymap.ir import Access, Workload, bounds

MemorySteps = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """vector: the dim over the lanes, with `slots` vectors along it; sizes: of other dims of the output, above 1.
    cycles: of the whole statement on one core; again_cycles: of visiting every tile once more, with its steps cut into
    one more part: sums are loaded and stored again."""

    vector: str
    slots: int
    sizes: tuple[tuple[str, int], ...]
    cycles: float
    again_cycles: float = 0

    @property
    def sums(self) -> int:
        return self.slots * prod(size for _, size in self.sizes)


def register_tiles(
    workload: Workload, facts: CpuFacts, vector: str, lanes: int, steps: MemorySteps | None = None
) -> tuple[RegisterTile, ...]:
    """Return the tiles that fit the registers, the one of least cycles first; among equal ones those of fewer dims.

    steps: bytes between neighbours in memory, per tensor and dim, as far as they are known.
    """
    (statement,) = workload.statements
    extents = workload.extents()
    own = dict.fromkeys(dim for index in statement.target.index for dim in index.dims)
    others = [dim for dim in own if dim != vector and extents[dim] > 1]
    found: list[RegisterTile] = []
    copied = _copy_cycles(workload, facts, vector, steps or {})
    streamed = is_streamed(workload, vector)
    is_far = rows_together(workload, facts, vector) is not None
    widest = TUNING.most_slots if others or is_far else (facts.registers - 1) // 2
    for slots in range(1, min(widest, ceil(extents[vector] / lanes)) + 1):
        most = (facts.registers - slots - (0 if streamed else 1)) // slots  # one for what is broadcast
        for sizes in _sizes(others, extents, most):
            cycles, again = _cycles(workload, facts, steps or {}, vector, lanes, slots, sizes)
            found.append(RegisterTile(vector, slots, sizes, copied + cycles, again))
    return tuple(sorted(found, key=lambda tile: _rank(tile, others)))


def _rank(tile: RegisterTile, others: list[str]) -> tuple[int, int, int, int, int, list[int]]:
    """Return what orders tiles: cycles; then such as broadcast each element to more than one vector,
    which leaves the load ports room; dims, sums, and among like ones those along the inner dims first."""
    return (
        round(tile.cycles),
        int(tile.slots == 1 and bool(tile.sizes)),
        len(tile.sizes),
        -tile.sums,
        tile.slots,
        [-others.index(dim) for dim, _ in tile.sizes],
    )


def _sizes(others: list[str], extents: dict[str, int], most: int) -> list[tuple[tuple[str, int], ...]]:
    """Return the sizes of none, one or two dims whose product is at most `most`."""
    found: list[tuple[tuple[str, int], ...]] = [()]
    found += [((dim, size),) for dim in others for size in range(2, min(extents[dim], most) + 1)]
    for first, second in combinations(others, 2):
        for one in range(2, min(extents[first], most // 2) + 1):
            found += [((first, one), (second, two)) for two in range(2, min(extents[second], most // one) + 1)]
    return found


def _cycles(
    workload: Workload,
    facts: CpuFacts,
    memory: MemorySteps,
    vector: str,
    lanes: int,
    slots: int,
    sizes: tuple[tuple[str, int], ...],
) -> tuple[float, float]:
    """Return the cycles of all tiles, also of the smaller last ones, and those of one more visit of each."""
    extents = workload.extents()
    (statement,) = workload.statements
    own = {dim for index in statement.target.index for dim in index.dims}
    steps = prod(size for dim, size in extents.items() if dim not in own)
    block = slots * lanes
    parts = [(vector, _parts(extents[vector], block))]
    parts += [(dim, _parts(extents[dim], size)) for dim, size in sizes]
    around = prod(size for dim, size in extents.items() if dim in own and dim not in dict(parts))
    scattered = lanes * TUNING.scattered_lane_cycles if is_scattered(workload, vector, memory) else 0
    total, again = 0.0, 0.0
    for choice in product(*(each for _, each in parts)):
        shape = {dim: size for (dim, _), (size, _) in zip(parts, choice, strict=True)}
        count = around * prod(number for _, number in choice)
        valid = shape[vector]
        shape[vector] = ceil(valid / lanes)
        sums = prod(shape.values())
        loads = _loads(workload, facts, memory, vector, shape)
        pipes = sums - sums / shape[vector] * (1 - _last_share(facts, valid % lanes, lanes))
        busiest = max(pipes / facts.pipes, loads, facts.latency_cycles + TUNING.slack_cycles)
        evicted = evicted_lines(memory.get(statement.target.tensor, {}), vector, shape, facts) * facts.miss_cycles
        is_part = valid < lanes and valid & (valid - 1)  # stored by way of memory, power by power of two
        each = TUNING.part_cycles if is_part else 1 / facts.stores_per_cycle
        stored = sums * max(scattered, each) + TUNING.tile_cycles
        total += count * (steps * busiest + stored)
        revisit = stored + sums / facts.loads_per_cycle + sums * facts.refill_cycles + 2 * evicted
        again += count * revisit * (1 if scattered else TUNING.again_share)
    return total, again


def _last_share(facts: CpuFacts, rest: int, lanes: int) -> float:
    """Return the cycles of a multiply-add of a last vector of so many lanes, 0 for all, in those of a whole one: where
    one pipe multiplies whole vectors, its halves multiply shorter ones (native/kernel.py)."""
    return 0.5 if facts.pipes == 1 and 0 < rest <= lanes // 2 else 1


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """Return (size, number) of the tiles of a dim."""
    found = [(size, extent // size)] if extent >= size else []
    return [*found, (extent % size, 1)] if extent % size else found


def _loads(workload: Workload, facts: CpuFacts, memory: MemorySteps, vector: str, shape: dict[str, int]) -> float:
    """Return the cycles of the loads of one step: the vectors of each operand that the tile reads, or the elements that
    are broadcast, and more for each stretch of memory that the prefetcher does not expect.

    Packed operands lie in the order of the steps; of others each other index of a dim but the vector's is a stretch.
    """
    (statement,) = workload.statements
    extents = workload.extents()
    own = {dim for index in statement.target.index for dim in index.dims}
    total = 0.0
    for access in statement.reads:
        dims = set(access.dims)
        taken = prod(size for dim, size in shape.items() if dim in dims)
        if vector not in dims:
            rows = {dim: size for dim, size in shape.items() if dim in dims}
            evicted = evicted_lines(memory.get(access.tensor, {}), vector, rows, facts)
            total += taken / facts.broadcasts_per_cycle + evicted * facts.miss_cycles
            continue
        total += taken / facts.loads_per_cycle
        plain = all(len(index.dims) <= 1 for index in access.index)
        reused = any(extents[dim] > 1 for dim in own if dim not in dims)
        if plain and reused:
            continue
        total += TUNING.loads_per_stretch / facts.loads_per_cycle * taken / shape[vector]
        if rows_collide(extents, access, memory.get(access.tensor, {}), shape, facts):
            total += facts.miss_cycles * taken
    return total


def _copy_cycles(workload: Workload, facts: CpuFacts, vector: str, memory: MemorySteps) -> float:
    """Return the cycles of copying, once each, the operands whose neighbours along the vector dim lie apart, and the
    windows that slide along it over padding, whose rows evict their own lines before the next row reads these where
    they share few sets; the last operand is one that callers may pack ahead."""
    (statement,) = workload.statements
    extents = workload.extents()
    total = 0.0
    for access in statement.reads[:-1]:
        width = workload.tensor(access.tensor).bits // 8
        spans = [(index, bounds(index, extents)) for index in access.index]
        lengths = [high - low + 1 for _, (low, high) in spans]
        slid = [length for (index, _), length in zip(spans, lengths, strict=True) if {vector} < set(index.dims)]
        padded = workload.bare is not None and tuple(lengths) != workload.bare.shape
        step = memory.get(access.tensor, {}).get(vector, 0)
        if not (slid and padded) and step in (0, width):
            continue
        elements = prod(lengths)
        total += TUNING.copied_element_cycles * elements
        if slid:
            evicted = evicted_lines({vector: step}, "", {vector: slid[0]}, facts) if step >= facts.line_bytes else 0
            total += (TUNING.copied_row_cycles + evicted * facts.miss_cycles) * elements / slid[0]
    return total


def is_scattered(workload: Workload, vector: str, memory: MemorySteps) -> bool:
    """Return whether neighbours of the output along the vector dim lie apart: each lane is stored on its own."""
    target = workload.tensor(workload.statements[0].target.tensor)
    return memory.get(target.name, {}).get(vector, target.bits // 8) != target.bits // 8


def is_streamed(workload: Workload, vector: str) -> bool:
    """Return whether every operand has the vector dim: none is broadcast, and little is used twice."""
    (statement,) = workload.statements
    return all(any(vector in index.dims for index in access.index) for access in statement.reads)


def lone_reduction(workload: Workload, vector: str) -> str | None:
    """Return the one dim besides the vector's where that is a reduction: each row of a matrix is read once."""
    extents = workload.extents()
    own = {dim for index in workload.statements[0].target.index for dim in index.dims}
    long = [dim for dim, size in extents.items() if size > 1 and dim != vector]
    is_lone = len(long) == 1 and long[0] not in own and extents[long[0]] > TUNING.rows_together
    return long[0] if is_lone else None


def rows_together(workload: Workload, facts: CpuFacts, vector: str) -> int | None:
    """Return how many rows, as long as pages or longer, are read side by side of a matrix that is larger than the
    second cache and of which each row is read once: as many as leave the sums a way of the first cache; None for none.
    """
    if lone_reduction(workload, vector) is None:
        return None
    largest = max(prod(each.shape) * each.bits for each in workload.tensors)
    return min(2 * TUNING.rows_together, facts.ways - 1) if largest > 8 * facts.second_cache_bytes else None


def far_reduction(
    workload: Workload, facts: CpuFacts, tile: RegisterTile, memory: MemorySteps
) -> tuple[str, int] | None:
    """Return the one reduction along which rows of a large operand lie apart that few rows of tiles read, where they
    lie, and how many of these rows are best read side by side; None where there is none.

    The sums are loaded and stored once for so many rows: the more tiles read each of these, and the farther away the
    sums are, the more rows there are.
    """
    (statement,) = workload.statements
    extents, target = workload.extents(), workload.tensor(statement.target.tensor)
    own = {dim: 1 for index in statement.target.index for dim in index.dims}
    near = [dim for dim, size in extents.items() if dim not in own and size > TUNING.rows_together]
    sizes = {**own, **dict(tile.sizes)}
    is_far = prod(target.shape) * target.bits > 8 * facts.ways * facts.way_bytes
    for access in statement.reads:
        tensor, dims = workload.tensor(access.tensor), {dim for index in access.index for dim in index.dims}
        steps = memory.get(access.tensor, {})
        passes = prod(ceil(extents[dim] / sizes[dim]) for dim in own if dim not in dims)
        is_large = prod(tensor.shape) * tensor.bits > 8 * facts.second_cache_bytes
        is_row = steps.get(tile.vector) == tensor.bits // 8 and len(near) == 1 and near[0] in dims
        if is_row and is_large and passes <= TUNING.few_passes and steps.get(near[0], 0) >= facts.way_bytes:
            return near[0], min(extents[near[0]], TUNING.rows_together * passes * (2 if is_far else 1))
    return None


def evicted_lines(steps: Mapping[str, int], vector: str, shape: Mapping[str, int], facts: CpuFacts) -> int:
    """Return how many lines of a tile of an array stand in sets that do not hold all of the tile's.

    steps: bytes between neighbours of the array, per dim, as far as known. shape: sizes of the tile, of the vector dim
    in vectors.
    """
    if any(size > 1 and dim != vector and not steps.get(dim) for dim, size in shape.items()):
        return 0  # nothing is known of where its rows lie
    vector_bytes = facts.vector_bits // 8
    strides = {dim: vector_bytes if dim == vector else steps.get(dim, 0) for dim in shape}
    places = product(*([number * strides[dim] for number in range(size)] for dim, size in shape.items()))
    lines = {sum(place) // facts.line_bytes for place in places}
    sets = Counter(line % (facts.way_bytes // facts.line_bytes) for line in lines)
    return sum(count for count in sets.values() if count > facts.ways)


def rows_collide(
    extents: Mapping[str, int], access: Access, steps: Mapping[str, int], shape: Mapping[str, int], facts: CpuFacts
) -> bool:
    """Return whether the rows of an operand that a tile reads again and again are more than one set holds, and share
    one: they evict each other before they are read again."""
    for index in access.index:
        for dim in index.dims:
            if len(index.dims) > 1 and shape.get(dim, 1) > 1 and steps.get(dim, 1) % facts.way_bytes == 0:
                factors = index.coefficients()
                reach = sum(factors[d] * (shape.get(d, 1 if d in shape else extents[d]) - 1) for d in index.dims)
                if reach + 1 > facts.ways:
                    return True
    return False
