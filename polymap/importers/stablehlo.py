"""Products, convolutions, elementwise operations and reductions of StableHLO by the indices of their operands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from polymap.importers.calls import NotMapped, Shape
from polymap.importers.functions import FUNCTIONS
from polymap.importers.index_maps import Structure, axes_of, product, same_axes
from polymap.importers.linalg_named import dimensions_of, numbers_of
from polymap.ir import Apply, Expression, Read

_LIST = r"\[([\d,\s]*)\]"
_BATCHES = re.compile(rf"\bbatching_dims\s*=\s*{_LIST}\s*x\s*{_LIST}")
_CONTRACTED = re.compile(rf"\bcontracting_dims\s*=\s*{_LIST}\s*x\s*{_LIST}")
_ORDERS = re.compile(
    r"\b(?:dim_numbers|dimension_numbers)\s*=\s*(?:#stablehlo\.conv<)?\[([^]]*)\]x\[([^]]*)\]->\[([^]]*)\]"
)
_REDUCER = re.compile(r"\bapplies\s+stablehlo\.(\w+)\s+across\b")
_NAME = r"(%[\w.$-]+)"
_BODY = re.compile(  # of two arguments, whose combination is returned
    rf"\(\s*{_NAME}\s*:[^%]*{_NAME}\s*:[^%]*{_NAME}\s*=\s*\"?stablehlo\.(\w+)\"?\(?\s*(?:\1\s*,\s*\2|\2\s*,\s*\1)"
    r"(?![\w.$-])[^%]*\breturn\"?\(?\s*\3(?![\w.$-])"
)
_RESULT = re.compile(r"%[\w.$-]+(?::\d+)?\s*=")
_NESTED = r"\[(?:[^][]|\[[^]]*\])*\]"
_GIVEN = re.compile(rf"(\w+)\s*=\s*(?:({_NESTED})|array<i64:?([^>]*)>|dense<([^>\"]*)>\s*:\s*tensor<([\dx]*)xi64>)")
# What the generic form of an operation calls the numbers of a window, and the other form.
_WINDOW = {"window_strides": "stride", "rhs_dilation": "rhs_dilate", "lhs_dilation": "lhs_dilate", "padding": "pad",
           "window_dilations": "rhs_dilate", "base_dilations": "lhs_dilate"}  # fmt: skip
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
LAYERS = tuple(
    f"stablehlo.{name}" for name in ("dot", "dot_general", "convolution", "reduce", "reduce_window", *_UNARY, *_BINARY)
)
"""Operations that are one layer, whatever stands in their regions."""


def structure_of(name: str, text: str, shapes: Sequence[Shape]) -> Structure:
    """Return what an operation computes; raises NotMapped. shapes: of the operands and the result."""
    ranks = [len(shape) for shape in shapes]
    if name == "convolution":
        return _convolution(text, shapes)
    if name in ("dot", "dot_general"):
        gone = [[ranks[0] - 1], [0]] if name == "dot" else _pair(_CONTRACTED, text, "contracting")
        return _product(ranks, _pair(_BATCHES, text, "batching"), gone)
    if name == "reduce_window":
        return _pooling(text, shapes)
    if name == "reduce":
        given = _given(text).get("dimensions")
        gone = dimensions_of(text) if given is None else given
        if len(set(gone)) < len(gone) or not set(gone) <= set(range(ranks[0])):
            raise NotMapped("its dimensions are not axes of its operand, each once")
        (every, _) = same_axes(ranks[0], 1)
        kept = [axis for place, axis in enumerate(every) if place not in gone]
        return Structure([every, [], kept], _reduced(text, shapes))
    count = 1 + (name in _BINARY)
    if len(shapes) != count + 1:
        raise NotMapped(f"it has {len(shapes) - 1} operands")
    value = FUNCTIONS[_UNARY.get(name) or _BINARY[name]].make(tuple(map(Read, range(count))))
    return Structure(same_axes(ranks[-1], count), value)


def _pair(pattern: re.Pattern[str], text: str, word: str) -> list[list[int]]:
    """Return the axes of both operands. word: in their names in the generic form."""
    found = pattern.search(text)
    if found is not None:
        return [numbers_of(each) for each in found.groups()]
    given = _given(text)
    return [given.get(f"{side}_{word}_dimensions", []) for side in ("lhs", "rhs")]


def _given(text: str) -> dict[str, list[int]]:
    """Return the lists of integers that attributes give, in either form; a single one stands for all of its tensor."""
    found: dict[str, list[int]] = {}
    for name, *lists, sizes in _GIVEN.findall(text):
        numbers = numbers_of("".join(lists))
        found[name] = numbers * prod(numbers_of(sizes)) if sizes and len(numbers) == 1 else numbers
    return found


def _reduced(text: str, shapes: Sequence[Shape]) -> Expression:
    """Return what a reduction computes; raises NotMapped."""
    found = _REDUCER.search(text) or (_BODY.search(text) if len(_RESULT.findall(text)) == 1 else None)
    word = None if found is None else _REDUCERS.get(found[found.re.groups])
    if word is None or len(shapes) != 3:
        raise NotMapped("it reduces by another operation than add, maximum and minimum")
    return Apply(word, (Read(2), Read(0)))


def _pooling(text: str, shapes: Sequence[Shape]) -> Structure:
    """Return a reduction of windows of the padded image; the scalar that it starts from stands for the window."""
    value, rank = _reduced(text, shapes), len(shapes[0])
    taps, steps = _given(text).get("window_dimensions", []), _window(text, rank)
    if len(taps) != rank or len(shapes[2]) != rank:
        raise NotMapped("its window has another number of axes than its operand")
    whole = [size + sum(steps["pad"][2 * axis : 2 * axis + 2]) for axis, size in enumerate(shapes[0])]
    _check_window(steps, list(zip(whole, taps, shapes[2], strict=True)))
    pairs = enumerate(zip(steps["stride"], steps["rhs_dilate"], strict=True))
    image = " ".join(f"{step}*p{axis}+{far}*r{axis}" for axis, (step, far) in pairs)
    window, places = (" ".join(f"{letter}{axis}" for axis in range(rank)) for letter in "rp")
    return Structure(axes_of(f"{image}, {window} -> {places}"), value, [tuple(whole), tuple(taps), shapes[2]])


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
    given = {_WINDOW.get(name, name): numbers for name, numbers in _given(text).items()}
    turned = re.search(r"(?:reverse|reversal)\s*=\s*(?:\[[^]]*|dense<[^>]*|array<i1:[^>]*)(?:true|1)", text)
    if turned or any(each != 1 for each in given.get("lhs_dilate", [])):
        raise NotMapped("its input is dilated, or its window is turned")
    found = {"stride": [1] * rank, "rhs_dilate": [1] * rank, "pad": [0] * 2 * rank}
    found |= {name: values for name, values in given.items() if name in found}
    is_whole = [len(found[name]) for name in ("stride", "rhs_dilate", "pad")] == [rank, rank, 2 * rank]
    if not is_whole or min(found["pad"], default=0) < 0 or min(found["stride"] + found["rhs_dilate"], default=1) < 1:
        raise NotMapped("negative padding, or numbers that are not those of its axes")
    return found


def _check_window(steps: dict[str, list[int]], sizes: Sequence[tuple[int, ...]]) -> None:
    """Raise NotMapped unless windows fill the result. sizes: of an axis of the padded image, of the window, of the
    result."""
    for (image, taps, places), step, far in zip(sizes, steps["stride"], steps["rhs_dilate"], strict=True):
        if min(image, taps, places) < 0 or places != (image - far * (taps - 1) - 1) // step + 1:
            raise NotMapped("its result has another size than its window says, or a size is dynamic")


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
    at = [[order.index(axis) for order in orders] for axis in spatial]
    for axis, (place, _, _) in enumerate(at):
        whole[0][place] += sum(steps["pad"][2 * axis : 2 * axis + 2])
    _check_window(steps, [tuple(sizes[place] for sizes, place in zip(whole, each, strict=True)) for each in at])
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
