"""Every chart fits any width from 320 pixels on: no text leaves the picture, none covers another."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from tests.unit.report.shared import assert_apart, assert_inside, words_of

LAYER = pm.conv2d(K=8, C=4, H=10, W=10, R=3, S=3, name="a layer with a name that is rather long")
PRODUCT = pm.matmul(m=8, n=8, k=8)
SMALL = pm.einsum("O[m,p] += I[p+r,s] * W[m,r,s]", m=4, p=3, r=2, s=2, name="a layer with a name that is rather long")
STENCIL = pm.from_c(
    "int A[8][40]; for (int i = 1; i < 8; i++) for (int j = 1; j < 40; j++) A[i][j] = A[i - 1][j] + A[i][j - 1] * 3;"
)
SKEWED = pm.transform.tile(pm.transform.skew(pm.Schedule.original(STENCIL), "i", by="j"), {"i": 8, "j": 8})


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
def network() -> pm.study.NetworkAnswer:
    layers = [pm.io.NetworkLayer(f"layer number {k} of the network", pm.matmul(m=8 * k, n=16, k=16), k) for k in (1, 2)]
    return pm.explore_network(pm.Network("net", tuple(layers)), "flat3", tiles="divide")


@cache
def fusion() -> pm.study.Fusion:
    chain = pm.program(["R[i,j] = max(X[i,j], 0.0)", "Y[i,j] = R[i,j] * 2.0"], i=16, j=16, types="float32")
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 2048}, {"compute": "MAC"}]
    arch = pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})
    return pm.study.fusion(chain, arch, "traffic:DRAM", work_limit=400)


def in_one_word() -> pm.Cost:
    workload = pm.matmul(m=8, n=14, k=14, name="a_layer_with_a_name_of_one_word_that_no_line_of_320_has_room_for")
    nodes = [{"store": "GLB", "tensors": ["A", "B", "C"]}, *({"for": dim, "tile": 1} for dim in "mnk")]
    return pm.evaluate(workload, "flat3", pm.io.mapping_from_document({"nodes": [*nodes, {"compute": "S"}]}))


def timed() -> pm.Cost:
    sample = pm.sample_mappings(PRODUCT, "gemmini_like", 1, seed=2)
    return pm.evaluate(PRODUCT, "gemmini_like", sample.mappings[0])


def wired() -> pm.Architecture:
    fan = {"fanout": "Columns", "size": 256, "pj_per_word": 0.5, "pj_per_word_hop": 0.25, "reduce_pj": 0.125}
    nodes = [{"level": "DRAM"}, {"level": "GlobalBufferOfAll", "capacity_bits": 8192}, fan, {"compute": "MAC"}]
    return pm.io.arch_from_document({"name": "a machine with wires", "nodes": nodes})


PICTURES: dict[str, Callable[[int], str]] = {
    "mapping": lambda w: pm.plot.mapping(answer(), width_px=w),
    "mapping of a long word": lambda w: pm.plot.mapping(in_one_word(), width_px=w),
    "residency of many steps": lambda w: pm.plot.residency(in_one_word(), width_px=w),
    "mapping alone": lambda w: pm.plot.mapping(answer().best, width_px=w),
    "mapping of a program": lambda w: pm.plot.mapping(fusion().cost, width_px=w),
    "roofline": lambda w: pm.plot.roofline({"by hand": answer(), "best": answer()}, width_px=w),
    "residency": lambda w: pm.plot.residency(answer(), width_px=w),
    "residency of fusion": lambda w: pm.plot.residency(fusion(), width_px=w),
    "steps": lambda w: pm.plot.steps(timed(), width_px=w),
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
    "machine": lambda w: pm.plot.machine("simba_like", width_px=w),
    "machine with wires": lambda w: pm.plot.machine(wired(), width_px=w),
    "traffic": lambda w: pm.plot.traffic(answer(), width_px=w),
    "compare": lambda w: pm.plot.compare(*(each.cost for each in families().members[:2]), width_px=w),
    "coordinates": lambda w: pm.plot.coordinates(sample(50), width_px=w),
    "orders": lambda w: pm.plot.orders(SMALL, "simple3", width_px=w),
    "domain": lambda w: pm.plot.domain(STENCIL, tile=(2, 3), width_px=w),
    "dependences": lambda w: pm.plot.dependences(STENCIL, width_px=w),
    "schedule": lambda w: pm.plot.schedule(SKEWED, width_px=w),
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
    assert not fixed
    with pytest.raises(pm.errors.OptionError, match="PM120 width_px is 12\n.*from 320 to"):
        pm.plot.convergence(answer(), width_px=12)


def test_fused_stands_beside_unfused_over_time() -> None:
    figure = pm.plot.residency(fusion()).data
    assert [level.level for level in figure.levels] == ["Buf, unfused", "Buf, fused"]
    apart, fused = figure.levels
    assert (apart.first, apart.until, fused.first, fused.until) == (0, 2, 2, 4)
    held = dict(fusion().cost.occupancy_bits)
    assert max(fused.bits_at(leg) for leg in (2, 3)) == held["Buf"]
    assert max(apart.bits_at(leg) for leg in (0, 1)) == max(
        dict(each.cost.occupancy_bits)["Buf"] for each in fusion().unfused
    )


def test_still_pictures_have_no_script_and_only_those_with_marks_an_interactive_form(tmp_path: Path) -> None:
    picture = pm.plot.coordinates(sample(50))
    assert "<script" not in picture
    live = picture.interactive()
    assert live.count("<svg") == 1
    data = json.loads(live.split('<script type="application/json">')[1].split("</script>")[0])
    assert [words for words, _ in data] == [words for words, _ in picture.marks]
    picture.save(tmp_path / "live.html")
    assert (tmp_path / "live.html").read_text(encoding="utf-8").endswith(str(live))
    with pytest.raises(pm.errors.OptionError, match="PM120 this picture has no marks"):
        pm.plot.machine("flat3").interactive()
