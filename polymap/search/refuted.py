"""Proofs, without a search, that no mapping with tiles of any size meets a set of rules.

The test is sufficient, not necessary: rules that pass it may still be infeasible.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from polymap.ir import Access, Architecture, MemoryLevel, Tensor, Workload, accesses_of, is_box
from polymap.search import problem


def is_refuted(workload: Workload, arch: Architecture, rules: problem.Rules) -> bool:
    """Return whether it is proven that no mapping, with tiles of any size, meets the rules on the machine."""
    if problem.clashes(workload, arch, rules):
        return True
    machine = problem.narrow_machine(workload, arch, rules)
    limits = [rule for rule in rules if isinstance(rule, problem.AtMost)]
    if any(problem.floor_of(workload, machine, rule.objective) > rule.most for rule in limits):
        return True
    if len(workload.statements) != 1 or not is_box(workload.statements[0]):
        return False
    if _is_cut(workload, machine, rules):
        return True
    factors = any(isinstance(rule, problem.Factor) for rule in rules)
    shares = any(isinstance(rule, problem.Utilization) for rule in rules)
    times = any(rule.objective.goal is problem.Goal.LATENCY for rule in limits)
    return (factors or shares or times) and _is_too_slow(workload, machine, rules)


def most_busy(workload: Workload, arch: Architecture, rules: problem.Rules) -> Fraction | None:
    """Return an upper bound of the utilization of a single-statement program over a box; None: no mapping meets the
    rules."""
    cycles = _least_cycles(workload, problem.narrow_machine(workload, arch, rules), rules)
    if cycles is None:
        return None
    return Fraction(
        problem.most_instances(workload), cycles * arch.compute.per_cycle * prod(f.size for f in arch.fanouts)
    )


def _is_too_slow(workload: Workload, machine: Architecture, rules: problem.Rules) -> bool:
    """Return whether the rules about fan-outs are infeasible, or force more compute cycles than utilization and latency
    allow."""
    cycles = _least_cycles(workload, machine, rules)
    if cycles is None:
        return True
    lanes = machine.compute.per_cycle * prod(fanout.size for fanout in machine.fanouts)
    for rule in rules:
        if isinstance(rule, problem.Utilization) and problem.most_instances(workload) < rule.least * cycles * lanes:
            return True
        if isinstance(rule, problem.AtMost) and rule.objective.goal is problem.Goal.LATENCY and cycles > rule.most:
            return True
    return False


def _least_cycles(workload: Workload, machine: Architecture, rules: problem.Rules) -> int | None:
    """Return a lower bound of the compute cycles; None: the rules about fan-outs are infeasible."""
    bounds = {(rule.fanout, rule.dim): rule for rule in rules if isinstance(rule, problem.Factor)}
    for dim in workload.dims:
        required = [rule.least for rule in bounds.values() if rule.dim == dim.name]
        # Each loop of two or more iterations shrinks the tile: at most n - 1 such loops, over 2^(n - 1) instances.
        if dim.extent <= 64 and prod(required) > 2 ** (dim.extent - 1):
            return None
    found = problem.least_steps(workload.extents(), machine, rules)
    return None if found is None else -(-found // machine.compute.per_cycle)


def _is_cut(workload: Workload, machine: Architecture, rules: problem.Rules) -> bool:
    """Return whether the intrinsic sizes that the rules ask for leave a rest of the whole, or some level must hold
    tensors but has no room for tiles of these sizes."""
    sizes = {rule.dim: rule.size for rule in rules if isinstance(rule, problem.Intrinsic)}
    if any(dim.extent % sizes.get(dim.name, 1) for dim in workload.dims):
        return True
    for level in machine.levels[1:]:
        held = [tensor for tensor in workload.tensors if level.requires(tensor)]
        if not held or not sizes:
            continue
        if _is_overfull(workload, level, held, sizes):
            return True
    return False


def _is_overfull(workload: Workload, level: MemoryLevel, held: list[Tensor], sizes: dict[str, int]) -> bool:
    need = sum(tensor.bits * _least_elements(workload, tensor, sizes) for tensor in held)
    return not level.has_room_for(need)


def _least_elements(workload: Workload, tensor: Tensor, sizes: dict[str, int]) -> int:
    """Return a lower bound of the elements of a tensor that a tile of these sizes per dim touches, wherever it lies."""
    accesses = accesses_of(workload.statements[0], tensor.name)
    return max((_least_of(access, sizes) for access in accesses), default=0)


def _least_of(access: Access, sizes: dict[str, int]) -> int:
    lengths: list[int] = []
    dims: list[str] = []
    for axis in access.index:
        atoms = [atom for _, atom in axis.terms]
        own = [atom for atom in atoms if isinstance(atom, str)]
        # The sumset of sets of a and b numbers has at least a + b - 1 elements.
        lengths.append(1 + sum(sizes.get(dim, 1) - 1 for dim in own) if len(own) == len(atoms) else 1)
        dims += own
    return prod(lengths) if len(set(dims)) == len(dims) else max(lengths, default=1)
