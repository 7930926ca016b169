"""Programs of any statements as JSON: each statement with its loops, its place and its value.

    {"name": "program", "sizes": {"m": 64, "n": 64, "k": 64}, "temporary": ["T"], "statements": [
      {"dims": ["m", "n", "k"], "target": "T[m,n]", "operator": "+=", "reads": ["A[m,k]", "B[k,n]"]},
      {"dims": ["m", "n"], "target": "C[m,n]", "operator": "=", "reads": ["T[m,n]"], "value": ["exp", 0]}]}

A value is the number of a read, a list of an operation and its arguments, a number of C, an index of dims, or a
conversion; without one it is the product of what is read. Statements run one after the other, each in loops of its
own, unless they have a `position`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Table, Sequence
from dataclasses import dataclass

from polymap import ir
from polymap.inputs import Fields, as_integer, is_list, is_name, is_table, shown
from polymap.workload.c import arguments_of
from polymap.workload.dependence_analysis import unset_read
from polymap.workload.einsums import (
    ELEMENT_TYPES,
    Extras,
    checked_extent,
    checked_label,
    hulls_of,
    listed_names,
    product_of_reads,
    roles_of,
    widths_of,
)
from polymap.workload.notation import access_text, affine_text, read_affine
from polymap.workload.tuning import TUNING

FIELDS = ("name", "statements", "sizes", "bits", "types", "roles", "initial", "temporary", "associative")
_STATEMENT = ("dims", "target", "operator", "reads", "value", "name", "constraints", "position", "counters")
_ACCESS = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[(.*)\])?\s*", re.ASCII | re.DOTALL)
_FRACTION = r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?[fF]?"
_NUMBER = re.compile(rf"[0-9]+[uU]?[lL]{{0,2}}|{_FRACTION}", re.ASCII)
_TWO = ("+", "-", "*", "/", "%", "max", "min", "<", "<=", "==", "!=", "&&", "||", "<<", ">>", "&", "|", "^")
_ARGUMENTS = dict.fromkeys(_TWO, 2) | {"?:": 3, "neg": 1, "!": 1}
_VALUE = (
    'Expected the number of a read, ["+", 0, 1] and the like, {"number": "0.5f"}, {"index": "2*i"} or a conversion.'
)


@dataclass(frozen=True, slots=True)
class _Values:
    """Reads the values of a statement over loops of these extents; notes mistakes."""

    extents: Table[str, int]
    where: str
    mistakes: list[ir.Mistake]

    def access(self, text: object) -> ir.Access:
        """Return the access in a text such as "T[2*p+r,q]"."""
        match = _ACCESS.fullmatch(text) if isinstance(text, str) and len(text) <= TUNING.most_text else None
        if match is None or not is_name(match[1]):
            self.mistakes.append(ir.Mistake("PM112", f"{self.where}: {shown(text)} is no access", "Expected T[i,j+1]."))
            return ir.Access("", ())
        indices = match[2].split(",") if match[2] else ()
        index = (read_affine(each, self.extents, f"{self.where}: {match[1]}", self.mistakes) for each in indices)
        return ir.Access(match[1], tuple(index))

    def value(self, document: object, many: int, depth: int = 0) -> ir.Expression:
        number = as_integer(document)
        if number is not None and 0 <= number < many:
            return ir.Read(number)
        if is_list(document) and document and depth < TUNING.most_expression_depth:
            name, *inner = document
            if isinstance(name, str) and len(inner) == (_ARGUMENTS.get(name) or arguments_of(name) or -1):
                return ir.Apply(name, tuple(self.value(each, many, depth + 1) for each in inner))
        if is_table(document) and depth < TUNING.most_expression_depth:
            match document:
                case {"number": str(text), **rest} if not rest and _NUMBER.fullmatch(text):
                    return ir.Number(text)
                case {"index": index, **rest} if not rest:
                    return ir.Index(read_affine(index, self.extents, f"{self.where}: index", self.mistakes))
                case {"convert": str(kind), "value": value, **rest} if kind in ELEMENT_TYPES and set(rest) <= {"cast"}:
                    return ir.Convert(kind, self.value(value, many, depth + 1), bool(rest))
                case _:
                    pass
        self.mistakes.append(ir.Mistake("PM112", f"{self.where}: the value holds {shown(document)}", _VALUE))
        return ir.Number("0")


def _value_document(value: ir.Expression) -> object:
    match value:
        case ir.Read(number):
            return number
        case ir.Number(text):
            return {"number": text}
        case ir.Index(index):
            return {"index": affine_text(index)}
        case ir.Apply(name, arguments):
            return [name, *(_value_document(each) for each in arguments)]
        case ir.Convert(kind, inner, written):
            own = {"convert": kind, "value": _value_document(inner)}
            return own | {"cast": True} if written else own


def program_to_document(workload: ir.Workload) -> dict[str, object]:
    """Return the document of a program; of some (that arrays are larger than what is accessed) it is another one's."""
    tensors = workload.tensors
    document: dict[str, object] = {
        "name": workload.name,
        "statements": [_statement_document(each) for each in workload.statements],
        "sizes": workload.extents(),
        "bits": {tensor.name: tensor.bits for tensor in tensors if tensor.element_type is None},
        "types": {tensor.name: tensor.element_type for tensor in tensors if tensor.element_type is not None},
        "roles": {tensor.name: tensor.role.value for tensor in tensors},
        "initial": [tensor.name for tensor in tensors if tensor.initial],
        "temporary": [tensor.name for tensor in tensors if tensor.temporary],
        "associative": workload.associative,
    }
    return {name: value for name, value in document.items() if value or name not in ("bits", "types")}


