"""The same layers on many machines: a table that a file keeps, so that a later run asks only what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping as Table, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product as combinations
from pathlib import Path
from typing import Any, TypeVar, cast

from polymap.formatting import distinct_names
from polymap.inputs import (
    answers_in_words,
    arch_from_document,
    arch_to_document,
    expected_method,
    is_list,
    is_table,
    shown,
)
from polymap.ir import (
    ArchError,
    Architecture,
    Brief,
    Mapping,
    MaybeNone,
    Mistake,
    OptionError,
    Paged,
    PolymapError,
    Workload,
    all_read,
    did_you_mean,
)
from polymap.networks.columns import Column, Provenance, column_of
from polymap.networks.exploration import Document, Executor
from polymap.networks.model import Network, builtin_network
from polymap.networks.stores import opened_store
from polymap.networks.sweep_run import MachineTotal, SweepProgress, SweepRun
from polymap.resolve import ArchitectureLike, arch_of, readable_arch, workload_of
from polymap.search import Options, plain_numbers, weakest
from polymap.search.problem import parse_single

Read = TypeVar("Read")

_FIELDS = ("workloads", "machines", "objective", "tiles", "time_limit_s", "seed", "front_only")


@dataclass(frozen=True, slots=True, repr=False)
class SweepRow(Brief):
    """The answer about one workload on one machine. machine: the grid's values, or the machine's name. status: as of
    `explore`, with the trees that are proven where these are not all ("OPTIMAL among chains"). value, bound: of the
    objective, None without a mapping. on_chip_bits: all capacities below the outermost level, every copy counted; None
    where one is unlimited. area_um2: of the whole machine; None unless all machines of the sweep state one. how:
    "searched", "known" (from the store), "neighbour" (a proof on a machine that is at least as good, and a mapping that
    attains it here), "dismissed" (such a proof keeps the machine off the front). mapping: one of that value, for
    `layer` on `arch` (None without a value, and where it is one of a workload that computes the same with other
    loops)."""

    workload: str
    machine: object
    status: str
    value: Fraction | None
    bound: Fraction | None
    seconds: float
    on_chip_bits: int | None = None
    objective: str = "energy"
    multiplicity: int = 1
    how: str = "searched"
    mapping: Mapping | MaybeNone = field(default=None, repr=False, compare=False)
    layer: Workload | MaybeNone = field(default=None, repr=False, compare=False)
    arch: Architecture | MaybeNone = field(default=None, repr=False, compare=False)
    area_um2: Fraction | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SweepTable(Paged):
    """The rows of a sweep, workload by workload for each machine, for each objective. incomplete: the networks asked
    about of which nodes have no workload."""

    objectives: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    incomplete: tuple[Network, ...] = ()

    @property
    def asked(self) -> int:
        """How many rows this run searched."""
        return self.count(Provenance.SEARCHED)

    def count(self, how: Provenance) -> int:
        """Return how many rows come from there; of machines that no value tells apart one is searched, the others are
        neighbours."""
        return sum(row.how == how.value for row in self.rows)

    @property
    def is_proven(self) -> bool:
        """Whether every row is proven: an optimum, that there is no mapping, or that the machine is off the front."""
        return all(row.status in ("OPTIMAL", "INFEASIBLE", "DISMISSED") for row in self.rows)

    def totals(self) -> list[MachineTotal]:
        """Return the sums of each machine that maps all workloads: PARTIAL where networks have nodes without one; none
        where nothing that multiplies in such a network is mapped."""
        if any(net.lacks_products for net in self.incomplete):
            return []
        machines: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            machines.setdefault(json.dumps(row.machine, sort_keys=True, default=str), []).append(row)
        found: list[MachineTotal] = []
        for rows in machines.values():
            if any(row.value is None for row in rows):
                continue
            sums = dict.fromkeys(self.objectives, Fraction(0))
            for row in rows:
                sums[row.objective] += row.multiplicity * (row.value or 0)
            status = "PARTIAL" if self.incomplete else weakest(row.status for row in rows)
            sizes = rows[0].on_chip_bits, status, rows[0].area_um2
            found.append(MachineTotal(rows[0].machine, tuple(sums.values()), *sizes))
        return found

    def front(self) -> list[MachineTotal]:
        """Return the totals that no other machine's values found beat: none has smaller or equal sums and a smaller or
        equal area (fewer or as many on-chip bits where machines state no areas), and one of them less. By rising sums;
        the status tells which values are proven; where `is_proven` holds, this is the front of the machines
        themselves."""
        kept: list[MachineTotal] = []
        for each in sorted(self.totals(), key=MachineTotal.place):
            if not any(other.beats(each) for other in kept):
                kept.append(each)
        return kept


@answers_in_words
def sweep(
    workloads: Iterable[Workload | Network | str],
    machines: Table[str, Any] | Iterable[ArchitectureLike | Table[str, Any]],
    objective: str | Sequence[str] = "energy",
    *,
    tiles: str = "any",
    time_limit_s: float = 60,
    seed: int = 0,
    front_only: bool = False,
    store: str | Path | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> SweepTable:
    """Return the best mapping of every workload on every machine, as a table.

    workloads: workloads, networks, or names of either; a network stands for its layers and their multiplicities.
    machines: {"base": "flat3", "grid": {"GLB.capacity_bits": [262144, 524288], "X.size": [8, 16]}}, or machines, names
    and documents. objective: one, or several that are each asked for themselves. A row is searched only where proofs
    on other machines do not answer it. front_only: machines that such proofs keep off the front get no values
    (DISMISSED), and of machines equal in all sums and in area (bits) the front has at least one. store: a file that
    keeps each answer when it is known (sqlite, or lines of JSON where it ends in .jsonl); a later run asks only what is
    missing, and what a shorter time limit ended. executor: anything with `submit`, as in `explore_network`.
    on_progress: called after every search. Raises OptionError for a grid that names no field of the machine,
    WorkloadError for a workload that JSON cannot say, OutputError for a file that cannot be a store, BudgetError where
    the executor lost a worker.
    """
    objectives = (objective,) if isinstance(objective, str) else tuple(objective)
    expected_method(executor, "submit", "the executor")
    _, _, asked, labelled = all_read(
        Options("energy", tiles, time_limit_s=time_limit_s, seed=seed).check,
        partial(_check_objectives, objectives, machines),
        lambda: _asked(workloads),
        lambda: _told_apart(_machines(machines)),
    )
    layers = [layer for each in asked for layer in _layers(each)]
    incomplete = tuple(each for each in asked if isinstance(each, Network) and not each.is_complete)
    archs = [arch for _, arch in labelled]
    options: Document = {"tiles": tiles, "time_limit_s": time_limit_s, "seed": seed}
    named = list(zip(distinct_names([layer.name for layer, _ in layers]), layers, strict=True))
    columns = [column_of(layer, count, each, archs, name) for name, (layer, count) in named for each in objectives]
    sizes = _sizes(archs)
    table = partial(_table, columns, [label for label, _ in labelled], sizes, objectives, incomplete)
    with opened_store(store) as journal:
        run = SweepRun(columns, objectives, sizes, options, journal, executor, on_progress, table)
        run.recall()
        run.search(front_only=front_only)
    found = table()
    assert len(found.rows) == len(columns) * len(archs), "the search ends when every row has its answer"
    return found


def sweep_of_document(
    document: object,
    store: str | Path | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> SweepTable:
    """Return the sweep of a specification: workloads, machines, and objective, tiles, time_limit_s, seed, front_only if
    given. Raises OptionError for one that cannot be read."""
    hint = f"Fields: {', '.join(_FIELDS)}; the first two are needed."
    if not is_table(document):
        raise OptionError(Mistake("PM565", f"the specification of the sweep is {shown(document)}", hint))
    unknown = [str(name) for name in document if name not in _FIELDS]
    what = "the specification of the sweep has no field"
    missing = [name for name in _FIELDS[:2] if name not in document] if len(unknown) == 1 else ()
    told = [Mistake("PM565", f"{what} {shown(name)}", did_you_mean(name, _FIELDS, missing)) for name in unknown]
    for name in ("workloads", "machines", "objective"):
        if is_list(document.get(name)) and not document[name]:
            told.append(Mistake("PM565", f"the {name} are an empty list", "Expected at least one."))
    workloads, machines = ([each] if isinstance(each, str) else each for each in map(document.get, _FIELDS[:2]))
    if not missing and (not is_list(workloads) or not (is_list(machines) or is_table(machines))):
        told.append(Mistake("PM565", "the specification lacks a list of workloads, or machines", hint))
    options: dict[str, Any] = {name: document[name] for name in _FIELDS[2:] if name in document}
    if not isinstance(options.get("front_only", False), bool):
        told.append(Mistake("PM565", f"front_only is {shown(options['front_only'])}", "Expected true or false."))
    if told:
        raise OptionError(told)
    workloads, machines = cast("list[Any]", workloads), cast("Table[str, Any]", machines)
    return sweep(workloads, machines, **options, store=store, executor=executor, on_progress=on_progress)


def _check_objectives(objectives: Sequence[str], machines: object) -> None:
    """Raise every mistake in the objectives that the first machine that can be read shows; all machines are asked when
    all are read."""
    for each in (machines.get("base"),) if is_table(machines) else machines if is_list(machines) else ():
        if (arch := readable_arch(each)) is not None:
            all_read(*(partial(parse_single, objective, arch) for objective in objectives))
            return


def _asked(workloads: object) -> list[Workload | Network]:
    """Return what is asked about, a network as a whole."""
    return all_read(
        *(
            partial(_told_in, f"workloads[{index}]", workload_of, each)
            if is_table(each)
            else partial(_network_or_workload, each)
            for index, each in enumerate(_several(workloads, "the workloads"))
        )
    )


def _network_or_workload(asked: Workload | Network | str) -> Workload | Network:
    if isinstance(asked, Network):
        return asked
    return (builtin_network(asked) if isinstance(asked, str) else None) or workload_of(asked)


def _layers(asked: Workload | Network) -> list[tuple[Workload, int]]:
    """Return the workloads that are asked about, with their multiplicities."""
    if isinstance(asked, Network):
        return [(each.workload, each.multiplicity) for each in asked.layers]
    return [(asked, 1)]


def _table(
    columns: Sequence[Column],
    labels: Sequence[object],
    sizes: Sequence[tuple[int | None, Fraction | None]],
    objectives: tuple[str, ...],
    incomplete: tuple[Network, ...],
) -> SweepTable:
    """Return the table of the machines of which every row is answered."""
    answered = [
        index
        for index in range(len(labels))
        if all(column.order.class_of[index] in column.replies for column in columns)
    ]
    rows = [_row(column, index, labels[index], sizes[index]) for index in answered for column in columns]
    return SweepTable(objectives, tuple(rows), incomplete)


def _row(column: Column, index: int, label: object, sizes: tuple[int | None, Fraction | None]) -> SweepRow:
    number = column.order.class_of[index]
    reply = column.tightened(number)
    is_first = column.order.class_of.index(number) == index
    how = reply.how if is_first or reply.how is not Provenance.SEARCHED else Provenance.NEIGHBOUR
    seconds = reply.seconds if is_first else 0.0
    head = (column.name, label, reply.status, reply.value, reply.bound, seconds)
    told = (sizes[0], column.objective, column.multiplicity, how.value)
    return SweepRow(*head, *told, reply.mapping, column.workload, column.machines[index], sizes[1])


def _sizes(archs: Sequence[Architecture]) -> list[tuple[int | None, Fraction | None]]:
    """Return the on-chip bits of each machine, and its area where all of them state one."""
    areas = [arch.area_um2 for arch in archs]
    stated = [None] * len(areas) if None in areas else areas
    return [(arch.on_chip_bits, area) for arch, area in zip(archs, stated, strict=True)]


def _several(given: object, what: str) -> list[Any]:
    """Return the items of what callers give as several; a text, which has items too, is none."""
    told = shown(given)
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Table):
        raise OptionError(Mistake("PM120", f"{what} are {told}", "Expected a list."))
    if not (found := list(cast("Iterable[object]", given))):
        raise OptionError(Mistake("PM565", f"{what} are an empty list", "Expected at least one."))
    return found


def _machines(machines: object) -> list[tuple[object, Architecture]]:
    """Return (label, machine) of each machine asked about."""
    if not is_table(machines):
        listed = _several(machines, "the machines")
        found = all_read(
            *(
                partial(_told_in, f"machines[{index}]", arch_of, each) if is_table(each) else partial(arch_of, each)
                for index, each in enumerate(listed)
            )
        )
        return [(arch.name, arch) for arch in found]
    unknown = [name for name in machines if name not in ("base", "grid")]
    grid = machines.get("grid", {})
    if unknown or "base" not in machines or not is_table(grid):
        hint = 'Expected {"base": a machine, "grid": {"GLB.capacity_bits": [262144, 524288]}}.'
        raise OptionError(Mistake("PM565", f"the machines of the sweep are {shown(machines)}", hint))
    base = machines["base"]
    document = arch_to_document(
        _told_in("machines.base", arch_from_document, base) if is_table(base) else arch_of(base)
    )
    _check_grid(grid, document)
    fields: dict[str, Sequence[object]] = {name: tuple(values) for name, values in grid.items() if is_list(values)}
    made: list[tuple[object, Architecture]] = []
    told: dict[tuple[str, str], Mistake] = {}  # with the first values that show each
    for values in combinations(*fields.values()):
        try:
            made.append(_changed(document, dict(zip(fields, values, strict=True))))
        except PolymapError as error:
            for each in error.mistakes:
                told.setdefault((each.code, each.what.partition(" (in the grid")[0]), each)
    if told:
        raise ArchError(told.values())
    return made


def _nodes(document: Table[str, Any]) -> list[str]:
    """Return the names of a machine's nodes."""
    return [str(node.get("level") or node.get("fanout") or node.get("compute")) for node in document["nodes"]]


