"""ONNX models as networks: shapes by onnx's own inference, symbolic dims bound by name, no weights loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polymap.importers.nodes import Nodes, extra
from polymap.importers.operators import Call, NotMapped, Shape
from polymap.inputs import as_integer, expected_kind, shown
from polymap.ir import InputError, Mistake
from polymap.networks import Network

_BATCH = ("batch", "batch_size", "N")
_SMALL = 4096  # elements of a constant that is read for its values: axes, shapes
_MOST_BYTES = 2**31
_VIEWS = (
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
    "Greater": "less", "GreaterOrEqual": "less", "Equal": "equal", "Swish": "silu",
}  # fmt: skip
_REDUCTIONS = {
    "ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
    "ReduceSumSquare": "reduce_sum_square", "ReduceL1": "reduce_l1",
}  # fmt: skip
# The Python types of attributes as onnx gives them; others are not read, or by their truth alone.
_LISTED = ("pads", "strides", "dilations", "kernel_shape", "axes", "output_padding", "output_shape")
_KINDS: dict[str, type] = {**dict.fromkeys(_LISTED, list), "group": int, "equation": bytes, "auto_pad": bytes}
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


def from_onnx(
    path: str | Path, *, batch: int = 1, sizes: Mapping[str, int] | None = None, bits: int | None = None
) -> Network:
    """Return the network of an ONNX file; needs the extra `onnx`.

    batch: of dims named batch, batch_size or N. sizes: of further symbolic dims, by name. bits: of all tensors, instead
    of the model's types. External weights are not read. Raises InputError for a file that is no model or lacks sizes,
    MissingPackageError without the package.
    """
    onnx = extra("onnx", "from_onnx")
    path = Path(path) if isinstance(path, str) else expected_kind(path, Path, "the path", InputError)
    model = _inferred(onnx, _read(onnx, path), path, dict.fromkeys(_BATCH, batch) | dict(sizes or {}))
    return _Graph(onnx, model, bits).network(path.stem)


def _read(onnx: Any, path: Path) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(Mistake("PM640", f"{shown(path.name)} is larger than 2 GiB", "Keep weights external."))
        model = onnx.ModelProto()
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise InputError(Mistake("PM101", f"cannot read {shown(str(path))}: {error.strerror}")) from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # protobuf's classes differ between its implementations
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: {_line(error)}")) from None
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: a name is not UTF-8"))
    if not model.graph.node:
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: its graph has no nodes"))
    return model


def _texts(graph: Any) -> Iterator[object]:
    """Yield every name of a graph: where its bytes are not UTF-8, protobuf gives bytes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
    for place in (*graph.input, *graph.output):
        yield from (place.name, *(dim.dim_param for dim in place.type.tensor_type.shape.dim))
    yield from (each.name for each in graph.initializer)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _inferred(onnx: Any, model: Any, path: Path, sizes: Mapping[str, int]) -> Any:
    """Return the model with its dims bound and shapes inferred (data propagation included)."""
    missing: dict[str, None] = {}
    weights = {each.name for each in model.graph.initializer}
    for place in model.graph.input:
        for axis, dim in enumerate(place.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            name = dim.dim_param or ("batch" if axis == 0 else f"{place.name}[{axis}]")
            size = as_integer(sizes.get(name))
            if size is not None and 0 < size < 2**31:
                dim.dim_value = size
            elif place.name not in weights:
                missing[name] = None
    if missing:
        what = f"{shown(path.name)} has dims without sizes: {', '.join(list(missing)[:20])}"
        raise InputError(
            Mistake("PM641", what, "Give them as from_onnx(path, sizes={...}), or NAME=INT after the file.")
        )
    del model.graph.value_info[:]
    for place in model.graph.output:
        if place.type.HasField("tensor_type"):
            place.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # noqa: BLE001  # onnx raises many classes, also plain RuntimeErrors
        raise InputError(Mistake("PM640", f"{shown(path.name)}: onnx infers no shapes: {_line(error)}")) from None


class _Graph:
    """The nodes of one graph with the shapes, types and small constants of their values."""

    def __init__(self, onnx: Any, model: Any, bits: int | None) -> None:
        self._onnx, self._graph, self._bits = onnx, model.graph, bits
        self._opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
        self._shapes: dict[str, Shape] = {}
        self._types: dict[str, int] = {}
        self._values: dict[str, tuple[int, ...]] = {}
        self._constants = {each.name for each in self._graph.initializer}
        for each in (*self._graph.input, *self._graph.value_info, *self._graph.output):
            self._note(each)
        for each in self._graph.initializer:
            self._shapes[each.name] = tuple(each.dims)
            self._types[each.name] = each.data_type
            self._note_values(each.name, each)

    def _note(self, value: Any) -> None:
        kind = value.type.tensor_type
        self._types[value.name] = kind.elem_type
        dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)
        if kind.HasField("shape") and min(dims, default=0) >= 0:
            self._shapes[value.name] = dims

    def _note_values(self, name: str, tensor: Any) -> None:
        is_small = tensor.data_type == 7 and all(0 <= dim <= _SMALL for dim in tensor.dims) and len(tensor.dims) < 2
        if not is_small or tensor.data_location == 1:
            return
        try:
            self._values[name] = tuple(int(each) for each in self._onnx.numpy_helper.to_array(tensor).reshape(-1))
        except Exception:  # noqa: BLE001  # a tensor whose bytes do not fit its shape
            return

    def network(self, name: str) -> Network:
        nodes, used = Nodes(), set[str]()
        for place, node in enumerate(self._graph.node):
            label = node.name or (node.output[0] if node.output else "") or f"{node.op_type}_{place}"
            label = "".join(letter if letter.isprintable() else "?" for letter in label)[:150]
            label = label if label not in used else f"{label}#{place}"
            used.add(label)
            nodes.tell(label, node.op_type, lambda node=node: self._call(node))
            nodes.connect(label, node.input, node.output)
            if node.op_type in ("Constant", "Shape", "Size") or self._is_constant(node):
                self._constants.update(node.output)
        return nodes.network(name[:200] or "model")

    def _is_constant(self, node: Any) -> bool:
        return bool(node.input) and all(name in self._constants for name in node.input if name)

    def _call(self, node: Any) -> Call | None:
        """Return what a node computes, None for a view; raises NotMapped."""
        operator, attributes = node.op_type, self._attributes(node)
        if node.domain not in ("", "ai.onnx"):
            raise NotMapped(f"an operator of the domain {node.domain[:60]}")
        if operator == "Constant" and node.output and "value" in attributes:
            self._note_values(node.output[0], attributes["value"])
        if operator in _VIEWS or self._is_constant(node):
            return None
        if operator in _REASONS:
            raise NotMapped(_REASONS[operator])
        shapes = [self._shape(name) for name in node.input if name]
        if not shapes or not node.output:
            raise NotMapped("it has no operands or no result")
        return self._mapped(node, attributes, shapes, self._shape(node.output[0]))

    def _shape(self, name: str) -> Shape:
        if name not in self._shapes:
            raise NotMapped(f"the shape of {shown(name)} is not known before the run")
        return self._shapes[name]

    def _attributes(self, node: Any) -> dict[str, Any]:
        try:
            found = {each.name: self._onnx.helper.get_attribute_value(each) for each in node.attribute}
        except Exception as error:  # noqa: BLE001  # an attribute of no type
            raise NotMapped(f"its attributes cannot be read: {_line(error)}") from None
        for name, value in found.items():
            if value is None or not isinstance(value, _KINDS.get(name, object)):
                raise NotMapped(f"its attribute {shown(name)} is no value of the type that it has in ONNX")
        return found

    def _made(
        self, operator: str, node: Any, shapes: Sequence[Shape], output: Shape, options: Mapping[str, object]
    ) -> Call:
        kind = _element_type(self._onnx, self._types.get(node.output[0], 1))
        return Call(operator, tuple(shapes), output, options, kind, self._bits)

    def _mapped(self, node: Any, given: Mapping[str, Any], shapes: Sequence[Shape], output: Shape) -> Call | None:
        operator, x = node.op_type, shapes[0]

        def made(name: str, inputs: Sequence[Shape] = (), **options: object) -> Call:
            return self._made(name, node, inputs or shapes, output, options)

        match operator:
            case "Conv" | "ConvTranspose":
                if len(shapes) < 2:
                    raise NotMapped("it has no weights")
                return made(
                    "convolution" if operator == "Conv" else "transposed_convolution",
                    strides=given.get("strides"),
                    dilations=given.get("dilations"),
                    groups=given.get("group", 1),
                    pads_begin=_begins(given, shapes, output),
                )
            case "Gemm" if len(shapes) > 1 and len(x) == len(shapes[1]) == 2:
                return made("product", (_turned(x, given.get("transA")), _turned(shapes[1], given.get("transB"))))
            case "MatMul" if len(shapes) > 1:
                return made("product")
            case "Einsum" if len(shapes) == 2:
                return made("contraction", equation=given.get("equation", b"").decode("ascii", "replace"))
            case "Attention" if len(shapes) > 2 and len(output) == 4:
                return made("attention")
            case "MaxPool" | "AveragePool":
                return made(
                    "max_pool" if operator == "MaxPool" else "average_pool",
                    kernel=given.get("kernel_shape"),
                    strides=given.get("strides"),
                    dilations=given.get("dilations"),
                )
            case "GlobalAveragePool" | "GlobalMaxPool":
                name = "reduce_mean" if operator == "GlobalAveragePool" else "reduce_max"
                return made(name, axes=tuple(range(2, len(x))))
            case _ if operator in _REDUCTIONS:
                return made(_REDUCTIONS[operator], axes=self._axes(node, given))
            case _ if operator in _SAME_SHAPE:
                return made(_SAME_SHAPE[operator])
            case "Gather":
                if given.get("axis", 0) == 0 and len(x) == 2 and node.input[1] not in self._constants:
                    return made("embedding")
                if node.input[1] in self._constants:
                    return None
                raise NotMapped("which elements are read depends on values")
            case _:
                return self._normalised(operator, given, x, made)

    def _normalised(self, operator: str, given: Mapping[str, Any], x: Shape, made: Callable[..., Call]) -> Call:
        match operator:
            case "Softmax":
                axis = given.get("axis", -1 if self._opset >= 13 else 1)
                if self._opset < 13 and 0 <= axis <= len(x):  # the dims behind the axis are one row
                    rows = (_product(x[:axis]), _product(x[axis:]))
                    return made("softmax", (rows,), axis=-1)
                return made("softmax", axis=axis)
            case "LayerNormalization" | "RMSNormalization":
                axis = given.get("axis", -1)
                last = -axis if axis < 0 else len(x) - axis
                return made("layer_norm", axes=last, rms=operator[0] == "R", epsilon=given.get("epsilon", 1e-5))
            case "BatchNormalization":
                return made("batch_norm")
            case "InstanceNormalization" | "GroupNormalization":
                groups = given.get("num_groups", 1) if operator[0] == "G" else (x[1] if len(x) > 1 else 1)
                return made("group_norm", groups=groups, epsilon=given.get("epsilon", 1e-5))
            case _:
                raise NotMapped("no affine loop nest is known for this operator")

    def _axes(self, node: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
        if "axes" in given:
            return tuple(given["axes"])
        if len(node.input) < 2 or not node.input[1]:
            return ()
        if node.input[1] not in self._values:
            raise NotMapped("its axes are not known before the run")
        return self._values[node.input[1]]


def _product(shape: Shape) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


def _turned(shape: Shape, is_turned: object) -> Shape:
    return shape[::-1] if is_turned else shape


def _begins(given: Mapping[str, Any], shapes: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    """Return how many positions are cut off (or padded) at the begin of each spatial axis."""
    pads, rank = tuple(given.get("pads", ())), len(output) - 2
    if (
        given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
        and len(shapes[0]) == len(shapes[1]) == rank + 2
    ):
        strides = tuple(given.get("strides", ())) or (1,) * rank
        totals = [
            max(0, (size - 1) * stride + kernel - made)
            for size, stride, kernel, made in zip(shapes[0][2:], strides, shapes[1][2:], output[2:], strict=False)
        ]
        is_upper = given["auto_pad"] == b"SAME_UPPER"
        return tuple(total // 2 if is_upper else total - total // 2 for total in totals)
    return pads[:rank]


def _element_type(onnx: Any, kind: int) -> str | None:
    """Return the element type's name where workloads know it (bool and others are 8 bits wide)."""
    try:
        name = onnx.TensorProto.DataType.Name(kind).lower()
    except ValueError:
        return None
    known = {"float": "float32", "double": "float64"}.get(name, name)
    widths = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    return known if known in (*widths, "float16", "bfloat16", "float32", "float64") else None
