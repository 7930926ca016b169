"""The statements of a C program with the loops and conditions around them, as loop-nest statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from polymap.inputs import shown
from polymap.ir import Access, Affine, Dim, Statement, bounds, dim as variable_of
from polymap.poly import Set, has_parameters_from, largest_number, simplified as near
from polymap.workload.c.affine import (
    Scope,
    affine_of,
    constraints_of,
    converted,
    formula_of,
    known_name,
    negation,
    rules_of,
    seen,
    whole_of,
)
from polymap.workload.c.assign import Computed, Domain, Variable, Variables, computed, unique
from polymap.workload.c.branches import without_branch
from polymap.workload.c.loops import misused_counters, range_of
from polymap.workload.c.tree import (
    EXTREMES,
    MAXIMA,
    MINIMA,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    CExpression,
    Complaints,
    CStatement,
    Declare,
    For,
    If,
    Item,
    Literal,
    Name,
    Program,
    Refused,
    Rules,
    all_statements,
    assign_with,
    check_count,
    count_pieces,
    data_names,
    decided,
    inside,
    is_piecewise,
    names_of,
    next_condition,
    render,
    replaced,
    simplified,
    textual_rules,
    with_guard,
)
from polymap.workload.c.types import ABSOLUTES, FLOATS, SPELLING, holds, limits, type_of_value
from polymap.workload.c.values import ValueReader
from polymap.workload.tuning import TUNING

T = TypeVar("T")
_OF_INTEGERS = {*MAXIMA, *MINIMA, *ABSOLUTES} - EXTREMES.keys()


@dataclass(frozen=True, slots=True)
class IntegerText:
    """An integer that the text names: a loop variable (dim: of its loop), or one that never changes (value: its own).

    kind: its C type.
    """

    name: str
    kind: str
    dim: str = ""
    value: CExpression | None = None


@dataclass(frozen=True, slots=True)
class StatementText:
    """The assignment of a statement as it stands in the text.

    number: of the first statement that is a piece of it. constraints: where it runs, in any piece.
    """

    assign: Assign
    number: int
    constraints: tuple[Affine, ...]
    integers: tuple[IntegerText, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a statement. numbers: positions of the loops around it; inside: counts the positions within.

    aliases: integers that never change and are no single quasi-affine expression, as expressions of loop counters.
    is_dead: nothing here is ever executed. integer_texts: the integers of the text that are known here.
    """

    dims: tuple[str, ...]
    numbers: tuple[int, ...]
    constraints: tuple[Affine, ...]
    integers: Mapping[str, Affine]
    types: Mapping[str, str | None]
    variables: Mapping[str, Variable]
    inside: list[int]
    aliases: Mapping[str, CExpression] = field(default_factory=dict[str, CExpression])
    is_dead: bool = False
    integer_texts: tuple[IntegerText, ...] = ()

    def next_number(self) -> int:
        self.inside[0] += 1
        return self.inside[0] - 1


