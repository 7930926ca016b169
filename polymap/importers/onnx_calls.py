"""What a node of an ONNX graph computes, as a call of the table of operators: every attribute that changes a count is
read, or the node is not mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from polymap.importers.calls import Call, NotMapped, Operand, Shape, Why, broadcast
from polymap.importers.contractions import is_permutation
from polymap.importers.onnx_foreign import (
    FOREIGN_CALLS,
    FOREIGN_NAMES,
    FOREIGN_VIEWS,
    FOREIGN_WITHOUT_MACS,
    MATRICES,
    MICROSOFT,
    UNTOLD,
)
from polymap.importers.onnx_scopes import Scope
from polymap.inputs import as_integer, is_list

VIEWS = (
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Identity", "Expand"),
    *("Dropout", "Pad", "DepthToSpace", "SpaceToDepth", "Shape", "Size", "Constant", "ConstantOfShape", "Range"),
    *("Tile", "EyeLike", "BitCast", "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase"),
    *("SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement"),
    *("OptionalHasElement", "CenterCropPad"),
)
# Operators that are read as the operators by which ONNX defines them.
DEFINED_BY_OTHERS = frozenset((
    *("AffineGrid", "CausalConvWithState", "LinearAttention", "MeanVarianceNormalization", "RotaryEmbedding", "SwiGLU"),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
))  # fmt: skip
_SAME_SHAPE = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Max": "max", "Min": "min", "Sum": "add",
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Tanh": "tanh", "Erf": "erf", "Abs": "fabs", "Sin": "sin", "Cos": "cos",
    "Floor": "floor", "Ceil": "ceil", "Pow": "power", "Neg": "negate", "Reciprocal": "reciprocal", "Relu": "relu",
    "Clip": "relu6", "Sigmoid": "sigmoid", "Gelu": "gelu", "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish",
    "Cast": "copy", "LeakyRelu": "leaky_relu", "Where": "where", "Less": "less", "LessOrEqual": "less",
    "Greater": "less", "GreaterOrEqual": "less", "Equal": "equal", "Swish": "silu", "QuantizeLinear": "copy",
    "DequantizeLinear": "copy", "CastLike": "copy", "Mean": "mean_of", "Softplus": "softplus", "Softsign": "softsign",
    "Elu": "elu", "Celu": "elu", "Selu": "selu", "PRelu": "prelu", "ThresholdedRelu": "thresholded", "Mish": "mish",
    "Shrink": "shrunk", "Sign": "sign", "Round": "rint", "Not": "not", "And": "and", "Or": "or", "Xor": "unequal",
    "Mod": "remainder", "IsNaN": "is_nan", "Tan": "tan", "Sinh": "sinh", "Cosh": "cosh", "Asin": "asin",
    "Acos": "acos", "Atan": "atan", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
}  # fmt: skip
_REDUCTIONS = {
    "ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
    "ReduceSumSquare": "reduce_sum_square", "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum", "ReduceLogSumExp": "reduce_log_sum_exp",
}  # fmt: skip
# Convolutions and products, and at which inputs their two operands stand: quantised ones have scales between them.
_CONVOLUTIONS = {
    "Conv": (0, 1), "ConvTranspose": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3), "FusedConv": (0, 1),
}  # fmt: skip
_PRODUCTS = {"MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "Gemm": (0, 1), **MATRICES}
_RECURRENCES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}
_ACTIVATIONS = {"LSTM": (b"Sigmoid", b"Tanh", b"Tanh"), "GRU": (b"Sigmoid", b"Tanh"), "RNN": (b"Tanh",)}
# Operators that multiply and accumulate nothing, mapped or not.
_WITHOUT_MACS = frozenset((
    *_SAME_SHAPE, *_REDUCTIONS, "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Gather", "Softmax",
    "LayerNormalization", "RMSNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
    "IsInf", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "MeanVarianceNormalization", "GridSample", "RoiAlign",
    "MaxRoiPool", "MaxUnpool", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "CumProd",
    "TopK", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression", "Resize", "Upsample", "GatherElements", "GatherND",
    "ScatterElements", "ScatterND", "OneHot", "Trilu", "CumSum", "Unique", "Where", "CastLike", "DynamicQuantizeLinear",
    "ReduceProd", "If", "Loop", "Scan", "LpPool", "Compress", "Scatter", "TensorScatter", "Multinomial", "Bernoulli",
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
    **dict.fromkeys(("NonZero", "Compress", "Unique", "NonMaxSuppression"), Why.SIZE),
    **dict.fromkeys(("TopK", "GatherElements", "GatherND", "GridSample", "RoiAlign", "MaxRoiPool"), Why.READ),
    **dict.fromkeys(("ScatterElements", "ScatterND", "Scatter", "OneHot", "TensorScatter"), Why.WRITTEN),
    **dict.fromkeys(("ArgMax", "ArgMin", "Hardmax"), Why.PLACE),
    **dict.fromkeys(("CumSum", "CumProd"), Why.BEFORE),
    "ReduceProd": Why.ALL_MULTIPLIED,
    "If": Why.BRANCH,
    "Loop": "how often its body runs depends on values",
    "Scan": "how often its body runs depends on values",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a graph: its shape (None where it is not known before the run), its element type and its bits. cause:
    the node from which on the shape is not known."""

    name: str
    shape: Shape | None
    element_type: str | None
    bits: int
    cause: str = ""

    def known_shape(self) -> Shape:
        """Return the shape; raises NotMapped where it is not known."""
        if self.shape is None:
            since = f": it depends on what {self.cause} computes" if self.cause else ""
            raise NotMapped(f"the shape of {self.name[:100]!r} is not known before the run{since}")
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
            idle = {"": _WITHOUT_MACS, MICROSOFT: FOREIGN_WITHOUT_MACS}.get(self.domain, frozenset())
            if reason.macs is None and self.operator in idle:
                raise NotMapped(str(reason), 0) from None
            raise

    def _call(self) -> Call | None:
        self._check_attributes()
        if self.domain or self.operator in UNTOLD:
            return self._foreign()
        if self.operator in _REASONS:
            raise NotMapped(_REASONS[self.operator])
        if not self.present:
            raise NotMapped("it has no operands or no result")
        if self.operator in _CONVOLUTIONS or self.operator == "DeformConv":
            return self._convolution()
        if self.operator in _PRODUCTS:
            return self._product()
        if self.operator in _RECURRENCES:
            return self._recurrence()
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
            raise NotMapped(Why.READ, macs)
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
        if all(shapes) and shapes[0][-1] != shapes[1][-2:][0]:  # onnx infers no shape of such a product
            raise NotMapped("the shapes of the operands do not fit together")
        broadcast([shape[:-2] for shape in shapes])
        return self._made("product", operands, shapes, self.output.known_shape())

    def _elementwise(self) -> Call:
        if self.opset < 7 and ("axis" in self.given or self.given.get("broadcast")):
            raise NotMapped("broadcasting along an axis, as operators had it before version 7", 0)
        values = self.present[:1] if _SAME_SHAPE[self.operator] == "copy" else self.present
        return self._of(_SAME_SHAPE[self.operator], values)

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
                return self._einsum()
            case "DynamicQuantizeLinear":
                return self._of("dynamic_quantisation", (data,))
            case "Resize" | "Upsample":
                return self._resized(data)
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
        raise NotMapped(Why.READ, 0)

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
            case "Softmax" | "LogSoftmax":
                name = "softmax" if self.operator == "Softmax" else "log_softmax"
                axis = given.get("axis", -1 if self.opset >= 13 else 1)
                if self.opset < 13 and -len(x) <= axis <= len(x):  # the dims behind the axis are one row
                    axis += len(x) if axis < 0 else 0
                    rows = (prod(x[:axis]), prod(x[axis:]))
                    return self._made(name, [data.operand()], (rows,), rows, axis=-1)
                return self._of(name, (data,), axis=axis)
            case "LayerNormalization" | "RMSNormalization":
                axis = given.get("axis", -1)
                last = -axis if axis < 0 else len(x) - axis
                is_rms = self.operator[0] == "R"
                options = {"rms": is_rms, "epsilon": given.get("epsilon", 1e-5)}
                return self._of("layer_norm", self.present[: 2 if is_rms else 3], axes=last, **options)
            case "BatchNormalization":
                if given.get("training_mode") or given.get("spatial", 1) != 1:
                    raise NotMapped("its statistics are those of the batch, or of single positions", 0)
                return self._of("batch_norm", (data,))
            case "LRN":
                usual = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
                options = {key: given.get(key, value) for key, value in usual.items()}
                return self._of("local_norm", (data,), size=given.get("size"), **options)
            case "InstanceNormalization" | "GroupNormalization":
                groups = given.get("num_groups", 1) if self.operator[0] == "G" else (x[1] if len(x) > 1 else 1)
                return self._of("group_norm", self.present, groups=groups, epsilon=given.get("epsilon", 1e-5))
            case _:
                raise NotMapped("no affine loop nest is known for this operator")

    def _einsum(self) -> Call | None:
        equation = self.given.get("equation", b"").decode("ascii", "replace")
        if len(self.present) == 1 and is_permutation(equation):
            return None
        terms = equation.replace(" ", "").partition("->")[0].replace("...", ".").split(",")
        pairs = [(term, len(each.known_shape())) for term, each in zip(terms, self.present, strict=False)]
        if len({rank - len(term) for term, rank in pairs if "." in term}) > 1:  # onnx infers no shape of such a result
            raise NotMapped("its ellipses stand for unlike numbers of axes, which ONNX rules out")
        return self._of("contraction", self.present, equation=equation)

    def _resized(self, data: Value) -> Call:
        """Return the call of an enlarging by whole numbers; others read elements by rounding (ONNX, Resize)."""
        mode, given = self.given.get("mode", b"nearest"), self.given
        shape, made = data.known_shape(), self.output.known_shape()
        place = given.get(
            "coordinate_transformation_mode", b"half_pixel" if self.operator == "Resize" else b"asymmetric"
        )
        rounded = given.get("nearest_mode", b"round_prefer_floor" if self.operator == "Resize" else b"floor")
        if self.operator == "Resize" and self.opset < 11:
            place, rounded = b"asymmetric", b"floor"
        is_floor = place == b"asymmetric" and rounded == b"floor"
        is_middle = place in (b"half_pixel", b"half_pixel_symmetric", b"pytorch_half_pixel") and rounded[:5] == b"round"
        is_shaped = given.get("keep_aspect_ratio_policy", b"stretch") == b"stretch"
        if mode != b"nearest" or not (is_floor or is_middle) or not is_shaped or len(shape) != len(made):
            raise NotMapped(Why.ROUNDING, 0)
        scales = self._scales()
        ratios = [after / before for before, after in zip(shape, made, strict=True)]
        if scales is not None and scales != ratios:
            raise NotMapped(Why.ROUNDING, 0)
        return self._of("enlarged", (data,))

    def _scales(self) -> list[float] | None:
        """Return the factors of a Resize or Upsample; None where the sizes of the result are given instead."""
        if "scales" in self.given:
            return [float(each) for each in self.given["scales"]]
        place = 2 if self.operator == "Resize" and self.opset >= 11 else 1
        value = self.inputs[place] if place < len(self.inputs) else None
        if value is None or value.shape == (0,):
            return None
        numbers = self.scope.value(value.name)
        if numbers is None:
            raise NotMapped("its scales are not known before the run", 0)
        return [float(each) for each in numbers.reshape(-1)]

    def _recurrence(self) -> Call:
        """Return a recurrence over all steps, its directions one after the other (ONNX, LSTM, GRU, RNN)."""
        x, weights, states = (self._input(place).known_shape() for place in range(3))
        if not len(x) == len(weights) == len(states) == 3:
            raise NotMapped("the shapes of its input and weights do not fit together")
        steps, batch, width = (x[1], x[0], x[2]) if self.given.get("layout") else x
        macs = steps * batch * (prod(weights) + prod(states))
        if weights[2] != width or self.given.get("hidden_size", states[2]) != states[2]:
            raise NotMapped("the shapes of its input and weights do not fit together")
        lengths = self.inputs[4] if len(self.inputs) > 4 else None
        if lengths is not None and set(self.scope.integers(lengths.name) or ()) != {steps}:
            raise NotMapped("how many steps run depends on values")
        activations = tuple(self.given.get("activations", ()))
        is_relu = self.operator == "RNN" and set(activations) == {b"Relu"}
        if activations not in ((), _ACTIVATIONS[self.operator] * weights[0]) and not is_relu:
            raise NotMapped("its activations are others than those of its definition", macs)
        if self.given.get("input_forget") or (len(self.inputs) > 7 and self.inputs[7] is not None):
            raise NotMapped("its gates read the cells", macs)
        hidden = states[2]
        shapes = [(steps, batch, width), *([weights[1:], states[1:]] * weights[0])]
        is_first = self.operator == "GRU" and not self.given.get("linear_before_reset")
        operands = [self._input(0).operand()]
        made = self._made(
            *(_RECURRENCES[self.operator], operands, shapes, (steps, weights[0], batch, hidden)),
            reset_first=int(is_first),
            relu=int(is_relu),
        )
        return replace(made, element_type=self._input(0).element_type)

    def _foreign(self) -> Call | None:
        """Return what an operator of onnxruntime computes."""
        name = self.operator
        if self.domain not in ("", MICROSOFT):
            raise NotMapped(f"an operator of the domain {self.domain[:60]}")
        if not self.present:
            raise NotMapped("it has no operands or no result")
        if name in FOREIGN_VIEWS:
            return None
        if self.given.get("channels_last"):
            raise NotMapped("its channels stand last")
        if name in ("QLinearConv", "FusedConv"):
            return self._convolution()
        if name == "MatMulNBits":
            return self._packed()
        if name in MATRICES:
            return self._product()
        if name in FOREIGN_CALLS:
            operator, places = FOREIGN_CALLS[name]
            return self._of(operator, [self._input(place) for place in places])
        if name in ("MultiHeadAttention", "GroupQueryAttention"):
            return self._headed(*((6, 7) if name[0] == "M" else (3, 4)))
        if name in ("Attention", "QAttention"):
            return self._projected(4 if name == "Attention" else 8)
        if name == "MoE":
            weights = [self._input(at) for at in (2, 4, 6) if at < len(self.inputs) and self.inputs[at] is not None]
            return self._of("experts", (self._input(0), *weights), k=self.given.get("k", 1))
        if name in FOREIGN_NAMES:
            opset = as_integer(self.given.get("opset")) or self.opset
            return replace(self, operator=FOREIGN_NAMES[name], domain="", opset=opset).call()
        if name in ("SkipSimplifiedLayerNormalization", "SkipLayerNormalization"):
            is_rms = "Simplified" in name
            values = [self._input(0), self._input(1), *self.present[2 : 3 if is_rms else 4]]
            options = {"rms": is_rms, "skip": 1, "epsilon": self.given.get("epsilon", 1e-5)}
            return self._of("layer_norm", values, axes=1, **options)
        raise NotMapped(f"no affine loop nest is known for this operator of {self.domain or 'onnxruntime'}")

    def _packed(self) -> Call:
        """Return a product with a matrix [N, K] of numbers of a few bits (onnxruntime, MatMulNBits)."""
        data, weights = self._input(0), self._input(1)
        rows, wide, high = data.known_shape(), as_integer(self.given.get("K")), as_integer(self.given.get("N"))
        if not rows or wide is None or wide != rows[-1] or high is None or high < 1:
            raise NotMapped("the shapes of the operands do not fit together")
        bits = as_integer(self.given.get("bits")) or 4
        operands = (data.operand(), Operand(weights.name, None, bits, is_turned=True))
        return self._made("linear", operands, (rows, (high, wide)), (*rows[:-1], high))

    def _projected(self, at: int) -> Call:
        """Return a product with the weights of queries, keys and values beside each other, and the attention of them.
        at: the input that holds past keys and values [2, batch, heads, length, width]."""
        data, weights = self._input(0), self._input(1)
        before = self.inputs[at] if at < len(self.inputs) else None
        past = before.known_shape() if before is not None else ()
        if past and (len(past) != 5 or self.given.get("past_present_share_buffer")):
            raise NotMapped("how many past keys it reads depends on values")
        options = {"heads": self.given.get("num_heads"), "widths": self.given.get("qkv_hidden_sizes")}
        kept = past[3] if past else 0
        return self._of("projected_attention", (data, weights), **options, past=kept)

    def _headed(self, first: int, second: int) -> Call:
        """Return the attention of onnxruntime: operands [batch, length, heads * width], past ones with heads apart."""
        if (as_integer(self.given.get("local_window_size")) or 0) > 0:
            raise NotMapped("its queries see a window of the keys")
        heads = as_integer(self.given.get("num_heads"))
        kept = as_integer(self.given.get("kv_num_heads")) or heads
        first_shape = self._input(0).known_shape()
        if not any(self.inputs[1:2]):  # queries, keys and values stand beside each other
            every = (heads or 0) + 2 * (kept or 0)
            shared = _in_heads(first_shape, every)
            values = [self._input(0)]
            shapes = [(*shared[:1], count or 0, *shared[2:]) for count in (heads, kept, kept)]
        else:
            values = [self._input(place) for place in range(3)]
            shapes = [each.known_shape() for each in values]
            shapes = [s if len(s) == 4 else _in_heads(s, n) for s, n in zip(shapes, (heads, kept, kept), strict=True)]
        past = [self.inputs[at] if at < len(self.inputs) else None for at in (first, second)]
        before = [each.known_shape() for each in past if each is not None]
        if any(len(shape) != 4 for shape in before) or len({shape[2] for shape in before}) > 1:
            raise NotMapped("its past keys and values are not equally many")
        total = self.inputs[6] if self.operator[0] == "G" and len(self.inputs) > 6 else None
        lengths = self.scope.integers(total.name) if total is not None else None
        every = lengths[0] if lengths else shapes[1][2] + (before[0][2] if before else 0)
        output = (*shapes[0][:3], shapes[2][3])
        if every < shapes[1][2]:
            raise NotMapped("it has fewer keys in all than new ones")
        return self._made("attention", [each.operand() for each in values], shapes, output, past=every - shapes[1][2])


