"""Which tensors stand whole in a level between statements, from where to where, and which part runs each statement:
chosen by CP-SAT, which proves that no other choice costs less.

Statements run one after the other, in *parts* of neighbours. A tensor may *stay* in a level around neighbouring parts:
it takes its room beside all of them, and what it costs to come and go is paid once. Storage nodes nest, so two stays
are apart, or one is around the other. What a part costs depends on which of its tensors stay around it, and where, and
on the room that is taken; that is asked for when a choice needs it. Before, it is bounded: a tensor that stays saves no
more than it passes. So the first choices are too good; what is then learnt of their parts is added to the model, until
a choice is made of parts that are known: none costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import ceil, floor, lcm
from typing import TYPE_CHECKING

from polymap.resources import Stop
from polymap.search.programs.tuning import TUNING

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST = 2**30  # of sums in the model: of larger ones CP-SAT 9.15 loses the best choices, and calls others optimal
Home = tuple[str, int]  # a tensor in a level


@dataclass(frozen=True, slots=True)
class Column:
    """A part that may run the statements from one number to before another. least: what it costs at least where
    nothing stays around it. saved: what each tensor that it touches saves at most, by its home."""

    begin: int
    end: int
    least: Fraction
    saved: dict[Home, Fraction]


@dataclass(frozen=True, slots=True)
class Residence:
    """A tensor that stands in a level around the statements from one number to before another, and what it costs to
    come and go."""

    home: Home
    begin: int
    end: int
    bits: int
    cost: Fraction

    def is_around(self, column: Column) -> bool:
        return self.begin <= column.begin and column.end <= self.end


@dataclass(frozen=True, slots=True)
class Around:
    """What a part is asked for with: its tensors that stay around it, and the bits taken in each level by all that
    do."""

    column: int
    held: tuple[Home, ...]
    taken: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Parts in their order, and what stays around them. value: in all. bound: no choice costs less."""

    value: Fraction
    parts: tuple[Around, ...]
    stays: tuple[Residence, ...]
    bound: Fraction


Ask = Callable[[Around], Fraction | None]  # what a part costs; None where it has no room


def selections(
    columns: list[Column],
    stays: list[Residence],
    rooms: dict[int, int | None],
    ask: Ask,
    stop: Stop,
    slack: Fraction = Fraction(0),
) -> Iterator[Selection]:
    """Yield ever better choices, the last one with the bound of all that was known in the end. rooms: bits of each
    level, None without end. slack: of the best one's cost what better ones may save at most that are not looked for.
    The bound holds where a part costs no less if more is taken, or if a stay saves as much as it may."""
    known, best = dict[Around, Fraction | None](), None
    while not stop():
        model = _Model(columns, stays, rooms, known)
        found = model.solved()
        if found is None:
            return
        chosen, own, least = found
        asked = [_around(columns, number, own) for number in chosen]
        new = [each for each in asked if each not in known]
        for each in new:
            if stop():
                return
            known[each] = ask(each)
        costs = [known[each] for each in asked]
        value = sum(filter(None, costs), sum((each.cost for each in own), Fraction(0)))
        if None not in costs and (best is None or value < best.value):
            best = Selection(value, tuple(asked), own, min(least, value))
            yield best
        if not new or (best is not None and best.value - least <= best.value * slack):
            if best is not None:
                yield replace(best, bound=min(least, best.value))
            return


def _around(columns: list[Column], number: int, stays: tuple[Residence, ...]) -> Around:
    """Return what stands around a part."""
    taken, held = dict[int, int](), list[Home]()
    for each in stays:
        if each.is_around(columns[number]):
            taken[each.home[1]] = taken.get(each.home[1], 0) + each.bits
            held += [each.home] if each.home in columns[number].saved else []
    return Around(number, tuple(sorted(held)), tuple(sorted(taken.items())))


def _scale(columns: list[Column], stays: list[Residence], known: dict[Around, Fraction | None]) -> tuple[Fraction, int]:
    """Return by what costs are multiplied to be integers, or are rounded to them, and the most that a part costs."""
    costs = (
        [each.least for each in columns]
        + [each.cost for each in stays]
        + [each or Fraction(0) for each in known.values()]
    )
    costs += [cost for each in columns for cost in each.saved.values()]
    most, scale = max(costs, default=Fraction(0)), Fraction(lcm(*(each.denominator for each in costs)))
    scale = min(scale, Fraction(MOST) / max(1, most * (len(columns) + len(stays))))
    return scale, ceil(most * scale)


