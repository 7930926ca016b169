"""Programs of nests in sequence are never worse than their nests one after the other."""

from __future__ import annotations

import pickle
import random
import time
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.explore import provers, search
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Spatial,
    Storage,
    Temporal,
    Workload,
    part_of,
)
from polymap.networks.fusion_gain import runs_nest_after_nest
from polymap.resources import never
from polymap.search import nest_after_nest
from polymap.search.around import Surroundings
from polymap.search.driver import Search
from polymap.search.evidence import Evidence
from polymap.search.fused_trees import FusedTrees
from polymap.search.legs import Leg, legs_of, nest_of_leg
from polymap.search.nest_after_nest import Staying, begin_nest_after_nest, nests_in_sequence
from polymap.search.options import Options
from polymap.search.problem import parse_single
from polymap.search.program_provers import begin_chains
from polymap.search.provers import read_question
from tests.times import few

CHAINS = (
    ["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"],
    ["T[m,n] += A[m,k] * B[k,n]", "E[n,m] = max(T[m,n], 0)"],
    ["T[m,n] += A[m,k] * B[k,n]", "U[m,n] = T[m,n] * 2", "E[m] += U[m,n] * x[n]"],
    ["T[m] += A[m,k]", "E[m,n] += T[m] * B[n,k]"],
)


def buffer(words: int, **more: object) -> Architecture:
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * words, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes, **more})


def chain(rng: random.Random, sizes: tuple[int, ...]) -> Workload:
    texts = rng.choice(CHAINS)
    extents = {name: rng.choice(sizes) for name in "mnkp" if any(name in text for text in texts)}
    return pm.program(texts, sizes=extents, temporary=rng.choice(([], ["T"])), bits=8)


def begun(work: Workload, arch: Architecture | str, objective: str) -> Evidence:
    """Return what is known after the nests alone were asked."""
    machine = pm.load_arch(arch) if isinstance(arch, str) else arch
    asked, known = read_question(work, machine, Options(objective, "divide"), provers)
    return begin_nest_after_nest(asked, known, never)


def test_two_products_through_one_buffer_move_what_two_proven_products_move() -> None:
    # 2 x 69,632, each proven for one product of 64^3 alone: T makes its way through DRAM.
    work = pm.program(CHAINS[0], m=64, n=64, k=64, p=64, temporary=["T"])
    assert begun(work, buffer(73), "traffic:DRAM").incumbents[0].values == (8 * 139_264,)


def test_products_on_an_array_use_it() -> None:
    work = pm.program(CHAINS[0], m=512, n=256, k=32, p=32, temporary=["T"])
    (energy,) = begun(work, "flat3", "energy").incumbents[0].values
    assert energy <= 1.06 * 86_581_248  # the two nests alone, without zeros
    known = begun(work, "flat3", "latency")
    assert known.incumbents[0].values == known.floors


def test_what_a_later_nest_reads_stays_on_chip_where_it_fits() -> None:
    work = pm.program(CHAINS[0], m=64, n=64, k=64, p=64, temporary=["T"])
    best = begun(work, "flat3", "energy").incumbents[0]
    outside = [row for row in best.cost.traffic if row.level == "DRAM"]
    assert sum(row.reads + row.writes for row in outside) == 4 * 64 * 64  # A, B, D and E once: compulsory


