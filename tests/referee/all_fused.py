"""All trees of a tiny program of several statements through one buffer, and the fewest words that any of them moves at
the outermost level, or the least that a price of steps and words asks: written out, step by step, in sets.

It shares nothing with the counting and the search. Tiles divide, or are of any size; every loop above a branch is over
a dim of each statement below, and none sums up what another statement below reads. Nodes stand above loops and
branches. A node holds its whole tile; elements that die before the tile ends would leave room for others. With lanes,
loops also run side by side below the buffer, above branches too: these lanes share what they read and add up what they
write.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

Tree = tuple  # ("loop" or "lanes", dim, tile, tree), ("branch", trees) or ("run", number of the statement)
Box = dict[str, tuple[int, int]]
Boxes = tuple[Box, ...]  # of lanes that run side by side


@dataclass(frozen=True)
class Program:
    """texts: such as "T[m,n] += A[m,k] * B[k,n]", each tensor with the same dims everywhere. temporary: tensors that
    nobody needs after the run."""

    texts: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    temporary: str

    def accesses(self, number: int) -> list[tuple[str, str]]:
        """Return tensors and their dims, the target first."""
        found = re.findall(r"(\w+)\[([\w,]+)\]", self.texts[number])
        return list(dict.fromkeys((name, dims.replace(",", "")) for name, dims in found))

    def dims(self, number: int) -> str:
        return "".join(dict.fromkeys(dim for _, dims in self.accesses(number) for dim in dims))

    def tensors(self) -> dict[str, str]:
        return dict(access for number in range(len(self.texts)) for access in self.accesses(number))

    def target(self, number: int) -> str:
        return self.accesses(number)[0][0]


def least_words(program: Program, room: int, shared: str = "", *, divides: bool = True) -> int:
    """Return how many words any tree moves at least through a buffer of so many words. shared: a tensor of which all
    statements share a node."""
    best = -1
    for tree in trees(program, tuple(range(len(program.texts))), dict(program.sizes), divides=divides):
        options = [_options(program, tree, name, room, name == shared) for name in program.tensors()]
        best = _least(sorted(options, key=len), room, best) if all(options) else best
    return best


def least_price(program: Program, room: int, lanes: int, price: Callable[[int, int], int]) -> int:
    """Return the least price of (steps, words) of any tree through a buffer of so many words over so many lanes. price:
    does not fall with words."""
    best = dict[int, int]()  # words, by steps
    for tree in trees(program, tuple(range(len(program.texts))), dict(program.sizes), lanes=lanes):
        steps = len(Walk(program, tree, "", frozenset()).taken)
        enough = min((words for fewer, words in best.items() if fewer <= steps), default=-1)
        options = [_options(program, tree, name, room) for name in program.tensors()]
        best[steps] = _least(sorted(options, key=len), room, enough)
    return min(price(steps, words) for steps, words in best.items())


def trees(
    program: Program,
    group: tuple[int, ...],
    left: dict[str, int],
    above: str = "",
    lanes: int = 1,
    *,
    divides: bool = True,
) -> Iterator[Tree]:
    """Yield the trees of neighbouring statements, so many indices of each dim being left. above: the dim of the loop
    right above. lanes: still free. Branches stand right below others, too: nodes in between hold what these share."""
    if len(group) == 1 and all(left[dim] == 1 for dim in program.dims(group[0])):
        yield ("run", group[0])
        return
    for dim in program.dims(group[0]):
        if any(dim not in program.dims(each) for each in group):
            continue
        for tile in (tile for tile in range(1, left[dim]) if not divides or left[dim] % tile == 0):
            inside, many = left | {dim: tile}, -(-left[dim] // tile)
            if (dim != above or not divides) and not _is_summed_up(program, group, dim):
                below = trees(program, group, inside, dim, lanes, divides=divides)
                yield from (("loop", dim, tile, each) for each in below)
            if many <= lanes:
                below = trees(program, group, inside, "", lanes // many, divides=divides)
                yield from (("lanes", dim, tile, each) for each in below)
    if len(group) > 1:
        for many in range(1, len(group)):
            for cuts in combinations(range(1, len(group)), many):
                ends = list(zip((0, *cuts), (*cuts, len(group)), strict=True))
                parts = (list(trees(program, group[a:b], left, "", lanes, divides=divides)) for a, b in ends)
                yield from (("branch", children) for children in product(*parts))


def _is_summed_up(program: Program, group: tuple[int, ...], dim: str) -> bool:
    """Return whether some statement sums up over a dim what another one reads."""
    for each in group:
        target, dims = program.accesses(each)[0]
        others = [name for other in group if other != each for name, _ in program.accesses(other)]
        if dim not in dims and target in others:
            return True
    return False


def _statements(tree: Tree) -> list[int]:
    if tree[0] == "run":
        return [tree[1]]
    children = tree[1] if tree[0] == "branch" else tree[3:]
    return [number for child in children for number in _statements(child)]


def _touches(program: Program, tree: Tree, tensor: str) -> bool:
    return any(name == tensor for number in _statements(tree) for name, _ in program.accesses(number))


def places_of(program: Program, tree: Tree, tensor: str) -> Iterator[frozenset[int]]:
    """Yield where the nodes of a tensor may stand, at most one on each way."""
    if tree[0] == "run" or not _touches(program, tree, tensor):
        yield frozenset()
        return
    yield frozenset((id(tree),))
    children = tree[1] if tree[0] == "branch" else tree[3:]
    for chosen in product(*(list(places_of(program, child, tensor)) for child in children)):
        yield frozenset().union(*chosen)


def _around_all(tree: Tree) -> Iterator[int]:
    """Yield where a node stands around all statements."""
    yield id(tree)
    if tree[0] in ("loop", "lanes"):
        yield from _around_all(tree[3])


def _options(
    program: Program, tree: Tree, tensor: str, room: int, is_shared: bool = False
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the words that a tensor moves, and those that it takes in each step, by where its nodes stand (shared: one
    around all statements); none that takes and moves no less than another one."""
    found = list[tuple[int, tuple[int, ...]]]()
    around = {*_around_all(tree)}
    chosen = (each for each in places_of(program, tree, tensor) if not is_shared or each & around)
    every = (Walk(program, tree, tensor, places) for places in chosen)
    walks = {(walk.words, tuple(walk.taken)) for walk in every}
    for words, taken in sorted(walks, key=lambda walk: (walk[0], sum(walk[1]))):
        is_new = not any(all(a <= b for a, b in zip(other, taken, strict=True)) for _, other in found)
        if max(taken) <= room and is_new:
            found.append((words, taken))
    return found


