"""Costs and results of searches as JSON documents: what `result.save` writes (docs/files.md).

A document names its schema, the version of polymap, and the question: workload, machine, options. Counts beyond 2^53
are decimal strings, because many JSON readers round larger numbers. Tiles and sizes stay integers, so that a printed
mapping or workload is valid input.

A program whose loops a search rewrote is the C text as it was read, and its statements over other loops:

    {"name": "f", "c": "...", "sizes": {}, "associative": true, "rewritten": {
      "dims": {"i": 8, "j": 15}, "folded": {"B": [2, 8]},
      "statements": [{"statement": "S0", "position": [0, 0, 0], "dims": ["i", "j"],
                      "counters": {"i": "i", "j": "-i+j"}, "constraints": ["-i+j", "i-j+7"]}]}}

With `"expanded": true` variables of the text that are one per iteration are arrays over its loops before any array is
folded. Accesses and expressions follow from `counters`: what each loop of the text is over the new ones. Reading trusts
none of it: every instance must run once, in an order that keeps the dependences of the text, and no value may be lost
in a folded buffer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping as Table
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from polymap.costmodel import Cost
from polymap.inputs import (
    Fields,
    arch_to_document,
    as_fraction,
    as_integer,
    expected_list,
    is_list,
    is_name,
    is_table,
    mapping_to_document,
    shown,
)
from polymap.ir import (
    Architecture,
    Dim,
    InputError,
    InstancePoint,
    Mapping,
    Mistake,
    OptionError,
    PolymapError,
    Statement,
    Violation,
    Workload,
    WorkloadError,
    affine,
)
from polymap.search.dividing import OpenStructures
from polymap.search.problem import objective_unit
from polymap.search.programs import (
    TUNING,
    fold_tensor,
    instance_bound,
    may_be_folded,
    program_arrays,
    reorder_arrays,
    with_values,
)
from polymap.search.result import SearchResult, Settings
from polymap.version import __version__
from polymap.workload import (
    affine_text,
    expanded,
    read_affine,
    workload_from_document,
    workload_text,
    workload_to_document,
)

LARGEST_PLAIN = 2**53


def json_text(document: object) -> str:
    """Return the document as JSON text, ASCII, two spaces per level."""
    return json.dumps(document, indent=2, allow_nan=False)


def number(value: int | float | Fraction | None) -> int | float | str | None:
    """Return a number as JSON can represent it: integers beyond 2^53 as text, rationals as integer or float."""
    if isinstance(value, Fraction):
        value = value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, int) and abs(value) > LARGEST_PLAIN:
        return str(value)
    return value


def head_document(kind: str, workload: Workload | None = None, arch: Architecture | None = None) -> dict[str, object]:
    """Return the head of every answer: schema ("polymap.result/1"), version, and the question as far as it is given.

    A program that the search rewrote has its C text and its new loops. One that no document can represent has its name
    and its text.
    """
    head: dict[str, object] = {"schema": f"polymap.{kind}/1", "version": __version__}
    if workload is not None:
        try:
            head["workload"] = workload_to_document(workload)
        except WorkloadError:
            plain = {"name": workload.name, "text": workload_text(workload)}
            head["workload"] = rewritten_document(workload) or plain
    if arch is not None:
        head["arch"] = arch_to_document(arch)
    return head


COST_UNITS = {"traffic": "elements", "occupancy": "bits", "energy": "pJ", "latency": "cycles"}


def fields_document(value: Any) -> dict[str, object]:
    """Return frozen data, and what is inside it, under the names of its fields."""
    return {each.name: _plain_field(getattr(value, each.name)) for each in fields(value)}


def _plain_field(value: object) -> object:
    if is_dataclass(value):
        return fields_document(value)
    return number(value) if isinstance(value, int | Fraction) else value


def violation_document(violation: Violation) -> dict[str, object]:
    """Return a violation with its witness: two instances, or named numbers."""
    witness: dict[str, object] = {}
    points = [item for item in violation.witness if isinstance(item, InstancePoint)]
    for name, point in zip(("first", "second"), points, strict=False):
        witness[name] = {"statement": point.statement, **{dim: number(value) for dim, value in point.values}}
    for item in violation.witness:
        if not isinstance(item, InstancePoint):
            name, value = item
            witness[name] = value if isinstance(value, str) else number(value)
    return {"kind": violation.kind, "message": violation.message, "witness": witness}


def evaluation_document(cost: Cost) -> dict[str, object]:
    """Return the output of `polymap evaluate`: the cost, its question and the mapping."""
    head = head_document("cost", cost.workload, cost.arch)
    return head | {"units": COST_UNITS} | cost_document(cost) | {"mapping": mapping_document(cost.mapping)}


def cost_document(cost: Cost) -> dict[str, object]:
    """Return the figures of a cost, as a part of other answers."""
    wires: dict[str, object] = {"wires": [fields_document(each) for each in cost.wires]} if cost.wires else {}
    return {
        "legal": cost.legal,
        "violations": [violation_document(violation) for violation in cost.violations],
        "instances": number(cost.instances),
        "method": cost.method,
        "traffic": [fields_document(each) for each in cost.traffic],
        "occupancy_bits": {level: number(bits) for level, bits in cost.occupancy_bits},
        "energy_pj": cost.energy_pj,
        "energy_by_level_pj": dict(cost.energy_by_level_pj),
        "compute_cycles": number(cost.compute_cycles),
        "latency_cycles": number(cost.latency_cycles),
        "utilization": cost.utilization,
        "bottleneck": cost.bottleneck,
        **wires,
    }


def mapping_document(mapping: Mapping | None) -> object:
    """Return the loop tree as a document that `--mapping` reads, null for none."""
    return None if mapping is None else mapping_to_document(mapping)


def result_document(result: SearchResult) -> dict[str, object]:
    """Return the document that `polymap explore` prints and `result.save` writes."""
    names = [name for name, _ in result.values] or [result.objective]
    head = head_document("result", result.workload, result.arch)
    options = {"options": _settings_document(result.settings), "units": units_document(names)}
    more = {} if result.prices is None else {"sensitivity": result.prices}
    return head | options | _answer_document(result) | more


def units_document(objectives: Iterable[str]) -> dict[str, object]:
    """Return the units of the values of objectives (null: none), and of the figures of a cost."""
    return {"value": {name: objective_unit(name) or None for name in objectives}, **COST_UNITS}


def _settings_document(settings: Settings) -> dict[str, object]:
    return {
        "tiles": settings.tiles,
        "seed": settings.seed,
        "time_limit_s": float(settings.time_limit_s),
        "workers": settings.workers,
        "memory_limit_mb": settings.memory_limit_mb,
        "work_limit": settings.work_limit,
        "constraints": _plain_values(settings.constraints),
    }


def _plain_values(value: object) -> object:
    """Return constraints, as Python or JSON users write them, as JSON values."""
    if is_table(value):
        return {name: _plain_values(inner) for name, inner in value.items()}
    if is_list(value):
        return [_plain_values(inner) for inner in value]
    if isinstance(value, str | bool) or value is None:
        return value
    exact = as_fraction(value)
    return str(value) if exact is None else number(exact)


def _answer_document(result: SearchResult) -> dict[str, object]:
    document = _plain_document(result)
    if result.clash:
        document["clash"] = list(result.clash)
    if result.dividing is not None:
        document["dividing"] = _answer_document(result.dividing)
    if result.values:
        document["values"] = {name: number(value) for name, value in result.values}
        document["bounds"] = {name: number(value) for name, value in result.bounds}
    if result.front:
        document["front"] = [_answer_document(point) for point in result.front]
    return document


def _plain_document(result: SearchResult) -> dict[str, object]:
    return {
        "status": result.status,
        "objective": result.objective,
        "value": number(result.value),
        "bound": number(result.bound),
        "gap": result.gap,
        "seconds": result.seconds,
        "mapping": mapping_document(result.best),
        "cost": None if result.cost is None else cost_document(result.cost),
        "space": {name: value for name, value in fields_document(result.space).items() if value != ""},
        "work": number(result.work),
    }


C_FIELDS = ("name", "c", "sizes", "associative")
_FIELDS = ("dims", "statements", "folded", "expanded")
_STATEMENT = ("statement", "position", "dims", "counters", "constraints")
_MOST_DIMS, _MOST_PLACE = 64, 10_000
_LARGEST = 2**60  # of a program's places in its order
_HINT = "The file was changed after it was written."


def rewritten_document(workload: Workload) -> dict[str, object] | None:
    """Return the document of a rewritten C program, from which `rewritten_from_document` returns an equal one.

    None for programs without one.
    """
    original = workload.original
    if original is None or not original.source:
        return None
    document: dict[str, object] = {"name": workload.name, "c": original.source, "sizes": dict(original.sizes)}
    document["associative"] = workload.associative
    try:
        text = workload_from_document(document)
    except PolymapError:
        return None
    is_expanded = {each.name for each in text.tensors} != {each.name for each in workload.tensors}
    text = expanded(text) if is_expanded else text
    shapes = {each.name: each.shape for each in text.tensors}
    new = {each.name: each.shape for each in workload.tensors if each.shape != shapes.get(each.name)}
    rewritten: dict[str, object] = {
        "dims": workload.extents(),
        "statements": [_statement_document(each) for each in workload.statements],
    }
    if is_expanded:
        rewritten["expanded"] = True
    if new:
        rewritten["folded"] = {name: list(shape) for name, shape in new.items()}
    mistakes: list[Mistake] = []
    built = _rewritten_program(text, rewritten, "the program", mistakes)
    if mistakes or built is None or _in_buffers(*built) != workload:
        return None
    return document | {"rewritten": rewritten}


def _statement_document(statement: Statement) -> dict[str, object]:
    own = statement.counters or tuple((name, affine(((1, name),))) for name in statement.dims)
    return {
        "statement": statement.name,
        "position": list(statement.position),
        "dims": list(statement.dims),
        "counters": {name: affine_text(value) for name, value in own},
        "constraints": [affine_text(each) for each in statement.constraints],
    }


def rewritten_from_document(document: Table[str, object], where: str) -> Workload:
    """Return the rewritten program of a document that has the field "rewritten".

    Raises InputError or WorkloadError where a statement instance of the C text is missing or runs twice, a dependence
    is violated, a value is lost, or there are too many instances to check.
    """
    text = workload_from_document({name: value for name, value in document.items() if name != "rewritten"})
    mistakes: list[Mistake] = []
    rewritten = document["rewritten"]
    if is_table(rewritten) and rewritten.get("expanded") is True:
        text = expanded(text)
    built = _rewritten_program(text, rewritten, f"{where}: rewritten", mistakes)
    if mistakes or built is None:
        raise InputError(mistakes)
    program, moduli = built
    refused = _refusal(text, program, moduli)
    if refused:
        raise InputError(Mistake("PM613", f"{where}: rewritten {refused}", _HINT))
    return _in_buffers(program, moduli)


def _refusal(text: Workload, program: Workload, moduli: Table[str, tuple[int, ...]]) -> str:
    """Return the reason why the program is not a rewriting of the text; "" where it is one."""
    if max(instance_bound(text), instance_bound(program)) > TUNING.most_instances or not _has_short_order(program):
        return (
            f"has too many statement instances to be checked (at most {TUNING.most_instances:,} in the boxes of loops)"
        )
    arrays = reorder_arrays(program_arrays(text), program)
    if arrays is None:
        return "is no rewriting of the C text: it does not run each instance once in an order that keeps dependences"
    for name, shape in moduli.items():
        tensor = text.tensor(name)
        if not tensor.temporary or tensor.initial or not may_be_folded(arrays, tensor, shape):
            return f"loses values of {name} in a buffer of the shape {list(shape)}"
    return ""


def _has_short_order(program: Workload) -> bool:
    """Return whether the position of an instance in the program's order fits in one int64."""
    size, extents = 1, program.extents()
    for place in range(max((len(each.position) for each in program.statements), default=0)):
        own = [each for each in program.statements if place < len(each.position)]
        size *= max(each.position[place] for each in own) + 1
        size *= max((extents[each.dims[place]] for each in own if place < len(each.dims)), default=1)
    return size < _LARGEST


