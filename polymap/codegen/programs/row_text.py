"""The C function of a program that runs by blocks of rows: products in vector registers, lanes in vectors."""

from __future__ import annotations

from collections.abc import Sequence

from polymap.codegen import lower
from polymap.codegen.native import NativeFunction, signature
from polymap.codegen.programs.row_form import Product, RowForm, Sweep, row_form
from polymap.codegen.programs.row_plan import RowPlan, row_plan
from polymap.codegen.programs.row_products import (
    call_of_tiles,
    loop_text,
    packing_lines,
    product_texts,
    scaled_index,
    sum_text,
)
from polymap.codegen.programs.vector_math import has_functions, helpers, in_vectors
from polymap.codegen.source import TUNING, Core
from polymap.ir import Access, Apply, Operator, Read, Statement, Workload

# Quotients by one value of a row are products with its reciprocal where that has full precision.
_PLAIN_DIVISORS = {"float": ("1e-30f", "1e30f"), "double": ("1e-300", "1e300")}
_STARTS = {Operator.ADD: "0", Operator.MULTIPLY: "1", Operator.MAX: "-HUGE_VAL", Operator.MIN: "HUGE_VAL"}


def row_function(
    workload: Workload, facts: Core, *, name: str, threads: int = 1, remark: str = ""
) -> NativeFunction | None:
    """Return the function that computes a program by blocks of rows; None for programs of another form.

    Sums are added up in another order, products are fused with additions, and exp and tanh are those of vector_math.py.
    """
    form = row_form(workload)
    plan = None if form is None or not _pays(form) else row_plan(form, facts)
    if form is None or plan is None:
        return None
    products = "".join(product_texts(plan, name))
    lines = [*_loop_over_blocks(plan, name, threads)]
    body = "\n".join(lines)
    head = (
        lower.comment_of(remark) + lower.LIBRARIES + lower.RESTRICT + (lower.OPENMP_HINTS if "#pragma" in body else "")
    )
    head += lower.WIDE.format(bits=facts.vector_bits) + "\n"
    head += lower.ALIGNED_ALLOC if _is_heap(plan) else ""
    head += (lower.EXTREMES if "MAX(" in body or "MIN(" in body else "") + helpers(body)
    text = f"{head}{products}\nWIDE {signature(name, form.callers)}\n{{\n{body}\n}}\n"
    return NativeFunction(name, text, form.callers, None, 0, "")


def _pays(form: RowForm) -> bool:
    """Return whether a form has more than plain loops over lanes have."""
    has_products = any(isinstance(each, Product) for each in form.steps)
    return (
        len(form.steps) > 1 or has_products or any(map(has_functions, (s.expression for s in form.workload.statements)))
    )


def _loop_over_blocks(plan: RowPlan, name: str, threads: int) -> list[str]:
    form = plan.form
    blocks = plan.blocks
    groups = form.extent(form.outer)
    lines: list[str] = []
    pad = "    "
    if threads > 1:
        lines.append(f"#pragma omp parallel for schedule(static) num_threads({threads})")
        lines.append(f"    for (long part = 0; part < {threads}; ++part) {{")
        pad = "        "
    inner = [*_scratch(plan), *(_own_part(groups * blocks, threads) if threads > 1 else [])]
    inner += [f"long packed{each.number} = -1;" for each in plan.tiles.values() if each.packed >= 0]
    body = [*_indices(plan, blocks), *_steps(plan, name)]
    if threads > 1:
        inner += ["for (long at = first; at < last; ++at) {", *_indent_lines(body), "}"]
    else:
        inner += loop_text("at", 0, groups * blocks, 1, body)
    inner += ["free(scratch);"] if _is_heap(plan) else []
    lines += [f"{pad}{line}".rstrip() for line in inner]
    return [*lines, "    }"] if threads > 1 else lines


def _is_heap(plan: RowPlan) -> bool:
    return plan.bytes > TUNING.temporaries_on_stack_bytes


def _scratch(plan: RowPlan) -> list[str]:
    kind = plan.c_type
    if not _is_heap(plan):
        return [f"{lower.ALIGNED_ARRAY} {kind} scratch[{plan.size}];"]
    size = plan.bytes + -plan.bytes % lower.LINE_BYTES
    return [
        f"{kind} *const scratch = ({kind} *)aligned_alloc({lower.LINE_BYTES}, {size});",
        "if (!scratch)",
        "    abort(); /* no memory for the temporary arrays */",
    ]


def _own_part(total: int, threads: int) -> list[str]:
    return [f"const long first = {total}L * part / {threads}, last = {total}L * (part + 1) / {threads};"]


