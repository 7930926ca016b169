"""Explains a mapping in sentences: which loops move which tensor, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from textwrap import fill

from polymap import ir
from polymap.costmodel import (
    OPERATIONS_PER_INSTANCE,
    Compulsory,
    Cost,
    Dataflow,
    StepClass,
    Traffic,
    compulsory_traffic,
    dataflow,
    reuse_counts,
    roofline,
)
from polymap.formatting import energy, exact, listing, percent, short, times
from polymap.inputs import expected_kind, shown
from polymap.report.figures import traffic_figure
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import LoopInTree, LoopView, StorageInTree, outside_the_space, view_of


def explain(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: ir.Mapping,
    cost: Cost,
    runner_up: tuple[ir.Mapping, Cost] | None = None,
) -> str:
    """Return sentences on a mapping: its dataflow, the traffic of each tensor at each level and the loops that cause
    it, the compulsory traffic, the breakdown of energy and latency, and how another mapping differs.
    """
    workload, arch = question_of(workload, arch)
    mapping, cost = mapping_of(mapping), expected_kind(cost, Cost, "the cost")
    paragraphs = [
        _headline(workload, arch, mapping, cost),
        *_tensors(workload, arch, mapping, cost),
        _outermost(workload, arch, cost),
        _energy(workload, arch, cost),
        _latency(workload, arch, cost),
        *_steps(arch, cost),
        _space(workload, arch, mapping),
    ]
    if runner_up is not None:
        if not isinstance(runner_up, tuple) or [type(each) for each in runner_up] != [ir.Mapping, Cost]:  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "Expected (mapping, cost), such as an item of `result.top(2)`."
            raise ir.OptionError(ir.Mistake("PM120", f"the other mapping is {shown(runner_up)}", hint))
        paragraphs.append(compare(workload, arch, (mapping, cost), runner_up))
    return "\n".join(_wrapped(paragraph) for paragraph in paragraphs if paragraph)


def _space(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> str:
    outside = outside_the_space(workload, arch, mapping)
    return outside and f"The mapping is {outside}."


def _wrapped(paragraph: str) -> str:
    """Return the paragraph in lines of at most 110 characters, all but the first indented."""
    return fill(paragraph, 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def compare(
    workload: ir.Workload,
    arch: ir.Architecture,
    best: tuple[ir.Mapping, Cost],
    other: tuple[ir.Mapping, Cost],
    limit: int = 3,
) -> str:
    """Return why the second of two mappings is worse: the largest differences of energy, by level and tensor; equal
    ones outermost level first."""
    first, second = best[1], other[1]
    pj = f"{energy(second.energy_pj)} ({_change(second.energy_pj, first.energy_pj)})"
    cycles = f"{exact(second.latency_cycles)} cycles ({_change(second.latency_cycles, first.latency_cycles)})"
    text = f"The other mapping takes {pj} and {cycles}."
    before = {(bar.level, name): value for bar in traffic_figure(workload, arch, first).bars for name, value in bar.pj}
    after = {(bar.level, name): value for bar in traffic_figure(workload, arch, second).bars for name, value in bar.pj}
    keys = sorted(dict.fromkeys((*before, *after)), key=lambda key: -abs(after.get(key, 0.0) - before.get(key, 0.0)))
    differences = [(key, after.get(key, 0.0) - before.get(key, 0.0)) for key in keys[:limit]]
    parts = [
        f"{energy(abs(change))} {'more' if change > 0 else 'less'} for {tensor} at {level}"
        for (level, tensor), change in differences
        if abs(change) > 0.001 * max(first.energy_pj, second.energy_pj)
    ]
    if parts:
        return f"{text} The largest differences: {listing(parts)}."
    return f"{text} Its accesses cost the same at every level." if second.energy_pj == first.energy_pj else text


def _change(value: float, base: float) -> str:
    if value == base:
        return "the same"
    return f"{100 * (value / base - 1):+.3g} %" if base else "-"


def _headline(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping, cost: Cost) -> str:
    """Return the dataflow and the reuse at the compute units."""
    if len(workload.statements) != 1:
        return ""
    name = dataflow(workload, arch, mapping, cost)
    reuse = [item for item in reuse_counts(workload, arch, cost) if item.level is not None]
    if name is Dataflow.NO_LOCAL_REUSE or not reuse:
        return f"Dataflow: {name.value}; every element that arrives at a compute unit is used once."
    uses = listing([f"{item.tensor} {short(item.uses)}" for item in reuse])
    return f"Dataflow: {name.value}; uses of an element per arrival at a compute unit: {uses}."


def _tensors(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping, cost: Cost) -> Iterator[str]:
    """Yield a paragraph per tensor: one sentence per level that it passes, from the outermost inwards."""
    rows = {(row.level, row.tensor): row for row in cost.traffic}
    written = ir.written_tensors(workload)
    least = {row.tensor: row for row in compulsory_traffic(workload)}
    every = stays(workload, arch, mapping)
    for tensor in workload.tensors:
        own = [stay for stay in every if stay.tensor == tensor.name]
        sentences: list[str] = []
        for stay in own:
            row, parent = rows.get((stay.level, stay.tensor)), rows.get((stay.parent, stay.tensor))
            if row is None or parent is None:
                continue
            if not stay.has_all:
                sentences.append(_shared(stay, row, parent))
            elif tensor.name in written:
                sentences.append(_written(stay, row, parent, _content(workload, tensor)))
            else:
                sentences.append(_read(stay, row, parent, least[tensor.name]))
        if not own:
            sentences.append(f"held nowhere but in {arch.levels[0].name}: every access goes there.")
        innermost = rows.get((own[-1].level if own else arch.levels[0].name, tensor.name))
        if innermost is not None:
            sentences.append(_at_compute(workload, cost, innermost, is_written=tensor.name in written))
        yield f"{tensor.name}: {' '.join(sentence for sentence in sentences if sentence)}"


def _content(workload: ir.Workload, tensor: ir.Tensor) -> str:
    """Return the name of a written tensor's elements while the program runs."""
    operators = {statement.operator for statement in workload.statements if statement.target.tensor == tensor.name}
    return "element" if ir.Operator.ASSIGN in operators or tensor.initial else "partial sum"


