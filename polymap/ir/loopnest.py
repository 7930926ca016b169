"""The loop nest as data: dims, tensors, accesses, statements, workload. Frozen, made of tuples, outermost first.

A statement instance is a point of the statement's dims. Every dim runs over 0 <= dim < extent; a domain that is no box
has further constraints. `C[m,n] += A[m,k] * B[k,n]` is one statement `S` with dims (m, n, k), target C, operator ADD,
reads (A, B) and expression Product(Read(0), Read(1)).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import prod

from polymap.ir.construction import Construction
from polymap.ir.display import Shown
from polymap.ir.errors import WorkloadError
from polymap.ir.quasi_affine import Affine


class Role(Enum):
    """What a tensor is to the layer: machines may hold `@input`, `@weight` or `@output` per level."""

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"

    @property
    def word(self) -> str:
        """How machines and rules name the role: `@input`, `@weight`, `@output`."""
        return f"@{self.value}"


ROLE_WORDS = tuple(role.word for role in Role)


class Operator(Enum):
    """How a statement writes its target: ASSIGN overwrites, the others accumulate."""

    ASSIGN = "="
    ADD = "+="
    MULTIPLY = "*="
    MAX = "max="
    MIN = "min="


@dataclass(frozen=True, slots=True)
class Dim:
    """A loop: index 0 <= i < extent. The user's own loop variable has the value origin + step * i.

    variable: the loop variable in a C text; loops of one variable are named i, i_2, i_3, ...; "" for the name itself.
    """

    name: str
    extent: int
    origin: int = 0
    step: int = 1
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array. Axis a is indexed origin[a] <= index < origin[a] + shape[a]; shape () is a scalar.

    element_type: a C element type ("int8", "uint8", "int32", "float32", ...), or None: integers of `bits` bits.
    initial: holds values before the program starts (a written tensor that is accumulated onto).
    temporary: dead after the program ends.
    """

    name: str
    shape: tuple[int, ...]
    origin: tuple[int, ...]
    bits: int
    role: Role
    element_type: str | None = None
    initial: bool = False
    temporary: bool = False

    def is_among(self, words: Container[str]) -> bool:
        """Whether a list of tensor names and roles (`@input`) names this tensor."""
        return self.name in words or self.role.word in words


@dataclass(frozen=True, slots=True)
class Access:
    """One reference: the tensor's name and one index expression per axis."""

    tensor: str
    index: tuple[Affine, ...]

    @property
    def dims(self) -> tuple[str, ...]:
        """The dims that occur in the subscripts, each once, in the order of the axes."""
        return tuple(dict.fromkeys(name for form in self.index for name in form.dims))

    @property
    def dims_alone(self) -> frozenset[str]:
        """The dims that index an axis alone: for other values of one, the access touches other elements."""
        return frozenset(form.dims[0] for form in self.index if len(form.dims) == 1 and form.is_linear)

    @property
    def is_plain(self) -> bool:
        """Whether each axis is indexed by a dim of its own."""
        return len(self.dims_alone) == len(self.index) == len(self.dims)

    @property
    def is_box(self) -> bool:
        """Return whether no dim occurs on two axes: tiles of the dims touch products of what they touch on each."""
        return len(self.dims) == sum(len(form.dims) for form in self.index)


@dataclass(frozen=True, slots=True)
class Read:
    """The value of the statement's read access number `access`."""

    access: int


@dataclass(frozen=True, slots=True)
class Number:
    """A literal of C: digits, point and exponent, and the suffix that tells its type (`3u`, `0.5f`)."""

    text: str


