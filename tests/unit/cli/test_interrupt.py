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
EXECUTED = "exec('import os, signal\\nos.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(200_000): pass')"


@pytest.mark.parametrize("body", ["import slow_module; assert slow_module.loaded", EXECUTED])
def test_an_interrupt_waits_for_what_loads(tmp_path: Path, body: str) -> None:
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    program = f"""
        import sys, time
        from polymap.cli.command_line import guarded
        from polymap.cli.interrupt import raise_interrupts

        def work():
            {body}
            print("loaded", flush=True)
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
