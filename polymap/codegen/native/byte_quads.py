"""Sums of four products of bytes at a time: the dot-product instructions of processors (VNNI), by type-punned arrays.

Four neighbouring bytes along a reduction are one element of 32 bits, a quad: A[m,k] * B[k,n] is A[m,k4] . B[k4,n]
with a quarter of the steps, where `.` adds four products to a sum of 32 bits. Quads of the operand that is broadcast
are read where they lie if the reduction is contiguous there and a multiple of four long; else they are put together in
a copy, zeros behind the last byte. Those of the vectors are put together as panels are packed.

The instructions multiply bytes without a sign by bytes with one. Of two operands of one kind the one that is broadcast
is copied with the highest bit of each byte flipped, which adds 128 to it, or takes 128 from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from polymap.codegen.lower import Block, Copy, Element, For, Int, Invoke, Name, Stmt, multiply, total
from polymap.codegen.native.arrays import ArrayForm, Quad, array_forms
from polymap.codegen.native.lanes import is_packable, vector_dims
from polymap.ir import Access, Apply, Dim, Operator, Read, Workload

BYTES = ("int8", "uint8")
QUAD = 4


@dataclass(frozen=True, slots=True)
class Quads:
    """A workload over quads. forms: per tensor of bytes, how a quad is read. dims: the dims of the output that vectors
    may lie along, the best first."""

    workload: Workload
    forms: dict[str, Quad]
    dims: tuple[str, ...]


class _Read(NamedTuple):
    access: Access
    form: ArrayForm


def quads(workload: Workload, layout: str, lanes: int) -> Quads | None:
    """Return the workload over quads, of reductions those that need no copy first; None where it is no sum of products
    of bytes in 32 bits, or no reduction of four indices is an axis of both operands. lanes: sums of a vector.

    Raises WorkloadError where element types have no form in C.
    """
    if len(workload.statements) != 1 or workload.original is not None:
        return None
    (statement,) = workload.statements
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    reads = [_Read(access, forms[access.tensor]) for access in statement.reads]
    product = Apply("*", (Read(0), Read(1)))
    if statement.operator is not Operator.ADD or statement.expression != product or statement.constraints:
        return None
    kinds = [form.kind for _, form in reads]
    if forms[statement.target.tensor].kind != "int32" or any(kind not in BYTES for kind in kinds):
        return None
    own = {name for index in statement.target.index for name in index.dims}
    if len({access.tensor for access, _ in reads}) < 2 or any(own <= set(access.dims) for access, _ in reads):
        return None
    ways = [
        _over(workload, layout, reads, name, lanes)
        for name, extent in workload.extents().items()
        if name not in own and extent >= QUAD and all(_axis_of(each, name, extent) is not None for each in reads)
    ]
    usable = [each for each in ways if each.dims]
    return min(usable, key=lambda each: not all(map(_lies_in_quads, each.forms.values())), default=None)


def _lies_in_quads(form: Quad) -> bool:
    """Return whether the quads of an array can be read where they lie."""
    return form.step == 1 and form.length % QUAD == 0


def _axis_of(read: _Read, name: str, extent: int) -> int | None:
    """Return the axis that a dim alone indexes, all of it."""
    axes = [number for number, index in enumerate(read.access.index) if name in index.dims]
    if len(axes) != 1:
        return None
    index = read.form.axis(read.access, axes[0])
    alone = index.is_linear and index.coefficients() == {name: 1} and not index.constant
    return axes[0] if alone and read.form.sizes[axes[0]] == extent else None


def _over(workload: Workload, layout: str, reads: list[_Read], name: str, lanes: int) -> Quads:
    """Return the workload over quads along one reduction."""
    extents = workload.extents()
    bare, tensors = workload.bare, {each.name: each for each in workload.tensors}
    axis_of = {read.access.tensor: _axis_of(read, name, extents[name]) for read in reads}
    for tensor, axis in ((tensors[read.access.tensor], axis_of[read.access.tensor]) for read in reads):
        assert axis is not None, "every operand has the reduction as an axis"
        shape = _quarter(tensor.shape, axis)
        tensors[tensor.name] = replace(tensor, shape=shape, bits=8 * QUAD, element_type="quad")
        if bare is not None and bare.tensor == tensor.name:
            bare = replace(bare, shape=_quarter(bare.shape, axis))
    dims = tuple(
        Dim(each.name, -(-each.extent // QUAD) if each.name == name else each.extent) for each in workload.dims
    )
    over = replace(workload, dims=dims, tensors=tuple(tensors.values()), bare=bare)
    copies = {form.tensor: form for form in array_forms(over, layout)}
    made = dict[str, Quad]()
    is_flipped = len({form.kind for _, form in reads}) == 1
    for access, form in reads:
        linear, axis, copy = form.linear(access), axis_of[access.tensor], copies[access.tensor]
        assert axis is not None, "every operand has the reduction as an axis"
        factors = {dim: factor * (QUAD if dim == name else 1) for dim, factor in linear.factors.items()}
        steps = zip(copy.sizes, copy.strides, form.strides, strict=True)
        others = [each for number, each in enumerate(steps) if number != axis]
        quad = Quad(form.kind, replace(linear, factors=factors), linear.of(name), name, extents[name], is_flipped)
        is_read_directly = _lies_in_quads(quad) and not is_flipped
        axes = () if is_read_directly else (*others, (copy.sizes[axis], copy.strides[axis], linear.of(name)))
        made[access.tensor] = replace(quad, axes=axes)
    reads_over = over.statements[0].reads
    own = [dim for dim in vector_dims(over, layout, lanes) if _is_vector(dim, reads, reads_over)]
    return Quads(over, made, tuple(own))


def _quarter(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], -(-shape[axis] // QUAD), *shape[axis + 1 :])


def gathering(form: ArrayForm, source: str) -> Block:
    """Return the loops that copy an array of bytes, a C text, into the quads that are broadcast."""
    quad = form.quad
    assert quad is not None, "an array of quads"
    whole, rest = divmod(quad.length, QUAD)
    *others, (_, own_to, own_from) = quad.axes
    steps = [*((to, from_) for _, to, from_ in others), (own_to, QUAD * own_from)]
    names = [Name(f"(long)i{number}") for number in range(len(steps))]
    to, at = (total([multiply(name, each[way]) for name, each in zip(names, steps, strict=True)]) for way in (0, 1))
    found: list[Stmt] = []
    for first, stop, count in ((0, whole, QUAD), (whole, whole + 1, rest)):
        spans = [*((0, size) for size, _, _ in others), (first, stop)]
        value = Invoke("quad_at", (Name(f"(const quad *){source}"), at, Int(quad.step), Int(count)))
        value = Invoke("FLIPPED", (value,)) if quad.is_flipped else value
        body: Block = (Copy(Element(form.parameter, (to,)), value),)
        for number in sorted(range(len(steps)), key=lambda number: steps[number][0]):
            low, high = spans[number]
            body = (For(f"i{number}", Int(low), Int(high), body),)
        found += body if count else ()
    return tuple(found)


def _is_vector(dim: str, reads: list[_Read], accesses: tuple[Access, ...]) -> bool:
    """Return whether one operand has the dim, and can be packed."""
    having = [each for each in reads if dim in each.access.dims]
    return (
        len(having) == 1
        and is_packable(having[0].access, accesses)
        and not any(index.constant for index in having[0].access.index)
    )


def dot_macro(first: str, second: str) -> str:
    """Return the name of the macro for the product of two kinds of bytes, such as DOT_UI."""
    letters = {"int8": "I", "uint8": "U"}
    return f"DOT_{letters[first]}{letters[second]}"


DOT = """#if defined(__AVX512VNNI__) && {lanes} == 16
#include <immintrin.h>
#define DOT_UI(s, u, i) ((vec)_mm512_dpbusd_epi32((__m512i)(s), (__m512i)WHOLE(u), (__m512i)WHOLE(i)))
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && {lanes} == 8
#include <immintrin.h>
#define DOT_UI(s, u, i) ((vec)_mm256_dpbusd_epi32((__m256i)(s), (__m256i)WHOLE(u), (__m256i)WHOLE(i)))
#elif defined(__AVXVNNI__) && {lanes} == 8
#include <immintrin.h>
#define DOT_UI(s, u, i) ((vec)_mm256_dpbusd_avx_epi32((__m256i)(s), (__m256i)WHOLE(u), (__m256i)WHOLE(i)))
#else
typedef int16_t pairs __attribute__((vector_size(4 * {lanes})));
typedef uint16_t pair_bits __attribute__((vector_size(4 * {lanes})));
#if defined(__AVX512BW__) && {lanes} == 16
#include <immintrin.h>
#define PAIRS(a, b) ((vec)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__) && {lanes} == 8
#include <immintrin.h>
#define PAIRS(a, b) ((vec)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#else
#define PAIR(a, at) ((vec)((vec_bits)(vec)(a) << (16 - (at))) >> 16)
#define PAIRS(a, b) (PAIR(a, 0) * PAIR(b, 0) + PAIR(a, 16) * PAIR(b, 16))
typedef uint32_t vec_bits __attribute__((vector_size(4 * {lanes})));
#endif
#define ODD_U(x) ((pairs)((pair_bits)WHOLE(x) >> 8))
#define EVEN_U(x) ((pairs)WHOLE(x) & 255)
#define ODD_I(x) ((pairs)WHOLE(x) >> 8)
#define EVEN_I(x) ((pairs)((pair_bits)WHOLE(x) << 8) >> 8)
#define DOT_UI(s, u, i) ((s) + PAIRS(EVEN_U(u), EVEN_I(i)) + PAIRS(ODD_U(u), ODD_I(i)))
#endif
#define WHOLE(x) ((vec){{0}} + (x))
#define HIGH ((vec){{0}} + (int32_t)0x80808080)
#define FLIPPED(x) ((x) ^ (int32_t)0x80808080)
#define DOT_IU(s, i, u) DOT_UI(s, u, i)
#define DOT_II(s, flipped, i) (DOT_UI(s, flipped, i) - DOT_UI((vec){{0}}, HIGH, i))
#define DOT_UU(s, flipped, u) (DOT_UI(s, u, flipped) - DOT_UI((vec){{0}}, u, HIGH))
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BYTE_AT(n) (24 - 8 * (n))
#else
#define BYTE_AT(n) (8 * (n))
#endif
static inline quad quad_at(const quad *from, long at, long step, int count)
{{
    const uint8_t *const bytes = (const uint8_t *)from + at;
    if (step == 1 && count == 4)
        return *(const quad *)bytes;
    uint32_t whole = (uint32_t)bytes[0] << BYTE_AT(0);
    for (int n = 1; n < 4; ++n)
        whole |= (uint32_t)(n < count ? bytes[n * step] : 0) << BYTE_AT(n);
    return (quad)whole;
}}"""
