"""Loop trees at the tiles where bounds are least."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from polymap.ir import Compute, Mapping, MappingNode, Storage, Temporal
from polymap.search.one_buffer.bounds import Relaxed
from polymap.search.one_buffer.first_tiles import FirstTiles
from polymap.search.one_buffer.question import Operand, Question
from polymap.search.problem import Problem
from polymap.search.sibling_bounds import fewest_in_box

Tiles = tuple[int, ...]  # per dim


def words_of(operand: Operand, tiles: Tiles) -> int:
    """Return how many elements a tile of a tensor has (exact where windows have a coefficient of 1)."""
    total = prod(tiles[d] for d in operand.plain)
    for window in operand.windows:
        total *= fewest_in_box(window.coefficients, (tiles[window.dims[0]], tiles[window.dims[1]]))
    return total


def chains(question: Question, tiles: FirstTiles, relaxed: Relaxed, room: int, most: int) -> Iterator[tuple[Tiles, ...]]:
    """Yield chains of tiles, one per held tensor, that fit: the first of the best cells, further in a dim is left as it
    is or cut into single indices."""
    for cell in relaxed.cells[:most].tolist():
        first = tuple(int(one.low[i]) for one, i in zip(tiles.groups, tiles.index[:, cell].tolist(), strict=True))
        yield from _inside(relaxed.order, (first,), room - relaxed.order[0].bits * words_of(relaxed.order[0], first))


def _inside(order: tuple[Operand, ...], chain: tuple[Tiles, ...], room: int) -> Iterator[tuple[Tiles, ...]]:
    if room < 0:
        return
    if len(chain) == len(order):
        yield chain
        return
    one, outer = order[len(chain)], chain[-1]
    choices = [(n, 1) if d in one.own and n > 1 else (n,) for d, n in enumerate(outer)]
    for inner in product(*choices):
        yield from _inside(order, (*chain, inner), room - one.bits * words_of(one, inner))


def tree(problem: Problem, question: Question, order: tuple[Operand, ...], chain: tuple[Tiles, ...]) -> Mapping:
    """Return the loop tree: per node the loops over dims that its tensor lacks, then those over its own dims."""
    nodes: list[MappingNode] = []
    outer = question.extents
    level = problem.arch.levels[1].name
    for one, inner in zip(order, chain, strict=True):
        moved = [d for d in range(len(outer)) if inner[d] < outer[d]]
        moved.sort(key=lambda d: (d in one.own, d))
        nodes += [Temporal(problem.dims[d], inner[d]) for d in moved]
        nodes.append(Storage(level, (problem.terms[one.number].tensor.name,)))
        outer = inner
    nodes += [Temporal(problem.dims[d], 1) for d, n in enumerate(outer) if n > 1]
    return Mapping((*nodes, Compute(problem.workload.statements[0].name)))
