"""`pm.compile` equals numpy on random einsums: shared and sliding operands, strides, negative steps, every reduction.

Products of two to four operands at most 5 in size are held exactly by every type, so that results are compared bit for
bit. The reference reads every operand at every point of all dims, in the order of numpy's axes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest

import polymap as pm
from tests.times import few

Values = np.ndarray
Term = tuple[tuple[str, int], ...]  # (dim, coefficient) of an index
PROCESSORS = ("host_cpu", "cpu_avx512", "cpu_avx2", "cpu_neon")
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64)
MOST_POINTS = 200_000
REDUCED: dict[str, Callable[..., Values]] = {"+=": np.sum, "max=": np.max, "min=": np.min}


@dataclass(frozen=True)
class Einsum:
    """An einsum in parts: how its output is reduced, sizes per dim, dims of the output, indices per operand."""

    operator: str
    sizes: dict[str, int]
    output: tuple[str, ...]
    operands: tuple[tuple[Term, ...], ...]

    @property
    def text(self) -> str:
        """Return the einsum as users write it; what counts backwards begins at its last element."""
        reads = " * ".join(
            f"{'ABDE'[number]}[{','.join(self._index(term) for term in terms)}]"
            for number, terms in enumerate(self.operands)
        )
        return f"O[{','.join(self.output)}] {self.operator} {reads}"

    def _index(self, term: Term) -> str:
        parts = [f"{factor}*{dim}" for dim, factor in term]
        return "+".join([*parts, str(self._lowest(term))]).replace("+-", "-")

    def _lowest(self, term: Term) -> int:
        return sum(-factor * (self.sizes[dim] - 1) for dim, factor in term if factor < 0)

    def shape(self, operand: int) -> tuple[int, ...]:
        return tuple(
            1 + sum(abs(factor) * (self.sizes[dim] - 1) for dim, factor in term) for term in self.operands[operand]
        )

    def reference(self, operands: list[Values]) -> Values:
        """Return the result in 64-bit integers."""
        grids = dict(zip(self.sizes, np.indices(tuple(self.sizes.values())), strict=True))
        read = [
            values.astype(np.int64)[
                tuple(sum(factor * grids[dim] for dim, factor in term) + self._lowest(term) for term in terms)
            ]
            for values, terms in zip(operands, self.operands, strict=True)
        ]
        away = tuple(axis for axis, dim in enumerate(self.sizes) if dim not in self.output)
        kept = [dim for dim in self.sizes if dim in self.output]
        every = reduce(np.multiply, read)
        result = REDUCED.get(self.operator, np.sum)(every, axis=away) if away else every
        return result.transpose([kept.index(dim) for dim in self.output])


def _random_terms(rng: random.Random, dims: list[str]) -> tuple[Term, ...]:
    """Return indices that read the dims, some of them sums of two."""
    terms: list[Term] = []
    while dims:
        together, dims = (dims[:2], dims[2:]) if rng.random() < 0.25 else (dims[:1], dims[1:])
        steps = (1, 2, 3, -1) if len(together) == 2 else (1, 1, 1, 2, -1)
        terms.append(tuple((dim, rng.choice(steps)) for dim in together))
    return tuple(terms)


def random_einsum(rng: random.Random) -> Einsum:
    dims = list("ijklm"[: rng.randint(1, 5)])
    sizes = {dim: rng.choice(SIZES) for dim in dims}
    while np.prod(list(sizes.values())) > MOST_POINTS:
        sizes[rng.choice(dims)] = rng.choice(SIZES[:3])
    read = [rng.sample(dims, rng.randint(1, len(dims))) for _ in range(rng.randint(1, 4))]
    read[0] += [dim for dim in dims if not any(dim in each for each in read)]
    output = tuple(rng.sample(dims, rng.randint(1, min(3, len(dims)))))
    operator = (
        "=" if len(output) == len(dims) and rng.random() < 0.5 else rng.choice(["+=", "+=", "+=", "max=", "min="])
    )
    return Einsum(operator, sizes, output, tuple(_random_terms(rng, each) for each in read))


def _case(seed: int) -> None:
    rng = random.Random(seed)
    drawn = random_einsum(rng)
    kind = rng.choice(["float32", "float64", "int32", "int8"])
    names = "ABDE"[: len(drawn.operands)]
    types = {**dict.fromkeys(names, kind), "O": "int32" if kind == "int8" else kind}
    workload = pm.einsum(drawn.text, sizes=drawn.sizes, types=types)
    fn = pm.compile(workload, rng.choice(PROCESSORS), threads=rng.choice([1, 1, 2, 3]))
    values = np.random.default_rng(seed)
    operands = [values.integers(-2, 3, drawn.shape(number)).astype(kind) for number in range(len(names))]
    found, expected = fn(*operands), drawn.reference(operands)
    assert found.shape == expected.shape, drawn.text
    assert (found == expected).all(), (drawn.text, drawn.sizes, types)


def test_a_text_says_what_the_reference_computes() -> None:
    drawn = Einsum("+=", {"i": 3, "j": 2}, ("i",), (((("i", -1), ("j", 2)),), ((("j", 1),),)))
    assert drawn.text == "O[i] += A[-1*i+2*j+2] * B[1*j+0]"
    assert drawn.shape(0) == (5,)
    assert drawn.reference([np.array([1, 10, 100, 1000, 10000]), np.array([1, 2])]).tolist() == [20100, 2010, 201]


# 1354: lanes stand far above the other sums.
@pytest.mark.parametrize("seed", few([*range(4), 1354, *range(4, 8)], 5))
def test_compiled_einsums_equal_numpy(seed: int) -> None:
    _case(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 40, 8))
def test_more_compiled_einsums_equal_numpy(first: int) -> None:
    for seed in range(first, first + 8):
        _case(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_compiled_einsums_equal_numpy(first: int) -> None:
    for seed in range(first, first + 100):
        _case(seed)


def test_a_tile_that_ends_within_a_vector_keeps_whole_vectors_of_others_whole() -> None:
    """D[2*8+0:] begins where the last lane of row 0 does: the same place, once one lane of it and once sixteen."""
    sizes = {"i": 13, "j": 17}
    workload = pm.einsum("O[i,j] += A[i,j] * B[j] * D[2*i+j]", sizes=sizes, types=dict.fromkeys("ABDO", "float32"))
    drawn = Einsum("+=", sizes, ("i", "j"), (((("i", 1),), (("j", 1),)), ((("j", 1),),), ((("i", 2), ("j", 1)),)))
    operands = [np.arange(np.prod(drawn.shape(number)), dtype=np.float32) for number in range(3)]
    operands = [each.reshape(drawn.shape(number)) % 7 for number, each in enumerate(operands)]
    assert (pm.compile(workload, "cpu_avx512")(*operands) == drawn.reference(operands)).all()


@pytest.mark.parametrize("seed", [1109, 1157])
def test_sums_against_the_order_of_memory_are_right(seed: int) -> None:
    """gcc 12.2 adds some of these floats up twice, unless it is told not to."""
    _case(seed)


def test_several_additions_to_one_sum_are_right() -> None:
    text = """void f(float A[200], float s[1], float r[1], float q[1]) {
      for (int k = 0; k < 100; k++) { s[0] += A[2*k+1]; s[0] += A[2*k]; }
      for (int k = 0; k < 100; k++) r[0] = r[0] + A[2*k+1] + A[2*k];
      for (int k = 99; k >= 0; k--) for (int l = 1; l >= 0; l--) q[0] += A[2*k+l];
    }"""
    fn = pm.compile(pm.from_c(text), "host_cpu")
    values, zero = np.arange(200, dtype=np.float32) % 11, np.zeros(1, np.float32)
    assert [float(each[0]) for each in fn(values, zero, zero, zero)] == [float(values.sum())] * 3


@pytest.mark.parametrize("text", ["O[i] += A[i,j] * B[i]", "O[i] += A[i,j]", "O[i] += A[i]"])
def test_a_single_dim_is_streamed_without_an_order(text: str) -> None:
    sizes = {"i": 5, "j": 7} if "j" in text else {"i": 5}
    names = [name for name in "ABO" if name in text]
    workload = pm.einsum(text, sizes=sizes, types=dict.fromkeys(names, "float32"))
    operands = [np.ones(tuple(sizes[dim] for dim in ("ij" if "j" in text else "i")), np.float32)]
    operands += [np.full(5, 2, np.float32)] if "B" in text else []
    reduced = 7 if "j" in text else 1
    assert (pm.compile(workload, "host_cpu")(*operands) == reduced * (2 if "B" in text else 1)).all()


@pytest.mark.parametrize(("operator", "reduced"), [("max=", np.fmax.reduce), ("min=", np.fmin.reduce)])
@pytest.mark.parametrize("out", ["i", "j"])
def test_what_is_no_number_loses(operator: str, reduced: Callable[..., Values], out: str) -> None:
    values = np.random.default_rng(1).standard_normal((50, 133)).astype(np.float32)
    values[values > 1] = np.nan
    values[:10, -1] = values[:5, 0] = np.nan
    fn = pm.compile(pm.einsum(f"O[{out}] {operator} A[i,j]", i=50, j=133, types=dict.fromkeys("OA", "float32")))
    assert (fn(values) == reduced(values, axis="ji".index(out))).all()
