"""What fusing the nests of well-known programs saves, beside hand-derived numbers.

    python benchmarks/fusion.py [CASE ...]

Per case, on a machine of DRAM and one buffer of float32 words: elements that DRAM moves nest after nest and in the best
tree found, by hand and by `pm.study.fusion`. By hand: what is read is read once and what is written is written once;
nest after nest, every intermediate that does not fit is written once and read by each nest that needs it. Then the four
schedules of Halide's blur (J. Ragan-Kelley et al., PLDI 2013), each a text and a tree of its own: how often the first
stage is evaluated, what DRAM moves and what the buffer holds. Exits with 1 where a number is not the one by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import polymap as pm
from polymap.ir import Branch, Compute, MappingNode, Storage, Temporal

WORK = 400  # shapes that a search looks at
RELU_CHAIN = ("R[i,j] = max(X[i,j], 0.0)", "S[i,j] = R[i,j] * 2.0", "Y[i,j] = S[i,j] + 1.0")
ATTENTION = (
    "S[m,n] += Q[m,k] * K[n,k]",
    "R[m] = -100.0",
    "R[m] max= S[m,n]",
    "P[m,n] = exp(S[m,n] - R[m])",
    "L[m] += P[m,n]",
    "O[m,d] += P[m,n] * V[n,d]",
    "Y[m,d] = O[m,d] / L[m]",
)


@dataclass(frozen=True)
class Case:
    """words: of the buffer. fused: elements that DRAM moves in the best tree; intermediate: how many more nest after
    nest. at_most: it may be fewer, where some of them fit."""

    stages: tuple[str, ...]
    sizes: Mapping[str, int]
    temporary: tuple[str, ...]
    words: int
    fused: int
    intermediate: int
    at_most: bool = False
    work: int = WORK

    def workload(self) -> pm.Workload:
        return pm.program(list(self.stages), sizes=dict(self.sizes), types="float32", temporary=list(self.temporary))


CASES = {
    "relu, scale, shift": Case(RELU_CHAIN, {"i": 12, "j": 12}, ("R", "S"), 16, 2 * 144, 4 * 144),
    "product, relu": Case(
        ("C[m,n] += A[m,k] * B[k,n]", "D[m,n] = max(C[m,n], 0.0)"),
        {"m": 8, "n": 8, "k": 4},
        ("C",),
        4 * 8 + 8,  # B and a row of A; not C with its 64
        8 * 4 + 4 * 8 + 8 * 8,
        2 * 8 * 8,
    ),
    "convolution, scale and shift, relu": Case(
        (
            "C[k,p,q] += X[c,p+r,q+s] * W[k,c,r,s]",
            "N[k,p,q] = C[k,p,q] * g[k] + b[k]",
            "Y[k,p,q] = max(N[k,p,q], 0.0)",
        ),
        {"k": 2, "p": 8, "q": 8, "c": 1, "r": 3, "s": 3},
        ("C", "N"),
        56,  # W, three lines of X; neither C nor N with its 128
        10 * 10 + 18 + 2 + 2 + 128,
        4 * 128,
        work=800,
    ),
    "blur": Case(
        ("B[y,x] = I[y,x] + I[y,x+1] + I[y,x+2]", "O[v,u] = B[v,u] + B[v+1,u] + B[v+2,u]"),
        {"y": 12, "x": 8, "v": 10, "u": 8},
        ("B",),
        28,  # three lines of B, three words of I
        12 * 10 + 10 * 8,
        2 * 12 * 8,
    ),
    "two products, over m": Case(
        ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
        {"m": 16, "n": 8, "k": 4, "p": 4},
        ("T",),
        80,  # B, D, a row of A and one of T; not T with its 128
        16 * 4 + 4 * 8 + 8 * 4 + 16 * 4,
        2 * 16 * 8,
    ),
    "attention, a row of scores kept": Case(
        ATTENTION,
        {"m": 6, "n": 6, "k": 3, "d": 3},
        ("S", "R", "P", "L", "O"),
        56,  # K, V and rows of all else; not K and V and the scores
        6 * 3 + 6 * 3 + 6 * 3 + 6 * 3,
        3 * 36 + 3 * 36 + 3 * 6 + 2 * 6 + 2 * 18,  # scores, what they become, maxima, sums, context
        at_most=True,
        work=800,
    ),
}
STAGE = "B[{0}][x] = I[{1}][x] + I[{1}][x + 1] + I[{1}][x + 2];"
ROWS = "for (int x = 0; x < 8; x++)"
HEAD = "void f(float I[12][10], float O[10][8]) {"
LOAD, LATER = Storage("Buf", ("I",)), Storage("Buf", ("B",))


def loops(statement: str, *dims: str | Storage) -> tuple[MappingNode, ...]:
    """Return loops of tile 1 over dims, outermost first, with storage nodes between them, around a statement."""
    return (*(each if isinstance(each, Storage) else Temporal(each, 1) for each in dims), Compute(statement))


@dataclass(frozen=True)
class BlurSchedule:
    """text: the schedule as a C text; nodes: its tree. evaluations: of the first stage; moved: elements, by DRAM; held:
    words of the buffer. All by hand, for 10 x 8 results of 12 x 10 elements."""

    text: str
    nodes: tuple[MappingNode, ...]
    evaluations: int
    moved: int
    held: int


BLUR = {
    "breadth first": BlurSchedule(
        f"{HEAD} float B[12][8]; for (int y = 0; y < 12; y++) {ROWS} {STAGE.format('y', 'y')} "
        f"for (int v = 0; v < 10; v++) {ROWS} O[v][x] = B[v][x] + B[v + 1][x] + B[v + 2][x]; }}",
        (Branch((loops("S0", "y", "x", LOAD), loops("S1", "v", LATER, "x_2"))),),
        12 * 8,
        12 * 10 + 12 * 8 + 12 * 8 + 10 * 8,  # B is written, and read again
        3 * 8,  # of B; the three elements of I are gone by then
    ),
    "inlined": BlurSchedule(
        f"{HEAD} for (int v = 0; v < 10; v++) {ROWS} O[v][x] = "
        + " + ".join(f"(I[v + {r}][x] + I[v + {r}][x + 1] + I[v + {r}][x + 2])" for r in range(3))
        + "; }",
        loops("S0", "v", LOAD, "x"),
        3 * 10 * 8,
        12 * 10 + 10 * 8,
        3 * 10,
    ),
    "sliding window": BlurSchedule(
        f"{HEAD} float B[3][8]; for (int y = 0; y < 12; y++) {{ {ROWS} {STAGE.format('y % 3', 'y')} if (y >= 2) {ROWS} "
        "O[y - 2][x] = B[(y - 2) % 3][x] + B[(y - 1) % 3][x] + B[y % 3][x]; } }",
        (LATER, Temporal("y", 1), Branch((loops("S0", "x", LOAD), loops("S1", "x_2")))),
        12 * 8,
        12 * 10 + 10 * 8,
        3 * 8 + 3,  # of B, and three elements of I
    ),
    "strips of 5": BlurSchedule(
        f"{HEAD} float B[7][8]; for (int s = 0; s < 2; s++) {{ for (int y = 0; y < 7; y++) {ROWS} "
        f"{STAGE.format('y', '5 * s + y')} for (int v = 0; v < 5; v++) {ROWS} "
        "O[5 * s + v][x] = B[v][x] + B[v + 1][x] + B[v + 2][x]; } }",
        (LATER, Temporal("s", 1), Branch((loops("S0", "y", "x", LOAD), loops("S1", "v", "x_2")))),
        2 * 7 * 8,
        2 * 7 * 10 + 10 * 8,  # two rows of I are read in both strips
        7 * 8 + 3,
    ),
}


def one_buffer(words: int) -> pm.Architecture:
    """Return a machine of DRAM, one buffer of float32 words, and one compute unit."""
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 32 * words}, {"compute": "PE"}]
    return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})


def fused(case: Case) -> pm.study.Fusion:
    """Return what fusion saves in a case."""
    arch = one_buffer(case.words)
    return pm.study.fusion(case.workload(), arch, "traffic:DRAM", time_limit_s=600, work_limit=case.work)


def is_as_by_hand(case: Case, found: pm.study.Fusion) -> bool:
    """Return whether DRAM moves what it does by hand, in the best tree and nest after nest."""
    more = found.unfused_value / 32 - case.fused
    return found.value == 32 * case.fused and (
        0 < more <= case.intermediate if case.at_most else more == case.intermediate
    )


def blur_cost(schedule: BlurSchedule) -> tuple[int, int, int]:
    """Return evaluations of the first stage, elements that DRAM moves, and the most words that the buffer holds."""
    work = pm.from_c(schedule.text)
    cost = pm.evaluate(work, one_buffer(1000), pm.Mapping(schedule.nodes))
    assert cost.legal, cost.violations
    per_result = 3 if len(work.statements) == 1 else 1
    evaluations = per_result * prod(work.extents()[dim] for dim in work.statements[0].dims)
    moved = sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM")
    return evaluations, moved, dict(cost.occupancy_bits)["Buf"] // 32


def main() -> int:
    """Print the tables; return how many rows are not as by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    given = parser.parse_args()
    wrong = 0
    print("| program | buffer, words | nest after nest, by hand | found | best tree, by hand | found | saved |")
    print("|---|---|---|---|---|---|---|")
    for name in given.cases or CASES:
        case = CASES[name]
        found = fused(case)
        bound = "at most " if case.at_most else ""
        by_hand = f"{bound}{case.fused + case.intermediate:,} | {found.unfused_value / 32:,.0f} | {case.fused:,}"
        row = f"| {name} | {case.words} | {by_hand} | {found.value / 32:,.0f} | {found.saved_elements('DRAM'):,} |"
        is_right = is_as_by_hand(case, found)
        wrong += not is_right
        print(row if is_right else f"{row} NOT AS BY HAND", flush=True)
    print("\n| schedule of blur | evaluations of the first stage | DRAM, elements | held, words |\n|---|---|---|---|")
    for name, schedule in BLUR.items():
        numbers, by_hand = blur_cost(schedule), (schedule.evaluations, schedule.moved, schedule.held)
        wrong += numbers != by_hand
        row = f"| {name} | {' | '.join(f'{each:,}' for each in numbers)} |"
        print(row if numbers == by_hand else f"{row} BY HAND {by_hand}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
