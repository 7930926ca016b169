"""What polymap starts is given everything, limited, and gone afterwards, its children too."""

from __future__ import annotations

import os
import signal
import sys
import time
from math import inf
from pathlib import Path
from threading import Timer

import pytest

from polymap.resources.clocks import ending_within, wall_left_s
from polymap.resources.run import Caps, patience_s, run_within

CAPS = Caps(cpu_s=30)


def python(program: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", "-c", program, *words)


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that is gone but for its parent's question does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def soon_gone(pid: int) -> bool:
    for _ in range(200):
        if not is_running(pid):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16 + 1, 5_000_000])
def test_what_is_given_arrives_and_what_is_printed_comes_back(size: int) -> None:
    text = bytes(range(256)) * (size // 256) + b"\xff" * (size % 256)
    ended = run_within(CAPS, python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"), given=text)
    assert (ended.code, ended.printed, ended.complaint) == (0, text, b"")


def test_one_that_reads_nothing_and_ends_at_once_is_no_trouble() -> None:
    assert run_within(CAPS, ("/bin/sh", "-c", "exit 7"), given=b"x" * 1_000_000).code == 7


def test_both_streams_may_be_long_and_complaints_are_cut() -> None:
    program = "import sys; sys.stderr.write('e' * 3_000_000); sys.stdout.write('o' * 3_000_000)"
    ended = run_within(CAPS, python(program))
    assert (ended.code, len(ended.printed), len(ended.complaint)) == (0, 3_000_000, 2**20)


def test_its_limit_is_cpu_time() -> None:
    ended = run_within(Caps(cpu_s=1), python("while True: pass"))
    assert ended.took_too_long
    ended = run_within(Caps(cpu_s=1), python("import time; time.sleep(1.5)"))  # wall time is none
    assert (ended.code, ended.took_too_long) == (0, False)


def test_one_that_stands_still_is_waited_for_in_patience() -> None:
    assert patience_s(10) == 360
    ended = run_within(Caps(cpu_s=60, patience_s=0.3), ("/bin/sleep", "3600"))
    assert (ended.code, ended.took_too_long) == (None, True)
    with ending_within(0.3):
        assert run_within(CAPS, ("/bin/sleep", "3600")).took_too_long
    assert wall_left_s() == inf


CHILDREN = "/bin/sleep 3600 & /bin/sleep 3600 & echo $! > pid; "


@pytest.mark.parametrize("how", ["wait", "exit 0", "kill -9 $$"])
def test_children_end_with_it(tmp_path: Path, how: str) -> None:
    ended = run_within(Caps(30, patience_s=1.0), ("/bin/sh", "-c", CHILDREN + how), folder=tmp_path)
    assert ended.code == {"wait": None, "exit 0": 0, "kill -9 $$": -9}[how]
    assert soon_gone(int((tmp_path / "pid").read_text()))


def test_an_interrupt_ends_it_and_its_children(tmp_path: Path) -> None:
    timer = Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_within(CAPS, ("/bin/sh", "-c", CHILDREN + "wait"), folder=tmp_path)
    timer.join()
    assert soon_gone(int((tmp_path / "pid").read_text()))


def test_other_signals_do_not_disturb_the_waiting() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)
    try:
        ended = run_within(CAPS, python("import time; time.sleep(0.4); print('done')"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (ended.code, ended.printed.strip()) == (0, b"done")
    assert seen


def test_it_is_killed_when_nobody_wants_the_answer() -> None:
    asked = iter((False, False, True))
    assert run_within(CAPS, ("/bin/sleep", "3600"), is_over=lambda: next(asked)).code is None


def test_memory_and_files_are_limited() -> None:
    greedy = run_within(Caps(30, memory_bytes=2**28), python("import time; time.sleep(0.3); b = bytearray(2**29)"))
    assert (greedy.code, b"MemoryError" in greedy.complaint) == (1, True)
    chatty = run_within(Caps(30, file_bytes=2**16), ("/bin/sh", "-c", "sleep 0.3; yes"))
    assert chatty.code != 0
    assert len(chatty.printed) == 2**16


def test_a_limit_that_the_caller_has_is_not_raised() -> None:
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (50, 60))\n"
        "from polymap.resources.run import Caps, run_within\n"
        "print(run_within(Caps(300), ('/bin/sh', '-c', 'sleep 0.3; ulimit -t; ulimit -Ht')).printed.decode())"
    )
    ended = run_within(Caps(500), (sys.executable, "-c", program))
    assert ended.printed.split() == [b"60", b"60"], ended.complaint


def test_what_does_not_start_raises_the_systems_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_within(CAPS, ("/nowhere/cc",))
