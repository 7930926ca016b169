"""What a search answers, as data: the best mapping, how sure that is, and how much was looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polymap.costmodel import Cost
from polymap.ir import Architecture, Mapping, MaybeNone, Mistake, OptionError, Reported, Workload, prices_text


@dataclass(frozen=True, slots=True)
class SpaceCount:
    """Exact sizes of the mapping space (docs/counting.md, "The mapping space"), and what the search did with it.

    distinct: mappings with different costs; None where the space was not walked tree by tree. listed: of a search over
    dividing tiles the structures (which dims are spread over which fan-outs; those that symmetry maps to one another
    count once), None where not all are known. Of those evaluated: their trees were searched; pruned: refuted by a
    bound; infeasible: nothing fits. An OPTIMAL answer has evaluated + pruned + infeasible = listed. Where none are
    listed, evaluated: mappings scored or programs solved; pruned: structures refuted. name: the space where an
    OPTIMAL answer is over trees of docs/program_space.md alone; "" for the mapping space.
    """

    syntactic: int | None
    legal: int | None
    distinct: int | None
    evaluated: int
    pruned: int
    listed: int | None = None
    infeasible: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running search: the best mapping so far, its value, what no mapping can beat, their distance.

    front: where a front is asked for, its mappings so far, by rising first part (value and bound are the first one's).
    """

    best: Mapping | None
    value: int | float | None
    bound: int | float | None
    gap: float | None
    seconds: float
    front: tuple[Mapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What a search knew after so many seconds: the value of the best mapping so far, and what no mapping can beat."""

    seconds: float
    value: int | float | None
    bound: int | float


Scored = tuple[tuple[Mapping, Cost], ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a search was asked to go about it: the parameters of `explore`, which documents them."""

    tiles: str = "any"
    time_limit_s: float = 60
    workers: int = 1
    seed: int = 0
    constraints: object = None
    memory_limit_mb: int | None = None
    work_limit: int | None = None


@dataclass(frozen=True, slots=True)
class SearchResult(Reported):
    """The answer of `explore`, which knows its question (workload, arch, objective, settings).

    explain(), table(), show(), c() and save("run.json") need nothing else; `load_result` reads what is saved. best,
    cost, value and gap are None where a search ended without a mapping, which `status` tells.

    status: "OPTIMAL", "FEASIBLE" (a limit ended the search), "TIMEOUT" (a limit, and no mapping yet) or "INFEASIBLE".
    objective: as the user wrote it. value and bound: of the objective, in its unit (pJ, cycles, bits, their products).
    gap: (value - bound) / value. clash: where INFEASIBLE, requirements that exclude each other, of which none can be
    left out, a sentence each; with a TIMEOUT those that do so for tiles that divide.
    values, bounds: of an order or a front, one per part, (name, in its unit); value, bound and gap are
    then the first part's (an order's gap: of the first part where value and bound differ). front: the points of a
    front, by rising first part, each an answer of its own; best is its first point. A point's bound is what no mapping
    beats in the first part that is as good in the others; it is OPTIMAL where no mapping is as good in all parts and
    better in one. history: how value and bound (of the first part) went, by rising seconds.
    dividing: of a search over tiles of any size the answer over tiles that divide, which go first (None: they were not
    searched); the answer is never worse. work: steps that the search took (structures and
    programs bounded, nodes visited, mappings scored), which a work limit limits.
    more, proof, again: what `top`, `certificate` and `resume` call; values too, so that a result can be pickled. What
    an unfinished search holds goes with it; whom it told of its progress does not.
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

    def explain(self, *, sensitivity: bool = False, time_limit_s: float = 60) -> str:
        """Return sentences on the answer: what moves what, where energy and time go, what is proven.

        sensitivity: also what more or less of each resource is worth, which takes searches of other machines, for
        `time_limit_s` at most (`polymap.sensitivity` returns it as data, and raises what this raises).
        """
        text = Reported.explain(self)
        return f"{text}\n\n{prices_text(self, time_limit_s)}" if sensitivity and self.best is not None else text

    def certificate(self) -> str:
        """Return the text that proves the answer, which `verify` checks (docs/certificate.md): of an optimum over
        dividing tiles, which takes about as long as the search, or of a bound over tiles of any size. Raises
        OptionError where nothing is proven, or the problem is none of those that are certified.
        """
        if self.proof is None:
            what = f"this {self.status} answer has no certificate"
            raise OptionError(Mistake("PM516", what, "An OPTIMAL answer over dividing tiles has one."))
        return self.proof()

    def top(self, count: int) -> Scored:
        """Return the `count` best legal mappings with their costs, best first, searching again (see `candidates`). Over
        tiles of any size the first is the best that is known, those behind it are the best with dividing tiles."""
        return () if self.more is None else self.more(count)

    def resume(
        self, time_limit_s: float = 60, memory_limit_mb: int | None = None, work_limit: int | None = None
    ) -> SearchResult:
        """Return the answer after more time: the search goes on where the limit ended it, and is never worse.

        An answer that is final comes back as it is. Raises OptionError for limits that are no positive numbers.
        """
        return self if self.again is None else self.again(time_limit_s, memory_limit_mb, work_limit)


Again = Callable[[float, int | None, int | None], SearchResult]
