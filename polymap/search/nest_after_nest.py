"""Programs nest after nest: every nest that is one accumulation over a box runs in the mapping that the search of nests
finds for it alone, others as written; the nests are the children of a branch at the root.

What a nest leaves for a later one goes through the outermost level, or stays in a level around all nests. A statement
that sets what the next one accumulates into runs right below the outermost node that holds the result, so that zeros
are neither written nor read outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
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
    part_of,
    statements_below,
)
from polymap.resources import Stop
from polymap.search.around import levels_above_fanouts, without_nodes
from polymap.search.driver import Kind, Search
from polymap.search.evidence import Evidence
from polymap.search.forms import with_less_room
from polymap.search.fused_trees import FusedTrees, Part
from polymap.search.legs import (
    Leg,
    Legs,
    Nodes,
    adds_up,
    as_written,
    is_long,
    legs_of,
    move_cost,
    shared_tile,
    takes_long_to_climb,
)
from polymap.search.options import TUNING
from polymap.search.problem import Objective, parse_objective
from polymap.search.programs import Around, Column, Home, Residence, Selection, nests_of, selections, with_values


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
    least = found.best[1] if found.left == () and found.best and len(search.objective.singles) == 1 else None
    space = found.space if found.space is not None and found.space.name else None  # others there may cost less
    evidence = evidence.with_floor(0, None if space else least)
    if found.clash is not None:
        return replace(evidence, clash=found.clash)
    moves = replace(plain, objective=parse_objective(f"traffic:{search.arch.levels[0].name}", search.arch))
    _, others = search.ask(moves, Kind.PROGRAM, TUNING.without_steps_share)
    for one in (*found.incumbents, *others.incumbents):
        evidence = search.with_tree(evidence, one.workload, one.mapping)
    is_best = space is not None and least is not None and bool(evidence.best) and evidence.best[1] <= least
    return replace(evidence, left=(), space=space) if is_best else evidence


def _by_one(search: Search, evidence: Evidence, nests: tuple[Nest, ...], objective: Objective) -> Evidence:
    """Return the evidence with the trees of nests that are each best by one objective."""
    mapped = _mapped_alone(search, nests, objective)
    apart = tuple(child for nest, nodes in zip(nests, mapped, strict=True) for child in _one_by_one(nest, nodes))
    evidence = search.with_tree(evidence, search.workload, Mapping((Branch(apart),)))
    inside, workload = list[Nodes](), search.workload
    for nest, nodes in zip(nests, mapped, strict=True):
        children, workload = _set_inside(search, workload, nest, _map_nest(search, nest, nodes, objective))
        inside += children
    evidence = search.with_tree(evidence, workload, Mapping((Branch(tuple(inside)),)))
    return kept_on_chip(search, _with_stays(search, evidence, nests, objective))


def _with_stays(search: Search, evidence: Evidence, nests: tuple[Nest, ...], objective: Objective) -> Evidence:
    """Return the evidence with the tree in which the tensors stay on chip that save most together, of sums. Not of
    programs in which neighbours alone share tensors, which chains decide, nor of large ones of many nests, of which
    these need the time (31 of 120 CPU s for a block of Llama-3-8B)."""
    workload, limits = search.workload, search.limits
    is_large = is_long(workload) and takes_long_to_climb(search)
    is_chain = all(users[-1] - users[0] < 2 for users in _users(workload).values() if users)
    is_other = is_chain or is_large or any(nest.sets for nest in nests) or not adds_up(search, objective)
    if is_other or evidence.is_met:
        return evidence
    trees = FusedTrees(search, workload, objective, divides=search.divides)
    alone = {(at, at + 1): (part_of(workload, (each,)), each) for at, each in enumerate(workload.statements)}
    parts = {ends: part for ends, each in alone.items() if (part := trees.alone(*each)) is not None}
    is_over = limits.until(limits.share() + TUNING.staying_share_of_nests * max(0.0, 1 - limits.share()))
    for _, nodes in Staying(search, workload, objective).trees(parts, is_over, TUNING.staying_slack):
        evidence = search.with_tree(evidence, workload, Mapping(nodes))
    return evidence


def _users(workload: Workload) -> dict[str, list[int]]:
    """Return the numbers of the statements that touch each tensor."""
    users = {each.name: list[int]() for each in workload.tensors}
    for at, each in enumerate(workload.statements):
        for name in users:
            users[name] += [at] if accesses_of(each, name) else []
    return users


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


Ends = tuple[int, int]  # the number of a part's first statement, and of the one after its last


class PartsBelow(dict[tuple[Nodes, tuple[Home, ...], tuple[tuple[int, int], ...]], Part]):
    """Parts below what stays around them, by their nodes alone, their tensors there, and what is taken."""


@dataclass(frozen=True, slots=True)
class Staying:
    """What may stay whole in levels around parts of a program, where no loop stands around them."""

    search: Search
    workload: Workload
    objective: Objective

    @property
    def known(self) -> PartsBelow:
        return self.search.engines.made(PartsBelow, PartsBelow, (self.objective.text, self.workload))

    def trees(self, parts: dict[Ends, Part], is_over: Stop, slack: Fraction) -> Iterator[tuple[Selection, Nodes]]:
        """Yield ever better selections of what stays, with their trees. parts: by their ends. slack: of what the last
        one costs, by how much less others may cost."""
        own, are_all = sorted(parts.items()), {*range(len(self.workload.statements))} <= {begin for begin, _ in parts}
        stays = list(self._stays()) if are_all else []
        columns = [self._column(*each) for each in own]
        levels = self.search.arch.levels
        rooms = {number: levels[number].usable_bits for number in sorted({each.home[1] for each in stays})}

        def ask(asked: Around) -> Fraction | None:
            return self._cost(*own[asked.column], asked)

        ends, names = (0, len(self.workload.statements)), [each.name for each in levels]
        for found in selections(columns, stays, rooms, ask, is_over, slack) if stays else ():
            children = {own[each.column][0]: self._child(own[each.column][1], each) for each in found.parts}
            yield found, _nested(ends, children, found.stays, names)

    def _cost(self, ends: Ends, part: Part, asked: Around) -> Fraction | None:
        """Return what a part costs, without what passes to and from the tensors that stay around it."""
        found = self.known.get((part.nodes, asked.held, asked.taken)) or self._below(ends, part, asked)
        if found is None:
            return None
        self.known[part.nodes, asked.held, asked.taken] = found
        passes = {name: (read, written) for name, read, written in found.passes}
        return found.value - sum(
            (self._moved(level, *passes.get(name, (0, 0))) for name, level in asked.held), Fraction(0)
        )

    def _below(self, ends: Ends, part: Part, asked: Around) -> Part | None:
        """Return a part below its tensors that stay, with the best legs that others leave room for; None where there is
        no room: what costs least with less taken, if it has room."""
        program, levels = part_of(self.workload, self.workload.statements[slice(*ends)]), self.search.arch.levels
        taken = dict(asked.taken)
        for name, level in asked.held:
            taken[level] -= self._bits(name)
        arch = with_less_room(self.search.arch, ((levels[level].name, bits) for level, bits in taken.items()))
        if arch is None:
            return None
        legs_of(self.search)
        search = replace(
            self.search, asked=replace(self.search.asked, arch=arch), engines=self.search.engines.only(Legs)
        )
        most = dict(asked.taken)
        before = [
            each
            for (nodes, held, less), each in self.known.items()
            if (nodes, held) == (part.nodes, asked.held) and all(bits <= most.get(level, 0) for level, bits in less)
        ]
        best = max(before, key=lambda each: each.value, default=None)
        if best is not None and search.legal_cost(program, Mapping(best.nodes)) is not None:
            return best
        nodes = part.nodes if isinstance(part.nodes[-1], Branch) else (Branch((part.nodes,)),)
        for name, level in reversed(asked.held):
            inside = without_nodes(nodes, (name,), [each.name for each in levels[: level + 1]])
            nodes = (Storage(levels[level].name, (name,)), *inside)
        trees = FusedTrees(search, self.workload, self.objective, divides=search.divides)
        return trees.part_with_best_legs(program, nodes)

    def _child(self, part: Part, asked: Around) -> Nodes:
        """Return what stands below what stays."""
        *own, last = self.known[part.nodes, asked.held, asked.taken].nodes[len(asked.held) :]
        return last.children[0] if isinstance(last, Branch) and not own and len(last.children) == 1 else (*own, last)

    def _moved(self, level: int, read: int, written: int) -> Fraction:
        """Return what bits that the outermost level reads and writes cost there and in the level that they go to."""
        own = self.search.arch, self.objective
        return move_cost(*own, 0, read, written) + move_cost(*own, level, written, read)

    def _bits(self, tensor: str) -> int:
        own = self.workload.tensor(tensor)
        return own.bits * (shared_tile(self.workload, tensor, self.workload.extents()) or 0)

    def _column(self, ends: Ends, part: Part) -> Column:
        statements = self.workload.statements[slice(*ends)]
        passes = {name: (read, written) for name, read, written in part.passes}
        if len(statements) == 1:  # whose mapping below a tensor is one of it alone with one pass more
            bits, target = {name: self._bits(name) for name in passes}, statements[0].target.tensor
            passes = {name: (0, many) if name == target else (many, 0) for name, many in bits.items()}
        places = product(passes, range(1, len(self.search.arch.levels)))
        saved = {(name, level): self._moved(level, *passes[name]) for name, level in places}
        return Column(*ends, part.value, saved)

    def _stays(self) -> Iterator[Residence]:
        """Yield the stays that are tried: of what several statements touch, one of which at most writes it."""
        statements, arch, users_of = self.workload.statements, self.search.arch, _users(self.workload)
        for tensor in self.workload.tensors:
            users = users_of[tensor.name]
            writers = [at for at in users if statements[at].target.tensor == tensor.name]
            bits = self._bits(tensor.name)
            is_made_once = writers in ([], users[:1]) and not (writers and tensor.initial)
            if len(users) < 2 or not bits or not is_made_once:
                continue
            for level in levels_above_fanouts(arch, self.workload, (tensor.name,)):
                if bits > (arch.levels[level].usable_bits or bits):
                    continue
                is_few = len(statements) <= TUNING.most_nested
                last = [at + 1 for at in users]
                ends = combinations(range(len(statements) + 1), 2) if is_few else product(users, last)
                for begin, end in ends:
                    inside = [at for at in users if begin <= at < end]
                    if len(inside) > 1:
                        is_made = inside[0] in writers
                        is_kept = is_made and (not tensor.temporary or inside[-1] != users[-1])
                        cost = self._moved(level, bits * (not is_made), bits * is_kept)
                        yield Residence((tensor.name, level), begin, end, bits, cost)


def _nested(
    ends: tuple[int, int], children: dict[tuple[int, int], Nodes], stays: Sequence[Residence], names: Sequence[str]
) -> Nodes:
    """Return children one after the other, below what stays around them."""
    here = [each for each in stays if (each.begin, each.end) == ends]
    if here:
        (tensor, level), inner = here[0].home, [each for each in stays if each != here[0]]
        return (Storage(names[level], (tensor,)), *_nested(ends, children, inner, names))
    found, at = list[Nodes](), ends[0]
    while at < ends[1]:
        inside = [each.end for each in stays if each.begin == at and each.end <= ends[1]]
        end = max(inside, default=at)
        if inside:
            found.append(
                _nested((at, end), children, [each for each in stays if at <= each.begin and each.end <= end], names)
            )
        else:
            end = next(last for first, last in children if first == at)
            found.append(children[at, end])
        at = end
    return found[0] if len(found) == 1 else (Branch(tuple(found)),)
