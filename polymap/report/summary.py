"""Every answer as text: what the command line prints without --json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from polymap.costmodel import Cost, mapping_text
from polymap.formatting import exact, listing, percent, plural, size, table, vectors
from polymap.ir import Architecture, ComputeUnit, Fanout, InstancePoint, Mapping, MemoryLevel, Violation, Workload
from polymap.report.explanation import explain
from polymap.report.figures import front_text, traffic_text
from polymap.report.tuning import TUNING
from polymap.search.problem import unit_of
from polymap.workload import statement_text

if TYPE_CHECKING:
    from polymap.codegen import CRun
    from polymap.schedules import Band, Checkup, Nests
    from polymap.search import SearchResult
    from polymap.workload import Dependence


PARALLEL = {"yes": "parallel", "reduction": "parallel if its sums are added up afterwards", "no": "sequential"}


def _exact(value: int | float | None) -> str:
    return "-" if value is None else exact(value)


def status_text(result: SearchResult) -> str:
    """Return status, value, bound, gap and seconds on one line."""
    status = result.stated
    gap = "-" if result.gap is None else f"{100 * result.gap:.3g} %"
    if result.front:
        return f"{status}: {result.objective}, {plural(len(result.front), 'point')}, {result.seconds:.1f} s"
    if result.value is None and result.bound is None:
        return f"{status}: no mapping, {result.seconds:.1f} s"
    values = result.values or ((result.objective, result.value),)
    bounds = dict(result.bounds or ((result.objective, result.bound),))
    parts = [
        f"{name} {_exact(value)}{unit_of(name)}, bound {_exact(bounds[name])}{unit_of(name)}" for name, value in values
    ]
    return f"{status}: {'; '.join(parts)}, gap {gap}, {result.seconds:.1f} s"


def dividing_text(result: SearchResult) -> str:
    """Return what is proven over dividing tiles, and what is known over all tiles."""
    dividing = result.dividing
    assert dividing is not None
    if dividing.status == "OPTIMAL":
        known = "proven"
    elif dividing.status == "INFEASIBLE":
        known = "there is none"
    else:
        known = "none found yet" if dividing.gap is None else f"gap {100 * dividing.gap:.3g} %, not proven"
    value = "" if dividing.value is None else f" {_exact(dividing.value)}{unit_of(_first_part(result))}"
    over_all = (
        "proven" if result.status == "OPTIMAL" else None if result.gap is None else f"gap {100 * result.gap:.3g} %"
    )
    return f"best dividing{value}: {known}" + (f"; over all sizes: {over_all}" if over_all else "")


def _first_part(result: SearchResult) -> str:
    return result.values[0][0] if result.values else result.objective


def proof_text(result: SearchResult) -> str:
    """Return how sure the answer is, and by what: one sentence."""
    over = "with tiles that divide" if result.settings.tiles == "divide" else "of whatever tile sizes"
    if result.best is None:
        return "There is no mapping to prove anything of."
    if result.status != "OPTIMAL":
        return f"Not proven: {_ended_by(result)}. {_best_bound(result)}"
    what = "beats a point of the front in one value and is as good in the others" if result.front else "is better"
    if result.space.name:
        return f"Proven among {result.space.name} (docs/program_space.md): none of them {what}; others may be."
    return f"Proven: no legal mapping {over} {what}.{_structures(result)}"


def _ended_by(result: SearchResult) -> str:
    asked = result.settings
    timed = result.seconds < asked.time_limit_s and asked.memory_limit_mb is None
    worked = asked.work_limit is None or result.work < asked.work_limit
    return "the search tried all that it knows for such a question" if timed and worked else "a limit ended the search"


def _best_bound(result: SearchResult) -> str:
    if result.front:
        return "Mappings that are not known may be better than points of this front."
    name = _first_part(result)
    unit = unit_of(name)
    gap = "" if result.gap is None else f", {100 * result.gap:.3g} % below the value found"
    return f"No legal mapping has less {name} than {_exact(result.bound)}{unit}{gap}."


def _structures(result: SearchResult) -> str:
    space = result.space
    if space.listed is None:
        return ""
    ways = ((space.evaluated, "searched"), (space.pruned, "refuted by a bound"), (space.infeasible, "without room"))
    told = listing([f"{exact(count)} {how}" for count, how in ways if count])
    return f" Structures (which dims run in parallel, over which fan-outs): {exact(space.listed)}; {told}."


def result_text(workload: Workload, arch: Architecture, result: SearchResult) -> str:
    """Return the answer of a search: status, space, the front, the best mapping and what it costs."""
    lines = [status_text(result)]
    lines += [dividing_text(result)] if result.dividing is not None else []
    lines += [str(result.space)]
    if result.front:
        lines += ["", front_text(result), "", "The first point:"]
    if result.best is not None and result.cost is not None:
        lines += ["", cost_text(workload, arch, result.best, result.cost)]
    return "\n".join(lines)


def cost_text(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost) -> str:
    """Return a mapping as an annotated nest, whether it is legal, its traffic and figures, and why they are so."""
    parts = [mapping_text(workload, mapping, arch)]
    if cost.violations:
        parts.append("not legal:\n" + "\n".join(violation_text(violation) for violation in cost.violations))
    parts += [traffic_text(cost), figures_text(cost), explain(workload, arch, mapping, cost)]
    return "\n\n".join(parts)


def figures_text(cost: Cost) -> str:
    """Return energy, latency, utilization and occupancy, one line each."""
    energy = ", ".join(f"{name} {exact(pj)}" for name, pj in cost.energy_by_level_pj)
    held = ", ".join(f"{name} {exact(bits)}" for name, bits in cost.occupancy_bits) or "-"
    return "\n".join(
        (
            f"energy       {exact(cost.energy_pj)} pJ ({energy})",
            f"latency      {exact(cost.latency_cycles)} cycles (compute {exact(cost.compute_cycles)}; "
            f"{cost.bottleneck} decides)",
            f"utilization  {percent(cost.utilization)} of the compute units, "
            f"{exact(cost.instances)} statement instances",
            f"occupancy    bits of one instance: {held}",
        )
    )


def violation_text(violation: Violation) -> str:
    """Return a broken rule and its witness."""
    points = [item for item in violation.witness if isinstance(item, InstancePoint)]
    shown = " before ".join(
        f"{point.statement}[{', '.join(f'{name}={value}' for name, value in point.values)}]" for point in points
    )
    return f"  {violation.kind}: {violation.message}" + (f" (witness: {shown})" if shown else "")


def no_answer_text(result: SearchResult) -> str:
    """Return why a search has no mapping to show, and what would help."""
    clash = "\n".join(f"      {reason}" for reason in result.clash)
    if result.status == "TIMEOUT" and result.clash:
        return (
            f"PM571 no mapping found in {result.seconds:.1f} s; with tiles that divide there is none, as these clash:\n"
            f"{clash}"
        )
    if result.status == "TIMEOUT":
        return f"PM571 no mapping found in {result.seconds:.1f} s\n      A longer --time-limit may find one."
    return f"PM572 no mapping satisfies all requirements; these clash:\n{clash}"


def run_text(run: CRun) -> str:
    """Return the result of a C program's run."""
    result = "equal to" if run.matches_reference else "DIFFERENT FROM"
    if run.counts_match is None:
        counts = "it counts no words"
    else:
        equal = "equal to" if run.counts_match else "DIFFERENT FROM"
        counts = f"the words that it counted are {equal} the predicted ones"
    return f"ran in {run.seconds:.2f} s: every output element is {result} the reference; {counts}"


