"""Long questions about integer sets: first in this process with a small budget, then in one that can be killed.

isl can be neither interrupted nor forked. A small budget in this process answers nearly all questions; the others are
repeated in a new interpreter without a limit on isl's operations, which is killed when the time is over. It does not
load the caller's main module, and ends by itself soon after its time.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, ParamSpec, TypeVar, cast

from polymap.ir import BudgetError, Mistake, PolymapError, SolverError
from polymap.poly.budgets import UNLIMITED, allowed, budget, is_exhausted, is_open, out_of_time

Result = TypeVar("Result")
Asked = ParamSpec("Asked")

FIRST_OPERATIONS = 300_000
FIRST_SECONDS = 3.0

_CODE = "import sys; sys.path[:] = {}; from polymap.poly.deadlines import serve; serve()"


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error in the other process: the mistakes of a PolymapError with its class, or a text."""

    kind: type[PolymapError]
    mistakes: tuple[Mistake, ...]


def within(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), which must be importable by its name, its arguments and result picklable.

    Inside an open budget, that budget applies instead; `raised` may give more seconds. Raises BudgetError
    (`is_exhausted`) after `seconds` of wall time, and whatever the function raises.
    """
    if is_open():
        return function(*args, **options)
    seconds = allowed(seconds)
    until = time.monotonic() + seconds
    try:
        return at_first(min(FIRST_SECONDS, seconds), what, function, *args, **options)
    except BudgetError as error:
        if not is_exhausted(error):
            raise
    try:
        return in_a_process(until - time.monotonic(), what, function, *args, **options)
    except BudgetError as error:
        if is_exhausted(error):
            raise out_of_time(what, seconds) from None
        raise


def at_first(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), computed in this process with a small budget; BudgetError (`is_exhausted`) if
    that does not suffice."""
    with budget(FIRST_OPERATIONS, seconds=seconds, what=what):
        return function(*args, **options)


def in_a_process(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), computed by a new interpreter that is killed after `seconds`."""
    if seconds <= 0 or not sys.executable:
        raise out_of_time(what, max(seconds, 0.0))
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _CODE.format(repr(sys.path))],
            input=pickle.dumps((seconds, what, function, args, options)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise out_of_time(what, seconds) from None
    if not ended.stdout:
        text = f"the process that was asked for {what} ended with code {ended.returncode}"
        raise SolverError(Mistake("PM517", text, "It may have needed more memory than there is."))
    answer = pickle.loads(ended.stdout)  # from a process of our own
    if isinstance(answer, _Failed):
        raise answer.kind(answer.mistakes)
    return cast("Result", answer)


def serve() -> None:
    """Main function of the other process: answer one question from stdin on stdout."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    seconds, what, function, args, options = pickle.load(sys.stdin.buffer)
    _end_after(seconds)
    try:
        with budget(UNLIMITED, seconds=seconds, what=what):
            answer = function(*args, **options)
    except PolymapError as error:
        answer = _Failed(type(error), error.mistakes)
    except MemoryError:
        problem = Mistake("PM517", f"there is not enough memory for {what}", "Smaller sizes would help.")
        answer = _Failed(BudgetError, (problem,))
    _send(out, answer)


def _send(out: BinaryIO, answer: object) -> None:
    with suppress(BrokenPipeError), out:
        pickle.dump(answer, out)


def _end_after(seconds: float) -> None:
    """End this process soon after its time, even if its parent is gone."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = int(seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
