"""Misses of caches: against a walk of loops that shares no code with the cost model or with the product's walk."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.inputs import arch_from_document
from polymap.ir import BudgetError, Compute, Mapping, MemoryLevel, OptionError, Spatial, Storage, Temporal
from tests.times import few


def machine(
    lines: tuple[int, int], line_bits: int, ways: int | None, registers: int = 0, lanes: int = 0
) -> pm.Architecture:
    """Two caches of so many lines around a compute unit, with lanes and registers inside or not."""
    nodes: list[dict[str, object]] = [{"level": "DRAM", "word_bits": 32}]
    for name, count in zip(("L2", "L1"), lines, strict=True):
        cache = {"level": name, "word_bits": 32, "capacity_bits": count * line_bits, "implicit": True}
        nodes.append({**cache, "line_bits": line_bits, **({"ways": ways} if ways else {})})
    if lanes:
        nodes.append({"fanout": "lane", "size": lanes, "multicast": "none", "reduction": True})
    if registers:
        nodes.append({"level": "REG", "word_bits": 32, "capacity_bits": 32 * registers})
    return arch_from_document({"name": "cached", "nodes": [*nodes, {"compute": "MAC"}]})


def simulated(
    addresses: list[tuple[str, int]], lines: tuple[int, int], width: int, ways: int | None
) -> Counter[tuple[str, str]]:
    """Return the misses of an inner and an outer cache, addresses in words."""
    misses: Counter[tuple[str, str]] = Counter()
    for name, count in (("L1", lines[1]), ("L2", lines[0])):
        per_set = ways or count
        sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(count // per_set)]
        onward: list[tuple[str, int]] = []
        for tensor, address in addresses:
            line = address // width
            held = sets[line % len(sets)]
            if line not in held:
                misses[name, tensor] += 1
                onward.append((tensor, address))
            held.pop(line, None)
            held[line] = None
            if len(held) > per_set:
                del held[next(iter(held))]
        addresses = onward
    return misses


SIZES = {"m": 6, "n": 8, "k": 4}


def places(width: int) -> dict[str, int]:
    """Return where A, B and C of a product start: in the order of the einsum, each from a line on."""
    at, found = 0, dict[str, int]()
    for name, size in (("C", 48), ("A", 24), ("B", 32)):
        found[name] = at
        at += -(-size // width) * width
    return found


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_accesses_without_registers_go_through_the_caches_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    width, ways = rng.choice((1, 2, 4)), rng.choice((None, 2))
    lines = (rng.choice((16, 24)), rng.choice((2, 4, 8)))
    order = rng.sample("mnk", 3)
    start = places(width)
    addresses: list[tuple[str, int]] = []
    for a in range(SIZES[order[0]]):
        for b in range(SIZES[order[1]]):
            for c in range(SIZES[order[2]]):
                m, n, k = (dict(zip(order, (a, b, c), strict=True))[dim] for dim in "mnk")
                addresses += [
                    ("A", start["A"] + 4 * m + k),
                    ("B", start["B"] + 8 * k + n),
                    ("C", start["C"] + 8 * m + n),
                ]
    product = pm.matmul(6, 8, 4, bits=32)
    tree = Mapping((Storage("DRAM", ("C", "A", "B")), *(Temporal(dim, 1) for dim in order), Compute("S")))
    found = pm.layouts.cache_misses(product, machine(lines, 32 * width, ways), tree)
    expected = simulated(addresses, lines, width, ways)
    assert {(row.level, row.tensor): row.missed_lines for row in found.rows} == {
        (level, tensor): expected[level, tensor] for level in ("L2", "L1") for tensor in "CAB"
    }
    assert [row.line_elements for row in found.rows] == [width] * 6


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_tiles_in_registers_are_loaded_when_used_and_stored_when_left(seed: int) -> None:
    """for m: for n: for k, sums of `tile` neighbours along n in registers, cut into two parts of k."""
    rng = random.Random(seed)
    width, tile, part = rng.choice((1, 4)), rng.choice((1, 2, 4)), rng.choice((2, 4))
    lines, start = (24, rng.choice((3, 6))), places(rng.choice((1, 4)))
    start = places(width)
    addresses: list[tuple[str, int]] = []
    stored: set[int] = set()
    for k0 in range(0, 4, part):
        for m in range(6):
            for n0 in range(0, 8, tile):
                sums = [start["C"] + 8 * m + n for n in range(n0, n0 + tile)]
                for k in range(k0, k0 + part):
                    for n in range(n0, n0 + tile):
                        addresses += [("A", start["A"] + 4 * m + k), ("B", start["B"] + 8 * k + n)]
                        address = start["C"] + 8 * m + n
                        if k == k0 and address in stored:
                            addresses.append(("C", address))
                addresses += [("C", address) for address in sums]
                stored |= set(sums)
    product = pm.matmul(6, 8, 4, bits=32)
    loops = (Temporal("k", part), Temporal("m", 1), Temporal("n", tile))
    inner = (Temporal("k", 1), Temporal("n", 1), Compute("S"))
    tree = Mapping((Storage("DRAM", ("C", "A", "B")), *loops, Storage("REG", ("C",)), *inner))
    found = pm.layouts.cache_misses(product, machine(lines, 32 * width, None, registers=8), tree)
    if part == 4:  # with the reduction in one piece each sum is stored once and never loaded
        assert sum(tensor == "C" for tensor, _ in addresses) == 48
    expected = simulated(addresses, lines, width, None)
    assert {(row.level, row.tensor): row.missed_lines for row in found.rows} == {
        (level, tensor): expected[level, tensor] for level in ("L2", "L1") for tensor in "CAB"
    }


def test_caches_twice_as_large_as_the_tiles_move_what_the_mapping_says() -> None:
    """Rows of A and all of B stay in L1 of twice their size, lines of one element: each comes once per tree's fill."""
    product = pm.matmul(16, 8, 8, bits=32)
    arch = machine((512, 2 * (8 + 64 + 8)), 32, None)
    nodes = (Storage("DRAM", ("C", "A", "B")), Storage("L1", ("B",)), Temporal("m", 1), Storage("L1", ("A", "C")))
    tree = Mapping((*nodes, Temporal("n", 1), Temporal("k", 1), Compute("S")))
    for row in pm.layouts.cache_misses(product, arch, tree).rows:
        assert (row.missed_elements, row.ratio) == (row.held_elements, 1), row


