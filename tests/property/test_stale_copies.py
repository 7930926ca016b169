"""Programs with private copies run with their values: a mapping is legal exactly where they come out right.

The referee moves values between copies as counting.md says, knows nothing of dependences or sets, and compares what
every statement instance reads, and what memory holds at the end, with the program run in its own order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

import pytest

import polymap as pm
from polymap.costmodel.coherence import stale_copies
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.legality import dependence_violations

ARCH = pm.Architecture(
    "private",
    (
        pm.MemoryLevel("DRAM"),
        pm.Fanout("X", 99),
        pm.MemoryLevel("L1"),
        pm.Fanout("Y", 99),
        pm.MemoryLevel("L2"),
        pm.ComputeUnit("MAC"),
    ),
)
PROGRAMS = (
    "void f(float A[6][9]) {for (int i = 1; i < 5; i++) for (int j = 1; j < 8; j++) A[i][j] = A[i-1][j+1] + 1;}",
    "void f(float A[6][9]) {for (int i = 1; i < 5; i++) for (int j = 1; j < 8; j++) A[i][j] = A[i][j-1] + A[i-1][j];}",
    "void f(float A[9]) { for (int i = 0; i < 4; i++) for (int j = 1; j < 8; j++) A[j] = A[j] + A[j-1]; }",
    "void f(float A[9], float B[5]) { for (int i = 0; i < 5; i++) for (int j = 0; j < 6; j++) A[j] = B[i] - A[j]; }",
    "void f(float A[12], float B[5]) { for (int i = 0; i < 5; i++) for (int j = 0; j < 6; j++) A[i + j] = B[i] + 1; }",
    "void f(float A[6][6]) { for (int i = 1; i < 6; i++) for (int j = 0; j <= i; j++) A[i][j] = A[i-1][j] + A[i][i]; }",
)  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """One statement instance. clock: the digits of temporal loops; lanes: (fan-out, digit) of spatial ones; upto: per
    node of the tree the number of temporal loops above it."""

    point: tuple[int, ...]
    clock: tuple[int, ...]
    lanes: tuple[tuple[str, int], ...]
    reads: tuple[tuple[str, tuple[int, ...]], ...]
    target: tuple[str, tuple[int, ...]]


def instances(workload: Workload, mapping: Mapping) -> list[Instance]:
    (statement,) = workload.statements
    extents = workload.extents()
    found: list[Instance] = []
    for point in product(*(range(extents[name]) for name in statement.dims)):
        at = dict(zip(statement.dims, point, strict=True))
        if any(constraint.evaluate(at) < 0 for constraint in statement.constraints):
            continue
        left, clock, lanes = dict(at), [], []
        for node in mapping.nodes:
            if isinstance(node, Temporal | Spatial):
                digit, left[node.dim] = divmod(left[node.dim], node.tile)
                if isinstance(node, Temporal):
                    clock.append(digit)
                else:
                    lanes.append((node.fanout, digit))
        target, *reads = (
            (access.tensor, tuple(index.evaluate(at) for index in access.index))
            for access in (statement.target, *statement.reads)
        )
        found.append(Instance(point, tuple(clock), tuple(lanes), tuple(reads), target))
    return found


def own_order(work: list[Instance]) -> tuple[dict[object, object], dict[object, object]]:
    """Return memory at the end, and what each instance read, in the program's own order."""
    memory: dict[object, object] = {}
    seen: dict[object, object] = {}
    for each in sorted(work, key=lambda one: one.point):
        seen[each.point] = tuple(memory.get(key, key) for key in each.reads)
        memory[each.target] = hash((each.point, seen[each.point]))
    return memory, seen


class Copies:
    """The copies of all tensors in all nodes, moved step by step."""

    def __init__(self, mapping: Mapping, work: list[Instance]) -> None:
        self.memory: dict[object, object] = {}
        self.work = work
        self.nodes: list[tuple[str, int, tuple[str, ...]]] = []  # tensor, temporal loops above, fan-outs above
        above = 0
        for node in mapping.nodes:
            above += isinstance(node, Temporal)
            if isinstance(node, Storage) and node.level != "DRAM":
                fans = ("X",) if node.level == "L1" else ("X", "Y")
                self.nodes += [(tensor, above, fans) for tensor in node.tensors]
        self.held: list[dict[object, dict[object, object]]] = [{} for _ in self.nodes]
        self.dirty: list[set[tuple[object, object]]] = [set() for _ in self.nodes]

    def chain(self, tensor: str) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if node[0] == tensor]

    def place(self, number: int, lanes: tuple[tuple[str, int], ...]) -> object:
        return tuple(lane for lane in lanes if lane[0] in self.nodes[number][2])

    def parent(self, number: int, where: object) -> dict[object, object]:
        outer = [other for other in self.chain(self.nodes[number][0]) if other < number]
        return self.held[outer[-1]][self.place(outer[-1], where)] if outer else self.memory  # type: ignore[arg-type]

    def tiles(self, number: int, clock: tuple[int, ...] | None) -> dict[object, set[object]]:
        tensor, above, _ = self.nodes[number]
        found: dict[object, set[object]] = {}
        for each in self.work if clock is not None else ():
            if each.clock[:above] == clock[:above]:  # type: ignore[index]
                keys = {key for key in (*each.reads, each.target) if key[0] == tensor}
                found.setdefault(self.place(number, each.lanes), set()).update(keys)
        return found

    def move(self, clock: tuple[int, ...] | None) -> None:
        tiles = [self.tiles(number, clock) for number in range(len(self.nodes))]
        for number in reversed(range(len(self.nodes))):
            for where, copy in self.held[number].items():
                for key in [key for key in copy if key not in tiles[number].get(where, set())]:
                    if (where, key) in self.dirty[number]:
                        self.dirty[number].discard((where, key))
                        parent = self.parent(number, where)
                        parent[key] = copy[key]
                        self.mark_parent(number, where, key)
                    del copy[key]
        for number, here in enumerate(tiles):
            for where, keys in here.items():
                copy = self.held[number].setdefault(where, {})
                for key in keys - copy.keys():
                    copy[key] = self.parent(number, where).get(key, key)

    def mark_parent(self, number: int, where: object, key: object) -> None:
        outer = [other for other in self.chain(self.nodes[number][0]) if other < number]
        if outer:
            self.dirty[outer[-1]].add((self.place(outer[-1], where), key))  # type: ignore[arg-type]

    def holder(self, tensor: str, lanes: tuple[tuple[str, int], ...]) -> tuple[int | None, dict[object, object]]:
        chain = self.chain(tensor)
        return (chain[-1], self.held[chain[-1]][self.place(chain[-1], lanes)]) if chain else (None, self.memory)


