"""Programs of which neighbouring nests share loops, so that what one leaves for the next stays on chip.

A *segment* is one statement or several neighbours. Its *state* says which loops, over dims that all of them have, run
around them together; in which level what passes between them stands, a tile at a time; and which other tensors are held
in that level around some of these loops, so that they are not loaded again. What is left are *legs*: each statement
over the tiles that it gets, with these tensors given, in the best mapping that the search of nests finds for it. States
are looked at by what they move at the outermost level; each tree is counted as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, permutations, product
from math import prod

from polymap.costmodel import evaluate_in_cpu_time
from polymap.ir import (
    Access,
    Architecture,
    Branch,
    BudgetError,
    Mapping,
    MappingNode,
    MemoryLevel,
    Statement,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    is_box,
)
from polymap.search.problem import Goal, Objective, divisors, objective_values, parse_single
from polymap.search.programs import with_loops_joined
from polymap.search.resources import Stop
from polymap.search.run.driver import Search
from polymap.search.run.evidence import Evidence
from polymap.search.run.legs import Leg, Nodes, as_written, legs_of, part_of, takes_long_to_climb
from polymap.search.run.nest_after_nest import nests_in_sequence
from polymap.search.run.options import TUNING

_ADDITIVE = (Goal.ENERGY, Goal.TRAFFIC, Goal.LATENCY)


@dataclass(frozen=True, slots=True)
class Part:
    """The best nodes found for a segment, and what they cost alone: outside, of it at the outermost level."""

    value: Fraction
    nodes: tuple[Nodes, ...]
    outside: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class State:
    """Loops around a segment, and what stands in a level around some of them.

    loops: (dim, tile), outermost first. kept: what passes between the statements, below all loops. held: (tensor,
    number of loops above its node). bits: that the level holds. read, written: bits at the outermost level, if every
    leg moves each tensor once: no tree of the state moves fewer.
    """

    loops: tuple[tuple[str, int], ...]
    level: int
    kept: tuple[str, ...]
    held: tuple[tuple[str, int], ...]
    bits: int
    read: int
    written: int

    @property
    def moved(self) -> int:
        return self.read + self.written

    @property
    def kind(self) -> tuple[object, ...]:
        """What states have in common that differ in their tiles."""
        return tuple(dim for dim, _ in self.loops), self.level, self.held

    def extents(self, whole: dict[str, int], above: int | None = None) -> dict[str, int]:
        """Return how long the dims are below some of the loops (None: below all)."""
        return whole | dict(self.loops[:above])


def begin_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose the trees of the segments that cost least together: by what is asked, where it adds up over segments,
    else by energy and by latency."""
    statements = search.workload.statements
    are_nests = bool(nests_in_sequence(search.workload)) and all(map(is_box, statements))
    if len(statements) < 2 or search.rules or not are_nests:
        return evidence
    if any(each.values == evidence.floors for each in evidence.incumbents):
        return evidence  # no tree is better
    texts = (each.text if each.goal in _ADDITIVE else None for each in search.objective.singles)
    for text in dict.fromkeys(name for one in texts for name in ((one,) if one else ("energy", "latency"))):
        chains = Chains(search, with_loops_joined(search.workload), stop, parse_single(text, search.arch))
        nodes = chains.best_tree()
        evidence = evidence if nodes is None else chains.proposed(evidence, nodes)
    return evidence


