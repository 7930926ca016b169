"""What C to C did to a text: the loops before and after, what was proven, and on what ground it was chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polymap.codegen import lower as ast
from polymap.codegen.lower import lines_of
from polymap.codegen.source.dependences import Conflict, Times
from polymap.codegen.source.region import Region, SourceStatement
from polymap.ir import Shown, html_of, summary_of
from polymap.poly import Map, formula_texts

_SHIFTED = re.compile(r"(-?\d+ \+ )([A-Za-z_]\w*)")  # a loop variable that is counted from another start


@dataclass(frozen=True, slots=True)
class ToldStatement:
    """A statement. before: its loops, outermost first; after: what its new loops count, tiles as floor(i/32), () where
    the text was left. text: as it is printed. nest: the number of its outermost loop in the original, from 0."""

    name: str
    line: int
    text: str
    nest: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldDependence:
    """Instances of `source` and `sink` that touch one element of `array`. kept: whether the order had to keep them; not
    where a sum may be reordered, or where every order gives the same. relation: the pairs, in isl's notation."""

    array: str
    source: str
    sink: str
    kept: bool
    relation: str


@dataclass(frozen=True, slots=True)
class MarkedLoop:
    """A new loop with a pragma: what it counts, and the pragma."""

    counts: str
    pragma: str


@dataclass(frozen=True, slots=True, repr=False)
class TransformReport(Shown):
    """What `transform_c` did to a text.

    order: its name, "" where the text was left as it is, for `reason`. changes: what the choice says of itself, in
    words. nests: statements that share their outermost loop in the new text, () where it was left. ground: what is
    expected of the new order, and how that is known. lines: the first and the last of the original's region.
    assumed: a condition of C on the parameters under which the new loops run, "" for all values.
    """

    file: str
    source: str
    result: str
    order: str
    reason: str
    changes: tuple[str, ...]
    ground: str
    statements: tuple[ToldStatement, ...]
    nests: tuple[tuple[str, ...], ...]
    dependences: tuple[ToldDependence, ...]
    marked: tuple[MarkedLoop, ...]
    sizes: tuple[tuple[str, int], ...]
    parameters: tuple[str, ...]
    lines: tuple[int, int]
    assumed: str = ""


class TransformedC(str):
    """The new C text, a string; `report` tells what was changed. An interpreter and a notebook show the report."""

    report: TransformReport

    @classmethod
    def of(cls, report: TransformReport) -> TransformedC:
        """Return the text of a report."""
        made = cls(report.result)
        made.report = report
        return made

    def __repr__(self) -> str:
        return summary_of(self.report)

    def _repr_html_(self) -> str:
        return html_of(self.report)


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A new text with the times of its statements and the loops that carry pragmas. name: of the order."""

    text: str
    name: str
    times: Times
    marked: tuple[MarkedLoop, ...]
    changes: tuple[str, ...] = ()
    ground: str = "not estimated: a given order, isl's and the original's are written as they are, whatever they gain"


def told_statements(region: Region, times: Times | None) -> tuple[ToldStatement, ...]:
    """Return the statements with their loops before and after; times: None where the text was left.

    Where all statements of a nest count from another start alike, nothing is changed, and nothing is told of it.
    """
    after = {} if times is None else _without_shifts(region, times)
    return tuple(
        ToldStatement(
            each.name,
            each.line,
            "\n".join(lines_of((each.body,), 0)),
            each.position[0],
            each.dims,
            tuple(after.get(each.name, {}).values()),
        )
        for each in region.statements
    )


def _without_shifts(region: Region, times: Times) -> dict[str, dict[int, str]]:
    """Return statement -> place in its time -> what is counted there, shifts left out that a whole nest has."""
    counted = {each.name: dict(_counted_entries(times[each.name], each)) for each in region.statements}
    for nest in new_nests(region, times):
        for place in sorted({place for name in nest for place in counted[name]}):
            found = {name: _SHIFTED.fullmatch(counted[name][place]) for name in nest if place in counted[name]}
            shifts = {None if match is None else match[1] for match in found.values()}
            if len(shifts) == 1 and None not in shifts:
                for name, match in found.items():
                    counted[name][place] = match[2] if match is not None else counted[name][place]
    return counted


def told_dependences(conflicts: Sequence[Conflict], *, reorder_sums: bool) -> tuple[ToldDependence, ...]:
    """Return the dependences that were compared with the order."""
    return tuple(
        ToldDependence(
            each.array, each.source, each.sink, not each.is_free(reorder_sums=reorder_sums), each.relation.to_str()
        )
        for each in conflicts
    )


def marked_loops(region: Region, times: Times, block: ast.Block, counter: str) -> tuple[MarkedLoop, ...]:
    """Return the loops with pragmas; counter: the prefix of the new loop variables, before their place in the times."""
    counts: dict[int, dict[str, None]] = {}
    for each in region.statements:
        for place, counted in _counted_entries(times[each.name], each):
            counts.setdefault(place, {})[counted] = None
    found: dict[MarkedLoop, None] = {}
    for loop in _loops(block):
        if loop.pragma:
            number = loop.name.removeprefix(counter)
            place = int(number) if number.isdigit() else -1
            found[MarkedLoop(" or ".join(counts.get(place, {loop.name: None})), loop.pragma.strip())] = None
    return tuple(found)


def new_nests(region: Region, times: Times) -> tuple[tuple[str, ...], ...]:
    """Return the statements that share an outermost loop: no constant at the head of their times parts them."""
    heads = {each.name: _head(times[each.name], each) for each in region.statements}
    nests: list[list[str]] = []
    for name, head in heads.items():
        joined = [nest for nest in nests if any(not _are_apart(head, heads[other]) for other in nest)]
        nests = [nest for nest in nests if nest not in joined]
        nests.append([other for nest in joined for other in nest] + [name])
    return tuple(map(tuple, nests))


def _are_apart(one: Sequence[str], other: Sequence[str]) -> bool:
    return any(first != second for first, second in zip(one, other, strict=False))


def _head(times: Map, statement: SourceStatement) -> tuple[str, ...]:
    """Return the constants that stand before the first loop in a time."""
    found: list[str] = []
    for counted in _entries(times, statement):
        if re.fullmatch(r"-?\d+", counted) is None:
            break
        found.append(counted)
    return tuple(found)


def _counted_entries(times: Map, statement: SourceStatement) -> Iterator[tuple[int, str]]:
    """Yield (place, what is counted there) for the entries of a time that are not constant."""
    for place, counted in enumerate(_entries(times, statement)):
        if re.fullmatch(r"-?\d+", counted) is None:
            yield place, counted


def _entries(times: Map, statement: SourceStatement) -> list[str]:
    """Return the entries of a time in the statement's own loop variables; "by cases" where several formulas hold."""
    found: list[str] = []
    for text in formula_texts(times, statement.domain, statement.dims)[1]:
        formulas = dict.fromkeys(re.findall(r"-> \[\((.*?)\)\](?: :|;| \})", text))
        formula = next(iter(formulas)) if len(formulas) == 1 else "by cases"
        found.append(re.sub(r"\(\((\w+)\)/", r"(\1/", formula))
    return found


def _loops(block: ast.Block) -> Iterator[ast.For]:
    for each in block:
        if isinstance(each, ast.For):
            yield each
        if isinstance(each, ast.For | ast.If | ast.Scope):
            yield from _loops(each.body)
        if isinstance(each, ast.If):
            yield from _loops(each.otherwise)


def sizes_of(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return sizes in the order of their names."""
    return tuple(sorted(sizes.items()))
