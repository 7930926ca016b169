"""A network as data: its distinct layers with multiplicities, its views, and the nodes that have no workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from polymap.formatting import distinct_names
from polymap.inputs import answers_in_words, expected_text, shown
from polymap.ir import Brief, Mistake, Shown, Workload, WorkloadError, did_you_mean
from polymap.workload import builtin_names, builtin_networks, builtin_workload, network_layers


class View(NamedTuple):
    """A node that computes nothing: it renames, splits, joins or reorders elements (reshape, transpose, concat)."""

    node: str
    operator: str


class Unmapped(NamedTuple):
    """A node without a workload, and why."""

    node: str
    operator: str
    reason: str


class Feed(NamedTuple):
    """An operand of a node that another node's result is. tensor: the one of the consumer's loop nest; "" where it is
    none, with the reason."""

    producer: str
    consumer: str
    tensor: str
    reason: str = ""


class Part(NamedTuple):
    """A workload of a node. is_product: its instances are multiply-accumulates (convolutions, matrix products)."""

    workload: Workload
    is_product: bool

    @property
    def macs(self) -> int:
        """Multiply-accumulates: its instances if it is a product, else 0."""
        return prod(dim.extent for dim in self.workload.dims) if self.is_product else 0


class MappedNode(NamedTuple):
    """A node and the workloads that compute it, in order (attention: scores, softmax, context); what a workload calls
    as an earlier one calls its result is that result. times: how often it runs (in a loop of the model)."""

    node: str
    operator: str
    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class NetworkLayer(Brief):
    """A distinct workload and how many nodes of the network compute it.

    name: of its first node. operators: what these nodes are called in the model ("Conv", "Gemm"), "" for built-in ones.
    """

    name: str
    workload: Workload
    multiplicity: int
    operator: str = ""
    is_product: bool = True

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one of these nodes: its instances if it is a product, else 0."""
        return Part(self.workload, self.is_product).macs


