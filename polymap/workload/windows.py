"""Axes of windows: what a layer's arguments say of each, checked, and its part of an einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polymap.inputs import LIMITS, as_integer, is_list, shown
from polymap.ir import Affine, Mistake, OptionError, bounds, did_you_mean, dim

ALIASES = {"M": "K", "Co": "K", "Ci": "C", "B": "N", "Hk": "R", "Wk": "S", "Ho": "E", "Wo": "F", "Dk": "T", "Do": "G"}
OPTIONS = (
    *("stride", "padding", "dilation", "skip_padding", "bits", "types", "initial", "temporary", "associative", "name"),
)
FORMULA = "{out} = floor(({size} + 2*padding - dilation*({kernel} - 1) - 1) / stride) + 1"


@dataclass(frozen=True, slots=True)
class AxisNames:
    """How one spatial axis is called: arguments for its input, kernel and output, dims of positions and taps."""

    size: str
    kernel: str
    out: str
    position: str
    tap: str


DEPTH = AxisNames("D", "T", "G", "d", "t")
LENGTH = AxisNames("L", "R", "E", "p", "r")
VERTICAL = AxisNames("H", "R", "E", "p", "r")
HORIZONTAL = AxisNames("W", "S", "F", "q", "s")


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: the bare input's size, the kernel's, and how the window moves; `out` positions of it."""

    names: AxisNames
    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    out: int

    def window(self, *, skip: bool) -> Affine:
        """Return the index into the input, with its ring of padding, or into the bare one (skip)."""
        place = dim(self.names.position) * self.stride + dim(self.names.tap) * self.dilation
        return place - (self.padding if skip else 0)

    def inside(self) -> tuple[Affine, ...]:
        """Return the constraints that keep the index on the bare input; those that always hold are left out."""
        window = self.window(skip=True)
        low, high = bounds(window, {self.names.position: self.out, self.names.tap: self.kernel})
        below = (window,) if low < 0 else ()
        above = (-window + (self.size - 1),) if high >= self.size else ()
        return below + above


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A kind of layer: its function's name, its spatial axes, and the arguments that it needs besides them. optional:
    other sizes that it knows."""

    name: str
    axes: tuple[AxisNames, ...]
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    options: tuple[str, ...] = OPTIONS

    @property
    def extents(self) -> tuple[str, ...]:
        """All arguments that are sizes."""
        of_axes = [name for part in ("size", "kernel", "out") for name in (getattr(axis, part) for axis in self.axes)]
        return ("N", *self.needed, *of_axes, *self.optional)

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of its arguments."""
        return {alias: key for alias, key in ALIASES.items() if key in self.extents}


def skips_padding(value: object, mistakes: list[Mistake]) -> bool:
    """Return the flag `skip_padding`; what is none is noted."""
    if not isinstance(value, bool):
        mistakes.append(Mistake("PM112", f"skip_padding is {shown(value)}", "Expected True or False."))
    return value is True


def numbers_of(
    kind: LayerKind, given: dict[str, object], aliases: Mapping[str, object], mistakes: list[Mistake]
) -> dict[str, int]:
    """Return the extents under their first names; wrong and missing ones are noted and left out. OptionError where the
    layer does not know one."""
    unknown = [alias for alias in aliases if alias not in kind.aliases]
    if unknown:
        told = ((f"{kind.name}() has no argument {shown(alias)}", _closest(kind, alias)) for alias in unknown)
        raise OptionError(Mistake("PM123", what, cure) for what, cure in told)
    written = {key: key for key in given}
    for alias, value in aliases.items():
        key = kind.aliases[alias]
        if key in given:
            mistakes.append(Mistake("PM206", f"{written[key]} and {alias} are the same number, given twice"))
        elif value is not None:
            given[key], written[key] = value, alias
    given.setdefault("N", 1)
    may_be_small = {name for axis in kind.axes for name in (axis.size, axis.out)}  # told with the formula
    numbers: dict[str, int] = {}
    for key, value in given.items():
        number = as_integer(value)
        if number is None or number > LIMITS.integer or (number < 1 and key not in may_be_small):
            large = "too large: " if number is not None and number > LIMITS.integer else ""
            what = f"{written.get(key, key)} is {large}{shown(value)}"
            mistakes.append(Mistake("PM222", what, "Expected an integer >= 1 (at most 10^100)."))
        else:
            numbers[key] = number
    for axis in kind.axes:
        if axis.size not in given and axis.out not in given:
            what = f"{kind.name} lacks {axis.size} (the input's extent) or {axis.out} (the output's)"
            mistakes.append(Mistake("PM221", what, f"Add {axis.size}=..., an integer >= 1."))
    for key in (*kind.needed, *(axis.kernel for axis in kind.axes)):
        if key not in given:
            mistakes.append(Mistake("PM221", f"{kind.name} lacks {key}", f"Add {key}=..., an integer >= 1."))
    return numbers


