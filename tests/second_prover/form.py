"""What a tree with dividing tiles costs, as a sum of products of primes' powers: the second prover's own cost model.

For one accumulation over a box, each tensor read or written once, each of its axes along one dim (no windows). Unknown
are, per storage node and dim, the trips of the temporal loops above the node (its "above" factor), and per fan-out and
dim the trips of the spatial loops over it ("spread"). The rules are those of docs/counting.md, derived again:

    An instance of a node holds  prod over the tensor's dims of extent / (above x spread over the fan-outs above it).
    Over all instances and steps it is loaded D = size x prod over the other dims of (above x spread ...) elements.

That charges a node for every loop above it. A node directly below a loop that its tensor lacks moves less, but then the
same tree with the node raised over the loop is in the space too, so the least value over all trees is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import lcm, prod

from polymap.ir import (
    Architecture,
    Fanout,
    MemoryLevel,
    Mistake,
    Multicast,
    Operator,
    OptionError,
    Workload,
    accesses_of,
)

Factor = tuple[str, int, int]  # ("above", node, dim) or ("spread", fan-out, dim)
Exponents = dict[tuple[Factor, int], int]  # (factor, prime) -> exponent


@dataclass(frozen=True, slots=True)
class Node:
    """A storage node: position of its tensor, and its level (0 the outermost)."""

    tensor: int
    level: int


Placement = tuple[Node, ...]  # by tensor, and per tensor outermost first


@dataclass(frozen=True, slots=True)
class Power:
    """A product of powers of primes: per prime (prime, constant, linear), the exponent being constant + sum of
    coefficient x exponent of the factor."""

    primes: tuple[tuple[int, int, tuple[tuple[Factor, int], ...]], ...]

    @property
    def is_constant(self) -> bool:
        return not any(linear for _, _, linear in self.primes)

    def value(self, exponents: Exponents) -> int:
        """Return the product, an integer for exponents of a mapping."""
        result = Fraction(1)
        for prime, constant, linear in self.primes:
            result *= Fraction(prime) ** (constant + sum(c * exponents[factor, prime] for factor, c in linear))
        assert result.denominator == 1
        return int(result)


Sum = dict[Power, int]


class Form:
    """Workload and machine as the second prover sees them; raises OptionError PM522 where it does not apply."""

    def __init__(self, workload: Workload, arch: Architecture, objective: str) -> None:
        _check(workload, arch, objective)
        self.workload, self.arch, self.levels = workload, arch, arch.levels
        statement = workload.statements[0]
        names = [dim.name for dim in workload.dims]
        self.extents = [dim.extent for dim in workload.dims]
        self.output = next(i for i, t in enumerate(workload.tensors) if t.name == statement.target.tensor)
        self.relevant = [
            {names.index(d) for access in accesses_of(statement, t.name) for axis in access.index for d in axis.dims}
            for t in workload.tensors
        ]
        self.spreadable = [
            [dim for dim, name in enumerate(names) if fanout.dims is None or name in fanout.dims]
            for fanout in arch.fanouts
        ]
        self.scale, self.read, self.write, self.fixed = _weights(workload, arch, objective)

    @cached_property
    def above(self) -> list[int]:
        """Return per fan-out the level directly above it."""
        found: list[int] = []
        level = -1
        for node in self.arch.nodes:
            level += isinstance(node, MemoryLevel)
            if isinstance(node, Fanout):
                found.append(level)
        return found

    def placements(self) -> Iterator[Placement]:
        """Yield every choice of the levels that hold each tensor, the fullest first."""
        choices: list[list[tuple[Node, ...]]] = []
        for number, tensor in enumerate(self.workload.tensors):
            names = {tensor.name, f"@{tensor.role.value}"}
            inner = list(enumerate(self.levels))[1:]
            may = [i for i, level in inner if level.holds is None or names & set(level.holds)]
            must = {i for i, level in inner if names & set(level.must_hold)}
            sets = [held for count in range(len(may), -1, -1) for held in combinations(may, count)]
            choices.append([tuple(Node(number, i) for i in held) for held in sets if must <= set(held)])
        for choice in product(*choices):
            yield tuple(node for nodes in choice for node in nodes)

    def power(self, constant: Sequence[int], *factors: tuple[Factor, int]) -> Power:
        """Return prod over the dims in `constant` of their extents, times the factors, each to its power (1 or -1)."""
        exponents: dict[int, int] = {}
        for dim in constant:
            for prime, exponent in primes_of(self.extents[dim]):
                exponents[prime] = exponents.get(prime, 0) + exponent
        linear: dict[int, dict[Factor, int]] = {}
        for factor, power in factors:
            for prime, _ in primes_of(self.extents[factor[2]]):
                of_prime = linear.setdefault(prime, {})
                of_prime[factor] = of_prime.get(factor, 0) + power
        parts: list[tuple[int, int, tuple[tuple[Factor, int], ...]]] = []
        for prime in sorted(exponents.keys() | linear.keys()):
            terms = tuple(sorted((f, c) for f, c in linear.get(prime, {}).items() if c))
            if terms or exponents.get(prime, 0):
                parts.append((prime, exponents.get(prime, 0), terms))
        return Power(tuple(parts))

    def spread(self, dims: Sequence[int], first: int, last: int, power: int = 1) -> list[tuple[Factor, int]]:
        """Return the trips over `dims` on the fan-outs from below level `first` down to level `last`."""
        return [
            (("spread", fanout, dim), power)
            for fanout, above in enumerate(self.above)
            if first <= above < last
            for dim in self.spreadable[fanout]
            if dim in dims
        ]

    def tile(self, placement: Placement, number: int) -> Power:
        """Return the elements that one instance of a node holds."""
        node = placement[number]
        dims = sorted(self.relevant[node.tensor])
        above = [(("above", number, dim), -1) for dim in dims]
        return self.power(dims, *above, *self.spread(dims, 0, node.level, -1))

    def held(self, placement: Placement) -> Iterator[tuple[int, Sum]]:
        """Yield, per level of limited capacity, the bits that are available, and the bits held by one instance."""
        for number, level in enumerate(self.levels):
            if number and level.capacity_bits is not None:
                total: Sum = {}
                for position, node in enumerate(placement):
                    if node.level == number:
                        _add(total, self.tile(placement, position), self.workload.tensors[node.tensor].bits)
                yield level.capacity_bits // level.buffering, total

    def cost(self, placement: Placement) -> Sum:
        """Return the scaled objective as a sum of products."""
        total: Sum = {self.power(()): self.fixed}
        for tensor in range(len(self.workload.tensors)):
            chain = [number for number, node in enumerate(placement) if node.tensor == tensor]
            if tensor == self.output:
                self._written(total, placement, chain)
            else:
                self._read_only(total, placement, chain, tensor)
        return {power: weight for power, weight in total.items() if weight}

    def _loads(self, placement: Placement, number: int, *less: tuple[Factor, int]) -> Power:
        """Return the elements that enter a node's instances over all steps, divided by `less`."""
        node = placement[number]
        others = self._others(node.tensor)
        above = [(("above", number, dim), 1) for dim in others]
        spread = self.spread(others, 0, node.level)
        return self.power(sorted(self.relevant[node.tensor]), *above, *spread, *less)

    def _others(self, tensor: int) -> list[int]:
        return [dim for dim in range(len(self.extents)) if dim not in self.relevant[tensor]]

    def _merged(self, tensor: int, first: int, last: int, *, sums: bool) -> list[tuple[Factor, int]]:
        """Return the trips over other dims that are merged on the way between two levels: loads, or partial sums."""
        others = self._others(tensor)
        return [
            (factor, power)
            for factor, power in self.spread(others, first, last, -1)
            if (self.arch.fanouts[factor[1]].reduction if sums else self._shares(factor[1]))
        ]

    def _shares(self, fanout: int) -> bool:
        return self.arch.fanouts[fanout].multicast is not Multicast.NONE

    def _read_only(self, total: Sum, placement: Placement, chain: list[int], tensor: int) -> None:
        parent = 0
        for number in chain:
            level = placement[number].level
            _add(total, self._loads(placement, number), self.write[level][tensor])
            merged = self._merged(tensor, parent, level, sums=False)
            _add(total, self._loads(placement, number, *merged), self.read[parent][tensor])
            parent = level
        merged = self._merged(tensor, parent, len(self.levels), sums=False)
        _add(total, self.power(range(len(self.extents)), *merged), self.read[parent][tensor])

    def _written(self, total: Sum, placement: Placement, chain: list[int]) -> None:
        """Add what the output moves.

        `zero`: how many stays of elements at the holder begin at zero. Siblings that share an element enter it and
        leave it together: one of each round takes the parent's partial sum, all drain, adders merge what arrives.
        """
        tensor, parent = self.output, 0
        initial = self.workload.tensors[tensor].initial
        zero: Sum = {} if initial else {self.power(sorted(self.relevant[tensor])): 1}
        for number in chain:
            level = placement[number].level
            stays = self._loads(placement, number)
            rounds = self._loads(placement, number, *self.spread(self._others(tensor), parent, level, -1))
            arrivals = self._loads(placement, number, *self._merged(tensor, parent, level, sums=True))
            _add(total, stays, self.read[level][tensor])  # drains
            _add(total, arrivals, self.read[parent][tensor] + self.write[parent][tensor])
            _add(total, rounds, self.write[level][tensor])  # fills, less those of stays that begin at zero
            for power, count in zero.items():
                _add(total, power, -count * (self.write[level][tensor] + self.read[parent][tensor]))
            zero = dict(zero)
            _add(zero, stays, 1)
            _add(zero, rounds, -1)
            parent = level
        merged = self._merged(tensor, parent, len(self.levels), sums=True)
        arrivals = self.power(range(len(self.extents)), *merged)
        _add(total, arrivals, self.read[parent][tensor] + self.write[parent][tensor])
        for power, count in zero.items():
            _add(total, power, -count * self.read[parent][tensor])


