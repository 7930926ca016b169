"""Handles Ctrl-C and SIGTERM while the command's modules load; imports nothing that is not loaded yet."""

import os

TYPE_CHECKING = False  # without loading `typing`

if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal  # built in: `signal` itself takes a millisecond to load, in which Ctrl-C prints frames

INTERRUPTED = 130
SIGNALS: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)


def end_at_once() -> None:
    """Let both signals end the process with one line: while the command itself is loaded there is nothing to print."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, end)


def end(_number: int, _frame: "FrameType | None") -> None:
    """End the process with one line."""
    os.write(2, b"polymap: interrupted\n")
    os._exit(INTERRUPTED)
