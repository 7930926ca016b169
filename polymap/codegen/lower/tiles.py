"""Loops over the exact tile of an instance, and over statement instances, as C statements.

The loops over a dim write its index as digits, outermost first: each covers `tile` indices, and the last iteration may
be shorter. A digit is fixed (a variable in scope) or free (a new loop). Free digits after the last fixed one are one
run of consecutive indices. An element of a window may be visited several times; users of these loops must check it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polymap.codegen.lower import ast
from polymap.codegen.lower.nest import Loop, Use
from polymap.ir import Affine, Floor
from polymap.schedules import trip_count


@dataclass(frozen=True, slots=True)
class Guard:
    """The inner layers run only if the condition holds."""

    condition: ast.Expr


@dataclass(frozen=True, slots=True)
class Range:
    """The inner layers run for every value of a new variable."""

    name: str
    start: ast.Expr
    stop: ast.Expr


Layer = ast.Declare | Guard | Range
Values = dict[str, ast.Expr]


def wrap(layers: Iterable[Layer], body: ast.Block) -> ast.Block:
    """Return the body inside the layers, the first one outermost."""
    for layer in reversed(list(layers)):
        match layer:
            case ast.Declare():
                body = (layer, *body)
            case Guard(condition):
                body = (ast.If(condition, body),)
            case Range(name, start, stop):
                body = (ast.For(name, start, stop, body),)
    return body


@dataclass(slots=True)
class _Digits:
    """The digits of one dim, taken one by one: `base` so far, `left` indices from there on (at least one)."""

    dim: str
    base: ast.Expr
    left: ast.Expr
    exact: frozenset[str]
    certain: bool = True
    serial: int = 0

    def fixed(self, loop: Loop) -> list[Layer]:
        """Take a digit whose value is the variable of the loop."""
        layers: list[Layer] = []
        self.certain = self.certain and loop.is_temporal
        step = ast.multiply(ast.Name(loop.name), loop.tile)
        if not isinstance(self.left, ast.Int) and not self.certain and loop.name not in self.exact:
            layers.append(Guard(ast.Binary("<", step, self.left)))
        return layers + self._advance(step, loop.tile)

    def skipped(self, loop: Loop) -> list[Layer]:
        """Take a free digit at its first value."""
        self.certain = self.certain and loop.is_temporal
        self.left = ast.minimum(ast.Int(loop.tile), self.left)
        return []

    def looped(self, loop: Loop) -> list[Layer]:
        """Take a free digit with a loop over its values."""
        self.certain = False
        name = f"{loop.name}_in"
        if isinstance(self.left, ast.Int):
            trips: ast.Expr = ast.Int(trip_count(self.left.value, loop.tile))
        else:
            trips = (
                ast.Binary("/", ast.add(self.left, ast.Int(loop.tile - 1)), ast.Int(loop.tile))
                if loop.tile > 1
                else self.left
            )
        step = ast.multiply(ast.Name(name), loop.tile)
        return [Range(name, ast.Int(0), trips), *self._advance(step, loop.tile)]

    def _advance(self, step: ast.Expr, tile: int) -> list[Layer]:
        self.base = ast.add(self.base, step)
        if isinstance(self.left, ast.Int) and self.left.value % tile == 0:
            self.left = ast.Int(tile)
            return []
        if tile == 1:
            self.left = ast.Int(1)
            return []
        self.serial += 1
        name = f"{self.dim}_left{self.serial}"
        left = ast.minimum(ast.Int(tile), ast.subtract(self.left, step))
        self.left = ast.Name(name)
        return [ast.Declare("const int", name, left)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The C variables of dims, `d0`, `d1`, ... in the workload's order, with their extents.

    exact: loops in scope that never run past the end of the enclosing tile.
    """

    names: dict[str, str]
    extents: dict[str, int]
    exact: frozenset[str] = frozenset()

    def digits(self, dim: str) -> _Digits:
        return _Digits(self.names[dim], ast.Int(0), ast.Int(self.extents[dim]), self.exact)


def temporal(loops: tuple[Loop, ...]) -> frozenset[str]:
    """Return the names of the temporal loops."""
    return frozenset(loop.name for loop in loops if loop.is_temporal)


