"""The mutation score of a package: which share of small deliberate mistakes its tests notice.

A draw takes a module with a probability proportional to its lines, in it a place in a function where an operator, a
number, a condition or a loop can change, and one change there. pytest collects the tests of the package once and notes
what each takes and calls; a fork of it exchanges the code of the changed function and runs the tests that call it until
one fails: first those that noticed other mistakes in the module, then the cheapest, as many as take --seconds without a
mistake. With --survivors, what survived is judged again, without that limit. A run that is interrupted goes on where it
was while polymap's sources are the same.
Run: python -m tests.mutants [PACKAGE] [--mutants N] [--seed S] [--seconds T] [--report | --survivors]
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import hashlib
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("polymap/search", "polymap/costmodel", "polymap/resources", "polymap/checker")
OUT_OF_TIME = 3  # times what the tests take without a mistake
WALL_SECONDS = 900  # of a mutant: it may wait for a process that never answers
MEMORY_BYTES = 8 << 30
MORE_SECONDS = 10  # what a test may take above its own measure
OPTIONS = ("--mutants", "--mutants-state", "--mutants-seconds", "--mutants-runs")
FUNCTION = 0x2  # inspect.CO_NEWLOCALS: the code of a function, not of a class or a module

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
        UNIT + "costmodel/test_digits.py", PROPERTY + "test_wires.py",
        PROPERTY + "test_closed_form.py", PROPERTY + "test_closed_form_chains.py", PROPERTY + "test_laws.py",
        PROPERTY + "test_window_histories.py", UNIT + "costmodel/test_sets.py", UNIT + "costmodel/test_counting.py",
        UNIT + "costmodel/test_symbolic.py", UNIT + "costmodel/test_crossover.py",
    ),
    "polymap/costmodel/closed_form/unions": (
        UNIT + "costmodel/test_closed_form.py", REFEREE + "test_self_products.py", PROPERTY + "test_self_products.py",
        UNIT + "costmodel/test_footprint.py",
    ),
    "polymap/costmodel/closed_form/branch": (
        UNIT + "costmodel/test_closed_form.py", REFEREE + "test_fused_counts.py", REFEREE + "test_branches.py",
    ),
    "polymap/costmodel/referees": (
        UNIT + "costmodel/test_sets.py", REFEREE + "test_sets_equal_simulator.py",
        UNIT + "costmodel/test_simulate.py", PROPERTY + "test_simulator_laws.py", PROPERTY + "test_closed_form.py",
        PROPERTY + "test_walker.py", UNIT + "search/test_exhaustive.py",
        REFEREE + "test_search_equals_exhaustive.py", REFEREE + "test_second_prover.py",
    ),
    "polymap/costmodel/tables": (
        UNIT + "costmodel/test_batch.py", PROPERTY + "test_batch.py", PROPERTY + "test_batch_factors.py",
        PROPERTY + "test_closed_form_chains.py",
    ),
    "polymap/search/dividing": (
        UNIT + "search/dividing", UNIT + "search/test_dividing_bounds.py",
        UNIT + "search/test_windows.py", UNIT + "search/test_apart.py", UNIT + "search/test_workers.py",
        REFEREE + "test_search_equals_exhaustive.py",
        PROPERTY + "test_seeded_search_bugs.py", REFEREE + "test_second_prover.py", REFEREE + "test_checker.py",
        REFEREE + "test_intrinsics.py",
    ),
    "polymap/search/dividing/product": (
        REFEREE + "test_product_tiles.py", UNIT + "search/test_product_programs.py", UNIT + "search/test_padding.py",
        REFEREE + "test_product_bounds.py", REFEREE + "test_box_visits.py", UNIT + "search/dividing/test_engine.py",
        PROPERTY + "test_self_products.py",
    ),
    "polymap/search/trees": (
        UNIT + "search/test_climb.py", UNIT + "search/test_phases.py",
        UNIT + "search/test_rules.py", UNIT + "search/test_sampling.py", UNIT + "test_space.py",
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
    "polymap/search/single_level/product_": (REFEREE + "test_product_chains.py",),
    "polymap/resources": (
        UNIT + "search/resources", UNIT + "search/test_worker_pool.py", UNIT + "search/test_workers.py",
        UNIT + "search/test_resume.py",
    ),
    "polymap/search": (
        UNIT + "search/test_front_bounds.py", REFEREE + "test_any_size_equals_exhaustive.py", UNIT + "checker",
        UNIT + "search",
    ),
}  # fmt: skip
SIGNS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "&", "^")
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
BITWISE = (ast.LShift, ast.RShift, ast.BitOr, ast.BitAnd, ast.BitXor)
BINARY: dict[type[ast.operator], str] = dict(zip((*OPERATORS, *BITWISE), SIGNS, strict=True))
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ORDER: dict[type[ast.cmpop], str] = dict(zip(COMPARISONS, ("==", "!=", "<", "<=", ">", ">="), strict=True))
MEMBER: dict[type[ast.cmpop], str] = {ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}
OPPOSITE = {"in": "not in", "not in": "in", "is": "is not", "is not": "is", "and": "or", "or": "and"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. name: module, line, column, what stood there and what stands there now; text: the module."""

    path: str
    name: str
    text: str

    @property
    def package(self) -> str:
        return str(Path(self.path).parent)

    def difference(self) -> str:
        """Return the changed lines, before and after."""
        lines = difflib.unified_diff(Path(self.path).read_text().split("\n"), self.text.split("\n"), n=0, lineterm="")
        return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


