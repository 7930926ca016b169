"""C programs as workloads: a `#pragma scop` region, or one function body, of for, if and assignments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from polymap.inputs import LIMITS, answers_in_words, expected_kind, expected_seconds, expected_text, is_name, shown
from polymap.ir import Mistake, Workload, WorkloadError, did_you_mean
from polymap.poly import raised
from polymap.workload.c.assign import Variables
from polymap.workload.c.nest import Nest
from polymap.workload.c.original import Known, original_of
from polymap.workload.c.parse import Syntax, declaration_texts, parse
from polymap.workload.c.source import Source, prepare
from polymap.workload.c.tensors import Site, tensors_of, with_initial
from polymap.workload.c.tree import (
    Assign,
    Complaints,
    Declare,
    For,
    Item,
    Program,
    all_statements,
    array_of,
    inside,
    with_result,
)
from polymap.workload.c.words import KEYWORDS

_OTHERS = re.compile(r"\b(\w+)\s*\(|\b(\w+_t)\b|\btypedef\b[^;]*?(\w+)\s*;")  # calls and types


@answers_in_words
def from_c(
    source: str,
    sizes: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    file: str = "C source",
    associative: bool = True,
    time_limit_s: float | None = None,
) -> Workload:
    """Return the loop nest that a C text describes.

    sizes: values for the names of sizes; they replace `#define`s, parameters and constants of these names. name: of
    the workload (default: the function's, else "c"). file: what messages call the text. time_limit_s: seconds of CPU
    time for each question about its sets, if more than usual (BudgetError where they do not suffice).

    Loops become dims 0 <= i < extent with the user's own values in origin and step; bounds that are not constant become
    constraints over the smallest box. Variables declared inside the function are temporary; of the others, those that
    are read or accumulated into before the program sets them are initial.

    Raises InputError for text that is no C, and WorkloadError, with every mistake and its line, for C that is no static
    loop nest: subscripts, bounds and conditions must be quasi-affine, loops bounded, subscripts inside their arrays.
    """
    if time_limit_s is not None:
        expected_seconds(time_limit_s)
    if name is not None:
        expected_text(name, "the workload's name")
    expected_kind(associative, bool, "associative")
    with raised(time_limit_s):
        return _read(source, sizes or {}, name, file, associative=associative)


def _read(source: str, sizes: Mapping[str, int], name: str | None, file: str, *, associative: bool) -> Workload:
    source = expected_text(source, "the C text")
    file = expected_text(file, "the name of the text")
    file = file if file.isprintable() else ascii(file)[1:-1]  # a name must not command the terminal
    complaints = Complaints(file)
    known, prepared, program, syntax = _parsed(source, sizes, complaints)
    workload, nest = workload_of_program(
        with_result(program), known, prepared.words, complaints, name or program.name or "c", associative=associative
    )
    known = Known(nest.variables.by_tensor, nest.constants, nest.constant_types, nest.counter_types)
    original = replace(
        original_of(workload, syntax, known),
        source=source,
        sizes=tuple(sizes.items()),
        declared=tuple(nest.variables.by_tensor),
    )
    return replace(workload, original=original)


def workload_of_program(
    program: Program,
    sizes: Mapping[str, int],
    words: frozenset[str],
    complaints: Complaints,
    name: str,
    *,
    associative: bool,
) -> tuple[Workload, Nest]:
    """Return the loop nest of a program (without its text), and what was read of it.

    words: identifiers that new names avoid. Raises WorkloadError with every mistake, the complaints so far included.
    """
    nest = Nest(program, sizes, complaints, Variables(words))
    nest.run()
    nest = _checked_nest(nest)
    used = {each for statement in nest.statements for each in statement.dims}
    dims = tuple(each for each in nest.dims if each.name in used)
    site = Site({each.name: each for each in dims}, nest.lines)
    tensors = tensors_of(nest.statements, nest.variables.by_tensor, site, complaints)
    _stop_if_wrong(complaints)
    workload = Workload(name, dims, tensors, tuple(nest.statements), associative)
    workload = with_initial(workload, nest.variables.by_tensor, site, complaints)
    _stop_if_wrong(complaints)
    return workload, nest


def parametric_nest(program: CProgram, sizes: Mapping[str, int], file: str) -> Nest:
    """Return the statements of a program for all values of the sizes that are not given.

    Raises WorkloadError with every mistake.
    """
    strides: dict[str, tuple[str, ...]] = {}
    while True:
        complaints = Complaints(file if file.isprintable() else ascii(file)[1:-1])
        variables = Variables(program.prepared.words, strides=dict(strides))
        nest = Nest(program.program, sizes, complaints, variables, parametric=True)
        nest.run()
        if variables.strides == strides:
            return _checked_nest(nest)
        strides = variables.strides  # of subscripts such as i * m + j


def _checked_nest(nest: Nest) -> Nest:
    """Return a nest that was read. Raises WorkloadError with every mistake, and where nothing runs."""
    _stop_if_wrong(nest.complaints)
    if not nest.statements:
        what = "no statement is ever executed" if nest.found else "there is no assignment to read"
        raise WorkloadError(
            Mistake("PM271", f"{what} ({nest.complaints.file})", "Expected a nest of for loops around assignments.")
        )
    return nest


@dataclass(frozen=True, slots=True)
class CProgram:
    """A C text as typed data, before any size is known.

    declarations: (name, line) -> declaration of each variable of the region, as it is spelled in the text. text: what
    was read, comments blanked, every character at its place in the given text (with `\\n` as the end of lines).
    """

    program: Program
    prepared: Source
    declarations: Mapping[tuple[str, int], str]
    text: str


def read_program(source: str, sizes: Mapping[str, int], file: str) -> CProgram:
    """Return the region of a C text as typed data; names in `sizes` are not expanded where they are macros.

    Raises InputError for text that is no C, and WorkloadError, with every mistake and its line, for C that is not read.
    """
    source = expected_text(source, "the C text")
    complaints = Complaints(file if file.isprintable() else ascii(file)[1:-1])
    _, prepared, program, syntax = _parsed(source, sizes, complaints, is_kept=True)
    _stop_if_wrong(complaints)
    return CProgram(program, prepared, declaration_texts(syntax), "\n".join(prepared.lines))


def _parsed(
    source: str, sizes: Mapping[str, int], complaints: Complaints, *, is_kept: bool = False
) -> tuple[dict[str, int], Source, Program, Syntax]:
    """Return the sizes, the prepared text, its program and its syntax; raises wrong sizes with the unused ones."""
    wrong: tuple[Mistake, ...] = ()
    try:
        known = checked_sizes(sizes)
    except WorkloadError as error:
        known, wrong = {name: 1 for name in sizes if is_name(name)}, error.mistakes
    prepared = prepare(source, known, complaints.file, is_kept=is_kept)
    program, syntax = parse(prepared, complaints)
    _check_use(known, program, prepared, complaints)
    _check_conditions(program, prepared, complaints)
    for name, value in syntax.constants.items():
        if known.get(name, value) != value:
            what = f"the size of {shown(name)} is {known[name]}, and an enum of {complaints.file} has it as {value}"
            complaints.mistakes.append(Mistake("PM264", what, "Leave it out, or write the enum as #define."))
    if wrong:
        raise WorkloadError((*wrong, *complaints.mistakes))
    return known, prepared, program, syntax


def _stop_if_wrong(complaints: Complaints) -> None:
    if complaints.mistakes:
        raise WorkloadError(sorted(complaints.mistakes, key=lambda mistake: _line(mistake.what)))


def _line(text: str) -> int:
    found = re.search(r":([0-9]+)\)$", text)
    return int(found.group(1)) if found else 0


def checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the values of sizes by name; raises WorkloadError for what is none."""
    mistakes: list[Mistake] = []
    if not isinstance(sizes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers in Python may give
        raise WorkloadError(Mistake("PM264", f"the sizes are {shown(sizes)}", "Expected a table from name to integer."))
    for name, size in sizes.items():
        if not is_name(name):
            mistakes.append(Mistake("PM264", f"{shown(name)} is no name of a size", "Expected a C identifier."))
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= LIMITS.integer:  # pyright: ignore[reportUnnecessaryIsInstance]
            mistakes.append(
                Mistake("PM264", f"the size of {shown(name)} is {shown(size)}", "Expected an integer >= 1.")
            )
    if mistakes:
        raise WorkloadError(mistakes)
    return dict(sizes)


def _check_conditions(program: Program, prepared: Source, complaints: Complaints) -> None:
    """Report conditions that were decided by the value of a variable: the preprocessor knows none."""
    variables = {each.name for each in program.outside}
    for each in prepared.assumed:
        if each.value is not None and each.name in variables:
            line = min(group.line for group in each.groups)
            what = f"a condition names {shown(each.name)}, which is given as a size, and a variable of the program"
            complaints.add("PM152", line, what, "For the preprocessor it is 0: leave the condition out.")


def _check_use(sizes: Mapping[str, int], program: Program, prepared: Source, complaints: Complaints) -> None:
    """Report sizes that the program does not mention."""
    words = {*prepared.words, *(word.removeprefix("_PB_") for word in prepared.words)}
    words |= {word.lower() for word in words if f"_PB_{word}" in prepared.words}
    for name in sizes:
        if name not in words:
            others = {each for pair in _OTHERS.findall("\n".join(prepared.lines)) for each in pair}
            hint = did_you_mean(name, sorted(set(prepared.words) - KEYWORDS - _no_sizes(program) - others))
            complaints.mistakes.append(
                Mistake("PM264", f"the size {shown(name)} is used nowhere in {complaints.file}", hint)
            )


def _no_sizes(program: Program) -> set[str]:
    """Return names that no size has: of the function, of arrays, of loop variables, and of what is assigned."""
    found = {program.name, *(each.name for each in program.outside if each.shape)}
    for each in all_statements(program.body):
        match each:
            case For():
                found.add(each.variable)
            case Assign():
                found.add(array_of(each.target))
                found |= {one.array for one in inside(each.value) if isinstance(one, Item)}
            case Declare():
                found |= {each.name} if each.shape else set()
            case _:
                pass
    return found
