"""Questions with extents of any size, asked of every function: each ends with an answer or a PolymapError.

    python -m tests.size_tally FIRST LAST     # seeds

What a question is depends on its seed alone. An answer is looked at, too: costs of arrays of mappings are those of the
mappings one by one, bounds are not above values, certificates are accepted.
"""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import polymap as pm
from polymap.costmodel.nest import mapping_text
from polymap.ir import Architecture, Mapping, Spatial, Temporal, Workload
from polymap.report.explanation import explain
from polymap.report.figures.residency import residency_figure
from polymap.report.figures.roofline import roofline_text
from polymap.report.figures.traffic import traffic_text

EXTENTS = (
    2**19 - 1, 2**19, 2**19 + 1, 2**31 - 1, 2**31, 10**6, 10**9, 10**9 + 7, 2**53 + 1, 2**61 - 1, 2**63 - 1, 2**63,
    10**18, 10**30, 10**30 + 57, 2**127 - 1, 3 * 2**40, 7919**4,
)  # fmt: skip
TEXTS = (
    "C[m,n] += A[m,k] * B[k,n]",
    "O[p] += I[p+r] * W[r]",
    "O[k,p] += I[c,2*p+r] * W[k,c,r]",
    "O[i] += A[i]",
    "S += A[i] * B[i]",
    "C[m,n] += A[m,k] * A[n,k]",
    "S[i] += A[i,j] * A[j,i]",
    "O[p] += I[p+r] * I[p]",
    "C[i+j] += A[i] * B[j]",
    "O[i] = A[i] + B[i]",
    "D[i,l] += A[i,j] * B[j,k] * E[k,l]",
    "O[p] max= I[p+r]",
)
ONE_STATEMENT_OF_C = (
    "void f(float C[N][M], float A[N][K]) { for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) %s }"
)
PROGRAMS = (
    ONE_STATEMENT_OF_C % "for (int k = 0; k < K; k++) C[i][j] += A[i][k];",
    ONE_STATEMENT_OF_C % "C[i][j] = A[i][0] + 1;",
    "void f(float A[N], float B[N]) { for (int i = 1; i < N - 1; i++) B[i] = A[i-1] + A[i+1];"
    " for (int i = 1; i < N - 1; i++) A[i] = B[i]; }",
)
OBJECTIVES = (
    "energy", "latency", "edp", "ed2p", "traffic:{0}", "capacity:{1}", "energy, latency", "pareto:energy,latency",
    "0.5*energy + 2*latency",
)  # fmt: skip
Question = tuple[str, Callable[[], Any]]


def random_workload(rng: random.Random) -> Workload:
    """Return an einsum or a C program of one to three huge extents, the others small."""
    if rng.random() < 0.15:
        sizes = {name: rng.choice((*EXTENTS, 4)) for name in "NMK"}
        return pm.from_c(rng.choice(PROGRAMS), sizes)
    text = rng.choice(TEXTS)
    letters = [letter for letter in dict.fromkeys(text.replace("max", "")) if letter.islower()]
    huge = rng.sample(letters, rng.randint(1, len(letters)))
    sizes = {name: rng.choice(EXTENTS) if name in huge else rng.choice((1, 2, 3, 4, 7, 64)) for name in letters}
    return pm.einsum(text, sizes=sizes)


def random_machine(rng: random.Random) -> Architecture:
    """Return a preset, or a small machine with huge capacities or fan-outs."""
    if rng.random() < 0.7:
        return pm.load_arch(rng.choice([name for name in pm.io.preset_names() if name != "host_cpu"]))
    nodes: list[Any] = [{"level": "DRAM", "read_pj": 200, "write_pj": 200}]
    if rng.random() < 0.5:
        nodes.append({"fanout": "X", "size": rng.choice((1, 16, 2**19, 10**9, 2**63))})
    capacity = rng.choice((64, 4096, 2**31, 2**63, 10**30))
    nodes.append({"level": "RF", "capacity_bits": capacity, "read_pj": 1, "write_pj": 1, "bandwidth_bits_per_cycle": 8})
    if rng.random() < 0.3:
        nodes.append({"fanout": "Y", "size": rng.choice((4, 2**31))})
    return pm.io.arch_from_document({"name": "any", "nodes": [*nodes, {"compute": "MAC", "pj": 1}]})