@dataclass(frozen=True, slots=True)
class Run:
    """What a test took without a mistake, and the functions of the mutants' modules that it called."""

    cpu_s: float
    called: list[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. found: caught, survived, timeout; test: the one that failed; tests: how many ran."""

    name: str
    found: str
    test: str
    tests: int
    cpu_s: float


def modules(part: str) -> list[Path]:
    """Return the modules of the packages that a part of a path names."""
    paths = [path for room in ROOMS for path in sorted(Path(room).rglob("*.py")) if path.name != "__init__.py"]
    return [path for path in paths if part in path.as_posix()]


def sample(part: str, count: int, seed: int) -> list[Mutant]:
    """Return the mutants of a seed: one draw of a module each, in proportion to its lines, then of a place in it, then
    of a change there."""
    paths = modules(part)
    drawn = Counter(random.Random(seed).choices(paths, [len(path.read_text().splitlines()) for path in paths], k=count))
    found: list[Mutant] = []
    for path in paths:
        draw = random.Random(f"{seed} {path.as_posix()}")
        places = _places(path) if drawn[path] else []
        for place in draw.sample(places, min(drawn[path], len(places))):
            found.append(draw.choice(place).mutant(path))
    return random.Random(seed).sample(found, len(found))


@dataclass(frozen=True, slots=True)
class Change:
    """Other text between two positions, each a line and a column in bytes."""

    begin: tuple[int, int]
    end: tuple[int, int]
    new: str

    def mutant(self, path: Path) -> Mutant:
        lines = path.read_bytes().splitlines(keepends=True)
        begin, end = (sum(map(len, lines[: line - 1])) + column for line, column in (self.begin, self.end))
        text = b"".join(lines)
        old, (line, column) = text[begin:end].decode(), self.begin
        name = f"{path.as_posix()}:{line}:{column + 1} {' '.join(old.split())} -> {' '.join(self.new.split())}"
        return Mutant(path.as_posix(), name, text[:begin].decode() + self.new + text[end:].decode())


def _places(path: Path) -> list[list[Change]]:
    """Return what can change in the functions of a module, grouped by where it stands."""
    text = path.read_text()
    lines = text.encode().splitlines()
    tree = ast.parse(text)
    silent = _silent(tree)
    grouped: dict[tuple[int, int], list[Change]] = defaultdict(list)
    inside = [part for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in node.body]
    for node in dict.fromkeys(part for statement in inside for part in ast.walk(statement)):
        for change in _changes(node, lines):
            if not any(begin <= change.begin < end for begin, end in silent):
                grouped[change.begin].append(change)
    return [grouped[place] for place in sorted(grouped)]


def _changes(node: ast.AST, lines: list[bytes]) -> list[Change]:
    """Return the changes of one node of a syntax tree."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return _between(left, right, BINARY[type(op)], SIGNS, lines)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in BINARY:
            signs = [f"{sign}=" for sign in SIGNS]
            return _between(target, value, f"{BINARY[type(op)]}=", signs, lines)
        case ast.Compare(left=left, ops=ops, comparators=others):
            found: list[Change] = []
            for before, op, after in zip([left, *others], ops, others, strict=False):
                old = ORDER.get(type(op)) or MEMBER[type(op)]
                news = ORDER.values() if type(op) in ORDER else [OPPOSITE[old]]
                found += _between(before, after, old, news, lines)
            return found
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            return [one for pair in pairwise(values) for one in _between(*pair, word, [OPPOSITE[word]], lines)]
        case ast.Constant(value=bool() as truth):
            return [Change(*_span(node), str(not truth))]
        case ast.Constant(value=int() as number):
            return [Change(*_span(node), str(number + 1)), Change(*_span(node), f"({number - 1})")]
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op):
            line, column = _span(node)[0]
            return [Change((line, column), (line, column + (3 if isinstance(op, ast.Not) else 1)), "")]
        case ast.Break() | ast.Continue():
            return [Change(*_span(node), "continue" if isinstance(node, ast.Break) else "break")]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            begin, end = _span(test)
            return [Change(begin, end, f"(not ({_text(lines, begin, end)}))")]
        case ast.For(iter=passed) | ast.comprehension(iter=passed):
            return [Change(*_span(passed), "[]")]
        case _:
            return []


