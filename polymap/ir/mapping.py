"""The mapping as data: a loop tree, outermost node first (docs/counting.md, "A mapping is a loop tree")."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.ir.display import Shown


@dataclass(frozen=True, slots=True)
class Storage:
    """From here inwards these tensors live in `level`."""

    level: str
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Temporal:
    """A sequential loop; one iteration covers `tile` indices of `dim`."""

    dim: str
    tile: int


@dataclass(frozen=True, slots=True)
class Spatial:
    """A parallel loop over the instances of `fanout`; one iteration covers `tile` indices of `dim`."""

    dim: str
    tile: int
    fanout: str


@dataclass(frozen=True, slots=True)
class Compute:
    """One instance of `statement`."""

    statement: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Children that run one after the other, each a sequence of nodes; the last node of its sequence."""

    children: tuple[tuple[MappingNode, ...], ...]


MappingNode = Storage | Temporal | Spatial | Compute | Branch


@dataclass(frozen=True, slots=True)
class Mapping(Shown):
    """A loop tree: nodes outermost first, the last one a Compute or a Branch."""

    nodes: tuple[MappingNode, ...]
