"""A busy machine answers what an idle one does: inner limits are steps or CPU time; no phase ends before it began."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from polymap.explore import search
from tests.busy_tally import command_lines, differing


def test_a_busy_machine_does_not_end_dividing_tiles_before_their_first_descent() -> None:
    """The clock runs ten times as fast as the processor, as wall time does beside others."""
    layer, machine = "resnet50.conv2_x", "simba_like"
    divided = search(layer, machine, "energy", "divide", time_limit_s=3, clock=time.process_time)
    any_size = search(layer, machine, "energy", "any", time_limit_s=30, clock=lambda: 10 * time.process_time())
    assert divided.value is not None
    assert any_size.value is not None
    assert any_size.value <= 1.01 * divided.value


@pytest.mark.soak
def test_a_busy_machine_answers_what_an_idle_one_does(tmp_path: Path) -> None:
    asked = command_lines(tmp_path)
    assert len(asked) == 60
    assert differing(asked[::12]) == []
