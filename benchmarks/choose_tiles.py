"""Choosing tiles again and again, as a compiler does: CPU milliseconds per product, over shapes that all differ.

The first question of a process is left out (numpy and the search are loaded). No answer is kept between questions.
Run: python benchmarks/choose_tiles.py [--count N] [--machine NAME ...]
"""

from __future__ import annotations

import argparse
import random
import time

SIZES = (16, 24, 30, 32, 48, 60, 64, 96, 100, 120, 128, 192, 200, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)


def shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """Return different shapes of products."""
    rng = random.Random(seed)
    found: dict[tuple[int, int, int], None] = {}
    while len(found) < count:
        found[rng.choice(SIZES), rng.choice(SIZES), rng.choice(SIZES)] = None
    return list(found)


def main() -> None:
    """Print a line per machine."""
    import polymap as pm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", nargs="*", default=["flat3", "eyeriss_like"])
    options = parser.parse_args()
    for name in options.machine:
        arch = pm.load_arch(name)
        products = [
            pm.io.workload_from_document(
                {"name": "product", "einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": {"m": m, "n": n, "k": k}}
            )
            for m, n, k in shapes(options.count + 1, options.seed)
        ]
        pm.choose_tiles(products[0], arch)
        each: list[float] = []
        proven = 0
        for product in products[1:]:
            began = time.process_time()
            proven += pm.choose_tiles(product, arch).is_proven
            each.append((time.process_time() - began) * 1000)
        each.sort()
        mean, half, most = sum(each) / len(each), each[len(each) // 2], each[-1]
        print(
            f"{name:14} {len(each)} shapes, {proven} proven: {mean:.1f} ms each ({1000 / mean:.0f} a second), "
            f"median {half:.1f}, most {most:.1f}"
        )


if __name__ == "__main__":
    main()
