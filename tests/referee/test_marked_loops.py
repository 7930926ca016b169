"""Loops around short ones that `transform_c` marks for vectors compute what their originals do, in place or not."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from tests.c_to_c import CTYPES, arguments, parameters_of
from tests.times import few

_COMPILERS = [each for each in ("gcc", "clang") if shutil.which(each)]
_TYPES = ("float", "double", "int", "unsigned char", "short")


def _text(rng: random.Random) -> str:
    """Return a function of windows: sums or extremes of them, in variables, in memory, or in place."""
    kind, rows, width = rng.choice(_TYPES), rng.choice([1, 3]), rng.choice([1, 2, 3, 4])
    high, wide = rng.choice([3, 9]), rng.choice([16, 37, 64])
    own = rng.choice(["x", "y", "y"])
    row, column = rng.choice(["i", "i + 1", "i + 2"]), rng.choice(["j", "j + 1", "j + 3"])
    place, value = f"{own}[{row}][{column}]", f"x[i + r][j + {rng.choice(['c', '2 * c', '3 - c'])}]"
    value += rng.choice(["", " * w[r][c]", f" * w[r][{rng.choice(['j', 'j + c'])}]", " + i"])
    into = rng.choice(["s", place, "t[c]"])
    update = {
        0: f"{into} = {value} < {into} ? {value} : {into};",
        1: f"{into} += {value};",
        2: f"{into} = {value} - {into};",
    }[rng.randrange(3)]
    start = {"s": f"{kind} s = {place};", "t[c]": f"for (int c = 0; c < {width}; c++) t[c] = {place};"}
    after = {"s": f"{place} = s;", "t[c]": f"{place} = t[0] + t[{width - 1}];"}
    local = f"{kind} t[{width}]; " if into == "t[c]" else ""
    window = f"for (int r = 0; r < {rows}; r++) for (int c = 0; c < {width}; c++) {{ {update} }}"
    body = f"{start.get(into, f'{place} = 1;')} {window} {after.get(into, '')}"
    head = f"void f({kind} x[{high + 4}][{wide + 8}], const {kind} w[4][{wide + 8}], {kind} y[{high + 4}][{wide + 8}])"
    return f"{head} {{ {local}for (int i = 0; i < {high}; i++) for (int j = 0; j < {wide}; j++) {{ {body} }} }}"


def _results(text: str, where: Path, words: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays after a call of the text's function."""
    where.with_suffix(".c").write_text(text)
    shared = ("-std=gnu11", "-ffp-contract=off", "-fwrapv", "-w", "-fPIC", "-shared")
    subprocess.run([*words, *shared, "-o", str(where), str(where.with_suffix(".c"))], check=True)
    values = {name: np.copy(each) for name, each in given.items()}
    ctypes.CDLL(str(where)).f(*(ctypes.c_void_p(each.ctypes.data) for each in values.values()))
    return values


def differences(seed: int, where: Path) -> tuple[int, list[str]]:
    """Return how many loops of a random function are marked, and where its results differ from the original's."""
    text = _text(random.Random(seed))
    made = pm.transform_c(text)
    listed = parameters_of(text, "f")
    assert all(each.dtype in CTYPES.values() for each in listed), "types that ctypes has"
    given = arguments(listed, {}, seed, whole=True)
    expected = _results(text, where / "own.so", ("gcc", "-O0"), given)
    wrong: list[str] = []
    for name in _COMPILERS:
        found = _results(made, where / f"{name}.so", (name, "-O3", "-march=native"), given)
        wrong += [f"{name}: {key} of {text}" for key in given if not np.array_equal(found[key], expected[key])]
    return len(made.report.marked), wrong


@pytest.mark.parametrize("seed", few(range(8), 4))
def test_marked_loops_compute_what_the_originals_do(seed: int, tmp_path: Path) -> None:
    _, wrong = differences(seed, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_loops_whose_iterations_depend_on_each_other_are_not_marked() -> None:
    text = "void f(float x[9][70], float y[9][70]) { for (int i = 0; i < 9; i++) for (int j = 0; j < 64; j++) { %s } }"
    window = "float s = 0; for (int c = 0; c < 3; c++) s += x[i][j + c]; %s[i][j%s] = s;"
    apart = pm.transform_c(text % (window % ("y", "")))
    assert [each.counts for each in apart.report.marked] == ["j"], "each iteration writes its own element"
    for place in (("x", ""), ("x", " + 3")):
        assert not pm.transform_c(text % (window % place)).report.marked, f"others read what is written to {place}"


if __name__ == "__main__":
    import tempfile

    marked = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as folder:
            count, wrong = differences(seed, Path(folder))
        marked += bool(count)
        sys.stdout.flush()
        for each in wrong:
            sys.stdout.write(f"{seed}: {each}\n")
    sys.stdout.write(f"{marked} functions with marked loops\n")
