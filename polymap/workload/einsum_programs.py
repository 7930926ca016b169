"""Several einsums as one program: each a statement with a nest of its own, in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polymap.inputs import answers_in_words, is_list, shown
from polymap.ir import (
    Convert,
    Expression,
    Mistake,
    Number,
    Operator,
    Statement,
    Tensor,
    Workload,
    WorkloadError,
    affine,
    did_you_mean,
    starting_operator,
    with_indices,
    with_parts,
    written_tensors,
)
from polymap.workload.c import (
    EXTREMES,
    FUNCTIONS,
    Assign,
    Binary,
    Call,
    CExpression,
    Complaints,
    CStatement,
    Declare,
    For,
    Item,
    Literal,
    Name,
    Program,
    Refused,
    inside,
    parts,
    rebuilt,
    render,
    workload_of_program,
)
from polymap.workload.dependence_analysis import leaves_unwritten
from polymap.workload.einsums import (
    Extras,
    checked_associative,
    checked_extent,
    checked_label,
    listed_names,
    merged_sizes,
    roles_of,
    widths_of,
)
from polymap.workload.element_types import types_by_name
from polymap.workload.python_code import PythonCode
from polymap.workload.tuning import TUNING

_STATEMENT = re.compile(r"(?P<target>.*?)(?P<operator>max=|min=|[-+*/%]?=)(?!=)(?P<value>.*)", re.DOTALL)
_OPERATORS = ("=", "+=", "max=", "min=")
_SUBSCRIPT = re.compile(r"\[[^\]]*\]")
_FACTOR = re.compile(r"(?<![\w.])([0-9]+)\s*([A-Za-z_])")
_PLACE = "einsums"


@dataclass(frozen=True, slots=True)
class Einsum:
    """One statement as it was read. dims: of all its subscripts, in order of first occurrence, the target's first."""

    target: Name | Item
    operator: str
    value: CExpression
    dims: tuple[str, ...]
    line: int

    def assignment(self) -> Assign:
        """Return the update; maxima and minima as C writes them."""
        if self.operator in ("max=", "min="):
            return Assign(self.target, "=", Call(self.operator[:3], (self.target, self.value), self.line), self.line)
        return Assign(self.target, self.operator, self.value, self.line)

    def nest(self, extents: Mapping[str, int]) -> CStatement:
        """Return the update in its loops."""
        body: CStatement = self.assignment()
        for dim in reversed(self.dims):
            size = Literal(str(extents[dim]), extents[dim], self.line, "int32" if extents[dim] < 2**31 else "int64")
            start, step = (Literal(str(n), n, self.line) for n in (0, 1))
            condition = Binary("<", Name(dim, self.line), size, self.line)
            body = For(dim, start, condition, step, None, (body,), self.line)
        return body


