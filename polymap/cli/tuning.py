"""How the command waits for processes and for modules that load."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Waiting times in seconds (not swept)."""

    look_again_s: float = 0.02
    """Between two looks whether modules still load, when Ctrl-C was pressed."""
    most_looks: int = 250
    """After these 5 s, whoever still loads runs the command itself, and is interrupted."""
    begun_s: float = 300.0
    """In which processes begin, unless the machine is very busy."""


TUNING = Tuning()
