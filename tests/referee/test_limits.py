"""No search passes its limit by more than a second, or 5 %, of CPU time (`python -m tests.limits_tally` asks more)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from polymap.explore import search
from polymap.workload.einsums import einsum
from tests.busy_tally import command_lines, differing
from tests.limits_tally import Question, question, taken

DIMS = "abcdefghijklmnopqrst"


@pytest.mark.parametrize("extent", [2, 7])
@pytest.mark.parametrize("tiles", ["any", "divide"])
def test_twenty_dims_end_with_their_limit_and_an_answer(extent: int, tiles: str) -> None:
    workload = einsum(f"O[a] += A[{','.join(DIMS)}]", sizes=dict.fromkeys(DIMS, extent))
    found = taken(Question(workload, "flat3", "energy", tiles, None), 2.0)
    assert not found.is_late(2.0), found
    assert found.status in ("FEASIBLE", "OPTIMAL")


@pytest.mark.parametrize("seed", [22, 27, 29, 30, 46, 52, 66])
def test_questions_that_passed_their_limit_once(seed: int) -> None:
    found = taken(question(seed))
    assert not found.is_late(2.0), found


def test_a_busy_machine_does_not_end_dividing_tiles_before_their_first_descent() -> None:
    """The clock runs ten times as fast as the processor, as wall time does beside others."""
    layer, machine = "resnet50.conv2_x", "simba_like"
    divided = search(layer, machine, "energy", "divide", time_limit_s=3, clock=time.process_time)
    any_size = search(layer, machine, "energy", "any", time_limit_s=30, clock=lambda: 10 * time.process_time())
    assert divided.value is not None
    assert any_size.value is not None
    assert any_size.value <= 1.01 * divided.value


def test_a_busy_machine_answers_what_an_idle_one_does(tmp_path: Path) -> None:
    asked = command_lines(tmp_path)
    assert len(asked) == 60
    assert differing(asked[::12]) == []
