"""Assumptions that reading a text made on options of the compiler, as conditions of the preprocessor."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.codegen.source.placement import RegionText
from polymap.codegen.source.tuning import TUNING
from polymap.workload.c import Assumption, CProgram, Group


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions under which the new loops equal the region's. here: tested at the region. above: at the top of the
    file.

    A macro that the file defines above the region can only be tested at the top.
    """

    here: tuple[str, ...]
    above: tuple[str, ...]


def conditions_of(program: CProgram, place: RegionText) -> Conditions:
    """Return the conditions under which the compiler sees the text that was read."""
    text = program.prepared.file
    around = {group for group, _ in text.around(place.first)}  # the region is not compiled where they are otherwise
    here, above = list[str](), list[str]()
    for each in program.prepared.assumed:
        groups = each.groups - around
        own = [change.line for change in text.changes if change.name == each.name and change.line <= place.last]
        if own and each.value is not None:  # that it is defined so is asked for where the program runs
            groups = frozenset(group for group in groups if not _only_defines(each, group))
        if not groups:
            continue
        number = _number(program, each, groups, place) if own and each.value is None else None
        if number is not None:
            here.append(_is_number(each.name, number))
        elif not own or (each.value is not None and max(own) < min(group.line for group in groups)):
            here.append(_condition(each))
        else:
            above.append(_condition(each))
    return Conditions(tuple(here), tuple(above))


def _condition(each: Assumption) -> str:
    if each.value is None:
        return f"!defined({each.name})"
    return f"defined({each.name}) && {each.name} == {each.value}"


def _only_defines(each: Assumption, group: Group) -> bool:
    """Return whether a group depends on nothing but how the text defines the name that it tests."""
    return group.only_changes and group.changes == {each.name}


def _number(program: CProgram, each: Assumption, groups: frozenset[Group], place: RegionText) -> int | None:
    """Return the number that a name expands to, if nothing else depends on the assumption."""
    text = program.prepared.file
    ranges = [(group.branches[0], group.branches[-1]) for group in groups]  # any order: each is asked
    own = [change.line for change in text.changes if change.name == each.name and change.line <= place.last]
    macro = text.macros_at(place.first).get(each.name)
    if macro is None or macro.parameters is not None or not all(_only_defines(each, group) for group in groups):
        return None
    if any(set(group.assumed) != {each.name} or group.behind for group in groups):
        return None
    if not all(line < place.first and any(first < line < last for first, last in ranges) for line in own):
        return None
    digits = "".join(macro.body).strip()
    plain = digits.isdecimal() and not (digits.startswith("0") or len(digits) > 20)
    return int(digits) if plain and int(digits) < TUNING.most_assumed else None


def _is_number(name: str, value: int) -> str:
    """Return a condition that holds where a macro is this positive number, and not an expression such as a sum or
    choice."""
    whole = f"!({name} - {value}) && {name} * 2 == {2 * value} && {4 * value} / {name} == 4 && -{name} < 0"
    return f"{whole} /* {name} is {value} */"
