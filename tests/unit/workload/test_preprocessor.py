"""Macros and conditions of C are as `gcc -E` has them; what the text does not decide is refused where it matters."""

# ruff: noqa: E501  # tables of texts read best unbroken

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable

import pytest

from polymap import from_c
from polymap.ir import InputError, PolymapError
from polymap.workload.c import macros
from polymap.workload.c.directives import expanded
from polymap.workload.c.words import Token
from tests.preprocessor_texts import TOKEN, TextMaker

NEST = "void f(int n, double A[n]) { for (int i = 0; i < n; i++) A[i] = X; }\n"


def by_gcc(text: str) -> list[str] | None:
    command = ["gcc", "-E", "-P", "-w", "-x", "c", "-std=gnu11", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return None if done.returncode else TOKEN.findall(done.stdout)


def ours(text: str) -> list[str] | None:
    try:
        found = expanded(text, {}, {}, "f.c")
    except PolymapError:
        return None
    assert found.tokens.count("\n") == text.count("\n")
    return TOKEN.findall("".join(found.tokens))


def outcomes(seeds: range) -> Counter[str]:
    """Count texts: equal, wrong, refused (a directive in a call), no C for gcc."""
    found: Counter[str] = Counter()
    for seed in seeds:
        text = TextMaker(seed).text()
        right, read = by_gcc(text), ours(text)
        kind = (
            "no C" if right is None else "refused" if read is None else "equal" if read == right else f"wrong: {seed}"
        )
        found[kind] += 1
    return found


def test_random_texts_are_what_gcc_makes_of_them() -> None:
    found = outcomes(range(40))
    assert set(found) <= {"equal", "refused", "no C"}
    assert found["equal"] > 25
    assert found["refused"] <= 1


@pytest.mark.soak
def test_many_random_texts_are_what_gcc_makes_of_them() -> None:
    found = outcomes(range(40, 4000))
    assert set(found) <= {"equal", "refused", "no C"}
    assert found["refused"] < 20


def without_hiding(monkeypatch: pytest.MonkeyPatch) -> None:
    def token(text: str, hidden: frozenset[str] = frozenset()) -> Token:
        return Token(text, frozenset(list(hidden)[:60]) if len(hidden) > 50 else frozenset())

    monkeypatch.setattr(macros, "Token", token)


def arguments_without_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macros, "_BLANK", Token(""))


