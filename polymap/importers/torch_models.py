"""PyTorch models as networks, through `torch.export` on the meta device: no weights are read, nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polymap.importers.nodes import Nodes, extra
from polymap.importers.operators import Call, NotMapped, Shape
from polymap.inputs import is_list, shown
from polymap.ir import InputError, Mistake
from polymap.networks import Network

_VIEWS = (
    *("view", "reshape", "flatten", "transpose", "permute", "t", "cat", "stack", "chunk", "split"),
    *("split_with_sizes", "slice", "select", "unsqueeze", "squeeze", "expand", "contiguous", "getitem"),
    *("dropout", "alias", "detach", "unbind", "repeat", "pad", "constant_pad_nd", "arange", "zeros", "ones"),
    *("full", "empty", "zeros_like", "ones_like", "full_like", "lift_fresh_copy", "narrow", "movedim"),
    *("swapaxes", "unflatten", "pixel_shuffle", "pixel_unshuffle", "sym_size", "expand_as", "view_as"),
    *("type_as", "_assert_tensor_metadata", "scalar_tensor", "numpy_T", "adjoint", "mT", "concat"),
    *("concatenate", "tensor_split", "identity", "slice_scatter", "select_scatter", "feature_dropout"),
    *("alpha_dropout", "_unsafe_view", "new_zeros", "new_ones", "new_full", "roll", "flip"),
)
_ELEMENTWISE = {
    "add": "add", "sub": "subtract", "rsub": "subtract", "mul": "multiply", "div": "divide", "maximum": "max",
    "minimum": "min", "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "erf": "erf", "abs": "fabs",
    "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil", "pow": "power", "neg": "negate",
    "reciprocal": "reciprocal", "rsqrt": "rsqrt", "relu": "relu", "relu6": "relu6", "hardtanh": "relu6",
    "clamp": "relu6", "sigmoid": "sigmoid", "silu": "silu", "gelu": "gelu", "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish", "leaky_relu": "leaky_relu", "where": "where", "masked_fill": "copy", "clone": "copy",
    "copy": "copy", "_to_copy": "copy", "to": "copy", "lt": "less", "le": "less", "gt": "less", "ge": "less",
    "eq": "equal", "ne": "equal", "triu": "copy", "tril": "copy",
}  # fmt: skip
_REDUCTIONS = {"mean": "reduce_mean", "sum": "reduce_sum", "amax": "reduce_max", "amin": "reduce_min"}
_PRODUCTS = {
    "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"), "mv": ("self", "vec"), "dot": ("self", "tensor"),
}  # fmt: skip
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_REASONS = {
    "nonzero": "the size of the result depends on values",
    "gru": "a recurrence",
    "lstm": "a recurrence",
    "upsample_bilinear2d": "which elements are read follows from rounding",
    "upsample_nearest2d": "which elements are read follows from rounding",
}


def from_torch(
    model: Any, example_inputs: Sequence[Any], *, bits: int | None = None, name: str | None = None
) -> Network:
    """Return the network of a torch.nn.Module; needs the extra `torch`.

    The model is exported as it stands (call `model.eval()` for inference) with the shapes of `example_inputs`, a tuple
    of tensors; both may be on the meta device, and are moved there. bits: of all tensors, instead of the model's types.
    Raises InputError for what torch.export refuses, MissingPackageError without the package.
    """
    torch = extra("torch", "from_torch")
    if not isinstance(model, torch.nn.Module) or not is_list(example_inputs):
        what = f"from_torch was given {shown(type(model).__name__)} and {shown(type(example_inputs).__name__)}"
        raise InputError(Mistake("PM642", what, "Expected a torch.nn.Module and a tuple of example inputs."))
    try:
        program = torch.export.export(model, tuple(example_inputs))
    except Exception as error:  # noqa: BLE001  # whatever the model itself raises comes through torch.export
        told = " ".join(str(error).split())[:300]
        raise InputError(Mistake("PM642", f"torch.export refuses the model: {type(error).__name__}: {told}")) from None
    return _Graph(program.graph, torch, bits).network(name or type(model).__name__)


class _Graph:
    """The nodes of an exported graph."""

    def __init__(self, graph: Any, torch: Any, bits: int | None) -> None:
        self._nodes, self._torch, self._bits = graph.nodes, torch, bits

    def network(self, name: str) -> Network:
        nodes = Nodes()
        for node in self._nodes:
            if node.op != "call_function":
                continue
            nodes.tell(node.name, _operator(node), lambda node=node: self._call(node))
            nodes.connect(node.name, [each.name for each in node.all_input_nodes], [node.name])
        return nodes.network(name[:200])

    def _call(self, node: Any) -> Call | None:
        """Return what a node computes, None for a view; raises NotMapped."""
        operator, given = _operator(node), _arguments(node)
        if operator in _VIEWS:
            return None
        if operator in _REASONS:
            raise NotMapped(_REASONS[operator])
        if operator in ("to", "_to_copy") and self._type(node) == self._type(node.all_input_nodes[0]):
            return None
        value = _value(node)
        output = _shape_of(value[0] if is_list(value) and value else value)
        if output is None:
            raise NotMapped("its result is no tensor")
        asked = self._mapped(operator, given, node, output)
        name, inputs, options = asked
        shapes = tuple(shape for shape in map(_shape_of, map(_value, inputs)) if shape is not None)
        return Call(name, shapes, output, options, self._type(node), self._bits)

    def _type(self, node: Any) -> str | None:
        value = _value(node)
        value = value[0] if is_list(value) and value else value
        name = str(getattr(value, "dtype", "")).removeprefix("torch.")
        widths = ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
        return name if name in widths else None

    def _mapped(
        self, operator: str, given: Mapping[str, Any], node: Any, output: Shape
    ) -> tuple[str, Sequence[Any], Mapping[str, object]]:
        """Return the table's operator, the nodes of its operands and its options."""
        get = given.get
        if operator in _CONVOLUTIONS or operator == "convolution":
            is_transposed = "transpose" in operator or bool(get("transposed"))
            moves = {"strides": get("stride"), "dilations": get("dilation"), "groups": get("groups")}
            name = "transposed_convolution" if is_transposed else "convolution"
            return name, (get("input"), get("weight")), {**moves, "pads_begin": get("padding")}
        if operator == "linear":
            return "linear", (get("input"), get("weight")), {}
        if operator in _PRODUCTS:
            return "product", [get(key) for key in _PRODUCTS[operator]], {}
        if operator == "scaled_dot_product_attention":
            return "attention", (get("query"), get("key"), get("value")), {}
        if operator == "einsum":
            return "contraction", get("tensors") or (), {"equation": get("equation")}
        if operator.removesuffix("_with_indices") in _POOLS:
            kernel, stride = get("kernel_size"), get("stride") or get("kernel_size")
            name = "max_pool" if operator.startswith("max") else "average_pool"
            return name, (get("self"),), {"kernel": kernel, "strides": stride, "dilations": get("dilation")}
        if operator.startswith("adaptive_"):
            return _adaptive(operator, get("self"), output)
        if operator in _ELEMENTWISE:
            return _ELEMENTWISE[operator], node.all_input_nodes, {}
        if operator in _REDUCTIONS:
            return _REDUCTIONS[operator], (get("self"),), {"axes": tuple(get("dim") or ())}
        return self._normalised(operator, given)

    def _normalised(self, operator: str, given: Mapping[str, Any]) -> tuple[str, Sequence[Any], Mapping[str, object]]:
        get = given.get
        scales = [each for each in (get("weight"), get("bias")) if each is not None]
        match operator:
            case "softmax" | "_softmax":
                return "softmax", (get("self"),), {"axis": get("dim")}
            case "layer_norm" | "rms_norm":
                options = {"axes": len(get("normalized_shape") or ()), "rms": operator == "rms_norm"}
                return "layer_norm", (get("input"), *scales), {**options, "epsilon": get("eps") or 1e-5}
            case "group_norm":
                return "group_norm", (get("input"), *scales), {"groups": get("num_groups"), "epsilon": get("eps")}
            case "batch_norm" | "_native_batch_norm_legit_no_training":
                return "batch_norm", (get("input"),), {}
            case "embedding":
                return "embedding", (get("weight"),), {}
            case _:
                raise NotMapped("no affine loop nest is known for this operator")


