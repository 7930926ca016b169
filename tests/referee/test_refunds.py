"""No tree costs less than the nests alone less what never passes: random trees of random chains, step by step."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import partial
from time import process_time

import pytest

from polymap.costmodel.evaluation import simulate
from polymap.explore import provers, search
from polymap.inputs import arch_from_document, load_arch
from polymap.ir.errors import BudgetError, MappingError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.networks.buffer_sweep import buffer_curve
from polymap.resources import never
from polymap.schedules.check import check_mapping
from polymap.search import around, refunds
from polymap.search.evidence import Evidence
from polymap.search.options import Options
from polymap.search.provers import read_question
from polymap.search.refunds import bound_by_refunds
from polymap.workload.einsum_programs import program
from tests.mistakes import mutant_of
from tests.programs import random_tree
from tests.times import few

CHAINS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[n,m] = max(T[m,n], 0)"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m] += T[m,n] * x[n]", "F[n] max= T[m,n]"),
    ("T[c,p] += I[p+r] * W[c,r]", "U[c,p] = max(T[c,p], 0)", "F[d,p] += U[c,p] * V[c,d]"),
    ("T[m,k] += A[m,n] * B[n,k]", "U[n,k] += A[m,n] * D[m,k]", "E[m,n] += T[m,k] * U[n,k]"),
    ("T[m,n] += A[m,k] * B[k,n]", "M[m] max= T[m,n]", "P[m,n] = T[m,n] - M[m]", "E[m,p] += P[m,n] * D[n,p]"),
    ("T[p] += A[p+r] * W[r]", "E[k] += T[k+r] * V[r]"),
    TWINS := ("E[m,p] += A[m,n] * B[n,p]", "G[m,p] max= A[m,n] * B[n,p]", "F[m,p] = E[m,p] * G[m,p]"),
)


def chain_and_machine(rng: random.Random) -> tuple[Workload, Architecture]:
    texts = rng.choice(CHAINS)
    names = [
        name
        for name in "mnkpcrd"
        if any(f"{name}]" in text or f"{name}," in text or f"{name}+" in text for text in texts)
    ]
    work = program(
        list(texts),
        sizes={name: rng.choice((2, 3, 4, 6)) for name in names},
        temporary=[name for name in "TU" if any(f"{name}[" in text for text in texts) and rng.random() < 0.8],
        bits=8,
    )
    several = rng.random() < 0.5
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": rng.choice((7, 100)), "write_pj": rng.choice((0, 50))},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * rng.randint(5, 40), "read_pj": 2, "write_pj": 3},
        *([{"fanout": "X", "size": 2, "reduction": rng.random() < 0.5}] if several else []),
        *([{"level": "R", "word_bits": 8, "capacity_bits": 8 * rng.randint(3, 9), "read_pj": 1}] if several else []),
        {"compute": "PE", "pj": 1},
    ]
    return work, arch_from_document({"name": "random", "nodes": nodes})


def divides(work: Workload, nodes: tuple[MappingNode, ...]) -> bool:
    """Return whether every tile divides its dim."""
    loops = [node for node in nodes if isinstance(node, Temporal | Spatial)]
    inside = [child for node in nodes if isinstance(node, Branch) for child in node.children]
    return all(work.extents()[each.dim] % each.tile == 0 for each in loops) and all(
        divides(work, one) for one in inside
    )


def least_of_random_trees(
    rng: random.Random, work: Workload, arch: Architecture, objective: str, number: int, *, dividing: bool = False
) -> float:
    """Return the least value of legal ones among so many random trees."""
    least = float("inf")
    for _ in range(number):
        mapping: Mapping = random_tree(rng, work, arch)
        if dividing and not divides(work, mapping.nodes):
            continue
        try:
            check_mapping(work, arch, mapping)
            cost = simulate(work, arch, mapping)
        except (MappingError, BudgetError):
            continue
        if cost.legal:
            moved = sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM") * 8
            least = min(least, cost.energy_pj if objective == "energy" else moved)
    return least


def floor_of(work: Workload, arch: Architecture, objective: str) -> float:
    asked, known = read_question(work, arch, Options(objective, "any", time_limit_s=10), provers)
    return float(bound_by_refunds(asked, known, never).floors[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(40), 3, late=(2,)))
def test_no_random_tree_is_below_the_floor(seed: int) -> None:
    rng = random.Random(f"refunds {seed}")
    work, arch = chain_and_machine(rng)
    objective = rng.choice(("energy", "traffic:DRAM"))
    assert floor_of(work, arch, objective) <= least_of_random_trees(rng, work, arch, objective, 150)


SOFTMAX = (
    CHAINS[5],
    ("T[m,n] += A[m,k] * B[k,n]", "M[m] max= T[m,n]", "P[m,n] = T[m,n] - M[m]", "L[m] += P[m,n]", "E[m] = L[m] * M[m]"),
    ("T[m,n] += A[m,k] * B[k,n]", "M[n] += T[m,n]", "x[n] = M[n] * M[n]", "P[m,n] = T[m,n] * x[n]"),
    ("T[m,n] += A[m,k] * B[k,n]", "M[m] max= T[m,n]", "P[m,n] = T[m,n] * T[m,n]", "E[m] += P[m,n] * M[m]"),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(12), 1))
def test_no_dividing_tree_is_below_the_floor_where_a_reader_sums_up_what_another_one_needs(seed: int) -> None:
    rng = random.Random(f"summed up {seed}")
    texts = rng.choice(SOFTMAX)
    sizes = {name: rng.choice((2, 4, 8)) for name in "mnkp" if any(name in text for text in texts)}
    work = program(list(texts), sizes=sizes, temporary=["T", "M", "P"], bits=8)
    nodes = [
        {"level": "DRAM", "word_bits": 8},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * rng.randint(5, 60)},
        {"fanout": "X", "size": 2, "pj_per_word": 1},  # so that no other loops than those of the nests are tried
        {"level": "R", "word_bits": 8, "capacity_bits": 8 * rng.randint(3, 24)},
        {"compute": "PE"},
    ]
    arch = arch_from_document({"name": "random", "nodes": nodes})
    limits = {"time_limit_s": 60, "work_limit": 100, "clock": process_time}
    found = search(work, arch, "traffic:DRAM", "divide", **limits)  # holds its own floor
    assert found.value is not None, "the program as it is runs"
    asked, known = read_question(work, arch, Options("traffic:DRAM", "divide", time_limit_s=60), provers)
    floor = float(bound_by_refunds(asked, known, never).floors[0])
    assert floor <= found.value, "the best tree found"
    assert floor <= least_of_random_trees(rng, work, arch, "traffic", 300, dividing=True)


def test_what_is_summed_up_for_another_reader_is_whole() -> None:
    """A softmax needs the maximum of a row before its first quotient; a dot product of rows does not."""
    rows, columns, other = (program(list(SOFTMAX[at]), m=4, n=4, k=4, bits=8) for at in (1, 2, 3))
    assert refunds.summed_up_between(rows, "T") == ("n",)
    assert refunds.summed_up_between(columns, "T") == ("m",)
    assert refunds.summed_up_between(other, "T") == ()


def independent() -> tuple[Workload, Architecture]:
    """Return two sums over the rows of a product, neither of which needs the other, and buffers smaller than a row."""
    texts = ["T[m,n] += A[m,k] * B[k,n]", "M[m] max= T[m,n]", "L[m] += T[m,n]"]
    nodes = [
        {"level": "DRAM", "word_bits": 8},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * 40},
        {"fanout": "X", "size": 2, "pj_per_word": 1},  # so that no other loops than those of the nests are tried
        {"level": "R", "word_bits": 8, "capacity_bits": 8 * 4},
        {"compute": "PE"},
    ]
    arch = arch_from_document({"name": "two buffers", "nodes": nodes})
    return program(texts, m=4, n=64, k=4, temporary=["T"], bits=8), arch


def twins() -> tuple[Workload, Architecture, Mapping]:
    """Return two products of the same operands in the same loops, so that each operand is loaded for both at once."""
    work = program(list(TWINS), m=16, n=16, p=16, temporary=["E", "G"], bits=8)
    glb = {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * 14, "read_pj": 1, "write_pj": 1}
    dram = {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100}
    arch = arch_from_document({"name": "one buffer", "nodes": [dram, glb, {"compute": "PE"}]})

    def inside(name: str) -> tuple[MappingNode, ...]:
        return (Temporal("m", 1), Temporal("p", 1), Compute(name))

    products = (Temporal("n", 1), Storage("GLB", ("A", "B")), Branch((inside("S0"), inside("S1"))))
    children = (products, inside("S2"))
    nodes = (Temporal("m", 2), Temporal("p", 2), Storage("GLB", ("E", "G")), Branch(children))
    return work, arch, Mapping(nodes)


def test_what_two_statements_load_at_once_is_charged_to_one() -> None:
    work, arch, mapping = twins()
    cost = simulate(work, arch, mapping)
    assert cost.legal
    assert floor_of(work, arch, "energy") <= cost.energy_pj


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(25), 2, late=(1, 2)))
def test_no_random_tree_moves_less_than_a_buffer_curve_says(seed: int) -> None:
    rng = random.Random(f"curve {seed}")
    work, _ = chain_and_machine(rng)
    words = rng.randint(5, 40)
    arch = arch_from_document(
        {
            "name": "two",
            "nodes": [
                {"level": "DRAM", "word_bits": 8},
                {"level": "G", "word_bits": 8, "capacity_bits": 8 * words},
                {"compute": "PE"},
            ],
        }
    )
    curve = buffer_curve(work, arch, "G", [8 * words], tiles="any", time_limit_s=4)
    (point,), (apart,) = curve.points, curve.unfused
    assert point.bound_bits <= least_of_random_trees(rng, work, arch, "traffic:DRAM", 150)
    assert apart.best_bits is not None
    assert point.best_bits is not None
    assert point.bound_bits <= point.best_bits <= apart.best_bits
    assert apart.bound_bits <= apart.best_bits


# Mistakes in the bound: (right, wrong) in the source of `refunds`, or of `around`.
MISTAKES = {
    "nothing is refunded": ("max(Fraction(0), known - refund)", "known"),
    "the inner level is not refunded": (
        "move_cost(*own, source, bits, 0) + move_cost(*own, drain, 0, bits)",
        "move_cost(*own, 0, bits * (source == 0), bits * (drain == 0))",
    ),
    "a writer is not refunded": ("if writes and not workload.tensor(tensor).temporary:", "if writes:"),
    "what several read is charged to each": (
        "once = read_once(search.workload)",
        "once = dict.fromkeys(read_once(search.workload), ())",
    ),
    "rows are whole for readers that need nothing of one another": (
        "summed = summed_up_between(workload, tensor.name)",
        "summed = (access.dims[1:] if access is not None else ())",
    ),
    "every tensor passes": ("if not number or not level.may_hold(tensor) or", "if number >= 0 or"),
}


Bounding = Callable[..., Evidence]


def twins_cost_less(mutant: Bounding) -> bool:
    """Return whether a floor is above what a tree of twins costs."""
    work, arch, mapping = twins()
    asked, floors = read_question(work, arch, Options("energy", "any", 10, clock=process_time), provers)
    return mutant(asked, floors, never).floors[0] > simulate(work, arch, mapping).energy_pj


def independent_sums_move_less(mutant: Bounding) -> bool:
    """Return whether a floor is above what a tree of independent sums moves."""
    work, arch = independent()
    asked, floors = read_question(work, arch, Options("traffic:DRAM", "divide", 10, clock=process_time), provers)
    floor = mutant(asked, floors, never).floors[0]
    if floor <= bound_by_refunds(asked, floors, never).floors[0]:
        return False
    found = search(work, arch, "traffic:DRAM", "divide", time_limit_s=60, work_limit=300, clock=process_time).value
    assert found is not None, "the program as it is runs"
    return floor > found


def two_products_cost_less(mutant: Bounding, m: int, n: int, k: int, known: int | None) -> bool:
    """Return whether a floor is above the optimum of two products, or above the right floor where that is not known."""
    work = program(list(CHAINS[0]), m=m, n=n, k=k, p=k, temporary=["T"], bits=8)
    asked, floors = read_question(work, load_arch("flat3"), Options("energy", "divide"), provers)
    least = known or bound_by_refunds(asked, floors, never).floors[0]
    return mutant(asked, floors, never).floors[0] > least


PROOFS: tuple[Callable[[Bounding], bool], ...] = (
    twins_cost_less,
    independent_sums_move_less,
    partial(two_products_cost_less, m=512, n=512, k=64, known=129_761_280),
    partial(two_products_cost_less, m=512, n=256, k=32, known=35_373_056),
    partial(two_products_cost_less, m=4096, n=4096, k=8, known=None),
)
# The proof that sees a mistake soonest, where it is not the first one.
SEEN = {
    "nothing is refunded": 2,
    "the inner level is not refunded": 2,
    "a writer is not refunded": 2,
    "rows are whole for readers that need nothing of one another": 1,
    "every tensor passes": 2,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_bound_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MISTAKES[name]
    module = around if right in inspect.getsource(around.pass_cost) else refunds
    mutant = mutant_of(module, right, wrong, monkeypatch)
    bound = mutant.get("bound_by_refunds", refunds.bound_by_refunds)
    if module is around:
        monkeypatch.setattr(refunds, "pass_cost", mutant["pass_cost"])
    first = SEEN.get(name, 0)
    proofs = (PROOFS[first], *PROOFS[:first], *PROOFS[first + 1 :])
    assert any(proof(bound) for proof in proofs), "the floor is higher than possible"
