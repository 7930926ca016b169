"""Nodes of a model in order, sorted into mapped ones, views and those without a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from polymap.importers.calls import Call, NotMapped, Operand
from polymap.importers.operators import operand_tensors, parts_of
from polymap.importers.tuning import TUNING
from polymap.inputs import as_integer, is_table, shown
from polymap.ir import InputError, MissingPackageError, Mistake, WorkloadError
from polymap.networks import Feed, MappedNode, Network, Part, Unmapped, View, network_of_nodes

_EXTRAS = {
    "ruamel.yaml": "timeloop",
    "jinja2": "timeloop",
    "jinja2.sandbox": "timeloop",
    "xdsl.context": "xdsl",
}  # of packages whose extra has another name


def extra(package: str, caller: str) -> ModuleType:
    """Return an optional package; raises MissingPackageError, with the install line, where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        what = f"{caller} needs the package {package}, which is not installed"
        raise MissingPackageError(
            Mistake("PM752", what, f"pip install 'polymap[{_EXTRAS.get(package, package)}]'")
        ) from None


def refusals() -> tuple[type[Exception], ...]:
    """Return what onnx, protobuf and the numpy code of onnx's operators raise where they cannot read or run a node.

    The classes of onnx's C++ are bare exceptions; what its bindings have no class for arrives as a RuntimeError.
    """
    checker, defs, shapes, protobuf = (
        extra(name, "from_onnx")
        for name in ("onnx.checker", "onnx.defs", "onnx.shape_inference", "google.protobuf.message")
    )
    foreign = (checker.ValidationError, defs.SchemaError, shapes.InferenceError, protobuf.Error)
    plain = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
    return (*foreign, *plain, RuntimeError, TypeError, ValueError)


