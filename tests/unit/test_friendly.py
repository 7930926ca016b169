"""The Python API takes names where it takes objects, and answers wrong types with errors of its own."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.costmodel.nest import mapping_text
from polymap.inputs import answers_in_words
from polymap.report.explanation import explain
from polymap.report.figures.machine import machine_svg
from polymap.report.figures.nest_svg import mapping_svg

LAYER = pm.matmul(m=4, n=4, k=4, name="small")
FLAT = pm.load_arch("flat3")
RESULT = pm.explore(LAYER, FLAT, tiles="divide")
BEST = RESULT.best
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
        (lambda pm: pm.Fanout("PEs", 4, reduction=0), "PM121 fan-out 'PEs': reduction is 0\n.*a bool"),
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
    sizes = {"m": 2, "n": 2, "k": 2}
    layer = {"einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": sizes}
    sweep = {"workloads": [layer, {**layer, "sizes": {**sizes, "m": 3}}], "machines": [document], "tiles": "divide"}
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    for command in (("explore", *words), ("sweep", str(tmp_path / "sweep.json"))):
        assert main(command) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if "states no energies" in line]
        assert [line.startswith("polymap: warning: machine 'bare'") for line in lines] == [True], command


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
    "explore, more seconds than a float holds": lambda: API.explore(LAYER, FLAT, time_limit_s=10**400),
    "verify, more seconds than a float holds": lambda: API.verify("", 10**400),
    "plot.machine, a width beyond all": lambda: API.plot.machine(FLAT, width_px=10**400),
    "merge_stores, into nothing": lambda: API.study.merge_stores(None, ["a.sqlite"]),
    "merge_stores, bytes": lambda: API.study.merge_stores("a.sqlite", b"b.sqlite"),
    "run_question, of nothing": lambda: API.study.run_question({}),
    "explore, words for seconds": lambda: API.explore(LAYER, FLAT, time_limit_s="x"),
    "explore, a table for an objective": lambda: API.explore(LAYER, FLAT, {"energy": 1}),
    "dependences": lambda: API.dependences(3),
    "compare, a number of families": lambda: API.compare(LAYER, FLAT, 3),
    "compare, families of numbers": lambda: API.compare(LAYER, FLAT, [3]),
    "compare, words for seconds": lambda: API.compare(LAYER, FLAT, time_limit_s="x"),
    "score, one mapping": lambda: API.space.score(LAYER, FLAT, BEST),
    "score, no mappings": lambda: API.space.score(LAYER, FLAT, [3]),
    "neighbours": lambda: API.space.neighbours(LAYER, FLAT, None),
    "features": lambda: API.space.features(LAYER, FLAT, "best"),
    "distance": lambda: API.space.distance(LAYER, FLAT, BEST, 2),
    "load_result, a number": lambda: API.load_result(3),
    "load_result, bytes": lambda: API.load_result(b"run.json"),
    "buffer_curve, no sizes": lambda: API.study.buffer_curve(LAYER, FLAT, "GLB", 64),
    "buffer_curve, half a bit": lambda: API.study.buffer_curve(LAYER, FLAT, "GLB", [0.5]),
    "buffer_curve, no level": lambda: API.study.buffer_curve(LAYER, FLAT, 3, [64]),
    "buffer_curve, words": lambda: API.study.buffer_curve(LAYER, FLAT, "GLB", [64], time_limit_s="x"),
    "explain, no cost": lambda: API.evaluate(LAYER, FLAT, BEST).explain(5),
    "result, explain, a mapping": lambda: RESULT.explain(API.explore(LAYER, FLAT).best),
    "plot.traffic, a mapping": lambda: API.plot.traffic(BEST),
    "plot.roofline, nothing": lambda: API.plot.roofline([]),
    "plot.roofline, a number": lambda: API.plot.roofline([3]),
    "plot.roofline, other workloads": lambda: API.plot.roofline([RESULT, pm.explore("alexnet.fc8", FLAT)]),
    "plot.front, a number": lambda: API.plot.front(3),
    "plot.front, no front": lambda: API.plot.front(pm.explore(LAYER, FLAT, tiles="divide")),
    "plot.convergence": lambda: API.plot.convergence(None),
    "report, of nothing": lambda: NOTHING.report("x.html"),
    "plot, of nothing": lambda: NOTHING.plot(),
    "mapping_text, of nothing": lambda: NOTHING.mapping_text(),
    "mapping_to_document": lambda: API.io.mapping_to_document(LAYER),
    "workload_to_document": lambda: API.io.workload_to_document("gemm"),
    "arch_to_document": lambda: API.io.arch_to_document({}),
    "plot.cloud": lambda: API.plot.cloud([BEST]),
    "plot.cloud, no comparison": lambda: API.plot.cloud(SAMPLE, COST),
    "plot.fate": lambda: API.plot.fate("OPTIMAL"),
    "plot.proof": lambda: API.plot.proof(RESULT),
    "plot.proof, a refused text": lambda: API.plot.proof(pm.verify("nothing")),
    "plot.orders, many loops": lambda: API.plot.orders(EIGHT, FLAT),
    "plot.rarity, no sample": lambda: API.plot.rarity([1.0], 1),
    "plot.rarity, optimum 0": lambda: API.plot.rarity(SAMPLE, 0),
    "plot.steps, a machine without": lambda: API.plot.steps(RESULT),
    "plot.steps, a mapping": lambda: API.plot.steps(BEST),
    "plot.smoothness": lambda: API.plot.smoothness(BEST),
    "plot.sensitivity": lambda: API.plot.sensitivity(RESULT),
    "plot.compare, a mapping": lambda: API.plot.compare(RESULT, BEST),
    "plot.compare, other workloads": lambda: API.plot.compare(RESULT, pm.explore("alexnet.fc8", FLAT)),
    "plot.mapping, a workload": lambda: API.plot.mapping(LAYER),
    "plot.layers": lambda: API.plot.layers(RESULT),
    "plot.binding, one field": lambda: API.plot.binding(pm.sweep([LAYER], ["flat3"], tiles="divide")),
    "study.tiles, no loop": lambda: API.study.tiles(LAYER, FLAT, BEST, 0, 99),
    "study.tiles, one loop": lambda: API.study.tiles(LAYER, FLAT, BEST, 1, 1),
    "study.winners, no axes": lambda: API.study.winners(LAYER, FLAT, 3, 3),
    "study.winners, one level": lambda: API.study.winners(LAYER, FLAT, ("RF", [64]), ("RF", [32])),
    "study.winners, no level": lambda: API.study.winners(LAYER, FLAT, ("L9", [64]), ("RF", [64])),
    "study.capacity, no level": lambda: API.study.capacity(LAYER, FLAT, "L9", [64]),
    "study.capacity, one size": lambda: API.study.capacity(LAYER, FLAT, "RF", 64),
    "study.capacity, a unit of time": lambda: API.study.capacity(LAYER, FLAT, "RF", ["64 s"]),
    "study.sensitivity": lambda: API.study.sensitivity(LAYER, FLAT, time_limit_s=None),
    "save, as a text": lambda: RESULT.plot().save("picture.txt"),
    "a machine by a wrong name": lambda: API.plot.cloud(pm.sample_mappings(LAYER, "flat33", 2)),
    "a machine of a wrong document": lambda: pm.explore(LAYER, {"nodes": 3}),
    "a workload of a wrong document": lambda: pm.explore({"einsum": "C[m]"}, FLAT),
    "a mapping of a wrong document": lambda: API.evaluate(LAYER, FLAT, {"nodes": 3}),
}  # fmt: skip


NOTHING = pm.explore(pm.matmul(m=1, n=1, k=1), FLAT, tiles="divide", constraints={"limits": {"energy": 1}})
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
    ("study.crossover", {"workload": LAYER, "arch": FLAT, "level": "GLB"}, ("one", "other")),
    ("study.formula", {**ON, "level": "DRAM", "tensor": "A"}, ("level", "tensor")),
    ("study.fusion", {"workload": PROGRAM, "arch": FLAT}, ("objective", "time_limit_s", "seed")),
    ("generate_c", ON, ("form",)),
    ("run_c", ON, ("form", "seed")),
    ("layouts.burst_counts", ON, ("workload", "arch", "mapping", "layouts")),
    ("layouts.choose_layouts", {"answer": NETWORK}, ("answer", "edges", "time_limit_s")),
    ("explore_network", {"net": "alexnet", "arch": FLAT, "tiles": "divide"}, ("executor", "on_layer")),
    ("sweep", {"workloads": [], "machines": []}, ("workloads", "machines", "store", "executor")),
    ("program", {"statements": ["C[m] = A[m]"], "sizes": {"m": 2}}, ("statements", "types")),
    ("load_workload", {"word": "C[m] += A[m]"}, ("sizes",)),
    ("from_c", {"source": SOURCE, "sizes": {"N": 3}}, ("source", "sizes", "file", "time_limit_s")),
    ("transform_c", {"source": SOURCE}, ("source", "sizes", "schedule", "file", "tile", "order")),
    ("verify", {}, ("text", "time_limit_s")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "places"), WRONGLY, ids=[name for name, _, _ in WRONGLY])
def test_arguments_of_a_wrong_type_are_named(name: str, right: dict[str, Any], places: tuple[str, ...]) -> None:
    others = {"one": object(), "other": object()} if name == "study.crossover" else {}
    text = {"text": "polymap certificate 3"} if name == "verify" else {}
    for place in places:
        for value in (object(), b"x", (object(),)):
            with pytest.raises(pm.PolymapError, match=r"^PM\d\d\d .*\S"):
                attrgetter(name)(pm)(**{**others, **text, **right, place: value})


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (pm.transform.places, {"nodes": []}, "mapping is a table\n      Expected a value of type Mapping."),
        (pm.transform.stage, {"nodes": []}, "mapping is a table\n      Expected a value of type Mapping."),
        (pm.Schedule.original, "resnet50.fc", "workload is 'resnet50.fc'\n      Expected a value of type Workload."),
    ],
)
def test_a_table_is_not_answered_with_a_table_expected(call: Callable[..., object], given: object, told: str) -> None:
    others = {"at": 0, "level": "GLB", "tensor": "I"} if call is pm.transform.stage else {}
    with pytest.raises(pm.errors.OptionError, match=re.escape(told)):
        call(given, **others)


PLOTS = [name for name in pm.plot.__all__ if name not in ("machine", "orders")]


@pytest.mark.parametrize("name", PLOTS)
def test_pictures_of_a_wrong_value_say_so(name: str) -> None:
    second = {"compare": (RESULT,), "domain": ("S",)}.get(name, ())
    for value in (None, 5, "nonsense", [5], (), object(), b"x"):
        with pytest.raises(pm.PolymapError, match=r"^PM\d\d\d .*\S"):
            getattr(pm.plot, name)(value, *second)


def test_documents_stand_for_objects() -> None:
    layer, arch = pm.io.workload_to_document(LAYER), pm.io.arch_to_document(FLAT)
    result = pm.explore(layer, arch, tiles="divide")
    assert (result.value, result.best) == (RESULT.value, RESULT.best)
    mapping = pm.io.mapping_to_document(result.best)
    assert pm.evaluate(layer, arch, mapping) == pm.evaluate(LAYER, FLAT, result.best)
    assert pm.simulate(layer, arch, mapping).traffic == result.cost.traffic
    assert pm.violations(layer, arch, mapping) == ()
    assert pm.generate_c(layer, arch, mapping) == result.c()
    sizes = pm.study.capacity(layer, arch, "GLB", ["8 KiB"]), pm.study.capacity(LAYER, FLAT, "GLB", [65536])
    assert sizes[0] == sizes[1]
    assert pm.to_timeloop(layer, arch, mapping) == pm.to_timeloop(LAYER, FLAT, result.best)
    assert pm.plot.mapping(mapping).svg == pm.plot.mapping(result.best).svg
    assert pm.plot.dependences(layer).svg == pm.plot.dependences(LAYER).svg


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_get_an_error_of_polymap(what: str) -> None:
    with pytest.raises(pm.PolymapError, match=r"^PM\d\d\d .*\S"):
        WRONG[what]()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: API.explore(LAYER, FLAT, objectve="energy"), r"explore\(\) has no argument 'objectve'\n.*'objective'"),
        (lambda: API.explore(LAYER), r"explore\(\) lacks the argument 'arch'\n.*workload, arch, objective"),
        (lambda: API.matmul(m=3, n=3), r"matmul\(\) lacks the argument 'k'"),
        (lambda: API.evaluate(LAYER, FLAT, BEST, 1, 2), r"evaluate\(\) takes at most 3 arguments by position"),
        (lambda: API.conv2d(64, 64, 56), r"conv2d\(\) takes its arguments by name\n.*K, C, H, W"),
        (lambda: API.matmul(M=3, n=3, k=3), r"\(\) has no argument 'M'\n +Did you mean 'm'\?$"),
        (lambda: API.attention(heads=2), r"lacks the arguments 'queries', 'keys' and 'dim'\n"),
        (lambda: API.plot.cloud(3), r"Expected a Sample, as pm.sample_mappings\("),
        (lambda: API.compile(LAYER, layot="NHWC"), r"'layot'\n.*'layout'"),
        (lambda: API.study.knee_of([3]), r"PM120 a point is 3\n +Expected a CapacityPoint"),
        (
            lambda: API.layouts.bank_conflicts(LAYER, FLAT, BEST, layouts="x"),
            r"layouts is .x.\n +Expected a table",
        ),
        (
            lambda: API.layouts.bank_layouts([3], FLAT, "A"),
            r"are a list\n +Expected a list of \(workload, ",
        ),
        (lambda: API.compile(LAYER, fma="no"), r"PM120 fma is 'no'\n +Expected True or False\.$"),
        (lambda: API.compile(LAYER, fma=1, time_limit_s="2"), r"PM120 fma is 1\n +Expected True or False\."),
        (lambda: API.compile(LAYER, time_limit_s="2"), r"PM120 time_limit_s is '2'\n +Expected a number"),
        (lambda: API.transform_c("int x;", parallel="no"), r"PM120 parallel is 'no'"),
        (lambda: API.transform_c("int x;", reorder_sums=0), r"PM120 reorder_sums is 0\n"),
        (lambda: API.from_c("int x;", associative=None), r"PM120 associative is null\n +Expected True or False\.$"),
        (lambda: API.study.capacity(LAYER, FLAT, "GLB", sizes=[8]), r"'sizes'\n +Did you mean 'sizes_bits'\?$"),
    ],
)
def test_arguments_that_are_unknown_or_missing_are_told(call: Callable[[], object], told: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=told):
        call()


@pytest.mark.parametrize(
    "make",
    [
        lambda: API.program(["C[m] += A[m]"], m=3, associative="no"),
        lambda: API.nest(N=4, associative="no")(_doubled),
    ],
)
def test_associative_is_true_or_false(make: Callable[[], object]) -> None:
    with pytest.raises(pm.errors.WorkloadError, match=r"PM112 associative is 'no'"):
        make()


def _doubled(A: Any, C: Any) -> None:
    for i in range(N):  # type: ignore[name-defined]  # noqa: F821
        C[i] = A[i] + A[i]


def test_mistakes_inside_a_function_are_its_own() -> None:
    def broken(*, value: int) -> int:
        return value + ""  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        answers_in_words(broken)(value=3)
    assert inspect.signature(pm.explore).parameters["objective"].default == "energy"


SCHEDULE = pm.Schedule.original(pm.from_c("int A[9]; for (int i = 1; i < 9; i++) A[i] = A[i - 1];"))
TRANSFORMS = [each for name in dir(pm.transform) if inspect.isfunction(each := getattr(pm.transform, name))]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda each: each.__name__)
def test_transforms_name_the_argument_of_another_kind(transform: Callable[..., object]) -> None:
    needed = [each.name for each in inspect.signature(transform).parameters.values() if each.default is each.empty]
    for wrong in needed:
        for value in ("x", 3, None, {"a": 1}, [3]):
            given: dict[str, object] = {**dict.fromkeys(needed, "i"), needed[0]: SCHEDULE, wrong: value}
            with suppress(pm.PolymapError):
                transform(**given)


DRAM, MAC = pm.MemoryLevel("DRAM"), pm.ComputeUnit("MAC")


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((), "PM302 machine 'x' has no nodes"),
        ((MAC,), "PM302 machine 'x' lacks an outermost level: its first node is the compute unit 'MAC'"),
        ((pm.MemoryLevel("B", 8), MAC), "PM303 nodes[0], the outermost level 'B', has a capacity of 8 bits"),
        ((DRAM, MAC, pm.MemoryLevel("B")), "PM304 machine 'x' lacks a compute unit: its last node is the level 'B'"),
        ((DRAM, MAC, pm.ComputeUnit("B")), "PM305 nodes[1] is the compute unit 'MAC', and nodes follow it"),
        ((DRAM, DRAM, MAC), "PM306 the name 'DRAM' occurs twice: nodes[0] and nodes[1] have it"),
    ],
)
def test_machines_built_in_python_are_held_to_the_rules_of_files(nodes: tuple[Any, ...], told: str) -> None:
    """Some of these once ended in an IndexError or an AssertionError, others were searched."""
    machine = pm.Architecture("x", nodes)
    for call in (lambda: pm.explore(LAYER, machine, "latency"), lambda: pm.evaluate(LAYER, machine, BEST)):
        with pytest.raises(pm.errors.ArchError) as caught:
            call()
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: pm.from_c("kernel.c"), "a file's name: pass the text, as in pathlib.Path('kernel.c').read_text()"),
        (lambda: pm.transform_c("my kernel.c"), "a file's name: pass the text, as in pathlib.Path('my kernel.c')"),
        (lambda: pm.explore("C[m] += A[m,k]", FLAT), "Give pm.einsum(text, m=..., n=...) in place of the text"),
        (lambda: pm.einsum("mk,kn->mn", m=4, n=4, k=4), "after the output, as in C[m,n] += A[m,k] * B[k,n]"),
        (lambda: pm.explore("flat3", "resnet50.fc"), "The workload comes first, then the machine."),
        (lambda: pm.explore_network("resnet50.fc", FLAT), "It is one layer: explore() takes it."),
        (
            lambda: pm.load_arch(
                {"nodes": [{"level": "DRAM", "bandwidth_bits_per_cycle": "4 GB/s"}, {"compute": "MAC"}]}
            ),
            "It is what moves in one cycle: '64 B' for 64 GB/s at 1 GHz. Units are bit",
        ),
    ],
)
def test_what_beginners_write_is_answered_with_what_works(call: Callable[[], object], told: str) -> None:
    with pytest.raises(pm.PolymapError) as caught:
        call()
    assert told in str(caught.value)


def test_machines_that_are_derived_from_right_ones_are_searched() -> None:
    """Crossovers take the limit of a level away, and fields that depend on it then say nothing."""
    area = pm.MemoryLevel("B", 1024, read_pj=Fraction(1), area_um2_per_bit=Fraction(1))
    machine = pm.Architecture("x", (DRAM, replace(area, capacity_bits=None), MAC))
    assert pm.evaluate(LAYER, machine, pm.explore(LAYER, machine, tiles="divide").best).legal
