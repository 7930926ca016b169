"""What is done to each sum before it is stored: bias, addition of another array, ReLU, requantisation.

The steps run on the register tile's accumulators, or, where a workload is printed without vectors, in a loop over the
output. Requantisation is q = clamp(round(float32(sum) * scale)) + zero_point, in float32, halves rounded to even; the
vectors round by an addition whose bits are read as an integer, which no compiler flag changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite, prod

import numpy as np

from polymap.codegen.lower import Block, Copy, Declare, Expr, For, Int, Name, Run, Scope, Stmt
from polymap.codegen.native.arrays import ArrayForm, Linear
from polymap.inputs import shown
from polymap.ir import Access, Mistake, OptionError, Workload

_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
NARROW = tuple(_RANGES)  # the types that sums are requantised to
_ROUNDING = 12582912.0  # 1.5 * 2^23: the last bit of a float32 near it is 1
_ROUNDING_BITS = "0x4B400000"


class Step(Enum):
    """A step of a tail without numbers of its own. BIAS: an element per output channel is added. ADD: an array like the
    output is added. RELU: what is below 0 becomes 0."""

    BIAS = "bias"
    ADD = "add"
    RELU = "relu"


@dataclass(frozen=True, slots=True)
class Requantize:
    """The last step of a tail: clamp(round(sum * scale)) + zero_point as a narrow integer, halves rounded to even.

    The product is one of float32. scale: one number for all elements, or None: the call takes an array of float32 with
    one per output channel. to: "int8", "uint8", "int16" or "uint16", to whose range results are clamped.
    """

    scale: float | None = None
    zero_point: int = 0
    to: str = "int8"


@dataclass(frozen=True, slots=True)
class Tail:
    """steps: each with the array that it takes, if any. target: the sums; stored: what is stored in their place.

    channel: of the output channel's number as a sum over dims; channels: how many; inner: elements from one to the next
    in the stored array.
    """

    steps: tuple[tuple[Step | Requantize, ArrayForm | None], ...]
    target: ArrayForm
    stored: ArrayForm
    channel: Linear
    channels: int
    inner: int

    @property
    def arrays(self) -> tuple[ArrayForm, ...]:
        """Return what callers pass beside the operands, in the order of the steps."""
        return tuple(form for _, form in self.steps if form is not None)

    @property
    def requantizes(self) -> Requantize | None:
        """Return the last step if it makes narrow integers."""
        last = self.steps[-1][0]
        return last if isinstance(last, Requantize) else None

    @property
    def uses_channels(self) -> bool:
        """Return whether some step has an array with an element per channel."""
        return any(form is not None and step is not Step.ADD for step, form in self.steps)


def tail_of(given: Sequence[str | Requantize], workload: Workload, forms: tuple[ArrayForm, ...]) -> Tail | None:
    """Return the tail of a workload of one statement, None for no steps.

    forms: its arrays. Raises OptionError (PM623) for unknown steps, others after a requantisation, and types for which
    a step has no meaning.
    """
    steps = _steps(given)
    if not steps:
        return None
    (statement,) = workload.statements
    target = next(form for form in forms if form.tensor == statement.target.tensor)
    _check(steps, target)
    if isinstance(steps[-1], Requantize) and workload.tensor(target.tensor).initial:
        what = f"sums of {target.tensor} begin from its values and are requantised"
        raise OptionError(Mistake("PM623", what, "Leave out initial, or the requantisation."))
    axes = channel_axes(workload, target)
    channels = prod(target.sizes[axis] for axis in axes)
    taken = [form.tensor for form in forms]
    own: list[tuple[Step | Requantize, ArrayForm | None]] = []
    for step in steps:
        form = _array(step, target, channels, len(taken), taken)
        own.append((step, form))
        taken += [] if form is None else [form.tensor]
    last = steps[-1]
    stored = replace(target, kind=last.to) if isinstance(last, Requantize) else target
    inner = target.strides[axes[-1]] if axes else 1
    return Tail(tuple(own), target, stored, _channel(statement.target, target, axes), channels, inner)


def _steps(given: Sequence[str | Requantize]) -> tuple[Step | Requantize, ...]:
    found: list[Step | Requantize] = []
    known = {each.value: each for each in Step}
    if isinstance(given, str):
        what = f"tail is {shown(given)}"
        raise OptionError(Mistake("PM623", what, f'Expected a list of steps, such as tail=["{given[:20]}"].'))
    for each in given:
        if isinstance(each, Requantize):
            found.append(_check_requantize(each))
        elif isinstance(each, str) and each in known:  # pyright: ignore[reportUnnecessaryIsInstance]
            found.append(known[each])
        else:
            hint = f"Expected {', '.join(map(repr, known))} or a Requantize(scale, zero_point, to)."
            raise OptionError(Mistake("PM623", f"the tail has the step {shown(each)}", hint))
    return tuple(found)


def _check_requantize(step: Requantize) -> Requantize:
    limits = _RANGES.get(step.to) if isinstance(step.to, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if limits is None:
        what = f"requantisation is asked to {shown(step.to)}"
        raise OptionError(Mistake("PM623", what, f"Expected one of {', '.join(_RANGES)}."))
    zero = step.zero_point
    if isinstance(zero, bool) or not isinstance(zero, int) or not limits[0] <= zero <= limits[1]:  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"the zero point is {shown(zero)}"
        raise OptionError(Mistake("PM623", what, f"Expected an integer from {limits[0]} to {limits[1]}."))
    if step.scale is not None and not _is_scale(step.scale):
        what = f"the scale is {shown(step.scale)}"
        raise OptionError(Mistake("PM623", what, "Expected a number above 0 that float32 holds, or None."))
    return step


def _is_scale(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    with np.errstate(all="ignore"):
        return float(np.float32(value)) > 0 and isfinite(float(np.float32(value)))


def _check(steps: tuple[Step | Requantize, ...], target: ArrayForm) -> None:
    if any(isinstance(step, Requantize) for step in steps[:-1]):
        what = "a step of the tail stands behind the requantisation"
        raise OptionError(Mistake("PM623", what, "Requantize last: biases and additions are of the type of the sums."))
    if isinstance(steps[-1], Requantize) and target.kind not in ("int32", "float32"):
        what = f"sums of {target.kind} are requantised"
        raise OptionError(Mistake("PM623", what, "Expected sums of int32 or float32."))
    if target.kind not in ("int32", "int64", "float32", "float64"):
        what = f"sums of {target.kind} have a tail"
        raise OptionError(Mistake("PM623", what, "Expected sums of int32, int64, float32 or float64."))


def channel_axes(workload: Workload, target: ArrayForm) -> tuple[int, ...]:
    """Return the axes of the output that number its channels: of a layer group and channel, else the last axis."""
    rank = len(target.sizes)
    if workload.bare is not None:
        return tuple(range(1, rank - 2))
    return (rank - 1,) if rank else ()


def _channel(access: Access, target: ArrayForm, axes: tuple[int, ...]) -> Linear:
    factors: dict[str, int] = {}
    constant, step = 0, 1
    for axis in reversed(axes):
        index = target.axis(access, axis) * step
        constant += index.constant
        factors.update(index.coefficients() if index.is_linear else {})
        step *= target.sizes[axis]
    return Linear(factors, constant)


def _array(
    step: Step | Requantize, target: ArrayForm, channels: int, number: int, taken: list[str]
) -> ArrayForm | None:
    """Return the array that a step takes."""
    if step is Step.RELU or (isinstance(step, Requantize) and step.scale is not None):
        return None
    word = "scale" if isinstance(step, Requantize) else step.value
    name = next(each for each in (word, *(f"{word}_{i}" for i in range(2, 1000))) if each not in taken)
    parameter = f"T{number}_{name.replace('_', '')}"
    if step is Step.ADD:
        return replace(target, tensor=name, parameter=parameter, is_written=False)
    kind = "float32" if isinstance(step, Requantize) else target.kind
    return ArrayForm(name, parameter, kind, (channels,), (channels,), (1,), (0,), is_written=False)


# --- on vectors ---

_TAKE = """static inline void take_{kind}(const {kind} *from, long step, void *to, int n)
{{
    {kind} part[{lanes}] = {{0}};
    for (int i = 0; i < n; ++i)
        part[i] = from[step * i];
    memcpy(to, part, sizeof part);
}}
"""
_NARROW = """static inline void put_narrow({kind} *to, long step, const mask *from, int n)
{{
    int32_t part[{lanes}];
    memcpy(part, from, sizeof part);
    for (int i = 0; i < n; ++i)
        to[step * i] = ({kind})part[i];
}}
"""


@dataclass(frozen=True, slots=True)
class Sum:
    """An accumulator: its name; its indices of the tile's dims, and the first one of the vector dim; lanes in use."""

    name: str
    at: dict[str, int]
    used: int


