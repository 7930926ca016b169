"""The choice of layouts over a network: against every combination, and on networks worked by hand."""

from __future__ import annotations

import random
from itertools import product

import pytest

import polymap as pm
from polymap.costmodel.layout import Layout
from polymap.networks import Feed, MappedNode, Part, network_of_nodes
from polymap.networks.layout_choice import Boundary, Use, chosen_layout, solved

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
    for _ in range(20):
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
    return pm.io.arch_from_document({"nodes": nodes})


def test_residual_edges_share_the_tensor_that_two_nodes_read(machine: pm.Architecture) -> None:
    answer = pm.explore_network(residual_network(), machine, tiles="divide", time_limit_s=20)
    choice = pm.layouts.choose_layouts(answer)
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
        counted = pm.layouts.burst_counts(layer.layer.workload, machine, layer.result.best, {"O": each.written})
        own = next(one for one in counted.tensors if one.tensor == "O")
        assert own.bursts == each.boundary.producer.bursts[each.boundary.layouts.index(each.written)]
    assert "OPTIMAL" in str(choice)
    assert "without a choice" in str(choice)


def test_edges_between_unknown_nodes_are_refused_by_name(machine: pm.Architecture) -> None:
    answer = pm.explore_network(residual_network(), machine, tiles="divide", time_limit_s=20)
    with pytest.raises(pm.errors.OptionError, match="PM474.*'third'"):
        pm.layouts.choose_layouts(answer, edges=[("first", "third")])
    with pytest.raises(pm.errors.OptionError, match="burst_bits"):
        pm.layouts.choose_layouts(pm.explore_network(residual_network(), "flat3", tiles="divide", time_limit_s=20))


def product_network(edges: list, feeds: tuple = ()) -> pm.Network:
    """Return a product of two matrices of one shape, whose operands producers make."""
    made = [pm.einsum("Y[i,j] += X[i,j]", i=8, j=8, name=name) for name in ("p", "q")]
    product = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=8, k=8, name="mm")
    nodes = [MappedNode(name, "op", (Part(each, True),)) for name, each in zip("pqm", (*made, product), strict=True)]
    return network_of_nodes("products", nodes, edges=edges, feeds=feeds)


def bound(choice: pm.layouts.LayoutChoice) -> list:
    return [(c.boundary.producer.node, use.tensor) for c in choice.chosen for use in c.boundary.consumers]


@pytest.mark.parametrize("tensors", [("A",), ("B",), ("A", "B")])
def test_an_operand_is_known_by_its_place_where_shapes_are_equal(machine: pm.Architecture, tensors: tuple) -> None:
    feeds = tuple(Feed("p", "m", tensor) for tensor in tensors)
    answer = pm.explore_network(product_network([("p", "m")], feeds), machine, tiles="divide", time_limit_s=20)
    choice = pm.layouts.choose_layouts(answer)
    assert bound(choice) == [("p", tensor) for tensor in tensors]
    for each in choice.chosen:  # the bursts are those of that operand, counted by themselves
        for use, layout in zip(each.boundary.consumers, each.read, strict=True):
            layer = next(a for a in answer.layers if a.layer.name == "m")
            counted = pm.layouts.burst_counts(layer.layer.workload, machine, layer.result.best, {use.tensor: layout})
            own = next(one for one in counted.tensors if one.tensor == use.tensor)
            assert own.bursts == use.bursts[each.boundary.layouts.index(layout)]
    assert bound(pm.layouts.choose_layouts(answer, edges=[("p", "m")])) == bound(choice)


def test_a_pair_by_hand_that_may_be_several_operands_is_left_out_and_named(machine: pm.Architecture) -> None:
    answer = pm.explore_network(product_network([("p", "m")]), machine, tiles="divide", time_limit_s=20)
    choice = pm.layouts.choose_layouts(answer)
    assert choice.chosen == ()
    assert choice.left_out[0][2] == "A and B of m can be what p writes: give (producer, consumer, tensor)"
    assert bound(pm.layouts.choose_layouts(answer, edges=[("p", "m", "B")])) == [("p", "B")]
    assert bound(pm.layouts.choose_layouts(answer, edges=[("q", "m", "B"), ("p", "m")])) == [("q", "B"), ("p", "A")]
    assert bound(pm.layouts.choose_layouts(answer, edges=[("q", "m"), ("p", "m")])) == [("q", "A"), ("p", "B")]
    with pytest.raises(pm.errors.OptionError, match=r"PM474 the edges name 'C', .*no tensor that the node reads"):
        pm.layouts.choose_layouts(answer, edges=[("p", "m", "C")])
    with pytest.raises(pm.errors.OptionError, match=r"PM474 an edge is"):
        pm.layouts.choose_layouts(answer, edges=[("p", "m", "A", "B")])  # type: ignore[list-item]


def test_what_feeds_no_tensor_of_the_loop_nest_is_left_out_with_its_reason(machine: pm.Architecture) -> None:
    feeds = (Feed("p", "m", "", "m reads what p writes transposed"), Feed("q", "m", "B"))
    answer = pm.explore_network(
        product_network([("p", "m"), ("q", "m")], feeds), machine, tiles="divide", time_limit_s=9
    )
    choice = pm.layouts.choose_layouts(answer)
    assert bound(choice) == [("q", "B")]
    assert choice.left_out == (("p", "m", "m reads what p writes transposed"),)
