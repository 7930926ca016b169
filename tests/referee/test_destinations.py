"""Variables that `transform_c` computes in the elements that they are stored to, against the texts themselves: bit for
bit, where other statements read or write that element, too."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

import polymap as pm
from polymap.errors import PolymapError
from tests.c_to_c import differences_of_texts
from tests.times import few

_WORD = "is computed in"


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


def differences(seed: int, where: Path, *, sanitized: bool) -> tuple[bool, list[str]]:
    """Return whether a random function's variable is replaced, and where the results differ from the text's."""
    rng = random.Random(seed)
    text = random_text(rng)
    try:
        made = pm.transform_c(text)
    except PolymapError as error:
        return False, [f"refused: {error}\n{text}"]
    if _WORD not in " ".join(made.report.changes):
        return False, []
    sizes = tuple({"n": rng.choice([1, 2, 5, 24, 97, 130])} for _ in range(3))
    return True, differences_of_texts(text, made, sizes, where, sanitized=sanitized)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize("seed", few(range(8), 4))
def test_variables_in_elements_compute_what_the_texts_do(seed: int, tmp_path: Path) -> None:
    _, wrong = differences(seed, tmp_path, sanitized=seed % 2 == 1)
    assert not wrong, "\n".join(wrong)


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
        with tempfile.TemporaryDirectory() as folder:
            is_replaced, wrong = differences(seed, Path(folder), sanitized=seed % 2 == 1)
        replaced += is_replaced
        for each in wrong:
            sys.stdout.write(f"{seed}: {each}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{replaced} functions with variables in elements\n")
