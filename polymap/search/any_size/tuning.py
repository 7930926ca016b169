"""How finely the bounds over tiles of any size are worked out: speed and gaps, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of the searches over structures and over geometric programs, each chosen together by
    benchmarks/any_size.py (gap after 20 CPU s), not swept one by one."""

    # Structures and boxes of them.
    tree_branches: int = 4
    """Nodes below one node of the tree of a class's counts."""
    most_rows: int = 60_000
    """Vectors of counts of one class: beyond, ranges are joined."""
    boxes_at_once: int = 512
    """Boxes that are cut together."""
    more_steps: float = 1.05
    """Of one layer of structures by their steps, over those of the layer before,"""
    most_of_steps: int = 1 << 10
    """which has at most so many structures,"""
    most_pairs: int = 1 << 23
    """found among so many pairs of structures of some classes and counts of one more."""
    most_ordered: int = 3
    """Classes whose orders are all tried."""

    # The chains of one structure.
    most_extent: int = 100_000
    """Of a dim: beyond, tensors are bounded one by one."""
    most_cells: int = 40_000
    """Of one unit."""
    many_cells: int = 8_000
    """Beyond so many of one unit, parts are split by bits before cells are."""
    most_entries: int = 6_000_000
    """Of the tables of all states and units."""
    even_ratio: float = 1.2
    """Outer sizes are split where they are less than the siblings' shares over this."""
    cell_ratio: int = 4
    """Of the sizes that a cell joins at first."""
    most_tabled: int = 200
    """Extents whose shares are worked out exactly: larger ones use the formula,"""
    most_loops: int = 3
    """as do more outer loops than this."""

    # Windows.
    kept_windows: int = 64
    """Tables of windows that a search remembers."""
    most_window_work: float = 3e7
    """Array elements that the tables of one window may take."""
    most_box_work: float = 1e8
    """Array elements that the tables of all boxes of one window may take."""
    most_coefficient: int = 1 << 12
    """Of a window: residues are looked at one by one."""

    # Mappings between two looks at the bounds.
    steps_at_once: int = 3
    """Of the queue of structures between two looks for mappings."""
    rounds_at_once: int = 6
    """Of climbing between two looks at the queue,"""
    most_rounds: int = 48
    """and up to so many, twice as many each time, while a look closes less"""
    least_closed: float = 0.02
    """than this share of the gap."""
    structures_climbed: int = 8
    """Whose sibling counts mappings are given."""

    # Geometric programs.
    most_orders: int = 2000
    """Orders of storage nodes that are listed: with more there are no programs."""
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

    # Mappings near the optimum of a box.
    tried_first: int = 12
    """Orders of nodes near whose optimum mappings are tried first."""
    tried_per_step: int = 2
    """Boxes near whose optimum mappings are tried between two cuts."""
    factors_tried: int = 3
    """Whole spatial factors near an optimum's."""
    factor_spread: float = 0.25
    """Whole factors lie within this part of the optimum's,"""
    factors_listed: int = 200
    """of which the nearest so many per class are looked at."""
    rounded_tiles: int = 4
    """Choices of whole tiles that are scored around those of an optimum."""
    same_tile_ratio: float = 1.02
    """Nodes whose tiles are closer than this share one."""
    rounds_first: int = 12
    """Of climbing from the best of the first mappings,"""
    rounds_per_step: int = 1
    """and after each step."""

    # When to end.
    between_looks: int = 2000
    """Programs between two looks at what is gained."""
    least_gain: float = 0.03
    """Of what is missing to the best value, from one look to the next."""

    # Boxes.
    programs_at_once: int = 256
    """Programs that are solved between two looks at the clock,"""
    most_matrix_entries: int = 2**19
    """or fewer, whose matrices have about so many entries."""
    boxes_per_step: int = 16
    """Boxes that are cut together."""
    first_move: float = 0.01
    """Away from the smallest tiles, of a logarithm."""
    tight_ratio: float = 1.02
    """A level that the first point all but fills is taken for this much larger."""
    most_rounded: int = 20_000
    """Choices of whole tiles that are looked at together."""
    least_move: float = 1e-5
    """Of a logarithm: a variable this near to a whole number is one."""
    most_cuts: int = 10
    """That are looked at for a box, the farthest from whole numbers."""
    most_bits: int = 900
    """Of numbers that floats hold with room to spare (derived)."""
    efforts: tuple[int, ...] = (1, 6, 20)
    """Rounds of a structure's refinements, one after the other; the last goes on."""
    short_dim: int = 3
    """Indices of a dim of which no sibling but the first has more than one (derived)."""
    joined_ratios: tuple[float, ...] = (1.0, 1.3, 2.0, 4.0, 16.0, 1e9)
    """Of the ends of joined ranges, tried in this order."""


TUNING = Tuning()
