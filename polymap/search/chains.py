"""Programs of which neighbouring nests share loops, so that what one leaves for the next stays on chip.

A *segment* is one statement or several neighbours. Its *state* says which loops, over dims that all of them have, run
around them together; in which level what passes between them stands, a tile at a time; and which other tensors are held
in that level around some of these loops, so that they are not loaded again. What is left are *legs*: each statement
over the tiles that it gets, with these tensors given, in the best mapping that the search of nests finds for it. States
are looked at by what they move at the outermost level; each tree is counted as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice, permutations, product, takewhile
from math import prod

from polymap.ir import Access, Architecture, Branch, Mapping, MemoryLevel, Statement, Tensor, Workload, is_box, part_of
from polymap.resources import Limits, Stop
from polymap.search.around import State, levels_above_fanouts
from polymap.search.driver import Search, slice_of
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.fused_trees import FusedTrees, Part, cheapest
from polymap.search.legs import (
    Interface,
    Nodes,
    adds_up,
    common_accesses,
    elements_of,
    in_lines_of,
    is_long,
    least_cycles,
    passes_through_windows,
    shared_tile,
    slow_levels,
    width_of,
)
from polymap.search.nest_after_nest import Ends, Staying, kept_on_chip, nests_in_sequence
from polymap.search.options import TUNING
from polymap.search.problem import Goal, Objective, Powers, divisors, parse_single
from polymap.search.programs import Tiling, best_tilings, in_lines, in_tiles, made_again, with_loops_joined
from polymap.search.refunds import Refunds

_ADDITIVE = (Goal.ENERGY, Goal.TRAFFIC, Goal.LATENCY)


def begin_first_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose those that cost least by the first of the objectives by which trees are looked for."""
    return _by_goals(search, evidence, stop, slice(1))


