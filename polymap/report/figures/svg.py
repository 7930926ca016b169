"""Generates SVG: shapes as text, colours of tensors, marks of dataflows, a common style. No plotting library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from importlib import import_module
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr, unescape

from polymap.inputs import answers_in_words, expected_kind, shown, write_bytes, write_text
from polymap.ir import MissingPackageError, Mistake, OptionError, Role, Workload, show_as_picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec, TypeVar

    Figure = TypeVar("Figure")
    Given = ParamSpec("Given")

SANS = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
INK, GREY, FAINT, RULE, PAPER = "#1f2937", "#6b7280", "#9ca3af", "#e5e7eb", "#ffffff"
PARALLEL, PARALLEL_PAPER = "#7c3aed", "#f3effe"
ROLE_COLOURS = {Role.OUTPUT: "#0b8166", Role.INPUT: "#2f6fde", Role.WEIGHT: "#df8213"}
MORE_COLOURS = ("#c2417c", "#7a9c18", "#8a5a44", "#5b6b8c", "#b0489f", "#4d9de0")


Mark = tuple[str, Sequence[tuple[float, float]]]  # what there is to say of a point, or of a line through several


_HEAD = """<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>body { font: 13px sans-serif } figure { margin: 0 } figure svg { max-width: 100%; height: auto }</style>
"""


class Picture(str):
    """A picture: the text of an SVG document, which notebooks show, and the data that it is drawn from.

    data: a frozen value whose fields are what is drawn (None where the picture has no such value). marks: what a
    pointer finds in the interactive form, where the picture has one.
    """

    data: Any
    marks: tuple[Mark, ...]

    def __new__(cls, text: str, data: object = None, marks: Sequence[Mark] = ()) -> Picture:
        found = super().__new__(cls, text)
        found.data, found.marks = data, tuple(marks)
        return found

    @property
    def svg(self) -> str:
        """The SVG document."""
        return str(self)

    @answers_in_words
    def interactive(self) -> InteractivePicture:
        """Return the picture as HTML that a notebook shows: what is under the pointer says what it is, and a drag
        chooses all that pass through a box. Raises OptionError for a picture without marks (those of `pm.plot.cloud`
        and `pm.plot.coordinates` have some)."""
        if not self.marks:
            what = "this picture has no marks for a pointer"
            raise OptionError(Mistake("PM120", what, "Those of pm.plot.cloud and pm.plot.coordinates have some."))
        script = files("polymap.report").joinpath("pointer.js").read_text(encoding="utf-8")
        return InteractivePicture(f"{picture_html(self)}<script>\n{script}</script>\n")

    @answers_in_words
    def save(self, path: str | Path) -> None:
        """Write the picture to a file that ends in .svg, .png or .html (interactive), completely or not at all.

        Raises OptionError for another ending, MissingPackageError for .png without the package cairosvg, OutputError
        where the file cannot be written.
        """
        ending = Path(path).suffix.lower()
        if ending == ".svg":
            write_text(path, self)
        elif ending == ".png":
            write_bytes(path, _png(self))
        elif ending == ".html":
            write_text(path, f"{_HEAD}{self.interactive()}")
        else:
            hint = "Expected a name in .svg, .png or .html."
            raise OptionError(Mistake("PM120", f"a picture in {shown(str(path))}", hint))

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        title = unescape(self.split("<title>", 1)[-1].split("</title>", 1)[0])
        return f"<Picture: {title}>"


class InteractivePicture(str):
    """A picture as HTML with a script, which notebooks show."""

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return "<Picture as HTML: a notebook shows it>"


def draws(
    kind: type[Figure], what: str = "the figure"
) -> Callable[[Callable[Concatenate[Figure, Given], Picture]], Callable[Concatenate[Figure, Given], Picture]]:
    """Let a function draw the values of a class: where notebooks show one, and for callers, who are told PM120 where
    they give another value. what: such a value in words."""

    def checked(draw: Callable[Concatenate[Figure, Given], Picture]) -> Callable[Concatenate[Figure, Given], Picture]:
        @wraps(draw)
        def drawn(figure: Figure, *args: Given.args, **words: Given.kwargs) -> Picture:
            return draw(expected_kind(figure, kind, what), *args, **words)

        show_as_picture(kind, drawn)
        return drawn

    return checked


def picture_html(picture: Picture) -> str:
    """Return a picture as an element of HTML with its marks, which the script `pointer.js` reads."""
    places = [[words, [[round(x, 1), round(y, 1)] for x, y in corners]] for words, corners in picture.marks]
    data = json.dumps(places, ensure_ascii=False).replace("<", "\\u003c")
    attribute = " data-marks" if places else ""
    script = f'<script type="application/json">{data}</script>' if places else ""
    return f'<figure tabindex="0"{attribute}>{picture}{script}</figure>'


def _png(picture: Picture) -> bytes:
    """Return the picture as PNG, two pixels for one, by a package that is an optional extra."""
    try:
        cairosvg: Any = import_module("cairosvg")
    except (ImportError, OSError):  # OSError: without the system's library
        what = "pictures as PNG need cairosvg, which is not installed or lacks the library cairo"
        raise MissingPackageError(Mistake("PM751", what, "pip install 'polymap[plot]', or save as .svg")) from None
    return bytes(cairosvg.svg2png(bytestring=picture.encode(), scale=2))


def tensor_colours(workload: Workload) -> dict[str, str]:
    """Return a colour per tensor: one per role, further tensors of a role get further colours, at last darker ones."""
    free_roles, more = dict(ROLE_COLOURS), further_colours()
    return {tensor.name: free_roles.pop(tensor.role, None) or next(more) for tensor in workload.tensors}


def further_colours() -> Iterator[str]:
    """Yield colours without end: those after the roles' own, then all of them again, each time darker."""
    yield from MORE_COLOURS
    for darker in count(1):
        yield from (shade(colour, 1 - 0.6**darker) for colour in (*ROLE_COLOURS.values(), *MORE_COLOURS))


