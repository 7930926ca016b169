"""What searches of related nests say about a nest that reads one tensor through several accesses, or
through a window over priced fan-outs that unite loads: mappings to begin with, and bounds.

- *One name per access*: `C[m,n] += A[m,k] * B[n,k]` for `A[m,k] * A[n,k]`. Its mappings with the nodes of both names
  made one are mappings of the nest, often good ones.
- *One element*: `C[m,n] += A[]`, read once. A storage node that holds what several accesses touch is filled at least
  once with at least one element, by a message of at least one, and holds at least one; each access reads at least one
  element per step and group of siblings that share a message. So no mapping of the nest costs less than the same tree
  costs with one element in the tensor's place, whatever the measure. (With *one access* in its place it may: what one
  access touches stays where another holds it, `A[i+r] * A[k]` with all of k.)
- *Output kept*: of a temporary output a tree moves what it moves of one that is not, less what is dead when it leaves:
  each element once from each copy of each node. How many copies there are depends on which levels hold the output, and
  on the fan-outs over which what is summed is spread, alone: under rules that fix these it is one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice, pairwise, product
from math import ceil, floor, inf, prod

from polymap.costmodel import bounding_machine, compulsory_traffic, evaluate
from polymap.costmodel.referees import StepBoxes, held_apart, tree_of_boxes
from polymap.ir import (
    Access,
    Architecture,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    Multicast,
    Number,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    written_tensors,
)
from polymap.schedules import divisors_up_to
from polymap.search.answer import Question
from polymap.search.driver import Kind, Search, of_rest
from polymap.search.evidence import Evidence
from polymap.search.options import TUNING, Hints
from polymap.search.problem import (
    PIECES,
    AtLeast,
    AtMost,
    Factor,
    Goal,
    Held,
    Objective,
    Rules,
    analyse,
    beyond_sums,
    bounding_question,
    exact_score,
    in_sums,
    objective_values,
    parse_objective,
)
from polymap.search.provers import few_timed_trees
from polymap.search.result import SearchResult

_UNROUNDED = Fraction(1, 10**9)  # of floating-point numbers that are added up
_ROUNDED = Fraction(1 << 48, (1 << 48) + 1)  # a bound that was rounded to a float is this much of it at least


@dataclass(frozen=True, slots=True)
class Starts:
    """Mappings to begin with, best first, by what is asked. ended: the parts of an order or a front (of one value 0)
    for which limits ended the count of boxes."""

    mappings: tuple[Mapping, ...]
    ended: tuple[int, ...] = ()


def starts_of_relatives(search: Search, evidence: Evidence) -> tuple[Starts, Evidence]:
    """Return initial mappings from related nests, and the evidence with the floors that follow from these.

    No mappings where the lattice search does not cover the related nests, or there are none: no tensor is read through
    several accesses, no output is temporary, and no fan-out that unites loads costs energy.
    """
    found: dict[Mapping, Fraction] = {}
    ended: list[int] = []
    for place, one in enumerate(search.objective.singles):
        if read_often(search.workload):
            found |= dict(_merged_best(search, one))
            evidence = evidence.with_floor(place, _floor(search, one))
        elif len(search.workload.statements) == 1:
            is_dead = any(search.workload.tensor(name).temporary for name in written_tensors(search.workload))
            is_beside = is_dead or is_beside_sums(search, one)
            starts, floor = list[tuple[Mapping, Fraction]](), Fraction(0)
            if is_beside and _is_latency_in_steps(search, one):
                starts, floor, is_ended = _by_boxes(search, evidence)
                ended += [place] * is_ended
            if is_beside and not any(value <= floor for _, value in starts):
                related = _with_output_kept if is_dead else _on_a_simpler_machine
                more, other = related(search, one)
                starts, floor = starts + more, max(floor, other)
            found |= dict(starts)
            evidence = evidence.with_floor(place, floor)
    return Starts(_best_first(found), tuple(ended)), evidence


def _best_first(found: dict[Mapping, Fraction]) -> tuple[Mapping, ...]:
    return tuple(sorted(found, key=lambda mapping: found[mapping]))


def go_on_with_boxes(search: Search, evidence: Evidence, starts: Starts) -> tuple[Starts, Evidence]:
    """Return the boxes' mappings and the best one that is known, and the evidence with the boxes' floors, where limits
    ended their count before."""
    found = dict[Mapping, Fraction]() if evidence.best is None else dict([evidence.best])
    ended: list[int] = []
    for place in starts.ended:
        more, floor, is_ended = _by_boxes(search, evidence)
        found |= dict(more)
        ended += [place] * is_ended
        evidence = evidence.with_floor(place, floor)
    return Starts(_best_first(found), tuple(ended)), evidence


def is_beside_sums(search: Search, objective: Objective) -> bool:
    """Return whether a question is beyond what the lattice search covers by wires or steps of the machine, or because
    it asks for bursts or requests."""
    is_dear = search.arch.has_wire_energies or search.arch.is_timed_by_step
    return is_dear or bool(beyond_sums(search.arch, search.rules, objective))


def _on_a_simpler_machine(search: Search, objective: Objective) -> tuple[list[tuple[Mapping, Fraction]], Fraction]:
    """Return mappings that are good on the machine that bounds what steps take, and where fan-outs that unite loads of
    a window cost no energy, with their values by what is asked, and what any mapping costs there at least: it costs no
    less where they do."""
    arch, sums = bounding_question(search.workload, search.arch, objective, divides=search.divides)
    if analyse(search.workload, arch, search.rules).reason is not None:
        free = {"pj_per_word": Fraction(0), "pj_per_word_hop": Fraction(0), "reduce_pj": Fraction(0)}
        arch = replace(arch, nodes=tuple(replace(n, **free) if isinstance(n, Fanout) else n for n in arch.nodes))
    relative = Relative(search.workload, arch, _in_sums(search))
    answer = answer_of(search, relative, sums, TUNING.free_wires_share)
    if answer is None:
        return [], Fraction(0)
    mappings = (one.best for one in (answer, answer.dividing) if one is not None and one.best is not None)
    found = [pair for mapping in dict.fromkeys(mappings) for pair in _score_mapping(search, mapping)]
    least = at_least(relative, answer, sums) or Fraction(0)
    if _is_latency_in_steps(search, objective):
        better, after = _after_waits(search, objective)
        found, least = found + better, max(least, after)
        if found and least < min(value for _, value in found):
            stop = of_rest(TUNING.less_held_share)(search.limits)
            found += _holding_less(search, relative, objective, _levels_to_cut(search.arch), stop)
    return found, Fraction(ceil(least)) if objective.goal in PIECES else least


def _is_latency_in_steps(search: Search, objective: Objective) -> bool:
    """Return whether a latency in steps is asked for, of more trees than are walked."""
    return objective.goal is Goal.LATENCY and search.arch.is_timed_by_step and few_timed_trees(search) is None


def _by_boxes(search: Search, evidence: Evidence) -> tuple[list[tuple[Mapping, Fraction]], Fraction, bool]:
    """Return mappings that are good by the boxes of their storage nodes, with their latencies, what any takes whose
    tiles divide (0 where others are asked for), and whether limits ended the count."""
    held = held_apart(search.workload, search.arch)
    if held is None or prod(len(divisors_up_to(n, n)) for n in search.workload.extents().values()) > TUNING.most_boxes:
        return [], Fraction(0), False
    over = of_rest(TUNING.boxes_share)(search.limits)
    boxes = StepBoxes(search.workload, search.arch, held, over)
    known = evidence.best if len(search.objective.singles) == 1 else None

    def stop() -> bool:
        search.limits.work.add()  # asked for each box, pair of boxes and tree
        return over()

    limits = {"most_pairs": TUNING.most_pairs_of_boxes, "per_pair": TUNING.boxes_per_pair}
    least, told = boxes.found(inf if known is None else float(known[1]), stop, **limits)
    found, best = list[tuple[Mapping, Fraction]](), inf
    for one in told[: TUNING.trees_of_boxes]:
        if one.cycles > best or stop():
            break
        found += _score_mapping(search, tree_of_boxes(boxes, one))
        best = min([float(value) for _, value in found], default=best)
    is_bound = search.divides and least < inf
    floor = Fraction(ceil(Fraction(least) * (1 - _UNROUNDED))) if is_bound else Fraction(0)
    return found, floor, over()


def _in_sums(search: Search) -> Rules:
    """Return the rules with limits that any mapping keeps which keeps those that are asked for."""
    return tuple(
        replace(rule, objective=in_sums(search.arch, rule.objective)) if isinstance(rule, AtMost) else rule
        for rule in search.rules
    )


def _after_waits(search: Search, objective: Objective) -> tuple[list[tuple[Mapping, Fraction]], Fraction]:
    """Return mappings that are good where first tiles are waited for and last ones are stored after all work, with
    their latencies, and what any mapping takes at least."""
    workload, arch = search.workload, search.arch
    machine = bounding_machine(workload, arch, by_steps=True, divides=search.divides)
    if not arch.start_cycles and not any(level.held_cycles_per_bit for level in machine.levels):
        return [], Fraction(0)
    relative = Relative(workload, machine, _in_sums(search))
    answer = answer_of(search, relative, objective, TUNING.waits_share)
    least = at_least(relative, answer, objective)
    found = _score_mapping(search, answer.best) if answer is not None and answer.best is not None else []
    return found, Fraction(0) if least is None else least + floor(arch.start_cycles)


def _levels_to_cut(arch: Architecture) -> list[MemoryLevel]:
    """Return the levels whose tiles the run waits for: limited ones of which there is one instance."""
    return [each for each in arch.levels[1:] if each.capacity_bits and not arch.fanouts_above(each.name)]


def _holding_less(
    search: Search, relative: Relative, objective: Objective, levels: Sequence[MemoryLevel], stop: Callable[[], bool]
) -> list[tuple[Mapping, Fraction]]:
    """Return mappings that hold half of what the best one does in a level, a quarter, ..., as long as this helps, and
    with each of these less in the further levels: less is waited for, and steps hide more."""
    found, best = list[tuple[Mapping, Fraction]](), None
    while levels and not stop():
        answer = answer_of(search, relative, objective, TUNING.one_less_share)
        if answer is None or answer.best is None:
            break
        held = dict(evaluate(search.workload, relative.arch, answer.best).occupancy_bits)
        scored = _score_mapping(search, answer.best)
        if len(levels) > 1 and held[levels[1].name] > 1:
            less = _with_room_for(relative, levels[1].name, held[levels[1].name] // 2)
            scored += _holding_less(search, less, objective, levels[1:], stop)
        least = min((value for _, value in scored), default=None)
        found += scored
        if least is None or (best is not None and least >= best) or held[levels[0].name] < 2:
            break
        best, relative = least, _with_room_for(relative, levels[0].name, held[levels[0].name] // 2)
    return found


def _with_room_for(relative: Relative, name: str, bits: int) -> Relative:
    """Return the nest on the machine of which a level has room for so many bits."""
    level = relative.arch.levels[relative.arch.level_index(name)]
    room = replace(level, capacity_bits=bits * level.buffering)
    nodes = tuple(room if node is level else node for node in relative.arch.nodes)
    return replace(relative, arch=replace(relative.arch, nodes=nodes))


def _with_output_kept(search: Search, objective: Objective) -> tuple[list[tuple[Mapping, Fraction]], Fraction]:
    """Return the best mappings of a nest whose output is temporary by the levels that hold it and how it is spread,
    with their values, and what no mapping beats."""
    workload, found, least = search.workload, list[tuple[Mapping, Fraction]](), list[Fraction]()
    (statement,) = workload.statements
    output, extents = workload.tensor(statement.target.tensor), workload.extents()
    prices = _prices_of(search.arch, objective, output.bits * prod(extents[dim] for dim in statement.target.dims))
    parts = _kinds_of_output(workload, search.arch, divides=search.divides)
    if prices is None or len(parts) > TUNING.most_kinds_of_output or any(isinstance(r, AtMost) for r in search.rules):
        return [], Fraction(0)
    kept = tuple(replace(one, temporary=False) if one == output else one for one in workload.tensors)
    relative = Relative(_with(workload, kept, statement.reads), search.arch, search.rules)
    for number, (rules, copies) in enumerate(parts):
        part = replace(relative, rules=(*search.rules, *rules))
        answer = answer_of(search, part, objective, 1 / (1 + len(parts) - number))
        lower = at_least(part, answer, objective)
        if lower is not None:
            held = [search.arch.levels[0].name, *(rule.level for rule in rules if isinstance(rule, Held) and rule.must)]
            least.append(max(Fraction(0), lower - _dead_copy_cost(search.arch, prices, held, copies)))
        answers = () if answer is None else (answer, answer.dividing)
        for mapping in dict.fromkeys(one.best for one in answers if one is not None and one.best is not None):
            cost = search.legal_cost(workload, mapping)
            found += [] if cost is None else [(mapping, search.incumbent(mapping, cost).values[0])]
    return found, min(least, default=Fraction(0))


Prices = dict[str, tuple[Fraction, Fraction]]  # level -> of reading the output once, of writing it once


def _prices_of(arch: Architecture, objective: Objective, bits: int) -> Prices | None:
    """Return what moving so many bits costs per level; None where the objective is no sum over accesses."""
    if objective.goal is Goal.TRAFFIC:
        moved = {level.name: Fraction(bits * (level.name == objective.level)) for level in arch.levels}
        return {name: (each, each) for name, each in moved.items()}
    if objective.goal is not Goal.ENERGY or not is_plain_energy(arch):
        return None
    return {level.name: (level.access_pj(bits, 0), level.access_pj(0, bits)) for level in arch.levels}


def _kinds_of_output(workload: Workload, arch: Architecture, *, divides: bool) -> list[tuple[Rules, dict[str, int]]]:
    """Return every choice of levels that hold the output and of how what it sums is spread: the rules that say so, and
    the most copies per fan-out."""
    target = workload.statements[0].target
    output = workload.tensor(target.tensor)
    levels = [level for level in arch.levels[1:] if level.may_hold(output)]
    held = product(*([True] if level.requires(output) else [False, True] for level in levels))
    stored = [tuple(Held(o.name, output.name, must=m) for o, m in zip(levels, each, strict=True)) for each in held]
    summed = [dim for dim in workload.dims if dim.name not in target.dims]
    places = [(one, dim) for one in arch.fanouts for dim in summed if one.dims is None or dim.name in one.dims]
    trips = [
        [n for n in range(1, min(fanout.size, dim.extent) + 1) if not (divides and dim.extent % n)]
        for fanout, dim in places
    ]
    if len(stored) * prod(map(len, trips)) > TUNING.most_kinds_of_output:
        choices = [[(1, 1), (2, each[-1])][: len(each)] for each in trips]
    else:
        choices = [[(n, n) for n in each] for each in trips]
    found: list[tuple[Rules, dict[str, int]]] = []
    for ranges in product(*choices):
        copies = {fanout.name: 1 for fanout in arch.fanouts}
        for (fanout, _), (_, most) in zip(places, ranges, strict=True):
            copies[fanout.name] = min(fanout.size, copies[fanout.name] * most)
        spread = tuple(Factor(f.name, d.name, *each) for (f, d), each in zip(places, ranges, strict=True))
        found += [((*nodes, *spread), copies) for nodes in stored]
    return found


def _dead_copy_cost(arch: Architecture, prices: Prices, held: list[str], copies: dict[str, int]) -> Fraction:
    """Return what the elements cost that leave a node for the last time, where the output is written back: each copy is
    read, what siblings do not add on the way is written further out, and read there but for the first.

    held: the levels that hold the output, the outermost first; copies: per fan-out, over what is summed.
    """
    total = Fraction(0)
    for parent, level in pairwise(held):
        outer, above = arch.fanouts_above(parent), arch.fanouts_above(level)
        at_parent, here = (prod(copies[each.name] for each in some) for some in (outer, above))
        arriving = at_parent * prod(copies[each.name] for each in above[len(outer) :] if not each.reduction)
        read, write = prices[parent]
        total += here * prices[level][0] + arriving * write + (arriving - at_parent) * read
    return total


def _merged_best(search: Search, objective: Objective) -> list[tuple[Mapping, Fraction]]:
    """Return mappings that meet the rules, with their values by what is asked: those of one name per access, made one,
    of each answer the best."""
    names = names_apart(search.workload)
    rules = search.rules
    relative = split_names(search.workload, search.arch, rules, names)
    answer = answer_of(search, relative, objective, TUNING.apart_share)
    if answer is not None and answer.best is None:  # what is held once is held twice there
        rules = tuple(rule for rule in relative.rules if not isinstance(rule, AtMost))
        answer = answer_of(search, replace(relative, rules=rules), objective, TUNING.apart_share)
    answers = () if answer is None else (answer, answer.dividing)
    found: list[tuple[Mapping, Fraction]] = []
    for one in answers:
        if one is not None and one.best is not None:
            scored = [
                pair
                for mapping in dict.fromkeys(merge_names(one.best, names))
                for pair in _score_mapping(search, mapping)
            ]
            found.extend(sorted(scored, key=lambda pair: pair[1])[:1])
    return found


def _score_mapping(search: Search, mapping: Mapping) -> list[tuple[Mapping, Fraction]]:
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is None or score.excess or not search.meets(mapping, score.cost):
        return []
    return [(mapping, score.value)]


def answer_of(search: Search, relative: Relative, objective: Objective, share: float) -> SearchResult | None:
    """Return the answer to the same question about a related nest; None where the lattice search does not cover it.
    share: of what is left of the limit."""
    if search.limits():
        return None
    asked = asked_of(search, relative, objective, divides=search.divides)
    return None if asked is None else search.ask(*asked, share)[0]


def asked_of(
    search: Search, relative: Relative, objective: Objective, *, divides: bool
) -> tuple[Question, Kind] | None:
    """Return the same question about a related nest, over dividing tiles alone or all, and its kind; None where the
    lattice search does not cover it."""
    workload, arch, rules = relative.workload, relative.arch, relative.rules
    if analyse(workload, arch, rules).reason is not None:
        return None
    tiles, seed = "divide" if divides else "any", search.asked.seed
    asked = Question(workload, arch, objective, rules, tiles, seed, Hints(counts_space=False))
    return asked, Kind.DIVIDING if divides else Kind.RELATED


def _floor(search: Search, objective: Objective) -> Fraction:
    """Return what the nest costs at least, as that with one element in place of each tensor read often says."""
    workload, arch, often = search.workload, search.arch, read_often(search.workload)
    powers = objective.goal.powers
    if powers is not None and powers.energy and powers.cycles:
        parts = (_floor(search, parse_objective(name, arch)) for name in ("energy", "latency"))
        return powers.product(*parts)
    adds_up = objective.goal is Goal.ENERGY and is_plain_energy(arch)
    relative = with_one_element(workload, arch, search.rules, all_reads=adds_up)
    least = _least_cost(search, relative, objective)
    if least is None:
        return Fraction(0)
    least = max(Fraction(0), least - filled_too_much(workload, arch)) if adds_up else least
    more = _moved_besides(workload, arch, objective, often) if len(often) == 1 else Fraction(0)
    if not more or not may_stay_out(arch, search.rules, often):
        return least + more
    relative = with_one_element(workload, arch, search.rules, all_reads=is_plain_energy(arch))
    outside = _least_cost(search, nowhere_held(relative, often), objective)
    return least + more if outside is None else min(least + more, max(least, outside))


def is_plain_energy(arch: Architecture) -> bool:
    """Return whether energy is a sum over accesses: without wires, leakage over time, and bursts."""
    return not arch.has_wire_energies and not any(level.leak_pj_per_cycle or level.burst_bits for level in arch.levels)


def _least_cost(search: Search, relative: Relative, objective: Objective) -> Fraction | None:
    """Return what the related nest costs at least; None where there is no mapping of it."""
    return at_least(relative, answer_of(search, relative, objective, TUNING.one_element_share), objective)


def at_least(relative: Relative, found: SearchResult | None, objective: Objective) -> Fraction | None:
    """Return what a nest costs at least by an answer (None: there is none); None where there is no mapping of it."""
    if found is None or found.bound is None:
        return Fraction(0) if found is None or found.status != "INFEASIBLE" else None
    if found.status == "OPTIMAL" and found.best is not None:
        cost = evaluate(relative.workload, relative.arch, found.best)
        return objective_values(relative.workload, relative.arch, objective, cost)[0]
    return Fraction(found.bound) * (1 if isinstance(found.bound, int) else _ROUNDED)


def filled_too_much(workload: Workload, arch: Architecture) -> Fraction:
    """Return an upper bound on the energy by which fills of an element with the bits of all reads exceed those of one
    element: one fill per instance of each level, each with a read of the level outside."""
    (statement,) = workload.statements
    return filled_once(
        arch, sum(one.bits * (len(accesses_of(statement, one.name)) - 1) for one in read_often(workload))
    )


def filled_once(arch: Architecture, bits: int) -> Fraction:
    """Return the energy, at most, of filling every instance of each level once with so many bits."""
    return bits * _filled_by_a_bit(arch)


@lru_cache(maxsize=16)
def _filled_by_a_bit(arch: Architecture) -> Fraction:
    total, instances, read = Fraction(0), 1, Fraction(0)
    for node in arch.nodes:
        if isinstance(node, Fanout):
            instances *= node.size
        elif isinstance(node, MemoryLevel):
            if node is not arch.levels[0]:
                total += instances * (node.access_pj(0, 1) + read)
            read = max(read, node.access_pj(1, 0))
    return total


def _moved_besides(workload: Workload, arch: Architecture, objective: Objective, often: tuple[Tensor, ...]) -> Fraction:
    """Return a lower bound on what the outermost level reads of a tensor that an inner level holds, beyond the reads of
    the one element in its place; 0 for objectives that do not sum reads."""
    (tensor,) = often
    reads = next((row.reads for row in compulsory_traffic(workload) if row.tensor == tensor.name), None)
    bits = tensor.bits * max(0, (reads or 0) - messages_of_one_element(arch))
    if objective.goal is Goal.ENERGY:
        return arch.levels[0].access_pj(bits, 0)
    return Fraction(bits if objective.goal is Goal.TRAFFIC and objective.level == arch.levels[0].name else 0)


Names = dict[str, tuple[str, ...]]  # tensor -> a name per access, its own first


@dataclass(frozen=True, slots=True)
class Relative:
    """A nest made of another one, with its machine and the rules that are about both."""

    workload: Workload
    arch: Architecture
    rules: Rules


def read_often(workload: Workload) -> tuple[Tensor, ...]:
    """Return the tensors that the only statement reads through several accesses; () where there are several statements,
    or such a tensor is written."""
    if len(workload.statements) != 1:
        return ()
    (statement,) = workload.statements
    found = tuple(one for one in workload.tensors if len(set(accesses_of(statement, one.name))) > 1)
    return () if any(one.name in written_tensors(workload) for one in found) else found


def names_apart(workload: Workload) -> Names:
    """Return the names that accesses get where each has one of its own."""
    (statement,) = workload.statements
    taken = {tensor.name for tensor in workload.tensors}
    found: Names = {}
    for tensor in read_often(workload):
        fresh = (name for number in count(2) if (name := f"{tensor.name}_{number}") not in taken)
        others = tuple(islice(fresh, len(accesses_of(statement, tensor.name)) - 1))
        taken |= set(others)
        found[tensor.name] = (tensor.name, *others)
    return found


def split_names(workload: Workload, arch: Architecture, rules: Rules, names: Names) -> Relative:
    """Return the nest with one name per access."""
    (statement,) = workload.statements
    left = {tensor: iter(each) for tensor, each in names.items()}
    reads = tuple(replace(one, tensor=next(left[one.tensor])) if one.tensor in left else one for one in statement.reads)
    tensors = tuple(replace(one, name=name) for one in workload.tensors for name in names.get(one.name, (one.name,)))
    nodes = tuple(_also_named(node, names) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    ruled = tuple(
        replace(rule, tensor=name) if isinstance(rule, Held | AtLeast) else rule
        for rule in rules
        for name in (names.get(rule.tensor, (rule.tensor,)) if isinstance(rule, Held | AtLeast) else ("",))
    )
    return Relative(_with(workload, tensors, reads), replace(arch, nodes=nodes), ruled)


def _with(workload: Workload, tensors: tuple[Tensor, ...], reads: tuple[Access, ...]) -> Workload:
    """Return the nest with other tensors and reads. It is counted, not run: what it computes is left out."""
    statement = replace(workload.statements[0], reads=reads, expression=Number("0"))
    return replace(workload, tensors=tensors, statements=(statement,), original=None, bare=None)


def _also_named(level: MemoryLevel, names: Names) -> MemoryLevel:
    holds = None if level.holds is None else _all_names(level.holds, names)
    return replace(level, holds=holds, must_hold=_all_names(level.must_hold, names))


def _all_names(words: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(name for word in words for name in names.get(word, (word,)))


def merge_names(mapping: Mapping, names: Names) -> Iterator[Mapping]:
    """Yield mappings of the nest itself: at each level that holds some of a tensor's names, the tensor stands where one
    of these stands, or nowhere."""
    tensor_of = {name: tensor for tensor, each in names.items() for name in each}
    places: dict[tuple[str, str], list[int]] = {}
    for at, node in enumerate(mapping.nodes):
        for name in node.tensors if isinstance(node, Storage) else ():
            if isinstance(node, Storage) and name in tensor_of:
                places.setdefault((node.level, tensor_of[name]), []).append(at)
    choices = [sorted(set(each)) for each in places.values()]
    ways = product(*([*each, None] for each in choices))
    for way in islice(ways, TUNING.most_merged):
        chosen = dict(zip(places, way, strict=True))
        yield Mapping(_without_outer_loops(tuple(_nodes_merged(mapping, tensor_of, chosen))))


def _nodes_merged(
    mapping: Mapping, tensor_of: dict[str, str], chosen: dict[tuple[str, str], int | None]
) -> Iterator[MappingNode]:
    for at, node in enumerate(mapping.nodes):
        if not isinstance(node, Storage):
            yield node
            continue
        held = dict.fromkeys(tensor_of.get(name, name) for name in node.tensors)
        kept = tuple(one for one in held if chosen.get((node.level, one), at) == at)
        if kept:
            yield Storage(node.level, kept)


def _without_outer_loops(nodes: tuple[MappingNode, ...]) -> tuple[MappingNode, ...]:
    """Return the nodes with one loop per dim between two storage nodes, the inner one."""
    kept: list[MappingNode] = []
    inside: set[str] = set()
    for node in reversed(nodes):
        if isinstance(node, Storage):
            inside = set()
        if isinstance(node, Temporal):
            if node.dim in inside:
                continue
            inside.add(node.dim)
        kept.append(node)
    return tuple(reversed(kept))


def with_one_element(workload: Workload, arch: Architecture, rules: Rules, *, all_reads: bool) -> Relative:
    """Return the nest that reads one element once in place of each tensor that it reads often.

    all_reads: the element has the bits of all these reads together (relatives.py: `filled_too_much`). A level has room
    for that besides. Rules on values and on the sizes of these tensors' tiles are left out.
    """
    (statement,) = workload.statements
    often = {one.name: len(accesses_of(statement, one.name)) for one in read_often(workload)}
    tensors = tuple(
        replace(one, shape=(), origin=(), bits=one.bits * (often[one.name] if all_reads else 1))
        if one.name in often
        else one
        for one in workload.tensors
    )
    others = tuple(one for one in statement.reads if one.tensor not in often)
    room = sum(one.bits for one in tensors if one.name in often)
    nodes = tuple(_with_room(node, room) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    kept = tuple(
        rule
        for rule in rules
        if not isinstance(rule, AtMost) and not (isinstance(rule, AtLeast) and rule.tensor in often)
    )
    reads = (*others, *(Access(name, ()) for name in often))
    return Relative(_with(workload, tensors, reads), replace(arch, nodes=nodes), kept)


def _with_room(level: MemoryLevel, bits: int) -> MemoryLevel:
    if level.capacity_bits is None:
        return level
    return replace(level, capacity_bits=level.capacity_bits + bits * level.buffering)


def nowhere_held(relative: Relative, tensors: tuple[Tensor, ...]) -> Relative:
    """Return the nest in which no level but the outermost holds these tensors."""
    levels = relative.arch.levels[1:]
    barred = tuple(Held(level.name, tensor.name, must=False) for level in levels for tensor in tensors)
    return replace(relative, rules=(*relative.rules, *barred))


def may_stay_out(arch: Architecture, rules: Rules, tensors: tuple[Tensor, ...]) -> bool:
    """Return whether a mapping may hold one of these tensors nowhere but in the outermost level."""
    demanded = {rule.tensor for rule in rules if isinstance(rule, Held) and rule.must}
    return any(
        one.name not in demanded and not any(level.requires(one) for level in arch.levels[1:]) for one in tensors
    )


def messages_of_one_element(arch: Architecture) -> int:
    """Return how many messages bring one element to all instances of a level, at most: siblings begin together."""
    return prod(fanout.size for fanout in arch.fanouts if fanout.multicast is Multicast.NONE)
