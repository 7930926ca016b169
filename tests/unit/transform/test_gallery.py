"""Each transformation before and after, and refused: the golden files, shown in docs/reference/transformations.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import polymap as pm
from polymap import transform as t
from polymap.workload.notation import access_text

Golden = Callable[[str, str], None]
Rewrite = Callable[[pm.Schedule], pm.Schedule]

PRODUCT = """void product(int N, double A[N][N], double B[N][N], double C[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      C[i][j] = A[i][j] * B[j][i];
}"""
STENCIL = """void stencil(int T, int N, double A[N]) {
  for (int t = 0; t < T; t++)
    for (int i = 1; i < N - 1; i++)
      A[i] = A[i-1] + A[i] + A[i+1];
}"""
TWO = """void two(int N, double A[N], double B[N], double C[N]) {
  for (int i = 0; i < N; i++) {
    B[i] = 2 * A[i];
    C[i] = B[i] + 1;
  }
}"""
CYCLE = """void cycle(int N, double A[N], double B[N]) {
  for (int i = 1; i < N; i++) {
    B[i] = 2 * A[i-1];
    A[i] = B[i] + 1;
  }
}"""
PAIR = """void pair(int N, double A[N], double B[N], double C[N]) {
  for (int i = 0; i < N; i++)
    B[i] = 2 * A[i];
  for (int j = 0; j < N - 2; j++)
    C[j] = B[j] + B[j+2];
}"""
BLUR = """void blur(int H, int W, double in[H+2][W+2], double out[H][W]) {
  double rows[H+2][W];
  for (int y = 0; y < H + 2; y++)
    for (int x = 0; x < W; x++)
      rows[y][x] = in[y][x] + in[y][x+1] + in[y][x+2];
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      out[y][x] = rows[y][x] + rows[y+1][x] + rows[y+2][x];
}"""
SCALAR = """void scalar(int N, double A[N], double B[N]) {
  double s;
  for (int i = 0; i < N; i++) {
    s = A[i] * A[i];
    B[i] = s + 1;
  }
}"""
CARRIED = """void carried(int N, double A[N], double B[N]) {
  double s;
  for (int i = 0; i < N; i++) {
    if (i == 0) s = 0;
    B[i] = s + 1;
    s = A[i] * A[i];
  }
}"""
SPOILED = """void spoiled(int N, double A[N], double B[N]) {
  double s[N];
  for (int i = 0; i < N; i++)
    s[i] = A[i] * A[i];
  for (int i = 0; i < N; i++)
    A[i] = 0;
  for (int i = 0; i < N; i++)
    B[i] = s[i] + 1;
}"""
ACCUMULATE = """void accumulate(int N, double A[N][N], double x[N], double y[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      y[0] += A[i][j] * x[j];
}"""
SIZES = {"N": 16, "T": 4, "H": 8, "W": 6}


def workload(text: str) -> pm.Workload:
    return pm.from_c(text, sizes={name: size for name, size in SIZES.items() if f"int {name}" in text})


def fused_blur(schedule: pm.Schedule) -> pm.Schedule:
    return t.fuse(schedule, "y", "y_2", shift=2)


def accesses(work: pm.Workload) -> str:
    """Return what each statement writes and reads."""
    texts = (
        f"{each.name}: {access_text(each.target)} {each.operator.value} {', '.join(map(access_text, each.reads))}"
        for each in work.statements
    )
    return "\n".join(texts)


def separate(schedule: pm.Schedule) -> pm.Schedule:
    return t.distribute(t.split_index_set(schedule, "S0", loop="i", at=3), "i")


CASES: dict[str, tuple[str, str, Rewrite, str, str, Rewrite]] = {
    "split": (PRODUCT, 'split(s, "i", inner=4)', lambda s: t.split(s, "i", inner=4), "", "", lambda s: s),
    "interchange": (
        PRODUCT, 'interchange(s, "i", "j")', lambda s: t.interchange(s, "i", "j"),
        STENCIL, 'interchange(s, "t", "i")', lambda s: t.interchange(s, "t", "i"),
    ),
    "tile": (
        PRODUCT, 'tile(s, {"i": (8, 4), "j": (16, 2)})', lambda s: t.tile(s, {"i": (8, 4), "j": (16, 2)}),
        STENCIL, 'tile(s, {"t": 2, "i": 8})', lambda s: t.tile(s, {"t": 2, "i": 8}),
    ),
    "skew": (
        STENCIL, 'tile(skew(s, "i", by="t"), {"t": 2, "i": 8})',
        lambda s: t.tile(t.skew(s, "i", by="t"), {"t": 2, "i": 8}),
        STENCIL, 'skew(s, "t", by="i")', lambda s: t.skew(s, "t", by="i"),
    ),
    "shift": (
        TWO, 'shift(s, "i", by=1, statements=["S1"])', lambda s: t.shift(s, "i", by=1, statements=["S1"]),
        TWO, 'shift(s, "i", by=-1, statements=["S1"])', lambda s: t.shift(s, "i", by=-1, statements=["S1"]),
    ),
    "reverse": (
        PRODUCT, 'reverse(s, "j")', lambda s: t.reverse(s, "j"),
        STENCIL, 'reverse(s, "i")', lambda s: t.reverse(s, "i"),
    ),
    "fuse": (
        PAIR, 'fuse(s, "i", "j", shift=2)', lambda s: t.fuse(s, "i", "j", shift=2),
        PAIR, 'fuse(s, "i", "j")', lambda s: t.fuse(s, "i", "j"),
    ),
    "distribute": (
        TWO, 'distribute(s, "i")', lambda s: t.distribute(s, "i"),
        CYCLE, 'distribute(s, "i")', lambda s: t.distribute(s, "i"),
    ),
    "unroll": (PRODUCT, 'unroll(s, "j", factor=4)', lambda s: t.unroll(s, "j", factor=4), "", "", lambda s: s),
    "unroll_and_jam": (
        PRODUCT, 'unroll_and_jam(s, "i", factor=2)', lambda s: t.unroll_and_jam(s, "i", factor=2),
        STENCIL, 'unroll_and_jam(s, "t", factor=2)', lambda s: t.unroll_and_jam(s, "t", factor=2),
    ),
    "vectorize": (
        PRODUCT, 'vectorize(s, "j", width=8)', lambda s: t.vectorize(s, "j", width=8),
        STENCIL, 'vectorize(s, "i", width=8)', lambda s: t.vectorize(s, "i", width=8),
    ),
    "parallelize": (
        PRODUCT, 'parallelize(s, "i")', lambda s: t.parallelize(s, "i"),
        STENCIL, 'parallelize(s, "t")', lambda s: t.parallelize(s, "t"),
    ),
    "contract": (
        BLUR, 'contract(fuse(s, "y", "y_2", shift=2), "rows")', lambda s: t.contract(fused_blur(s), "rows"),
        BLUR, 'contract(fuse(s, "y", "y_2", shift=2), "rows", moduli=(2, 6))',
        lambda s: t.contract(fused_blur(s), "rows", moduli=(2, 6)),
    ),
    "expand": (
        SCALAR, 'parallelize(expand(s, "s", loops=["i"]), "i")',
        lambda s: t.parallelize(t.expand(s, "s", loops=["i"]), "i"),
        CARRIED, 'expand(s, "s", loops=["i"])', lambda s: t.expand(s, "s", loops=["i"]),
    ),
    "split_index_set": (
        TWO, 'distribute(split_index_set(s, "S0", loop="i", at=3), "i")', separate,
        "", "", lambda s: s,
    ),
    "inline": (
        BLUR, 'Schedule.original(inline(workload, "S0"))',
        lambda s: pm.Schedule.original(t.inline(s.workload, "S0")),
        SPOILED, 'inline(workload, "S0")', lambda s: pm.Schedule.original(t.inline(s.workload, "S0")),
    ),
    "isl_schedule": (
        STENCIL, "isl_schedule(workload)", lambda s: t.isl_schedule(s.workload), "", "", lambda s: s,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str, golden: Golden) -> None:
    text, call, rewrite, other, refused, wrong = CASES[name]
    before = pm.Schedule.original(workload(text))
    after = rewrite(before)
    parts = [text, f"# before\n{before}", f"# {call}\n{after}"]
    if after.workload != before.workload:
        parts.append(f"# its accesses\n{accesses(after.workload)}")
    if other:
        if other != text:
            parts.append(other)
        with pytest.raises(pm.errors.ScheduleError, match="PM433") as error:
            wrong(pm.Schedule.original(workload(other)))
        assert len(error.value.violations[0].witness) == 2
        parts.append(f"# {refused}\n{error.value}")
    golden(f"transform/{name}.txt", "\n\n".join(parts) + "\n")


def test_openscop_and_matrices(golden: Golden) -> None:
    schedule = t.tile(t.skew(pm.Schedule.original(workload(STENCIL)), "i", by="t"), {"t": 2, "i": 8})
    golden("transform/text.txt", f"{schedule}\n\n{t.matrices(schedule)}\n{pm.io.to_openscop(schedule)}")


@pytest.mark.parametrize(
    "text, loop, message",
    (
        (SCALAR, "i", r"expand \"s\" loops=\['i'\] makes it parallel"),
        (ACCUMULATE, "i", "only accumulates into y: keep partial results"),
        (CARRIED, "i", "^PM433 .*$"),
    ),
)
def test_parallel_loops_that_private_storage_would_free(text: str, loop: str, message: str) -> None:
    with pytest.raises(pm.errors.ScheduleError, match=message):
        t.parallelize(pm.Schedule.original(workload(text)), loop)


def test_text_of_every_kind_is_read_back() -> None:
    schedule = t.contract(fused_blur(pm.Schedule.original(workload(BLUR))), "rows")
    schedule = t.unroll(t.vectorize(t.parallelize(schedule, "x"), "x_2", width=4), "y", factor=2)
    assert t.schedule_from_text(schedule.workload, str(schedule)) == schedule
    plain = t.isl_schedule(workload(BLUR))
    assert t.schedule_from_text(plain.workload, str(plain.as_isl())).times == plain.times


def test_blur_needs_three_lines() -> None:
    folded = t.contract(fused_blur(pm.Schedule.original(workload(BLUR))), "rows")
    assert [(fold.tensor, fold.moduli) for fold in folded.folds] == [("rows", (3, SIZES["W"]))]


def test_a_fold_binds_later_steps() -> None:
    folded = t.contract(fused_blur(pm.Schedule.original(workload(BLUR))), "rows")
    assert t.parallelize(folded, "x").folds == folded.folds
    with pytest.raises(pm.errors.ScheduleError, match="loses a value"):
        t.shift(folded, "y", by=1, statements=["S1"])


def test_steps_that_mean_nothing_here_are_refused_in_words() -> None:
    schedule = pm.Schedule.original(workload(BLUR))
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: t.split(schedule, "z", inner=2), "PM431 The schedule has no loop 'z'"),
        (lambda: t.tile(schedule, {"y": 2, "x_2": 2}), "not different loops around the same statements"),
        (lambda: t.tile(schedule, {"y": 0}), "integers of at least 1"),
        (lambda: t.skew(schedule, "x", by="y_2"), "y_2 is not around all statements of x"),
        (lambda: t.fuse(schedule, "y", "x_2"), "not two loops in the same loops"),
        (lambda: t.distribute(schedule, "y", parts=[["S1"]]), "parts are not the statements of y"),
        (lambda: t.vectorize(schedule, "y"), "y is no innermost loop"),
        (lambda: t.contract(schedule, "out"), "out outlives the program"),
        (lambda: t.inline(schedule.workload, "S1"), "out outlives the program"),
        (lambda: t.split_index_set(schedule, "S0", loop="y", at=0), "leaves a part of S0 empty"),
        (lambda: t.interchange(schedule, 3, "x"), "is no name of a loop"),  # type: ignore[call-overload]
    )
    for step, message in cases:
        with pytest.raises(pm.errors.ScheduleError, match=message):
            step()


@pytest.mark.parametrize(
    "text, message",
    (
        ("S0[y] -> [y]", "has the loops"),
        ("S2[y,x] -> [y]", "is no statement"),
        ("S0[y,x] -> [y*x]", "multiplies loops"),
        ("S0[y,x] -> [z]", "is no loop of the statement"),
        ("S0[y,x] -> [floor(y/0)]", "no positive integer"),
        ("S0[y,x] -> [y x]", "multiplies loops"),
        ("S0[y,x] -> [y;]", "cannot be read"),
        ("S0[y,x] -> [floor(y + 3/8)]", "cannot be read"),
        ("S0[y,x] -> [y" + " mod 9" * 60 + "]", "cannot be read"),
        ("S0[y,x] -> [y]", "says nothing of statement 'S1'"),
    ),
)
def test_text_that_is_no_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(pm.errors.ScheduleError, match=message):
        t.schedule_from_text(workload(BLUR), text)


def test_scattering_that_is_none_is_refused() -> None:
    work = workload(STENCIL)
    good = pm.io.to_openscop(pm.Schedule.original(work))
    alone = good[good.index("SCATTERING") : good.index("WRITE")]
    assert pm.io.from_openscop(work, alone).times != pm.io.from_openscop(work, good).times, "loops count from 0 there"
    for bad, message in (
        (alone.replace("5 9 5 2 0 0", "5 9 5 3 0 0"), "PM437 .*the head of SCATTERING"),
        (alone.replace("5 9 5 2 0 0", "5 9 5 1 1 0"), "PM436 .*has 1 loops"),
        (alone.replace("-1", "-2"), "PM436 .*not given by one equality"),
        (alone[:-20], "PM437 .*ends too early|PM437 .*is not one of"),
        (alone + alone, "PM436 .*2 relations for 1 statements"),
        ("", "PM436 .*0 relations for 1 statements"),
        ("SCATTERED", "PM437 .*begins no relation"),
    ):
        with pytest.raises((pm.errors.ScheduleError, pm.errors.InputError), match=message):
            pm.io.from_openscop(work, bad)
