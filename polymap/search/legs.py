"""One statement of a program as a nest of its own, some of its tensors given: what programs ask the search of nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import lcm, prod
from operator import eq
from types import MappingProxyType

from polymap.costmodel import Cost
from polymap.ir import (
    Access,
    Affine,
    Architecture,
    Compute,
    Mapping as LoopTree,
    MappingNode,
    MemoryLevel,
    Operator,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    bounds,
    is_box,
    nest_of,
    sets_each_once,
    written_tensors,
)
from polymap.search.dividing import Count, Outcome, best_product_tiles, solve
from polymap.search.driver import Engines, Search
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.forms import Form, form_of, own_form, paid_in_part, part_paid, with_less_room
from polymap.search.options import TUNING
from polymap.search.problem import (
    AtLeast,
    Component,
    Factor,
    Goal,
    Held,
    Objective,
    Powers,
    Rules,
    Span,
    analyse,
    floor_of,
    least_steps,
    measure_of,
    objective_values,
    parse_single,
    rules_from_document,
    rules_of_nest,
)
from polymap.search.programs import in_lines, instance_bound, makes_rows_again, may_be_climbed
from polymap.search.relatives import Relative, asked_of, at_least, filled_once, is_plain_energy
from polymap.search.result import SearchResult

Nodes = tuple[MappingNode, ...]
Places = tuple[tuple[int, int], ...]  # (tensor, level), by number
Parts = tuple[tuple[int, int, int, int], ...]  # (tensor, level, inner one, among how many), by number


@dataclass(frozen=True, slots=True)
class Leg:
    """A statement over tiles of its dims.

    given: (tensor, level) where all that it touches of a tensor stands around it, on every instance what that one
    touches. taken: (level, bits) that others hold meanwhile. spread: (fan-out, dim, instances) of the spatial loops
    around it, which cut these tiles. fixed: fan-outs over which no other loops run. first: (tensor, level) in which
    a tensor stands first, straight from the outermost level. free: (tensor, level) that holds it, and whose loads
    cost nothing, nor do those of levels above it that must hold the tensor. parts: (tensor, level, inner one, number)
    whose loads from the first level as far as the second cost one of so many parts. Of either tiles divide, and
    objectives are sums. spans: how many indices are left at nodes, what levels hold or do not, and which fan-outs cut
    no dim. once: tensors of which only one element is read, over and over. unpaid: of which what so many outermost
    levels move costs a part (`part_paid`). shares_sums: whether siblings may add parts of one sum. divides: whether
    tiles divide.
    """

    statement: str
    extents: tuple[tuple[str, int], ...]
    given: tuple[tuple[str, int], ...] = ()
    taken: tuple[tuple[int, int], ...] = ()
    spread: tuple[tuple[str, str, int], ...] = ()
    fixed: tuple[str, ...] = ()
    first: tuple[tuple[str, int], ...] = ()
    free: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int, int, int], ...] = ()
    spans: tuple[Span | Held | Factor, ...] = ()
    once: tuple[str, ...] = ()
    unpaid: tuple[tuple[str, int], ...] = ()
    shares_sums: bool = True
    divides: bool = True

    @staticmethod
    def of(statement: Statement, extents: Mapping[str, int]) -> Leg:
        """Return the leg of a statement, nothing given. extents: of all dims."""
        return Leg(statement.name, tuple((name, extents[name]) for name in statement.dims))


def nest_of_leg(workload: Workload, leg: Leg) -> Workload | None:
    """Return the nest that accumulates what the statement does; None where it is none over a box. A statement that sets
    each element once adds to it from zero."""
    statement = workload.statement(leg.statement)
    if leg.once:
        reads = tuple(Access(each.tensor, ()) if each.tensor in leg.once else each for each in statement.reads)
        statement = replace(statement, reads=reads)
        single = (replace(each, shape=(), origin=()) if each.name in leg.once else each for each in workload.tensors)
        workload = replace(workload, tensors=tuple(single))
    workload, statement = _with_digits_apart(workload, statement)
    sets = statement.operator is Operator.ASSIGN
    if not is_box(statement) or (sets and not sets_each_once(statement)):
        return None
    is_initial = workload.tensor(statement.target.tensor).initial and not sets
    return nest_of(workload, statement, dict(leg.extents), is_initial=is_initial)


def _with_digits_apart(workload: Workload, statement: Statement) -> tuple[Workload, Statement]:
    """Return a program and a statement whose target has an axis for each dim of an index that tells their values apart
    (5*t + v of five v): elements are the same ones, and the search of nests has no windows in results."""
    target, extents = statement.target, workload.extents()
    axes = [
        tuple(Affine(((1, name),)) for name in form.dims)
        if len(form.dims) > 1 and form.tells_apart(extents)
        else (form,)
        for form in target.index
    ]
    index = tuple(form for own in axes for form in own)
    if index == target.index or not target.is_box or any(each.tensor == target.tensor for each in statement.reads):
        return workload, statement
    shape = tuple(bounds(form, extents)[1] + 1 for form in index)
    tensors = (
        replace(each, shape=shape, origin=(0,) * len(shape)) if each.name == target.tensor else each
        for each in workload.tensors
    )
    return replace(workload, tensors=tuple(tensors)), replace(statement, target=replace(target, index=index))


def form_of_leg(
    search: Search, workload: Workload, leg: Leg, objective: Objective, *, relaxes: bool = False
) -> Form | None:
    """Return what is asked of the search of nests for a leg of a program; None where it does not cover it, or there is
    no room. relaxes: whether what it asks for may cost less (forms.py)."""
    nest, levels = nest_of_leg(workload, leg), search.arch.levels
    arch = with_less_room(search.arch, ((levels[level].name, bits) for level, bits in leg.taken))
    if nest is None or arch is None:
        return None
    arch = _without_widths(arch, min(dict(leg.given).get(each.name, 0) for each in nest.tensors))
    rules = () if leg.shares_sums else _without_shared_sums(nest, search.arch)
    rules = (*rules, *_rules_around(search.arch, nest, leg))
    for name, level in leg.first:
        rules = (*rules, *held_first(search.arch, name, level))
    for name, level in leg.free:
        own = nest.tensor(name)
        needed = {each.name for each in levels[:level] if each.requires(own)}
        rules = (*rules, *(each for each in held_first(search.arch, name, level) if each.level not in needed))
    rules = (*rules, *leg.spans)
    relative = Relative(nest, arch.naming_only(nest.tensors), (*rules, *rules_of_nest(search.rules, nest)))
    apart = {each.dim for each in leg.spans if isinstance(each, Span)} | {
        dim for _, dim, instances in leg.spread if instances > 1
    }
    if search.rules:
        return own_form(relative)
    return form_of(relative, objective, apart, divides=leg.divides, relaxes=relaxes)


def _without_widths(arch: Architecture, outside: int) -> Architecture:
    """Return the machine with no bandwidths of so many outermost levels, as all that a leg touches stands inside."""
    none = dict[str, None].fromkeys(
        ("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle")
    )
    names = [each.name for each in arch.levels[:outside]]
    nodes = (replace(each, **none) if each.name in names else each for each in arch.nodes)
    return replace(arch, nodes=tuple(nodes)) if names else arch


def _rules_around(arch: Architecture, nest: Workload, leg: Leg) -> Rules:
    """Return the rules that say what stands around a leg."""
    rules: Rules = ()
    for name, level in leg.given:
        above = {fanout.name for fanout in arch.fanouts_above(arch.levels[level].name)}
        tiles = dict(leg.extents)
        for fanout, dim, instances in leg.spread:
            tiles[dim] = -(-tiles[dim] // instances) if fanout in above else tiles[dim]
        elements = elements_of(accesses_of(nest.statements[0], name)[0], tiles)
        rules = (*rules, *held_first(arch, name, level), AtLeast(arch.levels[level].name, name, elements))
    chosen = {(fanout, dim): instances for fanout, dim, instances in leg.spread}
    for fanout in leg.fixed:
        for name, _ in leg.extents:
            instances = chosen.get((fanout, name), 1)
            rules = (*rules, Factor(fanout, name, instances, instances))
    return rules


def _without_shared_sums(nest: Workload, arch: Architecture) -> Rules:
    """Return the rules by which no fan-out spreads a dim that the target lacks."""
    kept = set(nest.statements[0].target.dims)
    reduced = [each.name for each in nest.dims if each.name not in kept]
    table = {fanout.name: {"forbid": reduced} for fanout in arch.fanouts}
    return rules_from_document({"fanouts": table}, nest, arch) if reduced and table else ()


def held_first(arch: Architecture, tensor: str, level: int) -> tuple[Held, ...]:
    """Return the rules that a tensor comes from the outermost level straight into a level below it."""
    names = [each.name for each in arch.levels]
    between = (Held(name, tensor, must=False) for name in names[1:level])
    return (*between, *((Held(names[level], tensor, must=True),) if level else ()))


def least_of_leg(search: Search, leg: Leg, objective: Objective, share: float) -> Fraction | None:
    """Return what a leg of the program costs at least, 0 where that is not known; None where it has no mapping."""
    form = form_of_leg(search, search.workload, leg, objective, relaxes=True)
    if form is None:
        return Fraction(0)
    if leg.free or leg.spans or leg.parts or leg.unpaid:  # asked over tiles that divide alone
        least = legs_of(search).with_shared_loads(search, form, objective, share, leg) if leg.divides else Fraction(0)
        return None if least is None else form.times * least
    found = legs_of(search).answer(search, form, objective, share, divides=leg.divides, goes_on=True)
    least = at_least(form.relative, found, objective)
    return None if least is None else form.times * least


def dividing_legs(search: Search, statement: Statement | None = None) -> bool:
    """Return whether what legs (that of a statement) cost at least is asked over tiles that divide. Where other loops
    are tried, now or when the search goes on, tiles that divide their extents may not divide these; where rows are made
    again, those of the last statement do, which is cut into tiles that divide."""
    is_climbed = may_be_climbed(search.workload, search.arch, search.objective)
    is_last = statement == search.workload.statements[-1]
    return search.divides and not is_climbed and (is_last or not makes_rows_again(search.workload))


def least_cycles(search: Search) -> Fraction:
    """Return the cycles that every tree takes at least, of tiles that divide as many siblings as divide an extent."""
    workload, arch, extents = search.workload, search.arch, search.workload.extents()
    nests = [each for each in workload.statements if is_box(each)]
    boxes = [(each, {name: extents[name] for name in each.dims}) for each in nests]
    steps = sum(least_steps(box, arch, divides=dividing_legs(search, each)) or 0 for each, box in boxes)
    fastest = floor_of(workload, arch, parse_single("latency", arch))
    return max(fastest, Fraction(-(-steps // arch.compute.per_cycle)))


def adds_up(search: Search, objective: Objective) -> bool:
    """Return whether what a program costs is a sum over what its statements move, so many times each."""
    return objective.goal is Goal.TRAFFIC or (objective.goal is Goal.ENERGY and is_plain_energy(search.arch))


def in_lines_of(search: Search) -> Workload | None:
    """Return the program in lines, trees of which are looked for, too: where sums of energy or traffic are asked for.
    What bounds the steps of a statement bounds not those of its parts."""
    workload = search.workload
    if workload.original is not None or search.rules or not adds_up(search, search.objective):
        return None
    end = workload.statements[-1].target
    lines = (in_lines(workload, name) for name in end.dims if name in end.dims_alone)
    return next((each for each in lines if each is not None), None)


def takes_long_to_climb(search: Search) -> bool:
    """Return whether climbing looks at a few shapes at most before the limit, and would not end with it."""
    return search.limits.left_s() < TUNING.climb_s_per_instance * instance_bound(search.workload)


def nodes_of_leg(search: Search, leg: Leg, mapped: Nodes) -> Nodes | None:
    """Return the nodes of a leg's mapping without those that stand around it: what the outermost level holds
    anyway, what is given, and loops over fan-outs above that. None where loops around the latter do not divide."""
    names = [level.name for level in search.arch.levels]
    given = {(name, names[level]) for name, level in leg.given}
    nodes: list[MappingNode] = []
    apart = Counter[str]()  # instances of loops that are still to come
    spread = {(fanout, dim): instances for fanout, dim, instances in leg.spread}
    for (_, dim), instances in spread.items():
        apart[dim] = instances * max(1, apart[dim])
    for node in mapped:
        if isinstance(node, Storage):
            outer = {name for name, level in given if level == node.level}
            nodes += node.of(lambda name, outer=outer: name not in outer) if node.level != names[0] else ()
        elif isinstance(node, Spatial) and node.fanout in leg.fixed:
            apart[node.dim] //= spread.get((node.fanout, node.dim), 1)
        elif isinstance(node, Temporal | Spatial) and apart[node.dim] > 1:
            if node.tile % apart[node.dim]:
                return None
            nodes.append(replace(node, tile=node.tile // apart[node.dim]))
        else:
            nodes.append(node)
    return tuple(nodes)


def passed_tensors(workload: Workload, *, apart: bool = False) -> tuple[Tensor, ...] | None:
    """Return the tensors that one statement leaves for others; None where there are none, or the bound does not
    hold. apart: others have written parts of these before."""
    found = list[Tensor]()
    for tensor in workload.tensors:
        users = users_of(workload, tensor.name)
        writers = [each for each in workload.statements if each.target.tensor == tensor.name]
        if len(users) < 2 or not writers:
            if writers and tensor.temporary:
                return None  # nobody reads it: it never leaves
            continue
        is_alone = len(writers) == 1 and (
            writers[0].target.is_plain or (apart and _sets_each_once(writers[0], workload))
        )
        if not is_alone or users[0] != writers[0].name or tensor.initial:
            return None
        found.append(tensor)
    return tuple(found) or None


def _sets_each_once(writer: Statement, workload: Workload) -> bool:
    """Return whether for other values of its target's dims a statement writes other elements."""
    extents = workload.extents()
    forms = [(each - each.constant, prod(extents[name] for name in each.dims)) for each in writer.target.index]
    return writer.target.is_box and all(form.reach(extents) == many for form, many in forms)


