"""Networks and their answers as text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from polymap.formatting import exact, listing, percent, plural, short, table
from polymap.inputs import is_table
from polymap.networks import LayerAnswer, Network, NetworkAnswer, Provenance, SweepTable, missing_text, share_of
from polymap.search.problem import unit_of

_COSTLIEST = 3
_BAR = 20
_MOST_SENTENCES = 12


def network_text(net: Network) -> str:
    """Return a row per distinct layer, the totals, and a footnote of the nodes without a workload."""
    rows = [
        (
            each.name,
            each.operator,
            f"{each.multiplicity:,}",
            short(each.macs * each.multiplicity),
            _sizes(each.workload),
        )
        for each in net.layers
    ]
    shown = table(("layer", "operator", "nodes", "MACs", "sizes"), rows, left=2, prose=1)
    missing = missing_text(net)
    lines = [f"mapped: {missing}"] if missing else []
    head = "\n".join((*lines, f"{net.name}: {_totals(net)}"))
    return f"{head}\n\n{shown}{_footnote(net)}"


def answer_text(answer: NetworkAnswer) -> str:
    """Return what is missing, totals with the state of their proof, a row and a bar per layer, and why the costliest
    cost so much."""
    net, unit = answer.network, unit_of(answer.objective)
    rows = [_row(answer, each) for each in answer.layers]
    head = ("layer", "nodes", "each", "all", "share", "", "", "")
    totals = f"{net.name} on {answer.arch.name}: {_totals(net)}"
    if answer.status == "UNMAPPED":
        return f"{answer.headline}\n{totals}{_footnote(net)}"
    told = f"{answer.status}: {answer.objective}" if answer.complete else f"the mapped nodes' {answer.objective}"
    told += " -" if answer.exact is None else f" {exact(answer.exact)}{unit}"
    if answer.exact is not None and answer.proof != "OPTIMAL":
        told += f", not below {exact(answer.exact_bound)}{unit} (gap {percent(answer.gap)})"
    first = totals if answer.complete else f"{answer.headline}\n{totals}"
    parts = (first, told, table(head, rows, prose=3), *_reasons(answer), *_fusion(answer))
    return "\n\n".join(parts) + _footnote(net)


def _joined(names: Sequence[str]) -> str:
    """Return the names of a group's nests, of many the first and the last."""
    return " + ".join(names if len(names) < 4 else (*names[:2], "...", names[-1]))


def _fusion(answer: NetworkAnswer) -> list[str]:
    """Return what groups of neighbours cost beside their layers apart, and where what they pass on stays."""
    if not answer.fuse:
        return []
    if not answer.groups and not answer.passing:
        return [
            "neighbours together: none, as the network does not tell which operand of a node another one's result is"
        ]
    unit = unit_of(answer.objective)
    rows = [
        (
            _joined(each.groups[0]),
            f"{each.times:,}",
            *("-" if value is None else short(value) for value in (each.apart, each.exact)),
            percent(each.saved / each.apart) if each.apart else "-",
            each.result.status,
        )
        for each in answer.groups
    ]
    told = "neighbours together:"
    if answer.unfused is not None:
        told = f"neighbours together: {exact(answer.unfused)}{unit} apart, {percent(answer.saving or 0)} saved"
    found = [told]
    found += [table(("as one program", "groups", "apart", "together", "saved", ""), rows, prose=1)] if rows else []
    sentences = [f"  {each}" for each in answer.passing]
    more = len(sentences) - _MOST_SENTENCES
    shown = sentences[:_MOST_SENTENCES] + ([f"  and {more:,} more"] if more > 0 else [])
    return [*found, "what passes between them:\n" + "\n".join(shown)] if shown else found


def sweep_text(found: SweepTable) -> str:
    """Return a row per question, the machines that none beats, and where the answers come from."""
    units = [f"{each},{unit_of(each)}" for each in found.objectives]
    several = len(found.objectives) > 1
    rows = [
        (each.workload, machine_label(each.machine), *((each.objective,) if several else ()),
         "-" if each.value is None else exact(each.value), each.status)
        for each in found.rows
    ]  # fmt: skip
    front = [
        (machine_label(each.machine), *map(exact, each.values), _bits(each.on_chip_bits), each.status)
        for each in found.front()
    ]
    head = ("workload", "machine", *(("objective", "value") if several else units), "")
    shown = table(head, rows, left=3 if several else 2, prose=1)
    best = table(("machine", *(f"{each} of all" for each in units), "on-chip bits", ""), front, prose=1)
    less = "no machine has less of" if found.is_proven else "of the values found (not all proven) none is less in"
    told = "".join(f"{net.name}: {missing_text(net)}\n" for net in found.incomplete)
    told += "\n" if told else ""
    return f"{told}{shown}\n\n{less} {'all' if several else 'both'}:\n{best}\n\n{_sources(found)}"


