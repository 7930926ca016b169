"""A native function: one C translation unit without globals that computes a workload on its caller's arrays.

void NAME(const T *restrict I, const T *restrict W, T *restrict O);
long NAME_packed_elements(void);                          elements of the packed weights
void NAME_pack(const T *restrict W, T *restrict W_packed);
void NAME_with_packed(const T *restrict I, const T *restrict W_packed, T *restrict O);
"""

from __future__ import annotations

from collections.abc import Callable, Mapping as Mapping_, Sequence
from dataclasses import dataclass, replace

from polymap.codegen import lower
from polymap.codegen.native.arrays import ArrayForm, Word, array_forms
from polymap.codegen.native.dots import few_columns
from polymap.codegen.native.flat_dims import flatten
from polymap.codegen.native.groups import narrow_groups
from polymap.codegen.native.kernel import Kernel, kernel_text
from polymap.codegen.native.outer import Nest, outer_loops
from polymap.codegen.native.panels import Packing, copy_loops, turned_rows_text
from polymap.codegen.native.plan import (
    ELEMENT_BYTES,
    KernelPlan,
    NoPlan,
    dim_names,
    is_heap,
    kernel_plan,
    unpack_plan,
    whole_sums,
)
from polymap.codegen.native.scalar import scalar_function
from polymap.codegen.native.tails import Requantize, Tail, in_a_loop, tail_of, vector_helpers
from polymap.codegen.native.variants import kernels
from polymap.codegen.native.words import gather_loops, word_helpers
from polymap.ir import Architecture, Mapping, Workload

