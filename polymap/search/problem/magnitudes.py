"""Upper bounds on the numbers of a search, derived before any table is built.

One instance of a node loads at most its tile per trip. Over all instances that is at most the number of statement
instances N, for every tile and structure; so are the parent's reads for it. A chain has at most one node per tensor and
level, and each level is a parent or the last holder at most once. So a tensor costs at most 2 N x the sum of its
weights over the levels. An output's credits come on top: at most N x that sum per node, and at most its elements for
first updates.
"""

from __future__ import annotations

from math import prod

from polymap.ir import Architecture, Tensor, Workload, accesses_of
from polymap.search.problem.components import Component


def most_counted(workload: Workload) -> int:
    """Return an upper bound on every count of loads, elements or bits in a table."""
    return 2 * max(
        most_instances(workload), *(tensor.bits * _elements(workload, tensor) for tensor in workload.tensors)
    )


def most_costed(workload: Workload, arch: Architecture, component: Component) -> int:
    """Return an upper bound on the magnitude of a component's cost, summed over any chain."""
    levels = range(len(arch.levels))
    targets = {statement.target.tensor for statement in workload.statements}
    total = 1
    for index, tensor in enumerate(workload.tensors):
        elements = _elements(workload, tensor)
        weight = sum(component.read[level][index] + component.write[level][index] for level in levels)
        weight += sum(sum(map(abs, row[index])) for row in component.wires)
        times = len(levels) + 3 if tensor.name in targets else 2
        total += max(most_instances(workload), elements) * weight * times
        if component.held:
            total += elements * sum(component.held[level][index] for level in levels)
    return total


def most_instances(workload: Workload) -> int:
    """Return the instances of one statement at most: of the whole box of dims."""
    return prod(dim.extent for dim in workload.dims)


def _elements(workload: Workload, tensor: Tensor) -> int:
    """Return an upper bound on the elements of a tensor's tile: one per index of its dims, or all of its shape."""
    dims = {
        dim
        for statement in workload.statements
        for access in accesses_of(statement, tensor.name)
        for index in access.index
        for dim in index.coefficients()
    }
    extents = workload.extents()
    return max(prod(extents[dim] for dim in dims), prod(tensor.shape))
