"""The best mapping of every layer of a network: each distinct layer once, totals with the state of their proof; and of
neighbouring layers as one program, where that costs less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from polymap.explore import explore, search
from polymap.formatting import plural
from polymap.inputs import (
    Fields,
    answers_in_words,
    as_integer,
    expected_method,
    is_list,
    mapping_from_document,
    shown,
)
from polymap.ir import (
    Architecture,
    MaybeNone,
    Mistake,
    OptionError,
    Paged,
    Shown,
    WorkloadError,
    all_read,
)
from polymap.networks.coverage import missing_text
from polymap.networks.fusion import (
    GroupAnswer,
    Passing,
    Sums,
    Total,
    check_additive,
    equal_groups,
    passing_of,
    with_better_together,
)
from polymap.networks.groups import Group, Plan, plan_of
from polymap.networks.model import Network, NetworkLayer, network
from polymap.networks.stores import State, Store, entry_of, known_answer, opened_store
from polymap.networks.told import told_result
from polymap.resolve import ArchitectureLike, arch_of, readable_arch, workload_of
from polymap.search import (
    Hints,
    Options,
    SearchResult,
    among,
    open_document,
    open_from_document,
    open_structures_of,
    result_document,
)
from polymap.search.problem import Objective, objective_values, parse_single

Document = dict[str, Any]

_ASKED = ("tiles", "time_limit_s", "seed", "work_limit", "constraints")
_KNOWN_BEFORE = ("start", "least", "open", "keeps_open", "counts_space")


class Executor(Protocol):
    """Anything with `submit`: an executor of concurrent.futures, Dask's, executorlib's, submitit's.

    Its answers are waited for without a limit: each question has a time limit of its own, but how long it stands in the
    queue of a cluster, only whoever owns that knows. Ctrl-C ends the wait, and so does an executor that breaks.
    """

    def submit(self, fn: Callable[[Document], Document], /, *args: Document) -> Any:
        """Return a future, whose `result()` is what `fn` returns."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class LayerAnswer(Shown):
    """The answer about one distinct layer. exact, exact_bound: of one node, in the unit of the objective."""

    layer: NetworkLayer
    result: SearchResult
    exact: Fraction | MaybeNone
    exact_bound: Fraction

    @property
    def title(self) -> str:
        """The layer's name and how many nodes compute it."""
        return f"{self.layer.name} ({plural(self.layer.multiplicity, 'node')})"

    @property
    def value(self) -> int | float | MaybeNone:
        """The value of one node; None without a mapping."""
        return self.result.value

    @property
    def total(self) -> Fraction | MaybeNone:
        """The value of all nodes of this layer; None without a mapping."""
        return None if self.exact is None else self.exact * self.layer.multiplicity


