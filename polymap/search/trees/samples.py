"""How large the mapping space is, and uniform samples of it (docs/sampling.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

from polymap.inputs import answers_in_words, as_integer
from polymap.ir import Architecture, BudgetError, Mapping, Mistake, OptionError, Shown, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import (
    SpaceSize,
    any_order_is_legal,
    check_machine,
    dependence_violations,
    space_size,
    uniform_trees,
)
from polymap.search.options import Options
from polymap.search.trees.scores import Scores, score
from polymap.search.trees.tuning import TUNING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sample(Shown):
    """Mappings drawn independently, each legal tree as likely as any other. drawn: legal trees that were drawn for
    them; within_capacity: whether those that do not fit were left out."""

    workload: Workload
    arch: Architecture
    mappings: tuple[Mapping, ...]
    drawn: int
    seed: int
    within_capacity: bool

    @property
    def rate(self) -> float:
        """The share of the trees drawn that were kept: with `within_capacity` the share of the space that fits."""
        return len(self.mappings) / self.drawn if self.drawn else 0.0

    def scores(self) -> Scores:
        """Return energy, latency and occupancy of every mapping; exactly what `evaluate` says."""
        return score(self.workload, self.arch, self.mappings)

    def __len__(self) -> int:
        return len(self.mappings)

    def __iter__(self) -> Iterator[Mapping]:
        return iter(self.mappings)

    @overload
    def __getitem__(self, number: int) -> Mapping: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Mapping, ...]: ...
    def __getitem__(self, number: int | slice) -> Mapping | tuple[Mapping, ...]:
        return self.mappings[number]


@answers_in_words
def sample_mappings(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    n: int,
    seed: int = 0,
    tiles: str = "divide",
    *,
    within_capacity: bool = False,
) -> Sample:
    """Return `n` legal mappings drawn independently, every legal canonical tree as likely as any other.

    A canonical tree has no loop of one iteration, each dim at most once between two storage nodes, and nodes without a
    loop between them in no particular order (docs/counting.md, "The mapping space"; docs/sampling.md says how
    uniformity is reached). within_capacity: trees that do not fit are drawn again, and `rate` tells how many did.
    Raises OptionError for an `n` that is no positive integer, tiles other than "divide" and programs of several
    statements; BudgetError where no legal tree is found.
    """
    workload, arch = question_of(workload, arch)
    _check(workload, n, seed, tiles)
    trees = uniform_trees(workload, arch, seed)
    if not any_order_is_legal(workload):
        trees = (tree for tree in trees if not dependence_violations(workload, tree))
    kept: list[Mapping] = []
    drawn = 0
    while len(kept) < n:
        batch = [next(trees) for _ in range(TUNING.drawn_at_once if within_capacity else n)]
        fits = score(workload, arch, batch).fits.tolist() if within_capacity else [True] * len(batch)
        for mapping, good in zip(batch, fits, strict=True):
            if len(kept) < n:
                drawn += 1
                kept += [mapping] if good else []
        if not kept and drawn >= TUNING.most_misfits:
            what = f"none of {drawn:,} legal mappings of '{workload.name}' on '{arch.name}' fits"
            raise BudgetError(Mistake("PM529", what, "Ask for mappings of any occupancy: within_capacity=False."))
    return Sample(workload, arch, tuple(kept), drawn, seed, within_capacity)


sample = sample_mappings  # of `pm.space`


@answers_in_words
def size(workload: WorkloadLike, arch: ArchitectureLike, tiles: str = "divide") -> SpaceSize:
    """Return the exact numbers of canonical loop trees, syntactic and legal ones (docs/counting.md, "The mapping
    space"); where they are not known, None and the reason. tiles: "divide" or "any"."""
    workload, arch = question_of(workload, arch)
    check_machine(workload, arch)
    Options(tiles=tiles).check()
    return space_size(workload, arch, tiles)


def _check(workload: Workload, n: int, seed: int, tiles: str) -> None:
    mistakes: list[Mistake] = []
    if (as_integer(n) or 0) < 1:
        mistakes.append(Mistake("PM524", f"n is {n!r}", "Use an integer of at least 1."))
    if (-1 if (number := as_integer(seed)) is None else number) < 0:
        mistakes.append(Mistake("PM506", f"seed is {seed!r}", "Use an integer of at least 0."))
    if tiles != "divide":
        mistakes.append(Mistake("PM525", f"tiles is {tiles!r}", "Uniform samples are of trees with dividing tiles."))
    if len(workload.statements) != 1:
        what = f"'{workload.name}' has {len(workload.statements)} statements"
        mistakes.append(Mistake("PM526", what, "Trees of one statement are sampled; those of several branch."))
    if mistakes:
        raise OptionError(mistakes)
