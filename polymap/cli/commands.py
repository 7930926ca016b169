"""The commands: read the inputs, call one function, give its answer as text or JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from polymap.cli.arguments import Options
from polymap.cli.completion import completion_text
from polymap.cli.exit_codes import ExitCode
from polymap.cli.interrupt import INTERRUPTED, interrupts_wait
from polymap.cli.named_inputs import Inputs, check_outputs, names_network, preprocessed_text
from polymap.cli.output import Document, say, write_answer, write_documents
from polymap.explore import explore
from polymap.inputs import load_arch, preset_names, read_text, shown
from polymap.ir import Architecture, InputError, Mapping, Mistake, OptionError, Workload
from polymap.poly import raised
from polymap.report import (
    ProgressLine,
    checkup_document,
    checkup_text,
    cost_text,
    list_document,
    list_text,
    no_answer_text,
    result_text,
    run_document,
    run_text,
    schema_text,
    sensitivity_document,
    sensitivity_text,
    symbolic_document,
    symbolic_text,
    verdict_document,
)
from polymap.search import (
    cost_document,
    evaluation_document,
    head_document,
    json_text,
    mapping_document,
    result_document,
)
from polymap.workload import builtin_names, builtin_workload, read_c

if TYPE_CHECKING:
    from polymap.cli.arguments import Options
    from polymap.ir import Architecture, Workload
    from polymap.networks import Sensitivity
    from polymap.search import Progress, SearchResult


def run_command(options: Options) -> int:
    """Run one command; return its exit code. Raises PolymapError for mistakes in the input."""
    check_outputs(options)
    if names_network(options):
        with interrupts_wait():
            from polymap.cli.whole_networks import explore_whole_network

        return explore_whole_network(options)
    commands: dict[str, Callable[[Options], int]] = {
        "explore": _explore,
        "evaluate": _evaluate,
        "codegen": _codegen,
        "check": _check,
        "verify": _verify,
        "report": _report,
        "compare": _compare,
        "transform": _transform,
        "sweep": _sweep,
        "list": _list,
        "schema": _schema,
        "completion": _completion,
    }
    return commands[options.command](options)


def _explore(options: Options) -> int:
    workload, arch, _ = _read(options)
    _refuse_options_of_networks(options)
    if options.certificate is not None:
        with interrupts_wait():
            from polymap.search import check_certifiable
            from polymap.search.problem import rules_from_document

        constraints = Inputs(options).constraints()
        rules = () if constraints is None else rules_from_document(constraints, workload, arch)
        check_certifiable(workload, arch, options.objective, rules)
    result, code = _search(options, workload, arch)
    if result is None:
        return code
    certificate, code = _certificate(options, result, code)
    mapped, prices = result.workload or workload, _prices(options, result) if code == ExitCode.ANSWERED else None
    document = result_document(result if prices is None else replace(result, prices=sensitivity_document(prices)))
    told = "" if prices is None else f"\n\n{sensitivity_text(prices)}"
    write_answer(options.json, document, lambda: result_text(mapped, arch, result) + told, certificate)
    return code


def _refuse_options_of_networks(options: Options) -> None:
    """Raise OptionError (PM556) for an option that is for a network, of which one workload was asked."""
    hints = {
        "--fuse": "A program of several nests is fused without it.",
        "--store": "Keep its answer by explore --json.",
    }
    for name, is_given in (("--fuse", options.fuse), ("--store", options.store is not None)):
        if is_given:
            what = f"{name}: an option of a network, and {shown(options.workload)} is one workload"
            raise OptionError(Mistake("PM556", what, hints[name]))


def _prices(options: Options, result: SearchResult) -> Sensitivity | None:
    """Return what the resources of the machine are worth, where that was requested of an answer with a mapping."""
    if not options.sensitivity or result.best is None:
        return None
    with interrupts_wait():
        from polymap.networks import sensitivity
    return sensitivity(result, time_limit_s=options.time_limit_s)


def _certificate(options: Options, result: SearchResult, code: int) -> tuple[list[Document], int]:
    """Return the certificate if requested, and the exit code: without the requested certificate there is no answer."""
    if options.certificate is None or code != ExitCode.ANSWERED:
        return [], code
    try:
        return [Document(options.certificate, result.certificate())], code
    except OptionError as error:
        say(f"polymap: {error}")
        return [], ExitCode.NO_ANSWER
    except KeyboardInterrupt:
        say("polymap: interrupted")
        return [], INTERRUPTED


def _verify(options: Options) -> int:
    workload, arch, _ = _read(options) if options.workload else (None, None, None)
    text = read_text(options.proof)
    with interrupts_wait():
        from polymap.verify import verify, what_is_not

    wrong = what_is_not(text)
    if wrong:
        hint = "`polymap explore ... --certificate FILE` writes certificates."
        raise InputError(Mistake("PM518", f"{shown(options.proof)} is no certificate: {wrong}", hint))
    objective, constraints = None if workload is None else options.objective, Inputs(options).constraints()
    limit = options.time_limit_s
    verdict = verify(text, workload, arch, objective, constraints=constraints, time_limit_s=limit)
    write_answer(options.json, verdict_document(verdict), lambda: str(verdict))
    trusted = options.accept_word and not verdict.reason
    return ExitCode.ANSWERED if verdict.proven or trusted else ExitCode.NO_ANSWER


def _evaluate(options: Options) -> int:
    workload, arch, mapping = _read(options)
    with interrupts_wait():
        from polymap.costmodel import evaluate, simulate

    assert mapping is not None, "parse() demands --mapping"
    if options.simulate:
        cost = simulate(workload, arch, mapping)
    else:
        limit = options.time_limit_s if options.has_time_limit else None
        cost = evaluate(workload, arch, mapping, time_limit_s=limit)
    write_answer(options.json, evaluation_document(cost), lambda: cost_text(workload, arch, mapping, cost))
    return ExitCode.ANSWERED


def _codegen(options: Options) -> int:
    workload, arch, mapping = _read(options)
    with interrupts_wait():
        from polymap.cli.native_code import asks_function, write_function

    if asks_function(options, arch):
        return write_function(options, workload, arch)
    with interrupts_wait():
        from polymap.codegen import Form, generate_c, run_c
        from polymap.costmodel import evaluate

    code = ExitCode.ANSWERED
    document = head_document("program", workload, arch)
    if mapping is None:
        result, code = _search(options, workload, arch)
        if result is None or result.best is None or code != ExitCode.ANSWERED:
            if result is not None:
                write_answer(options.json, result_document(result), lambda: result_text(workload, arch, result))
            return code
        mapping, workload = result.best, result.workload or workload
        document = result_document(result) | {"schema": document["schema"]}
    cost = evaluate(workload, arch, mapping)
    for violation in cost.violations:
        say(f"polymap: warning: the mapping is not legal: {violation.message}")
    form = Form.NATIVE if options.native else Form.FAITHFUL
    source = generate_c(workload, arch, mapping, form)
    document |= {"mapping": mapping_document(mapping), "cost": cost_document(cost), "code": source}
    run = run_c(workload, arch, mapping, form) if options.run else None
    if run is not None:
        document["run"] = run_document(run)
    _write_code(options, source, document, None if run is None else run_text(run))
    wrong = run is not None and not (run.matches_reference and run.counts_match is not False)
    return ExitCode.BUG if wrong and cost.legal else code


def _write_code(options: Options, source: str, document: object, remark: str | None) -> None:
    """Write the program (to stdout unless -o or JSON takes its place), the JSON, and the result of the run."""
    documents: list[Document] = []
    if options.json is not None:
        documents.append(Document(options.json, json_text(document)))
    if options.output is not None or options.json != "-":
        documents.append(Document(options.output or "-", source))
    stdout_is_free = all(document.path != "-" for document in documents)
    if remark is not None and stdout_is_free:
        documents.append(Document("-", remark))
    write_documents(documents)
    if remark is not None and not stdout_is_free:
        say(remark)


def _check(options: Options) -> int:
    with raised(options.budget_s):
        return _checked_for_all_sizes(options) if _is_for_all_sizes(options) else _checked_with_sizes(options)


def _checked_with_sizes(options: Options) -> int:
    inputs = Inputs(options)
    workload = inputs.workload()
    mapping = inputs.mapping()
    inputs.check()
    assert workload is not None
    with interrupts_wait():
        from polymap.schedules import checkup

    found = checkup(workload, mapping)
    document = head_document("check", workload) | checkup_document(found)
    write_answer(options.json, document, lambda: checkup_text(found, relations=options.relations))
    return ExitCode.ILLEGAL if found.violations else ExitCode.ANSWERED


def _is_for_all_sizes(options: Options) -> bool:
    """Return whether a C text is given without any size (its parameters, if it has any, stay symbolic)."""
    return (
        Path(options.workload).suffix.lower() in (".c", ".scop", ".mlir")
        and not options.sizes
        and options.mapping is None
    )


def _checked_for_all_sizes(options: Options) -> int:
    source, file = (preprocessed_text(options), options.workload) if options.cpp else read_c(options.workload)
    file = shown(Path(file).name).strip("'\"")
    with interrupts_wait():
        from polymap.codegen.source import has_parameters, symbolic_checkup

    if not has_parameters(source, file=file):
        return _checked_with_sizes(options)
    found = symbolic_checkup(source, file=file)
    document = head_document("check") | symbolic_document(found)
    write_answer(options.json, document, lambda: symbolic_text(found, relations=options.relations))
    return ExitCode.ANSWERED


def _report(options: Options) -> int:
    """Write the page about the best mapping; --mapping is a second one beside it."""
    workload, arch, mapping = _read(options)
    _refuse_options_of_networks(options)
    result, code = _search(options, workload, arch)
    if result is None or result.best is None:
        return code
    with interrupts_wait():
        from polymap.report import report_page

    assert options.output is not None, "parse() demands --output"
    other = None if mapping is None or options.mapping is None else (shown(options.mapping), mapping)
    write_documents([Document(options.output, report_page(result.workload or workload, arch, result, other))])
    say(f"polymap: wrote {options.output}")
    return code


def _compare(options: Options) -> int:
    """Tell the best mapping of each family, and what it costs beside the best of all."""
    workload, arch, _ = _read(options)
    with interrupts_wait():
        from polymap.networks import FAMILIES, compare
        from polymap.report import comparison_document, comparison_text

    families, limit = options.families or FAMILIES, options.time_limit_s
    found = compare(workload, arch, families, options.objective, time_limit_s=limit, seed=options.seed)
    write_answer(options.json, comparison_document(found), lambda: comparison_text(found))
    return ExitCode.NO_ANSWER if found.optimum is None else ExitCode.ANSWERED


def _transform(options: Options) -> int:
    """Write a C file with its loops in another order."""
    source, file = read_c(options.workload)
    file = shown(file).strip("'\"")
    with interrupts_wait():
        from polymap.codegen.source import transform_c, workload_of_text
        from polymap.io import c_to_affine, from_openscop
        from polymap.report import transform_document, transform_page, transform_text
        from polymap.transform import schedule_from_text

    sizes, schedule = dict(options.sizes), None
    if options.schedule is not None:
        order, workload = read_text(options.schedule), workload_of_text(source, sizes, file)
        read = from_openscop if re.search(r"^\s*(<OpenScop>|SCATTERING\b)", order, re.MULTILINE) else schedule_from_text
        schedule = read(workload, order)
    made = transform_c(
        source,
        sizes,
        order=options.order,
        schedule=schedule,
        tile=options.tile,
        parallel=options.parallel,
        reorder_sums=options.reorder_sums,
        file=file,
    )
    documents = [Document(options.report, transform_page(made.report))] if options.report is not None else []
    target = options.output or "-"
    if target != "-" or options.json != "-":  # else the text is in the JSON document
        documents.append(Document(target, c_to_affine(made, file=target) if target.endswith(".mlir") else made))
    summary, document = transform_text(made.report), head_document("transform") | transform_document(made.report)
    if target != "-":
        write_answer(options.json, document, lambda: summary, documents)
        return ExitCode.ANSWERED
    write_answer(options.json, document, None, documents)
    say(summary)
    return ExitCode.ANSWERED


def _sweep(options: Options) -> int:
    with interrupts_wait():
        from polymap.cli.whole_networks import run_sweep

    return run_sweep(options)


def _list(options: Options) -> int:
    kinds = {"workloads": builtin_names(), "machines": preset_names()}
    asked = [options.topic] if options.topic in kinds else list(kinds)
    matches = _matcher("" if options.topic in kinds else options.topic)
    found = {kind: list(filter(matches, kinds[kind])) for kind in asked}
    workloads = [builtin_workload(name) for name in found.get("workloads", ())]
    machines = [load_arch(name) for name in found.get("machines", ())]
    write_answer(options.json, list_document(workloads, machines), lambda: list_text(workloads, machines))
    return ExitCode.ANSWERED


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a name holds the pattern, in which * and ? stand for what they do in file names."""
    return lambda name: fnmatchcase(name.lower(), f"*{pattern.lower()}*")