def test_cores_have_caches_of_their_own_and_share_the_outer_one() -> None:
    nodes = [
        {"level": "DRAM"},
        {"level": "L2", "capacity_bits": 8 * 1024, "implicit": True, "line_bits": 64},
        {"fanout": "core", "size": 2, "multicast": "none", "reduction": False},
        {"level": "L1", "capacity_bits": 8 * 64, "implicit": True, "line_bits": 64},
        {"compute": "MAC"},
    ]
    arch = arch_from_document({"name": "two", "nodes": nodes})
    work = pm.einsum("Y[i,j] += X[j]", i=2, j=64)
    tree = Mapping((Storage("DRAM", ("Y", "X")), Spatial("i", 1, "core"), Temporal("j", 1), Compute("S")))
    found = pm.layouts.cache_misses(work, arch, tree)
    assert [(found.at(level, "X").missed_lines, found.at(level, "Y").missed_lines) for level in ("L2", "L1")] == [
        (8, 16),
        (16, 16),
    ]


def test_rows_a_way_apart_evict_each_other_and_not_where_any_line_may_stand_anywhere() -> None:
    """Four rows of 64 elements of 32 bits; the first elements of all rows share the set of a cache of 16 sets."""
    work = pm.einsum("Y[i] += X[r,j] * W[i]", i=3, r=4, j=1, bits=32)
    wide = replace(work, tensors=tuple(replace(t, shape=(4, 256)) if t.name == "X" else t for t in work.tensors))
    nodes = [
        {"level": "DRAM"},
        {"level": "L1", "capacity_bits": 32 * 512, "implicit": True, "line_bits": 512, "ways": 2},
        {"compute": "MAC"},
    ]
    arch = arch_from_document({"name": "sets", "nodes": nodes})
    tree = Mapping((Storage("DRAM", ("Y", "X", "W")), Temporal("i", 1), Temporal("r", 1), Compute("S")))
    assert pm.layouts.cache_misses(wide, arch, tree).at("L1", "X").missed_lines == 12
    assert pm.layouts.cache_misses(wide, arch, tree, fully_associative=True).at("L1", "X").missed_lines == 4


