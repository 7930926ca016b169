"""Long questions about integer sets: first in this process with a small budget, then in one that can be killed.

isl can be neither interrupted nor forked. A small budget in this process answers nearly all questions; the others are
repeated in a new interpreter without a limit on isl's operations, which is killed when the time is over. It does not
load the caller's main module, and ends by itself soon after its time.
"""

from __future__ import annotations

import math
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

LOOK_S = 0.2  # between two questions whether a process is still waited for
_PIPE = subprocess.PIPE
_OVER_CPU = 24  # SIGXCPU, which not every system has
_CODE = "import sys; sys.path[:] = {}; from polymap.poly.deadlines import serve; serve()"


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error in the other process: the mistakes of a PolymapError with its class, or a text."""

    kind: type[PolymapError]
    mistakes: tuple[Mistake, ...]


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits that do not depend on what else a machine does. first: operations of isl in this process; operations: in a
    process of its own, which may take cpu_s seconds of CPU time (linear programs of isl's scheduler are not counted as
    operations). patience_s: the wall time after which that process is killed;
    is_over: asked from time to time whether it is killed at once."""

    operations: int
    cpu_s: float
    patience_s: float = math.inf
    is_over: Callable[[], bool] = lambda: False
    first: int = 100_000


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked for, and the limits of the process that answers."""

    what: str
    cpu_s: float
    operations: int
    patience_s: float


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
    return cast("Result", _answer(_Question(what, seconds, UNLIMITED, seconds), function, args, options))


def within_work(
    work: Effort, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), computed within a number of isl's operations: the answer of a busy machine is
    that of an idle one, unless its patience ends.

    First in this process, where few operations suffice; then in a new interpreter. Inside an open budget, that budget
    applies instead. Raises BudgetError (`is_exhausted`) where operations, CPU time or patience do not suffice.
    """
    if is_open():
        return function(*args, **options)
    try:
        with budget(min(work.first, work.operations), seconds=math.inf, what=what):
            return function(*args, **options)
    except BudgetError as error:
        if not is_exhausted(error):
            raise
    question = _Question(what, work.cpu_s, work.operations, work.patience_s)
    return cast("Result", _answer(question, function, args, options, work.is_over))


def _answer(
    question: _Question,
    function: Callable[..., object],
    args: object,
    options: object,
    is_over: Callable[[], bool] = lambda: False,
) -> object:
    """Return what a new interpreter answers."""
    if question.patience_s <= 0 or not sys.executable:
        raise out_of_time(question.what, max(question.patience_s, 0.0))
    asked = pickle.dumps((question, function, args, options))
    command = [sys.executable, "-c", _CODE.format(repr(sys.path))]
    until = time.monotonic() + question.patience_s
    with subprocess.Popen(command, stdin=_PIPE, stdout=_PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            given = _output(process, asked, lambda: until - time.monotonic(), is_over)
        finally:
            process.kill()
    if given is None:
        raise out_of_time(question.what, question.patience_s)
    if not given:
        if process.returncode == -_OVER_CPU:
            raise out_of_time(question.what, question.cpu_s)
        text = f"the process that was asked for {question.what} ended with code {process.returncode}"
        raise SolverError(Mistake("PM517", text, "It may have needed more memory than there is."))
    answer = pickle.loads(given)  # from a process of our own
    if isinstance(answer, _Failed):
        raise answer.kind(answer.mistakes)
    return answer


def _output(
    process: subprocess.Popen[bytes], given: bytes | None, left_s: Callable[[], float], is_over: Callable[[], bool]
) -> bytes | None:
    """Return what a process prints, None where it does not end in time."""
    while left_s() > 0 and not is_over():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(given, timeout=min(left_s(), LOOK_S))[0]
        given = None  # it was taken in the first call
    return None


def serve() -> None:
    """Main function of the other process: answer one question from stdin on stdout."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    question, function, args, options = pickle.load(sys.stdin.buffer)
    _end_after(question.cpu_s)
    try:
        with budget(question.operations, seconds=question.patience_s, what=question.what):
            answer = function(*args, **options)
    except PolymapError as error:
        answer = _Failed(type(error), error.mistakes)
    except MemoryError:
        problem = Mistake("PM517", f"there is not enough memory for {question.what}", "Smaller sizes would help.")
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
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))  # a signal of its own, then the end
