"""One CP-SAT model of everything discrete about a loop tree but its temporal tiles, for trees whose tiles divide.

Variables, per statement: the exponent of every prime of every dim over every fan-out (so that "divides" and "within
the size" are linear, the latter in logarithms), and where the outermost and the innermost temporal loop over a dim
stand in the order. Shared by all statements: which level holds which tensor. What the machine says always holds; each
rule of the user holds under a literal of its own, which is assumed: where there is no solution CP-SAT names rules that
exclude each other.

Every tree with dividing tiles that meets the rules gives a solution. The converse is not claimed: capacities are
compared with the least that nodes can hold, and limits on objectives other than latency are left to the search. The
tables of structures.py list the same spatial structures where no order, storage or tile is constrained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor, log2, prod

from ortools.sat.python import cp_model

from polymap.ir import Mistake, SolverError
from polymap.search.problem.goals import Goal
from polymap.search.problem.lattice import prime_factors
from polymap.search.problem.problem import TUNING, Classes, Problem, TensorTerm
from polymap.search.problem.rules import (
    AtLeast,
    AtMost,
    Factor,
    Held,
    Innermost,
    Intrinsic,
    Outermost,
    Outside,
    Rule,
    Rules,
    Utilization,
    least_parallel,
)

# Of a binary logarithm as an integer: with at most 60 prime factors, products below 10^8 are compared exactly, and
# larger ones are never refused for the rounding.
_SCALE = 1 << 36


@dataclass(frozen=True, slots=True)
class StatementStructure:
    """What is decided for one statement. factors: [fan-out][dim]; classes: [class][dim], their products; order: the
    dims with temporal loops, by the place of their outermost loop."""

    statement: str
    factors: tuple[tuple[int, ...], ...]
    classes: Classes
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A joint choice: one structure per statement, and the (level, tensor) pairs that are held below the outermost."""

    statements: tuple[StatementStructure, ...]
    held: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Clash:
    """Rules that no structure meets together; those that can be left out were left out."""

    rules: Rules


def decide(problem: Problem, rules: Rules) -> Decision | Clash | None:
    """Return a structure that meets the rules, or a minimal set of rules that none meets; None where CP-SAT did not
    find out.

    problem: analysed without the rules, or those of it that are written into its machine are taken for facts.
    Raises SolverError where CP-SAT refuses the model.
    """
    model = _Model(problem, rules)
    found = model.solved(rules)
    if not isinstance(found, Clash):
        return found
    kept = found.rules
    for rule in found.rules:
        rest = tuple(other for other in kept if other != rule)
        smaller = model.solved(rest)
        if isinstance(smaller, Clash):
            kept = tuple(one for one in rest if one in smaller.rules)
    return Clash(kept)


def most_parallel(problem: Problem, rules: Rules) -> int | None:
    """Return the most instances over which a structure that meets the rules spreads all dims together; None where there
    is no structure, or CP-SAT did not find out."""
    model = _Model(problem, rules)
    model.maximize_parallel()
    found = model.solved(rules)
    if not isinstance(found, Decision):
        return None
    return prod(prod(row) for one in found.statements for row in one.factors)


