"""Bursts of a mapping's transfers: worked by hand, and against the simulator's own moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.costmodel.layout import Layout, layout_of
from polymap.costmodel.pieces import burst_counts
from polymap.costmodel.referees import count_by_simulation
from polymap.costmodel.referees.state import Copy, LoadedPlace, PartialSums, Store
from polymap.inputs import arch_from_document, mapping_from_document
from polymap.ir import (
    ArchError,
    Architecture,
    Compute,
    ComputeUnit,
    Mapping,
    MemoryLevel,
    Multicast,
    Operator,
    OptionError,
    PolymapError,
    Storage,
    Temporal,
    Tensor,
    Workload,
)
from polymap.workload import einsum
from polymap.workload.layers import conv2d
from tests.cases import Case, random_case

POINTWISE = conv2d(K=2, C=8, H=4, W=4, R=1, S=1)
ARCH = Architecture(
    "two", (MemoryLevel("DRAM", burst_bits=64), MemoryLevel("GLB", capacity_bits=10**6), ComputeUnit("MAC"))
)


def channels_of_one_pixel() -> Mapping:
    """Return the mapping that loads all channels of a pixel at once, pixel by pixel."""
    pixels = (Temporal("p", 1), Temporal("q", 1), Storage("GLB", ("I", "W", "O")))
    return Mapping((*pixels, Temporal("k", 1), Temporal("c", 1), Compute("S")))


def one_channel_at_a_time() -> Mapping:
    """Return the mapping that loads the 16 pixels of a channel at once, channel by channel."""
    return Mapping((Temporal("c", 1), Storage("GLB", ("I", "W", "O")), *(Temporal(d, 1) for d in "kpq"), Compute("S")))


def bursts(mapping: Mapping, layout: str, tensor: str = "I") -> tuple[int, int]:
    found = burst_counts(POINTWISE, ARCH, mapping, {tensor: layout}).tensors
    (each,) = [one for one in found if one.tensor == tensor]
    return each.read_bursts, each.written_bursts


def test_reads_of_stride_one_and_of_stride_c_cost_what_they_touch() -> None:
    # Elements of 8 bits, bursts of 8 elements. A pixel's 8 channels are 8 neighbours in NHWC: one burst for each of the
    # 16 pixels. In NCHW they are 16 elements apart: 8 bursts for each pixel.
    assert bursts(channels_of_one_pixel(), "NHWC") == (16, 0)
    assert bursts(channels_of_one_pixel(), "NCHW") == (128, 0)
    # A channel's 16 pixels are neighbours in NCHW: two bursts for each of the 8 channels. In NHWC they are 8 elements
    # apart: each of the 16 pixels is in a burst of its own, for each channel again.
    assert bursts(one_channel_at_a_time(), "NCHW") == (16, 0)
    assert bursts(one_channel_at_a_time(), "NHWC") == (128, 0)


def test_blocks_of_channels_serve_both_ways_of_reading() -> None:
    # Blocks of 4 channels: a pixel's 8 channels are two runs of 4 neighbours, half a burst each; a channel's 16 pixels
    # are 4 elements apart, two to a burst.
    assert bursts(channels_of_one_pixel(), "NCHW4c") == (32, 0)
    assert bursts(one_channel_at_a_time(), "NCHW4c") == (8 * 8, 0)


def test_outputs_are_written_in_bursts_and_read_back_where_sums_return() -> None:
    # All 32 outputs stay on chip over the channels: four bursts, written once.
    assert bursts(one_channel_at_a_time(), "NCHW", "O") == (0, 4)
    # Here each channel's part is drained before the next channel begins: 8 times 4 bursts, and all but the first time
    # the sums in memory are read, to come back to the buffer.
    nodes = (Temporal("c", 1), Temporal("k", 1), Storage("GLB", ("O",)), Temporal("p", 1), Temporal("q", 1))
    assert bursts(Mapping((*nodes, Compute("S"))), "NCHW", "O") == (7 * 4, 8 * 4)


def test_what_no_buffer_holds_is_moved_element_by_element() -> None:
    mapping = Mapping((*(Temporal(d, 1) for d in "kcpq"), Compute("S")))
    found = {each.tensor: each for each in burst_counts(POINTWISE, ARCH, mapping).tensors}
    assert (found["I"].read_bursts, found["I"].efficiency) == (256, Fraction(1, 8))
    assert (found["O"].read_bursts, found["O"].written_bursts) == (256 - 32, 256)


def test_layouts_say_where_elements_lie() -> None:
    shape = (2, 5, 3, 4)
    for text in ("NCHW", "NHWC", "NCHW2c", "3 1 0 2", "0 1 2 3 1:2 3:4"):
        layout = layout_of(text, 4)
        assert layout_of(str(layout), 4) == layout
        addresses = [
            sum(int(layout.offsets(shape, axis, _one(index))[0]) for axis, index in enumerate(element))
            for element in _elements(shape)
        ]
        assert len(set(addresses)) == len(addresses)
        assert max(addresses) < layout.elements(shape)
    assert str(layout_of("0 2 3 1", 4)) == "NHWC"
    assert layout_of("NCHW4c", 4).elements((1, 5, 2, 2)) == 8 * 4  # the second block of channels is padded


@pytest.mark.parametrize("text", ["NCH", "0 1 2", "0 0 1 2", "1:4 0 1 2 3", "0 1 2 3 1:0", "0 1 2 3 9:2", "", "NCHW;"])
def test_texts_that_are_no_layout_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="PM470"):
        layout_of(text, 4)


def test_machines_without_bursts_and_unknown_tensors_are_refused_by_name() -> None:
    plain = replace(ARCH, nodes=(replace(ARCH.nodes[0], burst_bits=None), *ARCH.nodes[1:]))
    with pytest.raises(OptionError, match="burst_bits"):
        burst_counts(POINTWISE, plain, channels_of_one_pixel())
    with pytest.raises(OptionError, match="'J'"):
        burst_counts(POINTWISE, ARCH, channels_of_one_pixel(), {"J": "NCHW"})
    nodes = [{"level": "D"}, {"level": "B", "burst_bits": "64 B"}, {"compute": "M"}]
    with pytest.raises(ArchError, match="PM314"):
        arch_from_document({"nodes": nodes})


def moves_of_simulator(
    workload: Workload, arch: Architecture, mapping: Mapping, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[tuple[bool, frozenset[tuple[int, ...]]]]]:
    """Return (is a write, elements) of everything that the simulator's outermost level moves at once, per tensor."""
    moved: dict[str, list[tuple[bool, frozenset[tuple[int, ...]]]]] = {each.name: [] for each in workload.tensors}
    messages, arrivals, enter, leave = Store.messages, Store.arrivals, PartialSums.enter, LoadedPlace.leave

    def is_outermost(store: Store, holder: int) -> bool:
        return store.tree.places[holder].level == 0

    def reading(self: Store, holder: int, loads):
        if is_outermost(self, holder):
            groups: dict = {}
            for where, load in loads.items():
                kinds = [(f.multicast, c) for f, c in zip(self.fanouts, where, strict=False)]
                apart = tuple(c for kind, c in kinds if kind is Multicast.NONE)
                alike = tuple(c for kind, c in kinds if kind is Multicast.IDENTICAL)
                groups.setdefault(apart, {}).setdefault(alike, set()).update(load)
            for united in groups.values():
                for message in {frozenset(each) for each in united.values()} - {frozenset()}:
                    moved[self.tree.places[holder].tensor].append((False, message))
        return messages(self, holder, loads)

    def arriving(self: Store, holder: int, sent):
        sent = list(sent)
        if is_outermost(self, holder):
            copies = dict(self.at((holder, ())))
            groups: dict = {}
            for where, element in sent:
                apart = tuple(c for f, c in zip(self.fanouts, where, strict=False) if not f.reduction)
                groups.setdefault(apart, set()).add(element)
            for group in groups.values():
                found = frozenset(element for element in group if copies.get(element, Copy.ZERO) is not Copy.ZERO)
                moved[self.tree.places[holder].tensor] += [(False, found)] if found else []
                moved[self.tree.places[holder].tensor].append((True, frozenset(group)))
                copies.update(dict.fromkeys(group, Copy.CHANGED))
        return arrivals(self, holder, sent)

    def entering(self: PartialSums, place: int, tiles) -> None:
        parent = self.store.tree.places[place].parent
        if parent is not None and is_outermost(self.store, parent):
            copies = dict(self.store.at((parent, ())))
            for where in sorted(tiles):
                held = self.store.at((place, where))
                taken = frozenset(
                    e for e in tiles[where] if e not in held and copies.get(e, Copy.ZERO) is not Copy.ZERO
                )
                moved[self.store.tree.places[place].tensor] += [(False, taken)] if taken else []
                copies.update(dict.fromkeys(taken, Copy.ZERO))
        enter(self, place, tiles)

    def drained(self: LoadedPlace, place: int, tiles) -> None:
        parent = self.store.tree.places[place].parent
        if parent is not None and is_outermost(self.store, parent):
            for coordinates in self.store.instances(place):
                held, tile = self.store.at((place, coordinates)), tiles.get(coordinates, {})
                left = frozenset(e for e, copy in held.items() if e not in tile and copy is Copy.CHANGED)
                moved[self.store.tree.places[place].tensor] += [(True, left)] if left else []
        leave(self, place, tiles)

    with monkeypatch.context() as patched:
        patched.setattr(LoadedPlace, "leave", drained)
        patched.setattr(Store, "messages", reading)
        patched.setattr(Store, "arrivals", arriving)
        patched.setattr(PartialSums, "enter", entering)
        count_by_simulation(workload, arch, mapping)
    return moved


