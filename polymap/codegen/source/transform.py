"""C to C: the loops of one function in another order, after a legality proof; the rest of the text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from polymap.codegen.lower import Block, expression, lines_of
from polymap.codegen.source.assumed import conditions_of
from polymap.codegen.source.choices import ORDERS
from polymap.codegen.source.chooser import EXPANDED, ChosenOrder, choose, turn_points
from polymap.codegen.source.contiguous import cost_of, vector_loops, written_out_sums
from polymap.codegen.source.contraction import Contraction, Core
from polymap.codegen.source.dependences import Conflict, Times, conflicts_of, instances, violated_conflicts
from polymap.codegen.source.destinations import with_arrays, with_destinations
from polymap.codegen.source.executed import check_instances
from polymap.codegen.source.given import (
    demanded_loops,
    given_times,
    in_place_loops,
    strip_loops,
    unroll_mark,
    workload_of_text,
)
from polymap.codegen.source.loops import (
    LoopConflictError,
    LoopPragma,
    Names,
    Parallel,
    assumption_of,
    isl_loops,
    loops_of,
)
from polymap.codegen.source.order_tuning import TUNING as ORDER_TUNING
from polymap.codegen.source.orders import isl_order, own_order
from polymap.codegen.source.placement import RegionText, region_text
from polymap.codegen.source.region import Region, c_expression, region_of
from polymap.codegen.source.register_tiles import Update, text_updates
from polymap.codegen.source.tile_statements import sizes_of_tiles, with_tiles
from polymap.codegen.source.told import (
    TransformedC,
    TransformReport,
    WrittenText,
    marked_loops,
    new_nests,
    sizes_of,
    told_dependences,
    told_statements,
)
from polymap.codegen.source.tuning import TUNING
from polymap.inputs import answers_in_words, expected_kind, expected_text, shown
from polymap.ir import BudgetError, Mistake, OptionError, ScheduleError, SolverError, Workload, WorkloadError
from polymap.poly import AstNode, Map, budget, formula_texts
from polymap.schedules import Schedule
from polymap.workload.c import SPELLING, CProgram, bits_of, from_c, known_name, read_program

Order = Callable[[], tuple[Times, str]]  # the times of a region, and what they are called
Tiles = Callable[
    ..., tuple[Region, Times, str]
]  # of a region and its times: with tiles, and the text of their functions

# Of no machine in particular: vectors are the target's, register tiles fit 32 registers, or 16 with half of the rows.
# Compilers leave short loops of a text as they are, which `compile` prints written out: contractions are tiled from the
# least size on that pays.
_CORE = Core(512, 32, 2**20, ORDER_TUNING.least_tiled, ORDER_TUNING.least_tiled**3)


@answers_in_words
def transform_c(
    source: str,
    sizes: Mapping[str, int] | None = None,
    *,
    order: str = "auto",
    schedule: Schedule | None = None,
    tile: int | None = None,
    parallel: bool = False,
    reorder_sums: bool = False,
    file: str = "C source",
) -> TransformedC:
    """Return the C text with the loops of its region in another order; the function's signature and the rest stay.

    The text is a string; its `report` tells what was changed, proven and expected, and is what an interpreter shows.

    sizes: values of parameters. The new loops then run where the parameters have these values, and the original ones
    elsewhere. Without sizes the new loops are valid for all values.
    order: "isl" (chosen by isl's scheduler), "original", or "auto": what `compile` would choose for one thread, and the
    text as it is where nothing pays; with `parallel`, `reorder_sums` or a tile size isl's if it is found in time.
    schedule: the user's own, for the workload of `from_c(source, sizes)`; its parallel loops become OpenMP loops. tile:
    the tile size of permutable bands of two or more loops (None: 32; 1: none); not applied where isl's loops over tiles
    would lose instances. parallel: the outermost independent loops become OpenMP loops. reorder_sums: sums may change
    their order, and floats their rounding; else every result equals the original's bit for bit. file: its name.

    Assumes that arrays do not overlap and that subscripts are in bounds. Raises InputError and WorkloadError for C that
    is not supported, ScheduleError with two statement instances for an order that violates a dependence.
    """
    _check_options(order, tile, schedule)
    sizes, file = sizes or {}, expected_text(file, "the name of the text")
    program = read_program(source, sizes, file)
    place = region_text(source, program, file)
    is_chosen = schedule is None and order == "auto" and tile is None and not parallel and not reorder_sums
    with _isl_budget("the reading of a C program with symbolic sizes"):
        region = region_of(program, sizes, file, by_pieces=schedule is not None or is_chosen)
    _check_values(source, sizes, region, file)
    _check_names(program, region, place, file)
    with _isl_budget("the dependences of a C program with symbolic sizes"):
        conflicts = conflicts_of(region)
    loops = Parallel(parallel, () if schedule is None else demanded_loops(schedule))
    written = partial(_text_of_order, place=place, program=program, reorder_sums=reorder_sums)
    write = partial(written, region, conflicts, wanted=loops)
    if schedule is not None:
        found = write(partial(_own_order, region, schedule, "a given one"))
    elif is_chosen:
        region, conflicts, found = _chosen_text(source, sizes, file, place, region, conflicts, written)
    else:
        times_of = partial(_times_of_choice, region, conflicts, reorder_sums=reorder_sums)
        found = _first_text(write, [partial(times_of, *each) for each in _attempts(order, tile or 32)])
    return TransformedC.of(_report(source, file, sizes, region, place, conflicts, found, reorder_sums=reorder_sums))


def _report(
    source: str,
    file: str,
    sizes: Mapping[str, int],
    region: Region,
    place: RegionText,
    conflicts: Sequence[Conflict],
    found: WrittenText | str,
    *,
    reorder_sums: bool,
) -> TransformReport:
    """Return what was done. found: the new text, or why the text was left as it is."""
    left = found if isinstance(found, str) else ""
    new = None if isinstance(found, str) else found
    return TransformReport(
        file=file,
        source=source,
        result=_with_ends_of_lines(new.text if new else _left_text(place, left), source),
        order=new.name if new else "",
        reason=left,
        changes=new.changes if new else (),
        ground=new.ground if new else "",
        statements=told_statements(region, new.times if new else None),
        nests=new_nests(region, new.times) if new else (),
        dependences=told_dependences(conflicts, reorder_sums=reorder_sums) if new else (),
        marked=new.marked if new else (),
        sizes=sizes_of(sizes),
        parameters=tuple(name for name in region.parameters if name not in sizes),
        lines=(place.first, place.last),
        assumed=assumption_of(region) if new else "",
    )


def _with_ends_of_lines(text: str, source: str) -> str:
    """Return a text with lines that end as those of the source."""
    is_crlf = 0 < source.count("\r\n") == source.count("\n")
    return text.replace("\n", "\r\n") if is_crlf else text


def _first_text(write: Callable[[Order], WrittenText], orders: Sequence[Order]) -> WrittenText:
    """Return the text of the first order whose isl loops lose no instance."""
    for each in orders[:-1]:
        with suppress(SolverError):
            return write(each)
    return write(orders[-1])


def _own_order(region: Region, schedule: Schedule, name: str) -> tuple[Times, str]:
    return given_times(region, schedule), name


def _chosen_text(
    source: str,
    sizes: Mapping[str, int],
    file: str,
    place: RegionText,
    region: Region,
    conflicts: tuple[Conflict, ...],
    write: Callable[..., WrittenText],
) -> tuple[Region, tuple[Conflict, ...], WrittenText | str]:
    """Return the region, its conflicts and its text in the order that is chosen for speed, for one thread, or why the
    text stays: in the order for which variables of one iteration become arrays over loops, as `compile` has them, if
    that is chosen and can be written."""
    reason = _NOTHING
    for wider in (True, False):
        try:
            workload = workload_of_text(source, sizes, file, TUNING.chosen_sizes)
            choice = _choice(region, conflicts, workload, place, wider=wider)
            written = _text_of_choice(choice, sizes, place, write)
            if written is not None:
                return choice.region, choice.conflicts, written
            reason = _NOTHING
            if EXPANDED not in choice.chosen.changes:
                break
        except (BudgetError, ScheduleError, SolverError, WorkloadError) as error:
            first = error.mistakes[0]
            hint = f". {first.hint}" if first.hint else ""
            reason = f"another order cannot be written: {first.what}{hint}".rstrip(".")
    return region, conflicts, reason


@dataclass(frozen=True, slots=True)
class _Choice:
    """An order chosen. region, conflicts: with places of their own for variables that keep the order; words: of these.
    tiled: contractions in register tiles, updates: their assignments."""

    chosen: ChosenOrder
    region: Region
    conflicts: tuple[Conflict, ...]
    words: tuple[str, ...]
    tiled: list[Contraction]
    updates: dict[str, Update]


def _text_of_choice(
    choice: _Choice, sizes: Mapping[str, int], place: RegionText, write: Callable[..., WrittenText]
) -> WrittenText | None:
    """Return the text in the order chosen, None where it does not pay.

    Compilers cannot test whether arrays are apart around short loops, and leave these out of vectors unless told.
    """
    chosen, region, names = choice.chosen, choice.region, _free_names(place.words)
    done = (*choice.words, *(each for each in chosen.changes if each != EXPANDED))
    vectors = list(vector_loops(chosen.schedule))
    sums = [] if choice.words else [unroll_mark(*each) for each in written_out_sums(chosen.schedule)]
    is_left = not (done or sums or any(is_window for _, is_window in vectors))
    if is_left or (choice.words and not _outweighs_stores(chosen, in_vectors=bool(vectors))):
        return None
    marks = strip_loops(chosen.schedule, chosen.strips, names.single)
    marks += tuple(
        LoopPragma(one.position, frozenset(one.statements), names.apart, optional=True) for one, _ in vectors
    )
    marks += in_place_loops(chosen.schedule, names.apart, restrict=False)
    name = f"chosen ({'; '.join(done)})" if done else _SAME
    order = partial(_own_order, region, chosen.schedule, name)
    tiles = partial(with_tiles, contractions=choice.tiled, updates=choice.updates)
    with _isl_budget("the sizes of tiles"):
        least = ORDER_TUNING.band_extent if any(each.is_in_band for each in choice.tiled) else ORDER_TUNING.least_tiled
        small = [f"{each} >= {least}" for each in sizes_of_tiles(region, choice.updates)]
    loops = Parallel(demanded=(*marks, *sums), extremes=chosen.extremes)
    written = write(region, choice.conflicts, order, wanted=loops, tiles=tiles, tests=small)
    is_marked = any(each.pragma == names.apart for each in written.marked)
    if not (is_marked or done or sums):
        return None
    marked = [*([_MARKED] if is_marked else []), *([_WRITTEN_OUT] if sums else [])]
    changes = (*done, *marked, *([f"{_SMALL} {' && '.join(small)}"] if small else []))
    return replace(written, changes=changes, ground=_ground(chosen, region, sizes))


def _choice(
    region: Region, conflicts: tuple[Conflict, ...], workload: Workload, place: RegionText, *, wider: bool
) -> _Choice:
    """Return the order chosen, with its contractions that register tiles can be written for; it tiles no others."""
    untiled = frozenset[str]()
    while True:
        chosen = choose(workload, _CORE, wider=wider, untiled=untiled)
        stored, between, words = _stored_apart(region, conflicts, chosen, workload, place)
        tiled, updates = text_updates(stored, chosen.contractions, chosen.workload)
        others = frozenset(each.statement for each in chosen.contractions) - frozenset(updates)
        if not others:
            break
        untiled |= others
    for each in tiled:
        chosen = chosen if each in chosen.contractions else turn_points(chosen, each)
    return _Choice(chosen, stored, between, words, tiled, updates)


def _stored_apart(
    region: Region, conflicts: tuple[Conflict, ...], chosen: ChosenOrder, workload: Workload, place: RegionText
) -> tuple[Region, tuple[Conflict, ...], tuple[str, ...]]:
    """Return the region, its conflicts, and what was replaced: where variables of one iteration keep an order, with
    elements in their place, and arrays over loops where no elements are."""
    times = given_times(region, chosen.schedule)
    told: tuple[str, ...] = ()
    with _isl_budget("the places of variables of one iteration"):
        for is_in_array in (False, True):
            broken = {each.array for each, _ in violated_conflicts(conflicts, times, reorder_sums=False)}
            if not broken & region.names:
                break
            if is_in_array:
                names, prefix = _free_names(place.words), f"{_free_prefix(place.words)}_"
                region, words = with_arrays(region, broken, workload, chosen.workload, names, prefix)
            else:
                region, words = with_destinations(region)
            told += words
            conflicts = conflicts_of(region) if words else conflicts
    return region, conflicts, told


def _outweighs_stores(chosen: ChosenOrder, *, in_vectors: bool) -> bool:
    """Return whether vectors or registers outweigh that an element in place of a variable costs a store in each
    iteration: the statement with most instances has its sums in registers, or gains by the order of loops."""
    extents = chosen.workload.extents()
    most = max(chosen.workload.statements, key=lambda each: prod(extents[dim] for dim in each.dims)).name
    if most in chosen.strips or any(most == each.statement for each in chosen.contractions):
        return True
    return in_vectors and cost_of(chosen.schedule) < cost_of(Schedule.original(chosen.workload, strict=True).normal())


_SAME = "the original's"
_NOTHING = "no other order was found to pay"
_SMALL = "the text's own loops unless"
_WRITTEN_OUT = "short sums marked to be written out, so that loops around them are in vectors"
_MARKED = "loops marked for vectors, as their iterations touch no element in common"


def _ground(chosen: ChosenOrder, region: Region, sizes: Mapping[str, int]) -> str:
    """Return what is expected of a chosen order, and how that is known; a number only where the chooser counted one."""
    missing = ", ".join(name for name in region.parameters if name not in sizes)
    at = f", with sizes near {TUNING.chosen_sizes[0]:,} for {missing} where arrays have them" if missing else ""
    told = f"less time on one thread, by the rules of the choice{at}; not measured"
    if chosen.strips or len(chosen.changes) > 1 or chosen.contractions:
        return told
    before = cost_of(Schedule.original(chosen.workload, strict=True).normal())
    after = cost_of(chosen.schedule)
    if not after < before:
        return told
    return f"{told}. Strided accesses of innermost loops, weighted, by the chooser's count: {before:.3g} to {after:.3g}"


def _left_text(place: RegionText, why: str) -> str:
    remark = f"/* polymap left these loops as they are: {why.replace('*/', '* /')}. */".replace("\n", " ")
    return f"{place.before.rstrip(' ')}\n{remark}\n{place.region.lstrip(chr(10))}{place.after}"


def _attempts(order: str, tile: int) -> tuple[tuple[str, int], ...]:
    """Return (order, tile size) pairs in the order in which they are tried."""
    orders = (order, "original") if order == "auto" else (order,)
    return tuple(dict.fromkeys((each, size) for each in orders for size in (tile, 1)))


def _text_of_order(
    region: Region,
    conflicts: Sequence[Conflict],
    order_of: Order,
    *,
    place: RegionText,
    program: CProgram,
    wanted: Parallel,
    reorder_sums: bool,
    tiles: Tiles | None = None,
    tests: Sequence[str] = (),
) -> WrittenText:
    """Return the text of an order after checking that it is legal."""
    times, name = order_of()
    with _isl_budget("the legality of an order"):
        _check_order(region, conflicts, times, reorder_sums=reorder_sums)
    names, helpers = _free_names(place.words), ""
    tiled, all_times = region, times
    with _isl_budget("the loops of an order"):
        if tiles is not None:
            tiled, all_times, helpers = tiles(region, times, names=names, prefix=f"{_free_prefix(place.words)}_")
        node = isl_loops(tiled, all_times, names)
    check_instances(node, tiled, all_times, names.counter)
    with _isl_budget("the loops of an order"):
        block = _loops(tiled, all_times, node, names, conflicts, wanted)
        written = _text(region, times, block, names, place, program, name, tests)
    return replace(written, text=helpers + written.text)


def _isl_budget(what: str) -> AbstractContextManager[None]:
    return budget(TUNING.operations, seconds=TUNING.seconds, what=what)


def _check_options(order: str, tile: int | None, schedule: Schedule | None) -> None:
    _check_schedule(schedule)
    if order not in ORDERS:
        raise OptionError(Mistake("PM284", f"the order {shown(order)} is not known", f"One of: {', '.join(ORDERS)}."))
    if tile is None:
        return
    whole = isinstance(tile, int) and not isinstance(tile, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not whole or not 1 <= tile <= 2**20:
        raise OptionError(Mistake("PM284", f"the tile size is {shown(tile)}", "An integer from 1 to 1,048,576."))


def _check_schedule(schedule: Schedule | None) -> None:
    """Raise for other types, and for circular buffers: declarations and subscripts of the text stay as they are."""
    if schedule is not None and expected_kind(schedule, Schedule, "the schedule").folds:
        kept = ", ".join(f"{each.tensor} modulo {list(each.moduli)}" for each in schedule.folds)
        what = f"the schedule keeps {kept}, and C to C writes no circular buffers"
        raise ScheduleError(Mistake("PM286", what, "Leave out the step `contract`: the order is legal without it."))


def _check_values(source: str, sizes: Mapping[str, int], region: Region, file: str) -> None:
    """Raise WorkloadError or InputError for types and subscripts that are not supported."""
    if sizes or not region.parameters:
        from_c(source, sizes, file=file)  # its checks of subscripts need every size


def _check_names(program: CProgram, region: Region, place: RegionText, file: str) -> None:
    """Raise InputError for names that would have another meaning in the new text."""
    constants = {each.name for statement in region.statements for each in statement.constants}
    twice = sorted((constants | region.names) & set(region.parameters))
    if twice:
        what = f"'{twice[0]}' is a parameter and a variable ({file})"
        raise WorkloadError(Mistake("PM281", what, "Give each a name of its own."))
    for name in sorted(region.counters | region.names | program.program.replaced):
        if name in place.rest and not (name in region.counters and _is_set_first(name, place.rest)):
            what = f"'{name}' is used behind the loops, where its last value would be missing ({file})"
            raise WorkloadError(Mistake("PM281", what, "Assign the value that is needed behind the loops."))
    outer = {each.name for each in program.program.outside}
    lasting = sorted(region.counters & (outer if place.nested else program.program.lasting))
    if lasting:
        what = f"the loop variable '{lasting[0]}' lives on behind the loops ({file})"
        raise WorkloadError(Mistake("PM281", what, f"Declare it in the loop: for (int {lasting[0]} = ...)."))


_TYPE_WORDS = ("int", "long", "unsigned", "short", "signed", "char", "const")


def _is_set_first(name: str, rest: Sequence[str]) -> bool:
    """Return whether every use of a variable in these words follows an assignment that always runs before it.

    The assignment is in the same block or in one around it.
    """
    if not {"goto", "switch"}.isdisjoint(rest):
        return False
    until = -1  # where the block ends in which it is set
    for at, word in enumerate(rest):
        if word == name and at > until:
            if rest[at + 1 : at + 2] != ("=",) or not _always_runs(rest[:at]):
                return False
            until = _end_of_scope(rest, at)
    return True


def _always_runs(before: Sequence[str]) -> bool:
    """Return whether an assignment after these words is a whole statement, or the head of a loop that is one."""
    words = list(before)
    while words and words[-1] in _TYPE_WORDS:
        words.pop()
    if words[-2:] == ["for", "("]:
        del words[-2:]
    return not words or words[-1] in (";", "{", "}")


def _end_of_scope(rest: Sequence[str], at: int) -> int:
    """Return the end of the block around a word; for a variable declared in a loop's head, the end of that loop or
    earlier."""
    depth, header = 0, rest[at - 1] in _TYPE_WORDS and "(" in rest[max(0, at - 4) : at]
    parentheses = int(header)
    for end in range(at, len(rest)):
        word = rest[end]
        depth += (word == "{") - (word == "}")
        parentheses += (word == "(") - (word == ")")
        is_loop_over = header and depth == 0 and parentheses == 0 and word in (";", "}")
        if depth < 0 or is_loop_over:
            return end
    return len(rest)


# --- the order ---


def _times_of_choice(
    region: Region, conflicts: Sequence[Conflict], order: str, tile: int, *, reorder_sums: bool
) -> tuple[Times, str]:
    """Return the times of an order that polymap chooses, and its name."""
    if order != "original":
        try:
            return _name_times("isl's", isl_order(region, conflicts, tile, reorder_sums=reorder_sums), tile)
        except (BudgetError, ScheduleError):
            if order == "isl":
                raise
    with _isl_budget("the order of a C program"):
        return _name_times("the original's", own_order(region, conflicts, tile, reorder_sums=reorder_sums), tile)


def _name_times(whose: str, times: Times, tile: int) -> tuple[Times, str]:
    """Return times with the name of their order; whether it has tiles is seen from the times."""
    has_tiles = any("floor" in formula_texts(each, each.domain(), ())[0] for each in times.values())
    told = f"permutable bands of several loops tiled by {tile}" if has_tiles else "no permutable band of several loops"
    return times, whose if tile == 1 else f"{whose}, {told}"


def _check_order(region: Region, conflicts: Sequence[Conflict], times: Times, *, reorder_sums: bool) -> None:
    """Raise ScheduleError for times that violate a dependence."""
    found = next(violated_conflicts(conflicts, times, reorder_sums=reorder_sums), None)
    if found is not None:
        raise _error_of_conflict(region, *found, "but not in this order")


def _error_of_conflict(region: Region, conflict: Conflict, pairs: Map, but: str) -> ScheduleError:
    own = {each.name: each for each in region.statements}
    first, second, where = instances(pairs, own[conflict.source], own[conflict.sink])
    where = f" (for {where})" if where else ""
    what = f"both touch an element of '{conflict.array}': {second} must come after {first}{where}, {but}"
    hint = "Sums may change their order with reorder_sums." if conflict.accumulates else ""
    if conflict.array in region.inside:
        hint = "It is one variable for all iterations: an array with an element for each would free the order."
    return ScheduleError(Mistake("PM280", what, hint))


# --- the text ---


def _loops(
    region: Region, times: Times, node: AstNode, names: Names, conflicts: Sequence[Conflict], parallel: Parallel
) -> Block:
    try:
        return loops_of(region, times, conflicts, parallel, names, node)
    except LoopConflictError as error:
        raise _error_of_conflict(region, error.conflict, error.pairs, "but a parallel loop runs them at once") from None


def _text(
    region: Region,
    times: Times,
    block: Block,
    names: Names,
    place: RegionText,
    program: CProgram,
    name: str,
    tests: Sequence[str],
) -> WrittenText:
    """Return the file with the new loops. tests: conditions that mostly hold, under which these run, else the original
    ones."""
    pad = "    "
    memory, arrays, least = _memory_of(region, place)
    mostly = [*tests, *least]
    tests = [*_tests(region, program, names), *([f"{names.likely}({' && '.join(mostly)})"] if mostly else [])]
    lines = [f"{pad}{each};" for each in (*region.variables, *arrays)] + lines_of(block, 1)
    lines += [f"{pad}__builtin_free({memory[0]});"] if memory else []
    if region.result is not None:
        lines.append(f"{pad}return {expression(c_expression(region.result))};")
    if memory:
        enough = [f"{names.likely}({memory[0]} != 0)"]
        lines = [f"{pad}void *{memory[0]} = {memory[1]};", *_guard_block(lines, enough, place)]
    code = "\n".join((*lines, *tests))
    macros = [(key, text) for key, text in names.definitions() if re.search(rf"\b{key}\b", code)]
    lines = [
        *_remark(region, times, name),
        *(text for _, text in macros),
        *_guard_block(lines, tests, place),
        *(f"#undef {key}" for key, _ in macros),
    ]
    _check_macros(code, region, place, program)
    begin = "" if place.before.endswith("\n") else "\n"
    top, lines = _conditional(lines, place, program, is_guarded=bool(tests))
    text = top + place.before + begin + "\n".join(lines) + "\n" + place.after
    return WrittenText(text, name, times, marked_loops(region, times, tuple(block), names.counter))


_OWN_MEMORY = re.compile(r"\b(malloc|free)\s*\([^;{}]*\)\s*\{")


def _memory_of(region: Region, place: RegionText) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Return the name of the memory of arrays over loops and what allocates it, the declarations of the arrays, and the
    conditions on their sizes; all empty where there are no arrays.

    No header is included: the file may use names that it declares.
    """
    if not region.arrays:
        return (), [], []
    if own := _OWN_MEMORY.search(place.before + place.after):
        what = f"arrays over loops need {own[1]} of the library, and the file has its own"
        raise ScheduleError(Mistake("PM281", what, "Name it otherwise."))
    block = f"{_free_prefix(place.words)}_block"
    arrays = sorted(region.arrays, key=lambda each: -bits_of(each.kind))
    counts = [" * ".join(f"({one})" for one in each.extents) for each in arrays]
    sizes = [f"sizeof({SPELLING[each.kind]}) * {count}" for each, count in zip(arrays, counts, strict=True)]
    least = dict.fromkeys((one for each in arrays for one in each.extents if not one.isdigit()), 1)
    rows = [each.extents[0] for each in arrays if len(each.extents) == 1 and each.extents[0] in least]
    least |= dict.fromkeys(rows, ORDER_TUNING.least_array)
    made: list[str] = []
    start = block
    for each in arrays:
        inner = "".join(f"[{one}]" for one in each.extents[1:])
        pointers = [f"(*{one}){inner}" if inner else f"*{one}" for one in (f"const {each.name}", "")]
        target, kind = (f"{SPELLING[each.kind]} {one}" for one in pointers)
        made.append(f"{target} = ({kind}){start}")
        start = f"({each.name} + ({each.extents[0]}))"
    tests = [f"{one if one.isidentifier() else f'({one})'} >= {number}" for one, number in least.items()]
    return (block, f"__builtin_malloc({' + '.join(sizes)})"), made, tests


def _conditional(lines: list[str], place: RegionText, program: CProgram, *, is_guarded: bool) -> tuple[str, list[str]]:
    """Return the text above the file, and the new text with the original for other options of the compiler."""
    conditions = conditions_of(program, place)
    if not is_guarded:  # else the original stands in it, with its directives
        lines = [*lines, *place.directives]
    if not (conditions.here or conditions.above):
        return "", lines
    mark, tests, top = f"{_free_prefix(place.words)}_as_read", list(conditions.here), ""
    if conditions.above:
        top = f"#if {' && '.join(conditions.above)}\n#define {mark} /* as polymap read the file */\n#endif\n"
        tests.insert(0, f"defined({mark})")
    return top, [f"#if {' && '.join(tests)}", *lines, "#else", place.region.strip("\n"), "#endif"]


def _check_macros(code: str, region: Region, place: RegionText, program: CProgram) -> None:
    """Raise InputError for names that the file's macros would expand, and for sizes that are not a single value."""
    text = program.prepared.file
    words = frozenset(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", code))
    for name, macro in text.macros_at(place.first).items():
        whole = "".join(macro.body).strip()
        again = name in words if macro.parameters is None else re.search(rf"\b{name}\s*\(", code) is not None
        if name not in region.values and again and whole != name:
            what = f"the macro '{name}' names itself, or a word that the new loops need"
            raise WorkloadError(Mistake("PM281", what, "Give the macro a name of its own."))
        if name in region.values and re.fullmatch(r"\w+|\([^()]*\)", whole) is None:
            what = f"the size '{name}' is given, and defined as {shown(whole)}"
            raise WorkloadError(Mistake("PM281", what, f"Define it in parentheses: #define {name} ({whole})."))
    changed = [each for each in text.changes if each.name in region.values and place.first <= each.line <= place.last]
    if changed:
        what = f"the size '{changed[0].name}' is given, and line {changed[0].line} changes it among the loops"
        raise WorkloadError(Mistake("PM281", what, "Define it above them."))


def _tests(region: Region, program: CProgram, names: Names) -> list[str]:
    """Return the conditions on parameters on which the new loops rely: given values, and what was assumed of others."""
    arrays = {each.array for statement in region.statements for each in statement.references}
    words = sorted(program.prepared.words - arrays)
    values = [(word, known_name(word, region.values)) for word in words]
    given = [f"{word} == {region.values[known]}" for word, known in values if known is not None]
    assumed = assumption_of(region, names)
    return [*given, assumed] if assumed else given


def _guard_block(lines: list[str], tests: Sequence[str], place: RegionText) -> list[str]:
    """Return the loops in a block of their own; under conditions with the original as the alternative."""
    if not tests:
        return ["{", *lines, "}"]
    return [f"if ({' && '.join(tests)}) {{", *lines, "} else {", place.region.strip("\n"), "}"]


def _free_prefix(words: frozenset[str]) -> str:
    prefix = "pm"
    while any(word.startswith(prefix) for word in words):
        prefix += "_"
    return prefix


def _free_names(words: frozenset[str]) -> Names:
    """Return names that do not occur in the text."""
    prefix = _free_prefix(words)
    counter = next(
        each for each in ("c", "t", f"{prefix}_c") if not any(re.fullmatch(rf"{each}[0-9]+", word) for word in words)
    )
    return Names(
        counter,
        f"{prefix}_min",
        f"{prefix}_max",
        f"{prefix}_floor",
        f"{prefix}_apart",
        f"{prefix}_single",
        f"{prefix}_part",
        f"{prefix}_likely",
    )


def _remark(region: Region, times: Times, name: str) -> list[str]:
    """Return the schedule as a comment, one statement a line."""
    lines = [f"/* Written by polymap. Order: {name}. Instance -> time, compared lexicographically:"]
    texts = (formula_texts(times[each.name], each.domain, each.dims)[0] for each in region.statements)
    lines += [f"   {text.replace('*/', '* /')}" for text in texts]
    return [*lines[:-1], f"{lines[-1]} */"]
