"""From a layer to a function that computes it on the host: the search's mapping, printed, compiled and loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from polymap.asked import question_of
from polymap.codegen.library import NativeCall, PackedWeights, load_function
from polymap.codegen.native import LAYOUTS, NativeFunction, memory_steps, native_function, vector_dims
from polymap.cpu import CpuChoice, choice_lines, choose_cpu_mapping, facts_of, plain_mapping
from polymap.inputs import shown
from polymap.ir import Architecture, Mistake, OptionError, Workload, WorkloadError
from polymap.search.run import SearchResult

_MOST_THREADS = 1024
_NAME = "polymap_native"


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A layer as a function: `y = fn(x, w)`, `fn(x, fn.pack_weights(w), out=y)`. Calls hold no state and may overlap.

    result: the search's answer (None where no mapping with vectors was found); source: the C text; reason: why it has
    no vectors, or empty.
    """

    workload: Workload = field(repr=False)
    arch: Architecture = field(repr=False)
    layout: str
    threads: int
    choice: CpuChoice | None = field(repr=False)
    function: NativeFunction = field(repr=False)
    loaded: NativeCall = field(repr=False)

    def __call__(self, *arrays: object, out: object = None) -> Any:
        """Return the output (of several a tuple) of arrays in the order of the workload's operands.

        out: the array it is written to (of several a tuple); otherwise a new one. Raises InputError (PM630 to PM637)
        for arrays of another type, shape or order, and for outputs that overlap operands.
        """
        started = frozenset[str]()
        if out is None:
            started = frozenset(tensor.name for tensor in self.workload.tensors if tensor.initial)
        return self.loaded.call(arrays, out, started)

    def pack_weights(self, weights: object) -> PackedWeights:
        """Return the operand `packed` (by default the last one) in the order that the function reads it in."""
        return self.loaded.pack_weights(weights)

    @property
    def result(self) -> SearchResult | None:
        return None if self.choice is None else self.choice.result

    @property
    def source(self) -> str:
        return self.function.text

    @property
    def reason(self) -> str:
        return self.function.reason

    @property
    def packed(self) -> str | None:
        return self.function.packed


def compile(
    workload: Workload | str,
    arch: Architecture | str = "host_cpu",
    *,
    layout: str = "NHWC",
    threads: int = 1,
    time_limit_s: float = 15,
) -> CompiledFunction:
    """Return a layer as a function on arrays, computed by C code in the order of the mapping that the search chose.

    layout: of a convolution's arrays: "NHWC" (x[N,H,W,C], w[K,R,S,C/groups], y[N,P,Q,K]) or "NCHW" (x[N,C,H,W],
    w[K,C/groups,R,S], y[N,K,P,Q]). Other workloads take their tensors as they are written: first those only read, in
    order, and return the one written. threads: cores that a call may use (OpenMP).

    Nothing is run to choose the mapping. Raises WorkloadError where element types are missing (PM621), OptionError for
    an unknown layout or number of threads (PM638), ArchError for a machine that is no processor (PM122), CompilerError
    if there is no compiler (PM602) or it fails (PM603).
    """
    workload, arch = question_of(workload, arch)
    choice, function = native_code(workload, arch, _NAME, layout=layout, threads=threads, time_limit_s=time_limit_s)
    loaded = load_function(function, threads)
    return CompiledFunction(workload, arch, layout, threads, choice, function, loaded)


def native_code(
    workload: Workload, arch: Architecture, name: str, *, layout: str, threads: int, time_limit_s: float
) -> tuple[CpuChoice | None, NativeFunction]:
    """Return the mapping chosen for a processor and its C function. Raises as `compile` does, except CompilerError."""
    _check_options(layout, threads)
    if len(workload.statements) != 1 or workload.original is not None:
        what = "a function is compiled for one statement, and this is a C program or has several"
        hint = "transform_c() writes a C function with its loops in a better order, which your compiler takes."
        raise WorkloadError(Mistake("PM639", what, hint))
    facts = facts_of(arch)
    target = workload.tensor(workload.statements[0].target.tensor)
    dims = vector_dims(workload, layout, max(1, facts.vector_bits // target.bits))
    steps = memory_steps(workload, layout)
    choice = choose_cpu_mapping(workload, arch, dims, steps=steps, threads=threads, time_limit_s=time_limit_s)
    mapping = plain_mapping(workload, arch) if choice is None else choice.mapping
    machine = arch if choice is None else choice.arch
    remark = _remark(workload, choice, layout, threads)
    return choice, native_function(workload, machine, mapping, name=name, layout=layout, threads=threads, remark=remark)


def _check_options(layout: str, threads: int) -> None:
    mistakes: list[Mistake] = []
    if layout not in LAYOUTS:
        mistakes.append(Mistake("PM638", f"layout is {shown(layout)}", f"Expected {' or '.join(LAYOUTS)}."))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= _MOST_THREADS:  # pyright: ignore[reportUnnecessaryIsInstance]
        mistakes.append(Mistake("PM638", f"threads is {shown(threads)}", f"Expected 1 to {_MOST_THREADS}."))
    if mistakes:
        raise OptionError(mistakes)


def _remark(workload: Workload, choice: CpuChoice | None, layout: str, threads: int) -> str:
    """Return the comment at the head of the C text: the question, the nest, its predicted traffic, how sure that is."""
    name = workload.name or "a layer"
    lines = [f"{name}, layout {layout}, {threads} thread{'s' if threads > 1 else ''}; written by polymap."]
    lines.append("To build it: cc -O3 -march=native -ffp-contract=fast -fopenmp")
    if choice is None:
        lines.append("No mapping with vectors: plain loops.")
    else:
        lines += ["", *choice_lines(workload, choice)]
    return "\n".join(lines).encode("ascii", "replace").decode("ascii").replace("/*", "/ *")