def line_of(error: Exception) -> str:
    """Return what an error of another package says, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def given_table(given: object, what: str, example: str) -> Mapping[str, object]:
    """Return a table that a caller gave, none for None; raises InputError (PM641)."""
    if given is None:
        return {}
    if not is_table(given):
        raise InputError(Mistake("PM641", f"the {what} are {shown(given)}", f"Expected such as {example}."))
    return given


def checked_size(what: str, value: object, mistakes: list[Mistake]) -> int:
    """Return a size that a caller gave; adds the mistake of one that is none."""
    size = as_integer(value)
    if size is None or not 0 < size < TUNING.most_size:
        mistakes.append(Mistake("PM641", f"{what} is {shown(value)}", "Expected an integer >= 1."))
        return 1
    return size


def check_bits(bits: object) -> None:
    """Raise InputError where the bits that a caller gave, if any, are none."""
    mistakes: list[Mistake] = []
    if bits is not None:
        checked_size("bits", bits, mistakes)
    if mistakes:
        raise InputError(mistakes)


class Loops(NamedTuple):
    """The workloads of a node, where its operands come from, in their order, and which tensor of the workloads each is
    (() where that is not known)."""

    parts: tuple[Part, ...]
    operands: tuple[Operand, ...] = ()
    tensors: tuple[str, ...] = ()

    @staticmethod
    def of(call: Call) -> Loops:
        """Return the workloads of a call; raises NotMapped."""
        parts = parts_of(call)
        return Loops(parts, call.operands, operand_tensors(call.operator, parts))


class Inner(NamedTuple):
    """Where an inner graph of a model stands: the name of the node in front of those of its nodes, the node's operator,
    and how often it runs; None where that depends on values, so that nothing in it is mapped."""

    prefix: str
    operator: str
    times: int | None = 1


OUTER = Inner("", "")


class Nodes:
    """Collects the nodes of a model; every node is told exactly once."""

    def __init__(self) -> None:
        self._mapped: list[MappedNode] = []
        self._views: list[View] = []
        self._left_out: list[Unmapped] = []
        self._macs: list[tuple[str, int]] = []
        self._edges: list[tuple[str, str]] = []
        self._feeds: list[Feed] = []
        self._producer: dict[str, tuple[str, int]] = {}
        self._returned: list[str] = []

    def tell(
        self,
        node: str,
        operator: str,
        read: Callable[[], Call | Loops | None],
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        inner: Inner = OUTER,
    ) -> None:
        """Note a node: the call, or its workloads, that `read` returns, a view where it is None, or the reason of
        NotMapped. reads, writes: names of the values at its inputs and outputs, in order. inner: the graph around."""
        reads = list(reads)
        self._edges += [(self._producer[value][0], node) for value in reads if value in self._producer]
        try:
            call = read()
            if call is None:
                self._views.append(View(node, operator))
            else:
                loops = Loops.of(call) if isinstance(call, Call) else call
                times = _times(loops, inner)
                self._mapped.append(MappedNode(node, operator, loops.parts, times))
                self._feed(node, loops, reads)
        except NotMapped as reason:
            self._left_out.append(Unmapped(node, operator, str(reason)))
            is_known = reason.macs is not None and (inner.times is not None or reason.macs == 0)
            self._macs += [(node, (reason.macs or 0) * (inner.times or 0))] if is_known else []
        except WorkloadError as error:  # sizes beyond what a workload may have
            self._left_out.append(Unmapped(node, operator, error.mistakes[0].what))
        self.produces(node, writes)

    def produces(self, node: str, values: Iterable[str]) -> None:
        """Note which values are the results of a node, in order."""
        self._producer.update((value, (node, place)) for place, value in enumerate(values))

    def renames(self, value: str, name: str) -> None:
        """Note another name of a value: a block's result is that of a node inside."""
        if value in self._producer:
            self._producer[name] = self._producer[value]

    def returns(self, values: Iterable[str]) -> None:
        """Note values that are results of the model, or of a graph inside it."""
        self._returned += values

    def _feed(self, node: str, loops: Loops, reads: Iterable[str]) -> None:
        """Note of every value that a mapped node reads from another one, which tensor of its loop nest that is."""
        parts, operands, known_tensors = loops
        if len(parts) == 1 and not known_tensors:
            known_tensors = tuple(each.tensor for each in parts[0].workload.statements[0].reads)
        if not known_tensors:
            return
        tensors = [*known_tensors, *("" for _ in operands)][: len(operands)]
        known = {operand.value for operand in operands}
        beside = [Operand(value) for value in reads if value not in known]
        for operand, tensor in zip((*operands, *beside), (*tensors, *("" for _ in beside)), strict=True):
            producer, place = self._producer.get(operand.value, ("", 0))
            if producer:
                self._feeds.append(_fed(Feed(producer, node, tensor), operand, place))

    def network(self, name: str) -> Network:
        """Return all of it."""
        returned = (self._producer[value][0] for value in self._returned if value in self._producer)
        lists = (self._mapped, self._views, self._left_out, self._edges, self._feeds, self._macs)
        return network_of_nodes(name, *lists, returned)


def _times(loops: Loops, inner: Inner) -> int:
    """Return how often a node runs; raises NotMapped where that depends on values."""
    if inner.times is None:
        macs = sum(part.macs for part in loops.parts)
        told = f"; {macs:,} MACs each time" if macs else ""
        what = f"it stands inside {inner.operator}: whether and how often it runs depends on values{told}"
        raise NotMapped(what, macs)
    return inner.times


def _fed(feed: Feed, operand: Operand, place: int) -> Feed:
    if not feed.tensor:
        reason = f"{feed.consumer} reads what {feed.producer} writes beside its loop nest (a bias, an index, a scale)"
        return feed._replace(reason=reason)
    if place:
        return feed._replace(tensor="", reason=f"{feed.consumer} reads result {place} of {feed.producer}")
    if operand.is_turned:
        return feed._replace(tensor="", reason=f"{feed.consumer} reads what {feed.producer} writes transposed")
    return feed
