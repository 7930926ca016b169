"""Several mappings as text: families (and as a JSON document), samples, their scores, a choice of tiles."""

from __future__ import annotations

from polymap.costmodel.analysis import bare_text, mapping_text
from polymap.formatting import exact, listing, percent, plural, table, times
from polymap.sampling import Sample, Scores
from polymap.search.problem import unit_of
from polymap.search.result import cost_document, head_document, mapping_document, number, units_document
from polymap.study import Comparison
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
        "members": members,
    }


def sample_text(sample: Sample) -> str:
    """Return how many mappings were drawn of what, and the first of them. Nothing is scored: that may take seconds."""
    kept = f", {percent(sample.rate)} of the trees drawn fit" if sample.within_capacity else ""
    what = f"{plural(len(sample), 'legal mapping')} of {sample.workload.name} on {sample.arch.name}"
    head = f"{what}, drawn uniformly (seed {sample.seed}{kept}); the first:"
    return f"{head}\n\n{mapping_text(sample.workload, sample[0], sample.arch)}" if len(sample) else head


def scores_text(scores: Scores) -> str:
    """Return least, median and greatest energy and latency of the mappings, and the share that fits."""
    columns = (("energy, pJ", scores.energy_pj), ("latency, cycles", scores.latency_cycles))
    rows = (
        [(name, *(exact(each) for each in _spread(column.tolist()))) for name, column in columns]
        if len(scores.fits)
        else []
    )
    fits = int(scores.fits.sum())
    told = f"{exact(fits)} of {plural(len(scores.fits), 'mapping')} within capacity"
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
