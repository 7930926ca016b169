"""Which loop nests of a network can be one program: those of which one reads, element by element, what another writes.

Groups depend on the network alone: nests that pass results on are taken together in the order in which they run, at
most TUNING.most_in_a_group of them; where more are connected, they are parted where the fewest bits pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod
from typing import NamedTuple

from polymap.ir import Workload, accesses_of, components
from polymap.networks.model import Network
from polymap.networks.tuning import TUNING
from polymap.workload import Link, join_nests, why_apart, with_axes_merged, without_idle_dims


class Nest(NamedTuple):
    """A loop nest of a network: its node, which of the node's nests it is, and the number of its layer."""

    node: str
    part: int
    layer: int


class Apart(NamedTuple):
    """A result that goes through the outermost level between two nests (by their names), and why."""

    producer: str
    consumer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """Nests that are asked as one program, in order. links: the operands of later ones that earlier ones write."""

    nests: tuple[Nest, ...]
    names: tuple[str, ...]
    links: tuple[Link, ...]
    program: Workload


class Plan(NamedTuple):
    """The groups of a network, and what passes between nests that are not in one."""

    groups: tuple[Group, ...]
    apart: tuple[Apart, ...]


def plan_of(net: Network) -> Plan:
    """Return the groups of a network, in the order of their first nests, and what passes outside of them."""
    reader = _Reader(net)
    links, apart = reader.links()
    groups: list[tuple[int, ...]] = []
    refused: set[int] = set()
    for numbers in sorted(_parts_of(_components(len(reader.nests), links), links, reader.bits), key=min):
        if reader.can_run([*groups, numbers]):
            groups.append(numbers)
        else:
            refused |= set(numbers)
    home = {number: place for place, numbers in enumerate(groups) for number in numbers}
    for link in links:
        inside = home.get(link.producer)
        if inside is None or inside != home.get(link.consumer):
            between = {link.producer, link.consumer} <= refused
            reason = "other nodes run in between" if between else TOO_MANY.format(most=TUNING.most_in_a_group)
            apart.append(Apart(reader.name(link.producer), reader.name(link.consumer), reason))
    return Plan(tuple(reader.group(numbers, links) for numbers in groups), tuple(dict.fromkeys(apart)))


TOO_MANY = "a program has at most {most} loop nests, and is parted where the fewest bits pass"


