"""Imported models: nodes mapped, views and unmapped, loop nests, multiply-accumulates beside another count of them.

The other count: of torch models half of what torch.utils.flop_counter counts, of ONNX models the sums by hand in
tests/extras/test_from_onnx.py. ResNet-50 from torch and from ONNX is asked for its least energy beside the built-in.
Needs torch and onnx (the environment of `make extras`).
Run: python benchmarks/imported_models.py [--arch ARCH] [--no-search]
"""

from __future__ import annotations

import argparse
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

NUMBERS = f"{'nodes':>6}{'mapped':>8}{'views':>7}{'unmapped':>10}{'nests':>7}{'distinct':>10}"
HEAD = f"{'model':22}{NUMBERS}{'MACs':>15}  equal  s"


def torch_models() -> Iterator[tuple[str, pm.Network, int, int, float]]:
    """Yield (name, network, nodes of the model, multiply-accumulates that torch counts, CPU seconds)."""
    for name, (model, inputs) in torch_zoo.cases().items():
        begun = time.process_time()
        net = pm.from_torch(model, inputs, bits=8)
        seconds = time.process_time() - begun
        calls = [node for node in torch.export.export(model, inputs).graph.nodes if node.op == "call_function"]
        with FlopCounterMode(display=False) as counter:
            model(*inputs)
        yield f"{name} (torch)", net, len(calls), counter.get_total_flops() // 2, seconds


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
    return f"{name:22}{counts}{net.macs:15,}  {equal:5}  {seconds:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="flat3")
    parser.add_argument("--no-search", action="store_true")
    options = parser.parse_args()
    print(HEAD)
    networks = {"built in": pm.network("resnet50")}
    for name, net, nodes, macs, seconds in (*torch_models(), *onnx_models()):
        print(row(name, net, nodes, macs, seconds), flush=True)
        for left in net.unmapped:
            print(f"    unmapped: {left.node} ({left.operator}): {left.reason}")
        if name.startswith("resnet50"):
            networks[name] = net.products()
    if options.no_search:
        return
    for name, net in networks.items():
        answer = pm.explore_network(net, options.arch, tiles="divide")
        print(
            f"{name:22} {options.arch}: {answer.value:,} pJ, {answer.status}, {len(net.layers)} distinct layers",
            flush=True,
        )


if __name__ == "__main__":
    main()