def list_text(workloads: Sequence[Workload], machines: Sequence[Architecture]) -> str:
    """Return the built-in workloads with their loops, and the machines with their levels and fan-outs."""
    if not workloads and not machines:
        return "no built-in workload or machine has such a name; `polymap list`, `polymap list machines` print all"
    layers = [
        (workload.name, statement_text(workload.statements[0]), " ".join(f"{d.name}={d.extent}" for d in workload.dims))
        for workload in workloads
    ]
    nodes = [(arch.name, " > ".join(_node_text(node) for node in arch.nodes)) for arch in machines]
    tables = [
        table(head, rows, left=left)
        for head, rows, left in (
            (("workload", "statement", "sizes"), layers, 3),
            (("machine", "levels, fan-outs and compute unit, outermost first"), nodes, 2),
        )
        if rows
    ]
    return "\n\n".join(tables)


def _node_text(node: MemoryLevel | Fanout | ComputeUnit) -> str:
    match node:
        case MemoryLevel(name=name, capacity_bits=None):
            return name
        case MemoryLevel(name=name, capacity_bits=int(bits)):
            return f"{name} ({size(bits)})"
        case Fanout(name=name):
            return f"{name} x{node.size}"
        case _:
            return node.name


def checkup_text(checkup: Checkup, *, relations: bool = False) -> str:
    """Return dependences, loops, bands and legal orders of a workload, and what a mapping breaks.

    relations: with the relation of each dependence as isl prints it.
    """
    parts = [dependences_text(checkup, relations=relations), orders_text(checkup), nests_text(checkup.nests)]
    if checkup.violations is not None:
        broken = "\n".join(violation_text(violation) for violation in checkup.violations)
        parts.append(f"the mapping breaks dependences:\n{broken}" if broken else "the mapping breaks no dependence")
    return "\n\n".join(parts)


