"""Schedules as text: read from `S[i,j] -> [0, i, 0, j]`, shown as matrices, and as OpenScop's scattering relations.

A relation has a matrix of equalities and inequalities per statement, with the columns: 0 for an equality or 1 for
`>= 0`, the times c0 c1 ..., the statement's loops, one local dim per floor, the constant. Names and kinds of loops are
not part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from polymap.inputs import answers_in_words
from polymap.ir import Affine, Floor, Mistake, ScheduleError, Statement, Workload, affine, dim
from polymap.schedules import Fold, LoopKind, Schedule, TimeDim, scattering_matrices

_LINE = re.compile(r"(\w+)\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]")
_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|[-+*/(),:])")
_FOLD = re.compile(r"^fold (\w+)((?:\[mod \d+\])*)\s*$", re.MULTILINE)
_KINDS = {kind.value: kind for kind in LoopKind}


@answers_in_words
def schedule_from_text(workload: Workload, text: str, *, strict: bool = False) -> Schedule:
    """Return the schedule of a text with one `S[i,j] -> [time, ...]` per statement, in lines or as an isl map.

    A time is a sum of integers, the statement's loops (by position, so that any names do), `floor(e/4)` and
    `e mod 4`; `i_tile:` before it names the loop, and a word before that says how it runs (`parallel`, `vector`,
    `unrolled(4)`). A line `fold T[mod 3]` keeps a tensor in a circular buffer. Conditions after a colon are ignored:
    the workload has the domains.

    Raises ScheduleError for text that is none, and for unknown statements and names. `str(schedule)` is read back.
    """
    places: dict[str, list[TimeDim]] = {}
    for name, names, times in _LINE.findall(text):
        statement = next((each for each in workload.statements if each.name == name), None)
        if statement is None or name in places:
            raise _unreadable(f"{name!r} is no statement, or stands twice")
        places[name] = _Reader(times, _renaming(statement, names)).places()
    folds = tuple(Fold(name, tuple(map(int, re.findall(r"\d+", moduli)))) for name, moduli in _FOLD.findall(text))
    return replace(Schedule.of(workload, places, strict=strict), folds=folds)


def _renaming(statement: Statement, names: str) -> dict[str, str]:
    own = [each.strip() for each in names.split(",") if each.strip()]
    if len(own) != len(statement.dims):
        raise _unreadable(f"{statement.name} has the loops [{', '.join(statement.dims)}], not [{names}]")
    return dict(zip(own, statement.dims, strict=True))


def _unreadable(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM434", what, "Write it like S[i,j] -> [0, i, 0, floor(j/4), j]."))


@dataclass(slots=True)
class _Reader:
    """Reads the places of one statement by recursive descent. dims: name in the text -> loop."""

    text: str
    dims: dict[str, str]
    at: int = 0

    def places(self) -> list[TimeDim]:
        found: list[TimeDim] = []
        while self._peek():
            found.append(self._place())
            if self._peek():
                self._expect(",")
        return found

    def _place(self) -> TimeDim:
        kind, factor, name = LoopKind.SEQUENTIAL, 0, ""
        if self._peek() in _KINDS and self._peek() not in self.dims:
            kind = _KINDS[self._next()]
            if self._peek() == "(" and kind is LoopKind.UNROLLED:
                self._expect("(")
                factor = self._integer()
                self._expect(")")
        start = self.at
        if re.fullmatch(r"[A-Za-z_]\w*", self._next()) and self._peek() == ":":
            name = self.text[start : self.at].strip()
            self._expect(":")
        else:
            self.at = start
        return TimeDim(self._sum(), name, kind, factor)

    def _sum(self) -> Affine:
        total, sign = Affine(), 1
        if self._peek() in ("-", "+"):
            sign = -1 if self._next() == "-" else 1
        while True:
            total = total + self._term() * sign
            if self._peek() not in ("+", "-"):
                return total
            sign = -1 if self._next() == "-" else 1

    def _term(self) -> Affine:
        value = self._atom()
        while True:
            following = self._peek()
            if following == "mod":
                self._next()
                divisor = self._integer()
                value = value - _floor(value, divisor) * divisor
            elif following == "*" or following == "(" or re.fullmatch(r"[A-Za-z_]\w*", following):
                if following == "*":
                    self._next()
                value = self._product(value, self._atom())
            else:
                return value

    def _product(self, one: Affine, other: Affine) -> Affine:
        if one.terms and other.terms:
            raise _unreadable(f"{self.text.strip()!r} multiplies loops")
        return other * one.constant if not one.terms else one * other.constant

    def _atom(self) -> Affine:
        token = self._next()
        if token.isdigit():
            return Affine((), int(token))
        if token == "(":
            value = self._sum()
            self._expect(")")
            return value
        if token == "floor" and token not in self.dims:
            self._expect("(")
            value = self._sum()
            self._expect("/")
            divisor = self._integer()
            self._expect(")")
            return _floor(value, divisor)
        if token in self.dims:
            return dim(self.dims[token])
        raise _unreadable(f"{token!r} in {self.text.strip()!r} is no loop of the statement")

    def _integer(self) -> int:
        token = self._next()
        if not token.isdigit() or int(token) < 1:
            raise _unreadable(f"{token!r} in {self.text.strip()!r} is no positive integer")
        return int(token)

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise _unreadable(f"{found!r} in {self.text.strip()!r} stands where {token!r} should")

    def _peek(self) -> str:
        found = _TOKEN.match(self.text, self.at)
        if found is None and self.text[self.at :].strip():
            raise _unreadable(f"{self.text[self.at :].strip()!r} cannot be read")
        return found.group(1) if found else ""

    def _next(self) -> str:
        token = self._peek()
        found = _TOKEN.match(self.text, self.at)
        self.at = found.end() if found else len(self.text)
        return token


def _floor(value: Affine, divisor: int) -> Affine:
    if divisor == 1 or not value.terms:
        return value if divisor == 1 else Affine((), value.constant // divisor)
    return affine(((1, Floor(value, divisor)),))


@answers_in_words
def matrices(schedule: Schedule) -> str:
    """Return the scattering functions as matrices: one column per loop, one per floor, and the constants.

    S0[i,j]      i  j  1
      t0   [     0  0  0 ]
      t1   [     1  0  0 ]
    """
    parts: list[str] = []
    for matrix in scattering_matrices(schedule):
        head, rows = list(matrix.columns), [[str(value) for value in row] for row in matrix.rows]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        names = [f"{matrix.statement}[{','.join(matrix.dims)}]", *(f"  t{place}" for place in range(len(rows)))]
        left = max(map(len, names))
        lines = [
            f"{name:<{left}} {edges[0]} "
            + "  ".join(f"{each:>{width}}" for each, width in zip(row, widths, strict=True))
            + edges[1]
            for name, row, edges in zip(names, [head, *rows], ["  ", *["[]"] * len(rows)], strict=True)
        ]
        parts.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(parts) + "\n"


Row = list[int]


@answers_in_words
def to_openscop(schedule: Schedule) -> str:
    """Return the scatterings of all statements as OpenScop relations, in the workload's order."""
    parts: list[str] = []
    for number, statement in enumerate(schedule.workload.statements):
        times = schedule.times[statement.name]
        floors = tuple(dict.fromkeys(floor for time in times for floor in _floors(time)))
        columns = (*statement.dims, *floors)
        rows = [
            [0, *(-int(at == place) for at in range(len(times))), *_row_of(time, columns)]
            for place, time in enumerate(times)
        ]
        for floor in floors:
            low = floor.argument - affine(((floor.divisor, floor),))
            for bound in (low, -low + (floor.divisor - 1)):
                rows.append([1, *([0] * len(times)), *_row_of(bound, columns)])
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