@dataclass(frozen=True, slots=True, repr=False)
class Network(Shown):
    """A network: what is computed, how often, and what of the model computes nothing or has no workload.

    layers: distinct workloads in order of their first node. views: nodes that only rename elements. left_out: nodes
    without a workload. edges: (node, node) pairs, producer first, over all nodes. mapped: each node that has a
    workload, in order, with the numbers of its layers. feeds: which operand of a mapped node each edge is, where the
    model tells. left_out_macs: the multiply-accumulates of nodes without a workload, where their operator tells them.
    returned: nodes whose results are needed after the run, also where other nodes read them. repeated: nodes that run
    several times.
    """

    name: str
    layers: tuple[NetworkLayer, ...]
    views: tuple[View, ...] = ()
    left_out: tuple[Unmapped, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    mapped: tuple[tuple[str, tuple[int, ...]], ...] = ()
    feeds: tuple[Feed, ...] = ()
    left_out_macs: tuple[tuple[str, int], ...] = ()
    returned: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Tell layers of one name apart: the second one has #2 behind it."""
        names = distinct_names([each.name for each in self.layers])
        named = zip(names, self.layers, strict=True)
        layers = tuple(each if each.name == name else replace(each, name=name) for name, each in named)
        object.__setattr__(self, "layers", layers)

    @property
    def unmapped(self) -> list[Unmapped]:
        """The nodes without a workload, as (node name, operator, reason)."""
        return list(self.left_out)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all mapped nodes: convolutions and products; additions of other nodes are none."""
        return sum(layer.macs * layer.multiplicity for layer in self.layers)

    @property
    def unmapped_macs(self) -> int | None:
        """Multiply-accumulates of the nodes without a workload; None where one's are not known."""
        known = dict(self.left_out_macs)
        return sum(known.values()) if all(each.node in known for each in self.left_out) else None

    @property
    def mapped_nodes(self) -> int:
        """How many nodes have a workload."""
        return len(self.mapped) or sum(layer.multiplicity for layer in self.layers)

    @property
    def is_complete(self) -> bool:
        """Whether every node that computes has a workload."""
        return not self.left_out

    @property
    def lacks_products(self) -> bool:
        """Whether nothing that multiplies and accumulates is mapped, and nodes are missing."""
        return not self.is_complete and self.macs == 0

    def products(self) -> Network:
        """Return the network of the layers that multiply and accumulate: convolutions, products, attention."""
        return self._with_layers([number for number, layer in enumerate(self.layers) if layer.macs])

    def beginning(self, count: int) -> Network:
        """Return the network of its first `count` layers; nodes that need others are left out, with that reason."""
        reason, later = "it was not asked", self.layers[count:]
        told = self._with_layers(range(count))
        if self.mapped:
            missing = [(node, own) for node, own in self.mapped if max(own, default=0) >= count]
            told = replace(told, mapped=tuple(each for each in self.mapped if each not in missing))
        else:
            numbered = list(enumerate(later, count))
            missing = [(f"{each.name}#{copy}", (n,)) for n, each in numbered for copy in range(each.multiplicity)]
        left = tuple(Unmapped(node, self.layers[own[-1]].operator or "layers", reason) for node, own in missing)
        macs = tuple((node, sum(self.layers[n].macs for n in own)) for node, own in missing)
        return replace(told, left_out=(*self.left_out, *left), left_out_macs=(*self.left_out_macs, *macs))

    def _with_layers(self, numbers: Sequence[int]) -> Network:
        kept = {number: place for place, number in enumerate(numbers)}
        mapped = ((node, tuple(kept[n] for n in own if n in kept)) for node, own in self.mapped)
        layers = tuple(self.layers[number] for number in kept)
        return replace(self, layers=layers, mapped=tuple((node, own) for node, own in mapped if own))


def network_of_nodes(
    name: str,
    mapped: Iterable[MappedNode],
    views: Iterable[View] = (),
    left_out: Iterable[Unmapped] = (),
    edges: Iterable[tuple[str, str]] = (),
    feeds: Iterable[Feed] = (),
    left_out_macs: Iterable[tuple[str, int]] = (),
    returned: Iterable[str] = (),
) -> Network:
    """Return the network of nodes in order: workloads that differ in their names alone become one layer."""
    layers: dict[tuple[Workload, bool], NetworkLayer] = {}
    repeated: set[str] = set()
    numbers: list[tuple[str, tuple[int, ...]]] = []
    for node, operator, parts, times in mapped:
        own: list[int] = []
        for workload, is_product in parts:
            key = replace(workload, name=""), is_product
            label = node if len(parts) == 1 else f"{node}.{workload.name}"
            first = layers.get(key) or NetworkLayer(label, replace(workload, name=label[:200]), 0, operator, is_product)
            layers[key] = replace(first, multiplicity=first.multiplicity + times)
            own.append(list(layers).index(key))
        numbers.append((node, tuple(own)))
        repeated |= {node} if times != 1 else set()
    joined = tuple(dict.fromkeys(edges))
    rest = (joined, tuple(numbers), tuple(feeds), tuple(left_out_macs), frozenset(returned), frozenset(repeated))
    return Network(name, tuple(layers.values()), tuple(views), tuple(left_out), *rest)


@answers_in_words
def network(name: str) -> Network:
    """Return a built-in network ("resnet50", "resnet18", "vgg16", "mobilenet_v2", "bert_base", ...), batch 1, 8 bits.

    Its layers are the convolutions and products of the source that `polymap.workload` names; it has no edges. Raises
    WorkloadError for an unknown name.
    """
    found = builtin_network(expected_text(name, "the network's name", WorkloadError))
    if found is not None:
        return found
    what = f"there is no built-in network {shown(name)}"
    is_layer = name in builtin_names()
    hint = "It is one layer: explore() takes it." if is_layer else did_you_mean(name[:100], builtin_networks())
    raise WorkloadError(Mistake("PM235", what, hint))


def builtin_network(name: str) -> Network | None:
    """Return the built-in network of this name, None where there is none."""
    if name not in builtin_networks():
        return None
    layers = (NetworkLayer(layer, builtin_workload(layer), count) for layer, count in network_layers(name))
    return Network(name, tuple(layers))
