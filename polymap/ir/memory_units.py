"""Amounts of memory as texts with a unit: "512 KiB", "64 B", "4 Kibit"."""

from __future__ import annotations

import re
from fractions import Fraction

UNIT_RULE = "Units are bit, B (8 bits), kB and kbit (1000), KiB and Kibit (1024), likewise M, G, T: '512 KiB'."
_LONGEST = 40
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+]?[0-9]{1,2})?) ?([A-Za-z]+)", re.ASCII)
_BITS_OF = {
    f"{prefix}{unit}": factor * bits
    for unit, bits in (("bit", 1), ("B", 8))
    for prefix, factor in zip(
        ("", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"),
        (1, 10**3, 10**6, 10**9, 10**12, 2**10, 2**20, 2**30, 2**40),
        strict=True,
    )
}


def has_unit(text: str) -> bool:
    """Return whether a text is a number and a word, which may be no unit."""
    return _AMOUNT.fullmatch(text) is not None


def bits_of_amount(text: str) -> Fraction | None:
    """Return the bits of an amount of memory with its unit, not always a whole number; None for any other text."""
    found = _AMOUNT.fullmatch(text)
    factor = None if found is None else _BITS_OF.get(found.group(2))
    return None if found is None or factor is None or len(text) > _LONGEST else Fraction(found.group(1)) * factor
