"""Numbers, lists and tables as text, formatted alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import count

Numeric = int | float | Fraction

_THOUSANDS = ("", " k", " M", " G", " T", " P", " E")
_LAST_WHOLE = 2.0**53  # beyond, floats skip integers
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; one that stood before has #2, #3, ... behind it, the first of these that no name is."""
    taken, found = set(names), dict[str, None]()
    for name in names:
        numbered = (f"{name}#{number}" for number in count(2))
        found[name if name not in found else next(each for each in numbered if each not in taken | set(found))] = None
    return tuple(found)


def exact(value: Numeric) -> str:
    """Return a number with thousands separators: integers whole, others with up to three digits after the point; floats
    too large to be told from their neighbours (2^53) with the digits that they have."""
    if isinstance(value, float) and abs(value) > _LAST_WHOLE:
        return f"{value:.15e}".replace("e+", "e")
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) < 1:
        return f"{float(value):.3g}"
    return f"{float(value):,.3f}".rstrip("0").rstrip(".")


def short(value: Numeric, digits: int = 3) -> str:
    """Return a number in three (or up to `digits`) digits and a thousands' letter: 12,544 is "12.5 k"; small integers
    are whole."""
    if value == int(value) and abs(value) < 10_000:
        return f"{int(value):,}"
    scaled, step = Fraction(value), 0
    while abs(scaled) >= Fraction(9995, 10) and step < len(_THOUSANDS) - 1:
        scaled, step = scaled / 1000, step + 1
    if abs(scaled) >= 1000 or (scaled and abs(scaled) < Fraction(1, 1000)):
        return f"{float(value):.3g}"
    return f"{_rounded(scaled, digits)}{_THOUSANDS[step]}"


def size(bits: int, digits: int = 3) -> str:
    """Return an amount of memory: bits below a byte, else bytes, KiB, MiB, ..."""
    if bits % 8 and bits < 8 * 1024:
        return f"{bits:,} bit"
    scaled, step = Fraction(bits, 8), 0
    while scaled >= 1024 and step < len(_BYTES) - 1:
        scaled, step = scaled / 1024, step + 1
    return f"{exact(scaled) if scaled == int(scaled) else _rounded(scaled, digits)} {_BYTES[step]}"


def area(um2: Numeric) -> str:
    """Return an area in um2, or in mm2 from 0.01 mm2 on."""
    if not um2:
        return "0"
    return f"{_rounded(Fraction(um2))} um2" if um2 < 10_000 else f"{_rounded(Fraction(um2) / 10**6)} mm2"


def energy(pj: Numeric, digits: int = 3) -> str:
    """Return an energy in pJ, nJ, uJ, mJ or J."""
    scaled, step = Fraction(pj), 0
    while scaled >= 1000 and step < 4:
        scaled, step = scaled / 1000, step + 1
    if scaled >= 10**6:
        return f"{float(scaled):.3g} J"
    number = short(scaled) if scaled == int(scaled) else _rounded(scaled, digits)
    return f"{number} {('pJ', 'nJ', 'uJ', 'mJ', 'J')[step]}"


def percent(share: Numeric) -> str:
    """Return a share of one as percent, with one digit below 100 unless it is whole."""
    value = 100 * float(share)
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{value:.0f} %" if abs(value - round(value)) < 0.05 else f"{value:.1f} %"


def times(ratio: Numeric) -> str:
    """Return "2.5x" (a ratio of two counts)."""
    return f"{exact(ratio) if ratio == int(ratio) else _rounded(Fraction(ratio))}x"


def listing(items: Sequence[str], last: str = "and") -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def vectors(distances: Sequence[Sequence[int | None]]) -> str:
    """Return distances as (1, 0) (0, *): * where one varies."""
    return " ".join(f"({', '.join('*' if step is None else str(step) for step in each)})" for each in distances)


def plural(number: int, noun: str) -> str:
    """Return "1 loop" or "2 loops"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, prose: int = 0) -> str:
    """Return an aligned table under a rule: the first `left` and the last `prose` columns start at the left."""
    first_prose = len(head) - prose
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if column < left or column >= first_prose else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join((line(head), rule, *(line(row) for row in rows)))


def _rounded(value: Fraction, most: int = 3) -> str:
    """Return a value below 10,000 in three significant digits, or whole above 100, without empty decimals; or in `most`
    digits, where that is more."""
    if most > 3:
        return f"{float(value):,.{most}g}"
    if abs(value) < 1:
        return f"{float(value):.3g}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{float(value):,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