def clock_bound(
    frame: Frame, loop: Loop, above: tuple[Loop, ...], known: frozenset[str]
) -> tuple[list[Layer], ast.Expr]:
    """Return declarations and the trip count of a loop, from the `known` loops above it.

    The trip count is that in the first iteration of all other loops: of the instance with the most work.
    """
    digits = frame.digits(loop.dim)
    layers: list[Layer] = []
    for outer in above:
        if outer.dim == loop.dim:
            taken = digits.fixed(outer) if outer.name in known else digits.skipped(outer)
            layers += [layer for layer in taken if isinstance(layer, ast.Declare)]
    if isinstance(digits.left, ast.Int):
        return layers, ast.Int(trip_count(digits.left.value, loop.tile))
    if loop.tile == 1:
        return layers, digits.left
    return layers, ast.Binary("/", ast.add(digits.left, ast.Int(loop.tile - 1)), ast.Int(loop.tile))


def point_layers(frame: Frame, use: Use, fixed: frozenset[str], wanted: tuple[str, ...]) -> tuple[list[Layer], Values]:
    """Return the layers that visit every index of the `wanted` dims (then of constrained ones) below the fixed loops.

    Nothing is visited if the fixed digits leave no statement instance (the instance is idle).
    """
    statement = use.statement
    constrained = {dim for constraint in statement.constraints for dim in constraint.dims}
    visited = [*wanted, *(dim for dim in statement.dims if dim in constrained and dim not in wanted)]
    idle_only = [dim for dim in statement.dims if dim not in visited]
    outer: list[Layer] = []
    inner: list[Layer] = []
    values: Values = {}
    outer += [Guard(ast.Binary("==", ast.Name(loop.name), ast.Int(0))) for loop in use.foreign if loop.name in fixed]
    for dim in idle_only:
        outer += _idle_layers(frame, use, fixed, dim)
    for dim in visited:
        layers, values[dim] = _dim_layers(frame, use, fixed, dim)
        first = next((i for i, layer in enumerate(layers) if isinstance(layer, Range)), len(layers))
        outer += layers[:first]
        inner += layers[first:]
    inner += [Guard(ast.Binary(">=", affine_expr(c, values), ast.Int(0))) for c in statement.constraints]
    return outer + inner, values


def _idle_layers(frame: Frame, use: Use, fixed: frozenset[str], dim: str) -> list[Layer]:
    digits = frame.digits(dim)
    layers: list[Layer] = []
    for loop in use.digits(dim):
        layers += digits.fixed(loop) if loop.name in fixed else digits.skipped(loop)
    return layers


def _dim_layers(frame: Frame, use: Use, fixed: frozenset[str], dim: str) -> tuple[list[Layer], ast.Expr]:
    loops = use.digits(dim)
    last_fixed = max((i for i, loop in enumerate(loops) if loop.name in fixed), default=-1)
    digits = frame.digits(dim)
    layers: list[Layer] = []
    for loop in loops[: last_fixed + 1]:
        layers += digits.fixed(loop) if loop.name in fixed else digits.looped(loop)
    if isinstance(digits.left, ast.Int) and digits.left.value == 1:
        return layers, digits.base
    name = frame.names[dim]
    if not isinstance(digits.base, ast.Int):
        layers.append(ast.Declare("const int", f"{name}_base", digits.base))
        digits.base = ast.Name(f"{name}_base")
    layers.append(Range(name, digits.base, ast.add(digits.base, digits.left)))
    return layers, ast.Name(name)


def instance_layers(loops: tuple[Loop, ...]) -> list[Layer]:
    """Return one loop per spatial loop, over its nominal trip count."""
    return [Range(loop.name, ast.Int(0), ast.Int(loop.trips)) for loop in loops]


def instance_number(loops: tuple[Loop, ...]) -> ast.Expr:
    """Return the number of an instance from the variables of its loops, in instance order."""
    number: ast.Expr = ast.Int(0)
    for loop in loops:
        number = ast.add(ast.multiply(number, loop.trips), ast.Name(loop.name))
    return number


def affine_expr(form: Affine, values: Values) -> ast.Expr:
    """Return a quasi-affine form of dims as a C expression."""
    terms: list[ast.Expr] = []
    negative: list[ast.Expr] = []
    for coefficient, atom in form.terms:
        value = values[atom] if isinstance(atom, str) else _floor_expr(atom, values)
        (terms if coefficient > 0 else negative).append(ast.multiply(value, abs(coefficient)))
    result = ast.total(terms)
    if form.constant > 0 or not terms:
        result = ast.add(result, ast.Int(form.constant))
    for term in negative:
        result = ast.subtract(result, term)
    return result if form.constant > 0 or not terms else ast.add(result, ast.Int(form.constant))


def _floor_expr(floor: Floor, values: Values) -> ast.Expr:
    return ast.Invoke("floor_div", (affine_expr(floor.argument, values), ast.Int(floor.divisor)))