def _indices(plan: RowPlan, blocks: int) -> list[str]:
    """Return the declarations of a block's group, its first row and how many it has, and its temporaries."""
    form, extents = plan.form, plan.form.workload.extents()
    lines: list[str] = []
    rest = "at"
    if blocks > 1:
        lines.append(f"const long row = at % {blocks} * {plan.block};")
        rest = f"at / {blocks}"
    is_even, left = plan.count % plan.block == 0, f"{plan.count} - row"
    if not is_even:
        lines.append(f"const long rows = {left} < {plan.block} ? {left} : {plan.block};")
    elif any(isinstance(each, Sweep) for each in form.steps) and plan.block > 1:
        lines.append(f"const long rows = {plan.block};")
    groups = _groups(form)
    for number, dim in reversed(groups):
        is_first = number == groups[0][0]
        lines.append(f"const long g{number} = {rest}{'' if is_first else f' % {extents[dim]}'};")
        rest = f"{rest} / {extents[dim]}"
    for tensor, place in plan.places.items():
        lines.append(f"{plan.c_type} *const {pointer(plan, tensor)} = {sum_text('scratch', place)};")
    return lines


def _groups(form: RowForm) -> list[tuple[int, str]]:
    """Return the dims of the rows' groups that have several values, with their numbers."""
    return [(number, dim) for number, dim in enumerate(form.outer) if form.extent((dim,)) > 1]


def pointer(plan: RowPlan, tensor: str) -> str:
    """Return the name of a tensor's array in C; temporaries are those of a block."""
    return (
        plan.form.forms[tensor].parameter
        if not plan.form.is_scratch(tensor)
        else f"t_{plan.form.forms[tensor].parameter}"
    )


def start(plan: RowPlan, access: Access, row: str) -> str:
    """Return the address of the first element that an access touches in a row."""
    form = plan.form
    if form.is_scratch(access.tensor):
        step, terms = plan.stride(access.tensor), list[str]()
    else:
        factors, step = form.factors(access), form.row_step(access)
        terms = [scaled_index(f"g{n}", factors.get(dim, 0)) for n, dim in _groups(form)]
    if form.is_scratch(access.tensor) or plan.blocks == 1:  # rows are counted from the first of a block
        row = row.removeprefix("row").removeprefix(" + ")
    return sum_text(pointer(plan, access.tensor), *terms, scaled_index(row, step) if row else "")


def _steps(plan: RowPlan, name: str) -> list[str]:
    lines: list[str] = []
    done: set[str] = set()
    for number, step in enumerate(plan.form.steps):
        if isinstance(step, Product):
            tile = plan.tiles[number]
            matrix, target = step.statement.reads[step.b], step.statement.target
            lines += packing_lines(plan, tile, start(plan, matrix, ""))
            a = start(plan, step.statement.reads[step.a], "row")
            lines += call_of_tiles(plan, tile, name, a, start(plan, matrix, ""), start(plan, target, "row"))
            done.add(target.tensor)
        else:
            lines += _sweep(plan, step, done)
            done |= {each.target.tensor for each in step.statements}
    return lines


def _sweep(plan: RowPlan, step: Sweep, done: set[str]) -> list[str]:
    """Return a loop over the rows of a block, with one over their lanes. done: tensors that have values."""
    inside = _Inside(plan, step, frozenset(done))
    body = inside.lines()
    if inside.divisors:
        by_products = _Inside(plan, step, frozenset(done), inside.divisors)
        products, (least, most) = by_products.lines(), _PLAIN_DIVISORS[plan.c_type]
        size = "fabsf" if plan.c_type == "float" else "fabs"
        plain = [f"{size}({each}) > {least} && {size}({each}) < {most}" for each in inside.divisors]
        heads = [f"const {plan.c_type} r{n} = 1 / {each};" for n, each in enumerate(inside.divisors)]
        body = [
            f"if ({' && '.join(plain)}) {{",
            *_indent_lines([*heads, *products]),
            "} else {",
            *_indent_lines(body),
            "}",
        ]
    if plan.block == 1:
        return ["{", *_indent_lines(body), "}"]
    return ["for (long u = 0; u < rows; ++u) {", *_indent_lines(body), "}"]


