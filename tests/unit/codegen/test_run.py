"""Programs that are compiled and run: results, counters, both forms, C programs with several statements."""

from __future__ import annotations

import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from polymap.codegen.forms import Form
from polymap.codegen.lower.elements import element_types
from polymap.codegen.run import generate_c, run_c, run_source
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import WorkloadError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout, FanoutKind, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.legality import dependence_violations
from polymap.workload.c.reader import from_c
from polymap.workload.einsum_programs import program
from polymap.workload.einsums import einsum
from tests.cases import Case, random_case, random_general_case
from tests.programs import random_program_case
from tests.unit.codegen.programs import cpu_matmul, machine, matmul, window

PARALLEL = ("-std=c99", "-O1", "-fopenmp", "-fwrapv", "-Wall", "-Wextra", "-Werror")


@pytest.mark.parametrize("make", [matmul, window])
def test_run_c_compares_result_and_counters(make: object) -> None:
    workload, arch, mapping = matmul() if make is matmul else window()
    expected = count_by_simulation(workload, arch, mapping)
    run = run_c(workload, arch, mapping, expected=expected.traffic)
    assert (run.matches_reference, run.counts_match, run.counted) == (True, True, expected.traffic)
    assert (run.steps, run.instances) == (expected.steps, expected.instances)
    wrong = (replace(expected.traffic[0], reads=expected.traffic[0].reads + 1), *expected.traffic[1:])
    assert not run_c(workload, arch, mapping, expected=wrong).counts_match


def test_a_program_that_computes_something_else_is_found_out() -> None:
    workload, arch, mapping = matmul()
    source = generate_c(workload, arch, mapping)
    assert source.count("a0 * a1") == 1
    wrong = source.replace("a0 * a1", "a0 * a1 + (t0 > 0 && t2 == 1)")
    flags = ("-std=c99", "-O0")
    assert run_source(workload, arch, source, flags).matches_reference
    assert not run_source(workload, arch, wrong, flags).matches_reference


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 31, 64, 200])
def test_integers_of_any_width_are_right(bits: int) -> None:
    _, arch, mapping = matmul()
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=6, n=4, k=3, bits=bits)
    source = generate_c(workload, arch, mapping)
    assert ("int64_t T0_C[" in source) == (bits > 15)
    assert run_source(workload, arch, source, ("-std=c99", "-O1"), seed=bits).matches_reference


@pytest.mark.parametrize("bits", [1, 8, 16, 31, 64])
def test_what_is_made_of_sums_is_as_wide_as_these(bits: int) -> None:
    texts = ["T[m] = A[m] + B[m]", "U[m] = 3 * T[m] * A[m]", "C[m] += U[m] * T[m]"]
    workload = program(texts, m=4, bits=bits)
    loops = [(Temporal("m", 1), Compute(each.name)) for each in workload.statements]
    _, arch, _ = matmul()
    run = run_c(workload, arch, Mapping((Branch(tuple(loops)),)), seed=bits)
    assert run.matches_reference, "nothing overflows"
    kinds = element_types(workload)
    assert [kinds[name].c_type for name in "TUC"] == {1: ["int32_t"] * 3, 8: ["int32_t"] * 3}.get(
        bits, ["int32_t" if bits == 16 else "int64_t", "int64_t", "int64_t"]
    )


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "uint8", "int32"])
def test_element_types_decide_the_c_type(kind: str) -> None:
    _, arch, mapping = matmul()
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=6, n=4, k=3, types=dict.fromkeys("ABC", kind))
    c_type = {"float32": "float", "float64": "double", "float16": "float"}.get(kind, f"{kind}_t")
    for form in Form if kind != "float16" else (Form.FAITHFUL,):
        source = generate_c(workload, arch, mapping, form)
        assert f"static {c_type} T1_A[18];" in source
        assert run_source(workload, arch, source, ("-std=c99", "-O1")).matches_reference


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_short_floats_are_held_as_float_only_where_it_is_said(kind: str) -> None:
    _, arch, mapping = matmul()
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=6, n=4, k=3, types={"C": "float32", "A": kind, "B": "float32"})
    assert f"/* Held and computed as float: T1_A ({kind})." in generate_c(workload, arch, mapping)
    with pytest.raises(WorkloadError, match=f"PM624 tensor A has elements of {kind}, which C would compute as float"):
        generate_c(workload, arch, mapping, Form.NATIVE)


