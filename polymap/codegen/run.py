"""Compiles and runs generated C, compares its result with the reference and its counters with the expected traffic."""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from polymap.codegen.compile import FLAGS, Limits, compile_c, execute
from polymap.codegen.forms import Form, form_of, lower
from polymap.codegen.interpret import Data, UndefinedValueError, Values
from polymap.codegen.lower import (
    INCLUDES,
    MAIN,
    TRANSFER,
    ElementType,
    element_types,
    emit,
    has_values_at_start,
    operations_of,
)
from polymap.codegen.reference import TOTAL, Reference, reference, sum_magnitudes
from polymap.costmodel import Traffic
from polymap.inputs import answers_in_words, as_integer, shown
from polymap.ir import (
    Apply,
    Architecture,
    Branch,
    CompilerError,
    Convert,
    Expression,
    Mapping,
    MappingNode,
    Mistake,
    Number,
    Operator,
    OptionError,
    Shown,
    Spatial,
    Tensor,
    Workload,
    written_tensors,
)
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import check_mapping, dependence_violations

_DEFAULT_LIMITS = Limits()
_ROUNDED = (Operator.ADD, Operator.MULTIPLY)
# Signed integers wrap, fractions are rounded after every operation, functions are the library's: as the text says.
ORIGINAL_FLAGS = ("-O1", "-std=c99", "-fwrapv", "-ffp-contract=off", "-fno-builtin", "-fsigned-char")
_DTYPES = {"float": "float32", "double": "float64"}
_NATIVE_FLAGS = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fwrapv", "-fopenmp", "-Wall", "-Wextra")
_WIDE_FLOATS = (-8.0, 8.0)


@dataclass(frozen=True, slots=True, repr=False)
class CRun(Shown):
    """The run of a compiled mapping.

    matches_reference: every element of every written tensor equals the reference (floats: within rounding).
    counts_match: its own counters equal the expected traffic, row by row (None where the program does not count).
    counted: the rows, outermost level first.
    """

    matches_reference: bool
    counts_match: bool | None
    counted: tuple[Traffic, ...]
    steps: int
    instances: int
    seconds: float


@answers_in_words
def generate_c(
    workload: WorkloadLike, arch: ArchitectureLike, mapping: MappingLike, form: Form | str = "faithful"
) -> str:
    """Return the C99 text of a mapping as a program. form: "faithful" (the machine step by step, with counters) or
    "native" (the same nest as a program to use).

    Raises MappingError if the mapping is no program, BudgetError if the program would be too large.
    """
    workload, arch = question_of(workload, arch, partial(mapping_of, mapping))
    mapping = mapping_of(mapping)
    check_mapping(workload, arch, mapping)
    form = form_of(form)
    return emit(lower(workload, arch, mapping, form))


@answers_in_words
def run_c(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: MappingLike,
    form: Form | str = "faithful",
    *,
    seed: int = 0,
    expected: tuple[Traffic, ...] | None = None,
    limits: Limits = _DEFAULT_LIMITS,
) -> CRun:
    """Return the run of the compiled mapping on random tensors, compared with the reference and the expected counts.

    expected: the rows that its counters must equal; those of the cost model if not given.
    Raises CompilerError if there is no compiler, or the program fails or exceeds the limits.
    """
    workload, arch = question_of(workload, arch, partial(mapping_of, mapping))
    mapping = mapping_of(mapping)
    form = form_of(form)
    source = generate_c(workload, arch, mapping, form)
    if (as_integer(seed) or 0) < 0 or as_integer(seed) is None:
        raise OptionError(Mistake("PM506", f"seed is {shown(seed)}", "Use an integer of at least 0."))
    ordered = keeps_order(workload, mapping)
    ran = run_source(workload, arch, source, _flags(source, form), seed=seed, limits=limits, in_order=ordered)
    if form is Form.NATIVE:
        return ran
    if expected is None:
        from polymap.costmodel import evaluate

        expected = evaluate(workload, arch, mapping).traffic
    return CRun(ran.matches_reference, ran.counted == expected, ran.counted, ran.steps, ran.instances, ran.seconds)


