"""How searches without proof spend their mappings: numbers that change how good an answer is, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of annealing beside a proof, and of the baselines.

    "baselines.py" is benchmarks/baselines.py: how far each method stays above the proven optimum. "search.py" is
    benchmarks/search.py: CPU seconds of whole searches, of which annealing may take a fifth; "single_layers.py" is
    benchmarks/single_layers.py: the same of single layers. Where none is named a number was not swept.
    """

    # Annealing beside a proof: runs in turn near the best mapping and anywhere.
    near_heat: float = 0.05
    """Accepted rise of the value's logarithm at the begin of a run near the best mapping."""
    far_heat: float = 0.5
    """The same for a run from anywhere; also the first heat of the baseline (baselines.py)."""
    last_heat: float = 0.002
    """Accepted rise at the end of a run (baselines.py)."""
    near_length: int = 400
    """Mappings of the first run near the best mapping."""
    far_length: int = 1200
    """Mappings of the first run from anywhere."""
    growth: float = 1.5
    """Of the length of runs, from one pair to the next."""
    drawn: int = 10
    """Random mappings of which the best begins a run (baselines.py)."""

    heats: float = 4.0
    """So many heats above a mapping its neighbours are counted from below alone, where steps take cycles: one in 55 of
    these would be accepted (not swept)."""
    annealed_at_once: int = 64
    """Mappings between two reports where there are no bounds beside it."""
    annealed_without_bound: int = 400
    """Mappings that are scored where no bound tells how good they are."""

    # What a search over dividing tiles pays for it (search.py).
    free_steps: int = 100
    """Steps of a search before any mapping is paid."""
    burst: int = 32
    """Mappings that are scored one after the other."""
    per_step: float = 0.04
    """Mappings per step at first: at most a fifth of the time."""
    per_window_step: float = 0.5
    """The same with windows, whose steps take longer (single_layers.py: a tenth of the time)."""
    idle_steps: int = 2000
    """Steps that pay for mappings none of which is better: half as many per step from then on, a third, ..."""
    largest_extent: int = 10**9
    """Extents above are not factored, so there is no annealing."""

    # Climbing over trees with tiles of any size: seconds of CPU until known optima are found (any_size.py).
    trees_scored: int = 100
    """Trees that a round scores."""
    trees_looked_at: int = 2000
    """And looks at, those among them that do not fit or were tried."""
    rise: float = 0.03
    """Changes that make a tree so much worse are gone on from."""
    counted: float = 0.06
    """Changes that make a tree so much worse are counted from below alone, where steps take cycles (not swept)."""
    most_near: int = 12
    """And how many of them."""
    ends: int = 30
    """Ends of descents that are remembered, the best ones."""
    rise_per_turn: float = 0.0005
    """How much worse an end counts with each change of it that was gone on from."""
    turns: int = 12
    """Every so many of these a descent begins elsewhere."""
    far: float = 0.02
    """Ends so far above the best value are not gone on from."""
    trees_far: int = 400
    """Trees after which a descent is given up where it is still far above the best value."""
    far_begun: float = 0.05
    """How far that is."""
    most_excess: float = 3.0
    """How far beyond capacities a change may be that another one may mend."""
    overfull_drawn: int = 300
    """Of these, how many are scored."""
    overfull_mended: int = 14
    """And how many are changed once more, all ways."""
    starts: int = 3
    """Trees of a chain that runs begin with."""
    genomes_drawn: int = 40
    """Random trees of which the best begins a run anywhere."""

    # Baselines (baselines.py).
    patience: int = 60
    """Changes without success before hill climbing starts anew."""
    population: int = 24
    """Genomes of a generation."""


TUNING = Tuning()
