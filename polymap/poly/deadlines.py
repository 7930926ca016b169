"""Long questions about integer sets: first in this process with a small budget, then in one that can be killed.

isl can be neither interrupted nor forked. A small budget in this process answers nearly all questions; the others are
repeated in a new interpreter without a limit on isl's operations, which ends when its CPU time is over. It does not
load the caller's main module.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, ParamSpec, TypeVar, cast

from polymap.ir import BudgetError, Mistake, PolymapError, SolverError
from polymap.poly.budgets import UNLIMITED, allowed, budget, is_exhausted, is_open, out_of_time
from polymap.poly.tuning import TUNING
from polymap.resources import Caps, Ended, run_within

Result = TypeVar("Result")
Asked = ParamSpec("Asked")


_CODE = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); import polymap.poly.deadlines as d; d.serve()"


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error in the other process: the mistakes of a PolymapError with its class, or a text."""

    kind: type[PolymapError]
    mistakes: tuple[Mistake, ...]


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits that do not depend on what else a machine does. first: operations of isl in this process; operations: in a
    process of its own, which may take cpu_s seconds of CPU time (linear programs of isl's scheduler are not counted as
    operations). patience_s: the wall time after which that process is killed (None: what suits the CPU time);
    is_over: asked from time to time whether it is killed at once."""

    operations: int
    cpu_s: float
    patience_s: float | None = None
    is_over: Callable[[], bool] = lambda: False
    first: int = 100_000


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked for, and the limits of the process that answers."""

    what: str
    cpu_s: float
    operations: int = UNLIMITED
    patience_s: float | None = None


def within(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), which must be importable by its name, its arguments and result picklable.

    Inside an open budget, that budget applies instead; `raised` may give more seconds. Raises BudgetError
    (`is_exhausted`) after `seconds` of CPU time, and whatever the function raises.
    """
    if is_open():
        return function(*args, **options)
    seconds = allowed(seconds)
    first = min(TUNING.first_seconds, seconds)
    try:
        return at_first(first, what, function, *args, **options)
    except BudgetError as error:
        if not is_exhausted(error):
            raise
    try:
        return in_a_process(seconds - first, what, function, *args, **options)
    except BudgetError as error:
        if is_exhausted(error):
            raise out_of_time(what, seconds) from None
        raise


def at_first(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), computed in this process with a small budget; BudgetError (`is_exhausted`) if
    that does not suffice."""
    with budget(TUNING.first_operations, seconds=seconds, what=what):
        return function(*args, **options)


def in_a_process(
    seconds: float, what: str, function: Callable[Asked, Result], *args: Asked.args, **options: Asked.kwargs
) -> Result:
    """Return function(*args, **options), computed by a new interpreter that may take `seconds` of CPU time."""
    return cast("Result", _answer(_Question(what, seconds), function, args, options))


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
    if question.cpu_s <= 0 or not sys.executable:
        raise out_of_time(question.what, max(question.cpu_s, 0.0))
    asked = pickle.dumps(sys.path) + pickle.dumps((question, function, args, options))
    # A second more than it gives itself: it ends with an answer where it looks at its clock.
    caps = Caps(question.cpu_s + 1, question.patience_s)
    try:
        ended = run_within(caps, [sys.executable, "-c", _CODE], given=asked, is_over=is_over)
    except OSError as error:
        raise SolverError(_lost(question.what, f"does not start: {error.strerror or error}")) from error
    if ended.took_too_long:
        raise out_of_time(question.what, question.cpu_s)
    answer = _read(question.what, ended)
    if isinstance(answer, _Failed):
        raise answer.kind(answer.mistakes)
    return answer


def _read(what: str, ended: Ended) -> object:
    """Return what a process of our own printed; SolverError where it did not come to the end of it."""
    try:
        return pickle.loads(ended.printed)
    except (EOFError, pickle.UnpicklingError):
        said = ended.complaint.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SolverError(_lost(what, ": ".join((f"ended with code {ended.code}", *said)))) from None


def _lost(what: str, how: str) -> Mistake:
    text = f"the process that was asked for {what} {how}"
    return Mistake("PM517", text, "It may have needed more memory than there is.")


def serve() -> None:
    """Main function of the other process: answer one question from stdin on stdout."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    question, function, args, options = pickle.load(sys.stdin.buffer)
    try:
        with budget(question.operations, seconds=question.cpu_s, what=question.what):
            answer = function(*args, **options)
    except PolymapError as error:
        answer = _Failed(type(error), error.mistakes)
    except MemoryError:
        problem = Mistake("PM517", f"there is not enough memory for {question.what}", "Smaller sizes would help.")
        answer = _Failed(BudgetError, (problem,))
    _send(out, answer)


def _send(out: BinaryIO, answer: object) -> None:
    with out:
        pickle.dump(answer, out)
