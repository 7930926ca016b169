"""OpenScop as C: each statement in the loops and conditions of its domain, in the order that its scattering gives.

A scattering is read as an order of loops where each time is a number, an iterator, or the negative of one: what clan
writes, and interchanges, fusions and reversals of that. Others are schedules of a program (`from_openscop`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple, TypeGuard

from polymap.inputs import answers_in_words, shown
from polymap.ir import Access, Affine, Floor, InputError, Mistake, Operator, ScheduleError, Statement, Workload, dim
from polymap.workload.openscop import Matrix, Scop, ScopStatement, outputs_of, scop_of
from polymap.workload.tuning import TUNING

Form = dict[str, int]  # an iterator, a parameter or the C text of a quotient -> its factor; "" -> the constant
_WORD = re.compile(r"[A-Za-z_]\w*")
_TIMES = "Times that are numbers, iterators or their negatives are read; `from_openscop(workload, text)` reads others."


class _Rule(NamedTuple):
    """A condition: form >= 0, form == 0, or (divisor > 1) the form is a multiple of the divisor."""

    form: Form
    is_equality: bool = False
    divisor: int = 1

    @property
    def is_bound(self) -> bool:
        """Whether loops can say it."""
        return self.divisor == 1 and not any("(" in name for name in self.form)


class _Bound(NamedTuple):
    """form / divisor, rounded up (of lower bounds) or down."""

    form: tuple[tuple[str, int], ...]
    divisor: int


class _Ends(NamedTuple):
    """Lower and upper bounds of a loop, all of which hold."""

    lower: frozenset[_Bound]
    upper: frozenset[_Bound]


class _Loop(NamedTuple):
    """A loop that is a time. step: 1 or -1; form: what else tells loops apart that are not one."""

    iterator: str
    step: int
    form: tuple[int, ...]


Time = int | _Loop


class _Placed(NamedTuple):
    """A statement in its order. parts: the rules of each part of the domain;
    ends: per part, of each loop, outermost first."""

    number: int
    body: str
    times: tuple[Time, ...]
    parts: tuple[tuple[_Rule, ...], ...]
    ends: tuple[tuple[_Ends, ...], ...]

    def renamed(self, name: str, variable: str) -> _Placed:
        """Return the statement with another name of an iterator."""
        if name == variable:
            return self

        def of_form(form: Form) -> Form:
            return {_renamed(each, name, variable): factor for each, factor in form.items()}

        def of_bounds(bounds: frozenset[_Bound]) -> frozenset[_Bound]:
            return frozenset(_bound(of_form(dict(form)), divisor) for form, divisor in bounds)

        times = (time._replace(iterator=variable) if _is_over(time, name) else time for time in self.times)
        return self._replace(
            body=_renamed(self.body, name, variable),
            times=tuple(times),
            parts=tuple(tuple(rule._replace(form=of_form(rule.form)) for rule in rules) for rules in self.parts),
            ends=tuple(tuple(_Ends(*map(of_bounds, each)) for each in part) for part in self.ends),
        )


def _is_over(time: Time, name: str) -> TypeGuard[_Loop]:
    return isinstance(time, _Loop) and time.iterator == name


def _renamed(text: str, name: str, variable: str) -> str:
    return re.sub(rf"(?<!\w){name}(?!\w)", variable, text)


@answers_in_words
def openscop_to_c(text: str, *, file: str = "the text") -> str:
    """Return C between `#pragma scop` and `#pragma endscop` that runs an OpenScop file's statements in its order.

    Raises InputError (PM437) for a text that is no OpenScop file, (PM438) for domains and scatterings that are no nest,
    (PM439) where a statement's accesses are not those of its text, and what `from_c` raises for texts of statements.
    """
    scop = scop_of(text, file)
    for number, statement in enumerate(scop.statements):
        _check_accesses(number, statement, scop, file)
    placed = [_placed(number, each, scop) for number, each in enumerate(scop.statements)]
    words = [
        *scop.parameters,
        *(word for each in scop.statements for word in (*each.iterators, *_WORD.findall(each.body))),
    ]
    lines = _lines(placed, 0, (), frozenset(words))
    return "\n".join(("#pragma scop", *lines, "#pragma endscop", ""))


def _check_accesses(number: int, statement: ScopStatement, scop: Scop, file: str) -> None:
    """Refuse a statement whose text accesses other elements than its relations say."""
    from polymap.workload.c import from_c

    loops = " ".join(f"for (int {name} = 0; {name} < 2; {name}++)" for name in statement.iterators)
    sizes = {name: 1009 + 4 * place for place, name in enumerate(scop.parameters)}  # no two sums of a text are equal
    text = f"#pragma scop\n{loops} {statement.body.strip().rstrip(';')};\n#pragma endscop\n"
    words = set(_WORD.findall(text))
    used = {name: size for name, size in sizes.items() if name in words}
    read = from_c(text, used, file=f"{file}, statement {number} as C")
    in_text = {(is_write, access) for each in read.statements for is_write, access in _accesses(each)}
    arrays = {tensor.name for tensor in read.tensors}
    inputs, values = [dim(name) for name in statement.iterators], [Affine((), size) for size in sizes.values()]
    in_file: set[tuple[bool, Access]] = set()
    for relation in statement.accesses:
        if len(relation.parts) != 1:
            raise _refusal(number, f"{relation.kind} has {len(relation.parts)} parts")
        array, *index = outputs_of(relation.parts[0], inputs, values)
        if array.terms or array.constant not in scop.arrays:
            raise _refusal(number, f"{relation.kind} names no array of <arrays> in its first output")
        name = scop.arrays[array.constant]
        if name in arrays:
            in_file.add((relation.kind != "READ", Access(name, tuple(index))))
    if {_as_text(each) for each in in_text} != {_as_text(each) for each in in_file}:
        only = sorted({_as_text(each) for each in in_text} ^ {_as_text(each) for each in in_file})
        what = f"{', '.join(only[:6])}: the text of statement {number} and its relations do not both access this"
        hint = "A tool that changed the accesses has to change the <body> too."
        raise InputError(Mistake("PM439", f"{file}, line {statement.domain.line}: {what}", hint))


def _accesses(statement: Statement) -> Iterator[tuple[bool, Access]]:
    """Yield (is it a write, access) of a statement; accumulating reads, too."""
    yield True, statement.target
    for access in (*statement.reads, *([statement.target] if statement.operator is not Operator.ASSIGN else [])):
        yield False, access


def _as_text(found: tuple[bool, Access]) -> str:
    is_write, access = found
    terms = [{str(atom): factor for factor, atom in index.terms} | _constant(index.constant) for index in access.index]
    index = "".join(f"[{_text(dict(sorted(form.items())))}]" for form in terms)
    return f"{'write' if is_write else 'read'} of {access.tensor}{index}"


def _refusal(number: int, what: str, hint: str = "") -> InputError:
    return InputError(Mistake("PM438", f"statement {number} of the OpenScop file: {what}", hint))


def _placed(number: int, statement: ScopStatement, scop: Scop) -> _Placed:
    parts = tuple(tuple(_rules(number, each, statement.iterators, scop)) for each in statement.domain.parts)
    times = tuple(_times(number, parts, statement, scop))
    loops = tuple(time.iterator for time in times if isinstance(time, _Loop))
    if sorted(loops) != sorted(statement.iterators):
        raise _refusal(number, f"its scattering runs {shown(', '.join(loops))}, not each iterator once", _TIMES)
    ends = tuple(_ends_of(number, loops, rules) for rules in parts)
    return _Placed(number, statement.body.strip().rstrip(";") + ";", times, parts, ends)


def _times(number: int, parts: Sequence[Sequence[_Rule]], statement: ScopStatement, scop: Scop) -> list[Time]:
    """Return the times of a statement: numbers, and loops over one iterator each."""
    names = [dim(name) for name in statement.iterators], [dim(name) for name in scop.parameters]
    try:
        values = outputs_of(statement.scattering.parts[0], *names)
    except ScheduleError as error:
        raise _refusal(number, error.mistakes[0].what, _TIMES) from None
    found: list[Time] = []
    for place, value in enumerate(values, 1):
        time = _time(value, statement.iterators, parts)
        if time is None:
            raise _refusal(number, f"its time {place} is {value}", _TIMES)
        found.append(time)
    return found


def _time(value: Affine, iterators: Sequence[str], parts: Sequence[Sequence[_Rule]]) -> Time | None:
    """Return a time; None where it is not a number or grows or shrinks with one iterator alone."""
    if not value.terms:
        return value.constant
    factor, atom = value.terms[0]
    inner, divisor = (atom.argument, atom.divisor) if isinstance(atom, Floor) else (dim(atom), 1)
    sign, name = inner.terms[0]
    if len(value.terms) > 1 or len(inner.terms) > 1 or name not in iterators or abs(factor) != 1 or abs(sign) != 1:
        return None
    steps = [any(rule.divisor == divisor and set(rule.form) <= {name, ""} for rule in rules) for rules in parts]
    if divisor > 1 and not all(steps):  # several iterations would have one time
        return None
    return _Loop(str(name), factor * sign, (value.constant, factor, inner.constant, divisor))


def _rules(number: int, matrix: Matrix, iterators: Sequence[str], scop: Scop) -> list[_Rule]:
    """Return the conditions of a part of a domain, without local dims."""
    local_dims = [f"\0{place}" for place in range(matrix.local_dims)]
    columns = [*iterators, *local_dims, *scop.parameters, ""]
    rows = [_Rule(_scaled(dict(zip(columns, row[1:], strict=True))), row[0] == 0) for row in matrix.rows]
    left = [local for local in local_dims if any(local in rule.form for rule in rows)]
    while left:
        found = ((local, _without(local, rows, local_dims)) for local in left)
        local, made = next(((local, made) for local, made in found if made is not None), ("", None))
        if made is None:
            raise _refusal(number, "a local dim of its domain is neither a quotient nor a remainder of the other dims")
        rows = made
        left.remove(local)
    return [rule for rule in rows if set(rule.form) - {""} or rule.is_equality or rule.form.get("", 0) < 0]


def _without(local: str, rows: list[_Rule], local_dims: Sequence[str]) -> list[_Rule] | None:
    """Return rules that say the same without a local dim: a quotient of an equality, or of a floor's two rows; None
    where it is neither of the other dims alone."""
    using, kept = [each for each in rows if local in each.form], [each for each in rows if local not in each.form]
    for rule in using:
        rest = {name: factor for name, factor in rule.form.items() if name != local}
        factor, others = rule.form[local], [each for each in using if each is not rule]
        opposite = _sum(_scaled(rule.form, -1), {"": -factor - 1})
        if any(name in local_dims for name in rest):
            continue
        if rule.is_equality:
            made = [_Rule(rest, divisor=abs(factor))] if abs(factor) > 1 else []
            value, divisor = _scaled(rest, -1 if factor > 0 else 1), abs(factor)
        elif factor < 0 and any(each.form == opposite for each in others):
            value, divisor, made = {f"floord({_text(rest)}, {-factor})": 1}, 1, list[_Rule]()
            others = [each for each in others if each.form != opposite]
        else:
            continue
        for each in others:
            whole = {name: divisor * term for name, term in each.form.items() if name != local}
            form = _sum(whole, _scaled(value, each.form[local]))
            made.append(_Rule(form if each.is_equality else _tightened(form), each.is_equality))
        return kept + made
    return None


def _sum(one: Form, other: Form) -> Form:
    total = {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}
    return {name: each for name, each in total.items() if each}


def _scaled(form: Form, factor: int = 1) -> Form:
    return {name: factor * each for name, each in form.items() if each}


def _tightened(form: Form) -> Form:
    """Return the form that is >= 0 at the same integers, its factors without a common divisor."""
    shared = gcd(*(each for name, each in form.items() if name)) or 1
    return {name: each // shared for name, each in form.items() if each // shared}


def _ends_of(number: int, loops: Sequence[str], rules: Sequence[_Rule]) -> tuple[_Ends, ...]:
    """Return the bounds of each loop in terms of those outside of it (Fourier and Motzkin's elimination, innermost
    first)."""
    bounds = [rule for rule in rules if rule.is_bound]
    known = [_tightened(each.form) for each in bounds]
    known += [_tightened(_scaled(each.form, -1)) for each in bounds if each.is_equality]
    found: list[_Ends] = []
    for loop in reversed(loops):
        lower = [form for form in known if form.get(loop, 0) > 0]
        upper = [form for form in known if form.get(loop, 0) < 0]
        if not lower or not upper:
            raise _refusal(number, f"its iterator {loop} has no {'upper' if lower else 'lower'} bound")
        found.append(_Ends(_tightest(lower, loop), _tightest(upper, loop)))
        known = [form for form in known if loop not in form]
        if len(lower) * len(upper) <= TUNING.most_pieces:  # beyond, outer loops have the bounds that are stated
            pairs = ((_scaled(low, -high[loop]), _scaled(high, low[loop])) for low in lower for high in upper)
            known += [form for form in (_tightened(_sum(*pair)) for pair in pairs) if form not in known]
    return tuple(reversed(found))


def _bound(form: Form, divisor: int) -> _Bound:
    return _Bound(tuple(sorted(form.items())), divisor)


def _tightest(forms: Iterable[Form], loop: str) -> frozenset[_Bound]:
    """Return the bounds of a loop that forms >= 0 say, of those that differ in the constant alone the tightest."""
    least: dict[frozenset[tuple[str, int]], Form] = {}
    for form in forms:
        terms = frozenset((name, each) for name, each in form.items() if name)
        if terms not in least or form.get("", 0) < least[terms].get("", 0):
            least[terms] = form
    return frozenset(_as_bound(form, loop) for form in least.values())


def _as_bound(form: Form, loop: str) -> _Bound:
    rest = {name: each for name, each in form.items() if name != loop}
    return _bound(_scaled(rest, -1 if form[loop] > 0 else 1), abs(form[loop]))


def _hull(parts: Sequence[_Ends]) -> _Ends | None:
    """Return bounds that hold where those of one of the parts do: of bounds that all parts have but for constants, the
    loosest; None where they have none in common."""
    ends: list[frozenset[_Bound]] = []
    for choose, sets in ((min, [each.lower for each in parts]), (max, [each.upper for each in parts])):
        tables = [dict(map(_without_constant, each)) for each in sets]
        shared = [key for key in tables[0] if all(key in table for table in tables)]
        loosest = {key: choose(table[key] for table in tables) for key in shared}
        ends.append(frozenset(_bound(dict(terms) | _constant(loosest[terms, by]), by) for terms, by in loosest))
    return _Ends(*ends) if all(ends) else None


def _without_constant(bound: _Bound) -> tuple[tuple[tuple[tuple[str, int], ...], int], int]:
    """Return what tells a bound from those that differ from it in the constant alone, and its constant."""
    return (tuple(term for term in bound.form if term[0]), bound.divisor), dict(bound.form).get("", 0)


def _constant(value: int) -> Form:
    return {"": value} if value else {}


Loops = tuple[tuple[str, _Ends | None], ...]  # outermost first: variable and, where they are one nest of bounds, these


def _lines(placed: Sequence[_Placed], place: int, outer: Loops, taken: frozenset[str]) -> list[str]:
    """Return the lines of statements that share the times before `place` and the loops outside."""
    if all(place >= len(each.times) for each in placed):
        return [line for each in placed for line in _statement(each, outer)]
    times = {each.number: each.times[place] if place < len(each.times) else 0 for each in placed}
    numbers = [time for time in times.values() if isinstance(time, int)]
    if len(numbers) == len(placed):
        groups = [[each for each in placed if times[each.number] == time] for time in sorted(set(numbers))]
        return [line for group in groups for line in _lines(group, place + 1, outer, taken)]
    own = {number: time for number, time in times.items() if isinstance(time, _Loop)}
    if numbers or len({time[1:] for time in own.values()}) > 1:
        others = ", ".join(str(each.number) for each in placed[1:9])
        what = f"its time {place + 1} runs otherwise than that of {others}"
        raise _refusal(placed[0].number, what, "Statements that share their times before it share its loop.")
    called, above = {time.iterator for time in own.values()}, {name for name, _ in outer}
    fresh = (name for name in (f"c{number}" for number in range(10**9)) if name not in taken | above)
    variable = called.pop() if len(called) == 1 and not called & above else next(fresh)  # any order: it is one
    inner = [each.renamed(own[each.number].iterator, variable) for each in placed]
    ends = [part[len(outer)] for each in inner for part in each.ends]
    body = _lines(inner, place + 1, (*outer, (variable, _hull(ends))), taken)
    head = _head(variable, own[placed[0].number].step, ends)
    return [f"{head} {{", *(f"  {line}" for line in body), "}"]


def _head(variable: str, step: int, parts: Sequence[_Ends]) -> str:
    """Return the `for` of a loop over all indices of the parts that share it."""
    hull = _hull(parts)
    every = parts if hull is None else [hull]
    low = _nested("min", {_choice("max", "ceild", ends.lower) for ends in every})
    high = _nested("max", {_choice("min", "floord", ends.upper) for ends in every})
    if step > 0:
        return f"for (int {variable} = {low}; {variable} <= {high}; {variable}++)"
    return f"for (int {variable} = {high}; {variable} >= {low}; {variable}--)"


def _choice(choose: str, divide: str, bounds: Iterable[_Bound]) -> str:
    texts = [(_text(dict(form)), divisor) for form, divisor in bounds]
    return _nested(choose, {text if by == 1 else f"{divide}({text}, {by})" for text, by in texts})


def _nested(choose: str, texts: Iterable[str]) -> str:
    """Return the smallest or largest of the texts' values; of integers and nothing else, the number itself."""
    every = sorted(set(texts))
    if all(re.fullmatch(r"-?\d+", text) for text in every):
        return str((min if choose == "min" else max)(map(int, every)))
    text = every[0]
    for each in every[1:]:
        text = f"{choose}({text}, {each})"
    return text