_HEAD = lower.LIBRARIES + lower.EXTREMES + lower.RESTRICT
# Sums are told to compilers by pragmas of OpenMP, which -fopenmp-simd obeys without its library.
FUSED = ("-ffp-contract=fast", "-fopenmp-simd")
# gcc would load a vector once per use, as the operand of a multiply-add, where loads are what takes the time.
_HOLD = """#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined({macro})
#define HOLD(vector) __asm__("" : : "{register}"(vector))
#define COPIED(vector) __asm__("" : "+{register}"(vector))
#else
#define HOLD(vector)
#define COPIED(vector)
#endif"""
# Compilers would share broadcasts between the steps of several taps, and have too few registers left for the sums.
_APART = """#if defined(__GNUC__)
#define APART(index) __asm__("" : "+r"(index))
#else
#define APART(index)
#endif"""
_HOLD_MACROS = {16: ("__SSE2__", "x"), 32: ("__AVX__", "x"), 64: ("__AVX512F__", "v")}
BFLOAT16 = """static inline float bfloat16_value(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}"""
_GET = """static inline void get(const {kind} *from, long step, vec *to, int n)
{{
    {kind} part[{lanes}] = {{0}};
    for (int i = 0; i < n; ++i)
        part[i] = from[step * i];
    memcpy(to, part, sizeof part);
}}"""
_PUT = """static inline void put({kind} *to, long step, const vec *from, int n)
{{
    {kind} part[{lanes}];
    memcpy(part, from, sizeof part);
    for (int i = 0; i < n; ++i)
        to[step * i] = part[i];
}}"""
# Of n pairs the first elements and the second ones; the last vectors overlap the ones before.
_HALVE = """static inline void halve_{kind}(const {kind} *from, {kind} *even, {kind} *odd, int n)
{{
    int i = 0;
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
    while (n >= {lanes} && i < n) {{
        if (i > n - {lanes})
            i = n - {lanes};
        const any_{kind} low = *(const any_{kind} *)(from + 2 * i);
        const any_{kind} high = *(const any_{kind} *)(from + 2 * i + {lanes});
        *(any_{kind} *)(even + i) = __builtin_shufflevector(low, high, {evens});
        *(any_{kind} *)(odd + i) = __builtin_shufflevector(low, high, {odds});
        i += {lanes};
    }}
#endif
#endif
    for (; i < n; ++i) {{
        even[i] = from[2 * i];
        odd[i] = from[2 * i + 1];
    }}
}}"""


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A C text and what its caller needs. packed: the array that may be packed ahead, or None; reason: why the text
    has no vectors, or empty. The packed array is fastest where it is aligned to 64 bytes. flags: of compilers, besides
    those of every text. weights: the last operand of a layer."""

    name: str
    text: str
    arrays: tuple[ArrayForm, ...]
    packed: str | None
    packed_elements: int
    reason: str
    flags: tuple[str, ...] = FUSED
    weights: str = ""

    @property
    def declarations(self) -> str:
        """The functions that callers may use, as a header declares them."""
        found = [f"{signature(self.name, self.arrays)};"]
        if self.packed is not None:
            form = next(each for each in self.arrays if each.tensor == self.packed)
            found.append(f"long {self.name}_packed_elements(void);")
            found.append(f"{_pack_signature(f'{self.name}_pack', form)};")
            found.append(f"{signature(f'{self.name}_with_packed', self.arrays, (self.packed,))};")
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
    tail: Sequence[str | Requantize] = (),
    flat: Workload | None = None,
    by_words: Mapping_[str, Word] | None = None,
    packed: Mapping | None = None,
) -> NativeFunction:
    """Return the function of a mapping. packed: that of the function on packed weights, where it is another one.

    flat: the workload whose dims the mapping has, where these are not the workload's own (`flatten`). by_words: how its
    tensors of words are read (`in_words`). remark: lines of the comment at its head. tail: what is done to sums before
    they are stored; the arrays it takes stand behind the operands. Raises WorkloadError where an element type or the
    workload has no form in C, OptionError where the tail has no meaning (PM623), BudgetError where its own arrays would
    not fit into memory or indices into 32 bits (PM601).
    """
    arrays, steps = _arrays_and_tail(workload, layout, tail)
    workload, head = flat or workload, lower.comment_of(remark) + _HEAD
    sums = tuple(_read_in_words(form, by_words or {}) for form in array_forms(workload, layout))
    mapping = _of_whole_sums(workload, mapping, steps)
    try:
        plan = kernel_plan(workload, arch, mapping, sums, steps)
        kernels(plan)
        whole = plan if packed is None else kernel_plan(workload, arch, packed, sums, steps)
        lower.check_memory(max(map(_own_bytes, (plan, whole))))
    except NoPlan as reason:

        def loops(target: ArrayForm) -> lower.Block:
            return scalar_function(workload, arch, mapping, (*sums[:-1], target), threads)

        text = _scalar_text(name, arrays, _with_tail(loops, sums[-1], steps))
        weights = sums[-2].tensor if len(sums) > 1 else ""  # of values that read nothing there are none
        return NativeFunction(name, head + _above(workload, text) + text, arrays, None, 0, str(reason), weights=weights)
    body, ahead = _body(name, arrays, whole, unpack_plan(plan), threads), _packing_ahead(whole)
    tensor, elements = (None, 0) if ahead is None else (ahead.form.tensor, _packed_elements(ahead))
    text = head + _types([plan], body) + body
    return NativeFunction(name, text, arrays, tensor, elements, "", weights=sums[-2].tensor)


def function_of_lanes(
    workload: Workload,
    vector_bits: int,
    registers: int,
    cache_bytes: int,
    *,
    name: str,
    layout: str,
    remark: str,
    tail: Sequence[str | Requantize] = (),
) -> NativeFunction | None:
    """Return the function of a workload whose lanes lie along no one dim of its output: a product of few columns, or a
    convolution of groups of few channels; None for others. cache_bytes: of the second cache. Raises as
    `native_function` does."""
    arrays, steps = _arrays_and_tail(workload, layout, tail)
    forms, flat = array_forms(workload, layout), flatten(workload, layout, has_tail=bool(tail)) or workload
    found = few_columns(flat, array_forms(flat, layout), vector_bits, cache_bytes)
    found = found or narrow_groups(workload, forms, vector_bits, registers, cache_bytes)
    if found is None:
        return None
    above, _ = found.text(f"{name}_lanes", found.to)
    text = _scalar_text(name, arrays, _with_tail(lambda to: found.text(f"{name}_lanes", to)[1], found.to, steps))
    head = f"{lower.comment_of(remark)}{_HEAD}{_above(flat, text)}{lower.WIDE.format(bits=vector_bits)}\n{above}"
    return NativeFunction(name, head + text, arrays, None, 0, "", weights=forms[-2].tensor)


def function_of_parts(
    parts: Sequence[tuple[Workload, Architecture, Mapping]],
    *,
    name: str,
    layout: str,
    threads: int,
    remark: str,
    tail: Sequence[str | Requantize] = (),
) -> NativeFunction | None:
    """Return the function that computes workloads one after the other, each with its mapping, all on the same arrays;
    None where one would be printed without vectors. Raises as `native_function` does."""
    plans: list[KernelPlan] = []
    arrays: tuple[ArrayForm, ...] = ()
    for workload, arch, mapping in parts:
        arrays, steps = _arrays_and_tail(workload, layout, tail)
        mapping = _of_whole_sums(workload, mapping, steps)
        try:
            forms = array_forms(workload, layout)
            plan = kernel_plan(workload, arch, mapping, forms, steps, narrows=False)  # of one type of vectors
            kernels(plan)
        except NoPlan:
            return None
        lower.check_memory(_own_bytes(plan))
        own = unpack_plan(plan)
        plans.append(replace(own, operands=tuple(replace(each, ahead=None) for each in own.operands)))
    body, calls = "", ""
    for number, plan in enumerate(plans):
        own = f"{name}_part{number}"
        head = signature(own, arrays)
        body += _body(own, arrays, plan, plan, threads).replace(f"\n{head}", f"\nstatic {head}")
        calls += f"    {own}({', '.join(form.parameter for form in arrays)});\n"
    text = f"{lower.comment_of(remark)}{_HEAD}{_types(plans, body)}{body}\n{signature(name, arrays)}\n{{\n{calls}}}\n"
    return NativeFunction(name, text, arrays, None, 0, "", weights=plans[0].operands[-1].form.tensor)


def _body(name: str, arrays: tuple[ArrayForm, ...], plan: KernelPlan, direct: KernelPlan, threads: int) -> str:
    """Return the functions of the register tiles, and those for callers. direct: of operands as they are."""
    packings = tuple(each.packing for each in plan.operands)
    nest = Nest(plan, kernels(plan), f"{name}_tile", packings, None, threads)
    own = nest
    if direct is not plan:
        packings = tuple(each.packing for each in direct.operands)
        own = replace(nest, plan=direct, prefix=f"{name}_direct", packings=packings)
    used = [own] if own is nest or _packing_ahead(plan) is None else [nest, own]
    parts = [text for each in used for text in _tiles(each)]
    return "\n".join([*parts, *_entries(name, arrays, nest, own)]) + "\n"


def _tiles(nest: Nest) -> list[str]:
    """Return the functions of the register tiles of a nest."""
    plan = nest.plan
    return [
        kernel_text(
            Kernel(plan, f"{nest.prefix}{number}", dict(zip(plan.tile, sides, strict=False)), sides[-1].size)
        ).lines
        for sides, number in nest.numbers.items()
    ]


def _read_in_words(form: ArrayForm, by_words: Mapping_[str, Word]) -> ArrayForm:
    """Return the form of an array that is read in words under a name of its own."""
    word = by_words.get(form.tensor)
    return form if word is None else replace(form, word=word, parameter=f"{form.parameter}_words")


def _packed_elements(ahead: Packing) -> int:
    """Return the elements of a packed array in the type of the caller's one."""
    return ahead.elements * (1 if ahead.form.word is None else ahead.form.word.count)


