"""One self-contained page about one question: the answer, its proof, its figures and tables, its program."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape

from polymap.codegen import generate_c
from polymap.costmodel import Cost, mapping_text
from polymap.explore import search
from polymap.formatting import energy, exact, percent, plural
from polymap.inputs import expected_kind, is_list, is_table, shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, PolymapError, Workload
from polymap.networks import NetworkAnswer, SweepTable, share_of
from polymap.report import figures
from polymap.report.explanation import explain
from polymap.report.figures import layer_bars_figure, layer_bars_svg, machine_svg, machine_text, picture_html
from polymap.report.html import Cell, Section, folded, page, paragraphs, table, text_block
from polymap.report.machines import binding_figure, binding_svg, machine_front_figure, machine_front_svg
from polymap.report.networks import answer_text, machine_label, sweep_text
from polymap.report.summary import figures_text, status_text
from polymap.report.tuning import TUNING
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.search import SearchResult
from polymap.search.problem import unit_of
from polymap.search.trees import sample_mappings
from polymap.verify import verify
from polymap.workload import workload_text


@dataclass(frozen=True, slots=True)
class Answer:
    """What the page is about: a question, its result, and the best mapping with its cost."""

    workload: Workload
    arch: Architecture
    result: SearchResult
    best: Mapping
    cost: Cost

    @property
    def title(self) -> str:
        """Return the page's title."""
        return f"{self.workload.name} on {self.arch.name}"


def _named(other: object) -> tuple[str, Mapping]:
    """Return the name and the mapping that a caller gave as the second one."""
    if is_list(other) and len(other) == 2 and isinstance(other[0], str):
        return other[0], mapping_of(other[1])
    raise OptionError(Mistake("PM120", f"the second mapping is {shown(other)}", "Expected (name, mapping), or None."))


def report_page(
    workload: WorkloadLike, arch: ArchitectureLike, result: SearchResult, other: tuple[str, Mapping] | None = None
) -> str:
    """Return the page as HTML, in one file without outside references, below 2 MB.

    other: a second mapping and its name, shown beside the best one; by default the best mapping for another objective.
    Raises OptionError where the result has no mapping.
    """
    workload, arch = question_of(workload, arch)
    result = expected_kind(result, SearchResult, "the result")
    if result.best is None or result.cost is None:
        what = f"a report is about a mapping, and this {result.status} answer has none"
        raise OptionError(Mistake("PM574", what, "Search again with more time, or loosen what it must meet."))
    answer = Answer(workload, arch, result, result.best, result.cost)
    second = _second(answer) if other is None else _named(other)
    sections = [
        _answer(answer),
        _mapping(answer),
        _moves(answer),
        _proof(answer),
        _space(answer),
        *([_beside(answer, *second)] if second else []),
        _question(answer),
        _program(answer),
    ]
    lead = f'<p><span class="status {escape(result.status)}">{escape(result.stated)}</span> {_headline(answer)}</p>'
    return page(f"polymap: {answer.title}", lead, sections)


def _headline(answer: Answer) -> str:
    cost, result = answer.cost, answer.result
    parts = [f"objective {result.objective}", energy(cost.energy_pj), f"{exact(cost.latency_cycles)} cycles"]
    return escape(", ".join([*parts, f"{percent(cost.utilization)} of the compute units busy"]))


def _answer(answer: Answer) -> Section:
    words = explain(answer.workload, answer.arch, answer.best, answer.cost)
    told = paragraphs(f"{status_text(answer.result)}\n{answer.result.space}")
    if answer.result.front:
        told += figures.picture_html(figures.front_svg(answer.result)) + folded(
            "The front as text", text_block(figures.front_text(answer.result))
        )
        told += paragraphs("What follows is about its first point.")
    return Section("answer", "The answer", told + paragraphs(words) + text_block(figures_text(answer.cost)))


def _mapping(answer: Answer) -> Section:
    asked = (answer.workload, answer.arch, answer.best)
    drawn = figures.picture_html(figures.mapping_svg(*asked, answer.cost))
    plain = text_block(mapping_text(answer.workload, answer.best, answer.arch))
    return Section("mapping", "The mapping", drawn + folded("As text", plain))


def _moves(answer: Answer) -> Section:
    workload, arch, cost = answer.workload, answer.arch, answer.cost
    bars = {bar.level: dict(bar.pj) for bar in figures.traffic_figure(workload, arch, cost).bars}
    rows: list[list[Cell]] = [
        [row.level, row.tensor, row.reads, row.writes, row.fills, row.drains, bars[row.level][row.tensor]]
        for row in cost.traffic
    ]
    head = ("level", "tensor", "reads", "writes", "fills", "drains", "energy, pJ")
    moved = table(head, rows, "Elements, all instances together; fills are part of the writes, drains of the reads.")
    held = dict(cost.occupancy_bits)
    room = {level.name: level.capacity_bits for level in arch.levels}
    levels: list[list[Cell]] = [
        [name, pj, 100 * pj / cost.energy_pj if cost.energy_pj else 0.0, held.get(name), room.get(name)]
        for name, pj in cost.energy_by_level_pj
    ]
    head = ("level", "energy, pJ", "share, %", "held, bits", "capacity, bits")
    spent = table(head, levels, "Energy, and the most that one instance holds.")
    pictures = figures.picture_html(figures.traffic_svg(workload, arch, cost)) + figures.picture_html(
        figures.roofline_svg(workload, arch, [("best", cost)])
    )
    return Section("traffic", "What moves, and what it costs", pictures + moved + spent)


