"""What one mapping moves between the outermost level and the next holders, step by step, as sets of elements.

The rules are those of docs/counting.md: a read-only tile loads what it lacks, siblings share messages, drains are added
on the way, partial sums come back once. Sets are products of index sets along the axes, or what such a product has
beside another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

import numpy as np

from polymap.ir import (
    Access,
    Architecture,
    BudgetError,
    Compute,
    Fanout,
    Mapping,
    Mistake,
    Multicast,
    Operator,
    OptionError,
    Spatial,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
)
from polymap.layouts.layout import Ints
from polymap.layouts.tuning import TUNING
from polymap.schedules import view_of

Digits = tuple[int, ...]
Elements = Ints  # sorted numbers of elements, as if the last axis were the fastest


@dataclass(frozen=True, slots=True)
class Transfer:
    """Elements of a tensor that the outermost level reads or writes at once."""

    is_write: bool
    elements: Elements


@dataclass(frozen=True, slots=True)
class _Loop:
    """dim, tile, and trips; fanout: a number, or None where the loop is temporal; fixed: it selects the node's tile."""

    dim: str
    tile: int
    trips: int
    fanout: int | None
    fixed: bool


@dataclass(slots=True)
class _Walk:
    """One tensor between the outermost level and its next holder, of which `fans` fan-outs stand above."""

    workload: Workload
    fanouts: tuple[Fanout, ...]
    tensor: Tensor
    access: Access
    loops: tuple[_Loop, ...]
    fans: int
    tiles: dict[tuple[bytes, ...], Elements] = field(default_factory=dict[tuple[bytes, ...], Elements])


def transfers(workload: Workload, arch: Architecture, mapping: Mapping, tensor: str) -> Iterator[Transfer]:
    """Yield what the outermost level reads and writes of a tensor, in order; where no level below holds it, nothing:
    then every access is an element by itself (`are_single`).

    Raises OptionError (PM471) for programs, domains that are no boxes and tensors that are read through several
    accesses; BudgetError (PM472) where there is too much to walk.
    """
    walk = _walk_of(workload, arch, mapping, tensor)
    if walk is None:
        return
    written = workload.statements[0].target.tensor == tensor
    yield from _sums(walk) if written else _loads(walk)


def are_single(workload: Workload, arch: Architecture, mapping: Mapping, tensor: str) -> bool:
    """Return whether every message is of one element: in each step all siblings together hold no more."""
    walk = _walk_of(workload, arch, mapping, tensor)
    if walk is None:
        return True
    united = tuple(replace(loop, fixed=loop.fixed and loop.fanout is None) for loop in walk.loops)
    first = replace(walk, loops=united, tiles={})
    return len(_tile(first, (0,) * sum(loop.fixed for loop in united))) <= 1


def _walk_of(workload: Workload, arch: Architecture, mapping: Mapping, tensor: str) -> _Walk | None:
    reason = _unsupported(workload, mapping, tensor)
    if reason:
        what = f"bursts of {tensor} in {workload.name} are not counted: {reason}"
        raise OptionError(
            Mistake("PM471", what, "Layers are: one accumulation over a box, in a tree without branches.")
        )
    holder = next((n for n, node in enumerate(mapping.nodes) if _holds(arch, node, tensor)), None)
    if holder is None:
        return None
    node = mapping.nodes[holder]
    assert isinstance(node, Storage)
    fans = len(arch.fanouts_above(node.level))
    numbers = {fanout.name: number for number, fanout in enumerate(arch.fanouts)}
    loops: list[_Loop] = []
    for place, each, _, _, trips in view_of(workload.extents(), mapping).loops:
        if isinstance(each, Temporal):
            loops.append(_Loop(each.dim, each.tile, trips, None, place < holder))
        else:
            loops.append(_Loop(each.dim, each.tile, trips, numbers[each.fanout], numbers[each.fanout] < fans))
    (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor))
    return _Walk(workload, arch.fanouts, workload.tensor(tensor), access, tuple(loops), fans)


def _holds(arch: Architecture, node: object, tensor: str) -> bool:
    return isinstance(node, Storage) and node.level != arch.levels[0].name and tensor in node.tensors


def _unsupported(workload: Workload, mapping: Mapping, tensor: str) -> str:
    if len(workload.statements) != 1 or not all(
        isinstance(node, Storage | Temporal | Spatial | Compute) for node in mapping.nodes
    ):
        return "it has several statements"
    statement = workload.statements[0]
    if not is_box(statement):
        return "its domain is no box"
    if statement.operator is Operator.ASSIGN:
        return "it overwrites its target"
    if len(dict.fromkeys(accesses_of(statement, tensor))) != 1:
        return "the tensor is accessed in several places"
    if statement.target.tensor == tensor and any(read.tensor == tensor for read in statement.reads):
        return "its target is read"
    if workload.tensor(tensor).temporary:
        return "the tensor is temporary"
    return ""


