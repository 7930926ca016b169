"""Programs and schedules as OpenScop files, and schedules from their scatterings.

Iterators have the values of the program's own loop variables. Relations have matrices with the columns: 0 for an
equality or 1 for `>= 0`, outputs, iterators, one local dim per floor, the constant. Names and kinds of loops, types of
elements and folded tensors are not part of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polymap.inputs import answers_in_words, expected_kind
from polymap.ir import (
    Access,
    Affine,
    Convert,
    Expression,
    Floor,
    Index,
    Mistake,
    Number,
    Operator,
    ScheduleError,
    Statement,
    Workload,
    affine,
    dim,
    quotient,
    with_parts,
)
from polymap.schedules import Schedule, TimeDim
from polymap.workload import Matrix, expression_text, outputs_of, scatterings_of


class _Value(NamedTuple):
    """A dim in terms of its iterator: the number of its iteration, and `step` times that, without a floor."""

    number: Affine
    distance: Affine
    step: int


Values = Mapping[str, _Value]
Equality = tuple[int, Affine]  # output dim number ... is the expression; 0 for those of a domain: the expression is 0


@answers_in_words
def to_openscop(schedule: Schedule | Workload) -> str:
    """Return an OpenScop file of a program with the times of its schedule (its own, for a workload) as scatterings.

    Sizes are numbers (there are no parameters), and every iterator has the values of the loop variable.
    """
    if isinstance(schedule, Workload):
        schedule = Schedule.original(schedule)
    workload = expected_kind(schedule, Schedule, "the schedule", ScheduleError).workload
    numbers = {tensor.name: number for number, tensor in enumerate(workload.tensors, 1)}
    parts = ["<OpenScop>", "# Language", "C", "# Context", "CONTEXT", "0 2 0 0 0 0", "# No parameters", "0"]
    parts += ["# Number of statements", str(len(workload.statements)), ""]
    for number, statement in enumerate(workload.statements):
        parts += [f"# Statement {number}: {statement.name}", *_statement(schedule, statement, numbers), ""]
    arrays = [f"{number} {name}" for name, number in numbers.items()]
    parts += ["<arrays>", str(len(arrays)), *arrays, "</arrays>", "", "</OpenScop>", ""]
    return "\n".join(parts)


def _statement(schedule: Schedule, statement: Statement, numbers: Mapping[str, int]) -> list[str]:
    iterators = statement.dims
    dims = {each.name: each for each in schedule.workload.dims if each.name in iterators}
    values: dict[str, _Value] = {}
    for name, each in dims.items():
        distance = dim(name) - each.origin
        number = quotient(distance * (1 if each.step > 0 else -1), abs(each.step))
        values[name] = _Value(number, distance, each.step)
    strides = [(0, each.distance - each.number * each.step) for each in values.values() if abs(each.step) > 1]
    counts = [(values[name].number, each.extent - 1) for name, each in dims.items()]
    inside = [end for count, last in counts for end in (count, -count + last)]
    inside += [_with(constraint, values) for constraint in statement.constraints]
    times = [_with(time, values) for time in schedule.times[statement.name]]
    relations = [
        _relation("DOMAIN", iterators, [], strides, inside),
        _relation("SCATTERING", iterators, [f"c{at}" for at in range(len(times))], list(enumerate(times, 1))),
    ]
    accumulated = (statement.target,) if statement.operator is not Operator.ASSIGN else ()
    for kind, accesses in (("WRITE", (statement.target,)), ("READ", (*accumulated, *statement.reads))):
        for access in accesses:
            index = [Affine((), numbers[access.tensor]), *(_with(each, values) for each in access.index)]
            outputs = ["Arr", *(f"[{at}]" for at in range(1, len(index)))]
            relations.append(_relation(kind, iterators, outputs, list(enumerate(index, 1))))
    body = [
        "<body>",
        str(len(iterators)),
        *([" ".join(iterators)] if iterators else []),
        _c_text(statement, values),
        "</body>",
    ]
    return [str(len(relations)), *relations, "# Statement extensions", "1", *body]


def _relation(
    kind: str,
    iterators: Sequence[str],
    outputs: Sequence[str],
    equalities: Sequence[Equality],
    inequalities: Sequence[Affine] = (),
) -> str:
    """Return a relation; each floor is a local dim that lies between the two inequalities of its rows."""
    expressions = [*(value for _, value in equalities), *inequalities]
    floors = tuple(dict.fromkeys(floor for value in expressions for floor in value.floors))
    columns, width = (*iterators, *floors), len(outputs)
    lows = [floor.argument - affine(((floor.divisor, floor),)) for floor in floors]
    bounds = [bound for low, floor in zip(lows, floors, strict=True) for bound in (low, -low + (floor.divisor - 1))]
    rows = [
        [0, *(-int(at == place) for at in range(1, width + 1)), *_row_of(each, columns)] for place, each in equalities
    ]
    rows += [[1, *([0] * width), *_row_of(each, columns)] for each in (*inequalities, *bounds)]
    ends = (len(iterators), 0) if kind == "DOMAIN" else (width, len(iterators))
    names = ["e/i", *outputs, *iterators, *(f"l{at}" for at in range(len(floors))), "1"]
    widths = [max(2, len(name), *(len(str(row[at])) for row in rows)) for at, name in enumerate(names)] if rows else []
    lines = ["  " + " ".join(f"{cell:>{size}}" for cell, size in zip(row, widths, strict=True)) for row in rows]
    title = "# " + " ".join(f"{name:>{size}}" for name, size in zip(names, widths, strict=False))
    return "\n".join((kind, f"{len(rows)} {len(names)} {ends[0]} {ends[1]} {len(floors)} 0", title.rstrip(), *lines))


def _with(value: Affine, values: Values) -> Affine:
    """Return an expression of dims in terms of iterators."""
    total = Affine((), value.constant)
    for factor, atom in value.terms:
        if isinstance(atom, Floor):
            total = total + quotient(_with(atom.argument, values), atom.divisor) * factor
        elif factor % values[atom].step == 0:
            total = total + values[atom].distance * (factor // values[atom].step)
        else:
            total = total + values[atom].number * factor
    return total


def _row_of(value: Affine, columns: tuple[str | Floor, ...]) -> list[int]:
    table = {atom: coefficient for coefficient, atom in value.terms}
    return [*(table.get(column, 0) for column in columns), value.constant]


def _c_text(statement: Statement, values: Values) -> str:
    """Return a statement as C over its iterators."""
    target, *reads = (_c_access(each, values) for each in (statement.target, *statement.reads))
    value = expression_text(_c_value(statement.expression, values), reads)
    match statement.operator:
        case Operator.MAX | Operator.MIN if statement.comparison:
            texts = {"t": target, "v": f"({value})"}
            value = re.sub(r"\b[tv]\b", lambda found: texts[found[0]], statement.comparison)
            return f"{target} = {value};"
        case Operator.MAX | Operator.MIN:
            return f"{target} = f{statement.operator.name.lower()}({target}, {value});"
        case _:
            return f"{target} {statement.operator.value} {value};"


def _c_access(access: Access, values: Values) -> str:
    return access.tensor + "".join(f"[{_c_affine(_with(index, values))}]" for index in access.index)


def _c_value(expression: Expression, values: Values) -> Expression:
    """Return an expression whose indices are texts of C, without the conversions that no type asks for."""
    match expression:
        case Index(value):
            return Number(f"({_c_affine(_with(value, values), _AS_VALUE)})")
        case Convert(_, value):
            return _c_value(value, values)
        case _:
            return with_parts(expression, lambda part: _c_value(part, values))


_AS_INDEX = "floord({0}, {1})"
_AS_VALUE = "(({0} - (({0}) % {1} + {1}) % {1}) / {1})"  # C cuts off, and knows no floord in values


def _c_affine(value: Affine, floor: str = _AS_INDEX) -> str:
    """Return an expression as C. floor: how the floor of a quotient is written."""
    names = {atom: floor.format(_c_affine(atom.argument, floor), atom.divisor) for atom in value.floors}
    terms = ((factor, atom if isinstance(atom, str) else names[atom]) for factor, atom in value.terms)
    return str(Affine(tuple(terms), value.constant))


@answers_in_words
def from_openscop(workload: Workload, text: str, *, strict: bool = False) -> Schedule:
    """Return the schedule of an OpenScop file's scatterings, one per statement in the workload's order.

    Iterators are the program's own loop variables; in SCATTERING relations without a file around them, loops that count
    from 0. Each time must be given by one equality with factor 1 or -1, without parameters, each local dim by the two
    inequalities of a floor. Raises InputError (PM437) for text that is no OpenScop, ScheduleError (PM436) for others.
    """
    relations = scatterings_of(text)
    if len(relations) != len(workload.statements):
        raise _no_schedule(f"there are {len(relations)} relations for {len(workload.statements)} statements")
    dims = {each.name: dim(each.name) for each in workload.dims}
    if "<OpenScop>" in text:
        dims = {each.name: dim(each.name) * each.step + each.origin for each in workload.dims}
    places: dict[str, list[TimeDim]] = {}
    for statement, relation in zip(workload.statements, relations, strict=True):
        matrix = relation.parts[0]
        if len(relation.parts) > 1 or matrix.inputs != len(statement.dims) or _names_parameters(matrix):
            what = f"{matrix.inputs} loops, parameters in its rows or several parts, for {len(statement.dims)} loops"
            raise _no_schedule(f"the relation of {statement.name} has {what}")
        unknown = [Affine()] * matrix.parameters  # no row has them
        times = outputs_of(matrix, [dims[name] for name in statement.dims], unknown)
        places[statement.name] = [TimeDim(time) for time in times]
    return Schedule.of(workload, places, strict=strict)


def _names_parameters(matrix: Matrix) -> bool:
    return any(any(row[len(row) - 1 - matrix.parameters : -1]) for row in matrix.rows)


def _no_schedule(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM436", f"This is no scattering of the program: {what}", "`to_openscop` writes one."))
