"""What a search has left, as JSON: a question that a limit ended goes on from it in another run, on another machine."""

from __future__ import annotations

from typing import Any

from polymap.inputs import as_integer, is_list, is_table, shown
from polymap.ir import Mistake, OptionError
from polymap.search.dividing import OpenStructures

_LISTS = ("queue", "searched", "refuted")


def open_document(left: OpenStructures) -> dict[str, Any]:
    """Return the document of what is left."""
    queue = [list(entry) for entry in left.queue]
    counts = {"listed": left.listed, "bounded": left.bounded}
    return counts | {"queue": queue, "searched": list(left.searched), "refuted": list(left.refuted)}


def open_from_document(document: object) -> OpenStructures:
    """Return what a document says is left. Raises OptionError (PM120) for one that no answer has."""
    try:
        return _read(document)
    except (TypeError, ValueError, KeyError, IndexError):
        what = f"what the question says is open is {shown(document)}"
        raise OptionError(Mistake("PM120", what, 'Use "open" of an answer as it is, or leave it out.')) from None


def _read(told: object) -> OpenStructures:
    if not is_table(told) or not all(is_list(told.get(name)) for name in _LISTS):
        raise TypeError
    document: dict[str, Any] = dict(told)
    listed, bounded = _number(document["listed"]), _number(document["bounded"])
    queue = tuple(
        (_integer(bound), _integer(stage), _number(number, bounded - 1))
        for bound, stage, number, *_ in document["queue"]
    )
    searched, refuted = (tuple(_number(each, listed - 1) for each in document[name]) for name in _LISTS[1:])
    if bounded > listed or any(stage not in (0, -1, -2) for _, stage, _ in queue):
        raise ValueError
    return OpenStructures(listed, bounded, queue, searched, refuted)


def _integer(value: object) -> int:
    found = as_integer(value)
    if found is None:
        raise TypeError
    return found


def _number(value: object, most: int | None = None) -> int:
    """Return an integer from 0 on, up to `most`."""
    found = _integer(value)
    if found < 0 or (most is not None and found > most):
        raise ValueError
    return found
