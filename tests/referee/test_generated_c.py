"""The faithful C program counts what the simulator counts, and computes what the workload says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from polymap.codegen.compile import Limits, compile_c
from polymap.codegen.forms import Form, lower
from polymap.codegen.lower.ast import Array, Block, Copy, Count, For, Function, If, Name, Program, Scope, Stmt, Text
from polymap.codegen.lower.printer import emit
from polymap.codegen.run import generate_c, run_c, run_program, run_source
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.inputs.presets import load_arch
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.schedules.chains import TileRule
from polymap.schedules.legality import dependence_violations
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d
from polymap.workload.networks import builtin_workload
from tests.cases import Case, random_case, random_general_case
from tests.sample import sample_mapping
from tests.times import few

pytestmark = pytest.mark.slow

FAST = ("-std=c99", "-O0", "-fwrapv", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-fsanitize=address,undefined", "-fno-sanitize-recover")


def check(case: Case, seed: int, flags: tuple[str, ...] = FAST, limits: Limits | None = None) -> None:
    """Compile and run the case: its counters are the simulator's, its results right unless the mapping is illegal."""
    expected = count_by_simulation(case.workload, case.arch, case.mapping)
    source = generate_c(case.workload, case.arch, case.mapping)
    run = run_source(case.workload, case.arch, source, flags, seed=seed, limits=limits or Limits())
    assert run.counted == expected.traffic
    assert (run.steps, run.instances) == (expected.steps, expected.instances)
    assert run.matches_reference or dependence_violations(case.workload, case.mapping)


@pytest.mark.parametrize("block", few(range(5), 1))
def test_counters_of_random_accumulations_equal_the_simulation(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check(random_case(random.Random(seed)), seed)


@pytest.mark.parametrize("block", few(range(3), 1))
def test_counters_of_random_general_programs_equal_the_simulation(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check(random_general_case(random.Random(seed)), seed)


@pytest.mark.soak
@pytest.mark.parametrize("make", [random_case, random_general_case])
def test_counters_of_many_random_cases_equal_the_simulation(make: Callable[[random.Random], Case]) -> None:
    for seed in range(1000, 3000):
        check(make(random.Random(seed)), seed)


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_case, random_general_case])
def test_no_program_touches_memory_that_is_not_its_own(make: Callable[[random.Random], Case]) -> None:
    # The address sanitizer reserves more address space than any limit would allow.
    unlimited = Limits(memory_bytes=None)
    for seed in range(100, 104):
        check(make(random.Random(seed)), seed, SANITIZED, unlimited)


def machine(*nodes: MemoryLevel | Fanout) -> Architecture:
    return Architecture("machine", (*nodes, ComputeUnit("MAC")))


def matmul_with_moving_sums() -> Case:
    """Partial sums leave and come back, tiles are ragged, siblings share messages and add on the way."""
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=5, n=4, k=6, initial=("C",))
    arch = machine(
        MemoryLevel("DRAM"),
        MemoryLevel("GLB"),
        Fanout("X", 4),
        Fanout("Y", 3, Multicast.UNION),
        MemoryLevel("RF"),
    )
    nodes = (
        Temporal("k", 4),
        Storage("GLB", ("A", "B")),
        Temporal("m", 2),
        Storage("GLB", ("C",)),
        Temporal("n", 2),
        Spatial("m", 1, "X"),
        Spatial("k", 2, "Y"),
        Storage("RF", ("A", "C")),
        Temporal("n", 1),
        Temporal("k", 1),
        Compute("S"),
    )
    return Case(workload, arch, Mapping(nodes), frozenset())


def window_without_registers() -> Case:
    """A sliding window; compute reads are merged by union and identical fan-outs, sums by adders into the buffer."""
    workload = einsum("O[p] += I[p+r] * W[r]", p=8, r=4)
    arch = machine(
        MemoryLevel("DRAM"),
        MemoryLevel("GLB"),
        Fanout("X", 2, Multicast.NONE, reduction=False),
        Fanout("Y", 4, Multicast.UNION),
        Fanout("Z", 4),
    )
    nodes = (
        Temporal("r", 2),
        Temporal("p", 4),
        Storage("GLB", ("I", "O")),
        Spatial("p", 2, "X"),
        Spatial("p", 1, "Y"),
        Spatial("r", 1, "Z"),
        Compute("S"),
    )
    return Case(workload, arch, Mapping(nodes), frozenset())


def registers_of_siblings_without_adders() -> Case:
    """Drains that are not added on the way, single instances that load alone, one level bypassed."""
    workload = einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=2, p=4, c=3, r=2)
    arch = machine(
        MemoryLevel("DRAM"),
        MemoryLevel("L2"),
        Fanout("X", 3, Multicast.NONE, reduction=False),
        MemoryLevel("L1"),
    )
    nodes = (
        Temporal("p", 2),
        Storage("L2", ("O", "I")),
        Spatial("c", 1, "X"),
        Temporal("k", 1),
        Storage("L1", ("W", "O", "I")),
        Temporal("r", 1),
        Temporal("p", 1),
        Compute("S"),
    )
    return Case(workload, arch, Mapping(nodes), frozenset())


MUTATED = (matmul_with_moving_sums, window_without_registers, registers_of_siblings_without_adders)


def guarded(block: Block, numbers: Iterator[int]) -> Block:
    """Return the block with every copy and count behind a switch of its own."""
    return tuple(_guarded(statement, numbers) for statement in block)


