"""The number of distinct elements that a tile touches, exactly: at a storage node, and of whole tensors.

isl counts images of the access relations, axis group by axis group (sizes of axes that share no dim multiply). Reports
and bounds use this for a few tiles each; the cost model counts its tiles by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Access,
    Affine,
    Architecture,
    BudgetError,
    Floor,
    Mapping,
    Operator,
    Statement,
    Temporal,
    Workload,
    accesses_of,
    components,
    dim,
    is_box,
)
from polymap.poly import Set, Table, budget, coalesced, count, function, integer_set, nonnegative
from polymap.schedules import LoopInTree, LoopView, StorageInTree, original_schedule, view_of


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most elements of `tensor` that one instance of `level` holds; None where that is not known.

    node: the position of the storage node in the tree, top to bottom; -1 for the outermost level, which needs no node.
    The tile counted is the first one. It is the largest if every dim runs from 0 to its extent and all accesses to the
    tensor are alike; where that is not so, elements is None.
    """

    node: int
    level: str
    tensor: str
    elements: int | None


def footprints(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Footprint, ...]:
    """Return the footprint of every storage node and tensor, top to bottom, after those of the outermost level (whole
    tensors)."""
    outermost = arch.levels[0].name
    view = view_of(workload.extents(), mapping)
    whole = tuple(Footprint(-1, outermost, name, elements) for name, elements in touched_elements(workload))
    return whole + tuple(
        Footprint(storage.position, storage.node.level, tensor, _tile(workload, arch, view, storage, tensor))
        for storage in view.storages
        if storage.node.level != outermost
        for tensor in storage.node.tensors
    )


def touched_elements(workload: Workload) -> tuple[tuple[str, int | None], ...]:
    """Return (tensor, number of distinct elements that the program touches), in the workload's order."""
    return tuple(
        (tensor.name, _elements(workload, workload.statements, tensor.name, {})) for tensor in workload.tensors
    )


@lru_cache(maxsize=256)
def written_elements(workload: Workload, tensor: str) -> int | None:
    """Return the number of distinct elements of `tensor` that the program writes; None where that is out of reach."""
    targets = _writes_only(workload)
    return _elements(targets, targets.statements, tensor, {})


@lru_cache(maxsize=256)
def elements_read_first(workload: Workload, tensor: str) -> int | None:
    """Return the number of elements of `tensor` that the program reads, or accumulates onto, before any overwrite; of a
    tensor without initial values the first accumulation is none.

    It is the same in every legal order, as no read changes places with a write of its element. None where that is out
    of reach.
    """
    try:
        with budget(what="what a program reads before it writes it"):
            reads, sums, overwrites = _accesses_by_time(workload, tensor)
            axes, times = _axes(reads), tuple(name for name in reads.columns if name.startswith("t"))
            starts = _starts(workload, tensor)
            reads, overwrites = reads.union(sums.minus(starts)), overwrites.union(starts)
            earlier = {name: f"before_{name}" for name in times}
            late = reads.join(overwrites.rename(earlier)).less(tuple(earlier.values()), times)
            return reads.minus(late.keep(reads.columns)).keep(axes).count()
    except BudgetError:
        return None


@lru_cache(maxsize=256)
def elements_summed_first(workload: Workload, tensor: str) -> int | None:
    """Return the number of elements of a tensor without initial values that are accumulated onto before anything else
    touches them: they start at zero. None where that is out of reach."""
    try:
        with budget(what="what a program accumulates onto first"):
            starts = _starts(workload, tensor)
            return starts.keep(_axes(starts)).count()
    except BudgetError:
        return None


def _starts(workload: Workload, tensor: str) -> Table:
    """Return the rows (element, time) of the accumulations that find zero."""
    reads, sums, overwrites = _accesses_by_time(workload, tensor)
    if workload.tensor(tensor).initial or sums.is_empty():
        return Table.empty(sums.columns)
    axes, times = _axes(sums), tuple(name for name in sums.columns if name.startswith("t"))
    others = reads.union(overwrites)
    return sums.union(others).first(axes, times).minus(others)