class _Model:
    """The model of a problem, and a literal per rule. A program of several statements would have several `_Spread` and
    `_Order` and one `_Storage`."""

    def __init__(self, problem: Problem, rules: Rules) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.spread = _Spread(self.model, problem)
        self.order = _Order(self.model, self.spread)
        self.storage = _Storage(self.model, problem)
        self.literals = [(rule, self.model.new_bool_var(f"rule {n}")) for n, rule in enumerate(rules)]
        for rule, literal in self.literals:
            self._add(rule, literal)
        self._hold_tiles()
        for classes in problem.excluded:
            self.spread.exclude(classes)

    def maximize_parallel(self) -> None:
        """Ask for the structure that spreads all dims over the most instances together."""
        self.model.maximize(self.spread.log(self.spread.all_terms(), _down))

    def solved(self, rules: Rules) -> Decision | Clash | None:
        """Return a structure that meets these of the rules, or some of them that none meets."""
        assumed = [(rule, literal) for rule, literal in self.literals if rule in rules]
        self.model.clear_assumptions()
        self.model.add_assumptions([literal for _, literal in assumed])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = TUNING.model_seconds
        # An interrupt is Python's: the solver would end as if nothing had happened.
        solver.parameters.catch_sigint_signal = False
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            named = set(solver.sufficient_assumptions_for_infeasibility())
            return Clash(tuple(rule for rule, literal in assumed if literal.index in named))
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return self._decision(solver)
        if status == cp_model.MODEL_INVALID:
            raise SolverError(Mistake("PM590", f"the structure model is invalid: {self.model.validate()}"))
        return None

    def _decision(self, solver: cp_model.CpSolver) -> Decision:
        problem = self.problem
        factors = self.spread.factors(solver)
        classes = tuple(
            tuple(prod(factors[f][d] for f in one.fanouts) for d in range(len(problem.dims))) for one in problem.classes
        )
        statement = problem.workload.statements[0].name
        chosen = StatementStructure(statement, factors, classes, self.order.dims(solver))
        return Decision((chosen,), self.storage.pairs(solver))

    def _add(self, rule: Rule, literal: cp_model.IntVar) -> None:
        problem, spread = self.problem, self.spread
        match rule:
            case Outside() | Outermost() | Innermost():
                for one, other, ends in _precedences(rule, problem.dims):
                    self.order.before(one, other, ends, literal)
            case Factor(fanout, dim, least, most):
                terms = spread.terms(problem.dims.index(dim), [spread.number(fanout)])
                spread.at_least(terms, least, literal)
                if most is not None:
                    spread.at_most(terms, most, literal)
            case Held(level, tensor, must):
                self.storage.hold(level, tensor, literal, must=must)
            case Utilization():
                spread.at_least(
                    spread.all_terms(), least_parallel(prod(problem.extents), problem.arch, (rule,)), literal
                )
            case AtMost(objective, most):
                if objective.goal is Goal.LATENCY:
                    steps = floor(most) * problem.arch.compute.per_cycle
                    whole = prod(problem.extents)
                    least = whole + 1 if steps < 1 else -(-whole // steps)
                    spread.at_least(spread.all_terms(), least, literal)
            case AtLeast():
                pass  # the tiles are chosen after the structure
            case Intrinsic():
                pass  # with what levels hold: see _hold_tiles

    def _hold_tiles(self) -> None:
        """Add that what a level holds is whole multiples of the intrinsic sizes, and has room there."""
        sizes = [(rule, literal) for rule, literal in self.literals if isinstance(rule, Intrinsic)]
        for level in range(1, self.problem.level_count):
            above = self.spread.above(level)
            for term in self.problem.terms:
                held = self.storage.held[level, term.index]
                for rule, literal in sizes:
                    dim = self.problem.dims.index(rule.dim)
                    self.spread.leaves_multiple(dim, above, rule.size, (held, literal))
                self.storage.need(level, term, sizes)
            self.storage.within_capacity(level)


Terms = list[tuple[cp_model.IntVar, int]]  # (exponent, its prime)
Rounding = Callable[[int], int]


class _Spread:
    """Exponents of the factors of one statement's dims over fan-outs; [fan-out, dim, prime]."""

    def __init__(self, model: cp_model.CpModel, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.primes = [dict(prime_factors(extent)) for extent in problem.extents]
        self.exponents: dict[tuple[int, int, int], cp_model.IntVar] = {}
        fanouts = problem.arch.fanouts
        for f, fanout in enumerate(fanouts):
            for d, dim in enumerate(problem.dims):
                for prime, exponent in self.primes[d].items():
                    free = fanout.may_spread(dim) and prime <= fanout.size
                    name = f"{dim} over {fanout.name}, exponent of {prime}"
                    self.exponents[f, d, prime] = model.new_int_var(0, exponent if free else 0, name)
            self.at_most([one for d in range(len(problem.dims)) for one in self.terms(d, [f])], fanout.size)
        for d, primes in enumerate(self.primes):
            for prime, exponent in primes.items():
                model.add(sum(self.exponents[f, d, prime] for f in range(len(fanouts))) <= exponent)

    def number(self, fanout: str) -> int:
        """Return the number of a fan-out."""
        return next(f for f, one in enumerate(self.problem.arch.fanouts) if one.name == fanout)

    def above(self, level: int) -> list[int]:
        """Return the fan-outs above a level."""
        return [f for one in self.problem.classes if one.below <= level for f in one.fanouts]

    def terms(self, dim: int, fanouts: Iterable[int]) -> Terms:
        """Return the exponents of a dim over these fan-outs, with their primes."""
        return [(self.exponents[f, dim, prime], prime) for f in fanouts for prime in self.primes[dim]]

    def all_terms(self) -> Terms:
        """Return all exponents with their primes."""
        return [(variable, prime) for (_, _, prime), variable in self.exponents.items()]

    def log(self, terms: Terms, rounded: Rounding) -> cp_model.LinearExprT:
        """Return the logarithm of the product of the primes to their exponents, each prime's rounded."""
        return sum(rounded(prime) * variable for variable, prime in terms)

    def at_most(self, terms: Terms, most: int, literal: cp_model.IntVar | None = None) -> None:
        """Add that a product is at most so much."""
        bound = self.model.add(self.log(terms, _down) <= _up(most))
        if literal is not None:
            _where(bound, literal)

    def at_least(self, terms: Terms, least: int, literal: cp_model.IntVar) -> None:
        """Add that a product is at least so much."""
        _where(self.model.add(self.log(terms, _up) >= _down(least)), literal)

    def leaves_multiple(self, dim: int, fanouts: list[int], size: int, literals: tuple[cp_model.IntVar, ...]) -> None:
        """Add that what these fan-outs leave of a dim is a multiple of `size`, where all literals hold."""
        for prime, exponent in prime_factors(size):
            spread = [self.exponents[f, dim, prime] for f in fanouts if prime in self.primes[dim]]
            room = self.primes[dim].get(prime, 0) - exponent
            _where(self.model.add(sum(spread) <= room), *literals)

    def left(self, dim: int) -> cp_model.LinearExprT:
        """Return how many prime factors of a dim are left to temporal loops."""
        return sum(self.primes[dim].values()) - sum(variable for variable, _ in self.terms(dim, self.above_all()))

    def above_all(self) -> range:
        """Return all fan-outs."""
        return range(len(self.problem.arch.fanouts))

    def exclude(self, classes: Classes) -> None:
        """Add that the products of the classes are not exactly these."""
        differs: list[cp_model.IntVar] = []
        for one, row in zip(self.problem.classes, classes, strict=True):
            for d, product in enumerate(row):
                known = dict(prime_factors(product))
                for prime in self.primes[d]:
                    total = sum(self.exponents[f, d, prime] for f in one.fanouts)
                    less, more = self.model.new_bool_var("less"), self.model.new_bool_var("more")
                    _where(self.model.add(total < known.get(prime, 0)), less)
                    _where(self.model.add(total > known.get(prime, 0)), more)
                    differs += [less, more]
        self.model.add_bool_or(differs)

    def factors(self, solver: cp_model.CpSolver) -> tuple[tuple[int, ...], ...]:
        """Return the factors [fan-out][dim] of a solution."""
        return tuple(
            tuple(
                prod(prime ** solver.value(variable) for variable, prime in self.terms(d, [f]))
                for d in range(len(self.problem.dims))
            )
            for f in self.above_all()
        )


class _Order:
    """Places of the outermost and the innermost temporal loop of each of one statement's dims. A dim with one prime
    factor left has one loop, one with none has no loop at all."""

    def __init__(self, model: cp_model.CpModel, spread: _Spread) -> None:
        self.model, self.names = model, spread.problem.dims
        places = 2 * len(self.names)
        self.first = [model.new_int_var(0, places, f"outermost loop over {dim}") for dim in self.names]
        self.last = [model.new_int_var(0, places, f"innermost loop over {dim}") for dim in self.names]
        self.looped = [model.new_bool_var(f"{dim} has a loop") for dim in self.names]
        for d in range(len(self.names)):
            several = model.new_bool_var(f"{self.names[d]} may have several loops")
            _where(model.add(spread.left(d) >= 1), self.looped[d])
            _where(model.add(spread.left(d) <= 0), ~self.looped[d])
            _where(model.add(spread.left(d) >= 2), several)
            model.add(self.first[d] <= self.last[d])
            _where(model.add(self.first[d] == self.last[d]), ~several)

    def before(self, one: int, other: int, ends: tuple[bool, bool], literal: cp_model.IntVar) -> None:
        """Add that a loop over one dim (its innermost where ends[0], else its outermost) stands outside one over
        another dim, where both have loops."""
        outer = self.last[one] if ends[0] else self.first[one]
        inner = self.last[other] if ends[1] else self.first[other]
        both = (literal, self.looped[one], self.looped[other])
        _where(self.model.add(outer < inner), *both)

    def dims(self, solver: cp_model.CpSolver) -> tuple[str, ...]:
        """Return the dims that have loops in a solution, by the place of their outermost loop."""
        looped = [d for d in range(len(self.names)) if solver.value(self.looped[d])]
        return tuple(self.names[d] for d in sorted(looped, key=lambda d: (solver.value(self.first[d]), d)))


def _precedences(
    rule: Outside | Outermost | Innermost, names: tuple[str, ...]
) -> Iterator[tuple[int, int, tuple[bool, bool]]]:
    """Yield which loop stands outside which other: (dim, dim, whether the innermost loop of each is meant)."""
    match rule:
        case Outside(outer, inner):
            yield names.index(outer), names.index(inner), (True, False)
        case Outermost(dims):
            for place, dim in enumerate(dims):
                for other in names:
                    if other not in dims[: place + 1]:
                        yield names.index(dim), names.index(other), (False, False)
        case Innermost(dims):
            for place, dim in enumerate(dims):
                for other in names:
                    if other not in dims[place:]:
                        yield names.index(other), names.index(dim), (True, True)


class _Storage:
    """Which level below the outermost holds which tensor, [level, tensor], and the bits that this takes at least."""

    def __init__(self, model: cp_model.CpModel, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.held: dict[tuple[int, int], cp_model.IntVar] = {}
        self.bits: dict[tuple[int, int], cp_model.IntVar] = {}
        for level, one in enumerate(problem.arch.levels[1:], 1):
            for term in problem.terms:
                held = model.new_bool_var(f"{one.name} holds {term.tensor.name}")
                self.held[level, term.index] = held
                if level not in term.may_hold:
                    model.add(held == 0)
                if level in term.must_hold:
                    model.add(held == 1)

    def hold(self, level: str, tensor: str, literal: cp_model.IntVar, *, must: bool) -> None:
        """Add that a level holds a tensor, or does not, where the literal holds."""
        number = next(n for n, one in enumerate(self.problem.arch.levels) if one.name == level)
        index = next(term.index for term in self.problem.terms if term.tensor.name == tensor)
        if (number, index) in self.held:
            _where(self.model.add(self.held[number, index] == int(must)), literal)

    def need(self, level: int, term: TensorTerm, sizes: list[tuple[Intrinsic, cp_model.IntVar]]) -> None:
        """Add the bits that the level needs at least for a tensor: its elements in a tile of the intrinsic sizes.

        Bits of long capacities are counted in larger units, what is needed rounded down: nothing that fits is excluded.
        """
        capacity = self.problem.arch.levels[level].capacity_bits
        if capacity is None:
            return
        unit = _unit(capacity)
        capacity //= unit
        bits = self.bits[level, term.index] = self.model.new_int_var(0, capacity, "bits")
        own = [(rule, literal) for rule, literal in sizes if rule.dim in term.dims]
        for count in range(len(own) + 1):
            for some in combinations(own, count):
                needed = term.tensor.bits * _least_elements(term, {rule.dim: rule.size for rule, _ in some})
                literals = [self.held[level, term.index], *(literal for _, literal in some)]
                _where(self.model.add(bits >= min(needed // unit, capacity + 1)), *literals)

    def within_capacity(self, level: int) -> None:
        """Add that all that the level holds has room there."""
        one = self.problem.arch.levels[level]
        if one.capacity_bits is not None:
            bits = sum(self.bits[level, term.index] for term in self.problem.terms)
            self.model.add(bits * one.buffering <= one.capacity_bits // _unit(one.capacity_bits))

    def pairs(self, solver: cp_model.CpSolver) -> frozenset[tuple[str, str]]:
        """Return the (level, tensor) pairs that are held in a solution."""
        levels, terms = self.problem.arch.levels, self.problem.terms
        return frozenset(
            (levels[level].name, terms[index].tensor.name)
            for (level, index), held in self.held.items()
            if solver.value(held)
        )


def _where(constraint: cp_model.Constraint, *literals: cp_model.LiteralT) -> None:
    """Let a constraint hold where all literals do, and only there."""
    constraint.only_enforce_if(list(literals))  # pyright: ignore[reportUnknownMemberType]  # one overload is untyped


def _least_elements(term: TensorTerm, sizes: dict[str, int]) -> int:
    """Return how many elements of a tensor a tile of at least so many indices per dim has at least: sums of a and b
    different numbers have at least a + b - 1 values."""
    return prod(1 + sum(sizes.get(dim, 1) - 1 for dim in group.dims) for group in term.groups)


def _unit(capacity_bits: int) -> int:
    """Return the unit of bits in which a capacity is in the solver's reach."""
    return 1 << max(0, capacity_bits.bit_length() - 48)


def _down(number: int) -> int:
    return floor(log2(number) * _SCALE)


def _up(number: int) -> int:
    return ceil(log2(number) * _SCALE)
