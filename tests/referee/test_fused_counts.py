"""Fused trees in closed form equal the walk over their steps; the two share no code."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from polymap.costmodel.closed_form import branches, counts, loops_of_tree
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.costmodel.referees import count_by_simulation
from polymap.costmodel.tables import cost_arrays, fused
from polymap.costmodel.tables.cost_arrays import CostArrays, evaluate_many
from polymap.costmodel.tables.loops import with_tiles
from polymap.inputs import arch_from_document
from polymap.ir.errors import MappingError, WorkloadError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.check import check_mapping, placement_violations
from polymap.workload.einsum_programs import program
from tests.mistakes import mutant_of
from tests.programs import random_tree, with_room
from tests.times import few

CHAINS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[n,m] = max(T[m,n], 0)", "F[m] += E[n,m] * T[m,n]"),
    ("T[c,p] += I[p+r] * W[c,r]", "E[c,p] = max(T[c,p], 0)", "F[d,p] += E[c,p] * V[c,d]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m] += T[m,n] * x[n]", "F[n] max= T[m,n]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,p] += A[m,k] * D[k,p]", "E[m] += T[m,n] * U[m,p]"),
    ("S[b,m,n] += Q[b,m,c] * K[b,n,c]", "M[b,m] max= S[b,m,n]", "E[b,m] += S[b,m,n] * M[b,m]"),
    ("T[m] += A[m,k]", "E[n] += B[n,k]", "F[m,n] = T[m] * E[n]"),
    ("T[2*m+1] += A[m,k] * A[m,k]", "E[m] += T[2*m+1] * D[m]"),
    ("T[m,m] += A[m,k]", "E[m,n] = T[m,m] * D[m//2,n]"),
    ("T[m+n] = A[m] * B[n]", "E[m] += T[m+n] * D[n]"),
    ("T[m+k] += A[m] * B[k]", "E[m] += T[m+k] * D[k]", "F[m] += A[m] * E[m]"),
    (
        "V[b,n] += X[n,d] * W[b,d]",
        "S[b,m,n] += Q[b,m] * K[b,n]",
        "M[b,m] max= S[b,m,n]",
        "P[b,m,n] = S[b,m,n] - M[b,m]",
        "E[b,m] += P[b,m,n] * V[b,n]",
    ),
    ("T[m,n] = 1", "T[m,n] += A[m,k] * B[k,n]", "E[m,p] = 0", "E[m,p] += T[m,n] * D[n,p]"),
)

OF_ITSELF = (  # statements touch one tensor through dims of their own
    ("Q[m,e] += X[m,d] * W[d,e]", "K[n,e] += X[n,d] * V[d,e]", "S[m,n] += Q[m,e] * K[n,e]"),
    ("Q[m,e] += X[m,d] * W[d,e]", "S[m,n] += Q[m,e] * Q[n,e]", "E[n] += Q[n,e] * S[m,n]"),
    ("T[m,n] = A[m] * B[n]", "E[p] += T[p,n]", "F[m,p] = T[m,p] + E[m]"),
)
IN_TILES = (  # T is read through windows along other axes than t
    ("T[t,p] += A[2*t+p+r] * W[r]", "E[t,q] += T[t,q+s] * V[s]"),
    ("T[t,p,c] += A[t,p] * W[c]", "U[t,p,c] = max(T[t,p,c], 0)", "E[t,q] += U[t,2*q+s,c] * V[c]"),
    ("T[t,p] += A[t,p] * W[p]", "E[t] += T[t,q+s] * V[s]", "F[t] = T[t,p] * E[t]"),
)
HEADS = ("Q[h,m] += X[m,d] * W[h,d]", "K[h,n] += X[n,d] * V[h,d]", "S[h,m,n] = Q[h,m] * K[h,n]")


def drawn_program(rng: random.Random, chains: tuple[tuple[str, ...], ...], temporary: float) -> Workload:
    """Return one of some chains with short extents. temporary: how likely what statements pass on is."""
    texts = rng.choice(chains)
    names = sorted(set(re.findall(r"[a-z]", re.sub("max", "", " ".join(texts)))) - {"x"})
    read = [name for name in dict.fromkeys(text[0] for text in texts) if any(f"{name}[" in each[6:] for each in texts)]
    return program(
        list(texts),
        sizes={name: rng.choice((1, 2, 3, 4, 5)) for name in names},
        temporary=[name for name in read if rng.random() < temporary],
        initial=[texts[-1][0]] if rng.random() < 0.3 else [],
        bits=rng.choice((8, 4)),
    )


def fused_case(
    rng: random.Random, chains: tuple[tuple[str, ...], ...] = CHAINS
) -> tuple[Workload, Architecture, Mapping]:
    """Return a chain in a random tree, at most one node of each level on a way, with room for its spatial loops."""
    work = drawn_program(rng, chains, 0.6)
    multicast, adds = rng.choice(("identical", "union", "none")), rng.random() < 0.5
    wire = {"pj_per_word": 1, "hops": "unicast"} if rng.random() < 0.3 else {}
    nodes = [
        {"level": "DRAM"},
        {"level": "G"},
        *([{"level": "H"}] if rng.random() < 0.5 else []),
        *([{"fanout": "X", "size": 1, "multicast": multicast, "reduction": adds}] if rng.random() < 0.7 else []),
        *([{"fanout": "Y", "size": 1, **wire}] if rng.random() < 0.4 else []),
        {"level": "R", **({"bandwidth_bits_per_cycle": 8} if rng.random() < 0.3 else {})},
        {"compute": "PE"},
    ]
    return case_with(rng, work, arch_from_document({"name": "random", "nodes": nodes}), 0.3)


def siblings_case(rng: random.Random) -> tuple[Workload, Architecture, Mapping]:
    """Return a chain in a random tree on a machine of two levels with bandwidths, each below a fan-out with wires;
    siblings stand above most branches."""
    work = drawn_program(rng, CHAINS, 0.6)
    wires = {"pj_per_word": 1, "hops": "unicast"}
    merged = [{"multicast": rng.choice(("identical", "union", "none")), "reduction": rng.random() < 0.5} for _ in "XY"]
    nodes: list[dict[str, str | int]] = [{"level": "DRAM"}, {"level": "G"}]
    for fanout, level, merges in zip("XY", "HR", merged, strict=True):
        nodes.append({"fanout": fanout, "size": 1, **merges, **wires})
        nodes.append({"level": level, "bandwidth_bits_per_cycle": 8})
    arch = arch_from_document({"name": "siblings", "nodes": [*nodes, {"compute": "PE"}]})
    return case_with(rng, work, arch, 0.8)


def case_with(
    rng: random.Random, work: Workload, arch: Architecture, spread: float
) -> tuple[Workload, Architecture, Mapping]:
    """Return a program in a random tree of a machine. spread: how likely a fan-out has a loop above the branch."""
    while True:
        mapping = random_tree(rng, work, arch)
        mapping = with_loop_around(rng, work, mapping) if rng.random() < 0.4 else mapping
        for fanout in (each for each in arch.fanouts if rng.random() < spread):
            mapping = with_siblings_around(rng, work, mapping, fanout)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        return work, with_room(arch, work, mapping), mapping


def with_loop_around(rng: random.Random, work: Workload, mapping: Mapping) -> Mapping:
    """Return the tree with one more loop above its branch, also over a dim that some statements lack."""
    dim = rng.choice([each for each in work.dims if each.extent > 1] or [work.dims[0]])
    tile = rng.randrange(1, max(2, dim.extent))

    def smaller(nodes: tuple[MappingNode, ...]) -> tuple[MappingNode, ...]:
        found: list[MappingNode] = []
        for node in nodes:
            if isinstance(node, Branch):
                found.append(Branch(tuple(smaller(child) for child in node.children)))
            elif isinstance(node, Temporal | Spatial) and node.dim == dim.name:
                found.append(replace(node, tile=min(node.tile, tile)))
            else:
                found.append(node)
        return tuple(found)

    *chain, last = mapping.nodes
    at = rng.randrange(len(chain) + 1)
    return Mapping((*chain[:at], Temporal(dim.name, tile), *smaller((*chain[at:], last))))


def with_siblings_around(rng: random.Random, work: Workload, mapping: Mapping, fanout: Fanout) -> Mapping:
    """Return the tree with a spatial loop above its branch."""
    every = [each for each in work.dims if all(each.name in one.dims for one in work.statements)]
    if not every:
        return mapping
    dim = rng.choice(every)
    *chain, last = mapping.nodes
    places = [number for number, node in enumerate(chain) if isinstance(node, Temporal) and node.dim == dim.name]
    places += [number for number, node in enumerate(chain) if isinstance(node, Spatial)]
    at = max([0, *(number + 1 for number in places)])
    own = Spatial(dim.name, rng.randrange(1, max(2, dim.extent)), fanout.name)
    return Mapping((*chain[:at], own, *chain[at:], last))


def compared(seeds: range) -> tuple[int, int]:
    """Return how many trees the closed form counts, and how many of them it counts wrongly."""
    counted = wrong = 0
    for seed in seeds:
        case = fused_case(random.Random(f"fused {seed}"))
        found = count_closed_form(*case)
        counted += found is not None
        wrong += found is not None and found != count_by_simulation(*case)
    return counted, wrong


@pytest.mark.parametrize(("seeds", "least"), few([(150, 18), (400, 55)], 1))
def test_fused_trees_are_counted_as_they_run(seeds: int, least: int) -> None:
    counted, wrong = compared(range(seeds))
    assert wrong == 0
    assert counted > least


@pytest.mark.parametrize(("seeds", "least"), few([(60, 20), (150, 60)], 1))
def test_siblings_above_branches_are_counted_as_they_run(seeds: int, least: int) -> None:
    counted = 0
    for seed in range(seeds):
        case = siblings_case(random.Random(f"siblings {seed}"))
        found = count_closed_form(*case)
        counted += found is not None
        assert found is None or found == count_by_simulation(*case), f"seed {seed}"
    assert counted > least


def test_siblings_that_idle_keep_nothing_that_is_written() -> None:
    """T is made in the first iteration over p and read in all; rows that are left over give some siblings none."""
    counted, free = 0, {"word_bits": 8, "read_pj": 1, "write_pj": 1}
    for rows, columns, siblings, inside in product((3, 4, 5, 7), (1, 2, 3), (2, 3), (1, -1)):
        sizes = {"m": rows, "k": 1, "n": 2, "p": columns}
        workload = program(["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"], sizes=sizes)
        fan = {"fanout": "X", "size": siblings}
        nodes = [{"level": "DRAM", **free}, fan, {"level": "R", **free}, {"compute": "PE", "pj": 1}]
        arch = arch_from_document({"name": "idle", "nodes": nodes})
        loops = (Temporal("p", 1), Temporal("m", siblings))[::inside]
        around = (*loops, Spatial("m", 1, "X"), Storage("R", ("T",)))
        legs = (Temporal("n", 1), Temporal("k", 1), Compute("S0")), (Temporal("n", 1), Compute("S1"))
        case = workload, arch, Mapping((*around, Branch(legs)))
        found = count_closed_form(*case)
        counted += found is not None
        assert found in (None, count_by_simulation(*case)), case
    assert counted > 20


@pytest.mark.soak
def test_thousands_of_trees_with_siblings_above_branches_are_counted_as_they_run() -> None:
    for seed in range(1_000, 11_000):
        case = siblings_case(random.Random(f"siblings {seed}"))
        assert count_closed_form(*case) in (None, count_by_simulation(*case)), f"seed {seed}"


@pytest.mark.soak
def test_thousands_of_fused_trees_are_counted_as_they_run() -> None:
    assert compared(range(1_000, 21_000))[1] == 0


def test_a_tensor_that_accesses_with_dims_of_their_own_touch_is_counted_as_it_stays() -> None:
    counted = wrong = 0
    for seed in (
        *range(150),
        10_615,  # E[m] is read before a later iteration adds to it
        11_316,
        11_490,
    ):  # the last two: a run sees other overlaps of Q[m,e] and Q[n,e] than the first
        try:
            case = fused_case(random.Random(f"of itself {seed}"), OF_ITSELF)
        except WorkloadError:  # more of a tensor is read than is written
            continue
        found = count_closed_form(*case)
        above = {name for node in case[2].nodes if isinstance(node, Storage) for name in node.tensors}
        counted += found is not None and not above.isdisjoint("XQT")
        wrong += found is not None and found != count_by_simulation(*case)
    assert wrong == 0
    assert counted > 2


def test_what_is_read_whole_in_each_iteration_of_a_loop_is_counted_as_it_stays() -> None:
    """X[m,d] and X[n,d] below a loop over h, which both lack."""
    counted = wrong = 0
    for seed in range(400):
        try:
            work, arch, mapping = fused_case(random.Random(f"heads {seed}"), (HEADS,))
        except WorkloadError:  # more of a tensor is read than is written
            continue
        around = mapping.nodes[:-1]
        held = any(isinstance(node, Storage) and "X" in node.tensors for node in around)
        if not held or not any(isinstance(node, Temporal) for node in around):
            continue
        found = count_closed_form(work, arch, mapping)
        counted += found is not None
        wrong += found is not None and found != count_by_simulation(work, arch, mapping)
    assert wrong == 0
    assert counted > 2


OF_WINDOWS = (290, 305, 412, 469, 605, 743, 907, 987, 1027, 1181, 1282, 1626, 1777, 1917, 2072, 2217, 2236, 2322, 2388)


def test_what_is_read_through_windows_along_axes_that_no_loop_around_cuts_is_counted_as_it_stays() -> None:
    """Seeds of trees in which T or U stands above a branch, below loops; 877 reads parts of a window."""
    for seed in (*OF_WINDOWS, 877):
        case = fused_case(random.Random(f"windows {seed}"), IN_TILES)
        assert count_closed_form(*case) == (count_by_simulation(*case) if seed != 877 else None)


@pytest.mark.soak
def test_thousands_of_trees_with_windows_are_counted_as_they_run() -> None:
    for seed in range(12_000):
        try:
            case = fused_case(random.Random(f"windows {seed}"), IN_TILES)
        except WorkloadError:  # more of a tensor is read than is written
            continue
        assert count_closed_form(*case) in (None, count_by_simulation(*case))


SAME = ("U[h,m] = X[m] * W[h]", "V[h,n] = X[n] * Y[h]")
PARTS = ("S[h,m,n] += Q[m,e] * Q[n,e]", "E[h,n] += Q[n,e] * S[h,m,n]")  # Q[m,e] is a part of Q[n,e]


def test_of_several_accesses_that_which_touches_all_says_what_stays() -> None:
    work = program(list(PARTS), sizes={"h": 2, "m": 2, "n": 3, "e": 2}, temporary=["S"], bits=8)
    arch = arch_from_document({"name": "one", "nodes": [{"level": "DRAM"}, {"level": "G"}, {"compute": "PE"}]})
    legs = tuple((*(Temporal(dim, 1) for dim in "mne"), Compute(each.name)) for each in work.statements)
    above: tuple[MappingNode, ...] = (Storage("G", ("Q",)), Temporal("h", 1))
    for around in (above, above[:1]):
        inside = legs if len(around) > 1 else tuple((Temporal("h", 1), *leg) for leg in legs)
        mapping = Mapping((*around, Branch(inside)))
        found = count_closed_form(work, arch, mapping)
        assert found is not None, "it is within reach"
        assert found == count_by_simulation(work, arch, mapping)


def test_an_instance_that_loads_more_than_the_first_one_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Q[m,e] and Q[n,e] the first sibling, of m = n, loads one row, others two; the next nest runs on the first."""
    slow = {"level": "R", "bandwidth_bits_per_cycle": 1}
    nodes = [{"level": "DRAM"}, {"fanout": "X", "size": 4}, slow, {"compute": "PE"}]
    arch = arch_from_document({"name": "siblings", "nodes": nodes})
    work = program(list(PARTS), sizes={"h": 1, "m": 2, "n": 2, "e": 3}, bits=8)
    first, second = (Compute(each.name) for each in work.statements)
    legs = (
        (Spatial("n", 1, "X"), Spatial("m", 1, "X"), Storage("R", ("Q",)), Temporal("e", 1), first),
        (*(Temporal(dim, 1) for dim in "nme"), Storage("R", ("E",)), second),
    )
    mapping = Mapping((Branch(legs),))
    truth = count_by_simulation(work, arch, mapping)
    assert evaluate(work, arch, mapping).latency_cycles == simulate(work, arch, mapping).latency_cycles
    assert count_closed_form(work, arch, mapping) in (None, truth)
    with_mistake("if counts.of_first is False:", "if False:", monkeypatch)
    assert count_closed_form(work, arch, mapping) not in (None, truth), "the refusal is needed"


