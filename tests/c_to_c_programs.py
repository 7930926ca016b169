"""Random programs of `c_programs` through `transform_c`, against their own text: every element, bit for bit."""

from __future__ import annotations

import ctypes
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap import from_c, transform_c
from polymap.codegen.interpret import Data, UndefinedValueError
from polymap.codegen.lower.elements import element_types
from polymap.codegen.reference import compute_workload
from polymap.codegen.run import random_data
from polymap.ir import PolymapError, ScheduleError
from tests.c_programs import EXTENT, random_program
from tests.c_to_c import CTYPES, Parameter, compiled, compilers, flags_of, parameters_of

BATCH = 25
VARIANTS: tuple[dict[str, Any], ...] = (
    {"order": "original", "tile": 1},
    {"order": "auto", "tile": 3, "parallel": True},
    {"order": "original", "tile": 2, "parallel": True},
    {},
)
_GLOBAL = re.compile(r"^static (.+?) ([A-Z])((?:\[\d+\])*);$", re.MULTILINE)


@dataclass(slots=True)
class Outcome:
    """What was found: programs refused by code, undefined, compared, and texts of what differs."""

    refused: Counter[str] = field(default_factory=Counter[str])
    undefined: int = 0
    compared: int = 0
    wrong: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Case:
    """A program of a seed with the texts that were made of it, and the values of its variables."""

    seed: int
    texts: tuple[str, ...]
    data: Data
    origins: dict[str, tuple[int, ...]]


def case_of(seed: int, outcome: Outcome) -> Case | None:
    """Return a program with its transformed texts, None for one that is refused or undefined."""
    text = random_program(seed)
    try:
        workload = from_c(text)
        texts = tuple(transform_c(text, **options) for options in VARIANTS)
    except ScheduleError as error:
        outcome.wrong.append(f"{seed}: {error}")
        return None
    except PolymapError as error:
        outcome.refused[str(error)[:5]] += 1
        return None
    data = random_data(workload, element_types(workload), seed)
    try:
        compute_workload(workload, data)
    except UndefinedValueError:
        outcome.undefined += 1
        return None
    return Case(seed, (text, *texts), data, {each.name: each.origin for each in workload.tensors})


def values_of(case: Case, number: int, library: ctypes.CDLL) -> dict[str, bytes]:
    """Return every array after a call of the program's function in a library of many."""
    text = case.texts[0]
    listed = parameters_of(text, "f")
    outside = [
        Parameter(name, CTYPES[kind], tuple(re.findall(r"\d+", sizes))) for kind, name, sizes in _GLOBAL.findall(text)
    ]
    arrays = {each.name: _filled(each, case) for each in (*listed, *outside)}
    for each in outside:
        where = (ctypes.c_char * arrays[each.name].nbytes).in_dll(library, f"{each.name}__{number}")
        ctypes.memmove(where, arrays[each.name].ctypes.data, arrays[each.name].nbytes)
    passed = [
        ctypes.c_void_p(arrays[each.name].ctypes.data)
        if each.shape
        else np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))(arrays[each.name].item())
        for each in listed
    ]
    code = getattr(library, f"f__{number}")
    code.restype = None
    code(*passed)
    for each in outside:
        where = (ctypes.c_char * arrays[each.name].nbytes).in_dll(library, f"{each.name}__{number}")
        ctypes.memmove(arrays[each.name].ctypes.data, where, arrays[each.name].nbytes)
    return {name: array.tobytes() for name, array in arrays.items()}


def _filled(each: Parameter, case: Case) -> NDArray[np.generic]:
    shape = tuple(EXTENT for _ in each.shape)
    array = np.zeros(shape, each.dtype)
    if each.name in case.data:
        given = case.data[each.name]
        origin = case.origins[each.name]
        where = tuple(slice(low, low + size) for low, size in zip(origin, given.shape, strict=True))
        array[where] = given
    return array


def run_batch(cases: list[Case], compiler: str, level: str, outcome: Outcome) -> None:
    """Compile each variant of the programs into one library, and compare the arrays."""
    with tempfile.TemporaryDirectory() as directory:
        found: list[list[dict[str, bytes]]] = []
        for variant in range(len(VARIANTS) + 1):
            parts = [
                re.sub(
                    r"\bstatic (?=[^\n]*;)",
                    "",
                    re.sub(r"(?<![\w.])([A-F]|f)\b(?!\.)", rf"\1__{number}", case.texts[variant]),
                )
                for number, case in enumerate(cases)
            ]
            flags = (*(each for each in flags_of(compiler, sanitized=False) if each != "-O1"), level)
            path = compiled("\n".join(parts), Path(directory, f"variant{variant}.so"), compiler, flags)
            library = ctypes.CDLL(path)
            found.append([values_of(case, number, library) for number, case in enumerate(cases)])
    for number, case in enumerate(cases):
        outcome.compared += 1
        for variant in range(len(VARIANTS)):
            before, after = found[0][number], found[variant + 1][number]
            outcome.wrong += [
                f"{case.seed}: {name} of {VARIANTS[variant]}" for name in before if before[name] != after[name]
            ]


def run(first: int, count: int) -> Outcome:
    """Return what the programs of some seeds show."""
    outcome = Outcome()
    for turn, start in enumerate(range(first, first + count, BATCH)):
        made = [case_of(seed, outcome) for seed in range(start, min(start + BATCH, first + count))]
        cases = [case for case in made if case is not None]
        if cases:
            compiler = compilers()[turn % len(compilers())]
            run_batch(cases, compiler, "-O2" if turn % 4 == 3 else "-O1", outcome)
    return outcome


def program_tally(first: int, count: int) -> int:
    """Print what the programs of some seeds show; return the exit code."""
    outcome = run(first, count)
    sys.stdout.write(
        f"{count} programs x {len(VARIANTS)} orders: {outcome.compared} compared equal or wrong, "
        f"{len(outcome.wrong)} wrong, {dict(outcome.refused)} refused, {outcome.undefined} undefined\n"
    )
    sys.stdout.write("".join(f"{each}\n" for each in outcome.wrong))
    return 1 if outcome.wrong else 0
