"""What the words of the command line name: workload, machine, mapping; the mistakes of all of them at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from polymap.arch.document import warnings_of
from polymap.arch.machine import Architecture
from polymap.arch.presets import load_arch
from polymap.cli_arguments import Options
from polymap.cli_output import say
from polymap.errors import InputError, OptionError, PolymapError, Problem
from polymap.inputs import is_table, parse_json, read_text, shown
from polymap.schedules import mapping as tree
from polymap.schedules.document import mapping_from_document
from polymap.workload.document import load_workload
from polymap.workload.loopnest import Workload

Value = TypeVar("Value")


class Inputs:
    """Reads inputs one after the other and keeps their mistakes, which `check` raises together."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._problems: list[Problem] = []

    def workload(self) -> Workload | None:
        """Return the workload that WORKLOAD and the sizes say, None where it has mistakes."""
        return self._collect(lambda: load_workload(self._options.workload, dict(self._options.sizes)))

    def arch(self) -> Architecture | None:
        """Return the machine of --arch, None where it has mistakes; says what is odd about it on stderr."""
        arch = self._collect(lambda: load_arch(self._options.arch))
        for warning in () if arch is None else warnings_of(arch):
            say(f"polymap: warning: {warning}")
        return arch

    def mapping(self) -> tree.Mapping | None:
        """Return the mapping of --mapping, None where it has mistakes or is not given."""
        path = self._options.mapping
        return None if path is None else self._collect(lambda: _read_mapping(path))

    def constraints(self) -> Mapping[str, object] | None:
        """Return the table of --constraints (a file, or JSON itself), None where it has mistakes or is not given."""
        given = self._options.constraints
        return None if given is None else self._collect(lambda: _read_constraints(given))

    def check(self) -> None:
        """Raise every mistake found so far."""
        if self._problems:
            raise InputError(self._problems)

    def _collect(self, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except PolymapError as error:
            self._problems.extend(error.problems)
            return None


def keep_inputs(options: Options) -> None:
    """Raise OptionError where an output would overwrite an input."""
    given = (options.proof, options.workload, options.arch, options.mapping, options.constraints)
    inputs = [name for name in given if name and os.path.isfile(name)]
    for output in (options.output, options.json, options.certificate):
        for name in inputs:
            if output not in (None, "-") and os.path.exists(output) and os.path.samefile(output, name):
                what = f"{shown(output)} would overwrite the input {shown(name)}"
                raise OptionError(Problem("PM561", what, "Name another file for the output."))


def _read_constraints(given: str) -> Mapping[str, object]:
    is_json = given.lstrip().startswith(("{", "["))
    where = "--constraints" if is_json else shown(Path(given).name)
    table = parse_json(given if is_json else read_text(given), where)
    if not is_table(table):
        raise InputError(Problem("PM112", f"{where} is {shown(table)}", "A table of constraints is wanted."))
    return table


def _read_mapping(path: str) -> tree.Mapping:
    """Return the mapping of a file: a mapping document, or an answer of explore that holds one."""
    where = shown(Path(path).name)
    return mapping_from_document(parse_json(read_text(path), where), where)
