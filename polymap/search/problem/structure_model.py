"""A CP-SAT model of the discrete part of a loop tree with dividing tiles: everything but its temporal tiles.

Variables, per statement: the exponent of every prime of every dim over every fan-out (so that "divides" and "within the
size" are linear, the latter in logarithms), and the positions of the outermost and the innermost temporal loop over
each dim. Shared by all statements: which level holds which tensor. The machine's constraints always hold. Each rule of
the user holds under a literal of its own, which is assumed: without a solution CP-SAT returns rules that exclude each
other.

Every tree with dividing tiles that meets the rules gives a solution. For `decide` the converse does not hold:
capacities are compared with lower bounds on what nodes hold, and limits on objectives other than latency are left to
the search. The tables of structures.py list the same spatial structures where no order, storage or tile is constrained.
`list_structures` omits capacities and limits; then the model is exact for fan-outs and tiles below 10^8: every solution
has such a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor, log2, prod

from ortools.sat.python import cp_model

from polymap.ir import Mistake, SolverError, accesses_of
from polymap.search.problem.lattice import prime_factors
from polymap.search.problem.objectives import Goal
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
    Span,
    Utilization,
    least_parallel,
)

# Of a binary logarithm as an integer: with at most 60 prime factors, products below 10^8 are compared exactly, and
# larger ones are never refused for the rounding.
_SCALE = 1 << 36


@dataclass(frozen=True, slots=True)
class StatementStructure:
    """The structure of one statement.

    factors: [fan-out][dim]. classes: [class][dim], their products. order: the dims with temporal loops, by the position
    of their outermost loop.
    """

    statement: str
    factors: tuple[tuple[int, ...], ...]
    classes: Classes
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One structure per statement, and the (level, tensor) pairs held below the outermost level."""

    statements: tuple[StatementStructure, ...]
    held: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Clash:
    """Rules that no structure meets together, without those that CP-SAT found to be dispensable."""

    rules: Rules


def decide(problem: Problem, rules: Rules) -> Decision | Clash | None:
    """Return a structure that meets the rules, or a minimal set of rules that none meets; None where CP-SAT does not
    decide.

    problem: analysed without the rules; rules written into its machine would count as facts. Raises SolverError where
    CP-SAT rejects the model.
    """
    model = _Model(problem, rules)
    model.hold_tiles({})
    model.hold_in_capacity()
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
    """Return the most instances over which a structure that meets the rules spreads all dims together.

    None where there is no structure, or CP-SAT does not decide.
    """
    model = _Model(problem, rules)
    model.hold_tiles({})
    model.hold_in_capacity()
    model.maximize_parallel()
    found = model.solved(rules)
    if not isinstance(found, Decision):
        return None
    return prod(prod(row) for one in found.statements for row in one.factors)


def list_structures(problem: Problem, rules: Rules, vectors: Sequence[Sequence[int]] | None) -> Iterator[Decision]:
    """Yield every structure with a dividing tree that meets the machine (capacities aside) and the rules (limits
    aside). Each is yielded once, in an order that depends on the question only. Each one found is then excluded, so the
    iterator ends exactly where CP-SAT proves that none is left. problem: analysed without the rules. vectors: signs of
    dependences along the dims, which the order must respect: the first dim with a loop and a non-zero sign has a
    positive one. They are checked for trees with one temporal loop per dim and the spatial loops inside; a vector along
    a dim that is partly spread is not checked. None: any loop order is legal. Raises SolverError where CP-SAT does not
    decide."""
    ends = () if vectors is not None else tuple(rule for rule in rules if isinstance(rule, Innermost))
    listing = _Listing(problem, tuple(rule for rule in rules if rule not in ends), vectors or ())
    loops = _TwoLoops(problem, rules) if ends else None
    most = 1
    while found := listing.next(most):
        yield from (one.decision for one in found if loops is None or loops.allow(one))
        most *= 2  # as many as are known: what is asked for takes at most twice as long as it has to


