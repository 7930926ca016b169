"""Calls with arguments that a function has not, or lacks, are answered in words."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from polymap.ir import Mistake, OptionError, did_you_mean

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
        known = [name for name in signature.parameters if name != "self"]
        name = f"{function.__name__}()"
        found = [
            Mistake("PM123", f"{name} has no argument '{word}'", did_you_mean(word, known) or _all(known))
            for word in words
            if word not in known
        ]
        plain = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        missing = [
            each.name
            for number, each in enumerate(signature.parameters.values())
            if each.default is inspect.Parameter.empty and each.name not in words
            if each not in plain or number >= len(args)
        ]
        found += [Mistake("PM123", f"{name} lacks the argument '{each}'", _all(known)) for each in missing]
        return found or [
            Mistake("PM123", f"{name}: {error}", _all([each.name for each in plain if each.name in known]))
        ]
    return []


def _all(names: list[str]) -> str:
    return f"Its arguments: {', '.join(names)}."
