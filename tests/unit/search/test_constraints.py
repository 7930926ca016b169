"""Constraints: how they are read, what is said of mistakes and clashes, and that every way to ask for one works."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from polymap import candidates, compare, conv2d, einsum, explore, from_c, matmul, verify
from polymap.cli.command_line import main
from polymap.inputs.presets import load_arch
from polymap.ir.errors import ArchError, OptionError
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Spatial, Storage, Temporal
from polymap.report.summary import no_answer_text
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rules import AtLeast, AtMost, Factor, Held, Intrinsic, Outside, Utilization, rule_text
from tests.unit.search.machines import two_levels

pytestmark = pytest.mark.slow

GEMM = matmul(m=16, n=16, k=8)
FLAT = load_arch("flat3")
TWO = two_levels(1024)


def test_a_table_becomes_rules() -> None:
    document = {
        "order": [["m", "k"], ["m", "n"]],
        "fanouts": {"X": {"forbid": ["k"], "require": ["m"], "factors": {"n": 4}}},
        "store": {"GLB": {"must": ["@weight"], "never": ["A"]}},
        "intrinsic": {"m": 4, "n": 1},
        "min_utilization": 0.25,
        "limits": {"latency": 1000.5},
    }
    rules = rules_from_document(document, GEMM, FLAT)
    assert {Outside("m", "k"), Outside("m", "n"), Intrinsic("m", 4), Utilization(Fraction(1, 4))} <= set(rules)
    assert {Factor("X", "k", 1, 1), Factor("X", "m", 2, None), Factor("X", "n", 4, 4)} <= set(rules)
    assert {Held("GLB", "B", must=True), Held("GLB", "A", must=False)} <= set(rules)
    assert [rule.most for rule in rules if isinstance(rule, AtMost)] == [Fraction(2001, 2)]
    assert len(rules) == 10
    assert all(rule_text(rule) for rule in rules)
    assert rules_from_document({}, GEMM, FLAT) == ()


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"ordr": ["m"]}, "PM110 constraints has an unknown field 'ordr'\\n.*Did you mean 'order'"),
        ({"order": ["m"]}, "PM541 constraints: order has one dim"),
        ({"order": ["m", "q"]}, "PM542 constraints: order: there is no dim 'q'"),
        ({"order": [["m", "n"], ["n", "m"]]}, "PM547 constraints: the orders go in a circle: m outside n outside m"),
        ({"outermost": "m"}, "PM112 constraints: outermost is 'm'"),
        ({"outermost": ["m"], "innermost": ["m"]}, "PM547 constraints: m is outermost and innermost"),
        ({"fanouts": {"Z": {}}}, "PM545 constraints: fanouts.Z: there is no fan-out 'Z'"),
        ({"fanouts": {"X": {"forbid": ["m"], "require": ["m"]}}}, "PM547 constraints: m is required and barred on X"),
        ({"fanouts": {"X": {"factors": {"m": 0}}}}, "PM113 constraints: fanouts.X.factors: m is 0"),
        ({"store": {"GLBB": {"must": ["A"]}}}, "PM544 .*'GLBB'\\n.*Did you mean 'GLB'"),
        ({"store": {"DRAM": {"never": ["A"]}}}, "PM544 .* the outermost level always holds everything"),
        ({"store": {"GLB": {"must": ["D"]}}}, "PM543 constraints: store.GLB.must: there is no tensor 'D'"),
        ({"store": {"GLB": {"must": ["A"], "never": ["A"]}}}, "PM547 constraints: GLB must and may never hold A"),
        ({"min_utilization": 2}, "PM113 constraints: min_utilization is 2"),
        ({"limits": {"latncy": 4}}, "PM501 unknown objective 'latncy'"),
        ({"limits": {"pareto:energy,edp": 4}}, "PM508"),
        ({"limits": {"energy": -1}}, "PM113 constraints: limits: energy is -1"),
        ([], "PM112 constraints is a list"),
    ],
)
def test_mistakes_are_named(document: object, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        rules_from_document(document, GEMM, FLAT)


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        explore(GEMM, FLAT, constraints={"order": ["q", "m", "n"], "min_utilization": -1, "fanouts": 3})
    assert len(caught.value.mistakes) == 3
    with pytest.raises(OptionError) as caught:
        explore(GEMM, FLAT, "enrgy", tiles="some", constraints={"order": ["q", "m", "n"], "fanouts": 3})
    assert [each.code for each in caught.value.mistakes] == ["PM503", "PM501", "PM542", "PM112"]
    with pytest.raises(OptionError) as caught:
        next(candidates(GEMM, FLAT, "enrgy", limit=0, constraints={"order": ["q", "m", "n"]}))
    assert [each.code for each in caught.value.mistakes] == ["PM507", "PM501", "PM542"]
    with pytest.raises(ArchError) as refused:  # levels of the objective cannot be known
        explore(GEMM, "flat33", "weighted:1*enrgy+x*traffic:GLC", tiles="some")
    assert [each.code for each in refused.value.mistakes] == ["PM312", "PM503", "PM501", "PM509"]
    with pytest.raises(OptionError) as caught:
        explore(GEMM, FLAT, constraints={"order": ["m", "q"]})
    assert len(caught.value.mistakes) == 1


def test_orders_dims_and_tensors_are_where_they_were_asked_for() -> None:
    demands: dict[str, object] = {
        "innermost": ["k"],
        "fanouts": {"X": {"forbid": ["k"], "factors": {"n": 2}}},
        "store": {"BUF": {"must": ["C"], "never": ["A"]}},
    }
    free = explore(GEMM, TWO, tiles="divide")
    found = explore(GEMM, TWO, tiles="divide", constraints=demands)
    assert found.status == "OPTIMAL"
    assert found.best is not None
    assert found.value is not None
    assert free.value is not None
    assert found.value >= free.value
    loops = [node for node in found.best.nodes if isinstance(node, Temporal)]
    assert loops[-1].dim == "k"
    assert {node.dim for node in found.best.nodes if isinstance(node, Spatial)} <= {"m", "n"}
    held = {t for node in found.best.nodes if isinstance(node, Storage) and node.level == "BUF" for t in node.tensors}
    assert "C" in held
    assert "A" not in held


def test_a_limit_on_another_objective_moves_along_the_front() -> None:
    front = explore(GEMM, TWO, "pareto:capacity:BUF,traffic:DRAM", tiles="divide").front
    assert len(front) >= 3
    for point in (front[0], front[len(front) // 2], front[-1]):
        most = float(point.values[0][1])
        limited = explore(GEMM, TWO, "traffic:DRAM", tiles="divide", constraints={"limits": {"capacity:BUF": most}})
        assert (limited.status, limited.value) == ("OPTIMAL", point.values[1][1])


def test_a_window_keeps_the_order_that_was_asked_for() -> None:
    layer = conv2d(K=4, C=4, H=6, W=6, R=3, S=1, padding=0)
    found = explore(layer, TWO, tiles="divide", constraints={"order": ["c", "p"]})
    assert found.status == "OPTIMAL"
    assert found.best is not None
    dims = [node.dim for node in found.best.nodes if isinstance(node, Temporal)]
    assert "p" not in dims or "c" not in dims[dims.index("p") :]


@pytest.mark.parametrize(
    ("demands", "told"),
    [
        (
            {"intrinsic": {"m": 3}, "store": {"RF": {"must": ["A"]}}, "innermost": ["k"]},
            ["every tile is a multiple of 3 along m (intrinsic)"],  # m is 16
        ),
        ({"limits": {"latency": 10}, "innermost": ["k"]}, ["latency is at most 10 (limits)", "the least latency"]),
        ({"min_utilization": 1, "fanouts": {"X": {"forbid": ["m", "n", "k"]}}}, ["utilization is at least 1"]),
        ({"fanouts": {"X": {"factors": {"m": 3}}}}, ["m is spread over 3 instances of X"]),
        ({"store": {"RF": {"must": ["A", "B", "C"]}}, "limits": {"capacity:RF": 8}}, ["capacity:RF is at most 8"]),
    ],
)
def test_a_clash_is_the_smallest_set_of_demands(demands: dict[str, object], told: list[str]) -> None:
    found = explore(GEMM, TWO, tiles="divide", constraints=demands)
    assert found.status == "INFEASIBLE"
    text = "; ".join(found.clash)
    assert all(part in text for part in told), text
    assert "innermost" not in text


def test_a_clash_over_utilization_tells_the_highest_that_some_mapping_reaches() -> None:
    demands: dict[str, object] = {"min_utilization": 1, "fanouts": {"X": {"forbid": ["m", "n", "k"]}}}
    told = explore(GEMM, TWO, tiles="divide", constraints=demands).clash[-1]
    most = float(told.removeprefix("the highest utilization that the rest allows is "))
    assert most == 1 / 4
    helped = explore(GEMM, TWO, tiles="divide", constraints={**demands, "min_utilization": most})
    assert helped.cost is not None
    assert helped.cost.utilization == most


def test_what_is_refuted_for_tiles_of_any_size_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explore", "C[m,n] += A[m,k] * B[k,n]", "m=4", "n=6", "k=2", "--arch", "flat3")
    assert main((*words, "--constraints", '{"limits": {"energy": 1}}')) == 3
    said = capsys.readouterr().err
    assert "PM572 no mapping satisfies all requirements; these clash:" in said
    assert "energy is at most 1 (limits)" in said
    assert "no mapping at all has less energy than " in said


@pytest.mark.parametrize(
    ("demands", "told"),
    [
        ({"limits": {"latency": 100}, "innermost": ["k"]}, {"latency is at most 100 (limits)"}),
        (
            {"min_utilization": 0.5, "fanouts": {"X": {"forbid": ["m", "n", "k"]}}},
            {
                "utilization is at least 0.5 (min_utilization), of X 4",
                *(f"{dim} is not spread over X (fanouts)" for dim in "mnk"),
                "the highest utilization that the rest allows is 0.25",
            },
        ),
        ({"fanouts": {"X": {"factors": {"m": 8}}}}, {"m is spread over 8 instances of X (fanouts)"}),
        (
            {"intrinsic": {"m": 3}, "store": {"RF": {"must": ["A"]}}},
            {"every tile is a multiple of 3 along m (intrinsic)"},
        ),
        (
            {"intrinsic": {"m": 8}, "store": {"RF": {"must": ["A"]}}},
            {
                "RF holds A (store)",
                "every tile is a multiple of 8 along m (intrinsic)",
                "RF has capacity_bits 32",
            },
        ),
    ],
)
def test_clashes_that_need_no_tile_sizes_are_proven_for_all_of_them(demands: dict[str, object], told: set[str]) -> None:
    found = explore(GEMM, TWO, constraints=demands, work_limit=300)
    assert found.status == "INFEASIBLE"
    assert found.work == 0
    facts = {"X has 4 instances (size)"} if "factors" in str(demands) or "limits" in demands else set()
    figures = {one for one in found.clash if one.startswith("no mapping at all")} if "limits" in demands else set()
    assert set(found.clash) == told | facts | figures
    assert len(figures) == ("limits" in demands)


def test_with_tiles_of_any_size_a_clash_of_dividing_ones_is_told_but_nothing_is_proven() -> None:
    """130 steps are too few for tiles that divide; what others need is not known."""
    wanted = {"fanouts": {"X": {"factors": {"m": 3}}}}
    found = explore(GEMM, TWO, constraints={**wanted, "limits": {"energy": 70_000}}, work_limit=300)
    assert found.status == "TIMEOUT"
    assert found.work >= 300
    divide = explore(GEMM, TWO, tiles="divide", constraints={**wanted, "limits": {"energy": 70_000}})
    assert divide.status == "INFEASIBLE"
    assert found.clash == divide.clash
    assert "with tiles that divide there is none, as these clash:" in no_answer_text(found)


def test_candidates_and_fronts_keep_to_constraints_too() -> None:
    demands: dict[str, object] = {"store": {"BUF": {"never": ["B"]}}}
    ranked = list(candidates(GEMM, TWO, "energy", limit=5, constraints=demands))
    front = explore(GEMM, TWO, "pareto:energy,latency", tiles="divide", constraints=demands).front
    mappings = [mapping for mapping, _ in ranked] + [point.best for point in front if point.best is not None]
    assert len(mappings) >= 6
    for mapping in mappings:
        buffers = [node for node in mapping.nodes if isinstance(node, Storage) and node.level == "BUF"]
        assert all("B" not in node.tensors for node in buffers)


def test_programs_outside_the_lattice_keep_to_constraints_too() -> None:
    scan = from_c("for (i = 1; i < N; i++) A[i] = A[i-1] + B[i];", sizes={"N": 8})
    found = explore(scan, TWO, tiles="divide", constraints={"store": {"BUF": {"must": ["B"]}}})
    assert found.status in ("FEASIBLE", "TIMEOUT", "OPTIMAL")
    if found.best is not None:
        assert any(
            isinstance(node, Storage) and node.level == "BUF" and "B" in node.tensors for node in found.best.nodes
        )


def test_the_command_line_takes_a_file_or_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("explore", "C[m,n] += A[m,k] * B[k,n]", "m=4", "n=6", "k=2", "--arch", "flat3", "--tiles", "divide")
    path = tmp_path / "constraints.json"
    path.write_text(json.dumps({"store": {"GLB": {"must": ["A"]}}}))
    for given in (str(path), '{"store": {"GLB": {"must": ["A"]}}}'):
        assert main((*words, "--constraints", given, "--json", "-")) == 0
        answer = json.loads(capsys.readouterr().out)
        assert any(row["level"] == "GLB" and row["tensor"] == "A" for row in answer["cost"]["traffic"])
    assert main((*words, "--constraints", '{"limits": {"latency": 1}}')) == 3
    assert "PM572" in capsys.readouterr().err
    assert main((*words, "--constraints", "[1]")) == 2
    assert "PM112" in capsys.readouterr().err
    assert main((*words, "--constraints", '{"order": ["m"]}')) == 2
    assert "PM541" in capsys.readouterr().err


def test_a_dim_of_one_index_is_passed_over() -> None:
    vector = einsum("y[m] += A[m,k] * x[k]", m=8, k=1)
    found = explore(vector, TWO, tiles="divide", constraints={"outermost": ["k"], "order": ["k", "m"]})
    assert found.status == "OPTIMAL"


def test_least_elements_of_tiles_are_kept_and_certified() -> None:
    found = explore(GEMM, TWO, tiles="divide", constraints={"store": {TWO.levels[1].name: {"least": {"C": 64}}}})
    assert found.status == "OPTIMAL"
    assert found.best is not None
    assert rule_text(AtLeast("RF", "C", 64)) == "tiles of C in RF have at least 64 elements (store)"
    assert verify(found.certificate()).proven
    with pytest.raises(OptionError, match="PM543 constraints: store.GLB.least: an axis of 'I' is no single dim"):
        rules_from_document({"store": {"GLB": {"least": {"I": 4}}}}, conv2d(K=2, C=2, H=4, W=4, R=3, S=3), FLAT)


@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize(("extent", "is_feasible"), [(8, False), (16, True), (20, False), (24, False), (32, True)])
def test_a_tile_of_the_instructions_size_exists_also_where_nothing_is_stored(
    extent: int, is_feasible: bool, tiles: str
) -> None:
    layer = matmul(m=4, n=4, k=extent)
    found = explore(layer, load_arch("flat3"), tiles=tiles, constraints={"intrinsic": {"k": 16}}, work_limit=100)
    assert (found.best is not None) == is_feasible
    if not is_feasible:
        assert found.status == "INFEASIBLE"
        assert found.clash == ("every tile is a multiple of 16 along k (intrinsic)",)
        assert list(candidates(layer, "flat3", constraints={"intrinsic": {"k": 16}})) == []


@pytest.mark.parametrize(
    ("text", "levels", "told"),
    [
        ("y[m] max= A[m,k]", "flat3", "no mapping is weight-stationary: 'e' has no weight"),
        ("y[m] += A[m,k] * x[k]", "open", "no level of 'open' below the outermost is below all fan-outs"),
    ],
)
def test_a_dataflow_that_no_mapping_has_is_no_empty_demand(text: str, levels: str, told: str) -> None:
    nodes = (*TWO.nodes[:2], Fanout("Z", 2), TWO.nodes[-1])
    arch = Architecture("open", nodes) if levels == "open" else load_arch(levels)
    layer = einsum(text, m=4, k=4, name="e")
    with pytest.raises(OptionError, match="PM546") as caught:
        explore(layer, arch, constraints={"dataflow": "weight-stationary"})
    assert told in str(caught.value)
    families = compare(layer, arch, ("weight-stationary", "optimum"), time_limit_s=1)
    assert families["optimum"].mapping is not None
