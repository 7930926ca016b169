"""Networks and their answers as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from math import prod

from polymap.costmodel import Cost, evaluate
from polymap.formatting import area, exact, listing, percent, plural, short, size, table
from polymap.inputs import is_table
from polymap.ir import Workload
from polymap.networks import (
    LayerAnswer,
    Network,
    NetworkAnswer,
    Provenance,
    SweepRow,
    SweepTable,
    missing_text,
    share_of,
)
from polymap.report.tuning import TUNING
from polymap.search import among, caveat
from polymap.search.problem import unit_of


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
    """Return what is missing, totals with the state of their proof, why the costliest layers cost so much, and a row
    and a bar per layer."""
    net, unit = answer.network, unit_of(answer.objective)
    are_open = any(each.result.status == "FEASIBLE" for each in answer.layers)
    rows = [_row(answer, each, are_open=are_open) for each in answer.layers]
    each_of = f"each,{unit}" if unit else "each"
    most = _takes_most(answer.objective)
    head = ("layer", "nodes", each_of, *(("not below",) if are_open else ()), "all", "share", "", "", most)
    totals = f"{net.name} on {answer.arch.name}: {_totals(net)}"
    if answer.status == "UNMAPPED":
        return f"{answer.headline}\n{totals}{_footnote(net)}"
    told = f"{answer.stated}: {answer.objective}" if answer.complete else f"the mapped nodes' {answer.objective}"
    told += " -" if answer.exact is None else f" {exact(answer.exact)}{unit}"
    if answer.exact is not None and answer.proof != "OPTIMAL":
        told += f", {among(f'not below {exact(answer.exact_bound)}{unit}', answer.space)} (gap {percent(answer.gap)})"
    first = totals if answer.complete else f"{answer.headline}\n{totals}"
    proven = sum(each.result.status == "OPTIMAL" for each in answer.layers)
    if proven < len(answer.layers):
        told += f"; {proven:,} of {plural(len(answer.layers), 'layer')} proven"
    parts = (first, told, *_reasons(answer), *_fusion(answer), table(head, rows, prose=3))
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
            each.result.stated,
        )
        for each in answer.groups
    ]
    told = "neighbours together:"
    if answer.unfused is not None:
        told = f"neighbours together: {exact(answer.unfused)}{unit} apart, {percent(answer.saving or 0)} saved"
    found = [told]
    found += [table(("as one program", "groups", "apart", "together", "saved", ""), rows, prose=1)] if rows else []
    sentences = [f"  {each}" for each in answer.passing]
    more = len(sentences) - TUNING.most_sentences
    shown = sentences[: TUNING.most_sentences] + ([f"  and {more:,} more"] if more > 0 else [])
    return [*found, "what passes between them:\n" + "\n".join(shown)] if shown else found


def sweep_text(found: SweepTable, *, rows: bool = False) -> str:
    """Return what is proven, the machines that none beats and what takes most on each, where the answers come from, and
    a row per question (of many only where `rows` asks for them)."""
    several = len(found.objectives) > 1
    less = "no machine has less of" if found.is_proven else "of the values found (not all proven) none is less in"
    parts = [f"{net.name}: {missing_text(net)}" for net in found.incomplete]
    parts += [f"{_asked_text(found)}\n{_sources(found)}"]
    silent = {machine_label(row.machine) for row in found.rows if row.arch is not None and row.arch.area_um2 is None}
    if any(row.arch is not None and row.arch.area_um2 is not None and row.area_um2 is None for row in found.rows):
        parts.append(f"ranked by on-chip bits, not by area: {plural(len(silent), 'machine')} without one")
    parts += [f"{less} {'all' if several else 'both'}:\n{_front_text(found)}"]
    if rows or len(found.rows) <= TUNING.most_rows:
        parts.append(_rows_text(found))
    else:
        parts += [*_sweep_reasons(found), *_matrix_text(found)]
        parts.append(f"{len(found.rows):,} rows: --rows prints them, --json FILE keeps them; in Python table.rows")
    return "\n\n".join(parts)


def _asked_text(found: SweepTable) -> str:
    """Return how much was asked, and how much of it is proven."""
    machines = len({json.dumps(row.machine, sort_keys=True, default=str) for row in found.rows})
    layers = len({row.workload for row in found.rows})
    proven = sum(row.status in ("OPTIMAL", "INFEASIBLE", "DISMISSED") for row in found.rows)
    share = "all proven" if proven == len(found.rows) else f"{proven:,} proven"
    asked = f"{plural(layers, 'workload')} on {plural(machines, 'machine')}, {listing(found.objectives)}"
    return f"{asked}: {plural(len(found.rows), 'row')}, {share}"


def _front_text(found: SweepTable) -> str:
    """Return the machines that none beats, each with its sums, its memory, and what takes most on it where mappings are
    known (a table that was read back has none)."""
    own: dict[str, list[SweepRow]] = {}
    for row in found.rows:
        if row.objective == found.objectives[0]:
            own.setdefault(machine_label(row.machine), []).append(row)
    rows: list[tuple[str, ...]] = []
    has_mappings = any(row.mapping is not None for row in found.rows)
    for each in found.front():
        name, share, _ = binding(own[machine_label(each.machine)])
        memory = ("unlimited" if each.on_chip_bits is None else size(each.on_chip_bits),)
        memory += () if each.area_um2 is None else (area(each.area_um2),)
        most = (f"{name} {percent(share)}" if name else "-",) if has_mappings else ()
        rows.append((machine_label(each.machine), *map(exact, each.values), *memory, *most, each.status))
    units = (f"{each},{unit_of(each)} of all" for each in found.objectives)
    most = (_takes_most(found.objectives[0]),) if has_mappings else ()
    areas = ("area",) if any(each.area_um2 is not None for each in found.rows) else ()
    return table(("machine", *units, "on chip", *areas, *most, ""), rows, prose=1 + len(most))


def _sweep_reasons(found: SweepTable) -> list[str]:
    """Return a sentence for each of the layers that cost most on the first machine of the front."""
    front = found.front()
    best = machine_label(front[0].machine) if front else ""
    rows = [row for row in found.rows if row.objective == found.objectives[0] and machine_label(row.machine) == best]
    if not rows or any(row.mapping is None for row in rows):
        return []
    totals = [(row.value or Fraction(0)) * row.multiplicity for row in rows]
    every = sum(totals)
    ordered = sorted(zip(totals, rows, strict=True), key=lambda each: -each[0])[: TUNING.costliest_layers]
    told = [
        f"  {_named(row.workload, row.multiplicity, total / every if every else None)}: "
        f"{_made_of(evaluate(row.layer, row.arch, row.mapping), row.layer, row.objective)}"
        for total, row in ordered
    ]
    return [f"costliest on {best}:\n" + "\n".join(told)]


def _matrix_text(found: SweepTable) -> list[str]:
    """Return the costliest layers on every machine, the values of all their nodes; [] where machines are too many."""
    columns: dict[str, list[SweepRow]] = {}
    for row in found.rows:
        if row.objective == found.objectives[0]:
            columns.setdefault(machine_label(row.machine), []).append(row)
    if not 1 < len(columns) <= TUNING.most_machines or len({*map(len, columns.values())}) > 1:
        return []

    starred = dict.fromkeys(caveat(row.status) for row in found.rows if row.value is not None)

    def told(row: SweepRow) -> str:
        mark = "*" if caveat(row.status) else ""
        return "-" if row.value is None else f"{short(row.value * row.multiplicity)}{mark}"

    layers = [*zip(*columns.values(), strict=True)]
    layers.sort(key=lambda rows: -max((row.value or Fraction(0)) * row.multiplicity for row in rows))
    lines = [(rows[0].workload, f"{rows[0].multiplicity:,}", *map(told, rows)) for rows in layers[: TUNING.most_rows]]
    notes = ["*: " + " or ".join(each.strip(" ()") for each in starred if each)] if any(starred) else []
    notes += [f"and {len(layers) - len(lines):,} more"] if len(layers) > len(lines) else []
    title = f"{found.objectives[0]},{unit_of(found.objectives[0])} of all nodes:"
    return ["\n".join((title, table(("layer", "nodes", *columns), lines), *notes))]


def _rows_text(found: SweepTable) -> str:
    """Return a row per question; with what no mapping is below, where that is not the value."""
    several, are_open = len(found.objectives) > 1, any(row.status == "FEASIBLE" for row in found.rows)
    rows = [
        (each.workload, machine_label(each.machine), *((each.objective,) if several else ()),
         "-" if each.value is None else exact(each.value),
         *(("" if each.bound is None or each.status != "FEASIBLE" else exact(each.bound),) if are_open else ()),
         each.status)
        for each in found.rows
    ]  # fmt: skip
    value = "value" if several else f"{found.objectives[0]},{unit_of(found.objectives[0])}"
    named = ("objective", value) if several else (value,)
    head = ("workload", "machine", *named, *(("not below",) if are_open else ()), "")
    return table(head, rows, left=3 if several else 2, prose=1)


def binding(rows: Sequence[SweepRow]) -> tuple[str, Fraction, bool]:
    """Return the node that takes most of all rows of one machine, its share, and whether all rows are proven: of a
    latency the level or compute unit that decides it, weighed by cycles; else the node with the most energy. "" where
    not all is mapped."""
    if any(row.mapping is None for row in rows):
        return "", Fraction(0), False
    sums: dict[str, Fraction] = {}
    for row in rows:
        cost = evaluate(row.layer, row.arch, row.mapping)
        is_time = row.objective == "latency"
        parts = [_most(cost, row.objective)] if is_time else cost.energy_by_level_pj_exact
        for name, amount in parts:
            sums[name] = sums.get(name, Fraction(0)) + row.multiplicity * amount
    name = max(sums, key=lambda one: sums[one])
    total = sum(sums.values(), Fraction(0))
    return name, sums[name] / total if total else Fraction(0), all(row.status == "OPTIMAL" for row in rows)


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
    """Return a machine's name, or its grid values as text: sizes of memories with their unit."""
    if isinstance(label, str):
        return label
    assert is_table(label), "a machine of a grid has a table of its values"
    return ", ".join(_field_text(str(name), value) for name, value in label.items()) or "base"


