"""Nothing moves less than what a program's bound says: no tree that the simulator counts, no schedule with a buffer
that may do more than a storage node.
"""

from __future__ import annotations

import random

import pytest

import polymap as pm
from polymap.costmodel.bounds import compulsory_bits
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.search.programs.traffic_bounds import program_traffic_bits
from polymap.workload.c.reader import from_c
from tests.program_trees import least_traffic
from tests.schedule_traffic import moved_elements, run_of, tiled_order

OVER_I, OVER_J, OVER_K = (
    f"for (int {name} = 0; {name} < {{{size}}}; {name}++) " for name, size in zip("ijk", "abc", strict=True)
)
OVER_L = "for (int l = 0; l < {c}; l++) "
BELOW_I, UP_TO_I = "for (int j = 0; j < i; j++) ", "for (int j = 0; j <= i; j++) "
K_TO_J, K_TO_I = "for (int k = 0; k < j; k++) ", "for (int k = 0; k < i; k++) "
ELIMINATE = "A[i][j] -= A[i][k] * A[k][j]; "
TEXTS = (
    OVER_I + OVER_J + "{zero} " + OVER_K + "C[i][j] += A[i][k] * B[k][j];",
    OVER_I + OVER_J + "{zero} " + OVER_K + "C[i][j] += A[k][i] * A[k][j];",
    OVER_I + OVER_J + OVER_K + "C[i][j] = C[i][j] + A[i][k] * C[k][j];",
    OVER_I + OVER_J + OVER_K + "C[i][k] += A[i][j] * B[j][k] + A[j][k];",
    OVER_I + OVER_J + OVER_K + "C[i][j] += A[i + k][j] * B[k][i];",
    OVER_I + OVER_J + OVER_K + "C[i][j] = A[i][k] + C[i][k] * C[k][j];",
    OVER_I + UP_TO_I + OVER_K + "C[i][j] += A[i][k] * A[j][k];",
    OVER_I + BELOW_I + OVER_K + "C[i][j] += A[j][k] * B[i][k] + B[j][k] * A[i][k];",
    OVER_I + OVER_J + "for (int k = i + 1; k < {a}; k++) C[i][j] += A[k][i] * C[k][j];",
    OVER_I + "{{ " + BELOW_I + "{{ " + K_TO_J + "A[i][j] -= A[i][k] * A[j][k]; A[i][j] /= A[j][j]; }} "
    "" + K_TO_I + "A[i][i] -= A[i][k] * A[i][k]; }}",
    OVER_I + "{{ " + BELOW_I + "{{ " + K_TO_J + ELIMINATE + "A[i][j] /= A[j][j]; }} "
    "for (int j = i; j < {a}; j++) " + K_TO_I + ELIMINATE + "}}",
    "for (int k = 0; k < {a}; k++) "
    + OVER_I
    + "for (int j = 0; j < {a}; j++) A[i][j] = fmin(A[i][j], A[i][k] + A[k][j]);",
    "double t[30][30]; " + OVER_I + OVER_J + "{{ t[i][j] = 0.0; " + OVER_K + "t[i][j] += A[i][k] * B[k][j]; }} "
    "" + OVER_I + OVER_L + OVER_J + "C[i][l] += t[i][j] * B[j][l];",
    "for (int t = 0; t < {c}; t++) {{ for (int i = 1; i < {a}; i++) for (int j = 1; j < {b}; j++) "
    "B[i][j] = A[i][j] + A[i - 1][j] + A[i + 1][j] + A[i][j - 1]; "
    "for (int i = 1; i < {a}; i++) for (int j = 1; j < {b}; j++) A[i][j] = B[i][j] + B[i][j - 1]; }}",
    OVER_I + OVER_J + OVER_K + "C[i][0] += A[i + j][k] * B[j][k];",
    OVER_I + OVER_J + OVER_K + "C[i + j][k] = A[i][k] * B[j][i + k];",
    OVER_I + OVER_J + "{{ C[i][j] = 0.0; A[j][i] += C[i][j] * B[i][j]; }}",
)
LOOPS = "ijk"


def random_text(rng: random.Random) -> str:
    """Return one to three statements with random references in one nest of random loops."""

    def reference(name: str) -> str:
        pick = lambda: rng.choice(("i", "j", "k", "i + j", "k + 1", "2 * j", "j + k", "i + 2", "0"))  # noqa: E731
        return f"{name}[{pick()}][{pick()}]"

    parts: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        target, operator = reference(rng.choice("ABC")), rng.choice(("+=", "=", "+=", "-=", "*="))
        parts.append(f"{target} {operator} {reference(rng.choice('ABC'))} * {reference(rng.choice('ABC'))};")
    bounds = [rng.choice(("{a}", "{b}", "{c}")) for _ in LOOPS]
    starts = ["0", rng.choice(("0", "0", "i", "i + 1")), rng.choice(("0", "0", "j", "i"))]
    loops = "".join(
        f"for (int {name} = {start}; {name} < {bound}; {name}++) "
        for name, start, bound in zip(LOOPS, starts, bounds, strict=True)
    )
    return f"{loops} {{{{ {' '.join(parts)} }}}}"


