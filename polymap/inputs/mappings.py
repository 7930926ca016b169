"""Mappings as documents: the JSON of a loop tree read into `Mapping` and written back (docs/files.md).

`check_mapping` checks that the names exist and that the tree is a program.
"""

from __future__ import annotations

from dataclasses import replace

from polymap.inputs.arguments import answers_in_words
from polymap.inputs.limits import LIMITS
from polymap.inputs.reading import NAME_RULE, Fields, expected_kind, is_list, is_name, is_table, kinds_found, shown
from polymap.ir import (
    Branch,
    Compute,
    Mapping,
    MappingError,
    MappingNode,
    Mistake,
    Spatial,
    Storage,
    Temporal,
    Workload,
    changed_nodes,
)

_SEVERAL = ("front", "layers", "members", "points")  # fields of answers with many mappings
_FIELDS = {
    "store": ("store", "tensors"),
    "for": ("for", "tile"),
    "par": ("par", "tile", "over"),
    "compute": ("compute",),
    "branch": ("branch",),
}


@answers_in_words
def mapping_from_document(document: object, where: str = "mapping") -> Mapping:
    """Return the loop tree that a JSON table describes; `where` names it in messages.

    A table with the field `mapping` (what explore prints) is read as the mapping in it.
    Raises MappingError with every mistake: no nodes, unknown and missing fields, invalid names and tiles.
    """
    if is_table(document) and ("nodes" not in document or "schema" in document):
        if "mapping" in document:
            return _from_answer(document["mapping"], where)
        several = next((name for name in _SEVERAL if name in document), None)
        if several is not None:
            what = f"{where} holds {'a front of' if several == 'front' else 'several'} mappings, in '{several}'"
            raise MappingError(Mistake("PM451", what, "Save the `mapping` of the entry that you want as its own file."))
    mistakes: list[Mistake] = []
    fields = Fields.of(document, where, mistakes, known=("nodes",), required=("nodes",))
    reader = _Reader(mistakes)
    nodes = reader.sequence(fields.items("nodes"), "nodes", 0)
    if mistakes:
        raise MappingError(mistakes)
    return Mapping(nodes)


def _from_answer(mapping: object, where: str) -> Mapping:
    if mapping is None:
        what = f"{where} holds the answer of a search that found no mapping"
        raise MappingError(Mistake("PM452", what, "Search again with more time, or loosen what it must meet."))
    if not is_table(mapping) or "nodes" not in mapping:
        what = f"{where}: mapping is {shown(mapping)}"
        raise MappingError(Mistake("PM112", what, "Expected a table with the field 'nodes'."))
    return mapping_from_document(mapping, where)


def with_names_of(workload: Workload, mapping: Mapping) -> Mapping:
    """Return the mapping with the n-th loop over a variable i of a C program, written `i#n`, by its name."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for each in workload.dims:
        variable = each.variable or each.name
        counts[variable] = counts.get(variable, 0) + 1
        names[f"{variable}#{counts[variable]}"] = each.name

    def renamed(node: MappingNode) -> MappingNode:
        return replace(node, dim=names.get(node.dim, node.dim)) if isinstance(node, Temporal | Spatial) else node

    return Mapping(changed_nodes(mapping.nodes, renamed))


@answers_in_words
def mapping_to_document(mapping: Mapping) -> dict[str, object]:
    """Return the JSON table of a loop tree; `mapping_from_document` reads it back."""
    nodes = expected_kind(mapping, Mapping, "the mapping", MappingError).nodes
    return {"nodes": [_node_to_document(node) for node in nodes]}


def _node_to_document(node: MappingNode) -> dict[str, object]:
    match node:
        case Storage(level, tensors):
            return {"store": level, "tensors": list(tensors)}
        case Temporal(dim, tile):
            return {"for": dim, "tile": tile}
        case Spatial(dim, tile, fanout):
            return {"par": dim, "tile": tile, "over": fanout}
        case Compute(statement):
            return {"compute": statement}
        case Branch(children):
            return {"branch": [[_node_to_document(inner) for inner in child] for child in children]}


class _Reader:
    """Reads nodes and collects their mistakes."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self._mistakes = mistakes
        self._nodes = 0

    def sequence(self, items: object, where: str, depth: int) -> tuple[MappingNode, ...]:
        if not is_list(items):
            self._mistakes.append(Mistake("PM112", f"{where} is {shown(items)}", "Expected a list of nodes."))
            return ()
        if depth > LIMITS.depth:
            self._mistakes.append(Mistake("PM104", f"{where} nests more than {LIMITS.depth} levels deep"))
            return ()
        before, self._nodes = self._nodes, self._nodes + len(items)
        if self._nodes > LIMITS.tree_nodes:
            if before <= LIMITS.tree_nodes:
                self._mistakes.append(Mistake("PM453", f"the loop tree has more than {LIMITS.tree_nodes:,} nodes"))
            return ()
        nodes = [self._node(item, f"{where}[{index}]", depth) for index, item in enumerate(items)]
        return tuple(node for node in nodes if node is not None)

    def _node(self, item: object, where: str, depth: int) -> MappingNode | None:
        """Return the node that a table describes, or None if its kind is unknown."""
        kinds = [kind for kind in _FIELDS if kind in item] if is_table(item) else []
        if len(kinds) != 1:
            found = f"is {shown(item)}" if not is_table(item) else kinds_found(kinds, item, tuple(_FIELDS))
            hint = "A node is a table with one of 'store', 'for', 'par', 'branch' and 'compute'."
            self._mistakes.append(Mistake("PM454", f"{where} {found}", hint))
            return None
        kind = kinds[0]
        fields = Fields.of(item, where, self._mistakes, known=_FIELDS[kind], required=_FIELDS[kind])
        match kind:
            case "store":
                return Storage(fields.name("store", "_"), fields.names("tensors", ()))
            case "for":
                return Temporal(self._dim(fields, "for"), fields.integer("tile", 1))
            case "par":
                return Spatial(self._dim(fields, "par"), fields.integer("tile", 1), fields.name("over", "_"))
            case "compute":
                return Compute(fields.name("compute", "_"))
            case _:
                return self._branch(fields, where, depth)

    def _dim(self, fields: Fields, name: str) -> str:
        """Return the dim, or an older name of the second loop over i (i#2), which `with_names_of` replaces."""
        word = fields.text(name, "_")
        base, mark, number = word.partition("#")
        if not is_name(base) or (mark and not (number.isascii() and number.isdigit() and len(number) <= 9)):
            fields.refuse("PM114", name, NAME_RULE)
        return word

    def _branch(self, fields: Fields, where: str, depth: int) -> Branch:
        children = fields.items("branch")
        return Branch(
            tuple(self.sequence(child, f"{where}.branch[{number}]", depth + 1) for number, child in enumerate(children))
        )