def users_of(workload: Workload, tensor: str) -> list[str]:
    """Return the names of the statements that touch a tensor."""
    return [each.name for each in workload.statements if accesses_of(each, tensor)]


def is_long(workload: Workload) -> bool:
    """Return whether a program has more nests than share loops, so that each segment gets few trees."""
    return len(workload.statements) > TUNING.most_in_a_segment


class Legs:
    """The answers to the nests that were asked for, by objective; None: the search of nests does not cover one. What a
    limit left without a mapping is asked again; what it left unproven goes on, where that is asked for. cut: how many
    answers a limit left unproven."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Relative, bool], SearchResult | None] = {}
        self._left: dict[tuple[str, Relative, bool], tuple[Evidence, Engines]] = {}
        self._freed: dict[tuple[str, Relative, Places, Parts, Places], Fraction | None] = {}
        self.cut = 0

    def answer(
        self, search: Search, form: Form, objective: Objective, share: float, *, divides: bool, goes_on: bool = False
    ) -> SearchResult | None:
        """Return what the search of nests answers. share: of what is left of the limit; above 1 it goes past it
        (Limits.part). goes_on: whether what a limit ends is kept, and goes on from there."""
        key = objective.text, form.relative, divides
        is_over = search.limits() and share <= 1
        if (key in self._known and not (key in self._left and goes_on)) or is_over:
            self.cut += key not in self._known or key in self._left
            return self._known.get(key)
        asked = asked_of(search, form.relative, objective, divides=divides)
        begun, engines = self._left.pop(key, (None, Engines()))
        found, evidence = (
            (None, None) if asked is None else search.ask(*asked, share, begun and begun.renewed(), engines)
        )
        if found is None or evidence is None or found.status != "TIMEOUT":
            self._known[key] = found
        if goes_on and found is not None and evidence is not None and found.status == "FEASIBLE":
            self._left[key] = evidence, engines
        self.cut += found is not None and found.status in ("FEASIBLE", "TIMEOUT")
        return found

    def with_shared_loads(
        self, search: Search, form: Form, objective: Objective, share: float, leg: Leg
    ) -> Fraction | None:
        """Return what a leg's nest costs at least, 0 where that is not known, where loads of some tensors cost nothing,
        or a part; None where it has no mapping."""
        relative = form.relative
        numbers = {form.tensors[tensor.name]: number for number, tensor in enumerate(relative.workload.tensors)}
        free = tuple((numbers[name], level) for name, level in leg.free)
        parts = tuple((numbers[name], level, inner, many) for name, level, inner, many in leg.parts)
        unpaid = tuple((numbers[name], levels) for name, levels in leg.unpaid)
        key = objective.text, relative, free, parts, unpaid
        if key in self._freed:
            return self._freed[key]
        problem = analyse(relative.workload, relative.arch, relative.rules)
        if problem.reason is not None or search.limits():
            self.cut += problem.reason is None
            return Fraction(0)
        measure, limits = measure_of(objective, problem.workload, problem.arch), search.limits.part(share)
        times = lcm(*(many for *_, many in parts)) * (part_paid(0).denominator if unpaid else 1)
        target = numbers[form.tensors[relative.workload.statements[0].target.tensor]]
        loaded = (
            paid_in_part(_with_loads_in_parts(_with_free_loads(each, free), parts, times, target), unpaid)
            for each in measure.components
        )
        measure = replace(measure, components=tuple(loaded), fixed_energy=times * measure.fixed_energy)
        answer = best_product_tiles(problem, measure, limits, limits.work)
        found, least, is_proven = (None, 0, False) if answer is None else (answer.found, answer.bound, answer.is_proven)
        if not is_proven:
            begun = None if found is None else Outcome((found,), None, Count(), 0, None)
            outcome = solve(problem, measure, limits, lambda _found, _bound: None, work=limits.work, before=begun)
            found, is_proven = next(iter(outcome.found), None), outcome.left == ()
            least = max(least or 0, min(outcome.left or (0,)) if outcome.bound is None else outcome.bound)
        search.limits.work.add(limits.work.done)
        if not is_proven:
            self.cut += 1
            return measure.unscaled(least or 0) / times
        self._freed[key] = None if found is None else measure.unscaled(found[0]) / times
        return self._freed[key]

    def nodes(
        self,
        search: Search,
        workload: Workload,
        leg: Leg,
        objective: Objective,
        share: float,
        *,
        goes_on: bool = False,
    ) -> Nodes | None:
        """Return the best nodes of a leg without those that stand around it; None where there are none. workload: the
        program, or it with its loops renamed. Of a sum: those best by its first part, if they are by the others; where
        time is asked for, the best of those that several questions find, and of those the one that transfers least."""
        best: tuple[tuple[Fraction, ...], Nodes] | None = None
        first, *others = parts = _parts_of(objective)
        is_sum = objective.goal.powers is None or not others
        linear = _in_transfers(search.arch, objective if is_sum else others[-1])
        compared = (objective, linear) if is_sum and linear is not None else (objective,)
        is_timed = any(each.goal is Goal.LATENCY for each in parts)
        for one, own_share in _asked_in_turn(search, objective, parts, linear, share):
            form = form_of_leg(search, workload, leg, one)
            if form is None:
                continue
            found = self.answer(search, form, one, own_share, divides=leg.divides, goes_on=goes_on)
            if found is None or found.best is None or found.cost is None:
                continue
            is_fast = one.goal is Goal.LATENCY and first.goal is Goal.ENERGY
            fast = _spread_as(form, found.best) if is_fast else None  # as many siblings, with the least energy
            other = None if fast is None else self.answer(search, fast, first, own_share, divides=leg.divides)
            given = {(name, search.arch.levels[level].name) for name, level in leg.given}
            beside = 1
            for each in (other, found):
                if each is None or each.best is None or each.cost is None:
                    continue
                own = form.own_nodes(each.best)
                if is_timed:
                    own, beside = form.own_nodes_side_by_side(each.best, search.arch, leg.fixed, given)
                nodes = nodes_of_leg(search, leg, own)
                values = tuple(_of_all_runs(form, goal, each.cost, beside) for goal in compared)
                if nodes is not None and (best is None or values < best[0]):
                    best = values, nodes
            is_first = one == first and one != objective
            whole = nest_of_leg(workload, leg) or form.relative.workload  # form.times as many instances
            reached = (_of_all_runs(form, each, found.cost, beside) for each in others)
            if is_first and all(map(eq, reached, (floor_of(whole, form.relative.arch, each) for each in others))):
                break
        return None if best is None else best[1]


def _of_all_runs(form: Form, objective: Objective, cost: Cost, beside: int) -> Fraction:
    """Return what all runs of a nest take, so many of them side by side: each factor of a product of powers grows."""
    if objective.parts:
        return sum((weight * _of_all_runs(form, each, cost, beside) for weight, each in objective.parts), Fraction(0))
    arch, powers = form.relative.arch, objective.goal.powers or Powers(1, 0)
    value = objective_values(form.relative.workload, arch, objective, cost)[0]
    saved = beside if cost.bottleneck == arch.compute.name else 1  # transfers take as long
    return value * Fraction(form.times ** (powers.energy + powers.cycles), saved**powers.cycles)


def _spread_as(form: Form, mapping: LoopTree) -> Form:
    """Return a form whose dims are spread over as many siblings of each fan-out as in a mapping of it."""
    left, factors = dict(form.relative.workload.extents()), Counter[tuple[str, str]]()
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            many, left[node.dim] = -(-left[node.dim] // node.tile), node.tile
            if isinstance(node, Spatial):
                factors[node.fanout, node.dim] = many * (factors[node.fanout, node.dim] or 1)
    rules = (Factor(fanout, dim, many, many) for (fanout, dim), many in sorted(factors.items()))
    return replace(form, relative=replace(form.relative, rules=(*form.relative.rules, *rules)))


def _parts_of(objective: Objective) -> tuple[Objective, ...]:
    """Return what an objective adds up, or multiplies powers of; else the objective."""
    powers = objective.goal.powers
    if powers is not None and powers.energy and powers.cycles:
        return Objective(Goal.ENERGY, None, "energy"), Objective(Goal.LATENCY, None, "latency")
    return tuple(part for _, part in objective.parts) or (objective,)


def _asked_in_turn(
    search: Search, objective: Objective, parts: tuple[Objective, ...], linear: Objective | None, share: float
) -> Iterator[tuple[Objective, float]]:
    """Yield the questions of which one has a good answer to an objective, each with its share of what is left: its
    first part, or it with transfers in place of latency (linear), which are soon answered; last what is asked, where
    that is in parts without latency, or there is time."""
    yield parts[0], share
    if linear is not None:
        yield linear, share
        yield from ((part, share) for part in parts[1:] if part.goal is Goal.LATENCY)
    if parts != (objective,) and (linear is None or not takes_long_to_climb(search)):
        yield objective, min(share, 1)


def width_of(arch: Architecture, level: MemoryLevel) -> Fraction | None:
    """Return the bits that all instances of a level move in a cycle; the slower of reading and writing; None without a
    bandwidth."""
    widths = level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle
    least = min((each for each in (level.bandwidth_bits_per_cycle, *widths) if each), default=None)
    return None if least is None else least * prod(fanout.size for fanout in arch.fanouts_above(level.name))


def move_cost(arch: Architecture, objective: Objective, number: int, read: int, written: int) -> Fraction:
    """Return what bits read and written in a level cost; of latency, if nothing else took time."""
    level = arch.levels[number]
    if objective.goal is Goal.WEIGHTED:
        costs = (weight * move_cost(arch, part, number, read, written) for weight, part in objective.parts)
        return sum(costs, Fraction(0))
    if objective.goal is Goal.TRAFFIC:
        return Fraction(read + written if objective.level == level.name else 0)
    if objective.goal is not Goal.LATENCY:
        return level.access_pj(read, written)
    width = width_of(arch, level)
    return Fraction(0) if width is None else (read + written) / width


def filled_at_most(search: Search, objective: Objective, bits: int) -> Fraction:
    """Return what it costs at most that so many bits come into every instance of each level once."""
    if objective.goal is Goal.ENERGY:
        return filled_once(search.arch, bits)
    return Fraction(2 * bits * len(search.arch.levels) * prod(fanout.size for fanout in search.arch.fanouts))


def slow_levels(arch: Architecture, found: Sequence[Incumbent]) -> Iterator[str]:
    """Yield the levels whose transfers take most of the time of some mappings, or nearly."""
    for one, level in product(found, arch.levels):
        bits, width = {each.name: each.bits for each in one.workload.tensors}, width_of(arch, level)
        rows = (row for row in one.cost.traffic if row.level == level.name)
        moved = sum((row.reads + row.writes) * bits[row.tensor] for row in rows)
        if width is not None and moved >= TUNING.nearly_binding * one.cost.latency_cycles * width:
            yield level.name


def _in_transfers(arch: Architecture, objective: Objective) -> Objective | None:
    """Return a linear sum with what all transfers take, one after the other, in place of latency; None where there is
    no latency in it, or no level has a bandwidth."""
    is_sum = objective.goal in (Goal.WEIGHTED, Goal.LATENCY)
    parts = objective.parts or ((Fraction(1), objective),)
    widths = {level.name: width for level in arch.levels if (width := width_of(arch, level)) is not None}
    if not is_sum or not widths or all(part.goal is not Goal.LATENCY for _, part in parts):
        return None
    terms = dict[Objective, Fraction]()
    for weight, part in parts:
        if part.goal is Goal.LATENCY:
            each = {Objective(Goal.TRAFFIC, name, f"traffic:{name}"): weight / width for name, width in widths.items()}
        else:
            each = {part: weight}
        terms |= {one: terms.get(one, Fraction(0)) + own for one, own in each.items()}
    text = "weighted:" + "+".join(f"{weight}*{one.text}" for one, weight in terms.items())
    return Objective(Goal.WEIGHTED, None, text, tuple((weight, one) for one, weight in terms.items()))


def _with_free_loads(component: Component, places: tuple[tuple[int, int], ...]) -> Component:
    """Return a sum without reads above a level, and writes down to it, of some tensors. places: (tensor, level), by
    number."""
    read, write = list(map(list, component.read)), list(map(list, component.write))
    for tensor, level in places:
        for number in range(level):
            read[number][tensor] = write[number + 1][tensor] = 0
    return replace(component, read=tuple(map(tuple, read)), write=tuple(map(tuple, write)))


def _with_loads_in_parts(component: Component, parts: Parts, times: int, target: int) -> Component:
    """Return a sum so many times, with a part of what is read of some tensors in a level and in those below it as far
    as an inner one, which is left out, and of what is written there; of the target, with a part of what is written
    outside of that one. parts: (tensor, level, inner one, how many)."""
    read, write = ([[times * weight for weight in row] for row in rows] for rows in (component.read, component.write))
    for tensor, level, inner, many in parts:
        for number in range(level, inner):
            read[number][tensor] //= many if tensor != target else read[number][tensor] + 1  # its first is free
            write[number + (tensor != target)][tensor] //= many
    return replace(component, read=tuple(map(tuple, read)), write=tuple(map(tuple, write)))


def legs_of(search: Search) -> Legs:
    """Return the legs of a question, which its provers share."""
    return search.engines.made(Legs, Legs)


def as_written(statement: Statement) -> Nodes:
    """Return a statement in its loops."""
    return (*(Temporal(name, 1) for name in statement.dims), Compute(statement.name))


@lru_cache(maxsize=64)
def common_accesses(program: Workload) -> Mapping[str, Access]:
    """Return the tensors that all statements touch by one access, whose axes have no dim in common."""
    found: dict[str, Access] = {}
    for tensor in program.tensors:
        every = [access for each in program.statements for access in accesses_of(each, tensor.name)]
        if len({*every}) == 1 and every[0].is_box:
            found[tensor.name] = every[0]
    return MappingProxyType(found)


@lru_cache(maxsize=64)
def simple_accesses(program: Workload) -> Mapping[str, Access]:
    """Return the tensors of which all statements touch the same elements: by one access, each axis a dim of its own."""
    return MappingProxyType({name: each for name, each in common_accesses(program).items() if each.is_plain})


def elements_of(access: Access, extents: Mapping[str, int]) -> int:
    """Return how many elements an access of which no dim occurs on two axes touches, at most where an index leaves
    gaps."""
    forms = ((each, each - each.constant if each.constant else each) for each in access.index)
    return prod(form.reach(extents) or prod(extents[name] for name in each.dims) for each, form in forms)


def elements_touched(program: Workload, tensor: Tensor) -> int:
    """Return how many elements of a tensor a program touches, at least by one access: a part of another one may touch
    less than all."""
    every = (access for one in program.statements for access in accesses_of(one, tensor.name))
    return min(prod(tensor.shape), max((elements_of(each, program.extents()) for each in every), default=0))


def bits_not_read(program: Workload, part: Workload) -> int:
    """Return the bits of what one statement of a program reads, and none writes, that it does not read in a part of the
    program, at least."""
    total = 0
    for tensor in part.tensors:
        every = [
            [access for one in own.statements for access in accesses_of(one, tensor.name)] for own in (program, part)
        ]
        if all(len(each) == 1 and each[0].is_box for each in every) and tensor.name not in written_tensors(program):
            (whole,), (left,) = every
            many = prod((form - form.constant).reach(program.extents()) for form in whole.index)
            total += tensor.bits * max(0, many - elements_of(left, part.extents()))
    return total


def passes_through_windows(program: Workload, tensors: Collection[str] | None = None) -> bool:
    """Return whether statements touch a tensor that one of them writes (of some) by several indices on one axis."""
    for name in {each.target.tensor: None for each in program.statements}:
        every = [access.index for each in program.statements for access in accesses_of(each, name)]
        if (tensors is None or name in tensors) and any(len({*forms}) > 1 for forms in zip(*every, strict=True)):
            return True
    return False


def shared_tile(program: Workload, tensor: str, left: Mapping[str, int]) -> int | None:
    """Return how many elements of a tensor the statements touch with so many indices left; None where it is not known
    that all touch the same: on each axis by one index, or all of it, or what one that reads it touches."""
    own = program.tensor(tensor)
    every = [access for each in program.statements for access in accesses_of(each, tensor)]
    read = [access for each in program.statements for access in each.reads if access.tensor == tensor]
    widest = list[Affine]()
    for axis, length in enumerate(own.shape):
        forms = dict.fromkeys(each.index[axis] for each in every)
        if len(forms) == 1 or all(form.reach(left) == length for form in forms):
            found = next(iter(forms))
        else:
            wide = (each.index[axis] for each in read if _holds_all(each.index[axis], forms, program, left))
            found = next(wide, None)
        if found is None or (len(forms) > 1 and own.origin[axis]):
            return None
        widest.append(found)
    return elements_of(Access(tensor, tuple(widest)), left) if all(each.is_box for each in every) else None


def _holds_all(wide: Affine, forms: Iterable[Affine], program: Workload, left: Mapping[str, int]) -> bool:
    """Return whether an index takes all values of others, in each iteration of the loops around."""
    around = [name for name, extent in program.extents().items() if left[name] < extent]
    low, high = bounds(wide, left)
    for form in forms:
        if not form.is_linear or any(form.coefficients().get(n, 0) != wide.coefficients().get(n, 0) for n in around):
            return False
        if not low <= bounds(form, left)[0] <= bounds(form, left)[1] <= high:
            return False
    return wide.is_linear and (wide - wide.constant).reach(left) > 0


@dataclass(frozen=True, slots=True)
class Interface:
    """Tensors that statements pass on to one another (kept), and the dims of loops that may stand around all
    of them (shared)."""

    kept: tuple[str, ...]
    shared: tuple[str, ...]

    @staticmethod
    def of(program: Workload) -> Interface | None:
        """Return what the statements of a program pass on; None where they may not touch the same of it (on each axis
        by one index, or all of it), or it is nothing."""
        statements, extents = program.statements, program.extents()
        written = dict.fromkeys(each.target.tensor for each in statements)  # what is made first stands inside first
        kept = tuple(name for name in written if sum(bool(accesses_of(one, name)) for one in statements) > 1)
        if not kept or any(shared_tile(program, name, extents) is None for name in kept):
            return None
        targets = {name: {each.target for each in statements if each.target.tensor == name} for name in kept}
        if any(len(each) > 1 for each in targets.values()):
            return None  # before a loop, and in it
        touched = [access for each in statements for name in kept for access in accesses_of(each, name)]
        common = [name for name in extents if all(name in each.dims for each in statements)]
        shared = [name for name in common if all(name in access.dims for access in touched)]
        cut = {name: extents | {name: 1} for name in shared}
        return Interface(
            kept, tuple(name for name in shared if all(shared_tile(program, one, cut[name]) for one in kept))
        )
