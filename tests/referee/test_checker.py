"""The checker of certificates is right about mappings: its counts are the cost model's, its bounds are below them.

Random problems have windows, strides, bypass rules, up to two fan-outs of mixed policies and all objectives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from polymap import einsum, explore, load_arch, verify
from polymap.checker.any_size import Siblings, bounds, least, ranges
from polymap.checker.bounds import Prices
from polymap.checker.counts import cost, read_mapping, rows_of
from polymap.checker.model import Problem as Checked, Rows, parsed
from polymap.checker.prover import Prover
from polymap.checker.rules import Refused
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.costmodel.referees.trees import exhaustive, scored_trees
from polymap.inputs.mappings import mapping_to_document
from polymap.io import builtin_workload
from polymap.ir.errors import MappingError, OptionError, PolymapError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.schedules import check_mapping
from polymap.search.certificate import canonical, certificate, constraints_table, machine_table, workload_table
from polymap.search.problem.goals import parse_single
from polymap.search.problem.measure import objective_value
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rules import AtMost
from tests.referee.demands import meets, random_demands
from tests.referee.problems import Problem, random_problem
from tests.sample import sample_mapping
from tests.times import few

Draw = Callable[..., Problem]


def checked_of(problem: Problem, objective: str, rules: object = ()) -> Checked:
    workload, arch = parsed(canonical(workload_table(problem.workload))), parsed(canonical(machine_table(problem.arch)))
    return Checked(workload, arch, parsed(canonical(rules or [])), objective)


def _nodes(mapping: Mapping) -> object:
    return parsed(canonical(mapping_to_document(mapping)["nodes"]))


def _rows(checked: Checked, mapping: Mapping) -> Rows:
    """Return the structure of a mapping."""
    return rows_of(checked, read_mapping(checked, _nodes(mapping))[0])


@pytest.mark.parametrize("seed", few(range(8), 3))
def test_spatial_loops_without_an_iteration_stand_where_the_cost_model_has_them(seed: int) -> None:
    rng = random.Random(f"one trip {seed}")
    told: set[bool] = set()
    while len(told) < 2:
        problem = random_problem(rng, tiles="divide")
        mapping = sample_mapping(problem.workload, problem.arch, "divide", rng)
        fanouts = [node for node in problem.arch.nodes if isinstance(node, Fanout)]
        checked = checked_of(problem, "energy")
        for place, fan in ((place, fan) for place in range(1, len(mapping.nodes)) for fan in fanouts):
            dim = rng.choice(fan.dims or [each.name for each in problem.workload.dims])
            idle = Spatial(dim, dict(problem.workload.extents())[dim], fan.name)
            changed = Mapping((*mapping.nodes[:place], idle, *mapping.nodes[place:]))
            codes = set[str]()
            try:
                check_mapping(problem.workload, problem.arch, changed)
            except MappingError as error:
                codes = {each.code for each in error.mistakes}
            assert codes <= {"PM409"}
            with pytest.raises(Refused, match="a spatial loop stands below") if codes else nullcontext():
                read_mapping(checked, _nodes(changed))
            told.add(bool(codes))


def same_counts(seed: int, count: int, tiles: str, draw: Draw = random_problem) -> int:
    """Return how many values of random mappings the checker does not count; all others are the cost model's."""
    rng = random.Random(f"counts {seed}")
    compared = uncounted = 0
    while compared < count:
        problem = draw(rng, tiles=tiles)
        mixed = f"weighted:1/3*energy+5/2*latency+2*traffic:{problem.arch.levels[-1].name}"
        traffics = [f"traffic:{level.name}" for level in problem.arch.levels]
        for objective in ("energy", "latency", "edp", "ed2p", mixed, *traffics):
            checked, goal = checked_of(problem, objective), parse_single(objective, problem.arch)
            mapping = sample_mapping(problem.workload, problem.arch, tiles, rng)
            true = evaluate(problem.workload, problem.arch, mapping)
            try:
                value = Fraction(cost(checked, _nodes(mapping)), checked.scale)
            except Refused as refusal:
                wrong = true.legal and (tiles == "divide" or "counted" not in str(refusal))
                if wrong or not ("does not fit" in str(refusal) or "counted" in str(refusal)):
                    pytest.fail(f"{problem}\n{mapping}\n{refusal}")
                uncounted += true.legal
                continue
            assert true.legal, f"{problem}\n{mapping}"
            assert value == objective_value(problem.workload, problem.arch, goal, true), f"{problem}\n{mapping}"
            compared += 1
    return uncounted


