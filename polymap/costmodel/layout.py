"""Layouts: where the elements of a tensor lie in memory, one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from polymap.costmodel.contiguous import Ints
from polymap.costmodel.tuning import TUNING
from polymap.inputs import expected_text, shown
from polymap.ir import Mistake, OptionError

_LETTERS = "NCHW"  # the axes of an image in the order in which layers index them
_HINT = "Expected axes from slowest to fastest, such as '0 2 3 1', 'NHWC', or with blocks '0 1 2 3 1:8', 'NCHW8c'."


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of a tensor's axes, slowest first. Each part is (axis, block): block 0 is the axis itself, or the number
    of its blocks where it has a part with a block further in, which runs over the `block` elements of one.

    A last block that is not full is padded. padding: elements that lie unused after each row of the last part.
    swizzle: (bits, low, shift), of tiles in banks only: `bits` bits of an address from bit `low` on change by exclusive
    or with those `shift` above them.
    """

    parts: tuple[tuple[int, int], ...]
    padding: int = 0
    swizzle: tuple[int, int, int] | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return 1 + max((axis for axis, _ in self.parts), default=-1)

    def __str__(self) -> str:
        more = f" +{self.padding}" if self.padding else ""
        more += f" ^{','.join(map(str, self.swizzle))}" if self.swizzle else ""
        if self.rank == len(_LETTERS):
            words = (f"{block}{_LETTERS[axis].lower()}" if block else _LETTERS[axis] for axis, block in self.parts)
            return "".join(words) + more
        return " ".join(f"{axis}:{block}" if block else str(axis) for axis, block in self.parts) + more

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Return how many elements lie between neighbours along each part."""
        found, stride = [0] * len(self.parts), 1
        for number in range(len(self.parts) - 1, -1, -1):
            found[number] = stride
            stride = stride * self._size(number, shape) + (self.padding if number == len(self.parts) - 1 else 0)
        return found

    def elements(self, shape: Sequence[int]) -> int:
        """Return the elements of the tensor, padding included."""
        if not self.parts:
            return 1
        found = self.strides(shape)[0] * self._size(0, shape) + (self.padding if len(self.parts) == 1 else 0)
        whole = 1 << self.swizzle[0] + self.swizzle[1] if self.swizzle else 1
        return -(-found // whole) * whole

    def swizzled(self, addresses: Ints) -> Ints:
        """Return where the swizzle moves addresses in elements."""
        if self.swizzle is None:
            return addresses
        bits, low, shift = self.swizzle
        return addresses ^ ((addresses >> shift) & ((1 << bits) - 1 << low))

    def offsets(self, shape: Sequence[int], axis: int, indices: Ints) -> Ints:
        """Return what indices of one axis add to the address, in elements."""
        found = np.zeros(len(indices), np.int64)
        strides = self.strides(shape)
        block = dict(part for part in self.parts if part[1]).get(axis, 1)
        for number, (own, inner) in enumerate(self.parts):
            if own == axis:
                found += strides[number] * (indices % block if inner else indices // block)
        return found

    def _size(self, number: int, shape: Sequence[int]) -> int:
        axis, block = self.parts[number]
        if block:
            return block
        inner = dict(part for part in self.parts if part[1]).get(axis, 1)
        return -(-shape[axis] // inner)


def layout_of(text: str | Layout, rank: int, *, may_swizzle: bool = False) -> Layout:
    """Return the layout that a text says: numbers of axes from slowest to fastest ("0 2 3 1"), with blocks as
    "axis:size" ("0 1 2 3 1:8"), or for four axes letters ("NHWC", "NCHW8c"); then "+8" for the padding of rows and
    "^3,3,3" for the bits, the lowest and the shift of a swizzle.

    Raises OptionError (PM470) for any other text, for another number of axes than `rank`, and for a swizzle where none
    may be.
    """
    found = text if isinstance(text, Layout) else _parse_layout(expected_text(text, "a layout"))
    if found.swizzle and not may_swizzle:
        what = f"the layout {shown(str(found))} has a swizzle"
        raise OptionError(Mistake("PM470", what, "Swizzles are for tiles in banks: pm.layouts.bank_conflicts."))
    if sorted(axis for axis, block in found.parts if not block) != list(range(rank)):
        raise OptionError(Mistake("PM470", f"the layout {shown(str(found))} is not one of {rank} axes", _HINT))
    return found


def row_major(rank: int) -> Layout:
    """Return the layout in which the last axis is the fastest."""
    return Layout(tuple((axis, 0) for axis in range(rank)))


def candidates(rank: int, block: int) -> tuple[Layout, ...]:
    """Return the layouts that a tensor of so many axes is tried in. block: the elements of a burst or request.

    Of four axes NCHW, NHWC and, where a block has several elements, NCHW with blocks of channels; of up to three every
    order; of more, the last and the second axis as the fastest.
    """
    if rank == len(_LETTERS):
        blocked = (_parse_layout(f"NCHW{block}c"),) if block > 1 else ()
        return (_parse_layout("NCHW"), _parse_layout("NHWC"), *blocked)
    if rank <= TUNING.most_permuted:
        return tuple(Layout(tuple((axis, 0) for axis in order)) for order in permutations(range(rank)))
    second_last = (*(axis for axis in range(rank) if axis != 1), 1)
    return row_major(rank), Layout(tuple((axis, 0) for axis in second_last))


def _parse_layout(text: str) -> Layout:
    end = re.search(r"( \+(\d{1,9}))?( \^(\d),(\d{1,2}),(\d{1,2}))?$", text)
    assert end is not None, "both are optional"
    padding, swizzle = int(end[2] or 0), (int(end[4]), int(end[5]), int(end[6])) if end[3] else None
    if swizzle and not 0 < swizzle[0] <= swizzle[2]:
        raise OptionError(
            Mistake("PM470", f"there is no layout {shown(text)}", "A swizzle shifts by its bits or more.")
        )
    return replace(_parts_of(text[: end.start()], text), padding=padding, swizzle=swizzle)


def _parts_of(order: str, text: str) -> Layout:
    """Return the layout of an order of axes. text: what the user said."""
    words = order.split()
    if len(words) == 1 and re.fullmatch(r"[NCHW]{4}(\d+[nchw])*", order):
        parts: list[tuple[int, int | None]] = [(_LETTERS.index(letter), None) for letter in order[:4]]
        parts += [(_LETTERS.index(axis.upper()), int(size)) for size, axis in re.findall(r"(\d+)([nchw])", order[4:])]
    elif words and all(re.fullmatch(r"\d{1,3}(:\d{1,9})?", word) for word in words):
        pairs = [word.partition(":") for word in words]
        parts = [(int(axis), int(size) if colon else None) for axis, colon, size in pairs]
    else:
        raise OptionError(Mistake("PM470", f"there is no layout {shown(text)}", _HINT))
    if not _is_layout(parts):
        raise OptionError(Mistake("PM470", f"there is no layout {shown(text)}", _HINT))
    return Layout(tuple((axis, block or 0) for axis, block in parts))


def _is_layout(parts: Sequence[tuple[int, int | None]]) -> bool:
    """Return whether every axis stands once by itself, and at most once more, further in, with its block."""
    whole = [axis for axis, block in parts if block is None]
    blocked = [axis for axis, block in parts if block is not None]
    if len(set(whole)) != len(whole) or len(set(blocked)) != len(blocked) or not set(blocked) <= set(whole):
        return False
    return all(
        block is None or (block > 0 and (axis, None) in parts[:place]) for place, (axis, block) in enumerate(parts)
    )