def _padding(given: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the padding of each axis, before and behind together; None where the operator chooses it."""
    pads, auto = tuple(given.get("pads", ())), given.get("auto_pad", b"NOTSET")
    if auto != b"NOTSET" and (auto not in (b"SAME_UPPER", b"SAME_LOWER", b"VALID") or any(pads)):
        raise NotMapped("its auto_pad is none of ONNX, or stands beside pads")
    if auto[:4] == b"SAME":
        return None
    rank = len(pads) // 2
    if len(pads) % 2 or min(pads, default=0) < 0:
        raise NotMapped(f"pads has {len(pads)} numbers" if len(pads) % 2 else "negative padding")
    return tuple(map(sum, zip(pads[:rank], pads[rank:], strict=True))) or (0,)


def ends_of_windows(given: Mapping[str, Any], data: Shape | None, result: Shape | None) -> list[int] | None:
    """Return the pads of a pooling without ceil_mode whose windows all begin inside the input; None where they do."""
    try:
        kernel = tuple(given.get("kernel_shape", ()))
        rank, sizes, made = len(kernel), (data or ())[2:], (result or ())[2:]
        rows = [_numbers(given, name, 1, rank) for name in ("strides", "dilations")]
        begins = _numbers(given, "pads", 0, 2 * rank)[:rank]
    except (NotMapped, TypeError):  # told where the node is
        return None
    if not given.get("ceil_mode") or not len(kernel) == len(sizes) == len(made) or _padding(given) is None:
        return None
    counts = [n - ((n - 1) * step >= size + at) for n, step, size, at in zip(made, rows[0], sizes, begins, strict=True)]
    lasts = zip(counts, kernel, *rows, sizes, begins, strict=True)
    ends = [max(0, (n - 1) * step + (taps - 1) * each + 1 - size - at) for n, taps, step, each, size, at in lasts]
    return None if counts == list(made) else [*begins, *ends]


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
