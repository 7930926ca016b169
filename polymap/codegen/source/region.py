"""The statements of a C region: domains and accesses as isl sets and maps over symbolic parameters, bodies as C.

A statement keeps the text of its assignment. Its loop variables are declared before it as constants of their original
types, so that types and arithmetic are those of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AnySet
from dataclasses import dataclass, field, replace
from functools import reduce

from polymap.codegen import lower as ast
from polymap.ir import Access, Mistake, Operator, Statement, WorkloadError
from polymap.poly import Counter, Frame, Map, Set, coalesced, parameters_of
from polymap.workload import c

_UPDATES = {Operator.ADD: "+", Operator.MULTIPLY: "*", Operator.MAX: "max", Operator.MIN: "min"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """The place where the region declares a variable: its line, and the number of loops around it."""

    line: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The elements of an array (or variable) that the instances of a statement touch: { S[i, ...] -> A[...] }.

    declared: where the region declares the variable; None for others. element_type: "" where the text does not tell it.
    tensor: its name in the workload of the text.
    """

    array: str
    elements: Map
    reads: bool
    writes: bool
    declared: Declaration | None = None
    element_type: str = ""
    tensor: str = ""


@dataclass(frozen=True, slots=True)
class LoopArray:
    """An array over loops that holds a variable's value of each iteration. kind: type of its elements; extents: as C,
    those of the loops first."""

    name: str
    kind: str
    extents: tuple[str, ...]


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
    domain: Set
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
    it. values: of fixed parameters. result: what the function returns behind the loops, if it is read. stands_for:
    statement whose instances are tiles -> the statement that it replaces. assumed: the sizes without a value for which
    all this holds, None for all. arrays: over loops, in place of variables.
    """

    statements: tuple[SourceStatement, ...]
    variables: tuple[str, ...]
    names: frozenset[str]
    inside: frozenset[str]
    counters: frozenset[str]
    parameters: Mapping[str, str]
    values: Mapping[str, int]
    result: c.CExpression | None = None
    stands_for: Mapping[str, str] = field(default_factory=dict[str, str])
    assumed: Set | None = None
    arrays: tuple[LoopArray, ...] = ()


def region_of(program: c.CProgram, sizes: Mapping[str, int], file: str, *, by_pieces: bool = False) -> Region:
    """Return the region of a C program. Call it inside `with budget():`. Parameters in `sizes` are fixed.

    by_pieces: an assignment whose conditions decide which elements it reads becomes one statement per outcome, as in
    `from_c`.

    Raises WorkloadError with every mistake: loops, conditions and subscripts that are not quasi-affine, integers that
    may wrap around, names with two meanings.
    """
    nest = c.parametric_nest(program, sizes, file)
    variables = _local_variables(program, nest, file)
    groups: dict[str, list[Statement]] = {}
    for each in nest.statements:
        groups.setdefault(each.name if by_pieces else f"S{nest.texts[each.name].number}", []).append(each)
    reader = _Reader(nest, file, by_pieces)
    found = tuple(reader.statement(name, group) for name, group in groups.items())
    return Region(
        found,
        tuple(variables.values()),
        frozenset(variables),
        frozenset(each.name for each in map(nest.variables.by_tensor.__getitem__, nest.local) if each.around),
        nest.counters,
        {name: c.SPELLING.get(nest.parameters[name], "") for name in sorted(_parameters(found, nest.assumed))},
        dict(sizes),
        nest.result,
        assumed=nest.assumed,
    )


def _local_variables(program: c.CProgram, nest: c.Nest, file: str) -> dict[str, str]:
    """Return the declarations of variables that the body declares; they move in front of all loops.

    Raises WorkloadError where one declaration cannot stand for all.
    """
    found: dict[str, str] = {}
    outer = {each.name for each in program.program.outside} | nest.hidden
    for each in nest.local.values():
        if each.name in nest.counters:
            continue
        spelled = f"{c.SPELLING[each.element_type or 'int32']} {each.name}"  # of a condition that is stored
        text = program.declarations.get((each.name, each.line), spelled)
        sizes = frozenset[str]().union(*(c.names_of(size) for size in each.shape if size is not None))
        if text and each.shape and not sizes:
            text = f"{ast.ALIGNED_ARRAY} {text}"
        if sizes & nest.inner_names:
            what = f"the size of '{each.name}' depends on a loop ({file}:{each.line})"
            raise WorkloadError(Mistake("PM281", what, "Declare it outside the loop."))
        if not text or found.setdefault(each.name, text) != text or each.name in outer:
            what = f"'{each.name}' is declared more than once, or static ({file}:{each.line})"
            raise WorkloadError(Mistake("PM281", what, "Give each variable a name of its own."))
    return found


def _parameters(statements: Sequence[SourceStatement], assumed: Set | None) -> set[str]:
    sets: list[Set | Map] = [] if assumed is None else [assumed]
    for each in statements:
        sets += [each.domain, *(one.elements for one in each.references)]
    return {name for points in sets for name in parameters_of(points)}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns statements over counters into statements over the text's loop variables."""

    nest: c.Nest
    file: str
    by_pieces: bool

    def statement(self, name: str, pieces: Sequence[Statement]) -> SourceStatement:
        """Return the statement that consists of pieces of one assignment."""
        first, text = pieces[0], self.nest.texts[pieces[0].name]
        dims = self._dims(first)
        updates = all(_reads_target(each) for each in pieces)
        reads: dict[Access, Reference] = {}
        targets: list[Reference] = []
        domains: list[Set] = []
        for each in pieces:
            frame = self._frame(name, each, dims)
            domains.append(frame.points(each.constraints))
            own = self._reference(each.target, frame, domains[-1])
            targets.append(replace(own, reads=updates, writes=True))
            accesses = [access for access in each.reads if access != each.target]
            for access in (*accesses, *((each.target,) if _reads_target(each) and not updates else ())):
                reference = replace(self._reference(access, frame, domains[-1]), reads=True)
                reads[access] = _unite_references(reads[access], reference) if access in reads else reference
        assign = text.assign
        # Pieces that write nothing, or never run, are instances of the whole assignment.
        domain = domains[0] if self.by_pieces else self._frame(name, first, dims).points(text.constraints)
        body = ast.Assign(c_expression(assign.target), assign.operator, c_expression(assign.value))
        return SourceStatement(
            name,
            tuple(each.label for each in dims),
            tuple(each.step for each in dims),
            first.position,
            domain,
            _widen_constants(self._constants(text.integers, dims, assign), assign, self.nest.parameters),
            body if assign.guard is None else ast.If(c_expression(assign.guard), (body,)),
            (*reads.values(), reduce(_unite_references, targets)),
            self._update(pieces),
            assign.line,
        )

    def _dims(self, statement: Statement) -> tuple[Counter, ...]:
        """Return the loops of a statement, their variables made unique."""
        own = {each.name: each for each in self.nest.dims}
        found: list[Counter] = []
        for each in (own[name] for name in statement.dims):
            label = _unique(each.variable or each.name, [one.label for one in found])
            found.append(Counter(each.name, label, each.origin, each.step))
        return tuple(found)

    def _frame(self, name: str, each: Statement, dims: tuple[Counter, ...]) -> Frame:
        indices = [index for access in (each.target, *each.reads) for index in access.index]
        used = {one for whole in (*each.constraints, *indices) for one in whole.dims}
        kinds = self.nest.parameters
        named = sorted(used.intersection(kinds))
        parameters = tuple(Counter(one, one, self.nest.least(one), 1) for one in named)
        return Frame(name, dims, parameters, self.nest.extents)

    def _reference(self, access: Access, frame: Frame, domain: Set) -> Reference:
        variable = self.nest.variables.by_tensor[access.tensor]
        elements = frame.map_to(variable.name, access.index[len(variable.around) :]).intersect_domain(domain)
        declared = self.nest.local.get(access.tensor)
        where = None if declared is None else Declaration(declared.line, len(variable.around))
        kind = "" if variable.name in self.nest.variables.undeclared else variable.element_type
        own = Reference(variable.name, elements, reads=False, writes=False, declared=where, element_type=kind)
        return replace(own, tensor=access.tensor)

    def _update(self, pieces: Sequence[Statement]) -> str:
        operators = {each.operator for each in pieces}
        tensor = pieces[0].target.tensor
        known = self.nest.variables.by_tensor[tensor]
        update = _UPDATES.get(pieces[0].operator, "") if len(operators) == 1 else ""
        is_integer = known.element_type in c.INTEGERS and known.name not in self.nest.variables.undeclared
        return update if update in ("+", "*") or is_integer else ""

    def _constants(
        self, integers: Sequence[c.IntegerText], dims: Sequence[Counter], assign: c.Assign
    ) -> tuple[Constant, ...]:
        """Return the integers that a body names, in the order of their declaration."""
        places = {each.name: place for place, each in enumerate(dims)}
        wanted = {name for whole in (assign.target, assign.value, assign.guard) if whole for name in c.names_of(whole)}
        kept: list[Constant] = []
        for each in reversed(integers):
            if each.name not in wanted:
                continue
            if any(other.name == each.name for other in kept):
                if each.value is None:
                    continue
                what = f"'{each.name}' has two meanings here ({self.file}:{assign.line})"
                raise WorkloadError(Mistake("PM281", what, "Rename one."))
            if each.value is not None:
                wanted |= c.names_of(each.value)
            own = places[each.dim] if each.value is None else c_expression(each.value)
            kept.append(Constant(each.name, c.SPELLING[each.kind], own))
        return tuple(reversed(kept))