def _closest(kind: LayerKind, word: str) -> str:
    known = (*kind.extents, *kind.aliases, *kind.options)
    outputs = {axis.position.upper(): axis.out for axis in kind.axes}
    if word in outputs and word not in known:
        return f"Did you mean '{outputs[word]}' (the output's extent)?"
    same = [name for name in known if name.lower() == word.lower()]
    return f"Did you mean '{same[0]}'?" if same else did_you_mean(word[:64], known)


def steps_of(kind: LayerKind, name: str, value: object, least: int, mistakes: list[Mistake]) -> tuple[int, ...]:
    """Return a number for each axis, of an integer or as many of them; `least` for each where it is neither."""
    rank = len(kind.axes)
    items: Sequence[object] = value if is_list(value) else (value,) * rank
    numbers = [as_integer(item) for item in items]
    known = [number for number in numbers if number is not None and least <= number <= LIMITS.integer]
    if len(known) == len(numbers) == rank:
        return tuple(known)
    texts = f"({', '.join(shown(item) for item in items[:4])})" if is_list(value) else shown(value)
    ways = {
        1: "",
        2: ", or a pair (vertical, horizontal) of them",
        3: ", or three (depth, vertical, horizontal) of them",
    }
    mistakes.append(Mistake("PM222", f"{name} is {texts}", f"Expected an integer >= {least}{ways[rank]}."))
    return (least,) * rank


def axis_of(
    names: AxisNames, numbers: Mapping[str, int], moves: tuple[int, int, int], mistakes: list[Mistake]
) -> Axis | None:
    """Return one spatial axis from the input's or the output's size; None if a number is missing or they do not fit.

    moves: stride, padding and dilation.
    """
    size_name, kernel_name, out_name = names.size, names.kernel, names.out
    stride, padding, dilation = moves
    kernel, size, out = numbers.get(kernel_name), numbers.get(size_name), numbers.get(out_name)
    formula = FORMULA.format(out=out_name, size=size_name, kernel=kernel_name)
    wrong = [f"{key}={shown(numbers[key])}" for key in (size_name, out_name) if numbers.get(key, 1) < 1]
    if wrong:
        mistakes.append(Mistake("PM222", f"{' and '.join(wrong)} is not positive", f"It is >= 1: {formula}"))
        return None
    if kernel is None or (size is None and out is None):
        return None
    reach = dilation * (kernel - 1) + 1
    if size is None:
        size = max(((out or 1) - 1) * stride + reach - 2 * padding, 1)
    made = (size + 2 * padding - reach) // stride + 1
    given = f"{size_name}={size}, {kernel_name}={kernel}, padding={padding}, stride={stride}, dilation={dilation}"
    if made < 1:
        what = f"the output's extent {out_name} is {made}: {given}"
        mistakes.append(Mistake("PM224", what, f"{formula}. The window covers {reach} of {size + 2 * padding}."))
        return None
    if out is not None and out != made:
        what = f"{out_name} is {out}, but {given} makes it {made}"
        mistakes.append(Mistake("PM223", what, f"{formula}. Give {size_name} or {out_name}."))
        return None
    return Axis(names, size, kernel, stride, padding, dilation, made)
