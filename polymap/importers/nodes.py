"""Nodes of a model in order, sorted into mapped ones, views and those without a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType

from polymap.importers.operators import Call, NotMapped, parts_of
from polymap.ir import MissingPackageError, Mistake, WorkloadError
from polymap.networks import MappedNode, Network, Part, Unmapped, View, network_of_nodes

_EXTRAS = {"ruamel.yaml": "timeloop", "xdsl.context": "xdsl"}  # of packages whose extra has another name


def extra(package: str, caller: str) -> ModuleType:
    """Return an optional package; raises MissingPackageError, with the install line, where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        what = f"{caller} needs the package {package}, which is not installed"
        raise MissingPackageError(
            Mistake("PM752", what, f"pip install 'polymap[{_EXTRAS.get(package, package)}]'")
        ) from None


class Nodes:
    """Collects the nodes of a model; every node is told exactly once."""

    def __init__(self) -> None:
        self._mapped: list[MappedNode] = []
        self._views: list[View] = []
        self._left_out: list[Unmapped] = []
        self._edges: list[tuple[str, str]] = []
        self._producer: dict[str, str] = {}

    def tell(self, node: str, operator: str, read: Callable[[], Call | tuple[Part, ...] | None]) -> None:
        """Note a node: the call, or its workloads, that `read` returns, a view where it is None, or the reason of
        NotMapped."""
        try:
            call = read()
            if call is None:
                self._views.append(View(node, operator))
            else:
                parts = parts_of(call) if isinstance(call, Call) else call
                self._mapped.append(MappedNode(node, operator, parts))
        except NotMapped as reason:
            self._left_out.append(Unmapped(node, operator, str(reason)))
        except WorkloadError as error:  # sizes beyond what a workload may have
            self._left_out.append(Unmapped(node, operator, error.mistakes[0].what))

    def connect(self, node: str, reads: Iterable[str], writes: Iterable[str]) -> None:
        """Note the edges from the producers of the values that a node reads; then it produces what it writes."""
        self._edges += [(self._producer[value], node) for value in reads if value in self._producer]
        self._producer.update(dict.fromkeys(writes, node))

    def network(self, name: str) -> Network:
        """Return all of it."""
        return network_of_nodes(name, self._mapped, self._views, self._left_out, self._edges)
