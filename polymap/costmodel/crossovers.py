"""The buffer size from which on one family of mappings moves less than another, exactly.

    weights = family("weight-stationary", placements(layer, arch, m_r_s_h_w, "OREG"))
    outputs = family("output-stationary", placements(layer, arch, h_w_m_r_s, "OREG"))
    crossover(layer, arch, weights, outputs, level="OREG").capacity_bits       # 288: 36 accumulators of 8 bits

A family is a set of mappings. Its traffic at a buffer size is that of its best member that fits: a step function of the
size that changes only where a member begins to fit. So each member is evaluated once, with no limit on the buffer, and
the two step functions are compared at every size at which one of them steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from polymap.costmodel.evaluation import evaluate
from polymap.inputs import answers_in_words, expected_kind, expected_text
from polymap.ir import (
    Architecture,
    Brief,
    Mapping,
    MappingError,
    MappingNode,
    MemoryLevel,
    Mistake,
    OptionError,
    Storage,
    Workload,
    did_you_mean,
)
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import check_mapping


@dataclass(frozen=True, slots=True, repr=False)
class Family(Brief):
    """A named set of mappings, such as all that keep a weight until its last use."""

    name: str
    members: tuple[Mapping, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Stretch(Brief):
    """The buffer sizes from `capacity_bits` up to the next stretch, and the least bits that each family moves there.

    None: no member fits.
    """

    capacity_bits: int
    one_bits: int | None
    other_bits: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Crossover(Brief):
    """A comparison of two families over the size of a buffer.

    capacity_bits: the least size from which on `one` always moves less than `other`; None where there is none. before,
    after: the stretch below that size (None where there is none) and the one that begins there. traffic_level: where
    the traffic is counted. stretches: all, by rising size, the first from 0 bits on.
    """

    one: str
    other: str
    level: str
    traffic_level: str
    capacity_bits: int | None
    before: Stretch | None
    after: Stretch | None
    stretches: tuple[Stretch, ...]


@answers_in_words
def crossover(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    one: Family,
    other: Family,
    level: str,
    traffic_level: str | None = None,
) -> Crossover:
    """Return the size of `level` from which on family `one` moves fewer bits at `traffic_level` (default: the
    outermost).

    Members that are illegal for another reason than this capacity are left out. Raises OptionError for unknown levels,
    MappingError for a member that is not a loop tree of the workload.
    """
    workload, arch = question_of(workload, arch)
    one, other = expected_kind(one, Family, "the first family"), expected_kind(other, Family, "the second family")
    for name in (level, level if traffic_level is None else traffic_level):
        expected_text(name, "the level", OptionError)
    counted = traffic_level or arch.levels[0].name
    mistakes = [*_level_problems(arch, level, inner=True), *_level_problems(arch, counted, inner=False)]
    if mistakes:
        raise OptionError(mistakes)
    wide = _without_limit(arch, level)
    steps = [_steps(workload, wide, family, level, counted) for family in (one, other)]
    sizes = sorted({0, *(size for points in steps for size, _ in points)})
    stretches = tuple(Stretch(size, _least_bits(steps[0], size), _least_bits(steps[1], size)) for size in sizes)
    first = len(stretches)
    while first > 0 and _first_moves_less(stretches[first - 1]):
        first -= 1
    if first == len(stretches):
        return Crossover(one.name, other.name, level, counted, None, stretches[-1], None, stretches)
    before = stretches[first - 1] if first else None
    after = stretches[first]
    return Crossover(one.name, other.name, level, counted, after.capacity_bits, before, after, stretches)


def placements(workload: Workload, arch: Architecture, mapping: Mapping, level: str) -> Iterator[Mapping]:
    """Yield the mapping with the storage nodes of `level` at every depth at which `check_mapping` accepts it.

    All nodes of the level are placed together; the loops stay as they are.
    """
    storages = [node for node in mapping.nodes if isinstance(node, Storage) and node.level == level]
    rest = [node for node in mapping.nodes if node not in storages]
    for depth in range(len(rest)):
        nodes: list[MappingNode] = [*rest[:depth], *storages, *rest[depth:]]
        candidate = Mapping(tuple(nodes))
        try:
            check_mapping(workload, arch, candidate)
        except MappingError:
            continue
        yield candidate


def family(name: str, members: Iterable[Mapping]) -> Family:
    """Return a family of distinct mappings."""
    return Family(name, tuple(dict.fromkeys(members)))


def _steps(workload: Workload, arch: Architecture, family: Family, level: str, counted: str) -> list[tuple[int, int]]:
    """Return the step function of a family: (size of `level`, least bits moved), sizes rising and bits falling."""
    fits: dict[int, int] = {}
    buffering = next(node.buffering for node in arch.levels if node.name == level)
    for mapping in family.members:
        cost = evaluate(workload, arch, mapping)
        if cost.legal:
            size = dict(cost.occupancy_bits)[level] * buffering
            rows = (row for row in cost.traffic if row.level == counted)
            bits = sum((row.reads + row.writes) * workload.tensor(row.tensor).bits for row in rows)
            fits[size] = min(bits, fits.get(size, bits))
    steps: list[tuple[int, int]] = []
    for size in sorted(fits):
        if not steps or fits[size] < steps[-1][1]:
            steps.append((size, fits[size]))
    return steps


def _least_bits(steps: list[tuple[int, int]], size: int) -> int | None:
    """Return the least bits moved at a buffer of `size`; None where no member fits."""
    return next((bits for least, bits in reversed(steps) if least <= size), None)


def _first_moves_less(stretch: Stretch) -> bool:
    """Return whether the first family moves less; a family of which a member fits moves less than one without."""
    if stretch.one_bits is None:
        return False
    return stretch.other_bits is None or stretch.one_bits < stretch.other_bits


def _without_limit(arch: Architecture, level: str) -> Architecture:
    nodes = (
        replace(node, capacity_bits=None) if isinstance(node, MemoryLevel) and node.name == level else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def _level_problems(arch: Architecture, level: str, *, inner: bool) -> Iterator[Mistake]:
    known = [node.name for node in arch.levels[1 if inner else 0 :]]
    if level not in known:
        kind = "a level below the outermost" if inner else "a level"
        yield Mistake("PM535", f"'{level}' is not {kind} of '{arch.name}'", did_you_mean(level, known))
