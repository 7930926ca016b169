"""The code of one register tile: named vectors as accumulators, loops over the reductions, one unrolled step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from polymap.codegen.lower import Block, Copy, Declare, Expr, For, If, Int, Name, Run, Scope, Stmt, Text, lines_of
from polymap.codegen.native.arrays import ELEMENT_BYTES
from polymap.codegen.native.panels import expr_text
from polymap.codegen.native.plan import LEAST_VECTOR_BYTES, KernelPlan, Operand, dim_names, narrow_width
from polymap.codegen.native.tails import Sum, VectorForm, narrow_store, on_vectors, tail_parameters
from polymap.codegen.native.tuning import TUNING
from polymap.codegen.native.variants import Group, Side, is_static
from polymap.codegen.native.words import dot_macro
from polymap.ir import Apply, Expression, Read


@dataclass(frozen=True, slots=True)
class Kernel:
    """A register tile's function. sides: of the tile's dims in order; lanes: valid indices of the vector dim."""

    plan: KernelPlan
    name: str
    sides: dict[str, Side]
    valid: int

    def lanes_of(self, slot: int) -> int:
        """Return how many lanes of a slot are in use."""
        return min(self.width_of(slot), self.valid - self.start_of(slot))

    def width_of(self, slot: int) -> int:
        """Return the lanes of a slot: of the last one as few as it needs where sums are stored as they are, side by
        side, since processors may multiply shorter vectors faster."""
        plan, rest = self.plan, self.valid - slot * self.plan.lanes
        kinds = {plan.accumulator, *(each.form.c_type for each in plan.operands)}
        if plan.tail is not None or len(kinds) > 1 or plan.store.of(plan.vector) != 1:
            return plan.lanes
        return narrow_width(rest, plan.lanes, LEAST_VECTOR_BYTES // ELEMENT_BYTES[plan.accumulator])

    def start_of(self, slot: int) -> int:
        """Return the first index of a slot. Of a contiguous output the last one overlaps the one before it rather than
        reach beyond the tile, so that it is loaded and stored whole: lanes of both then hold the same sums."""
        start, is_contiguous = slot * self.plan.lanes, self.plan.store.of(self.plan.vector) == 1
        return min(start, self.valid - self.width_of(slot)) if slot and is_contiguous else start

    def vector(self, slot: int, kind: str = "vec") -> str:
        """Return the C type of a slot's vectors."""
        width = self.width_of(slot)
        return kind if width == self.plan.lanes else f"{kind}_{width}"

    @property
    def slots(self) -> int:
        return -(-self.valid // self.plan.lanes)


def bounded_reductions(plan: KernelPlan) -> tuple[str, ...]:
    """Return the reductions whose bounds are arguments of the kernels."""
    at_run_time = {guard.tap for guard in plan.guards if not is_static(plan, guard)}
    return tuple(name for name in plan.reductions if name in plan.split or name in at_run_time)


def parameters(plan: KernelPlan) -> tuple[str, ...]:
    """Return the parameters of every kernel, as they are declared."""
    names = dim_names(plan)
    arrays = [f"const {each.form.c_type} *restrict {each.parameter}" for each in plan.operands]
    arrays = list(dict.fromkeys(arrays))
    arrays.append(f"{stored_type(plan)} *restrict {plan.target.parameter}")
    ats = [f"const long {each.name}_at" for each in plan.operands] + ["const long o_at"]
    ends = [f"const int {names[dim]}_{end}" for dim in bounded_reductions(plan) for end in ("from", "to")]
    first = ["const int first"] if plan.split and not plan.continues else []
    last = ["const int last"] if plan.split and plan.tail is not None else []
    return (*arrays, *ats, *ends, *first, *last, *(tail_parameters(plan.tail) if plan.tail is not None else ()))


def stored_type(plan: KernelPlan) -> str:
    """Return the C type of the output's elements."""
    return plan.target.c_type if plan.tail is None else plan.tail.stored.c_type


def arguments(plan: KernelPlan) -> tuple[str, ...]:
    """Return the parameters' names."""
    return tuple(text.rsplit(" ", 1)[1].lstrip("*") for text in parameters(plan))


def kernel_text(kernel: Kernel) -> Text:
    """Return the function of a register tile."""
    plan = kernel.plan
    body: list[Stmt] = [
        Declare(kernel.vector(slot), _accumulator(index, slot), Name(f"({kernel.vector(slot)}){{0}}"))
        for index, slot in _positions(kernel, {})
    ]
    # What is in memory is added last where sums have no order: its loads would delay the first multiply-adds.
    additions: Block = tuple(_access(kernel, *each, back=False) for each in _positions(kernel, {}))
    if not plan.continues:
        additions = (If(Name("!first"), additions),) if plan.split else ()
    before, after = (additions, ()) if plan.is_ordered else ((), additions)
    excess = [f"excess{slot}" for slot in range(kernel.slots)] if has_excess(kernel) else []
    body += [Declare("vec", each, Name("(vec){0}")) for each in excess]
    body += before
    body += _reduction_loops(kernel, 0, {}, {})
    for index, slot in _positions(kernel, {}) if excess else ():
        name = _accumulator(index, slot)
        body.append(Copy(Name(name), Name(f"{name} - {excess[slot]}")))
    body += after
    body += _tail_steps(kernel)
    body += [_access(kernel, *each, back=True) for each in _positions(kernel, {})]
    head = f"static WIDE void {kernel.name}({', '.join(parameters(plan))})"
    lines = lines_of(tuple(body), 1)
    used = set(re.findall(r"\w+", "\n".join(lines)))
    idle = [f"    (void){each};" for each in arguments(plan) if each not in used]  # of a tile on padding alone
    return Text("\n".join(["", head, "{", *idle, *lines, "}"]))


def _tail_steps(kernel: Kernel) -> Block:
    """Return the tail's steps on every accumulator, where its sum is whole."""
    plan = kernel.plan
    if plan.tail is None:
        return ()
    sums = [
        Sum(
            _accumulator(index, slot),
            {**dict(zip(kernel.sides, index, strict=True)), plan.vector: kernel.start_of(slot)},
            kernel.lanes_of(slot),
        )
        for index, slot in _positions(kernel, {})
    ]
    steps = on_vectors(plan.tail, VectorForm(plan.vector, plan.lanes, plan.store), sums)
    return (If(Name("last"), steps),) if plan.split else steps


Position = tuple[tuple[int, ...], int]


def _positions(kernel: Kernel, ranges: dict[str, tuple[int, int]]) -> list[Position]:
    """Return (index per dim of the tile, slot) of every accumulator within the ranges."""
    spans = [range(*ranges.get(dim, (0, side.size))) for dim, side in kernel.sides.items()]
    return [(index, slot) for index in product(*spans) for slot in range(kernel.slots)]


def _accumulator(index: tuple[int, ...], slot: int) -> str:
    return "s" + "".join(f"{i}_" for i in index) + str(slot)


def _access(kernel: Kernel, index: tuple[int, ...], slot: int, *, back: bool) -> Stmt:
    """Return the store of an accumulator, or the addition of what is stored: of ordered sums its load, as the sign of a
    stored zero counts."""
    plan = kernel.plan
    step = plan.store.of(plan.vector)
    at = sum(plan.store.of(dim) * i for dim, i in zip(kernel.sides, index, strict=True)) + kernel.start_of(slot) * step
    place, name, lanes = f"{plan.target.parameter} + o_at + {at}", _accumulator(index, slot), kernel.lanes_of(slot)
    if back and plan.tail is not None and plan.tail.requantizes is not None:
        return narrow_store(plan.tail, name, place, step, plan.lanes, lanes)
    if step == 1 and lanes == kernel.width_of(slot):
        vector = f"*({'' if back else 'const '}{kernel.vector(slot, f'any_{plan.accumulator}')} *)({place})"
        return Copy(Name(vector), Name(name)) if back else Copy(Name(name), _continued_sum(plan, name, vector))
    if step == 1 and back:
        part = Name(f"{lanes} * sizeof({plan.accumulator})")
        return Scope((*_copy_of_sum(kernel.vector(slot), name), Run("memcpy", (Name(place), Name("&some"), part))))
    if step == 1 and lanes < kernel.width_of(slot) < plan.lanes:
        some = Declare(kernel.vector(slot), "some", Name(f"({kernel.vector(slot)}){{0}}"))
        part = Run("memcpy", (Name("&some"), Name(place), Name(f"{lanes} * sizeof({plan.accumulator})")))
        return Scope((some, part, Copy(Name(name), _continued_sum(plan, name, "some"))))
    # Vectors in memory, not in arguments: how functions pass them depends on the compiler's flags.
    opening: Block = _copy_of_sum("vec", name) if back else (Declare("vec", "some", Name("(vec){0}")),)
    call = Run("put" if back else "get", (Name(place), Name(str(step)), Name("&some"), Int(lanes)))
    after = () if back else (Copy(Name(name), _continued_sum(plan, name, "some")),)
    return Scope((*opening, call, *after))


def _continued_sum(plan: KernelPlan, name: str, stored: str) -> Name:
    return Name(stored if plan.is_ordered else f"{name} + {stored}")


def _copy_of_sum(kind: str, name: str) -> Block:
    """Return the copy of a sum to memory: gcc would keep the sum itself there, through all steps (a product of 500 x 7
    and 50 terms took 26 us instead of 9)."""
    return Declare(kind, "some", Name(name)), Run("COPIED", (Name("some"),))


def _reduction_loops(
    kernel: Kernel, level: int, known: dict[str, Expr | int], ranges: dict[str, tuple[int, int]]
) -> list[Stmt]:
    """Return the loops over the reductions from number `level` on. known: a C text or number per open one."""
    plan = kernel.plan
    if level == len(plan.reductions):
        return [Scope(tuple(_step(kernel, known, ranges)))]
    dim = plan.reductions[level]
    found: list[Stmt] = []
    spans = _spans(kernel, dim, ranges)
    if _is_unrolled(kernel, level):
        taps = _taps(kernel, dim, spans)
        if 1 < len({tap for tap, _, _ in taps}) <= TUNING.unrolled_steps:
            return [Scope(tuple(_products(kernel, {**known, dim: 0}, _by_operand(kernel, taps), hold=True)))]
    for first, stop, inside in spans:
        if _has_phases(kernel, dim) and isinstance(first, Int) and isinstance(stop, Int):
            for tap in range(first.value, stop.value):
                found += _reduction_loops(kernel, level + 1, {**known, dim: tap}, inside)
        else:
            found += _span(kernel, level, known, inside, (first, stop))
    return found


def _span(
    kernel: Kernel,
    level: int,
    known: dict[str, Expr | int],
    ranges: dict[str, tuple[int, int]],
    ends: tuple[Expr, Expr],
) -> list[Stmt]:
    plan = kernel.plan
    dim, name = plan.reductions[level], dim_names(plan)[plan.reductions[level]]
    first, stop = ends
    if isinstance(first, Int) and isinstance(stop, Int):
        count = stop.value - first.value
        if count == 1:
            return _reduction_loops(kernel, level + 1, {**known, dim: first.value}, ranges)
    return [For(name, first, stop, tuple(_reduction_loops(kernel, level + 1, {**known, dim: Name(name)}, ranges)))]


Product = tuple[dict[str, int], tuple[int, ...], int]


def _taps(
    kernel: Kernel, dim: str, spans: list[tuple[Expr, Expr, dict[str, tuple[int, int]]]]
) -> list[tuple[int, tuple[int, ...], int]]:
    """Return (tap, index per dim of the tile, slot) of every multiply-add of a loop; none if bounds are arguments."""
    found: list[tuple[int, tuple[int, ...], int]] = []
    for first, stop, inside in spans:
        if not isinstance(first, Int) or not isinstance(stop, Int):
            return []
        taps = range(first.value, stop.value)
        found += [(tap, *position) for tap in taps for position in _positions(kernel, inside)]
    return found


def _by_operand(kernel: Kernel, taps: list[tuple[int, tuple[int, ...], int]]) -> list[Product]:
    """Return the multiply-adds slot by slot, each along the operand with the most elements: these are loaded once for
    all taps that share them and soon forgotten, so that no more registers are needed."""
    plan, dim = kernel.plan, kernel.plan.reductions[-1]
    products: list[Product] = [({dim: tap}, index, slot) for tap, index, slot in taps]
    places = {
        operand.name: [_offset(kernel, operand, each) - kernel.start_of(each[2]) for each in products]
        for operand in plan.operands
    }
    longest = max(places.values(), key=lambda each: len(set(each)))
    along = [0] * len(products) if plan.is_ordered else longest
    order = sorted(range(len(products)), key=lambda number: (products[number][2], along[number]))
    return [products[number] for number in order]


def _offset(kernel: Kernel, operand: Operand, product: Product) -> int:
    """Return where the element of an operand for a multiply-add stands, from the start of the step's on."""
    taps, index, slot = product
    at = sum(operand.inside.of(dim) * i for dim, i in zip(kernel.sides, index, strict=True))
    at += sum(_tap_at(operand, dim, tap) for dim, tap in taps.items())
    return at + (kernel.start_of(slot) if operand.is_vector else 0)


def _tap_at(operand: Operand, dim: str, tap: int) -> int:
    """Return how far the elements of a tap stand behind those of the first."""
    factor = operand.inside.of(dim)
    return factor * tap if operand.packing is None else operand.packing.tap_at(dim, factor * tap)


def _has_phases(kernel: Kernel, dim: str) -> bool:
    return any(each.packing is not None and each.packing.tap == dim for each in kernel.plan.operands)


def _spans(
    kernel: Kernel, dim: str, ranges: dict[str, tuple[int, int]]
) -> list[tuple[Expr, Expr, dict[str, tuple[int, int]]]]:
    """Return (first, stop, ranges of the tile) of the parts of a reduction."""
    plan = kernel.plan
    if dim in bounded_reductions(plan):
        name = dim_names(plan)[dim]
        return [(Name(f"{name}_from"), Name(f"{name}_to"), ranges)]
    groups = _groups_of(kernel, dim)
    if groups is None:
        return [(Int(0), Int(plan.extents[dim]), ranges)]
    out, parts = groups
    return [(Int(part.first), Int(part.stop), {**ranges, out: (part.low, part.high)}) for part in parts]


def _groups_of(kernel: Kernel, tap: str) -> tuple[str, tuple[Group, ...]] | None:
    for dim, side in kernel.sides.items():
        for guard, groups in side.groups:
            if guard.tap == tap:
                return dim, groups
    return None


def _is_unrolled(kernel: Kernel, level: int) -> bool:
    """Return whether a loop over taps is unrolled, so that these share loads: of vectors that neighbouring results read
    too, or where all operands are vectors."""
    plan = kernel.plan
    if level + 1 < len(plan.reductions):
        return False
    tap = plan.reductions[level]
    rows = any(
        each.is_vector and each.inside.of(tap) and each.inside.of(dim) and side.size > 1
        for each in plan.operands
        for dim, side in kernel.sides.items()
    )
    return rows or all(each.is_vector for each in plan.operands)


def _step(kernel: Kernel, known: dict[str, Expr | int], ranges: dict[str, tuple[int, int]]) -> list[Stmt]:
    """Return one step of the reductions: every load once, then the multiply-adds.

    gcc reads a vector from memory again for each of up to four uses, and loads take longer than multiply-adds then.
    """
    products: list[Product] = [({}, index, slot) for index, slot in _positions(kernel, ranges)]
    slots = len({slot for _, _, slot in products})
    return _products(kernel, known, products, hold=slots < len(products) <= TUNING.few_uses * slots)


def _products(
    kernel: Kernel, known: dict[str, Expr | int], products: list[Product], *, hold: bool = False
) -> list[Stmt]:
    """Return multiply-adds (taps that are no loops, index per dim of the tile, slot) in order, every load once.

    hold: what was loaded stays in its register, where compilers would rather load it again for each use.
    """
    plan = kernel.plan
    body: list[Stmt] = []
    for operand in plan.operands:
        terms = [f"{operand.name}_at"]
        for dim, value in known.items():
            factor = operand.inside.of(dim)
            if factor and isinstance(value, int) and value:
                terms.append(str(_tap_at(operand, dim, value)))
            elif factor and not isinstance(value, int):
                terms.append(f"{factor}L * {expr_text(value)}")
        if _is_apart(kernel, operand):
            body.append(Declare("long", f"{operand.name}_x", Name(" + ".join(terms))))
            body.append(Run("APART", (Name(f"{operand.name}_x"),)))
        else:
            body.append(Declare("const long", f"{operand.name}_x", Name(" + ".join(terms))))
    seen, counted = set[str](), set[tuple[int | str, ...]]()
    for each in products:
        _, index, slot = each
        names: list[str] = []
        for operand in plan.operands:
            at = _offset(kernel, operand, each)
            lanes, width = _lanes_read(kernel, operand, slot), kernel.width_of(slot)
            end = f"_of{width}" if operand.is_vector and width < plan.lanes else ""
            whole = f"{operand.name}_{at}{end}".replace("-", "m")
            name = whole if lanes == width or whole in seen else f"{whole}_low{lanes}"
            names.append(name)
            if name not in seen:
                seen.add(name)
                body += _load(kernel, operand, name, at, slot)
                if hold and operand.is_vector:
                    body.append(Run("HOLD", (Name(name),)))
        if plan.has_words:
            body.append(_dot(kernel, _accumulator(index, slot), names))
            vectors = [name for each, name in zip(plan.operands, names, strict=True) if each.is_vector]
            if has_excess(kernel) and (slot, *vectors) not in counted:
                counted.add((slot, *vectors))
                body.append(_dot(kernel, f"excess{slot}", names))
            continue
        value = _value(plan.statement.expression, names)
        if not any(operand.is_vector for operand in plan.operands):
            value = f"(({kernel.vector(slot)}){{0}} + ({value}))"
        body.append(Copy(Name(_accumulator(index, slot)), Name(f"{_accumulator(index, slot)} + {value}")))
    return body


def has_excess(kernel: Kernel) -> bool:
    """Return whether the products of bytes of one sign have 128 more in each of the elements that are broadcast, and
    what is too much is summed once per vector for all rows: they have the same vectors and taps."""
    plan, sides = kernel.plan, kernel.sides.items()
    words = [each.form.word for each in plan.operands if each.form.word is not None]
    shared = all(each.inside.of(dim) == 0 for dim, _ in sides for each in plan.operands if each.is_vector)
    return any(each.is_flipped for each in words) and shared and not any(side.groups for _, side in sides)


def _dot(kernel: Kernel, total: str, names: list[str]) -> Stmt:
    """Return the addition of products of bytes to a sum, or of what is too much in these."""
    operands = kernel.plan.operands
    kinds = [each.form.word.kind for each in operands if each.form.word is not None]
    if kinds[0] != kinds[1] or kinds[0] == "bfloat16":
        return Copy(Name(total), Name(f"{dot_macro(*kinds)}({', '.join((total, *names))})"))
    (vector,) = (name for each, name in zip(operands, names, strict=True) if each.is_vector)
    (single,) = (name for each, name in zip(operands, names, strict=True) if not each.is_vector)
    if not has_excess(kernel):
        return Copy(Name(total), Name(f"{dot_macro(*kinds)}({total}, {single}, {vector})"))
    other = "HIGH" if total.startswith("excess") else single
    pair = (other, vector) if kinds[0] == "int8" else (vector, other)
    return Copy(Name(total), Name(f"DOT_UI({', '.join((total, *pair))})"))


def _is_apart(kernel: Kernel, operand: Operand) -> bool:
    """Return whether steps of different taps stand side by side and broadcast elements that they share: compilers would
    keep these in registers from step to step, and move sums to memory for it."""
    return not operand.is_vector and any(side.groups for side in kernel.sides.values())


def _value(expression: Expression, operands: list[str]) -> str:
    if isinstance(expression, Read):
        return operands[expression.access]
    assert isinstance(expression, Apply)
    parts = [_value(part, operands) for part in expression.arguments]
    inner = [f"({text})" if " " in text else text for text in parts]
    return f"{inner[0]} {expression.operation} {inner[1]}"


def _lanes_read(kernel: Kernel, operand: Operand, slot: int) -> int:
    """Return how many lanes of an operand a slot reads: of packed panels and single elements all."""
    return kernel.lanes_of(slot) if operand.is_vector and operand.packing is None else kernel.width_of(slot)


def _load(kernel: Kernel, operand: Operand, name: str, at: int, slot: int) -> Block:
    """Return the declaration of an operand's value, in the type of the accumulators."""
    plan = kernel.plan
    kind = operand.form.c_type
    place = f"{operand.name}_x + {at}" if at >= 0 else f"{operand.name}_x - {-at}"
    if not operand.is_vector:
        element = f"{operand.parameter}[{place}]"
        value = f"bfloat16_value({element})" if operand.form.kind == "bfloat16" else element
        cast = "" if operand.form.kind in ("bfloat16", "word") or kind == plan.accumulator else f"({plan.accumulator})"
        return (Declare(f"const {'int32_t' if operand.form.word else plan.accumulator}", name, Name(cast + value)),)
    lanes, word = _lanes_read(kernel, operand, slot), operand.form.word
    if word is not None:
        whole = f"*(const any_word *)({operand.parameter} + {place})"
        if operand.packing is not None:
            return (Declare("const word_vec", name, Name(whole)),)
        put = Run("words_at", (Name(operand.parameter), Name(place), Int(word.step), Name(f"&{name}")))
        return (Declare("word_vec", name, Name("(word_vec){0}")), put)
    whole, own = kernel.vector(slot, f"any_{kind}"), f"const {kernel.vector(slot)}"
    if lanes == kernel.width_of(slot):
        value = _vector_as_sums(plan, operand, f"*(const {whole} *)({operand.parameter} + {place})")
        return (Declare(own, name, Name(value)),)
    part = f"{name}_part"
    return (
        Declare(whole, part, Name(f"({whole}){{0}}")),
        Run("memcpy", (Name(f"&{part}"), Name(f"{operand.parameter} + {place}"), Name(f"{lanes} * sizeof({kind})"))),
        Declare(own, name, Name(_vector_as_sums(plan, operand, part))),
    )


def _vector_as_sums(plan: KernelPlan, operand: Operand, vector: str) -> str:
    if operand.form.kind == "bfloat16":
        return f"(vec)(__builtin_convertvector({vector}, bits_vec) << 16)"
    if operand.form.c_type == plan.accumulator:
        return vector
    return f"__builtin_convertvector({vector}, vec)"