class _Reader:
    """The loop nests of a network in the order in which they run, and what each reads of the others."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.nests = [Nest(node, part, layer) for node, own in net.mapped for part, layer in enumerate(own)]
        plain = [without_idle_dims(each.workload) for each in net.layers]
        self.work = [plain[nest.layer] for nest in self.nests]
        self.bits = [_result_bits(each) for each in self.work]
        self._own: dict[str, list[int]] = {}
        for number, nest in enumerate(self.nests):
            self._own.setdefault(nest.node, []).append(number)

    def name(self, number: int) -> str:
        """Return the node of a nest, with the name of the nest where the node has several."""
        node, label = self.nests[number].node, self.net.layers[self.nests[number].layer].name
        part = label.rpartition(".")[2] if "." in label else _target(self.work[number])
        return node if len(self._own[node]) == 1 else f"{node}.{part}"

    def _merge_axes(self) -> None:
        """Let nests whose results and operands have other ranks be of one rank, where neighbouring axes of one are an
        axis of the other: rows of a linear layer are all leading axes of what it reads."""
        passed = [
            Link(self._own[feed.producer][-1], consumer, feed.tensor)
            for feed in self.net.feeds
            if feed.tensor and not self._reason(feed.producer, feed.consumer)
            for consumer in self._readers(feed.consumer, feed.tensor)
        ]
        passed += [link for own in self._own.values() for link in self._inner(own)]
        changed = True
        while changed:
            changed = any(self._is_merged(link) for link in passed)

    def _is_merged(self, link: Link) -> bool:
        """Merge the axes of one side of a link; return whether that was needed and possible."""
        sides = [(link.producer, _target(self.work[link.producer])), (link.consumer, link.tensor)]
        shapes = [self.work[number].tensor(tensor).shape for number, tensor in sides]
        if len(shapes[0]) == len(shapes[1]):
            return False
        longer = int(len(shapes[0]) < len(shapes[1]))
        number, tensor = sides[longer]
        found = with_axes_merged(self.work[number], tensor, shapes[1 - longer])
        if found is None:
            return False
        self.work[number] = found
        return True

    def links(self) -> tuple[list[Link], list[Apart]]:
        """Return which nests may be one program for what they pass on, and which results cannot be passed so."""
        links, apart = list[Link](), list[Apart]()
        self._merge_axes()
        for feed in self.net.feeds:
            reason = self._reason(feed.producer, feed.consumer) or (feed.reason if not feed.tensor else "")
            readers = [] if reason else self._readers(feed.consumer, feed.tensor)
            for consumer in readers:
                self._add(Link(self._own[feed.producer][-1], consumer, feed.tensor), links, apart)
            if not readers:
                reason = reason or f"no loop nest of {feed.consumer} reads {feed.tensor or 'it'}"
                apart.append(Apart(feed.producer, feed.consumer, reason))
        for own in self._own.values():
            for link in self._inner(own):
                self._add(link, links, apart)
        return links, apart

    def _add(self, link: Link, links: list[Link], apart: list[Apart]) -> None:
        why = why_apart(self.work[link.producer], self.work[link.consumer], link.tensor)
        if self.nests[link.producer].node in self.net.repeated:
            why = "runs several times"
        if why:
            apart.append(Apart(self.name(link.producer), self.name(link.consumer), f"it {why}"))
        else:
            links.append(link)

    def _reason(self, producer: str, consumer: str) -> str:
        """Return why a node's result is the operand of no nest that can join its last one; "" where it may be."""
        for node in (producer, consumer):
            if node not in self._own:
                return f"{node} computes nothing, or has no workload"
        if (producer in self.net.repeated) != (consumer in self.net.repeated):
            return "one of them runs several times"
        own = self._own[producer]
        is_last = len(own) == 1 or any(link.consumer == own[-1] for link in self._inner(own))
        return "" if is_last else f"{producer} computes its result in several loop nests"

    def _readers(self, node: str, tensor: str) -> list[int]:
        """Return the nests of a node that read an operand of it."""
        made = {(link.consumer, link.tensor) for link in self._inner(self._own[node])}
        return [each for each in self._own[node] if _reads(self.work[each], tensor) and (each, tensor) not in made]

    def _inner(self, own: Sequence[int]) -> list[Link]:
        """Return what the nests of one node pass to each other: what later ones call as an earlier one's result."""
        last: dict[str, int] = {}
        links: list[Link] = []
        for number in own:
            read = dict.fromkeys(each.tensor for each in self.work[number].statements[0].reads)
            links += [Link(last[name], number, name) for name in read if name in last]
            last[_target(self.work[number])] = number
        return links

    def can_run(self, groups: Sequence[tuple[int, ...]]) -> bool:
        """Return whether the groups can run one after the other, each in one go."""
        home = {number: f"group {place}" for place, numbers in enumerate(groups) for number in numbers}

        def place(number: int) -> str:
            return home.get(number, f"nest {number}")

        after: dict[str, set[str]] = {}
        for own in self._own.values():
            for number, later in pairwise(own):
                after.setdefault(place(later), set()).add(place(number))
        for producer, consumer in self.net.edges:
            first = place(self._own[producer][-1]) if producer in self._own else f"node {producer}"
            then = place(self._own[consumer][0]) if consumer in self._own else f"node {consumer}"
            after.setdefault(then, set()).add(first)
        try:
            TopologicalSorter(
                {there: {each for each in others if each != there} for there, others in after.items()}
            ).prepare()
        except CycleError:
            return False
        return True

    def group(self, numbers: tuple[int, ...], links: Sequence[Link]) -> Group:
        """Return some nests as one program."""
        place = {number: at for at, number in enumerate(numbers)}
        inside = [each for each in links if each.producer in place and each.consumer in place]
        own = tuple(Link(place[each.producer], place[each.consumer], each.tensor) for each in inside)
        kept = [place[number] for number in numbers if self._is_needed(number, inside)]
        names = tuple(self.name(number) for number in numbers)
        program = join_nests([self.work[number] for number in numbers], own, " + ".join(names)[:200], kept)
        return Group(tuple(self.nests[number] for number in numbers), names, own, program)

    def _is_needed(self, number: int, inside: Sequence[Link]) -> bool:
        """Return whether somebody besides the linked readers needs the result of a nest."""
        node, linked = self.nests[number].node, {each[1:] for each in inside if each.producer == number}
        own = self._own[node]
        inner = [each for each in self._inner(own) if each.producer == number]
        if any(each[1:] not in linked for each in inner):
            return True
        if number != own[-1]:
            return False
        if node in self.net.returned:
            return True
        fed: dict[str, list[str]] = {}
        for feed in self.net.feeds:
            if feed.producer == node:
                fed.setdefault(feed.consumer, []).append(feed.tensor)
        readers = {consumer for producer, consumer in self.net.edges if producer == node} | set(fed)
        return any(not self._reads_linked(each, fed.get(each, []), linked) for each in readers)

    def _reads_linked(self, node: str, tensors: Sequence[str], linked: set[tuple[int, str]]) -> bool:
        """Return whether all that a node reads of another one are linked operands."""
        if node not in self._own or not tensors:
            return False
        uses = [(number, tensor) for tensor in tensors for number in self._readers(node, tensor)]
        return all(tensor and self._readers(node, tensor) for tensor in tensors) and set(uses) <= linked


