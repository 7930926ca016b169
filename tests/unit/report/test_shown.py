"""Values print as text and show as pictures, whatever was imported first; `repr` stays the dataclass's own."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

import polymap as pm
from polymap.codegen.run import CRun
from polymap.ir import display
from polymap.ir.mapping import Mapping
from polymap.ir.violation import Violation
from polymap.report.figures.array_map import array_figure
from polymap.report.figures.cloud import cloud_figure
from polymap.report.figures.course import course_figure, fate_figure
from polymap.report.figures.domain import domain_figure
from polymap.report.figures.order_classes import order_figure
from polymap.report.figures.programs import schedule_figure
from polymap.report.figures.proof import proof_figure
from polymap.report.figures.residency import residency_figure
from polymap.report.figures.sampled_costs import rarity_figure, smooth_figure
from polymap.search.result import SearchResult, SpaceCount
from tests.unit.report.shared import CONVOLUTION, FLAT, PRODUCT, SPREAD, cost_of


def test_values_print_as_reports() -> None:
    cost = cost_of(PRODUCT, FLAT, SPREAD)
    assert str(SPREAD).startswith("mapping\n\nloop nest")
    assert "for m < 4" in str(CONVOLUTION)
    assert str(FLAT).startswith("flat3\n")
    assert "energy " in str(cost)
    assert "level  tensor" in str(cost)
    assert "capacity: 'RF' is full" in str(Violation("capacity", "'RF' is full", ()))
    for value in (SPREAD, CONVOLUTION, FLAT, cost):
        lines = repr(value).splitlines()
        assert len(lines) <= 15
        assert lines[0] == str(value).splitlines()[0]


def test_values_show_themselves_in_notebooks() -> None:
    for value in (SPREAD, FLAT):
        assert (value._repr_svg_() or "").startswith("<svg ")
        assert value._repr_html_().startswith("<div><svg ")
    cost = cost_of(PRODUCT, FLAT, SPREAD)
    assert cost._repr_svg_() is None
    assert cost._repr_html_().startswith("<table>")
    assert CONVOLUTION._repr_html_().startswith("<pre>small convolution\n")
    assert "h &lt; 3" in CONVOLUTION._repr_html_()


def test_search_results_print_their_status_and_mapping() -> None:
    cost = cost_of(PRODUCT, FLAT, SPREAD)
    space = SpaceCount(100, 50, None, 7, 43)
    found = SearchResult("OPTIMAL", "energy", SPREAD, cost, 10, 10, 0.0, space, 1.25)
    assert str(found).startswith("OPTIMAL: energy 10 pJ")
    assert "par m over X" in str(found)
    assert "<svg " in found._repr_html_()
    assert "<table>" in found._repr_html_()
    none = SearchResult("INFEASIBLE", "energy", None, None, None, None, None, space, 1.25, ("RF holds 1 bit",))
    assert "RF holds 1 bit" in str(none)
    assert "RF holds 1 bit" in none._repr_html_()


def test_a_run_prints_what_it_found() -> None:
    run = CRun(matches_reference=True, counts_match=None, counted=(), steps=1, instances=1, seconds=0.5)
    assert str(run) == "ran in 0.50 s: every output element is equal to the reference; it counts no words"
    assert "<pre>ran in" in run._repr_html_()


def test_the_first_print_loads_the_reports() -> None:
    program = (
        "import sys, polymap\nfrom polymap.ir.mapping import *\n"
        "assert 'polymap.report.shown' not in sys.modules\n"
        "print(Mapping((Temporal('i', 1), Compute('S'))))\n"
        "print(repr(polymap.load_arch('flat3')), polymap.matmul(m=2, n=2, k=2))\n"
        "assert not {'ortools', 'pandas', 'polymap.search', 'polymap.networks.comparison'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mapping\n\nloop nest")


@pytest.mark.parametrize(
    "made",
    [
        "polymap.study.capacity(layer, 'flat3', 'GLB', ['1 KiB'])",
        "polymap.study.sensitivity(layer, 'flat3', tiles='divide')",
        "polymap.sample_mappings(layer, 'flat3', 3)",
        "polymap.sweep([layer], ['flat3'], tiles='divide')",
    ],
)
def test_studies_draw_themselves_in_a_notebook_that_has_drawn_nothing(made: str) -> None:
    program = f"import polymap\nlayer = polymap.matmul(m=2, n=2, k=2)\nprint({made}._repr_html_())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<div><svg ")


def test_sizes_and_structures_print_in_words() -> None:
    size = pm.space.size(PRODUCT, FLAT)
    assert repr(size) == f"{size.syntactic:,} mappings by syntax, {size.legal:,} legal"
    structure = next(iter(pm.space.structures(PRODUCT, FLAT)))
    assert repr(structure).startswith("spread: ")
    assert repr(structure.score("energy")).startswith("OPTIMAL: ")


def test_an_unknown_value_prints_its_repr() -> None:
    @dataclass(frozen=True, slots=True)
    class Plain(display.Shown):
        number: int

    value = Plain(3)
    assert str(value) == repr(value)
    assert value._repr_svg_() is None
    assert value._repr_html_() == f"<pre>{repr(value).replace('<', '&lt;').replace('>', '&gt;')}</pre>"


def test_hooks_run_once_before_the_first_text() -> None:
    seen: list[int] = []
    display.when_first_shown(lambda: seen.append(1))
    assert str(Mapping(()))
    assert str(Mapping(()))
    assert seen == [1]


def test_samples_scores_and_choices_print_in_sentences() -> None:
    sample = pm.sample_mappings("alexnet.fc8", "flat3", 5, seed=2)
    assert str(sample).startswith("5 legal mappings of alexnet.fc8 on flat3, drawn uniformly (seed 2); the first:\n")
    kept = pm.sample_mappings("alexnet.fc8", "flat3", 5, within_capacity=True)
    assert f"{100 * kept.rate:.3g} % of the trees drawn fit" in str(kept)
    scores = sample.scores()
    text = str(scores)
    row = next(line for line in text.splitlines() if line.startswith("latency, cycles"))
    cycles = sorted(scores.latency_cycles.tolist())
    assert re.findall(r"[0-9,]+$|[0-9,]{2,}", row)[-3:] == [f"{cycles[place]:,}" for place in (0, 2, 4)]
    assert f"{int(scores.fits.sum())} of 5 mappings within capacity" in text
    choice = pm.choose_tiles(pm.matmul(m=4, n=4, k=4), "flat3")
    assert str(choice).startswith("value 9,664, proven: no mapping with tiles that divide is better\n\nmapping\n")


def test_a_dependence_prints_as_one_line() -> None:
    (found,) = pm.dependences(pm.matmul(m=4, n=4, k=4))
    assert str(found) == "reduction of C, S to S, along m n k: (0, 0, *), directions (=, =, <)"


def test_figures_show_their_pictures_in_notebooks() -> None:
    layer, arch = pm.matmul(m=4, n=4, k=4), pm.load_arch("flat3")
    result = pm.explore(layer, arch, tiles="divide")
    sample = pm.sample_mappings(layer, arch, 5)
    figures: dict[str, Any] = {
        "array": array_figure(layer, arch, result.best),
        "residency": residency_figure(layer, arch, result.best),
        "tile_map": pm.study.tiles(layer, arch, result.best, 0, 1),
        "cloud": cloud_figure(sample),
        "smooth": smooth_figure(sample),
        "course": course_figure(result),
        "fate": fate_figure(result),
        "proof": proof_figure(pm.verify(result.certificate())),
        "order": order_figure(layer, arch),
        "rarity": rarity_figure("x", [1.0, 2.0], 1.0),
        "capacity": pm.study.capacity(layer, arch, "GLB", [512, 1024]),
        "domain": domain_figure(pm.einsum("C[m] += A[m,k]", m=4, k=4), "S"),
        "schedule": schedule_figure(pm.Schedule.original(layer)),
    }
    for name, figure in figures.items():
        drawn = figure._repr_svg_()
        assert drawn is not None, name
        assert drawn.data == figure, name
        assert "<svg" in figure._repr_html_()


def test_an_attribute_that_a_value_lacks_is_answered_with_the_one_that_was_meant() -> None:
    result = pm.explore(pm.matmul(m=4, n=4, k=4), "flat3", tiles="divide")
    asked: list[tuple[object, str, str]] = [
        (result, "energy", r"SearchResult has no attribute 'energy'\. Did you mean 'cost\.energy_pj'\?"),
        (result, "latency", "'cost.latency_cycles'"),
        (result, "valeu", "Did you mean 'value'"),
        (result.cost, "energy", "Did you mean 'energy_pj'"),
        (result.best, "loops", r"Known: nodes\."),
        (result, "_repr_png_", "no attribute '_repr_png_'$"),
    ]
    for value, name, message in asked:
        assert not hasattr(value, name)
        with pytest.raises(AttributeError, match=message):
            getattr(value, name)
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result


def test_a_property_that_fails_tells_its_own_mistake() -> None:
    @dataclass(frozen=True)
    class Broken(display.Shown):
        @property
        def whole(self) -> object:
            return None.part  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'part'"):
        _ = Broken().whole
