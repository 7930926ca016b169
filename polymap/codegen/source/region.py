"""The statements of a C region: domains and accesses as isl sets and maps over symbolic parameters, bodies as C.

A statement keeps the text of its assignment. Its loop variables are declared before it as constants of their original
types, so that types and arithmetic are those of the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from polymap.codegen import lower as ast
from polymap.codegen.source.pieces import Piece, pieces_of, rules_of, without_aliases
from polymap.codegen.source.values import Alias, NotAffineError, Scope, condition, constant, value, variable
from polymap.ir import Mistake, WorkloadError
from polymap.workload.c import (
    FLOATS,
    INTEGERS,
    SPELLING,
    VALUE_MACROS,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    CExpression,
    Choice,
    CProgram,
    CStatement,
    Declare,
    For,
    If,
    Item,
    Literal,
    Name,
    Unary,
    accumulation,
    all_statements,
    common,
    is_pure,
    keeps_values,
    misused_counters,
    parts,
    promoted,
    render,
    with_guard,
    without_branch,
)

_SET, _OUT = isl.dim_type.set, isl.dim_type.out
_WIDE = ("int32", "int64")  # types in which no value is taken to wrap around


@dataclass(frozen=True, slots=True)
class Declaration:
    """The place where the region declares a variable: its line, and the number of loops around it."""

    line: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The elements of an array (or variable) that the instances of a statement touch: { S[i, ...] -> A[...] }.

    declared: where the region declares the variable; None for others.
    """

    array: str
    elements: isl.Map
    reads: bool
    writes: bool
    declared: Declaration | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer that the body names: a loop variable (given by its position), or an expression of loop variables."""

    name: str
    type: str
    value: int | ast.Expr


@dataclass(frozen=True, slots=True, eq=False)
class SourceStatement:
    """One assignment.

    dims: its loop variables, outermost first, made unique. signs: 1 for loops that count up, else -1. position: as in
    `ir.Statement`. constants: the integers that its body names. references: its accesses, the target last. accumulates:
    "+" or "*" for an update whose order only affects rounding, "max" or "min" for one of integers whose order never
    matters, else "".
    """

    name: str
    dims: tuple[str, ...]
    signs: tuple[int, ...]
    position: tuple[int, ...]
    domain: isl.Set
    constants: tuple[Constant, ...]
    body: ast.Stmt
    references: tuple[Reference, ...]
    accumulates: str
    line: int


@dataclass(frozen=True, slots=True)
class Region:
    """The part of the program that is transformed.

    variables: declarations of the region, without initial values. names: their names. inside: those declared in loops.
    counters: all loop variables. parameters: name -> C type of each symbolic parameter, "" where the text does not tell
    it. values: of fixed parameters. integers: (text, C type) of every integer in loop bounds, conditions and
    subscripts. result: what the function returns behind the loops, if it is read. stands_for: statement whose instances
    are tiles -> the statement that it replaces.
    """

    statements: tuple[SourceStatement, ...]
    variables: tuple[str, ...]
    names: frozenset[str]
    inside: frozenset[str]
    counters: frozenset[str]
    parameters: Mapping[str, str]
    values: Mapping[str, int]
    integers: tuple[tuple[str, str], ...]
    result: CExpression | None = None
    stands_for: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Position:
    scope: Scope
    dims: tuple[str, ...]
    signs: tuple[int, ...]
    numbers: tuple[int, ...]
    domain: isl.Set
    types: Mapping[str, str]
    constants: tuple[Constant, ...]
    declared: Mapping[str, Declaration]
    inside: list[int]

    def next_number(self) -> int:
        self.inside[0] += 1
        return self.inside[0] - 1


def region_of(program: CProgram, sizes: Mapping[str, int], file: str, *, by_pieces: bool = False) -> Region:
    """Return the region of a C program. Call it inside `with budget():`. Parameters in `sizes` are fixed.

    by_pieces: an assignment whose conditions decide which elements it reads becomes one statement per outcome, as in
    `from_c`.

    Raises WorkloadError where a loop, condition or subscript is not quasi-affine, or a name has two meanings.
    """
    walker = _Walker(program, sizes, file, by_pieces)
    try:
        walker.run()
    except NotAffineError as error:
        what = f"'{error}' is no sum of loop variables and parameters ({file}:{error.expression.line})"
        hint = "Loops, conditions and subscripts may depend on loop variables and sizes, not on data."
        if error.may_become:
            hint = "With values for its sizes (N=8) it may become one."
        raise WorkloadError(Mistake("PM262", what, hint)) from None
    return walker.region()


@dataclass(slots=True)
class _Walker:
    program: CProgram
    sizes: Mapping[str, int]
    file: str
    by_pieces: bool
    statements: list[SourceStatement] = field(default_factory=list[SourceStatement])
    found: int = 0
    result: CExpression | None = None
    storage: dict[str, str] = field(default_factory=dict[str, str])
    inside: set[str] = field(default_factory=set[str])
    counters: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    outer_types: dict[str, str] = field(default_factory=dict[str, str])
    integers: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def run(self) -> None:
        program = self.program.program
        for misuse in misused_counters(program.body):
            raise WorkloadError(Mistake("PM281", f"{misuse.what} ({self.file}:{misuse.line})", misuse.hint))
        every = list(all_statements(program.body))
        self.counters = frozenset(each.variable for each in every if isinstance(each, For))
        targets = {each.target.name for each in every if isinstance(each, Assign) and isinstance(each.target, Name)}
        self.changed = self.counters | targets
        outside = {each.name: each for each in program.outside}
        self.outer_types = {name: each.element_type or "int32" for name, each in outside.items()}
        arrays = {part.array for part in _expressions(every) if isinstance(part, Item)}
        floats = {name for name, each in outside.items() if each.shape or each.element_type in FLOATS}
        data = frozenset(arrays | targets | floats) - self.counters
        self._check_calls(every)
        self.integers |= set(_typed_parts(every))
        scope = Scope(0, {}, data, self.sizes)
        universe = isl.Set.universe(constant(0, 0).get_domain_space())
        for each in program.outside:  # `from_c` counts the data that they set as statements
            if each.value is not None and each.name not in self.counters and not self._is_constant(each, scope):
                self.found += 1
        place = self._body(program.body, _Position(scope, (), (), (), universe, self.outer_types, (), {}, [0]))
        if program.result is not None:
            self.result = without_aliases(program.result, place.scope)

    def _check_calls(self, statements: Sequence[CStatement]) -> None:
        for part in _expressions(statements):
            known = ("floord", "ceild", *VALUE_MACROS)
            if isinstance(part, Call) and part.function not in known and not is_pure(part.function):
                what = f"the function '{part.function}' is not known to be pure ({self.file}:{part.line})"
                raise WorkloadError(Mistake("PM266", what, "sqrt, exp, pow, fmax and the like are."))

    def region(self) -> Region:
        names: set[str] = set()
        for each in self.statements:
            for position in range(each.domain.dim(isl.dim_type.param)):
                names.add(str(each.domain.get_dim_name(isl.dim_type.param, position)))
            for reference in each.references:
                for position in range(reference.elements.dim(isl.dim_type.param)):
                    names.add(str(reference.elements.get_dim_name(isl.dim_type.param, position)))
        known = {name: SPELLING[kind] for name, kind in self.outer_types.items()}
        parameters = {name: known.get(name, "") for name in sorted(names)}
        return Region(
            tuple(self.statements),
            tuple(self.storage.values()),
            frozenset(self.storage),
            frozenset(self.inside),
            self.counters,
            parameters,
            dict(self.sizes),
            (*parameters.items(), *sorted(self.integers)),
            self.result,
        )

    # --- statements ---

    def _body(self, body: Sequence[CStatement], place: _Position) -> _Position:
        """Add the statements of a body, and return the position behind it."""
        for each in body:
            match each:
                case Declare():
                    place = self._declaration(each, place)
                case Assign():
                    self._statement(each, place)
                case For():
                    self._loop(each, place)
                case If():
                    self._branch(each, place)
                case Block(inner):
                    self._body(inner, place)
        return place

    def _declaration(self, each: Declare, place: _Position) -> _Position:
        """Return the position with a new variable in scope; an integer that never changes becomes a constant of the
        bodies."""
        kind = each.element_type or "int32"
        if each.value is not None and self._is_constant(each, place.scope):
            names = {**place.scope.names, each.name: Alias(each.value, place.scope, kind)}
            scope = replace(place.scope, names=names, data=place.scope.data - {each.name})
            own = Constant(each.name, SPELLING[kind], c_expression(each.value))
            self.integers.add((each.name, own.type))
            types = {**place.types, each.name: kind}
            return replace(place, scope=scope, constants=(*place.constants, own), types=types)
        if each.name in self.counters:
            return replace(place, types={**place.types, each.name: kind})
        self._store(each, place)
        data = place.scope.data | {each.name}
        names = {name: meaning for name, meaning in place.scope.names.items() if name != each.name}
        declared = {**place.declared, each.name: Declaration(each.line, len(place.dims))}
        types = {**place.types, each.name: kind}
        place = replace(place, scope=replace(place.scope, data=data, names=names), declared=declared, types=types)
        if each.value is not None:
            self._statement(Assign(Name(each.name, each.line), "=", each.value, each.line), place)
        return place

    def _store(self, each: Declare, place: _Position) -> None:
        """Record the declaration of a variable, which moves in front of all loops."""
        spelled = f"{SPELLING[each.element_type or 'int32']} {each.name}"  # of a condition that is stored
        text = self.program.declarations.get((each.name, each.line), spelled)
        sizes = {
            part.name for size in each.shape if size is not None for part in _parts(size) if isinstance(part, Name)
        }
        if sizes & (self.counters | set(place.scope.names)):
            self._refuse(each, f"the size of '{each.name}' depends on a loop", "Declare it outside the loop.")
        other = self.storage.setdefault(each.name, text)
        if not text or other != text or each.name in self.outer_types or each.name in self.counters:
            what = f"'{each.name}' is declared more than once, or static"
            self._refuse(each, what, "Give each variable a name of its own.")
        if place.dims:
            self.inside.add(each.name)

    def _refuse(self, each: CStatement | CExpression, what: str, hint: str) -> None:
        line = 0 if isinstance(each, Block) else each.line
        raise WorkloadError(Mistake("PM281", f"{what} ({self.file}:{line})", hint))

    def _is_constant(self, each: Declare, scope: Scope) -> bool:
        """Return whether a declaration is an integer that never changes, computed from loop variables alone.

        One whose computation may wrap around, by a cast or an unsigned literal, is treated as a variable.
        """
        kind = each.element_type or "int32"
        if each.value is None or each.shape or each.name in self.changed or "int" not in kind:
            return False
        if any(part.element_type not in _WIDE for part in _literals_and_casts(each.value)):
            return False
        try:
            value(each.value, scope)
        except NotAffineError:
            return False
        return True

    def _loop(self, loop: For, place: _Position) -> None:
        number, depth = place.next_number(), place.scope.depth
        step = value(loop.step, place.scope)
        size = step.max_val() if step.is_cst() else isl.Val.zero(step.get_ctx())
        if not size.is_int() or size.is_zero():
            self._refuse(loop, f"the step of the loop over '{loop.variable}' is no constant", "i++ or i -= 2 are.")
        kind = loop.element_type or place.types.get(loop.variable, "int32")
        self.integers.add((loop.variable, SPELLING[kind]))
        names = {**place.scope.names, loop.variable: depth}
        scope = replace(place.scope, depth=depth + 1, names=names, data=place.scope.data - {loop.variable})
        first = value(loop.start, place.scope).insert_dims(isl.dim_type.in_, depth, 1)
        domain = _iterations(place.domain, variable(depth, depth + 1), first, size, condition(loop.condition, scope))
        if not domain.is_bounded():
            self._refuse(loop, f"the loop over '{loop.variable}' is unbounded", "Its condition never ends it.")
        label = _unique(loop.variable, place.dims)
        inner = _Position(
            scope,
            (*place.dims, label),
            (*place.signs, 1 if size.is_pos() else -1),
            (*place.numbers, number),
            domain,
            {**place.types, loop.variable: kind},
            (*place.constants, Constant(loop.variable, SPELLING[kind], depth)),
            place.declared,
            [0],
        )
        self._body(loop.body, inner)

    def _branch(self, branch: If, place: _Position) -> None:
        try:
            holds = condition(branch.condition, place.scope)
        except NotAffineError:
            reads = rules_of(place.scope).reads
            if not reads(branch.condition):
                raise
            self._body((without_branch(branch, reads, self.program.prepared.words),), place)
            return
        self._body(branch.then, replace(place, domain=place.domain.intersect(holds).coalesce()))
        self._body(branch.other, replace(place, domain=place.domain.subtract(holds).coalesce()))

    def _statement(self, each: Assign, place: _Position) -> None:
        """Add a statement with its accesses; by pieces: one statement per piece, as in `from_c`."""
        first, pieces = self.found, pieces_of(each, place.scope, place.domain, self.file)
        self.found += len(pieces)
        target = each.target.name if isinstance(each.target, Name) else each.target.array
        if target in place.scope.names or target in self.counters:
            self._refuse(each, f"'{target}' is a loop variable or a constant, and is assigned to", "Rename one.")
        if not self.by_pieces:
            self._add(each, place, pieces, f"S{first}")
            return
        for number, piece in enumerate(pieces):
            if piece.assign.writes:
                self._add(each, replace(place, domain=piece.domain), [piece], f"S{first + number}")

    def _add(self, each: Assign, place: _Position, pieces: Sequence[Piece], name: str) -> None:
        """Add a statement that consists of pieces."""
        guard = each.guard
        position = (*place.numbers, place.next_number())
        domain = self._with_names(place.domain, place, name)
        if domain.is_empty():
            return
        reads = self._reads(pieces, place, name)
        own = self._target(each, pieces, place, name, reads=each.operator != "=" or guard is not None)
        accumulates = "" if guard is not None else _accumulation(each)
        if any(r.array == own.array and not r.elements.intersect(own.elements).is_empty() for r in reads):
            accumulates = accumulates if each.operator == "=" and _occurs_once(each) else ""
        extreme, operand = _extreme(each, place.types)
        if extreme:
            others = self._reads(
                pieces_of(replace(each, value=operand, guard=None), place.scope, place.domain, self.file), place, name
            )
            if not any(r.array == own.array and not r.elements.intersect(own.elements).is_empty() for r in others):
                accumulates = extreme
        body = ast.Assign(c_expression(each.target), each.operator, c_expression(each.value))
        text: ast.Stmt = body if guard is None else ast.If(c_expression(guard), (body,))
        shown = [each.target, each.value, *(() if guard is None else (guard,))]
        constants = self._integers_of_body(each, shown, place)
        self.statements.append(
            SourceStatement(
                name, place.dims, place.signs, position, domain, constants, text, (*reads, own), accumulates, each.line
            )
        )

    def _with_names(self, domain: isl.Set, place: _Position, name: str) -> isl.Set:
        domain = domain.set_tuple_name(name)
        for number, label in enumerate(place.dims):
            domain = domain.set_dim_name(_SET, number, label)
        return domain

    def _reads(self, pieces: Sequence[Piece], place: _Position, name: str) -> list[Reference]:
        """Return the elements that pieces read; equal texts in several pieces become one reference."""
        found: dict[tuple[str, bool], Reference] = {}
        for piece in pieces:
            domain = self._with_names(piece.domain, place, name)
            if domain.is_empty():
                continue
            for part in (part for whole in piece.used for part in self._data_in(whole, place)):
                reference = self._reference(part, place, domain, reads=True)
                key = render(part), render(part) == render(piece.assign.target)
                found[key] = reference if key not in found else _union_of_references(found[key], reference)
        return list(found.values())

    def _target(self, each: Assign, pieces: Sequence[Piece], place: _Position, name: str, *, reads: bool) -> Reference:
        """Return the elements that pieces write."""
        whole: Reference | None = None
        for piece in pieces:
            if piece.assign.writes:
                domain = self._with_names(piece.domain, place, name)
                own = self._reference(piece.assign.target, place, domain, reads=reads, writes=True)
                whole = own if whole is None else _union_of_references(whole, own)
        if whole is None:
            nowhere = place.domain.subtract(place.domain)
            return self._reference(each.target, place, self._with_names(nowhere, place, name), reads=reads, writes=True)
        return whole

    def _data_in(self, expression: CExpression, place: _Position) -> Iterator[Name | Item]:
        """Yield the variables and elements that an expression reads, subscripts included."""
        for part in _parts(expression):
            if isinstance(part, Item) or (isinstance(part, Name) and part.name in place.scope.data):
                yield part

    def _reference(
        self, place_read: Name | Item, place: _Position, domain: isl.Set, *, reads: bool = False, writes: bool = False
    ) -> Reference:
        array, index = (place_read.name, ()) if isinstance(place_read, Name) else (place_read.array, place_read.index)
        name = domain.get_tuple_name()
        elements = isl.Map.from_domain(domain)
        for each in index:
            axis = isl.Map.from_pw_aff(value(each, place.scope)).set_tuple_name(isl.dim_type.in_, name)
            elements = elements.flat_range_product(axis)
        elements = elements.set_tuple_name(_OUT, array).intersect_domain(domain)
        return Reference(array, elements, reads, writes, place.declared.get(array))

    def _integers_of_body(self, each: Assign, shown: Sequence[CExpression], place: _Position) -> tuple[Constant, ...]:
        """Return the integers that a body names, in the order of their declaration."""
        wanted = {part.name for whole in shown for part in _parts(whole) if isinstance(part, Name)}
        kept: list[Constant] = []
        for constant_ in reversed(place.constants):
            if constant_.name not in wanted:
                continue
            if any(other.name == constant_.name for other in kept):
                if isinstance(constant_.value, int):
                    continue
                self._refuse(each, f"'{constant_.name}' has two meanings here", "Rename one.")
            kept.append(constant_)
            meaning = place.scope.names.get(constant_.name)
            if isinstance(meaning, Alias):
                wanted |= {part.name for part in _parts(meaning.expression) if isinstance(part, Name)}
        return tuple(reversed(kept))


def _iterations(outer: isl.Set, own: isl.PwAff, first: isl.PwAff, step: isl.Val, goes_on: isl.Set) -> isl.Set:
    """Return the iterations of a loop: from `first` in steps, up to the first value for which the condition fails."""
    depth = outer.dim(_SET)
    offset = own.sub(first)
    inside = outer.insert_dims(_SET, depth, 1)
    after = offset.ge_set(constant(0, depth + 1)) if step.is_pos() else offset.le_set(constant(0, depth + 1))
    reached = inside.intersect(after)
    if not step.abs().is_one():
        reached = reached.intersect(offset.mod_val(step.abs()).eq_set(constant(0, depth + 1)))
    failing = reached.subtract(goes_on)
    space = failing.get_space()
    later = isl.Map.universe(space.map_from_set())
    for number in range(depth):
        later = later.equate(isl.dim_type.in_, number, _OUT, number)
    order = later.order_le if step.is_pos() else later.order_ge
    later = order(isl.dim_type.in_, depth, _OUT, depth)
    return reached.intersect(goes_on).subtract(failing.apply(later)).coalesce()


def _unique(name: str, taken: Sequence[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _expressions(statements: Sequence[CStatement]) -> Iterator[CExpression]:
    for each in statements:
        whole: tuple[CExpression | None, ...] = ()
        match each:
            case Assign():
                whole = (each.target, each.value, each.guard)
            case Declare():
                whole = (each.value, *each.shape)
            case For():
                whole = (each.start, each.condition)
            case If():
                whole = (each.condition,)
            case Block():
                pass
        for part in whole:
            if part is not None:
                yield from _parts(part)


def _typed_parts(statements: Sequence[CStatement]) -> Iterator[tuple[str, str]]:
    """Yield (text, C type) of the literals and casts in loops, conditions and subscripts."""
    for each in statements:
        whole: list[CExpression] = []
        match each:
            case For():
                whole = [each.start, each.condition, each.step]
            case If():
                whole = [each.condition]
            case Assign() | Declare():
                found = [part for part in _expressions([each]) if isinstance(part, Item)]
                whole = [index for item in found for index in item.index]
            case Block():
                pass
        for part in (inner for one in whole for inner in _literals_and_casts(one)):
            if part.element_type not in FLOATS:
                yield render(part), SPELLING[part.element_type]


def _literals_and_casts(expression: CExpression) -> Iterator[Literal | Cast]:
    """Yield the literals and casts of an expression."""
    for part in _parts(expression):
        if isinstance(part, Literal | Cast):
            yield part


def _parts(expression: CExpression) -> Iterator[CExpression]:
    yield expression
    for part in parts(expression):
        yield from _parts(part)


def _accumulation(each: Assign) -> str:
    """Return "+" or "*" for `x += e`, `x -= e`, `x *= e`, `x = x + e` and `x = x - e`, else ""."""
    if each.operator in ("+=", "-="):
        return "+"
    if each.operator == "*=":
        return "*"
    if each.operator == "=" and isinstance(each.value, Binary) and each.value.operator in ("+", "*"):
        sides = (render(each.value.left), render(each.value.right))
        return each.value.operator if sides.count(render(each.target)) == 1 else ""
    if each.operator == "=" and isinstance(each.value, Binary) and each.value.operator == "-":
        return "+" if render(each.value.left) == render(each.target) else ""
    return ""


def _extreme(each: Assign, types: Mapping[str, str]) -> tuple[str, CExpression]:
    """Return "max" or "min" and the operand, for an integer that becomes the larger or smaller of itself and the
    operand.

    No value may change its type on the way (`short x; x = x > e ? x : e` truncates an `int`). Floats are excluded: the
    order decides the result of NaN, and which zero is kept.
    """
    value = with_guard(each).value
    found = accumulation(each.target, value) if each.operator == "=" else None
    if found is None:
        return "", each.value
    operator, operand, compared = found
    own, other = types.get(_array(each.target), ""), _kind(operand, types)
    if own not in INTEGERS or other not in INTEGERS:
        return "", each.value
    kind = compared or common(own, other)
    kept = keeps_values(own, kind) and keeps_values(other, kind) and keeps_values(other, own)
    return (operator.name.lower() if kept else ""), operand


def _kind(expression: CExpression, types: Mapping[str, str]) -> str:
    """Return the element type of an expression; "" where it is unknown."""
    match expression:
        case Literal() | Cast():
            return expression.element_type or ""
        case Name(name) | Item(name):
            return types.get(name, "")
        case Choice(_, then, other):
            sides = [_kind(then, types), _kind(other, types)]
            return common(*sides) if all(each in INTEGERS for each in sides) else ""
        case Unary("-" | "+", operand):
            found = _kind(operand, types)
            return promoted(found) if found in INTEGERS else ""
        case Binary(operator, left, right):
            found = [_kind(left, types), _kind(right, types)]
            if operator not in ("+", "-", "*", "/", "%"):
                return "int32"
            return common(*found) if all(each in INTEGERS for each in found) else ""
        case _:
            return ""


def _union_of_references(one: Reference, other: Reference) -> Reference:
    """Return the reference to the elements of both."""
    return replace(one, elements=one.elements.union(other.elements).coalesce())


def _occurs_once(each: Assign) -> bool:
    """Return whether the target's own text occurs once in the value, and no other element of its array does."""
    array = each.target.name if isinstance(each.target, Name) else each.target.array
    found = [part for part in _parts(each.value) if _array(part) == array]
    return len(found) == 1


def _array(expression: CExpression) -> str:
    match expression:
        case Name(name) | Item(name):
            return name
        case _:
            return ""


def c_expression(expression: CExpression) -> ast.Expr:
    """Return an expression of the program as C, unchanged."""
    match expression:
        case Literal(text):
            return ast.Name(text)
        case Name(name):
            return ast.Name(name)
        case Item(array, index):
            return ast.Element(array, tuple(c_expression(each) for each in index))
        case Unary(operator, operand):
            return ast.Invoke(operator, (c_expression(operand),))
        case Binary(operator, left, right):
            return ast.Binary(operator, c_expression(left), c_expression(right))
        case Choice(test, then, other):
            return ast.Choice(c_expression(test), c_expression(then), c_expression(other))
        case Cast(kind, operand, _, written):
            inner = c_expression(operand)
            return ast.Invoke(f"({SPELLING[kind]})", (inner,)) if written else inner
        case _:
            return ast.Invoke(expression.function, tuple(c_expression(each) for each in expression.arguments))
