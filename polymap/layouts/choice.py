"""Which layout every tensor between the layers of a network should have: least bursts, proven by CP-SAT.

A tensor is written in one layout by its producer. Each consumer reads it in that one, or in another into which it is
converted once for all consumers that want it. Every mapping stays as it is; its bursts are counted in every layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from polymap.inputs import answers_in_words, expected_kind, expected_seconds, is_list, shown
from polymap.ir import Mistake, OptionError, Shown
from polymap.layouts.assignment import solved
from polymap.layouts.boundaries import Boundary, BoundaryReader, ChosenLayout, Edge
from polymap.layouts.bursts import bursts_of
from polymap.layouts.tuning import TUNING
from polymap.networks import Feed, LayerAnswer, Network, NetworkAnswer


@dataclass(frozen=True, slots=True, repr=False)
class LayoutChoice(Shown):
    """The layouts of a network's boundaries. status: "OPTIMAL", or "FEASIBLE" with the bound that was reached.

    bursts: of all boundaries, conversions included; bound: no choice has fewer. alone: (name, bursts if every boundary
    had the layout of this name), for names that all boundaries know. left_out: edges of the network that are no
    boundary, and why. burst_bits: of one burst.
    """

    status: str
    chosen: tuple[ChosenLayout, ...]
    bursts: int
    bound: int
    burst_bits: int
    alone: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, str, str], ...]


@answers_in_words
def choose_layouts(
    answer: NetworkAnswer,
    edges: Iterable[tuple[str, str] | tuple[str, str, str]] | None = None,
    *,
    time_limit_s: float = TUNING.search_s,
) -> LayoutChoice:
    """Return the layouts of the tensors between a network's nodes with which its mappings move the fewest bursts.

    answer: what `explore_network` returned, on a machine whose outermost level states `burst_bits`. edges: (producer,
    consumer) names of nodes, or (producer, consumer, tensor of the consumer), instead of the network's own; built-in
    networks have none, and their layers are the nodes. A model's file says which operand an edge is. A pair by hand is
    the only operand of that shape, or, where as many pairs as operands are given, these in their order.
    Candidates: NCHW, NHWC and NCHW with blocks of a burst for tensors of four axes, every order of up to three axes,
    else the last and the second axis as the fastest. An edge is a boundary where the producer is one loop nest and the
    consumer reads a tensor of as many axes, none shorter (padding is part of what is read).
    Raises OptionError for edges between unknown nodes, for an answer in which neighbours run together (PM478: what
    stays on chip has no layout), and as `burst_counts` does.
    """
    answer = expected_kind(answer, NetworkAnswer, "the answer")
    if any(each.is_together for each in answer.groups):
        hint = "What stays on chip has no layout there. Ask explore_network without fuse=True."
        raise OptionError(Mistake("PM478", "layouts of an answer whose neighbours run together", hint))
    burst_bits = bursts_of(answer.arch).bits
    nodes = _nodes(answer)
    told = None if edges is None else _checked(edges, nodes)
    expected_seconds(time_limit_s)
    reader = BoundaryReader(answer.arch, nodes)
    found, left_out = reader.boundaries(_feeds(answer.network, told, reader))
    chosen, bound, status = solved(found, time_limit_s)
    total = sum(each.bursts for each in chosen)
    return LayoutChoice(status, chosen, total, bound, burst_bits, _alone(found), tuple(left_out))


def _nodes(answer: NetworkAnswer) -> dict[str, tuple[LayerAnswer, ...]]:
    net: Network = answer.network
    if not net.mapped or not answer.layers:
        return {each.layer.name: (each,) for each in answer.layers}
    return {node: tuple(answer.layers[number] for number in own) for node, own in net.mapped}


def _feeds(net: Network, told: list[Edge] | None, reader: BoundaryReader) -> list[Feed]:
    """Return the operands that the caller's edges are, or the network's own: as its model tells, else by hand."""
    edges = [(*pair, "") for pair in net.edges] if told is None else told
    known: dict[tuple[str, str], list[Feed]] = {}
    for feed in net.feeds:
        known.setdefault((feed.producer, feed.consumer), []).append(feed)
    by_model = [each for each in edges if net.feeds and (told is None or each[:2] in known) and not each[2]]
    found = [feed for one, two, _ in by_model for feed in known.get((one, two), [Feed(one, two, "")])]
    return [*found, *reader.placed(each for each in edges if each not in by_model)]


def _checked(edges: object, nodes: dict[str, tuple[LayerAnswer, ...]]) -> list[Edge]:
    """Return the caller's edges as names: of nodes, and of a tensor or ""."""
    told = shown(edges)
    if not isinstance(edges, Iterable) or isinstance(edges, str | bytes):
        raise OptionError(Mistake("PM474", f"the edges are {told}", "Expected pairs of names: (producer, consumer)."))
    pairs: list[Edge] = []
    for pair in cast("Iterable[object]", edges):
        names: list[object] = list(pair) if is_list(pair) else []
        if len(names) not in (2, 3):
            hint = "Expected (producer, consumer), or (producer, consumer, tensor)."
            raise OptionError(Mistake("PM474", f"an edge is {shown(pair)}", hint))
        for name in names[:2]:
            if not isinstance(name, str) or name not in nodes:
                hint = f"Nodes: {', '.join(list(nodes)[:8])}{', ...' if len(nodes) > 8 else ''}."
                raise OptionError(Mistake("PM474", f"the edges name {shown(name)}, which is no mapped node", hint))
        pairs.append((str(names[0]), str(names[1]), _tensor(nodes[str(names[1])], names[2]) if names[2:] else ""))
    return pairs


def _tensor(nests: tuple[LayerAnswer, ...], name: object) -> str:
    """Return the name of a tensor that a node reads."""
    reads = {access.tensor for each in nests for access in each.layer.workload.statements[0].reads}
    if not isinstance(name, str) or name not in reads:
        hint = f"It reads: {', '.join(sorted(reads))}."
        raise OptionError(
            Mistake("PM474", f"the edges name {shown(name)}, which is no tensor that the node reads", hint)
        )
    return name


def _alone(boundaries: list[Boundary]) -> tuple[tuple[str, int], ...]:
    """Return (layout, bursts) of each layout that all boundaries have, where nothing else is used."""
    names = [tuple(map(str, each.layouts)) for each in boundaries]
    shared = [name for name in (names[0] if names else ()) if all(name in own for own in names)]
    found: list[tuple[str, int]] = []
    for name in shared:
        total = 0
        for each, own in zip(boundaries, names, strict=True):
            place = own.index(name)
            total += each.producer.bursts[place] + sum(use.bursts[place] for use in each.consumers)
        found.append((name, total))
    return tuple(found)
