"""Integers that loops count beside their own counter, as expressions of the counters (induction variables).

    int k = -1; for (i...) { k += 2; a[k] = b[i]; }   ->   for (i...) a[2 * i + 1] = b[i];
    int k = n - 1; for (i...) { a[i] = b[k]; k = i; } ->   for (i...) a[i] = b[i == 0 ? n - 1 : i - 1];

The body of a loop is run once on symbols. What grows by the same amount in every iteration is linear in the number of
iterations; what an iteration sets without regard to its old value is that of the iteration before, and in the first
one the value before the loop (a wrap-around variable: Wolfe 1992). A value that depends on data stays a variable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from polymap.workload.c.linear import KeptError, Linear, NotStaticError, chosen, linear, number, product, term
from polymap.workload.c.tree import (
    Assign,
    Binary,
    Block,
    Cast,
    CExpression,
    Choice,
    CStatement,
    Declare,
    For,
    If,
    Item,
    Name,
    Program,
    all_statements,
    data_names,
    inside,
    kind_of,
    names_of,
    parts,
    rebuilt,
    render,
    replaced,
    with_expressions,
)

Values = Mapping[str, Linear]
_WIDE = ("int32", "int64", None)  # types whose arithmetic is not taken to wrap around


def without_counted(program: Program, kept: frozenset[str], given: Mapping[str, str]) -> Program:
    """Return the program with the integers that its loops count replaced. kept: names of static variables. given: of
    parameters, whose last values nobody reads, each with the name of a loop that counts in it."""
    names = _candidates(program) - kept
    while names:
        try:
            return _Walker(program, names, given).program_without()
        except KeptError as error:
            names = names - {error.name}
    return program


def _candidates(program: Program) -> frozenset[str]:
    """Return the integers that are set more than once and decide subscripts, conditions or loops."""
    every = list(all_statements(program.body))
    counters = {each.variable for each in every if isinstance(each, For) and not continues(each)}
    declared = [each for each in (*program.outside, *every) if isinstance(each, Declare)]
    names = [each.name for each in declared]
    scalars = {each.name for each in declared if not each.shape and each.element_type in _WIDE}
    whole = {name for name in scalars if names.count(name) == 1} - counters
    sources = _sources(every)
    asked = _closure(_deciding(every), sources)
    moving = whole & _assigned(program.body) & asked
    users = {name for name in whole & sources.keys() if moving & _closure({name}, sources)}
    return frozenset(moving | users | (whole & sources.keys() & _closure(moving, sources)))


def _closure(names: Collection[str], sources: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return names and all that their values are computed from."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += sources.get(name, ())
    return frozenset(found)


def continues(loop: For) -> bool:
    """Return whether a loop starts from the value that its variable has: it was written as `while`."""
    return isinstance(loop.start, Name) and loop.start.name == loop.variable


def _assigned(body: Sequence[CStatement]) -> frozenset[str]:
    """Return the variables that statements set after their declaration, the counters of `while` loops included."""
    every = list(all_statements(body))
    found = {each.target.name for each in every if isinstance(each, Assign) and isinstance(each.target, Name)}
    return frozenset(found | {each.variable for each in every if isinstance(each, For) and continues(each)})


def _sources(every: Sequence[CStatement]) -> dict[str, frozenset[str]]:
    """Return variable -> the names that its values are computed from."""
    found: dict[str, frozenset[str]] = {}
    for each in every:
        if isinstance(each, Assign) and isinstance(each.target, Name):
            found[each.target.name] = found.get(each.target.name, frozenset()) | names_of(each.value)
        if isinstance(each, Declare) and each.value is not None:
            found[each.name] = found.get(each.name, frozenset()) | names_of(each.value)
    return found


def _deciding(every: Sequence[CStatement]) -> frozenset[str]:
    """Return the names that subscripts, conditions and loops depend on at once."""
    found: set[str] = set()
    for each in every:
        match each:
            case For():
                found |= names_of(each.start) | names_of(each.condition) | names_of(each.step)
            case If(condition):
                found |= names_of(condition) | _in_subscripts(condition)
            case Assign(target, _, value):
                found |= _in_subscripts(target) | _in_subscripts(value)
            case Declare(_, _, _, value) if value is not None:
                found |= _in_subscripts(value)
            case _:
                pass
    return frozenset(found)


def _in_subscripts(expression: CExpression) -> frozenset[str]:
    items = (each for each in inside(expression) if isinstance(each, Item))
    return frozenset(name for each in items for index in each.index for name in names_of(index))


@dataclass(slots=True)
class _Walker:
    """Runs a program on symbols. names: of the variables that are replaced; given: as above; facts: conditions that
    hold here."""

    program: Program
    names: frozenset[str]
    given: Mapping[str, str]
    data: frozenset[str] = frozenset()
    types: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    facts: list[str] = field(default_factory=list[str])

    def program_without(self) -> Program:
        program = self.program
        every = [*program.outside, *all_statements(program.body)]
        assigned = _assigned(program.body) | data_names(every)
        arrays = {each.name for each in every if isinstance(each, Declare) and each.shape}
        self.data = frozenset(assigned | arrays) - self.names
        self.types = {each.name: each.element_type for each in every if isinstance(each, Declare)}
        line = max((each.line for each in every if not isinstance(each, Block)), default=1)
        first = {name: term(Name(name, line)) if name in self.given else _unset(name) for name in sorted(self.names)}
        body, values = self._body(program.body, first)
        lives = {each.name for each in program.outside} - self.given.keys()
        if program.wrapped:
            lives |= {each.name for each in program.body if isinstance(each, Declare)}
            kept = [each for each in program.body if isinstance(each, Declare) and each.name in self.names]
            body = (*(replace(each, value=None) for each in kept), *body)
        last = [
            Assign(Name(name, line), "=", self._inside(Name(name, line), values), line)
            for name in sorted(self.names & lives & _assigned(program.body))
        ]
        result = None if program.result is None else self._inside(program.result, values)
        gone = self.names - lives
        return replace(program, body=(*body, *last), result=result, replaced=program.replaced | gone)

    # --- expressions ---

    def _linear(self, expression: CExpression, values: Values) -> Linear:
        return linear(expression, values, self.data.__contains__)

    def _value(self, name: str, expression: CExpression, values: Values) -> Linear:
        """Return the value that a variable gets, converted to its type."""
        found = self._static(name, expression, values)
        kind, given = self.types.get(name), kind_of(expression, self._kind)
        if kind is None or given in (kind, None) or not found.terms:
            return found
        return term(Cast(kind, found.expression(expression.line), expression.line))

    def _static(self, name: str, expression: CExpression, values: Values) -> Linear:
        """Return what a variable's value is computed from."""
        try:
            return self._linear(expression, values)
        except NotStaticError:
            raise KeptError(name) from None

    def _kind(self, place: Name | Item) -> str | None:
        """Return the type of a variable."""
        return self.types.get(place.name) if isinstance(place, Name) else None

    def _inside(self, expression: CExpression, values: Values) -> CExpression:
        """Return an expression with the variables replaced."""
        names = sorted(names_of(expression) & values.keys())
        found = {name: self._known(values[name].expression(expression.line)) for name in names}
        for each in found.values():
            lost = next((name for name in sorted(names_of(each)) if name.endswith("?")), None)
            if lost is not None:
                raise KeptError(lost[:-1])
        return replaced(expression, found)

    def _known(self, expression: CExpression) -> CExpression:
        """Return an expression without the choices that are decided here."""
        if isinstance(expression, Choice) and render(expression.condition) in self.facts:
            return self._known(expression.then)
        return rebuilt(expression, self._known)

    # --- statements ---

    def _body(self, body: Sequence[CStatement], values: Values) -> tuple[tuple[CStatement, ...], Values]:
        found: list[CStatement] = []
        for each in body:
            more, values = self._statement(each, values)
            found += more
        return tuple(found), values

    def _statement(self, each: CStatement, values: Values) -> tuple[Sequence[CStatement], Values]:
        match each:
            case Declare(name, _, _, value) if name in self.names:
                new = _unset(name) if value is None else self._value(name, value, values)
                return (), {**values, name: new}
            case Assign(Name(name), operator, value, line) if name in self.names:
                whole = value if operator == "=" else Binary(operator[0], Name(name, line), value, line)
                return (), {**values, name: self._value(name, whole, values)}
            case Declare() | Assign():
                own = {name: self._inside(Name(name, each.line), values) for name in sorted(self._used(each, values))}
                return (with_expressions(each, own),), values
            case Block(inner):
                inside, values = self._body(inner, values)
                return (Block(inside),), values
            case If():
                return self._branch(each, values)
            case For():
                return self._loop(each, values)

    def _used(self, each: Declare | Assign, values: Values) -> frozenset[str]:
        whole = each.shape if isinstance(each, Declare) else (*parts(each.target), each.guard)
        return frozenset(name for part in (each.value, *whole) if part for name in names_of(part) & values.keys())

    def _branch(self, each: If, values: Values) -> tuple[Sequence[CStatement], Values]:
        condition = self._inside(each.condition, values)
        then, ones = self._body(each.then, values)
        other, twos = self._body(each.other, values)
        merged = dict(values)
        own = {part.name for part in all_statements((*each.then, *each.other)) if isinstance(part, Declare)}
        for name in sorted(ones.keys() & twos.keys()):
            if name in own:  # nothing outside the branch can name it
                merged[name] = _unset(name)
            elif ones[name] == twos[name]:
                merged[name] = ones[name]
            else:
                asked = self._static(name, condition, {})
                merged[name] = chosen(asked.expression(each.line), ones[name], twos[name])
        whole = (If(condition, then, other, each.line),) if then or other else ()
        return whole, merged

    # --- loops ---

    def _loop(self, each: For, values: Values) -> tuple[Sequence[CStatement], Values]:
        counter = each.variable
        start, step = self._inside(each.start, values), self._inside(each.step, values)
        own = {name: value for name, value in values.items() if name != counter}
        is_given = counter in self.names and counter in self.given  # its own name stands for its first value
        variable = self.given[counter] if is_given else counter
        for name, value in own.items():
            if variable in value.names:
                raise KeptError(name)
        own |= {counter: term(Name(variable, each.line))} if is_given else {}
        kind = self.types.get(counter) if continues(each) else each.element_type
        loop = replace(each, variable=variable, start=start, step=step, element_type=kind)
        first = self._canonical(replaced(self._inside(each.condition, own), {loop.variable: start}))
        self.facts.append(render(first))
        inner = _assigned(each.body) & self.names - {counter}
        entries = {**own, **(self._entries(loop, inner, own) if inner else {})}
        condition = self._inside(each.condition, entries)
        body, exits = self._body(each.body, entries)
        self.facts.pop()
        ends = self._ends(replace(loop, condition=condition), inner, own, exits)
        if counter in self.names:
            ends[counter] = chosen(first, self._after(loop, condition), self._static(counter, start, {}))
        declared = {each.name for each in all_statements(each.body) if isinstance(each, Declare)}
        ends |= {name: _unset(name) for name in sorted(declared & self.names)}
        whole = (replace(loop, condition=condition, body=body),) if body else ()
        return whole, {**values, **ends}

    def _entries(self, loop: For, names: frozenset[str], values: Values) -> dict[str, Linear]:
        """Return the values of variables where an iteration begins."""
        marks = {name: term(Name(f"{name}@", loop.line)) for name in sorted(names)}
        _, exits = self._body(loop.body, {**values, **marks})
        found: dict[str, Linear] = {}
        while len(found) < len(names):
            before = len(found)
            for name in sorted(names - found.keys()):
                value = self._with_entries(exits[name], found)
                if value is not None:
                    entry = self._entry(loop, name, value, values[name])
                    if entry is not None:
                        found[name] = entry
            if len(found) == before:
                raise KeptError(min(names - found.keys()))
        return found

    def _with_entries(self, value: Linear, found: Values) -> Linear | None:
        marked = {f"{name}@": known for name, known in found.items()}
        try:
            return linear(value.expression(1), marked, lambda _: False)
        except NotStaticError:
            return None

    def _entry(self, loop: For, name: str, value: Linear, before: Linear) -> Linear | None:
        """Return the value of a variable where an iteration begins, of that where it ends in terms of it."""
        mark, line = f"{name}@", loop.line
        growth = value - term(Name(mark, line))
        if not any(each.endswith("@") for each in growth.names):
            if loop.variable in growth.names:
                return None
            return before + self._grown(loop, name, growth)
        if any(each.endswith("@") for each in value.names):
            return None
        earlier = Name(loop.variable, line)
        one = self._static(name, earlier, {}) - self._static(name, loop.step, {})
        last = linear(value.expression(line), {loop.variable: one}, self.data.__contains__)
        return chosen(Binary("==", earlier, loop.start, line), before, last)

    def _grown(self, loop: For, name: str, growth: Linear) -> Linear:
        """Return how much a variable has grown where an iteration begins."""
        line, step = loop.line, self._static(name, loop.step, {})
        passed = term(Name(loop.variable, line)) - self._static(name, loop.start, {})
        passed = self._widened(name, passed, line)
        if not step.terms and step.constant in (1, -1):
            return product(growth, passed.times(step.constant), line)
        if not step.terms and not growth.terms and step.constant and growth.constant % step.constant == 0:
            return passed.times(growth.constant // step.constant)
        return product(growth, term(Binary("/", passed.expression(line), step.expression(line), line)), line)

    def _widened(self, name: str, passed: Linear, line: int) -> Linear:
        """Return a number of iterations in the type of a variable."""
        return term(Cast("int64", passed.expression(line), line)) if self.types.get(name) == "int64" else passed

    def _ends(self, loop: For, names: frozenset[str], before: Values, exits: Values) -> dict[str, Linear]:
        """Return the values of variables behind a loop; unset where they are not known."""
        after = self._after(loop, loop.condition)
        found: dict[str, Linear] = {}
        for name in sorted(names):
            try:
                step = self._linear(loop.step, {})
                last = linear(exits[name].expression(loop.line), {loop.variable: after - step}, self.data.__contains__)
                runs = self._canonical(replaced(loop.condition, {loop.variable: loop.start}))
                more = self._simple(last) - before[name]
                plain = before[name].names.isdisjoint(more.names)
                found[name] = (
                    before[name] + chosen(runs, more, Linear(())) if plain else chosen(runs, last, before[name])
                )
            except NotStaticError:
                found[name] = _unset(name)
            if any(each.endswith("?") for each in after.names):
                found[name] = _unset(name)
        return found

    def _canonical(self, condition: CExpression) -> CExpression:
        """Return a condition with its sums in order, so that it can be compared with others."""
        try:
            return self._linear(condition, {}).expression(condition.line)
        except NotStaticError:
            return condition

    def _simple(self, value: Linear) -> Linear:
        return linear(value.expression(1), {}, lambda _: False)

    def _after(self, loop: For, condition: CExpression) -> Linear:
        """Return the value of a counter behind its loop, which runs at least once."""
        unknown, line = _unset(loop.variable), loop.line
        try:
            step, start = self._linear(loop.step, {}), self._linear(loop.start, {})
            if step.terms or step.constant == 0 or not isinstance(condition, Binary):
                return unknown
            bound = self._linear(condition.right, {}) - self._linear(condition.left, {})
            bound += term(Name(loop.variable, line))  # left of it stands the counter, or its sum with something
        except NotStaticError:
            return unknown
        size, rising = abs(step.constant), step.constant > 0
        signs = (("<", "<=") if rising else (">", ">=")) + (("!=",) if size == 1 else ())
        if loop.variable in bound.names or condition.operator not in signs:
            return unknown
        length = (bound - start if rising else start - bound) + Linear((), int(condition.operator in ("<=", ">=")))
        if size == 1:
            return start + length.times(step.constant)
        rounded = (length + Linear((), size - 1)).expression(line)
        return start + self._simple(term(Binary("/", rounded, number(size, line), line))).times(step.constant)


def _unset(name: str) -> Linear:
    """Return what stands for a value that is not known."""
    return term(Name(f"{name}?", 0))
