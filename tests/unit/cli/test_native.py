"""`polymap codegen --native` for processors: the files it writes, the words it refuses."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.cli.native_code import function_name, tail_steps

LAYER = ("codegen", "matmul", "m=3", "n=16", "k=5", "bits=32", "--arch", "host_cpu", "--native")


def test_files_to_ship(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O1 -Wall -Wextra -Werror")
    paths = [tmp_path / f"gemm.{end}" for end in ("c", "h", "so", "json")]
    words = ("-o", str(paths[0]), "--header", str(paths[1]), "--shared", str(paths[2]), "--json", str(paths[3]))
    assert main((*LAYER, *words)) == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    text, header, told = paths[0].read_text(), paths[1].read_text(), json.loads(paths[3].read_text())
    assert told["code"].strip() == text.strip()
    assert "void gemm(const float *restrict A, const float *restrict B, float *restrict C);" in header
    assert "main(" not in text
    assert not re.search(r"^\w[\w ]*(\[\w*\])? = ", text, re.MULTILINE), "a global"
    a, b = np.ones((3, 5), np.float32), np.ones((5, 16), np.float32)
    c = np.empty((3, 16), np.float32)
    ctypes.CDLL(str(paths[2])).gemm(*(each.ctypes.data_as(ctypes.c_void_p) for each in (a, b, c)))
    assert np.array_equal(c, a @ b)


def test_a_layer_with_a_tail(tmp_path: Path) -> None:
    paths = [tmp_path / f"gemm.{end}" for end in ("c", "h", "so")]
    words = ("-o", str(paths[0]), "--header", str(paths[1]), "--shared", str(paths[2]), "--tail", "bias, add,relu")
    assert main((*LAYER, *words)) == 0
    assert "float *restrict C);" in paths[1].read_text()
    rng = np.random.default_rng(0)
    shapes = ((3, 5), (5, 16), (16,), (3, 16))
    a, b, bias, other = (rng.integers(-5, 6, shape).astype(np.float32) for shape in shapes)
    c = np.empty((3, 16), np.float32)
    ctypes.CDLL(str(paths[2])).gemm(*(each.ctypes.data_as(ctypes.c_void_p) for each in (a, b, bias, other, c)))
    assert np.array_equal(c, np.maximum(a @ b + bias + other, 0))


def test_a_tail_in_words() -> None:
    assert tail_steps("bias,relu") == ("bias", "relu")
    assert tail_steps("int8:0.5:-3") == (pm.Requantize(0.5, -3, "int8"),)
    assert tail_steps("relu,uint8::7") == ("relu", pm.Requantize(None, 7, "uint8"))
    assert tail_steps("uint16") == (pm.Requantize(None, 0, "uint16"),)


REGION = """
void step(int n, double alpha, double A[n][n], double x[n], double y[n]) {
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[i][j] * x[j];
    y[i] += alpha * sum;
  }
}"""


def test_a_region_of_c_as_files_to_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-Wall -Wextra -Werror")
    (tmp_path / "step.c").write_text(REGION)
    paths = [tmp_path / f"region.{end}" for end in ("c", "h", "so")]
    words = ("-o", str(paths[0]), "--header", str(paths[1]), "--shared", str(paths[2]))
    assert main(("codegen", str(tmp_path / "step.c"), "n=6", "--arch", "cpu_avx2", "--native", *words)) == 0
    head = "void region(const double *restrict alpha, const double *restrict A, const double *restrict x, "
    assert head + "double *restrict y);" in paths[1].read_text()
    assert "main(" not in paths[0].read_text()
    assert "static" not in paths[0].read_text()
    alpha, matrix, x, y = np.array(2.0), np.arange(36.0).reshape(6, 6), np.arange(6.0), np.ones(6)
    arrays = (alpha, matrix, x, y)
    ctypes.CDLL(str(paths[2])).region(*(each.ctypes.data_as(ctypes.c_void_p) for each in arrays))
    assert np.array_equal(y, 1 + 2 * matrix @ x)


def test_fma_lets_the_compiler_round_products_and_sums_once(tmp_path: Path) -> None:
    (tmp_path / "step.c").write_text(REGION)
    words = ("codegen", str(tmp_path / "step.c"), "n=6", "--arch", "cpu_avx2", "--native", "-o")
    contractions = []
    for more in ((), ("--fma",)):
        assert main((*words, str(tmp_path / "region.c"), *more)) == 0
        contractions.append(re.findall(r"-ffp-contract=(\w+)", (tmp_path / "region.c").read_text())[0])
    assert contractions == ["off", "fast"]


CALL = """
#include <stdio.h>
#include "shift_n.h"
void shift(int, double *, double *);
int main(void)
{
    double x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8] = {0, 1, 2, 3, 4, 5, 6, 7}, a[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    shift(8, a, y);
    shift_n(x, y);
    for (int i = 0; i < 8; i++) printf("%g %g\\n", a[i], x[i]);
    return 0;
}
"""


def test_the_header_says_what_callers_must_know(tmp_path: Path) -> None:
    """A region is called with its text's own pointers."""
    text = "void shift(int n, double *x, double *y) { for (int i = 2; i < n; i++) x[i] = y[i - 1] * 2 + x[i - 1]; }"
    source, folder = tmp_path / "shift.c", tmp_path / "inc"
    folder.mkdir()
    source.write_text(text)
    (tmp_path / "call.c").write_text(CALL)
    words = ("-o", str(tmp_path / "shift_n.c"), "--header", str(folder / "shift_n.h"))
    assert main(("codegen", str(source), "n=8", "--arch", "cpu_avx2", "--native", *words)) == 0
    header, written = (folder / "shift_n.h").read_text(), (tmp_path / "shift_n.c").read_text()
    assert " *   double x[8]: read and written\n *   double y[7]: only read\n" in header
    assert "a pointer points to the element with all indices 0" in header
    assert "several threads may call at once" in header
    assert '#include "inc/shift_n.h"\n' in written
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-I", str(folder), "-o", str(tmp_path / "call")]
    texts = [str(tmp_path / f"{each}.c") for each in ("call", "shift", "shift_n")]
    subprocess.run([*command, *texts, "-lm"], check=True)
    printed = subprocess.run([str(tmp_path / "call")], capture_output=True, text=True, check=True).stdout
    assert printed.split() == [each for value in (1, 1, 3, 7, 13, 21, 31, 43) for each in (str(value),) * 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("codegen", "matmul", "m=3", "n=16", "k=5", "--arch", "host_cpu", "--header", "x.h"),
            "PM556 --header without",
        ),
        ((*LAYER, "--threads", "2", "--run"), "PM556 --run and --threads exclude"),
        ((*LAYER, "-o", "x.c", "--header", "x.c"), "PM556 two outputs go to 'x.c'"),
        ((*LAYER, "--shared", "-"), "PM556 --header and --shared write to files"),
        ((*LAYER, "--layout", "CHWN"), "PM554"),
        ((*LAYER, "--tail", "tanh"), "PM623 --tail has the step 'tanh'"),
        ((*LAYER, "--tail", "bias,int8:a"), "PM623 --tail has the step 'int8:a'"),
        ((*LAYER, "--tail", "int8:1:2:3"), "PM623 --tail has the step 'int8:1:2:3'"),
        ((*LAYER, "--tail", "int8:1:300"), "PM623 the zero point is 300"),
        ((*LAYER, "--tail", "int8:1,relu"), "PM623 a step of the tail stands behind"),
        ((*LAYER, "--tail", ""), "PM554 --tail is ''"),
        ((*LAYER, "--tail", "relu", "--run"), "PM556 --run and --tail exclude"),
        ((*LAYER[:-1], "--tail", "relu"), "PM556 --tail without --native"),
        ((*LAYER[:-1], "--fma"), "PM556 --fma without --native"),
        (
            ("codegen", "matmul", "m=3", "n=4", "k=5", "bits=32", "--arch", "flat3", "--native", "--threads", "1"),
            "PM122",
        ),
    ],
)
def test_words_that_do_not_fit(
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (None, "layer"),
        ("-", "layer"),
        ("a/conv.c", "conv"),
        ("3x3;rm -rf.c", "layer_3x3_rm_-rf".replace("-", "")),
        ("main.c", "layer_main"),
        ("é.c", "layer"),
        ("malloc.c", "layer_malloc"),
    ],
)
def test_functions_are_named_like_their_file(output: str | None, name: str) -> None:
    assert re.fullmatch(r"[A-Za-z]\w*", function_name(output), re.ASCII)
    if name.isascii() and "rm" not in name:
        assert function_name(output) == name
