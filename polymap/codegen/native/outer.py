"""The loops around the register tiles, OpenMP on the cores, and the choice of each tile's code."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from polymap.codegen.lower import Block, Declare, Expr, For, If, Int, LocalArray, Name, Run, Stmt
from polymap.codegen.native.kernel import arguments, bounded_reductions
from polymap.codegen.native.panels import Packing, copy_loops, start_of
from polymap.codegen.native.plan import KernelPlan, Operand, OuterLoop, dim_names, is_heap, loop_name
from polymap.codegen.native.variants import Side, is_static, runs


@dataclass(frozen=True, slots=True)
class Nest:
    """What the loops of a function need. numbers: of the register tiles' functions, whose names are the prefix and the
    number. packings: of the operands in the order of reads; ahead: the one that the caller packed, if any."""

    plan: KernelPlan
    numbers: dict[tuple[Side, ...], int]
    prefix: str
    packings: tuple[Packing | None, ...]
    ahead: Packing | None
    threads: int


def outer_loops(nest: Nest) -> Block:
    """Return the loops of a tree down to the calls of its register tiles."""
    return _loops(nest, 0, {}, is_serial=nest.threads == 1)


def _loops(nest: Nest, level: int, at: dict[str, str], *, is_serial: bool) -> Block:
    plan = nest.plan
    if level == len(plan.outer):
        return (*_copies(nest, level), *_calls(nest, at))
    loop = plan.outer[level]
    name = loop_name(plan, level)
    spreads = loop.is_parallel and not is_serial
    body = _loops(nest, level + 1, {**at, loop.dim: name}, is_serial=is_serial or spreads)
    pragma = f"#pragma omp parallel for schedule(static) num_threads({nest.threads})" if spreads else ""
    start: Expr = Name(at[loop.dim]) if loop.dim in at else Int(0)
    return (*_copies(nest, level), For(name, start, _stop(plan, loop, level, at), body, pragma, step=loop.tile))


def _copies(nest: Nest, level: int) -> Block:
    """Return the copies of operands into buffers that stand between the loops."""
    found: list[Stmt] = []
    for packing in nest.packings:
        if packing is None or packing == nest.ahead or is_heap(packing) or packing.level != level:
            continue
        found.append(LocalArray(packing.form.c_type, packing.parameter, packing.elements))
        found += copy_loops(packing, dim_names(nest.plan))
    return tuple(found)


def _stop(plan: KernelPlan, loop: OuterLoop, level: int, at: dict[str, str]) -> Expr:
    extent = plan.extents[loop.dim]
    if loop.dim not in at:
        return Int(extent)
    end = f"{at[loop.dim]} + {loop.enclosing}"
    above = [other for other in plan.outer[:level] if other.dim == loop.dim]
    sizes = [extent, *(other.tile for other in above)]
    divides = all(outer % inner == 0 for outer, inner in pairwise(sizes))
    if divides:
        return Name(end)
    stops = [str(extent)]
    for number, other in enumerate(plan.outer[:level]):
        if other.dim == loop.dim:
            stops.append(f"{loop_name(plan, number)} + {other.tile}")
    text = stops[0]
    for stop in stops[1:]:
        text = f"MIN({text}, {stop})"
    return Name(text)


def _calls(nest: Nest, at: dict[str, str]) -> Block:
    """Return the positions of the tile, the bounds of its reductions, and the call of its code."""
    plan = nest.plan
    head = [_position(plan, *each, at) for each in zip(plan.operands, nest.packings, strict=True)]
    head.append(Declare("const long", "o_at", Name(_sum(plan.store.factors, plan.store.constant, plan, at))))
    for dim in bounded_reductions(plan):
        head += _bounds(plan, dim, at)
    if plan.split and not plan.continues:
        firsts = [f"{at[dim]} == 0" for dim in plan.split]
        head.append(Declare("const int", "first", Name(" && ".join(firsts))))
    return (*head, *_tail_arguments(plan, at), *_choice(nest, (), at))


def _tail_arguments(plan: KernelPlan, at: dict[str, str]) -> Block:
    """Return where the tile's channels begin, and whether its sums are whole after this call."""
    if plan.tail is None:
        return ()
    found: list[Stmt] = []
    if plan.tail.uses_channels:
        channel = plan.tail.channel
        found.append(Declare("const long", "b_at", Name(_sum(channel.factors, channel.constant, plan, at))))
    if plan.split:
        whole = [f"{at[dim]} + {size} >= {plan.extents[dim]}" for dim, size in plan.split.items()]
        found.append(Declare("const int", "last", Name(" && ".join(whole))))
    return tuple(found)


def _sum(factors: dict[str, int], constant: int, plan: KernelPlan, at: dict[str, str]) -> str:
    own = {*plan.tile, plan.vector}
    terms = [f"{factor}L * {at[dim]}" for dim, factor in factors.items() if dim in own and dim in at]
    text = " + ".join(terms) or "0"
    return f"{text} + {constant}" if constant > 0 else f"{text} - {-constant}" if constant < 0 else text


def _position(plan: KernelPlan, operand: Operand, packing: Packing | None, at: dict[str, str]) -> Declare:
    if packing is None:
        text = _sum(operand.at.factors, operand.at.constant, plan, at)
    else:
        text = start_of(packing, at, frozenset(plan.reductions))
    return Declare("const long", f"{operand.name}_at", Name(text))


def _bounds(plan: KernelPlan, dim: str, at: dict[str, str]) -> list[Declare]:
    """Return the first and last tap of a reduction in a tile: inside its block, and off the padding."""
    name, extent = dim_names(plan)[dim], plan.extents[dim]
    start = at.get(dim, "0")
    end = f"MIN({start} + {plan.split[dim]}, {extent})" if dim in plan.split else str(extent)
    for guard in plan.guards:
        if guard.tap != dim or is_static(plan, guard):
            continue
        out = f"{guard.step} * {at[guard.out]}" if guard.out in at else "0"
        low = f"({-guard.constant + guard.spread - 1} - {out}) / {guard.spread}"
        high = f"({guard.size - 1 - guard.constant + guard.spread} - {out}) / {guard.spread}"
        start, end = f"MAX({start}, {low})", f"MIN({end}, {high})"
    return [Declare("const int", f"{name}_from", Name(start)), Declare("const int", f"{name}_to", Name(end))]


def _choice(nest: Nest, chosen: tuple[Side, ...], at: dict[str, str]) -> Block:
    """Return the call, behind comparisons of the tile's position where tiles have different code."""
    plan = nest.plan
    dims = (*plan.tile, plan.vector)
    if len(chosen) == len(dims):
        return (Run(f"{nest.prefix}{nest.numbers[chosen]}", tuple(Name(text) for text in arguments(plan))),)
    dim = dims[len(chosen)]
    parts = runs(plan, dim)
    body = _choice(nest, (*chosen, parts[-1].side), at)
    for run in reversed(parts[:-1]):
        inner = _choice(nest, (*chosen, run.side), at)
        body = (If(Name(f"{at[dim]} < {run.stop}"), inner, body),)
    return body
