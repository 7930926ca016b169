"""PyTorch models as networks, through `torch.export` on the meta device: no weights are read, nothing is computed."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from polymap.importers.calls import Call, NotMapped, Operand, Shape
from polymap.importers.nodes import OUTER, Inner, Loops, Nodes, extra
from polymap.inputs import answers_in_words, is_list, is_table, shown
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
    *("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "lazy_load_decompositions"),
    *("_vmap_increment_nesting", "_vmap_decrement_nesting", "_add_batch_dim", "_remove_batch_dim"),
)
# Operators that run the graph they are given once, with the operands behind it.
_BLOCKS = ("wrap", "tag_activation_checkpoint", "invoke_subgraph", "strict_mode", "hints_wrapper", "dynamo_bypassing")
_LOOPS = ("map_impl", "scan")  # that run it once for each slice along the first axis
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
    "baddbmm": ("batch1", "batch2"), "mv": ("self", "vec"), "dot": ("self", "tensor"), "vdot": ("self", "other"),
    "addmv": ("mat", "vec"), "_int_mm": ("self", "mat2"), "_scaled_mm": ("self", "mat2"),
}  # fmt: skip
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_REASONS = {
    "nonzero": "the size of the result depends on values",
    "gru": "a recurrence",
    "lstm": "a recurrence",
    "rnn_tanh": "a recurrence",
    "rnn_relu": "a recurrence",
    "cond": "which branch runs depends on values",
    "while_loop": "how often it runs depends on values",
    "upsample_bilinear2d": "which elements are read follows from rounding",
    "upsample_nearest2d": "which elements are read follows from rounding",
}


@answers_in_words
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
        with _without_warnings():
            program = torch.export.export(model, tuple(example_inputs))
    except Exception as error:  # noqa: BLE001  # whatever the model itself raises comes through torch.export
        told = " ".join(str(error).split())[:300]
        raise InputError(Mistake("PM642", f"torch.export refuses the model: {type(error).__name__}: {told}")) from None
    return _network(torch, program, bits, name or type(model).__name__)


def _network(torch: Any, program: Any, bits: int | None, name: str) -> Network:
    """Return the network of an exported program.

    Blocks under no_grad, autocast and vmap are operators around graphs, or marks between nodes: torch's own
    decomposition dissolves them. It also gives the products of operators that are none themselves (tensordot).
    """
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    if any(_schema(node) is None and _operator(node) != "getitem" for node in calls):
        program = _decomposed(program, {})
    graph = _Graph(program.graph_module, torch, bits)
    found = graph.network(name)
    known = torch.export.default_decompositions()
    table = {target: known[target] for target in graph.counted if target in known}
    if not table:
        return found
    return _Graph(_decomposed(program, table).graph_module, torch, bits).network(name)


@contextmanager
def _without_warnings() -> Generator[None, None, None]:
    """What torch says of its own insides is no mistake of the caller, also where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _decomposed(program: Any, table: Mapping[Any, Any]) -> Any:
    """Return the program with the operators of a table decomposed; as it is where torch cannot."""
    try:
        with _without_warnings():
            return program.run_decompositions(dict(table))
    except Exception:  # noqa: BLE001  # whatever the model itself raises comes through torch
        return program