def _row_of(value: Affine, columns: tuple[str | Floor, ...]) -> Row:
    table = {atom: coefficient for coefficient, atom in value.terms}
    return [*(table.get(column, 0) for column in columns), value.constant]


@answers_in_words
def from_openscop(workload: Workload, text: str, *, strict: bool = False) -> Schedule:
    """Return the schedule of the SCATTERING relations in a text, one per statement in the workload's order.

    Each time must be given by one equality with coefficient 1 or -1, each local dim by the two inequalities of a floor.
    Raises ScheduleError for anything else.
    """
    relations = _relations(text)
    if len(relations) != len(workload.statements):
        raise _no_relation(f"there are {len(relations)} relations for {len(workload.statements)} statements")
    places: dict[str, list[TimeDim]] = {}
    for statement, (head, rows) in zip(workload.statements, relations, strict=True):
        _, width, outputs, inputs, locals_, parameters = head
        if inputs != len(statement.dims) or parameters or width != outputs + inputs + locals_ + 2:
            raise _no_relation(f"the relation of {statement.name} has columns {head} for {len(statement.dims)} loops")
        places[statement.name] = [TimeDim(time) for time in _relation_times(rows, outputs, statement.dims, locals_)]
    return Schedule.of(workload, places, strict=strict)


def _relations(text: str) -> list[tuple[Row, list[Row]]]:
    """Return (numbers of the head, rows) of each relation."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    lines = [line for line in lines if line]
    found: list[tuple[Row, list[Row]]] = []
    try:
        while lines:
            if lines.pop(0) != ["SCATTERING"]:
                raise _no_relation("a relation begins with SCATTERING")
            head = [int(word) for word in lines.pop(0)]
            rows = [[int(word) for word in lines.pop(0)] for _ in range(head[0])]
            if len(head) != 6 or any(len(row) != head[1] for row in rows):
                raise _no_relation("a row is shorter or longer than its head says")
            found.append((head, rows))
    except ScheduleError:
        raise
    except (ValueError, IndexError):
        raise _no_relation("it ends too early, or holds words in place of integers") from None
    return found


def _relation_times(rows: list[Row], outputs: int, dims: tuple[str, ...], locals_: int) -> list[Affine]:
    first = 1 + outputs + len(dims)
    atoms: dict[int, str | Floor] = {1 + outputs + at: name for at, name in enumerate(dims)}
    for column in range(first, first + locals_):
        row = next(
            (each for each in rows if each[0] == 1 and each[column] < 0 and not any(each[column + 1 : -1])), None
        )
        if row is None:
            raise _no_relation(f"local dim {column - first} is no floor")
        atoms[column] = Floor(_row_sum(row, atoms), -row[column])
    times: list[Affine] = []
    for place in range(1, outputs + 1):
        row = next((each for each in rows if each[0] == 0 and abs(each[place]) == 1), None)
        if row is None or sum(map(bool, row[1 : outputs + 1])) != 1:
            raise _no_relation(f"time c{place - 1} is not given by one equality")
        times.append(_row_sum(row, atoms) * -row[place])
    return times


def _row_sum(row: Row, atoms: dict[int, str | Floor]) -> Affine:
    return affine(tuple((row[column], atom) for column, atom in atoms.items()), row[-1])


def _no_relation(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM436", f"This is no scattering of the program: {what}", "`to_openscop` writes one."))
