"""The one place where isl is started, limited and its errors are translated.

Every isl call of polymap runs inside `with budget():`. isl listens to no signal while it works, so what limits it is a
number of elementary operations (10^6 take one to five seconds), never a clock.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock
from typing import cast

import islpy as isl

from polymap.errors import BudgetError, Problem, SolverError

CONTEXT = isl.Context()
DEFAULT_OPERATIONS = 1_000_000

_LOCK = RLock()
_EXHAUSTED = "maximal number of operations"
_depth = 0


@contextmanager
def budget(
    operations: int = DEFAULT_OPERATIONS, *, what: str = "this question about integer sets"
) -> Generator[None, None, None]:
    """Allow the isl calls inside at most `operations` elementary operations together.

    Budgets nest: the outermost one decides. An isl object is used by one thread at a time (the lock is held inside).
    Raises BudgetError when the operations are used up and SolverError for any other complaint of isl.
    """
    global _depth
    with _LOCK:
        if _depth == 0:
            CONTEXT.reset_operations()
            CONTEXT.set_max_operations(operations)
        _depth += 1
        try:
            yield
        except isl.Error as error:
            # isl's own exception cannot even be compared: nobody outside should hold one.
            raise _translated(error, operations, what) from None
        finally:
            _depth -= 1
            if _depth == 0:
                CONTEXT.set_max_operations(0)


def integer(number: isl.Val) -> int:
    """Return an integer isl value as a Python int.

    A count that ran out of its budget halfway comes back as a number too small, without an error; but then isl refuses
    to print it, and that is seen here.
    """
    text = cast("str | None", number.to_str())
    if text is None:
        raise isl.Error(_EXHAUSTED)
    return int(text)


def _translated(error: isl.Error, operations: int, what: str) -> BudgetError | SolverError:
    if _EXHAUSTED in str(error):
        return BudgetError(
            Problem(
                "PM510",
                f"{what} needs more than {operations:,} operations of isl.",
                "Smaller sizes, fewer floors and modulos in subscripts, or a larger budget would help.",
            )
        )
    return SolverError(Problem("PM511", f"isl could not answer {what}: {error}", "Please report this as a bug."))
