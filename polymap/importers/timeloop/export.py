"""Workload, machine and mapping as Timeloop's YAML, version 0.4, as far as Timeloop can say them."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from polymap.inputs import answers_in_words
from polymap.ir import (
    Architecture,
    Fanout,
    Mapping,
    MemoryLevel,
    Mistake,
    Multicast,
    OptionError,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import check_mapping, view_of

Lines = list[str]


@answers_in_words
def to_timeloop(workload: WorkloadLike, arch: ArchitectureLike, mapping: MappingLike | None = None) -> str:
    """Return one YAML text with the keys problem, architecture, ERT (the energies), and mapping where one is given.

    `from_timeloop` reads it back equal, but for labels, sources, and roles, and for storage nodes and loops of one
    iteration that change nothing. Raises OptionError (PM662), with every reason, for what Timeloop's files cannot say.
    """
    workload, arch = question_of(workload, arch)
    reasons: list[str] = []
    text = [*_problem(workload, reasons), *_architecture(workload, arch, reasons), *_ert(arch, reasons)]
    if mapping is not None:
        tree = mapping_of(mapping)
        check_mapping(workload, arch, tree)
        text += _mapping(workload, arch, tree, reasons)
    if arch.is_timed_by_step:
        reasons.append(f"what single steps of {arch.name} take")
    if reasons:
        raise OptionError([Mistake("PM662", f"Timeloop cannot say this: {reason}") for reason in reasons])
    return "\n".join(text) + "\n"


def _problem(workload: Workload, reasons: list[str]) -> Lines:
    statement = workload.statements[0]
    if len(workload.statements) > 1 or statement.constraints or workload.original is not None:
        reasons.append("a program, or a domain that is no box")
        return []
    names = [access.tensor for access in (statement.target, *statement.reads)]
    if len(set(names)) < len(names) or any(tensor.initial or tensor.temporary for tensor in workload.tensors):
        reasons.append("a tensor that is read twice, or initial, or temporary")
    coefficients: dict[int, str] = {}
    spaces: Lines = []
    for access in (statement.target, *statement.reads):
        axes: Lines = []
        for index in access.index:
            if not index.is_linear or index.constant or any(factor < 1 for factor, _ in index.terms):
                reasons.append(f"the index {index} of {access.tensor}")
                continue
            terms = [
                f"[{dim}]" if factor == 1 else f"[{dim}, {coefficients.setdefault(factor, f'factor{factor}')}]"
                for factor, dim in index.terms
            ]
            axes.append(f"[{', '.join(terms)}]")
        spaces.append(f"      - name: {access.tensor}")
        spaces.append(f"        projection: [{', '.join(axes)}]")
        spaces += ["        read_write: true"] if access is statement.target else []
    sizes = workload.extents() | {name: factor for factor, name in coefficients.items()}
    lines = ["problem:", "  version: 0.4", "  shape:", f"    name: {_quoted(workload.name)}"]
    lines.append(f"    dimensions: [{', '.join(workload.extents())}]")
    lines.append("    coefficients:" if coefficients else "    coefficients: []")
    lines += [f"      - {{name: {name}, default: {factor}}}" for factor, name in coefficients.items()]
    return [*lines, "    data_spaces:", *spaces, f"  instance: {{{_pairs(sizes)}}}"]


def _architecture(workload: Workload, arch: Architecture, reasons: list[str]) -> Lines:
    bits = {tensor.bits for tensor in workload.tensors}
    if len(bits) > 1:
        reasons.append("tensors of different bits")
    if not arch.overlap or arch.compute.per_cycle != 1:
        reasons.append("latencies as sums, or several instances per cycle of a compute unit")
    lines = ["architecture:", "  version: 0.4", "  nodes:"]
    for node in arch.nodes:
        if isinstance(node, Fanout):
            if node.multicast is not Multicast.IDENTICAL or not node.reduction or node.dims is not None:
                reasons.append(f"multicast, reduction or dims of the fan-out {node.name}")
            if node.has_energies:
                reasons.append(f"energies of the fan-out {node.name}")
            lines += ["    - !Container", f"      name: {node.name}", f"      spatial: {{meshX: {node.size}}}"]
        elif isinstance(node, MemoryLevel):
            lines += _level(node, min(bits), reasons, is_outermost=node is arch.levels[0])
        else:
            lines += ["    - !Component", f"      name: {node.name}", "      class: compute"]
    return lines


def _level(level: MemoryLevel, bits: int, reasons: list[str], *, is_outermost: bool) -> Lines:
    if level.buffering != 1 and level.capacity_bits is None:
        reasons.append(f"buffering of {level.name}, which has no capacity")
    if level.holds is not None and set(level.holds) != set(level.must_hold):
        reasons.append(f"what {level.name} may hold and need not")
    if any(name.startswith("@") for name in (*(level.holds or ()), *level.must_hold)):
        reasons.append(f"roles that {level.name} holds")
    depth, rest = (None, 0) if level.capacity_bits is None else divmod(level.capacity_bits, level.word_bits)
    if rest:
        reasons.append(f"a capacity of {level.name} that is no whole number of words")
    if level.word_bits % bits:
        reasons.append(f"words of {level.name} ({level.word_bits} bits) that are no whole elements ({bits} bits)")
    attributes: dict[str, object] = {"datawidth": bits, "width": level.word_bits}
    if not is_outermost:
        attributes["depth"] = "null" if depth is None else depth  # null: it holds all
    if level.buffering != 1:
        attributes["multiple_buffering"] = level.buffering
    if level.bandwidth_bits_per_cycle is not None:
        attributes["shared_bandwidth"] = _decimal(level.bandwidth_bits_per_cycle / bits, reasons)
    for way in ("read", "write"):
        width = getattr(level, f"{way}_bandwidth_bits_per_cycle")
        attributes |= {} if width is None else {f"{way}_bandwidth": _decimal(width / bits, reasons)}
    lines = ["    - !Component", f"      name: {level.name}", "      class: storage"]
    lines.append(f"      attributes: {{{_pairs(attributes)}}}")
    if level.must_hold or level.holds is not None:
        word = "keep" if level.holds is None else "keep_only"
        lines.append(f"      constraints: {{dataspace: {{{word}: [{', '.join(level.must_hold)}]}}}}")
    return lines


def _ert(arch: Architecture, reasons: list[str]) -> Lines:
    lines = ["ERT:", "  version: 0.4", "  tables:"]
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            actions = {"read": node.read_pj, "write": node.write_pj, "leak": node.leak_pj_per_cycle}
        elif not isinstance(node, Fanout):
            actions = {"compute": node.pj}
        else:
            continue
        lines += [f"    - name: {node.name}", "      actions:"]
        lines += [f"        - {{name: {name}, energy: {_decimal(pj, reasons)}}}" for name, pj in actions.items()]
    return lines


def _mapping(workload: Workload, arch: Architecture, mapping: Mapping, reasons: list[str]) -> Lines:
    """Return a directive per level and fan-out. Each loop must stand below the storage of its level and above that of
    the next, temporal ones first."""
    loops, spread, held = _by_level(workload, arch, mapping, reasons)
    lines = ["mapping:"]
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            lines += _directive(node.name, "temporal", loops.get(node.name, []))
            bypassed = [each.name for each in workload.tensors if each.name not in held.get(node.name, ())]
            kept = ", ".join(held.get(node.name, ()))
            lines += [f"  - {{target: {node.name}, type: dataspace, keep: [{kept}], bypass: [{', '.join(bypassed)}]}}"]
        elif isinstance(node, Fanout):
            lines += _directive(node.name, "spatial", spread.get(node.name, []))
    return lines


def _by_level(
    workload: Workload, arch: Architecture, mapping: Mapping, reasons: list[str]
) -> tuple[dict[str, list[tuple[str, int]]], dict[str, list[tuple[str, int]]], dict[str, tuple[str, ...]]]:
    """Return temporal loops by level and spatial ones by fan-out as (dim, factor), and the tensors by level."""
    levels = [level.name for level in arch.levels]
    view = view_of(workload.extents(), mapping)
    if prod(loop.enclosing % loop.tile == 0 for loop in view.loops) == 0:
        reasons.append("tiles that do not divide the enclosing ones")
    current, below = 0, False
    loops: dict[str, list[tuple[str, int]]] = {}
    spread: dict[str, list[tuple[str, int]]] = {}
    held: dict[str, tuple[str, ...]] = {levels[0]: tuple(each.name for each in workload.tensors)}
    positions = iter(view.loops)
    for node in mapping.nodes:
        if isinstance(node, Storage) and node.tensors:
            place = levels.index(node.level)
            if place < current or (place == current and (loops.get(node.level) or below) and place):
                reasons.append(f"storage of {node.level} that stands apart from the level's other storage")
            current, below = max(place, current), below and place == current
            held[node.level] = tuple(dict.fromkeys((*held.get(node.level, ()), *node.tensors)))
        elif isinstance(node, Temporal):
            loop = next(positions)
            if below and loop.trips > 1:
                reasons.append(f"a temporal loop over {node.dim} inside spatial ones of the same level")
            loops.setdefault(levels[current], []).append((node.dim, loop.trips))
        elif isinstance(node, Spatial):
            loop = next(positions)
            above = sum(1 for each in arch.nodes[: _place(arch, node.fanout)] if isinstance(each, MemoryLevel)) - 1
            if above < current:
                reasons.append(f"a spatial loop over {node.fanout} below its level")
            current, below = max(above, current), True
            spread.setdefault(node.fanout, []).append((node.dim, loop.trips))
    for found in (*loops.values(), *spread.values()):
        dims = [dim for dim, trips in found if trips > 1]
        if len(set(dims)) < len(dims):
            reasons.append("two loops over one dim at one level")
    return loops, spread, held


def _place(arch: Architecture, name: str) -> int:
    return next(index for index, node in enumerate(arch.nodes) if node.name == name)


def _directive(target: str, kind: str, loops: list[tuple[str, int]]) -> Lines:
    used = [(dim, trips) for dim, trips in loops if trips > 1]
    if not used:
        return []
    factors = ", ".join(f"{dim}={trips}" for dim, trips in used)
    order = ", ".join(dim for dim, _ in reversed(used))
    return [f"  - {{target: {target}, type: {kind}, factors: [{factors}], permutation: [{order}]}}"]


def _decimal(value: Fraction, reasons: list[str]) -> object:
    """Return a number as YAML writes it; a reason where no decimal is equal."""
    if value.denominator == 1:
        return value.numerator
    if Fraction(repr(float(value))) != value:
        reasons.append(f"the number {value}")
    return repr(float(value))


def _pairs(table: dict[str, object] | dict[str, int]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in table.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
