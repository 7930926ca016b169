"""Buffer curves of whole networks: how far the best mapping found is from what no loop tree can beat, size by size.

The machine is one buffer below DRAM, 8-bit words. Layers of one shape are asked once. A line per layer: gap at every
size (best mapping against the bound over all loop trees), and how often the best is proven best of all. At the end a
table: how many points there are, are within 5 % and proven, the largest gap and where, the median of convolutions wider
than 1x1, and CPU seconds. A LAYER "64-64" is a convolution of 64 to 64 channels, 3x3 on 16x16.
Run: python benchmarks/buffer_curves.py [--sizes WORDS ...] [--limit CPU_SECONDS per point] [LAYER ...]
(a LAYER is the beginning of a name)
"""

from __future__ import annotations

import argparse
import statistics
import time

PUBLISHED = "64-64"
NETWORKS = ("resnet50", "bert_base")
SIZES = tuple(64 * 4**n for n in range(6)) + tuple(128 * 4**n for n in range(6))


def distinct_layers(starts: list[str]) -> list[str]:
    """Return a layer of every shape."""
    import polymap as pm

    shapes: dict[str, str] = {}
    for name in pm.io.builtin_names():
        if name.split(".")[0] in NETWORKS and (not starts or name.startswith(tuple(starts))):
            document = pm.io.workload_to_document(pm.io.builtin_workload(name))
            shapes.setdefault(str({key: value for key, value in document.items() if key != "name"}), name)
    return sorted(shapes.values())


def workload_of(name: str):  # type: ignore[no-untyped-def]
    """Return a layer by its name."""
    import polymap as pm

    return pm.conv2d(K=64, C=64, H=16, W=16, R=3, S=3, padding=1) if name == PUBLISHED else pm.io.builtin_workload(name)


def main() -> None:
    """Print a line per layer."""
    import polymap as pm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=sorted(SIZES))
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("layers", nargs="*")
    options = parser.parse_args()
    options.sizes = sorted(set(options.sizes))
    buffer = {"level": "Buffer", "word_bits": 8, "capacity_bits": 8, "read_pj": 1, "write_pj": 1}
    dram = {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100}
    arch = pm.io.arch_from_document(
        {"name": "one_buffer", "nodes": [dram, buffer, {"compute": "MAC", "pj": 1, "per_cycle": 1}]}
    )
    sizes = [8 * words for words in options.sizes]
    print(f"{'layer':30} gap in % at {', '.join(map(str, options.sizes))} words; theorem's largest gap; proven; CPU s")
    began = time.process_time()
    every: list[tuple[float, str]] = []
    optimal = 0
    wide: list[float] = []
    names = [name for name in options.layers if name == PUBLISHED]
    if len(names) < len(options.layers) or not names:
        names += distinct_layers([name for name in options.layers if name != PUBLISHED])
    for name in names:
        first = time.process_time()
        asked, limit, clock = workload_of(name), options.limit * len(sizes), time.process_time
        curve = pm.study.buffer_curve(asked, arch, "Buffer", sizes, tiles="any", time_limit_s=limit, clock=clock)
        gaps = [100 * point.gap if point.gap is not None else 100.0 for point in curve.points]
        every += [(gap, f"{name} at {words} words") for gap, words in zip(gaps, options.sizes, strict=True)]
        wide += gaps if name.endswith(("_x", "conv1", "conv3_first", "conv4_first", "conv5_first", PUBLISHED)) else []
        theorem = [100 * (1 - point.schedule_bits / point.best_bits) for point in curve.points if point.best_bits]
        proven = sum(point.best_bits == point.bound_bits for point in curve.points)
        optimal += proven
        shown = " ".join(f"{gap:5.1f}" for gap in gaps)
        seconds = time.process_time() - first
        print(f"{name:30} {shown}; {max(theorem):.1f}; {proven} of {len(gaps)}; {seconds:.1f}", flush=True)
    gap, where = max(every)
    within, middle = sum(each <= 5 for each, _ in every), f"{statistics.median(wide):.2f}" if wide else "-"
    print("\n| points | within 5 % | proven | largest gap % | where | median of wide convolutions % | CPU s |")
    print("|---:|---:|---:|---:|---|---:|---:|")
    spent = f"{time.process_time() - began:.0f}"
    print(f"| {len(every)} | {within} | {optimal} | {gap:.1f} | {where} | {middle} | {spent} |")


if __name__ == "__main__":
    main()
