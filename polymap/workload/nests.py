"""A Python function of nested loops over `range` as a workload: the text is read, the function never runs."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from polymap.inputs import shown
from polymap.ir import Mistake, OptionError, Workload, WorkloadError, did_you_mean
from polymap.workload.c import Complaints, CStatement, Declare, Name, Program, checked_sizes, workload_of_program
from polymap.workload.einsums import checked_associative
from polymap.workload.element_types import types_by_name
from polymap.workload.python_code import PythonCode, Use, names_in


def nest(
    *,
    types: str | Mapping[str, str] | None = None,
    temporary: Iterable[str] = (),
    name: str | None = None,
    associative: bool = True,
    sizes: Mapping[str, int] | None = None,
    **values: int,
) -> Callable[[Callable[..., Any]], Workload]:
    """Return a decorator that turns a function of nested loops into its workload.

        @pm.nest(N=64, types="float32")
        def product(A, B, C):
            for i in range(N):
                for j in range(N):
                    for k in range(N):
                        C[i, j] += A[i, k] * B[k, j]

    Loops run over `range`; bounds, conditions and subscripts are quasi-affine in loop variables and sizes (keywords, or
    entries of `sizes`); values are sums, products, quotients, comparisons, `max`, `min` and functions of `math`. The
    parameters are arrays and scalars that outlive the function; other names that it assigns to are temporary scalars,
    and so are the parameters listed in `temporary`. types: element types, for all data or
    a table (default: "float32" where the function divides, calls functions or names fractions, else "int32").

    Raises WorkloadError with every mistake, each with file and line, and OptionError where Python knows no source.
    """

    def read(function: Callable[..., Any]) -> Workload:
        text, first_line, file = _source(function)
        known = {**(sizes or {}), **values}
        return nest_of(text, known, types, temporary, name, file, first_line, associative=associative)

    return read


def nest_of(
    text: str,
    sizes: Mapping[str, int],
    types: str | Mapping[str, str] | None = None,
    temporary: Iterable[str] = (),
    name: str | None = None,
    file: str = "Python source",
    first_line: int = 1,
    *,
    associative: bool = True,
) -> Workload:
    """Return the workload of the one function that a Python text defines (nest)."""
    known = checked_sizes(sizes)
    function = _function(text, file, first_line)
    complaints = Complaints(file)
    body = PythonCode(complaints, first_line).body(function.body)
    line = function.lineno + first_line - 1
    parameters = [each.arg for each in function.args.args]
    _check_use(function, known, complaints, line)
    checked_associative(associative, complaints.mistakes)
    local, ranks = _locals(body, {*parameters, *known}), _ranks(body)
    data = [each for each in (*parameters, *local) if each in ranks and each not in known]
    kinds = types_by_name(types, data, complaints.mistakes)
    dead = {*local, *_listed(temporary, data, complaints.mistakes)}
    declared = [Declare(each, kinds.get(each), (None,) * ranks[each], None, line) for each in data]
    outside = tuple(each for each in declared if each.name not in dead)
    inside = tuple(each for each in declared if each.name in dead)
    read = Program(name or function.name, outside, (*inside, *body), wrapped=False)
    words = frozenset(node.id for node in ast.walk(function) if isinstance(node, ast.Name))
    workload, nest = workload_of_program(read, known, words, complaints, name or function.name, associative=associative)
    _check_origins(workload, nest.lines, complaints)
    return workload


def _source(function: Callable[..., Any]) -> tuple[str, int, str]:
    """Return a function's text, its first line and its file's name."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "Python source"
    except (OSError, TypeError):
        what = "the source of the function is not known to Python"
        raise OptionError([Mistake("PM154", what, "Write it in a file or a notebook cell.")]) from None
    return textwrap.dedent("".join(lines)), first, Path(file).name


def _function(text: str, file: str, first_line: int) -> ast.FunctionDef:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        line = (error.lineno or 1) + first_line - 1
        raise WorkloadError(
            Mistake("PM150", f"this is no Python that can be read: {error.msg} ({file}:{line})")
        ) from None
    match tree.body:
        case [ast.FunctionDef() as found]:
            return found
        case _:
            raise WorkloadError(Mistake("PM271", f"{file} does not hold one function", "Decorate a plain `def`."))


def _ranks(body: tuple[CStatement, ...]) -> dict[str, int]:
    """Return how many subscripts each array has where it occurs first, 0 for other names."""
    ranks: dict[str, int] = {}
    for place, _ in names_in(body):
        name, rank = (place.name, 0) if isinstance(place, Name) else (place.array, len(place.index))
        ranks.setdefault(name, rank)
    return ranks


def _locals(body: tuple[CStatement, ...], given: set[str]) -> list[str]:
    """Return the scalars that a function sets: no parameters, sizes or loop variables."""
    used = [(place.name, use) for place, use in names_in(body) if isinstance(place, Name)]
    counters = {name for name, use in used if use is Use.COUNTER}
    targets = dict.fromkeys(name for name, use in used if use is Use.TARGET)
    return [name for name in targets if name not in given and name not in counters]


def _check_use(function: ast.FunctionDef, sizes: Mapping[str, int], complaints: Complaints, line: int) -> None:
    words = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for each in sizes:
        if each not in words:
            hint = did_you_mean(each, sorted(words))
            complaints.add("PM264", line, f"the size {shown(each)} is used nowhere in '{function.name}'", hint)


def _listed(names: Iterable[str], data: list[str], mistakes: list[Mistake]) -> tuple[str, ...]:
    found = tuple(names)
    for each in found:
        if each not in data:
            what = f"temporary names {shown(each)}, which is no tensor of the workload"
            mistakes.append(Mistake("PM213", what, did_you_mean(each, data)))
    return found


def _check_origins(workload: Workload, lines: Mapping[str, int], complaints: Complaints) -> None:
    """Refuse negative subscripts: Python counts them from the end."""
    for tensor in workload.tensors:
        for axis, origin in enumerate(tensor.origin):
            if origin < 0:
                at = next(
                    lines[s.name]
                    for s in workload.statements
                    if tensor.name in {a.tensor for a in (s.target, *s.reads)}
                )
                what = f"axis {axis} of '{tensor.name}' is subscripted from {origin} on"
                complaints.add("PM270", at, what, "Python counts negative subscripts from the end: shift the loop.")
    if complaints.mistakes:
        raise WorkloadError(complaints.mistakes)
