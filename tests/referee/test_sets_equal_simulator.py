"""Counting by sets and walking every step give the same integers; the two share no code."""

from __future__ import annotations

import random

import pytest

from polymap.costmodel.sets import count_with_sets
from polymap.costmodel.simulate import count_by_simulation
from tests.cases import Case, random_case, random_general_case

pytestmark = pytest.mark.slow


def assert_equal(case: Case) -> None:
    counted = count_with_sets(case.workload, case.arch, case.mapping)
    assert counted == count_by_simulation(case.workload, case.arch, case.mapping)


@pytest.mark.parametrize("block", range(10))
def test_sets_equal_the_simulator_for_one_accumulation_in_a_box(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        assert_equal(random_case(random.Random(seed)))


@pytest.mark.parametrize("block", range(10))
def test_sets_equal_the_simulator_beyond_one_accumulation(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        assert_equal(random_general_case(random.Random(seed)))


@pytest.mark.soak
def test_sets_equal_the_simulator_in_thousands_of_cases() -> None:
    for seed in range(1000, 4000):
        assert_equal(random_case(random.Random(seed)))
        assert_equal(random_general_case(random.Random(seed)))