def program(rng: random.Random, most: int) -> Workload:
    text = rng.choice(TEXTS) if rng.random() < 0.7 else random_text(rng)
    sizes = {name: rng.randint(most // 2, most) for name in "abc"}
    zero = rng.choice(("", "{ C[i][j] = 0.0;"))
    end = " }" if zero and "{zero}" in text else ""
    head = "void f(double A[30][30], double B[30][30], double C[30][30]) "
    return from_c(f"{head}{{ {text.format(**sizes, zero=zero)}{end} }}")


def one_buffer(elements: int) -> Architecture:
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 64 * elements}, {"compute": "PE"}]
    return pm.io.arch_from_document({"name": "two", "nodes": nodes})


def check_schedules(seed: int, programs: int, most: int, orders: int) -> tuple[int, int]:
    """Return how often a bound was compared, and how often it said more than what is compulsory."""
    rng = random.Random(f"program bounds {seed}")
    compared = above = 0
    for _ in range(programs):
        work = program(rng, most)
        run = run_of(work)
        found = (tiled_order(run, rng) for _ in range(orders))
        legal = [list(range(len(run.points))), *(order for order in found if order is not None)]
        for room in {rng.randint(1, 4), rng.randint(3, 12), rng.randint(8, 40)}:
            bits = program_traffic_bits(work, one_buffer(room))
            least = 64 * min(moved_elements(work, run, order, room) for order in legal)
            assert bits <= least, (work, room, bits, least)
            compared += 1
            above += bits > (compulsory_bits(work) or 0)
    return compared, above


def test_no_schedule_moves_less() -> None:
    compared, above = check_schedules(3, 8, 7, 3)
    assert above > compared / 8, "a bound that says nothing new cannot be wrong"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 110))
def test_no_schedule_moves_less_in_thousands_of_cases(seed: int) -> None:
    check_schedules(seed, 20, 9, 8)


def check_trees(seed: int) -> None:
    rng = random.Random(f"bounds of trees {seed}")
    work = program(rng, 3 if seed % 2 else 2)
    arch = one_buffer(rng.choice((1, 2, 3, 4, 6, 9)))
    assert program_traffic_bits(work, arch) <= least_traffic(work, arch), (work, arch)


@pytest.mark.parametrize("elements", [1, 2, 3, 4, 5, 8])
def test_no_tree_of_a_product_moves_less(elements: int) -> None:
    text = (OVER_I + OVER_J + OVER_K + "C[i][j] += A[i][k] * B[k][j];").format(a=2, b=2, c=2)
    work = from_c(f"void f(double A[2][2], double B[2][2], double C[2][2]) {{ {text} }}")
    arch = one_buffer(elements)
    assert program_traffic_bits(work, arch) <= least_traffic(work, arch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_no_tree_moves_less(seed: int) -> None:
    check_trees(seed)


def test_answers_of_explore_stand_above_the_bound_that_they_tell() -> None:
    text = "for (int j = 0; j <= i; j++) C[i][j] *= 3.0; for (int j = 0; j <= i; j++) for (int k = 0; k < 8; k++) "
    text = f"for (int i = 0; i < 8; i++) {{ {text} C[i][j] += A[i][k] * A[j][k]; }}"
    work = from_c(f"void f(double A[8][8], double C[8][8]) {{ {text} }}")
    result = pm.explore(work, one_buffer(5), "traffic:DRAM", work_limit=20)
    assert result.bound == program_traffic_bits(work, one_buffer(5)) > (compulsory_bits(work) or 0)
    assert result.value >= result.bound


def test_the_energy_of_what_is_moved_is_in_the_bound() -> None:
    text = (OVER_I + OVER_J + OVER_K + ELIMINATE).format(a=6, b=6, c=6)
    work = from_c(f"void f(double A[6][6]) {{ {text} }}")
    outer = {"level": "DRAM", "word_bits": 64, "read_pj": 5, "write_pj": 7}
    arch = pm.io.arch_from_document(
        {"name": "b", "nodes": [outer, {"level": "B", "capacity_bits": 256}, {"compute": "PE"}]}
    )
    more = program_traffic_bits(work, arch) - 2 * 64 * 36
    assert more > 0
    result = pm.explore(work, arch, "energy", work_limit=20)
    assert result.bound == pytest.approx(36 * 5 + 36 * 7 + 5 * more / 64)
    assert result.value >= result.bound
