"""Runs OpenScop files and workloads one instance at a time, and tells what each instance accesses: shares no code with
what reads or writes OpenScop in polymap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polymap.ir import Operator, Workload

Element = tuple[str, tuple[int, ...]]
Step = tuple[Element, frozenset[Element]]  # written, read
KINDS = ("CONTEXT", "DOMAIN", "SCATTERING", "READ", "WRITE")


@dataclass
class Part:
    kind: str
    rows: list[list[int]]
    head: list[int]


def relations(text: str) -> Iterator[list[Part]]:
    """Yield each relation as the parts of its union."""
    lines = [
        line.split("#")[0].split()
        for line in re.sub(r"<(?!OpenScop)(\w+)>.*?</\1>", "", text, flags=re.DOTALL).splitlines()
    ]
    lines = [line for line in lines if line]
    at = 0
    while at < len(lines):
        if lines[at][0] not in KINDS:
            at += 1
            continue
        kind, at = lines[at][0], at + 1
        count = 1
        if len(lines[at]) == 1:
            count, at = int(lines[at][0]), at + 1
        parts: list[Part] = []
        for _ in range(count):
            head = [int(word) for word in lines[at]]
            rows = [[int(word) for word in line] for line in lines[at + 1 : at + 1 + head[0]]]
            parts.append(Part(kind, rows, head))
            at += 1 + head[0]
        yield parts


def solutions(rows: Sequence[Sequence[int]], width: int, tail: Sequence[int], span: range) -> Iterator[tuple[int, ...]]:
    """Yield all values in a span of the first `width` columns that fit the rows, others given by `tail` and 1."""

    def extend(found: list[int]) -> Iterator[tuple[int, ...]]:
        if len(found) == width:
            yield tuple(found)
            return
        place = len(found)
        ready = [row for row in rows if row[1 + place] and not any(row[2 + place : 1 + width])]
        for value in span:
            here = [*found, value]
            if all(fits(row, here) for row in ready):
                yield from extend(here)

    def fits(row: Sequence[int], values: Sequence[int]) -> bool:
        known = [*values, *([0] * (width - len(values))), *tail, 1]
        total = sum(factor * value for factor, value in zip(row[1:], known, strict=True))
        return total == 0 if row[0] == 0 else total >= 0

    if all(fits(row, []) for row in rows if not any(row[1 : 1 + width])):
        yield from extend([])


def image(part: Part, point: Sequence[int], parameters: Sequence[int], span: range) -> tuple[int, ...]:
    """Return the outputs of a relation at a point: all of one value, whatever the local dims."""
    _, _, outputs, inputs, locals_, _ = part.head
    first, last = 1 + outputs + inputs, 1 + outputs + inputs + locals_
    shuffled = [[row[0], *row[first:last], *row[1:first], *row[last:]] for row in part.rows]
    found = {each[locals_:] for each in solutions(shuffled, locals_ + outputs, [*point, *parameters], span)}
    assert len(found) == 1, f"{part.kind} gives {len(found)} values at {point}"
    return found.pop()


def run_file(text: str, parameters: Sequence[int] = (), span: range = range(-20, 30)) -> list[Step]:
    """Return the steps of an OpenScop file, in the order of its scatterings."""
    numbered = re.search(r"<arrays>(.*?)</arrays>", text, re.DOTALL)
    words = re.findall(r"^\s*(\d+) (\w+)\s*$", numbered.group(1), re.MULTILINE) if numbered else []
    names = {int(number): name for number, name in words}
    steps: list[tuple[tuple[int, ...], int, Step]] = []
    statements: list[list[list[Part]]] = []
    for relation in relations(text):
        if relation[0].kind == "DOMAIN":
            statements.append([relation])
        elif statements:
            statements[-1].append(relation)
    for number, (domain, *others) in enumerate(statements):
        width = domain[0].head[2]
        points = {
            point[:width] for part in domain for point in solutions(part.rows, width + part.head[4], parameters, span)
        }
        for point in points:
            written: list[Element] = []
            read: set[Element] = set()
            times: tuple[int, ...] = ()
            for (part,) in others:
                value = image(part, point, parameters, span)
                if part.kind == "SCATTERING":
                    times = value
                elif part.kind == "WRITE":
                    written.append((names[value[0]], value[1:]))
                else:
                    read.add((names[value[0]], value[1:]))
            steps.append((times, number, (written[0], frozenset(read))))
    return [step for _, _, step in sorted(steps, key=lambda each: each[:2])]


def run_workload(workload: Workload) -> list[Step]:
    """Return the steps of a workload in program order."""
    extents = workload.extents()
    steps: list[tuple[tuple[int, ...], Step]] = []
    for statement in workload.statements:
        points: list[dict[str, int]] = [{}]
        for name in statement.dims:
            points = [{**point, name: value} for point in points for value in range(extents[name])]
        for point in points:
            if any(each.evaluate(point) < 0 for each in statement.constraints):
                continue
            times = [statement.position[0]]
            for name, place in zip(statement.dims, statement.position[1:], strict=True):
                times += [point[name], place]
            accesses = [
                (each.tensor, tuple(index.evaluate(point) for index in each.index))
                for each in (statement.target, *statement.reads)
            ]
            read = accesses if statement.operator is not Operator.ASSIGN else accesses[1:]
            steps.append((tuple(times), (accesses[0], frozenset(read))))
    return [step for _, step in sorted(steps, key=lambda each: each[0])]
