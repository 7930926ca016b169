"""Handles Ctrl-C and SIGTERM alike; both are deferred while modules load."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

from polymap.cli.first_interrupt import INTERRUPTED as INTERRUPTED, SIGNALS, end


def raise_interrupts() -> None:
    """Let both signals raise KeyboardInterrupt from now on, unless the process was told what else they do."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) in (end, signal.SIG_DFL):
                signal.signal(number, signal.default_int_handler)


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
