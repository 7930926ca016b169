"""What a node of a graph of torch.export computes, as an operator of the table with its operands and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from polymap.importers.calls import NotMapped, Shape, Why
from polymap.importers.contractions import is_permutation
from polymap.inputs import is_list, is_table

_VIEWS = (
    *("view", "reshape", "flatten", "transpose", "permute", "t", "cat", "stack", "chunk", "split"),
    *("split_with_sizes", "slice", "select", "unsqueeze", "squeeze", "expand", "contiguous", "getitem"),
    *("dropout", "alias", "detach", "unbind", "repeat", "pad", "constant_pad_nd", "arange", "zeros", "ones"),
    *("full", "empty", "zeros_like", "ones_like", "full_like", "lift_fresh_copy", "narrow", "movedim"),
    *("swapaxes", "unflatten", "pixel_shuffle", "pixel_unshuffle", "sym_size", "expand_as", "view_as", "reshape_as"),
    *("type_as", "_assert_tensor_metadata", "scalar_tensor", "numpy_T", "adjoint", "mT", "concat"),
    *("concatenate", "tensor_split", "identity", "slice_scatter", "select_scatter", "feature_dropout"),
    *("alpha_dropout", "_unsafe_view", "new_zeros", "new_ones", "new_full", "roll", "flip"),
    *("zero", "unfold"),
    *("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "lazy_load_decompositions"),
    *("im2col", "diagonal", "real", "imag", "view_as_real", "view_as_complex"),
    *("_vmap_increment_nesting", "_vmap_decrement_nesting", "_add_batch_dim", "_remove_batch_dim"),
)
_ELEMENTWISE = {
    "add": "add", "sub": "subtract", "rsub": "subtract", "mul": "multiply", "div": "divide", "maximum": "max",
    "minimum": "min", "abs": "fabs", "pow": "power", "neg": "negate", "hardtanh": "relu6", "clamp": "relu6",
    "clamp_min": "relu6", "clamp_max": "relu6", "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish",
    "lt": "less", "le": "less", "gt": "less", "ge": "less", "eq": "equal", "ne": "unequal", "celu": "elu",
    "hardshrink": "shrunk", "softshrink": "shrunk", "threshold": "thresholded", "round": "rint", "fix": "trunc",
    "logical_not": "not", "bitwise_not": "not", "logical_and": "and", "bitwise_and": "and", "__and": "and",
    "logical_or": "or", "bitwise_or": "or", "__or": "or", "logical_xor": "unequal", "bitwise_xor": "unequal",
    "__xor": "unequal", "fmod": "remainder", "isnan": "is_nan", "lerp": "between", "addcmul": "added_product",
    "addcdiv": "added_quotient", "fmax": "max", "fmin": "min", "floor_divide": "divide", "true_divide": "divide",
    **dict.fromkeys(
        ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "floor", "ceil", "reciprocal", "rsqrt", "relu", "relu6",
         "sigmoid", "silu", "gelu", "leaky_relu", "where", "softplus", "log_sigmoid", "softsign", "mish", "elu", "selu",
         "prelu", "sign", "square", "remainder", "atan2", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh",
         "acosh", "atanh", "trunc", "log1p", "expm1"), ""),
    **dict.fromkeys(
        ("masked_fill", "clone", "copy", "_to_copy", "to", "triu", "tril", "quantize_per_tensor",
         "quantize_per_channel",
         "dequantize_per_tensor", "dequantize_per_channel", "dequantize", "quantize_per_token", "dequantize_per_token",
         "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine", "nan_to_num"), "copy"),
}  # fmt: skip
_REDUCTIONS = {
    "mean": "reduce_mean", "sum": "reduce_sum", "amax": "reduce_max", "amin": "reduce_min", "any": "reduce_max",
    "all": "reduce_min", "logsumexp": "reduce_log_sum_exp", "var": "variance", "std": "deviation",
}  # fmt: skip
_PRODUCTS = {
    "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"), "mv": ("self", "vec"), "dot": ("self", "tensor"), "vdot": ("self", "other"),
    "addmv": ("mat", "vec"), "_int_mm": ("self", "mat2"), "_scaled_mm": ("self", "mat2"),
}  # fmt: skip
# Products of more axes, by the equation that says them, and their operands.
_EQUATIONS = {
    "addbmm": ("bmk,bkn->mn", ("batch1", "batch2")),
    "bilinear": ("...i,oij,...j->...o", ("input1", "weight", "input2")),
}
_LINEAR = {"linear": ("input", "weight"), "_weight_int8pack_mm": ("self", "mat2")}
_CONVOLUTIONS = tuple(f"{kind}{rank}d" for kind in ("conv", "conv_transpose") for rank in (1, 2, 3))
_POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_ENLARGINGS = tuple(f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3))
_RECURRENCES = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn", "rnn_relu": "rnn"}
# Why operators that multiply and accumulate nothing have no loop nest.
_REASONS = {
    **dict.fromkeys(("nonzero", "masked_select", "unique", "_unique2", "unique_consecutive"), Why.SIZE),
    **dict.fromkeys(("cond", "index", "index_select", "gather", "take", "topk", "sort", "embedding_bag"), Why.READ),
    **dict.fromkeys(("index_put", "scatter", "scatter_add", "index_add", "index_copy", "one_hot"), Why.WRITTEN),
    **dict.fromkeys(("argmax", "argmin", "max", "min", "argsort"), Why.PLACE),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), Why.BEFORE),
    **dict.fromkeys(("upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "grid_sampler"), Why.ROUNDING),
    **dict.fromkeys(("upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), Why.ROUNDING),
    "cond": Why.BRANCH,
    "while_loop": "how often it runs depends on values",
    "prod": Why.ALL_MULTIPLIED,
}
_UNKNOWN = "no affine loop nest is known for this operator"
_WITHOUT_MACS = (
    *("col2im", "kron", "isinf", "isfinite", "log2", "log10", "exp2", "logit", "bernoulli", "rand_like"),
    *("randn_like", "rand", "randn", "randint", "choose_qparams", "bincount", "histc", "searchsorted", "bucketize"),
    *("linalg_vector_norm", "frac", "xlogy", "glu", "rrelu_with_noise"),
)


class Asked(NamedTuple):
    """An operator of the table: the nodes of its operands and its options. shapes, output: where they differ from those
    of the nodes."""

    name: str
    operands: Sequence[Any]
    options: Mapping[str, object] = MappingProxyType({})
    shapes: tuple[Shape, ...] | None = None
    output: Shape | None = None


def asked_of(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked:
    """Return what a node asks of the table; raises NotMapped."""
    for read in (_products, _recurrence, _elementwise, _windows, _reduction, _normalised):
        found = read(operator, given, node, output)
        if found is not None:
            return found
    raise NotMapped(_REASONS.get(operator, _UNKNOWN), 0 if operator in _REASONS or operator in _WITHOUT_MACS else None)


def is_view(operator: str, given: Mapping[str, Any]) -> bool:
    """Whether an operator only renames, splits, joins or reorders elements."""
    if operator == "repeat_interleave":  # a tensor may say how often each element stands there
        return isinstance(given.get("repeats"), int)
    is_turn = operator == "einsum" and is_permutation(str(given.get("equation")))
    return operator in _VIEWS or (is_turn and len(given.get("tensors") or ()) == 1)


def reason_of(operator: str) -> str | None:
    """Return why a node around graphs has no loop nest itself; None for others."""
    return _REASONS[operator] if operator in ("cond", "while_loop") else None


def _products(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    get = given.get
    if operator in _LINEAR:
        return Asked("linear", [get(key) for key in _LINEAR[operator]])
    if operator in _PRODUCTS:
        return Asked("product", [get(key) for key in _PRODUCTS[operator]])
    if operator == "scaled_dot_product_attention":
        return Asked("attention", (get("query"), get("key"), get("value")))
    if operator == "einsum":
        return Asked("contraction", get("tensors") or (), {"equation": get("equation")})
    if operator in _EQUATIONS:
        equation, keys = _EQUATIONS[operator]
        return Asked("contraction", [get(key) for key in keys], {"equation": equation})
    if operator in ("outer", "ger"):
        first, second = (_known(get(key)) for key in ("self", "vec2"))
        return Asked("multiply", (get("self"), get("vec2")), {}, ((*first, 1), second))
    if operator == "_grouped_mm":
        return _grouped(given, output)
    return None


def _grouped(given: Mapping[str, Any], output: Shape) -> Asked:
    """Return the products of groups of rows, each with a matrix of its own; the rows are divided evenly."""
    operands = (given.get("self"), given.get("mat2"))
    first, second = (_known(each) for each in operands)
    if len(first) == len(second) == 3:
        return Asked("product", operands)
    macs = prod(first) * second[-1] if len(first) == 2 else prod(output) * first[-1]
    if len(first) != 2 or len(second) != 3:
        raise NotMapped("the groups divide other axes than the rows", macs)
    return Asked("grouped_product", operands)


def _recurrence(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    if operator not in _RECURRENCES:
        return None
    if given.get("input") is None:
        raise NotMapped("how many steps run depends on values")
    x, weights = _known(given.get("input")), several(given.get("params"))
    shapes = [_known(each) for each in weights]
    matrices = [shape for shape in shapes if len(shape) == 2]
    steps, batch = (x[0], 1) if len(x) == 2 else (x[1], x[0]) if given.get("batch_first") else x[:2]
    macs = steps * batch * sum(map(prod, matrices))
    count = int(given.get("num_layers") or 1) * (2 if given.get("bidirectional") else 1)
    if len(x) not in (2, 3) or len(matrices) != 2 * count:
        raise NotMapped("its states are projected", macs)
    options = {"relu": int(operator == "rnn_relu")}
    return Asked(_RECURRENCES[operator], (given.get("input"),), options, ((steps, batch, x[-1]), *matrices))


def _elementwise(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    if operator == "glu":
        return Asked("gated", (given.get("self"),) * 2, {}, (output, output))
    if operator not in _ELEMENTWISE:
        return None
    name, operands = _ELEMENTWISE[operator] or operator, several((node.args, node.kwargs))
    if operator == "prelu" and len(output) > 1:  # a slope for each channel
        slopes = _known(operands[1])
        return Asked(name, operands, {}, (_known(operands[0]), (*slopes, *(1,) * (len(output) - 2))))
    return Asked(name, operands[:1] if name == "copy" else operands)


def _windows(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    get, source = given.get, given.get("input", given.get("self"))
    kind = operator.removesuffix("_with_indices")
    if operator in _CONVOLUTIONS or operator == "convolution":
        is_transposed = "transpose" in operator or bool(get("transposed"))
        moves = {"strides": get("stride"), "dilations": get("dilation"), "groups": get("groups")}
        name = "transposed_convolution" if is_transposed else "convolution"
        found = Asked(name, (source, get("weight")), {**moves, "pads_begin": get("padding")})
        return _batched(found, len(_known(get("weight"))), output)
    if kind in _POOLS:
        kernel, stride = get("kernel_size"), get("stride") or get("kernel_size")
        name = "max_pool" if operator.startswith("max") else "average_pool"
        found = Asked(name, (source,), {"kernel": kernel, "strides": stride, "dilations": get("dilation")})
        return _batched(found, int(kind[-2]) + 2, output)
    if operator.startswith("adaptive_"):
        return _adaptive(operator, source, output)
    if operator in _ENLARGINGS:
        return _enlarged(given, source, output)
    return None


def _batched(asked: Asked, rank: int, output: Shape) -> Asked:
    """Return what is asked with a batch of one where the input has none."""
    shapes = [_known(each) for each in asked.operands]
    if len(shapes[0]) != rank - 1:
        return asked
    return asked._replace(shapes=((1, *shapes[0]), *shapes[1:]), output=(1, *output))


def _enlarged(given: Mapping[str, Any], source: Any, output: Shape) -> Asked:
    """Return an enlarging by whole numbers; other factors read elements by rounding."""
    ratios = [made / size for size, made in zip(_known(source)[2:], output[2:], strict=True)]
    factors = given.get("scale_factors") or [given.get(key) for key in ("scales", "scales_d", "scales_h", "scales_w")]
    told = [each for each in factors if each is not None]
    if told and told != ratios:
        raise NotMapped(Why.ROUNDING, 0)
    return Asked("enlarged", (source,))


def _adaptive(operator: str, source: Any, output: Shape) -> Asked:
    rank = int(operator[-2]) if operator[-2:-1].isdigit() else len(output) - 2
    shape = _known(source)
    shape, made = ((1, *shape), (1, *output)) if len(shape) == rank + 1 else (shape, output)
    sizes = tuple(zip(shape[2:], made[2:], strict=False))
    if len(shape) != len(made) or any(size % end for size, end in sizes if end):
        raise NotMapped("its windows have different sizes", 0)
    kernel = tuple(size // end for size, end in sizes)
    name = "max_pool" if operator.startswith("adaptive_max") else "average_pool"
    return Asked(name, (source,), {"kernel": kernel, "strides": kernel}, (shape,), made)


def _reduction(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    source, dims = given.get("self"), given.get("dim")
    axes = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if operator in ("max", "min") and dims is None and given.get("other") is None:
        return Asked(f"reduce_{operator}", (source,), {"axes": ()})
    if operator in ("max", "min") and given.get("other") is not None:
        return Asked(operator, (source, given.get("other")))
    if operator == "linalg_vector_norm" and given.get("ord") in (1, 2):
        return Asked("reduce_l1" if given["ord"] == 1 else "reduce_l2", (source,), {"axes": axes})
    if operator not in _REDUCTIONS:
        return None
    correction = given.get("correction", given.get("unbiased", 1))
    options = {"axes": axes, "correction": 1 if correction is None else int(correction)}
    return Asked(_REDUCTIONS[operator], (source,), options)


def _normalised(operator: str, given: Mapping[str, Any], node: Any, output: Shape) -> Asked | None:
    get = given.get
    scales = [each for each in (get("weight"), get("bias")) if each is not None]
    match operator:
        case "softmax" | "_softmax" | "log_softmax" | "_log_softmax":
            return Asked(operator.removeprefix("_"), (get("self"),), {"axis": get("dim")})
        case "layer_norm" | "rms_norm":
            options = {"axes": len(get("normalized_shape") or ()), "rms": operator == "rms_norm"}
            return Asked("layer_norm", (get("input"), *scales), {**options, "epsilon": get("eps") or 1e-5})
        case "group_norm":
            return Asked("group_norm", (get("input"), *scales), {"groups": get("num_groups"), "epsilon": get("eps")})
        case "instance_norm" if get("use_input_stats"):
            return Asked("group_norm", (get("input"), *scales), {"groups": output[1], "epsilon": get("eps")})
        case "batch_norm" | "_native_batch_norm_legit_no_training" | "instance_norm":
            return Asked("batch_norm", (get("input"),))
        case "embedding":
            return Asked("embedding", (get("weight"),))
        case "index_select" | "index":
            table = get("self")
            indices = get("indices") or [get("index")]
            is_row = len(indices) == 1 and get("dim", 0) == 0 and len(_known(table)) == 2
            return Asked("embedding", (table,)) if is_row else None
        case _:
            return None


def _known(node: Any) -> Shape:
    """Return the shape of a tensor; raises NotMapped where it is none."""
    shape = shape_of(value_of(node))
    if shape is None:
        raise NotMapped("an operand is no tensor")
    return shape


def several(given: Any) -> list[Any]:
    """Return the nodes among arguments in order, those inside of lists and tables too."""
    if hasattr(given, "op") and hasattr(given, "all_input_nodes"):
        return [given]
    inner = given.values() if is_table(given) else given if is_list(given) else ()
    return [node for each in inner for node in several(each)]


def value_of(node: Any) -> Any:
    """Return what torch.export knows of a node's result; None where it is nothing."""
    meta = getattr(node, "meta", None)
    return None if meta is None else meta.get("val")


def shape_of(value: Any) -> Shape | None:
    """Return the shape of a tensor; None for what is none. Raises NotMapped where a dim has no number."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return None
    if not all(isinstance(size, int) for size in shape):
        raise NotMapped("its shape is not known before the run")
    return tuple(shape)
