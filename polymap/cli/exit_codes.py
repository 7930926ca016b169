"""What the command's exit code tells."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What came of a command; 130 (`first_interrupt.INTERRUPTED`): it was interrupted."""

    ANSWERED = 0
    BUG = 1
    ILLEGAL = 1
    BAD_INPUT = 2
    NO_ANSWER = 3
    NOT_WRITTEN = 4
