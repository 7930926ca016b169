"""Results of onnxruntime's own operators (domain com.microsoft), of which onnx infers no shapes. Source: onnxruntime,
docs/ContribOperators.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polymap.importers.calls import Shape
from polymap.inputs import as_integer

MICROSOFT = "com.microsoft"
FLOAT = 1  # TensorProto.FLOAT

Result = tuple[int, Shape]  # element type and shape
_LIKE_FIRST = frozenset((
    *("FastGelu", "Gelu", "BiasGelu", "QuickGelu", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"),
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "RotaryEmbedding"),
    *("BiasSplitGelu", "BiasAdd", "GroupNorm", "BiasSoftmax", "BiasDropout"),
))  # fmt: skip
_MIXTURES = ("MoE", "QMoE")
# Operators of one loop nest of the table, and at which inputs its operands stand.
FOREIGN_CALLS = {
    "Gelu": ("gelu", (0,)), "FastGelu": ("gelu", (0,)), "QuickGelu": ("silu", (0,)),
    "BiasGelu": ("biased_gelu", (0, 1)),
    "BiasAdd": ("add", (0, 1, 2)), "QLinearAdd": ("add", (0, 3)), "QLinearMul": ("multiply", (0, 3)),
    "QLinearSigmoid": ("sigmoid", (0,)), "QLinearLeakyRelu": ("leaky_relu", (0,)), "QuantizeLinear": ("copy", (0,)),
    "DequantizeLinear": ("copy", (0,)), "QLinearSoftmax": ("softmax", (0,)),
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
_BROADCAST = {"QLinearAdd": (0, 3), "QLinearMul": (0, 3)}
_OF_NEW_TYPE = {"QuantizeLinear": 2, "DequantizeLinear": 1}  # the input whose type the result has
# Matrix products: which inputs are multiplied, and which one's type the result has (None: float32).
MATRICES: dict[str, tuple[int, int, int | None]] = {
    "FusedMatMul": (0, 1, 0), "TransposeMatMul": (0, 1, 0), "QGemm": (0, 3, 8), "MatMulIntegerToFloat": (0, 1, None),
    "DynamicQuantizeMatMul": (0, 1, 0), "QLinearMatMul": (0, 3, 7), "FusedGemm": (0, 1, 0), "GemmFastGelu": (0, 1, 0),
}  # fmt: skip


def results_of(
    node: Any, given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]
) -> list[Result]:
    """Return the results of a node in order as far as they are known. elements: types of its inputs, 0 without one."""
    if (node.domain != MICROSOFT and node.op_type not in UNTOLD) or not shapes:
        return []
    name = node.op_type
    if name == "MatMulNBits":
        return _packed(given, shapes, elements)
    if name in MATRICES:
        first, second, typed = MATRICES[name]
        shape = _product(_at(shapes, first), _at(shapes, second), given)
        element = FLOAT if typed is None or typed >= len(elements) else elements[typed] or FLOAT
        return [] if shape is None else [(element, shape)]
    if name in ("MultiHeadAttention", "GroupQueryAttention"):
        return _attention(given, shapes, elements)
    if name in ("QLinearConv", "FusedConv"):
        shape = _convolved(shapes[0], _at(shapes, 3 if name[0] == "Q" else 1), given)
        return [] if shape is None else [(elements[7] if name[0] == "Q" and len(elements) > 7 else elements[0], shape)]
    if name in _LATER:
        return _LATER[name](given, shapes, elements)
    if name in _BROADCAST:
        shape = _broadcast(*(_at(shapes, place) for place in _BROADCAST[name]))
        return [] if shape is None else [(elements[0], shape)]
    first = shapes[0]
    if first is None or not (name in _LIKE_FIRST or name in _MIXTURES or name in _OF_NEW_TYPE):
        return []
    place = _OF_NEW_TYPE.get(name, 0)
    return [(elements[place] if name != "DequantizeLinear" else FLOAT, first)] if place < len(elements) else []


def _at(shapes: Sequence[Shape | None], place: int) -> Shape | None:
    return shapes[place] if place < len(shapes) else None


def _product(left: Shape | None, right: Shape | None, given: Mapping[str, Any]) -> Shape | None:
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    if given.get("transBatchA") or given.get("transBatchB"):
        return None
    rows, columns = left[-1 if given.get("transA") else -2], right[-2 if given.get("transB") else -1]
    leading = _broadcast(left[:-2], right[:-2])
    return None if leading is None else (*leading, rows, columns)


def _broadcast(left: Shape | None, right: Shape | None) -> Shape | None:
    if left is None or right is None:
        return None
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    sizes = [sorted({*pair}) for pair in pairs]
    return tuple(each[-1] for each in sizes) if all(len(each) == 1 or each[0] == 1 for each in sizes) else None


def _packed(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    """Return the product with a matrix [N, K] of packed numbers."""
    wide, high, rows = as_integer(given.get("K")), as_integer(given.get("N")), shapes[0]
    if not rows or high is None or high < 1 or wide != rows[-1]:
        return []
    return [(elements[0], (*rows[:-1], high))]


def _attention(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    """Return the context of attention with queries [batch, length, width]: where keys and values have three axes."""
    queries, values = shapes[0], _at(shapes, 2)
    heads = as_integer(given.get("num_heads"))
    kept = as_integer(given.get("kv_num_heads")) or heads
    if queries is None or len(queries) != 3 or not heads or not kept:
        return []
    if values is None and len(shapes) > 1 and elements[1] == 0:  # beside the queries
        return [(elements[0], (*queries[:2], queries[2] // (heads + 2 * kept) * heads))]
    if values is None or len(values) != 3:
        return []
    return [(elements[0], (*queries[:2], values[2] // kept * heads))]


def _projected(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    """Return the context of attention with the weights of queries, keys and values beside each other."""
    data, weights = shapes[0], _at(shapes, 1)
    if data is None or weights is None or len(data) != 3 or len(weights) != 2:
        return []
    widths = list(given.get("qkv_hidden_sizes", [])) or [weights[1] // 3] * 3
    element = elements[0] if elements[0] not in (2, 3) else FLOAT  # QAttention: of int8 and uint8 operands
    return [(element, (*data[:2], widths[2]))]


def _embedded(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    """Return the rows of words and the number of them in each text (EmbedLayerNormalization)."""
    words, table = shapes[0], _at(shapes, 2)
    if words is None or table is None or len(table) != 2:
        return []
    return [(elements[2], (*words, table[1])), (6, words[:1])]


def _pooled(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    data = shapes[0]
    return [] if data is None or given.get("channels_last") else [(elements[0], (*data[:2], *(1,) * len(data[2:])))]


def _averaged(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    data, kernel = shapes[0], tuple(given.get("kernel_shape", ()))
    if data is None or len(kernel) != len(data) - 2 or given.get("ceil_mode"):
        return []
    shape = _convolved(data, (data[1], 1, *kernel), given)
    return [] if shape is None else [(elements[0], shape)]


def _appended(given: Mapping[str, Any], shapes: Sequence[Shape | None], elements: Sequence[int]) -> list[Result]:
    """Return the concatenation of tensors that each have a scale and a zero point (QLinearConcat)."""
    parts = [shape for shape in shapes[2::3] if shape is not None]
    axis = as_integer(given.get("axis"))
    if len(parts) < len(shapes[2::3]) or not parts or axis is None or not -len(parts[0]) <= axis < len(parts[0]):
        return []
    if len({len(shape) for shape in parts}) > 1:
        return []
    made = list(parts[0])
    made[axis] = sum(shape[axis] for shape in parts)
    return [(elements[1], tuple(made))]


_LATER = {
    **dict.fromkeys(("Attention", "QAttention"), _projected),
    "EmbedLayerNormalization": _embedded,
    "QLinearGlobalAveragePool": _pooled,
    "QLinearAveragePool": _averaged,
    "QLinearConcat": _appended,
}


def _convolved(data: Shape | None, weights: Shape | None, given: Mapping[str, Any]) -> Shape | None:
    """Return the shape of a convolution with explicit padding, channels first (ONNX, Conv)."""
    if data is None or weights is None or len(data) != len(weights) or len(data) < 3 or given.get("channels_last"):
        return None
    rank = len(data) - 2
    if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None
    pads = list(given.get("pads", [])) or [0] * 2 * rank
    moves = [list(given.get(name, [])) or [1] * rank for name in ("strides", "dilations")]
    if len(pads) != 2 * rank or any(len(each) != rank or min(each) < 1 for each in moves):
        return None
    rows = zip(data[2:], weights[2:], pads[:rank], pads[rank:], *moves, strict=True)
    made = tuple((size + b + e - dilation * (taps - 1) - 1) // step + 1 for size, taps, b, e, step, dilation in rows)
    return (data[0], weights[0], *made) if min(made) > 0 else None
