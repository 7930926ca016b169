"""Storage of a program's values: the caller's arrays, and variables of the function for temporary tensors.

A temporary that a C text declares in a loop has an axis per loop around it. Where the schedule runs all instances that
touch one such element together, one variable serves all iterations, as in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polymap.codegen.lower import LINE_BYTES, c_name
from polymap.codegen.native import ELEMENT_BYTES, ArrayForm, program_forms
from polymap.codegen.source import TUNING
from polymap.ir import Affine, Statement, Tensor, Workload, accesses_of

Times = Mapping[str, tuple[Affine, ...]]


@dataclass(frozen=True, slots=True)
class Storage:
    """forms: of every tensor. callers: those of the function's parameters, in order. local: temporary tensors. dropped:
    local tensor -> the number of leading axes that its variable lacks."""

    forms: dict[str, ArrayForm]
    callers: tuple[ArrayForm, ...]
    local: tuple[str, ...]
    dropped: dict[str, int]

    def is_variable(self, tensor: str) -> bool:
        """Return whether a tensor is one local scalar variable."""
        return tensor in self.local and not self.forms[tensor].shape

    def is_on_stack(self, tensor: str) -> bool:
        """Return whether a temporary is on the stack, not in the malloc block."""
        return self.places.get(tensor, 0) is None

    def bytes_of(self, tensor: str) -> int:
        """Return the bytes of a tensor's variable or array."""
        form = self.forms[tensor]
        return form.elements * ELEMENT_BYTES[form.c_type]

    @property
    def places(self) -> dict[str, int | None]:
        """The offset of each temporary in the malloc block, in bytes; None for those on the stack."""
        found: dict[str, int | None] = {}
        left, end = TUNING.temporaries_on_stack_bytes, 0
        for tensor in self.local:
            size = self.bytes_of(tensor)
            if size <= left:
                left -= size
                found[tensor] = None
            else:
                found[tensor] = end
                end += size + -size % LINE_BYTES
        return found


def storage_of(workload: Workload, times: Times) -> Storage:
    """Return the storage of a program whose instances run in the order of `times`.

    Raises WorkloadError where an element type is missing or has no C type.
    """
    callers, temporary = program_forms(workload)
    dropped: dict[str, int] = {}
    local: list[ArrayForm] = []
    for number, form in enumerate(temporary):
        lost = _unneeded_axes(workload, workload.tensor(form.tensor), times)
        if lost:
            dropped[form.tensor] = lost
        shape = form.shape[lost:]
        strides = (0,) * lost + form.strides[lost:]
        local.append(replace(form, parameter=c_name(f"t{number}", form.tensor), shape=shape, strides=strides))
    forms = {form.tensor: form for form in (*callers, *local)}
    return Storage(forms, callers, tuple(form.tensor for form in local), dropped)


def _unneeded_axes(workload: Workload, tensor: Tensor, times: Times) -> int:
    """Return the number of leading axes that a temporary can drop.

    These are indexed by dims that do not change between the first and the last access of an element.
    """
    if workload.original is None:
        return 0  # its elements have values at the start: all of them are needed
    touching = [each for each in workload.statements if accesses_of(each, tensor.name)]
    around = _leading_dims(touching, tensor)
    fixed = _fixed_dims(touching, times)
    lost = 0
    while lost < len(around) and around[lost] in fixed:
        lost += 1
    # An order over other dims between these would let elements of several iterations live at once.
    return lost if _runs_together(touching, times, set(around[:lost])) else 0


def _leading_dims(touching: list[Statement], tensor: Tensor) -> list[str]:
    """Return the dims that index the leading axes of every access, one dim per axis."""
    accesses = [access for each in touching for access in accesses_of(each, tensor.name)]
    found: list[str] = []
    for axis in range(len(tensor.shape)):
        index, *others = dict.fromkeys(access.index[axis] for access in accesses)
        if others or index.constant or len(index.terms) != 1 or index.terms[0][0] != 1:
            break
        if not isinstance(index.terms[0][1], str) or index.terms[0][1] in found:
            break
        found.append(index.terms[0][1])
    return found


def _common_times(touching: list[Statement], times: Times) -> list[Affine]:
    """Return the leading entries that the times of all these statements share."""
    found: list[Affine] = []
    for entries in zip(*(times[each.name] for each in touching), strict=True):
        if len(set(entries)) > 1:
            break
        found.append(entries[0])
    return found


def _fixed_dims(touching: list[Statement], times: Times) -> set[str]:
    """Return the dims that are, each alone, entries of the shared leading part of the times."""
    alone = (each for each in _common_times(touching, times) if len(each.terms) == 1 and abs(each.terms[0][0]) == 1)
    return {each.terms[0][1] for each in alone if isinstance(each.terms[0][1], str)}


def _runs_together(touching: list[Statement], times: Times, dims: set[str]) -> bool:
    """Return whether the shared leading part fixes all dims before it varies with any other."""
    left = set(dims)
    for each in _common_times(touching, times):
        if not left:
            return True
        if not set(each.dims) <= dims:
            return False
        if len(each.terms) == 1 and isinstance(each.terms[0][1], str) and abs(each.terms[0][0]) == 1:
            left -= {each.terms[0][1]}
    return not left
