"""Schedules: when each statement instance runs, as one quasi-affine time tuple (scattering function) per statement.

Times are compared lexicographically. A place of the tuple is a scalar (constants tell siblings apart), or a loop. Loops
have names, and say how their iterations run: one after the other, in parallel, as a vector, or unrolled.

    S0[i,j] -> [0, i, 0, j, 0]
    S1[i] -> [0, i, 1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from polymap.inputs import answers_in_words, expected_text
from polymap.ir import Affine, Floor, Mapping as Tree, Mistake, ScheduleError, Workload, did_you_mean, dim
from polymap.poly import UnionMap, budget, function, union_of
from polymap.schedules.legality import schedule_violations
from polymap.schedules.relation import original_schedule, schedule_of, serial
from polymap.workload import domain_of


class LoopKind(Enum):
    """How the iterations of a loop run. SEQUENTIAL: in order. PARALLEL: in any order or simultaneously. VECTOR: all of
    them in one vector operation per statement. UNROLLED: in order, the body written out."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    VECTOR = "vector"
    UNROLLED = "unrolled"


ZERO = Affine()


@dataclass(frozen=True, slots=True)
class TimeDim:
    """One place of a statement's time tuple.

    time: over the statement's dims; a constant where the statement does not iterate. loop: the name of the loop, "" at
    a constant. factor: of an UNROLLED loop, how many iterations are written out (0: all of them).
    """

    time: Affine = ZERO
    loop: str = ""
    kind: LoopKind = LoopKind.SEQUENTIAL
    factor: int = 0

    def __str__(self) -> str:
        if not self.time.terms:
            return str(self.time)
        text = str(self.time) if str(self.time) == self.loop else f"{self.loop}: {self.time}"
        if self.kind is LoopKind.SEQUENTIAL:
            return text
        return f"{self.kind.value}{f'({self.factor})' if self.factor else ''} {text}"


