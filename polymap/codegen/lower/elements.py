"""Elements of tensors in C: their types, the range of random values, and safe names.

Elements have the types that the workload gives them (short floats are held as float). Integers of `bits` bits are
stored in the smallest C type that holds them, and accumulated in 32 bits, or in 64 if 32 could overflow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polymap import ir
from polymap.codegen.lower.tuning import TUNING
from polymap.workload.c import INTEGERS, bits_of, limits, type_of, value_types

_FLOATS = {
    "float64": "double",
    "double": "double",
    "float32": "float",
    "float": "float",
    "float16": "float",
    "bfloat16": "float",
    "half": "float",
}
_KINDS = {"double": "float64", "float": "float32"}
SHORT_FLOATS = ("float16", "bfloat16", "half")  # held and computed as float
_UNSIGNED = re.compile(r"u(?:int)?(\d+)")
_LARGEST_SUM_BITS = 62


@dataclass(frozen=True, slots=True)
class ElementType:
    """The C type of a tensor's elements and the inclusive range of its random values.

    sum_type: the C type in which accumulations onto an element compute. wraps: integers wrap around, in any order.
    """

    c_type: str
    low: int
    high: int
    sum_type: str = ""
    wraps: bool = False

    @property
    def is_float(self) -> bool:
        return self.c_type in ("float", "double")

    @property
    def is_unsigned(self) -> bool:
        return self.c_type.startswith("u")

    @property
    def is_narrowed(self) -> bool:
        """Whether C computes sums in a wider type than that of the element."""
        return self.adder_type != self.c_type or self.c_type in ("int8_t", "uint8_t", "int16_t", "uint16_t")

    @property
    def adder_type(self) -> str:
        return self.sum_type or self.c_type


def has_values_at_start(workload: ir.Workload, tensor: ir.Tensor) -> bool:
    """Return whether a tensor's values before the start affect the result.

    An array of a C program keeps the elements that the program does not write.
    """
    if tensor.initial or tensor.name not in ir.written_tensors(workload):
        return True
    return workload.original is not None and tensor.name in workload.original.kept


def element_types(workload: ir.Workload) -> dict[str, ElementType]:
    """Return tensor name -> element type, in the workload's order."""
    trial_bits = _trial_bits(workload)
    types = {each.name: _type_of_tensor(workload, each, trial_bits) for each in workload.tensors}
    declared = dict(types)
    for name in sorted(ir.written_tensors(workload)):
        if not types[name].sum_type:
            types[name] = _type_of_sums(workload, name, declared)
    for each in workload.statements:
        kind = types[each.target.tensor]
        if each.operator is not ir.Operator.ASSIGN and kind.is_float:
            is_wide = registers(workload, types, each).result == "double"
            types[each.target.tensor] = replace(kind, sum_type="double") if is_wide else kind
    return types


def c_type_of(kind: str) -> str:
    """Return the C type of an element type of a C program."""
    return _FLOATS.get(kind, f"{kind}_t")


@dataclass(frozen=True, slots=True)
class Registers:
    """The C types of the values between a statement's holders and its compute unit. value: of the expression itself."""

    operands: tuple[str, ...]
    result: str
    value: str


def registers(workload: ir.Workload, types: dict[str, ElementType], statement: ir.Statement) -> Registers:
    """Return the types of a statement's operands and result."""
    return registers_of(statement, {name: kind.c_type for name, kind in types.items()})


def registers_of(statement: ir.Statement, c_types: Mapping[str, str]) -> Registers:
    """Return the types of a statement's operands and result; c_types: tensor -> the type in which C reads it."""
    operands, result = value_types(statement, {name: _kind_of(c_type) for name, c_type in c_types.items()})
    value = type_of(statement.expression, operands)
    return Registers(tuple(map(c_type_of, operands)), c_type_of(result), c_type_of(value))


def check_sums(workload: ir.Workload) -> None:
    """Raise WorkloadError (PM622) for fractions that an einsum adds up in an integer, which rounds every sum."""
    kinds = {each.name: _kind_of(_type_of_tensor(workload, each, 64).c_type) for each in workload.tensors}
    for each in workload.statements if workload.original is None else ():
        target = workload.tensor(each.target.tensor).element_type
        is_sum = each.operator in (ir.Operator.ADD, ir.Operator.MULTIPLY) and target in INTEGERS
        if is_sum and type_of(each.expression, [kinds[access.tensor] for access in each.reads]) in _FLOATS:
            what = f"tensor {each.target.tensor} of {target} accumulates fractions, which rounds every sum"
            hint = f'Give the workload types={{"{each.target.tensor}": "float32", ...}}.'
            raise ir.WorkloadError(ir.Mistake("PM622", what, hint))