def _in_buffers(program: Workload, moduli: Table[str, tuple[int, ...]]) -> Workload:
    for name, shape in moduli.items():
        program = fold_tensor(program, program.tensor(name), shape)
    return program


Built = tuple[Workload, dict[str, tuple[int, ...]]]  # the program before arrays are folded, and by what they are


def _rewritten_program(text: Workload, document: object, where: str, mistakes: list[Mistake]) -> Built | None:
    """Return the program of the document, its statements over their new loops; record mistakes."""
    fields = Fields.of(document, where, mistakes, known=_FIELDS, required=_FIELDS[:2])
    extents = _extents(fields)
    known = {(each.name, each.extent): each for each in text.dims}
    dims = tuple(known.get((name, extent), Dim(name, extent)) for name, extent in extents.items())
    statements: list[Statement] = []
    for number, each in enumerate(fields.items("statements")):
        found = _statement(text, each, extents, f"{where}: statements[{number}]", mistakes)
        statements += [] if found is None else [found]
    names = [each.name for each in statements]
    if not mistakes and sorted(names) != sorted(each.name for each in text.statements):
        mistakes.append(Mistake("PM613", f"{where}: not every statement of the C text stands there once", _HINT))
    if not mistakes and len({each.position for each in statements}) < len(statements):
        mistakes.append(Mistake("PM613", f"{where}: two statements have one position", _HINT))
    moduli = _moduli(text, fields)
    if fields.table.get("expanded", True) is not True:
        fields.refuse("PM112", "expanded", "Expected true, or no such field.")
    if mistakes:
        return None
    return replace(text, dims=dims, statements=tuple(statements)), moduli


