"""Colours of status words and remarks: on a terminal only, and not under NO_COLOR (no-color.org)."""

from __future__ import annotations

import os
import re
from typing import TextIO

_CODES = {"green": "32", "yellow": "33", "red": "31"}
_STATUS = re.compile(r"(OPTIMAL|BOUND|FEASIBLE|NOT PROVEN|TIMEOUT|INFEASIBLE|REFUSED)(?=[ :])")
_COLOUR_OF = {"OPTIMAL": "green", "BOUND": "green", "FEASIBLE": "yellow", "NOT PROVEN": "yellow"}
_REMARK = re.compile(r"polymap: (?:(warning):|(PM[0-9]{3}))")


def is_coloured(stream: TextIO | None) -> bool:
    """Return whether texts for the stream may have colours."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def painted_answer(text: str, stream: TextIO | None) -> str:
    """Return an answer with its status, the first word, in colour."""
    found = _STATUS.match(text)
    if found is None or not is_coloured(stream):
        return text
    return _paint(found.group(), _COLOUR_OF.get(found.group(), "red")) + text[found.end() :]


def painted_remark(text: str, stream: TextIO | None) -> str:
    """Return a remark with the word `warning`, or the code of its mistake, in colour."""
    found = _REMARK.match(text)
    if found is None or not is_coloured(stream):
        return text
    start, end = found.span(found.lastindex or 0)
    return text[:start] + _paint(text[start:end], "yellow" if found.group(1) else "red") + text[end:]


def _paint(text: str, colour: str) -> str:
    return f"\x1b[1;{_CODES[colour]}m{text}\x1b[0m"
