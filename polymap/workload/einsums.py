"""`C[m,n] += A[m,k] * B[k,n]` -> a workload of one statement `S`.

The dims stand in order of first occurrence, the output's first; so do the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polymap.inputs import LABEL_RULE, LIMITS, answers_in_words, as_integer, is_label, is_list, is_name, is_table, shown
from polymap.ir import (
    Access,
    Affine,
    Apply,
    Dim,
    Expression,
    Mistake,
    Number,
    Operator,
    Read,
    Role,
    Statement,
    Tensor,
    Workload,
    WorkloadError,
    bounds,
    did_you_mean,
)
from polymap.workload.notation import Reading, access_text, einsum_text, read_einsum
from polymap.workload.tuning import TUNING

ELEMENT_TYPES = {f"{sign}int{bits}": bits for bits in (8, 16, 32, 64) for sign in ("", "u")} | {
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
}
OPTIONS = ("bits", "types", "roles", "initial", "temporary", "associative", "name", "sizes")

Ranges = tuple[tuple[int, int], ...]
Hull = tuple[tuple[int, ...], tuple[int, ...]]  # shape, origin
Site = tuple[Sequence[Access], Mapping[str, int], tuple[Affine, ...]]  # accesses, extents of the loops, constraints


@dataclass(frozen=True, slots=True)
class Extras:
    """The fields of a workload besides its einsum and sizes, as the user wrote them (checked by `build`)."""

    bits: object = None
    types: object = None
    roles: object = None
    initial: object = ()
    temporary: object = ()
    associative: object = True
    name: object = None


@answers_in_words
def einsum(
    text: str,
    *,
    bits: int | Mapping[str, int] | None = None,
    types: str | Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
    initial: Iterable[str] = (),
    temporary: Iterable[str] = (),
    associative: bool = True,
    name: str | None = None,
    sizes: Mapping[str, int] | None = None,
    **extents: int,
) -> Workload:
    """Return the workload of an einsum; the sizes of its dims are keywords or entries of `sizes`.

    bits: of an element, for all tensors or a table (default 8). types: element types in their place ("int8",
    "float32"). roles: "input", "weight" or "output" per tensor (default: the first operand is the input, the others
    are weights). initial: written tensors that hold values before the program starts. temporary: tensors that are
    dead after it. associative: accumulations may be reordered and split.
    Raises WorkloadError with every mistake: syntax, products of dims, sizes missing, unknown or given twice.
    """
    mistakes: list[Mistake] = []
    given = merged_sizes(sizes, extents, mistakes)
    return build(text, given, Extras(bits, types, roles, initial, temporary, associative, name), mistakes)


def build(
    text: object,
    sizes: Mapping[str, object],
    extras: Extras,
    mistakes: list[Mistake],
    constraints: tuple[Affine, ...] = (),
) -> Workload:
    """Return the workload of an einsum over the points where each constraint (over its dims) is >= 0.

    Raises WorkloadError with `problems` and all further ones.
    """
    before = len(mistakes)
    reading = read_einsum(text, mistakes)
    if reading is None:
        for dim, size in sizes.items():
            checked_extent(dim, size, mistakes)
        raise WorkloadError(_first(mistakes))
    if len(mistakes) == before:
        _check_accesses(reading, mistakes)
        _check_dims(reading, sizes, mistakes)
    extents = _extents(reading, sizes, mistakes)
    for name in dict.fromkeys(name for constraint in constraints for name in constraint.dims):
        if name not in extents:
            hint = _suggest(name, tuple(extents), mistakes)
            mistakes.append(Mistake("PM204", f"a constraint names {name}, which is no dim of the einsum", hint))
    accesses = (reading.target, *reading.reads)
    names = tuple(dict.fromkeys(access.tensor for access in accesses))
    hulls = dict.fromkeys(names, ((), ())) if mistakes else hulls_of([(accesses, extents, constraints)], mistakes)
    tensors = _tensors(names, reading, hulls, extras, mistakes)
    label = checked_label(extras.name, mistakes)
    associative = checked_associative(extras.associative, mistakes)
    if mistakes:
        raise WorkloadError(_first(mistakes))
    statement = _statement(reading, tuple(extents), constraints)
    dims = tuple(Dim(dim, extent) for dim, extent in extents.items())
    return Workload(label or _default_name(statement), dims, tensors, (statement,), associative)


def _statement(reading: Reading, dims: tuple[str, ...], constraints: tuple[Affine, ...]) -> Statement:
    expression = product_of_reads(len(reading.reads))
    position = (0,) * (len(dims) + 1)
    return Statement("S", dims, constraints, reading.target, reading.operator, reading.reads, expression, position)


def product_of_reads(many: int) -> Expression:
    """Return the product of what a statement reads, in order; 1 of nothing."""
    expression: Expression = Read(0) if many else Number("1")
    for operand in range(1, many):
        expression = Apply("*", (expression, Read(operand)))
    return expression


def _default_name(statement: Statement) -> str:
    text = einsum_text(statement)
    return text if is_label(text) else "einsum"


def checked_label(name: object, mistakes: list[Mistake]) -> str | None:
    """Return the name of a workload; None, with a noted mistake, for what is none."""
    if name is None or is_label(name):
        return name
    mistakes.append(Mistake("PM115", f"the workload's name is {shown(name)}", LABEL_RULE))
    return None


def checked_associative(value: object, mistakes: list[Mistake]) -> bool:
    """Return whether accumulations may be reordered; notes what is neither true nor false."""
    if not isinstance(value, bool):
        mistakes.append(Mistake("PM112", f"associative is {shown(value)}", "Expected true or false."))
    return value is True


def merged_sizes(sizes: object, extents: Mapping[str, object], mistakes: list[Mistake]) -> dict[str, object]:
    """Return all sizes; one that is given both ways is a mistake."""
    if sizes is None:
        return dict(extents)
    if not is_table(sizes):
        mistakes.append(Mistake("PM112", f"sizes is {shown(sizes)}", "Expected a table from dim to integer."))
        return dict(extents)
    for name in extents:
        if name in sizes:
            mistakes.append(
                Mistake("PM206", f"the size of {name} is given twice: {shown(sizes[name])} and {shown(extents[name])}")
            )
    return {**sizes, **extents}


def _check_accesses(reading: Reading, mistakes: list[Mistake]) -> None:
    """Note an output that is read, tensors with two ranks, and `=` over a reduced dim."""
    ranks: dict[str, Access] = {reading.target.tensor: reading.target}
    for access in reading.reads:
        if access.tensor == reading.target.tensor:
            what = f"the output {access.tensor} is read on the right, in {access_text(access)}"
            mistakes.append(Mistake("PM208", what, "Write a recurrence as a C program, or rename one of the tensors."))
        first = ranks.setdefault(access.tensor, access)
        if len(first.index) != len(access.index):
            texts = [f"{len(each.index)} in {access_text(each)}" for each in (first, access)]
            what = f"the number of indices of {access.tensor} is {texts[0]}, but {texts[1]}"
            mistakes.append(Mistake("PM209", what))
    if reading.operator is Operator.ASSIGN:
        kept = {dim for index in reading.target.index for dim in index.dims}
        reduced = [dim for dim in _dims(reading) if dim not in kept]
        if reduced:
            what = f"= overwrites, but {', '.join(reduced)} does not occur in {access_text(reading.target)}"
            mistakes.append(Mistake("PM210", what, "Write += (or max=, min=) to accumulate over it."))


def _dims(reading: Reading) -> tuple[str, ...]:
    accesses = (reading.target, *reading.reads)
    return tuple(dict.fromkeys(dim for access in accesses for index in access.index for dim in index.dims))


def _check_dims(reading: Reading, sizes: Mapping[str, object], mistakes: list[Mistake]) -> None:
    """Note dims that cancel out, and sizes of dims that do not occur."""
    dims = _dims(reading)
    for name, where in reading.dims.items():
        if name not in dims:
            what = f"the dim {name} has no effect: it cancels out in {where} and occurs in no other access"
            mistakes.append(Mistake("PM211", what, "Every dim must occur in an access."))
    for name in sizes:
        if name not in reading.dims:
            hint = _suggest(name, (*reading.dims, *OPTIONS), mistakes)
            mistakes.append(Mistake("PM205", f"there is no dim {shown(name)} in the einsum, but it has a size", hint))


def _extents(reading: Reading, sizes: Mapping[str, object], mistakes: list[Mistake]) -> dict[str, int]:
    """Return dim -> extent in the order of the dims; a missing or wrong size is noted, and 1 is returned for it."""
    for name, where in reading.dims.items():
        if name not in sizes:
            close = _suggest(name, list(sizes)[:1000], mistakes)
            hint = f"Add {name}=..., an integer >= 1." + (f" {close}" if close.startswith("Did") else "")
            mistakes.append(Mistake("PM204", f"unknown dim {name} in {where}: it has no size", hint))
    known = {name: checked_extent(name, size, mistakes) for name, size in sizes.items()}
    extents = {dim: known.get(dim, 1) for dim in _dims(reading)}
    if prod(extents.values()) > TUNING.most_instances:
        mistakes.append(Mistake("PM216", "the loop nest has more than 10^1000 instances"))
    return extents


def checked_extent(dim: str, value: object, mistakes: list[Mistake]) -> int:
    """Return the size of a dim; 1, with a noted mistake, for what is none."""
    extent = as_integer(value)
    if extent is None or not 1 <= extent <= LIMITS.integer:
        large = "too large: " if extent is not None and extent > LIMITS.integer else ""
        hint = "Expected an integer >= 1 (at most 10^100)."
        mistakes.append(Mistake("PM207", f"the size of {dim[:64]} is {large}{shown(value)}", hint))
        return 1
    return extent


def hulls_of(sites: Iterable[Site], mistakes: list[Mistake]) -> dict[str, Hull]:
    """Return tensor -> hull of the indices of all its accesses; a statement without instances is noted."""
    boxes: dict[str, list[Ranges]] = {}
    for accesses, extents, constraints in sites:
        is_box = not constraints and all(index.is_linear for access in accesses for index in access.index)
        ranges = _ranges(accesses, extents) if is_box else _ranges_inside(accesses, extents, constraints)
        if ranges is None:
            mistakes.append(Mistake("PM218", "no statement instance is left", "The constraints exclude every point."))
            ranges = [() for _ in accesses]
        for access, box in zip(accesses, ranges, strict=True):
            boxes.setdefault(access.tensor, []).append(box)
    hulls: dict[str, Hull] = {}
    for name, some in boxes.items():
        axes = [(min(low for low, _ in axis), max(high for _, high in axis)) for axis in zip(*some, strict=False)]
        hulls[name] = tuple(high - low + 1 for low, high in axes), tuple(low for low, _ in axes)
    return hulls


def _ranges(accesses: Sequence[Access], extents: Mapping[str, int]) -> list[Ranges]:
    """Return the least and largest index on each axis of each access, over the whole box."""
    return [tuple(bounds(index, extents) for index in access.index) for access in accesses]


def _ranges_inside(
    accesses: Sequence[Access], extents: Mapping[str, int], constraints: tuple[Affine, ...]
) -> list[Ranges] | None:
    """Return the ranges over the points where each constraint is >= 0; None if there is no such point."""
    from polymap.poly import budget, dim_bounds, function, integer_set

    with budget(what="the extent of the tensors"):
        points = integer_set("S", extents.items(), constraints)
        if points.is_empty():
            return None
        return [dim_bounds(points.apply(function("S", tuple(extents), access.index))) for access in accesses]


def _tensors(
    names: tuple[str, ...],
    reading: Reading,
    hulls: Mapping[str, Hull],
    extras: Extras,
    mistakes: list[Mistake],
) -> tuple[Tensor, ...]:
    widths = widths_of(names, extras, mistakes)
    usual = dict.fromkeys(names, Role.WEIGHT) | {
        reading.reads[0].tensor: Role.INPUT,
        reading.target.tensor: Role.OUTPUT,
    }
    roles = roles_of(names, usual, extras.roles, mistakes)
    initial = listed_names("initial", extras.initial, names, mistakes)
    temporary = listed_names("temporary", extras.temporary, names, mistakes)
    for name in initial:
        if name in names and name != reading.target.tensor:
            what = f"initial lists {name}, which is only read"
            mistakes.append(
                Mistake("PM214", what, f"Only a written tensor can start with values: {reading.target.tensor}.")
            )
    return tuple(
        Tensor(name, *hulls[name], widths[name][0], roles[name], widths[name][1], name in initial, name in temporary)
        for name in names
    )


def widths_of(names: tuple[str, ...], extras: Extras, mistakes: list[Mistake]) -> dict[str, tuple[int, str | None]]:
    """Return tensor -> (bits, element type or None)."""
    bits = _per_tensor("bits", extras.bits, names, mistakes)
    types = _per_tensor("types", extras.types, names, mistakes)
    widths: dict[str, tuple[int, str | None]] = {}
    for name in names:
        width = as_integer(bits.get(name, 8))
        if width is None or not 1 <= width <= LIMITS.integer:
            whose = f"bits of {name}" if is_table(extras.bits) else "bits"
            large = "too large: " if width is not None and width > LIMITS.integer else ""
            what = f"{whose} is {large}{shown(bits[name])}"
            _note(Mistake("PM212", what, "Expected an integer >= 1 (at most 10^100)."), mistakes)
            width = 8
        kind = types.get(name)
        if kind is None:
            widths[name] = (width, None)
        elif not isinstance(kind, str) or kind not in ELEMENT_TYPES:
            hint = did_you_mean(kind[:64] if isinstance(kind, str) else "", tuple(ELEMENT_TYPES))
            whose = f"the type of {name}" if is_table(extras.types) else "types"
            _note(Mistake("PM212", f"{whose} is {shown(kind)}", hint), mistakes)
            widths[name] = (width, None)
        else:
            if name in bits and width != ELEMENT_TYPES[kind]:
                what = f"{name} has {width} bits and the type {kind}, which has {ELEMENT_TYPES[kind]}"
                mistakes.append(Mistake("PM212", what, "Give bits or types, not both."))
            widths[name] = (ELEMENT_TYPES[kind], kind)
    return widths


def _per_tensor(field: str, value: object, names: tuple[str, ...], mistakes: list[Mistake]) -> dict[str, object]:
    """Return tensor -> value: a table unchanged (with its names checked), any other value for all tensors."""
    if value is None:
        return {}
    if not is_table(value):
        return dict.fromkeys(names, value)
    for name in value:
        if name not in names:
            mistakes.append(
                Mistake(
                    "PM213",
                    f"{field} names {shown(name)}, which is no tensor of the workload",
                    _suggest(name, names, mistakes),
                )
            )
    return {name: value[name] for name in names if name in value}


def roles_of(
    names: tuple[str, ...], usual: Mapping[str, Role], value: object, mistakes: list[Mistake]
) -> dict[str, Role]:
    """Return tensor -> role: as given, else the usual one."""
    roles = dict(usual)
    if value is not None and not is_table(value):
        mistakes.append(Mistake("PM112", f"roles is {shown(value)}", "Expected a table from tensor to role."))
        return roles
    words = tuple(role.value for role in Role)
    for name, word in _per_tensor("roles", value, names, mistakes).items():
        if isinstance(word, Role):
            roles[name] = word
        elif isinstance(word, str) and word in words:
            roles[name] = Role(word)
        else:
            mistakes.append(
                Mistake("PM213", f"the role of {name} is {shown(word)}", f"Expected one of {', '.join(words)}.")
            )
    return roles


def listed_names(field: str, value: object, names: tuple[str, ...], mistakes: list[Mistake]) -> tuple[str, ...]:
    """Return a list of tensor names, each checked."""
    if not is_list(value):
        mistakes.append(Mistake("PM112", f"{field} is {shown(value)}", "Expected a list of tensor names."))
        return ()
    good: list[str] = []
    for name in value:
        if not is_name(name) or name not in names:
            hint = _suggest(name, names, mistakes) if isinstance(name, str) else ""
            mistakes.append(Mistake("PM213", f"{field} names {shown(name)}, which is no tensor of the workload", hint))
        elif name in good:
            mistakes.append(Mistake("PM116", f"{field} lists {name} twice"))
        else:
            good.append(name)
    return tuple(good)


def _note(problem: Mistake, mistakes: list[Mistake]) -> None:
    """Note a mistake once, however many tensors it concerns."""
    if problem not in mistakes:
        mistakes.append(problem)


def _suggest(word: str, known: Sequence[str], mistakes: list[Mistake]) -> str:
    """Return "Did you mean ..." for the first hundred mistakes, since each suggestion takes a while."""
    return did_you_mean(word[:64], known) if len(mistakes) < TUNING.most_mistakes else ""


def _first(mistakes: list[Mistake]) -> list[Mistake]:
    """Return the mistakes; of very many, the later ones as one line."""
    if len(mistakes) <= TUNING.most_mistakes:
        return mistakes
    return [
        *mistakes[: TUNING.most_mistakes],
        Mistake("PM217", f"and {len(mistakes) - TUNING.most_mistakes:,} more mistakes"),
    ]
