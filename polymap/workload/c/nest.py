"""The statements of a C program with the loops and conditions around them, as loop-nest statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polymap.inputs import shown
from polymap.ir import Affine, Dim, Statement, bounds
from polymap.workload.c.affine import Scope, affine_of, constraints_of, fits, formula_of, negation
from polymap.workload.c.assign import Computed, Domain, Variable, Variables, computed, unique
from polymap.workload.c.loops import misused_counters, range_of
from polymap.workload.c.tree import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    CExpression,
    Choice,
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
    all_statements,
    parts,
    render,
)
from polymap.workload.c.types import FLOATS, SPELLING, common, holds, type_of_value
from polymap.workload.c.values import ValueReader, accumulation


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a statement. numbers: positions of the loops around it; inside: counts the positions within."""

    dims: tuple[str, ...]
    numbers: tuple[int, ...]
    constraints: tuple[Affine, ...]
    integers: Mapping[str, Affine]
    types: Mapping[str, str | None]
    variables: Mapping[str, Variable]
    inside: list[int]

    def next_number(self) -> int:
        self.inside[0] += 1
        return self.inside[0] - 1


@dataclass(slots=True)
class Nest:
    """Walks a program and collects its dims, statements and variables.

    lines: statement name -> its line. found: how many assignments the text has so far; they are S0, S1, ...
    constants: sizes and integers that the file declares, with their types. counter_types: of loop variables that are
    not declared by their loop, the type that they were declared with, if any.
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
    _extents: dict[str, int] = field(default_factory=dict[str, int])
    _changed: frozenset[str] = frozenset()
    _counters: frozenset[str] = frozenset()

    def run(self) -> None:
        """Walk the whole program; statements that cannot be read are left out and reported."""
        for misuse in misused_counters(self.program.body):
            self.complaints.add(misuse.code, misuse.line, misuse.what, misuse.hint)
        every = list(all_statements(self.program.body))
        self._counters = frozenset(each.variable for each in every if isinstance(each, For))
        targets = (each.target for each in every if isinstance(each, Assign))
        self._changed = self._counters | {target.name for target in targets if isinstance(target, Name)}
        self.variables.unknown = "float32" if any(self._has_fractions(each) for each in every) else "int32"
        constants = {name: Affine((), size) for name, size in self.sizes.items()}
        types = {name: type_of_value(size, size) for name, size in self.sizes.items()}
        place = _Place((), (), (), constants, types, {}, [0])
        for each in self.program.outside:
            place = self._tried(each, place, temporary=False)
        self.constants = {name: value.constant for name, value in place.integers.items()}
        self.constant_types = dict(place.types)
        self._body(self.program.body, place, temporary=not self.program.wrapped)

    def _body(self, body: Sequence[CStatement], place: _Place, *, temporary: bool = True) -> None:
        for each in body:
            place = self._tried(each, place, temporary=temporary)

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
            self.complaints.add(refused.code, refused.line, refused.what, refused.hint)
        return place

    def _scope(self, place: _Place) -> Scope:
        names = frozenset(place.variables)
        return Scope(place.integers, place.types, self._extents, place.constraints, names, self._counters)

    def _has_fractions(self, each: CStatement) -> bool:
        """Return whether a statement divides data, calls a function, or names a number with a point."""
        if not isinstance(each, Assign | Declare) or each.value is None:
            return False
        found = [each.value]
        for part in found:  # grows while it is walked
            found += parts(part)
        data = any(isinstance(part, Item) for part in found)
        divides = isinstance(each, Assign) and each.operator == "/="
        for part in found:
            divides |= isinstance(part, Literal) and part.number is None
            divides |= isinstance(part, Binary) and part.operator == "/" and data
            divides |= isinstance(part, Call) and part.function not in (
                "max",
                "min",
                "MAX",
                "MIN",
                "imax",
                "imin",
                "abs",
            )
        return divides

    # --- declarations ---

    def _declared(self, each: Declare, place: _Place, *, temporary: bool) -> _Place:
        """Return the position with the variable in scope; an integer that never changes is a constant."""
        if each.name in self.sizes and not each.shape:
            return self._sized(each, place)
        integers = {name: value for name, value in place.integers.items() if name != each.name}
        if each.value is not None and each.name not in self._changed and "int" in (each.element_type or ""):
            value = self._integer_or_none(each.value, each.element_type, place)
            if value is not None:
                types = {**place.types, each.name: each.element_type}
                return replace(place, integers={**integers, each.name: value}, types=types)
        shape = tuple(None if size is None else self._size(each, size, place) for size in each.shape)
        variable = self.variables.declare(
            each.name, each.element_type, shape, place.dims, each.line, temporary=temporary
        )
        place = replace(place, integers=integers, variables={**place.variables, each.name: variable})
        if each.value is not None and each.name not in self._counters:
            self._assignment(Assign(Name(each.name, each.line), "=", each.value, each.line), place)
        return place

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
            found = affine_of(value, scope)
        except Refused:
            return None
        return found if kind is None or fits(found, kind, scope) else None

    def _size(self, each: Declare, size: CExpression, place: _Place) -> int:
        value = affine_of(size, self._scope(place))
        if value.terms or value.constant < 1:
            found = "depends on a loop" if value.terms else f"is {value.constant}"
            what = f"'{each.name}' is declared with the size {shown(render(size))}, which {found}"
            raise Refused("PM264", each.line, what, "Expected an integer >= 1.")
        return value.constant

    # --- control ---

    def _loop(self, loop: For, place: _Place) -> None:
        name = unique(loop.variable, self._extents, self.variables.words.union(self.variables.by_tensor))
        number = place.next_number()
        try:
            values = range_of(loop, self._scope(place), name, self._counter_type(loop, place))
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
        try:
            formula = formula_of(branch.condition, self._scope(place))
        except Refused:
            extreme = _as_extreme(branch)
            if extreme is None:
                self._skip((*branch.then, *branch.other))
                raise
            self._assignment(extreme, place)
            return
        for condition, body in ((formula, branch.then), (negation(formula), branch.other)):
            constraints = constraints_of(condition, self._extents)
            if constraints is None:
                self._skip(body)
            else:
                self._body(body, replace(place, constraints=(*place.constraints, *constraints)))

    def _skip(self, body: Sequence[CStatement]) -> None:
        """Count the statements of a part that never runs: names follow the text."""
        self.found += sum(isinstance(each, Assign) for each in all_statements(body))

    # --- assignments ---

    def _assignment(self, each: Assign, place: _Place) -> None:
        if isinstance(each.value, Choice) and self._is_static(each, each.value, place):
            kind = self._common_type(each.value, place)
            sides = (Cast(kind, side, each.line, written=False) for side in (each.value.then, each.value.other))
            then, other = (replace(each, value=value) for value in sides)
            self._branch(If(each.value.condition, (then,), (other,), each.line), place)
            return
        name = f"S{self.found}"
        self.found += 1
        numbers = (*place.numbers, place.next_number())
        if isinstance(each.target, Name) and each.target.name in {**place.integers, **dict.fromkeys(self._counters)}:
            what = f"'{each.target.name}' is a loop variable or a constant, and is assigned to"
            raise Refused("PM267", each.line, what, "Only a loop's own step changes its variable.")
        scope = self._scope(place)
        domain = self._domain(place)
        target = self.variables.access(each.target, place.variables, scope)
        kind = self.variables.by_tensor[target.tensor].element_type
        result: Computed = computed(each, target, kind, self._reader(place), domain)
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

    def _reader(self, place: _Place) -> ValueReader:
        scope, variables = self._scope(place), self.variables
        return ValueReader(
            scope,
            lambda item: variables.access(item, place.variables, scope),
            lambda tensor: variables.by_tensor[tensor].element_type,
        )

    def _common_type(self, choice: Choice, place: _Place) -> str:
        """Return the type of `condition ? then : other`."""
        return common(self._reader(place).read(choice.then).kind, self._reader(place).read(choice.other).kind)

    def _domain(self, place: _Place) -> Domain:
        extents = {name: self._extents[name] for name in place.dims}
        kept = [each for each in dict.fromkeys(place.constraints) if bounds(each, extents)[0] < 0]
        return Domain(tuple(extents.items()), tuple(kept))

    def _is_static(self, each: Assign, choice: Choice, place: _Place) -> bool:
        """Return whether `target = condition ? a : b` is an if: its condition is about loop counters alone."""
        if each.operator == "=" and accumulation(each.target, choice) is not None:
            return False
        try:
            formula_of(choice.condition, self._scope(place))
        except Refused:
            return False
        return True


def _as_extreme(branch: If) -> Assign | None:
    """Return `if (x > m) m = x;` as m = max(m, x), or None if the condition is anything else."""
    body = branch.then
    while len(body) == 1 and isinstance(body[0], Block):
        body = body[0].body
    if branch.other or len(body) != 1 or not isinstance(body[0], Assign) or body[0].operator != "=":
        return None
    choice = Choice(branch.condition, body[0].value, body[0].target, branch.line)
    return replace(body[0], value=choice, guarded=True) if accumulation(body[0].target, choice) is not None else None
