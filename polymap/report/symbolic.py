"""What a C region allows for all sizes, as text and as a document."""

from __future__ import annotations

from polymap.codegen.source import SymbolicCheckup, SymbolicDependence
from polymap.report.summary import directions

_PARALLEL = {"yes": "parallel", "reduction": "parallel if its sums are added up afterwards", "no": "sequential"}


def symbolic_text(found: SymbolicCheckup, *, relations: bool = False) -> str:
    """Return statements with their counts, dependences, loops and bands.

    relations: with the relation of each dependence as isl prints it.
    """
    where = f" with {found.assumed}" if found.assumed else ""
    parts = [f"for all values of {', '.join(found.parameters)}{where}", _statements(found)]
    lines: list[str] = []
    for each in found.dependences:
        lines.append(_dependence(each))
        if relations:
            lines.append(f"    {each.relation}")
    return "\n\n".join([*parts, "\n".join(lines) or "no dependences", _loops(found)])


def _statements(found: SymbolicCheckup) -> str:
    unknown = "no polynomial counts its instances"
    return "\n".join(
        f"{each.name} in line {each.line}: {unknown if each.instances is None else each.instances}"
        for each in found.statements
    )


def _dependence(each: SymbolicDependence) -> str:
    """Return a dependence in one line. A distance that varies is *, < is towards a later iteration."""
    ends = f"{each.kind} of {each.array}, {each.source} to {each.sink}"
    if not each.loops:
        return f"{ends}, no common loop"
    far = " ".join(f"({', '.join('*' if step is None else str(step) for step in one)})" for one in each.distances)
    ways = " ".join(f"({', '.join(directions(sign))})" for sign in each.signs)
    return f"{ends}, along {' '.join(each.loops)}: {far or 'many distances'}, directions {ways}"


def _loops(found: SymbolicCheckup) -> str:
    width = max((2 * each.depth + len(each.name) for each in found.loops), default=0)
    lines = [
        f"{'  ' * each.depth + each.name:{width}}  {_PARALLEL[each.parallel]}  ({' '.join(each.statements)})"
        for each in found.loops
    ]
    for runs in found.bands:
        names = " ".join(name for run in runs for name in run)
        inside = " | ".join(" ".join(run) for run in runs)
        what = "permutable, tilable" if len(runs) == 1 else f"permutable within {inside}"
        lines.append(f"band {names}: {what}")
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
            "loops": [
                {"name": each.name, "depth": each.depth, "statements": each.statements, "parallel": each.parallel}
                for each in found.loops
            ],
            "bands": [{"permutable": runs} for runs in found.bands],
        },
    }
