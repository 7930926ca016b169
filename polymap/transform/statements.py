"""Transformations of a program's statements: index-set splitting, and inlining of a producer into its consumers."""

from __future__ import annotations

from collections.abc import Mapping as Table, Sequence
from dataclasses import replace

from polymap.inputs import answers_in_words
from polymap.ir import (
    Access,
    Affine,
    Convert,
    Expression,
    Index,
    Mistake,
    Operator,
    Read,
    ScheduleError,
    Statement,
    Violation,
    Workload,
    dim,
    substituted,
    with_parts,
)
from polymap.poly import Clock, Map, budget, ends_of, first_pair, function, may_precede, same_value
from polymap.schedules import Schedule, TimeDim, instance_text, point
from polymap.transform.legality import counter_text, impossible
from polymap.transform.lifetimes import flow_of, is_foldable
from polymap.workload import domain_of


@answers_in_words
def split_index_set(schedule: Schedule, statement: str, *, loop: str, at: int) -> Schedule:
    """Return the schedule of a workload in which a statement is two: with the counter of `loop` below `at`, and from
    `at` on. No instance moves; `distribute` then gives each part its own loop.

    loop, at: a loop of the program around the statement, and a value of its counter from 0.

    Rewrite:
        for i in 8 {S0(i)}   ->   for i in 8 { if (i < 3) S0(i); else S0_2(i) }        # loop="i", at=3

    Raises ScheduleError where the statement has no such loop, or one part would be empty.
    """
    work = schedule.workload
    own = next((each for each in work.statements if each.name == statement), None)
    if own is None or loop not in own.dims:
        raise impossible(f"There is no statement {statement!r} in a loop {loop!r} of the program")
    if not 0 < at < work.extents()[loop]:
        counted = next(each for each in work.dims if each.name == loop)
        told = f" (of the text: {counter_text(counted)})" if (counted.origin, counted.step) != (0, 1) else ""
        hint = f"0 < at < {counted.extent}: iterations of {loop} are counted from 0{told}."
        raise impossible(f"at={at} leaves a part of {statement} empty", hint)
    low = replace(own, constraints=(*own.constraints, -dim(loop) + (at - 1)))
    names = {each.name for each in work.statements}
    free = next(name for number in range(2, len(names) + 3) if (name := f"{statement}_{number}") not in names)
    last = own.position[-1]
    high = replace(
        own, name=free, constraints=(*own.constraints, dim(loop) - at), position=(*own.position[:-1], last + 1)
    )
    statements = [part for each in work.statements for part in ((low, high) if each is own else (_after(each, own),))]
    places = {each.statement: list(each.places) for each in schedule.scatterings}
    places[free] = [*places[statement], TimeDim(Affine((), 1))]
    after = replace(work, statements=tuple(statements))
    split = Schedule.of(after, places, strict=schedule.strict)
    return replace(split, folds=schedule.folds).normal()


def _after(other: Statement, own: Statement) -> Statement:
    """Return a statement moved by one place if it comes after `own` in its innermost loop."""
    depth = len(own.dims)
    beside = other.dims[:depth] == own.dims and other.position[:depth] == own.position[:depth]
    if not beside or other.position[depth] <= own.position[depth]:
        return other
    return replace(other, position=(*other.position[:depth], other.position[depth] + 1, *other.position[depth + 1 :]))


@answers_in_words
def inline(workload: Workload, producer: str, *, unsafe: bool = False) -> Workload:
    """Return the workload with a temporary tensor's values computed where they are read, its statement gone.

    producer: the only statement that writes the tensor; it assigns, and every loop is one index of its target.

    Rewrite:
        for i {T[i] = 2*A[i]}; for j {B[j] = T[j] + T[j+1]}   ->   for j {B[j] = 2*A[j] + 2*A[j+1]}

    Raises ScheduleError where the statement is of another form, or where something that it reads is overwritten before
    one of its values is read (with these two instances).
    """
    own = next((each for each in workload.statements if each.name == producer), None)
    if own is None:
        raise impossible(f"There is no statement {producer!r}")
    offsets = _offsets(workload, own)
    if not unsafe:
        _refuse_overwritten(workload, own)
    statements = tuple(_inlined(workload, each, own, offsets) for each in workload.statements if each.name != producer)
    used = {name for each in statements for name in each.dims}
    return replace(
        workload,
        dims=tuple(each for each in workload.dims if each.name in used),
        tensors=tuple(each for each in workload.tensors if each.name != own.target.tensor),
        statements=statements,
    )


