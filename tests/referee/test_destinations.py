"""Variables that `transform_c` computes in the elements that they are stored to, or in arrays over loops, against the
texts themselves: bit for bit, where other statements read or write that element, too."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import polymap as pm
from polymap.errors import PolymapError
from tests.c_to_c import differences_of_texts
from tests.times import few

_WORD, _ARRAYS = "is computed in", "became arrays over loops"


def random_text(rng: random.Random) -> str:
    """Return a function that adds up in a variable and stores it, with other accesses to the array before, between and
    behind."""
    kind = rng.choice(["double", "double", "float", "unsigned"])
    other = kind if rng.random() < 0.9 else "double"
    deep = rng.random() < 0.6
    place = rng.choice(["c[i][j]", "c[i][j]", "c[j][i]", "c[i][0]", "c[i + 1][j]"]) if deep else rng.choice(["d[i]"])
    near = rng.choice(["c[i][j]", "c[i][k]", "c[k][j]", "c[j][i]", "d[i]", "d[k]", "a[i][k]", "a[i][k]", "a[k][i]"])
    near = near if deep else near.replace("[j]", "[0]")
    start = rng.choice(["0", "0", "1", place, near.replace("k", "i"), "d[i]"])
    term = rng.choice([f"a[i][k] * b[k][{'j' if deep else 0}]", f"a[k][i] * {near}", f"{near} * b[k][i]", near])
    update = rng.choice([f"s += {term};", f"s -= {term};", f"s = s + {term};", f"if (k > 2) s += {term};"])
    end = rng.choice(["n", "n", "i", "i + 1"])
    before = rng.choice(["", "", f"{place} = 3;", "d[i] += 1;"])
    between = rng.choice(["", "", "", f"{near.replace('k', 'i')} += 1;", "d[i] = s;"])
    least = rng.choice(["s", "s", "s", "2 * s", f"s + {near.replace('k', 'i')}", f"s / 3 - {place}"])
    store = rng.choice([f"{place} = {least};"] * 4 + [f"{place} += s;", f"if (i > 1) {place} = s;"])
    behind = rng.choice(["", "", "", "d[i] += s;", f"{place} *= 2;"])
    is_outside = rng.random() < 0.4
    stale = "d[i] = s;" if is_outside and rng.random() < 0.2 else ""
    own = f"{stale} s = {start};" if is_outside else f"{kind} s = {start};"
    loop = f"for (int k = {rng.choice(['0', '1'])}; k < {end}; k++) {{ {update} }}"
    body = f"{{ {before} {own} {loop} {between} {store} {behind} }}"
    body = f"for (int j = 0; j < {rng.choice(['n', 'n', 'i'])}; j++) {body}" if deep else body
    arrays = f"{kind} a[n][n], {kind} b[n][n], {other} c[n + 1][n], {other} d[n]"
    head = rng.choice([f"{kind} s = 1;", f"{kind} s; s = 2;"] if stale else [f"{kind} s;"]) if is_outside else ""
    twice = is_outside and rng.random() < 0.3
    body = f"for (int i = 0; i < n; i++) {body}"
    return f"void f(int n, {arrays}) {{ {head} {body} {body.replace(' d[i] = s;', ' ;') if twice else ''} }}"


def random_lives(rng: random.Random) -> str:
    """Return a function with variables that each iteration of a loop sets, most of them before it reads them: in
    recurrences along rows and columns, in two sums at once, and in a row of sums; in one nest or in two."""
    kind = rng.choice(["double", "double", "float", "int"])
    loop = rng.choice(["for (int i = 0; i < n; i++)", "for (int i = n - 1; i >= 1; i--)"])
    row = rng.choice(["for (int j = 0; j < n; j++)", "for (int j = n - 1; j >= 0; j--)", "for (int j = 1; j < n; j++)"])
    start = rng.choice(["t = 0;", "t = 0;", "t = d[i];", "if (i > 2) t = 0;", "if (d[i] > 0) t = 0;"])
    next_t = rng.choice(["c[i][j]", "a[i][j]", "t + b[i][j]"])
    along = f"c[i][j] = a[i][j] + 2 * t - u; {rng.choice(['u = t;', 'u = a[i][j];', ''])} t = {next_t};"
    along = along if rng.random() < 0.5 else along.replace("[i][j]", "[j][i]")
    sums = rng.choice(["c[k][j] += b[i][j] * a[i][k]; t += b[k][j] * a[i][k];", "t -= a[k][i] * b[k][j]; u = t;"])
    store = rng.choice(["c[i][j] = 2 * c[i][j] + b[i][j] + t;", "if (i > 1) c[i][j] = t;", "d[j] += t + u;"])
    first = rng.choice(["s[p] = 0;", "s[p] = d[p];", "if (p > 0) s[p] = 0;"])
    rows = f"{first} for (int k = 0; k < n; k++) s[p] += a[i][k] * b[k][p];"
    store_row = f"for (int p = {rng.choice('001')}; p < n; p++) {rng.choice('ac')}[i][p] = s[p];"
    body = rng.choice(
        [
            f"{{ {start} u = 1; {row} {{ {along} }} {rng.choice(['', 'd[i] += u;'])} }}",
            f"{row} {{ {start} u = 0; for (int k = 0; k < {rng.choice(['n', 'i'])}; k++) {{ {sums} }} {store} }}",
            f"{{ for (int p = 0; p < n; p++) {{ {rows} }} {store_row} }}",
        ]
    )
    behind = rng.choice(["", "", "", "d[0] += t;"])
    again = f"{loop} {body.replace('c[', 'e[')}" if rng.random() < 0.3 else ""
    is_set = "if" in start + first or behind
    before = "t = 0; u = 0; for (int p = 0; p < n; p++) s[p] = p;" if is_set else ""
    arrays = ", ".join(f"{kind} {name}[n][n]" for name in "abce")
    return f"void f(int n, {arrays}, {kind} d[n]) {{ {kind} t, u, s[n]; {before} {loop} {body} {behind} {again} }}"


def differences(text: str, words: str, rng: random.Random, where: Path, *, sanitized: bool) -> tuple[bool, list[str]]:
    """Return whether a function's variables are replaced, and where the results differ from the text's."""
    try:
        made = pm.transform_c(text)
    except PolymapError as error:
        return False, [f"refused: {error}\n{text}"]
    if words not in " ".join(made.report.changes):
        return False, []
    sizes = tuple({"n": rng.choice([1, 2, 5, 24, 97, 130])} for _ in range(3))
    return True, differences_of_texts(text, made, sizes, where, sanitized=sanitized)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize(
    ("text_of", "word"), [(random_text, _WORD), (random_lives, _ARRAYS)], ids=("elements", "arrays")
)
@pytest.mark.parametrize("seed", few(range(8), 4))
def test_variables_in_memory_compute_what_the_texts_do(
    seed: int, text_of: Callable[[random.Random], str], word: str, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    _, wrong = differences(text_of(rng), word, rng, tmp_path, sanitized=seed % 2 == 1)
    assert not wrong, "\n".join(wrong)


_COLUMNS = """void f(int n, int m, double a[m][n], double d[n], double c[m][n], double y[n]) {{ double t;
    for (int i = 0; i < n; i++) {{ {0} for (int k = 0; k < m; k++) {{
        if (k < 1) t = d[i]; c[k][i] = a[k][i] + 2 * t; t = c[k][i]; }} {1} }} }}"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize("text", ["", "#define __builtin_malloc(bytes) NULL\n"], ids=["memory", "none"])
