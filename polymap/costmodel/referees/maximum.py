"""The maximum of a sum of products whose factors are tables over columns that they may share."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from polymap.costmodel.referees.tuning import TUNING
from polymap.ir import BudgetError, Mistake
from polymap.poly import Columns, Tally

Part = tuple[Columns, Tally]
SumTerm = tuple[int, list[Part]]  # a factor, times for each part its value (0 where it lists none)
Vector = tuple[int, ...]  # a value per term


def largest_sum(terms: list[SumTerm]) -> int:
    """Return the maximum of the sum of the terms over all values of the columns; tables have no negative value.

    If every table attains its maximum at one common point, that is the answer. Otherwise the columns fall into groups
    that no table joins; per group the Pareto-maximal vectors (a value per term) are combined. Raises BudgetError
    (PM494) where these are too many.
    """
    top = sum(factor * prod(max(tally.values()) for _, tally in parts) for factor, parts in terms)
    if _has_common_maximum([(columns, tally) for _, parts in terms for columns, tally in parts]):
        return top
    best: set[Vector] = {tuple(factor for factor, _ in terms)}
    for group in _groups(terms):
        factors = _pareto_vectors(_vectors(terms, group))
        if len(best) * len(factors) > TUNING.most_vectors:
            what = f"the peak of a level has {len(best) * len(factors):,} candidates, more than {TUNING.most_vectors:,}"
            raise BudgetError(Mistake("PM494", what, "Fewer loops with partial tiles or fewer conditions would help."))
        best = _pareto_vectors(
            tuple(one * other for one, other in zip(vector, factor, strict=True))
            for vector in best  # any order: a set is made of them
            for factor in factors
        )
    return max((sum(vector) for vector in best), default=0)


def _has_common_maximum(parts: list[Part]) -> bool:
    """Return whether a point was found at which every table has its maximum; False also where the tries run out."""
    peaks = [(columns, _maximizers(columns, tally)) for columns, tally in parts]
    peaks.sort(key=lambda peak: -len(peak[0]))
    tries = TUNING.most_tries

    def search(place: int, known: dict[str, int]) -> bool:
        nonlocal tries
        if place == len(peaks):
            return True
        columns, rows = peaks[place]
        if all(name in known for name in columns):
            return tuple([known[name] for name in columns]) in rows and search(place + 1, known)
        for row in rows:
            tries -= 1
            if tries < 0:
                return False
            given = dict(zip(columns, row, strict=True))
            agrees = all(known.get(name, value) == value for name, value in given.items())
            if agrees and search(place + 1, {**known, **given}):
                return True
        return False

    return search(0, {})


def _maximizers(columns: Columns, tally: Tally) -> dict[tuple[int, ...], None]:
    """Return the values of the columns at which the table is largest, in the table's order."""
    most = max(tally.values())
    return dict.fromkeys(values for values, number in tally.items() if number == most)


def _groups(terms: list[SumTerm]) -> list[frozenset[str]]:
    """Return the columns in the smallest groups such that every table's columns are in one group."""
    groups: list[frozenset[str]] = []
    for _, parts in terms:
        for columns, _ in parts:
            touching = [group for group in groups if group & set(columns)]
            groups = [group for group in groups if group not in touching]
            groups.append(frozenset(columns).union(*touching))
    return groups


def _vectors(terms: list[SumTerm], group: frozenset[str]) -> set[Vector]:
    """Return the values that the terms' products over a group of columns take at one point, a vector per point.

    A part's own columns are maximized out first. Vectors with smaller entries than attained may be among them: a row is
    also extended with zero for a part that may list nothing there.
    """
    every = [(number, *part) for number, (_, parts) in enumerate(terms) for part in parts if group & set(part[0])]
    parts = [(part[0], *_on_shared_columns(part, [other for other in every if other is not part])) for part in every]
    bound: dict[Columns, dict[tuple[int, ...], set[Vector]]] = {(): {(): {(1,) * len(terms)}}}
    parts.sort(key=lambda part: -len(part[1]))
    for place, (number, columns, tally) in enumerate(parts):
        wider: dict[Columns, dict[tuple[int, ...], set[Vector]]] = {}
        for names, rows in bound.items():
            _extend(wider, names, rows, number, columns, tally)
        bound = _project_rows(wider, {name for _, later, _ in parts[place + 1 :] for name in later})
    return {vector for rows in bound.values() for vectors in rows.values() for vector in vectors}


def _project_rows(
    bound: dict[Columns, dict[tuple[int, ...], set[Vector]]], needed: set[str]
) -> dict[Columns, dict[tuple[int, ...], set[Vector]]]:
    """Return the rows without the columns that no later part has; vectors of rows that become equal are united."""
    found: dict[Columns, dict[tuple[int, ...], set[Vector]]] = {}
    for names, rows in bound.items():
        kept = [at for at, name in enumerate(names) if name in needed]
        fewer = found.setdefault(tuple(names[at] for at in kept), {})
        for values, vectors in rows.items():
            fewer.setdefault(tuple([values[at] for at in kept]), set()).update(vectors)
    return found


def _on_shared_columns(part: tuple[int, Columns, Tally], others: list[tuple[int, Columns, Tally]]) -> Part:
    """Return a part as a table over the columns that other parts have too: its maximum over the rest."""
    _, columns, tally = part
    kept = [at for at, name in enumerate(columns) if any(name in other[1] for other in others)]
    if len(kept) == len(columns):
        return columns, tally
    largest: Tally = {}
    for values, number in tally.items():
        key = tuple([values[at] for at in kept])
        largest[key] = max(number, largest.get(key, 0))
    return tuple(columns[at] for at in kept), largest


def _extend(
    wider: dict[Columns, dict[tuple[int, ...], set[Vector]]],
    names: Columns,
    rows: dict[tuple[int, ...], set[Vector]],
    number: int,
    columns: Columns,
    tally: Tally,
) -> None:
    """Add to `wider` the rows joined with one more part, and the rows at which that part is zero."""
    new = tuple(name for name in columns if name not in names)
    common = tuple(name for name in columns if name in names)
    index: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for values, amount in tally.items():
        by_name = dict(zip(columns, values, strict=True))
        key = tuple([by_name[name] for name in common])
        index.setdefault(key, []).append((tuple([by_name[name] for name in new]), amount))
    places = [names.index(name) for name in common]
    joined, zero = wider.setdefault((*names, *new), {}), wider.setdefault(names, {})
    for values, vectors in rows.items():
        matches = index.get(tuple([values[place] for place in places]), [])
        for extra, amount in matches:
            scaled = {(*vector[:number], vector[number] * amount, *vector[number + 1 :]) for vector in vectors}
            joined.setdefault((*values, *extra), set()).update(scaled)
        # The table lists no zeros: where it has no row for these values, its factor is zero.
        if new or not matches:
            none = {(*vector[:number], 0, *vector[number + 1 :]) for vector in vectors}
            zero.setdefault(values, set()).update(none)


def _pareto_vectors(vectors: Iterable[Vector]) -> set[Vector]:
    """Return the vectors without dominated ones. Of many, each is compared with the largest only: some may stay."""
    kept: list[Vector] = []
    for vector in sorted(set(vectors), key=lambda each: (sum(each), each), reverse=True):  # any order: no ties
        if not any(
            all(a >= b for a, b in zip(other, vector, strict=True)) for other in kept[: TUNING.compared_vectors]
        ):
            kept.append(vector)
    return set(kept)
