"""Values print as text and show as pictures, whatever was imported first; `repr` stays the dataclass's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from polymap.codegen.execute.run import CRun
from polymap.ir import display
from polymap.ir.mapping import Mapping
from polymap.ir.violation import Violation
from polymap.search.run.result import SearchResult, SpaceCount
from tests.unit.report.shared import CONVOLUTION, FLAT, PRODUCT, SPREAD, cost_of


def test_values_print_as_reports() -> None:
    cost = cost_of(PRODUCT, FLAT, SPREAD)
    assert str(SPREAD).startswith("mapping\n\nloop nest")
    assert "for m < 4" in str(CONVOLUTION)
    assert str(FLAT).startswith("flat3\n")
    assert "energy " in str(cost)
    assert "level  tensor" in str(cost)
    assert "capacity: 'RF' is full" in str(Violation("capacity", "'RF' is full", ()))
    assert repr(SPREAD).startswith("Mapping(nodes=(")


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
        "assert 'polymap.report.page.shown' not in sys.modules\n"
        "print(Mapping((Temporal('i', 1), Compute('S'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mapping\n\nloop nest")


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
