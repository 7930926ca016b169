"""PyTorch models as networks, through `torch.export` on the meta device: no weights are read, nothing is computed."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from polymap.importers.calls import Call, NotMapped, Operand, Shape
from polymap.importers.nodes import OUTER, Inner, Loops, Nodes, check_bits, extra
from polymap.importers.torch_calls import Asked, asked_of, is_view, reason_of, several, shape_of, value_of
from polymap.inputs import answers_in_words, is_list, shown
from polymap.ir import InputError, Mistake
from polymap.networks import Network

# Operators that run the graph they are given once, with the operands behind it.
_BLOCKS = ("wrap", "tag_activation_checkpoint", "invoke_subgraph", "strict_mode", "hints_wrapper", "dynamo_bypassing")
_LOOPS = ("map_impl", "scan")  # that run it once for each slice along the first axis


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
    check_bits(bits)
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
    graph = _Graph(program, torch, bits)
    found = graph.network(name)
    known = torch.export.default_decompositions()
    table = {target: known[target] for target in graph.counted if target in known}
    if not table:
        return found
    return _Graph(_decomposed(program, table), torch, bits).network(name)


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

    def __init__(self, program: Any, torch: Any, bits: int | None) -> None:
        self._module, self._torch, self._bits = program.graph_module, torch, bits
        told = program.graph_signature
        self._constants: set[str] = {*told.inputs_to_lifted_tensor_constants, *told.inputs_to_buffers}
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
        results = [self._keys.get(each, "") for each in several(end.args[0] if end.args else ())]
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
            given = [each for each in several((node.args, node.kwargs)) if _graph_at(module, each) is None]
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
        slices = several(node.args[1 if operator == "map_impl" else 2] if len(node.args) > 2 else ())
        shape = shape_of(value_of(slices[0])) if slices else None
        return shape[0] * inner.times if shape else None

    def _call(self, node: Any) -> Loops | None:
        """Return what a node computes, None for a view; raises NotMapped."""
        operator, given = _operator(node), _arguments(node)
        if operator in _LOOPS or is_view(operator, given):
            return None
        if operator in ("index", "index_select", "gather"):
            indices = several(given.get("indices")) or several(given.get("index"))
            if all(map(self._is_constant, indices)):  # it reorders elements
                return None
        reason = reason_of(operator)
        if reason is not None:
            raise NotMapped(reason, 0)
        if operator in ("to", "_to_copy") and self._type(node) == self._type(node.all_input_nodes[0]):
            return None
        value = value_of(node)
        output = shape_of(value[0] if is_list(value) and value else value)
        if output is None:
            raise NotMapped("its result is no tensor")
        try:
            loops = Loops.of(self._asked(asked_of(operator, given, node, output), node, output))
        except NotMapped as reason:
            raise self._counted(node, reason) from None
        if self._vmaps:
            has_macs = any(part.is_product for part in loops.parts)
            raise NotMapped("it runs under vmap, which torch could not dissolve", None if has_macs else 0)
        return loops

    def _is_constant(self, node: Any) -> bool:
        """Whether a node's result is a buffer, or elements of one in another order."""
        if node.op == "placeholder":
            return node.name in self._constants
        is_kept = node.op == "call_function" and is_view(_operator(node), _arguments(node))
        return is_kept and bool(node.all_input_nodes) and all(map(self._is_constant, node.all_input_nodes))

    def _asked(self, asked: Asked, node: Any, output: Shape) -> Call:
        """Return the call of the table that a node asks for."""
        shapes = [(each, shape_of(value_of(each))) for each in asked.operands]
        tensors = [(each, shape) for each, shape in shapes if shape is not None]
        turned = [asked.name == "linear" and place == 1 for place in range(len(tensors))]
        return Call(
            operator=asked.name,
            inputs=asked.shapes or tuple(shape for _, shape in tensors),
            output=output if asked.output is None else asked.output,
            options=asked.options,
            element_type=self._type(node),
            bits=self._bits,
            operands=tuple(self._operand(each, turn) for (each, _), turn in zip(tensors, turned, strict=True)),
        )

    def _operand(self, node: Any, is_turned: bool) -> Operand:  # noqa: FBT001
        bits = getattr(getattr(value_of(node), "dtype", None), "itemsize", 1) * 8
        return Operand(self._keys[node], self._type(node), bits, is_turned)

    def _counted(self, node: Any, reason: NotMapped) -> NotMapped:
        """Return the reason with the multiply-accumulates that torch's own counter finds in an operator."""
        if reason.macs is not None or _schema(node) is None:
            return reason
        counter = extra("torch.utils.flop_counter", "from_torch").FlopCounterMode(display=False)
        try:
            args, keywords = self._torch.fx.node.map_arg((node.args, node.kwargs), value_of)
            with _without_warnings(), value_of(node.all_input_nodes[0]).fake_mode, counter:
                node.target(*args, **keywords)
        except Exception:  # noqa: BLE001  # an operator that cannot run without data
            return reason
        macs = counter.get_total_flops() // 2
        if macs == 0 or self._vmaps:  # no formula for the operator
            return reason
        self.counted[node.target] = None
        return NotMapped(str(reason), macs)

    def _type(self, node: Any) -> str | None:
        value = value_of(node)
        value = value[0] if is_list(value) and value else value
        name = str(getattr(value, "dtype", "")).removeprefix("torch.")
        widths = ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
        return name if name in widths else None


def _schema(node: Any) -> Any:
    return getattr(node.target, "_schema", None)


def _graphs_of(module: Any, node: Any) -> dict[str, Any]:
    """Return the graphs that an operator is given, as modules by their names in the graph."""
    found = {each.name: _graph_at(module, each) for each in several((node.args, node.kwargs))}
    return {name: each for name, each in found.items() if each is not None}


def _graph_at(module: Any, node: Any) -> Any:
    """Return the module with a graph that a node stands for; None for other nodes."""
    if node.op != "get_attr":
        return None
    for name in str(node.target).split("."):
        module = getattr(module, name, None)
    return module if hasattr(module, "graph") else None


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
