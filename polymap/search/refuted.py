"""Proofs, without a search, that no mapping with tiles of any size meets a set of rules.

The test is sufficient, not necessary: rules that pass it may still be infeasible.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from polymap.ir import Access, Architecture, MemoryLevel, Tensor, Workload, accesses_of, is_box
from polymap.search.options import TUNING
from polymap.search.problem import AtMost, Factor, Goal, Intrinsic, Rules, Utilization, clashes, floor_of, narrowed


def is_refuted(workload: Workload, arch: Architecture, rules: Rules) -> bool:
    """Return whether it is proven that no mapping, with tiles of any size, meets the rules on the machine."""
    if clashes(workload, arch, rules):
        return True
    machine = narrowed(workload, arch, rules)
    limits = [rule for rule in rules if isinstance(rule, AtMost)]
    if any(floor_of(workload, machine, rule.objective) > rule.most for rule in limits):
        return True
    if len(workload.statements) != 1 or not is_box(workload.statements[0]):
        return False
    if _is_cut(workload, machine, rules):
        return True
    factors = any(isinstance(rule, Factor) for rule in rules)
    shares = any(isinstance(rule, Utilization) for rule in rules)
    times = any(rule.objective.goal is Goal.LATENCY for rule in limits)
    return (factors or shares or times) and _is_too_slow(workload, machine, rules)


def most_busy(workload: Workload, arch: Architecture, rules: Rules) -> Fraction | None:
    """Return an upper bound of the utilization of a single-statement program over a box; None: no mapping meets the
    rules."""
    cycles = _least_cycles(workload, narrowed(workload, arch, rules), rules)
    if cycles is None:
        return None
    return Fraction(_instances(workload), cycles * arch.compute.per_cycle * prod(f.size for f in arch.fanouts))


def _is_too_slow(workload: Workload, machine: Architecture, rules: Rules) -> bool:
    """Return whether the rules about fan-outs are infeasible, or force more compute cycles than utilization and latency
    allow."""
    cycles = _least_cycles(workload, machine, rules)
    if cycles is None:
        return True
    lanes = machine.compute.per_cycle * prod(fanout.size for fanout in machine.fanouts)
    for rule in rules:
        if isinstance(rule, Utilization) and _instances(workload) < rule.least * cycles * lanes:
            return True
        if isinstance(rule, AtMost) and rule.objective.goal is Goal.LATENCY and cycles > rule.most:
            return True
    return False


def _instances(workload: Workload) -> int:
    return prod(dim.extent for dim in workload.dims)


def _least_cycles(workload: Workload, machine: Architecture, rules: Rules) -> int | None:
    """Return a lower bound of the compute cycles; None: the rules about fan-outs are infeasible.

    Spreading n indices over c instances leaves ceil(n / c) steps to each, and spreading over c' and then c instances
    leaves ceil(n / (c c')). Mappings in which some instances are idle use as many instances and take no fewer steps.
    """
    names = [dim.name for dim in workload.dims]
    bounds = {(rule.fanout, rule.dim): rule for rule in rules if isinstance(rule, Factor)}
    for dim in workload.dims:
        required = [rule.least for rule in bounds.values() if rule.dim == dim.name]
        # Each loop of two or more iterations shrinks the tile: at most n - 1 such loops, over 2^(n - 1) instances.
        if dim.extent <= 64 and prod(required) > 2 ** (dim.extent - 1):
            return None
    shares = {tuple(dim.extent for dim in workload.dims)}
    for fanout in machine.fanouts:
        own = [bounds.get((fanout.name, name)) for name in names]
        least = [1 if rule is None else rule.least for rule in own]
        most = [fanout.size if rule is None or rule.most is None else rule.most for rule in own]
        free = [fanout.may_spread(name) for name in names]
        if prod(least) > fanout.size or any(n > 1 and not may for n, may in zip(least, free, strict=True)):
            return None
        tops = [top if may else 1 for top, may in zip(most, free, strict=True)]
        spread = _spread(shares, fanout.size, least, tops)
        if spread is None:
            lanes = prod(one.size for one in machine.fanouts) * machine.compute.per_cycle
            return -(-_instances(workload) // lanes)
        shares = spread
    return -(-min(prod(share) for share in shares) // machine.compute.per_cycle)


def _spread(shares: set[tuple[int, ...]], size: int, least: list[int], tops: list[int]) -> set[tuple[int, ...]] | None:
    """Return the possible extents per dim of one instance below one more fan-out; None: there are too many.

    shares: the possible extents above it. size: instances of the fan-out. least, tops: bounds of the factor per dim.
    """
    known = {(share, prod(least)) for share in shares}
    for place, (low, top) in enumerate(zip(least, tops, strict=True)):
        spread: set[tuple[tuple[int, ...], int]] = set()
        for share, taken in known:
            for siblings, left in _ways(share[place], min(top, size * low // taken)):
                spread.add(((*share[:place], left, *share[place + 1 :]), taken // low * max(low, siblings)))
            if len(spread) > TUNING.most_shares:
                return None
        known = spread
    return {share for share, _ in known}


def _ways(extent: int, top: int) -> list[tuple[int, int]]:
    """Return (instances, indices of each) for spreading `extent` indices over at most `top` instances: per number of
    indices the fewest instances that give it."""
    found: list[tuple[int, int]] = []
    siblings = 1
    while siblings <= min(extent, top):
        left = -(-extent // siblings)
        found.append((siblings, left))
        if left == 1:
            break
        siblings = -(-extent // (left - 1))
    return found


def _is_cut(workload: Workload, machine: Architecture, rules: Rules) -> bool:
    """Return whether the intrinsic sizes that the rules ask for leave a rest of the whole, or some level must hold
    tensors but has no room for tiles of these sizes."""
    sizes = {rule.dim: rule.size for rule in rules if isinstance(rule, Intrinsic)}
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