def _schema(options: Options) -> int:
    write_documents([Document("-", schema_text(options.topic))])
    return ExitCode.ANSWERED


def _completion(options: Options) -> int:
    write_documents([Document("-", completion_text(options.topic))])
    return ExitCode.ANSWERED


def _read(options: Options) -> tuple[Workload, Architecture, Mapping | None]:
    """Return the inputs of the command; raises InputError with the mistakes of all of them."""
    inputs = Inputs(options)
    workload, arch, mapping = inputs.workload(), inputs.arch(), inputs.mapping()
    inputs.constraints()
    inputs.objective()
    inputs.check()
    assert workload is not None and arch is not None, "inputs.check() raises otherwise"
    return workload, arch, mapping


def _search(options: Options, workload: Workload, arch: Architecture) -> tuple[SearchResult | None, int]:
    """Return the result and its exit code; if interrupted the best so far (or None) and 130."""
    with interrupts_wait():
        import_module("polymap.search.provers")  # what explore() needs
    constraints = Inputs(options).constraints()
    with ProgressLine(options.objective) as progress:
        try:
            result = explore(
                workload,
                arch,
                options.objective,
                tiles=options.tiles,
                time_limit_s=options.time_limit_s,
                workers=options.workers,
                seed=options.seed,
                on_progress=progress,
                constraints=constraints,
                memory_limit_mb=options.memory_limit_mb,
                work_limit=options.work_limit,
            )
        except KeyboardInterrupt:
            progress.clear()
            say("polymap: interrupted")
            last = None if isinstance(progress.last, str) else progress.last
            return best_so_far(workload, arch, options, last, constraints), INTERRUPTED
    if result.best is not None:
        return result, ExitCode.ANSWERED
    say(f"polymap: {no_answer_text(result)}")
    return result, ExitCode.NO_ANSWER


def best_so_far(
    workload: Workload, arch: Architecture, options: Options, last: Progress | None, constraints: object = None
) -> SearchResult | None:
    """Return what an interrupted search has found, as its result; None where it has nothing yet."""
    if last is None or last.best is None:
        return None
    from dataclasses import replace

    from polymap.search import Settings, best_so_far as found_so_far
    from polymap.search.problem import parse_objective, rules_from_document

    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    found = found_so_far(workload, arch, parse_objective(options.objective, arch), last, rules)
    limits = options.memory_limit_mb, options.work_limit
    settings = Settings(options.tiles, options.time_limit_s, options.workers, options.seed, constraints, *limits)
    return None if found is None else replace(found, settings=settings)
