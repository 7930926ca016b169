"""How searches without proof spend their mappings: numbers that change how good an answer is, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of the climb over trees.

    "search.py" is benchmarks/search.py: CPU seconds of whole searches, of which local search may take a fifth;
    "single_layers.py" is benchmarks/single_layers.py: the same of single layers. Where none is named a number was not
    swept.
    """

    # Random trees.
    drawn: int = 10
    """Random trees of which the best begins a descent (not swept)."""
    held: float = 0.6
    """Chance of a storage node of theirs that may be left out (not swept)."""

    filled: int = 4
    """Ways to fill the fan-outs that are gone on with, beside each other (not swept)."""

    # Where there is no bound beside it.
    trees_at_once: int = 64
    """Trees between two reports."""
    trees_without_bound: int = 400
    """Trees that are scored where no bound tells how good they are."""

    # What a search over dividing tiles pays for it (search.py).
    per_structure: float = 0.005
    """Trees per structure that was listed, before the first of them is bounded,"""
    most_when_listed: int = 1600
    """and how many at most (chains.py: a block on a machine of four levels and three fan-outs)."""
    free_steps: int = 100
    """Steps of a search before any tree is paid."""
    burst: int = 32
    """Trees that are scored one after the other."""
    per_step: float = 0.04
    """Trees per step at first: at most a fifth of the time."""
    per_window_step: float = 0.5
    """The same with windows, whose steps take longer (single_layers.py: a tenth of the time)."""
    idle_steps: int = 2000
    """Steps that pay for trees none of which is better: half as many per step from then on, a third, ..."""

    # Climbing over trees with tiles of any size: seconds of CPU until known optima are found (any_size.py).
    trees_per_round: int = 100
    """Trees that are scored between two looks at a bound."""
    looked_per_scored: int = 20
    """Trees that are looked at for each that is to be scored, those among them that do not fit or were tried."""
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
    """Every so many of these a descent begins elsewhere;"""
    turns_alone: int = 4
    """the same where no bound tells where."""
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
    past_limit_s: float = 0.2
    """CPU seconds of the trees that are scored once structures are listed, whatever the time limit (not swept)."""
    most_remembered: int = 200_000
    """Scores of trees that are kept."""

    # Samples (not swept).
    drawn_at_once: int = 2000
    """Trees that are drawn before capacities are looked at."""
    most_misfits: int = 200_000
    """Legal trees of which none fits, after which no more are drawn."""


TUNING = Tuning()
