"""Programs that touch few elements of large arrays cost what they cost on small ones."""

from __future__ import annotations

import time

from polymap.explore import search
from polymap.ir.loopnest import Workload
from polymap.workload.c.reader import from_c

TEXT = """void f(void) {{ int A[{side}][{side}], B[20][20], x[20];
#pragma scop
for (int i = 0; i < 20; i++) for (int j = 0; j < 20; j++) A[{step} * i][{step} * j] = B[i][j] * 2;
for (int i = 0; i < 20; i++) for (int j = 0; j < 20; j++) x[i] += A[{step} * i][{step} * j];
#pragma endscop
}}"""


def program(step: int) -> Workload:
    return from_c(TEXT.format(step=step, side=20 * step))


def test_the_declared_size_of_an_array_is_no_array_of_ours() -> None:
    found = [
        search(program(step), "flat3", "energy", work_limit=60, time_limit_s=60, clock=time.process_time)
        for step in (2, 70_000)
    ]
    small, large = found
    assert large.best == small.best
    assert (large.status, large.value, large.bound) == (small.status, small.value, small.bound)
