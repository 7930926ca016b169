"""Requirements that clash by their words alone: what a level must hold and may not, or has no room for; tiles that no
extent is a multiple of."""

from __future__ import annotations

from itertools import combinations

from polymap.costmodel.analysis import bits_at_once
from polymap.ir import Architecture, MemoryLevel, Tensor, Workload
from polymap.search.problem.rules import Held, Intrinsic, Rules, narrowed, rule_text


def clashes(workload: Workload, arch: Architecture, rules: Rules = ()) -> tuple[str, ...]:
    """Return, a sentence each, the requirements of the first clash found; () where none is.

    A level that must hold tensors has room for what one statement instance touches of them, for every instance. Of one
    statement, the tree in the program's own order with all that is required right above compute needs no more; so
    without rules about anything but what is held, () means that there is a mapping. rules: the user's, beside the
    machine's. The outermost level holds all indices of a dim, in every mapping: the first of the tiles that an
    intrinsic is about.
    """
    extents = workload.extents()
    for rule in rules:
        if isinstance(rule, Intrinsic) and extents[rule.dim] % rule.size:
            return (rule_text(rule),)
    for level in narrowed(workload, arch, rules).levels[1:]:
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
    """Return the bits that an instance of the level holds at some time, in every mapping."""
    return _need(workload, tuple(tensor for tensor in workload.tensors if level.requires(tensor)))


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


def _need(workload: Workload, tensors: tuple[Tensor, ...]) -> int:
    return bits_at_once(workload, frozenset(tensor.name for tensor in tensors))


def _smallest_overflow(workload: Workload, required: list[Tensor], level: MemoryLevel) -> tuple[Tensor, ...]:
    for count in range(1, len(required) + 1):
        for chosen in combinations(required, count):
            if not level.has_room_for(_need(workload, chosen)):
                return chosen
    return ()


def _capacity(workload: Workload, chosen: tuple[Tensor, ...], required: tuple[Tensor, ...], level: MemoryLevel) -> str:
    need, enough = (_need(workload, tensors) * level.buffering for tensors in (chosen, required))
    times = f" x buffering {level.buffering}" if level.buffering > 1 else ""
    parts = [_need(workload, (tensor,)) for tensor in chosen]
    if parts == [tensor.bits for tensor in chosen]:
        named = " + ".join(f"{tensor.name} {tensor.bits}" for tensor in chosen)
        what = f"one element each needs {named}"
    else:
        named = " and ".join(tensor.name for tensor in chosen)
        what = f"what one statement instance touches of {named} needs {_need(workload, chosen)}"
    rest = "" if len(chosen) == len(required) else " for all that it must hold"
    return (
        f"{level.name} has capacity_bits {level.capacity_bits}, "
        f"and {what}{times} = {need} bits; {enough} would be enough{rest}"
    )
