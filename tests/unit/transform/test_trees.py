"""Each transform on one small tree, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polymap.ir.errors import MappingError
from polymap.ir.mapping import Branch, Compute, Mapping, Spatial, Storage, Temporal
from polymap.transform import trees as transforms

A, M, N, S = Storage("RF", ("A", "B")), Temporal("m", 1), Temporal("n", 1), Compute("S")
TREE = Mapping((M, N, A, S))
FUSED = Mapping((M, Branch(((Compute("S0"),), (A, N, Compute("S1"))))))


def test_split() -> None:
    assert transforms.split(TREE, "m", inner=4) == Mapping((Temporal("m", 4), M, N, A, S))
    assert transforms.split(Mapping((Temporal("m", 3), M, S)), "m", inner=4).nodes[:2] == (
        Temporal("m", 12),
        Temporal("m", 3),
    )
    (_, branch) = transforms.split(FUSED, "n", inner=2).nodes
    assert branch == Branch(((Compute("S0"),), (A, Temporal("n", 2), N, Compute("S1"))))


def test_interchange() -> None:
    assert transforms.interchange(TREE, 0) == Mapping((N, M, A, S))


def test_move_storage() -> None:
    assert transforms.move_storage(TREE, 2, by=-2) == Mapping((A, M, N, S))
    (_, branch) = transforms.move_storage(FUSED, (1, 1, 0), by=1).nodes
    assert branch == Branch(((Compute("S0"),), (N, A, Compute("S1"))))


def test_store_and_bypass() -> None:
    assert transforms.stage(TREE, 1, level="L", tensor="A") == Mapping((M, Storage("L", ("A",)), N, A, S))
    assert transforms.bypass(TREE, level="RF", tensor="A") == Mapping((M, N, Storage("RF", ("B",)), S))
    assert transforms.bypass(Mapping((Storage("RF", ("A",)), S)), level="RF", tensor="A") == Mapping((S,))


def test_parallelize_and_serialize() -> None:
    spread = Mapping((Spatial("m", 1, "X"), N, A, S))
    assert transforms.parallelize(TREE, 0, fanout="X") == spread
    assert transforms.serialize(spread, 0) == TREE


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda: transforms.split(TREE, "q", inner=2), "PM420 there is no temporal loop over q"),
        (lambda: transforms.split(TREE, "m", inner=0), "PM420 .* loops of 0 iterations"),
        (lambda: transforms.interchange(TREE, 1), "PM420 at 1 there are no two loops"),
        (lambda: transforms.interchange(TREE, 9), "PM420 there is no node at 9"),
        (lambda: transforms.interchange(Mapping((Temporal("m", 2), M, S)), 0), "PM420 at 0 both loops are over m"),
        (lambda: transforms.move_storage(TREE, 0, by=1), "PM420 the node at 0 stores nothing"),
        (lambda: transforms.move_storage(TREE, 2, by=1), "PM420 the node at 2 cannot be moved by 1"),
        (lambda: transforms.stage(TREE, 0, level="RF", tensor="A"), "PM420 A is stored in 'RF' already"),
        (lambda: transforms.bypass(TREE, level="RF", tensor="C"), "PM420 C is not stored in 'RF'"),
        (lambda: transforms.parallelize(TREE, 2, fanout="X"), "PM420 the node at 2 is no temporal loop"),
        (lambda: transforms.serialize(TREE, 0), "PM420 the node at 0 is no spatial loop"),
        (lambda: transforms.serialize(FUSED, (1, 5, 0)), r"PM420 there is no node at \(1, 5, 0\)"),
    ],
)
def test_what_cannot_be_done_is_refused(transform: Callable[[], object], message: str) -> None:
    with pytest.raises(MappingError, match=message):
        transform()
