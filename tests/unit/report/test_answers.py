"""Answers as JSON: what a reader of the documents sees."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from polymap.ir.violation import InstancePoint, Violation
from polymap.search.documents import json_text, number, violation_document


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (7, 7),
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (-(2**53) - 1, "-9007199254740993"),
        (10**30, "1" + "0" * 30),
        (0.1, 0.1),
        (1e300, 1e300),
        (Fraction(1, 2), 0.5),
        (Fraction(10**20), "1" + "0" * 20),
    ],
)
def test_numbers_survive_any_json_reader(value: int | float | Fraction | None, expected: object) -> None:
    assert number(value) == expected
    assert type(number(value)) is type(expected)


def test_a_dependence_shows_two_instances() -> None:
    first, second = InstancePoint("S", (("i", 1), ("j", 2**60))), InstancePoint("T", ())
    assert violation_document(Violation("dependence", "late", (first, second))) == {
        "kind": "dependence",
        "message": "late",
        "witness": {"first": {"statement": "S", "i": 1, "j": str(2**60)}, "second": {"statement": "T"}},
    }


def test_other_violations_show_named_numbers() -> None:
    violation = Violation("capacity", "full", (("level", "RF"), ("needed_bits", 80), ("capacity_bits", 2**60)))
    assert violation_document(violation)["witness"] == {
        "level": "RF",
        "needed_bits": 80,
        "capacity_bits": str(2**60),
    }


def test_the_text_is_ascii_and_holds_no_infinity() -> None:
    text = json_text({"name": "é", "list": (1, 2)})
    assert text.isascii()
    assert json.loads(text) == {"name": "é", "list": [1, 2]}
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        json_text(float("inf"))
