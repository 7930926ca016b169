"""Integers of any length: primes, progressions, exact arrays. Knows nothing of loop nests."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.arithmetic.exact import (
        COUNT_LIMIT as COUNT_LIMIT,
        INT64 as INT64,
        Arithmetic as Arithmetic,
        FloatArray as FloatArray,
        Kind as Kind,
        Numbers as Numbers,
        arithmetic_for as arithmetic_for,
        count_type as count_type,
    )
    from polymap.arithmetic.primes import split as split
    from polymap.arithmetic.progression import (
        Placed as Placed,
        Shape as Shape,
        difference as difference,
        intersection as intersection,
        overlap as overlap,
        progressions as progressions,
        same as same,
        too_large as too_large,
        translated_sum as translated_sum,
        union as union,
    )
