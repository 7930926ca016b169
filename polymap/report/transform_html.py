"""The page of `polymap transform --report`: both texts side by side, what was changed, and what was proven."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape

from polymap.codegen.source import ToldStatement, TransformReport
from polymap.formatting import plural
from polymap.report.html import Cell, Section, folded, page, paragraphs, table, text_block
from polymap.report.tuning import TUNING

_HUES = (210, 30, 140, 280, 340, 60, 180, 250)
_STYLE = """
.both { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px; }
.both h3 { font-size: 1rem; margin: 0 0 .3rem; }
.both pre { padding: 8px 0; margin: 0; }
.both .line { display: block; padding: 0 8px; white-space: pre; min-width: max-content; }
.both .line { border-left: 4px solid transparent; }
.both .line i { display: inline-block; width: 3.2em; color: var(--grey); font-style: normal; user-select: none; }
.both .line b { display: inline-block; min-width: 3em; padding-right: .8em; }
.both .line b { font-weight: 600; color: var(--grey); user-select: none; }
main:has(.both), header:has(~ main .both) { max-width: 1560px; }
@media (max-width: 800px) { .both { grid-template-columns: minmax(0, 1fr); } }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e5e7eb; --grey: #9ca3af; --rule: #374151; --blue: #93c5fd; --paper: #111827; }
  body, pre { background: #0b1120; } tbody tr:hover { background: #1f2937; } #tip { color: #111827; }
}
"""


def transform_page(report: TransformReport) -> str:
    """Return the page as HTML in one file without outside references. Lines of one nest have one colour and the names
    of its statements; a line that several nests share has none."""
    state = "text changed" if report.order else "text left as it is"
    lead = f'<p><span class="status{" OPTIMAL" if report.order else ""}">{state}</span> {escape(report.file)}</p>'
    return page(f"polymap transform: {report.file}", lead, [_summary(report), _texts(report), _proof(report)])


def _summary(report: TransformReport) -> Section:
    told = paragraphs(transform_text(report))
    if report.order:
        rows: list[list[Cell]] = [
            [each.name, each.line, ", ".join(each.before), ", ".join(each.after)] for each in report.statements
        ]
        told += table(("statement", "line", "loops before", "loops after"), rows, "Loops, outermost first.")
        told += folded("All changes", text_block("\n".join([*report.changes, *map(change_of, report.statements)])))
    return Section("summary", "What was done", told)


def _texts(report: TransformReport) -> Section:
    colours = "".join(_colour(number, hue) for number, hue in enumerate(_HUES))
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (report.source, report.result))
    left = _text("The original", old, original_marks(report))
    right = _text("The result", new, result_marks(report) if report.order else {})
    return Section("texts", "Both texts", f'<style>{_STYLE}{colours}</style><div class="both">{left}{right}</div>')


def _colour(number: int, hue: int) -> str:
    light, dark = f"hsl({hue} 80% 93%)", f"hsl({hue} 40% 20%)"
    return (
        f".both .nest{number} {{ background: {light}; border-color: hsl({hue} 60% 55%); }}\n"
        f"@media (prefers-color-scheme: dark) {{ .both .nest{number} {{ background: {dark}; }} }}\n"
    )


def _text(title: str, lines: Sequence[str], marks: Mapping[int, tuple[int, str]]) -> str:
    """Return a text with numbered lines. marks: line from 1 -> its nest and the names of its statements."""
    shown: list[str] = []
    for number, line in enumerate(lines, 1):
        nest, names = marks.get(number, (-1, ""))
        kind = f" nest{nest % len(_HUES)}" if nest >= 0 else ""
        told = f"<b>{escape(names)}</b>"
        shown.append(f'<span class="line{kind}"><i>{number}</i>{told}{escape(line)}</span>')
    return f'<div><h3>{title}</h3><pre tabindex="0">{"".join(shown)}</pre></div>'


def original_marks(report: TransformReport) -> dict[int, tuple[int, str]]:
    """Return line -> (nest, names of the statements that stand there): from the first line behind the nest before it
    that says anything, to its last statement."""
    lines = report.source.replace("\r\n", "\n").split("\n")
    own: dict[int, list[str]] = {}
    ends: dict[int, int] = {}
    for each in report.statements:
        own.setdefault(each.line, []).append(each.name)
        ends[each.nest] = max(ends.get(each.nest, 0), each.line)
    marks: dict[int, tuple[int, str]] = {}
    start = report.lines[0]
    for nest, end in sorted(ends.items()):
        begun = False
        for number in range(start, end + 1):
            begun = begun or number in own or re.match(r"\s*for\b", lines[number - 1]) is not None
            if begun:
                marks[number] = (nest, ", ".join(own.get(number, ())))
        start = max(start, end + 1)
    return marks


def result_marks(report: TransformReport) -> dict[int, tuple[int, str]]:
    """Return line -> (nest in the original, names): statements, and loops around those of one nest only."""
    lines = report.result.replace("\r\n", "\n").split("\n")
    nests: dict[str, set[int]] = {}
    names: dict[str, list[str]] = {}
    for each in report.statements:
        first = each.text.split("\n", 1)[0].strip()
        nests.setdefault(first, set()).add(each.nest)
        names.setdefault(first, []).append(each.name)
    marks: dict[int, tuple[int, str]] = {}
    open_loops: list[tuple[int, int, set[int]]] = []  # line, indent, nests inside
    for number, line in enumerate(lines, 1):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        while text and open_loops and indent <= open_loops[-1][1]:
            _close(open_loops.pop(), number if text == "}" else number - 1, marks)
        if text.startswith("for (") and text.endswith("{"):
            open_loops.append((number, indent, set()))
        if text in nests:
            for loop in open_loops:
                loop[2].update(nests[text])
            if len(nests[text]) == 1:
                marks[number] = (min(nests[text]), " or ".join(names[text]))
    for loop in open_loops:
        _close(loop, len(lines), marks)
    return marks


def _close(loop: tuple[int, int, set[int]], end: int, marks: dict[int, tuple[int, str]]) -> None:
    """Mark the lines of a loop that holds statements of one nest only."""
    first, _, nests = loop
    if len(nests) == 1:
        for number in range(first, end + 1):
            marks.setdefault(number, (min(nests), ""))


def _proof(report: TransformReport) -> Section:
    if not report.order:
        return Section(
            "proof", "What was proven", paragraphs("Nothing had to be proven: the loops are the original's.")
        )
    rows: list[list[Cell]] = [
        [each.array, each.source, each.sink, "kept" if each.kept else "not binding"] for each in report.dependences
    ]
    told = paragraphs(
        "Every pair of instances that touch one element, one of which writes it, by array and statements:"
    )
    relations = "\n".join(f"{each.array}: {each.relation}" for each in report.dependences)
    body = table(("array", "first", "then", "in the new order"), rows, "Dependences.") + folded(
        "The pairs, as isl prints them", text_block(relations)
    )
    return Section(
        "proof", "What was proven", told + body if rows else paragraphs("No dependence: every order is legal.")
    )


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
