"""No tree of a tiny program of several statements moves fewer words, or takes less time, than is proven: all of them,
written out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count, islice
from math import prod
from time import process_time

import pytest

import polymap as pm
from polymap.explore import explore, provers
from polymap.ir import Architecture, Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal, Workload
from polymap.ir.errors import MappingError
from polymap.resources import never
from polymap.schedules.check import check_mapping
from polymap.search import forms, legs, program_provers, refunds
from polymap.search.options import Options
from polymap.search.provers import read_question
from tests.referee.all_fused import Program, Tree, Walk, least_price, least_words, places_of, trees
from tests.times import few

CHAINS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m] += T[m,n] * V[n]"),
    ("S[m,n] += A[m,k] * B[k,n]", "M[m] max= S[m,n]", "P[m,n] = S[m,n] - M[m]"),
    ("S[m,n] = A[m] * B[n]", "M[m] max= S[m,n]", "P[m,n] = S[m,n] - M[m]", "E[m] += P[m,n] * V[n]"),
    ("T[m,n] = A[m,n] * W[n]", "U[m,n] = max(T[m,n], 0)", "E[m,k] += U[m,n] * D[n,k]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,n] += A[m,k] * D[k,n]", "E[m,n] = T[m,n] * U[m,n]"),
    ("A[m,k] = X[m] * Y[k]", "T[m,n] += A[m,k] * B[k,n]", "U[m,n] += A[m,k] * D[k,n]", "E[m,n] = T[m,n] * U[m,n]"),
)
TWO_READERS = CHAINS[-2:]
TWO_PRODUCTS = ("T[m,n] = A[m] * B[n]", "U[m,n] = A[m] * D[n]")  # through two words: A beside B or D, not both
ONE_DIM = (  # m and n of the first statement are one dim of as many indices, not those of the second
    ("T[m,n] += A[k] * B[m,n,k]", "E[m] += T[m,n] * V[n]"),
    ("T[m,n] += A[k] * B[m,n,k]", "E[m,p] += T[m,n] * D[n,p]"),
)
MET = (  # the last statement meets S, which it does not touch
    ("S[m,n] = A[m] * B[n]", "P[m,n] = S[m,n] * D[n]", "E[m,k] += P[m,n] * V[n,k]"),
    ("S[m,n] += A[m,k] * B[k,n]", "P[n] += S[m,n] * D[m]", "E[k] += P[n] * V[n,k]"),
    ("S[m] += A[m,k] * B[k]", "P[m,n] = S[m] * D[n]", "E[k,n] += P[m,n] * V[m,k]"),
)
ATTENTION = (
    "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
    "M[h,m] max= S[h,m,n]",
    "P[h,m,n] = S[h,m,n] - M[h,m]",
    "L[h,m] += P[h,m,n]",
    "C[h,m,e] += P[h,m,n] * V[h,n,e]",
    "Z[h,m,e] = C[h,m,e] * L[h,m]",
)
MOST_POINTS = 24  # instances of all statements
FAR = {"word_bits": 8, "read_pj": 5, "write_pj": 5}


def drawn(seed: int, most_points: int = MOST_POINTS, chains: Sequence[tuple[str, ...]] = CHAINS) -> tuple[Program, int]:
    """Return a program and the words of a buffer."""
    rng = random.Random(f"all fused {seed}")
    while True:
        texts = rng.choice(chains)
        names = "mnkp" if "p" in texts[1] else "mnk" if any("k" in text for text in texts) else "mn"
        temporary = "".join(text[0] for text in texts[:-1])
        program = Program(texts, tuple((name, rng.choice((1, 2, 2, 3, 4))) for name in names), temporary)
        extents = dict(program.sizes)
        points = (prod(extents[dim] for dim in program.dims(number)) for number in range(len(texts)))
        if sum(points) <= most_points:
            return program, rng.randint(3, 16)


def question(program: Program, room: int, lanes: int = 1, speed: int | None = None) -> tuple[Workload, Architecture]:
    """Return a program and its machine. lanes: of a fan-out below the buffer; speed: bits a cycle outside it."""
    nodes = [
        {"level": "DRAM"} if speed is None else {"level": "DRAM", **FAR, "bandwidth_bits_per_cycle": speed},
        {"level": "Buf", "capacity_bits": 8 * room},
        *([{"fanout": "X", "size": lanes, "reduction": True}] if lanes > 1 else []),
        {"compute": "PE", "pj": 0 if speed is None else 1},
    ]
    arch = pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})
    sizes = dict(program.sizes)
    return pm.program(list(program.texts), sizes=sizes, temporary=list(program.temporary), bits=8), arch


def as_nodes(tree: Tree, places: dict[str, frozenset[int]]) -> tuple[MappingNode, ...]:
    here = tuple(name for name, own in places.items() if id(tree) in own)
    stores = (Storage("Buf", here),) if here else ()
    if tree[0] == "run":
        return (*stores, Compute(f"S{tree[1]}"))
    if tree[0] == "branch":
        return (*stores, Branch(tuple(as_nodes(child, places) for child in tree[1])))
    loop = Temporal(tree[1], tree[2]) if tree[0] == "loop" else Spatial(tree[1], tree[2], "X")
    return (*stores, loop, *as_nodes(tree[3], places))


@pytest.mark.parametrize(("seed", "lanes"), few([(seed, 1 + seed % 3) for seed in range(60)], 6))
def test_the_referee_counts_what_the_simulator_counts(seed: int, lanes: int) -> None:
    rng, (program, _) = random.Random(seed), drawn(seed)
    work, arch = question(program, 10**6, lanes, 8)
    every = trees(program, tuple(range(len(program.texts))), dict(program.sizes), lanes=lanes)
    for tree in rng.choices(list(islice(every, 3_000)), k=4):
        places = {name: rng.choice(list(places_of(program, tree, name))) for name in program.tensors()}
        walks = {name: Walk(program, tree, name, own) for name, own in places.items()}
        cost = pm.simulate(work, arch, Mapping(as_nodes(tree, places)))
        rows = {row.tensor: row.reads + row.writes for row in cost.traffic if row.level == "DRAM"}
        assert rows == {name: walk.words for name, walk in walks.items()}, "words that the outermost level moves"
        taken = max(map(sum, zip(*(walk.taken for walk in walks.values()), strict=True)))
        assert 8 * taken >= dict(cost.occupancy_bits)["Buf"], "a tree that fits here fits there"
        steps, words = len(next(iter(walks.values())).taken), sum(walk.words for walk in walks.values())
        assert (cost.latency_cycles, cost.energy_pj_exact) == (max(steps, words), 5 * words + cost.instances)


def test_a_node_may_stand_around_some_of_the_children_of_a_branch() -> None:
    program = Program(CHAINS[2], (("m", 1), ("n", 3), ("k", 2)), "SM")  # M around the last two, where A has left
    work, arch = question(program, 3)
    assert explore(work, arch, "traffic:DRAM", tiles="divide").value == 8 * least_words(program, 3) == 160


def floors(program: Program, room: int, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Return the words that no tree moves fewer than, by the nests alone and by cases."""
    monkeypatch.setattr(refunds, "dividing_legs", lambda *_: True)  # as of programs that are too large to be climbed
    asked, known = read_question(
        *question(program, room), Options("traffic:DRAM", "divide", clock=process_time), provers
    )
    steps = count()
    by_nests = refunds.bound_by_refunds(asked, known, never).floors[0]
    return float(by_nests) / 8, float(refunds.bound_by_cases(asked, known, lambda: next(steps) > 200).floors[0]) / 8