def keeps_order(workload: Workload, mapping: Mapping) -> bool:
    """Return whether every accumulation of floats certainly happens in the order of the program."""
    types = element_types(workload)
    accumulated = (each.target.tensor for each in workload.statements if each.operator in _ROUNDED)
    if not any(types[name].is_float for name in accumulated):
        return True
    return not _is_spread(mapping.nodes) and not dependence_violations(workload, mapping, strict=True)


def _is_spread(nodes: tuple[MappingNode, ...]) -> bool:
    """Return whether instances share the work, so that their partial sums are added in another order."""
    branches = (child for node in nodes if isinstance(node, Branch) for child in node.children)
    return any(isinstance(node, Spatial) for node in nodes) or any(map(_is_spread, branches))


def _flags(source: str, form: Form) -> tuple[str, ...]:
    if form is Form.FAITHFUL:
        return FLAGS
    return _NATIVE_FLAGS if "#pragma omp" in source else tuple(flag for flag in _NATIVE_FLAGS if flag != "-fopenmp")


def run_source(
    workload: Workload,
    arch: Architecture,
    source: str,
    flags: tuple[str, ...],
    *,
    seed: int = 0,
    limits: Limits = _DEFAULT_LIMITS,
    in_order: bool = True,
) -> CRun:
    """Return the run of a C text of the workload on random tensors; counts_match is None.

    in_order: floats are added in the order of the program, so that results of a C program must agree bit for bit.
    """
    if workload.original is not None:
        flags = (*flags, *ORIGINAL_FLAGS[1:])
    with tempfile.TemporaryDirectory(prefix="polymap-") as directory:  # this user's alone
        program = compile_c(source, Path(directory), flags)
        return run_program(workload, arch, program, seed=seed, limits=limits, in_order=in_order)


def run_program(
    workload: Workload,
    arch: Architecture,
    program: Path,
    *,
    seed: int = 0,
    limits: Limits = _DEFAULT_LIMITS,
    in_order: bool = True,
) -> CRun:
    """Return the run of a compiled program on random tensors, with files in its directory; counts_match is None."""
    types = element_types(workload)
    data, expected = _trial(workload, types, seed, in_order=in_order)
    with program.with_name("input").open("wb") as file:
        for tensor in workload.tensors:
            if tensor.name in data:
                file.write(data[tensor.name].astype(_dtype(types[tensor.name])).tobytes())
    printed, seconds = execute(program, ("input", "output"), limits)
    outputs = _read_outputs(workload, types, program.with_name("output"))
    counted, steps, instances = _counter_rows(workload, arch, printed)
    if expected is not None:
        expected = replace(expected, is_exact=expected.is_exact and in_order)
        matches = all(_are_equal(outputs[name], name, expected, types[name]) for name in outputs)
    else:
        wanted = run_original(workload, program.parent, limits)
        tolerances = {} if in_order else _tolerances(workload, types, data, wanted)
        matches = all(agree(outputs[name], wanted[name], tolerances.get(name)) for name in outputs)
    return CRun(matches, None, counted, steps, instances, seconds)


def _trial(
    workload: Workload, types: dict[str, ElementType], seed: int, *, in_order: bool
) -> tuple[Data, Reference | None]:
    """Return random values and what is computed of them (None: the program's own text says); of a wide range where
    the program has integers and is defined there."""
    if workload.original is not None:
        return random_data(workload, types, seed, in_order=in_order), None
    operations = {name for statement in workload.statements for name in operations_of(statement.expression)}
    has_integers = any(kind.sum_type and not kind.is_float for kind in types.values())
    if has_integers and operations <= TOTAL:
        data = random_data(workload, types, seed, in_order=in_order, wide=True)
        with suppress(UndefinedValueError):
            return data, reference(workload, data)
    data = random_data(workload, types, seed, in_order=in_order)
    try:
        return data, reference(workload, data)
    except UndefinedValueError as error:
        what = f"workload {workload.name!r} has no values on trial data: {error}"
        raise CompilerError(
            Mistake("PM604", what, "Nothing can be compared with it; generate_c() prints it.")
        ) from error


