"""What is known of the values of an ONNX graph before it runs: types, shapes, and the numbers of small constants.

Exporters compute shapes in the graph (Shape, Gather, Where, ConstantOfShape, Range). Such nodes are evaluated in order,
by onnx's own evaluator, and what comes out is an input of the inference of shapes behind them, one node at a time.
"""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.importers.calls import Shape
from polymap.importers.nodes import extra, refusals
from polymap.importers.onnx_foreign import UNINFERRED, results_of
from polymap.importers.tuning import TUNING

Values = NDArray[Any]
OWN_DOMAINS = ("", "ai.onnx")
POOLS = ("MaxPool", "AveragePool", "LpPool")
_EVALUATED = frozenset((
    *("Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "CumSum"),
    *("ConstantOfShape", "Div", "Equal", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements"),
    *("GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul"),
    *("Neg", "NonZero", "Not", "OneHot", "Or", "Pad", "Pow", "Range", "Reciprocal", "ReduceMax", "ReduceMin"),
    *("ReduceMean", "ReduceProd", "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice"),
    *("Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"),
))  # fmt: skip
_NUMBERS = (
    *(("value_ints", "ints", np.int64), ("value_int", "i", np.int64)),
    *(("value_floats", "floats", np.float32), ("value_float", "f", np.float32)),
)
_BY_VALUES = ("NonZero", "Compress")  # no larger than their inputs, whatever these hold


class Opset(NamedTuple):
    """The package onnx and the version of its operators that a model uses."""

    onnx: Any
    version: int
    ir_version: int


class Scope:
    """Values of a graph by name, those of the graphs around it included."""

    def __init__(self, opset: Opset, outer: Scope | None = None) -> None:
        self._opset, self._onnx = opset, opset.onnx
        self._kinds: ChainMap[str, Any] = outer._kinds.new_child() if outer else ChainMap()
        self._values: ChainMap[str, Any] = outer._values.new_child() if outer else ChainMap()
        self._constants: ChainMap[str, bool] = outer._constants.new_child() if outer else ChainMap()
        self._causes: ChainMap[str, str] = outer._causes.new_child() if outer else ChainMap()

    def inside(self) -> Scope:
        """Return the scope of a graph inside this one: what is noted there is not known here."""
        return Scope(self._opset, self)

    def note(self, graph: Any) -> None:
        """Note the inputs, the weights and the inferred shapes of a graph."""
        for each in (*graph.input, *graph.value_info, *graph.output):
            self._kinds[each.name] = each.type
            self._forget(each.name)
        for each in graph.initializer:
            self._kinds[each.name] = self._kind(each.data_type, each.dims)
            self._constants[each.name] = True
            self._note_tensor(each.name, each)

    def bind(self, name: str, kind: Any, value: Values | None = None) -> None:
        """Note what a value is, instead of what is known of it."""
        self._kinds[name] = kind
        self._forget(name)
        if value is not None:
            self._note_value(name, value)

    def give(self, name: str, value: int) -> None:
        """Note the number of an input that is one integer."""
        dtype = self._onnx.helper.tensor_dtype_to_np_dtype(self.element(name))
        self._note_value(name, np.full(self.shape(name) or (), value, dtype))

    def kind(self, name: str) -> Any:
        """Return the type of a value as onnx has it; None where it is not known."""
        return self._kinds.get(name)

    def shape(self, name: str) -> Shape | None:
        """Return the shape of a value; None where it is not known before the run, or the value is no tensor."""
        return static(self._kinds.get(name))

    def element(self, name: str) -> int:
        """Return the number of a value's element type in ONNX; float32 where it is not known."""
        kind = self._kinds.get(name)
        return kind.tensor_type.elem_type or 1 if kind is not None and kind.HasField("tensor_type") else 1

    def value(self, name: str) -> Values | None:
        """Return the numbers of a small constant; None for other values."""
        found = self._values.get(name)
        if hasattr(found, "data_type"):
            try:
                found = self._values[name] = np.asarray(self._onnx.numpy_helper.to_array(found))
            except refusals():  # a tensor whose bytes do not fit its shape
                found = self._values[name] = None
        return found

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return the integers of a small constant in order; None for other values."""
        value = self.value(name)
        if value is None or value.dtype.kind not in "iub":
            return None
        return tuple(int(each) for each in value.reshape(-1))

    def is_constant(self, name: str) -> bool:
        """Whether a value is known before the run: a weight, or what follows from weights and shapes."""
        return self._constants.get(name, False)

    def cause(self, name: str) -> str:
        """Return which node makes that the shape of a value is not known; "" where none does."""
        return self._causes.get(name, "")

    def is_before_the_run(self, node: Any) -> bool:
        """Whether all that a node computes follows from weights and shapes."""
        if any(graphs_of(node)):
            return False
        is_source = node.domain in OWN_DOMAINS and node.op_type in ("Constant", "Shape", "Size")
        return is_source or (any(node.input) and all(self.is_constant(name) for name in node.input if name))

    def learn(self, node: Any) -> None:
        """Note what follows from the inputs of a node: the shapes of its results, and their numbers where all of its
        inputs are small constants."""
        self._learn(node)
        known = [self._causes[name] for name in node.input if self._causes.get(name)]
        for name in node.output:
            if self.shape(name) is None:
                self._causes[name] = known[0] if known else f"{node.op_type} {(node.name or name)[:60]!r}"
            elif name in self._causes:
                self._causes[name] = ""

    def _learn(self, node: Any) -> None:
        if any(graphs_of(node)) or not node.output:  # what a graph inside reads of the values around is no input
            return
        inputs = [name for name in node.input if name]
        if self.is_before_the_run(node):
            self._constants.update(dict.fromkeys(node.output, True))
        if node.domain not in OWN_DOMAINS or node.op_type in UNINFERRED:
            self._learn_foreign(node)
            return
        if node.op_type == "Constant":
            self._learn_constant(node)
            return
        is_known = bool(inputs) and node.op_type in _EVALUATED and all(self.value(each) is not None for each in inputs)
        if any(name and self.shape(name) is None for name in node.output):
            self._infer(node)
        if node.op_type in ("Shape", "Size"):
            self._learn_shape(node)
        elif is_known and (node.op_type in _BY_VALUES or all(self._is_small(each) for each in node.output if each)):
            self._evaluate(node)

    def _forget(self, name: str) -> None:
        """Let a value hide one of the same name in a graph around."""
        if name in self._values:
            self._values[name] = None
        if name in self._constants:
            self._constants[name] = False

    def _kind(self, element: int, shape: Iterable[int]) -> Any:
        return self._onnx.helper.make_tensor_type_proto(element, list(shape))

    def _is_small(self, name: str) -> bool:
        shape = self.shape(name)
        return shape is not None and prod(shape) <= TUNING.most_listed

    def _note_tensor(self, name: str, tensor: Any) -> None:
        is_small = all(dim >= 0 for dim in tensor.dims) and prod(tensor.dims) <= TUNING.most_listed
        if is_small and tensor.data_location != 1 and tensor.data_type != 8:  # neither elsewhere nor text
            self._values[name] = tensor

    def _note_value(self, name: str, value: Values) -> None:
        self._values[name] = value if value.size <= TUNING.most_listed else None
        self._constants[name] = True
        self._kinds[name] = self._kind(self._onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def _learn_constant(self, node: Any) -> None:
        given = {each.name: each for each in node.attribute}
        name = node.output[0]
        if "value" in given:
            tensor = given["value"].t
            self._kinds[name] = self._kind(tensor.data_type, tensor.dims)
            self._note_tensor(name, tensor)
            return
        for attribute, field, dtype in _NUMBERS:
            if attribute in given:
                self._note_value(name, np.array(getattr(given[attribute], field), dtype=dtype))

    def _learn_shape(self, node: Any) -> None:
        shape = self.shape(node.input[0]) if node.input else None
        if shape is None:
            return
        ends = {each.name: int(each.i) for each in node.attribute}
        numbers = prod(shape) if node.op_type == "Size" else shape[slice(ends.get("start", 0), ends.get("end"))]
        if prod(shape) < 2**63:
            self._note_value(node.output[0], np.array(numbers, dtype=np.int64))

    def _learn_foreign(self, node: Any) -> None:
        """Note the results of an operator that onnx does not know, where onnxruntime tells their shapes."""
        if all(self.shape(name) is not None for name in node.output if name):
            return
        try:
            given = {each.name: self._onnx.helper.get_attribute_value(each) for each in node.attribute}
        except ValueError:  # an attribute of no type: told where the node is
            return
        shapes = [self.shape(name) if name else None for name in node.input]
        elements = [self.element(name) if name else 0 for name in node.input]
        for name, (element, shape) in zip(node.output, results_of(node, given, shapes, elements), strict=False):
            if name:
                self._kinds[name] = self._kind(element, shape)

    def _infer(self, node: Any) -> None:
        """Note the types that onnx infers for the results of a node from the types and numbers of its inputs."""
        onnx = self._onnx
        names = dict.fromkeys(name for name in node.input if name)
        kinds = {name: self._kinds[name] for name in names if name in self._kinds}
        if len(kinds) < len(names):
            return
        data = {name: self._tensor(name) for name in names if self.value(name) is not None}
        # Before version 22 onnx counts windows behind the input.
        version = max(22, self._opset.version) if node.op_type in POOLS else self._opset.version
        imports = [onnx.helper.make_opsetid("", version)]
        infer = extra("onnx.shape_inference", "from_onnx").infer_node_outputs
        try:
            schema = onnx.defs.get_schema(node.op_type, version, "")
            found = infer(schema, node, kinds, data, opset_imports=imports, ir_version=self._opset.ir_version)
        except refusals():  # what onnx cannot infer stays unknown
            return
        for name, kind in found.items():
            if name and self.shape(name) is None:
                self._kinds[name] = kind

    def _tensor(self, name: str) -> Any:
        found = self._values[name]
        return found if hasattr(found, "data_type") else self._onnx.numpy_helper.from_array(found, name)

    def _evaluate(self, node: Any) -> None:
        """Note the numbers that a node computes; nothing where onnx's evaluator cannot."""
        given = {name: self.value(name) for name in node.input if name}
        evaluator = extra("onnx.reference", "from_onnx").ReferenceEvaluator
        try:
            with warnings.catch_warnings(), np.errstate(divide="raise", invalid="raise"):
                warnings.simplefilter("ignore")
                results: Sequence[Any] = evaluator(node, opsets={"": self._opset.version}).run(None, given)
        except refusals():  # whatever an operator raises
            return
        for name, value in zip(node.output, results, strict=False):
            if name and hasattr(value, "dtype"):
                self._note_value(name, np.asarray(value))


def static(kind: Any) -> Shape | None:
    """Return the shape of a type of ONNX; None where it is not known, or the type is no tensor's."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.tensor_type.shape.dim)
    return dims if min(dims, default=0) >= 0 else None


def graphs_of(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs inside a node with the names of their attributes."""
    yield from ((each.name, each.g) for each in node.attribute if each.HasField("g"))