def test_bursts_are_those_of_the_moves_of_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(range(60), monkeypatch) > 50


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_bursts_are_those_of_the_simulator_in_five_thousand_cases(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(range(500 * (block + 1), 500 * (block + 2)), monkeypatch) > 400


@pytest.mark.parametrize("is_read", [False, True])
def test_bursts_of_overwritten_arrays_are_those_of_the_simulator(
    is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwritten(case: Case) -> Case:
        (statement,) = case.workload.statements
        reads = (*statement.reads, statement.target) if is_read else statement.reads
        statement = replace(statement, operator=Operator.ASSIGN, reads=reads)
        return replace(case, workload=replace(case.workload, statements=(statement,)))

    assert compared(range(75), monkeypatch, overwritten) > 50


@pytest.mark.parametrize("operator", ["=", "+="])
def test_a_transposition_in_square_tiles_moves_every_burst_once_each_way(operator: str) -> None:
    nodes = [{"level": "DRAM", "burst_bits": 512}, {"level": "SM", "capacity_bytes": 8192}, {"compute": "ALU"}]
    tiles = [{"for": "i", "tile": 16}, {"for": "j", "tile": 16}, {"store": "SM", "tensors": ["A", "B"]}]
    points = [{"for": "i", "tile": 1}, {"for": "j", "tile": 1}, {"compute": "S"}]
    workload = einsum(f"B[i,j] {operator} A[j,i]", i=64, j=64, bits=32)
    mapping = mapping_from_document({"nodes": [{"store": "DRAM", "tensors": ["A", "B"]}, *tiles, *points]})
    found = burst_counts(workload, arch_from_document({"nodes": nodes}), mapping).tensors
    assert [(each.tensor, each.read_bursts, each.written_bursts) for each in found] == [("B", 0, 256), ("A", 256, 0)]


def compared(seeds: range, monkeypatch: pytest.MonkeyPatch, changed: Callable[[Case], Case] = lambda case: case) -> int:
    """Compare tensors of random cases in random layouts; return how many."""
    met = 0
    for seed in seeds:
        rng = random.Random(seed)
        case = changed(random_case(rng))
        widest = max(tensor.bits for tensor in case.workload.tensors)
        nodes = (replace(case.arch.nodes[0], burst_bits=rng.choice((1, 2, 3, 4, 8, 16)) * widest), *case.arch.nodes[1:])
        arch = replace(case.arch, nodes=nodes)
        layouts = {tensor.name: random_layout(rng, len(tensor.shape)) for tensor in case.workload.tensors}
        try:
            found = burst_counts(case.workload, arch, case.mapping, layouts)
        except PolymapError:
            continue
        moved = moves_of_simulator(case.workload, arch, case.mapping, monkeypatch)
        rows = {row.tensor: row for row in evaluate(case.workload, arch, case.mapping).traffic if row.level == "DRAM"}
        for each in found.tensors:
            own = moved[each.tensor]
            assert (each.read_elements, each.written_elements) == (rows[each.tensor].reads, rows[each.tensor].writes)
            stores = [node for node in case.mapping.nodes if isinstance(node, Storage) and node.level != "DRAM"]
            if any(each.tensor in node.tensors for node in stores):
                tensor, size = case.workload.tensor(each.tensor), each.burst_bits // each.bits
                counted = [
                    sum(_bursts(each.layout, tensor, size, elements) for is_write, elements in own if is_write is kind)
                    for kind in (False, True)
                ]
                assert [each.read_bursts, each.written_bursts] == counted, (seed, each.tensor, str(each.layout))
                assert sum(len(e) for w, e in own if not w) == each.read_elements, seed
                assert sum(len(e) for w, e in own if w) == each.written_elements, seed
                met += 1
    return met


def random_layout(rng: random.Random, rank: int) -> Layout:
    order = rng.sample(range(rank), rank)
    parts = [(axis, 0) for axis in order]
    for axis in rng.sample(order, rng.randrange(0, min(rank, 2) + 1)):
        parts.insert(rng.randrange(parts.index((axis, 0)) + 1, len(parts) + 1), (axis, rng.randrange(1, 5)))
    return Layout(tuple(parts))


def _bursts(layout: Layout, tensor: Tensor, size: int, elements: frozenset[tuple[int, ...]]) -> int:
    """Count the bursts of a set of elements, each address worked out from the definition of a layout."""
    blocks = {axis: block for axis, block in layout.parts if block}
    touched = set()
    for element in elements:
        address = 0
        for axis, block in layout.parts:
            index, inner = element[axis] - tensor.origin[axis], blocks.get(axis, 1)
            parts = block or -(-tensor.shape[axis] // inner)
            address = address * parts + (index % block if block else index // inner)
        touched.add(address // size)
    return len(touched)


def _one(index: int):
    import numpy as np

    return np.array([index])


def _elements(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    from itertools import product

    return product(*map(range, shape))
