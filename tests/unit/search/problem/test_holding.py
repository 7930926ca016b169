"""Which levels hold a tensor and what a node costs, against subsets of levels and sums counted level by level."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain, combinations

import pytest

from polymap.search.any_size.crossings import sibling_ranges
from polymap.search.any_size.single_tensor import one_box
from polymap.search.any_size.tensor_costs import least_components
from polymap.search.problem.components import Component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.holding import HolderGraph, holder_graph, level_graph, node_weights, unfold_graph
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import Problem, TensorTerm, analyse
from polymap.search.problem.scores import exact_score
from polymap.workload.layers import matmul
from tests.case_machines import with_wires
from tests.referee.large_trees import random_large_tree
from tests.referee.problems import random_problem
from tests.times import few
from tests.tree_siblings import sibling_counts

LEVELS = 5


def random_term(rng: random.Random, *, is_output: bool) -> TensorTerm:
    """Return a tensor of a product that some of five levels may hold, and some of these must."""
    may = frozenset(level for level in range(1, LEVELS) if rng.random() < 0.7)
    must = frozenset(level for level in may if rng.random() < 0.3)
    workload = matmul(m=4, n=4, k=4)
    name = workload.statements[0].target.tensor
    index = next(i for i, tensor in enumerate(workload.tensors) if (tensor.name == name) == is_output)
    return TensorTerm(workload.tensors[index], index, is_output, (), may, must)


def paths(graph: HolderGraph) -> list[tuple[int, ...]]:
    return [tuple(edge.level for edge in one) for one in graph.chains()]


@pytest.mark.parametrize("seed", few(range(30), 12))
def test_the_chains_are_the_subsets_of_levels_that_may_hold_with_all_that_must(seed: int) -> None:
    rng = random.Random(f"holding {seed}")
    term = random_term(rng, is_output=bool(seed % 2))
    subsets = chain.from_iterable(combinations(sorted(term.may_hold), n) for n in range(LEVELS))
    expected = [one for one in subsets if term.must_hold <= set(one)]
    by_level = level_graph(term, LEVELS)
    remembering, bits = unfold_graph(by_level, lambda bit, edge: bit or edge.level == 2)
    assert paths(by_level) == paths(holder_graph(term, LEVELS)) == paths(remembering) == expected
    for one in remembering.chains():
        assert bits[one[-1].target] == any(edge.level == 2 for edge in one) if one else not bits[0]
    for one in holder_graph(term, LEVELS).chains() if term.is_output else ():
        assert [edge.levels for edge in one] == [tuple(e.level for e in one[i:]) for i in range(len(one))]


def output_cost(component: Component, index: int, levels: tuple[int, ...], counts: list[tuple[int, int, int]]) -> int:
    """Return what is read and written of an output, level by level: counts (drained, of different siblings, messages)
    of the nodes, all of an element's siblings but one beginning with zero, and nothing else."""
    total, zero = 0, 0
    for place, (drained, different, messages) in enumerate(counts):
        parent, level = levels[place], levels[place + 1]
        total += component.read[level][index] * drained + component.write[level][index] * (different - zero)
        total += component.write[parent][index] * messages + component.read[parent][index] * (messages - zero)
        zero += drained - different
    return total - component.read[levels[-1]][index] * zero


@pytest.mark.parametrize("seed", few(range(30), 12))
def test_the_weights_of_the_nodes_of_an_output_add_up_to_its_reads_and_writes(seed: int) -> None:
    rng = random.Random(f"weights {seed}")
    one = random_problem(rng)
    problem: Problem = analyse(one.workload, one.arch)
    if problem.reason is not None:
        return
    measure = measure_of(parse_objective("energy", one.arch), one.workload, one.arch)
    component = measure.components[0]
    term = next(term for term in problem.terms if term.is_output)
    for edges in holder_graph(term, problem.level_count).chains():
        counts = [(rng.randint(50, 99), rng.randint(10, 50), rng.randint(100, 200)) for _ in edges]
        total = 0
        for edge, (drained, different, messages) in zip(edges, counts, strict=True):
            weights = node_weights(problem, term, component, edge.parent, edge.levels)
            total += weights.fill * different - weights.further_in * (drained - different) + weights.message * messages
        assert total == output_cost(component, term.index, (0, *(edge.level for edge in edges)), counts)


@pytest.mark.parametrize("block", range(3))
def test_sums_that_are_there_from_the_start_pay_the_wires_inwards_and_no_tree_costs_less(block: int) -> None:
    met = 0
    for seed in range(12 * block, 12 * block + 12):
        rng = random.Random(f"wired sums {seed}")
        one = random_problem(rng)
        target = one.workload.statements[0].target.tensor
        tensors = tuple(replace(t, initial=t.initial or t.name == target) for t in one.workload.tensors)
        workload, arch = replace(one.workload, tensors=tensors), with_wires(rng, one.arch)
        problem, goal = analyse(workload, arch), parse_objective("energy", arch)
        if problem.reason is not None:
            continue
        measure = measure_of(goal, workload, arch)
        mapping = random_large_tree(rng, workload, arch)
        score = exact_score(workload, arch, goal, mapping)
        if score is None or score.excess:
            continue
        low, high = sibling_ranges(problem, sibling_counts(problem, mapping))
        (value,) = least_components(problem, measure, one_box(problem, low, high)).values(measure)
        assert value is not None
        assert measure.unscaled(value) <= score.value
        met += 1
    assert met