def _add(total: Sum, power: Power, weight: int) -> None:
    total[power] = total.get(power, 0) + weight


def primes_of(number: int) -> tuple[tuple[int, int], ...]:
    """Return the prime factors of a positive integer with their exponents."""
    found: list[tuple[int, int]] = []
    prime = 2
    while number > 1:
        if prime * prime > number:
            prime = number
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    return tuple(found)


Weights = tuple[tuple[int, ...], ...]  # [level][tensor]


def _weights(workload: Workload, arch: Architecture, objective: str) -> tuple[int, Weights, Weights, int]:
    """Return the scale, and scaled: per element read and written, and what no mapping changes."""
    if objective != "energy":
        counted = tuple(
            tuple(t.bits if level.name == objective.removeprefix("traffic:") else 0 for t in workload.tensors)
            for level in arch.levels
        )
        return 1, counted, counted, 0
    fixed = arch.compute.pj * prod(dim.extent for dim in workload.dims)
    share = [[Fraction(t.bits, level.word_bits) for t in workload.tensors] for level in arch.levels]
    read = [[level.read_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    write = [[level.write_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    scale = lcm(fixed.denominator, *(value.denominator for row in (*read, *write) for value in row))
    reads, writes = (tuple(tuple(int(value * scale) for value in row) for row in rows) for rows in (read, write))
    return scale, reads, writes, int(fixed * scale)


def _check(workload: Workload, arch: Architecture, objective: str) -> None:
    statement = workload.statements[0]
    reasons = {
        "several statements": len(workload.statements) != 1,
        "a domain that is no box": bool(statement.constraints),
        "no accumulation": statement.operator is Operator.ASSIGN,
        "a fixed order of accumulation": not workload.associative,
        "a tensor accessed more than once": any(len(accesses_of(statement, t.name)) != 1 for t in workload.tensors),
        "a window": any(len(axis.dims) > 1 for a in (statement.target, *statement.reads) for axis in a.index),
        "a division": any(not axis.is_linear for a in (statement.target, *statement.reads) for axis in a.index),
        "leakage": objective == "energy" and any(level.leak_pj_per_cycle for level in arch.levels),
        f"the objective {objective}": objective not in ("energy", *(f"traffic:{level.name}" for level in arch.levels)),
    }
    found = [reason for reason, there in reasons.items() if there]
    if found:
        raise OptionError(Mistake("PM522", f"the second prover does not know {' or '.join(found)}"))
