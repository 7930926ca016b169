"""PyTorch models as networks: multiply-accumulates against torch's own counter, every node told."""

from __future__ import annotations

import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import polymap as pm
from tests.extras.torch_zoo import cases

CASES = cases()
UNMAPPED: dict[str, list] = {"resnet50": [], "mobilenet_v2": [], "block": [], "unet": []}


def macs_of_torch(name: str) -> int:
    model, inputs = CASES[name]
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


@pytest.mark.parametrize("name", CASES)
def test_macs_equal_half_of_the_flops_that_torch_counts(name: str) -> None:
    model, inputs = CASES[name]
    start = time.process_time()
    net = pm.from_torch(model, inputs)
    assert time.process_time() - start < 10
    assert net.macs == macs_of_torch(name)
    assert net.unmapped == UNMAPPED[name]


@pytest.mark.parametrize("name", CASES)
def test_every_node_is_mapped_or_a_view_or_left_out(name: str) -> None:
    model, inputs = CASES[name]
    net = pm.from_torch(model, inputs)
    calls = [node for node in torch.export.export(model, inputs).graph.nodes if node.op == "call_function"]
    told = {view.node for view in net.views} | {left.node for left in net.unmapped}
    ends = {node for edge in net.edges for node in edge}
    assert told <= {node.name for node in calls}
    assert ends <= {node.name for node in calls}
    assert len(net.layers) > 0


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_products_are_those_of_the_builtin_network(name: str) -> None:
    net = pm.from_torch(*CASES[name], bits=8).products()

    def shapes(network: pm.Network) -> dict:
        found: dict = {}
        for layer in network.layers:
            key = (layer.workload.statements, layer.workload.dims)
            found[key] = found.get(key, 0) + layer.multiplicity
        return found

    assert shapes(net) == shapes(pm.network(name))


def test_types_of_the_model_are_the_bits_of_its_tensors() -> None:
    model = torch.nn.Linear(4, 5).to(torch.bfloat16)
    net = pm.from_torch(model, (torch.empty(2, 4, dtype=torch.bfloat16),))
    assert {(t.bits, t.element_type) for t in net.layers[0].workload.tensors} == {(16, "bfloat16")}


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(pm.InputError, match="PM642 from_torch was given 'int'"):
        pm.from_torch(3, ())

    class Broken(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(pm.InputError, match="PM642 torch.export refuses"):
        pm.from_torch(Broken(), (torch.ones(2),))


def test_operators_without_a_loop_nest_are_named() -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.sort(torch.relu(x)).values

    net = pm.from_torch(Sorted(), (torch.ones(4),))
    assert [(node.operator, node.reason) for node in net.unmapped] == [
        ("sort", "no affine loop nest is known for this operator")
    ]
