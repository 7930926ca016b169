"""Deliberate mistakes in the closed form are caught by a hundred random cases: the tests can fail.

Each mistake replaces one piece of source text; the closed form is loaded again with it, beside the true one, and must
then differ from the simulator, fail, or no longer answer where it did.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from polymap.costmodel.closed_form import counts as closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from tests.case_chains import chain_case, output_window_case, returning_case, tower_case, transposed_case
from tests.cases import Case, random_case

Count = Callable[[Workload, Architecture, Mapping], Counts | None]

FACES = ("polymap.poly",)  # loaded anew, so that they give the modules with the mistake
# In an order in which each imports only from those before it.
MODULES = (
    "polymap.poly.progression",
    "polymap.costmodel.closed_form.groups",
    "polymap.costmodel.closed_form.nest",
    "polymap.costmodel.closed_form.accounting",
    "polymap.costmodel.closed_form.dividing_tiles",
    "polymap.costmodel.closed_form.digits",
    "polymap.costmodel.closed_form.window_tables",
    "polymap.costmodel.closed_form.carries",
    "polymap.costmodel.closed_form.window_sums",
    "polymap.costmodel.closed_form.partial_tiles",
    "polymap.costmodel.closed_form.busiest",
    "polymap.costmodel.closed_form.counts",
)
ROOT = Path(__file__).parents[2]
# Those behind a range: what some of the mistakes need.
DRAWN: tuple[tuple[Callable[[random.Random], Case], tuple[int, ...]], ...] = (
    (random_case, (*range(40), 55, 66, 67, 116, 120, 132, 155, 191, 194, 212, 319, 443, 462, 484, 525, 2495, 7682)),
    (chain_case, (*range(20), 484, 730)),
    (tower_case, (*range(10), 91)),
    (output_window_case, (*range(15), 113, 480)),
    (transposed_case, (*range(10), 1059)),
)


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    module: str
    right: str
    wrong: str


BUGS = (
    Bug("progressions merge across a gap", "progression", "stride <= small * many", "stride <= small * (many + 1)"),
    Bug("interleaving progressions count as apart", "progression", "if stride <= span:", "if stride < 0:"),
    Bug("an overlap counts too many pairs", "progression", " - max(0, difference)\n", "\n"),
    Bug(
        "an overlap forgets the outer digit",
        "progression",
        "{-(-(shift - span) // stride), (shift + span) // stride}",
        "{0}",
    ),
    Bug(
        "a union forgets to move residues",
        "progression",
        "divmod(residue + shift, shape.modulus)",
        "divmod(residue, shape.modulus)",
    ),
    Bug("a difference is the whole", "progression", "_without(first[r], second.get(r, []))", "first[r]"),
    Bug("axes are not told apart", "groups", "rows[other] = [a - factor * b", "rows[other] = [a + factor * b"),
    Bug("coefficients lose their sign", "groups", "int(value * scale)", "abs(int(value * scale))"),
    Bug(
        "a storage node in place of the loop above it",
        "nest",
        "Node(level, position, fans)",
        "Node(level, position - 1, fans)",
    ),
    Bug("nearly dividing tiles divide", "nest", "enclosing % tile == 0", "enclosing % tile <= 1"),
    Bug(
        "a window slides the other way",
        "dividing_tiles",
        "shifts[window] + loop.tile * factor",
        "shifts[window] - loop.tile * factor",
    ),
    Bug("a window wraps too far", "dividing_tiles", "loop.tile * factor * further", "loop.tile * factor * loop.trips"),
    Bug(
        "a relevant loop changes nothing",
        "dividing_tiles",
        "            break  # from here",
        "            continue  # from here",
    ),
    Bug(
        "no multicast counts as multicast",
        "dividing_tiles",
        "            if machine.repeats[fanout]:\n                copies = copies * trips\n        united",
        "            copies = copies * 1\n        united",
    ),
    Bug(
        "union siblings read apart",
        "dividing_tiles",
        "together.append((stride, trips))",
        "alike.append((stride, trips))",
    ),
    Bug(
        "adders where there are none",
        "dividing_tiles",
        "            if not adds[fanout]:\n",
        "            if adds[fanout]:\n",
    ),
    Bug(
        "every sibling takes the partial sum",
        "accounting",
        "(event * parent.instances,",
        "(node.entries * node.instances,",
    ),
    Bug(
        "the busiest takes no partial sums",
        "accounting",
        "moves_of_target(node.served, first_fills,",
        "moves_of_target(node.served, 0,",
    ),
    Bug(
        "initial values are not read",
        "accounting",
        "arrivals - residencies + fills",
        "arrivals - residencies",
    ),
    Bug(
        "the compute unit reads in one step only",
        "dividing_tiles",
        "copies * self._tensor.reads * view.steps",
        "copies * self._tensor.reads",
    ),
    Bug(
        "the last tile is forgotten",
        "digits",
        "        if rest:\n            whole += 1",
        "        if rest:\n            whole += 0",
    ),
    Bug("an instance's end ignores its own place", "digits", "        need += tile * digit\n", ""),
    Bug(
        "an idle instance loses what it has",
        "digits",
        "(branches[0][0] - need if counted is CountedSteps.OWN else length)",
        "length",
    ),
    Bug(
        "an idle instance keeps partial sums",
        "digits",
        "(branches[0][0] - need if counted is CountedSteps.OWN else length)",
        "branches[0][0] - need",
    ),
    Bug(
        "lower siblings are not part of the tile",
        "digits",
        "below[tile] = below.get(tile, 0) + whole * many",
        "below[tile] = below.get(tile, 0) + many",
    ),
    Bug(
        "partial siblings work everywhere",
        "digits",
        "return places(inside, cut, rest) if rest > 0 else 0",
        "return places(inside, cut, max(1, rest))",
    ),
    Bug(
        "the machine's last step is the first", "digits", "        last = -(-clock // tile) - 1\n", "        last = 0\n"
    ),
    Bug(
        "predecessors are like their successors",
        "digits",
        "edges |= {length // tile + 1, -(-length // tile) + 1}",
        "edges |= {1}",
    ),
    Bug(
        "who stops and who starts",
        "carries",
        "return all(before > 0 for now, before in tracks if now > 0)",
        "return all(now > 0 for now, before in tracks if before > 0)",
    ),
    Bug(
        "a carry moves every place",
        "partial_tiles",
        "return places(chain, cut + 1, extent) - found if moving",
        "return places(chain, cut + 1, extent) if moving",
    ),
    Bug(
        "a carry further out keeps singles",
        "carries",
        "self._factors.kept(extent, chain, outside, self._counted)",
        "self._factors.kept(extent, chain, len(chain), self._counted)",
    ),
    Bug("multicast where there is none", "carries", "Part.EACH if machine.repeats[fanout] else united", "united"),
    Bug(
        "union taken for identical", "carries", "Part.UNITED if machine.unites[fanout] else Part.MERGED", "Part.MERGED"
    ),
    Bug(
        "adders everywhere", "carries", "merged = siblings is Siblings.MERGED or machine.adds[fanout]", "merged = True"
    ),
    Bug(
        "spread tiles lose their outer digits",
        "carries",
        "        if part is not Part.FREE:\n            last = len(links)",
        "        if part is Part.TIME or part is Part.EACH:\n            last = last if links[last:-1] else len(links)",
    ),
    Bug("a window rises the wrong way", "window_sums", "rise + (now - before) * tile", "rise + (before - now) * tile"),
    Bug(
        "a window's end ignores the instance's place",
        "window_sums",
        "(pieces[0].before - need - 1) // tile",
        "(pieces[0].before - 1) // tile",
    ),
    Bug("pieces are not spread", "window_sums", "piece.base + digit * tile, steps", "piece.base, steps"),
    Bug("siblings stand at one place", "window_sums", "bases[part] += first * tile", "bases[part] += 0"),
    Bug(
        "what was before is what is",
        "window_sums",
        "length = piece.before if before else piece.now",
        "length = piece.now",
    ),
    Bug("equal tiles count once per kind", "window_sums", "if _are_equal_keys(other, key):", "if False:"),
    Bug("a new part is not read", "window_sums", '"new", load.at(load.new))', '"kept", load.at(load.new))'),
    Bug(
        "parts of two windows count like one", "window_sums", "        if sum(parts) > 1:", "        if sum(parts) > 9:"
    ),
    Bug(
        "siblings of two kinds are taken for one",
        "window_sums",
        'tile = "whole" if load.is_whole else "kept" if load.new is None else "part"',
        'tile = "whole" if found[0].is_whole else "kept" if found[0].new is None else "part"',
    ),
    Bug(
        "a step is skipped where one sibling keeps nothing",
        "window_sums",
        "if all(load.is_whole for load in found):",
        "if any(load.is_whole for load in found):",
    ),
    Bug(
        "a tile that another sibling keeps counts twice",
        "window_sums",
        "split.append((names | {name}, both))",
        "split += [(names, both), (frozenset((name,)), both)]",
    ),
    Bug(
        "entries count drains twice",
        "accounting",
        "counts.events(tensor, parent, node)",
        "counts.entries(tensor, parent, node)",
    ),
    Bug(
        "every entry finds a partial sum",
        "accounting",
        " - counts.silent_events(tensor, parent, node)",
        "",
    ),
    Bug(
        "a stay begins with nothing", "accounting", "return events - residencies + above", "return events - residencies"
    ),
    Bug(
        "an arrival in the same step is forgotten",
        "partial_tiles",
        "for step_filter in (none_stops, none_moves)",
        "for step_filter in (always, none_moves)",
    ),
    Bug(
        "siblings do not start inside a carry",
        "carries",
        "self._inside(dim, carry, outside)[:-1]",
        "self._inside(dim, carry, outside)[:-2]",
    ),
    Bug(
        "the first change tells what came last",
        "carries",
        "outer = sum(loop.position < place",
        "outer = sum(loop.position > place",
    ),
    Bug("2p + q with q < 3 tells both", "groups", "        if factor <= span:\n", "        if factor < span:\n"),
    Bug(
        "the first instance takes its share of windows",
        "busiest",
        "if tensor.written and number and counter.is_lopsided(tensor, nodes[number]):",
        "if number < 0:",
    ),
    Bug(
        "what came before a visit is forgotten",
        "partial_tiles",
        "return found + unchanged - held",
        "return found + unchanged",
    ),
    Bug("a visit begins further in", "carries", "if visit.position <= carry", "if visit.position > carry"),
    Bug(
        "a visit may begin at digit 0",
        "window_tables",
        "is_first &= self._digits[since, outer] > 0",
        "is_first &= True",
    ),
    Bug("what a visit began with brings nothing", "busiest", "columns[2] = dropped", "columns[2] = False"),
    Bug("windows step without their outer loops", "window_tables", "inner = outside + moved", "inner = outside"),
    Bug("siblings of a window are one", "window_tables", "among * trips + digit", "among * 0"),
    Bug(
        "the largest tile is a full one",
        "partial_tiles",
        "return sum(length * many for length, many in branches)",
        "return max(length * many for length, many in branches)",
    ),
    Bug(
        "the first instance is always the busiest",
        "busiest",
        "every if may_exceed else (range(1),)",
        "(range(1),)",
    ),
    Bug("those that come back find nothing", "partial_tiles", " - self.late_events(tensor, parent, node, pins)", ""),
    Bug("siblings of a kind take what the first does", "busiest", ".stop) for loop in", ".start + 1) for loop in"),
    Bug(
        "stays above bring partial sums of their own",
        "busiest",
        "fills_of_target(events, self._entries(number - 1, parent, Siblings.APART), total)",
        "events + total",
    ),
    Bug(
        "the first sibling that enters differs anywhere",
        "busiest",
        "taker, latest = ranks.argmax(axis=0)",
        "taker, latest = ranks.argmin(axis=0)",
    ),
    Bug(
        "every entry of a share brings something",
        "busiest",
        "counts = enters & (stops | ~started",
        "counts = enters | (stops & ~started",
    ),
    Bug("the outermost level has a peak", "counts", " if row.level else 0\n", "\n"),
    Bug(
        "spatial loops take time",
        "counts",
        "for loop in nest.loops if loop.fanout == TEMPORAL",
        "for loop in nest.loops",
    ),
)


@lru_cache(maxsize=1)
def cases() -> tuple[tuple[Case, Counts, bool], ...]:
    """Return cases, what the simulator counts, and whether the closed form answers."""
    found: list[tuple[Case, Counts, bool]] = []
    every = ((seed, draw) for draw, seeds in DRAWN for seed in seeds)
    # Those that some of the mistakes need come first: nearly all mistakes are seen there.
    drawn = [draw(random.Random(seed)) for seed, draw in sorted(every, key=lambda one: one[0] < 40)]
    for case in (returning_case((3, 4, 2, 2)), *drawn):
        answer = closed_form.count_closed_form(case.workload, case.arch, case.mapping)
        found.append((case, count_by_simulation(case.workload, case.arch, case.mapping), answer is not None))
    return tuple(found)


def home_of(module: str) -> str:
    (name,) = [name for name in MODULES if name.rpartition(".")[2] == module]
    return name


@cache
def source(name: str) -> str:
    return ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")


@cache
def compiled(name: str) -> CodeType:
    return compile(source(name), f"{name}.py", "exec", dont_inherit=True)


@contextmanager
def loaded_with(bug: Bug) -> Generator[Count, None, None]:
    """Give the closed form with one mistake in it; the modules of the process stay as they are."""
    kept = {name: sys.modules.pop(name) for name in (*FACES, *MODULES) if name in sys.modules}
    try:
        for name in MODULES:
            fresh = ModuleType(name)
            sys.modules[name] = fresh
            text = source(name).replace(bug.right, bug.wrong)
            is_meant = name == home_of(bug.module)
            code = compile(text, f"{name}.py", "exec", dont_inherit=True) if is_meant else compiled(name)
            exec(code, fresh.__dict__)
        yield sys.modules[closed_form.__name__].__dict__["count_closed_form"]
    finally:
        for name in (*FACES, *MODULES):
            sys.modules.pop(name, None)
        sys.modules.update(kept)


def is_caught(count: Count) -> bool:
    for case, truth, answered in cases():
        try:
            counts = count(case.workload, case.arch, case.mapping)
        except Exception:  # noqa: BLE001 - whatever a mistake leads to
            return True
        if counts != truth and (answered or counts is not None):
            return True
    return False


@pytest.mark.slow
def test_the_true_closed_form_passes() -> None:
    with loaded_with(Bug("none", "accounting", "", "")) as count:
        assert not is_caught(count)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
@pytest.mark.slow
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert source(home_of(bug.module)).count(bug.right) >= 1, (
        "the text that the bug replaces is gone: write the bug anew"
    )
    with loaded_with(bug) as count:
        assert is_caught(count)
