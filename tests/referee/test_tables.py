"""Arrays set by lists, and chains of assignments: the text itself, compiled by gcc, beside what polymap makes of it."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.ir import WorkloadError
from tests.c_to_c import PLAIN, arguments, compiled, parameters_of
from tests.times import few

KINDS = ("float", "double", "int", "short", "unsigned char")


def random_list(rng: random.Random, sizes: list[int]) -> str:
    """Return a list of values, rows cut short and values left out at random."""
    if len(sizes) > 1 and rng.random() < 0.1:
        return "{0}"
    count = sizes[0] if rng.random() < 0.7 else rng.randint(1, sizes[0])
    if len(sizes) > 1:
        return "{" + ", ".join(random_list(rng, sizes[1:]) for _ in range(count)) + "}"
    return "{" + ", ".join(rng.choice(("0", "1", "-3", "7", "2.5f", "200", "3 * 5")) for _ in range(count)) + "}"


def random_text(seed: int) -> str:
    """Return a function of tables (of the file, of the function, of a loop) and of chains of assignments."""
    rng = random.Random(f"tables {seed}")
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
    axes = "".join(f"[{size}]" for size in sizes)
    if rng.random() < 0.2:
        axes = "[]" + axes[3:]
    place = rng.choice(("file", "function", "static", "loop"))
    qualifier = {"file": "static const ", "static": "static const "}.get(place, rng.choice(("const ", "")))
    table = f"{qualifier}{rng.choice(KINDS)} w{axes} = {random_list(rng, sizes)};"
    if axes.startswith("[]"):
        sizes[0] = table.count("}, {") + 1 if len(sizes) > 1 else table.count(",") + 1
    item = "w" + "".join(f"[(i + {rng.randint(0, 3)}) % {size}]" for size in sizes)
    change = "" if "const" in qualifier else f"{item} += 1; "
    chain = rng.choice((
        "a[i] = b[i] = c[i] = {0};", "float s, t; s = t = {0}; a[i] += s * t;", "b[i] -= c[i] = {0} + a[i];",
        "a[i] = {0}; b[i] += {0} * c[n - 1 - i];",
    )).format(item)  # fmt: skip
    inside = {place: table}
    return (
        f"{inside.get('file', '')}\nvoid f(int n, float a[n], {rng.choice(KINDS[:4])} b[n], double c[n]) {{\n"
        f"{inside.get('function', '')}{inside.get('static', '')}\n"
        f"for (int i = 0; i < n; i++) {{ {inside.get('loop', '')} {change}{chain} }} }}"
    )


def results(library: str, text: str) -> dict[str, Any]:
    """Return the arrays after a call of a text's function."""
    code: Any = ctypes.CDLL(library).f
    listed = parameters_of(text, "f")
    values = arguments(listed, {"n": 12}, 3, whole=True)
    code(*(ctypes.c_void_p(values[each.name].ctypes.data) if each.shape else ctypes.c_int(12) for each in listed))
    return values


@pytest.mark.parametrize("seed", few(range(40), 6))
def test_tables_are_read_as_c_reads_them(seed: int, tmp_path: Path) -> None:
    text = random_text(seed)
    wanted = results(compiled(text, tmp_path / "text.so", "gcc", PLAIN), text)
    values = arguments(parameters_of(text, "f"), {"n": 12}, 3, whole=True)
    fn = pm.compile(pm.from_c(text, {"n": 12}), "host_cpu")
    fn.loaded.plain(*(values[form.tensor].ctypes.data for form in fn.function.arrays))
    other = results(compiled(pm.transform_c(text, tile=4), tmp_path / "other.so", "gcc", PLAIN), text)
    for name in "abc":
        assert np.array_equal(values[name], wanted[name]), (name, text)
        assert np.array_equal(other[name], wanted[name]), (name, text)


REFUSED = {
    "may have changed": "float w[2] = {1, 2}; void f(float x[2]) { for (int i = 0; i < 2; i++) x[i] = w[i]; }",
    "is kept": "void f(float x[2]) { static float w[2] = {1, 2}; for (int i = 0; i < 2; i++) x[i] = w[i] += 1; }",
    "too many": "void f(float x[2]) { float w[2] = {1, 2, 3}; for (int i = 0; i < 2; i++) x[i] = w[i]; }",
    "designated": "void f(float x[2]) { float w[2] = {[1] = 2}; for (int i = 0; i < 2; i++) x[i] = w[i]; }",
    "without rows": "void f(float x[2]) { float w[2][2] = {1, 2}; for (int i = 0; i < 2; i++) x[i] = w[i][0]; }",
    "hidden": """static const float w[2] = {1, 2}; void f(float x[2]) {
        for (int i = 0; i < 2; i++) { x[i] = w[i]; { float w[2] = {3, 4}; x[i] += w[i]; } } }""",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_other_tables_are_refused_with_their_line(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"PM261.*list.*:1\)|PM265.*:1\)"):
        pm.from_c(text)


def test_a_parameter_hides_a_table() -> None:
    text = """static const float w[2] = {1, 2}; void f(const float w[2], float x[2]) {
        for (int i = 0; i < 2; i++) x[i] = w[i]; }"""
    assert not any(each.temporary for each in pm.from_c(text).tensors)