def _least(options: list[list[tuple[int, tuple[int, ...]]]], room: int, best: int) -> int:
    """Return the fewest words of all tensors for which there is room in each step, if fewer than the best known (-1:
    none)."""
    rest = [sum(min(words for words, _ in own) for own in options[at:]) for at in range(len(options) + 1)]

    def go(at: int, words: int, taken: tuple[int, ...]) -> None:
        nonlocal best
        if best >= 0 and words + rest[at] >= best:
            return
        if at == len(options):
            best = words
            return
        for more, own in options[at]:
            both = tuple(a + b for a, b in zip(taken, own, strict=True))
            if max(both) <= room:
                go(at + 1, words + more, both)

    go(0, 0, (0,) * len(options[0][0][1]))
    return best


class Walk:
    """A run of a tree, as one tensor sees it. words: that it moves at the outermost level; taken: in each step."""

    def __init__(self, program: Program, tree: Tree, tensor: str, places: frozenset[int]) -> None:
        self.program, self.tensor, self.places = program, tensor, places
        self.words, self.taken = 0, list[int]()
        self.tiles = dict[int, set]()  # by the node
        self.dirty, self.outside = set(), set()
        self.left = Counter[tuple]()  # uses still to come
        self.is_written = any(program.target(number) == tensor for number in range(len(program.texts)))
        boxes = ({dim: (0, size) for dim, size in program.sizes},)
        self.count_uses(tree, boxes)
        self.go(tree, boxes)
        self.release(tree)

    def elements(self, numbers: list[int], boxes: Boxes) -> set:
        return {
            element
            for number in numbers
            for name, dims in self.program.accesses(number)
            if name == self.tensor
            for box in boxes
            for element in product(*(range(*box[dim]) for dim in dims))
        }

    def count_uses(self, tree: Tree, boxes: Boxes) -> None:
        if tree[0] == "run":
            self.left.update(self.elements([tree[1]], boxes))
        elif tree[0] == "branch":
            for child in tree[1]:
                self.count_uses(child, boxes)
        else:
            for inside in self.steps(tree, boxes):
                self.count_uses(tree[3], inside)

    def steps(self, tree: Tree, boxes: Boxes) -> Iterator[Boxes]:
        """Yield what the lanes do below a loop, step by step; they are more of them below lanes."""
        kind, dim, tile, _ = tree
        low, high = boxes[0][dim]
        every = [
            tuple(box | {dim: (box[dim][0] + at, min(box[dim][1], box[dim][0] + at + tile))} for box in boxes)
            for at in range(0, high - low, tile)
        ]
        yield from (tuple(box for one in every for box in one),) if kind == "lanes" else every

    def go(self, tree: Tree, boxes: Boxes) -> None:
        if id(tree) in self.places:
            self.change(id(tree), self.elements(_statements(tree), boxes))
        if tree[0] == "branch":
            for child in tree[1]:
                self.go(child, boxes)
                self.release(child)
        elif tree[0] == "run":
            self.compute(tree[1], boxes)
        else:
            for inside in self.steps(tree, boxes):
                self.go(tree[3], inside)

    def release(self, tree: Tree) -> None:
        """Empty the nodes of a child."""
        if id(tree) in self.places:
            self.change(id(tree), set())
            del self.tiles[id(tree)]
        for child in tree[1] if tree[0] == "branch" else tree[3:]:
            self.release(child)

    def change(self, node: int, new: set) -> None:
        old = self.tiles.get(node, set())
        for element in sorted(old - new):
            is_needed = self.left[element] or self.tensor not in self.program.temporary
            if element in self.dirty and is_needed:
                self.words += 1
                self.outside.add(element)
            self.dirty.discard(element)
        self.words += len((new - old) & self.outside) if self.is_written else len(new - old)
        self.tiles[node] = new

    def compute(self, number: int, boxes: Boxes) -> None:
        writes = self.program.target(number) == self.tensor
        own, is_held = self.elements([number], boxes), any(self.tiles.values())
        for element in own:
            self.left[element] -= 1
            if is_held:
                self.dirty |= {element} if writes else set()
            else:
                self.words += 1 + (writes and element in self.outside)
                self.outside |= {element} if writes else set()
        self.taken.append(sum(map(len, self.tiles.values())))
