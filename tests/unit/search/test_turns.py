"""Provers of programs in turn: who gets the next slice, and how long it is."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.resources import Limits, Stop
from polymap.search.driver import Kind, Line, Prover, Search, Turns
from polymap.search.evidence import Evidence
from polymap.search.options import TUNING, Options
from polymap.search.provers import read_question

FIRST = TUNING.slice_s


def asked(limit_s: float, used: dict[str, list[float]], gains: dict[str, list[int]]) -> list[tuple[str, float]]:
    """Return the slices that provers got, each with its length in seconds. used: how much of its slices a prover takes,
    the last one for ever; gains: by how much it raises the floor, in thousandths of the best value. Provers with small
    letters look for mappings, the others for bounds."""
    now, slices = [0.0], list[tuple[str, float]]()

    def made(name: str) -> Prover:
        calls = iter(range(1000))

        def prover(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
            assert isinstance(stop, Limits)
            at = next(calls)
            length = (stop.end - search.limits.share()) * limit_s
            slices.append((name, round(length, 2)))
            now[0] += length * used[name][min(at, len(used[name]) - 1)]
            gain = gains[name][at] if at < len(gains[name]) else 0
            best = evidence.incumbents[0].values[0]
            return evidence.with_floor(0, evidence.floors[0] + best * gain / 1000) if gain else evidence

        return prover

    def table(_: Kind) -> tuple[Line, ...]:
        what = {name: Turns.MAPPINGS if name.islower() else Turns.BOUNDS for name in used}
        return tuple(Line(made(name), Kind.PROGRAM, turns_for=what[name]) for name in used)

    work = pm.program(["T[m] += A[m,k]", "E[m] = max(T[m], 0)"], m=4, k=4, temporary=["T"], bits=8)
    options = Options("energy", "divide", time_limit_s=limit_s, clock=lambda: now[0])
    search, known = read_question(work, pm.load_arch("flat3"), options, table)
    search.searched(known.with_incumbents(search.written()))
    return slices


def test_slices_double_and_provers_without_a_gain_get_as_much() -> None:
    found = asked(100, {"a": [1.0], "b": [1.0]}, {"a": [], "b": []})
    assert found[:6] == [(name, round(FIRST * times, 2)) for times in (1, 2, 4) for name in "ab"]


@pytest.mark.parametrize("short", [20, 50])
def test_a_longer_limit_adds_slices(short: int) -> None:
    names, gains = {"a": [1.0], "b": [0.9], "c": [0.7]}, {"a": [10, 20], "b": [30, 10, 10], "c": []}
    few, many = (asked(limit, names, gains) for limit in (short, 100))
    for (name, length), (other, own) in zip(few[:10], many[:10], strict=True):  # those after them may be cut
        assert name == other
        assert length == pytest.approx(own, abs=0.011)


def test_who_gained_much_waits_half_as_long() -> None:
    few, much = (asked(100, {"a": [1.0], "B": [1.0]}, {"a": [], "B": [gain] * 4}) for gain in (1, 90))
    assert [name for name, _ in few[:6]] == ["a", "B", "a", "B", "a", "B"]
    assert [name for name, _ in much[:6]] == ["a", "B", "B", "a", "B", "a"]


def test_mappings_and_bounds_get_as_much() -> None:
    found = asked(100, {"a": [1.0], "B": [1.0], "C": [1.0]}, {"a": [], "B": [], "C": []})
    spent = {name: sum(length for each, length in found if each == name) for name in "aBC"}
    names = [name for name, _ in found[:7]]
    assert "".join(names) in ("aBCaBaC", "aBCaCaB")
    assert spent["B"] == pytest.approx(spent["C"], rel=1)
    assert spent["a"] == pytest.approx(spent["B"] + spent["C"], rel=1)


def test_who_leaves_half_of_a_slice_is_asked_again_when_others_know_more() -> None:
    found = asked(100, {"a": [0.2], "b": [1.0, 1.0, 1.0, 0.1]}, {"a": [], "b": [0, 120]})
    assert [name for name, _ in found] == ["a", "b", "b", "b", "a", "b"]


def test_one_tenth_of_the_limit_is_left() -> None:
    found = asked(10, {"a": [1.0]}, {"a": []})
    assert sum(length for _, length in found) == pytest.approx(10 * TUNING.turns_share, abs=0.01)
