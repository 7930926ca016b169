"""Which of the 122 loops of the vectorizing compilers' test suite each command reads.

`python -m benchmarks.tsvc [LOOP ...] [--commands check,transform,compile,codegen,explore] [--refusals]`: a table of the
loops that some command refuses, then how many each command reads. `check` and `transform` are asked without sizes
first, and with sizes where that is refused (~ in the table); the other commands need them. `codegen` runs the program
in the order of the text, counts every element, and compares with the text compiled by gcc. --refusals: what was said.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import polymap as pm
from benchmarks.tsvc_texts import LOOPS, SIZES
from polymap.codegen import run_c
from polymap.ir import Architecture, PolymapError, Workload
from tests.c_tally import program_order

MACHINE = "examples/my_machine.toml"
Sizes = dict[str, int]


def sizes_of(text: str) -> Sizes:
    """Return the sizes that a loop's function takes."""
    header = text[text.index(" s") :].split("{", 1)[0]
    return {name: value for name, value in SIZES.items() if f"int {name}" in header}


def _read(text: str) -> Workload:
    return pm.from_c(text, sizes_of(text))


def _check(text: str) -> str:
    return _with_or_without(
        lambda sizes: pm.io.symbolic_checkup(text, sizes), text, lambda: pm.dependences(_read(text))
    )


def _transform(text: str) -> str:
    return _with_or_without(partial(pm.transform_c, text), text)


def _with_or_without(ask: Callable[[Sizes], object], text: str, also: Callable[[], object] | None = None) -> str:
    try:
        ask({})
        return "+"
    except PolymapError:
        ask(sizes_of(text))
        return "~"
    finally:
        if also is not None:
            also()


def _compile(text: str) -> str:
    pm.compile(_read(text), time_limit_s=20)
    return "+"


def _codegen(text: str) -> str:
    workload, arch = _read(text), _machine()
    run = run_c(workload, arch, program_order(workload))
    assert run.matches_reference, "the program computes what its text computes"
    return "+"


def _explore(text: str) -> str:
    found = pm.explore(_read(text), _machine(), time_limit_s=2)
    assert found.best is not None, "a mapping is found"
    return "+"


def _machine() -> Architecture:
    return pm.load_arch(MACHINE)


COMMANDS = {
    "check": _check, "transform": _transform, "compile": _compile, "codegen": _codegen, "explore": _explore
}  # fmt: skip


def answer(command: str, text: str) -> tuple[str, str]:
    """Return + (~: with sizes alone) or - and the refusal; ! where polymap failed."""
    try:
        return COMMANDS[command](text), ""
    except PolymapError as error:
        return "-", str(error)
    except Exception as error:  # noqa: BLE001  # a bug of polymap: it is told, the table goes on
        return "!", repr(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loops", nargs="*", default=list(LOOPS))
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--refusals", action="store_true")
    given = parser.parse_args()
    commands = given.commands.split(",")
    counts = dict.fromkeys([*commands, "all"], 0)
    for name in given.loops:
        answers = {each: answer(each, LOOPS[name]) for each in commands}
        marks = {each: mark for each, (mark, _) in answers.items()}
        for each in commands:
            counts[each] += marks[each] in "+~"
        counts["all"] += all(mark in "+~" for mark in marks.values())
        if not all(mark == "+" for mark in marks.values()):
            print(f"{name:6}", *(f"{each} {mark}" for each, mark in marks.items()), sep="  ", flush=True)
            for said in dict.fromkeys(said for _, said in answers.values() if said and given.refusals):
                print("       ", said.replace("\n", "\n        "))
    print(f"read, of {len(given.loops)}:", ", ".join(f"{each} {count}" for each, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
