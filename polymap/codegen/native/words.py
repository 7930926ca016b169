"""Sums of four products of bytes, or of two of bfloat16, at a time: the dot-product instructions of processors.

Four neighbouring bytes along a reduction are one element of 32 bits, a word: A[m,k] * B[k,n] is A[m,k4] . B[k4,n]
with a quarter of the steps, where `.` adds four products to a sum of 32 bits. Words of the operand that is broadcast
are read where they lie if the reduction is contiguous there and a multiple of four long; else they are put together in
a copy, zeros behind the last byte. Those of the vectors are put together as panels are packed.

The instructions multiply bytes without a sign by bytes with one. Of two operands of one kind the one that is broadcast
is copied with the highest bit of each byte flipped, which adds 128 to it, or takes 128 from it.

Two bfloat16 are a word of sums of float32. Of each pair the second product is added first, and each addition is rounded
once (a fused multiply-add), by the instruction and by the C without it; the instruction alone reads and writes values
below 2^-126 as zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from polymap.codegen.lower import Block, Copy, Element, For, Int, Invoke, Name, Stmt, multiply, total
from polymap.codegen.native.arrays import ELEMENT_BYTES, ArrayForm, Word, array_forms
from polymap.codegen.native.lanes import is_packable, vector_dims
from polymap.ir import Access, Apply, Dim, Operator, Read, Workload

_SUMS = {"int8": "int32", "uint8": "int32", "bfloat16": "float32"}
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Words:
    """A workload over words. forms: per operand, how a word is read. dims: the dims of the output that vectors may lie
    along, the best first."""

    workload: Workload
    forms: dict[str, Word]
    dims: tuple[str, ...]


class _ReadInForm(NamedTuple):
    access: Access
    form: ArrayForm


def in_words(workload: Workload, layout: str, lanes: int) -> Words | None:
    """Return the workload over words, of reductions those that need no copy first; None where it is no sum of products
    of bytes in int32 or of bfloat16 in float32, or no reduction of a word's elements is an axis of both operands.
    lanes: sums of a vector.

    Raises WorkloadError where element types have no form in C.
    """
    if len(workload.statements) != 1 or workload.original is not None:
        return None
    (statement,) = workload.statements
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    reads = [_ReadInForm(access, forms[access.tensor]) for access in statement.reads]
    product = Apply("*", (Read(0), Read(1)))
    if statement.operator is not Operator.ADD or statement.expression != product or statement.constraints:
        return None
    sums = forms[statement.target.tensor].kind
    if any(_SUMS.get(form.kind) != sums for _, form in reads) or not (workload.associative or sums == "int32"):
        return None
    count = _WORD_BYTES // ELEMENT_BYTES[reads[0].form.c_type]
    own = {name for index in statement.target.index for name in index.dims}
    if len({access.tensor for access, _ in reads}) < 2 or any(own <= set(access.dims) for access, _ in reads):
        return None
    ways = [
        _over(workload, layout, reads, name, lanes)
        for name, extent in workload.extents().items()
        if name not in own and extent >= count and all(_axis_of(each, name, extent) is not None for each in reads)
    ]
    usable = [each for each in ways if each.dims]
    return min(usable, key=lambda each: not all(map(_lies_in_words, each.forms.values())), default=None)


def _lies_in_words(form: Word) -> bool:
    """Return whether the words of an array can be read where they lie."""
    return form.step == 1 and form.length % form.count == 0


def _axis_of(read: _ReadInForm, name: str, extent: int) -> int | None:
    """Return the axis that a dim alone indexes, all of it."""
    axes = [number for number, index in enumerate(read.access.index) if name in index.dims]
    if len(axes) != 1:
        return None
    index = read.form.axis(read.access, axes[0])
    alone = index.is_linear and index.coefficients() == {name: 1} and not index.constant
    return axes[0] if alone and read.form.sizes[axes[0]] == extent else None


def _over(workload: Workload, layout: str, reads: list[_ReadInForm], name: str, lanes: int) -> Words:
    """Return the workload over words along one reduction."""
    extents, count = workload.extents(), _WORD_BYTES // ELEMENT_BYTES[reads[0].form.c_type]
    bare, tensors = workload.bare, {each.name: each for each in workload.tensors}
    axis_of = {read.access.tensor: _axis_of(read, name, extents[name]) for read in reads}
    for tensor, axis in ((tensors[read.access.tensor], axis_of[read.access.tensor]) for read in reads):
        assert axis is not None, "every operand has the reduction as an axis"
        shape = _shorter(tensor.shape, axis, count)
        tensors[tensor.name] = replace(tensor, shape=shape, bits=8 * _WORD_BYTES, element_type="word")
        if bare is not None and bare.tensor == tensor.name:
            bare = replace(bare, shape=_shorter(bare.shape, axis, count))
    dims = tuple(
        Dim(each.name, -(-each.extent // count) if each.name == name else each.extent) for each in workload.dims
    )
    over = replace(workload, dims=dims, tensors=tuple(tensors.values()), bare=bare)
    copies = {form.tensor: form for form in array_forms(over, layout)}
    made = dict[str, Word]()
    is_flipped = len({form.kind for _, form in reads}) == 1 and reads[0].form.kind != "bfloat16"
    for access, form in reads:
        linear, axis, copy = form.linear(access), axis_of[access.tensor], copies[access.tensor]
        assert axis is not None, "every operand has the reduction as an axis"
        factors = {dim: factor * (count if dim == name else 1) for dim, factor in linear.factors.items()}
        steps = zip(copy.sizes, copy.strides, form.strides, strict=True)
        others = [each for number, each in enumerate(steps) if number != axis]
        word = Word(
            form.kind, count, replace(linear, factors=factors), linear.of(name), name, extents[name], is_flipped
        )
        is_read_directly = _lies_in_words(word) and not is_flipped
        axes = () if is_read_directly else (*others, (copy.sizes[axis], copy.strides[axis], linear.of(name)))
        made[access.tensor] = replace(word, axes=axes)
    reads_over = over.statements[0].reads
    own = [dim for dim in vector_dims(over, layout, lanes) if _is_vector(dim, reads, reads_over)]
    return Words(over, made, tuple(own))


def _shorter(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, ...]:
    return (*shape[:axis], -(-shape[axis] // count), *shape[axis + 1 :])


def gather_loops(form: ArrayForm, source: str) -> Block:
    """Return the loops that copy an array, a C text, into the words that are broadcast."""
    word = form.word
    assert word is not None, "an array of words"
    whole, rest = divmod(word.length, word.count)
    *others, (_, own_to, own_from) = word.axes
    steps = [*((to, from_) for _, to, from_ in others), (own_to, word.count * own_from)]
    names = [Name(f"(long)i{number}") for number in range(len(steps))]
    to, at = (total([multiply(name, each[way]) for name, each in zip(names, steps, strict=True)]) for way in (0, 1))
    found: list[Stmt] = []
    for first, stop, count in ((0, whole, word.count), (whole, whole + 1, rest)):
        spans = [*((0, size) for size, _, _ in others), (first, stop)]
        value = Invoke("word_at", (Name(f"(const word *){source}"), at, Int(word.step), Int(count)))
        value = Invoke("FLIPPED", (value,)) if word.is_flipped else value
        body: Block = (Copy(Element(form.parameter, (to,)), value),)
        for number in sorted(range(len(steps)), key=lambda number: steps[number][0]):
            low, high = spans[number]
            body = (For(f"i{number}", Int(low), Int(high), body),)
        found += body if count else ()
    return tuple(found)


def _is_vector(dim: str, reads: list[_ReadInForm], accesses: tuple[Access, ...]) -> bool:
    """Return whether one operand has the dim, and can be packed."""
    having = [each for each in reads if dim in each.access.dims]
    return (
        len(having) == 1
        and is_packable(having[0].access, accesses)
        and not any(index.constant for index in having[0].access.index)
    )


def dot_macro(first: str, second: str) -> str:
    """Return the name of the macro for the product of two kinds of elements, such as DOT_UI."""
    letters = {"int8": "I", "uint8": "U", "bfloat16": "B"}
    return f"DOT_{letters[first]}{letters[second]}"


def word_helpers(lanes: int, sums: str, body: str) -> str:
    """Return the C macros and functions that a text with words uses. sums: their type in C."""
    part, width, dots = ("uint16_t", 2, _DOT_OF_PAIRS) if sums == "float" else ("uint8_t", 1, _DOT_OF_BYTES)
    first, second = ("PART(0)", "PART(1)") if sums == "float" else ("HALF_OF_BYTES(0)", "HALF_OF_BYTES(2)")
    at = "" if "words_at(" not in body else _WORDS_AT if sums == "float" else _PERMUTED + _WORDS_AT + "\n#endif"
    text = _WORDS + dots + at
    return text.format(lanes=lanes, part=part, width=width, first=first, second=second)


_WORDS = """typedef int32_t word_vec __attribute__((vector_size(4 * {lanes})));
typedef uint32_t word_bits __attribute__((vector_size(4 * {lanes})));
#define WHOLE(x) ((word_vec){{0}} + (x))
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BITS_BEHIND(bits, n) (32 - (bits) * ((n) + 1))
#else
#define BITS_BEHIND(bits, n) ((bits) * (n))
#endif
"""
# Of four rows of 16 bytes, 0, 16, 64 and 80 in two vectors, word n has byte n of each.
_PERMUTED = """
#if defined(__AVX512VBMI__) && {lanes} == 16
#define ROW(n) _mm_loadu_si128((const __m128i *)(const void *)(rows + (n) * step))
#define ROWS(n) _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(ROW(n)), ROW((n) + 1), 1))
static inline void words_at(const word *from, long at, long step, word_vec *to)
{{
    const uint8_t *const rows = (const uint8_t *)from + at;
    const word_vec numbers = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    const word_vec places = numbers * 0x01010101 + 0x50401000;
    *to = (word_vec)_mm512_permutex2var_epi8(ROWS(0), (__m512i)places, ROWS(2));
}}
#else"""
# gcc 12 widens elements by more than twice one by one.
_WORDS_AT = """
typedef {part} parts_of_words __attribute__((vector_size({width} * {lanes}), aligned({width}), may_alias));
typedef uint16_t halves_of_words __attribute__((vector_size(2 * {lanes})));
#define PART(n) __builtin_convertvector(*(const parts_of_words *)(parts + (n) * step), halves_of_words)
#define HALF_OF_BYTES(n) (PART(n) << (BITS_BEHIND(8, n) & 8) | PART((n) + 1) << (BITS_BEHIND(8, (n) + 1) & 8))
static inline void words_at(const word *from, long at, long step, word_vec *to)
{{
    const {part} *const parts = (const {part} *)from + at;
    const halves_of_words first = {first}, second = {second};
    const word_bits low = __builtin_convertvector(first, word_bits), high = __builtin_convertvector(second, word_bits);
    *to = (word_vec)(low << BITS_BEHIND(16, 0) | high << BITS_BEHIND(16, 1));
}}"""
_DOT_OF_PAIRS = """#if defined(__AVX512BF16__) && {lanes} == 16
#include <immintrin.h>
#define DOT_BB(s, a, b) ((vec)_mm512_dpbf16_ps((__m512)(s), (__m512bh)WHOLE(a), (__m512bh)WHOLE(b)))
#elif defined(__AVX512BF16__) && defined(__AVX512VL__) && {lanes} == 8
#include <immintrin.h>
#define DOT_BB(s, a, b) ((vec)_mm256_dpbf16_ps((__m256)(s), (__m256bh)WHOLE(a), (__m256bh)WHOLE(b)))
#else
#define LOW(x) ((vec)(word_vec)((word_bits)WHOLE(x) << 16))
#define HIGH(x) ((vec)(WHOLE(x) & (int32_t)0xffff0000))
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define DOT_BB(s, a, b) ((s) + LOW(a) * LOW(b) + HIGH(a) * HIGH(b))
#else
#define DOT_BB(s, a, b) ((s) + HIGH(a) * HIGH(b) + LOW(a) * LOW(b))
#endif
#endif
static inline word word_at(const word *from, long at, long step, int count)
{{
    const uint16_t *const halves = (const uint16_t *)from + at;
    if (step == 1 && count == 2)
        return *(const word *)halves;
    const uint32_t first = (uint32_t)halves[0] << BITS_BEHIND(16, 0);
    return (word)(count < 2 ? first : first | (uint32_t)halves[step] << BITS_BEHIND(16, 1));
}}"""
_DOT_OF_BYTES = """#if defined(__AVX512VNNI__) && {lanes} == 16
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
#define HIGH ((vec){{0}} + (int32_t)0x80808080)
#define FLIPPED(x) ((x) ^ (int32_t)0x80808080)
#define DOT_IU(s, i, u) DOT_UI(s, u, i)
#define DOT_II(s, flipped, i) (DOT_UI(s, flipped, i) - DOT_UI((vec){{0}}, HIGH, i))
#define DOT_UU(s, flipped, u) (DOT_UI(s, u, flipped) - DOT_UI((vec){{0}}, u, HIGH))
static inline word word_at(const word *from, long at, long step, int count)
{{
    const uint8_t *const bytes = (const uint8_t *)from + at;
    if (step == 1 && count == 4)
        return *(const word *)bytes;
    uint32_t whole = (uint32_t)bytes[0] << BITS_BEHIND(8, 0);
    for (int n = 1; n < 4; ++n)
        whole |= (uint32_t)(n < count ? bytes[n * step] : 0) << BITS_BEHIND(8, n);
    return (word)whole;
}}"""