def _digits(walk: _Walk) -> tuple[list[list[int]], list[int], list[int]]:
    """Return the digits of each fixed loop, and which of these loops are temporal and which spatial."""
    fixed = [loop for loop in walk.loops if loop.fixed]
    values = [list(range(loop.trips)) for loop in fixed]
    temporal = [n for n, loop in enumerate(fixed) if loop.fanout is None]
    spatial = [n for n, loop in enumerate(fixed) if loop.fanout is not None]
    used = {dim for index in walk.access.index for dim in index.coefficients()} | {fixed[n].dim for n in spatial}
    for n in reversed(temporal):  # the innermost loops over other dims bring the same tiles again
        if fixed[n].dim in used:
            break
        values[n] = [0]
    return values, temporal, spatial


def _steps(walk: _Walk) -> Iterator[dict[Digits, Elements]]:
    """Yield per step the tile of every instance (its coordinates over the fan-outs above the node), not empty ones."""
    values, temporal, spatial = _digits(walk)
    count = prod(len(each) for each in values)
    if count > TUNING.most_tiles:
        what = f"{walk.tensor.name} has {count:,} tiles to walk, and at most {TUNING.most_tiles:,} are walked"
        raise BudgetError(Mistake("PM472", what, "A mapping with larger tiles in the level below has fewer."))
    places = list(product(*(values[n] for n in spatial)))
    coordinates = [_coordinates(walk, spatial, values, place) for place in places]
    walked = 0
    for time in product(*(values[n] for n in temporal)):
        tiles: dict[Digits, Elements] = {}
        for place, where in zip(places, coordinates, strict=True):
            digits = [0] * len(values)
            for n, digit in (*zip(temporal, time, strict=True), *zip(spatial, place, strict=True)):
                digits[n] = digit
            tile = _tile(walk, tuple(digits))
            walked += len(tile)
            if len(tile):
                tiles[where] = tile
        if walked > TUNING.most_elements:
            what = f"{walk.tensor.name} has more than {TUNING.most_elements:,} elements to walk"
            raise BudgetError(Mistake("PM472", what, "A mapping that loads it less often has fewer."))
        if tiles:
            yield tiles


def _coordinates(walk: _Walk, spatial: Sequence[int], values: Sequence[Sequence[int]], place: Digits) -> Digits:
    """Return one number per fan-out above the node: the digits of its loops side by side, the outermost first."""
    fixed = [loop for loop in walk.loops if loop.fixed]
    found = [0] * walk.fans
    for n, digit in zip(spatial, place, strict=True):
        fanout = fixed[n].fanout
        assert fanout is not None
        found[fanout] = found[fanout] * len(values[n]) + digit
    return tuple(found)


def _tile(walk: _Walk, digits: Digits) -> Elements:
    """Return the elements that the instances below touch where the fixed loops have these digits."""
    indices = {dim.name: _indices(walk, dim.name, dim.extent, digits) for dim in walk.workload.dims}
    own = {dim for index in walk.access.index for dim in index.coefficients()}
    key = tuple(each.tobytes() if dim in own else bytes([len(each) > 0]) for dim, each in indices.items())
    if key in walk.tiles:
        return walk.tiles[key]
    walk.tiles[key] = found = _touched(walk, indices)
    return found


def _indices(walk: _Walk, dim: str, extent: int, digits: Digits) -> Ints:
    """Return the indices of a dim under the fixed loops' digits, rising."""
    runs, fixed = [(0, extent)], 0
    for loop in walk.loops:
        mine = loop.dim == dim
        if loop.fixed:
            digit = digits[fixed]
            fixed += 1
            if mine:
                runs = [(start + digit * loop.tile, min(loop.tile, size - digit * loop.tile)) for start, size in runs]
                runs = [run for run in runs if run[1] > 0]
        elif mine:
            runs = [
                (start + low, min(loop.tile, size - low)) for start, size in runs for low in range(0, size, loop.tile)
            ]
    if not runs:
        return np.zeros(0, np.int64)
    return np.unique(np.concatenate([np.arange(start, start + size) for start, size in runs]))


