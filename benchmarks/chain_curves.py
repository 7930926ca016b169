"""Products in a row through one buffer of every size, `python -m benchmarks.chain_curves [SIZES]`: fused trees against
nest after nest. saving: the largest against nest after nest, over the sizes.

SIZES: of the buffer, between 3 words and all that a chain touches, 50 where none are given.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np

import polymap as pm
from benchmarks.chains import one_buffer
from polymap.ir import Workload

CHAINS = {
    "two of 64^3": (64, (64, 64, 64)),
    "two of 256^3": (256, (256, 256, 256)),
    "three of 128^3": (128, (128, 128, 128, 128)),
    "attention without softmax, 512 x 64": (512, (64, 512, 64)),
    "attention without softmax, 2,048 x 64": (2048, (64, 2048, 64)),
    "feed-forward, 128 x 768 x 3,072": (128, (768, 3072, 768)),
    "eight of 64^3": (64, (64,) * 9),
}


def program(rows: int, widths: tuple[int, ...]) -> Workload:
    """Return products in a row, of words of 8 bits."""
    names = [f"R{number}" for number in range(len(widths))]
    axes = "abcdefghi"
    texts = [
        f"{after}[m,{end}] += {before}[m,{begin}] * W{number}[{begin},{end}]"
        for number, ((before, after), (begin, end)) in enumerate(zip(pairwise(names), pairwise(axes), strict=False))
    ]
    sizes = dict(zip("m" + axes, (rows, *widths), strict=False))
    return pm.program(texts, sizes=sizes, temporary=names[1:-1], bits=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="?", default=50, help="buffer sizes of each chain (50)")
    many = parser.parse_args().sizes
    print("| chain | sizes | proven among chains | largest gap to the bound of all trees | saving | CPU s |")
    print("|---|---|---|---|---|---|")
    for name, (rows, widths) in CHAINS.items():
        touched = rows * sum(widths) + sum(a * b for a, b in pairwise(widths))
        sizes = sorted({8 * int(words) for words in np.geomspace(3, touched, many)})
        begin = time.process_time()
        curve = pm.study.buffer_curve(program(rows, widths), one_buffer(3), "GLB", sizes, tiles="any", time_limit_s=120)
        seconds = time.process_time() - begin
        found = [point for point in curve.points if point.best_bits]
        gaps = [1 - point.bound_bits / (point.best_bits or 1) for point in found]
        saved = [
            1 - (point.best_bits or 0) / (apart.best_bits or 1)
            for point, apart in zip(curve.points, curve.unfused, strict=True)
        ]
        proven = sum(point.status.startswith("OPTIMAL") for point in found)
        print(f"| {name} | {len(found)} | {proven} | {max(gaps):.2%} | {max(saved):.0%} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
