"""C evaluates one side of `?:`, `&&` and `||`; subscripts and bounds of loops may be `?:`, `min` and `max`."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.reference import compute_workload
from polymap.ir.errors import WorkloadError
from polymap.workload.c.reader import from_c
from tests.lazy_programs import steps_of_text, steps_of_workload
from tests.times import few

MACHINE = pm.io.arch_from_document(
    {"name": "a", "nodes": [{"level": "DRAM"}, {"level": "L1", "capacity_bytes": 256}, {"compute": "MAC"}]}
)


def loop(body: str, *, arrays: str = "int B[10], int A[10], int C[10]", to: int = 10) -> str:
    return f"void f({arrays}) {{ for (int i = 0; i < {to}; i++) {body} }}"


def reads_of(text: str) -> dict[str, int]:
    """Return how often the instances of the workload read each array."""
    found: dict[str, int] = {}
    for step in steps_of_workload(from_c(text)):
        for (array, _), times in step.reads:
            found[array] = found.get(array, 0) + times
    return found


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("B[i] = i < 5 ? A[i] : C[i];", {"A": 5, "C": 5}),
        ("B[i] = (i < 5 ? A[i] : C[i]) + 1;", {"A": 5, "C": 5}),
        ("B[i] += 2 * (i < 5 ? A[i] : C[i]);", {"A": 5, "C": 5, "B": 10}),
        ("B[i] = (int)(i == 0 ? A[9] : A[i-1]) - 1;", {"A": 10}),
        ("B[i] = abs(i < 4 ? A[i] : i < 7 ? C[i] : 2);", {"A": 4, "C": 3}),
        ("B[i] = i > 2 && A[i-3] > 1;", {"A": 7}),
        ("B[i] = i > 2 || A[i];", {"A": 3}),
        ("B[i] = A[i] > 0 && i > 0 ? A[i-1] : 0;", {"A": 19}),
        ("B[i] = (i > 0 && A[i-1]) ? 1 : 2;", {"A": 9}),
        ("B[i] = (i < 5 ? A[i] : 0) + (i < 5 ? 0 : C[i]);", {"A": 5, "C": 5}),
        ("B[i] = 0 ? A[i+1] : C[i];", {"C": 10}),
        ("B[i] = (i < 5 ? i : 3) * A[i];", {"A": 10}),
        ("B[i] = ((i < 5 ? i - 5 : i) < 0) ? A[i] : C[i];", {"A": 5, "C": 5}),
        ("if (i > 0 && A[i-1] > B[0]) B[0] = A[i-1];", {"A": 9, "B": 9}),
    ],
)
def test_what_is_not_evaluated_is_not_read(body: str, reads: dict[str, int]) -> None:
    assert reads_of(loop(body)) == reads


def test_the_traffic_of_a_best_mapping_counts_one_side() -> None:
    work = from_c(loop("B[i] = (i < 5 ? A[i] : C[i]) + 1;"))
    result = pm.explore(work, MACHINE, "traffic:DRAM", time_limit_s=10)
    assert result.cost is not None
    reads = {each.tensor: each.reads for each in result.cost.traffic if each.level == "DRAM"}
    assert reads == {"B": 0, "A": 5, "C": 5}


def test_what_is_never_evaluated_neither_depends_nor_leaves_its_array() -> None:
    work = from_c(loop("A[i] = 1 + (i > 100 ? A[i+1] : 3);", arrays="int A[10]"))
    assert pm.dependences(work) == ()
    work = from_c(loop("B[i] = 1 + (i == 0 ? A[9] : A[i-1]);"))
    assert [each.shape for each in work.tensors] == [(10,), (10,)]


def test_a_condition_on_data_proves_nothing_of_subscripts() -> None:
    with pytest.raises(WorkloadError, match=r"S0\[i=9\] touches A\[10\].*(\n.*)*condition on data does not prove"):
        from_c(loop("B[i] = C[i] ? A[i+1] : 0;"))


@pytest.mark.parametrize(
    ("subscript", "elements"),
    [
        ("i == 0 ? 9 : i - 1", [9, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("i > 1 ? i - 1 : 0", [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("min(i + 1, 9)", [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]),
        ("max(i - 1, 0)", [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("(int)fmin(i + 2, 9)", [2, 3, 4, 5, 6, 7, 8, 9, 9, 9]),
        ("min(max(i - 4, 0), 3)", [0, 0, 0, 0, 0, 1, 2, 3, 3, 3]),
        ("(i < 4 ? i + 8 : i) / 2 % 5", [4, 4, 0, 0, 2, 2, 3, 3, 4, 4]),
        ("i % 2 ? 0 : 1", [1, 0] * 5),
        ("(i > 4 ? i - 5 : i) + (i > 4 ? 5 : 0)", list(range(10))),
    ],
)
def test_subscripts_by_pieces_are_read_and_written(subscript: str, elements: list[int]) -> None:
    read = steps_of_workload(from_c(loop(f"B[i] = A[{subscript}];")))
    assert [next(iter(step.reads))[0] for step in read] == [("A", (each,)) for each in elements]
    written = steps_of_workload(from_c(loop(f"B[{subscript}] = A[i];")))
    assert [step.target for step in written] == [("B", (each,)) for each in elements]


def test_a_periodic_target_has_the_dependences_of_its_elements() -> None:
    once = from_c(loop("B[i == 0 ? 9 : i - 1] = A[i];"))
    assert pm.dependences(once) == ()
    twice = from_c(loop("B[max(i - 1, 0)] = A[i];"))
    (only,) = pm.dependences(twice)
    assert (only.kind, only.source, only.sink, only.distances) == ("output", "S1", "S1", ((1,),))


def test_integers_of_a_loop_stand_for_their_pieces() -> None:
    text = "{ const int left = i > 0 ? i - 1 : 9, far = max(left - 1, 0); B[left] = A[far] + left; }"
    walk = steps_of_text(loop(text).replace("const ", ""), {"A": "int32", "B": "int32"}, 10)
    assert steps_of_workload(from_c(loop(text))) == walk.steps


def test_an_integer_by_pieces_keeps_the_meaning_of_its_place() -> None:
    text = "{ const int p = i > 0 ? i - 1 : 9; for (int i = 0; i < 3; i++) B[i] = A[p]; }"
    with pytest.raises(WorkloadError, match="PM265 'i' gets another meaning here, and 'p' is computed"):
        from_c(loop(text))


@pytest.mark.parametrize(
    "head",
    [
        "for (int j = i > 3 ? i - 2 : 1; j < 10; j++)",
        "for (int j = 0; j <= (i % 2 == 0 ? i : 9 - i); j++)",
        "for (int j = i > 3 ? i : 9; j > (i < 5 ? 2 : i - 4); j -= 2)",
        "for (int j = max(i - 1, 0); j <= min(i + 1, 9); j++)",
        "for (int j = i % 3 ? i : 0; j < 10 && (i > 4 || j < 5); j += 3)",
    ],
)
def test_bounds_of_loops_by_pieces_stay_one_loop(head: str) -> None:
    text = loop(f"{head} B[j] = A[i];")
    work = from_c(text)
    plain = text.replace("max(i - 1, 0)", "(i > 1 ? i - 1 : 0)").replace("min(i + 1, 9)", "(i < 8 ? i + 1 : 9)")
    assert [each.name for each in work.statements] == ["S0"]
    assert steps_of_workload(work) == steps_of_text(plain, {"A": "int32", "B": "int32"}, 10).steps


def extreme(rng: random.Random, names: str, depth: int = 0) -> tuple[str, str]:
    """Return maxima and minima inside each other, in any mixture, as Python and as C."""
    if depth > 1 or rng.random() < 0.3 * depth:
        text = f"{rng.choice(('', '2*', '-'))}{rng.choice(names)} + {rng.randint(-2, 6)}"
        return text, text
    (one, first), (other, second) = (extreme(rng, names, depth + 1) for _ in range(2))
    function = rng.choice(("max", "min"))
    more = rng.choice(("", "", " + 1"))
    sign = ">" if function == "max" else "<"
    written = f"{function}({first}, {second})"
    chosen = f"({first} {sign} {second} ? {first} : {second})"
    return f"{function}({one}, {other}){more}", f"{chosen if depth and rng.random() < 0.3 else written}{more}"


@pytest.mark.parametrize("seed", few(range(40), 8))
def test_maxima_and_minima_of_each_other_are_bounds_and_conditions(seed: int) -> None:
    rng = random.Random(f"extremes {seed}")
    (low, start), (high, end), (left, one), (right, other) = (extreme(rng, names) for names in ("i", "i", "ij", "ij"))
    head = rng.choice((f"int j = {start}; j < {end}; j++", f"int j = {end}; j > {start}; j--"))
    compared = rng.choice(("<", "<=", ">", ">="))
    text = f"for ({head}) if ({one} {compared} {other}) A[20*i + j + 40] = 1;"
    expected: list[int] = []
    for i in range(6):
        values = {"i": i, "max": max, "min": min}
        ends = eval(low, values), eval(high, values)
        for j in range(*ends) if "++" in head else range(ends[1], ends[0], -1):
            if eval(f"({left}) {compared} ({right})", {**values, "j": j}):
                expected.append(20 * i + j + 40)
    if not expected:
        text, expected = f"{{ {text} A[0] = 1; }}", [0] * 6
    found = steps_of_workload(from_c(loop(text, arrays="int A[200]", to=6)))
    assert [step.target[1][0] for step in found] == expected


def test_sides_are_converted_to_their_common_type() -> None:
    text = "void f(float B[2], int A[2], double C[2]) { for (int i = 0; i < 2; i++) B[i] = (i < 1 ? A[i] : C[i]) / 2; }"
    data = {"A": np.array([3, 3], "int32"), "C": np.array([3, 3], "float64"), "B": np.zeros(2, "float32")}
    assert compute_workload(from_c(text), data)["B"].tolist() == [1.5, 1.5]
    unsigned = (
        "void f(long B[2], int A[2], unsigned C[2]) { for (int i = 0; i < 2; i++) B[i] = 0 + (i < 1 ? A[i] : C[i]); }"
    )
    data = {"A": np.array([-1, -1], "int32"), "C": np.array([7, 7], "uint32"), "B": np.zeros(2, "int64")}
    assert compute_workload(from_c(unsigned), data)["B"].tolist() == [4294967295, 7]


def test_what_is_not_evaluated_may_be_undefined() -> None:
    work = from_c(loop("B[i] = A[i] < 100.0f && (int)A[i] > 2 ? (int)A[i] : -1;", arrays="int B[4], float A[4]", to=4))
    data = {"A": np.array([1, 1e20, 3, np.inf], "float32"), "B": np.zeros(4, "int32")}
    assert compute_workload(work, data)["B"].tolist() == [-1, -1, 3, -1]


def test_too_many_pieces_are_refused() -> None:
    sides = " + ".join(f"(i == {number} ? A[{number}] : 0)" for number in range(11))
    with pytest.raises(WorkloadError, match="PM278 the conditions of an assignment take it apart into more than 1,024"):
        from_c(loop(f"B[i] = {sides};", arrays="int B[20], int A[20]", to=20))


def test_a_workload_tells_which_reads_conditions_on_data_decide() -> None:
    assert "S0 counts C[i], A[i] in every instance" in str(from_c(loop("B[i] = A[i] > 0 ? C[i] : A[i];")))


def test_names_follow_the_text_where_a_part_never_runs() -> None:
    body = "{ if (i > 20) B[i] = (i < 3 ? A[i] : C[i]) + 1; B[i] = 2; }"
    assert [each.name for each in from_c(loop(body)).statements] == ["S2"]


def test_c_to_c_sees_no_dependence_on_what_is_never_evaluated() -> None:
    text = "void f(int n, double A[n], double B[n]) { for (int i = 0; i < n; i++) A[i] = 1 + (i > n ? A[i-1] : B[i]); }"
    found = pm.io.symbolic_checkup(text)
    assert found.dependences == ()
    assert [each.parallel for each in found.loops] == ["yes"]
    guarded = "void f(int n, int A[n]) { for (int i = 0; i < n; i++) if (i > n && A[i-1] > 0) A[i] = A[i-1]; }"
    for ask in (pm.io.symbolic_checkup, lambda text: from_c(text, {"n": 8})):
        with pytest.raises(WorkloadError, match="PM271 no statement is ever executed"):
            ask(guarded)


def test_a_schedule_for_some_sizes_orders_the_pieces_that_they_leave_out() -> None:
    text = (
        "void f(int n, int A[n][n], int B[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)"
        " B[i][j] = 1 + (i < 7 ? A[i][j] : A[j][i]); }"
    )
    schedule = pm.transform.interchange(pm.Schedule.original(pm.from_c(text, {"n": 5})), "i", "j")
    written = pm.transform_c(text, schedule=schedule)
    assert all(f"{name}[i, j] -> [(0), (j), (0), (i), (0)]" in written for name in ("S0", "S1"))


def test_python_functions_read_one_side_only() -> None:
    @pm.nest(N=10, types="int32")
    def clamped(A, B, C):
        for i in range(N):  # noqa: F821  # pyright: ignore
            B[i] = (A[i - 1] if i > 0 else C[i]) + A[min(i + 1, N - 1)]  # noqa: F821  # pyright: ignore

    steps = steps_of_workload(clamped)  # pyright: ignore
    assert [sorted(place[1][0] for place, _ in step.reads if place[0] == "A") for step in steps] == [
        [1], *([k - 1, k + 1] for k in range(1, 9)), [8, 9],
    ]  # fmt: skip
