"""One long search in parts: what a short search leaves open is dealt out as questions, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from fractions import Fraction

from polymap.explore import explore
from polymap.inputs import answers_in_words, arch_to_document, as_integer, expected_method, shown
from polymap.ir import BudgetError, Mistake, OptionError
from polymap.networks.exploration import Document, Executor, plain_number, run_question
from polymap.networks.told import told_result
from polymap.networks.tuning import TUNING
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import (
    Options,
    SearchResult,
    mapping_document,
    open_document,
    open_from_document,
    open_structures_of,
)
from polymap.search.dividing import OpenStructures
from polymap.search.problem import parse_single
from polymap.workload import workload_to_document

_PROVEN = ("OPTIMAL", "INFEASIBLE")


@answers_in_words
def explore_in_parts(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    objective: str = "energy",
    *,
    executor: Executor,
    time_limit_s: float = 60,
    seed: int = 0,
    parts: int = 16,
    on_part: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Return what `explore(..., tiles="divide")` does for an objective of one value, searched in parts by an executor.

    A short search here begins. If it proves nothing, the structures that it leaves open are dealt out to `parts`
    questions (`run_question`: plain JSON), each of which looks for what costs less than what is known. After a round
    all hear of the best mapping, and what they leave is dealt out again, for twice as long. executor: anything with
    `submit`. time_limit_s: of the short search, and then of the rounds together, without waiting for the executor.
    on_part: called with (parts answered, parts) of a round. The answer is OPTIMAL where nothing is left; the value then
    depends on neither the executor nor the parts.
    Raises OptionError as `explore` does, WorkloadError for a workload that JSON cannot say, BudgetError (PM567) where
    the executor lost a worker.
    """
    workload, arch = question_of(workload, arch)
    parse_single(objective, arch)
    Options(objective, "divide", time_limit_s=time_limit_s, seed=seed).check()
    expected_method(executor, "submit", "the executor")
    expected_method(on_part, "__call__", "on_part")
    if (as_integer(parts) or 0) < 1:
        raise OptionError(Mistake("PM120", f"parts is {shown(parts)}", "Use an integer of at least 1."))
    begun = time.monotonic()
    short = min(TUNING.first_s, TUNING.first_share * time_limit_s)
    best = explore(workload, arch, objective, tiles="divide", time_limit_s=short, seed=seed)
    left = open_structures_of(best)
    if best.status in _PROVEN or left is None:  # else not even its structures are listed
        return best.resume(time_limit_s)
    base: Document = {"workload": workload_to_document(workload), "arch": arch_to_document(arch)}
    base |= {"objective": objective, "tiles": "divide", "seed": seed, "keeps_open": True, "counts_space": False}
    length, spent = TUNING.round_s, 0.0
    while best.status not in _PROVEN and spent < time_limit_s:
        length = min(length, time_limit_s - spent)
        start = {} if best.best is None else {"start": mapping_document(best.best)}
        shared = base | start | {"time_limit_s": length}
        dealt = _dealt(left, parts)
        answers = _answers(executor, [shared | {"open": open_document(part)} for part in dealt], on_part)
        best = _merged(best, dealt, [result for result, _ in answers], time.monotonic() - begun)
        left = _together(left, [_rest(part, *answer) for part, answer in zip(dealt, answers, strict=True)])
        length, spent = 2 * length, spent + length
    return replace(best, settings=replace(best.settings, time_limit_s=time_limit_s))


def _dealt(left: OpenStructures, parts: int) -> list[OpenStructures]:
    """Return what is left in parts, the entries dealt out by their bounds; as it is while some structures have none."""
    if left.bounded < left.listed:
        return [left]
    queue = sorted(left.queue)
    return [replace(left, queue=tuple(queue[number::parts])) for number in range(min(parts, len(queue)))]


def _rest(part: OpenStructures, result: SearchResult, left: OpenStructures | None) -> OpenStructures | None:
    """Return what an answer leaves of a part: nothing, if it is proven; all of it, if it does not say."""
    return None if result.status in _PROVEN else left or part


def _together(before: OpenStructures, parts: list[OpenStructures | None]) -> OpenStructures:
    """Return what all parts leave (None: nothing)."""
    rests = [part for part in parts if part is not None]
    queue = tuple(sorted(entry for part in rests for entry in part.queue))
    bounded = min((part.bounded for part in rests), default=before.listed)
    searched = {number for part in (before, *rests) for number in part.searched}
    refuted = {number for part in (before, *rests) for number in part.refuted}
    return OpenStructures(before.listed, bounded, queue, tuple(sorted(searched)), tuple(sorted(refuted)))


def _answers(
    executor: Executor, asked: list[Document], on_part: Callable[[int, int], None] | None
) -> list[tuple[SearchResult, OpenStructures | None]]:
    """Return the answers to all questions, and what each leaves."""
    found: list[tuple[SearchResult, OpenStructures | None]] = []
    try:
        for future in [executor.submit(run_question, question) for question in asked]:
            answer = dict(future.result())
            left = answer.pop("open", None)
            result = told_result(answer)
            found.append((result, None if left is None else open_from_document(left)))
            if on_part is not None:
                on_part(len(found), len(asked))
    except BrokenExecutor as error:
        what = f"a worker ended before its answer, after {len(found)} of {len(asked)} parts: {error}"
        raise BudgetError(Mistake("PM567", what, "Fewer workers need less memory.")) from None
    return found


def _merged(
    first: SearchResult, dealt: list[OpenStructures], answers: list[SearchResult], seconds: float
) -> SearchResult:
    """Return the best answer, with the bound of all. Structures that were dealt out in several entries count in each
    part."""
    best = min((each for each in (first, *answers) if each.value is not None), key=_value, default=first)
    told = list(zip(answers, (part.fates().count() for part in dealt), strict=True))
    space = replace(
        first.space,
        evaluated=first.space.evaluated + sum(one.space.evaluated - known.evaluated for one, known in told),
        pruned=first.space.pruned + sum(one.space.pruned - known.pruned for one, known in told),
        listed=None,
        infeasible=None,
    )
    work = first.work + sum(each.work for each in answers)
    found = replace(best, space=space, seconds=seconds, work=work, settings=first.settings, again=None)
    proven = all(each.status in _PROVEN for each in answers)
    if best.value is None:
        return replace(found, status="INFEASIBLE" if proven else "TIMEOUT", bound=None)
    if proven:
        return replace(found, status="OPTIMAL", bound=best.value, gap=0.0)
    open_parts = [Fraction(each.bound or 0) for each in answers if each.status not in _PROVEN]
    least = min(_value(best), max(Fraction(first.bound or 0), min(open_parts)))
    gap = float((_value(best) - least) / _value(best)) if best.value else 0.0
    return replace(found, status="FEASIBLE", bound=plain_number(least), gap=gap)


def _value(result: SearchResult) -> Fraction:
    return Fraction(result.value or 0)