def _statement(placed: _Placed, loops: Loops) -> list[str]:
    """Return a statement's text, below the conditions of its domain that no loop says."""
    said = [form for _, ends in loops if ends is not None for form in _between(ends)]
    tests = [
        " && ".join(_condition(rule) for rule in rules if not _is_said(rule, loops, said)) for rules in placed.parts
    ]
    if not all(tests):
        return [placed.body]
    test = tests[0] if len(tests) == 1 else " || ".join(f"({each})" for each in tests)
    return [f"if ({test})", f"  {placed.body}"]


def _between(ends: _Ends) -> list[Form]:
    """Return forms that are >= 0 where a loop runs: each upper bound is at least each lower one."""
    pairs = ((low, high) for low in ends.lower for high in ends.upper)  # any order: asked for membership
    return [
        _tightened(_sum(_scaled(dict(high.form), low.divisor), _scaled(dict(low.form), -high.divisor)))
        for low, high in pairs
    ]


def _is_said(rule: _Rule, loops: Loops, said: Sequence[Form]) -> bool:
    """Return whether the loops run no indices that break a rule. said: what their bounds say together."""
    inside = [(variable, ends) for variable, ends in loops if variable in rule.form]
    if not rule.is_bound:
        return False
    signs = (1, -1) if rule.is_equality else (1,)
    forms = [_tightened(_scaled(rule.form, sign)) for sign in signs]
    if all(form in said for form in forms):
        return True
    if not inside:
        return False
    variable, ends = inside[-1]
    return ends is not None and all(_holds(form, variable, ends) for form in forms)


