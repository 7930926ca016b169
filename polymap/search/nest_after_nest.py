"""Programs nest after nest: every nest that is one accumulation over a box runs in the mapping that the search of nests
finds for it alone, others as written; the nests are the children of a branch at the root.

What a nest leaves for a later one goes through the outermost level, or stays in a level around all nests. A statement
that sets what the next one accumulates into runs right below the outermost node that holds the result, so that zeros
are neither written nor read outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polymap.ir import (
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Operator,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    dim,
    statements_below,
)
from polymap.resources import Stop
from polymap.search.around import without_nodes
from polymap.search.driver import Kind, Search
from polymap.search.evidence import Evidence
from polymap.search.legs import Leg, Nodes, as_written, legs_of
from polymap.search.options import TUNING
from polymap.search.problem import Objective, parse_objective
from polymap.search.programs import nests_of, with_values


@dataclass(frozen=True, slots=True)
class Nest:
    """A statement in loops of its own. sets: the statement right before it that sets what it accumulates into."""

    statement: Statement
    sets: Statement | None


def begin_nest_after_nest(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose the trees that run nest after nest, each in its own best mapping: with all results set before their nest;
    with those set inside it whose nest holds them; with what later nests read kept on chip where that is cheaper."""
    nests = nests_in_sequence(search.workload)
    if len(search.workload.statements) < 2 or not nests:
        return evidence
    for place, objective in enumerate(search.objective.singles):  # of an order or a front each by itself
        begun = replace(evidence, incumbents=()) if place else evidence
        evidence = evidence.with_incumbents(_by_one(search, begun, nests, objective).incumbents)
    return evidence


