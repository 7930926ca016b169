"""What users get wrong, and what they are told: exit code 2, the message, nothing written, no traceback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.cli.command_line import main

GEMM = ("C[m,n] += A[m,k] * B[k,n]", "m=4", "n=4", "k=4")
NODES = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 4096}, {"compute": "MAC"}]
ARCH = {"name": "toy", "nodes": NODES}
TREE = [{"for": "m", "tile": 1}, {"for": "n", "tile": 1}, {"for": "k", "tile": 1}, {"compute": "S"}]
STORE = {"store": "DRAM", "tensors": ["A", "B", "C"]}
MAPPING = {"nodes": [STORE, *TREE]}


@dataclass(frozen=True)
class Case:
    """words of the command line, files beside it, and the pieces that the message must hold."""

    words: tuple[str, ...]
    says: tuple[str, ...]
    files: dict[str, object] = field(default_factory=dict)


def evaluate(mapping: object = MAPPING, arch: object = ARCH) -> tuple[tuple[str, ...], dict[str, object]]:
    return ("evaluate", *GEMM, "--arch", "toy.json", "--mapping", "m.json"), {"toy.json": arch, "m.json": mapping}


def mapping_case(nodes: Sequence[object], *says: str) -> Case:
    words, files = evaluate({"nodes": nodes})
    return Case(words, says, files)


def arch_case(nodes: Sequence[object], *says: str, **fields: object) -> Case:
    words, files = evaluate(arch={"nodes": nodes, **fields})
    return Case(words, says, files)


def c_case(source: str, *says: str) -> Case:
    return Case(("check", "k.c", "--size", "N=8"), says, {"k.c": source})


def workload_case(document: object, *says: str) -> Case:
    return Case(("check", "w.json"), says, {"w.json": document})


def loops(body: str, head: str = "for (int i = 0; i < N; i++)") -> str:
    return f"void f(int N, float A[N], float B[N]) {{\n  {head}\n    {body}\n}}\n"


CASES = {
    # A loop nest that says something unknown or impossible.
    "unknown dim, with suggestion": Case(
        ("check", "C[row,n] += A[rwo,k] * B[k,n]", "row=4", "n=4", "k=4"), ("PM204", "rwo", "Did you mean 'row'?")
    ),
    "product of dims in a subscript": Case(("check", "C[m] += A[m*k]", "m=4", "k=4"), ("PM202", "m*k", "not affine")),
    "product of loops in C": c_case(loops("A[i] = B[i*i];"), "'i * i'", "k.c:3"),
    "unknown name in C, with suggestion": c_case(loops("A[i] = B[ii];"), "'ii'", "Did you mean 'i'?"),
    "unbounded loop": c_case(loops("A[i] = B[i];", "for (int i = 0; ; i++)"), "bound"),
    "while loop": c_case("void f(int N, float A[N]) { while (1) A[0] = 1; }", "the loop is unbounded"),
    "subscript that leaves the array": c_case(loops("A[i] = B[i+1];"), "B", "i=7"),
    "C syntax": c_case("void f(int N, float A[N]) { for (int i = 0; i < N; i++) A[i] = ; }", "no C", "k.c"),
    "size of thousands of digits": Case(
        ("check", "C[m] += A[m]", "m=1" + "0" * 5000), ("PM558", "the size of m is too large", "5,001 digits")
    ),
    "size of hundreds of digits": Case(
        ("check", "C[m] += A[m]", "m=1" + "0" * 200), ("PM207", "the size of m is too large", "201 digits")
    ),
    "size of thousands of digits, in a file": workload_case(
        '{"einsum": "C[m] += A[m]",\n"sizes": {"m": 1' + "0" * 5000 + "}}", "'w.json', line 2: sizes.m", "too large"
    ),
    "size given twice": Case(("check", "C[m] += A[m]", "m=3", "m=4"), ("PM559", "twice: 3 and 4")),
    "size zero": Case(("check", "C[m] += A[m]", "m=0"), ("PM558", "m is '0'")),
    "size that is no integer": Case(("check", "C[m] += A[m]", "m=3.5"), ("PM558", "3.5")),
    "size that is no integer, in a file": workload_case(
        '{"einsum": "C[m] += A[m]",\n "sizes": {\n  "m": 3.5}}', "w.json", "line 3", "3.5"
    ),
    "size that is a boolean": workload_case({"einsum": "C[m] += A[m]", "sizes": {"m": True}}, "m", "true"),
    "size that is a text": workload_case({"einsum": "C[m] += A[m]", "sizes": {"m": "4"}}, "m", "'4'"),
    "size given twice in a file": workload_case(
        '{"einsum": "C[m] += A[m]", "sizes": {"m": 4, "m": 5}}', "'m'", "twice"
    ),
    "size of a dim that does not occur": Case(("check", "C[m] += A[m]", "m=4", "q=3"), ("q",)),
    "output read on the right": Case(("check", "C[m] += C[m]", "m=4"), ("C",)),
    "unknown field": workload_case({"einsum": "C[m] += A[m]", "size": {"m": 4}}, "'size'", "Did you mean 'sizes'?"),
    "unknown layer": Case(("check", "resnet50.conv2x"), ("PM230", "Did you mean 'resnet50.conv2_x'?")),
    "sizes for a built-in layer": Case(("check", "resnet50.conv2_x", "k=3"), ("PM205", "has its sizes")),
    # Files that cannot be read.
    "no such file": Case(("check", "missing.json"), ("PM101", "missing.json", "No such file")),
    "not JSON": workload_case('{"einsum": }', "PM105", "line 1, column 12"),
    "not UTF-8": workload_case(b"\xff\xfe", "PM103", "not UTF-8"),
    "too deep": workload_case("[" * 3000, "PM104", "100 levels"),
    "too long a number": workload_case('{"sizes": {"m": 1' + "0" * 5000 + "}}", "PM109", "digits"),
    "NaN": workload_case('{"einsum": "C[m] += A[m]", "sizes": {"m": NaN}}', "PM108", "NaN"),
    "two keys alike": workload_case(
        '{"einsum": "C[m] += A[m]",\n"sizes": {"m": 4,\n"m": 5}}', "PM107", "twice", "in line 2 and again in line 3"
    ),
    "a trailing comma": workload_case('{"einsum": "C[m] += A[m]",\n"sizes": {"m": 4,}}', "'w.json'", "line 2", "comma"),
    "a machine as workload": workload_case(ARCH, "PM234", "--arch"),
    "a sweep as workload": workload_case({"workloads": [], "machines": []}, "PM234", "polymap sweep"),
    "a YAML workload": Case(("check", "w.yaml"), ("PM118", "YAML", "'w.yaml'"), {"w.yaml": "einsum: C[m]"}),
    "a YAML machine": Case(("explore", *GEMM, "--arch", "a.yml"), ("PM118", "from_timeloop"), {"a.yml": "nodes:"}),
    "a YAML mapping": Case(
        ("evaluate", *GEMM, "--arch", "flat3", "--mapping", "m.yaml"), ("PM118", "YAML"), {"m.yaml": "nodes:"}
    ),
    "YAML constraints": Case(
        ("explore", *GEMM, "--arch", "flat3", "--constraints", "c.yaml"), ("PM118", "YAML"), {"c.yaml": "order: [m]"}
    ),
    "YAML in a .json": workload_case("einsum: C[m] += A[m]\nsizes:\n  m: 4\n", "PM105", "looks like YAML"),
    "constraints with a mistake, in a file": Case(
        ("explore", *GEMM, "--arch", "flat3", "--constraints", "c.json"),
        ("PM110", "'ordr'", "'c.json', line 2"),
        {"c.json": '{"outermost": ["m"],\n"ordr": ["k"]}'},
    ),
    # Machines.
    "NaN in a machine": Case(
        evaluate()[0],
        ("PM108", "'toy.json', line 3: nodes[0].read_pj", "line 4: nodes[1].pj", "finite"),
        {
            "toy.json": '{"nodes": [\n{"level": "DRAM",\n"read_pj": NaN},\n{"compute": "M", "pj": Infinity}]}',
            "m.json": MAPPING,
        },
    ),
    "a workload as machine": Case(
        ("explore", *GEMM, "--arch", "a.json"), ("PM313", "'einsum'"), {"a.json": {"einsum": "C[m] += A[m]"}}
    ),
    "machine that holds an unknown tensor": arch_case(
        [NODES[0], {"level": "Buf", "holds": ["Q"]}, NODES[2]], "PM390", "'Q'", "'toy.json'"
    ),
    "unknown machine": Case(("explore", *GEMM, "--arch", "flat33"), ("PM312", "Did you mean 'flat3'?")),
    "capacity in two units": arch_case(
        [NODES[0], {"level": "Buf", "capacity_bits": 8, "capacity_bytes": 1}, NODES[2]], "capacity", "capacity_bytes"
    ),
    "no outermost level": arch_case([{"fanout": "X", "size": 4}, *NODES[1:]], "X", "first"),
    "limited outermost level": arch_case([{"level": "DRAM", "capacity_bits": 8}, *NODES[1:]], "DRAM", "capacity"),
    "no compute unit": arch_case(NODES[:2], "compute"),
    "name twice": arch_case(
        [NODES[0], {"level": "DRAM"}, NODES[2]], "'DRAM' occurs twice: nodes[0] and nodes[1]", "'toy.json', line 1"
    ),
    "name twice, in two lines": Case(
        evaluate()[0],
        ("occurs twice", "'toy.json', lines 2 and 4"),
        {"toy.json": '{"nodes": [\n{"level": "DRAM"},\n\n{"level": "DRAM"},\n{"compute": "M"}]}', "m.json": MAPPING},
    ),
    "negative energy": arch_case(
        [{"level": "DRAM", "read_pj": -1}, *NODES[1:]], "read_pj", "-1", "('toy.json', line 1)"
    ),
    "size zero of a fan-out": arch_case([NODES[0], {"fanout": "X", "size": 0}, NODES[2]], "size", "0"),
    # Mappings.
    "unknown level": mapping_case([STORE, {"store": "Bfu", "tensors": ["A"]}, *TREE], "Bfu", "Did you mean 'Buf'?"),
    "unknown tensor": mapping_case([{"store": "DRAM", "tensors": ["A", "Z"]}, *TREE], "'Z'"),
    "unknown dim": mapping_case([STORE, {"for": "q", "tile": 1}, *TREE], "'q'"),
    "unknown fan-out": mapping_case([STORE, {"par": "m", "tile": 1, "over": "X"}, *TREE[1:]], "'X'"),
    "unknown statement": mapping_case([STORE, *TREE[:3], {"compute": "T"}], "'T'"),
    "dim that does not end at 1": mapping_case(
        [STORE, {"for": "m", "tile": 2}, *TREE[1:]], "m", "1", "('m.json', line 1)"
    ),
    "a tree that is no program, of a check": Case(
        ("check", *GEMM, "--mapping", "m.json"),
        ("PM412", "nodes[3]", "'m.json'"),
        {"m.json": {"nodes": [STORE, *TREE[1:]]}},
    ),
    "tile zero": mapping_case([STORE, {"for": "m", "tile": 0}, *TREE[1:]], "tile", "0"),
    "levels in the wrong order": Case(
        evaluate()[0],
        ("PM405", "stores A in 'Buf' below its node in 'Reg'"),
        {
            "toy.json": {"nodes": [*NODES[:2], {"level": "Reg"}, NODES[2]]},
            "m.json": {"nodes": [{"store": "Reg", "tensors": ["A"]}, {"store": "Buf", "tensors": ["A"]}, *TREE]},
        },
    ),
    "nothing at the end": mapping_case([STORE, *TREE[:3]], "compute"),
    "node of no kind": mapping_case([STORE, {"loop": "m", "tile": 1}, *TREE], "PM454", "'for'"),
    "answer of a search without a mapping": Case(
        evaluate()[0], ("PM452", "no mapping"), {"toy.json": ARCH, "m.json": {"status": "TIMEOUT", "mapping": None}}
    ),
    # Options.
    "unknown option": Case(("explore", *GEMM, "--arch", "flat3", "--objektive", "edp"), ("PM552", "'--objective'?")),
    "unknown objective": Case(("explore", *GEMM, "--arch", "flat3", "--objective", "energie"), ("PM501", "energy")),
    "unknown level in the objective": Case(
        ("explore", *GEMM, "--arch", "flat3", "--objective", "traffic:GBL"), ("PM502", "Did you mean 'GLB'?")
    ),
    "output over an input": Case(
        ("codegen", "w.json", "--arch", "flat3", "-o", "w.json"), ("PM561", "overwrite"), {"w.json": {}}
    ),
    "a page over an input": Case(
        ("transform", "k.c", "--report", "k.c"), ("PM561", "'k.c' would overwrite"), {"k.c": loops("A[i] = 0;")}
    ),
    "an output over a schedule": Case(
        ("transform", "k.c", "--schedule", "s.txt", "-o", "s.txt"), ("PM561", "'s.txt' would"), {"k.c": "", "s.txt": ""}
    ),
    "a folder of headers that no name can be": Case(
        ("check", "k.c", "--size", "N=8", "--include", "a\0b"), ("PM605", "not passed on"), {"k.c": loops("A[i] = 0;")}
    ),
}


def place(files: dict[str, object]) -> None:
    for name, content in files.items():
        if isinstance(content, bytes):
            Path(name).write_bytes(content)
        else:
            Path(name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_a_store_that_no_name_can_be_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("sweep", "states", "--store", "x" * 5000)) == 4, "nothing of that name can be read"
    assert "PM703" in capsys.readouterr().err, "the code of a store that is not there"


def test_a_page_about_a_machine_without_energies_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place({str(tmp_path / "toy.json"): ARCH})
    assert main(("report", *GEMM, "--arch", str(tmp_path / "toy.json"), "-o", str(tmp_path / "o.html"))) == 0
    told = capsys.readouterr().err
    assert told.count("states no energies") == 1, "every mapping costs 0 pJ there, which is said once"


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    place(case.files)
    output = () if "-o" in case.words else ("--json", "answer.json")
    code = main((*case.words, *output))
    printed = capsys.readouterr()
    assert code == 2, printed.err
    assert printed.out == ""
    assert printed.err.startswith("polymap: PM")
    for piece in case.says:
        assert piece in printed.err
    assert {path.name for path in tmp_path.iterdir()} == set(case.files)


def test_all_mistakes_of_all_inputs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [{"level": "DRAM", "read_pj": -1}, {"level": "Buf", "capacity_bits": 0, "colour": 3}, {"compute": "MAC"}]
    place({"a.json": {"nodes": nodes}, "m.json": {"nodes": [{"for": "m", "tile": 0}, {"compute": "S", "x": 1}]}})
    assert main(("evaluate", "C[m] += A[k*k]", "m=4", "k=2", "--arch", "a.json", "--mapping", "m.json")) == 2
    told = capsys.readouterr().err
    for piece in ("k*k", "read_pj", "capacity_bits", "colour", "tile", "'x'"):
        assert piece in told


def test_bad_options_and_bad_files_are_told_in_one_wave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    place({"a.json": {"nodes": [{"level": "DRAM", "read_pj": -1}, {"compute": "MAC"}]}, "c.json": "{,}"})
    words = ("C[m] += A[q]", "m=4", "--arch", "a.json", "--constraints", "c.json", "--objective", "enrgy")
    assert main(("explore", *words, "--seed", "x", "--workers", "0", "--json", "no/where.json")) == 2
    told = capsys.readouterr().err
    for piece in ("--seed", "--workers", "A[q]", "read_pj", "'c.json'", "enrgy"):
        assert piece in told
    assert main(("explore", *words)) == 2
    told = capsys.readouterr().err
    for piece in ("A[q]", "read_pj", "'c.json'", "enrgy"):
        assert piece in told


@pytest.mark.parametrize("where", ["no/such/out", "folder", "folder/", "a file/out", "x" * 300, "nul\0"])
@pytest.mark.parametrize("option", ["-o", "--json", "--certificate"])
def test_what_cannot_be_written_is_told_before_the_work(
    option: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    place({"a file": ""})
    monkeypatch.setattr("polymap.cli.commands.explore", lambda *_, **__: pytest.fail("the search began"))
    command, tiles = ("codegen", ()) if option == "-o" else ("explore", ("--tiles", "divide"))
    assert main((command, *GEMM, "--arch", "flat3", *tiles, option, where)) == 4
    assert "PM701" in capsys.readouterr().err
    # What is wrong with the inputs is told with it.
    assert main((command, *GEMM, "--arch", "flat33", *tiles, option, where)) == 4
    printed = capsys.readouterr().err
    assert "PM701" in printed
    assert "PM312" in printed


def test_an_outermost_level_inside_a_loop_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words, files = evaluate({"nodes": [TREE[0], STORE, *TREE[1:]]})
    place(files)
    assert main((*words, "--json", "-")) == 0
    inside = capsys.readouterr()
    assert inside.err.startswith("polymap: warning: nodes[1] stores A, B, C in 'DRAM' inside a loop over m")
    assert "no effect" in inside.err
    for nodes in ([STORE, *TREE], [{"for": "m", "tile": 4}, STORE, *TREE], TREE):
        place({"m.json": {"nodes": nodes}})
        assert main((*words, "--json", "-")) == 0
        outside = capsys.readouterr()
        assert outside.err == ""
        told, before = json.loads(outside.out), json.loads(inside.out)
        assert told | {"mapping": None} == before | {"mapping": None}


# Answered (0; 1 for an illegal mapping of `check`) or without an answer (3), and told in the same care.


def test_illegal_order_names_two_instances_and_what_would_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "void f(int N, float A[N][N]) { for (int i = 1; i < N; i++) for (int j = 0; j < N - 1; j++)\n"
    nodes = [{"for": "j", "tile": 1}, {"for": "i", "tile": 1}, {"compute": "S0"}]
    place({"k.c": source + "A[i][j] = A[i-1][j+1]; }", "m.json": {"nodes": nodes}})
    assert main(("check", "k.c", "--size", "N=5", "--mapping", "m.json", "--json", "-")) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["orders"] == {"total": 2, "strict": 1, "relaxed": 1, "legal_strict": [["i", "j"]]}
    (violation,) = answer["violations"]
    first, second = violation["witness"]["first"], violation["witness"]["second"]
    assert (second["i"] - first["i"], second["j"] - first["j"]) == (1, -1)
    assert "i j" in violation["message"]


def test_illegal_parallel_loop_says_that_a_reduction_could_be_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = {"m": 4, "k": 4}
    nodes = [{"for": "m", "tile": 1}, {"par": "k", "tile": 1, "over": "X"}, {"compute": "S"}]
    place({"w.json": {"einsum": "C[m] += A[m,k]", "sizes": sizes, "associative": False}, "m.json": {"nodes": nodes}})
    assert main(("check", "w.json", "--mapping", "m.json", "--json", "-")) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["parallel"] == {"m": True, "k": False}
    assert "associative" in answer["violations"][0]["message"]


def test_requirements_that_clash_are_told_with_the_bits_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 12, "must_hold": ["@input", "@output"]}]
    place({"a.json": {"nodes": [*nodes, {"compute": "MAC"}]}})
    assert main(("explore", *GEMM, "--arch", "a.json", "--tiles", "divide", "--json", "-")) == 3
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert (answer["status"], answer["mapping"], answer["value"]) == ("INFEASIBLE", None, None)
    assert "Buf" in printed.err
    assert "16" in printed.err


def test_an_inner_level_dearer_than_the_outer_one_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words, files = evaluate(arch={"nodes": [{"level": "DRAM", "read_pj": 1}, {"level": "Buf", "read_pj": 2}, NODES[2]]})
    place(files)
    assert main((*words, "--json", "-")) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("polymap: warning: ")
    assert "Buf" in printed.err
    assert json.loads(printed.out)["legal"] is True


def test_a_fan_out_that_no_dim_may_use_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for dims, warned in ((["mm"], True), (["mm", "m"], False), ([], False)):
        words, files = evaluate(arch={"nodes": [NODES[0], {"fanout": "X", "size": 2, "dims": dims}, *NODES[1:]]})
        place(files)
        assert main((*words, "--json", "-")) == 0
        assert ("the fan-out 'X' may spread only mm" in capsys.readouterr().err) is warned


def test_no_c_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    words, files = evaluate()
    place(files)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert main(("codegen", *words[1:], "--run", "-o", "out.c")) == 2
    assert "compiler" in capsys.readouterr().err
    assert not (tmp_path / "out.c").exists()


@pytest.mark.parametrize(
    ("sizes", "formula"),
    [
        ({"H": 2, "W": 8}, "E is -2: H=2, R=5, padding=0, stride=1, dilation=1"),
        ({"H": 2, "W": 8}, "E = floor((H + 2*padding - dilation*(R - 1) - 1) / stride) + 1"),
        ({"H": 8, "W": 8, "padding": -1}, "padding is -1"),
    ],
)
def test_an_extent_below_one_shows_the_formula_that_made_it(sizes: dict[str, Any], formula: str) -> None:
    with pytest.raises(pm.errors.WorkloadError, match="PM2") as caught:
        pm.conv2d(K=1, C=1, R=5, S=5, **sizes)
    assert formula in str(caught.value)