@pytest.mark.parametrize(
    ("method", "now", "is_varied"), [("sets", 0, True), ("sets", 11, False), ("closed form", 11, True)]
)
def test_trees_that_take_long_to_count_are_varied_while_there_is_time(
    method: str, now: int, *, is_varied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, clock = pm.program(CHAINS[0], m=64, n=64, k=64, p=64, temporary=["T"]), [0]
    asked, known = read_question(
        work, pm.load_arch("flat3"), Options("energy", "divide", time_limit_s=10, clock=lambda: clock[0]), provers
    )
    with monkeypatch.context() as patch:
        patch.setattr(nest_after_nest, "kept_on_chip", lambda _, evidence: evidence)
        patch.setattr(nest_after_nest, "_with_stays", lambda _, evidence, *_more: evidence)
        apart = begin_nest_after_nest(asked, known, never)
    (best,) = apart.incumbents
    apart = replace(apart, incumbents=(replace(best, cost=replace(best.cost, method=method)),))
    clock[0] = now
    assert (nest_after_nest.kept_on_chip(asked, apart) != apart) == is_varied


def test_what_two_nests_pass_on_takes_room_beside_these_alone() -> None:
    texts = (*CHAINS[0], "U[m,q] += G[m,k] * H[k,q]", "F[m,r] += U[m,q] * L[q,r]")
    sizes = dict.fromkeys("mnkpqr", 16)
    work = pm.program(texts, sizes=sizes, temporary=["T", "U"], bits=8)
    best = begun(work, buffer(600), "traffic:DRAM").incumbents[0]  # each nest takes 513, T and U 256 each
    outside = {row.tensor: row.reads + row.writes for row in best.cost.traffic if row.level == "DRAM"}
    assert (outside["T"], outside["U"]) == (0, 0)


def test_a_nest_costs_little_on_as_many_siblings_as_the_fastest_one_takes() -> None:
    work = pm.program(["U[m,f] += X[m,d] * W[d,f]", "G[m,f] = max(U[m,f], 0)"], m=512, d=768, f=3072, bits=8)
    options = Options("edp", "divide", time_limit_s=30, clock=time.process_time)
    asked, _ = read_question(work, pm.load_arch("eyeriss_like"), options, provers)
    leg = Leg.of(work.statements[0], work.extents())
    nodes, nest = legs_of(asked).nodes(asked, work, leg, asked.objective, 0.1), nest_of_leg(work, leg)
    assert nodes is not None
    assert nest is not None
    cost = pm.evaluate(nest, "eyeriss_like", Mapping(nodes))
    alone = legs_of(asked).nodes(asked, work, leg, parse_single("energy", asked.arch), 0.1)
    assert alone is not None
    assert cost.latency_cycles == 512 * 768 * 3072 // 144  # 12 and 12 of 12 and 14 siblings
    assert cost.energy_pj <= 1.2 * pm.evaluate(nest, "eyeriss_like", Mapping(alone)).energy_pj


def test_of_nests_that_are_as_fast_the_one_that_transfers_least_is_taken() -> None:
    # of a block: compute takes 8,388,608 cycles, and the accumulators need not
    texts = ["G[m,f] = U[m,f] * 2", "Y[m,d] += G[m,f] * W[f,d]"]
    work = pm.program(texts, sizes={"m": 2048, "f": 16_384, "d": 4096}, bits=8)
    asked, _ = read_question(work, pm.load_arch("tpu_like"), Options("latency", "divide"), provers)
    leg = Leg.of(work.statements[1], work.extents())
    nodes, nest = legs_of(asked).nodes(asked, work, leg, asked.objective, 0.5), nest_of_leg(work, leg)
    assert nodes is not None
    assert nest is not None
    cost = pm.evaluate(nest, "tpu_like", Mapping(nodes))
    bits = sum(8 * (row.reads + row.writes) for row in cost.traffic if row.level == "ACC")
    assert cost.latency_cycles == 8_388_608
    assert bits <= 0.8 * 4096 * cost.latency_cycles


@pytest.mark.parametrize("objective", ["lex:latency,energy", "pareto:energy,latency"])
def test_orders_and_fronts_begin_with_what_is_best_by_each_part(objective: str) -> None:
    work = pm.program(CHAINS[0], m=4, n=8, k=6, p=4, temporary=["T"], bits=8)
    found = begun(work, "flat3", objective).incumbents
    for place, part in enumerate(objective.partition(":")[2].split(",")):
        (alone,) = begun(work, "flat3", part).incumbents
        assert min(each.values[place] for each in found) <= alone.values[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(6), 2))
