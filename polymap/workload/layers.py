"""Layers from their usual parameters: convolutions and matrix products.

The convolution reads an input that has its ring of padding and executes every tap; its canonical form is

    O[n,k,p,q]   += I[n,c,stride*p+dilation*r,stride*q+dilation*s] * W[k,c,r,s]           groups = 1
    O[n,g,k,p,q] += I[n,g,c,stride*p+dilation*r,stride*q+dilation*s] * W[g,k,c,r,s]       K and C per group
    O[n,g,p,q]   += I[n,g,stride*p+dilation*r,stride*q+dilation*s] * W[g,r,s]             depthwise: both are 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polymap.inputs import LIMITS, as_integer, is_list, shown
from polymap.ir import Affine, BareInput, Mistake, Workload, WorkloadError, bounds, did_you_mean, dim
from polymap.workload.einsums import Extras, build

ALIASES = {"M": "K", "Co": "K", "Ci": "C", "B": "N", "Hk": "R", "Wk": "S", "Ho": "E", "Wo": "F"}
EXTENTS = ("N", "K", "C", "H", "W", "R", "S", "E", "F", "groups")
OPTIONS = (
    "stride",
    "padding",
    "dilation",
    "skip_padding",
    "bits",
    "types",
    "initial",
    "temporary",
    "associative",
    "name",
)
FORMULA = "{out} = floor(({size} + 2*padding - dilation*({kernel} - 1) - 1) / stride) + 1"


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: the bare input's size, the kernel's, and how the window moves; `out` positions of it."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    out: int


def conv2d(
    *,
    K: int | None = None,
    C: int | None = None,
    H: int | None = None,
    W: int | None = None,
    R: int | None = None,
    S: int | None = None,
    E: int | None = None,
    F: int | None = None,
    N: int | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    skip_padding: bool = False,
    bits: int | Mapping[str, int] | None = None,
    types: str | Mapping[str, str] | None = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    **aliases: int,
) -> Workload:
    """Return a convolution: K filters of C x R x S over N images of C x H x W.

    H and W are the bare input's, or E and F the output's in their place; K and C are totals over the groups; N is 1
    unless given. Pairs are (vertical, horizontal). Other names: M, Co (K), Ci (C), B (N), Hk, Wk (R, S), Ho, Wo (E, F).
    skip_padding: leave out the taps that fall on padding, and read the bare input.
    Raises WorkloadError with every mistake.
    """
    mistakes: list[Mistake] = []
    named = {"K": K, "C": C, "H": H, "W": W, "R": R, "S": S, "E": E, "F": F, "N": N}
    given: dict[str, object] = {key: value for key, value in named.items() if value is not None}
    numbers = _numbers({**given, "groups": groups}, aliases, mistakes)
    steps = _pair("stride", stride, 1, mistakes)
    rings = _pair("padding", padding, 0, mistakes)
    spreads = _pair("dilation", dilation, 1, mistakes)
    skip = _flag("skip_padding", skip_padding, mistakes)
    _check_groups(numbers, mistakes)
    vertical = _axis("HRE", numbers, (steps[0], rings[0], spreads[0]), mistakes)
    horizontal = _axis("WSF", numbers, (steps[1], rings[1], spreads[1]), mistakes)
    extras = Extras(bits, types, None, initial, temporary, associative, "conv2d" if name is None else name)
    if mistakes or vertical is None or horizontal is None:
        assert mistakes  # an axis is None only where its mistake was added
        # What is wrong with the other arguments is told in the same breath.
        return build("O[n] += I[n] * W[n]", {"n": 1}, extras, mistakes)
    return _convolution(numbers, vertical, horizontal, extras, skip=skip)


def matmul(
    m: int,
    n: int,
    k: int,
    *,
    bits: int | Mapping[str, int] | None = None,
    types: str | Mapping[str, str] | None = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
) -> Workload:
    """Return the matrix product C[m,n] += A[m,k] * B[k,n]: A is the input, B the weight, C the output."""
    extras = Extras(bits, types, None, initial, temporary, associative, "matmul" if name is None else name)
    return build("C[m,n] += A[m,k] * B[k,n]", {"m": m, "n": n, "k": k}, extras, [])


LAYERS = ("conv2d", "matmul")
_PRODUCT = ("m", "n", "k")
_PRODUCT_OPTIONS = ("bits", "types", "initial", "temporary", "associative", "name")


def layer(kind: str, arguments: Mapping[str, object]) -> Workload:
    """Return the layer that a function of LAYERS gives for these arguments; WorkloadError with every mistake."""
    given: dict[str, Any] = dict(arguments)
    if kind == "conv2d":
        return conv2d(**given)
    mistakes = [
        Mistake("PM220", f"matmul has no argument {shown(name)}", did_you_mean(name[:64], _PRODUCT + _PRODUCT_OPTIONS))
        for name in given
        if name not in _PRODUCT + _PRODUCT_OPTIONS
    ]
    mistakes += [
        Mistake("PM221", f"matmul lacks {name}", f"Add {name}=..., an integer >= 1.")
        for name in _PRODUCT
        if name not in given
    ]
    if mistakes:
        raise WorkloadError(mistakes)
    return matmul(**given)


def _convolution(
    numbers: dict[str, int], vertical: _Axis, horizontal: _Axis, extras: Extras, *, skip: bool
) -> Workload:
    groups, per_group = numbers["groups"], {key: numbers[key] // numbers["groups"] for key in ("K", "C")}
    depthwise = groups > 1 and per_group == {"K": 1, "C": 1}
    g = ["g"] if groups > 1 else []
    k, c = ([], []) if depthwise else (["k"], ["c"])
    windows = [
        dim(out) * axis.stride + dim(tap) * axis.dilation - (axis.padding if skip else 0)
        for out, tap, axis in (("p", "r", vertical), ("q", "s", horizontal))
    ]
    text = (
        f"O[{','.join(['n', *g, *k, 'p', 'q'])}] += "
        f"I[{','.join(['n', *g, *c, str(windows[0]), str(windows[1])])}] * W[{','.join([*g, *k, *c, 'r', 's'])}]"
    )
    sizes: dict[str, object] = {"n": numbers["N"], "p": vertical.out, "q": horizontal.out}
    sizes |= {"r": vertical.kernel, "s": horizontal.kernel}
    sizes |= {"g": groups} if groups > 1 else {}
    sizes |= {} if depthwise else {"k": per_group["K"], "c": per_group["C"]}
    constraints: tuple[Affine, ...] = ()
    if skip:
        constraints = _inside(windows[0], ("p", "r"), vertical) + _inside(windows[1], ("q", "s"), horizontal)
    bare_shape = (numbers["N"], *([groups] if g else []), *(per_group[key.upper()] for key in c))
    before = (0,) * len(bare_shape) + ((0, 0) if skip else (vertical.padding, horizontal.padding))
    bare = BareInput("I", (*bare_shape, vertical.size, horizontal.size), before)
    return replace(build(text, sizes, extras, [], constraints), bare=bare)


def _inside(window: Affine, dims: tuple[str, str], axis: _Axis) -> tuple[Affine, ...]:
    """Return the constraints that keep the window's index on the bare input; those that always hold are left out."""
    low, high = bounds(window, {dims[0]: axis.out, dims[1]: axis.kernel})
    below = (window,) if low < 0 else ()
    above = (-window + (axis.size - 1),) if high >= axis.size else ()
    return below + above


