"""The 122 loops of the vectorizing compilers' test suite: which are read, and that what is read is right."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

import polymap as pm
from benchmarks.tsvc import sizes_of
from benchmarks.tsvc_texts import LOOPS, SIZES
from tests.c_tally import Tally, check

# Elements at places that data decide, loops that data end, calls of other functions, and one quadratic subscript.
REFUSED = frozenset((
    *("s123", "s141", "s332", "s341", "s342", "s343", "s353", "s415", "s471", "s481", "s482", "s491"),
    *("s4112", "s4113", "s4114", "s4115", "s4116"),
))  # fmt: skip


def read(name: str) -> pm.Workload | str:
    try:
        return pm.from_c(LOOPS[name], sizes_of(LOOPS[name]))
    except pm.PolymapError as error:
        return str(error)


def test_all_but_17_are_read_by_both_readers() -> None:
    assert {name for name in LOOPS if isinstance(read(name), str)} == REFUSED, "with sizes"
    symbolic = set[str]()
    for name in LOOPS:
        for sizes in ({}, sizes_of(LOOPS[name])):
            with suppress(pm.errors.WorkloadError):
                pm.io.symbolic_checkup(LOOPS[name], sizes)
                symbolic.add(name)
    assert set(LOOPS) - symbolic == REFUSED, "for all sizes, or with those that stand in products"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refusal_names_the_line_and_what_would_work(name: str) -> None:
    said = read(name)
    assert isinstance(said, str), "it is refused"
    for mistake in said.split("\nPM"):
        first, *rest = mistake.splitlines()
        assert "(C source:" in first, "the line"
        assert "'" in first or "cannot be read" in first or "call" in first, "what it is"
        assert rest, "what would work"
        assert "Give its size" not in said, "no size makes a subscript of data one of loops"


@pytest.mark.parametrize("first", range(0, 122, 40))
def test_what_is_read_computes_what_gcc_computes(first: int) -> None:
    wanted = set(LOOPS) - REFUSED - {"s451"}  # numpy's sine of a float differs from libm's in the last bit
    names = [name for name in list(LOOPS)[first : first + 40] if name in wanted]
    texts = dict[int, str]()
    for name in names:
        text, defined = LOOPS[name], ""
        for size, value in SIZES.items():
            without = re.sub(rf"\bint {size}(?:, |\b(?=\)))", "", text)
            if without != text:
                text, defined = without.replace(", )", ")"), defined + f"#define {size} {value}\n"
        texts[list(LOOPS).index(name)] = defined + text
    tally = Tally()
    check(texts, tally, trees=1)
    assert not tally.wrong, "every element is equal"
    assert tally.compared == len(names), "each is compared"
