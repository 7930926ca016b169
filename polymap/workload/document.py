"""Workloads from and to JSON documents, and the command line's WORKLOAD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from polymap.inputs import (
    Fields,
    answers_in_words,
    expected_kind,
    expected_text,
    is_list,
    is_table,
    mistakes_in,
    parse_integer,
    parse_json,
    read_text,
    refuse_yaml,
    shown,
)
from polymap.ir import Affine, Mistake, Original, PolymapError, Workload, WorkloadError
from polymap.workload.einsums import Extras, build
from polymap.workload.layers import LAYERS, layer
from polymap.workload.networks import builtin_names, builtin_workload
from polymap.workload.notation import affine_text, einsum_text, read_index

FIELDS = ("name", "einsum", "sizes", "bits", "types", "roles", "initial", "temporary", "associative", "constraints")
C_FIELDS = ("name", "c", "sizes", "associative")
_OTHER_FILES = (".toml", ".yaml", ".yml", ".txt", ".cpp", ".cc", ".h", ".py", ".onnx", ".pt")
_SIZE = re.compile(r"([^=]*)=(.*)", re.DOTALL)


@answers_in_words
def workload_from_document(document: object) -> Workload:
    """Return the workload that a document (a parsed JSON file) describes; WorkloadError with every mistake.

    In addition to the fields of an einsum, `constraints` lists expressions of its dims, each >= 0 at every statement
    instance (used by convolutions that skip their padding). In place of an einsum: a C text as {"c": text, "sizes":
    {...}}, a program as {"statements": [...], "sizes": {...}}, or a layer by its arguments as {"conv2d": {"K": 64}}.
    """
    mistakes: list[Mistake] = []
    if is_table(document) and "nodes" in document and "einsum" not in document:
        hint = "Machines are given to --arch, mappings to --mapping; a workload has the field 'einsum'."
        raise WorkloadError(Mistake("PM234", "the workload is a machine or a mapping: it has the field 'nodes'", hint))
    if is_table(document) and {"workloads", "machines"} <= document.keys():
        hint = "`polymap sweep FILE` and pm.sweep answer it; a workload has the field 'einsum'."
        raise WorkloadError(Mistake("PM234", "the workload is a sweep: it has the field 'workloads'", hint))
    if is_table(document) and "einsum" not in document:
        if "c" in document:
            return _from_c_document(document)
        if "statements" in document:
            from polymap.workload.statement_documents import program_from_document

            return program_from_document(document)
        for kind in LAYERS:
            if kind in document:
                return _from_layer_document(document, kind)
    known = FIELDS if is_table(document) and "einsum" in document else (*FIELDS, "c", "statements", *LAYERS)
    fields = Fields.of(document, "the workload", mistakes, known=known, required=("einsum",))
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


@answers_in_words
def workload_to_document(workload: Workload) -> dict[str, object]:
    """Return the document that `workload_from_document` reads back as an equal workload.

    Raises WorkloadError for a workload whose arrays are not what its accesses touch, and for one from C that was
    changed since it was read.
    """
    workload = expected_kind(workload, Workload, "the workload", WorkloadError)
    what = f"the workload {shown(workload.name)} cannot be written as JSON"
    refusal = WorkloadError(
        Mistake("PM231", what, "Einsums, programs of them, layers and C programs as they were read can.")
    )
    if workload.original is not None and workload.original.source:
        return _c_document(workload, workload.original, refusal)
    if workload.original is not None:
        raise refusal
    from polymap.workload.statement_documents import program_to_document

    for document in (_einsum_document(workload), program_to_document(workload)):
        try:
            if document is not None and workload_from_document(document) == workload:
                return document
        except PolymapError:
            continue
    raise refusal


def _einsum_document(workload: Workload) -> dict[str, object] | None:
    """Return the document of an einsum; of other statements that are no sum of products it is another one's."""
    statement = workload.statements[0]
    indices = [index for access in (statement.target, *statement.reads) for index in access.index]
    if len(workload.statements) > 1 or not all(index.is_linear for index in (*indices, *statement.constraints)):
        return None
    from polymap.workload.statement_documents import program_to_document

    document = program_to_document(workload)
    constraints = [affine_text(constraint) for constraint in statement.constraints]
    del document["statements"]
    own = {"name": document.pop("name"), "einsum": einsum_text(statement), **document}
    return own | {"constraints": constraints} if constraints else own


def _from_layer_document(document: Mapping[str, object], kind: str) -> Workload:
    mistakes: list[Mistake] = []
    fields = Fields.of(document, "the workload", mistakes, known=(kind, "name"))
    arguments, named = document[kind], {"name": document["name"]} if "name" in document else {}
    if not is_table(arguments):
        fields.refuse("PM112", kind, f"Expected a table of the arguments of {kind}.")
    elif named and "name" in arguments:
        mistakes.append(Mistake("PM206", "the workload's name is given twice"))
    if mistakes:
        raise WorkloadError(mistakes)
    return layer(kind, {**(arguments if is_table(arguments) else {}), **named})


