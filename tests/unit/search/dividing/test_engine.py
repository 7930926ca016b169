"""Limits that a search over dividing tiles meets wherever they end it."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.explore import search
from polymap.resources import OutOfTime, never
from polymap.search.dividing import engine, steps
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.progress import Incumbent
from polymap.search.problem import analyse, enumerate_structures, measure_of, parse_objective


def test_a_limit_that_ends_a_probe_ends_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[int] = []

    def ended(*_arguments: object) -> None:
        probes.append(1)
        raise OutOfTime

    monkeypatch.setattr(engine, "solve_structures", ended)
    work = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=96, n=64, k=48)
    whole = search(work, "cluster4", tiles="divide", time_limit_s=60)
    assert probes
    assert whole.status == "OPTIMAL"


def test_a_search_ended_before_a_later_first_state_keeps_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other multipliers would order first states otherwise, and one that was not searched would be passed over."""
    levels = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 8, "read_pj": 6, "write_pj": 6, "capacity_bits": 120},
        {"level": "RF", "word_bits": 8, "read_pj": 1, "write_pj": 1, "capacity_bits": 40},
    ]
    arch = pm.io.arch_from_document({"name": "small", "nodes": [*levels, {"compute": "MAC", "pj": 1}]})
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", bits=8, m=4, n=6, k=4)
    problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
    (structure,), _ = enumerate_structures(problem, never)
    asked = problem, measure, (structure,)
    whole, known = Incumbent(never), Incumbent(never)
    steps.solve_structures(*asked, whole, None, None)
    assert whole.value is not None
    known.add(whole.value + 1, CompletedMapping((), pm.Mapping(())))
    ended = steps.solve_structures(*asked, known, None, None, 1)
    while ended is not None and not ended.start:
        ended = steps.solve_structures(*asked, known, ended, None, 1)
    assert ended is not None
    assert not ended.way
    monkeypatch.setattr(steps, "_first_multipliers", lambda *_: pytest.fail("the order may be another one"))
    assert steps.solve_structures(*asked, known, ended, None) is None
    assert known.value == whole.value
