"""Sizes of tensors in a module of MLIR whose types leave them open: given for arguments, carried on from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polymap.importers.nodes import checked_size, given_table
from polymap.inputs import shown
from polymap.ir import InputError, Mistake

Shape = tuple[int, ...]
"""-1 is a size that is not known."""


class Sizes:
    """What is known of the shapes of a module's values, and of its integers, while its operations are told in order.

    given: sizes by the names of arguments, "a[0]" for an axis, "n" for an integer; "f.a[0]" means only the function f.
    """

    def __init__(self, given: object) -> None:
        self._mistakes: list[Mistake] = []
        self._given = {
            str(word): checked_size(f"the size of {shown(word)}", value, self._mistakes)
            for word, value in given_table(given, "sizes", '{"a[0]": 128}').items()
        }
        if self._mistakes:
            raise InputError(self._mistakes)
        self._used: set[str] = set()
        self._open: list[str] = []
        self._shapes: dict[Any, Shape] = {}
        self._numbers: dict[Any, int] = {}

    def enter(self, function: Any) -> None:
        """Note the arguments of a function."""
        label = str(getattr(function.attributes.get("sym_name") or function.properties.get("sym_name"), "data", ""))
        for value in (each for region in function.regions if region.blocks for each in region.blocks[0].args):
            name, shape = str(value.name_hint or ""), _typed(value)
            if shape is None:
                found = self._size(label, name)
                if found is not None:
                    self._numbers[value] = found
                continue
            self._shapes[value] = tuple(self._axis(label, f"{name}[{axis}]", size) for axis, size in enumerate(shape))

    def _axis(self, label: str, word: str, size: int) -> int:
        found = self._size(label, word)
        if size >= 0 and found is not None and found != size:
            what = f"the size of {shown(word)} is given as {found}, and the type says {size}"
            self._mistakes.append(Mistake("PM641", what, "Only dynamic sizes (`?`) take a size."))
        if size >= 0:
            return size
        self._open.append(word)
        return -1 if found is None else found

    def _size(self, label: str, word: str) -> int | None:
        for key in (f"{label}.{word}", word):
            if key in self._given:
                self._used.add(key)
                return self._given[key]
        return None

    def shape(self, value: Any) -> Shape:
        """Return the shape of a value, () for one that is no tensor."""
        return self._shapes.get(value) or _typed(value) or ()

    def number(self, value: Any) -> int | None:
        """Return the integer that a value is known to be."""
        return self._numbers[value] if value in self._numbers else constant(value)

    def note(self, value: Any, shape: Sequence[int]) -> None:
        """Note the shape of a value where its type leaves sizes open."""
        typed = _typed(value)
        if typed is not None and len(typed) == len(shape) and -1 in typed:
            self._shapes[value] = tuple(known if known >= 0 else size for known, size in zip(typed, shape, strict=True))

    def carry(self, operation: Any) -> None:
        """Note what an operation that computes nothing says of sizes."""
        name, operands, results = operation.name, list(operation.operands), list(operation.results)
        if name in ("tensor.dim", "memref.dim") and len(operands) == 2:
            shape, axis = self.shape(operands[0]), self.number(operands[1])
            if axis is not None and 0 <= axis < len(shape) and shape[axis] >= 0:
                self._numbers[results[0]] = shape[axis]
        elif name in ("tensor.empty", "memref.alloc", "memref.alloca"):
            numbers = iter([self.number(each) for each in operands])
            typed = _typed(results[0]) or ()
            self.note(results[0], [size if size >= 0 else _or_open(next(numbers, None)) for size in typed])
        elif name in ("tensor.cast", "memref.cast"):
            self.note(results[0], self.shape(operands[0]))
        elif name == "linalg.fill":
            for result in results:
                self.note(result, self.shape(operands[-1]))

    def loop(self, operation: Any) -> None:
        """Note that what a loop carries keeps its shape."""
        arguments = [each for region in operation.regions[:1] if region.blocks for each in region.blocks[0].args]
        for value, inside, result in zip(operation.operands[3:], arguments[1:], operation.results, strict=False):
            self.note(inside, self.shape(value))
            self.note(result, self.shape(value))

    def advice(self) -> str:
        """Return how to give a size, in words; "" where no argument has an open one."""
        left = [word for word in dict.fromkeys(self._open) if word not in self._given]
        words = ", ".join(f'"{word}": 128' for word in left[:4])
        return f"; from_linalg(text, sizes={{{words}}}) gives it" if left else ""

    def refuse(self) -> None:
        """Raise InputError (PM641) for sizes that contradict the types or that nothing has."""
        for word in [each for each in self._given if each not in self._used]:
            found = ", ".join(list(dict.fromkeys(self._open))[:20]) or "none"
            hint = f"Dynamic sizes of arguments: {found}; an integer goes by its own name."
            self._mistakes.append(Mistake("PM641", f"no argument of a function has the size {shown(word)}", hint))
        if self._mistakes:
            raise InputError(self._mistakes)


def constant(value: Any) -> int | None:
    """Return the integer that a constant is; None for other values."""
    owner = owner_of(value)
    number = getattr(getattr(getattr(owner, "value", None), "value", None), "data", None)
    return number if getattr(owner, "name", "") == "arith.constant" and isinstance(number, int) else None


def owner_of(value: Any) -> Any:
    """Return what defines a value; None for the results of operations that xdsl could not read."""
    try:
        return value.owner
    except ValueError:
        return None


def _typed(value: Any) -> Shape | None:
    return tuple(max(-1, size) for size in value.type.get_shape()) if hasattr(value.type, "get_shape") else None


def _or_open(size: int | None) -> int:
    return -1 if size is None else size
