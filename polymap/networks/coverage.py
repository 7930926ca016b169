"""What of a network has no workload, in words: operators, how many of each, their multiply-accumulates."""

from __future__ import annotations

from typing import NamedTuple

from polymap.formatting import exact, listing
from polymap.networks.model import Network
from polymap.networks.tuning import TUNING


class Missing(NamedTuple):
    """An operator of nodes without a workload. macs: of all these nodes; None where one's are not known."""

    operator: str
    nodes: int
    macs: int | None


def missing_of(net: Network) -> list[Missing]:
    """Return the operators without a workload: the most multiply-accumulates first, those that are not known next."""
    known, nodes = dict(net.left_out_macs), dict[str, list[int | None]]()
    for each in net.left_out:
        nodes.setdefault(each.operator, []).append(known.get(each.node))
    found = [
        Missing(operator, len(own), None if None in own else sum(each or 0 for each in own))
        for operator, own in nodes.items()
    ]
    return sorted(found, key=lambda each: (not each.macs, each.macs is not None, -(each.macs or 0), -each.nodes))


def missing_text(net: Network) -> str:
    """Return, as the end of a sentence, which nodes are not mapped; "" where all are.

    Such as "2 of 3 nodes; 1 ConvInteger (663,552 MACs) is not mapped".
    """
    missing = missing_of(net)
    if not missing:
        return ""
    told = [_told(each) for each in missing[: TUNING.most_operators]]
    rest = missing[TUNING.most_operators :]
    told += [_told(_together(rest))] if rest else []
    verb = "is" if len(net.left_out) == 1 else "are"
    all_nodes = net.mapped_nodes + len(net.left_out)
    return f"{net.mapped_nodes:,} of {all_nodes:,} nodes; {listing(told)} {verb} not mapped"


def _together(missing: list[Missing]) -> Missing:
    macs = [each.macs for each in missing]
    total = None if None in macs else sum(each or 0 for each in macs)
    return Missing("others", sum(each.nodes for each in missing), total)


def _told(each: Missing) -> str:
    macs = "MACs not known" if each.macs is None else "no MACs" if each.macs == 0 else f"{exact(each.macs)} MACs"
    return f"{each.nodes:,} {each.operator} ({macs})"
