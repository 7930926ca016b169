"""A clock for tests of limits, which no busy machine disturbs."""

from __future__ import annotations


class Ticks:
    """A clock that moves on by one whenever it is asked: searches end after so many looks, on any machine."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        self.now += 1
        return float(self.now)
