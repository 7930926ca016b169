"""The mutation score of cost model, search and checker: which share of small deliberate mistakes the tests notice.

Cosmic Ray makes the mistakes, runs the tests and keeps the session (`cr-report` and `cr-html` read it); what stands
here draws the sample and says which tests judge which package. A draw takes a module with a probability proportional
to its lines, in it a place where Cosmic Ray's operators can change something, and one change there. The quick tests of
its package judge it; with --survivors, all quick tests judge again what those let pass.
A run that is interrupted goes on where it was, as long as the mutated sources and the sample are the same.
Run: python -m tests.mutants [--mutants N] [--seed S] [--package PART] [--report | --survivors]
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkItem, WorkResult

ROOT = Path(__file__).parents[1]
ROOMS = ("polymap/search", "polymap/costmodel", "polymap/resources", "polymap/checker")
CPU_SECONDS = 60  # of a mutant
WALL_SECONDS = 1200
MEMORY_KIB = 8 << 20
OUT_OF_TIME = "out of time"

UNIT, PROPERTY, REFEREE, PUBLISHED = "tests/unit/", "tests/property/", "tests/referee/", "tests/published/"
# What a package maps to: the longest name that a module's path begins with.
TESTS: dict[str, tuple[str, ...]] = {
    "polymap/checker": (
        UNIT + "checker", REFEREE + "test_checker.py", REFEREE + "test_certificate_fields.py",
        REFEREE + "test_wired_certificates.py", REFEREE + "test_program_certificates.py", REFEREE + "test_forgeries.py",
    ),
    "polymap/costmodel": (
        UNIT + "costmodel/test_assemble.py", UNIT + "costmodel/test_counting.py", PROPERTY + "test_stale_copies.py",
        PROPERTY + "test_bounds.py", UNIT + "costmodel/test_footprint.py", UNIT + "costmodel/test_crossover.py",
        UNIT + "costmodel/test_dataflow.py", UNIT + "costmodel/test_buffer_bound.py", UNIT + "report",
        PUBLISHED + "test_roofline.py", UNIT + "test_studies.py",
    ),
    "polymap/costmodel/closed_form": (
        UNIT + "costmodel/test_closed_form.py", UNIT + "costmodel/test_progression.py",
        PROPERTY + "test_closed_form.py", PROPERTY + "test_closed_form_chains.py", PROPERTY + "test_laws.py",
        UNIT + "costmodel/test_symbolic.py", UNIT + "costmodel/test_crossover.py",
    ),
    "polymap/costmodel/closed_form/branch": (
        UNIT + "costmodel/test_closed_form.py", REFEREE + "test_fused_counts.py", REFEREE + "test_branches.py",
    ),
    "polymap/costmodel/referees": (
        UNIT + "costmodel/test_sets.py", REFEREE + "test_sets_equal_simulator.py",
        UNIT + "costmodel/test_simulate.py", PROPERTY + "test_simulator_laws.py", PROPERTY + "test_closed_form.py",
        PROPERTY + "test_walker.py",
    ),
    "polymap/costmodel/tables": (
        UNIT + "costmodel/test_batch.py", PROPERTY + "test_batch.py", PROPERTY + "test_batch_factors.py",
        PROPERTY + "test_closed_form_chains.py",
    ),
    "polymap/search/dividing": (
        UNIT + "search/dividing", UNIT + "search/test_dividing_bounds.py",
        UNIT + "search/test_windows.py", UNIT + "search/test_apart.py",
        REFEREE + "test_search_equals_exhaustive.py",
        PROPERTY + "test_seeded_search_bugs.py", REFEREE + "test_second_prover.py", REFEREE + "test_checker.py",
    ),
    "polymap/search/enumeration": (
        UNIT + "search/test_exhaustive.py", REFEREE + "test_search_equals_exhaustive.py",
        REFEREE + "test_second_prover.py",
    ),
    "polymap/search/local": (
        UNIT + "search/test_climb.py", UNIT + "search/test_phases.py",
        UNIT + "search/test_rules.py",
    ),
    "polymap/search/problem": (
        UNIT + "search/objective", UNIT + "search/test_objective.py", UNIT + "search/test_floor.py",
        UNIT + "search/test_rules.py", PROPERTY + "test_bounds.py", UNIT + "search/problem",
        UNIT + "search/test_lattice.py", UNIT + "search/test_structure.py",
        UNIT + "search/test_structure_model.py",
        UNIT + "search/test_goals.py", UNIT + "search/test_infeasible.py", UNIT + "search/test_constraints.py",
        REFEREE + "test_structures_equal_exhaustive.py",
    ),
    "polymap/search/any_size": (
        REFEREE + "test_product_bounds.py", REFEREE + "test_sibling_bounds.py", REFEREE + "test_joint_bound.py",
    ),
    "polymap/resources": (
        UNIT + "search/resources", UNIT + "search/test_worker_pool.py", UNIT + "search/test_workers.py",
        UNIT + "search/test_resume.py",
    ),
    "polymap/search": (
        UNIT + "search/test_front_bounds.py", REFEREE + "test_any_size_equals_exhaustive.py", UNIT + "checker",
        UNIT + "search",
    ),
}  # fmt: skip
# Changes that no value of ours tells apart: numbers and enumerations are equal where they are identical, and a cache
# that is left out changes nothing but the time.
SAME = ("Eq_Is", "Is_Eq", "NotEq_IsNot", "IsNot_NotEq", "RemoveDecorator")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. item: Cosmic Ray's, with its module, operator and position."""

    item: WorkItem

    @property
    def path(self) -> str:
        return self.item.mutations[0].module_path.as_posix()

    @property
    def package(self) -> str:
        return str(Path(self.path).parent)

    def __str__(self) -> str:
        spec = self.item.mutations[0]
        line, column = spec.start_pos
        return f"{self.path}:{line}:{column + 1} {spec.operator_name.removeprefix('core/')} #{spec.occurrence}"


