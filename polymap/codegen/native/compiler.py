"""The C compiler of shared objects: the user's (CC, CFLAGS) or the system's. No shell is involved."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polymap.codegen import COMPILERS, compile_with
from polymap.ir import CompilerError, Mistake
from polymap.resources import Caps, run_within

_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno")
# clang hands a load on to the next iteration where it knows that arrays are apart: such a loop was seen to stay without
# vectors, four times slower. Texts say that arrays are apart only where NO_LOAD_PRE promises that it does not. Its
# vectors of straight-line code were seen to take up to 2.6 times as long as none. Loops of a known number of about 20
# to 36 iterations it writes out before it looks for vectors: twice to five times as slow. Those of a known number it
# unrolls as often as divides that (17 times of 255): sums of an image that wait for one another took 5 times as long.
STRAIGHT = "-fno-slp-vectorize"
_UNROLLED = ("-mllvm", "-unroll-full-max-count=16", "-mllvm", "-unroll-max-count=8")
CLANG_FLAGS = (STRAIGHT, *_UNROLLED, "-mllvm", "-enable-load-pre=0", "-DNO_LOAD_PRE")
_SHARED = ("-shared", "-fPIC")
_VERSION = Caps(cpu_s=120)
# What decides what compilers read besides their arguments.
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")


@dataclass(frozen=True, slots=True)
class Compiler:
    """command: the words that start it. flags: those of every object. version: what it prints for --version."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    version: str

    def words(self, source: str, target: str, threads: int) -> tuple[str, ...]:
        """Return the command that compiles one source into a shared object. OpenMP is linked where threads are used."""
        openmp = ("-fopenmp",) if threads > 1 else ()
        return (*self.command, *self.flags, *openmp, *_SHARED, "-o", target, source, "-lm")

    def identity(self, threads: int) -> str:
        """Return a text that differs whenever the objects of one source may differ: compiler, flags, processor."""
        variables = [f"{name}={os.environ.get(name, '')}" for name in _VARIABLES]
        return "\n".join((*self.words("", "", threads), self.version, *variables, _processor()))


def host_compiler(flags: Sequence[str] = ()) -> Compiler:
    """Return the compiler that CC names, or the system's. CFLAGS follow the default flags and those of a text, and so
    override them.

    Raises CompilerError (PM602) if there is none.
    """
    command = _command()
    path = shutil.which(command[0])
    if path is None:
        what = (
            f"no C compiler: CC is {os.environ['CC']!r}, and there is no such program"
            if _is_compiler_named()
            else _NONE
        )
        hint = "Install one (Debian: apt install gcc), or set CC to the path of one."
        raise CompilerError(Mistake("PM602", what, hint))
    words = (path, *command[1:])
    version = _version(words)
    own = CLANG_FLAGS if "clang version" in version else ()
    return Compiler(words, (*_FLAGS, *own, *flags, *_words_of_variable("CFLAGS")), version)


_NONE = "no C compiler: neither 'cc' nor 'gcc' nor 'clang' is on PATH, and CC is not set"


def compile_shared(compiler: Compiler, source: Path, target: Path, threads: int) -> None:
    """Compile a C file into a shared object; raises CompilerError (PM603) with the compiler's message if it fails."""
    words = compiler.words(str(source.absolute()), str(target.absolute()), threads)
    advice = "Look at CC and CFLAGS first; otherwise please report the layer."
    compile_with(words, target.absolute(), words[0], advice)


def _is_compiler_named() -> bool:
    return bool(os.environ.get("CC", "").strip())


def _command() -> tuple[str, ...]:
    """Return the words of CC, or the first compiler found ("cc" if there is none)."""
    if _is_compiler_named():
        return _words_of_variable("CC")
    return (next((name for name in COMPILERS if shutil.which(name)), "cc"),)


def _words_of_variable(variable: str) -> tuple[str, ...]:
    """Return the words of a variable, quoted as in a shell. Raises CompilerError (PM602) for an open quote."""
    try:
        return tuple(shlex.split(os.environ.get(variable, "")))
    except ValueError as error:
        what = f"{variable} is {os.environ[variable]!r}, which is not a list of words: {error}"
        raise CompilerError(Mistake("PM602", what, "Close the quotes, or unset it.")) from None


def _version(command: tuple[str, ...]) -> str:
    """Return the output of --version, or the reason why there is none."""
    try:
        done = run_within(_VERSION, (*command, "--version"))
    except OSError as error:
        return f"no version: {type(error).__name__}"
    return done.printed.decode("utf-8", "replace")


def _processor() -> str:
    """Return what -march=native depends on: architecture, model and features of the processor."""
    found = {" ".join(platform.uname()[i] for i in (0, 4))}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = [platform.processor()]
    keys = ("flags", "Features", "model name", "vendor_id", "cpu family", "model\t")
    found |= {line for line in lines if line.startswith(keys)}
    return "\n".join(sorted(found))
