"""What C to C did to a text, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from polymap.codegen.source import ToldStatement, TransformReport
from polymap.formatting import plural
from polymap.report.tuning import TUNING


def transform_text(report: TransformReport) -> str:
    """Return at most 15 lines: what was changed per nest, what was proven, what is expected of it."""
    names = ", ".join(each.name for each in report.statements)
    if not report.order:
        lines = [f"{report.file}: text left as it is, because {report.reason}", f"loops of {names}: unchanged"]
        return "\n".join(map(_short, lines))
    lines = [f"{report.file}: {plural(len(report.statements), 'statement')} in a new text; {valid_for(report)}"]
    lines += _listed([f"changed: {each}" for each in report.changes] or [f"order: {report.order}"])
    lines += _listed([change_of(each) for each in report.statements])
    lines += _nests(report)
    lines += _listed([f"loop over {each.counts}, marked {each.pragma}" for each in report.marked], 2)
    lines += [proof_of(report), f"expected: {report.ground}"]
    return "\n".join(map(_short, lines))


def valid_for(report: TransformReport) -> str:
    """Return for which sizes the new loops run."""
    if report.sizes:
        given = ", ".join([*(f"{name} = {size}" for name, size in report.sizes), *filter(None, [report.assumed])])
        return f"the new loops run for {given}, the original ones elsewhere"
    if report.assumed:
        return f"the new loops run where {report.assumed}, the original ones elsewhere"
    return f"for all values of {', '.join(report.parameters)}" if report.parameters else "for the sizes in the text"


def change_of(each: ToldStatement) -> str:
    """Return a statement's loops before and after, outermost first."""
    before, after = (", ".join(loops) or "no loop" for loops in (each.before, each.after))
    told = f"loops {before} as before" if before == after else f"loops {before} -> {after}"
    return f"{each.name} (line {each.line}): {told}"


def proof_of(report: TransformReport) -> str:
    """Return how many dependences the new order keeps, by array, and which it was free of."""
    kept = [each for each in report.dependences if each.kept]
    free = [each for each in report.dependences if not each.kept]
    arrays = ", ".join(dict.fromkeys(each.array for each in kept))
    told = f"proven: {plural(len(kept), 'dependence')}, each kept by the new order" + (
        f" (of {arrays})" if kept else ""
    )
    if not report.dependences:
        told = "proven: no two instances touch one element of which one writes it, so that every order is legal"
    if free:
        arrays = ", ".join(dict.fromkeys(each.array for each in free))
        told += f"; {len(free)} not binding, as sums or maxima that may change their order (of {arrays})"
    return told


def _nests(report: TransformReport) -> list[str]:
    """Return which statements came together and which came apart; nothing where the nests are the original's."""
    nest = {each.name: each.nest for each in report.statements}
    before = {number: frozenset(name for name in nest if nest[name] == number) for number in nest.values()}
    after = [frozenset(each) for each in report.nests]
    lines = [f"in one nest now: {', '.join(sorted(each))}" for each in after if len({nest[name] for name in each}) > 1]
    for each in before.values():
        parts = [part & each for part in after if part & each]
        if len(parts) > 1:
            lines.append(f"in nests of their own now: {' | '.join(', '.join(sorted(part)) for part in parts)}")
    return _listed(lines, 2)


def _listed(lines: Sequence[str], most: int = TUNING.most_changes) -> list[str]:
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"... {len(lines) - most + 1} more (--json and --report list all)"]


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= TUNING.line_characters else f"{line[: TUNING.line_characters - 4]} ..."


def transform_document(report: TransformReport) -> dict[str, object]:
    """Return the report as JSON data: all of it, the new text as `text`."""
    found = asdict(report)
    found["text"] = found.pop("result")
    found.pop("source")
    found["sizes"] = dict(report.sizes)
    found["changed"] = bool(report.order)
    found["summary"] = transform_text(report).splitlines()
    return found
