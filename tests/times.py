"""Which tests are slow is measured, not guessed: `tests/slow.txt` lists those above 0.05 CPU seconds.

    python -m pytest -n 2 --note-times out/times.txt
    python -m tests.times out/times.txt

rewrites the list. `make quick` leaves these tests out, beside those marked `slow` in the text. Of seeds, which say the
same of other random inputs, `few` leaves the first ones in `make test` and the others in `make soak`: these, more than
all others, are not even collected where -m leaves them out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SLOW = Path(__file__).with_name("slow.txt")
LIMIT_S = 0.05


class Asked:
    """What pytest's options ask for; tests/conftest.py reads them before any test is collected."""

    soak = True


def read_slow() -> frozenset[str]:
    """Return the names of the tests that are listed as slow."""
    return frozenset(SLOW.read_text(encoding="utf-8").splitlines())


def few(values: Sequence[Any], kept: int, late: Sequence[Any] = ()) -> list[Any]:
    """Return values as parameters: the first `kept` in `make test`, the others in `make soak`; those that take seconds
    come late. A tuple is the values of several parameters."""
    values = [*(one for one in values if one not in late), *late]
    if kept and not Asked.soak:
        return values[:kept]
    parts = [one if isinstance(one, tuple) else (one,) for one in values]
    return [*values[:kept], *(pytest.param(*part, marks=pytest.mark.soak) for part in parts[kept:])]


def measured(notes: Path) -> dict[str, float]:
    """Return test -> CPU seconds, the least of its runs; a line of the notes: seconds, a tab, the test's name."""
    found: dict[str, float] = {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        seconds, name = line.split("\t", 1)
        found[name] = min(float(seconds), found.get(name, float("inf")))
    return found


def main(notes: Path) -> None:
    """Rewrite the list: tests that were measured anew, and the others as they stood."""
    times = measured(notes)
    names = {name for name in read_slow() if name not in times} | {n for n, s in times.items() if s > LIMIT_S}
    SLOW.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    print(f"{len(times)} tests took {sum(times.values()):.0f} CPU s, {len(names)} of them are slow")
    print("the longest:", *(f"{times[n]:7.1f} s  {n}" for n in sorted(times, key=lambda n: -times[n])[:20]), sep="\n  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
