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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count, islice, pairwise, product
from math import ceil, floor, prod

from polymap.costmodel import bounding_machine, compulsory_traffic, evaluate, waits_per_bit
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
from polymap.search.answer import Question
from polymap.search.driver import Engines, Kind, Search, of_rest
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

_ROUNDED = Fraction(1 << 48, (1 << 48) + 1)  # a bound that was rounded to a float is this much of it at least


@dataclass(frozen=True, slots=True)
class Starts:
    """Mappings to begin with, best first, by what is asked."""

    mappings: tuple[Mapping, ...]


def starts_of_relatives(search: Search, evidence: Evidence) -> tuple[Starts, Evidence]:
    """Return mappings to begin with, and the evidence with the floors that no mapping beats.

    No mappings where the lattice search does not cover the related nests, or there are none: no tensor is read through
    several accesses, no output is temporary, and no fan-out that unites loads costs energy.
    """
    found: dict[Mapping, Fraction] = {}
    for place, one in enumerate(search.objective.singles):
        if read_often(search.workload):
            found |= dict(_merged_best(search, one))
            evidence = evidence.with_floor(place, _floor(search, one))
        elif len(search.workload.statements) == 1:
            is_dead = any(search.workload.tensor(name).temporary for name in written_tensors(search.workload))
            is_beside = is_dead or is_beside_sums(search, one)
            related = _with_output_kept if is_dead else _on_a_simpler_machine
            starts, floor = related(search, one) if is_beside else ([], Fraction(0))
            found |= dict(starts)
            evidence = evidence.with_floor(place, floor)
    return Starts(tuple(sorted(found, key=lambda mapping: found[mapping]))), evidence


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
    found = [pair for mapping in dict.fromkeys(mappings) for pair in _scored(search, mapping)]
    least = at_least(relative, answer, sums) or Fraction(0)
    if objective.goal is Goal.LATENCY and search.arch.is_timed_by_step and few_timed_trees(search) is None:
        cells = _Cells(search, objective, min((value for _, value in found), default=None))
        least = max(least, cells.bound(least, of_rest(TUNING.cells_share)(search.limits)))
        found += cells.found
    return found, Fraction(ceil(least)) if objective.goal in PIECES else least


