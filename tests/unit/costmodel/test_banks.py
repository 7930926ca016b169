"""Conflicts in banks against a walk over steps and lanes, one at a time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from itertools import product, takewhile

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel.layout import layout_of
from polymap.ir import BudgetError, Compute, Mapping, OptionError, Spatial, Storage, Temporal
from tests.times import few

LANES = 64


def machine(banks: int = 32, bank_bits: int = 32, ports: int = 1) -> pm.Architecture:
    level = pm.MemoryLevel("SMEM", capacity_bits=2**24, banks=banks, bank_bits=bank_bits, ports=ports)
    nodes = (pm.MemoryLevel("DRAM"), level, pm.Fanout("lane", LANES), pm.MemoryLevel("REG"), pm.ComputeUnit("MAC"))
    return pm.Architecture("sm", nodes)


def access(
    text: str, sizes: dict[str, int], bits: int, *loops: Temporal | Spatial, lanes_above: int = 0
) -> tuple[pm.Workload, Mapping]:
    """Return a loop nest with the tile of T in banks, outside of all loops but the first few, which are lanes."""
    nodes = (*loops[:lanes_above], Storage("SMEM", ("T",)), *loops[lanes_above:], Compute("S"))
    return pm.einsum(text, sizes=sizes, bits=bits), Mapping(nodes)


def transposition(rows: int, columns: int, bits: int = 32) -> list[tuple[pm.Workload, Mapping]]:
    """Return how lanes write a tile along its rows and read it along its columns."""
    sizes = {"i": rows, "j": columns}
    return [
        access("T[i,j] = A[i,j]", sizes, bits, Temporal("i", 1), Spatial("j", 1, "lane")),
        access("B[j,i] = T[i,j]", sizes, bits, Temporal("j", 1), Spatial("i", 1, "lane")),
    ]


def fragment(rows: int, columns: int, pitch: int) -> tuple[pm.Workload, Mapping]:
    """Return how lanes read a fragment of a tile of 16-bit elements with rows of `pitch`: 8 by 8 in each step."""
    sizes = {"i": rows, "k": columns, "j": pitch // columns}
    each = (Temporal("j", 1), Temporal("i", 8), Temporal("k", 8), Spatial("i", 1, "lane"), Spatial("k", 1, "lane"))
    return access(f"B[i,{columns}*j+k] = T[i,{columns}*j+k]", sizes, 16, *each)


def walked(
    sizes: dict[str, int],
    axes: list[tuple[dict[str, int], int]],
    loops: list[Temporal | Spatial],
    where: Callable[[tuple[int, ...]], int],
) -> list[set[int]]:
    """Return the addresses of every step."""
    found: dict[tuple[int, ...], set[int]] = defaultdict(set)

    def walk(left: int, parts: dict[str, tuple[int, int]], clock: tuple[int, ...]) -> None:
        if left == len(loops):
            at = {dim: low for dim, (low, _) in parts.items()}
            place = tuple(sum(c * at[dim] for dim, c in factors.items()) + first for factors, first in axes)
            found[clock].add(where(place))
            return
        loop = loops[left]
        low, high = parts[loop.dim]
        for number, start in enumerate(range(low, high, loop.tile)):
            inner = parts | {loop.dim: (start, min(high, start + loop.tile))}
            walk(left + 1, inner, (*clock, number) if isinstance(loop, Temporal) else clock)

    walk(0, {dim: (0, size) for dim, size in sizes.items()}, ())
    return list(found.values())


def placed(
    shape: tuple[int, ...], order: tuple[int, ...], padding: int, swizzle: tuple[int, int, int] | None
) -> Callable[[tuple[int, ...]], int]:
    """Return the address of a place, written out once more."""

    def where(place: tuple[int, ...]) -> int:
        address = 0
        for number, axis in enumerate(order):
            address = address * (shape[axis] + (padding if number == len(order) - 1 else 0)) + place[axis]
        if swizzle:
            bits, low, shift = swizzle
            for bit in range(low, low + bits):
                address ^= ((address >> (bit + shift)) & 1) << bit
        return address

    return where


def cycles_of(addresses: set[int], banks: int, bank_bits: int, ports: int, bits: int) -> tuple[int, int]:
    """Return the cycles of a step, and without conflicts."""
    words = {bit // bank_bits for a in addresses for bit in range(a * bits, (a + 1) * bits)}
    each = [sum(word % banks == bank for word in words) for bank in range(banks)]
    return max(-(-count // ports) for count in each), -(-len(words) // (banks * ports))


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_conflicts_equal_those_of_a_walk_over_all_lanes(seed: int) -> None:
    rng = random.Random(seed)
    banks, bank_bits, ports = rng.choice((2, 3, 8, 32)), rng.choice((16, 32)), rng.choice((1, 1, 2))
    bits = rng.choice((8, 16, 32, 64))
    sizes = {dim: rng.randint(1, 9) for dim in "ijk"}
    text, axes = rng.choice(
        [
            ("B[i,j,k] = T[i,j]", [{"i": 1}, {"j": 1}]),
            ("B[i,j,k] = T[j,i,k]", [{"j": 1}, {"i": 1}, {"k": 1}]),
            ("B[i,j,k] = T[i+2*j,k]", [{"i": 1, "j": 2}, {"k": 1}]),
            ("B[i,j,k] = T[3*k]", [{"k": 3}]),
        ]
    )
    loops: list[Temporal | Spatial] = []
    lanes = 1
    for dim in rng.sample("ijk", 3):
        size = sizes[dim]
        for tile in sorted({rng.randint(1, size), rng.randint(1, size), 1}, reverse=True):
            trips = -(-size // tile)
            spread = lanes * trips <= LANES and rng.random() < 0.5
            lanes *= trips if spread else 1
            loops.append(Spatial(dim, tile, "lane") if spread else Temporal(dim, tile))
            size = tile
    rng.shuffle(loops)
    loops.sort(key=lambda loop: -loop.tile)
    loops = [
        loop for n, loop in enumerate(loops) if not any(o.dim == loop.dim and o.tile == loop.tile for o in loops[:n])
    ]
    lanes_above = rng.randint(0, len(list(takewhile(lambda loop: isinstance(loop, Spatial), loops))))
    workload, mapping = access(text, sizes, bits, *loops, lanes_above=lanes_above)
    arch = machine(banks, bank_bits, ports)
    shape = tuple(1 + sum(c * (sizes[dim] - 1) for dim, c in factors.items()) for factors in axes)
    order = tuple(rng.sample(range(len(shape)), len(shape)))
    padding, swizzle = rng.choice((0, 1, 3)), rng.choice((None, (1, 0, 2), (2, 1, 3), (3, 0, 3)))
    layout = " ".join(map(str, order)) + (f" +{padding}" if padding else "")
    layout += " ^{},{},{}".format(*swizzle) if swizzle else ""
    (found,) = pm.layouts.bank_conflicts(workload, arch, mapping, {"T": layout})
    where = placed(shape, order, padding, swizzle)
    steps = [
        cycles_of(each, banks, bank_bits, ports, bits) for each in walked(sizes, [(a, 0) for a in axes], loops, where)
    ]
    assert (found.steps, found.cycles, found.least_cycles) == (len(steps), *map(sum, zip(*steps, strict=True))), layout
    assert found.most == max(cycles for cycles, _ in steps), layout
    assert found.is_free == all(cycles == least for cycles, least in steps), layout
    if found.witness:
        one, other = found.witness.words
        assert one != other, "different words"
        assert one % banks == other % banks == found.witness.bank, "of one bank"
        assert len(set(found.witness.lanes)) == 2 or bits > bank_bits, "two lanes"


def test_a_swizzle_and_a_padding_move_every_element_to_its_own_place() -> None:
    for text, shape in (("0 1 ^5,0,5", (32, 32)), ("0 1 +3 ^3,2,4", (9, 13)), ("1 0 +1", (5, 4)), ("0 +2", (7,))):
        layout = layout_of(text, len(shape), may_swizzle=True)
        assert str(layout) == text, "a layout is written as it is read"
        places = np.array(list(product(*map(range, shape))))
        address = np.zeros(len(places), np.int64)
        for axis in range(len(shape)):
            address = address + layout.offsets(shape, axis, places[:, axis])
        moved = layout.swizzled(address)
        assert len(set(moved.tolist())) == len(places), text
        assert moved.max() < layout.elements(shape), text


@pytest.mark.parametrize(("layout", "cycles"), [("0 1", 1024), ("0 1 +1", 32), ("0 1 ^5,0,5", 32), ("0 1 +2", 64)])
def test_a_transposition_in_32_banks_conflicts_as_its_rows_are_padded(layout: str, cycles: int) -> None:
    """CUDA C++ Best Practices Guide, shared memory in matrix multiplication: a column of a 32 x 32 tile is of one
    bank, and one more column of padding removes the conflicts."""
    arch = machine()
    (written,), (read,) = (
        pm.layouts.bank_conflicts(workload, arch, mapping, {"T": layout}) for workload, mapping in transposition(32, 32)
    )
    assert (written.cycles, read.cycles) == (32, cycles), "rows have no conflicts in any of these"


def test_layouts_without_conflicts_are_found_and_others_refuted_by_two_lanes() -> None:
    found = pm.layouts.bank_layouts(transposition(32, 32), machine(), "T")
    assert [str(layout) for layout in found.free[:2]] == ["0 1 ^5,0,5", "0 1 +1"], (
        "no element more, then the least padding"
    )
    assert all(layout.padding % 2 for layout in found.free[1:]), "paddings prime to the banks are without conflicts"
    rows = next(each for each in found.refuted if str(each.layout) == "0 1")
    assert "lanes (i = 0) and (i = 1): words 0 and 32 of bank 0" in str(rows), "two lanes of a column"


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 16), (32, 8)])
def test_fragments_of_rows_of_128_bytes_need_a_swizzle_of_16_bytes(rows: int, columns: int) -> None:
    """Eight rows of 16 bytes are read at once (ldmatrix): rows of 128 bytes begin in one bank."""
    workload, mapping = fragment(rows, columns, 64)
    (plain,) = pm.layouts.bank_conflicts(workload, machine(), mapping)
    assert plain.most == 8, "eight rows begin in one bank"
    assert not plain.is_free, "where one cycle would do"
    for layout in ("0 1 ^3,3,3", "0 1 +8"):
        (found,) = pm.layouts.bank_conflicts(workload, machine(), mapping, {"T": layout})
        assert found.is_free, layout
        assert found.most == 1, layout


def test_mistakes_name_what_has_no_banks() -> None:
    workload, mapping = transposition(4, 4)[0]
    plain = pm.Architecture("plain", (pm.MemoryLevel("DRAM"), pm.MemoryLevel("SMEM"), *machine().nodes[2:]))
    with pytest.raises(OptionError, match=r"PM479 no level of machine 'plain' has banks"):
        pm.layouts.bank_conflicts(workload, plain, mapping)
    with pytest.raises(
        OptionError, match=r"PM479 words of 32 bits in the banks of 'SMEM' cut elements of 'T' \(24 bits"
    ):
        pm.layouts.bank_conflicts(transposition(4, 4, bits=24)[0][0], machine(), mapping)
    with pytest.raises(OptionError, match="PM470"):
        pm.layouts.bank_conflicts(workload, machine(), mapping, {"X": "0 1"})
    with pytest.raises(OptionError, match="PM479 no banks hold 'A'"):
        pm.layouts.bank_layouts([(workload, mapping)], machine(), "A")
    with pytest.raises(OptionError, match=r"PM470 the layout '0 1 \^5,0,5' has a swizzle"):
        pm.layouts.burst_counts(workload, "h100", mapping, {"T": "0 1 ^5,0,5"})
    many = access("B[i,j] = T[i,j]", {"i": 4096, "j": 4096}, 8, Temporal("i", 1), Temporal("j", 1))
    with pytest.raises(BudgetError, match="PM477 a tile of T in 'SMEM' has more than 2,000,000 accesses"):
        pm.layouts.bank_conflicts(many[0], machine(), many[1])


def test_a_tile_that_a_loop_above_selects_has_that_loops_first_steps() -> None:
    workload = pm.einsum("B[i,j] = T[j]", i=6, j=6, bits=32)
    loops = (Spatial("i", 3, "lane"), Spatial("j", 3, "lane"), Temporal("i", 2), Temporal("j", 2))
    mapping = Mapping((*loops, Storage("SMEM", ("T",)), Temporal("i", 1), Temporal("j", 1), Compute("S")))
    (found,) = pm.layouts.bank_conflicts(workload, machine(banks=3), mapping)
    # T[0], T[1] and T[3], T[4]: words 0 and 3 of bank 0, then 1 and 4 of bank 1, for two steps of i each.
    assert (found.elements, found.steps, found.cycles, found.most) == (5, 4, 8, 2), (
        "two lanes in one bank in every step"
    )


@pytest.mark.parametrize("layout", ["0 1 2 3 1:999999999 2:999999999", "0 1 2 3 ^3,70,70", "0 1 2 3 ^1,61,1"])
def test_addresses_beyond_62_bits_are_refused(layout: str) -> None:
    sizes = {"i": 8, "j": 2, "k": 2, "l": 3}
    loops = (Temporal("j", 1), Temporal("k", 1), Temporal("l", 1), Spatial("i", 1, "lane"))
    workload, mapping = access("B[i,j,k,l] = T[i,j,k,l]", sizes, 8, *loops)
    with pytest.raises(BudgetError, match="PM477 .* addresses have 62 bits"):
        pm.layouts.bank_conflicts(workload, machine(), mapping, {"T": layout})
