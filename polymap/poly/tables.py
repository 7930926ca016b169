"""Finite relations with named columns, as isl sets, in which the counts of mappings are computed.

Call these functions inside `with budget():`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polymap.ir import Affine, dim
from polymap.poly.budgets import check_clock, has_run_out
from polymap.poly.factors import Tally as Tally, tally_of, terms_of
from polymap.poly.sets import coalesced, function, integer_set, tuple_space, value
from polymap.poly.tuning import TUNING

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


Columns = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A set of rows of integers. columns: their names, each once. points: the rows, in that order."""

    columns: Columns
    points: isl.Set

    @staticmethod
    def box(extents: Iterable[tuple[str, int]], constraints: Iterable[Affine] = ()) -> Table:
        """Return the rows with 0 <= column < extent and every constraint >= 0."""
        pairs = tuple(extents)
        return Table(tuple(name for name, _ in pairs), integer_set("", pairs, constraints))

    @staticmethod
    def empty(columns: Iterable[str]) -> Table:
        names = tuple(columns)
        return Table(names, isl.Set.empty(tuple_space("", names)))

    @staticmethod
    def row(values: Mapping[str, int]) -> Table:
        """Return the table of one row."""
        points = isl.Set.universe(tuple_space("", tuple(values)))
        for position, number in enumerate(values.values()):
            points = points.fix_val(_SET, position, value(number))
        return Table(tuple(values), points)

    def computed(self, outputs: Mapping[str, Affine]) -> Table:
        """Return a table with one column per output, an expression over the columns here."""
        image = self.points.apply(function("", self.columns, tuple(outputs.values())))
        return Table(tuple(outputs), image)

    def keep(self, columns: Iterable[str]) -> Table:
        """Return the distinct rows of some columns, in that order."""
        names = tuple(columns)
        if names == self.columns:
            return self
        wanted = frozenset(names)
        points, left = self.points, list(self.columns)
        for position in reversed(range(len(left))):
            if left[position] not in wanted:
                points = points.project_out(_SET, position, 1)
                del left[position]
        return Table(tuple(left), points)._ordered(names)

    def drop(self, columns: Iterable[str]) -> Table:
        """Return the distinct rows without some columns."""
        dropped = frozenset(columns)
        return self.keep(name for name in self.columns if name not in dropped)

    def rename(self, names: Mapping[str, str]) -> Table:
        """Return the table with columns renamed."""
        return Table(tuple(names.get(name, name) for name in self.columns), self.points)

    def join(self, other: Table) -> Table:
        """Return the natural join: the rows that agree on the common columns."""
        columns = (*self.columns, *(name for name in other.columns if name not in self.columns))
        return Table(columns, self._over(columns).intersect(other._over(columns)))

    def union(self, other: Table) -> Table:
        return Table(self.columns, self.points.union(other._ordered(self.columns).points))

    def minus(self, other: Table) -> Table:
        check_clock()
        return Table(self.columns, _joined(self.points).subtract(_joined(other._ordered(self.columns).points)))

    def is_empty(self) -> bool:
        return self.points.is_empty()

    def less(self, left: Sequence[str], right: Sequence[str]) -> Table:
        """Return the rows whose `left` columns are lexicographically smaller than the `right` ones."""
        return self._compared(isl.Map.lex_lt(tuple_space("", tuple(left))), left, right)

    def less_or_equal(self, left: Sequence[str], right: Sequence[str]) -> Table:
        """Return the rows whose `left` columns are lexicographically at most the `right` ones."""
        return self._compared(isl.Map.lex_le(tuple_space("", tuple(left))), left, right)

    def first(self, group: Sequence[str], order: Sequence[str]) -> Table:
        """Return, for each value of the `group` columns, the row that is lexicographically first in `order`."""
        return self._extreme(group, order, last=False)

    def last(self, group: Sequence[str], order: Sequence[str]) -> Table:
        """Return, for each value of the `group` columns, the row that is lexicographically last in `order`."""
        return self._extreme(group, order, last=True)

    def previous(self, group: Sequence[str], order: Sequence[str], names: Mapping[str, str]) -> Table:
        """Return every row that has one before it in its group with that row's `order` columns beside its own.

        names: what the `order` columns of the row before are called.
        """
        here = self.keep((*group, *order))
        before = here.rename(names)
        found = Table.empty((*group, *order, *(names[name] for name in order)))
        for position in reversed(range(len(order))):
            earlier = before.rename({names[name]: name for name in order[:position]})
            pairs = here.join(earlier).less((names[order[position]],), (order[position],))
            latest = pairs.last(here.columns, tuple(names[name] for name in order[position:]))
            if not latest.is_empty():
                here = here.minus(latest.keep(here.columns))
                copies = {name: dim(name) for name in (*group, *order)}
                copies |= {names[name]: dim(name if at < position else names[name]) for at, name in enumerate(order)}
                found = found.union(latest.computed(copies))
        return found

    def tally(self, columns: Sequence[str] = ()) -> Tally:
        """Return the number of rows per value of some columns, values without rows omitted."""
        return tally_of(self.points, tuple(self.columns.index(name) for name in columns))

    def terms(self, columns: Sequence[str]) -> list[tuple[int, list[tuple[Columns, Tally]]]]:
        """Return the tally as a sum of products: per term a factor, and groups of columns with a number per value."""
        return [
            (term.scale, [(tuple(self.columns[at] for at in dims), tally) for dims, tally in term.parts])
            for term in terms_of(self.points, tuple(self.columns.index(name) for name in columns))
        ]

    def count(self) -> int:
        """Return the number of rows."""
        return self.tally().get((), 0)

    def _ordered(self, columns: Columns) -> Table:
        """Return the table with its columns in another order."""
        return self if columns == self.columns else Table(columns, self._over(columns))

    def _over(self, columns: Columns) -> isl.Set:
        """Return the table extended to these columns; added columns are unconstrained."""
        check_clock()
        if columns == self.columns:
            return self.points
        projection = function("", columns, [dim(name) for name in self.columns])
        return self.points.apply(projection.reverse())

    def _compared(self, relation: isl.Map, left: Sequence[str], right: Sequence[str]) -> Table:
        pairs = Table((*left, *right), relation.wrap().flatten())
        return self.join(pairs)

    def _extreme(self, group: Sequence[str], order: Sequence[str], *, last: bool) -> Table:
        check_clock()
        columns = (*group, *order)
        rows = self.keep(columns)
        relation = isl.Map.from_range(rows.points).move_dims(_IN, 0, _OUT, 0, len(group))
        try:
            relation = relation.lexmax() if last else relation.lexmin()
        except isl.Error as error:  # isl's lexmin fails on some sets with floors
            if has_run_out(error):
                raise
            return rows._extreme_of_pairs(order, last=last)
        return Table(columns, relation.wrap().flatten())

    def _extreme_of_pairs(self, order: Sequence[str], *, last: bool) -> Table:
        """Return the rows that no other row of their group precedes in `order` (follows, if `last`)."""
        names = {name: f"{name}_other" for name in order}
        pairs = self.join(self.rename(names))
        other = tuple(names.values())
        return self.minus((pairs.less(order, other) if last else pairs.less(other, order)).keep(self.columns))


def _joined(points: isl.Set) -> isl.Set:
    """Return the set in fewer pieces: the cost of a difference grows with the product of both numbers of pieces."""
    return coalesced(points) if points.n_basic_set() > TUNING.many_pieces else points
