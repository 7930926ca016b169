"""Machines with long numbers and many fan-outs, and what a case costs, computed from docs/counting.md."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

from polymap.costmodel.counts import Counts
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, Hops, MemoryLevel, Node
from tests import cases


def wide_machine(rng: random.Random) -> Architecture:
    """Return one to three levels below DRAM with up to five fan-outs, of every policy, anywhere between and below."""
    nodes: list[Node] = [cases._level(rng, "DRAM", outermost=True)]
    fanouts = iter("XYZUV")
    for name in ["L1", "L2", "L3"][: rng.choice((1, 1, 2, 2, 3))]:
        nodes += cases._fanouts(rng, fanouts, (0, 1, 2, 3))
        nodes.append(cases._level(rng, name))
    nodes += cases._fanouts(rng, fanouts, (0, 0, 1, 2))
    return Architecture("wide", (*nodes, ComputeUnit("MAC", Fraction(1), rng.choice((1, 1, 2)))), rng.random() < 0.7)


def with_long_numbers(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with energies of 1 to 9 digits and, where it has bandwidths, any rationals for them."""
    return replace(arch, nodes=tuple(_lengthened(rng, node) for node in arch.nodes))


def _lengthened(rng: random.Random, node: Node) -> Node:
    if isinstance(node, Fanout):
        return node
    if isinstance(node, ComputeUnit):
        return replace(node, pj=_decimal(rng))
    longer = replace(node, read_pj=_decimal(rng), write_pj=_decimal(rng), word_bits=rng.choice((1, 3, 8, 24, 64)))
    if node.leak_pj_per_cycle:
        longer = replace(longer, leak_pj_per_cycle=_decimal(rng))
    names = ("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle")
    given = {name: Fraction(rng.randrange(1, 10**4), rng.choice((1, 3, 7, 997))) for name in names}
    return replace(longer, **{name: given[name] for name in names if getattr(node, name) is not None})


def _decimal(rng: random.Random) -> Fraction:
    digits = rng.randrange(1, 10)
    return Fraction(rng.randrange(10**digits), 10 ** rng.randrange(digits + 1))


def cost_of(workload: Workload, arch: Architecture, counts: Counts) -> tuple[float, int]:
    """Return energy in pJ (exact, rounded once) and latency in cycles of what was counted."""
    bits = {tensor.name: tensor.bits for tensor in workload.tensors}
    levels = {level.name: level for level in arch.levels}
    cycles = [Fraction(-(-counts.steps // arch.compute.per_cycle))] + [
        _transfer(levels[use.level], use.busiest_read_bits, use.busiest_write_bits, use.busiest_total_bits)
        for use in counts.uses
    ]
    latency = math.ceil(max(cycles) if arch.overlap else sum(cycles))
    energy = counts.instances * arch.compute.pj + latency * sum(level.leak_pj_per_cycle for level in arch.levels)
    for row in counts.traffic:
        level = levels[row.level]
        words = Fraction(bits[row.tensor], level.word_bits)
        energy += words * (row.reads * level.read_pj + row.writes * level.write_pj)
    return float(energy), latency


def _transfer(level: MemoryLevel, read_bits: int, written_bits: int, all_bits: int) -> Fraction:
    """Return the cycles of the slowest of what the level's bandwidths limit: all bits, those read, those written."""
    shares = (
        (all_bits, level.bandwidth_bits_per_cycle),
        (read_bits, level.read_bandwidth_bits_per_cycle),
        (written_bits, level.write_bandwidth_bits_per_cycle),
    )
    return max((bits / bandwidth for bits, bandwidth in shares if bandwidth is not None), default=Fraction(0))


def with_wires(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with energies on some of its fan-outs, of both kinds of hops: of any size, or near those of
    levels, so that neither decides alone."""
    near = rng.random() < 0.6

    def wired(node: Node) -> Node:
        if not isinstance(node, Fanout) or rng.random() < 0.2:
            return node
        one, two, three = (_price(rng, near=near) if rng.random() < 0.7 else Fraction(0) for _ in range(3))
        return replace(node, pj_per_word=one, pj_per_word_hop=two, reduce_pj=three, hops=rng.choice(list(Hops)))

    return replace(arch, nodes=tuple(wired(node) for node in arch.nodes))


def _price(rng: random.Random, *, near: bool) -> Fraction:
    """Return an energy of one to nine digits; near: from 0.01 to 20 pJ."""
    if not near:
        return _decimal(rng)
    return round(Fraction(rng.randrange(1, 20 * 10**8), 10**8), rng.choice((1, 2, 3, 8))) or Fraction(1, 100)


def with_open_levels(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with nothing that some of the levels below the outermost must hold or may not: each tensor may
    bypass them."""
    nodes = list(arch.nodes)
    for place, node in enumerate(nodes):
        if place and isinstance(node, MemoryLevel) and rng.random() < 0.7:
            nodes[place] = replace(node, holds=None, must_hold=())
    return replace(arch, nodes=tuple(nodes))