def _with_an_accident(rng: random.Random, problem: Problem, mapping: Mapping) -> Mapping:
    """Return a tree of which one node stands elsewhere, is gone, doubled or another one."""
    nodes = list(mapping.nodes)
    loops = [at for at, node in enumerate(nodes) if isinstance(node, Spatial)]
    at, node = rng.choice([*enumerate(nodes), *((at, nodes[at]) for at in loops)])
    kind = rng.choice(("moved", "moved", "gone", "doubled", "other"))
    if kind in ("moved", "gone"):
        nodes.pop(at)
    if kind in ("moved", "doubled"):
        nodes.insert(rng.randrange(at, len(nodes)) if at < len(nodes) else at, node)
    elif kind == "other" and isinstance(node, Storage):
        nodes[at] = rng.choice(
            (
                replace(node, level=rng.choice(problem.arch.levels).name),
                replace(node, tensors=(*node.tensors[1:], rng.choice(problem.workload.tensors).name)),
            )
        )
    elif kind == "other" and isinstance(node, Temporal | Spatial):
        nodes[at] = replace(node, tile=max(1, node.tile + rng.choice((-1, 1, 2))))
    return Mapping(tuple(nodes))


def _is_idle(problem: Problem, mapping: Mapping) -> bool:
    """Return whether a loop has one trip: the checker passes it over, wherever it stands."""
    left = problem.workload.extents()
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            if node.tile >= left[node.dim]:
                return True
            left[node.dim] = node.tile
    return False


def accidents_are_told(seed: int, count: int) -> tuple[int, int]:
    """Return how many trees with an accident the checker takes and refuses: it takes none that is not legal, and what
    it takes costs what the cost model says."""
    rng, taken, refused = random.Random(f"accidents {seed}"), 0, 0
    while taken + refused < count:
        problem = random_problem(rng, tiles="any")
        checked, goal = checked_of(problem, "energy"), parse_single("energy", problem.arch)
        for _ in range(8):
            mapping = sample_mapping(problem.workload, problem.arch, "any", rng)
            mapping = _with_an_accident(rng, problem, mapping)
            if _is_idle(problem, mapping):
                continue
            try:
                true = evaluate(problem.workload, problem.arch, mapping)
                known = objective_value(problem.workload, problem.arch, goal, true) if true.legal else None
            except PolymapError:
                known = None
            value, reason = None, ""
            try:
                value = Fraction(cost(checked, _nodes(mapping)), checked.scale)
            except Refused as refusal:
                reason = str(refusal)
            if value != known and "counted" not in reason:
                pytest.fail(f"{problem}\n{mapping}\n{value} {reason}, and the cost model says {known}")
            taken, refused = taken + (value is not None), refused + (value is None)
    return taken, refused


