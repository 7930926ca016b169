"""Layers from their usual parameters: convolutions, poolings and matrix products.

A convolution reads an input that has its ring of padding and executes every tap; its canonical form is

    O[n,k,p,q]   += I[n,c,stride*p+dilation*r,stride*q+dilation*s] * W[k,c,r,s]           groups = 1
    O[n,g,k,p,q] += I[n,g,c,stride*p+dilation*r,stride*q+dilation*s] * W[g,k,c,r,s]       K and C per group
    O[n,g,p,q]   += I[n,g,stride*p+dilation*r,stride*q+dilation*s] * W[g,r,s]             depthwise: both are 1

over one axis (p, r) or three (d, p, q with t, r, s) likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from polymap.inputs import answers_in_words, shown
from polymap.ir import (
    Affine,
    Apply,
    BareInput,
    Mistake,
    Number,
    OptionError,
    Read,
    Workload,
    WorkloadError,
    did_you_mean,
)
from polymap.workload.attention import attention
from polymap.workload.einsums import Extras, build
from polymap.workload.windows import (
    DEPTH,
    HORIZONTAL,
    LENGTH,
    OPTIONS,
    VERTICAL,
    Axis,
    LayerKind,
    axis_of,
    numbers_of,
    skips_padding,
    steps_of,
)

Pair = int | tuple[int, int]
Three = int | tuple[int, int, int]
Bits = int | Mapping[str, int] | None
Types = str | Mapping[str, str] | None

_CONV1D = LayerKind("conv1d", (LENGTH,), ("K", "C"), ("groups",))
_CONV2D = LayerKind("conv2d", (VERTICAL, HORIZONTAL), ("K", "C"), ("groups",))
_CONV3D = LayerKind("conv3d", (DEPTH, VERTICAL, HORIZONTAL), ("K", "C"), ("groups",))
_DEPTHWISE = LayerKind("depthwise", (VERTICAL, HORIZONTAL), ("C",), ("multiplier",))
_POOL = LayerKind("pool", (VERTICAL, HORIZONTAL), ("C",), (), (*OPTIONS, "kind"))
_MOVES = {"stride": 1, "padding": 0, "dilation": 1}  # least values
_POOLINGS = {"max": "max=", "mean": "+=", "sum": "+="}


@answers_in_words
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
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    skip_padding: bool = False,
    bits: Bits = None,
    types: Types = None,
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
    given = {"K": K, "C": C, "H": H, "W": W, "R": R, "S": S, "E": E, "F": F, "N": N, "groups": groups}
    extras = Extras(bits, types, None, initial, temporary, associative, name)
    return _convolution(_CONV2D, given, aliases, (stride, padding, dilation), extras, skip=skip_padding)


@answers_in_words
def conv1d(
    *,
    K: int | None = None,
    C: int | None = None,
    L: int | None = None,
    R: int | None = None,
    E: int | None = None,
    N: int | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    skip_padding: bool = False,
    bits: Bits = None,
    types: Types = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    **aliases: int,
) -> Workload:
    """Return a convolution over one axis: K filters of C x R over N signals of C x L.

        O[n,k,p] += I[n,c,p+r] * W[k,c,r]

    L is the bare input's length, or E the output's in its place; everything else is as in `conv2d`. To run it, the
    input is given with its padding.
    """
    given = {"K": K, "C": C, "L": L, "R": R, "E": E, "N": N, "groups": groups}
    extras = Extras(bits, types, None, initial, temporary, associative, name)
    return _convolution(_CONV1D, given, aliases, (stride, padding, dilation), extras, skip=skip_padding)


@answers_in_words
def conv3d(
    *,
    K: int | None = None,
    C: int | None = None,
    D: int | None = None,
    H: int | None = None,
    W: int | None = None,
    T: int | None = None,
    R: int | None = None,
    S: int | None = None,
    G: int | None = None,
    E: int | None = None,
    F: int | None = None,
    N: int | None = None,
    stride: Three = 1,
    padding: Three = 0,
    dilation: Three = 1,
    groups: int = 1,
    skip_padding: bool = False,
    bits: Bits = None,
    types: Types = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    **aliases: int,
) -> Workload:
    """Return a convolution over three axes: K filters of C x T x R x S over N volumes of C x D x H x W.

        O[n,k,d,p,q] += I[n,c,d+t,p+r,q+s] * W[k,c,t,r,s]

    D, H and W are the bare input's, or G, E and F the output's in their place; triples are (depth, vertical,
    horizontal). Everything else is as in `conv2d`; also Dk (T) and Do (G). To run it, the input is given with its
    padding.
    """
    given = {"K": K, "C": C, "D": D, "H": H, "W": W, "T": T, "R": R, "S": S, "G": G, "E": E, "F": F, "N": N}
    extras = Extras(bits, types, None, initial, temporary, associative, name)
    moves = stride, padding, dilation
    return _convolution(_CONV3D, {**given, "groups": groups}, aliases, moves, extras, skip=skip_padding)


@answers_in_words
def depthwise(
    *,
    C: int | None = None,
    H: int | None = None,
    W: int | None = None,
    R: int | None = None,
    S: int | None = None,
    E: int | None = None,
    F: int | None = None,
    N: int | None = None,
    multiplier: int = 1,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    skip_padding: bool = False,
    bits: Bits = None,
    types: Types = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    **aliases: int,
) -> Workload:
    """Return a depthwise convolution, each of C channels with filters of its own.

        O[n,g,p,q] += I[n,g,p+r,q+s] * W[g,r,s]

    multiplier: how many filters (dim k where there are several). It is `conv2d` with K = C * multiplier and groups = C;
    everything else is as there.
    """
    given = {"C": C, "H": H, "W": W, "R": R, "S": S, "E": E, "F": F, "N": N, "multiplier": multiplier}
    extras = Extras(bits, types, None, initial, temporary, associative, name)
    return _convolution(_DEPTHWISE, given, aliases, (stride, padding, dilation), extras, skip=skip_padding)


@answers_in_words
def pool(
    *,
    C: int | None = None,
    H: int | None = None,
    W: int | None = None,
    R: int | None = None,
    S: int | None = None,
    E: int | None = None,
    F: int | None = None,
    N: int | None = None,
    kind: str = "max",
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    skip_padding: bool = False,
    bits: Bits = None,
    types: Types = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    **aliases: int,
) -> Workload:
    """Return a pooling over windows of R x S: O[n,c,p,q] max= I[n,c,p+r,q+s], or += for kind "sum" and "mean".

    kind: "mean" divides each term by the taps of the window, those on padding included, and so needs types="float32"
    or "float64". stride: the window, unless given. Everything else is as in `conv2d`. A maximum reads the padding that
    it is given (to run it: the input with its padding, such as of least values), unless skip_padding leaves it out.
    """
    sizes = {"C": C, "H": H, "W": W, "R": R, "S": S, "E": E, "F": F, "N": N}
    extras = Extras(bits, types, None, initial, temporary, associative, name)
    return _pooling(kind, sizes, aliases, (stride, padding, dilation), extras, skip=skip_padding)


@answers_in_words
def matmul(
    m: int,
    n: int,
    k: int,
    *,
    bits: Bits = None,
    types: Types = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
) -> Workload:
    """Return the matrix product C[m,n] += A[m,k] * B[k,n]: A is the input, B the weight, C the output."""
    extras = Extras(bits, types, None, initial, temporary, associative, "matmul" if name is None else name)
    return build("C[m,n] += A[m,k] * B[k,n]", {"m": m, "n": n, "k": k}, extras, [])


FUNCTIONS: dict[str, Callable[..., Workload]] = {
    "conv2d": conv2d,
    "matmul": matmul,
    "depthwise": depthwise,
    "conv1d": conv1d,
    "conv3d": conv3d,
    "pool": pool,
    "attention": attention,
}
LAYERS = tuple(FUNCTIONS)


def layer(kind: str, arguments: Mapping[str, object]) -> Workload:
    """Return the layer that a function of LAYERS gives for these arguments; WorkloadError with every mistake."""
    try:
        return FUNCTIONS[kind](**arguments)
    except OptionError as error:
        raise WorkloadError(error.mistakes) from None


def _convolution(
    kind: LayerKind,
    given: Mapping[str, object],
    aliases: Mapping[str, object],
    moves: tuple[object, object, object],
    extras: Extras,
    *,
    skip: object,
) -> Workload:
    """Return a convolution over the axes of its kind, as it was asked. Raises WorkloadError with every mistake."""
    mistakes: list[Mistake] = []
    numbers = numbers_of(kind, _present(given), aliases, mistakes)
    if "multiplier" in numbers and "C" in numbers:
        numbers |= {"K": numbers["C"] * numbers["multiplier"], "groups": numbers["C"]}
    skips = skips_padding(skip, mistakes)
    _check_groups(numbers, mistakes)
    axes = _axes(kind, numbers, moves, mistakes)
    extras = _named(extras, kind)
    if mistakes:
        return _refused(mistakes, extras)
    groups, per_group = numbers["groups"], {key: numbers[key] // numbers["groups"] for key in ("K", "C")}
    is_depthwise = groups > 1 and per_group == {"K": 1, "C": 1}
    g = ["g"] if groups > 1 else []
    k, c = ([], []) if is_depthwise else (["k"], ["c"])
    positions, taps = [axis.names.position for axis in axes], [axis.names.tap for axis in axes]
    windows = [str(axis.window(skip=skips)) for axis in axes]
    text = (
        f"O[{','.join(['n', *g, *k, *positions])}] += "
        f"I[{','.join(['n', *g, *c, *windows])}] * W[{','.join([*g, *k, *c, *taps])}]"
    )
    sizes: dict[str, object] = {"n": numbers["N"], **_extents_of(axes)}
    sizes |= {"g": groups} if groups > 1 else {}
    sizes |= {} if is_depthwise else {"k": per_group["K"], "c": per_group["C"]}
    channels = (*([groups] if g else []), *(per_group[key.upper()] for key in c))
    found = build(text, sizes, extras, [], _inside(axes, skip=skips))
    return _with_bare(found, (numbers["N"], *channels), axes, skip=skips)


def _pooling(
    kind: object,
    given: Mapping[str, object],
    aliases: Mapping[str, object],
    moves: tuple[object, object, object],
    extras: Extras,
    *,
    skip: object,
) -> Workload:
    """Return a pooling as it was asked. Raises WorkloadError with every mistake."""
    mistakes: list[Mistake] = []
    numbers = numbers_of(_POOL, _present(given), aliases, mistakes)
    word = kind if isinstance(kind, str) else ""
    if word not in _POOLINGS:
        mistakes.append(Mistake("PM219", f"kind is {shown(kind)}", did_you_mean(word[:64], tuple(_POOLINGS))))
    skips = skips_padding(skip, mistakes)
    window = numbers.get("R", 1), numbers.get("S", 1)
    axes = _axes(_POOL, numbers, (window if moves[0] is None else moves[0], *moves[1:]), mistakes)
    extras = _named(extras, _POOL)
    if mistakes:
        return _refused(mistakes, extras)
    indices = ",".join(str(axis.window(skip=skips)) for axis in axes)
    extents = {"n": numbers["N"], "c": numbers["C"], **_extents_of(axes)}
    text = f"O[n,c,p,q] {_POOLINGS[word]} I[n,c,{indices}]"
    found = build(text, extents, extras, [], _inside(axes, skip=skips))
    if word == "mean":
        found = _divided(found, axes[0].kernel * axes[1].kernel)
    if word == "max" and not skips and any(axis.padding for axis in axes):
        return found  # its caller pads
    return _with_bare(found, (numbers["N"], numbers["C"]), axes, skip=skips)


def _divided(workload: Workload, count: int) -> Workload:
    """Return the sum with each term divided. Raises WorkloadError where elements are no fractions."""
    if not all((each.element_type or "").startswith(("float", "bfloat")) for each in workload.tensors):
        hint = 'Give types="float32", or take kind="sum" and divide afterwards.'
        raise WorkloadError(Mistake("PM212", "kind='mean' divides, and its elements are no fractions", hint))
    (statement,) = workload.statements
    value = Apply("/", (Read(0), Number(f"{count}.0")))
    return replace(workload, statements=(replace(statement, expression=value),))


def _present(given: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in given.items() if value is not None}


def _named(extras: Extras, kind: LayerKind) -> Extras:
    return replace(extras, name=kind.name) if extras.name is None else extras


def _refused(mistakes: list[Mistake], extras: Extras) -> Workload:
    """Raise WorkloadError: what is wrong with the other arguments is told in the same breath."""
    return build("O[n] += I[n] * W[n]", {"n": 1}, extras, mistakes)


def _axes(
    kind: LayerKind, numbers: Mapping[str, int], moves: tuple[object, ...], mistakes: list[Mistake]
) -> list[Axis]:
    """Return the axes of a layer; mistakes in their numbers are noted. moves: stride, padding and dilation."""
    columns = [
        steps_of(kind, name, value, least, mistakes) for (name, least), value in zip(_MOVES.items(), moves, strict=True)
    ]
    found = [
        axis_of(names, numbers, each, mistakes)
        for names, each in zip(kind.axes, zip(*columns, strict=True), strict=True)
    ]
    assert mistakes or None not in found  # an axis is None only where its mistake was added
    return [axis for axis in found if axis is not None]


def _extents_of(axes: Iterable[Axis]) -> dict[str, int]:
    """Return the extents of positions and taps."""
    axes = tuple(axes)
    positions = {axis.names.position: axis.out for axis in axes}
    return positions | {axis.names.tap: axis.kernel for axis in axes}


def _inside(axes: Iterable[Axis], *, skip: bool) -> tuple[Affine, ...]:
    return tuple(constraint for axis in axes for constraint in axis.inside()) if skip else ()


def _with_bare(workload: Workload, leading: tuple[int, ...], axes: list[Axis], *, skip: bool) -> Workload:
    """Return a layer over rows and columns with the array that its input stands for; others read theirs padded."""
    if len(axes) != 2:
        return workload
    before = (*(0 for _ in leading), *(0 if skip else axis.padding for axis in axes))
    return replace(workload, bare=BareInput("I", (*leading, *(axis.size for axis in axes)), before))


def _check_groups(numbers: Mapping[str, int], mistakes: list[Mistake]) -> None:
    for key in ("K", "C"):
        if key in numbers and "groups" in numbers and numbers[key] % numbers["groups"]:
            what = f"groups={shown(numbers['groups'])} does not divide {key}={shown(numbers[key])}"
            mistakes.append(Mistake("PM225", what, "K and C are totals over all groups."))
