"""The layers of well-known networks, batch 1, 8 bits: `resnet50.conv2_x`, `bert_base.scores`.

Every distinct shape is listed once, with the number of layers that have it; each table names the source of its shapes
and counts. A fully connected layer is a matrix product with m = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os.path import isdir, isfile

from polymap.inputs import answers_in_words, expected_text, shown
from polymap.ir import Mistake, Workload, WorkloadError, did_you_mean
from polymap.workload.einsums import einsum
from polymap.workload.layers import LAYERS, conv2d, matmul

Layer = Callable[..., Workload]  # of its name
Row = tuple[str, int, Layer]


def _conv(
    channels: int, outputs: int, size: int, kernel: int = 1, stride: int = 1, padding: int = 0, groups: int = 1
) -> Layer:
    """Return `outputs` filters of `kernel` x `kernel` on `channels` images of `size` x `size`."""
    sizes = {"K": outputs, "C": channels, "H": size, "W": size, "R": kernel, "S": kernel}
    return partial(conv2d, **sizes, stride=stride, padding=padding, groups=groups)


def _same(channels: int, outputs: int, size: int, stride: int = 1) -> Layer:
    return _conv(channels, outputs, size, kernel=3, stride=stride, padding=1)


def _depthwise(channels: int, size: int, stride: int = 1) -> Layer:
    return _conv(channels, channels, size, kernel=3, stride=stride, padding=1, groups=channels)


def _heads(h: int, m: int, n: int, k: int, *, transposed: bool = False) -> Layer:
    """Return one matrix product per attention head; transposed: B is indexed [h,n,k], as in Q times K transposed."""
    text = f"C[h,m,n] += A[h,m,k] * {'B[h,n,k]' if transposed else 'B[h,k,n]'}"
    return partial(einsum, text, h=h, m=m, n=n, k=k)


# K. He, X. Zhang, S. Ren, J. Sun: Deep Residual Learning for Image Recognition (CVPR 2016), table 1, 50 layers, with
# the stride of a stage in its first 3x3 convolution, as in torchvision's resnet50 (4.09 GMAC).
# reduce and expand are the 1x1 convolutions around the 3x3; first is a stage's first block, shortcut its projection.
_RESNET50: tuple[Row, ...] = (
    ("conv1", 1, _conv(3, 64, 224, kernel=7, stride=2, padding=3)),
    ("conv2_reduce_first", 1, _conv(64, 64, 56)),
    ("conv2_x", 3, _same(64, 64, 56)),
    ("conv2_expand", 4, _conv(64, 256, 56)),  # three blocks and the shortcut, which has the same shape
    ("conv2_reduce", 2, _conv(256, 64, 56)),
    ("conv3_reduce_first", 1, _conv(256, 128, 56)),
    ("conv3_first", 1, _same(128, 128, 56, stride=2)),
    ("conv3_shortcut", 1, _conv(256, 512, 56, stride=2)),
    ("conv3_x", 3, _same(128, 128, 28)),
    ("conv3_expand", 4, _conv(128, 512, 28)),
    ("conv3_reduce", 3, _conv(512, 128, 28)),
    ("conv4_reduce_first", 1, _conv(512, 256, 28)),
    ("conv4_first", 1, _same(256, 256, 28, stride=2)),
    ("conv4_shortcut", 1, _conv(512, 1024, 28, stride=2)),
    ("conv4_x", 5, _same(256, 256, 14)),
    ("conv4_expand", 6, _conv(256, 1024, 14)),
    ("conv4_reduce", 5, _conv(1024, 256, 14)),
    ("conv5_reduce_first", 1, _conv(1024, 512, 14)),
    ("conv5_first", 1, _same(512, 512, 14, stride=2)),
    ("conv5_shortcut", 1, _conv(1024, 2048, 14, stride=2)),
    ("conv5_x", 2, _same(512, 512, 7)),
    ("conv5_expand", 3, _conv(512, 2048, 7)),
    ("conv5_reduce", 2, _conv(2048, 512, 7)),
    ("fc", 1, partial(matmul, 1, 1000, 2048)),
)

# The same table, 18 layers (1.81 GMAC).
_RESNET18: tuple[Row, ...] = (
    ("conv1", 1, _conv(3, 64, 224, kernel=7, stride=2, padding=3)),
    ("conv2_x", 4, _same(64, 64, 56)),
    ("conv3_first", 1, _same(64, 128, 56, stride=2)),
    ("conv3_shortcut", 1, _conv(64, 128, 56, stride=2)),
    ("conv3_x", 3, _same(128, 128, 28)),
    ("conv4_first", 1, _same(128, 256, 28, stride=2)),
    ("conv4_shortcut", 1, _conv(128, 256, 28, stride=2)),
    ("conv4_x", 3, _same(256, 256, 14)),
    ("conv5_first", 1, _same(256, 512, 14, stride=2)),
    ("conv5_shortcut", 1, _conv(256, 512, 14, stride=2)),
    ("conv5_x", 3, _same(512, 512, 7)),
    ("fc", 1, partial(matmul, 1, 1000, 512)),
)

# K. Simonyan, A. Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition (ICLR 2015), table 1,
# column D (15.47 GMAC).
_VGG16: tuple[Row, ...] = (
    ("conv1_1", 1, _same(3, 64, 224)),
    ("conv1_2", 1, _same(64, 64, 224)),
    ("conv2_1", 1, _same(64, 128, 112)),
    ("conv2_2", 1, _same(128, 128, 112)),
    ("conv3_1", 1, _same(128, 256, 56)),
    ("conv3_x", 2, _same(256, 256, 56)),
    ("conv4_1", 1, _same(256, 512, 28)),
    ("conv4_x", 2, _same(512, 512, 28)),
    ("conv5_x", 3, _same(512, 512, 14)),
    ("fc6", 1, partial(matmul, 1, 4096, 25088)),
    ("fc7", 1, partial(matmul, 1, 4096, 4096)),
    ("fc8", 1, partial(matmul, 1, 1000, 4096)),
)

# A. Krizhevsky: One weird trick for parallelizing convolutional neural networks (arXiv:1404.5997), as in torchvision's
# alexnet: one tower, no groups (0.714 GMAC). The two-tower network of 2012 differs in channels and groups.
_ALEXNET: tuple[Row, ...] = (
    ("conv1", 1, _conv(3, 64, 224, kernel=11, stride=4, padding=2)),
    ("conv2", 1, _conv(64, 192, 27, kernel=5, padding=2)),
    ("conv3", 1, _same(192, 384, 13)),
    ("conv4", 1, _same(384, 256, 13)),
    ("conv5", 1, _same(256, 256, 13)),
    ("fc6", 1, partial(matmul, 1, 4096, 9216)),
    ("fc7", 1, partial(matmul, 1, 4096, 4096)),
    ("fc8", 1, partial(matmul, 1, 1000, 4096)),
)

# M. Sandler et al.: MobileNetV2: Inverted Residuals and Linear Bottlenecks (CVPR 2018), table 2, width 1.0, 224x224
# (0.30 GMAC). The number is the bottleneck's row in that table (2 to 8); first is the first block of a row.
_MOBILENET_V2: tuple[Row, ...] = (
    ("conv1", 1, _same(3, 32, 224, stride=2)),
    ("block2_depthwise", 1, _depthwise(32, 112)),
    ("block2_project", 1, _conv(32, 16, 112)),
    ("block3_expand_first", 1, _conv(16, 96, 112)),
    ("block3_depthwise_first", 1, _depthwise(96, 112, stride=2)),
    ("block3_project_first", 1, _conv(96, 24, 56)),
    ("block3_expand", 2, _conv(24, 144, 56)),  # the second block, and the first of the next row
    ("block3_depthwise", 1, _depthwise(144, 56)),
    ("block3_project", 1, _conv(144, 24, 56)),
    ("block4_depthwise_first", 1, _depthwise(144, 56, stride=2)),
    ("block4_project_first", 1, _conv(144, 32, 28)),
    ("block4_expand", 3, _conv(32, 192, 28)),
    ("block4_depthwise", 2, _depthwise(192, 28)),
    ("block4_project", 2, _conv(192, 32, 28)),
    ("block5_depthwise_first", 1, _depthwise(192, 28, stride=2)),
    ("block5_project_first", 1, _conv(192, 64, 14)),
    ("block5_expand", 4, _conv(64, 384, 14)),
    ("block5_depthwise", 4, _depthwise(384, 14)),  # three blocks, and the first of the next row (stride 1)
    ("block5_project", 3, _conv(384, 64, 14)),
    ("block6_project_first", 1, _conv(384, 96, 14)),
    ("block6_expand", 3, _conv(96, 576, 14)),
    ("block6_depthwise", 2, _depthwise(576, 14)),
    ("block6_project", 2, _conv(576, 96, 14)),
    ("block7_depthwise_first", 1, _depthwise(576, 14, stride=2)),
    ("block7_project_first", 1, _conv(576, 160, 7)),
    ("block7_expand", 3, _conv(160, 960, 7)),
    ("block7_depthwise", 3, _depthwise(960, 7)),
    ("block7_project", 2, _conv(960, 160, 7)),
    ("block8_project", 1, _conv(960, 320, 7)),
    ("conv9", 1, _conv(320, 1280, 7)),
    ("fc", 1, partial(matmul, 1, 1000, 1280)),
)

# J. Devlin et al.: BERT: Pre-training of Deep Bidirectional Transformers (NAACL 2019), section 3: BERT-base has 12
# layers, hidden size 768, 12 heads, feed-forward size 3072. Sequence 512.
_BERT_BASE: tuple[Row, ...] = (
    (
        "projection",
        48,
        partial(matmul, 512, 768, 768),
    ),  # queries, keys, values and the attention's output, in each layer
    ("scores", 12, _heads(12, 512, 512, 64, transposed=True)),
    ("context", 12, _heads(12, 512, 64, 512)),
    ("ffn_up", 12, partial(matmul, 512, 3072, 768)),
    ("ffn_down", 12, partial(matmul, 512, 768, 3072)),
    ("pooler", 1, partial(matmul, 1, 768, 768)),
)

# A. Radford et al.: Language Models are Unsupervised Multitask Learners (2019), table 2, first row: 12 layers, width
# 768 (12 heads, vocabulary 50,257). Sequence 512; the scores are computed in full, without using the causal mask.
_GPT2: tuple[Row, ...] = (
    ("qkv", 12, partial(matmul, 512, 2304, 768)),
    ("scores", 12, _heads(12, 512, 512, 64, transposed=True)),
    ("context", 12, _heads(12, 512, 64, 512)),
    ("projection", 12, partial(matmul, 512, 768, 768)),
    ("mlp_up", 12, partial(matmul, 512, 3072, 768)),
    ("mlp_down", 12, partial(matmul, 512, 768, 3072)),
    ("lm_head", 1, partial(matmul, 512, 50257, 768)),
)

NETWORKS: dict[str, tuple[Row, ...]] = {
    "resnet50": _RESNET50,
    "resnet18": _RESNET18,
    "vgg16": _VGG16,
    "alexnet": _ALEXNET,
    "mobilenet_v2": _MOBILENET_V2,
    "bert_base": _BERT_BASE,
    "gpt2": _GPT2,
}


@answers_in_words
def builtin_names() -> tuple[str, ...]:
    """Return the names of all built-in workloads, network by network, layers in the network's order."""
    return tuple(f"{network}.{layer}" for network, rows in NETWORKS.items() for layer, _, _ in rows)


