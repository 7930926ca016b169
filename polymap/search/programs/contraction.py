"""A program in the order of one of its fused shapes, its temporary arrays in circular buffers: what fusion saves is
seen where an element of a temporary goes to a cell whose value is no longer needed.

Both steps are decided exactly on all instances. The order of the new text is the fused one, so that a later reuse of a
cell is a dependence of the new program, which every further shape must keep.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from polymap.ir import Access, Affine, Dim, Floor, Statement, Tensor, Workload, affine, substituted
from polymap.search.programs.instances import ASSIGN, READ, Ints, ProgramArrays, arrays_of
from polymap.search.programs.rewriting import with_values
from polymap.search.programs.shapes import Shape
from polymap.search.programs.tuning import TUNING


def contract_arrays(arrays: ProgramArrays, shape: Shape) -> ProgramArrays | None:
    """Return the program in the order of a legal shape, each temporary array in the smallest circular buffer found;
    None where no buffer is smaller than its array. Its source shape is that order."""
    program, smaller = in_order_of(arrays, shape), False
    for tensor in program.workload.tensors:
        if tensor.temporary and not tensor.initial and tensor.name in program.runs:
            moduli = moduli_of(program, tensor)
            if moduli is not None:
                program, smaller = arrays_of(fold_tensor(program.workload, tensor, moduli), program.points), True
    return program if smaller else None


def in_order_of(arrays: ProgramArrays, shape: Shape) -> ProgramArrays:
    """Return the program whose text runs in the order of a shape: a loop over tiles of 8 of `m` is a loop `m_by_8`."""
    workload, extents = arrays.workload, arrays.workload.extents()
    chains: dict[str, set[int]] = {dim: {1} for dim in extents}
    for dim, tile in (loop for loops in shape.loops for loop in loops):
        chains[dim].add(tile)
    names = {(dim, tile): dim if tile == 1 else f"{dim}_by_{tile}" for dim, own in chains.items() for tile in own}
    new: dict[str, int] = {}
    statements: list[Statement] = []
    points: list[Ints] = []
    for name, loops, position in zip(shape.statements, shape.loops, _positions(shape), strict=True):
        number = [each.name for each in workload.statements].index(name)
        own = workload.statements[number]
        single = tuple((dim, 1) for dim in own.dims if extents[dim] == 1)
        values, constraints = dict[str, Affine](), list[Affine]()
        digits: dict[str, Ints] = {}
        for place, dim in enumerate(own.dims):
            rest, size, value = arrays.points[number][place], extents[dim], Affine()
            for tile in (size for each, size in (*loops, *single) if each == dim):
                label = names[dim, tile]
                digits[label], rest = rest // tile, rest % tile
                new[label] = max(new.get(label, 1), -(-size // tile))
                value, size = value + _variable(label) * tile, tile
            values[dim] = value
            constraints += _inside(values[dim], extents[dim], [tile for each, tile in loops if each == dim])
        dims = tuple(names[loop] for loop in (*loops, *single))
        bounds = tuple(each for each in (*(substituted(each, values) for each in own.constraints), *constraints))
        statement = with_values(own, values)
        place = (*position, *(0 for _ in single))
        statements.append(replace(statement, dims=dims, position=place, constraints=tuple(dict.fromkeys(bounds))))
        table = np.stack([digits[each] for each in dims]) if dims else arrays.points[number]
        points.append(table[:, np.lexsort(table[::-1])] if dims else table)
    known = {each.name: each for each in workload.dims}
    same = {name: known[name] for name, extent in new.items() if name in known and known[name].extent == extent}
    dims = tuple(same.get(name, Dim(name, extent)) for name, extent in new.items())
    return arrays_of(replace(workload, dims=dims, statements=tuple(statements)), tuple(points))


def _variable(name: str) -> Affine:
    return affine(((1, name),))


def _inside(value: Affine, extent: int, tiles: list[int]) -> list[Affine]:
    """Return what keeps an index inside its extent, and the index in a tile inside the tile around it, where tiles do
    not divide."""
    found: list[Affine] = []
    for place, tile in enumerate(tiles):
        around = tiles[place - 1] if place else extent
        if around % tile:
            inner = Affine(tuple(value.terms[place:]))
            found.append(-inner + (around - 1))
    return found


def _positions(shape: Shape) -> list[tuple[int, ...]]:
    """Return the textual place of every statement: before each of its loops, and inside the last one."""
    found = [[0] * (len(loops) + 1) for loops in shape.loops]
    for place, apart in enumerate(shape.shared, 1):
        found[place][:apart] = found[place - 1][:apart]
        found[place][apart] = found[place - 1][apart] + 1
    return [tuple(each) for each in found]


def moduli_of(program: ProgramArrays, tensor: Tensor) -> tuple[int, ...] | None:
    """Return moduli of small product by which the tensor may be folded, None where none but its shape is found.

    Axis by axis, from the first and from the last one; each axis as small as the others allow.
    """
    lives = _lifetimes(program, tensor)
    if lives is None:
        return None
    best = tensor.shape
    for axes in (range(len(best)), range(len(best) - 1, -1, -1)):
        moduli = list(tensor.shape)
        for axis in axes:
            for modulus in _choices(tensor.shape[axis]):
                moduli[axis] = modulus
                if _keeps(lives, tensor, moduli):
                    break
        if prod(moduli) < prod(best):
            best = tuple(moduli)
    return None if best == tensor.shape else best


def may_be_folded(program: ProgramArrays, tensor: Tensor, moduli: tuple[int, ...]) -> bool:
    """Return whether a temporary array of the program as it runs loses no value in a circular buffer."""
    lives = _lifetimes(program, tensor)
    return lives is not None and _keeps(lives, tensor, list(moduli))


def _choices(extent: int) -> list[int]:
    """Return moduli to try, smallest first, the extent itself last."""
    found = list(range(1, min(TUNING.small_moduli, extent) + 1))
    while found[-1] < extent:
        found.append(min(2 * found[-1], extent))
    return found


def _lifetimes(program: ProgramArrays, tensor: Tensor) -> tuple[Ints, Ints, Ints] | None:
    """Return the element, the first write and the last access of every value of the tensor; times are 2 * place in the
    program's order, and one later for a write. None where an element is not set before it is used."""
    accesses = program.accesses[tensor.name]
    time = 2 * program.order[accesses.instance].astype(np.int64) + (accesses.kind != READ)
    by = np.lexsort((time, accesses.element))
    element, time, kind = accesses.element[by], time[by], accesses.kind[by]
    starts = np.ones(len(element), dtype=bool)
    starts[1:] = (element[1:] != element[:-1]) | (kind[1:] == ASSIGN)
    begin = np.flatnonzero(starts)
    if (kind[begin] != ASSIGN).any():
        return None
    end = np.append(begin[1:], len(element)) - 1
    return element[begin], time[begin], time[end]


