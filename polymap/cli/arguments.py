"""Parses the command line into one frozen value; every mistake is found before any file is read."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from polymap.codegen.source import ORDERS
from polymap.formatting import listing
from polymap.inputs import LIMITS, as_fraction, is_long_integer, is_name, parse_integer, preset_names, shown
from polymap.ir import Mistake, OptionError, did_you_mean
from polymap.report import SCHEMAS
from polymap.search.problem import SINGLE_FORMS
from polymap.workload import LAYERS

LAYOUTS = ("NHWC", "NCHW")
MODEL_FILES = (".onnx",)
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for.

    proof: the file to verify. topic: what `list` is to match, the schema, the shell. families: the words of `compare`
    that name one. sizes: as given, each name once. parts: the stores that `sweep merge` reads. searches: options of the
    search are among the words. json and output: a path, "-" for stdout, or None.
    """

    command: str
    workload: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    arch: str = ""
    mapping: str | None = None
    constraints: str | None = None
    objective: str = "energy"
    tiles: str = "any"
    time_limit_s: float = 60
    has_time_limit: bool = False  # it was given
    memory_limit_mb: int | None = None
    work_limit: int | None = None
    workers: int = 1
    seed: int = 0
    simulate: bool = False
    run: bool = False
    output: str | None = None
    json: str | None = None
    report: str | None = None
    certificate: str | None = None
    accept_word: bool = False
    budget_s: float | None = None
    relations: bool = False
    cpp: bool = False
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    native: bool = False
    proof: str = ""
    topic: str = ""
    families: tuple[str, ...] = ()
    order: str = "auto"
    schedule: str | None = None
    tile: int | None = None
    parallel: bool = False
    reorder_sums: bool = False
    store: str | None = None
    parts: tuple[str, ...] = ()
    header: str | None = None
    shared: str | None = None
    layout: str | None = None
    tail: str | None = None
    threads: int | None = None
    fma: bool = False
    searches: bool = False
    sensitivity: bool = False
    fuse: bool = False
    rows: bool = False


class MisreadOptions(OptionError):
    """Mistakes in the arguments; `options` holds those that could be read, so that mistakes in inputs are reported too.

    WORKLOAD is empty if it or its sizes could not be read.
    """

    def __init__(self, mistakes: Sequence[Mistake], options: Options) -> None:
        super().__init__(mistakes)
        in_doubt = any(mistake.code in ("PM552", "PM553", "PM557", "PM558", "PM559") for mistake in mistakes)
        self.options = replace(options, workload="") if in_doubt else options


@dataclass(frozen=True, slots=True)
class _Option:
    """value: the word for its value in the help; "" for a switch. kind: what is read: a text, one of some words, an
    integer of a range, seconds (float), or several texts (list)."""

    value: str
    help: str
    kind: tuple[str, ...] | range | type = str