def test_the_last_sums_of_some_elements_alone_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five elements of Q in tiles of two: four leave and come back for the last reader, the fifth stays and dies."""
    nodes = [{"level": "DRAM"}, {"level": "H"}, {"level": "G"}, {"compute": "PE"}]
    arch = arch_from_document({"name": "three", "nodes": nodes})
    texts = ["Q[h] += X[h] * W[h]", "S[h,n] = Q[h] * K[n]"]
    work = program(texts, sizes={"h": 5, "n": 2}, temporary=["Q"], bits=8)
    legs = tuple((Compute(each.name),) for each in work.statements)
    around = (Temporal("h", 2), Storage("H", ("Q",)), Temporal("n", 1), Temporal("h", 1), Storage("G", ("Q",)))
    for nodes_above in (around, tuple(node for node in around if node != around[1])):
        mapping = Mapping((*nodes_above, Branch(legs)))
        assert evaluate(work, arch, mapping).traffic == simulate(work, arch, mapping).traffic
    own, leaves = np.array([[2, 1, 1]]), Branch(legs)
    right, wrong = Mapping((*around, leaves)), Mapping((around[0], *around[2:], leaves))  # tables of a tree are kept
    assert not wrong_rows((work, arch, right), own, evaluate_many(work, arch, right, own))
    with_mistake_in_tables("right &= ~runs.failed", "right &= True", monkeypatch)
    assert wrong_rows((work, arch, wrong), own, evaluate_many(work, arch, wrong, own)), "such rows need the refusal"


def windowed_case(rng: random.Random) -> tuple[Workload, Architecture, Mapping]:
    """Return two convolutions in a row, strided at times, the second of which often reads all of the first's result."""
    step, taps, many = rng.choice((1, 1, 2)), rng.choice((1, 2, 3)), rng.choice((1, 2, 4))
    whole = step * (many - 1) + taps
    sizes = {
        "p": whole + rng.choice((0, 0, 0, 1)),
        "r": rng.choice((1, 3)),
        "q": many,
        "s": taps,
        "c": rng.choice((1, 2)),
    }
    texts = ["T[c,p] += A[p+r] * W[c,r]", f"E[q] += T[c,{step}*q+s] * V[c,s]"]
    work = program(texts, sizes=sizes, temporary=["T"], bits=8)
    arch = arch_from_document(
        {"name": "two", "nodes": [{"level": "DRAM"}, {"level": "G"}, {"level": "R"}, {"compute": "PE"}]}
    )
    while True:
        mapping = random_tree(rng, work, arch)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        return work, with_room(arch, work, mapping), mapping


