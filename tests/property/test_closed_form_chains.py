"""Partial sums below long ragged chains, and outputs that are windows: the closed form, tables and the simulator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.costmodel.tables import cost_arrays as batch
from polymap.costmodel.tables.cost_arrays import evaluate_many
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum
from tests.case_chains import (
    chain_case,
    input_window_case,
    output_window_case,
    returning_case,
    tower_case,
    transposed_case,
)
from tests.cases import Case, as_it_is
from tests.property.test_batch import figures, figures_at, random_tiles, with_tiles

Draw = Callable[[random.Random], Case]


def unanswered(draw: Draw, seeds: range) -> int:
    """Hold the closed form against the simulator; return how many cases had no answer."""
    found = 0
    for seed in seeds:
        case = draw(random.Random(seed))
        counts = count_closed_form(case.workload, case.arch, case.mapping)
        if counts is None:
            found += 1
            continue
        assert counts == count_by_simulation(case.workload, case.arch, case.mapping), f"{draw.__name__} seed {seed}"
    return found


def test_siblings_of_two_short_loops_that_add_up_are_counted_one_by_one() -> None:
    """Short ends along both dims: which sibling enters first is decided dim by dim."""
    nodes = (
        MemoryLevel("DRAM"),
        Fanout("Y", 4, multicast=Multicast.NONE, reduction=True),
        MemoryLevel("L1"),
        MemoryLevel("L2"),
        ComputeUnit("MAC"),
    )
    arch = Architecture("adders", nodes)
    chains = [tuple(dict.fromkeys((outer, inner, 2))) for inner in range(3, 7) for outer in range(inner, 7)]
    for r, extent in product(chains, (7, 8)):
        workload = einsum("O[m] += A[r] * B[m,c]", sizes={"m": 1, "r": extent, "c": 3})
        loops = (*(Temporal("r", tile) for tile in r), Temporal("c", 2))
        held = (Storage("L1", ("O",)), Storage("L2", ("O",)), Compute("S"))
        mapping = Mapping((*loops, Spatial("r", 1, "Y"), Spatial("c", 1, "Y"), *held))
        found = count_closed_form(workload, arch, mapping)
        assert found is not None
        assert found == count_by_simulation(workload, arch, mapping), mapping


def rows_that_differ(draw: Draw, seeds: range, rows: int) -> list[str]:
    """Return the rows of random tables that `evaluate_many` and `evaluate` count differently."""
    found: list[str] = []
    for seed in seeds:
        case, rng = draw(random.Random(seed)), random.Random(seed)
        table = [random_tiles(rng, case.workload, case.mapping, 0.1) for _ in range(rows)]
        costs = evaluate_many(case.workload, case.arch, case.mapping, table)
        for number, row in enumerate(table):
            cost = evaluate(case.workload, case.arch, with_tiles(case.mapping, row))
            if figures_at(costs, number) != figures(cost):
                found.append(f"{draw.__name__} seed {seed}, tiles {row}")
    return found


def test_windows_whose_siblings_take_elements_where_no_inner_loop_starts_again() -> None:
    """What happened before the inner loops of a carry began says whether these elements have partial sums."""
    table = [(3, 4, 2, 2), (3, 2, 2, 2), (3, 2, 3, 2), (4, 4, 2, 4), (2, 3, 1, 2), (4, 3, 3, 2), (2, 2, 2, 2)]
    case = returning_case(table[0])
    costs = evaluate_many(case.workload, case.arch, case.mapping, [(*tiles, *(1,) * 6) for tiles in table])
    for number, tiles in enumerate(table):
        case = returning_case(tiles)
        cost = simulate(case.workload, case.arch, case.mapping)
        counts = count_closed_form(case.workload, case.arch, case.mapping)
        assert counts == count_by_simulation(case.workload, case.arch, case.mapping), tiles
        assert figures_at(costs, number) == figures(cost), tiles


def test_partial_sums_of_a_sibling_that_comes_back_twice_before_any_arrives() -> None:
    """Siblings at work 3, 1, 2, 3: of the two entries in a row, the second finds nothing."""
    workload = einsum("S += A[r]", r=9)
    arch = Architecture("x", (MemoryLevel("DRAM"), Fanout("X", 3), MemoryLevel("RF"), ComputeUnit("MAC")))
    loops = (Temporal("r", 6), Temporal("r", 4), Temporal("r", 3), Spatial("r", 1, "X"))
    mapping = Mapping((*loops, Storage("RF", ("S",)), Compute("S")))
    cost = evaluate(workload, arch, mapping)
    assert cost.method == "closed form"
    assert [row.fills for row in cost.traffic if row.level == "RF"] == [1]
    assert cost.traffic == simulate(workload, arch, mapping).traffic


def test_carries_of_loops_around_one_that_no_accepted_step_has_are_counted() -> None:
    workload = einsum("S += A[r]", r=61)
    arch = Architecture(
        "x", (MemoryLevel("DRAM"), Fanout("Y", 7), MemoryLevel("L1"), MemoryLevel("L2"), ComputeUnit("MAC"))
    )
    held = (Spatial("r", 1, "Y"), Storage("L1", ("S",)), Storage("L2", ("S",)), Compute("S"))
    mapping = Mapping((*(Temporal("r", tile) for tile in (58, 19, 14, 7)), *held))
    counts = count_closed_form(workload, arch, mapping)
    assert counts is not None
    assert counts == count_by_simulation(workload, arch, mapping)


def test_the_busiest_instance_of_an_output_that_is_a_window_of_distinct_elements() -> None:
    workload = einsum("O[2*p+q] += W[q,r]", p=2, q=2, r=3, bits=8)
    byte = Fraction(8)
    level = MemoryLevel("L1", read_bandwidth_bits_per_cycle=byte, write_bandwidth_bits_per_cycle=byte)
    arch = Architecture("y", (MemoryLevel("DRAM"), Fanout("Y", 4), level, ComputeUnit("MAC")), overlap=False)
    loops = (Temporal("p", 1), Spatial("r", 2, "Y"), Temporal("q", 1), Temporal("r", 1))
    cost = evaluate(workload, arch, Mapping((*loops, Storage("L1", ("O",)), Compute("S"))))
    assert (cost.method, cost.latency_cycles) == ("closed form", 16)


@pytest.mark.slow
def test_chains_of_up_to_six_ragged_loops_count_as_the_simulator_says() -> None:
    assert unanswered(chain_case, range(100)) == 0
    assert unanswered(tower_case, range(50)) == 0


def test_outputs_that_are_windows_count_as_the_simulator_says() -> None:
    assert unanswered(output_window_case, range(80)) <= 1


def test_transposed_convolutions_on_machines_that_bandwidths_slow_count_as_the_simulator_says() -> None:
    assert unanswered(transposed_case, range(60)) == 0


def test_convolutions_with_any_dim_spread_count_as_the_simulator_says() -> None:
    assert unanswered(input_window_case, range(60)) <= 1


def traffic_not_answered(seeds: range) -> int:
    """Hold the traffic of outputs that are windows against the simulator, no level's busiest instance being asked for;
    return how many had no answer."""
    found = 0
    for seed in seeds:
        case = output_window_case(random.Random(seed))
        nodes = (
            MemoryLevel(node.name, node.capacity_bits, node.word_bits) if isinstance(node, MemoryLevel) else node
            for node in case.arch.nodes
        )
        arch = replace(case.arch, nodes=tuple(nodes))
        counts = count_closed_form(case.workload, arch, case.mapping, metered=True)
        if counts is None:
            found += 1
            continue
        truth = count_by_simulation(case.workload, arch, case.mapping)
        assert (counts.traffic, counts.steps) == (truth.traffic, truth.steps), f"output_window_case seed {seed}"
    return found


def test_siblings_that_share_elements_of_an_output_window_move_what_the_simulator_says() -> None:
    assert traffic_not_answered(range(80)) <= 1


@pytest.mark.parametrize(
    ("draw", "tables"),
    [(chain_case, 14), (tower_case, 8), (output_window_case, 20), (transposed_case, 14), (input_window_case, 25)],
)
@pytest.mark.slow
def test_tables_of_them_are_evaluate_row_by_row(draw: Draw, tables: int) -> None:
    assert not rows_that_differ(draw, range(tables), rows=6)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_chains_and_windows_count_as_the_simulator_says_in_forty_thousand_cases(block: int) -> None:
    seeds = range(1000 * (block + 1), 1000 * (block + 2))
    assert unanswered(chain_case, seeds) == 0
    assert unanswered(tower_case, seeds) == 0
    assert traffic_not_answered(seeds) <= 10
    assert unanswered(output_window_case, seeds) <= 10
    assert unanswered(transposed_case, seeds) <= 10
    assert unanswered(input_window_case, seeds) <= 15
    for draw in (chain_case, output_window_case, transposed_case, input_window_case):
        assert not rows_that_differ(draw, seeds[:200], rows=10)


def test_tables_are_exact_with_energies_of_many_digits() -> None:
    workload = einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=256, c=128, p=56, r=3, bits=16)
    tree = (
        Temporal("k", 1), Temporal("c", 1), Storage("Buf", ("I", "W", "O")), Spatial("c", 1, "X"), Temporal("p", 1),
        Temporal("k", 1), Temporal("r", 1), Compute("S"),
    )  # fmt: skip
    rng = random.Random(3)
    for digits in (4, 9, 14, 40):
        unit = 10**digits
        prices = [Fraction(rng.randrange(unit, 90 * unit), unit) for _ in range(4)]
        outer = MemoryLevel("DRAM", word_bits=64, read_pj=prices[0], write_pj=prices[1])
        inner = MemoryLevel("Buf", word_bits=64, read_pj=prices[2], write_pj=prices[3])
        arch = Architecture("long", (outer, inner, Fanout("X", 128), ComputeUnit("MAC", prices[0] / 7)))
        table = np.array([random_tiles(rng, workload, Mapping(tree), 0.5) for _ in range(40)])
        costs = evaluate_many(workload, arch, Mapping(tree), table)
        for number, row in enumerate(table.tolist()):
            assert figures_at(costs, number) == figures(evaluate(workload, arch, with_tiles(Mapping(tree), row)))


def spread_twice(text: str) -> Case:
    """Return a workload of the dims k, c, p and r on three levels, p and r spread below two blocks of loops."""
    workload = einsum(text, k=4, c=4, p=14, r=5, bits=8)
    held = [Storage(level, ("I", "W", "O")) for level in ("GLB", "RF")]
    outer = (Temporal("k", 2), Temporal("p", 8), Temporal("c", 2), held[0], Temporal("r", 2), Temporal("p", 4))
    inner = (Spatial("p", 2, "X"), Spatial("r", 1, "Y"), Temporal("c", 1), held[1], Temporal("k", 1), Temporal("p", 1))
    levels = [MemoryLevel(name) for name in ("DRAM", "GLB", "RF")]
    fanouts = (Fanout("X", 14), Fanout("Y", 5))
    arch = Architecture("three", (*levels[:2], *fanouts, levels[2], ComputeUnit("MAC")))
    return as_it_is(workload, arch, Mapping((*outer, *inner, Compute("S"))))


SPREAD_TWICE = (
    "O[k,p] += I[c,p+r] * W[k,c,r]",
    "O[k,p] += I[c,2*p+r] * W[k,c,r]",
    "O[k,p] += I[c,p-r+8] * W[k,c,r]",
    "O[k,p] += I[c,r-3*p+45] * W[k,c,r]",
    "O[k,2*p+r] += I[c,p] * W[k,c,r]",
    "O[k,p-r+8] += I[c,p] * W[k,c,r]",
)


@pytest.mark.parametrize("text", SPREAD_TWICE)
@pytest.mark.slow
def test_tables_of_windows_with_both_dims_spread_are_evaluate_row_by_row(text: str) -> None:
    assert not rows_that_differ(lambda _: spread_twice(text), range(1), rows=40)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("text", SPREAD_TWICE)
def test_tables_of_windows_with_both_dims_spread_in_sixty_thousand_rows(text: str, block: int) -> None:
    assert not rows_that_differ(lambda _: spread_twice(text), range(block + 1, block + 2), rows=1000)


@pytest.mark.parametrize("text", [SPREAD_TWICE[0], SPREAD_TWICE[1], SPREAD_TWICE[2], SPREAD_TWICE[4]])
def test_their_rows_are_counted_on_arrays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is left to `evaluate` but the first, which is always asked."""
    case, rng = spread_twice(text), random.Random(1)
    table = [random_tiles(rng, case.workload, case.mapping, 0.0) for _ in range(300)]
    asked: list[int] = []

    def counted(workload: Workload, arch: Architecture, mapping: Mapping) -> Cost:
        asked.append(1)
        return evaluate(workload, arch, mapping)

    monkeypatch.setattr(batch, "evaluate", counted)
    evaluate_many(case.workload, case.arch, case.mapping, table)
    assert len(asked) == 1


def test_a_list_with_integers_beyond_int64_is_read_as_integers() -> None:
    workload = einsum("C[m] += A[m,k]", m=4, k=4)
    arch = Architecture("one", (MemoryLevel("DRAM"), ComputeUnit("MAC")))
    tree = Mapping((Temporal("m", 1), Temporal("k", 1), Temporal("m", 1), Temporal("k", 1), Compute("S")))
    costs = evaluate_many(workload, arch, tree, [[2**63, 1, 1, 1], [4, 1, 1, 1]])
    assert costs.energy_pj[0] == costs.energy_pj[1]
