"""One CP-SAT model per placement of the storage nodes: exponents are integers, products lie above their tangents.

A product of powers of primes is convex in the exponents, so it lies above the plane that touches it at any point; on
the integers of one prime it lies above the chords between neighbours, which are exact there. All coefficients are
integers found with exact arithmetic, rounded to the safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from functools import cache
from itertools import product
from math import prod

from ortools.sat.python import cp_model

from polymap.ir import Mistake, OptionError, SolverError
from tests.second_prover.form import Exponents, Factor, Form, Placement, Power, Sum, primes_of

Point = tuple[int, ...]  # the exponents of a product, one per prime
Order = tuple[int, int]  # nodes: the first stands no lower than the second
_POINTS = 80  # tangents of one product that are given to the solver from the start
_FINE = 1 << 10  # a tangent's coefficients are multiples of 1 / _FINE of its value
_LARGEST = 1 << 61  # of any sum in a model
_EFFORT = 60.0  # deterministic seconds per model


class Presolve(Enum):
    """Whether CP-SAT simplifies a model first."""

    ON = True
    OFF = False


@dataclass(frozen=True, slots=True)
class _Known:
    """A product in the model: variable (its value, at least), per prime the exponent's least and largest value.

    largest: what the value cannot exceed. touched: where tangents lie. exact: the variable is the value itself.
    """

    variable: cp_model.IntVar
    largest: int
    ranges: tuple[tuple[int, int], ...]
    touched: set[Point]
    exact: bool


class PlacementModel:
    """The trees of one placement, all orders of nodes of different tensors included."""

    def __init__(self, form: Form, placement: Placement) -> None:
        self.form, self.placement = form, placement
        self.cost = form.cost(placement)
        self.model = cp_model.CpModel()
        self.variables: dict[tuple[Factor, int], cp_model.IntVar] = {}
        self._powers: dict[Power, _Known] = {}
        self._limits: list[tuple[int, Sum]] = [*form.held(placement), *self._fanout_sizes()]
        self._declare()
        for power, weight in self.cost.items():
            self._known(power, exact=weight < 0)
        for limit, total in self._limits:
            self.model.add(self._sum(total) <= limit)
        largest = sum(abs(weight) * self._known(power).largest for power, weight in self.cost.items())
        if largest >= _LARGEST:
            raise OptionError(Mistake("PM523", "the problem's numbers are too large for the second prover"))

    def least(self, orders: tuple[Order, ...], below: int | None) -> Exponents | None:
        """Return the exponents of a tree that costs less than `below` if products are as the model has them.

        None: there is none, which two runs of the solver say, the second without presolve.

        Raises SolverError where CP-SAT gives no answer.
        """
        model = self.model.clone()
        for first, second in orders:
            for dim, prime, _ in self._primes():
                model.add(self._above(first, dim, prime) <= self._above(second, dim, prime))
        objective = self._sum(self.cost)
        if below is not None:
            model.add(objective <= below - 1)
        model.minimize(objective)
        found = self._solved(model, Presolve.ON)
        return self._solved(model, Presolve.OFF) if found is None else found

    def is_true(self, exponents: Exponents, below: int | None) -> bool:
        """Return whether the tree with these exponents is within all limits and costs less than `below`, exactly.

        Where it is not, the model learns the true values of its products there.
        """
        fits = all(value_of(total, exponents) <= limit for limit, total in self._limits)
        if fits and (below is None or value_of(self.cost, exponents) < below):
            return True
        learnt = [self._touch(power, known, _point(power, exponents)) for power, known in self._powers.items()]
        if not any(learnt):
            raise SolverError(Mistake("PM593", "CP-SAT gave a solution that breaks a constraint of its model"))
        return False

    def _declare(self) -> None:
        """Add the exponents: of the temporal loops above each node, and of the spatial loops."""
        for dim, prime, exponent in self._primes():
            spread = [f for f, dims in enumerate(self.form.spreadable) if dim in dims]
            for kind, numbers in (("above", range(len(self.placement))), ("spread", spread)):
                for number in numbers:
                    name = f"{kind}_{number}_{dim}_{prime}"
                    self.variables[(kind, number, dim), prime] = self.model.new_int_var(0, exponent, name)
            loops = sum(self.variables[("spread", fanout, dim), prime] for fanout in spread)
            self.model.add(loops <= exponent)
            for number in range(len(self.placement)):
                self.model.add(self._above(number, dim, prime) + loops <= exponent)
            for number, (one, other) in enumerate(zip(self.placement, self.placement[1:], strict=False)):
                if one.tensor == other.tensor:
                    self.model.add(self._above(number, dim, prime) <= self._above(number + 1, dim, prime))

    def _primes(self) -> list[tuple[int, int, int]]:
        """Return (dim, prime, exponent of the extent)."""
        return [(dim, *factor) for dim, extent in enumerate(self.form.extents) for factor in primes_of(extent)]

    def _above(self, node: int, dim: int, prime: int) -> cp_model.IntVar:
        return self.variables[("above", node, dim), prime]

    def _fanout_sizes(self) -> list[tuple[int, Sum]]:
        return [
            (fanout.size, {self.form.power((), *((("spread", f, dim), 1) for dim in self.form.spreadable[f])): 1})
            for f, fanout in enumerate(self.form.arch.fanouts)
        ]

    def _sum(self, total: Sum) -> cp_model.LinearExprT:
        return sum(weight * self._known(power).variable for power, weight in total.items())

    def _known(self, power: Power, *, exact: bool = False) -> _Known:
        """Return the product's variable, with its tangents or, where it must be exact, a table of its values."""
        if power not in self._powers:
            ranges = tuple(self._range(part) for part in power.primes)
            largest = prod(p**high for (p, _, _), (_, high) in zip(power.primes, ranges, strict=True))
            if largest * _FINE >= _LARGEST:
                raise OptionError(Mistake("PM523", "the problem's numbers are too large for the second prover"))
            variable = self.model.new_int_var(1, largest, f"power{len(self._powers)}")
            self._powers[power] = _Known(variable, largest, ranges, set(), exact)
            if exact:
                self._tabulate(power)
            elif prod(high - low + 1 for low, high in ranges) <= _POINTS:
                for point in product(*(range(low, high + 1) for low, high in ranges)):
                    self._touch(power, self._powers[power], point)
        return self._powers[power]

    def _range(self, part: tuple[int, int, tuple[tuple[Factor, int], ...]]) -> tuple[int, int]:
        """Return the least and the largest exponent; the loops over one dim together make at most its extent."""
        prime, constant, linear = part
        room = {d: e for d, p, e in self._primes() if p == prime}
        down = sum(room[dim] for dim in {factor[2] for factor, c in linear if c < 0})
        up = sum(room[dim] for dim in {factor[2] for factor, c in linear if c > 0})
        return constant - down, constant + up

    def _exponent(self, part: tuple[int, int, tuple[tuple[Factor, int], ...]]) -> cp_model.LinearExprT:
        prime, constant, linear = part
        return constant + sum(c * self.variables[factor, prime] for factor, c in linear)

    def _tabulate(self, power: Power) -> None:
        known = self._powers[power]
        parts: list[cp_model.IntVar] = []
        for (low, high), part in zip(known.ranges, power.primes, strict=True):
            parts.append(self.model.new_int_var(low, high, f"{known.variable.name}_{part[0]}"))
            self.model.add(parts[-1] == self._exponent(part))
        points = list(product(*(range(low, high + 1) for low, high in known.ranges)))
        rows = [(*point, value) for point in points if (value := _value(power, point)) is not None]
        self.model.add_allowed_assignments([*parts, known.variable], rows)

    def _touch(self, power: Power, known: _Known, point: Point) -> bool:
        """Add the plane that touches the product at a point; return whether it is new."""
        value = _value(power, point)
        if known.exact or value is None or point in known.touched:
            return False
        known.touched.add(point)
        free = [i for i, (low, high) in enumerate(known.ranges) if high > low]
        steps = [self._exponent(power.primes[i]) - point[i] for i in range(len(point))]
        if len(free) <= 1:
            # The chord to the next power of the one prime: p^n - 1 >= n (p - 1) for every integer n.
            rise = sum(value * (power.primes[i][0] - 1) * steps[i] for i in free)
            self.model.add(known.variable >= value + rise)
            return True
        slopes = [_rounded(value * _FINE * _log(power.primes[i][0])) for i in free]
        # Each slope is off by at most a half, so the plane may be too high by half the distance to the farthest point.
        slack = 1 + sum(max(point[i] - known.ranges[i][0], known.ranges[i][1] - point[i]) for i in free)
        if slack >= _FINE:
            raise OptionError(Mistake("PM523", "the problem's numbers are too large for the second prover"))
        rise = sum(slope * steps[i] for i, slope in zip(free, slopes, strict=True))
        self.model.add(_FINE * known.variable >= _FINE * value - slack + rise)
        return True

    def _solved(self, model: cp_model.CpModel, presolve: Presolve) -> Exponents | None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.catch_sigint_signal = False
        solver.parameters.max_deterministic_time = _EFFORT
        solver.parameters.cp_model_presolve = presolve.value
        invalid = model.validate()
        if invalid:
            raise SolverError(Mistake("PM590", f"a model of the second prover is invalid: {invalid}"))
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return None
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise SolverError(Mistake("PM592", f"CP-SAT ended a proof with {solver.status_name(status)}"))
        return {key: solver.value(variable) for key, variable in self.variables.items()}


def value_of(total: Sum, exponents: Exponents) -> int:
    """Return the value of a sum of products, in integers."""
    return sum(weight * power.value(exponents) for power, weight in total.items())


def _point(power: Power, exponents: Exponents) -> Point:
    return tuple(
        constant + sum(c * exponents[factor, prime] for factor, c in linear) for prime, constant, linear in power.primes
    )


def _value(power: Power, point: Point) -> int | None:
    """Return the product for exponents per prime; None where it is no integer."""
    if any(exponent < 0 for exponent in point):
        return None
    return prod(prime**exponent for (prime, _, _), exponent in zip(power.primes, point, strict=True))


@cache
def _log(number: int) -> Decimal:
    """Return the natural logarithm with 50 correct digits, the same on every machine."""
    return Context(prec=50).ln(Decimal(number))


def _rounded(value: Decimal) -> int:
    return int(value.to_integral_value())
