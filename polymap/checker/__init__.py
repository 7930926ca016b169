"""Accepts or refuses certificates; knows nothing of the rest of polymap."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.checker.any_size import least as least
    from polymap.checker.bounds import Places as Places, Prices as Prices
    from polymap.checker.check import FORMAT as FORMAT, HEAD as HEAD, Verdict as Verdict, verify as verify
    from polymap.checker.counts import cost as cost
    from polymap.checker.grids import FITS as FITS
    from polymap.checker.model import (
        DEADLINE as DEADLINE,
        OutOfTime as OutOfTime,
        Problem as Problem,
        Rows as Rows,
        parsed as parsed,
    )
    from polymap.checker.programs import Case as Case, Program as Program
    from polymap.checker.proofs import (
        Reason as Reason,
        digest as digest,
        label as label,
        label_of_places as label_of_places,
    )
    from polymap.checker.prover import Prover as Prover
    from polymap.checker.rules import Refused as Refused
