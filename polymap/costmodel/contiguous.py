"""How many aligned blocks of memory sets of addresses touch, in closed form.

Between neighbouring addresses a < b of a set a new block begins where a mod B + (b - a) >= B, whatever lies in between.
In a sum of sets of offsets (one per axis of a tensor), the neighbours that differ first in one axis have the gaps of
that axis, and end where all inner axes are at their last offset: so histograms over residues mod B, added up axis by
axis, count every tile that a set of starts places anywhere, without a walk over elements or tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from math import lcm, prod

import numpy as np

from polymap.costmodel.tuning import TUNING
from polymap.ir import BudgetError, Mistake

Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Offsets = Sequence[Ints]  # one array per part, rising and without repetition: a set is every sum of one of each


@dataclass(frozen=True, slots=True)
class Blocks:
    """Aligned blocks of `size` elements. of_runs: a gap in the addresses begins a new one (requests, beats); else
    whatever lies in one block is moved by it (bursts). of_rows: runs end with their rows, even where the next one lies
    right behind."""

    size: int
    of_runs: bool
    of_rows: bool = False


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands that move up to `size` units of a run each, from its beginning on; an element is so many units.

    beat: the units of a bus; request: of what is asked for (None: whole commands). in_powers: each request moves the
    least aligned beat, two, four, ... beats that hold what is asked for.
    """

    units: int
    beat: int
    request: int | None
    size: int
    in_powers: bool

    def taken(self, first: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return the beats and requests of commands from these addresses to those (not included)."""
        if self.request is None:
            return self._beats(first, end), np.ones_like(first)
        block, head = self.request, first // self.request
        requests = (end - 1) // block - head + 1
        if not self.in_powers:
            return self._beats(first, end), requests
        inside = np.minimum(end, (head + 1) * block)
        rest = (requests > 1) * ((end - 1) % block + 1)  # in the last of several
        between = np.maximum(requests - 2, 0) * (block // self.beat)
        return self._powers(first % block, inside - head * block) + between + self._powers(0 * rest, rest), requests

    def _beats(self, first: Ints, end: Ints) -> Ints:
        return (end - 1) // self.beat - first // self.beat + 1

    def _powers(self, first: Ints, end: Ints) -> Ints:
        """Return the beats of the least aligned power of two of them that holds a range of one request; 0 of none."""
        first, last, beats = first // self.beat, (end - 1) // self.beat, np.ones_like(end)
        while (apart := first < last).any():
            first, last, beats = first // 2, last // 2, beats << apart
        return beats * (end > 0)


def contiguous_runs(parts: Offsets) -> int:
    """Return the contiguous runs of the set."""
    pairs = Blocks(2, of_runs=True)  # of any size above one: only gaps begin runs
    return 1 + _gaps(parts, pairs)[1]


def count_blocks(parts: Offsets, starts: Sequence[Ints], blocks: Blocks, base: int = 0) -> int:
    """Return how many blocks the set touches, added up over all places: the base and every sum of one start of each
    array."""
    if not all(map(len, (*parts, *starts))):
        return 0
    if blocks.size > TUNING.convolved:
        blocks, base = _small_blocks(blocks, base, (*parts, *starts))
    near, new = _gaps(parts, blocks)
    total = prod(len(each) for each in starts) * (1 + new)
    if not near:
        return total
    times, places = _places(starts, base, blocks.size)
    return total + times * sum(
        int(_add_residues(ends, places)[blocks.size - gap :].sum()) for gap, ends in near.items()
    )


def _small_blocks(blocks: Blocks, base: int, sums: Offsets) -> tuple[Blocks, int]:
    """Return blocks with a base that are touched alike by all sums of one of each, and are hardly larger than these."""
    least = sum(int(each.min()) for each in sums)
    span = sum(int(each.max()) for each in sums) - least
    first = (base + least) % blocks.size
    size = min(blocks.size, span + 2)  # at most one border lies inside of a larger block
    return replace(blocks, size=size), (max(size - (blocks.size - first), 0) if size < blocks.size else first) - least


def count_commands(row: Ints, starts: Sequence[Ints], commands: Commands, base: int = 0) -> tuple[int, int]:
    """Return how many beats and requests the runs of a row take, added up over all places as `touched` does."""
    period, taken = _commanded_at(row.tobytes(), commands)
    times, places = _places([at * commands.units for at in starts] if commands.units > 1 else starts, base, period)
    return times * int(places @ taken[0]), times * int(places @ taken[1])


def least_commanded(
    rows: Sequence[tuple[Ints, Ints]], others: Sequence[Sequence[Ints]], commands: Commands, base: int = 0
) -> tuple[Fraction, Fraction]:
    """Return the beats and requests that an element takes at least, in the mean over all tiles of one cut of a tensor.

    rows: per cut of the last axis the offsets of a tile and where tiles begin; others: per further axis and cut of it
    the addresses of the rows of all tiles.
    """
    period = _period(commands)
    cuts: list[list[Ints]] = []
    for axis in others:
        told = (_histogram(at * commands.units, period) for at in axis)
        cuts.append(list({tuple(each): each for each in (own // np.gcd.reduce(own) for own in told)}.values()))
    begins = [reduce(_add_residues, each, _histogram(np.array([base]), period)) for each in product(*cuts)]
    found: list[tuple[Fraction, Fraction]] = []
    for row, starts in rows:
        taken = _commanded_at(row.tobytes(), commands)[1]
        own = _histogram(starts * commands.units, period)
        for places in (_add_residues(own, each) for each in begins):
            many = int(places.sum()) * len(row)
            found.append((Fraction(int(places @ taken[0]), many), Fraction(int(places @ taken[1]), many)))
    return min(beats for beats, _ in found), min(requests for _, requests in found)


def _period(commands: Commands) -> int:
    """Return after how many units what commands take is the same."""
    return lcm(commands.beat, commands.request or 1)


@lru_cache(maxsize=256)
def _commanded_at(offsets: bytes, commands: Commands) -> tuple[int, tuple[Ints, Ints]]:
    """Return a period of addresses, and the beats and requests that the runs of a row take, by where in it offset 0
    lies."""
    row, period, each, size = np.frombuffer(offsets, np.int64), _period(commands), commands.units, commands.size
    cut: dict[int, list[Ints]] = {}
    for run in np.split(row, np.flatnonzero(np.diff(row) > 1) + 1):
        first, length = int(run[0]) * each, len(run) * each
        cut.setdefault(size, []).append(first + size * np.arange(length // size))
        cut.setdefault(length % size, []).append(np.array([first + length - length % size]))
    beats = requests = np.zeros(period, np.int64)
    for length, firsts in cut.items():
        if length:
            before = _histogram(-np.concatenate(firsts), period)
            taken = commands.taken(np.arange(period), np.arange(period) + length)
            beats, requests = beats + _add_residues(before, taken[0]), requests + _add_residues(before, taken[1])
    return period, (beats, requests)


def unite_parts(parts: Offsets) -> Ints:
    """Return the elements of a sum of sets, rising and once each."""
    found = np.zeros(1, np.int64)
    for part in parts:
        found = (found[:, None] + part[None, :]).reshape(-1)
    return distinct(found)


def distinct(values: Ints) -> Ints:
    """Return the numbers, rising and once each: np.unique takes three to fourteen times as long."""
    found = np.sort(values, axis=None)
    is_first = np.ones(len(found), bool)
    is_first[1:] = found[1:] != found[:-1]
    return found[is_first]


def _gaps(parts: Offsets, blocks: Blocks) -> tuple[dict[int, Ints], int]:
    """Return `_gaps_of_sums`; where parts interleave, of what they are sums of (an axis in blocks: of its blocks and of
    one of them), at last of all elements."""
    if all(len(part) <= TUNING.convolved for part in parts) and blocks.size <= TUNING.convolved:
        return _gaps_again(tuple(part.tobytes() for part in parts), blocks)
    return _gaps_anew(parts, blocks)


@lru_cache(maxsize=4096)
def _gaps_again(parts: tuple[bytes, ...], blocks: Blocks) -> tuple[dict[int, Ints], int]:
    """Return `_gaps` of short parts."""
    return _gaps_anew([np.frombuffer(part, np.int64) for part in parts], blocks)


def _gaps_anew(parts: Offsets, blocks: Blocks) -> tuple[dict[int, Ints], int]:
    found = _gaps_of_sums(parts, blocks)
    if found is None:
        found = _gaps_of_sums([each for part in parts for each in _summands(part)], blocks)
    if found is None:
        found = _gaps_of_sums((unite_parts(parts),), blocks)
    assert found is not None, "the offsets of one part rise"
    return found


def _summands(part: Ints) -> Offsets:
    """Return two sets whose sum a set is, the first up to the first gap that differs; or the set alone."""
    gaps = np.diff(part)
    many = 1 + int((gaps != gaps[:1]).argmax()) if len(part) > 1 else 1
    if len(part) % many:
        return (part,)
    rows = part.reshape(-1, many)
    starts = rows[:, 0]
    return (rows[0], starts - part[0]) if (rows - starts[:, None] == rows[0] - part[0]).all() else (part,)


def _gaps_of_sums(parts: Offsets, blocks: Blocks) -> tuple[dict[int, Ints], int] | None:
    """Return the gaps below a block, each with the residues of the addresses before it, and the number of the others;
    None where the parts interleave, so that neighbours differ in several."""
    most = min(1, blocks.size - 1) if blocks.of_runs else blocks.size - 1
    near: dict[int, Ints] = {}
    new = first = last = 0
    for part in sorted((each for each in parts if len(each) > 1), key=lambda each: int(np.diff(each).min())):
        gaps = np.diff(part) + (first - last)
        if gaps.min() <= 0:
            return None
        residues = _histogram(part, blocks.size)
        near = {gap: _add_residues(ends, residues) for gap, ends in near.items()}
        new = new * len(part) + int((gaps > most).sum())
        for gap in distinct(gaps[gaps <= most]).tolist():
            ends = _histogram(part[:-1][gaps == gap] + last, blocks.size)
            near[gap] = near[gap] + ends if gap in near else ends
        first, last = first + int(part[0]), last + int(part[-1])
    base = sum(int(each[0]) for each in parts if len(each) == 1)
    return {gap: _shift_residues(ends, base) for gap, ends in near.items()}, new


def _places(starts: Sequence[Ints], base: int, size: int) -> tuple[int, Ints]:
    """Return how many sums of the base and one start of each array lie at each residue: so many times these."""
    times, found = 1, None
    for each in starts:
        residue, own = _residues(each, size)
        if own is None:  # all of them only shift the others
            base, times = base + residue, times * len(each)
        else:
            found = own if found is None else _add_residues(found, own)
    if found is None:
        found = np.zeros(size, np.int64)
        found[:1] = 1
    return times, _shift_residues(found, base)


def _shift_residues(residues: Ints, by: int) -> Ints:
    """Return the residues of numbers that are larger by so much."""
    first = len(residues) - by % len(residues)
    return np.concatenate((residues[first:], residues[:first]))


def _residues(values: Ints, size: int) -> tuple[int, Ints | None]:
    """Return the one residue of all values, or how many there are of each (then the residue is that of the first)."""
    if len(values) == 1:
        return int(values[0]) % size, None
    if max(len(values), size) <= TUNING.convolved:
        return _residues_again(values.tobytes(), size)
    return _residues_anew(values, size)


@lru_cache(maxsize=4096)
def _residues_again(values: bytes, size: int) -> tuple[int, Ints | None]:
    """Return `_residues` of few values."""
    return _residues_anew(np.frombuffer(values, np.int64), size)


def _residues_anew(values: Ints, size: int) -> tuple[int, Ints | None]:
    told, first = _histogram(values, size), int(values[0]) % size
    return first, None if told[first] == len(values) else told


def _histogram(values: Ints, size: int) -> Ints:
    return np.bincount(values % size, minlength=size)


def _add_residues(one: Ints, other: Ints) -> Ints:
    """Return the residues of all sums of one number of each."""
    size = len(one)
    if size <= TUNING.convolved:
        sums = np.convolve(one, other)
        sums[: size - 1] += sums[size:]
        return sums[:size]
    few, many = (one, other) if np.count_nonzero(one) <= np.count_nonzero(other) else (other, one)
    twice, total = np.concatenate((many, many)), np.zeros_like(many)
    for residue in np.flatnonzero(few).tolist():
        total += few[residue] * twice[size - residue : 2 * size - residue]
    return total


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one form. parts: the form, as offsets; starts: where it lies, every sum of one of each array; times:
    how often each of these is sent; row: the part along the last axis (None: there is none by itself)."""

    parts: Offsets
    starts: tuple[Ints, ...]
    times: int
    row: int | None = None

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.times * prod(len(each) for each in self.starts)

    @property
    def elements(self) -> int:
        """The elements of all of them."""
        return self.count * prod(len(part) for part in self.parts)

    def blocks(self, blocks: Blocks, base: int = 0) -> int:
        """Return the blocks that all of them touch. base: the address of the tensor's first element."""
        rows = self.rows() if blocks.of_rows else self
        return self.times * count_blocks(rows.parts, rows.starts, blocks, base)

    def rows(self) -> Messages:
        """Return each row as a message of its own. Raises BudgetError (PM472) where the form is no product of rows."""
        if not self.parts:
            return self
        if self.row is None:
            what = "rows are not counted: tiles are new in several axes, or the last one shares a dim with others"
            hint = "Rows are counted where tiles are loaded whole (keeps: false), or new in one axis at a time."
            raise BudgetError(Mistake("PM472", what, hint))
        others = (part for place, part in enumerate(self.parts) if place != self.row)
        return Messages((self.parts[self.row],), (*self.starts, *others), self.times, 0)


@dataclass(frozen=True, slots=True)
class SentMessages:
    """The messages of all steps that the advance of a loop begins, each as if it were sent once."""

    messages: tuple[Messages, ...]
    _totals: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _commanded: dict[Hashable, tuple[int, int]] = field(default_factory=dict[Hashable, tuple[int, int]])

    def times(self, times: int) -> list[Messages]:
        """Return the messages, each sent so often."""
        return [replace(each, times=times) for each in self.messages if times]

    def elements(self) -> int:
        """Return the elements of all of them."""
        return self._total(("elements",), lambda: sum(each.elements for each in self.messages))

    def runs(self, *, of_rows: bool) -> int:
        """Return the contiguous runs of addresses in all of them. of_rows: each ends with its row."""
        rows = self.messages if not of_rows else [each.rows() for each in self.messages]
        return self._total(("runs", of_rows), lambda: sum(each.count * contiguous_runs(each.parts) for each in rows))

    def blocks(self, blocks: Blocks, base: int = 0) -> int:
        """Return the blocks that all of them touch. base: the address of the tensor's first element."""
        return self._total((blocks, base), lambda: sum(each.blocks(blocks, base) for each in self.messages))

    def commanded(self, commands: Commands, base: int) -> tuple[int, int]:
        """Return the beats and requests of all of them, row by row. base: the address of the first element."""
        if (commands, base) not in self._commanded:
            rows = [each.rows() for each in self.messages]
            found = [count_commands((*own.parts, np.zeros(1, np.int64))[0], own.starts, commands, base) for own in rows]
            beats, requests = (sum(own.times * each[n] for own, each in zip(rows, found, strict=True)) for n in (0, 1))
            self._commanded[commands, base] = beats, requests
        return self._commanded[commands, base]

    def _total(self, what: Hashable, count: Callable[[], int]) -> int:
        if what not in self._totals:
            self._totals[what] = count()
        return self._totals[what]