class _Model:
    """The model of a problem, with a literal per rule. single: dims have at most one temporal loop. A program of
    several statements would have several `_Spread` and `_Order` and one `_Storage`."""

    def __init__(self, problem: Problem, rules: Rules, *, single: bool = False) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.spread = _Spread(self.model, problem)
        self.order = _Order(self.model, self.spread, single=single)
        self.storage = _Storage(self.model, problem)
        self.literals = [(rule, self.model.new_bool_var(f"rule {n}")) for n, rule in enumerate(rules)]
        for rule, literal in self.literals:
            self._add(rule, literal)

    def hold_tiles(self, temporal: Mapping[Place, Terms]) -> None:
        """Require that nodes' tiles are multiples of intrinsic sizes and as large as rules demand. temporal: (level,
        tensor, dim) -> the exponents of the temporal loops outside the node; {}: nodes are outside all loops."""
        spread, dims = self.spread, self.problem.dims
        for rule, literal in ((one, own) for one, own in self.literals if isinstance(one, Intrinsic)):
            spread.leaves_multiple(dims.index(rule.dim), [], rule.size, (literal,))  # the outermost level's whole tile
        for place, held in self.storage.held.items():
            above = spread.above(place[0])
            taken = [[*spread.terms(d, above), *temporal.get((*place, d), [])] for d in range(len(dims))]
            for rule, literal in self.literals:
                match rule:
                    case Intrinsic(dim, size):
                        number = dims.index(dim)
                        spread.leaves_multiple(number, taken[number], size, (held, literal))
                    case AtLeast(level, tensor, elements) if (level, tensor) == self.storage.name(*place):
                        own = self.storage.dims_of(place[1])
                        spread.leaves_elements({d: taken[d] for d in own}, elements, (held, literal))
                    case _:
                        pass  # of tiles between two sizes every structure has some

    def hold_in_capacity(self) -> None:
        """Require that each level has room for a lower bound on what it holds."""
        sizes = [(rule, literal) for rule, literal in self.literals if isinstance(rule, Intrinsic)]
        for level in range(1, self.problem.level_count):
            for term in self.problem.terms:
                self.storage.need(level, term, sizes)
            self.storage.within_capacity(level)

    def maximize_parallel(self) -> None:
        """Set the objective: the product of all spatial factors."""
        self.model.maximize(self.spread.log(self.spread.all_terms(), _down))

    def solved(self, rules: Rules) -> Decision | Clash | None:
        """Return a structure that meets these rules, or some of them that no structure meets."""
        assumed = [(rule, literal) for rule, literal in self.literals if rule in rules]
        self.model.clear_assumptions()
        self.model.add_assumptions([literal for _, literal in assumed])
        solver = _solver()
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            named = set(solver.sufficient_assumptions_for_infeasibility())
            return Clash(tuple(rule for rule, literal in assumed if literal.index in named))
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return self._decision(solver)
        _check_model(self.model, status)
        return None

    def _decision(self, solver: cp_model.CpSolver) -> Decision:
        values = {place: solver.value(variable) for place, variable in self.spread.exponents.items()}
        return self.decided(values, self.order.dims(solver), self.storage.pairs(solver))

    def decided(
        self, exponents: Mapping[Place, int], order: tuple[str, ...], held: frozenset[tuple[str, str]]
    ) -> Decision:
        """Return the structure with these exponents, this order of dims and these held pairs."""
        problem = self.problem
        factors = self.spread.factors(exponents)
        classes = tuple(
            tuple(prod(factors[f][d] for f in one.fanouts) for d in range(len(problem.dims))) for one in problem.classes
        )
        statement = problem.workload.statements[0].name
        return Decision((StatementStructure(statement, factors, classes, order),), held)

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
            case AtLeast() | Span() | Intrinsic():
                pass  # with what levels hold: see hold_tiles


@dataclass(frozen=True, slots=True)
class _Shape:
    """A structure: exponents over fan-outs, pairs of dims of which the first is outside the second, held (level,
    tensor)."""

    exponents: dict[Place, int]
    ahead: frozenset[tuple[int, int]]
    held: frozenset[tuple[int, int]]
    decision: Decision


