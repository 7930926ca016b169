"""A native function: one C translation unit without globals that computes a workload on its caller's arrays.

    void NAME(const T *restrict I, const T *restrict W, T *restrict O);
    long NAME_packed_elements(void);                          elements of the packed weights, 0: nothing is packed
    void NAME_pack(const T *restrict W, T *restrict packed);
    void NAME_with_packed(const T *restrict I, const T *restrict packed, T *restrict O);
"""

from __future__ import annotations

from dataclasses import dataclass

from polymap.codegen.c import Block, For, If, Int, Name, Stmt, lines_of
from polymap.codegen.native.arrays import ArrayForm, array_forms
from polymap.codegen.native.kernel import Kernel, dim_names, kernel_text
from polymap.codegen.native.outer import outer_loops
from polymap.codegen.native.plan import KernelPlan, NoPlan, Operand, kernel_plan, panel_elements, vector_starts
from polymap.codegen.native.scalar import scalar_function
from polymap.codegen.native.variants import kernels
from polymap.ir import Architecture, Mapping, Workload

_HEAD = """#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
"""


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A C text and what its caller needs. packed: the array that may be packed ahead, or None; reason: why the text
    has no vectors, or empty."""

    name: str
    text: str
    arrays: tuple[ArrayForm, ...]
    packed: str | None
    packed_elements: int
    reason: str

    @property
    def declarations(self) -> str:
        """The functions that callers may use, as a header declares them."""
        found = [f"{_signature(self.name, self.arrays, None)};"]
        if self.packed is not None:
            form = next(each for each in self.arrays if each.tensor == self.packed)
            found.append(f"long {self.name}_packed_elements(void);")
            found.append(f"{_pack_signature(self.name, form)};")
            found.append(f"{_signature(f'{self.name}_with_packed', self.arrays, self.packed)};")
        return "\n".join(found) + "\n"


def native_function(
    workload: Workload,
    arch: Architecture,
    mapping: Mapping,
    *,
    name: str,
    layout: str = "NHWC",
    threads: int = 1,
    remark: str = "",
) -> NativeFunction:
    """Return the function of a mapping.

    remark: lines of the comment at its head. Raises WorkloadError where an element type has no form in C.
    """
    arrays = array_forms(workload, layout)
    comment = "".join(f" * {line}\n".replace("*/", "* /") for line in remark.splitlines())
    head = f"/*\n{comment} */\n" if comment else ""
    try:
        plan = kernel_plan(workload, arch, mapping, arrays)
        numbers = kernels(plan)
    except NoPlan as reason:
        body = scalar_function(workload, arch, mapping, arrays, threads)
        text = f"{head}{_HEAD}\n{_signature(name, arrays, None)}\n{{\n" + "\n".join(lines_of(body, 1)) + "\n}\n"
        return NativeFunction(name, text, arrays, None, 0, str(reason))
    parts = [head + _HEAD + _types(plan)]
    prefix = f"{name}_tile"
    for sides, number in numbers.items():
        kernel = Kernel(plan, f"{prefix}{number}", dict(zip(plan.tile, sides, strict=False)), sides[-1].size)
        parts.append(kernel_text(kernel).lines)
    packed = [operand for operand in plan.operands if operand.is_packed]
    loops = outer_loops(plan, numbers, prefix, threads)
    parts += _packers(name, plan, packed)
    parts += _entries(name, arrays, plan, packed, loops)
    ahead = packed[0].form.tensor if len(packed) == 1 else None
    elements = panel_elements(plan, packed[0]) if ahead is not None else 0
    return NativeFunction(name, "\n".join(parts) + "\n", arrays, ahead, elements, "")


def _signature(name: str, arrays: tuple[ArrayForm, ...], packed: str | None) -> str:
    texts = [
        f"{'' if form.is_written else 'const '}{form.c_type} *restrict "
        f"{form.parameter}{'_packed' if form.tensor == packed else ''}"
        for form in arrays
    ]
    return f"void {name}({', '.join(texts)})"


def _pack_signature(name: str, form: ArrayForm) -> str:
    own = f"const {form.c_type} *restrict {form.parameter}"
    return f"void {name}_pack({own}, {form.c_type} *restrict {form.parameter}_packed)"


def _types(plan: KernelPlan) -> str:
    """Return the vector types and the copies of parts of vectors."""
    kind = plan.accumulator
    size = plan.lanes * {"float": 4, "double": 8, "int16_t": 2}.get(kind, 8 if "64" in kind else 4)
    lines = [f"typedef {kind} vec __attribute__((vector_size({size})));"]
    widths = {"float": 4, "double": 8}
    for c_type in dict.fromkeys([kind, *(each.form.c_type for each in plan.operands if each.is_vector)]):
        width = widths.get(c_type) or int("".join(c for c in c_type if c.isdigit())) // 8
        lines.append(
            f"typedef {c_type} any_{c_type} "
            f"__attribute__((vector_size({plan.lanes * width}), aligned({width}), may_alias));"
        )
    if any(each.form.kind == "bfloat16" for each in plan.operands):
        lines.append(f"typedef uint32_t bits_vec __attribute__((vector_size({plan.lanes * 4})));")
        lines.append(
            "static inline float bfloat16_value(uint16_t half)\n{\n    const uint32_t bits = (uint32_t)half << 16;\n"
            "    float value;\n    memcpy(&value, &bits, sizeof value);\n    return value;\n}"
        )
    lines.append(
        f"static inline void get(const {kind} *from, long step, vec *to, int n)\n{{\n    {kind} part[{plan.lanes}] = {{0}};"
        "\n    for (int i = 0; i < n; ++i)\n        part[i] = from[step * i];\n    memcpy(to, part, sizeof part);\n}"
    )
    lines.append(
        f"static inline void put({kind} *to, long step, const vec *from, int n)\n{{\n    {kind} part[{plan.lanes}];\n"
        "    memcpy(part, from, sizeof part);\n    for (int i = 0; i < n; ++i)\n        to[step * i] = part[i];\n}"
    )
    return "\n".join(lines)


def _packers(name: str, plan: KernelPlan, packed: list[Operand]) -> list[str]:
    """Return the functions that bring each packed array into panels."""
    found: list[str] = []
    for number, operand in enumerate(packed):
        own = name if len(packed) == 1 else f"{name}{number}"
        body = _pack_loops(plan, operand)
        storage = "" if len(packed) == 1 else "static "
        if not storage:
            found.append(f"\nlong {name}_packed_elements(void)\n{{\n    return {panel_elements(plan, operand)};\n}}")
        lines = "\n".join(lines_of(body, 1))
        found.append(f"\n{storage}{_pack_signature(own, operand.form)}\n{{\n{lines}\n}}")
    return found


def _pack_loops(plan: KernelPlan, operand: Operand) -> Block:
    names = dim_names(plan)
    source = operand.form.linear(next(a for a in plan.statement.reads if a.tensor == operand.form.tensor))
    dims = [dim for dim in (*plan.tile, *plan.reductions) if dim in operand.at.factors]
    width = plan.slots * plan.lanes
    to = " + ".join([f"{operand.at.of(d)}L * {names[d]}" for d in dims] + [f"{operand.at.of(plan.vector)}L * panel", "lane"])
    at = f"panel * {plan.block} + lane"
    terms = [f"{source.of(d)}L * {names[d]}" for d in dims] + [f"{source.of(plan.vector)}L * ({at})"]
    own = operand.form.parameter
    whole = f"lane < {plan.block} && {at} < {plan.extents[plan.vector]}"
    zero = f"({operand.form.c_type})0"
    value = f"{own}_packed[{to}] = {whole} ? {own}[{' + '.join(terms)}] : {zero}"
    body: Block = (For("lane", Int(0), Int(width), (_plain(value),)),)
    for dim in reversed([d for d in dims if d in plan.reductions]):
        body = (For(names[dim], Int(0), Int(plan.extents[dim]), body),)
    body = (For("panel", Int(0), Int(len(vector_starts(plan))), body),)
    for dim in reversed([d for d in dims if d in plan.tile]):
        body = (For(names[dim], Int(0), Int(plan.extents[dim]), body),)
    return body


def _plain(text: str) -> Stmt:
    from polymap.codegen.c import Copy

    target, _, value = text.partition(" = ")
    return Copy(Name(target), Name(value))


def _entries(
    name: str, arrays: tuple[ArrayForm, ...], plan: KernelPlan, packed: list[Operand], loops: Block
) -> list[str]:
    """Return the functions for callers: on packed weights, and on weights as they are."""
    lines = "\n".join(lines_of(loops, 1))
    if not packed:
        return [f"\n{_signature(name, arrays, None)}\n{{\n{lines}\n}}"]
    inner, storage = f"{name}_with_packed", "" if len(packed) == 1 else "static "
    own = {operand.form.tensor for operand in packed}
    signature = _signature(inner, arrays, None)
    for form in arrays:
        if form.tensor in own:
            signature = signature.replace(f"*restrict {form.parameter}", f"*restrict {form.parameter}_packed")
    found = [f"\n{storage}{signature}\n{{\n{lines}\n}}"]
    body: list[str] = []
    for number, operand in enumerate(packed):
        form = operand.form
        bytes_ = f"{panel_elements(plan, operand)}L * (long)sizeof({form.c_type})"
        caller = name if len(packed) == 1 else f"{name}{number}"
        body.append(f"    {form.c_type} *const {form.parameter}_packed = malloc((size_t)({bytes_}));")
        body.append(f"    if (!{form.parameter}_packed)\n        abort(); /* no memory for the packed weights */")
        body.append(f"    {caller}_pack({form.parameter}, {form.parameter}_packed);")
    names = [f"{form.parameter}_packed" if form.tensor in own else form.parameter for form in arrays]
    body.append(f"    {inner}({', '.join(names)});")
    body += [f"    free({operand.form.parameter}_packed);" for operand in packed]
    return [*found, f"\n{_signature(name, arrays, None)}\n{{\n" + "\n".join(body) + "\n}"]