def test_arrays_over_loops_need_memory_or_the_text_runs(text: str, tmp_path: Path) -> None:
    source = _COLUMNS.format("", "y[i] = i;")
    made = pm.transform_c(source)
    assert _ARRAYS in made.report.changes[0]
    sizes = ({"n": 60, "m": 70}, {"n": 23, "m": 1}, {"n": 1, "m": 5}, {"n": 24, "m": 0})
    assert not differences_of_texts(source, text + made, sizes, tmp_path, sanitized=False)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize(
    ("head", "has_arrays"),
    [
        ("#define _GNU_SOURCE\nstatic int div(int a) { return a; }\nint rand;\n", True),
        ("static char *malloc(int size) { return 0; }\n", False),
    ],
    ids=["names", "memory"],
)
def test_arrays_over_loops_leave_the_names_of_headers_to_the_file(head: str, has_arrays: bool, tmp_path: Path) -> None:
    made = pm.transform_c(head + _COLUMNS.format("", "y[i] = i;").replace("c[", "free["))
    assert any(_ARRAYS in each for each in made.report.changes) == has_arrays
    path = tmp_path / "made.c"
    path.write_text(made)
    subprocess.run(["gcc", "-fsyntax-only", "-w", str(path)], check=True)


def test_a_variable_that_is_set_at_most_sizes_only_gets_no_array() -> None:
    """With m = 0 each y[i] is what the first iteration sets."""
    source = _COLUMNS.format("if (i < 1) t = d[0];", "y[i] = t;")
    assert pm.transform_c(source).report.reason == "no other order was found to pay"
    assert _ARRAYS in pm.transform_c(source, {"n": 50, "m": 50}).report.changes[0]


_SUM = "{0} s = {1}; for (int k = 0; k < n; k++) s += a[i][k] * b[k][j]; {2}"
_WHOLE = "void f(int n, {0} a[n][n], {0} b[n][n], {0} c[n][n], double d[n][n]) {{ for (int i = 0; i < n; i++) {1} }}"


@pytest.mark.parametrize(
    ("kind", "start", "store", "is_replaced"),
    [
        ("double", "0", "c[i][j] = s;", True),
        ("double", "c[i][j]", "c[i][j] = s / 3;", True),
        ("double", "0", "c[i][j] = s + c[i][j];", False),
        ("double", "0", "c[i][j] += s;", False),
        ("float", "0", "d[i][j] = s;", False),
        ("double", "0", "d[i][j] = c[i][j]; c[i][j] = s;", False),
        ("double", "0", "if (j > 2) c[i][j] = s;", False),
        ("", "0", "c[i][j] = s;", True),
        ("", "d[i][j]", "c[i][j] = s / 3;", True),
    ],
)
def test_only_what_is_never_read_otherwise_is_replaced(kind: str, start: str, store: str, is_replaced: bool) -> None:
    body = f"for (int j = 0; j < n; j++) {{ {_SUM.format(kind, start, store)} }}"
    text = _WHOLE.format(kind or "double", body if kind else body.replace("s =", "s =", 1))
    made = pm.transform_c(text if kind else text.replace("{ for", "{ double s; for", 1))
    assert any(_WORD in each for each in made.report.changes) == is_replaced, made.report.changes or made.report.reason


if __name__ == "__main__":
    import tempfile

    replaced = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        for make, words in ((random_text, _WORD), (random_lives, _ARRAYS)):
            rng = random.Random(seed)
            with tempfile.TemporaryDirectory() as folder:
                is_replaced, wrong = differences(make(rng), words, rng, Path(folder), sanitized=seed % 2 == 1)
            replaced += is_replaced
            for each in wrong:
                sys.stdout.write(f"{seed}: {each}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{replaced} functions with variables in elements or arrays\n")
