"""Programs of several nests: what is found and what is proven, `python -m benchmarks.chains [SECONDS] [NAME ...]`.

Known: the least values of fused trees in which results start at zero without being set (a search over the fused trees
of two products; ours, 2026). CPU seconds: until the answer. A NAME is the beginning of a case's or a machine's name;
SECONDS: CPU seconds for each case, 120 for whole blocks where none are given.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import polymap as pm
from polymap.explore import search
from polymap.ir import Architecture, MemoryLevel, Workload

PAIR = ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]")
TRIPLE = (*PAIR, "F[m,q] += E[m,p] * C[p,q]")
PRESETS = ("eyeriss_like", "simba_like", "tpu_like")
SOFTMAX = (
    "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
    "M[h,m] max= S[h,m,n]",
    "P[h,m,n] = S[h,m,n] - M[h,m]",  # exp of it costs the same here
    "L[h,m] += P[h,m,n]",
    "C[h,m,e] += P[h,m,n] * V[h,n,e]",
    "Z[h,m,e] = C[h,m,e] * L[h,m]",  # and so does a quotient
)


@dataclass(frozen=True, slots=True)
class Case:
    """A program on a machine, and the least value known (0: none)."""

    name: str
    program: Callable[[], Workload]
    arch: Architecture
    objective: str = "energy"
    known: int = 0
    tiles: str = "divide"
    seconds: float = 30


def one_buffer(words: int) -> Architecture:
    """Return a machine of one buffer of so many words of 8 bits."""
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * words, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.io.arch_from_document({"name": f"{words} words", "nodes": nodes})


def flat3(words: int) -> Architecture:
    """Return flat3 with a buffer of so many words."""
    flat = pm.load_arch("flat3")
    nodes = tuple(
        replace(each, capacity_bits=8 * words) if isinstance(each, MemoryLevel) and each.name == "GLB" else each
        for each in flat.nodes
    )
    return replace(flat, name=f"flat3 {words}", nodes=nodes)


def chain(*texts: str, temporary: str = "T", sizes: dict[str, int]) -> Callable[[], Workload]:
    """Return a program of 8-bit tensors, still to be made."""
    return lambda: pm.program(list(texts), sizes=sizes, temporary=list(temporary), bits=8)


def products(rows: int, *widths: int) -> dict[str, int]:
    """Return the sizes of a chain of products."""
    return dict(zip("mknpq", (rows, *widths), strict=False))


def small_cases() -> list[Case]:
    """Return products through one buffer and on flat3."""
    traffic, flat = "traffic:DRAM", pm.load_arch("flat3")
    cube, large = chain(*PAIR, sizes=products(64, 64, 64, 64)), chain(*PAIR, sizes=products(256, 256, 256, 256))
    three = chain(*TRIPLE, temporary="TE", sizes=products(128, 128, 128, 128, 128))
    pair, attention = chain(*PAIR, sizes=products(512, 32, 256, 32)), chain(*PAIR, sizes=products(512, 64, 512, 64))
    return [
        Case("64^3 twice", cube, one_buffer(73), traffic, 8 * 139_264, seconds=10),
        Case("64^3 twice", cube, one_buffer(1_000), traffic, seconds=10),
        Case("64^3 twice", cube, one_buffer(1_000), traffic, tiles="any", seconds=10),
        Case("256^3 twice", large, one_buffer(4_096), traffic, seconds=10),
        Case("128^3 three times", three, one_buffer(4_096), traffic, seconds=10),
        Case("pair 512 x 256 x 32", pair, flat, known=35_373_056, seconds=10),
        Case("pair 512 x 256 x 32", pair, flat3(16_384), known=38_731_776, seconds=10),  # T in all RF
        Case("attention 512 x 512 x 64", attention, flat, known=129_761_280, seconds=10),
        Case("pair, any tiles", pair, flat, known=35_373_056, tiles="any", seconds=10),
        Case("attention, any tiles", attention, flat, known=129_761_280, tiles="any", seconds=10),
        Case("attention, 512 x 64", attention, one_buffer(4_129), traffic, 8 * 1_114_112, "any", seconds=10),
        Case("attention, 512 x 64", attention, one_buffer(16_512), traffic, 8 * 393_216, "any", seconds=10),
    ]


def window_cases() -> list[Case]:
    """Return two blocks of MobileNetV2, without padding, through one buffer."""
    texts, sizes, size = list[str](), {"r": 3, "s": 3, "c0": 24}, 32
    for at, (made, result) in enumerate((("I", "J"), ("J", "O"))):
        rows = "y,x" if not at else "v0,w0"
        texts += [
            f"{'TU'[at]}[e{at},{rows}] += {made}[c{at},{rows}] * {'AB'[at]}[e{at},c{at}]",
            f"{'DE'[at]}[e{at},v{at},w{at}] += {'TU'[at]}[e{at},v{at}+r,w{at}+s] * {'KL'[at]}[e{at},r,s]",
            f"{result}[c{at + 1},v{at},w{at}] += {'DE'[at]}[e{at},v{at},w{at}] * {'PQ'[at]}[c{at + 1},e{at}]",
        ]
        sizes |= {f"e{at}": 192, f"c{at + 1}": 24, f"v{at}": size - 2, f"w{at}": size - 2}
        sizes |= {} if at else {"y": size, "x": size}
        size -= 2
    make = chain(*texts, temporary="TDJUE", sizes=sizes)
    rooms = (2_486, 4_957, 9_503, 18_695, 31_786, 37_749)
    return [Case("MobileNetV2 blocks", make, one_buffer(words), "traffic:DRAM") for words in rooms]


def preset_cases() -> list[Case]:
    """Return parts of networks on presets with arrays."""
    forward = ("U[m,f] += X[m,d] * W1[d,f]", "G[m,f] = max(U[m,f], 0)", "Y[m,d] += G[m,f] * W2[f,d]")
    twice = ("T[k,y,x] += I[c,y+r,x+s] * W[k,c,r,s]", "G[k,y,x] = max(T[k,y,x], 0)", "O[z,y,x] += G[k,y,x] * V[z,k]")
    wide = (*twice[:2], "O[z,v,w] += G[k,v+a,w+b] * V[z,k,a,b]")
    normal = (twice[0], "N[k,y,x] = T[k,y,x] * A[k] + B[k]", "G[k,y,x] = max(N[k,y,x], 0)")
    pooled = (*normal, "O[k,v,w] max= G[k,2*v+a,2*w+b]")
    split = ("T[c,y,x] += I[c,y+r,x+s] * W[c,r,s]", "G[c,y,x] = max(T[c,y,x], 0)", "O[k,y,x] += G[c,y,x] * V[k,c]")
    channels = {"k": 64, "c": 64, "r": 3, "s": 3, "y": 56, "x": 56}
    image = channels | {"z": 64}
    rows = {"c": 32, "k": 64, "r": 3, "s": 3, "y": 112, "x": 112}
    programs = {
        "attention of BERT-base": chain(*SOFTMAX, temporary="SMPLC", sizes={"h": 12, "m": 512, "n": 512, "e": 64}),
        "feed-forward of BERT-base": chain(*forward, temporary="UG", sizes={"m": 512, "d": 768, "f": 3072}),
        "conv-relu-conv 1x1": chain(*twice, temporary="TG", sizes=image),
        "conv-relu-conv 3x3": chain(*wide, temporary="TG", sizes=image | {"a": 3, "b": 3, "v": 54, "w": 54}),
        "conv-BN-ReLU-pool": chain(*pooled, temporary="TNG", sizes=channels | {"v": 28, "w": 28, "a": 2, "b": 2}),
        "depthwise-pointwise": chain(*split, temporary="TG", sizes=rows),
    }
    return [Case(name, make, pm.load_arch(arch)) for name, make in programs.items() for arch in PRESETS]


def block_cases() -> list[Case]:
    """Return transformer blocks of 2,048 tokens, and of one token beside keys and values of 2,048."""
    before = ("Q[h,m,e] += X[m,d] * WQ[h,d,e]", "K[h,n,e] += X[n,d] * WK[h,d,e]", "V[h,n,e] += X[n,d] * WV[h,d,e]")
    grouped = [text.replace("h,m", "h,g,m") for text in (*before[:1], *SOFTMAX)]
    grouped[0] = grouped[0].replace("WQ[h,", "WQ[h,g,")
    joined = "A[m,d] += Z[h,m,e] * WO[h,e,d]"
    plain = ("U[m,f] += A[m,d] * W1[d,f]", "G[m,f] = max(U[m,f], 0)", "Y[m,d] += G[m,f] * W2[f,d]")
    gated = (plain[0], "H[m,f] += A[m,d] * W3[d,f]", "G[m,f] = U[m,f] * H[m,f]", plain[2])
    gpt = [*before, *SOFTMAX, joined, *plain]
    after = [*grouped[1:], "A[m,d] += Z[h,g,m,e] * WO[h,g,e,d]", *gated]
    llama = [grouped[0], *before[1:], *after]
    decoded = [before[0], *SOFTMAX, joined, *plain]
    sizes = {"m": 2048, "n": 2048, "d": 4096, "e": 128}
    programs = {
        "GPT-3 6.7B block": chain(*gpt, temporary="QKVSMPLCZAUG", sizes=sizes | {"h": 32, "f": 16_384}),
        "GPT-3 6.7B decode": chain(*decoded, temporary="QSMPLCZAUG", sizes=sizes | {"m": 1, "h": 32, "f": 16_384}),
        "Llama-3-8B block": chain(*llama, temporary="QKVSMPLCZAUHG", sizes=sizes | {"h": 8, "g": 4, "f": 14_336}),
        "Llama-3-8B decode": chain(
            grouped[0], *after, temporary="QSMPLCZAUHG", sizes=sizes | {"m": 1, "h": 8, "g": 4, "f": 14_336}
        ),
    }
    asked = [("tpu_like", one) for one in ("energy", "latency", "edp", "traffic:DRAM")]
    asked += [("tpu_v4i_like", one) for one in ("energy", "latency", "edp", "traffic:HBM")]
    return [
        Case(name, make, pm.load_arch(on), one, seconds=120) for name, make in programs.items() for on, one in asked
    ]


def asked() -> argparse.Namespace:
    """Return what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="SECONDS NAME", help="CPU seconds for each case; beginnings of names"
    )
    return parser.parse_args()