def _between(left: ast.expr, right: ast.expr, old: str, news: Iterable[str], lines: list[bytes]) -> list[Change]:
    """Return the changes of an operator between two operands; none where brackets or comments hide it."""
    (_, begin), (end, _) = _span(left), _span(right)
    text = _text(lines, begin, end)
    if text.count(old) != 1 or "#" in text:
        return []
    before = text[: text.index(old)]
    line, column = begin[0] + before.count("\n"), len(before.rpartition("\n")[2].encode())
    start = (line, column + (begin[1] if line == begin[0] else 0))
    return [Change(start, (line, start[1] + len(old)), new) for new in news if new != old]


def _span(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _text(lines: list[bytes], begin: tuple[int, int], end: tuple[int, int]) -> str:
    kept = lines[begin[0] - 1 : end[0]]
    kept[-1] = kept[-1][: end[1]]
    kept[0] = kept[0][begin[1] :]
    return b"\n".join(kept).decode()


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


def _prefix(path: str) -> str:
    """Return the key of TESTS that a module maps to."""
    return max((prefix for prefix in TESTS if path.startswith(prefix)), key=len)


def copied(folder: Path) -> None:
    """Write a copy of the repository's sources, in which the mistakes are made."""
    for name in ("polymap", "tests", "docs", "notebooks", "benchmarks", "examples"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder / path.name)


def execute(mutants: Sequence[Mutant], state: Path, seconds: float) -> None:
    """Judge mutants, each by the tests of its package, in a copy of the sources; verdicts are appended to the state."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        groups[_prefix(mutant.path)].append(mutant)
    with tempfile.TemporaryDirectory() as copy:
        copied(Path(copy))
        for prefix, asked in groups.items():
            question = Path(copy) / "mutants.json"
            question.write_text(json.dumps([asdict(mutant) for mutant in asked]))
            plugins = ("-p", "tests.mutants", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist")
            plugins = (*plugins, "-s", "-o", "addopts=--import-mode=importlib")
            runs = state.parent / f"{state.name.split('-')[0]}-{prefix.replace('/', '.')}.json"
            options = [f"{name}={value}" for name, value in zip(OPTIONS, (question, state, seconds, runs), strict=True)]
            done = subprocess.run(
                (sys.executable, "-m", "pytest", *plugins, *options, "-m", "not soak", *TESTS[prefix]),
                cwd=copy,
                env=os.environ | {"PYTHONPATH": copy},
            )
            if done.returncode:
                sys.exit(f"the tests of {prefix} ended with {done.returncode}")


# In pytest's process.


def pytest_addoption(parser: pytest.Parser) -> None:
    for name in OPTIONS:
        parser.addoption(name, default="")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Judge(config))


class Judge:
    """pytest's plugin that judges mutants by the tests collected."""

    def __init__(self, config: pytest.Config) -> None:
        question, state, seconds, runs = (str(config.getoption(name)) for name in OPTIONS)
        self.asked = [Mutant(**one) for one in json.loads(Path(question).read_text())]
        self.state, self.runs = Path(state), Path(runs)
        self.seconds = float(seconds)
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge the mutants in turn, after the tests have passed without a mistake."""
        gc.collect()
        gc.freeze()  # pages of the tests collected stay shared with the forks
        if session.testsfailed:
            print("a file of tests is not collected", flush=True)
            pytest.exit("", 1)
        clean = self._clean(session.items)
        print(f"{len(clean)} tests take {sum(run.cpu_s for run in clean.values()):.0f} CPU s", flush=True)
        caught: dict[str, Counter[str]] = defaultdict(Counter)
        for number, mutant in enumerate(self.asked, start=1):
            own = caught[mutant.path]
            changed = _changed(mutant)
            tests = _telling(session.items, clean, changed, self.seconds)
            spent = sum(clean[test.nodeid].cpu_s for test in tests)
            tests.sort(key=lambda test: -own[test.nodeid])
            verdict = self._judged(tests, mutant, changed, OUT_OF_TIME * spent + MORE_SECONDS)
            own[verdict.test] += 1
            with self.state.open("a") as state:
                state.write(json.dumps(asdict(verdict)) + "\n")
            took = f"{verdict.tests:4} tests {verdict.cpu_s:6.1f} s"
            print(f"{number:4} of {len(self.asked)} {verdict.found:8} {took}  {mutant.name}", flush=True)
        return True

    def _clean(self, tests: Sequence[pytest.Item]) -> dict[str, Run]:
        """Return each test's run without a mistake, noted before where these tests ran already."""
        if self.runs.exists():
            known = {name: Run(*run) for name, run in json.loads(self.runs.read_text()).items()}
            if known.keys() == {test.nodeid for test in tests}:
                return known
        runs, failed, status = self._forked(tests, None, None)
        if status or failed:
            print(f"{failed or 'a test'} fails without a mistake", flush=True)
            pytest.exit("", 1)
        found = dict(zip((test.nodeid for test in tests), runs, strict=True))
        self.runs.write_text(json.dumps({name: (run.cpu_s, run.called) for name, run in found.items()}))
        return found

    def _judged(
        self, tests: Sequence[pytest.Item], mutant: Mutant, changed: dict[str, CodeType], limit_s: float
    ) -> Verdict:
        path = Path(mutant.path)
        original = path.read_text()
        path.write_text(mutant.text)  # processes that tests start import it
        try:
            runs, failed, status = self._forked(tests, changed, limit_s)
        finally:
            path.write_text(original)
        found = "caught" if failed else "timeout" if status else "survived"
        return Verdict(mutant.name, found, failed, len(runs), round(sum(run.cpu_s for run in runs), 2))

    def _forked(
        self, tests: Sequence[pytest.Item], changed: dict[str, CodeType] | None, limit_s: float | None
    ) -> tuple[list[Run], str, int]:
        """Return the tests' runs in a fork that has other code (None: as it stands), the name of the test that failed
        (empty: none), and the fork's status, 0 where it ended by itself."""
        reading, writing = os.pipe()
        if not (child := os.fork()):
            os.close(reading)
            if limit_s is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            watched = str(Path(_prefix(self.asked[0].path)).resolve()) if changed is None else ""
            exchange(changed or {})
            try:
                self._until_one_fails(tests, writing, watched)
            finally:
                os.write(writing, json.dumps(self.failed).encode())
                os._exit(0)
        os.close(writing)
        *lines, last = [*_read(reading, child, WALL_SECONDS if limit_s is not None else None).split("\n")]
        _, status = os.waitpid(child, 0)
        return [Run(*json.loads(line)) for line in lines], json.loads(last or '""'), status

    def _until_one_fails(self, tests: Sequence[pytest.Item], notes: int, watched: str) -> None:
        """Run tests in order until one fails; note each one's run, with the functions of watched modules it calls."""
        for test, after in zip(tests, [*tests[1:], None], strict=True):
            begun, called = os.times(), dict[int, CodeType]()

            def note(frame: FrameType, event: str, _: object, called: dict[int, CodeType] = called) -> None:
                if event == "call" and frame.f_code.co_filename.startswith(watched):
                    called[id(frame.f_code)] = frame.f_code

            if watched:
                sys.setprofile(note)
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=after)
            sys.setprofile(None)
            run = (sum(os.times()[:4]) - sum(begun[:4]), sorted({_key(code) for code in called.values()}))
            os.write(notes, f"{json.dumps(run)}\n".encode())
            if self.failed:
                return


