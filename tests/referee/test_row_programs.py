"""Programs by blocks of rows against numpy in doubles: attention, softmax, layer norms, GELU, chains of products."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import polymap as pm
from polymap.inputs.host import HostFacts, host_architecture
from tests.times import few

Values = NDArray[Any]
COMPILERS = ("gcc", "clang")
SIZES = (1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 29, 31, 32, 33, 37, 48, 61, 64, 67, 97, 128, 131)


@dataclass(frozen=True)
class Case:
    workload: pm.Workload
    expected: Callable[..., Any]


def _softmax(x: Values) -> Values:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attention(rng: random.Random, kind: str) -> Case:
    """Return an attention of any form, and the function of doubles."""
    heads, queries, keys, dim, values = (rng.choice(SIZES[:8]), *(rng.choice(SIZES) for _ in range(4)))
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["kv_heads"] = rng.choice([each for each in range(1, heads + 1) if heads % each == 0])
    if rng.random() < 0.3:
        options["batch"] = rng.choice((1, 2, 3))
    if rng.random() < 0.2:
        options["softmax"] = "none"
    sizes = {"heads": heads, "queries": queries, "keys": keys, "dim": dim, "value_dim": values}
    workload = pm.attention(**sizes, types=kind, **options)

    def expected(q: Values, k: Values, v: Values) -> Values:
        if "kv_heads" in options:
            k, v = k[..., None, :, :], v[..., None, :, :]
        scores = q @ np.swapaxes(k, -1, -2)
        weights = scores if "softmax" in options else _softmax(scores)
        return weights @ v

    return Case(workload, expected)


def _layer_norm(rng: random.Random, kind: str) -> Case:
    m, n = rng.choice(SIZES), rng.choice(SIZES)
    text = [
        "A[m] += X[m,n]",
        f"U[m] = A[m] / {n}",
        "D[m,n] = X[m,n] - U[m]",
        "B[m] += D[m,n] * D[m,n]",
        f"R[m] = sqrt(B[m] / {n} + 0.00001)",
        "Y[m,n] = D[m,n] / R[m] * G[n] + H[n]",
    ]
    workload = pm.program(text, m=m, n=n, types=kind, temporary=["A", "U", "D", "B", "R"], name="layer_norm")

    def expected(x: Values, g: Values, h: Values) -> Values:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 0.00001) * g + h

    return Case(workload, expected)


def _soft(rng: random.Random, kind: str) -> Case:
    b, m, n = rng.choice(SIZES[:6]), rng.choice(SIZES), rng.choice(SIZES)
    text = [
        "M[b,m] max= X[b,m,n]",
        "E[b,m,n] = exp(X[b,m,n] - M[b,m])",
        "S[b,m] += E[b,m,n]",
        "Y[b,m,n] = E[b,m,n] / S[b,m]",
    ]
    return Case(pm.program(text, b=b, m=m, n=n, types=kind, temporary=["M", "E", "S"], name="softmax"), _softmax)


def _masked(rng: random.Random, kind: str) -> Case:
    """Return scores of two heads with a scale that is no power of two and a mask of all heads, values kept."""
    q, k, d = rng.choice(SIZES), rng.choice(SIZES), rng.choice(SIZES)
    text = [
        "S[h,q,k] += Q[h,q,d] * K[h,k,d]",
        "T[h,q,k] = S[h,q,k] * 0.3 + B[q,k]",
        "M[h,q] = -1000000.0",
        "M[h,q] max= T[h,q,k]",
        "E[h,q,k] = exp((T[h,q,k] - M[h,q]) * 0.7)",
        "Z[h,q] += E[h,q,k]",
        "O[h,q,d] += E[h,q,k] * V[h,k,d]",
        "Y[h,q,d] = O[h,q,d] / Z[h,q]",
    ]
    workload = pm.program(text, h=2, q=q, k=k, d=d, types=kind, temporary=["S", "M", "E", "Z", "O"], name="masked")

    def expected(queries: Values, keys: Values, mask: Values, values: Values) -> tuple[Values, Values]:
        t = queries @ np.swapaxes(keys, -1, -2) * 0.3 + mask
        return t, _softmax(t * 0.7) @ values

    return Case(workload, expected)


def _gelu(rng: random.Random, kind: str) -> Case:
    m, e, f = (rng.choice(SIZES) for _ in range(3))
    text = [
        "H[m,f] += X[m,e] * W[e,f]",
        "A[m,f] = H[m,f] + B[f]",
        "G[m,f] = 0.5 * A[m,f] * (1.0 + tanh(0.7978845608 * (A[m,f] + 0.044715 * A[m,f] * A[m,f] * A[m,f])))",
        "Y[m,e] += G[m,f] * U[f,e]",
        "Z[m,e] = max(Y[m,e], X[m,e])",
    ]
    workload = pm.program(text, m=m, e=e, f=f, types=kind, temporary=["H", "A", "G", "Y"], name="feed_forward")

    def expected(x: Values, w: Values, b: Values, u: Values) -> Values:
        a = x @ w + b
        return np.maximum((0.5 * a * (1 + np.tanh(0.7978845608 * (a + 0.044715 * a * a * a)))) @ u, x)

    return Case(workload, expected)


MAKERS = (_attention, _attention, _layer_norm, _soft, _masked, _gelu)


def _tolerance(kind: str, workload: pm.Workload) -> float:
    """Return a bound of errors: a rounding per term of the longest sums, of values that the operands' sizes bound."""
    terms = max(dim.extent for dim in workload.dims)
    return (1e-7 if kind == "float32" else 2e-16) * 8 * (terms + 40)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("seed", few(range(18), 6))