def dependences_text(checkup: Checkup, *, relations: bool = False) -> str:
    """Return one line per dependence: kind, tensor, ends, distances and directions along the loops of both ends.

    A distance that varies is *. < is towards a later iteration, = the same one, > an earlier one.
    """
    if not checkup.dependences:
        return "no dependences"
    lines: list[str] = []
    for each in checkup.dependences:
        lines.append(dependence_text(each))
        if relations:
            lines.append(f"    {each.relation_text}")
    return "\n".join(lines)


def dependence_text(dependence: Dependence) -> str:
    """Return a dependence in one line, as `dependences_text` does."""
    ends = f"{dependence.kind.value} of {dependence.tensor}, {dependence.source} to {dependence.sink}"
    return f"{ends}, {along_text(dependence.dims, dependence.distances, dependence.signs)}"


def along_text(loops: Sequence[str], distances: Sequence[Sequence[int | None]], signs: Sequence[Sequence[int]]) -> str:
    """Return how far apart the ends of a dependence are along their common loops."""
    if not loops:
        return "no common loop"
    ways = " ".join(f"({', '.join(directions(sign))})" for sign in signs)
    return f"along {' '.join(loops)}: {vectors(distances) or 'many distances'}, directions {ways}"


def directions(sign: Sequence[int]) -> tuple[str, ...]:
    """Return signs of distances as directions: < from an earlier to a later iteration."""
    return tuple("=<>"[each] for each in sign)


def nests_text(nests: Nests) -> str:
    """Return one line per loop, per band of several loops, and per pair of neighbouring loops."""
    lines = loop_lines(
        (each.name, each.depth, PARALLEL[each.parallel.value] + ", vectorizable" * each.vectorizable, each.statements)
        for each in nests.loops
    )
    for band in nests.bands:
        if len(band.loops) > 1:
            lines.append(f"band {' '.join(band.loops)}: {_tiling_text(band)}")
    for pair in nests.neighbours:
        broken = pair.broken
        why = "" if broken is None else f": {broken.kind.value} of {broken.tensor}, {broken.source} to {broken.sink}"
        lines.append(f"{pair.first} and {pair.second} {'can be fused' if broken is None else 'cannot be fused'}{why}")
    return "\n".join(lines)


def loop_lines(loops: Iterable[tuple[str, int, str, Sequence[str]]]) -> list[str]:
    """Return a line per loop: (name, loops around it, what is told of it, statements in it)."""
    named = [("  " * depth + name, told, statements) for name, depth, told, statements in loops]
    width = max((len(name) for name, _, _ in named), default=0)
    return [f"{name:{width}}  {told}  ({' '.join(statements)})" for name, told, statements in named]


def permutable_text(runs: Sequence[Sequence[str]]) -> str:
    """Return which runs of a band's loops are permutable."""
    if len(runs) == 1:
        return "permutable, tilable"
    return f"permutable within {' | '.join(' '.join(run) for run in runs)}"


def _tiling_text(band: Band) -> str:
    told = permutable_text(band.permutable)
    if len(band.permutable) == 1:
        return told
    if band.skews is None:
        return f"{told}; no skew found that makes all of it tilable"
    skews = [
        f"{loop} := {loop} + {' + '.join(name if factor == 1 else f'{factor} {name}' for factor, name in added)}"
        for loop, added in band.skews
    ]
    return f"{told}; tilable after the skew {', '.join(skews)}"


def orders_text(checkup: Checkup) -> str:
    """Return how many orders the outermost perfect nest has, how many are legal, and which loops run in parallel."""
    if not checkup.loops:
        return "no loop encloses the whole program; each of its nests:"
    orders = checkup.orders
    words = {True: PARALLEL["yes"], "reduction": PARALLEL["reduction"], False: PARALLEL["no"]}
    lines = [
        f"loops       {' '.join(checkup.loops)}: {exact(orders.total)} orders",
        f"legal       {_exact(orders.strict)} with the order of accumulations kept, "
        f"{_exact(orders.relaxed)} with it free",
    ]
    if orders.legal_strict is not None and 0 < len(orders.legal_strict) <= TUNING.most_orders:
        lines += [f"            {' '.join(order)}" for order in orders.legal_strict]
    lines += [f"loop {name:6} {words[answer]}" for name, answer in checkup.parallel]
    return "\n".join(lines)