def _flag(name: str, value: object, mistakes: list[Mistake]) -> bool:
    if not isinstance(value, bool):
        mistakes.append(Mistake("PM112", f"{name} is {shown(value)}", "Expected True or False."))
    return value is True


def _numbers(given: dict[str, object], aliases: Mapping[str, object], mistakes: list[Mistake]) -> dict[str, int]:
    """Return the extents under their first names; wrong and missing ones are noted and left out."""
    written = {key: key for key in given}
    for alias, value in aliases.items():
        key = ALIASES.get(alias)
        if key is None:
            mistakes.append(Mistake("PM220", f"conv2d has no argument {shown(alias)}", _closest(alias)))
        elif key in given:
            mistakes.append(Mistake("PM206", f"{written[key]} and {alias} are the same number, given twice"))
        elif value is not None:
            given[key], written[key] = value, alias
    given.setdefault("N", 1)
    numbers: dict[str, int] = {}
    for key, value in given.items():
        number = as_integer(value)
        if number is None or number > LIMITS.integer or (number < 1 and key not in "HWEF"):
            large = "too large: " if number is not None and number > LIMITS.integer else ""
            what = f"{written.get(key, key)} is {large}{shown(value)}"
            mistakes.append(Mistake("PM222", what, "Expected an integer >= 1 (at most 10^100)."))
        else:
            numbers[key] = number
    for size, out in (("H", "E"), ("W", "F")):
        if size not in given and out not in given:
            what = f"conv2d lacks {size} (the input's extent) or {out} (the output's)"
            mistakes.append(Mistake("PM221", what, f"Add {size}=..., an integer >= 1."))
    for key in ("K", "C", "R", "S"):
        if key not in given:
            mistakes.append(Mistake("PM221", f"conv2d lacks {key}", f"Add {key}=..., an integer >= 1."))
    return numbers


def _closest(word: str) -> str:
    known = (*EXTENTS, *ALIASES, *OPTIONS)
    if word in ("P", "Q"):
        return f"Did you mean '{'E' if word == 'P' else 'F'}' (the output's extent)?"
    same = [name for name in known if name.lower() == word.lower()]
    return f"Did you mean '{same[0]}'?" if same else did_you_mean(word[:64], known)


def _pair(name: str, value: object, least: int, mistakes: list[Mistake]) -> tuple[int, int]:
    """Return (vertical, horizontal) of an integer or a pair of integers; `least` twice where it is neither."""
    items = value if is_list(value) else (value, value)
    numbers = [as_integer(item) for item in items]
    match numbers:
        case [int(first), int(second)] if least <= min(first, second) and max(first, second) <= LIMITS.integer:
            return first, second
        case _:
            texts = f"({', '.join(shown(item) for item in items[:4])})" if is_list(value) else shown(value)
            hint = f"Expected an integer >= {least}, or a pair (vertical, horizontal) of them."
            mistakes.append(Mistake("PM222", f"{name} is {texts}", hint))
            return least, least


def _check_groups(numbers: dict[str, int], mistakes: list[Mistake]) -> None:
    for key in ("K", "C"):
        if key in numbers and "groups" in numbers and numbers[key] % numbers["groups"]:
            what = f"groups={shown(numbers['groups'])} does not divide {key}={shown(numbers[key])}"
            mistakes.append(Mistake("PM225", what, "K and C are totals over all groups."))


def _axis(names: str, numbers: dict[str, int], moves: tuple[int, int, int], mistakes: list[Mistake]) -> _Axis | None:
    """Return one spatial axis from the input's or the output's size; None if a number is missing or they do not fit.

    names: the letters of the size, the kernel and the output; moves: stride, padding and dilation.
    """
    size_name, kernel_name, out_name = names
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
    return _Axis(size, kernel, stride, padding, dilation, made)
