"""A package's names, imported in ordinary lines, each loaded when it is first used:

    with lazy(__name__):
        from polymap.ir.errors import Mistake as Mistake

Readers and tools see where a name comes from, and `import polymap` costs next to nothing. Nothing is imported here that
the interpreter has not loaded: the command line loads this module before it handles Ctrl-C.
"""

import builtins
import sys
from _thread import RLock

TYPE_CHECKING = False  # without loading `typing`

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_LOCK = RLock()  # one block at a time replaces the interpreter's `__import__`


class lazy:
    """Makes `from module import name` in a package's own lines load nothing until `name` is used.

    What is imported from the package itself is a package inside it. A name that its module has, too, is loaded at the
    end of the block, or the module would take its place.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._namespace = vars(sys.modules[package])
        self._home: dict[str, str] = {}  # module of each name

    def __enter__(self) -> None:
        _LOCK.acquire()
        self._import = builtins.__import__
        builtins.__import__ = self._note

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self._import
        _LOCK.release()
        for name in self._home:
            del self._namespace[name]
        names = sorted(self._home)
        self._namespace.update(__getattr__=self._get, __dir__=names.copy, __all__=names)
        for name, module in self._home.items():
            if module == f"{self._package}.{name}":
                self._get(name)

    def _note(
        self,
        name: str,
        globals: "Mapping[str, object] | None" = None,
        locals: "Mapping[str, object] | None" = None,
        fromlist: "Sequence[str] | None" = None,
        level: int = 0,
    ) -> "ModuleType":
        """Import as ever, but for the package's own lines: note what they import and return a module of that look."""
        if globals is not self._namespace:
            return self._import(name, globals, locals, fromlist or (), level)
        self._home.update(dict.fromkeys(fromlist or (), name))
        stand_in = type(sys)(name)
        stand_in.__dict__.update(dict.fromkeys(fromlist or ()))
        return stand_in

    def _get(self, name: str) -> object:
        """Return a name of the package, imported now."""
        if name not in self._home:
            what = f"module '{self._package}' has no attribute '{name}'{self._place_of(name)}"
            raise AttributeError(what, name=name, obj=sys.modules[self._package])
        from importlib import import_module

        module = self._home[name]
        inner = module == self._package
        value = import_module(f"{module}.{name}") if inner else getattr(import_module(module), name)
        self._namespace[name] = value
        return value

    def _place_of(self, name: str) -> str:
        """Return which package inside this one has a name, as the end of a message; "" where none has."""
        if name.startswith("_"):
            return ""  # what interpreters and tools ask for
        inner = [one for one, module in self._home.items() if module == self._package]
        found = [one for one in inner if name in getattr(self._get(one), "__all__", ())]
        return f"; it is {self._package}.{found[0]}.{name}" if found else ""


class _Late:
    """A module that is imported when a name of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        value = vars(self)[name] = getattr(import_module(self._name), name)
        return value


if TYPE_CHECKING:
    import numpy as numpy
else:
    numpy = _Late("numpy")  # half of what the first answer of a process would take