class Chains:
    """The parts of a program, by one objective. workload: the program, or it with its loops renamed."""

    def __init__(self, search: Search, workload: Workload, stop: Stop, objective: Objective) -> None:
        self._search, self._workload, self._stop, self._objective = search, workload, stop, objective
        self._tried = 0  # states of the segment at hand

    def best_tree(self) -> Nodes | None:
        """Return the segments that cost least together, one after the other; None where some statement has no tree."""
        parts, count = self._parts(), len(self._workload.statements)
        best: list[Part | None] = [Part(Fraction(0), ())]
        for end in range(1, count + 1):
            found = [
                Part(before.value + part.value, (*before.nodes, *part.nodes))
                for begin in range(end)
                if (before := best[begin]) is not None and (part := parts.get((begin, end))) is not None
            ]
            best.append(min(found, key=lambda part: part.value, default=None))
        whole = best[-1]
        if whole is None:
            return None
        return whole.nodes[0] if len(whole.nodes) == 1 else (Branch(whole.nodes),)

    def _parts(self) -> dict[tuple[int, int], Part]:
        """Return the segments for which nodes were found, each in its share of the time, short ones first."""
        statements, limits = self._workload.statements, self._search.limits
        end_share = TUNING.chains_share_of_large if takes_long_to_climb(self._search) else TUNING.chains_share
        ends = [
            (begin, begin + length)
            for length in range(1, TUNING.most_in_a_segment + 1)
            for begin in range(len(statements) - length + 1)
        ]
        passing = [each for each in ends if Segment.of(part_of(self._workload, statements[slice(*each)])) is not None]
        found: dict[tuple[int, int], Part] = {}
        for begin, end in ends:
            if end - begin > 1 and (begin, end) not in passing:
                continue
            left, spent = len(passing) - passing.index((begin, end)) if end - begin > 1 else 1, limits.share()
            is_over = limits.until(spent + max(0.0, end_share - spent) / left)
            part = self.part(statements[begin:end], is_over)
            found |= {} if part is None else {(begin, end): part}
        return found

    def part(self, statements: tuple[Statement, ...], is_over: Stop) -> Part | None:
        """Return the best nodes found for a segment; None where there are none, or that is not looked for."""
        program = part_of(self._workload, statements)
        if len(statements) == 1:
            (statement,), extents = statements, program.extents()
            nodes = self._leg(Leg(statement.name, tuple((name, extents[name]) for name in statement.dims)))
            return self._counted(program, nodes or as_written(statement))
        segment = Segment.of(program)
        if segment is None:
            return None
        tiles = {name: tiles_tried(segment.whole[name], divides=self._search.divides) for name in segment.shared}
        kinds = dict[tuple[object, ...], list[State]]()
        for state in islice(segment.states(self._search.arch, tiles), TUNING.most_states_listed):
            kinds.setdefault(state.kind, []).append(state)
        best: Part | None = None
        self._tried = 0
        groups = [sorted(each, key=lambda state: (state.moved, -state.bits)) for each in kinds.values()]
        alike = Counter[int]()  # kinds without a gain, by what their first states move
        for group in sorted(groups, key=lambda each: (each[0].moved, -each[0].bits)):
            before, moved = best, group[0].moved
            if alike[moved] < TUNING.kinds_alike:
                best = self._best_of(segment, group, best, lambda: self._stop() or is_over())
                alike[moved] += best is before
        return best

    def _best_of(self, segment: Segment, states: list[State], best: Part | None, stop: Stop) -> Part | None:
        """Return the better of a part and the best of some states, which differ in their tiles; the first few without
        a gain end it."""
        least: Fraction | None = None
        failed = 0
        for state in states:
            if stop() or failed == TUNING.states_without_gain or self._tried == TUNING.most_states_tried:
                break
            if best is not None and self._moves_too_much(state, best):
                break  # and so are those after it, which move more
            self._tried += 1
            found = self._of_state(segment.program, state)
            if found is None or (least is not None and found.value >= least):
                failed += 1
                continue
            least, failed = found.value, 0
            if best is None or least < best.value:
                best = replace(found, outside=self._outside(state))
        return best

    def _moves_too_much(self, state: State, best: Part) -> bool:
        return self._outside(state) - best.outside >= TUNING.saved_inside * (best.value - best.outside)

    def _outside(self, state: State) -> Fraction:
        """Return what a state costs at the outermost level, as far as the objective adds it up."""
        objective, outermost = self._objective, self._search.arch.levels[0]
        if objective.goal is Goal.TRAFFIC and objective.level == outermost.name:
            return Fraction(state.moved)
        return outermost.access_pj(state.read, state.written) if objective.goal is Goal.ENERGY else Fraction(0)

    def _of_state(self, program: Workload, state: State) -> Part | None:
        """Return the tree of a state with the best legs; None where a leg has no mapping, or the tree is not legal."""
        legs: list[Nodes] = []
        bits = {each.name: each.bits for each in program.tensors}
        whole, level = program.extents(), self._search.arch.levels[state.level].name
        inside, above = state.extents(whole), dict(state.held)
        for statement in program.statements:
            given = tuple(name for name in (*state.kept, *above) if accesses_of(statement, name))
            own = sum(_elements(_index(statement, name), inside) * bits[name] for name in given)
            extents = tuple((name, inside[name]) for name in statement.dims)
            nodes = self._leg(Leg(statement.name, extents, given, state.level, state.bits - own))
            if nodes is None and statement.reads:
                return None
            legs.append(nodes or as_written(statement))
        chain: list[MappingNode] = []
        for number in range(len(state.loops) + 1):
            here = tuple(name for name, place in state.held if place == number)
            here += state.kept if number == len(state.loops) else ()
            chain += [Storage(level, here)] if here else []
            chain += [Temporal(*state.loops[number])] if number < len(state.loops) else []
        return self._counted(program, (*chain, Branch(tuple(legs))))

    def _leg(self, leg: Leg) -> Nodes | None:
        return legs_of(self._search).nodes(self._search, self._workload, leg, self._objective, TUNING.leg_share)

    def _counted(self, program: Workload, nodes: Nodes) -> Part | None:
        arch = self._search.arch
        try:
            cost = evaluate_in_cpu_time(program, arch, Mapping(nodes), max(1, self._search.limits.left_s() / 4))
        except BudgetError:
            return None
        if not cost.legal:
            return None
        return Part(objective_values(program, arch, self._objective, cost)[0], (nodes,))

    def proposed(self, evidence: Evidence, nodes: Nodes) -> Evidence:
        """Return the evidence with the tree of all parts, if it is legal and counted in time."""
        search, mapping = self._search, Mapping(nodes)
        try:
            cost = evaluate_in_cpu_time(self._workload, search.arch, mapping, max(1, search.limits.left_s() / 4))
        except BudgetError:
            return evidence
        if not cost.legal:
            return evidence
        found = search.incumbent(mapping, cost, self._workload)
        search.report(mapping, found.values[0], evidence.floors[0])
        return evidence.with_incumbents((found,))