def _extents(fields: Fields) -> dict[str, int]:
    table = fields.table.get("dims", {})
    if not is_table(table) or len(table) > _MOST_DIMS or not all(is_name(name) for name in table):
        fields.refuse("PM112", "dims", f"Expected a table of at most {_MOST_DIMS} names with their sizes.")
        return {}
    inner = Fields(table, f"{fields.where}: dims", fields.mistakes)
    return {name: inner.integer(name, 1) for name in table}


def _moduli(text: Workload, fields: Fields) -> dict[str, tuple[int, ...]]:
    table = fields.table.get("folded", {})
    tensors = {each.name: each for each in text.tensors}
    found: dict[str, tuple[int, ...]] = {}
    for name, value in table.items() if is_table(table) else ():
        sizes = [as_integer(each) for each in expected_list(value, "folded")] if is_list(value) else []
        shape = tensors[name].shape if name in tensors else ()
        if not sizes or len(sizes) != len(shape):
            break
        moduli = tuple(each or 0 for each in sizes)
        if not all(1 <= each <= size for each, size in zip(moduli, shape, strict=True)):
            break
        found[name] = moduli
    if not is_table(table) or len(found) < len(table):
        fields.refuse("PM112", "folded", "Expected arrays of the C text with shapes that are at most theirs.")
    return found


