"""`polymap codegen --native` for a processor: a C function to ship, its header, and a shared object of it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from polymap.cli.arguments import Options
from polymap.cli.exit_codes import ExitCode
from polymap.cli.interrupt import interrupts_wait
from polymap.cli.output import Document, say, write_documents
from polymap.inputs import shown, unwritten
from polymap.ir import Architecture, FanoutKind, Mistake, OptionError, OutputError, Workload
from polymap.search import cost_document, head_document, json_text, mapping_document
from polymap.workload.c import KEYWORDS

if TYPE_CHECKING:  # loads isl
    from polymap.codegen.native import NativeFunction, Requantize

_STEPS = ("bias", "add", "relu")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that a function cannot be named by: of C, of the headers that the text includes, and of the system's libraries.
_TAKEN = KEYWORDS.union(
    ("main", "asm", "typeof", "malloc", "calloc", "realloc", "free", "abort", "exit", "system", "memcpy", "memset"),
    ("memmove", "printf", "aligned_alloc", "vec"),
)


def asks_function(options: Options, arch: Architecture) -> bool:
    """Return whether the words ask for a function: with its own options, or for a processor and a mapping of no one's
    choice. Otherwise `--native` is a program of the mapping given or searched for, with main."""
    own = options.header or options.shared or options.layout or options.tail or options.threads or options.fma or None
    given = options.mapping or options.run or options.searches
    lanes = any(fanout.kind is FanoutKind.LANE for fanout in arch.fanouts)
    return options.native and (own is not None or (lanes and not given))


def write_function(options: Options, workload: Workload, arch: Architecture) -> int:
    """Write the C function, and what was asked for beside it; return the exit code. Raises what `compile` raises."""
    with interrupts_wait():
        from polymap.codegen import native_code
        from polymap.codegen.native import build_shared

    threads = options.threads or 1
    tail = () if options.tail is None else tail_steps(options.tail)
    name = function_name(options.output)
    choice, function = native_code(
        workload,
        arch,
        name,
        layout=options.layout or "NHWC",
        threads=threads,
        tail=tail,
        fma=options.fma,
        time_limit_s=min(options.time_limit_s, 15) if options.has_time_limit else None,
    )
    text = function.text if options.header is None else _including(function.text, options.header, options.output)
    documents: list[Document] = []
    if options.json is not None:
        document = head_document("program", workload, arch) | {"code": text, "reason": function.reason or None}
        if choice is not None:
            document |= {"mapping": mapping_document(choice.mapping), "cost": cost_document(choice.cost)}
        documents.append(Document(options.json, json_text(document)))
    if options.output is not None or options.json != "-":
        documents.append(Document(options.output or "-", text))
    if options.header is not None:
        documents.append(Document(options.header, header_text(workload, function, threads)))
    if function.reason:
        say(f"polymap: warning: plain loops, no vectors: {function.reason}")
    if options.shared is None:
        write_documents(documents)
        return ExitCode.ANSWERED
    target = Path(options.shared)
    try:
        with tempfile.TemporaryDirectory(prefix=".polymap-", dir=target.parent) as place:
            built = build_shared(function.text, Path(place), threads, function.flags)
            write_documents(documents)
            os.replace(built, target)
    except OSError as error:
        raise OutputError(unwritten(options.shared, error.strerror or str(error))) from None
    return ExitCode.ANSWERED


def tail_steps(text: str) -> tuple[str | Requantize, ...]:
    """Return the steps of a text such as "bias,relu,int8:0.01:-128": names, and TYPE:SCALE:ZERO of a requantisation,
    of which an empty scale means an array with one per channel.

    Raises OptionError (PM623) for other names, and numbers that are none; `compile` checks the rest.
    """
    from polymap.codegen.native import NARROW, Requantize

    found: list[str | Requantize] = []
    for step in text.split(","):
        name, *numbers = step.strip().split(":")
        if step.strip() in _STEPS:
            found.append(step.strip())
            continue
        if name not in NARROW:
            hint = f"Expected {', '.join(_STEPS)}, or TYPE:SCALE:ZERO of {', '.join(NARROW)}."
            raise OptionError(Mistake("PM623", f"--tail has the step {shown(step)}", hint))
        try:
            scale, zero = [*numbers, "", ""][:2]
            if len(numbers) > 2:
                raise ValueError
            found.append(Requantize(float(scale) if scale else None, int(zero or 0), name))
        except ValueError:
            hint = f"Expected {name}:SCALE:ZERO, such as {name}:0.01:3, or {name} for an array of scales."
            raise OptionError(Mistake("PM623", f"--tail has the step {shown(step)}", hint)) from None
    return tuple(found)


def function_name(output: str | None) -> str:
    """Return the name of the C function for an output file: its stem where that is a name in C, else made one."""
    stem = Path(output).stem if output not in (None, "-") else "layer"
    plain = re.sub("[^A-Za-z0-9_]", "_", stem)[:48].strip("_")
    if not _PLAIN.fullmatch(plain) or plain in _TAKEN or plain.startswith("__"):
        plain = f"layer_{plain}".rstrip("_")
    return plain


def _including(text: str, header: str, output: str | None) -> str:
    """Return the C text with its own header included behind the comment at its head."""
    path = Path(header).name if output in (None, "-") else os.path.relpath(header, Path(output).parent or ".")
    if set('"\\\n\r') & set(path):  # C gives such a path no meaning of its own
        return text
    end = text.index("*/\n") + 3 if text.startswith("/*") else 0
    return f'{text[:end]}#include "{path}"\n{text[end:]}'


def header_text(workload: Workload, function: NativeFunction, threads: int) -> str:
    """Return a header for C and C++: what callers must know, and the functions that they may use."""
    guard = f"POLYMAP_{function.name.upper()}_H"
    restrict = '#ifdef __cplusplus\n#define restrict __restrict\nextern "C" {\n#endif\n'
    end = "#ifdef __cplusplus\n}\n#undef restrict\n#endif\n"
    told = "\n".join(f" * {line}".rstrip() for line in _contract(workload, function, threads))
    head = f"#ifndef {guard}\n#define {guard}\n\n/*\n{_plain(told)}\n */\n\n#include <stdint.h>\n\n"
    return f"{head}{restrict}\n{function.declarations}\n{end}\n#endif\n"


def _plain(text: str) -> str:
    """Return a text that may stand in a comment of C."""
    return text.encode("ascii", "replace").decode("ascii").replace("*/", "* /").replace("/*", "/ *")


def _contract(workload: Workload, function: NativeFunction, threads: int) -> Iterator[str]:
    """Yield the lines that tell shapes, layout, alignment, what is read and written, and who may call at once."""
    yield f"{function.name}: {workload.name or 'a program'}; written by polymap. All sizes are fixed."
    yield ""
    yield "Arrays, in order (rows follow each other without gaps; a pointer points to the element with all indices 0):"
    initial = {tensor.name for tensor in workload.tensors if tensor.initial}
    for form in function.arrays:
        used = "read and written" if form.tensor in initial else "written"
        kind = "" if form.kind != "bfloat16" else " (the bits of bfloat16)"
        shape = "".join(f"[{size}]" for size in form.shape) or ", one element"
        yield f"  {form.c_type} {form.parameter}{shape}{kind}: {used if form.is_written else 'only read'}"
    if workload.original is not None:
        yield "Elements that the text does not write keep their values."
    yield "Each is aligned as its elements require; 64 bytes are fastest. What is written overlaps no other array."
    yield "Calls keep no state: several threads may call at once, where none writes what another one reads or writes."
    if threads > 1:
        yield f"Each call runs on up to {threads} threads of OpenMP."
    if "abort();" in function.text:
        yield "Memory of its own is allocated and freed in each call; without it the process ends by abort()."
    if function.packed is not None:
        name, tensor = function.name, function.packed
        yield f"{name}_pack puts {tensor} into the order in which {name}_with_packed reads it: {name}_packed_elements()"
        yield "elements, which hold for any number of calls."
