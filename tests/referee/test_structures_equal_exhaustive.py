"""The structures that CP-SAT lists are exactly those that trees have: 200 random small spaces under constraints and
without, walked by the enumeration; programs with dependences, walked here and judged by isl.

A tree's structure is read off its nodes, and what a constraint means by tests/referee/demands.py: neither shares code
with the model. Run as a program it compares more spaces:
    python -m tests.referee.test_structures_equal_exhaustive [COUNT] [SEED]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import scored_trees
from polymap.schedules.legality import dependence_violations
from tests.referee.demands import KINDS, Table, meets, random_demands
from tests.referee.problems import random_problem
from tests.times import few

Told = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, str]], tuple[str, ...]]  # spread, held, order
_BATCHES, _BATCH = 20, 10
_ORDERS = ("innermost", "innermost", "outermost", "order", "intrinsic", "least")


@dataclass(frozen=True, slots=True)
class Space:
    """Trees of a workload on a machine that meet demands, by structure: the least value of those that fit, if any."""

    workload: pm.Workload
    arch: pm.Architecture
    demands: Table
    objective: str

    def truth(self) -> dict[Told, Fraction | None]:
        found: dict[Told, Fraction | None] = {}
        for tree in scored_trees(self.workload, self.arch, self.objective, "divide"):
            if meets(self.demands, self.workload, self.arch, tree.mapping, tree.steps):
                known = found.setdefault(told_by_tree(self.workload, tree.mapping), None)
                if tree.fits and (known is None or tree.value < known):
                    found[told_by_tree(self.workload, tree.mapping)] = tree.value
        return found

    def listed(self) -> list[pm.space.MappingStructure]:
        return list(pm.space.structures(self.workload, self.arch, self.demands or None))


def told(structure: pm.space.MappingStructure) -> Told:
    return frozenset(structure.spread), frozenset(structure.held), structure.order


def told_by_tree(workload: pm.Workload, mapping: pm.Mapping) -> Told:
    """Return a tree's structure, read off its nodes; tiles divide."""
    tiles = dict(workload.extents())
    spread: dict[tuple[str, str], int] = {}
    held: set[tuple[str, str]] = set()
    order: dict[str, None] = {}
    for node in mapping.nodes:
        match node:
            case pm.Storage(level, tensors) if level != "DRAM":  # the outermost level of all machines here
                held |= {(level, tensor) for tensor in tensors}
            case pm.Temporal(dim, tile):
                order.setdefault(dim)
                tiles[dim] = tile
            case pm.Spatial(dim, tile, fanout):
                spread[fanout, dim] = spread.get((fanout, dim), 1) * (tiles[dim] // tile)
                tiles[dim] = tile
            case _:
                pass
    return frozenset((*place, count) for place, count in spread.items()), frozenset(held), tuple(order)


def random_space(rng: random.Random, most: int = 800) -> Space:
    asked = random_problem(rng, most=most, tiles="divide")
    kinds = rng.choice((None, KINDS, _ORDERS))
    demands = {} if kinds is None else random_demands(rng, asked.workload, asked.arch, kinds)
    return Space(asked.workload, asked.arch, demands, asked.objective)


def assert_equal(space: Space) -> int:
    found = space.listed()
    assert len(found) == len({told(one) for one in found})
    assert {told(one) for one in found} == set(space.truth()), space
    return len(found)


@pytest.mark.parametrize("batch", few(range(_BATCHES), 1))
def test_the_list_is_what_trees_have(batch: int) -> None:
    rng = random.Random(f"structures {batch}")
    assert sum(assert_equal(random_space(rng)) for _ in range(_BATCH)) > _BATCH


@pytest.mark.parametrize("batch", few(range(6), 1))
def test_a_score_is_the_least_of_all_trees_of_the_structure(batch: int) -> None:
    rng = random.Random(f"scores {batch}")
    for _ in range(_BATCH):
        space = random_space(rng, 400)
        truth = space.truth()
        found = space.listed()
        for one in rng.sample(found, min(5, len(found))):
            scored = one.score(space.objective)
            least = truth[told(one)]
            if scored.status in ("OPTIMAL", "INFEASIBLE"):
                assert (scored.status, scored.value) == ("INFEASIBLE" if least is None else "OPTIMAL", least)
            else:  # a dim has two loops
                assert "innermost" in space.demands
                assert scored.value is None or (least is not None and scored.value >= least)
            if scored.mapping is not None:
                assert told_by_tree(space.workload, scored.mapping) == told(one)


ROWS = pm.einsum("y[m] += A[m,k] * x[k]", m=2, k=4)
LONG = pm.einsum("y[m] += A[m,k]", m=2, k=12)
FOUR = pm.einsum("s[] += A[z,x,w,y]", z=2, x=4, w=2, y=4)
ONLY_A: Table = {"must": ["A"], "never": ["x", "y"]}
CASES: list[tuple[pm.Workload, Table, tuple[str, ...], bool]] = [
    # k stands outermost and innermost: a node between its loops holds half of its indices.
    (ROWS, {"innermost": ["k"]}, ("k", "m"), True),
    (ROWS, {"innermost": ["k"], "intrinsic": {"k": 2}}, ("k", "m"), True),
    (ROWS, {"innermost": ["k"], "intrinsic": {"k": 4}}, ("k", "m"), False),
    (ROWS, {"innermost": ["k"], "store": {"RF": {"least": {"A": 4}, "never": ["x", "y"]}}}, ("k", "m"), True),
    (ROWS, {"innermost": ["k"], "store": {"RF": {"least": {"A": 8}, "never": ["x", "y"]}}}, ("k", "m"), False),
    (ROWS, {"innermost": ["k"], "store": {"RF": {"never": ["A", "x", "y"]}}}, ("k", "m"), False),
    # x z x, then y w y: two dims with two loops each, and no node that stands inside both.
    (FOUR, {"innermost": ["z", "x", "w", "y"], "order": ["x", "y"]}, ("x", "z", "y", "w"), True),
    # RF's node stands outside all loops, and GLB's outside it.
    (ROWS, {"innermost": ["k"], "store": {"GLB": ONLY_A, "RF": ONLY_A | {"least": {"A": 8}}}}, ("k", "m"), False),
    (ROWS, {"innermost": ["k"], "store": {"GLB": ONLY_A | {"least": {"A": 8}}, "RF": ONLY_A}}, ("k", "m"), True),
    # X takes the 3 of 12, and the outer loop over k one of the 2.
    (LONG, {"innermost": ["k"], "fanouts": {"X": {"factors": {"k": 3}}}, "intrinsic": {"k": 4}}, ("k", "m"), False),
    (LONG, {"innermost": ["k"], "fanouts": {"X": {"factors": {"k": 3}}}, "intrinsic": {"k": 2}}, ("k", "m"), True),
]


@pytest.mark.parametrize(("workload", "demands", "order", "is_there"), CASES)
def test_two_loops_over_a_dim_have_a_node_between_them(
    workload: pm.Workload, demands: Table, order: tuple[str, ...], is_there: bool
) -> None:
    optional = {"GLB": {"level": "GLB"}, "X": {"fanout": "X", "size": 3}}
    middle = [node for name, node in optional.items() if name in str(demands)]
    nodes = [{"level": "DRAM"}, *middle, {"level": "RF"}, {"compute": "MAC"}]
    arch = pm.io.arch_from_document({"name": "levels", "nodes": nodes})
    space = Space(workload, arch, demands, "energy")
    assert_equal(space)
    assert any(one.order == order for one in space.listed()) == is_there


SPREAD = pm.io.arch_from_document(
    {
        "name": "spread",
        "nodes": [{"level": "DRAM"}, {"fanout": "X", "size": 4}, {"level": "RF", "holds": []}, {"compute": "MAC"}],
    }
)
I_J = "for (int i = 2; i < N; i++) for (int j = 0; j < M - 1; j++)"
PROGRAMS = {
    "down": (f"{I_J} a[i][j] = a[i-1][j];", {"N": 6, "M": 5}),
    "two down": (f"{I_J} a[i][j] = a[i-2][j];", {"N": 6, "M": 3}),
    "across": (f"{I_J} a[i][j] = a[i-1][j+1];", {"N": 6, "M": 5}),
    "along": (f"{I_J} a[i][j] = a[i-1][j] + a[i-2][j];", {"N": 8, "M": 3}),
    "overwritten": (f"{I_J} a[j] = b[i][j];", {"N": 6, "M": 4}),
    "moved": (f"{I_J} a[j][i] = b[i][j];", {"N": 6, "M": 4}),
    "triangle": ("for (int i = 0; i < N; i++) for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];", {"N": 4}),
    "paths": (
        "for (int k = 0; k < N; k++) for (int i = 0; i < N; i++) for (int j = 0; j < N; j++)"
        " d[i][j] = fmin(d[i][j], d[i][k] + d[k][j]);",
        {"N": 3},
    ),
    # Pairs of columns depend on each other, none on another pair: i may stand inside j where these are side by side.
    "pairs": (
        "for (int i = 1; i < N; i++) for (int j = 0; j < M; j++) a[i][j] = a[i-1][j + 1 - 2 * (j % 2)];",
        {"N": 3, "M": 4},
    ),
}


def all_loops(tiles: dict[str, int], spread: dict[str, int]) -> Iterator[tuple[pm.Temporal | pm.Spatial, ...]]:
    """Yield every sequence of loops with dividing tiles, up to four of them side by side."""
    if all(tile == 1 for tile in tiles.values()):
        yield ()
    for dim, whole in tiles.items():
        for tile in (tile for tile in range(1, whole) if whole % tile == 0):
            inside = {**tiles, dim: tile}
            for rest in all_loops(inside, spread):
                yield (pm.Temporal(dim, tile), *rest)
            if dim not in spread and prod(spread.values()) * (whole // tile) <= 4:
                for rest in all_loops(inside, {**spread, dim: whole // tile}):
                    yield (pm.Spatial(dim, tile, "X"), *rest)


def is_plain(loops: tuple[pm.Temporal | pm.Spatial, ...]) -> bool:
    """Return whether dims have one temporal loop each, and spatial loops stand inside."""
    time = [loop.dim for loop in loops if isinstance(loop, pm.Temporal)]
    return len(time) == len(set(time)) and all(isinstance(loop, pm.Temporal) for loop in loops[: len(time)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_orders_and_fanouts_of_programs_keep_the_dependences(name: str) -> None:
    """All trees of the program, in any order of temporal and spatial loops: not only the plainest ones, but where a
    dependence stays inside of tiles."""
    text, sizes = PROGRAMS[name]
    program = pm.from_c(text, sizes=sizes)
    legal = legal_structures(program, plain=name == "pairs")
    assert {told(one) for one in pm.space.structures(program, SPREAD)} == legal


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(20), 6))
def test_structures_of_random_recurrences_are_those_of_legal_plain_trees(seed: int) -> None:
    program = random_recurrence(random.Random(f"recurrences {seed}"))
    found = {told(one) for one in pm.space.structures(program, SPREAD)}
    assert found == legal_structures(program, plain=True)
    assert found <= legal_structures(program, plain=False)


def legal_structures(program: pm.Workload, *, plain: bool) -> set[Told]:
    """Return the structures of the trees (plain: of the plain ones) without nodes that keep the dependences, by isl."""
    legal: set[Told] = set()
    for loops in all_loops({dim: extent for dim, extent in program.extents().items() if extent > 1}, {}):
        tree = pm.Mapping((*loops, pm.Compute(program.statements[0].name)))
        one = told_by_tree(program, tree)
        if one not in legal and (is_plain(loops) or not plain) and not dependence_violations(program, tree):
            legal.add(one)
    return legal


def random_recurrence(rng: random.Random) -> pm.Workload:
    """Return a program of one to three loops whose statement reads what it writes at up to two fixed distances."""
    names = "ijk"[: rng.choice((1, 2, 2, 2, 3))]
    used = [name for name in names if rng.random() < 0.8] or [names[0]]
    extents = [rng.choice((2, 3, 4) if len(names) == 3 else (2, 3, 4, 4, 6)) for _ in names]
    loops = (f"for (int {name} = 2; {name} < {2 + size}; {name}++)" for name, size in zip(names, extents, strict=True))
    far = [
        "".join(f"[{name}{rng.choice((0, 0, 1, -1, 2, -2)):+d}]" for name in used) for _ in range(rng.choice((1, 2)))
    ]
    target = "".join(f"[{name}]" for name in used)
    return pm.from_c(f"{' '.join(loops)} a{target} = {' + '.join(f'a{one}' for one in far)};")


def main() -> None:
    """Compare more spaces than the tests do."""
    count, seed = (int(word) for word in [*sys.argv[1:], *("1000", "0")[len(sys.argv) - 1 :]])
    rng = random.Random(f"tally {seed}")
    sizes = [assert_equal(random_space(rng, rng.choice((800, 3000)))) for _ in range(count)]
    print(f"{count} spaces, {sum(sizes)} structures, {sum(size == 0 for size in sizes)} spaces without any: all equal")


if __name__ == "__main__":
    main()
