"""The comparison of families as text."""

from __future__ import annotations

from polymap.comparison import Comparison
from polymap.report import exact, listing, percent, table, times, unit_of


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