def test_the_native_form_reads_the_kind_of_a_fanout_and_not_its_name() -> None:
    workload, arch, mapping = cpu_matmul()
    core, lane = arch.fanouts
    fewer = tuple(replace(node, kind=FanoutKind.PLAIN) if node == core else node for node in arch.nodes)
    assert "omp parallel for" in generate_c(workload, arch, mapping, Form.NATIVE)
    text = generate_c(workload, replace(arch, nodes=fewer), mapping, Form.NATIVE)
    assert "omp parallel for" not in text
    assert "omp simd" in text
    renamed = {core: replace(core, name="X"), lane: replace(lane, name="Y")}
    nodes = tuple(renamed.get(node, node) if isinstance(node, Fanout) else node for node in arch.nodes)
    loops = tuple(
        replace(node, fanout={"core": "X", "lane": "Y"}[node.fanout]) if isinstance(node, Spatial) else node
        for node in mapping.nodes
    )
    other = generate_c(workload, replace(arch, nodes=nodes), Mapping(loops), Form.NATIVE)
    assert other == generate_c(workload, arch, mapping, Form.NATIVE)


def test_the_native_form_runs_cores_and_lanes_in_parallel() -> None:
    workload, arch, mapping = cpu_matmul()
    source = generate_c(workload, arch, mapping, Form.NATIVE)
    assert "#pragma omp parallel for" in source
    assert "#pragma omp simd" in source
    assert "++" not in source.split("static void run(void)")[1].split("\n}")[0].replace("; ++", "")  # no counters
    run = run_c(workload, arch, mapping, Form.NATIVE)
    assert run.matches_reference
    assert (run.counts_match, run.counted) == (None, ())


def test_a_reduction_over_cores_does_not_race() -> None:
    workload = einsum("C[m] += A[m,k]", m=4, k=64)
    arch = machine(MemoryLevel("DRAM"), Fanout("core", 8), MemoryLevel("L1"), Fanout("lane", 8))
    nodes = (Spatial("k", 8, "core"), Temporal("m", 1), Spatial("k", 1, "lane"), Compute("S"))
    source = generate_c(workload, arch, Mapping(nodes), Form.NATIVE)
    assert "#pragma omp" not in source
    assert run_source(workload, arch, source, PARALLEL).matches_reference


def _renamed(nodes: tuple[MappingNode, ...], names: dict[str, str]) -> tuple[MappingNode, ...]:
    renamed: list[MappingNode] = []
    for node in nodes:
        if isinstance(node, Spatial):
            node = Spatial(node.dim, node.tile, names[node.fanout])
        if isinstance(node, Branch):
            node = Branch(tuple(_renamed(child, names) for child in node.children))
        renamed.append(node)
    return tuple(renamed)


def on_cores_and_lanes(case: Case) -> tuple[Workload, Architecture, Mapping]:
    """Return the case with its first fan-outs named core and lane."""
    names = {fanout.name: fanout.name for fanout in case.arch.fanouts}
    names |= dict(zip(names, ("core", "lane"), strict=False))
    nodes = tuple(
        replace(node, name=names[node.name]) if isinstance(node, Fanout) else node for node in case.arch.nodes
    )
    return case.workload, replace(case.arch, nodes=nodes), Mapping(_renamed(case.mapping.nodes, names))


@pytest.mark.parametrize("make", [random_case, random_general_case])
def test_native_programs_of_random_mappings_compute_the_workload(make: object) -> None:
    for seed in range(500, 506):
        case = (random_case if make is random_case else random_general_case)(random.Random(seed))
        workload, arch, mapping = on_cores_and_lanes(case)
        run = run_source(workload, arch, generate_c(workload, arch, mapping, Form.NATIVE), PARALLEL, seed=seed)
        assert run.matches_reference or dependence_violations(workload, mapping)


COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
# Of seed 206 clang said at -O1 that a loop for lanes was not vectorized.
LANED = {
    "matmul": cpu_matmul(),
    "ragged": on_cores_and_lanes(random_program_case(random.Random(206))),
    "window": on_cores_and_lanes(random_case(random.Random(15))),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", LANED)
def test_no_compiler_warns_of_a_native_program(name: str, compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(generate_c(*LANED[name], Form.NATIVE), encoding="utf-8")
    flags = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-c", str(source), "-o", str(tmp_path / "program.o"))
    for level in range(4):
        for threads in ((), ("-fopenmp",)):
            done = subprocess.run(
                [compiler, f"-O{level}", *threads, *flags], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")


GEMM_WITH_CLEARING = """
void gemm(int n, double C[6][5], double A[6][4], double B[4][5]) {
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++) {
            C[i][j] = 0.0;
            for (int k = 0; k < 4; k++)
                C[i][j] += 1.5 * A[i][k] * B[k][j];
        }
}
"""
TRIANGLE = """
void solve(double x[7], double L[7][7], double b[7]) {
    for (int i = 0; i < 7; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++)
            x[i] -= L[i][j] * x[j];
        x[i] = x[i] / (sqrt(fabs(L[i][i])) + 1.0);
    }
}
"""
STENCIL = """
void jacobi(float A[10], float B[10]) {
    for (int t = 0; t < 3; t++) {
        for (int i = 1; i < 9; i++)
            B[i] = 0.33333f * (A[i-1] + A[i] + A[i+1]);
        for (int i = 1; i < 9; i++)
            A[i] = B[i] > 0.5f ? B[i] : fmax(B[i], A[i]);
    }
}
"""
HALVES = """
void halves(int A[12], int B[6], int C[5]) {
    for (int i = 0; i < 12; i++) {
        B[i / 2] += A[i];
        C[i % 5] += A[11 - i] * (i - 3);
    }
}
"""
FUNCTIONS = """
void functions(double A[9], double B[9], float D[9], int n) {
    for (int i = 0; i < 9; i++) {
        A[i] = pow(B[i], 2.0) + exp(-B[i]) * fabs(B[i] - 1e0) / (0x10 + i * i) - round(B[i] * 3.0);
        if (i > 2)
            D[i] = A[i - 1] > B[i] && !(B[i] < 0.75) ? log(B[i]) : atan2(B[i], 2) + fmod(A[i], 0.3);
        D[i] *= hypot(erf(B[i]), tgamma(B[i]));
    }
}
"""
WHOLE = """
void whole(int A[9], int B[9], int C[9]) {
    for (int i = 0; i < 9; i++) {
        C[i] = A[i] / (B[i] * B[i] + 1) - abs(A[8 - i]) / 3;
        A[i] = (C[i] == 2 || A[i] != i) ? 010 + i / 2 : -i;
    }
}
"""
PROGRAMS = (GEMM_WITH_CLEARING, TRIANGLE, STENCIL, HALVES, FUNCTIONS, WHOLE)


def in_textual_order(workload: Workload) -> Mapping:
    """Return the program's own order: the outermost loop shared where all statements have it, then a branch."""
    shared = [
        dim.name for dim in workload.dims if all(statement.dims[:1] == (dim.name,) for statement in workload.statements)
    ]
    children = tuple(
        (*(Temporal(dim, 1) for dim in statement.dims if dim not in shared), Compute(statement.name))
        for statement in workload.statements
    )
    return Mapping((*(Temporal(dim, 1) for dim in shared), Storage("L1", ()), Branch(children)))


def staged(mapping: Mapping, tensors: tuple[str, ...]) -> Mapping:
    """Return the mapping with tensors held in L1 where the empty Storage node stands."""
    nodes = (replace(node, tensors=tensors) if isinstance(node, Storage) else node for node in mapping.nodes)
    return Mapping(tuple(nodes))


@pytest.mark.parametrize("source", PROGRAMS)
@pytest.mark.slow
def test_c_programs_of_several_statements_run_and_count(source: str) -> None:
    workload = from_c(source)
    arch = machine(MemoryLevel("DRAM"), MemoryLevel("L1"))
    mapping = in_textual_order(workload)
    assert not dependence_violations(workload, mapping)
    for tensors in ((), tuple(tensor.name for tensor in workload.tensors)):
        held = staged(mapping, tensors)
        expected = count_by_simulation(workload, arch, held)
        run = run_source(workload, arch, generate_c(workload, arch, held), PARALLEL)
        assert run.matches_reference
        assert run.counted == expected.traffic
        native = generate_c(workload, arch, held, Form.NATIVE)
        assert run_source(workload, arch, native, PARALLEL).matches_reference
