"""The constraints of a head: what a mapping must meet besides fitting the machine (docs/certificate.md)."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

KINDS = {
    "outside": ("inner", "outer"),
    "outermost": ("dims",),
    "innermost": ("dims",),
    "factor": ("dim", "fanout", "least", "most"),
    "held": ("level", "must", "tensor"),
    "intrinsic": ("dim", "size"),
    "utilization": ("least",),
    "at_most": ("most", "objective"),
}


class Refused(Exception):
    """The text proves nothing; the reason is a sentence."""


def need(holds: object, reason: str) -> None:
    """Raise Refused unless something holds."""
    if not holds:
        raise Refused(reason)


class Rules:
    """The constraints, read. pairs: (a, b, kind): all temporal loops over a outside all over b ("all"), or the first
    over a before the first over b ("first"), or the last over a after the last over b ("last"), where both have loops.
    factors: (fan-out, dim, least, most). multiples: (dim, size of which every tile is a multiple). share: of what the
    compute units could do. limits: (objective, most). named: dims that some rule treats in its own way."""

    def __init__(
        self, table: Any, dims: list[str], tensors: list[str], levels: list[str], fanouts: Sequence[str]
    ) -> None:
        self.pairs, self.factors = list[tuple[int, int, str]](), list[tuple[str, int, int, int | None]]()
        self.multiples, self.limits = list[tuple[int, int]](), list[tuple[str, str]]()
        self.share, self._held, self._levels = Fraction(0), list[tuple[str, str, bool]](), levels
        self.named, ends = set[int](), {"outermost": set[int](), "innermost": set[int]()}
        need(isinstance(table, list) and len(table) <= 200, "a list of up to 200 constraints is wanted")
        for row in table:
            kind = row.get("rule") if isinstance(row, dict) else None
            need(kind in KINDS and {*row} == {"rule", *KINDS[kind]}, f"a constraint of kind {kind!s:.20} is malformed")
            if kind in ends:
                named = [dims.index(dim) for dim in row["dims"]]
                ends[kind] |= set(named)
                self._ends(*((named, len(dims), "first") if kind == "outermost" else (named[::-1], len(dims), "last")))
            elif kind == "outside":
                self.pairs.append((dims.index(row["outer"]), dims.index(row["inner"]), "all"))
            elif kind == "factor":
                least, most = row["least"], row["most"]
                number = type(least) is int and (most is None or type(most) is int)
                need(number and row["fanout"] in fanouts, "a constraint on a fan-out is malformed")
                self.factors.append((row["fanout"], dims.index(row["dim"]), least, most))
                self.named.add(dims.index(row["dim"]))
            elif kind == "held":
                known = row["tensor"] in tensors and row["level"] in levels[1:]
                need(known and type(row["must"]) is bool, "a constraint on a level is malformed")
                self._held.append((row["tensor"], row["level"], row["must"]))
            elif kind == "intrinsic":
                need(type(row["size"]) is int and row["size"] >= 1, "an intrinsic's size is no integer of at least 1")
                self.multiples.append((dims.index(row["dim"]), row["size"]))
                self.named.add(dims.index(row["dim"]))
            elif kind == "utilization":
                need(isinstance(row["least"], str) and len(row["least"]) <= 200, "a utilization is malformed")
                self.share = max(self.share, Fraction(row["least"]))
            else:
                need(isinstance(row["objective"], str) and isinstance(row["most"], str), "a limit is malformed")
                self.limits.append((row["objective"], row["most"]))
        need(not ends["outermost"] & ends["innermost"], "a dim is outermost and innermost, which is not certified")
        self.named |= {d for a, b, kind in self.pairs for d in ((a, b) if kind == "all" else (a,))}

    def _ends(self, named: list[int], count: int, kind: str) -> None:
        for place, a in enumerate(named):
            self.pairs += [(a, b, kind) for b in range(count) if b not in named[: place + 1]]

    def held(self, tensor: str) -> tuple[frozenset[int], frozenset[int]]:
        """Return the levels that must hold a tensor, and those that may not."""
        own = [(self._levels.index(level), must) for name, level, must in self._held if name == tensor]
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

    def standing(self, values: Any, whole: Any, dims: Sequence[int]) -> Any:
        """Return where a node may stand (an array of booleans, or one): at temporal tiles `values` of `whole`, looking
        at `dims` only."""
        ok: Any = True
        for a, b, kind in ((a, b, kind) for a, b, kind in self.pairs if a in dims and b in dims):
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
