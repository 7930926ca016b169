"""What a clash names is right and minimal: no tree meets all that is named, and without any one of it some tree does.

Only what is named counts: other demands are left out, and the machine keeps the facts that are named and no others.
Sentences are read back by their words; what they mean is read off every tree by tests/referee/demands.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import prod

import pytest

from polymap.costmodel.referees.trees import ScoredTree, scored_trees
from polymap.explore import explore
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout, MemoryLevel, Node
from polymap.workload.einsums import einsum
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import random_problem

SOAKED = [pytest.param(batch, marks=pytest.mark.soak) for batch in (1, 2, *range(4, 20))]
MOST = 60_000  # trees that are walked for one question

RULES: tuple[tuple[str, Callable[..., Table]], ...] = (
    (r"every loop over (\w+) stands outside every loop over (\w+) \(order\)", lambda a, b: {"order": [[a, b]]}),
    (r"the outermost loops are over (.+) \(outermost\)", lambda dims: {"outermost": dims.split(", ")}),
    (r"the innermost loops are over (.+) \(innermost\)", lambda dims: {"innermost": dims.split(", ")}),
    (r"(\w+) is not spread over (\w+) \(fanouts\)", lambda d, f: {"fanouts": {f: {"forbid": [d]}}}),
    (
        r"(\w+) is spread over at least 2 instances of (\w+) \(fanouts\)",
        lambda d, f: {"fanouts": {f: {"require": [d]}}},
    ),
    (
        r"(\w+) is spread over (\d+) instances of (\w+) \(fanouts\)",
        lambda d, n, f: {"fanouts": {f: {"factors": {d: int(n)}}}},
    ),
    (r"(\w+) holds (\w+) \(store\)", lambda level, t: {"store": {level: {"must": [t]}}}),
    (r"(\w+) does not hold (\w+) \(store\)", lambda level, t: {"store": {level: {"never": [t]}}}),
    (
        r"tiles of (\w+) in (\w+) have at least (\d+) elements \(store\)",
        lambda t, level, n: {"store": {level: {"least": {t: int(n)}}}},
    ),
    (r"every tile is a multiple of (\d+) along (\w+) \(intrinsic\)", lambda n, d: {"intrinsic": {d: int(n)}}),
    (r"utilization is at least ([\d.]+) \(min_utilization\)(?:, of .*)?", lambda n: {"min_utilization": Fraction(n)}),
    (r"(\S+) is at most ([\d.]+) \(limits\)", lambda o, n: {"limits": {o: Fraction(n)}}),
)
FACTS = (
    ("capacity", r"(\w+) has capacity_bits (\d+).*"),
    ("must", r"(\w+) must hold (\w+) \(must_hold\)"),
    ("may", r"(\w+) may not hold (\w+) \(holds: .*"),
    ("size", r"(\w+) has (\d+) instances \(size\)"),
    ("dims", r"(\w+) may spread (.+) only \(dims\)"),
)
FLOOR = r"no mapping at all has less (\S+) than ([\d.]+)"
UNSURE = "; whether it takes part was not found out"
FEWER = "whether fewer of them clash was not found out"
FIGURE = r"the (least \S+|highest utilization) that the rest allows is ([\d.]+)"

Fact = tuple[str, str, str]  # kind, level or fan-out, what


@dataclass(frozen=True, slots=True)
class Named:
    """What a clash names: the demands, each as a table, the facts, and figures (of what, how much)."""

    rules: tuple[Table, ...]
    facts: tuple[Fact, ...]
    figures: tuple[tuple[str, Fraction], ...]


def read_back(clash: tuple[str, ...]) -> Named:
    rules: list[Table] = []
    facts: list[Fact] = []
    figures: list[tuple[str, Fraction]] = []
    for sentence in clash:
        own: list[Table] = [make(*found.groups()) for text, make in RULES if (found := re.fullmatch(text, sentence))]
        known = [(kind, found[1], found[2]) for kind, text in FACTS if (found := re.fullmatch(text, sentence))]
        floor = re.fullmatch(FLOOR, sentence)
        told = re.fullmatch(FIGURE, sentence)
        if floor:
            figures.append((f"no mapping at all: {floor[1]}", Fraction(floor[2])))
            continue
        assert len(own) + len(known) + (told is not None) == 1, sentence
        rules += own
        facts += known
        if told:
            figures.append((told[1].removeprefix("least "), Fraction(told[2])))
    return Named(tuple(rules), tuple(facts), tuple(figures))


def with_facts(workload: Workload, arch: Architecture, named: Named, facts: tuple[Fact, ...]) -> Architecture:
    """Return the machine that keeps these facts only; a share of its units keeps the sizes of all fan-outs."""
    sized = any("min_utilization" in rule for rule in named.rules)
    names = [tensor.name for tensor in workload.tensors]

    def changed(node: Node) -> Node:
        own = {(kind, what) for kind, name, what in facts if name == node.name}
        kinds = {kind for kind, _ in own}
        if isinstance(node, Fanout):
            size = node.size if sized or "size" in kinds else prod(dim.extent for dim in workload.dims)
            return replace(node, size=size, dims=node.dims if "dims" in kinds else None)
        if isinstance(node, MemoryLevel) and node is not arch.levels[0]:
            return replace(
                node,
                capacity_bits=node.capacity_bits if "capacity" in kinds else None,
                must_hold=tuple(what for kind, what in own if kind == "must"),
                holds=tuple(name for name in names if ("may", name) not in own),
            )
        return node

    return replace(arch, nodes=tuple(changed(node) for node in arch.nodes))


def is_met(rules: tuple[Table, ...], workload: Workload, arch: Architecture, tree: ScoredTree, objective: str) -> bool:
    for rule in rules:
        limits = rule.get("limits")
        if isinstance(limits, dict):
            assert list(limits) == [objective]
            if tree.value > limits[objective]:
                return False
        elif "order" in rule:
            if not meets({"order": rule["order"][0]}, workload, arch, tree.mapping, tree.steps):  # type: ignore[index]
                return False
        elif "min_utilization" in rule:
            lanes = prod(fanout.size for fanout in arch.fanouts)
            work = prod(dim.extent for dim in workload.dims)
            if work < rule["min_utilization"] * tree.steps * lanes:  # type: ignore[operator]
                return False
        elif not meets(rule, workload, arch, tree.mapping, tree.steps):
            return False
    return True


def feasible(rules: tuple[Table, ...], workload: Workload, arch: Architecture, tiles: str) -> bool | None:
    """Return whether some tree meets the rules; None where there are too many trees."""
    objective = next((text for rule in rules for text in rule.get("limits", {})), "energy")  # type: ignore[attr-defined]
    trees = islice(scored_trees(workload, arch, objective, tiles), MOST + 1)
    for number, tree in enumerate(trees):
        if number == MOST:
            return None
        if tree.fits and is_met(rules, workload, arch, tree, objective):
            return True
    return False


def check(workload: Workload, arch: Architecture, demands: Table, tiles: str = "divide") -> tuple[set[str], int]:
    """Hold a clash against all trees; return the kinds of facts and figures in it, and questions left open.

    What was not found out is left open: that the clash is minimal is not claimed then.
    """
    found = explore(workload, arch, tiles=tiles, constraints=demands, time_limit_s=120)
    if found.status != "INFEASIBLE":
        return set(), 0
    assert found.clash
    clash = tuple(one.removesuffix(UNSURE) for one in found.clash if one != FEWER)
    is_sure = clash == found.clash
    named = read_back(clash)
    told = (workload, arch, demands, found.clash)
    answers = [(feasible(named.rules, workload, with_facts(workload, arch, named, named.facts), tiles), False)]
    for place in range(len(named.rules)) if is_sure else ():
        rest = (*named.rules[:place], *named.rules[place + 1 :])
        answers.append((feasible(rest, workload, with_facts(workload, arch, named, named.facts), tiles), True))
    for place in range(len(named.facts)) if is_sure else ():
        facts = (*named.facts[:place], *named.facts[place + 1 :])
        answers.append((feasible(named.rules, workload, with_facts(workload, arch, named, facts), tiles), True))
    for answer, wanted in answers:
        assert answer is None or answer is wanted, told
    for what, figure in named.figures:
        check_figure(workload, arch, demands, (what, figure), tiles)
    kinds = {kind for kind, _, _ in named.facts} | {"figure" for _ in named.figures} | {"clash"}
    return kinds, [answer for answer, _ in answers].count(None) + (not is_sure)


def check_figure(
    workload: Workload, arch: Architecture, demands: Table, told: tuple[str, Fraction], tiles: str
) -> None:
    """The figure can be used as it is printed; a little less than it (for a share: more) cannot."""
    what, figure = told
    off = figure * Fraction(1, 10**6)
    if what == "highest utilization":
        tables = [{**demands, "min_utilization": value} for value in (figure, figure + off)]
    else:
        limits = demands["limits"]
        assert isinstance(limits, dict)
        name = what.removeprefix("no mapping at all: ")
        tables = [{**demands, "limits": {**limits, name: value}} for value in (figure, figure - off)]
        if name != what:  # a bound of all mappings: below it none, at it nothing is said
            assert explore(workload, arch, tiles=tiles, constraints=tables[1]).status == "INFEASIBLE"
            return
    statuses = [explore(workload, arch, tiles=tiles, constraints=table).status for table in tables if table]
    assert statuses == ["OPTIMAL", "INFEASIBLE"] or (figure == 1 and statuses[0] == "OPTIMAL"), (what, figure)


def random_clashes(batch: int, count: int, tiles: str = "divide") -> tuple[dict[str, int], int]:
    """Return how often each kind of fact was part of a clash, and how many questions were left open."""
    rng = random.Random(f"clashes {batch}" if tiles == "divide" else f"clashes of any size {batch}")
    tally: dict[str, int] = {}
    unanswered = 0
    for _ in range(count):
        problem = random_problem(rng, most=1_500, tiles=tiles)
        workload, arch = problem.workload, problem.arch
        demands = random_demands(rng, workload, arch)
        if tiles == "any":  # the referee reads tiles of one size only
            demands.pop("intrinsic", None)
        if rng.random() < 0.35:
            demands["limits"] = {rng.choice(("energy", "latency", "edp", "ed2p")): rng.choice((1, 40, 1000))}
        kinds, missing = check(workload, arch, demands, tiles)
        unanswered += missing
        for kind in kinds:
            tally[kind] = tally.get(kind, 0) + 1
    return tally, unanswered


def test_a_clash_is_right_and_minimal() -> None:
    tally, unanswered = random_clashes(0, 10)
    assert tally["clash"] >= 2
    assert unanswered <= 5


@pytest.mark.parametrize("batch", [pytest.param(0, marks=pytest.mark.slow), *SOAKED])
def test_a_clash_over_tiles_of_any_size_is_right_and_minimal(batch: int) -> None:
    tally, unanswered = random_clashes(batch, 4, "any")
    assert tally["clash"] >= 1
    assert unanswered <= 4


@pytest.mark.parametrize("batch", [pytest.param(3, marks=pytest.mark.slow), *SOAKED])
def test_many_clashes_are_right_and_minimal(batch: int) -> None:
    tally, unanswered = random_clashes(batch, 8)
    assert tally["clash"] >= 2
    assert tally["figure"] >= 1
    assert unanswered <= 5


def test_sizes_and_capacities_are_named_where_they_take_part() -> None:
    workload = einsum("C[m,n] += A[m] * B[n]", m=4, n=2)
    levels = (MemoryLevel("DRAM", read_pj=Fraction(7)), Fanout("X", 2, dims=("m", "n")), MemoryLevel("RF", 24))
    arch = Architecture("small", (*levels, random_problem(random.Random(0), tiles="divide").arch.compute))
    cases: list[tuple[Table, str]] = [
        ({"fanouts": {"X": {"factors": {"m": 4}}}}, "X has 2 instances (size)"),
        ({"intrinsic": {"m": 4}, "store": {"RF": {"must": ["A"]}}}, "RF has capacity_bits 24"),
    ]
    for demands, fact in cases:
        assert fact in explore(workload, arch, tiles="divide", constraints=demands).clash
        kinds, unanswered = check(workload, arch, demands)
        assert kinds >= {"clash"}
        assert unanswered == 0
