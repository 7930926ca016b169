"""Nests that read one tensor through several accesses, and nests of one name per access that say something about them.

- *One name per access*: `C[m,n] += A[m,k] * B[n,k]` for `A[m,k] * A[n,k]`. Its mappings with the nodes of both names
  made one are mappings of the nest, often good ones.
- *One element*: `C[m,n] += A[]`, read once. A storage node that holds what several accesses touch is filled at least
  once with at least one element, by a message of at least one, and holds at least one; each access reads at least one
  element per step and group of siblings that share a message. So no mapping of the nest costs less than the same tree
  costs with one element in the tensor's place, whatever the measure. (With *one access* in its place it may: what one
  access touches stays where another holds it, `A[i+r] * A[k]` with all of k.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice, product
from math import prod

from polymap.ir import (
    Access,
    Architecture,
    Mapping,
    MappingNode,
    MemoryLevel,
    Multicast,
    Number,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    written_tensors,
)
from polymap.search.problem import AtLeast, AtMost, Held, Rules

_MOST_MERGED = 256

Names = dict[str, tuple[str, ...]]  # tensor -> a name per access, its own first


@dataclass(frozen=True, slots=True)
class Relative:
    """A nest made of another one, with its machine and the rules that are about both."""

    workload: Workload
    arch: Architecture
    rules: Rules


def read_often(workload: Workload) -> tuple[Tensor, ...]:
    """Return the tensors that the only statement reads through several accesses; () where there are several statements,
    or such a tensor is written."""
    if len(workload.statements) != 1:
        return ()
    (statement,) = workload.statements
    found = tuple(one for one in workload.tensors if len(set(accesses_of(statement, one.name))) > 1)
    return () if any(one.name in written_tensors(workload) for one in found) else found


def names_apart(workload: Workload) -> Names:
    """Return the names that accesses get where each has one of its own."""
    (statement,) = workload.statements
    taken = {tensor.name for tensor in workload.tensors}
    found: Names = {}
    for tensor in read_often(workload):
        fresh = (name for number in count(2) if (name := f"{tensor.name}_{number}") not in taken)
        others = tuple(islice(fresh, len(accesses_of(statement, tensor.name)) - 1))
        taken |= set(others)
        found[tensor.name] = (tensor.name, *others)
    return found


def apart(workload: Workload, arch: Architecture, rules: Rules, names: Names) -> Relative:
    """Return the nest with one name per access."""
    (statement,) = workload.statements
    left = {tensor: iter(each) for tensor, each in names.items()}
    reads = tuple(replace(one, tensor=next(left[one.tensor])) if one.tensor in left else one for one in statement.reads)
    tensors = tuple(replace(one, name=name) for one in workload.tensors for name in names.get(one.name, (one.name,)))
    nodes = tuple(_also_named(node, names) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    ruled = tuple(
        replace(rule, tensor=name) if isinstance(rule, Held | AtLeast) else rule
        for rule in rules
        for name in (names.get(rule.tensor, (rule.tensor,)) if isinstance(rule, Held | AtLeast) else ("",))
    )
    return Relative(_with(workload, tensors, reads), replace(arch, nodes=nodes), ruled)


def _with(workload: Workload, tensors: tuple[Tensor, ...], reads: tuple[Access, ...]) -> Workload:
    """Return the nest with other tensors and reads. It is counted, not run: what it computes is left out."""
    statement = replace(workload.statements[0], reads=reads, expression=Number("0"))
    return replace(workload, tensors=tensors, statements=(statement,), original=None, bare=None)


def _also_named(level: MemoryLevel, names: Names) -> MemoryLevel:
    holds = None if level.holds is None else _all_names(level.holds, names)
    return replace(level, holds=holds, must_hold=_all_names(level.must_hold, names))


def _all_names(words: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(name for word in words for name in names.get(word, (word,)))


def merged(mapping: Mapping, names: Names) -> Iterator[Mapping]:
    """Yield mappings of the nest itself: at each level that holds some of a tensor's names, the tensor stands where one
    of these stands, or nowhere."""
    tensor_of = {name: tensor for tensor, each in names.items() for name in each}
    places: dict[tuple[str, str], list[int]] = {}
    for at, node in enumerate(mapping.nodes):
        for name in node.tensors if isinstance(node, Storage) else ():
            if isinstance(node, Storage) and name in tensor_of:
                places.setdefault((node.level, tensor_of[name]), []).append(at)
    choices = [sorted(set(each)) for each in places.values()]
    ways = product(*([*each, None] for each in choices))
    for way in islice(ways, _MOST_MERGED):
        chosen = dict(zip(places, way, strict=True))
        yield Mapping(_without_outer_loops(tuple(_nodes_merged(mapping, tensor_of, chosen))))


def _nodes_merged(
    mapping: Mapping, tensor_of: dict[str, str], chosen: dict[tuple[str, str], int | None]
) -> Iterator[MappingNode]:
    for at, node in enumerate(mapping.nodes):
        if not isinstance(node, Storage):
            yield node
            continue
        held = dict.fromkeys(tensor_of.get(name, name) for name in node.tensors)
        kept = tuple(one for one in held if chosen.get((node.level, one), at) == at)
        if kept:
            yield Storage(node.level, kept)


def _without_outer_loops(nodes: tuple[MappingNode, ...]) -> tuple[MappingNode, ...]:
    """Return the nodes with one loop per dim between two storage nodes, the inner one."""
    kept: list[MappingNode] = []
    inside: set[str] = set()
    for node in reversed(nodes):
        if isinstance(node, Storage):
            inside = set()
        if isinstance(node, Temporal):
            if node.dim in inside:
                continue
            inside.add(node.dim)
        kept.append(node)
    return tuple(reversed(kept))


def with_one_element(workload: Workload, arch: Architecture, rules: Rules, *, all_reads: bool) -> Relative:
    """Return the nest that reads one element once in place of each tensor that it reads often.

    all_reads: the element has the bits of all these reads together (relatives.py: `filled_too_much`). A level has room
    for that besides. Rules on values and on the sizes of these tensors' tiles are left out.
    """
    (statement,) = workload.statements
    often = {one.name: len(accesses_of(statement, one.name)) for one in read_often(workload)}
    tensors = tuple(
        replace(one, shape=(), origin=(), bits=one.bits * (often[one.name] if all_reads else 1))
        if one.name in often
        else one
        for one in workload.tensors
    )
    others = tuple(one for one in statement.reads if one.tensor not in often)
    room = sum(one.bits for one in tensors if one.name in often)
    nodes = tuple(_with_room(node, room) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    kept = tuple(
        rule
        for rule in rules
        if not isinstance(rule, AtMost) and not (isinstance(rule, AtLeast) and rule.tensor in often)
    )
    reads = (*others, *(Access(name, ()) for name in often))
    return Relative(_with(workload, tensors, reads), replace(arch, nodes=nodes), kept)


def _with_room(level: MemoryLevel, bits: int) -> MemoryLevel:
    if level.capacity_bits is None:
        return level
    return replace(level, capacity_bits=level.capacity_bits + bits * level.buffering)


def nowhere_held(relative: Relative, tensors: tuple[Tensor, ...]) -> Relative:
    """Return the nest in which no level but the outermost holds these tensors."""
    levels = relative.arch.levels[1:]
    barred = tuple(Held(level.name, tensor.name, must=False) for level in levels for tensor in tensors)
    return replace(relative, rules=(*relative.rules, *barred))


def may_stay_out(arch: Architecture, rules: Rules, tensors: tuple[Tensor, ...]) -> bool:
    """Return whether a mapping may hold one of these tensors nowhere but in the outermost level."""
    demanded = {rule.tensor for rule in rules if isinstance(rule, Held) and rule.must}
    return any(
        one.name not in demanded and not any(level.requires(one) for level in arch.levels[1:]) for one in tensors
    )


def messages_of_one_element(arch: Architecture) -> int:
    """Return how many messages bring one element to all instances of a level, at most: siblings begin together."""
    return prod(fanout.size for fanout in arch.fanouts if fanout.multicast is Multicast.NONE)
