"""The random cases are what they say: readable, small, and every feature in at least a tenth of them."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

from polymap.costmodel.referees.walk import count_by_simulation
from polymap.schedules.check import check_mapping, placement_violations
from tests.case_features import BOX_FEATURES, GENERAL_FEATURES
from tests.cases import Case, random_case, random_general_case


@cache
def cases() -> tuple[Case, ...]:
    return tuple(random_case(random.Random(seed)) for seed in range(500))


@cache
def general_cases() -> tuple[Case, ...]:
    return tuple(random_general_case(random.Random(seed)) for seed in range(500))


def test_all_cases_are_readable_and_keep_the_sizes_of_fan_outs() -> None:
    for case in (*cases(), *general_cases()):
        check_mapping(case.workload, case.arch, case.mapping)
        assert placement_violations(case.workload, case.arch, case.mapping) == ()


def test_each_feature_is_in_at_least_a_tenth_of_the_cases() -> None:
    counted = Counter(feature for case in cases() for feature in case.features)
    assert {feature: counted[feature] for feature in BOX_FEATURES if counted[feature] < 50} == {}
    general = Counter(feature for case in general_cases() for feature in case.features)
    wanted = (*GENERAL_FEATURES, "bypass", "uneven", "partial tiles", "several loops per fan-out")
    assert {feature: general[feature] for feature in wanted if general[feature] < 50} == {}


def test_the_features_of_one_accumulation_stay_apart() -> None:
    assert not set().union(*(case.features for case in cases())) & set(GENERAL_FEATURES)


def test_cases_are_small() -> None:
    for case in (*cases()[:60], *general_cases()[:60]):
        counts = count_by_simulation(case.workload, case.arch, case.mapping)
        assert 0 <= counts.steps <= counts.instances <= 450


def test_the_same_seed_gives_the_same_case() -> None:
    assert [random_case(random.Random(seed)) for seed in range(20)] == list(cases()[:20])
