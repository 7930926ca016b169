"""The mutation score of polymap/costmodel: which share of small deliberate mistakes the tests notice.

A sample, drawn with a fixed seed from all mistakes of these kinds: a comparison, an arithmetic or a boolean operator
exchanged, a number one larger, a condition turned round, min and max exchanged, a statement left out. Each mistake is
made in a copy of the library, and the tests of its module run until the first fails. A mistake that makes them run out
of time or memory counts as noticed.
Run: python -m tests.mutation [--mutants N] [--seed S] [--module PART] [--only ID ...] [--list]
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOM = Path("polymap/costmodel")
CPU_SECONDS = 150
MEMORY_BYTES = 6 << 30
# Loaded once, before the mistakes: what the tests import besides the library.
HEAVY = ("numpy", "islpy", "sympy", "hypothesis", "pycparser", "ortools.sat.python.cp_model")

UNIT, PROPERTY, PUBLISHED = "tests/unit/costmodel/", "tests/property/", "tests/published/"
CLOSED_FORM = (
    UNIT + "test_closed_form.py", UNIT + "test_assemble.py", UNIT + "test_progression.py",
    UNIT + "test_large_numbers.py", PROPERTY + "test_closed_form.py", PROPERTY + "test_laws.py",
    PROPERTY + "test_closed_form_layers.py", "tests/test_bad_input.py",
)  # fmt: skip
TESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("batch", (UNIT + "test_batch.py", PROPERTY + "test_batch.py", PROPERTY + "test_batch_factors.py")),
    ("sets", (UNIT + "test_sets.py", "tests/referee/test_sets_equal_simulator.py", PROPERTY + "test_c_programs.py")),
    ("simulate", (UNIT + "test_simulate.py", PROPERTY + "test_simulator_laws.py", PROPERTY + "test_closed_form.py",
                  "tests/referee/test_sets_equal_simulator.py")),
    ("symbolic", (UNIT + "test_symbolic.py", UNIT + "test_crossover.py", UNIT + "test_large_numbers.py",
                  PUBLISHED + "test_small_convolution.py")),
    ("crossover", (UNIT + "test_crossover.py", PUBLISHED + "test_small_convolution.py")),
    ("dataflow", (UNIT + "test_dataflow.py", "tests/unit/report")),
    ("roofline", (PUBLISHED + "test_roofline.py", "tests/unit/report")),
    ("footprint", (UNIT + "test_footprint.py", PUBLISHED + "test_convolutions.py", PUBLISHED + "test_roofline.py")),
    ("bounds", (PUBLISHED + "test_roofline.py", UNIT + "test_footprint.py", PROPERTY + "test_laws.py")),
    ("buffer_bound", ("tests/unit/test_studies.py",)),
    ("", CLOSED_FORM),
)  # fmt: skip

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
SILENT = ast.Assert | ast.Raise | ast.Import | ast.ImportFrom  # statements that are not looked into
CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake. number: its place among those of its file."""

    path: Path
    number: int
    line: int
    what: str

    @property
    def name(self) -> str:
        return f"{self.path.stem}:{self.number}"

    def __str__(self) -> str:
        return f"{self.name} {self.path}:{self.line} {self.what}"


def mistakes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Callable[[], None]]]:
    """Yield (node, what is changed, the change) in a fixed order; a change is made in the tree itself."""
    for node in _code(tree):
        match node:
            case ast.Compare(ops=ops):
                for place, op in enumerate(ops):
                    other = COMPARISONS[type(op)]
                    yield node, f"{type(op).__name__} -> {other.__name__}", _put(ops, place, other())
            case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
                other = ARITHMETIC[type(op)]
                yield node, f"{type(op).__name__} -> {other.__name__}", _set(node, "op", other())
            case ast.BoolOp(op=op):
                other = ast.Or if isinstance(op, ast.And) else ast.And
                yield node, f"{type(op).__name__} -> {other.__name__}", _set(node, "op", other())
            case ast.Constant(value=bool(value)):
                yield node, f"{value} -> {not value}", _set(node, "value", not value)
            case ast.Constant(value=int(value)):
                yield node, f"{value} -> {value + 1}", _set(node, "value", value + 1)
            case ast.Call(func=ast.Name(id=name) as function) if name in CALLS:
                yield node, f"{name} -> {CALLS[name]}", _set(function, "id", CALLS[name])
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield node, "condition turned round", _set(node, "test", ast.UnaryOp(ast.Not(), test))
            case _:
                pass
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            for place, statement in enumerate(block if isinstance(block, list) else ()):
                if _may_be_left_out(node, statement):
                    left_out = ast.copy_location(ast.Pass(), statement)
                    yield statement, f"left out: {ast.unparse(statement)[:60]!r}", _put(block, place, left_out)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that do something: no annotations, decorators, texts, slots, assertions, nor zip's strict."""
    yield tree
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, SILENT):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in ("__slots__", "__all__"):
                continue
            yield from _code(child)


