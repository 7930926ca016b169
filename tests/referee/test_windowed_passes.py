"""A program in which a window stands between two statements costs no less than the floor says: what the second one
reads of the result of the first below its node there is charged to it. Trees: the program and it in tiles of rows and
in lines, random legs of each statement below the loops and the node that stand around both."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from time import process_time

import pytest

from polymap import evaluate, program
from polymap.explore import provers
from polymap.inputs import arch_from_document
from polymap.ir.loopnest import Statement, Workload
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.resources import never
from polymap.search import legs, refunds
from polymap.search.options import TUNING, Options
from polymap.search.problem import objective_values, parse_single
from polymap.search.programs import in_lines, in_tiles
from polymap.search.provers import read_question
from tests.times import few

Nodes = tuple[MappingNode, ...]

TEXTS = (
    ("T[y] = I[y] * W[y]", "O[z,v] += T[{s}*v+a] * V[z,a]"),
    ("T[y] = I[y] * W[y]", "O[v] += T[{s}*v+a] * V[a]"),
    ("T[k,y] = I[k,y] * W[k]", "O[v] += T[k,{s}*v+a] * V[k,a]"),
)
LEGS = 40


def question(rng: random.Random) -> tuple[Workload, Architecture]:
    step, reach, rows = rng.choice((1, 2)), rng.choice((2, 3)), rng.choice((2, 4))
    texts = [text.format(s=step) for text in rng.choice(TEXTS)]
    sizes = {"z": 2, "k": 2, "a": reach, "v": rows, "y": step * (rows - 1) + reach}
    sizes = {name: size for name, size in sizes.items() if any(name in text for text in texts)}
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": rng.choice((5, 20)), "write_pj": rng.choice((0, 9))},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * rng.randint(4, 12), "read_pj": rng.randint(1, 4)},
        *([{"fanout": "U", "size": 2, "reduction": rng.random() < 0.5}] if rng.random() < 0.4 else []),
        {"compute": "PE", "pj": 1},
    ]
    return program(texts, sizes=sizes, temporary=["T"], bits=8), arch_from_document({"name": "small", "nodes": nodes})


def least_of_trees(rng: random.Random, work: Workload, arch: Architecture) -> float:
    """Return the least energy of these trees, of each statement the best of some parts."""
    least, last = float("inf"), work.statements[-1].target.dims[-1]
    cuts = [in_tiles(work, last, tile) for tile in range(1, work.extents()[last]) if work.extents()[last] % tile == 0]
    for own in (work, *(cut for cut in cuts if cut is not None)):
        common = own.statements[-1].dims[0] if own is not work else ""
        for held in ("", "T"):
            loops = (Temporal(common, 1),) if common else ()
            above = (*loops, *((Storage("G", ("T",)),) if held else ()))
            extents = own.extents() | ({common: 1} if common else {})
            parts = [[leg(rng, each, extents, arch, held) for _ in range(LEGS)] for each in own.statements]
            least = min(least, least_below(own, arch, above, parts))
    return min(least, least_of_lines(rng, work, arch))


def least_of_lines(rng: random.Random, work: Workload, arch: Architecture, objective: str = "energy") -> float:
    """Return the least energy (or what else is asked for) of trees in which each iteration of a loop makes the rows
    that it is the first to need: what is made before the loop has a branch of its own."""
    least, last = float("inf"), work.statements[-1].target.dims[-1]
    lined = in_lines(work, last)
    for tile in range(1, work.extents()[last]) if lined is not None else ():
        if lined is None or work.extents()[last] % tile:
            continue
        for held in ("", "T"):
            above = (Temporal(last, tile), *((Storage("G", ("T",)),) if held else ()))
            extents = lined.extents() | {last: tile}
            first, *inside = lined.statements
            parts = [[leg(rng, first, extents, arch, "") for _ in range(LEGS)]]
            parts += [[leg(rng, each, extents, arch, held) for _ in range(LEGS)] for each in inside]
            least = min(least, least_below(lined, arch, above, parts, apart=1, objective=objective))
    return least


def lines_question(rng: random.Random) -> tuple[Workload, Architecture, str]:
    """Return a program that has lines, a machine of one or two levels on chip, which often computes for much, and what
    is asked for."""
    while in_lines((asked := question(rng))[0], "v") is None:
        pass
    work, arch = asked
    nodes = [each for each in arch.nodes if not isinstance(each, ComputeUnit)]
    inner = MemoryLevel("R", word_bits=8, capacity_bits=8 * rng.randint(2, 6), read_pj=Fraction(1, 2))
    nodes += [inner] if rng.random() < 0.5 else []
    compute = replace(arch.compute, pj=Fraction(rng.choice((0, 1, 40))))
    return work, replace(arch, nodes=(*nodes, compute)), rng.choice(("energy", "energy", "traffic:DRAM", "traffic:G"))


def floor_of_lines(work: Workload, arch: Architecture, objective: str) -> float:
    asked, _ = read_question(work, arch, Options(objective, "divide", time_limit_s=60, clock=process_time), provers)
    lined = legs.in_lines_of(asked)
    assert lined is not None
    return float(max(refunds.sums_of_lines(asked, lined, asked.objective, never, TUNING.most_splits_of_trees)))


def compare_lines(seed: int) -> None:
    rng = random.Random(f"floor of lines {seed}")
    work, arch, objective = lines_question(rng)
    least = least_of_lines(rng, work, arch, objective)
    assert floor_of_lines(work, arch, objective) <= least * (1 + 1e-12)


@pytest.mark.parametrize("seed", few(range(200), 3))
def test_no_tree_in_lines_is_below_their_floor(seed: int) -> None:
    compare_lines(seed)


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (refunds.sums_of_lines, "in ahead)", "in lined.statements)"),  # all instances once more
        (legs.bits_not_read, "many - elements_of(left, part.extents())", "many"),  # also what is read inside
    ],
    ids=["instances", "reads"],
)
def test_a_mistake_in_the_floor_of_lines_is_caught(
    function: Callable[..., object], right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, name = inspect.getsource(function), function.__name__
    assert source.count(right) == 1
    mutant = dict(vars(inspect.getmodule(function)))
    exec(f"from __future__ import annotations\n{source.replace(right, wrong)}", mutant)
    monkeypatch.setattr(refunds, name, mutant[name])
    with pytest.raises(AssertionError):
        compare_lines(1)


def leg(rng: random.Random, statement: Statement, extents: dict[str, int], arch: Architecture, held: str) -> Nodes:
    """Return the loops of a statement in some order, perhaps one of them side by side, or tiled, and nodes of some of
    its tensors, but of the one that is held around it."""
    dims = [name for name in statement.dims if extents[name] > 1]
    nodes: list[MappingNode] = [Temporal(name, 1) for name in rng.sample(dims, len(dims))]
    if arch.fanouts and dims and rng.random() < 0.7:
        at = rng.randrange(len(nodes))
        name = next(one.dim for one in nodes[at:] if isinstance(one, Temporal))
        nodes[at] = Spatial(name, -(-extents[name] // 2), "U")
        nodes += [Temporal(name, 1)] if extents[name] > 2 else []
    elif any(extents[name] == 4 for name in dims) and rng.random() < 0.5:
        nodes.insert(0, Temporal(next(name for name in dims if extents[name] == 4), 2))
    for tensor in dict.fromkeys(each.tensor for each in (statement.target, *statement.reads)):
        if tensor != held and rng.random() < 0.8:
            above = [at for at, each in enumerate(nodes) if isinstance(each, Spatial)]  # G is above the fan-out
            nodes.insert(rng.randint(0, above[0] if above else len(nodes)), Storage("G", (tensor,)))
    inner = [tensor for tensor in ("T", "I", "W", "V", "O") if rng.random() < 0.5] if len(arch.levels) > 2 else []
    for tensor in inner:
        if any(each.tensor == tensor for each in (statement.target, *statement.reads)):
            outer = [at for at, each in enumerate(nodes) if isinstance(each, Storage | Spatial)]
            nodes.insert(rng.randint(max(outer, default=-1) + 1, len(nodes)), Storage("R", (tensor,)))
    return (*nodes, Compute(statement.name))


def least_below(
    work: Workload,
    arch: Architecture,
    above: Nodes,
    parts: list[list[Nodes]],
    *,
    apart: int = 0,
    objective: str = "energy",
) -> float:
    """Return the least energy (or what else is asked for) below some nodes: what one part costs does not depend on the
    other. apart: so many parts stand before the nodes."""

    def value(tree: Mapping) -> float:
        cost = evaluate(work, arch, tree)
        return float(objective_values(work, arch, asked, cost)[0]) if cost.legal else float("inf")

    asked, best = parse_single(objective, arch), [min(part, key=len) for part in parts]
    for place, part in enumerate(parts):
        trees = ([nodes if place == at else one for at, one in enumerate(best)] for nodes in part)
        best = min(trees, key=lambda own: value(tree_of(above, own, apart)))
    return value(tree_of(above, best, apart))


def tree_of(above: Nodes, parts: list[Nodes], apart: int) -> Mapping:
    nodes = (*above, Branch(tuple(parts[apart:])))
    return Mapping((Branch((*parts[:apart], nodes)),) if apart else nodes)


def floor_of(work: Workload, arch: Architecture, patch: pytest.MonkeyPatch) -> float:
    patch.setattr(legs, "may_be_climbed", lambda *_: False)  # as of programs that are too large for that
    asked, known = read_question(work, arch, Options("energy", "divide", time_limit_s=60), provers)
    return float(refunds.bound_by_cases(asked, known, never).floors[0])


@pytest.mark.parametrize("seed", few(range(200), 3, late=(0,)))
def test_no_tree_with_a_window_between_statements_is_below_the_floor(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"windowed {seed}")
    work, arch = question(rng)
    assert floor_of(work, arch, monkeypatch) <= least_of_trees(rng, work, arch) * (1 + 1e-12)
