"""Sentences follow proofs: with better values and bounds they turn from "not known" to known, and then stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import polymap as pm
from polymap.formatting import short
from polymap.networks import SweepRow, SweepTable, capacity_sweep
from polymap.report import progress, sensitivity_text, sweep_text
from polymap.report.figures.cost_maps import winner_svg
from polymap.report.figures.course import FateFigure
from polymap.report.figures.sensitivity import sensitivity_svg
from polymap.report.networks import machine_label
from polymap.report.report import (
    Answer,
    _second,  # pyright: ignore[reportPrivateUsage]
)
from polymap.search.problem import floor_of, parse_single
from polymap.study import CapacityCurve, CapacityPoint, Fusion, Winner, WinnerStudy, knee_of

UNKNOWN = "not known"


def test_a_proof_among_some_trees_bounds_no_size_of_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, found = pm.matmul(m=16, n=16, k=64), dict[str, pm.SearchResult]()

    def among_chains(*asked: Any, **options: Any) -> pm.SearchResult:
        plain = pm.explore(asked[0], asked[1], asked[2], tiles="divide")
        found[asked[2]] = plain
        return replace(plain, space=replace(plain.space, name="chains"))

    monkeypatch.setattr(capacity_sweep, "search", among_chains)
    curve = pm.study.capacity(layer, "simple3", "GB", [64, "1 KiB"])
    small = curve.points[0]
    assert small.energy_bound == floor_of(
        layer, pm.load_arch("simple3"), parse_single("energy", pm.load_arch("simple3"))
    )
    assert small.energy_bound < found["energy"].value <= (small.energy_pj or 0)
    assert UNKNOWN in curve.sentence, "what chains need says nothing of other trees"


def _points(rng: Random, energies: Sequence[int | None], slack: float) -> tuple[CapacityPoint, ...]:
    """Return what a search that is open by at most `slack` may know of sizes with these least energies (None: none)."""
    points: list[CapacityPoint] = []
    for place, least in enumerate(energies):
        bits = 64 << place
        if least is None:
            points.append(CapacityPoint(bits, None, 0.0, None, 0.0, fits=None if rng.random() < slack else False))
            continue
        known = rng.random() >= slack / 4
        value = least * (1 + slack * rng.random()) if known else None
        points.append(
            CapacityPoint(bits, value, 0.0, value, least * (1 - slack * rng.random()), fits=True if known else None)
        )
    return tuple(points)


def _least_near(energies: Sequence[int | None]) -> int | None:
    """Return the least size within 5 % of the largest, from the optima themselves."""
    last = energies[-1]
    return next(
        (64 << place for place, each in enumerate(energies) if each is not None and last and 20 * each <= 21 * last),
        None,
    )


def test_a_knee_is_that_of_the_optima_or_not_known() -> None:
    said = 0
    for seed in range(2000):
        rng = Random(seed)
        optima = sorted((rng.randint(900, 1300) for _ in range(rng.randint(2, 6))), reverse=True)
        energies = [*[None] * rng.randint(0, 2), *optima]
        for slack in (0.9, 0.3, 0.1, 0.03, 0.0):
            points = _points(rng, energies, slack)
            figure = CapacityCurve("", "GLB", "DRAM", points, None, knee_of(points))
            assert figure.knee in ((None, _least_near(energies)) if slack else (_least_near(energies),)), seed
            assert (UNKNOWN in figure.sentence) == (figure.knee is None), seed
            said += slack > 0 and figure.knee is not None
    assert said > 1000  # the test reaches sentences that are known before all is proven


def test_a_verdict_on_sizes_needs_proofs() -> None:
    """Values 16 times above their bounds say nothing of what is enough."""
    points = tuple(CapacityPoint(8192 * 4**k, 5.6e6, 5.6e6, 2.8e8, 1.7e7) for k in range(4))
    assert UNKNOWN in CapacityCurve("", "GLB", "DRAM", points, None, knee_of(points)).sentence
    proven = tuple(replace(point, energy_bound=2.8e8) for point in points)
    assert "Already 1 KiB is enough" in CapacityCurve("", "GLB", "DRAM", proven, None, knee_of(proven)).sentence


def test_no_mapping_known_is_not_nothing_fits() -> None:
    winners = (Winner(None, 0.0, is_proven=False), Winner(None, 0.0, is_proven=True))
    drawn = winner_svg(WinnerStudy("", ("RF", (8, 16)), ("GLB", (8,)), (winners,)))
    assert "no mapping is known" in drawn
    assert "nothing fits" in drawn
    lowered, raised = _other(None, "TIMEOUT"), _other(None, "INFEASIBLE")
    drawn = sensitivity_svg(_answer("OPTIMAL", lowered, raised))
    assert "none known" in drawn
    assert "nothing fits" in drawn


def _other(value: int | None, status: str) -> pm.study.OtherAmount:
    amount = Fraction(8)
    return pm.study.OtherAmount(amount, None if value is None else Fraction(value), None, status, "searched")


def _answer(status: str, lowered: pm.study.OtherAmount, raised: pm.study.OtherAmount) -> pm.study.Sensitivity:
    price = pm.study.ResourcePrice("RF.capacity_bits", Fraction(4), raised, lowered, None, None, None)
    question = (pm.matmul(m=2, n=2, k=2), pm.load_arch("flat3"), "energy", "divide")
    return pm.study.Sensitivity(*question, status, Fraction(5), (price,), 3, 0.1)


def test_changes_of_a_value_that_is_not_proven_are_not_proven() -> None:
    same = _other(5, "OPTIMAL")
    assert "no change (not proven)" in sensitivity_svg(_answer("FEASIBLE", same, same))
    assert "no change (not proven)" not in sensitivity_svg(_answer("OPTIMAL", same, same))
    assert "no change (not proven)" in sensitivity_svg(_answer("OPTIMAL", same, _other(5, "FEASIBLE")))


def test_what_is_proven_among_some_trees_is_told_as_that() -> None:
    some, same, open_ = _other(5, "OPTIMAL among chains"), _other(5, "OPTIMAL"), _other(5, "FEASIBLE")
    assert "no change (proven among chains)" in sensitivity_svg(_answer("OPTIMAL", some, same))
    assert "no change (not proven)" in sensitivity_svg(_answer("OPTIMAL among chains", open_, same))
    assert "5 pJ (proven among chains)" in sensitivity_svg(_answer("OPTIMAL among chains", same, same))
    text = sensitivity_text(_answer("OPTIMAL among chains", some, open_))
    assert [text.count(f"5 pJ{word}") for word in (" (proven among chains)", " (not proven)")] == [1, 1]
    assert "OPTIMAL among chains" in text
    rows = [_row("OPTIMAL", 5), replace(_row("OPTIMAL among chains", 5), workload="other")]
    table = SweepTable(("energy",), tuple(rows))
    assert [each.status for each in table.totals()] == ["OPTIMAL among chains"]
    assert not table.is_proven
    machines = [
        replace(row, machine=name, workload=f"w{i}") for i in range(9) for row in rows[i % 2 :] for name in "AB"
    ]
    assert "*: proven among chains" in sweep_text(SweepTable(("energy",), tuple(machines)))


def test_fate_says_what_is_open_or_how_bounds_closed_all() -> None:
    fates = (("searched inside", 0), ("refuted by a bound", 7), ("nothing fits", 0))
    assert "bound of every structure" in FateFigure("", fates, None, 7).sentence
    assert "2 structures left" in FateFigure("", (*fates, ("left open", 2)), None, 7, is_proven=False).sentence


@pytest.mark.parametrize(
    "name", ["resnet50.conv4_x", "alexnet.fc8", "mobilenet_v2.fc", "bert_base.projection", "resnet50.conv5_x"]
)
@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_the_second_mapping_of_a_report_is_not_dominated(name: str, objective: str) -> None:
    workload, arch = pm.io.builtin_workload(name), pm.load_arch("flat3")
    result = pm.explore(workload, arch, objective, tiles="divide")
    second = _second(Answer(workload, arch, result, result.best, result.cost))
    if second is None:
        return
    one, other = result.cost, pm.evaluate(workload, arch, second[1])
    assert (other.energy_pj < one.energy_pj) != (other.latency_cycles < one.latency_cycles)


def _row(status: str, value: int) -> SweepRow:
    return SweepRow("layer", f"m{value}", status, Fraction(value), Fraction(1), 0.1, on_chip_bits=100 - value)


def test_the_front_of_a_sweep_is_of_machines_only_where_all_is_proven() -> None:
    proven = SweepTable(("energy",), (_row("OPTIMAL", 5), _row("OPTIMAL", 6)))
    assert "no machine has less of both" in sweep_text(proven)
    assert "of the values found (not all proven)" in sweep_text(
        replace(proven, rows=(*proven.rows, _row("FEASIBLE", 7)))
    )


GRID = {"base": "flat3", "grid": {"GLB.capacity_bits": [8 * 1024, 64 * 1024], "X.size": [4, 8, 16]}}


def test_a_sweep_prints_a_summary_first_and_rows_on_request() -> None:
    """Referee of what takes most: the energies that evaluate() tells of each mapping."""
    layers = [pm.matmul(m=8, n=8, k=8), pm.matmul(m=12, n=4, k=16), pm.matmul(m=5, n=7, k=6)]
    found = pm.sweep([replace(one, name=f"l{i}") for i, one in enumerate(layers)], GRID, tiles="divide")
    assert len(found.rows) == 18
    text, everything = sweep_text(found), sweep_text(found, rows=True)
    assert text.splitlines()[0] == "3 workloads on 6 machines, energy: 18 rows, all proven"
    assert "18 rows: --rows prints them" in text
    assert everything.count("l1") == 6, "one line for each machine"
    assert text.count("l1 ") == 1, "among the costliest of the best machine; six machines are too many for columns"
    assert len(text.splitlines()) <= 19, "the summary is a screenful"
    assert {machine_label(row.machine) for row in found.rows} >= {"GLB 1 KiB, X 4", "GLB 8 KiB, X 16"}
    for best in found.front():
        sums: dict[str, float] = {}
        for row in found.rows:
            if row.machine == best.machine:
                for name, pj in pm.evaluate(row.layer, row.arch, row.mapping).energy_by_level_pj:
                    sums[name] = sums.get(name, 0.0) + pj
        name = max(sums, key=lambda each: sums[each])
        line = next(line for line in text.splitlines() if line.startswith(machine_label(best.machine)))
        assert f" {name} {100 * sums[name] / sum(sums.values()):.1f}".removesuffix(".0") in line, line


def test_a_sweep_of_few_machines_shows_layers_beside_machines() -> None:
    """Referee: the rows of the table, each value times its nodes."""
    net = pm.network("bert_base").beginning(5)
    found = pm.sweep([net, pm.matmul(m=8, n=8, k=8), *(pm.matmul(m=9 + i, n=3, k=2) for i in range(8))],
                     ["flat3", "simba_like"], tiles="divide")  # fmt: skip
    text = sweep_text(found)
    matrix = text[text.index("energy, pJ of all nodes:") :].split("\n\n")[0].splitlines()
    assert matrix[1].split() == ["layer", "nodes", "flat3", "simba_like"]
    values: list[tuple[Fraction, ...]] = []
    half = len(found.rows) // 2
    for one, other in zip(found.rows[:half], found.rows[half:], strict=True):
        assert one.workload == other.workload, "all layers of a machine come before the next machine"
        assert one.value is not None, "these tiles fit"
        assert other.value is not None, "these tiles fit"
        values.append((one.value * one.multiplicity, other.value * one.multiplicity))
    values.sort(key=lambda each: -max(each))
    for line, expected in zip(matrix[3:-1], values, strict=False):
        assert line.split()[2:] == " ".join(map(short, expected)).split()
    assert matrix[-1] == f"and {len(values) - 12} more", "layers of one name are not one layer"
    assert f"costliest on {machine_label(found.front()[0].machine)}:\n  " in text


def test_rows_that_are_open_show_their_bound() -> None:
    found = SweepTable(("energy",), (_row("OPTIMAL", 5), replace(_row("FEASIBLE", 9), bound=Fraction(7, 2))))
    head, *rows = sweep_text(found).split("\n\n")[-1].splitlines()
    assert "not below" in head
    assert rows[-1].split()[-2:] == ["3.5", "FEASIBLE"]
    assert rows[-2].split()[-2:] == ["5", "OPTIMAL"], "of a proven row the value is the bound"
    assert "not below" not in sweep_text(replace(found, rows=found.rows[:1]))


def test_a_network_of_which_layers_are_open_says_how_many_are_proven() -> None:
    net = pm.network("alexnet").beginning(2)
    open_one = pm.explore_network(net, "flat3", work_limit=1, tiles="divide")
    text = str(open_one)
    assert "0 of 2 layers proven" in text
    assert "not below" in text
    assert text.index("costliest:") < text.index("layer  "), "the summary stands before the table"
    assert "layers proven" not in str(pm.explore_network(net, "flat3", tiles="divide"))


def test_long_work_tells_where_it_is_also_in_pipes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "TUNING", progress.TUNING._replace(told_every_s=0.0))
    with progress.ProgressLine() as line:
        line("3 of 8 layers")
        line("4 of 8 layers")
    told = capsys.readouterr().err
    assert "polymap: 3 of 8 layers" in told
    assert "polymap: 4 of 8 layers" in told


def test_fusion_is_said_not_to_pay_only_where_the_bound_says_so() -> None:
    stages = ["R[i,j] = max(X[i,j], 0.0)", "Y[i,j] = R[i,j] * 2.0"]
    work = pm.program(stages, i=4, j=4, types="float32", temporary=["R"])
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 2048}, {"compute": "PE"}]
    arch = pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})
    found: Fusion = pm.study.fusion(work, arch, "traffic:DRAM", time_limit_s=20, work_limit=400)
    even = replace(found, value=100.0, unfused_value=100.0)
    assert [replace(even, bound=bound).pays for bound in (0.0, 99.0, 100.0)] == [None, None, False]
    assert UNKNOWN in str(replace(even, bound=50.0))
    assert "cannot pay, proven" in str(replace(even, bound=100.0))
    assert "A fused tree costs" in str(replace(even, value=90.0))


def test_large_changes_have_all_their_digits() -> None:
    drawn = sensitivity_svg(_answer("OPTIMAL", _other(575, "OPTIMAL"), _other(54, "OPTIMAL")))
    assert ">+11,400 %<" in drawn
    assert ">+980 %<" in drawn