@dataclass(frozen=True, slots=True)
class Index:
    """The value of a quasi-affine expression of the dims, as an integer."""

    value: Affine


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on values: "+", "-", "*", "/", "%", "neg", "max", "min", "?:" with a comparison first, "<", "<=",
    "==", "!=", "&&", "||", "!", "<<", ">>" (of the sign too), "&", "|", "^" or a pure math function's name ("sqrt",
    "expf", "fabs", ...)."""

    operation: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """A value in another element type, as C converts it: integers wrap, fractions are cut off, floats are rounded.

    Expressions of C programs have one wherever C converts; written: it is a cast of the text.
    """

    element_type: str
    value: Expression
    written: bool = False


Expression = Read | Number | Index | Apply | Convert


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment and the loops around it.

    dims: the loops around it in program order, outermost first. constraints: each >= 0, beyond the box of the extents.
    reads: every occurrence on the right, in textual order (an accumulation does not list its target).
    position: textual order, 2 * len(dims) + 1 ... as len(dims) + 1 integers: the place before the first loop, between
    the loops, and of the statement inside the last one (statements with equal leading places share these loops).
    comparison: of a MAX or MIN that a C text writes as a comparison, that text over the target t and the value v, as
    "t>=v?t:v"; it differs from fmax and fmin only where one of them is no number.
    counters: of a rewritten statement, what each counter of the program as it was read is over the dims.
    """

    name: str
    dims: tuple[str, ...]
    constraints: tuple[Affine, ...]
    target: Access
    operator: Operator
    reads: tuple[Access, ...]
    expression: Expression
    position: tuple[int, ...]
    comparison: str = field(default="", compare=False, repr=False)
    counters: tuple[tuple[str, Affine], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Original:
    """The text of a C program as C reads it: static arrays and a function `original(void)` without other effects.

    places: tensor name -> the C expression that points to its first element, for all that outlive the program. kept:
    the written ones among them that the program does not wholly overwrite. source, sizes: what was read. declared: the
    tensors in order of declaration.
    """

    text: str
    places: tuple[tuple[str, str], ...]
    kept: frozenset[str] = frozenset()
    source: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    declared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BareInput:
    """The array that a caller holds for a tensor: its shape without padding, and the padding before it per axis."""

    tensor: str
    shape: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Workload(Shown):
    """A static-control program: dims, tensors in order of first occurrence (the target first), statements in textual
    order. associative: accumulations may be reordered and split. original: of a C program, whose elements then have
    exactly the types of the text (other integers are accumulated in types that hold their sums). bare: of a layer, the
    array that its input stands for."""

    name: str
    dims: tuple[Dim, ...]
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    associative: bool = True
    original: Original | None = field(default=None, compare=False, repr=False)
    bare: BareInput | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check = Construction(self, f"workload {self.name!r}", WorkloadError)
        check.text("name")
        for name, kind in (("dims", Dim), ("tensors", Tensor), ("statements", Statement)):
            check.items(name, (kind,))
        check.done()

    def extents(self) -> dict[str, int]:
        """Return dim name -> extent, in order."""
        return {dim.name: dim.extent for dim in self.dims}

    def instances_of_boxes(self) -> int:
        """Return how many statement instances there are, whatever the constraints."""
        extents = self.extents()
        return sum(prod(extents[name] for name in each.dims) for each in self.statements)

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name (KeyError if there is none)."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def statement(self, name: str) -> Statement:
        """Return the statement of that name (KeyError if there is none)."""
        for statement in self.statements:
            if statement.name == name:
                return statement
        raise KeyError(name)


def is_box(statement: Statement) -> bool:
    """Return whether the statement's domain is the whole box of its extents."""
    return not statement.constraints


def accesses_of(statement: Statement, tensor: str) -> tuple[Access, ...]:
    """Return the statement's accesses to `tensor`, its target first."""
    return tuple(access for access in (statement.target, *statement.reads) if access.tensor == tensor)


def subexpressions(expression: Expression) -> Iterator[Expression]:
    """Yield an expression, then those that it is computed from, each before its own."""
    yield expression
    match expression:
        case Apply(_, arguments):
            for argument in arguments:
                yield from subexpressions(argument)
        case Convert(_, value):
            yield from subexpressions(value)
        case _:
            pass


def with_parts(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with each of those that it is computed from changed."""
    match expression:
        case Apply(operation, arguments):
            return Apply(operation, tuple(map(change, arguments)))
        case Convert(kind, value, written):
            return Convert(kind, change(value), written)
        case _:
            return expression


def evaluated_reads(expression: Expression) -> frozenset[int]:
    """Return the numbers of the reads that C evaluates whatever the data are: outside `?:`, `&&` and `||`, or on both
    sides."""
    match expression:
        case Read(access):
            return frozenset((access,))
        case Convert(_, value):
            return evaluated_reads(value)
        case Apply("?:", (condition, then, other)):
            return evaluated_reads(condition) | (evaluated_reads(then) & evaluated_reads(other))
        case Apply("&&" | "||", (left, _)):
            return evaluated_reads(left)
        case Apply(_, arguments):
            return frozenset[int]().union(*map(evaluated_reads, arguments))
        case _:
            return frozenset()


class PlaceRule(Enum):
    """How the copies of a tensor move in a place (docs/counting.md), by what the statements below it do: they only read
    it; they only accumulate into it, with one operator; anything else."""

    READ_ONLY = "read only"
    SUMS = "partial sums"
    PLAIN = "plain"


def rule_of(workload: Workload, tensor: str, below: Iterable[Statement] | None = None) -> PlaceRule:
    """Return the rule of a place by the statements below it (None: all of them). Where accumulations may not be
    reordered, a tensor that the program also reads or sets has no places of partial sums."""
    statements = workload.statements if below is None else tuple(below)
    operators = {each.operator for each in statements if each.target.tensor == tensor}
    if not operators:
        return PlaceRule.READ_ONLY
    is_read = any(access.tensor == tensor for each in statements for access in each.reads)
    if is_read or len(operators) > 1 or Operator.ASSIGN in operators:
        return PlaceRule.PLAIN
    return PlaceRule.SUMS if below is None or workload.associative else rule_of(workload, tensor)


def starting_operator(workload: Workload, tensor: str) -> Operator | None:
    """Return the operator of the statement that accumulates first into a tensor without initial values, of which the
    neutral element is what it starts from; None where something else is the first to touch it."""
    first = next(each for each in workload.statements if accesses_of(each, tensor))
    if workload.tensor(tensor).initial or first.target.tensor != tensor or first.operator is Operator.ASSIGN:
        return None
    return None if any(access.tensor == tensor for access in first.reads) else first.operator


def is_plain(workload: Workload, tensor: str) -> bool:
    """Return whether a tensor is written otherwise than by accumulating alone."""
    return rule_of(workload, tensor) is PlaceRule.PLAIN


def written_tensors(workload: Workload) -> frozenset[str]:
    """Return the names of the tensors that some statement writes."""
    return frozenset(statement.target.tensor for statement in workload.statements)
