"""A traffic formula as text: expressions, tiles, and conditions."""

from __future__ import annotations

from polymap.costmodel.closed_form import Formula


def formula_text(formula: Formula) -> str:
    """Return the four expressions, the tiles that occur in them, and the conditions."""
    amounts = {"reads": formula.reads, "writes": formula.writes, "fills": formula.fills, "drains": formula.drains}
    lines = [f"{formula.tensor} at {formula.level}, in elements over all instances"]
    lines += [f"  {name:6} = {amount}" for name, amount in amounts.items()]
    if formula.tiles:
        lines.append("where")
    lines += [
        f"  {tile.name} is the tile of loop {tile.depth} over {tile.dim}, inside {tile.enclosing}; here {tile.tile}"
        for tile in formula.tiles
    ]
    if formula.conditions:
        lines.append("as long as")
    lines += [f"  {condition}" for condition in formula.conditions]
    return "\n".join(lines)
