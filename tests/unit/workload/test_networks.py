"""The built-in layers: their sums are the published sizes of the networks."""

from __future__ import annotations

import math

import pytest

from polymap.ir.errors import WorkloadError
from polymap.ir.loopnest import Workload
from polymap.workload.networks import NETWORKS, builtin_names, builtin_workload, network_layers
from polymap.workload.notation import einsum_text

# GMAC and parameters as printed in torchvision's table of models (its "GFLOPS" count multiply-accumulates); for BERT
# and GPT-2 the parameters of the encoder with its pooler, and of the whole model (the papers' 110M and 124M).
PUBLISHED_GMAC = {"resnet50": 4.09, "resnet18": 1.81, "vgg16": 15.47, "alexnet": 0.71, "mobilenet_v2": 0.30}
PUBLISHED_PARAMETERS = {
    "resnet50": 25_557_032,
    "resnet18": 11_689_512,
    "vgg16": 138_357_544,
    "alexnet": 61_100_840,
    "mobilenet_v2": 3_504_872,
    "bert_base": 85_054_464 + 590_592,
    "gpt2": 124_439_808,
}
LAYERS = {"resnet50": 54, "resnet18": 21, "vgg16": 16, "alexnet": 8, "mobilenet_v2": 53}


def macs(workload: Workload) -> int:
    return math.prod(workload.extents().values())


def rows(network: str) -> list[tuple[Workload, int]]:
    return [(builtin_workload(name), count) for name, count in network_layers(network)]


def test_conv2_x_is_the_layer_of_the_demo() -> None:
    layer = builtin_workload("resnet50.conv2_x")
    assert einsum_text(layer.statements[0]) == "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]"
    assert layer.extents() == {"n": 1, "k": 64, "p": 56, "q": 56, "c": 64, "r": 3, "s": 3}
    assert {tensor.bits for tensor in layer.tensors} == {8}
    assert macs(layer) == 115_605_504
    assert layer.name == "resnet50.conv2_x"


@pytest.mark.parametrize("network", PUBLISHED_GMAC)
def test_multiply_accumulates_are_the_published_ones(network: str) -> None:
    total = sum(count * macs(layer) for layer, count in rows(network))
    assert round(total / 1e9, 2) == PUBLISHED_GMAC[network]


@pytest.mark.parametrize("network", LAYERS)
def test_number_of_layers(network: str) -> None:
    assert sum(count for _, count in network_layers(network)) == LAYERS[network]


def weights(layer: Workload) -> tuple[int, int]:
    """Return (weights, output channels) of a layer; (0, 0) for a product of activations."""
    name = "W" if layer.tensors[-1].name == "W" else "B"
    if "h" in layer.extents():
        return 0, 0
    extents = layer.extents()
    channels = extents["n"] if name == "B" else extents.get("k", 1) * extents.get("g", 1)
    return math.prod(layer.tensor(name).shape), channels


# Beyond the weights: a bias per channel; normalised convolutions have a scale and a shift instead. A transformer layer
# has two normalisations of its width, and GPT-2 its two embeddings (the first is the lm_head) and a last normalisation.
@pytest.mark.parametrize("network", PUBLISHED_PARAMETERS)
def test_parameters_are_the_published_ones(network: str) -> None:
    total = 0
    for layer, count in rows(network):
        own, channels = weights(layer)
        normalised = network in ("resnet50", "resnet18", "mobilenet_v2") and layer.tensors[-1].name == "W"
        biases = 0 if layer.name == "gpt2.lm_head" else 2 * channels if normalised else channels
        total += count * (own + biases)
    if network in ("bert_base", "gpt2"):
        total += 12 * 2 * 2 * 768
    if network == "gpt2":
        total += 1024 * 768 + 2 * 768
    assert total == PUBLISHED_PARAMETERS[network]


def test_transformers_multiply_per_head() -> None:
    scores, context = builtin_workload("bert_base.scores"), builtin_workload("bert_base.context")
    assert einsum_text(scores.statements[0]) == "C[h,m,n] += A[h,m,k] * B[h,n,k]"
    assert einsum_text(context.statements[0]) == "C[h,m,n] += A[h,m,k] * B[h,k,n]"
    assert scores.extents() == {"h": 12, "m": 512, "n": 512, "k": 64}
    assert context.extents() == {"h": 12, "m": 512, "n": 64, "k": 512}
    # 12 layers x (4 projections + scores + context + feed-forward), and the pooler
    layer = 4 * 512 * 768**2 + 2 * 512 * 512 * 768 + 2 * 512 * 768 * 3072
    assert sum(count * macs(layer) for layer, count in rows("bert_base")) == 12 * layer + 768**2
    assert sum(count * macs(layer) for layer, count in rows("gpt2")) == 12 * layer + 512 * 768 * 50257


def test_depthwise_layers_have_no_channel_loops() -> None:
    layer = builtin_workload("mobilenet_v2.block7_depthwise")
    assert einsum_text(layer.statements[0]) == "O[n,g,p,q] += I[n,g,p+r,q+s] * W[g,r,s]"
    assert layer.extents() == {"n": 1, "g": 960, "p": 7, "q": 7, "r": 3, "s": 3}


@pytest.mark.parametrize("network", NETWORKS)
def test_shapes_and_names_are_distinct(network: str) -> None:
    layers = [(einsum_text(layer.statements[0]), *layer.extents().items()) for layer, _ in rows(network)]
    assert len(set(layers)) == len(layers)
    names = [name for name, _ in network_layers(network)]
    assert len(set(names)) == len(names)


def test_all_names_are_listed() -> None:
    names = builtin_names()
    assert len(names) == len(set(names)) == sum(len(NETWORKS[network]) for network in NETWORKS)
    assert names[0] == "resnet50.conv1"
    for name in names:
        assert builtin_workload(name).name == name


def test_unknown_names_get_a_suggestion() -> None:
    for wrong, meant in (
        ("resnet50.conv2x", "resnet50.conv2_x"),
        ("resnet5.conv2_x", "resnet50.conv2_x"),
        ("gpt2.score", "gpt2.scores"),
        ("resnet-50", "resnet50"),
        ("ResNet_50.conv2-x", "resnet50.conv2_x"),
        ("mobilenet-v2", "mobilenet_v2"),
        ("bertbase", "bert_base"),
    ):
        with pytest.raises(WorkloadError, match=f"PM230 .*'{wrong}'\n.*Did you mean '{meant}'"):
            builtin_workload(wrong)
    with pytest.raises(WorkloadError, match="'resnet50'\n.*It is a network: `polymap explore` and explore_network"):
        builtin_workload("resnet50")
    with pytest.raises(WorkloadError, match="'foo'\n.*Networks: resnet50, resnet18, vgg16"):
        builtin_workload("foo")
    with pytest.raises(WorkloadError, match="'alexnet'\n"):
        builtin_workload("alexnet")
