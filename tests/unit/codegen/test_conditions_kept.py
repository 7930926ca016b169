"""What `transform_c` decided about macros and conditions: its output is the original's under other options as well."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap import from_c
from polymap.codegen.source import transform
from polymap.codegen.source.assumed import Conditions
from polymap.ir import InputError, PolymapError, Workload, WorkloadError
from tests.c_to_c import differences_of_texts
from tests.preprocessor_programs import HEADER, SETTINGS, ProgramMaker

transform_c = partial(pm.transform_c, order="isl")  # other orders may leave the text as it is

REDEFINED = """#define S 1
void f(int n, int A[n], int B[n]) {
 for (int i = 1; i < n; i++) A[i] += S;
#undef S
#define S 2
 for (int i = 1; i < n; i++) A[i] *= S;
}
int two(void) { return S; }
"""
BAKED = """#ifndef N
#define N 9 /* elements */
#endif
void f(int n, int A[N], int B[N]) {
  for (int i = 1; i < N; i++)
    for (int j = 0; j < N; j++)
      B[i] += A[i - 1] + 2 * N;
}
"""
BRANCH = """void f(int n, int A[n], int B[n]) {
  for (int i = 1; i < n; i++)
#ifdef FAST
    A[i] += 1;
#else
    A[i] += 2;
#endif
}
"""
VALUES = """#ifndef VALUE
#define VALUE 3
#define MORE 1
#else
#define MORE 5
#endif
#ifndef OP
#define OP(a, b) ((a) + (b))
#endif
#if LEVEL > 1
typedef unsigned char word;
#else
typedef int word;
#endif
void f(int n, int A[n], int B[n]) {
  for (int i = 1; i < n; i++) {
    word t = 200 * A[i];
    A[i] = OP(t, VALUE) + MORE;
  }
}
"""
GUARDED = "#ifndef F_C\n#define F_C\n#ifdef _OPENMP\n#include <omp.h>\n#endif\n" + BRANCH + "#endif\n"
TEXTS = {"redefined": REDEFINED, "baked": BAKED, "branch": BRANCH, "values": VALUES, "guarded": GUARDED}
OPTIONS: tuple[tuple[str, ...], ...] = (
    (), ("-DFAST",), ("-DN=7",), ("-DN=4+5",), ("-DN=9u",), ("-DN=(1?9:0)",), ("-DN=1?9:0",), ("-DN=9|0",),
    ("-DVALUE=4",), ("-DVALUE=3",), ("-DOP(a,b)=a",), ("-DLEVEL=2",), ("-fopenmp",), ("-DS=7",),
)  # fmt: skip


def outside(text: str, source: str) -> bool:
    """Return whether what stands around the function's body is as the user wrote it."""
    head, tail = re.split(r"(?<=\) \{)\n.*\n(?=\}\n)", source, maxsplit=1, flags=re.DOTALL)
    return head in text and text.endswith(tail)


@dataclass(frozen=True, slots=True)
class Built:
    """Libraries of the originals and of what was made of them, with the numbers of those that do not compile."""

    libraries: tuple[ctypes.CDLL, ctypes.CDLL]
    broken: tuple[frozenset[str], frozenset[str]]


def built(folder: Path, pairs: Mapping[str, tuple[str, str]], options: Sequence[str], tag: str) -> Built:
    """Compile pairs of texts, each with a function named as its key."""
    libraries: list[ctypes.CDLL] = []
    broken: list[frozenset[str]] = []
    for side in (0, 1):
        place = folder / f"{tag}_{side}"
        place.mkdir()
        (place / "own.h").write_text(HEADER)
        for name, texts in pairs.items():
            (place / f"{name}.c").write_text(texts[side])
        bad: frozenset[str] = frozenset()
        for _ in range(2):
            names = [f"{name}.c" for name in pairs if name not in bad]
            command = ["gcc", "-w", "-O0", "-fwrapv", "-shared", "-fPIC", *options, "-o", "all.so", *names]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
            if done.returncode == 0:
                break
            bad = frozenset(re.findall(r"^(\w+)\.c:\d+:\d+: error", done.stderr, re.MULTILINE))
            assert bad, done.stderr
        libraries.append(ctypes.CDLL(str(place / "all.so")))
        broken.append(bad)
    return Built((libraries[0], libraries[1]), (broken[0], broken[1]))


def ran(library: ctypes.CDLL, name: str, n: int) -> bytes:
    """Return what is in two arrays of 100 elements, and 100 before and behind them, after a call."""
    one, two = np.arange(300, dtype=np.int32) % 7 - 3, np.arange(300, dtype=np.int32) % 5
    getattr(library, name)(n, ctypes.c_void_p(one[100:].ctypes.data), ctypes.c_void_p(two[100:].ctypes.data))
    return one.tobytes() + two.tobytes()


