"""One C loop as a dim: its values, in execution order, become counters from 0; and where a loop variable is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polymap.inputs import shown
from polymap.ir import Affine, Floor, affine, bounds, dim
from polymap.poly import budget, dim_bounds, integer_set
from polymap.workload.c.affine import (
    Atom,
    Every,
    Formula,
    Scope,
    Some,
    affine_of,
    constraints_of,
    converted,
    extremes,
    fits,
    formula_of,
    negation,
    outside_its_loop,
    rules_of,
    seen,
    whole_of,
)
from polymap.workload.c.tree import (
    Assign,
    Binary,
    Block,
    Cast,
    CExpression,
    CStatement,
    Declare,
    For,
    If,
    Name,
    Refused,
    all_statements,
    decided_loop,
    inside,
    loop_condition,
    names_of,
    render,
)
from polymap.workload.c.types import (
    FLOATS,
    SPELLING,
    bits_of,
    common,
    holds,
    is_unsigned,
    limits as limits_of,
    type_of_value,
)

# A loop variable's value before its range is known: any integer that C can hold, both signs.
_FAR = 1 << 200
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Range:
    """The values origin + step * counter, counter < extent, that satisfy the constraints (over all counters).

    kind: the type of the loop variable, None for an undeclared one that no type holds.
    """

    origin: int
    step: int
    extent: int
    constraints: tuple[Affine, ...]
    kind: str | None = None

    def value(self, name: str) -> Affine:
        """Return the loop variable in terms of its counter."""
        return dim(name) * self.step + self.origin


@dataclass(frozen=True, slots=True)
class _Bounds:
    """A loop as rising values w (a falling variable is -w): w >= each of starts; factor * w <= limit for each end."""

    sign: int
    step: int
    starts: tuple[Affine, ...]
    ends: tuple[tuple[int, Affine], ...]


def range_of(loop: For, scope: Scope, name: str, kind: str | None) -> Range | None:
    """Return the loop's values inside the loops of the scope (counters satisfy the constraints); None if it never runs.

    name: of the new counter. kind: the declared type of the variable. Refused if the loop has no recognisable end, is
    not affine, or leaves the range of its variable.
    """
    if kind in FLOATS:
        what = f"the loop variable '{loop.variable}' is a {SPELLING[kind]}"
        raise Refused("PM263", loop.line, what, "Loops count in integers: rounding would decide how often it runs.")
    leaves = list(_leaves(_as_range(loop, scope, kind), scope, kind, ()))
    if scope.parameters is not None:
        return _parametric(leaves, name, kind)
    if len(leaves) == 1:
        return _single(leaves[0], name, kind)
    return _joined(leaves, scope.extents, name, kind)


def _as_range(loop: For, scope: Scope, kind: str | None) -> For:
    """Return a loop until `i != e` fails as one with `<` or `>`, where its steps meet e and it does not begin behind e:
    signed types of at least 32 bits would overflow then, which C leaves undefined; others wrap around."""
    match loop.condition:
        case Binary("!=", Name(name) as counter, bound, line) if name == loop.variable:
            pass
        case Binary("!=", bound, Name(name) as counter, line) if name == loop.variable:
            pass
        case _:
            return loop
    step = affine_of(loop.step, scope)
    if step.terms or not step.constant or name in names_of(bound):
        return loop
    if abs(step.constant) > 1:
        way = affine_of(loop.start, scope) - affine_of(bound, scope)
        if any(factor % step.constant for factor in (way.constant, *(factor for factor, _ in way.terms))):
            what = f"the loop over '{name}' may step over {shown(render(bound))}, and would not end"
            raise Refused("PM263", line, what, f"Compare with {'<' if step.constant > 0 else '>'}.")
    sign = "<" if step.constant > 0 else ">"
    own = common(kind or "int64", whole_of(bound, scope).kind or "int64")
    if is_unsigned(own) or (kind is not None and bits_of(kind) < 32):
        begins = Binary(f"{sign}=", Cast(kind or "int64", loop.start, line, written=False), bound, line)
        behind = constraints_of(negation(formula_of(begins, scope)), scope.extents)
        if behind is not None and not scope.assumes(*behind):
            what = f"the loop over '{name}' may begin behind {shown(render(bound))}, and would wrap around to reach it"
            raise Refused("PM272", line, what, f"Compare with {sign}, or count in int.")
    return replace(loop, condition=Binary(sign, counter, bound, line))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A loop where conditions on the loops around it hold (formulas). own: its further constraints on these loops, None
    where it never runs."""

    loop: For
    scope: Scope
    where: tuple[Formula, ...]
    limits: _Bounds
    own: tuple[Affine, ...] | None


