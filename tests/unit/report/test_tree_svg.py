"""The picture of a tree with branches: nothing lost, nothing overlapping, what passes between legs named in both."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pytest

import polymap as pm
from polymap.costmodel.nest import nest_figure
from polymap.ir.mapping import MappingNode
from polymap.report.figures.nest_svg import bare_svg, mapping_svg
from polymap.report.figures.svg import tensor_colours
from polymap.report.figures.tree_svg import tree_parts
from tests.times import few
from tests.unit.report.test_space_figures import assert_inside

SVG = "{http://www.w3.org/2000/svg}"
ARCH = pm.load_arch("flat3")
CHAIN = pm.program(
    [
        "S[m,n] += Q[m,k] * K[k,n]",
        "M[m] max= S[m,n]",
        "P[m,n] = exp(S[m,n] - M[m])",
        "L[m] += P[m,n]",
        "O[m,p] += P[m,n] * V[n,p]",
        "Y[m,p] = O[m,p] / L[m]",
    ],
    m=8, n=6, k=4, p=4, temporary=["S", "M", "P", "L", "O"], types="float32", name="attention",
)  # fmt: skip
STATEMENTS = [each.name for each in CHAIN.statements]


def drawn(random: Random) -> pm.Mapping:
    """Return a random legal tree of the chain: segments side by side, each below a loop over m, nodes anywhere."""
    names = [each.name for each in CHAIN.tensors]
    cuts = sorted(random.sample(range(1, len(STATEMENTS)), random.randint(0, 3)))
    parts: list[tuple[MappingNode, ...]] = []
    for begin, end in zip([0, *cuts], [*cuts, len(STATEMENTS)], strict=True):
        tile = random.choice([1, 2, 4])
        legs = tuple(leg(random, name, tile) for name in STATEMENTS[begin:end])
        shared: list[MappingNode] = [pm.Temporal("m", tile)]
        if random.random() < 0.7:
            shared.insert(random.randint(0, 1), pm.Storage("GLB", tuple(random.sample(names, random.randint(1, 4)))))
        below = (pm.Branch(legs),) if end - begin > 1 else legs[0]
        parts.append((*shared, *below))
    return pm.Mapping((pm.Branch(tuple(parts)),) if len(parts) > 1 else parts[0])


def leg(random: Random, name: str, tile: int) -> tuple[MappingNode, ...]:
    dims = list(CHAIN.statement(name).dims)
    random.shuffle(dims)
    loops: list[MappingNode] = []
    for dim in dims:
        spread = random.random() < 0.3 and dim == "m" and tile > 1
        loops.append(pm.Spatial(dim, 1, "X") if spread else pm.Temporal(dim, 1))
    own = [each.tensor for each in CHAIN.statement(name).reads]
    last = max((place for place, node in enumerate(loops) if isinstance(node, pm.Spatial)), default=-1)
    loops.insert(random.randint(last + 1, len(loops)), pm.Storage("RF", (random.choice(own),)))
    return (*loops, pm.Compute(name))


def words(picture: str) -> Counter[str]:
    return Counter("".join(each.itertext()) for each in ElementTree.fromstring(picture).iter(f"{SVG}text"))


def cards(picture: str) -> list[tuple[float, float, float, float]]:
    """Return the boxes of legs and of what holds several: left, top, right, bottom."""
    found: list[tuple[float, float, float, float]] = []
    for each in ElementTree.fromstring(picture).iter(f"{SVG}rect"):
        if each.attrib.get("rx") == "7":
            x, y, wide, high = (float(each.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + wide, y + high))
    return found


@pytest.mark.parametrize("seed", few(range(20), 6))
@pytest.mark.parametrize("width", [320, 1000])
def test_every_node_of_the_tree_is_drawn_once_and_no_leg_overlaps_another(seed: int, width: int) -> None:
    mapping = drawn(Random(seed))
    cost = pm.simulate(CHAIN, ARCH, mapping)
    picture = mapping_svg(CHAIN, ARCH, mapping, cost, width_px=width)
    assert_inside(picture)
    rows = nest_figure(CHAIN, ARCH, mapping).rows
    seen = words(picture)
    tiles = Counter(f"tile {row.tile}" for row in rows if row.tile is not None)
    assert {word: seen[word] for word in tiles} == dict(tiles)
    chips = Counter(re.match(r"\w+", word)[0] for word in seen.elements() if re.search(r"\d i?B\b|KiB|\d B", word))  # type: ignore[index]
    assert chips == Counter(item.tensor for row in rows for item in row.held)
    assert all(seen[str(number)] == 1 for number in range(1, len(STATEMENTS) + 1))
    for (a, b, c, d), (e, f, g, h) in combinations(cards(picture), 2):
        apart = c <= e or g <= a or d <= f or h <= b
        inside = (a <= e and b <= f and g <= c and h <= d) or (e <= a and f <= b and c <= g and d <= h)
        assert apart or inside


@pytest.mark.parametrize("seed", few(range(20), 12))
def test_legs_take_what_earlier_legs_leave_at_the_innermost_node_above_both(seed: int) -> None:
    mapping = drawn(Random(seed))
    root = tree_parts(nest_figure(CHAIN, ARCH, mapping), CHAIN)
    legs = list(root.legs())
    assert [part.number for part in legs] == list(range(1, len(STATEMENTS) + 1))
    assert [part.rows[-1].name for part in legs] == STATEMENTS
    written = {each.target.tensor: each.name for each in CHAIN.statements}
    for part, statement in zip(legs, CHAIN.statements, strict=True):
        read = {each.tensor for each in statement.reads} & set(written)
        assert {passed.tensor for passed in part.takes} == read
        for passed in part.takes:
            ways = [_way(mapping.nodes, name) for name in (written[passed.tensor], statement.name)]
            shared = [one for one, other in zip(*ways, strict=False) if one is other]
            holders = [node.level for node in shared if isinstance(node, pm.Storage) and passed.tensor in node.tensors]
            assert passed.level == (holders[-1] if holders else "DRAM")
            giver = legs[STATEMENTS.index(written[passed.tensor])]
            assert passed in giver.gives


def _way(nodes: tuple[MappingNode, ...], name: str) -> list[MappingNode]:
    """Return the nodes from the root down to a statement."""
    for place, node in enumerate(nodes):
        if isinstance(node, pm.Compute) and node.statement == name:
            return list(nodes[: place + 1])
        if isinstance(node, pm.Branch):
            for child in node.children:
                if found := _way(child, name):
                    return [*nodes[:place], *found]
    return []


def test_a_tensor_has_one_colour_in_all_legs() -> None:
    picture = mapping_svg(CHAIN, ARCH, drawn(Random(3)))
    colours: dict[str, set[str]] = {}
    for group in ElementTree.fromstring(picture).iter(f"{SVG}g"):
        told, box = group.findtext(f"{SVG}title") or "", group.find(f"{SVG}rect")
        name = re.search(r"\b([A-Z])\b", told)
        assert name is not None
        assert box is not None
        colours.setdefault(name[1], set()).add(box.attrib["stroke"])
    assert {name for name, strokes in colours.items() if len(strokes) > 1} == set()
    assert len(set.union(*colours.values())) == len(CHAIN.tensors)


def test_more_room_makes_the_picture_wider_and_lower_and_no_leg_is_cut() -> None:
    mapping = drawn(Random(3))
    sizes: list[tuple[float, float]] = []
    for width in (320, 400, 800, 1600):
        root = ElementTree.fromstring(mapping_svg(CHAIN, ARCH, mapping, width_px=width))
        sizes.append((float(root.attrib["width"]), float(root.attrib["height"])))
    assert sizes == sorted(sizes, key=lambda each: (each[0], -each[1]))
    assert all(wide <= room for (wide, _), room in zip(sizes[1:], (400, 800, 1600), strict=True))


def test_a_tree_alone_is_drawn_alike() -> None:
    seen = words(bare_svg(drawn(Random(3))))
    assert all(seen[name] == 1 for name in STATEMENTS)


@pytest.mark.parametrize("width", [0, -3, 2.5, "wide", True])
def test_a_width_is_a_number_of_pixels(width: object) -> None:
    with pytest.raises(pm.errors.OptionError, match="PM120 width_px is .*\n.*an integer from 320 to 100000"):
        mapping_svg(CHAIN, ARCH, drawn(Random(1)), width_px=width)  # type: ignore[arg-type]


def test_a_program_of_many_tensors_has_a_colour_for_each() -> None:
    work = pm.program([f"T{n}[m] = {'X' if not n else f'T{n - 1}'}[m] + 1" for n in range(30)], m=4)
    assert len(set(tensor_colours(work).values())) == 31
