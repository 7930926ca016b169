"""Bounds from whole numbers of siblings exceed nothing that a loop tree moves: every formula, tree by tree.

Small problems: all trees, from the walk that shares no code with the search. Layers: random trees of any size, scored
by the closed form. Each tree is asked of its own structure, so that a bound is held to more than the optimum.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import islice, product
from math import prod
from typing import Any

import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import LevelUse
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import scored_trees
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.resources.limits import Work, never
from polymap.search.any_size import single_tensor, tensor_costs, window_loads
from polymap.search.any_size.sibling_search import SiblingSearch, SingleStructure
from polymap.search.any_size.single_tensor import Counts, SiblingCounts, TensorLoads, Working, one_box
from polymap.search.any_size.structures import class_rows
from polymap.search.problem import held_alike
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rule_checks import measure_under, refusals
from polymap.search.problem.scores import exact_score
from polymap.search.problem.word_clashes import clashes
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d, matmul
from polymap.workload.networks import builtin_workload
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.referee.demands import random_demands
from tests.referee.large_trees import random_large_tree
from tests.referee.problems import random_problem
from tests.referee.sibling_laws import Rows, TreeLaws, canonical, structures_of, value_bound
from tests.times import few
from tests.tree_siblings import worked, working_siblings

PRESETS = ("eyeriss_like", "simba_like", "tpu_like", "cluster4", "flat3")
LAYERS = (
    builtin_workload("resnet50.conv1"),
    builtin_workload("resnet50.conv2_x"),
    builtin_workload("mobilenet_v2.block3_depthwise_first"),
    matmul(127, 127, 127),
    matmul(31, 37, 41),
    conv2d(K=13, C=5, H=19, W=17, R=5, S=3, stride=3, padding=0),
    conv2d(K=3, C=5, H=9, W=11, R=3, S=3, dilation=2, padding=0),
    einsum("O[k,p] += I[2*p+3*r] * W[k,r]", k=5, p=23, r=7),
    einsum("O[p] += I[p-r+4] * W[r]", p=29, r=5),
    einsum("C[m,n] += A[m,k] * B[k,n]", m=23, n=19, k=17, initial=("C",)),
)


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree with what it moves, its value and whether it fits."""

    problem: Problem
    measure: Measure
    mapping: Mapping
    traffic: tuple[Rows, ...]
    steps: int
    value: Fraction
    fits: bool
    uses: tuple[LevelUse, ...] = ()


def small_trees(seed: str, count: int, most: int) -> Iterator[Tree]:
    """Yield all trees of random problems."""
    rng = random.Random(seed)
    while count:
        drawn = random_problem(rng, most=most, tiles="any")
        problem = analyse(drawn.workload, drawn.arch)
        if problem.reason is not None:
            continue
        count -= 1
        measure = measure_of(parse_objective(drawn.objective, drawn.arch), drawn.workload, drawn.arch)
        for tree in scored_trees(drawn.workload, drawn.arch, drawn.objective, "any"):
            yield Tree(problem, measure, tree.mapping, tree.traffic, tree.steps, tree.value, tree.fits)


def large_trees(seed: str, count: int) -> Iterator[Tree]:
    """Yield random trees of layers on machines like the presets, whose capacities are taken away."""
    found = (scored(*drawn) for drawn in large_draws(seed))
    return islice((tree for tree in found if tree is not None), count)


def large_draws(seed: str) -> Iterator[tuple[Workload, Architecture, str, Mapping]]:
    """Yield what trees of layers are made of, as `scored` takes it, without end."""
    rng = random.Random(seed)
    while True:
        workload, arch = rng.choice(LAYERS), random_machine(rng)
        objective = parse_objective(rng.choice(("energy", "edp", "latency")), arch)
        yield workload, arch, objective.text, random_large_tree(rng, workload, arch)


def random_machine(rng: random.Random) -> Architecture:
    """Return a preset without capacities, often with other fan-outs, sometimes with one slow level."""
    arch, slow = load_arch(rng.choice(PRESETS)), rng.randrange(12)

    def one(place: int, node: Node) -> Node:
        if isinstance(node, MemoryLevel):
            bandwidth = Fraction(1) if place == slow else node.bandwidth_bits_per_cycle
            return replace(node, capacity_bits=None, bandwidth_bits_per_cycle=bandwidth)
        if isinstance(node, Fanout) and rng.random() < 0.6:
            size = rng.choice((node.size, rng.randint(2, 16)))
            return replace(node, size=size, multicast=rng.choice(list(Multicast)), reduction=rng.random() < 0.7)
        return node

    return replace(arch, nodes=tuple(one(place, node) for place, node in enumerate(arch.nodes)))


