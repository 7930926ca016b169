"""Mappings next to a mapping, and how far two mappings are apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log2

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel import evaluate
from polymap.inputs import answers_in_words
from polymap.ir import (
    Architecture,
    Branch,
    Mapping,
    MappingError,
    MappingNode,
    Mistake,
    OptionError,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.poly import split
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of

Factors = list[tuple[MappingNode, int]]  # nodes with their trips, 1 for storage


@answers_in_words
def neighbours(workload: WorkloadLike, arch: ArchitectureLike, mapping: Mapping) -> tuple[Mapping, ...]:
    """Return the legal mappings (capacity aside) one step away, in a fixed order: two nodes that stand next to each
    other exchanged, a prime factor moved from one loop of a dim to another, or a tensor no longer held by a node.

    For trees without branches whose tiles divide; raises OptionError for others.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    found: dict[Mapping, None] = {}
    for factors in _steps(_factors_of(workload, mapping)):
        near = _tidied(workload, factors)
        if near != mapping and near not in found and _is_legal(workload, arch, near):
            found[near] = None
    return tuple(found)


def _is_legal(workload: Workload, arch: Architecture, mapping: Mapping) -> bool:
    """Return whether a tree is a program that breaks no rule but capacity."""
    try:
        violations = evaluate(workload, arch, mapping).violations
    except MappingError:
        return False
    return all(violation.kind == "capacity" for violation in violations)


@answers_in_words
def features(workload: WorkloadLike, arch: ArchitectureLike, mapping: Mapping) -> NDArray[np.float64]:
    """Return a mapping as a vector: per fan-out and dim log2 of the trips, then per tensor, level below the outermost
    and dim log2 of the tile there (of the tile further out, where the level does not hold the tensor), then whether it
    holds it. Vectors of one workload and machine are of one length."""
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    extents = workload.extents()
    spread = {(fanout.name, dim): 0.0 for fanout in arch.fanouts for dim in extents}
    held: dict[tuple[str, str], dict[str, int]] = {}
    tiles = dict(extents)
    for node in mapping.nodes:
        if isinstance(node, Spatial):
            spread[node.fanout, node.dim] += log2(tiles[node.dim] / node.tile)
        if isinstance(node, Temporal | Spatial):
            tiles[node.dim] = node.tile
        elif isinstance(node, Storage):
            held.update({(tensor, node.level): dict(tiles) for tensor in node.tensors})
    sizes: list[float] = []
    for tensor in workload.tensors:
        last = dict(extents)
        for level in arch.levels[1:]:
            last = held.get((tensor.name, level.name), last)
            sizes += [log2(last[dim]) for dim in extents]
            sizes.append(float((tensor.name, level.name) in held))
    return np.array([*spread.values(), *sizes])


@answers_in_words
def distance(workload: WorkloadLike, arch: ArchitectureLike, one: Mapping, other: Mapping) -> float:
    """Return the Euclidean distance of the two vectors of `features`."""
    return float(np.linalg.norm(features(workload, arch, one) - features(workload, arch, other)))


def _factors_of(workload: Workload, mapping: Mapping) -> Factors:
    tiles = workload.extents()
    found: Factors = []
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            tile = min(node.tile, tiles[node.dim])
            if tiles[node.dim] % tile:
                raise _not_dividing(f"the loop over {node.dim} cuts {tiles[node.dim]} into tiles of {tile}")
            found.append((node, tiles[node.dim] // tile))
            tiles[node.dim] = tile
        elif isinstance(node, Branch):
            raise _not_dividing("the tree branches")
        elif isinstance(node, Storage):
            found += [(replace(node, tensors=(tensor,)), 1) for tensor in node.tensors]
        else:
            found.append((node, 1))
    return found


def _not_dividing(what: str) -> OptionError:
    hint = "Give a tree without branches in which every tile divides the enclosing one."
    return OptionError(Mistake("PM539", f"{what}: neighbours are known of trees whose tiles divide", hint))


def _steps(factors: Factors) -> Iterator[Factors]:
    """Yield the trees one step away, with loops of one iteration and nodes in any order."""
    for place in range(len(factors) - 2):
        yield [*factors[:place], factors[place + 1], factors[place], *factors[place + 2 :]]
    for source, (node, trips) in enumerate(factors):
        if isinstance(node, Storage):
            yield [*factors[:source], *factors[source + 1 :]]
        if not isinstance(node, Temporal | Spatial):
            continue
        for prime, _ in split(trips)[0]:
            for target, (other, more) in enumerate(factors):
                if target != source and isinstance(other, Temporal | Spatial) and other.dim == node.dim:
                    moved = list(factors)
                    moved[source], moved[target] = (node, trips // prime), (other, more * prime)
                    yield moved


def _tidied(workload: Workload, factors: Factors) -> Mapping:
    """Return the tree without loops of one iteration, nodes side by side sorted, neighbouring loops of a dim joined."""
    tiles = workload.extents()
    order = {tensor.name: number for number, tensor in enumerate(workload.tensors)}
    nodes: list[MappingNode] = []
    for node, trips in factors:
        if isinstance(node, Temporal | Spatial):
            if trips == 1:
                continue
            tiles[node.dim] //= trips
            if isinstance(node, Temporal) and isinstance(nodes[-1] if nodes else None, Temporal):
                last = nodes[-1]
                if isinstance(last, Temporal) and last.dim == node.dim:
                    nodes.pop()
            nodes.append(replace(node, tile=tiles[node.dim]))
        elif (
            isinstance(node, Storage) and nodes and isinstance(last := nodes[-1], Storage) and last.level == node.level
        ):
            nodes[-1] = Storage(node.level, tuple(sorted((*last.tensors, *node.tensors), key=order.__getitem__)))
        else:
            nodes.append(node)
    return Mapping(tuple(nodes))
