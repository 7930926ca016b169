"""Every public result is a value: it pickles, is equal to its copy, and what it can be asked for comes with it."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from inspect import isclass
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel.crossovers import family, placements
from polymap.costmodel.referees import TreeWalk
from polymap.ir.loopnest import Workload
from polymap.search import dividing
from polymap.search.driver import Resumption
from polymap.search.result import Progress, SearchResult
from tests.unit.search.machines import two_levels

TINY = pm.matmul(m=2, n=2, k=2)
ALONE = {"fanouts": {"X": {"forbid": ["m", "n", "k"]}}}  # on one lane: not proven before all trees are walked
GEMM = pm.matmul(m=4, n=4, k=2)
LARGE = pm.matmul(m=16, n=24, k=8)
LAYER = pm.conv2d(K=4, C=2, H=6, W=5, R=3, S=1, padding=0)
STENCIL = pm.from_c("void f(int A[8]) { for (int t = 0; t < 3; t++) for (int i = 1; i < 8; i++) A[i] += A[i-1]; }")
TWO = two_levels(256)
ONES = (pm.Temporal("m", 1), pm.Temporal("n", 1), pm.Temporal("k", 1))
MAPPING = pm.Mapping((pm.Temporal("m", 2), pm.Storage("BUF", ("A",)), *ONES, pm.Compute("S")))
FULL = replace(
    TWO,
    nodes=tuple(
        replace(one, must_hold=("A", "B", "C"), buffering=2)
        if isinstance(one, pm.MemoryLevel) and one.name == "RF"
        else one
        for one in TWO.nodes
    ),
)


def copied(value: object) -> object:
    return pickle.loads(pickle.dumps(value))


def costs() -> pm.Cost:
    return pm.evaluate(GEMM, TWO, MAPPING)


def arrays(rows: int = 3) -> pm.study.CostArrays:
    return pm.evaluate_many(GEMM, TWO, MAPPING, [[2, 1, 1, 1], [4, 1, 1, 1], [1, 1, 1, 1]][:rows])


def crossover() -> pm.study.Crossover:
    one = family("one", placements(GEMM, TWO, MAPPING, "BUF"))
    return pm.study.crossover(GEMM, TWO, one, family("other", [MAPPING]), level="BUF")


@pytest.mark.parametrize(
    "make",
    [
        costs,
        crossover,
        arrays,
        lambda: pm.simulate(GEMM, TWO, MAPPING),
        lambda: pm.explore(GEMM, TWO, tiles="divide"),
        lambda: pm.explore(GEMM, TWO, "pareto:energy,capacity:BUF", tiles="divide"),
        lambda: pm.explore(GEMM, TWO, constraints={"min_utilization": 1}, tiles="divide"),
        lambda: pm.explore(LAYER, TWO, work_limit=20),
        lambda: pm.explore(LAYER, TWO, "lex:latency,energy", work_limit=50),
        lambda: pm.explore(TINY, FULL),
        lambda: pm.explore(STENCIL, TWO, work_limit=30),
        lambda: pm.study.buffer_curve(GEMM, TWO, "BUF", [64, 256]),
        lambda: pm.verify(pm.explore(GEMM, TWO, tiles="divide").certificate()),
        lambda: costs().formula("BUF", "A"),
        lambda: pm.violations(GEMM, two_levels(1), MAPPING),
    ],
)
def test_a_result_is_equal_to_its_pickled_copy(make: object) -> None:
    assert callable(make)
    value = make()
    again = copied(value)
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    assert str(again) == str(value)
    assert hash(again) == hash(value)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_what_a_c_program_did_is_a_value() -> None:
    run = pm.run_c(GEMM, TWO, MAPPING)
    assert copied(run) == run


def test_tables_of_costs_differ_where_an_entry_does() -> None:
    table = arrays()
    assert table == arrays()
    assert table != arrays(2)
    assert table != costs()
    assert table != replace(table, legal=~table.legal)
    rows = tuple(replace(row, fills=row.fills + np.int64(row.tensor == "B")) for row in table.traffic)
    assert table != replace(table, traffic=rows)
    assert table.traffic[0] == arrays().traffic[0]
    assert table.traffic[0] != table.traffic[1]


def test_a_cost_keeps_its_energy_exactly() -> None:
    thirds = tuple(
        replace(node, read_pj=Fraction(1, 3)) if isinstance(node, pm.MemoryLevel) else node for node in TWO.nodes
    )
    cost = pm.evaluate(GEMM, replace(TWO, nodes=thirds), MAPPING)
    assert cost.energy_pj_exact.denominator > 1
    assert cost.energy_pj_exact == sum(energy for _, energy in cost.energy_by_level_pj_exact)
    assert cost.energy_pj == float(cost.energy_pj_exact)
    assert cost.energy_by_level_pj == tuple((name, float(pj)) for name, pj in cost.energy_by_level_pj_exact)


@pytest.mark.parametrize("objective", ["energy", "pareto:energy,capacity:BUF", "lex:latency,energy"])
def test_a_result_knows_its_question(objective: str) -> None:
    found = pm.explore(TINY, TWO, objective)
    answers = [found, *found.front, *([found.dividing] if found.dividing else [])]
    assert len(answers) >= 2
    for one in answers:
        assert (one.workload, one.arch) == (TINY, TWO)
        assert one.cost is not None
        assert (one.cost.workload, one.cost.arch, one.cost.mapping) == (TINY, TWO, one.best)
    nothing = pm.explore(TINY, FULL)
    assert (nothing.status, nothing.workload, nothing.arch) == ("INFEASIBLE", TINY, FULL)
    assert "workload=" not in repr(found)


def test_a_copy_lists_the_best_mappings_and_proves_the_answer() -> None:
    found = pm.explore(GEMM, TWO, tiles="divide")
    again = copied(found)
    assert isinstance(again, SearchResult)
    assert again.top(3) == found.top(3)
    assert len(again.top(3)) == 3
    assert again.certificate() == found.certificate()


def facts(found: SearchResult) -> tuple[object, ...]:
    return found.status, found.best, found.value, found.bound, found.values, found.front, found.space, found.work


@pytest.mark.parametrize(
    ("workload", "objective", "options"),
    [
        (LARGE, "energy", {"tiles": "divide", "work_limit": 30}),
        (LAYER, "edp", {"work_limit": 15}),
        (LARGE, "pareto:energy,capacity:BUF", {"tiles": "divide", "work_limit": 40}),
        pytest.param(LAYER, "energy", {"work_limit": 200, "constraints": {"innermost": ["r"]}}, marks=pytest.mark.soak),
        (TINY, "energy", {"work_limit": 60, "constraints": ALONE}),
        (STENCIL, "energy", {"work_limit": 30}),
    ],
)
def test_a_copy_resumes_like_the_result(
    workload: Workload, objective: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tables: products are solved in few steps without them."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    found = pm.explore(workload, TWO, objective, **options)  # type: ignore[arg-type]
    assert found.status in ("FEASIBLE", "TIMEOUT")
    again = copied(found)
    for _ in range(3):
        assert isinstance(again, SearchResult)
        found, again = found.resume(work_limit=20), again.resume(work_limit=20)
        fronts = (replace(found, front=()), replace(again, front=()))
        assert facts(fronts[0]) == facts(fronts[1])
        assert [facts(point) for point in found.front] == [facts(point) for point in again.front]
        again = copied(again)


def test_a_walk_over_all_trees_goes_on_where_it_was() -> None:
    found = pm.explore(TINY, TWO, work_limit=60, constraints=ALONE)
    again = copied(found)
    assert isinstance(again, SearchResult)
    assert isinstance(found.again, Resumption)
    assert isinstance(again.again, Resumption)
    walking, other = (one.search.engines.get(TreeWalk) for one in (found.again, again.again))
    assert walking is not None
    assert other is not None
    assert 0 < walking.legal == other.legal
    assert facts(again.resume()) == facts(found.resume())


def test_another_process_goes_on_with_a_search(tmp_path: Path) -> None:
    told: list[Progress] = []
    found = pm.explore(LAYER, TWO, work_limit=20, on_progress=told.append)
    file = tmp_path / "found.pickle"
    file.write_bytes(pickle.dumps(found))
    code = (
        "import pickle, sys; found = pickle.load(open(sys.argv[1], 'rb')).resume(work_limit=20); "
        "print(found.status, found.value, found.bound, found.work)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True).stdout
    before = len(told)
    here = found.resume(work_limit=20)
    assert said.split() == [str(one) for one in (here.status, here.value, here.bound, here.work)]
    assert len(told) > before


def test_limits_of_a_resumed_search_are_checked() -> None:
    found = copied(pm.explore(GEMM, TWO, work_limit=2))
    assert isinstance(found, SearchResult)
    with pytest.raises(pm.errors.OptionError, match="PM504"):
        found.resume(time_limit_s=0)


def test_records_print_the_fields_that_are_not_defaults() -> None:
    level = pm.MemoryLevel("GLB", capacity_bits=1024, read_pj=Fraction(1, 2))
    assert repr(level) == "MemoryLevel(name='GLB', capacity_bits=1024, read_pj=1/2)"
    assert repr(pm.network("resnet50").layers[0]) == (
        "NetworkLayer(name='resnet50.conv1', workload=<resnet50.conv1>, multiplicity=1)"
    )


SPACES = (pm, pm.study, pm.space, pm.io, pm.layouts, pm.plot, pm.errors, pm.transform)
CLASSES = {value for space in SPACES for name in dir(space) if isclass(value := getattr(space, name))}
RECORDS = {"InstancePoint", "Layout", "Lane", "CountFormula", "MappingNode"}  # of plain fields
PLAIN = {"int", "float", "str", "bool", "None", "Fraction", "object", "MaybeNone", "tuple", *RECORDS}


@pytest.mark.parametrize("kind", sorted(filter(is_dataclass, CLASSES), key=str), ids=lambda kind: kind.__name__)
def test_no_public_value_prints_as_a_dump_of_others(kind: type) -> None:
    """The repr that dataclasses generate holds those of all fields: only records of numbers and names have it."""
    if hasattr(kind.__repr__, "__wrapped__"):
        shown = [each for each in fields(kind) if each.repr]
        assert {name for each in shown for name in re.findall(r"[A-Za-z]+", str(each.type))} <= PLAIN


def test_the_answer_about_a_layer_is_summarised_and_draws_itself() -> None:
    net = pm.Network("two", (pm.io.NetworkLayer("first", TINY, 3), pm.io.NetworkLayer("last", GEMM, 1)))
    layer = pm.explore_network(net, "flat3", tiles="divide").layers[0]
    assert repr(layer).startswith("first (3 nodes): OPTIMAL: energy ")
    assert len(repr(layer).splitlines()) <= 15
    assert "<svg" in layer._repr_html_()
