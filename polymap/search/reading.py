"""Reads the documents that `result.save` and `polymap explore --json` write about one workload.

No number is believed that can be had again: values must be those of the file's costs, and costs those of its mappings
(where counting takes long, energies those of the file's traffic). Programs that the search rewrote are checked
(documents.py).
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import replace
from fractions import Fraction
from math import isclose

from polymap.costmodel import Cost, Traffic, WireUse, energies_of, evaluate_in_cpu_time
from polymap.inputs import (
    Fields,
    arch_from_document,
    as_integer,
    is_list,
    is_table,
    mapping_from_document,
    parse_integer,
    shown,
)
from polymap.ir import (
    Architecture,
    BudgetError,
    InputError,
    InstancePoint,
    Mapping,
    Mistake,
    PolymapError,
    Violation,
    Workload,
)
from polymap.schedules import check_mapping
from polymap.search.answer import gap_of, number_of
from polymap.search.documents import rewritten_from_document
from polymap.search.options import TUNING
from polymap.search.problem import objective_values, parse_objective
from polymap.search.result import SearchResult, Settings, SpaceCount
from polymap.workload import workload_from_document

SCHEMA = "polymap.result/1"
STATUSES = ("OPTIMAL", "FEASIBLE", "TIMEOUT", "INFEASIBLE")
_HEAD = ("schema", "version", "workload", "arch", "options", "units")
_SPACE = ("syntactic", "legal", "distinct", "evaluated", "pruned", "listed", "infeasible")
_FIGURES = ("legal", "violations", "instances", "method", "traffic", "occupancy_bits", "energy_pj")
_COST = (*_FIGURES, "energy_by_level_pj", "compute_cycles", "latency_cycles", "utilization", "bottleneck")
_PLAIN = ("status", "objective", "value", "bound", "gap", "seconds", "mapping", "cost", "space", "work")
_COMPARED = (*(name for name in _COST if name not in ("method", "energy_by_level_pj")), "wires")
_HINT = "The file was changed after it was written."
_PRICES = "sensitivity"  # what `polymap explore --sensitivity` adds to the answer; kept as it is
_ANSWER = (*_PLAIN, "clash", "dividing", "values", "bounds", "front")
_SETTINGS = ("tiles", "seed", "time_limit_s", "workers", "memory_limit_mb", "work_limit", "constraints")
_ROW = ("level", "tensor", "reads", "writes", "fills", "drains")
_WIRE = ("fanout", "tensor", "messages", "deliveries", "collections", "sums")


def result_from_document(document: object, where: str = "the result") -> SearchResult:
    """Return the result in a JSON table. where: its name in messages."""
    if not is_table(document) or "schema" not in document:
        hint = "Expected what result.save() or `polymap explore --json FILE` wrote."
        raise InputError(Mistake("PM611", f"{where} is no result: it names no schema", hint))
    if document["schema"] != SCHEMA:
        what = f"{where} has the schema {shown(document['schema'])}"
        raise InputError(Mistake("PM612", what, f"Results of the schema '{SCHEMA}' are read here."))
    prices = plain_numbers(document.get(_PRICES))
    if not (prices is None or is_table(prices)):
        what = f"{where}: {_PRICES} is {shown(document[_PRICES])}"
        raise InputError(Mistake("PM611", what, "Expected what `polymap explore --sensitivity` wrote."))
    document = {name: value for name, value in document.items() if name != _PRICES}
    mistakes: list[Mistake] = []
    Fields.of(document, where, mistakes, known=(*_HEAD, *_ANSWER), required=(*_HEAD, *_PLAIN))
    if mistakes:
        raise InputError(mistakes)
    if is_table(document["workload"]) and set(document["workload"]) == {"name", "text"}:
        what = f"{where} is about a program that no document says: its workload is a text for readers"
        raise InputError(Mistake("PM611", what, "Einsums, layers and C programs can be read, rewritten ones too."))
    asked = document["workload"]
    rewritten = asked if is_table(asked) and "rewritten" in asked else None
    try:
        workload = workload_from_document(asked) if rewritten is None else rewritten_from_document(rewritten, where)
        arch = arch_from_document(document["arch"], "arch")
    except PolymapError as error:
        raise InputError([Mistake(each.code, f"{where}: {each.what}", each.hint) for each in error.mistakes]) from None
    reader = _Reader(workload, arch, mistakes)
    result = reader.result(document, where, reader.settings(document["options"], f"{where}: options"))
    if mistakes:
        raise InputError(mistakes)
    return replace(result, prices=prices)


def mapping_with_cost(
    workload: Workload, arch: Architecture, documents: tuple[object, object], where: str
) -> tuple[Mapping, Cost]:
    """Return a mapping and its cost from their documents. Raises InputError with every mistake."""
    mistakes: list[Mistake] = []
    found = _Reader(workload, arch, mistakes).pair(documents, where)
    if found is None or mistakes:
        raise InputError(mistakes)
    return found


def _contradiction(found: SearchResult, workload: Workload, arch: Architecture) -> str:
    """Return a sentence on what in an answer its mapping's cost or its other numbers do not give; "": nothing."""
    if (found.cost is None) is (found.status in ("OPTIMAL", "FEASIBLE")):
        return f"the status is {found.status}, and there is {'no' if found.cost is None else 'a'} mapping"
    if found.cost is None:
        return ""
    objective = parse_objective(found.objective, arch)
    exact = zip(objective.singles, objective_values(workload, arch, objective, found.cost), strict=True)
    values = tuple((one.text, number_of(one, value)) for one, value in exact)
    several = len(values) > 1
    if not found.cost.legal or found.value != values[0][1] or found.values != (values if several else ()):
        kind = "a legal" if found.cost.legal else "an illegal"
        told = ", ".join(f"{name} {value}" for name, value in values)
        return f"the value is {found.value} of {kind} mapping with {told}"
    bounds = [bound for _, bound in found.bounds] if several else [found.bound or 0]
    pairs = [(Fraction(value), Fraction(bound)) for (_, value), bound in zip(values, bounds, strict=False)]
    if len(bounds) != len(values) or bounds[0] != (found.bound or 0) or any(not 0 <= low <= up for up, low in pairs):
        return f"the bounds {bounds} are not those of the values {[value for _, value in values]}"
    gap = next((gap_of(*pair) for pair in pairs if pair[0] != pair[1]), 0.0)
    if not isclose(gap, found.gap or 0, rel_tol=1e-9, abs_tol=1e-12) or (gap and found.status == "OPTIMAL"):
        return f"the status is {found.status} and the gap {found.gap}, values and bounds leave a gap of {gap}"
    return ""