def bounds_hold(seed: int, count: int, draw: Draw = random_problem) -> None:
    """Bounds rise with the places they look at, none is above a mapping's cost, and the search below finds it. (The
    bound of every tensor alone counts windows of any tiles: it may be above the joint one of dividing tiles.)"""
    rng = random.Random(f"bounds {seed}")
    looked_at = 0
    while looked_at < count:
        problem = draw(rng, tiles="divide")
        checked = checked_of(problem, problem.objective)
        for _ in range(10):
            mapping = sample_mapping(problem.workload, problem.arch, "divide", rng)
            told = f"{problem}\n{mapping}"
            if not evaluate(problem.workload, problem.arch, mapping).legal:
                continue
            value, rows = cost(checked, _nodes(mapping)), _rows(checked, mapping)
            prover = Prover(checked, value + 1)
            placed = [prover.joint(rows, places, ()) for places in prover.places(rows)]
            apart, joint = prover.apart(rows), prover.joint(rows, (), ())
            assert apart is not None, told
            assert joint is not None, told
            assert joint <= min(bound for bound in placed if bound is not None) <= value, told
            assert apart <= value, told
            for prices in (_random_prices(rng, checked) for _ in range(3)):
                assert (prover.joint(rows, (), prices) or 0) <= value, f"{told}\n{prices}"
            assert any(_meets(prover, rows, number, _random_prices(rng, checked)) for number in range(len(placed))), (
                told
            )
            assert any(_meets(prover, rows, number) for number in range(len(placed))), told
            looked_at += 1


def _random_prices(rng: random.Random, checked: Checked) -> Prices:
    """Return random prices of bits held, and for objectives that count cycles of bits passed."""
    measure, found = checked.measures[0], list[tuple[int, ...]]()
    for _ in range(1 if measure.linear else rng.randrange(1, 4)):
        high = 4 * max(checked.weights) ** rng.random()
        held = [int(rng.random() * high) * rng.randrange(2) if room else 0 for room in checked.room]
        passed = [
            int(rng.random() * high) * rng.randrange(2) if part.band and number in measure.own else 0
            for number, part in enumerate(checked.parts)
        ]
        found.append((rng.choice((1, 64)), *held, *(() if measure.linear else passed[1:])))
    return tuple(found)


def rules_hold(seed: int, count: int, draw: Draw = random_problem) -> tuple[int, int]:
    """Return how many random mappings the checker takes and how many it refuses: those that break a constraint, as
    tests/referee/demands.py reads it. Bounds under constraints are below those that meet them, and searches find them.
    """
    rng = random.Random(f"rules {seed}")
    taken = refused = 0
    while taken < count:
        problem = draw(rng, most=20_000, tiles="divide")
        demands = random_demands(rng, problem.workload, problem.arch)
        try:
            table = constraints_table(rules_from_document(demands, problem.workload, problem.arch))
            checked = checked_of(problem, problem.objective, table)
        except (OptionError, Refused):  # rules that contradict each other
            continue
        for _ in range(12):
            mapping = sample_mapping(problem.workload, problem.arch, "divide", rng)
            true, told = evaluate(problem.workload, problem.arch, mapping), f"{problem}\n{demands}\n{mapping}"
            steps = true.compute_cycles * problem.arch.compute.per_cycle
            if not true.legal or not meets(demands, problem.workload, problem.arch, mapping, steps):
                refused += true.legal
                with pytest.raises(Refused):
                    cost(checked, _nodes(mapping))
                continue
            value, rows = cost(checked, _nodes(mapping)), _rows(checked, mapping)
            prover = Prover(checked, value + 1)
            assert rows in prover.structures, told
            apart, joint = prover.apart(rows), prover.joint(rows, (), ())
            assert apart is not None, told
            assert joint is not None, told
            assert max(apart, joint) <= value, told
            assert any(_meets(prover, rows, number) for number in range(len(prover.places(rows)))), told
            taken += 1
    return taken, refused


