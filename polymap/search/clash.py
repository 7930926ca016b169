"""Which demands of the user, and which facts of the machine, exclude each other; and figures that would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

from polymap.arch.machine import Architecture, Fanout, MemoryLevel, Node
from polymap.costmodel.evaluate import evaluate
from polymap.search.constraints import AtMost, Rule, Rules, Utilization, figure, rule_text
from polymap.search.demands import measure_under
from polymap.search.engine import Found, solve
from polymap.search.goals import Goal, Objective
from polymap.search.infeasible import clashes
from polymap.search.lattice import divisors
from polymap.search.objective import objective_value
from polymap.search.problem import analyse
from polymap.search.structure import enumerate_structures
from polymap.workload.loopnest import Workload

Stop = Callable[[], bool]
MOST_SPREADS = 20_000  # ways to spread all dims over fan-outs of any size, up to which they are tried


@dataclass(frozen=True, slots=True)
class Capacity:
    """A level has room for so many bits."""

    level: str


@dataclass(frozen=True, slots=True)
class MustHold:
    """The machine says that a level holds a tensor."""

    level: str
    tensor: str


@dataclass(frozen=True, slots=True)
class MayNotHold:
    """The machine says that a level does not hold a tensor."""

    level: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Size:
    """A fan-out has so many instances."""

    fanout: str


@dataclass(frozen=True, slots=True)
class Spreads:
    """A fan-out spreads some dims only."""

    fanout: str


Fact = Capacity | MustHold | MayNotHold | Size | Spreads


def clashing(workload: Workload, arch: Architecture, rules: Rules, out_of_time: Stop) -> tuple[str, ...]:
    """Return the smallest set of rules that no mapping with dividing tiles meets together, the facts of the machine
    that take part (each could be left out, and there were a mapping), and figures that would help; a sentence each.

    Every set is decided by searching again; where time ends first, that is said.
    """
    late = "which of them clash was not found out in time"
    for count in range(1, len(rules) + 1):
        for chosen in combinations(rules, count):
            if out_of_time():
                return (*map(rule_text, rules), late)
            if _has_mapping(workload, arch, chosen, out_of_time) is False:
                words = clashes(workload, arch, chosen)
                if words:
                    return words
                facts = _facts_that_matter(workload, arch, chosen, out_of_time)
                told = (_told(arch, rule) for rule in chosen)
                return (*told, *facts, *_ways_out(workload, arch, rules, chosen, out_of_time))
    return (*map(rule_text, rules), late)


def _told(arch: Architecture, rule: Rule) -> str:
    """Return the rule as a sentence; a share of the compute units with what they are."""
    if not isinstance(rule, Utilization) or not arch.fanouts:
        return rule_text(rule)
    lanes = " x ".join(f"{fanout.name} {fanout.size}" for fanout in arch.fanouts)
    return f"{rule_text(rule)}, of {lanes}"


def _has_mapping(workload: Workload, arch: Architecture, rules: Rules, out_of_time: Stop) -> bool | None:
    """Return whether a mapping meets the rules; None where time ended first."""
    if clashes(workload, arch, rules):
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


def _facts_that_matter(workload: Workload, arch: Architecture, chosen: Rules, out_of_time: Stop) -> Iterator[str]:
    """Yield the facts of the machine of which none can be left out of the clash with the chosen rules.

    A share of the busy compute units is a share of the fan-outs' sizes, which are then part of that rule.
    """
    tested = list(_facts(workload, arch))
    fixed: list[Fact] = [Size(fanout.name) for fanout in arch.fanouts]
    if not any(isinstance(rule, Utilization) for rule in chosen):
        tested, fixed = [*tested, *fixed], []
    kept = list(tested)
    unsure: set[Fact] = set()
    for fact in tested:
        others = [one for one in kept if one != fact]
        weaker = _only(workload, arch, [*others, *fixed])
        answer = None if _is_wide(workload, weaker) else _has_mapping(workload, weaker, chosen, out_of_time)
        if answer is False:
            kept = others
        elif answer is None:
            unsure.add(fact)
    for fact in kept:
        yield _fact_text(arch, fact) + ("; whether it takes part was not found out" if fact in unsure else "")


def _facts(workload: Workload, arch: Architecture) -> Iterator[Fact]:
    """Yield what the machine limits, the sizes of fan-outs left out."""
    for level in arch.levels[1:]:
        if level.capacity_bits is not None:
            yield Capacity(level.name)
        for tensor in workload.tensors:
            names = {tensor.name, f"@{tensor.role.value}"}
            if names & set(level.must_hold):
                yield MustHold(level.name, tensor.name)
            if level.holds is not None and not names & set(level.holds):
                yield MayNotHold(level.name, tensor.name)
    for fanout in arch.fanouts:
        if fanout.dims is not None:
            yield Spreads(fanout.name)


def _only(workload: Workload, arch: Architecture, facts: list[Fact]) -> Architecture:
    """Return the machine with no limits but these."""
    return replace(arch, nodes=tuple(_only_at(workload, node, facts) for node in arch.nodes))


def _only_at(workload: Workload, node: Node, facts: list[Fact]) -> Node:
    if isinstance(node, Fanout):
        size = node.size if Size(node.name) in facts else max(node.size, prod(d.extent for d in workload.dims))
        return replace(node, size=size, dims=node.dims if Spreads(node.name) in facts else None)
    if isinstance(node, MemoryLevel):
        names = [tensor.name for tensor in workload.tensors]
        return replace(
            node,
            capacity_bits=node.capacity_bits if Capacity(node.name) in facts else None,
            must_hold=tuple(name for name in names if MustHold(node.name, name) in facts),
            holds=tuple(name for name in names if MayNotHold(node.name, name) not in facts),
        )
    return node


def _is_wide(workload: Workload, arch: Architecture) -> bool:
    """Return whether fan-outs of any size leave more ways to spread the dims than are tried."""
    free = sum(fanout.size >= prod(dim.extent for dim in workload.dims) for fanout in arch.fanouts)
    return prod(len(divisors(dim.extent)) for dim in workload.dims) ** free > MOST_SPREADS


def _fact_text(arch: Architecture, fact: Fact) -> str:
    levels = {level.name: level for level in arch.levels}
    fanouts = {fanout.name: fanout for fanout in arch.fanouts}
    match fact:
        case Capacity(level):
            times = " for two tiles (buffering 2)" if levels[level].buffering == 2 else ""
            return f"{level} has capacity_bits {levels[level].capacity_bits}{times}"
        case MustHold(level, tensor):
            return f"{level} must hold {tensor} (must_hold)"
        case MayNotHold(level, tensor):
            return f"{level} may not hold {tensor} (holds: {', '.join(levels[level].holds or ()) or 'nothing'})"
        case Size(fanout):
            return f"{fanout} has {fanouts[fanout].size} instances (size)"
        case Spreads(fanout):
            return f"{fanout} may spread {', '.join(fanouts[fanout].dims or ()) or 'nothing'} only (dims)"


def _ways_out(workload: Workload, arch: Architecture, rules: Rules, chosen: Rules, out_of_time: Stop) -> Iterator[str]:
    """Yield, per limit of a clash, the least value that all other rules allow; for a utilization the highest.

    Where the other rules clash among themselves, nothing is proposed.
    """
    for rule in chosen:
        rest = tuple(other for other in rules if other != rule)
        if isinstance(rule, Utilization):
            most = _most_busy(workload, arch, rest, out_of_time)
            if most is not None:
                yield f"the highest utilization that the rest allows is {figure(most, up=False)}"
        elif isinstance(rule, AtMost):
            least = _least(workload, arch, rule.objective, rest, out_of_time)
            if least is not None:
                yield f"the least {rule.objective.text} that the rest allows is {figure(least, up=True)}"


def _least(
    workload: Workload, arch: Architecture, objective: Objective, rest: Rules, out_of_time: Stop
) -> Fraction | None:
    if clashes(workload, arch, rest):
        return None
    measure = measure_under(objective, workload, arch, rest)
    outcome = solve(analyse(workload, arch, rest), measure, out_of_time, lambda _found, _bound: None)
    if not outcome.found or outcome.left != ():
        return None
    return objective_value(workload, arch, objective, evaluate(workload, arch, outcome.found[0][1].mapping))


def _most_busy(workload: Workload, arch: Architecture, rest: Rules, out_of_time: Stop) -> Fraction | None:
    """Return the highest utilization that other rules allow, if some mapping is found to reach it."""
    problem = analyse(workload, arch, rest)
    structures, whole = enumerate_structures(problem, out_of_time)
    if not whole or not structures:
        return None
    steps = min(prod(problem.extents) // prod(prod(row) for row in one.classes) for one in structures)
    units, lanes = arch.compute.per_cycle, prod(fanout.size for fanout in arch.fanouts)
    most = Fraction(prod(problem.extents), -(-steps // units) * units * lanes)
    return most if _has_mapping(workload, arch, (*rest, Utilization(most)), out_of_time) else None