@dataclass(slots=True)
class Nest:
    """Walks a program and collects its dims, statements and variables.

    lines: statement name -> its line. found: how many assignments the text has so far; they are S0, S1, ...
    constants: sizes and integers that the file declares, with their types. counter_types: of loop variables that are
    not declared by their loop, the type that they were declared with, if any. texts: of the statements.

    parametric: sizes may have no value; their names become dims that no loop counts. parameters: their names and C
    types ("" for undeclared ones). local: tensor name -> its declaration, of the variables that the body declares.
    hidden: names of those that another of them hides. result: what the function returns, over loop variables and data.
    assumed: sizes without a value for which it was read, None for all.
    """

    program: Program
    sizes: Mapping[str, int]
    complaints: Complaints
    variables: Variables
    dims: list[Dim] = field(default_factory=list[Dim])
    statements: list[Statement] = field(default_factory=list[Statement])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    found: int = 0
    constants: dict[str, int] = field(default_factory=dict[str, int])
    constant_types: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    counter_types: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    parametric: bool = False
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    texts: dict[str, StatementText] = field(default_factory=dict[str, StatementText])
    local: dict[str, Declare] = field(default_factory=dict[str, Declare])
    hidden: set[str] = field(default_factory=set[str])
    result: CExpression | None = None
    assumed: Set | None = None
    _extents: dict[str, int] = field(default_factory=dict[str, int])
    _changed: frozenset[str] = frozenset()
    _data: frozenset[str] = frozenset()
    _counters: frozenset[str] = frozenset()
    _is_inside: bool = False

    @property
    def counters(self) -> frozenset[str]:
        """The names of all loop variables."""
        return self._counters

    @property
    def extents(self) -> Mapping[str, int]:
        """The extents of all dims, those of parameters included."""
        return self._extents

    @property
    def inner_names(self) -> frozenset[str]:
        """The names of loop variables and of integers that the body declares."""
        return self._counters.union(each.name for text in self.texts.values() for each in text.integers)

    def least(self, parameter: str) -> int:
        """Return the least value of a parameter, at which its dim is 0."""
        return limits(self.parameters[parameter] or "int64")[0]

    def run(self) -> None:
        """Walk the whole program; statements that cannot be read are left out and reported."""
        for misuse in misused_counters(self.program.body):
            self.complaints.add(misuse.code, misuse.line, misuse.what, misuse.hint)
        every = list(all_statements(self.program.body))
        self._counters = frozenset(each.variable for each in every if isinstance(each, For))
        targets = (each.target for each in every if isinstance(each, Assign))
        assigned = {target.name for target in targets if isinstance(target, Name)}
        self._changed = self._counters | assigned
        self._data = frozenset(assigned) | data_names((*self.program.outside, *every))
        self.variables.unknown = "float32" if any(self._has_fractions(each) for each in every) else "int32"
        constants = {name: Affine((), size) for name, size in self.sizes.items()}
        types = {name: type_of_value(size, size) for name, size in self.sizes.items()}
        place = _Place((), (), (), constants, types, {}, [0])
        for each in self.program.outside:
            place = self._tried(each, place, temporary=False)
        self.constants = {name: value.constant for name, value in place.integers.items()}
        self.constant_types = dict(place.types)
        self._is_inside = True
        if self.parametric:
            place = self._with_undeclared(every, place)
        place = self._body(self.program.body, place, temporary=not self.program.wrapped)
        if self.program.result is not None:
            self.result = self.program.result
            for each in reversed(place.integer_texts):
                if each.value is not None:
                    self.result = replaced(self.result, {each.name: each.value})

    def _body(self, body: Sequence[CStatement], place: _Place, *, temporary: bool = True) -> _Place:
        for each in body:
            place = self._tried(each, place, temporary=temporary)
        return place

    def _tried(self, each: CStatement, place: _Place, *, temporary: bool) -> _Place:
        """Read one statement and return the position after it, with its declarations in scope."""
        try:
            match each:
                case Declare():
                    return self._declared(each, place, temporary=temporary)
                case Assign():
                    self._assignment(each, place)
                case For():
                    self._loop(each, place)
                case If():
                    self._branch(each, place)
                case Block(inner):
                    self._body(inner, place)
        except Refused as refused:
            self.complaints.note(refused)
        return place

    def _scope(self, place: _Place) -> Scope:
        names, assumed = frozenset(place.variables), self.assumed
        return Scope(
            place.integers,
            place.types,
            self._extents,
            place.constraints,
            names,
            self._counters,
            self._changed | self._data,
            frozenset(self.parameters) if self.parametric else None,
            excluded=None if assumed is None else assumed.is_disjoint,
        )

    def _assuming(self, read: Callable[[Scope], T], place: _Place) -> T:
        """Return what is read in a scope; where sizes have no values, for those for which nothing wraps around."""
        scope = self._scope(place)
        try:
            return read(scope)
        except Refused as refused:
            if not self.parametric or refused.code not in ("PM262", "PM272"):
                raise
        return read(replace(scope, assume=self._assume))

    def _assume(self, wrong: Set) -> bool:
        """Note that sizes do not occur; return whether others are left."""
        left = wrong.complement() if self.assumed is None else self.assumed.subtract(wrong)
        if not has_parameters_from(left, TUNING.least_assumed):
            return False
        left = near(left, TUNING.least_assumed, TUNING.most_size)
        if largest_number(left) > TUNING.most_size:  # more than 64 bits would be needed to test it
            return False
        self.assumed = None if left.plain_is_universe() else left
        return True

    def _has_fractions(self, each: CStatement) -> bool:
        """Return whether a statement divides data, calls a function, or names a number with a point."""
        if not isinstance(each, Assign | Declare) or each.value is None:
            return False
        found = list(inside(each.value))
        data = any(isinstance(part, Item) for part in found)
        divides = isinstance(each, Assign) and each.operator == "/="
        for part in found:
            divides |= isinstance(part, Literal) and part.number is None
            divides |= isinstance(part, Binary) and part.operator == "/" and data
            divides |= isinstance(part, Call) and part.function not in _OF_INTEGERS
        return divides

    # --- declarations ---

    def _with_undeclared(self, every: Sequence[CStatement], place: _Place) -> _Place:
        """Return the position with the names as parameters that nothing declares or sets."""
        own = {each.name for each in every if isinstance(each, Declare)} | self._counters | self._data
        names = dict.fromkeys(
            name for each in every for whole in _expressions_of(each) for name in sorted(names_of(whole))
        )
        for name in names:
            if name not in own and name not in place.variables and known_name(name, self.sizes) is None:
                place = place if name in place.integers else self._with_parameter(name, None, place)
        return place

    def _with_parameter(self, name: str, kind: str | None, place: _Place) -> _Place:
        """Return the position with a size that has no value: a dim that ranges over its type."""
        least, largest = limits(kind or "int64")
        self.parameters[name] = kind or ""
        self._extents[name] = largest - least + 1
        integers = {**place.integers, name: variable_of(name) + least}
        return replace(place, integers=integers, types={**place.types, name: kind})

    def _declared(self, text: Declare, place: _Place, *, temporary: bool) -> _Place:
        """Return the position with the variable in scope; an integer that never changes is a constant."""
        if text.name in self.sizes and not text.shape:
            return self._sized(text, place)
        if self.parametric and not self._is_inside:
            return self._outer(text, place)
        value = None if text.value is None else replaced(text.value, place.aliases)
        sizes = tuple(None if size is None else replaced(size, place.aliases) for size in text.shape)
        each = replace(text, shape=sizes, value=value)
        integers = {name: value for name, value in place.integers.items() if name != each.name}
        place = replace(place, aliases=_without(each.name, each.line, place.aliases))
        if each.value is not None and each.name not in self._changed and "int" in (each.element_type or ""):
            value = self._integer_or_none(each.value, each.element_type, place)
            texts = (*place.integer_texts, IntegerText(each.name, each.element_type or "int32", value=text.value))
            if value is not None:
                types = {**place.types, each.name: each.element_type}
                known = {**integers, each.name: value}
                return replace(place, integers=known, types=types, integer_texts=texts)
            if self._is_alias(each.value, place):
                own = Cast(each.element_type or "int32", each.value, each.line, written=False)
                aliases = {**place.aliases, each.name: own}
                return replace(place, integers=integers, aliases=aliases, integer_texts=texts)
        shape = tuple(None if size is None else self._size(each, size, place) for size in each.shape)
        variable = self.variables.declare(
            each.name, each.element_type, shape, place.dims, each.line, temporary=temporary
        )
        if self._is_inside:
            if each.name in place.variables and place.variables[each.name].tensor in self.local:
                self.hidden.add(each.name)
            self.local[variable.tensor] = each
        place = replace(place, integers=integers, variables={**place.variables, each.name: variable})
        if text.value is not None and each.name not in self._counters:
            self._assignment(Assign(Name(each.name, each.line), "=", text.value, each.line), place)
        return place

    def _outer(self, each: Declare, place: _Place) -> _Place:
        """Return the position with a variable of the file, a parameter or one of the function; integers that the body
        does not set are sizes without a value. What sets it first stays where it is."""
        is_size = not each.shape and each.name not in self._changed and "int" in (each.element_type or "int")
        if each.value is not None and each.name not in self._counters:
            is_known = is_size and self._integer_or_none(each.value, each.element_type, place) is not None
            self.found += not is_known  # `from_c` counts it as a statement
        if is_size:
            return self._with_parameter(each.name, each.element_type or "int32", place)
        shape = (None,) * len(each.shape)
        own = self.variables.declare(each.name, each.element_type, shape, (), each.line, temporary=False)
        return replace(place, variables={**place.variables, each.name: own})

    def _sized(self, each: Declare, place: _Place) -> _Place:
        """Return the position with the size's type in scope; Refused if its value does not fit."""
        size, kind = self.sizes[each.name], each.element_type or "int32"
        if kind in FLOATS or not holds(kind, size, size):
            what = f"the size {each.name}={shown(size)} does not fit into '{SPELLING[kind]}'"
            raise Refused("PM264", each.line, what, "It is declared so; a smaller size or a wider type would do.")
        return replace(place, types={**place.types, each.name: kind})

    def _integer_or_none(self, value: CExpression, kind: str | None, place: _Place) -> Affine | None:
        """Return the integer value that a variable of this type holds, None if it is none or does not fit."""
        scope = self._scope(place)
        try:
            return seen(value, converted(value, whole_of(value, scope), kind, scope), scope)
        except Refused:
            return None

    def _is_alias(self, value: CExpression, place: _Place) -> bool:
        """Return whether an expression is an integer of loop counters alone, by pieces."""
        rules = self._rules(place)
        zero = Literal("0", 0, value.line)
        return is_piecewise(value) and not rules.reads(value) and rules.is_static(Binary("==", value, zero, value.line))

    def _size(self, each: Declare, size: CExpression, place: _Place) -> int | None:
        """Return the size of an axis; None where sizes have no values."""
        if self.parametric:
            return None
        value = affine_of(size, self._scope(place))
        if value.terms or value.constant < 1:
            found = "depends on a loop" if value.terms else f"is {value.constant}"
            what = f"'{each.name}' is declared with the size {shown(render(size))}, which {found}"
            raise Refused("PM264", each.line, what, "Expected an integer >= 1.")
        return value.constant

    # --- control ---

    def _loop(self, loop: For, place: _Place) -> None:
        inner = {name: value for name, value in place.aliases.items() if name != loop.variable}
        start, step = (replaced(each, place.aliases) for each in (loop.start, loop.step))
        loop = replace(loop, start=start, condition=replaced(loop.condition, inner), step=step)
        name = unique(loop.variable, self._extents, self.variables.words.union(self.variables.by_tensor))
        number = place.next_number()
        try:
            kind = self._counter_type(loop, place)
            values = self._assuming(lambda scope: range_of(loop, scope, name, kind), place)
        except Refused:
            self._skip(loop.body)
            raise
        if values is None:
            self._skip(loop.body)
            return
        variable = "" if name == loop.variable else loop.variable
        self.dims.append(Dim(name, values.extent, values.origin, values.step, variable))
        self._extents[name] = values.extent
        inner = _Place(
            (*place.dims, name),
            (*place.numbers, number),
            (*place.constraints, *values.constraints),
            {**place.integers, loop.variable: values.value(name)},
            {**place.types, loop.variable: values.kind},
            {key: each for key, each in place.variables.items() if key != loop.variable},
            [0],
            _without(loop.variable, loop.line, place.aliases),
            place.is_dead,
            (*place.integer_texts, IntegerText(loop.variable, values.kind or "int32", name)),
        )
        self._body(loop.body, inner)

    def _counter_type(self, loop: For, place: _Place) -> str | None:
        """Return the declared type of a loop's variable."""
        if loop.element_type is not None:
            return loop.element_type
        variable = place.variables.get(loop.variable)
        kind = None if variable is None else variable.element_type
        self.counter_types.setdefault(loop.variable, kind)
        return kind

    def _branch(self, branch: If, place: _Place) -> None:
        condition = replaced(branch.condition, place.aliases)
        try:
            formula = self._assuming(partial(formula_of, condition), place)
        except Refused:
            if not self._reads_data(condition):
                self._skip((*branch.then, *branch.other))
                raise
            self._tried(self._without(branch), place, temporary=True)
            return
        for condition, body in ((formula, branch.then), (negation(formula), branch.other)):
            constraints = constraints_of(condition, self._extents)
            if constraints is None:
                self._skip(body)
            else:
                self._body(body, replace(place, constraints=(*place.constraints, *constraints)))

    def _without(self, branch: If) -> Block:
        found = without_branch(branch, self._reads_data, self.variables.words)
        self._data |= {each.name for each in found.body if isinstance(each, Declare)}
        return found

    def _reads_data(self, expression: CExpression) -> bool:
        """Return whether an expression holds data: integers that nothing sets are sizes, with or without a value."""
        return textual_rules(self._data).reads(expression)

    def _where(self, condition: CExpression, place: _Place, *, is_true: bool) -> _Place:
        """Return the place restricted to where a condition of loop counters holds, or does not."""
        formula = formula_of(condition, self._scope(place))
        constraints = constraints_of(formula if is_true else negation(formula), self._extents)
        if constraints is None:
            return replace(place, is_dead=True)
        return replace(place, constraints=(*place.constraints, *constraints))

    def _skip(self, body: Sequence[CStatement]) -> None:
        """Count the statements of a part that never runs: names follow the text."""
        for each in body:
            match each:
                case Assign():
                    self.found += count_pieces(with_guard(each), self._data)
                case For() | Block():
                    self._skip(each.body)
                case If(condition) if self._reads_data(condition):
                    self._skip((self._without(each),))
                case If():
                    self._skip((*each.then, *each.other))
                case Declare():
                    pass

    # --- assignments ---

    def _assignment(self, text: Assign, place: _Place) -> None:
        """Read an assignment, in as many pieces as its conditions of loop counters take it apart into."""
        each = assign_with(text, place.aliases)
        if isinstance(each.target, Name) and each.target.name in self._counters.union(place.integers):
            self.found += 1
            what = f"'{each.target.name}' is a loop variable or a constant, and is assigned to"
            raise Refused("PM267", each.line, what, "Only a loop's own step changes its variable.")
        source = StatementText(text, self.found, place.constraints, place.integer_texts)
        try:
            self._pieces(simplified(with_guard(each), self._rules(place)), place, source)
        finally:
            self.found = max(self.found, source.number + 1)

    def _pieces(self, each: Assign, place: _Place, source: StatementText, *, is_whole: bool = True) -> None:
        """Read what is left of an assignment under the conditions of a place."""
        rules = self._rules(place)
        condition = next_condition(each, rules)
        if condition is None:
            check_count(self.found + 1 - source.number, each.line)
            self._piece(each, place, source, is_whole=is_whole)
            return
        for is_true in (True, False):
            inner = self._where(condition, place, is_true=is_true)
            self._pieces(decided(each, condition, rules, holds=is_true), inner, source, is_whole=False)

    def _piece(self, each: Assign, place: _Place, source: StatementText, *, is_whole: bool) -> None:
        name = f"S{self.found}"
        self.found += 1
        if place.is_dead or not each.writes or (not is_whole and self._domain(place).is_empty()):
            return
        numbers = (*place.numbers, place.next_number())
        domain = self._domain(place)
        try:
            target = self._access(each.target, place)
            kind = self.variables.by_tensor[target.tensor].element_type
            result: Computed = computed(each, target, kind, self._reader(place), domain)
        except Refused as refused:
            raise self._with_others(refused, each, place) from None
        if domain.is_empty():
            return
        self.statements.append(
            Statement(
                name,
                place.dims,
                domain.constraints,
                target,
                result.operator,
                result.reads,
                result.expression,
                numbers,
                result.comparison,
            )
        )
        self.lines[name] = each.line
        self.texts[name] = source

    def _with_others(self, first: Refused, each: Assign, place: _Place) -> Refused:
        """Return why an assignment is refused, with what is wrong in the other elements that it names."""
        others: list[Refused] = []
        for part in (*inside(each.target), *inside(each.value)):
            if isinstance(part, Item):
                try:
                    self._access(part, place)
                except Refused as refused:
                    others.append(refused)
        return Refused(first.code, first.line, first.what, first.hint, (*first.more, *others))

    def _access(self, item: Name | Item, place: _Place) -> Access:
        return self._assuming(partial(self.variables.access, item, place.variables), place)

    def _reader(self, place: _Place) -> ValueReader:
        variables = self.variables.by_tensor
        return ValueReader(
            self._scope(place), lambda item: self._access(item, place), lambda tensor: variables[tensor].element_type
        )

    def _rules(self, place: _Place) -> Rules:
        """Return what assignments are taken apart by at a place."""

        def kind(item: Name | Item) -> str | None:
            name = item.name if isinstance(item, Name) else item.array
            known = known_name(name, place.integers) if isinstance(item, Name) else None
            if known is not None:
                return place.types.get(known)
            variable = place.variables.get(name) or self.variables.undeclared.get(name)
            return self.variables.unknown if variable is None else variable.element_type

        return replace(rules_of(self._scope(place)), kind=kind)

    def _domain(self, place: _Place) -> Domain:
        extents = {name: self._extents[name] for name in (*self.parameters, *place.dims)}
        kept = [each for each in dict.fromkeys(place.constraints) if self.parametric or bounds(each, extents)[0] < 0]
        return Domain(tuple(extents.items()), tuple(kept))


def _without(name: str, line: int, aliases: Mapping[str, CExpression]) -> dict[str, CExpression]:
    """Return the aliases where a name gets another meaning; Refused if one is computed from it."""
    for own, value in aliases.items():
        if own != name and name in names_of(value):
            what = f"'{name}' gets another meaning here, and '{own}' is computed from the outer one"
            raise Refused("PM265", line, what, "Rename one.")
    return {own: value for own, value in aliases.items() if own != name}


def _expressions_of(statement: CStatement) -> tuple[CExpression, ...]:
    """Return the expressions of a statement, those of its body left out."""
    whole: tuple[CExpression | None, ...] = ()
    match statement:
        case Assign(target, _, value, _, _, guard):
            whole = (target, value, guard)
        case Declare(_, _, shape, value):
            whole = (*shape, value)
        case For(_, start, condition, step):
            whole = (start, condition, step)
        case If(condition):
            whole = (condition,)
        case Block():
            pass
    return tuple(each for each in whole if each is not None)
