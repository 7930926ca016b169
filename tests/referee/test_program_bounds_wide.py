"""Bounds of programs with strides, guards, triangles, temporaries, mixed widths of elements and several buffers:
no legal order with one buffer as large as all of them moves fewer bits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import polymap as pm
from polymap.costmodel.bounds import compulsory_bits
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.search.programs.traffic_bounds import program_traffic_bits
from polymap.workload.c.reader import from_c
from tests.schedule_traffic import ASSIGN, READ, Element, Run, run_of, tiled_order

NAMES = "ijklm"
WIDTHS = (1, 7, 64)
SIZE = 40


def reference(rng: random.Random, name: str, loops: str) -> str:
    one, other = rng.choice(loops), rng.choice(loops)
    forms = (one, one, one, f"{one} + {other}", f"2 * {one}", f"3 * {one}", f"{one} + 2 * {other}", f"{one} + 1", "0")
    return f"{name}[{rng.choice(forms)}][{rng.choice((rng.choice(loops), rng.choice(loops), '1'))}]"


def statement(rng: random.Random, loops: str) -> str:
    target = reference(rng, rng.choice("ABCT"), loops)
    reads = " * ".join(reference(rng, rng.choice("ABCT"), loops) for _ in range(rng.randint(1, 3)))
    if rng.random() < 0.7 and len(loops) > 2:
        target, reads = f"C[{loops[0]}][{loops[1]}]", f"A[{loops[0]}][{loops[-1]}] * A[{loops[-1]}][{loops[1]}]"
    return f"{target} {rng.choice(('=', '+=', '+=', '-='))} {reads};"


def nest(rng: random.Random) -> str:
    """Return a nest of one to five loops, triangles and steps among them, with statements below a guard."""
    depth = rng.choice((1, 2, 3, 3, 3, 4, 5))
    loops, text = NAMES[:depth], ""
    for at, name in enumerate(loops):
        low = rng.choice(("0", "0", "0", "1", loops[at - 1] if at else "0"))
        high = rng.choice(("2", "3", "5", "7", "7")) if depth < 4 else rng.choice(("2", "3", "4"))
        step = rng.choice((1, 1, 1, 2, 3))
        text += f"for (int {name} = {low}; {name} < {high}; {name} += {step}) "
    guard = rng.choice(("", "", f"if ({rng.choice(loops)} >= {rng.choice(loops)}) "))
    return text + guard + "{ " + " ".join(statement(rng, loops) for _ in range(rng.choice((1, 1, 2)))) + " }"


def program(rng: random.Random) -> Workload:
    nests = " ".join(nest(rng) for _ in range(rng.choice((1, 1, 2))))
    arrays = ", ".join(f"double {name}[{SIZE}][{SIZE}]" for name in "ABC")
    kept = rng.random() < 0.5
    head = f"void f({arrays}, double T[{SIZE}][{SIZE}]) {{ " if kept else f"void f({arrays}) {{ double T[40][40]; "
    work = from_c(f"{head}{nests} }}")
    return replace(work, tensors=tuple(replace(each, bits=rng.choice(WIDTHS)) for each in work.tensors))


def machine(rng: random.Random, bits: int) -> Architecture:
    """Return a machine whose one or two buffers hold so many bits together."""
    inner = rng.randint(1, bits - 1) if bits > 1 and rng.random() < 0.5 else 0
    buffers = [("L2", bits - inner), *([("L1", inner)] if inner else [])]
    nodes = [{"level": "DRAM"}, *({"level": name, "capacity_bits": size} for name, size in buffers), {"compute": "PE"}]
    return pm.io.arch_from_document({"name": "m", "nodes": nodes})


def moved_bits(work: Workload, run: Run, order: list[int], room: int) -> int:
    """Return the bits moved when what is used again last gives way, each access being free to pass the buffer by."""
    tensors = {each.name: each for each in work.tensors}
    kept = {r.tensor for s in work.statements for r in s.reads}
    kept |= {s.target.tensor for s in work.statements if s.operator.value == "="}
    trace = [access for number in order for access in run.touched[number]]
    following = [len(trace)] * len(trace)
    last: dict[Element, int] = {}
    for at in range(len(trace) - 1, -1, -1):
        following[at] = last.get(trace[at][0], len(trace))
        last[trace[at][0]] = at
    zero = {each for each in last if each[0] not in kept and not tensors[each[0]].initial}
    inside: dict[Element, tuple[int, bool, int]] = {}
    moved = held = 0
    for at, (element, kind) in enumerate(trace):
        after, tensor = following[at], tensors[element[0]]
        _, dirty, size = inside.pop(element, (0, False, 0))
        held -= size
        if not size and (kind == READ or (kind != ASSIGN and element not in zero)):
            moved += tensor.bits
        zero.discard(element)
        ends = after == len(trace) or trace[after][1] == ASSIGN
        inside[element] = after, (dirty or kind != READ) and not (tensor.temporary and ends), tensor.bits
        held += tensor.bits
        while held > room:
            out = max(inside, key=lambda each: inside[each][0])
            _, dirty, size = inside.pop(out)
            moved, held = moved + size * dirty, held - size
    return moved + sum(size * dirty for _, dirty, size in inside.values())


def check(seed: int, programs: int) -> int:
    """Return how many bounds said more than what is compulsory."""
    rng = random.Random(f"wide bounds {seed}")
    compared = above = 0
    while compared < programs:
        try:
            work = program(rng)
        except pm.PolymapError:
            continue
        run = run_of(work)
        if not 1 <= len(run.points) <= 400:
            continue
        found = (tiled_order(run, rng) for _ in range(3))
        legal = [list(range(len(run.points))), *(order for order in found if order is not None)]
        for room in {rng.randint(1, 64), rng.randint(1, 300), rng.randint(64, 1000), 10**6}:
            bound = program_traffic_bits(work, machine(rng, room))
            assert bound <= min(moved_bits(work, run, order, room) for order in legal), (work, room)
            above += bound > (compulsory_bits(work) or 0)
        compared += 1
    return above


def test_no_order_moves_less() -> None:
    assert check(1, 5) > 0, "a bound that says nothing new cannot be wrong"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 32))
def test_no_order_moves_less_in_many_cases(seed: int) -> None:
    check(seed, 20)


@pytest.mark.parametrize("room", [3, 8])
def test_statements_that_touch_the_same_at_the_same_points_share_what_is_moved(room: int) -> None:
    text = "for (int i = 0; i < 6; i++) for (int j = 0; j < 6; j++) for (int k = 0; k < 6; k++) "
    text += "{ C[i][j] += A[i][k] * B[k][j]; C[i][j] += 2.0 * A[i][k] * B[k][j]; C[i][j] += A[i][k] + B[k][j]; }"
    work = from_c(f"void f(double A[6][6], double B[6][6], double C[6][6]) {{ {text} }}")
    run = run_of(work)
    order = list(range(len(run.points)))
    assert program_traffic_bits(work, machine(random.Random(0), 64 * room)) <= moved_bits(work, run, order, 64 * room)