def test_trees_of_nests_are_legal_and_compute_what_the_program_does(seed: int) -> None:
    rng = random.Random(seed)
    work = chain(rng, (2, 3, 4, 6))
    arch = pm.load_arch("flat3") if rng.random() < 0.5 else buffer(rng.choice((4, 7, 12)))
    found = search(work, arch, "energy", tiles=rng.choice(("divide", "any")), work_limit=100)
    assert found.best is not None
    assert found.workload is not None
    assert pm.simulate(found.workload, arch, found.best).energy_pj == found.value
    run = pm.run_c(found.workload, arch, found.best)
    assert run.matches_reference
    assert run.counts_match


def test_nests_are_taken_apart_where_their_outermost_loops_hold_one_result() -> None:
    text = """void f(double A[4][4], double B[4][4], double x[4], double y[4]) {
  for (int i = 0; i < 4; i++) { x[i] = 0; for (int j = 0; j < 4; j++) x[i] += A[i][j]; }
  for (int i = 0; i < 4; i++) { y[i] *= 2; for (int j = 0; j < 4; j++) y[i] += B[i][j] * x[j]; }
}"""
    found = nests_in_sequence(pm.from_c(text))
    assert [(nest.statement.name, nest.sets and nest.sets.name) for nest in found] == [
        ("S1", "S0"),
        ("S2", None),
        ("S3", None),
    ]
    other = "void f(double A[4], double x[4]) { for (int i = 0; i < 4; i++) { x[i] = 0; A[i] = x[i]; } }"
    assert nests_in_sequence(pm.from_c(other)) == ()


LONGER = """void f(double A[8][8], double B[8][8], double T[10][10], double E[8][8]) {
  for (int a = 0; a < 10; a++) for (int b = 0; b < 10; b++) T[a][b] = 0;
  for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) for (int k = 0; k < 8; k++) T[i][j] += A[i][k] * B[k][j];
  for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) E[i][j] = T[i][j];
}"""


def test_more_elements_are_set_than_are_accumulated_into() -> None:
    work, arch = pm.from_c(LONGER), pm.load_arch("flat3")
    best = begun(work, arch, "energy").incumbents[0]
    assert pm.simulate(best.workload, arch, best.mapping).energy_pj == best.values[0]


def test_a_nest_alone_and_the_statement_that_sets_its_result_use_the_array() -> None:
    text = """void f(float A[64][64], float B[64][64], float C[64][64]) {
  for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) {
    C[i][j] = 0;
    for (int k = 0; k < 64; k++) C[i][j] += A[i][k] * B[k][j];
  }
}"""
    alone = pm.explore(pm.einsum("C[i,j] += A[i,k] * B[k,j]", i=64, j=64, k=64, bits=32), "flat3", tiles="divide")
    assert alone.value is not None
    assert (
        begun(pm.from_c(text), "flat3", "energy").incumbents[0].values[0] <= 1.1 * alone.value
    )  # siblings do not add up what is set


def test_a_tree_that_runs_nest_after_nest_is_not_told_to_be_fused() -> None:
    work = pm.program(CHAINS[0], m=64, n=64, k=64, p=64, temporary=["T"])
    gain = pm.study.fusion(work, buffer(73), "traffic:DRAM", time_limit_s=4)
    assert runs_nest_after_nest(work, gain.mapping)
    assert gain.unfused_value == gain.value == 8 * 139_264
    assert (gain.pays, gain.space) == (False, "chains")


FORWARD = ["U[m,f] += R[m,k] * W[k,f]", "G[m,f] = max(U[m,f], 0)", "B[m,p] += G[m,f] * V[f,p]"]
BOTTLENECK = [
    "T[k,y,x] += I[c,y,x] * W[k,c]",
    "D[k,v,w] += T[k,v+r,w+s] * U[k,r,s]",
    "H[k,v,w] = max(D[k,v,w], 0)",
    "O[z,v,w] += H[k,v,w] * V[z,k]",
]
PLANES = {"k": 144, "c": 24, "y": 58, "x": 58, "v": 56, "w": 56, "r": 3, "s": 3, "z": 24}


