"""The arrays that callers of a native function hold: element types, shapes, and the element that an access reads.

A tensor's axes stand in memory row by row, in the order of its workload, except for layers: with NHWC the arrays are
x[N,H,W,C], w[K,R,S,C/groups] and y[N,P,Q,K], with NCHW x[N,C,H,W], w[K,C/groups,R,S] and y[N,K,P,Q].
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from polymap.codegen.lower import SHORT_FLOATS, element_types, operations_of
from polymap.ir import Access, Affine, Mistake, Tensor, Workload, WorkloadError, written_tensors

LAYOUTS = ("NHWC", "NCHW")
_C_TYPES = {
    "float32": "float",
    "float": "float",
    "float64": "double",
    "double": "double",
    "bfloat16": "uint16_t",
    "word": "word",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BY_BITS = {32: "float32", 64: "float64"}
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,15}")
_TAKEN = frozenset(  # macros and types of the headers that the text includes, and its own
    {"NULL", "EOF", "BUFSIZ", "FILE", "MIN", "MAX", "WIDE", "NAN", "INFINITY", "HUGE", "MAXFLOAT"}
    | {"DOMAIN", "SING", "OVERFLOW", "UNDERFLOW", "PLOSS", "TLOSS", "WNOHANG", "WUNTRACED", "WSTOPPED"}
    | {"WEXITED", "WCONTINUED", "WNOWAIT"}
)
# Names of C texts stay, where they are no words of C, C++ or a compiler, nor local names of the text.
_LOCAL = r"[acdt]\d+(?:_.*)?|at|sum|before|value|block|.*_t|floor_div|bfloat16_value|minus_zero.*|step_.*|row\d+"
_WORD = re.compile(rf"(?!(?:{_LOCAL})$)[A-Za-z][A-Za-z0-9_]{{0,30}}")
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval
constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast
else enum explicit export extern false final float for friend goto if import inline int linux long module mutable
namespace new noexcept not not_eq nullptr operator or or_eq override private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename typeof typeof_unqual union unix unsigned using virtual void
volatile while xor xor_eq i386 alloca errno signgam stdin stdout stderr free abort aligned_alloc
"""
ELEMENT_BYTES = {
    "float": 4,
    "double": 8,
    "word": 4,
    **{f"{sign}int{8 * size}_t": size for sign in ("", "u") for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True, slots=True)
class Linear:
    """An element's position in its array: the sum of factor * dim, plus a constant."""

    factors: dict[str, int]
    constant: int

    def of(self, dim: str) -> int:
        """Return the factor of a dim, 0 where it does not occur."""
        return self.factors.get(dim, 0)


@dataclass(frozen=True, slots=True)
class Word:
    """How elements along a reduction are one of 32 bits (words.py). kind, count: of these; source: the first one's
    position; step: from one to the next. dim, length: the reduction and its elements, of which the last word may have
    fewer. is_flipped: the highest bits of bytes that are broadcast are flipped. axes: of an array that is copied before
    words are broadcast, sizes, steps there, and in the array."""

    kind: str
    count: int
    source: Linear
    step: int
    dim: str
    length: int
    is_flipped: bool
    axes: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """A tensor as its caller holds it. parameter: its name in C. kind: its element type ("float32", "bfloat16", ...).

    shape: the array's own, its axes in memory order. sizes, strides (elements), before: of the tensor's axes; index i
    of an axis reads element i - before, and nothing where that is below 0 or not below the size. word: of arrays
    that are read in words.
    """

    tensor: str
    parameter: str
    kind: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    is_written: bool
    word: Word | None = None

    @property
    def c_type(self) -> str:
        return _C_TYPES[self.kind]

    @property
    def value_type(self) -> str:
        """The C type of its elements' values."""
        return "float" if self.kind == "bfloat16" else self.c_type

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def axis(self, access: Access, number: int) -> Affine:
        """Return the index of an axis in the array, which may lie outside it."""
        return access.index[number] - self.before[number]

    def position(self, access: Access) -> Affine:
        """Return the index of an access's element in the array, axes in memory order."""
        return sum((self.axis(access, n) * stride for n, stride in enumerate(self.strides)), Affine())

    def linear(self, access: Access) -> Linear:
        """Return the position of the element of an access without floors."""
        position = self.position(access)
        return Linear(position.coefficients(), position.constant)


def with_types(workload: Workload) -> Workload:
    """Return the workload with types of its elements: those that generated C gives to bits alone, integers whose sums
    have 32 bits (64 where these could overflow); where all have 32 or 64 bits, floats (`array_forms`)."""
    if all(each.element_type is not None or each.bits in _BY_BITS for each in workload.tensors):
        return workload
    kinds = {name: each.c_type for name, each in element_types(workload).items()}

    def typed(tensor: Tensor) -> Tensor:
        if tensor.element_type is not None:
            return tensor
        kind, bits = kinds[tensor.name], 8 * ELEMENT_BYTES[kinds[tensor.name]]
        return replace(tensor, bits=bits, element_type=kind.removesuffix("_t"))

    return replace(workload, tensors=tuple(map(typed, workload.tensors)))


def array_forms(workload: Workload, layout: str) -> tuple[ArrayForm, ...]:
    """Return the arrays of a workload: those only read in order of first read, then the written ones.

    Raises WorkloadError where a tensor's element type is unknown or has no form in C.
    """
    return _forms(workload, _in_call_order(workload), layout)


def program_forms(workload: Workload) -> tuple[tuple[ArrayForm, ...], tuple[ArrayForm, ...]]:
    """Return the arrays that callers of a program pass, and its temporary ones.

    Callers' arrays: of a C text in order of declaration, each from the element with the indices 0 on, to which the
    text's pointer points; otherwise as of `array_forms`. Raises WorkloadError where a tensor's element type is unknown
    or has no form in C, and for a text that goes below the index 0 (PM625).
    """
    declared = () if workload.original is None else workload.original.declared
    names = [name for name in declared if any(tensor.name == name for tensor in workload.tensors)]
    names = list(dict.fromkeys([*names, *_in_call_order(workload)]))
    lasting = [name for name in names if not workload.tensor(name).temporary]
    local = [name for name in names if name not in lasting]
    called = {each for statement in workload.statements for each in operations_of(statement.expression)}
    kept = _forms(workload, lasting, LAYOUTS[0])
    if workload.original is not None:
        kept = tuple(_from_zero(form, workload.tensor(form.tensor)) for form in kept)
    callers = tuple(replace(form, parameter=form.tensor) if _stays(form.tensor, called) else form for form in kept)
    return callers, _forms(workload, local, LAYOUTS[0])


def _from_zero(form: ArrayForm, tensor: Tensor) -> ArrayForm:
    """Return the form of an array of a text, also with the elements below those that it touches."""
    axis = next((axis for axis, low in enumerate(tensor.origin) if low < 0), None)
    if axis is not None:
        what = f"{tensor.name} has the index {tensor.origin[axis]} on axis {axis}, and arrays of a function begin at 0"
        hint = f"Let {tensor.name} point to its lowest element: {-tensor.origin[axis]} more in each of its subscripts."
        raise WorkloadError(Mistake("PM625", what, hint))
    ends = tuple(low + size for low, size in zip(tensor.origin, tensor.shape, strict=True))
    axes = tuple((axis,) for axis in range(len(ends)))
    shape, sizes, strides, before = _in_order(ends, (0,) * len(ends), axes)
    return replace(form, shape=shape, sizes=sizes, strides=strides, before=before)


def _stays(name: str, called: set[str]) -> bool:
    """Return whether a name of a text may stand in a function of C as it is."""
    if name.isupper() and not _NAME.fullmatch(name):
        return False  # it may be a macro
    return bool(_WORD.fullmatch(name)) and name not in {*_WORDS.split(), *_TAKEN, *called}


def _in_call_order(workload: Workload) -> list[str]:
    """Return the tensors only read in order of first read, then the written ones."""
    written = written_tensors(workload)
    read = list(dict.fromkeys(access.tensor for each in workload.statements for access in each.reads))
    names = [name for name in read if name not in written]
    return names + [tensor.name for tensor in workload.tensors if tensor.name in written]


def _forms(workload: Workload, names: list[str], layout: str) -> tuple[ArrayForm, ...]:
    kinds = _kinds(workload)
    written = written_tensors(workload)
    forms: list[ArrayForm] = []
    for number, name in enumerate(names):
        tensor = workload.tensor(name)
        shape, sizes, strides, before = _array_layout(workload, tensor, layout)
        plain = _NAME.fullmatch(name) and name not in _TAKEN
        parameter = name if plain else f"T{number}_{re.sub('[^A-Za-z0-9]', '', name)[:12]}"
        forms.append(ArrayForm(name, parameter, kinds[name], shape, sizes, strides, before, name in written))
    return tuple(forms)


def _kinds(workload: Workload) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for tensor in workload.tensors:
        kind = tensor.element_type or _BY_BITS.get(tensor.bits, "")
        if kind not in _C_TYPES:
            names = ", ".join(f'"{each.name}": "{_likely_type(each)}"' for each in workload.tensors)
            what = f"tensor {tensor.name} has {tensor.bits} bits and " + (
                f"elements of type {kind}, in which no function computes" if kind else "no element type"
            )
            raise WorkloadError(Mistake("PM621", what, f"Give the workload types={{{names}}}."))
        kinds[tensor.name] = {"float": "float32", "double": "float64"}.get(kind, kind)
    return kinds


def _likely_type(tensor: Tensor) -> str:
    if tensor.element_type in _C_TYPES:
        return tensor.element_type
    if tensor.element_type in SHORT_FLOATS:
        return "float32"
    if tensor.role.value == "output":
        return "int32"
    return "int8" if tensor.bits <= 8 else "int16" if tensor.bits <= 16 else "float32"


Placed = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _array_layout(workload: Workload, tensor: Tensor, layout: str) -> Placed:
    """Return the array's shape, and sizes, strides and padding per axis of the tensor."""
    bare = workload.bare
    if bare is None:
        return _in_order(tensor.shape, tensor.origin, tuple((axis,) for axis in range(len(tensor.shape))))
    is_input = tensor.name == bare.tensor
    sizes, before = (bare.shape, bare.before) if is_input else _whole_array(workload, tensor)
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


def _whole_array(workload: Workload, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
