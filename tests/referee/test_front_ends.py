"""Programs as einsums and as Python functions: their results are those of plain loops, their workloads those of C."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.reference import reference
from polymap.ir import Workload
from polymap.workload.nests import nest_of
from tests.times import few

N = 5


@dataclass
class Drawn:
    """A random program, line by line, in C and in Python."""

    rng: random.Random
    c: list[str] = field(default_factory=list[str])
    python: list[str] = field(default_factory=list[str])
    loops: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])  # name, least, largest
    count: int = 0

    def line(self, c: str, python: str) -> None:
        pad = "    " * (len(self.loops) + 1)
        self.c.append(pad + c)
        self.python.append(pad + python)

    def body(self, depth: int) -> None:
        for _ in range(self.rng.randint(1, 2)):
            if depth and self.rng.random() < 0.8:
                self.loop(depth - 1)
            elif self.loops and self.rng.random() < 0.3:
                self.branch()
            else:
                self.assign()

    def loop(self, depth: int) -> None:
        self.count += 1
        name = f"i{self.count}"
        low, lowest = "0", 0
        if self.loops and self.rng.random() < 0.4:
            low, lowest, _ = self.rng.choice(self.loops)
        if self.rng.random() < 0.2:
            c, python = f"{name} = N - 1; {name} >= {low}; {name}--", f"range(N - 1, {low} - 1, -1)"
        elif self.rng.random() < 0.2:
            c, python = f"{name} = {low}; {name} < N; {name} += 2", f"range({low}, N, 2)"
        else:
            c, python = f"{name} = {low}; {name} < N; {name}++", f"range({low}, N)"
        self.line(f"for (int {c}) {{", f"for {name} in {python}:")
        self.loops.append((name, lowest, N - 1))
        self.body(depth)
        if self.python[-1].endswith(":"):
            self.assign()
        self.loops.pop()
        self.c.append("    " * (len(self.loops) + 1) + "}")

    def branch(self) -> None:
        name = self.rng.choice(self.loops)[0]
        other = self.rng.choice([one for one, _, _ in self.loops] + ["2"])
        operator = self.rng.choice(("<", "<=", "==", ">="))
        self.line(f"if ({name} {operator} {other}) {{", f"if {name} {operator} {other}:")
        self.loops.append(("0", 0, 0))
        self.assign()
        self.loops.pop()
        self.line("}", "pass")

    def subscript(self) -> tuple[str, str]:
        names = [one for one in self.loops if one[0] != "0"]
        if not names or self.rng.random() < 0.1:
            text = str(self.rng.randrange(3))
            return text, text
        name = self.rng.choice(names)[0]
        kind = self.rng.randrange(5)
        if kind == 0:
            return f"{name} / 2", f"{name} // 2"
        if kind == 1:
            return f"N - 1 - {name}", f"N - 1 - {name}"
        if kind == 2:
            return f"2 * {name} + 1", f"2 * {name} + 1"
        return name, name

    def access(self, names: str) -> tuple[str, str]:
        name = self.rng.choice(names)
        subscripts = [self.subscript() for _ in range({"A": 2, "B": 1, "C": 2, "D": 1}[name])]
        return (
            name + "".join(f"[{c}]" for c, _ in subscripts),
            f"{name}[{', '.join(python for _, python in subscripts)}]",
        )

    def value(self, depth: int = 2) -> tuple[str, str]:
        kind = self.rng.random()
        if depth == 0 or kind < 0.3:
            if kind < 0.08:
                text = str(self.rng.randint(0, 5))
                return text, text
            return self.access("ABCD")
        left, right = self.value(depth - 1), self.value(depth - 1)
        if kind < 0.4:
            return f"max({left[0]}, {right[0]})", f"max({left[1]}, {right[1]})"
        operator = self.rng.choice("+-*")
        return tuple(f"({one} {operator} {two})" for one, two in zip(left, right, strict=True))  # pyright: ignore[reportReturnType]

    def assign(self) -> None:
        target, value = self.access("CD"), self.value()
        operator = self.rng.choice(("=", "+=", "-="))
        self.line(f"{target[0]} {operator} {value[0]};", f"{target[1]} {operator} {value[1]}")


def drawn(seed: int) -> tuple[str, str]:
    """Return a program in C and in Python."""
    program = Drawn(random.Random(f"front ends {seed}"))
    for _ in range(program.rng.randint(1, 3)):
        program.loop(2)
    arrays = "double A[N][N], double B[N], double C[N][N], double D[N]".replace("[N]", "[11]")
    c = f"#define N {N}\nvoid f({arrays}) {{\n" + "\n".join(program.c) + "\n}\n"
    return c, "def f(A, B, C, D):\n" + "\n".join(program.python) + "\n"


def as_reached(workload: Workload) -> Workload:
    """Return the workload with arrays that are as large as its declared ones, by name: what both front ends know."""
    tensors = (replace(each, shape=(11,) * len(each.shape), origin=(0,) * len(each.shape)) for each in workload.tensors)
    return replace(workload, tensors=tuple(tensors), original=None)


@pytest.mark.parametrize("seed", few(range(100), 6))
def test_a_python_function_is_what_c_says_and_what_python_does(seed: int) -> None:
    c, python = drawn(seed)
    types = dict.fromkeys("ABCD", "float64")
    used = {name: kind for name, kind in types.items() if f"{name}[" in python}
    workload = nest_of(python, {"N": N}, used)
    assert as_reached(workload) == as_reached(pm.from_c(c, name="f"))
    rng = np.random.default_rng(seed)
    arrays = {n: rng.integers(-2, 3, (11,) * (2 if n in "AC" else 1)).astype(np.float64) for n in "ABCD"}
    data: dict[str, Any] = {
        each.name: arrays[each.name][
            tuple(slice(o, o + n) for o, n in zip(each.origin, each.shape, strict=True))
        ].copy()
        for each in workload.tensors
    }
    if max(prod(workload.extents()[dim] for dim in one.dims) for one in workload.statements) > 2000:
        return
    found = reference(workload, data).values
    space: dict[str, Any] = {"N": N}
    exec(python, space)  # the program itself
    with np.errstate(all="ignore"):
        space["f"](**arrays)
    for each in workload.tensors:
        if each.name in found:
            part = arrays[each.name][tuple(slice(o, o + n) for o, n in zip(each.origin, each.shape, strict=True))]
            np.testing.assert_allclose(found[each.name], part, err_msg=python)


SIZES = {"m": 4, "n": 3, "k": 5}
RANKS = {"A": "mk", "B": "kn", "D": "m", "E": "n"}  # what a program is given: tensors and their dims


@dataclass
class Einsums:
    """Random einsums, and the same program in C with every loop and every zero written out."""

    rng: random.Random
    texts: list[str] = field(default_factory=list[str])
    c: list[str] = field(default_factory=list[str])
    written: dict[str, str] = field(default_factory=dict[str, str])  # tensor -> dims
    sums: dict[str, str] = field(default_factory=dict[str, str])

    def write(self, number: int) -> None:
        name, dims = f"T{number}", "".join(self.rng.sample("mnk", self.rng.randint(1, 2)))
        is_sum = self.rng.random() < 0.5
        known = {**RANKS, **self.written}
        some = [one for one in known if is_sum or set(known[one]) <= set(dims)]
        reads = [self.rng.choice(some) for _ in range(self.rng.randint(1, 3))] if some else []
        if number and self.rng.random() < 0.9 and f"T{number - 1}" in some:
            reads[-1:] = [f"T{number - 1}"]
        value = " * ".join(f"{one}[{','.join(known[one])}]" for one in reads) or "3"
        if not is_sum:
            value = self.rng.choice((value, f"max({value}, 1)", f"{value} + 2", f"min({value}, 4) - 1"))
        order = "".join(dict.fromkeys((*dims, *(dim for one in reads for dim in known[one]))))
        self.texts.append(f"{name}[{','.join(dims)}] {'+=' if is_sum else '='} {value}")
        target = name + "".join(f"[{dim}]" for dim in dims)
        c = re.sub(r"\[([^\]]*)\]", lambda found: "".join(f"[{dim}]" for dim in found[1].split(",")), value)
        self.nest(order, f"{target} {'+=' if is_sum else '='} {c};")
        self.written[name] = dims

    def nest(self, dims: str, update: str) -> None:
        loops = " ".join(f"for (int {dim} = 0; {dim} < {SIZES[dim]}; {dim}++)" for dim in dims)
        self.c.append(f"{loops} {update}")


@pytest.mark.parametrize("seed", few(range(100), 12))
def test_einsums_are_what_c_says_and_what_loops_do(seed: int) -> None:
    made = Einsums(random.Random(f"einsums {seed}"))
    count = made.rng.randint(2, 4)
    for number in range(count):
        made.write(number)
    sums = sorted({text[:2] for text in made.texts if "] += " in text})
    sizes = {dim: n for dim, n in SIZES.items() if any(dim in re.sub(r"max|min", "", text) for text in made.texts)}
    workload = pm.program(made.texts, types="int32", initial=sums, name="f", sizes=sizes)
    loops = pm.from_c("\n".join(made.c), name="f")
    assert workload.tensors == loops.tensors
    assert str(workload.statements) == re.sub(r"\b([mnk])_\d+\b", r"\1", str(loops.statements))
    rng = np.random.default_rng(seed)
    shapes = {name: tuple(SIZES[dim] for dim in dims) for name, dims in {**RANKS, **made.written}.items()}
    arrays = {
        name: rng.integers(-2, 3, shape) if name in RANKS else np.zeros(shape, int) for name, shape in shapes.items()
    }
    data: dict[str, Any] = {each.name: arrays[each.name].copy() for each in workload.tensors}
    plain = pm.program(made.texts, bits=8, name="f", sizes=sizes)
    found = reference(plain, data).values
    for text in made.texts:
        target, _ = re.split(r"\+?=", text, maxsplit=1)
        dims = [dim for dim in SIZES if f"{dim}," in text or f"{dim}]" in text]
        for point in product(*(range(SIZES[dim]) for dim in dims)):
            exec(text, {**arrays, **dict(zip(dims, point, strict=True))})
        np.testing.assert_array_equal(
            found[target.split("[")[0]], arrays[target.split("[")[0]], err_msg=str(made.texts)
        )


def test_all_mistakes_of_einsums_come_at_once() -> None:
    texts = ["T[m,n] += A[m,k] *", "C[m] = exp(T[m,n])", "D[m] = D[m+1]", "E[m] -= A[m]", "F[q] = A[q]"]
    with pytest.raises(pm.errors.WorkloadError) as caught:
        pm.program(texts, m=4, n=4, j=2, temporary=["Q"])
    said = str(caught.value)
    for expected in (
        "PM201 'A[m,k] *' cannot be read (einsums:1)",
        "PM210 = overwrites, but n does not occur in C[m] (einsums:2)",
        "PM208 the output D is read on the right, in D[m + 1] (einsums:3)",
        "(einsums:4)",
        "PM204 unknown dim q: it has no size (einsums:5)",
        "PM205 there is no dim 'j' in the program",
        "PM213 temporary names 'Q'",
        "PM212 exp(T[m][n]) is a fraction (einsums:2)",
    ):
        assert expected in said, (expected, said)


def test_options_of_einsums_are_those_of_one_einsum() -> None:
    one = pm.einsum(
        "C[m,n] += A[m,2*k+1] * B[k,n]", m=4, n=3, k=5, bits={"C": 32}, roles={"A": "weight"}, initial=["C"]
    )
    many = pm.program(
        ["C[m,n] += A[m,2k+1] * B[k,n]"], m=4, n=3, k=5, bits={"C": 32}, roles={"A": "weight"}, initial=["C"]
    )
    assert many.tensors == one.tensors
    assert many.dims == one.dims
    assert replace(many.statements[0], name="S") == one.statements[0]


@pytest.mark.parametrize("operator", ["max=", "min="])
def test_maxima_are_accumulations(operator: str) -> None:
    many = pm.program([f"y[m] {operator} A[m,k]", "z[m] = 2 * m"], m=4, k=3)
    assert many.statements[0].operator.value == operator
    read = pm.program([f"y[m] {operator} A[m,k]", "z[m] = y[m]"], m=4, k=3)
    data: dict[str, Any] = {"A": np.arange(-9, 3).reshape(4, 3)}
    np.testing.assert_array_equal(reference(read, data).values["z"], getattr(data["A"], operator[:3])(axis=1))
    with pytest.raises(pm.errors.WorkloadError, match="PM269 y is read before it is set"):
        pm.program([f"y[2*m] {operator} A[m,k]", "z[m] = y[m]"], m=4, k=3)


def test_remainders_of_data_are_those_of_python() -> None:
    data = np.arange(-20, 20, dtype=np.int32)
    for modulus in (1, 2, 3, 7):
        work = pm.program([f"Y[i] = X[i] % {modulus} + (X[i] * 2 - 5) % {modulus}"], i=len(data), types="int32")
        expected = [x % modulus + (2 * x - 5) % modulus for x in data.tolist()]
        assert reference(work, {"X": data}).values["Y"].tolist() == expected, modulus
    with pytest.raises(pm.errors.WorkloadError, match="PM266 .*rounds a quotient of data"):
        pm.program(["Y[i] = X[i] // 3"], i=4, types="int32")


def test_a_decorated_function_is_read_where_it_stands() -> None:
    @pm.nest(N=6, types="float32", temporary=["T"])
    def smooth(A, B, T):  # type: ignore[no-untyped-def]
        """Three points, twice."""
        for i in range(1, N - 1):
            T[i] = (A[i - 1] + A[i] + A[i + 1]) / 3
        for i in range(2, N - 2):
            weight = 0.5 if i % 2 == 0 else 0.25
            B[i] = weight * T[i]

    assert isinstance(smooth, Workload)
    assert smooth.name == "smooth"
    assert {each.name for each in smooth.tensors if each.temporary} == {"T", "weight"}
    assert [each.name for each in smooth.dims] == ["i", "i_2"]


def test_all_mistakes_of_a_function_come_with_their_lines() -> None:
    text = "\n".join(
        (
            "def f(A, B):",
            "    for i in range(N):",
            "        while A[i]:",
            "            pass",
            "        A[i * i] = 1",
            "        B[i], A[i] = 1, 2",
            "        A[i] = B[i] ** 2",
            "        A[i] = sha1(B[i])",
            "        for j in A:",
            "            A[B[j]] = 1",
            "    return A",
        )
    )
    with pytest.raises(pm.errors.WorkloadError) as caught:
        nest_of(text, {"N": 4, "M": 3}, {"A": "int31"}, ["Q"], file="k.py", first_line=11)
    said = str(caught.value)
    for expected in (
        "PM263 a while loop cannot be read (k.py:13)",
        "(k.py:15)",
        "cannot be read (k.py:16)",
        "'B[i] ** 2' cannot be read (k.py:17)",
        "'sha1' is not known to be pure (k.py:18)",
        "the loop 'for j in A' cannot be read (k.py:19)",
        "cannot be read (k.py:21)",
        "PM264 the size 'M' is used nowhere",
        "PM212 the type is 'int31'",
        "PM213 temporary names 'Q'",
    ):
        assert expected in said, (expected, said)


def test_negative_subscripts_are_refused() -> None:
    text = "def f(A):\n    for i in range(4):\n        A[i] = A[i - 1]\n"
    with pytest.raises(pm.errors.WorkloadError, match=r"PM270 axis 0 of 'A' is subscripted from -1 on \(k.py:3\)"):
        nest_of(text, {}, file="k.py")