def _leaves(loop: For, scope: Scope, kind: str | None, where: tuple[Formula, ...]) -> Iterator[_Leaf]:
    """Yield the loop in pieces, each of which runs from an extreme of quasi-affine values to another."""
    try:
        yield _leaf(loop, scope, kind, where)
        return
    except Refused:
        rules = rules_of(replace(scope, integers={k: v for k, v in scope.integers.items() if k != loop.variable}))
        condition = loop_condition(loop, rules)
        if condition is None:
            raise
    formula = formula_of(condition, scope)
    for holds_here in (True, False):
        own = formula if holds_here else negation(formula)
        found = constraints_of(own, scope.extents)
        if found is not None:
            inner = replace(scope, constraints=(*scope.constraints, *found))
            yield from _leaves(decided_loop(loop, condition, rules, holds=holds_here), inner, kind, (*where, own))


def _leaf(loop: For, scope: Scope, kind: str | None, where: tuple[Formula, ...]) -> _Leaf:
    step = affine_of(loop.step, scope)
    if step.terms or step.constant == 0:
        what = f"the loop over '{loop.variable}' is unbounded: its step is {shown(render(loop.step))}"
        if step.terms and scope.parameters is not None:
            what = f"the step {shown(render(loop.step))} of the loop over '{loop.variable}' is no constant"
        raise Refused("PM263", loop.line, what, "A step is a constant other than 0: i++ and i -= 2 are.")
    sign = 1 if step.constant > 0 else -1
    found = extremes(loop.start, scope, maximum=sign > 0)
    if not found:
        raise Refused("PM262", loop.line, f"the start {shown(render(loop.start))} is not one value or their extreme")
    starts = tuple(seen(loop.start, converted(loop.start, each, kind, scope), scope) * sign for each in found)
    if abs(step.constant) > 1 and len(starts) > 1 and any(start.terms for start in starts):
        what = f"a step of {abs(step.constant)} from the extreme of several values is not read"
        raise Refused("PM262", loop.line, what)
    ends, extra = _ends(loop, scope, sign, starts, is_endless_below_zero=kind is not None and is_unsigned(kind))
    own: tuple[Affine, ...] | None = None
    if all(constraints_of(formula, scope.extents) is not None for formula in extra):
        own = tuple(each for formula in extra for each in constraints_of(formula, scope.extents) or ())
    return _Leaf(loop, scope, where, _Bounds(sign, abs(step.constant), starts, ends), own)


def _single(leaf: _Leaf, name: str, kind: str | None) -> Range | None:
    """Return the values of a loop that is no more than one piece."""
    loop, scope, limits, own = leaf.loop, leaf.scope, leaf.limits, leaf.own
    if own is None:
        return None
    values = _normal(limits, scope.extents, (*scope.constraints, *own), own, name)
    return None if values is None else replace(values, kind=_kind(loop, limits, values, scope, kind))


