"""By how much searches overshoot their time limit: limit, wall and CPU seconds of each, on layers and all presets.

A search may use at most max(1 s, 5 %) of CPU after its limit ("late"; a busy machine makes wall seconds longer).
Run it: python benchmarks/limits.py [LIMIT ...] [--only TEXT]; TEXT is part of a line's name, "vgg_conv3 flat3 edp any".
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from threading import Event, Thread, get_ident

import polymap as pm

CASES = {
    "vgg_conv1_2": pm.conv2d(K=64, C=64, H=224, W=224, R=3, S=3, padding=1),
    "vgg_conv3": pm.conv2d(K=256, C=256, H=56, W=56, R=3, S=3, padding=1),
    "vgg_conv5": pm.conv2d(K=512, C=512, H=14, W=14, R=3, S=3, padding=1),
    "resnet_conv1": pm.conv2d(K=64, C=3, H=224, W=224, R=7, S=7, stride=2, padding=3),
    "mobilenet_depthwise": pm.einsum("O[c,p,q] += I[c,p+r,q+s] * W[c,r,s]", c=512, p=14, q=14, r=3, s=3),
    "gemm_4096": pm.matmul(m=4096, n=4096, k=4096),
}


def late_frames(limit_s: float, done: Event, thread: int) -> tuple[float, Counter[str]]:
    """Return the CPU clock at the limit, and how often polymap was where in samples of the stack after it."""
    seen: Counter[str] = Counter()
    done.wait(limit_s)
    begin = time.process_time()
    while not done.wait(0.05):
        frame = sys._current_frames().get(thread)  # the way to sample a stack
        if frame is not None:
            own = [f for f in traceback.extract_stack(frame) if "/polymap/" in f.filename]
            seen[" < ".join(f"{f.name}:{f.lineno}" for f in own[:-6:-1])] += 1
    return begin, seen


def row(name: str, limit_s: float, objective: str, tiles: str) -> tuple[float, str]:
    case, machine = name.split()
    done, seen = Event(), [(0.0, Counter[str]())]
    caller = get_ident()
    sampler = Thread(target=lambda: seen.__setitem__(0, late_frames(limit_s, done, caller)))
    wall, cpu = time.monotonic(), time.process_time()
    sampler.start()
    found = pm.explore(CASES[case], pm.load_arch(machine), objective, tiles=tiles, time_limit_s=limit_s)
    ended = time.process_time()
    wall, cpu = time.monotonic() - wall, ended - cpu
    done.set()
    sampler.join()
    begin, frames = seen[0]
    late = max(0.0, ended - begin)
    over = late - max(1.0, 0.05 * limit_s)
    worst = "" if over <= 0 else f"  OVER at {frames.most_common(2)}"
    gap = "" if found.gap is None else f"{100 * found.gap:.1f} %"
    line = f"{name:34} {objective:8} {tiles:7} {limit_s:5.0f} {wall:7.2f} {cpu:7.2f} {late:6.2f}"
    return over, f"{line} {found.status:10} {gap:>8}{worst}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("limits", nargs="*", type=float)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    print(f"{'case':34} {'goal':8} {'tiles':7} limit    wall     CPU   late status")
    overs = 0
    names = [f"{case} {machine}" for case in CASES for machine in pm.io.preset_names()]
    for name in names:
        for objective in ("energy", "latency", "edp"):
            for tiles in ("divide", "any"):
                if asked.only not in f"{name} {objective} {tiles}":
                    continue
                for limit in asked.limits or [1.0, 5.0]:
                    over, line = row(name, limit, objective, tiles)
                    overs += over > 0
                    print(line, flush=True)
    print(f"{overs} of them overshoot by more than max(1 s, 5 %) of CPU time")


if __name__ == "__main__":
    main()
