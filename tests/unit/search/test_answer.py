"""Numbers of an answer: what is printed as a bound is one."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from polymap.inputs.presets import load_arch
from polymap.search.answer import bound_of, number_of
from polymap.search.problem.goals import parse_objective


@pytest.mark.parametrize("text", ["energy", "latency", "edp"])
def test_a_bound_is_printed_as_a_number_that_is_not_above_it(text: str) -> None:
    objective, draw = parse_objective(text, load_arch("flat3")), Random(0)
    for _ in range(500):
        bound = Fraction(draw.getrandbits(draw.choice([10, 60, 400, 1200])), draw.getrandbits(70) + 1)
        shown = bound_of(objective, bound, bound + 1)
        assert shown <= bound
        assert bound - Fraction(shown) <= max(Fraction(1), bound / 2**51)
        assert bound_of(objective, bound, bound) == number_of(objective, bound)  # what is met is the value
