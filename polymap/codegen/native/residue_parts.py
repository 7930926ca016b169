"""Transposed convolutions as ordinary ones, a workload for each residue of its output's positions.

O[2*p+r] += I[p] * W[r] writes each element in several iterations of p. Output x of residue a, O[2*x+a], reads the taps
r = 2*u + a alone: O[2*x+a] += I[x+t-(U-1)] * W[2*(U-1-t)+a], with zeros beside I, for U taps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from polymap.codegen.native.tuning import TUNING
from polymap.ir import Access, Affine, Dim, Operator, Statement, Workload, dim, with_indices


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the output that is written at `stride * out + tap`."""

    number: int
    out: str
    tap: str
    stride: int


def residues(workload: Workload) -> tuple[Workload, ...]:
    """Return the workloads whose outputs together are that of a transposed convolution, on the same arrays; () where
    it is none, or has more than its text may hold, or one with a sum that may not change its order."""
    if len(workload.statements) != 1 or workload.original is not None or workload.bare is not None:
        return ()
    (statement,) = workload.statements
    is_sum = statement.operator is Operator.ADD and workload.associative and not statement.constraints
    axes = _axes(workload, statement) if is_sum else None
    if not axes or not _is_whole(workload, statement, axes):
        return ()
    found = [_of_residue(workload, axes, each) for each in product(*(range(axis.stride) for axis in axes))]
    return tuple(found) if len(found) <= TUNING.most_residues else ()


def _axes(workload: Workload, statement: Statement) -> list[_Axis] | None:
    """Return the axes of the output with two dims; None where another has no dim of its own."""
    found: list[_Axis] = []
    for number, index in enumerate(statement.target.index):
        factors = index.coefficients() if index.is_linear and not index.constant else {}
        if len(index.dims) < 2:
            continue
        extents = workload.extents()
        tap = min(factors, key=lambda name: (factors[name], extents[name]), default="")
        if len(factors) != 2 or factors[tap] != 1:
            return None
        (out,) = set(factors) - {tap}
        found.append(_Axis(number, out, tap, factors[out]))
    dims = [name for index in statement.target.index for name in index.dims]
    return found if len(set(dims)) == len(dims) else None


def _is_whole(workload: Workload, statement: Statement, axes: list[_Axis]) -> bool:
    """Return whether every element of the output has a tap, and every operand has the dims of an axis alone, and
    nothing beside their indices."""
    extents, target = workload.extents(), workload.tensor(statement.target.tensor)
    for axis in axes:
        size = axis.stride * (extents[axis.out] - 1) + extents[axis.tap]
        if not 0 < axis.stride <= extents[axis.tap] or target.shape[axis.number] != size:
            return False
        for access in statement.reads:
            tensor = workload.tensor(access.tensor)
            for index, length, low in zip(access.index, tensor.shape, tensor.origin, strict=True):
                for name in sorted({axis.out, axis.tap} & set(index.dims)):
                    if index != dim(name) or length != extents[name] or low:
                        return False
    return not any(target.origin)


def _of_residue(workload: Workload, axes: list[_Axis], residue: tuple[int, ...]) -> Workload:
    """Return the ordinary convolution for the output's elements of one residue."""
    extents, (statement,) = workload.extents(), workload.statements
    values: dict[str, Affine] = {}
    constraints: list[Affine] = []
    index, sizes = list(statement.target.index), dict(extents)
    for axis, at in zip(axes, residue, strict=True):
        taps = len(range(at, extents[axis.tap], axis.stride))
        sizes[axis.out] += taps - 1
        index[axis.number] = dim(axis.out) * axis.stride + at
        if taps == 1:
            del sizes[axis.tap]
            values[axis.tap] = Affine((), at)
            continue
        sizes[axis.tap] = taps
        values[axis.tap] = dim(axis.tap) * -axis.stride + (axis.stride * (taps - 1) + at)
        values[axis.out] = dim(axis.out) + dim(axis.tap) - (taps - 1)
        constraints += [values[axis.out], -values[axis.out] + (extents[axis.out] - 1)]
    own = replace(
        with_indices(statement, values),
        target=Access(statement.target.tensor, tuple(index)),
        dims=tuple(name for name in statement.dims if name in sizes),
        position=statement.position[: sum(name in sizes for name in statement.dims) + 1],
        constraints=tuple(constraints),
    )
    dims = tuple(Dim(each.name, sizes[each.name]) for each in workload.dims if each.name in sizes)
    return replace(workload, dims=dims, statements=(own,))
