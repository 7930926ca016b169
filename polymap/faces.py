"""The face of a package: the names that the rest of the house may use, each loaded when it is first used.

A package's `__init__.pyi` lists them as imports (which type checkers read), and its `__init__.py` says

    __getattr__, __dir__ = face(__name__)

so that no name stands twice and `import polymap` costs next to nothing. A name imported from the package itself is a
package inside it. Nothing is imported here that the interpreter has not loaded: the command line loads this module
before it handles Ctrl-C.
"""

import sys

TYPE_CHECKING = False  # without loading `typing`

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def face(package: str) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a package whose names stand in the `__init__.pyi` beside it."""
    home: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not home:
            from pathlib import Path

            home.update(names_of_face(Path(str(sys.modules[package].__file__)).with_suffix(".pyi")))
        return home

    def get(name: str) -> object:
        if name not in names():
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        from importlib import import_module

        module = home[name]
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(names())


def names_of_face(stub: "Path") -> dict[str, str]:
    """Return the module of each name that a stub imports."""
    import re

    entries = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
    found = entries.findall(stub.read_text(encoding="utf-8"))
    return {
        entry.partition(" as ")[0].strip(): module
        for module, several, single in found
        for entry in (several or single).split(",")
        if entry.strip()
    }
