"""Sets of the first cache: lines of a register tile that share one and evict each other between its visits.

A set holds `ways` lines; lines that lie a multiple of `way_bytes` apart share one. Arrays are taken to begin at a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

from polymap.cpu.machine import CpuFacts
from polymap.ir import Access


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