def tint(colour: str, strength: float) -> str:
    """Return the colour thinned towards white: 1 is the colour itself, 0 is white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 - strength * (255 - part)):02x}" for part in parts)


def shade(colour: str, strength: float) -> str:
    """Return the colour darkened: 0 is the colour itself, 1 is black."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part * (1 - strength)):02x}" for part in parts)


def coordinate(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def rect(
    x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "", round_by: float = 0, more: str = ""
) -> str:
    """Return a rectangle."""
    outline = f' stroke="{stroke}"' if stroke else ""
    corner = f' rx="{coordinate(round_by)}"' if round_by else ""
    where = f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(width)}" height="{coordinate(height)}"'
    return f'<rect {where}{corner} fill="{fill}"{outline}{" " + more if more else ""}/>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, width: float = 1, dash: str = "") -> str:
    """Return a straight line. dash: lengths of its strokes and gaps, such as "5 4"."""
    where = f'x1="{coordinate(x1)}" y1="{coordinate(y1)}" x2="{coordinate(x2)}" y2="{coordinate(y2)}"'
    return f'<line {where} stroke="{stroke}" stroke-width="{coordinate(width)}"{dashes(dash)}/>'


def dashes(dash: str) -> str:
    """Return the attribute of a dashed outline; "" where `dash` is."""
    return f' stroke-dasharray="{dash}"' if dash else ""


def polyline(points: Sequence[tuple[float, float]], *, stroke: str, width: float = 1, dash: str = "") -> str:
    """Return a line through points."""
    where = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in points)
    drawn = f'stroke="{stroke}" stroke-width="{coordinate(width)}"{dashes(dash)}'
    return f'<polyline points="{where}" fill="none" {drawn}/>'


def dots(points: Iterable[tuple[float, float]], *, stroke: str, width: float) -> str:
    """Return points without an outline, as one shape."""
    where = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in points)
    return f'<path d="{where}" stroke="{stroke}" stroke-width="{width}" stroke-linecap="round" fill="none"/>'


