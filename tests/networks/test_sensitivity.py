"""What `sensitivity` says of each resource is what walking every tree of each changed machine says."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import log
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import polymap as pm
from polymap.cli.command_line import main
from polymap.costmodel.referees.trees import exhaustive
from polymap.networks.resource_prices import resources_of
from polymap.report import schema_text
from tests.networks.test_neighbours import machine

TINY = [
    pm.matmul(m=2, n=4, k=2, name="product"),
    pm.einsum("O[p] += I[p+r] * W[r]", p=6, r=2, name="window"),
    pm.einsum("O[n,c] += I[n,c] * W[c]", n=4, c=2, bits={"O": 16, "I": 8, "W": 4}, name="scale"),
]
OBJECTIVES = ("energy", "latency", "edp", "traffic:DRAM")


def changed(arch: pm.Architecture, resource: str, amount: Fraction | None) -> pm.Architecture:
    """Return the machine with another amount of one resource; None: unlimited."""
    name, _, field = resource.rpartition(".")
    value = int(amount) if amount is not None and amount.denominator == 1 else amount
    nodes = tuple(replace(node, **{field: value}) if node.name == name else node for node in arch.nodes)
    return replace(arch, nodes=nodes)


def least(layer: pm.Workload, arch: pm.Architecture, objective: str) -> Fraction | None:
    """Return the least value over all legal trees; None where nothing fits."""
    found = exhaustive(layer, arch, objective, "divide")
    assert found is not None
    return found.value


def check_prices(seed: int, told: Counter[str]) -> None:
    """Compare every number of one random answer with the enumeration of the machine it is about."""
    rng = random.Random(f"sensitivity {seed}")
    layer, arch, objective = TINY[seed % len(TINY)], machine(rng), rng.choice(OBJECTIVES)
    step = rng.choice((2, Fraction(5, 4), 3, 1.5))
    true = least(layer, arch, objective)
    if true is None:
        with pytest.raises(pm.errors.OptionError, match=r"PM575 .*INFEASIBLE"):
            pm.study.sensitivity(layer, arch, objective, tiles="divide", step=step)
        told["nothing fits"] += 1
        return
    answer = pm.study.sensitivity(layer, arch, objective, tiles="divide", step=step)
    assert (answer.status, answer.value) == ("OPTIMAL", true), seed
    assert [price.resource for price in answer.prices] == list(resources_of(arch))
    for price in answer.prices:
        where = (seed, price)
        for other in (price.raised, price.lowered):
            if other is not None:
                assert other.value == least(layer, changed(arch, price.resource, other.amount), objective), where
                assert other.status == ("INFEASIBLE" if other.value is None else "OPTIMAL"), where
                told[other.how] += 1
        gain = true - price.raised.value
        assert price.binds is (gain > 0), where
        assert price.price == gain / (price.raised.amount - price.amount), where
        if price.raised.value:
            slope = log(price.raised.value / true) / log(price.raised.amount / price.amount)
            assert price.sensitivity == pytest.approx(slope, abs=1e-12), where
        told["binds" if price.binds else "free"] += 1
        if price.next_change is not None:
            check_change(layer, arch, objective, price, true, told)


def check_change(layer, arch, objective, price, true: Fraction, told: Counter[str]) -> None:
    """Compare where a capacity first counts with the enumeration just below and there."""
    change = price.next_change
    if change.from_bits is None:
        assert least(layer, changed(arch, price.resource, None), objective) == true, price
        told["never"] += 1
        return
    below, there = Fraction(change.from_bits - 1), Fraction(change.from_bits)
    assert change.is_exact, price
    assert change.none_to_bits == change.from_bits - 1, price
    assert least(layer, changed(arch, price.resource, below), objective) == true, price
    assert least(layer, changed(arch, price.resource, there), objective) == change.value < true, price
    told["changes"] += 1


def test_every_number_is_what_walking_all_trees_finds() -> None:
    told: Counter[str] = Counter()
    for seed in (0, 2):
        check_prices(seed, told)
    assert min(told["binds"], told["free"]) > 0, told


@pytest.mark.slow
def test_every_number_is_what_walking_all_trees_finds_for_more_machines() -> None:
    told: Counter[str] = Counter()
    for seed in range(3, 8):
        check_prices(seed, told)
    assert min(told[word] for word in ("binds", "free", "never", "changes", "neighbour", "searched")) > 0, told


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(20))
def test_every_number_is_what_walking_all_trees_finds_for_500_machines(batch: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(100 + 25 * batch, 125 + 25 * batch):
        check_prices(seed, told)


def test_an_answer_is_asked_no_second_time() -> None:
    layer = pm.matmul(m=8, n=8, k=8)
    result = pm.explore(layer, "flat3", "latency", tiles="divide")
    known, fresh = pm.study.sensitivity(result), pm.study.sensitivity(layer, "flat3", "latency", tiles="divide")
    numbers = [
        [(p.resource, p.raised.value, p.binds, p.price, p.next_change) for p in a.prices] for a in (known, fresh)
    ]
    assert numbers[0] == numbers[1]
    assert known.searches <= fresh.searches
    text = result.explain(sensitivity=True)
    assert text.startswith(result.explain())
    assert "DRAM.bandwidth_bits_per_cycle binds: worth 0.0469 cycles per bit/cycle." in text
    assert [row["resource"] for row in _rows(known)] == list(resources_of(result.arch))


def _rows(answer: pm.study.Sensitivity) -> list[dict[str, object]]:
    table = answer.table()
    return table if isinstance(table, list) else table.to_dict("records")


def test_a_kib_is_an_amount_of_capacity() -> None:
    answer = pm.study.sensitivity("matmul m=4 n=4 k=4", "flat3", tiles="divide", step={"GLB.capacity_bits": "1 KiB"})
    amounts = {price.resource: (price.amount, price.raised.amount, price.lowered) for price in answer.prices}
    has, raised, lowered = amounts["GLB.capacity_bits"]
    assert lowered is not None
    assert raised - has == has - lowered.amount == 8192
    assert amounts["X.size"][1] == 2 * amounts["X.size"][0]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (1, r"PM569 the step is 1\n +Expected a factor above 1"),
        (True, "PM569 the step is true"),
        (float("nan"), "PM569 the step is nan"),
        ("twice", "PM569 the step is 'twice'"),
        ({"GBL.capacity_bits": 8}, r"PM569 'GBL.capacity_bits' is not a limited resource(.|\n)*Did you mean 'GLB"),
        ({"X.size": 1.5, "GLB.capacity_bits": -1}, r"PM569 the step of X.size(.|\n)*PM569 the step of GLB"),
        ({"GLB.capacity_bits": "1 parsec"}, "PM569 the step of GLB.capacity_bits is '1 parsec'"),
    ],
)
def test_a_step_that_is_none_is_told(step: object, message: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=message):
        pm.study.sensitivity("matmul m=2 n=2 k=2", "flat3", step=step)  # pyright: ignore[reportArgumentType]


def test_what_cannot_be_priced_is_told() -> None:
    layer = pm.matmul(m=2, n=2, k=2)
    with pytest.raises(pm.errors.OptionError, match="PM569 the sensitivity of an answer under constraints"):
        pm.study.sensitivity(pm.explore(layer, "flat3", constraints={"innermost": ["k"]}))
    with pytest.raises(pm.errors.OptionError, match="pareto"):
        pm.study.sensitivity(layer, "flat3", "pareto:energy,latency")
    with pytest.raises(pm.PolymapError, match="PM120 the machine is null"):
        pm.study.sensitivity(layer)
    with pytest.raises(pm.errors.OptionError, match="PM504 time_limit_s is -1"):
        pm.study.sensitivity(layer, "flat3", time_limit_s=-1)


DOORS = {
    "explore": lambda layer, arch: pm.explore(layer, arch, tiles="divide"),
    "compare": pm.compare,
    "sweep": lambda layer, arch: pm.sweep([layer], [arch], tiles="divide"),
    "explore_network": lambda layer, arch: pm.explore_network(
        pm.Network("one", (pm.io.NetworkLayer("a", layer, 1),)), arch, tiles="divide"
    ),
    "sensitivity": lambda layer, arch: pm.study.sensitivity(layer, arch, tiles="divide"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_machine_without_energies_is_warned_about(door: str) -> None:
    nodes = [{"level": "DRAM"}, {"level": "B", "capacity_bits": 64}, {"compute": "MAC"}]
    arch = pm.io.arch_from_document({"name": "bare", "nodes": nodes})
    with pytest.warns(RuntimeWarning, match="energ"):
        DOORS[door](pm.matmul(m=2, n=2, k=2), arch)


def test_a_clock_that_is_over_leaves_prices_open() -> None:
    ticks = iter(range(10_000))
    answer = pm.study.sensitivity(
        pm.matmul(m=4, n=4, k=4), "flat3", "edp", tiles="divide", time_limit_s=2, clock=lambda: float(next(ticks))
    )
    assert any(price.binds is None and price.price is None for price in answer.prices)
    assert "not proven" in str(answer)


def test_the_command_line_tells_prices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["explore", "matmul m=8 n=8 k=8", "--arch", "flat3", "--objective", "latency", "--tiles", "divide"]
    assert main([*words, "--sensitivity"]) == 0
    assert "DRAM.bandwidth_bits_per_cycle binds: worth" in capsys.readouterr().out
    path = tmp_path / "run.json"
    assert main([*words, "--sensitivity", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    Draft202012Validator(json.loads(schema_text("result"))).validate(document)
    assert [row["resource"] for row in document["sensitivity"]["prices"]] == list(resources_of(pm.load_arch("flat3")))
    again = pm.load_result(path)
    assert again.value == document["value"]
    again.save(path)
    assert json.loads(path.read_text()) == document, "what is read is saved as it was written, the prices too"


@pytest.mark.parametrize("words", [["--objective", "pareto:energy,latency"], ["--constraints", '{"innermost": ["k"]}']])
def test_prices_of_several_numbers_are_refused_before_the_search(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "matmul m=8 n=8 k=8", "--arch", "flat3", "--sensitivity", *words]) == 2
    assert "PM556 --sensitivity and --" in capsys.readouterr().err
    assert main(["explore", "resnet50", "--arch", "flat3", "--sensitivity"]) == 2
    assert "--sensitivity" in capsys.readouterr().err