def _read(stay: Stay, row: Traffic, parent: Traffic, least: Compulsory) -> str:
    """Return the sentence on a read-only tensor in a level."""
    text = f"{stay.parent} -> {stay.level} {exact(parent.reads)} read"
    if least.reads:
        ratio = Fraction(parent.reads, least.reads)
        text += ", each element once" if ratio == 1 else f", {times(ratio)} its {exact(least.reads)} elements"
        text += " (tiles overlap)" if ratio > 1 and not stay.again else ""
    if parent.reads and row.fills > parent.reads:
        text += f", each shared by {_average(row.fills, parent.reads, 'instances')}"
    return f"{text}{_why(stay)}."


def _written(stay: Stay, row: Traffic, parent: Traffic, what: str) -> str:
    """Return the sentence on a written tensor in a level; what: what its elements are called."""
    arrivals = parent.writes - parent.fills
    text = f"{stay.level} -> {stay.parent} {exact(arrivals)} written"
    if arrivals and row.drains > arrivals:
        text += f", each the sum of {_average(row.drains, arrivals, 'drained')}"
    text += f", {exact(row.fills)} {what}s filled back in" if row.fills else f", no {what} comes back"
    return f"{text}{_why(stay)}."


def _shared(stay: Stay, row: Traffic, parent: Traffic) -> str:
    """Return the sentence on a tensor in a level that other statements access elsewhere: counts are of all together."""
    counts = ((stay.parent, parent.reads, parent.writes), (stay.level, row.reads, row.writes))
    told = (f"{level} {exact(reads)} read and {exact(writes)} written" for level, reads, writes in counts)
    return f"{stay.parent} -> {stay.level} for some statements, of all together {', '.join(told)}{_why(stay)}."


def _at_compute(workload: ir.Workload, cost: Cost, row: Traffic, *, is_written: bool) -> str:
    """Return the sentence on compute units that share reads or reduce; "" if there is no sharing."""
    if len(workload.statements) != 1:
        return ""
    accesses = sum(access.tensor == row.tensor for access in workload.statements[0].reads)
    done = row.writes - row.fills if is_written else row.reads - row.drains
    wanted = cost.instances * (1 if is_written else accesses)
    if not done or done >= wanted:
        return ""
    if is_written:
        mean = _average(wanted, done, "products")
        return f"Each of the {exact(done)} sums that compute sends to {row.level} is of {mean}."
    return f"Each of the {exact(done)} compute reads from {row.level} serves {_average(wanted, done, 'units')}."


def _average(total: int, parts: int, what: str) -> str:
    """Return total / parts of something, marked as a mean if it is not exact."""
    mean = Fraction(total, parts)
    return f"{exact(mean)} {what}" if total % parts == 0 else f"{short(mean)} {what} on average"


def _why(stay: Stay) -> str:
    """Return the clause on the loops that bring the tile in again, or during which it stays."""
    parts: list[str] = []
    if stay.again:
        one = len({loop.dim for loop in stay.again}) == 1
        inside = _loops(stay.swept) if stay.swept else "the branch"
        parts.append(
            f"{_loops(stay.again)} {'runs' if one else 'run'} outside {inside} and "
            f"{'brings' if one else 'bring'} the same elements in again"
        )
    if not stay.changing and not stay.again:
        parts.append("one tile for the whole run")
    elif stay.kept:
        parts.append(f"kept while {_loops(stay.kept)} {_turns(stay.kept)}")
    if stay.used:
        parts.append(f"reused inside by {_loops(stay.used)}")
    return "".join(f"; {part}" for part in parts)


