"""What a C region allows for all sizes, as text and as a document."""

from __future__ import annotations

from polymap.codegen.source import SymbolicCheckup
from polymap.report.summary import PARALLEL, along_text, directions, loop_lines, permutable_text
from polymap.search import fields_document


def symbolic_text(found: SymbolicCheckup, *, relations: bool = False) -> str:
    """Return statements with their counts, dependences, loops and bands.

    relations: with the relation of each dependence as isl prints it.
    """
    where = f" with {found.assumed}" if found.assumed else ""
    parts = [f"for all values of {', '.join(found.parameters)}{where}", _statements(found)]
    lines: list[str] = []
    for each in found.dependences:
        ends = f"{each.kind} of {each.array}, {each.source} to {each.sink}"
        lines.append(f"{ends}, {along_text(each.loops, each.distances, each.signs)}")
        if relations:
            lines.append(f"    {each.relation}")
    return "\n\n".join([*parts, "\n".join(lines) or "no dependences", _loops(found)])


def _statements(found: SymbolicCheckup) -> str:
    unknown = "no polynomial counts its instances"
    return "\n".join(
        f"{each.name} in line {each.line}: {unknown if each.instances is None else each.instances}"
        for each in found.statements
    )


def _loops(found: SymbolicCheckup) -> str:
    lines = loop_lines((each.name, each.depth, PARALLEL[each.parallel], each.statements) for each in found.loops)
    for runs in found.bands:
        lines.append(f"band {' '.join(name for run in runs for name in run)}: {permutable_text(runs)}")
    return "\n".join(lines) or "no loops"


def symbolic_document(found: SymbolicCheckup) -> dict[str, object]:
    """Return what `polymap check` prints after the head for a region with symbolic sizes."""
    return {
        "parameters": found.parameters,
        "assumed": found.assumed,
        "statements": [
            {
                "name": each.name,
                "line": each.line,
                "loops": each.loops,
                "instances": None if each.instances is None else str(each.instances),
            }
            for each in found.statements
        ],
        "dependences": [
            {
                "source": each.source,
                "sink": each.sink,
                "kind": each.kind,
                "array": each.array,
                "relation": each.relation,
                "distances": each.distances,
                "directions": [directions(sign) for sign in each.signs],
            }
            for each in found.dependences
        ],
        "nests": {
            "loops": [fields_document(each) for each in found.loops],
            "bands": [{"permutable": runs} for runs in found.bands],
        },
    }