def comes_out_right(workload: Workload, mapping: Mapping) -> bool:
    work = instances(workload, mapping)
    memory, seen = own_order(work)
    copies = Copies(mapping, work)
    for clock in sorted({each.clock for each in work}):
        copies.move(clock)
        now = [each for each in work if each.clock == clock]
        values = {
            each.point: tuple(copies.holder(key[0], each.lanes)[1].get(key, key) for key in each.reads) for each in now
        }
        if len({each.target for each in now}) < len(now) or any(values[each.point] != seen[each.point] for each in now):
            return False
        for each in now:
            number, copy = copies.holder(each.target[0], each.lanes)
            copy[each.target] = hash((each.point, values[each.point]))
            if number is not None:
                copies.dirty[number].add((copies.place(number, each.lanes), each.target))
    copies.move(None)
    return copies.memory == memory


def mappings(rng: random.Random, workload: Workload) -> Iterator[Mapping]:
    extents = workload.extents()
    tensors = [tensor.name for tensor in workload.tensors]
    while True:
        chains = {dim: [] for dim in extents}
        for dim, extent in extents.items():
            tile = extent
            for _ in range(rng.choice((0, 1, 1, 2))):
                tile = rng.randint(1, tile)
                chains[dim].append(tile)
            chains[dim].append(1)
        loops: list[MappingNode] = []
        while any(chains.values()):
            dim = rng.choice([dim for dim, chain in chains.items() if chain])
            tile = chains[dim].pop(0)
            loops.append(Spatial(dim, tile, rng.choice("XXY")) if rng.random() < 0.4 else Temporal(dim, tile))
        nodes = list(loops)
        least = 0
        for level, fans in (("L1", "X"), ("L2", "XY")):
            last = [at for at, node in enumerate(nodes) if isinstance(node, Spatial) and node.fanout in fans]
            least = max(least, max(last, default=-1) + 1)
            held = tuple(tensor for tensor in tensors if rng.random() < 0.7)
            if held:
                at = rng.randrange(least, len(nodes) + 1)
                nodes.insert(at, Storage(level, held))
                least = at + 1
        yield Mapping((*nodes, Compute(workload.statements[0].name)))


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_values_come_out_right_exactly_where_no_copy_is_stale(number: int) -> None:
    workload = pm.from_c(PROGRAMS[number])
    outcomes: set[bool] = set()
    for mapping in islice(mappings(random.Random(number), workload), 110):
        if dependence_violations(workload, mapping):
            continue
        fresh = stale_copies(workload, ARCH, mapping) == ()
        assert fresh == comes_out_right(workload, mapping), mapping
        outcomes.add(fresh)
    assert outcomes == ({True, False} if number in (0, 4) else {True})


def test_a_neighbour_reads_what_another_instance_still_holds() -> None:
    workload = pm.from_c(PROGRAMS[0])
    mapping = Mapping((Spatial("j", 4, "X"), Storage("L1", ("A",)), Temporal("i", 1), Temporal("j", 1), Compute("S0")))
    (found,) = pm.violations(workload, ARCH, mapping)
    assert found.message == (
        "a copy is stale: S0[i=2, j=4] reads A[1, 5] in one instance of 'L1', and S0[i=1, j=5] wrote it in another "
        "that still holds it. Instances side by side do not see each other's writes."
    )
    assert not pm.evaluate(workload, ARCH, mapping).legal
    assert not comes_out_right(workload, mapping)


def test_a_sum_that_began_elsewhere_is_split_over_private_copies_where_the_order_is_free() -> None:
    workload = pm.from_c(
        "void f(float t[4], float A[4][8]) "
        "{ for (int i = 0; i < 4; i++) { t[i] = 0; for (int j = 0; j < 8; j++) t[i] += A[i][j]; } }"
    )

    def spread(tensor: str) -> Mapping:
        inside = (Spatial("j", 2, "X"), Storage("L1", (tensor,)), Temporal("j", 1), Compute("S1"))
        return Mapping((Temporal("i", 1), Branch(((Compute("S0"),), inside))))

    assert pm.violations(workload, ARCH, spread("t")) == ()
    run = pm.run_c(workload, ARCH, spread("t"))
    assert run.matches_reference
    assert run.counts_match
    found, *_ = pm.violations(replace(workload, associative=False), ARCH, spread("t"))
    assert found.kind == "dependence"
    assert "dependence of t is broken" in found.message
    assert pm.violations(workload, ARCH, spread("A")) == ()