def _limits_hold(seed: int, count: int) -> None:
    """A limit at what a mapping reaches lets it pass, one just below refuses it."""
    rng = random.Random(f"limits {seed}")
    for _ in range(count):
        problem = random_problem(rng, most=20_000, tiles="divide")
        mapping = sample_mapping(problem.workload, problem.arch, "divide", rng)
        true = evaluate(problem.workload, problem.arch, mapping)
        if not true.legal:
            continue
        inner = problem.arch.levels[-1].name
        for text in (
            "energy",
            "latency",
            "edp",
            "ed2p",
            f"traffic:{inner}",
            f"capacity:{inner}",
            "weighted:1*energy+2*latency",
        ):
            goal = parse_single(text, problem.arch)
            most = objective_value(problem.workload, problem.arch, goal, true)
            for limit in (most, most * Fraction(999_999, 10**6)):
                table = constraints_table((AtMost(goal, limit),))
                checked = checked_of(problem, problem.objective, table)
                if limit == most:
                    rows = _rows(checked, mapping)
                    prover = Prover(checked, cost(checked, _nodes(mapping)) + 1)
                    assert any(_meets(prover, rows, n) for n in range(len(prover.places(rows)))), f"{problem}\n{text}"
                elif most:
                    with pytest.raises(Refused):
                        cost(checked, _nodes(mapping))


def _certified_under_rules(seed: int, count: int) -> int:
    """Return how many optima under constraints were proven in full; each is the least of all trees that meet them."""
    rng = random.Random(f"certified rules {seed}")
    certified = proven = 0
    while certified < count:
        problem = random_problem(rng, most=3_000, tiles="divide")
        demands = random_demands(rng, problem.workload, problem.arch)
        found = explore(
            problem.workload, problem.arch, problem.objective, tiles="divide", time_limit_s=120, constraints=demands
        )
        if found.status != "OPTIMAL":
            continue
        verdict = verify(found.certificate())
        trees = scored_trees(problem.workload, problem.arch, problem.objective, "divide")
        good = [
            tree.value
            for tree in trees
            if tree.fits and meets(demands, problem.workload, problem.arch, tree.mapping, tree.steps)
        ]
        assert not verdict.reason, f"{problem}\n{demands}\n{verdict.reason}"
        assert verdict.value == min(good), f"{problem}\n{demands}"
        certified, proven = certified + 1, proven + verdict.proven
    return proven


def _any_sizes_hold(seed: int, count: int) -> int:
    """Return how many structures were bounded over tiles of any size: none above its own cheapest tree, walked."""
    rng = random.Random(f"any sizes {seed}")
    structures = 0
    for _ in range(count):
        problem = random_problem(rng, most=4_000, tiles="any")
        checked, best = checked_of(problem, problem.objective), dict[Rows, tuple[Fraction, Mapping]]()
        for tree in scored_trees(problem.workload, problem.arch, problem.objective, "any"):
            if tree.fits:
                rows = first_siblings(checked, tree.mapping)
                best[rows] = min(
                    best.get(rows, (tree.value, tree.mapping)), (tree.value, tree.mapping), key=lambda x: x[0]
                )
        for rows, (value, mapping) in best.items():
            found = siblings(checked, rows)
            assert found.possible().all(), f"{problem}\n{mapping}"
            *parts, steps = (int(np.ravel(one)[0]) for one in (*bounds(found), found.steps()))
            assert checked.value(parts, steps) <= value * checked.scale, f"{problem}\n{mapping}"
        structures += len(best)
        assert not best or least(checked)[1] <= min(value for value, _ in best.values()) * checked.scale, problem
    return structures