_OPTIONS = {  # in the order in which their mistakes are told
    "--arch": _Option("ARCH", "the machine: a preset's name (see `polymap list`), or a .json or .toml file"),
    "--mapping": _Option("FILE", "the mapping: a .json file, also one that explore wrote with --json"),
    "--constraints": _Option("FILE|JSON", "what the mapping must meet besides: a .json file, or JSON itself (below)"),
    "--objective": _Option("OBJECTIVE", "what is minimised: of the objectives below (default energy)"),
    "--tiles": _Option(
        "any|divide", "which tile sizes: any (default), or only such as divide the enclosing tile", ("any", "divide")
    ),
    "--time-limit": _Option("S", "seconds after which the best so far is the answer (default 60)", float),
    "--memory-limit": _Option(
        "MB", "memory of all processes at which the best so far is the answer (default: none)", range(1, 2**31)
    ),
    "--work-limit": _Option(
        "N",
        "structures and programs bounded, nodes visited, mappings scored until it ends (default: any)",
        range(1, 2**63),
    ),
    "--workers": _Option("N", "processes that share a long search (default 1)", range(1, LIMITS.workers + 1)),
    "--seed": _Option("I", "the seed of every random choice (default 0)", range(2**31)),
    "--simulate": _Option("", "count by walking every step instead of the closed form"),
    "--run": _Option("", "compile the program, run it, and compare its result and its counts"),
    "--sensitivity": _Option("", "also tell what more of each capacity, bandwidth and fan-out is worth"),
    "--fuse": _Option("", "of a network: also ask neighbouring layers as one program, their results on chip"),
    "--rows": _Option("", "of a sweep: print every row below the summary, however many there are"),
    "--output": _Option("FILE", "where the C program or the page goes (-o FILE; a program's default: printed)"),
    "--json": _Option("FILE|-", "write the answer as JSON; - (or no value) prints nothing but JSON"),
    "--report": _Option("FILE.html", "a page of HTML: of transform both texts side by side, of a sweep its machines"),
    "--certificate": _Option(
        "FILE", "write a proof for `polymap verify`: of the optimum (--tiles divide), of a bound (any)"
    ),
    "--accept-word": _Option("", "exit with 0 where nothing is refuted, although structures rest on the solver's word"),
    "--budget": _Option("S", "seconds for each question about a program that takes long (default 3.5 to 4.5)", float),
    "--relations": _Option("", "print also the relation of every dependence, as isl writes it"),
    "--cpp": _Option("", "run a C file through the system's preprocessor first"),
    "--define": _Option("NAME=TEXT", "with --cpp (which it implies): a macro; once for each", list),
    "--include": _Option("FOLDER", "with --cpp (which it implies): where its headers are; once for each", list),
    "--order": _Option(
        "auto|original|isl", "the order of the loops: isl's scheduler's, or the original's (default auto)", ORDERS
    ),
    "--schedule": _Option("FILE", "the order of the loops as a text of lines such as S0[i,j] -> [j, floor(i/8), i]"),
    "--tile": _Option(
        "N", "the tile size of permutable loops (of isl and original 32; 1: no tiling)", range(1, 2**20 + 1)
    ),
    "--parallel": _Option("", "make the outermost loops whose iterations are independent OpenMP loops"),
    "--reorder-sums": _Option("", "let sums and products change their order, so that floats are rounded differently"),
    "--store": _Option(
        "FILE", "keeps each answer of a sweep or network when it is known: sqlite, or lines of JSON (.jsonl)"
    ),
    "--native": _Option("", "write code to use, without counters: for a processor a C function of the layer's arrays"),
    "--header": _Option("FILE.h", "with --native: also write the header of the C function"),
    "--shared": _Option("FILE.so", "with --native: also compile the C function into a shared object (CC, CFLAGS)"),
    "--layout": _Option("NHWC|NCHW", "with --native: the order of a convolution's arrays (default NHWC)", LAYOUTS),
    "--tail": _Option(
        "STEPS", "with --native: done to each sum, as in bias,add,relu,int8:SCALE:ZERO (no SCALE: an array)"
    ),
    "--threads": _Option(
        "N", "with --native: cores that the C function uses (default 1)", range(1, LIMITS.threads + 1)
    ),
    "--fma": _Option("", "with --native: floats of programs may round a product and the sum it is added to at once"),
    "--size": _Option("NAME=INT", "the size of a dim or C parameter; once for each", list),
}
_TIME_LIMITS_S = {"verify": 600, "evaluate": 30}
_PREPROCESSOR = ("--cpp", "--define", "--include")
_REPEATED = ("--size", "--define", "--include")
_SEARCH = (
    "--objective",
    "--constraints",
    "--tiles",
    "--time-limit",
    "--memory-limit",
    "--work-limit",
    "--workers",
    "--seed",
)


_NATIVE = ("--header", "--shared", "--layout", "--tail", "--threads", "--fma")


@dataclass(frozen=True, slots=True)
class _Command:
    help: str
    words: str
    options: tuple[str, ...] = ()