def plain_mapping(workload: Workload, arch: Architecture, rng: random.Random) -> Mapping:
    """Return loops in a random order, each dim cut once, tensors held in a random place."""
    nodes: list[Any] = []
    extents = workload.extents()
    names = rng.sample(list(extents), len(extents))
    nodes += [{"for": dim, "tile": rng.choice((1, 3, extents[dim] // 2 or 1, extents[dim]))} for dim in names]
    for level in arch.levels[1:]:
        held = [tensor.name for tensor in workload.tensors if level.may_hold(tensor)]
        if held and rng.random() < 0.7:
            nodes.append({"store": level.name, "tensors": held})
    nodes += [{"for": dim, "tile": 1} for dim in rng.sample(names, len(names))]
    return pm.io.mapping_from_document({"nodes": [*nodes, {"compute": workload.statements[0].name}]})


def searched(workload: Workload, arch: Architecture, rng: random.Random) -> object:
    """Explore, and use the answer."""
    names = [level.name for level in arch.levels]
    objective = rng.choice(OBJECTIVES).format(names[0], names[-1])
    constraints = rng.choice((None, None, None, {"min_utilization": 0.5}, {"limits": {"latency": 10**20}}))
    result = pm.explore(
        workload, arch, objective, tiles=rng.choice(("any", "divide")), time_limit_s=0.5, constraints=constraints
    )
    value, bound = result.value, result.bound
    assert value is None or bound is None or bound <= value * (1 + 1e-9), (value, bound)
    if result.best is not None and result.cost is not None:
        assert result.cost.legal
        roofline_text(workload, arch, result.cost)
        traffic_text(result.cost)
        mapping_text(workload, result.best, arch)
        explain(workload, arch, result.best, result.cost)
    if result.status == "OPTIMAL" and rng.random() < 0.5:
        _checked(result, workload, arch, objective, constraints)
    return result.status


def _checked(result: Any, workload: Workload, arch: Architecture, objective: str, rules: Any) -> None:
    verdict = pm.verify(result.certificate(), workload, arch, objective, constraints=rules, time_limit_s=5)
    assert not verdict.reason, verdict


def scored(workload: Workload, arch: Architecture, rng: random.Random) -> object:
    """Draw mappings, and score them together and one by one."""
    sample = pm.sample_mappings(workload, arch, 5, seed=rng.randrange(9))
    mappings = list(sample.mappings)
    scores = pm.space.score(workload, arch, mappings)
    for number, mapping in enumerate(mappings[:3]):
        cost = pm.evaluate(workload, arch, mapping, time_limit_s=1)
        assert float(scores.energy_pj[number]) == float(cost.energy_pj), (mapping, cost)
    return len(mappings)


def counted(workload: Workload, arch: Architecture, rng: random.Random) -> object:
    """Count one mapping, and an array of them."""
    mapping = plain_mapping(workload, arch, rng)
    cost = pm.evaluate(workload, arch, mapping, time_limit_s=1)
    assert cost.energy_pj >= 0
    pm.violations(workload, arch, mapping, time_limit_s=1)
    tiles = [node.tile for node in mapping.nodes if isinstance(node, Temporal | Spatial)]
    many = pm.evaluate_many(workload, arch, mapping, [tiles])
    assert float(many.energy_pj[0]) == float(cost.energy_pj)
    return cost.method


def asked(workload: Workload, arch: Architecture, rng: random.Random) -> tuple[Question, ...]:
    """Return the other questions."""
    inner = arch.levels[-1].name

    def mapping() -> Mapping:
        return plain_mapping(workload, arch, rng)

    return (
        ("compare", lambda: pm.compare(workload, arch, time_limit_s=0.5)),
        ("choose_tiles", lambda: pm.choose_tiles(workload, arch, time_limit_s=0.5)),
        ("buffer_curve", lambda: pm.study.buffer_curve(workload, arch, inner, [2**10, 2**31, 2**63], time_limit_s=1)),
        ("candidates", lambda: list(islice(pm.candidates(workload, arch, limit=3, time_limit_s=0.5), 3))),
        ("formula", lambda: pm.study.formula(workload, arch, mapping(), inner, workload.tensors[0].name)),
        ("generate_c", lambda: pm.generate_c(workload, arch, mapping())),
        ("neighbours", lambda: len(pm.space.neighbours(workload, arch, mapping()))),
        ("features", lambda: pm.space.features(workload, arch, mapping())),
        ("distance", lambda: pm.space.distance(workload, arch, mapping(), mapping())),
        ("burst_counts", lambda: pm.layouts.burst_counts(workload, arch, mapping())),
        ("dependences", lambda: pm.dependences(workload, time_limit_s=1)),
        ("to_timeloop", lambda: pm.to_timeloop(workload, arch, mapping())),
        ("sensitivity", lambda: pm.study.sensitivity(workload, arch, "energy", time_limit_s=1)),
        ("document", lambda: pm.io.workload_from_document(pm.io.workload_to_document(workload))),
        ("residency", lambda: residency_figure(workload, arch, mapping())),
    )


def ask(seed: int) -> tuple[str, object]:
    """Return what was asked, and the answer or the codes of the error."""
    rng = random.Random(seed)
    name = "workload"
    try:
        workload, arch = random_workload(rng), random_machine(rng)
        draw = rng.random()
        questions = (("explore", searched), ("score", scored), ("evaluate", counted))
        if draw < 0.6:
            name, question = questions[int(draw * 10) // 2 if draw >= 0.3 else 0]
            return name, question(workload, arch, rng)
        name, other = rng.choice(asked(workload, arch, rng))
        other()
    except pm.PolymapError as error:
        return name, tuple(mistake.code for mistake in error.mistakes)
    return name, "answered"


class TooLong(BaseException):
    """A question took many times its limit."""


def _ring(*_: object) -> None:
    raise TooLong


def _places(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename.split('polymap/')[-1]}:{frame.lineno}" for frame in frames[2:]]


def main(first: int, last: int, most_s: int = 6) -> None:
    signal.signal(signal.SIGPROF, _ring)
    warnings.simplefilter("error", RuntimeWarning)
    warnings.filterwarnings("ignore", message=".*energ.*")
    tally: Counter[str] = Counter()
    for seed in range(first, last):
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, most_s)
        try:
            name, _ = ask(seed)
            tally[name] += 1
        except TooLong as late:
            print(f"seed {seed}: over {time.process_time() - begun:.0f} CPU s at {_places(late)[:4]}", flush=True)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            print(f"seed {seed}: {type(error).__name__} {str(error)[:150]} at {_places(error)}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    print(sum(tally.values()), dict(tally))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
