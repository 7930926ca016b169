"""Objectives as the user writes them: one goal, a weighted sum, a lexicographic order, or a Pareto front."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import combinations

from polymap.costmodel import pieces_of
from polymap.inputs import as_fraction, shown
from polymap.ir import Architecture, Mistake, OptionError, did_you_mean


@dataclass(frozen=True, slots=True)
class Powers:
    """A product of powers of energy and latency, in pJ and cycles."""

    energy: int
    cycles: int

    def product(self, energy: Fraction, cycles: Fraction) -> Fraction:
        """Return energy^self.energy * cycles^self.cycles."""
        return Fraction(energy**self.energy * cycles**self.cycles)

    def price(self, energy: Fraction, cycles: int) -> Fraction:
        """Return the energy that a cycle is worth near some energy and cycles."""
        return self.cycles * energy / (self.energy * max(1, cycles))

    def least_product(
        self, energy: Fraction, cycles: Fraction, sums: Collection[tuple[Fraction, Fraction]]
    ) -> Fraction:
        """Return the least product where energy and cycles are at least so much, and of some (price, sum) energy +
        price * cycles is at least the sum: between two corners of what is left the product is above one of both."""
        corners = {cycles, *((least - energy) / price for price, least in sums)}
        pairs = ((one, other) for one, other in combinations(sums, 2) if one[0] != other[0])
        corners |= {(one[1] - other[1]) / (one[0] - other[0]) for one, other in pairs}
        return min(
            self.product(max((energy, *(least - price * at for price, least in sums))), at)
            for at in corners
            if at >= cycles
        )

    @property
    def unit(self) -> str:
        """Return the unit of the values, such as "pJ*cycle^2"."""
        factors = [("pJ", self.energy), ("cycle", self.cycles)]
        unit = "*".join(name if power == 1 else f"{name}^{power}" for name, power in factors if power)
        return "cycles" if unit == "cycle" else unit


class Goal(Enum):
    """The quantity that is minimised; the last three combine other objectives."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    ED2P = "ed2p"
    TRAFFIC = "traffic"
    CAPACITY = "capacity"
    BURSTS = "bursts"
    REQUESTS = "requests"
    WEIGHTED = "weighted"
    LEXICOGRAPHIC = "lex"
    PARETO = "pareto"

    @property
    def powers(self) -> Powers | None:
        """The powers of energy and latency in the objective; None for one that is not such a product."""
        return _POWERS.get(self)


