"""Records that print briefly: the fields that differ from their defaults."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from fractions import Fraction
from typing import Any, cast

from polymap.ir.display import Shown

_MOST = 8  # items of a tuple


class Brief:
    """Base of such records, which are dataclasses with `repr=False`."""

    __slots__ = ()

    def __repr__(self) -> str:
        named = ((each.name, getattr(self, each.name), each.default) for each in fields(cast("Any", self)) if each.repr)
        told = [f"{name}={_brief(value)}" for name, value, default in named if value != default]
        return f"{type(self).__name__}({', '.join(told)})"


def _brief(value: object) -> str:
    """Return a field's value: the name of what has a text of its own, the word of an enumeration's member."""
    if isinstance(value, Shown):
        return f"<{getattr(value, 'name', type(value).__name__)}>"
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        more = f", ... of {len(items)}" if len(items) > _MOST else ""
        return f"({', '.join(map(_brief, items[:_MOST]))}{more})"
    return str(value) if isinstance(value, Fraction) else repr(value)
