"""The traffic of one tensor at one level as expressions in the tiles: data, made by `derivation`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (sympy's own annotations are partial)

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polymap.ir import Mistake, OptionError, Shown, did_you_mean

if TYPE_CHECKING:
    from sympy import Expr
    from sympy.logic.boolalg import Boolean


@dataclass(frozen=True, slots=True)
class TileSymbol:
    """A tile that the formula speaks of: `m_2` is the second loop over m, counted from the outermost one.

    enclosing: the symbol of the tile around it, or the dim's extent. tile: the mapping's own.
    """

    name: str
    dim: str
    depth: int
    enclosing: str | int
    tile: int


@dataclass(frozen=True, slots=True, repr=False)
class Formula(Shown):
    """Elements of `tensor` read, written, filled and drained at `level`, over all instances, in the tile symbols.

    Exact wherever the conditions hold: every tile divides the one around it and is smaller, and the sizes compare as
    they do in the mapping from which the formula was made (which meets all conditions).
    """

    level: str
    tensor: str
    tiles: tuple[TileSymbol, ...]
    conditions: tuple[Boolean, ...]
    reads: Expr
    writes: Expr
    fills: Expr
    drains: Expr

    def holds(self, **tiles: int) -> bool:
        """Return whether the formula is exact at these tiles; those not given are the mapping's own."""
        return not self._violated_conditions(self._values(tiles))

    def at(self, **tiles: int) -> dict[str, int]:
        """Return reads, writes, fills and drains at these tiles; those not given are the mapping's own.

        Raises OptionError for an unknown tile symbol, and where a condition does not hold.
        """
        values = self._values(tiles)
        broken = self._violated_conditions(values)
        if broken:
            found = ", ".join(f"{name} = {value}" for name, value in values.items())
            what = f"the formula of {self.tensor} at '{self.level}' holds where {broken[0]}, and not at {found}"
            raise OptionError(Mistake("PM530", what, "Evaluate a mapping with these tiles, or ask for its formula."))
        amounts = {"reads": self.reads, "writes": self.writes, "fills": self.fills, "drains": self.drains}
        return {name: _number(amount, values) for name, amount in amounts.items()}

    def _values(self, tiles: dict[str, int]) -> dict[str, int]:
        values = {symbol.name: symbol.tile for symbol in self.tiles}
        unknown = [name for name in tiles if name not in values]
        if unknown:
            known = list(values)
            raise OptionError(
                [Mistake("PM531", f"no tile '{name}' in the formula", did_you_mean(name, known)) for name in unknown]
            )
        return values | tiles

    def _violated_conditions(self, values: dict[str, int]) -> list[Boolean]:
        return [condition for condition in self.conditions if not _is_true(condition, values)]


def _number(expression: Expr, values: dict[str, int]) -> int:
    return int(expression.subs([(symbol, values[str(symbol)]) for symbol in expression.free_symbols]))


def _is_true(condition: Boolean, values: dict[str, int]) -> bool:
    return bool(condition.subs([(symbol, values[str(symbol)]) for symbol in condition.free_symbols]))
