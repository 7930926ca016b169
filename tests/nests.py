"""Small loop nests with known dependences, and a referee that finds dependences by running them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from polymap.ir.loopnest import (
    Access,
    Dim,
    Number,
    Operator,
    Role,
    Statement,
    Tensor,
    Workload,
)
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import Affine, dim

Instance = tuple[str, tuple[int, ...]]
Pair = tuple[str, str, str, str, tuple[int, ...], tuple[int, ...]]


def at(tensor: str, *index: Affine | str | int) -> Access:
    """Return an access; an index is a dim's name, an integer or an expression."""
    parts = (
        dim(each) if isinstance(each, str) else Affine((), each) if isinstance(each, int) else each for each in index
    )
    return Access(tensor, tuple(parts))


def statement(
    dims: str,
    target: Access,
    reads: list[Access],
    operator: Operator = Operator.ADD,
    *,
    name: str = "S",
    constraints: tuple[Affine, ...] = (),
    position: tuple[int, ...] | None = None,
) -> Statement:
    names = tuple(dims)
    place = position or (0,) * (len(names) + 1)
    return Statement(name, names, constraints, target, operator, tuple(reads), Number("1"), place)


def workload(extents: dict[str, int], *statements: Statement, associative: bool = True) -> Workload:
    """Return a workload of these statements; the tensors' shapes are left out (dependences do not look at them)."""
    names = dict.fromkeys(access.tensor for each in statements for access in (each.target, *each.reads))
    tensors = tuple(Tensor(name, (), (), 8, Role.INPUT) for name in names)
    dims = tuple(Dim(name, extent) for name, extent in extents.items())
    return Workload("nest", dims, tensors, statements, associative)


def cube(dims: str, extent: int = 4) -> dict[str, int]:
    return dict.fromkeys(dims, extent)


def stencil(dims: str, offsets: list[tuple[int, ...]], extent: int = 5, *, in_time: bool = False) -> Workload:
    """Return a[x] = f(a[x + offset], ...) over the dims, the first of which is time (in no index) if `in_time`."""
    space = dims[1:] if in_time else dims
    reads = [at("a", *(dim(name) + shift for name, shift in zip(space, offset, strict=True))) for offset in offsets]
    return workload(cube(dims, extent), statement(dims, at("a", *space), reads, Operator.ASSIGN))


def convolution(extent: int = 4) -> Workload:
    p, q, r, s = (dim(name) for name in "pqrs")
    reads = [at("I", "n", "c", p + r, q + s), at("W", "k", "c", "r", "s")]
    return workload(cube("nkcpqrs", extent), statement("nkcpqrs", at("O", "n", "k", "p", "q"), reads))


def depthwise(dims: str) -> Workload:
    p, q, r, s = (dim(name) for name in "pqrs")
    batch = ["n"] if "n" in dims else []
    reads = [at("I", *batch, "g", p + r, q + s), at("W", "g", "r", "s")]
    return workload(cube(dims), statement(dims, at("O", *batch, "g", "p", "q"), reads))


def matmul() -> Workload:
    return workload(cube("ijk"), statement("ijk", at("C", "i", "j"), [at("A", "i", "k"), at("B", "k", "j")]))


def mttkrp() -> Workload:
    reads = [at("B", "i", "k", "l"), at("D", "l", "j"), at("C", "k", "j")]
    return workload(cube("ijkl"), statement("ijkl", at("A", "i", "j"), reads))


def floyd_warshall() -> Workload:
    reads = [at("p", "i", "j"), at("p", "i", "k"), at("p", "k", "j")]
    return workload(cube("kij"), statement("kij", at("p", "i", "j"), reads, Operator.ASSIGN))


def two_reductions() -> Workload:
    """Two statements in one nest: a product of sums and a maximum, each over other loops."""
    return workload(
        cube("ijk"),
        statement("ijk", at("s", "i"), [at("A", "i", "j", "k")], Operator.MULTIPLY, name="S0", position=(0, 0, 0, 0)),
        statement("ijk", at("m", "k"), [at("A", "i", "j", "k")], Operator.MAX, name="S1", position=(0, 0, 0, 1)),
    )


