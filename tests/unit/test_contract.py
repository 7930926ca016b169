"""What scripts outside this repository rely on: names, arguments, fields of answers, exit codes, words for mistakes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.cli import main

API: Any = pm
PRODUCT = "C[m,n] += A[m,k] * B[k,n]"
LAYER = pm.einsum(PRODUCT, m=16, n=8, k=12)
FLAT = pm.load_arch("flat3")
RESULT = pm.explore(LAYER, FLAT, objective="energy", tiles="divide", time_limit_s=60, workers=1, seed=0)
WORDS = [PRODUCT, "m=16", "n=8", "k=12"]
ANY: Any = RESULT
SIGNATURES = {
    "conv2d": "K C H W R S stride padding N groups dilation bits",
    "explore": "workload arch objective tiles time_limit_s workers seed constraints work_limit",
    "candidates": "workload arch objective limit",
    "verify": "text workload arch objective",
    "compare": "workload arch families objective",
    "sample_mappings": "workload arch n seed tiles within_capacity",
    "explore_network": "net arch objective executor",
    "sweep": "workloads machines objective store executor",
}
FIELDS: list[tuple[Callable[[], object], str]] = [
    (lambda: RESULT, "status best cost value bound gap space workload arch dividing explain show table c save top "),
    (lambda: RESULT, "mapping_text report plot"),
    (lambda: RESULT.space, "syntactic legal distinct evaluated pruned listed infeasible"),
    (lambda: RESULT.cost, "legal violations instances method traffic occupancy_bits energy_pj energy_by_level_pj"),
    (lambda: RESULT.cost, "compute_cycles latency_cycles utilization bottleneck"),
    (lambda: pm.network("alexnet"), "layers views unmapped macs"),
    (lambda: pm.network("alexnet").layers[0], "name workload multiplicity"),
    (lambda: pm.plot.mapping(RESULT), "data svg save _repr_svg_"),
    (lambda: pm.verify("no certificate"), "proven unproven reason _repr_html_"),
]
EVALUATED = (
    "legal violations instances method traffic occupancy_bits energy_pj energy_by_level_pj compute_cycles "
    "latency_cycles utilization bottleneck schema version workload arch"
)
EXPLORED = "status objective value bound gap seconds mapping cost space schema version workload arch options"
DOCUMENTS = {
    "explore": ([*WORDS, "--arch", "flat3", "--tiles", "divide"], EXPLORED),
    "evaluate": ([*WORDS, "--arch", "flat3", "--mapping", "MAPPING"], EVALUATED),
    "codegen": ([*WORDS, "--arch", "flat3", "--mapping", "MAPPING", "--run"], "run code mapping cost"),
    "check": ([*WORDS, "--mapping", "MAPPING"], "dependences loops orders parallel violations"),
}
REFUSED = {
    "no such workload": (["explore", "nonsense", "--arch", "flat3"], 2),
    "no such machine": (["explore", *WORDS, "--arch", "nope"], 2),
    "an option misspelt": (["explore", *WORDS, "--arch", "flat3", "--objectve", "energy"], 2),
    "no such folder": (["explore", *WORDS, "--arch", "flat3", "--tiles", "divide", "--json", "/nonexistent/x"], 4),
}
MISTAKEN: list[tuple[Callable[[], object], str]] = [
    (lambda: API.plot.mapping(RESULT, widht_px=3), r"mapping\(\) has no argument 'widht_px'\n.*'width_px'"),
    (lambda: API.plot.traffic(), r"traffic\(\) lacks the argument 'result'"),
    (lambda: API.space.size(LAYER, FLAT, tile="divide"), r"size\(\) has no argument 'tile'\n.*'tiles'"),
    (lambda: API.from_timeloop(), r"from_timeloop\(\) lacks the arguments 'problem' and 'arch'"),
    (lambda: API.io.arch_from_document(), r"lacks the argument 'document'"),
    (lambda: API.transform.tile(RESULT.best), r"tile\(\) lacks the argument 'sizes'"),
    (lambda: API.layouts.choose_layouts(), r"lacks the argument 'answer'"),
    (lambda: ANY.top(n=3), r"top\(\) has no argument 'n'\n +Known: count\."),
    (lambda: ANY.top(0), r"PM507 count is 0"),
    (lambda: ANY.top(-1), r"PM507 count is -1"),
    (lambda: ANY.report(), r"report\(\) lacks the argument 'path'\n +Its arguments: path, other"),
    (lambda: API.network(), r"network\(\) lacks the argument 'name'"),
    (lambda: API.load_result(), r"load_result\(\) lacks the argument 'path'"),
]


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_take_the_arguments_of_the_contract(name: str) -> None:
    parameters = list(inspect.signature(getattr(pm, name)).parameters)
    assert set(SIGNATURES[name].split()) <= set(parameters), parameters


@pytest.mark.parametrize(("value", "names"), FIELDS)
def test_values_have_the_fields_of_the_contract(value: Callable[[], object], names: str) -> None:
    assert [name for name in names.split() if not hasattr(value(), name)] == []


@pytest.mark.parametrize("command", DOCUMENTS)
def test_documents_have_the_fields_of_the_contract(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, names = DOCUMENTS[command]
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps(pm.io.mapping_to_document(RESULT.best)), encoding="utf-8")
    words = [str(mapping) if word == "MAPPING" else word for word in words]
    assert main([command, *words, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(names.split()) <= set(document)


@pytest.mark.parametrize("what", REFUSED)
def test_mistakes_end_with_the_exit_code_of_the_contract(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, code = REFUSED[what]
    assert main(words) == code
    assert "PM" in capsys.readouterr().err


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every function of the public faces but `nest`, whose keywords are sizes of any name."""
    for face in (pm, pm.plot, pm.io, pm.study, pm.space, pm.layouts, pm.transform):
        for name in face.__all__:
            value = getattr(face, name)
            if inspect.isfunction(value) and value is not pm.nest:
                yield f"{face.__name__}.{name}", value


