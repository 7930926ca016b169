"""Layers and products of random shapes beside torch (oneDNN) and numpy, a table by group.

`python benchmarks/drawn_shapes.py [SEED ...] [--rounds N] [--groups NHWC NCHW products columns einsums]`: for each seed
10 layers in NHWC, 8 in NCHW, 6 products, 8 products of one to three columns and 6 einsums. A row has microseconds of
polymap (weights packed ahead where they can be) and of the others, one thread, the least processor time of interleaved
samples, and the ratio of the fastest other. Values are compared with sums of doubles. torch's layers are modules on
its own layout, whose call takes 30 to 40 us, and modules on channels_last, of which the faster one counts.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy loads it

import numpy as np

import polymap as pm

torch: Any = importlib.import_module("torch")
mkldnn: Any = importlib.import_module("torch.utils.mkldnn")

Call = Callable[[], object]
Contest = tuple[Call, list[Call]]
CHANNELS = (8, 16, 24, 32, 40, 48, 64, 72, 96, 120, 128, 160, 192, 256)
SIDES = (7, 8, 10, 14, 16, 19, 20, 28, 32, 40, 56)
LENGTHS = (1, 2, 4, 7, 12, 31, 50, 64, 100, 128, 197, 256, 384, 500, 768, 1000)
EINSUMS = (
    ("O[b,m,n] += A[b,m,k] * B[b,k,n]", "bmk,bkn->bmn"),
    ("O[b,m,n] += A[b,m,k] * B[b,n,k]", "bmk,bnk->bmn"),
    ("O[m,n] += A[m,k,l] * B[l,k,n]", "mkl,lkn->mn"),
    ("O[m,n] += A[k,m] * B[k,n]", "km,kn->mn"),
    ("O[b,m,n] += A[b,m,k] * B[k,n]", "bmk,kn->bmn"),
    ("O[n,m] += A[m,k] * B[n,k]", "mk,nk->nm"),
)
MOST_PRODUCTS = 150e6  # of a layer: larger ones have a smaller image


def values(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return normal numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def layer(layout: str, k: int, c: int, side: int, taps: int, stride: int, groups: int) -> Contest:
    """Return the calls of a convolution with padding."""
    work = pm.conv2d(K=k, C=c, H=side, W=side, R=taps, S=taps, padding=taps // 2, stride=stride, groups=groups, bits=32)
    own = pm.compile(work, "host_cpu", layout=layout, threads=1)
    x, w = values(1, c, side, side), values(k, c // groups, taps, taps)
    modules = [torch.nn.Conv2d(c, k, taps, stride, taps // 2, groups=groups, bias=False) for _ in range(2)]
    for each in modules:
        each.weight.data = torch.from_numpy(w.copy())
    image = torch.from_numpy(x.copy())
    weights = torch.from_numpy(w.astype(np.float64))
    expected = torch.nn.functional.conv2d(image.double(), weights, None, stride, taps // 2, 1, groups).numpy()
    if layout == "NHWC":
        x, w = (np.ascontiguousarray(np.moveaxis(each, 1, 3)) for each in (x, w))
    given = own.pack_weights(w) if own.packed == "W" else w
    out = own(x, given)
    check(np.moveaxis(out, 3, 1) if layout == "NHWC" else out, expected, w[0].size)
    first, second = mkldnn.to_mkldnn(modules[0]), modules[1].to(memory_format=torch.channels_last)
    blocked, last = image.to_mkldnn(), image.to(memory_format=torch.channels_last)
    return lambda: own(x, given, out=out), [lambda: first(blocked), lambda: second(last)]


def contraction(text: str, subscripts: str, sizes: dict[str, int]) -> Contest:
    """Return the calls of a sum of products of two arrays."""
    own = pm.compile(pm.einsum(text, sizes=sizes, types="float32"), "host_cpu", threads=1)
    first, second = subscripts.split("->")[0].split(",")
    a, b = values(*(sizes[each] for each in first)), values(*(sizes[each] for each in second))
    out = own(a, b)
    terms = math.prod(size for dim, size in sizes.items() if dim not in subscripts.split("->")[1])
    check(out, np.einsum(subscripts, a.astype(np.float64), b.astype(np.float64), optimize=True), terms)
    one, two, path = torch.from_numpy(a), torch.from_numpy(b), np.einsum_path(subscripts, a, b)[0]
    others: list[Call] = [
        lambda: torch.einsum(subscripts, one, two),
        lambda: np.einsum(subscripts, a, b, optimize=path),
    ]
    turned = {"bmk,bkn->bmn": (a, b), "bmk,kn->bmn": (a, b), "mk,kn->mn": (a, b), "km,kn->mn": (a.T, b)}
    if subscripts == "bmk,bnk->bmn":
        turned[subscripts] = a, b.transpose(0, 2, 1)
    if subscripts in turned:
        left, right = turned[subscripts]
        others.append(lambda: np.matmul(left, right, out=out))
    if subscripts == "mk,kn->mn":
        result = torch.empty(sizes["m"], sizes["n"])
        others.append(lambda: torch.matmul(one, two, out=result))
    return lambda: own(a, b, out=out), others


def check(found: object, expected: object, terms: int) -> None:
    """Raise ValueError where values are farther from the sums of doubles than roundings take them."""
    if float(np.abs(np.asarray(found) - np.asarray(expected)).max()) > 1e-4 * math.sqrt(terms):
        raise ValueError("wrong values")


def drawn(seed: int) -> Iterator[tuple[str, str, Callable[[], Contest]]]:
    """Yield (group, name, what makes the calls)."""
    r = random.Random(seed)
    for layout, count in (("NHWC", 10), ("NCHW", 8)):
        for _ in range(count):
            taps, c, k = r.choice((1, 1, 3, 3, 5)), r.choice(CHANNELS), r.choice((*CHANNELS, 80, 112, 320))
            side, stride, kind, groups = r.choice(SIDES), r.choice((1, 1, 1, 2)), r.random(), 1
            if kind < 0.15:
                groups, k, taps = c, c, max(taps, 3)
            elif kind < 0.3:
                groups = r.choice((2, 4, 8, c // 4))
                k = c if groups == c // 4 else -(-k // groups) * groups
            while k * c // groups * (taps * side // stride) ** 2 > MOST_PRODUCTS:
                side //= 2
            shape = k, c, side, taps, stride, groups
            name = f"{taps}x{taps} of {c} to {k} at {side}, stride {stride}, groups {groups}"
            yield layout, name, lambda layout=layout, shape=shape: layer(layout, *shape)
    for group, count in (("products", 6), ("columns", 8)):
        for _ in range(count):
            m, n, k = (r.choice(LENGTHS) for _ in range(3))
            if group == "columns":
                m, n, k = (
                    round(math.exp(r.uniform(2.3, 8.5))),
                    r.choice((1, 1, 2, 3)),
                    round(math.exp(r.uniform(0.7, 5.7))),
                )
            sizes = {"m": m, "n": n, "k": k}
            yield group, f"{m}x{n}x{k}", lambda s=sizes: contraction("O[m,n] += A[m,k] * B[k,n]", "mk,kn->mn", s)
    for _ in range(6):
        text, subscripts = r.choice(EINSUMS)
        dims = dict.fromkeys(each for each in subscripts if each.isalpha())
        sizes = {d: r.choice((3, 6, 12) if d in "bl" else (10, 16, 33, 50, 64, 100, 128, 200)) for d in dims}
        name = f"{subscripts} {' '.join(f'{d}={size}' for d, size in sizes.items())}"
        yield "einsums", name, lambda t=text, s=subscripts, z=sizes: contraction(t, s, z)


def least(calls: list[Call], rounds: int) -> list[float]:
    """Return the least processor time of each call in microseconds, of samples of about a millisecond in turns."""
    found, repeats = [math.inf] * len(calls), list[int]()
    for call in calls:
        call()
        start = time.thread_time()
        call()
        repeats.append(max(1, round(1e-3 / max(1e-7, time.thread_time() - start))))
    for _ in range(rounds):
        for number, call in enumerate(calls):
            start = time.thread_time()
            for _ in range(repeats[number]):
                call()
            found[number] = min(found[number], 1e6 * (time.thread_time() - start) / repeats[number])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--groups", nargs="*", default=["NHWC", "NCHW", "products", "columns", "einsums"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    ratios: dict[str, list[tuple[float, str]]] = {}
    for seed in given.seeds:
        for group, name, contest in drawn(seed):
            if group not in given.groups:
                continue
            own, others = contest()
            mine, *rest = least([own, *others], given.rounds)
            ratios.setdefault(group, []).append((min(rest) / mine, name))
            told = " ".join(f"{each:9.2f}" for each in rest)
            print(f"{group:9} {name:55} {mine:9.2f} of {told}  ratio {min(rest) / mine:.2f}", flush=True)
    for group, found in ratios.items():
        mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        worst = "; ".join(f"{ratio:.2f} {name}" for ratio, name in sorted(found)[:5])
        print(f"{group}: {len(found)} shapes, geometric mean {mean:.2f}; the five least: {worst}")


if __name__ == "__main__":
    main()
