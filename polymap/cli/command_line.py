"""The entry point: arguments in, exit code out, never a traceback.

0 answered, 2 bad input, 3 no answer, 4 the output cannot be written, 130 interrupted; 1 an illegal mapping (check
only), or a bug of polymap, which is reported on stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper

from polymap.cli.arguments import MisreadOptions, parse, wanted_help
from polymap.cli.exit_codes import ExitCode
from polymap.cli.interrupt import INTERRUPTED, interrupts_wait, raise_interrupts, was_interrupted
from polymap.cli.output import STDOUT_FAILED, print_text, say, warnings_said
from polymap.ir import BudgetError, OptionError, OutputError, PolymapError, SolverError


def main(words: Sequence[str] | None = None) -> int:
    """Run a command (by default the arguments of the process) and return its exit code.

    SIGTERM interrupts it as Ctrl-C does.
    """
    raise_interrupts()
    return guarded(lambda: _run(tuple(sys.argv[1:] if words is None else words)))


def guarded(run: Callable[[], int]) -> int:
    """Return the exit code of `run`, or that of its exception, which is reported on stderr."""
    _prepare_streams()
    try:
        return run()
    except BrokenPipeError:
        _forget_stdout()
        return ExitCode.NOT_WRITTEN
    except OutputError as error:
        say(f"polymap: {error}")
        if any(problem.code == STDOUT_FAILED for problem in error.mistakes):
            _forget_stdout()
        return ExitCode.NOT_WRITTEN
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:  # noqa: BLE001  # the last door: what nobody foresaw becomes one line, not a traceback
        return _interrupted(error) if was_interrupted() else _failed(error)


def _interrupted(error: Exception | None = None) -> int:
    """Report that the command was interrupted. error: what came of the interrupt instead of a KeyboardInterrupt."""
    say("polymap: interrupted")
    if error is not None:
        _show_trace(error)
    return INTERRUPTED


def _failed(error: Exception) -> int:
    """Report why there is no answer; return the exit code."""
    match error:
        case BudgetError():
            say(f"polymap: {error}")
            return ExitCode.NO_ANSWER
        case MemoryError():
            say("polymap: PM560 out of memory\n      Fewer --workers or a smaller workload need less.")
            return ExitCode.NO_ANSWER
        case PolymapError() if not isinstance(error, SolverError):
            say(f"polymap: {error}")
            return ExitCode.BAD_INPUT
        case _:
            return _bug(error)


def _run(words: tuple[str, ...]) -> int:
    text = wanted_help(words)
    if text is not None:
        if words:
            print_text(text)
            return ExitCode.ANSWERED
        say(text)
        return ExitCode.BAD_INPUT
    if words == ("--version",):
        from polymap import __version__

        print_text(f"polymap {__version__}")
        return ExitCode.ANSWERED
    try:
        options = parse(words)
    except MisreadOptions as error:
        with interrupts_wait():
            from polymap.cli.named_inputs import mistakes_of_inputs
        raise OptionError((*error.mistakes, *mistakes_of_inputs(error.options))) from None
    # After the words are known to be good: this loads the rooms that do the work.
    with interrupts_wait():
        from polymap.cli.commands import run_command

    with warnings_said():
        return run_command(options)


def _bug(error: Exception) -> int:
    """Report a bug in one line; with the whole traceback only if the user asked for it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    say(
        f"polymap: internal error at {place}: {what}. This is a bug: please report it with this line and the command "
        "(POLYMAP_TRACEBACK=1 shows the whole trace)."
    )
    _show_trace(error)
    return ExitCode.BUG


def _show_trace(error: Exception) -> None:
    if os.environ.get("POLYMAP_TRACEBACK"):
        say("".join(traceback.format_exception(error)))


def _prepare_streams() -> None:
    """Make stdout and stderr replace characters that the terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail once more."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
