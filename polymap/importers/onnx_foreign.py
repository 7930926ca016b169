"""Results of onnxruntime's own operators (domain com.microsoft), of which onnx infers no shapes. Source: onnxruntime,
docs/ContribOperators.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polymap.importers.calls import NotMapped, Shape, broadcast
from polymap.inputs import as_integer

MICROSOFT = "com.microsoft"
_FLOAT, _UINT8, _INT8, _INT32 = 1, 2, 3, 6  # of TensorProto

Result = tuple[int, Shape]  # element type and shape
_LIKE_FIRST = (
    *("FastGelu", "Gelu", "BiasGelu", "QuickGelu", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"),
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "RotaryEmbedding"),
    *("BiasAdd", "GroupNorm", "BiasSoftmax", "BiasDropout", "QuantizeLinear", "DequantizeLinear"),
    "GroupNormalization",
)
# Operators of one loop nest of the table, and at which inputs its operands stand.
FOREIGN_CALLS = {
    "Gelu": ("gelu", (0,)), "FastGelu": ("gelu", (0,)), "QuickGelu": ("silu", (0,)),
    "BiasGelu": ("biased_gelu", (0, 1)),
    "BiasAdd": ("add", (0, 1, 2)), "QLinearAdd": ("add", (0, 3)), "QLinearMul": ("multiply", (0, 3)),
    "QLinearSigmoid": ("sigmoid", (0,)), "QLinearLeakyRelu": ("leaky_relu", (0,)), "QuantizeLinear": ("copy", (0,)),
    "DequantizeLinear": ("copy", (0,)),
}  # fmt: skip
# Operators that are some of ONNX with other operands behind.
FOREIGN_NAMES = {
    "QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearSoftmax": "Softmax",
    "SimplifiedLayerNormalization": "RMSNormalization",
}  # fmt: skip
FOREIGN_VIEWS = ("QLinearConcat", "ExpandDims", "Pad")
FOREIGN_WITHOUT_MACS = frozenset((
    *FOREIGN_CALLS, *_LIKE_FIRST, "RotaryEmbedding", "EmbedLayerNormalization", "QEmbedLayerNormalization",
    "GatherBlockQuantized", "BiasSoftmax", "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearReduceMean",
    "QLinearWhere", "GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "BiasDropout", "Trilu", "NhwcMaxPool", "GatherND",
    "Unique", "RemovePadding", "RestorePadding", "IsAllFinite", "Tokenizer", "MaxpoolWithMask", "GemmaRotaryEmbedding",
    "MRotaryEmbedding",
))  # fmt: skip
UNTOLD = ("SimplifiedLayerNormalization",)  # onnxruntime's own operators in the domain of ONNX
UNINFERRED = (*UNTOLD, "GroupNormalization")  # of ONNX's domain, without shapes by onnx
# Matrix products, and which inputs are multiplied.
MATRICES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"), (0, 1)),
    **dict.fromkeys(("FusedGemm", "GemmFastGelu"), (0, 1)), "QGemm": (0, 3), "QLinearMatMul": (0, 3),
}  # fmt: skip
# The input whose type the result has, where it is not the first; None: float32.
_TYPES: dict[str, int | None] = {
    "QuantizeLinear": 2, "DequantizeLinear": None, "MatMulIntegerToFloat": None, "QGemm": 8, "QLinearMatMul": 7,
    "QLinearConv": 7, "QLinearConcat": 1, "EmbedLayerNormalization": 2,
}  # fmt: skip


def results_of(
    node: Any, given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]
) -> list[Result]:
    """Return the results of a node in order as far as they are known. elements: types of its inputs, 0 without one."""
    name = node.op_type
    if (node.domain != MICROSOFT and name not in UNINFERRED) or not shapes or name not in _SHAPES:
        return []

    read, places = _SHAPES[name]
    if name == "QLinearConcat":
        places = range(2, len(shapes), 3)
    elif read is _attention and len(elements) > 1 and not any(elements[1:3]):  # keys and values beside the queries
        places = (0,)
    known = [shapes[place] for place in places if place < len(shapes)]
    operands = [shape for shape in known if shape is not None]
    if len(operands) < len(places) or not places:
        return []
    try:
        made = read(given, *operands)
    except NotMapped:
        return []
    place = _TYPES.get(name, 0)
    element = elements[place] if place is not None and place < len(elements) else 0
    if name == "QAttention" and element in (_UINT8, _INT8):
        element = _FLOAT
    found = [(element or (_UINT8 if name == "QuantizeLinear" else _FLOAT), made)]
    return [*found, (_INT32, operands[0][:1])] if name == "EmbedLayerNormalization" else found


_UNKNOWN = "the shape of its result is not known before the run"


def _check(fits: bool) -> None:  # noqa: FBT001
    if not fits:
        raise NotMapped(_UNKNOWN)


def _product(given: Mapping[str, Any], left: Shape, right: Shape) -> Shape:
    _check(len(left) > 1 and len(right) > 1 and not given.get("transBatchA") and not given.get("transBatchB"))
    rows, columns = left[-1 if given.get("transA") else -2], right[-2 if given.get("transB") else -1]
    return (*broadcast((left[:-2], right[:-2])), rows, columns)


def _packed(given: Mapping[str, Any], rows: Shape) -> Shape:
    """Return the shape of a product with a matrix [N, K] of packed numbers."""
    high = as_integer(given.get("N")) or 0
    _check(bool(rows) and high > 0 and given.get("K") == rows[-1])
    return (*rows[:-1], high)


def _attention(given: Mapping[str, Any], queries: Shape, values: Shape | None = None) -> Shape:
    """Return the shape of attention with queries [batch, length, width]: where keys and values have three axes."""
    heads = as_integer(given.get("num_heads")) or 0
    kept = as_integer(given.get("kv_num_heads")) or heads
    _check(len(queries) == 3 and heads > 0 and kept > 0 and (values is None or len(values) == 3))
    width = queries[2] // (heads + 2 * kept) if values is None else values[2] // kept
    return (*queries[:2], width * heads)


def _projected(given: Mapping[str, Any], data: Shape, weights: Shape) -> Shape:
    """Return the shape of attention with the weights of queries, keys and values beside each other."""
    _check(len(data) == 3 and len(weights) == 2)
    return (*data[:2], (list(given.get("qkv_hidden_sizes", [])) or [weights[1] // 3] * 3)[2])


def _embedded(_: Mapping[str, Any], words: Shape, table: Shape) -> Shape:
    _check(len(table) == 2)
    return (*words, *table[1:])


def _averaged(given: Mapping[str, Any], data: Shape) -> Shape:
    _check(not given.get("ceil_mode"))
    return _convolved(given, data, (*data[1:2], 1, *given.get("kernel_shape", ())))


def _pooled(given: Mapping[str, Any], data: Shape) -> Shape:
    _check(not given.get("channels_last"))
    return (*data[:2], *(1,) * len(data[2:]))


def _appended(given: Mapping[str, Any], *parts: Shape) -> Shape:
    """Return the shape of the concatenation of tensors that each have a scale and a zero point (QLinearConcat)."""
    axis, rank = as_integer(given.get("axis")), len(parts[0])
    if axis is None or not -rank <= axis < rank or any(len(shape) != rank for shape in parts):
        raise NotMapped(_UNKNOWN)
    made = list(parts[0])
    made[axis] = sum(shape[axis] for shape in parts)
    return tuple(made)


def _convolved(given: Mapping[str, Any], data: Shape, weights: Shape) -> Shape:
    """Return the shape of a convolution with explicit padding, channels first (ONNX, Conv)."""
    rank = len(data) - 2
    is_chosen = given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    _check(len(data) == len(weights) > 2 and not given.get("channels_last") and not is_chosen)
    pads = list(given.get("pads", [])) or [0] * 2 * rank
    moves = [list(given.get(name, [])) or [1] * rank for name in ("strides", "dilations")]
    _check(len(pads) == 2 * rank and all(len(each) == rank and min(each) > 0 for each in moves))
    rows = zip(data[2:], weights[2:], pads[:rank], pads[rank:], *moves, strict=True)
    made = tuple((size + b + e - dilation * (taps - 1) - 1) // step + 1 for size, taps, b, e, step, dilation in rows)
    _check(min(made) > 0)
    return (data[0], weights[0], *made)


def _like(_: Mapping[str, Any], first: Shape) -> Shape:
    return first


def _broadcast(_: Mapping[str, Any], left: Shape, right: Shape) -> Shape:
    return broadcast((left, right))


def _halved(_: Mapping[str, Any], data: Shape) -> Shape:
    return (*data[:-1], *(size // 2 for size in data[-1:]))


# How the shape of the first result follows from the attributes and the shapes of these inputs.
_SHAPES: dict[str, tuple[Callable[..., Shape], Sequence[int]]] = {
    **dict.fromkeys((*_LIKE_FIRST, "MoE", "QMoE"), (_like, (0,))),
    **{name: (_product, places) for name, places in MATRICES.items()},
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), (_broadcast, (0, 3))),
    "QLinearConv": (_convolved, (0, 3)), "FusedConv": (_convolved, (0, 1)), "MatMulNBits": (_packed, (0,)),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), (_attention, (0, 2))),
    **dict.fromkeys(("Attention", "QAttention"), (_projected, (0, 1))),
    "EmbedLayerNormalization": (_embedded, (0, 2)), "BiasSplitGelu": (_halved, (0,)),
    "QLinearGlobalAveragePool": (_pooled, (0,)), "QLinearAveragePool": (_averaged, (0,)),
    "QLinearConcat": (_appended, ()),
}  # fmt: skip
