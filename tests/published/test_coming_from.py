"""docs/howto/coming_from.md: its examples run, and count what the other tools do.

SCALE-Sim v2 (github.com/scalesim-project/scale-sim-v2, 22f88b1): rows of the demand matrices of `systolic_compute_os`
and `systolic_compute_ws` for a GEMM topology, and elements demanded in them. The others: by hand, as the page says.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "coming_from.md"
# (M, N, K, rows, columns, what units keep): cycles, demands of A, B and C.
SCALE_SIM = {
    (8, 8, 16, 4, 4, "C"): (88, 256, 256, 64),
    (8, 8, 16, 4, 4, "B"): (144, 256, 128, 256),
    (12, 8, 10, 4, 8, "C"): (60, 120, 240, 96),
    (12, 8, 16, 4, 8, "B"): (104, 192, 128, 384),
}


@pytest.fixture(scope="module", name="page")
def _page() -> dict[str, Any]:
    """Return the names that the page's cells define."""
    names: dict[str, Any] = {}
    for cell in re.findall(r"```\{code-cell\} ipython3\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(cell, names)
    return names


def _traffic(cost: Any, level: str) -> dict[str, tuple[int, int]]:
    assert cost.legal
    return {row.tensor: (row.reads, row.writes) for row in cost.traffic if row.level == level}


@pytest.mark.parametrize("case", SCALE_SIM)
def test_systolic_arrays_take_the_cycles_and_elements_of_scale_sim(page: dict[str, Any], case: tuple[Any, ...]) -> None:
    cycles, left, right, result = SCALE_SIM[case]
    cost = page["systolic"](*case)
    found = _traffic(cost, "SRAM")
    assert (cost.latency_cycles, found["A"][0], found["B"][0], found["C"][1]) == (cycles, left, right, result)


def test_the_other_examples_count_what_the_page_says(page: dict[str, Any]) -> None:
    assert _traffic(page["timeloop"], "DRAM") == {"A": (2 * 32, 0), "B": (4 * 32, 0), "C": (0, 64)}
    assert _traffic(page["accelforge"], "DRAM") == {"A": (64, 0), "B": (8 * 64, 0), "C": (0, 64)}
    assert _traffic(page["maestro"], "L2") == {"W": (32, 0), "I": (48, 0), "O": (24, 48)}
    assert page["maestro"].latency_cycles == 4 * 8 * 6 // 16
