"""Imported models: nodes mapped, views and unmapped, loop nests, multiply-accumulates beside another count of them.

The other count: of torch models half of what torch.utils.flop_counter counts, of ONNX models the sums by hand in
tests/extras/test_from_onnx.py. ResNet-50 from torch and from ONNX is asked for its least energy beside the built-in.
With --zoo: models of torchvision and timm on the meta device instead, which need these packages.
Needs torch and onnx (the environment of `make extras`).
Run: python benchmarks/imported_models.py [--arch ARCH] [--no-search] [--zoo]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch.utils.flop_counter import FlopCounterMode

import polymap as pm
from tests.extras import torch_zoo
from tests.extras.test_from_onnx import MODELS

# Of torchvision, with the sizes of their inputs (batch and 3 channels left out), and of timm, whose models say theirs.
TORCHVISION = {
    **dict.fromkeys(
        (
            *("alexnet", "vgg16", "googlenet", "squeezenet1_1", "densenet121", "resnet50", "resnext50_32x4d"),
            *("wide_resnet50_2", "mnasnet1_0", "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_large"),
            *("efficientnet_b0", "efficientnet_v2_s", "convnext_tiny", "vit_b_16", "swin_t", "swin_v2_t", "maxvit_t"),
        ),
        (224, 224),
    ),
    "inception_v3": (299, 299),
    **dict.fromkeys(("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large"), (256, 256)),
    **dict.fromkeys(("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v2_s", "swin3d_t"), (16, 224, 224)),
}
TIMM = (
    *("beit_base_patch16_224", "cait_xxs24_224", "coat_tiny", "convformer_s18", "caformer_s18", "convit_tiny"),
    *("crossvit_9_240", "cspresnet50", "davit_tiny", "deit3_small_patch16_224", "dla34", "dpn68", "edgenext_small"),
    *("efficientformer_l1", "efficientvit_b0", "efficientvit_m0", "eva02_tiny_patch14_224", "fastvit_t8"),
    *("fbnetc_100", "focalnet_tiny_srf", "gcvit_xtiny", "gernet_s", "ghostnet_100", "hardcorenas_a", "hgnet_tiny"),
    *("hiera_tiny_224", "hrnet_w18", "inception_next_tiny", "inception_resnet_v2", "lambda_resnet26t", "lcnet_100"),
    *("levit_128", "maxvit_tiny_tf_224", "mixer_b16_224", "mixnet_s", "mobilenetv4_conv_small", "mobileone_s0"),
    *("mobilevit_s", "mobilevitv2_100", "mvitv2_tiny", "nasnetalarge", "nest_tiny", "nextvit_small", "nfnet_l0"),
    *("pit_ti_224", "pnasnet5large", "poolformer_s12", "pvt_v2_b0", "regnety_004", "repghostnet_100", "repvgg_a0"),
    *("res2net50_26w_4s", "resmlp_12_224", "resnest14d", "resnetv2_50", "rexnet_100", "selecsls42", "sequencer2d_s"),
    *("shvit_s1", "skresnet18", "starnet_s1", "swinv2_tiny_window8_256", "swiftformer_xs", "tiny_vit_5m_224"),
    *("tinynet_a", "tnt_s_patch16_224", "tresnet_m", "twins_svt_small", "vgg11", "visformer_tiny"),
    *("vit_base_patch16_224", "volo_d1_224", "xception41", "xcit_nano_12_p16_224", "halonet26t", "botnet26t_256"),
    *("eca_botnext26ts_256", "gmixer_24_224", "gmlp_s16_224", "vitamin_small_224", "test_vit", "mambaout_tiny"),
)

NUMBERS = f"{'nodes':>6}{'mapped':>8}{'views':>7}{'unmapped':>10}{'nests':>7}{'distinct':>10}"
HEAD = f"{'model':26}{NUMBERS}{'MACs':>15}  equal  s"


def torch_models() -> Iterator[tuple[str, pm.Network, int, int, float]]:
    """Yield (name, network, nodes of the model, multiply-accumulates that torch counts, CPU seconds)."""
    for name, (model, inputs) in torch_zoo.cases().items():
        yield counted(f"{name} (torch)", model, inputs)


def zoo_models() -> Iterator[tuple[str, pm.Network, int, int, float]]:
    """Yield the same of models of torchvision and timm."""
    timm, models = importlib.import_module("timm"), importlib.import_module("torchvision.models")
    for name, sizes in TORCHVISION.items():
        more: dict[str, Any] = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        more |= {"weights_backbone": None} if len(sizes) == 2 and sizes[0] == 256 else {}
        with torch.device("meta"):
            model = models.get_model(name, weights=None, **more).eval()
            yield counted(name, model, (torch.empty(1, 3, *sizes),))
    for name in TIMM:
        with torch.device("meta"):
            model = timm.create_model(name).eval()
            yield counted(name, model, (torch.empty(1, *model.default_cfg["input_size"]),))


def counted(name: str, model: Any, inputs: tuple[Any, ...]) -> tuple[str, pm.Network, int, int, float]:
    """Return a torch model's name, network, nodes, multiply-accumulates that torch counts, and CPU seconds."""
    begun = time.process_time()
    net = pm.from_torch(model, inputs, bits=8)
    seconds = time.process_time() - begun
    calls = [node for node in torch.export.export(model, inputs).graph.nodes if node.op == "call_function"]
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    return name, net, len(calls), counter.get_total_flops() // 2, seconds


def onnx_models() -> Iterator[tuple[str, pm.Network, int, int, float]]:
    """Yield the same of the ONNX models, which are written to files first; counts by hand."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (build, sizes, macs, _) in MODELS.items():
            model: Any = build()
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(model.SerializeToString())
            begun = time.process_time()
            net = pm.from_onnx(path, bits=8, sizes=sizes)
            yield f"{name} (ONNX)", net, len(model.graph.node), macs, time.process_time() - begun


def row(name: str, net: pm.Network, nodes: int, macs: int, seconds: float) -> str:
    """Return a line of the table."""
    views, unmapped = len(net.views), len(net.unmapped)
    nests = sum(layer.multiplicity for layer in net.layers)
    equal = "yes" if net.macs == macs else f"NO: {macs:,}"
    counts = f"{nodes:6}{nodes - views - unmapped:8}{views:7}{unmapped:10}{nests:7}{len(net.layers):10}"
    return f"{name:26}{counts}{net.macs:15,}  {equal:5}  {seconds:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="flat3")
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--zoo", action="store_true")
    options = parser.parse_args()
    print(HEAD)
    networks = {"built in": pm.network("resnet50")}
    for name, net, nodes, macs, seconds in zoo_models() if options.zoo else (*torch_models(), *onnx_models()):
        print(row(name, net, nodes, macs, seconds), flush=True)
        for left in net.unmapped:
            print(f"    unmapped: {left.node} ({left.operator}): {left.reason}")
        if name.startswith("resnet50"):
            networks[name] = net.products()
    if options.no_search or options.zoo:
        return
    for name, net in networks.items():
        answer = pm.explore_network(net, options.arch, tiles="divide")
        print(
            f"{name:26} {options.arch}: {answer.value:,} pJ, {answer.status}, {len(net.layers)} distinct layers",
            flush=True,
        )


if __name__ == "__main__":
    main()
