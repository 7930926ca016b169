"""`polymap explore` of a whole network: a built-in name such as resnet50, or a model file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from polymap.cli.arguments import Options
from polymap.cli.exit_codes import ExitCode
from polymap.cli.interrupt import INTERRUPTED, interrupts_wait
from polymap.cli.named_inputs import Inputs
from polymap.cli.output import Document, say, write_answer
from polymap.cli.tuning import TUNING
from polymap.formatting import table
from polymap.inputs import located, parse_json, read_text, shown
from polymap.ir import ArchError, Architecture, Mistake, OptionError, WorkloadError
from polymap.networks import (
    LayerAnswer,
    Network,
    NetworkAnswer,
    State,
    SweepProgress,
    SweepTable,
    answer_document,
    builtin_network,
    explore_network,
    merge_stores,
    states_of,
    sweep_document,
    sweep_of_document,
)
from polymap.report import ProgressLine, answer_text, network_page, sweep_page, sweep_text

Note = Callable[[int, int, LayerAnswer], None]


def explore_whole_network(options: Options) -> int:
    """Ask for the best mapping of each layer, write the answer, return the exit code.

    Raises OptionError for options that are for one workload. If interrupted, the layers answered so far are printed.
    """
    _refuse_options_of_layers(options)
    inputs = Inputs(options)
    arch = inputs.arch()
    inputs.objective()
    inputs.check()
    assert arch is not None, "check() raises otherwise"
    net = _network(options)
    answers: list[LayerAnswer] = []

    def note(done: int, layers: int, answer: LayerAnswer) -> None:
        if len(answers) < len(net.layers):  # groups of them come after all layers
            answers.append(answer)
        proven = sum(each.result.status == "OPTIMAL" for each in answers)
        progress(f"{done} of {layers} layers, {proven} proven, {answer.layer.name} {answer.result.stated}")

    try:
        with ProgressLine(options.objective) as progress:
            progress(f"0 of {len(net.layers)} layers")
            answer = _explored(net, arch, options, note)
    except KeyboardInterrupt:
        _tell_interrupt(options, f" after {len(answers)} of {len(net.layers)} layers")
        if answers:
            _write(options, NetworkAnswer(net.beginning(len(answers)), arch, options.objective, tuple(answers)))
        return INTERRUPTED
    _write(options, answer)
    return ExitCode.NO_ANSWER if answer.exact is None else ExitCode.ANSWERED


def _explored(net: Network, arch: Architecture, options: Options, note: Note) -> NetworkAnswer:
    def explored(pool: ProcessPoolExecutor | None) -> NetworkAnswer:
        return explore_network(
            net,
            arch,
            options.objective,
            tiles=options.tiles,
            time_limit_s=options.time_limit_s,
            seed=options.seed,
            work_limit=options.work_limit,
            executor=pool,
            on_layer=note,
            fuse=options.fuse,
            store=options.store,
        )

    if options.workers == 1:
        return explored(None)
    with _processes(options.workers) as pool:
        return explored(pool)


@contextmanager
def _processes(count: int) -> Generator[ProcessPoolExecutor, None, None]:
    """Start so many processes, each by a task that loads polymap, and wait until all run: a pool that loses a process
    while it starts another may never end. isl does not survive a fork. Whoever has not begun in time begins later."""
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        wait([pool.submit(builtin_network, "bert_base") for _ in range(count)], timeout=TUNING.begun_s)
        yield pool


def _network(options: Options) -> Network:
    found = builtin_network(options.workload)
    if found is not None:
        return found
    with interrupts_wait():
        from polymap.importers import from_onnx

    return from_onnx(options.workload, sizes=dict(options.sizes))


def _refuse_options_of_layers(options: Options) -> None:
    given = [
        option
        for option, value in (
            ("--constraints", options.constraints),
            ("--certificate", options.certificate),
            ("--sensitivity", options.sensitivity or None),
            ("--memory-limit", options.memory_limit_mb),
            ("--mapping", options.mapping),
        )
        if value is not None
    ]
    if given:
        what = f"{', '.join(given)}: an option of one workload, not of a network"
        raise OptionError(Mistake("PM556", what, f"Ask for a layer: {options.workload}.NAME (see `polymap list`)."))


def _tell_interrupt(options: Options, done: str) -> None:
    told = "the same command goes on" if options.store else "with --store FILE a later run goes on"
    say(f"polymap: interrupted{done}; {told}")


def _write(options: Options, answer: NetworkAnswer) -> None:
    if options.output is None:
        write_answer(options.json, lambda: answer_document(answer), lambda: answer_text(answer))
        return
    page = Document(options.output, network_page(answer))
    write_answer(options.json, lambda: answer_document(answer), None, [page])
    say(f"polymap: wrote {options.output}")


def run_sweep(options: Options) -> int:
    """Run the sweep of a specification file and write its table; interrupted, the store keeps what is answered."""
    if options.workload in ("merge", "states"):
        return _tell_store(options)
    text = read_text(options.workload)
    document = parse_json(text, shown(options.workload))
    last: list[SweepProgress] = []

    def note(progress: SweepProgress) -> None:
        last[:] = [progress]
        left = "" if progress.seconds_left is None else f", about {progress.seconds_left:,.0f} s left"
        told = f"{progress.done:,} of {progress.rows:,} rows, {progress.proven:,} proven"
        line(f"{told}, {progress.searched:,} searched{left}")

    try:
        with ProgressLine() as line, nullcontext() if options.workers == 1 else _processes(options.workers) as pool:
            found = sweep_of_document(document, options.store, pool, note)
    except (ArchError, WorkloadError, OptionError) as error:
        raise type(error)(located(error.mistakes, shown(Path(options.workload).name), text)) from None
    except KeyboardInterrupt:
        done = f" after {last[0].done:,} of {last[0].rows:,} rows" if last else ""
        _tell_interrupt(options, done)
        so_far: SweepTable | None = last[0].table() if last else None
        if so_far is not None and so_far.rows:
            _write_sweep(options, so_far)
        return INTERRUPTED
    _write_sweep(options, found)
    return ExitCode.ANSWERED


def _write_sweep(options: Options, found: SweepTable) -> None:
    """Write the table: JSON and a page where they were asked for, text unless JSON goes to stdout."""
    pages = [] if options.report is None else [Document(options.report, sweep_page(found))]
    write_answer(options.json, lambda: sweep_document(found), lambda: sweep_text(found, rows=options.rows), pages)


def _tell_store(options: Options) -> int:
    """Merge stores into one, and tell how many of its questions are in which state."""
    assert options.store is not None, "parse() asks for it"
    if options.workload == "merge":
        merge_stores(options.store, options.parts)
    states = states_of(options.store)
    rows = [
        (
            "running, or killed" if state is State.RUNNING else state.value,  # a killed writer says nothing more
            f"{len(times):,}",
            datetime.fromtimestamp(times[0], UTC).isoformat(" ", "seconds") if times else "",
        )
        for state, times in states.items()
    ]
    document = {state.value: {"questions": len(times), "since": list(times[:1])} for state, times in states.items()}
    write_answer(options.json, document, lambda: table(("state", "questions", "oldest since (UTC)"), rows))
    return ExitCode.ANSWERED
