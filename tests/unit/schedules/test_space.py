"""The size of the mapping space against writing it out, and against formulas where there are any."""

from __future__ import annotations

import random
from math import factorial

import pytest

from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Node
from polymap.schedules import orders as space_orders
from polymap.schedules.size import SpaceSize, few_legal, legal_count, space_size, syntactic_count
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d
from tests.referee.all_trees import all_trees
from tests.times import few

pytestmark = pytest.mark.slow

_LISTED = 1000  # trees that a test is ready to write out


def _random_workload(rng: random.Random) -> Workload:
    dims = "abc"[: rng.choice((1, 2, 2, 2, 3))]
    sizes = {dim: rng.choice((1, 2, 2, 3, 4, 6) if len(dims) > 1 else (2, 4, 5, 6, 8)) for dim in dims}
    names = "XYZ"[: rng.choice((1, 2, 2))]
    used = [[dim for dim in dims if rng.random() < 0.6] for _ in names]
    used[-1] += [dim for dim in dims if not any(dim in index for index in used)]
    parts = [f"{name}[{','.join(index)}]" for name, index in zip(names, used, strict=True)]
    if len(parts) == 1:
        parts.append(f"Y[{','.join(dims)}]")
    return einsum(f"{parts[0]} += {' * '.join(parts[1:])}", sizes=sizes)


def _random_machine(rng: random.Random) -> Architecture:
    inner = rng.choice((1, 1, 2))
    places = sorted(rng.choice(range(inner + 1)) for _ in range(rng.choice((0, 1, 1, 2))))
    nodes: list[Node] = [MemoryLevel("DRAM")]
    for number in range(inner + 1):
        for i, place in enumerate(places):
            if place == number:
                nodes.append(Fanout(f"F{i}", rng.choice((2, 3, 4)), dims=rng.choice((None, None, ("a", "b")))))
        if number < inner:
            holds = rng.choice((None, ("@input",), ("@output",), ("X",)))
            must = rng.choice(((), (), ("X",) if holds in (None, ("X",)) else ()))
            nodes.append(MemoryLevel(f"L{number}", holds=holds, must_hold=must))
    return Architecture("small", (*nodes, ComputeUnit("MAC")))


@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize("seed", few(range(12), 4))
def test_counts_equal_the_trees_written_out(seed: int, tiles: str) -> None:
    rng = random.Random(seed)
    shown = 0
    while shown < 3:
        workload, arch = _random_workload(rng), _random_machine(rng)
        syntactic, legal = syntactic_count(workload, arch, tiles), legal_count(workload, arch, tiles)
        assert syntactic is not None
        assert legal is not None
        for most in (0, legal // 2, legal - 1, legal, 2 * legal):
            assert few_legal(workload, arch, tiles, most) == (legal if legal <= most else None), "counted if few"
        if legal <= _LISTED and syntactic <= 6 * _LISTED:
            assert legal == len(all_trees(workload, arch, tiles, legal=True))
            shown += 1
            if syntactic <= _LISTED:
                assert syntactic == len(all_trees(workload, arch, tiles, legal=False))


def _one_level(*extra: Node) -> Architecture:
    return Architecture("one", (MemoryLevel("DRAM"), *extra, ComputeUnit("MAC")))


def test_without_storage_the_trees_are_the_orders_of_the_loops() -> None:
    workload = einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=64, c=64, p=56, q=56, r=3, s=3)
    for tiles in ("divide", "any"):
        assert (
            syntactic_count(workload, _one_level(), tiles) == legal_count(workload, _one_level(), tiles) == factorial(6)
        )


def test_seven_loops_have_5040_orders() -> None:
    workload = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", n=2, k=2, c=2, p=2, q=2, r=2, s=2)
    assert legal_count(workload, _one_level(), "any") == 5040


def test_one_node_splits_a_loop_into_any_two_tiles() -> None:
    workload = einsum("y[] += x[i]", i=100)
    arch = _one_level(MemoryLevel("L", holds=("x",)))
    # no node: one loop. A node above it, below it, or between two loops: 98 inner tiles.
    assert legal_count(workload, arch, "any") == 1 + 2 + 98
    assert legal_count(workload, arch, "divide") == 1 + 2 + 7
    # A node is told by the tile that it holds, 1..100; a tensor has one node or none.
    assert syntactic_count(workload, _one_level(MemoryLevel("L")), "any") == 101**2


def test_large_spaces_are_counted_in_a_moment_and_legal_is_part_of_syntactic() -> None:
    layer = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", n=1, k=64, c=64, p=56, q=56, r=3, s=3)
    for name in ("flat3", "eyeriss_like", "cluster4"):
        size = space_size(layer, load_arch(name), "divide")
        assert size.legal is not None
        assert size.syntactic is not None
        assert 10**18 < size.legal < size.syntactic


@pytest.mark.slow
def test_a_count_that_takes_too_long_is_not_given() -> None:
    layer = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", n=1, k=64, c=64, p=56, q=56, r=3, s=3)
    size = space_size(layer, load_arch("cluster4"), "any")
    assert (size.syntactic or 0) > 10**70
    assert (size.legal, size.reason) == (None, "the count takes too many operations")


def test_dependences_that_bind_leave_the_legal_size_open() -> None:
    kept = einsum("C[m] += A[m,k]", m=4, k=4, associative=False)
    assert space_size(kept, _one_level(), "any") == SpaceSize(
        2, None, "the dependences do not allow all orders of the loops"
    )


def test_a_level_that_may_not_hold_what_it_must_leaves_nothing() -> None:
    workload = einsum("C[m] += A[m,k]", m=4, k=4)
    arch = _one_level(MemoryLevel("L", holds=("A",), must_hold=("C",)))
    assert legal_count(workload, arch, "divide") == 0


def test_a_count_that_is_stopped_is_none_and_asks_often() -> None:
    layer, arch = conv2d(K=8, C=8, H=8, W=8, R=3, S=3), load_arch("flat3")
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(len(asked) >= 5)
        return asked[-1]

    size = space_size(layer, arch, "divide", stop)
    assert asked == [False] * 5 + [True] * 2  # each of the two counts ends at the first
    assert (size.syntactic, size.legal) == (None, None)


def test_many_dims_have_no_count_and_the_search_for_primes_looks_at_the_clock() -> None:
    """Building the rules of 14 and more dims once took 10 s and more, for nothing."""
    sizes = {f"d{number}": 7 for number in range(13)}
    layer = einsum(f"O[d0] += A[{','.join(sizes)}]", sizes=sizes)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 12

    space_orders.tried.cache_clear()
    assert legal_count(layer, _one_level(), "divide", stop) is None
    assert len(asked) == 13  # before the count ends there are more than a hundred
    assert legal_count(layer, _one_level(), "divide") is not None
    more = einsum(f"O[d0] += A[{','.join(sizes)},d13,d14]", sizes={**sizes, "d13": 7, "d14": 7})
    assert list(space_orders.rules(15)) == []
    assert legal_count(more, _one_level(), "divide") is None
