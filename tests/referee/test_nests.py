"""What may be done with each loop, held against all pairs of instances of random imperfect nests.

The text is run by a walker of its own; nothing of dependence analysis is shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from random import Random

import pytest

from polymap.schedules.nests import nests
from polymap.schedules.tuning import TUNING
from polymap.workload.c.reader import from_c

Point = dict[str, int]


@dataclass
class Node:
    """A loop over [low, high), or a statement: subscripts of the target and of the reads."""

    name: str
    low: int = 0
    high: int = 0
    body: list[Node] = field(default_factory=list)
    places: tuple[str, ...] = ()
    operator: str = ""


@dataclass
class Run:
    """An instance: its statement, its loops, and per access the element, whether it is written, whether accumulated."""

    statement: str
    at: Point
    touched: list[tuple[tuple[str, int], bool, bool]]


def random_body(random: Random, around: tuple[str, ...], counts: list[int], depth: int) -> list[Node]:
    body: list[Node] = []
    for _ in range(random.choice([1, 1, 2]) if around else random.choice([1, 2])):
        if depth and (not around or random.random() < 0.7):
            name = "ijklmnopqrtuvwxyz"[counts[0]]
            counts[0] += 1
            low = random.randrange(2)
            loop = Node(name, low, low + random.randint(2, 3))
            loop.body = random_body(random, (*around, name), counts, depth - 1)
            body.append(loop)
        else:
            number = counts[1]
            counts[1] += 1
            body.append(Node(f"S{number}", places=places(random, around), operator=random.choice(["=", "+="])))
    return body


def places(random: Random, around: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for _ in range(random.randint(1, 3)):
        index = f"{random.choice(around)} + {random.randint(0, 2)}"
        if random.random() < 0.4:
            index += f" - {random.choice(around)} + 3" if random.random() < 0.5 else f" + {random.choice(around)}"
        found.append(f"{random.choice('AB')}[{index}]")
    return tuple(found)


def text_of(body: list[Node]) -> str:
    parts = []
    for each in body:
        if each.body:
            head = f"for (int {each.name} = {each.low}; {each.name} < {each.high}; {each.name}++)"
            parts.append(f"{head} {{ {text_of(each.body)} }}")
        else:
            target, *reads = each.places
            parts.append(f"{target} {each.operator} {' * '.join([*reads, '2'])};")
    return " ".join(parts)


def runs(body: list[Node], at: Point, accumulates: dict[str, str]) -> Iterator[Run]:
    for each in body:
        if each.body:
            for value in range(each.low, each.high):
                yield from runs(each.body, {**at, each.name: value}, accumulates)
            continue
        touched = []
        target, *reads = each.places
        # An accumulation that reads its target's element is an assignment (docs/c_programs.md).
        scales = accumulates.get(each.name) == "*="
        touched += [(element(read, at), False, False) for read in reads if not (scales and same_place(read, target))]
        touched.append((element(target, at), True, each.operator == "+=" or scales))
        if each.operator == "+=" or scales:
            touched.append((element(target, at), False, True))
        yield Run(each.name, at, touched)


def statements(body: list[Node]) -> Iterator[Node]:
    for each in body:
        yield from statements(each.body) if each.body else (each,)


def multiplies(node: Node) -> bool:
    """Return whether a statement is `x = x * e` with x once on the right: an accumulation (docs/c_programs.md) unless
    e reads the element elsewhere."""
    target, *reads = node.places
    return node.operator == "=" and sum(same_place(read, target) for read in reads) == 1


def same_place(one: str, other: str) -> bool:
    """Return whether two places are one element at any values of the loops."""
    names = sorted(set(re.findall("[a-z]", one + other)))
    points = ({**dict.fromkeys(names, 0), name: value} for name in (*names, "") for value in (0, 1))
    return one[0] == other[0] and all(element(one, at) == element(other, at) for at in points)


def element(place: str, at: Point) -> tuple[str, int]:
    return place[0], eval(place[2:-1], {}, dict(at))


def pairs(body: list[Node], accumulates: dict[str, str]) -> list[tuple[Run, Run, bool]]:
    """Return source, sink and whether it is an accumulation twice, of every pair that meets."""
    found = []
    order = list(runs(body, {}, accumulates))
    for place, sink in enumerate(order):
        for source in order[:place]:
            both = accumulates.get(source.statement, "") == accumulates.get(sink.statement, "other")
            kinds = {
                both and one[2] and other[2]
                for one, other in product(source.touched, sink.touched)
                if one[0] == other[0] and (one[1] or other[1])
            }
            found += [(source, sink, kind) for kind in kinds]
    return found


def compared(seed: int) -> int:
    """Return the number of loops of a program whose answers were compared."""
    random = Random(seed)
    counts = [0, 0]
    body = random_body(random, (), counts, random.randint(1, 3))
    if not counts[1] or any(not each.body for each in body):
        return 0
    text = f"int A[20], B[20];\n#pragma scop\n{text_of(body)}\n#pragma endscop"
    work = from_c(text)
    accumulates = {each.name: each.operator.value for each in work.statements if each.operator.value in ("+=", "*=")}
    multiplied = {each.name for each in statements(body) if multiplies(each)}
    assert multiplied >= {name for name, operator in accumulates.items() if operator == "*="}, text
    every = pairs(body, accumulates)
    hard = [pair for pair in every if not pair[2]]
    found = nests(work)
    around = {each.name: each.dims for each in work.statements}
    for each in found.loops:
        outer = around[each.statements[0]][: each.depth]
        carried = [
            soft
            for source, sink, soft in every
            if each.name in source.at
            and each.name in sink.at
            and all(source.at[name] == sink.at[name] for name in outer)
            and source.at[each.name] != sink.at[each.name]
        ]
        expected = "yes" if not carried else "reduction" if all(carried) else "no"
        assert each.parallel.value == expected, (text, each)
    for band in found.bands:
        compare_band(band.loops, band.permutable, band.skews, hard, text)
    for pair in found.neighbours:
        outer = next(dims[: dims.index(pair.first)] for dims in around.values() if pair.first in dims)
        broken = any(
            pair.first in source.at
            and pair.second in sink.at
            and all(source.at[name] == sink.at[name] for name in outer)
            and source.at[pair.first] > sink.at[pair.second]
            for source, sink, _ in hard
        )
        assert (pair.broken is not None) is broken, (text, pair)
    return len(found.loops)


def compare_band(loops, permutable, skews, hard, text) -> None:
    inside = [(s.at, t.at) for s, t, _ in hard if loops[-1] in s.at and loops[-1] in t.at]
    names = [name for at, _ in inside for name in at]
    outer = [name for name in dict.fromkeys(names) if all(name in one and name in two for one, two in inside)]
    outer = outer[: outer.index(loops[0])] if inside else []
    together = [(s, t) for s, t in inside if all(s[name] == t[name] for name in outer)]
    diffs = [tuple(t[name] - s[name] for name in loops) for s, t in together]
    assert tuple(name for run in permutable for name in run) == loops
    start = 0
    for run in permutable:
        end = start + len(run)
        for more in range(start + 1, len(loops) + 1):
            good = all(min(d[start:more]) >= 0 for d in diffs if not any(d[:start]))
            assert good is (more <= end) or (more > end + 1), (text, loops, permutable)
        start = end
    for place, name in enumerate(loops):
        added = {} if skews is None else {other: f for f, other in dict(skews).get(name, ())}
        factors = tuple(added.get(other, 0) for other in loops[:place])
        if skews is not None:
            assert all(d[place] + sum(f * x for f, x in zip(factors, d, strict=False)) >= 0 for d in diffs), text
    if skews is None:
        assert any(
            all(
                any(d[place] + sum(f * x for f, x in zip(factors, d, strict=False)) < 0 for d in diffs)
                for factors in product(range(TUNING.largest_factor + 1), repeat=place)
            )
            for place in range(len(loops))
        ), text


@pytest.mark.slow
def test_loops_bands_and_neighbours_are_those_of_all_pairs() -> None:
    assert sum(compared(seed) for seed in range(30)) > 40


@pytest.mark.soak
def test_loops_bands_and_neighbours_of_many_programs() -> None:
    assert sum(compared(seed) for seed in range(1000, 2000)) > 1000
