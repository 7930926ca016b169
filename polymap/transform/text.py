"""Schedules as text: read from `S[i,j] -> [0, i, 0, j]`, and shown as matrices."""

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
