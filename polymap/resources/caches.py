"""Values that one search works out again and again: remembered as long as the search lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class SearchCaches:
    """The memoised functions of one search. The search makes one, passes it on, and drops it with everything in it.

    A copy or a pickled one starts empty: what is remembered is never part of a result.
    """

    def __init__(self) -> None:
        self._memos: dict[object, object] = {}

    def memo(self, function: Callable[Arguments, Answer], most: int = 4096) -> Callable[Arguments, Answer]:
        """Return a function of hashable arguments that remembers the last `most` answers of `function`, which must
        depend on its arguments only."""
        known = self._memos.get(function)
        if known is None:
            known = self._memos[function] = lru_cache(maxsize=most)(function)
        return cast("Callable[Arguments, Answer]", known)

    def clear(self) -> None:
        """Forget everything."""
        self._memos.clear()

    def __reduce__(self) -> tuple[type[SearchCaches], tuple[()]]:
        return SearchCaches, ()