@pytest.mark.slow
def test_a_temporary_result_that_is_read_through_a_window_is_counted_as_it_runs() -> None:
    counted = 0
    for seed in range(120):
        case = windowed_case(random.Random(f"windowed {seed}"))
        found = count_closed_form(*case)
        counted += found is not None
        assert found is None or found == count_by_simulation(*case), f"seed {seed}"
    assert counted > 12, "trees in which the nests share no loop are counted"


def other_tiles(rng: random.Random, case: tuple[Workload, Architecture, Mapping], number: int) -> np.ndarray:
    """Return a table of tiles: the tree's own, and others that are readable, of any size."""
    work, arch, mapping = case
    loops, extents = list(loops_of_tree(mapping.nodes)), work.extents()
    rows = [[loop.tile for loop in loops]]
    for _ in range(number):
        row = [1 if loop.tile == 1 and rng.random() < 0.8 else rng.randint(1, extents[loop.dim] + 1) for loop in loops]
        try:
            check_mapping(work, arch, Mapping(with_tiles(mapping.nodes, iter(row))))
        except MappingError:
            continue
        rows.append(row)
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(loops))


def wrong_rows(case: tuple[Workload, Architecture, Mapping], table: np.ndarray, found: CostArrays) -> list[int]:
    """Return the rows that a table of tiles gives another cost than `evaluate`."""
    wrong: list[int] = []
    for number, row in enumerate(table.tolist()):
        cost = evaluate(case[0], case[1], Mapping(with_tiles(case[2].nodes, iter(row))))
        moves = [tuple(int(getattr(each, name)[number]) for name in _MOVES) for each in found.traffic]
        same = (
            moves == [tuple(getattr(each, name) for name in _MOVES) for each in cost.traffic]
            and [(name, int(bits[number])) for name, bits in found.occupancy_bits] == list(cost.occupancy_bits)
            and (bool(found.legal[number]), float(found.energy_pj[number])) == (cost.legal, cost.energy_pj)
            and (int(found.latency_cycles[number]), float(found.utilization[number]))
            == (cost.latency_cycles, cost.utilization)
            and [(name, float(each[number])) for name, each in found.energy_by_level_pj]
            == list(cost.energy_by_level_pj)
        )
        wrong += [] if same else [number]
    return wrong


