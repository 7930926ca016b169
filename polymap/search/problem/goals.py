"""Objectives as the user writes them: one goal, a weighted sum, a lexicographic order, or a Pareto front."""

from __future__ import annotations

from fractions import Fraction

from polymap.costmodel import pieces_of
from polymap.inputs import as_fraction, shown
from polymap.ir import Architecture, Mistake, OptionError, did_you_mean
from polymap.search.problem.objectives import AT_LEVEL, JOINED, PIECES, PLAIN, SINGLE_FORMS, Goal, Objective

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
        if kind in JOINED
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


def _single_objective(text: str, arch: Architecture | None, mistakes: list[Mistake]) -> Objective | None:
    kind, colon, level = text.partition(":")
    if text in PLAIN:
        return Objective(Goal(text), None, text)
    if kind not in AT_LEVEL or not colon:
        close = did_you_mean(text, (*SINGLE_FORMS, *(f"{name}:.." for name in JOINED)))
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