class _Listing:
    """The model of `list_structures` for trees with one loop per dim, with literals that identify a structure so that
    it can be excluded. All other variables follow from these, so CP-SAT may enumerate many solutions in one call."""

    def __init__(self, problem: Problem, rules: Rules, vectors: Sequence[Sequence[int]]) -> None:
        self.base = base = _Model(problem, rules, single=True)
        self.model = base.model
        for _, literal in base.literals:
            self.model.add(literal == 1)
        self.values = base.spread.values()
        self.ahead = base.order.pairs(ranked=True)
        self.held = base.storage.held
        partly = base.spread.partly(base.order.looped) if vectors else []
        for vector in vectors:
            base.order.keep(vector, self.ahead, partly)
        base.hold_tiles({})

    def next(self, most: int) -> list[_Shape]:
        """Return up to `most` structures that were not returned yet, and exclude them; [] where none is left."""
        solver = _solver(most)
        solver.parameters.enumerate_all_solutions = most > 1
        found = _Solutions([*self.values.values(), *self.ahead.values(), *self.held.values()], most)
        status = solver.solve(self.model, found)
        if not found.true and status != cp_model.INFEASIBLE:
            _check_model(self.model, status)
            raise _undecided_error(solver.status_name(status))
        for true in found.true:
            self._forbid(true)
        return [self._shape_of(true) for true in found.true]

    def _forbid(self, true: frozenset[int]) -> None:
        """Exclude one structure: some exponent, some order of two dims, or some held tensor must differ. true: the
        literals that identify it."""
        chosen = (*self.values.values(), *self.ahead.values())
        differs = [~literal for literal in chosen if literal.index in true]
        differs += [~literal if literal.index in true else literal for literal in self.held.values()]
        self.model.add_bool_or(differs)

    def _shape_of(self, true: frozenset[int]) -> _Shape:
        exponents = {place: value for (place, value), literal in self.values.items() if literal.index in true}
        ahead = frozenset(pair for pair, literal in self.ahead.items() if literal.index in true)
        held = frozenset(place for place, literal in self.held.items() if literal.index in true)
        left = [sum(primes.values()) for primes in self.base.spread.primes]
        for (_, dim, _), value in exponents.items():
            left[dim] -= value
        order = self.base.order.by_first(left, [sum(inner == d for _, inner in ahead) for d in range(len(left))])
        return _Shape(exponents, ahead, held, self.base.decided(exponents, order, self.base.storage.named(held)))


class _TwoLoops:
    """The model of trees whose dims may have two loops, asked about one structure at a time. It decides what one loop
    per dim cannot express: a dim that is outside another one and also innermost."""

    def __init__(self, problem: Problem, rules: Rules) -> None:
        self.base = base = _Model(problem, rules, single=False)
        for _, literal in base.literals:
            base.model.add(literal == 1)
        base.hold_tiles(_temporal_above(base))
        self.values, self.ahead = base.spread.values(), base.order.pairs(ranked=False)

    def allow(self, one: _Shape) -> bool:
        """Return whether some tree has the structure and meets the rules."""
        model, held = self.base.model, self.base.storage.held
        model.clear_assumptions()
        model.add_assumptions([self.values[place, value] for place, value in one.exponents.items()])
        model.add_assumptions([self.ahead[pair] for pair in sorted(one.ahead)])
        model.add_assumptions([literal if place in one.held else ~literal for place, literal in held.items()])
        solver = _solver()
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE):
            _check_model(model, status)
            raise _undecided_error(solver.status_name(status))
        return status != cp_model.INFEASIBLE


