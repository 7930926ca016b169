"""The text of native functions: a golden file, the header's declarations, what is packed, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native import NativeFunction, native_function
from polymap.inputs import mapping_from_document
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
    function = _matmul(4, 20, 3)
    assert function.packed == "B"
    assert function.packed_elements == 96
    for line in function.declarations.splitlines():
        assert line.removesuffix(";") in function.text


def test_weights_that_are_used_once_are_not_packed() -> None:
    assert _matmul(1, 20, 3).packed is None


def test_weights_that_lie_as_panels_would_are_not_packed() -> None:
    assert _matmul(9, 32, 3).packed is None, "rows of whole vectors, which the second cache holds"
    assert _matmul(9, 1024, 3).packed == "B", "rows of 4096 bytes fall onto one set of the first cache"


def test_one_call_reads_large_weights_where_they_lie_if_it_reads_them_twice() -> None:
    for rows, directly in ((4, True), (6, False)):
        text = _matmul(rows, 1024, 400).text
        plain = text[text.index("void gemm(") :]
        assert ("B + " in plain, "B_packed" in plain) == (False, not directly), "tiles have two rows"
        assert ("gemm_direct0(" in plain) == directly, "the call with packed weights keeps its own tiles"


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_steps_of_several_taps_share_no_broadcasts(layout: str) -> None:
    conv = pm.compile(pm.conv2d(K=32, C=16, H=14, W=14, R=3, S=3, padding=1, bits=32), "cpu_avx512", layout=layout)
    assert 0 < conv.source.count("APART(a0_x);") == conv.source.count("long a0_x = ")


def test_depthwise_layers_with_strides_in_nchw_copy_even_and_odd_columns() -> None:
    layer = pm.conv2d(K=8, C=8, H=64, W=64, R=3, S=3, padding=1, stride=2, groups=8, bits=32)
    conv = pm.compile(layer, "cpu_avx512", layout="NCHW")
    assert conv.reason == ""
    assert "halve_float(from + " in conv.source


def test_trees_without_lanes_are_printed_without_vectors() -> None:
    tree = {"nodes": [node for node in TREE["nodes"] if "par" not in node and node.get("store") != "REG"]}
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=3, k=4, types="float32")
    function = native_function(workload, machine(8), mapping_from_document(tree), name="gemm")
    assert "lanes" in function.reason
    assert "vector_size" not in function.text


def test_functions_that_need_too_much_memory_of_their_own_are_refused() -> None:
    sizes, text = {"m": 2**14, "n": 2**16, "k": 64}, "C[m,n] += A[m,k] * B[k,n]"
    tree = {"nodes": [node for node in TREE["nodes"] if "par" not in node and node.get("store") != "REG"]}
    large = pm.einsum(text, sizes=sizes, types="float32")
    with pytest.raises(pm.errors.BudgetError, match="PM601 the program would need 4294967296 bytes of memory"):
        native_function(large, machine(8), mapping_from_document(tree), name="gemm", tail=[pm.Requantize(0.5)])
    with pytest.raises(pm.errors.BudgetError, match="PM601 an index of the program would reach 2147483655"):
        pm.compile(pm.einsum(text, sizes={**sizes, "n": 2**31 + 7}, types="float32"), "cpu_avx2")
    many = "void f(int n, double A[n]) { double t[n]; for (int i = 0; i < n; i++) t[i] = A[i]; A[0] = t[n - 1]; }"
    with pytest.raises(pm.errors.BudgetError, match="PM601 the program would need 2400000000 bytes of memory"):
        pm.compile(pm.from_c(many, {"n": 300_000_000}), "cpu_avx2")


@pytest.mark.parametrize(("wide", "narrow"), [("float64", "bfloat16"), ("float32", "bfloat16")])
def test_bfloat16_is_read_exactly_into_either_float(wide: str, narrow: str) -> None:
    work = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=3, n=16, k=5, types={"C": wide, "A": narrow, "B": narrow})
    fn = pm.compile(work, "cpu_avx2")
    a, b = np.arange(15, dtype=np.float32).reshape(3, 5), np.arange(80, dtype=np.float32).reshape(5, 16)
    bits = [(each.view(np.uint32) >> 16).astype(np.uint16) for each in (a, b)]
    assert np.array_equal(fn(*bits), a.astype(wide) @ b.astype(wide))
    assert bool(fn.reason) == (wide == "float64")


def test_float16_is_refused_with_types_that_work() -> None:
    with pytest.raises(pm.errors.WorkloadError, match='PM621 .*float16, in which no function.*\n.*"A": "float32"'):
        pm.compile(pm.einsum("C[m] += A[m,k]", m=3, k=5, types="float16"), "cpu_avx2")


def test_programs_of_several_statements_are_refused() -> None:
    workload = pm.program(["T[m] += A[m,k]", "C[m] += T[m]"], m=2, k=3, types="float32")
    with pytest.raises(pm.errors.WorkloadError, match="PM622 .* is a program or a region of C"):
        native_function(workload, machine(8), mapping_from_document(TREE), name="two")


@pytest.mark.parametrize(
    ("m", "n", "k", "taps"),
    [("long", "vec", "A", ("i", "f")), ("at", "WIDE", "return", ("d", "o")), ("B", "some", "signed", ("a0", "void"))],
)
def test_dims_may_be_named_as_words_of_c_arrays_or_local_names(m: str, n: str, k: str, taps: tuple[str, str]) -> None:
    """Loops over reductions once had the dims' own names, and two in one their names together."""
    x, w = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(24, dtype=np.int32).reshape(3, 8)
    product = pm.einsum(f"C[{m},{n}] += A[{m},{k}] * B[{k},{n}]", sizes={m: 2, n: 8, k: 3}, types="int32")
    assert np.array_equal(pm.compile(product, "cpu_avx2")(x, w), x @ w)
    r, s = taps
    sums = pm.einsum(f"O[n] += X[{r},{s},n]", sizes={"n": 8, r: 3, s: 5}, types="int32")
    x = np.arange(120, dtype=np.int32).reshape(3, 5, 8)
    assert np.array_equal(pm.compile(sums, "cpu_avx2")(x), x.sum((0, 1)))
