"""`pm.plot`: a picture of each kind of value. A plot takes the one value that knows its question, and searches nothing;
what takes searches is in `pm.study`."""

from __future__ import annotations

import sys
from collections.abc import Mapping as Table, Sequence
from typing import Never

from polymap.checker import Verdict
from polymap.costmodel import BufferCurve, Cost
from polymap.inputs import answers_in_words, expected_kind, is_list, is_table, shown
from polymap.ir import Mistake, OptionError
from polymap.networks import (
    CapacityCurve,
    Comparison,
    Fusion,
    NetworkAnswer,
    Sensitivity,
    SweepTable,
    TileStudy,
    WinnerStudy,
)
from polymap.report import binding_figure, binding_svg, figures, machine_front_figure, machine_front_svg
from polymap.report.figures import Picture
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, mapping_of, workload_of
from polymap.schedules import Schedule
from polymap.search import SearchResult
from polymap.search.trees import Sample

__all__ = [
    "array",
    "binding",
    "capacity",
    "cloud",
    "compare",
    "convergence",
    "coordinates",
    "dependences",
    "domain",
    "fate",
    "front",
    "fusion",
    "layers",
    "machine",
    "machines",
    "mapping",
    "orders",
    "proof",
    "rarity",
    "residency",
    "roofline",
    "schedule",
    "sensitivity",
    "smoothness",
    "steps",
    "tiles",
    "traffic",
    "winners",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Never:
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=sys.modules[__name__])


@answers_in_words
def mapping(result: SearchResult | Cost | MappingLike, *, width_px: int = 1000) -> Picture:
    """Return the loop nest of a mapping, what each level holds where, and what is filled and drained there.

    Statements below a branch stand side by side as far as `width_px` goes; without room for a column per tensor, what
    is held stands beside each level. Of a mapping alone: no sizes, no traffic.
    """
    if not isinstance(result, SearchResult | Cost):
        return figures.bare_svg(mapping_of(result), width_px=width_px)
    found = figures.subject_of(result)
    return figures.mapping_svg(found.workload, found.arch, found.mapping, found.cost, width_px=width_px)


@answers_in_words
def traffic(result: SearchResult | Cost, *, width_px: int = 860) -> Picture:
    """Return what moves at each level, and the energy that it takes, by tensor."""
    found = figures.subject_of(result)
    return figures.traffic_svg(found.workload, found.arch, found.cost, width_px=width_px)


@answers_in_words
def roofline(
    result: SearchResult | Cost | Sequence[SearchResult | Cost] | Table[str, SearchResult | Cost],
    *,
    width_px: int = 860,
) -> Picture:
    """Return operations per byte against operations per cycle, with a roof per level.

    Of several answers about one workload on one machine: a list (they are numbered), or a table of label -> answer.
    """
    given: object = result
    if is_table(given):
        named = {str(label): figures.subject_of(each) for label, each in given.items()}  # type: ignore[arg-type]
    elif is_list(given):
        named = {str(number): figures.subject_of(each) for number, each in enumerate(given, 1)}  # type: ignore[arg-type]
    else:
        named = {"": figures.subject_of(result)}  # type: ignore[arg-type]
    if not named:
        raise OptionError(Mistake("PM120", "there are no answers", "Expected at least one."))
    subjects = list(named.values())
    first = subjects[0]
    if any((each.workload, each.arch) != (first.workload, first.arch) for each in subjects):
        what = "the answers are about different workloads or machines"
        raise OptionError(Mistake("PM120", what, "Draw one roofline for each workload and machine."))
    costs = [(label, each.cost) for label, each in named.items()]
    return figures.roofline_svg(first.workload, first.arch, costs, width_px=width_px)


@answers_in_words
def layers(answer: NetworkAnswer | Sequence[NetworkAnswer] | Sequence[Comparison], *, width_px: int = 860) -> Picture:
    """Return what the layers of a network cost: one answer as a bar per layer, its energy by level; several (of one
    network, on different machines) as a matrix of layers and machines; comparisons of `pm.compare` (one per layer, on
    one machine) as a matrix of layers and dataflows.

    Raises OptionError for anything else, no answers, and answers about different layers or objectives.
    """
    given: object = answer
    if not is_list(given):
        return figures.layer_bars_svg(
            figures.layer_bars_figure(expected_kind(answer, NetworkAnswer, "the answer")), width_px=width_px
        )
    if given and isinstance(given[0], Comparison):
        compared = [expected_kind(each, Comparison, "a comparison") for each in given]
        return figures.layer_matrix_svg(figures.dataflow_matrix(compared), width_px=width_px)
    answers = [expected_kind(each, NetworkAnswer, "an answer") for each in given]
    return figures.layer_matrix_svg(figures.layer_matrix(answers), width_px=width_px)


