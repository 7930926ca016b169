"""The reads, the target and the value of a C assignment in its scope."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from polymap.inputs import is_name, shown
from polymap.ir import Access, Affine, Apply, Expression, Number, Operator, Read, bounds, dim
from polymap.poly import budget, integer_set
from polymap.workload.c import tree
from polymap.workload.c.affine import Scope, affine_of, outside_its_loop
from polymap.workload.c.linear import Linear, NotStaticError, by_rows, linear, strides_of, term
from polymap.workload.c.types import FLOATS, common, keeps_values
from polymap.workload.c.values import Typed, ValueReader, accumulation, with_target

_HALF = 2**16  # numbers below it have products that 32 bits hold
_OPERATORS = {"+=": Operator.ADD, "-=": Operator.ADD, "*=": Operator.MULTIPLY}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that holds data. around: the loops in which it is declared: it has one copy per iteration of them.

    name: as in the text. shape: None for an axis without a declared size.
    """

    name: str
    tensor: str
    element_type: str
    shape: tuple[int | None, ...]
    around: tuple[str, ...]
    temporary: bool
    line: int


@dataclass(slots=True)
class Variables:
    """All variables of a program by the name of their tensor; `words`: names that occur in the source.

    unknown: the element type of variables without a declaration. strides: tensor of one subscript -> the sizes without
    a value that are the lengths of its rows, the last axis first.
    """

    words: frozenset[str]
    unknown: str = "int32"
    by_tensor: dict[str, Variable] = field(default_factory=dict[str, Variable])
    undeclared: dict[str, Variable] = field(default_factory=dict[str, Variable])
    strides: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def declare(
        self,
        name: str,
        element_type: str | None,
        shape: tuple[int | None, ...],
        around: tuple[str, ...],
        line: int,
        *,
        temporary: bool,
    ) -> Variable:
        """Return a new variable; the tensor of a second variable with this name is called name_2."""
        tensor = unique(name, self.by_tensor, self.words)
        self.by_tensor[tensor] = Variable(name, tensor, element_type or self.unknown, shape, around, temporary, line)
        return self.by_tensor[tensor]

    def access(self, place: tree.Name | tree.Item, known: Mapping[str, Variable], scope: Scope) -> Access:
        """Return the access of a variable or element; the shape of an undeclared variable follows from its use."""
        name, written = (place.name, ()) if isinstance(place, tree.Name) else (place.array, place.index)
        if name in scope.counters and name not in scope.integers and not written:
            raise outside_its_loop(name, place.line)
        if name in scope.counters or name in scope.integers:
            what = f"'{name}' is a loop variable or a constant"
            raise tree.Refused(
                "PM265", place.line, f"{what}, and {shown(tree.render(place))} uses it as data", "Rename one."
            )
        variable = known.get(name) or self.undeclared.get(name)
        if variable is None:
            _check_name(name, place.line)
            variable = self.declare(name, None, (None,) * len(written), (), place.line, temporary=False)
            self.undeclared[name] = variable
        if len(written) != len(variable.shape):
            what = f"{shown(tree.render(place))} has {len(written)} subscripts, '{name}' has {len(variable.shape)}"
            hint = (
                "Every axis needs its subscript." if written else "Pointers that are set anew, or by ?:, are not read."
            )
            raise tree.Refused("PM268", place.line, f"{what} (line {variable.line})", hint)
        own = tuple(dim(each) for each in variable.around)
        return Access(variable.tensor, (*own, *self._index(variable.tensor, written, scope)))

    def _index(self, tensor: str, written: tuple[tree.CExpression, ...], scope: Scope) -> tuple[Affine, ...]:
        """Return the subscripts; of `A[i * m + j]`, where m has no value, i and j, assuming that 0 <= j < m."""
        if tensor not in self.strides:
            try:
                return tuple(affine_of(each, scope) for each in written)
            except tree.Refused as refused:
                if scope.assume is not None and refused.code == "PM262" and len(written) == 1:
                    self._note_strides(tensor, written[0], scope)
                raise
        try:
            for part in _unsigned_products(written[0], scope):  # they wrap around before a wider sum is made
                self._row(tensor, part, scope)
            return self._row(tensor, written[0], scope)
        except NotStaticError:
            affine_of(written[0], scope)  # tells why
            what = f"{shown(tree.render(written[0]))} is no sum of elements and rows of '{self.strides[tensor][-1]}'"
            raise tree.Refused("PM262", written[0].line, what, "Other subscripts of the array are.") from None

    def _row(self, tensor: str, written: tree.CExpression, scope: Scope) -> tuple[Affine, ...]:
        """Return a sum of rows as row and elements, assuming that it leaves no row, and that nothing wraps around."""
        index = list[Affine]()
        whole = linear(written, {}, lambda name: name not in scope.integers)
        for name in self.strides[tensor]:
            for alone, more in ((False, 0), (True, 0), (True, 1)):  # m - 1 - j; j + m; (n - i) * m - 1 - j
                row, rest = by_rows(whole, name, alone=alone)
                row -= Linear((), more)
                rest += term(tree.Name(name, written.line)).times(more)
                try:
                    column = affine_of(rest.expression(written.line), scope)
                except tree.Refused as refused:
                    if refused.code == "PM272":  # an unsigned one would wrap around
                        continue
                    raise
                if scope.assumes(-column - 1, column - scope.integers[name]):
                    break
            else:
                what = f"{shown(tree.render(written))} is taken for a row of '{name}' elements and one of these"
                raise tree.Refused("PM262", written.line, what, f"It leaves its row, for all {name}.")
            whole = row
            index.insert(0, column)
        first = affine_of(whole.expression(written.line), scope)
        if _kind(written, scope) == "uint32":
            ends = (first, *(scope.integers[name] for name in self.strides[tensor]))
            if not scope.assumes(-first - 1, *(each - _HALF for each in ends)):
                what = f"{shown(tree.render(written))} may reach what 'unsigned int' does not hold"
                raise tree.Refused("PM272", written.line, what, "It would wrap around. Use a wider or a signed type.")
        return (first, *index)

    def _note_strides(self, tensor: str, index: tree.CExpression, scope: Scope) -> None:
        """Note that a subscript is one of rows, if it is: the program is then read again."""
        with suppress(NotStaticError):
            whole = linear(index, {}, lambda name: name not in scope.integers)
            strides = strides_of(whole, scope.parameters or ())
            if len(strides) == 1 or (strides and not _unsigned_products(index, scope)):  # they may wrap around
                self.strides[tensor] = strides