def _statement_document(statement: ir.Statement) -> dict[str, object]:
    document: dict[str, object] = {
        "name": statement.name,
        "dims": list(statement.dims),
        "target": access_text(statement.target),
        "operator": statement.operator.value,
        "reads": [access_text(each) for each in statement.reads],
        "position": list(statement.position),
    }
    if statement.expression != product_of_reads(len(statement.reads)):
        document["value"] = _value_document(statement.expression)
    if statement.constraints:
        document["constraints"] = [affine_text(each) for each in statement.constraints]
    if statement.counters:
        document["counters"] = {name: affine_text(value) for name, value in statement.counters}
    return document


def program_from_document(document: Table[str, object]) -> ir.Workload:
    """Return the program of a document with the field "statements"; WorkloadError with every mistake."""
    mistakes: list[ir.Mistake] = []
    fields = Fields.of(document, "the workload", mistakes, known=FIELDS, required=("statements", "sizes"))
    sizes = _table(fields, "sizes", "Expected a table from dim to integer.")
    extents = {name: checked_extent(name, size, mistakes) for name, size in sizes.items()}
    items = fields.items("statements")
    if not items:
        mistakes.append(ir.Mistake("PM112", "statements is no list of statements", "Expected at least one."))
    statements = [_statement(each, number, extents, mistakes) for number, each in enumerate(items)]
    if len({each.position for each in statements}) < len(statements):
        mistakes.append(ir.Mistake("PM112", "two statements have one position", "Leave the positions out."))
    if len({each.name for each in statements}) < len(statements):
        mistakes.append(ir.Mistake("PM112", "two statements have one name", "Leave the names out."))
    if mistakes:
        raise ir.WorkloadError(mistakes)
    return _workload(document, extents, statements, fields)


def _table(fields: Fields, name: str, expected: str) -> Table[str, object]:
    """Return the table from names in a field; {} where it is absent or something else."""
    found = fields.table.get(name, {})
    if is_table(found) and all(map(is_name, found)):
        return found
    fields.refuse("PM112", name, expected)
    return {}