_MOVES = ("reads", "writes", "fills", "drains")


def wrong_tables(seeds: range) -> tuple[int, int, list[int]]:
    """Return how many trees have a table of tiles counted by arrays, rows of all tables, and seeds with a wrong row."""
    by_arrays, rows, wrong = 0, 0, list[int]()
    for seed in seeds:
        rng = random.Random(f"fused {seed}")
        case = fused_case(rng)
        tiles = other_tiles(rng, case, 8)
        if not tiles.shape[1]:
            continue
        placed = not placement_violations(*case)
        by_arrays += fused.batch_of_branches(*case, placed=placed) is not None
        rows += len(tiles)
        wrong += [seed] if wrong_rows(case, tiles, evaluate_many(*case, tiles)) else []
    return by_arrays, rows, wrong


def test_tables_of_fused_trees_cost_what_each_row_does() -> None:
    by_arrays, rows, wrong = wrong_tables(range(20))
    assert wrong == [], "every figure of every row, to the last bit"
    assert by_arrays >= 5, "array formulas apply to many"
    assert rows > 60, "tiles of any size, ragged ones among them"


@pytest.mark.soak
def test_tables_of_many_fused_trees_cost_what_each_row_does() -> None:
    assert wrong_tables(range(2_000, 6_000))[2] == [], "every figure of every row"


