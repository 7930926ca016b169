"""Ctrl-C while modules are loaded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def interrupts_wait() -> Generator[None, None, None]:
    """Let Ctrl-C wait until the block ends, which then raises KeyboardInterrupt.

    For imports: an extension module that is interrupted while it loads swallows it, or makes it an ImportError.
    """
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and callable(before)
    if not ours:  # only the main thread has signals; a process told to ignore Ctrl-C goes on ignoring it
        yield
        return
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            raise KeyboardInterrupt
