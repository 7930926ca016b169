"""What rules do to a search: limits in its measure, what a finished mapping breaks, and which rules clash."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import prod

from polymap.arch.machine import Architecture, Fanout
from polymap.costmodel.cost import Cost
from polymap.schedules.mapping import Branch, Mapping, Spatial, Storage, Temporal
from polymap.search.constraints import (
    AtMost,
    Factor,
    Held,
    Innermost,
    Intrinsic,
    Outermost,
    Outside,
    Rule,
    Rules,
    Utilization,
    narrowed,
    rule_text,
)
from polymap.search.engine import Found, solve
from polymap.search.goals import Goal, Objective
from polymap.search.infeasible import clashes
from polymap.search.objective import Measure, limited, measure_of, objective_value
from polymap.search.problem import analyse
from polymap.search.structure import enumerate_structures
from polymap.workload.loopnest import Workload


def measure_under(objective: Objective, workload: Workload, arch: Architecture, rules: Rules) -> Measure:
    """Return the compiled objective with everything barred that breaks a limit."""
    measure = measure_of(objective, workload, arch)
    for rule in rules:
        if isinstance(rule, AtMost):
            measure = limited(measure, measure_of(rule.objective, workload, arch), rule.most)
    return measure


def broken_rules(workload: Workload, arch: Architecture, rules: Rules, mapping: Mapping, cost: Cost) -> Rules:
    """Return the rules that a mapping breaks (of a tree with branches: all order and tile rules)."""
    return tuple(rule for rule in rules if not _meets(workload, arch, rule, mapping, cost))


def _meets(workload: Workload, arch: Architecture, rule: Rule, mapping: Mapping, cost: Cost) -> bool:
    match rule:
        case Utilization(least):
            lanes = arch.compute.per_cycle
            for fanout in arch.fanouts:
                lanes *= fanout.size
            return cost.instances >= least * cost.compute_cycles * lanes
        case AtMost(objective, most):
            return objective_value(workload, arch, objective, cost) <= most
        case Held(level, tensor, must):
            return must == any(
                isinstance(node, Storage) and node.level == level and tensor in node.tensors for node in mapping.nodes
            )
        case Outside() | Outermost() | Innermost() | Factor() | Intrinsic():
            branched = any(isinstance(node, Branch) for node in mapping.nodes)
            return not branched and _Loops(workload, arch, mapping).meets(rule)


class _Loops:
    """The loops of a tree without branches that have more than one iteration: (dim, trips, fan-out, position)."""

    def __init__(self, workload: Workload, arch: Architecture, mapping: Mapping) -> None:
        self.arch, self.mapping = arch, mapping
        tiles = dict(workload.extents())
        self.rows: list[tuple[str, int, str | None, int]] = []
        for position, node in enumerate(mapping.nodes):
            if isinstance(node, Temporal | Spatial):
                trips = -(-tiles[node.dim] // node.tile)
                tiles[node.dim] = min(node.tile, tiles[node.dim])
                if trips > 1:
                    self.rows.append((node.dim, trips, getattr(node, "fanout", None), position))
        self.order = [dim for dim, _, fanout, _ in self.rows if fanout is None]

    def meets(self, rule: Outside | Outermost | Innermost | Factor | Intrinsic) -> bool:
        match rule:
            case Outside(outer, inner):
                return inner not in self.order or outer not in self.order[self.order.index(inner) :]
            case Outermost(dims):
                return _begins(list(dict.fromkeys(self.order)), dims)
            case Innermost(dims):
                return _begins(list(dict.fromkeys(reversed(self.order))), tuple(reversed(dims)))
            case Factor(fanout, dim, least, most):
                factor = 1
                for name, trips, over, _ in self.rows:
                    factor *= trips if (name, over) == (dim, fanout) else 1
                return least <= factor and (most is None or factor <= most)
            case Intrinsic(dim, size):
                stores = [(n, p) for p, n in enumerate(self.mapping.nodes) if isinstance(n, Storage)]
                return all(self._covered(dim, store, place) % size == 0 for store, place in stores[1:])

    def _covered(self, dim: str, store: Storage, place: int) -> int:
        """Return the indices of the dim inside a storage node: loops below it, and what is spread below its level."""
        names = [getattr(node, "name", None) for node in self.arch.nodes]
        inner = {node.name for node in self.arch.nodes[names.index(store.level) :] if isinstance(node, Fanout)}
        covered = 1
        for name, trips, over, position in self.rows:
            if name == dim and (position > place if over is None else over in inner):
                covered *= trips
        return covered


def _begins(order: list[str], dims: tuple[str, ...]) -> bool:
    wanted = [dim for dim in dims if dim in order]
    return order[: len(wanted)] == wanted


def clashing(workload: Workload, arch: Architecture, rules: Rules, out_of_time: Callable[[], bool]) -> tuple[str, ...]:
    """Return the smallest set of rules that no mapping with dividing tiles meets together, a sentence each.

    Every set is decided by searching again; where time ends first, all rules are returned.
    """
    for count in range(1, len(rules) + 1):
        for chosen in combinations(rules, count):
            if out_of_time():
                return (*map(rule_text, rules), "which of them clash was not found out in time")
            if _has_mapping(workload, arch, chosen, out_of_time) is False:
                return (*map(rule_text, chosen), *_ways_out(workload, arch, chosen, out_of_time))
    return tuple(map(rule_text, rules))


def _has_mapping(workload: Workload, arch: Architecture, rules: Rules, out_of_time: Callable[[], bool]) -> bool | None:
    """Return whether a mapping meets the rules; None where time ended first."""
    small = narrowed(workload, arch, rules)
    if clashes(workload, small):
        return False
    seen: list[Found] = []

    def stop() -> bool:
        return bool(seen) or out_of_time()

    def report(found: Found, _bound: int) -> None:
        if found:
            seen.append(found)

    any_value = Objective(Goal.TRAFFIC, arch.levels[0].name, "any")
    outcome = solve(analyse(workload, arch, rules), measure_under(any_value, workload, arch, rules), stop, report)
    if outcome.found:
        return True
    return None if outcome.left is None or outcome.left else False


def _ways_out(workload: Workload, arch: Architecture, chosen: Rules, out_of_time: Callable[[], bool]) -> list[str]:
    """Return, per limit of a clash, the least value that the other rules allow; for a utilization the highest."""
    told: list[str] = []
    for rule in chosen:
        rest = tuple(other for other in chosen if other != rule)
        if isinstance(rule, Utilization):
            told += _most_busy(workload, arch, rest, out_of_time)
        if not isinstance(rule, AtMost):
            continue
        measure = measure_under(rule.objective, workload, arch, rest)
        outcome = solve(analyse(workload, arch, rest), measure, out_of_time, lambda _found, _bound: None)
        if outcome.found and outcome.left == ():
            least: Fraction = measure.unscaled(outcome.found[0][0])
            told.append(f"the least {rule.objective.text} that the rest allows is {float(least):g}")
    return told


def _most_busy(workload: Workload, arch: Architecture, rest: Rules, out_of_time: Callable[[], bool]) -> list[str]:
    """Return the highest utilization that other rules allow, if some mapping is found to reach it."""
    problem = analyse(workload, arch, rest)
    structures, whole = enumerate_structures(problem, out_of_time)
    if not whole or not structures:
        return []
    steps = min(prod(problem.extents) // prod(prod(row) for row in one.classes) for one in structures)
    units, lanes = arch.compute.per_cycle, prod(fanout.size for fanout in arch.fanouts)
    most = Fraction(prod(problem.extents), -(-steps // units) * units * lanes)
    if not _has_mapping(workload, arch, (*rest, Utilization(most)), out_of_time):
        return []
    return [f"the highest utilization that the rest allows is {float(most):g}"]