def run_original(workload: Workload, directory: Path, limits: Limits = _DEFAULT_LIMITS) -> Data:
    """Return the result of a C program's own text, compiled separately, on the values in the directory's file `input`.

    Raises CompilerError if it fails on them.
    """
    inside = directory / "original"
    inside.mkdir(mode=0o700)
    program = compile_c(original_source(workload), inside, ORIGINAL_FLAGS)
    try:
        execute(program, ("../input", "output"), limits)
    except CompilerError as error:
        what = f"the C program itself, without any mapping, failed on trial values: {error.mistakes[0].what}"
        raise CompilerError(
            Mistake("PM604", what, "It may divide by zero: nothing can be compared with it.")
        ) from error
    return _read_outputs(workload, element_types(workload), inside / "output")


def original_source(workload: Workload) -> str:
    """Return a C program's own text with a main that reads and writes its arrays as generated programs do."""
    original = workload.original
    assert original is not None
    parts = {"reads": "", "writes": "", "fills": "", "starts": "", "report": ""}
    written = written_tensors(workload)
    for name, place in original.places:
        tensor = workload.tensor(name)
        count = math.prod(tensor.shape)
        if has_values_at_start(workload, tensor):
            parts["reads"] += f"        transfer(input, {place}, sizeof *({place}), {count}, 0);\n"
        if name in written:
            parts["writes"] += f"        transfer(output, {place}, sizeof *({place}), {count}, 1);\n"
    run = "static void run(void)\n{\n    original();\n}\n"
    return INCLUDES + original.text + run + TRANSFER + MAIN.format(**parts)


def _tolerances(workload: Workload, types: dict[str, ElementType], data: Data, wanted: Data) -> Data:
    """Return tensor name -> by how much its floats may differ if sums are taken in another order.

    One accumulation of products: the bound on sums in any order (Higham 2002, section 3.1). Any other program: a
    hundred roundings of its largest value, which is a rule of thumb.
    """
    bound = sum_magnitudes(workload, data)
    tolerances: Data = {}
    for name, values in wanted.items():
        if types[name].is_float:
            dtype = np.float32 if types[name].c_type == "float" else np.float64
            largest = np.max(np.abs(values[np.isfinite(values)]), initial=1.0)
            additions = math.prod(each.extent for each in workload.dims)
            tolerances[name] = np.full(values.shape, 100 * rounding_bound(additions, dtype) * largest)
            if bound is not None:
                tolerances[name] = 2 * rounding_bound(bound[1], dtype) * bound[0][name]
    return tolerances


def agree(found: Values, wanted: Values, tolerance: Values | None) -> bool:
    """Return whether all elements are equal (NaN equals NaN) or within the tolerance."""
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if tolerance is not None:
        same |= np.abs(found - wanted) <= tolerance
    return bool(np.all(same))


def random_data(
    workload: Workload, types: dict[str, ElementType], seed: int, *, in_order: bool = True, wide: bool = False
) -> Data:
    """Return random values for every tensor with values at the start: int64, or float64 that the C type holds exactly.

    in_order: otherwise floats have few digits, so that most sums of products are exact in every order. wide: of both
    signs whatever the program computes, and fractions beyond one; otherwise nothing is divided by zero.
    """
    generator = np.random.default_rng(seed)
    ends = _WIDE_FLOATS if wide else _trial_range(workload)
    data: Data = {}
    for tensor in workload.tensors:
        if not has_values_at_start(workload, tensor):
            continue
        kind = types[tensor.name]
        if kind.is_float:
            drawn = generator.uniform(*ends, tensor.shape)
            drawn = drawn if in_order else np.round(drawn * 16) / 16
            data[tensor.name] = (drawn.astype(np.float32) if kind.c_type == "float" else drawn).astype(np.float64)
        else:
            low = -kind.high if kind.wraps and kind.c_type in ("uint32_t", "uint64_t") else kind.low  # they wrap
            low = 1 if ends[0] > 0 else low
            whole = generator.integers(low, max(low, kind.high), tensor.shape, endpoint=True)
            data[tensor.name] = np.where(whole == 0, 1, whole) if wide and kind.high > 0 else whole
    return data


