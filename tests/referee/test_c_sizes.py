"""What is assumed of sizes, against the texts themselves: rows of an unknown length that may overlap, counters and
sizes that may wrap around; and bit operations, `continue`, several counters. Compiled, called at odd sizes, compared.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from polymap import from_c, transform_c
from polymap.codegen.run import run_c
from polymap.codegen.source import symbolic_checkup
from polymap.ir import PolymapError
from tests.c_tally import MACHINE, program_order
from tests.c_to_c import Job, compiled, compilers, flags_of, parameters_of, run_jobs
from tests.times import few

OPTIONS = ({"order": "original", "tile": 1}, {"order": "isl", "tile": 3, "parallel": True}, {})
SIZES = tuple(
    {"n": n, "m": m, "w": w} for n, m, w in ((0, 0, 0), (1, 3, 2), (4, 5, 5), (7, 4, 6), (6, 9, 4), (5, 3, 0))
)
COUNTERS = ("int", "int", "unsigned", "size_t", "long", "unsigned char", "short")


def random_rows(seed: int) -> str:
    """Return a function whose arrays are rows of w elements; rows overlap where w is small."""
    rng = random.Random(f"rows {seed}")

    def place(name: str, i: str, j: str) -> str:
        row = rng.choice((i, i, f"({i} + {rng.randint(0, 2)})"))
        column = rng.choice((j, j, f"{j} + {rng.randint(1, 2)}", f"m + n - {j}", f"m - 1 - {j} + n"))
        if rng.random() < 0.2:
            row, column = f"({column})", row
        index = rng.choice((f"{row} * w + {column}", f"w * {row} + {column}", f"{column} + {row} * w"))
        return rng.choice((f"{name}[{index}]", f"*({name} + {index})"))

    size = "(n + m + 6) * (w + 2) + w + 6"
    first, last = rng.choice(("int", "unsigned", "long")), rng.choice(("int", "unsigned"))
    head = f"void f({first} n, int m, {last} w, int A[{size}], unsigned B[{size}])"
    nests: list[str] = []
    for _ in range(rng.randint(1, 2)):
        one, two = rng.choice(("int", "int", "long", "size_t")), rng.choice(("int", "int", "unsigned"))
        top = rng.choice(("m", "m", "i"))
        skip = rng.choice(("", f"if ({place('A', 'i', 'j')} & 1) continue;", "if (j % 3 == 1) continue;"))
        value = f"({place('B', 'i', 'j')} ^ {place('A', 'i', 'j')} % 50)"
        target = place(rng.choice("AB"), "i", "j")
        work = rng.choice((f"{target} = {value} % 100;", f"{target} |= {rng.randint(1, 9)}; {target} = {value} & 63;",
                           f"{target} += {place('B', 'i', 'j')} >> 3;"))  # fmt: skip
        nests.append(f"for ({one} i = 0; i < n; i++) for ({two} j = 0; j < {top}; j++) {{ {skip} {work} }}")
    return f"{head} {{\n" + "\n".join(nests) + "\n}\n"


def random_counters(seed: int) -> str:
    """Return a function whose counters and sizes may wrap around, with bit operations and jumps."""
    rng = random.Random(f"counters {seed}")
    kind = rng.choice(COUNTERS)
    bound = rng.choice(("n", "n - 1", "n - 2", "m + n", "n / 2"))
    loop = rng.choice((
        f"for ({kind} i = 0; i < {bound}; i += {rng.randint(1, 3)})", f"for (int i = 0, j = {bound}; i < j; i++, --j)",
        "for (int i = n; i-- > 0;)", "for (int i = 0, k = 3; i < n; ++i, k += 2)",
        f"for ({kind} i = n; i > 0; i -= 1)", "for (int i = n - 1; i >= 0; --i)",
    ))  # fmt: skip
    index = rng.choice(("i", "i >> 1", "i & 3", "i + 1", "(i << 1) / 2", "~(-i) + 1"))
    jump = rng.choice(("if (i & 1) continue;", "if (B[i] > 9) { A[i] = 'a'; continue; } else A[i] = sizeof(long);", ""))
    work = rng.choice((f"A[{index}] = B[i] >> 2;", f"A[{index}] ^= B[i] & 0x0f;", f"A[i] = ~A[{index}] % 90;",
                       f"A[{index}] %= 7; B[i] <<= 1;", f"A[{index}] = A[i] = B[i] | 3;"))  # fmt: skip
    kinds = rng.choice(("int", "unsigned", "short")), rng.choice(("int", "short", "char"))
    head = f"void f({kinds[0]} n, int m, int w, {kinds[1]} A[40], int B[40])"
    return f"{head} {{\n{loop} {{ {jump} {work} }}\n}}\n"


def _wrong(texts: list[str], folder: Path) -> tuple[int, list[str]]:
    """Return how many new texts were compared, and what differs."""
    jobs: list[Job] = []
    compiler = compilers()[0]
    flags = (*flags_of(compiler, sanitized=False), "-fsigned-char")
    for number, text in enumerate(texts):
        listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(text, "f"))
        changed: list[str] = []
        for options in OPTIONS:
            try:
                changed.append(transform_c(text, **options))  # pyright: ignore[reportArgumentType]
            except PolymapError:
                continue
        if changed:
            original = compiled(text, folder / f"o{number}.so", compiler, flags)
            for place, new in enumerate(dict.fromkeys(changed)):
                path = compiled(new, folder / f"n{number}_{place}.so", compiler, flags)
                jobs.append(Job(original, path, "f", listed, SIZES, reach=9))
    found = run_jobs(jobs)
    return len(jobs), [f"{jobs[place].changed}: {each}" for place, each in enumerate(found) if each]


@pytest.mark.parametrize("first", few([0, 1000], 1))
def test_texts_under_assumed_sizes_compute_what_the_originals_do(first: int, tmp_path: Path) -> None:
    texts = [random_rows(seed) for seed in range(first, first + 4)]
    texts += [random_counters(seed) for seed in range(first, first + 5)]
    count, wrong = _wrong(texts, tmp_path)
    assert not wrong, "every element is the original's, whether the assumption holds or not"
    assert count > 9, "most of them are read"


def test_programs_of_bits_and_jumps_compute_what_their_texts_do() -> None:
    found = 0
    for seed in range(12):
        try:
            workload = from_c(random_counters(seed), {"n": 9, "m": 8, "w": 5})
        except PolymapError:
            continue
        found += 1
        assert run_c(workload, MACHINE, program_order(workload)).matches_reference, "as the text computes"
    assert found > 6, "most of them are read"


def test_what_is_assumed_is_told() -> None:
    text = transform_c(
        "void f(int n, int w, int A[n]) {\nfor (size_t i = 0; i < n; i++) A[i * w] = 1;\n}", order="original"
    )
    told = "((n >= 1) && (w >= 1)) || (n == 0)"
    assert text.report.assumed == told, "n is compared as an unsigned number, and elements of two rows differ"
    assert f"if ({told}) {{" in text, "the new loops run there alone"
    assert f"the new loops run where {told}, the original ones elsewhere" in repr(text), "it is told"
    assert f"for all values of n, w with {told}" in repr(symbolic_checkup(text.report.source)), (
        "what is checked holds there"
    )


@pytest.mark.parametrize(("row", "largest"), [("i", 65536), ("(i - 1)", 65537), ("(i + 2)", 65534)])
def test_rows_of_an_unsigned_length_are_those_that_32_bits_hold(row: str, largest: int) -> None:
    head = "void f(unsigned n, unsigned m, float *A, float *B)"
    loops = "for (unsigned i = 1; i < n; i++) for (unsigned j = 0; j < m; j++)"
    text = transform_c(f"{head} {{ {loops} A[{row} * m + j] = B[j]; }}", order="original")
    told = text.report.assumed.replace("(long)", "")
    assert told == f"(m <= 65535) && (n <= {largest})", "(2^16 - 1) (2^16 - 1) + 2^16 - 2 is the largest subscript"
    with pytest.raises(PolymapError, match="PM262"):
        transform_c(f"{head} {{ {loops} for (unsigned k = 0; k < m; k++) A[({row} * m + j) * n + k] = 1; }}")


@pytest.mark.parametrize("kind", ["long", "size_t"])
def test_unsigned_products_in_wider_sums_are_those_that_32_bits_hold(kind: str) -> None:
    head = "void f(unsigned n, unsigned m, long l, float *A)"
    loops = f"for (unsigned i = 0; i < n; i++) for ({kind} j = 0; j < l; j++)"
    assumed = transform_c(f"{head} {{ {loops} A[i * m + j] = i + j; }}", order="original").report.assumed
    assert "m <= 65535" in assumed.replace("(long)", ""), "i * m wraps around before j is added"
    assert "n <= 65536" in assumed.replace("(long)", "")
    wide = transform_c(f"{head} {{ {loops} A[(size_t)i * m + j] = i + j; }}", order="original").report.assumed
    assert "65535" not in wide
    with pytest.raises(PolymapError, match="PM262"):
        transform_c(f"{head} {{ {loops} for (long k = 0; k < l; k++) A[(i * m + n) * m + k] = 1; }}")


def test_rows_are_assumed_with_which_something_runs() -> None:
    text = "for (int i = l; i < n; i++) for (int j = 0; j < k; j++) A[(i + 2) * m + j] = i + j;"
    report = transform_c(f"void f(int n, int m, int k, int l, float *A) {{ {text} }}", order="original").report
    assert "m >= k" in report.assumed, "not l >= n alone, where A[i][2 * m + j] is never set"


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 1, z = w; i < z; i++, --z) A[i & 31] += 1;",
        "int z = w; for (int i = 0; i < n; i++) { if (z > 5) A[z & 31] += i + 1; z -= 1; }",
        "long z = w - 1; for (int i = 0; i < n; i++) { z = z + 1; if (z - w < 9) A[i] += z & 15; }",
    ],
)
def test_a_counter_of_another_type_holds_its_converted_value(body: str, tmp_path: Path) -> None:
    text = f"void f(int n, unsigned w, int A[40]) {{ {body} }}"
    sizes = tuple({"n": 9, "w": w} for w in (0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1) if w < 8 or "i < n" in body)
    compiler, listed = compilers()[0], (("n", "int32", ()), ("w", "uint32", ()), ("A", "int32", ("40",)))
    flags = flags_of(compiler, sanitized=False)
    original = compiled(text, tmp_path / "o.so", compiler, flags)
    changed = compiled(transform_c(text, order="original", tile=1), tmp_path / "n.so", compiler, flags)
    wide = ({"n": 9, "w": 2**31},)  # converted to int: negative
    job = Job(original, changed, "f", listed, (*sizes, *wide), reach=9)
    assert run_jobs([job]) == [[]], "the value is that of the counter's type, for every size"


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < (w < m ? w : m) && i < 40; i++)",
        "for (int i = 0; i < min(m, w) + 1 && i < 40; i++)",
        "for (int i = (m <= w ? m : w); i > 0; i--)",
        "for (int i = (m > w ? m : w); i < 30; i++)",
        "for (int i = max(m, w); i < 30; i++)",
    ],
)
def test_extremes_of_mixed_signs_are_those_of_unsigned_numbers(loop: str, tmp_path: Path) -> None:
    text = f"void f(int m, unsigned w, int A[40]) {{ {loop} A[i & 31] += i; }}"
    compiler, listed = compilers()[0], (("m", "int32", ()), ("w", "uint32", ()), ("A", "int32", ("40",)))
    flags = ("-Dmax(a,b)=((a)>(b)?(a):(b))", "-Dmin(a,b)=((a)<(b)?(a):(b))", *flags_of(compiler, sanitized=False))
    original = compiled(text, tmp_path / "o.so", compiler, flags)
    new = transform_c(text, order="original", tile=1)
    changed = compiled(new, tmp_path / "n.so", compiler, flags)
    sizes = tuple({"m": m, "w": w} for m in (-5, -1, 0, 1, 7) for w in (0, 3, 9))
    assert run_jobs([Job(original, changed, "f", listed, sizes, reach=9)]) == [[]], "as the text, also where m < 0"
    assert "m >= 0" in new.report.assumed, "for negative numbers the original loops run"