@answers_in_words
def program(
    statements: Sequence[str],
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
    """Return the workload of several einsums, which run one after the other, each in loops of its own.

        pm.program(["T[m,n] += A[m,k] * B[k,n]", "C[m,n] = max(T[m,n], 0)"], m=64, n=64, k=64, temporary=["T"])

    Right sides are sums, products, quotients, `max`, `min`, comparisons, functions such as `exp` and `sqrt`, and
    numbers; `=`, `+=`, `max=` and `min=` write. Loops stand in the order of first occurrence, the target's dims first.
    Statements are S0, S1, ...; equal names are one dim, so that a loop over it may run several statements. What is
    accumulated into starts at zero (maxima and minima: at their least and largest value) unless it is in `initial`.
    The options are those of `einsum`; types: also needed where a program divides or calls functions ("float32").

    Raises WorkloadError with every mistake; (einsums:2) is the second one of the list.
    """
    complaints = Complaints(_PLACE)
    mistakes = complaints.mistakes
    given = merged_sizes(sizes, extents, mistakes)
    read = _read(statements, complaints)
    checked = _checked_extents(read, given, complaints)
    _check_all(read, complaints)
    names = tuple(dict.fromkeys(place for each in read for place, _ in _tensors_in(each)))
    kinds = types_by_name(types, names, mistakes)
    extras = Extras(bits, types, roles, initial, temporary, associative, checked_label(name, mistakes))
    starts, dead = (listed_names(field, some, names, mistakes) for field, some in _lists(extras))
    widths = widths_of(names, extras, mistakes)
    checked_associative(associative, mistakes)
    if not types:
        _check_integers(read, complaints)
    _stop_if_wrong(mistakes)
    workload = _typed_workload(read, checked, kinds, starts, complaints, name or "program", associative=associative)
    tensors = tuple(_tensor(each, workload, starts, dead, complaints) for each in workload.tensors)
    usual = {each.name: each.role for each in tensors}
    chosen = roles_of(tuple(usual), usual, roles, mistakes)
    _stop_if_wrong(mistakes)
    if not types:
        workload = replace(workload, statements=tuple(_without_types(each) for each in workload.statements))
    final = (replace(t, bits=widths[t.name][0], element_type=widths[t.name][1], role=chosen[t.name]) for t in tensors)
    return replace(workload, tensors=tuple(final))


def _typed_workload(
    read: Sequence[Einsum],
    extents: Mapping[str, int],
    kinds: Mapping[str, str],
    starts: Sequence[str],
    complaints: Complaints,
    name: str,
    *,
    associative: bool,
) -> Workload:
    """Return the workload as C reads the loops, equal names one dim; data without a type are int."""
    read = [_in_floats(each, kinds) for each in read]
    ranks = {tensor: rank for each in read for tensor, rank in _tensors_in(each)}
    outside = tuple(Declare(n, kinds.get(n, "int32"), (None,) * rank, None, 1) for n, rank in ranks.items())
    code = Program(name, outside, tuple(each.nest(extents) for each in read), wrapped=True)
    workload, _ = workload_of_program(code, {}, frozenset(ranks), complaints, name, associative=associative)
    _check_operators(read, workload, complaints)
    return _with_shared_dims(workload)


def _in_floats(each: Einsum, kinds: Mapping[str, str]) -> Einsum:
    """Return a statement whose tensors are all float32 with its fractions and functions in float32; C has doubles."""

    def single(value: CExpression) -> CExpression:
        match value:
            case Item():
                return value
            case Literal(text, None) if float(text) == 0 or 2.0**-126 <= abs(float(text)) < 2.0**127:
                return replace(value, text=f"{text}f", element_type="float32")
            case Call(function) if f"{function}f" in EXTREMES or function in FUNCTIONS:
                return replace(rebuilt(value, single), function=f"{function}f")
            case _:
                return rebuilt(value, single)

    is_single = all(kinds.get(tensor) == "float32" for tensor, _ in _tensors_in(each))
    return replace(each, value=single(each.value)) if is_single else each


def _with_shared_dims(workload: Workload) -> Workload:
    """Return the program with the loops of one variable, which are equally long, made one dim."""
    names = {each.name: each.variable or each.name for each in workload.dims}
    dims = {names[each.name]: replace(each, name=names[each.name], variable="") for each in workload.dims}
    values = {name: affine(((1, new),)) for name, new in names.items()}
    whole = [replace(each, dims=tuple(names[name] for name in each.dims)) for each in workload.statements]
    statements = tuple(with_indices(each, values) for each in whole)
    return replace(workload, dims=tuple(dims.values()), statements=statements)


def _lists(extras: Extras) -> tuple[tuple[str, object], tuple[str, object]]:
    return ("initial", extras.initial), ("temporary", extras.temporary)


def _stop_if_wrong(mistakes: list[Mistake]) -> None:
    if mistakes:
        raise WorkloadError(mistakes)


def _read(statements: Sequence[str], complaints: Complaints) -> list[Einsum]:
    """Return the statements that can be read."""
    given: object = statements  # what callers may give
    if not is_list(given) or not given or not all(isinstance(each, str) for each in given):
        what = f"the program is {shown(statements)}"
        raise WorkloadError(Mistake("PM201", what, 'Expected a list of einsums: ["C[m,n] += A[m,k] * B[k,n]"].'))
    found: list[Einsum] = []
    for line, text in enumerate(statements, 1):
        try:
            found.append(_einsum(text, line, complaints))
        except Refused as refused:
            complaints.add(refused.code, refused.line, refused.what, refused.hint)
    return found


def _einsum(text: str, line: int, complaints: Complaints) -> Einsum:
    if not isinstance(text, str) or len(text) > TUNING.most_text:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers
        raise Refused(
            "PM201", line, f"the einsum is {shown(text)[:80]}", f"A text of at most {TUNING.most_text:,} characters."
        )
    match = _STATEMENT.fullmatch(text)
    if match is None or match["operator"] not in _OPERATORS:
        raise Refused("PM201", line, f"{shown(text)} has no operator of an einsum", f"{', '.join(_OPERATORS)} are.")
    code = PythonCode(complaints, line)
    target = code.target(_parsed(match["target"], line))
    value = code.expression(_parsed(match["value"], line))
    dims = dict.fromkeys((*_dims_in(target), *_dims_in(value)))
    return Einsum(target, match["operator"], value, tuple(dims), line)


def _parsed(text: str, line: int) -> ast.expr:
    """Return the syntax of an expression; `2p` is a product, `T[]` a scalar."""
    plain = _SUBSCRIPT.sub(lambda found: _FACTOR.sub(r"\1*\2", found.group()), text).replace("[]", "").strip()
    try:
        return ast.parse(" ".join(plain.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        hint = "Sums, products and functions of accesses such as A[m,2*k+1] are read."
        raise Refused("PM201", line, f"{shown(text.strip()[:80])} cannot be read", hint) from None


def _dims_in(expression: CExpression, *, inside: bool = False) -> Iterator[str]:
    """Yield the names in subscripts, in textual order."""
    if inside and isinstance(expression, Name):
        yield expression.name
    for part in parts(expression):
        yield from _dims_in(part, inside=inside or isinstance(expression, Item))


def _tensors_in(each: Einsum) -> Iterator[tuple[str, int]]:
    """Yield the tensors with their number of subscripts, the target first."""
    for place in _places(each.target, each.value):
        if isinstance(place, Item):
            yield place.array, len(place.index)
        elif place.name not in each.dims:
            yield place.name, 0


def _places(*expressions: CExpression) -> Iterator[Name | Item]:
    """Yield the scalars and elements that expressions name, subscripts aside, in textual order."""
    for each in expressions:
        if isinstance(each, Name | Item):
            yield each
        else:
            yield from _places(*parts(each))


def _checked_extents(read: Sequence[Einsum], given: Mapping[str, object], complaints: Complaints) -> dict[str, int]:
    """Return dim -> extent; dims without a size and sizes without a dim are noted."""
    dims = {dim: each.line for each in reversed(read) for dim in each.dims}
    for dim, line in dims.items():
        if dim not in given:
            hint = f"Add {dim}=..., an integer >= 1."
            complaints.add("PM204", line, f"unknown dim {dim}: it has no size", hint)
    for name in given:
        if name not in dims:
            what = f"there is no dim {shown(name)} in the program, but it has a size"
            complaints.mistakes.append(Mistake("PM205", what, did_you_mean(name[:64], tuple(dims))))
    return {name: checked_extent(name, size, complaints.mistakes) for name, size in given.items()}


def _check_all(read: Sequence[Einsum], complaints: Complaints) -> None:
    """Note `=` over reduced dims, and targets that are read elsewhere than they are written."""
    for each in read:
        kept = set(_dims_in(each.target))
        reduced = [dim for dim in each.dims if dim not in kept]
        if each.operator == "=" and reduced:
            what = f"= overwrites, but {', '.join(reduced)} does not occur in {render(each.target)}"
            complaints.add("PM210", each.line, what, "Write += (or max=, min=) to accumulate over it.")
        for place in _places(each.value):
            same = render(place) == render(each.target) and each.operator == "="
            if _name(place) == _name(each.target) and not same:
                what = f"the output {_name(place)} is read on the right, in {render(place)}"
                complaints.add("PM208", each.line, what, "Write a recurrence as loops (nest, from_c).")


def _name(place: Name | Item) -> str:
    return place.name if isinstance(place, Name) else place.array


def _check_integers(read: Sequence[Einsum], complaints: Complaints) -> None:
    """Note values that are fractions where no element types are given."""
    for each in read:
        for part in inside(each.value):
            divides = isinstance(part, Binary) and part.operator == "/"
            calls = isinstance(part, Call) and part.function not in ("max", "min", "floord")
            if divides or calls or (isinstance(part, Literal) and part.number is None):
                what = f"{render(part)} is a fraction"
                complaints.add("PM212", each.line, what, 'Give the element types: types="float32".')


def _check_operators(read: Sequence[Einsum], workload: Workload, complaints: Complaints) -> None:
    """Note accumulations that round in every step, in a type that does not hold what is accumulated."""
    for each, statement in zip(read, workload.statements, strict=True):
        if each.operator != statement.operator.value:
            what = f"{render(each.target)} {each.operator} ... rounds in every step"
            complaints.add("PM212", each.line, what, "Give the target a type that holds the values.")


def _tensor(
    tensor: Tensor, workload: Workload, starts: Sequence[str], dead: Sequence[str], complaints: Complaints
) -> Tensor:
    """Return the tensor as the options say; one that is read before it is set is noted."""
    is_written = tensor.name in written_tensors(workload)
    if not is_written and tensor.name in (*starts, *dead):
        what = f"{tensor.name} is initial or temporary, and is only read"
        complaints.mistakes.append(Mistake("PM214", what, "Only written tensors start with values or are temporary."))
    if tensor.initial and tensor.name not in starts and not _starts_at_zero(workload, tensor.name):
        what = f"{tensor.name} is read before it is set"
        complaints.mistakes.append(Mistake("PM269", what, f"Set it first, or give initial=[{tensor.name!r}]."))
    return replace(tensor, initial=tensor.name in starts, temporary=tensor.name in dead)


def _starts_at_zero(workload: Workload, tensor: str) -> bool:
    """Return whether the first statement that touches a tensor accumulates into it, and others into it do likewise: of
    maxima and minima all elements, as what nothing is compared with is no number."""
    zero = replace(workload, tensors=tuple(replace(each, initial=False) for each in workload.tensors))
    first = starting_operator(zero, tensor)
    operators = {each.operator for each in workload.statements if each.target.tensor == tensor}
    if first is None or not operators <= {first, Operator.ASSIGN}:
        return False
    return first in (Operator.ADD, Operator.MULTIPLY) or not leaves_unwritten(zero, zero.tensor(tensor))


def _without_types(statement: Statement) -> Statement:
    return replace(statement, expression=_plain(statement.expression))


def _plain(expression: Expression) -> Expression:
    """Return the value without C's conversions: integers of any length."""
    match expression:
        case Convert(_, value):
            return _plain(value)
        case Number(text):
            return Number(text.rstrip("uUlL"))
        case _:
            return with_parts(expression, _plain)