def main() -> None:
    """Print a row for each case."""
    words = asked().words
    seconds = float(words.pop(0)) if words and words[0].replace(".", "").isdigit() else None
    cases = (*small_cases(), *window_cases(), *preset_cases(), *block_cases())
    names = {name for case in cases for name in (case.name, case.arch.name)}
    if unknown := [word for word in words if not any(name.startswith(word) for name in names)]:
        sys.exit(f"no case or machine begins with {', '.join(unknown)}; there are: {', '.join(sorted(names))}")
    heads = f"{'value':>19} {'bound':>19} {'gap':>7} {'known':>7} {'CPU s':>6}  status"
    print(f"{'program':26} {'machine':13} {'asked':12} {'tiles':6} {heads}")
    for case in cases:
        if words and not any(case.name.startswith(word) or case.arch.name.startswith(word) for word in words):
            continue
        began, limit = time.process_time(), seconds or case.seconds
        found = search(
            case.program(), case.arch, case.objective, case.tiles, time_limit_s=limit, clock=time.process_time
        )
        spent = time.process_time() - began
        value, bound = float(found.value or 0), float(found.bound or 0)
        known = f"{value / case.known:7.3f}" if case.known else f"{'-':>7}"
        row = f"{case.name:26} {case.arch.name:13} {case.objective:12} {case.tiles:6} {value:19,.0f} {bound:19,.0f}"
        print(f"{row} {100 * (1 - bound / value):6.2f}% {known} {spent:6.1f}  {found.status}", flush=True)


if __name__ == "__main__":
    main()
