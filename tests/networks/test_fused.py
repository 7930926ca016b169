"""Neighbouring nodes of a network as one program: which may be, what their values are, what they cost, what is told."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.importers.calls import Call
from polymap.importers.operators import parts_of
from polymap.inputs import parse_json
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
)
from polymap.networks import Feed, MappedNode, Part, network_of_nodes
from polymap.networks.answer_files import network_answer_from_document
from polymap.networks.documents import answer_document
from polymap.networks.fusion import GroupAnswer, Passing, Total, passing_of
from polymap.networks.groups import Group, plan_of
from polymap.networks.tuning import TUNING
from polymap.report import answer_text
from polymap.search.problem import Powers
from polymap.search.programs import in_lines, in_tiles
from polymap.workload.joining import with_axes_merged, without_idle_dims
from tests.times import few

Steps = list[tuple[str, tuple[Part, ...], str]]  # name, loop nests, the operand that the node before it writes


def convolution(k: int, c: int, size: int, taps: int, groups: int = 1, padding: int = 0) -> tuple[Part, ...]:
    layer = pm.conv2d(K=k, C=c, H=size, W=size, R=taps, S=taps, groups=groups, padding=padding, types="float32")
    return (Part(layer, is_product=True),)


def product(m: int, n: int, k: int) -> tuple[Part, ...]:
    return (Part(pm.matmul(m=m, n=n, k=k, types="float32"), is_product=True),)


def called(operator: str, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]) -> tuple[Part, ...]:
    return parts_of(Call(operator, inputs, output, element_type="float32"))


def chain(name: str, steps: Steps, **more: object) -> pm.Network:
    nodes = [MappedNode(node, node, parts) for node, parts, _ in steps]
    edges = [(one, two) for (one, *_), (two, *_) in pairwise(steps)]
    feeds = [Feed(one, two, tensor) for (one, *_), (two, _, tensor) in pairwise(steps)]
    return network_of_nodes(name, nodes, edges=[*edges, *more.pop("edges", ())], feeds=feeds, **more)  # type: ignore


def relu(*shape: int) -> tuple[Part, ...]:
    return called("relu", (shape,), shape)


CONVOLUTIONS: Steps = [
    ("conv1", convolution(8, 4, 8, 1), "I"),
    ("relu", relu(1, 8, 8, 8), "A"),
    ("conv2", convolution(4, 8, 8, 3), "I"),
]
SEPARABLE: Steps = [
    ("depthwise", convolution(8, 8, 8, 3, 8), "I"),
    ("relu", relu(1, 8, 6, 6), "A"),
    ("pointwise", convolution(4, 8, 6, 1), "I"),
]
FEED_FORWARD: Steps = [
    ("up", called("linear", ((1, 16, 8), (32, 8)), (1, 16, 32)), "A"),
    ("gelu", called("gelu", ((1, 16, 32),), (1, 16, 32)), "A"),
    ("down", called("linear", ((1, 16, 32), (8, 32)), (1, 16, 8)), "A"),
]
ATTENTION: Steps = [("attend", called("attention", ((1, 2, 8, 4),) * 3, (1, 2, 8, 4)), "Q")]
BATCHED: Steps = [
    ("up", called("linear", ((2, 6, 8), (12, 8)), (2, 6, 12)), "A"),
    ("norm", called("softmax", ((2, 6, 12),), (2, 6, 12)), "X"),
    ("gelu", called("gelu", ((2, 6, 12),), (2, 6, 12)), "A"),
    ("down", called("linear", ((2, 6, 12), (8, 12)), (2, 6, 8)), "A"),
]
NETWORKS = {
    "batched": [BATCHED[0], *BATCHED[2:]],
    "convolutions": CONVOLUTIONS,
    "separable": SEPARABLE,
    "feed-forward": FEED_FORWARD,
    "attention": ATTENTION,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_program_of_a_group_computes_what_its_layers_do(name: str) -> None:
    """Nest by nest, each alone, the results handed on by the links, beside the program as one function."""
    net = chain(name, NETWORKS[name])
    (group,) = plan_of(net).groups
    assert group.names == tuple(plan_names(net))
    rng, given, results = np.random.default_rng(3), [], []
    for number, nest in enumerate(group.nests):
        work = without_idle_dims(net.layers[nest.layer].workload)
        linked = {link.tensor: link.producer for link in group.links if link.consumer == number}
        arrays = []
        for tensor in work.tensors[1:]:
            made = rng.standard_normal(tensor.shape).astype(np.float32)
            array = results[linked[tensor.name]].reshape(tensor.shape) if tensor.name in linked else made
            arrays.append(array)
            given += [] if tensor.name in linked else [array]
        results.append(pm.compile(work, "host_cpu")(*arrays))
    written = {each.target.tensor for each in group.program.statements}
    read = [each.shape for each in group.program.tensors if each.name not in written]
    found = pm.compile(group.program, "host_cpu")(*(x.reshape(shape) for x, shape in zip(given, read, strict=True)))
    np.testing.assert_allclose(found.reshape(results[-1].shape), results[-1], rtol=1e-4, atol=1e-5)


def plan_names(net: pm.Network) -> list[str]:
    several = {node: len(own) > 1 for node, own in net.mapped}
    return [net.layers[number].name if several[node] else node for node, own in net.mapped for number in own]


@pytest.fixture(scope="module")
def separable() -> pm.study.NetworkAnswer:
    steps = chain("separable", SEPARABLE)
    return pm.explore_network(steps, "flat3", tiles="divide", time_limit_s=600, work_limit=60, fuse=True)


def test_together_is_never_dearer_than_apart_and_the_sums_are_the_totals(separable: pm.study.NetworkAnswer) -> None:
    apart = pm.explore_network(separable.network, "flat3", tiles="divide")
    (group,) = separable.groups
    assert separable.unfused == apart.exact == group.apart
    assert group.is_together
    assert separable.exact == group.exact == separable.unfused - group.saved < separable.unfused
    assert separable.exact_bound == group.least <= separable.exact
    assert group.exact_bound <= group.exact
    assert separable.status in ("OPTIMAL", "FEASIBLE")
    assert separable.saving == pytest.approx(float(1 - separable.exact / separable.unfused))
    asked = group.result.workload, group.result.arch, group.result.best
    assert pm.violations(*asked) == ()  # type: ignore[arg-type]
    assert pm.simulate(*asked).energy_pj_exact == group.exact  # type: ignore[arg-type]


def test_a_proof_over_some_trees_alone_names_them(separable: pm.study.NetworkAnswer) -> None:
    (group,) = separable.groups
    chains = replace(group.result, status="OPTIMAL", space=replace(group.result.space, name="chains"))
    answer = replace(separable, groups=(replace(group, result=chains),))
    assert answer.space == "chains"
    assert f"{answer.status} among chains: energy" in str(answer)
    every = replace(answer, groups=(replace(group, result=replace(chains, space=replace(chains.space, name=""))),))
    assert every.space == ""
    assert "among" not in str(every)


def test_a_bound_that_rests_on_a_proof_over_some_trees_names_them(separable: pm.study.NetworkAnswer) -> None:
    first, second, *others = separable.layers
    chains = replace(first.result, status="OPTIMAL", space=replace(first.result.space, name="chains"))
    limit = replace(second, result=replace(second.result, status="FEASIBLE"), exact_bound=second.exact_bound / 2)
    layers = (replace(first, result=chains), limit, *others)
    answer = replace(separable, layers=layers, groups=(), passing=(), fuse=False)
    assert (answer.status, answer.stated, answer.headline) == ("FEASIBLE", *2 * ("FEASIBLE among chains",))
    assert " pJ among chains (gap " in str(answer)
    rows = answer_document(answer)["rows"]
    assert [row["status"] for row in rows][:2] == ["OPTIMAL among chains", "FEASIBLE"]  # type: ignore[index, attr-defined]


def test_what_stays_on_chip_is_told_in_sentences(separable: pm.study.NetworkAnswer) -> None:
    first, second = separable.passing
    for each, who in ((first, "depthwise to relu: O"), (second, "relu to pointwise: O_2")):
        how = "as a whole" if each.tile == each.shape else f"in tiles of {' x '.join(map(str, each.tile))}"
        assert str(each).startswith(f"{who} stays in {each.level} {how}: ")  # which level: by the time there is
        assert each.level in ("GLB", "RF")
        assert not each.reason
    text = answer_text(separable)
    assert "neighbours together:" in text
    assert str(first) in text
    document = json.loads(json.dumps(answer_document(separable)))
    assert document["passing"][0] | {"sentence": ""} == {
        "producer": "depthwise", "consumers": ["relu"], "tensor": "O", "times": 1,
        "level": first.level, "through": "DRAM", "shape": list(first.shape), "on_chip": True,
        "tile": list(first.tile), "tile_bits": prod(first.tile) * 32, "writes": 0, "reason": "", "sentence": "",
    }  # fmt: skip
    assert document["groups"][0]["nests"] == [["depthwise", "relu", "pointwise"]]
    assert document["unfused"] > document["value"]


def test_what_others_need_stays_on_chip_for_its_readers_and_is_written_once() -> None:
    net = chain("returned", SEPARABLE, returned=["relu"])
    answer = pm.explore_network(net, "flat3", tiles="divide", time_limit_s=2, fuse=True)
    assert [each.writes for each in answer.passing] == [0, 8 * 6 * 6]
    assert str(answer.passing[1]).endswith("B; written to DRAM once besides, as others need it")


def machine(words: int) -> Architecture:
    nodes: list[dict[str, object]] = [
        {"level": "DRAM", "word_bits": 32, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 32, "capacity_bits": 32 * words, "read_pj": 1, "write_pj": 1},
        {"fanout": "X", "size": 2},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})


def told(group: Group, work: Workload, *around: MappingNode) -> tuple[list[Passing], int]:
    """Return what is told of a group below some nodes, and the bits that these hold. work: its program, perhaps in
    tiles."""
    above = {node.dim for node in around if isinstance(node, Temporal | Spatial)}
    legs = (
        (*(Temporal(dim, 1) for dim in each.dims if dim not in above), Compute(each.name)) for each in work.statements
    )
    return told_of(group, work, Mapping((*around, Branch(tuple(legs)))))


def told_of(group: Group, work: Workload, best: Mapping) -> tuple[list[Passing], int]:
    """Return what is told of a group by a tree of its program, perhaps in tiles or in lines, and the bits held."""
    arch = machine(200)
    cost = pm.evaluate(work, arch, best)
    assert cost.legal
    result = replace(pm.explore(pm.matmul(2, 2, 2), arch), workload=work, arch=arch, best=best, cost=cost)
    answer = GroupAnswer((group.names,), result, Fraction(1), Fraction(1), Fraction(2), Fraction(1), is_together=True)
    return list(passing_of([([group], answer)], (), arch)), dict(cost.occupancy_bits)["GLB"]


@pytest.mark.parametrize("taps", [2, 3])
def test_what_stays_in_tiles_of_rows_is_told_over_its_own_axes(taps: int) -> None:
    size = 4 + taps
    second = (Part(pm.conv2d(K=2, C=2, H=size, W=size, R=taps, S=taps, stride=2, types="float32"), is_product=True),)
    steps: Steps = [("conv", convolution(2, 2, size + 2, 3), "I"), ("relu", relu(1, 2, size, size), "A")]
    group = group_of(chain("pool", [*steps, ("pool", second, "I")]))
    rows = group.program.statements[-1].target.dims[1]
    work = in_tiles(group.program, rows, 1)
    assert work is not None
    passing, bits = told(group, work, Temporal(rows, 1), Storage("GLB", ("O", "O_2")))
    assert [each.tile for each in passing] == 2 * [(2, taps, size)]
    assert [each.shape for each in passing] == 2 * [(2, size, size)]
    assert sum(each.tile_bits for each in passing) == bits


@pytest.mark.parametrize(
    ("held", "loaded", "sentences"),
    [
        (("O", "O_2"), (), ["in tiles of 2 x 1 x 6: 48 B", "in tiles of 2 x 3 x 6: 144 B"]),
        (("O_2",), ("O",), ["", "in tiles of 2 x 3 x 6: 144 B"]),
        (("O",), ("O_2",), ["in tiles of 2 x 1 x 6: 48 B", ""]),
    ],
)
def test_what_stays_in_lines_is_told(held: tuple[str, ...], loaded: tuple[str, ...], sentences: list[str]) -> None:
    """Two of six rows of O_2 are made before the loop and go through DRAM, of O in a tensor of their own; what is only
    loaded into the buffer by each statement does not stay there."""
    steps: Steps = [("conv", convolution(2, 2, 8, 3), "I"), ("relu", relu(1, 2, 6, 6), "A")]
    group = group_of(chain("lines", [*steps, ("conv2", convolution(2, 2, 6, 3), "I")]))
    rows = group.program.statements[-1].target.dims[1]
    work = in_lines(group.program, rows)
    assert work is not None

    def leg(each: Statement, above: str) -> tuple[MappingNode, ...]:
        own = tuple(name for name in loaded if any(one.tensor == name for one in (each.target, *each.reads)))
        loops = (Temporal(dim, 1) for dim in each.dims if dim != above)
        return (*([Storage("GLB", own)] if own else []), *loops, Compute(each.name))

    before = (leg(each, "") for each in work.statements[:-3])
    inside = tuple(leg(each, rows) for each in work.statements[-3:])
    tree = Mapping((Branch((*before, (Temporal(rows, 1), Storage("GLB", held), Branch(inside)))),))
    passing, _ = told_of(group, work, tree)
    through = "goes through DRAM: no tree was found that costs less with it on chip"
    also = ["", "; 24 of 72 elements, made before, go through DRAM"]
    names, expected = [("conv to relu", "O"), ("relu to conv2", "O_2")], list[str]()
    for (who, name), sentence, more in zip(names, sentences, also, strict=True):
        expected.append(f"{who}: {f'{name} stays in GLB {sentence}{more}' if sentence else through}")
    assert list(map(str, passing)) == expected


def test_a_node_holds_what_all_instances_below_it_need() -> None:
    group = group_of(chain("rows", [("product", product(4, 6, 3), "A"), ("relu", relu(4, 6), "A")]))
    target = group.program.statements[0].target
    rows = target.dims[0]
    around = Temporal(rows, 2), Spatial(rows, 1, "X"), Storage("GLB", (target.tensor,))
    (passing,), bits = told(group, group.program, *around)
    assert passing.tile == (2, 6)
    assert passing.tile_bits == bits


def test_layers_have_no_groups_unless_that_is_asked() -> None:
    answer = pm.explore_network(chain("separable", SEPARABLE), "flat3", tiles="divide")
    assert (answer.groups, answer.passing, answer.exact) == ((), (), answer.unfused)
    assert answer_document(answer)["groups"] == []
    alone = pm.explore_network(pm.network("alexnet").beginning(1), "flat3", tiles="divide", fuse=True)
    assert alone.groups == ()
    assert "neighbours together: none, as the network does not tell" in answer_text(alone)


def test_equal_groups_are_asked_once() -> None:
    steps = [(f"{name}{copy}", parts, tensor) for copy in "ab" for name, parts, tensor in SEPARABLE]
    nodes = [MappedNode(node, node, parts) for node, parts, _ in steps]
    feeds = [
        Feed(f"{one}{copy}", f"{two}{copy}", tensor)
        for copy in "ab"
        for (one, *_), (two, _, tensor) in pairwise(SEPARABLE)
    ]
    net = network_of_nodes("twice", nodes, edges=[feed[:2] for feed in feeds], feeds=feeds)
    seen: list[tuple[int, int]] = []
    answer = pm.explore_network(
        net, "flat3", tiles="divide", time_limit_s=2, fuse=True, on_layer=lambda done, of, _: seen.append((done, of))
    )
    (group,) = answer.groups
    assert group.times == 2
    assert group.groups == tuple((f"depthwise{copy}", f"relu{copy}", f"pointwise{copy}") for copy in "ab")
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert answer.exact == answer.unfused - 2 * group.saved
    assert str(answer.passing[0]).startswith("depthwisea to relua (2 times)")


def group_of(net: pm.Network) -> Group:
    (group,) = plan_of(net).groups
    return group


def dead(net: pm.Network) -> list[str]:
    return [each.name for each in group_of(net).program.tensors if each.temporary]


def test_what_others_need_is_written() -> None:
    assert dead(chain("plain", SEPARABLE)) == ["O", "O_2"]
    assert dead(chain("returned", SEPARABLE, returned=["relu"])) == ["O"]
    assert dead(chain("read by a view", SEPARABLE, edges=[("depthwise", "reshape")])) == ["O_2"]
    bias = [Feed("depthwise", "relu", "A"), Feed("depthwise", "relu", "", "a bias"), Feed("relu", "pointwise", "I")]
    nodes = [MappedNode(node, node, parts) for node, parts, _ in SEPARABLE]
    edges = [("depthwise", "relu"), ("relu", "pointwise")]
    assert dead(network_of_nodes("read beside", nodes, edges=edges, feeds=bias)) == ["O_2"]


def test_a_residual_is_read_by_both() -> None:
    add = called("add", ((1, 8, 6, 6), (1, 8, 6, 6)), (1, 8, 6, 6))
    steps = [*SEPARABLE[:2], ("same", convolution(8, 8, 6, 1), "I"), ("add", add, "A")]
    nodes = [MappedNode(node, node, parts) for node, parts, _ in steps]
    feeds = [Feed(one, two, tensor) for (one, *_), (two, _, tensor) in pairwise(steps)] + [Feed("relu", "add", "B")]
    net = network_of_nodes("residual", nodes, edges=[each[:2] for each in feeds], feeds=feeds)
    group = group_of(net)
    assert [each.name for each in group.program.tensors if each.temporary] == ["O", "O_2", "O_3"]
    assert set(group.program.extents()) == {"g", "p", "q", "r", "s", "k"}  # rows and columns are those of all
    assert set(group.links) >= {(1, 3, "B"), (2, 3, "A")}


def apart(net: pm.Network) -> list[tuple[str, str, str]]:
    plan = plan_of(net)
    assert plan.groups == ()
    return [(each.producer, each.consumer, each.reason) for each in plan.apart]


def test_what_cannot_be_joined_is_told_with_its_reason() -> None:
    padded = chain("padded", [CONVOLUTIONS[1], ("conv", convolution(4, 8, 8, 3, padding=1), "I")])
    assert apart(padded) == [
        ("relu", "conv", "it is written in 8x8x8 and read in 8x10x10: with padding around it, or other axes")
    ]
    nodes = [MappedNode("a", "Gemm", product(4, 4, 4)), MappedNode("b", "Gemm", product(4, 4, 4))]
    for feed, reason in (
        (Feed("a", "b", "", "b reads what a writes transposed"), "b reads what a writes transposed"),
        (Feed("view", "b", "A"), "view computes nothing, or has no workload"),
        (Feed("a", "b", "D"), "no loop nest of b reads D"),
    ):
        assert apart(network_of_nodes("two", nodes, feeds=[feed])) == [(feed.producer, "b", reason)]
    loop = [MappedNode("a", "Gemm", product(4, 4, 4)), MappedNode("b", "Gemm", product(4, 4, 4), 3)]
    assert apart(network_of_nodes("loop", loop, feeds=[Feed("a", "b", "A")]))[0][2] == "one of them runs several times"
    phases = called("transposed_convolution", ((1, 4, 5, 5), (4, 3, 3, 3)), (1, 3, 11, 11))
    if len(phases) > 1:
        several = [MappedNode("t", "ConvTranspose", phases), MappedNode("r", "Relu", relu(1, 3, 11, 11))]
        told = apart(network_of_nodes("phases", several, feeds=[Feed("t", "r", "A")]))
        assert told == [("t", "r", "t computes its result in several loop nests")]


def test_others_that_run_in_between_keep_nodes_apart() -> None:
    nodes = [MappedNode(node, "Gemm", product(4, 4, 4)) for node in "abc"]
    edges = [("a", "c"), ("a", "topk"), ("topk", "c")]
    net = network_of_nodes("between", nodes, edges=edges, feeds=[Feed("a", "c", "A"), Feed("topk", "c", "B")])
    assert apart(net)[-1] == ("a", "c", "other nodes run in between")


def test_long_chains_are_parted_where_least_passes() -> None:
    wide = [64, 64, 64, 64, 2, 64, 64, 64, 64]
    steps: Steps = [(f"p{n}", product(8, of, before), "A") for n, (before, of) in enumerate(pairwise([64, *wide]))]
    groups = plan_of(chain("long", steps)).groups
    assert [group.names for group in groups] == [("p0", "p1", "p2", "p3", "p4"), ("p5", "p6", "p7", "p8")]
    assert all(len(group.nests) <= TUNING.most_in_a_group for group in groups)
    (cut,) = plan_of(chain("long", steps)).apart
    assert cut == ("p4", "p5", "a program has at most 6 loop nests, and is parted where the fewest bits pass")


@pytest.mark.parametrize(
    ("objective", "code"), [("capacity:GLB", "PM578"), ("weighted:1*edp+2*energy", "PM5"), ("edap", "PM501")]
)
def test_only_what_follows_from_sums_is_fused(objective: str, code: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=code):
        pm.explore_network(chain("separable", SEPARABLE), "flat3", objective, fuse=True)


PRODUCTS = [
    ("feed-forward", "edp", 1),
    ("separable", "ed2p", 2),
    ("feed-forward", "ed2p", 2),
    ("separable", "edp", 1),
]


@pytest.mark.parametrize(("name", "objective", "power"), few(PRODUCTS, 2))
def test_products_of_fused_networks_are_of_their_sums(name: str, objective: str, power: int) -> None:
    """Energy and latency of the whole are those that the simulator counts of its parts, one after the other."""
    net = chain(name, NETWORKS[name])
    answer = pm.explore_network(net, "flat3", objective, tiles="divide", time_limit_s=2, fuse=True)
    (group,) = answer.groups
    alone = [pm.simulate(each.layer.workload, answer.arch, each.result.best) for each in answer.layers]
    times = [each.layer.multiplicity for each in answer.layers]
    energy, cycles = (
        sum(getattr(each, what) * n for each, n in zip(alone, times, strict=True))
        for what in ("energy_pj_exact", "latency_cycles")
    )
    assert answer.unfused == group.apart == energy * cycles**power
    fused = pm.simulate(group.result.workload, answer.arch, group.result.best)
    assert answer.exact == min(fused.energy_pj_exact * fused.latency_cycles**power, energy * cycles**power)
    assert 0 < answer.exact_bound <= answer.exact
    assert answer.status == ("OPTIMAL" if answer.exact == answer.exact_bound else "FEASIBLE")
    document: Any = parse_json(json.dumps(answer_document(answer)), "answer")
    again = network_answer_from_document(document, "answer")
    assert (again.exact, again.exact_bound, again.groups[0].is_together) == (
        answer.exact,
        answer.exact_bound,
        group.is_together,
    )
    roots = [Fraction(float(each.exact_bound) ** (1 / (1 + power))) for each in answer.layers]
    apart = float(sum(root * n for root, n in zip(roots, times, strict=True))) ** (1 + power)
    assert float(group.apart_bound) == pytest.approx(apart, rel=1e-5)


def test_a_product_of_sums_is_no_less_than_the_bounds_of_its_parts_say() -> None:
    """All choices of two parts with known energies and latencies, beside what the roots of their least products say."""
    rng = random.Random(5)
    for powers in (Powers(1, 1), Powers(1, 2), Powers(2, 1)):
        total = Total(powers, is_product=True)
        for _ in range(200):
            parts = [[(rng.randint(1, 10**9), rng.randint(1, 10**4)) for _ in range(3)] for _ in range(2)]
            bounds = [Fraction(min(powers.product(Fraction(e), Fraction(c)) for e, c in part)) for part in parts]
            least = min(powers.product(Fraction(a + c), Fraction(b + d)) for a, b in parts[0] for c, d in parts[1])
            told = sum(total.root(each) for each in bounds) ** total.degree
            assert told <= least
            alike = sum([total.root(bounds[0])] * 3) ** total.degree
            assert alike == pytest.approx(float(bounds[0] * 3**total.degree), rel=1e-5)


def test_traffic_and_latency_are_never_worse_together() -> None:
    net = chain("feed-forward", FEED_FORWARD)
    for objective in ("latency", "traffic:DRAM"):
        answer = pm.explore_network(net, "flat3", objective, tiles="divide", time_limit_s=2, fuse=True)
        assert answer.exact_bound <= answer.exact <= answer.unfused


def test_layouts_are_not_chosen_for_what_stays_on_chip(separable: pm.study.NetworkAnswer) -> None:
    with pytest.raises(pm.errors.OptionError, match="PM478"):
        pm.layouts.choose_layouts(separable)


def test_the_command_line_fuses_networks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("explore", "matmul", "m=4", "n=4", "k=4", "--arch", "flat3", "--fuse")) == 2
    assert "PM556 --fuse: an option of a network" in capsys.readouterr().err
    words = ("explore", "alexnet", "--arch", "flat3", "--tiles", "divide", "--time-limit", "0.1", "--fuse")
    assert main((*words, "--json", "-")) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []


def test_the_answer_of_layers_apart_counts_where_fusing_saves_nothing() -> None:
    found = pm.explore(pm.matmul(m=2, n=2, k=2), "flat3", tiles="divide")
    answer = pm.study.GroupAnswer((("a", "b"),), found, Fraction(7), Fraction(3), Fraction(7), Fraction(5))
    assert (answer.is_together, answer.saved, answer.least, answer.times) == (False, 0, 3, 1)


def test_rows_of_linear_layers_are_all_leading_axes_of_what_they_read() -> None:
    steps = [BATCHED[0], *BATCHED[2:]]
    group = group_of(chain("batched", steps))
    assert group.names == ("up", "gelu", "down")
    assert group.program.extents() == {"m": 12, "n": 12, "k": 8, "n_2": 8}
    plan = plan_of(chain("longer", BATCHED))
    assert [len(each.nests) for each in plan.groups] == [6]  # of seven
    assert [each.consumer for each in plan.apart] == ["norm.largest", "norm.exponentials"]


def test_axes_that_are_not_side_by_side_stay() -> None:
    transposed = pm.einsum("O[j,i] += A[i,j]", i=2, j=6)
    assert with_axes_merged(transposed, "A", (12,)) is None
    assert with_axes_merged(pm.einsum("O[i,j] += A[i,j] * B[j]", i=2, j=6), "A", (12,)) is None
    assert with_axes_merged(pm.einsum("O[i,j] += A[i,j] * A[j,i]", i=2, j=2), "A", (4,)) is None
    assert with_axes_merged(pm.einsum("O[i,j] += A[i,j]", i=2, j=6), "A", (3, 4)) is None
    assert with_axes_merged(pm.einsum("O[i,j] += A[i,j] * B", i=2, j=6), "O", (12,)) == pm.einsum(
        "O[i] += A[i] * B", i=12, name="O[i,j] += A[i,j] * B"
    )
