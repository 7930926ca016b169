"""The closed form and the simulator, which share no code, count the same in random cases with every feature."""

from __future__ import annotations

import random
from collections import Counter as Tally
from itertools import product

import pytest

from polymap.costmodel.closed_form.busiest import Instances, busiest_of_levels
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.closed_form.dividing_tiles import INTEGERS, count_dividing
from polymap.costmodel.closed_form.groups import workload_model
from polymap.costmodel.closed_form.nest import machine_model, nest_of
from polymap.costmodel.closed_form.partial_tiles import Counter
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import BudgetError
from polymap.ir.mapping import Compute, Mapping
from polymap.workload.einsums import einsum
from tests import cases
from tests.case_features import BOX_FEATURES
from tests.cases import random_case, random_general_case


def answered(seeds: range) -> tuple[Tally[str], int]:
    """Hold the closed form against the simulator; return how often each feature was met, and how many had no answer."""
    met: Tally[str] = Tally()
    unanswered = 0
    for seed in seeds:
        case = random_case(random.Random(seed))
        counts = count_closed_form(case.workload, case.arch, case.mapping)
        if counts is None:
            unanswered += 1
            continue
        assert counts == count_by_simulation(case.workload, case.arch, case.mapping), f"random_case seed {seed}"
        met.update(case.features)
    return met, unanswered


def test_closed_form_counts_equal_simulated_counts() -> None:
    met, unanswered = answered(range(250))
    assert unanswered < 20
    assert all(met[feature] >= 15 for feature in BOX_FEATURES), met


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_closed_form_counts_equal_simulated_counts_in_a_hundred_thousand_cases(block: int) -> None:
    met, unanswered = answered(range(1000 * (block + 1), 1000 * (block + 2)))
    assert unanswered < 60
    assert all(met[feature] >= 80 for feature in BOX_FEATURES), met


def test_the_closed_form_says_nothing_or_the_simulated_counts_of_programs_beyond_an_accumulation_in_a_box() -> None:
    answers = 0
    for seed in range(150):
        case = random_general_case(random.Random(seed))
        counts = count_closed_form(case.workload, case.arch, case.mapping)
        if counts is not None:
            answers += 1
            assert counts == count_by_simulation(case.workload, case.arch, case.mapping), f"seed {seed}"
    assert answers >= 5


def test_the_way_for_partial_tiles_counts_dividing_tiles_like_the_way_for_those() -> None:
    both = 0
    for seed in range(250):
        case = random_case(random.Random(seed))
        model, machine = workload_model(case.workload), machine_model(case.arch)
        assert model is not None
        nest = nest_of(model, machine, case.mapping)
        assert nest is not None
        if not all(nest.even):
            continue
        try:
            rows, busy = count_dividing(INTEGERS, model, machine, nest.loops, nest.holders)
        except BudgetError:
            continue
        counter = Counter(model, machine, nest)
        general = counter.rows()
        assert (general, busiest_of_levels(counter, general)) == (rows, (busy, True)), f"random_case seed {seed}"
        found = count_closed_form(case.workload, case.arch, case.mapping)
        assert found is not None, f"random_case seed {seed}"
        moves = [(row.reads, row.writes, row.fills, row.drains) for row in sorted(general, key=lambda row: row[:2])]
        assert moves == [(row.reads, row.writes, row.fills, row.drains) for row in found.traffic], f"seed {seed}"
        assert counter.steps() == found.steps, f"random_case seed {seed}"
        both += 1
    assert both >= 70


def test_what_the_instances_of_a_level_read_and_write_adds_up() -> None:
    added = spread = 0
    for seed in range(150):
        case = random_case(random.Random(seed))
        model, machine = workload_model(case.workload), machine_model(case.arch)
        assert model is not None
        nest = nest_of(model, machine, case.mapping)
        assert nest is not None
        spatial = [loop for loop in nest.loops if loop.fanout >= 0]
        if all(nest.even[loop.dim] for loop in spatial):
            continue
        counter = Counter(model, machine, nest)
        instances = Instances(counter)
        try:
            rows = {(row.level, row.tensor): row for row in counter.rows()}
            for tensor, nodes in zip(model.tensors, nest.holders, strict=True):
                for number, node in enumerate(nodes[:-1]):
                    loops = [loop for loop in spatial if loop.fanout < node.fans]
                    digits = [range(loop.trips) for loop in loops]
                    every = [dict(zip((loop.position for loop in loops), at, strict=True)) for at in product(*digits)]
                    at_work = [pins for pins in every if counter.works(pins)]
                    each_alone = [{place: range(at, at + 1) for place, at in pins.items()} for pins in at_work]
                    moved = [instances.accesses(tensor, nodes, number, kind) for kind in each_alone]
                    row = rows[node.level, tensor.index]
                    sums = tuple(sum(each) for each in zip(*moved, strict=True))
                    assert sums == (row.reads, row.writes), f"random_case seed {seed}, {tensor.name} at {node.level}"
                    added += 1
                    spread += len(at_work) > 1
        except BudgetError:
            continue
    assert added >= 120
    assert spread >= 35


def test_loads_along_two_windows_are_shared_as_the_simulator_says() -> None:
    workload = einsum("O[p,q] += I[p+r,q+s] * W[r,s]", p=5, q=4, r=2, s=3)
    dims = tuple(workload.extents())
    answers = 0
    one_keeps_and_another_loads = (365, 600, 1323, 1758)  # in one step, along one of the windows
    for seed in (*range(140), *one_keeps_and_another_loads):
        rng = random.Random(seed)
        arch = cases.random_machine(rng)
        loops = cases._loops(rng, workload, arch, dims, spreadable=frozenset(dims))
        tree = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
        case = cases._finished(rng, workload, arch, Mapping(tree))
        if "spatial partial tiles" not in case.features and seed % 4:
            continue
        counts = count_closed_form(case.workload, case.arch, case.mapping)
        if counts is not None:
            answers += 1
            assert counts == count_by_simulation(case.workload, case.arch, case.mapping), f"seed {seed}"
    assert answers >= 40
