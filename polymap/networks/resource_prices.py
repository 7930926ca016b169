"""What more or less of each resource of a machine is worth: the optimum of changed machines, each proven."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from polymap.explore import search
from polymap.inputs import answers_in_words, as_fraction, is_table, shown
from polymap.ir import (
    Architecture,
    Brief,
    ComputeUnit,
    Fanout,
    MaybeNone,
    MemoryLevel,
    Mistake,
    OptionError,
    Tabled,
    Workload,
    bits_of_amount,
    did_you_mean,
)
from polymap.networks.columns import Column, Provenance, column_of
from polymap.resolve import ArchitectureLike, WorkloadLike, arch_of, question_of
from polymap.search import Hints, Options, SearchResult, result_document
from polymap.search.problem import objective_values, parse_single

_BANDWIDTHS = ("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle")
_PROVEN = ("OPTIMAL", "INFEASIBLE")


@dataclass(frozen=True, slots=True, repr=False)
class OtherAmount(Brief):
    """The optimum with another amount of one resource, everything else as it is.

    value: of the objective, None without a mapping; bound: what no mapping there (or none of the trees that the status
    names) beats. status: "OPTIMAL", perhaps "among chains", "FEASIBLE", "TIMEOUT", "INFEASIBLE", or "DISMISSED" (the
    time was over before it was asked). how: "searched", or "neighbour" where proofs on other machines decide it.
    """

    amount: Fraction
    value: Fraction | MaybeNone
    bound: Fraction | MaybeNone
    status: str
    how: str

    @property
    def lack(self) -> str:
        """Why there is no value, in words."""
        return {"INFEASIBLE": "nothing fits", "DISMISSED": "not asked"}.get(self.status, "none known")


@dataclass(frozen=True, slots=True, repr=False)
class NextChange(Brief):
    """How far a buffer has to grow before the optimum improves. none_to_bits: up to this capacity, growth is proven to
    gain nothing (None: at any capacity). from_bits: a capacity at which the optimum is known to be better, and its best
    known value; None where none is known. The change is exact where no tile size lies between the two (`is_exact`)."""

    none_to_bits: int | None
    from_bits: int | None
    value: Fraction | None
    is_exact: bool


@dataclass(frozen=True, slots=True, repr=False)
class ResourcePrice(Brief):
    """What one resource is worth. resource: "GLB.capacity_bits", "DRAM.bandwidth_bits_per_cycle", "X.size",
    "MAC.per_cycle". amount: what the machine has, in bits, bits per cycle, siblings, instances per cycle.

    binds: whether the raised amount lowers the optimum; None where a limit ended the proof. price: what the objective
    falls by per unit of the resource between the two (0 where it does not bind), None where it is not proven.
    sensitivity: d log f / d log resource between the two, the multiplier of the resource; 0 or negative. next_change:
    of capacities alone, and None where the time was over.
    """

    resource: str
    amount: Fraction
    raised: OtherAmount
    lowered: OtherAmount | None
    binds: bool | None
    price: Fraction | None
    sensitivity: float | None
    next_change: NextChange | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Sensitivity(Tabled):
    """The answer of `sensitivity`: a price per resource, in the order of the machine. value, status: of the machine as
    it is. searches: how many machines were searched; the others follow from their proofs."""

    workload: Workload
    arch: Architecture
    objective: str
    tiles: str
    status: str
    value: Fraction
    prices: tuple[ResourcePrice, ...]
    searches: int
    seconds: float


@answers_in_words
def sensitivity(
    asked: SearchResult | WorkloadLike,
    arch: ArchitectureLike | None = None,
    objective: str | None = None,
    *,
    tiles: str | None = None,
    step: float | Fraction | Mapping[str, object] = 2,
    time_limit_s: float = 60,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Sensitivity:
    """Return what each capacity, bandwidth, fan-out and the compute unit's rate is worth, one at a time.

    asked: a result of `explore`, whose question and answer are taken, or a workload with `arch`, `objective` (default
    energy) and `tiles` (default any). step: the factor by which resources are raised and lowered, or a table of
    amounts for some of them, {"GLB.capacity_bits": "1 KiB"}; others are doubled and halved. time_limit_s: for all
    searches together. A machine is not searched where a proof on a better one and a known mapping decide it, so that
    what no value depends on (bandwidths, for an energy without leakage) costs nothing. Raises OptionError for a step
    that raises nothing, a resource that the machine has not, an objective that is not one number, constraints (which
    may forbid what a larger machine allows), and where nothing fits the machine as it is.
    """
    begun = clock()
    question = _question(asked, arch, objective, tiles)
    Options(question.objective, question.tiles, time_limit_s=time_limit_s, seed=seed).check()
    steps = _steps(question.arch, step)
    machines = [question.arch, _with(question.arch, {name: up for name, (_, up, _) in steps.items()})]
    machines += [_with(question.arch, {name: up}) for name, (_, up, _) in steps.items()]
    machines += [_with(question.arch, {name: down}) for name, (_, _, down) in steps.items() if down is not None]
    column = column_of(question.workload, 1, question.objective, machines)
    if question.known is not None:
        column.settle(column.order.class_of[0], result_document(question.known), Provenance.KNOWN)
    run = _Run(question, column, begun + time_limit_s, clock, seed)
    run.answer_all()
    base = column.tightened(column.order.class_of[0])
    if base.value is None:
        what = f"no mapping of '{question.workload.name}' on '{question.arch.name}' is known ({base.status})"
        raise OptionError(Mistake("PM575", what, "Give more time, or a machine that the workload fits."))
    prices = [run.price(name, amounts, base.value, base.status) for name, amounts in steps.items()]
    if base.status == "OPTIMAL":
        prices = [run.with_next_change(price, base.value) for price in prices]
    head = (question.workload, question.arch, question.objective, question.tiles, base.status, base.value)
    return Sensitivity(*head, tuple(prices), run.searches, clock() - begun)


@dataclass(frozen=True, slots=True)
class _Question:
    workload: Workload
    arch: Architecture
    objective: str
    tiles: str
    known: SearchResult | None = None


def _question(asked: object, arch: object, objective: str | None, tiles: str | None) -> _Question:
    """Return what is asked, with the answer where there is one."""
    if not isinstance(asked, SearchResult):
        workload, machine = question_of(asked, arch)
        parse_single(objective or "energy", machine)
        return _Question(workload, machine, objective or "energy", tiles or "any")
    if asked.settings.constraints is not None:
        what = "the sensitivity of an answer under constraints is not known from other machines"
        raise OptionError(Mistake("PM569", what, "Ask without constraints, or explore the changed machines."))
    machine = asked.arch if arch is None else arch_of(arch)
    goal, rule = objective or asked.objective, tiles or asked.settings.tiles
    parse_single(goal, machine)
    is_same = machine == asked.arch and goal == asked.objective and rule == asked.settings.tiles
    known = asked if is_same and asked.best is not None else None
    return _Question(asked.workload, machine, goal, rule, known)


_Amounts = tuple[Fraction, Fraction, Fraction | None]


def resources_of(arch: Architecture) -> dict[str, Fraction]:
    """Return the limited resources of a machine, "NODE.FIELD" as in the grid of a sweep, with their amounts."""
    found: dict[str, Fraction] = {}
    for node in arch.nodes:
        match node:
            case MemoryLevel():
                fields: tuple[str, ...] = ("capacity_bits", *_BANDWIDTHS)
            case Fanout():
                fields = ("size",)
            case ComputeUnit():
                fields = ("per_cycle",)
        amounts = ((field, getattr(node, field)) for field in fields)
        found |= {f"{node.name}.{field}": Fraction(amount) for field, amount in amounts if amount is not None}
    return found


def _steps(arch: Architecture, step: object) -> dict[str, _Amounts]:
    """Return (amount, raised, lowered or None) of each resource. Raises OptionError (PM569) for what is no step."""
    resources = resources_of(arch)
    table: Mapping[str, object] = step if is_table(step) else {}
    factor = Fraction(2) if is_table(step) else as_fraction(step)
    mistakes: list[Mistake] = []
    if factor is None or isinstance(step, bool) or factor <= 1:
        hint = 'Expected a factor above 1, or amounts such as {"GLB.capacity_bits": "1 KiB"}.'
        raise OptionError(Mistake("PM569", f"the step is {shown(step)}", hint))
    found: dict[str, _Amounts] = {}
    for name, given in table.items():
        amount = bits_of_amount(given) if isinstance(given, str) else as_fraction(given)
        if name not in resources:
            what = f"{shown(name)} is not a limited resource of '{arch.name}'"
            mistakes.append(Mistake("PM569", what, did_you_mean(str(name), tuple(resources))))
        elif amount is None or amount <= 0 or isinstance(given, bool) or (_is_whole(name) and amount.denominator > 1):
            mistakes.append(Mistake("PM569", f"the step of {name} is {shown(given)}", "Expected an amount above 0."))
        else:
            has = resources[name]
            found[name] = (has, has + amount, has - amount if has > amount else None)
    if mistakes:
        raise OptionError(mistakes)
    return {name: found.get(name) or _scaled(name, has, factor) for name, has in resources.items()}


def _scaled(name: str, has: Fraction, factor: Fraction) -> _Amounts:
    """Return the amounts of a resource times and divided by a factor, whole ones rounded down and changed by one at
    least."""
    if not _is_whole(name):
        return has, has * factor, has / factor
    up, down = max(has + 1, Fraction(math.floor(has * factor))), Fraction(math.floor(has / factor))
    return has, up, down if down >= 1 else None


def _is_whole(name: str) -> bool:
    return not name.endswith("_per_cycle") or name.endswith(".per_cycle")


def _with(arch: Architecture, amounts: Mapping[str, Fraction | None]) -> Architecture:
    """Return the machine with other amounts of some resources; None: unlimited."""
    nodes: list[Any] = []
    for node in arch.nodes:
        own = {
            name.rpartition(".")[2]: value for name, value in amounts.items() if name.rpartition(".")[0] == node.name
        }
        plain = {
            field: int(value) if value is not None and _is_whole(f"{node.name}.{field}") else value
            for field, value in own.items()
        }
        nodes.append(replace(node, **plain))
    return replace(arch, nodes=tuple(nodes))


@dataclass(slots=True)
class _Run:
    """Searches of changed machines under one time limit. end: of the clock."""

    question: _Question
    column: Column
    end: float
    clock: Callable[[], float]
    seed: int
    searches: int = 0

    def answer_all(self) -> None:
        """Answer every machine of the column: the best ones first, whose proofs and mappings decide others."""
        column = self.column
        while True:
            column.infer()
            waiting = column.next_classes()
            if not waiting:
                return
            left = self.end - self.clock()
            base = column.order.class_of[0]
            if left <= 0 and waiting[0] != base:
                column.dismiss(waiting[0])
                continue
            share = max(0.1, left / len(column.open_classes()))
            found = self._search(column.arch(waiting[0]), share, self._known_before(waiting[0]))
            column.settle(waiting[0], result_document(found), Provenance.SEARCHED)

    def _known_before(self, number: int) -> Hints:
        """Return what a search over dividing tiles on the machine of a class is told."""
        start, least = self.column.known_before(number) if self.question.tiles == "divide" else (None, None)
        return Hints(start, least=least, counts_space=False)

    def _search(self, machine: Architecture, share: float, hints: Hints) -> SearchResult:
        self.searches += 1
        asked = self.question
        limits = {"time_limit_s": share, "seed": self.seed, "hints": hints}
        return search(asked.workload, machine, asked.objective, asked.tiles, **limits)

    def price(self, name: str, amounts: _Amounts, value: Fraction, status: str) -> ResourcePrice:
        """Return the price of a resource from the replies of the column."""
        has, up, down = amounts
        raised = self._other(name, up)
        lowered = None if down is None else self._other(name, down)
        binds = _binds(raised, value, status)
        price = sensed = None
        if status == "OPTIMAL" and raised.status == "OPTIMAL":
            price = (value - raised.value) / (up - has)
            if value > 0 and raised.value > 0:
                sensed = _log(raised.value / value) / _log(up / has)
        return ResourcePrice(name, has, raised, lowered, binds, price, sensed)

    def _other(self, name: str, amount: Fraction) -> OtherAmount:
        machine = _with(self.question.arch, {name: amount})
        number = self.column.order.class_of[self.column.machines.index(machine)]
        reply = self.column.tightened(number)
        how = reply.how.value
        return OtherAmount(amount, reply.value, reply.bound, reply.status, how)

    def with_next_change(self, price: ResourcePrice, value: Fraction) -> ResourcePrice:
        """Return the price of a capacity with where more of it first changes the optimum, as far as the time allows."""
        level, _, field = price.resource.rpartition(".")
        if field != "capacity_bits" or self.clock() >= self.end:
            return price
        node = next(node for node in self.question.arch.levels if node.name == level)
        unit = math.gcd(*(tensor.bits for tensor in self.question.workload.tensors)) * node.buffering
        return replace(price, next_change=self._change(price, value, unit))

    def _change(self, price: ResourcePrice, value: Fraction, unit: int) -> NextChange | None:
        """Return the change by halving the interval between what is worth nothing and what is worth something; tiles
        take whole units of capacity."""
        none, some, best = int(price.amount) // unit, None, None
        if price.binds is False:
            none = int(price.raised.amount) // unit
        if price.binds and price.raised.value is not None:
            some, best = int(price.raised.amount) // unit, price.raised.value
        if some is None:
            found = self._at(price.resource, None)
            if found[0] is None:
                return None
            if found[0] == value:
                return NextChange(None, None, None, is_exact=True) if found[2] else None
            if found[0] < value:
                some, best = found[1] // unit, found[0]
        while some is not None and some - none > 1 and self.clock() < self.end:
            middle = (none + some) // 2
            at, need, is_proven = self._at(price.resource, middle * unit)
            if at is not None and at < value:
                some, best = need // unit, at
            elif at == value and is_proven:
                none = middle
            else:
                break
        if some is None:
            return None
        return NextChange(none * unit + unit - 1, some * unit, best, is_exact=some - none == 1)

    def _at(self, resource: str, bits: int | None) -> tuple[Fraction | None, int, bool]:
        """Return the value with another capacity (None: unlimited), the capacity that its mapping takes, and whether it
        is proven."""
        level = resource.rpartition(".")[0]
        machine = _with(self.question.arch, {resource: None if bits is None else Fraction(bits)})
        found = self._search(machine, max(0.1, (self.end - self.clock()) / 4), Hints(counts_space=False))
        if found.cost is None:
            return None, 0, found.status in _PROVEN
        goal = parse_single(self.question.objective, machine)
        value = objective_values(self.question.workload, machine, goal, found.cost)[0]
        node = next(node for node in machine.levels if node.name == level)
        need = dict(found.cost.occupancy_bits).get(level, 0) * node.buffering
        return value, need, found.stated == "OPTIMAL"


def _binds(raised: OtherAmount, value: Fraction, status: str) -> bool | None:
    """Return whether the raised amount lowers the optimum; None where that is not proven."""
    if status == "OPTIMAL" and raised.value is not None and raised.value < value:
        return True
    if status == raised.status == "OPTIMAL":
        return False
    return None


def _log(value: Fraction) -> float:
    """Return the natural logarithm of a positive rational of any size."""
    return math.log(value.numerator) - math.log(value.denominator)
