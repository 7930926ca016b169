"""A page of HTML in one file: sections, tables that can be sorted, pictures; no network, no library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its name in the address, its heading, and its HTML."""

    name: str
    title: str
    body: str


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the document. title: plain text; lead: HTML below it. Nothing is loaded from elsewhere, which the page's
    own policy forbids."""
    own = files("polymap.report")
    names = ("page.css", "pointer.js", "page.js")
    style, *scripts = (own.joinpath(name).read_text(encoding="utf-8") for name in names)
    links = "".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in sections)
    bodies = "\n".join(
        f'<section id="{each.name}" tabindex="-1"><h2>{escape(each.title)}</h2>\n{each.body}</section>'
        for each in sections
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style></head>\n'
        f'<body><a class="skip" href="#{sections[0].name}">Skip to the answer</a>\n'
        f"<header><h1>{escape(title)}</h1>{lead}<nav>{links}</nav></header>\n<main>\n{bodies}\n</main>\n"
        f"<footer>Keys: 1 to {min(9, len(sections))} jump to a section; Tab reaches tables and code, Enter sorts and "
        f"opens.</footer>\n<script>\n{''.join(scripts)}</script></body></html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """Return a table whose columns sort; numbers stand right, with thousands apart."""
    names = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in head)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: Cell) -> str:
    if value is None:
        return '<td class="number" data-sort="">-</td>'
    if isinstance(value, str):
        return f'<td data-sort="{escape(value)}">{escape(value)}</td>'
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return f'<td class="number" data-sort="{value}">{shown}</td>'


def text_block(text: str) -> str:
    """Return text in its own lines and columns."""
    return f'<pre tabindex="0">{escape(text)}</pre>'


def folded(summary: str, body: str) -> str:
    """Return HTML that a click or Enter unfolds."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def paragraphs(text: str) -> str:
    """Return a paragraph per line; a line that begins with a blank goes on with the one before."""
    joined = re.sub(r"\n\s+", " ", text)
    return "".join(f"<p>{escape(line)}</p>" for line in joined.splitlines() if line.strip())
