"""Named operations of linalg by the indices of their operands, as MLIR defines them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from polymap.importers.calls import NotMapped
from polymap.importers.functions import FUNCTIONS
from polymap.importers.index_maps import Structure, axes_of, axes_of_maps, product, same_axes
from polymap.ir import Apply, Expression, Read

# Indices of each operand, the result last.
_PRODUCTS = {
    "dot": "m, m -> ",
    "matvec": "m n, n -> m",
    "vecmat": "m, m n -> n",
    "batch_matvec": "b m n, b n -> b m",
    "batch_vecmat": "b m, b m n -> b n",
    "matmul": "m k, k n -> m n",
    "matmul_transpose_a": "k m, k n -> m n",
    "matmul_transpose_b": "m k, n k -> m n",
    "batch_matmul": "b m k, b k n -> b m n",
    "batch_matmul_transpose_a": "b k m, b k n -> b m n",
    "batch_matmul_transpose_b": "b m k, b n k -> b m n",
    "batch_reduce_matmul": "b m k, b k n -> m n",
    "mmt4d": "m k x z, n k y z -> m n x y",
    "batch_mmt4d": "b m k x z, b n k y z -> b m n x y",
    "conv_1d": "p+r, r -> p",
    "conv_2d": "p+r q+s, r s -> p q",
    "conv_3d": "p+r q+s o+t, r s t -> p q o",
}
_WINDOW = re.compile(
    r"(?:(depthwise_)?conv_[123]d_([ngcdhw]+)_([gfcdhwm]+)|pooling_([ncdhw]+)_(sum|max|min)(?:_unsigned)?)"
)
_UNARY = {"abs": "fabs", "negf": "negate"} | {
    name: name
    for name in ("ceil", "floor", "tanh", "erf", "rsqrt", "reciprocal", "square", "exp", "log", "sqrt")
}  # fmt: skip
_BINARY = {"div": "divide", "div_unsigned": "divide", "powf": "power", "add": "add", "sub": "subtract",
           "mul": "multiply", "max": "max", "min": "min", "max_signed": "max", "min_signed": "min"}  # fmt: skip
_WITH_BODIES = ("reduce", "map")
_MOVES = ("strides", "dilations")
_STEPS = re.compile(r"\b(strides|dilations)\s*=\s*dense<\s*(\[[^]]*\]|-?\d+)\s*>")
_DIMENSION = re.compile(r"\bdimensions?\s*(?:=\s*\[([^]]*)\]|\(\s*(\d+)\s*\))")
_KIND = re.compile(r"\bkind\s*=\s*#linalg\.elementwise_kind<(\w+)>")
_WORD = re.compile(r"\{\s*((?:arith|math)\.\w+)")


def is_named(name: str) -> bool:
    """Whether the structure of an operation is known by its name, without the dialect."""
    beside = (*_WITH_BODIES, "softmax", "contract", "elementwise")
    return name in beside or any(name in each for each in (_PRODUCTS, _UNARY, _BINARY)) or _is_windowed(name)


def numbers_of(text: str) -> list[int]:
    """Return the integers in a text."""
    return [int(each) for each in re.findall(r"-?\d+", text)]


def dimensions_of(text: str) -> list[int]:
    """Return the axes that attributes name; raises NotMapped where they name none."""
    found = _DIMENSION.search(text)
    if found is None:
        raise NotMapped("no dimensions are given")
    return numbers_of(found[1] or found[2] or "")


def structure_of(
    name: str, text: str, maps: Sequence[Any], ranks: Sequence[int], body: Callable[[str], Expression]
) -> Structure:
    """Return what an operation computes; raises NotMapped.

    text: its attributes; maps: those of `indexing_maps`; ranks: of the operands, the result last; body: returns what
    its body computes, or an operation of this name ("" for the body).
    """
    count = len(ranks) - 1
    kind = _KIND.search(text)
    name = kind[1] if name == "elementwise" and kind is not None else name
    given = axes_of_maps(maps) if maps else None
    if name in _WITH_BODIES:
        word = _WORD.search(text)
        axes = same_axes(ranks[0], count)
        if name == "reduce":
            gone = dimensions_of(text)
            axes[count] = [axis for place, axis in enumerate(axes[count]) if place not in gone]
        value = body("" if word is None else word[1])
    elif name in _UNARY or name in _BINARY:
        if count != 1 + (name in _BINARY):
            raise NotMapped(f"it has {count} operands")
        axes = given or same_axes(ranks[count], count)
        value = FUNCTIONS[_UNARY.get(name) or _BINARY[name]].make(tuple(map(Read, range(count))))
    else:
        axes = given or axes_of(_PRODUCTS.get(name) or _windowed(name, text))
        pool = _WINDOW.fullmatch(name)
        kind = pool[5] if pool is not None else None
        value = product() if kind is None else Apply("+" if kind == "sum" else kind, (Read(2), Read(0)))
    if len(axes) != len(ranks):
        raise NotMapped(f"it has {count} operands")
    return Structure(axes, value)


def _is_windowed(name: str) -> bool:
    found = _WINDOW.fullmatch(name)
    return found is not None and (found[3] is None or _spatial(found[2]) == _spatial(found[3]))


def _spatial(letters: str) -> set[str]:
    return {letter for letter in letters if letter in "dhw"}


def _windowed(name: str, text: str) -> str:
    """Return the indices of a convolution or pooling, whose name says the axes of its operands."""
    found = _WINDOW.fullmatch(name)
    if found is None:
        raise NotMapped("its indexing maps are not given")
    depthwise, image, taps, pooled, _ = found.groups()
    image = image or pooled
    axes = [letter for letter in image if letter in "dhw"]
    taps = taps or "".join(axes)
    steps = {word: numbers_of(values) for word, values in _STEPS.findall(text)}
    moves = [steps.get(word, [1]) for word in _MOVES]
    moves = [each * len(axes) if len(each) == 1 else each for each in moves]
    if any(len(each) != len(axes) for each in moves) or any(word in text and word not in steps for word in _MOVES):
        raise NotMapped("its strides or dilations are not one number for each axis")
    windows = [f"{step}*{place}+{far}*{tap}" for place, tap, step, far in zip("pqo", "rst", *moves, strict=False)]

    def indices(letters: str, spatial: Sequence[str], channels: dict[str, str]) -> str:
        of = channels | dict(zip(axes, spatial, strict=False))
        return " ".join(of.get(letter, letter) for letter in letters)

    result = indices(image, "pqo", {} if depthwise or pooled else {"c": "k"}) + (" m" if "m" in taps else "")
    return f"{indices(image, windows, {})}, {indices(taps, 'rst', {'f': 'k'})} -> {result}"
