"""A loop tree whose storage nodes have given boxes (step_boxes.py), its fan-outs filled."""

from __future__ import annotations

from math import prod

from polymap.ir import Compute, Fanout, Mapping, MappingNode, MemoryLevel, Spatial, Storage, Temporal
from polymap.search.enumeration.step_boxes import Boxes, StepBoxes, access_of


def tree_of_boxes(of: StepBoxes, boxes: Boxes) -> Mapping:
    """Return a tree with these boxes. Loops over dims of sums are inside of others between two nodes, so that sums are
    stored when they are done, and of these such as change nothing beside the compute units."""
    held, own = of.held, of.work.own_dims
    sums = {dim for index in access_of(of.workload, held.sums).index for dim in index.dims}
    order = sorted(of.extents, key=lambda dim: (dim in sums, dim not in own))
    parts = [
        (boxes.stored, Storage(held.of_sums.name, (held.sums.name,))),
        (boxes.outside, Storage(held.of_reads.name, (boxes.outer.name,))),
        (boxes.inside, Storage(held.of_reads.name, (boxes.inner.name,))),
    ]
    nodes, now = list[MappingNode](), dict(of.extents)
    for box, storage in sorted(parts, key=lambda part: -prod(part[0].values())):
        nodes += [*(Temporal(dim, box[dim]) for dim in order if box[dim] < now[dim]), storage]
        now = box
    return Mapping((*nodes, *_inside(of, now, order), Compute(of.workload.statements[0].name)))


def _inside(of: StepBoxes, box: dict[str, int], order: list[str]) -> list[MappingNode]:
    """Return what is below the nodes: loops that change what is beside the compute units, fan-outs, and other loops."""
    own, shares = of.work.own_dims, of.work.shares(box)
    left = {dim: prod(shares[dim]) if dim in own else box[dim] for dim in box}
    nodes: list[MappingNode] = [Temporal(dim, left[dim]) for dim in order if left[dim] < box[dim]]
    place = max(of.arch.nodes.index(level) for level in (of.held.of_reads, of.held.of_sums))
    for node in of.arch.nodes[place + 1 :]:
        if isinstance(node, Fanout):
            number = of.arch.fanouts.index(node)
            for dim in order:
                if shares[dim][number] > 1:
                    left[dim] //= shares[dim][number]
                    nodes.append(Spatial(dim, left[dim], node.name))
        elif isinstance(node, MemoryLevel):
            nodes += [Storage(node.name, (each.name,)) for each in of.workload.tensors if node.requires(each)]
    return [*nodes, *(Temporal(dim, 1) for dim in order if left[dim] > 1)]