def test_layouts_say_which_elements_share_a_line() -> None:
    work = pm.einsum("Y[i] += X[i,j]", i=8, j=8, bits=32)
    arch = machine((2, 2), 32 * 8, None)
    tree = Mapping((Storage("DRAM", ("Y", "X")), Temporal("i", 1), Temporal("j", 1), Compute("S")))
    assert pm.layouts.cache_misses(work, arch, tree).at("L1", "X").missed_lines == 8
    assert pm.layouts.cache_misses(work, arch, tree, {"X": "1 0"}).at("L1", "X").missed_lines == 64
    text = str(pm.layouts.cache_misses(work, arch, tree))
    assert "lines fetched" in text
    assert "8.000" in str(pm.layouts.cache_misses(work, arch, tree, {"X": "1 0"}))
    assert pm.layouts.cache_misses(work, arch, tree).at("L1", "Y").ratio == Fraction(8, 64)  # one line, 64 sums


def test_what_cannot_be_asked_is_said() -> None:
    work = pm.matmul(4, 4, 4, bits=32)
    tree = Mapping((Storage("DRAM", ("C", "A", "B")), *(Temporal(dim, 1) for dim in "mnk"), Compute("S")))
    with pytest.raises(OptionError, match="PM476 machine 'plain' has no cache"):
        pm.layouts.cache_misses(
            work, arch_from_document({"name": "plain", "nodes": [{"level": "DRAM"}, {"compute": "x"}]}), tree
        )
    caches = [{"level": name, "capacity_bits": 512, "implicit": name != "SPM"} for name in ("L2", "SPM", "L1")]
    mixed = arch_from_document({"name": "mixed", "nodes": [{"level": "DRAM"}, *caches, {"compute": "x"}]})
    with pytest.raises(OptionError, match="PM476 level 'SPM' .* stands between caches"):
        pm.layouts.cache_misses(work, mixed, tree)
    large = pm.matmul(4000, 40, 400, bits=32)
    with pytest.raises(BudgetError, match="PM477 statement S makes 192,000,000 accesses"):
        pm.layouts.cache_misses(large, machine((4, 4), 32, None), tree)
    for fields, found in (
        ({"line_bits": 24}, "PM476 a line of level 'L1' has 24 bits: no whole elements of 'C'"),
        ({"line_bits": 192}, "PM476 a line of level 'L1' has 192 bits, more than its capacity of 128"),
    ):
        arch = machine((4, 4), 32, None)
        changed = tuple(
            replace(node, **fields) if isinstance(node, MemoryLevel) and node.name == "L1" else node
            for node in arch.nodes
        )
        with pytest.raises(OptionError, match=found):
            pm.layouts.cache_misses(work, replace(arch, nodes=changed), tree)
    with pytest.raises(BudgetError, match="PM477 the tensors of .* addresses have 62 bits"):
        pm.layouts.cache_misses(work, machine((4, 4), 10**40 * 32, None), tree)
    with pytest.raises(KeyError):
        pm.layouts.cache_misses(work, machine((4, 4), 32, None), tree).at("L1", "Z")