def _operator(node: Any) -> str:
    """Return the name of an aten operator without its overload and the mark of one in place."""
    schema = getattr(node.target, "_schema", None)
    name = getattr(node.target, "__name__", str(node.target)) if schema is None else schema.name.split("::")[-1]
    return name.rstrip("_") or name


def _arguments(node: Any) -> dict[str, Any]:
    """Return argument name -> value, defaults included."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return dict(node.kwargs)
    found = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
    found |= dict(zip((each.name for each in schema.arguments), node.args, strict=False))
    return found | dict(node.kwargs)


def _value(node: Any) -> Any:
    meta = getattr(node, "meta", None)
    return None if meta is None else meta.get("val")


def _shape_of(value: Any) -> Shape | None:
    """Return the shape of a tensor; None for what is none. Raises NotMapped where a dim has no number."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return None
    if not all(isinstance(size, int) for size in shape):
        raise NotMapped("its shape is not known before the run")
    return tuple(shape)


def _adaptive(operator: str, source: Any, output: Shape) -> tuple[str, Sequence[Any], Mapping[str, object]]:
    shape = _shape_of(_value(source)) or ()
    sizes = tuple(zip(shape[2:], output[2:], strict=False))
    if len(shape) != len(output) or any(size % made for size, made in sizes if made):
        raise NotMapped("its windows have different sizes")
    kernel = tuple(size // made for size, made in sizes)
    name = "max_pool" if operator.startswith("adaptive_max") else "average_pool"
    return name, (source,), {"kernel": kernel, "strides": kernel}