def _read(pipe: int, child: int, limit_s: float | None) -> str:
    """Return what a child writes until it ends; it is killed where it writes nothing for so long."""
    parts: list[bytes] = []
    while True:
        if not select.select([pipe], [], [], limit_s)[0]:
            os.kill(child, signal.SIGKILL)
        if not (part := os.read(pipe, 1 << 16)):
            break
        parts.append(part)
    os.close(pipe)
    return b"".join(parts).decode()


def _telling(
    tests: Sequence[pytest.Item], clean: dict[str, Run], changed: dict[str, CodeType], limit_s: float
) -> list[pytest.Item]:
    """Return the tests that call what changed, the cheapest first, as many as take so long together. A file in which
    one does counts as a whole, behind those: what is computed once, its other tests read."""
    files: dict[str, list[Run]] = defaultdict(list)
    for test in tests:
        files[_file(test)].append(clean[test.nodeid])
    share = {file: sum(run.cpu_s for run in runs) / len(runs) for file, runs in files.items()}
    told = [test for test in tests if any(not changed.keys().isdisjoint(run.called) for run in files[_file(test)])]
    cost = {test.nodeid: max(clean[test.nodeid].cpu_s, share[_file(test)]) for test in told}
    told.sort(key=lambda test: (changed.keys().isdisjoint(clean[test.nodeid].called), cost[test.nodeid]))
    spent = list(accumulate(clean[test.nodeid].cpu_s for test in told))
    return [test for number, test in enumerate(told) if not number or spent[number] <= limit_s]


