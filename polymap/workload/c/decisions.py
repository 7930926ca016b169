"""Which decisions about conditions matter for what is read of a file: they are refused, or become assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from polymap.ir import InputError, Mistake
from polymap.workload.c.conditions import Group
from polymap.workload.c.directives import Expanded, Uncertain
from polymap.workload.c.words import KEYWORDS, is_word, tokens_of


@dataclass(frozen=True, slots=True)
class Part:
    """A declaration or statement that may matter: its lines [first, last], and its identifiers."""

    first: int
    last: int
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Interest:
    """What is read. sure: what is read whatever the rest says. parts: what is read where it shares a name with it.

    others: lines [first, last] of functions that are not read.
    """

    sure: tuple[Part, ...]
    parts: tuple[Part, ...]
    others: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A name was taken to be undefined where the text does not define it (value None), or to have the given value.

    groups: the conditions that were decided by it.
    """

    name: str
    value: int | None
    groups: frozenset[Group]


def identifiers(tokens: Iterable[str]) -> frozenset[str]:
    """Return the identifiers among tokens, keywords left out."""
    return frozenset(token for token in tokens if token not in KEYWORDS and is_word(token))


def assumptions(text: Expanded, interest: Interest, file: str) -> tuple[Assumption, ...]:
    """Return what was assumed of names to read what is read.

    Raises InputError (PM152) where something of it depends on a condition that the text alone does not decide.
    """
    found = _with_those_behind({*text.always, *_decisive(text, interest)})
    in_order = sorted(found, key=lambda group: group.line)  # any order: no ties
    undecided = next((each for each in in_order if each.undecided), None)
    if undecided is not None:
        raise undecided_error(undecided, file)
    names = {(name, value) for group in found for name, value in group.assumed.items()}
    return tuple(
        Assumption(name, value, frozenset(group for group in found if name in group.assumed))
        for name, value in sorted(names, key=str)  # any order: no ties
    )


def undecided_error(group: Group, file: str) -> InputError:
    """Return the refusal of a condition that the text alone does not decide."""
    what = f"'{group.text[:80]}' decides what is read, and {group.undecided} ({file}:{group.line})"
    hint = "Run the file through the preprocessor first (--cpp, cc -E), or leave the condition out."
    return InputError(Mistake("PM152", what, hint))


def _decisive(text: Expanded, interest: Interest) -> Iterator[Group]:
    """Yield the groups that decide text or macros of what is read."""
    words, parts = _reached(interest)
    read = _lines((part.first, part.last) for part in (*interest.sure, *parts))
    others = _lines(interest.others)
    for line in text.uncertain:
        if line.line in read:
            yield from line.groups
    for groups, lines in _left_out(text):
        names = _declared([token for line in lines for token in tokens_of(line.text)])
        is_elsewhere = all(line.line in others for line in lines)
        if not is_elsewhere and (names is None or not names.isdisjoint(words)):
            yield from groups
    for number, groups in text.uses:
        if number in read:
            yield from groups


def _reached(interest: Interest) -> tuple[frozenset[str], list[Part]]:
    """Return the names of what is read, and the parts that share a name with it, directly or by others."""
    holders: dict[str, list[Part]] = {}
    for part in interest.parts:
        for word in part.words:  # any order: a lookup
            holders.setdefault(word, []).append(part)
    words, found = set[str](), dict[int, Part]()
    waiting = [word for part in interest.sure for word in sorted(part.words)]
    while waiting:
        word = waiting.pop()
        if word not in words:
            words.add(word)
            for part in holders.get(word, ()):
                if found.setdefault(id(part), part) is part:
                    waiting += part.words
    return frozenset(words), list(found.values())


def _left_out(text: Expanded) -> Iterator[tuple[frozenset[Group], list[Uncertain]]]:
    """Yield the lines that are not read, those of one branch together, with the groups that decide them."""
    lines = (line for line in text.uncertain if not line.read)
    for (groups, _), run in groupby(lines, lambda line: (line.groups, line.branch)):
        yield groups, list(run)


def _declared(tokens: Sequence[str]) -> frozenset[str] | None:
    """Return the names outside of functions' parameters and bodies; None where blocks are not closed."""
    found, depth, last, is_body = set[str](), 0, "", False
    for token in tokens:
        if token.isspace():
            continue
        if depth == 0 and token == "{":
            is_body = last == ")"
        depth += (token in "({") - (token in ")}")
        if depth < 0:
            return None
        if depth == 0 or not (is_body or token in "({"):
            found.add(token)
        if depth == 0:
            is_body, last = False, token
    return identifiers(found) if depth == 0 else None


def _lines(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(line for first, last in ranges for line in range(first, last + 1))


def _with_those_behind(groups: set[Group]) -> set[Group]:
    found, waiting = set[Group](), list(groups)  # any order: all of them
    while waiting:
        group = waiting.pop()
        if group not in found:
            found.add(group)
            waiting += group.behind
    return found