TOKENS = {"m": 256, "k": 512, "f": 1024, "p": 512}
SHORT_LIMITS: list[tuple[list[str], dict[str, int], str, str]] = [
    (FORWARD, TOKENS, "tpu_v4i_like", "edp"),
    (FORWARD, {"m": 197, "k": 768, "f": 3072, "p": 768}, "eyeriss_like", "energy"),
    (BOTTLENECK, PLANES, "tpu_like", "latency"),
    (FORWARD, TOKENS, "tpu_v4i_like", "energy"),
    (FORWARD, TOKENS, "tpu_v4i_like", "latency"),
    (BOTTLENECK, PLANES, "simba_like", "energy"),
]


@pytest.mark.parametrize(("texts", "sizes", "machine", "objective"), few(SHORT_LIMITS, 2))
def test_no_limit_is_so_short_that_nests_alone_are_better(
    texts: list[str], sizes: dict[str, int], machine: str, objective: str
) -> None:
    work = pm.program(texts, sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=16)
    arch = pm.load_arch(machine)
    one = {"time_limit_s": 1, "clock": time.process_time}
    alone = [search(part_of(work, (each,)), arch, objective, "divide", **one).cost for each in work.statements]
    energy = sum(each.energy_pj_exact for each in alone if each is not None)
    cycles = sum(each.latency_cycles for each in alone if each is not None)
    assert None not in alone
    most = {"energy": energy, "latency": cycles, "edp": energy * cycles}[objective]
    for limit_s in (0.001, 1):  # rows of BOTTLENECK take most of a second
        found = search(work, arch, objective, "divide", time_limit_s=limit_s, clock=time.process_time)
        assert found.value is not None
        assert found.value <= most


def test_nests_have_their_seconds_where_the_limit_ends_before_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    work, now, asked_s = pm.program(CHAINS[0], m=8, n=8, k=8, p=8, temporary=["T"]), [0.0], list[float]()
    options = Options("energy", "divide", time_limit_s=0.001, clock=lambda: now[0])
    asked, known = read_question(work, pm.load_arch("flat3"), options, provers)

    def ask(self: Search, _asked: object, _kind: object, share: float, *_: object) -> None:
        now[0] = 0.000_999  # as to say what is asked takes time, too
        asked_s.append(self.limits.part(share).time_limit_s)
        raise InterruptedError

    monkeypatch.setattr(Search, "ask", ask)
    with pytest.raises(InterruptedError):
        begin_nest_after_nest(asked, known, never)
    assert asked_s[0] == pytest.approx(0.15)


def test_many_runs_of_a_row_take_many_times_the_energy_and_the_time() -> None:
    """A row alone costs least in one multiplier, 2,048 cycles of it; all rows after one another take 134,217,728."""
    work, machine = pm.program(["M[h,m] max= S[h,m,n]"], h=32, m=2048, n=2048, bits=8), pm.load_arch("tpu_v4i_like")
    asked, _ = read_question(work, machine, Options("edp", "divide", clock=time.process_time), provers)
    leg = Leg.of(work.statements[0], work.extents())
    nodes = legs_of(asked).nodes(asked, work, leg, asked.objective, 1)
    assert nodes is not None
    assert pm.evaluate(work, machine, Mapping(nodes)).latency_cycles <= 1 << 18


def test_rows_that_are_fast_one_by_one_are_spread_over_instances() -> None:
    """A row of Z takes a cycle in 128 of 65,536 instances; one row after another 2,048 of them, all together 4."""
    texts = ["C[m,e] += P[m,n] * W[n,e]", "L[m] += P[m,n]", "Z[m,e] = C[m,e] * L[m]"]
    work = pm.program(texts, m=2048, n=2, e=128, temporary=["C", "L"], bits=8)
    machine = pm.load_arch("tpu_v4i_like")
    asked, _ = read_question(work, machine, Options("edp", "divide", clock=time.process_time), provers)
    around = Surroundings.of(work, machine, (Storage("VMEM", ("Z", "C", "L")),))
    assert around is not None
    leg = around.leg(work, machine, work.statements[2])
    nodes = legs_of(asked).nodes(asked, work, leg, parse_single("weighted:1*energy+10000*latency", machine), 1)
    assert nodes is not None
    assert "m" in {node.dim for node in nodes if isinstance(node, Spatial)}


