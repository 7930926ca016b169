"""One to thirty dims, extents up to 10^30: too large to walk. The checker, a second prover and a law are the referees.

Whatever a search calls optimal, the checker of certificates proves and CP-SAT confirms (where each knows the question);
multiplied energies change neither the status nor the mapping; and a mapping always comes with an exact cost.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import pytest

from polymap import verify
from polymap.costmodel.evaluation import evaluate
from polymap.explore import search
from polymap.ir.errors import OptionError, PolymapError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.resources.limits import OutOfTime
from polymap.search.answer import number_of
from polymap.search.dividing import bounds as bound
from polymap.search.dividing.branch_and_bound import BoundTables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.node_costs import root_context
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of, objective_value
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import enumerate_structures
from polymap.search.result import SearchResult
from polymap.workload.einsums import einsum
from tests.referee.problems import lengthened, scaled
from tests.second_prover.prover import second_proof
from tests.times import few

_EXTENTS = (1, 2, 2, 3, 5, 7, 7, 9, 12, 16, 97, 1009, 65_536, 999_983, 2**61 - 1, 10**30 + 57)
_SECONDS = 1.0  # of CPU time
_OBJECTIVES = ("energy", "ed2p", "edp", "latency", "traffic:DRAM", "weighted:2*energy+1/3*latency")
_SMALL = 1 << 40  # statement instances up to which the second prover knows its numbers to fit


@dataclass(frozen=True, slots=True)
class _Case:
    workload: Workload
    arch: Architecture
    objective: str


def _case(seed: int) -> _Case:
    rng = random.Random(f"dims {seed}")
    dims = [f"d{number}" for number in range(rng.choice((1, 2, 3, 3, 4, 5, 6, 8, 12, 15, 18, 20, 25, 30)))]
    sizes = {dim: rng.choice(_EXTENTS) if len(dims) < 6 or rng.random() < 0.1 else 7 for dim in dims}
    if rng.random() < 0.5:
        sizes = {dim: rng.choice(_EXTENTS[:9]) if size == 7 else size for dim, size in sizes.items()}
    names = ["C", "A", "B"][: rng.choice((2, 3, 3))]
    index = {name: [dim for dim in dims if rng.random() < 0.6] for name in names}
    index["A"] += [dim for dim in dims if not any(dim in own for own in index.values())]
    text = " * ".join(f"{name}[{','.join(index[name])}]" for name in names[1:])
    workload = einsum(f"C[{','.join(index['C'])}] += {text}", bits=rng.choice((4, 8, 16)), sizes=sizes)
    return _Case(workload, _machine(rng, workload), rng.choice(_OBJECTIVES))


def _machine(rng: random.Random, workload: Workload) -> Architecture:
    sizes = sorted(tensor.bits * prod(tensor.shape) for tensor in workload.tensors)
    nodes: list[Node] = [_level(rng, "DRAM", 100, None)]
    if rng.random() < 0.6:
        nodes.append(_level(rng, "L2", 6, max(64, rng.choice(sizes) // rng.choice((1, 2, 3, 50)))))
    if rng.random() < 0.7:
        nodes.append(Fanout("X", rng.choice((2, 7, 16)), rng.choice(tuple(Multicast)), rng.random() < 0.7))
    nodes.append(_level(rng, "L1", 1, rng.choice((64, 512, 4096, max(64, sizes[0])))))
    return Architecture(
        "random", (*nodes, ComputeUnit("MAC", lengthened(rng, Fraction(1)))), overlap=rng.random() < 0.8
    )


def _level(rng: random.Random, name: str, energy: int, capacity_bits: int | None) -> MemoryLevel:
    read, write = (lengthened(rng, Fraction(energy)) for _ in range(2))
    bandwidth = rng.choice((None, Fraction(64), Fraction(24)))
    return MemoryLevel(
        name, capacity_bits, rng.choice((8, 16, 24, 64)), read, write, bandwidth_bits_per_cycle=bandwidth
    )


def _searched(case: _Case, arch: Architecture) -> SearchResult:
    return search(case.workload, arch, case.objective, "divide", time_limit_s=_SECONDS, clock=time.process_time)


def _check(seed: int) -> tuple[str, bool, bool]:
    """Hold one answer against its referees; return its status, and whether the checker and CP-SAT had a say."""
    case = _case(seed)
    found = _searched(case, case.arch)
    told = f"{seed} {case}\n{found.status} {found.value} {found.space}"
    assert found.value is not None or found.status in ("INFEASIBLE", "TIMEOUT"), told
    if found.best is not None and found.value is not None:
        goal = parse_objective(case.objective, case.arch)
        cost = evaluate(case.workload, case.arch, found.best)
        assert cost.legal, told
        assert found.value == number_of(goal, objective_value(case.workload, case.arch, goal, cost)), told
    _check_scaled(seed, case, found)
    if found.status != "OPTIMAL":
        return found.status, False, False
    space = found.space
    if space.listed is None:  # too large for tables: a mapping that moves no more than any must
        assert found.bound == found.value, told
        return found.status, False, False
    assert space.evaluated + space.pruned + (space.infeasible or 0) == space.listed, told
    return found.status, _check_certificate(found, told), _check_second(case, found, told)


def _check_scaled(seed: int, case: _Case, found: SearchResult) -> None:
    """Multiplied energies change no status and no mapping of a search that ended by itself."""
    rng = random.Random(seed)
    by = Fraction(rng.randrange(1, 10**20), rng.randrange(1, 10**9))
    if "weighted" in case.objective or found.status not in ("OPTIMAL", "INFEASIBLE"):
        return
    other = _searched(case, scaled(case.arch, by))
    if other.status in ("FEASIBLE", "TIMEOUT"):  # longer numbers take longer: the limit ended it
        return
    assert (other.status, other.best) == (found.status, found.best), f"{seed} {case}"
    assert other.space.listed == found.space.listed


def _check_certificate(found: SearchResult, told: str) -> bool:
    try:
        text = found.certificate()
    except PolymapError:  # numbers beyond the checker's
        return False
    verdict = verify(text, time_limit_s=20)
    assert verdict.proven or "time" in verdict.reason, f"{told}\n{verdict}"
    return verdict.proven


def _check_second(case: _Case, found: SearchResult, told: str) -> bool:
    if prod(case.workload.extents().values()) > _SMALL or len(case.workload.dims) > 6:
        return False
    goal = parse_objective(case.objective, case.arch)
    assert found.best is not None
    value = objective_value(case.workload, case.arch, goal, evaluate(case.workload, case.arch, found.best))
    try:
        assert second_proof(case.workload, case.arch, case.objective, claimed=value).value == value, told
    except OptionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("batch", few(range(4), 1))
def test_answers_with_many_dims_and_huge_extents_are_right(batch: int) -> None:
    told = [_check(seed) for seed in range(8 * batch, 8 * batch + 8)]
    assert sum(status == "OPTIMAL" for status, _, _ in told) >= 2
    assert sum(proven for _, proven, _ in told) >= 1


def test_long_steps_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least costs over large tables once took as long as they took: 55 s of 10 where numbers were Python's own."""
    case = _case(11)
    problem = analyse(case.workload, case.arch)
    measure = measure_of(parse_objective(case.objective, case.arch), case.workload, case.arch)
    (structure, *_), _ = enumerate_structures(problem, lambda: False)
    looks: list[bool] = []

    def stop() -> bool:
        looks.append(True)
        return len(looks) == 3

    tables = build_tables(problem, structure, measure, root_context(problem, structure), stop)
    _ = BoundTables(tables).insides
    assert looks == []
    monkeypatch.setattr(bound, "TUNING", replace(TUNING, long_table=0))
    with pytest.raises(OutOfTime):
        _ = BoundTables(tables).insides
    assert len(looks) == 3


def test_primes_beyond_the_checker_have_no_certificate_and_are_told() -> None:
    prime = 10**30 + 57
    found = search(einsum("s[] += A[k]", k=prime), _case(11).arch, "energy", "divide")
    assert found.status == "OPTIMAL"
    with pytest.raises(OptionError, match=r"PM515.*so long that it is not known to be prime"):
        found.certificate()
