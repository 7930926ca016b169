"""Models of Hugging Face's transformers on the meta device: multiply-accumulates are those of torch's flop counter."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import polymap as pm

TWO = {"num_hidden_layers": 2}
# name -> (sizes of its configuration, operators without a workload)
TEXT: dict[str, tuple[dict[str, int], list[str]]] = {
    "Bert": (TWO, []),
    "Roberta": (TWO, ["cumsum", "gather"]),
    "DistilBert": ({"n_layers": 2}, []),
    "OPT": (TWO, ["cumsum"]),
    "Electra": (TWO, []),
    "Albert": (TWO, []),
    "MPNet": (TWO, ["cumsum"]),
    "XLMRoberta": (TWO, ["cumsum", "gather"]),
    "Camembert": (TWO, ["cumsum", "gather"]),
    "Bloom": ({"n_layer": 2, "hidden_size": 64}, []),
    "FNet": (TWO, ["fft_fftn"]),
    "Mamba": (TWO, []),
    "Ernie": (TWO, []),
    "MobileBert": (TWO, []),
}
IMAGES: dict[str, tuple[dict[str, int], list[str]]] = {
    "ViT": (TWO, []),
    "DeiT": (TWO, []),
    "Swin": ({}, []),
    "Swinv2": ({}, []),
    "ConvNext": ({}, []),
    "ConvNextV2": ({}, []),
    "ResNet": ({}, []),
    "RegNet": ({}, []),
    "MobileNetV1": ({}, []),
    "MobileNetV2": ({}, []),
    "EfficientNet": ({}, []),
    "Beit": (TWO, []),
    "Dinov2": (TWO, []),
    "PoolFormer": ({}, []),
    "Cvt": ({}, []),
    "Segformer": ({}, []),
    "Pvt": ({}, ["upsample_bilinear2d"]),
    "PvtV2": ({}, []),
    "Levit": ({}, []),
    "ViTMSN": (TWO, []),
    "Data2VecVision": (TWO, []),
    "IJepa": (TWO, []),
    "Bit": ({}, []),
    "FocalNet": ({}, []),
    "Hiera": ({}, ["max"]),
    "VitDet": (TWO, []),
    "Dinov2WithRegisters": (TWO, []),
}


@pytest.mark.parametrize("name", [*TEXT, *IMAGES])
def test_multiply_accumulates_are_those_of_the_flop_counter(name: str) -> None:
    sizes, unmapped = (TEXT | IMAGES)[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    with torch.device("meta"):
        model = getattr(transformers, f"{name}Model")(config).eval()
        given = (torch.zeros(1, 32, dtype=torch.long),) if name in TEXT else (torch.empty(1, 3, 224, 224),)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*given)
    net = pm.from_torch(model, given)
    assert net.macs == counter.get_total_flops() // 2 > 0, name
    assert sorted({operator for _, operator, _ in net.unmapped}) == unmapped
