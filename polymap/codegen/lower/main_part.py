"""The last part of every generated program: it reads and writes tensor values and prints the counters."""

from __future__ import annotations

from polymap.codegen.lower.buffers import Buffer, Layout, forms_of
from polymap.codegen.lower.elements import has_values_at_start
from polymap.codegen.lower.expressions import operations_of
from polymap.codegen.lower.prelude import EXTREMES, FLOAT_EXTREMES, INCLUDES, MAIN, PRINT_COUNTS, RANDOM, TRANSFER
from polymap.ir import Operator, PlaceRule, Workload

_EXTREMES = (Operator.MAX, Operator.MIN)
KINDS = ("reads", "writes", "fills", "drains")


def has_floors(workload: Workload) -> bool:
    """Return whether the program contains a floor division."""
    return any(not form.is_linear for form in forms_of(workload))


def includes(layout: Layout) -> str:
    """Return the headers that the program needs."""
    floats = any(kind.is_float for kind in layout.types.values())
    called = {name for each in layout.nest.workload.statements for name in operations_of(each.expression)}
    functions = any(name.isalnum() for name in called - {"neg", "max", "min"})
    return INCLUDES + ("#include <math.h>\n" if floats or functions else "")


def extremes(layout: Layout) -> str:
    """Return the macros for maxima and minima that the program needs."""
    accumulated = {each.target.tensor for each in layout.nest.workload.statements if each.operator in _EXTREMES}
    kinds = {layout.types[name] for name in accumulated}
    return EXTREMES + (FLOAT_EXTREMES if any(kind.is_float and kind.sum_type for kind in kinds) else "")


def main_text(layout: Layout, *, counted: bool) -> str:
    """Return the C text that reads and writes the tensors' values, runs the nest, and prints the counters if it has
    any."""
    reads, fills, starts, writes, prints = "", "", "", "", ""
    for buffer in layout.buffers:
        if buffer.place.level:
            continue
        tensor = layout.nest.workload.tensor(buffer.place.tensor)
        kind = layout.types[tensor.name]
        if has_values_at_start(layout.nest.workload, tensor):
            reads += _transfer("input", buffer, 0)
            fills += _fill(buffer, kind.c_type, kind.low, kind.high)
        if layout.is_written(tensor.name) and not tensor.temporary:
            writes += _transfer("output", buffer, 1)
        if tensor.initial and buffer.rule is not PlaceRule.READ_ONLY:
            starts += f"    memset({buffer.name}_partial, 1, sizeof {buffer.name}_partial);\n"
    for row, label in {buffer.row: buffer.label for buffer in layout.buffers}.items():
        values = ", ".join(f"{kind}_{row}" for kind in KINDS)
        prints += f'    printf("{label} %llu %llu %llu %llu\\n", {values});\n'
    if not counted:
        starts, prints = "", ""
    parts = {"reads": reads, "fills": fills, "starts": starts, "writes": writes}
    report = PRINT_COUNTS.format(prints=prints) if counted else ""
    used = (RANDOM if fills else "") + (TRANSFER if reads or writes else "")
    return report + used + MAIN.format(**parts, report="    print_counts();\n" if counted else "")


def _transfer(file: str, buffer: Buffer, writes: int) -> str:
    return f"        transfer({file}, {buffer.name}, sizeof *{buffer.name}, {buffer.slots}, {writes});\n"


def _fill(buffer: Buffer, c_type: str, low: int, high: int) -> str:
    head = f"        for (size_t i = 0; i < {buffer.slots}; ++i) {{\n"
    return f"{head}            {buffer.name}[i] = ({c_type})random_number({low}, {high});\n        }}\n"
