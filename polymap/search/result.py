"""The answer of a search as data: the best mapping, what is proven about it, and how much was examined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from polymap.costmodel import Cost
from polymap.formatting import exact
from polymap.inputs import answers_in_words
from polymap.ir import Architecture, Mapping, MaybeNone, Mistake, OptionError, Reported, Workload, page_of, prices_text


@dataclass(frozen=True, slots=True, repr=False)
class SpaceCount:
    """Exact sizes of the mapping space (docs/counting.md, "The mapping space"), and what the search did with it.

    distinct: mappings, those of equal traffic (per tensor and level) and steps counted once; None where it was not
    enumerated tree by tree. listed: for a search over dividing tiles, its structures (which dims are spread over which
    fan-outs; those that a symmetry maps to one another count once); None where not all are known. evaluated: structures
    whose trees were searched. pruned: structures refuted by a bound. infeasible: structures in which nothing fits. An
    OPTIMAL answer has evaluated + pruned + infeasible = listed. Where none are listed, evaluated counts mappings scored
    or programs solved, and pruned counts refuted structures. name: the space, where an OPTIMAL answer is only over the
    trees of docs/program_space.md; "" for the mapping space.
    """

    syntactic: int | None
    legal: int | None
    distinct: int | None
    evaluated: int
    pruned: int
    listed: int | None = None
    infeasible: int | None = None
    name: str = ""

    def __repr__(self) -> str:
        is_listed = self.listed is not None
        parts = (
            ("mappings by syntax", self.syntactic),
            ("legal", self.legal),
            ("with different traffic or steps", self.distinct),
            ("evaluated", self.evaluated if self.evaluated or is_listed else None),
            ("pruned", self.pruned if self.pruned or is_listed else None),
            ("infeasible", self.infeasible),
            ("structures listed", self.listed),
        )
        known = ", ".join(f"{exact(count)} {what}" for what, count in parts if count is not None)
        return f"space{f' of {self.name}' if self.name else ''}: {known or 'not counted before the search ended'}"


def among(status: str, space: str) -> str:
    """Return a status with the space that it is about, where that is not all mappings."""
    return f"{status} among {space}" if space else status


def caveat(stated: str) -> str:
    """Return what to say behind a value whose status, with its space, this is: "" where no mapping at all is better,
    " (proven among chains)" where none of these trees is, else " (not proven)"."""
    status, _, space = stated.partition(" among ")
    if status != "OPTIMAL":
        return " (not proven)"
    return f" (proven among {space})" if space else ""


def weakest(stated: Iterable[str]) -> str:
    """Return the status of a sum of values with these: proven among the trees of all of them, or not."""
    parts = [each.partition(" among ") for each in stated]
    spaces = dict.fromkeys(space for _, _, space in parts if space)
    return among("OPTIMAL", ", ".join(spaces)) if all(status == "OPTIMAL" for status, *_ in parts) else "FEASIBLE"


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running search: the incumbent, its value, the proven lower bound, and their gap.

    front: if a front is asked for, its mappings so far, by rising first part (value and bound are the first part's).
    workload: of which `best` is a mapping, where that is the program with its loops renamed.
    """

    best: Mapping | None
    value: int | float | None
    bound: int | float | None
    gap: float | None
    seconds: float
    front: tuple[Mapping, ...] = ()
    workload: Workload | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after so many seconds: the incumbent's value, and the proven lower bound."""

    seconds: float
    value: int | float | None
    bound: int | float