def drawn(count: int, seed: int) -> Counter[Path]:
    """Return how many mutants of a seed each module has: one draw each, in proportion to its lines."""
    paths = [path for room in ROOMS for path in sorted(Path(room).rglob("*.py")) if path.name != "__init__.py"]
    lines = [len(path.read_text().splitlines()) for path in paths]
    return Counter(random.Random(seed).choices(paths, lines, k=count))


def sample(path: Path, count: int, seed: int) -> list[WorkItem]:
    """Return the mutants of a seed in a module: a place each, and one change there."""
    draw = random.Random(f"{seed} {path.as_posix()}")
    places = _places(path)
    chosen = [draw.choice(place) for place in draw.sample(places, min(count, len(places)))]
    return [WorkItem(f"{path.as_posix()} {n}", mutant.item.mutations) for n, mutant in enumerate(chosen)]


def _places(path: Path) -> list[list[Mutant]]:
    """Return what Cosmic Ray can change in a module, grouped by where it stands."""
    with use_db(":memory:") as scratch:
        init([path], scratch, {})
        items = list(scratch.work_items)
    silent = _silent(ast.parse(path.read_text()))
    grouped: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for item in items:
        spec = item.mutations[0]
        kept = not any(begin <= spec.start_pos < end for begin, end in silent)
        if kept and not spec.operator_name.endswith(SAME):
            grouped[spec.start_pos].append(Mutant(item))
    return [sorted(grouped[place], key=str) for place in sorted(grouped)]


