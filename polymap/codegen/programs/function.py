"""The C function of a program: one translation unit without globals that works on its caller's arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from polymap.codegen import lower
from polymap.codegen.native import BFLOAT16, ELEMENT_BYTES, NativeFunction, signature
from polymap.codegen.programs.body import fill_loop, instance, update_of
from polymap.codegen.programs.flags import program_flags
from polymap.codegen.programs.region import region_of, times_of
from polymap.codegen.programs.roundings import MINUS_ZEROS
from polymap.codegen.programs.storage import Storage, storage_of
from polymap.codegen.programs.subscripts import hidden_steps
from polymap.codegen.programs.vector_hazards import vector_hazards
from polymap.codegen.source import (
    TUNING,
    Conflict,
    Contraction,
    Names,
    Parallel,
    Region,
    SourceStatement,
    check_instances,
    conflicts_of,
    in_place_loops,
    isl_loops,
    loops_of,
    strip_loops,
    with_tiles,
    writes_interleaved,
)
from polymap.ir import Affine, BudgetError, Mistake, Workload, WorkloadError, starting_operator, written_tensors
from polymap.poly import budget
from polymap.schedules import Schedule
from polymap.workload import leaves_unwritten, unset_read

_APART = """\
#if defined(__clang__) && !defined(NO_LOAD_PRE) /* it may hand loads on to the next iteration: slow in vectors */
#define restrict
#elif defined(__cplusplus)
#define restrict __restrict__
#endif
"""
_MAYBE_ALIKE = "#define restrict /* gcc would load again what a register holds, across lines of the cache */\n"
_FLOOR = """static inline long floor_div(const long a, const long b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}
"""
_MACROS = """#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
"""
_NAMES = Names("c", "LEAST", "MOST", "floor_div", apart="polymap_apart", single="polymap_single")


def program_function(
    workload: Workload,
    schedule: Schedule,
    *,
    name: str,
    threads: int = 1,
    fma: bool = False,
    remark: str = "",
    contractions: Sequence[Contraction] = (),
    strips: Sequence[str] = (),
    extremes: Sequence[lower.Extreme] = (),
) -> NativeFunction:
    """Return the function that computes a program in the order of a legal schedule.

    Its parameters are, for a region of C, all arrays that exist outside it, in order of declaration; for other programs
    the arrays that are only read, in order of first read, then those written. Tensors that are `initial` start with the
    arrays' values. Temporary tensors are local arrays.

    contractions: statements whose tiles are computed in vector registers; their times contain the tile numbers. strips:
    those whose rows run side by side. extremes: those whose maxima are found in parts.
    threads: cores among which outermost loops with independent iterations are divided (OpenMP). fma: a product and a
    sum may be rounded once. remark: lines of the comment at its head.

    Raises WorkloadError where element types are missing (PM621) or sums would be bfloat16 (PM622); BudgetError where
    isl takes too long, or where temporaries exceed memory or indices exceed 32 bits (PM601); SolverError (PM511) where
    isl's loops lose instances.
    """
    lower.check_indices(workload)
    storage = storage_of(workload, schedule.times)
    lower.check_memory(sum(storage.bytes_of(tensor) for tensor in storage.local))
    _refuse_bfloat16_sums(workload, storage)
    region, times = _region(workload, storage, schedule, strips, fma=fma)
    with budget(TUNING.loop_operations, seconds=TUNING.loop_seconds, what="the loops of a program"):
        parallel = replace(_marked_loops(schedule, strips, threads), extremes=tuple(extremes))
        conflicts = _conflicts(region, parallel)
        region, times, tiles = _with_tiles(workload, storage, region, times, contractions)
        node = isl_loops(region, times, _NAMES)
        loops = loops_of(region, times, conflicts, parallel, _NAMES, node)
    check_instances(node, region, times, _NAMES.counter, TUNING.checked_operations)
    body = (*_initial_values(workload, storage), *loops)
    whole = "\n".join([*_variables(workload, storage), *lower.lines_of(body, 1), *_release(storage)])
    whole = "\n".join([*_minus_zeros(whole), *hidden_steps(whole), whole])
    several = lower.NO_INTERCHANGE if lower.sums_of_several_loops(workload, schedule.times) else ""
    apart = _MAYBE_ALIKE if writes_interleaved(schedule) else _APART
    head = (
        lower.comment_of(remark) + "#include <limits.h>\n" + lower.LIBRARIES + apart + several + _helpers(whole) + tiles
    )
    text = f"{head}\n{signature(name, storage.callers)}\n{{\n{whole}\n}}\n"
    flags = program_flags(workload, contractions, fma=fma, in_parts=bool(extremes))
    return NativeFunction(name, text, storage.callers, None, 0, "", flags)


def _marked_loops(schedule: Schedule, strips: Sequence[str], threads: int) -> Parallel:
    """Return which loops carry pragmas. Tiles of triangles take unequal time. Where threads meet too often, one is
    faster."""
    clauses, dealt = (f" schedule({kind}) num_threads({threads})" for kind in ("static", "dynamic"))
    marks = strip_loops(schedule, strips, _NAMES.single) + in_place_loops(schedule, _NAMES.apart)
    return Parallel(threads > 1, marks, clauses, dealt, TUNING.parallel_instances)


def _conflicts(region: Region, parallel: Parallel) -> tuple[Conflict, ...]:
    """Return the conflicts between statements of the loops whose iterations must, or may, be independent."""
    inside = {name for each in parallel.demanded if each.independent for name in each.statements}
    asked = tuple(each for each in region.statements if parallel.outermost or each.name in inside)
    return conflicts_of(replace(region, statements=asked)) if asked else ()


def _with_tiles(
    workload: Workload,
    storage: Storage,
    region: Region,
    times: dict[str, isl.Map],
    contractions: Sequence[Contraction],
) -> tuple[Region, dict[str, isl.Map], str]:
    """Return the region with tiles of contractions, in names that no array has."""
    updates = {each.statement: update_of(workload, storage, each) for each in contractions}
    sizes = (each.lanes * ELEMENT_BYTES[updates[each.statement].kind] for each in contractions)
    prefix = "tile_"
    while any(form.parameter.startswith(prefix) for form in storage.forms.values()):
        prefix += "_"
    return with_tiles(region, times, contractions, updates, _NAMES, prefix, max(sizes, default=0))


def _region(
    workload: Workload, storage: Storage, schedule: Schedule, strips: Sequence[str], *, fma: bool
) -> tuple[Region, dict[str, isl.Map]]:
    """Return the program's statements, with calls of macros where they must not be vectorized, and their times.

    strips: statements whose innermost loops run over rows side by side, never in vectors.
    """
    with budget(TUNING.loop_operations, seconds=TUNING.loop_seconds, what="the times of a program"):
        region, times = region_of(workload, storage), times_of(schedule)
    kept = {
        "IN_TURN": lower.sums_in_turn(workload, schedule.times),
        "NO_VECTORS": vector_hazards(workload, storage, region, times, schedule.times),
    }
    statements: list[SourceStatement] = []
    for each, own in zip(region.statements, workload.statements, strict=True):
        calls = [macro for macro, names in kept.items() if own.name in names]
        inner = [dim for time in schedule.times[own.name] for dim in time.dims if time == Affine(((1, dim),))]
        body = instance(workload, storage, own, calls, inner[-1] if inner and own.name not in strips else "", fma=fma)
        statements.append(replace(each, body=body))
    return replace(region, statements=tuple(statements)), times


def _refuse_bfloat16_sums(workload: Workload, storage: Storage) -> None:
    for each in workload.statements:
        if storage.forms[each.target.tensor].kind == "bfloat16":
            what = f"statement {each.name} writes {each.target.tensor} as bfloat16, which rounds every result"
            hint = f'Give the workload types={{"{each.target.tensor}": "float32", ...}}.'
            raise WorkloadError(Mistake("PM622", what, hint))


def _initial_values(workload: Workload, storage: Storage) -> lower.Block:
    """Return the loops that initialize arrays; none for C programs, whose callers pass the values."""
    if workload.original is not None:
        return ()
    found: list[lower.Stmt] = []
    written = written_tensors(workload)
    for name in storage.forms:
        tensor = workload.tensor(name)
        if name not in written or tensor.initial:
            continue
        start = starting_operator(workload, name)
        if start is not None:
            found += fill_loop(storage, name, start)
        elif _is_read_unset(workload, name) or (not tensor.temporary and leaves_unwritten(workload, tensor)):
            found += fill_loop(storage, name, None)
    return tuple(found)


def _is_read_unset(workload: Workload, tensor: str) -> bool:
    """Return whether some element is read before it is written; True if that takes too long to decide."""
    try:
        return unset_read(workload, tensor) is not None
    except BudgetError:
        return True


def _variables(workload: Workload, storage: Storage) -> list[str]:
    """Return the declarations of the temporary tensors: on the stack while they are small, the others in one malloc
    block.

    One block, so that its pages stay mapped from call to call.
    """
    places = storage.places
    lines: list[str] = []
    size = _block_bytes(storage)
    if size:
        lines.append(f"    char *const block = (char *)aligned_alloc({lower.LINE_BYTES}, {size});")
        lines.append("    if (!block)\n        abort(); /* no memory for the temporary arrays */")
    for tensor in storage.local:
        form, place = storage.forms[tensor], places[tensor]
        if place is not None:
            head = f"    {form.c_type} *const restrict {form.parameter}"
            lines.append(f"{head} = ({form.c_type} *)(block + {place});")
        else:
            named = f"{form.c_type} {form.parameter}"
            lines.append(f"    {lower.ALIGNED_ARRAY} {named}[{form.elements}];" if form.shape else f"    {named};")
    read = {access.tensor for each in workload.statements for access in each.reads}
    lines += [f"    (void){storage.forms[tensor].parameter};" for tensor in storage.local if tensor not in read]
    return lines


def _minus_zeros(body: str) -> list[str]:
    """Return the declarations of -0.0 that the text uses, as values that compilers do not know."""
    lines: list[str] = []
    for kind, name in MINUS_ZEROS.items():
        if re.search(rf"\b{name}\b", body):
            c_type = "float" if kind == "float32" else "double"
            lines.append(f"    const volatile {c_type} {name}_held = -0.0{'f' if c_type == 'float' else ''};")
            lines.append(
                f"    const {c_type} {name} = {name}_held; /* keeps gcc from not rounding a product before it */"
            )
    return lines


def _block_bytes(storage: Storage) -> int:
    sizes = [storage.bytes_of(tensor) for tensor, place in storage.places.items() if place is not None]
    return sum(size + -size % lower.LINE_BYTES for size in sizes)


def _release(storage: Storage) -> list[str]:
    return ["    free(block);"] if _block_bytes(storage) else []


def _helpers(body: str) -> str:
    """Return the macros and functions that the text uses."""
    texts = {
        "MIN(": lower.EXTREMES,
        "MAX(": lower.EXTREMES,
        "FMIN(": lower.FLOAT_EXTREMES,
        "FMAX(": lower.FLOAT_EXTREMES,
        **{name: f"{text}\n" for name, text in _NAMES.definitions() if name in (_NAMES.apart, _NAMES.single)},
        "LEAST(": _MACROS,
        "MOST(": _MACROS,
        "floor_div(": _FLOOR,
        "aligned_alloc(": lower.ALIGNED_ALLOC,
        "IN_TURN(": lower.IN_TURN,
        "NO_VECTORS(": lower.NO_VECTORS,
        "bfloat16_value(": BFLOAT16 + "\n",
    }
    return "".join(dict.fromkeys(text for call, text in texts.items() if call in body))