def _solver(most: int = 1) -> cp_model.CpSolver:
    """Return a solver whose answer depends on the model only, for so many solutions: about as many are excluded."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = TUNING.model_seconds * (1 + most // TUNING.most_listed)
    # An interrupt is Python's: the solver would end as if nothing had happened.
    solver.parameters.catch_sigint_signal = False
    return solver


def _check_model(model: cp_model.CpModel, status: cp_model.CpSolverStatus) -> None:
    if status == cp_model.MODEL_INVALID:
        raise SolverError(Mistake("PM590", f"the structure model is invalid: {model.validate()}"))


def _undecided_error(status: str) -> SolverError:
    what = f"CP-SAT did not find out whether there are more structures ({status})"
    return SolverError(Mistake("PM592", what, "Constraints that leave fewer structures would help."))


class _Solutions(cp_model.CpSolverSolutionCallback):
    """Collects the first solutions: of each the numbers of the true literals."""

    def __init__(self, literals: Sequence[cp_model.IntVar], most: int) -> None:
        super().__init__()
        self.literals, self.most = literals, most
        self.true: list[frozenset[int]] = []

    def on_solution_callback(self) -> None:
        """Record a solution."""
        self.true.append(frozenset(one.index for one in self.literals if self.value(one)))
        if len(self.true) >= self.most:
            self.stop_search()


def _temporal_above(base: _Model) -> dict[Place, Terms]:
    """Return, per (level, tensor, dim), the exponents of the temporal loops outside the node. A dim with two loops has
    a node between them; otherwise they are one loop. More than two are never needed: joining a middle one to the
    innermost only enlarges nodes' tiles."""
    model, spread, order = base.model, base.spread, base.order
    outer = {
        (d, prime): model.new_int_var(0, exponent, "outermost loop, exponent")
        for d, primes in enumerate(spread.primes)
        for prime, exponent in primes.items()
    }
    between: dict[int, list[cp_model.IntVar]] = {d: [] for d in range(len(order.names))}
    found: dict[Place, Terms] = {}
    for (level, tensor), (held, at) in _places_of_nodes(base).items():
        for d, primes in enumerate(spread.primes):
            below = [model.new_bool_var("inside the outermost loop"), model.new_bool_var("inside the innermost loop")]
            for loop, is_inside in zip((order.first[d], order.last[d]), below, strict=True):
                _where(model.add(at <= loop), held, order.looped[d], ~is_inside)
            own: Terms = []
            for prime, exponent in primes.items():
                own.append((model.new_int_var(0, exponent, "above a node"), prime))
                _where(model.add(own[-1][0] >= outer[d, prime]), held, below[0])
                _where(model.add(own[-1][0] >= spread.left_of(d, prime)), held, below[1])
            found[level, tensor, d] = own
            between[d].append(model.new_bool_var("between two loops"))
            _where(model.add(order.first[d] < at), between[d][-1])
            _where(model.add(order.last[d] >= at), between[d][-1])
            model.add_implication(between[d][-1], held)
    for d, primes in enumerate(spread.primes):
        total = sum(outer[d, prime] for prime in primes)
        _where(model.add(total >= 1), order.several[d])
        for prime in primes:
            _where(model.add(outer[d, prime] <= spread.left_of(d, prime)), order.several[d])
        _where(model.add_bool_or(between[d]), order.several[d])
    return found


def _places_of_nodes(base: _Model) -> dict[tuple[int, int], tuple[cp_model.IntVar, cp_model.IntVar]]:
    """Return, per (level, tensor), whether it is held and the node's position among the loops. A node is before the
    loop of the same position. The nodes of one tensor are in the order of levels."""
    most = 2 * len(base.order.names) + 1
    found = {place: (held, base.model.new_int_var(0, most, "node")) for place, held in base.storage.held.items()}
    for (level, tensor), (held, at) in found.items():
        for (inner, other), (also, there) in found.items():
            if other == tensor and inner > level:
                _where(base.model.add(at <= there), held, also)
    return found


Place = tuple[int, int, int]  # (fan-out, dim, prime) of an exponent, or (level, tensor, dim) of a node
Terms = list[tuple[cp_model.IntVar, int]]  # (exponent, its prime)
Rounding = Callable[[int], int]


