"""A small convolution, a small matrix product and their mappings, costed by the simulator, for the tests of reports."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

from polymap.costmodel.assembly import assemble, capacity_violations
from polymap.costmodel.cost import Cost
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.report.figures.svg import text_width
from polymap.workload.einsums import einsum

CONVOLUTION = einsum("O[m,h,w] += I[h+r,w+s] * W[m,r,s]", m=4, h=3, w=4, r=3, s=2, bits=32, name="small convolution")
PRODUCT = einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=4, k=6, bits={"A": 8, "B": 8, "C": 16}, name="small product")
TUTORIAL, FLAT = load_arch("tutorial3"), load_arch("flat3")


@cache
def cost_of(workload: Workload, arch: Architecture, mapping: Mapping) -> Cost:
    counts = count_by_simulation(workload, arch, mapping)
    return assemble(workload, arch, counts, capacity_violations(arch, counts), "simulation")


def nest(text: str, statement: str = "S") -> Mapping:
    """Return the tree of words: "k4" a loop of tile 4, "m2@X" a parallel one, "GLB:A,B" a storage node."""
    nodes: list[MappingNode] = []
    for word in text.split():
        head, _, rest = word.partition(":")
        loop, _, fanout = word.partition("@")
        if rest:
            nodes.append(Storage(head, tuple(rest.split(","))))
        elif fanout:
            nodes.append(Spatial(loop[0], int(loop[1:]), fanout))
        else:
            nodes.append(Temporal(word[0], int(word[1:])))
    return Mapping((*nodes, Compute(statement)))


REGISTERS = "WREG:W IREG:I OREG:O"
WEIGHTS_STAY = nest(f"m1 r1 s1 h1 w1 {REGISTERS}")
OUTPUTS_STAY = nest(f"h1 w1 m1 r1 s1 {REGISTERS}")
SPREAD = nest("k3 GLB:A,C n2 GLB:B k1 m1@X n1@Y RF:A,B,C")


class Words(NamedTuple):
    """A text of a picture, from left to right by the estimate of its width."""

    words: str
    left: float
    right: float
    base: float
    size: float


def words_of(picture: str) -> tuple[list[Words], float, float]:
    """Return the texts of a picture, its width and its height."""
    root = ElementTree.fromstring(picture)
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    found: list[Words] = []
    for each in root.iter("{http://www.w3.org/2000/svg}text"):
        size, told = float(each.attrib["font-size"]), each.text or ""
        room = text_width(told, size, mono="font-family" in each.attrib) * 0.95
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[each.attrib.get("text-anchor", "start")]
        left = float(each.attrib["x"]) - share * room
        found.append(Words(told, left, left + room, float(each.attrib["y"]), size))
    return found, width, height


def assert_inside(picture: str) -> None:
    """Hold every text to the view box by the estimate of its width."""
    found, width, height = words_of(picture)
    for each in found:
        assert each.left >= -1, each.words
        assert each.right <= width + 1, each.words
        assert 0 < each.base < height, each.words


def assert_apart(picture: str) -> None:
    """Hold texts apart: of two, at most a little of the shorter one may be covered by the estimate of its width."""
    for one, other in combinations(words_of(picture)[0], 2):
        across = min(one.right, other.right) - max(one.left, other.left)
        down = min(one.base + 0.2 * one.size, other.base + 0.2 * other.size)
        down -= max(one.base - 0.75 * one.size, other.base - 0.75 * other.size)
        touching = across > 2 + 0.15 * min(one.right - one.left, other.right - other.left) and down > 1.5
        assert not touching, (one.words, other.words)
