"""Functions of MLIR's affine dialect: the C that they are read as, compiled, against the same loops in Python."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.cli import main

HEADER = """\
#include <math.h>
#define floord(n, d) ((n) / (d) - ((n) % (d) < 0))
#define ceild(n, d) ((n) / (d) + ((n) % (d) > 0))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
"""

MATMUL = """\
#tile = affine_map<(d0)[s0] -> (d0 + 3, s0)>
#keep = affine_set<(d0, d1)[s0] : (d0 + d1 * 2 - 3 >= 0, s0 - d1 - 2 >= 0)>
module attributes {llvm.data_layout = "e"} {
  func.func private @other(memref<4xf32>)
  func.func @matmul(%arg0: memref<7x5xf64> {llvm.noalias}, %arg1: memref<5x?xf64>, %arg2: memref<7x?xf64>, %n: index) {
    %cst = arith.constant 2.500000e-01 : f64
    %c1 = arith.constant 1 : index
    %d = memref.dim %arg1, %c1 : memref<5x?xf64>
    affine.for %i = 0 to 7 step 3 {
      affine.for %ii = affine_map<(d0) -> (d0)>(%i) to min #tile(%i)[%n] { // a tile
        affine.for %j = 0 to %d {
          %r = affine.for %k = 0 to 5 iter_args(%acc = %cst) -> (f64) {
            %2 = affine.load %arg0[%ii, %k] : memref<7x5xf64>
            %3 = affine.load %arg1[%k, %j] : memref<5x?xf64>
            %4 = arith.mulf %2, %3 fastmath<fast> : f64
            %5 = arith.addf %acc, %4 : f64
            affine.yield %5 : f64
          } {slinalg.tag = 1 : i64}
          affine.if #keep(%ii, %j)[%d] {
            affine.store %r, %arg2[%ii, %j] : memref<7x?xf64>
          } else {
            affine.store %cst, %arg2[%ii, %j floordiv 2 + symbol(%c1) - 1] : memref<7x?xf64>
          }
        }
      }
    }
    return
  }
}
"""


def matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray, n: int) -> None:
    for tile in range(0, 7, 3):
        for i in range(tile, min(tile + 3, n)):
            for j in range(c.shape[1]):
                total = 0.25
                for k in range(5):
                    total += a[i, k] * b[k, j]
                if i + 2 * j >= 3 and j <= c.shape[1] - 2:
                    c[i, j] = total
                else:
                    c[i, j // 2] = 0.25


SWAP = """\
func.func @swap(%A: memref<12xf64>, %B: memref<f64>) {
  affine.parallel (%i) = (0) to (6) step (2) {
    %x = affine.load %A[%i] : memref<12xf64>
    %y = affine.load %A[-%i + 11] : memref<12xf64>
    affine.store %y, %A[%i] : memref<12xf64>
    affine.store %x, %A[-%i + 11] : memref<12xf64>
  }
  %first = affine.load %A[0] : memref<12xf64>
  affine.for %i = 0 to 12 {
    %0 = affine.apply affine_map<(d0) -> ((d0 * 5 - 7) mod 12)>(%i)
    %1 = affine.load %A[%0] : memref<12xf64>
    %2 = arith.mulf %1, %first : f64
    %3 = math.absf %2 : f64
    %4 = arith.cmpf ogt, %3, %1 : f64
    %5 = arith.select %4, %3, %1 : f64
    affine.store %5, %A[%i] : memref<12xf64>
    %6 = affine.load %B[] : memref<f64>
    %7 = arith.maximumf %6, %5 : f64
    affine.store %7, %B[] : memref<f64>
  }
  return
}
"""


def swap(a: np.ndarray, b: np.ndarray) -> None:
    for i in range(0, 6, 2):
        a[i], a[11 - i] = a[11 - i], a[i]
    first = a[0]
    for i in range(12):
        read = a[(5 * i - 7) % 12]
        a[i] = max(abs(read * first), read)
        b[0] = max(b[0], a[i])


STENCIL = """\
module {
  func.func @stencil(%A: memref<?xi32>, %T: index) {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant -3 : i32
    %n = memref.dim %A, %c0 : memref<?xi32>
    %buffer = memref.alloc(%n) : memref<?xi32>
    affine.for %t = 0 to %T {
      affine.for %i = 1 to affine_map<()[s0] -> (s0 - 1)>()[%n] {
        %a = affine.load %A[%i - 1] : memref<?xi32>
        %b = affine.load %A[%i + 1] : memref<?xi32>
        %s = arith.addi %a, %b : i32
        %m = arith.muli %s, %c3 : i32
        %l = arith.remsi %m, %c7 : i32
        affine.store %l, %buffer[%i] : memref<?xi32>
      }
      affine.for %i = max affine_map<(d0) -> (1, d0 - 2)>(%t) to affine_map<()[s0] -> (s0 ceildiv 2)>()[%n] {
        %a = affine.load %buffer[%i] : memref<?xi32>
        affine.store %a, %A[%i] : memref<?xi32>
      }
    }
    memref.dealloc %buffer : memref<?xi32>
    func.return
  }
}
""".replace("%n = memref.dim", "%c7 = arith.constant 7 : i32\n    %n = memref.dim")


def stencil(a: np.ndarray, steps: int) -> None:
    n = len(a)
    buffer = np.zeros(n, dtype=np.int64)
    for t in range(steps):
        for i in range(1, n - 1):
            product = int(a[i - 1] + a[i + 1]) * -3
            buffer[i] = abs(product) % 7 * (1 if product >= 0 else -1)
        for i in range(max(1, t - 2), (n + 1) // 2):
            a[i] = buffer[i]


def compiled(text: str, folder: Path) -> Callable[..., None]:
    """Return the function that `affine_to_c` writes, compiled."""
    source = pm.io.affine_to_c(text)
    (folder / "made.c").write_text(HEADER + source, encoding="utf-8")
    library = folder / "made.so"
    command = ["gcc", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", library, folder / "made.c", "-lm"]
    subprocess.run(command, check=True)
    name = source[source.index("void ") + 5 : source.index("(")]
    return getattr(ctypes.CDLL(str(library)), name)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.integers(-9, 9, size=shape).astype(np.float64) for shape in shapes]


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def test_products_in_tiles_with_conditions(tmp_path: Path) -> None:
    function = compiled(MATMUL, tmp_path)
    for n, columns in ((7, 4), (5, 9), (0, 1)):
        a, b, c = arrays((7, 5), (5, columns), (7, columns))
        found, expected = c.copy(), c.copy()
        matmul(a, b, expected, n)
        function(columns, columns, n, pointer(a), pointer(b), pointer(found))
        np.testing.assert_array_equal(found, expected)
    work = pm.io.workload_from_affine(MATMUL, {"n": 7, "arg1_1": 4, "arg2_1": 4})
    assert [each.target.tensor for each in work.statements] == ["r", "r", "arg2", "arg2"], work


def test_values_that_a_store_changes_are_kept(tmp_path: Path) -> None:
    function = compiled(SWAP, tmp_path)
    a, b = arrays((12,), (1,))
    found, largest = a.copy(), b.copy()
    swap(a, b)
    function(pointer(found), pointer(largest))
    np.testing.assert_array_equal(found, a)
    np.testing.assert_array_equal(largest, b)


def test_integers_dynamic_sizes_and_buffers(tmp_path: Path) -> None:
    function = compiled(STENCIL, tmp_path)
    for n, steps in ((11, 4), (6, 1), (3, 7)):
        a = arrays((n,))[0].astype(np.int32)
        found = a.copy()
        stencil(a, steps)
        function(n, steps, pointer(found))
        np.testing.assert_array_equal(found, a)


def test_the_command_line_reads_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.mlir").write_text(STENCIL, encoding="utf-8")
    assert main(["check", str(tmp_path / "s.mlir"), "--size", "A_0=9", "--size", "T=4"]) == 0
    assert "flow of A" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "s.mlir")]) == 0
    assert "flow of A" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("affine.parallel", "scf.parallel", r"line 2: 'scf.parallel' is not read"),
        ("math.absf", "math.rsqrt", r"line 13: 'math.rsqrt' is not read"),
        ("%A[%i] : memref<12xf64>\n    %y", "%A[%i, 0] : memref<12xf64>\n    %y", "line 3: %A has 1 axes, not 2"),
        ("%A[%i] : memref<12xf64>\n    %y", "%C[%i] : memref<12xf64>\n    %y", "line 3: %C is no memref"),
        ("mulf %1, %first", "mulf %1, %last", "line 12: %last is not defined"),
        ("cmpf ogt", "cmpf ugt", "line 14: the comparison .ugt. is not read"),
        ("memref<f64>) {", "memref<f16>) {", "line 1: the type 'f16' is not read"),
        ("memref<f64>) {", "memref<4xf64, strided<[2]>>) {", "line 1: the type .* is not read"),
        ("((d0 * 5 - 7) mod 12)>(%i)", "(d1)>(%i)", "line 10: 'd1' is neither dim nor symbol"),
        ("  return\n}\n", "", "the end stands where more is expected"),
        ("(0) to (6)", "(0, 0) to (6)", "line 2: affine.parallel with reductions|of other numbers"),
    ],
    ids=map(str, range(11)),
)
def test_what_is_not_read_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    assert old in SWAP, "the text has changed"
    with pytest.raises(pm.errors.InputError, match=f"PM287.*{message}"):
        pm.io.affine_to_c(SWAP.replace(old, new, 1))


def rewritten(text: str) -> str:
    """Return a text of MLIR as C, written as MLIR again."""
    return pm.io.c_to_affine(pm.io.affine_to_c(text))


def test_what_is_written_is_read_back_and_computes_the_same(tmp_path: Path) -> None:
    a, b, c = arrays((7, 5), (5, 4), (7, 4))
    found = c.copy()
    matmul(a, b, c, 6)
    compiled(rewritten(MATMUL), tmp_path)(6, 4, 4, pointer(a), pointer(b), pointer(found))
    np.testing.assert_array_equal(found, c)
    (tmp_path / "swap").mkdir()
    values, largest = arrays((12,), (1,))
    found, best = values.copy(), largest.copy()
    swap(values, largest)
    compiled(rewritten(SWAP), tmp_path / "swap")(pointer(found), pointer(best))
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(best, largest)
    (tmp_path / "stencil").mkdir()
    numbers = arrays((11,))[0].astype(np.int32)
    read = numbers.copy()
    stencil(numbers, 4)
    compiled(rewritten(STENCIL), tmp_path / "stencil")(4, 11, pointer(read))
    np.testing.assert_array_equal(read, numbers)
    for text in (MATMUL, SWAP, STENCIL):
        twice = rewritten(rewritten(text))
        names = [re.sub(r"%\w+", "%", each) for each in (twice, rewritten(twice))]
        assert names[0] == names[1], "what is written is written again but for names"


KERNELS = {
    "solve": """void solve(double A[9][9], double b[9], double x[9]) {
  for (int i = 0; i <= 8; i++) {
    double s = b[i];
    for (int j = 0; j < i; j++) s -= A[i][j] * x[j];
    x[i] = s / (fabs(A[i][i]) + 1.5e0);
  }
}""",
    "clipped": """static const double top = 4;
