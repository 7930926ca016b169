"""Samples are uniform, their scores are those of `evaluate`, neighbours are legal."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.inputs.machines import arch_from_document
from polymap.inputs.presets import load_arch
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.schedules.uniform import uniform_trees
from polymap.search.trees.moves import distance, features, neighbours
from polymap.search.trees.samples import sample_mappings
from polymap.search.trees.scores import score
from polymap.workload.einsums import einsum
from polymap.workload.layers import matmul
from polymap.workload.networks import builtin_workload
from tests.referee.all_trees import all_trees
from tests.sample import one_node_per_tensor
from tests.times import few

_TWO_FANOUTS = Architecture(
    "small",
    (MemoryLevel("DRAM"), Fanout("X", 2), Fanout("Y", 3), MemoryLevel("L", holds=("@output", "A")), ComputeUnit("MAC")),
)
_TWO_GROUPS = Architecture(
    "groups",
    (
        MemoryLevel("DRAM"),
        Fanout("X", 2),
        MemoryLevel("L", must_hold=("@output",)),
        Fanout("Y", 2, dims=("k",)),
        MemoryLevel("R", holds=("A",)),
        ComputeUnit("MAC"),
    ),
)
_EACH = 40


@pytest.mark.parametrize(("price", "band"), [(1e-320, 1), (1e-5, 1e-30), (1e99, 8)])
def test_scores_of_machines_with_odd_numbers_are_those_of_evaluate(price: float, band: float) -> None:
    nodes = [
        {"level": "D", "beat_bits": 8 * 10**30, "bandwidth_bits_per_cycle": band},
        {"level": "B", "read_pj": price},
    ]
    for first in (nodes[0], {"level": "D", "bandwidth_bits_per_cycle": band}):
        arch = arch_from_document({"name": "odd", "nodes": [first, nodes[1], {"compute": "M"}]})
        workload = matmul(m=2, n=2, k=2)
        mappings = [Mapping((Storage("B", ("A",)), *(Temporal(dim, 1) for dim in "mnk"), Compute("S")))]
        scores, cost = score(workload, arch, mappings), evaluate(workload, arch, mappings[0])
        assert scores.latency_cycles[0] == cost.latency_cycles, "cycles beyond 64 bits too"
        assert scores.energy_pj[0] == pytest.approx(cost.energy_pj), "energies with any denominator"


def test_energies_whose_sums_are_beyond_floats_are_rounded_once() -> None:
    outer = MemoryLevel("D", read_pj=Fraction("2.0833333"), write_pj=Fraction("1.71"))
    inner = MemoryLevel("B", read_pj=Fraction("0.33"))
    arch = Architecture("long", (outer, inner, ComputeUnit("M", Fraction("0.1"))))
    workload = matmul(m=3**6, n=7**4, k=11**3)  # sums of 2^53 to 2^62 parts of a pJ
    sample = sample_mappings(workload, arch, _EACH)
    assert sample.scores().energy_pj.tolist() == [evaluate(workload, arch, each).energy_pj for each in sample]


@pytest.mark.parametrize(
    "text, sizes, arch",
    [
        ("C[m] += A[m,k]", {"m": 4, "k": 2}, _TWO_FANOUTS),
        ("y[] += A[k]", {"k": 6}, _TWO_FANOUTS),
        ("C[m] += A[m,k]", {"m": 2, "k": 2}, _TWO_GROUPS),
        ("y[] += A[k]", {"k": 4}, _TWO_GROUPS),
    ],
)
def test_every_legal_tree_is_equally_likely(text: str, sizes: dict[str, int], arch: Architecture) -> None:
    workload = einsum(text, sizes=sizes)
    legal = all_trees(workload, arch, "divide", legal=True)
    drawn = Counter(map(one_node_per_tensor, islice(uniform_trees(workload, arch, 3), _EACH * len(legal))))
    assert set(drawn) <= legal
    chi_square = sum((drawn[tree] - _EACH) ** 2 / _EACH for tree in legal)
    free = len(legal) - 1
    assert abs(chi_square - free) < 4 * (2 * free) ** 0.5


def test_the_share_that_fits_is_that_of_the_space() -> None:
    workload = einsum("C[m] += A[m,k]", sizes={"m": 4, "k": 2})
    level = MemoryLevel("L", capacity_bits=24, holds=("@output", "A"))
    arch = Architecture("small", (MemoryLevel("DRAM"), Fanout("X", 2), level, ComputeUnit("MAC")))
    legal = all_trees(workload, arch, "divide", legal=True)
    share = sum(evaluate(workload, arch, tree).legal for tree in legal) / len(legal)
    sample = sample_mappings(workload, arch, 4000, seed=1, within_capacity=True)
    assert 0 < share < 1
    assert len(sample) == 4000
    assert all(evaluate(workload, arch, tree).legal for tree in set(sample))
    assert abs(sample.rate - share) < 4 * (share * (1 - share) / sample.drawn) ** 0.5


def wired(arch: Architecture) -> Architecture:
    """Return the machine with energies of every kind on its fan-outs."""
    prices = {"pj_per_word": Fraction(3), "pj_per_word_hop": Fraction(1, 2), "reduce_pj": Fraction(1, 4)}
    nodes = (replace(node, **prices) if isinstance(node, Fanout) else node for node in arch.nodes)
    return replace(arch, nodes=tuple(nodes))


@pytest.mark.parametrize("name", ["flat3", "eyeriss_like", "simba_like", "cluster4", "tpu_like", "wired"])
@pytest.mark.parametrize("layer", ["resnet50.conv2_x", "product"])
@pytest.mark.parametrize("count", few([20, 50], 1))
def test_scores_are_the_costs(name: str, layer: str, count: int) -> None:
    workload = matmul(m=64, n=48, k=30) if layer == "product" else builtin_workload(layer)
    arch = wired(load_arch("cluster4")) if name == "wired" else load_arch(name)
    sample = sample_mappings(workload, arch, count, seed=5)
    found = sample.scores()
    for number, mapping in enumerate(sample):
        cost = evaluate(workload, arch, mapping)
        assert found.energy_pj[number] == cost.energy_pj
        assert found.latency_cycles[number] == cost.latency_cycles
        assert found.fits[number] == cost.legal
        assert [bits[number] for _, bits in found.occupancy_bits] == [bits for _, bits in cost.occupancy_bits]


def test_scores_of_tiles_that_do_not_divide_are_the_costs_too() -> None:
    from random import Random

    from tests.sample import sample_mapping

    workload, arch, rng = matmul(m=7, n=5, k=6), load_arch("flat3"), Random(2)
    mappings = [sample_mapping(workload, arch, "any", rng) for _ in range(60)]
    found = score(workload, arch, mappings)
    costs = [evaluate(workload, arch, mapping) for mapping in mappings]
    assert found.energy_pj.tolist() == [cost.energy_pj for cost in costs]
    assert found.latency_cycles.tolist() == [cost.latency_cycles for cost in costs]


def test_samples_are_repeatable_and_the_seed_matters() -> None:
    workload, arch = matmul(m=8, n=8, k=8), load_arch("flat3")
    one, again, other = (sample_mappings(workload, arch, 20, seed=seed) for seed in (1, 1, 2))
    assert one.mappings == again.mappings != other.mappings


def test_neighbours_are_legal_and_neighbours_of_each_other() -> None:
    workload, arch = matmul(m=8, n=8, k=8), load_arch("flat3")
    (mapping,) = sample_mappings(workload, arch, 1, seed=4)
    near = neighbours(workload, arch, mapping)
    assert len(near) > 5
    assert mapping not in near
    for other in near:
        assert {violation.kind for violation in evaluate(workload, arch, other).violations} <= {"capacity"}
    assert distance(workload, arch, mapping, mapping) == 0
    assert all(len(features(workload, arch, other)) == len(features(workload, arch, mapping)) for other in near)
    assert np.median([distance(workload, arch, mapping, other) for other in near]) < 10


@pytest.mark.parametrize(("n", "tiles", "message"), [(0, "divide", "n is 0"), (3, "any", "tiles is 'any'")])
def test_what_cannot_be_drawn_is_said(n: int, tiles: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sample_mappings(matmul(m=2, n=2, k=2), load_arch("flat3"), n, tiles=tiles)
