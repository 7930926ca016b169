"""A program whose loops a search rewrote, as a JSON document: the C text as it was read, and its statements over other
loops.

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

import re
from collections.abc import Mapping as Table
from dataclasses import replace

from polymap.inputs import Fields, as_integer, expected_list, is_list, is_name, is_table, shown
from polymap.ir import Affine, Dim, Floor, InputError, Mistake, PolymapError, Statement, Workload, affine
from polymap.search.programs import (
    TUNING,
    folded,
    instance_bound,
    may_be_folded,
    program_arrays,
    reordered,
    with_values,
)
from polymap.workload import affine_text, expanded, workload_from_document

C_FIELDS = ("name", "c", "sizes", "associative")
_FIELDS = ("dims", "statements", "folded", "expanded")
_STATEMENT = ("statement", "position", "dims", "counters", "constraints")
_TOKEN = re.compile(r"\s*([0-9]+|[A-Za-z_]\w*|[-+*/()])", re.ASCII)
_MOST_TEXT, _MOST_DEPTH, _MOST_DIMS, _MOST_PLACE = 4_000, 20, 64, 10_000
_LARGEST = 2**60  # of values of expressions, and of a program's places in its order
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
    arrays = reordered(program_arrays(text), program)
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
        program = folded(program, program.tensor(name), shape)
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
    values = {
        each: _parsed_expression(counters[each], own, f"{where}: counters: {each}", mistakes) for each in statement.dims
    }
    items = enumerate(fields.items("constraints"))
    constraints = [_parsed_expression(each, own, f"{where}: constraints[{place}]", mistakes) for place, each in items]
    if len(mistakes) > before:
        return None
    places = tuple(each or 0 for each in position)
    return replace(with_values(statement, values), dims=dims, position=places, constraints=tuple(constraints))


def _place(value: object) -> int | None:
    number = as_integer(value)
    return number if number is not None and 0 <= number <= _MOST_PLACE else None


def _parsed_expression(text: object, extents: Table[str, int], where: str, mistakes: list[Mistake]) -> Affine:
    """Return the expression that `affine_text` wrote; record mistakes."""
    if isinstance(text, str) and len(text) <= _MOST_TEXT:
        found = _Expression(text).whole()
        if found is not None and set(found.dims) <= set(extents) and _largest_intermediate(found, extents) < _LARGEST:
            return found
    hint = f"Expected a sum of multiples of {', '.join(extents) or 'nothing'} and of floor((...)/integer)."
    mistakes.append(Mistake("PM112", f"{where} is {shown(text)}", hint))
    return Affine()


def _largest_intermediate(value: Affine, extents: Table[str, int]) -> int:
    """Return an upper bound on all intermediate sums of the value."""
    total = abs(value.constant)
    for factor, atom in value.terms:
        inner = extents[atom] if isinstance(atom, str) else _largest_intermediate(atom.argument, extents)
        total += max(abs(factor), 1) * inner
    return total


class _Expression:
    """Reads sums such as `2*i-floor((i+3)/8)+1`."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            self._tokens.append("?" if match is None else match[1])
            at = len(text) if match is None else match.end()
        self._tokens.append("")
        self._at = 0

    def whole(self) -> Affine | None:
        try:
            found = self._sum(0)
        except ValueError:
            return None
        return found if self._tokens[self._at] == "" else None

    def _sum(self, depth: int) -> Affine:
        if depth > _MOST_DEPTH:
            raise ValueError("too deep")
        terms: list[tuple[int, str | Floor]] = []
        constant, first = 0, True
        while first or self._tokens[self._at] in ("+", "-"):
            sign = {"-": -1, "+": 1}.get(self._tokens[self._at], 0)
            self._at += sign != 0
            factor, atom = self._term(depth)
            factor, first = factor * (sign or 1), False
            if atom is None:
                constant += factor
            else:
                terms.append((factor, atom))
        return affine(tuple(terms), constant)

    def _term(self, depth: int) -> tuple[int, str | Floor | None]:
        token, factor = self._tokens[self._at], 1
        if token.isdigit():
            self._at += 1
            factor = int(token)
            if self._tokens[self._at] != "*":
                return factor, None
            self._at += 1
            token = self._tokens[self._at]
        if not is_name(token):
            raise ValueError(token)
        self._at += 1
        if token != "floor" or self._tokens[self._at] != "(":
            return factor, token
        self._expect("(", "(")
        argument = self._sum(depth + 1)
        self._expect(")", "/")
        divisor = int(self._tokens[self._at])
        if divisor < 1:
            raise ValueError("no divisor")
        self._at += 1
        self._expect(")")
        return factor, Floor(argument, divisor)

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if self._tokens[self._at] != token:
                raise ValueError(token)
            self._at += 1
