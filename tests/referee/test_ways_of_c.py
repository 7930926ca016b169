"""Ways of writing C that `from_c` reads as others: functions, literals, steps inside statements, functions of the file.

The referee is the text itself under gcc and clang; what was read of it is run by the interpreter, and by what `compile`
prints of it with the same compiler.
"""

# ruff: noqa: E501  # a case is one line

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import polymap as pm
from polymap.codegen.interpret import interpret
from polymap.codegen.native import RegionCall
from polymap.ir.errors import PolymapError
from polymap.workload.c.reader import from_c
from tests.c_to_c import compiled, compilers

N = 20
EACH = "for (int i = 0; i < N; i++)"
SET = "static void set(int p[], int i, int v) { p[i] = 1; p[i + 1] = v; }"
ARRAYS = {"a": ("int", "int32"), "l": ("long", "int64"), "x": ("float", "float32"), "y": ("double", "float64"),
          "c": ("signed char", "int8")}  # fmt: skip
# Of a function of these arrays, each of 2 N + 1 elements: the functions that it calls, and its body.
BODIES = {
    "labs": ("", EACH + " { l[i] = labs(a[i] * -3L) + llabs(l[i]) + abs(a[i]); y[i] = labs(a[i]) / 2; }"),
    "subscripts": ("", EACH + " a[i] = a[labs(i - 3)] + a[N + llabs(i - 5L)];"),
    "copysign": ("", EACH + " { y[i] = copysign(y[i] * 0.5, x[i]); x[i] = copysignf(2, x[i]); }"),
    "fma": ("", EACH + " { y[i] = fma(y[i], 1.1, x[i] * 0.3); x[i] = fmaf(x[i], x[i] + 1.7f, 1e-3f); }"),
    "rint": ("", EACH + " { y[i] = rint(y[i] * 0.5) + nearbyint(x[i] * 1.5); x[i] = rintf(x[i] / 2) - nearbyintf(-x[i]); }"),
    "fdim": ("", EACH + " { y[i] = fdim(y[i], x[i]); x[i] = fdimf(1, x[i]); }"),
    "base 16": ("", EACH + " { y[i] = y[i] * 0x1p-3 + 0x1.921fb54442d18p+1; x[i] = x[i] * 0x1.99999ap-4f + 0X.8P+2F; }"),
    "characters": ("", EACH + r" a[i] = (c[i] < '\x02' ? '\xff' : '\177') + '\n' * '\\' + '\'' - '\v' + '\"' * '\?' + '\12';"),
    "steps": ("", f"int k = 0, j = N; {EACH} {{ a[k++] += c[--j]; l[i] = a[i]; }}"),
    "declared": ("", f"int k = 0; {EACH} {{ int v = a[k++], w = a[k++]; l[i] = v - 2 * w; }}"),
    "chain": ("", f"int k = N; {EACH} l[i] = a[--k] = i;"),
    "branches": ("", f"int k = 0; {EACH} {{ if (i % 3 == 0) a[k++] = c[i]; else a[k++] -= 2; }}"),
    "clamped": ("int static inline clamp(int v) { return v < 0 ? 0 : v > 25 ? 25 : v; }",
                EACH + " c[i] = clamp(a[i] * 200 - 30) + clamp(clamp(i)\n + a[i]);"),
    "helpers": ("static double half(float v) { return v * 5e-1; } static double two(int v) { return half(v) + (int)v; }",
                EACH + " y[i] = two(a[i]) - half(two(a[i]\n));"),
    "narrow": ("static signed char low(int v) { return v; }", EACH + " l[i] = low(a[i] * 300) + low(i);"),
    "unsigned": ("static unsigned far(unsigned v) { return v >> 3; }", EACH + " l[i] = far(a[i] - 3);"),
    "helper's character": ("static void put(signed char a[], int i) { a[i] = 'a'; }", EACH + " put(c, i);"),
    "helper's value": ("static void keep(int p[], int i, float v) { p[i] = v * v; }", EACH + " keep(a, i, c[i] + a[i]);"),
    "helper's numbers": (SET, EACH + " set(a, N - i * 1, 2 * i - 7);"),
    "down": ("", "for (int i = N; --i >= 0;) a[i + 1] += a[i] * i;"),
    "down to": ("", "for (int i = N; i-- > 3;) a[i + 1] += a[i] * i; for (int i = N; i-- >= 3;) a[i + 1] -= i;"),
    "two steps": ("", "for (int i = N; i-- > 0;) { a[i + 1] = 7; i--; }"),
    "unsigned down": ("", "for (unsigned i = N; i-- > 0;) a[i + 1] += (int)i; for (size_t i = N; i--;) l[i] += a[i + 1];"),
    "narrow down": ("", "for (signed char i = N; i-- > 0;) a[i + 1] += a[i]; for (unsigned i = N; --i;) a[i] -= i;"),
    "up": ("", "for (int i = -1; ++i < N;) a[i + 1] += a[i]; int j = 0; while (j++ < N) a[j] -= j; l[N] = 9;"),
    "behind": ("", "int i = 0, j = N; do { a[i + 1] += a[i]; } while (++i < N); do { l[j] += j; j--; } while (j-- > 1);"),
    "beside": ("", "int j = 0; for (int i = 0; i++ < N; j++) a[i] += a[j];"),
    "while": ("", "int i = 0, k = N; while (i < N) l[i++] = a[--k];"),
    "declared beside": ("", "int k = 3; for (int i = k++, j = 0; i < N; i++, j++) a[i] = j; a[k] = 2;"),
    "moving": ("", f"int *p = a + 1; const signed char *q = c; {EACH} {{ *p++ = *q++ * 2; }} *p = 5; while (q > c) l[--q - c] += 3;"),
    "moving to an end": ("", "int *p = a, *e = a + N; while (p != e) *p++ += 2; for (long *w = l; w < l + N; w += 2) *w = w - l;"),
    "moving down": ("", "double *p = &y[N]; int i = N; while (i-- > 0) *--p = i * 2; p[0] = i; l[0] = i;"),
    "moving parameters": ("", f"{EACH} *l++ = a[i]; l[3] = 7; *--l = -1;"),
    "set in a loop": ("", "int *p, i = 0; while (i < N) { p = &a[i + 1]; p[0] = i; p[1] -= 2; i++; } c[0] = i;"),
    "a pointer's neighbour": ("", f"float *p = x, *q = p + 2; {EACH} {{ *q = *p * 0.5f; p++; q++; }} *q = 1;"),
    "behind while": ("", "int i = N; while (--i > 2) a[i] = i; l[1] = i; while (i++ < N) a[i] += i; l[2] = i; while (i-- > 0); l[3] = i;"),
    "unequal": ("", "for (short i = 0; i != N; i++) a[i] -= i; for (unsigned char i = N; i != 3; --i) l[i] = a[i - 1]; for (int i = N; -1 != i; i--) c[i]++;"),
    "unequal while": ("", "long i = 2; for (; i != N; i++) l[i] = i; int j = 9; while (j != 20) y[j++] += j0; ".replace("j0", "0.5") + "l[0] = j;"),
    "enum": ("enum kind { ONE = 1, TWO, FOUR = TWO * 2, LOW = -3, AFTER };", EACH + " { a[i] = LOW + i * FOUR; y[i] = i / TWO; } for (int i = 0; i < FOUR; i++) l[i + ONE] = AFTER;"),
    "enum inside": ("", "enum { K = 'b' - 90, L }; for (int i = 0; i != L; i++) a[i + K] = L / 2;"),
    "lrint": ("", EACH + " { float f = a[i] * 0.75f; double d = c[i] * 1.5; l[i] = lrint(d) + llrintf(f) * 3; a[i] = lround(d) - lroundf(f) + llround(0.5); }"),
    "register": ("static int hop(register int v, const register int w) { return v * w; } _Noreturn void stop(int); static _Noreturn void die(int v) { stop(v); }",
                 "register int i; for (i = 0; i < N; i++) { register int v = a[i]; a[i] = hop(v, i); }"),
    "numbers of headers": ("#include <math.h>\n#include <stdlib.h>\n#include <limits.h>\n#include <stdint.h>\n#include <float.h>\n#include <stdbool.h>\n",
                           EACH + " { y[i] *= a[i] > 0 ? M_PI : x[i] < FLT_EPSILON ? DBL_MIN : M_SQRT1_2; x[i] = x[i] > FLT_MIN ? FLT_MAX : -M_2_SQRTPI;"
                           " l[i] = (c[i] == true ? INT_MIN : LONG_MIN) + (a[i] < INT_MAX - UCHAR_MAX) + SHRT_MIN / (l[i] < UINT_MAX ? INT16_MAX : RAND_MAX); }"
                           " for (int i = false; i < CHAR_BIT; i++) a[i] += INT8_MIN + (UINT64_MAX > (unsigned long)l[i]); y[N] = DBL_MAX - DBL_EPSILON;"),
    "once": ("#define TWICE(x) do { x *= 2; } while (0)\n#define SWAP(x, y) do { int t = x; x = y; y = t; } while (0)\n",
             EACH + " { TWICE(a[i]); if (c[i] > 0) SWAP(a[i], a[i + 1]); else do l[i] = i, a[i] += 1; while (0); }"),
    "commas": ("", f"int k = 0; {EACH} a[i] = l[i], l[i] = k, k++; {EACH} if (c[i] > 0) a[i] = 1, l[i] = 2; else l[i] = 3, a[i] = l[i];"
                   " int *p = a; const signed char *q = c; for (int j = 0; j < N; j++) *p++ += 1, *p += *q++;"),
    "until zero": ("", "for (int i = N; i; i--) { a[i] += i; for (unsigned j = i; j; --j) l[j] += a[i]; } int k = N; while (k) { c[k] += 1; k--; }"
                       " for (int i = -N; i; i++) y[i + N] += i; l[N] = k; int m = N; do { x[m] = m; --m; } while (m);"),
    "by steps until": ("", "for (int i = N; i; i -= 2) { a[i] += i; for (unsigned j = 2 * i + 3; j != 3; j -= 2) l[j - 3] += a[j - 3]; }"
                           " for (int i = -N; i != N; i += 5) c[i + N] += i; for (int i = 0; i != 18; i += 3) x[i] += 1;"),
    "defined twice": ("#include <math.h>\n#include <stdlib.h>\n#ifndef M_PI\n#define M_PI (3.14159265358979323846264)\n#endif\n"
                      "#ifndef MAX\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#endif\n", EACH + " { y[i] = M_PI * i; a[i] = MAX(a[i], i); }"),
    "skipped": ("", "for (int i = N; --i >= 0;) { if (c[i] > 0) continue; a[i] += i; }"),
}  # fmt: skip