@pytest.mark.parametrize(("bug", "texts"), [(without_hiding, 1), (arguments_without_blanks, 12)])
def test_a_seeded_bug_is_seen(
    bug: Callable[[pytest.MonkeyPatch], None], texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = outcomes(range(texts))
    bug(monkeypatch)
    assert any(kind.startswith("wrong") or kind == "refused" for kind in outcomes(range(texts)) - right)


TEXTS = {
    "the name of a call comes out of a macro": "#define G(x) [x]\n#define F G\nF(3) F (4) F\n",
    "rescanning takes the rest of the text": "#define f(x) x f\n#define z z[0]\nf(1)(2) (z)\n",
    "a body names what is defined later": "#define A B\n#define B 1\nA\n#undef B\n#define B 2\nA\n",
    "the standard's example": "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n"
    "#define h g(~\n#define m(a) a(w)\n#define w 0,1\n#define t(a) a\n#define p() int\n#define q(x) x\n#define r(x,y) x ## y\n"
    "#define str(x) # x\nf(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\ng(x+(3,4)-w) | h 5) & m\n(f)^m(m);\n"
    'p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };\nchar c[2][6] = { str(hello), str() };\nstr(@"\\n" \'a\' +1)\n',
    "pasting": "#define hash_hash # ## #\n#define mkstr(a) # a\n#define in_between(a) mkstr(a)\n"
    "#define join(c, d) in_between(c hash_hash d)\njoin(x, y)\n#define t(x,y,z) x ## y ## z\nt(1,2,3), t(,4,5), t(6,,7)\n",
    "variadic": "#define V(a, ...) [a|__VA_ARGS__|#__VA_ARGS__]\nV(1) V(1,2) V(1, 2, (3, 4))\n#define L(f, ...) f(, ## __VA_ARGS__)\n"
    "L(a) L(a,) L(a, b, c)\n#define N(args...) <args>\nN() N(1, 2)\n",
    "negatives keep apart": "#define NEG(x) -x\n#define M -1\nNEG(-1) -M NEG(M) x-M\n",
    "words go on behind a backslash": "#def\\\nine A 1\\\n2\nA fo\\\nr\n",
    "a comment goes on in a directive": "#define A 1 /* one\n two */ + 2\nA\n/* x */ # /* y */ define B 3 // \\\nB\nB\n",
    "no directives in comments and strings": '"/*" A /*\n#define A 1\n*/ "*/" A // /*\n#define B "//"\nB A\n',
    "nested conditions": "#if 1\n#if 0\n#elif 2 > 1\na\n#else\nb\n#endif\n#elif 1/0\nc\n#else\n#if nonsense (\n'\n#endif\n#endif\n",
    "elifdef": "#define A\n#if 0\n#elif defined A && !defined(B)\nyes\n#endif\n",
    "signs": "#if -1 > 0u && (-1 >> 63) == -1 && 7 % -4 == 3 && -7 / 2 == -3\nyes\n#endif\n#if (2 || 1 / 0) && (0 ? 1 / 0 : 1)\nyes\n#endif\n",
    "arithmetic": "#if 0x7fffffffffffffff + 0u == 9223372036854775807 && 'a' == 97 && ~0 == -1 && 010 == 8 && 1 << 3 == 8\nyes\n#endif\n",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_what_gcc_makes_of_it(name: str) -> None:
    right = by_gcc(TEXTS[name])
    assert right is not None
    assert ours(TEXTS[name]) == right


def value_of(text: str) -> str:
    workload = from_c(text, {"n": 4})
    return str(workload.statements[0].expression)


def test_definitions_hold_from_their_line_on() -> None:
    # C99 6.10.3.5. Compiled, it prints 1 4 4 for n = 3 and zeros.
    text = (
        "#define S 1\nvoid f(int n, double A[n]) {\n for (int i = 1; i < n; i++) A[i] += S;\n#undef S\n#define S 2\n"
        " for (int i = 1; i < n; i++) A[i] *= S;\n}\n"
    )
    assert [str(each.expression) for each in from_c(text, {"n": 3}).statements] != []
    numbers = [str(each.expression).partition("text='")[2][:1] for each in from_c(text, {"n": 3}).statements]
    assert numbers == ["1", "2"]


REFUSED = [
    ("#ifdef __AVX__\n#define X 1\n#else\n#define X 2\n#endif\n", "the compiler tells what '__AVX__' is (f.c:1)"),
    ("#if defined(_OPENMP)\n#define X 1\n#endif\n", "the compiler tells what '_OPENMP' is (f.c:1)"),
    ("#if __STDC_VERSION__ > 1\n#define X 1\n#endif\n", "the compiler tells what '__STDC_VERSION__' is (f.c:1)"),
    ("#ifdef linux\n#define X 1\n#endif\n", "the compiler tells what 'linux' is (f.c:1)"),
    ("#if __has_include(<x.h>)\n#define X 1\n#endif\n", "the compiler tells what '__has_include' is (f.c:1)"),
    ('#include "own.h"\n#ifndef X\n#define X 1\n#endif\n', '"own.h", which is not followed, may define \'X\' (f.c:2)'),
    ("#include <own.h>\n#ifndef X\n#define X 1\n#endif\n", "<own.h>, which is not followed, may define 'X' (f.c:2)"),
    ("#include <math.h>\n#ifndef M_PI\n#define M_PI 3\n#endif\n#define X M_PI\n", "a header may define 'M_PI' (f.c:2)"),
    ("#ifdef __AVX__\n#define W 1\n#endif\n#if W\n#define X 1\n#else\n#define X 2\n#endif\n", "the compiler tells what '__AVX__' is"),
    ("#ifdef __AVX__\ntypedef int word;\n#else\ntypedef long word;\n#endif\nword X;", "the compiler tells what '__AVX__' is (f.c:1)"),
    ("#define X __LINE__\n", "'__LINE__' is a macro of the compiler (f.c:2)"),
    ("#define X _OPENMP\n", "'_OPENMP' is a macro of the compiler (f.c:2)"),
    ("#error give X\n", "PM152 '#error give X' is reached (f.c:1)"),
    ("#pragma push_macro(\"X\")\n", "PM152 '#pragma push_macro' is not read (f.c:1)"),
    ("#define F(x) x\nint y = F(\n#undef X\n1);", "the call of the macro 'F' is not closed, or a directive stands in it (f.c:2)"),
    ("#define F(x) x\nint y = F\n#undef X\n(1);", "a directive stands in the call of the macro 'F' (f.c:2)"),
    ("#define F(x, ...) __VA_OPT__(x)\n", "the macro 'F' uses __VA_OPT__ (f.c:1)"),
    ("#if 1\n#else\n#else\n#endif\n", "'#else' stands behind '#else' (f.c:3)"),
    ("#if 1\n#else\n#elif 1\n#endif\n", "'#elif' stands behind '#else' (f.c:3)"),
    ("#if (((((\n#endif\n", "'#if' cannot be decided: it ends too early (f.c:1)"),
    ("#if " + "(" * 100 + "1" + ")" * 100 + "\n#endif\n", "'#if' cannot be decided: it is nested too deeply (f.c:1)"),
    ("#ifdef A\n#endif\n" * 2001, "PM151 f.c has more than 2,000 conditions"),
    ("#if n > 2\n#define X 1\n#endif\n", "PM152 a condition names 'n', which is given as a size, and a variable"),
]  # fmt: skip


@pytest.mark.parametrize("head, expected", REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_the_text_does_not_decide_is_refused(head: str, expected: str) -> None:
    with pytest.raises(PolymapError) as caught:
        from_c(head + NEST, {"n": 4}, file="f.c")
    assert expected in str(caught.value)


READ = [
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n#ifdef __cplusplus\n}\n#endif\n#define X 1\n",
    "#include <stdio.h>\n#ifndef X\n#define X 1\n#endif\n",
    "#ifdef _OPENMP\n#include <omp.h>\n#else\nstatic int threads(void) { return 1; }\n#endif\n#define X 1\n",
    "#ifdef __AVX__\n#define W 1\n#endif\n#define X 1\n",
    "#ifdef __AVX__\n#define X 3\n#endif\n#undef X\n#define X 1\n",
    "#if defined(__AVX__) && 0\n#define X 2\n#else\n#define X 1\n#endif\n",
    "#ifdef FAST\n#define X 2\n#elif defined(FAST) || 1\n#define X 1\n#endif\n",
    "#define LOG(x, ...) printf(x, ## __VA_ARGS__)\nint main(void) { LOG(\"\"); return __LINE__; }\n#define X 1\n",
    "#define X 1\n#ifdef __AVX__\nint main(void) { for (int i = 0; i < 9; i++) ; return 0; }\n#endif\n",
    "#define ONE(a) a\n#define X ONE(\\\n1)\n",
]  # fmt: skip


@pytest.mark.parametrize("head", READ, ids=[str(number) for number in range(len(READ))])
def test_what_does_not_matter_is_no_reason_to_refuse(head: str) -> None:
    assert "text='1'" in value_of(head + NEST)


def test_a_loop_that_only_a_compiler_knows_of_is_refused_by_its_condition() -> None:
    with pytest.raises(InputError, match=r"PM152 '#ifdef __AVX__' decides what is read"):
        from_c("#ifdef __AVX__\n#define X 1\n" + NEST + "#endif\n", {"n": 4})


def test_headers_among_the_loops_are_refused() -> None:
    loop = "for (int i = 0; i < n; i++) {{ A[i] = 1; {} }}"
    with pytest.raises(InputError, match=r"PM152 an #include stands among the loops, and is not followed .*:2\)"):
        from_c("void f(int n, double *A) { " + loop.format('\n#include "body.h"\n') + " }", {"n": 4})
    assert from_c('#include "own.h"\n' + loop.format(""), {"n": 4}).dims[0].extent == 4


def test_a_given_size_decides_conditions() -> None:
    text = "#ifndef N\n#define N 64\n#endif\nvoid f(int A[N]) {\n#if N > 8\n for (int i = 0; i < N; i++) A[i] = 0;\n#else\n"
    text += " for (int i = 1; i < N; i++) A[i] = 0;\n#endif\n}"
    assert [from_c(text, sizes).dims[0].extent for sizes in ({}, {"N": 9}, {"N": 8})] == [64, 9, 7]
    twice = "#define N 4\nint A[9];\nvoid f(void) { for (int i = 0; i < N; i++) A[i] = 0;\n#undef N\n#define N 5\n"
    twice += "for (int i = 0; i < N; i++) A[i] = 1; }"
    assert [each.extent for each in from_c(twice).dims] == [4, 5]
    with pytest.raises(InputError, match=r"PM264 the size 'N' is given, and .* defines it twice, differently .*:5\)"):
        from_c(twice, {"N": 3})
