"""Products, convolutions, elementwise operations and reductions of StableHLO by the indices of their operands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polymap.importers.calls import NotMapped, Shape
from polymap.importers.functions import FUNCTIONS
from polymap.importers.index_maps import Structure, axes_of, product, same_axes
from polymap.importers.linalg_named import dimensions_of, numbers_of
from polymap.ir import Apply, Read

_LIST = r"\[([\d,\s]*)\]"
_BATCHES = re.compile(rf"\bbatching_dims\s*=\s*{_LIST}\s*x\s*{_LIST}")
_CONTRACTED = re.compile(rf"\bcontracting_dims\s*=\s*{_LIST}\s*x\s*{_LIST}")
_ORDERS = re.compile(r"\bdim_numbers\s*=\s*\[([^]]*)\]x\[([^]]*)\]->\[([^]]*)\]")
_REDUCER = re.compile(r"\bapplies\s+stablehlo\.(\w+)\s+across\b")
_UNARY = {"exponential": "exp", "sine": "sin", "cosine": "cos", "abs": "fabs", "logistic": "sigmoid", "tan": "tan",
          "exponential_minus_one": "expm1", "log_plus_one": "log1p", "round_nearest_even": "rint"} | {
    name: name for name in ("log", "sqrt", "tanh", "negate", "floor", "ceil", "rsqrt", "sign")
}  # fmt: skip
_BINARY = {"maximum": "max", "minimum": "min", "remainder": "remainder", "atan2": "atan2"} | {
    name: name for name in ("add", "subtract", "multiply", "divide", "power")
}
_REDUCERS = {"add": "+", "maximum": "max", "minimum": "min"}
VIEWS = tuple(f"stablehlo.{name}" for name in (
    "reshape", "transpose", "broadcast_in_dim", "constant", "slice", "concatenate", "convert", "iota", "pad", "reverse",
    "dynamic_slice", "dynamic_update_slice", "bitcast_convert", "optimization_barrier",
))  # fmt: skip
"""Operations that compute nothing."""
LAYERS = tuple(f"stablehlo.{name}" for name in ("dot", "dot_general", "convolution", "reduce", *_UNARY, *_BINARY))
"""Operations that are one layer, whatever stands in their regions."""


def structure_of(name: str, text: str, shapes: Sequence[Shape]) -> Structure:
    """Return what an operation computes; raises NotMapped. shapes: of the operands and the result."""
    ranks = [len(shape) for shape in shapes]
    if name == "convolution":
        return _convolution(text, shapes)
    if name in ("dot", "dot_general"):
        gone = [[ranks[0] - 1], [0]] if name == "dot" else _pair(_CONTRACTED, text)
        return _product(ranks, _pair(_BATCHES, text), gone)
    if name == "reduce":
        found, gone = _REDUCER.search(text), dimensions_of(text)
        if found is None or found[1] not in _REDUCERS or len(shapes) != 3:
            raise NotMapped("it reduces by another operation than add, maximum and minimum")
        (every, _) = same_axes(ranks[0], 1)
        kept = [axis for place, axis in enumerate(every) if place not in gone]
        return Structure([every, [], kept], Apply(_REDUCERS[found[1]], (Read(2), Read(0))))
    count = 1 + (name in _BINARY)
    if len(shapes) != count + 1:
        raise NotMapped(f"it has {len(shapes) - 1} operands")
    value = FUNCTIONS[_UNARY.get(name) or _BINARY[name]].make(tuple(map(Read, range(count))))
    return Structure(same_axes(ranks[-1], count), value)


def _pair(pattern: re.Pattern[str], text: str) -> list[list[int]]:
    found = pattern.search(text)
    return [[], []] if found is None else [numbers_of(each) for each in found.groups()]


def _product(ranks: Sequence[int], batch: list[list[int]], gone: list[list[int]]) -> Structure:
    """Return a product: batches first in the result, then what is left of both operands in their order."""
    if any(len({*map(len, each)}) > 1 for each in (batch, gone)):
        raise NotMapped("its dimension numbers do not fit together")
    accesses: list[list[str]] = []
    for letter, rank, own_batch, own_gone in zip("mn", ranks, batch, gone, strict=False):
        named = {axis: f"b{place}" for place, axis in enumerate(own_batch)}
        named |= {axis: f"k{place}" for place, axis in enumerate(own_gone)}
        if len(named) != len(own_batch) + len(own_gone) or any(axis >= rank for axis in named):
            raise NotMapped("its dimension numbers do not fit together")
        accesses.append([named.get(axis, f"{letter}{axis}") for axis in range(rank)])
    left, right = accesses
    result = [*(f"b{place}" for place in range(len(batch[0]))), *(each for each in left + right if each[0] in "mn")]
    if len(ranks) != 3 or len(result) != ranks[2]:
        raise NotMapped("its result has another number of axes than its dimension numbers say")
    return Structure(axes_of(f"{' '.join(left)}, {' '.join(right)} -> {' '.join(result)}"), product())


def _window(text: str, rank: int) -> dict[str, list[int]]:
    """Return strides, dilations and padding (low and high of each axis)."""
    given = {name: numbers_of(values) for name, values in re.findall(r"(\w+)\s*=\s*(\[(?:[^][]|\[[^]]*\])*\])", text)}
    turned = re.search(r"reverse\s*=\s*\[[^]]*(?:true|1)", text)
    if turned or any(each != 1 for each in given.get("lhs_dilate", [])):
        raise NotMapped("its input is dilated, or its window is turned")
    found = {"stride": [1] * rank, "rhs_dilate": [1] * rank, "pad": [0] * 2 * rank}
    found |= {name: values for name, values in given.items() if name in found}
    is_whole = [len(found[name]) for name in ("stride", "rhs_dilate", "pad")] == [rank, rank, 2 * rank]
    if not is_whole or min(found["pad"], default=0) < 0 or min(found["stride"] + found["rhs_dilate"], default=1) < 1:
        raise NotMapped("negative padding, or numbers that are not those of its axes")
    return found


def _convolution(text: str, shapes: Sequence[Shape]) -> Structure:
    """Return a convolution of the padded image; with groups the channels' axes stand in two."""
    named = _ORDERS.search(text)
    words: tuple[str, ...] = ("",) if named is None else named.groups()
    orders = [[word.strip() for word in each.split(",")] for each in words]
    spatial = [str(axis) for axis in range(len(orders[0]) - 2)]
    known = [sorted((*letters, *spatial)) for letters in ("bf", "io", "bf")]
    if [sorted(each) for each in orders] != known or [*map(len, shapes)] != [*map(len, known)]:
        raise NotMapped("its dimension numbers are not those of its operands")
    steps = _window(text, len(spatial))
    counts = dict(re.findall(r"(\w+)_group_count\s*=\s*(\d+)", text))
    group = int(counts.get("feature", 1))
    if counts.get("batch", "1") != "1":
        raise NotMapped("groups of the batch")
    whole = [list(shape) for shape in shapes]
    for axis, (step, far) in enumerate(zip(steps["stride"], steps["rhs_dilate"], strict=True)):
        at = [order.index(str(axis)) for order in orders]
        whole[0][at[0]] += sum(steps["pad"][2 * axis : 2 * axis + 2])
        image, taps, places = (sizes[place] for sizes, place in zip(whole, at, strict=True))
        if min(image, taps, places) < 0 or places != (image - far * (taps - 1) - 1) // step + 1:
            raise NotMapped("its result has another size than its window says, or a size is dynamic")
    pairs = enumerate(zip(steps["stride"], steps["rhs_dilate"], strict=True))
    windows = {str(axis): f"{step}*p{axis}+{far}*r{axis}" for axis, (step, far) in pairs}
    taps, places = ({axis: f"{letter}{axis}" for axis in windows} for letter in "rp")
    letters = [{"b": "b", "f": "c", **windows}, {"i": "c", "o": "k", **taps}, {"b": "b", "f": "k", **places}]
    accesses: list[str] = []
    for order, sizes, letter, index in zip(orders, whole, "fof", letters, strict=True):
        access, place = [index[each] for each in order], order.index(letter)
        if group < 1 or sizes[place] % group:
            raise NotMapped("its groups do not divide the channels")
        if group > 1:
            access.insert(place, "g")
            sizes[place : place + 1] = [group, sizes[place] // group]
        accesses.append(" ".join(access))
    axes = axes_of(f"{accesses[0]}, {accesses[1]} -> {accesses[2]}")
    return Structure(axes, product(), [tuple(sizes) for sizes in whole])