def circle(x: float, y: float, radius: float, *, fill: str, stroke: str = PAPER) -> str:
    """Return a disc with an outline."""
    where = f'cx="{coordinate(x)}" cy="{coordinate(y)}" r="{coordinate(radius)}"'
    return f'<circle {where} fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'


def mark_of(x: float, y: float, colour: str, *, hollow: bool, radius: float = 4.5) -> str:
    """Return a point of a chart, hollow where it is less sure than the others."""
    return circle(x, y, radius, fill=PAPER if hollow else colour, stroke=colour if hollow else PAPER)


def mark(form: str, x: float, y: float, colour: str, radius: float = 6.5) -> list[str]:
    """Return a mark: dot, hollow (a dot's outline), ring, square, triangle, diamond or cross."""
    r = radius
    if form in ("dot", "hollow"):
        return [mark_of(x, y, colour, hollow=form == "hollow", radius=r * 0.8)]
    if form == "ring":
        return [circle(x, y, r * 1.25, fill=PAPER, stroke=colour), circle(x, y, r * 0.6, fill=colour, stroke=colour)]
    if form == "cross":
        strokes = (((x - r, y - r), (x + r, y + r)), ((x - r, y + r), (x + r, y - r)))
        return [polyline(ends, stroke=colour, width=3) for ends in strokes]
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.15), (1.1, 0.9), (-1.1, 0.9)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[form]
    where = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
    return [f'<polygon points="{where}" fill="{colour}" stroke="{PAPER}" stroke-width="1.2"/>']


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 12,
    fill: str = INK,
    anchor: str = "start",
    bold: bool = False,
    mono: bool = False,
) -> str:
    """Return a line of text whose baseline starts (or ends, or is centred) at the point."""
    place = f'x="{coordinate(x)}" y="{coordinate(y)}" font-size="{coordinate(size)}" fill="{fill}"'
    style = (' font-weight="600"' if bold else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    family = f" font-family={quoteattr(MONO)}" if mono else ""
    return f'<text {place}{style}{family} xml:space="preserve">{escape(content)}</text>'


def hint(shapes: Sequence[str], words: str) -> str:
    """Return shapes as one group that says these words under the pointer, and to screen readers."""
    return f"<g><title>{escape(words)}</title>{''.join(shapes)}</g>"


def text_width(content: str, size: float = 12, *, mono: bool = False) -> float:
    """Return an estimate of a text's width, rather too large than too small."""
    return len(content) * size * (0.61 if mono else 0.58)


def fitted(content: str, room: float, size: float = 12) -> str:
    """Return the text, cut with an ellipsis where it would be wider than `room`."""
    if text_width(content, size) <= room:
        return content
    return content[: max(1, int(room / (0.58 * size)) - 1)].rstrip() + "…"


def wrapped(content: str, room: float, size: float = 12, *, mono: bool = False) -> list[str]:
    """Return a text in lines that fit; a word that does not fit alone is not cut."""
    lines: list[str] = []
    for word in content.split(" ") if content else []:
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, mono=mono) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def picture(
    width: float,
    height: float,
    title: str,
    shapes: Sequence[str],
    data: object = None,
    marks: Sequence[Mark] = (),
) -> Picture:
    """Return an SVG document: a white card with the shapes on it; `title` is what a screen reader says, data what it is
    drawn from, marks what a pointer finds in its interactive form."""
    where = f'width="{coordinate(width)}" height="{coordinate(height)}"'
    box = f'viewBox="0 0 {coordinate(width)} {coordinate(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {where} {box} role="img" font-family={quoteattr(SANS)}>'
    card = rect(0.5, 0.5, width - 1, height - 1, fill=PAPER, stroke=RULE, round_by=10)
    return Picture("\n".join((head, f"<title>{escape(title)}</title>", card, *shapes, "</svg>")) + "\n", data, marks)


FORMS = {
    "weight-stationary": ("square", "#df8213"),
    "output-stationary": ("triangle", "#0b8166"),
    "input-stationary": ("diamond", "#2f6fde"),
    "row-stationary": ("cross", "#8a2f6b"),
    "optimum": ("ring", INK),
}
OTHER = ("dot", GREY)