def _kind(index: tree.CExpression, scope: Scope) -> str | None:
    """Return the type in which C computes a subscript."""
    return tree.kind_of(index, lambda place: scope.types.get(place.name) if isinstance(place, tree.Name) else None)


def _unsigned_products(index: tree.CExpression, scope: Scope) -> list[tree.CExpression]:
    """Return the largest parts of a subscript that C computes in `unsigned int` and that have a product."""
    if _kind(index, scope) != "uint32":
        return [found for each in tree.parts(index) for found in _unsigned_products(each, scope)]
    return (
        [index]
        if any(isinstance(each, tree.Binary) and each.operator in ("*", "<<") for each in tree.inside(index))
        else []
    )


def _check_name(name: str, line: int) -> None:
    if not is_name(name):
        raise tree.Refused("PM264", line, f"the name {shown(name)} is too long", "Names have at most 64 characters.")


def unique(name: str, taken: Mapping[str, object], words: frozenset[str]) -> str:
    """Return the name, or the first of name_2, name_3, ... that occurs nowhere in the source if it is taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken or f"{name}_{number}" in words:
        number += 1
    return f"{name}_{number}"


@dataclass(frozen=True, slots=True)
class Domain:
    """The instances of a statement: its dims with their extents, and constraints."""

    extents: tuple[tuple[str, int], ...]
    constraints: tuple[Affine, ...]

    def is_empty(self, *more: Affine) -> bool:
        """Return whether no instance satisfies the constraints and the additional ones."""
        if not self.constraints and not more:
            return False
        box = dict(self.extents)
        if any(bounds(each, box)[1] < 0 for each in (*self.constraints, *more)):
            return True
        with budget(what="whether a statement ever runs"):
            return integer_set("", self.extents, (*self.constraints, *more)).is_empty()


@dataclass(frozen=True, slots=True)
class Computed:
    """The update of a statement's target. comparison: as of `ir.Statement`."""

    operator: Operator
    reads: tuple[Access, ...]
    expression: Expression
    comparison: str = ""


