"""Numbers and tables in reports."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polymap.formatting import energy, exact, listing, percent, plural, short, size, table, times


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (2.5, "2.5"),
        (Fraction(1, 3), "0.333"),
        (1e-7, "1e-07"),
        (1234.5678, "1,234.568"),
        (2**70 + 1, "1,180,591,620,717,411,303,425"),
        (2.0**53, "9,007,199,254,740,992"),
        (2.0**70 * 1.1, "1.298650782789153e21"),
    ],
)
def test_exact(value: float | Fraction, expected: str) -> None:
    assert exact(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (9999, "9,999"),
        (10_000, "10 k"),
        (12_544, "12.5 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (115_605_504, "116 M"),
        (10**30, "1e+30"),
        (0.5, "0.5"),
        (Fraction(1, 3), "0.333"),
        (0.0001, "0.0001"),
    ],
)
def test_short(value: float | Fraction, expected: str) -> None:
    assert short(value) == expected


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (1, "1 bit"),
        (8, "1 B"),
        (192, "24 B"),
        (8192, "1 KiB"),
        (884736, "108 KiB"),
        (12544 * 16, "24.5 KiB"),
        (2**43, "1 TiB"),
    ],
)
def test_size(bits: int, expected: str) -> None:
    assert size(bits) == expected


def test_energy_percent_times() -> None:
    assert [energy(pj) for pj in (0.25, 999, 42_729_472, 10**12)] == ["0.25 pJ", "999 pJ", "42.7 uJ", "1 J"]
    assert [percent(share) for share in (0, 0.0001, 0.123, 1)] == ["0 %", "<0.1 %", "12.3 %", "100 %"]
    assert [times(ratio) for ratio in (4, 2.5, Fraction(27, 2))] == ["4x", "2.5x", "13.5x"]


def test_words() -> None:
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert [plural(number, "loop") for number in (0, 1, 2)] == ["0 loops", "1 loop", "2 loops"]


def test_table_aligns_names_left_and_numbers_right() -> None:
    assert table(("name", "count", "note"), [("x", "1", "b"), ("yy", "1,000", "")], prose=1).splitlines() == [
        "name  count  note",
        "-----------------",
        "x         1  b",
        "yy    1,000",
    ]