def _joined(leaves: Sequence[_Leaf], extents: Mapping[str, int], name: str, kind: str | None) -> Range | None:
    """Return the values of all pieces of a loop: where the conditions of one hold, its constraints hold."""
    singles = [_single(leaf, name, kind) for leaf in leaves]
    found = [each for each in singles if each is not None]
    if not found:
        return None
    sign = leaves[0].limits.sign
    rising = [each.origin * sign + over for each in found for over in (0, abs(each.step) * (each.extent - 1))]
    low, extent = min(rising), max(rising) - min(rising) + 1
    pieces = [(leaf, values is not None) for leaf, values in zip(leaves, singles, strict=True)]
    constraints = _united(pieces, dim(name) + low, {**extents, name: extent})
    kinds = [each.kind for each in found if each.kind is not None]
    return None if constraints is None else Range(low * sign, sign, extent, constraints, max(kinds, key=bits_of))


def _united(pieces: Iterable[tuple[_Leaf, bool]], value: Affine, box: Mapping[str, int]) -> tuple[Affine, ...] | None:
    """Return the constraints on a rising value in a loop of several pieces, each with whether it ever runs; None where
    none does."""
    constraints: list[Affine] = []
    for leaf, runs in pieces:
        elsewhere = negation(Every(leaf.where))
        wanted = [*(leaf.own or ()), *_inside(leaf.limits, value)] if runs else [Affine((), -1)]
        for each in wanted:
            own = constraints_of(Some((elsewhere, Atom(each))), box)
            if own is None:
                return None
            constraints += own
    return tuple(dict.fromkeys(constraints))


def _parametric(leaves: Sequence[_Leaf], name: str, kind: str | None) -> Range | None:
    """Return the values of a loop whose bounds depend on sizes without values: all of its type that lie inside them.

    The counter counts from one before an end of the type, so that no bound is taken for one that always holds; steps of
    more than one are a constraint.
    """
    sign = leaves[0].limits.sign
    least, largest = limits_of(kind or "int64")
    least, largest = least - 1, largest + 1
    extent = largest - least + 1
    value = dim(name) + (least if sign > 0 else -largest)
    constraints: tuple[Affine, ...] | None = None
    if len(leaves) > 1:
        pieces = [(leaf, leaf.own is not None) for leaf in leaves]
        constraints = _united(pieces, value, {**leaves[0].scope.extents, name: extent})
    elif leaves[0].own is not None:
        constraints = (*leaves[0].own, *_inside(leaves[0].limits, value))
    if constraints is None:
        return None
    for leaf in leaves:
        _check_type(leaf, value, name, extent, kind)
    return Range(least if sign > 0 else largest, sign, extent, constraints, kind)


def _check_type(leaf: _Leaf, value: Affine, name: str, extent: int, kind: str | None) -> None:
    """Refuse a loop of which the variable may leave its type, or a side of the condition wrap around, for some size.

    value: the rising value. Signed types of at least 32 bits are not left: C leaves what happens then undefined.
    """
    loop, limits = leaf.loop, leaf.limits
    inside = (*leaf.scope.constraints, *(leaf.own or ()), *_inside(limits, value))
    scope = replace(
        leaf.scope,
        integers={**leaf.scope.integers, loop.variable: value * limits.sign},
        types={**leaf.scope.types, loop.variable: kind},
        extents={**leaf.scope.extents, name: extent},
        constraints=inside,
    )
    after = (value + limits.step) * limits.sign
    least, largest = limits_of(kind or "int64")
    wraps = kind is not None and kind not in ("int32", "int64") and not fits(after, kind, scope)
    if kind is not None and wraps and not scope.assumes(after - largest - 1, -after + (least - 1)):
        what = f"the loop variable '{loop.variable}' may leave its type '{SPELLING[kind]}'"
        raise Refused("PM272", loop.line, what, "Values for the sizes (N=8) may exclude that; so may a wider type.")
    asked = [(after, inside)]
    for start in limits.starts:
        largest = tuple(start - other for other in limits.starts if other != start)
        asked.append((start * limits.sign, (*leaf.scope.constraints, *largest)))
    for counted, where in asked:
        integers = {**scope.integers, loop.variable: counted}
        formula_of(loop.condition, replace(scope, integers=integers, constraints=where))


