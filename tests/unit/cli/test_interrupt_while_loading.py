"""Ctrl-C waits while a module loads in the middle of a command, and is obeyed then."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SLOW_MODULE = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
for _ in range(200_000):
    pass
loaded = True
"""
SLOW_CLASS = """
import dataclasses, os, signal
os.kill(os.getpid(), signal.SIGINT)
for number in range(200):
    dataclasses.make_dataclass(f"C{number}", [f"a{n}" for n in range(20)])
loaded = True
"""


@pytest.mark.parametrize("error", ["SystemError('with an exception set')", "RuntimeError('of C code')"])
def test_what_a_library_makes_of_an_interrupt_is_one(tmp_path: Path, error: str) -> None:
    """C code that goes on after an interrupt, a callback, or the making of a class raise another error in its place."""
    program = f"""
        import os, signal, sys
        from polymap.cli.command_line import guarded
        from polymap.cli.interrupt import raise_interrupts

        def work():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass
            raise {error}

        raise_interrupts()
        sys.exit(guarded(work))
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "polymap: interrupted\n")


def test_nothing_is_loaded_before_interrupts_are_handled() -> None:
    """Ctrl-C ends the command with one line from the package's first lines on: none of the library's comes before."""
    program = (
        "import os, signal, sys; sys.argv = ['/bin/polymap']; before = set(sys.modules)\n"
        "class Stops:\n"
        "    def find_spec(self, name, *_):\n"
        "        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:\n"
        "            os.write(1, ' '.join(sorted(set(sys.modules) - before)).encode())\n"
        "            os._exit(0)\n"
        "sys.meta_path.insert(0, Stops()); import polymap"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["polymap", "polymap.cli", "polymap.cli.first_interrupt", "polymap.lazy"]


@pytest.mark.parametrize("module", [SLOW_MODULE, SLOW_CLASS])
def test_an_interrupt_waits_for_what_loads(tmp_path: Path, module: str) -> None:
    (tmp_path / "slow_module.py").write_text(module)
    program = """
        import os, sys, time
        from polymap.cli.command_line import guarded
        from polymap.cli.interrupt import raise_interrupts

        def work():
            import slow_module
            assert slow_module.loaded
            os.write(1, b"loaded\\n")  # at once: an interrupt cuts print() before its newline
            time.sleep(20)
            return 0

        if __name__ == "__main__":
            raise_interrupts()
            sys.exit(guarded(work))
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "loaded\n", "polymap: interrupted\n")


def test_what_never_ends_to_load_is_interrupted_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(
        "import os, signal, time\n"
        "from polymap.cli.command_line import guarded\n"
        "import polymap.cli.interrupt as interrupt\n"
        "interrupt.TUNING = interrupt.TUNING._replace(most_looks=5)\n"
        "interrupt.raise_interrupts()\n"
        "def work():\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(20)\n    return 0\n"
        "code = guarded(work)\n"
    )
    words = [sys.executable, "-c", "import command, sys; sys.exit(command.code)"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stderr) == (130, "polymap: interrupted\n")