def scored(workload: Workload, arch: Architecture, objective: str, mapping: Mapping) -> Tree | None:
    """Return a tree as the closed form counts it; None where that has no answer."""
    goal = parse_objective(objective, arch)
    score = exact_score(workload, arch, goal, mapping)
    problem = analyse(workload, arch)
    if score is None or problem.reason is not None:
        return None
    rows = {(row.tensor, row.level): (row.reads, row.writes, row.fills, row.drains) for row in score.cost.traffic}
    nothing = (0, 0, 0, 0)
    traffic = tuple(tuple(rows.get((t.name, one.name), nothing) for one in arch.levels) for t in workload.tensors)
    measure, steps = measure_of(goal, workload, arch), score.cost.compute_cycles * arch.compute.per_cycle
    counts = count_closed_form(workload, arch, mapping)
    assert counts is not None
    return Tree(problem, measure, mapping, traffic, steps, score.value, score.excess == 0, counts.uses)


class Laws:
    """The bounds of all structures that were met, asked once each; of boxes around them where `rng` is given. is_told:
    of structures with as many siblings at work as a tree has."""

    def __init__(self, rng: random.Random | None = None, *, is_told: bool = False) -> None:
        self._rng, self._is_told = rng, is_told
        self._known: dict[tuple[int, tuple[Counts, Counts], Working], tuple[TreeLaws, int | None]] = {}

    def check(self, tree: Tree) -> None:
        """Hold every formula to a tree of its structure, and the bound of the objective."""
        problem, structure = tree.problem, structures_of(tree.problem, tree.mapping)
        working = working_siblings(problem, tree.mapping) if self._is_told else ()
        key = id(problem), structure, working
        if key not in self._known:
            box = one_box(problem, *(structure if self._rng is None else wider(self._rng, problem, structure)), working)
            self._known[key] = TreeLaws(problem, box), value_bound(problem, tree.measure, box)
        laws, bound = self._known[key]
        assert laws.is_feasible, f"{structure} {tree}"
        assert laws.cycles <= -(-tree.steps // problem.arch.compute.per_cycle), f"{structure} {tree}"
        for excesses in (laws.excesses(tree.mapping, tree.traffic), laws.busiest_excesses(tree.mapping, tree.uses)):
            assert next(excesses, None) is None, f"{structure} {tree}"
        if tree.fits:
            assert bound is not None, f"{structure} {tree}"
            assert tree.measure.unscaled(bound) <= tree.value, f"{structure} {tree}"


def wider(rng: random.Random, problem: Problem, structure: tuple[Counts, Counts]) -> tuple[Counts, Counts]:
    """Return a box around a structure."""
    low = tuple(tuple(rng.randint(1, c) for c in row) for row in structure[0])
    rows = [zip(row, problem.extents, strict=True) for row in structure[1]]
    return low, tuple(tuple(rng.randint(c, n) for c, n in row) for row in rows)


@pytest.mark.parametrize(("batch", "count"), few([(0, 2), *((batch, 4) for batch in range(160))], 1))
def test_no_formula_exceeds_what_a_tree_of_a_small_problem_moves(batch: int, count: int) -> None:
    laws, told, rng = Laws(), Laws(is_told=True), random.Random(batch)
    met = 0
    for tree in small_trees(f"siblings {batch}", count, 4_000):
        met += 1
        laws.check(tree)
        if rng.random() < 0.1:
            told.check(tree)
    assert met > 500


@pytest.mark.parametrize(("batch", "count"), few([(0, 20), *((batch, 40) for batch in range(160))], 1))
def test_no_formula_exceeds_what_a_large_tree_moves(batch: int, count: int) -> None:
    for tree in large_trees(f"large siblings {batch}", count):
        Laws().check(tree)
        Laws(is_told=True).check(tree)
        Laws(random.Random(batch)).check(tree)


@pytest.mark.parametrize(("batch", "count"), few([(0, 25), *((batch, 60) for batch in range(40))], 1))
def test_the_parts_of_a_structure_by_siblings_with_work_hold_all_its_trees(batch: int, count: int) -> None:
    """Each structure is halved again and again: every tree is in a part whose bound is not above its value."""
    parts: dict[tuple[int, Counts], list[tuple[int, SingleStructure]]] = {}
    halved, kept = 0, list[Tree]()
    for tree in large_trees(f"parts {batch}", count):
        kept.append(tree)
        (low, _), true = structures_of(tree.problem, tree.mapping), working_siblings(tree.problem, tree.mapping)
        key = id(tree.problem), low
        if key not in parts:
            parts[key] = halves_of(SiblingSearch(tree.problem, tree.measure), SingleStructure(low), 6)
        halved += len(parts[key]) > 1
        bounds = [bound for bound, part in parts[key] if is_working_in(true, part.working)]
        assert bounds, f"{true} {parts[key]} {tree}"
        assert tree.measure.unscaled(min(bounds)) <= tree.value, f"{true} {parts[key]} {tree}"
    assert halved


def halves_of(
    structures: SiblingSearch, item: SingleStructure, depth: int, bound: int = 0
) -> list[tuple[int, SingleStructure]]:
    """Return what a structure is halved into so many times, each part after its bound."""
    halves = structures.by_working(item, -1) if depth else []
    if not halves:
        return [(bound, item)]
    return [part for value, half in halves for part in halves_of(structures, half, depth - 1, value)]


def is_working_in(true: Working, working: Working) -> bool:
    """Return whether so many siblings are at work as a part of a structure says."""
    return all(low <= n <= high for (n, _), (low, high) in zip(true, working, strict=True)) if working else True


@pytest.mark.parametrize("cases", few([500, 1_500], 1))
def test_siblings_along_one_dim_are_counted_in_whatever_order_the_loops_stand(cases: int) -> None:
    """Every set of classes against the coordinates that have work, written out."""
    rng = random.Random("nested")
    for _ in range(cases):
        extent, nodes = rng.randint(1, 60), list[Node](load_arch("simple3").nodes)
        kept: list[Node] = [node for node in nodes if not isinstance(node, Fanout)]
        fanouts = [Fanout(f"F{n}", 60, rng.choice(list(Multicast))) for n in range(rng.randint(1, 4))]
        places = sorted(rng.randint(1, len(kept) - 1) for _ in fanouts)
        for place, fanout in reversed(list(zip(places, fanouts, strict=True))):
            kept.insert(place, fanout)
        problem = analyse(einsum("s[] += A[m]", m=extent), Architecture("nested", tuple(kept)))
        loops = one_dim_loops(rng, problem, extent)
        mapping = Mapping((*loops, Compute("S")))
        low, high = structures_of(problem, mapping)
        counts = SiblingCounts(problem, one_box(problem, low, high))
        every = range(len(problem.classes))
        for chosen in product((False, True), repeat=len(every)):
            classes = tuple(g for g in every if chosen[g])
            names = {problem.arch.fanouts[f].name for g in classes for f in problem.classes[g].fanouts}
            true = len({tuple(c for name, c in at if name in names) for at in worked(loops, extent)})
            assert counts.count(0, classes)[0] <= true, f"{classes} {mapping}"
        assert counts.feasible()[0]


def one_dim_loops(rng: random.Random, problem: Problem, extent: int) -> list[Spatial | Temporal]:
    """Return loops over one dim down to 1: the fan-outs of a group together, the groups in any order."""
    groups: dict[int, list[str]] = {}
    for one in problem.classes:
        groups.setdefault(one.below, []).extend(problem.arch.fanouts[f].name for f in one.fanouts)
    order, tile = list(groups.values()), extent
    rng.shuffle(order)
    loops: list[Spatial | Temporal] = []
    for names in ([], *order):
        for name in (None, *names):
            if tile > 1 and rng.random() < 0.7:
                tile = rng.randint(1, tile - 1) if name is None else rng.randint(-(-tile // 6), tile - 1)
                loops.append(Temporal("m", tile) if name is None else Spatial("m", tile, name))
    return loops if tile == 1 else [*loops, Temporal("m", 1)]


def conv1_tree() -> Tree:
    """Return a tree of conv1 on simba_like whose partial tiles of own dims lengthen stays: for the sibling with one
    index of s left the loop over s has one iteration, so that W stays there across the loop over q."""
    nodes = (
        Temporal("q", 19),
        Spatial("s", 4, "PE"),
        Temporal("q", 6),
        Storage("IBUF", ("I",)),
        Temporal("s", 3),
        Storage("WBUF", ("W",)),
        Temporal("k", 8),
        Temporal("p", 1),
        Temporal("q", 1),
        Temporal("c", 1),
        Temporal("r", 1),
        Temporal("k", 1),
        Temporal("s", 1),
        Compute("conv2d"),
    )
    workload = builtin_workload("resnet50.conv1")
    names = [statement.name for statement in workload.statements]
    tree = scored(workload, load_arch("simba_like"), "energy", Mapping((*nodes[:-1], Compute(names[0]))))
    assert tree is not None
    return tree


def idle_tree() -> Tree:
    """Return a tree in which one of three siblings has work in every other iteration alone."""
    nodes = (Temporal("m", 1), Temporal("n", 3), Spatial("n", 1, "X"), Storage("L1", ("S",)), Temporal("k", 1))
    level = MemoryLevel("L1", 50, 24, bandwidth_bits_per_cycle=Fraction(24), holds=("S",))
    arch = Architecture("idle", (MemoryLevel("DRAM"), Fanout("X", 3), level, ComputeUnit("MAC")))
    workload = einsum("D[m,n] += A[m,k] * B[k,n] * S[n]", m=2, n=4, k=2)
    tree = scored(workload, arch, "latency", Mapping((*nodes, Compute("S"))))
    assert tree is not None
    return tree


def test_partial_tiles_of_own_dims_lengthen_stays_and_are_no_counterexample() -> None:
    """A bound that charges every element of W the visits of the box of its node is wrong here: 3 of the 7 indices of s
    are in a sibling whose loop over s has one iteration."""
    tree = conv1_tree()
    weights = next(n for n, term in enumerate(tree.problem.terms) if term.tensor.name == "W")
    buffer = [level.name for level in tree.problem.arch.levels].index("WBUF")
    elements, visits = prod(tree.problem.terms[weights].tensor.shape), -(-112 // 6)
    assert elements <= tree.traffic[weights][buffer][2] < elements * visits
    Laws().check(tree)


def test_rows_are_all_canonical_counts_that_some_loops_have() -> None:
    """Every vector that loops over the fan-outs of one class give is in one row, and a row has a vector of its own:
    factors whose product is at least the least count of its range."""
    rng = random.Random("rows")
    for _ in range(60):
        extents = {dim: rng.randint(1, 9) for dim in "mnk"[: rng.randint(1, 3)]}
        sizes = [rng.randint(1, 7) for _ in range(rng.randint(1, 3))]
        fanouts = [Fanout(f"F{n}", size, dims=rng.choice((None, ("m",)))) for n, size in enumerate(sizes)]
        text = f"s[] += A[{','.join(extents)}]"
        nodes = load_arch("simple3").nodes
        kept = [node for node in nodes if not isinstance(node, Fanout)]
        arch = Architecture("rows", (kept[0], *fanouts, *kept[1:]))
        problem = analyse(einsum(text, sizes=extents), arch)
        rows = class_rows(problem, problem.classes[0])
        assert rows.is_exact
        found = {tuple(row) for row in rows.low.tolist()}
        assert len(found) == len(rows.low)
        true: set[tuple[int, ...]] = set()
        choices = [
            [row for row in product(range(1, one.size + 1), repeat=len(extents)) if _may(one, row, tuple(extents))]
            for one in fanouts
        ]
        for plan in product(*choices):
            reach = [min(prod(row[d] for row in plan), n) for d, n in enumerate(extents.values())]
            below = product(*(range(1, most + 1) for most in reach))
            true.update(canonical(problem, (counts,))[0][0] for counts in below)
        assert found == true


def _may(fanout: Fanout, row: tuple[int, ...], dims: tuple[str, ...]) -> bool:
    free = all(trips == 1 or fanout.may_spread(dim) for trips, dim in zip(row, dims, strict=True))
    return free and prod(row) <= fanout.size


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_cutting_boxes_ends_at_the_least_bound_of_all_structures(objective: str) -> None:
    """The search over boxes against every structure by itself."""
    rng = random.Random(f"boxes {objective}")
    checked = 0
    while checked < 8:
        drawn = random_problem(rng, most=100_000, tiles="any")
        problem = analyse(drawn.workload, drawn.arch)
        if problem.reason is not None or not problem.classes:
            continue
        checked += 1
        measure = measure_of(parse_objective(objective, drawn.arch), drawn.workload, drawn.arch)
        rows = [class_rows(problem, one) for one in problem.classes]
        bounds = [
            value_bound(
                problem, measure, one_box(problem, tuple(low for low, _ in each), tuple(high for _, high in each))
            )
            for each in product(
                *[list(zip(map(tuple, one.low.tolist()), map(tuple, one.high.tolist()), strict=True)) for one in rows]
            )
        ]
        least = min((bound for bound in bounds if bound is not None), default=None)
        found = SiblingSearch(problem, measure).go_on(None, never, Work(), refined=False)
        assert found == (None if least is None else measure.unscaled(least))


@pytest.mark.parametrize(("batch", "count"), few([(0, 4), *((batch, 8) for batch in range(80))], 1))
def test_under_constraints_no_tree_that_meets_them_is_below_the_bound(batch: int, count: int) -> None:
    rng = random.Random(f"sibling demands {batch}")
    checked = 0
    while checked < count:
        drawn = random_problem(rng, most=3_000, tiles="any")
        demands = random_demands(rng, drawn.workload, drawn.arch)
        if rng.random() < 0.4:
            demands["limits"] = {"latency": rng.randint(1, 3 * prod(drawn.workload.extents().values()))}
        rules = rules_from_document(demands, drawn.workload, drawn.arch)
        problem = analyse(drawn.workload, drawn.arch, rules)
        if problem.reason is not None or clashes(drawn.workload, drawn.arch, rules):
            continue
        checked += 1
        goal = parse_objective(drawn.objective, drawn.arch)
        measure = measure_under(goal, drawn.workload, drawn.arch, rules)
        bound = SiblingSearch(problem, measure).go_on(None, never, Work(), steps=40)
        trees = [tree for tree in scored_trees(drawn.workload, drawn.arch, drawn.objective, "any") if tree.fits]
        for tree in sorted(trees, key=lambda tree: tree.value):
            if bound is not None and tree.value >= bound:
                break
            cost = evaluate(drawn.workload, drawn.arch, tree.mapping)
            assert refusals(drawn.workload, drawn.arch, rules, tree.mapping, cost), f"{bound} {tree} {demands} {drawn}"


def test_long_numbers_give_the_same_bound() -> None:
    """Energies whose costs pass int64 by far: the bound is that of short ones, times as much."""
    workload, arch = matmul(127, 31, 41), load_arch("simba_like")
    by = 10**30 + 57

    def dearer(node: Node) -> Node:
        if isinstance(node, MemoryLevel):
            return replace(node, read_pj=node.read_pj * by, write_pj=node.write_pj * by)
        return node if isinstance(node, Fanout) else replace(node, pj=node.pj * by)

    found = [_least(workload, arch), _least(workload, replace(arch, nodes=tuple(map(dearer, arch.nodes))))]
    assert found[1] == found[0] * by


def test_long_extents_are_bounded() -> None:
    """A product of 10^15 x 10^15 x 10^15 reads every word at least once."""
    assert _least(matmul(10**15, 10**15, 10**15), load_arch("flat3")) >= 200 * 3 * 10**30


def _least(workload: Workload, arch: Architecture) -> Fraction:
    problem = analyse(workload, arch)
    found = SiblingSearch(problem, measure_of(parse_objective("energy", arch), workload, arch))
    bound = found.go_on(None, never, Work(), refined=False)
    assert bound is not None
    return bound


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


BUGS = (
    Bug(
        "siblings' indices have no gaps",
        _private(window_loads, "_fewest_of_pair"),
        "np.maximum(visits[1], np.where(is_whole, np.minimum(sizes[1], modulus), 1))",
        "visits[1] - 1 + np.minimum(modulus, sizes[1] - visits[1] + 1)",
    ),
    Bug("a tile of a window is a product", _private(window_loads, "_sum_of_sizes"), "(1 - len(sizes)) *", "0 *"),
    Bug(
        "all siblings are full",
        _private(SiblingCounts, "_nested"),
        "full * found + (self._low[g, d] - full)",
        "self._low[g, d] * found",
    ),
    Bug("nested loops leave one short sibling", _private(SiblingCounts, "_full"), "low // 2", "low - 1"),
    Bug("one sibling of a loop is never short", _private(SiblingCounts, "_full"), "low - 1 if", "low if"),
    Bug("fan-outs are crossed in their order", SiblingCounts.count, "permutations(classes)", "[classes]"),
    Bug(
        "siblings of one class have all the work",
        SiblingCounts.count,
        "-(-self.boxes.working[0][d] // self.most(d, others))",
        "self.boxes.working[0][d]",
    ),
    Bug(
        "the most siblings with work are the least",
        SiblingCounts.most,
        "working[1]",
        "working[0]",
    ),
    Bug("siblings with work have no number in the middle", SiblingSearch.by_working, "(middle + 1,", "(middle + 2,"),
    Bug("a range shares as its least count", SiblingCounts.most, "self._high[g, d]", "self._low[g, d]"),
    Bug("the busiest has a part of what is left over", SiblingCounts.share, "-(-self", "1 + (self"),
    Bug("siblings are those of one class", _private(SiblingCounts, "_together"), "found * self", "self"),
    Bug("counts are limited by one dim", single_tensor.joint_counts, "total * high[d]", "high[d]"),
    Bug("united siblings read alone", _private(TensorLoads, "_merges"), ".shares_reads", ".unites_tiles"),
    Bug("every fan-out adds", _private(TensorLoads, "_merges"), "one.reduction if", "not one.reduction if"),
    Bug(
        "united windows are equal ones",
        TensorLoads.messages,
        "any(one.multicast.unites_tiles for one in between)",
        "False",
    ),
    Bug(
        "windows are never shared",
        _private(TensorLoads, "_served"),
        "every // np.maximum.reduce(along)",
        "every // every",
    ),
    Bug("lines of siblings are served one by one", TensorLoads._visits_of_lines, "most(d, path.merging)", "one"),
    Bug("operands are read one by one", TensorLoads.operands, "self.counts.most(d, path.merging)", "self.counts.one"),
    Bug("a level holds what all levels hold", TensorLoads.held, "one.below > level", "one.below > 0"),
    Bug("every instance of a level is loaded", TensorLoads.path, "one.below <= parent)", "one.below <= level)"),
    Bug("the busiest fills what all fill", TensorLoads.fills, "if self.alone else", "if False else"),
    Bug(
        "sums are read before they are there",
        _private(tensor_costs, "_TensorCost")._started,
        "- self._zero_start",
        "+ 0",
    ),
    Bug(
        "sums that start do so on every level",
        _private(tensor_costs, "_TensorCost")._node,
        "tensor.initial and",
        "dims or",
    ),
    Bug(
        "the levels that are looked at last hold the tensors",
        held_alike.joint_values,
        "np.minimum.reduce(lower)",
        "lower[-1]",
    ),
    Bug("steps have no ends", SiblingCounts.cycles, "-(-steps", "1 + (steps"),
)


@cache
def _trees() -> tuple[Tree, ...]:
    return tuple(islice(small_trees("seeded siblings", 3, 1_500), 1_000))


@cache
def _draws() -> tuple[tuple[Workload, Architecture, str, Mapping], ...]:
    return tuple(islice(large_draws("seeded siblings"), 300))


def _check_some(first: int) -> None:
    for laws in (Laws(), Laws(random.Random(first))):
        for tree in _trees()[first : first + TOGETHER]:
            laws.check(tree)


def _check_drawn(number: int) -> None:
    if tree := scored(*_draws()[number]):
        for laws in (Laws(), Laws(random.Random(number))):
            laws.check(tree)


def _check_told() -> None:
    for tree in large_trees("told siblings", 5):
        Laws(is_told=True).check(tree)


TOGETHER = 50
LAWS = (
    partial(test_siblings_along_one_dim_are_counted_in_whatever_order_the_loops_stand, 500),
    _check_told,
    partial(test_the_parts_of_a_structure_by_siblings_with_work_hold_all_its_trees, 1, 12),
    *(partial(_check_some, first) for first in range(0, 1_000, TOGETHER)),
    *(partial(_check_drawn, number) for number in range(300)),
)
# The law that sees a bug first, where it is not the first one.
SEEN = {
    "siblings' indices have no gaps": 23 + 93,
    "a tile of a window is a product": 14,
    "a range shares as its least count": 14,
    "the busiest has a part of what is left over": 3,
    "siblings are those of one class": 14,
    "counts are limited by one dim": 14,
    "united siblings read alone": 23 + 93,
    "every fan-out adds": 13,
    "united windows are equal ones": 23 + 256,
    "windows are never shared": 23 + 15,
    "lines of siblings are served one by one": 23 + 15,
    "operands are read one by one": 13,
    "a level holds what all levels hold": 23 + 93,
    "every instance of a level is loaded": 13,
    "the busiest fills what all fill": 23 + 93,
    "sums are read before they are there": 14,
    "sums that start do so on every level": 22,
    "steps have no ends": 3,
    "the levels that are looked at last hold the tensors": 3,
    "siblings of one class have all the work": 1,
    "the most siblings with work are the least": 2,
    "siblings with work have no number in the middle": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_breaks_a_law_that_holds_without_it(bug: Bug) -> None:
    assert_seen(bug, LAWS, SEEN.get(bug.name, 0))
