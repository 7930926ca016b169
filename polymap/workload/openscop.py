"""Whole OpenScop files as C: their statements inside loops that run in the order of their scatterings.

What clan, candl, clay and pluto write (OpenScop 1: Bastoul, "OpenScop: a specification and a library", 2011). A
matrix has one constraint per row: 0 for an equality or 1 for `>= 0`, then the factors of output dims, input dims, local
dims and parameters, and the constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from polymap.inputs import LIMITS, expected_text, shown
from polymap.ir import Affine, InputError, Mistake, ScheduleError, quotient
from polymap.workload.tuning import TUNING

Row = tuple[int, ...]
RELATIONS = ("CONTEXT", "DOMAIN", "SCATTERING", "READ", "WRITE", "MAY_WRITE", "UNDEFINED")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Matrix(NamedTuple):
    """One part of a relation: rows of constraints over outputs, inputs, locals and parameters, in this order."""

    rows: tuple[Row, ...]
    outputs: int
    inputs: int
    local_dims: int
    parameters: int


class Relation(NamedTuple):
    """A union of matrices. line: where it begins, 1 the first."""

    kind: str
    parts: tuple[Matrix, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ScopStatement:
    """A statement: its iteration domain, its times, its accesses, the names of its iterators and its text in C."""

    domain: Relation
    scattering: Relation
    accesses: tuple[Relation, ...]
    iterators: tuple[str, ...]
    body: str


@dataclass(frozen=True, slots=True)
class Scop:
    """A file. arrays: number -> name."""

    parameters: tuple[str, ...]
    statements: tuple[ScopStatement, ...]
    arrays: Mapping[int, str]


def scop_of(text: str, file: str = "the text") -> Scop:
    """Return what an OpenScop text says; InputError (PM437) with the line for anything else."""
    return _Reading(expected_text(text, "the OpenScop text", InputError), file).scop()


def scatterings_of(text: str) -> tuple[Relation, ...]:
    """Return the SCATTERING relations of an OpenScop text, or of relations alone; InputError (PM437)."""
    reading, found = _Reading(expected_text(text, "the OpenScop text", InputError), "the text"), list[Relation]()
    if "<OpenScop>" in text:
        return tuple(each.scattering for each in reading.scop().statements)
    while not reading.is_at_end:
        found.append(reading.relation())
    return tuple(each for each in found if each.kind == "SCATTERING")


def outputs_of(matrix: Matrix, inputs: Sequence[Affine], parameters: Sequence[Affine]) -> list[Affine]:
    """Return what each output of a matrix is for values of its inputs and parameters.

    Raises ScheduleError (PM436) where one equality does not give it, or a local dim is not that of a floor's two rows.
    """
    first = 1 + matrix.outputs
    known = dict(enumerate(inputs, first)) | dict(enumerate(parameters, first + matrix.inputs + matrix.local_dims))
    for column in range(first + matrix.inputs, first + matrix.inputs + matrix.local_dims):
        later = range(column + 1, first + matrix.inputs + matrix.local_dims)
        lower = [row for row in matrix.rows if row[0] == 1 and row[column] < 0 and not any(row[at] for at in later)]
        if not lower:
            raise _no_times(f"local dim {column - first - matrix.inputs} is no floor")
        known[column] = quotient(_sum_of(lower[0], known), -lower[0][column])
    found: list[Affine] = []
    for place in range(1, first):
        rows = [row for row in matrix.rows if row[0] == 0 and row[place]]
        if len(rows) != 1 or abs(rows[0][place]) != 1 or sum(map(bool, rows[0][1:first])) != 1:
            raise _no_times(f"its output {place} is not given by one equality")
        found.append(_sum_of(rows[0], known) * -rows[0][place])
    return found


def _no_times(what: str) -> ScheduleError:
    return ScheduleError(Mistake("PM436", f"This is no scattering of the program: {what}", "`to_openscop` writes one."))


def _sum_of(row: Row, known: Mapping[int, Affine]) -> Affine:
    total = Affine((), row[-1])
    for column, value in known.items():
        total = total + value * row[column]
    return total


class _Reading:
    """Reads the lines that hold more than a comment, in order."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        if len(text) > TUNING.most_source_characters:
            raise self.refusal(1, f"it has {len(text):,} characters", f"{TUNING.most_source_characters:,} are read.")
        rows = ((number, line.split("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
        self._lines = [each for each in rows if each[1]]
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all lines are read."""
        return self._at == len(self._lines)

    def relation(self) -> Relation:
        """Return the relation that begins here."""
        number, line = self._next()
        if line not in RELATIONS:
            raise self.refusal(
                number, f"{shown(line)} begins no relation", "Expected DOMAIN, SCATTERING, READ or WRITE."
            )
        return self._relation(line, number)

    def refusal(self, line: int, what: str, hint: str = "") -> InputError:
        """Return the error that tells what is wrong at a line."""
        return InputError(Mistake("PM437", f"{self._file}, line {line}: {what}", hint))

    def scop(self) -> Scop:
        """Return the file's parts, in whatever order the extensions stand."""
        begins = [number for number, line in self._lines if line == "<OpenScop>"]
        if len(begins) > 1:
            raise self.refusal(begins[1], "another <OpenScop> begins", "Give each region a file of its own.")
        if not begins:
            hint = "Files of ScopLib (`SCoP`) are older: OpenScop's own tools convert them."
            raise self.refusal(1, "the file has no <OpenScop>", hint)
        while self._next()[1] != "<OpenScop>":
            pass
        head, statements, names, arrays = list[str](), list[list[Relation]](), tuple[str, ...](), dict[int, str]()
        bodies: dict[int, tuple[tuple[str, ...], str]] = {}
        last: tuple[int, str] = (0, "")
        counts: list[tuple[int, str]] = []  # of relations, before each DOMAIN
        while (found := self._next())[1] != "</OpenScop>":
            number, line = found
            if line in RELATIONS:
                relation = self._relation(line, number)
                if line == "DOMAIN":
                    statements.append([relation])
                    counts.append(last)
                elif line != "CONTEXT" and not statements:
                    raise self.refusal(number, f"{line} stands before the first DOMAIN")
                elif line != "CONTEXT":
                    statements[-1].append(relation)
            elif line.startswith("<"):
                inside = self._until(f"</{line[1:]}", number)
                if line == "<strings>" and not statements:
                    names = tuple(word for _, text in inside for word in text.split())
                elif line == "<body>" and statements:
                    bodies[len(statements) - 1] = self._body(inside, number)
                elif line == "<arrays>":
                    arrays = dict(self._array(*each) for each in inside[1:])
                    if not inside or inside[0][1] != str(len(inside) - 1) or len(arrays) < len(inside) - 1:
                        raise self.refusal(number, "<arrays> do not begin with how many they are, or name one twice")
            elif not statements:
                head.append(line)
            elif not line.isdigit():
                raise self.refusal(number, f"{shown(line)} is no part of a statement")
            last = found
        self._check_head(head, len(statements))
        for (number, line), relations in zip(counts, statements, strict=True):
            if line != str(len(relations)):
                what = f"{shown(line)} relations are announced, and the statement has {len(relations)}"
                raise self.refusal(number, what)
        return Scop(names, tuple(self._statements(statements, bodies, names)), arrays)

    def _next(self) -> tuple[int, str]:
        if self._at == len(self._lines):
            last = self._lines[-1][0] if self._lines else 1
            raise self.refusal(last, "the text ends too early", "Is it cut off?")
        self._at += 1
        return self._lines[self._at - 1]

    def _until(self, end: str, start: int) -> list[tuple[int, str]]:
        """Return the lines before an end tag."""
        inside: list[tuple[int, str]] = []
        while self._at < len(self._lines):
            found = self._next()
            if found[1] == end:
                return inside
            inside.append(found)
        raise self.refusal(start, f"{end} is missing")

    def _integers(self) -> Row:
        number, line = self._next()
        words = line.split()
        if not all(re.fullmatch(r"[-+]?\d+", word) and len(word) <= LIMITS.digits for word in words):
            raise self.refusal(number, f"{shown(line)} is no row of integers")
        return tuple(map(int, words))

    def _relation(self, kind: str, start: int) -> Relation:
        head, count = self._integers(), 1
        if len(head) == 1:
            count, head = head[0], self._integers() if head[0] > 0 else ()
        parts: list[Matrix] = []
        for place in range(count):
            head = head if place == 0 else self._integers()
            if len(head) != 6 or min(head) < 0 or head[1] != sum(head[2:]) + 2:
                hint = "Six numbers: rows, columns, output dims, input dims, local dims, parameters."
                raise self.refusal(self._lines[self._at - 1][0], f"the head of {kind} is {shown(head)}", hint)
            rows = tuple(self._integers() for _ in range(head[0]))
            if any(len(row) != head[1] or row[0] not in (0, 1) for row in rows):
                raise self.refusal(start, f"a row of {kind} is not one of {head[1]} numbers that begin with 0 or 1")
            parts.append(Matrix(rows, *head[2:]))
        return Relation(kind, tuple(parts), start)

    def _body(self, inside: list[tuple[int, str]], start: int) -> tuple[tuple[str, ...], str]:
        texts = [text for _, text in inside]
        if not texts or not texts[0].isdigit():
            raise self.refusal(start, "the <body> does not begin with the number of iterators")
        names = tuple(texts[1].split()) if texts[0] != "0" and len(texts) > 1 else ()
        if len(names) != int(texts[0]) or not all(map(_WORD.fullmatch, names)):
            raise self.refusal(start, f"the <body> names {shown(' '.join(names))}, not {texts[0]} iterators")
        return names, " ".join(texts[1 + bool(names) :])

    def _array(self, number: int, line: str) -> tuple[int, str]:
        words = line.split()
        if len(words) != 2 or not words[0].isdigit():
            raise self.refusal(number, f"{shown(line)} is no array's number and name")
        return int(words[0]), words[1]

    def _check_head(self, head: list[str], found: int) -> None:
        """Refuse another number of statements than the file announces (its last number before the first one)."""
        counts = [line for line in head if line.isdigit()]
        if len(counts) < 2 or int(counts[1]) != found:
            announced = counts[1] if len(counts) > 1 else "no"
            raise self.refusal(self._lines[0][0], f"{announced} statements are announced, and {found} found")

    def _statements(
        self, found: list[list[Relation]], bodies: Mapping[int, tuple[tuple[str, ...], str]], names: tuple[str, ...]
    ) -> Iterator[ScopStatement]:
        for place, relations in enumerate(found):
            domain, times = relations[0], [each for each in relations if each.kind == "SCATTERING"]
            if len(times) != 1 or len(times[0].parts) != 1:
                raise self.refusal(domain.line, f"statement {place} has no SCATTERING of one part")
            if place not in bodies:
                raise self.refusal(domain.line, f"statement {place} has no <body>", "clan writes one.")
            iterators, body = bodies[place]
            for relation in relations:
                for part in relation.parts:
                    loops = part.outputs if relation is domain else part.inputs
                    if loops != len(iterators) or part.parameters != len(names):
                        what = f"{relation.kind} has {loops} loops and {part.parameters} parameters"
                        hint = f"The <body> names {len(iterators)} iterators, and <strings> {len(names)} parameters."
                        raise self.refusal(relation.line, what, hint)
            if any(part.outputs < 1 for each in relations[1:] for part in each.parts):
                raise self.refusal(domain.line, f"a relation of statement {place} has no output")
            accesses = tuple(each for each in relations if each.kind in ("READ", "WRITE", "MAY_WRITE"))
            yield ScopStatement(domain, times[0], accesses, iterators, body)