def _large_trees_hold(seed: int, count: int) -> float:
    """Return how near random trees of layers of networks came to the bound of their own structure: none is below it."""
    rng, nearest, looked_at = random.Random(f"large trees {seed}"), 0.0, 0
    while looked_at < count:
        layer = rng.choice(("resnet50.conv1", "resnet50.conv2_x", "resnet50.conv3_first", "vgg16.conv4_x"))
        workload, arch = builtin_workload(layer), load_arch(rng.choice(("eyeriss_like", "simba_like", "cluster4")))
        changed = [
            replace(one, multicast=rng.choice(list(Multicast)), reduction=rng.random() < 0.6)
            if isinstance(one, Fanout) and rng.random() < 0.4
            else one
            for one in arch.nodes
        ]
        arch = replace(arch, nodes=tuple(changed))
        objective = rng.choice(("energy", "edp", "latency", f"traffic:{rng.choice(arch.levels).name}"))
        tables = parsed(canonical(workload_table(workload))), parsed(canonical(machine_table(arch)))
        checked, mapping = Checked(*tables, [], objective), sample_mapping(workload, arch, "any", rng)
        try:
            value = objective_value(
                workload, arch, parse_single(objective, arch), evaluate(workload, arch, mapping, time_limit_s=1)
            )
        except PolymapError:  # too long to count
            continue
        found, looked_at = siblings(checked, first_siblings(checked, mapping)), looked_at + 1
        *parts, steps = (int(np.ravel(one)[0]) for one in (*bounds(found), found.steps()))
        bound = Fraction(checked.value(parts, steps), checked.scale)
        assert bound <= value, f"{layer} {arch}\n{mapping}"
        nearest = max(nearest, float(bound / value) if value else 0.0)
    return nearest


def shared_windows(text: str, merges: tuple[Multicast, Multicast]) -> tuple[int, int]:
    """Return how many numbers of siblings that share a window, over fan-outs that merge so, are bounded, none above its
    cheapest nest, and how many bounds that meets: of all orders and many tiles of a level that holds the window."""
    workload = einsum(f"O[p] += I[{text}] * W[r]", sizes={"p": 4, "r": 2}, bits={"O": 1, "I": 8, "W": 1})
    outer, inner = (MemoryLevel(name, None, 8, Fraction(1 - at), Fraction(1 - at), holds=("I",) * at or None,
                                must_hold=("I",) * at) for at, name in enumerate(("L0", "L1")))  # fmt: skip
    fans = [Fanout(name, 8, multicast=merge) for name, merge in zip("XY", merges, strict=True)]
    arch, best = Architecture("toy", (outer, *fans, inner, ComputeUnit("MAC", Fraction(0)))), dict[Rows, int]()
    tables = [parsed(canonical(table)) for table in (workload_table(workload), machine_table(arch))]
    checked = Checked(tables[0], tables[1], [], "traffic:L0")
    for p, r in product(range(1, 5), (1, 2)):
        for a, b, back in product({1, p}, {1, r}, (1, -1)):
            loops = Spatial("p", p, "X"), Spatial("r", r, "Y"), *(Temporal("p", a), Temporal("r", b))[::back]
            inside = Storage("L1", ("I",)), Temporal("p", 1), Temporal("r", 1), Compute("S")
            mapping = Mapping((Storage("L0", ("O", "I", "W")), *loops, *inside))
            rows, value = first_siblings(checked, mapping), cost(checked, _nodes(mapping))
            best[rows] = min(best.get(rows, value), value)
    met = 0
    for rows, value in best.items():
        found = siblings(checked, rows)
        *parts, steps = (int(np.ravel(one)[0]) for one in (*bounds(found), found.steps()))
        assert checked.value(parts, steps) <= value, (text, merges, rows)
        met += checked.value(parts, steps) == value
    return len(best), met


@pytest.mark.parametrize(("text", "least"), [("p+r", 46), ("2*p+r", 54)])
def test_siblings_that_share_a_window_cost_no_less_than_the_bound_and_often_as_much(text: str, least: int) -> None:
    each = [shared_windows(text, (outer, inner)) for outer, inner in product(Multicast, repeat=2)]
    assert sum(total for total, _ in each) == 54
    assert sum(met for _, met in each) >= least


def first_siblings(checked: Checked, mapping: Mapping) -> Rows:
    """Return per class and dim how many siblings have work below the first parent instance in the first step."""
    rows: list[tuple[int, ...]] = []
    for own in checked.classes:
        counts: list[int] = []
        for dim, extent in zip(checked.dims, checked.extents, strict=True):
            lengths = [extent]
            for node in (one for one in mapping.nodes if isinstance(one, Spatial | Temporal) and one.dim == dim):
                if isinstance(node, Spatial) and node.fanout in {fan.name for fan in own}:
                    lengths = [min(node.tile, one - at) for one in lengths for at in range(0, one, node.tile)]
                else:
                    lengths = [min(node.tile, one) for one in lengths]
            counts.append(len(lengths))
        rows.append(tuple(counts))
    return tuple(rows)


