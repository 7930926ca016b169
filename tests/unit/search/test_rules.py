"""One function decides whether a mapping meets the rules, and every answer passes through it."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import product

import pytest

from polymap import candidates, einsum, explore, from_c
from polymap.cli.command_line import main
from polymap.cli.exit_codes import ExitCode
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import scored_trees
from polymap.explore import search
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, Spatial, Storage, Temporal
from polymap.search import dividing, in_order, provers as run
from polymap.search.feasible import DividingMappings
from polymap.search.problem import rule_checks
from polymap.search.problem.problem import analyse
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rule_checks import refusals, tree_paths
from polymap.search.problem.rules import Intrinsic, figure
from polymap.search.rule_clashes import clashing_rules
from tests.referee.demands import meets, random_demands
from tests.referee.problems import random_problem
from tests.unit.search.machines import two_levels
from tests.unit.search.ticks import Ticks

FLAT = load_arch("flat3")
WINDOWS = einsum("O[p] += I[p+r] * J[p+2*r] * W[r]", p=24, r=3)
EIGHTS: dict[str, object] = {"intrinsic": {"p": 8}}
# What the lattice search does not cover: its answers are sampled.
SAMPLED = (
    WINDOWS,
    einsum("C[i,j] += A[i,k] * A[j,k]", i=6, j=4, k=4),
    einsum("O[2*p+q] += W[q,r] * V[p]", p=4, q=3, r=6),
    einsum("S[i] += A[i,j] * A[j,i]", i=6, j=6),
)


def steps_of(workload: Workload, arch: Architecture, mapping: Mapping) -> int:
    cost = evaluate(workload, arch, mapping)
    assert arch.compute.per_cycle == 1
    return cost.compute_cycles


def test_sampled_answers_keep_the_intrinsic_of_every_tile() -> None:
    for objective in ("ed2p", "pareto:energy,latency"):
        found = explore(WINDOWS, FLAT, objective, constraints=EIGHTS)
        mappings = [found.best, *(point.best for point in found.front), *(m for m, _ in found.top(20))]
        assert any(isinstance(node, Storage) for mapping in mappings if mapping for node in mapping.nodes)
        for mapping in mappings:
            assert mapping is not None
            assert meets(EIGHTS, WINDOWS, FLAT, mapping, 0), mapping
    for mapping, _ in candidates(WINDOWS, FLAT, constraints=EIGHTS):
        assert meets(EIGHTS, WINDOWS, FLAT, mapping, 0), mapping


def sampled_answers_meet_all() -> int:
    """Hold sampled answers under random constraints against the referee; return how many there are."""
    rng = random.Random(4)
    answers = 0
    arch = two_levels(256)
    for _ in range(10):
        workload = rng.choice(SAMPLED)
        table = random_demands(rng, workload, arch)
        found = search(
            workload,
            arch,
            "energy",
            "divide",
            time_limit_s=300,
            seed=rng.randrange(100),
            clock=Ticks(),
            constraints=table,
        )
        for mapping in filter(None, [found.best]):
            answers += 1
            assert meets(table, workload, arch, mapping, steps_of(workload, arch, mapping)), (table, mapping)
    return answers


def test_sampled_answers_meet_random_constraints() -> None:
    assert sampled_answers_meet_all() >= 6


@pytest.mark.slow
def test_a_rule_that_spares_nodes_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_checks._Loops, "_is_inner", lambda *_: False)
    with pytest.raises(AssertionError):
        test_sampled_answers_keep_the_intrinsic_of_every_tile()


def test_the_rules_are_what_the_referee_takes_them_for() -> None:
    rng = random.Random(11)
    verdicts: list[bool] = []
    for _ in range(24):
        problem = random_problem(rng, most=3_000, tiles="divide")
        workload, arch = problem.workload, problem.arch
        if arch.compute.per_cycle != 1:
            continue
        table = random_demands(rng, workload, arch)
        rules = rules_from_document(table, workload, arch)
        for tree in scored_trees(workload, arch, "energy", "divide", every=1 + problem.legal // 25):
            if not tree.fits:
                continue
            cost = evaluate(workload, arch, tree.mapping)
            own = refusals(workload, arch, rules, tree.mapping, cost) == ()
            verdicts.append(own)
            truth = meets(table, workload, arch, tree.mapping, tree.steps)
            assert own == truth, (table, tree.mapping)
    assert verdicts.count(True) > 20
    assert verdicts.count(False) > 30


MACHINE = Architecture(
    "m", (MemoryLevel("DRAM"), Fanout("X", 50), MemoryLevel("L1"), Fanout("Y", 50), ComputeUnit("MAC"))
)


def covered_by_listing(extent: int, above: list[Temporal | Spatial]) -> set[int]:
    """Return the numbers of indices that iterations of the loops above leave, spatial loops over Y left free."""
    groups: dict[tuple[int, ...], int] = {}
    for index in range(extent):
        rest, key = index, list[int]()
        for loop in above:
            if not (isinstance(loop, Spatial) and loop.fanout == "Y"):
                key.append(rest // loop.tile)
            rest %= loop.tile
        groups[tuple(key)] = groups.get(tuple(key), 0) + 1
    return set(groups.values())


def test_the_indices_of_a_tile_are_counted_at_ragged_ends_too() -> None:
    rng = random.Random(2)
    some_fail = some_pass = 0
    for _ in range(400):
        extent = rng.randrange(2, 40)
        tiles = sorted({rng.randrange(1, extent + 1) for _ in range(3)}, reverse=True)
        above: list[Temporal | Spatial] = [
            Temporal("i", t) if (pick := rng.random()) < 0.5 else Spatial("i", t, "X" if pick < 0.75 else "Y")
            for t in tiles
        ]
        last = Temporal("i", 1)
        mapping = Mapping((*above, Storage("L1", ("A",)), last, Compute("S")))
        workload = einsum("B[i] += A[i]", i=extent)
        size = rng.choice((2, 3, 4))
        wanted = all(count % size == 0 for count in covered_by_listing(extent, above))
        (path,) = tree_paths(workload, mapping)
        assert rule_checks._Loops(workload, MACHINE, path).meets(Intrinsic("i", size)) == wanted, (extent, above, size)
        some_pass, some_fail = some_pass + wanted, some_fail + (not wanted)
    assert min(some_pass, some_fail) > 20


def test_a_program_keeps_rules_on_the_way_to_every_statement() -> None:
    text = "for (i = 0; i < 4; i++) T[i] = A[i]; for (j = 0; j < 4; j++) for (k = 0; k < 4; k++) B[j] += T[k];"
    program = from_c(text)
    first = (Temporal("i", 1), Compute("S0"))
    second = (Temporal("j", 1), Temporal("k", 1), Storage("GLB", ("B",)), Compute("S1"))
    mapping = Mapping((Branch((first, second)),))
    cost = evaluate(program, FLAT, mapping)
    for table, refused in (
        ({"order": ["j", "k"]}, False),
        ({"order": ["k", "j"]}, True),
        ({"store": {"GLB": {"must": ["B"]}}}, False),
        ({"store": {"GLB": {"never": ["B"]}}}, True),
        ({"store": {"GLB": {"must": ["T"]}}}, True),
        ({"intrinsic": {"k": 2}}, True),
        ({"intrinsic": {"i": 2}}, False),
        ({"fanouts": {"X": {"require": ["k"]}}}, True),
        ({"fanouts": {"X": {"forbid": ["k"]}}}, False),
    ):
        rules = rules_from_document(table, program, FLAT)
        assert bool(refusals(program, FLAT, rules, mapping, cost)) == refused, table


GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=16, k=16)


def test_a_mapping_that_breaks_a_rule_is_no_answer_of_the_exact_search(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    right, free = run.solve, analyse(GEMM, FLAT)
    for module in (run, in_order):
        monkeypatch.setattr(module, "solve", lambda _problem, *rest, **more: right(free, *rest, **more))
    best = explore(GEMM, FLAT, tiles="divide").best
    assert best is not None
    held = next(node for node in best.nodes if isinstance(node, Storage) and node.level != "DRAM")
    table = {"store": {held.level: {"never": list(held.tensors)}}}
    with pytest.raises(AssertionError, match=r"the search gives a mapping that is no answer: .* does not hold"):
        explore(GEMM, FLAT, tiles="divide", constraints=table)
    with pytest.raises(AssertionError, match="no answer"):
        list(candidates(GEMM, FLAT, constraints=table))
    words = ("explore", "C[m,n] += A[m,k] * B[k,n]", "m=16", "n=16", "k=16", "--arch", "flat3", "--tiles", "divide")
    assert main((*words, "--constraints", json.dumps(table))) == ExitCode.BUG
    said = capsys.readouterr()
    assert "internal error" in said.err
    assert "energy" not in said.out


def test_a_bound_above_a_mapping_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polymap.search.answer.floor_of", lambda *_: Fraction(10**9))
    with pytest.raises(AssertionError, match="better than what no mapping can beat"):
        explore(GEMM, FLAT, tiles="divide")


def test_a_figure_is_rounded_to_the_side_on_which_it_can_be_used() -> None:
    assert figure(Fraction(6, 7), up=False) == "0.85714285714"
    assert figure(Fraction(6, 7), up=True) == "0.85714285715"
    assert figure(Fraction(2001, 2), up=True) == "1000.5"
    assert figure(Fraction(1234567890123), up=True) == "1234567890123"
    assert figure(Fraction(10**15 + 1, 3), up=False) == "333333333333333"
    for numerator, denominator in product((1, 5, 123456789, 10**20 + 7), (1, 3, 7, 11, 40, 10**9 + 7)):
        value = Fraction(numerator, denominator)
        low, high = (Fraction(figure(value, up=up)) for up in (False, True))
        assert low <= value <= high
        assert high - low <= max(value / 10**10, Fraction(1, 10**11))


def test_the_highest_utilization_can_be_asked_for() -> None:
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=7, n=6, k=2)
    arch = Architecture("a", (MemoryLevel("DRAM"), Fanout("X", 7), MemoryLevel("RF"), ComputeUnit("MAC")))
    table: dict[str, object] = {"min_utilization": 0.95, "fanouts": {"X": {"forbid": ["m"]}}}
    told = explore(gemm, arch, tiles="divide", constraints=table).clash
    assert "utilization is at least 0.95 (min_utilization), of X 7" in told
    figures = told[-1].removeprefix("the highest utilization that the rest allows is ")
    assert 0 <= Fraction(6, 7) - Fraction(figures) < Fraction(1, 10**10)
    found = explore(gemm, arch, tiles="divide", constraints={**table, "min_utilization": float(figures)})
    assert found.status == "OPTIMAL"


def test_where_time_ends_that_is_said() -> None:
    rules = rules_from_document({"limits": {"energy": 1}, "innermost": ["k"]}, GEMM, FLAT)
    assert (
        clashing_rules(GEMM, FLAT, rules, DividingMappings(GEMM, lambda: True), lambda: True)[-1]
        == "which of them clash was not found out in time"
    )
