"""Dependences under conditions with "or", "and" and "not": the pairs that running the same text in Python finds."""

from __future__ import annotations

from itertools import product
from random import Random
from time import process_time

import islpy as isl
import pytest

from polymap.ir import BudgetError, WorkloadError
from polymap.workload.c.reader import from_c
from polymap.workload.dependence_analysis import dependence_relations

SIZE = 5
Pair = tuple[str, str, str, tuple[int, ...], tuple[int, ...]]


def condition(random: Random, names: str, depth: int) -> str:
    """Return a condition that C and Python (after `python_of`) read alike."""
    if depth == 0:
        left, right = random.choice(names), random.choice(names)
        form = random.randint(0, 3)
        if form == 0:
            return f"{left} == {random.randrange(SIZE)}"
        if form == 1:
            return f"{left} {random.choice(['<', '<=', '>', '>=', '!='])} {random.randrange(SIZE)}"
        if form == 2:
            return f"{left} + {right} {random.choice(['<', '>', '=='])} {random.randrange(2 * SIZE)}"
        return f"{left} % 2 == {random.randrange(2)}"
    parts = [condition(random, names, depth - random.randint(1, depth)) for _ in range(random.randint(2, 4))]
    joined = random.choice([" || ", " && ", " || "]).join(f"({part})" for part in parts)
    return f"!({joined})" if random.random() < 0.2 else joined


def python_of(text: str) -> str:
    return text.replace("!=", "~").replace("!", " not ").replace("~", "!=").replace("||", "or").replace("&&", "and")


def program(random: Random) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return loops, and per statement its condition and its subscripts: first written, then read."""
    names = "ij" if random.random() < 0.6 else "ijk"
    statements = []
    for _ in range(random.randint(1, 2)):
        first = [[random.choice(names) for _ in range(2)] for _ in range(3)]
        texts = [f"{a} + {random.randint(0, 1)}][{b} + {random.randint(0, 1)}" for a, b in first]
        statements.append((condition(random, names, random.randint(1, 2)), texts))
    return names, statements


def c_text(names: str, statements: list[tuple[str, list[str]]]) -> str:
    loops = "".join(f"for (int {name} = 0; {name} < {SIZE}; {name}++) " for name in names)
    body = "".join(f"if ({where}) A[{to}] = 3 * A[{one}] - A[{other}]; " for where, (to, one, other) in statements)
    return f"int A[{SIZE + 2}][{SIZE + 2}];\n#pragma scop\n{loops}{{ {body}}}\n#pragma endscop"


def pairs_by_running(names: str, statements: list[tuple[str, list[str]]]) -> set[Pair]:
    touched: dict[tuple[int, ...], list[tuple[str, tuple[int, ...], bool]]] = {}
    found: set[Pair] = set()
    points: list[tuple[int, ...]] = [()]
    for _ in names:
        points = [(*point, value) for point in points for value in range(SIZE)]
    for point in points:
        at = dict(zip(names, point, strict=True))
        for number, (where, (to, *reads)) in enumerate(statements):
            if not eval(python_of(where), {}, dict(at)):
                continue
            name = f"S{number}"
            now = [(tuple(eval(f"[{each.replace('][', ',')}]", {}, dict(at))), False) for each in reads]
            now.append((tuple(eval(f"[{to.replace('][', ',')}]", {}, dict(at))), True))
            for element, writes in now:
                for source, earlier, wrote in touched.get(element, ()):
                    if (writes or wrote) and (source, earlier) != (name, point):
                        kind = "flow" if wrote and not writes else "anti" if writes and not wrote else "output"
                        found.add((source, name, kind, earlier, point))
            for element, writes in now:
                touched.setdefault(element, []).append((name, point, writes))
    return found


def any_holds(names: str, where: str) -> bool:
    points = product(range(SIZE), repeat=len(names))
    return any(eval(python_of(where), {}, dict(zip(names, point, strict=True))) for point in points)


def pairs_of(relation: isl.Map) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    arity = relation.dim(isl.dim_type.in_)
    found: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def add(point: isl.Point) -> None:
        size = arity + relation.dim(isl.dim_type.out)
        values = tuple(point.get_coordinate_val(isl.dim_type.set, place).to_python() for place in range(size))
        found.add((values[:arity], values[arity:]))

    relation.wrap().foreach_point(add)
    return found


def compared(seed: int) -> bool:
    """Return whether the program of a seed runs at all; its dependences are compared with those of running it."""
    names, statements = program(Random(seed))
    expected = pairs_by_running(names, statements)
    text = c_text(names, statements)
    if not any(any_holds(names, where) for where, _ in statements):
        with pytest.raises(WorkloadError, match="no statement is ever executed"):
            from_c(text)
        return False
    work = from_c(text)
    used = {dim: place for place, dim in enumerate(names)}
    found: set[Pair] = set()
    for each, relation in dependence_relations(work):
        assert [used[dim] for dim in each.dims] == list(range(len(names)))
        found |= {(each.source, each.sink, each.kind.value, *points) for points in pairs_of(relation)}
    assert found == expected, text
    return True


@pytest.mark.slow
def test_dependences_under_disjunctions_are_the_pairs_that_running_finds() -> None:
    assert sum(compared(seed) for seed in range(16)) > 10


@pytest.mark.soak
def test_dependences_under_many_disjunctions() -> None:
    assert sum(compared(seed) for seed in range(1000, 1600)) > 400


LONG = {
    "four values in three loops": "i==3||i==6||i==9||i==12",
    "four conjunctions": "(i<3&&j>4)||(i>6&&k<9)||(k>12&&j>12)||(i==5&&j==5)",
    "eight values": "||".join(f"(i=={3 * n}&&k>{n})" for n in range(8)),
    "the other side": "!((i<3&&j>4)||(i>6&&k<9)||(k>12&&j>12)||(i==5&&j==5))",
}


@pytest.mark.parametrize("name", LONG)
def test_long_conditions_take_a_second_at_most(name: str) -> None:
    loops = "".join(f"for (int {each} = 0; {each} < 20; {each}++) " for each in "kij")
    began = process_time()
    work = from_c(
        f"int A[20][20];\n#pragma scop\n{loops} if ({LONG[name]}) A[i][j] = A[j][i] + A[k][j];\n#pragma endscop"
    )
    assert dependence_relations(work)
    assert process_time() - began < 2


@pytest.mark.slow
def test_thirty_stencils_on_one_array_are_answered_and_refusals_name_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polymap.workload import dependence_analysis

    body = "".join(f"for (int i = 1; i < 40; i++) A[i + {n}] = A[i + {n} - 1] + A[i + {n} + 1];" for n in range(30))
    text = f"int A[80];\n#pragma scop\nfor (int t = 0; t < 8; t++) {{ {body} }}\n#pragma endscop"
    work = from_c(text)
    monkeypatch.setattr(dependence_analysis, "TUNING", dependence_analysis.TUNING._replace(seconds=0.05))
    with pytest.raises(BudgetError, match=r"takes more than 0.05 s.*\n.*--budget 60, time_limit_s=60"):
        dependence_analysis.dependences(work)
    import polymap as pm

    assert len(pm.dependences(work, time_limit_s=60)) > 1000
