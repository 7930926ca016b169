"""An operator of a model and what it is applied to, and the words of which loop nests are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from polymap.inputs import is_list
from polymap.ir import Apply, Expression, Number, Workload
from polymap.networks import Part
from polymap.workload import Step, einsum, sizes_within

Shape = tuple[int, ...]


class Why(StrEnum):
    """Why an operator has no loop nest."""

    READ = "which elements are read depends on values"
    WRITTEN = "which elements are written depends on values"
    ROUNDING = "which elements are read follows from rounding"
    PLACE = "the place of an element is no sum, maximum or minimum of elements"
    SIZE = "the size of the result depends on values"
    BEFORE = "each element of the result is made of the one before"
    BRANCH = "which branch runs depends on values"
    ALL_MULTIPLIED = "loop nests add, or take the maximum or minimum; this multiplies all elements"


class NotMapped(Exception):
    """Why an operator has no workload; the text is the reason that the network tells. macs: its multiply-accumulates,
    where they are known all the same."""

    def __init__(self, reason: str, macs: int | None = None) -> None:
        super().__init__(reason)
        self.macs = macs


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an input of a call comes from: the model's name of the value, its element type ("float32", None where
    workloads have no such type) and bits, and whether its axes are turned over on the way (a transposed matrix)."""

    value: str
    element_type: str | None = None
    bits: int = 8
    is_turned: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An operator and what it is applied to.

    inputs: shapes of the tensors among its arguments, () for scalars. output: the first output's shape. options:
    attributes by the names that the functions of this table read. element_type: of the output ("float32"), which all
    tensors of the workload have but those that `operands` tell of; bits: of all tensors, where the caller said so.
    operands: where the inputs come from, in their order; () where that is not known.
    """

    operator: str
    inputs: tuple[Shape, ...]
    output: Shape
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    element_type: str | None = None
    bits: int | None = None
    operands: tuple[Operand, ...] = ()

    def workload(
        self, text: str, sizes: Mapping[str, int], name: str, expression: Expression | None = None
    ) -> Workload:
        """Return the workload of an einsum, with another right side if `expression` is given."""
        width = {"types": self.element_type} if self.element_type and self.bits is None else {"bits": self.bits or 8}
        made = einsum(text, sizes=sizes, name=name, **width)  # type: ignore[arg-type]
        if expression is None:
            return made
        return replace(made, statements=(replace(made.statements[0], expression=expression),))

    def typed(self, workload: Workload) -> Workload:
        """Return a workload whose reads are the operands, in order, with the operands' types."""
        if self.bits is not None:
            return workload
        types: dict[str, Operand] = {}
        for read, operand in zip(workload.statements[0].reads, self.operands, strict=False):
            types.setdefault(read.tensor, operand)
        tensors = tuple(
            replace(each, element_type=types[each.name].element_type, bits=types[each.name].bits)
            if each.name in types
            else each
            for each in workload.tensors
        )
        return replace(workload, tensors=tensors)

    def integers(self, name: str, rank: int, default: int) -> Shape:
        """Return an option with one integer per axis; raises NotMapped for another number of them."""
        value = self.options.get(name)
        if isinstance(value, int):
            return (value,) * rank
        numbers = tuple(item for item in value if isinstance(item, int)) if is_list(value) else ()
        if not numbers:
            return (default,) * rank
        if len(numbers) not in (1, rank):
            raise NotMapped(f"{name} has {len(numbers)} numbers for {rank} axes")
        return numbers * rank if len(numbers) == 1 else numbers

    def steps(self, name: str, rank: int) -> Shape:
        """Return an option with one step of at least 1 per axis, 1 where it is not given; raises NotMapped."""
        numbers = self.integers(name, rank, 1)
        if min(numbers) < 1:
            raise NotMapped(f"{name} has a number below 1")
        return numbers


def sized(letters: Sequence[str], extents: Sequence[int]) -> dict[str, int]:
    """Return the sizes of dims."""
    return dict(zip(letters, extents, strict=True))


def integer(call: Call, name: str, default: int) -> int:
    """Return an option that is an integer, the default for anything else."""
    value = call.options.get(name, default)
    return value if isinstance(value, int) else default


def rank_of(call: Call, name: str) -> int:
    """Return how many numbers an option has."""
    value = call.options.get(name)
    return len(value) if is_list(value) else int(isinstance(value, int))


def rows_along(call: Call, axis: int) -> tuple[list[str], str]:
    """Return the dims of the first input, and those that are not reduced along `axis` as text."""
    letters = [f"i{place}" for place in range(len(call.inputs[0]))]
    if not -len(letters) <= axis < len(letters):
        raise NotMapped("the axis lies outside the tensor")
    return letters, ",".join(each for each in letters if each != letters[axis])


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which shapes broadcast; raises NotMapped where they do not."""
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    sizes = [sorted(set(column)) for column in columns]
    if any(len(each) > 2 or (len(each) == 2 and each[0] != 1) for each in sizes):
        raise NotMapped("the shapes of the operands do not broadcast")
    return tuple(each[-1] for each in sizes)


def indices(shape: Shape, output: Shape, letters: Sequence[str]) -> list[str]:
    """Return the dims of the output that index an operand: those along which it is not broadcast."""
    if len(shape) > len(output):
        raise NotMapped("an operand has more dims than the result")
    found: list[str] = []
    for size, whole, letter in zip(reversed(shape), reversed(output), reversed(letters), strict=False):
        if size not in (1, whole):
            raise NotMapped("the shapes of the operands do not broadcast")
        if size == whole and (size > 1 or len(shape) == len(output)):
            found.insert(0, letter)
    return found


def joined(letters: Sequence[str], *more: str) -> str:
    """Return dims as a subscript."""
    return ",".join((*letters, *more))


def divided(value: Expression, count: int) -> Expression:
    """Return a value divided by a whole number."""
    return Apply("/", (value, Number(f"{count}.0")))


def nests(call: Call, steps: Sequence[Step], sizes: Mapping[str, int]) -> tuple[Part, ...]:
    """Return the workloads of nests that read each other's results by their names."""
    return tuple(
        Part(call.workload(each.text, sizes_within(each.text, sizes), each.name, each.expression), each.is_product)
        for each in steps
    )
