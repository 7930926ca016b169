"""Reads the inputs that the command line names: workload, machine, mapping, constraints; all mistakes at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping as Table
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePath
from typing import TypeVar

from polymap import ir
from polymap.cli.arguments import MODEL_FILES, Options
from polymap.cli.output import check_writable, say
from polymap.inputs import (
    arch_to_document,
    arch_warnings,
    as_whole,
    is_table,
    load_arch,
    located,
    mapping_from_document,
    mistakes_in,
    parse_json,
    read_text,
    refuse_yaml,
    shown,
    with_names_of,
)
from polymap.schedules import check_machine, check_mapping, check_readable, idle_fanouts, mapping_warnings
from polymap.search import head_document
from polymap.search.problem import parse_objective
from polymap.verify import first_difference
from polymap.workload import builtin_networks, load_workload

Value = TypeVar("Value")
Naming = Callable[[], AbstractContextManager[None]]  # inside it every mistake names its file


class Inputs:
    """Reads inputs one after the other and collects their mistakes, which `check` raises together."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._mistakes: list[ir.Mistake] = []
        self._workload: ir.Workload | None = None
        self._arch: ir.Architecture | None = None
        self._mapping: ir.Mapping | None = None
        self._constraints: Table[str, object] | None = None
        self._naming: dict[str, Naming] = {}
        self._question: Table[str, object] = {}  # what the file of the mapping says beside it

    def workload(self) -> ir.Workload | None:
        """Return the workload that WORKLOAD and the sizes say, None where it has mistakes."""
        self._workload = self._collect(self._read_workload)
        return self._workload

    def _read_workload(self) -> ir.Workload:
        options = self._options
        if not options.cpp:
            return load_workload(options.workload, dict(options.sizes))
        from polymap.workload.c import from_c

        return from_c(preprocessed_text(options), dict(options.sizes), file=PurePath(options.workload).name)

    def arch(self) -> ir.Architecture | None:
        """Return the machine of --arch, None where it has mistakes; says what is odd about it on stderr."""
        self._arch = self._collect(lambda: load_arch(self._options.arch))
        for warning in () if self._arch is None else arch_warnings(self._arch):
            say(f"polymap: warning: {warning}")
        return self._arch

    def mapping(self) -> ir.Mapping | None:
        """Return the mapping of --mapping, None where it has mistakes or is not given."""
        path = self._options.mapping
        self._mapping = None if path is None else self._collect(lambda: self._read_mapping(path))
        return self._mapping

    def constraints(self) -> Table[str, object] | None:
        """Return the table of --constraints (a file, or JSON itself), None where it has mistakes or is not given."""
        given = self._options.constraints
        self._constraints = None if given is None else self._collect(lambda: self._read_constraints(given))
        return self._constraints

    def objective(self) -> None:
        """Note mistakes in --objective; its levels are checked if the machine is known."""
        plain = ir.Architecture("any", (ir.MemoryLevel("memory"), ir.ComputeUnit("compute")))
        arch, text = self._arch or plain, self._options.objective
        try:
            parse_objective(text, arch)
        except ir.PolymapError as error:
            self._mistakes += [each for each in error.mistakes if self._arch is not None or each.code != "PM502"]

    def check(self) -> None:
        """Raise every mistake found so far, and contradictions between the inputs that could be read."""
        self._collect(self._check_together)
        if self._mistakes:
            raise ir.InputError(self._mistakes)

    def _check_together(self) -> None:
        workload, arch, mapping = self._workload, self._arch, self._mapping
        if workload is None:
            return
        if arch is not None and self._options.arch:
            with self._naming_arch():
                check_machine(workload, arch)
            for warning in idle_fanouts(workload, arch):
                say(f"polymap: warning: {warning}")
        if mapping is not None:
            self._check_question(workload)
            with self._naming["mapping"]():
                if self._options.arch and arch is not None:
                    check_mapping(workload, arch, mapping)
                elif not self._options.arch:
                    check_readable(workload, mapping)
            if arch is not None:
                for warning in mapping_warnings(workload, arch, mapping):
                    say(f"polymap: warning: {warning}")
        if arch is not None and self._constraints is not None:
            from polymap.search.problem import rules_from_document

            with self._naming["constraints"]():
                rules_from_document(self._constraints, workload, arch)

    def _check_question(self, workload: ir.Workload) -> None:
        """Raise MappingError where the file of the mapping says that it was made for another workload or machine."""
        found = self._question
        asked: list[tuple[str, object, object]] = []
        made_for = found.get("workload")
        if is_table(made_for) and "text" not in made_for:
            asked.append(("workload", made_for, head_document("any", workload)["workload"]))
        if is_table(found.get("arch")) and self._arch is not None and self._options.arch:
            asked.append(("arch", found["arch"], arch_to_document(self._arch)))
        for what, own, other in asked:
            differs = first_difference(_unnamed(own), _unnamed(other), what, "there")
            if differs:
                where = shown(Path(self._options.mapping or "").name)
                hint = "To use it all the same, save its `mapping` as a file of its own."
                text = f"the mapping in {where} was made for another question: {differs}"
                raise ir.MappingError(ir.Mistake("PM455", text, hint))

    @contextmanager
    def _naming_arch(self) -> Generator[None, None, None]:
        """Let mistakes raised inside name the machine's file, where it is one."""
        try:
            yield
        except ir.PolymapError as error:
            path = Path(self._options.arch)
            raise ir.ArchError(
                located(error.mistakes, shown(path.name), "") if path.suffix else error.mistakes
            ) from None

    def _collect(self, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except ir.PolymapError as error:
            self._mistakes.extend(error.mistakes)
            return None

    def _read_mapping(self, path: str) -> ir.Mapping:
        """Return the mapping of a file: a mapping document, or an answer of explore that holds one."""
        refuse_yaml(path, "mapping")
        where, text = shown(Path(path).name), read_text(path)
        document = parse_json(text, where)
        self._naming["mapping"] = lambda: mistakes_in(where, text)
        self._question = document if is_table(document) else {}
        with mistakes_in(where, text):
            mapping = mapping_from_document(document)
        return mapping if self._workload is None else with_names_of(self._workload, mapping)

    def _read_constraints(self, given: str) -> Table[str, object]:
        is_json = given.lstrip().startswith(("{", "["))
        if not is_json:
            refuse_yaml(given, "constraints")
        where, text = ("--constraints", given) if is_json else (shown(Path(given).name), read_text(given))
        table = parse_json(text, where)
        self._naming["constraints"] = nullcontext if is_json else lambda: mistakes_in(where, text)
        if not is_table(table):
            raise ir.InputError(ir.Mistake("PM112", f"{where} is {shown(table)}", "Expected a table of constraints."))
        return table


def _unnamed(document: object) -> object:
    """Return a workload's or machine's document without what is only a label, numbers as JSON writes them."""
    table: Table[str, object] = document if is_table(document) else {}
    named = {name: value for name, value in table.items() if name not in ("name", "source")}
    return json.loads(json.dumps(named, default=lambda value: as_whole(value) or float(value)))


def preprocessed_text(options: Options) -> str:
    """Return the C file after the preprocessor. Raises OptionError for other files."""
    name = PurePath(options.workload).name
    if PurePath(options.workload).suffix.lower() != ".c":
        raise ir.OptionError(ir.Mistake("PM605", f"--cpp is given for {shown(name)}", "It is for C files (.c)."))
    from polymap.codegen import preprocessed

    flags = (*(f"-D{each}" for each in options.define), *(f"-I{each}" for each in options.include))
    return preprocessed(options.workload, flags)


def names_network(options: Options) -> bool:
    """Return whether explore or report is asked about a built-in network or a model file."""
    is_model = PurePath(options.workload).suffix.lower() in MODEL_FILES
    return options.command in ("explore", "report") and (is_model or options.workload in builtin_networks())


def mistakes_of_inputs(options: Options) -> tuple[ir.Mistake, ...]:
    """Return the mistakes in the inputs that the options name."""
    inputs = Inputs(options)
    if options.command not in ("verify", "list", "transform", "sweep"):
        if options.workload and not names_network(options):
            inputs.workload()
        if options.arch:
            inputs.arch()
        inputs.mapping()
        inputs.constraints()
        inputs.objective()
    try:
        inputs.check()
    except ir.PolymapError as error:
        return error.mistakes
    return ()


def check_outputs(options: Options) -> None:
    """Raise OutputError where an output could clearly not be written (with the mistakes of the inputs), before any
    work is done for it, and OptionError where it would overwrite an input.
    """
    keep_inputs(options)
    try:
        check_writable(_outputs(options))
    except ir.OutputError as error:
        raise ir.OutputError((*error.mistakes, *mistakes_of_inputs(options))) from None


def _outputs(options: Options) -> list[str]:
    found = (options.output, options.json, options.certificate, options.header, options.shared, options.report)
    return [path for path in found if path is not None]


def keep_inputs(options: Options) -> None:
    """Raise OptionError where an output would overwrite an input."""
    given = (options.proof, options.workload, options.arch, options.mapping, options.constraints, options.schedule)
    inputs = [name for name in given if name and "\0" not in name and os.path.isfile(name)]
    for output in _outputs(options):
        for name in inputs:
            if output == "-" or "\0" in output:
                continue
            if os.path.exists(output) and os.path.samefile(output, name):
                what = f"{shown(output)} would overwrite the input {shown(name)}"
                raise ir.OptionError(ir.Mistake("PM561", what, "Name another file for the output."))