def _touched(walk: _Walk, indices: dict[str, Ints]) -> Elements:
    """Return the elements of the tensor that these indices touch: all combinations of the dims that share axes."""
    if any(not len(each) for each in indices.values()):
        return np.zeros(0, np.int64)
    shape, parts = walk.tensor.shape, [np.zeros(1, np.int64)]
    axes = [dict(index.coefficients()) for index in walk.access.index]
    left = set(range(len(axes)))
    while left:
        group, dims = _connected(axes, left)
        left -= group
        values = np.zeros((1,) * len(dims), np.int64)
        for axis in sorted(group):
            stride = prod(shape[axis + 1 :])
            index = walk.access.index[axis]
            values = values + stride * (index.constant - walk.tensor.origin[axis])
            for place, dim in enumerate(dims):
                if dim in axes[axis]:
                    along = [-1 if place == other else 1 for other in range(len(dims))]
                    values = values + stride * axes[axis][dim] * indices[dim].reshape(along)
        parts.append(np.unique(values))
    found = parts[0]
    for part in parts[1:]:
        found = (found[:, None] + part[None, :]).reshape(-1)
    return np.sort(found)


def _connected(axes: Sequence[dict[str, int]], left: set[int]) -> tuple[set[int], list[str]]:
    """Return axes that share dims, directly or through others, and these dims in order."""
    first = min(left)
    group, dims = {first}, list(axes[first])
    changed = True
    while changed:
        changed = False
        for axis in sorted(left - group):
            if set(axes[axis]) & set(dims):
                group.add(axis)
                dims += [dim for dim in axes[axis] if dim not in dims]
                changed = True
    return group, dims


def _loads(walk: _Walk) -> Iterator[Transfer]:
    """Yield the messages of a read-only tensor."""
    held: dict[Digits, Elements] = {}
    for tiles in _steps(walk):
        loads: dict[Digits, Elements] = {}
        for where, tile in tiles.items():
            before = held.get(where)
            if before is not tile:
                loads[where] = tile if before is None else np.setdiff1d(tile, before, assume_unique=True)
                held[where] = tile
        for message in _messages(walk.fanouts[: walk.fans], loads):
            yield Transfer(is_write=False, elements=message)


def _messages(fanouts: Sequence[Fanout], loads: dict[Digits, Elements]) -> Iterator[Elements]:
    """Yield the distinct messages of one step, merged as the fan-outs' multicast says."""
    groups: dict[Digits, dict[Digits, list[Elements]]] = {}
    for where, load in loads.items():
        if len(load):
            apart = tuple(c for f, c in zip(fanouts, where, strict=True) if f.multicast is Multicast.NONE)
            alike = tuple(c for f, c in zip(fanouts, where, strict=True) if f.multicast is Multicast.IDENTICAL)
            groups.setdefault(apart, {}).setdefault(alike, []).append(load)
    for united in groups.values():
        seen: set[bytes] = set()
        for parts in united.values():
            message = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
            if message.tobytes() not in seen:
                seen.add(message.tobytes())
                yield message


def _sums(walk: _Walk) -> Iterator[Transfer]:
    """Yield what arrives of an accumulated tensor, what is read to add to it, and the partial sums that go back."""
    partial = np.full(prod(walk.tensor.shape), walk.tensor.initial)
    held: dict[Digits, Elements] = {}
    nothing = np.zeros(0, np.int64)
    for tiles in (*_steps(walk), {}):
        sent: dict[Digits, list[Elements]] = {}
        for where in sorted(held):
            now = tiles.get(where, nothing)
            leaving = np.setdiff1d(held[where], now, assume_unique=True)
            if len(leaving):
                apart = tuple(c for f, c in zip(walk.fanouts, where, strict=False) if not f.reduction)
                sent.setdefault(apart, []).append(leaving)
        yield from _added(partial, sent)
        entered = {
            where: np.setdiff1d(tile, held.get(where, nothing), assume_unique=True) for where, tile in tiles.items()
        }
        for where in sorted(entered):
            taken = entered[where][partial[entered[where]]]
            if len(taken):
                partial[taken] = False
                yield Transfer(is_write=False, elements=taken)
        held = tiles


def _added(
    partial: np.ndarray[tuple[int], np.dtype[np.bool_]], sent: dict[Digits, list[Elements]]
) -> Iterator[Transfer]:
    """Yield the arrivals of one step, group by group of siblings that are added on the way, and mark them partial."""
    for parts in sent.values():
        arriving = np.unique(np.concatenate(parts))
        found = arriving[partial[arriving]]
        if len(found):
            yield Transfer(is_write=False, elements=found)
        partial[arriving] = True
        yield Transfer(is_write=True, elements=arriving)