def _from_c_document(document: Mapping[str, object]) -> Workload:
    mistakes: list[Mistake] = []
    fields = Fields.of(document, "the workload", mistakes, known=C_FIELDS, required=("c",))
    text, name = fields.text("c", ""), fields.label("name", None)
    associative, sizes = fields.flag("associative", default=True), document.get("sizes", {})
    if not is_table(sizes):
        fields.refuse("PM112", "sizes", "Expected a table from name to integer.")
    if mistakes:
        raise WorkloadError(mistakes)
    from polymap.workload.c import from_c

    numbers = _c_sizes(sizes if is_table(sizes) else {}, [])
    return from_c(text, numbers, name=name, associative=associative)


def _c_document(workload: Workload, original: Original, refusal: WorkloadError) -> dict[str, object]:
    """Return the text and the sizes that a C program was read from; raises the refusal where it was changed since."""
    document: dict[str, object] = {"name": workload.name, "c": original.source, "sizes": dict(original.sizes)}
    document["associative"] = workload.associative
    try:
        same = _from_c_document(document) == workload
    except PolymapError:
        same = False
    if not same:
        raise refusal
    return document


@answers_in_words
def load_workload(word: str | Mapping[str, object], sizes: Mapping[str, int] | Sequence[str] = ()) -> Workload:
    """Return the workload that WORKLOAD names: a built-in, a .json, .c, .scop or .mlir file, an einsum, a layer; or
    that a table as in a workload file describes.

    sizes: dim, C parameter or argument of the layer -> size, or texts such as "m=512"; not for built-ins and .json.
    A layer's arguments may also follow its name in the text: "matmul m=4 n=4 k=4".
    Raises InputError if a file cannot be read, and WorkloadError with every mistake in its content.
    """
    mistakes: list[Mistake] = []
    if is_table(word) and not sizes:
        return workload_from_document(word)
    word = expected_text(word, "the workload's name", WorkloadError)
    given: Mapping[str, object] = sizes if isinstance(sizes, Mapping) else _sizes(sizes, mistakes)
    suffix = PurePath(word).suffix.lower()
    refuse_yaml(word, "workload")
    if suffix in (".c", ".scop", ".mlir"):
        return _from_c_file(word, given, mistakes)
    if word.split()[:1] in [[kind] for kind in LAYERS]:
        word, *arguments = word.split()
        own = _sizes(arguments, mistakes)
        mistakes += [
            Mistake("PM206", f"the size of {shown(name)} is given twice", "Give it once.")
            for name in own
            if name in given
        ]
        given = {**given, **own}
    if suffix != ".json" and ("=" in word or "[" in word):
        return build(word, given, Extras(), mistakes)
    if word in LAYERS:
        if mistakes:
            raise WorkloadError(mistakes)
        return layer(word, given)
    if given and suffix not in (".json", *_OTHER_FILES) and word not in builtin_names():
        return builtin_workload(word)  # raises what would be right: this matters more than the sizes
    if given:
        names = ", ".join(shown(name) for name in given)
        mistakes.append(Mistake("PM205", f"{shown(word)} has its sizes, but {names} is given", "Leave the sizes out."))
    if mistakes:
        raise WorkloadError(mistakes)
    if suffix == ".json":
        return _from_json_file(word)
    if suffix in _OTHER_FILES or "/" in word:
        hint = "A workload is a .json, .c, .scop or .mlir file, an einsum, or a built-in name."
        raise WorkloadError(Mistake("PM232", f"{shown(word)} is no workload file", hint))
    return builtin_workload(word)


def _constraints(items: Sequence[object], mistakes: list[Mistake]) -> tuple[Affine, ...]:
    read = [read_index(item, f"constraints[{place}]", mistakes) for place, item in enumerate(items)]
    return tuple(constraint for constraint in read if constraint is not None)


def _sizes(words: Sequence[str], mistakes: list[Mistake]) -> dict[str, object]:
    """Return dim -> size of texts such as "m=512"; other texts and duplicates are noted as mistakes."""
    sizes: dict[str, object] = {}
    given: object = words  # what callers in Python may give
    if not is_list(given) or not all(isinstance(word, str) for word in given):
        hint = 'Expected a table from name to integer, or texts such as "m=512".'
        mistakes.append(Mistake("PM233", f"the sizes are {shown(words)}", hint))
        return sizes
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
    numbers = _c_sizes(sizes, mistakes)
    from polymap.workload.c import from_c

    text, file = read_c(path)
    return from_c(text, numbers, file=file)


def read_c(path: str) -> tuple[str, str]:
    """Return a C text and what to call it: a C file's own, or what OpenScop (.scop) or affine loops (.mlir) say."""
    text, file, suffix = read_text(path), PurePath(path).name, PurePath(path).suffix.lower()
    if suffix == ".scop":
        from polymap.workload.openscop_loops import openscop_to_c

        return openscop_to_c(text, file=file), f"{file} as C"
    if suffix == ".mlir":
        from polymap.workload.mlir_affine import affine_to_c

        return affine_to_c(text, file=file), f"{file} as C"
    return text, file


def _c_sizes(sizes: Mapping[str, object], mistakes: list[Mistake]) -> dict[str, int]:
    """Return the sizes; raises WorkloadError with these mistakes where one is no integer."""
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or isinstance(size, bool)}
    mistakes += [
        Mistake("PM207", f"the size of {shown(name)} is {shown(size)}", "Expected an integer.")
        for name, size in wrong.items()
    ]
    if mistakes:
        raise WorkloadError(mistakes)
    return {name: size for name, size in sizes.items() if isinstance(size, int)}
