"""The user's demands on mappings beyond the machine's: a tuple of rules, each of which a mapping meets or violates.

Order rules constrain the sequence of temporal loops, not the storage nodes between them. So a storage node may move
outwards over loops without violating one, on which the search relies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, prod

from polymap.ir import Architecture, Fanout, MemoryLevel, Node, Workload
from polymap.search.problem.goals import dependence
from polymap.search.problem.objectives import Objective

_DIGITS = 12  # of a figure that is not exact


@dataclass(frozen=True, slots=True)
class Outside:
    """Every temporal loop over `outer` is outside every temporal loop over `inner`."""

    outer: str
    inner: str


@dataclass(frozen=True, slots=True)
class Outermost:
    """The dims with temporal loops, by their outermost loops, begin with these; dims of the list without a loop are
    skipped."""

    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Innermost:
    """The dims with temporal loops, by their innermost loops, end with these; dims of the list without a loop are
    skipped."""

    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """The number of instances of a fan-out over which a dim is spread is from `least` to `most` (None: any)."""

    fanout: str
    dim: str
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Held:
    """A level holds a tensor (must), or does not hold it (not must)."""

    level: str
    tensor: str
    must: bool


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Every full tile of the tensor in a storage node of the level spans at least so many elements.

    Smaller last tiles of a loop are exempt. The tensor's axes are single dims.
    """

    level: str
    tensor: str
    elements: int


@dataclass(frozen=True, slots=True)
class Span:
    """The loops above a tensor's storage node in the level leave an instance of `at`, the level or one outside it, from
    `least` to `most` indices of the dim, whether the tensor has it or not; smaller last tiles of a loop are exempt.

    Loops over dims that the tensor lacks load its tile anew, as where the node stands inside a branch. So the rule is
    for the nests of programs."""

    level: str
    tensor: str
    at: str
    dim: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """Every storage node covers a multiple of `size` indices of the dim, so that one instruction can execute the
    inside."""

    dim: str
    size: int


@dataclass(frozen=True, slots=True)
class Utilization:
    """The compute units execute at least this share of the instances that they could in the compute cycles."""

    least: Fraction


@dataclass(frozen=True, slots=True)
class AtMost:
    """The value of an objective with one value is at most `most`, in its unit."""

    objective: Objective
    most: Fraction


OrderRule = Outside | Outermost | Innermost
StructureRule = OrderRule | Factor | Intrinsic | Utilization
Rule = Outside | Outermost | Innermost | Factor | Held | AtLeast | Span | Intrinsic | Utilization | AtMost
Rules = tuple[Rule, ...]


def is_about_loops(rule: Rule) -> bool:
    """Return whether a rule names loops by their dims."""
    return isinstance(rule, Outside | Outermost | Innermost | Factor | Intrinsic | Span)


def is_about_the_whole(rule: Rule) -> bool:
    """Return whether a rule is about a whole program, and not about the way to each of its statements."""
    return isinstance(rule, Utilization | AtMost)


def rules_of_nest(rules: Rules, nest: Workload) -> Rules:
    """Return what rules of a program ask of the mapping of one of its statements alone."""
    dims, tensors = set(nest.extents()), {each.name for each in nest.tensors}
    found: list[Rule] = []
    for rule in rules:
        match rule:
            case Outermost(names) | Innermost(names):
                own = tuple(name for name in names if name in dims)
                found += [type(rule)(own)] if own else []
            case Outside(outer, inner):
                found += [rule] if {outer, inner} <= dims else []
            case Factor(_, name) | Intrinsic(name):
                found += [rule] if name in dims else []
            case Held(_, name) | AtLeast(_, name):
                found += [rule] if name in tensors else []
            case _:
                pass
    return tuple(found)


def beyond_sums(arch: Architecture, rules: Rules, *objectives: Objective) -> str:
    """Return why objectives or limits are no sums of traffic, so that each tree is counted by itself; "" where they
    are."""
    asked = (*objectives, *(rule.objective for rule in rules if isinstance(rule, AtMost)))
    if any(one.is_of_pieces for one in asked):
        return "bursts and requests are counted tree by tree"
    leaks = any(level.leak_pj_per_cycle for level in arch.levels)
    is_timed = arch.is_timed_by_step and any(dependence(one, leaks=leaks)[1] for one in asked)
    return "the latency of the machine is counted in steps" if is_timed else ""