def _may_be_left_out(parent: ast.AST, statement: ast.stmt) -> bool:
    """Return whether leaving a statement out is a mistake that is not found by merely importing the module."""
    if isinstance(parent, ast.Module | ast.ClassDef):
        return False
    if isinstance(statement, ast.Raise):  # a belief that is written as an exception is an assertion
        return not ast.unparse(statement).startswith("raise AssertionError")
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.AugAssign | ast.Continue | ast.Break | ast.Assign)


def _put(block: list[object], place: int, value: object) -> Callable[[], None]:
    return lambda: block.__setitem__(place, value)


def _set(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def mutants(part: str) -> list[Mutant]:
    """Return all mistakes that can be made in the modules whose name holds `part`."""
    found: list[Mutant] = []
    for path in sorted((ROOT / ROOM).glob("*.py")):
        if part in path.stem:
            tree = ast.parse(path.read_text())
            here = ROOM / path.name
            found += [
                Mutant(here, number, getattr(node, "lineno", 0), what)
                for number, (node, what, _) in enumerate(mistakes(tree))
            ]
    return found


def mutated(mutant: Mutant) -> str:
    """Return the module's text with the mistake in it."""
    tree = ast.parse((ROOT / mutant.path).read_text())
    change = next(change for number, (_, _, change) in enumerate(mistakes(tree)) if number == mutant.number)
    change()
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    return next(tests for prefix, tests in TESTS if mutant.path.stem.startswith(prefix))


def survives(copy: Path, tests: tuple[str, ...]) -> bool:
    """Return whether all tests pass in the copy, run in a process of their own."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        sys.dont_write_bytecode = True
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        options += ["-m", "not slow and not soak"]
        code = pytest.main(options + list(tests))
        os._exit(int(code))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="The mutation score of polymap/costmodel.")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", default="", help="only modules whose name holds this")
    parser.add_argument("--only", nargs="*", default=(), help="only these, as MODULE:NUMBER")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    asked = parser.parse_args()
    every = mutants(asked.module)
    chosen = random.Random(asked.seed).sample(every, min(asked.mutants, len(every)))
    if asked.only:
        chosen = [mutant for mutant in every if mutant.name in asked.only]
    if asked.list:
        for mutant in chosen:
            print(mutant)
        return 0
    for name in HEAVY:
        importlib.import_module(name)
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("polymap", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        for selection in {tests_of(mutant) for mutant in chosen}:
            if not survives(copy, selection):
                sys.exit(f"the tests fail without a mistake: {' '.join(selection)}")
        for number, mutant in enumerate(chosen, start=1):
            begin = time.monotonic()
            (copy / mutant.path).write_text(mutated(mutant))
            survived = survives(copy, tests_of(mutant))
            shutil.copy(ROOT / mutant.path, copy / mutant.path)
            survivors += [mutant] if survived else []
            outcome = "SURVIVED" if survived else "noticed"
            took = time.monotonic() - begin
            print(f"{number:4} {outcome:8} {took:6.1f} s  {mutant}", flush=True)
    noticed = len(chosen) - len(survivors)
    print(f"\n{noticed} of {len(chosen)} mistakes noticed ({noticed / len(chosen):.1%}), drawn from {len(every):,}")
    for mutant in survivors:
        print(f"survived: {mutant}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / 60:.1f} CPU minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
