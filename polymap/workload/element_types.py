"""Element types of a program's data as callers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polymap.inputs import is_table, shown
from polymap.ir import Mistake, did_you_mean
from polymap.workload.c import FLOATS, INTEGERS


def types_by_name(
    types: str | Mapping[str, str] | None, names: Sequence[str], mistakes: list[Mistake]
) -> dict[str, str]:
    """Return name -> element type ("float32") of what has one: one type for all, or a table; mistakes are noted."""
    if types is None:
        return {}
    if not isinstance(types, str) and not is_table(types):
        mistakes.append(Mistake("PM212", f"types is {shown(types)}", "Expected a type, or a table of types."))
        return {}
    table = dict.fromkeys(names, types) if isinstance(types, str) else dict(types)
    known = (*INTEGERS, *FLOATS)
    found: dict[str, str] = {}
    for name, kind in table.items():
        if name not in names:
            what = f"types names {shown(name)}, which is no tensor of the workload"
            mistakes.append(Mistake("PM213", what, did_you_mean(name, names)))
        elif kind in known:
            found[name] = kind
        else:
            mistake = Mistake("PM212", f"the type is {shown(kind)}", did_you_mean(str(kind)[:64], known))
            if mistake not in mistakes:
                mistakes.append(mistake)
    return found
