"""Workloads as JSON documents and back, and what the command line calls WORKLOAD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from polymap.inputs import Fields, is_table, mistakes_in, parse_integer, parse_json, read_text, refuse_yaml, shown
from polymap.ir import Affine, Mistake, Workload, WorkloadError
from polymap.workload.einsums import Extras, build
from polymap.workload.networks import builtin_workload
from polymap.workload.notation import affine_text, einsum_text, read_index

FIELDS = ("name", "einsum", "sizes", "bits", "types", "roles", "initial", "temporary", "associative", "constraints")
_OTHER_FILES = (".toml", ".yaml", ".yml", ".txt", ".cpp", ".cc", ".h", ".py", ".onnx", ".pt")
_SIZE = re.compile(r"([^=]*)=(.*)", re.DOTALL)


def workload_from_document(document: object) -> Workload:
    """Return the workload that a document (a parsed JSON file) describes; WorkloadError with every mistake.

    Beyond the fields of an einsum, `constraints` lists expressions of its dims, each >= 0 at every statement instance
    (a convolution that skips its padding is written so).
    """
    mistakes: list[Mistake] = []
    if is_table(document) and "nodes" in document and "einsum" not in document:
        hint = "Machines are given to --arch, mappings to --mapping; a workload has the field 'einsum'."
        raise WorkloadError(Mistake("PM234", "the workload is a machine or a mapping: it has the field 'nodes'", hint))
    fields = Fields.of(document, "the workload", mistakes, known=FIELDS, required=("einsum",))
    table = fields.table
    for name in ("name", "bits", "types", "roles"):
        if name in table and table[name] is None:
            fields.refuse("PM112", name, "Leave the field out for its default.")
    sizes = table.get("sizes", {})
    if not is_table(sizes):
        fields.refuse("PM112", "sizes", "Expected a table from dim to integer.")
    constraints = _constraints(fields.items("constraints"), mistakes)
    if "einsum" not in table:
        raise WorkloadError(mistakes)
    extras = Extras(
        bits=table.get("bits"),
        types=table.get("types"),
        roles=table.get("roles"),
        initial=table.get("initial", ()),
        temporary=table.get("temporary", ()),
        associative=table.get("associative", True),
        name=table.get("name"),
    )
    return build(table["einsum"], sizes if is_table(sizes) else {}, extras, mistakes, constraints)


def workload_to_document(workload: Workload) -> dict[str, object]:
    """Return the document that `workload_from_document` reads back as an equal workload.

    Raises WorkloadError for a workload that is no einsum (a C program).
    """
    refusal = WorkloadError(
        Mistake(
            "PM231", f"the workload {shown(workload.name)} cannot be written as JSON", "Only einsums and layers can."
        )
    )
    statement = workload.statements[0]
    accesses = (statement.target, *statement.reads)
    indices = [index for access in accesses for index in access.index]
    if len(workload.statements) > 1 or not all(index.is_linear for index in (*indices, *statement.constraints)):
        raise refusal
    tensors = workload.tensors
    document: dict[str, object] = {
        "name": workload.name,
        "einsum": einsum_text(statement),
        "sizes": workload.extents(),
        "bits": {tensor.name: tensor.bits for tensor in tensors if tensor.element_type is None},
        "types": {tensor.name: tensor.element_type for tensor in tensors if tensor.element_type is not None},
        "roles": {tensor.name: tensor.role.value for tensor in tensors},
        "initial": [tensor.name for tensor in tensors if tensor.initial],
        "temporary": [tensor.name for tensor in tensors if tensor.temporary],
        "associative": workload.associative,
        "constraints": [affine_text(constraint) for constraint in statement.constraints],
    }
    for field in ("bits", "types", "constraints"):
        if not document[field]:
            del document[field]
    try:
        same = workload_from_document(document) == workload
    except WorkloadError:
        same = False
    if not same:
        raise refusal
    return document


def load_workload(word: str, sizes: Mapping[str, int] | Sequence[str] = ()) -> Workload:
    """Return what the command line's WORKLOAD names: a built-in, a .json or .c file, or an einsum.

    sizes: dim or C parameter -> size, or texts such as "m=512"; for einsums and C only. Raises InputError where a file
    cannot be read and WorkloadError where it makes no sense, with every mistake.
    """
    mistakes: list[Mistake] = []
    given: Mapping[str, object] = sizes if isinstance(sizes, Mapping) else _sizes(sizes, mistakes)
    suffix = PurePath(word).suffix.lower()
    refuse_yaml(word, "workload")
    if suffix == ".c":
        return _from_c_file(word, given, mistakes)
    if suffix != ".json" and ("=" in word or "[" in word):
        return build(word, given, Extras(), mistakes)
    if given:
        names = ", ".join(shown(name) for name in given)
        mistakes.append(Mistake("PM205", f"{shown(word)} has its sizes, but {names} is given", "Leave the sizes out."))
    if mistakes:
        raise WorkloadError(mistakes)
    if suffix == ".json":
        return _from_json_file(word)
    if suffix in _OTHER_FILES or "/" in word:
        hint = "A workload is a .json or a .c file, an einsum, or a built-in name."
        raise WorkloadError(Mistake("PM232", f"{shown(word)} is no workload file", hint))
    return builtin_workload(word)


def _constraints(items: Sequence[object], mistakes: list[Mistake]) -> tuple[Affine, ...]:
    read = [read_index(item, f"constraints[{place}]", mistakes) for place, item in enumerate(items)]
    return tuple(constraint for constraint in read if constraint is not None)


def _sizes(words: Sequence[str], mistakes: list[Mistake]) -> dict[str, object]:
    """Return dim -> size of texts such as "m=512"; what is no such text, or given twice, is noted."""
    sizes: dict[str, object] = {}
    for word in words:
        match = _SIZE.fullmatch(word)
        if match is None:
            mistakes.append(Mistake("PM233", f"{shown(word)} is no size", "Write it as m=512."))
            continue
        name, text = match.groups()
        if name in sizes:
            mistakes.append(Mistake("PM206", f"the size of {shown(name)} is given twice"))
        number = parse_integer(text)
        sizes[name] = text if number is None else number
    return sizes


def _from_json_file(path: str) -> Workload:
    text = read_text(path)
    where = shown(PurePath(path).name)
    document = parse_json(text, where)
    with mistakes_in(where, text):
        return workload_from_document(document)


def _from_c_file(path: str, sizes: Mapping[str, object], mistakes: list[Mistake]) -> Workload:
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or isinstance(size, bool)}
    mistakes += [
        Mistake("PM207", f"the size of {shown(name)} is {shown(size)}", "Expected an integer.")
        for name, size in wrong.items()
    ]
    if mistakes:
        raise WorkloadError(mistakes)
    from polymap.workload.c import from_c

    numbers = {name: size for name, size in sizes.items() if isinstance(size, int)}
    return from_c(read_text(path), numbers, file=PurePath(path).name)
