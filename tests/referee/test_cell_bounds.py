"""The bound of a cell that holds the tiles of one tree is not above what that tree moves: random trees."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from polymap.ir import Compute, Mapping, MappingNode, Storage, Temporal, Workload
from polymap.resources import SearchCaches
from polymap.search.problem import analyse, exact_score, parse_objective
from polymap.search.single_level.cells import CUT, EITHER, SAME, CellBounds, Cells
from polymap.search.single_level.question import Question, read_question
from polymap.search.single_level.window_tables import WindowTables
from polymap.workload.einsums import einsum
from tests.referee.test_buffer_bounds import two_levels

CONVOLUTIONS = (
    ("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", {"k": 9, "c": 7, "p": 13, "q": 11, "r": 3, "s": 4}),
    ("O[k,p,q] += I[c,2*p+r,2*q+s] * W[k,c,r,s]", {"k": 6, "c": 5, "p": 12, "q": 9, "r": 5, "s": 3}),
    ("O[k,p,q] += I[c,p+2*r,q+s] * W[k,c,r,s]", {"k": 5, "c": 6, "p": 11, "q": 10, "r": 3, "s": 3}),
    ("O[c,p,q] += I[c,p+r,q+s] * W[c,r,s]", {"c": 8, "p": 14, "q": 9, "r": 4, "s": 3}),
    ("O[k,p] += I[c,3*p+2*r] * W[k,c,r]", {"k": 6, "c": 5, "p": 15, "r": 7}),
    ("O[k,p] += I[c,p-r+6] * W[k,c,r]", {"k": 6, "c": 5, "p": 17, "r": 7}),
)
TENSORS = ("O", "I", "W")


def random_tree(rng: random.Random, workload: Workload) -> Mapping:
    """Return nodes of all tensors in some order, with loops in the blocks between them."""
    tile = {dim.name: dim.extent for dim in workload.dims}
    nodes: list[MappingNode] = []
    few = rng.random()
    for tensor in (*rng.sample(TENSORS, 3), None):
        dims = [dim for dim in tile if tile[dim] > 1 and rng.random() < 0.2 + 0.7 * few]
        rng.shuffle(dims)
        for dim in dims:
            tile[dim] = rng.choice((1, rng.randint(1, tile[dim] - 1), max(1, tile[dim] // 2), tile[dim] - 1))
            nodes.append(Temporal(dim, tile[dim]))
        if tensor is not None:
            nodes.append(Storage("Buf", (tensor,)))
    nodes += [Temporal(dim, 1) for dim, size in tile.items() if size > 1]
    return Mapping((*nodes, Compute(workload.statements[0].name)))


def cell_of(question: Question, names: list[str], dims: list[str], mapping: Mapping) -> tuple[list[int], Cells]:
    """Return the tensors by their places, outermost first, and the cell of the tree's tiles there."""
    found: list[tuple[int, int, list[int]]] = []
    tiles: list[list[int]] = [list(question.extents)]
    moved: list[int] = [-1]  # the dim of each loop
    for node in mapping.nodes:
        if isinstance(node, Temporal):
            d = dims.index(node.dim)
            tiles.append([node.tile if e == d else size for e, size in enumerate(tiles[-1])])
            moved.append(d)
        elif isinstance(node, Storage):
            number = names.index(node.tensors[0])
            own = question.operands[number].own
            place = max((at for at, d in enumerate(moved) if d in own), default=0)
            found.append((place, number, tiles[place]))
    found.sort(key=lambda each: each[0])
    sizes = np.array([tile for *_, tile in found], dtype=np.int64)[:, :, None]
    tie = np.full_like(sizes, EITHER)
    tie[1:] = np.where(sizes[1:] == sizes[:-1], SAME, CUT)
    return [number for _, number, _ in found], Cells(sizes, sizes.copy(), tie)


def widened(rng: random.Random, cells: Cells, extents: tuple[int, ...]) -> Cells:
    """Return a cell that holds more."""
    low, high, tie = cells.low.copy(), cells.high.copy(), cells.tie.copy()
    for place, d in np.ndindex(*low.shape[:2]):
        if rng.random() < 0.4:
            low[place, d] = rng.randint(1, int(low[place, d, 0]))
            high[place, d] = rng.randint(int(high[place, d, 0]), extents[d])
        if place and rng.random() < 0.4:
            tie[place, d] = EITHER
    return Cells(low, high, tie)


def check(seed: int, count: int) -> tuple[int, int]:
    """Return how many trees were compared, and how many of their cells' bounds are met."""
    rng = random.Random(f"cells {seed}")
    compared = met = 0
    while compared < count:
        text, most = rng.choice(CONVOLUTIONS)
        workload = einsum(text, bits=rng.choice((1, 8)), sizes={dim: rng.randint(2, n) for dim, n in most.items()})
        arch = two_levels(1 << 40, None, ())
        problem = analyse(workload, arch)
        question = read_question(problem)
        assert question is not None
        names = [problem.terms[one.number].tensor.name for one in question.operands]
        objective, tables = parse_objective("traffic:DRAM", arch), WindowTables(SearchCaches())
        for _ in range(60):
            mapping = random_tree(rng, workload)
            score = exact_score(workload, arch, objective, mapping)
            assert score is not None
            held = dict(score.cost.occupancy_bits)["Buf"]
            numbers, cells = cell_of(question, names, [str(dim) for dim in problem.dims], mapping)
            bounds = CellBounds(question, tuple(question.operands[number] for number in numbers), tables)
            bounds.alike.clear()
            for each in (cells, widened(rng, cells, question.extents)):
                tight, fits = bounds.fitting(each, held)
                assert fits.all(), (workload, mapping)
                least = float(bounds.moved(tight, held)[0])
                assert least <= float(score.value) * (1 + 1e-12), (workload, mapping, least, score.value)
                met += least >= float(score.value) * (1 - 1e-12)
            compared += 1
    return compared, met


@pytest.mark.parametrize("seed", range(2))
def test_cells_are_not_above_their_trees(seed: int) -> None:
    compared, met = check(seed, 120)
    assert met > compared / 10, "a bound that says little cannot be wrong"


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    print(*check(first, count))