def begin_without_steps(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Bound a program by what it costs where single steps take no cycles of their own, and propose the trees that cost
    least there, and those that move least: in steps each takes as long at least."""
    plain = replace(search.asked, arch=search.arch.without_steps())
    _, found = search.ask(plain, Kind.PROGRAM, TUNING.without_steps_share)
    for place, floor in enumerate(found.floors):
        evidence = evidence.with_floor(place, floor)
    if found.left == () and found.best is not None and len(search.objective.singles) == 1:  # it is the best there
        evidence = evidence.with_floor(0, found.best[1])
    if found.clash is not None:
        return replace(evidence, clash=found.clash)
    moves = replace(plain, objective=parse_objective(f"traffic:{search.arch.levels[0].name}", search.arch))
    _, others = search.ask(moves, Kind.PROGRAM, TUNING.without_steps_share)
    for one in (*found.incumbents, *others.incumbents):
        evidence = search.with_tree(evidence, one.workload, one.mapping)
    return evidence


def _by_one(search: Search, evidence: Evidence, nests: tuple[Nest, ...], objective: Objective) -> Evidence:
    """Return the evidence with the trees of nests that are each best by one objective."""
    mapped = _mapped_alone(search, nests, objective)
    apart = tuple(child for nest, nodes in zip(nests, mapped, strict=True) for child in _one_by_one(nest, nodes))
    evidence = search.with_tree(evidence, search.workload, Mapping((Branch(apart),)))
    inside, workload = list[Nodes](), search.workload
    for nest, nodes in zip(nests, mapped, strict=True):
        children, workload = _set_inside(search, workload, nest, _map_nest(search, nest, nodes, objective))
        inside += children
    return kept_on_chip(search, search.with_tree(evidence, workload, Mapping((Branch(tuple(inside)),))))


def _mapped_alone(search: Search, nests: tuple[Nest, ...], objective: Objective) -> list[Nodes]:
    """Return each nest in its own best mapping, those of few instances first. What one leaves of its time is for those
    after it, what all leave for those that their time ended; where the limit is short, all together go past it."""
    extents, legs, limits = search.workload.extents(), legs_of(search), search.limits
    nests_share = TUNING.nests_share / len(search.objective.singles)
    end_s = limits.seconds() + max(nests_share * limits.left_s(), TUNING.nest_s * len(nests))
    mapped = dict[int, Nodes]()
    sizes = [prod(extents[name] for name in nest.statement.dims) for nest in nests]
    order = sorted(range(len(nests)), key=sizes.__getitem__)
    rounds = [(at, len(nests) - number) for number, at in enumerate(order)]
    for at, left in (*rounds, *((at, left) for left in (2, 1) for at in order)):  # those go on that their limit ended
        is_again = len(mapped) == len(nests)
        if is_again and (limits.work.limit is not None or limits.seconds() >= end_s):
            break
        own_s, left_s = max(0 if is_again else TUNING.nest_s, (end_s - limits.seconds()) / left), limits.left_s()
        share = own_s / left_s if own_s <= left_s else 1 + own_s  # past the limit
        share = share if limits.work.limit is None else nests_share / len(nests)
        leg = replace(Leg.of(nests[at].statement, extents), divides=search.divides)
        found = legs.nodes(search, search.workload, leg, objective, share, goes_on=True)
        mapped[at] = found or as_written(nests[at].statement)
    return [mapped[at] for at in range(len(nests))]


def nests_in_sequence(workload: Workload) -> tuple[Nest, ...]:
    """Return the nests of a program whose outermost loops hold one statement each, or one and another right before it
    that sets or scales its result; () for others."""
    numbers, groups = nests_of(workload), dict[int, list[Statement]]()
    for each in sorted(workload.statements, key=lambda each: each.position):
        groups.setdefault(numbers[each.name], []).append(each)
    found: list[Nest] = []
    for *before, statement in groups.values():
        prepares = all(each.target.tensor == statement.target.tensor for each in before)
        if len(before) > 1 or not prepares:
            return ()
        sets = [each for each in before if each.operator is Operator.ASSIGN and not each.reads]
        found += [Nest(each, None) for each in before if each not in sets]
        found.append(Nest(statement, *(sets or [None])))
    return tuple(found)


def _map_nest(search: Search, nest: Nest, nodes: Nodes, objective: Objective) -> Nodes:
    """Return the nodes of a nest, others where nobody, or several instances, would hold what is to be set there."""
    at = next((i for i, node in enumerate(nodes) if _holds(node, nest.statement.target.tensor)), None)
    if nest.sets is None or (at is not None and not _shares_sums(search, nest, nodes[: at + 1])):
        return nodes
    leg = replace(Leg.of(nest.statement, search.workload.extents()), shares_sums=False, divides=search.divides)
    return legs_of(search).nodes(search, search.workload, leg, objective, TUNING.leg_share) or nodes


def _one_by_one(nest: Nest, nodes: Nodes) -> list[Nodes]:
    """Return the children of the branch at the root for a nest: what it accumulates into is set before."""
    if nest.sets is None:
        return [nodes]
    return [as_written(nest.sets), nodes]


def _set_inside(search: Search, workload: Workload, nest: Nest, nodes: Nodes) -> tuple[list[Nodes], Workload]:
    """Return the same where the result is set right below its outermost node, in loops called like those around it, and
    the program with its loops renamed; as before it where it is held nowhere, or indexed otherwise."""
    names = _new_dim_names(nest, workload)
    at = next((i for i, node in enumerate(nodes) if _holds(node, nest.statement.target.tensor)), None)
    if nest.sets is None or names is None or at is None or _shares_sums(search, nest, nodes[: at + 1]):
        return _one_by_one(nest, nodes), workload
    below = at + 1
    while isinstance(nodes[below], Storage):
        below += 1  # nodes that stand there with it keep what they hold while zeros are set
    loops = (node for node in nodes[below:] if isinstance(node, Temporal | Spatial) and node.dim in names.values())
    children = ((*loops, Compute(nest.sets.name)), nodes[below:])
    return [(*nodes[:below], Branch(children))], _rename_loops(workload, nest.sets, names)


def _shares_sums(search: Search, nest: Nest, nodes: Nodes) -> bool:
    """Return whether several instances of the last node hold partial sums of one element."""
    node, kept = nodes[-1], set(nest.statement.target.dims)
    assert isinstance(node, Storage)
    above = {fanout.name for fanout in search.arch.fanouts_above(node.level)}
    return any(isinstance(each, Spatial) and each.fanout in above and each.dim not in kept for each in nodes)


def _holds(node: MappingNode, tensor: str) -> bool:
    return isinstance(node, Storage) and tensor in node.tensors


def _new_dim_names(nest: Nest, workload: Workload) -> dict[str, str] | None:
    """Return, per dim of the setting statement, the equally long dim of the other one that indexes the same axis alone;
    None where some axis is indexed otherwise."""
    names, extents = dict[str, str](), workload.extents()
    if nest.sets is None:
        return None
    for own, other in zip(nest.sets.target.index, nest.statement.target.index, strict=True):
        if len(own.dims) != 1 or len(other.dims) != 1 or (own, other) != (dim(own.dims[0]), dim(other.dims[0])):
            return None
        names[own.dims[0]] = other.dims[0]
    same = len(set(names.values())) == len(names) and set(names) == set(nest.sets.dims)
    return names if same and all(extents[old] == extents[new] for old, new in names.items()) else None


def _rename_loops(workload: Workload, statement: Statement, names: dict[str, str]) -> Workload:
    """Return the program with the loops of a statement called like equally long ones of another."""
    values = {old: dim(new) for old, new in names.items()}
    own = replace(with_values(statement, values), dims=tuple(names[old] for old in statement.dims))
    statements = tuple(own if each.name == own.name else each for each in workload.statements)
    used = {name for each in statements for name in each.dims}
    return replace(workload, statements=statements, dims=tuple(each for each in workload.dims if each.name in used))


def kept_on_chip(search: Search, evidence: Evidence) -> Evidence:
    """Propose, level by level from the innermost one and tensor by tensor, the best tree with what several nests touch
    held in a level around these nests."""
    workload, kept = search.workload, set[str]()
    for number, level in reversed(list(enumerate(search.arch.levels[1:], 1))):
        for tensor in workload.tensors:
            users = [each.name for each in workload.statements if accesses_of(each, tensor.name)]
            bits = prod(tensor.shape) * tensor.bits
            has_room = level.usable_bits is None or bits <= level.usable_bits
            may_be_held = level.may_hold(tensor) and not search.arch.fanouts_above(level.name)
            if len(users) > 1 and has_room and may_be_held and tensor.name not in kept:
                before, evidence = evidence, _with_node_around(search, evidence, tensor.name, number)
                kept |= {tensor.name} if evidence.incumbents[:1] != before.incumbents[:1] else set()
    return evidence


def _with_node_around(search: Search, evidence: Evidence, tensor: str, level: int) -> Evidence:
    """Return the evidence with a node for a tensor above the children of the best tree from its first user to its last,
    in place of those inside it in this level and outer ones. Trees that take long to count are tried as long as there
    is time."""
    if not evidence.incumbents:
        return evidence
    if evidence.incumbents[0].cost.method != "closed form" and search.limits():
        return evidence
    best, names = evidence.incumbents[0], [each.name for each in search.arch.levels]
    *around, branch = best.mapping.nodes
    assert isinstance(branch, Branch)
    if any(_holds(node, tensor) for node in around):
        return evidence
    children, every = branch.children, {each.name: each for each in best.workload.statements}
    used = [at for at, c in enumerate(children) if any(accesses_of(every[s], tensor) for s in statements_below(c))]
    begin, end = used[0], used[-1] + 1
    own = tuple(without_nodes(child, (tensor,), names[: level + 1]) for child in children[begin:end])
    inner = (Storage(names[level], (tensor,)), *(own[0] if len(own) == 1 else (Branch(own),)))
    nodes = inner if len(own) == len(children) else (Branch((*children[:begin], inner, *children[end:])),)
    return search.with_tree(evidence, best.workload, Mapping((*around, *nodes)))
