"""Several mappings as text: families (and as a JSON document), samples, their scores, studies of sizes and tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polymap.costmodel import bare_text, mapping_text
from polymap.costmodel.tables import CostArrays
from polymap.formatting import energy, exact, listing, percent, plural, size, table, times
from polymap.ir import Fanout
from polymap.networks import CapacityCurve, CapacityPoint, Comparison, TileStudy, Winner, WinnerStudy
from polymap.search import cost_document, head_document, mapping_document, number, units_document
from polymap.search.problem import unit_of
from polymap.search.trees import Sample, Scores
from polymap.tile_sizes import TileChoice


def comparison_text(comparison: Comparison) -> str:
    """Return a row per family: its best value, how far that may still fall, and how it stands to the optimum."""
    unit = unit_of(comparison.objective)
    rows = [
        (
            each.family,
            "-" if each.value is None else exact(each.value),
            exact(each.bound),
            "-" if each.gap is None else percent(each.gap),
            "-" if each.value is None or not comparison.optimum else times(each.value / comparison.optimum),
            each.status,
        )
        for each in comparison.members
    ]
    name = f"{comparison.objective},{unit}" if unit else comparison.objective
    of_what = "of the optimum" if comparison.is_proven else "of the best known"
    shown = table(("family", name, "no member below", "gap", of_what, ""), rows, prose=1)
    open_ = [each for each in comparison.members if each.status not in ("OPTIMAL", "INFEASIBLE")]
    found = [each.family for each in open_ if each.value is not None]
    missing = [each.family for each in open_ if each.value is None]
    sentences = [f"Best known, not proven: {listing(found)}."] if found else []
    sentences += [f"No mapping is known, nor proven that there is none: {listing(missing)}."] if missing else []
    none = [each.family for each in comparison.members if each.status == "INFEASIBLE"]
    if none:
        is_bare = isinstance(comparison.arch.nodes[-2], Fanout)
        why = ": no level below its fan-outs holds an element at a compute unit" if is_bare else ""
        sentences.append(f"Proven: on {comparison.arch.name} no mapping is {listing(none, 'or')}{why}.")
    told = " ".join(sentences) or "Every row is proven."
    return f"{comparison.workload.name} on {comparison.arch.name}, tiles that divide\n\n{shown}\n\n{told}"


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """Return what `polymap compare` prints and `comparison.save` writes: the question, and of each family status,
    value, bound, gap, mapping and cost; fields without a value are null."""
    members = [
        {
            "family": member.family,
            "status": member.status,
            "value": number(member.value),
            "bound": number(member.bound),
            "gap": member.gap,
            "mapping": mapping_document(member.mapping),
            "cost": None if member.cost is None else cost_document(member.cost),
        }
        for member in comparison.members
    ]
    objective = comparison.objective
    return head_document("comparison", comparison.workload, comparison.arch) | {
        "units": units_document((objective,)),
        "objective": objective,
        "optimum": number(comparison.optimum),
        "proven": comparison.is_proven,
        "members": members,
        "options": comparison.options,
    }


def capacity_text(curve: CapacityCurve) -> str:
    """Return a row per size: traffic and energy with what nothing beats, and what size is enough."""
    rows = [
        (
            size(point.bits),
            *("-" if value is None else words(value) for value, words in _figures(point)),
            {True: "", False: "nothing fits", None: "not known whether anything fits"}[point.fits],
        )
        for point in curve.points
    ]
    head = (f"size of {curve.level}", f"moved at {curve.outermost}", "at least", "energy", "at least", "")
    return f"{curve.title}\n\n{table(head, rows)}\n\n{curve.sentence}"


def _figures(point: CapacityPoint) -> Iterator[tuple[float | None, Callable[[float], str]]]:
    def bits(value: float) -> str:
        return size(round(value))

    yield from ((point.moved_bits, bits), (point.moved_bound, bits))
    yield from ((point.energy_pj, energy), (point.energy_bound, energy))


def winners_text(study: WinnerStudy) -> str:
    """Return a row per size of the one buffer, a column per size of the other: the dataflow and its energy."""
    head = (f"{study.up[0]} \\ {study.across[0]}", *(size(bits) for bits in study.across[1]))
    rows = [
        (size(bits), *(_winner(each) for each in row)) for bits, row in zip(study.up[1], study.winners, strict=True)
    ]
    return f"{study.title}\n\n{table(head, rows, left=len(head))}"


def _winner(each: Winner) -> str:
    if each.dataflow is None:
        return each.name
    return f"{each.dataflow} {energy(each.energy_pj)}{'' if each.is_proven else ' (not proven)'}"


def tiles_text(study: TileStudy) -> str:
    """Return a row per tile of the one loop, a column per tile of the other: the energy, or that it does not fit."""
    rows = [
        (f"{tile:,}", *(energy(pj) if fits else "no fit" for pj, fits in zip(costs, fitting, strict=True)))
        for tile, costs, fitting in zip(study.up[1], study.energy_pj, study.fits, strict=True)
    ]
    head = ("", *(f"{tile:,}" for tile in study.across[1]))
    return f"{study.title}\nacross: {study.across[0]}; down: {study.up[0]}\n\n{table(head, rows)}"


def costs_text(costs: CostArrays) -> str:
    """Return least, median and greatest energy and latency of the rows, and how many are legal."""
    return _spreads(costs, costs.legal.tolist(), "legal")


def sample_text(sample: Sample) -> str:
    """Return how many mappings were drawn of what, and the first of them. Nothing is scored: that may take seconds."""
    kept = f", {percent(sample.rate)} of the trees drawn fit" if sample.within_capacity else ""
    what = f"{plural(len(sample), 'legal mapping')} of {sample.workload.name} on {sample.arch.name}"
    head = f"{what}, drawn uniformly (seed {sample.seed}{kept}); the first:"
    return f"{head}\n\n{mapping_text(sample.workload, sample[0], sample.arch)}" if len(sample) else head


def scores_text(scores: Scores) -> str:
    """Return least, median and greatest energy and latency of the mappings, and the share that fits."""
    return _spreads(scores, scores.fits.tolist(), "within capacity")


def _spreads(found: CostArrays | Scores, good: list[bool], is_good: str) -> str:
    columns = (("energy, pJ", found.energy_pj), ("latency, cycles", found.latency_cycles))
    rows = [(name, *(exact(each) for each in _spread(column.tolist()))) for name, column in columns] if good else []
    told = f"{exact(sum(good))} of {plural(len(good), 'mapping')} {is_good}"
    return f"{table(('figure', 'least', 'median', 'greatest'), rows, prose=1)}\n\n{told}"


def _spread(values: list[float]) -> tuple[float, float, float]:
    """Return least, median (of two the smaller one) and greatest."""
    ordered = sorted(values)
    return ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]


def choice_text(choice: TileChoice) -> str:
    """Return the value, whether it is proven, and the mapping."""
    if choice.mapping is None or choice.value is None:
        return "no mapping found"
    known = "proven: no mapping with tiles that divide is better" if choice.is_proven else "best known, not proven"
    return f"value {exact(float(choice.value))}, {known}\n\n{bare_text(choice.mapping)}"


TEXTS: dict[type, Callable[..., str]] = {
    CapacityCurve: capacity_text,
    Comparison: comparison_text,
    CostArrays: costs_text,
    Sample: sample_text,
    Scores: scores_text,
    TileChoice: choice_text,
    TileStudy: tiles_text,
    WinnerStudy: winners_text,
}
