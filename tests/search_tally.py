"""Random problems with long numbers: the optimum over dividing tiles against walking every legal tree.

`python -m tests.search_tally 2000 --state FILE` goes on where it stopped. Energies have one to nine digits, one extent
in two problems is up to a million, and objectives are single ones, weighted sums, orders and fronts; every fourth
problem has constraints. On one machine in three fan-outs cost energy, on every second of these all tensors may bypass
most levels. Where there are no constraints, the other ways to ask for dividing tiles are held to the answer, too.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir.mapping import Mapping, Spatial, Temporal
from polymap.search.problem.problem import analyse
from polymap.search.result import SearchResult
from polymap.tile_sizes import choose_tiles
from tests.case_machines import with_open_levels, with_wires
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import Problem, joined_objective, long_problem, random_problem

SECONDS = 120.0  # for one search
MOST_TREES = 20_000
MOST_WIRED = 6_000
ANY_SECONDS = 0.4  # of a search over tiles of any size, whose dividing answer is looked at


@dataclass(slots=True)
class Tally:
    """What was found so far. outcomes: by status, of a front by whether it is whole. wrong: seeds with what disagreed.
    features: how many problems have each."""

    problems: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    features: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class Question:
    """A problem, and what its mappings must meet besides (none: {})."""

    problem: Problem
    demands: Table


@dataclass(frozen=True, slots=True)
class Truth:
    """The least values of all trees that meet a question (None: there is none), of a front all of its points."""

    values: tuple[Fraction, ...] | None
    front: tuple[tuple[Fraction, ...], ...]


def question(seed: int) -> Question:
    """Return the question of a seed."""
    rng = random.Random(f"search tally {seed}")
    if seed % 6 in (0, 2):
        problem = wired_problem(rng)
    elif seed % 2:
        problem = long_problem(rng, most=MOST_TREES)
    else:
        problem = random_problem(rng, most=MOST_TREES, tiles="divide")
        if rng.random() < 0.3:
            objective = joined_objective(rng, problem.arch)
            features = problem.features | {objective.split(":")[0]}
            problem = Problem(problem.workload, problem.arch, objective, "divide", problem.legal, features)
    if seed % 4 > 1 and not problem.objective.startswith("pareto"):
        return Question(problem, random_demands(rng, problem.workload, problem.arch))
    return Question(problem, {})


def wired_problem(rng: random.Random) -> Problem:
    """Return a problem on a machine whose fan-outs cost energy, of those that the search over structures covers."""
    while True:
        problem = random_problem(rng, most=MOST_WIRED, tiles="divide")
        arch = with_open_levels(rng, problem.arch) if rng.random() < 0.5 else problem.arch
        arch = with_wires(rng, arch)
        if arch.has_wire_energies and analyse(problem.workload, arch).reason is None:
            objective = joined_objective(rng, arch) if rng.random() < 0.3 else problem.objective
            features = problem.features | {"wires", objective.split(":")[0]}
            return replace(problem, arch=arch, objective=objective, features=features)


def truth_of(asked: Question) -> Truth:
    """Return what walking all trees says."""
    problem = asked.problem
    given = problem.workload, problem.arch, problem.objective, "divide"
    rule: Callable[[Mapping], bool] | None = partial(_meets, asked) if asked.demands else None
    found = exhaustive(*given, meets=rule)
    assert found is not None
    assert problem.arch.has_wire_energies or problem.legal == found.legal  # its levels may be others by now
    return Truth(None if found.value is None else found.values, found.front)


def check(seed: int, tally: Tally) -> None:
    """Add the question of a seed to the tally."""
    asked = question(seed)
    problem, demands = asked.problem, asked.demands
    true = truth_of(asked)
    tally.problems += 1
    tally.features.update({*problem.features, *(["constraints"] if demands else [])})
    try:
        found = search(
            problem.workload,
            problem.arch,
            problem.objective,
            "divide",
            time_limit_s=SECONDS,
            constraints=demands or None,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
        tally.wrong.append(f"{seed}: {type(error).__name__}: {str(error)[:100]}")
        return
    tally.outcomes[found.status] += 1
    is_counted = not demands and not problem.arch.has_wire_energies  # else the levels may be others by now
    fault = _fault(found, true, legal=problem.legal if is_counted else None)
    if not fault and not demands:
        fault = _other_fault(problem, found)
    if fault:
        tally.wrong.append(f"{seed}: {fault}; search: {found.status} {found.value}, all trees: {true.values}")


def _meets(asked: Question, mapping: Mapping) -> bool:
    """Return whether a tree meets the constraints. Its tiles divide: its steps are those of its temporal loops."""
    extents = dict(asked.problem.workload.extents())
    steps = 1
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            steps *= extents[node.dim] // node.tile if isinstance(node, Temporal) else 1
            extents[node.dim] = node.tile
    return meets(asked.demands, asked.problem.workload, asked.problem.arch, mapping, steps)


def _fault(found: SearchResult, true: Truth, legal: int | None) -> str:
    """Return what is wrong with an answer ("" for nothing)."""
    space = found.space
    if legal is not None and space.legal != legal:
        return f"{space.legal} legal trees, {legal} were walked"
    if true.values is None:
        return "" if found.status == "INFEASIBLE" else "no tree meets the question"
    if found.status != "OPTIMAL" or found.best is None or found.value is None:
        return "nothing is proven"
    is_product = (space.listed, space.evaluated) == (None, 1)  # proven without a list of structures
    if not is_product and (space.listed is None or space.infeasible is None):
        return "the structures are not all known"
    if not is_product and space.evaluated + space.pruned + (space.infeasible or 0) != space.listed:
        return f"structures got lost: {space}"
    if [_values(point) for point in found.front] != [_floats(values) for values in true.front]:
        return "another front"
    return "" if _values(found) == _floats(true.values) else "another value"


def _other_fault(problem: Problem, found: SearchResult) -> str:
    """Return what is wrong with the other ways to ask for the same ("" for nothing): the tiles that are chosen without
    a report, and the dividing answer of a search over tiles of any size, which that never ends above."""
    asked = problem.workload, problem.arch, problem.objective
    if not problem.objective.startswith(("lex", "pareto")):
        chosen = choose_tiles(*asked, time_limit_s=SECONDS)
        value = None if chosen.value is None else float(chosen.value)
        if not chosen.is_proven or value != (None if found.value is None else float(found.value)):
            return f"chosen tiles: {chosen.value}, proven: {chosen.is_proven}"
    if "long" in problem.features:  # so many sizes of tiles that a moment is not enough
        return ""
    over_any = search(*asked, "any", time_limit_s=ANY_SECONDS, clock=time.process_time)
    for one in (over_any, over_any.dividing):
        if one is not None and one.bound is not None and one.value is not None and one.bound > one.value:
            return f"bound {one.bound} is above value {one.value}"
    divided = over_any.dividing
    if divided is not None and divided.status == "OPTIMAL" and _points(divided) != _points(found):
        return f"dividing tiles of any: {_points(divided)}"
    if divided is not None and divided.status == "INFEASIBLE" and found.status != "INFEASIBLE":
        return "dividing tiles of any: INFEASIBLE"
    if found.best is not None and not found.front and (over_any.best is None or _values(over_any) > _values(found)):
        return f"tiles of any size are worse: {_values(over_any)}"
    return ""


def _points(found: SearchResult) -> list[tuple[float, ...]]:
    return [_values(point) for point in found.front or (found,)]


def _values(found: SearchResult) -> tuple[float, ...]:
    return tuple(float(value) for _, value in found.values) or (float(found.value or 0),)


def _floats(values: tuple[Fraction, ...]) -> tuple[float, ...]:
    """Return exact values as they are printed: rounded once."""
    return tuple(float(value) for value in values)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random search problems with long numbers against all trees.")
    parser.add_argument("problems", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--state", type=Path, help="a file that keeps the tally: the next call goes on from there")
    options = parser.parse_args()
    return go_on(check, options.problems, options.first, options.state)


def go_on(add: Callable[[int, Tally], None], problems: int, first: int, state: Path | None) -> int:
    """Add the questions of so many seeds to a tally, which `state` keeps; return 1 where something is wrong."""
    tally, seconds = Tally(), 0.0
    if state and state.exists():
        kept = json.loads(state.read_text(encoding="utf-8"))
        seconds = kept["seconds"]
        tally = Tally(kept["problems"], Counter(kept["outcomes"]), list(kept["wrong"]), Counter(kept["features"]))
    told = time.monotonic()
    while tally.problems < problems:
        start = time.process_time()
        add(first + tally.problems, tally)
        seconds += time.process_time() - start
        if state:
            document = {"seconds": seconds, **{name: getattr(tally, name) for name in Tally.__slots__}}
            state.write_text(json.dumps(document), encoding="utf-8")
        if time.monotonic() - told > 10 or tally.problems == problems:
            told = time.monotonic()
            _tell(tally, seconds)
    for line in (*(f"{count:6} {name}" for name, count in sorted(tally.features.items())), *tally.wrong):
        sys.stdout.write(f"{line}\n")
    return 1 if tally.wrong else 0


def _tell(tally: Tally, seconds: float) -> None:
    outcomes = ", ".join(f"{count} {status}" for status, count in sorted(tally.outcomes.items()))
    sys.stdout.write(f"{tally.problems} problems: {outcomes}; {len(tally.wrong)} wrong; {seconds:.0f} CPU s\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
