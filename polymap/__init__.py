"""polymap: the best mapping of a loop nest onto an accelerator, its proof, its numbers and its program.

The public names, each loaded when it is first used, so that `import polymap` costs next to nothing.
"""

import sys

# `python -m polymap` (its words come after "-m" when packages are imported) or the installed command: a signal that
# comes while modules are loaded ends it with one line. Who imports the package keeps their own signals.
if (sys.argv[:1] == ["-m"] and "polymap" in sys.orig_argv) or "".join(sys.argv[:1]).endswith("/polymap"):
    from polymap.cli.first_interrupt import end_at_once

    end_at_once()

from importlib import import_module

# At once and not on first use: `explore` and `verify` are modules and functions, and these imports decide it.
from polymap.explore import explore as explore
from polymap.faces import face
from polymap.ir.display import when_first_shown
from polymap.verify import verify as verify
from polymap.version import __version__ as __version__

_DEPRECATED = {"Problem": "Mistake"}
_get, _names = face(__name__)


def __getattr__(name: str) -> object:
    """Return a public name, imported now; a deprecated one with a warning."""
    if name not in _DEPRECATED:
        return _get(name)
    from warnings import warn

    warn(f"polymap.{name} is now polymap.{_DEPRECATED[name]}", DeprecationWarning, stacklevel=2)
    return _get(_DEPRECATED[name])


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(("__version__", *_names()))


# Values know nothing of reports: the first one that is printed or shown in a notebook loads them.
when_first_shown(lambda: import_module("polymap.report.page.shown"))
