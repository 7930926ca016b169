"""Attention, softmax, layer norm and GELU as one function each, beside numpy and, where it is installed, torch.

`python benchmarks/attention.py [--rounds N]`: processor time of one call on one thread, the least of the rounds, all
run in turns on the same arrays; the ratio is that of the fastest other to polymap's.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy loads it

import numpy as np

import polymap as pm

Call = Callable[[], object]
ATTENTIONS = {
    "12 x 128x128x64": (12, 128, 128, 64),
    "8 x 1024x1024x64": (8, 1024, 1024, 64),
    "2 x 2048x2048x128": (2, 2048, 2048, 128),
    "1 x 1x2048x64": (1, 1, 2048, 64),
    "12 x 1x2048x64": (12, 1, 2048, 64),
    "32 x 1x2048x128": (32, 1, 2048, 128),
    "64 x 1x2048x64": (64, 1, 2048, 64),
}
ROWS, WIDTH = 512, 768


def _torch() -> Any:
    try:
        found = importlib.import_module("torch")
    except ImportError:
        return None
    found.set_num_threads(1)
    found.set_grad_enabled(False)
    return found


def _softmax(x: Any) -> Any:
    e = x - x.max(-1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(-1, keepdims=True)
    return e


def _attention(name: str, torch: Any) -> tuple[str, Call, list[Call]]:
    heads, queries, keys, dim = ATTENTIONS[name]
    function = pm.compile(pm.attention(heads=heads, queries=queries, keys=keys, dim=dim, types="float32"))
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((heads, each, dim), dtype=np.float32) / 3 for each in (queries, keys, keys))
    out = function(q, k, v)
    others: list[Call] = [lambda: _softmax(q @ k.transpose(0, 2, 1)) @ v]
    if torch is not None:
        a, b, c = map(torch.from_numpy, (q, k, v))
        fused = torch.nn.functional.scaled_dot_product_attention
        others += [lambda: fused(a[None], b[None], c[None], scale=1.0)]
        others += [lambda: torch.softmax(a @ b.transpose(1, 2), -1) @ c]
    return f"attention {name}", lambda: function(q, k, v, out=out), others


def _of_rows(torch: Any) -> Iterator[tuple[str, Call, list[Call]]]:
    random = np.random.default_rng(0)
    x, g, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((ROWS, WIDTH), (WIDTH,), (WIDTH,)))
    sizes: dict[str, Any] = {"m": ROWS, "n": WIDTH, "types": "float32"}
    text = ["M[m] max= X[m,n]", "E[m,n] = exp(X[m,n] - M[m])", "S[m] += E[m,n]", "Y[m,n] = E[m,n] / S[m]"]
    softmax = pm.compile(pm.program(text, **sizes, temporary=["M", "E", "S"]))
    text = ["A[m] += X[m,n]", f"U[m] = A[m] / {WIDTH}", "D[m,n] = X[m,n] - U[m]", "B[m] += D[m,n] * D[m,n]"]
    text += [f"R[m] = sqrt(B[m] / {WIDTH} + 0.00001)", "Y[m,n] = D[m,n] / R[m] * G[n] + H[n]"]
    norm = pm.compile(pm.program(text, **sizes, temporary=["A", "U", "D", "B", "R"]))
    cube = "X[m,n] * X[m,n] * X[m,n]"
    gelu = pm.compile(
        pm.program([f"Y[m,n] = 0.5 * X[m,n] * (1.0 + tanh(0.7978845608 * (X[m,n] + 0.044715 * {cube})))"], **sizes)
    )
    out = softmax(x)

    def norm_of_numpy() -> object:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 0.00001) * g + b

    scale = np.float32(0.7978845608)
    others: list[list[Call]] = [[lambda: _softmax(x)], [norm_of_numpy]]
    others.append([lambda: 0.5 * x * (1 + np.tanh(scale * (x + np.float32(0.044715) * x * x * x)))])
    if torch is not None:
        a, c, d = map(torch.from_numpy, (x, g, b))
        others[0].append(lambda: torch.softmax(a, -1))
        others[1].append(lambda: torch.nn.functional.layer_norm(a, (WIDTH,), c, d))
        others[2].append(lambda: torch.nn.functional.gelu(a, approximate="tanh"))
    yield f"softmax {ROWS}x{WIDTH}", lambda: softmax(x, out=out), others[0]
    yield f"layer norm {ROWS}x{WIDTH}", lambda: norm(x, g, b, out=out), others[1]
    yield f"GELU {ROWS}x{WIDTH}", lambda: gelu(x, out=out), others[2]


def _least(calls: list[Call], rounds: int) -> list[float]:
    """Return the least processor time of each call, in milliseconds."""
    for each in calls:
        each()
    found = [1e9] * len(calls)
    for _ in range(rounds):
        for number, each in enumerate(calls):
            start = time.process_time()
            for _ in range(3):
                each()
            found[number] = min(found[number], (time.process_time() - start) / 3)
    return [1e3 * each for each in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds, torch = parser.parse_args().rounds, _torch()
    rows = [*(_attention(name, torch) for name in ATTENTIONS), *_of_rows(torch)]
    for name, own, others in rows:
        is_long = "1024x1024" in name or "2048x2048" in name
        mine, *rest = _least([own, *others], min(rounds, 10) if is_long else rounds)
        told = " ".join(f"{each:8.3f}" for each in rest)
        print(f"{name:28} polymap {mine:8.3f}  numpy, torch {told}  ratio {min(rest) / mine:.2f}", flush=True)


if __name__ == "__main__":
    main()