Scored = tuple[tuple[Mapping, Cost], ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of `explore`, which documents them."""

    tiles: str = "any"
    time_limit_s: float = 60
    workers: int = 1
    seed: int = 0
    constraints: object = None
    memory_limit_mb: int | None = None
    work_limit: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Reported):
    """The answer of `explore`, with its question (workload, arch, objective, settings).

    explain(), table(), show(), c() and save("run.json") need nothing else; `load_result` reads what is saved. best,
    cost, value and gap are None where the search ended without a mapping (see `status`).

    status: "OPTIMAL", "FEASIBLE" (not proven: a limit ended the search, or it tried all that it knows), "TIMEOUT" (a
    limit, and no mapping yet) or "INFEASIBLE".
    objective: as the user wrote it. value, bound: of the objective, in its unit (pJ, cycles, bits, their products).
    gap: (value - bound) / value. clash: if INFEASIBLE, a minimal set of requirements that exclude each other, a
    sentence each; if TIMEOUT, such a set for dividing tiles.

    values, bounds: of an order or a front, (name, value in its unit) per part; value, bound and gap are then the first
    part's (an order's gap: of the first part where value and bound differ). front: the points of a front, by rising
    first part, each an answer of its own; best is its first point. A point's bound is a lower bound on the first part
    over mappings as good in the other parts. A point is OPTIMAL if no mapping is as good in all parts and better in
    one. history: value and bound (of the first part) over time.

    dividing: for a search over tiles of any size, the answer over dividing tiles, which are searched first (None: they
    were not); the answer is never worse. work: the search's steps (structures and programs bounded, nodes visited,
    mappings scored), which a work limit limits.

    prices: what the machine's resources are worth, as the document of `pm.study.sensitivity`, where the answer is saved
    with it.

    more, proof, again: the functions behind `top`, `certificate` and `resume`; they are values, so that a result can be
    pickled. The state of an unfinished search is pickled with it, its progress callback is not.
    """

    status: str
    objective: str
    best: Mapping | MaybeNone
    cost: Cost | MaybeNone
    value: int | float | MaybeNone
    bound: int | float | MaybeNone
    gap: float | MaybeNone
    space: SpaceCount
    seconds: float
    clash: tuple[str, ...] = ()
    values: tuple[tuple[str, int | float], ...] = ()
    bounds: tuple[tuple[str, int | float], ...] = ()
    front: tuple[SearchResult, ...] = ()
    more: Callable[[int], Scored] | None = field(default=None, compare=False, repr=False)
    proof: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    history: tuple[Moment, ...] = field(default=(), compare=False, repr=False)
    dividing: SearchResult | None = None
    work: int = field(default=0, compare=False)
    again: Again | None = field(default=None, compare=False, repr=False)
    workload: Workload | MaybeNone = field(default=None, repr=False)
    arch: Architecture | MaybeNone = field(default=None, repr=False)
    settings: Settings = field(default=Settings(), compare=False, repr=False)
    prices: object = field(default=None, compare=False, repr=False)

    @property
    def stated(self) -> str:
        """The status with the trees that are proven, where these are not all: "OPTIMAL among chains"."""
        return among(self.status, self.space.name)

    @answers_in_words
    def explain(self, other: Reported | None = None, *, sensitivity: bool = False, time_limit_s: float = 60) -> str:
        """Return sentences on the answer: what moves what, where energy and time go, what is proven.

        other: another result or cost of the same question; why it is worse is told, too. sensitivity: also the value
        of more or less of each resource. That takes searches of other machines, for at most `time_limit_s`
        (`pm.study.sensitivity` returns it as data, and raises the same errors).
        """
        text = Reported.explain(self, other)
        return f"{text}\n\n{prices_text(self, time_limit_s)}" if sensitivity and self.best is not None else text

    @answers_in_words
    def report(self, path: str | Path, other: Reported | None = None) -> None:
        """Write the answer as one self-contained page of HTML, completely or not at all.

        other: another result or cost of the same question, shown beside the best mapping. Raises OptionError where
        there is no mapping, OutputError where the file cannot be written.
        """
        page_of(self)(self, path, other)

    @answers_in_words
    def certificate(self) -> str:
        """Return the certificate of the answer, which `verify` checks (docs/certificate.md).

        It proves an optimum over dividing tiles, and takes about as long as the search; or a bound over tiles of any
        size; of a program what no tree costs less than. Raises OptionError where nothing is proven, or where
        certificates do not cover the problem.
        """
        if self.proof is None:
            if self.best is not None and self.workload is not None and len(self.workload.statements) > 1:
                what = "this answer cannot be certified: its tree is of the program with its loops rewritten"
                hint = "Its bound is proven by the search alone; what certificates cover: docs/certificate.md."
                raise OptionError(Mistake("PM515", what, hint))
            what = f"this {self.status} answer has no certificate"
            raise OptionError(Mistake("PM516", what, "An OPTIMAL answer over dividing tiles has one."))
        return self.proof()

    @answers_in_words
    def top(self, count: int) -> Scored:
        """Return the `count` best legal mappings with their costs, best first, by another search (see `candidates`).

        Over tiles of any size the first is the incumbent, and the others are the best with dividing tiles. Raises
        OptionError for a count below 1.
        """
        if count < 1:
            raise OptionError(Mistake("PM507", f"count is {count}", "Use an integer of at least 1."))
        return () if self.more is None else self.more(count)

    @answers_in_words
    def resume(
        self, time_limit_s: float = 60, memory_limit_mb: int | None = None, work_limit: int | None = None
    ) -> SearchResult:
        """Return the answer after more time: the search continues where the limit ended it, and is never worse.

        Asked again, an answer goes on from what the last time left, too, as does a copy that is pickled after that. A
        final answer is returned as it is. Raises OptionError for limits that are not positive numbers.
        """
        return self if self.again is None else self.again(time_limit_s, memory_limit_mb, work_limit)


Again = Callable[[float, int | None, int | None], SearchResult]