@answers_in_words
def machine(arch: ArchitectureLike, *, width_px: int = 860) -> Picture:
    """Return the levels, fan-outs and compute units of a machine."""
    return figures.machine_svg(arch, width_px=width_px)


@answers_in_words
def residency(result: SearchResult | Cost | Fusion, *, width_px: int = 860) -> Picture:
    """Return what each level holds over time, tile by tile; of a program statement by statement; of `pm.study.fusion`
    nest after nest, and below it fused."""
    if isinstance(result, Fusion):
        return figures.residency_svg(figures.fusion_residency(result), width_px=width_px)
    found = figures.subject_of(result)
    return figures.residency_svg(figures.residency_figure(found.workload, found.arch, found.mapping), width_px=width_px)


@answers_in_words
def array(result: SearchResult | Cost, *, width_px: int = 860) -> Picture:
    """Return which compute unit works when, and which never does."""
    found = figures.subject_of(result)
    return figures.array_svg(figures.array_figure(found.workload, found.arch, found.mapping), width_px=width_px)


@answers_in_words
def steps(result: SearchResult | Cost, *, width_px: int = 860) -> Picture:
    """Return what the first steps of each level load, work on and store, and what binds, on a machine that says what
    single steps take."""
    found = figures.subject_of(result)
    return figures.steps_svg(figures.steps_figure(found.arch, found.mapping, found.cost), width_px=width_px)


@answers_in_words
def front(result: SearchResult, *, width_px: int = 860) -> Picture:
    """Return the points of a Pareto front (objective `pareto:...`), the proven ones filled."""
    return figures.front_svg(expected_kind(result, SearchResult, "the result"), width_px=width_px)


@answers_in_words
def convergence(result: SearchResult, *, width_px: int = 860) -> Picture:
    """Return value and bound over the seconds of a search; where they meet, the optimum is proven."""
    return figures.course_svg(figures.course_figure(result), width_px=width_px)


@answers_in_words
def fate(result: SearchResult | Verdict, *, width_px: int = 860) -> Picture:
    """Return what became of the structures of a search over dividing tiles: how many were searched, refuted, without a
    mapping (symmetric ones count once); of a verdict of `pm.verify` a map of all structures, symmetric ones too, each
    with what refuted it."""
    if isinstance(result, Verdict):
        return figures.refuted_svg(figures.proof_figure(result), width_px=width_px)
    return figures.fate_svg(figures.fate_figure(result), width_px=width_px)


@answers_in_words
def proof(verdict: Verdict, *, width_px: int = 860) -> Picture:
    """Return the bounds of all structures, as `pm.verify` derived them, and a line at what the best mapping costs. Only
    structures that were searched are below it. verdict: on a certificate of an optimum over dividing tiles."""
    return figures.proof_svg(figures.proof_figure(verdict), width_px=width_px)


@answers_in_words
def compare(
    result: SearchResult | Cost,
    other: SearchResult | Cost,
    names: tuple[str, str] = ("first", "second"),
    *,
    width_px: int = 860,
) -> Picture:
    """Return two mappings of one workload on one machine side by side: loops, and energy by level."""
    one, two = figures.subject_of(result), figures.subject_of(other)
    if (one.workload, one.arch) != (two.workload, two.arch):
        what = "the two answers are about different workloads or machines"
        raise OptionError(Mistake("PM120", what, "Expected two mappings of one workload on one machine."))
    figure = figures.side_by_side(one.workload, one.arch, one.mapping, two.mapping, names)
    return figures.side_by_side_svg(figure, width_px=width_px)


@answers_in_words
def fusion(result: Fusion | SearchResult, *, width_px: int = 860) -> Picture:
    """Return what fusing saves: elements moved at each level, fused and nest after nest (of `pm.study.fusion`); of a
    result of `explore` about a program, what each level holds while each statement runs."""
    return (
        figures.fusion_svg(result, width_px=width_px)
        if isinstance(result, Fusion)
        else residency(result, width_px=width_px)
    )


@answers_in_words
def cloud(sample: Sample, families: Comparison | None = None, *, width_px: int = 860) -> Picture:
    """Return energy against latency of sampled mappings, with their front; families: of `pm.compare`, marked."""
    return figures.cloud_svg(figures.cloud_figure(sample, families), width_px=width_px)


