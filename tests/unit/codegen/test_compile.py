"""The compiler and the programs it makes: found, refused, limited, private."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from polymap.codegen.compile import Limits, compile_c, execute
from polymap.codegen.run import run_c
from polymap.ir.errors import CompilerError
from tests.unit.codegen.programs import matmul


def made(source: str, folder: Path) -> Path:
    return compile_c(source, folder, ("-std=c99",))


def test_without_a_compiler_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CompilerError, match=r"PM602 no C compiler.*\n.*Install one"):
        run_c(*matmul())


def test_a_program_that_does_not_compile_is_reported_in_the_compilers_words(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match=r"PM603 the C compiler refused(?s:.*)missing_thing"):
        made("int main(void) { return missing_thing; }", tmp_path)


def test_a_program_that_fails_is_reported(tmp_path: Path) -> None:
    source = '#include <stdio.h>\nint main(void) { fprintf(stderr, "no luck"); return 7; }'
    with pytest.raises(CompilerError, match="PM604 the compiled program ended with code 7 no luck"):
        execute(made(source, tmp_path), (), Limits())


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    program = made("int main(void) { for (volatile int i = 0;; i = 1) { } }", tmp_path)
    with pytest.raises(CompilerError, match="PM604 the compiled program took more than 0.2 s"):
        execute(program, (), Limits(seconds=0.2))


def test_memory_and_output_are_limited(tmp_path: Path) -> None:
    greedy = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { usleep(200000); return !malloc(1L << 30); }"
    with pytest.raises(CompilerError, match="ended with code 1"):
        execute(compile_c(greedy, tmp_path, ("-O0",)), (), Limits(memory_bytes=2**28))
    chatty = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { usleep(200000); for (;;) puts("more"); }'
    with pytest.raises(CompilerError, match="ended with code -"):
        execute(compile_c(chatty, tmp_path, ("-O0",)), (), Limits(output_bytes=2**16, seconds=20))


def test_programs_live_in_a_directory_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes: list[int] = []

    def watched(source: str, directory: Path, flags: tuple[str, ...]) -> Path:
        modes.append(stat.S_IMODE(directory.stat().st_mode))
        return compile_c(source, directory, flags)

    monkeypatch.setattr("polymap.codegen.run.compile_c", watched)
    assert run_c(*matmul(), expected=()).matches_reference
    assert modes == [0o700]
    assert list(tmp_path.iterdir()) == []
