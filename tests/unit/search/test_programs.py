"""A search of a program: where loops were renamed or skewed, the result is about the rewritten program."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.explore import search

SOURCE = """
void f(double A[18][18], double B[18][18], double C[18][18]) {
#pragma scop
  for (int i = 1; i < 17; i++)
    for (int j = 1; j < 17; j++)
      B[i][j] = A[i][j] + A[i-1][j] + A[i+1][j];
  for (int i = 2; i < 16; i++)
    for (int j = 2; j < 16; j++)
      C[i][j] = B[i][j] + B[i-1][j] + B[i+1][j];
#pragma endscop
}
"""
MACHINE = """{"name": "two", "nodes": [
  {"level": "DRAM", "word_bits": 64, "read_pj": 100, "write_pj": 100},
  {"level": "GLB", "capacity_bits": 5120, "word_bits": 64, "read_pj": 1, "write_pj": 1},
  {"compute": "MAC", "pj": 1}]}"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    source, machine = tmp_path / "f.c", tmp_path / "two.json"
    source.write_text(SOURCE, encoding="utf-8")
    machine.write_text(MACHINE, encoding="utf-8")
    return str(source), str(machine)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_program_of_fused_nests_computes_what_the_original_does(files: tuple[str, str]) -> None:
    workload, arch = pm.load_workload(files[0]), pm.load_arch(files[1])
    found = pm.explore(workload, arch, "traffic:DRAM", time_limit_s=5, work_limit=200)
    assert found.best is not None
    assert found.workload is not None
    assert found.workload != workload, "fused nests have common loops"
    run = pm.run_c(found.workload, arch, found.best)
    assert run.matches_reference
    assert run.counts_match
    assert pm.simulate(found.workload, arch, found.best).traffic == found.cost.traffic


@pytest.mark.slow
@pytest.mark.parametrize("work_limit", [1, 7, 40, 130])
def test_a_limit_of_work_ends_the_climb_wherever_the_clock_stands(files: tuple[str, str], work_limit: int) -> None:
    """The same answer on a machine ten times as slow, and no more trees looked at than the limit."""
    workload, arch = pm.load_workload(files[0]), pm.load_arch(files[1])
    clocks = (monotonic, lambda: 10 * monotonic())
    found = [
        search(workload, arch, "traffic:DRAM", time_limit_s=3000, work_limit=work_limit, clock=clock)
        for clock in clocks
    ]
    assert len({(each.value, each.best, each.workload, each.space.evaluated) for each in found}) == 1
    assert found[0].best is not None, "nest after nest, where chains take the few steps"
    assert found[0].work >= 1
    assert found[0].space.evaluated <= work_limit


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_commands_speak_of_the_rewritten_program(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [files[0], "--arch", files[1], "--objective", "traffic:DRAM", "--work-limit", "200"]
    assert main(["codegen", *asked, "--run", "-o", str(tmp_path / "f_mapped.c")]) == 0
    assert "every output element is equal to the reference" in capsys.readouterr().out
    assert main(["explore", *asked]) == 0
    assert "C[i,j+1] = B[i,j+1]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("loops", "space"),
    [
        ("for (int i = 0; i < 4; i++) { B[i] = A[i] + A[0]; C[i] = B[i] * A[i]; }", "program trees"),
        (
            "for (int i = 0; i < 4; i++) B[i] = A[i] + A[0]; for (int i = 0; i < 4; i++) C[i] = B[i] * A[i];",
            "rewritten program trees",
        ),
    ],
)
def test_an_optimum_among_program_trees_says_so(tmp_path: Path, loops: str, space: str) -> None:
    text = f"void f(double A[5], double B[5], double C[5]) {{ {loops} }}"
    (tmp_path / "two.json").write_text(MACHINE.replace("5120", "128"), encoding="utf-8")
    found = pm.explore(pm.from_c(text), pm.load_arch(tmp_path / "two.json"), "traffic:DRAM", tiles="divide")
    assert (found.status, found.space.name) == ("OPTIMAL", space)
    assert f"OPTIMAL among {space}" in str(found)
    assert f"Proven among {space}" in found.explain()
    if space == "program trees":
        found.save(tmp_path / "run.json")
        assert pm.load_result(tmp_path / "run.json").space == found.space


@pytest.mark.slow
def test_costs_of_large_programs_are_those_of_evaluate(tmp_path: Path) -> None:
    text = """void f(double A[160][160], double B[160][160]) {
  for (int i = 0; i < 110; i++) for (int j = 0; j < 110; j++) B[i][j] = A[i][j] + A[j][i];
  for (int i = 0; i < 110; i++) for (int j = 0; j < 110; j++) A[i][j] = B[i][j] * A[i][0];
}"""
    (tmp_path / "two.json").write_text(MACHINE, encoding="utf-8")
    arch = pm.load_arch(tmp_path / "two.json")
    found = pm.explore(pm.from_c(text), arch, "traffic:DRAM", time_limit_s=2)
    assert found.best is not None
    assert found.cost is not None
    assert found.workload is not None
    assert found.cost == replace(pm.evaluate(found.workload, arch, found.best), method="steps")


@pytest.mark.parametrize("objective", ["energy", "latency"])
@pytest.mark.parametrize("fields", [{"must_hold": ["C"]}, {"holds": ["C", "A"]}, {"holds": ["A", "@output"]}])
def test_levels_may_name_tensors_of_any_statement(objective: str, fields: dict[str, list[str]]) -> None:
    source = "for (int i = 0; i < M; i++) B[i] = A[i];\nfor (int i = 0; i < M; i++) C[i] = B[i] + A[i];"
    workload = pm.from_c(f"void f(int A[M], int B[M], int C[M]) {{ {source} }}", {"M": 4})
    inner = {"level": "L1", "capacity_bits": 96, "read_pj": 1, **fields}
    nodes = [{"level": "D", "read_pj": 9, "write_pj": 9, "bandwidth_bits_per_cycle": 32}, inner, {"compute": "M"}]
    arch = pm.io.arch_from_document({"name": "named", "nodes": nodes})
    result = pm.explore(workload, arch, objective, time_limit_s=9, work_limit=60)
    assert result.best is not None, "the parts of a program are asked of a machine that names only their own tensors"
    cost = pm.evaluate(result.workload or workload, arch, result.best)
    assert cost.legal, "nodes stand where the levels say"