def _components(count: int, links: Sequence[Link]) -> list[tuple[int, ...]]:
    """Return the sets of several nests that links connect, each in order."""
    own = ([at for at, link in enumerate(links) if number in (link.producer, link.consumer)] for number in range(count))
    return [each for each in components(own) if len(each) > 1]


def _parts_of(
    components: Sequence[tuple[int, ...]], links: Sequence[Link], bits: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return connected parts of several nests, at most so many in each: those between which the fewest bits pass."""
    found: list[tuple[int, ...]] = []
    for numbers in components:
        for part in _least_cut(numbers, links, bits):
            inside = [each for each in links if each.producer in part and each.consumer in part]
            place = {number: at for at, number in enumerate(part)}
            own = [Link(place[each.producer], place[each.consumer], each.tensor) for each in inside]
            found += [tuple(part[at] for at in each) for each in _components(len(part), own)]
    return found


def _least_cut(numbers: tuple[int, ...], links: Sequence[Link], bits: Sequence[int]) -> list[tuple[int, ...]]:
    """Return consecutive parts of some nests: the fewest bits are written in one and read in another, in few parts."""
    place = {number: at for at, number in enumerate(numbers)}
    reach = list(range(len(numbers)))  # the last nest that reads each result
    for each in links:
        if each.producer in place and each.consumer in place:
            reach[place[each.producer]] = max(reach[place[each.producer]], place[each.consumer])
    best: list[tuple[int, int, int]] = [(0, 0, 0)]  # bits, parts, where the last one begins
    for end in range(1, len(numbers) + 1):
        choices: list[tuple[int, int, int]] = []
        for begin in range(max(0, end - TUNING.most_in_a_group), end):
            passed = sum(bits[numbers[at]] for at in range(begin, end) if reach[at] >= end)
            choices.append((best[begin][0] + passed, best[begin][1] + 1, begin))
        best.append(min(choices))
    parts: list[tuple[int, ...]] = []
    end = len(numbers)
    while end:
        begin = best[end][2]
        parts.insert(0, numbers[begin:end])
        end = begin
    return parts


def _target(workload: Workload) -> str:
    return workload.statements[0].target.tensor


def _reads(workload: Workload, tensor: str) -> bool:
    (statement, *_) = workload.statements
    return statement.target.tensor != tensor and bool(accesses_of(statement, tensor))


def _result_bits(workload: Workload) -> int:
    tensor = workload.tensor(_target(workload))
    return prod(tensor.shape) * tensor.bits
