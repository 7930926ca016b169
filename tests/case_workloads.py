"""Random small workloads: one accumulation in a box, and programs beyond it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from polymap.ir.loopnest import (
    Access,
    Apply,
    Dim,
    Expression,
    Index,
    Operator,
    Read,
    Role,
    Statement,
    Tensor,
    Workload,
    written_tensors,
)
from polymap.ir.quasi_affine import Affine, dim
from polymap.workload.einsums import einsum

MAX_INSTANCES = 200

# Letters in capitals are coefficients: S strides, D dilations; drawn anew for each workload.
TEMPLATES = (
    "C[m,n] += A[m,k] * B[k,n]",
    "O[k,p] += I[c,S*p+D*r] * W[k,c,r]",
    "O[p,q] += I[S*p+D*r,S*q+s] * W[r,s]",
    "O[k,p] += I[S*p+D*r] * W[k,r]",
    "O[p] += I[p-D*r+6] * W[r,p]",
    "O[k,p] += I[S*p-r+3] * W[k,r]",
    "C[i] += A[i,i] * B[i,j]",
    "C[i,k] += A[S*i+j,D*j-i+9] * B[j,k]",
    "C[i] += A[i+j,j] * B[S*j]",
    "C[i] += A[S*i+D*j] * B[j,k]",
    "C[i+j] += A[i] * B[j]",
    "C[S*i+j,k] += A[i,k] * B[j]",
    "C[i,i] += A[i,j] * B[j,i]",
    "D[i,l] += A[i,j] * B[j,k] * E[k,l]",
    "C += A[k] * B[k,m]",
    "C[m] += A[m] * B[k]",
    "O[g,p] += I[g,S*p+D*r] * W[g,r]",
)


# Products of a tensor with itself, whose accesses differ.
SELF_PRODUCTS = (
    "C[m,n] += A[m,k] * A[n,k]",
    "C[m,n] += A[k,m] * A[k,n]",
    "C[m,n] += A[m,k] * A[k,n]",
    "S[i] += A[i,j] * A[j,i]",
    "S += A[i,j] * A[j,i]",
    "C[d] += A[i] * A[i+d]",
    "O[p] += I[p+r] * I[p]",
    "O[p] += I[S*p+r] * I[p]",
    "O[p,q] += I[p+r,q] * I[p,q+r] * W[r]",
    "O[d] += A[i] * A[i+D*d+1] * W[i]",
    "O[i] += A[i] * A[i+1] * A[i+2]",
    "O[i] += A[i] * A[i] * A[i+1]",
    "C[b,m,n] += A[b,m,k] * A[b,n,k]",
    "C[m,n] += A[m] * A[n] * B[m,n]",
    "C[m,n] += A[m,k] * A[n,k] * W[k]",
    "T[m,n] += A[m] * A[n] * A[k]",
    "C[m,n] += A[m] * A[n] * B[m] * B[n]",
    "C[m,k] += A[m] * A[n] * B[n] * B[k]",
    "C[m,n] += A[S*m] * A[S*n]",
    "C[m,n] += A[m,k] * A[7-n,k]",
    "O[p] += I[p] * I[8-p+r]",
    "C[m,n] += A[m,0] * A[n,k]",
)


def random_self_product(rng: random.Random) -> Workload:
    """Return one accumulation in a box in which a tensor is read through accesses that differ."""
    return random_accumulation(rng, SELF_PRODUCTS)


def random_accumulation(rng: random.Random, templates: tuple[str, ...] = TEMPLATES) -> Workload:
    """Return one accumulation in a box of at most MAX_INSTANCES instances; of TEMPLATES every read access has its own
    tensor."""
    text = rng.choice(templates)
    for letter in ("S", "D"):
        text = text.replace(f"{letter}*", rng.choice(("", "2*", "3*", "2*")))
    operator = rng.choice(("+=", "+=", "+=", "max=", "min="))
    text = text.replace("+=", operator)
    letters = [letter for letter in dict.fromkeys(text.replace("max", "").replace("min", "")) if letter.islower()]
    output = text[0]
    names = [letter for letter in dict.fromkeys(text) if letter.isupper()]
    bits = {name: rng.choice((4, 8, 16)) for name in names} if rng.random() < 0.4 else 8
    initial = [output] if rng.random() < 0.3 else []
    return einsum(text, bits=bits, initial=initial, sizes=_extents(rng, letters))


def _extents(rng: random.Random, names: Iterable[str]) -> dict[str, int]:
    extents: dict[str, int] = {}
    room = rng.choice((60, 120, MAX_INSTANCES))
    for name in rng.sample(shuffled := list(names), len(shuffled)):
        extents[name] = max(1, min(rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)), room))
        room //= extents[name]
    return {name: extents[name] for name in sorted(extents)}


def parallel_dims(workload: Workload) -> frozenset[str]:
    """Return the dims along which no two instances share an element of an array of the plain rule.

    Such a dim is, alone on one axis, the same index in every access of the program to every such array.
    """
    dims = set(workload.extents())
    for name in written_tensors(workload):
        writers = [each for each in workload.statements if each.target.tensor == name]
        everything = [access for each in workload.statements for access in (each.target, *each.reads)]
        accesses = [access for access in everything if access.tensor == name]
        operators = {each.operator for each in writers}
        is_plain = len(accesses) > len(writers) or len(operators) > 1 or Operator.ASSIGN in operators
        if is_plain:
            axes = zip(*(access.index for access in accesses), strict=True)
            same = {axis[0].dims[0] for axis in axes if len(set(axis)) == 1 and len(axis[0].dims) == 1}
            dims &= same
    return frozenset(dims)


def general_workload(rng: random.Random) -> Workload:
    """Return a program with what one accumulation in a box has not: see `random_general_case`."""
    builds = (_constrained, _constrained, _several, _in_place, _chain, _chain, _set_and_add, _assigned, _two_kinds)
    workload = rng.choice(builds)(rng)
    tensors = workload.tensors
    if len(workload.statements) == 1 and rng.random() < 0.25:
        output = workload.statements[0].target.tensor
        tensors = tuple(replace(tensor, temporary=tensor.name == output) for tensor in tensors)
    if rng.random() < 0.3:
        tensors = tuple(replace(tensor, bits=rng.choice((4, 8, 16))) for tensor in tensors)
    return replace(workload, tensors=tensors)


def _constrained(rng: random.Random) -> Workload:
    """A triangle, a band, a parity class, or an empty corner of a box."""
    workload = random_accumulation(rng)
    (statement,) = workload.statements
    names = rng.sample(statement.dims, min(2, len(statement.dims)))
    one, other = dim(names[0]), dim(names[-1])
    choices = (one - other, other - one + 1, one + other - 2, one * 2 - other, (one + other) * -1 + 4)
    wanted = tuple(rng.sample(choices, rng.choice((1, 1, 2))))
    return replace(workload, statements=(replace(statement, constraints=wanted),))


def _several(rng: random.Random) -> Workload:
    """Several accesses of one tensor in one accumulation."""
    text = rng.choice(
        (
            "O[i] += A[i] * A[i+1]",
            "C[i,j] += A[i,k] * A[j,k]",
            "O[p] += I[p+r] * I[2*p] * W[r]",
            "O[i] += A[i,j] * A[j,i]",
        )
    )
    return einsum(text, sizes=_extents(rng, [letter for letter in dict.fromkeys(text) if letter.islower()]))


def _assigned(rng: random.Random) -> Workload:
    """One statement that overwrites."""
    text = rng.choice(("B[i,j] = A[j,i]", "B[2*i,j] = A[i+j]", "B[i] = A[i] * E[i]"))
    letters = [letter for letter in dict.fromkeys(text) if letter.islower()]
    return einsum(text, sizes=_extents(rng, letters))


def _in_place(rng: random.Random) -> Workload:
    """A stencil that reads what it writes."""
    i, t, j = dim("i"), dim("t"), dim("j")
    target, reads = rng.choice(
        (
            (Access("A", (i + 1,)), (Access("A", (i,)), Access("A", (i + 2,)))),
            (Access("A", (i, j)), (Access("A", (i, j)), Access("B", (j,)))),
            (Access("A", (i + 1, j)), (Access("A", (i, j)),)),
            (Access("A", (t,)), (Access("A", (t,)), Access("B", (i + t,)))),
        )
    )
    operator = rng.choice((Operator.ASSIGN, Operator.ASSIGN, Operator.ADD, Operator.MAX))
    names = tuple(dict.fromkeys(name for access in (target, *reads) for index in access.index for name in index.dims))
    repeated = (*names, "t") if "t" not in names else names  # the sweep is repeated
    statement = _statement("S", repeated, target, operator, reads, 0)
    return _program(rng, "in place", (statement,))


def _chain(rng: random.Random) -> Workload:
    """A producer and a consumer, with the same loops or a window between them."""
    i, j, r = dim("i"), dim("j"), dim("r")
    temporary = ("T",) if rng.random() < 0.5 else ()
    first, second = rng.choice(
        (
            ((("i",), (i,), (i,)), (("i",), (i,), (i,))),
            ((("i", "j"), (i, j), (i + j,)), (("i", "j"), (i,), (i, j))),
            ((("i", "j"), (i, j), (j,)), (("i", "j", "r"), (i, j), (i, j))),
            ((("j",), (j,), (j * 2,)), (("i", "r"), (i,), (i + r,))),
        )
    )
    if second[0] == ("i", "j", "r"):
        second = (second[0], (i, r), (i, j))
    producer = Access("T", first[1]), (Access("A", first[2]),)
    consumer = Access("B", second[1]), (Access("T", second[2]),)
    make = rng.choice((Operator.ASSIGN, Operator.ASSIGN, Operator.ADD))
    take = rng.choice((Operator.ADD, Operator.ADD, Operator.ASSIGN))
    statements = (
        _statement("S0", first[0], producer[0], make, producer[1], 0),
        _statement("S1", second[0], consumer[0], take, consumer[1], 1),
    )
    return _program(rng, "chain", statements, temporary)


def _set_and_add(rng: random.Random) -> Workload:
    """A matrix product that sets its output before it accumulates."""
    i, j, k = dim("i"), dim("j"), dim("k")
    target = Access("C", (i, j))
    statements = (
        _statement("S0", ("i", "j"), target, Operator.ASSIGN, (), 0),
        _statement("S1", ("i", "j", "k"), target, Operator.ADD, (Access("A", (i, k)), Access("B", (k, j))), 1),
    )
    return _program(rng, "set and add", statements)


def _two_kinds(rng: random.Random) -> Workload:
    """Two accumulations into one array, of one kind (partial sums) or of two (an array of the plain rule)."""
    i, k, r = dim("i"), dim("k"), dim("r")
    target = Access("C", (i,))
    first, second = rng.choice(
        ((Operator.ADD, Operator.ADD), (Operator.ADD, Operator.MAX), (Operator.MAX, Operator.MAX))
    )
    statements = (
        _statement("S0", ("i", "k"), target, first, (Access("A", (i, k)),), 0),
        _statement("S1", ("i", "r"), target, second, (Access("B", (i + r,)),), 1),
    )
    return _program(rng, "two kinds", statements)


def _statement(
    name: str, dims: tuple[str, ...], target: Access, operator: Operator, reads: tuple[Access, ...], number: int
) -> Statement:
    reads = tuple(target if read == target else read for read in reads)  # one object, as the C front end makes it
    expression: Expression = Read(0) if reads else Index(Affine((), 3))
    for operand in range(1, len(reads)):
        expression = Apply("+", (expression, Read(operand)))
    return Statement(name, dims, (), target, operator, reads, expression, (number, *(0 for _ in dims)))


def _program(
    rng: random.Random, name: str, statements: tuple[Statement, ...], temporary: tuple[str, ...] = ()
) -> Workload:
    """Return the program with random extents, and tensors that hold just what it touches."""
    names = tuple(dict.fromkeys(dim for statement in statements for dim in statement.dims))
    extents = _extents(rng, names)
    dims = tuple(Dim(dim, extents[dim]) for dim in names)
    written = {statement.target.tensor for statement in statements}
    touched: dict[str, list[tuple[int, ...]]] = {}
    for statement in statements:
        for access in (statement.target, *statement.reads):
            touched.setdefault(access.tensor, []).extend(_elements(access, statement, extents))
    tensors = tuple(
        _tensor(tensor, elements, Role.OUTPUT if tensor in written else Role.INPUT, temporary=tensor in temporary)
        for tensor, elements in touched.items()
    )
    return Workload(name, dims, tensors, statements)


def _elements(access: Access, statement: Statement, extents: dict[str, int]) -> Iterable[tuple[int, ...]]:
    for values in product(*(range(extents[name]) for name in statement.dims)):
        point = dict(zip(statement.dims, values, strict=True))
        yield tuple(index.evaluate(point) for index in access.index)


def _tensor(name: str, elements: list[tuple[int, ...]], role: Role, *, temporary: bool) -> Tensor:
    axes = list(zip(*elements, strict=True))
    origin = tuple(min(axis) for axis in axes)
    shape = tuple(max(axis) - low + 1 for axis, low in zip(axes, origin, strict=True))
    return Tensor(name, shape, origin, 8, role, temporary=temporary)
