"""Configuration of the documentation site: `make docs` builds it into out/docs, with warnings as errors."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from api_groups import api_page  # noqa: E402

project = "polymap"
author = "the polymap authors"
copyright = "2026, the polymap authors"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["pictures"]
html_theme = "furo"
html_title = "polymap"
html_copy_source = False
html_show_sphinx = False
templates_path: list[str] = []

nb_execution_mode = "force"  # the pages; the notebooks stand here with their outputs
nb_execution_excludepatterns = ["notebooks/*"]
nb_execution_raise_on_error = True
nb_execution_timeout = 300
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
MARKUP = re.compile(r"[\\*`|_]")
BACKSLASHED = r"\\\g<0>"


def _as_plain_text(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Show docstrings as they are written: plain text, not reStructuredText."""
    body = inspect.cleandoc("\n".join(lines)).splitlines()
    lines[:] = [f"| {MARKUP.sub(BACKSLASHED, line)}" if line else "" for line in body]


def _site_links(_app: object, _page: str, source: list[str]) -> None:
    """Let links to the notebooks' folder, which stands beside this one, lead to its copy inside."""
    source[0] = source[0].replace("](../notebooks/", "](notebooks/").replace("](../../notebooks/", "](../notebooks/")


def _fill(_app: object) -> None:
    """Put the notebooks and the generated page where Sphinx reads."""
    notebooks = HERE / "notebooks"
    notebooks.mkdir(exist_ok=True)
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8").replace("](../docs/", "](../")
        (notebooks / path.name).write_text(text, encoding="utf-8")
    (HERE / "reference" / "api.rst").write_text(api_page(), encoding="utf-8")


def setup(app: object) -> None:
    """Register the steps."""
    connect = app.connect  # type: ignore[attr-defined]
    connect("builder-inited", _fill)
    connect("source-read", _site_links)
    connect("autodoc-process-docstring", _as_plain_text)
