"""How much the search over dividing tiles tries: numbers that change its speed, never its answer with a proof."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one search.

    "search.py" is benchmarks/search.py: CPU seconds of whole searches. "wired_layers.py" is benchmarks/wired_layers.py:
    gaps of layers after some CPU seconds; of these thresholds a few values each were tried on three layers. "limits.py"
    is benchmarks/limits.py: seconds past a time limit. "single_layers.py" is benchmarks/single_layers.py: values of
    layers after some CPU seconds, and those to a proof. Thresholds that one of them chose were chosen together, not
    swept one by one.
    """

    # Multipliers of capacities: a subgradient step per round. Chosen by search.py.
    rounds: int = 10
    """Multipliers that are tried per structure, at most."""
    least_gain: int = 20
    """A round that gains less than one part in so many of what is missing is idle,"""
    idle_rounds: int = 3
    """and after so many in a row no more are tried."""
    float_bits: int = 900
    """Multipliers are tried as floats, which end at 2^1024: longer costs go without."""

    # Costs below marks (single_layers.py).
    pairs_per_node: int = 2000
    """Pairs of tiles whose loads take as long to work out as a node of the search with a window."""
    most_pairs: int = 2_000_000
    """Up to which they are: a quarter of a gigabyte at a time."""

    # Places of spatial loops over window dims.
    decided_places: int = 16
    """Where more choices of them are left, the other places stay open until a chain is complete (single_layers.py)."""
    least_raise: int = 8
    """A structure's search lets others go first where its bound has come so much of the way to the best value (1 / 8:
    wired_layers.py)."""

    # Costs by the room in a level.
    nodes_before_room: int = 30
    """Nodes of a product's structure that are searched before they are worked out (search.py: gemm4096_flat3_keep)."""
    most_rooms: int = 64
    """Classes of room per joint state, at most (wired_layers.py)."""

    # A first answer (single_layers.py).
    compared_first: int = 2048
    """Structures whose bounds say which promise most, at most;"""
    compared_searched: int = 16_384
    """the same where the objective is no sum, and the best of them are searched (latency of conv2_x on tpu_like)."""

    # Groups that are bounded side by side.
    stacked_tiles: int = 1 << 16
    """Tiles of all of them together, at most (wired_layers.py)."""

    # The queue of structures.
    bounded_at_once: int = 4096
    """Structures bounded between two looks at the clock (limits.py)."""
    long_table: int = 1 << 14
    """Entries of tables from which on the clock is looked at between them (limits.py)."""
    steps_alone: int = 64
    """Steps of a search before it is worth starting processes, which takes half a second (not swept)."""
    steps_ahead: int = 16
    """Steps that processes have before them at any time (not swept)."""

    # Long searches of a structure wait for better incumbents.
    nodes_at_once: int = 250
    """Nodes of a structure's search before it waits for the first time; twice as many each time (wired_layers.py)."""
    most_ahead: int = 8
    """And it waits for so many times these (wired_layers.py)."""

    # Probes: a few nodes of the most promising structures, at turns that are powers of two. Chosen by wired_layers.py.
    first_probe: int = 8
    """The first of these turns."""
    probed_nodes: int = 60
    """Nodes that are searched in a structure."""
    probed_entries: int = 200
    """Entries among which one is looked for whose spatial loops have one place."""

    # Probes of groups near the best tree's (wired_layers.py).
    steps_per_probe: int = 2
    """Long steps that pay for one of them;"""
    idle_probes: int = 8
    """after so many in a row without a better tree twice as many, then four times, ..."""
    nodes_near: int = 9
    """Nodes that are searched in a group."""

    # The trees of one chain.
    points_of_leaf: int = 4096
    """Tiles that loops may come through up to which the least cost of all of these trees is worked out (not swept)."""

    # Where no chain of least cost fits. Chosen by search.py.
    drawn: int = 1500
    """Mappings scored without proof, at most."""
    worthwhile: int = 300
    """A search with fewer choices of tiles is over sooner than drawing mappings."""


TUNING = Tuning()