void clipped(double A[9][9], double b[9], double x[9]) {
  const int last = 8;
  double best = -1e30;
  for (int i = last; i < 9 && 0 == 0; i++) x[i] = 0;
  for (int i = 0; i < 9; i++)
    for (int j = i > 3 ? i : 3; last >= j; j += 2) {
      double v = A[i][last - j];
      best = fmax(best, v > top ? top : v);
      if (i + j < 12 && j != 4 && j >= 2*i) x[i] += best; else if (i == j) { x[j] = -v + i; }
    }
  b[0] = best;
}""".replace(" && 0 == 0", "").replace(" && j != 4", ""),
    "mixed": """void mixed(double A[9][9], double b[9], double x[9]) {
  float t[9];
  signed char c[9];
  long total = 0;
  for (int i = 0; i < 9; i++) { t[i] = A[i][8 - i] / 3; c[i] = (signed char)(100 * t[i]); }
  for (int i = 0; i < 9; i++) total += c[i] % 7 * i - 2;
  for (int i = 0; i < 9; i++) x[i] = t[i] * b[i] + total;
}""",
    "narrow": """void narrow(double A[9][9], double b[9], double x[9]) {
  for (int i = 0; i < 9; i++) {
    signed char c = 40 * i;
    const short s = 9000 * i - 7;
    long all = i + 1;
    b[i] = c + s;
    x[(int)all - 1] = (signed char)(100 * i);
  }
}""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_c_as_mlir_computes_what_gcc_computes(name: str, tmp_path: Path) -> None:
    source = KERNELS[name]
    (tmp_path / "given.c").write_text(HEADER + source, encoding="utf-8")
    command = ["gcc", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", tmp_path / "given.so", tmp_path / "given.c"]
    subprocess.run([*command, "-lm"], check=True)
    given, made = getattr(ctypes.CDLL(str(tmp_path / "given.so")), name), compiled(pm.io.c_to_affine(source), tmp_path)
    expected, found = arrays((9, 9), (9,), (9,)), arrays((9, 9), (9,), (9,))
    given(*map(pointer, expected))
    made(*map(pointer, found))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A[(signed char)i + 128] = 1;", "the subscript .* is not affine"),
        ("A[i] = A[i] != 0 ? 100 / A[i] : 0;", "divides integers by what may be 0"),
        ("A[i] = A[i] > i ? A[i] : 7 % (A[i] + 1);", "divides integers by what may be 0"),
    ],
)
def test_what_values_and_maps_would_compute_otherwise_is_refused(line: str, message: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM288.*{message}"):
        pm.io.c_to_affine(f"void f(int A[256]) {{ for (int i = 0; i < 256; i++) {{ {line} }} }}")
    halved = "void f(int A[9]) { for (int i = 0; i < 9; i++) A[i] = A[i] > 0 ? A[i] / 2 : 0; }"
    assert "divsi" in pm.io.c_to_affine(halved)


def test_transformed_programs_are_written_as_mlir(tmp_path: Path) -> None:
    text = """func.func @st(%A: memref<20xf64>) {
  affine.for %s = 0 to 4 {
    affine.for %i = 1 to 19 {
      %a = affine.load %A[%i - 1] : memref<20xf64>
      %b = affine.load %A[%i + 1] : memref<20xf64>
      %c = arith.addf %a, %b : f64
      affine.store %c, %A[%i] : memref<20xf64>
    }
  }
  return
}
"""
    (tmp_path / "st.mlir").write_text(text, encoding="utf-8")
    assert main(["transform", str(tmp_path / "st.mlir"), "--tile", "3", "-o", str(tmp_path / "tiled.mlir")]) == 0
    tiled = (tmp_path / "tiled.mlir").read_text(encoding="utf-8")
    assert tiled.count("affine.for") == 4, tiled
    (expected,), (found,) = arrays((20,)), arrays((20,))
    compiled(text, tmp_path)(pointer(expected))
    (tmp_path / "tiled").mkdir()
    compiled(tiled, tmp_path / "tiled")(pointer(found))
    np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("for (int i = 8; i >= 0; i--) x[i] = 1;", "line 2: a loop that does not count up"),
        ("for (int i = 0; i < 9; i++) if (x[i] > 0) x[i] = 1;", "line 2: .*condition"),
        ("for (int i = 0; i < 9; i++) x[i / 2] = 1;", r"line 2: the subscript i / 2 is not affine"),
        ("for (int i = 0; i < 9; i++) x[i] = x[i] > 0 ? x[8 - i] : 0;", "line 2: a choice one side of which reads"),
        ("unsigned u = 3; for (int i = 0; i < 9; i++) x[i] = u;", "line 2: u is of a type"),
        ("for (int i = 0; i * i < 9; i++) x[i] = 1;", "line 2: a loop whose end is no bound"),
        ("int i; for (i = 0; i < 9; i++) x[i] = 1; x[0] = i;", "line 2: i is not declared"),
        ("for (int i = 0; i < 9; i++) x[i] = cbrt(x[i]);", "line 2: the function cbrt has no equal"),
    ],
    ids=map(str, range(8)),
)
def test_what_affine_loops_cannot_say_is_refused(line: str, message: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM288.*{message}"):
        pm.io.c_to_affine(f"void f(double x[9]) {{\n  {line}\n}}")


@pytest.mark.parametrize("text", ["", "\n", "// a comment", "module {}"])
def test_a_text_without_functions_is_refused(text: str) -> None:
    with pytest.raises(pm.errors.InputError, match="PM287 the text, line 1: there are 0 functions with a body"):
        pm.io.workload_from_affine(text)
