"""From a layer to a function that computes it on the host: the search's mapping, printed, compiled and loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from polymap.codegen.cpu_header import choice_lines
from polymap.codegen.cpu_machine import CpuFacts, facts_of
from polymap.codegen.cpu_mapping import CpuChoice, choose_cpu_mapping, plain_mapping
from polymap.codegen.native import (
    CLANG_FLAGS,
    FUSED,
    LAYOUTS,
    STRAIGHT,
    NativeCall,
    NativeFunction,
    PackedWeights,
    RegionCall,
    Requantize,
    Word,
    flatten,
    function_of_lanes,
    function_of_parts,
    in_words,
    load_function,
    load_region,
    memory_steps,
    native_function,
    residues,
    vector_dims,
    with_types,
)
from polymap.codegen.programs import program_flags, program_function, row_function
from polymap.codegen.source import ChosenOrder, Core, choose
from polymap.inputs import LIMITS, answers_in_words, expected_seconds, shown
from polymap.ir import (
    Architecture,
    BudgetError,
    InputError,
    Mapping,
    MappingError,
    Mistake,
    OptionError,
    ScheduleError,
    SolverError,
    Workload,
)
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import Schedule, check_mapping, dependence_violations
from polymap.search import SearchResult
from polymap.transform import violations

_NAME = "polymap_native"


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A layer as a function: `y = fn(x, w)`, `fn(x, fn.pack_weights(w), out=y)`. Calls hold no state and may overlap.

    A region of C takes all arrays that outlive it, in order of declaration, and returns those it writes as a tuple.
    """

    workload: Workload = field(repr=False)
    arch: Architecture = field(repr=False)
    layout: str
    threads: int
    choice: CpuChoice | None = field(repr=False)
    function: NativeFunction = field(repr=False)
    loaded: NativeCall | RegionCall = field(repr=False)

    def __repr__(self) -> str:
        """Return the arrays in the order of a call, with types and shapes, and what is returned."""
        told = [(f"{form.tensor}: {form.kind}{list(form.shape)}", form.is_written) for form in self.function.arrays]
        given = [form for form, is_written in told if not is_written or isinstance(self.loaded, RegionCall)]
        written = [form for form, is_written in told if is_written]
        about = f"{self.workload.name}, {self.layout}" if self.choice is not None else self.workload.name
        return f"<CompiledFunction of {about}: ({', '.join(given)}) -> {', '.join(written)}>"

    def __call__(self, *arrays: object, out: object = None) -> Any:
        """Return the output (of several a tuple) of arrays in the order of the workload's operands.

        out: the array it is written to (of several a tuple); otherwise a new one. Raises InputError (PM630 to PM637)
        for arrays of another type, shape or order, and for outputs that overlap operands. A region of C leaves the
        arrays it is given as they are, unless they are also given as `out`.
        """
        return self.loaded.call(arrays, out)

    @answers_in_words
    def pack_weights(self, weights: object) -> PackedWeights:
        """Return the operand `packed` (by default the last one) in the order that the function reads it in.

        Raises InputError for what is no such array, and for regions of C, which have no weights (PM637).
        """
        if isinstance(self.loaded, RegionCall):
            raise InputError(Mistake("PM637", "a region of C has no weights to pack", "Pass its arrays as they are."))
        return self.loaded.pack_weights(weights)

    @property
    def result(self) -> SearchResult | None:
        """The answer of the search; None where no mapping with vectors was found."""
        return None if self.choice is None else self.choice.result

    @property
    def source(self) -> str:
        """The C text."""
        return self.function.text

    @property
    def reason(self) -> str:
        """Why the code has no vectors; empty where it has some."""
        return self.function.reason

    @property
    def packed(self) -> str | None:
        """The operand that `pack_weights` takes; None where there is none."""
        return self.function.packed