@dataclass(frozen=True, slots=True)
class VectorForm:
    """vector: the dim of the lanes; store: the position in the output as a sum over dims."""

    vector: str
    lanes: int
    store: Linear

    def place(self, linear: Linear, each: Sum) -> int:
        """Return how far the first element of a sum stands from the tile's first."""
        return sum(linear.of(dim) * index for dim, index in each.at.items())


def tail_parameters(tail: Tail) -> tuple[str, ...]:
    """Return the parameters that a register tile's function takes for its tail."""
    arrays = tuple(f"const {form.c_type} *restrict {form.parameter}" for form in tail.arrays)
    return (*arrays, "const long b_at") if tail.uses_channels else arrays


def vector_helpers(tail: Tail, lanes: int, body: str) -> str:
    """Return the types, macros and functions that the steps in a text use; `vec` is known."""
    width = 8 if tail.target.kind.endswith("64") else 4
    text = f"typedef int{8 * width}_t mask __attribute__((vector_size({lanes * width})));\n"
    text += "#define RELU(s) ((vec)((mask)(s) & ~(mask)((s) < 0)))\n"
    if tail.requantizes is not None:
        text += f"typedef float scaled __attribute__((vector_size({lanes * 4})));\n"
        text += "#define PICK(test, a, b) ((scaled)(((mask)(a) & (mask)(test)) | ((mask)(b) & ~(mask)(test))))\n"
    for kind in dict.fromkeys(form.c_type for form in tail.arrays):
        text += _TAKE.format(kind=kind, lanes=lanes) if f"take_{kind}(" in body else ""
    return text + (_NARROW.format(kind=tail.stored.c_type, lanes=lanes) if "put_narrow(" in body else "")


