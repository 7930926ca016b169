"""C kernels read as workloads do what the C text does, element by element."""

from __future__ import annotations

import pytest

from polymap.ir.loopnest import Workload
from polymap.schedules.legality import schedule_violations
from polymap.schedules.relation import original_schedule
from polymap.workload.c.reader import from_c
from tests.c_interpreter import CProgram, run_workload
from tests.c_kernels import KERNELS
from tests.nests import instances


def read(name: str) -> Workload:
    source, sizes = KERNELS[name]
    return from_c(source, sizes, file=f"{name}.c")


@pytest.mark.parametrize("name", KERNELS)
def test_workload_computes_what_the_text_computes(name: str) -> None:
    source, sizes = KERNELS[name]
    work = read(name)
    program = CProgram(source, sizes, {tensor.name: tensor.element_type or "" for tensor in work.tensors})
    program.run()
    store = run_workload(work)
    kept = {tensor.name for tensor in work.tensors if not tensor.temporary}
    found = {place: value for place, value in store.items() if place[0] in kept}
    expected = {place: value for place, value in program.store.items() if place[0] in kept}
    assert found == expected
    assert len(found) > 0


@pytest.mark.parametrize("name", KERNELS)
def test_elements_lie_inside_their_tensors_and_counters_inside_their_loops(name: str) -> None:
    work = read(name)
    reached: dict[str, set[int]] = {}
    for statement, point in instances(work):
        values = dict(zip(statement.dims, point, strict=True))
        for dim, counter in values.items():
            reached.setdefault(dim, set()).add(counter)
        for access in (statement.target, *statement.reads):
            tensor = work.tensor(access.tensor)
            assert len(access.index) == len(tensor.shape)
            for index, size, low in zip(access.index, tensor.shape, tensor.origin, strict=True):
                assert low <= index.evaluate(values) < low + size
    for dim in work.dims:
        assert reached[dim.name] <= set(range(dim.extent))


@pytest.mark.parametrize("name", KERNELS)
def test_program_order_keeps_all_dependences(name: str) -> None:
    work = read(name)
    assert schedule_violations(work, original_schedule(work), strict=True) == ()