def _check_grid(grid: Table[Any, object], document: Table[str, Any]) -> None:
    """Raise every mistake in the names of a grid's fields, and in whether they have values."""
    told: list[Mistake] = []
    nodes = _nodes(document)
    for name, values in grid.items():
        node, _, key = str(name).partition(".")
        if node not in nodes or not key:
            hint = did_you_mean(node, nodes) if key else f"Expected NODE.FIELD; nodes: {', '.join(nodes)}."
            told.append(Mistake("PM565", f"the grid names {shown(name)}", hint))
        elif is_list(values) and values:
            told += _unknown_field(document, name, values[0])
        if not is_list(values) or not values:
            what = f"the grid has no list of values for {shown(name)}"
            told.append(Mistake("PM565", what, "Expected at least one."))
    if told:
        raise OptionError(told)


def _unknown_field(document: Table[str, Any], name: str, value: object) -> list[Mistake]:
    """Return that a grid's field is none of its node's; other mistakes may be none beside the other fields' values."""
    try:
        _changed(document, {name: value})
    except PolymapError as error:
        return [each for each in error.mistakes if each.code == "PM110"]
    return []


def _told_apart(machines: list[tuple[object, Architecture]]) -> list[tuple[object, Architecture]]:
    """Return the machines with labels of their own: the second of a name has #2 behind it."""
    told = [
        label if isinstance(label, str) else json.dumps(label, sort_keys=True, default=str) for label, _ in machines
    ]
    apart = zip(told, distinct_names(told), machines, strict=True)
    return [(label if name == own else name, arch) for own, name, (label, arch) in apart]


def _changed(document: Table[str, Any], values: Table[str, object]) -> tuple[object, Architecture]:
    """Return the grid's values and the base machine with them."""
    nodes: list[dict[str, Any]] = [dict(node) for node in document["nodes"]]
    names = dict(zip(_nodes(document), nodes, strict=True))
    for field_name, value in values.items():
        node, _, key = field_name.partition(".")
        names[node][key] = value
    told = ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
    changed = {**document, "nodes": nodes}
    label = {name: plain_numbers(value) for name, value in values.items()}  # as JSON writes them
    return label, _told_in(f"the grid of the sweep: {told}", arch_from_document, changed)


def _told_in(place: str, read: Callable[[object], Read], document: object) -> Read:
    """Return what a part of the specification describes; mistakes tell the part."""
    try:
        return read(document)
    except PolymapError as error:
        raise type(error)(replace(each, what=f"{each.what} (in {place})") for each in error.mistakes) from None
