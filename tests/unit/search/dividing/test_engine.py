"""Limits that a search over dividing tiles meets wherever they end it."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.explore import search
from polymap.resources import OutOfTime
from polymap.search.dividing import engine


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