def computed(each: tree.Assign, target: Access, kind: str, reader: ValueReader, domain: Domain) -> Computed:
    """Return the update by the assignment; it is an accumulation only if the result does not depend on the order.

    kind: the target's element type. Integers wrap, so their sums and products may be reordered. Accumulations that
    truncate in every step (`int += double`), or whose right side reads the target's element, may not.
    """
    if each.operator == "=":
        update = _as_update(each)
        if update is not None:
            found = computed(update, target, kind, reader.fresh(), domain)
            if found.operator is not Operator.ASSIGN:
                return found
        return _extreme(each, target, kind, reader, domain) or _plain(each, kind, reader)
    value = reader.read(each.value)
    reads = tuple(reader.reads)
    operator = _OPERATORS.get(each.operator)
    alone = not any(_may_meet(target, read, domain) for read in reads)
    if operator is not None and alone and (kind in FLOATS or value.kind not in FLOATS):
        step = value.to(common(kind, value.kind))
        return Computed(operator, reads, Apply("neg", (step.value,)) if each.operator == "-=" else step.value)
    whole = with_target(each.operator[0], Typed(Read(0), kind), value)
    return Computed(Operator.ASSIGN, (target, *reads), whole.value)


def _as_update(each: tree.Assign) -> tree.Assign | None:
    """Return `x = x + e`, `x = e + x`, `x = x - e`, `x = x * e` or `x = e * x` as `x += e` and so on, else None.

    C computes both in the same types.
    """
    if each.guarded or not isinstance(each.value, tree.Binary) or each.value.operator not in ("+", "-", "*"):
        return None
    left, right, own = each.value.left, each.value.right, tree.render(each.target)
    if tree.render(left) == own:
        return replace(each, operator=f"{each.value.operator}=", value=right)
    if tree.render(right) == own and each.value.operator != "-":
        return replace(each, operator=f"{each.value.operator}=", value=left)
    return None


def _plain(each: tree.Assign, kind: str, reader: ValueReader) -> Computed:
    if each.guarded:  # what is not assigned to is not converted either
        assert isinstance(each.value, tree.Choice), "what never runs is no statement"
        value = reader.guarded(each.value, kind)
    else:
        value = reader.read(each.value).to(kind)
    return Computed(Operator.ASSIGN, tuple(reader.reads), value.value)


def _extreme(each: tree.Assign, target: Access, kind: str, reader: ValueReader, domain: Domain) -> Computed | None:
    """Return `m = max(m, x)` as an accumulation, else None: m's type must represent x exactly.

    If both are compared in another type than m's, that type must represent m exactly.
    """
    found = accumulation(each.target, each.value)
    if found is None:
        return None
    operator, operand, compared = found
    own = reader.fresh()
    value = own.read(operand)
    reads = tuple(own.reads)
    inner = common(kind, value.kind) if compared is None else compared
    kept = _keeps(value, kind) and keeps_values(kind, inner) and _keeps(value, inner)
    if not kept or any(_may_meet(target, read, domain) for read in reads):
        return None
    return Computed(operator, reads, value.to(kind).value, _comparison(each))


def _comparison(each: tree.Assign) -> str:
    """Return the comparison by which `m = m > x ? m : x` picks its value, "" for a function."""
    choice, own = each.value, tree.render(each.target)
    if not isinstance(choice, tree.Choice) or not isinstance(choice.condition, tree.Binary):
        return ""
    sides = (choice.condition.left, choice.condition.right, choice.then, choice.other)
    left, right, then, other = ("t" if tree.render(side) == own else "v" for side in sides)
    return f"{left}{choice.condition.operator}{right}?{then}:{other}"


def _keeps(value: Typed, kind: str) -> bool:
    """Return whether a type represents the value (possibly a small constant) exactly."""
    match value.value:
        case Number(text) if text.isdigit():
            return int(text) < 2**7
        case _:
            return keeps_values(value.kind, kind)


def _may_meet(target: Access, read: Access, domain: Domain) -> bool:
    """Return whether some instance reads the element that it writes."""
    if target.tensor != read.tensor:
        return False
    differences = [one - other for one, other in zip(target.index, read.index, strict=True)]
    if any(not difference.terms and difference.constant for difference in differences):
        return False
    equal = [each for difference in differences if difference.terms for each in (difference, -difference)]
    return not domain.is_empty(*equal)