def on_vectors(tail: Tail, form: VectorForm, sums: Sequence[Sum]) -> Block:
    """Return the steps on the accumulators of a register tile."""
    every = ((each, step, array) for each in sums for step, array in tail.steps)
    return tuple(_on_vector(tail, form, each, step, array) for each, step, array in every)


def _on_vector(tail: Tail, form: VectorForm, each: Sum, step: Step | Requantize, array: ArrayForm | None) -> Stmt:
    name = Name(each.name)
    if step is Step.RELU:
        return Copy(name, Name(f"RELU({each.name})"))
    linear, origin = (form.store, "o_at") if step is Step.ADD else (tail.channel, "b_at")
    place = f"{origin} + {form.place(linear, each)}"
    if isinstance(step, Requantize):
        return Scope(_requantizing_steps(tail, step, array, form, each, place))
    assert array is not None
    load = _vector_of_array(array, place, linear.of(form.vector), form.lanes, each.used, "vec")
    return Scope((*load, Copy(name, Name(f"{each.name} + taken"))))


def _vector_of_array(array: ArrayForm, place: str, step: int, lanes: int, used: int, kind: str) -> Block:
    """Return the vector `taken` of an array's elements."""
    at = f"{array.parameter} + {place}"
    if step == 0:
        return (Declare(f"const {kind}", "taken", Name(f"({kind}){{0}} + {array.parameter}[{place}]")),)
    if step == 1 and used == lanes:
        return (Declare(f"const {kind}", "taken", Name(f"*(const any_{array.c_type} *)({at})")),)
    call = Run(f"take_{array.c_type}", (Name(at), Int(step), Name("&taken"), Int(used)))
    return (Declare(kind, "taken", Name(f"({kind}){{0}}")), call)


