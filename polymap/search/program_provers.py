"""Provers and proposers for programs that the lattice search does not cover: what other nests say about nests that read
one tensor through several accesses, samples and local search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, prod
from typing import TYPE_CHECKING

from polymap.costmodel import compulsory_bits
from polymap.ir import Architecture, Mapping, Statement, Tensor, Workload, accesses_of, part_of, written_tensors
from polymap.resources import Limits, OutOfTime, Stop
from polymap.search.around import pass_cost
from polymap.search.chains import begin_first_chains, go_on_with_chains, sum_near, tree_objectives
from polymap.search.dividing import Count, cut_to, with_extents
from polymap.search.driver import Engines, Search, counted_space
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.forms import bits_per_cycle, with_time_priced
from polymap.search.fused_trees import FusedTrees
from polymap.search.legs import (
    Leg,
    Nodes,
    adds_up,
    as_written,
    dividing_legs,
    elements_of,
    is_long,
    least_cycles,
    legs_of,
    passed_tensors,
    simple_accesses,
    slow_levels,
    takes_long_to_climb,
)
from polymap.search.nest_after_nest import begin_nest_after_nest, nests_in_sequence
from polymap.search.options import TUNING, Hints
from polymap.search.problem import Objective, Powers, analyse, floor_of, measure_of, parse_single
from polymap.search.program_search import DrawnMappings, sample_mappings
from polymap.search.programs import (
    TUNING as SMALL,
    ProgramSearch,
    ProgramTree,
    instance_bound,
    may_be_climbed,
    with_loops_joined,
)
from polymap.search.provers import climber_of, round_extent
from polymap.search.refunds import Cases, Refunds, Stay, no_chain_is_below
from polymap.search.relatives import Starts, go_on_with_boxes, is_plain_energy, starts_of_relatives

if TYPE_CHECKING:
    from polymap.search.single_level import OfSize


def begin_near_relatives(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Raise the floors to what other nests say of a nest that reads one tensor through several accesses, and propose
    the best of their mappings; prove it to be the best where it costs no more than the floor."""
    starts = search.engines.get(Starts)
    if starts is None:
        starts, evidence = starts_of_relatives(search, evidence)
        search.engines.keep(starts)
    elif starts.ended:
        starts, evidence = go_on_with_boxes(search, evidence, starts)
        search.engines.keep(starts)
    if not starts.mappings or len(search.objective.singles) > 1:
        return evidence
    counted = search.counted(starts.mappings[0])
    if not counted:
        return evidence
    (best,) = counted
    evidence = search.tell(evidence.with_incumbents(counted))
    if best.values[0] > evidence.floors[0]:
        return evidence
    space = counted_space(search.space_size(search.limits), Count())
    return search.proven(evidence, ((best.mapping, best.values),), space)


def begin_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose the trees of the segments that cost least together, and those near the best one."""
    evidence = go_on_with_chains(search, begin_first_chains(search, evidence, stop), stop)
    return improve_trees(search, evidence, stop)


class Improved(list[Mapping]):
    """The tree near which all others were looked at."""


def improve_trees(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose trees near the best one of fused nests."""
    search = replace(search, limits=stop) if isinstance(stop, Limits) else search
    improved = search.engines.made(Improved, Improved, search.divides)
    if not nests_in_sequence(search.workload) or [each.mapping for each in evidence.incumbents[:1]] == improved:
        return evidence
    evidence = relieved(search, _with_seconds_inside(search, evidence), search.limits)
    if not search.limits():
        improved[:] = [each.mapping for each in evidence.incumbents[:1]]
    return evidence


def _with_seconds_inside(search: Search, evidence: Evidence) -> Evidence:
    """Propose the best tree with statements that work element by element inside the loops of others."""
    best, (goal, *_) = next(iter(evidence.incumbents), None), tree_objectives(search)
    if best is None or evidence.is_met or is_long(best.workload) or not isinstance(goal, str):
        return evidence
    objective = parse_single(goal, search.arch)
    fused = FusedTrees(search, best.workload, objective, divides=search.divides)
    part = fused.with_seconds_inside(best.workload, best.mapping.nodes, search.limits)
    return evidence if part is None else search.with_tree(evidence, best.workload, Mapping(part.nodes))


