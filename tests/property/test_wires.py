"""What crosses fan-outs that cost energy: hand-worked cases, and three counts that share no code."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from polymap.costmodel import evaluate, simulate
from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.counts import Counts, WireUse
from polymap.costmodel.referees import count_by_simulation, counts_of_sets
from polymap.costmodel.tables import evaluate_many
from polymap.costmodel.tables.cost_columns import batch_of_nest
from polymap.inputs import arch_from_document, arch_to_document, parse_json
from polymap.ir import (
    ArchError,
    Architecture,
    BudgetError,
    Compute,
    ComputeUnit,
    Fanout,
    Hops,
    Mapping,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.search import result_document, result_from_document
from polymap.workload.einsums import einsum
from tests.case_machines import with_long_numbers, with_wires
from tests.cases import Case, random_case, random_general_case

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=2, k=2, bits={"A": 8, "B": 16, "C": 32})


def machine(**wire: Any) -> Architecture:
    """Return memory, four units on one fan-out, nothing between; only the fan-out costs energy."""
    return Architecture("four", (MemoryLevel("DRAM", word_bits=8), Fanout("X", 4, **wire), ComputeUnit("MAC")))


def used(mapping: Mapping, arch: Architecture) -> dict[str, tuple[int, ...]]:
    cost = evaluate(GEMM, arch, mapping)
    assert cost.wires == simulate(GEMM, arch, mapping).wires
    return {use.tensor: (use.messages, use.deliveries, use.collections, use.sums) for use in cost.wires}


OUTPUTS_SIDE_BY_SIDE = Mapping((Spatial("m", 1, "X"), Spatial("n", 1, "X"), Temporal("k", 1), Compute("S")))
SUMS_SIDE_BY_SIDE = Mapping((Temporal("m", 1), Spatial("n", 1, "X"), Spatial("k", 1, "X"), Compute("S")))


def test_elements_that_two_children_share_are_one_message_and_two_deliveries() -> None:
    # Two steps (k). In each, A[m,k] goes to the two units of a row, B[k,n] to the two of a column: two messages and
    # four deliveries. Each of the four units gives back its own sum: four collections, and four arrive.
    found = used(OUTPUTS_SIDE_BY_SIDE, machine(pj_per_word=Fraction(1)))
    assert found == {"C": (0, 0, 8, 8), "A": (4, 8, 0, 0), "B": (4, 8, 0, 0)}


def test_products_that_are_added_on_the_way_are_collected_twice_and_arrive_once() -> None:
    # Two steps (m). A[m,k] is shared by the two columns, B[k,n] by nobody; the two products of an element are added.
    found = used(SUMS_SIDE_BY_SIDE, machine(reduce_pj=Fraction(1)))
    assert found == {"C": (0, 0, 8, 4), "A": (4, 8, 0, 0), "B": (8, 8, 0, 0)}
    apart = used(SUMS_SIDE_BY_SIDE, machine(reduce_pj=Fraction(1), reduction=False))
    assert apart["C"] == (0, 0, 8, 8)


@pytest.mark.parametrize(
    "wire, pj",
    [
        # words of 8 bits: an element of A is one, of B two, of C four
        ({"pj_per_word": Fraction(1)}, 8 * 1 + 8 * 2 + 8 * 4),
        ({"pj_per_word_hop": Fraction(1)}, Fraction(5, 2) * (8 * 1 + 8 * 2 + 8 * 4)),  # (4 + 1) / 2 links on average
        ({"pj_per_word_hop": Fraction(1), "hops": Hops.MULTICAST}, 4 * (4 * 1 + 8 * 2 + 4 * 4)),  # the line of 4 links
        ({"reduce_pj": Fraction(1)}, 8 - 4),
    ],
)
def test_the_energy_of_a_wire_is_what_the_rules_say(wire: dict[str, object], pj: Fraction) -> None:
    cost = evaluate(GEMM, machine(**wire), SUMS_SIDE_BY_SIDE)
    assert dict(cost.energy_by_level_pj_exact)["X"] == cost.energy_pj_exact == pj


def test_of_two_fanouts_the_outer_one_delivers_once_to_each_of_its_children() -> None:
    y, x = Fanout("Y", 2, pj_per_word=Fraction(1)), Fanout("X", 2, pj_per_word=Fraction(1))
    arch = Architecture("grid", (MemoryLevel("DRAM"), y, x, MemoryLevel("RF"), ComputeUnit("MAC")))
    nodes = (Spatial("m", 1, "Y"), Spatial("n", 1, "X"), Storage("RF", ("A", "C")), Temporal("k", 1), Compute("S"))
    cost = evaluate(GEMM, arch, Mapping(nodes))
    assert cost.wires == simulate(GEMM, arch, Mapping(nodes)).wires
    # A's row of two elements goes to one child of Y and to both of X below it; an element of B to both and one; each
    # register file gives back one sum. B is not held: its elements go to the units, the same two in both rows.
    assert cost.wires == (
        WireUse("Y", "C", 0, 0, 4, 4),
        WireUse("Y", "A", 4, 4, 0, 0),
        WireUse("Y", "B", 4, 8, 0, 0),
        WireUse("X", "C", 0, 0, 4, 4),
        WireUse("X", "A", 4, 8, 0, 0),
        WireUse("X", "B", 8, 8, 0, 0),
    )


def wired_case(seed: int) -> Case | None:
    rng = random.Random(seed)
    case = (random_general_case if seed % 3 == 0 else random_case)(rng)
    arch = with_wires(rng, case.arch)
    return Case(case.workload, arch, case.mapping, case.features) if arch.has_wire_energies else None


def disagreements(seeds: range, sets_every: int) -> tuple[list[str], int, int]:
    """Return where closed form or sets differ from the walk, and how many cases each answered."""
    wrong: list[str] = []
    answered = [0, 0]
    for seed in seeds:
        case = wired_case(seed)
        if case is None:
            continue
        asked = case.workload, case.arch, case.mapping
        truth = count_by_simulation(*asked)
        found: list[Counts | None] = [count_closed_form(*asked)]
        if seed % sets_every == 0:
            found.append(_by_sets(*asked))
        for place, counts in enumerate(found):
            if counts is not None:
                answered[place] += 1
                if counts != truth:
                    wrong.append(f"seed {seed}: {('closed form', 'sets')[place]}")
    return wrong, answered[0], answered[1]


def _by_sets(workload: Workload, arch: Architecture, mapping: Mapping) -> Counts | None:
    try:
        return counts_of_sets(workload, arch, mapping)
    except BudgetError:
        return None


def test_crossings_by_closed_form_by_sets_and_by_walking_are_equal() -> None:
    wrong, by_formula, by_sets = disagreements(range(120), 10)
    assert wrong == []
    assert by_formula > 50
    assert by_sets > 4


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_crossings_are_equal_in_twenty_thousand_cases(block: int) -> None:
    assert disagreements(range(1000 * (block + 1), 1000 * (block + 2)), 50)[0] == []


def test_tables_of_tiles_cost_what_each_mapping_costs_by_itself() -> None:
    counted = 0
    for seed in range(60):
        case = wired_case(3 * seed + 1)
        tiles = [] if case is None else [n.tile for n in case.mapping.nodes if isinstance(n, Temporal | Spatial)]
        if case is None or not tiles:
            continue
        arch = with_long_numbers(random.Random(seed), case.arch)
        one = evaluate(case.workload, arch, case.mapping)
        many = evaluate_many(case.workload, arch, case.mapping, np.array([tiles, tiles]))
        assert [(name, values[1]) for name, values in many.energy_by_level_pj] == list(one.energy_by_level_pj), seed
        counted += batch_of_nest(case.workload, arch, case.mapping, placed=True) is not None
    assert counted > 28


def test_a_machine_with_wires_reads_back_and_so_does_its_answer() -> None:
    from polymap import explore

    arch = machine(pj_per_word=Fraction(1, 3), pj_per_word_hop=Fraction(2), hops=Hops.MULTICAST, reduce_pj=Fraction(1))
    document: Any = arch_to_document(arch)
    assert document["nodes"][1]["hops"] == "multicast"
    arch = arch_from_document(json.loads(json.dumps(document)))  # a third becomes the nearest float
    result = explore(GEMM, arch, "energy", tiles="divide", time_limit_s=20)
    again = result_from_document(parse_json(json.dumps(result_document(result)), "the answer"))
    assert again.cost.wires == result.cost.wires
    assert "deliveries" in str(result)


def test_wires_with_values_that_mean_nothing_are_refused_by_name() -> None:
    nodes = [{"level": "D"}, {"fanout": "X", "size": 2, "pj_per_word": -1, "hops": "ring"}, {"compute": "M"}]
    with pytest.raises(ArchError, match="pj_per_word") as caught:
        arch_from_document({"nodes": nodes})
    assert "hops" in str(caught.value)
    with pytest.raises(ArchError, match="reduce_pj"):
        Fanout("X", 2, reduce_pj=Fraction(-1))
