"""Calls with arguments that a function has not, or lacks, are answered in words."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from polymap.formatting import listing, plural
from polymap.ir import Mistake, OptionError, closest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ParamSpec, TypeVar

    Given = ParamSpec("Given")
    Returned = TypeVar("Returned")


def answers_in_words(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Let a function raise OptionError (PM123) for arguments that are unknown, missing, given twice or too many, each
    named with what would be right, in place of Python's TypeError."""

    @wraps(function)
    def call(*args: Given.args, **words: Given.kwargs) -> Returned:
        try:
            return function(*args, **words)
        except TypeError:
            mistakes = _mistakes(function, args, words)
            if not mistakes:
                raise
        raise OptionError(mistakes)

    return call


def _mistakes(function: Callable[..., object], args: tuple[object, ...], words: Mapping[str, Any]) -> list[Mistake]:
    """Return what is wrong with the arguments of a call; nothing where it can be made."""
    import inspect  # by those who made a mistake

    signature = inspect.signature(function)
    try:
        signature.bind(*args, **words)
    except TypeError as error:
        taken = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        known = [each.name for each in taken if each.name != "self"]
        unknown = [] if len(taken) < len(signature.parameters) else [word for word in words if word not in known]
        placed = [each.name for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        given = {*words, *placed[: len(args)], *(closest(word, known) for word in unknown)}
        lacks = [each.name for each in taken if each.default is inspect.Parameter.empty and each.name not in given]
        name, cure = f"{function.__name__}()", f"Its arguments: {', '.join(known)}."
        found = [
            Mistake("PM123", f"{name} has no argument '{word}'", did_you_mean(word, known) or cure) for word in unknown
        ]
        if len(args) > len(placed) and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in taken):
            most = len([each for each in placed if each != "self"])
            told = f"at most {plural(most, 'argument')} by position" if most else "its arguments by name"
            found.append(Mistake("PM123", f"{name} takes {told}", cure))
        if lacks:
            these = listing([f"'{each}'" for each in lacks])
            if len(taken) < len(signature.parameters) and words:  # any word may be one of its sizes
                these += f" (given: {', '.join(words)})"
            found.append(Mistake("PM123", f"{name} lacks the argument{'s'[: len(lacks) > 1]} {these}", cure))
        return found or [Mistake("PM123", f"{name}: {error}", cure)]
    return []
