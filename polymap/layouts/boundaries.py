"""The tensors between the layers of a network: who writes them, who reads them, and what that costs in each layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polymap.costmodel import Layout, candidates
from polymap.formatting import listing
from polymap.ir import Architecture, BudgetError, Tensor
from polymap.layouts.bursts import bursts_of, bursts_of_layouts
from polymap.networks import Feed, LayerAnswer

Edge = tuple[str, str, str]  # producer, consumer, and the consumer's tensor or ""


@dataclass(frozen=True, slots=True)
class Use:
    """A node that writes or reads a tensor, and which tensor of its workload that is. bursts: per layout."""

    node: str
    tensor: str
    bursts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor between nodes: who writes it and who reads it, in which layouts, and what conversions cost.

    conversions: [from][to] bursts of reading all of it in one layout and writing it in another; 0 from each to itself.
    """

    producer: Use
    consumers: tuple[Use, ...]
    layouts: tuple[Layout, ...]
    conversions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ChosenLayout:
    """The layouts of one boundary: as it is written, and as each consumer reads it; bursts, conversions included."""

    boundary: Boundary
    written: Layout
    read: tuple[Layout, ...]
    bursts: int

    @property
    def converted(self) -> tuple[Layout, ...]:
        """The layouts into which the tensor is converted, each once."""
        return tuple(dict.fromkeys(each for each in self.read if each != self.written))


def chosen_layout(boundary: Boundary, written: int, read: tuple[int, ...]) -> ChosenLayout:
    """Return a boundary with its layouts, by number, and its bursts."""
    total = boundary.producer.bursts[written]
    total += sum(use.bursts[place] for use, place in zip(boundary.consumers, read, strict=True))
    total += sum(boundary.conversions[written][place] for place in set(read))
    layouts = boundary.layouts
    return ChosenLayout(boundary, layouts[written], tuple(layouts[place] for place in read), total)


class BoundaryReader:
    """Reads boundaries off the nodes of a network; bursts of equal layers are counted once."""

    def __init__(self, arch: Architecture, nodes: dict[str, tuple[LayerAnswer, ...]]) -> None:
        self._arch, self._nodes = arch, nodes
        self._known: dict[tuple[int, str, tuple[Layout, ...]], tuple[int, ...]] = {}

    def boundaries(self, feeds: list[Feed]) -> tuple[list[Boundary], list[tuple[str, str, str]]]:
        """Return the boundaries in order of their producers, and the feeds that are none, each with its reason."""
        left_out: list[tuple[str, str, str]] = []
        readers: dict[str, list[tuple[str, str]]] = {}
        for feed in feeds:
            reason = self._reason(feed)
            if reason:
                left_out.append((feed.producer, feed.consumer, reason))
            else:
                readers.setdefault(feed.producer, []).append((feed.consumer, feed.tensor))
        found: list[Boundary] = []
        for producer, uses in readers.items():
            try:
                found.append(self._boundary(producer, uses))
            except BudgetError as error:
                left_out += [(producer, consumer, error.mistakes[0].what) for consumer, _ in uses]
        return found, left_out

    def _reason(self, feed: Feed) -> str:
        """Return why a feed is no boundary; "" for one that is."""
        producer, consumer = feed.producer, feed.consumer
        for name in (producer, consumer):
            nests = self._nodes.get(name, ())
            if len(nests) != 1:
                return f"{name} is {f'{len(nests)} loop nests' if nests else 'a view, or has no workload'}"
            if nests[0].result.best is None:
                return f"{name} has no mapping"
        if not feed.tensor:
            return feed.reason
        workload, shape = self._nodes[consumer][0].layer.workload, self._output(producer).shape
        read = workload.tensor(feed.tensor).shape
        if len(read) == len(shape) and all(a >= b for a, b in zip(read, shape, strict=True)):
            return ""
        return f"{consumer} reads {feed.tensor} in {_axes(read)}, and {producer} writes {_axes(shape)}"

    def placed(self, edges: Iterable[Edge]) -> list[Feed]:
        """Return the operands that hand-written edges are: the ones they name, else the operand that alone can be read
        from the producer, else, where as many edges as operands are left, these in the order of the edges."""
        left: dict[str, list[Feed]] = {}
        for producer, consumer, tensor in edges:
            left.setdefault(consumer, []).append(Feed(producer, consumer, tensor))
        return [feed for consumer, own in left.items() for feed in self._placed(consumer, own)]

    def _placed(self, consumer: str, feeds: list[Feed]) -> list[Feed]:
        nests = self._nodes.get(consumer, ())
        if len(nests) != 1:
            return feeds
        reads = dict.fromkeys(access.tensor for access in nests[0].layer.workload.statements[0].reads)
        named = {feed.tensor for feed in feeds}
        free = [name for name in reads if name not in named]
        open_feeds = [feed for feed in feeds if not feed.tensor]
        in_order = dict(zip(map(id, open_feeds), free, strict=True)) if len(open_feeds) == len(free) else {}
        found: list[Feed] = []
        for feed in feeds:
            fitting = [name for name in free if not self._reason(feed._replace(tensor=name))]
            several = f"{listing(fitting)} of {consumer} can be what {feed.producer} writes"
            reason = f"{several}: give (producer, consumer, tensor)" if fitting else self._unfit(feed)
            if feed.tensor:
                found.append(feed)
            elif len(fitting) == 1 and not in_order:
                found.append(feed._replace(tensor=fitting[0]))
            else:
                found.append(feed._replace(tensor=in_order.get(id(feed), ""), reason=reason))
        return found

    def _unfit(self, feed: Feed) -> str:
        if len(self._nodes.get(feed.producer, ())) != 1:
            return ""  # told of the producer
        axes = len(self._output(feed.producer).shape)
        return f"{feed.consumer} reads no tensor of {axes} axes that are as long as those of {feed.producer}"

    def _output(self, node: str) -> Tensor:
        workload = self._nodes[node][0].layer.workload
        return workload.tensor(workload.statements[0].target.tensor)

    def _boundary(self, producer: str, readers: list[tuple[str, str]]) -> Boundary:
        output = self._output(producer)
        burst_bits = bursts_of(self._arch).bits
        layouts = candidates(len(output.shape), burst_bits // output.bits)
        sizes = [-(-layout.elements(output.shape) * output.bits // burst_bits) for layout in layouts]
        conversions = tuple(
            tuple(0 if one == other else sizes[one] + sizes[other] for other in range(len(layouts)))
            for one in range(len(layouts))
        )
        consumers = tuple(self._use(node, tensor, layouts) for node, tensor in readers)
        return Boundary(self._use(producer, output.name, layouts), consumers, layouts, conversions)

    def _use(self, node: str, tensor: str, layouts: tuple[Layout, ...]) -> Use:
        (answer,) = self._nodes[node]
        key = id(answer), tensor, layouts
        if key not in self._known:
            workload, best, cost = answer.layer.workload, answer.result.best, answer.result.cost
            counted = bursts_of_layouts(workload, self._arch, best, cost, workload.tensor(tensor), layouts)
            self._known[key] = tuple(each.bursts for each in counted)
        return Use(node, tensor, self._known[key])


def _axes(shape: tuple[int, ...]) -> str:
    return f"{len(shape)} axes ({' x '.join(map(str, shape))})"
