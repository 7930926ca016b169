"""Prime factors of integers of any length, and whether the split is proven complete.

Trial division first, then Pollard's rho (Brent's form) with a fixed number of steps. Primality: the Miller-Rabin test
with the first 13 primes as bases decides numbers below 3,317,044,064,679,887,385,961,981 (Sorenson and Webster, Math.
Comp. 86, 2017); longer numbers are proven by Pocklington's theorem where enough of n - 1 is split.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, isqrt

from polymap.poly.tuning import TUNING

_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_DECIDED = 3_317_044_064_679_887_385_961_981


@lru_cache(maxsize=4096)
def split(number: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Return (factor, exponent) pairs of a positive integer, ascending, and whether all factors are proven prime."""
    found: dict[int, int] = {}
    for divisor in (2, *range(3, TUNING.small_divisors, 2)):
        if divisor * divisor > number:
            break
        while number % divisor == 0:
            number //= divisor
            found[divisor] = found.get(divisor, 0) + 1
    complete = True
    todo = [number] if number > 1 else []
    while todo:
        one = todo.pop()
        known = is_prime(one)
        factor = None if known else _factor(one)
        if factor is None:
            found[one] = found.get(one, 0) + 1
            complete = complete and known is True
        else:
            todo += [factor, one // factor]
    return tuple(sorted(found.items())), complete


def is_prime(number: int) -> bool | None:
    """Return whether a number above 1 is prime (None: it seems so, and is not proven)."""
    for base in _BASES:
        if number % base == 0:
            return number == base
    if not all(_passes(number, base) for base in _BASES):
        return False
    return True if number < _DECIDED else _pocklington(number) or None


def _passes(number: int, base: int) -> bool:
    """Return whether an odd number is a strong probable prime to a base."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _pocklington(number: int) -> bool:
    """Return whether prime factors of n - 1 whose product is above the square root of n prove that n is prime."""
    proven = 1
    for factor, exponent in split(number - 1)[0]:
        if is_prime(factor) and any(_is_witness(number, factor, base) for base in _BASES):
            proven *= factor**exponent
    return proven > isqrt(number)


def _is_witness(number: int, factor: int, base: int) -> bool:
    power = pow(base, (number - 1) // factor, number)
    return pow(power, factor, number) == 1 and gcd(power - 1, number) == 1


def _factor(number: int) -> int | None:
    """Return a proper factor of a composite number (None: none was found)."""
    root = isqrt(number)
    if root * root == number:
        return root
    for constant in range(1, TUNING.rho_sequences + 1):
        factor = _rho(number, constant)
        if factor is not None:
            return factor
    return None


def _rho(number: int, constant: int) -> int | None:
    """Return a proper factor that one sequence x -> x^2 + constant finds."""
    fast = slow = start = 2
    length, done = 1, 0
    while done < TUNING.rho_steps:
        slow, left = fast, length
        while left > 0 and done < TUNING.rho_steps:
            start, product, count = fast, 1, min(TUNING.rho_batch, left)
            for _ in range(count):
                fast = (fast * fast + constant) % number
                product = product * abs(slow - fast) % number
            left, done = left - count, done + count
            common = gcd(product, number)
            if common > 1:
                return common if common < number else _one_by_one(number, constant, slow, start)
        length *= 2
    return None


def _one_by_one(number: int, constant: int, slow: int, fast: int) -> int | None:
    """Return the factor that a batch of steps jumped over."""
    while True:
        fast = (fast * fast + constant) % number
        common = gcd(abs(slow - fast), number)
        if common > 1:
            return common if common < number else None
