"""The same layers on many machines: a table that a file keeps, so that a later run asks only what is missing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product as combinations
from pathlib import Path
from typing import Any, cast

from polymap.arch import arch_from_document, arch_to_document
from polymap.asked import arch_of, workload_of
from polymap.inputs import as_fraction, is_list, is_table, parse_json, shown
from polymap.ir import Architecture, MemoryLevel, Mistake, OptionError, OutputError, Shown, Workload
from polymap.networks.exploration import Document, Executor, run_question
from polymap.search.problem import parse_single
from polymap.search.run import Options
from polymap.version import __version__
from polymap.workload import workload_from_document, workload_to_document

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, question TEXT NOT NULL, answer TEXT NOT NULL)"


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The answer about one workload on one machine. machine: the grid's values, or the machine's name. value, bound: of
    the objective, None without a mapping. on_chip_bits: all capacities below the outermost level, every copy counted;
    None where one is unlimited."""

    workload: str
    machine: object
    status: str
    value: Fraction | None
    bound: Fraction | None
    seconds: float
    on_chip_bits: int | None = None


@dataclass(frozen=True, slots=True)
class SweepTable(Shown):
    """The rows of a sweep, workload by workload for each machine. asked: how many questions this run searched."""

    objective: str
    rows: tuple[SweepRow, ...]
    asked: int = field(default=0, compare=False)

    def totals(self) -> list[tuple[object, Fraction, int | None, str]]:
        """Return (machine, sum of the values of all workloads, on-chip bits, weakest status) of each machine that maps
        all of them."""
        machines: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            machines.setdefault(json.dumps(row.machine, sort_keys=True, default=str), []).append(row)
        found: list[tuple[object, Fraction, int | None, str]] = []
        for rows in machines.values():
            values = [row.value for row in rows if row.value is not None]
            if len(values) == len(rows):
                status = "OPTIMAL" if all(row.status == "OPTIMAL" for row in rows) else "FEASIBLE"
                found.append((rows[0].machine, sum(values, Fraction(0)), rows[0].on_chip_bits, status))
        return found

    def front(self) -> list[tuple[object, Fraction, int | None, str]]:
        """Return the totals that no other machine beats: none has both a smaller or equal sum and fewer or as many
        on-chip bits, and one of them less. By rising sum; the status tells which are proven."""
        totals = sorted(self.totals(), key=lambda each: (each[1], each[2] is None, each[2] or 0))
        kept: list[tuple[object, Fraction, int | None, str]] = []
        for each in totals:
            if not any(_beats(other, each) for other in totals):
                kept.append(each)
        return kept


def sweep(
    workloads: Iterable[Workload | str],
    machines: Mapping[str, Any] | Iterable[Architecture | str | Mapping[str, Any]],
    objective: str = "energy",
    *,
    tiles: str = "any",
    time_limit_s: float = 60,
    seed: int = 0,
    store: str | Path | None = None,
    executor: Executor | None = None,
) -> SweepTable:
    """Return the best mapping of every workload on every machine, as a table.

    machines: {"base": "flat3", "grid": {"GLB.capacity_bits": [262144, 524288], "X.size": [8, 16]}}, or machines, names
    and documents. store: a sqlite file that keeps each answer when it is known; a later run asks only what is missing.
    executor: anything with `submit`, as in `explore_network`. Raises OptionError for a grid that names no field of the
    machine, WorkloadError for a workload that JSON cannot say, OutputError for a file that cannot be a store.
    """
    Options(objective, tiles, time_limit_s=time_limit_s, seed=seed).check()
    asked = [workload_of(each) for each in workloads]
    options: Document = {"objective": objective, "tiles": tiles, "time_limit_s": time_limit_s, "seed": seed}
    places: list[tuple[Workload, object, Architecture, Document]] = []
    for label, arch in _machines(machines):
        parse_single(objective, arch)
        document = arch_to_document(arch)
        places += [(each, label, arch, {"workload": workload_to_document(each), "arch": document}) for each in asked]
    with _opened(store) as journal:
        waiting = [_answer(journal, question | options, executor) for _, _, _, question in places]
        known = sum(is_known for is_known, _ in waiting)
        rows = tuple(
            _row(workload, label, arch, ask())
            for (workload, label, arch, _), (_, ask) in zip(places, waiting, strict=True)
        )
    return SweepTable(objective, rows, len(rows) - known)


def sweep_of_document(
    document: object, store: str | Path | None = None, executor: Executor | None = None
) -> SweepTable:
    """Return the sweep of a specification: workloads, machines, and objective, tiles, time_limit_s and seed if given.

    Raises OptionError for one that cannot be read.
    """
    known = ("workloads", "machines", "objective", "tiles", "time_limit_s", "seed")
    hint = f"Fields: {', '.join(known)}; the first two are needed."
    if not is_table(document) or any(name not in known for name in document):
        raise OptionError(Mistake("PM565", f"the specification of the sweep is {shown(document)}", hint))
    workloads, machines = document.get("workloads"), document.get("machines")
    if not is_list(workloads) or not (is_list(machines) or is_table(machines)):
        raise OptionError(Mistake("PM565", "the specification lacks a list of workloads, or machines", hint))
    named = [each if isinstance(each, str) else workload_from_document(each) for each in workloads]
    options: dict[str, Any] = {name: document[name] for name in known[2:] if name in document}
    return sweep(named, cast("Mapping[str, Any]", machines), **options, store=store, executor=executor)


