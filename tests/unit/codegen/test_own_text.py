"""Generated C against the user's own file, compiled as it stands and called with the same arrays."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from polymap.codegen.forms import Form
from polymap.codegen.run import generate_c
from polymap.workload.c.reader import from_c
from tests.c_tally import MACHINE, program_order

Array = NDArray[np.int32]
FLAGS = ("-std=c99", "-O1", "-fwrapv", "-w")
# Each is a function of int arrays; what it does not write stays as it was.
KERNELS = {
    "every other element": "void f(int a[10], int b[24]) { for (int i = 0; i < 10; i += 2) a[i] = b[2 * i]; }",
    "a guard": "void f(int a[10], int b[24]) { for (int i = 0; i < 10; i++) if (i && i != 4) a[i] = b[i]; }",
    "an else of the inner if": (
        "void f(int a[10]) { for (int i = 0; i < 10; i++) if (i > 2) if (i < 5) a[i] = 1; else a[i] = 2; }"
    ),
    "a triangle": (
        "void f(int a[5][5], int b[5]) { for (int i = 0; i < 5; i++) for (int j = 0; j < i; j++) a[i][j] = b[j]; }"
    ),
    "the last one stays": "void f(int a[10], int b[24]) { int s; for (int i = 0; i < 5; i++) s = b[i]; a[3] = s; }",
    "set, then accumulated": (
        "void f(int a[10], int b[24]) { for (int i = 1; i < 9; i++) { a[i] = 0;\n"
        "for (int j = 0; j < 4; j++) a[i] += b[i + j]; } }"
    ),
    "wholly written": "void f(int a[10], int b[24]) { for (int i = 0; i < 10; i++) a[i] = b[i]; }",
    "two macros": (
        "#define ROW(i) \\\n   ((i)*4)\n#define N (1 + 2) /* three */\n"
        "void f(int *a, int *b) { for (int i = 0; i < N; i++)\nfor (int j = 0; j < N*1; j++)\n"
        "a[ROW(i)+j] += b[ROW(j)+i]*N; }"
    ),
}


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_generated_c_leaves_the_arrays_as_the_users_own_file_does(text: str, form: Form, tmp_path: Path) -> None:
    names = re.findall(r"int \*?([ab])\b", text)
    generator = np.random.default_rng(0)
    arrays: dict[str, Array] = {name: generator.integers(1, 1000, 25, dtype=np.int32) for name in names}
    wanted = _called(text, {name: array.copy() for name, array in arrays.items()}, tmp_path)
    workload = from_c(text)
    program = generate_c(workload, MACHINE, program_order(workload), form)
    _compiled(program, tmp_path / "generated", "-lm")
    places = {
        way: re.findall(rf"transfer\({way}, T\d+_(\w+), sizeof \S+, (\d+),", program) for way in ("input", "output")
    }
    raw = b"".join(arrays[name][: int(size)].tobytes() for name, size in places["input"])
    (tmp_path / "in").write_bytes(raw)
    subprocess.run(["./generated", "in", "out"], cwd=tmp_path, check=True, timeout=60, stdout=subprocess.DEVNULL)
    found = np.frombuffer((tmp_path / "out").read_bytes(), dtype=np.int32)
    assert [name for name, _ in places["output"]] == ["a"]
    assert found.tolist() == wanted["a"][: found.size].tolist()
    assert wanted["a"][found.size :].tolist() == arrays["a"][found.size :].tolist()


def test_an_array_that_is_wholly_written_is_no_input() -> None:
    workload = from_c(KERNELS["wholly written"])
    program = generate_c(workload, MACHINE, program_order(workload))
    assert "transfer(input, T1_b" in program
    assert "transfer(input, T0_a" not in program


def _called(text: str, arrays: dict[str, Array], directory: Path) -> dict[str, Array]:
    """Return the arrays after the file's own function has run on them."""
    _compiled(text, directory / "own.so", "-shared", "-fPIC")
    ctypes.CDLL(str(directory / "own.so")).f(*(array.ctypes.data_as(ctypes.c_void_p) for array in arrays.values()))
    return arrays


def _compiled(text: str, target: Path, *flags: str) -> None:
    source = target.with_suffix(".c")
    source.write_text(text, encoding="ascii")
    subprocess.run(["cc", *FLAGS, str(source), "-o", str(target), *flags], check=True, timeout=60)