def _kind_of(c_type: str) -> str:
    return _KINDS.get(c_type, c_type.removesuffix("_t"))


def _trial_bits(workload: ir.Workload) -> int:
    """Return how many bits random integers may have so that no 64-bit sum overflows."""
    bits = range(TUNING.trial_bits, 2, -1)
    return next((each for each in bits if max(_largest(workload, each).values()) < 2**_LARGEST_SUM_BITS), 2)


def _type_of_tensor(workload: ir.Workload, tensor: ir.Tensor, trial_bits: int) -> ElementType:
    kind = tensor.element_type
    if kind in _FLOATS:
        return ElementType(_FLOATS[kind], -8, 8, _FLOATS[kind])
    if kind in INTEGERS:
        low, high = limits(kind)
        most = 2**15 if bits_of(kind) <= 16 else 2**TUNING.trial_bits
        wraps = workload.original is not None or bits_of(kind) < 32
        return ElementType(f"{kind}_t", max(low, -most), min(high, most), f"{kind}_t", wraps)
    unsigned = bool(kind and _UNSIGNED.fullmatch(kind))
    bits = min(tensor.bits, trial_bits)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    stored = next((size for size in (8, 16, 32) if tensor.bits <= size), 64)
    return ElementType(f"{'u' if unsigned else ''}int{stored}_t", low, high)


def _type_of_sums(workload: ir.Workload, name: str, declared: dict[str, ElementType]) -> ElementType:
    kind = declared[name]
    statements = [statement for statement in workload.statements if statement.target.tensor == name]
    values = (type_of(s.expression, [_kind_of(declared[a.tensor].c_type) for a in s.reads]) for s in statements)
    if any(each in _FLOATS for each in values):
        return ElementType("double", -8, 8)
    if any(statement.operator is ir.Operator.MULTIPLY for statement in workload.statements):
        return ElementType("int64_t", -1, 1)
    bound = _largest(workload)[name]
    return ElementType("int32_t" if bound < 2**31 else "int64_t", kind.low, kind.high)


def _largest(workload: ir.Workload, most_bits: int | None = None) -> dict[str, int]:
    """Return a bound on the magnitudes of each tensor's values and sums, statement by statement: of what none has
    written before, the range of its bits (at most so many), or zeros."""
    found: dict[str, int] = {}
    for tensor in workload.tensors:
        bits = min(tensor.bits, most_bits or tensor.bits)
        most = 2**bits if _UNSIGNED.fullmatch(tensor.element_type or "") else 2 ** (bits - 1)
        found[tensor.name] = most if has_values_at_start(workload, tensor) else 0
    for statement in workload.statements:
        found[statement.target.tensor] += _bound(workload, statement, found)
    return found


def _bound(workload: ir.Workload, statement: ir.Statement, largest: Mapping[str, int]) -> int:
    """Return a bound on the sum of all terms of one element. largest: of the values that the statement reads."""
    extents = workload.extents()
    own = {dim for index in statement.target.index for dim in index.dims}
    terms = math.prod(extents[dim] for dim in statement.dims if dim not in own)
    if any(len(index.dims) > 1 for index in statement.target.index):  # any order: a product
        terms *= math.prod(extents[dim] for dim in own)
    return terms * _magnitude(statement.expression, [largest[each.tensor] for each in statement.reads])


def _magnitude(expression: ir.Expression, reads: Sequence[int]) -> int:
    """Return a bound on the magnitude of a value of integers. reads: of what each access reads."""
    match expression:
        case ir.Read(access):
            return reads[access]
        case ir.Number(text):
            return math.ceil(abs(float(text.rstrip("uUlLfF"))))
        case ir.Convert(_, value):
            return _magnitude(value, reads)
        case ir.Apply(operation, arguments):
            parts = [_magnitude(each, reads) for each in arguments]
            if operation == "*":
                return math.prod(parts)
            return sum(parts) if operation in ("+", "-", "|", "^") else max(parts)
        case _:
            return 1


def c_name(prefix: str, user_name: str) -> str:
    """Return `prefix_username`, cut and made of ASCII letters, digits and underscores: unique when the prefix is.

    The prefix keeps it apart from C's keywords and library names.
    """
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', user_name)[: TUNING.name_length]}"