@dataclass(frozen=True, slots=True, repr=False)
class NetworkAnswer(Paged):
    """What a network costs: the sum over its layers of multiplicity times least value.

    status: "OPTIMAL" where every node is mapped and every layer's answer is; "INFEASIBLE" or "TIMEOUT" where a layer
    has no mapping; "UNMAPPED", without a value, where nodes have no workload and no mapped one multiplies; "PARTIAL"
    where other nodes have none: then the sums are of the mapped nodes, and `proof` says how far these are proven; else
    "FEASIBLE". exact, exact_bound: the sums as rationals; exact is None without a value. The sum of an objective that
    is a product, such as edp, is the sum of the layers' products.

    fuse: whether neighbouring layers were asked together as well. groups, passing: the answers about them, and what
    becomes of every result that one node reads of another. A group counts by the better of its program and its layers
    apart.
    """

    network: Network
    arch: Architecture
    objective: str
    layers: tuple[LayerAnswer, ...]
    groups: tuple[GroupAnswer, ...] = ()
    passing: tuple[Passing, ...] = ()
    fuse: bool = False

    @property
    def proof(self) -> str:
        """The weakest state of proof among the mapped layers; "UNMAPPED" as the status is."""
        if self.network.lacks_products:
            return "UNMAPPED"
        states = {each.result.status for each in self.layers}
        if self.fuse and states <= {"OPTIMAL", "FEASIBLE"}:
            return "OPTIMAL" if self.exact == self.exact_bound else "FEASIBLE"
        return next((state for state in ("INFEASIBLE", "TIMEOUT", "FEASIBLE") if state in states), "OPTIMAL")

    @property
    def space(self) -> str:
        """The trees over which layers, and groups asked as one program, are proven, where these are not all trees
        (docs/program_space.md); "" where proofs are over all."""
        every = (*self.layers, *self.groups)
        names = dict.fromkeys(each.result.space.name for each in every if each.result.status == "OPTIMAL")
        return ", ".join(name for name in names if name)

    @property
    def stated(self) -> str:
        """The status with the trees that are proven, where these are not all."""
        return among(self.status, self.space)

    @property
    def complete(self) -> bool:
        """Whether every node that computes has a workload."""
        return self.network.is_complete

    @property
    def status(self) -> str:
        """The state of the answer about the whole network."""
        return "PARTIAL" if not self.complete and self.proof in ("OPTIMAL", "FEASIBLE") else self.proof

    @property
    def headline(self) -> str:
        """The state of the answer in one line: what is missing first, with how far the rest is proven."""
        missing = missing_text(self.network)
        if self.status == "UNMAPPED":
            return f"UNMAPPED: nothing that multiplies is mapped, so there is no answer: {missing}"
        return f"{among(self.proof, self.space)} over {missing}" if missing else self.stated

    @property
    def unfused(self) -> Fraction | MaybeNone:
        """The value of the layers, each alone; None as of `exact`."""
        return self._value_with(())

    @property
    def exact(self) -> Fraction | MaybeNone:
        """The value of the layers, and of groups where they cost less; None where a layer has no mapping, and where
        nothing that multiplies has."""
        return self._value_with(tuple(each for each in self.groups if each.is_together))

    @property
    def _total(self) -> Total:
        return Total.of(parse_single(self.objective, self.arch), fuse=self.fuse)

    def _value_with(self, groups: tuple[GroupAnswer, ...]) -> Fraction | MaybeNone:
        """Return the value with some groups as programs."""
        alone = _sums(_of_nodes(self.layers), self._total)
        if alone is None or self.network.lacks_products:
            return None
        more = [sum((each.more[at] * each.times for each in groups), Fraction(0)) for at in range(2)]
        return self._total.powers.product(alone[0] + more[0], alone[1] + more[1])

    @property
    def exact_bound(self) -> Fraction:
        """What no choice of mappings goes below, of each group as one program (among the trees of `space`, where it
        names some) or of its layers apart."""
        root, total = self._total.root, self._total
        alone = sum((root(each.exact_bound) * each.layer.multiplicity for each in self.layers), Fraction(0))
        less = sum(((root(each.apart_bound) - root(each.least)) * each.times for each in self.groups), Fraction(0))
        return (alone - less) ** total.degree

    @property
    def saving(self) -> float | MaybeNone:
        """The part of the layers' sum that groups save; None without a value."""
        if self.unfused is None:
            return None
        return float(1 - self.exact / self.unfused) if self.unfused else 0.0

    @property
    def value(self) -> int | float | MaybeNone:
        """The sum in the unit of the objective (pJ, cycles, bits): an integer where it is whole."""
        return None if self.exact is None else plain_number(self.exact)

    @property
    def bound(self) -> int | float:
        """The bound in the unit of the objective."""
        return plain_number(self.exact_bound)

    @property
    def gap(self) -> float | MaybeNone:
        """(value - bound) / value; None without a value."""
        if self.exact is None:
            return None
        return float((self.exact - self.exact_bound) / self.exact) if self.exact else 0.0


OnLayer = Callable[[int, int, LayerAnswer], None]