def _writes_only(workload: Workload) -> Workload:
    """Return the workload with statements that read nothing."""
    return replace(workload, statements=tuple(replace(each, reads=()) for each in workload.statements))


def _axes(table: Table) -> tuple[str, ...]:
    return tuple(name for name in table.columns if name.startswith("axis"))


def _accesses_by_time(workload: Workload, tensor: str) -> tuple[Table, Table, Table]:
    """Return three tables of rows (element, time): reads, accumulations, and overwrites."""
    extents, clocks = workload.extents(), original_schedule(workload)
    longest = max(len(clock) for clock in clocks.values())
    names = (*(f"axis{n}" for n in range(len(workload.tensor(tensor).shape))), *(f"t{n}" for n in range(longest)))
    reads = sums = overwrites = Table.empty(names)
    for statement in workload.statements:
        runs = Table.box([(name, extents[name]) for name in statement.dims], statement.constraints)
        clock = (*clocks[statement.name], *(Affine(),) * (longest - len(clocks[statement.name])))
        for access in dict.fromkeys(statement.reads):
            if access.tensor == tensor:
                reads = reads.union(runs.computed(dict(zip(names, (*access.index, *clock), strict=True))))
        if statement.target.tensor == tensor:
            written = runs.computed(dict(zip(names, (*statement.target.index, *clock), strict=True)))
            if statement.operator is Operator.ASSIGN:
                overwrites = overwrites.union(written)
            else:
                sums = sums.union(written)
    return reads, sums, overwrites


@lru_cache(maxsize=256)
def bits_at_once(workload: Workload, tensors: frozenset[str]) -> int:
    """Return the most bits of these tensors that one statement instance touches: every loop tree holds as much at a
    time.

    Exact for statements with few accesses to one tensor, else a lower bound.
    """
    try:
        with budget(what="what one statement instance touches"):
            return max((_bits_at_once(workload, each, tensors) for each in workload.statements), default=0)
    except BudgetError:
        return 0


def _bits_at_once(workload: Workload, statement: Statement, tensors: frozenset[str]) -> int:
    """Return the most bits over the statement's instances, by cases: each pair of accesses is to one element or to
    two."""
    used = [tensor for tensor in workload.tensors if tensor.name in tensors]
    own = [(tensor.bits, list(dict.fromkeys(accesses_of(statement, tensor.name)))) for tensor in used]
    pairs = [(a, b) for _, accesses in own for a, b in combinations(accesses, 2)]
    extents = workload.extents()
    domain = integer_set(statement.name, [(name, extents[name]) for name in statement.dims], statement.constraints)
    if domain.is_empty():
        return 0
    best = sum(bits for bits, accesses in own if accesses)
    most = sum(bits * len(accesses) for bits, accesses in own)
    # Depth first, "differs" before "equal": where all pairs can differ at one instance, the first leaf is the answer.
    cases: list[tuple[Set, int, frozenset[tuple[Access, Access]]]] = [(domain, 0, frozenset())]
    for _ in range(TUNING.most_ways):
        if not cases or best == most:
            break
        points, number, equal = cases.pop()
        if number == len(pairs):
            best = max(best, sum(bits * _distinct(accesses, equal) for bits, accesses in own))
            continue
        equal_elements = _common_instances(points, *pairs[number])
        apart = points.subtract(equal_elements)
        if not equal_elements.is_empty():
            cases.append((equal_elements, number + 1, equal | {pairs[number]}))
        if not apart.is_empty():
            cases.append((apart, number + 1, equal))
    return best


def _common_instances(points: Set, first: Access, second: Access) -> Set:
    """Return the instances at which two accesses are to one element."""
    for one, other in zip(first.index, second.index, strict=True):
        points = nonnegative(nonnegative(points, one - other), other - one)
    return points


def _distinct(accesses: list[Access], equal: frozenset[tuple[Access, Access]]) -> int:
    """Return the number of distinct elements among accesses, given the pairs that are equal."""
    return sum(
        not any((earlier, access) in equal for earlier in accesses[:place]) for place, access in enumerate(accesses)
    )


