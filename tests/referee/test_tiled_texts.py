"""Contractions that `transform_c` writes with register tiles, against their own texts: bit for bit, at sizes that no
tile divides, with sanitizers."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

import polymap as pm
from polymap.errors import WorkloadError
from tests.c_to_c import differences_of_texts
from tests.times import few

_NAMES = ("i", "j", "k")
_OTHERS = (("r", "u", "v"), ("at", "low", "part"), ("c0", "c1", "pm_i"), ("n0", "n1", "n2"))
_COUNTERS = ("int", "int", "long", "unsigned", "size_t")


def random_text(rng: random.Random) -> str:
    """Return a function that adds products onto a matrix: of whole matrices, triangles, in batches, in flat arrays,
    with statements before and behind it in its loops."""
    kind = rng.choice(["double", "double", "float"])
    row, lane, term = rng.choice((_NAMES, _NAMES, *_OTHERS))
    flat, batch = rng.random() < 0.2, rng.random() < 0.15
    extent = {row: "n", lane: "m", term: "q"}
    if rng.random() < 0.2:
        extent = dict.fromkeys(extent, "n")
    outer = "b" if batch else ""

    def element(array: str, first: str, second: str, *, turned: bool = False) -> str:
        one, other = (second, first) if turned else (first, second)
        if flat:
            return f"{array}[{one} * {extent[other]} + {other}]"
        return f"{array}{f'[{outer}]' if batch else ''}[{one}][{other}]"

    def declared(array: str, first: str, second: str, *, turned: bool = False) -> str:
        one, other = (second, first) if turned else (first, second)
        if flat:
            return f"{kind} {array}[{extent[one]} * {extent[other]}]"
        return f"{kind} {array}{'[3]' if batch else ''}[{extent[one]}][{extent[other]}]"

    turns = [rng.random() < 0.3 for _ in range(3)]
    sum_ = element("C", row, lane)
    arrays = [("A", row, term, turns[0]), ("B", term, lane, turns[1])]
    value = " * ".join(rng.sample([element(*each[:3], turned=each[3]) for each in arrays], 2))
    value = rng.choice([value, value, f"alpha * {value}", f"{value} * alpha", f"({value})"])
    if rng.random() < 0.2:
        arrays += [("D", row, term, turns[2]), ("E", term, lane, False)]
        value += f" {rng.choice('+-')} " + " * ".join(element(*each[:3], turned=each[3]) for each in arrays[2:])
    update = rng.choice([f"{sum_} += {value};", f"{sum_} -= {value};", f"{sum_} = {sum_} + ({value});"])
    head = [f"{kind} alpha", declared("C", row, lane), *(declared(*each[:3], turned=each[3]) for each in arrays)]
    body = _loops(rng, extent, sum_, update, kind)
    body = f"for (int b = 0; b < 3; b++) {{ {body} }}" if batch else body
    return f"void f(int n, int m, int q, {', '.join(head)}) {{ {body} }}"


def _loops(rng: random.Random, extent: dict[str, str], sum_: str, update: str, kind: str) -> str:
    """Return the loops around an update: whole or triangular ones, also counted down, or with the sum in a variable,
    row by row or column by column."""
    row, lane, term = extent
    counter, least = rng.choice(_COUNTERS), {each: rng.choice(["0", "0", "1"]) for each in (row, lane, term)}
    end = dict(extent)
    if counter == "int" and rng.random() < 0.35 and len(set(extent.values())) == 1:
        which = rng.randrange(4)
        end[lane] = f"{row} + 1" if which == 0 else end[lane]
        end[term] = row if which == 1 else end[term]
        least[lane] = row if which == 2 else least[lane]
        least[term] = f"{row} + 1" if which == 3 else least[term]
    loops = {each: f"for ({counter} {each} = {least[each]}; {each} < {end[each]}; {each}++)" for each in extent}
    if counter == "int" and rng.random() < 0.15:
        down = rng.choice([row, term])
        if least[down] in "01" and end[down] == extent[down]:
            loops[down] = f"for (int {down} = {end[down]} - 1; {down} >= {least[down]}; {down}--)"
    before = rng.choice(["", "", f"{sum_} = 0;", f"{sum_} *= alpha;"])
    behind = rng.choice(["", "", "", f"{sum_} = {sum_} / 3;"])
    if end == extent and all(each in "01" for each in least.values()) and not before + behind:
        order = rng.sample([row, lane, term], 3)
        return f"{loops[order[0]]} {loops[order[1]]} {loops[order[2]]} {{ {update} }}"
    if rng.random() < 0.4:
        columns = end == extent and all(each in "01" for each in least.values()) and rng.random() < 0.5
        first, second = (lane, row) if columns else (row, lane)
        inner = f"{kind} s = {sum_}; {loops[term]} {{ {update.replace(sum_, 's')} }} {sum_} = s;"
        return f"{loops[first]} {loops[second]} {{ {before} {inner} {behind} }}"
    return f"{loops[row]} {loops[lane]} {{ {before} {loops[term]} {{ {update} }} {behind} }}"


def differences(seed: int, where: Path, *, sanitized: bool) -> tuple[bool, list[str]]:
    """Return whether a random function has register tiles, and where its results differ from the text's."""
    rng = random.Random(seed)
    text = random_text(rng)
    try:
        made = pm.transform_c(text)
    except WorkloadError:  # flat arrays of sizes that are not told apart
        return False, [] if " * " in text.split("{")[0] else [f"refused: {text}"]
    sizes = tuple({name: rng.choice([1, 5, 24, 97, 130, 200]) for name in "nmq"} for _ in range(3))
    return "vector_size" in made, differences_of_texts(text, made, sizes, where, sanitized=sanitized)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize("seed", few(range(8), 2))
