"""Operations of MLIR that index each operand by affine maps, as loop nests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from polymap.importers.calls import NotMapped, Shape
from polymap.ir import Apply, Expression, Number, Read, subexpressions, with_parts
from polymap.networks import Part
from polymap.workload import einsum

Axis = dict[int, int]
"""The multiples of dims that index an axis; {} is the constant 0."""
_TERM = re.compile(r"(?:(-?\d+)\*)?([a-z]\d*)")
_ACCUMULATIONS = {"+": "+=", "max": "max=", "min": "min="}


class Structure(NamedTuple):
    """What a structured operation computes. axes: of each operand, the result last; value: over Read(operand), the
    result where it accumulates; shapes: of the operands where they differ from those of the values, -1 for an open
    size."""

    axes: list[list[Axis]]
    value: Expression
    shapes: list[Shape] | None = None


def axes_of(spec: str) -> list[list[Axis]]:
    """Return the axes that a text such as "n 2*p+r c, r c k -> n p k" says: the result's dims come first."""
    operands, _, result = spec.partition("->")
    numbers = {
        letter: place for place, letter in enumerate(dict.fromkeys(re.findall(r"[a-z]\d*", f"{result} {operands}")))
    }

    def axis(text: str) -> Axis:
        return {numbers[letter]: int(factor or 1) for factor, letter in _TERM.findall(text)}

    return [[axis(each) for each in access.split()] for access in (*operands.split(","), result)]


def axes_of_maps(maps: Sequence[Any]) -> list[list[Axis]]:
    """Return the axes of affine maps of xdsl; raises NotMapped."""
    found = [[_axis(result) for result in each.results] for each in maps]
    if len({dim for axes in found for axis in axes for dim in axis}) < maps[0].num_dims:
        raise NotMapped("a dim that no axis has alone, so that its size is unknown")
    return found


def same_axes(rank: int, operands: int) -> list[list[Axis]]:
    """Return the axes of an elementwise operation of so many operands."""
    return [[{dim: 1} for dim in range(rank)]] * (operands + 1)


def product(factors: int = 2) -> Expression:
    """Return what an accumulation of products computes."""
    return Apply("+", (Read(factors), Apply("*", tuple(map(Read, range(factors))))))


def _axis(expression: Any) -> Axis:
    kind = type(expression).__name__
    if kind == "AffineDimExpr":
        return {expression.position: 1}
    if kind == "AffineConstantExpr" and expression.value == 0:
        return {}
    if kind == "AffineBinaryOpExpr" and expression.kind.name == "Add":
        left, right = _axis(expression.lhs), _axis(expression.rhs)
        return {dim: left.get(dim, 0) + right.get(dim, 0) for dim in (*left, *right)}
    if kind == "AffineBinaryOpExpr" and expression.kind.name == "Mul" and hasattr(expression.rhs, "value"):
        return {dim: factor * expression.rhs.value for dim, factor in _axis(expression.lhs).items()}
    raise NotMapped(f"the index {expression}: only sums of multiples of dims are read")


def extents_of(axes: Sequence[Sequence[Axis]], shapes: Sequence[Shape], advice: str) -> list[int]:
    """Return the extent of each dim, from an axis that it alone indexes; raises NotMapped. advice: how to give a size
    that is open."""
    count = len({dim for indices in axes for axis in indices for dim in axis})
    sizes: dict[int, int] = {}
    is_open = any(size < 1 for shape in shapes for size in shape)
    for indices, shape in zip(axes, shapes, strict=True):
        for axis, size in zip(indices, shape, strict=False):
            if len(axis) != 1 or 1 not in axis.values() or size == -1:
                continue
            dim = next(iter(axis))
            if sizes.setdefault(dim, size) != size:
                raise NotMapped(f"its operands give one dim the sizes {sizes[dim]} and {size}")
    if is_open and (len(sizes) < count or 0 in sizes.values()):
        raise NotMapped(f"a dynamic size, or a tensor without elements{advice}")
    if len(sizes) < count:
        raise NotMapped("a dim that no axis has alone, so that its size is unknown")
    for indices, shape in zip(axes, shapes, strict=True):
        if len(indices) != len(shape):
            raise NotMapped(f"an indexing map of {len(indices)} results for a tensor of {len(shape)} axes")
        for axis, size in zip(indices, shape, strict=True):
            ends = [factor * (sizes[dim] - 1) for dim, factor in axis.items()]
            low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
            if low < 0 or high >= size >= 0:
                raise NotMapped(f"an index runs from {low} to {high} on an axis of {size} elements")
    return [sizes[dim] for dim in range(count)]