def source(name: str, function: str) -> str:
    """Return the text of a function, and of those that it calls."""
    head, body = BODIES[name]
    listed = ", ".join(f"{kind} {array}[{2 * N + 1}]" for array, (kind, _) in ARRAYS.items())
    return re.sub(r"\bN\b", str(N), f"{head}\nvoid {function}({listed}) {{ {body} }}\n")


def values(seed: int) -> dict[str, NDArray[Any]]:
    """Return values of the arrays: small integers, and halves, zeros and infinities among the fractions."""
    rng = np.random.default_rng(seed)
    found = {name: rng.integers(-9, 9, 2 * N + 1).astype(kind) for name, (_, kind) in ARRAYS.items()}
    for name in ("x", "y"):
        found[name] = found[name] / 2 * rng.choice([1, 1 / 3, 1e30, 1e-42], found[name].shape).astype(found[name].dtype)
        found[name][:4] = [-0.0, np.inf, 0.5, -2.5]
    return found


def equal(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    """Return whether all values are equal, signs of zeros included."""
    return all(np.array_equal(one[name], other[name], equal_nan=True) and
               np.array_equal(1 / one[name], 1 / other[name], equal_nan=True)
               for name in one if one[name].dtype.kind == "f") and all(
        np.array_equal(one[name], other[name]) for name in one if one[name].dtype.kind != "f")  # fmt: skip


@pytest.fixture(scope="module", params=compilers())
def originals(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the library of all texts."""
    texts = "".join(source(name, f"f{number}") for number, name in enumerate(BODIES))
    flags = ("-O3", "-march=native", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-w")
    where = tmp_path_factory.mktemp(str(request.param)) / "originals.so"
    head = "#include <math.h>\n#include <stdlib.h>\n#include <stddef.h>\n"
    return ctypes.CDLL(compiled(head + texts, where, str(request.param), flags))


def run(originals: ctypes.CDLL, name: str, given: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return what a text makes of values."""
    found = {each: array.copy() for each, array in given.items()}
    code: Any = getattr(originals, f"f{list(BODIES).index(name)}")
    code.restype = None
    code(*(ctypes.c_void_p(found[each].ctypes.data) for each in ARRAYS))
    return found


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_read_has_the_values_of_the_text(name: str, originals: ctypes.CDLL) -> None:
    work = from_c(source(name, "f"))
    for seed in range(2):
        given = values(seed)
        own = {each.name: given[each.name][tuple(slice(o, o + size) for o, size in zip(each.origin, each.shape, strict=True))]
               if each.name in given else np.zeros(each.shape, each.element_type) for each in work.tensors}  # fmt: skip
        expected = run(originals, name, given)
        interpret(work, own)
        assert equal(given, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("compiler", compilers())
def test_what_is_printed_has_the_values_of_the_text(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", compiler)
    for name in (
        "labs",
        "copysign",
        "fma",
        "rint",
        "fdim",
        "base 16",
        "steps",
        "helpers",
        "unsigned down",
        "down",
        "moving",
        "moving down",
        "set in a loop",
        "unequal",
        "lrint",
    ):
        fn = pm.compile(from_c(source(name, "f")), "host_cpu")
        flags = ("-O1", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-w")
        head = "#include <math.h>\n#include <stdlib.h>\n#include <stddef.h>\n"
        code: Any = ctypes.CDLL(compiled(head + source(name, "f"), tmp_path / f"{name}.so", compiler, flags)).f
        given = values(1)
        expected = {each: array.copy() for each, array in given.items()}
        code(*(ctypes.c_void_p(expected[each].ctypes.data) for each in ARRAYS))
        assert isinstance(fn.loaded, RegionCall)
        fn.loaded.plain(*(ctypes.c_void_p(given[each.tensor].ctypes.data) for each in fn.function.arrays))
        assert equal(given, expected), name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"void f(int a[9], int b[9]) {{ int k = 0; {EACH} a[k] = b[k++]; }}", "'++' inside an expression cannot be read: 'k++'"),
        (f"void f(int a[9], int b[9]) {{ int k = 0; {EACH} a[i] = i > 3 ? b[k++] : 0; }}", "'++' inside an expression"),
        (f"void f(int a[9], int b[9]) {{ int k = 0; {EACH} if (b[i] > 0) a[k++] = i; }}", "'k' is no sum of loop variables"),
        ("void f(int a[9]) { for (unsigned i = 8; --i >= 0;) a[i] = 0; }", "'i - 1' reaches -1"),
        (f"static int r(int v) {{ return v ? r(v - 1) : 0; }} void f(int a[9]) {{ {EACH} a[i] = r(i); }}", "a function 'r' of its own"),
        ("void f(int a[9]) { for (int i = 7; i; i -= 2) a[i] = 0; }", "may step over '0', and would not end"),
        ("void f(int a[9], int n) { for (int j = 0; j < 9; j++) for (int i = j; i != 9; i += 3) a[i] = 0; }", "step over '9'"),
        (f"{SET} void f(int a[9]) {{ {EACH} set(a, i, *a); }}", "what it does is not known: 'set(a, i, a[0])'"),
        (f"{SET} void f(int a[9]) {{ {EACH} set(a, i, a[i]); }}", "what it does is not known: 'set(a, i, a[i])'"),
        (f"void f(int a[9], int b[9]) {{ int *p = a; {EACH} if (b[i]) *p++ = i; }}", "where the pointer 'p' points to depends on data"),
        (f"void f(int a[9], int b[9]) {{ int *p = a; {EACH} *p++ = i; p = b; {EACH} *p++ = i; }}", "a pointer cannot be read: '*(p++)'"),
        (f"void f(int a[9], int b[9]) {{ int *p = a; {EACH} *p++ = i; if (p) b[0] = 1; }}", "a pointer cannot be read: '*(p++)'"),
        ("void f(int a[9][9]) { int *p = &a[0][0]; for (int i = 0; i < 81; i++) *p++ = i; }", "an address cannot be read"),
        ("void f(int a[9], int b[9]) { for (float *p = a; p < a + 9; p++) *p = 1; }", "the loop counts in 'p', a pointer"),
        ("void f(int a[9], int n) { for (short i = 5; i != n; i++) a[i % 9] = 0; }", "the loop over 'i' may begin behind 'n'"),
        ("void f(int a[9]) { for (unsigned i = 8; i != -1; i--) a[i] = 0; }", "'-1' reaches -1, which 'unsigned' does not hold"),
        ("enum { K = 3 }; void f(int a[9]) { int K = 2; for (int i = 0; i < K; i++) a[i] = 0; }", "'K', 3 in an enum, is declared twice"),
        (f"_Noreturn int g(int v) {{ return v; }} void f(int a[9]) {{ {EACH} a[i] = g(i); }}", "a function 'g' of its own"),
        (f"enum e {{ K }}; void f(int a[9], enum e k) {{ {EACH} a[i] = k; }}", "the type 'enum' is not read"),
        (f"void f(double a[9]) {{ {EACH} a[i] = 0x1.00000000000001p0; }}", "no double is the number '0x1.00000000000001p0'"),
        (f"void f(float a[9]) {{ {EACH} a[i] = 0x1p200f; }}", "no float is the number '0x1p200f'"),
        (f"void f(int a[9]) {{ {EACH} do {{ if (i > 2) break; a[i] = 0; }} while (0); }}", "a loop that is left, or goes on"),
        (f"void f(int a[9]) {{ {EACH} do {{ if (i > 2) continue; a[i] = 0; }} while (0); }}", "a loop that is left, or goes on"),
        (f"void f(int a[9], int b[9]) {{ {EACH} a[i] = (b[i] = 1, b[i] + 2); }}", "a comma cannot be read: 'b[i] = 1, b[i] + 2'"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(PolymapError) as caught:
        from_c(re.sub(r"\bN\b", "8", text), {"n": 4} if "int n" in text else None)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "inner",
    [
        "{ int t = i; a[i] = t; t = 9; }",
        "do { int t = i; a[i] = t; t = 9; } while (0);",
        "{ int t[2]; t[0] = i; a[i] = t[0]; }",
    ],
)
def test_the_new_text_joins_no_variable_with_one_that_it_hides(inner: str) -> None:
    outer = "int t[2]; t[0] = 5;" if "t[2]" in inner else "int t = 5;"
    read = "t[0]" if "t[2]" in inner else "t"
    text = f"void f(int a[20], long l[20]) {{ {outer} for (int i = 0; i < 20; i++) {{ {inner} l[i] = {read}; }} }}"
    with pytest.raises(PolymapError, match="'t' is declared more than once"):
        pm.transform_c(text, order="original")


def test_a_loop_that_begins_behind_its_end_is_refused_without_sizes_too() -> None:
    text = "void f(int a[9]) { for (unsigned char i = 250; i; i++) a[255 - i] += i; }"
    with pytest.raises(PolymapError, match="PM272 the loop over 'i' may begin behind '0'"):
        pm.transform_c(text)
