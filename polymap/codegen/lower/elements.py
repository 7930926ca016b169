"""Elements of tensors in C: their types, the range of random values, and safe names.

Elements of a C program have the types of its text. In other workloads integers of `bits` bits are stored in the
smallest C type that holds them, and accumulated in 32 bits, or in 64 if 32 could overflow; float types are kept.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from polymap.codegen.lower.tuning import TUNING
from polymap.ir import Operator, Statement, Tensor, Workload, written_tensors
from polymap.workload.c import bits_of, limits, type_of

_FLOATS = {
    "float64": "double",
    "double": "double",
    "float32": "float",
    "float": "float",
    "float16": "float",
    "bfloat16": "float",
    "half": "float",
}
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
    def adder_type(self) -> str:
        return self.sum_type or self.c_type


def has_values_at_start(workload: Workload, tensor: Tensor) -> bool:
    """Return whether a tensor's values before the start affect the result.

    An array of a C program keeps the elements that the program does not write.
    """
    if tensor.initial or tensor.name not in written_tensors(workload):
        return True
    return workload.original is not None and tensor.name in workload.original.kept


def element_types(workload: Workload) -> dict[str, ElementType]:
    """Return tensor name -> element type, in the workload's order."""
    if workload.original is not None:
        return {tensor.name: _of_c(workload, tensor) for tensor in workload.tensors}
    written = written_tensors(workload)
    trial_bits = _trial_bits(workload)
    declared = {tensor.name: _type_of_tensor(tensor, trial_bits) for tensor in workload.tensors}
    if _is_general(workload) and any(kind.is_float for kind in declared.values()):
        # A program that mixes types computes in the widest float; integers in it are whole-numbered floats.
        declared = {name: ElementType("double", kind.low, kind.high) for name, kind in declared.items()}
    return {name: _type_of_sums(workload, name, declared) if name in written else declared[name] for name in declared}


def _of_c(workload: Workload, tensor: Tensor) -> ElementType:
    kind = tensor.element_type
    assert kind is not None, "every variable of a C program has a type"
    c_type = c_type_of(kind)
    if kind in ("float32", "float64"):
        adds = (s for s in workload.statements if s.target.tensor == tensor.name and s.operator is not Operator.ASSIGN)
        wide = any(value_type(workload, statement) == "float64" for statement in adds)
        return ElementType(c_type, -8, 8, "double" if wide else c_type)
    low, high = limits(kind)
    most = 2**15 if bits_of(kind) <= 16 else 2**TUNING.trial_bits
    return ElementType(c_type, max(low, -most), min(high, most), c_type, wraps=True)


def c_type_of(kind: str) -> str:
    """Return the C type of an element type of a C program."""
    return _FLOATS.get(kind, f"{kind}_t")


def value_type(workload: Workload, statement: Statement) -> str:
    """Return the element type of the value of a C program's statement, before the conversion to its target."""
    kinds = [workload.tensor(access.tensor).element_type or "" for access in statement.reads]
    return type_of(statement.expression, kinds)


@dataclass(frozen=True, slots=True)
class Registers:
    """The C types of the values between a statement's holders and its compute unit."""

    operands: tuple[str, ...]
    result: str


def registers(workload: Workload, types: dict[str, ElementType], statement: Statement) -> Registers:
    """Return the types of a statement's operands and result: of C programs by C's rules, else the target's."""
    target = types[statement.target.tensor].c_type
    if workload.original is None:
        return Registers((target,) * len(statement.reads), target)
    operands = tuple(types[access.tensor].c_type for access in statement.reads)
    return Registers(operands, c_type_of(value_type(workload, statement)))


def _trial_bits(workload: Workload) -> int:
    """Return how many bits random integers may have so that no 64-bit sum overflows."""
    bits = TUNING.trial_bits
    for statement in workload.statements:
        additions = math.prod(workload.extents()[dim] for dim in statement.dims)
        bits = min(bits, (_LARGEST_SUM_BITS - additions.bit_length()) // max(1, len(statement.reads)))
    return max(2, bits)


def _type_of_tensor(tensor: Tensor, trial_bits: int) -> ElementType:
    kind = tensor.element_type
    if kind in _FLOATS:
        return ElementType(_FLOATS[kind], -8, 8)
    unsigned = bool(kind and _UNSIGNED.fullmatch(kind))
    bits = min(tensor.bits, trial_bits)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    stored = next((size for size in (8, 16, 32) if tensor.bits <= size), 64)
    return ElementType(f"{'u' if unsigned else ''}int{stored}_t", low, high)


def _is_general(workload: Workload) -> bool:
    return any(statement.operator is Operator.ASSIGN for statement in workload.statements)


def _type_of_sums(workload: Workload, name: str, declared: dict[str, ElementType]) -> ElementType:
    kind = declared[name]
    if kind.is_float:
        return kind
    statements = [statement for statement in workload.statements if statement.target.tensor == name]
    if any(declared[access.tensor].is_float for statement in statements for access in statement.reads):
        return ElementType("double", -8, 8)
    if any(statement.operator is Operator.MULTIPLY for statement in workload.statements):
        return ElementType("int64_t", -1, 1)
    bound = _full_range(workload, name) + sum(_bound(workload, statement) for statement in statements)
    return ElementType("int32_t" if bound < 2**31 else "int64_t", kind.low, kind.high)


def _bound(workload: Workload, statement: Statement) -> int:
    """Return a bound on the sum of all terms of one element, from the full ranges of the types."""
    extents = workload.extents()
    product = 1
    for access in statement.reads:
        product *= _full_range(workload, access.tensor)
    additions = 1
    own = {dim for index in statement.target.index for dim in index.dims}
    for dim in statement.dims:
        additions *= 1 if dim in own else extents[dim]
    overlaps = 1
    if any(len(index.dims) > 1 for index in statement.target.index):
        for dim in own:
            overlaps *= extents[dim]
    return product * additions * overlaps


def _full_range(workload: Workload, name: str) -> int:
    tensor = workload.tensor(name)
    return 2**tensor.bits if _UNSIGNED.fullmatch(tensor.element_type or "") else 2 ** (tensor.bits - 1)


def c_name(prefix: str, user_name: str) -> str:
    """Return `prefix_username`, cut and made of ASCII letters, digits and underscores: unique when the prefix is.

    The prefix keeps it apart from C's keywords and library names.
    """
    return f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', user_name)[: TUNING.name_length]}"
