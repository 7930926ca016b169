"""What a C assignment reads, writes and computes, where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polymap.inputs import is_name, shown
from polymap.poly.affine import Affine, bounds, dim
from polymap.poly.budget import budget
from polymap.poly.sets import integer_set
from polymap.workload.c_affine import Scope, affine_of
from polymap.workload.c_tree import Assign, Item, Name, Refused, render
from polymap.workload.c_values import ValueReader, accumulation, with_target
from polymap.workload.loopnest import Access, Apply, Expression, Operator

_OPERATORS = {"+=": Operator.ADD, "-=": Operator.ADD, "*=": Operator.MULTIPLY}
_OPERATIONS = {Operator.MAX: "max", Operator.MIN: "min"}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that holds data. around: the loops in which it is declared: it has one copy per iteration of them.

    shape: None for an axis whose size is not told. element_type: None if there is no declaration.
    """

    tensor: str
    element_type: str | None
    shape: tuple[int | None, ...]
    around: tuple[str, ...]
    temporary: bool
    line: int


@dataclass(slots=True)
class Variables:
    """All variables of a program by the name of their tensor; `words`: names that occur in the source."""

    words: frozenset[str]
    by_tensor: dict[str, Variable] = field(default_factory=dict[str, Variable])
    undeclared: dict[str, Variable] = field(default_factory=dict[str, Variable])

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
        """Return a new variable; a second one of the same name has its tensor called name_2."""
        tensor = unique(name, self.by_tensor, self.words)
        self.by_tensor[tensor] = Variable(tensor, element_type, shape, around, temporary, line)
        return self.by_tensor[tensor]

    def access(self, place: Name | Item, known: Mapping[str, Variable], scope: Scope) -> Access:
        """Return what a variable or element refers to; a variable without a declaration is taken as it is used."""
        name, written = (place.name, ()) if isinstance(place, Name) else (place.array, place.index)
        if name in scope.counters or name in scope.integers:
            what = f"'{name}' is a loop variable or a constant"
            raise Refused("PM265", place.line, f"{what}, and {shown(render(place))} uses it as data", "Rename one.")
        variable = known.get(name) or self.undeclared.get(name)
        if variable is None:
            _check_name(name, place.line)
            variable = self.declare(name, None, (None,) * len(written), (), place.line, temporary=False)
            self.undeclared[name] = variable
        if len(written) != len(variable.shape):
            what = f"{shown(render(place))} has {len(written)} subscripts, '{name}' has {len(variable.shape)}"
            raise Refused("PM268", place.line, f"{what} (line {variable.line})", "Every axis needs its subscript.")
        own = tuple(dim(each) for each in variable.around)
        return Access(variable.tensor, (*own, *(affine_of(each, scope) for each in written)))


def _check_name(name: str, line: int) -> None:
    if not is_name(name):
        raise Refused("PM264", line, f"the name {shown(name)} is too long", "Names have at most 64 characters.")


def unique(name: str, taken: Mapping[str, object], words: frozenset[str]) -> str:
    """Return the name, or name_2, name_3, ... where it is taken; those occur nowhere else in the source."""
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
        """Return whether no instance satisfies the constraints and what is asked beyond them."""
        if not self.constraints and not more:
            return False
        box = dict(self.extents)
        if any(bounds(each, box)[1] < 0 for each in (*self.constraints, *more)):
            return True
        with budget(what="whether a statement ever runs"):
            return integer_set("", self.extents, (*self.constraints, *more)).is_empty()


@dataclass(frozen=True, slots=True)
class Computed:
    """What a statement does to its target."""

    operator: Operator
    reads: tuple[Access, ...]
    expression: Expression


def computed(each: Assign, target: Access, reader: ValueReader, domain: Domain) -> Computed:
    """Return how the assignment computes; it accumulates only where its right side never reads the target's element."""
    operator, value, operation = Operator.ASSIGN, each.value, ""
    if each.operator == "=":
        extreme = accumulation(each.target, each.value)
        if extreme is not None:
            operator, value = extreme
            operation = _OPERATIONS[operator]
    else:
        operator = _OPERATORS.get(each.operator, Operator.ASSIGN)
        operation = each.operator[0]
    expression = reader.read(value)
    reads = tuple(reader.reads)
    alone = operator is not Operator.ASSIGN and not any(_may_meet(target, read, domain) for read in reads)
    if alone and each.operator == "-=":
        return Computed(operator, reads, Apply("neg", (expression,)))
    if alone or not operation:
        return Computed(operator, reads, expression)
    return Computed(Operator.ASSIGN, (target, *reads), with_target(operation, expression))


def _may_meet(target: Access, read: Access, domain: Domain) -> bool:
    """Return whether some instance reads the element that it writes."""
    if target.tensor != read.tensor:
        return False
    differences = [one - other for one, other in zip(target.index, read.index, strict=True)]
    if any(not difference.terms and difference.constant for difference in differences):
        return False
    equal = [each for difference in differences if difference.terms for each in (difference, -difference)]
    return not domain.is_empty(*equal)
