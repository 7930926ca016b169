"""The arrays that callers of a native function hold: element types, shapes, and the element that an access reads.

A tensor's axes stand in memory row by row, in the order of its workload, except for layers: with NHWC the arrays are
x[N,H,W,C], w[K,R,S,C/groups] and y[N,P,Q,K], with NCHW x[N,C,H,W], w[K,C/groups,R,S] and y[N,K,P,Q].
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from polymap.ir import Access, Affine, Mistake, Tensor, Workload, WorkloadError, written_tensors

LAYOUTS = ("NHWC", "NCHW")
_C_TYPES = {
    "float32": "float",
    "float": "float",
    "float64": "double",
    "double": "double",
    "bfloat16": "uint16_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BY_BITS = {32: "float32", 64: "float64"}
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,15}")
_TAKEN = frozenset(  # macros and types of the headers that the text includes, and its own
    {"NULL", "EOF", "BUFSIZ", "FILE", "MIN", "MAX", "WIDE", "NAN", "INFINITY", "HUGE", "MAXFLOAT"}
    | {"DOMAIN", "SING", "OVERFLOW", "UNDERFLOW", "PLOSS", "TLOSS", "WNOHANG", "WUNTRACED", "WSTOPPED"}
    | {"WEXITED", "WCONTINUED", "WNOWAIT"}
)


@dataclass(frozen=True, slots=True)
class Linear:
    """An element's position in its array: the sum of factor * dim, plus a constant."""

    factors: dict[str, int]
    constant: int

    def of(self, dim: str) -> int:
        """Return the factor of a dim, 0 where it does not occur."""
        return self.factors.get(dim, 0)


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """A tensor as its caller holds it. parameter: its name in C. kind: its element type ("float32", "bfloat16", ...).

    shape: the array's own, its axes in memory order. sizes, strides (elements), before: of the tensor's axes; index i
    of an axis reads element i - before, and nothing where that is below 0 or not below the size.
    """

    tensor: str
    parameter: str
    kind: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    is_written: bool

    @property
    def c_type(self) -> str:
        return _C_TYPES[self.kind]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def axis(self, access: Access, number: int) -> Affine:
        """Return the index of an axis in the array, which may lie outside it."""
        return access.index[number] - self.before[number]

    def linear(self, access: Access) -> Linear:
        """Return the position of the element of an access without floors."""
        total = Affine()
        for number, stride in enumerate(self.strides):
            total = total + self.axis(access, number) * stride
        return Linear(total.coefficients(), total.constant)


def array_forms(workload: Workload, layout: str) -> tuple[ArrayForm, ...]:
    """Return the arrays of a workload: those only read in order of first read, then the written ones.

    Raises WorkloadError where a tensor's element type is unknown or has no form in C.
    """
    kinds = _kinds(workload)
    written = written_tensors(workload)
    read = list(dict.fromkeys(access.tensor for each in workload.statements for access in each.reads))
    names = [name for name in read if name not in written]
    names += [tensor.name for tensor in workload.tensors if tensor.name in written]
    forms: list[ArrayForm] = []
    for number, name in enumerate(names):
        tensor = workload.tensor(name)
        shape, sizes, strides, before = _placed(workload, tensor, layout)
        plain = _NAME.fullmatch(name) and name not in _TAKEN
        parameter = name if plain else f"T{number}_{re.sub('[^A-Za-z0-9]', '', name)[:12]}"
        forms.append(ArrayForm(name, parameter, kinds[name], shape, sizes, strides, before, name in written))
    return tuple(forms)


def _kinds(workload: Workload) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for tensor in workload.tensors:
        kind = tensor.element_type or _BY_BITS.get(tensor.bits, "")
        if kind not in _C_TYPES:
            names = ", ".join(f'"{each.name}": "{_likely(each)}"' for each in workload.tensors)
            what = f"tensor {tensor.name} has {tensor.bits} bits and " + (
                f"elements of type {kind}, which C lacks" if kind else "no element type"
            )
            raise WorkloadError(Mistake("PM621", what, f"Give the workload types={{{names}}}."))
        kinds[tensor.name] = {"float": "float32", "double": "float64"}.get(kind, kind)
    return kinds


def _likely(tensor: Tensor) -> str:
    if tensor.element_type in _C_TYPES:
        return tensor.element_type
    if tensor.role.value == "output":
        return "int32"
    return "int8" if tensor.bits <= 8 else "int16" if tensor.bits <= 16 else "float32"


Placed = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _placed(workload: Workload, tensor: Tensor, layout: str) -> Placed:
    """Return the array's shape, and sizes, strides and padding per axis of the tensor."""
    bare = workload.bare
    if bare is None:
        return _in_order(tensor.shape, tensor.origin, tuple((axis,) for axis in range(len(tensor.shape))))
    is_input = tensor.name == bare.tensor
    sizes, before = (bare.shape, bare.before) if is_input else _whole(workload, tensor)
    image = tensor.name != "W"
    rest = len(sizes) - (3 if image else 2)  # axes of channels: group and channel, one of them, or none
    channels = tuple(range(1, 1 + rest)) if image else tuple(range(rest))
    rows, columns = len(sizes) - 2, len(sizes) - 1
    if image:
        order = ((0,), (rows,), (columns,), channels) if layout == "NHWC" else ((0,), channels, (rows,), (columns,))
        return _in_order(sizes, before, order)
    kernel_channels = () if rest <= 1 else channels[-1:]
    filters = channels[: len(channels) - len(kernel_channels)]
    if layout == "NHWC":
        return _in_order(sizes, before, (filters, (rows,), (columns,), kernel_channels))
    return _in_order(sizes, before, (filters, kernel_channels, (rows,), (columns,)))


def _whole(workload: Workload, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes and padding of a layer's weights or output, with the elements that only padding meets."""
    (statement,) = workload.statements
    access = next(each for each in (statement.target, *statement.reads) if each.tensor == tensor.name)
    extents = workload.extents()
    return tuple(extents[index.dims[0]] for index in access.index), (0,) * len(access.index)


def _in_order(sizes: tuple[int, ...], origin: tuple[int, ...], order: tuple[tuple[int, ...], ...]) -> Placed:
    """Return the form of an array whose axes are these groups of the tensor's axes, outermost first."""
    strides = [0] * len(sizes)
    step = 1
    for group in reversed(order):
        for axis in reversed(group):
            strides[axis] = step
            step *= sizes[axis]
    shape = tuple(math.prod(sizes[axis] for axis in group) for group in order)
    return shape, sizes, tuple(strides), origin