_COMMANDS = {
    "explore": _Command(
        "find the best mapping of a workload on a machine, with its proof",
        "WORKLOAD --arch ARCH",
        (
            "--arch",
            *_SEARCH,
            "--size",
            *_PREPROCESSOR,
            "--certificate",
            "--sensitivity",
            "--fuse",
            "--store",
            "--json",
        ),
    ),
    "evaluate": _Command(
        "tell what a mapping costs: traffic, energy, latency, legality",
        "WORKLOAD --arch ARCH --mapping FILE",
        ("--arch", "--mapping", "--simulate", "--time-limit", "--size", *_PREPROCESSOR, "--json"),
    ),
    "codegen": _Command(
        "write the C program of a mapping (the given one, or the best)",
        "WORKLOAD --arch ARCH [--mapping FILE]",
        (
            "--arch",
            "--mapping",
            *_SEARCH,
            "--size",
            *_PREPROCESSOR,
            "--native",
            *_NATIVE,
            "--output",
            "--run",
            "--json",
        ),
    ),
    "check": _Command(
        "tell the dependences of a workload, its legal loop orders and parallel loops",
        "WORKLOAD",
        ("--mapping", "--size", *_PREPROCESSOR, "--budget", "--relations", "--json"),
    ),
    "verify": _Command(
        "check the certificate of an optimum, sharing no code with the search",
        "FILE [WORKLOAD --arch ARCH]",
        ("--arch", "--objective", "--constraints", "--size", "--time-limit", "--accept-word", "--json"),
    ),
    "report": _Command(
        "write one page of HTML about the best mapping, or of a network about its layers: figures, proof, tables",
        "WORKLOAD --arch ARCH -o FILE.html",
        ("--arch", "--mapping", *_SEARCH, "--size", *_PREPROCESSOR, "--fuse", "--store", "--output"),
    ),
    "compare": _Command(
        "compare the best mappings of the named dataflows with the best of all, each with its proof or gap",
        "WORKLOAD --arch ARCH [FAMILY ...]",
        ("--arch", "--objective", "--time-limit", "--seed", "--size", "--json"),
    ),
    "transform": _Command(
        "write a C file with the loops of its function in another order, proven legal",
        "FILE.c",
        ("--order", "--schedule", "--tile", "--parallel", "--reorder-sums", "--size", "--output", "--report", "--json"),
    ),
    "sweep": _Command(
        "answer the same layers on many machines (SPEC.json: `polymap schema sweep`); a later run on the same store "
        "asks only what is missing",
        "SPEC.json | merge PART ... --store FILE | states --store FILE",
        ("--store", "--workers", "--rows", "--report", "--json"),
    ),
    "list": _Command("print the built-in workloads and machines, or those that match", "[PATTERN]", ("--json",)),
    "schema": _Command(f"print the JSON Schema of a file: {', '.join(SCHEMAS)}", "NAME"),
    "completion": _Command(f"print the completion script of a shell: {', '.join(SHELLS)}", "SHELL"),
}

_WORKLOAD_HELP = """\
WORKLOAD is one of
  resnet50.conv2_x                                     a built-in name (see `polymap list`)
  layer.json                                           a workload file
  kernel.c --size N=8 --size M=9                       a C loop nest
  'C[m,n] += A[m,k] * B[k,n]' m=512 n=256 k=32         an einsum and its sizes
  resnet50, model.onnx                                 of explore and report: all layers of a network or model
  model.onnx length=128 'x[0]=1' y=1x3x224x224         its free dims by name, by input and axis, or inputs as wholes
  conv2d K=64 C=64 H=56 W=56 R=3 S=3 padding=1         a layer and its arguments; also: matmul m=512 n=256 k=32,
                                                       depthwise, conv1d, conv3d, pool, attention
"""
_OBJECTIVE_HELP = f"""\
objectives: {", ".join(SINGLE_FORMS)};
several of them as
  pareto:energy,latency                                the exact front: every mapping that none beats in both
  lex:latency,energy                                   the least energy among the least latencies
  weighted:1*energy+0.5*latency                        a sum
"""
_CONSTRAINTS_HELP = """\
constraints, each of them optional:
  {"order": ["m","k"], "outermost": ["m"], "innermost": ["k"], "fanouts": {"X": {"forbid": ["k"],
   "require": ["m"], "factors": {"n": 4}}}, "store": {"GLB": {"must": ["B"], "never": ["@input"]}},
   "intrinsic": {"m": 16, "n": 16}, "min_utilization": 0.5, "limits": {"latency": 40000}}
"""
_FAMILY_HELP = """\
FAMILY is one of weight-stationary, output-stationary, input-stationary, row-stationary (or WS, OS, IS, RS) and
optimum, the best of all legal mappings; without one, all of them. Tiles divide the enclosing ones.
"""
_EXIT_HELP = """\
exit code: 0 answered, 1 an illegal mapping (of `check`; otherwise a bug of polymap, which is said), 2 bad input, 3 no
answer (infeasible, out of time, a certificate that does not hold), 4 the output cannot be written, 130 interrupted (the
best so far of a search for one mapping is printed)
"""


