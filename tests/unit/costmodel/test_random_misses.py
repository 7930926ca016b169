"""Misses of random trees: tiles that do not divide, windows with a stride, one array read twice, lanes, registers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from math import prod

import pytest

import polymap as pm
from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from tests.times import few
from tests.unit.costmodel.test_misses import machine, simulated

Point = dict[str, int]
Use = tuple[str, int]  # tensor, word of memory
FORMS = {  # the axes of each operand, then of the result
    "C[m,n] += A[m,k] * B[k,n]": (("m", "k"), ("k", "n"), ("m", "n")),
    "Y[k,p] += X[c,2*p+r] * W[k,c,r]": (("c", "2p+r"), ("k", "c", "r"), ("k", "p")),
    "D[m] += A[m,n] * A[m,k]": (("m", "n"), ("m", "k"), ("m",)),
}
WINDOWS: dict[str, Callable[[Point], int]] = {"2p+r": lambda point: 2 * point["p"] + point["r"]}


def at(axis: str, point: Point) -> int:
    return WINDOWS[axis](point) if axis in WINDOWS else point[axis]


@dataclass(frozen=True)
class Drawn:
    """A random tree of one statement: loops as (dim, tile, whether over lanes), registers for some tensors."""

    form: str
    sizes: dict[str, int]
    loops: list[tuple[str, int, bool]]
    held: dict[str, int]  # tensor -> number of loops outside of its registers

    @property
    def names(self) -> list[str]:
        """The result, then the operands."""
        return [self.form[0], *(part[0] for part in self.form.partition("+= ")[2].split(" * "))]

    @property
    def accesses(self) -> list[tuple[str, tuple[str, ...]]]:
        """The operands, then the result, with their axes."""
        result, *operands = self.names
        return list(zip((*operands, result), FORMS[self.form], strict=True))

    def mapping(self) -> Mapping:
        nodes: list[MappingNode] = [Storage("DRAM", tuple(dict.fromkeys(self.names)))]
        for number, (dim, tile, spread) in enumerate(self.loops):
            nodes += [Storage("REG", (name,)) for name, place in self.held.items() if place == number]
            nodes.append(Spatial(dim, tile, "lane") if spread else Temporal(dim, tile))
        nodes += [Storage("REG", (name,)) for name, place in self.held.items() if place == len(self.loops)]
        return Mapping((*nodes, Compute("S")))

    def place(self, point: Point) -> tuple[tuple[int, ...], int]:
        """Return the step and the lane of an instance."""
        rest, steps, lane = dict(point), list[int](), 0
        for dim, tile, spread in self.loops:
            digit, rest[dim] = divmod(rest[dim], tile)
            if spread:
                lane = digit
            else:
                steps.append(digit)
        return tuple(steps), lane


def drawn(seed: int) -> Drawn:
    rng = random.Random(seed)
    form = rng.choice(list(FORMS))
    dims = sorted({letter for axes in FORMS[form] for axis in axes for letter in axis if letter.isalpha()})
    sizes = {dim: rng.choice((1, 2, 3, 5, 7)) for dim in dims}
    left, loops = dict(sizes), list[tuple[str, int, bool]]()
    for _ in range(rng.randint(0, 3)):
        dim = rng.choice(dims)
        left[dim] = rng.randint(1, left[dim])
        loops.append((dim, left[dim], False))
    if rng.random() < 0.7:
        lane = rng.choice(dims)
        loops.append((lane, -(-left[lane] // rng.choice((1, 2, 3))), True))
    outside = len(loops)
    loops += [(dim, 1, False) for dim in rng.sample(dims, len(dims))]
    names = dict.fromkeys([form[0], *(part[0] for part in form.partition("+= ")[2].split(" * "))])
    held = {name: rng.randint(outside, len(loops)) for name in names if rng.random() < 0.7}
    return Drawn(form, sizes, loops, held)


def shapes_of(tree: Drawn) -> dict[str, list[int]]:
    """Return the shapes: an array that is read twice is as large as both reads need."""
    last = {dim: size - 1 for dim, size in tree.sizes.items()}
    found: dict[str, list[int]] = {}
    for name, axes in tree.accesses:
        here = [1 + at(axis, last) for axis in axes]
        found[name] = [max(pair) for pair in zip(here, found.get(name, here), strict=True)]
    return found


def instances(tree: Drawn, width: int) -> Iterator[tuple[tuple[int, ...], int, list[Use]]]:
    """Yield (step, lane, uses) of all instances in any order; each tensor begins at a multiple of `width` words."""
    shapes, begin, place = shapes_of(tree), dict[str, int](), 0
    for name in dict.fromkeys(tree.names):
        begin[name] = place
        place += -(-prod(shapes[name]) // width) * width
    for values in product(*(range(size) for size in tree.sizes.values())):
        point = dict(zip(tree.sizes, values, strict=True))
        uses: list[Use] = []
        for name, axes in tree.accesses:
            word = 0
            for axis, size in zip(axes, shapes[name], strict=True):
                word = word * size + at(axis, point)
            uses.append((name, begin[name] + word))
        yield *tree.place(point), uses


def walked(tree: Drawn, width: int) -> list[Use]:
    """Return the words of memory that a tree touches in order: each lane's registers as a set, one tile after the
    other, loaded when first used; sums are stored when their lane's next tile comes, and loaded where they were."""
    result = tree.names[0]
    rows = sorted(instances(tree, width), key=lambda row: row[:2])
    depth = {name: sum(not spread for _, _, spread in tree.loops[:place]) for name, place in tree.held.items()}
    tiles: dict[tuple[str, int, tuple[int, ...]], set[int]] = {}
    for step, lane, uses in rows:
        for name, word in uses:
            if name in depth:
                tiles.setdefault((name, lane, step[: depth[name]]), set()).add(word)
    now: dict[tuple[str, int], tuple[int, ...]] = {}
    loaded: dict[tuple[str, int], set[int]] = {}
    stored: set[int] = set()
    found: list[Use] = []
    for step, group in groupby(rows, key=lambda row: row[0]):
        together = list(group)
        for _, lane, _ in together:
            if result in depth and (before := now.get((result, lane))) not in (None, step[: depth[result]]):
                left = tiles[result, lane, before] - tiles[result, lane, step[: depth[result]]]
                found += [(result, word) for word in sorted(left)]
                stored |= left
        for _, lane, uses in together:
            for name, word in uses:
                if name not in depth:
                    found.append((name, word))
                    continue
                key, stand = (name, lane), step[: depth[name]]
                if now.get(key) != stand:
                    loaded[key] = set(tiles[name, lane, now[key]]) if key in now else set()
                    now[key] = stand
                if word not in loaded[key]:
                    loaded[key].add(word)
                    if name != result or word in stored:
                        found.append((name, word))
    for name, lane in sorted(key for key in now if key[0] == result):
        found += [(result, word) for word in sorted(tiles[name, lane, now[name, lane]])]
    return found


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_random_trees_miss_what_a_walk_by_hand_misses(seed: int) -> None:
    tree, rng = drawn(seed), random.Random(1000 + seed)
    width, lines = rng.choice((1, 2, 4)), (rng.choice((16, 32)), rng.choice((2, 4, 8)))
    arch = machine(lines, 32 * width, rng.choice((None, 2)), registers=64, lanes=8)
    work = pm.einsum(tree.form, sizes=tree.sizes, bits=32)
    found = pm.layouts.cache_misses(work, arch, tree.mapping())
    expected = simulated(walked(tree, width), lines, width, arch.levels[1].ways)
    assert {(row.level, row.tensor): row.missed_lines for row in found.rows} == {
        (level, name): expected[level, name] for level in ("L2", "L1") for name in dict.fromkeys(tree.names)
    }
