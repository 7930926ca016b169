"""Every chart fits any width from 320 pixels on: no text leaves the picture, none covers another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import polymap as pm
from tests.unit.report.shared import assert_apart, assert_inside, words_of

LAYER = pm.conv2d(K=8, C=4, H=10, W=10, R=3, S=3, name="a layer with a name that is rather long")
PRODUCT = pm.matmul(m=8, n=8, k=8)
OF_ONE_WIDTH = {"compare", "coordinates", "dependences", "domain", "machine", "orders", "schedule", "traffic"}


@cache
def answer() -> pm.SearchResult:
    return pm.explore(LAYER, "flat3", tiles="divide")


@cache
def families() -> Any:
    return pm.compare(PRODUCT, "flat3", ["weight-stationary", "output-stationary"])


@cache
def sample(count: int) -> Any:
    return pm.sample_mappings(LAYER, "flat3", count)


@cache
def verdict() -> Any:
    return pm.verify(answer().certificate())


@cache
def sweep() -> Any:
    grid = {"base": "flat3", "grid": {"GLB.capacity_bits": [1 << 14, 1 << 18], "X.size": [8, 16]}}
    return pm.sweep([pm.matmul(m=16, n=16, k=16)], grid, tiles="divide")


@cache
def network() -> pm.NetworkAnswer:
    layers = [pm.io.NetworkLayer(f"layer number {k} of the network", pm.matmul(m=8 * k, n=16, k=16), k) for k in (1, 2)]
    return pm.explore_network(pm.Network("net", tuple(layers)), "flat3", tiles="divide")


PICTURES: dict[str, Callable[[int], str]] = {
    "roofline": lambda w: pm.plot.roofline({"by hand": answer(), "best": answer()}, width_px=w),
    "residency": lambda w: pm.plot.residency(answer(), width_px=w),
    "array": lambda w: pm.plot.array(answer(), width_px=w),
    "fate": lambda w: pm.plot.fate(answer(), width_px=w),
    "convergence": lambda w: pm.plot.convergence(answer(), width_px=w),
    "proof": lambda w: pm.plot.proof(verdict(), width_px=w),
    "fate of a verdict": lambda w: pm.plot.fate(verdict(), width_px=w),
    "cloud": lambda w: pm.plot.cloud(pm.sample_mappings(PRODUCT, "flat3", 50), families(), width_px=w),
    "rarity": lambda w: pm.plot.rarity(sample(50), width_px=w),
    "smoothness": lambda w: pm.plot.smoothness(sample(3), width_px=w),
    "layers by dataflow": lambda w: pm.plot.layers([families()], width_px=w),
    "layers": lambda w: pm.plot.layers(network(), width_px=w),
    "layers by machine": lambda w: pm.plot.layers([network(), network()], width_px=w),
    "machines": lambda w: pm.plot.machines(sweep(), width_px=w),
    "binding": lambda w: pm.plot.binding(sweep(), width_px=w),
}


@pytest.mark.parametrize("name", PICTURES)
def test_texts_stay_inside_and_apart(name: str) -> None:
    for width in (320, 640, 860, 1600):
        picture = PICTURES[name](width)
        assert words_of(picture)[1] <= width
        assert_inside(picture)
        assert_apart(picture)


def test_every_chart_takes_a_width() -> None:
    plots = {name: getattr(pm.plot, name) for name in dir(pm.plot)}
    fixed = {name for name, plot in plots.items() if "width_px" not in inspect.signature(plot).parameters}
    assert fixed == OF_ONE_WIDTH
    with pytest.raises(pm.errors.OptionError, match="PM120 width_px is 12\n.*at least 320"):
        pm.plot.convergence(answer(), width_px=12)