def _holds(form: Form, variable: str, ends: _Ends) -> bool:
    """Return whether one of a loop's bounds says that a form is >= 0."""
    wanted, is_lower = _as_bound(form, variable), form[variable] > 0
    return any(
        found.divisor == wanted.divisor and not any(slack) and slack.get("", 0) * (1 if is_lower else -1) >= 0
        for found in (ends.lower if is_lower else ends.upper)
        for slack in (_sum(dict(found.form), _scaled(dict(wanted.form), -1)),)
    )


def _condition(rule: _Rule) -> str:
    text = _text(rule.form)
    if rule.divisor > 1:
        return f"({text}) % {rule.divisor} == 0"
    return f"{text} {'==' if rule.is_equality else '>='} 0"


def _text(form: Form) -> str:
    """Return a form as C."""
    text = ""
    for name, factor in sorted(form.items(), key=lambda each: not each[0]):
        sign, size = ("-" if factor < 0 else "+"), abs(factor)
        term = name if size == 1 and name else f"{size} * {name}" if name else str(size)
        text += f" {sign} {term}" if text else f"-{term}" if factor < 0 else term
    return text or "0"


@answers_in_words
def workload_from_openscop(
    text: str,
    sizes: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    file: str = "the text",
    associative: bool = True,
) -> Workload:
    """Return the loop nest of an OpenScop file: `from_c` of what `openscop_to_c` writes, with values of parameters.

    Raises as these do; lines are then those of the C text.
    """
    from polymap.workload.c import from_c

    written = openscop_to_c(text, file=file)
    return from_c(written, sizes, name=name or "scop", file=f"{file} as C", associative=associative)