# name -> (workload, legal orders with the order of accumulations kept, legal orders when it may change)
NESTS: dict[str, tuple[Workload, int, int]] = {
    "matmul": (matmul(), 6, 6),
    "mttkrp": (mttkrp(), 12, 24),
    "depthwise over g,p,q,r,s": (depthwise("gpqrs"), 60, 120),
    "a[i][j] = a[i-1][j+1]": (stencil("ij", [(-1, 1)]), 1, 1),
    "a[i][j] = a[i-1][j]": (stencil("ij", [(-1, 0)]), 2, 2),
    "anti-dependence a[i][j] = a[i+1][j-1]": (stencil("ij", [(1, -1)]), 1, 1),
    "negative distances a[i][j][k] = a[i-1][j+2][k+1]": (stencil("ijk", [(-1, 2, 1)]), 2, 2),
    "anti and flow a[i][j][k] = a[i+1][j-1][k] + a[i][j-1][k+1]": (stencil("ijk", [(1, -1, 0), (0, -1, 1)]), 1, 1),
    "floyd-warshall": (floyd_warshall(), 2, 2),
    "gauss-seidel, 5 points, in time": (
        stencil("tij", [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)], in_time=True),
        2,
        2,
    ),
    "gauss-seidel, 9 points, in time": (stencil("tij", list(product((-1, 0, 1), repeat=2)), in_time=True), 1, 1),
    "in-place heat, 1-d in time": (stencil("ti", [(-1,), (0,), (1,)], in_time=True), 1, 1),
    "copy, no dependence": (
        workload(cube("ijk"), statement("ijk", at("b", "i", "j", "k"), [at("a", "k", "j", "i")], Operator.ASSIGN)),
        6,
        6,
    ),
    "every iteration writes one scalar": (
        workload(cube("ij"), statement("ij", at("s"), [at("a", "i", "j")], Operator.ASSIGN)),
        1,
        1,
    ),
    "sum of all": (workload(cube("ijk"), statement("ijk", at("s"), [at("a", "i", "j", "k")])), 1, 6),
    "prefix sums b[i] += b[i-1] * a[j]": (
        workload(cube("ij"), statement("ij", at("b", "i"), [at("b", dim("i") - 1), at("a", "j")])),
        1,
        1,
    ),
    "two reductions": (two_reductions(), 1, 6),
}  # fmt: skip


# --- the referee: runs the program and remembers who touched what ---


def instances(work: Workload) -> list[tuple[Statement, tuple[int, ...]]]:
    """Return all statement instances in program order: statements by position, loops by counter."""
    extents = work.extents()
    found: list[tuple[tuple[int, ...], Statement, tuple[int, ...]]] = []
    for each in work.statements:
        for point in product(*(range(extents[name]) for name in each.dims)):
            values = dict(zip(each.dims, point, strict=True))
            if all(constraint.evaluate(values) >= 0 for constraint in each.constraints):
                clock: list[int] = []
                for place, counter in zip(each.position, point, strict=False):
                    clock += [place, counter]
                found.append(((*clock, each.position[-1]), each, point))
    return [(each, point) for _, each, point in sorted(found, key=lambda entry: entry[0])]


def touched(each: Statement, point: tuple[int, ...]) -> list[tuple[tuple[str, tuple[int, ...]], bool, bool]]:
    """Return (element, is read, is written) of each access of an instance."""
    values = dict(zip(each.dims, point, strict=True))

    def element(access: Access) -> tuple[str, tuple[int, ...]]:
        return access.tensor, tuple(index.evaluate(values) for index in access.index)

    accumulates = each.operator is not Operator.ASSIGN
    return [*((element(read), True, False) for read in each.reads), (element(each.target), accumulates, True)]