def rule_text(rule: Rule) -> str:
    """Return the rule as a sentence."""
    match rule:
        case Outside(outer, inner):
            return f"every loop over {outer} stands outside every loop over {inner} (order)"
        case Outermost(dims):
            return f"the outermost loops are over {', '.join(dims)} (outermost)"
        case Innermost(dims):
            return f"the innermost loops are over {', '.join(dims)} (innermost)"
        case Factor(fanout, dim, _, 1):
            return f"{dim} is not spread over {fanout} (fanouts)"
        case Factor(fanout, dim, least, None):
            return f"{dim} is spread over at least {least} instances of {fanout} (fanouts)"
        case Factor(fanout, dim, least, most):
            count = f"{least}" if least == most else f"{least} to {most}"
            return f"{dim} is spread over {count} instances of {fanout} (fanouts)"
        case Held(level, tensor, must):
            return f"{level} {'holds' if must else 'does not hold'} {tensor} (store)"
        case AtLeast(level, tensor, elements):
            return f"tiles of {tensor} in {level} have at least {elements} elements (store)"
        case Span(level, tensor, at, dim, least, most):
            return (
                f"{tensor} stands in {level} where {least} to {most} indices of {dim} are left to an instance of {at}"
            )
        case Intrinsic(dim, size):
            return f"every tile is a multiple of {size} along {dim} (intrinsic)"
        case Utilization(least):
            return f"utilization is at least {figure(least, up=False)} (min_utilization)"
        case AtMost(objective, most):
            return f"{objective.text} is at most {figure(most, up=True)} (limits)"


def figure(value: Fraction, *, up: bool) -> str:
    """Return a value as a decimal that the input accepts: exact where it is short, else rounded up or down.

    Limits are rounded up and shares rounded down, so that the mapping they come from still meets them.
    """
    places = next((n for n in range(_DIGITS) if (value * 10**n).denominator == 1), None)
    if places is None:
        places = max(0, _DIGITS - len(str(int(value))))
    scaled = value * 10**places
    digits = str(ceil(scaled) if up else floor(scaled)).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".") if places else digits


def narrow_machine(workload: Workload, arch: Architecture, rules: Rules) -> Architecture:
    """Return the machine with the rules about its fan-outs and levels written into it."""
    held = [rule for rule in rules if isinstance(rule, Held)]
    barred = {(rule.fanout, rule.dim) for rule in rules if isinstance(rule, Factor) and rule.most == 1}
    nodes: list[Node] = []
    for node in arch.nodes:
        if isinstance(node, Fanout):
            dims = tuple(dim.name for dim in workload.dims if node.may_spread(dim.name))
            free = tuple(dim for dim in dims if (node.name, dim) not in barred)
            nodes.append(node if free == dims else replace(node, dims=free))
        elif isinstance(node, MemoryLevel):
            nodes.append(_level(workload, node, [rule for rule in held if rule.level == node.name]))
        else:
            nodes.append(node)
    return replace(arch, nodes=tuple(nodes))


def _level(workload: Workload, level: MemoryLevel, held: list[Held]) -> MemoryLevel:
    if not held:
        return level
    kept_out = {rule.tensor for rule in held if not rule.must}
    must = tuple(dict.fromkeys((*level.must_hold, *(rule.tensor for rule in held if rule.must))))
    if not kept_out:
        return replace(level, must_hold=must)
    may = tuple(t.name for t in workload.tensors if level.may_hold(t) and t.name not in kept_out)
    return replace(level, holds=may, must_hold=must)


def dims_named(rules: Rules) -> frozenset[str]:
    """Return the dims that some rule names."""
    named: set[str] = set()
    for rule in rules:
        match rule:
            case Outside(outer, inner):
                named |= {outer, inner}
            case Outermost(dims) | Innermost(dims):
                named |= set(dims)
            case Factor(_, dim, _, _) | Intrinsic(dim, _) | Span(_, _, _, dim, _, _):
                named.add(dim)
            case Held() | AtLeast() | Utilization() | AtMost():
                pass
    return frozenset(named)


def least_parallel(instances: int, arch: Architecture, rules: Rules) -> int:
    """Return the least number of fan-out instances that reaches the utilization which the rules demand.

    It exceeds the number of statement instances where none is enough.
    """
    least = 1
    lanes, units = prod(fanout.size for fanout in arch.fanouts), arch.compute.per_cycle
    for rule in rules:
        if isinstance(rule, Utilization) and rule.least > 0:
            cycles = int(instances / (rule.least * lanes * units))
            least = max(least, instances + 1 if cycles == 0 else -(-instances // (cycles * units)))
    return least