def _field_text(name: str, value: object) -> str:
    """Return a field of a grid and its value: `GLB 32 KiB`, `X 16`, `DRAM.read_pj 100`."""
    node, _, field = name.rpartition(".")
    if field == "capacity_bits" and isinstance(value, int):
        return f"{node} {size(value)}"
    if field.endswith("_bits") and isinstance(value, int):
        return f"{name.removesuffix('_bits')} {size(value)}"
    return f"{node if field in ('size', 'capacity_bits') else name} {value}"


def _totals(net: Network) -> str:
    nests, nodes = sum(each.multiplicity for each in net.layers), net.mapped_nodes
    nodes_told = plural(nodes, "mapped node") + (f" ({plural(nests, 'loop nest')})" if nests != nodes else "")
    return f"{nodes_told}, {len(net.layers):,} of them distinct, {exact(net.macs)} MACs"


def _sizes(workload: Workload) -> str:
    if len(workload.statements) > 1:
        return plural(len(workload.statements), "statement")
    return " ".join(f"{dim.name}={dim.extent}" for dim in workload.dims)


def _row(answer: NetworkAnswer, each: LayerAnswer, *, are_open: bool) -> tuple[str, ...]:
    share = share_of(answer, each)
    least = (short(each.exact_bound) if each.result.status == "FEASIBLE" else "",) if are_open else ()
    one, every = ("-", "-") if each.exact is None else (short(each.exact), short(each.total))
    bar = "" if share is None else "#" * round(TUNING.bar_letters * share)
    binds = "" if each.result.cost is None else _told_most(each.result.cost, answer.objective)
    told = "-" if share is None else percent(share)
    return (each.layer.name, f"{each.layer.multiplicity:,}", one, *least, every, told, bar, each.result.stated, binds)