@answers_in_words
def explore_network(
    net: Network | str,
    arch: ArchitectureLike,
    objective: str = "energy",
    *,
    tiles: str = "any",
    time_limit_s: float = 60,
    seed: int = 0,
    work_limit: int | None = None,
    executor: Executor | None = None,
    on_layer: OnLayer | None = None,
    fuse: bool = False,
    store: str | Path | None = None,
) -> NetworkAnswer:
    """Return the best mapping of every distinct layer of `net` on `arch`, and the totals.

    net: a Network, or the name of a built-in one. time_limit_s, work_limit: of each layer. executor: anything with
    `submit`, which gets `run_question` and a JSON document per layer (layers that no document says are asked here).
    on_layer: called with (layers answered, layers, the last answer). Values do not depend on the executor. Nothing is
    searched where nodes have no workload and no mapped one multiplies (status "UNMAPPED").
    fuse: also ask neighbours as one program, in which what one computes for the next may stay on chip (here, each in a
    time limit of its own; not for capacities, which do not add up). Layers apart count where they cost no more.
    store: a file that keeps every layer's answer when it is known, as that of a sweep; asked again, what it knows is
    not searched (programs of fused neighbours are). Raises OptionError for an objective that is not one number,
    WorkloadError for a network without layers, OutputError for a store that cannot be written.
    """
    all_read(
        partial(network_of, net),
        partial(arch_of, arch),
        partial(parse_single, objective, readable_arch(arch)),
        Options(objective, tiles, time_limit_s=time_limit_s, seed=seed, work_limit=work_limit).check,
        lambda: expected_method(executor, "submit", "the executor"),
        lambda: expected_method(on_layer, "__call__", "on_layer"),
    )
    net, arch = _check_layers(network_of(net)), arch_of(arch)
    check_additive(goal := parse_single(objective, arch), asked=fuse)
    if net.lacks_products:
        return NetworkAnswer(net, arch, objective, (), fuse=fuse)
    options: Document = {"tiles": tiles, "time_limit_s": time_limit_s, "seed": seed, "work_limit": work_limit}
    equal = equal_groups(plan := plan_of(net) if fuse else Plan((), ()))
    note, together = _noted(on_layer, len(net.layers) + len(equal)), list[GroupAnswer]()
    with opened_store(store) as journal:
        asked = [(layer, _asked(layer, arch, objective, options, executor, journal)) for layer in net.layers]
        answers = [note(layer_answer(layer, ask(), arch, goal)) for layer, ask in asked]
    for groups, layer in ((groups, _program_of(groups)) for groups in equal):
        found = note(layer_answer(layer, _asked(layer, arch, objective, options, None, None)(), arch, goal))
        together.append(group_answer(groups, found, answers, goal))
    chosen = chosen_groups(together, answers, goal)
    passing = passing_of(list(zip(equal, chosen, strict=True)), plan.apart, arch)
    return NetworkAnswer(net, arch, objective, tuple(answers), chosen, passing, fuse)


def _check_layers(net: Network) -> Network:
    """Return the network. Raises WorkloadError where it has no layers."""
    if not net.layers and net.is_complete:
        what = f"the network {shown(net.name)} has no layers"
        raise WorkloadError(Mistake("PM236", what, f"{len(net.views)} views."))
    return net


def _noted(on_layer: OnLayer | None, count: int) -> Callable[[LayerAnswer], LayerAnswer]:
    """Return what tells an observer of each answer, with how many there are, and hands it on."""
    done = iter(range(1, count + 1))

    def note(answer: LayerAnswer) -> LayerAnswer:
        number = next(done)
        if on_layer is not None:
            on_layer(number, count, answer)
        return answer

    return note


def _program_of(groups: list[Group]) -> NetworkLayer:
    """Return equal groups as one layer."""
    return NetworkLayer(groups[0].program.name, groups[0].program, len(groups), is_product=False)


def layer_answer(layer: NetworkLayer, result: SearchResult, arch: Architecture, goal: Objective) -> LayerAnswer:
    """Return an answer with its exact value and bound."""
    workload = result.workload or layer.workload  # of a program: the one with its loops renamed, perhaps
    exact = None if result.cost is None else objective_values(workload, arch, goal, result.cost)[0]
    bound = exact if result.status == "OPTIMAL" and exact is not None else Fraction(result.bound or 0)
    return LayerAnswer(layer, result, exact, bound)


def group_answer(
    groups: list[Group], found: LayerAnswer, layers: Sequence[LayerAnswer], goal: Objective
) -> GroupAnswer:
    """Return the answer about equal groups beside those about their layers."""
    own, total = [layers[nest.layer] for nest in groups[0].nests], Total.of(goal, fuse=True)
    alone, fused = _sums(((each, 1) for each in own), total), _sums(((found, 1),), total)
    apart = None if alone is None else total.powers.product(*alone)
    bound = sum((total.root(each.exact_bound) for each in own), Fraction(0)) ** total.degree
    names = tuple(group.names for group in groups)
    answer = GroupAnswer(names, found.result, found.exact, found.exact_bound, apart, bound)
    if alone is None or fused is None:
        return answer
    return replace(answer, more=(fused[0] - alone[0], fused[1] - alone[1]))


def chosen_groups(
    groups: Sequence[GroupAnswer], layers: Sequence[LayerAnswer], goal: Objective
) -> tuple[GroupAnswer, ...]:
    """Return the groups, those as programs that cost less than their layers apart."""
    total = Total.of(goal, fuse=True)
    alone = _sums(_of_nodes(layers), total)
    return tuple(groups) if alone is None else with_better_together(groups, alone, total)


