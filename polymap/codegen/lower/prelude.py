"""The parts that all faithful programs have in common: includes, messages, main."""

from __future__ import annotations


def comment_of(remark: str) -> str:
    """Return the comment of C that says the lines of a remark; nothing where it has none."""
    lines = "".join(f" * {line}".rstrip().replace("*/", "* /") + "\n" for line in remark.splitlines())
    return f"/*\n{lines} */\n" if lines else ""


FAITHFUL_HEAD = """\
/* The machine's behaviour, step by step; every word that moves is counted where it moves. Written by polymap.
   Compile: cc -std=c99 -O2 program.c -lm

   A buffer holds the cells of all instances of its level: cell = instance * slots + slot. An element is present in a
   cell whose key names the element and the instance's last change of tile (epoch). */
"""

NATIVE_HEAD = """\
/* The nest as a program to use. Written by polymap. Compile: cc -std=c99 -O3 -march=native -fopenmp program.c -lm */
"""

# A loop that may run in lanes need not: clang's vectorizer says so at -O1. Without -fopenmp the loops run one by one.
OPENMP_HINTS = """\
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__) && !defined(_OPENMP)
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif
"""

# C++ has other words for the same.
RESTRICT = """\
#ifdef __cplusplus
#define restrict __restrict__
#endif
"""

# clang for processors with AVX-512 halves vectors of 512 bits unless a function asks for them.
WIDE = """\
#if defined(__clang__)
#define WIDE __attribute__((min_vector_width({bits})))
#else
#define WIDE
#endif"""

LIBRARIES = """\
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
"""

# A function of C11, which the headers of stricter C do not declare.
ALIGNED_ALLOC = """\
#if !defined(__cplusplus) && __STDC_VERSION__ < 201112L
void *aligned_alloc(size_t alignment, size_t size);
#endif
"""

INCLUDES = """\
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
"""

LINE_BYTES = 64  # of a cache, and of a vector register: what programs align to
# Of every local array: into others gcc 12 stores vectors as if they were (short loops, AVX-512), which faults.
ALIGNED_ARRAY = f"__attribute__((aligned({LINE_BYTES})))"

EXTREMES = """\
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
"""

# As fmax and fmin: what is no number loses.
FLOAT_EXTREMES = """\
#define FMIN(a, b) ((a) < (b) || (b) != (b) ? (a) : (b))
#define FMAX(a, b) ((a) > (b) || (b) != (b) ? (a) : (b))
"""

MACROS = """\
#define KEY(epoch, element) ((uint64_t)(epoch) << 32 | ((uint32_t)(element) + 1))
#define EPOCH(key) ((uint32_t)((key) >> 32))
"""

ELEMENT_OF_KEY = """\
#define ELEMENT(key) ((int)((uint32_t)(key) - 1))
"""

FLOOR_DIV = """
/* The quotient rounded down, also of negative numbers. */
static int floor_div(const int a, const int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}
"""

# Sets of elements that were sent in this group, found by a sum over their elements that does not know their order.
MESSAGES = """
static int32_t sent_words[{words}];
static struct {{ int32_t first, length, next; uint64_t sum; }} sent[{messages}];
static struct {{ int32_t head; uint32_t group; }} sent_by_sum[{buckets}];
static int32_t sent_count, sent_end;
static uint32_t sent_group;

static void begin_group(void)
{{
    sent_count = sent_end = 0;
    ++sent_group;
}}

static int same_elements(const int32_t *a, const int32_t *b, const int32_t length, int64_t *marks)
{{
    if (memcmp(a, b, (size_t)length * sizeof *a) == 0) {{
        return 1;
    }}
    ++stamp;
    for (int32_t i = 0; i < length; ++i) {{
        marks[a[i]] = stamp;
    }}
    for (int32_t i = 0; i < length; ++i) {{
        if (marks[b[i]] != stamp) {{
            return 0;
        }}
    }}
    return 1;
}}

/* Whether a message with exactly these elements was sent in this group; if not, it is noted as sent. */
static int already_sent(const int32_t *message, const int32_t length, int64_t *marks)
{{
    uint64_t sum = (uint64_t)length;
    for (int32_t i = 0; i < length; ++i) {{
        const uint64_t mixed = (uint64_t)(message[i] + 1) * UINT64_C(0x9E3779B97F4A7C15);
        sum += mixed ^ mixed >> 29;
    }}
    if (length == 0) {{
        return 1;
    }}
    const uint64_t bucket = (sum ^ sum >> 32) & {mask};
    if (sent_by_sum[bucket].group != sent_group) {{
        sent_by_sum[bucket].group = sent_group;
        sent_by_sum[bucket].head = -1;
    }}
    for (int32_t j = sent_by_sum[bucket].head; j >= 0; j = sent[j].next) {{
        if (sent[j].sum == sum && sent[j].length == length
            && same_elements(sent_words + sent[j].first, message, length, marks)) {{
            return 1;
        }}
    }}
    memcpy(sent_words + sent_end, message, (size_t)length * sizeof *message);
    sent[sent_count].first = sent_end;
    sent[sent_count].length = length;
    sent[sent_count].sum = sum;
    sent[sent_count].next = sent_by_sum[bucket].head;
    sent_by_sum[bucket].head = sent_count++;
    sent_end += length;
    return 0;
}}
"""

RANDOM = """
static uint64_t random_state = 1;

static double random_number(const double low, const double high)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (double)(random_state >> 33) / 2147483648.0 * (high - low);
}
"""

TRANSFER = """
static void transfer(FILE *file, void *data, const size_t size, const size_t count, const int writes)
{
    const size_t done = writes ? fwrite(data, size, count, file) : fread(data, size, count, file);
    if (done != count) {
        fprintf(stderr, "cannot %s all of a tensor\\n", writes ? "write" : "read");
        exit(3);
    }
}
"""

MAIN = """
static FILE *open_file(const char *path, const char *mode)
{{
    FILE *file = fopen(path, mode);
    if (!file) {{
        fprintf(stderr, "cannot open %s\\n", path);
        exit(3);
    }}
    return file;
}}

/* Without arguments: runs on pseudo-random data. With two: reads the tensors that hold values at the start from the
   first file (raw elements, one tensor after the other), writes the written tensors to the second. */
int main(int argc, char **argv)
{{
    if (argc == 3) {{
        FILE *input = open_file(argv[1], "rb");
{reads}\
        fclose(input);
    }} else {{
{fills}\
    }}
{starts}\
    run();
    if (argc == 3) {{
        FILE *output = open_file(argv[2], "wb");
{writes}\
        if (fclose(output) != 0) {{
            return 3;
        }}
    }}
{report}    return 0;
}}
"""

PRINT_COUNTS = """
static void print_counts(void)
{{
    printf("level tensor reads writes fills drains\\n");
{prints}\
    printf("steps %llu instances %llu\\n", steps, instances);
}}
"""
