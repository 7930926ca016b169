"""The Python API takes names where it takes objects, and answers wrong types with errors of its own."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.costmodel.analysis.nest import mapping_text
from polymap.report.figures.machine import machine_svg
from polymap.report.figures.nest_svg import mapping_svg
from polymap.report.text.explanation import explain

LAYER = pm.matmul(m=4, n=4, k=4, name="small")
FLAT = pm.load_arch("flat3")
BEST = pm.explore(LAYER, FLAT, tiles="divide").best
COST = pm.evaluate(LAYER, FLAT, BEST)
JUNK: tuple[Any, ...] = (None, 5, 2.5, "nonsense", [], {}, object(), True, b"x", LAYER, FLAT, BEST)

# Each public function by its arguments, all of them right.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "explore": (
        pm.explore,
        {
            "workload": LAYER,
            "arch": FLAT,
            "objective": "energy",
            "tiles": "divide",
            "time_limit_s": 2,
            "workers": 1,
            "seed": 0,
            "constraints": {"innermost": ["k"]},
            "memory_limit_mb": 4000,
            "on_progress": None,
            "work_limit": 100000,
        },
    ),
    "evaluate": (pm.evaluate, {"workload": LAYER, "arch": FLAT, "mapping": BEST}),
    "simulate": (pm.simulate, {"workload": LAYER, "arch": FLAT, "mapping": BEST}),
    "violations": (pm.violations, {"workload": LAYER, "arch": FLAT, "mapping": BEST}),
    "generate_c": (pm.generate_c, {"workload": LAYER, "arch": FLAT, "mapping": BEST}),
    "choose_tiles": (pm.choose_tiles, {"workload": LAYER, "arch": FLAT, "objective": "energy", "time_limit_s": 2}),
    "candidates": (
        lambda **words: list(pm.candidates(**words)),
        {"workload": LAYER, "arch": FLAT, "objective": "energy", "limit": 2, "time_limit_s": 2},
    ),
    "sample_mappings": (pm.sample_mappings, {"workload": LAYER, "arch": FLAT, "n": 3, "seed": 0}),
    "space.structures": (
        lambda **words: next(pm.space.structures(**words)),
        {"workload": LAYER, "arch": FLAT, "constraints": {"innermost": ["k"]}},
    ),
    "space.size": (pm.space.size, {"workload": LAYER, "arch": FLAT, "tiles": "divide"}),
    "space structure's score": (
        next(pm.space.structures(LAYER, FLAT)).score,
        {"objective": "energy", "time_limit_s": 2},
    ),
    "explain": (explain, {"workload": LAYER, "arch": FLAT}),
    "mapping_svg": (mapping_svg, {"workload": LAYER, "arch": FLAT}),
    "mapping_text": (mapping_text, {"workload": LAYER, "mapping": BEST, "arch": FLAT}),
    "machine_svg": (machine_svg, {"arch": FLAT}),
    "dependences": (pm.dependences, {"workload": LAYER}),
    "verify": (pm.verify, {"workload": LAYER, "arch": FLAT, "objective": "energy"}),
    "load_arch": (pm.load_arch, {"name_or_path": "flat3"}),
    "load_workload": (pm.load_workload, {"word": "resnet50.fc"}),
    "arch_from_document": (pm.io.arch_from_document, {"document": pm.io.arch_to_document(FLAT)}),
    "workload_from_document": (pm.io.workload_from_document, {"document": pm.io.workload_to_document(LAYER)}),
    "mapping_from_document": (pm.io.mapping_from_document, {"document": pm.io.mapping_to_document(BEST)}),
    "matmul": (pm.matmul, {"m": 3, "n": 3, "k": 3, "bits": 8, "name": "x"}),
    "conv2d": (pm.conv2d, {"K": 2, "C": 2, "H": 4, "W": 4, "R": 3, "S": 3, "stride": 1, "padding": 1, "bits": 8}),
    "einsum": (pm.einsum, {"text": "C[m] += A[m]", "sizes": {"m": 3}, "bits": 8, "roles": {"A": "input"}}),
    "from_c": (pm.from_c, {"source": "for (int i = 0; i < 4; i++) x[i] = 0;", "sizes": {}}),
    "builtin_workload": (pm.io.builtin_workload, {"name": "resnet50.fc"}),
    "dataflow": (pm.dataflow, {"name": "WS"}),
    "order": (pm.order, {"dims": "m n"}),
}
REST: dict[str, dict[str, Any]] = {
    "explain": {"mapping": BEST, "cost": COST},
    "mapping_svg": {"mapping": BEST, "cost": COST},
    "verify": {"text": "polymap certificate 2"},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name, (_, own) in CALLS.items() for argument in own]
)
def test_wrong_types_get_an_error_of_polymap(name: str, argument: str) -> None:
    call, right = CALLS[name]
    rest = REST.get(name, {})
    for junk in JUNK:
        try:
            call(**{**right, argument: junk}, **rest)
        except pm.PolymapError:
            continue


def test_names_stand_for_objects() -> None:
    layer, arch = pm.io.builtin_workload("alexnet.fc8"), pm.load_arch("flat3")
    result = pm.explore("alexnet.fc8", "flat3", tiles="divide", time_limit_s=20)
    assert (result.workload, result.arch) == (layer, arch)
    assert pm.evaluate("alexnet.fc8", "flat3", result.best) == result.cost
    assert pm.violations("alexnet.fc8", "flat3", result.best) == ()
    assert pm.generate_c("alexnet.fc8", "flat3", result.best) == result.c()
    assert explain("alexnet.fc8", "flat3", result.best, result.cost) in result.explain()
    assert mapping_svg("alexnet.fc8", "flat3", result.best).startswith("<svg")
    with pytest.raises(pm.PolymapError, match="(?s)alexnet.fc9.*flat4.*Did you mean 'flat3'"):
        pm.explore("alexnet.fc9", "flat4")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda pm: pm.MemoryLevel("GLB", "512"), "PM121 level 'GLB': capacity_bits is '512'\n.*integer >= 1 or None"),
        (lambda pm: pm.MemoryLevel("GLB", 0), "PM121 .*capacity_bits is 0"),
        (lambda pm: pm.MemoryLevel("GLB", True), "PM121 .*capacity_bits is True"),
        (lambda pm: pm.MemoryLevel("a b"), "PM121 .*name is 'a b'"),
        (lambda pm: pm.MemoryLevel("GLB", read_pj=-1), "PM121 .*read_pj is -1"),
        (lambda pm: pm.MemoryLevel("GLB", read_pj=float("nan")), "PM121 .*read_pj is nan"),
        (lambda pm: pm.MemoryLevel("GLB", bandwidth_bits_per_cycle=0), "PM121 .*bandwidth_bits_per_cycle is 0"),
        (lambda pm: pm.MemoryLevel("GLB", holds="W"), "PM121 .*holds is 'W'"),
        (lambda pm: pm.Fanout("X", 2.5), "PM121 fan-out 'X': size is 2.5"),
        (lambda pm: pm.Fanout("X", 2, "identical"), "PM121 .*multicast is 'identical'"),
        (lambda pm: pm.Fanout(3, 2), "PM121 .*name is 3"),
        (lambda pm: pm.ComputeUnit("MAC", per_cycle=None), "PM121 .*per_cycle is None"),
        (lambda pm: pm.Architecture("m", [pm.MemoryLevel("DRAM"), "MAC"]), r"PM121 .*nodes\[1\] is 'MAC'"),
        (lambda pm: pm.Architecture("m", None), "PM121 .*nodes is None"),
        (lambda pm: pm.Mapping([pm.Temporal("m", 1), 3]), r"PM121 mapping: nodes\[1\] is 3"),
        (lambda pm: pm.Mapping(None), "PM121 mapping: nodes is None"),
        (lambda pm: pm.Temporal("m", 1.5), "PM121 temporal loop: tile is 1.5"),
        (lambda pm: pm.Temporal("m", "1"), "PM121 temporal loop: tile is '1'"),
        (lambda pm: pm.Spatial("m", 1, None), "PM121 spatial loop: fanout is None"),
        (lambda pm: pm.Storage("GLB", "W"), "PM121 storage node: tensors is 'W'"),
        (lambda pm: pm.Storage("GLB", (1,)), r"PM121 storage node: tensors\[0\] is 1"),
        (lambda pm: pm.Compute(None), "PM121 compute node: statement is None"),
        (lambda pm: pm.Branch(((3,),)), r"PM121 mapping: nodes\[0\] is 3"),
        (lambda pm: pm.Workload("w", (), ("A",), ()), r"PM121 workload 'w': tensors\[0\] is 'A'"),
    ],
)
def test_construction_checks_its_fields(make: Callable[[Any], object], message: str) -> None:
    with pytest.raises(pm.PolymapError, match=f"(?s){message}"):
        make(pm)


def test_a_machine_without_energies_warns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = {
        "name": "bare",
        "nodes": [{"level": "DRAM"}, {"level": "RF", "capacity_bits": 4096}, {"compute": "MAC"}],
    }
    arch = pm.io.arch_from_document(document)
    for objective in ("energy", "edp", "pareto:latency,energy"):
        with pytest.warns(RuntimeWarning, match="machine 'bare' states no energies .*: every mapping costs 0 pJ"):
            pm.explore(LAYER, arch, objective, tiles="divide", time_limit_s=5)
    assert pm.explore(LAYER, arch, "latency", tiles="divide").status == "OPTIMAL"
    (tmp_path / "bare.json").write_text(json.dumps(document))
    words = ("matmul", "m=2", "n=2", "k=2", "--arch", str(tmp_path / "bare.json"), "--tiles", "divide")
    assert main(("explore", *words)) == 0
    assert capsys.readouterr().err.count("states no energies") == 1


def test_construction_takes_what_says_the_same() -> None:
    level = pm.MemoryLevel("L", np.int64(8), read_pj=0.1, write_pj=2, holds=["A"])  # type: ignore[arg-type]
    assert type(level.capacity_bits) is int
    assert (level.read_pj, level.write_pj, level.holds) == (Fraction(1, 10), Fraction(2), ("A",))
    assert type(level.write_pj) is Fraction
    tree = pm.Mapping([pm.Storage("L", ["A"]), pm.Temporal("m", np.int64(1)), pm.Compute("S")])  # type: ignore[arg-type]
    assert tree == pm.Mapping((pm.Storage("L", ("A",)), pm.Temporal("m", 1), pm.Compute("S")))
    assert hash(tree) == hash(pickle.loads(pickle.dumps(tree)))


@pytest.mark.parametrize("field", ["capacity_bits", "word_bits", "bandwidth_bits_per_cycle"])
@pytest.mark.parametrize(
    "amount", ["16 KiB", "16KiB", "0.5 KiB", "64 B", "4 Kibit", "1e3 B", "2 MiB", "1 bit",
               "0.3 bit", "0 B", "16", "1e3", "4 foo", "16 KB", "-1 B", "", "KiB", "1 KiB 2"]
)  # fmt: skip
def test_constructors_and_machine_files_read_the_same_amounts(field: str, amount: str) -> None:
    nodes = [{"level": "DRAM"}, {"level": "GLB", field: amount}, {"compute": "MAC"}]
    try:
        read = getattr(pm.io.arch_from_document({"name": "m", "nodes": nodes}).nodes[1], field)
    except pm.PolymapError:
        with pytest.raises(pm.errors.ArchError, match=f"^PM121 level 'GLB': {field} is .*\n.*unit"):
            API.MemoryLevel("GLB", **{field: amount})
        return
    made = getattr(API.MemoryLevel("GLB", **{field: amount}), field)
    assert (made, type(made)) == (read, type(read))


EIGHT = pm.einsum("S[] += A[a,b,c,d,e,f,g,h]", sizes=dict.fromkeys("abcdefgh", 2))
API: Any = pm  # type checkers would refuse what follows
SAMPLE = pm.sample_mappings(LAYER, FLAT, 3)
WRONG: dict[str, Callable[[], object]] = {
    "evaluate, time for a mapping": lambda: API.evaluate(LAYER, FLAT, 60),
    "explore, words for seconds": lambda: API.explore(LAYER, FLAT, time_limit_s="x"),
    "explore, a table for an objective": lambda: API.explore(LAYER, FLAT, {"energy": 1}),
    "dependences": lambda: API.dependences(3),
    "compare, a number of families": lambda: API.compare(LAYER, FLAT, 3),
    "compare, families of numbers": lambda: API.compare(LAYER, FLAT, [3]),
    "compare, words for seconds": lambda: API.compare(LAYER, FLAT, time_limit_s="x"),
    "score_mappings, one mapping": lambda: API.score_mappings(LAYER, FLAT, BEST),
    "score_mappings, no mappings": lambda: API.score_mappings(LAYER, FLAT, [3]),
    "neighbours": lambda: API.neighbours(LAYER, FLAT, None),
    "features": lambda: API.features(LAYER, FLAT, "best"),
    "distance": lambda: API.distance(LAYER, FLAT, BEST, 2),
    "load_result, a number": lambda: API.load_result(3),
    "load_result, bytes": lambda: API.load_result(b"run.json"),
    "buffer_curve, no sizes": lambda: API.buffer_curve(LAYER, FLAT, "GLB", 64),
    "buffer_curve, half a bit": lambda: API.buffer_curve(LAYER, FLAT, "GLB", [0.5]),
    "buffer_curve, no level": lambda: API.buffer_curve(LAYER, FLAT, 3, [64]),
    "buffer_curve, words": lambda: API.buffer_curve(LAYER, FLAT, "GLB", [64], time_limit_s="x"),
    "explain, no cost": lambda: API.explain(LAYER, FLAT, BEST, 5),
    "traffic_text": lambda: API.traffic_text(BEST),
    "traffic_svg": lambda: API.traffic_svg(LAYER, FLAT, BEST),
    "roofline_text": lambda: API.roofline_text(LAYER, FLAT, 3),
    "roofline_svg, a cost alone": lambda: API.roofline_svg(LAYER, FLAT, COST),
    "roofline_svg, no label": lambda: API.roofline_svg(LAYER, FLAT, [COST]),
    "roofline_svg, nothing": lambda: API.roofline_svg(LAYER, FLAT, []),
    "front_svg, a number": lambda: API.front_svg(3),
    "front_svg, no front": lambda: API.front_svg(pm.explore(LAYER, FLAT, tiles="divide")),
    "history_svg": lambda: API.history_svg(None),
    "report_page": lambda: API.report_page(LAYER, FLAT, BEST),
    "mapping_to_document": lambda: API.mapping_to_document(LAYER),
    "workload_to_document": lambda: API.workload_to_document("gemm"),
    "arch_to_document": lambda: API.arch_to_document({}),
    "cloud_figure": lambda: API.cloud_figure([BEST]),
    "cloud_figure, no comparison": lambda: API.cloud_figure(SAMPLE, COST),
    "cloud_svg": lambda: API.cloud_svg(SAMPLE),
    "course_figure": lambda: API.course_figure(COST),
    "fate_figure": lambda: API.fate_figure("OPTIMAL"),
    "order_figure, many loops": lambda: API.order_figure(EIGHT, FLAT),
    "rarity_figure, no costs": lambda: API.rarity_figure("x", [], 1),
    "rarity_figure, optimum 0": lambda: API.rarity_figure("x", [1.0], 0),
    "sensitivity_figure": lambda: API.sensitivity_figure(LAYER, FLAT, time_limit_s=None),
    "smooth_figure": lambda: API.smooth_figure(BEST),
    "tile_map_figure, no loop": lambda: API.tile_map_figure(LAYER, FLAT, BEST, 0, 99),
    "tile_map_figure, one loop": lambda: API.tile_map_figure(LAYER, FLAT, BEST, 1, 1),
    "winner_figure, no axes": lambda: API.winner_figure(LAYER, FLAT, 3, 3),
    "winner_figure, no level": lambda: API.winner_figure(LAYER, FLAT, ("L9", [64]), ("RF", [64])),
    "capacity_figure, no level": lambda: API.capacity_figure(LAYER, FLAT, "L9", [64]),
    "capacity_figure, one size": lambda: API.capacity_figure(LAYER, FLAT, "RF", 64),
    "mapping_svg, a result": lambda: API.mapping_svg(LAYER, FLAT, RESULT),
    "mapping_svg, no cost": lambda: API.mapping_svg(LAYER, FLAT, BEST, RESULT),
    "traffic_svg, a result": lambda: API.traffic_svg(LAYER, FLAT, RESULT),
    "side_by_side": lambda: API.side_by_side(LAYER, FLAT, BEST, COST),
    "a machine by a wrong name": lambda: API.cloud_figure(pm.sample_mappings(LAYER, "flat33", 2)),
}  # fmt: skip


RESULT = pm.explore(LAYER, FLAT, tiles="divide")
# Arguments of functions that draw, all of them right, by their names.
RIGHT: dict[str, Any] = {
    "workload": LAYER, "arch": FLAT, "mapping": BEST, "cost": COST, "result": RESULT, "sample": SAMPLE,
    "costs": [("best", COST)], "statement": "S", "title": "x", "optimum": 1.0, "layers": [("a", 1.0, 1, "OPTIMAL")],
    "across": 0, "up": 1, "level": "RF", "sizes_bits": [64], "schedule": pm.Schedule.original(LAYER),
}  # fmt: skip
GRID = {"base": "flat3", "grid": {"X.size": [1, 2], "Y.size": [1, 2]}}
SWEEP = pm.sweep([LAYER], GRID, tiles="divide")
OTHER_RIGHT = {
    "machine_front_figure": {"table": SWEEP},
    "binding_figure": {"table": SWEEP, "across": "X.size", "up": "Y.size"},
    "rarity_figure": {"costs": [1.0, 2.0]},
    "winner_figure": {"across": ("RF", [64]), "up": ("GLB", [64])},
    "front_svg": {"result": pm.explore(LAYER, FLAT, "pareto:energy,latency", tiles="divide")},
}
PROGRAM = pm.program(["T[m] += A[m,k]", "C[m] = max(T[m], 0)"], m=2, k=2, temporary=["T"])
SOURCE = "void f(int N, float A[N]) { for (int i = 1; i < N; i++) A[i] = A[i] + 1.0f; }"
ON = {"workload": LAYER, "arch": FLAT, "mapping": BEST}
FLAT_NODES = pm.load_arch("flat3").nodes
NETWORK = pm.explore_network(
    pm.Network("one", (pm.io.NetworkLayer("one", LAYER, 1),)),
    replace(pm.load_arch("flat3"), nodes=(replace(FLAT_NODES[0], burst_bits=64), *FLAT_NODES[1:])),
    tiles="divide",
)
# Functions with arguments, all of them right, and those of them that are given a wrong type.
WRONGLY: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("evaluate", ON, ("time_limit_s",)),
    ("violations", ON, ("time_limit_s",)),
    ("evaluate_many", {"workload": LAYER, "arch": FLAT, "tiles": [[1, 1, 1]]}, ("tree",)),
    ("crossover", {"workload": LAYER, "arch": FLAT, "level": "GLB"}, ("one", "other")),
    ("formula", {**ON, "level": "DRAM", "tensor": "A"}, ("level", "tensor")),
    ("fusion", {"workload": PROGRAM, "arch": FLAT}, ("objective", "time_limit_s", "seed")),
    ("generate_c", ON, ("form",)),
    ("run_c", ON, ("form", "seed")),
    ("explain", {**ON, "cost": COST}, ("runner_up",)),
    ("burst_counts", ON, ("workload", "arch", "mapping", "layouts")),
    ("choose_layouts", {"answer": NETWORK}, ("answer", "edges", "time_limit_s")),
    ("report_page", {"workload": LAYER, "arch": FLAT, "result": RESULT}, ("other",)),
    ("explore_network", {"net": "alexnet", "arch": FLAT, "tiles": "divide"}, ("executor", "on_layer")),
    ("sweep", {"workloads": [], "machines": []}, ("workloads", "machines", "store", "executor")),
    ("program", {"statements": ["C[m] = A[m]"], "sizes": {"m": 2}}, ("statements", "types")),
    ("load_workload", {"word": "C[m] += A[m]"}, ("sizes",)),
    ("from_c", {"source": SOURCE, "sizes": {"N": 3}}, ("source", "sizes", "file", "budget")),
    ("transform_c", {"source": SOURCE}, ("source", "sizes", "schedule", "file", "tile", "order")),
    ("verify", {}, ("text", "seconds")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "places"), WRONGLY, ids=[name for name, _, _ in WRONGLY])
def test_arguments_of_a_wrong_type_are_named(name: str, right: dict[str, Any], places: tuple[str, ...]) -> None:
    others = {"one": object(), "other": object()} if name == "crossover" else {}
    text = {"text": "polymap certificate 3"} if name == "verify" else {}
    for place in places:
        for value in (object(), b"x", (object(),)):
            with pytest.raises(pm.PolymapError, match=r"^PM\d\d\d .*\S"):
                getattr(pm, name)(**{**others, **text, **right, place: value})


DRAW = [name for name in dir(pm) if name.endswith(("_svg", "_figure", "_plot"))]


@pytest.mark.parametrize("name", DRAW)
def test_figures_given_a_wrong_type_say_so(name: str) -> None:
    function = getattr(pm, name)
    needed = [
        each.name for each in inspect.signature(function).parameters.values() if each.default is inspect.Parameter.empty
    ]
    right = {**RIGHT, **OTHER_RIGHT.get(name, {})}
    wrong: tuple[Any, ...] = (None, 5, "nonsense", LAYER, BEST, RESULT, [BEST], {}, object())
    if needed == ["figure"]:
        for value in wrong:
            with pytest.raises(
                pm.PolymapError, match=r"^PM120 the figure is (.|\n)*Expected what \w+_(figure|graph)\(\.\.\.\)"
            ):
                function(value)
        return
    for place in needed:
        for value in wrong:
            if type(value) is type(right[place]):
                continue
            with suppress(pm.PolymapError):  # what is no error of polymap fails here
                function(**{each: value if each == place else right[each] for each in needed})


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_get_an_error_of_polymap(what: str) -> None:
    with pytest.raises(pm.PolymapError, match=r"^PM\d\d\d .*\S"):
        WRONG[what]()