def _arrays_and_tail(
    workload: Workload, layout: str, tail: Sequence[str | Requantize]
) -> tuple[tuple[ArrayForm, ...], Tail | None]:
    """Return the arrays that the function takes, and what is done to each sum."""
    lower.check_indices(workload)
    lower.check_sums(workload)
    sums = array_forms(workload, layout)
    steps = tail_of(tail, workload, sums)
    return sums if steps is None else (*sums[:-1], *steps.arrays, steps.stored), steps


def _of_whole_sums(workload: Workload, mapping: Mapping, steps: Tail | None) -> Mapping:
    """Return the mapping, or, where sums are rounded to another type, one that stores each of them once."""
    return mapping if steps is None or steps.requantizes is None else whole_sums(workload, mapping)


def _own_bytes(plan: KernelPlan) -> int:
    """Return the bytes of the copies that stand beside the caller's arrays at a time."""
    copies = [each for each in (operand.packing for operand in plan.operands) if each is not None]
    whole = [each.elements * ELEMENT_BYTES[each.c_type] for each in _gathered_arrays(plan)]
    return sum((each.elements * ELEMENT_BYTES[each.form.c_type] for each in copies), sum(whole))


def _with_tail(loops: Callable[[ArrayForm], lower.Block], target: ArrayForm, tail: Tail | None) -> lower.Block:
    """Return loops over all sums, and those of the tail behind them. loops: those that store the sums in an array."""
    if tail is None:
        return loops(target)
    if tail.requantizes is None:
        return (*loops(target), *in_a_loop(tail, tail.stored.parameter))
    sums = replace(tail.target, parameter="sums")
    size = sums.elements * ELEMENT_BYTES[sums.c_type]
    lower.check_memory(size)
    new = f"({sums.c_type} *)aligned_alloc({lower.LINE_BYTES}, {size + -size % lower.LINE_BYTES})"
    begin = (
        lower.Declare(f"{sums.c_type} *const", "sums", lower.Name(new)),
        lower.If(lower.Name("!sums"), (lower.Run("abort", ()),)),
    )
    return (*begin, *loops(sums), *in_a_loop(tail, "sums"), lower.Run("free", (lower.Name("sums"),)))