def _sums(answers: Iterable[tuple[LayerAnswer, int]], total: Total) -> Sums | None:
    """Return what so many nodes of layers, each alone, add to the sums of a total; None where one has no mapping."""
    energy = cycles = Fraction(0)
    for each, times in answers:
        if each.exact is None or each.result.cost is None:
            return None
        first, second = total.sums(each.exact, each.result.cost)
        energy, cycles = energy + first * times, cycles + second * times
    return energy, cycles


def _of_nodes(layers: Sequence[LayerAnswer]) -> Iterator[tuple[LayerAnswer, int]]:
    return ((each, each.layer.multiplicity) for each in layers)


def network_of(value: object) -> Network:
    """Return a network: the one given, or the built-in one of that name. Raises WorkloadError for other values."""
    if isinstance(value, Network):
        return value
    if isinstance(value, str):
        return network(value)
    hint = "Expected a Network (pm.network, pm.from_torch, pm.from_onnx), or the name of a built-in one."
    raise WorkloadError(Mistake("PM120", f"the network is {shown(value)}", hint))


@answers_in_words
def run_question(document: Mapping[str, Any]) -> Document:
    """Return the answer, as `result.save` writes it, to a question: workload and arch (documents or names), objective,
    options of `explore`, and what is known before (dividing tiles, one value): start, a legal mapping; least, a proven
    lower bound ([numerator, denominator]); open, what an answer that a limit ended had left, from which the search goes
    on; keeps_open, true where the answer shall tell that; counts_space, false where the size of the space need not be
    told. Plain JSON in and out: it runs in any process that can import polymap.

    Raises OptionError for an unknown field, and a start that is not legal.
    """
    from polymap.inputs import arch_from_document
    from polymap.workload import workload_from_document

    known = ("workload", "arch", "objective", *_ASKED, *_KNOWN_BEFORE)
    mistakes: list[Mistake] = []
    Fields.of(document, "a question", mistakes, known=known, required=known[:2])
    if mistakes:
        raise OptionError(mistakes)
    asked, machine = document["workload"], document["arch"]
    workload = workload_of(asked) if isinstance(asked, str) else workload_from_document(asked)
    arch = arch_of(machine) if isinstance(machine, str) else arch_from_document(machine)
    options: Document = {name: document[name] for name in _ASKED if document.get(name) is not None}
    goal = document.get("objective", "energy")
    result = search(workload, arch, goal, **options, hints=_hints(document))
    left = open_structures_of(result) if document.get("keeps_open") else None
    return result_document(result) | ({} if left is None else {"open": open_document(left)})


def _hints(document: Mapping[str, Any]) -> Hints:
    """Return what a question says is known before. Raises OptionError for a bound that is no number."""
    least, start = document.get("least"), document.get("start")
    if least is not None and not (is_list(least) and len(least) == 2 and (as_integer(least[1]) or 0) > 0):
        raise OptionError(Mistake("PM120", f"least is {shown(least)}", "Use [numerator, denominator], as integers."))
    bound = None if least is None else Fraction(as_integer(least[0]) or 0, as_integer(least[1]) or 1)
    mapping = None if start is None else mapping_from_document(start)
    left = None if document.get("open") is None else open_from_document(document["open"])
    return Hints(mapping, bound, left=left, counts_space=bool(document.get("counts_space", True)))


def _asked(
    layer: NetworkLayer,
    arch: Architecture,
    objective: str,
    options: Document,
    executor: Executor | None,
    store: Store | None,
) -> Callable[[], SearchResult]:
    """Return what waits for a layer's answer; without an executor it is the search itself, or what the store knows."""
    documents = None if executor is None and store is None else _question(layer, arch)
    if documents is None:
        return lambda: explore(layer.workload, arch, objective, **options)
    question = documents | {"objective": objective} | options
    known = known_answer(store, question)
    if known is not None:
        return lambda: told_result(known)
    if store is not None:
        store.put(entry_of(question, state=State.ASKED))
    future: Future[Document] | None = None if executor is None else executor.submit(run_question, question)

    def ask() -> SearchResult:
        answer = run_question(question) if future is None else future.result()
        if store is not None:
            store.put(entry_of(question, answer))
        return told_result(answer)

    return ask


def _question(layer: NetworkLayer, arch: Architecture) -> Document | None:
    """Return workload and machine as documents; None where the workload has none."""
    from polymap.inputs import arch_to_document
    from polymap.workload import workload_to_document

    try:
        return {"workload": workload_to_document(layer.workload), "arch": arch_to_document(arch)}
    except WorkloadError:
        return None


def plain_number(value: Fraction) -> int | float:
    """Return an integer where the value is whole, else a float."""
    return value.numerator if value.denominator == 1 else float(value)
