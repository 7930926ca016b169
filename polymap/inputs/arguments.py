"""Calls with arguments that a function has not, or lacks, are answered in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING

from polymap.formatting import listing, plural
from polymap.ir import Mistake, OptionError, PolymapError, closest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, ParamSpec, TypeVar

    Given = ParamSpec("Given")
    Returned = TypeVar("Returned")


def answers_in_words(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Let a function raise OptionError for arguments that are unknown, missing, given twice or too many (PM123), or of
    a kind that it fails on (PM120), each named with what would be right, in place of Python's own errors.

    A `bool` that is given by name is True or False: Python would take any text, "no" too, as True. What makes a
    workload tells that among all other mistakes of its values.
    """
    kinds = function.__annotations__
    switches = [name for name, kind in kinds.items() if kind == "bool" and kinds.get("return") != "Workload"]

    @wraps(function)
    def call(*args: Given.args, **words: Given.kwargs) -> Returned:
        try:
            if not all(isinstance(words.get(name, True), bool) for name in switches):
                raise TypeError("no truth value")
            return function(*args, **words)
        except PolymapError:
            raise
        except (TypeError, AttributeError, ValueError, KeyError):
            mistakes = _mistakes(function, args, words) or list(_wrong_kinds(function, args, words))
            if not mistakes:
                raise
        raise OptionError(mistakes)

    return call


_KINDS: dict[type, str] = {
    str: "a text",
    int: "an integer",
    bool: "True or False",
    type(None): "None",
    Mapping: "a table",
    **dict.fromkeys((Sequence, Iterable, list, tuple), "a list"),
}


def _mistakes(function: Callable[..., object], args: tuple[object, ...], words: Mapping[str, Any]) -> list[Mistake]:
    """Return what is wrong with the arguments of a call; nothing where it can be made."""
    import inspect  # by those who made a mistake

    from polymap.inputs.reading import shown

    signature = inspect.signature(function)
    try:
        signature.bind(*args, **words)
    except TypeError as error:
        taken = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        known = [each.name for each in taken if each.name != "self"]
        unknown = [] if len(taken) < len(signature.parameters) else [word for word in words if word not in known]
        placed = [each.name for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        given = {*words, *placed[: len(args)], *(closest(word[:64], known) for word in unknown)}
        lacks = [each.name for each in taken if each.default is inspect.Parameter.empty and each.name not in given]
        name, cure = f"{function.__name__}()", f"Its arguments: {', '.join(known)}."
        found = [
            Mistake("PM123", f"{name} has no argument {shown(word)}", did_you_mean(word[:64], known) or cure)
            for word in unknown
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


def _wrong_kinds(
    function: Callable[..., object], args: tuple[object, ...], words: Mapping[str, Any]
) -> Iterator[Mistake]:
    """Yield what is wrong with arguments that are no instances of the classes that they are annotated with."""
    import inspect

    from polymap.inputs.reading import shown

    signature = inspect.signature(function)
    for name, value in signature.bind(*args, **words).arguments.items():
        parameter = signature.parameters[name]
        known: dict[str, object] = getattr(function, "__globals__", {})
        told = str(parameter.annotation)
        while "[" in told:
            told = re.sub(r"\[[^\[\]]*\]", "", told)
        kinds = [_class_of(part.strip(), known) for part in told.split("|")]
        classes = tuple(kind for kind in kinds if kind is not None)
        is_one = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_text = isinstance(value, str) and str not in classes  # a sequence, too
        if is_one and len(classes) == len(kinds) and (is_text or not isinstance(value, classes)):
            right = [_KINDS.get(each, f"a value of type {each.__name__}") for each in classes]
            yield Mistake("PM120", f"{name} is {shown(value)}", f"Expected {listing(right, 'or')}.")


def _class_of(annotation: str, known: Mapping[str, object]) -> type | None:
    """Return the class that an annotation names, None for other annotations."""
    plain = {"str": str, "int": int, "bool": bool, "None": type(None)}
    found = plain.get(annotation, known.get(annotation))
    return found if isinstance(found, type) else None