def _packing_ahead(plan: KernelPlan) -> Packing | None:
    """Return the packing that callers may do ahead: of the last operand in panels, which the weights are."""
    return next((each.ahead for each in reversed(plan.operands) if each.ahead is not None), None)


def _above(workload: Workload, text: str) -> str:
    """Return what stands above plain loops: no warnings of pragmas that a compiler does not obey, the order of sums."""
    declared = lower.ALIGNED_ALLOC if "aligned_alloc(" in text else ""
    return declared + (lower.OPENMP_HINTS if "#pragma omp" in text else "") + lower.order_of_sums(workload)


def _scalar_text(name: str, arrays: tuple[ArrayForm, ...], body: lower.Block) -> str:
    function = f"\n{signature(name, arrays)}\n{{\n" + "\n".join(lower.lines_of(body, 1)) + "\n}\n"
    helpers = lower.FLOOR_DIV if "floor_div" in function else ""
    return (BFLOAT16 + "\n" if "bfloat16_value" in function else "") + helpers + function


def signature(name: str, arrays: tuple[ArrayForm, ...], packed: tuple[str, ...] = ()) -> str:
    """Return the head of a function on arrays. packed: the tensors that are given packed."""
    texts = [
        f"{'' if form.is_written else 'const '}{form.c_type} *restrict "
        f"{form.parameter}{'_packed' if form.tensor in packed else ''}"
        for form in arrays
    ]
    return f"void {name}({', '.join(texts)})"


def _pack_signature(name: str, form: ArrayForm) -> str:
    own = f"const {form.c_type} *restrict {form.parameter}"
    return f"void {name}({own}, {form.c_type} *restrict {form.parameter}_packed)"


def _types(plans: Sequence[KernelPlan], body: str) -> str:
    """Return the vector types, and the helpers that the functions call."""
    return "\n".join(dict.fromkeys(line for plan in plans for line in _types_of_plan(plan, body))) + "\n"