def _bits(count: int | None) -> str:
    return "unlimited" if count is None else f"{count:,}"


def _sources(found: SweepTable) -> str:
    """Return how many rows were searched, and where the others come from."""
    told = f"{plural(found.asked, 'question')} searched"
    ways = (
        (Provenance.NEIGHBOUR, "from proofs on other machines"),
        (Provenance.KNOWN, "from the store"),
        (Provenance.DOMINATED, "dismissed, off the front"),
    )
    for how, text in ways:
        count = found.count(how)
        told += f", {count:,} {text} ({percent(Fraction(count, len(found.rows)))})" if count else ""
    return told


def machine_label(label: object) -> str:
    """Return a machine's name, or its grid values as text."""
    if isinstance(label, str):
        return label
    assert is_table(label)
    return " ".join(f"{name}={value}" for name, value in label.items()) or "base"


def _totals(net: Network) -> str:
    nests, nodes = sum(each.multiplicity for each in net.layers), net.mapped_nodes
    nodes_told = plural(nodes, "mapped node") + (f" ({plural(nests, 'loop nest')})" if nests != nodes else "")
    return f"{nodes_told}, {len(net.layers):,} of them distinct, {exact(net.macs)} MACs"


def _sizes(workload: object) -> str:
    from polymap.ir import Workload

    assert isinstance(workload, Workload)
    if len(workload.statements) > 1:
        return plural(len(workload.statements), "statement")
    return " ".join(f"{dim.name}={dim.extent}" for dim in workload.dims)


def _row(answer: NetworkAnswer, each: LayerAnswer) -> tuple[str, ...]:
    share = share_of(answer, each)
    values = ("-", "-") if each.exact is None else (short(each.exact), short(each.total))
    bar = "" if share is None else "#" * round(_BAR * share)
    binds = "" if each.result.cost is None else each.result.cost.bottleneck
    told = "-" if share is None else percent(share)
    return (each.layer.name, f"{each.layer.multiplicity:,}", *values, told, bar, each.result.status, binds)


def _reasons(answer: NetworkAnswer) -> list[str]:
    """Return a sentence for each of the layers that cost most."""
    known = [each for each in answer.layers if each.total is not None]
    costliest = sorted(known, key=lambda each: -each.total)[:_COSTLIEST]
    return ["costliest:\n" + "\n".join(f"  {_reason(answer, each)}" for each in costliest)] if costliest else []


def _reason(answer: NetworkAnswer, each: LayerAnswer) -> str:
    """Return what a layer's value is made of: its largest energy and the tensor behind it, or what bounds its time."""
    cost, share, layer = each.result.cost, share_of(answer, each), each.layer
    told = f"{layer.name} ({plural(layer.multiplicity, 'node')}" + (f", {percent(share)}): " if share else "): ")
    if answer.objective == "latency":
        return told + f"{cost.bottleneck} decides; {percent(Fraction(cost.utilization))} of the compute units are busy"
    level, energy = max(cost.energy_by_level_pj_exact, key=lambda item: item[1])
    total = cost.energy_pj_exact
    rows = [row for row in cost.traffic if row.level == level]
    parts = [f"{level} takes {percent(energy / total)} of the energy" if total else f"{level} is busiest"]
    if rows:
        bits = {row.tensor: (row.reads + row.writes) * layer.workload.tensor(row.tensor).bits for row in rows}
        most = max(bits, key=lambda name: bits[name])
        row = next(row for row in rows if row.tensor == most)
        words = [f"{short(count)} {verb}" for count, verb in ((row.reads, "read"), (row.writes, "written")) if count]
        uses = layer.macs / _elements(each, most) if layer.macs else 0
        parts.append(
            f"mostly {most} ({listing(words)} elements; each of its elements serves {short(round(uses))} MACs)"
        )
    return told + ", ".join(parts)


def _elements(each: LayerAnswer, tensor: str) -> int:
    count = 1
    for extent in each.layer.workload.tensor(tensor).shape:
        count *= extent
    return count


def _footnote(net: Network) -> str:
    """Return which nodes are views, and which are counted nowhere, with the reasons."""
    parts: list[str] = []
    if net.views:
        kinds = dict.fromkeys(each.operator for each in net.views)
        parts.append(f"{plural(len(net.views), 'view')} (no work): {', '.join(kinds)}")
    if net.left_out:
        parts.append(f"{plural(len(net.left_out), 'node')} without a workload, not in the totals:")
        parts += [f"  {each.node} ({each.operator}): {each.reason}" for each in net.left_out]
    return "\n\n" + "\n".join(parts) if parts else ""