@dataclass(frozen=True, slots=True)
class Scattering:
    """When the instances of one statement run."""

    statement: str
    places: tuple[TimeDim, ...]

    @property
    def times(self) -> tuple[Affine, ...]:
        """Return the time tuple."""
        return tuple(place.time for place in self.places)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a schedule: its place in the time tuples, the statements in it, and how it runs."""

    name: str
    position: int
    statements: tuple[str, ...]
    kind: LoopKind
    factor: int


@dataclass(frozen=True, slots=True)
class Fold:
    """A tensor kept in a circular buffer: axis a of the access has the index `index mod moduli[a]`."""

    tensor: str
    moduli: tuple[int, ...]

    def __str__(self) -> str:
        return f"fold {self.tensor}" + "".join(f"[mod {modulus}]" for modulus in self.moduli)


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """A workload and the order of its instances; build it with `original` or `of`.

    scatterings: one per statement, in the workload's order, all of one length. Every loop has one name, and no two
    loops share a name. strict: accumulations keep their order even if the workload is associative. folds: the tensors
    kept in circular buffers, at most one per tensor.
    """

    workload: Workload
    scatterings: tuple[Scattering, ...]
    strict: bool = False
    folds: tuple[Fold, ...] = ()

    @staticmethod
    @answers_in_words
    def original(workload: Workload, *, strict: bool = False) -> Schedule:
        """Return the program's own order: textual positions and loop counters alternate."""
        times = original_schedule(workload)
        return Schedule.of(workload, {name: _dims_of(each) for name, each in times.items()}, strict=strict)

    @staticmethod
    def of(workload: Workload, places: Mapping[str, Iterable[TimeDim]], *, strict: bool = False) -> Schedule:
        """Return the schedule with these places per statement, padded by zeros, its loops named and told apart.

        A loop has the name and kind of its first statement there; names that occur again are written i_2, i_3, ...
        Raises ScheduleError where statements are missing or unknown, or a time is over a dim the statement lacks.
        """
        table = {name: tuple(each) for name, each in places.items()}
        _check(workload, table)
        length = max(map(len, table.values()))
        padded = {name: [*each, *[TimeDim()] * (length - len(each))] for name, each in table.items()}
        _give_names(padded, [each.name for each in workload.statements], 0, set())
        found = tuple(Scattering(each.name, tuple(padded[each.name])) for each in workload.statements)
        return Schedule(workload, found, strict)

    @staticmethod
    def of_tree(workload: Workload, mapping: Tree, *, strict: bool = False) -> Schedule:
        """Return the order of a loop tree that `check_mapping` accepts, the iterations of spatial loops in turn; in
        lock step, as machines run them, where some need what later ones make.

        A statement without the dim of a loop around it runs in the first iteration of that loop.
        """
        in_turn = serial(mapping)
        times = schedule_of(workload, in_turn)
        if in_turn != mapping and schedule_violations(workload, times, strict=strict):
            steps = schedule_of(workload, mapping)
            times = {name: (*each, *map(dim, workload.statement(name).dims)) for name, each in steps.items()}
        return Schedule.of(workload, {name: _dims_of(each) for name, each in times.items()}, strict=strict)

    def scattering(self, statement: str) -> Scattering:
        """Return the scattering of a statement (KeyError if there is none)."""
        return self.places_of[statement]

    @property
    def places_of(self) -> dict[str, Scattering]:
        """Return statement name -> scattering, in textual order."""
        return {each.statement: each for each in self.scatterings}

    @property
    def times(self) -> dict[str, tuple[Affine, ...]]:
        """Return statement name -> time tuple."""
        return {each.statement: each.times for each in self.scatterings}

    @property
    def length(self) -> int:
        """Return the length of the time tuples."""
        return len(self.scatterings[0].places)

    def loops(self) -> tuple[Loop, ...]:
        """Return the loops, an outer one before those inside it, siblings in their order."""
        table = {each.statement: list(each.places) for each in self.scatterings}
        found: list[Loop] = []
        for position, group in _loops(table, list(table), 0):
            place = next(table[name][position] for name in group if table[name][position].time.terms)
            found.append(Loop(place.loop, position, tuple(group), place.kind, place.factor))
        return tuple(found)

    def loop(self, name: str) -> Loop:
        """Return the loop of that name (ScheduleError if there is none)."""
        name, loops = expected_text(name, "the loop", ScheduleError), {each.name: each for each in self.loops()}
        if name not in loops:
            text = f"The schedule has no loop {name!r}"
            raise ScheduleError(Mistake("PM431", text, did_you_mean(name, list(loops))))
        return loops[name]

    def as_isl(self) -> UnionMap:
        """Return { S[i, j] -> [t0, t1, ...] } over the statements' domains."""
        with budget(what="a schedule as a relation"):
            return union_of(
                function(each.name, each.dims, self.times[each.name]).intersect_domain(domain_of(self.workload, each))
                for each in self.workload.statements
            )

    def normal(self) -> Schedule:
        """Return the schedule with scalars at its even places and loops at its odd ones, siblings numbered from 0."""
        own = {each.statement: list(each.places) for each in self.scatterings}
        found: dict[str, list[TimeDim]] = {name: [] for name in own}
        _renumber(own, list(own), 0, found)
        return self.with_places(found)

    def with_places(self, places: Mapping[str, Iterable[TimeDim]]) -> Schedule:
        """Return the schedule with other places for some statements (shorter tuples are padded)."""
        own = {each.statement: each.places for each in self.scatterings}
        return replace(Schedule.of(self.workload, {**own, **places}, strict=self.strict), folds=self.folds)

    def __str__(self) -> str:
        lines: list[str] = []
        for statement, scattering in zip(self.workload.statements, self.scatterings, strict=True):
            places = ", ".join(map(str, scattering.places))
            lines.append(f"{statement.name}[{','.join(statement.dims)}] -> [{places}]")
        return "\n".join((*lines, *map(str, self.folds)))

    def __repr__(self) -> str:
        return f"<Schedule of {self.workload.name}>\n{self}"


