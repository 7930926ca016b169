"""Nodes of a model as they are told: which operand each result becomes, what is needed after the run."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.importers.calls import Call, Operand
from polymap.importers.nodes import Nodes, check_bits
from polymap.networks import Feed
from polymap.networks.groups import plan_of

X = (8, 16)


def told(*calls: tuple[str, str, tuple[tuple[int, ...], ...], tuple[int, ...], str], returned: str = "") -> pm.Network:
    """Return the network of (node, operator, shapes, result, values read, separated by spaces)."""
    nodes = Nodes()
    for node, operator, shapes, output, reads in calls:
        operands = tuple(Operand(value, "float32", 32) for value in reads.split())
        call = Call(operator, shapes, output, {"axes": 1}, "float32", operands=operands)
        nodes.tell(node, operator, lambda call=call: call, reads.split(), [node])  # type: ignore[misc]
    nodes.returns(returned.split())
    return nodes.network("told")


def test_operands_of_nodes_of_several_loop_nests_are_known() -> None:
    shape = (1, 2, 8, 4)
    net = told(
        ("q", "relu", (shape,), shape, "x"),
        ("k", "relu", (shape,), shape, "x"),
        ("v", "relu", (shape,), shape, "x"),
        ("attend", "attention", (shape,) * 3, shape, "q k v"),
        ("norm", "layer_norm", (shape, (4,), (4,)), shape, "attend scale shift"),
        ("soft", "softmax", (shape,), shape, "norm"),
    )
    assert net.feeds == (
        Feed("q", "attend", "Q"),
        Feed("k", "attend", "K"),
        Feed("v", "attend", "V"),
        Feed("attend", "norm", "X"),
        Feed("norm", "soft", "X"),
    )


def test_a_softmax_is_asked_with_the_product_before_it() -> None:
    net = told(("scores", "product", (X, (16, 8)), (8, 8), "x y"), ("soft", "softmax", ((8, 8),), (8, 8), "scores"))
    (group,) = plan_of(net).groups
    assert group.names == ("scores", "soft.largest", "soft.exponentials", "soft.sums", "soft.quotients")
    assert [each.name for each in group.program.tensors if each.temporary] == ["C", "M", "E", "S"]


def test_a_normalisation_over_other_rows_is_not_taken_for_an_operand() -> None:
    shape = (1, 4, 8, 8)
    net = told(("a", "relu", (shape,), shape, "x"), ("norm", "group_norm", (shape, (4,), (4,)), shape, "a scale shift"))
    assert net.feeds == ()


def test_results_of_the_model_are_written() -> None:
    calls = (("a", "relu", (X,), X, "x"), ("b", "relu", (X,), X, "a"))
    assert told(*calls, returned="b").returned == {"b"}
    (group,) = plan_of(told(*calls, returned="a b x")).groups
    assert [each.name for each in group.program.tensors if each.temporary] == []
    (group,) = plan_of(told(*calls, returned="b")).groups
    assert [each.name for each in group.program.tensors if each.temporary] == ["O"]


@pytest.mark.parametrize("bits", [0, -8, True, 2.5, "8"])
def test_bits_that_no_tensor_has_are_refused(bits: object) -> None:
    check_bits(None)
    with pytest.raises(pm.errors.InputError, match="PM641 bits is"):
        check_bits(bits)