def command_names() -> tuple[str, ...]:
    """Return the commands, in the order of the help text."""
    return tuple(_COMMANDS)


def usage() -> str:
    """Return the help text of the whole command."""
    lines = [f"  {name:11} {command.help}" for name, command in _COMMANDS.items()]
    more = "`polymap help COMMAND` tells more, `polymap --version` the version."
    parts = ("usage: polymap COMMAND ...", "\n".join(lines), more, _EXIT_HELP)
    return "\n\n".join(parts)


def command_usage(name: str) -> str:
    """Return the help text of one command."""
    command = _COMMANDS[name]
    head = f"usage: polymap {name} {command.words}{' [OPTIONS]' if command.options else ''}"
    parts = [head, command.help[0].upper() + command.help[1:] + "."]
    if command.options:
        rows = [(f"{option} {_OPTIONS[option].value}".rstrip(), _OPTIONS[option].help) for option in command.options]
        workload = [_WORKLOAD_HELP.rstrip()] if "WORKLOAD" in command.words else []
        parts += [*workload, "options:\n" + "\n".join(f"  {left:24} {right}" for left, right in rows)]
    if name == "compare":
        parts += [_FAMILY_HELP.rstrip(), f"objectives: {', '.join(SINGLE_FORMS)}"]
    elif "--objective" in command.options:
        parts += [_OBJECTIVE_HELP.rstrip(), _CONSTRAINTS_HELP.rstrip()]
    return "\n\n".join((*parts, _EXIT_HELP))


def wanted_help(words: Sequence[str]) -> str | None:
    """Return the help text that the arguments ask for, or None."""
    if words and words[0] == "help" and words[1:2] and words[1] in _COMMANDS:
        return command_usage(words[1])
    if not words or (words[0] in ("--help", "-h", "help") and not (words[0] == "help" and words[1:])):
        return usage()
    asks = any(word in ("--help", "-h") for word in words[1:])
    return command_usage(words[0]) if asks and words[0] in _COMMANDS else None


def parse(words: Sequence[str]) -> Options:
    """Return the options; raises OptionError with every mistake."""
    name, rest = _command(words)
    mistakes: list[Mistake] = []
    given, others = _split(name, rest, mistakes)
    reader = _Reader(given, mistakes)
    options = replace(
        _positional(name, others, reader),
        time_limit_s=_TIME_LIMITS_S.get(name, 60),
        has_time_limit="--time-limit" in given,
        searches=any(option in given for option in _SEARCH if option != "--time-limit"),
    )
    options = replace(options, **reader.values())
    options = replace(options, cpp=any(option in given for option in _PREPROCESSOR))
    _check_together(options, given, mistakes)
    if mistakes:
        raise MisreadOptions(mistakes, options)
    return options


def _positional(name: str, words: tuple[str, ...], reader: _Reader) -> Options:
    """Return what the words of a command that are no options say."""
    proof, words = (words[0], words[1:]) if name == "verify" and words else ("", words)
    topic = _topic(name, words, reader)
    families = tuple(word for word in words[1:] if "=" not in word) if name == "compare" else ()
    words = tuple(word for word in words if word not in families)
    parts, words = (words[1:], words[:1]) if name == "sweep" and words[:1] == ("merge",) else ((), words)
    workload, sizes = ("", ()) if name in _TOPICS else _workload_words(name, words, reader)
    return Options(name, workload, sizes, proof=proof, topic=topic, families=families, parts=parts)


def _command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the name of the command and the words after it."""
    name, *rest = words
    if name == "help":
        name, rest = rest[0], []
    if name not in _COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        known = (*_COMMANDS, "--help", "--version")
        raise OptionError(Mistake("PM551", f"unknown {kind} {shown(name)}", did_you_mean(name, known)))
    return name, rest


def _of_compilers(word: str, known: Sequence[str]) -> str:
    """Return what stands here for an option of C compilers, "" for other words."""
    told = {
        "-D": (("--size", "the size of a parameter is --size NAME=INT"), ("--define", "a macro --define NAME=TEXT")),
        "-I": (("--include", "a folder of headers is --include FOLDER"),),
    }
    found = ", ".join(text for option, text in told.get(word[:2], ()) if option in known)
    return f"{found[0].upper()}{found[1:]}." if found else ""


def _cure(option: str) -> str:
    return "`polymap list` shows the presets." if option == "--arch" else f"{_OPTIONS[option].help}."


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of printing and ending the process."""

    def error(self, message: str) -> NoReturn:
        option = next((word for word in re.findall(r"--\w[\w-]*", message) if word in _OPTIONS), "--rows")
        wanted = _OPTIONS[option].value
        what = f"{option} lacks its value, {wanted}" if wanted else message
        raise OptionError(Mistake("PM553", what, _cure(option) if wanted else f"{option} takes no value."))