def _proof(answer: Answer) -> Section:
    result = answer.result
    drawn = figures.picture_html(figures.course_svg(figures.course_figure(result))) if result.history else ""
    try:
        certificate = result.certificate()
    except PolymapError as error:
        told = paragraphs(f"There is no certificate. {error.mistakes[0].what[:1].upper()}{error.mistakes[0].what[1:]}.")
        fates = (
            figures.picture_html(figures.fate_svg(figures.fate_figure(result)))
            if result.space.listed is not None
            else ""
        )
        return Section("proof", "The proof", fates + drawn + told)
    verdict = verify(certificate)
    body = text_block(str(verdict))
    if verdict.reasons:
        data = figures.proof_figure(verdict)
        body += figures.picture_html(figures.proof_svg(data)) + figures.picture_html(figures.refuted_svg(data))
    if len(certificate) <= TUNING.proof_characters:
        body += folded(f"The certificate ({plural(certificate.count(chr(10)), 'line')})", text_block(certificate))
    told = "Checked while this page was written, by code that shares nothing with the search:"
    return Section("proof", "The proof", drawn + paragraphs(told) + body)


def _space(answer: Answer) -> Section:
    try:
        sample = sample_mappings(answer.workload, answer.arch, TUNING.sampled_mappings, seed=0)
        proven = answer.result.status == "OPTIMAL"
        own = float(answer.cost.latency_cycles), answer.cost.energy_pj, proven
        data = replace(figures.cloud_figure(sample), marked=(("optimum" if proven else "the answer", *own),))
    except PolymapError as error:
        return Section("space", "The space around it", paragraphs(f"No sample of it: {error}"))
    drawn = figures.picture_html(figures.cloud_svg(data))
    best = f"{energy(answer.cost.energy_pj)} and {exact(answer.cost.latency_cycles)} cycles"
    told = f"Legal mappings with dividing tiles, each as likely as any other. The answer, marked: {best}."
    return Section("space", "The space around it", drawn + paragraphs(told))


def _second(answer: Answer) -> tuple[str, Mapping] | None:
    """Return a mapping that is better than the answer in another objective, and of those of its value the best in the
    objective asked for, with its name; None where none is found: the answer then dominates all that was found."""
    own = answer.result.objective if answer.result.objective in ("energy", "latency") else "energy"
    other = "energy" if own == "latency" else "latency"
    limits = {"time_limit_s": TUNING.second_s, "work_limit": TUNING.second_work}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the machine: the answer's own search has told them
        found = search(answer.workload, answer.arch, f"lex:{other},{own}", "divide", **limits)
    if found.best is None or found.cost is None or found.workload != answer.workload:
        return None
    values = [cost.energy_pj_exact if other == "energy" else cost.latency_cycles for cost in (found.cost, answer.cost)]
    if values[0] >= values[1]:
        return None
    proven = found.bounds[0][1] == found.values[0][1]  # the order may be open although its first part is proven
    return f"{'best for' if proven else 'better in'} {other}", found.best


def _beside(answer: Answer, name: str, mapping: Mapping) -> Section:
    names = ("the answer", name)
    data = figures.side_by_side(answer.workload, answer.arch, answer.best, mapping, names)
    rows: list[list[Cell]] = [[row.what, *row.written, row.ratio] for row in data.rows]
    both = table(("figure", *names, "second over first"), rows, "What differs.")
    return Section(
        "beside",
        f"Beside it: {name}",
        figures.picture_html(figures.side_by_side_svg(data))
        + both
        + folded("As text", text_block(figures.side_by_side_text(data))),
    )


def _question(answer: Answer) -> Section:
    plain = folded("As text", text_block(figures.machine_text(answer.arch)))
    return Section(
        "question",
        "The question",
        text_block(workload_text(answer.workload)) + figures.picture_html(figures.machine_svg(answer.arch)) + plain,
    )


def _program(answer: Answer) -> Section:
    try:
        source = generate_c(answer.workload, answer.arch, answer.best)
    except PolymapError as error:
        return Section("program", "The program", paragraphs(f"No program: {error}"))
    lines = plural(source.count("\n"), "line")
    if len(source) > TUNING.code_characters:
        return Section("program", "The program", paragraphs(f"{lines} of C: `polymap codegen` writes them to a file."))
    told = "Every copy that the machine makes, counted where it happens. It compiles as it stands."
    return Section("program", "The program", paragraphs(told) + folded(f"{lines} of C99", text_block(source)))


