"""The comparison of families as text and as a JSON document."""

from __future__ import annotations

from polymap.comparison import Comparison
from polymap.report import exact, listing, percent, table, times, unit_of
from polymap.report.text import cost_document, head_document, mapping_document, number, units_document


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
    shown = table(("family", name, "no member below", "gap", "of the optimum", ""), rows, prose=1)
    open_ = [each.family for each in comparison.members if each.status != "OPTIMAL"]
    told = f"Best known, not proven: {listing(open_)}." if open_ else "Every row is proven."
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
