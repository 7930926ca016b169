"""One self-contained page about one question: the answer, its proof, its figures and tables, its program."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from html import escape

from polymap.codegen import generate_c
from polymap.costmodel import Cost, mapping_text
from polymap.explore import search
from polymap.formatting import energy, exact, percent, plural
from polymap.inputs import expected_kind, is_list, shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, PolymapError, Workload
from polymap.mapping_space import sample_mappings
from polymap.report import figures
from polymap.report.explanation import explain
from polymap.report.html import Cell, Section, folded, page, paragraphs, table, text_block
from polymap.report.summary import figures_text, status_text
from polymap.report.tuning import TUNING
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.search import SearchResult
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