def _loops(loops: tuple[Loop, ...]) -> str:
    """Return the loops in words, loops over one dim as one."""
    trips: dict[str, int] = {}
    for loop in loops:
        trips[loop.dim] = trips.get(loop.dim, 1) * loop.trips
    return listing([f"{dim} (x{count:,})" for dim, count in trips.items()])


def _turns(loops: tuple[Loop, ...]) -> str:
    return "runs" if len({loop.dim for loop in loops}) == 1 else "run"


def _outermost(workload: ir.Workload, arch: ir.Architecture, cost: Cost) -> str:
    """Return the sentence on compulsory and actual traffic at the outermost level."""
    name = arch.levels[0].name
    moved = sum(row.reads + row.writes for row in cost.traffic if row.level == name)
    least = 0
    for row in compulsory_traffic(workload):
        if row.reads is None or row.writes is None:
            return f"{name} moves {exact(moved)} elements."
        least += row.reads + row.writes
    if moved == least:
        return f"{name} moves {exact(moved)} elements, exactly the compulsory ones: no mapping can move less there."
    ratio = f", {times(Fraction(moved, least))} as many" if least else ""
    plain = any(ir.is_plain(workload, tensor.name) for tensor in workload.tensors)
    what = "what is read before it is overwritten, and what is written, once" if plain else "each element once"
    return f"{name} moves {exact(moved)} elements; {exact(least)} are compulsory ({what}){ratio}."


def _energy(workload: ir.Workload, arch: ir.Architecture, cost: Cost) -> str:
    """Return the sentence on where the energy goes: the two dearest places, and the share of the compute."""
    if not cost.energy_pj:
        return ""
    figure = traffic_figure(workload, arch, cost)
    shares = sorted(cost.energy_by_level_pj, key=lambda pair: -pair[1])
    first = shares[0]
    tensors = [pair for bar in figure.bars if bar.level == first[0] for pair in bar.pj]
    most = max(tensors, key=lambda pair: pair[1], default=None)
    text = f"Energy {energy(cost.energy_pj)}: {first[0]} takes {percent(first[1] / cost.energy_pj)}"
    if most is not None and len(tensors) > 1:
        text += f", most of it for {most[0]}"
    others = [f"{name} {percent(pj / cost.energy_pj)}" for name, pj in shares[1:4] if pj]
    return f"{text}; {listing(others)}." if others else f"{text}."


def _latency(workload: ir.Workload, arch: ir.Architecture, cost: Cost) -> str:
    """Return the sentences on what decides the latency, and the idle compute units."""
    busy = f"{percent(cost.utilization)} of the compute units busy"
    order = "" if arch.overlap else " (transfers and compute one after the other)"
    if cost.steps is not None and cost.latency_cycles == ceil(cost.steps.cycles):
        text = f"Latency {exact(cost.latency_cycles)} cycles{order}, counted in steps; compute alone would take"
        return f"{text} {exact(cost.compute_cycles)}, with {busy}."
    if cost.bottleneck == arch.compute.name:
        return f"Latency {exact(cost.latency_cycles)} cycles{order}: compute decides, with {busy}."
    roof = next(level for level in roofline(workload, arch, cost).levels if level.level == cost.bottleneck)
    text = (
        f"Latency {exact(cost.latency_cycles)} cycles{order}: the transfers of {cost.bottleneck} decide; compute would "
        f"take {exact(cost.compute_cycles)}, with {busy}."
    )
    if roof.operations_per_byte is None or roof.ridge is None:
        return text
    return (
        f"{text} {cost.bottleneck} moves a byte for every {short(roof.operations_per_byte)} operations; the compute "
        f"units could do {short(OPERATIONS_PER_INSTANCE * roof.ridge)} in that time."
    )


_BINDINGS = {
    "issue": "tiles are too small",
    "load": "most of it {}, as tiles are reused too little, or lie in too short runs",
    "store": "sums leave too often, or lie in too short runs",
    "bus": "loads and stores take turns on it",
    "slots": "loads, work and stores take turns",
    "work": "{} decides",
}


