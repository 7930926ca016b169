"""A lower bound on the loads of a tensor with windows whose node is inside another one, per tile of the outermost node.

While the outermost node's tile stays, the tensor's node visits all of the tensor's elements that this tile uses. An
element that need not be loaded again for the next tile is in the last tile that the tensor's node held before, and in
its first tile after. If no loop over the tensor's dims is between the two places, the loop right outside is over a dim
of both tensors and moves the tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polymap.search.parallelism_bounds import fewest_in_box
from polymap.search.single_level.question import Operand, Question, Window
from polymap.search.single_level.window_tables import WindowTables, fewest_table

Tiles = tuple[int, ...]  # per dim


@dataclass(frozen=True, slots=True)
class Held:
    """Tiles of one window. elements: a lower bound on those of a tile. kept: an upper bound on those that stay to the
    next."""

    elements: int
    kept: int


def words_of(one: Operand, tiles: Tiles) -> int:
    """Return a lower bound on the elements of a tensor's tile."""
    return prod(tiles[d] for d in one.plain) * prod(_touched(window, tiles) for window in one.windows)


def loads_of_later(
    question: Question, first: Operand, one: Operand, tiles: Tiles, words: int, tables: WindowTables
) -> int:
    """Return a lower bound on the loads of a tensor whose node holds at most `words` elements, given the outermost
    node's tiles."""
    extents = question.extents
    visits = prod(-(-extents[d] // tiles[d]) for d in one.lacking)
    slab = words_of(one, tiles)
    whole = prod(extents[d] for d in one.plain if tiles[d] == extents[d])
    full = prod(extents[d] // tiles[d] for d in one.own)
    if words < whole:
        return max(one.elements, full * visits * slab)
    kept = _kept(question, first, one, tiles, words, tables)
    return max(one.elements, full * visits * max(0, slab - kept))


def _kept(question: Question, first: Operand, one: Operand, tiles: Tiles, words: int, tables: WindowTables) -> int:
    """Return an upper bound on the elements that stay from one tile of the outermost node to the next."""
    if len(one.windows) != 2 or any(_is_cut_twice(question, window, tiles) for window in one.windows):
        return words
    extents = question.extents
    whole = prod(extents[d] for d in one.plain if tiles[d] == extents[d])
    most = prod(tiles[d] for d in one.plain)
    sizes = [tuple(tiles[d] for d in window.dims) for window in one.windows]
    steps = [_moved_dim(question, window, tiles) for window in one.windows]
    held_parts = tables.caches.memo(_held_parts)
    choices = [
        held_parts(window.coefficients, (size[0], size[1]), step)
        for window, size, step in zip(one.windows, sizes, steps, strict=True)
    ]
    uncut = [Held(_touched(window, tiles), _touched(window, tiles)) for window in one.windows]
    best = 0
    for p in (*choices[0], uncut[0]):
        for q in (*choices[1], uncut[1]):
            if p is uncut[0] and q is uncut[1] and whole == most:
                continue
            times = min(words // (p.elements * q.elements), most)
            if times >= whole:
                best = max(best, times * p.kept * q.kept)
    if whole == most and whole * uncut[0].elements * uncut[1].elements <= words:
        best = max(best, whole * _moved(first, one, tiles, steps, uncut))
    return min(best, words)


def _moved(first: Operand, one: Operand, tiles: Tiles, steps: list[int | None], uncut: list[Held]) -> int:
    """Return the elements that two neighbouring tiles share if a loop over a dim of both tensors is between the
    places."""
    best = 0
    for number, (window, axis) in enumerate(zip(one.windows, steps, strict=True)):
        if axis is not None and window.dims[axis] in first.own:
            size = tiles[window.dims[0]], tiles[window.dims[1]]
            best = max(best, _overlap(window.coefficients, size, size, axis) * uncut[1 - number].elements)
    return best


def _touched(window: Window, tiles: Tiles) -> int:
    return fewest_in_box(window.coefficients, (tiles[window.dims[0]], tiles[window.dims[1]]))


def _moved_dim(question: Question, window: Window, tiles: Tiles) -> int | None:
    """Return the dim of a window that the outermost node's tile cuts."""
    cut = [axis for axis, d in enumerate(window.dims) if tiles[d] < question.extents[d]]
    return cut[0] if cut else None


def _is_cut_twice(question: Question, window: Window, tiles: Tiles) -> bool:
    return all(tiles[d] < question.extents[d] for d in window.dims)


def _held_parts(coefficients: tuple[int, int], box: tuple[int, int], axis: int | None) -> tuple[Held, ...]:
    """Return the tiles that cut a box of a window, without dominated ones (more elements and no more kept).

    axis: the dim along which the next box may lie.
    """
    touched = fewest_table(box, coefficients)
    found: dict[int, int] = {}
    for a in range(1, box[0] + 1):
        for b in range(1, box[1] + 1):
            if (a, b) != box:
                kept = _overlap(coefficients, box, (a, b), None)
                if axis is not None:
                    kept = max(kept, _overlap(coefficients, box, (a, b), axis))
                elements = int(touched[a - 1, b - 1])
                found[elements] = max(found.get(elements, 0), min(kept, a * b))
    parts: list[Held] = []
    for elements, kept in sorted(found.items()):
        if not parts or kept > parts[-1].kept:
            parts.append(Held(elements, kept))
    return tuple(parts)


def _overlap(coefficients: tuple[int, int], box: tuple[int, int], tile: tuple[int, int], axis: int | None) -> int:
    """Return an upper bound on the elements shared by the last tile in a box and the first one of the next box.

    The next box is one box further along a dim (None: it is the same box).
    """
    last = [(max(n - t, t if n > t else 0), n - 1) for n, t in zip(box, tile, strict=True)]
    starts = [box[d] if axis == d else 0 for d in (0, 1)]
    first = [(start, start + t - 1) for start, t in zip(starts, tile, strict=True)]
    (low, high), (least, most) = _ends(coefficients, last), _ends(coefficients, first)
    return max(0, min(high, most) - max(low, least) + 1)


def _ends(coefficients: tuple[int, int], tile: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the least and the greatest element of a tile given as (first, last) index per dim."""
    pairs = [(c * begin, c * end) for c, (begin, end) in zip(coefficients, tile, strict=True)]
    return sum(map(min, pairs)), sum(map(max, pairs))