def innermost_storages(workload: Workload, arch: Architecture, mapping: Mapping) -> dict[str, StorageInTree]:
    """Return tensor -> its innermost storage node, of the tensors that have one below the outermost level."""
    outermost = arch.levels[0].name
    return {
        tensor: storage
        for storage in view_of(workload.extents(), mapping).storages
        if storage.node.level != outermost
        for tensor in storage.node.tensors
    }


def fixed_dims(arch: Architecture, storage: StorageInTree) -> set[str]:
    """Return the dims over which loops above a storage node, of more than one iteration, choose its tile."""
    return {loop.node.dim for loop in _loops_that_fix(arch, storage) if loop.trips > 1}


def _loops_that_fix(arch: Architecture, storage: StorageInTree) -> tuple[LoopInTree, ...]:
    """Return the loops whose indices choose the tile of a storage node."""
    spread = {fanout.name for fanout in arch.fanouts_above(storage.node.level)}
    return tuple(loop for loop in storage.loops if isinstance(loop.node, Temporal) or loop.node.fanout in spread)


def _tile(workload: Workload, arch: Architecture, view: LoopView, storage: StorageInTree, tensor: str) -> int | None:
    """Return the elements of the first tile: the loops that choose it are at their first iteration, the others run."""
    inside = {each.node.statement for each in view.computes_below(storage)}
    statements = tuple(statement for statement in workload.statements if statement.name in inside)
    different = {access for statement in statements for access in accesses_of(statement, tensor)}
    moves = any(loop.node.dim in index.dims for loop in storage.loops for access in different for index in access.index)
    if not all(is_box(statement) for statement in statements) or (moves and len(different) > 1):
        return None  # the first tile need not be the largest, nor anything but empty
    fixing = _loops_that_fix(arch, storage)
    zero: dict[str, list[Affine]] = {}
    rest: dict[str, Affine] = {}
    for loop in storage.loops:
        name, tile = loop.node.dim, loop.node.tile
        index = rest.get(name, dim(name))
        if loop in fixing:
            zero.setdefault(name, []).append(index * -1 + (tile - 1))
            rest[name] = index
        else:
            rest[name] = index - Affine(((tile, Floor(index, tile)),))
    return _elements(workload, statements, tensor, zero)


def _elements(
    workload: Workload, statements: tuple[Statement, ...], tensor: str, limits: dict[str, list[Affine]]
) -> int | None:
    """Return the number of elements of `tensor` that the statements touch where every expression of `limits` is >=
    0."""
    touching = [statement for statement in statements if accesses_of(statement, tensor)]
    first = touching[0] if touching else None
    accesses = {access for statement in touching for access in accesses_of(statement, tensor)}
    try:
        with budget():
            if first is None:
                return 0
            if len(touching) == 1 and len(accesses) == 1 and is_box(first):
                return _image_size(workload, accesses.pop(), limits)  # any order: it is one
            return _union_size(workload, touching, tensor, limits)
    except BudgetError:
        return None


def _image_size(workload: Workload, access: Access, limits: dict[str, list[Affine]]) -> int:
    """Return the size of one access's image of a box: a product over groups of axes that share dims."""
    total = 1
    extents = workload.extents()
    for axes in components(axis.dims for axis in access.index):
        dims = sorted({name for axis in axes for name in access.index[axis].dims})
        box = integer_set(
            "S", [(name, extents[name]) for name in dims], [c for name in dims for c in limits.get(name, ())]
        )
        total *= count(coalesced(box.apply(function("S", dims, [access.index[axis] for axis in axes]))))
    return total


def _union_size(workload: Workload, touching: list[Statement], tensor: str, limits: dict[str, list[Affine]]) -> int:
    """Return the size of the union of all images."""
    extents = workload.extents()
    images: list[Set] = []
    for statement in touching:
        constraints = [*statement.constraints, *(c for name in statement.dims for c in limits.get(name, ()))]
        domain = integer_set("S", [(name, extents[name]) for name in statement.dims], constraints)
        images += [
            domain.apply(function("S", statement.dims, access.index)) for access in accesses_of(statement, tensor)
        ]
    united = images[0]
    for image in images[1:]:
        united = united.union(image)
    return count(coalesced(united))