def _widen_constants(
    constants: tuple[Constant, ...], assign: c.Assign, parameters: Mapping[str, str]
) -> tuple[Constant, ...]:
    """Return the constants, loop variables of type int as `long` where only sums and products in subscripts use them.

    Their values are the same, and loops over them 11 times as fast under clang 14, which finds no steps through memory
    behind a conversion of a counter to int.
    """
    known = {each.name for each in constants if each.type in ("int", "long") and isinstance(each.value, int)}
    known |= {name for name, kind in parameters.items() if kind in ("int32", "int64")}
    others = {name for whole in (assign.target, assign.value, assign.guard) if whole for name in _others(whole, known)}
    if any(not isinstance(each.value, int) for each in constants):
        return constants
    return tuple(
        replace(each, type="long") if each.type == "int" and each.name not in others else each for each in constants
    )


def _others(expression: c.CExpression, known: AnySet[str]) -> frozenset[str]:
    """Return the names that an expression uses elsewhere than in sums and products of known ones in subscripts."""
    parts: Sequence[c.CExpression]
    match expression:
        case c.Item(_, index):
            return frozenset[str]().union(*(c.names_of(each) for each in index if not _is_plain(each, known)))
        case c.Unary(_, operand) | c.Cast(_, operand):
            parts = (operand,)
        case c.Binary(_, left, right):
            parts = (left, right)
        case c.Choice(test, then, other):
            parts = (test, then, other)
        case c.Call():
            parts = expression.arguments
        case _:
            return frozenset(c.names_of(expression))
    return frozenset[str]().union(*(_others(each, known) for each in parts))


