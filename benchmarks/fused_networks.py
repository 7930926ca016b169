"""Neighbours of a network as one program, beside each of them alone: `python -m benchmarks.fused_networks [SECONDS]`.

Energy, tiles that divide, 8 bits. apart: the sum of the layers' answers; together: the network's answer, with its gap
to the bound; stays: how many of the results that pass between nodes stay on chip. SECONDS: for each program (60); CPU
seconds: of all of it.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import polymap as pm
from polymap.importers.calls import Call
from polymap.importers.operators import parts_of
from polymap.networks import Feed, MappedNode, Network, Part, network_of_nodes

ARCHES = ("flat3", "eyeriss_like", "simba_like")


def called(operator: str, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]) -> tuple[Part, ...]:
    """Return the loop nests of an operator."""
    return parts_of(Call(operator, inputs, output, bits=8))


def chain(name: str, steps: list[tuple[str, tuple[Part, ...], str]]) -> Network:
    """Return nodes of which each writes an operand (the last of its tuple) of the next."""
    nodes = [MappedNode(node, node, parts) for node, parts, _ in steps]
    feeds = [Feed(one, two, tensor) for (one, *_), (two, _, tensor) in pairwise(steps)]
    return network_of_nodes(name, nodes, edges=[(feed.producer, feed.consumer) for feed in feeds], feeds=feeds)


def convolution(k: int, c: int, size: int, taps: int, groups: int = 1) -> tuple[Part, ...]:
    """Return a convolution without padding."""
    return (Part(pm.conv2d(K=k, C=c, H=size, W=size, R=taps, S=taps, groups=groups), is_product=True),)


def networks() -> list[Network]:
    """Return a feed-forward, an attention, a separable convolution and an inverted bottleneck."""
    rows, wide, inner = 512, 768, 3072
    heads = ((1, 12, 512, 64),) * 3
    image = (1, 144, 58, 58)
    return [
        chain(
            "feed-forward 512 x 768",
            [
                ("up", called("linear", ((1, rows, wide), (inner, wide)), (1, rows, inner)), "A"),
                ("gelu", called("gelu", ((1, rows, inner),), (1, rows, inner)), "A"),
                ("down", called("linear", ((1, rows, inner), (wide, inner)), (1, rows, wide)), "A"),
            ],
        ),
        chain("attention 12 x 512 x 64", [("attend", called("attention", heads, heads[0]), "Q")]),
        chain(
            "separable 112 x 112",
            [
                ("depthwise", convolution(32, 32, 114, 3, 32), "I"),
                ("relu", called("relu", ((1, 32, 112, 112),), (1, 32, 112, 112)), "A"),
                ("pointwise", convolution(64, 32, 112, 1), "I"),
            ],
        ),
        chain(
            "bottleneck 24-144-24",
            [
                ("expand", convolution(144, 24, 58, 1), "I"),
                ("relu", called("relu6", (image,), image), "A"),
                ("depthwise", convolution(144, 144, 58, 3, 144), "I"),
                ("relu_2", called("relu6", ((1, 144, 56, 56),), (1, 144, 56, 56)), "A"),
                ("project", convolution(24, 144, 56, 1), "I"),
            ],
        ),
    ]


def main() -> None:
    """Print a row for each network and machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="CPU seconds for each program (60)")
    seconds = parser.parse_args().seconds
    print(f"{'network':24} {'machine':13} {'apart, pJ':>16} {'together':>16} {'ratio':>6} {'gap':>6}  stays  CPU s")
    for net in networks():
        for arch in ARCHES:
            begun = time.process_time()
            found = pm.explore_network(net, arch, tiles="divide", time_limit_s=seconds, fuse=True)
            spent = time.process_time() - begun
            apart, together = float(found.unfused or 0), float(found.exact or 0)
            stays = f"{sum(bool(each.level) for each in found.passing)}/{len(found.passing)}"
            row = f"{net.name:24} {arch:13} {apart:16,.0f} {together:16,.0f} {together / apart:6.3f}"
            print(f"{row} {100 * (found.gap or 0):5.1f}%  {stays:>5} {spent:6.1f}", flush=True)


if __name__ == "__main__":
    main()