def parsed_number(value: object) -> int | float | None:
    """Return a number as it was before it was written (integers beyond 2^53 are texts), None for anything else."""
    if isinstance(value, str):
        return parse_integer(value)
    integer = as_integer(value)
    return float(value) if isinstance(value, Fraction) else integer


def plain_numbers(value: object) -> object:
    """Return a JSON value with floats for rationals."""
    if is_table(value):
        return {name: plain_numbers(inner) for name, inner in value.items()}
    if is_list(value):
        return [plain_numbers(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value


class _Reader:
    """Reads answers to one question and collects mistakes."""

    def __init__(self, workload: Workload, arch: Architecture, mistakes: list[Mistake]) -> None:
        self._workload, self._arch, self._mistakes = workload, arch, mistakes
        self._named = {"level": arch.levels, "fanout": arch.fanouts, "tensor": workload.tensors}

    def settings(self, document: object, where: str) -> Settings:
        fields = Fields.of(document, where, self._mistakes, known=_SETTINGS, required=_SETTINGS)
        plain = Settings()
        seconds = parsed_number(fields.table.get("time_limit_s"))
        return Settings(
            tiles=fields.choice("tiles", plain.tiles, ("any", "divide")),
            time_limit_s=plain.time_limit_s if seconds is None else seconds,
            workers=fields.integer("workers", 1),
            seed=fields.integer("seed", 0, least=0),
            constraints=plain_numbers(fields.table.get("constraints")),
            memory_limit_mb=fields.integer("memory_limit_mb", None, null=True),
            work_limit=fields.integer("work_limit", None, null=True),
        )

    def result(self, document: object, where: str, settings: Settings) -> SearchResult:
        fields = Fields.of(document, where, self._mistakes, known=(*_HEAD, *_ANSWER), required=_PLAIN)
        table = fields.table
        best = None if table.get("mapping") is None else self._mapping(table["mapping"], f"{where}: mapping")
        cost = None if best is None else self._cost(table.get("cost"), f"{where}: cost", best)
        clash = [str(each) for each in fields.items("clash")]
        front = [self.result(each, f"{where}: front[{i}]", settings) for i, each in enumerate(fields.items("front"))]
        dividing = table.get("dividing")
        found = SearchResult(
            fields.choice("status", "TIMEOUT", STATUSES),
            fields.text("objective", ""),
            best,
            cost,
            self._number(fields, "value", null=True),
            self._number(fields, "bound", null=True),
            self._number(fields, "gap", null=True),
            self._space(table.get("space"), f"{where}: space"),
            self._number(fields, "seconds") or 0.0,
            tuple(clash),
            self._pairs(fields, "values"),
            self._pairs(fields, "bounds"),
            tuple(front),
            dividing=None if dividing is None else self.result(dividing, f"{where}: dividing", settings),
            work=int(self._number(fields, "work") or 0),
            workload=self._workload,
            arch=self._arch,
            settings=settings,
        )
        try:
            differing = "" if self._mistakes else _contradiction(found, self._workload, self._arch)
        except PolymapError as error:
            self._mistakes += [Mistake(each.code, f"{where}: {each.what}", each.hint) for each in error.mistakes]
        else:
            self._mistakes += [Mistake("PM613", f"{where}: {differing}", _HINT)] if differing else []
        return found

    def pair(self, documents: tuple[object, object], where: str) -> tuple[Mapping, Cost] | None:
        mapping = self._mapping(documents[0], f"{where}: mapping")
        cost = None if mapping is None else self._cost(documents[1], f"{where}: cost", mapping)
        return None if mapping is None or cost is None else (mapping, cost)

    def _mapping(self, document: object, where: str) -> Mapping | None:
        try:
            mapping = mapping_from_document(document, where)
            check_mapping(self._workload, self._arch, mapping)
        except PolymapError as error:
            self._mistakes += error.mistakes
            return None
        return mapping

    def _number(self, fields: Fields, name: str, *, null: bool = False) -> int | float | None:
        value = fields.table.get(name)
        found = parsed_number(value)
        if found is None and not (null and value is None) and name in fields.table:
            fields.refuse("PM112", name, "Expected a number.")
        return found

    def _pairs(self, fields: Fields, name: str) -> tuple[tuple[str, int | float], ...]:
        """Return the (name, number) pairs of the table in a field."""
        table = fields.table.get(name, {})
        if not is_table(table):
            fields.refuse("PM112", name, "Expected a table of numbers.")
            return ()
        inner = Fields(table, f"{fields.where}: {name}", self._mistakes)
        return tuple((key, self._number(inner, key) or 0) for key in table)

    def _space(self, document: object, where: str) -> SpaceCount:
        fields = Fields.of(document, where, self._mistakes, known=(*_SPACE, "name"), required=_SPACE)
        counts = [self._number(fields, name, null=True) for name in _SPACE]
        syntactic, legal, distinct, evaluated, pruned, listed, infeasible = (
            None if count is None else int(count) for count in counts
        )
        name = fields.label("name", "") or ""
        return SpaceCount(syntactic, legal, distinct, evaluated or 0, pruned or 0, listed, infeasible, name)

    def _cost(self, document: object, where: str, mapping: Mapping) -> Cost | None:
        before = len(self._mistakes)
        fields = Fields.of(document, where, self._mistakes, known=(*_COST, "wires"), required=_COST)
        told = (self._row(each, f"{where}: traffic[{i}]", _ROW) for i, each in enumerate(fields.items("traffic")))
        rows = tuple(Traffic(level, tensor, *counts) for level, tensor, counts in told)
        told = (self._row(each, f"{where}: wires[{i}]", _WIRE) for i, each in enumerate(fields.items("wires")))
        wires = tuple(WireUse(fanout, tensor, *counts) for fanout, tensor, counts in told)
        names = ("instances", "compute_cycles", "latency_cycles")
        instances, compute, latency = (int(self._number(fields, name) or 0) for name in names)
        broken = enumerate(fields.items("violations"))
        violations = tuple(self._violation(each, f"{where}: violations[{i}]") for i, each in broken)
        stated = self._pairs(fields, "energy_by_level_pj")
        if len(self._mistakes) > before:
            return None
        energies = energies_of(self._workload, self._arch, rows, wires, instances, latency)
        for (name, pj), (level, said) in zip(energies, stated, strict=False):
            if name != level or not isclose(float(pj), said, rel_tol=1e-12):
                what = f"{where}: {shown(level)} takes {said} pJ, but its traffic takes {float(pj)} pJ at '{name}'"
                self._mistakes.append(Mistake("PM613", what, _HINT))
        cost = Cost(
            legal=fields.flag("legal", default=True),
            violations=violations,
            instances=instances,
            method=fields.text("method", ""),
            traffic=rows,
            occupancy_bits=tuple((level, int(bits)) for level, bits in self._pairs(fields, "occupancy_bits")),
            energy_pj=float(self._number(fields, "energy_pj") or 0),
            energy_by_level_pj=tuple((name, float(pj)) for name, pj in stated),
            compute_cycles=compute,
            latency_cycles=latency,
            utilization=float(self._number(fields, "utilization") or 0),
            bottleneck=fields.text("bottleneck", ""),
            energy_by_level_pj_exact=energies,
            wires=wires,
            workload=self._workload,
            arch=self._arch,
            mapping=mapping,
        )
        return self._counted_again(cost, mapping, where)

    def _counted_again(self, told: Cost, mapping: Mapping, where: str) -> Cost:
        """Return what the cost model says of a mapping, and record where the file says something else; where counting
        takes long, return what the file says."""
        try:
            found = evaluate_in_cpu_time(self._workload, self._arch, mapping, TUNING.recount_s)
        except BudgetError:
            return told
        for name in _COMPARED:
            if getattr(told, name) != getattr(found, name):
                what = f"{where}: {name} is not what the mapping has"
                self._mistakes.append(Mistake("PM613", what, _HINT))
        return replace(found, method=told.method)

    def _row(self, document: object, where: str, names: tuple[str, ...]) -> tuple[str, str, list[int]]:
        """Return the two names of a row of counts, which must be known, and its counts."""
        fields = Fields.of(document, where, self._mistakes, known=names, required=names)
        first, second = (fields.text(name, "") for name in names[:2])
        for name, found in zip(names, (first, second), strict=False):
            known = {each.name for each in self._named[name]}
            if name in fields.table and found not in known:
                fields.refuse("PM112", name, f"Expected one of {', '.join(sorted(known))}.")
        return first, second, [int(self._number(fields, name) or 0) for name in names[2:]]

    def _violation(self, document: object, where: str) -> Violation:
        required = ("kind", "message", "witness")
        fields = Fields.of(document, where, self._mistakes, known=required, required=required)
        witness = fields.table.get("witness")
        table: Table[str, object] = witness if is_table(witness) else {}
        points = [self._point(table[name]) for name in ("first", "second") if is_table(table.get(name))]
        kind, message = fields.text("kind", ""), fields.text("message", "")
        if len(points) == 2:
            return Violation(kind, message, (points[0], points[1]))
        values = {name: parsed_number(value) for name, value in table.items()}
        pairs = ((name, value if isinstance(value, int) else str(table[name])) for name, value in values.items())
        return Violation(kind, message, tuple(pairs))

    def _point(self, document: object) -> InstancePoint:
        table: Table[str, object] = document if is_table(document) else {}
        values = tuple((name, int(parsed_number(value) or 0)) for name, value in table.items() if name != "statement")
        return InstancePoint(str(table.get("statement", "")), values)