@answers_in_words
def compile(
    workload: WorkloadLike,
    arch: ArchitectureLike = "host_cpu",
    *,
    layout: str = "NHWC",
    threads: int = 1,
    mapping: Mapping | Schedule | None = None,
    tail: Sequence[str | Requantize] = (),
    fma: bool = False,
    time_limit_s: float | None = None,
) -> CompiledFunction:
    """Return a layer as a function on arrays, computed by C code in the order of the mapping that the search chose.

    layout: of a convolution's arrays: "NHWC" (x[N,H,W,C], w[K,R,S,C/groups], y[N,P,Q,K]) or "NCHW" (x[N,C,H,W],
    w[K,C/groups,R,S], y[N,K,P,Q]). Other workloads take their tensors as they are written: first those only read, in
    order, and return the one written (of several a tuple). threads: cores that a call may use (OpenMP).

    Programs whose rows are independent (`attention`, softmax, layer norms) run by blocks of rows, unless their sums are
    not `associative`. Regions of C (`from_c`) and other workloads of several statements run in an order that is chosen
    for the processor, with floats rounded as in their text, no sum in another order: contractions in tiles, sums of
    rows side by side, loops exchanged (docs/howto/native.md). Regions take all arrays that outlive them, in order of
    declaration.
    fma: floats of programs may round a product and the sum it is added to at once, as `gcc -O3 -march=native` does with
    their text, twice as fast where products of matrices bound it; layers and blocks of rows do so anyway.
    mapping: a legal loop tree, or for programs a legal schedule, to print instead.
    tail: what is done to each sum of a layer before it is stored, in order: "bias" (an array with an element per output
    channel is added; without channels, per index of the last axis), "add" (an array like the output), "relu", and at
    the end a `Requantize`. The arrays that the steps take stand behind the operands: `fn(x, w, bias)`.

    No program is run to choose the mapping. time_limit_s: wall time of the choice (None: 15 seconds of CPU time, so
    that a busy machine gets the same code as an idle one).

    Raises WorkloadError where an element type has no form in C (PM621), OptionError for an unknown layout or number
    of threads (PM638) or a tail without meaning (PM623), ArchError for a machine that is no processor (PM122),
    MappingError or ScheduleError for an illegal mapping (PM639), CompilerError if there is no compiler (PM602) or
    it fails (PM603).
    """
    workload, arch = question_of(workload, arch)
    choice, function = native_code(
        workload,
        arch,
        _NAME,
        layout=layout,
        threads=threads,
        mapping=mapping,
        tail=tail,
        fma=fma,
        time_limit_s=time_limit_s,
    )
    return CompiledFunction(workload, arch, layout, threads, choice, function, _loaded(workload, function, threads))


def _loaded(workload: Workload, function: NativeFunction, threads: int) -> NativeCall | RegionCall:
    if workload.original is not None:
        return load_region(function, threads)
    started = frozenset(tensor.name for tensor in workload.tensors if tensor.initial)
    return load_function(function, threads, started)


