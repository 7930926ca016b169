"""How programs are run and refused: memory of the interpreter, length of messages."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Sizes of what is worked on and shown at once."""

    instances_at_once: int = 1 << 20
    """Statement instances that the interpreter computes together: 8 MiB per value (derived)."""
    shown_characters: int = 2000
    """Of the messages of a compiler or a program, in an error."""


TUNING = Tuning()
