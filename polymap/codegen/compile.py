"""Runs the system's C compiler and its programs: from argument lists, within limits, never through a shell."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from math import inf
from pathlib import Path

from polymap.codegen.tuning import TUNING
from polymap.ir import CompilerError, Mistake
from polymap.resources import Caps, run_within

FLAGS = ("-std=c99", "-O2", "-fwrapv", "-Wall", "-Wextra")
_COMPILE = Caps(cpu_s=300)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a compiled program; memory_bytes None: unlimited."""

    seconds: float = 600.0
    memory_bytes: int | None = 4 << 30
    output_bytes: int = 1 << 30


COMPILERS = ("cc", "gcc", "clang")  # the system's, the first that is found

_NO_OPENMP = "Install the compiler's OpenMP library (for clang: libomp), name another compiler in CC, or use threads=1."


def find_compiler() -> str:
    """Return the path of the system's C compiler.

    Raises CompilerError if there is none.
    """
    for name in COMPILERS:
        path = shutil.which(name)
        if path:
            return path
    what = "no C compiler: neither 'cc' nor 'gcc' nor 'clang' is on PATH"
    raise CompilerError(Mistake("PM602", what, "Install one (Debian: apt install gcc), or leave out --run."))


def compile_c(source: str, directory: Path, flags: tuple[str, ...] = FLAGS) -> Path:
    """Return the path of the program compiled from `source` inside a private directory.

    Raises CompilerError with the compiler's message if it fails.
    """
    text, program = directory / "program.c", directory / "program"
    text.write_text(source, encoding="ascii")
    command = [find_compiler(), *flags, "-o", str(program), str(text), "-lm"]
    compile_with(
        tuple(command), program, "the C compiler", "Its output is above; please report the mapping that led here."
    )
    return program


def compile_with(command: tuple[str, ...], target: Path, name: str, advice: str) -> None:
    """Run a compiler that makes `target`; raises CompilerError (PM603) with its message, under the name and with the
    advice given, where it does not."""
    try:
        done = run_within(_COMPILE, command, folder=target.parent, variables=plain_english())
    except OSError as error:
        raise CompilerError(Mistake("PM603", f"{name} does not start: {error.strerror}")) from error
    if done.took_too_long:
        raise CompilerError(Mistake("PM603", f"{name} did not finish within {_COMPILE.cpu_s:g} s"))
    if done.code != 0 or not target.exists():
        said = done.complaint.decode("utf-8", "replace")
        what = f"{name} refused the program (exit code {done.code}): {said[: TUNING.shown_characters].strip()}"
        raise CompilerError(Mistake("PM603", what, _NO_OPENMP if _lacks_openmp(said) else advice))


def _lacks_openmp(message: str) -> bool:
    return any(sign in message for sign in ("-lomp", "-lgomp", "omp.h", "'-fopenmp'"))


def plain_english() -> dict[str, str]:
    """Return the environment with a locale in which messages are ASCII."""
    return {**os.environ, "LC_ALL": "C"}


def execute(program: Path, arguments: tuple[str, ...], limits: Limits) -> tuple[str, float]:
    """Return what the program printed, and the seconds it took.

    Raises CompilerError if it fails or exceeds a limit.
    """
    caps = Caps(inf, limits.seconds, limits.memory_bytes, limits.output_bytes)  # threads share their CPU time
    try:
        done = run_within(caps, (str(program), *arguments), folder=program.parent)
    except OSError as error:
        raise CompilerError(_end_mistake(f"does not start: {error.strerror}")) from error
    if done.took_too_long:
        raise CompilerError(_end_mistake(f"took more than {limits.seconds:g} s"))
    if done.code != 0:
        said = done.complaint[: TUNING.shown_characters].decode("ascii", "replace").strip()
        raise CompilerError(_end_mistake(f"ended with code {done.code} {said}".strip()))
    return done.printed.decode("ascii"), done.seconds


def _end_mistake(how: str) -> Mistake:
    return Mistake("PM604", f"the compiled program {how}", "Try a smaller layer, or raise the limits of run_c.")