def native_code(
    workload: Workload,
    arch: Architecture,
    name: str,
    *,
    layout: str,
    threads: int,
    mapping: Mapping | Schedule | None = None,
    tail: Sequence[str | Requantize] = (),
    fma: bool = False,
    time_limit_s: float | None,
) -> tuple[CpuChoice | None, NativeFunction]:
    """Return the mapping chosen for a processor and its C function. Raises as `compile` does, except CompilerError."""
    _check_options(layout, threads, time_limit_s)
    facts = facts_of(arch)
    if mapping is not None and not isinstance(mapping, Mapping | Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "Expected a Mapping, a Schedule of pm.transform, or None."
        raise OptionError(Mistake("PM120", f"the mapping is {shown(mapping)}", hint))
    if isinstance(mapping, Mapping):
        _check_tree(workload, arch, mapping)
    workload, core = with_types(workload), Core(facts.vector_bits, facts.registers, facts.second_cache_bytes)
    if mapping is None and not tail:
        function = row_function(workload, core, name=name, threads=threads, remark=_row_remark(workload, threads))
        if function is not None:
            return None, function
    if len(workload.statements) != 1 or workload.original is not None:
        if tail:
            hint = "A program says in its own statements what is done to a sum."
            raise OptionError(Mistake("PM623", "a program has a tail", hint))
        return None, _program(workload, name, mapping, threads, core, fma=fma)
    if isinstance(mapping, Schedule):
        what = "a schedule is given for a workload of one statement"
        raise ScheduleError(Mistake("PM639", what, "Give a loop tree: layers and einsums are printed from one."))
    printed = partial(native_function, workload, name=name, layout=layout, threads=threads, tail=tail)
    if mapping is not None:
        return None, printed(arch, mapping, remark=_remark(workload, None, layout, threads, "A given mapping."))
    choice_of = partial(choose_cpu_mapping, threads=threads, time_limit_s=time_limit_s)
    function = _of_lanes(workload, facts, layout, name=name, threads=threads, tail=tail)
    function = function or _by_residues(workload, arch, layout, choice_of, name=name, threads=threads, tail=tail)
    if function is not None:
        return None, function
    over, dims, words = _as_printed(workload, layout, facts, has_tail=bool(tail))
    steps = memory_steps(over, layout)
    choice = choice_of(over, arch, dims, steps=steps)
    if choice is None:  # plain loops read bytes one by one
        over = flatten(workload, layout, has_tail=bool(tail)) or workload
        mapping = plain_mapping(over, arch, memory_steps(over, layout))
        return None, printed(arch, mapping, remark=_remark(over, None, layout, threads, ""), flat=over)
    remark = _remark(over, choice, layout, threads, "")
    return choice, printed(choice.arch, choice.mapping, remark=remark, flat=over, by_words=words, packed=choice.packed)


def _of_lanes(
    workload: Workload, facts: CpuFacts, layout: str, *, name: str, threads: int, tail: Sequence[str | Requantize]
) -> NativeFunction | None:
    """Return the function of a product of few columns, or a convolution of groups of few channels, on one thread; None
    for other workloads."""
    if threads > 1:
        return None
    remark = _remark(workload, None, layout, threads, "Lanes along the terms of sums, or the channels of groups.")
    core = facts.vector_bits, facts.registers, facts.second_cache_bytes
    return function_of_lanes(workload, *core, name=name, layout=layout, remark=remark, tail=tail)


def _by_residues(
    workload: Workload,
    arch: Architecture,
    layout: str,
    choice_of: Callable[..., CpuChoice | None],
    *,
    name: str,
    threads: int,
    tail: Sequence[str | Requantize],
) -> NativeFunction | None:
    """Return the function of a transposed convolution as ordinary ones, None for other workloads. Parts of one size
    have one mapping."""
    found: dict[str, CpuChoice | None] = {}
    parts: list[tuple[Workload, Architecture, Mapping]] = []
    for each in residues(workload):
        lanes = max(1, facts_of(arch).vector_bits // each.tensor(each.statements[0].target.tensor).bits)
        key = str(each.extents())
        if key not in found:
            dims = vector_dims(each, layout, lanes)
            found[key] = choice_of(each, arch, dims, steps=memory_steps(each, layout))
        choice = found[key]
        if choice is None:
            return None
        parts.append((each, choice.arch, choice.mapping))
    if not parts:
        return None
    told = f"A transposed convolution as {len(parts)} ordinary ones, one for each residue of its output's positions."
    remark = _remark(workload, None, layout, threads, told)
    return function_of_parts(parts, name=name, layout=layout, threads=threads, remark=remark, tail=tail)


def _as_printed(
    workload: Workload, layout: str, facts: CpuFacts, *, has_tail: bool
) -> tuple[Workload, tuple[str, ...], dict[str, Word]]:
    """Return the workload whose loops are printed, the dims that its vectors may lie along, and how its arrays
    are read in words."""
    over = flatten(workload, layout, has_tail=has_tail) or workload
    lanes = max(1, facts.vector_bits // over.tensor(over.statements[0].target.tensor).bits)
    words = in_words(over, layout, lanes)
    if words is None:
        return over, vector_dims(over, layout, lanes), {}
    return words.workload, words.dims, words.forms


def _check_tree(workload: Workload, arch: Architecture, mapping: Mapping) -> None:
    check_mapping(workload, arch, mapping)
    broken = dependence_violations(workload, mapping)
    if broken:
        hint = "explore() finds legal ones; evaluate() lists what a tree breaks."
        raise MappingError(Mistake("PM639", f"the mapping is illegal. {broken[0].message}", hint))


def _program(
    workload: Workload, name: str, order: Mapping | Schedule | None, threads: int, facts: Core, *, fma: bool
) -> NativeFunction:
    """Return the function of a program in the order that is chosen for it, or in a given one."""
    if order is None:
        chosen = choose(workload, facts, threads=threads)
        try:
            return _of_choice(chosen, name, threads, fma=fma)
        except (BudgetError, SolverError):  # the loops around tiles were too hard to write down, for isl too
            if not chosen.changes:
                raise
            return _of_choice(choose(workload, facts, threads=threads, tiled=False), name, threads, fma=fma)
    if isinstance(order, Mapping):
        schedule, words = Schedule.of_tree(workload, order), "of the given loop tree"
    else:
        schedule, words = _checked(workload, order), "of the given schedule"
    remark = _program_remark(workload, schedule, words, threads, (), program_flags(workload, (), fma=fma))
    return program_function(workload, schedule, name=name, threads=threads, fma=fma, remark=remark)


def _of_choice(chosen: ChosenOrder, name: str, threads: int, *, fma: bool) -> NativeFunction:
    changes = chosen.changes or ("nothing: no other order was found to pay",)
    tiles = chosen.contractions
    flags = program_flags(chosen.workload, tiles, fma=fma, in_parts=bool(chosen.extremes))
    remark = _program_remark(chosen.workload, chosen.schedule, "chosen", threads, changes, flags)
    return program_function(
        chosen.workload,
        chosen.schedule,
        name=name,
        threads=threads,
        fma=fma,
        remark=remark,
        contractions=tiles,
        strips=chosen.strips,
        extremes=chosen.extremes,
    )


def _checked(workload: Workload, schedule: Schedule) -> Schedule:
    if schedule.workload != workload:
        what = "the schedule is one of another workload"
        raise ScheduleError(Mistake("PM639", what, "Compile schedule.workload, or make one of this workload."))
    if schedule.folds:
        what = f"the schedule keeps {schedule.folds[0].tensor} in a circular buffer, which is not printed"
        raise ScheduleError(Mistake("PM639", what, "Leave out the step contract."))
    broken = violations(schedule)
    if broken:
        raise ScheduleError(Mistake("PM639", f"the schedule is illegal. {broken[0].message}", ""), broken)
    return schedule


def _program_remark(
    workload: Workload, schedule: Schedule, order: str, threads: int, changes: Sequence[str], flags: Sequence[str]
) -> str:
    lines = [f"{workload.name or 'a program'}; written by polymap.", f"The order {order}:"]
    lines += [f"  {line}" for line in str(schedule).splitlines()]
    lines += [f"What changed: {each}" for each in changes]
    lines.append(_to_build(flags, threads))
    clang = [each for each in CLANG_FLAGS if each != STRAIGHT or "-ftree-slp-vectorize" not in flags]
    lines.append(f"With clang, these make it faster: {' '.join(clang)}")
    return _plain("\n".join(lines))


def _row_remark(workload: Workload, threads: int) -> str:
    lines = [f"{workload.name or 'a program'}; written by polymap."]
    lines.append("Blocks of rows run through all statements while they are in the first caches. Sums are added up in")
    lines.append("another order than in the text, products fused with additions; exp and tanh are functions below.")
    lines.append(_to_build(FUSED, threads))
    return _plain("\n".join(lines))


def _to_build(flags: Sequence[str], threads: int) -> str:
    openmp = ["-fopenmp"] if threads > 1 else []
    return " ".join(["To build it: cc -O3 -march=native -fno-math-errno", *flags, *openmp])


def _plain(text: str) -> str:
    """Return a text that may stand in a comment of C."""
    return text.encode("ascii", "replace").decode("ascii").replace("/*", "/ *")


def _check_options(layout: str, threads: int, time_limit_s: float | None) -> None:
    mistakes: list[Mistake] = []
    if layout not in LAYOUTS:
        mistakes.append(Mistake("PM638", f"layout is {shown(layout)}", f"Expected {' or '.join(LAYOUTS)}."))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= LIMITS.threads:  # pyright: ignore[reportUnnecessaryIsInstance]
        mistakes.append(Mistake("PM638", f"threads is {shown(threads)}", f"Expected 1 to {LIMITS.threads}."))
    if mistakes:
        raise OptionError(mistakes)
    if time_limit_s is not None:
        expected_seconds(time_limit_s)


def _remark(workload: Workload, choice: CpuChoice | None, layout: str, threads: int, given: str) -> str:
    """Return the comment at the head of the C text: the question, the nest, its predicted traffic, how sure that is."""
    name = workload.name or "a layer"
    lines = [f"{name}, layout {layout}, {threads} thread{'s' if threads > 1 else ''}; written by polymap."]
    lines.append(_to_build(FUSED, threads))
    if choice is None:
        lines.append(given or "No mapping with vectors: plain loops.")
    else:
        lines += ["", *choice_lines(workload, choice)]
    return _plain("\n".join(lines))
