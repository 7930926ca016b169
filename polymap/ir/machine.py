"""The machine as data: memory levels, fan-outs and the compute unit, outermost first.

Energies, bandwidths and leakage are exact rationals: what the user wrote in decimal, not its binary float.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

from polymap.ir.brief import Brief
from polymap.ir.construction import Amount, Construction, Dims, Names, Offset, Rate, rules_of
from polymap.ir.display import Shown
from polymap.ir.errors import ArchError
from polymap.ir.loopnest import ROLE_WORDS, Tensor


class Multicast(Enum):
    """How the loads of siblings in one step are merged along a fan-out (docs/closed_form.md).

    IDENTICAL: siblings that load the same tile share one read. UNION: an element that several siblings load is read
    once, whatever else their tiles hold. NONE: every sibling reads for itself.
    """

    IDENTICAL = "identical"
    UNION = "union"
    NONE = "none"

    @property
    def shares_reads(self) -> bool:
        """Whether siblings that load the same tile share one read of the parent."""
        return self is not Multicast.NONE

    @property
    def unites_tiles(self) -> bool:
        """Whether an element common to different tiles is read once as well."""
        return self is Multicast.UNION


class FanoutKind(Enum):
    """What the siblings of a fan-out are: back ends lower spatial loops by it; no cost depends on it."""

    PLAIN = "plain"
    CORE = "core"
    LANE = "lane"
    BLOCK = "block"
    THREAD = "thread"


_KINDS_BY_NAME = {kind.value: kind for kind in (FanoutKind.CORE, FanoutKind.LANE)}


def kind_of_name(name: str) -> FanoutKind:
    """The kind of a fan-out that states none: fan-outs named `core` and `lane` are cores and lanes, others plain."""
    return _KINDS_BY_NAME.get(name, FanoutKind.PLAIN)


class Hops(Enum):
    """How many links of a fan-out a word passes: a line of `size` links, with a child at the end of each.

    UNICAST: every word of every child by itself, on average (size + 1) / 2 links. MULTICAST: a word passes the whole
    line once for all children that share it, on the way down and, added to theirs, on the way up.
    """

    UNICAST = "unicast"
    MULTICAST = "multicast"


@dataclass(frozen=True, slots=True)
class Grain:
    """What a bus takes for tensors of which it cannot move less at once: bits per element loaded and stored (none of
    others), at so many bits per cycle, beside what else limits latency."""

    reads: tuple[tuple[str, int], ...]
    writes: tuple[tuple[str, int], ...]
    bits_per_cycle: Fraction


# Of a level: what it says of single steps.
_OF_STEPS = (
    *("step_cycles", "beat_bits", "request_bits", "base_offset_bits", "row_requests", "command_bits"),
    *("write_command_bits", "request_latency_cycles", "in_flight", "one_bus", "keeps"),
)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryLevel(Brief):
    """A memory. None: unlimited capacity or bandwidth. Amounts may be given with a unit ("16 KiB"), kept as bits.

    holds: tensor names and roles ("@input") that may live here; None: all. must_hold: those that must.
    read_bandwidth/write_bandwidth stand together, instead of the shared bandwidth. burst_bits: what the outermost level
    moves at once (None: nothing is said); no count or cost depends on it but those of bursts. banks: words of
    `bank_bits` lie in so many in turn, each of which serves `ports` words a cycle (None: nothing is said); no count or
    cost depends on these but `bank_conflicts`.

    implicit: a cache, which keeps what was used last: code for the machine copies nothing into it, and what a mapping
    stores there is what it should keep. line_bits: of what a cache moves at once (None: one element); ways: lines of
    one set (None: any line may stand anywhere); miss_cycles: beyond the bandwidth outside, of a line that was evicted
    and is read again, among others that are; write_miss_cycles: of one that is written (None: the same). No count or
    cost depends on these five but latency in steps; `cache_misses` and `compile` do.

    Of latency in steps (docs/latency.md), each without effect where it is left out. step_cycles: to begin one visit of
    what is below. beat_bits: what its bus moves at once (None: single bits), of contiguous runs; request_bits: the
    aligned pieces of runs that are asked for (None: whole runs); base_offset_bits: where tensors begin;
    row_requests: whether runs end with their rows, along the last axis, even where the next row lies right behind;
    request_latency_cycles: from a request to its data; in_flight: requests that may wait at once (None: all).
    command_bits, write_command_bits: what one command loads or stores of a row (None: no commands). one_bus: whether
    its loads and stores take turns, not two buses side by side. keeps: False where every step loads its tiles of
    tensors that are only read, changed or not.

    area_um2, area_um2_per_bit: of one instance, beside what its capacity takes, and of each bit of the capacity; no
    count or cost depends on them, but the front of a sweep does.

    Of machines that bound others (costmodel.step_bounds), never in documents: grains, of the outermost level; in_turn:
    its transfers and compute wait for each other, and so does held_cycles_per_bit, for each bit that it holds.
    """

    name: str
    capacity_bits: Amount | None = None
    word_bits: Amount = 8
    read_pj: Fraction = Fraction(0)
    write_pj: Fraction = Fraction(0)
    leak_pj_per_cycle: Fraction = Fraction(0)
    bandwidth_bits_per_cycle: Rate | None = None
    read_bandwidth_bits_per_cycle: Rate | None = None
    write_bandwidth_bits_per_cycle: Rate | None = None
    buffering: int = 1
    holds: Names | None = None
    must_hold: Names = ()
    burst_bits: Amount | None = None
    banks: int | None = None
    bank_bits: Amount = 32
    ports: int = 1
    implicit: bool = False
    line_bits: Amount | None = None
    ways: int | None = None
    miss_cycles: Fraction = Fraction(0)
    write_miss_cycles: Fraction | None = None
    step_cycles: Fraction = Fraction(0)
    beat_bits: Amount | None = None
    request_bits: Amount | None = None
    base_offset_bits: Offset = 0
    row_requests: bool = False
    command_bits: Amount | None = None
    write_command_bits: Amount | None = None
    request_latency_cycles: Fraction = Fraction(0)
    in_flight: int | None = None
    one_bus: bool = False
    keeps: bool = True
    area_um2: Fraction = Fraction(0)
    area_um2_per_bit: Fraction = Fraction(0)
    grains: tuple[Grain, ...] = ()
    in_turn: bool = False
    held_cycles_per_bit: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check = Construction(self, f"level {self.name!r}", ArchError)
        check.fields()
        check.done()

    @property
    def is_timed_by_step(self) -> bool:
        """Whether it says anything of what single steps take."""
        told = self.beat_bits, self.request_bits, self.command_bits, self.write_command_bits, self.in_flight
        return any(each is not None for each in told) or bool(
            self.step_cycles or self.request_latency_cycles or self.one_bus or not self.keeps
        )

    @property
    def counts_runs(self) -> bool:
        """Whether some count or cost depends on which of the elements that move at once lie side by side in memory."""
        told = self.burst_bits, self.beat_bits, self.request_bits, self.command_bits, self.write_command_bits
        misses = self.implicit and self.line_bits is not None and (self.miss_cycles or self.write_miss_cycles)
        return any(each is not None for each in told) or bool(self.request_latency_cycles or misses)

    def without_steps(self) -> MemoryLevel:
        """Return the level without what it says of single steps."""
        return replace(self, **{each.name: each.default for each in rules_of(MemoryLevel) if each.name in _OF_STEPS})

    def naming_only(self, words: set[str]) -> MemoryLevel:
        """Return the level with these among the words that it holds or requires."""
        holds = None if self.holds is None else tuple(word for word in self.holds if word in words)
        return replace(self, holds=holds, must_hold=tuple(word for word in self.must_hold if word in words))

    @property
    def has_bandwidth(self) -> bool:
        """Whether its transfers take cycles."""
        found = (self.bandwidth_bits_per_cycle, self.read_bandwidth_bits_per_cycle, self.write_bandwidth_bits_per_cycle)
        return any(each is not None for each in found)

    @property
    def usable_bits(self) -> int | None:
        """The bits that the tiles of one instance may fill: each is held `buffering` times. None: unlimited."""
        return None if self.capacity_bits is None else self.capacity_bits // self.buffering

    def has_room_for(self, bits: int) -> bool:
        """Whether the tiles held at one time may take so many bits, before buffering."""
        return self.usable_bits is None or bits <= self.usable_bits

    def access_pj(self, read_bits: int, written_bits: int) -> Fraction:
        """The energy of so many bits read and written, in pJ: a part of a word costs its share."""
        return (read_bits * self.read_pj + written_bits * self.write_pj) / self.word_bits

    @property
    def instance_area_um2(self) -> Fraction | None:
        """The area of one instance; None where bits take area and there is no end of them."""
        if self.capacity_bits is None:
            return None if self.area_um2_per_bit else self.area_um2
        return self.area_um2 + self.capacity_bits * self.area_um2_per_bit

    def may_hold(self, tensor: Tensor) -> bool:
        """Whether the tensor may be stored here."""
        return self.holds is None or tensor.is_among(self.holds)

    def requires(self, tensor: Tensor) -> bool:
        """Whether every mapping must store the tensor here."""
        return tensor.is_among(self.must_hold)


@dataclass(frozen=True, slots=True, repr=False)
class Fanout(Brief):
    """`size` siblings side by side below the level above.

    reduction: whether what siblings write to one element is added on the way up. dims: which dims may be spread over
    it; None: all. kind: None stands for what the name says (see `kind_of_name`); a fan-out always has one.

    pj_per_word: a word (`word_bits` of the level above) that one child gets or gives. pj_per_word_hop: a word on one
    link; hops says how many it passes. reduce_pj: one addition of two elements on the way up. start_cycles: until all
    siblings run, each time that a loop over them begins (threads of a processor); `compile` chooses by it, and no cost
    depends on it.
    """

    name: str
    size: int
    multicast: Multicast = Multicast.IDENTICAL
    reduction: bool = True
    dims: Dims | None = None
    kind: FanoutKind | None = None
    pj_per_word: Fraction = Fraction(0)
    pj_per_word_hop: Fraction = Fraction(0)
    hops: Hops = Hops.UNICAST
    reduce_pj: Fraction = Fraction(0)
    start_cycles: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check = Construction(self, f"fan-out {self.name!r}", ArchError)
        check.fields()
        check.kind("multicast", Multicast)
        check.kind("hops", Hops)
        if self.kind is None and isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            object.__setattr__(self, "kind", kind_of_name(self.name))
        check.kind("kind", FanoutKind)
        check.done()

    def may_spread(self, dim: str) -> bool:
        """Whether loops over the dim may run over the siblings."""
        return self.dims is None or dim in self.dims

    @property
    def has_energies(self) -> bool:
        """Whether words or additions on the way cost energy."""
        return any((self.pj_per_word, self.pj_per_word_hop, self.reduce_pj))


@dataclass(frozen=True, slots=True, repr=False)
class ComputeUnit(Brief):
    """Executes `per_cycle` statement instances per cycle and instance.

    latency_cycles: until another instance can continue the sum of one; `compile` chooses by it, and no cost depends on
    it. Of latency in steps (docs/latency.md): a visit of the innermost nodes takes its instances, `pass_least_cycles`
    at least, and `fill_cycles` more; one that brings another tile of a tensor that is only read, `preload_cycles` more.
    area_um2: of one instance.
    """

    name: str
    pj: Fraction = Fraction(0)
    per_cycle: int = 1
    latency_cycles: int = 1
    pass_least_cycles: Fraction = Fraction(0)
    fill_cycles: Fraction = Fraction(0)
    preload_cycles: Fraction = Fraction(0)
    area_um2: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check = Construction(self, f"compute unit {self.name!r}", ArchError)
        check.fields()
        check.done()

    @property
    def is_timed_by_step(self) -> bool:
        """Whether it says anything of what single steps take."""
        return any((self.pass_least_cycles, self.fill_cycles, self.preload_cycles))

    def without_steps(self) -> ComputeUnit:
        """Return the unit without what it says of single steps."""
        return replace(self, pass_least_cycles=Fraction(0), fill_cycles=Fraction(0), preload_cycles=Fraction(0))


Node = MemoryLevel | Fanout | ComputeUnit


@dataclass(frozen=True, slots=True, repr=False)
class Architecture(Shown):
    """Nodes outermost first: the first a level of unlimited capacity, the last the one compute unit.

    overlap: latency is the maximum of compute and transfers (True) or their sum (False). start_cycles: once per run.
    """

    name: str
    nodes: tuple[Node, ...]
    overlap: bool = True
    source: str = ""
    start_cycles: Fraction = Fraction(0)
    levels: tuple[MemoryLevel, ...] = field(init=False, repr=False, compare=False)
    """The memory levels, outermost first."""
    fanouts: tuple[Fanout, ...] = field(init=False, repr=False, compare=False)
    """The fan-outs, outermost first."""

    def __post_init__(self) -> None:
        check = Construction(self, f"machine {self.name!r}", ArchError)
        check.text("name")
        check.kind("overlap", bool)
        check.items("nodes", (MemoryLevel, Fanout, ComputeUnit))
        check.number("start_cycles")
        check.done()
        # Searches ask for them more often than for anything else of a machine.
        object.__setattr__(self, "levels", tuple(node for node in self.nodes if isinstance(node, MemoryLevel)))
        object.__setattr__(self, "fanouts", tuple(node for node in self.nodes if isinstance(node, Fanout)))

    @property
    def compute(self) -> ComputeUnit:
        """The compute unit, the last node."""
        last = self.nodes[-1]
        assert isinstance(last, ComputeUnit)
        return last

    @property
    def area_um2(self) -> Fraction | None:
        """The area of all instances of all nodes; None where none states one, or a level of unlimited capacity states
        one per bit."""
        total = Fraction(0)
        for node, copies in self._instances():
            own = node.instance_area_um2 if isinstance(node, MemoryLevel) else node.area_um2
            if own is None:
                return None
            total += copies * own
        return total or None

    @property
    def on_chip_bits(self) -> int | None:
        """The capacities of all levels below the outermost, times their copies; None where one is unlimited."""
        inner = [
            (node.capacity_bits, copies) for node, copies in self._instances()[1:] if isinstance(node, MemoryLevel)
        ]
        total = sum(copies * (bits or 0) for bits, copies in inner)
        return None if any(bits is None for bits, _ in inner) else total

    def _instances(self) -> list[tuple[MemoryLevel | ComputeUnit, int]]:
        """Return the levels and the compute unit, outermost first, each with how many of it there are."""
        copies, found = 1, list[tuple[MemoryLevel | ComputeUnit, int]]()
        for node in self.nodes:
            if isinstance(node, Fanout):
                copies *= node.size
            else:
                found.append((node, copies))
        return found

    @property
    def is_timed_by_step(self) -> bool:
        """Whether latency depends on single steps, and not on what moves in the whole run alone."""
        return (
            bool(self.start_cycles)
            or self.compute.is_timed_by_step
            or any(level.is_timed_by_step for level in self.levels)
        )

    def without_steps(self) -> Architecture:
        """Return the machine without what it says of single steps: latency is what moves in the whole run."""
        if not self.is_timed_by_step:
            return self
        nodes = tuple(node if isinstance(node, Fanout) else node.without_steps() for node in self.nodes)
        return replace(self, nodes=nodes, start_cycles=Fraction(0))

    def naming_only(self, tensors: tuple[Tensor, ...]) -> Architecture:
        """Return the machine whose levels name no tensors but these and roles: for a part of a program."""
        known = {*ROLE_WORDS, *(tensor.name for tensor in tensors)}
        nodes = tuple(node.naming_only(known) if isinstance(node, MemoryLevel) else node for node in self.nodes)
        return self if nodes == self.nodes else replace(self, nodes=nodes)

    @property
    def has_energies(self) -> bool:
        """Whether any access, instance or cycle costs energy."""
        levels = (pj for level in self.levels for pj in (level.read_pj, level.write_pj, level.leak_pj_per_cycle))
        return any((*levels, self.compute.pj)) or self.has_wire_energies

    @property
    def has_wire_energies(self) -> bool:
        """Whether any fan-out costs energy."""
        return any(fanout.has_energies for fanout in self.fanouts)

    def word_bits_above(self, fanout: str) -> int:
        """Return `word_bits` of the last level above a fan-out."""
        word_bits = 1
        for node in self.nodes:
            if isinstance(node, MemoryLevel):
                word_bits = node.word_bits
            elif node.name == fanout:
                break
        return word_bits

    def level_index(self, name: str) -> int:
        """Return the position of a level among the levels, 0 the outermost (KeyError if there is none)."""
        for index, level in enumerate(self.levels):
            if level.name == name:
                return index
        raise KeyError(name)

    def fanouts_above(self, level: str | None) -> tuple[Fanout, ...]:
        """Return the fan-outs above a level, outermost first; all of them for None (the compute unit)."""
        above: list[Fanout] = []
        for node in self.nodes:
            if isinstance(node, MemoryLevel) and node.name == level:
                break
            if isinstance(node, Fanout):
                above.append(node)
        return tuple(above)
