"""Structures that are split by siblings with work and by passes: problems drawn so that this raises bounds, against all
their trees."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from polymap.costmodel.referees.trees import scored_trees
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Node
from polymap.resources.limits import never
from polymap.schedules import TileRule, few_legal
from polymap.search.any_size.crossings import sibling_ranges
from polymap.search.any_size.joint import JointSearch, Part
from polymap.search.any_size.joint_costs import NodeView
from polymap.search.any_size.sibling_search import SiblingSearch, SingleStructure
from polymap.search.any_size.single_tensor import Counts, Working, one_box
from polymap.search.any_size.tensor_costs import least_components
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.workload.einsums import einsum
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.times import few
from tests.tree_siblings import refine, sibling_counts, working_siblings

MOST_TREES = 12_000
ROUNDS = 60

Least = dict[tuple[Counts, Working], Fraction]  # by sibling counts and siblings with work


@dataclass
class Tally:
    """How many problems there were, of how many structures a split raised the bound, and what is wrong."""

    problems: int = 0
    split: int = 0
    raised: int = 0
    wrong: list[str] = field(default_factory=list[str])


def _level(
    rng: random.Random,
    name: str,
    price: int,
    words: int | None,
    holds: tuple[str, ...] | None = None,
    must_hold: tuple[str, ...] = (),
) -> MemoryLevel:
    read, write = (Fraction(rng.randint(max(1, price // 2), 2 * price)) for _ in range(2))
    bits = None if words is None else 8 * words
    return MemoryLevel(name, bits, 8, read, write, holds=holds, must_hold=must_hold)


def _spread(rng: random.Random) -> tuple[Workload, Architecture]:
    """Return a small convolution, and a machine that spreads its rows over two unlike fan-outs with a level between
    them, where few siblings hold few elements twice, and many take few steps."""
    workload = einsum("C[m] += A[m+n] * B[n]", m=rng.randint(4, 6), n=rng.randint(2, 3), bits=8)
    inner = (("A",), ("A",)) if rng.random() < 0.7 else (("A", "C"), ())
    nodes: tuple[Node, ...] = (
        _level(rng, "DRAM", 30, None),
        Fanout("X", rng.randint(2, 3), dims=("m",)),
        _level(rng, "L2", 8, rng.randint(2, 20), ("A",), ("A",)),
        Fanout("Y", rng.randint(2, 4), dims=("m",)),
        _level(rng, "L1", 3, rng.randint(2, 14), *inner),
        ComputeUnit("MAC", Fraction(1)),
    )
    return workload, Architecture("drawn", nodes)


def _unspread(rng: random.Random) -> tuple[Workload, Architecture]:
    """Return an outer product, and a machine with one small buffer: where it holds a part of B, A passes often."""
    workload = einsum("C[m,n] += A[m] * B[n]", m=rng.randint(3, 7), n=rng.randint(2, 5), bits=8)
    held = rng.choice(((), ("A",), ("A", "B"), ("A", "B", "C")))
    levels = _level(rng, "DRAM", 30, None), _level(rng, "L1", 2, rng.randint(2, 7), must_hold=held)
    return workload, Architecture("drawn", (*levels, ComputeUnit("MAC", Fraction(1))))


def _least_values(problem: Problem, workload: Workload, arch: Architecture) -> Least:
    """Return the least energy of every structure and number of siblings with work, tree by tree."""
    found: Least = {}
    for tree in scored_trees(workload, arch, "energy", "any"):
        if tree.fits:
            counts = sibling_ranges(problem, sibling_counts(problem, tree.mapping))[0]
            key = counts, working_siblings(problem, tree.mapping)
            found[key] = min(tree.value, found.get(key, tree.value))
    return found


def _is_in(true: Working, half: Working) -> bool:
    return all(low <= n <= high for (n, _), (low, high) in zip(true, half, strict=True))


def _check_working(problem: Problem, measure: Measure, least: Least, tally: Tally) -> None:
    """Hold the parts by siblings with work of every structure to its trees."""
    search = SiblingSearch(problem, measure)
    for counts in sorted({counts for counts, _ in least}):
        box = one_box(problem, *sibling_ranges(problem, counts))
        (whole,) = least_components(problem, measure, box).values(measure)
        assert whole is not None
        open_parts, parts = [(whole, SingleStructure(counts))], list[tuple[int, SingleStructure]]()
        while open_parts:
            bound, part = open_parts.pop()
            halves = search.by_working(part, bound)
            tally.raised += bool(halves)
            open_parts += halves
            if not halves and part.working:
                parts.append((bound, part))
        tally.split += bool(parts)
        for (own, true), value in least.items() if parts else ():
            bounds = [bound for bound, part in parts if _is_in(true, part.working)]
            if own == counts and (not bounds or measure.unscaled(min(bounds)) > value):
                tally.wrong.append(f"{problem.workload} {problem.arch} {counts} {true}: {bounds} above {value}")


def _check_passes(problem: Problem, measure: Measure, least: Least, tally: Tally) -> None:
    """Hold the refined bound of every structure to its trees, and compare it to the bound without splits by passes."""
    splits: list[Part] = []
    true = JointSearch._by_pass

    def counted(self: JointSearch, *asked: Any) -> list[Part]:
        halves = true(self, *asked)
        splits.extend(halves[:1])
        return halves

    by_structure: dict[Counts, Fraction] = {}
    for (counts, _), value in least.items():
        by_structure[counts] = min(value, by_structure.get(counts, value))
    for counts, value in sorted(by_structure.items()):
        splits.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JointSearch, "_by_pass", counted)
            found = refine(problem, measure, counts, None, ROUNDS).bound
            patch.setattr(JointSearch, "_by_pass", lambda *_: [])
            before = refine(problem, measure, counts, None, ROUNDS).bound if splits else found
        tally.split += bool(splits)
        assert found is not None
        assert before is not None
        tally.raised += found > before
        if measure.unscaled(found) > value:
            tally.wrong.append(f"{problem.workload} {problem.arch} {counts}: {found} above {value}")


def _tally(seed: int, problems: int, *, spread: bool) -> Tally:
    """Check so many problems whose trees can be walked."""
    rng, tally = random.Random(f"splits {seed} {spread}"), Tally()
    while tally.problems < problems:
        workload, arch = _spread(rng) if spread else _unspread(rng)
        if few_legal(workload, arch, TileRule("any"), MOST_TREES, never) is None:
            continue
        problem = analyse(workload, arch)
        if least := _least_values(problem, workload, arch):
            tally.problems += 1
            measure = measure_of(parse_objective("energy", arch), workload, arch)
            (_check_working if spread else _check_passes)(problem, measure, least, tally)
    return tally


@pytest.mark.parametrize("batch", few(range(40), 1))
def test_parts_by_siblings_with_work_raise_bounds_and_exceed_no_tree(batch: int) -> None:
    tally = _tally(batch, 5, spread=True)
    assert tally.wrong == []
    assert tally.raised > 0


@pytest.mark.parametrize("batch", few(range(40), 1))
def test_parts_by_passes_raise_bounds_and_exceed_no_tree(batch: int) -> None:
    tally = _tally(batch, 20, spread=False)
    assert tally.wrong == []
    assert tally.raised > 0


def _assert_no_fault(seed: int, *, spread: bool) -> None:
    assert _tally(seed, 1, spread=spread).wrong == []


BUGS = (
    Bug("siblings with work have no number in the middle", SiblingSearch.by_working, "(middle + 1,", "(middle + 2,"),
    Bug("each tile is another pass", getattr(NodeView, "_passes"), "1 + both", "1 + 2 * both"),  # noqa: B009 - private
    Bug("no tensor passes twice", getattr(JointSearch, "_by_pass"), "half in halves]", "half in halves[:1]]"),  # noqa: B009
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_trees_see_a_seeded_bug_of_splits(bug: Bug) -> None:
    laws = [partial(_assert_no_fault, seed, spread=spread) for seed in range(30) for spread in (False, True)]
    assert_seen(bug, laws, 5 if bug.function is SiblingSearch.by_working else 2)
