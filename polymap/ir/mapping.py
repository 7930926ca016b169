"""The mapping as data: a loop tree, outermost node first (docs/counting.md, "A mapping is a loop tree")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polymap.ir.construction import Construction
from polymap.ir.display import Shown
from polymap.ir.errors import MappingError

_TILES = (int, bool)  # what `check_mapping` answers for, with the place in the tree: below 1, true


@dataclass(frozen=True, slots=True)
class Storage:
    """From here inwards these tensors live in `level`."""

    level: str
    tensors: tuple[str, ...]

    def __post_init__(self) -> None:
        if type(self.level) is not str or type(self.tensors) is not tuple or not _are_texts(self.tensors):
            check = Construction(self, "storage node", MappingError)
            check.text("level")
            check.items("tensors", (str,))
            check.done()

    def of(self, keeps: Callable[[str], object]) -> tuple[Storage, ...]:
        """Return the node for some of its tensors; () where it has none of them."""
        tensors = tuple(name for name in self.tensors if keeps(name))
        return (Storage(self.level, tensors),) if tensors else ()


@dataclass(frozen=True, slots=True)
class Temporal:
    """A sequential loop; one iteration covers `tile` indices of `dim`."""

    dim: str
    tile: int

    def __post_init__(self) -> None:
        if type(self.dim) is not str or type(self.tile) not in _TILES:
            check = Construction(self, "temporal loop", MappingError)
            check.text("dim")
            check.integer("tile", least=None)
            check.done()


@dataclass(frozen=True, slots=True)
class Spatial:
    """A parallel loop over the instances of `fanout`; one iteration covers `tile` indices of `dim`."""

    dim: str
    tile: int
    fanout: str

    def __post_init__(self) -> None:
        if type(self.dim) is not str or type(self.tile) not in _TILES or type(self.fanout) is not str:
            check = Construction(self, "spatial loop", MappingError)
            check.text("dim")
            check.integer("tile", least=None)
            check.text("fanout")
            check.done()


@dataclass(frozen=True, slots=True)
class Compute:
    """The innermost node: each time, one instance of `statement` runs."""

    statement: str

    def __post_init__(self) -> None:
        if type(self.statement) is not str:
            check = Construction(self, "compute node", MappingError)
            check.text("statement")
            check.done()


@dataclass(frozen=True, slots=True)
class Branch:
    """Children that run one after the other, each a sequence of nodes; the last node of its sequence."""

    children: tuple[tuple[MappingNode, ...], ...]

    def __post_init__(self) -> None:
        check = Construction(self, "branch", MappingError)
        check.items("children", (tuple,))
        check.done()
        for child in self.children:
            Mapping(child)


MappingNode = Storage | Temporal | Spatial | Compute | Branch
_NODES = (Storage, Temporal, Spatial, Compute, Branch)
_KINDS = frozenset(_NODES)


def _are_texts(values: tuple[object, ...]) -> bool:
    return all(type(value) is str for value in values)


@dataclass(frozen=True, slots=True, repr=False)
class Mapping(Shown):
    """A loop tree: nodes outermost first, the last one a Compute or a Branch."""

    nodes: tuple[MappingNode, ...]

    def __post_init__(self) -> None:
        if type(self.nodes) is not tuple or not _KINDS.issuperset(map(type, self.nodes)):
            check = Construction(self, "mapping", MappingError)
            check.items("nodes", _NODES)
            check.done()


def changed_nodes(
    nodes: Sequence[MappingNode], change: Callable[[Storage | Temporal | Spatial | Compute], MappingNode]
) -> tuple[MappingNode, ...]:
    """Return nodes each of which is changed, those of the children of branches with them, from left to right."""
    return tuple(
        Branch(tuple(changed_nodes(child, change) for child in node.children))
        if isinstance(node, Branch)
        else change(node)
        for node in nodes
    )


def statements_below(nodes: tuple[MappingNode, ...]) -> tuple[str, ...]:
    """Return the statements below some nodes, the last of which is a Compute or a Branch, from left to right."""
    last = nodes[-1]
    if isinstance(last, Compute):
        return (last.statement,)
    assert isinstance(last, Branch), "a sequence of nodes ends so"
    return tuple(name for child in last.children for name in statements_below(child))