def network_page(answer: NetworkAnswer) -> str:
    """Return the page about a network: totals and what is missing, a bar and a row per layer, the layers' mappings in
    sentences, the machine."""
    drawn = picture_html(layer_bars_svg(layer_bars_figure(answer))) if answer.layers else ""
    head = ("layer", "nodes", "MACs of one", "value of one", "no mapping below", "all nodes", "share, %", "status")
    rows: list[list[Cell]] = []
    for each in answer.layers:
        share, found = share_of(answer, each), each.exact is not None
        values = [_cell(each.exact if found else None), _cell(each.exact_bound)]
        totals: list[Cell] = [_cell(each.total if found else None), None if share is None else 100 * share]
        rows.append([each.layer.name, each.layer.multiplicity, each.layer.macs, *values, *totals, each.result.stated])
    layers = table(head, rows, f"Each distinct layer; values in the unit of {answer.objective}.")
    told = "".join(
        folded(f"{each.layer.name}: {each.result.stated}", paragraphs(each.result.explain()))
        for each in answer.layers
        if each.result.best is not None
    )
    sections = [
        Section("answer", "The answer", text_block(answer_text(answer)) + drawn),
        Section("layers", "Layers", layers),
        Section("why", "Why each layer costs what it costs", told or paragraphs("No layer has a mapping.")),
        Section(
            "machine", "The machine", picture_html(machine_svg(answer.arch)) + text_block(machine_text(answer.arch))
        ),
    ]
    value = (
        "no value" if answer.exact is None else f"{answer.objective} {exact(answer.exact)}{unit_of(answer.objective)}"
    )
    gap = "" if answer.gap is None else f", gap {percent(answer.gap)}"
    title = f"polymap: {answer.network.name} on {answer.arch.name}"
    return page(title, _lead(answer.stated, f"{value}{gap}"), sections)


def sweep_page(found: SweepTable) -> str:
    """Return the page about a sweep: the machines that none beats and what takes most, pictures, layers
    beside machines, a row per question."""
    areas = ("area, um2",) if any(each.area_um2 is not None for each in found.rows) else ()
    head = ("workload", "machine", "objective", "value", "no mapping below", "on-chip bits", *areas, "status", "from")
    rows: list[list[Cell]] = []
    for each in found.rows:
        value, bound = _cell(each.value), _cell(each.bound)
        named: list[Cell] = [each.workload, machine_label(each.machine), each.objective]
        taken = (each.on_chip_bits, *(_cell(each.area_um2) for _ in areas))
        rows.append([*named, value, bound, *taken, each.status, each.how])
    sections = [
        Section("answer", "The answer", text_block(sweep_text(found)) + _drawn(found)),
        Section("matrix", "Layers on machines", "".join(_matrix(found, each) for each in found.objectives)),
        Section("rows", "All rows", table(head, rows, "Values and bounds in the unit of the objective.")),
    ]
    proven = "OPTIMAL" if found.is_proven else "FEASIBLE"
    return page("polymap: a sweep over machines", _lead(proven, f"{len(found.rows):,} rows"), sections)


def _matrix(found: SweepTable, objective: str) -> str:
    """Return a row per machine and a column per layer: the values of all its nodes."""
    layers = [*dict.fromkeys(row.workload for row in found.rows)]
    machines: dict[str, dict[str, Cell]] = {}
    for row in found.rows:
        if row.objective == objective:
            value = None if row.value is None else row.value * row.multiplicity
            machines.setdefault(machine_label(row.machine), {})[row.workload] = _cell(value)
    rows = [[name, *(values.get(layer) for layer in layers)] for name, values in machines.items()]
    return table(("machine", *layers), rows, f"{objective},{unit_of(objective)} of all nodes of a layer.")


def _drawn(found: SweepTable) -> str:
    """Return the pictures that the sweep has: machines with their front, and what binds on a grid of two fields."""
    drawn = ""
    try:
        drawn += picture_html(machine_front_svg(machine_front_figure(found)))
        grid = found.rows[0].machine if found.rows else None
        if is_table(grid) and len(grid) > 1:
            across, up = [str(name) for name in grid][:2]
            drawn += picture_html(binding_svg(binding_figure(found, across, up)))
    except PolymapError as error:
        drawn += paragraphs(f"No further picture: {error.mistakes[0].what}.")
    return drawn


def _cell(value: Fraction | None) -> Cell:
    """Return a value as a cell: whole ones as integers of any length."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(value)


def _lead(status: str, told: str) -> str:
    return f'<p><span class="status {escape(status)}">{escape(status)}</span> {escape(told)}</p>'