@pytest.mark.parametrize(("name", "function"), list(public_functions()))
def test_every_public_function_tells_an_argument_that_it_has_not(name: str, function: Callable[..., object]) -> None:
    with pytest.raises(pm.PolymapError, match="no_such_argument"):
        function(no_such_argument=1)


@pytest.mark.parametrize(("call", "told"), MISTAKEN)
def test_wrong_arguments_of_names_in_namespaces_are_told(call: Callable[[], object], told: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=told):
        call()


def test_verdicts_are_sentences() -> None:
    certificate = RESULT.certificate()
    proven = pm.verify(certificate)
    value = f"{RESULT.value:,.0f} pJ"
    assert str(proven).startswith(f"OPTIMAL: energy {value}, checked against {proven.structures:,} structures in ")
    of_any_size = proven._replace(bound=proven.value, divides=False)
    assert str(of_any_size).startswith(f"OPTIMAL over tiles of any size: energy {value}, ")
    open_ones = tuple(f"structure {number}" for number in range(7))
    told = str(proven._replace(unproven=open_ones))
    assert told.startswith(f"NOT PROVEN (the solver's word for 7 of {proven.structures:,} structures): energy {value}")
    assert told.endswith("  structure 4\n  and 2 more")
    half = proven.value / 2  # type: ignore[operator]
    assert f"BOUND: no mapping of any tile sizes costs less energy than {float(half):,.1f}"[:-2] in str(
        of_any_size._replace(bound=half)
    )
    assert f"costs {value}, gap 50 %" in str(of_any_size._replace(bound=half))
    assert repr(proven) == str(proven)
    assert all(proven.head in str(each) for each in (proven, proven._replace(bound=half)))
    refused = pm.verify("nothing")
    assert str(refused) == f"REFUSED: {refused.reason}"
    assert refused._repr_html_() == f"<pre>{escape(str(refused), quote=False)}</pre>"


def test_the_summary_of_an_answer_without_mapping_has_no_empty_numbers() -> None:
    nodes = [{"level": "D"}, {"level": "R", "capacity_bits": 1, "must_hold": ["@input"]}, {"compute": "M", "pj": 1}]
    nothing = pm.explore(LAYER, pm.io.arch_from_document({"name": "tiny", "nodes": nodes}))
    assert nothing.status == "INFEASIBLE"
    assert repr(nothing).splitlines()[0].startswith("INFEASIBLE: no mapping, ")


def test_the_summary_of_a_search_that_ended_early_says_that_its_space_is_not_counted() -> None:
    space = type(RESULT.space)(syntactic=None, legal=None, distinct=None, evaluated=0, pruned=0)
    assert str(replace(RESULT, space=space)).splitlines()[1] == "space: not counted before the search ended"