def siblings(checked: Checked, rows: Rows) -> Siblings:
    """Return the one structure that has these numbers of siblings among those that count alike."""
    most = 10**9
    each = [
        [
            next(one for one in ranges(extent, most) if one[0] <= count <= one[1])
            for extent, count in zip(checked.extents, row, strict=True)
        ]
        for row in rows
    ]
    low, high = ([[np.array([one[end]], dtype=object) for one in row] for row in each] for end in (0, 1))
    return Siblings(checked, low, high)


def _meets(prover: Prover, rows: Rows, number: int, prices: Prices = ()) -> bool:
    try:
        prover.descend(rows, prover.places(rows)[number], prices, 10**6)
    except Refused as refusal:
        return "costs less" in str(refusal)
    return False


def _optima(seed: int, count: int) -> tuple[int, int]:
    """Return how many optima were certified, and how many in full; what is above the optimum never is."""
    rng = random.Random(f"optima {seed}")
    certified = proven = 0
    while certified < count:
        problem = random_problem(rng, most=20_000, tiles="divide")
        question = problem.workload, problem.arch, problem.objective
        true, found = exhaustive(*question, "divide"), explore(*question, tiles="divide", time_limit_s=120)
        if found.status != "OPTIMAL" or found.best is None:
            continue
        assert true is not None
        assert true.value is not None
        verdict = verify(found.certificate())
        assert not verdict.reason, f"{problem}\n{verdict.reason}"
        assert verdict.value == true.value, problem
        certified, proven = certified + 1, proven + verdict.proven
        mapping = sample_mapping(problem.workload, problem.arch, "divide", rng)
        truth = evaluate(problem.workload, problem.arch, mapping)
        goal = parse_single(problem.objective, problem.arch)
        if truth.legal and true.value < objective_value(problem.workload, problem.arch, goal, truth):
            assert is_doubted(problem, mapping), f"{problem}\n{mapping}"
    return certified, proven


def is_doubted(problem: Problem, mapping: Mapping) -> bool:
    """Return whether there is no certificate that a mapping is the best, or one that does not prove it."""
    try:
        text = certificate(problem.workload, problem.arch, problem.objective, mapping)
    except OptionError as refusal:
        return "costs less" in str(refusal)
    return bool(verify(text).unproven)