def referee_pairs(work: Workload) -> set[Pair]:
    """Return every (source, sink, kind, tensor, source point, sink point) by looking at all pairs of instances."""
    order = instances(work)
    accesses = [touched(each, point) for each, point in order]
    pairs: set[Pair] = set()
    for late, (sink, sink_point) in enumerate(order):
        for early, (source, source_point) in enumerate(order[:late]):
            for element, was_read, was_written in accesses[early]:
                for other, is_read, is_written in accesses[late]:
                    if element != other:
                        continue
                    both = was_written and is_written and was_read and is_read
                    if both and source.operator is sink.operator:
                        kinds = ["reduction"]
                    else:
                        kinds = ["flow"] * (was_written and is_read) + ["anti"] * (was_read and is_written)
                        kinds += ["output"] * (was_written and is_written)
                    pairs |= {(source.name, sink.name, k, element[0], source_point, sink_point) for k in kinds}
    return pairs


def referee_flow(work: Workload) -> set[Pair]:
    """Return (writer, reader) of every value: the last write before each read."""
    last: dict[tuple[str, tuple[int, ...]], Instance] = {}
    pairs: set[Pair] = set()
    for each, point in instances(work):
        for element, is_read, _ in touched(each, point):
            if is_read and element in last:
                name, at_point = last[element]
                pairs.add((name, each.name, "flow", element[0], at_point, point))
        for element, _, is_written in touched(each, point):
            if is_written:
                last[element] = (each.name, point)
    return pairs


def steps(work: Workload, mapping: Mapping) -> dict[Instance, tuple[int, ...]]:
    """Return the step in which each instance runs, by running the loop tree (spatial siblings in one step)."""
    extents = work.extents()
    found: dict[Instance, tuple[int, ...]] = {}

    def run(nodes: tuple[MappingNode, ...], clock: tuple[int, ...], low: dict[str, int], size: dict[str, int]) -> None:
        node, rest = nodes[0], nodes[1:]
        match node:
            case Storage():
                run(rest, clock, low, size)
            case Compute(name):
                each = work.statement(name)
                if all(low[other] == 0 for other in low if other not in each.dims):
                    values = {other: low[other] for other in each.dims}
                    if all(constraint.evaluate(values) >= 0 for constraint in each.constraints):
                        found[name, tuple(values.values())] = clock
            case Branch(children):
                for number, child in enumerate(children):
                    run(child, (*clock, number), low, size)
            case Temporal(name, tile) | Spatial(name, tile, _):
                end = min(low[name] + size[name], extents[name])
                for number, start in enumerate(range(low[name], end, tile)):
                    tick = (*clock, number) if isinstance(node, Temporal) else clock
                    run(rest, tick, {**low, name: start}, {**size, name: min(tile, size[name])})

    run(mapping.nodes, (), dict.fromkeys(extents, 0), extents)
    return found


def broken_pairs(work: Workload, mapping: Mapping, *, strict: bool) -> set[Pair]:
    """Return the dependences that the mapping breaks, by running it."""
    when = steps(work, mapping)
    relaxed = work.associative and not strict
    return {
        pair
        for pair in referee_pairs(work)
        if not (relaxed and pair[2] == "reduction") and not when[pair[0], pair[4]] < when[pair[1], pair[5]]
    }


def orders_that_keep(work: Workload, *, strict: bool) -> Iterator[tuple[str, ...]]:
    """Yield the orders of a single statement's loops that no pair of instances forbids."""
    from itertools import permutations

    dims = work.statements[0].dims
    relaxed = work.associative and not strict
    pairs = [pair for pair in referee_pairs(work) if not (relaxed and pair[2] == "reduction")]
    for order in permutations(range(len(dims))):
        if all(
            (tuple(pair[4][p] for p in order), pair[0]) < (tuple(pair[5][p] for p in order), pair[1]) for pair in pairs
        ):
            yield tuple(dims[p] for p in order)


def permutation_is_legal(vectors: Sequence[Sequence[int]], permutation: Sequence[int]) -> bool:
    """Return whether each vector's first non-zero entry, read in the order of `permutation`, is positive."""
    for vector in vectors:
        for position in permutation:
            if vector[position]:
                if vector[position] < 0:
                    return False
                break
    return True