@pytest.mark.parametrize(("number", "steps"), [(2, 4 * 256 * 2048 * 128 // 65536), (3, 4 * 256 * 2048 // 65536)])
def test_legs_below_all_that_they_touch_use_all_instances(number: int, steps: int) -> None:
    """The scores of four heads: with least energy 256 rows by 128 take half of the instances, so heads share them; and
    the maxima of a row in a lane of its own took as long as loads from HBM that these legs do not wait for."""
    texts = ["Q[h,m,e] = max(X[h,m,e], 0)", "K[h,n,e] = max(Y[h,n,e], 0)"]
    texts += ["S[h,m,n] += Q[h,m,e] * K[h,n,e]", "M[h,m] max= S[h,m,n]"]
    work = pm.program(texts, h=4, m=256, n=2048, e=128, temporary=["Q", "K", "S"], bits=8)
    machine = pm.load_arch("tpu_v4i_like")
    asked, _ = read_question(work, machine, Options("edp", "divide", clock=time.process_time), provers)
    around = Surroundings.of(work, machine, (Storage("VMEM", ("Q", "K", "S", "M")),))
    assert around is not None
    leg = around.leg(work, machine, work.statements[number])
    nodes = legs_of(asked).nodes(asked, work, leg, parse_single("weighted:1*energy+5000*latency", machine), 1)
    assert nodes is not None
    left, taken = work.extents(), 1
    for node in nodes:
        if isinstance(node, Temporal | Spatial):
            taken *= left[node.dim] // node.tile if isinstance(node, Temporal) else 1
            left[node.dim] = node.tile
    assert taken == steps


def test_legs_that_a_limit_left_unproven_are_kept_as_answers_alone() -> None:
    """What is pickled with an unfinished answer does not hold the state of each search of a leg."""
    texts = ["T[k,y,x] += I[c,y+r,x+s] * W[k,c,r,s]", "U[k,y,x] = max(T[k,y,x], 0)", "E[z,y,x] += U[k,y,x] * V[z,k]"]
    work = pm.program(texts, k=16, c=8, y=14, x=14, r=3, s=3, z=16, temporary=["T", "U"], bits=8)
    options = Options("energy", "divide", time_limit_s=1000, work_limit=200)
    asked, known = read_question(work, pm.load_arch("eyeriss_like"), options, provers)
    begin_chains(asked, begin_nest_after_nest(asked, known, never), never)
    assert len(pickle.dumps(legs_of(asked))) < 150_000


GRAPHS = (
    ["T[m,n] += X[m,k] * A[k,n]", "U[m,k] += T[m,n] * B[n,k]", "Y[m,k] = U[m,k] + X[m,k]"],  # a residual edge
    ["T[n,a] += X[n,c] * W[c,a]", "G[a,b] += T[n,a] * U[n,b]", "R[n,b] += T[n,a] * G[a,b]"],  # two readers of T
    ["T[m,n] += X[m,k] * A[k,n]", "U[n,q] += T[m,n] * B[m,q]", "V[q,k] += U[n,q] * C[n,k]", "Y[q] += V[q,k] * D[k]"],
    [
        "K[n,d] += X[n,c] * A[c,d]",
        "V[n,e] += X[n,c] * B[c,e]",
        "S[d,e] += K[n,d] * V[n,e]",
        "Z[n,e] += X[n,d] * S[d,e]",
    ],
)


def every_stay(work: Workload) -> list[tuple[tuple[str, int, int], ...]]:
    """Return the ways for tensors to stand around neighbouring statements: no node twice on a way, none crosses."""
    many, users = len(work.statements), dict[str, list[int]]()
    for at, each in enumerate(work.statements):
        for access in (each.target, *each.reads):
            users.setdefault(access.tensor, []).append(at)
    single = [
        (name, begin, end)
        for name, own in users.items()
        for begin in range(many)
        for end in range(begin + 2, many + 1)
        if sum(begin <= at < end for at in set(own)) > 1
    ]
    found: list[tuple[tuple[str, int, int], ...]] = [()]
    for stay in single:
        found += [
            (*own, stay)
            for own in found
            if not any(each[0] == stay[0] and each[1] < stay[2] and stay[1] < each[2] for each in own)
            and not any(one[1] < two[1] < one[2] < two[2] for each in own for one, two in ((each, stay), (stay, each)))
        ]
    return found


def below_stays(stays: list[tuple[str, int, int]], begin: int, end: int, names: list[str]) -> tuple[MappingNode, ...]:
    """Return statements in their order below what stays around them."""
    for at, stay in enumerate(stays):
        if stay[1:] == (begin, end):
            rest = below_stays(stays[:at] + stays[at + 1 :], begin, end, names)
            return Storage("GLB", (stay[0],)), *(rest if isinstance(rest[0], Storage | Branch) else (Branch((rest,)),))
    children, at = list[tuple[MappingNode, ...]](), begin
    while at < end:
        last = max((stay[2] for stay in stays if stay[1] == at and stay[2] <= end), default=at + 1)
        inside = [stay for stay in stays if at <= stay[1] and stay[2] <= last]
        children.append(below_stays(inside, at, last, names) if inside else (Compute(names[at]),))
        at = last
    return children[0] if len(children) == 1 else (Branch(tuple(children)),)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(60), 4))
def test_no_choice_of_what_stays_costs_less_than_the_one_that_is_proven(seed: int) -> None:
    # each choice is a tree of the whole program here, counted at once; there are sums over parts, and bounds
    rng = random.Random(seed)
    texts = GRAPHS[seed % len(GRAPHS)]
    sizes = {
        name: rng.choice((2, 3, 4, 6)) for name in sorted({each for text in texts for each in text if each.islower()})
    }
    names = {text.partition("[")[0] for text in texts[:-1]}
    work = pm.program(texts, sizes=sizes, temporary=[name for name in sorted(names) if rng.random() < 0.7], bits=8)
    arch, objective = buffer(rng.randint(12, 60)), rng.choice(("energy", "traffic:DRAM"))
    asked, _ = read_question(work, arch, Options(objective, "divide", time_limit_s=1000), provers)
    trees, own = FusedTrees(asked, work, asked.objective, divides=True), work.statements
    parts = {(at, at + 1): trees.alone(part_of(work, (each,)), each) for at, each in enumerate(own)}
    staying = Staying(asked, work, asked.objective)
    found = list(staying.trees({ends: part for ends, part in parts.items() if part is not None}, never, Fraction(0)))
    values = list[Fraction]()
    for stays in every_stay(work):
        nodes = below_stays([*stays], 0, len(own), [each.name for each in own])
        nodes = nodes if isinstance(nodes[-1], Branch) else (Branch((nodes,)),)
        part = trees.part_with_best_legs(work, nodes)
        values += [] if part is None else [part.value]
    best = sum(part.value for part in parts.values() if part is not None)  # where nothing has room
    if found:
        last, nodes = found[-1]
        assert last.value == last.bound
        best = last.value
        assert asked.incumbent(Mapping(nodes)).values == (best,)
    assert best == min(values)


def test_a_selection_that_meets_the_floor_is_optimal_over_all_trees() -> None:
    """X, which the first nest and the last one read, and all that passes have room: each tensor moves once."""
    texts = ["T[m,n] += X[m,k] * A[k,n]", "U[m,k] += T[m,n] * B[n,k]", "Y[m,k] = U[m,k] + X[m,k]"]
    work = pm.program(texts, m=16, n=16, k=16, temporary=["T", "U"], bits=8)
    found = begun(work, buffer(16 * 16 * 3 + 40), "traffic:DRAM")
    answer = pm.explore(work, buffer(16 * 16 * 3 + 40), "traffic:DRAM", tiles="divide", time_limit_s=100)
    assert found.is_met
    assert (answer.status, answer.space.name, answer.value) == ("OPTIMAL", "", 8 * 4 * 16 * 16)
