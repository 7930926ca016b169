"""Calls of the file's own functions that only assign, or only return a value, written out in the function that is read.

static void add(float a[], const float b[], int i) { a[i] += b[i]; }   ->   add(x, y, i + 1);   is
{ float (*pm_a) = x; const float (*pm_b) = y; x[((int)(i + 1))] += y[((int)(i + 1))]; }

Nothing uses the pointers, which are declared as the parameters are: `pointers` refuses arguments of other types.

static float half(int i) { return i * 0.5f; }   ->   half(x[k]);   is   ((float)(((int)(x[k])) * 0.5f));
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from polymap.workload.c.words import is_word, tokens_of
from polymap.workload.tuning import TUNING

_HEAD = re.compile(r"([\w\s]+?)\s+(\w+)\s*\(([^()]*)\)\s*\{([^{}]*)\}\s*")
_VALUE = re.compile(r"\s*return\b([^;]*);\s*")
_CAST = re.compile(
    r"\(\s*(?:(?:unsigned|signed|char|short|int|long|float|double|size_t|u?int(?:8|16|32|64)_t)\b\s*)+\)"
)
_ARRAY = re.compile(r"[\w\s]*?[\s*]+(?:restrict\s+)?(\w+)\s*(?:\[[^][]*\])*\s*")
_SCALAR = re.compile(r"\s*(?:(?:const|register)\s+)*([\w\s]*?)\s+(\w+)\s*")
_KEYWORDS = frozenset((
    *("return", "for", "while", "do", "switch", "if", "else", "goto", "break", "continue"),
    *("int", "long", "float", "double", "char", "short"),
))  # fmt: skip
_NO_TYPES = frozenset(("static", "inline", "__inline", "const"))
_NO_CASTS = frozenset(("extern", "register", "volatile", "struct", "union", "enum", "_Noreturn"))  # of a function
_PLAIN = re.compile(r"(?!\*)(?:(?![+*/%-] ?\*)[\w +*/%.-])+")  # no array's element, no pointer's target
_STEP = r"(\+\+|--)"
_CHANGE = rf"{_STEP}|(?<![=<>!])=(?!=)|<<=|>>="


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that only assigns elements of its arrays, or returns a value of numbers. parameters: name and type, ""
    for arrays; of arrays also the declaration of a pointer @. kind: of the value that it returns, "" for none. uses:
    other functions that are written out in it."""

    parameters: tuple[tuple[str, str, str], ...]
    body: str
    kind: str
    uses: frozenset[str] = frozenset()


def helpers_of(texts: Iterable[str]) -> dict[str, Helper]:
    """Return the functions that can be written out; calls of earlier ones are in their bodies."""
    found: dict[str, Helper] = {}
    for name, each in filter(None, map(_helper_of, texts)):
        body, used = with_inlined(tokens_of(each.body), found)
        found[name] = replace(each, body="".join(body), uses=used)
    return found


def _helper_of(text: str) -> tuple[str, Helper] | None:
    """Return the name of a function and what it does, None where it does more than assign to its arrays, or return a
    value of its other arguments."""
    match = _HEAD.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    kind, name, listed, body = match.groups()
    kind = " ".join(each for each in kind.split() if each not in _NO_TYPES)
    value = _VALUE.fullmatch(body)
    if not kind or (value is None) != (kind == "void") or not _NO_CASTS.isdisjoint(kind.split()):
        return None
    body, kind = (body, "") if value is None else (value[1], kind)
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
    tokens = [each for each in tokens_of(_CAST.sub(" ", body)) if not each.isspace()]
    words = set(filter(is_word, tokens))
    known = {own for own, _, _ in parameters} | {one for one, other in pairwise(tokens) if other == "("}
    changes = any(_sets(own, body) for own, _, _ in parameters)
    if value is not None:
        changes = any(declared for _, _, declared in parameters) or re.search(_CHANGE, body) is not None
    if words & _KEYWORDS or not words <= known or changes or len({own for own, _, _ in parameters}) < len(parameters):
        return None
    return name, Helper(tuple(parameters), body.strip(), kind)


def _sets(name: str, body: str) -> bool:
    """Return whether a body changes a parameter: a number, or where a pointer points to (`*p++ = 0`, not `*p = 0`)."""
    text, found = "".join(_CAST.sub("", body).split()), 1
    while found:
        text, found = re.subn(r"(?<![\w)\]])\((\w+)\)", r"\1", text)
    sets = rf"(?<![*\w]){name}([-+*/%&|^]|<<|>>)?=(?!=)"
    return re.search(rf"{sets}|\b{name}{_STEP}|{_STEP}{name}\b(?!\[)", text) is not None


def with_inlined(tokens: Sequence[str], helpers: Mapping[str, Helper]) -> tuple[list[str], frozenset[str]]:
    """Return the tokens with calls of helpers written out, lines where they were, and the names of these helpers."""
    found, used, place, last = list[str](), set[str](), 0, ""
    while place < len(tokens):
        token = tokens[place]
        helper = helpers.get(token)
        call = None
        is_value = not is_word(last) or last == "return"
        if helper is not None and (is_value if helper.kind else last in (";", "{", "}", ")", "else")):
            call = _call(tokens, place, is_value=bool(helper.kind))
        text = None
        if helper is not None and call is not None:
            given = [with_inlined(tokens_of(each), helpers) for each in call[0]]
            text = _written(helper, ["".join(each) for each, _ in given])
            used |= helper.uses.union(*(names for _, names in given)) if text is not None else set()
        if call is None or text is None:
            found.append(token)
            place, last = place + 1, last if token.isspace() else token
            continue
        used.add(token)
        found += [*tokens_of(text), *("\n" * tokens[place : call[1]].count("\n"))]
        place, last = call[1], text[-1]
    return found, frozenset(used)


def _call(tokens: Sequence[str], place: int, *, is_value: bool) -> tuple[list[str], int] | None:
    """Return the arguments of a call that is a statement, or a value, and where it ends; None for anything else."""
    depth, arguments = 0, [""]
    for at in range(place + 1, len(tokens)):
        token = tokens[at]
        depth += (token == "(") - (token == ")")
        if depth == 0 and token == ")" and is_value:
            return arguments, at + 1
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
    """Return what a call does; None where an argument is neither array nor number, or is changed by what it does."""
    if len(arguments) != len(helper.parameters):
        return None
    values: dict[str, str] = {}
    given: dict[str, str] = {}
    for argument, (name, kind, _) in zip(arguments, helper.parameters, strict=True):
        argument = " ".join(argument.split())
        once = helper.kind or len(re.findall(_CHANGE, helper.body)) == 1
        plain = (once or _PLAIN.fullmatch(argument)) if kind else is_word(argument)
        if not plain or not argument or re.search(_CHANGE, argument):
            return None
        values[name] = f"(({kind})({argument}))" if kind else argument
        given[name] = argument
    text = "".join(_replaced(helper.body, values))
    if helper.kind:
        return f"(({helper.kind})({text}))" if len(text) <= TUNING.most_text else None
    pointers = "".join(
        "".join(_replaced(declared, given)).replace("@", f"pm_{name}") + f" = {given[name]}; "
        for name, _, declared in helper.parameters
        if declared
    )
    return f"{{ {pointers}{text} }}"


def _replaced(body: str, values: Mapping[str, str]) -> Iterator[str]:
    for word in tokens_of(body):
        yield values.get(word, word)
