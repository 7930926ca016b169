"""The joint bound of a structure exceeds no tree of it: its value on small problems, every formula on any trees.

A formula is held to each tree's own chain (joint_laws), not to the optimum alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from typing import Any

import pytest

from polymap.costmodel.referees.trees import scored_trees
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.resources.caches import SearchCaches
from polymap.resources.limits import never
from polymap.search.any_size import joint, joint_costs, window_passes
from polymap.search.any_size.crossings import Crossings, sibling_ranges
from polymap.search.any_size.joint import StructureBound
from polymap.search.any_size.joint_costs import NodeView
from polymap.search.any_size.single_tensor import Working
from polymap.search.any_size.sizes import coarse_axis, full_share, group_starts
from polymap.search.any_size.window_passes import ordered_passes, pass_tables
from polymap.search.problem.components import energy_component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.workload.einsums import einsum
from polymap.workload.layers import matmul
from polymap.workload.networks import builtin_workload
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.referee.joint_laws import broken_laws, rests_of_chain
from tests.referee.problems import random_problem
from tests.referee.test_sibling_bounds import Tree, conv1_tree, idle_tree, large_draws, large_trees, scored, small_trees
from tests.times import few
from tests.tree_siblings import refine, sibling_counts, working_siblings

COEFFICIENTS = ((1, 1), (2, 1), (1, 2), (2, 3), (1, -1), (3, 2), (4, 1))


@pytest.mark.parametrize(("batch", "count"), few([(0, 3), *((batch, 5) for batch in range(160))], 1))
def test_no_tree_of_a_small_problem_is_below_the_bound_of_its_structure(batch: int, count: int) -> None:
    rng = random.Random(f"joint {batch}")
    checked = 0
    while checked < count:
        drawn = random_problem(rng, most=4_000, tiles="any")
        objective = drawn.objective if rng.random() < 0.4 else "energy"
        goal, problem = parse_objective(objective, drawn.arch), analyse(drawn.workload, drawn.arch)
        if problem.reason is not None:
            continue
        checked += 1
        measure = measure_of(goal, drawn.workload, drawn.arch)
        least: dict[tuple[tuple[int, ...], ...], Fraction] = {}
        working: dict[tuple[tuple[int, ...], ...], Working] = {}
        for tree in scored_trees(drawn.workload, drawn.arch, objective, "any"):
            if tree.fits:
                counts = sibling_ranges(problem, sibling_counts(problem, tree.mapping))[0]
                least[counts] = min(tree.value, least.get(counts, tree.value))
                if least[counts] == tree.value:
                    working[counts] = working_siblings(problem, tree.mapping)
        order = sorted(least, key=lambda counts: (least[counts], counts))
        for counts in [*order[:3], *rng.sample(order, min(4, len(order)))]:
            for told in ((), working[counts]):
                found = refine(problem, measure, counts, None, rng.choice((1, 4, 30)), working=told)
                assert found.bound is not None, f"{counts} {told} {drawn}"
                assert measure.unscaled(found.bound) <= least[counts], f"{counts} {told} {drawn}"


def _check(trees: Iterator[Tree], rng: random.Random, *, share: float) -> int:
    """Hold a share of the trees to the laws; return how many."""
    count = 0
    for tree in trees:
        if rng.random() > share:
            continue
        count += 1
        component = energy_component(tree.problem.workload, tree.problem.arch, 1)
        broken = next(broken_laws(tree.problem, component, tree.mapping, tree.traffic, rng), None)
        assert broken is None, f"{broken} {tree}"
    return count


@pytest.mark.parametrize(("batch", "count"), few([(0, 3), *((batch, 8) for batch in range(160))], 1))
def test_no_formula_exceeds_what_a_tree_of_a_small_problem_moves(batch: int, count: int) -> None:
    rng = random.Random(batch)
    assert _check(small_trees(f"joint {batch}", count, 3_000), rng, share=0.05) > 50


@pytest.mark.parametrize(("batch", "count"), few([(0, 10), *((batch, 25) for batch in range(30))], 1))
def test_no_formula_exceeds_what_a_large_tree_moves(batch: int, count: int) -> None:
    assert _check(large_trees(f"large joint {batch}", count), random.Random(batch), share=1) == count


@pytest.mark.parametrize(("batch", "count"), few([(0, 8), *((batch, 25) for batch in range(160))], 1))
def test_every_tree_is_one_of_the_chains(batch: int, count: int) -> None:
    for tree in large_trees(f"joint chains {batch}", count):
        _check_chain(tree)


def _check_chain(tree: Tree) -> None:
    component = energy_component(tree.problem.workload, tree.problem.arch, 1)
    for least, own in rests_of_chain(tree.problem, component, tree.mapping):
        assert least <= own * (1 + 1e-12) + 1, f"{tree}"


def test_partial_tiles_of_own_dims_lengthen_stays() -> None:
    """The tree that is below a bound which charges all elements the visits of the box of their node."""
    tree = conv1_tree()
    assert _check(iter((tree,)), random.Random(0), share=1) == 1
    counts = sibling_counts(tree.problem, tree.mapping)
    found = refine(tree.problem, tree.measure, sibling_ranges(tree.problem, counts)[0], None, 12)
    assert found.bound is not None
    assert tree.measure.unscaled(found.bound) <= tree.value


@pytest.mark.parametrize(
    ("layer", "machine", "loops", "value"),
    [
        (
            "resnet50.conv1",
            "eyeriss_like",
            "q2 GLB:I s1X r4X r1Y c1Y WRF:W p1 q1 IRF:I k1",
            "339913165",
        ),
        (
            "resnet50.conv2_x",
            "tpu_like",
            "UB:I ACC:O c7 q2 p2 c1ROW r1ROW s1ROW p1ROW k1COL q1COL WREG:W",
            "145514700.8",
        ),
        ("mobilenet_v2.block7_depthwise", "flat3", "GLB:I GLB:W g1 p4 q4 p1X q1X r1Y s1Y", "28534080"),
    ],
)
def test_mappings_with_uneven_siblings_meet_their_bound(layer: str, machine: str, loops: str, value: str) -> None:
    """Convolutions whose best mappings no dividing tiles reach (352,392,877, 147,112,960 and 28,891,200 pJ): the bound
    of the structure is their value."""
    workload, arch = builtin_workload(layer), load_arch(machine)
    nodes: list[Storage | Spatial | Temporal | Compute] = []
    for word in loops.split():
        level, _, tensor = word.partition(":")
        tile = re.match(r"[a-z](\d+)", word)
        if tensor:
            nodes.append(Storage(level, (tensor,)))
        elif tile is not None:
            fanout, size = word[tile.end() :], int(tile[1])
            nodes.append(Spatial(word[0], size, fanout) if fanout else Temporal(word[0], size))
    tree = scored(workload, arch, "energy", Mapping((*nodes, Compute(workload.statements[0].name))))
    assert tree is not None
    assert tree.fits
    assert tree.value == Fraction(value)
    counts = sibling_ranges(tree.problem, sibling_counts(tree.problem, tree.mapping))[0]
    found = refine(tree.problem, tree.measure, counts, None, 2)
    assert found.bound is not None
    assert tree.measure.unscaled(found.bound) == tree.value


Loop = tuple[int, int]  # (dim 0 or 1, tile), or (2, iterations) of a dim that the window lacks


def _window_loads(extents: tuple[int, int], coefficients: tuple[int, int], loops: list[Loop]) -> int:
    """Return what a nest of loops loads of a window, step by step."""

    def tiles(place: int, box: tuple[range, range]) -> Iterator[tuple[range, range]]:
        if place == len(loops):
            yield box
            return
        dim, tile = loops[place]
        if dim == 2:
            for _ in range(tile):
                yield from tiles(place + 1, box)
            return
        for first in range(box[dim].start, box[dim].stop, tile):
            part = range(first, min(first + tile, box[dim].stop))
            yield from tiles(place + 1, (part, box[1]) if dim == 0 else (box[0], part))

    before: set[int] = set()
    total = 0
    for ps, rs in tiles(0, (range(extents[0]), range(extents[1]))):
        now = {coefficients[0] * p + coefficients[1] * r for p in ps for r in rs}
        total += len(now - before)
        before = now
    return total


def _left_when_cut(extents: tuple[int, int], loops: list[Loop], axis: int) -> int | None:
    """Return how many indices of the other dim are left where a dim is cut first; None where it is not cut."""
    left = extents[1 - axis]
    for dim, tile in loops:
        if dim == axis:
            return left
        left = tile if dim == 1 - axis else left
    return None


@pytest.mark.parametrize("cases", [100, pytest.param(6_000, marks=pytest.mark.soak)])
def test_no_nest_loads_less_of_a_window_than_its_passes_say(cases: int) -> None:
    rng = random.Random("passes")
    met = 0
    for _ in range(cases):
        extents, coefficients = (rng.randint(1, 9), rng.randint(1, 4)), rng.choice(COEFFICIENTS)
        loops: list[Loop] = []
        now = list(extents)
        for _ in range(rng.randint(0, 6)):
            dim = rng.randrange(3)
            if dim == 2:
                loops.append((2, rng.randint(2, 3)))
            elif now[dim] > 1:
                now[dim] = rng.randint(1, now[dim] - 1)
                loops.append((dim, now[dim]))
        caches = SearchCaches()
        tables = pass_tables(extents, coefficients, caches)
        assert tables is not None
        own = [place for place, (dim, _) in enumerate(loops) if dim < 2]
        bound = float(tables[0][now[0] - 1, now[1] - 1])
        if own:
            passes = 1
            for dim, count in loops[: own[-1]]:
                passes *= count if dim == 2 else 1
            bound += (passes - 1) * float(tables[1][loops[own[-1]][0], now[0] - 1, now[1] - 1])
        true = _window_loads(extents, coefficients, loops)
        assert bound <= true, f"{extents} {coefficients} {loops}"
        for axis in (0, 1):
            left = _left_when_cut(extents, loops, axis)
            if left is not None:
                above, most = rng.randint(0, left - 1), rng.choice((left, extents[1 - axis]))
                ordered = ordered_passes(extents, coefficients, axis, above, most, caches)
                assert ordered[now[0] - 1, now[1] - 1] <= true, f"{extents} {coefficients} {loops} {axis}"
        met += bound == true
    assert met > 0.4 * cases


@pytest.mark.parametrize("cases", [100, pytest.param(2_000, marks=pytest.mark.soak)])
def test_no_nest_leaves_fewer_indices_under_full_loops(cases: int) -> None:
    """Random nests of loops over one dim: the indices whose enclosing tile has more than t indices."""
    rng = random.Random("shares")
    for _ in range(cases):
        extent, outer = rng.randint(2, 260), rng.randint(0, 5)
        tile = rng.randint(1, extent - 1)
        loops = sorted((rng.randint(tile + 1, extent) for _ in range(outer)), reverse=True)
        lengths = [extent]
        for loop in loops:
            parts = [[loop] * (length // loop) + [length % loop] * (length % loop > 0) for length in lengths]
            lengths = [length for each in parts for length in each]
        true = sum(length for length in lengths if length > tile) / extent
        share = float(full_share(extent, coarse_axis(extent, extent).low * 0 + tile, outer, SearchCaches())[0])
        assert share <= true + 1e-12, f"{extent} {tile} {loops}"


@pytest.mark.parametrize("cases", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_the_boxes_of_instances_are_no_fewer_than_inner_sizes_say(cases: int) -> None:
    """One dim: loops above a place, then loops and siblings in any order below it. Every instance and visit counts."""
    rng = random.Random("boxes of instances")
    presets = [load_arch("flat3"), load_arch("simba_like"), load_arch("eyeriss_like")]
    for _ in range(cases):
        arch, extent = rng.choice(presets), rng.randint(2, 40)
        problem = analyse(einsum("s[] += A[m]", m=extent), arch)
        groups = {one.below: [arch.fanouts[f] for f in one.fanouts] for one in problem.classes}
        order = list(groups.values())
        rng.shuffle(order)
        tile, outer, inner = extent, [], []
        for _ in range(rng.randint(0, 2)):
            tile = rng.randint(1, tile)
            outer.append(Temporal("m", tile))
        place = tile
        for fanouts in order:
            if rng.random() < 0.6:
                tile = rng.randint(1, tile)
                inner.append(Temporal("m", tile))
            for fanout in fanouts:
                if rng.random() < 0.6:
                    tile = rng.randint(-(-tile // fanout.size), tile)
                    inner.append(Spatial("m", tile, fanout.name))
        mapping = Mapping((*outer, *inner, Temporal("m", 1), Compute("S")))
        crossings = Crossings(problem, sibling_ranges(problem, sibling_counts(problem, mapping))[0])
        size, names = place, set[str]()
        for group, below in enumerate(crossings.groups):
            size = int(crossings.inner[group][0][size])
            names |= {fanout.name for fanout in groups[below]}
            met: set[tuple[int, ...]] = set()
            for index in range(extent):
                at: list[int] = []
                left = index
                for loop in outer:
                    at.append(left // loop.tile)
                    left %= loop.tile
                for loop in inner:
                    if isinstance(loop, Spatial) and loop.fanout in names:
                        at.append(left // loop.tile)
                    left %= loop.tile
                met.add(tuple(at))
            assert len(met) >= -(-extent // size), f"{group} {mapping}"


def test_axes_group_sizes_of_equal_visits_and_are_cut_until_they_are_single_groups() -> None:
    for extent in (*range(1, 50), 120):
        starts = group_starts(extent, extent)
        assert starts == [t for t in range(1, extent + 1) if t == 1 or -(-extent // t) != -(-extent // (t - 1))]
        axis = coarse_axis(extent, extent)
        assert axis.starts[0] == 1
        for in_two in (True, False):
            now = axis
            for _ in range(3 * extent):
                wide = [c for c in range(len(now)) if now.ends(c)[0] < now.ends(c)[1]]
                if not wide:
                    break
                now = now.cut(wide[0], extent, in_two=in_two)
            assert now.starts == tuple(range(1, extent + 1))


@pytest.mark.parametrize(
    ("layer", "machine", "counts", "least"),
    [
        ("resnet50.conv3_x", "simba_like", ((1, 16, 1, 1, 1, 1, 1), (1, 4, 1, 1, 16, 1, 1)), "0.997"),
        ("resnet50.conv2_x", "simba_like", ((1, 16, 1, 1, 1, 1, 1), (1, 4, 1, 1, 16, 1, 1)), "0.997"),
    ],
)
def test_the_best_structures_of_convolutions_are_bounded_tightly(
    layer: str, machine: str, counts: tuple[tuple[int, ...], ...], least: str
) -> None:
    """Values of mappings with these structures: 166,450,585.6 and 184,568,934.4 pJ."""
    values = {"resnet50.conv3_x": Fraction("166450585.6"), "resnet50.conv2_x": Fraction("184568934.4")}
    workload, arch = builtin_workload(layer), load_arch(machine)
    problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
    found = refine(problem, measure, counts, None, 12)
    assert found.bound is not None
    assert Fraction(least) * values[layer] <= measure.unscaled(found.bound) <= values[layer]
    names = {(problem.terms[node.tensor].tensor.name, arch.levels[node.level].name) for node in found.chain}
    assert ("W", "WREG") in names


def test_splits_of_bits_and_of_evenness_refine_a_product() -> None:
    """Two tensors in one level, and sizes that no count of siblings divides: every kind of split is met, and the bound
    only rises."""
    workload, arch = matmul(127, 127, 127), load_arch("simba_like")
    problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
    counts = ((16, 1, 1), (4, 1, 16))
    bounds = [refine(problem, measure, counts, None, limit).bound or 0 for limit in (1, 8, 40)]
    assert bounds == sorted(bounds)


def test_refinement_goes_on_where_it_stopped() -> None:
    """A few rounds at a time reach what many at once do, and never fall."""
    workload, arch = matmul(31, 37, 41), load_arch("simba_like")
    problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
    counts = ((16, 1, 1), (4, 1, 16))
    by_and_by = StructureBound(problem, measure, counts)
    bounds = [by_and_by.go_on(None, 3, never).bound or 0 for _ in range(12)]
    assert bounds == sorted(bounds)
    at_once = refine(problem, measure, counts, None, 24).bound or 0
    assert bounds[0] <= at_once <= bounds[-1]


def test_windows_of_one_index_are_ordinary_axes() -> None:
    """A convolution of 1 x 1 is a product: the same structures have the same bounds."""
    arch = load_arch("simba_like")
    layer = einsum("O[k,p] += I[c,2*p+r] * W[k,c,r]", k=24, p=20, c=30, r=1)
    product = einsum("O[k,p] += I[c,p] * W[k,c]", k=24, p=20, c=30)
    found: list[int | None] = []
    for workload in (layer, product):
        problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
        assert not any(term.is_window for term in problem.terms)
        by_dim = [{"k": 16}, {"k": 4, "c": 16}]
        counts = tuple(tuple(row.get(dim, 1) for dim in problem.dims) for row in by_dim)
        found.append(refine(problem, measure, counts, None, 12).bound)
    assert found[0] == found[1]


def test_what_tables_or_floats_do_not_hold_is_bounded_tensor_by_tensor() -> None:
    arch = load_arch("simba_like")
    for size, by in ((10**15, 1), (37, 10**400)):
        nodes = tuple(replace(n, read_pj=n.read_pj * by) if isinstance(n, MemoryLevel) else n for n in arch.nodes)
        workload, machine = matmul(size, size, size), replace(arch, nodes=nodes)
        problem = analyse(workload, machine)
        measure = measure_of(parse_objective("energy", machine), workload, machine)
        found = refine(problem, measure, ((16, 1, 1), (4, 1, 16)), None)
        assert found.bound is not None
        assert measure.unscaled(found.bound) >= 100 * by * 3 * size * size


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


BUGS = (
    Bug("all elements pay the visits", NodeView._total, "extra * known", "extra * 1"),
    Bug(
        "loops are outside of all where some indices are left",
        _private(NodeView, "_passes"),
        "order.above == extents[1] - 1",
        "order.above > 0",
    ),
    Bug("each tile is another pass", _private(NodeView, "_passes"), "1 + both", "1 + 2 * both"),
    Bug("idle siblings drop their tiles", NodeView._share, "not self.nodes.term.is_output and", "False and"),
    Bug(
        "every sibling is reached again",
        _private(joint_costs, "_spread_share"),
        "np.maximum(inner, rest) + rest",
        "rest + tiles",
    ),
    Bug("siblings share nothing", NodeView._total, "self.axes[d].high * width", "self.axes[d].high * 1"),
    Bug(
        "places inside of loops have whole dims",
        NodeView._total,
        "boxes[:-1] = np.maximum(boxes[:-1], 2)",
        "boxes += 1",
    ),
    Bug("whole dims are held by one instance", NodeView._least_size, "self.crossings.most_covered(d, 0, unit)", "1"),
    Bug(
        "siblings load windows once per index",
        NodeView._others,
        "self.loads.count(d, apart)",
        "self.problem.extents[d]",
    ),
    Bug(
        "whole dims end at a group of fan-outs",
        _private(joint.Recurrence, "_inner_cells"),
        "found[-1] = len(inner) - 1",
        "found[-1] = 0",
    ),
    Bug("cells hold their largest tiles", NodeView._least_size, "self.axes[d].low", "self.axes[d].low + 1"),
    Bug("spread windows are intervals", NodeView.least_bits, "if self._is_unspread(group, unit) and not", "if not"),
    Bug("windows are cut by time alone", NodeView._is_unspread, "== 1 for d", ">= 1 for d"),
    Bug("sums return from the start", NodeView.returns, "stays - self.nodes.elements + starts", "stays + starts"),
    Bug("sums return past shared nodes", NodeView.returns, "if self.nodes.shared[edge.source]", "if False"),
    Bug(
        "the short tile is full",
        _private(Crossings, "_slope"),
        "return least - outer, outer",
        "return least, 0",
    ),
    Bug(
        "cells cross at their least size",
        _private(joint.Recurrence, "_inner_cells"),
        "[unit][d][axis.high]",
        "[unit][d][axis.low]",
    ),
    Bug("two loops have one short tile", _private(Crossings, "_slope"), "(least + 1) // 2", "1"),
    Bug("groups stand in their order", Crossings.is_spread_twice, "len(groups) > 1", "False"),
    Bug("pieces of a share are one", _private(Crossings, "_inner_sizes"), "-(-sizes // min(least, covered))", "0"),
    Bug("rests have full loops", full_share, "(t + 1) / (t + 1 + outer_loops * t)", "(t + 1) / (t + 1 + t)"),
    Bug(
        "tiles share nothing with the last one",
        _private(window_passes, "_Passes").shared,
        "overlap = ends[1] - ends[0] + 1",
        "overlap = ends[1] - ends[0]",
    ),
    Bug(
        "strided tiles share one element less",
        _private(window_passes, "_count"),
        "low - 1 - residue",
        "low - residue",
    ),
    Bug("residues of a stride never meet", _private(window_passes, "_Passes").shared, "range(modulus)", "range(1)"),
    Bug(
        "short rests are in the order of full blocks",
        _private(window_passes, "_in_order"),
        "np.minimum(first, least) if length <= most else least",
        "least",
    ),
    Bug("a pass starts anew", _private(window_passes, "_Passes").fill, "self.shared(box, box, None, 0)", "0.0"),
    Bug(
        "rests are passed again",
        _private(window_passes, "_Passes").fill,
        "self.tiles[axis] + (axis == j)",
        "self.tiles[axis] + 1",
    ),
)


def _check_one(tree: Tree | None, number: int = 0) -> None:
    if tree is not None:
        _check(iter((tree,)), random.Random(number), share=1)


@cache
def _draws(seed: str) -> tuple[tuple[Workload, Architecture, str, Mapping], ...]:
    return tuple(islice(large_draws(seed), 300))


def _check_drawn(number: int) -> None:
    _check_one(scored(*_draws("seeded joint")[number]), number)


def _check_drawn_chain(number: int) -> None:
    tree = scored(*_draws("joint chains 0")[number])
    assert tree is not None
    _check_chain(tree)


LAWS: tuple[Callable[[], object], ...] = (
    partial(test_no_nest_leaves_fewer_indices_under_full_loops, 50),
    partial(test_no_nest_loads_less_of_a_window_than_its_passes_say, 60),
    partial(test_the_boxes_of_instances_are_no_fewer_than_inner_sizes_say, 300),
    partial(_check_drawn_chain, 2),
    partial(_check_drawn_chain, 13),
    lambda: _check_one(idle_tree()),
    *(partial(_check_drawn, number) for number in range(300)),
)
# The law that sees a bug first, where it is not the first one.
SEEN = {
    "all elements pay the visits": 5,
    "loops are outside of all where some indices are left": 24,
    "each tile is another pass": 64,
    "idle siblings drop their tiles": 5,
    "every sibling is reached again": 5,
    "siblings share nothing": 12,
    "places inside of loops have whole dims": 12,
    "whole dims are held by one instance": 12,
    "siblings load windows once per index": 27,
    "whole dims end at a group of fan-outs": 4,
    "cells hold their largest tiles": 5,
    "spread windows are intervals": 194,
    "windows are cut by time alone": 194,
    "sums return from the start": 8,
    "sums return past shared nodes": 101,
    "the short tile is full": 12,
    "cells cross at their least size": 3,
    "two loops have one short tile": 154,
    "groups stand in their order": 31,
    "pieces of a share are one": 2,
    "tiles share nothing with the last one": 63,
    "strided tiles share one element less": 63,
    "residues of a stride never meet": 63,
    "short rests are in the order of full blocks": 64,
    "a pass starts anew": 193,
    "rests are passed again": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_breaks_a_law_that_holds_without_it(bug: Bug) -> None:
    assert_seen(bug, LAWS, SEEN.get(bug.name, 0))
