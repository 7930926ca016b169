"""Products, convolutions, elementwise operations and reductions of StableHLO written as `linalg.generic`.

Padding and groups of convolutions become operations of tensors that compute nothing; line numbers stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

from polymap.importers.linalg_named import accumulation, applied

_VALUE = r"%[\w$.-]+(?:#\d+)?"
_LIST = r"\[([\d,\s]*)\]"
_PAIR = rf"{_LIST}\s*x\s*{_LIST}"
_TENSOR = r"tensor<[^<>]*>"
_TYPES = rf"(?:\{{[^{{}}]*\}}\s*)?:\s*\(({_TENSOR}),\s*({_TENSOR})\)\s*->\s*({_TENSOR})"
_DOT = re.compile(
    rf"(%[\w$.-]+)\s*=\s*stablehlo\.dot_general\s+({_VALUE}),\s*({_VALUE}),\s*(?:batching_dims\s*=\s*{_PAIR},\s*)?"
    rf"contracting_dims\s*=\s*{_PAIR}\s*(?:,\s*precision\s*=\s*\[[^]]*\]\s*)?{_TYPES}"
)
_PLAIN_DOT = re.compile(
    rf"(%[\w$.-]+)\s*=\s*stablehlo\.dot\s+({_VALUE}),\s*({_VALUE})\s*(?:,\s*precision\s*=\s*\[[^]]*\]\s*)?{_TYPES}"
)
_CONVOLUTION = re.compile(
    rf"(%[\w$.-]+)\s*=\s*stablehlo\.convolution\(\s*({_VALUE}),\s*({_VALUE})\)\s*"
    r"dim_numbers\s*=\s*\[([^]]*)\]x\[([^]]*)\]->\[([^]]*)\],\s*window\s*=\s*\{([^{}]*)\}\s*(\{[^{}]*\})?\s*"
    rf":\s*\(({_TENSOR}),\s*({_TENSOR})\)\s*->\s*({_TENSOR})"
)
_ELEMENTWISE = re.compile(
    rf"(%[\w$.-]+)\s*=\s*stablehlo\.(\w+)\s+({_VALUE})(?:,\s*({_VALUE}))?\s*(?:\{{[^{{}}]*\}}\s*)?:\s*({_TENSOR})(?=\s*(?:\n|\Z|\}}))"
)
_REDUCTION = re.compile(
    rf"(%[\w$.-]+)\s*=\s*stablehlo\.reduce\(({_VALUE})\s+init:\s*{_VALUE}\)\s*applies\s+stablehlo\.(\w+)\s+across\s+"
    rf"dimensions\s*=\s*{_LIST}\s*{_TYPES}"
)
_WORDS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max", "minimum": "min",
    "exponential": "math.exp", "log": "math.log", "sqrt": "math.sqrt", "tanh": "math.tanh", "sine": "math.sin",
    "cosine": "math.cos", "abs": "math.absf", "negate": "arith.negf", "floor": "math.floor", "ceil": "math.ceil",
}  # fmt: skip
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
VIEWS = tuple(f"stablehlo.{name}" for name in (
    "reshape", "transpose", "broadcast_in_dim", "constant", "slice", "concatenate", "convert", "iota", "pad", "reverse",
    "dynamic_slice", "dynamic_update_slice", "bitcast_convert", "optimization_barrier",
))  # fmt: skip
"""Operations that compute nothing."""
LAYERS = tuple(f"stablehlo.{name}" for name in ("dot", "dot_general", "convolution", "reduce", *_WORDS))
"""Operations that are one layer, whatever stands in their regions."""


def as_linalg(text: str) -> str:
    """Return the text with the operations of StableHLO that are known as `linalg.generic`; others stay as they are."""
    if "stablehlo." not in text:
        return text
    numbers = count()
    for pattern, written in (
        (_DOT, _dot),
        (_PLAIN_DOT, _plain_dot),
        (_CONVOLUTION, _convolution),
        (_ELEMENTWISE, _elementwise),
        (_REDUCTION, _reduction),
    ):
        text = pattern.sub(lambda found, written=written: _kept(found[0], written(found, next(numbers))), text)
    return text


def _kept(old: str, new: str | None) -> str:
    """Return the new text on as many lines as the old one, which stays where there is no new one."""
    return old if new is None else new + "\n" * old.count("\n")


def _shape(kind: str) -> tuple[list[int], str]:
    """Return sizes (-1 where they are open) and the element type of a tensor."""
    *sizes, element = kind[len("tensor<") : -1].replace(" ", "").split("x")
    return [int(size) if size.isdigit() else -1 for size in sizes], element


def _type(sizes: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' if size >= 0 else '?x' for size in sizes)}{element}>"


def _numbers(text: str | None) -> list[int]:
    return [int(each) for each in re.findall(r"-?\d+", text or "")]


def _generic(
    name: str, result: str, empty: str, maps: Sequence[Sequence[str]], inputs: Sequence[tuple[str, str]], kind: str,
    body: str,
) -> str:  # fmt: skip
    """Return the text of an operation and of the tensor that it writes to. maps: indices of each operand."""
    dims = dict.fromkeys(re.findall(r"[a-z]\d*", " ".join(index for each in (maps[-1], *maps) for index in each)))
    written = [f"affine_map<({', '.join(dims)}) -> ({', '.join(each)})>" for each in maps]
    values, kinds = (", ".join(each[place] for each in inputs) for place in (0, 1))
    head = f'{empty} = "tensor.empty"() : () -> {kind} {result} = linalg.generic'
    maps_text = f"indexing_maps = [{', '.join(written)}], iterator_types = []"
    return (
        f'{head} {{{maps_text}, library_call = "stablehlo.{name}"}} '
        f"ins({values} : {kinds}) outs({empty} : {kind}) {{ {body} }} -> {kind}"
    )


def _product(left: str, right: str, batch: tuple[list[int], list[int]], gone: tuple[list[int], list[int]]) -> (
    list[list[str]] | None
):  # fmt: skip
    """Return the indices of both operands and the result of a product."""
    ranks = [len(_shape(each)[0]) for each in (left, right)]
    if any(len(one) != len(other) for one, other in (batch, gone)):
        return None
    maps: list[list[str]] = []
    for letter, rank, own_batch, own_gone in zip("mn", ranks, batch, gone, strict=True):
        named = {axis: f"b{place}" for place, axis in enumerate(own_batch)}
        named |= {axis: f"k{place}" for place, axis in enumerate(own_gone)}
        if len(named) != len(own_batch) + len(own_gone) or any(axis >= rank for axis in named):
            return None
        maps.append([named.get(axis, f"{letter}{axis}") for axis in range(rank)])
    free = [index for own in maps for index in own if index[0] in "mn"]
    return [*maps, [*(f"b{place}" for place in range(len(batch[0]))), *free]]


def _dot(found: re.Match[str], number: int, name: str = "dot_general") -> str | None:
    result, left, right, *lists, one, other, kind = found.groups()
    axes = [_numbers(each) for each in lists]
    maps = _product(one, other, (axes[0], axes[1]), (axes[2], axes[3]))
    elements = [_shape(each)[1] for each in (one, other, kind)]
    if maps is None or len(maps[2]) != len(_shape(kind)[0]):
        return None
    body = accumulation(elements, "product")
    return _generic(name, result, f"%$e{number}", maps, [(left, one), (right, other)], kind, body)


def _plain_dot(found: re.Match[str], number: int) -> str | None:
    result, left, right, one, other, kind = found.groups()
    last = len(_shape(one)[0]) - 1
    maps = _product(one, other, ([], []), ([last], [0]))
    if maps is None or len(maps[2]) != len(_shape(kind)[0]):
        return None
    body = accumulation([_shape(each)[1] for each in (one, other, kind)], "product")
    return _generic("dot", result, f"%$e{number}", maps, [(left, one), (right, other)], kind, body)


def _window(text: str, rank: int) -> dict[str, list[int]] | None:
    """Return strides, dilations and padding (low and high of each axis); None where the input is dilated or turned."""
    given = {name: _numbers(values) for name, values in re.findall(r"(\w+)\s*=\s*(\[(?:[^][]|\[[^]]*\])*\])", text)}
    turned = re.search(r"reverse\s*=\s*\[[^]]*(?:true|1)", text)
    if turned or any(each != 1 for each in given.get("lhs_dilate", [])):
        return None
    found = {"stride": [1] * rank, "rhs_dilate": [1] * rank, "pad": [0] * 2 * rank}
    found |= {name: values for name, values in given.items() if name in found}
    is_whole = [len(found[name]) for name in ("stride", "rhs_dilate", "pad")] == [rank, rank, 2 * rank]
    return found if is_whole and min(found["pad"], default=0) >= 0 else None


def _orders(found: Sequence[str], shapes: Sequence[list[int]]) -> list[list[str]] | None:
    """Return the words of the axes of image, filters and result; None where they are not those of the tensors."""
    orders = [[word.strip() for word in each.split(",")] for each in found]
    spatial = [str(axis) for axis in range(len(orders[0]) - 2)]
    known = [sorted((*letters, *spatial)) for letters in ("bf", "io", "bf")]
    ranks = [len(each) for each in shapes]
    return orders if [sorted(each) for each in orders] == known and ranks == [len(each) for each in known] else None


def _words(steps: dict[str, list[int]]) -> list[dict[str, str]]:
    """Return the index of each word of image, filters and result."""
    pairs = enumerate(zip(steps["stride"], steps["rhs_dilate"], strict=True))
    windows = {str(axis): f"{step} * p{axis} + {far} * r{axis}" for axis, (step, far) in pairs}
    taps, places = ({axis: f"{letter}{axis}" for axis in windows} for letter in "rp")
    return [{"b": "b", "f": "c", **windows}, {"i": "c", "o": "k", **taps}, {"b": "b", "f": "k", **places}]


def _convolution(found: re.Match[str], number: int) -> str | None:
    """Return a convolution; its operands padded and split into groups by operations that compute nothing."""
    result, left, right, *named, window, attributes, one, other, kind = found.groups()
    shapes, elements = zip(*(_shape(each) for each in (one, other, kind)), strict=True)
    orders = _orders(named, shapes)
    counts = dict(re.findall(r"(\w+)_group_count\s*=\s*(\d+)", attributes or ""))
    group = int(counts.get("feature", 1))
    steps = None if orders is None else _window(window, len(orders[0]) - 2)
    if orders is None or steps is None or counts.get("batch", "1") != "1" or any(-1 in each for each in shapes):
        return None
    padded = list(shapes[0])
    for axis, pads in enumerate(zip(steps["pad"][::2], steps["pad"][1::2], strict=True)):
        padded[orders[0].index(str(axis))] += sum(pads)
        image, taps, places = (
            own[order.index(str(axis))] for order, own in zip(orders, (padded, *shapes[1:]), strict=True)
        )
        reach = steps["rhs_dilate"][axis] * (taps - 1) + 1
        if places != (image - reach) // steps["stride"][axis] + 1:
            return None
    maps: list[list[str]] = []
    kinds: list[str] = []
    for order, sizes, letter, words, element in zip(
        orders, (padded, *shapes[1:]), "fof", _words(steps), elements, strict=True
    ):
        place = order.index(letter)
        if group < 1 or sizes[place] % group:
            return None
        maps.append([words[each] for each in order])
        parts = list(sizes)
        if group > 1:
            maps[-1].insert(place, "g")
            parts[place : place + 1] = [group, sizes[place] // group]
        kinds.append(_type(parts, element))
    before: list[str] = []
    used: list[tuple[str, str]] = []
    for view, value, given, made in zip(
        (f"%$v{number}", f"%$w{number}"), (left, right), (one, other), kinds, strict=False
    ):
        is_same = given.replace(" ", "") == made
        used.append((value if is_same else view, made))
        before += [] if is_same else [f'{view} = "tensor.padded"({value}) : ({given}) -> {made}']
    target = result if group == 1 else f"%$o{number}"
    body = accumulation(list(elements), "product")
    made = _generic("convolution", target, f"%$e{number}", maps, used, kinds[2], body)
    after = [] if group == 1 else [f'{result} = "tensor.joined"({target}) : ({kinds[2]}) -> {kind}']
    return " ".join((*before, made, *after))


def _reduction(found: re.Match[str], number: int) -> str | None:
    result, value, name, axes, one, _, kind = found.groups()
    sizes, element = _shape(one)
    index = [f"d{axis}" for axis in range(len(sizes))]
    kept = [each for axis, each in enumerate(index) if axis not in _numbers(axes)]
    if name not in ("add", "maximum", "minimum") or len(kept) != len(_shape(kind)[0]):
        return None
    body = f"^bb0(%$x0: {element}, %$x1: {element}): {applied(_WORDS[name], 2, element)}linalg.yield %$s : {element}"
    return _generic("reduce", result, f"%$e{number}", [index, kept], [(value, one)], kind, body)


def _elementwise(found: re.Match[str], number: int) -> str | None:
    result, name, one, other, kind = found.groups()
    sizes, element = _shape(kind)
    if name not in _WORDS or (other is not None) != (name in _BINARY) or -1 in sizes:
        return None
    inputs = [(each, kind) for each in (one, other) if each is not None]
    index = [f"d{axis}" for axis in range(len(sizes))]
    arguments = ", ".join(f"%$x{place}: {element}" for place in range(len(inputs)))
    body = (
        f"^bb0({arguments}, %$z: {element}): {applied(_WORDS[name], len(inputs), element)}linalg.yield %$s : {element}"
    )
    return _generic(name, result, f"%$e{number}", [index] * (len(inputs) + 1), inputs, kind, body)
