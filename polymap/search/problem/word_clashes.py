"""Requirements that exclude each other without any search.

A level must hold a tensor and must not; it has no room for the tensors that it must hold; or an intrinsic size does not
divide an extent.
"""

from __future__ import annotations

from itertools import combinations

from polymap.costmodel import bits_at_once
from polymap.ir import Architecture, MemoryLevel, Tensor, Workload
from polymap.search.problem.rules import Held, Intrinsic, Rules, narrow_machine, rule_text


def clashes(workload: Workload, arch: Architecture, rules: Rules = ()) -> tuple[str, ...]:
    """Return the requirements of the first clash found, a sentence each; () where there is none.

    A level must have room for the elements of its required tensors that any one statement instance touches. With one
    statement, a tree in the program's own order, with all required nodes directly above the compute unit, needs no
    more. So without rules about anything but what levels hold, () means that there is a mapping. The outermost level
    holds all indices of a dim in every mapping, so an intrinsic size must divide the extent. rules: the user's, in
    addition to the machine's.
    """
    extents = workload.extents()
    for rule in rules:
        if isinstance(rule, Intrinsic) and extents[rule.dim] % rule.size:
            return (rule_text(rule),)
    for level in narrow_machine(workload, arch, rules).levels[1:]:
        required = [tensor for tensor in workload.tensors if level.requires(tensor)]
        for tensor in required:
            if not level.may_hold(tensor):
                return (_must(arch, rules, level, tensor), _may_not(arch, rules, level, tensor))
        found = _smallest_overflow(workload, required, level)
        if found:
            capacity = _capacity(workload, found, tuple(required), level)
            return (*(_must(arch, rules, level, tensor) for tensor in found), capacity)
    return ()


def bits_required(workload: Workload, level: MemoryLevel) -> int:
    """Return the bits that an instance of the level holds at some time in every mapping."""
    return _bits_at_once(workload, tuple(tensor for tensor in workload.tensors if level.requires(tensor)))


def _must(arch: Architecture, rules: Rules, level: MemoryLevel, tensor: Tensor) -> str:
    rule = Held(level.name, tensor.name, must=True)
    own = next(each for each in arch.levels if each.name == level.name)
    if rule in rules and not own.requires(tensor):
        return rule_text(rule)
    return f"{level.name} must hold {tensor.name} (must_hold)"


def _may_not(arch: Architecture, rules: Rules, level: MemoryLevel, tensor: Tensor) -> str:
    own = next(each for each in arch.levels if each.name == level.name)
    rule = Held(level.name, tensor.name, must=False)
    if rule in rules and own.may_hold(tensor):
        return rule_text(rule)
    return (
        f"{level.name} may not hold {tensor.name} (holds: {', '.join(own.holds or ()) or 'nothing'}); "
        f"add {tensor.name} to its holds, or take it out of must_hold"
    )


def _bits_at_once(workload: Workload, tensors: tuple[Tensor, ...]) -> int:
    return bits_at_once(workload, frozenset(tensor.name for tensor in tensors))


def _smallest_overflow(workload: Workload, required: list[Tensor], level: MemoryLevel) -> tuple[Tensor, ...]:
    for count in range(1, len(required) + 1):
        for chosen in combinations(required, count):
            if not level.has_room_for(_bits_at_once(workload, chosen)):
                return chosen
    return ()


def _capacity(workload: Workload, chosen: tuple[Tensor, ...], required: tuple[Tensor, ...], level: MemoryLevel) -> str:
    need, enough = (_bits_at_once(workload, tensors) * level.buffering for tensors in (chosen, required))
    times = f" x buffering {level.buffering}" if level.buffering > 1 else ""
    parts = [_bits_at_once(workload, (tensor,)) for tensor in chosen]
    if parts == [tensor.bits for tensor in chosen]:
        named = " + ".join(f"{tensor.name} {tensor.bits}" for tensor in chosen)
        what = f"one element each needs {named}"
    else:
        named = " and ".join(tensor.name for tensor in chosen)
        what = f"what one statement instance touches of {named} needs {_bits_at_once(workload, chosen)}"
    rest = "" if len(chosen) == len(required) else " for all that it must hold"
    return (
        f"{level.name} has capacity_bits {level.capacity_bits}, "
        f"and {what}{times} = {need} bits; {enough} would be enough{rest}"
    )
