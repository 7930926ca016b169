"""The machine as data: memory levels, fan-outs and the compute unit, outermost first.

Energies, bandwidths and leakage are exact rationals: what the user wrote in decimal, not its binary float.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from polymap.ir.display import Shown


class Multicast(Enum):
    """How what siblings load in one step is merged along a fan-out (design: counting, "Parent reads of fills")."""

    IDENTICAL = "identical"
    UNION = "union"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A memory. None: unlimited capacity or bandwidth.

    holds: tensor names and roles ("@input") that may live here; None: all. must_hold: those that must.
    read_bandwidth/write_bandwidth stand together, instead of the shared bandwidth.
    """

    name: str
    capacity_bits: int | None = None
    word_bits: int = 8
    read_pj: Fraction = Fraction(0)
    write_pj: Fraction = Fraction(0)
    leak_pj_per_cycle: Fraction = Fraction(0)
    bandwidth_bits_per_cycle: Fraction | None = None
    read_bandwidth_bits_per_cycle: Fraction | None = None
    write_bandwidth_bits_per_cycle: Fraction | None = None
    buffering: int = 1
    holds: tuple[str, ...] | None = None
    must_hold: tuple[str, ...] = ()

    @property
    def has_bandwidth(self) -> bool:
        """Whether its transfers take cycles."""
        found = (self.bandwidth_bits_per_cycle, self.read_bandwidth_bits_per_cycle, self.write_bandwidth_bits_per_cycle)
        return any(each is not None for each in found)


@dataclass(frozen=True, slots=True)
class Fanout:
    """`size` siblings side by side below the level above. dims: which dims may be spread over it; None: all."""

    name: str
    size: int
    multicast: Multicast = Multicast.IDENTICAL
    reduction: bool = True
    dims: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ComputeUnit:
    """Executes `per_cycle` statement instances per cycle and instance."""

    name: str
    pj: Fraction = Fraction(0)
    per_cycle: int = 1


Node = MemoryLevel | Fanout | ComputeUnit


@dataclass(frozen=True, slots=True)
class Architecture(Shown):
    """Nodes outermost first: the first a level of unlimited capacity, the last the one compute unit.

    overlap: latency is the maximum of compute and transfers (True) or their sum (False).
    """

    name: str
    nodes: tuple[Node, ...]
    overlap: bool = True
    source: str = ""

    @property
    def levels(self) -> tuple[MemoryLevel, ...]:
        return tuple(node for node in self.nodes if isinstance(node, MemoryLevel))

    @property
    def fanouts(self) -> tuple[Fanout, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Fanout))

    @property
    def compute(self) -> ComputeUnit:
        last = self.nodes[-1]
        assert isinstance(last, ComputeUnit)
        return last

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
