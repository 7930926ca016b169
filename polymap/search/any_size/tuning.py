"""How much the search over tiles of any size tries: numbers that change its speed and its gaps, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one search.

    "search.py" stands for the cases of benchmarks/search.py asked with tiles="any": 127^3, 4096^3 and the 3x3 layer of
    ResNet on flat3_keep, whose gaps and CPU seconds are in docs/any_tiles.md. Thresholds that it chose were chosen
    together, not swept one by one. "limits.py" is benchmarks/limits.py: seconds past a time limit.
    """

    # The engine: how regions are tightened and cut. Chosen by search.py.
    coarse_ratio: float = 1.5
    """Regions whose factors differ by more are cut before anything else."""
    fine_ratio: float = 1.001
    """Factors that differ by less are not cut."""
    rounds: int = 6
    """Bounds per region, each with better multipliers and finer cells."""
    coarse_rounds: int = 2
    """The same for regions of coarse factors."""
    coarse_cells: int = 20_000
    """Cells per unit up to which coarse regions, and cells around known tiles, are refined."""
    fine_cells: int = 30_000
    """Cells per unit up to which other regions are refined (also by limits.py: a step is as long as its cells)."""
    least_gain: float = 0.03
    """Rounds end after the second where the bound has risen by less than this part of the way to the best value."""
    good_gain: float = 0.1
    """A region whose bound rises by more than this part of the way is not cut yet."""
    narrowed_orders: int = 12
    """Orders whose tiles are narrowed by probes: at most so many, else none."""
    rounding_period: int = 10
    """Of the coarse regions every so many'th is rounded to mappings."""

    # Multipliers of capacities: a subgradient step. Chosen by search.py.
    step_of_missing: float = 0.5
    """Part of what is missing to the best value that a step aims at."""
    step_of_cost: float = 0.03
    """A step changes the multipliers' worth by at most this part of the cost."""
    step_without_goal: float = 0.05
    """Part of the cost that counts as missing while no mapping is known."""
    step_growth: float = 1.2
    """Of the step size after a rise of the bound, up to 1."""
    step_decay: float = 0.7
    """Of the step size after a fall of the bound."""

    # Geometric programs. programs_at_once by limits.py, the rest by search.py.
    most_orders: int = 2000
    """Orders of storage nodes that are listed: with more there are no programs."""
    programs_at_once: int = 256
    """Programs that are solved between two looks at the clock."""
    probe_ratios: tuple[float, ...] = (1.1, 1.35, 2.0)
    """Ratios to the best box at which larger and smaller ones are refuted."""
    first_weight: float = 4.0
    """Of the objective against the barrier, at first."""
    last_weight: float = 1e7
    """The same, at last: the duality gap is about the number of constraints over it."""
    weight_growth: float = 12.0
    """Of the weight from one barrier to the next."""
    newton_steps: int = 12
    """Per weight, at most."""
    step_halvings: int = 30
    """Per Newton step, at most."""
    least_decrement: float = 1e-9
    """A Newton decrement that counts as none."""

    # Where good mappings are looked for first. Chosen by search.py.
    start_share: float = 0.5
    """Of the limit, for regions around good spatial factors."""
    start_rounds: int = 3
    """Bounds per such region."""
    start_factors: int = 10
    """Such regions, at most."""
    start_optima: int = 6
    """Orders whose optima's factors are rounded,"""
    factors_per_optimum: int = 3
    """each to so many trip counts,"""
    factor_spread: float = 0.25
    """within this part of the optimum's factor,"""
    factors_tried: int = 200
    """of which the nearest so many per class are looked at."""
    dims_per_fanout: int = 4
    """Dims that a fan-out is laid over alone, the longest first."""

    # Tiles around those of an optimum. Chosen by search.py.
    cell_details: tuple[tuple[int, int], ...] = ((1, 0), (1, 1), (3, 1), (3, 2), (8, 2), (8, 3), (20, 4))
    """(orders, detail) of the cells around their optima, tried in turn while the cells are few."""
    cell_ladder: tuple[float, ...] = (0.8, 1.25, 0.92, 1.08, 0.5, 2.0, 0.96, 1.04, 0.86, 1.16)
    """Borders of cells by their ratio to a tile, the first of them at little detail."""
    same_tile_ratio: float = 1.02
    """Tiles closer than this get one set of borders."""
    small_tile: int = 64
    """Tiles below this get borders at single sizes."""
    rounded_orders: int = 3
    """Orders whose tiles are rounded to mappings."""
    rounded_tiles: int = 4
    """Choices of whole tiles that are tried around those of an optimum, where there are no fan-outs."""
    rounded_spread: float = 1.25
    """Ratio to the ends of a cell within which single tiles are tried."""
    rounded_neighbours: int = 8
    """Single tiles that are tried around a cell."""
    rounded_cells: int = 15_000
    """Single tiles per unit, at most: with more none is tried."""
    rounded_steps: int = 10
    """Multipliers that are tried with one set of single tiles."""

    # Annealing beside the regions. Not swept: small enough that its share of search.py's seconds is not felt.
    annealed_first: int = 400
    """Mappings that are scored before the first region."""
    annealed_per_region: int = 25
    """Mappings that are scored after each region."""
    annealed_at_once: int = 64
    """Mappings between two reports where there are no regions."""
    annealed_without_bound: int = 400
    """Mappings that are scored where no bound tells how good they are."""


TUNING = Tuning()
