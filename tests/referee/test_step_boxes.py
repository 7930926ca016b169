"""Bounds of latencies in steps by boxes of storage nodes against all trees, each counted step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf, prod

import numpy as np
import pytest

from polymap.costmodel import evaluate
from polymap.costmodel.referees import StepBoxes, held_apart, tree_of_boxes
from polymap.costmodel.referees.step_boxes import Floats, HeldTensors, Ints
from polymap.explore import explore, provers
from polymap.inputs import load_arch
from polymap.ir import (
    Affine,
    Architecture,
    Compute,
    ComputeUnit,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    PolymapError,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.search.options import Options
from polymap.search.provers import read_question
from polymap.search.relatives import Starts, go_on_with_boxes
from polymap.workload import einsum
from tests.referee.all_trees import all_trees
from tests.referee.test_timed_search import small_layer


def loading_machine(rng: random.Random) -> Architecture:
    """Return a machine that holds A and B in one level, whose tiles are loaded in every step, and C in another one."""
    rates = [None, *map(Fraction, (1, 2, 8))]
    dram = MemoryLevel(
        "DRAM",
        bandwidth_bits_per_cycle=Fraction(rng.choice([1, 4, 8, 24])),
        write_bandwidth_bits_per_cycle=rng.choice(rates),
        beat_bits=rng.choice([None, 8, 16, 32]),
        row_requests=rng.random() < 0.5,
        request_latency_cycles=Fraction(rng.choice([0, 3])),
        in_flight=rng.choice([None, 1]),
        one_bus=rng.random() < 0.7,
    )
    if rng.random() < 0.5:
        commands = {"command_bits": 8 * rng.choice([2, 3, 4]), "write_command_bits": 8 * rng.choice([1, 2, 4])}
        beats = {"beat_bits": 16, "request_bits": rng.choice([32, 64]), "base_offset_bits": rng.choice([0, 8])}
        dram = replace(dram, **commands, **beats)
    sums = MemoryLevel("Sums", capacity_bits=8 * rng.choice([2, 4, 9]), holds=("C",), must_hold=("C",), buffering=2)
    reads = MemoryLevel(
        "Buf",
        capacity_bits=8 * rng.choice([6, 12, 40]),
        step_cycles=Fraction(rng.choice([0, 5, 30])),
        buffering=rng.choice([1, 2]),
        keeps=False,
        holds=("A", "B"),
        must_hold=("A", "B"),
    )
    fanouts = [Fanout(name, rng.choice([2, 4])) for name in "XY" if rng.random() < 0.4]
    own = rng.choice("AB")
    register = MemoryLevel("Reg", capacity_bits=8 * rng.choice([1, 2]), holds=(own,), must_hold=(own,))
    outside = [sums, reads] if rng.random() < 0.6 else [reads, sums]
    levels = [dram, *outside, *fanouts, *([register] if rng.random() < 0.6 else [])]
    least, fill, preload = (Fraction(rng.choice([0, 4, most])) for most in (4, 4, 40))
    unit = ComputeUnit("MAC", pass_least_cycles=least, fill_cycles=fill, preload_cycles=preload)
    return Architecture("small", (*levels, unit), start_cycles=Fraction(rng.choice([0, 7])))


def bounded(seeds: Iterable[int], *, most_trees: int = 300) -> Counter[str]:
    """Hold the bounds by boxes to the least latency of all trees; return how many there were, and how many bounds, and
    trees made of boxes, are that one."""
    met: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        workload = small_layer(rng)
        arch = loading_machine(rng)
        held = held_apart(workload, arch)
        assert held is not None, seed
        trees = all_trees(workload, arch, "divide", legal=True)
        if not arch.is_timed_by_step or len(trees) > most_trees:
            continue
        costs = [cost for tree in sorted(trees, key=repr) if (cost := evaluate(workload, arch, tree)).legal]
        boxes = StepBoxes(workload, arch, held)
        bound, found = boxes.found(inf, lambda: False, most_pairs=10**6, per_pair=100)
        least = min((cost.latency_cycles for cost in costs), default=inf)
        assert bound <= least * (1 + 1e-9), seed
        made = [cost for one in found if (cost := evaluate(workload, arch, tree_of_boxes(boxes, one))).legal]
        assert all(cost.latency_cycles >= least for cost in made), seed
        met["bounded"] += 1
        met["exactly"] += least - 1 < bound
        met["found"] += min((cost.latency_cycles for cost in made), default=inf) == least
    return met


LAYERS = [
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 8, "n": 6, "k": 12}),
    ("C[n,m] += A[m,k] * B[n,k]", {"m": 4, "n": 16, "k": 9}),
    ("C[m] += A[2*m+k] * B[k]", {"m": 12, "k": 6}),
    ("C[n,m] += A[c,2*m+k] * B[n,c,k]", {"m": 6, "k": 4, "n": 4, "c": 4}),
    ("C[m,n] += A[m+k,c] * B[k,c,n]", {"m": 6, "k": 3, "n": 8, "c": 3}),
]


def random_tree(rng: random.Random, workload: Workload, arch: Architecture) -> Mapping:
    """Return a tree with loops of random sizes at random places; it may be illegal."""
    names = [(level.name, name) for level in arch.levels[1:] for name in level.must_hold]
    inner = [name for level, name in names if level == "Reg"]
    slots: list[MappingNode | str] = [Storage(level, (name,)) for level, name in names if level != "Reg"]
    rng.shuffle(slots)
    spread = [(fanout, rng.choice(sorted(workload.extents()))) for fanout in arch.fanouts]
    slots += [f"par {number}" for number in range(len(spread))]
    if rng.random() < 0.3:
        rng.shuffle(slots)
    slots += [Storage("Reg", (name,)) for name in inner]
    for dim in workload.extents():
        for _ in range(rng.choice([1, 2, 3])):
            slots.insert(rng.randrange(len(slots) + 1), dim)
    left, nodes = dict(workload.extents()), list[MappingNode]()
    for slot in slots:
        if not isinstance(slot, str):
            nodes.append(slot)
            continue
        fanout, dim = spread[int(slot[4:])] if slot.startswith("par ") else (None, slot)
        most = left[dim] if fanout is None else fanout.size
        trips = rng.choice([n for n in range(1, left[dim] + 1) if left[dim] % n == 0 and n <= most])
        if trips > 1:
            left[dim] //= trips
            nodes.append(Temporal(dim, left[dim]) if fanout is None else Spatial(dim, left[dim], fanout.name))
    nodes += [Temporal(dim, 1) for dim, size in left.items() if size > 1]
    return Mapping((*nodes, Compute("S")))


def boxes_of(workload: Workload, mapping: Mapping) -> dict[str, dict[str, int]]:
    """Return the boxes of a tree by tensors: of C that between two stores, further out than its node as long as loops
    are over other dims."""
    target = {dim for index in workload.statements[0].target.index for dim in index.dims}
    box, changed = dict(workload.extents()), dict(workload.extents())
    now, found = dict(workload.extents()), dict[str, dict[str, int]]()
    for node in mapping.nodes:
        if isinstance(node, Temporal):
            box[node.dim] //= now[node.dim] // node.tile
            changed = dict(box) if node.dim in target else changed
        if isinstance(node, Temporal | Spatial):
            now[node.dim] = node.tile
        if isinstance(node, Storage) and node.level != "Reg":
            found[node.tensors[0]] = dict(changed if node.tensors == ("C",) else box)
    return found


def with_room(node: ComputeUnit | Fanout | MemoryLevel) -> ComputeUnit | Fanout | MemoryLevel:
    return replace(node, capacity_bits=None) if isinstance(node, MemoryLevel) and node.name != "Reg" else node


def told_of(boxes: StepBoxes, held: HeldTensors, own: dict[str, dict[str, int]]) -> float:
    """Return what trees with these boxes take at least."""
    place = {name: boxes.table.T.tolist().index(list(box.values())) for name, box in own.items()}
    inner, outer = sorted(held.reads, key=lambda tensor: prod(own[tensor.name].values()))
    at, cycles = boxes.with_stores(inner, outer, place[inner.name], place[outer.name])
    return float(cycles[at == place["C"]].min())


def held_to_boxes(seeds: Iterable[int], trees: int) -> Counter[str]:
    """Hold what boxes say of random trees to their latencies; return how many there were, and how many are equal."""
    met: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        text, sizes = LAYERS[seed % len(LAYERS)]
        workload, arch = einsum(text, sizes=sizes, bits=8), loading_machine(rng)
        arch = replace(arch, nodes=tuple(with_room(node) for node in arch.nodes))
        held = held_apart(workload, arch)
        assert held is not None, seed
        boxes = StepBoxes(workload, arch, held)
        for number in range(trees):
            mapping = random_tree(rng, workload, arch)
            try:
                cost = evaluate(workload, arch, mapping)
            except PolymapError:
                continue
            if not cost.legal:
                continue
            own = boxes_of(workload, mapping)
            told = told_of(boxes, held, own)
            assert told <= cost.latency_cycles * (1 + 1e-9), (seed, number)
            met["bounded"] += 1
            met["exactly"] += cost.latency_cycles - 1 < told
    return met


def test_no_tree_takes_less_than_its_boxes_say() -> None:
    met = held_to_boxes(range(15), 12)
    assert met["bounded"] > 60
    assert met["exactly"] > 2


@pytest.mark.soak
def test_no_tree_of_more_problems_takes_less_than_its_boxes_say() -> None:
    assert held_to_boxes(range(15, 1000), 30)["bounded"] > 10_000


def always(boxes: StepBoxes, box: Ints, beyond: Ints) -> Floats:
    """A seeded mistake: each step changes what is beside the compute units."""
    return np.ones(np.broadcast(box, beyond, boxes.table[0, :1]).shape)


def longer(boxes: StepBoxes, index: Affine) -> Floats:
    """A seeded mistake: windows have an element more."""
    return along(boxes, index) + (len(index.coefficients()) > 1)


along = StepBoxes._along  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("name", "mistaken", "seed"), [("_share_anew", always, 9), ("_along", longer, 4)])
def test_mistaken_boxes_are_seen(monkeypatch: pytest.MonkeyPatch, name: str, mistaken: object, seed: int) -> None:
    assert held_to_boxes([seed], 12)["bounded"]
    monkeypatch.setattr(StepBoxes, name, mistaken)
    with pytest.raises(AssertionError):
        held_to_boxes([seed], 12)


def test_a_product_on_gemmini_is_proven_by_its_boxes() -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 64, "n": 64, "k": 64}, bits=8)
    found = explore(product, "gemmini_like", "latency", tiles="divide", time_limit_s=60)
    assert found.status == "OPTIMAL"
    assert found.value == found.bound


def test_a_bound_of_boxes_that_is_ended_early_says_nothing() -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 64, "n": 64, "k": 64}, bits=8)
    arch = load_arch("gemmini_like")
    held = held_apart(product, arch)
    assert held is not None
    assert StepBoxes(product, arch, held).found(inf, lambda: True, most_pairs=10**6, per_pair=1) == (0.0, [])
    calls = iter(range(100))
    late = StepBoxes(product, arch, held, lambda: next(calls, 100) >= 100)
    whole = StepBoxes(product, arch, held)
    assert not late.least_work.any(), "no kind of box was told"
    assert whole.least_work.all()
    assert late.found(1000.0, lambda: False, most_pairs=10**6, per_pair=1)[0] <= 4563, "a bound all the same"


def test_pairs_of_boxes_are_steps_of_a_search() -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 64, "n": 64, "k": 64}, bits=8)
    found = explore(product, "gemmini_like", "latency", tiles="divide", time_limit_s=600, work_limit=10)
    assert found.status == "FEASIBLE"
    assert found.work >= 10
    found = found.resume(600, None, 10**6)
    assert (found.status, found.value) == ("OPTIMAL", 4563), "boxes that limits ended are counted again"


def test_boxes_of_an_order_bound_its_latency_alone() -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 64, "n": 64, "k": 64}, bits=8)
    options = Options("lex:energy,latency", "divide", 600)
    asked, known = read_question(product, load_arch("gemmini_like"), options, provers)
    starts, found = go_on_with_boxes(asked, known, Starts((), ended=(1,)))
    assert not starts.ended
    assert found.floors == (known.floors[0], 4563), "no floor of cycles at the place of energy"


def test_no_bound_by_boxes_is_above_the_best_of_all_trees() -> None:
    met = bounded([2, 6, 7, 8, 10, 16, 23, 29])
    assert met["bounded"] == 8
    assert met["exactly"]
    assert met["found"] > 2


@pytest.mark.soak
def test_no_bound_by_boxes_is_above_the_best_of_all_trees_of_more_problems() -> None:
    met = bounded(range(12, 600), most_trees=1000)
    assert met["bounded"] > 300