class _Graph:
    """The nodes of an exported graph, and of the graphs inside it.

    counted: operators without a workload in which torch's counter finds multiply-accumulates.
    """

    def __init__(self, module: Any, torch: Any, bits: int | None) -> None:
        self._module, self._torch, self._bits = module, torch, bits
        self.counted: dict[Any, None] = {}
        self._keys: dict[Any, str] = {}
        self._results: dict[Any, list[str]] = {}
        self._vmaps = 0

    def network(self, name: str) -> Network:
        nodes = Nodes()
        self._tell(nodes, self._module, OUTER)
        return nodes.network(name[:200])

    def _tell(self, nodes: Nodes, module: Any, inner: Inner) -> list[str]:
        """Tell all nodes of a graph, and return the names of its results."""
        for node in module.graph.nodes:
            self._keys.setdefault(node, inner.prefix + node.name)
            if node.op == "call_function":
                self._tell_node(nodes, module, node, inner)
        (end,) = (node for node in module.graph.nodes if node.op == "output")
        results = [self._keys.get(each, "") for each in _several(end.args[0] if end.args else ())]
        nodes.returns(results)
        return results

    def _tell_node(self, nodes: Nodes, module: Any, node: Any, inner: Inner) -> None:
        operator, label = _operator(node), inner.prefix + node.name
        self._vmaps += {"_vmap_increment_nesting": 1, "_vmap_decrement_nesting": -1}.get(operator, 0)
        if operator == "getitem" and node.args[0] in self._results:  # the result of a block is that of a node inside
            results, place = self._results[node.args[0]], node.args[1]
            self._keys[node] = results[place] if isinstance(place, int) and place < len(results) else label
        graphs = _graphs_of(module, node)
        is_block = len(graphs) == 1 and operator.startswith(_BLOCKS)
        reads = [self._keys[each] for each in node.all_input_nodes]
        writes = [] if self._keys[node] != label else [label]
        nodes.tell(label, operator, lambda: None if is_block else self._call(node), reads, writes, inner)
        for name, graph in graphs.items():
            times = inner.times if is_block else self._slices(operator, node, inner)
            places = [each for each in graph.graph.nodes if each.op == "placeholder"]
            given = [each for each in _several((node.args, node.kwargs)) if _graph_at(module, each) is None]
            if is_block:  # operands in order, behind what else the operator is given
                self._keys.update(
                    (place, self._keys[each]) for place, each in zip(places[::-1], given[::-1], strict=False)
                )
            results = self._tell(
                nodes, graph, Inner(f"{label}.{name}." if len(graphs) > 1 else f"{label}.", operator, times)
            )
            if is_block:
                self._results[node] = results

    def _slices(self, operator: str, node: Any, inner: Inner) -> int | None:
        """Return how often the graph inside a node runs; None where values decide."""
        if operator not in _LOOPS or inner.times is None:
            return None
        several = _several(node.args[1 if operator == "map_impl" else 2] if len(node.args) > 2 else ())
        shape = _shape_of(_value(several[0])) if several else None
        return shape[0] * inner.times if shape else None

    def _call(self, node: Any) -> Loops | None:
        """Return what a node computes, None for a view; raises NotMapped."""
        operator, given = _operator(node), _arguments(node)
        if operator in _VIEWS or operator in _LOOPS:
            return None
        if operator in _REASONS:
            raise NotMapped(_REASONS[operator], _recurrent_macs(given) if _schema(node) is not None else 0)
        if operator in ("to", "_to_copy") and self._type(node) == self._type(node.all_input_nodes[0]):
            return None
        value = _value(node)
        output = _shape_of(value[0] if is_list(value) and value else value)
        if output is None:
            raise NotMapped("its result is no tensor")
        try:
            name, inputs, options = self._mapped(operator, given, node, output)
            shapes = [(each, _shape_of(_value(each))) for each in inputs]
            tensors = [(each, shape) for each, shape in shapes if shape is not None]
            turned = [name == "linear" and place == 1 for place in range(len(tensors))]
            operands = tuple(self._operand(each, turn) for (each, _), turn in zip(tensors, turned, strict=True))
            call = Call(
                name, tuple(shape for _, shape in tensors), output, options, self._type(node), self._bits, operands
            )
            loops = Loops.of(call)
        except NotMapped as reason:
            raise self._counted(node, reason) from None
        if self._vmaps:
            has_macs = any(part.is_product for part in loops.parts)
            raise NotMapped("it runs under vmap, which torch could not dissolve", None if has_macs else 0)
        return loops

    def _operand(self, node: Any, is_turned: bool) -> Operand:  # noqa: FBT001
        bits = getattr(getattr(_value(node), "dtype", None), "itemsize", 1) * 8
        return Operand(self._keys[node], self._type(node), bits, is_turned)

    def _counted(self, node: Any, reason: NotMapped) -> NotMapped:
        """Return the reason with the multiply-accumulates that torch's own counter finds in an operator."""
        if reason.macs is not None or _schema(node) is None:
            return reason
        counter = extra("torch.utils.flop_counter", "from_torch").FlopCounterMode(display=False)
        try:
            args, keywords = self._torch.fx.node.map_arg((node.args, node.kwargs), _value)
            with _without_warnings(), _value(node.all_input_nodes[0]).fake_mode, counter:
                node.target(*args, **keywords)
        except Exception:  # noqa: BLE001  # an operator that cannot run without data
            return reason
        macs = counter.get_total_flops() // 2
        if macs == 0 or self._vmaps:  # no formula for the operator
            return reason
        self.counted[node.target] = None
        return NotMapped(str(reason), macs)

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
            return _ELEMENTWISE[operator], _several((node.args, node.kwargs)), {}
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


def _schema(node: Any) -> Any:
    return getattr(node.target, "_schema", None)


def _several(given: Any) -> list[Any]:
    """Return the nodes among arguments in order, those inside of lists and tables too."""
    if hasattr(given, "op") and hasattr(given, "all_input_nodes"):
        return [given]
    inner = given.values() if is_table(given) else given if is_list(given) else ()
    return [node for each in inner for node in _several(each)]


def _graphs_of(module: Any, node: Any) -> dict[str, Any]:
    """Return the graphs that an operator is given, as modules by their names in the graph."""
    found = {each.name: _graph_at(module, each) for each in _several((node.args, node.kwargs))}
    return {name: each for name, each in found.items() if each is not None}


def _graph_at(module: Any, node: Any) -> Any:
    """Return the module with a graph that a node stands for; None for other nodes."""
    if node.op != "get_attr":
        return None
    for name in str(node.target).split("."):
        module = getattr(module, name, None)
    return module if hasattr(module, "graph") else None


def _recurrent_macs(given: Mapping[str, Any]) -> int | None:
    """Return the multiply-accumulates of a recurrence: each step, all weights. None for operators that are none."""
    shapes = [_shape_of(_value(each)) for each in _several(given.get("params"))]
    steps = _shape_of(_value(given.get("input")))
    if not shapes or steps is None:
        return None
    return prod(steps[:-1]) * sum(prod(each) for each in shapes if each is not None and len(each) == 2)


def _operator(node: Any) -> str:
    """Return the name of an aten operator without its overload and the mark of one in place."""
    schema = _schema(node)
    name = getattr(node.target, "__name__", str(node.target)) if schema is None else schema.name.split("::")[-1]
    return name.rstrip("_") or name


def _arguments(node: Any) -> dict[str, Any]:
    """Return argument name -> value, defaults included."""
    schema = _schema(node)
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
