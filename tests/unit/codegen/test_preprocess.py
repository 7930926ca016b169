"""C files after the system's preprocessor: their own lines at their own numbers, headers' macros in effect."""

from __future__ import annotations

from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.ir import CompilerError, InputError, OptionError

KERNEL = """#include <stdio.h>
#include <math.h>
#include "sizes.h"
static void kernel(int n, TYPE A[ROWS + 0][n])
{
#pragma scop
  for (int i = 0; i < LAST(ROWS); i++)
#ifdef TWICE
    for (int j = 0; j < n; j++)
      A[i][j] = VALUE(2.0) * A[i][j];
#else
    A[i][0] = 0;
#endif
#pragma endscop
}
int main(void) { printf("%f\\n", M_PI); return 0; }
"""
HEADER = """#ifndef SIZES
#define SIZES
#define TYPE double
#define LAST(x) ((x) - 1)
#define VALUE(x) x##f
int unused(int);
#endif
"""


def written(folder: Path) -> Path:
    (folder / "headers").mkdir()
    (folder / "headers" / "sizes.h").write_text(HEADER)
    path = folder / "kernel.c"
    path.write_text(KERNEL)
    return path


def test_macros_and_conditions_of_headers_are_in_effect(tmp_path: Path) -> None:
    path = written(tmp_path)
    flags = [f"-I{tmp_path / 'headers'}", "-DROWS=9"]
    plain = pm.io.symbolic_checkup(pm.io.preprocessed(path, flags))
    assert [(each.line, str(each.instances)) for each in plain.statements] == [(12, "8")]
    twice = pm.io.symbolic_checkup(pm.io.preprocessed(path, [*flags, "-DTWICE"]))
    assert [(each.line, str(each.instances)) for each in twice.statements] == [(10, "8*n if n > 0")]
    workload = pm.from_c(pm.io.preprocessed(path, [*flags, "-DTWICE"]), {"n": 5})
    assert [tensor.shape for tensor in workload.tensors] == [(9, 5)]


def test_the_command_line_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    words = ["--include", str(tmp_path / "headers"), "--define", "ROWS=9", "--define", "TWICE"]
    assert main(["check", str(path), *words]) == 0
    assert "S0 in line 10: 8*n if n > 0" in capsys.readouterr().out
    assert main(["check", str(path), *words, "--size", "n=5"]) == 0
    assert "i    parallel" in capsys.readouterr().out


def test_what_goes_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    with pytest.raises(CompilerError, match=r"PM605 the preprocessor refuses 'kernel\.c': kernel\.c:3"):
        pm.io.preprocessed(path)
    with pytest.raises(OptionError, match="PM605 the preprocessor's flag '-o' is not passed on"):
        pm.io.preprocessed(path, ["-o", "-Dx y"])
    with pytest.raises(InputError, match="PM101"):
        pm.io.preprocessed(tmp_path / "none.c")
    assert main(["check", "conv2d", "--cpp"]) != 0
    assert "PM605 --cpp is given for 'conv2d'" in capsys.readouterr().err
    assert not (tmp_path / "-Dx y").exists()
