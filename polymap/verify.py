"""From a certificate to a verdict: what it proves, and whether that is what the user asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

# `import polymap` loads this module (it and the function share their name), so what it needs is loaded when it is used.
from polymap.inputs import answers_in_words, expected_seconds, expected_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polymap.checker import Verdict
    from polymap.resolve import ArchitectureLike, WorkloadLike

Table = dict[str, object]


@answers_in_words
def verify(
    text: str,
    workload: WorkloadLike | None = None,
    arch: ArchitectureLike | None = None,
    objective: str | None = None,
    *,
    constraints: Mapping[str, object] | None = None,
    time_limit_s: float = 600,
) -> Verdict:
    """Return what a certificate's text proves, within `time_limit_s` of CPU time; it never raises for a text.

    With a workload and an arch the text must be about them, and about `objective` (default: energy) under `constraints`
    (default: none): one that is about another question proves nothing, and `reason` names the first field that differs.
    Raises OptionError where only one of the two is given, or for a question that no certificate is about.
    """
    from polymap.checker import verify as check

    # Here and not above: a certificate is checked without anything of the search.
    expected_text(text, "the certificate")
    expected_seconds(time_limit_s)
    if workload is None and arch is None and objective is None and constraints is None:
        return check(text, time_limit_s)
    from polymap.ir import Mistake, OptionError
    from polymap.resolve import question_of
    from polymap.search import asked_head

    if workload is None or arch is None:
        what = f"verify needs {'a workload' if workload is None else 'an arch'} to compare the certificate with"
        raise OptionError(Mistake("PM519", what, "Give workload and arch together, or neither of them."))
    workload, arch = question_of(workload, arch)
    asked = asked_head(workload, arch, objective or "energy", constraints)
    return _compared(text, asked) or check(text, time_limit_s)


def what_is_not(text: str) -> str:
    """Return why a text is no certificate that is read here, judged by its first line ("": it is one)."""
    import re

    from polymap.checker import FORMAT

    first = text[: len(FORMAT) + 1].split("\n")[0]
    if first == FORMAT:
        return ""
    if re.fullmatch("polymap certificate [0-9]+", first):
        return f"its format is '{first[:40]}', and '{FORMAT}' is read here: write it again with this version"
    return f"its first line is not '{FORMAT}'"


def _compared(text: str, asked: Table) -> Verdict | None:
    """Return that a text is about another question than the one asked; None where it is not, or is no certificate."""
    import json

    from polymap.checker import HEAD, Verdict, digest

    lines, proven = text.split("\n", 5)[1:5], False
    if what_is_not(text) or len(lines) < len(HEAD):
        return None
    for word, line in zip(HEAD, lines, strict=True):
        name, _, rest = line.partition(" ")
        try:
            found: object = rest if word == "objective" else json.loads(rest)
        except (ValueError, RecursionError):
            return None
        differs = first_difference(found, asked[word], word, "in the certificate")
        if differs and name == word:
            reason = f"the certificate is about another question: {differs}"
            return Verdict(proven, (), reason, "", None, 0, digest(lines) if text.isascii() else "", 0.0)
    return None


def first_difference(found: object, asked: object, where: str, place: str) -> str:
    """Return where two JSON values differ first ("": nowhere): the field, what is found (at what place) and what is
    asked about."""
    one, other = _items(found), _items(asked)
    if one is not None and other is not None and [*one] == [*other] and type(found) is type(asked):
        each = (first_difference(one[key], other[key], f"{where}{key}", place) for key in one)
        return next(filter(None, each), "")
    if found == asked and type(found) is type(asked):
        return ""
    return f"{where} is {_shown(found)} {place}, and {_shown(asked)} is asked about"


def _items(value: object) -> Table | None:
    """Return what a table or a list holds, by the names of messages; None for other values."""
    if isinstance(value, dict):
        return {f".{key}": item for key, item in sorted(cast("Table", value).items())}
    if isinstance(value, list):
        return {f"[{_label(item, i)}]": item for i, item in enumerate(cast("list[object]", value))}
    return None


def _label(value: object, number: int) -> str:
    """Return what an item of a list is called: its name where it has one."""
    if isinstance(value, dict):
        table = cast("Table", value)
        name = next((table[key] for key in ("name", "level", "fanout", "compute") if key in table), None)
        return str(number if name is None else name)
    if isinstance(value, list) and value:
        return str(cast("list[object]", value)[0])
    return str(number)


def _shown(value: object) -> str:
    import json

    items = _items(value)
    names = [key for key in items or () if not key.strip("[]").isdigit()]
    text = json.dumps(value) if isinstance(value, dict) or not names else "".join(names)
    return text if len(text) <= 200 else f"{text[:200]}..."