def _types_of_plan(plan: KernelPlan, body: str) -> list[str]:
    kind, lanes = plan.accumulator, plan.lanes
    size = lanes * ELEMENT_BYTES[kind]
    lines = [lower.WIDE.format(bits=8 * size), f"typedef {kind} vec __attribute__((vector_size({size})));"]
    moved = [kind, *(each.form.c_type for each in plan.operands if each.is_vector)]
    if plan.tail is not None:
        moved += [form.c_type for form in (*plan.tail.arrays, plan.tail.stored)]
    if plan.has_words:
        lines.append("typedef int32_t word __attribute__((may_alias, aligned(1)));")
    for c_type in dict.fromkeys(moved):
        width = ELEMENT_BYTES[c_type]
        attributes = f"vector_size({lanes * width}), aligned({width}), may_alias"
        element = "int32_t" if c_type == "word" else c_type
        lines.append(f"typedef {element} any_{c_type} __attribute__(({attributes}));")
        for width in (each for each in (lanes // 2, lanes // 4) if f" vec_{each} " in body and c_type == kind):
            lines.append(f"typedef {kind} vec_{width} __attribute__((vector_size({width * ELEMENT_BYTES[kind]})));")
            attributes = f"vector_size({width * ELEMENT_BYTES[kind]}), aligned({ELEMENT_BYTES[kind]}), may_alias"
            lines.append(f"typedef {kind} any_{kind}_{width} __attribute__(({attributes}));")
    if "HOLD(" in body or "COPIED(" in body:
        macro, register = _HOLD_MACROS.get(size, ("NOTHING_HELD", "x"))
        lines.insert(0, _HOLD.format(macro=macro, register=register))
    if "APART(" in body:
        lines.insert(0, _APART)
    if plan.has_words:
        lines.append(word_helpers(lanes, kind, body))
    if "bits_vec" in body:
        lines.append(f"typedef uint32_t bits_vec __attribute__((vector_size({lanes * 4})));")
    helpers = {"bfloat16_value(": BFLOAT16, "get(": _GET, "put(": _PUT, "aligned_alloc(": lower.ALIGNED_ALLOC.rstrip()}
    for call, text in helpers.items():
        if call in body:
            lines.append(text.format(kind=kind, lanes=lanes) if text is not BFLOAT16 else text)
    evens, odds = (", ".join(str(2 * lane + odd) for lane in range(lanes)) for odd in (0, 1))
    for halved in dict.fromkeys(moved):
        if f"halve_{halved}(" in body:
            lines.append(_HALVE.format(kind=halved, lanes=lanes, evens=evens, odds=odds))
    if f"turn_rows_{kind}(" in body:
        lines.append(turned_rows_text(kind, lanes).rstrip())
    if plan.tail is not None:
        lines.append(vector_helpers(plan.tail, lanes, body))
    return lines


def _entries(name: str, arrays: tuple[ArrayForm, ...], nest: Nest, own: Nest) -> list[str]:
    """Return the functions for callers: on weights packed ahead, and on weights as they are (own)."""
    ahead, names = _packing_ahead(nest.plan), dim_names(nest.plan)
    whole = [each for each in own.packings if each is not None and is_heap(each)]
    casts = _casts(own.plan, arrays)
    body = "\n".join(
        [*casts, *_allocations(whole, names), *lower.lines_of(outer_loops(own), 1), *_releases(own.plan, whole)]
    )
    entry = f"\n{signature(name, arrays)}\n{{\n{body}\n}}"
    if ahead is None:
        return [entry]
    tensor = ahead.form.tensor
    caller = next(form for form in arrays if form.tensor == tensor)
    given = replace(
        nest, packings=tuple(ahead if each.ahead == ahead else each.packing for each in nest.plan.operands), ahead=ahead
    )
    rest = [each for each in given.packings if each is not None and each != ahead and is_heap(each)]
    casts_given = _casts(nest.plan, arrays, packed=tensor)
    loops = "\n".join(
        [*casts_given, *_allocations(rest, names), *lower.lines_of(outer_loops(given), 1), *_releases(nest.plan, rest)]
    )
    pack = "\n".join([*_casts_of_pack(ahead, caller), *lower.lines_of(copy_loops(ahead, names), 1)])
    return [
        f"\nlong {name}_packed_elements(void)\n{{\n    return {_packed_elements(ahead)};\n}}",
        f"\n{_pack_signature(f'{name}_pack', caller)}\n{{\n{pack}\n}}",
        f"\n{signature(f'{name}_with_packed', arrays, (tensor,))}\n{{\n{loops}\n}}",
        entry,
    ]


def _casts(plan: KernelPlan, arrays: tuple[ArrayForm, ...], packed: str = "") -> list[str]:
    """Return the declarations of arrays that are read in words, and the copies of such as are copied first.
    packed: the one that the caller packed."""
    given = {form.tensor: form.parameter for form in arrays}
    lines: list[str] = []
    for form in (each.form for each in plan.operands if each.form.word is not None):
        if form in _gathered_arrays(plan):
            lines += [
                *_allocation(form.c_type, form.parameter, form.elements),
                *lower.lines_of(gather_loops(form, given[form.tensor]), 1),
            ]
            continue
        end = "_packed" if form.tensor == packed else ""
        lines.append(f"    const word *const {form.parameter}{end} = (const word *){given[form.tensor]}{end};")
    return lines


def _gathered_arrays(plan: KernelPlan) -> list[ArrayForm]:
    """Return the arrays whose words are put together before they are broadcast."""
    words = [each.form for each in plan.operands if not each.is_vector and each.form.word is not None]
    return [form for form in words if form.word is not None and form.word.axes]


def _casts_of_pack(ahead: Packing, caller: ArrayForm) -> list[str]:
    if ahead.form.word is None:
        return []
    return [
        f"    const word *const {ahead.form.parameter} = (const word *){caller.parameter};",
        f"    word *const {ahead.parameter} = (word *){caller.parameter}_packed;",
    ]


def _allocations(packings: list[Packing], names: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for packing in packings:
        lines += _allocation(packing.form.c_type, packing.parameter, packing.elements)
        lines += lower.lines_of(copy_loops(packing, names), 1)
    return lines


def _allocation(kind: str, name: str, elements: int) -> list[str]:
    size = elements * ELEMENT_BYTES[kind]
    return [
        f"    {kind} *const {name} = ({kind} *)aligned_alloc({lower.LINE_BYTES}, {size + -size % lower.LINE_BYTES});",
        f"    if (!{name})\n        abort(); /* no memory for the copy */",
    ]


def _releases(plan: KernelPlan, packings: list[Packing]) -> list[str]:
    return [f"    free({each.parameter});" for each in (*packings, *_gathered_arrays(plan))]