def _is_plain(index: c.CExpression, known: AnySet[str]) -> bool:
    """Return whether a subscript adds and multiplies signed integers."""
    match index:
        case c.Name(name):
            return name in known
        case c.Literal(_, number, _, kind):
            return number is not None and kind in ("int32", "int64")
        case c.Unary("-", operand) | c.Cast("int64", operand, _, False):
            return _is_plain(operand, known)
        case c.Binary("+" | "-" | "*", left, right):
            return _is_plain(left, known) and _is_plain(right, known)
        case _:
            return False


def _reads_target(piece: Statement) -> bool:
    return piece.operator is not Operator.ASSIGN or piece.target in piece.reads


def _unite_references(one: Reference, other: Reference) -> Reference:
    """Return the reference to the elements of both."""
    return replace(one, elements=coalesced(one.elements.union(other.elements)))


def _unique(name: str, taken: Sequence[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def c_expression(expression: c.CExpression) -> ast.Expr:
    """Return an expression of the program as C, unchanged."""
    match expression:
        case c.Literal(text):
            return ast.Name(text)
        case c.Name(name):
            return ast.Name(name)
        case c.Item(array, index):
            return ast.Element(array, tuple(c_expression(each) for each in index))
        case c.Unary(operator, operand):
            return ast.Invoke(operator, (c_expression(operand),))
        case c.Binary(operator, left, right):
            return ast.Binary(operator, c_expression(left), c_expression(right))
        case c.Choice(test, then, other):
            return ast.Choice(c_expression(test), c_expression(then), c_expression(other))
        case c.Cast(kind, operand, _, written):
            inner = c_expression(operand)
            return ast.Invoke(f"({c.SPELLING[kind]})", (inner,)) if written else inner
        case _:
            return ast.Invoke(expression.function, tuple(c_expression(each) for each in expression.arguments))