def builtin_networks() -> tuple[str, ...]:
    """Return the names of all built-in networks."""
    return tuple(NETWORKS)


def network_layers(network: str) -> tuple[tuple[str, int], ...]:
    """Return (name, how many layers of the network have this shape) of each workload of a network."""
    return tuple((f"{network}.{layer}", count) for layer, count, _ in NETWORKS[network])


@answers_in_words
def builtin_workload(name: str) -> Workload:
    """Return the built-in workload of that name, such as `resnet50.conv2_x` (WorkloadError if there is none)."""
    network, _, layer = expected_text(name, "the workload's name", WorkloadError).partition(".")
    for row, _, shape in NETWORKS.get(network, ()):
        if row == layer:
            return shape(name=name)
    names = builtin_names()
    inside = [known for known in names if known.startswith(f"{network}.")]
    hint = did_you_mean(name[:100], inside or (*names, *NETWORKS, *LAYERS))
    if not hint.startswith("Did"):
        hint = f"Networks: {', '.join(NETWORKS)}; `polymap list` shows every layer." if not inside else hint
    if name in NETWORKS:
        known = ", ".join(inside[:4])
        hint = f"It is a network: `polymap explore` and explore_network() take it. Its layers: {known}, ..."
    elif isdir(name):
        hint = f"It is a folder: name a file in it. {hint}"
    elif isfile(name):
        hint = f"The name of a file ends in .json, .c, .scop, .mlir or .onnx. {hint}"
    raise WorkloadError(Mistake("PM230", f"there is no built-in workload {shown(name)}", hint))