def _file(test: pytest.Item) -> str:
    return test.nodeid.split("::")[0]


def exchange(changed: dict[str, CodeType]) -> None:
    """Give functions that are loaded other code."""
    gc.unfreeze()
    for function in [one for one in gc.get_objects() if changed and isinstance(one, FunctionType)]:
        code = changed.get(_key(function.__code__))
        if code is not None and code.co_name == function.__code__.co_name:
            function.__code__ = code


def _changed(mutant: Mutant) -> dict[str, CodeType]:
    """Return the functions whose code a mutant changes, with their new code."""
    old = _functions(mutant.path, Path(mutant.path).read_text())
    return {key: code for key, code in _functions(mutant.path, mutant.text).items() if code != old[key]}


def _functions(path: str, text: str) -> dict[str, CodeType]:
    """Return the functions of a module and of its classes."""
    found: dict[str, CodeType] = {}
    parts = [compile(text, str(Path(path).resolve()), "exec")]
    for part in parts:
        if part.co_flags & FUNCTION:
            found[_key(part)] = part
        else:
            parts += [inner for inner in part.co_consts if isinstance(inner, CodeType)]
    return found


def _key(code: CodeType) -> str:
    """Return a function's name; what is defined inside of it is part of it."""
    path = code.co_filename.removeprefix(f"{os.getcwd()}/")
    return f"{path}:{code.co_qualname.split('.<locals>')[0]}"


# The report.


def read(state: Path) -> dict[str, Verdict]:
    """Return name -> the last verdict of a mutant."""
    lines = state.read_text().splitlines() if state.exists() else []
    return {verdict.name: verdict for verdict in (Verdict(**json.loads(line)) for line in lines)}


def report(mutants: Sequence[Mutant], verdicts: dict[str, Verdict]) -> None:
    """Print the counts of every package and of all, and the mutants that no test noticed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        if mutant.name in verdicts:
            for name in (mutant.package, "all"):
                counts[name][verdicts[mutant.name].found] += 1
    print(f"{'package':36} caught survived timeout  score")
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        own = counts[name]
        judged = own["caught"] + own["survived"]
        score = f"{own['caught'] / judged:6.1%}" if judged else "     -"
        print(f"{name:36} {own['caught']:6} {own['survived']:8} {own['timeout']:7} {score}")
    print(f"{len(mutants) - sum(mutant.name in verdicts for mutant in mutants)} not judged yet\n")
    for mutant in mutants:
        if mutant.name in verdicts and verdicts[mutant.name].found != "caught":
            print(f"{verdicts[mutant.name].found}: {mutant.name}\n{mutant.difference()}")


def main() -> int:
    parser = argparse.ArgumentParser(description="The mutation score of a package.")
    parser.add_argument("package", nargs="?", default="", help="judge only modules whose path holds this")
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="CPU seconds of tests for each mutant")
    parser.add_argument("--report", action="store_true", help="print what is known and run nothing")
    parser.add_argument("--survivors", action="store_true", help="judge again what survived, by all tests")
    asked = parser.parse_args()
    os.chdir(ROOT)
    mutants = sample(asked.package, asked.mutants, asked.seed)
    texts = [path.read_bytes() for path in sorted(Path("polymap").rglob("*.py"))]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
    room = asked.package.strip("/").replace("/", ".") or "all"
    state = ROOT / "out" / "mutants" / f"{digest}-{room}-{asked.seed}-{asked.mutants}.jsonl"
    state.parent.mkdir(parents=True, exist_ok=True)
    verdicts = read(state)
    if not asked.report:
        wanted = {"survived"} if asked.survivors else {""}
        left = [one for one in mutants if (verdicts[one.name].found if one.name in verdicts else "") in wanted]
        execute(left, state, float("inf") if asked.survivors else asked.seconds)
    report(mutants, read(state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
