"""Schedules as text: read from `S[i,j] -> [0, i, 0, j]`, and shown as matrices."""

from __future__ import annotations

import re
from dataclasses import replace

from polymap.inputs import answers_in_words
from polymap.ir import Mistake, ScheduleError, Statement, Workload
from polymap.schedules import Fold, LoopKind, Schedule, TimeDim, scattering_matrices
from polymap.workload import quasi_affine

_LINE = re.compile(r"\b(\w+)\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]")
_LABEL = re.compile(r"\s*([A-Za-z_]\w*)\s*:")
_FOLD = re.compile(r"^fold (\w+)((?:\[mod \d+\])*)\s*$", re.MULTILINE)
_KINDS = {kind.value: kind for kind in LoopKind}
_KIND = re.compile(rf"\s*({'|'.join(_KINDS)})\b(?:(?<=unrolled)\s*\(([^)]*)\))?")


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
        dims, pieces = _renaming(statement, names), times.split(",")
        places[name] = [_place(each, dims) for each in (pieces if pieces[-1].strip() else pieces[:-1])]
    folds = tuple(Fold(name, tuple(map(int, re.findall(r"\d+", moduli)))) for name, moduli in _FOLD.findall(text))
    return replace(Schedule.of(workload, places, strict=strict), folds=folds)


def _renaming(statement: Statement, names: str) -> dict[str, str]:
    own = [each.strip() for each in names.split(",") if each.strip()]
    if len(own) != len(statement.dims):
        raise _unreadable(f"{statement.name} has the loops [{', '.join(statement.dims)}], not [{names}]")
    return dict(zip(own, statement.dims, strict=True))


def _unreadable(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM434", what, "Write it like S[i,j] -> [0, i, 0, floor(j/4), j]."))


def _place(text: str, dims: dict[str, str]) -> TimeDim:
    """Return one place of a statement. dims: name in the text -> loop."""
    kind, factor, name = LoopKind.SEQUENTIAL, 0, ""
    found = _KIND.match(text)
    if found and found[1] not in dims:
        count = found[2].strip() if found[2] is not None else "1"
        if not re.fullmatch("[0-9]{1,9}", count) or int(count) < 1:
            raise _unreadable(f"{count!r} in {text.strip()!r} is no positive integer")
        kind, factor, text = _KINDS[found[1]], int(found[2] or 0), text[found.end() :]
    if label := _LABEL.match(text):
        name, text = label[1], text[label.end() :]
    try:
        return TimeDim(quasi_affine(text, dims), name, kind, factor)
    except ValueError as error:
        raise _unreadable(str(error)) from None


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