def _trial_range(workload: Workload) -> tuple[float, float]:
    """Return the range of random values: positive and away from zero if the program divides by data or calls
    functions."""
    expressions = [statement.expression for statement in workload.statements]
    if any(map(_divides_by_data, expressions)):
        return 0.5, 1.5
    operations = {name for each in expressions for name in operations_of(each)}
    return (-1.0, 1.0) if operations <= TOTAL else (0.5, 1.5)


def _divides_by_data(expression: Expression) -> bool:
    match expression:
        case Convert(_, value):
            return _divides_by_data(value)
        case Apply("/" | "%", (left, Number(text) | Convert(_, Number(text)))) if float(text.rstrip("uUlLfF")) != 0:
            return _divides_by_data(left)
        case Apply(operation, arguments):
            return operation in ("/", "%") or any(map(_divides_by_data, arguments))
        case _:
            return False


def _dtype(kind: ElementType) -> str:
    return _DTYPES[kind.c_type] if kind.is_float else kind.c_type.removesuffix("_t")


def _read_outputs(workload: Workload, types: dict[str, ElementType], path: Path) -> Data:
    outputs: Data = {}
    with path.open("rb") as file:
        for tensor in workload.tensors:
            if tensor.name not in written_tensors(workload) or tensor.temporary:
                continue
            outputs[tensor.name] = _read_one(tensor, types[tensor.name], file.read(_bytes(tensor, types)))
    return outputs


def _bytes(tensor: Tensor, types: dict[str, ElementType]) -> int:
    return math.prod(tensor.shape) * np.dtype(_dtype(types[tensor.name])).itemsize


def _read_one(tensor: Tensor, kind: ElementType, raw: bytes) -> Values:
    found = np.frombuffer(raw, dtype=_dtype(kind))
    if found.size != math.prod(tensor.shape):
        raise CompilerError(Mistake("PM604", f"the compiled program wrote only part of {tensor.name}"))
    if kind.sum_type and not kind.is_float:
        return found.reshape(tensor.shape)
    return found.astype(np.float64 if kind.is_float else np.int64).reshape(tensor.shape)


def _are_equal(found: Values, name: str, expected: Reference, kind: ElementType) -> bool:
    """Return whether all elements agree: integers bit for bit, floats within n u / (1 - n u) of what was summed."""
    wanted = expected.values[name]
    if not kind.is_float or expected.is_exact:
        return agree(found, wanted, None)
    bound = 2 * rounding_bound(expected.additions, np.float32 if kind.c_type == "float" else np.float64)
    size = expected.magnitudes[name]
    if not expected.is_sum:  # errors pass through statements and functions: magnitudes are a rule of thumb
        size = 100 * np.fmax(np.fmax(size, np.abs(wanted)), 1.0)
    close = np.abs(found - wanted) <= bound * size
    return bool(np.all(close | (np.isnan(found) & np.isnan(wanted)) | (found == wanted)))


def rounding_bound(additions: int, dtype: type[np.float32 | np.float64]) -> float:
    """Return the relative error of a sum of so many products in any order (Higham 2002, section 3.1).

    If the worst case is void (n u >= 1/2), the probable error: 8 sqrt(n) u.
    """
    unit = float(np.finfo(dtype).eps) / 2
    worst = (additions + 2) * unit
    return worst / (1 - worst) if worst < 0.5 else 8 * math.sqrt(additions) * unit


def _counter_rows(workload: Workload, arch: Architecture, printed: str) -> tuple[tuple[Traffic, ...], int, int]:
    """Return the printed counters as rows, in order, and the numbers of steps and instances."""
    lines = printed.splitlines()
    rows: dict[tuple[int, int], tuple[int, ...]] = {}
    for line in lines[1:-1]:
        level, tensor, *counts = line.split()
        rows[_number(level), _number(tensor)] = tuple(int(count) for count in counts)
    if not lines:
        return (), 0, 0
    _, steps, _, instances = lines[-1].split()
    counted = tuple(
        Traffic(arch.levels[level].name, workload.tensors[tensor].name, *rows[level, tensor])
        for level, tensor in sorted(rows)
    )
    return counted, int(steps), int(instances)


def _number(label: str) -> int:
    return int(label[1:].split("_", 1)[0])