@pytest.mark.parametrize("seed", few(range(300), 2, late=(1, 2, 3, 4, 5)))
def test_no_tree_moves_less_than_is_proven(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program, room = drawn(seed)
    by_nests, by_cases = floors(program, room, monkeypatch)
    least = least_words(program, room)
    assert least >= 0, "everything may pass by the buffer"
    assert by_nests <= by_cases <= least, "no tree moves less, and cases say no less than nests alone"


@pytest.mark.parametrize("seed", few(range(400), 4, late=(3, 4)))
def test_no_tree_takes_less_time_than_is_proven(seed: int) -> None:
    rng, (program, room) = random.Random(f"timed {seed}"), drawn(seed, 12)
    lanes, speed, objective = rng.choice((1, 2, 3, 4)), rng.choice((4, 8, 24)), rng.choice(("latency", "edp", "ed2p"))
    work, arch = question(program, room, lanes, speed)
    power = {"latency": None, "edp": 1, "ed2p": 2}[objective]

    def price(steps: int, words: int) -> int:
        cycles = max(steps, -(-8 * words // speed))
        return cycles if power is None else (5 * words + work.instances_of_boxes()) * cycles**power

    answer = explore(work, arch, objective, tiles=rng.choice(("divide", "any")), work_limit=20, time_limit_s=60)
    least = least_price(program, room, lanes, price)
    assert answer.bound <= least, "no tree of dividing tiles costs less"
    assert answer.value is not None, "everything may pass by the buffer"
    assert answer.status != "OPTIMAL" or answer.space.name or answer.value <= least


def held_by_siblings(program: Program, lanes: int, room: int) -> tuple[Workload, Architecture]:
    """Return a program and a machine of lanes with so many words each, right below the outermost level."""
    far = {"level": "DRAM", "word_bits": 8, "read_pj": 10, "write_pj": 10}
    own = {"level": "Buf", "word_bits": 8, "capacity_bits": 8 * room}
    nodes = [far, {"fanout": "X", "size": lanes, "reduction": True}, own, {"compute": "PE", "pj": 1}]
    sizes = dict(program.sizes)
    work = pm.program(list(program.texts), sizes=sizes, temporary=list(program.temporary), bits=8)
    return work, pm.io.arch_from_document({"name": "lanes", "nodes": nodes})


def floor_of_siblings(program: Program, lanes: int, room: int, monkeypatch: pytest.MonkeyPatch) -> Fraction:
    """Return what no tree costs less than, as of a program that is too large to be climbed."""
    monkeypatch.setattr(refunds, "dividing_legs", lambda *_: True)
    options = Options("energy", "divide", clock=process_time)
    asked, known = read_question(*held_by_siblings(program, lanes, room), options, provers)
    return refunds.bound_by_refunds(asked, known, never).floors[0]


def below_lanes(program: Program, tree: Tree, tensor: str) -> list[frozenset[int]]:
    """Return where the nodes of a tensor may stand with all lanes above them."""

    def goes_on(part: Tree) -> bool:
        inside = part[1] if part[0] == "branch" else part[3:] if part[0] != "run" else ()
        return part[0] == "lanes" or any(map(goes_on, inside))

    def parts(part: Tree) -> list[Tree]:
        inside = part[1] if part[0] == "branch" else part[3:] if part[0] != "run" else ()
        return [part, *(each for child in inside for each in parts(child))]

    inner = {id(part) for part in parts(tree) if not goes_on(part)}
    return [places for places in islice(places_of(program, tree, tensor), 60) if places <= inner]


@pytest.mark.parametrize("seed", few(range(80), 3))
def test_no_tree_whose_siblings_hold_what_passes_costs_less_than_is_proven(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, (program, room) = random.Random(f"siblings {seed}"), drawn(seed)
    lanes, room = rng.choice((2, 3, 4)), rng.randint(1, min(6, room))
    floor = floor_of_siblings(program, lanes, room, monkeypatch)
    work, arch = held_by_siblings(program, lanes, room)
    every = list(islice(trees(program, tuple(range(len(program.texts))), dict(program.sizes), lanes=lanes), 3_000))
    for tree in rng.choices(every, k=60):
        places = {name: rng.choice(below_lanes(program, tree, name)) for name in program.tensors()}
        mapping = Mapping(as_nodes(tree, places))
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        cost = pm.simulate(work, arch, mapping)
        assert not cost.legal or cost.energy_pj_exact >= floor
    found = explore(work, arch, "energy", tiles="divide", work_limit=20, time_limit_s=60)
    assert found.value is None or found.value >= floor


def test_siblings_cut_only_dims_of_all_that_share_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two words: a sibling with T of two rows has none for E, and p is not spread above T."""
    sizes = (("m", 4), ("n", 4), ("k", 2), ("p", 4))
    floor = floor_of_siblings(Program(CHAINS[0], sizes, "T"), 4, 2, monkeypatch)
    wide = floor_of_siblings(Program(CHAINS[0], sizes, "T"), 4, 3, monkeypatch)
    assert (floor, wide) == (1216, 736)
    work, arch = held_by_siblings(Program(CHAINS[0], sizes, "T"), 4, 3)
    found = explore(work, arch, "energy", tiles="divide", work_limit=100, time_limit_s=60).value
    assert found is not None
    assert found >= wide
    monkeypatch.setattr(refunds.Cases, "_own_dims", lambda *_: [])
    assert floor_of_siblings(Program(CHAINS[0], sizes, "T"), 4, 2, monkeypatch) == 976, "less without the rule"
    monkeypatch.setattr(refunds.Cases, "_own_dims", lambda _cases, own, _tensor: list(own.dims))
    assert floor_of_siblings(Program(CHAINS[0], sizes, "T"), 4, 3, monkeypatch) > found, "rows of T may be cut"


def floor_of_product(program: Program, room: int, lanes: int, speed: int, objective: str) -> tuple[Fraction, Fraction]:
    """Return what no tree costs less than by the nests alone, and with transfers priced."""
    asked, known = read_question(
        *question(program, room, lanes, speed), Options(objective, "divide", clock=process_time), provers
    )
    known, steps = known.with_incumbents(asked.written()), count()
    by_nests = refunds.bound_by_refunds(asked, known, never).floors[0]
    return by_nests, refunds.bound_by_cases(asked, known, lambda: next(steps) > 200).floors[0]


@cache
def least_product(program: Program, room: int, lanes: int, speed: int, power: int) -> int:
    """Return the least product of energy and a power of the cycles of any tree."""
    points = question(program, room)[0].instances_of_boxes()

    def price(steps: int, words: int) -> int:
        return (5 * words + points) * max(steps, -(-8 * words // speed)) ** power

    return least_price(program, room, lanes, price)


@pytest.mark.parametrize("seed", few(range(200), 3))
def test_no_product_is_less_where_transfers_are_priced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (refunds, legs):
        monkeypatch.setattr(module, "dividing_legs", lambda *_: True)
    rng, (program, room) = random.Random(f"priced {seed}"), drawn(seed, 12)
    lanes, speed, power = rng.choice((1, 2, 4)), rng.choice((4, 8, 24)), rng.choice((1, 2))
    by_nests, priced = floor_of_product(program, room, lanes, speed, {1: "edp", 2: "ed2p"}[power])
    assert by_nests <= priced <= least_product(program, room, lanes, speed, power)


def test_a_price_of_which_half_is_charged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    program, halved = Program(CHAINS[1], (("m", 2), ("n", 2), ("k", 2)), "T"), forms.with_time_priced
    assert floor_of_product(program, 16, 4, 4, "edp")[1] <= least_product(program, 16, 4, 4, 1)
    monkeypatch.setattr(
        refunds, "with_time_priced", lambda *asked: ((arch, price / 2) for arch, price in halved(*asked))
    )
    assert floor_of_product(program, 16, 4, 4, "edp")[1] > least_product(program, 16, 4, 4, 1)


def test_products_are_bounded_before_a_tree_is_known() -> None:
    program = Program(CHAINS[1], (("m", 2), ("n", 2), ("k", 2)), "T")
    asked, nothing = read_question(*question(program, 16, 4, 4), Options("edp", "divide", clock=process_time), provers)
    assert not nothing.incumbents
    floor = refunds.bound_by_cases(asked, nothing, never).floors[0]
    assert 0 < floor == refunds.bound_by_refunds(asked, nothing, never).floors[0]
    assert floor <= floor_of_product(program, 16, 4, 4, "edp")[1] <= least_product(program, 16, 4, 4, 1)


def floor_by_stays(program: Program, room: int, lanes: int, speed: int, objective: str) -> Fraction:
    """Return what no tree costs less than by where tensors stand, transfers of the buffer for nothing."""
    asked, known = read_question(
        *question(program, room, lanes, speed), Options(objective, "divide", clock=process_time), provers
    )
    known = known.with_incumbents(asked.written())
    return program_provers.bound_times(asked, known, never).floors[0]


@pytest.mark.parametrize("seed", few(range(400), 4, late=(3, 4, 5)))
def test_no_tree_takes_less_time_where_tensors_stand(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (refunds, legs):
        monkeypatch.setattr(module, "dividing_legs", lambda *_: True)
    rng, (program, room) = random.Random(f"stays {seed}"), drawn(seed, 12)
    lanes, speed, power = rng.choice((1, 2, 3, 4)), rng.choice((4, 8, 24)), rng.choice((0, 1, 2))
    points = question(program, room)[0].instances_of_boxes()

    def price(steps: int, words: int) -> int:
        cycles = max(steps, -(-8 * words // speed))
        return (5 * words + points) * cycles**power if power else cycles

    floor = floor_by_stays(program, room, lanes, speed, ("latency", "edp", "ed2p")[power])
    assert floor <= least_price(program, room, lanes, price)


def test_half_of_a_box_takes_no_more_steps_than_it_has_instances() -> None:
    halves = ("T[i][j] = A[i][j] * 2;", "E[i][j] = T[i][j] * B[i][j];")
    loops = (f"for (int i = 0; i < 8; i++) for (int j = 0; j <= i; j++) {text}" for text in halves)
    text = f"void f(float T[8][8], float A[8][8], float B[8][8], float E[8][8]) {{ {' '.join(loops)} }}"
    arch = question(Program(CHAINS[1], (("m", 2), ("n", 2), ("k", 2)), "T"), 64, speed=10**6)[1]
    asked, known = read_question(pm.from_c(text), arch, Options("latency", "divide", clock=process_time), provers)
    assert program_provers.bound_times(asked, known, never).floors[0] <= 2 * 36


def test_cases_of_which_all_is_known_end_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    program, asks = Program(CHAINS[3], (("m", 2), ("n", 2)), "SMP"), count()
    asked, known = read_question(*question(program, 16, speed=8), Options("latency", clock=process_time), provers)
    monkeypatch.setattr(refunds.Refunds, "least", lambda *_: (Fraction(0), {}))
    monkeypatch.setattr(refunds.Refunds, "know", lambda *_: False)
    program_provers.bound_times(asked, known, lambda: next(asks) >= 3)
    assert next(asks) == 4, "the stop is asked for each case, and no more once it is over"


def test_a_level_that_is_said_to_be_slower_than_it_is_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    program, width = Program(CHAINS[1], (("m", 2), ("n", 2), ("k", 2)), "T"), forms.bits_per_cycle
    least = least_price(program, 16, 4, lambda steps, words: max(steps, -(-8 * words // 4)))
    assert floor_by_stays(program, 16, 4, 4, "latency") == least
    monkeypatch.setattr(program_provers, "bits_per_cycle", lambda *asked: width(*asked) / 2)
    assert floor_by_stays(program, 16, 4, 4, "latency") > least


def floor_in_parts(program: Program, room: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the words that no tree moves fewer than, half of what two statements load alike charged to each."""
    monkeypatch.setattr(refunds, "dividing_legs", lambda *_: True)
    asked, _ = read_question(*question(program, room), Options("traffic:DRAM", "divide", clock=process_time), provers)
    cases = replace(refunds.Cases.of(asked, asked.objective), in_parts=refunds.read_in_parts(asked))
    passed = legs.passed_tensors(asked.workload)
    assert passed is not None, "T and U pass"
    assert list(cases.in_parts) == ["A"]
    return float(max(refunds.Refunds(cases, never).sums(passed, 8))) / 8


@pytest.mark.parametrize("seed", few(range(60), 2, late=(0, 1)))
def test_no_tree_moves_less_than_is_charged_in_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program, room = drawn(seed, chains=TWO_READERS)
    assert floor_in_parts(program, room, monkeypatch) <= least_words(program, room)


def test_loads_that_are_charged_to_both_readers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    program, room = Program(TWO_READERS[0], (("m", 2), ("n", 2), ("k", 1)), "TU"), 8
    assert floor_in_parts(program, room, monkeypatch) <= least_words(program, room) == 10, "each tensor passes once"
    monkeypatch.setattr(legs, "_with_loads_in_parts", lambda component, *_: component)
    monkeypatch.setattr(legs, "lcm", lambda *_: 1)
    assert floor_in_parts(program, room, monkeypatch) > 10


def cases_of_two_products(program: Program, room: int, monkeypatch: pytest.MonkeyPatch) -> refunds.Cases:
    """Return the cases of two products of A, half of whose loads are charged to each."""
    monkeypatch.setattr(refunds, "dividing_legs", lambda *_: True)
    asked, _ = read_question(*question(program, room), Options("traffic:DRAM", "divide", clock=process_time), provers)
    cases = refunds.Cases.of(asked, asked.objective)
    return replace(cases, once={"S0": (), "S1": ()}, in_parts=refunds.read_in_parts(asked))


def words_where(cases: refunds.Cases, *inside: str) -> list[float]:
    """Return the words of both products where the node of A that they share stands in the buffer, and nothing that one
    of these alone touches stands around loops around it; the last one's of the second product."""
    told = [refunds.Stay(0, shared=(1, each)) for each in (inside[0], inside[-1])]
    found = (cases.alone(name, {"A": stay}) for name, stay in zip(("S0", "S1"), told, strict=True))
    return [float(each) / 8 for each in found if each is not None]


@pytest.mark.parametrize("sizes", ((4, 2), (4, 3), (6, 2)))
def test_one_of_two_readers_that_share_a_full_level_has_nothing_around(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(TWO_PRODUCTS, tuple(zip("mn", sizes, strict=True)), "")
    cases = cases_of_two_products(program, 2, monkeypatch)
    least = least_words(program, 2, shared="A")
    floor = min(sum(words_where(cases, "S0")), sum(words_where(cases, "S1")))
    free = sum(float(cases.alone(name, {}) or 0) / 8 for name in ("S0", "S1"))
    assert free < floor <= least, "more than where both may, no more than any tree"
    assert sum(words_where(cases, "S0", "S1")) > least, "a floor of which both have nothing around is seen"


@pytest.mark.parametrize("seed", few(range(60), 4))
def test_no_tree_moves_less_than_is_proven_where_dims_are_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program, room = drawn(seed, chains=ONE_DIM)
    assert floors(program, room, monkeypatch)[1] <= least_words(program, room)


def test_what_is_left_of_one_dim_for_all_that_are_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(ONE_DIM[0], (("m", 2), ("n", 2), ("k", 2)), "T")
    assert floors(program, 3, monkeypatch)[1] <= least_words(program, 3) == 18
    monkeypatch.setattr(forms, "_left_of_all", lambda rule, *_: (rule.least, rule.most))
    assert floors(program, 3, monkeypatch)[1] > 18


@pytest.mark.parametrize("seed", (1, 14))
def test_sums_do_not_fall_where_nothing_is_found_in_time_of_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = refunds.Cases.alone

    def in_time(cases: refunds.Cases, statement: str, where: refunds.Stays) -> Fraction | None:
        is_part = any(stay.wider is not None for stay in where.values())
        return Fraction(0) if is_part else alone(cases, statement, where)

    monkeypatch.setattr(refunds, "dividing_legs", lambda *_: True)
    monkeypatch.setattr(refunds.Cases, "alone", in_time)
    asked, _ = read_question(*question(*drawn(seed)), Options("traffic:DRAM", "divide", clock=process_time), provers)
    passed = legs.passed_tensors(asked.workload)
    assert passed is not None, "something passes"
    sums = [*refunds.Refunds(refunds.Cases.of(asked, asked.objective), never).sums(passed, 8)]
    assert sums == sorted(sums), "a part of a case costs no less than the case"
    assert sums[0] < sums[-1], "what is known of whole cases says more than what is known of statements"


@pytest.mark.parametrize("seed", few(range(200), 3))
def test_no_tree_moves_less_than_is_proven_where_a_node_is_met(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program, room = drawn(seed, 16, MET)
    by_nests, by_cases = floors(program, room, monkeypatch)
    assert by_nests <= by_cases <= least_words(program, room)


def attention() -> tuple[Workload, Architecture, Mapping]:
    """Return attention of BERT-base and a tree of it on eyeriss_like: 128 rows at a time, so that V comes four times,
    64 keys in the registers of siblings while all these rows pass."""
    sizes = {"h": 12, "m": 512, "n": 512, "e": 64}
    work = pm.program(list(ATTENTION), sizes=sizes, temporary=list("SMPLC"), bits=8)
    columns, keys = (Spatial("e", 8, "Y"), Spatial("e", 1, "X")), (Spatial("n", 8, "Y"), Spatial("n", 1, "X"))
    q, k, v, p = Storage("IRF", ("Q",)), Storage("WRF", ("K",)), Storage("WRF", ("V",)), Storage("PRF", ("P",))
    row, key = Temporal("m", 1), Temporal("n", 1)
    scores = (Storage("GLB", ("Q",)), Temporal("n", 256), *columns, k, row, q, key, Compute("S0"))
    weights = Branch(((Compute("S2"),), (Compute("S3"),), (Temporal("e", 1), Compute("S4"))))
    sums = (Temporal("n", 64), *keys, v, row, p, weights)
    legs = (scores, (row, Temporal("n", 64), *keys, Compute("S1")), sums, (row, *columns, Compute("S5")))
    around = (Temporal("h", 1), Temporal("m", 128), Storage("GLB", ("S", "M", "L", "C")))
    return work, pm.load_arch("eyeriss_like"), Mapping((*around, Branch(legs)))


def sums_of_attention(splits: int) -> tuple[list[float], float]:
    """Return what no tree of attention costs less than, so many cases being split, and what one costs."""
    work, arch, tree = attention()
    asked, _ = read_question(work, arch, Options("energy", "divide", clock=process_time), provers)
    passed = legs.passed_tensors(work)
    assert passed is not None, "all but Q, K, V and Z passes"
    sums = refunds.Refunds(refunds.Cases.of(asked, asked.objective), never).sums(passed, splits)
    return [float(each) for each in sums], float(pm.evaluate(work, arch, tree).energy_pj_exact)


def test_what_is_loaded_below_a_node_that_is_met_is_loaded_as_often() -> None:
    sums, cost = sums_of_attention(2)
    assert sums[0] < 0.8 * cost, "where scores stand is not known"
    assert 0.99 * cost < sums[-1] <= cost, "scores of 128 rows stand around the sums over V"


def test_a_node_that_is_only_met_inside_another_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = refunds.sides_of
    monkeypatch.setattr(refunds, "sides_of", lambda *asked: next(([each] for each in sides(*asked)), []))
    sums, cost = sums_of_attention(2)
    assert sums[-1] > cost