def _kind(loop: For, limits: _Bounds, values: Range, scope: Scope, kind: str | None) -> str | None:
    """Return the type of the variable, after the condition was read once more in C's types.

    From its first value to the one that ends the loop, the variable must stay in its type, and no side of the
    condition may wrap.
    """
    ends = [values.origin, values.origin + values.step * (values.extent - 1) + limits.step * limits.sign]
    ends += [bound * limits.sign for start in limits.starts for bound in bounds(start, scope.extents)]
    low, high = min(ends), max(ends)
    if kind is None:
        kind = type_of_value(low, high)
    elif not holds(kind, low, high):
        least, largest = limits_of(kind)
        what = f"the loop variable '{loop.variable}' would reach {low if low < least else high}"
        hint = f"Its type '{SPELLING[kind]}' ends at {least if low < least else largest}: use a wider one."
        raise Refused("PM272", loop.line, what, hint)
    value = dim(_UNKNOWN) + low
    inner = replace(
        scope,
        integers={**scope.integers, loop.variable: value},
        types={**scope.types, loop.variable: kind},
        extents={**scope.extents, _UNKNOWN: high - low + 1},
        constraints=(*scope.constraints, *(value * limits.sign - start for start in limits.starts)),
    )
    formula_of(loop.condition, inner)
    return kind


def _ends(
    loop: For, scope: Scope, sign: int, starts: tuple[Affine, ...], *, is_endless_below_zero: bool
) -> tuple[tuple[tuple[int, Affine], ...], list[Formula]]:
    """Return the upper bounds (factor, limit) of the rising value, and further constraints on the outer loops."""
    inner = replace(
        scope,
        integers={**scope.integers, loop.variable: dim(_UNKNOWN) - _FAR},
        types={**scope.types, loop.variable: None},
        extents={**scope.extents, _UNKNOWN: 2 * _FAR},
    )
    ends: list[tuple[int, Affine]] = []
    others: list[Formula] = []
    for atom in _atoms(loop, formula_of(loop.condition, inner)):
        factor = sum(c for c, each in atom.terms if each == _UNKNOWN)
        rest = affine(tuple((c, each) for c, each in atom.terms if each != _UNKNOWN), atom.constant + factor * _FAR)
        if _UNKNOWN in rest.dims:
            raise Refused("PM262", loop.line, f"{shown(render(loop.condition))} is not affine in '{loop.variable}'")
        if factor * sign < 0:
            ends.append((abs(factor), rest))
        else:
            others.append(Some(tuple(Atom(start * abs(factor) + rest) for start in starts)))
    endless = is_endless_below_zero and sign < 0 and all(bounds(limit, scope.extents)[1] >= 0 for _, limit in ends)
    if not ends or endless:
        what = f"the loop over '{loop.variable}' is unbounded: {shown(render(loop.condition))} never ends it"
        why = "An unsigned variable is never negative." if ends else "It counts away from its bound."
        raise Refused("PM263", loop.line, what, why)
    return tuple(ends), others


def _atoms(loop: For, formula: Formula) -> list[Affine]:
    match formula:
        case Atom(expression):
            return [expression]
        case Every(parts):
            return [each for part in parts for each in _atoms(loop, part)]
        case Some():
            what = f"the condition {shown(render(loop.condition))} of the loop over '{loop.variable}' is no range"
            raise Refused("PM262", loop.line, what, "Compare with < <= > >=, joined by &&.")