def _split(
    name: str, words: Sequence[str], mistakes: list[Mistake]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the options given, each with its values, and the other words in order."""
    known = _COMMANDS[name].options
    parser = _Parser(prog=f"polymap {name}", add_help=False, allow_abbrev=False)
    for option in known:
        flags = ("-o", option) if option == "--output" else (option,)
        if option == "--json":  # without a value, at the end or before another option, it prints
            parser.add_argument(option, dest=option, action="append", nargs="?", const="-")
        elif _OPTIONS[option].value:
            parser.add_argument(*flags, dest=option, action="append")
        else:
            parser.add_argument(*flags, dest=option, action="append_const", const="")
    found, others = parser.parse_known_args(list(words))
    given: dict[str, tuple[str, ...]] = {o: tuple(values) for o, values in vars(found).items() if values is not None}
    for option, values in given.items():
        if len(values) > 1 and option not in _REPEATED:
            mistakes.append(Mistake("PM555", f"{option} is given {len(values)} times", "Give it once."))
    unknown = [word for word in others if word.startswith("-") and word not in ("-", "--")]
    for word in unknown:
        option = word.split("=", 1)[0]
        elsewhere = [command for command, its in _COMMANDS.items() if option in its.options]
        what = f"{name} has no option {shown(option)}"
        hint, close = f"It belongs to: {', '.join(elsewhere)}.", did_you_mean(option, known)
        hint = close if not elsewhere else f"{hint} {close}" if close.startswith("Did") else hint
        hint = _of_compilers(word, known) or hint
        mistakes.append(Mistake("PM552", what, hint))
    if unknown:  # the words after an unknown option may be its values: say nothing about them
        others = others[: others.index(unknown[0])]
    return given, tuple(word for word in others if word != "--")


_TOPICS: dict[str, tuple[str, ...]] = {"list": (), "schema": SCHEMAS, "completion": SHELLS}


def _topic(name: str, words: tuple[str, ...], reader: _Reader) -> str:
    """Return the one word that follows list, schema or completion ("": none), one of those that are known."""
    if name not in _TOPICS:
        return ""
    known, word = _TOPICS[name], _COMMANDS[name].words.strip("[]")
    if len(words) > 1:
        reader.mistakes.append(Mistake("PM554", f"{name} takes one {word}, found {shown(words[1])} too"))
    if known and not words:
        reader.mistakes.append(Mistake("PM553", f"{name} needs a {word}", f"Known: {', '.join(known)}."))
    if known and words and words[0] not in known:
        reader.mistakes.append(Mistake("PM554", f"{name} knows no {shown(words[0])}", did_you_mean(words[0], known)))
    return words[0] if words else ""


def _workload_words(name: str, words: tuple[str, ...], reader: _Reader) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return WORKLOAD and the sizes that follow it or stand in --size."""
    unknown_option = any(mistake.code == "PM552" for mistake in reader.mistakes)
    if not any(words[:1]) and not unknown_option and name != "verify":
        word = _COMMANDS[name].words.split()[0]
        hint = "`polymap list` shows what is built in." if word == "WORKLOAD" else f"`polymap {name} --help` says more."
        reader.mistakes.append(Mistake("PM553", f"{name} needs a {word}", hint))
    needed = {
        "explore": ("--arch",),
        "evaluate": ("--arch", "--mapping"),
        "codegen": ("--arch",),
        "compare": ("--arch",),
        "report": ("--arch", "--output"),
    }.get(name, ())
    for option in needed:
        if option not in reader.given and not unknown_option:
            what = f"{name} needs {option} {_OPTIONS[option].value}"
            reader.mistakes.append(Mistake("PM553", what, _cure(option)))
    least = 0 if words and words[0] in LAYERS else 1  # a layer's padding may be 0
    is_model = bool(words) and words[0].lower().endswith(MODEL_FILES)
    given = (*words[1:], *reader.given.get("--size", ()))
    return words[0] if words else "", reader.sizes(_by_axis(given) if is_model else given, least, is_model=is_model)


def _by_axis(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a model file with a shape, such as x=1x3x224x224, axis by axis: x[0]=1 and so on."""
    found: list[str] = []
    for word in words:
        name, _, shape = word.rpartition("=")
        sizes = re.split("[x,]", shape)
        apart = [f"{name}[{axis}]={size}" for axis, size in enumerate(sizes)]
        found += apart if len(sizes) > 1 and name else [word]
    return tuple(found)


def _check_verify(options: Options, given: dict[str, tuple[str, ...]], mistakes: list[Mistake]) -> None:
    """Note a missing certificate file, and missing parts of the question that it is compared with."""
    compared = [option for option in ("--arch", "--objective", "--constraints", "--size") if option in given]
    if not options.proof and not mistakes:
        mistakes.append(Mistake("PM553", "verify needs a FILE", "The one that explore wrote with --certificate."))
    elif options.workload and "--arch" not in given:
        what = f"verify compares the certificate with {shown(options.workload)} on a machine"
        mistakes.append(Mistake("PM553", what, "Add --arch ARCH."))
    elif compared and not options.workload:
        what = f"verify compares {', '.join(compared)} with the certificate of a workload"
        mistakes.append(Mistake("PM553", what, "Give WORKLOAD after the FILE."))


def _check_together(options: Options, given: dict[str, tuple[str, ...]], mistakes: list[Mistake]) -> None:
    """Note options that exclude each other."""
    if options.command == "verify":
        _check_verify(options, given, mistakes)
    searching = [option for option in _SEARCH if option in given]
    if options.command == "codegen" and options.mapping is not None and searching:
        what = f"{', '.join(searching)} and --mapping exclude each other"
        mistakes.append(Mistake("PM556", what, "Give --mapping to use a mapping, or search options to find one."))
    _check_native(options, given, mistakes)
    if options.command == "report" and options.output == "-":
        mistakes.append(Mistake("PM556", "-o of report writes to a file", "Give a path that ends in .html."))
    if options.command == "sweep" and options.workload in ("merge", "states"):
        if options.store is None:
            mistakes.append(
                Mistake("PM553", f"sweep {options.workload} needs --store FILE", "The store that it is about.")
            )
        if options.workload == "merge" and not options.parts:
            mistakes.append(Mistake("PM553", "sweep merge needs a PART", "The stores whose answers it takes over."))
    if options.schedule is not None and {"--order", "--tile"} & set(given):
        mistakes.append(Mistake("PM556", "--schedule excludes --order and --tile", "The schedule says all of it."))
    if options.sensitivity and (options.constraints or options.objective.startswith(("pareto:", "lex:"))):
        other = "--constraints" if options.constraints else f"--objective {shown(options.objective)}"
        what = f"--sensitivity and {other} exclude each other"
        mistakes.append(Mistake("PM556", what, "Prices are of one number, over all legal mappings."))
    if options.certificate == "-":
        mistakes.append(Mistake("PM556", "--certificate writes to a file", "Give a path."))
    if options.certificate is not None and options.certificate == options.json:
        what = f"--certificate and --json both write to {shown(options.json)}"
        mistakes.append(Mistake("PM556", what, "Give them different files."))
    if options.output is not None and options.output == options.json:
        where = "stdout" if options.json == "-" else shown(options.json)
        mistakes.append(Mistake("PM556", f"-o and --json both write to {where}", "Give them different files."))
    if options.report is not None and options.report in ("-", options.output, options.json):
        where = "stdout" if options.report == "-" else f"{shown(options.report)}, as another output does"
        mistakes.append(Mistake("PM556", f"--report writes to {where}", "Give it a file of its own: report.html."))


def _check_native(options: Options, given: dict[str, tuple[str, ...]], mistakes: list[Mistake]) -> None:
    """Note options of a C function without --native, beside a program's, and outputs that go to one place."""
    own = [option for option in _NATIVE if option in given]
    others = [option for option in ("--mapping", "--run", *_SEARCH) if option in given and option != "--time-limit"]
    if own and not options.native:
        mistakes.append(
            Mistake("PM556", f"{', '.join(own)} without --native", "Give --native: they are of its function.")
        )
    elif own and others:
        what = f"{', '.join(others)} and {', '.join(own)} exclude each other"
        mistakes.append(Mistake("PM556", what, "The function's mapping is chosen for its processor."))
    files = [path for path in (options.output, options.json, options.header, options.shared) if path is not None]
    doubled = {path for path in (options.header, options.shared) if path is not None and files.count(path) > 1}
    for path in sorted(doubled):
        mistakes.append(Mistake("PM556", f"two outputs go to {shown(path)}", "Give them different files."))
    if options.header == "-" or options.shared == "-":
        mistakes.append(Mistake("PM556", "--header and --shared write to files", "Give paths."))


_FIELDS = {"--time-limit": "time_limit_s", "--budget": "budget_s", "--memory-limit": "memory_limit_mb"}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values of options; mistakes are collected."""

    given: dict[str, tuple[str, ...]]
    mistakes: list[Mistake]

    def values(self) -> dict[str, Any]:
        """Return the values of the options given, by their fields, but sizes and what is wrong."""
        read = {name: self._value(name, option) for name, option in _OPTIONS.items() if name in self.given}
        fields = {_FIELDS.get(name, name[2:].replace("-", "_")): value for name, value in read.items()}
        return {name: value for name, value in fields.items() if value is not None and name != "size"}

    def _value(self, name: str, option: _Option) -> object:
        """Return the value of an option, None where it is wrong."""
        if option.kind is list:
            return self.given[name]
        text = self.given[name][-1]
        match option.kind:
            case tuple() as words:
                other = " --schedule FILE takes any other." * (name == "--order")
                found, hint = text if text in words else None, did_you_mean(text, words) + other
            case range() as numbers:
                value, hint = parse_integer(text), f"Expected an integer from {numbers[0]} to {numbers[-1]}."
                found = None if value is None or value not in numbers else value  # a range is searched for None
            case _ if option.kind is float:
                seconds, hint = _decimal(text), "Expected a number of seconds above 0."
                found = None if seconds is None or not 0 < seconds <= 10**9 else float(seconds)
            case _:
                found, hint = text or None if option.value else True, f"Expected {option.value}."
        if found is None:
            self.mistakes.append(Mistake("PM554", f"{name} is {shown(text)}", hint))
        return found

    def sizes(self, words: tuple[str, ...], least: int, *, is_model: bool = False) -> tuple[tuple[str, int], ...]:
        """Return name -> size. is_model: names are those of a model file, of any letters, or INPUT[AXIS]."""
        sizes: dict[str, int] = {}
        strange: list[str] = []
        for word in words:
            name, _, digits = word.rpartition("=") if is_model else word.partition("=")
            if not (name.isprintable() and name if is_model else is_name(name)) or not digits:
                strange.append(shown(word))
                continue
            value = parse_integer(digits)
            if value is None or value < least:
                found = f"too large: it has {len(digits):,} digits" if is_long_integer(digits) else shown(digits)
                hint = f"Expected an integer >= {least if name == 'padding' else 1} (at most 10^100)."
                self.mistakes.append(
                    Mistake("PM558", f"the size of {shown(name) if is_model else name} is {found}", hint)
                )
            elif name in sizes:
                what = f"the size of {name} is given twice: {shown(sizes[name])} and {shown(value)}"
                self.mistakes.append(Mistake("PM559", what, "Give it once."))
            else:
                sizes[name] = value
        if strange:
            like = "length=128, x[0]=1 or x=1x3x224x224" if is_model else "m=512"
            told = f"{listing(strange)} {'is no size' if len(strange) == 1 else 'are no sizes'}"
            machine = next((f" A machine is given as --arch {each}." for each in words if each in preset_names()), "")
            self.mistakes.append(Mistake("PM557", told, f"Sizes are written like {like}.{machine}"))
        return tuple(sizes.items())


def _decimal(text: str) -> Fraction | None:
    """Return the finite number that an ASCII text denotes, or None."""
    if not text.isascii() or "_" in text or text != text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return as_fraction(value) if math.isfinite(value) else None


def commands() -> dict[str, tuple[str, ...]]:
    """Return each command with its options, as completion scripts need them."""
    return {name: command.options for name, command in _COMMANDS.items()}