def _offsets(workload: Workload, own: Statement) -> tuple[tuple[str, int], ...]:
    """Return (loop, offset) of each axis of the target, which is `loop + offset`."""
    tensor = own.target.tensor
    why = is_foldable(Schedule.original(workload), tensor)
    if why:
        raise impossible(f"{own.name} cannot be inlined: {why}")
    if [each.name for each in workload.statements if each.target.tensor == tensor] != [own.name]:
        raise impossible(f"{own.name} cannot be inlined: other statements write {tensor}, too")
    if own.operator is not Operator.ASSIGN or any(read.tensor == tensor for read in own.reads):
        raise impossible(f"{own.name} cannot be inlined: it uses older values of {tensor}")
    found: list[tuple[str, int]] = []
    for index in own.target.index:
        if index.terms and len(index.terms) == 1 and index.terms[0][0] == 1 and isinstance(index.terms[0][1], str):
            found.append((index.terms[0][1], index.constant))
    if sorted(name for name, _ in found) != sorted(own.dims) or len(found) != len(own.target.index):
        raise impossible(f"{own.name} cannot be inlined: its target is not indexed by its loops, each once")
    return tuple(found)


def _refuse_overwritten(workload: Workload, own: Statement) -> None:
    order = Schedule.original(workload)
    clocks = {each.name: Clock(each.name, each.dims, order.times[each.name]) for each in workload.statements}
    with budget(what="what an inlined statement reads"):
        flows = flow_of(order, own.target.tensor)
        for read in dict.fromkeys(own.reads):
            for writer in workload.statements:
                if writer.target.tensor != read.tensor:
                    continue
                domain = domain_of(workload, writer)
                same = same_value(_elements(own, read), _elements(writer, writer.target)).intersect_range(domain)
                spoiled = same.intersect(may_precede(clocks[own.name], clocks[writer.name], ()))
                for flow in flows:
                    reader = ends_of(flow)[1]
                    late = spoiled.reverse().apply_range(flow)  # { overwriting instance -> reader of the value }
                    pair = first_pair(late.intersect(may_precede(clocks[writer.name], clocks[reader], ())))
                    if pair is not None:
                        _raise_overwritten(workload, own, (writer.name, pair[0]), (reader, pair[1]))


def _raise_overwritten(
    workload: Workload, own: Statement, first: tuple[str, Sequence[int]], second: tuple[str, Sequence[int]]
) -> None:
    one, other = point(workload, *first), point(workload, *second)
    text = (
        f"inline {own.name} is illegal. {instance_text(one)} overwrites what {own.name} reads, before "
        f"{instance_text(other)} reads the value of {own.name}."
    )
    hint = "Fuse the two, or inline after the overwriting statement was moved behind the reader."
    raise ScheduleError(Mistake("PM433", text, hint), (Violation("dependence", text, (one, other)),))


def _elements(statement: Statement, access: Access) -> Map:
    return function(statement.name, statement.dims, access.index, access.tensor)


def _inlined(workload: Workload, reader: Statement, own: Statement, offsets: tuple[tuple[str, int], ...]) -> Statement:
    """Return the reader with the producer's expression in place of each read of its tensor."""
    reads: list[Access] = []
    values: list[Expression] = []
    kind = workload.tensor(own.target.tensor).element_type
    for read in reader.reads:
        if read.tensor != own.target.tensor:
            values.append(Read(len(reads)))
            reads.append(read)
            continue
        table = {name: index - offset for (name, offset), index in zip(offsets, read.index, strict=True)}
        inner = [Read(len(reads) + number) for number in range(len(own.reads))]
        reads.extend(replace(each, index=tuple(substituted(part, table) for part in each.index)) for each in own.reads)
        value = _rewritten(own.expression, inner, table)
        values.append(value if kind is None else Convert(kind, value))
    return replace(reader, reads=tuple(reads), expression=_rewritten(reader.expression, values, {}))


def _rewritten(expression: Expression, reads: Sequence[Expression], table: Table[str, Affine]) -> Expression:
    """Return the expression with its reads replaced, and its dims where the table has them."""
    match expression:
        case Read(access):
            return reads[access]
        case Index(value):
            return Index(substituted(value, table))
        case _:
            return with_parts(expression, lambda part: _rewritten(part, reads, table))