def _statement(document: object, number: int, extents: Table[str, int], mistakes: list[ir.Mistake]) -> ir.Statement:
    where = f"statements[{number}]"
    fields = Fields.of(document, where, mistakes, known=_STATEMENT, required=_STATEMENT[:4])
    dims = fields.names("dims", ())
    for name in dims:
        if name not in extents:
            mistakes.append(ir.Mistake("PM204", f"unknown dim {name} in {where}: it has no size", "Add it to sizes."))
    own = {name: extents.get(name, 1) for name in dims}
    reader = _Values(own, where, mistakes)
    target, reads = reader.access(fields.table.get("target")), tuple(map(reader.access, fields.items("reads")))
    value = reader.value(fields.table["value"], len(reads)) if fields.has("value") else product_of_reads(len(reads))
    constraints = enumerate(fields.items("constraints"))
    counters = _table(fields, "counters", "Expected a table from counter to expression.")
    places = [as_integer(each) for each in fields.items("position")] or [number, *(0 for _ in dims)]
    if len(places) != len(dims) + 1 or not all(each is not None and 0 <= each <= TUNING.most_place for each in places):
        fields.refuse("PM112", "position", "Expected an integer >= 0 before, between and after the loops.")
    return ir.Statement(
        fields.name("name", f"S{number}"),
        dims,
        tuple(read_affine(each, own, f"{where}: constraints[{place}]", mistakes) for place, each in constraints),
        target,
        ir.Operator(fields.choice("operator", "=", [each.value for each in ir.Operator])),
        reads,
        value,
        tuple(each or 0 for each in places),
        counters=tuple(
            (name, read_affine(each, own, f"{where}: counters", mistakes)) for name, each in counters.items()
        ),
    )


def _workload(
    document: Table[str, object], extents: Table[str, int], statements: Sequence[ir.Statement], fields: Fields
) -> ir.Workload:
    """Return the program of statements that have been read."""
    mistakes = fields.mistakes
    accesses = [each for one in statements for each in (one.target, *one.reads)]
    names = tuple(dict.fromkeys(each.tensor for each in accesses))
    ranks = {each.tensor: len(each.index) for each in accesses}
    if any(len(each.index) != ranks[each.tensor] for each in accesses):
        raise ir.WorkloadError(ir.Mistake("PM209", "the number of indices of a tensor differs between its accesses"))
    sites = [
        ((one.target, *one.reads), {name: extents[name] for name in one.dims}, one.constraints) for one in statements
    ]
    hulls = hulls_of(sites, mistakes)
    extras = Extras(document.get("bits"), document.get("types"), document.get("roles"), name=document.get("name"))
    written = {one.target.tensor for one in statements}
    inputs = [name for name in names if name not in written]
    usual = (
        dict.fromkeys(names, ir.Role.WEIGHT)
        | dict.fromkeys(inputs[:1], ir.Role.INPUT)
        | dict.fromkeys(sorted(written), ir.Role.OUTPUT)
    )
    widths, roles = widths_of(names, extras, mistakes), roles_of(names, usual, extras.roles, mistakes)
    initial, temporary = (
        listed_names(each, document.get(each, ()), names, mistakes) for each in ("initial", "temporary")
    )
    label, associative = checked_label(extras.name, mistakes), fields.flag("associative", default=True)
    if mistakes:
        raise ir.WorkloadError(mistakes)
    tensors = tuple(
        ir.Tensor(name, *hulls[name], widths[name][0], roles[name], widths[name][1], name in initial, name in temporary)
        for name in names
    )
    dims = tuple(ir.Dim(name, extent) for name, extent in extents.items())
    program = ir.Workload(label or "program", dims, tensors, tuple(statements), associative)
    if program.instances_of_boxes() > TUNING.most_instances:
        raise ir.WorkloadError(ir.Mistake("PM216", "the program has more than 10^1000 instances"))
    for name in sorted(written.difference(initial)):
        if ir.starting_operator(program, name) is None and unset_read(program, name) is not None:
            mistakes.append(
                ir.Mistake("PM269", f"{name} is read before it is set", "Set it first, or list it in initial.")
            )
    if mistakes:
        raise ir.WorkloadError(mistakes)
    return program