# Mistakes on the way from one mapping to columns: (right, wrong) in the source of `tables.fused`, and the first seed of
# the trees drawn.
MISTAKES_IN_TABLES = {
    "a last tile is as long as the others": ("np.where(others > 0, length, first)", "first", 0),
    "the first tile counts twice": ("number if kind else number - 1", "number", 0),
    "extents are those of the whole": ("varying = tuple(number for", "varying = () and tuple(number for", 0),
    "dependences allow what the first row does": ("key = pattern.tobytes()", 'key = b""', 0),
}


@pytest.mark.parametrize("name", MISTAKES_IN_TABLES)
def test_a_mistake_in_the_tables_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, first = MISTAKES_IN_TABLES[name]
    with_mistake_in_tables(right, wrong, monkeypatch)
    for seed in range(first, 1_000):
        try:
            if wrong_tables(range(seed, seed + 1))[2]:
                return
        except (AssertionError, KeyError, ValueError, TypeError, IndexError):
            return
    pytest.fail("no table sees it")


def with_mistake_in_tables(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutant_of(fused, right, wrong, monkeypatch)
    monkeypatch.setattr(cost_arrays, "batch_of_branches", mutant["batch_of_branches"])


# Mistakes in the formulas: (right, wrong) in the source of `branches`.
MISTAKES = {
    "sums begin anew in every run": (
        "stale = {each.target.tensor for each in own if again - set(each.target.dims)}",
        "stale = set()",
    ),
    "every run of a child counts once": ("self.visit(child, each, times * number)", "self.visit(child, each, times)"),
    "what children hold adds up": (
        "most[level] = self.numbers.most(most.get(level, 0), bits)",
        "most[level] = most.get(level, 0) + bits",
    ),
    "nodes above a branch take no room": ("held.get(level, 0) + most.get(level, 0)", "most.get(level, 0)"),
    "what is dead is drained": ("written.but(touched, numbers", "written.but(touched, 0 * numbers"),
    "what has no value yet is loaded": (
        "fills = entries.but(touched) if self.is_fresh else entries",
        "fills = entries",
    ),
    "a child loads from outside": ("level or run.holders[names[tensor]], names", "level, names"),
    "what a node above a branch loads is free": (
        "self.total.add(outer, name, times, (fills.parents, drains.parents, 0, 0))",
        "pass",
    ),
    "a last tile is as long as the others": ("cut[rest] += number", "cut[tile] += number"),
    "what is overwritten is loaded": ("if not each.initial or each.name in overwritten)", "if not each.initial)"),
    "what siblings share is read for each": (
        "Crossed(rows[level].fills, rows[holder].reads, first",
        "Crossed(rows[level].fills, rows[level].fills, first",
    ),
    "siblings' nodes are loaded by each child": (
        "rows.append(row._replace(reads=reads, writes=writes, fills=0, drains=0))",
        "rows.append(row)",
    ),
    "one sibling's node takes all that children get": ("self.numbers.least(row.tile, n)", "n"),
    "wires lead to no node above a branch": ("self.total.add_wire(fanout, name, times, crossed)", "pass"),
    "all wires lead to nodes above a branch": ("if each.tensor == 1 and each.fanout in between", "if each.tensor == 1"),
    "what is written takes no wires": ("dict.fromkeys(wires, ends)", "{}"),
    "children run on one instance": (
        "self.counted(nest, run, Mapping((*run.spread, *around, *own)), times, alike=bool(given))",
        "self.counted(nest, run, Mapping((*around, *own)), times, alike=bool(given))",
    ),
    "siblings write the same elements": ("if writers and not spread <= access.dims_alone:", "if False:"),
    "a range is cut in any order": ("if isinstance(node, Temporal) and node.dim in spread:", "if False:"),
    "what is read is drained": ("written, touched = self.of_writer[level]", "written, touched = self.stays[level]"),
}


# Those about siblings above branches: (right, wrong), and the seed of `siblings_case` that sees it.
MISTAKES_OF_SIBLINGS = {
    "one sibling moves all": (
        "rows[holder].reads, first, parent)",
        "rows[holder].reads, rows[level].fills, parent)",
        38,
    ),
    "one parent loads for all": (
        "rows[holder].reads, first, parent)",
        "rows[holder].reads, first, rows[holder].reads)",
        70,
    ),
}


@pytest.mark.parametrize("name", MISTAKES_OF_SIBLINGS)
def test_a_mistake_in_what_siblings_move_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, seed = MISTAKES_OF_SIBLINGS[name]
    case = siblings_case(random.Random(f"siblings {seed}"))
    assert count_closed_form(*case) == seen_by(case, right, wrong, monkeypatch)


# The seed that sees a mistake first, where it is not among the first few.
SEEN = {
    "what siblings share is read for each": 25,
    "wires lead to no node above a branch": 34,
    "all wires lead to nodes above a branch": 34,
    "what is overwritten is loaded": 42,
    "a range is cut in any order": 45,
    "what is written takes no wires": 86,
    "siblings write the same elements": 323,
    "what is read is drained": 1351,
}


# Those about tensors that statements touch by several accesses: (right, wrong), and the seed that sees it.
MISTAKES_OF_SEVERAL = {
    "any access says what stays": ("    return whole\n", "    return accesses_of(main, name)[0]\n", 135),
    "loops that an access lacks or has are alike": ("not axes & set(loops))", "True)", 287),
    "siblings hold all": (
        "is_same = not any(isinstance(node, Spatial) for node in chain) and not",
        "is_same = not",
        1261,
    ),
}


@pytest.mark.parametrize("name", MISTAKES_OF_SEVERAL)
def test_a_mistake_in_what_several_accesses_touch_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, seed = MISTAKES_OF_SEVERAL[name]
    case = fused_case(random.Random(f"several {seed}"), (*OF_ITSELF, HEADS, PARTS, HEADS[:2], SAME))
    assert count_closed_form(*case) in (None, seen_by(case, right, wrong, monkeypatch))


def test_a_loop_over_a_part_of_what_is_read_through_a_window_is_not_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    case = fused_case(random.Random("windows 877"), IN_TILES)
    truth = count_by_simulation(*case)
    assert count_closed_form(*case) in (None, truth)
    right = "cut = {node.dim for node in (*run.spread, *chain) if isinstance(node, Temporal | Spatial)}"
    with_mistake(right, "cut = set()", monkeypatch)
    assert count_closed_form(*case) not in (None, truth)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_formulas_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mistake(*MISTAKES[name], monkeypatch)
    for seed in (SEEN.get(name, 0), *range(3_000)):
        case = fused_case(random.Random(f"fused {seed}"))
        try:
            found = count_closed_form(*case)
        except (AssertionError, KeyError, ValueError, TypeError):
            return
        if found is not None and found != count_by_simulation(*case):
            return
    pytest.fail("no tree sees it")


def with_mistake(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutant_of(branches, right, wrong, monkeypatch)
    for part in ("BranchCounter", "IntegerRuns", "OutOfReach"):
        monkeypatch.setattr(counts, part, mutant[part])


def seen_by(
    case: tuple[Workload, Architecture, Mapping], right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> Counts:
    """Return what the simulator counts of a case, of which the formulas with a mistake count something else."""
    truth = count_by_simulation(*case)
    with_mistake(right, wrong, monkeypatch)
    assert count_closed_form(*case) not in (None, truth)
    return truth
