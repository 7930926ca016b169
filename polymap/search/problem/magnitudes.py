"""Upper bounds on the numbers of a search, derived before any table is built.

One instance of a node loads at most its tile per trip. Over all instances that is at most the number of statement
instances N, for every tile and structure; so are the parent's reads for it. A chain has at most one node per tensor and
level, and each level is a parent or the last holder at most once. So a tensor costs at most 2 N x the sum of its
weights over the levels. An output's credits come on top: at most N x that sum per node, and at most its elements for
first updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from polymap.ir import Architecture, Workload, accesses_of
from polymap.search.problem.components import Component


def most_counted(workload: Workload) -> int:
    """Return an upper bound on every count of loads, elements or bits in a table."""
    elements = zip(workload.tensors, _elements(workload), strict=True)
    return 2 * max(most_instances(workload), *(tensor.bits * most for tensor, most in elements))


def most_costed(workload: Workload, arch: Architecture, component: Component) -> int:
    """Return an upper bound on the magnitude of a component's cost, summed over any chain."""
    levels, instances = range(len(arch.levels)), most_instances(workload)
    targets = {statement.target.tensor for statement in workload.statements}
    total = 1
    for index, (tensor, elements) in enumerate(zip(workload.tensors, _elements(workload), strict=True)):
        weight = sum(component.read[level][index] + component.write[level][index] for level in levels)
        weight += sum(sum(map(abs, row[index])) for row in component.wires)
        times = len(levels) + 3 if tensor.name in targets else 2
        total += max(instances, elements) * weight * times
        if component.held:
            total += elements * sum(component.held[level][index] for level in levels)
    return total


def most_instances(workload: Workload) -> int:
    """Return the instances of one statement at most: of the whole box of dims."""
    return prod(dim.extent for dim in workload.dims)


def _elements(workload: Workload) -> Iterator[int]:
    """Yield an upper bound on the elements of each tensor's tile: one per index of its dims, or all of its shape."""
    extents = workload.extents()
    for tensor in workload.tensors:
        accesses = [each for statement in workload.statements for each in accesses_of(statement, tensor.name)]
        dims = {dim for access in accesses for index in access.index for dim in index.dims}
        yield max(prod(extents[dim] for dim in dims), prod(tensor.shape))