def test_blocks_of_rows_compute_what_numpy_does(seed: int, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    rng = random.Random(seed)
    kind = rng.choice(("float32", "float32", "float64"))
    case = MAKERS[seed % len(MAKERS)](rng, kind)
    function = pm.compile(case.workload, "host_cpu", threads=rng.choice((1, 1, 2)))
    assert "Blocks of rows" in function.source, "the program is not computed by blocks of rows"
    numbers = np.random.default_rng(seed)
    forms = [each for each in function.function.arrays if not each.is_written]
    arrays = [numbers.uniform(-1, 1, each.shape).astype(kind) for each in forms]
    found = function(*arrays)
    expected = case.expected(*(each.astype(np.float64) for each in arrays))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else ((found, expected),)
    for one, other in pairs:
        limit = _tolerance(kind, case.workload) * max(1.0, float(np.abs(other).max()))
        error = float(np.abs(one - np.reshape(other, one.shape)).max())
        assert error <= limit, f"{case.workload.name}: error {error}, at most {limit}"


def test_what_keeps_its_order_or_has_another_form_is_not_run_by_blocks_of_rows() -> None:
    softmax = ["M[m] max= X[m,n]", "E[m,n] = exp(X[m,n] - M[m])", "S[m] += E[m,n]", "Y[m,n] = E[m,n] / S[m]"]
    columns = ["M[n] max= X[m,n]", "Y[m,n] = X[m,n] - M[n]"]
    window = ["A[m,n] = X[m,n] * 2", "Y[m,n] = A[m,n] + X[m,n+1]"]
    mixed = {"X": "float32", "A": "float32", "Y": "float64"}
    for text, options in (
        (softmax, {"types": "float32", "associative": False}),
        (softmax[:1] + columns[1:], {"types": "int32"}),
        (columns, {"types": "float32"}),
        (window, {"types": "float32"}),
        (["A[m,n] = X[m,n] * 2", "Y[m,n] = A[m,n] + 1"], {"types": mixed}),
    ):
        arguments: dict[str, Any] = options
        try:
            workload = pm.program(text, m=5, n=7, **arguments)
        except pm.PolymapError:
            continue
        assert "Blocks of rows" not in pm.compile(workload).source, f"{text} runs by blocks of rows"


def test_infinite_scores_and_divisors_without_reciprocals_are_those_of_numpy() -> None:
    text = ["M[m] max= X[m,n]", "E[m,n] = exp(X[m,n] - M[m])", "S[m] += E[m,n]", "Y[m,n] = E[m,n] / S[m]"]
    softmax = pm.compile(pm.program(text, m=3, n=37, types="float32", temporary=["M", "E", "S"]))
    x = np.zeros((3, 37), np.float32)
    x[0, 5:], x[1] = -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = _softmax(x)
    found = softmax(x)
    assert np.allclose(found, expected, rtol=1e-6, equal_nan=True), "masked scores have no weight"
    divide = pm.compile(
        pm.program(["S[m] += X[m,n]", "Y[m,n] = X[m,n] / S[m]"], m=4, n=2, types="float32", temporary=["S"])
    )
    y = np.array([[1e-42, 2e-42], [1e38, 2e38], [0, 0], [np.inf, 1]], np.float32)
    with np.errstate(all="ignore"):
        exact = (y / y.sum(-1, keepdims=True)).astype(np.float32)
    assert np.array_equal(divide(y), exact, equal_nan=True), "quotients are divided where reciprocals are no floats"


@pytest.mark.parametrize(("queries", "by_rows"), [(1, True), (3, True), (40, False)])
@pytest.mark.parametrize("cache", [2**15, 2**18])
def test_large_matrices_are_read_once_for_few_rows_or_fit_some_second_caches(
    queries: int, by_rows: bool, cache: int
) -> None:
    """Few rows read the matrix of scores along its terms; more would have it packed, and read it again."""
    by_rows = by_rows or cache == 2**18
    facts = HostFacts("a", 2, (2**15, cache, 2**25), 512, 32, fused_multiply_add=True, assumed=())
    keys, dim = 1203, 144
    attention = pm.attention(heads=2, queries=queries, keys=keys, dim=dim, types="float32")
    compiled = pm.compile(attention, host_architecture(facts))
    assert ("Blocks of rows" in compiled.source) == by_rows, f"{queries} rows"
    rng = np.random.default_rng(queries)
    q, k, v = (rng.standard_normal((2, each, dim)).astype(np.float32) / 4 for each in (queries, keys, keys))
    wide = [each.astype(np.float64) for each in (q, k, v)]
    expected = _softmax(wide[0] @ wide[1].transpose(0, 2, 1)) @ wide[2]
    assert np.allclose(compiled(q, k, v), expected, rtol=1e-4, atol=1e-5), f"{queries} rows"


def _random_rows(rng: random.Random) -> tuple[list[str], list[Callable[[dict[str, Values]], Values]]]:
    """Return statements over rows and lanes, each of what some before it wrote, and what each is in numpy."""
    lines: list[str] = []
    values: list[Callable[[dict[str, Values]], Values]] = []
    known, of_rows = ["X"], list[str]()
    for number in range(rng.randint(3, 9)):
        name, read, other = f"T{number}", rng.choice(known), rng.choice([*known, *of_rows])
        axes = "[m]" if other in of_rows else "[m,n]"
        form = rng.choice(("product", "difference", "tanh", "sum", "largest"))
        if form == "sum":
            lines.append(f"{name}[m] += {read}[m,n]")
            values.append(lambda own, read=read: own[read].sum(1, keepdims=True))
        elif form == "largest":
            lines.append(f"{name}[m] max= {read}[m,n]")
            values.append(lambda own, read=read: own[read].max(1, keepdims=True))
        elif form == "tanh":
            lines.append(f"{name}[m,n] = tanh({read}[m,n])")
            values.append(lambda own, read=read: np.tanh(own[read]))
        else:
            lines.append(f"{name}[m,n] = {read}[m,n] {'*' if form == 'product' else '-'} {other}{axes}")
            function = np.multiply if form == "product" else np.subtract
            values.append(lambda own, read=read, other=other, function=function: function(own[read], own[other]))
        (of_rows if form in ("sum", "largest") else known).append(name)
    ends = [*known[-2:], *of_rows[-2:]]
    lines.append("Y[m,n] = " + " + ".join(f"{each}[m{'' if each in of_rows else ',n'}]" for each in ends))
    values.append(lambda own: sum((own[each] for each in ends), np.zeros_like(own["X"])))
    return lines, values


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_a_temporary_takes_no_place_of_one_that_is_read_again(seed: int) -> None:
    rng = random.Random(seed)
    lines, values = _random_rows(rng)
    names = [each.split("[")[0] for each in lines]
    workload = pm.program(lines, m=rng.randint(2, 9), n=rng.choice(SIZES[:10]), types="float64", temporary=names[:-1])
    function = pm.compile(workload, "host_cpu", threads=1)
    own = {"X": np.random.default_rng(seed).uniform(-1, 1, tuple(dim.extent for dim in workload.dims))}
    for name, value in zip(names, values, strict=True):
        own[name] = value(own)
    found = function(own["X"])
    assert np.allclose(found, own["Y"], rtol=1e-9, atol=1e-9), (lines, np.abs(found - own["Y"]).max())


def test_a_temporary_of_one_element_is_accumulated_in_a_variable() -> None:
    for operator, function in (("max=", np.max), ("+=", np.sum), ("min=", np.min)):
        lines = [f"T[] {operator} tanh(X[n])", "Y[m,n] = T[] * Z[m,n] + T[]", "W[n] += Y[m,n]"]
        found = pm.compile(pm.program(lines, types="float64", temporary=["T"], m=5, n=7))(
            x := np.random.default_rng(1).uniform(-1, 1, 7), z := np.random.default_rng(2).uniform(-1, 1, (5, 7))
        )
        expected = function(np.tanh(x)) * z + function(np.tanh(x))
        assert np.allclose(found[0], expected, rtol=1e-9), f"the products, with T {operator}"
        assert np.allclose(found[1], expected.sum(0), rtol=1e-9), f"their sums, with T {operator}"


@pytest.mark.parametrize("seed", few(range(9), 3))
def test_numbers_and_functions_of_float32_programs_are_float32(seed: int) -> None:
    """In the order of the text each operation is rounded as numpy rounds it; C would compute in doubles."""
    n = random.Random(seed).choice(SIZES)
    text = ["T[m,n] = sqrt(fabs(X[m,n] * 0.3 + 0.1)) / 0.7", "Y[m] += T[m,n] * 1.1 - max(X[m,n], 0.25)"]
    workload = pm.program(text, m=3, n=n, types="float32", temporary=["T"], associative=False)
    x = np.random.default_rng(seed).standard_normal((3, n), np.float32)
    a, b, c, d, e = map(np.float32, (0.3, 0.1, 0.7, 1.1, 0.25))
    terms = np.sqrt(np.abs(x * a + b)) / c * d - np.maximum(x, e)
    expected = np.zeros(3, np.float32)
    for column in range(n):
        expected = expected + terms[:, column]
    assert np.array_equal(pm.compile(workload)(x), expected)
    wide = pm.program(text, m=3, n=n, types={"X": "float64", "T": "float64", "Y": "float32"}, associative=False)
    assert "0.3f" not in str(wide.statements[0]), "of mixed types numbers are doubles, as in C"
