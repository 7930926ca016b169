"""DRAM traffic of the 30 kernels of PolyBench 4.2.1 (SMALL sizes, double) on flat3 with a buffer of 16 KiB.

    python benchmarks/polybench.py [--seconds 20] [--one-buffer BYTES] [kernel ...]

Per kernel: the source order with all arrays in DRAM (a), isl's schedule with permutable bands tiled by 8, 16 or 32 and
arrays in the buffer outside the innermost tile loop where they fit (b), the source order with the best single node per
array (c), and what `explore` finds in so many CPU seconds, with its bound. All in bits, counted exactly. --one-buffer:
on a machine of DRAM, one buffer of so many bytes and one compute unit. compulsory: the gap to compulsory traffic alone.
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass, field, replace
from itertools import pairwise

import islpy as isl
import numpy as np

import polymap as pm
from benchmarks.isl_orders import schedule_text
from benchmarks.polybench_kernels import KERNELS
from polymap.costmodel import compulsory_bits
from polymap.explore import search
from polymap.ir import Architecture, Dim, MemoryLevel, PolymapError
from polymap.poly import Effort, within_work
from polymap.search.programs.counting import rows_of
from polymap.search.programs.instances import Ints, ProgramArrays, program_arrays
from polymap.search.programs.moves import all_groups, common_loops
from polymap.search.programs.shapes import Place, Shape, is_legal, source_shape, time_shape
from polymap.search.programs.stays import Stays

KIND = isl.schedule_node_type
BUFFER_BITS = 16 * 1024 * 8
TILES = (8, 16, 32)
OPERATIONS, CPU_S = 10_000_000, 60.0  # of isl's scheduler for (b)


def machine(one_buffer: int | None = None) -> Architecture:
    """Return flat3 with a buffer of 16 KiB; with `one_buffer` a machine with nothing but a buffer of so many bytes."""
    if one_buffer is not None:
        nodes = [{"level": "DRAM"}, {"level": "GLB", "capacity_bits": 8 * one_buffer}, {"compute": "PE"}]
        return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})
    flat = pm.load_arch("flat3")
    nodes = (
        replace(node, capacity_bits=BUFFER_BITS) if isinstance(node, MemoryLevel) and node.name == "GLB" else node
        for node in flat.nodes
    )
    return replace(flat, nodes=tuple(nodes))


def room_bits(arch: Architecture) -> int:
    """Return the bits of the outermost buffer."""
    room = arch.levels[1].usable_bits
    assert room is not None
    return room


def dram_bits(stays: Stays, tensor: str, place: Place | None) -> int:
    """Return the bits that a tensor moves at the outermost level with a node at this place."""
    reads, writes, _, _ = rows_of(stays, tensor, () if place is None else ((1, place),))[0]
    return (reads + writes) * stays.arrays.workload.tensor(tensor).bits


def single_nodes(stays: Stays, room: int, choose: list[Place] | None = None) -> int:
    """Return the least traffic with one node per tensor (at one of the places) whose peaks fit together."""
    best = {0: 0}  # bits used -> traffic
    for tensor in stays.arrays.workload.tensors:
        if not stays.arrays.accesses[tensor.name].element.size:
            continue
        options = [(0, dram_bits(stays, tensor.name, None))]
        for place in stays.places(tensor.name) if choose is None else choose:
            if stays.uses(tensor.name, place):
                peak = stays.count(tensor.name, place).peak * tensor.bits
                if peak <= room:
                    options.append((peak, dram_bits(stays, tensor.name, place)))
        grown: dict[int, int] = {}
        for used, traffic in best.items():
            for peak, more in options:
                if used + peak <= room:
                    grown[used + peak] = min(grown.get(used + peak, traffic + more), traffic + more)
        best = {}
        for used in sorted(grown):
            if not best or grown[used] < min(best.values()):
                best[used] = grown[used]
    return min(best.values())


@dataclass
class Tree:
    """isl's schedule: the values of the bands around each statement, and which loops neighbours share.

    bands: per statement, in order: (names of the members, whether they are permutable) from the outside in. values:
    (statement, member) -> the value of every instance.
    """

    arrays: ProgramArrays
    statements: list[str] = field(default_factory=list)
    bands: list[list[tuple[tuple[str, ...], bool]]] = field(default_factory=list)
    values: dict[tuple[str, str], Ints] = field(default_factory=dict)

    def walk(self, node: isl.ScheduleNode, names: list[str], above: list[tuple[tuple[str, ...], bool]]) -> None:
        kind = KIND(node.get_type())
        if kind is KIND.band:
            count, number = node.band_n_member(), len(self.values)
            members = tuple(f"b{number}_{place}" for place in range(count))
            for place in range(count):
                self.note(node.band_get_partial_schedule().get_union_pw_aff(place), names, members[place])
            self.walk(node.child(0), names, [*above, (members, bool(node.band_get_permutable()))])
        elif kind in (KIND.sequence, KIND.set):
            for place in range(node.n_children()):
                child = node.child(place)
                found: list[str] = []
                child.filter_get_filter().foreach_set(lambda one, found=found: found.append(one.get_tuple_name()))
                self.walk(child.child(0), [name for name in names if name in found], above)
        elif kind is KIND.leaf:
            for name in names:
                self.statements.append(name)
                self.bands.append(above)
        else:
            self.walk(node.child(0), names, above)

    def note(self, member: isl.UnionPwAff, names: list[str], column: str) -> None:
        pieces: list[isl.PwAff] = []
        member.foreach_pw_aff(pieces.append)
        workload = self.arrays.workload
        for piece in pieces:
            name = piece.get_domain_space().get_tuple_name(isl.dim_type.set)
            ((_, value),) = piece.get_pieces()
            if name not in names or value.dim(isl.dim_type.div):
                raise ValueError("a schedule with floors")
            number = [each.name for each in workload.statements].index(name)
            points = self.arrays.points[number]
            total = np.full(points.shape[1], value.get_constant_val().to_python(), dtype=np.int64)
            for axis in range(len(points)):
                total += value.get_coefficient_val(isl.dim_type.in_, axis).to_python() * points[axis]
            self.values[name, column] = total

    def program(self) -> ProgramArrays:
        """Return the program with the members of bands for dims."""
        workload, low, extent = self.arrays.workload, {}, {}
        for (_, column), value in self.values.items():
            if len(value):
                low[column] = min(low.get(column, int(value.min())), int(value.min()))
                extent[column] = max(extent.get(column, int(value.max())), int(value.max()))
        dims = tuple(Dim(name, extent[name] - low[name] + 1) for name in low)
        points, statements = [], []
        for number, statement in enumerate(workload.statements):
            bands = self.bands[self.statements.index(statement.name)]
            columns = [name for members, _ in bands for name in members]
            rows = [self.values[statement.name, name] - low[name] for name in columns]
            empty = np.zeros((0, self.arrays.points[number].shape[1]), dtype=np.int32)
            points.append(np.stack(rows).astype(np.int32) if rows else empty)
            statements.append(replace(statement, dims=tuple(columns), constraints=()))
        program = replace(workload, dims=dims, statements=tuple(statements))
        return replace(self.arrays, workload=program, points=tuple(points))

    def shape(self, extents: dict[str, int], tile: int) -> tuple[Shape, list[Place]]:
        """Return the tree with outermost permutable bands tiled, and the places outside their innermost tile loops."""
        loops, depths = [], []
        for bands in self.bands:
            own: list[tuple[str, int]] = []
            depth = 0
            for place, (members, permutable) in enumerate(bands):
                large = [name for name in members if extents[name] > tile]
                if (
                    permutable
                    and len(members) > 1
                    and place == next((at for at, (each, may) in enumerate(bands) if may and len(each) > 1), None)
                ):
                    own += [(name, tile) for name in large]
                    depth = len(own) - 1 if large else len(own)
                own += [(name, 1) for name in members if extents[name] > 1]
            loops.append(tuple(own))
            depths.append(depth)
        shared = tuple(common_loops(one, other) for one, other in pairwise(loops))
        shape = Shape(tuple(self.statements), tuple(loops), shared)
        places = [
            place
            for group in all_groups(shape)
            for place in (Place(group.low, group.high, depth) for depth in range(group.begin, group.end + 1))
            if place.depth == depths[group.low]
        ]
        return shape, places


def isl_tiled(arrays: ProgramArrays, room: int) -> int | None:
    """Return the least traffic of isl's schedule, its outermost permutable bands tiled; None where isl gives up."""
    workload = arrays.workload
    try:
        text = within_work(Effort(OPERATIONS, CPU_S, first=1), "isl's scheduler", schedule_text, workload)
        tree = Tree(arrays)
        tree.walk(isl.Schedule(text).get_root(), [each.name for each in workload.statements], [])
    except (isl.Error, PolymapError, ValueError):
        return None
    program, found = tree.program(), []
    for tile in TILES:
        shape, places = tree.shape(program.workload.extents(), tile)
        when = time_shape(program, shape)
        if when is not None and is_legal(program, when):
            found.append(single_nodes(Stays(program, shape, when), room, places))
    return min(found, default=None)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


