"""Bursts, misses of caches and chosen layouts as text."""

from __future__ import annotations

from polymap.costmodel import BurstCounts
from polymap.costmodel.referees import CacheMisses
from polymap.formatting import exact, percent, plural, table
from polymap.networks import LayoutChoice


def bursts_text(counts: BurstCounts) -> str:
    """Return a row per tensor: layout, elements and bursts each way, and how much of the bits moved was asked for."""
    head = ("tensor", "layout", "read", "written", "bursts read", "written", "asked for")
    rows = [
        (
            each.tensor,
            str(each.layout),
            exact(each.read_elements),
            exact(each.written_elements),
            exact(each.read_bursts),
            exact(each.written_bursts),
            percent(each.efficiency),
        )
        for each in counts.tensors
    ]
    told = f"{counts.workload}: {exact(counts.bursts)} bursts of {counts.burst_bits} bits at {counts.level}"
    return f"{told}\n\n{table(head, rows, left=2)}"


def misses_text(misses: CacheMisses) -> str:
    """Return a row per cache and tensor: elements that the mapping brings in there, and what is fetched for them."""
    head = ("cache", "tensor", "held elements", "lines fetched", "their elements", "ratio")
    rows = [
        (
            each.level,
            each.tensor,
            exact(each.held_elements),
            exact(each.missed_lines),
            exact(each.missed_elements),
            "-" if each.ratio is None else f"{float(each.ratio):.3f}",
        )
        for each in misses.rows
    ]
    return f"{misses.workload} on {misses.arch}\n\n{table(head, rows, left=2)}"


def layouts_text(choice: LayoutChoice) -> str:
    """Return the total and its proof, a row per boundary, and the edges that are none."""
    told = f"{choice.status}: {exact(choice.bursts)} bursts of {choice.burst_bits} bits"
    if choice.status != "OPTIMAL":
        told += f", not below {exact(choice.bound)}"
    alone = ", ".join(f"{name} {exact(bursts)}" for name, bursts in choice.alone)
    told += f"; with one layout for all: {alone}" if alone else ""
    rows = [
        (
            each.boundary.producer.node,
            str(each.written),
            ", ".join(
                f"{use.node} ({layout})" if layout != each.written else use.node
                for use, layout in zip(each.boundary.consumers, each.read, strict=True)
            ),
            exact(each.bursts),
        )
        for each in choice.chosen
    ]
    parts = [told, table(("written by", "layout", "read by (where converted)", "bursts"), rows, left=3)]
    if choice.left_out:
        reasons: dict[str, int] = {}
        for _, _, reason in choice.left_out:
            reasons[reason] = reasons.get(reason, 0) + 1
        lines = [f"  {reason}" + (f" (x{count})" if count > 1 else "") for reason, count in reasons.items()]
        parts.append(f"{plural(len(choice.left_out), 'edge')} without a choice:\n" + "\n".join(lines))
    return "\n\n".join(parts)
