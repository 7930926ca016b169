"""Sums of products over dims, over all trip counts whose product fits each fan-out.

The room left in a fan-out after some dims is its size divided by their trip counts, rounded down; few values occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from polymap.schedules.chains import Table, Trips, residue_product, residues
from polymap.schedules.tuning import TUNING

Item = TypeVar("Item")
_MIXED = 0x9E3779B97F4A7C15 - 2**64  # an odd number whose powers mix columns; they wrap at 64 bits


@dataclass(frozen=True, slots=True)
class Share:
    """One dim's step: pair i leads from state sources[i] to targets[i] by its part of the trip counts in `columns`.

    starts: where each pair's part begins. states: how many states there are afterwards.
    """

    columns: NDArray[np.intp]
    starts: NDArray[np.intp]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    states: int


class Stopped(Exception):
    """The caller does not wait any longer."""


def unless(stop: Callable[[], bool], items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, until the caller says stop: then raise Stopped."""
    for item in items:
        if stop():
            raise Stopped
        yield item


def shares_of(trips: Sequence[Sequence[Trips]], sizes: Trips, stop: Callable[[], bool]) -> list[Share] | None:
    """Return the steps over all dims: trips[dim] lists what it may take of the fan-outs of these sizes.

    None if there are too many. Raises Stopped.
    """
    shares: list[Share] = []
    tried = 0
    states: dict[Trips, int] = {sizes: 0}
    for number, choices in enumerate(trips):
        pairs: dict[tuple[int, Trips], list[int]] = {}
        tried += len(states) * len(choices)
        if tried > TUNING.most_shares:
            return None
        for left, source in unless(stop, states.items()):
            for column, counts in enumerate(choices):
                if all(count <= size for count, size in zip(counts, left, strict=True)):
                    after = tuple(size // count for count, size in zip(counts, left, strict=True))
                    pairs.setdefault((source, () if number == len(trips) - 1 else after), []).append(column)
        states = {}
        for _, after in pairs:
            states.setdefault(after, len(states))
        lengths = [len(columns) for columns in pairs.values()]
        shares.append(
            Share(
                np.array([column for columns in pairs.values() for column in columns], dtype=np.intp),
                np.cumsum([0, *lengths[:-1]]),
                tuple(source for source, _ in pairs),
                tuple(states[after] for _, after in pairs),
                len(states),
            )
        )
    return shares


def shared_product(
    shares: Sequence[Share], weights: Table, coefficients: NDArray[np.float64], tables: Sequence[Table], prime: int
) -> int:
    """Return the sum over points of weight x product over dims, modulo prime.

    coefficients: [coefficient, point]; tables[dim]: [coefficient, trips]. A dim's factor at a point is the sum over
    coefficients of the two. Sums of products below 2^34 fit int64 in any number that occurs.
    """
    values = weights[None, :]
    for share, table in zip(shares, tables, strict=True):
        values = residues(_shared(share, values, coefficients, table, prime), prime)
    return int(values.sum()) % prime


def _shared(share: Share, values: Table, coefficients: NDArray[np.float64], table: Table, prime: int) -> Table:
    """Return [state afterwards, point]; pairs whose trip counts have equal sums of columns share their evaluation."""
    totals, product = np.zeros((share.states, values.shape[1]), dtype=np.int64), np.empty_like(values[0])
    grouped = np.add.reduceat(table[:, share.columns], share.starts, axis=1) % prime
    mixed = (np.vander([_MIXED], len(grouped)) @ grouped)[0]
    _, like, which = np.unique(mixed, return_index=True, return_inverse=True)
    if (grouped[:, like[which]] != grouped).any():  # two columns are mixed alike
        like = which = np.arange(grouped.shape[1], dtype=np.intp)
    distinct, order = grouped[:, like], np.argsort(which, kind="stable")
    firsts = range(0, len(like), TUNING.shares_at_once)
    parts = np.split(order, np.searchsorted(which[order], firsts)[1:])
    for first, part in zip(firsts, parts, strict=True):
        ways = residue_product(distinct[:, first : first + TUNING.shares_at_once].T, coefficients, prime)
        for i in part.tolist():
            totals[share.targets[i]] += np.multiply(values[share.sources[i]], ways[which[i] - first], out=product)
    return totals
