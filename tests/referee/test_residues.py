"""Transposed convolutions, printed as ordinary ones, against sums over their own definition in numpy: exact numbers."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from tests.native_cases import SANITIZED, results
from tests.times import few

_TYPES = ("float32", "float32", "float64", "int32")


def random_case(rng: random.Random) -> tuple[str, dict[str, int], str]:
    """Return a transposed convolution of one or two axes: its text, sizes and element type."""
    rank = rng.choice([1, 2, 2])
    sizes = {"c": rng.choice([1, 3, 8, 17]), "k": rng.choice([1, 5, 16, 33])}
    out, read, tap = [["k"], ["c"], rng.choice([["c", "k"], ["k", "c"]])]
    if rng.random() < 0.3:
        sizes["n"] = rng.choice([2, 3])
        out, read = ["n", *out], ["n", *read]
    for p, r in (("p", "r"), ("q", "t"))[:rank]:
        stride = rng.choice([1, 2, 2, 2, 3])
        sizes |= {p: rng.choice([1, 2, 7, 14, 20]), r: stride + rng.choice([0, 1, 2, 3])}
        index = f"{stride}*{p}+{r}" if stride > 1 else f"{p}+{r}"
        last = rng.random() < 0.7
        out = [*out, index] if last else [index, *out]
        read = [*read, p] if last else [p, *read]
        tap = [*tap, r] if rng.random() < 0.7 else [r, *tap]
    text = f"Y[{','.join(out)}] += X[{','.join(read)}] * W[{','.join(tap)}]"
    return text, sizes, rng.choice(_TYPES)


def expected(text: str, sizes: dict[str, int], x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """Add the products of a text to y, a tap of every output axis at a time."""
    out, read, tap = (part.split("]")[0].split(",") for part in text.split("[")[1:])
    taps = [name for name in tap if name not in "ck"]
    for values in itertools.product(*(range(sizes[name]) for name in taps)):
        at = dict(zip(taps, values, strict=True))
        own = w[tuple(at.get(name, slice(None)) for name in tap)]
        letters = "".join(name for name in tap if name not in at)
        names = [position(index) for index in out]
        product = np.einsum(f"{''.join(read)},{letters}->{''.join(name for name, _, _ in names)}", x, own)
        place = tuple(
            slice(None) if not tap_name else slice(at[tap_name], at[tap_name] + step * (sizes[name] - 1) + 1, step)
            for name, step, tap_name in names
        )
        y[place] += product


def position(index: str) -> tuple[str, int, str]:
    """Return (dim, its factor, the tap) of an index of the output."""
    if "+" not in index:
        return index, 1, ""
    one, tap = index.split("+")
    return (one[2:], int(one[0]), tap) if "*" in one else (one, 1, tap)


_TAILS: tuple[tuple[str, ...], ...] = ((), (), ("relu",), ("add", "relu"), ("bias",))
_FLAGS = ((*SANITIZED, "-march=native"), ("-O3", "-march=native", "-std=c99", "-fopenmp-simd"))


def compared(seed: int, where: Path) -> tuple[bool, str]:
    """Return whether a random case has vectors, and what differs of it, "" for nothing."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    text, sizes, kind = random_case(rng)
    tail, cc = rng.choice(_TAILS), rng.choice([name for name in ("gcc", "clang") if shutil.which(name)])
    fn = pm.compile(pm.einsum(text, sizes=sizes, types=kind), threads=1, tail=tail)
    arrays = [numbers.integers(-3, 4, form.shape).astype(form.kind) for form in fn.function.arrays]
    y, more = np.zeros(arrays[-1].shape, kind), list(arrays[2:-1])
    expected(text, sizes, arrays[0], arrays[1], y)
    for step in tail:
        y = np.maximum(y, 0) if step == "relu" else y + more.pop(0)
    found = results(fn.function, arrays, where, cc, rng.choice(_FLAGS))
    is_equal = len(found) > 0 and all(np.array_equal(each, y) for each in found)
    return not fn.reason, "" if is_equal else f"{seed}: {text} {sizes} {kind} {tail} {cc} {fn.reason}"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize("seed", few(range(4), 2))
def test_transposed_convolutions_are_their_sums(seed: int, tmp_path: Path) -> None:
    _, wrong = compared(seed, tmp_path)
    assert not wrong


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("Y[k,2*p+r] += X[c,p] * W[c,k,r]", True),
        ("Y[k,p+r] += X[c,p] * W[c,k,r]", True),
        ("Y[k,4*p+r] += X[c,p] * W[c,k,r]", False),  # elements that no tap reaches
        ("Y[k,2*p+2*r] += X[c,p] * W[c,k,r]", False),
        ("Y[k,2*p+r] += X[c,p+r] * W[c,k,r]", False),
        ("Y[k,2*p+r] max= X[c,p] * W[c,k,r]", False),
    ],
)
def test_what_is_no_transposed_convolution_stays_as_it_is(text: str, is_told: bool) -> None:
    sizes = {"k": 16, "c": 4, "p": 9, "r": 3}
    fn = pm.compile(pm.einsum(text, sizes=sizes, types="float32"))
    assert ("A transposed convolution as" in fn.source) == is_told, fn.source[:600]


if __name__ == "__main__":
    import tempfile

    in_vectors = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as folder:
            has_vectors, wrong = compared(seed, Path(folder))
        in_vectors += has_vectors
        if wrong:
            sys.stdout.write(f"{wrong}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{in_vectors} in vectors\n")
