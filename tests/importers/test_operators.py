"""Each operator of the importers' table, evaluated as a loop nest, equals numpy's own evaluation of the operator."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from polymap.codegen.reference import reference
from polymap.importers.calls import Call, NotMapped, Operand
from polymap.importers.functions import FUNCTIONS
from polymap.importers.operators import OPERATORS, parts_of
from polymap.ir import Workload
from tests.times import few

Array = np.ndarray
SEEDS = few(range(25), 10)


def run(workload: Workload, **arrays: Array) -> Array:
    """Return the output of a workload, computed in double; arrays are cut to what it reads."""
    tensors = tuple(replace(each, element_type="float64", bits=64) for each in workload.tensors)
    workload = replace(workload, tensors=tensors)
    data = {}
    for tensor in workload.tensors[1:]:
        array = arrays[tensor.name]
        assert all(size >= part for size, part in zip(array.shape, tensor.shape, strict=True))
        data[tensor.name] = array[tuple(slice(0, size) for size in tensor.shape)].astype(float)
    return reference(workload, data).values[workload.tensors[0].name]


def only(call: Call) -> Workload:
    ((workload, _),) = parts_of(call)
    return workload


def call(operator: str, inputs: tuple, output: tuple, **options: object) -> Call:
    return Call(operator, inputs, output, options, "float32")


def convolved(x: Array, w: Array, stride: tuple, dilation: tuple, groups: int) -> Array:
    """Return the convolution of a padded input, tap by tap over whole output channels."""
    kernel = w.shape[2:]
    out = [(x.shape[2 + a] - dilation[a] * (kernel[a] - 1) - 1) // stride[a] + 1 for a in range(len(kernel))]
    result = np.zeros((x.shape[0], w.shape[0], *out))
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    for k, c in itertools.product(range(w.shape[0]), range(per_in)):
        plane = x[:, k // per_out * per_in + c]
        for taps in itertools.product(*map(range, kernel)):
            cut = tuple(
                slice(tap * dilation[a], tap * dilation[a] + stride[a] * (out[a] - 1) + 1, stride[a])
                for a, tap in enumerate(taps)
            )
            result[:, k] += plane[(slice(None), *cut)] * w[(k, c, *taps)]
    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions_of_any_rank_groups_dilation_and_padding(seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    rank, groups = rng.randint(1, 3), rng.choice((1, 1, 2, 3))
    per_in, per_out = rng.randint(1, 3), rng.randint(1, 3)
    kernel, stride = ([rng.randint(1, 3) for _ in range(rank)] for _ in range(2))
    dilation = [rng.randint(1, 2) for _ in range(rank)]
    pads = [(rng.randint(0, 2), rng.randint(0, 2)) for _ in range(rank)]
    size = [d * (k - 1) + 1 + rng.randint(0, 3) for d, k in zip(dilation, kernel, strict=True)]
    x = draw.integers(-4, 5, (rng.randint(1, 2), groups * per_in, *size))
    w = draw.integers(-4, 5, (groups * per_out, per_in, *kernel))
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    expected = convolved(padded, w, tuple(stride), tuple(dilation), groups)
    workload = only(
        call("convolution", (x.shape, w.shape), expected.shape, strides=stride, dilations=dilation, groups=groups)
    )
    if groups > 1:
        n = x.shape[0]
        padded = padded.reshape(n, groups, per_in, *padded.shape[2:])
        w = w.reshape(groups, per_out, per_in, *kernel)
        expected = expected.reshape(n, groups, per_out, *expected.shape[2:])
        if per_in == 1:
            padded, w = padded[:, :, 0], w[:, :, 0]
        if per_out == 1:
            w, expected = w[:, 0], expected[:, :, 0]
        if per_in > 1 and per_out == 1:
            w = w.reshape(groups, per_in, *kernel)
    np.testing.assert_array_equal(run(workload, I=padded, W=w), expected)


def scattered(x: Array, w: Array, stride: list, dilation: list, begin: list, out: list, groups: int) -> Array:
    """Return the transposed convolution: every input element adds a scaled kernel to the output."""
    rank, per_in, per_out = len(stride), x.shape[1] // groups, w.shape[1]
    full = [(x.shape[2 + a] - 1) * stride[a] + dilation[a] * w.shape[2 + a] + 8 for a in range(rank)]
    result = np.zeros((x.shape[0], per_out * groups, *full))
    for n, c, *place in np.ndindex(*x.shape):
        first = c // per_in * per_out
        for k, *tap in np.ndindex(*w.shape[1:]):
            where = tuple(i * stride[a] + t * dilation[a] for a, (i, t) in enumerate(zip(place, tap, strict=True)))
            result[(n, first + k, *where)] += x[(n, c, *place)] * w[(c, k, *tap)]
    return result[(slice(None), slice(None), *(slice(b, b + o) for b, o in zip(begin, out, strict=True)))]


def made_by_scattering(workload: Workload, x: Array, w: Array, begin: list, expected: Array, groups: int) -> Array:
    """Run the loop nest that is the definition, and cut its output as the operator does."""
    split = (groups,) if groups > 1 else ()
    whole = run(
        workload,
        I=x.reshape(x.shape[0], *split, -1, *x.shape[2:]),
        W=w.reshape(*split, -1, *w.shape[1:]),
    )
    whole = whole.reshape(x.shape[0], expected.shape[1], *whole.shape[-len(begin) :])
    made = np.zeros_like(expected)
    cut = [slice(b, b + o) for b, o in zip(begin, expected.shape[2:], strict=True)]
    part = whole[(slice(None), slice(None), *cut)]
    made[tuple(slice(0, size) for size in part.shape)] = part
    return made


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_transposed_convolutions_are_their_definition_and_count_each_input_times_each_weight(seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    rank, groups = rng.randint(1, 2), rng.choice((1, 1, 2))
    kernel, stride = [rng.randint(1, 4) for _ in range(rank)], [rng.randint(1, 3) for _ in range(rank)]
    dilation = [rng.choice((1, 1, 1, 2, 3)) for _ in range(rank)]
    size, begin, more = ([rng.randint(*span) for _ in range(rank)] for span in ((1, 4), (0, 1), (0, 1)))
    begin = [min(b, k - 1) for b, k in zip(begin, kernel, strict=True)]
    moves = zip(size, stride, kernel, dilation, begin, more, strict=True)
    out = [max(1, (i - 1) * s + d * (k - 1) + 1 - 2 * b + m) for i, s, k, d, b, m in moves]
    x = draw.integers(-4, 5, (2, 2 * groups, *size)).astype(float)
    w = draw.integers(-4, 5, (2 * groups, 3, *kernel)).astype(float)
    expected = scattered(x, w, stride, dilation, begin, out, groups)
    options = {"strides": stride, "dilations": dilation, "pads_begin": begin, "groups": groups}
    parts = parts_of(call("transposed_convolution", (x.shape, w.shape), expected.shape, **options))
    assert all(part.is_product for part in parts)
    assert sum(part.macs for part in parts) == x.size * w[0].size
    if "a" not in parts[0].workload.extents():
        made = made_by_scattering(parts[0].workload, x, w, begin, expected, groups)
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    "kernel, stride, begin, more",
    [(2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1), (3, 1, 1, 0), (5, 2, 2, 1), (1, 2, 0, 1), (3, 3, 0, 0)],
)
@pytest.mark.parametrize("size", [(3,), (2, 4)])
def test_phases_of_transposed_convolutions_compute_the_definition(
    kernel: int, stride: int, begin: int, more: int, size: tuple
) -> None:
    rank, draw = len(size), np.random.default_rng(kernel)
    kernels, strides, begins = [kernel] * rank, [stride] * rank, [begin] * rank
    out = [(i - 1) * stride + kernel - 2 * begin + more for i in size]
    x = draw.integers(-4, 5, (2, 3, *size)).astype(float)
    w = draw.integers(-4, 5, (3, 2, *kernels)).astype(float)
    expected = scattered(x, w, strides, [1] * rank, begins, out, 1)
    made = np.zeros_like(expected)
    asked = call("transposed_convolution", (x.shape, w.shape), expected.shape, strides=strides, pads_begin=begins)
    phases = [phases_of(o, k, s, b) for o, k, s, b in zip(out, kernels, strides, begins, strict=True)]
    for (workload, is_product), kinds in zip(parts_of(asked), itertools.product(*phases), strict=True):
        assert is_product
        fill_phase(workload, x, w, kinds, made, strides)
    np.testing.assert_array_equal(made, expected)


def phases_of(out: int, kernel: int, stride: int, begin: int) -> list:
    """Return per workload of an axis its (first output, first tap, last input read at output 0, taps) by phase."""
    found: dict = {}
    for phase in range(stride):
        first = (phase - begin) % stride
        outputs, taps = len(range(first, out, stride)), len(range(phase, kernel, stride))
        if outputs and taps:
            found.setdefault((outputs, taps), []).append((first, phase, (first + begin - phase) // stride))
    return list(found.items())


def fill_phase(workload: Workload, x: Array, w: Array, kinds: tuple, made: Array, stride: list) -> None:
    """Run the workload once per combination of phases (its a, b, ... fixed to one each) and store its outputs."""
    letters = ("abe", "pqt")
    extents = workload.extents()
    for axis, ((outputs, _), phases) in enumerate(kinds):
        assert extents[letters[0][axis]] == len(phases)
        assert extents[letters[1][axis]] == outputs
    shape = workload.tensor("I").shape
    weights = np.zeros(workload.tensor("W").shape)
    for chosen in itertools.product(*(range(len(phases)) for _, phases in kinds)):
        # Reversed taps: output x reads input (last - taps + 1 + u) + x with tap phase + stride * (taps - 1 - u).
        inputs = np.zeros(shape)
        starts = [phases[at][2] - sizes[1] + 1 for (sizes, phases), at in zip(kinds, chosen, strict=True)]
        for place in np.ndindex(*shape[2:]):
            source = [start + i for start, i in zip(starts, place, strict=True)]
            if all(0 <= i < limit for i, limit in zip(source, x.shape[2:], strict=True)):
                inputs[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *source)]
        weights[:] = 0
        for taps in np.ndindex(*(sizes[1] for sizes, _ in kinds)):
            index: list = [slice(None), slice(None)]
            tap = []
            for axis, ((sizes, phases), at) in enumerate(zip(kinds, chosen, strict=True)):
                index += [taps[axis], at]
                tap.append(phases[at][1] + stride[axis] * (sizes[1] - 1 - taps[axis]))
            weights[tuple(index)] = w[(slice(None), slice(None), *tap)]
        result = run(workload, I=inputs, W=weights)
        index = [slice(None), slice(None)]
        place = [slice(None), slice(None)]
        for axis, ((_, phases), at) in enumerate(zip(kinds, chosen, strict=True)):
            index += [slice(None), at]
            place.append(slice(phases[at][0], None, stride[axis]))
        made[tuple(place)] = result[tuple(index)]


@pytest.mark.parametrize(
    "first, second",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((1, 3, 4), (2, 4, 5)),
        ((2, 6, 3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4,)),
        ((2, 2, 3, 4), (2, 1, 4, 2)),
    ],
)
def test_products_broadcast_as_numpy_does(first: tuple, second: tuple) -> None:
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-4, 5, shape).astype(float) for shape in (first, second))
    expected = np.matmul(a, b)
    workload = only(call("product", (first, second), expected.shape))
    arrays = [
        array.reshape(workload.tensor(name).shape) for array, name in ((a, "A"), (b, "B"))
    ]  # ones that broadcast are dropped, rows of a linear layer joined
    made = run(workload, A=arrays[0], B=arrays[1])
    np.testing.assert_array_equal(made.reshape(expected.shape), expected)
    assert math.prod(dim.extent for dim in workload.dims) == expected.size * first[-1]


@pytest.mark.parametrize("heads, shared", [(2, 1), (2, 3)])
def test_attention_equals_its_three_steps(heads: int, shared: int) -> None:
    draw = np.random.default_rng(2)
    q, k, v = (draw.normal(size=s) for s in ((2, heads * shared, 3, 4), (2, heads, 5, 4), (2, heads, 5, 6)))
    parts = [
        part.workload for part in parts_of(call("attention", (q.shape, k.shape, v.shape), (2, heads * shared, 3, 6)))
    ]
    wide = [np.repeat(array, shared, axis=1) for array in (k, v)]
    scores = np.einsum("bhmk,bhnk->bhmn", q, wide[0])
    split = (2, heads, shared) if shared > 1 else (2, heads)
    made = run(parts[0], Q=q.reshape(*split, 3, 4), K=k)
    np.testing.assert_allclose(made.reshape(scores.shape), scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = run(parts[-1], P=weights.reshape(*split, 3, 5), V=v)
    np.testing.assert_allclose(context.reshape(2, -1, 3, 6), np.einsum("bhmn,bhnd->bhmd", weights, wide[1]))
    assert [part.is_product for part in parts_of(call("attention", (q.shape, k.shape, v.shape), q.shape))] == [
        True, False, False, False, False, True]  # fmt: skip


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_is_four_steps(axis: int) -> None:
    x = np.random.default_rng(3).normal(size=(3, 4, 5))
    largest, powers, sums, quotients = (
        part.workload for part in parts_of(call("softmax", (x.shape,), x.shape, axis=axis))
    )
    m = run(largest, X=x)
    e = run(powers, X=x, M=m)
    s = run(sums, E=e)
    expected = np.exp(x - x.max(axis, keepdims=True))
    np.testing.assert_allclose(run(quotients, E=e, S=s), expected / expected.sum(axis, keepdims=True))


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("parameters", [0, 1, 2])
def test_layer_norm_is_mean_variance_and_quotient(rms: bool, parameters: int) -> None:
    draw = np.random.default_rng(4)
    x, g, b = draw.normal(size=(3, 4, 5)), draw.normal(size=5), draw.normal(size=5)
    shapes = (x.shape, *((5,),) * parameters)
    steps = [part.workload for part in parts_of(call("layer_norm", shapes, x.shape, axes=1, rms=rms, epsilon=1e-3))]
    arrays = {"X": x, "G": g, "B": b}
    if not rms:
        arrays["M"] = run(steps[0], **arrays)
    arrays["V"] = run(steps[-2], **arrays)
    centred = x if rms else x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
    expected = expected * (g if parameters else 1) + (b if parameters > 1 else 0)
    np.testing.assert_allclose(run(steps[-1], **arrays), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("operator", ["max_pool", "average_pool"])
def test_pooling_equals_windows(operator: str, seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    kernel, stride, dilation = ([rng.randint(1, 3) for _ in range(rank)] for _ in range(3))
    size = [d * (k - 1) + 1 + rng.randint(0, 4) for d, k in zip(dilation, kernel, strict=True)]
    x = np.random.default_rng(seed).normal(size=(2, 3, *size))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    steps = tuple(slice(None, None, s) for s in stride)
    taps = tuple(slice(None, None, d) for d in dilation)
    windows = windows[(slice(None), slice(None), *steps, *taps)]
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    expected = windows.max(axes) if operator == "max_pool" else windows.mean(axes)
    options = {"kernel": kernel, "strides": stride, "dilations": dilation}
    np.testing.assert_allclose(run(only(call(operator, (x.shape,), expected.shape, **options)), I=x), expected)


@pytest.mark.parametrize("axes", [(-1,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize(
    "operator, direct",
    [
        ("reduce_sum", np.sum),
        ("reduce_mean", np.mean),
        ("reduce_max", np.max),
        ("reduce_min", np.min),
        ("reduce_l1", lambda x, axis: np.sum(np.abs(x), axis)),
        ("reduce_sum_square", lambda x, axis: np.sum(x * x, axis)),
    ],
)
def test_reductions(operator: str, direct: object, axes: tuple) -> None:
    x = np.random.default_rng(5).normal(size=(2, 3, 4))
    expected = direct(x, axis=axes or None)  # type: ignore[operator]
    made = run(only(call(operator, (x.shape,), np.shape(expected), axes=axes)), I=x)
    np.testing.assert_allclose(made, expected)


DIRECT = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "max": np.maximum,
    "min": np.minimum, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "erf": np.vectorize(math.erf),
    "fabs": np.abs, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "power": np.power,
    "negate": np.negative, "reciprocal": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x),
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)), "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2,
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "copy": lambda x: x, "leaky_relu": lambda x: np.maximum(x, 0.01 * x), "less": np.less, "equal": np.equal,
    "where": lambda x: x, "added_product": lambda x: x, "added_quotient": lambda x: x, "between": lambda x: x,
    "softplus": lambda x: np.log1p(np.exp(x)), "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "softsign": lambda x: x / (1 + np.abs(x)), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    "prelu": lambda x, slope: np.where(x > 0, x, slope * x), "thresholded": lambda x: np.where(x > 1, x, 0),
    "shrunk": lambda x: np.where(np.abs(x) > 0.5, x, 0), "sign": np.sign, "square": np.square, "is_nan": np.isnan,
    "not": np.logical_not, "and": np.logical_and, "or": np.logical_or, "unequal": np.not_equal, "tan": np.tan,
    "remainder": np.fmod, "atan2": np.arctan2, "mean_of": lambda x, y: (x + y) / 2, "sinh": np.sinh, "cosh": np.cosh,
    "gated": lambda x, y: x / (1 + np.exp(-y)), "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "rint": np.rint, "trunc": np.trunc,
    "log1p": np.log1p, "expm1": np.expm1,
    "biased_gelu": lambda x, y: (x + y) * (1 + np.vectorize(math.erf)((x + y) / 2**0.5)) / 2,
}  # fmt: skip
BINARY = ("less", "equal", "add", "subtract", "multiply", "divide", "max", "min", "power", "prelu", "and", "or",
          "unequal", "remainder", "atan2", "mean_of", "gated", "biased_gelu")  # fmt: skip
POSITIVE = ("log", "sqrt", "rsqrt", "power", "divide", "reciprocal", "log1p", "acosh")


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((2, 3, 4), ()), ((4,), (2, 3, 1))])
def test_elementwise_functions_broadcast(operator: str, shapes: tuple) -> None:
    draw = np.random.default_rng(6)
    sign = 1 if operator in POSITIVE else -1
    arrays = [np.where(draw.random(shape) < 0.5, 1, sign) * (draw.random(shape) * 4 + 0.1) for shape in shapes]
    arrays = arrays if operator in BINARY else arrays[:1]
    if operator in ("asin", "acos", "atanh", "acosh"):
        arrays = [arrays[0] / 5 + (operator == "acosh")]
    expected = DIRECT[operator](*arrays)
    workload = only(call(operator, tuple(array.shape for array in arrays), expected.shape))
    given = {
        tensor.name: array.reshape(tensor.shape) for tensor, array in zip(workload.tensors[1:], arrays, strict=True)
    }
    np.testing.assert_allclose(run(workload, **given).reshape(expected.shape), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "operator, direct",
    [
        ("added_product", lambda x, y, z: x + y * z),
        ("added_quotient", lambda x, y, z: x + y / z),
        ("between", lambda x, y, z: x + z * (y - x)),
    ],
)
def test_functions_of_three_operands(operator: str, direct: object) -> None:
    x, y, z = (np.random.default_rng(11).random((3, 4)) + 0.1 for _ in range(3))
    made = run(only(call(operator, (x.shape,) * 3, x.shape)), A=x, B=y, C=z)
    np.testing.assert_allclose(made, direct(x, y, z))  # type: ignore[operator]


def chained(asked: Call, **arrays: Array) -> Array:
    """Run the workloads of a call in order, each on what stands under its tensors' names, and return the last result.

    Axes of what is read are those of the loop nest: a broadcast 1 is dropped.
    """
    made = np.zeros(())
    for workload, _ in parts_of(asked):
        shaped = {t.name: arrays[t.name].reshape(t.shape) for t in workload.tensors[1:]}
        made = arrays[workload.tensors[0].name] = run(workload, **shaped)
    return made


def macs_of(asked: Call) -> int:
    return sum(part.macs for part in parts_of(asked))


@pytest.mark.parametrize("axes", [(-1,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize(
    "operator, direct",
    [
        ("reduce_l2", lambda x, axis: np.sqrt(np.sum(x * x, axis))),
        ("reduce_log_sum", lambda x, axis: np.log(np.sum(x, axis))),
        ("reduce_log_sum_exp", lambda x, axis: np.log(np.sum(np.exp(x), axis))),
        ("variance", lambda x, axis: np.var(x, axis, ddof=1)),
        ("deviation", lambda x, axis: np.std(x, axis, ddof=1)),
    ],
)
def test_statistics_are_sums_and_a_function_of_them(operator: str, direct: object, axes: tuple) -> None:
    x = np.random.default_rng(12).random((2, 3, 4)) + 0.1
    expected = direct(x, axis=axes or None)  # type: ignore[operator]
    asked = call(operator, (x.shape,), np.shape(expected), axes=axes, correction=1)
    np.testing.assert_allclose(chained(asked, X=x), expected)
    assert macs_of(asked) == 0


def test_log_softmax_is_three_steps() -> None:
    x = np.random.default_rng(13).normal(size=(3, 4, 5))
    expected = x - np.log(np.exp(x).sum(1, keepdims=True))
    np.testing.assert_allclose(chained(call("log_softmax", (x.shape,), x.shape, axis=1), X=x), expected)


@pytest.mark.parametrize("times", [(1, 1, 2, 3), (1, 1, 1, 4), (2, 1, 2, 2)])
def test_enlarging_repeats_each_element(times: tuple) -> None:
    x = np.random.default_rng(14).normal(size=(2, 3, 4, 5))
    expected = x
    for axis, count in enumerate(times):
        expected = np.repeat(expected, count, axis)
    made = run(only(call("enlarged", (x.shape,), expected.shape)), I=x)
    np.testing.assert_array_equal(made.reshape(expected.shape), expected)
    with pytest.raises(NotMapped, match="whole number of times"):
        parts_of(call("enlarged", ((1, 1, 4),), (1, 1, 6)))


def test_where_selects() -> None:
    draw = np.random.default_rng(8)
    c, x, y = draw.integers(0, 2, (3, 4)), draw.normal(size=(3, 4)), draw.normal(size=4)
    made = run(only(call("where", (c.shape, x.shape, y.shape), (3, 4))), A=c, B=x, C=y)
    np.testing.assert_allclose(made, np.where(c, x, y))


@pytest.mark.parametrize(
    "equation", ["bhmk,bhnk->bhmn", "ij,jk->ki", "abc,bd->acd", "i,j->ij", "ij,jk", "ki,ij", "j,ij"]
)
def test_contractions_equal_einsum(equation: str) -> None:
    sizes = dict(zip("abcdhijkmn", range(2, 12), strict=True))
    draw, terms = np.random.default_rng(9), equation.split("->")[0].split(",")
    a, b = (draw.integers(-4, 5, [sizes[letter] for letter in term]) for term in terms)
    expected = np.einsum(equation, a, b)
    made = run(only(call("contraction", (a.shape, b.shape), expected.shape, equation=equation)), A=a, B=b)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    "equation, macs",
    [
        ("ij->j", 0), ("abc", 0), ("ij,jk,kl->il", 8 * 9 * 10 + 8 * 10 * 11), ("ij,kl->ik", 8 * 10),
        ("...ij,jk->...ik", 2 * 3 * 8 * 9 * 10), ("...i,...i->...", 2 * 3 * 8), ("i...,...j->...ij", 8 * 2 * 3 * 9),
        ("i,j,k->ijk", 8 * 9 + 8 * 9 * 10), ("ij,ij,ij->", 8 * 9 * 2), ("...k,k", 2 * 3 * 10),
        ("bhmk,bhnk,n->bhm", 3 * 7 * (12 * 13 * 10 + 12 * 13)),
    ],
)  # fmt: skip
def test_contractions_of_any_arity_are_computed_from_left_to_right(equation: str, macs: int) -> None:
    sizes = dict(zip("abcdhijklmn", (2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13), strict=True))
    draw = np.random.default_rng(15)
    shapes = []
    for term in equation.split("->")[0].split(","):
        head, dots, tail = term.partition("...")
        shapes.append((*(sizes[x] for x in head), *((2, 3) if dots else ()), *(sizes[x] for x in tail)))
    arrays = [draw.integers(-2, 3, shape).astype(float) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    asked = call("contraction", tuple(shapes), expected.shape, equation=equation)
    named = dict(zip("ABCDEF", arrays, strict=False))
    np.testing.assert_allclose(chained(asked, **named), expected)
    assert macs_of(asked) == macs


def test_a_contraction_broadcasts_axes_of_one_element() -> None:
    a, b = np.arange(6.0).reshape(1, 2, 3), np.arange(60.0).reshape(5, 3, 4)
    asked = call("contraction", (a.shape, b.shape), (5, 2, 4), equation="bij,bjk->bik")
    np.testing.assert_array_equal(chained(asked, A=a, B=b), np.einsum("bij,bjk->bik", a, b))
    with pytest.raises(NotMapped, match="diagonal"):
        parts_of(call("contraction", ((3, 3), (3, 4)), (4,), equation="ii,ij->j"))
    for equation in ("ij,jk", "i->k", "i", "ij,,", "i1->i", "....i->i", "..i->i"):
        with pytest.raises(NotMapped):
            parts_of(call("contraction", ((3,),), (3,), equation=equation if equation != "i" else "ij"))


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def stepped(kind: str, x: Array, w: Array, u: Array, *, reset_first: bool) -> tuple[Array, Array]:
    """Return the states after each step and the cells after the last (Hochreiter 1997, Cho 2014), without biases."""
    hidden = u.shape[1]
    h = c = np.zeros((x.shape[1], hidden))
    states = []
    for each in x:
        g, r = each @ w.T, h @ u.T
        if kind == "rnn":
            h = np.tanh(g + r)
        elif kind == "lstm":
            i, f, o, a = np.split(g + r, 4, axis=1)
            c = logistic(f) * c + logistic(i) * np.tanh(a)
            h = logistic(o) * np.tanh(c)
        else:
            e, z = (logistic(each) for each in np.split(g + r, 3, axis=1)[:2])
            inner = (e * h) @ u[2 * hidden :].T if reset_first else e * r[:, 2 * hidden :]
            h = (1 - z) * np.tanh(g[:, 2 * hidden :] + inner) + z * h
        states.append(h)
    return np.array(states), c


@pytest.mark.parametrize("kind, reset_first", [("rnn", False), ("lstm", False), ("gru", False), ("gru", True)])
def test_recurrences_step_by_step_compute_the_states(kind: str, reset_first: bool) -> None:
    steps, batch, width, hidden, gates = 3, 2, 5, 4, {"rnn": 1, "lstm": 4, "gru": 3}[kind]
    draw = np.random.default_rng(16)
    x, w, u = (draw.normal(size=s) for s in ((steps, batch, width), (gates * hidden, width), (gates * hidden, hidden)))
    asked = call(kind, (x.shape, w.shape, u.shape), (steps, batch, hidden), reset_first=int(reset_first))
    parts = parts_of(asked)
    assert macs_of(asked) == steps * batch * gates * hidden * (width + hidden)
    made = run(parts[0].workload, X=x, W=w)
    h = c = np.zeros((batch, hidden))
    each = (len(parts) - 1) // steps
    for step in range(steps):
        g, r, e, a = made[step], np.zeros(0), np.zeros(0), np.zeros(0)
        f = i = z = o = np.zeros(0)
        at = slice(2 * hidden, None) if kind == "gru" else slice(3 * hidden, None)
        for workload, _ in parts[1 + step * each : 1 + (step + 1) * each]:
            match workload.name:
                case "states":
                    r = run(workload, H=h, U=u[: workload.tensors[0].shape[1]])
                case "gates":
                    wide = workload.tensors[0].shape[1]
                    split = np.split(run(workload, G=g[:, :wide], R=r[:, :wide]), wide // hidden, axis=1)
                    (i, f, o), (e, z) = (split, (e, z)) if kind == "lstm" else ((i, f, o), split)
                case "reset":
                    e = run(workload, E=e, H=h)
                case "reset_states":
                    r = run(workload, H=e, U=u[at])
                case "candidates":
                    a = run(workload, G=g[:, at], R=r if reset_first else r[:, at], E=e)
                case "cells":
                    c = run(workload, F=f, C=c, E=i, A=a)
                case "outputs":
                    reads = {"rnn": {"G": g, "R": r}, "lstm": {"E": o, "C": c}, "gru": {"Z": z, "A": a, "H": h}}
                    h = run(workload, **reads[kind])
                case _:
                    raise AssertionError(workload.name)
    states, cells = stepped(kind, x, w, u, reset_first=reset_first)
    np.testing.assert_allclose(h, states[-1])
    np.testing.assert_allclose(c, cells)


def test_recurrences_of_layers_and_directions_count_each() -> None:
    first, states, second = (20, 3), (20, 5), (20, 10)
    asked = call("lstm", ((7, 2, 3), first, states, first, states, second, states), (7, 2, 10))
    assert macs_of(asked) == 7 * 2 * 20 * (2 * (3 + 5) + (10 + 5))
    with pytest.raises(NotMapped, match="do not fit") as told:
        parts_of(call("gru", ((7, 2, 3), first, states), (7, 2, 5)))
    assert told.value.macs == 7 * 2 * 20 * 8


def test_the_multiply_accumulates_of_what_is_not_mapped_are_told_where_the_operator_tells_them() -> None:
    deep = call("convolution", ((1, 2, 5, 5, 5, 5), (4, 2, 3, 3, 3, 3)), (1, 4, 3, 3, 3, 3))
    with pytest.raises(NotMapped, match="spatial axes") as told:
        parts_of(deep)
    assert told.value.macs == 4 * 3**4 * 2 * 3**4


def test_operands_keep_their_own_types_and_the_result_its_own() -> None:
    operands = (Operand("x", "uint8", 8), Operand("w", "int8", 8))
    asked = Call("product", ((2, 3), (3, 4)), (2, 4), {}, "int32", operands=operands)
    assert {(each.name, each.element_type, each.bits) for each in only(asked).tensors} == {
        ("C", "int32", 32), ("A", "uint8", 8), ("B", "int8", 8)}  # fmt: skip
    assert {each.bits for each in only(replace(asked, bits=16)).tensors} == {16}


@pytest.mark.parametrize("past", [0, 7])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 2, 3)])
def test_attention_counts_all_keys_of_every_head(past: int, lead: tuple) -> None:
    asked = call("attention", ((*lead, 4, 5), (*lead, 6, 5), (*lead, 6, 8)), (*lead, 4, 8), past=past)
    assert sum(part.macs for part in parts_of(asked)) == math.prod(lead) * 4 * (6 + past) * (5 + 8)


def test_attention_shares_keys_without_a_batch() -> None:
    asked = call("attention", ((6, 4, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)), (6, 4, 3, 8))
    assert macs_of(asked) == 6 * 4 * 3 * 5 * 16
    keys = parts_of(asked)[0].workload.tensor("K")
    assert math.prod(keys.shape) == 2 * 5 * 8


@pytest.mark.parametrize("rows, sizes", [(8, [(4, 2)]), (9, [(3, 2), (1, 3)]), (3, [(3, 1)])])
def test_routed_rows_are_divided_evenly_among_experts(rows: int, sizes: list) -> None:
    parts = parts_of(call("grouped_product", ((rows, 5), (4, 5, 6)), (rows, 6)))
    assert [(p.workload.extents()["e"], p.workload.extents()["m"]) for p in parts] == sizes
    assert sum(part.macs for part in parts) == rows * 5 * 6


def test_dynamic_quantisation_reads_the_type_of_its_operand() -> None:
    x = np.random.default_rng(17).normal(size=(3, 4))
    asked = Call("dynamic_quantisation", (x.shape,), x.shape, {}, "uint8", operands=(Operand("x", "float32", 32),))
    largest, smallest, quotients = (part.workload for part in parts_of(asked))
    high, low = run(largest, X=x), run(smallest, X=x)
    expected = np.rint(x / ((x.max() - x.min()) / 255))
    np.testing.assert_allclose(run(quotients, X=x, M=high, N=low), expected)
    assert {t.name: t.bits for t in quotients.tensors} == {"O": 8, "X": 32, "M": 32, "N": 32}


def test_local_norm_divides_by_sums_over_neighbouring_channels() -> None:
    x = np.random.default_rng(18).normal(size=(2, 6, 3))
    asked = call("local_norm", (x.shape,), x.shape, size=3, alpha=0.5, beta=0.75, bias=2.0)
    sums, quotients = (part.workload for part in parts_of(asked))
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    made = run(quotients, X=x, S=run(sums, P=padded))
    expected = [x[:, c] / (2 + 0.5 / 3 * (padded[:, c : c + 3] ** 2).sum(1)) ** 0.75 for c in range(6)]
    np.testing.assert_allclose(made, np.stack(expected, 1))


def test_group_norm_normalises_groups_and_scales_channels() -> None:
    draw = np.random.default_rng(10)
    x, g, h = draw.normal(size=(2, 6, 4)), draw.normal(size=6), draw.normal(size=6)
    parts = [p.workload for p in parts_of(call("group_norm", (x.shape, g.shape, h.shape), x.shape, groups=3))]
    rows = x.reshape(6, 8)
    mean = run(parts[0], X=rows)
    variance = run(parts[1], X=rows, M=mean)
    normal = run(parts[2], X=rows, M=mean, V=variance).reshape(x.shape)
    expected = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normal, expected.reshape(x.shape), rtol=1e-6)
    np.testing.assert_allclose(run(parts[3], X=normal, G=g, H=h), normal * g[:, None] + h[:, None])


def test_batch_norm_and_embedding() -> None:
    draw = np.random.default_rng(7)
    x, g, h = draw.normal(size=(2, 3, 4, 5)), draw.normal(size=3), draw.normal(size=3)
    made = run(only(call("batch_norm", (x.shape, g.shape), x.shape)), X=x, G=g, H=h)
    np.testing.assert_allclose(made, x * g[:, None, None] + h[:, None, None])
    table, ids = draw.normal(size=(9, 4)), np.array([3, 3, 0, 8])
    np.testing.assert_array_equal(run(only(call("embedding", (table.shape,), (4, 4))), T=table[ids]), table[ids])


@pytest.mark.parametrize(
    "asked, reason",
    [
        (call("sort", ((3,),), (3,)), "no affine loop nest is known"),
        (call("add", ((3,), (4,)), (4,)), "do not broadcast"),
        (call("convolution", ((1, 3, 8), (4, 2, 3)), (1, 4, 6)), "do not fit together"),
        (call("product", ((3, 4), (5, 6)), (3, 6)), "do not fit together"),
        (call("relu", ((0, 3),), (0, 3)), "without elements"),
        (call("transposed_convolution", ((1, 2, 4), (3, 2, 3)), (1, 2, 6)), "do not fit together"),
        (
            call("convolution", ((1, 2, 9), (4, 2, 3)), (1, 4, 5), kernel=(5,)),
            "kernel_shape is not that of the weights",
        ),
        (call("convolution", ((1, 2, 9, 9), (4, 2, 3, 3)), (1, 4, 7, 7), strides=(1, 1, 1)), "3 numbers for 2 axes"),
        (call("convolution", ((1, 2, 9), (4, 2, 3)), (1, 4, 7), strides=(0,)), "a number below 1"),
        (call("attention", ((2, 4, 3, 8), (3, 4, 5, 8), (3, 4, 5, 8)), (2, 4, 3, 8)), "do not fit together"),
        (call("attention", ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 6, 8)), (2, 4, 3, 8)), "do not fit together"),
        (call("attention", ((8,), (8,), (8,)), (8,)), "not the shapes"),
        (call("contraction", ((2, 3), (3, 4), (4, 5)), (2, 5), equation="ij,jk->ik"), "does not fit the shapes"),
        (call("contraction", ((2, 3), (3, 4)), (2, 5), equation="ij,jk->iz"), "a letter that no operand has"),
        (call("reduce_sum", ((2, 3),), (3,), axes=(2,)), "lies outside"),
        (call("add", ((3,),) * 20, (3,)), "more than 16 operands"),
    ],
)
def test_what_has_no_workload_says_why(asked: Call, reason: str) -> None:
    with pytest.raises(NotMapped, match=reason):
        parts_of(asked)


def test_bits_stand_instead_of_types_where_they_are_given() -> None:
    ((workload, _),) = parts_of(Call("product", ((2, 3), (3, 4)), (2, 4), {}, "float32", 8))
    assert {(tensor.bits, tensor.element_type) for tensor in workload.tensors} == {(8, None)}


def test_every_function_has_a_direct_evaluation() -> None:
    assert set(DIRECT) == set(FUNCTIONS)
    assert set(FUNCTIONS) < set(OPERATORS)
