"""Calls of the file's own functions that only assign, written out in the function that is read.

static void add(float a[], const float b[], int i) { a[i] += b[i]; }   ->   add(x, y, i + 1);   is
{ float (*pm_a) = x; const float (*pm_b) = y; x[((int)(i + 1))] += y[((int)(i + 1))]; }

Nothing uses the pointers, which are declared as the parameters are: `pointers` refuses arguments of other types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polymap.workload.c.words import is_word

_HEAD = re.compile(r"(?:static\s+|inline\s+|__inline\s+)*void\s+(\w+)\s*\(([^()]*)\)\s*\{([^{}]*)\}\s*")
_ARRAY = re.compile(r"[\w\s]*?[\s*]+(?:restrict\s+)?(\w+)\s*(?:\[[^][]*\])*\s*")
_SCALAR = re.compile(r"\s*(?:const\s+)?([\w\s]*?)\s+(\w+)\s*")
_KEYWORDS = frozenset((
    *("return", "for", "while", "do", "switch", "if", "else", "goto", "break", "continue"),
    *("int", "long", "float", "double", "char", "short"),
))  # fmt: skip
_STEP = r"(\+\+|--)"


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that only assigns elements of its arrays. parameters: name and type, "" for arrays; of arrays also the
    declaration of a pointer @."""

    parameters: tuple[tuple[str, str, str], ...]
    body: str


def helper_of(text: str) -> tuple[str, Helper] | None:
    """Return the name of a function and what it does, None where it does more than assign to its arrays."""
    match = _HEAD.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    name, listed, body = match.groups()
    parameters: list[tuple[str, str, str]] = []
    for each in listed.split(","):
        array, scalar = _ARRAY.fullmatch(each), _SCALAR.fullmatch(each)
        if scalar is not None and "[" not in each and "*" not in each:
            parameters.append((scalar[2], scalar[1], ""))
        elif array is not None:
            head, axes = each[: array.start(1)], re.findall(r"\[[^][]*\]", each[array.end(1) :])
            parameters.append((array[1], "", f"{head}(*@){''.join(axes[1:])}" if axes else f"{head}@"))
        else:
            return None
    words = set(re.findall(r"[A-Za-z_]\w*", body))
    known = {own for own, _, _ in parameters} | set(re.findall(r"([A-Za-z_]\w*)\s*\(", body))
    sets = "|".join(rf"\b{own}\s*([-+*/]?=(?!=)|{_STEP})|{_STEP}\s*{own}\b" for own, kind, _ in parameters if kind)
    changes = bool(sets) and re.search(sets, body) is not None
    if words & _KEYWORDS or not words <= known or changes or len({own for own, _, _ in parameters}) < len(parameters):
        return None
    return name, Helper(tuple(parameters), body.strip())


def with_inlined(tokens: Sequence[str], helpers: Mapping[str, Helper]) -> tuple[list[str], frozenset[str]]:
    """Return the tokens with calls of helpers written out, lines where they were, and the names of these helpers."""
    found, used, place, last = list[str](), set[str](), 0, ""
    while place < len(tokens):
        token = tokens[place]
        call = _call(tokens, place) if token in helpers and last in (";", "{", "}", ")", "else") else None
        text = None if call is None else _written(helpers[token], call[0])
        if call is None or text is None:
            found.append(token)
            place, last = place + 1, last if token.isspace() else token
            continue
        used.add(token)
        found += [*re.findall(r"\w+(?:\.\w+)?|\s+|[^\w\s]", text), *("\n" * tokens[place : call[1]].count("\n"))]
        place, last = call[1], "}"
    return found, frozenset(used)


def _call(tokens: Sequence[str], place: int) -> tuple[list[str], int] | None:
    """Return the arguments of a call that is a statement, and where it ends; None for anything else."""
    depth, arguments = 0, [""]
    for at in range(place + 1, len(tokens)):
        token = tokens[at]
        depth += (token == "(") - (token == ")")
        if depth == 0 and token == ")":
            ends = next((after for after in range(at + 1, len(tokens)) if not tokens[after].isspace()), len(tokens))
            return (arguments, ends + 1) if ends < len(tokens) and tokens[ends] == ";" else None
        if depth == 0 and not token.isspace():
            return None
        if depth == 1 and token == ",":
            arguments.append("")
        elif not (depth == 1 and token == "("):
            arguments[-1] += token
    return None


def _written(helper: Helper, arguments: Sequence[str]) -> str | None:
    """Return what a call does, None where its arguments are no arrays and sums of variables."""
    if len(arguments) != len(helper.parameters):
        return None
    values: dict[str, str] = {}
    given: dict[str, str] = {}
    for argument, (name, kind, _) in zip(arguments, helper.parameters, strict=True):
        argument = argument.strip()
        plain = re.fullmatch(r"[\w\s+*/%.-]+", argument) if kind else is_word(argument)
        if not plain or re.search(_STEP, argument):
            return None
        values[name] = f"(({kind})({argument}))" if kind else argument
        given[name] = argument
    pointers = "".join(
        "".join(_replaced(declared, given)).replace("@", f"pm_{name}") + f" = {given[name]}; "
        for name, _, declared in helper.parameters
        if declared
    )
    return "{ " + pointers + "".join(_replaced(helper.body, values)) + " }"


def _replaced(body: str, values: Mapping[str, str]) -> Iterator[str]:
    for word in re.findall(r"\w+(?:\.\w+)?|\W", body):
        yield values.get(word, word)