def _indent_lines(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Inside:
    """The code of one row of a sweep. divisors: values of the row that lanes are divided by; reciprocals: those whose
    reciprocals are variables."""

    def __init__(self, plan: RowPlan, step: Sweep, done: frozenset[str], reciprocals: Sequence[str] = ()) -> None:
        self.plan, self.step, self.done = plan, step, set(done)
        self.divisors: list[str] = []
        self.reciprocals = reciprocals
        self.names: dict[tuple[Access, bool], str] = {}
        self.head: list[str] = []

    def lines(self) -> list[str]:
        if not self.step.extent:
            return [line for each in self.step.statements for line in self._assign(each, "")]
        before: list[str] = []
        after: list[str] = []
        body: list[str] = []
        sums: list[str] = []
        for number, (each, lane) in enumerate(zip(self.step.statements, self.step.lanes, strict=True)):
            if lane in each.target.dims:
                body += self._assign(each, lane)
                continue
            place = self._element(each.target, "")
            first = place if each.target.tensor in self.done else _STARTS[each.operator]
            value = self._value(each, lane)
            if self.step.finds_extreme:
                return self._extreme(each, place, first, value)
            symbol = "+" if each.operator is Operator.ADD else "*"
            before.append(f"{self.plan.c_type} s{number} = {first};")
            body.append(f"s{number} = s{number} {symbol} {value};")
            after.append(f"{place} = s{number};")
            sums.append(f" reduction({symbol}:s{number})")
        loop = [f"#pragma omp simd{''.join(sums)}", f"for (long i = 0; i < {self.step.extent}; ++i) {{"]
        return [*self.head, *before, *loop, *(f"    {line}" for line in body), "}", *after]

    def _extreme(self, each: Statement, place: str, first: str, value: str) -> list[str]:
        """Return a maximum or minimum in several parts, which compilers find vectors for; what is no number loses."""
        parts, extent = TUNING.extreme_vectors * self.plan.lanes, self.step.extent
        symbol = ">" if each.operator is Operator.MAX else "<"
        whole, rest = extent - extent % parts, extent % parts
        kind = self.plan.c_type
        update = [
            f"const {kind} v = {value};",
            f"part[l] = v {symbol} part[l] ? v : part[l];",
        ]
        lines = [*self.head, f"{kind} part[{parts}];", f"for (long l = 0; l < {parts}; ++l)", f"    part[l] = {first};"]
        if whole:
            lines += loop_text("j", 0, whole, parts, loop_text("l", 0, parts, 1, ["const long i = j + l;", *update]))
        if rest:
            lines += loop_text("l", 0, rest, 1, [f"const long i = {sum_text(whole, 'l')};", *update])
        length = parts
        while length > 1:
            length //= 2
            update = f"part[l] = part[l + {length}] {symbol} part[l] ? part[l + {length}] : part[l];"
            lines += loop_text("l", 0, length, 1, [update])
        return [*lines, f"{place} = part[0];"]

    def _assign(self, each: Statement, lane: str) -> list[str]:
        place, value = self._element(each.target, lane), self._value(each, lane)
        is_first = each.operator is Operator.ASSIGN or each.target.tensor not in self.done
        self.done.add(each.target.tensor)
        if is_first:
            return [f"{place} = {value};"]
        if each.operator in (Operator.ADD, Operator.MULTIPLY):
            return [f"{place} = {place} {'+' if each.operator is Operator.ADD else '*'} {value};"]
        return [f"{place} = {'MAX' if each.operator is Operator.MAX else 'MIN'}({value}, {place});"]

    def _value(self, each: Statement, lane: str) -> str:
        kinds = tuple(self.plan.form.kind for _ in each.reads)
        value = in_vectors(each.expression, kinds, self.plan.form.kind)
        operands = tuple(lower.Name(self._element(access, lane)) for access in each.reads)
        if isinstance(value, Apply) and value.operation == "/" and lane:
            left, right = value.arguments
            if isinstance(right, Read) and lane not in each.reads[right.access].dims:
                divisor = operands[right.access].text
                if divisor in self.reciprocals:
                    other = lower.Name(f"r{self.reciprocals.index(divisor)}")
                    operands = (*operands, other)
                    value = Apply("*", (left, Read(len(operands) - 1)))
                elif divisor not in self.divisors:
                    self.divisors.append(divisor)
        return f"({lower.expression(lower.c_expression(value, operands, {}))})"

    def _element(self, access: Access, lane: str) -> str:
        """Return an element; of the lane `i` where the access moves along lanes."""
        moves = bool(lane) and lane in access.dims
        where = start(self.plan, access, "row" if self.plan.block == 1 else "row + u")
        if not moves:
            return f"*({where})"
        if (access, True) not in self.names:
            name = f"x{len(self.names)}"
            self.names[access, True] = name
            const = "" if any(each.target.tensor == access.tensor for each in self.step.statements) else "const "
            self.head.append(f"{const}{self.plan.c_type} *const {name} = {where};")
        return f"{self.names[access, True]}[i]"
