"""How benchmarks/code.py talks to a contestant, a process of its own: one line of JSON in, one line out.

{"layer": NAME, "layout": L, "threads": N} -> {"variants": [name, ...], "check": {name: sums of its output}}
                                              or {"error": text}
{"seconds": S, "clock": "wall" or "cpu"} -> {name: [seconds of one call, ...]}, each variant called for about S seconds
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from layers import LAYERS, Layer, Product

Calls = dict[str, Callable[[], Any]]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
Prepare = Callable[[Layer | Product, str, int], Calls]


def serve(prepare: Prepare) -> None:
    """Answer until stdin ends. One call's output, as numpy sees it in the layout, is checked against the others'."""
    calls: Calls = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "layer" in asked:
            try:
                calls = prepare(LAYERS[asked["layer"]], asked["layout"], asked["threads"])
                answer: Any = {"variants": list(calls), "check": {name: _sums(call()) for name, call in calls.items()}}
            except Exception as error:  # noqa: BLE001 - a contestant without this layer is left out, with its reason
                calls, answer = {}, {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        else:
            answer = {name: _samples(call, asked["seconds"], CLOCKS[asked["clock"]]) for name, call in calls.items()}
        print(json.dumps(answer), flush=True)


def _sums(y: Any) -> list[float]:
    """Return sums that every order of the axes but no wrong result leaves alone (to rounding)."""
    values = np.asarray(y, np.float64)
    return [float(values.sum()), float((values * values).sum())]


def _samples(call: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> list[float]:
    found: list[float] = []
    call()
    end = time.perf_counter() + seconds
    while True:
        start = clock()
        call()
        found.append(clock() - start)
        if time.perf_counter() > end:
            return found
