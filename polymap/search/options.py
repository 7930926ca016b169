"""What is asked of a search besides the workload and the machine, and how much its provers try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from time import monotonic

from polymap.inputs import as_float, as_integer, shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload, all_read
from polymap.search.dividing import OpenStructures
from polymap.search.problem import Objective, Rules, parse_objective, rules_from_document
from polymap.search.result import Progress, Settings

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known about a question before it is asked (dividing tiles, one value).

    start: a legal mapping, from which the search begins. least: a proven lower bound of the value: a mapping that
    attains it ends the search. enough: a value; once no mapping is below it the search ends. left: what an earlier
    search of the question, in another process perhaps, did not search, from which this one goes on. counts_space:
    whether the answer tells how large the space is.
    """

    start: Mapping | None = None
    least: Fraction | None = None
    enough: Fraction | None = None
    left: OpenStructures | None = None
    counts_space: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of `explore`, which documents them; clock: what the time limit is measured by, in seconds."""

    objective: str = "energy"
    tiles: str = "any"
    time_limit_s: float = 60
    workers: int = 1
    seed: int = 0
    on_progress: OnProgress | None = None
    constraints: object = None
    memory_limit_mb: int | None = None
    work_limit: int | None = None
    clock: Callable[[], float] = monotonic
    hints: Hints = field(default_factory=Hints)

    def settings(self) -> Settings:
        """Return what a result tells of them."""
        limits = self.memory_limit_mb, self.work_limit
        return Settings(self.tiles, self.time_limit_s, self.workers, self.seed, self.constraints, *limits)

    def read(self, workload: Workload, arch: Architecture) -> tuple[Objective, Rules]:
        """Return the objective and the rules; raises OptionError with the mistakes of all options."""
        _, goal, rules = all_read(
            self.check,
            partial(parse_objective, self.objective, arch),
            partial(rules_from_document, self.constraints, workload, arch),
        )
        return goal, rules

    def check_words(self) -> None:
        """Raise OptionError with what is wrong whatever the workload and the machine are."""
        all_read(self.check, partial(parse_objective, self.objective, None))

    def check(self) -> None:
        """Raise OptionError for an unknown tile rule, and numbers that are not positive (a seed may be 0)."""
        mistakes: list[Mistake] = []
        if self.work_limit is not None and _read_integer(self.work_limit) < 1:
            what = f"work_limit is {shown(self.work_limit)}"
            mistakes.append(Mistake("PM549", what, "Use an integer of at least 1."))
        if self.memory_limit_mb is not None and _read_integer(self.memory_limit_mb) < 1:
            what = f"memory_limit_mb is {shown(self.memory_limit_mb)}"
            mistakes.append(Mistake("PM548", what, "Use an integer of at least 1 (2^20 bytes each)."))
        if self.tiles not in ("any", "divide"):
            mistakes.append(Mistake("PM503", f"tiles is {shown(self.tiles)}", "Use 'any' or 'divide'."))
        if not as_float(self.time_limit_s) > 0:  # infinity is
            what = f"time_limit_s is {shown(self.time_limit_s)}"
            mistakes.append(Mistake("PM504", what, "Use a positive number of seconds."))
        if _read_integer(self.workers) < 1:
            mistakes.append(Mistake("PM505", f"workers is {shown(self.workers)}", "Use an integer of at least 1."))
        if _read_integer(self.seed) < 0:
            mistakes.append(Mistake("PM506", f"seed is {shown(self.seed)}", "Use an integer of at least 0."))
        if self.on_progress is not None and not callable(self.on_progress):  # pyright: ignore[reportUnnecessaryComparison]
            what = f"on_progress is {shown(self.on_progress)}"
            mistakes.append(Mistake("PM120", what, "Expected a function that takes a report, or None."))
        if mistakes:
            raise OptionError(mistakes)


def _read_integer(value: object) -> int:
    """Return an integer; -1 for anything else."""
    found = as_integer(value)
    return -1 if found is None else found


@dataclass(frozen=True, slots=True)
class Tuning:
    """How much each prover tries: numbers that change speed and how good an unproven answer is, never what is true.

    "limits.py" is benchmarks/limits.py: seconds past a time limit. "certificates.py" is benchmarks/certificates.py.
    Where neither is named a number was not swept.
    """

    counting_share: float = 0.03
    """Of the time limit, for the count of the space before a search over tiles of any size, and for telling whether
    its trees are few: that takes 0.04 s at most, a count 0.4 to 8 s."""
    joint_share: float = 0.2
    """Of what is left of the limit, for all parts of an order or a front at once, before they are asked for one by
    one."""
    walking_share: float = 0.5
    """Of what is left of the limit, for walking over all trees where they are few."""
    listing_share: float = 0.2
    """Of the time limit, for a list of structures: to sort and group them takes up to four times as long."""
    padding_share: float = 0.1
    """Of the time limit, for mappings of a product that is padded to extents with many divisors."""
    structures_padded: int = 24
    """Structures of least bounds to whose sibling counts extents are rounded up (benchmarks/any_size.py),"""
    most_padded: float = 1.1
    """where the nest gets at most this much larger,"""
    padded_nests: int = 2
    """at most so many times,"""
    padded_share: float = 0.15
    """each for this much of what is left of the limit,"""
    timed_padded_share: float = 0.3
    """or for this much, and however much larger they get, where times count."""
    most_prime: int = 13
    """Extents with a prime factor above this are rounded up"""
    bits_of_rounded: int = 6
    """to numbers with so many significant bits: they get at most 1/32 longer, and have enough divisors."""
    rounded_share: float = 0.1
    """Of what is left of the limit, for the nest with such extents."""
    first_structures_share: float = 0.1
    """Of the time limit, for what structures of siblings prove at once (limits.py)."""
    structures_share: float = 0.3
    """And for structures one by one, and mappings looked for there, where there are other bounds besides."""
    dividing_again_share: float = 0.7
    """Of what is left when these bounds hardly rise any more, for tiles that divide."""
    structures_share_under_rules: float = 0.8
    """The same where nothing but local search comes after."""
    share_to_meet_rules: float = 0.4
    """To find one mapping under rules that no dividing one meets."""
    recount_s: float = 1.0
    """CPU seconds for the counts of a mapping that is read from a file, and for its legality."""
    products_share: float = 0.7
    """Of what is left of the limit, for geometric programs, before structures and climbing have the rest."""
    apart_share: float = 0.3
    """Of what is left of the limit, for a nest with a name for each access to one tensor, where mappings begin."""
    one_element_share: float = 0.15
    """And for the nest with one element in that tensor's place, which bounds them."""
    free_wires_share: float = 0.8
    """Of what is left of the limit, for the same nest on the machine whose fan-outs cost no energy."""
    without_steps_share: float = 0.6
    """Of what is left of the limit, for a program on a machine whose single steps take cycles as if they took none; and
    of the rest, for trees of it that move least."""
    nests_share: float = 0.3
    """Of what is left of the limit, for all nests of a program together, each mapped alone;"""
    nest_s: float = 0.15
    """for each so many seconds where that is more, past the limit, too (not swept)."""
    turns_share: float = 0.9
    """Of the limit, for provers of programs in turn; the rest for samples (not swept)."""
    slice_s: float = 0.25
    """CPU seconds for one of them, and for the chains of a form of a program, at first; then as many as it had, too,"""
    slice_steps: int = 25
    """and where the work is limited so many steps (not swept)."""
    least_gain: float = 0.1
    """Of what the best mapping and the bound are apart, that a slice must bring them nearer to count (not swept)."""
    late_forms_wait: float = 32.0
    """Times the first slice that a form's next one is, before forms in tiles begin though all has room (not swept)."""
    dearer_forms_wait: float = 1.0
    """Power of what its best tree costs over the best one of all, by which a form waits longer (not swept)."""
    product_chains_share: float = 0.35
    """Of the limit, for products in a row through one buffer."""
    most_splits: int = 8
    """Cases of where tensors stand that the proof of chains splits: proofs took up to 2 (benchmarks/chains.py)."""
    split_instances: int = 2**27
    """Of programs of few instances, whose parts are soon searched, as many as this over their number (not swept)."""
    most_splits_of_trees: int = 60
    """The same of all trees: sums over more cases take longer than the nests (not swept)."""
    prices: tuple[Fraction, ...] = tuple(Fraction(part, 16) for part in (2, 4, 6, 7, 8, 9, 10, 12, 16))
    """Of what a cycle is worth in the best tree, for which a level's transfers are priced in the floor of a product of
    energy and latency, while that says more: most between 3/8 and 1/2 of a block of GPT-3 on tpu_like."""
    widest_case: int = 4
    """Times the least number of indices left, of the most in a case of a chain, before cases differ in what is held."""
    refunded_leg_share: tuple[float, float] = (0.05, 0.1)
    """Of what is left of the limit, for one nest of a floor; of the proof that no chain is better, which a nest that
    ends early spoils (feed-forward of BERT-base on simba_like in 30 CPU s: FEASIBLE with the first, OPTIMAL in 15),"""
    outermost_in_parts: int = 16
    """One of so many parts of what the outermost level moves is paid in a leg where the rest is counted by rounds, so
    that nothing else is moved from there instead (not swept)."""
    case_share: tuple[float, float] = (0.02, 0.04)
    """and for one in a part of a case, which costs no less than the whole case without a search."""
    leg_share: float = 0.1
    """Of what is left of the limit, for one nest in trees of neighbours."""
    leg_share_of_large: float = 0.02
    """The same for programs of as many nests as a segment has at most, or more, that are too large to be climbed."""
    count_s: float = 1.0
    """CPU seconds for counting the first tree of a program, whatever is left of the limit (not swept),"""
    legal_share: float = 0.25
    """or for any of them this part of what is left (not swept)."""
    count_share: float = 0.02
    """Of what is left of the limit, for counting one of these trees where the closed form does not apply."""
    most_in_a_segment: int = 6
    """Nests that share loops."""
    most_loops_around: int = 3
    """Loops that they share."""
    most_tiles_around: int = 24
    """Tiles that are tried for each."""
    most_states_listed: int = 20_000
    """States of a segment, those of few loops first, of which the best are tried."""
    kinds_alike: int = 8
    """Kinds of states that move as much as another at the outermost level and give no better tree, until others are
    left out."""
    nearly_fastest: Fraction = Fraction(101, 100)
    """Times the least cycles, up to which a product on a long program is looked for by energy alone: in a block of
    Llama-3-8B trees of least energy in fast legs take 1.0017 times as many (not swept)."""
    nearly_binding: float = 0.5
    """Of the time of a tree, from which on a level's transfers are charged in sums near it (not swept)."""
    joined_share: float = 0.25
    """Of the time for trees of neighbours, for segments below common loops (not swept)."""
    staying_share_of_nests: float = 0.15
    """Of what is left of the limit, for what stays whole between nests (not swept)."""
    staying_slack: Fraction = Fraction(1, 2000)
    """Of what the best choice costs, what better ones may save at most that are not looked for (not swept)."""
    most_nested: int = 16
    """Statements up to which a tensor may stay longer than it is used, so that others nest inside (not swept)."""
    segments_in_turn: int = 4
    """Segments that share what is left of the time for all of them (not swept),"""
    segments_in_turn_of_few: int = 2
    """and where one may be the whole program."""
    promising: float = 1.1
    """Times what a segment costs in parts: neighbours in dearer ones get no branches of their own."""
    kinds_in_vain: int = 6
    """In a row, after which no more states are looked at."""
    most_nodes_added: int = 4
    """Above the branch of a tree, one after the other."""
    most_states_tried: int = 40
    """States of a segment of which the tree is built."""
    saved_inside: float = 0.05
    """Of what the best tree of a segment costs below the outermost level: states that cost more than this more there
    are not looked at."""
    states_without_gain: int = 2
    """States of one kind, one after the other, that are no better than the ones before."""
    climb_s_per_instance: float = 4e-6
    """CPU seconds per instance of a program until climbing has scored its first shapes (not swept)."""
    program_bound_share: float = 0.4
    """Of the limit for the bound of a program of many instances, before any mapping of it is looked at."""
    clashing_share: float = 0.2
    """Of the time limit, for which rules clash, before tiles of any size are looked at (limits.py)."""
    quickly_counted: int = 1_000_000
    """Statement instances up to which the space is counted whatever the clock says."""

    few_trees: int = 300_000
    """Trees that are all walked, some 100,000 per second."""
    most_instances_walked: int = 1 << 26
    """Statement instances up to which they are: each tree looks at all, held in arrays."""
    most_asked: int = 10_000
    """Trees that are counted to find one that meets the rules."""
    trees_to_meet_rules: int = 600
    """Trees that are scored to find one that meets the rules."""
    most_spreads: int = 20_000
    """Ways to spread all dims over fan-outs of any size, up to which each is tried."""

    boxes_share: float = 0.5
    """Of what is left of the limit, for latencies in steps by the boxes of storage nodes,"""
    most_boxes: int = 20_000
    """that there are at most,"""
    most_pairs_of_boxes: int = 3_000_000
    """and pairs of them, in arrays."""
    boxes_per_pair: int = 3
    """Boxes between two stores that are told for each pair,"""
    trees_of_boxes: int = 100
    """and trees that are counted, the best first."""
    waits_share: float = 0.6
    """Of what is left of the limit, for the bound on latency where work waits for what levels hold (not swept),"""
    less_held_share: float = 0.3
    """then for mappings that hold less,"""
    one_less_share: float = 0.25
    """and for one search of these."""
    few_timed_trees: int = 50_000
    """Legal trees that are walked where steps take cycles: 0.1 ms each, and 3 ms where one may be the best."""
    trees_in_turn: int = 64
    """Trees of a nest whose steps take cycles that are scored between two reports (not swept)."""
    tries: int = 200
    """Random mappings of a program of one statement that the lattice search does not cover."""
    tries_of_programs: int = 40
    """The same of several statements, which take longer to count."""

    most_nodes: int = 200_000
    """Nodes below a structure that a certificate may ask its checker to visit (certificates.py)."""
    most_lines: int = 3
    """Prices of energy against latency per bound of a certificate."""
    earlier_share: float = 0.8
    """Of what is left of the limit, for each part of an order but the last."""
    extreme_shares: tuple[float, ...] = (1 / 2, 1 / 2)
    """Of what is left of the limit, for the least value of one part of a front,"""
    front_share: float = 1 / 6
    """and for one limit of the second part."""
    least_evaluation_s: float = 0.2
    """CPU seconds of an evaluation where the limit is nearly reached,"""
    last_evaluation_s: float = 0.5
    """and for the best of local search, where another mapping is known."""
    most_asked_limits: int = 2
    """Times that one limit of a front is asked about: first with little effort, then with more."""
    neighbours_apart: Fraction = Fraction(5, 4)
    """Two values of a part of a front that are no farther apart are neighbours."""
    most_kinds_of_output: int = 256
    """Ways to hold and spread a temporary output that are searched one by one."""
    most_merged: int = 256
    """Places of merged nodes that are tried for a product of a tensor with itself."""


TUNING = Tuning()
