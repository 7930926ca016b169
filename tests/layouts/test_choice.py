"""The choice of layouts over a network: against every combination, and on networks worked by hand."""

from __future__ import annotations

import random
from itertools import product

import pytest

import polymap as pm
from polymap.layouts.assignment import solved
from polymap.layouts.boundaries import Boundary, Use, chosen_layout
from polymap.layouts.layout import Layout
from polymap.networks import MappedNode, Part, network_of_nodes

LAYOUTS = tuple(Layout(tuple((axis, 0) for axis in order)) for order in ((0, 1, 2), (0, 2, 1), (2, 1, 0)))


def random_boundary(rng: random.Random) -> Boundary:
    """Return a tensor with up to three consumers, in two or three layouts, with costs of one to six digits."""
    count = rng.choice((2, 3))

    def use(name: str) -> Use:
        return Use(name, "T", tuple(rng.randrange(10 ** rng.randrange(1, 7)) for _ in range(count)))

    most = 10 ** rng.randrange(1, 7)
    conversions = tuple(
        tuple(0 if one == other else rng.randrange(most) for other in range(count)) for one in range(count)
    )
    return Boundary(use("p"), tuple(use(f"c{n}") for n in range(rng.randrange(1, 4))), LAYOUTS[:count], conversions)


def least(boundary: Boundary) -> int:
    every = range(len(boundary.layouts))
    return min(
        chosen_layout(boundary, written, read).bursts
        for written in every
        for read in product(every, repeat=len(boundary.consumers))
    )


def test_the_chosen_layouts_cost_least_of_all_combinations() -> None:
    rng = random.Random(5)
    for _ in range(40):
        boundaries = [random_boundary(rng) for _ in range(rng.randrange(1, 5))]
        chosen, bound, status = solved(boundaries, 20)
        assert status == "OPTIMAL"
        assert sum(each.bursts for each in chosen) == bound == sum(map(least, boundaries))


def test_a_conversion_is_paid_once_for_all_who_read_it() -> None:
    # Written in the first layout for nothing; both readers save 10 in the second, which costs 15 to make.
    free, dear = Use("p", "T", (0, 100)), (10, 0)
    boundary = Boundary(free, (Use("a", "T", dear), Use("b", "T", dear)), LAYOUTS[:2], ((0, 15), (15, 0)))
    (chosen,), bound, _ = solved([boundary], 20)
    assert (bound, chosen.converted) == (15, (LAYOUTS[1],))
    alone = Boundary(free, (Use("a", "T", dear),), LAYOUTS[:2], ((0, 15), (15, 0)))
    assert solved([alone], 20)[1] == 10


def residual_network() -> pm.Network:
    """Return two pointwise convolutions, and the sum of the second with what the first made."""
    first = pm.conv2d(K=8, C=4, H=4, W=4, R=1, S=1, name="first")
    second = pm.conv2d(K=8, C=8, H=4, W=4, R=1, S=1, name="second")
    added = pm.einsum("Y[n,k,p,q] += A[n,k,p,q] * B[n,k,p,q]", n=1, k=8, p=4, q=4, name="added")
    nodes = [MappedNode(each.name, "op", (Part(each, True),)) for each in (first, second, added)]
    edges = [("first", "second"), ("second", "added"), ("first", "added"), ("first", "view")]
    return network_of_nodes("residual", nodes, edges=edges)


@pytest.fixture(scope="module")
def machine() -> pm.Architecture:
    nodes = [
        {"level": "DRAM", "read_pj": 100, "write_pj": 100, "burst_bits": 64},
        {"level": "GLB", "capacity_bits": 512, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.arch_from_document({"nodes": nodes})


def test_residual_edges_share_the_tensor_that_two_nodes_read(machine: pm.Architecture) -> None:
    answer = pm.explore_network(residual_network(), machine, tiles="divide", time_limit_s=20)
    choice = pm.choose_layouts(answer)
    assert choice.status == "OPTIMAL"
    assert [(c.boundary.producer.node, [use.node for use in c.boundary.consumers]) for c in choice.chosen] == [
        ("first", ["second", "added"]),
        ("second", ["added"]),
    ]
    assert {use.tensor for c in choice.chosen for use in c.boundary.consumers if use.node == "added"} == {"A", "B"}
    assert choice.bursts == choice.bound <= min(bursts for _, bursts in choice.alone)
    assert [(one, two) for one, two, _ in choice.left_out] == [("first", "view")]
    for each in choice.chosen:  # what it says of a producer is what its mapping's bursts are
        layer = next(a for a in answer.layers if a.layer.name == each.boundary.producer.node)
        counted = pm.burst_counts(layer.layer.workload, machine, layer.result.best, {"O": each.written})
        own = next(one for one in counted.tensors if one.tensor == "O")
        assert own.bursts == each.boundary.producer.bursts[each.boundary.layouts.index(each.written)]
    assert "OPTIMAL" in str(choice)
    assert "without a choice" in str(choice)


def test_edges_between_unknown_nodes_are_refused_by_name(machine: pm.Architecture) -> None:
    answer = pm.explore_network(residual_network(), machine, tiles="divide", time_limit_s=20)
    with pytest.raises(pm.OptionError, match="PM474.*'third'"):
        pm.choose_layouts(answer, edges=[("first", "third")])
    with pytest.raises(pm.OptionError, match="burst_bits"):
        pm.choose_layouts(pm.explore_network(residual_network(), "flat3", tiles="divide", time_limit_s=20))