def _keeps(lives: tuple[Ints, Ints, Ints], tensor: Tensor, moduli: list[int]) -> bool:
    """Return whether no value goes to a cell while another one there is still needed."""
    element, begin, end = lives
    index = np.unravel_index(element, tensor.shape)
    cell = np.zeros(len(element), dtype=np.int64)
    for values, low, modulus in zip(index, tensor.origin, moduli, strict=True):
        cell = cell * modulus + (values + low) % modulus
    by = np.lexsort((begin, cell))
    cell, begin, end = cell[by], begin[by], end[by]
    return not bool(((cell[1:] == cell[:-1]) & (begin[1:] <= end[:-1])).any())


def fold_tensor(workload: Workload, tensor: Tensor, moduli: tuple[int, ...]) -> Workload:
    """Return the workload with the tensor in a circular buffer: axis a of its accesses modulo moduli[a]."""
    kept = [modulus == extent for modulus, extent in zip(moduli, tensor.shape, strict=True)]
    origin = tuple(low if keep else 0 for low, keep in zip(tensor.origin, kept, strict=True))
    new = replace(tensor, shape=moduli, origin=origin)

    def moved(access: Access) -> Access:
        if access.tensor != tensor.name:
            return access
        parts = zip(access.index, moduli, kept, strict=True)
        return Access(tensor.name, tuple(each if keep else _modulo(each, modulus) for each, modulus, keep in parts))

    statements = tuple(
        replace(each, target=moved(each.target), reads=tuple(map(moved, each.reads))) for each in workload.statements
    )
    tensors = tuple(new if each.name == tensor.name else each for each in workload.tensors)
    return replace(workload, statements=statements, tensors=tensors)


def _modulo(value: Affine, modulus: int) -> Affine:
    if not value.terms or modulus == 1:
        return Affine((), value.constant % modulus)
    return value - affine(((1, Floor(value, modulus)),)) * modulus