def _statement(
    text: Workload, document: object, extents: Table[str, int], where: str, mistakes: list[Mistake]
) -> Statement | None:
    """Return a statement of the text over its new loops, or None after recording mistakes."""
    before = len(mistakes)
    fields = Fields.of(document, where, mistakes, known=_STATEMENT, required=_STATEMENT)
    names = [each.name for each in text.statements]
    name, dims = fields.choice("statement", "", names), fields.names("dims", ())
    position = tuple(_place(each) for each in fields.items("position"))
    if len(mistakes) == before and (len(position) != len(dims) + 1 or None in position):
        fields.refuse("PM112", "position", "Expected an integer >= 0 before, between and after the loops.")
    if any(each not in extents for each in dims):
        fields.refuse("PM113", "dims", f"Expected dims among {', '.join(extents)}.")
    counters = fields.table.get("counters")
    if len(mistakes) > before:
        return None
    statement = text.statement(name)
    if not is_table(counters) or set(counters) != set(statement.dims):
        fields.refuse("PM112", "counters", f"Expected an expression for each of {', '.join(statement.dims)}.")
        return None
    own = {each: extents[each] for each in dims}
    values = {each: read_affine(counters[each], own, f"{where}: counters: {each}", mistakes) for each in statement.dims}
    items = enumerate(fields.items("constraints"))
    constraints = [read_affine(each, own, f"{where}: constraints[{place}]", mistakes) for place, each in items]
    if len(mistakes) > before:
        return None
    places = tuple(each or 0 for each in position)
    return replace(with_values(statement, values), dims=dims, position=places, constraints=tuple(constraints))


def _place(value: object) -> int | None:
    number = as_integer(value)
    return number if number is not None and 0 <= number <= _MOST_PLACE else None


_OPEN_LISTS = ("queue", "searched", "refuted")


def open_document(left: OpenStructures) -> dict[str, Any]:
    """Return the document of what is left."""
    queue = [list(entry) for entry in left.queue]
    counts = {"listed": left.listed, "bounded": left.bounded}
    return counts | {"queue": queue, "searched": list(left.searched), "refuted": list(left.refuted)}


def open_from_document(document: object) -> OpenStructures:
    """Return what a document says is left. Raises OptionError (PM120) for one that no answer has."""
    try:
        return _open_structures(document)
    except (TypeError, ValueError, KeyError, IndexError):
        what = f"what the question says is open is {shown(document)}"
        raise OptionError(Mistake("PM120", what, 'Use "open" of an answer as it is, or leave it out.')) from None


def _open_structures(told: object) -> OpenStructures:
    if not is_table(told) or not all(is_list(told.get(name)) for name in _OPEN_LISTS):
        raise TypeError
    document: dict[str, Any] = dict(told)
    listed, bounded = _number(document["listed"]), _number(document["bounded"])
    queue = tuple(
        (_integer(bound), _integer(stage), _number(number, bounded - 1))
        for bound, stage, number, *_ in document["queue"]
    )
    searched, refuted = (tuple(_number(each, listed - 1) for each in document[name]) for name in _OPEN_LISTS[1:])
    if bounded > listed or any(stage not in (0, -1, -2) for _, stage, _ in queue):
        raise ValueError
    return OpenStructures(listed, bounded, queue, searched, refuted)


def _integer(value: object) -> int:
    found = as_integer(value)
    if found is None:
        raise TypeError
    return found


def _number(value: object, most: int | None = None) -> int:
    """Return an integer from 0 on, up to `most`."""
    found = _integer(value)
    if found < 0 or (most is not None and found > most):
        raise ValueError
    return found
