"""How values show themselves: a registry from names of classes to texts and pictures, filled by `polymap.report`.

The core values derive from `Shown` and know nothing of reports. What draws them is registered when it is imported, or
by the hook of `when_first_shown` at the first print. A type without a text falls back to its `repr`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_SUMMARY = 15  # lines


def _run(hooks: list[Callable[[], object]]) -> None:
    """Run the waiting hooks, each once."""
    while hooks:
        hooks.pop(0)()


class _Registry:  # no dataclass: `import polymap` loads this module, and would load a dozen others for it
    def __init__(self) -> None:
        self.texts: dict[str, Callable[[Any], str]] = {}
        self.pictures: dict[str, Callable[[Any], str]] = {}
        self.tables: dict[str, Callable[[Any], str]] = {}
        self.hooks: list[Callable[[], object]] = []
        self.report_hooks: list[Callable[[], object]] = []

    def ready(self) -> None:
        _run(self.hooks)


_REGISTRY = _Registry()


def show_as_text(kind: str, render: Callable[[Any], str]) -> None:
    """Let `str(value)` of a class of this name be what `render` returns."""
    _REGISTRY.texts[kind] = render


def show_as_picture(kind: type | str, render: Callable[[Any], str]) -> None:
    """Let notebooks show a `kind` (a class, or its name) as the SVG text that `render` returns."""
    _REGISTRY.pictures[kind if isinstance(kind, str) else kind.__name__] = render


def show_as_html(kind: str, render: Callable[[Any], str]) -> None:
    """Let notebooks show a class of this name as the HTML fragment that `render` returns."""
    _REGISTRY.tables[kind] = render


def when_first_shown(hook: Callable[[], object]) -> None:
    """Call `hook` before the first value is shown: it imports the module that registers the renderings."""
    _REGISTRY.hooks.append(hook)


def when_first_reported(hook: Callable[[], object]) -> None:
    """Call `hook` before an answer's first report: it imports the module that registers them."""
    _REGISTRY.report_hooks.append(hook)


def load_reports() -> None:
    """Load what makes reports of answers, if that has not happened yet."""
    _run(_REGISTRY.report_hooks)


def text_of(value: object) -> str:
    """Return the text of a value: its registered rendering, else its own `__str__`, else its `repr`."""
    _REGISTRY.ready()
    render = _REGISTRY.texts.get(type(value).__name__)
    if render is not None:
        return render(value)
    if type(value).__str__ is not Shown.__str__:
        return str(value)
    return object.__repr__(value) if type(value).__repr__ is Shown.__repr__ else repr(value)


def summary_of(value: object) -> str:
    """Return the first lines of a value's text, at most 15."""
    lines = text_of(value).splitlines()
    if len(lines) <= _SUMMARY:
        return "\n".join(lines)
    return "\n".join((*lines[: _SUMMARY - 1], f"... {len(lines) - _SUMMARY + 1} more lines: print() shows them"))


def picture_of(value: object) -> str | None:
    """Return the SVG of a value, None where its type has no picture."""
    _REGISTRY.ready()
    render = _REGISTRY.pictures.get(type(value).__name__)
    return None if render is None else render(value)


def html_of(value: object) -> str:
    """Return the value as HTML: its registered fragment, else its picture, else its text in a <pre>."""
    _REGISTRY.ready()
    render = _REGISTRY.tables.get(type(value).__name__)
    if render is not None:
        return render(value)
    picture = picture_of(value)
    if picture is not None:
        return f"<div>{picture}</div>"
    text = text_of(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{text}</pre>"


def missing_attribute(value: object, name: str) -> object:
    """Raise AttributeError with the attribute that was meant: one of the value's own, or one of a field of it."""
    if name.startswith("_") or hasattr(type(value), name):  # asked by protocols, or a property that failed itself
        return object.__getattribute__(value, name)
    from difflib import get_close_matches  # by those who made a mistake

    own = [each for each in dir(value) if not each.startswith("_")]
    below = {each: object.__getattribute__(value, each) for each in getattr(value, "__dataclass_fields__", ())}
    inside = [f"{each}.{part}" for each, it in below.items() if isinstance(it, Shown) for part in dir(type(it))]
    found = [each for each in inside if each.partition(".")[2].startswith(name)] or get_close_matches(name, own, 1)
    hint = f"Did you mean '{min(found, key=len)}'?" if found else f"Known: {', '.join(own)}."
    raise AttributeError(f"{type(value).__name__} has no attribute '{name}'. {hint}", name=name, obj=value)


class Shown:
    """Base of the values that print as text and show as pictures in notebooks.

    An answer (a dataclass with `repr=False`) is summarised where an interpreter shows it; the `repr` of other values
    stays the dataclass's own.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # for a type checker any name would be one that values have

        def __getattr__(self, name: str) -> object:
            return missing_attribute(self, name)

    def __repr__(self) -> str:
        return summary_of(self)

    def __str__(self) -> str:
        return text_of(self)

    def _repr_svg_(self) -> str | None:
        return picture_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)
