"""One long search in parts: the space is cut by spatial factors, and each part is a question for an executor."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import product

from polymap.arch import arch_to_document
from polymap.asked import question_of
from polymap.explore import explore
from polymap.inputs import as_integer, expected_method, parse_json, shown
from polymap.ir import Architecture, BudgetError, Mistake, OptionError, Workload
from polymap.networks.exploration import Document, Executor, run_question
from polymap.report.text import mapping_document, result_from_document
from polymap.search.problem import divisors, parse_single
from polymap.search.run import Options, SearchResult
from polymap.workload import workload_to_document

_FIRST_SHARE = 0.1  # of the limit: what is known before parts are asked helps all of them
_FIRST_S = 5.0
_PROVEN = ("OPTIMAL", "INFEASIBLE")
Cut = dict[str, dict[str, int]]  # fan-out -> dim -> instances


def explore_in_parts(
    workload: Workload | str,
    arch: Architecture | str,
    objective: str = "energy",
    *,
    executor: Executor,
    time_limit_s: float = 60,
    seed: int = 0,
    parts: int = 16,
    on_part: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Return what `explore(..., tiles="divide")` does for an objective of one value, searched in parts by an executor.

    A short search here begins. If it proves nothing, the space is cut into at least `parts` parts, where the machine
    allows it, by how many instances of fan-outs some dims are spread over; each is a question (`run_question`: plain
    JSON) that looks for what costs less than what is known. executor: anything with `submit`. time_limit_s: of each
    part. on_part: called with (parts answered, parts). The answer is OPTIMAL where every part is proven, and its bound
    the least of the parts'; the value then depends on neither the executor nor the parts.
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
    short = min(_FIRST_S, _FIRST_SHARE * time_limit_s)
    first = explore(workload, arch, objective, tiles="divide", time_limit_s=short, seed=seed)
    cuts = _cuts(workload, arch, parts)
    if first.status in _PROVEN or len(cuts) < 2:
        return first
    base: Document = {"workload": workload_to_document(workload), "arch": arch_to_document(arch)}
    base |= {"objective": objective, "tiles": "divide", "seed": seed, "time_limit_s": time_limit_s}
    base |= {} if first.best is None else {"to_beat": mapping_document(first.best)}
    asked = [base | {"constraints": {"fanouts": {name: {"factors": cut[name]} for name in cut}}} for cut in cuts]
    return _merged(first, _answers(executor, asked, on_part), time.monotonic() - begun)


def _answers(
    executor: Executor, asked: list[Document], on_part: Callable[[int, int], None] | None
) -> list[SearchResult]:
    found: list[SearchResult] = []
    try:
        for future in [executor.submit(run_question, question) for question in asked]:
            found.append(result_from_document(parse_json(json.dumps(future.result()), "the answer")))
            if on_part is not None:
                on_part(len(found), len(asked))
    except BrokenExecutor as error:
        what = f"a worker ended before its answer, after {len(found)} of {len(asked)} parts: {error}"
        raise BudgetError(Mistake("PM567", what, "Fewer workers need less memory.")) from None
    return found


def _cuts(workload: Workload, arch: Architecture, parts: int) -> list[Cut]:
    """Return the parts: every combination of counts for as few pairs of fan-out and dim as make enough of them."""
    choices: list[tuple[str, str, list[int]]] = []
    for fanout in arch.fanouts:
        for dim in workload.dims:
            counts = [n for n in divisors(dim.extent) if n <= fanout.size] if fanout.may_spread(dim.name) else [1]
            if len(counts) > 1:
                choices.append((fanout.name, dim.name, counts))
    choices.sort(key=lambda choice: -len(choice[2]))  # stable: fan-outs outermost first, dims in order
    used: list[tuple[str, str, list[int]]] = []
    for choice in choices:
        if math.prod(len(each[2]) for each in used) >= parts:
            break
        used.append(choice)
    sizes = {fanout.name: fanout.size for fanout in arch.fanouts}
    found: list[Cut] = []
    for counts in product(*(each[2] for each in used)):
        cut: Cut = {}
        for (fanout, dim, _), count in zip(used, counts, strict=True):
            cut.setdefault(fanout, {})[dim] = count
        if all(math.prod(factors.values()) <= sizes[fanout] for fanout, factors in cut.items()):
            found.append(cut)
    return found


def _merged(first: SearchResult, answers: list[SearchResult], seconds: float) -> SearchResult:
    """Return the best answer, with the bound of all."""
    best = min((each for each in (first, *answers) if each.value is not None), key=_value, default=first)
    space = replace(
        first.space,
        evaluated=first.space.evaluated + sum(each.space.evaluated for each in answers),
        pruned=first.space.pruned + sum(each.space.pruned for each in answers),
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
    return replace(found, status="FEASIBLE", bound=_plain(least), gap=gap)


def _value(result: SearchResult) -> Fraction:
    return Fraction(result.value or 0)


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
