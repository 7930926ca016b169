"""Compiled functions: what they return, what they refuse, and the cache of their objects."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native.compiler import host_compiler
from polymap.ir import CompilerError, InputError, OptionError, WorkloadError

FLOATS = {"I": "float32", "W": "float32", "O": "float32"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CFLAGS", "-O1")
    return tmp_path / "cache" / "polymap" / "native"


@pytest.fixture
def product_of_matrices() -> pm.CompiledFunction:
    return pm.compile(pm.matmul(m=5, n=19, k=7, bits=32), "host_cpu")


def _matrices(m: int = 5, n: int = 19, k: int = 7) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(-8, 8, (m, k)).astype(np.float32), rng.integers(-8, 8, (k, n)).astype(np.float32)


def _convolution(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    """Return the convolution of x[N,H,W,C] and w[K,R,S,C/groups], by the definition."""
    batch, height, width, channels = x.shape
    filters, rows, columns, per_group = w.shape
    out = [(size + 2 * padding - tap) // stride + 1 for size, tap in ((height, rows), (width, columns))]
    ring = np.zeros((batch, height + 2 * padding, width + 2 * padding, channels))
    ring[:, padding : padding + height, padding : padding + width] = x
    y = np.zeros((batch, *out, filters))
    for k, r, s, c in product(range(filters), range(rows), range(columns), range(per_group)):
        channel = k // (filters // groups) * per_group + c
        window = ring[:, r : r + stride * out[0] : stride, s : s + stride * out[1] : stride, channel]
        y[..., k] += window[:, : out[0], : out[1]] * w[k, r, s, c]
    return y


@pytest.mark.parametrize("rows", [3, 8])
def test_packed_weights_have_loops_of_their_own(rows: int) -> None:
    """A large matrix is read few rows at a time where it lies, and panel by panel once it is packed."""
    work = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=rows, n=1603, k=401, types="float32")
    function = pm.compile(work, "cpu_avx512", tail=["relu"])
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((rows, 401), (401, 1603)))
    expected = np.maximum(a @ b, 0)
    np.testing.assert_array_equal(function(a, b), expected)
    np.testing.assert_array_equal(function(a, function.pack_weights(b)), expected)
    assert function.source.count("int first = k_0 == 0") == 1, "only one of both loads sums again"


def test_products_are_numpys(product_of_matrices: pm.CompiledFunction) -> None:
    fn, (a, b) = product_of_matrices, _matrices()
    assert np.array_equal(fn(a, b), a @ b)
    out = np.full((5, 19), 7, np.float32)
    assert fn(a, fn.pack_weights(b), out=out) is out
    assert np.array_equal(out, a @ b)
    assert fn.result is not None
    assert fn.result.status == "OPTIMAL"
    assert "void polymap_native(const float *restrict A" in fn.source


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "stride", "padding", "groups"), [("NHWC", 1, 1, 1), ("NCHW", 2, 1, 1), ("NHWC", 1, 0, 6)]
)
def test_convolutions_take_the_layout_asked_for(layout: str, stride: int, padding: int, groups: int) -> None:
    layer = pm.conv2d(K=18, C=6, H=7, W=9, R=3, S=3, N=2, stride=stride, padding=padding, groups=groups, types=FLOATS)
    fn = pm.compile(layer, "host_cpu", layout=layout)
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 4, (2, 7, 9, 6)).astype(np.float32)
    w = rng.integers(-4, 4, (18, 3, 3, 6 // groups)).astype(np.float32)
    expected = _convolution(x, w, stride, padding, groups)
    if layout == "NCHW":
        x, w = (np.ascontiguousarray(np.moveaxis(each, 3, 1)) for each in (x, w))
        expected = np.moveaxis(expected, 3, 1)
    assert np.array_equal(fn(x, w), expected)
    assert np.array_equal(fn(x, fn.pack_weights(w)), expected)


def test_an_einsum_without_contiguous_dims_is_still_computed_and_tells_why() -> None:
    fn = pm.compile(pm.einsum("y[i] += x[3*i+j] * x[j]", i=4, j=3, bits=32), "host_cpu")
    x = np.arange(12, dtype=np.float32)
    assert np.array_equal(fn(x), np.array([x[3 * i : 3 * i + 3] @ x[:3] for i in range(4)], np.float32))
    assert fn.reason


def test_dlpack_and_the_buffer_protocol_are_read(product_of_matrices: pm.CompiledFunction) -> None:
    import array

    class Foreign:
        def __init__(self, values: Any) -> None:
            self.values = values

        def __dlpack__(self, **options: Any) -> Any:
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.values.__dlpack_device__()

    a, b = _matrices()
    flat = array.array("f", a.ravel().tolist())
    seen = memoryview(flat).cast("B").cast("f", (5, 7))
    assert np.array_equal(product_of_matrices(seen, Foreign(b)), a @ b)


def test_wrong_arrays_are_refused_before_c_sees_them(product_of_matrices: pm.CompiledFunction) -> None:
    fn, (a, b) = product_of_matrices, _matrices()
    odd = np.frombuffer(b"\0" * (a.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(a.shape)
    still = np.zeros((5, 19), np.float32)
    still.flags.writeable = False
    wrong: list[tuple[str, tuple[object, ...], object]] = [
        ("PM636 arrays given: 1", (a,), None),
        ("PM630 A is given as list", ([[1.0]], b), None),
        ("PM630 A is given as object", (object(), b), None),
        ("PM631 A has elements of float64, expected float32", (a.astype(np.float64), b), None),
        (r"PM632 B has shape \(19, 7\), expected \(7, 19\)", (a, np.ascontiguousarray(b.T)), None),
        (r"PM633 B has strides of \(4, 28\) bytes", (a, np.asfortranarray(b)), None),
        ("PM633 A begins at an address that is no multiple of 4 bytes", (odd, b), None),
        ("PM634 the array for C is read-only", (a, b), still),
        ("PM632 C has shape", (a, b), np.zeros((19, 5), np.float32)),
        ("PM630 C is given as int", (a, b), 3),
    ]
    for match, arrays, out in wrong:
        with pytest.raises(InputError, match=match):
            fn(*arrays, out=out)


def test_overlapping_outputs_are_refused() -> None:
    fn = pm.compile(pm.matmul(m=8, n=8, k=8, bits=32), "host_cpu")
    memory = np.zeros(100, np.float32)
    a, out = memory[:64].reshape(8, 8), memory[32:96].reshape(8, 8)
    with pytest.raises(InputError, match="PM634 the arrays of C and A overlap"):
        fn(a, np.ones((8, 8), np.float32), out=out)


def test_packed_weights_belong_to_one_function(product_of_matrices: pm.CompiledFunction) -> None:
    other = pm.compile(pm.matmul(m=5, n=19, k=8, bits=32), "host_cpu")
    a, b = _matrices(k=8)
    with pytest.raises(InputError, match="PM637 B is given as weights that another function packed"):
        product_of_matrices(np.ascontiguousarray(a[:, :7]), other.pack_weights(b))


def test_pack_weights_names_the_operand_that_it_takes() -> None:
    """Of 1x1 filters in NCHW the image has the lanes."""
    function = pm.compile(pm.conv2d(K=48, C=128, H=10, W=10, R=1, S=1, bits=32), "cpu_avx2", layout="NCHW")
    assert function.packed == "I"
    x, w = np.ones((1, 128, 10, 10), np.float32), np.ones((48, 128, 1, 1), np.float32)
    with pytest.raises(InputError, match=r"PM632 I has shape \(48, 128, 1, 1\)(?s:.)*pack_weights\(\) .*takes I "):
        function.pack_weights(w)
    assert (function(function.pack_weights(x), w) == 128).all()


@pytest.mark.parametrize(
    ("bits", "terms", "kinds"),
    [
        (8, 70, ["int8", "int8", "int32"]),
        (16, 70, ["int16", "int16", "int64"]),
        ({"A": 8, "B": 8, "C": 32}, 70, ["int8", "int8", "int32"]),
        ({"A": 12, "B": 8, "C": 8}, 9000, ["int16", "int8", "int64"]),
    ],
)
def test_bits_alone_are_integers_whose_sums_are_whole(bits: Any, terms: int, kinds: list[str]) -> None:
    product_of_integers = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=5, n=24, k=terms, bits=bits)
    function = pm.compile(product_of_integers, "host_cpu")
    assert [form.kind for form in function.function.arrays] == kinds
    rng = np.random.default_rng(terms)
    least = [-(2 ** (int(kind[3:]) - 1)) for kind in kinds]
    a = rng.choice([least[0], 3], (5, terms)).astype(kinds[0])
    b = rng.choice([least[1], 3], (terms, 24)).astype(kinds[1])
    assert (function(a, b) == a.astype(object) @ b.astype(object)).all()


def test_what_cannot_be_compiled_is_said() -> None:
    layer = pm.matmul(m=4, n=16, k=4, types={"A": "float16", "B": "float16", "C": "float32"})
    with pytest.raises(WorkloadError, match=r"PM621 tensor A has 16 bits"):
        pm.compile(layer, "host_cpu")
    layer = pm.matmul(m=4, n=16, k=4, bits=32)
    with pytest.raises(OptionError, match="PM638 layout is 'CHWN'"):
        pm.compile(layer, "host_cpu", layout="CHWN")
    with pytest.raises(OptionError, match="PM638 threads is 0"):
        pm.compile(layer, "host_cpu", threads=0)
    with pytest.raises(pm.errors.ArchError, match="PM122"):
        pm.compile(layer, "flat3")


def test_names_of_tensors_and_workloads_never_reach_c_as_they_are() -> None:
    layer = pm.einsum("int[for] += NULL[for,main] * system[main]", sizes={"for": 16, "main": 3}, bits=32)
    fn = pm.compile(layer, "host_cpu")
    a, b = np.arange(48, dtype=np.float32).reshape(16, 3), np.arange(3, dtype=np.float32)
    assert np.array_equal(fn(a, b), a @ b)
    from dataclasses import replace

    evil = replace(pm.matmul(m=4, n=16, k=4, bits=32), name='*/ int x = 1; /*\\ ??/ "; rm -rf $HOME; "')
    assert np.array_equal(
        pm.compile(evil, "host_cpu")(np.eye(4, dtype=np.float32), np.ones((4, 16), np.float32)), np.ones((4, 16))
    )


def test_calls_may_overlap_in_threads(product_of_matrices: pm.CompiledFunction) -> None:
    fn, (a, b) = product_of_matrices, _matrices()
    wrong: list[int] = []

    def work(factor: int) -> None:
        for _ in range(200):
            if not np.array_equal(fn(a * factor, b), a @ b * factor):
                wrong.append(factor)

    workers = [threading.Thread(target=work, args=(factor,)) for factor in (1, 2, 3, 4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not wrong


# The compiler


def test_cc_and_cflags_are_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a folder; with $(signs)" / "cc"
    log.parent.mkdir()
    log.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{tmp_path}/log"\nexec cc "$@"\n')
    log.chmod(0o755)
    monkeypatch.setenv("CC", f"'{log}' -DONE")
    monkeypatch.setenv("CFLAGS", "-O0 -DTWO='2 3'")
    pm.compile(pm.matmul(m=2, n=16, k=2, bits=32), "host_cpu")
    words = (tmp_path / "log").read_text().splitlines()
    assert {"-DONE", "-O0", "-DTWO=2 3", "-shared"} <= set(words)


def test_without_a_compiler_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match="PM602 .*no-such-compiler"):
        host_compiler()
    monkeypatch.setenv("CC", "'open")
    with pytest.raises(CompilerError, match="PM602 CC is .*not a list of words"):
        host_compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CompilerError, match="PM602 no C compiler"):
        host_compiler()


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-fno-such-flag")
    with pytest.raises(CompilerError, match="PM603 .*no-such-flag"):
        pm.compile(pm.matmul(m=2, n=16, k=3, bits=32), "host_cpu")


# The cache

_CHILD = """
from polymap.codegen.native.cache import load_object
from polymap.codegen.native.compiler import host_compiler
text = "int answer(void) { return 42; }" + " " * 100000
assert load_object(text, host_compiler(), 1).answer() == 42
"""


@pytest.mark.slow
def test_eight_processes_compile_one_function_at_once(cache: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", _CHILD], stderr=subprocess.PIPE) for _ in range(8)]
    told = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0] * 8, told
    assert [path.suffix for path in cache.iterdir()] == [".so"]


def _compile_small() -> pm.CompiledFunction:
    return pm.compile(pm.matmul(m=2, n=16, k=2, bits=32), "host_cpu")


def _is_right(fn: pm.CompiledFunction) -> bool:
    return np.array_equal(fn(np.eye(2, dtype=np.float32), np.ones((2, 16), np.float32)), np.ones((2, 16)))


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_damaged_entries_are_built_again(cache: Path, damage: str) -> None:
    _compile_small()
    (entry,) = cache.iterdir()
    held = entry.read_bytes()
    entry.unlink()  # what is loaded keeps its file
    middle = len(held) // 2
    entry.write_bytes(
        {"truncated": held[:middle], "changed": held[:middle] + b"x" + held[middle + 1 :], "empty": b""}[damage]
    )
    assert _is_right(_compile_small())
    assert len(entry.read_bytes()) == len(held)


def test_an_entry_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _compile_small()
    from polymap.codegen.native import cache as cache_module

    monkeypatch.setattr(cache_module, "compile_shared", None)  # a second compilation would fail
    assert _is_right(_compile_small())


def test_what_killed_processes_left_is_removed_after_a_day(cache: Path) -> None:
    left = cache / "build-killed"
    left.mkdir(parents=True)
    cache.chmod(0o700)
    (left / "function.c").write_text("")
    os.utime(left, (0, 0))
    _compile_small()
    assert not left.exists()


def test_an_unusable_cache_falls_back_with_a_warning(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="not kept: others may write"):
        assert _is_right(_compile_small())
    assert list(cache.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="not kept"):
        assert _is_right(_compile_small())


def test_a_compiler_without_openmp_is_told_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "ld: cannot find -lomp: No such file" >&2\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(pm.errors.CompilerError, match=r"(?s)PM603 .*cannot find -lomp.*libomp.*threads=1"):
        pm.compile(pm.matmul(m=33, n=65, k=17, bits=32), "cpu_avx2", threads=2)