def _guarded(statement: Stmt, numbers: Iterator[int]) -> Stmt:
    match statement:
        case Copy() | Count():
            return If(Name(f"stays({next(numbers)})"), (statement,))
        case For():
            return replace(statement, body=guarded(statement.body, numbers))
        case Scope():
            return replace(statement, body=guarded(statement.body, numbers))
        case If():
            return replace(
                statement,
                body=guarded(statement.body, numbers),
                otherwise=guarded(statement.otherwise, numbers),
            )
        case _:
            return statement


SWITCH = """
static int deleted;
static unsigned char reached[1000];
__attribute__((constructor)) static void choose(void)
{
    const char *text = getenv("POLYMAP_DELETED");
    deleted = text ? atoi(text) : -1;
}
__attribute__((destructor)) static void tell(void)
{
    FILE *file = fopen("reached", "wb");
    fwrite(reached, 1, sizeof reached, file);
    fclose(file);
}
static int stays(const int number)
{
    reached[number] = 1;
    return deleted != number;
}
"""


def with_switches(program: Program) -> tuple[Program, int]:
    """Return the program with a switch per copy and count, and how many there are."""
    numbers = iter(range(10**6))
    parts: list[Array | Function | Text] = [program.parts[0], Text(SWITCH)]
    for part in program.parts[1:]:
        is_code = isinstance(part, Function)
        parts.append(replace(part, body=guarded(part.body, numbers)) if is_code else part)
    return Program(tuple(parts)), next(numbers)


@pytest.mark.parametrize("make", MUTATED)
def test_deleting_any_one_copy_or_count_is_seen(
    make: Callable[[], Case], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = make()
    expected = count_by_simulation(case.workload, case.arch, case.mapping)
    program, switches = with_switches(lower(case.workload, case.arch, case.mapping, Form.FAITHFUL))
    compiled = compile_c(emit(program), tmp_path, FAST)

    def is_right(deleted: int) -> bool:
        monkeypatch.setenv("POLYMAP_DELETED", str(deleted))
        run = run_program(case.workload, case.arch, compiled, seed=1)
        counts = (run.counted, run.steps, run.instances)
        return run.matches_reference and counts == (expected.traffic, expected.steps, expected.instances)

    assert is_right(-1)
    reached = (tmp_path / "reached").read_bytes()[:switches]
    assert sum(reached) > 20
    assert [number for number in range(switches) if reached[number] and is_right(number)] == []


def test_deleting_a_line_of_the_text_is_seen() -> None:
    case = matmul_with_moving_sums()
    lines = generate_c(case.workload, case.arch, case.mapping).splitlines()
    copies = [
        number for number, line in enumerate(lines) if "] = bus" in line or "] = T1_A" in line or "] = T2_B" in line
    ]
    assert len(copies) > 3
    for number in copies:
        text = "\n".join(lines[:number] + lines[number + 1 :]) + "\n"
        assert not run_source(case.workload, case.arch, text, FAST[:2], seed=1).matches_reference


EYERISS = machine(
    MemoryLevel("DRAM"),
    MemoryLevel("GLB"),
    Fanout("Y", 12),
    Fanout("X", 14),
    MemoryLevel("IRF"),
    MemoryLevel("WRF"),
    MemoryLevel("PRF"),
)
ROW_STATIONARY = Mapping(
    (
        Temporal("k", 16),
        Temporal("p", 14),
        Storage("GLB", ("O",)),
        Temporal("c", 4),
        Storage("GLB", ("I",)),
        Spatial("r", 1, "Y"),
        Spatial("c", 1, "Y"),
        Spatial("p", 1, "X"),
        Temporal("q", 1),
        Storage("IRF", ("I",)),
        Storage("PRF", ("O",)),
        Temporal("s", 1),
        Storage("WRF", ("W",)),
        Temporal("k", 1),
        Compute("S"),
    )
)


@pytest.mark.slow
def test_a_real_layer_counts_what_the_cost_model_says() -> None:
    layer = conv2d(K=64, C=64, H=56, W=56, R=3, S=3, padding=1)
    run = run_c(layer, EYERISS, ROW_STATIONARY)
    assert run.matches_reference
    assert run.counts_match
    assert run.instances == 115_605_504
    assert run.seconds < 60


def check_layer(name: str, preset: str, seed: int) -> None:
    layer, arch = builtin_workload(name), load_arch(preset)
    run = run_c(layer, arch, sample_mapping(layer, arch, TileRule.DIVIDE, random.Random(seed)))
    assert run.matches_reference
    assert run.counts_match


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["eyeriss_like", "simba_like", "tpu_like"])
def test_random_mappings_of_a_depthwise_layer_count_what_the_cost_model_says(preset: str) -> None:
    check_layer("mobilenet_v2.block7_depthwise", preset, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("preset", ["eyeriss_like", "simba_like", "tpu_like", "cluster4"])
@pytest.mark.parametrize("name", ["resnet50.conv2_x", "alexnet.conv3", "vgg16.fc8", "mobilenet_v2.conv9"])
def test_random_mappings_of_real_layers_count_what_the_cost_model_says(name: str, preset: str, seed: int) -> None:
    check_layer(name, preset, seed)


def test_the_emitter_knows_nothing_of_the_cost_model() -> None:
    folder = Path(__file__).parents[2] / "polymap" / "codegen"
    lowering = list(folder.glob("*/**/*.py"))  # those in the folder itself ask for mappings, run programs
    assert len(lowering) > 10
    assert all("costmodel" not in path.read_text(encoding="utf-8") for path in lowering)
