"""What the comment at the head of a processor's code says of its mapping: the nest, what moves, how sure that is."""

from __future__ import annotations

from polymap.codegen.cpu_mapping import CpuChoice
from polymap.costmodel import mapping_text
from polymap.ir import Workload


def choice_lines(workload: Workload, choice: CpuChoice) -> list[str]:
    """Return the annotated loop nest of a choice, its predicted traffic per level and tensor, and its proof's status.

    workload: as its user asked; sizes of the question that were rounded up are named.
    """
    lines = mapping_text(choice.rounded, choice.mapping, choice.arch).splitlines()
    grown = {
        dim: size
        for (dim, extent), size in zip(workload.extents().items(), choice.rounded.extents().values(), strict=True)
        if size != extent
    }
    sizes = ", ".join(f"{dim} {workload.extents()[dim]} -> {size}" for dim, size in grown.items())
    lines += ["", "Predicted traffic (elements; register tiles whole, padding counted as if it were read):"]
    if grown:
        lines.append(f"  sizes are rounded up to whole register tiles: {sizes}")
    rows = [(row.level, row.tensor, f"{row.reads:,}", f"{row.writes:,}") for row in choice.cost.traffic]
    level, tensor, reads, writes = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines += [f"  {a:{level}} {b:{tensor}}  reads {c:>{reads}}  writes {d:>{writes}}" for a, b, c, d in rows]
    lines.append(f"Predicted cycles: {round(choice.cycles):,}.")
    if choice.packed is not None:
        lines.append("What is packed ahead is read without the outermost loop.")
    return [*lines, *_proof(choice)]


def _proof(choice: CpuChoice) -> list[str]:
    """Return how sure the search is of the loops around the register tile."""
    result = choice.result
    if result is None:
        return []
    lines = [f"Search ({result.objective} of the loops around this register tile, dividing tiles): {result.status}."]
    if result.value is not None and result.bound is not None:
        lines.append(f"  {result.value:,.1f} pJ, no mapping below {result.bound:,.1f} pJ")
    return lines
