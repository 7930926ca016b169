"""No bound that is told is above the cost of a legal tree, whatever made the tree: programs, recurrences, temporaries,
arrays that are read before they are written, overwritten or never written; machines with energies of many digits.

The trees are counted by the simulator, which shares nothing with the bounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel import bounds, footprint
from polymap.costmodel.bounds import compulsory_traffic
from polymap.costmodel.buffer_bound import least_traffic_bits
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import simulate
from polymap.costmodel.referees.trees import scored_trees
from polymap.explore import explore, search
from polymap.ir.loopnest import Operator, Workload, is_plain
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel, Node
from polymap.ir.mapping import Mapping
from polymap.networks.buffer_sweep import buffer_curve
from polymap.report.explanation import explain
from polymap.search import program_search as fallback
from polymap.search.problem.floors import floor_of
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_values
from polymap.search.problem.word_clashes import clashes
from polymap.search.program_search import program_order
from polymap.workload.c.reader import from_c
from tests.c_kernels import KERNELS
from tests.case_workloads import general_workload
from tests.cases import random_case, random_general_case
from tests.nests import instances, touched
from tests.referee.demands import meets, random_demands
from tests.referee.problems import random_problem
from tests.unit.search.ticks import Ticks

SEEDS = 40


def ran(workload: Workload) -> dict[str, tuple[int, int]]:
    """Return tensor -> (elements read before the program overwrites them, elements written): by running it. What is
    added to an element without a value is not read."""
    read: dict[str, set[tuple[int, ...]]] = {tensor.name: set() for tensor in workload.tensors}
    written: dict[str, set[tuple[int, ...]]] = {tensor.name: set() for tensor in workload.tensors}
    overwritten: set[tuple[str, tuple[int, ...]]] = set()
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for statement, point in instances(workload):
        values = dict(zip(statement.dims, point, strict=True))
        own = {(each.tensor, tuple(form.evaluate(values) for form in each.index)) for each in statement.reads}
        place = statement.target.tensor, tuple(form.evaluate(values) for form in statement.target.index)
        if not workload.tensor(place[0]).initial and place not in seen | own:
            overwritten.add(place)
        seen |= {place} | own
        for (tensor, element), is_read, is_written in touched(statement, point):
            if is_read and (tensor, element) not in overwritten:
                read[tensor].add(element)
            if is_written:
                written[tensor].add(element)
        if statement.operator is Operator.ASSIGN:
            overwritten.add(place)
    return {name: (len(read[name]), len(written[name])) for name in read}


def check_compulsory(workload: Workload) -> None:
    truth = ran(workload)
    for row in compulsory_traffic(workload):
        tensor = workload.tensor(row.tensor)
        read, written = truth[row.tensor]
        if written and not is_plain(workload, row.tensor):  # partial sums start from zero
            read = written if tensor.initial else 0
        assert (row.reads, row.writes) == (read, 0 if tensor.temporary else written), (workload, row)


@pytest.mark.parametrize("name", KERNELS)
def test_a_program_must_read_what_it_has_not_overwritten_and_write_what_it_writes(name: str) -> None:
    text, sizes = KERNELS[name]
    check_compulsory(from_c(text, sizes=sizes))


def test_the_same_for_random_programs() -> None:
    rng = random.Random(5)
    for _ in range(60):
        check_compulsory(general_workload(rng))


def long_energies(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with energies of one to nine digits."""

    def pj() -> Fraction:
        return Fraction(rng.randrange(10 ** rng.randint(1, 9)), 10 ** rng.randint(0, 6))

    nodes: list[Node] = [
        replace(node, read_pj=pj(), write_pj=pj()) if isinstance(node, MemoryLevel) else node for node in arch.nodes
    ]
    return replace(arch, nodes=tuple(nodes))


def demanding(rng: random.Random, workload: Workload, arch: Architecture) -> Architecture:
    """Return the machine whose innermost level must hold one tensor, and has much room."""
    inner = arch.levels[-1]
    must = (rng.choice(workload.tensors).name,)
    nodes = tuple(replace(node, must_hold=must, capacity_bits=None) if node is inner else node for node in arch.nodes)
    return replace(arch, nodes=nodes)


def trees(seed: int) -> Iterator[tuple[Workload, Architecture, Mapping]]:
    """Yield a random tree, the program's own order on a machine that demands something, and nodes at random places."""
    rng = random.Random(f"bounds {seed}")
    case = (random_case if seed % 3 == 0 else random_general_case)(rng)
    arch = long_energies(rng, case.arch)
    yield case.workload, arch, case.mapping
    arch = demanding(rng, case.workload, arch)
    yield case.workload, arch, program_order(case.workload, arch)
    for _ in range(3):
        yield (
            case.workload,
            arch,
            fallback._program_tree(case.workload, fallback._random_places(case.workload, arch, rng)),
        )


