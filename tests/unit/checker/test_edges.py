"""Edges of the checker that small mistakes move: limits of words, lists that are cut, windows that run backwards."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from polymap.checker import Verdict
from polymap.checker.check import LISTED
from polymap.checker.counts import OUTER, Digits, placed
from polymap.checker.head import name, positive
from polymap.checker.rules import Refused


def test_names_have_at_most_a_thousand_letters_and_bandwidths_are_above_0() -> None:
    assert name("x" * 1000)
    assert positive("1/3") == Fraction(1, 3)
    for wrong in ("", "x" * 1001, 7):
        with pytest.raises(Refused, match="expected a name"):
            name(wrong)
    with pytest.raises(Refused, match="a bandwidth is 0"):
        positive("0")


@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_verdict_lists_some_structures_and_counts_the_others(more: int) -> None:
    words = tuple(f"structure {number}: 1,1" for number in range(LISTED + more))
    told = str(Verdict(proven=False, unproven=words, reason="", objective="energy", value=Fraction(7),
                       structures=99, head="", seconds=0.5))  # fmt: skip
    assert [line for line in told.splitlines() if "structure " in line][-1].strip() == words[LISTED - 1]
    assert told.count("structure ") == LISTED
    assert (f"and {more:,} more" in told) is (more > 0)
    assert "more" not in told or more


@pytest.mark.parametrize("weights", [(1, 1), (2, -1), (-1, -3), (-2, 1)])
def test_what_a_window_touches_is_the_set_of_its_sums(weights: tuple[int, int]) -> None:
    """Referee: every pair of indices, added up."""
    group = (Digits(7, (3,), (OUTER,)), Digits(4, (2,), (OUTER,)))
    spans = [[range(at * tile, min(extent, (at + 1) * tile)) for at in range(-(-extent // tile))]
             for extent, tile in ((7, 3), (4, 2))]  # fmt: skip
    moved = sum(-weight * (extent - 1) for weight, extent in zip(weights, (7, 4), strict=True) if weight < 0)
    for one, other in product(range(3), range(2)):
        sums = {weights[0] * i + weights[1] * j + moved for i, j in product(spans[0][one], spans[1][other])}
        assert placed(group, weights, ((one,), (other,))) == sum(1 << each for each in sums)
