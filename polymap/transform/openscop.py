"""Scattering relations in the text form of OpenScop: one matrix of equalities and inequalities per statement.

Columns: 0 for an equality or 1 for `>= 0`, the times c0 c1 ..., the statement's loops, one local dim per floor, the
constant. Names and kinds of loops are not part of it.
"""

from __future__ import annotations

from polymap.ir import Affine, Floor, Mistake, ScheduleError, Workload, affine
from polymap.schedules import Schedule, TimeDim

Row = list[int]


def to_openscop(schedule: Schedule) -> str:
    """Return the scatterings of all statements as OpenScop relations, in the workload's order."""
    parts: list[str] = []
    for number, statement in enumerate(schedule.workload.statements):
        times = schedule.times[statement.name]
        floors = tuple(dict.fromkeys(floor for time in times for floor in _floors(time)))
        columns = (*statement.dims, *floors)
        rows = [
            [0, *(-int(at == place) for at in range(len(times))), *_coefficients(time, columns)]
            for place, time in enumerate(times)
        ]
        for floor in floors:
            low = floor.argument - affine(((floor.divisor, floor),))
            for bound in (low, -low + (floor.divisor - 1)):
                rows.append([1, *([0] * len(times)), *_coefficients(bound, columns)])
        head = f"{len(rows)} {len(rows[0])} {len(times)} {len(statement.dims)} {len(floors)} 0"
        names = ["e/i", *(f"c{at}" for at in range(len(times))), *statement.dims]
        names += [*(f"l{at}" for at in range(len(floors))), "1"]
        widths = [max(2, len(name), *(len(str(row[at])) for row in rows)) for at, name in enumerate(names)]
        lines = [" ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
        title = "# " + " ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
        parts.append("\n".join((f"# Scattering of statement {number}: {statement.name}", "SCATTERING", head, title)))
        parts[-1] += "\n" + "\n".join(f"  {line}" for line in lines) + "\n"
    return "\n".join(parts)


def _floors(value: Affine) -> tuple[Floor, ...]:
    """Return the floors of an expression, inner ones first."""
    found: tuple[Floor, ...] = ()
    for _, atom in value.terms:
        if isinstance(atom, Floor):
            found = (*found, *_floors(atom.argument), atom)
    return found


def _coefficients(value: Affine, columns: tuple[str | Floor, ...]) -> Row:
    table = {atom: coefficient for coefficient, atom in value.terms}
    return [*(table.get(column, 0) for column in columns), value.constant]


def schedule_from_openscop(workload: Workload, text: str, *, strict: bool = False) -> Schedule:
    """Return the schedule of the SCATTERING relations in a text, one per statement in the workload's order.

    Each time must be given by one equality with coefficient 1 or -1, each local dim by the two inequalities of a floor.
    Raises ScheduleError for anything else.
    """
    relations = _relations(text)
    if len(relations) != len(workload.statements):
        raise _unreadable(f"there are {len(relations)} relations for {len(workload.statements)} statements")
    places: dict[str, list[TimeDim]] = {}
    for statement, (head, rows) in zip(workload.statements, relations, strict=True):
        _, width, outputs, inputs, locals_, parameters = head
        if inputs != len(statement.dims) or parameters or width != outputs + inputs + locals_ + 2:
            raise _unreadable(f"the relation of {statement.name} has columns {head} for {len(statement.dims)} loops")
        places[statement.name] = [TimeDim(time) for time in _times(rows, outputs, statement.dims, locals_)]
    return Schedule.of(workload, places, strict=strict)


def _relations(text: str) -> list[tuple[Row, list[Row]]]:
    """Return (numbers of the head, rows) of each relation."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    lines = [line for line in lines if line]
    found: list[tuple[Row, list[Row]]] = []
    try:
        while lines:
            if lines.pop(0) != ["SCATTERING"]:
                raise _unreadable("a relation begins with SCATTERING")
            head = [int(word) for word in lines.pop(0)]
            rows = [[int(word) for word in lines.pop(0)] for _ in range(head[0])]
            if len(head) != 6 or any(len(row) != head[1] for row in rows):
                raise _unreadable("a row is shorter or longer than its head says")
            found.append((head, rows))
    except ScheduleError:
        raise
    except (ValueError, IndexError):
        raise _unreadable("it ends too early, or holds words in place of integers") from None
    return found


def _times(rows: list[Row], outputs: int, dims: tuple[str, ...], locals_: int) -> list[Affine]:
    first = 1 + outputs + len(dims)
    atoms: dict[int, str | Floor] = {1 + outputs + at: name for at, name in enumerate(dims)}
    for column in range(first, first + locals_):
        row = next(
            (each for each in rows if each[0] == 1 and each[column] < 0 and not any(each[column + 1 : -1])), None
        )
        if row is None:
            raise _unreadable(f"local dim {column - first} is no floor")
        atoms[column] = Floor(_sum(row, atoms), -row[column])
    times: list[Affine] = []
    for place in range(1, outputs + 1):
        row = next((each for each in rows if each[0] == 0 and abs(each[place]) == 1), None)
        if row is None or sum(map(bool, row[1 : outputs + 1])) != 1:
            raise _unreadable(f"time c{place - 1} is not given by one equality")
        times.append(_sum(row, atoms) * -row[place])
    return times


def _sum(row: Row, atoms: dict[int, str | Floor]) -> Affine:
    return affine(tuple((row[column], atom) for column, atom in atoms.items()), row[-1])


def _unreadable(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM436", f"This is no scattering of the program: {what}", "`to_openscop` writes one."))