def check_bounds(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost) -> None:
    """Hold all bounds against one legal tree."""
    names = [level.name for level in arch.levels]
    parts = ["energy", "latency", "edp", "ed2p", *(f"traffic:{name}" for name in names)]
    parts += [f"capacity:{name}" for name in names[1:]]
    joined = "weighted:0.3*energy+2*latency"
    for text in (*parts, joined, f"lex:{parts[0]},{parts[-1]}", f"pareto:{parts[1]},{parts[3]}"):
        objective = parse_objective(text, arch)
        values = objective_values(workload, arch, objective, cost)
        floors = [floor_of(workload, arch, one) for one in objective.singles]
        assert all(floor <= value for floor, value in zip(floors, values, strict=True)), (text, mapping)
    assert clashes(workload, arch) == ()
    used = dict(cost.occupancy_bits)
    nodes = tuple(
        replace(node, capacity_bits=max(1, used[node.name] * node.buffering)) if node.name in used else node  # type: ignore[arg-type]
        for node in arch.nodes
    )
    moved = sum(
        (row.reads + row.writes) * workload.tensor(row.tensor).bits for row in cost.traffic if row.level == names[0]
    )
    assert least_traffic_bits(workload, replace(arch, nodes=nodes)) <= moved, mapping
    elements = sum(row.reads + row.writes for row in cost.traffic if row.level == names[0])
    least = sum((row.reads or 0) + (row.writes or 0) for row in compulsory_traffic(workload))
    text = explain(workload, arch, mapping, cost)
    assert ("exactly the compulsory ones" in text) == (elements == least)


def tally(seeds: range) -> tuple[int, int]:
    """Return how many legal trees were looked at, and how many of them are of arrays of the plain rule."""
    legal = plain = 0
    for seed in seeds:
        for workload, arch, mapping in trees(seed):
            cost = simulate(workload, arch, mapping)
            if cost.legal:
                legal += 1
                plain += any(is_plain(workload, tensor.name) for tensor in workload.tensors)
                check_bounds(workload, arch, mapping, cost)
    return legal, plain


def test_no_bound_is_above_the_cost_of_a_legal_tree() -> None:
    legal, plain = tally(range(SEEDS))
    assert legal > 2 * SEEDS
    assert plain > SEEDS // 3


@pytest.mark.soak
def test_no_bound_is_above_the_cost_of_a_legal_tree_in_many_cases() -> None:
    assert tally(range(SEEDS, 40 * SEEDS))[0] > 40 * SEEDS


def test_written_elements_counted_as_touched_ones_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def touched_only(workload: Workload, tensor: str) -> int | None:
        return dict(footprint.touched_elements(workload))[tensor]

    for name in ("elements_read_first", "written_elements"):
        with monkeypatch.context() as patch:
            patch.setattr(bounds, name, touched_only)
            bounds.compulsory_traffic.cache_clear()
            with pytest.raises(AssertionError):
                tally(range(SEEDS))
    bounds.compulsory_traffic.cache_clear()


STENCIL = """
static float A[30][30], B[30][30];
#pragma scop
for (t = 0; t < 10; t++) {
  for (i = 1; i < 29; i++)
    for (j = 1; j < 29; j++)
      B[i][j] = 0.2f * (A[i][j] + A[i][j-1] + A[i][1+j] + A[1+i][j] + A[i-1][j]);
  for (i = 1; i < 29; i++)
    for (j = 1; j < 29; j++)
      A[i][j] = 0.2f * (B[i][j] + B[i][j-1] + B[i][1+j] + B[1+i][j] + B[i-1][j]);
}
#pragma endscop
"""


def two_levels(capacity_bits: int | None) -> Architecture:
    levels = (MemoryLevel("DRAM", read_pj=Fraction(2123457, 10**6)), MemoryLevel("Buf", capacity_bits))
    return Architecture("two", (*levels, ComputeUnit("MAC")))


def test_a_stencil_in_time_moves_what_its_bound_says() -> None:
    # 896 + 112 elements of 32 bits are read before they are written (B's edges), 2 * 784 are written.
    found = explore(from_c(STENCIL), two_levels(None), "traffic:DRAM")
    assert (found.status, found.value) == ("OPTIMAL", 32 * (896 + 112 + 2 * 784))


def test_a_curve_of_a_recurrence_stays_above_its_bounds() -> None:
    wave = from_c("for (t = 1; t < 8; t++) for (i = 1; i < 7; i++) A[t][i] = A[t-1][i+1] + A[t][i-1];")
    for point in buffer_curve(wave, two_levels(1), "Buf", [128, 512, 4096], time_limit_s=1).points:
        assert point.best_bits is not None
        assert point.gap is not None
        assert point.gap >= 0
        assert point.bound_bits == least_traffic_bits(wave, two_levels(point.capacity_bits))


def test_what_a_search_tells_is_below_every_tree_that_meets_the_constraints() -> None:
    rng = random.Random(21)
    unfinished = 0
    for number in range(8):
        problem = random_problem(rng, most=2_000, tiles="divide")
        workload, arch = problem.workload, long_energies(rng, problem.arch)
        demands = random_demands(rng, workload, arch) if number % 2 else {}
        objective = rng.choice(("energy", "edp", "latency", "ed2p", f"traffic:{arch.levels[0].name}"))
        every = [tree for tree in scored_trees(workload, arch, objective, "divide") if tree.fits]
        own = [tree.value for tree in every if meets(demands, workload, arch, tree.mapping, tree.steps)]
        for tiles in ("divide", "any"):
            limit = rng.choice((2, 6, 20, 60))
            found = search(
                workload, arch, objective, tiles, time_limit_s=limit, clock=Ticks(), constraints=demands or None
            )
            unfinished += found.status in ("FEASIBLE", "TIMEOUT")
            if own and found.bound is not None:
                assert found.bound <= float(min(own)) * (1 + 1e-12), (problem, demands, objective, tiles, limit)
            assert not (own and found.status == "INFEASIBLE"), (problem, demands)
    assert unfinished >= 2