def relieved(search: Search, evidence: Evidence, is_over: Stop) -> Evidence:
    """Propose trees near the best one while they are better: levels work side by side, and what one is relieved of
    another one may take. Legs are those that are best for energy and what the level moves that binds the best one; the
    time of the others counts little."""
    powers, before = search.objective.goal.powers, ()
    while powers is not None and powers.cycles and evidence.incumbents != before and not (is_over() or evidence.is_met):
        before, best = evidence.incumbents, evidence.incumbents[0]
        near = parse_single(
            sum_near(powers, search.arch, evidence, (best.cost.bottleneck,), Fraction(1, 8)), search.arch
        )
        fused = FusedTrees(search, best.workload, near, divides=search.divides)
        for nodes in fused.nearby(best.workload, best.mapping.nodes):
            tree = None if is_over() else fused.with_best_legs(best.workload, (), nodes)
            evidence = evidence if tree is None else search.with_tree(evidence, best.workload, Mapping(tree))
    return evidence


@dataclass(slots=True)
class Divided:
    """What is known of a program where tiles divide, or of a longer one of which more do, and what its provers go on
    from. told: the mappings of it that were told of."""

    evidence: Evidence
    engines: Engines
    told: tuple[Incumbent, ...] = ()


def begin_dividing_trees(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose, where tiles of any size are asked for, what is proposed for several nests where they divide: few divide
    an extent with a large prime factor, so that such extents are rounded up, and tiles are cut to size."""
    own = with_loops_joined(search.workload)
    if search.divides or len(own.statements) < 2 or evidence.is_met:
        return evidence
    wanted = {dim: round_extent(extent) for dim, extent in own.extents().items()}
    longer = None if wanted == own.extents() else with_extents(own, wanted)
    other, known = replace(search, asked=replace(search.asked, tiles="divide")), search.engines.get(Divided)
    if longer is not None:
        asked, engines = (
            replace(other.asked, workload=longer, hints=Hints()),
            Engines() if known is None else known.engines,
        )
        problem = analyse(longer, search.arch, search.rules)
        other = replace(other, asked=asked, problem=problem, on_progress=None, engines=engines, told=[], moments=[])
    if known is None:
        begun = begin_nest_after_nest(other, evidence if longer is None else Evidence(other.asked.floors()), stop)
        known = Divided(begun, other.engines)
        search.engines.keep(known)
        evidence = _from_divided(search, evidence, own, known)
    known.evidence = begin_chains(other, known.evidence, stop)
    return _from_divided(search, evidence, own, known)


def _from_divided(search: Search, evidence: Evidence, own: Workload, known: Divided) -> Evidence:
    """Return the evidence with mappings of a program that were not told of; of a longer one those cut to size."""
    new, known.told = [each for each in known.evidence.incumbents if each not in known.told], known.evidence.incumbents
    if known.engines is search.engines:
        return evidence.with_incumbents(new)
    for each in new:
        if {dim.name for dim in each.workload.dims} == set(own.extents()):
            evidence = search.with_tree(evidence, own, cut_to(each.mapping, own.extents()))
    return evidence


def bound_times(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floors of latency, and of its products with energy, by where tensors stand, unless a tree costs no
    more."""
    passed = passed_tensors(search.workload)
    if passed is None or search.rules or evidence.is_met or is_long(search.workload):
        return evidence
    for place, objective in enumerate(search.objective.singles):
        powers = objective.goal.powers
        if powers is not None and powers.cycles and (not powers.energy or is_plain_energy(search.arch)):
            known = min(evidence.incumbents, key=lambda each: each.values[place], default=None)
            best = None if known is None else known.values[place]
            evidence = evidence.with_floor(place, _Times.of(search, powers, known, stop).least(passed, best))
    return evidence


@dataclass(frozen=True, slots=True)
class LeastOfCases:
    """What trees of products in a row cost at least in all cases that are looked at."""

    value: Fraction


def begin_product_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose the best tree of products in a row through one buffer (single_level/product_chains.py); where tiles
    divide, none costs less."""
    workload, arch, statements = search.workload, search.arch, search.workload.statements
    if search.rules or evidence.is_met or arch.fanouts or len(arch.levels) != 2 or passed_tensors(workload) is None:
        return evidence
    from polymap.search.single_level import ProductChain  # other searches do without

    chain, legs = ProductChain.of(workload, simple_accesses(workload)), legs_of(search)
    passed = [each.name for each in passed_tensors(workload) or ()]
    for place, objective in enumerate(search.objective.singles if chain is not None else ()):
        if chain is None or not adds_up(search, objective):
            continue
        cases = Cases.of(search, objective)
        floors = ((cases.alone(each.name, {}), _bound_alone(search, objective, each, stop)) for each in statements)
        alone = [max(one or Fraction(0), other or Fraction(0)) for one, other in floors]

        def nodes(each: Statement, objective: Objective = objective) -> Nodes:
            leg = replace(Leg.of(each, workload.extents()), divides=search.divides)
            return legs.nodes(search, workload, leg, objective, TUNING.leg_share) or as_written(each)

        priced, room = (
            chain.priced(arch, objective, alone, _passes(workload, arch, objective, passed)),
            arch.levels[1].usable_bits,
        )
        with suppress(OutOfTime):
            found = None if priced is None else chain.least(priced, room, divide=search.divides, stop=stop)
            if found is not None:
                search.engines.keep(LeastOfCases(found[0]), objective.text)
                tree = chain.tree(arch.levels[1].name, found[1], nodes)
                evidence = search.with_tree(evidence, workload, tree)
                evidence = evidence.with_floor(place, found[0] if dividing_legs(search) else None)
    return evidence


def _passes(
    workload: Workload, arch: Architecture, objective: Objective, passed: Sequence[str]
) -> Callable[[str, str], Fraction]:
    """Return what says, of a statement, what one pass of a tensor costs that does not stay in the buffer."""

    def cost(statement: str, tensor: str) -> Fraction:
        return pass_cost(workload, (arch, objective), (statement, tensor), 1) if tensor in passed else Fraction(0)

    return cost


def _bound_alone(search: Search, objective: Objective, statement: Statement, stop: Stop) -> Fraction | None:
    """Return what a statement costs at least alone, by all tiles of one buffer at once."""
    from polymap.search.single_level import bound_at_once  # other searches do without

    nest = part_of(search.workload, (statement,))
    return bound_at_once(analyse(nest, search.arch, ()), measure_of(objective, nest, search.arch), stop)


def solve_product_sizes(
    workload: Workload, arch: Architecture, alone: Sequence[Sequence[OfSize]], capacities_bits: Sequence[int]
) -> list[OfSize] | None:
    """Return the best tree of products in a row for each capacity of the one level below the outermost, without
    fan-outs, and the bits that no case of these moves less than; None for other programs and machines. alone: what is
    known of each product."""
    from polymap.search.single_level import ProductChain  # other searches do without

    passed = passed_tensors(workload) or ()
    chain = ProductChain.of(workload, simple_accesses(workload)) if passed else None
    if chain is None or arch.fanouts or len(arch.levels) != 2:
        return None
    rooms = [capacity // arch.levels[1].buffering for capacity in capacities_bits]
    objective = parse_single(f"traffic:{arch.levels[0].name}", arch)
    passes = _passes(workload, arch, objective, [each.name for each in passed])
    return chain.solved(arch, objective, passes, alone, rooms)


Choices = dict[str, Sequence[Stay]]  # by the tensor


@dataclass(frozen=True, slots=True)
class _Times:
    """What trees of a program cost at least by where tensors stand first: a product of powers of energy and latency.

    By the refund bound (refunds.py) all statements together cost so much energy at least; move so many bits in a level,
    which takes no longer than the run; or cost so much where these bits cost more, in a cycle no more than a price.
    Stays that are best for one of these sums are bad for another. So each is asked of cases, in which few are left.
    cases: of the program. cycles: of every tree. sums: each with its kind: "energy", where the product has it; bits
    "moved" in a level, and how many it moves in a cycle at most; energy with these bits "priced", and the price of a
    cycle.
    """

    powers: Powers
    cases: Cases
    cycles: Fraction
    sums: list[tuple[Refunds, str, Fraction]]

    @staticmethod
    def of(search: Search, powers: Powers, known: Incumbent | None, stop: Stop) -> _Times:
        """Return what is known of a program. known: a tree, whose slow levels' transfers are priced."""
        arch, energy = search.arch, parse_single("energy", search.arch)
        first = Refunds.of(search, energy, stop)
        sums = [(first, "energy", Fraction(0))] if powers.energy else []
        for level in (each for each in arch.levels if each.has_bandwidth):
            moved = Refunds.of(search, parse_single(f"traffic:{level.name}", arch), stop)
            sums.append((moved, "moved", bits_per_cycle(arch, level)))
        trees = [known] if known is not None and powers.energy else []
        for tree, name in ((tree, name) for tree in trees for name in slow_levels(arch, trees)):
            worth = powers.price(tree.cost.energy_pj_exact, tree.cost.latency_cycles)
            for other, price in with_time_priced(arch, (name,), (worth / 2, worth)):
                one = replace(search, asked=replace(search.asked, arch=other, objective=energy))
                sums.append((Refunds.of(one, energy, stop), "priced", price))
        return _Times(powers, first.cases, least_cycles(search), sums)

    def least(self, passed: tuple[Tensor, ...], best: Fraction | None) -> Fraction:
        """Return what no tree costs less than: the least of the cases. The least one is split, by the stays of its
        largest tensor that has several, until it costs no less than the best tree, or nothing is left to split."""
        size = {each.name: each.bits * prod(each.shape) for each in passed}
        parts: list[Choices] = [{each.name: self.cases.widest(each) for each in passed}]
        cases, least = list[tuple[Fraction, Choices]](), self.powers.product(Fraction(0), self.cycles)
        with suppress(OutOfTime):
            while parts:
                found = [(self._at_least(each, best), each) for each in parts]
                cases += [(max(least, value), each) for value, each in found if value is not None]
                case = min(cases, key=lambda each: each[0], default=None)
                if case is None:
                    break
                cases.remove(case)
                least, choices = case
                several = [name for name, stays in choices.items() if len(stays) > 1]
                name = max(several, key=size.__getitem__, default="")
                is_open = name and (best is None or least < best)
                parts = [{**choices, name: [stay]} for stay in self._stays(choices[name], name)] if is_open else []
        return least

    def _stays(self, stays: Sequence[Stay], name: str) -> Iterator[Stay]:
        """Yield the stays of a tensor; those in which all get it there apart from others."""
        many = sum(bool(accesses_of(each, name)) for each in self.cases.search.workload.statements)
        is_told = any(stay.also_outside for stay in stays)
        for stay in stays:
            yield replace(stay, inside=bool(stay.level) and not stay.also_outside)
            if stay.level and many > 2 and not is_told:
                yield replace(stay, also_outside=True)

    def _at_least(self, choices: Choices, best: Fraction | None) -> Fraction | None:
        """Return what trees with such stays cost at least, as far as it is less than a tree that is known; None where
        there are none. Raises OutOfTime."""
        energy, cycles, sums = Fraction(0), self.cycles, list[tuple[Fraction, Fraction]]()
        for refunds, kind, rate in self.sums:
            if refunds.stop():
                raise OutOfTime
            while (found := refunds.least(choices)) is not None and refunds.know(found[1]):
                pass
            if found is None:
                return None
            energy = found[0] if kind == "energy" else energy
            cycles = max(cycles, Fraction(ceil(found[0] / rate))) if kind == "moved" else cycles
            sums += [(rate, found[0])] if kind == "priced" else []
            value = self.powers.least_product(energy, cycles, sums)
            if best is not None and value >= best:
                return value
        return self.powers.least_product(energy, cycles, sums)


CHAINS = "chains"  # the space that answers name


def prove_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Prove that no chain costs less than the best tree known, where that is so."""
    passed, known = passed_tensors(search.workload), search.engines.get(LeastOfCases, search.objective.text)
    if passed is None or search.rules or not evidence.incumbents or (not search.divides and known is None):
        return evidence
    if not adds_up(search, search.objective) or not _is_space_of(search.workload, passed):
        return evidence
    if is_long(search.workload) and takes_long_to_climb(search):
        return evidence  # none of these was ever proven
    best = evidence.incumbents[0]
    if best.values == evidence.floors:
        return replace(evidence, left=())  # of all trees
    try:
        is_best = known is not None and best.values[0] <= known.value
        is_best = is_best or (search.divides and no_chain_is_below(search, passed, best.values[0], stop))
    except OutOfTime:
        return evidence
    space = replace(counted_space(None, Count()), name=CHAINS)
    return replace(evidence, left=(), space=space) if is_best else evidence


def _is_space_of(workload: Workload, passed: tuple[Tensor, ...]) -> bool:
    """Return whether other trees are not looked for: all that is passed on is touched alike, no loops of the program
    could have one name, and not all of its trees are walked anyway, rewritten ones too."""
    alike = simple_accesses(workload)
    is_large = instance_bound(workload) > SMALL.few_instances
    return is_large and all(each.name in alike for each in passed) and with_loops_joined(workload) == workload


def sample_programs(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose the best of sampled and climbed mappings of a program."""
    starts, evidence = search.engines.get(Starts), _bound_by_capacities(search, evidence)
    climber = climber_of(search, divide=search.divides)
    is_known = bool(evidence.incumbents)
    met = evidence.is_met and len(search.objective.singles) == 1  # no mapping is better
    no_climb = met or (is_known and takes_long_to_climb(search))
    climbed = None if no_climb else _climb_program(search, alone=climber is None)
    if climbed is not None and climber is None:
        return _with_tree(search, evidence, climbed, 0)
    if is_known and climber is None:
        return evidence  # samples of such programs are worse
    floor = evidence.floors[0]

    def report(mapping: Mapping, value: Fraction) -> None:
        nonlocal met
        met = value <= floor and len(search.objective.singles) == 1
        search.report(mapping, value, floor)

    drawn = sample_mappings(
        search.workload,
        search.arch,
        search.objective,
        search.rules,
        lambda: met or search.limits(),
        climber=climber,
        seed=search.asked.seed,
        before=search.engines.get(DrawnMappings),
        starts=starts.mappings if starts else (),
        limits=search.limits,
        report=report,
    )
    search.engines.keep(drawn)
    if climbed is not None and not (drawn.found and drawn.found[0][0][0] <= climbed.value):
        return _with_tree(search, evidence, climbed, drawn.tried)
    space = counted_space(search.space_size(search.limits), Count(evaluated=drawn.tried))
    found = [search.incumbent(mapping, cost) for _, mapping, cost in drawn.found]
    return replace(evidence.with_incumbents(found), space=space)


def _bound_by_capacities(search: Search, evidence: Evidence) -> Evidence:
    """Raise the floors of a program of not too many instances to what the capacities leave to be moved."""
    from polymap.search.programs import can_be_bounded, program_traffic_bits  # other searches do without

    workload, arch = search.workload, search.arch
    if not can_be_bounded(workload):
        return evidence
    try:
        bits = program_traffic_bits(workload, arch, search.limits.until(TUNING.program_bound_share))
    except OutOfTime:
        return evidence
    more = bits - (compulsory_bits(workload) or 0)
    for place, one in enumerate(search.objective.singles):
        evidence = evidence.with_floor(place, floor_of(workload, arch, one, max(0, more)))
    return evidence


def _climb_program(search: Search, *, alone: bool) -> ProgramTree | None:
    """Return the best tree that climbing finds, in half of the limit if others search, too; None where none is found,
    or the program is too large."""
    asked = search.workload, search.arch, search.objective
    if not may_be_climbed(*asked):
        return None
    climbed = search.engines.made(ProgramSearch, lambda: ProgramSearch(*asked, search.asked.seed))
    stop = search.limits if alone else search.limits.part(0.5)
    climbed.go_on(stop, search.meets)
    if stop is not search.limits:
        search.limits.work.add(stop.work.done)
    return climbed.best


def _with_tree(search: Search, evidence: Evidence, tree: ProgramTree, drawn: int) -> Evidence:
    """Return the evidence with a tree of the program asked for, or of the same with its loops renamed, shifted or
    skewed; that nothing beats it, where the trees of its kind are searched to the end."""
    climbed = search.engines.get(ProgramSearch)
    scored, complete = (climbed.scored, climbed.complete) if climbed else (0, "")
    is_of_ones = all(each.extent == 1 for each in search.workload.dims)  # no loop, spatial or in tiles, changes a count
    is_asked = is_of_ones or (search.divides and not search.arch.fanouts)
    if not is_asked or search.rules or len(search.workload.statements) == 1:
        complete = ""
    found = search.incumbent(tree.mapping, tree.cost, tree.workload)
    is_proven = bool(complete) and found.values == (tree.value,)
    name = complete if is_proven and tree.value > evidence.floors[0] else ""
    space = replace(counted_space(None, Count(evaluated=scored + drawn)), name=name)
    evidence = replace(evidence.with_incumbents((found,)), space=space)
    return replace(evidence, left=()) if is_proven else evidence


def most_refunded_bits(workload: Workload) -> int | None:
    """Return how many bits fewer any tree moves at the outermost level than its statements at least move alone; None
    where that is not known.

    What one statement leaves for others never comes there, in the best case. What several read is loaded for one of
    them: each of the others has an instance an element, so that alone it loads each once at most for less elsewhere.
    """
    if passed_tensors(workload) is None:
        return None
    extents, accesses, total = workload.extents(), simple_accesses(workload), 0
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        readers = [each for each in users if each.target.tensor != tensor.name]
        is_written = tensor.name in written_tensors(workload)
        if not readers or (len(readers) < 2 and not is_written):
            continue
        loads_often = [each for each in readers if set(accesses_of(each, tensor.name)[0].dims) != set(each.dims)]
        if tensor.name not in accesses or len(loads_often) > 1:
            return None
        passes = len(readers) + tensor.temporary if is_written else len(readers) - 1
        total += passes * tensor.bits * elements_of(accesses[tensor.name], extents)
    return total
