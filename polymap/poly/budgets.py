"""Starts isl, limits it, and translates its errors.

Every isl call of polymap runs inside `with budget():`. isl does not react to signals while it works, so a call is
limited by a number of elementary operations (10^6 take 0.3 to five seconds), and the clock is read between calls: that
of the thread, since a busy machine must not refuse what an idle one answers. Longer questions run in a process that can
be killed (`within`). `raised` gives all questions more of both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock, get_ident
from typing import cast

import islpy as isl

from polymap.ir import BudgetError, Mistake, SolverError
from polymap.poly.tuning import TUNING
from polymap.resources import wall_left_s

CONTEXT = isl.Context()
# With wrapping isl (islpy 2026.2.2) was seen to add points to a set that it coalesces; see also `sets.coalesced`.
CONTEXT.set_coalesce_bounded_wrapping(0)
UNLIMITED = 0

_LOCK = RLock()
_EXHAUSTED = "maximal number of operations"
_EXHAUSTED_CODE = "PM510"
_HINT = (
    "More seconds (--budget 60, time_limit_s=60 in Python), smaller sizes, or fewer floors and modulos in subscripts "
    "would help."
)


@dataclass(slots=True)
class _Limits:
    """The limits of the outermost budget, and the number of open budgets."""

    depth: int = 0
    thread: int = 0
    operations: int = UNLIMITED
    seconds: float = math.inf
    until: float = math.inf
    what: str = ""
    renewed: bool = False
    allowance: float = 0.0


_limits = _Limits()


@contextmanager
def raised(seconds: float | None) -> Generator[None, None, None]:
    """Give every question asked inside `seconds` of CPU time where its own limit is shorter (None: change nothing).

    Its limit of operations grows in proportion.
    """
    before = _limits.allowance
    _limits.allowance = before if seconds is None else seconds
    try:
        yield
    finally:
        _limits.allowance = before


def allowed(seconds: float) -> float:
    """Return the CPU time of a question whose own limit is `seconds`."""
    return max(seconds, _limits.allowance)


@contextmanager
def budget(
    operations: int = TUNING.operations,
    *,
    seconds: float = TUNING.seconds,
    what: str = "this question about integer sets",
    renewed: bool = False,
) -> Generator[None, None, None]:
    """Limit the isl calls inside to `operations` elementary operations in total (UNLIMITED: any number), and the block
    to `seconds` of this thread's CPU time, which `check_clock` checks.

    renewed: the operations are those between two checks of the clock, so that time alone limits many short calls.

    Budgets nest: the outermost one decides. An isl object is used by one thread at a time (the lock is held inside).
    Raises BudgetError when either is exhausted, and SolverError for any other error of isl.
    """
    with _LOCK:
        if _limits.depth == 0:
            if allowed(seconds) > seconds > 0:
                operations, seconds = int(operations * allowed(seconds) / seconds), allowed(seconds)
            CONTEXT.reset_operations()
            CONTEXT.set_max_operations(operations)
            _limits.renewed = renewed
            _limits.operations, _limits.seconds, _limits.what = operations, seconds, what
            _limits.until = time.thread_time() + seconds
            _limits.thread = get_ident()
        _limits.depth += 1
        try:
            yield
        except isl.Error as error:
            # isl's own exception cannot even be compared: nobody outside should hold one.
            raise _translated(error, what) from None
        finally:
            _limits.depth -= 1
            if _limits.depth == 0:
                CONTEXT.set_max_operations(UNLIMITED)
                _limits.until = math.inf


def is_open() -> bool:
    """Return whether this thread is inside a budget (which then decides)."""
    return _limits.depth > 0 and _limits.thread == get_ident()


def check_clock() -> None:
    """Raise BudgetError where the time of the outermost budget is used up, or a user's limit (call it between long
    steps)."""
    if time.thread_time() > _limits.until or wall_left_s() < 0:
        raise out_of_time(_limits.what, _limits.seconds)
    if _limits.renewed and _limits.depth:
        CONTEXT.reset_operations()


def out_of_time(what: str, seconds: float) -> BudgetError:
    """Return the BudgetError of a question that takes more than its time."""
    return BudgetError(Mistake(_EXHAUSTED_CODE, f"{what} takes more than {seconds:.3g} s.", _HINT))


def is_exhausted(error: BudgetError) -> bool:
    """Return whether operations or time were exhausted, so that a larger budget may give an answer."""
    return any(mistake.code == _EXHAUSTED_CODE for mistake in error.mistakes)


def integer(number: isl.Val) -> int:
    """Return an integer isl value as a Python int.

    A count that exhausts its budget is returned by isl as a number too small, without an error; but isl then fails to
    print it, which is detected here.
    """
    check_clock()
    text = cast("str | None", number.to_str())
    if text is None:
        raise isl.Error(_EXHAUSTED)
    return int(text)


def has_run_out(error: isl.Error) -> bool:
    """Return whether isl failed because its operations are exhausted.

    Some calls then fail with unrelated messages (such as "syntax error"), and isl prints nothing any more.
    """
    return _EXHAUSTED in str(error) or _prints_nothing()


def _prints_nothing() -> bool:
    try:
        return cast("str | None", isl.Val.one(CONTEXT).to_str()) is None
    except isl.Error:
        return True


def _translated(error: isl.Error, what: str) -> BudgetError | SolverError:
    if has_run_out(error):
        text = f"{what} needs more than {_limits.operations:,} operations of isl."
        return BudgetError(Mistake(_EXHAUSTED_CODE, text, _HINT))
    return SolverError(Mistake("PM511", f"isl could not answer {what}: {error}", "Please report this as a bug."))
