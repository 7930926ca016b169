"""Answers about small programs on machines of all kinds against trees written out (all_points): no bound is above a
tree, nothing that is proven is beaten, no front lacks a point, and what no tree can do no tree does."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import prod

import pytest

import polymap as pm
from polymap.costmodel.evaluation import evaluate
from polymap.explore import search
from polymap.inputs import arch_from_document
from polymap.ir import Architecture, Workload
from polymap.search.result import SearchResult
from tests.referee.all_points import Held, Points, Question, loop_trees, priced
from tests.times import few

PROGRAMS = (
    (("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"), "T"),
    (("S[m,n] += A[m,k] * B[k,n]", "M[m] max= S[m,n]", "P[m,n] = S[m,n] - M[m]"), "SM"),
    (("T[m,n] += A[m,k] * B[k,n]", "U[m,n] += A[m,k] * D[k,n]", "E[m,n] = T[m,n] * U[m,n]"), "TU"),
    (("T[m] = A[m] * B[m]", "U[m] = max(T[m], 0)", "E[m] = U[m] + T[m]"), "TU"),
    (("T[m,n] = A[m,n] * B[n]", "E[m] += T[m,n]", "F[n] max= T[m,n]"), "T"),
    (("T[h,m] += Q[h,m,d] * K[h,d]", "E[h,m] = T[h,m] * V[h]"), "T"),
    (("T[p] += I[p+r] * W[r]", "O[p] = max(T[p], 0)"), "T"),
    (("T[c,p] = I[c,p] * W[c]", "O[c,q] += T[c,q+s] * V[s]"), "T"),
    (("T[p] = I[p] * W[p]", "O[q] max= T[2*q+s]"), "T"),
    (("T[m] += A[m,k] * V[k]", "T[m] += B[m,j] * W[j]", "E[m] = max(T[m], 0)"), "T"),
    (("T[m,n] += A[m,k] * B[k,n]", "E[m,n] = T[m,n] * T[m,n]"), "T"),
    (("T[p] = I[p] * W[p]", "O[q] += T[q+s] * V[s]", "Z[q] = O[q] + T[q]"), "TO"),
)
MOST_POINTS = 30  # instances of all statements
TREES = 12
Asked = tuple[str, dict[str, object], Question]  # objective, constraints, and the same in the referee's words
LITTLE = 1 + Fraction(1, 10**12)  # bounds that are told as floats


def drawn_program(rng: random.Random) -> Workload:
    while True:
        texts, temporary = rng.choice(PROGRAMS)
        dims = [sorted(set(re.findall(r"\b[a-z]\b", text))) for text in texts]
        sizes = {name: rng.choice((1, 2, 2, 2, 3, 4)) for each in dims for name in each}
        if "q" in sizes:
            sizes["p"] = (2 if "2*q" in texts[1] else 1) * (sizes["q"] - 1) + sizes["s"] + rng.choice((0, 0, 1))
        if sum(prod(sizes[name] for name in each) for each in dims) <= MOST_POINTS:
            bits = 8 if rng.random() < 0.6 else {name: rng.choice((8, 16, 32)) for name in names_of(texts)}
            return pm.program(list(texts), sizes=sizes, temporary=list(temporary), bits=bits)


def names_of(texts: tuple[str, ...]) -> list[str]:
    return sorted({name for text in texts for name in re.findall(r"[A-Z]", text)})


def drawn_machine(rng: random.Random, work: Workload) -> Architecture:
    """Return up to two buffers, with fan-outs above and below them that are unlike, wires, and levels that hold some
    tensors or must."""
    slow, spread, names = rng.random() < 0.7, rng.random() < 0.6, [each.name for each in work.tensors]
    fanouts = iter("XYZ")

    def level(name: str, pj: int, *, is_first: bool) -> dict[str, object]:
        made: dict[str, object] = {"level": name, "word_bits": 8, "read_pj": pj, "write_pj": pj * rng.choice((1, 3))}
        return made | ({"bandwidth_bits_per_cycle": rng.choice((4, 8, 16))} if slow and is_first else {})

    def fanout() -> list[dict[str, object]]:
        if not spread or rng.random() < 0.5:
            return []
        wires = {"pj_per_word_hop": 2, "hops": rng.choice(("unicast", "multicast"))} if rng.random() < 0.4 else {}
        shares = rng.choice(("identical", "identical", "none", "union"))
        size, adds = rng.choice((2, 3, 4)), rng.random() < 0.7
        return [{"fanout": next(fanouts), "size": size, "multicast": shares, "reduction": adds, **wires}]

    nodes, is_first = [level("DRAM", rng.choice((5, 100)), is_first=True)], True
    rooms = sorted(rng.choices((2, 3, 5, 8, 14, 30), k=rng.choice((1, 1, 2))), reverse=True)
    for name, pj, room in zip(("Buf", "RF"), (2, 1), rooms, strict=False):
        between = fanout()
        is_first = is_first and not between
        rule = {"holds": rng.sample(names, len(names) - 1)} if rng.random() < 0.15 else {}
        rule = {"must_hold": [rng.choice(names)]} if not rule and rng.random() < 0.1 else rule
        nodes += [*between, level(name, pj, is_first=is_first) | {"capacity_bits": 8 * room} | rule]
    unit = {"compute": "PE", "pj": 1, "per_cycle": rng.choice((1, 1, 2))}
    nodes += [*fanout(), *fanout(), unit]
    return arch_from_document({"name": "drawn", "overlap": rng.random() < 0.8, "nodes": nodes})


def never_in(tensor: str, level: str) -> Callable[[str, Held], bool]:
    return lambda name, held: name != tensor or all(where != level for _, where in held)


def always_in(tensor: str, level: str) -> Callable[[str, Held], bool]:
    """Return the rule that all statements find a tensor in a level."""
    return lambda name, held: name != tensor or any(where == level and not way for (way, _), where in held)


def asked(rng: random.Random, work: Workload, arch: Architecture) -> list[Asked]:
    """Return objectives, constraints, and the same in the words of the referee."""
    inner = [level.name for level in arch.levels[1:]]
    alone = ["energy", "latency", "edp", "traffic:DRAM", "weighted:1*energy+2*latency", f"capacity:{inner[0]}"]
    found: list[Asked] = []
    found += [(name, {}, Question((name,))) for name in rng.sample(alone, 2)]
    for word, is_front in (("lex", False), ("pareto", True)):
        parts = tuple(rng.sample([name for name in alone if name[0] not in "w" and name != "edp"], 2))
        found.append((f"{word}:{','.join(parts)}", {}, Question(parts, is_front)))
    name, tensor, level = rng.choice(alone[:4]), rng.choice(work.tensors).name, rng.choice(inner)
    kind, rule = rng.choice((("never", never_in), ("must", always_in)))
    found.append((name, {"store": {level: {kind: [tensor]}}}, Question((name,), is_held=rule(tensor, level))))
    return found


def with_limit(rng: random.Random, work: Workload, arch: Architecture, question: Question) -> Asked:
    """Return a question with a limit on what its best tree costs otherwise."""
    (part,) = question.parts
    other = rng.choice([name for name in ("energy", "latency", "traffic:DRAM") if name != part])
    most = int(priced(work, evaluate(work, arch, question.best[0][1]), other) * rng.choice((Fraction(9, 10), 1, 2))) + 1
    return part, {"limits": {other: most}}, Question((part,), limits={other: most})


def check(answer: SearchResult, question: Question) -> None:
    """Hold an answer to the trees that were looked at."""
    best, own = min((values for values, _ in question.best), default=None), dict(answer.values)
    if answer.best is not None:
        cost = evaluate(answer.workload, answer.arch, answer.best)
        assert cost.legal
        assert all(priced(answer.workload, cost, part) <= most for part, most in question.limits.items())
        for part in question.parts:
            assert priced(answer.workload, cost, part) == Fraction(own.get(part, answer.value or 0))
    if best is None:
        return
    assert answer.status != "INFEASIBLE", question.best
    assert answer.bound is not None, "there are trees"
    assert answer.bound <= best[0] * LITTLE, question.best
    if question.is_front:
        check_front(answer, question)
    elif answer.status == "OPTIMAL" and not answer.space.name:
        values = tuple(Fraction(own.get(part, answer.value or 0)) for part in question.parts)
        assert values <= best, question.best


def check_front(answer: SearchResult, question: Question) -> None:
    points = [tuple(Fraction(value) for _, value in point.values) for point in answer.front]
    for point, values in zip(answer.front, points, strict=True):
        cost = evaluate(point.workload, point.arch, point.best)
        assert cost.legal
        assert values == tuple(priced(point.workload, cost, part) for part in question.parts)
        as_good = [known for known, _ in question.best if known[1] <= values[1]]
        assert all(point.bound <= known[0] * LITTLE for known in as_good), as_good
        assert point.status != "OPTIMAL" or point.space.name or all(known[0] >= values[0] for known in as_good)
    assert not any(a != b and all(map(Fraction.__le__, a, b)) for a in points for b in points), points
    if answer.status == "OPTIMAL" and not answer.space.name:
        for known, _ in question.best:
            assert any(all(map(Fraction.__le__, values, known)) for values in points), known


def looked_at(seed: int) -> tuple[Points, list[Asked], str]:
    """Return a problem of a seed, with the best of some of its trees."""
    rng = random.Random(f"all points {seed}")
    work = drawn_program(rng)
    arch, tiles = drawn_machine(rng, work), rng.choice(("divide", "any"))
    questions = asked(rng, work, arch)
    points = Points(work, arch, [question for _, _, question in questions], rng)
    trees = {*islice(loop_trees(rng, work, arch, tiles), TREES)}  # any order: of a set of trees the best are the same
    for nodes in sorted(trees, key=repr):
        points.look(nodes)
    if questions[0][2].best:
        questions.append(with_limit(rng, work, arch, questions[0][2]))
        limited = Points(work, arch, [questions[-1][2]], rng)
        for nodes in sorted(trees, key=repr):
            limited.look(nodes)
    return points, questions, tiles


@pytest.mark.parametrize("seed", few(range(300), 2))
def test_no_tree_is_better_than_what_is_proven(seed: int) -> None:
    points, questions, tiles = looked_at(seed)
    for objective, constraints, question in questions:
        answer = search(
            points.work, points.arch, objective, tiles, constraints=constraints, work_limit=40, time_limit_s=60
        )
        check(answer, question)


def test_wrong_answers_are_seen() -> None:
    points, questions, tiles = looked_at(2)
    objective, _, question = questions[0]
    answer = search(points.work, points.arch, objective, tiles, work_limit=40, time_limit_s=60)
    check(answer, question)
    worst = float(max(values for values, _ in question.best)[0])
    for wrong in (
        replace(answer, bound=2 * worst),
        replace(answer, value=(answer.value or 0) + 1),
        replace(answer, status="INFEASIBLE"),
    ):
        with pytest.raises(AssertionError):
            check(wrong, question)