def _same_large_counts(seed: int, count: int) -> None:
    """The checker counts random trees of layers with tiles of any size as the cost model does, or says of a few that it
    does not count them (docs/certificate.md, "Counting a mapping")."""
    rng = random.Random(f"large counts {seed}")
    refused = 0
    for _ in range(count):
        layer = rng.choice(("resnet50.conv1", "resnet50.conv2_x", "resnet50.conv3_first", "vgg16.conv4_x"))
        workload, arch = builtin_workload(layer), load_arch(rng.choice(("eyeriss_like", "simba_like", "cluster4")))
        roomy = [replace(one, capacity_bits=None) if isinstance(one, MemoryLevel) else one for one in arch.nodes]
        arch, mapping = replace(arch, nodes=tuple(roomy)), sample_mapping(workload, arch, "any", rng)
        tables = parsed(canonical(workload_table(workload))), parsed(canonical(machine_table(arch)))
        checked, goal = Checked(*tables, [], "energy"), parse_single("energy", arch)
        try:
            true = objective_value(workload, arch, goal, evaluate(workload, arch, mapping, time_limit_s=1))
        except PolymapError:  # too long to count
            continue
        try:
            counted = cost(checked, _nodes(mapping))
        except Refused as refusal:
            if "not counted" not in str(refusal):
                raise
            refused += 1
            continue
        assert Fraction(counted, checked.scale) == true, f"{layer} {arch}\n{mapping}"
    assert refused <= max(1, count // 10)


@pytest.mark.parametrize("tiles", ["divide", "any"])
def test_the_checker_counts_what_the_cost_model_counts(tiles: str) -> None:
    assert same_counts(0, 25, tiles) < 12


@pytest.mark.soak
@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize("seed", range(1, 4))
def test_the_checker_counts_what_the_cost_model_counts_in_many_cases(seed: int, tiles: str) -> None:
    same_counts(seed, 600, tiles)


@pytest.mark.parametrize("seed", few(range(20), 1))
def test_the_checker_takes_no_tree_with_an_accident_that_the_cost_model_does_not(seed: int) -> None:
    taken, refused = accidents_are_told(seed, 120)
    assert min(taken, refused) > 10


def test_the_checker_counts_trees_of_layers() -> None:
    _same_large_counts(0, 6)


@pytest.mark.slow
def test_the_checker_counts_many_trees_of_layers() -> None:
    _same_large_counts(1, 30)


PAIRS = (Spatial("p", 2, "X"), Spatial("r", 2, "Y"), Temporal("p", 1), Temporal("r", 1))
REST = (Spatial("p", 3, "X"), Temporal("r", 2), Temporal("p", 1), Temporal("r", 1))


@pytest.mark.parametrize(("p", "r", "loops"), [(6, 5, PAIRS), (7, 5, PAIRS), (5, 4, REST), (8, 5, REST)])
def test_what_one_sibling_keeps_is_a_load_of_another(p: int, r: int, loops: tuple[Spatial | Temporal, ...]) -> None:
    """I[p+r]: a tile that one sibling keeps whole is new to one with fewer steps inside. Referee: the simulator."""
    outer, inner = (MemoryLevel(name, None, 8, Fraction(1), Fraction(1)) for name in ("L0", "L1"))
    arch = Architecture("toy", (outer, Fanout("X", 8), Fanout("Y", 8), inner, ComputeUnit("MAC", Fraction(0))))
    workload = einsum("O[p] += I[p+r] * W[r]", p=p, r=r)
    mapping = Mapping((Storage("L0", ("O", "I", "W")), *loops, Storage("L1", ("I",)), Compute("S")))
    tables = parsed(canonical(workload_table(workload))), parsed(canonical(machine_table(arch)))
    words = sum(row.reads + row.writes for row in simulate(workload, arch, mapping).traffic if row.level == "L0")
    assert cost(Checked(*tables, [], "traffic:L0"), _nodes(mapping)) == 8 * words


@pytest.mark.parametrize(("p", "r"), [(1, 1), (2, 3), (4, 2)])
def test_a_tile_may_span_as_many_elements_as_are_demanded_and_no_fewer(p: int, r: int) -> None:
    workload, flat = einsum("O[p] += I[p+r] * W[r]", p=4, r=3), load_arch("flat3")
    for tensor, size in {"O": p, "I": p + r - 1, "W": r}.items():
        tiles = Temporal("p", p), Temporal("r", r), Storage("GLB", (tensor,)), Temporal("p", 1), Temporal("r", 1)
        mapping = Mapping((Storage("DRAM", ("O", "I", "W")), *tiles, Compute("S")))
        tables = [parsed(canonical(table)) for table in (workload_table(workload), machine_table(flat))]
        for more in (0, 1):
            rule = {"rule": "at_least", "level": "GLB", "tensor": tensor, "elements": size + more}
            with pytest.raises(Refused, match="is too small") if more else nullcontext():
                cost(Checked(tables[0], tables[1], [rule], "energy"), _nodes(mapping))


@pytest.mark.parametrize(("tile", "per_cycle"), [(1, 1), (2, 1), (3, 2), (6, 4)])
def test_as_many_compute_units_must_work_as_are_demanded(tile: int, per_cycle: int) -> None:
    """Referee: the cycles that the cost model counts, of which each could do what all units do together."""
    workload, level = einsum("O[m] += A[m,k] * B[k]", m=6, k=3), MemoryLevel("L0", None, 8, Fraction(1), Fraction(1))
    arch = Architecture("toy", (level, Fanout("X", 8), ComputeUnit("MAC", Fraction(1), per_cycle)))
    loops = Spatial("m", tile, "X"), Temporal("m", 1), Temporal("k", 1)
    mapping = Mapping((Storage("L0", ("O", "A", "B")), *loops, Compute("S")))
    used = Fraction(18, 8 * per_cycle * evaluate(workload, arch, mapping).compute_cycles)
    tables = [parsed(canonical(table)) for table in (workload_table(workload), machine_table(arch))]
    for share in (used, used + Fraction(1, 10**6)):
        checked = Checked(tables[0], tables[1], [{"rule": "utilization", "least": str(share)}], "energy")
        row = tuple(6 // tile if dim == "m" else 1 for dim in checked.dims)
        assert ((row,) in Prover(checked, 1).structures) == (share == used)
        with pytest.raises(Refused, match="too few of the compute") if share > used else nullcontext():
            cost(checked, _nodes(mapping))


def test_partial_sums_that_come_and_go_are_not_counted() -> None:
    """S += A[r], r = 9 under tiles 6, 4, 3 and siblings of 1 (docs/closed_form.md): an entry that finds nothing."""
    nodes = (
        Storage("L1", ("S", "A")),
        *(Temporal("r", tile) for tile in (6, 4, 3)),
        Spatial("r", 1, "X"),
        Storage("L2", ("S", "A")),
        Compute("S"),
    )
    arch = Architecture(
        "toy",
        (
            MemoryLevel("L1", None, 8, Fraction(3), Fraction(5)),
            Fanout("X", 4),
            MemoryLevel("L2", None, 8, Fraction(1), Fraction(1)),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )
    workload = einsum("S[] += A[r]", r=9)
    tables = parsed(canonical(workload_table(workload))), parsed(canonical(machine_table(arch)))
    with pytest.raises(Refused, match="come and go"):
        cost(Checked(*tables, [], "energy"), _nodes(Mapping(nodes)))


def test_the_checker_reads_constraints_as_they_are_meant() -> None:
    taken, refused = rules_hold(0, 15)
    assert refused >= taken // 2
    _limits_hold(0, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 4))
def test_the_checker_reads_constraints_as_they_are_meant_in_many_cases(seed: int) -> None:
    rules_hold(seed, 60)
    _limits_hold(seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(2), 1))
def test_optima_under_constraints_are_certified(seed: int) -> None:
    assert _certified_under_rules(seed, 6) >= 4


def test_no_bound_is_above_a_mapping() -> None:
    bounds_hold(0, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(1, 4), 1))
def test_no_bound_is_above_a_mapping_in_many_cases(seed: int) -> None:
    bounds_hold(seed, 30)


def test_no_bound_over_any_sizes_is_above_a_tree() -> None:
    assert _any_sizes_hold(0, 8) > 30


def test_no_bound_over_any_sizes_is_above_a_large_tree() -> None:
    assert _large_trees_hold(0, 25) > 0.5


@pytest.mark.soak
def test_no_bound_over_any_sizes_is_above_many_large_trees() -> None:
    assert _large_trees_hold(1, 1_000) > 0.95


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 9))
def test_no_bound_over_any_sizes_is_above_a_tree_in_many_cases(seed: int) -> None:
    assert _any_sizes_hold(seed, 125) > 500


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(3), 1))
def test_certified_values_are_the_least_of_all_trees_and_worse_ones_are_not_proven(seed: int) -> None:
    certified, proven = _optima(seed, 8)
    assert proven >= certified // 2