def _dims_of(times: tuple[Affine, ...]) -> tuple[TimeDim, ...]:
    return tuple(TimeDim(time, default_name(time, position)) for position, time in enumerate(times))


def default_name(time: Affine, position: int) -> str:
    """Return the name of a loop whose name nobody said: its dim, `i_tile` for floors of one dim, else `t3`."""
    if not time.terms:
        return ""
    if len(time.dims) == 1:
        tiled = any(isinstance(atom, Floor) for _, atom in time.terms)
        return f"{time.dims[0]}_tile" if tiled else time.dims[0]
    return f"t{position}"


def _check(workload: Workload, places: Mapping[str, tuple[TimeDim, ...]]) -> None:
    names = [each.name for each in workload.statements]
    mistakes = [
        Mistake("PM430", f"The schedule has a time for {name!r}, which is no statement", did_you_mean(name, names))
        for name in places
        if name not in names
    ]
    for statement in workload.statements:
        if statement.name not in places:
            text = f"The schedule says nothing of statement {statement.name!r}"
            mistakes.append(Mistake("PM430", text, "Every statement needs a time tuple."))
            continue
        named = dict.fromkeys(name for each in places[statement.name] for name in each.time.dims)
        for unknown in [name for name in named if name not in statement.dims]:
            text = f"A time of {statement.name!r} uses {unknown!r}, which is no loop around it"
            mistakes.append(Mistake("PM430", text, did_you_mean(unknown, statement.dims)))
    if mistakes:
        raise ScheduleError(sorted(mistakes, key=str))


Places = Mapping[str, list[TimeDim]]


def _loops(places: Places, group: list[str], position: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (position, statements) of the loops from `position` on: statements part where all of them are constant."""
    if position == len(places[group[0]]):
        return
    if any(places[name][position].time.terms for name in group):
        yield position, group
        yield from _loops(places, group, position + 1)
        return
    for part in _parts(places, group, position):
        yield from _loops(places, part, position + 1)


def _parts(places: Places, group: list[str], position: int) -> list[list[str]]:
    """Return the statements of each constant at a place where all of them have one, by rising constants."""
    parts: dict[int, list[str]] = {}
    for name in group:
        parts.setdefault(places[name][position].time.constant, []).append(name)
    return [parts[constant] for constant in sorted(parts)]


def _siblings(places: Places, group: list[str], position: int) -> Iterator[tuple[list[str], int]]:
    """Yield (statements, place of their loop or the end) of what runs one after the other from `position` on."""
    if position == len(places[group[0]]) or any(places[name][position].time.terms for name in group):
        yield group, position
        return
    for part in _parts(places, group, position):
        yield from _siblings(places, part, position + 1)


def _renumber(places: Places, group: list[str], position: int, found: dict[str, list[TimeDim]]) -> None:
    for number, (members, place) in enumerate(_siblings(places, group, position)):
        for name in members:
            found[name].append(TimeDim(Affine((), number)))
        if place < len(places[group[0]]):
            for name in members:
                found[name].append(places[name][place])
            _renumber(places, members, place + 1, found)


def _give_names(places: Places, group: list[str], position: int, taken: set[str]) -> None:
    """Let all statements of a loop have one name and kind for it, which no other loop has; constants have none."""
    for place, members in _loops(places, group, position):
        first = next(places[name][place] for name in members if places[name][place].time.terms)
        wanted = first.loop or default_name(first.time, place)
        free = next(name for name in _numbered(wanted) if name not in taken)
        taken.add(free)
        for name in members:
            old = places[name][place]
            places[name][place] = replace(first, time=old.time, loop=free) if old.time.terms else TimeDim(old.time)
    for each in places.values():
        each[:] = [TimeDim(old.time) if not old.time.terms else old for old in each]


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1
