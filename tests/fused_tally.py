"""Random trees with branches counted by every counter: closed form, table of tiles, sets, the generated program's own
counters, and the simulator, which they must equal.

`python -m tests.fused_tally FIRST LAST [--sets-every K] [--programs-every K] [--tables-every K]`: chains of two to
five nests of `tests.referee.test_fused_counts` (shared dims, nodes in several children, ragged tiles, windows, spatial
loops, temporaries, several readers) in random trees, by seed. Prints how many each counter counted, and the seeds that
one counts wrongly; exit code 1 if there are any. Programs are also held to their results, where the tree is legal.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from polymap.codegen.run import generate_c, run_source
from polymap.costmodel.closed_form import loops_of_tree
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees import count_by_simulation
from polymap.costmodel.referees.set_counts import counts_of_sets
from polymap.costmodel.tables.cost_arrays import evaluate_many
from polymap.ir.errors import BudgetError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.poly import within
from tests.referee.test_fused_counts import fused_case, other_tiles, wrong_rows

FAST = ("-std=c99", "-O0", "-fwrapv")
Case = tuple[Workload, Architecture, Mapping]


def right_by_program(case: Case, truth: Counts, seed: int) -> bool:
    """Return whether the generated program counts as the simulator, and computes what the workload says."""
    work, arch, mapping = case
    run = run_source(work, arch, generate_c(work, arch, mapping), FAST, seed=seed)
    counted = (run.counted, run.steps, run.instances) == (truth.traffic, truth.steps, truth.instances)
    return counted and (run.matches_reference or not evaluate(work, arch, mapping).legal)


def outcomes(seed: int, *, sets: bool, program: bool, table: bool) -> Iterator[tuple[str, bool | None]]:
    """Yield counters and whether each counts the tree of a seed rightly; None where it gives no answer."""
    rng = random.Random(f"fused {seed}")
    case = fused_case(rng)
    truth = count_by_simulation(*case)
    found = count_closed_form(*case)
    yield "closed form", None if found is None else found == truth
    if sets:
        try:
            yield "sets", within(60, "counting with sets", counts_of_sets, *case) == truth
        except BudgetError:
            yield "sets", None
    if program:
        yield "program", right_by_program(case, truth, seed)
    if table and list(loops_of_tree(case[2].nodes)):
        tiles = other_tiles(rng, case, 6)
        yield "table", not wrong_rows(case, tiles, evaluate_many(*case, tiles))


def main() -> int:
    parser = argparse.ArgumentParser(description="Random fused trees, counted by every counter.")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    for name, every in (("sets", 4), ("programs", 20), ("tables", 4)):
        parser.add_argument(f"--{name}-every", type=int, default=every, help="every K-th seed; 0: none")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    tally: Counter[tuple[str, bool | None]] = Counter()
    often = {"sets": given.sets_every, "program": given.programs_every, "table": given.tables_every}
    begin, trees = time.monotonic(), 0
    for seed in range(given.first, given.last):
        if time.monotonic() - begin > given.seconds:
            break
        due = {name: bool(every) and seed % every == 0 for name, every in often.items()}
        for counter, is_right in outcomes(seed, **due):
            tally[counter, is_right] += 1
            if is_right is False:
                print(f"WRONG: seed {seed}, {counter}", flush=True)
        trees += 1
    print(f"{trees:,} random fused trees, seeds {given.first} to {given.first + trees - 1}")
    for counter in ("closed form", "sets", "program", "table"):
        equal, wrong, none = (tally[counter, is_right] for is_right in (True, False, None))
        print(f"{counter:12} {equal:,} equal to the simulator, {wrong:,} wrong, {none:,} left to others")
    return 1 if any(is_right is False for _, is_right in tally) else 0


if __name__ == "__main__":
    sys.exit(main())
