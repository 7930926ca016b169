"""Compiled functions of C programs beside the texts themselves, compiled apart: every element, bit for bit."""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.codegen.interpret import Data, UndefinedValueError
from polymap.codegen.lower.elements import element_types
from polymap.codegen.native import ArrayForm, NativeFunction, load_region
from polymap.codegen.programs import program_function
from polymap.codegen.reference import compute_workload
from polymap.codegen.run import random_data
from polymap.codegen.source import Core, choose
from polymap.codegen.source.contiguous import contiguous_order
from polymap.ir import PolymapError, Workload
from polymap.schedules import Schedule, dependence_violations
from polymap.transform import isl_schedule
from polymap.workload.c import from_c
from tests.c_programs import EXTENT, random_program
from tests.c_to_c import PLAIN, Parameter, arguments, compiled, parameters_of
from tests.c_to_c_programs import Case, values_of
from tests.native_cases import SANITIZED
from tests.programs import random_program_case, random_source

Arrays = dict[str, NDArray[Any]]


def results(function: NativeFunction, data: Data, threads: int) -> Arrays:
    """Return the arrays that a function writes, called on these values (zeros where there are none)."""
    given = [_held(form, data) for form in function.arrays]
    found = load_region(function, threads).call(tuple(given), None)
    written = [form.tensor for form in function.arrays if form.is_written]
    return dict(zip(written, found, strict=True))


def _held(form: ArrayForm, data: Data) -> NDArray[Any]:
    """Return the values of a tensor (or zeros) in the array that holds it, which may begin earlier."""
    whole = np.zeros(form.shape, form.kind)
    if form.tensor in data:
        _end(whole, np.shape(data[form.tensor]))[...] = data[form.tensor]
    return whole


def _end(whole: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the last elements of an array along every axis."""
    return whole[(..., *(slice(size - kept, None) for size, kept in zip(whole.shape, shape, strict=True)))]


CORE = Core(256, 16)
_MAIN = """
#include <stdio.h>
static void *fresh(size_t size)
{{
    void *block = malloc(size);
    if (!block || fread(block, 1, size, stdin) != size)
        exit(3);
    return block;
}}
int main(void)
{{
{body}
    return 0;
}}
"""


def sanitized_results(function: NativeFunction, data: Data, where: Path) -> Arrays:
    """Return what `results` returns, of a program whose arrays have exactly their sizes, under gcc's sanitizers."""
    forms = function.arrays
    names = [f"p{number}" for number in range(len(forms))]
    sizes = [f"{form.elements} * sizeof({form.c_type})" for form in forms]
    pairs = list(zip(names, forms, sizes, strict=True))
    body = [f"    {form.c_type} *{name} = fresh({size});" for name, form, size in pairs]
    body.append(f"    {function.name}({', '.join(names)});")
    body += [f"    fwrite({name}, 1, {size}, stdout);" for name, form, size in pairs if form.is_written]
    body += [f"    free({name});" for name in names]
    source, binary = where / f"{function.name}.c", where / function.name
    source.write_text(function.text + _MAIN.format(body="\n".join(body)))
    command = ["gcc", *SANITIZED, "-ffp-contract=off", "-fwrapv", "-fopenmp", "-Wall", "-Werror", "-o", str(binary)]
    subprocess.run([*command, str(source), "-lm"], check=True)
    given = [_held(form, data) for form in forms]
    done = subprocess.run([str(binary)], input=b"".join(a.tobytes() for a in given), capture_output=True, check=False)
    assert done.returncode == 0, (function.text, done.stderr.decode()[:2000])
    found: Arrays = {}
    at = 0
    for form in forms:
        if form.is_written:
            found[form.tensor] = np.frombuffer(done.stdout, form.kind, form.elements, at).reshape(form.shape)
            at += found[form.tensor].nbytes
    return found


def expected_arrays(
    text: str, listed: list[Parameter], sizes: dict[str, int], seed: int, where: Path
) -> tuple[Arrays, Arrays]:
    """Return random values of a function's parameters, and its arrays after its own text ran on them, compiled without
    optimization across statements."""
    code = getattr(ctypes.CDLL(compiled(text, where / f"original{seed}.so", "gcc", PLAIN)), "f")  # noqa: B009
    code.restype = None
    values = arguments(listed, sizes, seed, whole=False)
    given = {each.name: np.asarray(values[each.name], each.dtype) for each in listed}
    after = {each.name: np.array(given[each.name], order="C") for each in listed if each.shape}
    passed: list[object] = []
    for each in listed:
        if each.shape:
            passed.append(ctypes.c_void_p(after[each.name].ctypes.data))
        else:
            passed.append(np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))(values[each.name]))
    code(*passed)
    return given, after