def _index(statement: Statement, tensor: str) -> Access:
    return accesses_of(statement, tensor)[0]


def _dims(access: Access) -> tuple[str, ...]:
    return tuple(name for form in access.index for name in form.dims)


def _elements(access: Access, extents: dict[str, int]) -> int:
    return prod(extents[name] for name in _dims(access))


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring statements as a program of their own, and what states are made of.

    kept: what passes between them. others: of the other tensors, those that all touch alike. shared: dims of loops that
    may stand around all of them.
    """

    program: Workload
    kept: tuple[str, ...]
    kept_access: dict[str, Access]
    others: dict[str, Access]
    rest: tuple[str, ...]
    shared: tuple[str, ...]
    written: frozenset[str]
    bits: dict[str, int]
    whole: dict[str, int]

    @staticmethod
    def of(program: Workload) -> Segment | None:
        """Return the segment; None where statements pass on what they do not touch alike."""
        accesses, statements = simple_accesses(program), program.statements
        written = frozenset(each.target.tensor for each in statements)
        users = {each.name: sum(bool(accesses_of(one, each.name)) for one in statements) for each in program.tensors}
        kept = tuple(each.name for each in program.tensors if each.name in written and users[each.name] > 1)
        if not kept or any(name not in accesses for name in kept):
            return None
        common = [name for name in program.extents() if all(name in each.dims for each in statements)]
        shared = tuple(name for name in common if all(name in _dims(accesses[tensor]) for tensor in kept))
        return Segment(
            program,
            kept,
            {name: accesses[name] for name in kept},
            {name: access for name, access in accesses.items() if name not in kept},
            tuple(each.name for each in program.tensors if each.name not in accesses),
            shared,
            written,
            {each.name: each.bits for each in program.tensors},
            program.extents(),
        )

    def states(self, arch: Architecture, tiles: dict[str, list[int]]) -> Iterator[State]:
        """Yield the states of which the tiles fit, those of few loops first."""
        for level in levels_above_fanouts(arch, self.program, self.kept):
            for many in range(min(len(self.shared), TUNING.most_loops_around) + 1):
                for order in permutations(self.shared, many):
                    for chosen in product(*(tiles[name] for name in order)):
                        loops = tuple(zip(order, chosen, strict=True))
                        yield from self._states_by_what_is_held(loops, level, arch.levels[level])

    def _states_by_what_is_held(
        self, loops: tuple[tuple[str, int], ...], number: int, level: MemoryLevel
    ) -> Iterator[State]:
        room = level.usable_bits
        inside = self.whole | dict(loops)
        base = sum(self.bits[name] * _elements(access, inside) for name, access in self.kept_access.items())
        if room is not None and base > room:
            return
        for chosen in product(*(self._choices(name, loops, level) for name in self.others)):
            taken = base + sum(each.taken for each in chosen)
            if room is None or taken <= room:
                held = tuple((each.tensor, each.place) for each in chosen if each.place is not None)
                read, written = sum(each.read for each in chosen), sum(each.written for each in chosen)
                yield State(loops, number, self.kept, held, taken, read, written)

    def _choices(self, name: str, loops: tuple[tuple[str, int], ...], level: MemoryLevel) -> list[Choice]:
        """Return what may be done with a tensor: nothing, or hold it above a loop over a dim that it lacks."""
        access, may_be_held = self.others[name], level.may_hold(self.program.tensor(name))
        places = [place for place, (dim, _) in enumerate(loops) if may_be_held and dim not in _dims(access)]
        return [self._choice(name, access, loops, place) for place in (None, *places)]

    def _choice(self, name: str, access: Access, loops: tuple[tuple[str, int], ...], place: int | None) -> Choice:
        size = self.bits[name] * _elements(access, self.whole)
        passes = _passes(access, loops, self.whole, place)
        taken = 0 if place is None else self.bits[name] * _elements(access, self.whole | dict(loops[:place]))
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
    while place is not None and above and above[-1][0] not in _dims(access):
        above.pop()
    return prod(-(-whole[dim] // tile) for dim, tile in above if dim not in _dims(access))


def simple_accesses(program: Workload) -> dict[str, Access]:
    """Return the tensors of which all statements touch the same elements: by one access, each axis a dim of its own."""
    found: dict[str, Access] = {}
    for tensor in program.tensors:
        every = {access for each in program.statements for access in accesses_of(each, tensor.name)}
        access = next(iter(every))
        dims = _dims(access)
        if len(every) == 1 and len(set(dims)) == len(dims) and all(len(form.dims) == 1 for form in access.index):
            found[tensor.name] = access
    return found


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


def levels_above_fanouts(arch: Architecture, program: Workload, kept: tuple[str, ...]) -> list[int]:
    """Return the levels that may hold what passes between statements for all siblings: those of one instance."""
    tensors = [program.tensor(name) for name in kept]
    return [
        number
        for number, level in enumerate(arch.levels)
        if number and not arch.fanouts_above(level.name) and all(level.may_hold(each) for each in tensors)
    ]
