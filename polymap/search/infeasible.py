"""Requirements that clash: the smallest set that no mapping meets, and the least change that would help."""

from __future__ import annotations

from itertools import combinations

from polymap.arch.machine import Architecture, MemoryLevel
from polymap.workload.loopnest import Tensor, Workload


def clashes(workload: Workload, arch: Architecture) -> tuple[str, ...]:
    """Return, a sentence each, the requirements of the first clash found; () where some mapping satisfies all.

    The tree that holds every required tensor right above compute, all loops outside and nothing spread, needs one
    element of each; no tree needs less. So there is no mapping only if that does not fit, or if a level must hold what
    it may not hold.
    """
    for level in arch.levels[1:]:
        required = [tensor for tensor in workload.tensors if _names(tensor) & set(level.must_hold)]
        for tensor in required:
            if level.holds is not None and not _names(tensor) & set(level.holds):
                return (
                    f"{level.name} must hold {tensor.name} (must_hold)",
                    f"{level.name} may not hold {tensor.name} (holds: {', '.join(level.holds) or 'nothing'}); "
                    f"add {tensor.name} to its holds, or take it out of must_hold",
                )
        found = _smallest_overflow(required, level)
        if found:
            capacity = _capacity(found, tuple(required), level)
            return (*(f"{level.name} must hold {tensor.name} (must_hold)" for tensor in found), capacity)
    return ()


def _names(tensor: Tensor) -> set[str]:
    return {tensor.name, f"@{tensor.role.value}"}


def _need(tensors: tuple[Tensor, ...], level: MemoryLevel) -> int:
    return sum(tensor.bits for tensor in tensors) * level.buffering


def _smallest_overflow(required: list[Tensor], level: MemoryLevel) -> tuple[Tensor, ...]:
    if level.capacity_bits is None:
        return ()
    for count in range(1, len(required) + 1):
        for chosen in combinations(required, count):
            if _need(chosen, level) > level.capacity_bits:
                return chosen
    return ()


def _capacity(chosen: tuple[Tensor, ...], required: tuple[Tensor, ...], level: MemoryLevel) -> str:
    need, enough = _need(chosen, level), _need(required, level)
    times = f" x buffering {level.buffering}" if level.buffering > 1 else ""
    parts = " + ".join(f"{tensor.name} {tensor.bits}" for tensor in chosen)
    rest = "" if len(chosen) == len(required) else " for all that it must hold"
    return (
        f"{level.name} has capacity_bits {level.capacity_bits}, "
        f"and one element each needs {parts}{times} = {need} bits; {enough} would be enough{rest}"
    )