_POWERS = {
    Goal.ENERGY: Powers(1, 0),
    Goal.LATENCY: Powers(0, 1),
    Goal.EDP: Powers(1, 1),
    Goal.ED2P: Powers(1, 2),
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective. level: of TRAFFIC (bits read and written there), CAPACITY (bits that one instance holds), BURSTS
    and REQUESTS (of the outermost level, read and written).

    text: as the user wrote it. parts: of WEIGHTED, LEXICOGRAPHIC and PARETO, each with its weight (1 without one).
    laid: of BURSTS and REQUESTS, (tensor, layouts that it may have), "" for those that are not named; else by rows.
    """

    goal: Goal
    level: str | None
    text: str
    parts: tuple[tuple[Fraction, Objective], ...] = ()
    laid: tuple[tuple[str, str], ...] = ()

    @property
    def is_of_pieces(self) -> bool:
        """Whether the value depends on bursts or requests, which no sum of traffic says."""
        return self.goal in PIECES or any(part.is_of_pieces for _, part in self.parts)

    @property
    def singles(self) -> tuple[Objective, ...]:
        """The objectives with one value each: the parts of an order or a front, else the objective itself."""
        if self.goal in (Goal.LEXICOGRAPHIC, Goal.PARETO):
            return tuple(part for _, part in self.parts)
        return (self,)


PIECES = (Goal.BURSTS, Goal.REQUESTS)
_PLAIN = tuple(goal.value for goal in _POWERS)
_AT_LEVEL = ("traffic", "capacity", *(goal.value for goal in PIECES))
_JOINED = ("weighted", "lex", "pareto")
SINGLE_FORMS = (*_PLAIN, *(f"{name}:LEVEL" for name in _AT_LEVEL))  # of the objectives with one value
_FORMS = ", ".join((*SINGLE_FORMS, "weighted:1*energy+0.5*latency", "lex:latency,energy", "pareto:energy,latency"))


def dependence(objective: Objective, *, leaks: bool) -> tuple[bool, bool]:
    """Return whether values depend on energies, and whether on times. leaks: whether cycles cost energy."""
    if objective.parts:
        parts = [dependence(part, leaks=leaks) for _, part in objective.parts]
        return any(energy for energy, _ in parts), any(time for _, time in parts)
    powers = objective.goal.powers
    if powers is None:
        return False, False
    return bool(powers.energy), bool(powers.cycles) or (bool(powers.energy) and leaks)


def in_sums(arch: Architecture, objective: Objective) -> Objective:
    """Return an objective of sums of traffic whose values are at most those of this one: a burst or a request moves as
    many bits as it has at most."""
    if not objective.is_of_pieces:
        return objective
    if objective.goal not in PIECES:
        sums: dict[str, tuple[Fraction, Objective]] = {}
        for weight, part in objective.parts:
            less = in_sums(arch, part)
            for factor, one in less.parts if part.goal in PIECES and objective.goal is Goal.WEIGHTED else ((1, less),):
                sums[one.text] = sums.get(one.text, (Fraction(0), one))[0] + weight * factor, one
        return _join_objectives(objective.goal, tuple(sums.values()))
    pieces = pieces_of(arch.levels[0], arch.name, of_runs=objective.goal is Goal.REQUESTS)
    traffic = Objective(Goal.TRAFFIC, objective.level, f"traffic:{objective.level}")
    return _join_objectives(Goal.WEIGHTED, ((Fraction(1, pieces.bits), traffic),))


def _join_objectives(goal: Goal, parts: tuple[tuple[Fraction, Objective], ...]) -> Objective:
    weighted = goal is Goal.WEIGHTED
    words = (f"{weight}*{part.text}" if weighted else part.text for weight, part in parts)
    return Objective(goal, None, f"{goal.value}:{('+' if weighted else ',').join(words)}", parts)


def parse_objective(text: str, arch: Architecture | None) -> Objective:
    """Return the objective that `text` names. arch: None where it cannot be read: any level may be one of it.

    Raises OptionError with every mistake: an unknown objective (PM501), a level (PM502), a combination (PM508), a
    weight (PM509).
    """
    mistakes: list[Mistake] = []
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers in Python may give
        raise OptionError(Mistake("PM501", f"the objective is {shown(text)}", f"Use one of: {_FORMS}."))
    kind, _, rest = text.partition(":")
    found = (
        _combined_objective(text, Goal(kind), rest, arch, mistakes)
        if kind in _JOINED
        else _single_objective(text, arch, mistakes)
    )
    if mistakes or found is None:
        raise OptionError(mistakes)
    return found


def parse_single(text: str, arch: Architecture | None, *, ranked: bool = False) -> Objective:
    """Return an objective with one value per mapping; with `ranked` also a lexicographic order.

    Raises OptionError as `parse_objective`, PM508 for other objectives.
    """
    objective = parse_objective(text, arch)
    if len(objective.singles) > 1 and not (ranked and objective.goal is Goal.LEXICOGRAPHIC):
        what = f"objective {shown(text)} has several values, and one is expected here"
        raise OptionError(Mistake("PM508", what, "Use one of its parts, or weighted:..; explore takes all objectives."))
    return objective


def objective_unit(text: str) -> str:
    """Return the unit of the values of an objective such as "edp" or "traffic:DRAM" ("" for a weighted sum)."""
    kind = text.partition(":")[0]
    powers = next((goal.powers for goal in Goal if goal.value == kind), None)
    if kind in (goal.value for goal in PIECES):
        return kind
    return powers.unit if powers else "bits" if kind in _AT_LEVEL else ""


def unit_of(objective: str) -> str:
    """Return the unit of an objective's values after a space ("" for a weighted sum)."""
    unit = objective_unit(objective)
    return f" {unit}" if unit else ""


def _single_objective(text: str, arch: Architecture | None, mistakes: list[Mistake]) -> Objective | None:
    kind, colon, level = text.partition(":")
    if text in _PLAIN:
        return Objective(Goal(text), None, text)
    if kind not in _AT_LEVEL or not colon:
        close = did_you_mean(text, (*SINGLE_FORMS, *(f"{name}:.." for name in _JOINED)))
        hint = f"{close} " if close.startswith("Did") else ""
        mistakes.append(Mistake("PM501", f"unknown objective {shown(text)}", f"{hint}Use one of: {_FORMS}."))
        return None
    if arch is None:
        return Objective(Goal(kind), level, text)
    names = [known.name for known in arch.levels]
    level, laid = _layouts_apart(level, names) if Goal(kind) in PIECES else (level, ())
    if level not in names:
        hint = f"{did_you_mean(level, names)} Levels of '{arch.name}': {', '.join(names)}."
        mistakes.append(Mistake("PM502", f"objective {shown(text)} names the level {shown(level)}", hint))
        return None
    if kind == "capacity" and level == names[0]:
        what = f"objective {shown(text)}: the outermost level holds everything, whatever the mapping"
        mistakes.append(Mistake("PM502", what, f"Levels below it: {', '.join(names[1:]) or 'none'}."))
        return None
    if Goal(kind) in PIECES:
        _check_pieces(text, arch, Goal(kind), level, mistakes)
    return Objective(Goal(kind), level, text, laid=laid)


def _layouts_apart(rest: str, names: list[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the level of a text such as DRAM/I=NCHW|NHWC/W=any or DRAM/any, and the layouts that tensors may have."""
    level = max((name for name in names if rest == name or rest.startswith(f"{name}/")), key=len, default=None)
    if level is None:
        level = rest.partition("/")[0]
    words = rest.removeprefix(level).split("/")[1:]
    pairs = (word.partition("=") for word in words)
    return level, tuple((tensor, told) if sign else ("", tensor) for tensor, sign, told in pairs)


def _check_pieces(text: str, arch: Architecture, goal: Goal, level: str, mistakes: list[Mistake]) -> None:
    """Note that a level is not the outermost, or does not say what it moves at once."""
    outer = arch.levels[0]
    if level != outer.name:
        what = f"objective {shown(text)}: {goal.value} are counted at the outermost level"
        mistakes.append(Mistake("PM502", what, f"Use {goal.value}:{outer.name}."))
        return
    try:
        pieces_of(outer, arch.name, of_runs=goal is Goal.REQUESTS)
    except OptionError as error:
        mistakes.extend(error.mistakes)


def _combined_objective(
    text: str, goal: Goal, rest: str, arch: Architecture | None, mistakes: list[Mistake]
) -> Objective | None:
    weighted = goal is Goal.WEIGHTED
    if not rest.strip():
        mistakes.append(Mistake("PM508", f"objective {shown(text)} has no parts", f"Written like {_example(goal)}."))
        return None
    parts: list[tuple[Fraction, Objective]] = []
    words = [word.strip() for word in rest.split("+" if weighted else ",")]
    for word in words:
        weight, name = _weight(word, mistakes) if weighted else (Fraction(1), word)
        part = _single_objective(name, arch, mistakes)
        if part is not None:
            parts.append((weight, part))
    if len(words) < 2 and not weighted:
        mistakes.append(Mistake("PM508", f"objective {shown(text)} has one part", f"Written like {_example(goal)}."))
    for number, (_, part) in enumerate(parts):
        if part in [other for _, other in parts[:number]]:
            mistakes.append(Mistake("PM508", f"objective {shown(text)} has {part.text} twice", "Give each part once."))
    return Objective(goal, None, text, tuple(parts))


def _example(goal: Goal) -> str:
    joined = {Goal.WEIGHTED: "1*energy+0.5*latency", Goal.LEXICOGRAPHIC: "latency,energy"}
    return f"{goal.value}:{joined.get(goal, 'energy,latency')}"


def _weight(word: str, mistakes: list[Mistake]) -> tuple[Fraction, str]:
    """Return weight and name of a part such as 0.5*latency (no weight: 1)."""
    left, star, right = word.rpartition("*")
    if not star:
        return Fraction(1), word
    weight = _number(left.strip())
    if weight is None:
        mistakes.append(Mistake("PM509", f"the weight {shown(left)} of {shown(right)} is no number above 0"))
    return weight or Fraction(1), right.strip()


def _number(text: str) -> Fraction | None:
    """Return the positive number that a text such as 3, 0.5, 1e-3 or 1/3 denotes, None for anything else."""
    if not text.isascii() or "_" in text or len(text) > 40:
        return None
    try:
        top, slash, bottom = text.partition("/")
        value = Fraction(int(top), int(bottom)) if slash else as_fraction(float(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return value if value is not None and value > 0 else None