def go_on_with_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose those that cost least by the others."""
    return _by_goals(search, evidence, stop, slice(1, None))


def _by_goals(search: Search, evidence: Evidence, stop: Stop, part: slice) -> Evidence:
    statements = search.workload.statements
    are_nests = bool(nests_in_sequence(search.workload)) and all(map(is_box, statements))
    if len(statements) < 2 or not are_nests or evidence.is_met:
        return evidence
    limits = stop if isinstance(stop, Limits) else search.limits
    every = tree_objectives(search)[: 1 if _falls_by_energy(search, evidence) else None]
    goals = list(enumerate(every))[part]
    for at, (number, goal) in enumerate(goals):
        if limits() or evidence.is_met:
            break
        aim = search.engines.get(Aim, key := (number, search.divides))
        if aim is None or aim.is_far(evidence):
            aim = Aim.of(search, goal, evidence)
            search.engines.keep(aim, key)
        own = limits.ending(_next_share(limits.share(), limits.end, len(goals) - at))
        evidence = _in_turn(search, own, evidence, aim)
    return evidence


def _falls_by_energy(search: Search, evidence: Evidence) -> bool:
    """Return whether a product of a long program falls nearly by energy alone: no tree is much faster than the best."""
    powers, best = search.objective.goal.powers, evidence.incumbents[:1]
    is_product = powers is not None and powers.energy > 0 and powers.cycles > 0 and is_long(search.workload)
    return is_product and any(each.cost.latency_cycles <= TUNING.nearly_fastest * least_cycles(search) for each in best)


@dataclass(slots=True)
class Form:
    """A program that computes what is asked for. is_late: whether others are looked at for a while first. spent: of
    the limit by its chains. value: of the best segments together. trees: those that were looked at. ended:
    whether they have nothing left to look at."""

    workload: Workload
    is_late: bool
    spent: float = 0.0
    value: Fraction | None = None
    trees: set[Nodes] = field(default_factory=set[Nodes])
    ended: bool = False


@dataclass(slots=True)
class Aim:
    """By what trees of the forms of a program are looked for. near: the best tree then. binding: levels, to be added
    to."""

    goal: str | Powers
    objective: Objective
    forms: list[Form]
    near: tuple[Incumbent, ...]
    binding: set[str]

    @staticmethod
    def of(search: Search, goal: str | Powers, evidence: Evidence) -> Aim:
        binding = set(slow_levels(search.arch, evidence.incumbents[:1]))
        text = goal if isinstance(goal, str) else sum_near(goal, search.arch, evidence, binding)
        groups = _forms(search, with_loops_joined(search.workload), has_lines=in_lines_of(search) is not None)
        forms = [Form(each, place > 0) for place, group in enumerate(groups) for each in group]
        return Aim(goal, parse_single(text, search.arch), forms, evidence.incumbents[:1], binding)

    def is_far(self, evidence: Evidence) -> bool:
        """Return whether a sum near a tree says little of a much better one that is known."""
        pairs = zip(self.near, evidence.incumbents, strict=False)
        return not isinstance(self.goal, str) and any(
            one.values[0] > TUNING.promising * best.values[0] for one, best in pairs
        )


def _in_turn(search: Search, limits: Limits, evidence: Evidence, aim: Aim) -> Evidence:
    """Propose the trees of the forms of a program, which are searched in turn in slices of the limit: each of a form is
    as long as all before, from which it goes on. Slices do not depend on the limit: a longer one adds to them. Forms of
    which dearer trees are known wait for longer. limits: of the slice; legs of what it found go past it."""
    powers = search.objective.goal.powers
    has_faster = aim.goal == "energy" and powers is not None and powers.cycles > 0
    while (left := [each for each in aim.forms if not each.ended]) and not evidence.is_met and not limits():
        least = min((each.value for each in aim.forms if each.value is not None), default=None)
        form = min(left, key=partial(_waits, limits, least))
        chains = Chains(replace(search, limits=limits), form.workload, aim.objective, divides=search.divides)
        begun = limits.share()
        own_end = limits.end if len(left) == 1 else begun + slice_of(limits, form.spent)
        trees = [nodes for nodes in chains.best_trees(min(own_end, limits.end)) if nodes not in form.trees]
        for own in trees:
            faster = _in_faster_legs(search, form.workload, own, evidence) if has_faster else None
            tree = search.with_tree(replace(evidence, incumbents=()), form.workload, Mapping(faster or own))
            found = kept_on_chip(search, tree).incumbents
            evidence = evidence.with_incumbents(found)
            aim.binding.update(slow_levels(search.arch, found[:1]))
        form.trees.update(trees)
        form.spent, form.value = form.spent + limits.share() - begun, chains.least_value()
        form.ended = not (chains.is_cut or limits())
        if len(left) == 1:
            break
    return evidence


def _in_faster_legs(search: Search, workload: Workload, nodes: Nodes, evidence: Evidence) -> Nodes | None:
    """Return a tree of least energy with the legs that are best for a product of energy and latency."""
    powers = search.objective.goal.powers
    if powers is None or not evidence.incumbents:
        return None
    near = parse_single(sum_near(powers, search.arch, evidence, ()), search.arch)
    return FusedTrees(search, workload, near, divides=search.divides).with_best_legs(workload, (), nodes)


def _waits(limits: Limits, least: Fraction | None, form: Form) -> float:
    """Return how long a form waits for its next slice. least: the value of the best tree of all."""
    if not form.spent:
        return TUNING.late_forms_wait * form.is_late
    dearer = float(form.value / least) if form.value is not None and least else 1
    return slice_of(limits, form.spent) / slice_of(limits) * dearer**TUNING.dearer_forms_wait


def _forms(search: Search, workload: Workload, *, has_lines: bool) -> tuple[tuple[Workload, ...], ...]:
    """Return the forms of a program, those that are likely to have room before others: as it is, and where windows
    stand between its statements in tiles of what it ends in: of one index where nothing is made again, else of the most
    indices for which a level above fan-outs has room, all that passes together or an index of common loops at a time,
    and in lines."""
    if workload.original is not None:
        return ((workload,),)  # its arrays are those of a text
    end, extents = workload.statements[-1].target, workload.extents()
    passed = [each for each in workload.tensors if each.temporary]
    levels = levels_above_fanouts(search.arch, workload, tuple(each.name for each in passed))
    rooms, most = [search.arch.levels[number].usable_bits for number in levels], max(map(_bits, passed), default=0)
    has_room = all(room is None or most <= room for room in rooms)
    found = dict[Workload, None]()
    for name in (name for name in end.dims if name in end.dims_alone):
        cuts = [cut for tile in divisors(extents[name])[:-1] if (cut := in_tiles(workload, name, tile)) is not None]
        if cuts and made_again(workload, cuts[0]) == 0:
            return ((workload, cuts[0]) if has_room else (cuts[0], workload),)
        lines = in_lines(workload, name) if has_lines else None
        found |= {} if lines is None else {lines: None}
        for room, whole in product(rooms, (True, False)):
            if room is not None:
                with_room = (cut for cut in reversed(cuts) if _tile_bits(workload, cut, whole=whole) <= room)
                found |= dict.fromkeys(islice(with_room, 1))
        if found:
            break  # columns are like rows
    room = 0 if search.arch.fanouts else max(filter(None, rooms), default=0)  # what arrays take is not estimated
    runs = _in_runs_of_tiles(search, workload, room) if room else None
    found = ({} if runs is None else {runs: None}) | found
    return ((workload,), (*found,)) if has_room else ((*found, workload),)


def _bits_per_instance(arch: Architecture, workload: Workload) -> Fraction:
    """Return how many bits read at the outermost level take the energy of an instance of the longest statement,
    with its operands in the innermost level."""
    statement = max(workload.statements, key=lambda each: prod(workload.extents()[name] for name in each.dims))
    operands = sum(workload.tensor(each.tensor).bits for each in (statement.target, *statement.reads))
    per_bit = arch.levels[0].access_pj(1, 0)
    return (arch.compute.pj + arch.levels[-1].access_pj(operands, 0)) / per_bit if per_bit else Fraction(0)


def _in_runs_of_tiles(search: Search, workload: Workload, room: int) -> Workload | None:
    """Return the program with runs of its statements in tiles of rows and columns, as it is estimated to move least
    where a level has so much room, all in tiles of rows where that moves and makes no more; None where none are."""
    every, goal = (0, len(workload.statements)), tree_objectives(search)[0]
    price = Fraction(0) if search.objective.goal is Goal.TRAFFIC else _bits_per_instance(search.arch, workload)
    found, rows = best_tilings(workload, room, price), best_tilings(workload, room, price, 1).get(every)
    if isinstance(goal, str) and len(found) > every[1]:
        trees = FusedTrees(search, workload, parse_single(goal, search.arch), divides=search.divides)
        for at, each in enumerate(workload.statements):  # alone, as they are found
            part = trees.alone(part_of(workload, (each,)), each)
            moved = sum(read + written for _, read, written in part.passes) if part else 0
            found[at, at + 1] = Tiling(max(found[at, at + 1].moved, Fraction(moved)))
    way = least_way(*every, {ends: each.moved for ends, each in found.items()})
    least = sum(found[ends].moved for ends in way), sum(found[ends].again for ends in way)
    if rows is not None and least >= (rows.moved, rows.again):
        return rows.of(workload, every)
    cut: Workload | None = workload
    for ends in way:
        cut = None if cut is None else found[ends].of(cut, ends)
    return None if cut == workload else cut


def _bits(tensor: Tensor) -> int:
    return tensor.bits * prod(tensor.shape)


def _tile_bits(workload: Workload, cut: Workload, *, whole: bool) -> int:
    """Return the bits of the largest tile of what a program in tiles passes on; of one index of the loops that all its
    statements may share, unless it is whole."""
    common, interface = cut.statements[-1].dims[0], None if whole else Interface.of(cut)
    left = cut.extents() | dict.fromkeys((common, *(interface.shared if interface else ())), 1)
    passed = [each for each in cut.tensors if each.shape != workload.tensor(each.name).shape]
    return max(each.bits * (shared_tile(cut, each.name, left) or 0) for each in passed)


def _next_share(spent: float, end: float, left: int) -> float:
    """Return the share of the limit at which the first of so many equal parts until the end is over."""
    return spent + max(0.0, end - spent) / left


def least_way(begin: int, end: int, costs: dict[Ends, Fraction]) -> tuple[Ends, ...]:
    """Return the segments of some statements, one after the other, that cost least together."""
    best: dict[int, tuple[Fraction, tuple[Ends, ...]]] = {begin: (Fraction(0), ())}
    for last in range(begin + 1, end + 1):
        ways = [
            (before[0] + cost, (*before[1], (first, last)))
            for first in range(last - 1, begin - 1, -1)  # of ways that cost the same the one of short segments
            if (before := best.get(first)) is not None and (cost := costs.get((first, last))) is not None
        ]
        if ways:
            best[last] = min(ways, key=lambda way: way[0])
    return best[end][1]


def _overlap(ends: Ends, others: Sequence[Ends]) -> int:
    """Return how many segments have a statement in common with one."""
    return sum(each[0] < ends[1] and ends[0] < each[1] for each in others)


def _one_longer(way: Sequence[Ends], run: Sequence[Ends]) -> list[Ends]:
    """Return the runs of segments that have one more, before or behind."""
    before = [each for each in way if each[1] == run[0][0]]
    behind = [each for each in way if each[0] == run[-1][1]]
    return [(each[0], run[-1][1]) for each in before] + [(run[0][0], each[1]) for each in behind]


def tree_objectives(search: Search) -> tuple[str | Powers, ...]:
    """Return by what trees are looked for: objectives that add up over segments; for latency and a product of powers a
    sum, of a product after energy alone, of latency before it, and again for what that finds; else energy and
    latency."""
    found = list[str | Powers]()
    for each in search.objective.singles:
        if each.goal is Goal.LATENCY:
            found += (each.text, *(Powers(0, 1),) * 2, "energy")
        elif each.goal in _ADDITIVE or (each.parts and all(part.goal in _ADDITIVE for _, part in each.parts)):
            found.append(each.text)
        else:
            found += ("energy", each.goal.powers or "latency")
    return tuple(found)


def sum_near(
    powers: Powers, arch: Architecture, evidence: Evidence, binding: Collection[str], own: Fraction = Fraction(1, 2)
) -> str:
    """Return a sum that falls as a product of powers of energy and latency does near the best mapping: of energy, and
    of the time that each segment takes alone, and the levels that bind trees found so far (of a product: the best
    tree): segments that take more of one than of others do not hide behind each other. own: of what a cycle is
    worth, for the time that each takes alone."""
    if not evidence.incumbents:
        return "energy" if powers.energy else "latency"
    cost = evidence.incumbents[0].cost
    energy, per_cycle = Fraction(powers.energy), cost.energy_pj_exact / max(1, cost.latency_cycles)
    weight = powers.cycles * (per_cycle if energy else Fraction(1 << 20))  # so that no weight is rounded much
    charged = {cost.bottleneck} if energy else binding  # a product has a further factor to fall by
    widths = {each.name: width for each in arch.levels if each.name in charged and (width := width_of(arch, each))}
    terms = {"energy": energy, "latency": weight * own if widths else weight}
    terms |= {f"traffic:{name}": weight / width * (1 - own) / len(widths) for name, width in widths.items()}
    rounded = {name: max(each.limit_denominator(1000), Fraction(1, 1000)) for name, each in terms.items() if each}
    return "weighted:" + "+".join(f"{each}*{name}" for name, each in rounded.items())


@dataclass(slots=True)
class Segments:
    """What chains go on from. found: the best that is known of segments. together: of neighbouring ones below common
    loops. open: what others cost at least, and those that their time ended (None: before the first). is_cut: whether
    time ended what was looked at last."""

    found: dict[Ends, Part] = field(default_factory=dict[Ends, Part])
    together: dict[Ends, Part] = field(default_factory=dict[Ends, Part])
    open: dict[Ends, Fraction] | None = None
    is_cut: bool = False


class Chains:
    """The parts of a program, by one objective. workload: the program, or it with its loops renamed. divides: whether
    tiles divide."""

    def __init__(self, search: Search, workload: Workload, objective: Objective, *, divides: bool) -> None:
        self._search, self._workload, self._divides = search, workload, divides
        self._objective, self._staying = objective, Staying(search, workload, objective)
        self._trees = FusedTrees(search, workload, objective, divides=divides)
        self._known = search.engines.made(Segments, Segments, (objective.text, workload, divides))

    def best_trees(self, end_share: float) -> list[Nodes]:
        """Return the segments that cost least together, one after the other: alone, with what passes between them on
        chip, and neighbours of them below common loops; none where some statement has no tree. Asked again it goes on.
        Where segments would cost less if they saved all that they may, one is looked at of those that overlap fewest
        looked at before, the one that may save most, until none would. end_share: of the limit, for it."""
        statements, limits = self._workload.statements, self._search.limits
        long = is_long(self._workload)  # else one segment may be all of it, common loops too
        for at in range(len(statements)):
            alone = self.part(statements[at : at + 1], end_share)
            if alone is None:
                return []
            self._known.found[at, at + 1] = alone
        last_share = end_share - TUNING.joined_share * max(0.0, end_share - limits.share()) * long
        self._with_segments(last_share)
        if long:
            self._known.together = self._joined(self._known.found, limits.until(end_share))
        else:
            self._known.together = self._below_common_heads(self._known.found, limits)  # a few trees, after what is cut
        every = self._known.found | self._known.together
        staying = self._staying.trees(every, limits.until(end_share), TUNING.staying_slack)
        last = [nodes for _, nodes in staying][-1:] if adds_up(self._search, self._objective) else []
        return list(dict.fromkeys((*self._trees_of(self._known.found), *self._trees_of(every), *last)))

    @property
    def is_cut(self) -> bool:
        return self._known.is_cut

    def least_value(self) -> Fraction | None:
        """Return what the segments that are known cost together at least; None where some statement has none."""
        values = {ends: part.value for ends, part in (self._known.found | self._known.together).items()}
        many = len(self._workload.statements)
        return sum((values[ends] for ends in least_way(0, many, values)), Fraction(0)) if len(values) >= many else None

    def _with_segments(self, last_share: float) -> None:
        """Look at segments; of few statements at those that their time ended again, in the time that others left."""
        statements, limits, long = self._workload.statements, self._search.limits, is_long(self._workload)
        if self._known.open is None:
            apart = {ends: sum(self._known.found[at, at + 1].value for at in range(*ends)) for ends, _ in self._saved()}
            self._known.open = {ends: max(Fraction(0), apart[ends] - saved) for ends, saved in self._saved()}
        left, bounded, searched, cut = dict(self._known.open), set[Ends](), list[Ends](), list[Ends]()
        while not limits.until(last_share)():
            values = {ends: part.value for ends, part in self._known.found.items()}
            way = least_way(0, len(statements), values | left)
            saved = {ends: sum(values[at, at + 1] for at in range(*ends)) - left[ends] for ends in way if ends in left}
            ends = min(saved, key=lambda each: (_overlap(each, searched), -saved[each]), default=None)
            if ends is None:
                break
            if ends not in bounded:
                self._known.open[ends] = left[ends] = max(left[ends], self._at_least(ends))
                bounded.add(ends)
                continue
            in_turn = min(len(left), TUNING.segments_in_turn if long else TUNING.segments_in_turn_of_few)
            del left[ends]
            searched.append(ends)
            own_end = _next_share(limits.share(), last_share, in_turn)
            cut += [ends] if self._searched(ends, own_end) else []
        self._known.is_cut = bool(cut) or limits.until(last_share)()
        for number, ends in enumerate(cut if not long and not limits.until(last_share)() else ()):
            self._searched(ends, _next_share(limits.share(), last_share, len(cut) - number))

    def _searched(self, ends: Ends, end_share: float) -> bool:
        """Look at a segment; return whether its time ended what is tried first, so that it stays open."""
        values, limits = {ends: part.value for ends, part in self._known.found.items()}, self._search.limits
        half = limits.until(_next_share(limits.share(), end_share, 2))
        part = self._fused(ends, values, end_share)
        if part is not None and (ends not in self._known.found or part.value < values[ends]):
            self._known.found[ends] = part
        is_cut = half()
        if not is_cut and self._known.open is not None:
            self._known.open.pop(ends, None)
        return is_cut

    def _ways(self, parts: dict[Ends, Part]) -> list[tuple[Ends, ...]]:
        """Return the segments that cost least together alone, and with what passes between them on chip."""
        statements = self._workload.statements
        alone = {ends: part.value for ends, part in parts.items()}
        programs = {ends: part_of(self._workload, statements[slice(*ends)]) for ends in parts}
        on_chip = {ends: self._trees.on_chip(programs[ends], part) for ends, part in parts.items()}
        return list(dict.fromkeys(least_way(0, len(statements), each) for each in (alone, on_chip)))

    def _trees_of(self, parts: dict[Ends, Part]) -> Iterator[Nodes]:
        for way in self._ways(parts):
            nodes = tuple(parts[ends].nodes for ends in way)
            yield nodes[0] if len(nodes) == 1 else (Branch(nodes),)

    def _joined(self, parts: dict[Ends, Part], is_over: Stop) -> dict[Ends, Part]:
        """Return runs of neighbouring segments below common loops, those that cost less: first of the segments that
        cost least together, the longest ones, then of single statements, those that cost most."""
        found, alone = dict[Ends, Part](), [ends for ends in sorted(parts) if ends[1] - ends[0] == 1]
        for way in (*self._ways(parts), alone):
            most = TUNING.most_in_a_segment if way is alone else len(way)
            runs = [way[at:end] for at in range(len(way)) for end in range(at + 2, min(len(way), at + most) + 1)]
            costs = {tuple(run): sum((parts[each].value for each in run), Fraction(0)) for run in runs}
            for run in sorted(costs, key=lambda run: costs[run] if way is alone else len(run), reverse=True):
                ends = run[0][0], run[-1][1]
                others = [one for one in found if one not in _one_longer(way, run)]  # that may lose by its last
                if (
                    is_over()
                    or (way is alone and ends not in parts)
                    or any(one[0] < ends[1] and ends[0] < one[1] for one in others)
                ):
                    continue
                program = part_of(self._workload, self._workload.statements[slice(*ends)])
                interface = Interface.of(program)
                if interface is None or not interface.shared:
                    continue
                part = self._trees.joined(program, [parts[each].nodes for each in run], costs[run], is_over)
                if part is None or part.value >= costs[run] * TUNING.promising:
                    continue
                part = self._trees.with_branches_inside(program, part, is_over) if way is alone else part
                least = parts[ends].value if ends in parts else costs[run]
                found |= {ends: part} if part.value < least else {}
        return found

    def _below_common_heads(self, parts: dict[Ends, Part], is_over: Stop) -> dict[Ends, Part]:
        """Return the whole program, if its segments begin with the same spatial loops: below these once, so that what
        several of them read may stand there for all."""
        found = dict[Ends, Part]()
        for way in self._ways(parts):
            if len(way) > 1 and not is_over():
                nodes = [parts[ends].nodes for ends in way]
                part = self._trees.below_common_heads(self._workload, nodes, is_over)
                ends = way[0][0], way[-1][1]
                found |= {} if part is None or (ends in found and found[ends].value <= part.value) else {ends: part}
        return found

    def _at_least(self, ends: Ends) -> Fraction:
        """Return what is known that a segment costs at least, 0 where nothing is: in lines, where statements are in
        parts."""
        search = self._search
        refunds = search.engines.get(Refunds, (search.workload, search.arch, self._trees.objective.text))
        names = [each.name for each in self._workload.statements[slice(*ends)]]
        is_whole = len(self._workload.statements) == len(search.workload.statements)
        return refunds.least_of(names) or Fraction(0) if refunds is not None and is_whole else Fraction(0)

    def _saved(self) -> Iterator[tuple[Ends, Fraction]]:
        """Yield the segments of several statements that may share loops, and what they save at most."""
        statements = self._workload.statements
        for length in range(2, TUNING.most_in_a_segment + 1):
            for begin in range(len(statements) - length + 1):
                program = part_of(self._workload, statements[begin : begin + length])
                if Segment.of(program) is not None:
                    yield (begin, begin + length), self._trees.saved(program)

    def _fused(self, ends: Ends, values: dict[Ends, Fraction], end_share: float) -> Part | None:
        """Return the best nodes found for a segment of several statements. values: of the segments known."""
        statements = self._workload.statements[slice(*ends)]
        program, is_over = part_of(self._workload, statements), self._search.limits.until(end_share)
        parts = self._parts(program, end_share)
        apart = sum((values[each] for each in least_way(*ends, values)), Fraction(0))
        promising = [part for part in parts if part.value < apart * TUNING.promising]
        parts += [self._trees.with_branches_inside(program, part, is_over) for part in promising]
        return cheapest(parts)

    def part(self, statements: tuple[Statement, ...], end_share: float) -> Part | None:
        """Return the best nodes found for a segment; None where there are none, or that is not looked for. end_share:
        of the limit, up to which it is searched."""
        program = part_of(self._workload, statements)
        if len(statements) == 1:
            return self._trees.alone(program, *statements)
        return next(iter(self._parts(program, end_share)), None)

    def _parts(self, program: Workload, end_share: float) -> list[Part]:
        """Return the best nodes found for a segment of several statements, then the best of states whose kept tensors
        stand in other levels, if these cost little more."""
        limits, segment = self._search.limits, Segment.of(program)
        if segment is None:
            return []
        is_over = limits.until(end_share)
        half = limits.until(_next_share(limits.share(), end_share, 2))
        found = list[Part | None]()
        if not passes_through_windows(program):
            found.append(self._trees.spread(program, segment.interface, half))
        elif not self._search.arch.fanouts:
            found.append(self._trees.below_tile_loops(program, segment.interface, half))
        found.append(self._trees.read_off(program, segment.interface, half))
        best = cheapest(found)
        parts = sorted(self._best_of_states(segment, best, is_over), key=lambda part: part.value)
        if not parts:
            return []
        most = parts[0].value * TUNING.promising
        most_held = [self._trees.with_more_held(program, part, is_over) for part in parts if part.value < most]
        most_held = [self._trees.with_room_made(program, part, is_over) for part in most_held]
        return list(dict.fromkeys((*most_held, *parts[:1])))  # what more is held may leave no room for larger tiles

    def _best_of_states(self, segment: Segment, best: Part | None, is_over: Stop) -> list[Part]:
        """Return a part, and the best of the states by the level that keeps what passes, kind by kind; some kinds in a
        row without a gain end it."""
        tiles = {name: tiles_tried(segment.whole[name], divides=self._divides) for name in segment.interface.shared}
        kinds = dict[tuple[object, ...], list[State]]()
        states = takewhile(lambda _: not is_over(), segment.states(self._search.arch, tiles))
        for state in islice(states, TUNING.most_states_listed):
            kinds.setdefault(state.kind, []).append(state)
        tries = iter(range(TUNING.most_states_tried))
        groups = [sorted(each, key=partial(self._rank, segment)) for each in kinds.values() if not is_over()]
        ranked = [(*self._rank(segment, each[0]), at) for at, each in enumerate(groups)]
        alike = Counter[Fraction]()  # kinds without a gain, by what their first states cost at least
        found, in_vain = dict[int, Part]() if best is None else {0: best}, 0
        for least, _, at in sorted(ranked):
            if found and in_vain == TUNING.kinds_in_vain:
                break
            if alike[least] == TUNING.kinds_alike:
                continue
            best = cheapest(found.values())
            part = self._best_of(segment, groups[at], best, lambda: is_over() or next(tries, None) is None)
            level, gains = groups[at][0].level, part is not None and (best is None or part.value < best.value)
            if part is not None and (level not in found or part.value < found[level].value):
                found[level] = part
            alike[least] += not gains
            in_vain = 0 if gains else in_vain + 1
        return list(found.values())

    def _best_of(self, segment: Segment, states: list[State], best: Part | None, stop: Stop) -> Part | None:
        """Return the best of some states, which differ in their tiles; the first few without a gain end it. best: of
        the others."""
        least: Part | None = None
        failed = 0
        for state in states:
            if failed == TUNING.states_without_gain or (best is not None and self._moves_too_much(state, best)):
                break  # those after it move more
            if stop():
                break
            found = self._trees.below(segment.program, state.nodes(self._search.arch))
            if found is None or (least is not None and found.value >= least.value):
                failed += 1
            else:
                least, failed = found, 0
        return least

    def _rank(self, segment: Segment, state: State) -> tuple[Fraction, int]:
        """Return what a state moves at the outermost levels and passes on in its own cost; then that of more bits goes
        first."""
        passed = sum((self._trees.passed(segment.program, name, state.level) for name in state.kept), Fraction(0))
        places = (*state.again, (0, state.read, state.written))
        return passed + sum((self._trees.moved(*each) for each in places), Fraction(0)), -state.bits

    def _moves_too_much(self, state: State, best: Part) -> bool:
        outside = self._trees.outside(state.read, state.written)
        return outside - best.outside >= TUNING.saved_inside * (best.value - best.outside)


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring statements as a program of their own, and what states are made of.

    others: of the tensors that do not pass between them, those that all touch by one access.
    """

    program: Workload
    interface: Interface
    others: dict[str, Access]
    written: frozenset[str]
    bits: dict[str, int]
    whole: dict[str, int]

    @staticmethod
    def of(program: Workload) -> Segment | None:
        """Return the segment; None where statements pass on what they may not touch the same of."""
        accesses, interface = common_accesses(program), Interface.of(program)
        if interface is None:
            return None
        return Segment(
            program,
            interface,
            {name: access for name, access in accesses.items() if name not in interface.kept},
            frozenset(each.target.tensor for each in program.statements),
            {each.name: each.bits for each in program.tensors},
            program.extents(),
        )

    def states(self, arch: Architecture, tiles: dict[str, list[int]]) -> Iterator[State]:
        """Yield the states of which the tiles fit, those of few loops first."""
        for level in levels_above_fanouts(arch, self.program, self.interface.kept):
            for many in range(min(len(self.interface.shared), TUNING.most_loops_around) + 1):
                for order in permutations(self.interface.shared, many):
                    for chosen in product(*(tiles[name] for name in order)):
                        loops = tuple(zip(order, chosen, strict=True))
                        yield from self._states_by_what_is_held(loops, level, arch)

    def _states_by_what_is_held(
        self, loops: tuple[tuple[str, int], ...], number: int, arch: Architecture
    ) -> Iterator[State]:
        level = arch.levels[number]
        room = level.usable_bits
        inside = self.whole | dict(loops)
        sizes = {name: shared_tile(self.program, name, inside) for name in self.interface.kept}
        base = sum(self.bits[name] * (size or 0) for name, size in sizes.items())
        if None in sizes.values() or (room is not None and base > room):
            return
        for chosen in product(*(self._choices(name, loops, level) for name in self.others)):
            taken = base + sum(each.taken for each in chosen)
            if room is None or taken <= room:
                held = tuple((each.tensor, each.place) for each in chosen if each.place is not None)
                read, written = sum(each.read for each in chosen), sum(each.written for each in chosen)
                state = State(loops, number, self.interface.kept, held, taken, read, written)
                yield self._backed(state, chosen, arch)

    def _backed(self, state: State, chosen: tuple[Choice, ...], arch: Architecture) -> State:
        """Return a state with tensors that pass often whole in the last level outside its own with room for them."""
        rooms = {at: level.usable_bits for at, level in enumerate(arch.levels) if 0 < at < state.level}
        for each in chosen:
            size = self.bits[each.tensor] * elements_of(self.others[each.tensor], self.whole)
            once = (0, size) if each.tensor in self.written else (size, 0)
            for number in reversed(rooms) if each.read + each.written > size else ():
                room = rooms[number]
                if not arch.levels[number].may_hold(self.program.tensor(each.tensor)) or (room or size) < size:
                    continue
                rooms[number] = None if room is None else room - size
                state = replace(
                    state,
                    read=state.read - each.read + once[0],
                    written=state.written - each.written + once[1],
                    backed=(*state.backed, (each.tensor, number)),
                    again=(*state.again, (number, each.read + once[1], each.written + once[0])),
                )
                break
        return state

    def _choices(self, name: str, loops: tuple[tuple[str, int], ...], level: MemoryLevel) -> list[Choice]:
        """Return what may be done with a tensor: nothing, or hold it above a loop over a dim that it lacks."""
        access, may_be_held = self.others[name], level.may_hold(self.program.tensor(name))
        places = [place for place, (dim, _) in enumerate(loops) if may_be_held and dim not in access.dims]
        return [self._choice(name, access, loops, place) for place in (None, *places)]

    def _choice(self, name: str, access: Access, loops: tuple[tuple[str, int], ...], place: int | None) -> Choice:
        size = self.bits[name] * elements_of(access, self.whole)
        passes = _passes(access, loops, self.whole, place)
        taken = 0 if place is None else self.bits[name] * elements_of(access, self.whole | dict(loops[:place]))
        if name in self.written:
            return Choice(name, place, taken, size * (passes - 1), size * passes)
        return Choice(name, place, taken, size * passes, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a tensor stands (None: nowhere around the legs), the bits that it takes there, and what is read and written
    of it at the outermost level."""

    tensor: str
    place: int | None
    taken: int
    read: int
    written: int


def _passes(access: Access, loops: tuple[tuple[str, int], ...], whole: dict[str, int], place: int | None) -> int:
    """Return how often all of a tensor passes between the outermost level and a leg, or its node."""
    above = list(loops if place is None else loops[:place])
    while place is not None and above and above[-1][0] not in access.dims:
        above.pop()
    return prod(-(-whole[dim] // tile) for dim, tile in above if dim not in access.dims)


def tiles_tried(extent: int, *, divides: bool) -> list[int]:
    """Return tiles of loops around a segment: the least one per number of iterations, few of them; divisors where only
    these are asked for."""
    if divides:
        found = list(divisors(extent))[:-1]
    else:
        few = range(2, min(extent, TUNING.most_tiles_around // 2) + 1)
        powers = (1 << power for power in range(1, extent.bit_length()))
        found = sorted({tile for trips in (*few, *powers, extent) if (tile := -(-extent // trips)) < extent})
    most = TUNING.most_tiles_around
    if len(found) <= most:
        return found
    return sorted({found[round(number * (len(found) - 1) / (most - 1))] for number in range(most)})
