"""What arrays say of a program's shape equals what the simulator and isl say of its tree."""

from __future__ import annotations

import random

import pytest

from polymap.costmodel.referees import count_by_simulation
from polymap.inputs import arch_from_document
from polymap.ir.errors import BudgetError
from polymap.schedules.check import check_mapping
from polymap.schedules.legality import dependence_violations
from polymap.search.programs.counting import counts_of
from polymap.search.programs.instances import program_arrays
from polymap.search.programs.shapes import is_legal, mapping_of_shape, source_shape, time_shape
from polymap.search.programs.stays import Stays
from tests.programs import random_chain, random_program
from tests.shapes import random_nodes, random_shape
from tests.times import few

MACHINE = arch_from_document(
    {
        "name": "three",
        "nodes": [{"level": "DRAM"}, {"level": "L2"}, {"level": "L1"}, {"compute": "PE"}],
    }
)


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_counts_of_shapes_equal_simulation(seed: int) -> None:
    rng = random.Random(f"shapes {seed}")
    work = random_program(rng) if seed % 2 else random_chain(rng)
    arrays = program_arrays(work)
    for _ in range(3):
        shape = random_shape(rng, work)
        nodes = random_nodes(rng, work, MACHINE, shape)
        mapping = mapping_of_shape(shape, nodes)
        check_mapping(work, MACHINE, mapping)
        when = time_shape(arrays, shape)
        assert when is not None
        found = counts_of(Stays(arrays, shape, when), MACHINE, nodes)
        assert found == count_by_simulation(work, MACHINE, mapping)


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_legality_of_shapes_equals_isl(seed: int) -> None:
    rng = random.Random(f"legal shapes {seed}")
    work = random_program(rng) if seed % 2 else random_chain(rng)
    arrays = program_arrays(work)
    for shape in (source_shape(work), *(random_shape(rng, work) for _ in range(4))):
        when = time_shape(arrays, shape)
        assert when is not None
        try:
            found = dependence_violations(work, mapping_of_shape(shape))
        except BudgetError:
            continue
        assert is_legal(arrays, when) == (not found)
