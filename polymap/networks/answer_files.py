"""Reads back what any answer's `save` and any command's `--json` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping as Table
from pathlib import Path
from typing import Any

from polymap.costmodel import Cost
from polymap.inputs import (
    LIMITS,
    answers_in_words,
    arch_from_document,
    expected_kind,
    is_table,
    parse_json,
    read_text,
    refuse_yaml,
    shown,
)
from polymap.ir import InputError, Mistake, PolymapError
from polymap.networks.comparison import Comparison, Member
from polymap.networks.read_back import (
    curve_from_document,
    network_answer_from_document,
    sensitivity_from_document,
    sweep_from_document,
)
from polymap.search import mapping_with_cost, parsed_number, plain_numbers, result_from_document
from polymap.search.problem import objective_values, parse_single
from polymap.workload import workload_from_document


@answers_in_words
def load_result(path: str | Path) -> Any:
    """Return the answer that its `save(path)` or a command's `--json` wrote: a SearchResult (`explore`), NetworkAnswer
    (`explore` of a network), SweepTable (`sweep`), Comparison (`compare`), Cost (`evaluate`), Sensitivity or
    BufferCurve; it equals the original. What other commands wrote (`check`, `codegen`, `transform`, `verify`, `list`)
    is a table.

    It has no history, cannot be resumed and has no certificate. Raises
    InputError, with every mistake, for a file that is no such answer, has another format version, or contradicts
    itself.
    """
    path = Path(path) if isinstance(path, str) else expected_kind(path, Path, "the path", InputError)
    refuse_yaml(path, "result")
    where = shown(path.name)
    document = parse_json(read_text(path, LIMITS.answer_bytes), where, LIMITS.answer_bytes)
    if not is_table(document) or "schema" not in document:
        hint = "Expected what an answer's save() or `polymap explore --json FILE` wrote."
        raise InputError(Mistake("PM611", f"{where} is no result: it names no schema", hint))
    schema = document["schema"]
    read = _READERS.get(schema) if isinstance(schema, str) else None
    if read is None:
        what = f"{where} has the schema {shown(schema)}"
        raise InputError(Mistake("PM612", what, f"Answers of these schemas are read here: {', '.join(_READERS)}."))
    try:
        return read(document, where)
    except InputError:
        raise
    except PolymapError as error:
        raise InputError([Mistake(each.code, f"{where}: {each.what}", each.hint) for each in error.mistakes]) from None
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, StopIteration) as error:
        hint = "Write it again with the command or the method that made it."
        raise InputError(Mistake("PM611", f"{where} is not as it was written: {error}", hint)) from None


def _cost(document: Table[str, Any], where: str) -> Cost:
    workload = workload_from_document(document["workload"])
    arch = arch_from_document(document["arch"], "arch")
    figures = {name: value for name, value in document.items() if name not in _COST_HEAD}
    return mapping_with_cost(workload, arch, (document["mapping"], figures), where)[1]


def _comparison(document: Table[str, Any], where: str) -> Comparison:
    workload = workload_from_document(document["workload"])
    arch = arch_from_document(document["arch"], "arch")
    goal = parse_single(document["objective"], arch)
    members: list[Member] = []
    for number, each in enumerate(document["members"]):
        place, found, value = f"{where}: members[{number}]", (None, None), None
        if each["mapping"] is not None:
            found = mapping_with_cost(workload, arch, (each["mapping"], each["cost"]), place)
            value = float(objective_values(workload, arch, goal, found[1])[0])
        bound = float(parsed_number(each["bound"]) or 0)
        member = Member(str(each["family"]), str(each["status"]), *found, value, bound)
        told = parsed_number(each["value"]), parsed_number(each["gap"])
        if told != (value, member.gap) or (member.gap or 0) < 0 or (member.gap and member.status == "OPTIMAL"):
            raise ValueError(f"{place} has other numbers than its mapping, whose value is {value}")
        members.append(member)
    optimum, proven = parsed_number(document["optimum"]), bool(document["proven"])
    if any(each.value is not None and (optimum is None or each.value < optimum) for each in members):
        raise ValueError(f"a member's value is below the optimum {optimum}")
    options = plain_numbers(document.get("options"))
    return Comparison(workload, arch, goal.text, tuple(members), optimum, proven, options)


def _table(document: Table[str, Any], _: str) -> object:
    return plain_numbers(document)


_COST_HEAD = ("schema", "version", "workload", "arch", "units", "mapping")
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "polymap.result/1": result_from_document,
    "polymap.network/1": network_answer_from_document,
    "polymap.sweep/1": sweep_from_document,
    "polymap.comparison/1": _comparison,
    "polymap.cost/1": _cost,
    "polymap.sensitivity/1": sensitivity_from_document,
    "polymap.curve/1": curve_from_document,
} | {f"polymap.{kind}/1": _table for kind in ("check", "program", "transform", "verdict", "list")}
