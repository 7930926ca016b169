"""What a node of an ONNX graph computes, as a call of the table of operators: every attribute that changes a count is
read, or the node is not mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from polymap.importers.calls import Call, NotMapped, Operand, Shape
from polymap.importers.onnx_scopes import Scope
from polymap.inputs import as_integer, is_list

VIEWS = (
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Identity", "Expand"),
    *("Dropout", "Pad", "DepthToSpace", "SpaceToDepth", "Shape", "Size", "Constant", "ConstantOfShape", "Range"),
    *("Tile", "EyeLike"),
)
_SAME_SHAPE = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Max": "max", "Min": "min", "Sum": "add",
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Tanh": "tanh", "Erf": "erf", "Abs": "fabs", "Sin": "sin", "Cos": "cos",
    "Floor": "floor", "Ceil": "ceil", "Pow": "power", "Neg": "negate", "Reciprocal": "reciprocal", "Relu": "relu",
    "Clip": "relu6", "Sigmoid": "sigmoid", "Gelu": "gelu", "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish",
    "Cast": "copy", "LeakyRelu": "leaky_relu", "Where": "where", "Less": "less", "LessOrEqual": "less",
    "Greater": "less", "GreaterOrEqual": "less", "Equal": "equal", "Swish": "silu", "QuantizeLinear": "copy",
    "DequantizeLinear": "copy",
}  # fmt: skip
_REDUCTIONS = {
    "ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
    "ReduceSumSquare": "reduce_sum_square", "ReduceL1": "reduce_l1",
}  # fmt: skip
# Convolutions and products, and at which inputs their two operands stand: quantised ones have scales between them.
_CONVOLUTIONS = {"Conv": (0, 1), "ConvTranspose": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3)}
_PRODUCTS = {
    "MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "Gemm": (0, 1), "QGemm": (0, 3),
    "FusedMatMul": (0, 1), "MatMulIntegerToFloat": (0, 1), "DynamicQuantizeMatMul": (0, 1),
}  # fmt: skip
_OF_ONNXRUNTIME = ("QGemm", "FusedMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
# Operators that multiply and accumulate nothing, mapped or not.
_WITHOUT_MACS = frozenset((
    *_SAME_SHAPE, *_REDUCTIONS, "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Gather", "Softmax",
    "LayerNormalization", "RMSNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
    "Softplus", "Softsign", "Elu", "Selu", "Celu", "PRelu", "ThresholdedRelu", "Mish", "Shrink", "Sign", "Round", "Not",
    "And", "Or", "Xor", "Mod", "IsNaN", "IsInf", "Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "LogSoftmax", "Hardmax",
    "TopK", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression", "Resize", "Upsample", "GatherElements", "GatherND",
    "ScatterElements", "ScatterND", "OneHot", "Trilu", "CumSum", "Unique", "Where", "CastLike", "DynamicQuantizeLinear",
    "ReduceProd", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "If", "Loop", "Scan", "Mean", "LpPool", "Compress",
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "ReverseSequence", "GlobalLpPool",
))  # fmt: skip
# The Python types of attributes as onnx gives them; others are not read, or by their truth alone.
_LISTED = ("pads", "strides", "dilations", "kernel_shape", "axes", "output_padding", "output_shape")
_KINDS: dict[str, type] = {
    **dict.fromkeys(_LISTED, list),
    **dict.fromkeys(("group", "axis", "num_groups", "q_num_heads", "kv_num_heads", "transA", "transB"), int),
    **dict.fromkeys(("equation", "auto_pad"), bytes),
}
_REASONS = {
    "NonZero": "the size of the result depends on values",
    "Resize": "which elements are read follows from rounding",
    "LSTM": "a recurrence",
    "GRU": "a recurrence",
    "RNN": "a recurrence",
    "If": "which branch runs depends on values",
    "Loop": "a loop of the model",
    "Scan": "a loop of the model",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a graph: its shape (None where it is not known before the run), its element type and its bits."""

    name: str
    shape: Shape | None
    element_type: str | None
    bits: int

    def known_shape(self) -> Shape:
        """Return the shape; raises NotMapped where it is not known."""
        if self.shape is None:
            raise NotMapped(f"the shape of {self.name[:100]!r} is not known before the run")
        return self.shape

    def operand(self, *, is_turned: bool = False) -> Operand:
        """Return the value as an operand of a call."""
        return Operand(self.name, self.element_type, self.bits, is_turned)


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A node whose call is asked for. inputs: None for those that are left out. scope: what is known of the values of
    its graph. bits: of all tensors, instead of the model's types."""

    operator: str
    domain: str
    given: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    output: Value
    opset: int
    scope: Scope
    bits: int | None = None

    def call(self) -> Call | None:
        """Return what the node computes, None for a view; raises NotMapped."""
        try:
            return self._call()
        except NotMapped as reason:
            if reason.macs is None and not self.domain and self.operator in _WITHOUT_MACS:
                raise NotMapped(str(reason), 0) from None
            raise

    def _call(self) -> Call | None:
        if self.domain not in ("", "ai.onnx") and (self.domain, self.operator) not in _FOREIGN:
            raise NotMapped(f"an operator of the domain {self.domain[:60]}", self._packed_macs())
        self._check_attributes()
        if self.operator in _REASONS:
            raise NotMapped(_REASONS[self.operator], self._recurrent_macs())
        if not self.present:
            raise NotMapped("it has no operands or no result")
        if self.operator in _CONVOLUTIONS or self.operator == "DeformConv":
            return self._convolution()
        if self.operator in _PRODUCTS:
            return self._product()
        if self.operator in _SAME_SHAPE:
            return self._elementwise()
        if self.operator in _REDUCTIONS:
            return self._reduction()
        return self._other()

    @property
    def present(self) -> list[Value]:
        """The inputs that are not left out."""
        return [each for each in self.inputs if each is not None]

    def _check_attributes(self) -> None:
        for name, value in self.given.items():
            if value is None or not isinstance(value, _KINDS.get(name, object)):
                raise NotMapped(f"its attribute {name[:60]!r} is no value of the type that it has in ONNX")

    def _input(self, place: int) -> Value:
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise NotMapped(f"its input {place} is left out")
        return found

    def _made(
        self, operator: str, operands: Sequence[Operand], shapes: Sequence[Shape], output: Shape, **options: object
    ) -> Call:
        return Call(
            operator, tuple(shapes), output, options, self.output.element_type, self.bits, operands=tuple(operands)
        )

    def _of(self, operator: str, values: Sequence[Value], **options: object) -> Call:
        """Return the call of an operator on values as they stand."""
        shapes = [each.known_shape() for each in values]
        return self._made(operator, [each.operand() for each in values], shapes, self.output.known_shape(), **options)

    def _convolution(self) -> Call:
        places = _CONVOLUTIONS.get(self.operator, (0, 1))
        data, weights = (self._input(place) for place in places)
        if self.operator == "DeformConv":
            macs = prod(self.output.known_shape()) * prod(weights.known_shape()[1:])
            raise NotMapped("which elements are read depends on values", macs)
        is_transposed = self.operator == "ConvTranspose"
        options = {"strides": self.given.get("strides"), "dilations": self.given.get("dilations")}
        options |= {"groups": self.given.get("group", 1), "kernel": self.given.get("kernel_shape")}
        options["padding"] = _padding(self.given)
        if is_transposed:
            options["pads_begin"] = _begins(self.given, data.known_shape(), weights.known_shape(), self.output)
        return self._of("transposed_convolution" if is_transposed else "convolution", (data, weights), **options)

    def _product(self) -> Call:
        values = [self._input(place) for place in _PRODUCTS[self.operator]]
        shapes = [each.known_shape() for each in values]
        if self.operator in ("Gemm", "QGemm") and any(len(shape) != 2 for shape in shapes):
            raise NotMapped("its operands are no matrices")
        if self.given.get("transBatchA") or self.given.get("transBatchB"):
            raise NotMapped("an operand whose batch stands elsewhere")
        turns = [bool(self.given.get(name)) for name in ("transA", "transB")]
        if any(turned and len(shape) < 2 for turned, shape in zip(turns, shapes, strict=True)):
            raise NotMapped("a vector cannot be transposed")
        operands = [each.operand(is_turned=turned) for each, turned in zip(values, turns, strict=True)]
        shapes = [
            (*shape[:-2], shape[-1], shape[-2]) if turned else shape
            for shape, turned in zip(shapes, turns, strict=True)
        ]
        output = self.output.shape or ((*shapes[0][:-1], shapes[1][-1]) if self.operator in _OF_ONNXRUNTIME else None)
        if output is None:
            output = self.output.known_shape()
        return self._made("product", operands, shapes, output)

    def _elementwise(self) -> Call:
        if self.opset < 7 and ("axis" in self.given or self.given.get("broadcast")):
            raise NotMapped("broadcasting along an axis, as operators had it before version 7", 0)
        return self._of(_SAME_SHAPE[self.operator], self.present)

    def _reduction(self) -> Call | None:
        axes = self._axes()
        if not axes and self.given.get("noop_with_empty_axes"):
            return None
        return self._of(_REDUCTIONS[self.operator], self.present[:1], axes=axes)

    def _axes(self) -> tuple[int, ...]:
        if "axes" in self.given:
            return tuple(self.given["axes"])
        if len(self.inputs) < 2 or self.inputs[1] is None:
            return ()
        axes = self.scope.integers(self.inputs[1].name)
        if axes is None:
            raise NotMapped("its axes are not known before the run")
        return axes

    def _other(self) -> Call | None:
        data = self.present[0]
        match self.operator:
            case "Einsum":
                return self._of(
                    "contraction", self.present, equation=self.given.get("equation", b"").decode("ascii", "replace")
                )
            case "Attention":
                return self._attention()
            case "MaxPool" | "AveragePool":
                options = {"kernel": self.given.get("kernel_shape"), "strides": self.given.get("strides")}
                options |= {"dilations": self.given.get("dilations"), "padding": _padding(self.given)}
                return self._of("max_pool" if self.operator == "MaxPool" else "average_pool", (data,), **options)
            case "GlobalAveragePool" | "GlobalMaxPool":
                name = "reduce_mean" if self.operator == "GlobalAveragePool" else "reduce_max"
                return self._of(name, (data,), axes=tuple(range(2, len(data.known_shape()))))
            case "Gather":
                return self._gather(data, self._input(1))
            case _:
                return self._normalised(data)

    def _gather(self, data: Value, indices: Value) -> Call | None:
        if self.scope.is_constant(indices.name):
            return None
        if self.given.get("axis", 0) == 0 and len(data.known_shape()) == 2:
            return self._of("embedding", (data,))
        raise NotMapped("which elements are read depends on values", 0)

    def _attention(self) -> Call:
        """Return the call with queries [batch, heads, length, width]; in three axes all heads stand beside each other.

        Keys and values of the past stand before those of the node (ONNX, Attention: past_key, past_value).
        """
        values = [self._input(place) for place in range(3)]
        shapes = [each.known_shape() for each in values]
        if any(len(shape) == 3 for shape in shapes):
            heads = [self.given.get(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
            shapes = [_in_heads(shape, count) for shape, count in zip(shapes, heads, strict=True)]
        past = [each.known_shape() for each in self.inputs[4:6] if each is not None]
        if any(len(shape) != 4 for shape in (*shapes, *past)):
            raise NotMapped("not the shapes [batch, heads, length, width]")
        queries, keys, context = shapes
        wanted = [(*shape[:2], shape[3]) for shape in (keys, context)]
        if past and [(*shape[:2], *shape[3:]) for shape in past] != wanted:
            raise NotMapped("the shapes of its past keys and values do not fit its keys and values")
        if len({shape[2] for shape in past}) > 1:
            raise NotMapped("its past keys and values are not equally many")
        output = (*queries[:3], context[3])
        kept = past[0][2] if past else 0
        return self._made("attention", [each.operand() for each in values], shapes, output, past=kept)

    def _normalised(self, data: Value) -> Call:
        x, given = data.known_shape(), self.given
        match self.operator:
            case "Softmax":
                axis = given.get("axis", -1 if self.opset >= 13 else 1)
                if self.opset < 13 and -len(x) <= axis <= len(x):  # the dims behind the axis are one row
                    axis += len(x) if axis < 0 else 0
                    rows = (prod(x[:axis]), prod(x[axis:]))
                    return self._made("softmax", [data.operand()], (rows,), rows, axis=-1)
                return self._of("softmax", (data,), axis=axis)
            case "LayerNormalization" | "RMSNormalization":
                axis = given.get("axis", -1)
                last = -axis if axis < 0 else len(x) - axis
                options = {"rms": self.operator[0] == "R", "epsilon": given.get("epsilon", 1e-5)}
                return self._of("layer_norm", self.present, axes=last, **options)
            case "BatchNormalization":
                if given.get("training_mode") or given.get("spatial", 1) != 1:
                    raise NotMapped("its statistics are those of the batch, or of single positions", 0)
                return self._of("batch_norm", (data,))
            case "InstanceNormalization" | "GroupNormalization":
                groups = given.get("num_groups", 1) if self.operator[0] == "G" else (x[1] if len(x) > 1 else 1)
                return self._of("group_norm", self.present, groups=groups, epsilon=given.get("epsilon", 1e-5))
            case _:
                raise NotMapped("no affine loop nest is known for this operator")

    def _packed_macs(self) -> int | None:
        """Return the multiply-accumulates of a product with packed weights (onnxruntime, MatMulNBits)."""
        rows = self.inputs[0].shape if self.inputs and self.inputs[0] is not None else None
        wide, high = as_integer(self.given.get("K")), as_integer(self.given.get("N"))
        if self.operator != "MatMulNBits" or not rows or wide != rows[-1] or high is None:
            return None
        return prod(rows) * high

    def _recurrent_macs(self) -> int | None:
        """Return the multiply-accumulates of a recurrence: each step and direction, all weights of a gate and state."""
        if self.operator not in ("LSTM", "GRU", "RNN") or len(self.inputs) < 3:
            return None
        steps, weights, states = (None if each is None else each.shape for each in self.inputs[:3])
        if steps is None or weights is None or states is None or not len(steps) == len(weights) == len(states) == 3:
            return None
        return steps[0] * steps[1] * (prod(weights) + prod(states))


_FOREIGN = {("com.microsoft", name) for name in _OF_ONNXRUNTIME}


def _padding(given: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the padding of each axis, before and behind together; None where the operator chooses it."""
    if given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        return None
    pads = () if given.get("auto_pad") == b"VALID" else tuple(given.get("pads", ()))
    rank = len(pads) // 2
    if len(pads) % 2 or min(pads, default=0) < 0:
        raise NotMapped(f"pads has {len(pads)} numbers" if len(pads) % 2 else "negative padding")
    return tuple(map(sum, zip(pads[:rank], pads[rank:], strict=True))) or (0,)


def _in_heads(shape: Shape, heads: object) -> Shape:
    count = as_integer(heads)
    if len(shape) != 3 or count is None or count < 1 or shape[2] % count:
        raise NotMapped("its heads do not divide the width of its operands")
    return (shape[0], count, shape[1], shape[2] // count)


def _begins(given: Mapping[str, Any], data: Shape, weights: Shape, output: Value) -> tuple[int, ...]:
    """Return how many positions a transposed convolution cuts off at the begin of each spatial axis (ONNX,
    ConvTranspose: total_padding)."""
    made = output.known_shape()[2:]
    rank = len(made)
    if len(data) != rank + 2 or len(weights) != rank + 2:
        return ()  # the shapes do not fit together; the table says so
    auto = given.get("auto_pad", b"NOTSET")
    if auto not in (b"SAME_UPPER", b"SAME_LOWER") and "output_shape" not in given:
        return tuple(given.get("pads", ()))[:rank]
    strides, dilations, more = (_numbers(given, *each, rank) for each in _MOVES)
    totals = [
        stride * (size - 1) + extra + (kernel - 1) * dilation + 1 - end
        for stride, size, extra, kernel, dilation, end in zip(
            strides, data[2:], more, weights[2:], dilations, made, strict=True
        )
    ]
    return tuple(total // 2 if auto == b"SAME_UPPER" else total - total // 2 for total in totals)


_MOVES = (("strides", 1), ("dilations", 1), ("output_padding", 0))


def _numbers(given: Mapping[str, Any], name: str, default: int, rank: int) -> tuple[int, ...]:
    found = given.get(name)
    numbers = tuple(each for each in found if isinstance(each, int)) if is_list(found) else ()
    if numbers and len(numbers) != rank:
        raise NotMapped(f"{name} has {len(numbers)} numbers for {rank} axes")
    return numbers or (default,) * rank