def _answer(
    journal: sqlite3.Connection | None, question: Document, executor: Executor | None
) -> tuple[bool, Callable[[], Document]]:
    """Return whether the answer is in the store, and what waits for it (and stores it)."""
    text = json.dumps(question, sort_keys=True)
    key = hashlib.sha256(f"{__version__}\n{text}".encode()).hexdigest()
    found = None if journal is None else journal.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
    if found is not None:
        return True, lambda: json.loads(found[0])
    future = None if executor is None else executor.submit(run_question, question)

    def ask() -> Document:
        answer = run_question(question) if future is None else future.result()
        if journal is not None:
            journal.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, text, json.dumps(answer)))
        return answer

    return False, ask


def _row(workload: Workload, label: object, arch: Architecture, answer: Document) -> SweepRow:
    plain = parse_json(json.dumps({name: answer[name] for name in ("value", "bound", "seconds")}), "the answer")
    assert is_table(plain)
    value, bound = (_exact(plain[name]) for name in ("value", "bound"))
    seconds = float(_exact(plain["seconds"]) or 0)
    return SweepRow(workload.name, label, answer["status"], value, bound, seconds, on_chip_bits(arch))


def _exact(value: object) -> Fraction | None:
    return None if value is None else as_fraction(int(value) if isinstance(value, str) else value)


def on_chip_bits(arch: Architecture) -> int | None:
    """Return the capacities of all levels below the outermost, times their copies; None where one is unlimited."""
    copies, total = 1, 0
    for node in arch.nodes[1:]:
        if isinstance(node, MemoryLevel):
            if node.capacity_bits is None:
                return None
            total += copies * node.capacity_bits
        else:
            copies *= getattr(node, "size", 1)
    return total


def _beats(one: tuple[object, Fraction, int | None, str], other: tuple[object, Fraction, int | None, str]) -> bool:
    sizes = [float("inf") if each[2] is None else each[2] for each in (one, other)]
    return one[1] <= other[1] and sizes[0] <= sizes[1] and (one[1] < other[1] or sizes[0] < sizes[1])


def _machines(machines: object) -> list[tuple[object, Architecture]]:
    """Return (label, machine) of each machine asked about."""
    if not is_table(machines):
        listed = list(cast("Iterable[object]", machines))
        found = [arch_from_document(each) if is_table(each) else arch_of(each) for each in listed]
        return [(arch.name, arch) for arch in found]
    unknown = [name for name in machines if name not in ("base", "grid")]
    grid = machines.get("grid", {})
    if unknown or "base" not in machines or not is_table(grid) or not all(is_list(each) for each in grid.values()):
        hint = 'Expected {"base": a machine, "grid": {"GLB.capacity_bits": [262144, 524288]}}.'
        raise OptionError(Mistake("PM565", f"the machines of the sweep are {shown(machines)}", hint))
    base = machines["base"]
    document = arch_to_document(arch_from_document(base) if is_table(base) else arch_of(base))
    fields: dict[str, Sequence[object]] = {name: tuple(values) for name, values in grid.items() if is_list(values)}
    return [_changed(document, dict(zip(fields, values, strict=True))) for values in combinations(*fields.values())]


def _changed(document: Mapping[str, Any], values: Mapping[str, object]) -> tuple[object, Architecture]:
    """Return the grid's values and the base machine with them."""
    nodes: list[dict[str, Any]] = [dict(node) for node in document["nodes"]]
    names = {str(node.get("level") or node.get("fanout") or node.get("compute")): node for node in nodes}
    for field_name, value in values.items():
        node, _, key = field_name.partition(".")
        if node not in names or not key:
            hint = f"Expected NODE.FIELD; nodes: {', '.join(names)}."
            raise OptionError(Mistake("PM565", f"the grid names {shown(field_name)}", hint))
        names[node][key] = value
    return dict(values), arch_from_document({**document, "nodes": nodes})


@contextmanager
def _opened(store: str | Path | None) -> Generator[sqlite3.Connection | None, None, None]:
    """Open the store in WAL mode, every statement a transaction of its own; OutputError where it cannot be used."""
    if store is None:
        yield None
        return
    try:
        journal = sqlite3.connect(store, isolation_level=None, timeout=60)
    except sqlite3.Error as error:
        raise OutputError(Mistake("PM703", f"the store {shown(str(store))} cannot be opened: {error}")) from None
    try:
        journal.execute("PRAGMA journal_mode=WAL")
        journal.execute("PRAGMA synchronous=FULL")
        journal.execute(_TABLE)
        yield journal
    except sqlite3.Error as error:
        raise OutputError(Mistake("PM703", f"the store {shown(str(store))} cannot be used: {error}")) from None
    finally:
        journal.close()