def _in_sums(search: Search) -> Rules:
    """Return the rules with limits that any mapping keeps which keeps those that are asked for."""
    return tuple(
        replace(rule, objective=in_sums(search.arch, rule.objective)) if isinstance(rule, AtMost) else rule
        for rule in search.rules
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """Mappings by the bits that some levels hold: no less than `low`, no more than `high`. least: what each of them
    takes at least. Of its last search: share, of what buses take; inside: what it says; held: the bits that its best
    mapping holds ({}: none yet); by_bus: whether buses, and not work, decide what some mappings take."""

    low: dict[str, int]
    high: dict[str, int]
    least: Fraction = Fraction(0)
    share: Fraction = Fraction(1)
    inside: int = 0
    held: dict[str, int] = field(default_factory=dict[str, int])
    by_bus: bool = False


class _Cells:
    """A bound on latency by what levels hold. Large tiles are waited for, first loads and last stores; small ones move
    more, and change what is beside the compute units more often.

    Let work take c cycles and buses b, and let w be what is waited for beside work, of which the bits that levels hold
    tell. A mapping takes start + max(c + w, b) at least. A search of a cell, on the machine that bounds steps with
    buffers of `high` and with buses whose b counts as s x b, says that max(c, s x b) is L at least: so each mapping
    takes start + min(L + w, L / s) at least.
    """

    def __init__(self, search: Search, objective: Objective, best: Fraction | None) -> None:
        self._search, self._objective, self._best = search, objective, best
        workload, arch = search.workload, search.arch
        machine = bounding_machine(workload, arch, by_steps=True, divides=search.divides)
        self._relative = Relative(workload, machine, _in_sums(search))
        self._waits = {} if best is None else waits_per_bit(workload, arch, divides=search.divides)
        self.found: list[tuple[Mapping, Fraction]] = []

    def bound(self, about: Fraction, stop: Callable[[], bool]) -> Fraction:
        """Return what any mapping takes at least, as far as it is known when `stop` says so. about: nearly what it
        takes inside of all waits."""
        if not self._search.arch.start_cycles and not self._waits:
            return Fraction(0)
        most = {name: self._most(name) for name in self._waits}
        cells = [self._searched(_Cell(dict.fromkeys(most, 0), most, inside=ceil(about)))]
        self._descend(cells[0], stop)
        while self._best is not None and self._waits:
            first = min(cells, key=lambda cell: cell.least)
            if first.least >= self._best or stop():
                break
            if self._may_rise(first):
                parts = [self._searched(first)]
            else:
                parts = self._halves(first, self._widest(first))
                if not parts or (first.by_bus and parts[1].least <= first.least):
                    break  # waits tell nothing more of it
            cells.remove(first)
            cells += parts
        least = min(cell.least for cell in cells)
        return least if self._best is None else min(least, self._best)

    def _descend(self, cell: _Cell, stop: Callable[[], bool]) -> None:
        """Look for better mappings where the level next to compute holds less and less, and then those outside of it,
        as long as these are found and nothing costs more inside."""
        for name in reversed(self._waits):
            while not stop() and (halves := self._halves(cell, name)):
                before, smaller = self._best, self._searched(halves[0])
                if smaller.inside > cell.inside or self._best == before:
                    break
                cell = smaller

    def _most(self, name: str) -> int:
        """Return the bits that a level holds at most."""
        level = self._search.arch.levels[self._search.arch.level_index(name)]
        tensors = [tensor for tensor in self._search.workload.tensors if level.may_hold(tensor)]
        every = sum(tensor.bits * prod(tensor.shape) for tensor in tensors)
        return every if level.capacity_bits is None else min(every, level.capacity_bits // level.buffering)

    def _waited(self, held: dict[str, int]) -> Fraction:
        """Return the cycles, at least, that are waited for what levels hold."""
        return sum((rate * held[name] for name, rate in self._waits.items()), Fraction(0))

    def _share(self, cell: _Cell) -> Fraction:
        """Return the share of what buses take that a search of a cell tells most by: where work decides the largest by
        which no mapping that buses decide is better than the best one, else that which counts waits in full."""
        after = (self._best or Fraction(0)) - self._search.arch.start_cycles
        if not cell.inside or after <= 0:
            return Fraction(1)
        share = max(Fraction(0), after - self._waited(cell.low) if cell.by_bus else Fraction(cell.inside)) / after
        return min(Fraction(1), Fraction(max(1, floor(TUNING.bus_shares * share)), TUNING.bus_shares))

    def _may_rise(self, cell: _Cell) -> bool:
        """Return whether a search of a cell may say more than the last one did."""
        if not cell.held or any(cell.high[name] < bits for name, bits in cell.held.items()):
            return True
        is_far = abs(self._share(cell) - cell.share) > TUNING.other_share
        return is_far and (self._best is None or self._by_bus(cell) < self._best)

    def _by_bus(self, cell: _Cell) -> int:
        """Return the cycles, at least, of the mappings of a cell that buses decide."""
        return floor((cell.inside - 1) / cell.share + self._search.arch.start_cycles) + 1

    def _searched(self, cell: _Cell) -> _Cell:
        """Return a cell with what its mappings take at least by a search. Its best mapping is kept."""
        share, relative = self._share(cell), self._relative
        nodes = [
            replace(node, capacity_bits=cell.high[node.name] * node.buffering)
            if isinstance(node, MemoryLevel) and node.name in cell.high
            else node
            for node in relative.arch.nodes
        ]
        outer = relative.arch.levels[0]
        grains = tuple(replace(grain, bits_per_cycle=grain.bits_per_cycle / share) for grain in outer.grains)
        nodes[0] = replace(outer, grains=grains)
        relative = replace(relative, arch=replace(relative.arch, nodes=tuple(nodes)))
        answer = answer_of(self._search, relative, self._objective, TUNING.cell_share)
        least = at_least(relative, answer, self._objective)
        if least is None:
            return replace(cell, least=max(cell.least, self._best or Fraction(0)))  # it is empty
        held = dict(cell.high)
        for one in () if answer is None else (answer, answer.dividing):
            if one is not None and one.best is not None:
                self._offer(one.best)
                if one is answer and one.status == "OPTIMAL":
                    bits = dict(evaluate(relative.workload, relative.arch, one.best).occupancy_bits)
                    held = {name: bits[name] for name in cell.high}
        found = self._told(replace(cell, share=share, inside=ceil(least), held=held))
        return found if self._best is None or self._by_bus(found) >= self._best else replace(found, by_bus=True)

    def _offer(self, mapping: Mapping) -> None:
        self.found += _scored(self._search, mapping)
        if self._best is not None:
            self._best = min((self._best, *(value for _, value in self.found)))

    def _told(self, cell: _Cell) -> _Cell:
        """Return a cell with what its mappings take at least by its last search, and without those that surely wait too
        long."""
        by_work = cell.inside + floor(self._search.arch.start_cycles + self._waited(cell.low))
        by_bus = self._by_bus(cell)
        found = replace(cell, least=max(cell.least, Fraction(min(by_work, by_bus))))
        if self._best is None or by_bus < self._best:
            return found
        room = max(Fraction(0), self._best - by_work)
        most = {name: low + floor(room / self._waits[name]) for name, low in cell.low.items()}
        return replace(found, high={name: min(high, most[name]) for name, high in cell.high.items()})

    def _widest(self, cell: _Cell) -> str:
        """Return the level of which the best mapping of a cell waits longest beyond what all of the cell do."""
        return max(self._waits, key=lambda name: self._waits[name] * (cell.held[name] - cell.low[name]))

    def _halves(self, cell: _Cell, name: str) -> list[_Cell]:
        """Return the halves of a cell, between what its mappings hold at least in a level and what its best one holds;
        none where waits for these are nearly alike."""
        apart = self._waits[name] * (cell.held[name] - cell.low[name])
        if apart < max(1, TUNING.waits_apart * (self._best or 0)):
            return []
        middle = (cell.low[name] + cell.held[name]) // 2
        larger = replace(cell, low={**cell.low, name: middle + 1})
        return [replace(cell, high={**cell.high, name: middle}), self._told(larger)]


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
            least.append(max(Fraction(0), lower - _dead(search.arch, prices, held, copies)))
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


def _dead(arch: Architecture, prices: Prices, held: list[str], copies: dict[str, int]) -> Fraction:
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
    relative = apart(search.workload, search.arch, rules, names)
    answer = answer_of(search, relative, objective, TUNING.apart_share)
    if answer is not None and answer.best is None:  # what is held once is held twice there
        rules = tuple(rule for rule in relative.rules if not isinstance(rule, AtMost))
        answer = answer_of(search, replace(relative, rules=rules), objective, TUNING.apart_share)
    answers = () if answer is None else (answer, answer.dividing)
    found: list[tuple[Mapping, Fraction]] = []
    for one in answers:
        if one is not None and one.best is not None:
            scored = [pair for mapping in dict.fromkeys(merged(one.best, names)) for pair in _scored(search, mapping)]
            found.extend(sorted(scored, key=lambda pair: pair[1])[:1])
    return found


def _scored(search: Search, mapping: Mapping) -> list[tuple[Mapping, Fraction]]:
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is None or score.excess or not search.meets(mapping, score.cost):
        return []
    return [(mapping, score.value)]


def answer_of(
    search: Search, relative: Relative, objective: Objective, share: float, *, divides: bool | None = None
) -> SearchResult | None:
    """Return the answer to the same question about a related nest; None where the lattice search does not cover it.
    divides: whether over dividing tiles alone (None: as it is asked)."""
    workload, arch, rules = relative.workload, relative.arch, relative.rules
    if search.limits() or analyse(workload, arch, rules).reason is not None:
        return None
    divides = search.divides if divides is None else divides
    tiles, seed = "divide" if divides else "any", search.asked.seed
    asked = Question(workload, arch, objective, rules, tiles, seed, Hints(counts_space=False))
    kind = Kind.DIVIDING if divides else Kind.RELATED
    return search.ask(asked, kind, share, (), Engines())[0]


def _floor(search: Search, objective: Objective) -> Fraction:
    """Return what the nest costs at least, as that with one element in place of each tensor read often says."""
    workload, arch, often = search.workload, search.arch, read_often(search.workload)
    powers = objective.goal.powers
    if powers is not None and powers.energy and powers.cycles:
        parts = (_floor(search, parse_objective(name, arch)) for name in ("energy", "latency"))
        return powers.product(*parts)
    adds_up = objective.goal is Goal.ENERGY and is_plain_energy(arch)
    relative = with_one_element(workload, arch, search.rules, all_reads=adds_up)
    least = _least(search, relative, objective)
    if least is None:
        return Fraction(0)
    least = max(Fraction(0), least - filled_too_much(workload, arch)) if adds_up else least
    more = _moved_besides(workload, arch, objective, often) if len(often) == 1 else Fraction(0)
    if not more or not may_stay_out(arch, search.rules, often):
        return least + more
    relative = with_one_element(workload, arch, search.rules, all_reads=is_plain_energy(arch))
    outside = _least(search, nowhere_held(relative, often), objective)
    return least + more if outside is None else min(least + more, max(least, outside))


def is_plain_energy(arch: Architecture) -> bool:
    """Return whether energy is what accesses cost, however long the run, and of whatever size."""
    return not arch.has_wire_energies and not any(level.leak_pj_per_cycle or level.burst_bits for level in arch.levels)


def _least(search: Search, relative: Relative, objective: Objective) -> Fraction | None:
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
    """Return the energy, at most, of filling an element with the bits of all reads together in place of one element:
    once per instance of each level, with a read of an outer one each time."""
    (statement,) = workload.statements
    return filled_once(
        arch, sum(one.bits * (len(accesses_of(statement, one.name)) - 1) for one in read_often(workload))
    )


def filled_once(arch: Architecture, bits: int) -> Fraction:
    """Return the energy, at most, of filling every instance of each level once with so many bits."""
    total, instances, read = Fraction(0), 1, Fraction(0)
    for node in arch.nodes:
        if isinstance(node, Fanout):
            instances *= node.size
        elif isinstance(node, MemoryLevel):
            if node is not arch.levels[0]:
                total += instances * (node.access_pj(0, bits) + read)
            read = max(read, node.access_pj(bits, 0))
    return total


def _moved_besides(workload: Workload, arch: Architecture, objective: Objective, often: tuple[Tensor, ...]) -> Fraction:
    """Return what the outermost level reads of a tensor that an inner one holds, beyond what it reads of one element in
    its place, at least; 0 for objectives that do not add that up."""
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


def apart(workload: Workload, arch: Architecture, rules: Rules, names: Names) -> Relative:
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


def merged(mapping: Mapping, names: Names) -> Iterator[Mapping]:
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