def _steps(arch: ir.Architecture, cost: Cost) -> Iterator[str]:
    """Yield per level that holds tiles which resource binds in how many of its steps, that with most cycles first;
    where it is work, what inside of it. In a tree with branches children stand after what is around them."""
    if cost.steps is None:
        return
    groups: dict[tuple[str, str], list[StepClass]] = {}
    for each in cost.steps.classes:
        groups.setdefault((each.below, each.level), []).append(each)
    within: dict[tuple[str, str], str] = {}
    for one, other in pairwise([*groups, ("", "")]):
        inside = "what runs inside" if ", " in one[0] else arch.compute.name
        within[one] = other[1] if one[0] == other[0] and other[1] else inside
    children = list(dict.fromkeys(below for below, _ in groups))
    for key in sorted(groups, key=lambda one: (children.index(one[0]), arch.level_index(one[1]))):
        classes = groups[key]
        total = sum(each.steps for each in classes)
        parts: list[tuple[Fraction, str]] = []
        for binds, reason in _BINDINGS.items():
            own = [each for each in classes if each.binds == binds]
            if own:
                cycles = sum((each.steps * each.period_cycles for each in own), Fraction(0))
                steps = f"{exact(sum(each.steps for each in own))} of {exact(total)} steps"
                cause = max(own, key=lambda each: each.steps * each.period_cycles).cause
                why = reason.format(cause if binds == "load" else within[key])
                parts.append((cycles, f"{binds} binds in {steps} ({short(float(cycles))} cycles): {why}"))
        parts.sort(key=lambda part: -part[0])
        for_ = f" for {key[0]}" if key[0] else ""
        yield f"Steps of {key[1]}{for_}: {'; '.join(text for _, text in parts)}."


@dataclass(frozen=True, slots=True)
class Loop:
    """A temporal loop of more than one iteration, its dim as reports call it."""

    dim: str
    trips: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor's stays in a level.

    changing: loops above the node that change its tile, outermost first. again: loops that do not, but stand outside
    some that do (`swept`) or outside a branch around the node, so that each of their iterations brings the same
    elements in again. kept: loops between the changing ones and the node, during which the tile simply stays. used:
    loops below the node that reuse what it holds.
    """

    level: str
    tensor: str
    parent: str
    changing: tuple[Loop, ...]
    again: tuple[Loop, ...]
    swept: tuple[Loop, ...]
    kept: tuple[Loop, ...]
    used: tuple[Loop, ...]
    has_all: bool


def stays(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> tuple[Stay, ...]:
    """Return the stays of every tensor at every storage node below the outermost level, top to bottom."""
    outermost = arch.levels[0].name
    found: list[Stay] = []
    view = view_of(workload.extents(), mapping)
    for storage in view.storages:
        for tensor in storage.node.tensors if storage.node.level != outermost else ():
            around = (each.node for each in storage.above if isinstance(each, StorageInTree))
            *_, parent = outermost, *(node.level for node in around if tensor in node.tensors)
            found.append(_stay(workload, view, storage, tensor, parent))
    return tuple(found)


def _stay(workload: ir.Workload, view: LoopView, storage: StorageInTree, tensor: str, parent: str) -> Stay:
    relevant = {
        name
        for statement in workload.statements
        for access in ir.accesses_of(statement, tensor)
        for index in access.index
        for name in index.dims
    }
    above = _temporal(storage.loops)
    inside = view.computes_below(storage)
    own = {each.node.statement for each in inside}
    first, *others = inside
    # Loops above a branch around the node: nothing is kept from one execution of its child to the next.
    around = {loop for each in view.computes if each not in inside for loop in each.loops if loop in storage.loops}
    shared = set(first.loops).intersection(*(other.loops for other in others))
    below = _temporal(loop for loop in first.loops if loop.position > storage.position and loop in shared)
    last = max((number for number, loop in enumerate(above) if loop.dim in relevant), default=-1)
    last = max(last, len(_temporal(loop for loop in storage.loops if loop in around)) - 1)
    start = min((number for number, loop in enumerate(above) if loop.dim not in relevant), default=len(above))

    def named(loops: Iterable[Loop]) -> tuple[Loop, ...]:
        return tuple(Loop(loop.dim, loop.trips) for loop in loops)

    return Stay(
        level=storage.node.level,
        tensor=tensor,
        parent=parent,
        changing=named(loop for loop in above if loop.dim in relevant),
        again=named(loop for loop in above[: last + 1] if loop.dim not in relevant),
        swept=named(loop for loop in above[start:] if loop.dim in relevant),
        kept=named(above[last + 1 :]),
        used=named(loop for loop in below if loop.dim not in relevant),
        has_all=not any(
            ir.accesses_of(statement, tensor) for statement in workload.statements if statement.name not in own
        ),
    )


def _temporal(loops: Iterable[LoopInTree]) -> list[Loop]:
    """Return the temporal loops of more than one iteration."""
    return [Loop(loop.node.dim, loop.trips) for loop in loops if isinstance(loop.node, ir.Temporal) and loop.trips > 1]
