"""What every test shares: deterministic Hypothesis profiles and golden files."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.times import Asked, read_slow

GOLDEN = Path(__file__).parent / "golden"

# The same examples in every run and on every machine; a shared machine's pauses are no failures.
_slow_machine = (HealthCheck.too_slow,)
settings.register_profile(
    "polymap",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    max_examples=50,
    suppress_health_check=_slow_machine,
)
settings.register_profile(
    "soak", deadline=None, database=None, print_blob=True, max_examples=5000, suppress_health_check=_slow_machine
)
settings.load_profile("polymap")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell's background jobs ignore Ctrl-C; the tests of it, and the processes they start, do not.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what comes out now")
    parser.addoption(
        "--note-times", metavar="FILE", help="append the CPU seconds of every test to FILE (tests/times.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    Asked.soak = "not soak" not in config.option.markexpr


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(obj: object) -> list[pytest.Item] | None:
    """Functions of `make soak` are no items where it is not asked for."""
    marks = () if Asked.soak else getattr(obj, "pytestmark", ())
    return [] if any(mark.name == "soak" for mark in marks) else None


def pytest_collection_finish() -> None:
    """What was collected stays: no collection of garbage walks it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that were measured to be slow are marked so before marks select what runs."""
    names = read_slow()
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.slow)


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begun = _cpu_seconds()
    yield
    if file := item.config.getoption("--note-times"):
        with Path(file).open("a", encoding="utf-8") as notes:
            notes.write(f"{_cpu_seconds() - begun:.2f}\t{item.nodeid}\n")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return `check(name, text)`: text equals tests/golden/<name>, or is written there with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"tests/golden/{name} is missing: run pytest --update-golden and read the diff"
        assert text == path.read_text(encoding="utf-8")

    return check