def _requantizing_steps(
    tail: Tail, step: Requantize, array: ArrayForm | None, form: VectorForm, each: Sum, place: str
) -> Block:
    """Return the steps to integers, which stay in the accumulator as bits of 32 each."""
    load: Block = ()
    factor = _float(step.scale or 1.0)
    if array is not None:
        load = _vector_of_array(array, place, tail.channel.of(form.vector), form.lanes, each.used, "scaled")
        factor = "taken"
    value = each.name if tail.target.kind == "float32" else f"__builtin_convertvector({each.name}, scaled)"
    low, high = (_float(end - step.zero_point) for end in _RANGES[step.to])
    bits = f"(mask)(value + {_float(_ROUNDING)}) - {_ROUNDING_BITS} + ({step.zero_point})"
    return (
        *load,
        Declare("scaled", "value", Name(f"{value} * {factor}")),
        Copy(Name("value"), Name(f"PICK(value > {low}, value, (scaled){{0}} + {low})")),
        Copy(Name("value"), Name(f"PICK(value < {high}, value, (scaled){{0}} + {high})")),
        Copy(Name(each.name), Name(f"(vec)({bits})")),
    )


def _float(value: float) -> str:
    """Return the literal of a float32."""
    text = float(np.float32(value)).hex()
    return f"({text}f)"


def narrow_store(tail: Tail, name: str, place: str, step: int, lanes: int, used: int) -> Stmt:
    """Return the store of an accumulator that holds integers of 32 bits into an array of narrower ones."""
    kind = tail.stored.c_type
    if step == 1 and used == lanes:
        return Copy(Name(f"*(any_{kind} *)({place})"), Name(f"__builtin_convertvector((mask){name}, any_{kind})"))
    copy = Declare("const mask", "some", Name(f"(mask){name}"))
    return Scope((copy, Run("put_narrow", (Name(place), Int(step), Name("&some"), Int(used)))))


# --- without vectors ---


def in_a_loop(tail: Tail, sums: str) -> Block:
    """Return the loop that takes every element of an array of sums to what is stored."""
    kind = tail.target.c_type
    body: list[Stmt] = [Declare(kind, "sum", Name(f"{sums}[at]"))]
    if tail.uses_channels:
        body.append(Declare("const long", "channel", Name(f"at / {tail.inner} % {tail.channels}")))
    value: Expr = Name("sum")
    for step, array in tail.steps:
        match step:
            case Step.RELU:
                body.append(Copy(Name("sum"), Name("sum < 0 ? 0 : sum")))
            case Step.ADD | Step.BIAS:
                assert array is not None
                place = "at" if step is Step.ADD else "channel"
                body.append(Copy(Name("sum"), Name(f"sum + {array.parameter}[{place}]")))
            case Requantize():
                factor = _float(step.scale or 1.0) if array is None else f"{array.parameter}[channel]"
                low, high = (_float(end - step.zero_point) for end in _RANGES[step.to])
                body.append(Declare("float", "value", Name(f"(float)sum * {factor}")))
                body.append(Copy(Name("value"), Name(f"value > {low} ? value : {low}")))
                body.append(Copy(Name("value"), Name(f"value < {high} ? value : {high}")))
                value = Name(f"({tail.stored.c_type})((int)rintf(value) + ({step.zero_point}))")
    body.append(Copy(Name(f"{tail.stored.parameter}[at]"), value))
    return (For("at", Int(0), Int(tail.stored.elements), tuple(body), type="long"),)
