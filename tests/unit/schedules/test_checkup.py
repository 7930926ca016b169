"""The data behind `polymap check`."""

from __future__ import annotations

import json
from math import factorial

import pytest

from polymap.ir.errors import BudgetError, MappingError
from polymap.ir.loopnest import Operator
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.poly import deadlines as within
from polymap.report.answers import checkup_document
from polymap.schedules.legality import dependence_violations
from polymap.schedules.legality_report import checkup
from polymap.workload.c.reader import from_c
from polymap.workload.dependence_analysis import dependence_relations
from tests.nests import NESTS, at, convolution, cube, floyd_warshall, matmul, statement, stencil, workload


def test_checkup_of_a_skewed_update() -> None:
    document = checkup_document(checkup(stencil("ij", [(-1, 1)])))
    assert json.loads(json.dumps(document)) == {
        "dependences": [
            {
                "source": "S",
                "sink": "S",
                "kind": "flow",
                "array": "a",
                "relation": "{ S[i, j] -> S[i' = 1 + i, j' = -1 + j] : 0 <= i <= 3 and 0 < j <= 4 }",
                "distances": [[1, -1]],
                "directions": [["<", ">"]],
            }
        ],
        "loops": ["i", "j"],
        "orders": {"total": 2, "strict": 1, "relaxed": 1, "legal_strict": [["i", "j"]]},
        "parallel": {"i": False, "j": True},
        "nests": {
            "loops": [
                {"loop": "i", "depth": 0, "statements": ["S"], "parallel": False, "vectorizable": False},
                {"loop": "j", "depth": 1, "statements": ["S"], "parallel": True, "vectorizable": True},
            ],
            "bands": [{"loops": ["i", "j"], "permutable": [["i"], ["j"]], "skews": {"j": {"i": 1}}}],
            "neighbours": [],
        },
    }


def test_checkup_of_floyd_warshall_and_of_a_matrix_product() -> None:
    orders = checkup(floyd_warshall()).orders
    assert (orders.total, orders.strict, orders.relaxed) == (6, 2, 2)
    assert orders.legal_strict == (("k", "i", "j"), ("k", "j", "i"))
    found = checkup(matmul())
    assert found.parallel == (("i", True), ("j", True), ("k", "reduction"))
    assert (found.orders.strict, found.orders.relaxed) == (6, 6)
    assert found.violations is None


def test_checkup_of_a_convolution_counts_840_and_5040_orders() -> None:
    orders = checkup(convolution()).orders
    assert (orders.total, orders.strict, orders.relaxed) == (5040, 840, 5040)
    assert orders.legal_strict is not None
    assert len(orders.legal_strict) == 840


def test_orders_of_many_loops_are_counted_and_not_listed() -> None:
    names = "abcdefghij"
    reads = [at("x", *names)]
    orders = checkup(workload(cube(names, 2), statement(names, at("y", *names[:6]), reads))).orders
    assert (orders.total, orders.strict, orders.relaxed) == (factorial(10), factorial(10) // 24, factorial(10))
    assert orders.legal_strict is None


def test_counts_beyond_double_precision_are_decimal_strings() -> None:
    names = "abcdefghijklmnopqrstu"
    document = checkup_document(
        checkup(workload(cube(names, 2), statement(names, at("y", *names), [at("x", *names)], Operator.ASSIGN)))
    )
    assert document["orders"] == {
        "total": str(factorial(21)),
        "strict": str(factorial(21)),
        "relaxed": str(factorial(21)),
        "legal_strict": None,
    }


def test_several_statements_are_checked_over_the_loops_that_all_share() -> None:
    source = """
    for (t = 0; t < 4; t++) {
      for (i = 1; i < 7; i++) b[i] = a[i - 1] + a[i + 1];
      for (i = 1; i < 7; i++) a[i] = b[i];
    }"""
    found = checkup(from_c(source))
    assert found.loops == ("t",)
    assert found.parallel == (("t", False),)
    assert (found.orders.total, found.orders.legal_strict) == (1, (("t",),))


def test_violations_of_a_mapping_come_with_two_instances() -> None:
    tree = Mapping((Storage("L1", ("a",)), Temporal("j", 1), Spatial("i", 2, "X"), Temporal("i", 1), Compute("S")))
    document = checkup_document(checkup(stencil("ij", [(-1, 1)]), tree))
    (violation,) = document["violations"]  # type: ignore[misc]
    assert violation["kind"] == "dependence"
    assert violation["witness"] == {
        "first": {"statement": "S", "i": 0, "j": 1},
        "second": {"statement": "S", "i": 1, "j": 0},
    }
    legal = Mapping((Temporal("i", 1), Temporal("j", 1), Compute("S")))
    assert checkup(stencil("ij", [(-1, 1)]), legal).violations == ()


def test_mapping_that_is_no_program_of_the_workload_is_refused() -> None:
    tree = Mapping((Temporal("x", 1), Temporal("j", 1), Compute("S")))
    with pytest.raises(MappingError, match="PM406 nodes.0. names the dim 'x', which there is not"):
        checkup(stencil("ij", [(-1, 1)]), tree)


def test_a_process_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    work = NESTS["floyd-warshall"][0]
    loops = Mapping((Temporal("i", 1), Temporal("k", 1), Temporal("j", 1), Compute("S")))
    here = checkup(work, loops)
    assert here.violations
    monkeypatch.setattr(within, "TUNING", within.TUNING._replace(first_operations=1))
    dependence_relations.cache_clear()
    assert checkup(work, loops) == here
    assert dependence_violations(work, loops) == here.violations


def test_a_program_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within, "TUNING", within.TUNING._replace(first_operations=1))
    dependence_relations.cache_clear()
    with pytest.raises(BudgetError, match=r"PM510 checking this program takes more than 0\.01 s"):
        checkup(NESTS["gauss-seidel, 9 points, in time"][0], time_limit_s=0.01)
