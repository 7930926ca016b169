"""Cases too large to be walked, each one of a family whose small members can be: their counts grow evenly.

One dim has the extent u*n + v; the loops over it have tiles u'*n + v' (so that their trip counts stay) and below them
tiles that stay. With n = period*m + rest, where the period is a common multiple of the tiles that stay, every tile
boundary is an affine function of m, and so is every count as soon as n is larger than the windows reach: the walk of
three small members gives the line on which the large one lies. Where the three are not on a line, or which instance is
the busiest may change with n, nothing is said.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm
from typing import TypeGuard

from polymap.costmodel.counts import Counts, LevelUse, Traffic
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Temporal
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum
from tests import cases
from tests.case_machines import wide_machine
from tests.case_workloads import parallel_dims
from tests.cases import Case

LARGEST = 10**6
REACH = 8  # more than any window below spans
Line = tuple[int, int]  # (u, v): u*n + v

# The scaled dim and an einsum; the other dims have at most 3 indices.
EINSUMS = (
    ("r", "O[m] += A[m,r]"),
    ("p", "O[p] += I[p+r] * W[r]"),
    ("p", "O[k,p] += I[2*p+r] * W[k,r]"),
    ("p", "O[p+2*q] += A[p] * B[q]"),
    ("p", "O[2*p+q] += W[q,r] * I[p]"),
    ("m", "C[m,n] += A[m,k] * B[k,n]"),
    ("i", "B[i,j] = A[j,i]"),
    ("i", "O[i,j] max= A[i+j]"),
)
TEXTS = (
    "for (int i = 0; i < N; i++) A[i] /= 2;",
    "for (int i = 0; i < N; i++) for (int j = 0; j < 2; j++) A[i+1] += A[i] * B[j];",
    "for (int i = 0; i < N; i++) for (int j = 0; j < 3; j++) A[i+j] = B[i] + 1;",
    "for (int i = 0; i < N; i++) A[i] += A[0];",
    "for (int j = 0; j < 2; j++) for (int i = 0; i < N; i++) A[i] = A[i] > B[i+j] ? A[i] : B[i+j];",
)


@dataclass(frozen=True, slots=True)
class Family:
    """Mappings of growing workloads. scaled: the dim; extent: its line; tiles: the line of each of its loops in turn;
    period, rest: n = period*m + rest; build: n -> workload; nodes: with the tile 0 for each loop over the dim.
    """

    scaled: str
    extent: Line
    tiles: tuple[Line, ...]
    period: int
    rest: int
    build: Callable[[int], Workload]
    arch: Architecture
    nodes: tuple[MappingNode, ...]

    def member(self, m: int) -> tuple[Workload, Architecture, Mapping]:
        """Return the m-th member."""
        n = self.period * m + self.rest
        tiles = iter(u * n + v for u, v in self.tiles)
        nodes = tuple(replace(node, tile=next(tiles)) if self.scales(node) else node for node in self.nodes)
        return self.build(self.extent[0] * n + self.extent[1]), self.arch, Mapping(nodes)

    def scales(self, node: MappingNode) -> TypeGuard[Temporal | Spatial]:
        """Return whether the node is a loop over the scaled dim."""
        return isinstance(node, Temporal | Spatial) and node.dim == self.scaled

    def least(self) -> int:
        """Return the first m from which on the counts grow evenly."""
        return max(1, -(-(REACH - self.rest) // self.period))

    def truth(self, m: int) -> Counts | None:
        """Return the counts of the m-th member, by walking three small ones; None where they are on no line."""
        first = self.least()
        walked = [count_by_simulation(*self.member(first + step)) for step in range(3)]
        found = _beyond(walked, m - first)
        return None if found is None else without_busiest(found) if self.is_spread() else found

    def is_spread(self) -> bool:
        """Return whether there are several instances, so that another one may become the busiest."""
        return any(isinstance(node, Spatial) for node in self.nodes)


def random_scaled_case(rng: random.Random) -> Case:
    """Return a member of a random family with an extent of 1,000 to 10^6."""
    family = random_family(rng)
    m = (int(10 ** rng.uniform(3, 6)) // family.extent[0] - family.rest) // family.period
    return replace(cases.as_it_is(*family.member(m)), truth=lambda: family.truth(m))


def random_family(rng: random.Random) -> Family:
    """Return a random family: an accumulation or a C text, and a tree whose loops over one dim grow or stay."""
    scaled, build = _programs(rng)
    extent = (rng.choice((1, 1, 2)), rng.choice((0, 0, 1, 2)))
    workload = build(3 * extent[0] + extent[1])
    fixed = sorted(rng.sample((2, 3, 4, 6), rng.choice((0, 1, 1, 2))), reverse=True)
    growing = [line for line in ((1, 1), (1, 0)) if extent != line and rng.random() < 0.4]
    lines = (*growing, *((0, tile) for tile in fixed), (0, 1))
    period = lcm(*fixed) if fixed else 1
    rest = rng.randrange(period)
    nodes = _nodes(rng, workload, scaled, len(growing), len(lines))
    return Family(scaled, extent, lines, period, rest, build, *nodes)


def _programs(rng: random.Random) -> tuple[str, Callable[[int], Workload]]:
    if rng.random() < 0.3:
        text = f"void f(int N, float A[N+4], float B[N+4]) {{ {rng.choice(TEXTS)} }}"
        return "i", lambda extent: _read(text, extent)
    scaled, text = rng.choice(EINSUMS)
    others = {letter: rng.randrange(1, 4) for letter in dict.fromkeys(text.replace("max", "")) if letter.islower()}
    bits = rng.choice((8, 16))
    return scaled, lambda extent: einsum(text, bits=bits, sizes={**others, scaled: extent})


@lru_cache(maxsize=16)
def _read(text: str, extent: int) -> Workload:
    return from_c(text, {"N": extent})


def _nodes(
    rng: random.Random, workload: Workload, scaled: str, growing: int, loops: int
) -> tuple[Architecture, tuple[MappingNode, ...]]:
    """Return a machine and a tree in which only the loops whose trip counts stay are spatial."""
    arch = wide_machine(rng)
    dims = tuple(workload.extents())
    # The tiles are set later: they only have to be many.
    drawn = cases._loops(rng, workload, arch, dims, spreadable=parallel_dims(workload), tiles={scaled: [1] * loops})
    order = [number for number, loop in enumerate(drawn) if loop.dim == scaled]
    for place, number in enumerate(order):
        loop = drawn[number]
        if isinstance(loop, Spatial) and place >= growing:
            drawn[number] = Temporal(loop.dim, loop.tile)
    placed = cases._placed(rng, arch, drawn, cases._held(rng, workload, arch))
    nodes = (*placed, Compute(workload.statements[0].name))
    sizes = tuple(replace(node, size=256) if isinstance(node, Fanout) else node for node in arch.nodes)
    return replace(arch, nodes=sizes), nodes


def without_busiest(counts: Counts) -> Counts:
    """Return the counts with -1 for what the busiest instance moves."""
    return replace(counts, uses=tuple(LevelUse(use.level, use.occupancy_bits, -1, -1, -1) for use in counts.uses))


def _beyond(walked: list[Counts], steps: int) -> Counts | None:
    """Return what stands `steps` beyond the first of three evenly growing counts."""
    first = walked[0]
    lines = (
        _line([(each.instances, each.steps) for each in walked], steps),
        *(_line([_row(each.traffic[place]) for each in walked], steps) for place in range(len(first.traffic))),
        *(_line([_use(each.uses[place]) for each in walked], steps) for place in range(len(first.uses))),
    )
    if any(line is None for line in lines):
        return None
    instances, ticks = lines[0] or (0, 0)
    numbers = [line for line in lines[1:] if line is not None]
    rows = tuple(Traffic(row.level, row.tensor, *line) for row, line in zip(first.traffic, numbers, strict=False))
    uses = tuple(
        LevelUse(use.level, *line) for use, line in zip(first.uses, numbers[len(first.traffic) :], strict=True)
    )
    return Counts(instances, ticks, rows, uses)


def _line(values: list[tuple[int, ...]], steps: int) -> tuple[int, ...] | None:
    one, two, three = values
    if any(a + c != 2 * b for a, b, c in zip(one, two, three, strict=True)):
        return None
    return tuple(a + (b - a) * steps for a, b in zip(one, two, strict=True))


def _row(row: Traffic) -> tuple[int, ...]:
    return row.reads, row.writes, row.fills, row.drains


def _use(use: LevelUse) -> tuple[int, ...]:
    return use.occupancy_bits, use.busiest_read_bits, use.busiest_write_bits, use.busiest_total_bits