def _silent(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return from where to where stands what does nothing when all is well: types, assertions, the text of an error,
    and zip's `strict`."""
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                parts = [annotation]
            case ast.FunctionDef(returns=returns, decorator_list=decorators):
                parts = [returns, *decorators]
            case ast.Assert() | ast.Raise() | ast.keyword(arg="strict"):
                parts = [node]
            case _:
                pass
        for part in parts:
            if isinstance(part, ast.expr | ast.stmt | ast.keyword):
                end = (part.end_lineno or part.lineno, part.end_col_offset or 0)
                found.append(((part.lineno, part.col_offset), end))
    return found


def judges(path: str) -> tuple[str, ...]:
    """Return the tests of a module's package, most telling first."""
    return TESTS[max((prefix for prefix in TESTS if path.startswith(prefix)), key=len)]


def _command(words: Iterable[str], seconds: int) -> str:
    """Return the command that ends with 0 where tests pass within the limits."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    run = f"(ulimit -t {seconds} -v {MEMORY_KIB}; {shlex.join((*pytest, '-m', 'not slow and not soak', *words))})"
    # 128 + SIGXCPU, and 128 + SIGKILL where that was not heard.
    last = f"code=$?; case $code in 152|137) echo '{OUT_OF_TIME}';; esac; exit $code"
    return shlex.join(("sh", "-c", f"{run}; {last}"))


def outcome(result: WorkResult) -> str:
    """Return caught, survived, timeout, or broken (Cosmic Ray could not run it)."""
    if result.test_outcome is TestOutcome.SURVIVED:
        return "survived"
    if result.test_outcome is not TestOutcome.KILLED:
        return "broken"
    output = (result.output or "").strip()
    return "timeout" if output == "timeout" or output.endswith(OUT_OF_TIME) else "caught"


def copied(folder: Path) -> None:
    """Write a copy of the repository's sources, in which the mistakes are made."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("polymap", "tests", "docs", "notebooks", "benchmarks", "examples"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder / path.name)


def execute(session: WorkDB, asked: Iterable[WorkItem], every: tuple[str, ...]) -> None:
    """Judge mutants in order, by these tests (none: their packages'), after all have passed without a mistake."""
    mutants = [Mutant(item) for item in asked]
    names = every or sorted({name for mutant in mutants for name in judges(mutant.path)})
    found, output = run_tests(_command(names, WALL_SECONDS), WALL_SECONDS)
    if found is not TestOutcome.SURVIVED:
        sys.exit(f"the tests fail without a mistake:\n{output}")
    for number, mutant in enumerate(mutants, start=1):
        begin = time.monotonic()
        result = mutate_and_test(
            mutant.item.mutations, _command(every or judges(mutant.path), CPU_SECONDS), WALL_SECONDS
        )
        session.set_result(mutant.item.job_id, result)
        took = time.monotonic() - begin
        print(f"{number:4} of {len(mutants)} {outcome(result):8} {took:6.1f} s  {mutant}", flush=True)


def report(session: WorkDB) -> None:
    """Print the counts of every package and of all, and the mutants that no test noticed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors: list[str] = []
    for item, result in session.completed_work_items:
        mutant, found = Mutant(item), outcome(result)
        for name in (mutant.package, "all"):
            counts[name][found] += 1
        if found in ("survived", "broken"):
            survivors.append(f"{found}: {mutant}\n{_changed(result)}")
    print(f"{'package':36} caught survived timeout broken  score")
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        own = counts[name]
        judged = own["caught"] + own["survived"]
        score = f"{own['caught'] / judged:6.1%}" if judged else "     -"
        print(f"{name:36} {own['caught']:6} {own['survived']:8} {own['timeout']:7} {own['broken']:6} {score}")
    print(f"{session.num_work_items - session.num_results} not judged yet\n")
    print("\n".join(sorted(survivors)))


def _changed(result: WorkResult) -> str:
    lines = (result.diff or "").splitlines()
    return "\n".join(f"    {line}" for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def main() -> int:
    parser = argparse.ArgumentParser(description="The mutation score of cost model, search and checker.")
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", default="", help="judge only modules whose path holds this")
    parser.add_argument("--report", action="store_true", help="print what is known and run nothing")
    parser.add_argument("--survivors", action="store_true", help="judge again what survived, by all quick tests")
    asked = parser.parse_args()
    os.chdir(ROOT)
    texts = [path.read_bytes() for room in ROOMS for path in sorted(Path(room).rglob("*.py"))]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
    folder = ROOT / "out" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    with use_db(str(folder / f"{digest}-{asked.seed}-{asked.mutants}.sqlite")) as session:
        if not asked.report:
            known = {Mutant(item).path for item in session.work_items}
            for path, count in drawn(asked.mutants, asked.seed).items():
                if asked.package in path.as_posix() and path.as_posix() not in known:
                    session.add_work_items(sample(path, count, asked.seed))
            results = {item.job_id: outcome(result) for item, result in session.completed_work_items}
            again: set[str | None] = {"survived", "broken"} if asked.survivors else set()
            items = sorted(session.work_items, key=lambda item: item.job_id)
            items = [item for item in items if asked.package in Mutant(item).path]
            with tempfile.TemporaryDirectory() as copy:
                copied(Path(copy))
                os.chdir(copy)
                os.environ["PYTHONPATH"] = copy
                wanted = again or {None}
                execute(
                    session,
                    [item for item in items if results.get(item.job_id) in wanted],
                    ("tests",) if again else (),
                )
                os.chdir(ROOT)
        report(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