@answers_in_words
def rarity(sample: Sample, optimum: SearchResult | float | None = None, *, width_px: int = 860) -> Picture:
    """Return how many times the least energy the sampled mappings that fit cost. optimum: a result of `explore` for
    energy, or pJ; without one, the least energy of the sample."""
    sample = expected_kind(sample, Sample, "the sample")
    scores = sample.scores()
    fitting = scores.energy_pj[scores.fits].tolist()
    if not fitting:
        hint = "Draw more, or with within_capacity=True."
        raise OptionError(Mistake("PM575", "no mapping of the sample fits the machine", hint))
    least = optimum.value if isinstance(optimum, SearchResult) else optimum
    whose = "the least of the sample" if optimum is None else "the least energy"
    title = f"{sample.workload.name} on {sample.arch.name}: energy of the mappings that fit, over {whose}"
    return figures.rarity_svg(
        figures.rarity_figure(title, fitting, min(fitting) if least is None else float(least)), width_px=width_px
    )


@answers_in_words
def smoothness(sample: Sample, *, width_px: int = 860) -> Picture:
    """Return the energies of sampled mappings against those of their neighbours."""
    return figures.smooth_svg(figures.smooth_figure(sample), width_px=width_px)


@answers_in_words
def coordinates(sample: Sample, *, width_px: int = 860) -> Picture:
    """Return a line per sampled mapping over axes of energy, latency, compute units, what levels hold and move."""
    return figures.coordinates_svg(figures.coordinates_figure(sample), width_px=width_px)


@answers_in_words
def orders(workload: WorkloadLike, arch: ArchitectureLike, *, width_px: int = 860) -> Picture:
    """Return all orders of up to seven loops, in classes of equal traffic; every tensor is held one element at a time
    in the innermost level that may hold it."""
    return figures.order_svg(figures.order_figure(workload, arch), width_px=width_px)


@answers_in_words
def tiles(study: TileStudy, *, width_px: int = 860) -> Picture:
    """Return what two tile sizes of one mapping cost (of `pm.study.tiles`)."""
    return figures.tile_map_svg(study, width_px=width_px)


@answers_in_words
def winners(study: WinnerStudy, *, width_px: int = 860) -> Picture:
    """Return which dataflow wins over the sizes of two buffers (of `pm.study.winners`)."""
    return figures.winner_svg(study, width_px=width_px)


@answers_in_words
def capacity(curve: CapacityCurve | BufferCurve, *, width_px: int = 860) -> Picture:
    """Return traffic (and energy) against the size of a buffer, with what nothing beats: of `pm.study.capacity`, or of
    `pm.study.buffer_curve`, whose picture can be of another width."""
    if isinstance(curve, BufferCurve):
        return figures.buffer_curve_svg(curve, width_px=width_px)
    return figures.capacity_svg(curve, width_px=width_px)


@answers_in_words
def sensitivity(answer: Sensitivity, *, width_px: int = 860) -> Picture:
    """Return what more and less of each resource does to the optimum (of `pm.study.sensitivity`)."""
    return figures.sensitivity_svg(answer, width_px=width_px)


@answers_in_words
def machines(table: SweepTable, *, width_px: int = 860) -> Picture:
    """Return the machines of a sweep: the first objective against on-chip memory, those that none beats joined."""
    return machine_front_svg(machine_front_figure(table), width_px=width_px)


@answers_in_words
def binding(table: SweepTable, across: str | None = None, up: str | None = None, *, width_px: int = 860) -> Picture:
    """Return which level takes most on each machine of a sweep's grid over two fields (the first two, if none are
    named)."""
    table = expected_kind(table, SweepTable, "the sweep")
    if across is None or up is None:
        grid = table.rows[0].machine if table.rows else None
        fields = [str(name) for name in grid if str(name) not in (across, up)] if is_table(grid) else []
        if len(fields) < (across is None) + (up is None):
            raise OptionError(Mistake("PM575", f"the sweep has no grid of two fields: {shown(grid)}", "Sweep two."))
        across = fields.pop(0) if across is None else across
        up = fields.pop(0) if up is None else up
    return binding_svg(binding_figure(table, across, up), width_px=width_px)


@answers_in_words
def domain(
    workload: WorkloadLike, statement: str | None = None, *, tile: tuple[int, int] = (4, 4), width_px: int = 860
) -> Picture:
    """Return the instances of a statement of two loops with dependences, tiles and wavefronts. statement: its name (the
    first, if none is named); tile: instances along each loop."""
    asked = workload_of(workload)
    figure = figures.domain_figure(asked, asked.statements[0].name if statement is None else statement, tile=tile)
    return figures.domain_svg(figure, width_px=width_px)


@answers_in_words
def schedule(schedule: Schedule, *, width_px: int = 860) -> Picture:
    """Return a schedule as one scattering matrix per statement."""
    return figures.schedule_svg(figures.schedule_figure(schedule), width_px=width_px)


@answers_in_words
def dependences(workload: WorkloadLike, *, width_px: int = 860) -> Picture:
    """Return the statements of a program and the dependences between them, with their distances."""
    return figures.dependence_graph_svg(figures.dependence_graph(workload_of(workload)), width_px=width_px)