def measured(name: str, arch: Architecture, seconds: float) -> tuple[int, int | None, int, int, int, int, str]:
    """Return (a, b, c, ours, bound, compulsory, status) of a kernel, in bits."""
    source, sizes = KERNELS[name]
    workload = pm.from_c(source, sizes=sizes)
    arrays, shape = program_arrays(workload), source_shape(workload)
    when = time_shape(arrays, shape)
    assert when is not None, "the source order visits every instance"
    stays = Stays(arrays, shape, when)
    plain = sum(
        dram_bits(stays, each.name, None) for each in workload.tensors if arrays.accesses[each.name].element.size
    )
    isls, single = isl_tiled(arrays, room_bits(arch)), single_nodes(stays, room_bits(arch))
    result = search(workload, arch, "traffic:DRAM", time_limit_s=seconds, clock=cpu_seconds)
    return plain, isls, single, int(result.value), int(result.bound), compulsory_bits(workload) or 0, result.status


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", choices=[*KERNELS, []])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--one-buffer", type=int, default=None, metavar="BYTES")
    asked = parser.parse_args()
    arch, logs, worse = machine(asked.one_buffer), [], []
    print(
        "| kernel | source order (a), bits | isl (b) / a | single nodes (c) / a | ours / a | gap | compulsory "
        "| status | CPU s, all columns |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in asked.kernels or KERNELS:
        begin = cpu_seconds()
        plain, isls, single, ours, bound, compulsory, status = measured(name, arch, asked.seconds)
        seconds = cpu_seconds() - begin
        logs.append(math.log(ours / plain))
        best = min(each for each in (plain, isls, single) if each is not None)
        worse += [name] if ours > best else []
        other = "-" if isls is None else f"{isls / plain:.4f}"
        print(
            f"| {name} | {plain:,} | {other} | {single / plain:.4f} | {ours / plain:.4f} | {1 - bound / ours:.1%} "
            f"| {1 - compulsory / ours:.1%} | {status} | {seconds:.0f} |",
            flush=True,
        )
    print(
        f"\nGeometric mean of ours / a: {math.exp(sum(logs) / len(logs)):.4f}; worse than the best of a, b, c: "
        f"{', '.join(worse) or 'none'}"
    )


if __name__ == "__main__":
    main()
