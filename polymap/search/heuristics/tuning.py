"""How searches without proof spend their mappings: numbers that change how good an answer is, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of annealing beside a proof, and of the baselines.

    "baselines.py" is benchmarks/baselines.py: how far each method stays above the proven optimum. "search.py" is
    benchmarks/search.py: CPU seconds of whole searches, of which annealing may take a fifth. Where neither is named a
    number was not swept.
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
    per_window_step: float = 1.0
    """The same with windows, whose steps take longer."""
    idle_steps: int = 2000
    """Steps that pay for mappings none of which is better: half as many per step from then on, a third, ..."""
    largest_extent: int = 10**9
    """Extents above are not factored, so there is no annealing."""

    # Climbing over trees with tiles of any size: seconds of CPU until known optima are found (any_size.py).
    run_length: int = 40
    """Rounds of a run at most."""
    idle_rounds: int = 10
    """Rounds without a better tree after which a run ends."""
    near_rise: float = 0.05
    """Accepted rise of the value at the begin of a run near the best mapping; it falls to 0."""
    structure_rise: float = 0.1
    """The same of a run at given sibling counts."""
    far_ratio: float = 1.15
    """A tree that is so much above what is accepted is not looked at further."""
    trees_drawn: int = 6
    """Changed trees of which the best is looked at."""
    plain_share: float = 0.3
    """How often the first changed tree is taken as it is."""
    genomes_drawn: int = 40
    """Random trees of which the best begins a run anywhere."""
    loops_added: tuple[int, int, int] = (3, 12, 20)
    """Loops of one iteration that a tree gets: at least, at most, and how many loops it should have then."""
    spatial_chance: float = 0.6
    """How often a spatial loop of one iteration is added, of those that could be."""
    rows_per_dim: tuple[int, int, int] = (80, 30, 15)
    """Other tiles of one dim: plain, of a window or over several fan-outs, both."""
    pairs_drawn: tuple[int, int] = (8000, 3000)
    """Changes of two dims drawn before it is looked whether they fit: to what does not fit, and to anything."""
    rows_scored: tuple[int, int, int] = (600, 1000, 2500)
    """Rows of a table: of a changed tree, of a good one, of the best."""

    # Baselines (baselines.py).
    patience: int = 60
    """Changes without success before hill climbing starts anew."""
    population: int = 24
    """Genomes of a generation."""


TUNING = Tuning()
