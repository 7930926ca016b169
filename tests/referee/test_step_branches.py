"""Latency in steps of trees with branches: every visit of every child walked, tiles as sets of addresses; what passes
in all is what the simulator counts."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.costmodel import evaluate
from polymap.costmodel.cost import Cost, StepClass
from polymap.costmodel.evaluation import simulate
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    MappingError,
    MappingNode,
    Operator,
    Spatial,
    Storage,
    Temporal,
    Tensor,
    Workload,
)
from polymap.search.problem import floor_of, parse_single
from tests.cases import Case
from tests.programs import random_tree
from tests.referee.test_fused_counts import fused_case
from tests.referee.test_step_latency import (
    AT_END,
    START,
    Walk,
    accessed,
    clock_of,
    in_turn,
    moved_by,
    sends,
    simulated,
    taken_in_turn,
    walk,
    with_steps,
)

Cycles = dict[int, Fraction]  # by the loops whose advances begin steps


@dataclass(frozen=True)
class Leg:
    """A statement by itself, with the nodes on its way (as they stand in the tree) and where children of branches begin
    among these."""

    case: Case
    starts: tuple[int, ...]

    @property
    def statement(self) -> str:
        return self.case.workload.statements[0].name

    def sets(self, tensor: str) -> bool:
        """Whether the statement overwrites a tensor and reads nothing of it."""
        (own,) = self.case.workload.statements
        is_read = any(each.tensor == tensor for each in own.reads)
        return own.target.tensor == tensor and own.operator is Operator.ASSIGN and not is_read

    def walked(self, tensor: str) -> dict[int, Walk]:
        """Return what the nodes of a tensor get and give back, by their places on the way."""
        found: dict[int, Walk] = {}
        sender, nodes = self.case.arch.levels[0], self.case.mapping.nodes
        for place, node in enumerate(nodes):
            if isinstance(node, Storage) and tensor in node.tensors and node.level != self.case.arch.levels[0].name:
                start = max(each for each in self.starts if each <= place)
                own = walk(self.case, node, place, tensor, sender, timed(nodes[:start]))
                found[place] = replace(own, loads=[]) if self.sets(tensor) else own
                sender = self.case.arch.levels[self.case.arch.level_index(node.level)]
        return found


def is_spread(nodes: tuple[MappingNode, ...]) -> bool:
    """Return whether anything runs side by side."""
    return any(
        isinstance(node, Spatial) or (isinstance(node, Branch) and any(map(is_spread, node.children))) for node in nodes
    )


def timed(nodes: tuple[MappingNode, ...]) -> int:
    return sum(isinstance(node, Temporal) for node in nodes)


def statements_in(nodes: tuple[MappingNode, ...]) -> list[str]:
    last = nodes[-1]
    if isinstance(last, Compute):
        return [last.statement]
    assert isinstance(last, Branch)
    return [name for child in last.children for name in statements_in(child)]


def uses(workload: Workload, statement: str, tensor: str) -> bool:
    own = workload.statement(statement)
    return tensor in (own.target.tensor, *(read.tensor for read in own.reads))


def legs_of(
    work: Workload,
    arch: Architecture,
    nodes: tuple[MappingNode, ...],
    above: tuple[MappingNode, ...] = (),
    *starts: int,
) -> dict[str, Leg]:
    *own, last = nodes
    way = (*above, *own)
    if isinstance(last, Branch):
        parts = [legs_of(work, arch, child, way, *starts, len(way)) for child in last.children]
        return {name: leg for part in parts for name, leg in part.items()}
    assert isinstance(last, Compute)
    number = [each.name for each in work.statements].index(last.statement)
    statement = work.statements[number]
    before = {each.target.tensor for each in work.statements[:number]}

    def alone(tensor: Tensor) -> Tensor:
        target = tensor.name == statement.target.tensor
        return replace(tensor, temporary=False, initial=target and (tensor.initial or tensor.name in before))

    own_tensors = tuple(alone(each) for each in work.tensors if uses(work, statement.name, each.name))
    dims = tuple(each for each in work.dims if each.name in statement.dims)
    single = replace(work, dims=dims, tensors=own_tensors, statements=(statement,), original=None)
    return {statement.name: Leg(Case(single, arch, Mapping((*way, last)), frozenset()), (0, *starts))}


@dataclass
class Visits:
    """cycles: of one visit in the mean; turns: of them those of each bus for loads and stores in turn."""

    cycles: Cycles
    turns: dict[str, Cycles]


class Run:
    """A tree, walked child by child. moved: (level, tensor) -> elements that nodes there got and gave back."""

    def __init__(self, work: Workload, arch: Architecture, mapping: Mapping) -> None:
        self.work, self.arch = work, arch
        self.whole = Case(work, arch, mapping, frozenset())
        self.legs = legs_of(work, arch, mapping.nodes)
        self.classes: dict[tuple[str, str, int], StepClass] = {}
        self.moved: dict[tuple[str, str], tuple[int, int]] = {}
        self.buses = [level for level in arch.levels if level.one_bus]
        (cycles,) = self.visits(mapping.nodes, ()).cycles.values()
        self.cycles = arch.start_cycles + cycles

    def visits(self, nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...]) -> Visits:
        """Return what visits of these nodes take, which end in a branch or a statement."""
        way, begins = (*above, *nodes[:-1]), timed(above)
        names = statements_in(nodes)
        below = {name: self.legs[name] for name in names}
        own = [each for tensor in self.work.tensors for each in self.walks(tensor, below, len(above), len(way))]
        case = below[names[0]].case
        depths = {each.level: max(w.depth for w in own if w.level == each.level) for each in own}
        order = [level.name for level in self.arch.levels]
        stages = sorted(depths, key=lambda name: (depths[name], order.index(name)))
        found, depth = self.inside(nodes[-1], way, case, depths[stages[-1]] if stages else begins)
        for stage in reversed(stages):
            walks = [each for each in own if each.level == stage]
            found = self.steps(case, ", ".join(names), walks, depth, begins, found)
            depth = depths[stage]
        often = sum(begun_by(case, begins).values())
        ends = [moved_by(self.whole, [w for w in own if w.level == stage], AT_END, write=True) for stage in stages]
        cycles = within(case, found.cycles, depth, begins)
        turns = {bus: within(case, taken, depth, begins) for bus, taken in found.turns.items()}
        stored = {bus: self.at_ends(bus, own, stages) / often for bus in turns}
        return Visits(
            {moved: each + sum(ends, Fraction(0)) / often for moved, each in cycles.items()},
            {bus: {moved: each + stored[bus] for moved, each in taken.items()} for bus, taken in turns.items()},
        )

    def inside(self, last: MappingNode, way: tuple[MappingNode, ...], case: Case, depth: int) -> tuple[Visits, int]:
        """Return what visits of the children of a branch take, or passes below so many temporal loops, and below how
        many they are."""
        if not isinstance(last, Branch):
            inner = self.passes(case, depth)
            return Visits(inner, {bus.name: dict.fromkeys(inner, Fraction(0)) for bus in self.buses}), depth
        parts = [self.visits(child, way) for child in last.children]
        begun = parts[0].cycles
        turns = {b.name: {m: sum((p.turns[b.name][m] for p in parts), Fraction(0)) for m in begun} for b in self.buses}
        return Visits({m: sum((p.cycles[m] for p in parts), Fraction(0)) for m in begun}, turns), timed(way)

    def at_ends(self, bus: str, own: list[Walk], stages: list[str]) -> Fraction:
        return sum(
            (
                moved_by(self.whole, [w for w in own if (w.level, w.sender.name) == (stage, bus)], AT_END, write=True)
                for stage in stages
            ),
            Fraction(0),
        )

    def walks(self, tensor: Tensor, below: dict[str, Leg], first: int, end: int) -> list[Walk]:
        """Return what the nodes of a tensor from one place to another get and give back, nothing where only statements
        below need it."""
        users = [leg for name, leg in below.items() if uses(self.work, name, tensor.name)]
        found = [each for place, each in users[0].walked(tensor.name).items() if first <= place < end] if users else []
        every = [each.name for each in self.work.statements if uses(self.work, each.name, tensor.name)]
        is_written = any(each.target.tensor == tensor.name for each in self.work.statements)
        if len(users) > 1 and len(users) == len(every) and tensor.temporary and is_written:
            found = [replace(each, loads=[], stores=[], changed=set()) for each in found]
        for each in found:
            counts = [sum(len(m) for _, row in rows for m in row) for rows in (each.loads, each.stores)]
            got, given = self.moved.get((each.level, tensor.name), (0, 0))
            self.moved[each.level, tensor.name] = got + counts[0], given + counts[1]
        return found

    def passes(self, case: Case, depth: int) -> Cycles:
        """Return what the statement instances of one step below so many temporal loops take."""
        unit, leg = self.arch.compute, self.legs[case.workload.statements[0].name]
        held = [each for tensor in case.workload.tensors for each in leg.walked(tensor.name).values()]
        held = [each for each in held if self.arch.fanouts_above(each.level) == self.arch.fanouts]
        begun = begun_by(case, depth)
        steps = sum(begun_by(case, timed(case.mapping.nodes)).values())
        stream = max(Fraction(steps, unit.per_cycle), accessed(leg_alone(case))) / sum(begun.values())
        return {
            moved: max(stream, unit.pass_least_cycles)
            + unit.fill_cycles
            + (unit.preload_cycles if any(moved in each.changed for each in held) else 0)
            for moved in begun
        }

    def steps(self, case: Case, names: str, walks: list[Walk], deeper: int, begins: int, inner: Visits) -> Visits:
        """Return what the steps of a level take, and of that its buses for loads and stores in turn."""
        stage, depth = walks[0].level, max(each.depth for each in walks)
        level = self.arch.levels[self.arch.level_index(stage)]
        works = within(case, inner.cycles, deeper, depth)
        turns = {bus: within(case, taken, deeper, depth) for bus, taken in inner.turns.items()}
        found: Cycles = {}
        for moved, number in begun_by(case, depth).items():
            load = moved_by(self.whole, walks, moved, write=False) / number
            store = Fraction(0) if moved < begins else moved_by(self.whole, walks, moved, write=True) / number
            for bus in self.buses:
                turns[bus.name][moved] += taken_in_turn(self.whole, bus, walks, moved) / number
            wait = max((w.sender.request_latency_cycles for w in walks if sends(w, moved)), default=Fraction(0))
            slots = max(2, level.buffering) if self.arch.overlap else 1
            turn, work = max((taken[moved] for taken in turns.values()), default=Fraction(0)), works[moved]
            if moved < begins or moved == START:
                period = max(load, level.step_cycles) + wait + work
            elif slots == 1:
                period = max(load + work + store + wait, level.step_cycles)
            else:
                period = max(load, work, store, turn, level.step_cycles, (load + work + store + wait) / slots)
            found[moved] = period
            self.classes[names, stage, moved] = StepClass(stage, "", number, load, work, store, period, "")
        return Visits(found, turns)


def leg_alone(case: Case) -> Case:
    """Return a leg whose nodes hold what its statement accesses, as a mapping of its own."""
    names = [each.name for each in case.workload.tensors]
    nodes: list[MappingNode] = []
    for node in case.mapping.nodes:
        if isinstance(node, Storage):
            held = tuple(name for name in node.tensors if name in names)
            nodes += [replace(node, tensors=held)] if held else []
        else:
            nodes.append(node)
    return replace(case, mapping=Mapping(tuple(nodes)))


def begun_by(case: Case, depth: int) -> dict[int, int]:
    """Return how many steps of so many temporal loops each of these begins."""
    found: dict[int, int] = {}
    for moved, _ in clock_of(case, depth):
        found[moved] = found.get(moved, 0) + 1
    return dict(sorted(found.items()))


def within(case: Case, cycles: Cycles, deeper: int, depth: int) -> Cycles:
    """Return what steps below more loops take inside one below fewer."""
    inside, begun = begun_by(case, deeper), begun_by(case, depth)
    repeated = sum((inside[m] * each for m, each in cycles.items() if m >= depth), Fraction(0)) / sum(begun.values())
    return {moved: cycles.get(moved, Fraction(0)) + repeated for moved in begun}


def told(cost: Cost, run: Run) -> dict[tuple[str, str, int], StepClass]:
    """Return the classes of a cost by what they are of."""
    assert cost.steps is not None
    groups: dict[tuple[str, str], list[StepClass]] = {}
    for each in cost.steps.classes:
        groups.setdefault((each.below, each.level), []).append(each)
    keys: dict[tuple[str, str], list[int]] = {}
    for below, level, moved in run.classes:
        keys.setdefault((below, level), []).append(moved)
    assert {key: len(each) for key, each in keys.items()} == {key: len(each) for key, each in groups.items()}
    return {
        (*key, moved): one for key, own in groups.items() for moved, one in zip(sorted(keys[key]), own, strict=True)
    }


def floor_of_held(work: Workload, arch: Architecture, mapping: Mapping) -> Fraction:
    """Return what no mapping takes less than that holds what a tree holds inside of the outermost level on all ways."""
    legs, outer = legs_of(work, arch, mapping.nodes).values(), arch.levels[0].name
    held = {
        each.name
        for each in work.tensors
        if all(
            any(isinstance(n, Storage) and n.level != outer and each.name in n.tensors for n in leg.case.mapping.nodes)
            for leg in legs
            if uses(work, leg.statement, each.name)
        )
    }
    inner = replace(arch.levels[1], must_hold=tuple(sorted(held)))
    arch = replace(arch, nodes=tuple(inner if node == arch.levels[1] else node for node in arch.nodes))
    return floor_of(work, arch, parse_single("latency", arch))


def compared(seeds: range, *, one_bus: bool = False) -> tuple[int, int, int]:
    """Compare fused trees with those that are walked; return how many were, how many classes, and how many loops above
    branches."""
    met = seen = loops = 0
    for seed in seeds:
        rng = random.Random(f"steps {seed}")
        work, arch, mapping = fused_case(rng)
        case = with_steps(Case(work, arch, mapping, frozenset()), rng)
        arch = in_turn(case).arch if one_bus else case.arch
        try:
            cost = evaluate(work, arch, mapping)
        except BudgetError:
            continue
        run = Run(work, arch, mapping)
        found = told(cost, run)
        figures = ("steps", "load_cycles", "work_cycles", "store_cycles", "period_cycles")
        for key, one in run.classes.items():
            assert [getattr(found[key], name) for name in figures] == [getattr(one, name) for name in figures], (
                seed,
                key,
            )
            seen += 1
        assert cost.steps is not None
        assert cost.steps.cycles == run.cycles, seed
        assert floor_of_held(work, arch, mapping) <= cost.latency_cycles, seed
        if not is_spread(mapping.nodes):  # one instance of each level gets and gives back all
            for row in simulate(work, arch.without_steps(), mapping).traffic:
                moved = run.moved.get((row.level, row.tensor), (0, 0))
                if row.level != arch.levels[0].name and arch.levels[arch.level_index(row.level)].keeps:
                    assert moved == (row.fills, row.drains), (seed, row)
        met += 1
        loops += isinstance(mapping.nodes[-1], Branch) and timed(mapping.nodes)
    return met, seen, loops


def test_steps_of_fused_trees_are_those_of_the_walked_visits() -> None:
    met, seen, loops = compared(range(30))
    assert met > 12
    assert seen > 200
    assert loops > 10


def test_buses_of_fused_trees_take_in_turn_what_the_walked_visits_take_together() -> None:
    met, seen, _ = compared(range(100, 130), one_bus=True)
    assert met > 12
    assert seen > 150


@pytest.mark.parametrize("name", ["children that keep their tiles", "results that leave though nobody needs them"])
def test_a_mistake_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, wrong = {
        "children that keep their tiles": ("_Leg.begins", lambda *_: 0),
        "results that leave though nobody needs them": ("_Tree._passes", lambda *_: True),
    }[name]
    monkeypatch.setattr(f"polymap.costmodel.step_trees.{place}", wrong)
    with pytest.raises(AssertionError):
        compared(range(60))


TWO = ("T[m,n] += A[m,k] * B[k,n]", "C[m,p] += T[m,n] * D[n,p]")


def machine(read: int, write: int) -> Architecture:
    dram = pm.MemoryLevel(
        "DRAM",
        read_bandwidth_bits_per_cycle=Fraction(read),
        write_bandwidth_bits_per_cycle=Fraction(write),
        beat_bits=8,
    )
    nodes = (dram, pm.MemoryLevel("Buf"), pm.ComputeUnit("MAC"))
    return pm.Architecture("two levels", nodes, start_cycles=Fraction(10))


def products(tile: int, *, inside: bool) -> dict[str, object]:
    """Return the tree of two products through one buffer, `tile` rows at a time, row by row inside. inside: D is held
    for the second product alone."""
    first = [{"for": "m", "tile": 1}, {"store": "Buf", "tensors": ["A"]}]
    then = [{"for": "m", "tile": 1}, {"store": "Buf", "tensors": ["C"]}]
    held = [{"store": "Buf", "tensors": ["D"]}]
    points = [[{"for": dim, "tile": 1} for dim in dims] for dims in ("nk", "pn")]
    branch = [[*first, *points[0], {"compute": "S0"}], [*held * inside, *then, *points[1], {"compute": "S1"}]]
    around = [{"store": "Buf", "tensors": ["B"]}, *held * (not inside), {"for": "m", "tile": tile}]
    return {"nodes": [*around, {"store": "Buf", "tensors": ["T"]}, {"branch": branch}]}


def test_two_products_through_one_buffer_take_what_is_worked_out_by_hand() -> None:
    """The example of docs/latency.md: B and D arrive (48 cycles); 4 times the first product loads a row (4) and then
    multiplies (24), loads the next one meanwhile and multiplies (24), and the second one multiplies (24), stores a row
    meanwhile and multiplies (24), and stores the last row (4)."""
    work = pm.program(list(TWO), m=8, k=4, n=6, p=4, temporary=["T"], bits=8)
    cost = evaluate(work, machine(8, 8), products(2, inside=False))
    assert cost.latency_cycles == 10 + 48 + 4 * ((4 + 24 + 24) + (24 + 24 + 4)) == 474
    assert cost.steps is not None
    assert {(each.below, each.steps) for each in cost.steps.classes if not each.loop} == {
        ("S0, S1", 1),
        ("S0", 1),
        ("S1", 1),
    }


def test_nest_after_nest_takes_what_nests_take() -> None:
    sizes, machines = {"m": 8, "k": 4, "n": 6, "p": 4}, machine(8, 8)
    held = ("B", ("A", "T"), "nk"), ("D", ("T", "C"), "pn")
    children = [
        [
            {"store": "Buf", "tensors": [weights]},
            {"for": "m", "tile": 1},
            {"store": "Buf", "tensors": list(rows)},
            *({"for": dim, "tile": 1} for dim in dims),
        ]
        for weights, rows, dims in held
    ]
    total = 0
    for text, child in zip(TWO, children, strict=True):
        own = {dim: size for dim, size in sizes.items() if dim in re.findall("[a-z]", text)}
        nest = pm.einsum(text, sizes=own, bits=8)
        total += evaluate(nest, machines, {"nodes": [*child, {"compute": "S"}]}).latency_cycles - 10
    work = pm.program(list(TWO), sizes=sizes, temporary=["T"], bits=8)
    tree = {"nodes": [{"branch": [[*child, {"compute": f"S{n}"}] for n, child in enumerate(children)]}]}
    assert evaluate(work, machines, tree).latency_cycles == 10 + total


@pytest.mark.parametrize("inside", [False, True])
def test_uniform_trees_take_what_events_take(inside: bool) -> None:
    """Each visit of a child is a pipeline of its own; those of both are the work of a step around them."""
    for seed in range(60):
        rng = random.Random(seed)
        tile, many = rng.randint(1, 3), rng.randint(1, 3)
        k, n, p, read, write = (rng.randint(1, 6) for _ in range(5))
        work = pm.program(list(TWO), m=tile * many, k=k, n=n, p=p, temporary=["T"], bits=8)
        cost = evaluate(work, machine(8 * read, 8 * write), products(tile, inside=inside))
        loads, stores = Fraction(k, read), Fraction(p, write)
        none, weights = [Fraction(0)] * tile, Fraction(n * p, read) if inside else Fraction(0)
        first = simulated([loads] * tile, [Fraction(n * k)] * tile, none, Fraction(0), 2)
        then = simulated([weights, *none[1:]], [Fraction(n * p)] * tile, [stores] * tile, Fraction(0), 2)
        whole = Fraction(n * k + (0 if inside else n * p), read)
        assert cost.steps is not None
        assert cost.steps.cycles == 10 + whole + many * (first + then), seed


def test_no_tree_of_a_program_is_better_than_what_its_search_tells() -> None:
    """A machine of two levels, the inner one too small for all; random trees, all of whose cycles are counted."""
    statuses: list[str] = []
    for seed in range(4):
        rng = random.Random(f"explored {seed}")
        sizes = {dim: rng.choice([2, 3, 4]) for dim in "mknp"}
        work = pm.program(list(TWO), sizes=sizes, temporary=["T"] * (seed % 2), bits=8)
        outer, inner, unit = machine(rng.choice([8, 16]), 8).nodes
        assert isinstance(inner, pm.MemoryLevel)
        level = replace(inner, capacity_bits=8 * rng.choice([8, 20, 60]), step_cycles=Fraction(rng.choice([0, 7])))
        arch = pm.Architecture("small", (outer, replace(level, read_pj=Fraction(1), write_pj=Fraction(1)), unit))
        objective = ("latency", "edp")[seed // 2]
        found = pm.explore(work, arch, objective, tiles=("divide", "any")[seed % 2], time_limit_s=1)
        assert found.best is not None
        assert found.cost == evaluate(found.workload, arch, found.best)
        statuses.append(found.status)
        for _ in range(60):
            tree = random_tree(rng, work, arch)
            try:
                cost = evaluate(work, arch, tree)
            except (MappingError, BudgetError):
                continue
            value = cost.latency_cycles * (cost.energy_pj if objective == "edp" else 1)
            assert not cost.legal or value >= found.bound, (seed, tree)
    assert "FEASIBLE" in statuses
