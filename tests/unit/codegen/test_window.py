"""No two elements of one tile share a slot, and no smaller modulus would do."""

from __future__ import annotations

import random
from itertools import product

from polymap.codegen.lower.buffers import moduli
from polymap.codegen.lower.nest import StoragePoint, read_nest
from polymap.costmodel.referees.walked_tree import executions, resolve
from polymap.ir.loopnest import Workload, accesses_of
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from tests.cases import random_case, random_general_case
from tests.unit.codegen.programs import window


def tiles(workload: Workload, arch: Architecture, mapping: Mapping, number: int) -> list[set[tuple[int, ...]]]:
    """Return every tile of a place, from the simulator's list of statement instances."""
    tree = resolve(workload, arch, mapping)
    place = tree.places[number]
    found: dict[object, set[tuple[int, ...]]] = {}
    for execution in executions(workload, tree):
        leaf = tree.leaves[execution.leaf]
        if number in leaf.holders[place.tensor]:
            touched = zip(
                (leaf.statement.target, *leaf.statement.reads), (execution.target, *execution.reads), strict=True
            )
            key = (execution.clock[: place.depth], execution.coordinates[: place.width])
            found.setdefault(key, set()).update(element for access, element in touched if access.tensor == place.tensor)
    return list(found.values())


def slots(place: StoragePoint, workload: Workload, tile: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    tensor = workload.tensor(place.tensor)
    sizes = moduli(place, tensor)
    return {
        tuple((index - origin) % size for index, origin, size in zip(element, tensor.origin, sizes, strict=True))
        for element in tile
    }


def test_elements_of_one_tile_have_slots_of_their_own() -> None:
    for seed, make in product(range(40), (random_case, random_general_case)):
        case = make(random.Random(seed))
        nest = read_nest(case.workload, case.arch, case.mapping)
        for number, place in enumerate(nest.places):
            assert all(accesses_of(use.statement, place.tensor) for use in place.uses)
            for tile in tiles(case.workload, case.arch, case.mapping, number):
                assert len(slots(place, case.workload, tile)) == len(tile)


def test_a_strided_tile_takes_no_more_than_it_must() -> None:
    workload, arch, mapping = window()
    (place,) = [place for place in read_nest(workload, arch, mapping).places if place.level == 1]
    # An instance holds I[2p+r] of two p: two elements, two apart, fit into three slots and not into two.
    assert moduli(place, workload.tensor("I")) == (3,)
