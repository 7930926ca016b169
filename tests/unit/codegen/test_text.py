"""The text of generated programs: golden files, names, expressions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from polymap.codegen.forms import Form
from polymap.codegen.lower.ast import Binary, Choice, Element, Expr, Int, Invoke, Name, add, minimum, modulo, multiply
from polymap.codegen.lower.elements import c_name
from polymap.codegen.lower.printer import expression
from polymap.codegen.run import generate_c, run_source
from polymap.ir.errors import BudgetError, MappingError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum
from tests.unit.codegen.programs import cpu_matmul, machine, matmul, window

STRICT = ("-std=c99", "-pedantic", "-O1", "-Wall", "-Wextra", "-Werror")


@pytest.mark.parametrize(
    ("name", "make", "form"),
    [
        ("matmul_faithful.c", matmul, Form.FAITHFUL),
        ("window_faithful.c", window, Form.FAITHFUL),
        ("matmul_native.c", cpu_matmul, Form.NATIVE),
    ],
)
def test_programs_equal_their_golden_files(
    name: str, make: Callable[[], object], form: Form, golden: Callable[[str, str], None]
) -> None:
    workload, arch, mapping = {"matmul": matmul, "window": window, "cpu_matmul": cpu_matmul}[make.__name__]()
    golden(name, generate_c(workload, arch, mapping, form))


HOSTILE = ("int", "main", "printf", "NULL", "MIN", "errno", "_Bool", "x0", "run", "stamp", "double", "a" * 64)


@pytest.mark.parametrize("start", range(0, len(HOSTILE), 3))
@pytest.mark.parametrize("form", list(Form))
def test_any_name_compiles_without_a_warning(start: int, form: Form) -> None:
    c, a, b = HOSTILE[start : start + 3]
    sizes = {"for": 4, "while": 3, "return": 5}
    workload = einsum(f"{c}[for,while] += {a}[for,return] * {b}[return,while]", sizes=sizes)
    arch = Architecture(
        "*/ evil /*",
        (MemoryLevel("char"), MemoryLevel("stdout"), Fanout("core", 4), MemoryLevel("EOF"), ComputeUnit("if")),
    )
    nodes = (
        Storage("stdout", (a, c)),
        Spatial("for", 1, "core"),
        Temporal("return", 2),
        Storage("EOF", (c, b)),
        Temporal("while", 1),
        Temporal("return", 1),
        Compute("S"),
    )
    source = generate_c(workload, arch, Mapping(nodes), form)
    assert "evil" not in source
    flags = (*STRICT, "-fopenmp") if form is Form.NATIVE else STRICT
    assert run_source(workload, arch, source, flags).matches_reference


def test_names_are_cut_and_made_of_letters_digits_and_underscores() -> None:
    assert c_name("T3", "i#2") == "T3_i_2"
    assert c_name("L0", '"; system("x") /*') == "L0____system__x_____"
    assert re.fullmatch(r"T0_a{20}", c_name("T0", "a" * 64))


X, Y = Name("x"), Name("y")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Binary("*", Binary("+", X, Y), Int(2)), "(x + y) * 2"),
        (Binary("+", Binary("*", X, Int(2)), Y), "x * 2 + y"),
        (Binary("-", X, Binary("-", Y, Int(1))), "x - (y - 1)"),
        (Binary("-", Binary("-", X, Y), Int(1)), "x - y - 1"),
        (Binary("%", Binary("%", X, Int(4)), Int(2)), "x % 4 % 2"),
        (Binary("-", X, Int(-1)), "x - (-1)"),
        (Choice(Binary("<", X, Y), X, Int(0)), "((x < y) ? x : 0)"),
        (Element("a", (Binary("+", X, Int(1)), Y)), "a[x + 1][y]"),
        (Invoke("MIN", (X, Binary("/", Y, Int(2)))), "MIN(x, y / 2)"),
    ],
)
def test_expressions_have_the_parentheses_they_need(value: Expr, text: str) -> None:
    assert expression(value) == text


def test_constants_are_folded() -> None:
    assert add(Int(2), Int(3)) == Int(5)
    assert add(X, Int(0)) == X
    assert multiply(X, 0) == Int(0)
    assert modulo(X, 1) == Int(0)
    assert minimum(Int(4), Int(7)) == Int(4)


def test_the_same_mapping_gives_the_same_text() -> None:
    assert generate_c(*matmul()) == generate_c(*matmul())


def test_a_mapping_that_is_no_program_is_refused() -> None:
    workload, arch, _ = matmul()
    with pytest.raises(MappingError, match="PM412"):
        generate_c(workload, arch, Mapping((Compute("S"),)))


@pytest.mark.parametrize(
    ("text", "sizes", "complaint"),
    [
        ("C[i] += A[i,j]", {"i": 2**16, "j": 2**16}, "PM601 the program would need 4294967296 cells for A in 'DRAM'"),
        ("C[i] += A[i] * B[j]", {"i": 2, "j": 2**31 + 7}, "PM601 an index of the program would reach 2147483655"),
        ("C[i] += A[i,j]", {"i": 2**15, "j": 2**16 - 1}, "PM601 the program would need [0-9]+ bytes of memory"),
    ],
)
def test_programs_that_are_too_large_are_refused(text: str, sizes: dict[str, int], complaint: str) -> None:
    nodes = (*(Temporal(name, 1) for name in sizes), Compute("S"))
    workload = einsum(text, sizes=sizes)
    arch = machine(MemoryLevel("DRAM"), MemoryLevel("L1"))
    held = Mapping((Storage("L1", ("A",)), *nodes))
    for form in Form:
        with pytest.raises(BudgetError, match=complaint):
            generate_c(workload, arch, held, form)
