"""The text of native functions: a golden file, the header's declarations, what is packed, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import polymap as pm
from polymap.codegen.native import NativeFunction, native_function
from polymap.schedules import mapping_from_document
from tests.native_cases import machine

TREE = {
    "nodes": [
        {"store": "DRAM", "tensors": ["C", "A", "B"]},
        {"for": "n", "tile": 16},
        {"store": "L1", "tensors": ["B"]},
        {"for": "m", "tile": 2},
        {"par": "n", "tile": 2, "over": "lane"},
        {"store": "REG", "tensors": ["C"]},
        {"for": "k", "tile": 1},
        {"for": "m", "tile": 1},
        {"for": "n", "tile": 1},
        {"compute": "S"},
    ]
}


def _matmul(m: int, n: int, k: int) -> NativeFunction:
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k, types="float32")
    return native_function(workload, machine(8), mapping_from_document(TREE), name="gemm", remark="A remark. */")


def test_a_matmul_with_remainders_equals_its_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("matmul_function.c", _matmul(5, 20, 3).text)


def test_the_header_declares_what_the_text_defines() -> None:
    function = _matmul(4, 32, 3)
    assert function.packed == "B"
    assert function.packed_elements == 96
    for line in function.declarations.splitlines():
        assert line.removesuffix(";") in function.text


def test_weights_that_are_used_once_are_not_packed() -> None:
    assert _matmul(1, 32, 3).packed is None


def test_trees_without_lanes_are_printed_without_vectors() -> None:
    tree = {"nodes": [node for node in TREE["nodes"] if "par" not in node and node.get("store") != "REG"]}
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=3, k=4, types="float32")
    function = native_function(workload, machine(8), mapping_from_document(tree), name="gemm")
    assert "lanes" in function.reason
    assert "vector_size" not in function.text


def test_programs_of_several_statements_are_refused() -> None:
    workload = pm.program(["T[m] += A[m,k]", "C[m] += T[m]"], m=2, k=3, types="float32")
    with pytest.raises(pm.WorkloadError, match="PM622 .* is a program or a region of C"):
        native_function(workload, machine(8), mapping_from_document(TREE), name="two")