def chosen_function(workload: Workload, name: str, threads: int) -> NativeFunction:
    """Return a program in the order that is chosen for it on a processor with vectors of 256 bits."""
    chosen = choose(workload, CORE, threads=threads)
    return program_function(
        chosen.workload, chosen.schedule, name=name, threads=threads, contractions=chosen.contractions
    )


def sanitized_case(workload: Workload, name: str, threads: int, where: Path) -> None:
    """Check that a program touches no memory but its arrays, and that its results are those without sanitizers."""
    data = random_data(workload, element_types(workload), 5)
    function = chosen_function(workload, name, threads)
    wrong = differing(results(function, data, threads), sanitized_results(function, data, where))
    assert not wrong, (wrong, function.text)


def of_text(text: str, workload: Workload, data: Data, where: Path) -> Arrays:
    """Return the arrays of a text of one-letter names after its own function ran, compiled without optimization."""
    case = Case(0, (text,), data, {each.name: each.origin for each in workload.tensors})
    apart = re.sub(r"(?<![\w.])([A-F]|f)\b(?!\.)", r"\1__0", text)
    apart = re.sub(r"\bstatic (?=[^\n]*;)", "", apart)
    place = where / f"original{len(list(where.iterdir()))}.so"  # a path is loaded once
    library = ctypes.CDLL(compiled(apart, place, "gcc", PLAIN))
    found: Arrays = {}
    by_value = {each.name for each in parameters_of(text, "f") if not each.shape}  # their last values are lost
    for name, raw in values_of(case, 0, library).items():
        if name not in by_value and any(each.name == name for each in workload.tensors):
            tensor = workload.tensor(name)
            whole = np.frombuffer(raw, tensor.element_type).reshape((EXTENT,) * len(tensor.shape))
            slices = zip(tensor.origin, tensor.shape, strict=True)
            found[name] = whole[tuple(slice(low, low + size) for low, size in slices)]
    return found


def differing(found: Arrays, wanted: Arrays) -> list[str]:
    """Return the arrays that are not equal bit for bit (NaN equals NaN)."""
    wrong: list[str] = []
    for name in found.keys() & wanted.keys():
        array = _end(found[name], wanted[name].shape)
        same = (array == wanted[name]) | ((array != array) & (wanted[name] != wanted[name]))
        if not same.all():
            wrong.append(f"{name}: {int((~same).sum())} of {same.size}")
    return wrong


def _threads(seed: int) -> int:
    """Return 1 or 3 threads: 1 for clang, whose OpenMP need not be installed."""
    return 1 if seed % 3 or os.environ.get("CC") == "clang" else 3


def random_text_case(seed: int, where: Path) -> str:
    """Check a random program of every type in the order of its text; return what became of it."""
    text = random_program(seed)
    try:
        workload = from_c(text)
    except PolymapError as error:
        return f"refused {str(error)[:5]}"
    data = random_data(workload, element_types(workload), seed)
    try:
        compute_workload(workload, data)
    except UndefinedValueError:
        return "undefined"
    threads = _threads(seed)
    function = program_function(workload, Schedule.original(workload), name=f"f{seed}", threads=threads)
    wrong = differing(results(function, data, threads), of_text(text, workload, data, where))
    assert not wrong, (seed, wrong, text, function.text)
    return "equal"


def random_order_case(seed: int, where: Path) -> str:
    """Check a random program in isl's order, with contiguous loops, or in a legal tree; return what became of it."""
    rng = random.Random(seed)
    text = random_source(rng).replace("[12]", f"[{EXTENT}]")
    try:
        workload = from_c(text)
    except PolymapError as error:
        return f"refused {str(error)[:5]}"
    data = random_data(workload, element_types(workload), seed)
    schedule, kind = None, ("isl", "contiguous", "tree", "tree")[seed % 4]
    try:
        if kind == "isl":
            schedule = isl_schedule(workload, strict=True)
        elif kind == "contiguous":
            schedule = contiguous_order(workload)
            kind += "" if str(schedule) == str(Schedule.original(workload).normal()) else ", changed"
    except PolymapError as error:
        return f"isl refuses {str(error)[:5]}"
    for _ in range(6 if schedule is None else 0):
        mapping = random_program_case(rng, workload).mapping
        if not dependence_violations(workload, mapping, strict=True):
            schedule = Schedule.of_tree(workload, mapping)
            break
    if schedule is None:
        return "no legal tree"
    threads = _threads(seed)
    function = program_function(workload, schedule, name=f"g{seed}", threads=threads)
    wrong = differing(results(function, data, threads), of_text(text, workload, data, where))
    assert not wrong, (seed, wrong, text, str(schedule), function.text)
    return f"equal, {kind}"


def tally(first: int, count: int, where: Path) -> Counter[str]:
    """Return what became of the programs of some seeds."""
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        found[random_text_case(seed, where)] += 1
        found[random_order_case(seed, where)] += 1
    return found