class _Spread:
    """Exponents [fan-out, dim, prime] of the spatial factors of one statement's dims."""

    def __init__(self, model: cp_model.CpModel, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.primes = [dict(prime_factors(extent)) for extent in problem.extents]
        self.exponents: dict[Place, cp_model.IntVar] = {}
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
        """Return the exponents of a dim over these fan-outs, each with its prime."""
        return [(self.exponents[f, dim, prime], prime) for f in fanouts for prime in self.primes[dim]]

    def all_terms(self) -> Terms:
        """Return all exponents, each with its prime."""
        return [(variable, prime) for (_, _, prime), variable in self.exponents.items()]

    def log(self, terms: Terms, rounded: Rounding) -> cp_model.LinearExprT:
        """Return the logarithm of the product of prime powers, with each prime's logarithm rounded."""
        return sum(rounded(prime) * variable for variable, prime in terms)

    def at_most(self, terms: Terms, most: int, literal: cp_model.IntVar | None = None) -> None:
        """Require that a product is at most `most`."""
        bound = self.model.add(self.log(terms, _down) <= _up(most))
        if literal is not None:
            _where(bound, literal)

    def at_least(self, terms: Terms, least: int, literal: cp_model.IntVar) -> None:
        """Require that a product is at least `least`."""
        _where(self.model.add(self.log(terms, _up) >= _down(least)), literal)

    def leaves_multiple(self, dim: int, taken: Terms, size: int, literals: tuple[cp_model.IntVar, ...]) -> None:
        """Require that a dim's extent divided by some factors is a multiple of `size`, where all literals hold."""
        for prime, exponent in prime_factors(size):
            room = self.primes[dim].get(prime, 0) - exponent
            _where(self.model.add(sum(variable for variable, other in taken if other == prime) <= room), *literals)

    def leaves_elements(self, taken: Mapping[int, Terms], elements: int, literals: tuple[cp_model.IntVar, ...]) -> None:
        """Require that these dims divided by some factors leave at least so many elements, where all literals hold."""
        whole = sum(_up(prime) * exponent for d in taken for prime, exponent in self.primes[d].items())
        left = whole - sum(self.log(own, _up) for own in taken.values())
        _where(self.model.add(left >= _down(elements)), *literals)

    def left(self, dim: int) -> cp_model.LinearExprT:
        """Return the number of prime factors of a dim that are left to temporal loops."""
        return sum(self.left_of(dim, prime) for prime in self.primes[dim])

    def left_of(self, dim: int, prime: int) -> cp_model.LinearExprT:
        """Return the exponent of a prime of a dim that is left to temporal loops."""
        return self.primes[dim][prime] - sum(self.exponents[f, dim, prime] for f in self.above_all())

    def above_all(self) -> range:
        """Return all fan-outs."""
        return range(len(self.problem.arch.fanouts))

    def factors(self, exponents: Mapping[Place, int]) -> tuple[tuple[int, ...], ...]:
        """Return the factors [fan-out][dim] of these exponents."""
        return tuple(
            tuple(
                prod(prime ** exponents[f, d, prime] for prime in self.primes[d]) for d in range(len(self.problem.dims))
            )
            for f in self.above_all()
        )

    def values(self) -> dict[tuple[Place, int], cp_model.IntVar]:
        """Return a literal per (exponent, value): the exponent has this value."""
        found: dict[tuple[Place, int], cp_model.IntVar] = {}
        for place, variable in self.exponents.items():
            _, dim, prime = place
            own = [self.model.new_bool_var("value") for _ in range(self.primes[dim][prime] + 1)]
            self.model.add_exactly_one(own)
            self.model.add(variable == sum(value * literal for value, literal in enumerate(own)))
            found |= {(place, value): literal for value, literal in enumerate(own)}
        return found

    def partly(self, looped: Sequence[cp_model.IntVar]) -> list[cp_model.IntVar]:
        """Return a literal per dim: it is spread and also has a temporal loop."""
        found: list[cp_model.IntVar] = []
        for d, has_loop in enumerate(looped):
            spread, both = self.model.new_bool_var("spread"), self.model.new_bool_var("partly spread")
            total = sum(variable for variable, _ in self.terms(d, self.above_all()))
            _where(self.model.add(total >= 1), spread)
            _where(self.model.add(total <= 0), ~spread)
            _conjunction(self.model, both, (spread, has_loop))
            found.append(both)
        return found


class _Order:
    """Positions of the outermost and the innermost temporal loop over each of one statement's dims. A dim with one
    prime factor left has one loop; one with none left has no loop. several: per dim, whether its two loops may differ;
    empty where all dims have at most one loop (single)."""

    def __init__(self, model: cp_model.CpModel, spread: _Spread, *, single: bool) -> None:
        self.model, self.names = model, spread.problem.dims
        places = 2 * len(self.names)
        self.first = [model.new_int_var(0, places, f"outermost loop over {dim}") for dim in self.names]
        self.last = self.first
        self.looped = [model.new_bool_var(f"{dim} has a loop") for dim in self.names]
        self.several: list[cp_model.IntVar] = []
        for d in range(len(self.names)):
            _where(model.add(spread.left(d) >= 1), self.looped[d])
            _where(model.add(spread.left(d) <= 0), ~self.looped[d])
        if not single:
            self.last = [model.new_int_var(0, places, f"innermost loop over {dim}") for dim in self.names]
            self.several = [model.new_bool_var(f"{dim} may have several loops") for dim in self.names]
        for d, several in enumerate(self.several):
            _where(model.add(spread.left(d) >= 2), several)
            model.add(self.first[d] <= self.last[d])
            _where(model.add(self.first[d] == self.last[d]), ~several)

    def before(self, one: int, other: int, ends: tuple[bool, bool], literal: cp_model.IntVar) -> None:
        """Require that a loop over one dim is outside a loop over another, where both have loops. Of each dim the
        innermost loop is meant where `ends` is true, else the outermost."""
        outer = self.last[one] if ends[0] else self.first[one]
        inner = self.last[other] if ends[1] else self.first[other]
        both = (literal, self.looped[one], self.looped[other])
        _where(self.model.add(outer < inner), *both)

    def pairs(self, *, ranked: bool) -> dict[tuple[int, int], cp_model.IntVar]:
        """Return a literal per pair of dims: both have loops, and the outermost loop over the first is outside the
        second's. ranked: the position of a loop must be the number of dims with loops outside of it."""
        found: dict[tuple[int, int], cp_model.IntVar] = {}
        for a, b in combinations(range(len(self.names)), 2):
            both = self.model.new_bool_var("both have loops")
            _conjunction(self.model, both, (self.looped[a], self.looped[b]))
            for outer, inner in ((a, b), (b, a)):
                ahead = found[outer, inner] = self.model.new_bool_var("outside")
                _where(self.model.add(self.first[outer] < self.first[inner]), ahead)
            self.model.add(found[a, b] + found[b, a] == both)
        for d, first in enumerate(self.first if ranked else ()):
            self.model.add(first == sum(literal for (_, inner), literal in found.items() if inner == d))
        return found

    def keep(
        self,
        vector: Sequence[int],
        ahead: Mapping[tuple[int, int], cp_model.IntVar],
        undecided: Sequence[cp_model.IntVar],
    ) -> None:
        """Require that, of the dims with loops, the first with a non-zero sign has a positive one. The requirement is
        void if a dim with a sign is undecided."""
        positive = [d for d, sign in enumerate(vector) if sign > 0]
        either = [undecided[d] for d, sign in enumerate(vector) if sign]
        self.model.add_bool_or([*either, *(self.looped[d] for d in positive)])
        for d, sign in enumerate(vector):
            if sign < 0:
                self.model.add_bool_or([*either, ~self.looped[d], *(ahead[one, d] for one in positive)])

    def dims(self, solver: cp_model.CpSolver) -> tuple[str, ...]:
        """Return the dims with loops in a solution, by the position of their outermost loop."""
        return self.by_first([solver.value(one) for one in self.looped], [solver.value(one) for one in self.first])

    def by_first(self, looped: Sequence[int], first: Sequence[int]) -> tuple[str, ...]:
        """Return the dims with loops, by the position of their outermost loop."""
        return tuple(self.names[d] for d in sorted(range(len(first)), key=lambda d: (first[d], d)) if looped[d])


def _precedences(
    rule: Outside | Outermost | Innermost, names: tuple[str, ...]
) -> Iterator[tuple[int, int, tuple[bool, bool]]]:
    """Yield (outer dim, inner dim, whether the innermost loop of each is meant)."""
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
    """Which level below the outermost holds which tensor, [level, tensor], and a lower bound on the bits that this
    takes."""

    def __init__(self, model: cp_model.CpModel, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.held: dict[tuple[int, int], cp_model.IntVar] = {}
        self.bits: dict[tuple[int, int], cp_model.IntVar] = {}
        self.tensors = problem.workload.tensors
        for level, one in enumerate(problem.arch.levels[1:], 1):
            for index, tensor in enumerate(self.tensors):
                held = self.held[level, index] = model.new_bool_var(f"{one.name} holds {tensor.name}")
                if not one.may_hold(tensor):
                    model.add(held == 0)
                if one.requires(tensor):
                    model.add(held == 1)

    def hold(self, level: str, tensor: str, literal: cp_model.IntVar, *, must: bool) -> None:
        """Require that a level holds a tensor, or does not, where the literal holds."""
        number = next(n for n, one in enumerate(self.problem.arch.levels) if one.name == level)
        index = next(index for index, one in enumerate(self.tensors) if one.name == tensor)
        if (number, index) in self.held:
            _where(self.model.add(self.held[number, index] == int(must)), literal)

    def need(self, level: int, term: TensorTerm, sizes: list[tuple[Intrinsic, cp_model.IntVar]]) -> None:
        """Add a lower bound on the bits of a tensor at a level: its elements in a tile of the intrinsic sizes. For
        large capacities bits are counted in larger units, rounded down, so that nothing that fits is excluded."""
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
        """Require that everything that the level holds fits its capacity."""
        one = self.problem.arch.levels[level]
        if one.capacity_bits is not None:
            bits = sum(self.bits[level, term.index] for term in self.problem.terms)
            self.model.add(bits * one.buffering <= one.capacity_bits // _unit(one.capacity_bits))

    def pairs(self, solver: cp_model.CpSolver) -> frozenset[tuple[str, str]]:
        """Return the (level, tensor) pairs that are held in a solution."""
        return self.named(place for place, held in self.held.items() if solver.value(held))

    def name(self, level: int, index: int) -> tuple[str, str]:
        """Return the names of a level and a tensor."""
        return self.problem.arch.levels[level].name, self.tensors[index].name

    def dims_of(self, index: int) -> tuple[int, ...]:
        """Return the numbers of the dims that index a tensor."""
        accesses = accesses_of(self.problem.workload.statements[0], self.tensors[index].name)
        own = {dim for access in accesses for one in access.index for dim in one.dims}
        return tuple(d for d, dim in enumerate(self.problem.dims) if dim in own)

    def named(self, held: Iterable[tuple[int, int]]) -> frozenset[tuple[str, str]]:
        """Return the names of (level, tensor) pairs."""
        return frozenset(self.name(*place) for place in held)


def _conjunction(model: cp_model.CpModel, all_hold: cp_model.IntVar, literals: Sequence[cp_model.IntVar]) -> None:
    """Make `all_hold` equivalent to the conjunction of the literals."""
    for literal in literals:
        model.add_implication(all_hold, literal)
    model.add_bool_or([all_hold, *(~literal for literal in literals)])


def _where(constraint: cp_model.Constraint, *literals: cp_model.LiteralT) -> None:
    """Enforce a constraint exactly where all literals hold."""
    constraint.only_enforce_if(list(literals))  # pyright: ignore[reportUnknownMemberType]  # one overload is untyped


def _least_elements(term: TensorTerm, sizes: dict[str, int]) -> int:
    """Return a lower bound on a tensor's elements in a tile with at least so many indices per dim. Sums of a and b
    different numbers have at least a + b - 1 values."""
    return prod(1 + sum(sizes.get(dim, 1) - 1 for dim in group.dims) for group in term.groups)


def _unit(capacity_bits: int) -> int:
    """Return a unit of bits in which a capacity stays within the solver's range."""
    return 1 << max(0, capacity_bits.bit_length() - 48)


def _down(number: int) -> int:
    return floor(log2(number) * _SCALE)


def _up(number: int) -> int:
    return ceil(log2(number) * _SCALE)
