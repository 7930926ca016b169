"""Handles Ctrl-C and SIGTERM alike; both are deferred while modules load."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from polymap.cli.first_interrupt import INTERRUPTED as INTERRUPTED, SIGNALS, end
from polymap.cli.tuning import TUNING

# Files of the frames in which modules load.
_LOADING = frozenset({"<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>"})


def raise_interrupts() -> None:
    """Let both signals raise KeyboardInterrupt from now on, unless the process was told what else they do. A process
    may run several commands one after the other: none of them was interrupted yet."""
    _Waiting.has_raised = False
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) in (end, signal.default_int_handler, signal.SIG_DFL):
                signal.signal(number, _Waiting())


def was_interrupted() -> bool:
    """Return whether a signal has raised KeyboardInterrupt: what fails after that does so because of it.

    Libraries make other errors of it: SystemError where C code goes on, an error of isl from a callback, RuntimeError
    from a class that is being defined.
    """
    return _Waiting.has_raised


class _Waiting:
    """Raises KeyboardInterrupt, or looks again a little later where a module is being loaded.

    Modules are also loaded in the middle of a search, when they are first needed. One that is interrupted makes the
    interrupt an ImportError; and where a text is executed, as dataclasses do when they are defined, Python ends the
    process by the signal, although it was handled since.
    """

    has_raised = False  # of any of them

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename not in _LOADING:
            frame = frame.f_back
        self.looks += 1
        if frame is None or self.looks > TUNING.most_looks:
            self.looks = 0
            _Waiting.has_raised = True
            raise KeyboardInterrupt
        later = threading.Timer(TUNING.look_again_s, os.kill, (os.getpid(), number))
        later.daemon = True
        later.start()


@contextmanager
def interrupts_wait() -> Generator[None, None, None]:
    """Let both signals wait until the block ends, which then raises KeyboardInterrupt.

    For imports: an extension module that is interrupted while it loads swallows it, or makes it an ImportError.
    """
    # Only the main thread has signals; a process told to ignore Ctrl-C goes on ignoring it.
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS if main}
    ours = [number for number, handler in before.items() if callable(handler)]
    seen: list[int] = []
    for number in ours:
        signal.signal(number, lambda which, _frame: seen.append(which))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        if seen:
            raise KeyboardInterrupt
