"""The constraints of a head: what a mapping must meet besides fitting the machine (docs/certificate.md)."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Names = list[str]


class Refused(Exception):
    """The text proves nothing; the reason is a sentence."""


def need(holds: object, reason: str) -> None:
    """Raise Refused unless something holds."""
    if not holds:
        raise Refused(reason)


def fields(table: Any, *names: str) -> list[Any]:
    """Return the values of a table that has just these fields."""
    need(isinstance(table, dict) and {*table} == {*names}, f"expected the fields {', '.join(names)}")
    return [table[name] for name in names]


def whole(value: Any) -> int:
    """Return an integer of at least 1."""
    need(type(value) is int and value >= 1, "a number is no integer of at least 1")
    return value


def flag(value: Any) -> bool:
    """Return true or false."""
    need(type(value) is bool, "expected true or false")
    return value


def rational(value: Any) -> Fraction:
    """Return the non-negative number that "a/b" says, in lowest terms."""
    need(isinstance(value, str) and re.fullmatch("[0-9]{1,1000}(/[1-9][0-9]{0,999})?", value), "a number is not a/b")
    need(str(number := Fraction(value)) == value, "a number is not in lowest terms")
    return number


class Rules:
    """The constraints, read. pairs: (a, b, kind): all temporal loops over a outside all over b ("all"), or the first
    over a before the first over b ("first"), or the last over a after the last over b ("last"), where both have loops.
    least: (tensor, level), how many elements a full tile of the tensor in a node of the level spans at least.
    factors: (fan-out, dim, least, most). multiples: (dim, size of which every tile is a multiple). share: of what the
    compute units could do. limits: (objective, most)."""

    def __init__(self, rows: list[Any], dims: Names, tensors: Names, levels: Names, fanouts: Names) -> None:
        self.pairs, self.factors = list[tuple[int, int, str]](), list[tuple[str, int, int, int | None]]()
        self.multiples, self.limits, self.share = list[tuple[int, int]](), list[tuple[str, str]](), Fraction(0)
        self.least = dict[tuple[str, int], int]()
        self._held, ends = list[tuple[str, int, bool]](), list[list[int]]([[], []])
        for row in rows:
            kind = row["rule"]
            if kind in ("outermost", "innermost"):
                own = [dims.index(dim) for dim in fields(row, "rule", "dims")[1]]
                ends[kind == "outermost"] += own
                own = own if kind == "outermost" else own[::-1]
                after = [(a, b) for i, a in enumerate(own) for b in range(len(dims)) if b not in own[: i + 1]]
                self.pairs += [(a, b, "first" if kind == "outermost" else "last") for a, b in after]
            elif kind == "outside":
                _, outer, inner = fields(row, "rule", "outer", "inner")
                self.pairs.append((dims.index(outer), dims.index(inner), "all"))
            elif kind == "factor":
                _, fan, dim, least, most = fields(row, "rule", "fanout", "dim", "least", "most")
                need(fan in fanouts, "a constraint names no fan-out")
                self.factors.append((fan, dims.index(dim), whole(least), None if most is None else whole(most)))
            elif kind == "held":
                _, level, tensor, must = fields(row, "rule", "level", "tensor", "must")
                need(tensor in tensors and level in levels[1:], "a constraint names no tensor or level")
                self._held.append((tensor, levels.index(level), flag(must)))
            elif kind == "at_least":
                _, level, tensor, elements = fields(row, "rule", "level", "tensor", "elements")
                need(tensor in tensors and level in levels[1:], "a constraint names no tensor or level")
                place = tensor, levels.index(level)
                self.least[place] = max(whole(elements), self.least.get(place, 0))
            elif kind == "intrinsic":
                _, dim, size = fields(row, "rule", "dim", "size")
                self.multiples.append((dims.index(dim), whole(size)))
            elif kind == "utilization":
                self.share = max(self.share, rational(fields(row, "rule", "least")[1]))
            else:
                need(kind == "at_most", "a constraint is of no known kind")
                _, objective, most = fields(row, "rule", "objective", "most")
                self.limits.append((objective, most))
        need(not {*ends[0]} & {*ends[1]}, "a dim is outermost and innermost, which is not certified")

    def held(self, tensor: str) -> tuple[frozenset[int], frozenset[int]]:
        """Return the levels that must hold a tensor, and those that may not."""
        own = [(level, must) for name, level, must in self._held if name == tensor]
        return frozenset(i for i, must in own if must), frozenset(i for i, must in own if not must)

    def ordered(self, time: list[int]) -> bool:
        """Return whether temporal loops over these dims, outermost first, meet the rules about order."""
        back = time[::-1]
        for a, b, kind in self.pairs:
            if a in time and b in time:
                order = {"all": b not in time[: len(time) - back.index(a)], "first": time.index(a) < time.index(b)}
                if not order.get(kind, back.index(a) < back.index(b)):
                    return False
        return True

    def standing(self, values: Any, whole: Any) -> Any:
        """Return where a node may stand (an array of booleans, or one): at temporal tiles `values` of `whole`."""
        ok: Any = True
        for a, b, kind in self.pairs:
            if kind == "all":
                ok = ok & ((values[b] == whole[b]) | (values[a] == 1))
            elif kind == "first":
                ok = ok & ((values[b] == whole[b]) | (values[a] < whole[a]) | (whole[a] == 1))
            else:
                ok = ok & ((values[b] == 1) | (values[a] > 1) | (whole[a] == 1))
        return ok

    def order(self, whole: Sequence[int], outer: Sequence[int], inner: Sequence[int]) -> list[int] | None:
        """Return the dims with temporal loops between two tiles in an order that the rules allow (None: there is none:
        each dim is one loop here, which is as good as several since no dim is outermost and innermost)."""
        here = [d for d in range(len(whole)) if outer[d] > inner[d]]
        starts, ends = {d for d in here if outer[d] == whole[d]}, {d for d in here if inner[d] == 1}
        among = {"all": set(here), "first": starts, "last": ends}
        edges = [(b, a) if kind == "last" else (a, b) for a, b, kind in self.pairs if {a, b} <= among[kind]]
        found = list[int]()
        while here:
            free = [d for d in here if all(b != d or a not in here for a, b in edges)]
            if not free:
                return None
            found.append(free[0])
            here.remove(free[0])
        return found