def differing(folder: Path, pairs: Mapping[str, tuple[str, str]], settings: Sequence[Sequence[str]]) -> Counter[str]:
    """Count runs that are equal, and name those that are not, under each of the settings."""
    found: Counter[str] = Counter()
    for number, options in enumerate(settings):
        made = built(folder, pairs, options, f"s{number}")
        for name in pairs:
            if name in made.broken[0] or name in made.broken[1]:
                found["no C" if name in made.broken[0] else f"{name} does not compile with {options}"] += 1
                continue
            for n in (0, 6):
                one, two = (ran(library, name, n) for library in made.libraries)
                found["equal" if one == two else f"{name} differs with {options}"] += 1
    return found


def test_the_output_is_right_under_other_options(tmp_path: Path) -> None:
    pairs = {f"f_{name}": (text, transform_c(text)) for name, text in TEXTS.items()}
    assert all(outside(new, TEXTS[name.removeprefix("f_")]) for name, (_, new) in pairs.items())
    named = {name: tuple(re.sub(r"\bf\(", f"{name}(", text) for text in texts) for name, texts in pairs.items()}
    named = {name: tuple(re.sub(r"\btwo\(", f"{name}_two(", text) for text in texts) for name, texts in named.items()}
    found = differing(tmp_path, {name: (texts[0], texts[1]) for name, texts in named.items()}, OPTIONS)
    assert set(found) == {"equal"}
    assert found["equal"] == 2 * len(TEXTS) * len(OPTIONS)


def test_the_new_loops_are_compiled_where_the_text_is_what_was_read(tmp_path: Path) -> None:
    for number, (text, options, expected) in enumerate(
        (
            (BAKED, (), True), (BAKED, ("-DN=9",), True), (BAKED, ("-DN=8",), False), (BAKED, ("-DN=4+5",), False),
            (BRANCH, (), True), (BRANCH, ("-DFAST",), False), (VALUES, (), True), (VALUES, ("-DVALUE=3",), False),
            (GUARDED, ("-fopenmp",), True), (GUARDED, ("-DFAST",), False), (REDEFINED, ("-DS=4",), True),
        )
    ):  # fmt: skip
        path = tmp_path / f"{number}.c"
        path.write_text(transform_c(text))
        done = subprocess.run(["gcc", "-E", "-P", *options, str(path)], capture_output=True, text=True, check=True)
        assert ("for (long c" in done.stdout) == expected, (text, options)


def test_the_text_around_the_loops_stays_as_it_is() -> None:
    for text in (REDEFINED, BAKED, BRANCH, GUARDED):
        before = text[: text.index(") {") + 3]
        assert transform_c(text).startswith(before)
    assert "#undef S\n#define S 2\n}\nint two" in transform_c(REDEFINED)


def test_ends_of_lines_stay_as_they_are() -> None:
    new = transform_c(BRANCH.replace("\n", "\r\n"))
    assert new == transform_c(BRANCH).replace("\n", "\r\n")


def test_with_a_given_size_the_original_stays_for_others(tmp_path: Path) -> None:
    texts = {"g": (BAKED.replace(" f(", " g("), transform_c(BAKED.replace(" f(", " g("), {"N": 9}))}
    macros = BAKED.replace(" f(", " h(").replace("2 * N", "S * N")
    texts["h"] = "#define S 2\n" + macros, transform_c("#define S 2\n" + macros, {"N": 9})
    found = differing(tmp_path, texts, ((), ("-DN=9",), ("-DN=5",)))
    assert set(found) == {"equal"}


def test_conditions_on_a_given_size_are_asked_at_the_loops(tmp_path: Path) -> None:
    text = (
        "#ifndef N\n#define N 9\n#endif\nvoid g(int n, int A[99], int B[99]) {\n"
        "#if N > 8\n for (int i = 0; i < N; i++) A[i] = B[i] + 1;\n"
        "#else\n for (int i = 1; i < N; i++) A[i] = 7;\n#endif\n}\n"
    )
    new = transform_c(text, {"N": 9})
    assert "_as_read" not in new
    assert "#if defined(N) && N == 9\n" in new
    assert set(differing(tmp_path, {"g": (text, new)}, ((), ("-DN=9",), ("-DN=5",), ("-DN=12",)))) == {"equal"}


def test_macros_of_headers_that_depend_on_the_type_stay() -> None:
    text = "#include <polybench.h>\nvoid f(int n, DATA_TYPE A[n]) {\n"
    text += " for (int i = 0; i < n; i++) A[i] = SCALAR_VAL(0.1) * SQRT_FUN(A[i]);\n}\n"
    assert "A[i] = SCALAR_VAL(0.1) * SQRT_FUN(A[i]);" in transform_c(text)


REFUSED = [
    ("#define K K + 1\n", "PM281 the macro 'K' names itself"),
    ("#define long int\n", "PM281 the macro 'long' names itself, or a word that the new loops need"),
    ("#define OPEN {\n", "PM281 macros hold braces or `return` of the function with the loops"),
    ("#ifdef __AVX__\n#define K 2\n#else\n#define K 1\n#endif\n", "PM152 '#ifdef __AVX__' decides what is read"),
]


