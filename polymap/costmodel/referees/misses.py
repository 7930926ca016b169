"""What caches really move: misses of lines, where what was used last stays, beside what a mapping says should stay."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping as Table
from dataclasses import dataclass
from fractions import Fraction

from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.layout import Layout
from polymap.costmodel.pieces import expected_layouts
from polymap.costmodel.referees.touches import Touches, touches_of
from polymap.inputs import answers_in_words
from polymap.ir import Architecture, Mapping, MemoryLevel, Mistake, OptionError, Shown, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of


@dataclass(frozen=True, slots=True)
class TensorMisses:
    """One tensor at one cache, summed over its instances.

    held_elements: elements that enter or leave this cache if it holds exactly what the mapping says. missed_lines:
    lines fetched if it holds what was used last; line_elements: elements of one line.
    """

    level: str
    tensor: str
    held_elements: int
    missed_lines: int
    line_elements: Fraction

    @property
    def missed_elements(self) -> Fraction:
        """Elements of the lines that are fetched."""
        return self.missed_lines * self.line_elements

    @property
    def ratio(self) -> Fraction | None:
        """Elements fetched per element that the mapping moves; None where it moves none."""
        return self.missed_elements / self.held_elements if self.held_elements else None


@dataclass(frozen=True, slots=True, repr=False)
class CacheMisses(Shown):
    """The misses of a mapping: caches outermost first, tensors in the workload's order."""

    workload: str
    arch: str
    rows: tuple[TensorMisses, ...]

    def at(self, level: str, tensor: str) -> TensorMisses:
        """Return one row (KeyError if there is none)."""
        for row in self.rows:
            if (row.level, row.tensor) == (level, tensor):
                return row
        raise KeyError((level, tensor))


@answers_in_words
def cache_misses(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: Mapping,
    layouts: Table[str, Layout | str] | None = None,
    *,
    fully_associative: bool = False,
) -> CacheMisses:
    """Return how many lines each implicit level of the machine misses, tensor by tensor, from a walk of all accesses.

    Each cache evicts the line of a set that was used longest ago (`line_bits`, `ways`), and sees the misses of the one
    inside of it; writes fetch lines as reads do. layouts: of tensors, as for `burst_counts`; tensors follow one another
    in memory, each from a line on. fully_associative: as if any line could stand anywhere.

    Raises OptionError for a machine without caches, with another level between two, or with lines that do not fit a
    cache or hold no whole number of elements (PM476), and for layouts that are none of the tensor's (PM470);
    BudgetError (PM477) for more than 20 million accesses, or addresses of more than 62 bits.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    caches = _caches(arch)
    _check_lines(caches, workload)
    tables = {name: each for name, (each,) in expected_layouts(workload, layouts).items()}
    cost = evaluate(workload, arch, mapping)
    aligned = max(cache.line_bits or cache.word_bits for cache in caches)
    misses = _missed(arch, caches, touches_of(workload, arch, mapping, tables, aligned), is_full=fully_associative)
    rows = [
        TensorMisses(
            cache.name,
            tensor.name,
            _held(workload, arch, cost, cache.name, tensor.name),
            misses[cache.name, number],
            Fraction(cache.line_bits or cache.word_bits, tensor.bits),
        )
        for cache in caches
        for number, tensor in enumerate(workload.tensors)
    ]
    return CacheMisses(workload.name, arch.name, tuple(rows))


def _caches(arch: Architecture) -> list[MemoryLevel]:
    places = [number for number, level in enumerate(arch.levels) if level.implicit]
    if not places:
        what = f"machine {arch.name!r} has no cache"
        hint = 'A level is one with "implicit": true, as those of host_cpu are.'
        raise OptionError(Mistake("PM476", what, hint))
    between = [level.name for level in arch.levels[places[0] : places[-1]] if not level.implicit]
    if between:
        what = f"level {between[0]!r} of machine {arch.name!r} stands between caches and is none"
        raise OptionError(Mistake("PM476", what, "Caches follow one another: make it implicit too."))
    return [arch.levels[number] for number in places]


def _check_lines(caches: list[MemoryLevel], workload: Workload) -> None:
    """Refuse lines that a cache cannot keep, or that an element would straddle."""
    mistakes: list[Mistake] = []
    for cache in caches:
        line_bits = cache.line_bits or cache.word_bits
        if line_bits > (cache.capacity_bits or 0):
            what = (
                f"a line of level {cache.name!r} has {line_bits} bits, more than its capacity of {cache.capacity_bits}"
            )
            mistakes.append(Mistake("PM476", what, "A line is often of 64 B: one or more fit a cache."))
        cut = [tensor for tensor in workload.tensors if line_bits % tensor.bits]
        if cut:
            what = f"a line of level {cache.name!r} has {line_bits} bits: no whole elements of {cut[0].name!r}"
            mistakes.append(Mistake("PM476", what, f"It is a multiple of the element's {cut[0].bits} bits."))
    if mistakes:
        raise OptionError(mistakes)


def _missed(
    arch: Architecture, caches: list[MemoryLevel], touches: Touches, *, is_full: bool
) -> Counter[tuple[str, int]]:
    """Return the missed lines per cache and tensor."""
    found: Counter[tuple[str, int]] = Counter()
    accesses = list(zip(touches.address.tolist(), touches.tensor.tolist(), touches.coordinates.tolist(), strict=True))
    for cache in reversed(caches):
        width = len(arch.fanouts_above(cache.name))
        line_bits = cache.line_bits or cache.word_bits
        lines = max((cache.capacity_bits or 0) // line_bits, 1)
        ways = lines if is_full or cache.ways is None else min(cache.ways, lines)
        sets = lines // ways
        held: dict[tuple[int, ...], OrderedDict[int, None]] = {}
        left: list[tuple[int, int, list[int]]] = []
        for address, tensor, coordinates in accesses:
            line = address // line_bits
            key = (line % sets, *coordinates[:width])
            at = held.get(key)
            if at is None:
                at = held[key] = OrderedDict()
            if line in at:
                at.move_to_end(line)
                continue
            left.append((address, tensor, coordinates))
            at[line] = None
            if len(at) > ways:
                at.popitem(last=False)
        found.update((cache.name, tensor) for _, tensor, _ in left)
        accesses = left
    return found


def _held(workload: Workload, arch: Architecture, cost: Cost, cache: str, tensor: str) -> int:
    """Return the elements that come to the tensor's outermost place at the cache or inside of it, or leave it,
    whichever are more; without one, its accesses."""
    for level in arch.levels[arch.level_index(cache) :]:
        for row in cost.traffic:
            if (row.level, row.tensor) == (level.name, tensor):
                return max(row.fills, row.drains)
    return max(
        sum(max(row.reads, row.writes) for row in cost.traffic if row.tensor == tensor and row.level == level.name)
        for level in arch.levels
    )
