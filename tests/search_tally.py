"""Random problems with long numbers: the optimum over dividing tiles against walking every legal tree.

`python -m tests.search_tally 2000 --state FILE` goes on where it stopped. Energies have one to nine digits, one extent
in two problems is up to a million, and objectives are single ones, weighted sums, orders and fronts; every fourth
problem has constraints.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

from polymap.explore import search
from polymap.ir.mapping import Mapping, Spatial, Temporal
from polymap.search.enumeration.trees import ExhaustiveResult, exhaustive
from polymap.search.run.result import SearchResult
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import Problem, joined_objective, long_problem, random_problem

SECONDS = 120.0  # for one search
MOST_TREES = 20_000


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


def question(seed: int) -> Question:
    """Return the question of a seed."""
    rng = random.Random(f"search tally {seed}")
    if seed % 2:
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


def check(seed: int, tally: Tally) -> None:
    """Add the question of a seed to the tally."""
    asked = question(seed)
    problem, demands = asked.problem, asked.demands
    rule: Callable[[Mapping], bool] | None = partial(_meets, asked) if demands else None
    true = exhaustive(problem.workload, problem.arch, problem.objective, "divide", meets=rule)
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
    assert true is not None
    tally.outcomes[found.status] += 1
    fault = _fault(problem, found, true, legal=None if demands else problem.legal)
    if fault:
        tally.wrong.append(f"{seed}: {fault}; search: {found.status} {found.value}, all trees: {true.value}")


def _meets(asked: Question, mapping: Mapping) -> bool:
    """Return whether a tree meets the constraints. Its tiles divide: its steps are those of its temporal loops."""
    extents = dict(asked.problem.workload.extents())
    steps = 1
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            steps *= extents[node.dim] // node.tile if isinstance(node, Temporal) else 1
            extents[node.dim] = node.tile
    return meets(asked.demands, asked.problem.workload, asked.problem.arch, mapping, steps)


def _fault(problem: Problem, found: SearchResult, true: ExhaustiveResult, legal: int | None) -> str:
    """Return what is wrong with an answer ("" for nothing)."""
    space = found.space
    if legal is not None and not space.legal == true.legal == legal:
        return f"{space.legal} legal trees, {true.legal} were walked"
    if true.value is None:
        return "" if found.status == "INFEASIBLE" else "no tree meets the question"
    if found.status != "OPTIMAL" or found.best is None or found.value is None:
        return "nothing is proven"
    if space.listed is None or space.infeasible is None:
        return "the structures are not all known"
    if space.evaluated + space.pruned + space.infeasible != space.listed:
        return f"structures got lost: {space}"
    if [_values(point) for point in found.front] != [_floats(values) for values in true.front]:
        return "another front"
    return "" if _values(found) == _floats(true.values) else "another value"


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