def _normal(
    limits: _Bounds,
    extents: Mapping[str, int],
    outer: tuple[Affine, ...],
    own: tuple[Affine, ...],
    name: str,
) -> Range | None:
    low = max(bounds(start, extents)[0] for start in limits.starts)
    high = min(bounds(limit, extents)[1] // factor for factor, limit in limits.ends)
    if high < low:
        return None
    fixed = all(not start.terms for start in limits.starts)
    if not fixed or any(limit.terms for _, limit in limits.ends):
        tight = _tightened(limits, extents, outer, low, high)
        if tight is None:
            return None
        # Steps are counted from the start: only a start that moves may be moved.
        low, high = (low if fixed else tight[0]), tight[1]
    step = limits.step if fixed else 1
    extent = (high - low) // step + 1
    value = dim(name) * step + low
    wanted = [*own, *_inside(limits, value)] if not fixed else [*own, *_below(limits, value)]
    box = {**extents, name: extent}
    kept = tuple(each for each in wanted if bounds(each, box)[0] < 0)
    return Range(low * limits.sign, step * limits.sign, extent, kept)


def _below(limits: _Bounds, value: Affine) -> list[Affine]:
    return [limit - value * factor for factor, limit in limits.ends]


def _inside(limits: _Bounds, value: Affine) -> list[Affine]:
    """Return the constraints (each >= 0) on a value between the ends."""
    wanted = [*(value - start for start in limits.starts), *_below(limits, value)]
    if limits.step > 1:
        offset = value - limits.starts[0]
        wanted.append(affine(((limits.step, Floor(offset, limits.step)),)) - offset)
    return wanted


def _tightened(
    limits: _Bounds, extents: Mapping[str, int], outer: tuple[Affine, ...], low: int, high: int
) -> tuple[int, int] | None:
    """Return the least and the largest value, or None if there is none."""
    value = dim(_UNKNOWN) + low
    with budget(what="the range of a loop"):
        names = list(dict.fromkeys(each for wanted in (*outer, *_inside(limits, value)) for each in wanted.dims))
        pairs = [(each, high - low + 1 if each == _UNKNOWN else extents[each]) for each in names if each != _UNKNOWN]
        points = integer_set("", [(_UNKNOWN, high - low + 1), *pairs], (*outer, *_inside(limits, value)))
        if points.is_empty():
            return None
        first, last = dim_bounds(points)[0]
    return low + first, low + last


def misused_counters(body: Sequence[CStatement]) -> Iterator[Refused]:
    """Yield the places of a program where a loop variable has another value than that of a loop around it.

    Outside its loops it has the value that the last one left (after loops that never ran, its first one): orders in
    which the loops run together leave none.
    """
    counters = frozenset(each.variable for each in all_statements(body) if isinstance(each, For))
    yield from _misused(body, counters, frozenset())


def _misused(body: Sequence[CStatement], counters: frozenset[str], counted: frozenset[str]) -> Iterator[Refused]:
    """counted: by the loops around."""
    for each in body:
        match each:
            case Assign(target, _, value):
                index = () if isinstance(target, Name) else target.index
                yield from _read_outside((value, *index), counters - counted)
            case Declare(name, _, shape, value, line):
                yield from _read_outside((value, *shape), counters - counted)
                if name in counted:
                    yield _twice(name, line, "declared again in its loop")
            case For() if isinstance(each.start, Name) and each.start.name == each.variable:
                what = f"the loop cannot be read: the values of '{each.variable}' are no sum of loop variables"
                yield Refused("PM261", each.line, what, "Only constants may be added to what it counts.")
            case For():
                yield from _read_outside((each.start,), counters - counted)
                if each.variable in counted and each.element_type is None:
                    yield _twice(each.variable, each.line, "changed by another loop inside its loop")
                inner = counted | {each.variable}
                yield from _read_outside((each.condition, each.step), counters - inner)
                yield from _misused(each.body, counters, inner)
            case If(condition, then, other):
                yield from _read_outside((condition,), counters - counted)
                yield from _misused((*then, *other), counters, counted)
            case Block(inside):
                yield from _misused(inside, counters, counted)


def _twice(name: str, line: int, what: str) -> Refused:
    return Refused("PM267", line, f"the loop variable '{name}' is {what}", "Give each loop a variable of its own.")


def _read_outside(expressions: Sequence[CExpression | None], lost: frozenset[str]) -> Iterator[Refused]:
    for part in (part for each in expressions if each is not None for part in inside(each)):
        if isinstance(part, Name) and part.name in lost:
            yield outside_its_loop(part.name, part.line)
