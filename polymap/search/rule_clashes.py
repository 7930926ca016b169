"""Which demands of the user, and which facts of the machine, exclude each other; and figures that would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from polymap.ir import Architecture, Fanout, MemoryLevel, Node, Workload
from polymap.resources import Stop
from polymap.search.feasible import Feasibility
from polymap.search.problem import AtMost, Rule, Rules, Utilization, clashes, figure, floor_of, rule_text

LATE = "which of them clash was not found out in time"
FEWER = "whether fewer of them clash was not found out"


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


def clashing_rules(
    workload: Workload, arch: Architecture, rules: Rules, feasible: Feasibility, out_of_time: Stop
) -> tuple[str, ...]:
    """Return a minimal set of rules that no mapping meets together (none can be left out), the facts of the machine
    that take part (each could be left out, and there were a mapping), and figures that would help; a sentence each.

    Where the discrete structure alone excludes the rules, CP-SAT names some of them, and a search checks that none of
    these can be left out; else sets of rules are tried, the smallest first.
    feasible: tells of every set whether there is a mapping.
    """
    chosen, unsure = _minimal(arch, feasible.structural_clash(arch, rules), feasible)
    if not chosen:
        found = _smallest(arch, rules, feasible, out_of_time)
        if found is None:
            return (*map(rule_text, rules), LATE)
        chosen, unsure = found
    words = clashes(workload, arch, chosen)
    if words:
        return words
    facts = _facts_that_matter(workload, arch, chosen, feasible, out_of_time)
    told = (_rule_sentence(arch, rule) for rule in chosen)
    fewer = (FEWER,) if unsure and len(chosen) > 1 else ()
    return (*told, *facts, *fewer, *_ways_out(workload, arch, rules, chosen, feasible, out_of_time))


def _minimal(arch: Architecture, clash: Rules, feasible: Feasibility) -> tuple[Rules, bool]:
    """Return those rules of a clash that no other of its rules makes superfluous; and whether that of some was not
    found out, so that fewer may clash."""
    kept, unsure = clash, False
    for rule in clash if len(clash) > 1 else ():
        rest = tuple(other for other in kept if other != rule)
        answer = feasible.exists(arch, rest) if rest else True
        kept = rest if answer is False else kept
        unsure = unsure or answer is None
    return kept, unsure


def _smallest(arch: Architecture, rules: Rules, feasible: Feasibility, out_of_time: Stop) -> tuple[Rules, bool] | None:
    """Return the smallest set of rules that is known to exclude each other, and whether smaller ones may do so, which
    was not found out; None where no set is known in time."""
    unknown = False
    for count in range(1, len(rules) + 1):
        # What is refuted at once comes first: where one such rule is enough, nothing is searched.
        for chosen in sorted(combinations(rules, count), key=lambda some: not feasible.refutes(arch, some)):
            if out_of_time() and not feasible.refutes(arch, chosen):
                return None
            answer = feasible.exists(arch, chosen)
            if answer is False:
                return chosen, unknown
            unknown = unknown or answer is None
    return None


def _rule_sentence(arch: Architecture, rule: Rule) -> str:
    """Return the rule as a sentence; a share of the compute units with what they are."""
    if not isinstance(rule, Utilization) or not arch.fanouts:
        return rule_text(rule)
    lanes = " x ".join(f"{fanout.name} {fanout.size}" for fanout in arch.fanouts)
    return f"{rule_text(rule)}, of {lanes}"


def _facts_that_matter(
    workload: Workload, arch: Architecture, chosen: Rules, feasible: Feasibility, out_of_time: Stop
) -> Iterator[str]:
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
        answer = None if out_of_time() else feasible.exists(_limit_machine(workload, arch, [*others, *fixed]), chosen)
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
            if level.requires(tensor):
                yield MustHold(level.name, tensor.name)
            if not level.may_hold(tensor):
                yield MayNotHold(level.name, tensor.name)
    for fanout in arch.fanouts:
        if fanout.dims is not None:
            yield Spreads(fanout.name)


def _limit_machine(workload: Workload, arch: Architecture, facts: list[Fact]) -> Architecture:
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


def _ways_out(
    workload: Workload, arch: Architecture, rules: Rules, chosen: Rules, feasible: Feasibility, out_of_time: Stop
) -> Iterator[str]:
    """Yield, per limit of a clash, the least value that all other rules allow, or else what no mapping at all is
    below; for a utilization the highest.

    Where the other rules clash among themselves, no value is proposed.
    """
    for rule in chosen:
        rest = tuple(other for other in rules if other != rule)
        if isinstance(rule, Utilization):
            most = None if out_of_time() else feasible.most_busy(arch, rest)
            if most is not None:
                yield f"the highest utilization that the rest allows is {figure(most, up=False)}"
        elif isinstance(rule, AtMost):
            name = rule.objective.text
            least = None if out_of_time() else feasible.least(arch, rule.objective, rest)
            floor = floor_of(workload, arch, rule.objective)
            if least is not None:
                yield f"the least {name} that the rest allows is {figure(least, up=True)}"
            elif floor > rule.most:
                yield f"no mapping at all has less {name} than {figure(floor, up=False)}"