def nest_of(
    name: str, axes: list[list[Axis]], sizes: list[int], value: Expression, bits: Sequence[int]
) -> tuple[Part, list[int]]:
    """Return the loop nest of an operation, and which operands it reads; raises NotMapped. bits: of each operand."""
    count = len(axes) - 1
    used = _reads(value)
    operator, has_result = "+=", count in used
    if has_result:
        operator, value = _accumulation(value, count)
    elif any(size > 1 for dim, size in enumerate(sizes) if all(dim not in axis for axis in axes[count])):
        raise NotMapped("a reduction whose body does not read the result")
    reads = [each for each in dict.fromkeys(used) if each != count]
    if not reads:
        raise NotMapped("no tensor is read")
    dims = {dim for place in (*reads, count) for axis in axes[place] for dim in axis}
    if any(size > 1 and dim not in dims for dim, size in enumerate(sizes)):
        raise NotMapped("a dim that no access of the body uses")
    made = einsum(
        f"{_access(count, axes)} {operator} {' * '.join(_access(place, axes) for place in reads)}",
        sizes={f"d{dim}": sizes[dim] for dim in sorted(dims)},
        bits={f"T{place}": bits[place] for place in (*reads, count)},
        name=name,
    )
    expression = _renumbered(value, {place: number for number, place in enumerate(reads)})
    statement = replace(made.statements[0], expression=expression)
    scalars = [place for place in reads if not axes[place]]  # zero points
    is_product = operator == "+=" and has_result and _is_product(value, scalars) and len(reads) > len(scalars) + 1
    return Part(replace(made, statements=(statement,)), is_product), reads


def _accumulation(value: Expression, result: int) -> tuple[str, Expression]:
    """Return the operator of an accumulation, and what it accumulates."""
    if not isinstance(value, Apply) or value.operation not in _ACCUMULATIONS or Read(result) not in value.arguments:
        raise NotMapped("the body is no accumulation")
    rest = [each for each in value.arguments if each != Read(result)]
    if len(rest) != 1 or result in _reads(rest[0]):
        raise NotMapped("the body reads the result twice")
    return _ACCUMULATIONS[value.operation], rest[0]


def _reads(value: Expression) -> list[int]:
    return [each.access for each in subexpressions(value) if isinstance(each, Read)]


def _access(place: int, axes: list[list[Axis]]) -> str:
    texts = [" + ".join(f"{factor}*d{dim}" for dim, factor in axis.items()) for axis in axes[place] if axis]
    return f"T{place}[{', '.join(texts)}]"


def _renumbered(value: Expression, places: dict[int, int]) -> Expression:
    if isinstance(value, Read):
        return Read(places[value.access])
    return with_parts(value, lambda part: _renumbered(part, places))


def _is_product(value: Expression, scalars: list[int]) -> bool:
    """Return whether a value is a product of reads, each less a scalar or not (of quantised operands)."""
    match value:
        case Read():
            return True
        case Apply("*", arguments):
            return all(_is_product(each, scalars) for each in arguments)
        case Apply("-", (Read(_), right)):
            return isinstance(right, Number) or (isinstance(right, Read) and right.access in scalars)
        case _:
            return False