def test_register_tiles_compute_what_the_texts_do(seed: int, tmp_path: Path) -> None:
    _, wrong = differences(seed, tmp_path, sanitized=seed % 2 == 1)
    assert not wrong, "\n".join(wrong)


def test_what_is_no_plain_contraction_has_no_register_tiles() -> None:
    whole = "void f(int n, {0} C[n][n], {0} A[n][n], {0} B[n][n]) {{ for (int i = 0; i < n; i++) {1} }}"
    loops = "for (int j = 0; j < n; j++) for (int k = 0; k < n; k++) C[i][j] += {};"
    told = {
        ("double", "A[i][k] * B[k][j]"): True,
        ("float", "2.0f * A[i][k] * B[k][j]"): True,
        ("float", "0.1 * A[i][k] * B[k][j]"): False,
        ("float", "(double)A[i][k] * B[k][j]"): False,
        ("int", "A[i][k] * B[k][j]"): False,
        ("double", "A[i][k] * B[k][j] * A[i][j]"): False,
        ("double", "C[k][i] * B[k][j]"): False,
    }
    for (kind, value), is_tiled in told.items():
        made = pm.transform_c(whole.format(kind, loops.format(value)))
        assert ("vector_size" in made) == is_tiled, f"{kind} {value}: {made.report.changes}"


CHOLESKY = """void f(int n, double *A) { int i, j, k; for (j = 0; j < n; j++) {
    double s = A[j * n + j]; for (k = 0; k < j; k++) s -= 0.01 * A[j * n + k] * A[j * n + k]; A[j * n + j] = s;
    for (i = j + 1; i < n; i++) {
        double t = A[i * n + j]; for (k = 0; k < j; k++) t -= 0.01 * A[i * n + k] * A[j * n + k];
        A[i * n + j] = t / 3; } } }"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_a_factorization_column_by_column_has_register_tiles(tmp_path: Path) -> None:
    made = pm.transform_c(CHOLESKY)
    assert "vector_size" in made
    assert "n >= 90" in made, "tiles of smaller matrices take longer than the text"
    own = CHOLESKY.replace("double *A", "double A[n * n]")
    sizes = tuple({"n": n} for n in (1, 89, 90, 97, 150))
    assert not differences_of_texts(own, made.replace("double *A", "double A[n * n]"), sizes, tmp_path, sanitized=False)


TRIANGLE = """void f(int n, int m, double A[n][n], double B[n][m]) { for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) for (int k = i + 1; k < n; k++) B[i][j] += A[k][i] * B[k][j]; }"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_tiles_of_a_triangle_are_printed_once_not_by_cases_of_its_size(tmp_path: Path) -> None:
    made = pm.transform_c(TRIANGLE)
    assert made.count("pm_sums0(") <= 4, "two functions, two calls; not one for each case of n mod 96, 128 and 384"
    sizes = tuple({"n": n, "m": 50} for n in (0, 1, 16, 96, 97, 98, 128, 130, 193, 290))
    assert not differences_of_texts(TRIANGLE, made, sizes, tmp_path, sanitized=False)


def test_sums_without_register_tiles_are_not_said_to_have_them() -> None:
    made = pm.transform_c(CHOLESKY.replace("0.01 * A[i * n + k]", "sqrt(A[i * n + k])"))
    assert "S4 in tiles" not in made


if __name__ == "__main__":
    import tempfile

    tiled = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        for sanitized in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                has_tiles, wrong = differences(seed, Path(folder), sanitized=sanitized)
            for each in wrong:
                sys.stdout.write(f"{seed}: {each}\n")
            sys.stdout.flush()
        tiled += has_tiles
    sys.stdout.write(f"{tiled} functions with register tiles\n")