@pytest.mark.parametrize("head, expected", REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_cannot_be_written_is_refused(head: str, expected: str) -> None:
    brace = "OPEN" if "OPEN" in head else "{"
    text = head + "void f(int n, double *A) {\n for (int i = 0; i < n; i++) " + brace + " A[i] = A[i] * K; }\n}\n"
    text = text.replace("* K", "* 2") if "K" not in head else text
    with pytest.raises(PolymapError) as caught:
        transform_c(text)
    assert expected in str(caught.value)


BOTH = """#define BOTH(x, y, v) do { x += v; y -= v; } while (0)
void f(int A[9], int B[9], int C[9][9]) {
  BOTH(A[0], B[1], 2);
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 9; j++) BOTH(A[i], B[j], C[i][j]);
}
"""


def test_macros_may_hold_braces_that_they_close(tmp_path: Path) -> None:
    made = pm.transform_c(BOTH, order="original", tile=4)
    assert "BOTH" not in made.split("{", 2)[2]
    assert not differences_of_texts(BOTH, made, ({},), tmp_path, sanitized=False)


@pytest.mark.parametrize(
    "macros",
    [
        "#define OPEN {\n#define CLOSE }\n",
        "#define OPEN { {\n#define CLOSE } }\n",
        "#define OPEN if (n) {\n#define CLOSE } else {}\n",
    ],
)
def test_macros_whose_braces_others_close_are_refused(macros: str) -> None:
    with pytest.raises(InputError, match="PM281 macros hold braces"):
        pm.transform_c(macros + "void f(int n, int A[n]) {\n for (int i = 0; i < n; i++) OPEN A[i] = 2; CLOSE\n}\n")


def test_sizes_that_are_no_single_value_are_refused() -> None:
    nest = "void f(int A[99]) {\n for (int i = 0; i < 2 * N; i++) A[i] = 0;\n"
    with pytest.raises(WorkloadError, match=r"PM281 the size 'N' is given, and defined as '4 \+ 5'"):
        transform_c("#define N 4 + 5\n" + nest + "}", {"N": 9})
    with pytest.raises(WorkloadError, match=r"PM281 the size 'N' is given, and line 3 changes it among the loops"):
        transform_c(nest + "#define N 9\n for (int i = 0; i < N; i++) A[i] = 1;\n}", {"N": 9})
    parts = "#pragma scop\n#ifdef X\n#else", "for (int i = 0; i < 4; i++) A[i] = 0;", "#pragma endscop\n#endif\n}"
    with pytest.raises(InputError, match="PM281 the loops begin and end under different conditions"):
        transform_c("void f(int *A) {\n" + "\n".join(parts))


# --- random programs ---


def without_text(source: str) -> Workload | str:
    """Return what is read of a text, or why it is refused."""
    try:
        return replace(from_c(source, {"n": 6} if re.search(r"\bn\b", source) else None), original=None)
    except PolymapError as error:
        return str(error)


def tally(folder: Path, seeds: range) -> Counter[str]:
    """Return what happens to random programs: read as `cc -E` reads them, and their new texts under all settings."""
    found: Counter[str] = Counter()
    pairs: dict[str, tuple[str, str]] = {}
    (folder / "own.h").write_text(HEADER)
    for seed in seeds:
        path = folder / f"f{seed}.c"
        text = ProgramMaker(seed).text()
        path.write_text(text)
        try:
            whole = without_text(pm.io.preprocessed(path, [f"-I{folder}"]))
        except PolymapError:
            found["no C"] += 1
            continue
        plain = without_text(text)
        if isinstance(plain, str):
            found["refused"] += 1
        elif not isinstance(whole, str):  # else it has no n any more
            found["read alike" if plain == whole else f"{seed} is read otherwise"] += 1
        try:
            pairs[f"f{seed}"] = text, transform_c(text, order=("original", "auto")[seed % 2], tile=1 + seed % 2)
        except PolymapError:
            found["not transformed"] += 1
    return found + differing(folder, pairs, SETTINGS)


def test_random_programs_are_right_under_all_settings(tmp_path: Path) -> None:
    found = tally(tmp_path, range(4))
    assert set(found) <= {"equal", "read alike", "refused", "not transformed", "no C"}
    assert found["equal"] > 20
    assert found["read alike"] >= 1


@pytest.mark.soak
def test_many_random_programs_are_right_under_all_settings(tmp_path: Path) -> None:
    found = tally(tmp_path, range(7, 600))
    assert set(found) <= {"equal", "read alike", "refused", "not transformed", "no C"}


def test_a_seeded_bug_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> Conditions:
        return Conditions((), ())

    monkeypatch.setattr(transform, "conditions_of", nothing)
    assert any("differs" in kind for seed in range(6) for kind in tally(tmp_path, range(seed, seed + 1)))
