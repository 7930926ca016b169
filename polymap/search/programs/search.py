"""The search of programs of several statements: the best tree found so far, as the cost model scores it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.costmodel import Cost, compulsory_traffic, cost_of_counts, evaluate
from polymap.ir import Architecture, BudgetError, Mapping, MemoryLevel, Workload
from polymap.resources import Limits, OutOfTime
from polymap.search.problem import Goal, Objective, floor_of, objective_values, parse_single
from polymap.search.programs.alignments import with_loops_apart
from polymap.search.programs.climbing import Climber, FoundShape
from polymap.search.programs.contraction import contract_arrays
from polymap.search.programs.counting import counts_of
from polymap.search.programs.every_shape import count_bound
from polymap.search.programs.instances import ProgramArrays, instance_bound, program_arrays
from polymap.search.programs.placement import Weights, best_nodes
from polymap.search.programs.shapes import Nodes, Shape, mapping_of_shape, source_shape, time_shape
from polymap.search.programs.stays import Stays
from polymap.search.programs.tuning import TUNING
from polymap.workload import expanded

PLAIN_TREES, REWRITTEN_TREES = "program trees", "rewritten program trees"

Accepts = Callable[[Mapping, Cost, Workload], bool]


@dataclass(frozen=True, slots=True)
class ProgramTree:
    """A tree of a program, over the dims of `workload`: the program asked for, or the same with its loops renamed,
    shifted or skewed."""

    value: Fraction
    workload: Workload
    mapping: Mapping
    cost: Cost


@dataclass(frozen=True, slots=True)
class _Until:
    """The limits of a climb, which leave so many seconds of a whole search."""

    limits: Limits
    whole: Limits
    left_s: float

    def is_late(self) -> bool:
        return self.whole.time_is_up() or self.whole.left_s() < self.left_s

    def __call__(self) -> bool:
        return self.limits() or self.is_late()


def may_be_climbed(workload: Workload, arch: Architecture, objective: Objective) -> bool:
    """Return whether the program is small enough for arrays of its instances, one value is asked for, and no fan-out
    costs energy, which climbing does not count."""
    if arch.has_wire_energies:
        return False
    single = objective.goal not in (Goal.LEXICOGRAPHIC, Goal.PARETO)
    return single and bool(workload.statements) and instance_bound(workload) <= TUNING.most_instances


class ProgramSearch:
    """A search that can be ended and taken up again. best: the best legal tree so far; scored: shapes looked at.
    apart: only trees in which statements of different outermost nests share no loop.
    complete: the space of docs/program_space.md of which all trees were looked at, and none is better; "" where there
    is none."""

    def __init__(
        self, workload: Workload, arch: Architecture, objective: Objective, seed: int, *, apart: bool = False
    ) -> None:
        self.workload, self._names = with_loops_apart(workload)
        self.arch, self.objective, self.seed = arch, objective, seed
        self.apart = apart
        self.best: ProgramTree | None = None
        self.complete = ""
        self._counting_s = 0.0  # about, of a tree
        self._climber: Climber | None = None
        self._folding: list[Climber] = []

    @property
    def scored(self) -> int:
        return sum(each.scored for each in (self._climber, *self._folding) if each is not None)

    def go_on(self, stop: Limits, accepts: Accepts) -> None:
        """Search until it is told to stop; shapes looked at are steps of work. accepts: whether a legal tree meets the
        rules."""
        if self._climber is None:
            begun = stop.seconds()
            try:
                arrays = program_arrays(self.workload, stop)
            except OutOfTime:
                return
            self._counting_s = stop.seconds() - begun
            weights = weights_of(self.arch, self.objective)
            floors = _floors(self.workload, weights)
            self._climber = Climber(arrays, self.arch, weights, floors, self.seed, stop, apart=self.apart)
            self._climber.names = self._names
        has_folded = any(each.temporary and not each.initial for each in self.workload.tensors)
        has_buffers = has_folded and not self.apart and not self._climber.keeps_loops
        first = stop.part(0.5) if has_buffers else stop
        self._let(self._climber, first, stop)
        if not self.apart and self._is_small(first.work.left):
            walking = first.part(TUNING.walking_share)
            self._let(self._climber, walking, stop)
            self.complete = self._walk_all(self._climber, walking)
            self.complete = self.complete if self._is_fast(self._climber) else ""
            first.work.add(walking.work.done)
            self._let(self._climber, first, stop)
        if not self.complete:
            with suppress(OutOfTime):
                self._climber.run()
                self._climber.finish()
        if first is not stop:
            stop.work.add(first.work.done)
        for found in self._climber.found():
            if self._take(self._tree(found), accepts) or stop.time_is_up():
                break
        if has_buffers and not self._climber.is_at_floor:
            with suppress(OutOfTime):
                self._fold(stop, accepts)

    def _let(self, climber: Climber, limits: Limits, whole: Limits) -> None:
        """Let a climber search within some limits, and leave of the whole time what counting the best tree takes."""
        stop = _Until(limits, whole, self._counting_s)
        climber.stop, climber.work, climber.late = stop, limits.work, stop.is_late

    def _walk_all(self, climber: Climber, stop: Callable[[], bool]) -> str:
        """Look at all trees of the program, and of its rewritings where these are few; return the name of the space
        that was walked, "" where the search was stopped."""
        walked = ""
        with suppress(OutOfTime):
            if climber.walk(self._names, stop):
                walked = PLAIN_TREES
                rewritings = climber.few_rewritings(TUNING.most_shapes) or ()
                if len(rewritings) > 1 and all(climber.walk(each, stop) for each in rewritings[1:]):
                    walked = REWRITTEN_TREES
        return walked

    def _take(self, tree: ProgramTree | None, accepts: Accepts) -> bool:
        """Keep a tree where it is legal, meets the rules and costs less; return whether it is legal and meets them."""
        if tree is None or not tree.cost.legal or not accepts(tree.mapping, tree.cost, tree.workload):
            return False
        if self.best is None or tree.value < self.best.value:
            self.best = tree
        return True

    def _fold(self, stop: Limits, accepts: Accepts) -> None:
        """Look for fused shapes whose temporaries fit in circular buffers: programs in the order of these shapes."""
        weights = weights_of(self.arch, self.objective)
        if not self._folding:
            every = [(program, program_arrays(program, stop.time_is_up)) for program in self._to_fold()]
            for program, plain in every:
                arrays, floors = replace(plain, folding=True), _floors(program, weights)
                self._folding.append(Climber(arrays, self.arch, weights, floors, self.seed, stop))
        for number, climber in enumerate(self._folding, 1):
            limits = stop.part(1 / (1 + len(self._folding) - number))
            self._let(climber, limits, stop)
            with suppress(OutOfTime):
                climber.run()
            self._take_folded(climber, accepts)
            stop.work.add(limits.work.done)

    def _to_fold(self) -> list[Workload]:
        """Return the program where it has temporary arrays, and, of a C text, the program whose variables that are one
        per iteration are arrays over its loops: these keep nothing from being exchanged or tiled."""
        wider = expanded(self.workload)
        has_arrays = any(each.temporary and each.shape for each in self.workload.tensors)
        return [self.workload] * (has_arrays or wider == self.workload) + [wider] * (wider != self.workload)

    def _take_folded(self, climber: Climber, accepts: Accepts) -> None:
        every = tuple(range(1, len(self.arch.levels)))
        for found in climber.found()[: TUNING.most_folded]:
            if climber.late():
                return
            program = contract_arrays(replace(climber.program(found.rewriting), folding=False), found.shape)
            if program is None:
                continue
            shape = source_shape(program.workload)
            when = time_shape(program, shape)
            if when is None:
                continue
            stays = Stays(program, shape, when, climber.late)
            chosen = best_nodes(stays, self.arch, climber.weights, climber.floors, levels=every)
            before = self.best
            if chosen is not None and self._take(self._score(program, shape, chosen[1]), accepts):
                self.complete = self.complete if self.best is before else ""

    def _is_fast(self, climber: Climber) -> bool:
        """Return whether no tree is faster than the first one, where the objective is a product with time."""
        powers, found = self.objective.goal.powers, climber.found()[:1]
        if powers is None or not powers.cycles:
            return True
        floor = floor_of(self.workload, self.arch, parse_single("latency", self.arch))
        trees = filter(None, map(self._tree, found))
        return any(tree.cost.latency_cycles <= floor for tree in trees)

    def _is_small(self, steps: int | None) -> bool:
        """Return whether all trees are walked: few for the steps that there are (None: any number), of a cost that is a
        sum over tensors, or energy in a product with time, whose least is the least product if no tree is faster."""
        leaks = any(level.leak_pj_per_cycle for level in self.arch.levels)
        powers = self.objective.goal.powers
        linear = self.objective.goal is Goal.TRAFFIC or (powers is not None and powers.energy > 0 and not leaks)
        most = TUNING.most_shapes if steps is None else min(TUNING.most_shapes, int(TUNING.walking_share * steps))
        few = count_bound(self.workload) <= most and instance_bound(self.workload) <= TUNING.few_instances
        return linear and few

    def _tree(self, found: FoundShape) -> ProgramTree | None:
        assert self._climber is not None
        return self._score(self._climber.program(found.rewriting), found.shape, found.nodes)

    def _score(self, arrays: ProgramArrays, shape: Shape, nodes: Nodes) -> ProgramTree | None:
        workload, mapping = arrays.workload, mapping_of_shape(shape, nodes)
        try:
            if arrays.count <= TUNING.few_to_evaluate:
                cost = evaluate(workload, self.arch, mapping)
            else:
                when = time_shape(arrays, shape)
                assert when is not None, "this shape was scored before"
                counts = counts_of(Stays(arrays, shape, when), self.arch, nodes)
                cost = cost_of_counts(workload, self.arch, mapping, counts)
        except BudgetError:
            return None
        value = objective_values(workload, self.arch, self.objective, cost)[0]
        return ProgramTree(value, workload, mapping, cost)


def weights_of(arch: Architecture, objective: Objective) -> Weights:
    """Return what a bit costs per level: of traffic, at its level alone; of energy, its energy; of time, the cycles of
    its transfer; of products, its energy."""
    match objective.goal:
        case Goal.TRAFFIC:
            one = tuple(Fraction(level.name == objective.level) for level in arch.levels)
            return Weights(one, one)
        case Goal.LATENCY:
            cycles = [_cycles(level) for level in arch.levels]
            return Weights(tuple(read for read, _ in cycles), tuple(write for _, write in cycles))
        case _:
            reads = tuple(Fraction(level.access_pj(1, 0)) for level in arch.levels)
            return Weights(reads, tuple(Fraction(level.access_pj(0, 1)) for level in arch.levels))


def _cycles(level: MemoryLevel) -> tuple[Fraction, Fraction]:
    both = level.bandwidth_bits_per_cycle
    one, other = (level.read_bandwidth_bits_per_cycle or both, level.write_bandwidth_bits_per_cycle or both)
    return (Fraction(0) if one is None else 1 / Fraction(one), Fraction(0) if other is None else 1 / Fraction(other))


def _floors(workload: Workload, weights: Weights) -> dict[str, Fraction]:
    """Return what each tensor costs at least: its compulsory traffic at the outermost level."""
    return {
        row.tensor: workload.tensor(row.tensor).bits
        * ((row.reads or 0) * weights.read[0] + (row.writes or 0) * weights.write[0])
        for row in compulsory_traffic(workload)
    }
