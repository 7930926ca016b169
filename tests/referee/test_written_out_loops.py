"""Loops that gcc vectorizes wrongly: random bodies whose neighbours depend on each other, beside their plain text.

gcc 12.2 gets about one in ten of these wrong under -O3 -march=native where nothing keeps it from that.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import polymap as pm
from tests.times import few

TYPES = {"unsigned": np.uint32, "float": np.float32, "double": np.float64, "short": np.int16}
ELEMENTS = 700
LOOPS = 5


def random_loop(rng: random.Random, number: int) -> str:
    """Return a loop over elements of its own arrays, which writes neighbours a few iterations before it reads them."""
    stride, count = rng.choice((2, 3, 4, 8, 9)), rng.randint(2, 5)
    name, other = f"A{number}", f"B{number}"
    write = rng.randrange(stride + 2)
    read = write + rng.choice((-1, -1, 1, 0)) - stride * rng.randint(0, 3)
    places = list(range(count))
    if rng.random() < 0.3:
        rng.shuffle(places)
    head = f"for (int i = 5; i < {5 + rng.choice((5, 8, 16, 37, 64))}; i++)"
    if rng.random() < 0.4:
        body = f"{name}[{stride} * i + j + {write}] = {name}[{stride} * i + j + {read}] + {other}[{stride} * i + j];"
        return f"{head} for (int j = 0; j < {count}; j++) {body}"
    lines = [
        f"{name}[{stride} * i + {place + write}] = "
        f"{rng.choice((name, name, name, other))}[{stride} * i + {place + read}] + {other}[{stride} * i + {place}];"
        for place in places
    ]
    return f"{head} {{ {' '.join(lines)} }}"


def random_text(seed: int) -> tuple[str, list[str]]:
    """Return a function of several such loops, and the types of its pairs of arrays."""
    rng = random.Random(f"written out {seed}")
    loops = [random_loop(rng, number) for number in range(LOOPS)]
    kinds = [rng.choice(list(TYPES)) for _ in loops]
    parameters = [f"{kind} A{n}[{ELEMENTS}], {kind} B{n}[{ELEMENTS}]" for n, kind in enumerate(kinds)]
    return f"void f({', '.join(parameters)}) {{ {' '.join(loops)} }}", kinds


def results(function: Callable[..., object], kinds: list[str], seed: int) -> list[NDArray[Any]]:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 100, ELEMENTS).astype(TYPES[kind]) for kind in kinds for _ in range(2)]
    function(*(ctypes.c_void_p(each.ctypes.data) for each in arrays))
    return arrays


def compiled(text: str, place: Path, *flags: str) -> Callable[..., object]:
    place.with_suffix(".c").write_text(text)
    words = ["gcc", "-fwrapv", "-ffp-contract=off", *flags, "-shared", "-fPIC", str(place.with_suffix(".c"))]
    subprocess.run([*words, "-o", str(place)], check=True)
    return ctypes.CDLL(str(place)).f


def differing(seed: int, function: Callable[..., object], plain: Callable[..., object], kinds: list[str]) -> list[int]:
    pairs = zip(results(function, kinds, seed), results(plain, kinds, seed), strict=True)
    return [number // 2 for number, (one, other) in enumerate(pairs) if not np.array_equal(one, other)]


@pytest.mark.parametrize("seed", few(range(8), 4))
def test_compiled_loops_equal_their_text_without_vectors(seed: int, tmp_path: Path) -> None:
    text, kinds = random_text(seed)
    fn = pm.compile(pm.from_c(text), "host_cpu")
    plain = compiled(text, tmp_path / "plain.so", "-O1")

    def function(*pointers: object) -> None:
        named = dict(zip((f"{name}{n}" for n in range(LOOPS) for name in "AB"), pointers, strict=True))
        fn.loaded.plain(*(named[form.tensor] for form in fn.function.arrays))

    assert differing(seed, function, plain, kinds) == [], text


SAFE = {
    "neighbours of a row": "for (int i = 1; i < n - 1; i++) a[i][0] = a[i - 1][0] + a[i + 1][0];",
    "a sum in short loops": """for (int i = 0; i < n; i++) for (int j = 0; j < n - 2; j++) {
        b[i][j] = 0; for (int r = 0; r < 3; r++) b[i][j] += a[i][j + r]; }""",
    "long loops inside": "for (int i = 2; i < n; i++) for (int j = 1; j < n; j++) a[i][j] = a[i - 2][j - 1];",
    "rows of a short loop": "for (int i = 2; i < n; i++) for (int j = 0; j < 3; j++) a[i][j] = b[i - 2][j];",
}
IN_DANGER = {
    "a short loop": "for (int i = 2; i < n; i++) for (int j = 1; j < 5; j++) a[i][j] = a[i - 2][j - 1];",
    "statements": "for (int i = 2; i < n; i++) { a[i][1] = a[i - 2][0]; a[i][2] = a[i - 2][1]; }",
    "writes of two": "for (int i = 2; i < n; i++) { a[i][1] = 1; a[i - 1][1] = 2; a[i][3] = b[i][1]; }",
}


@pytest.mark.parametrize("loops", [*SAFE.values(), *IN_DANGER.values()], ids=[*SAFE, *IN_DANGER])
def test_only_loops_in_danger_are_kept_out_of_vectors(loops: str) -> None:
    text = f"void f(int n, double a[n][n], double b[n][n]) {{ {loops} }}"
    source = pm.compile(pm.from_c(text, {"n": 64}), "cpu_avx2").source
    assert ("NO_VECTORS();" in source) == (loops in IN_DANGER.values())


def random_products(rng: random.Random, number: int) -> str:
    """Return a loop that writes neighbours, sums and differences of products in turn, as of complex numbers."""
    name, lanes = f"A{number}", rng.choice((2, 2, 4))

    def factor(array: str) -> str:
        return rng.choice((f"{array}[{lanes} * i + {rng.randrange(lanes)}]", f"{array}[{lanes} * i + lane]"))

    left, right = ([factor(f"B{number}"), factor("C")] for _ in range(2))
    signs = rng.choice(("-+", "-+", "+-", "--"))
    negated = rng.choice(("", "", "- "))
    lines: list[str] = []
    for lane in range(lanes):
        terms = f"{negated}{' * '.join(left)} {signs[lane % 2]} {' * '.join(right)}".replace("lane", str(lane))
        lines.append(f"{name}[{lanes} * i + {lane}] = {terms};")
    return f"for (int i = 0; i < 64; i++) {{ {' '.join(lines)} }}"


@pytest.mark.parametrize("seed", few(range(8), 4))
def test_products_are_rounded_before_they_are_added(seed: int, tmp_path: Path) -> None:
    """gcc 12.2 does not round some of them: most of these texts are wrong without what keeps it from that."""
    rng = random.Random(f"products {seed}")
    kind = rng.choice(("float", "double"))
    loops = " ".join(random_products(rng, number) for number in range(LOOPS))
    listed = [*(f"{name}{number}" for number in range(LOOPS) for name in "AB"), "C"]
    text = f"void f({', '.join(f'{kind} {each}[256]' for each in listed)}) {{ {loops} }}"
    fn = pm.compile(pm.from_c(text), "host_cpu")
    plain = compiled(text, tmp_path / "plain.so", "-O1")
    values = {each: np.random.default_rng(seed).normal(size=256).astype(TYPES[kind]) for each in listed}
    mine, others = ({name: value.copy() for name, value in values.items()} for _ in range(2))
    plain(*(ctypes.c_void_p(others[name].ctypes.data) for name in listed))
    fn.loaded.plain(*(mine[form.tensor].ctypes.data for form in fn.function.arrays))
    assert [name for name in listed if not np.array_equal(mine[name], others[name])] == [], text
