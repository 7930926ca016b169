"""Random cases in which the features of one accumulation meet those of general programs: strided windows in fused
statements, constraints on arrays that are read and written, several accesses on a diagonal, ..."""

from __future__ import annotations

import random
from dataclasses import replace

from polymap.ir.loopnest import Access, Operator, Statement, Workload
from polymap.ir.quasi_affine import Affine, dim
from tests import case_workloads, cases
from tests.cases import Case

ACCUMULATE = (Operator.ADD, Operator.ADD, Operator.MAX)


def random_crossed_case(rng: random.Random) -> Case:
    """Return a case of one or two statements over i, j, r, each with indices of any kind."""
    workload = crossed_workload(rng)
    arch = cases.random_machine(rng)
    mapping = cases._branched if len(workload.statements) > 1 else cases._single
    return cases._finished(rng, workload, arch, mapping(rng, workload, arch))


def crossed_workload(rng: random.Random) -> Workload:
    count = rng.choice((1, 1, 2, 2, 2))
    statements: tuple[Statement, ...] = ()
    for number in range(count):
        statements += (_crossed(rng, number, count, statements),)
    written = {statement.target.tensor for statement in statements}
    temporary = tuple(sorted(name for name in written if rng.random() < 0.2))
    workload = case_workloads._program(rng, "crossed", statements, temporary)
    tensors = tuple(
        replace(
            tensor,
            initial=tensor.name in written and rng.random() < 0.3,
            bits=rng.choice((4, 8, 8, 16)),
        )
        for tensor in workload.tensors
    )
    return replace(workload, tensors=tensors)


def _crossed(rng: random.Random, number: int, count: int, earlier: tuple[Statement, ...]) -> Statement:
    dims = rng.choice((("i", "r"), ("i", "j", "r"), ("i", "j")))
    outputs = ("T", "O") if count == 2 else ("O",)
    kept = rng.sample(dims, rng.choice((1, 1, len(dims) - 1, len(dims))))
    target = Access(outputs[number], _index(rng, kept, rng.choice((1, 1, 2))))
    operator = Operator.ASSIGN if set(target_dims(target)) == set(dims) else rng.choice(ACCUMULATE)
    reads = [Access(rng.choice("AB"), _index(rng, dims, 1)) for _ in range(rng.choice((1, 2)))]
    if earlier and rng.random() < 0.5:  # what the statement before has made
        made = earlier[0].target
        reads.append(Access(made.tensor, _index(rng, dims, len(made.index))))
    if rng.random() < 0.4:  # an array that is read and written
        shift = rng.choice((0, 0, 1))
        reads.append(Access(target.tensor, tuple(index + shift for index in target.index)))
    built = case_workloads._statement(f"S{number}", dims, target, operator, tuple(dict.fromkeys(reads)), number)
    return replace(built, constraints=_constraints(rng, dims))


def target_dims(access: Access) -> list[str]:
    """Return the dims that stand alone in an index: all of a statement's dims there means one write per element."""
    return [index.dims[0] for index in access.index if len(index.dims) == 1]


def _index(rng: random.Random, dims: tuple[str, ...] | list[str], axes: int) -> tuple[Affine, ...]:
    found: list[Affine] = []
    for _ in range(axes):
        if len(dims) > 1 and rng.random() < 0.6:
            one, other = rng.sample(dims, 2)
            found.append(dim(one) * rng.choice((1, 1, 2, 3)) + dim(other) * rng.choice((1, 2, -1)))
        else:
            found.append(dim(rng.choice(dims)) * rng.choice((1, 1, 2, -1)))
    return tuple(found)


def _constraints(rng: random.Random, dims: tuple[str, ...]) -> tuple[Affine, ...]:
    if rng.random() < 0.7:
        return ()
    one, other = (dim(name) for name in rng.sample(dims, 2))
    return (rng.choice((one - other, other - one + 1, (one + other) * -1 + 4)),)