class _Model:
    """One literal per part and per stay; what a part costs is at least what is known of it. Costs are rounded down and
    what is saved is rounded up: the least of the model bounds all choices, in exact numbers too."""

    def __init__(
        self,
        columns: list[Column],
        stays: list[Residence],
        rooms: dict[int, int | None],
        known: dict[Around, Fraction | None],
    ) -> None:
        from ortools.sat.python import cp_model  # half a second to load

        self._columns, self._stays, self._model = columns, stays, cp_model.CpModel()
        self._scale, self._most = _scale(columns, stays, known)
        self._runs = [self._model.new_bool_var(f"part {number}") for number in range(len(columns))]
        self._stands = [self._model.new_bool_var(f"stay {number}") for number in range(len(stays))]
        self._order(rooms)
        own = [self._cost(number, known) for number in range(len(columns))]
        self._model.minimize(
            sum(own) + sum(floor(each.cost * self._scale) * v for each, v in zip(stays, self._stands, strict=True))
        )

    def _order(self, rooms: dict[int, int | None]) -> None:
        """Say that each statement runs once, that stays nest, cut no part and have room."""
        model, columns, stays = self._model, self._columns, self._stays
        pairs = list(zip(stays, self._stands, strict=True))
        blocks = {(each.begin, each.end): model.new_bool_var(f"block {each.begin} {each.end}") for each in stays}
        for each, stands in pairs:
            model.add_implication(stands, blocks[each.begin, each.end])
        for one, other in combinations(sorted(blocks), 2):
            if one[0] < other[0] < one[1] < other[1]:
                model.add_at_most_one(blocks[one], blocks[other])
        for column, runs in zip(columns, self._runs, strict=True):
            for ends, block in blocks.items():
                if any(column.begin < end < column.end for end in ends):
                    model.add_at_most_one(runs, block)
        for at in range(max(each.end for each in columns)):
            model.add_exactly_one(v for each, v in zip(columns, self._runs, strict=True) if each.begin <= at < each.end)
            here = [(each, v) for each, v in pairs if each.begin <= at < each.end]
            for name in sorted({each.home[0] for each, _ in here}):
                model.add_at_most_one(v for each, v in here if each.home[0] == name)
            for level, room in rooms.items():
                if room is not None:
                    model.add(sum(each.bits * v for each, v in here if each.home[1] == level) <= room)

    def _cost(self, number: int, known: dict[Around, Fraction | None]) -> cp_model.IntVar:
        """Return what a part costs: at least what is known with as much taken, else its least without what is saved."""
        model, column, runs = self._model, self._columns[number], self._runs[number]
        around = [(each, v) for each, v in zip(self._stays, self._stands, strict=True) if each.is_around(column)]
        held = {home: sum(v for each, v in around if each.home == home) for home in column.saved}
        cost = model.new_int_var(0, self._most, f"cost {number}")
        least = floor(column.least * self._scale)
        saved = sum(ceil(column.saved[home] * self._scale) * held[home] for home in held)
        _enforce(model.add(cost >= least - saved), runs)
        for at, (asked, value) in enumerate(known.items()):
            if asked.column != number:
                continue
            unlike = sum((1 - held[home]) if home in asked.held else held[home] for home in held)
            fewer: list[cp_model.IntVar] = []
            for level, bits in asked.taken:
                fewer.append(model.new_bool_var(f"less {at} {level}"))
                taken = sum(each.bits * v for each, v in around if each.home[1] == level)
                _enforce(model.add(taken <= bits - 1), fewer[-1])
            other = model.new_bool_var(f"other {at}")
            _enforce(model.add(unlike >= 1), other)
            if value is None:
                model.add_bool_or([~runs, other, *fewer])
            else:
                one = model.new_bool_var(f"as known {at}")
                model.add_bool_or([one, ~runs, other, *fewer])
                _enforce(model.add(cost >= floor(value * self._scale)), one)
        return cost

    def solved(self) -> tuple[tuple[int, ...], tuple[Residence, ...], Fraction] | None:
        """Return the parts and stays of a choice that costs least by what is known, and that; None where there is none,
        or it is not proven in time."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = TUNING.selection_s
        solver.parameters.catch_sigint_signal = False
        if solver.solve(self._model) != cp_model.OPTIMAL:
            return None
        runs = [number for number, each in enumerate(self._runs) if solver.boolean_value(each)]
        stays = [own for own, each in zip(self._stays, self._stands, strict=True) if solver.boolean_value(each)]
        runs.sort(key=lambda number: self._columns[number].begin)
        return tuple(runs), tuple(stays), Fraction(round(solver.objective_value)) / self._scale


def _enforce(constraint: cp_model.Constraint, literal: cp_model.IntVar) -> None:
    """Let a constraint hold where a literal does."""
    constraint.only_enforce_if(literal)  # pyright: ignore[reportUnknownMemberType]  # one overload is untyped