def _takes_most(objective: str) -> str:
    """Return the heading above what `_most` finds."""
    return "decides" if objective == "latency" else "takes most"


def _most(cost: Cost, objective: str) -> tuple[str, Fraction]:
    """Return what takes most of a cost, and how much: all cycles of what decides the latency, else pJ."""
    if objective == "latency":
        return cost.bottleneck, Fraction(cost.latency_cycles)
    return max(cost.energy_by_level_pj_exact, key=lambda item: item[1])


def _told_most(cost: Cost, objective: str) -> str:
    name, amount = _most(cost, objective)
    total = cost.energy_pj_exact
    return name if objective == "latency" or not total else f"{name} {percent(amount / total)}"


def _reasons(answer: NetworkAnswer) -> list[str]:
    """Return a sentence for each of the layers that cost most."""
    known = [each for each in answer.layers if each.total is not None]
    costliest = sorted(known, key=lambda each: -each.total)[: TUNING.costliest_layers]
    return ["costliest:\n" + "\n".join(f"  {_reason(answer, each)}" for each in costliest)] if costliest else []


def _reason(answer: NetworkAnswer, each: LayerAnswer) -> str:
    """Return what a layer's value is made of."""
    share, layer = share_of(answer, each), each.layer
    told = _named(layer.name, layer.multiplicity, share)
    return f"{told}: {_made_of(each.result.cost, layer.workload, answer.objective, layer.macs)}"


def _named(name: str, multiplicity: int, share: Fraction | float | None) -> str:
    return f"{name} ({plural(multiplicity, 'node')}" + (f", {percent(share)})" if share else ")")


def _made_of(cost: Cost, workload: Workload, objective: str, macs: int = 0) -> str:
    """Return the largest energy of a cost and the tensor behind it, or what bounds its time. macs: 0 where they are not
    known."""
    level, energy = _most(cost, objective)
    if objective == "latency":
        return f"{level} decides; {percent(Fraction(cost.utilization))} of the compute units are busy"
    total = cost.energy_pj_exact
    rows = [row for row in cost.traffic if row.level == level]
    told = f"{level} takes {percent(energy / total)} of the energy" if total else f"{level} is busiest"
    if not rows:
        return told
    bits = {row.tensor: (row.reads + row.writes) * workload.tensor(row.tensor).bits for row in rows}
    most = max(bits, key=lambda name: bits[name])
    row = next(row for row in rows if row.tensor == most)
    words = [f"{short(count)} {verb}" for count, verb in ((row.reads, "read"), (row.writes, "written")) if count]
    uses = round(macs / prod(workload.tensor(most).shape))
    serves = f"; each of its elements serves {'1 MAC' if uses == 1 else f'{short(uses)} MACs'}" if macs else ""
    return f"{told}, mostly {most} ({listing(words)} elements{serves})"


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
