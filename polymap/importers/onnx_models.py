"""ONNX models as networks: shapes by onnx's own inference, symbolic dims bound by name, no weights loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from polymap.importers.calls import Call, NotMapped
from polymap.importers.nodes import OUTER, Inner, Nodes, check_bits, checked_size, extra, given_table, line_of, refusals
from polymap.importers.onnx_calls import DEFINED_BY_OTHERS, VIEWS, NodeCall, Value, ends_of_windows
from polymap.importers.onnx_scopes import OWN_DOMAINS, POOLS, Opset, Scope, graphs_of, static
from polymap.importers.tuning import TUNING
from polymap.inputs import answers_in_words, expected_kind, is_list, shown
from polymap.ir import InputError, Mistake
from polymap.networks import Network

_BATCH = ("batch", "batch_size", "N")
_PLACE = re.compile(r"(.+)\[(\d{1,4})\]", re.DOTALL)
_NO_NAME = re.compile(r"\W*|unk__\d+|-?\d+|[Nn]one")  # what exporters write where a dim has no name


@answers_in_words
def from_onnx(
    path: str | Path,
    *,
    batch: int = 1,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    bits: int | None = None,
) -> Network:
    """Return the network of an ONNX file; needs the extra `onnx`.

    batch: of the dims named batch, batch_size or N (the first of these names that the file has); without them of the
    first dim of an input, if only one is free. sizes: of further free dims, by name ("length"), or by place
    ("tokens[1]"): dims without a name (also `?`, `unk__7`) are each free by themselves; by the name of an input that
    is one integer, its value. shapes: of whole
    inputs ({"tokens": [1, 128]}). bits: of all tensors, instead of the model's types. External weights are not read.
    Raises InputError for a file that is no model, free dims without sizes, and sizes that the file contradicts;
    MissingPackageError without the package.
    """
    onnx = extra("onnx", "from_onnx")
    path = Path(path) if isinstance(path, str) else expected_kind(path, Path, "the path", InputError)
    check_bits(bits)
    model = _inlined(onnx, _read(onnx, path), path)
    given = _Sizes(path.name, batch, sizes, shapes)
    given.bind(model.graph)
    model = _dissolved(onnx, _inferred(onnx, model, path), path)
    return _Graph(onnx, model, bits).network(path.stem, given.values)


def _read(onnx: Any, path: Path) -> Any:
    try:
        if path.stat().st_size > TUNING.most_bytes:
            raise InputError(Mistake("PM640", f"{shown(path.name)} is larger than 2 GiB", "Keep weights external."))
        model = onnx.ModelProto()
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise InputError(Mistake("PM101", f"cannot read {shown(str(path))}: {error.strerror}")) from None
    except InputError:
        raise
    except refusals() as error:
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: {line_of(error)}")) from None
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: a name is not UTF-8"))
    if not model.graph.node:
        raise InputError(Mistake("PM640", f"{shown(path.name)} is no ONNX model: its graph has no nodes"))
    _check_written(model.graph, path)
    _drop_weights(model.graph)
    return model


def _drop_weights(graph: Any) -> None:
    """Drop the numbers of weights: shapes need those of small constants only, and onnx copies models as it infers."""
    tensors = [*graph.initializer, *(each.t for node in graph.node for each in node.attribute if each.HasField("t"))]
    for tensor in tensors:
        if min(tensor.dims, default=0) >= 0 and prod(tensor.dims) > TUNING.most_listed:
            kept = (tensor.name, tensor.data_type, list(tensor.dims))
            tensor.Clear()
            tensor.name, tensor.data_type, tensor.data_location = kept[0], kept[1], 1
            tensor.dims.extend(kept[2])
    for node in graph.node:
        for _, inner in graphs_of(node):
            _drop_weights(inner)


def _check_written(graph: Any, path: Path) -> None:
    """Raise InputError where a graph, or one inside it, writes a value twice: shapes are known by name."""
    seen = {each.name for each in (*graph.input, *graph.initializer)}
    for node in graph.node:
        for name in filter(None, node.output):
            if name in seen:
                what = f"{shown(path.name)} is no ONNX model: {shown(name)} is written twice"
                raise InputError(Mistake("PM640", what, "Each result of a node has a name of its own in ONNX."))
            seen.add(name)
        for _, inner in graphs_of(node):
            _check_written(inner, path)


def _texts(graph: Any) -> Iterator[object]:
    """Yield every name of a graph: where its bytes are not UTF-8, protobuf gives bytes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
    for place in (*graph.input, *graph.output):
        yield from (place.name, *(dim.dim_param for dim in place.type.tensor_type.shape.dim))
    yield from (each.name for each in graph.initializer)


def _inlined(onnx: Any, model: Any, path: Path) -> Any:
    """Return the model with the nodes of its own functions instead of their calls."""
    if not model.functions:
        return model
    try:
        return extra("onnx.inliner", "from_onnx").inline_local_functions(model)
    except refusals() as error:
        raise InputError(
            Mistake("PM640", f"{shown(path.name)}: onnx cannot inline its functions: {line_of(error)}")
        ) from None


def _dissolved(onnx: Any, model: Any, path: Path) -> Any:
    """Return the model with the definitions of operators that ONNX defines by others, where the table has none."""
    found = {node.op_type for node in model.graph.node if node.domain in OWN_DOMAINS} & DEFINED_BY_OTHERS
    if not found:
        return model
    inline = extra("onnx.inliner", "from_onnx").inline_selected_functions
    try:
        model = inline(model, [("", name) for name in sorted(found)], exclude=False, inline_schema_functions=True)
    except refusals():  # such as a definition for another version: the operators are told as they are
        return model
    return _inferred(onnx, model, path)


def _inferred(onnx: Any, model: Any, path: Path) -> Any:
    """Return the model with shapes inferred (data propagation included). Of what the file itself says of shapes inside,
    only the results of operators are kept that onnx does not know."""
    foreign = {name for node in model.graph.node if node.domain not in OWN_DOMAINS for name in node.output}
    known = {each.domain for each in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} - {*known, *OWN_DOMAINS}):  # some exporters forget
        model.opset_import.add(domain=domain, version=1)
    kept = [each for each in model.graph.value_info if each.name in foreign and _is_static(each)]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    for place in model.graph.output:
        if place.type.HasField("tensor_type"):
            place.type.tensor_type.ClearField("shape")
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True)
        while _end_windows(onnx, model.graph, found.graph, {}):
            found = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return found
    except refusals() as error:
        raise InputError(Mistake("PM640", f"{shown(path.name)}: onnx infers no shapes: {line_of(error)}")) from None


def _end_windows(onnx: Any, graph: Any, inferred: Any, around: Mapping[str, Any]) -> bool:
    """Let poolings whose last window begins behind the input end before it, as ONNX says since version 22 and runtimes
    do: onnx counts it in models of versions before. Return whether there is one. around: types of the graphs around."""
    places = (*inferred.input, *inferred.value_info, *inferred.output)
    kinds, changed = {**around, **{each.name: each.type for each in places}}, False
    for node, told in zip(graph.node, inferred.node, strict=True):
        for (_, inner), (_, known) in zip(graphs_of(node), graphs_of(told), strict=True):
            changed |= _end_windows(onnx, inner, known, kinds)
        if node.op_type in POOLS and node.domain in OWN_DOMAINS and node.input and node.output:
            ends = (static(kinds.get(name)) for name in (node.input[0], node.output[0]))
            typed = (each for each in node.attribute if each.type)
            pads = ends_of_windows({each.name: onnx.helper.get_attribute_value(each) for each in typed}, *ends)
            if pads is not None:
                kept = [each for each in node.attribute if each.name not in ("ceil_mode", "auto_pad", "pads")]
                del node.attribute[:]
                node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
                changed = True
    return changed


def _is_static(value: Any) -> bool:
    kind = value.type.tensor_type
    return kind.HasField("shape") and all(_is_fixed(dim) for dim in kind.shape.dim)


def _is_fixed(dim: Any) -> bool:
    return dim.HasField("dim_value") and dim.dim_value > 0


class _Sizes:
    """The sizes that the caller gives, and what they bind. Dims of one name have one size; dims without, each its own.

    `batch` binds the first name of _BATCH that the file has; without one the only first dim that nothing else binds.
    """

    def __init__(self, file: str, batch: object, sizes: object, shapes: object) -> None:
        self._file = file
        self._names: dict[str, int] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self.values: dict[str, int] = {}
        """Of inputs that are one integer."""
        self._mistakes: list[Mistake] = []
        self._batch = None if batch is None else checked_size("the batch", batch, self._mistakes)
        for name, value in given_table(sizes, "sizes", '{"length": 128}').items():
            self._names[str(name)] = checked_size(f"the size of {shown(name)}", value, self._mistakes)
        for name, value in given_table(shapes, "shapes", '{"tokens": [1, 128]}').items():
            if not is_list(value):
                hint = 'Expected {"tokens": [1, 128]}.'
                self._mistakes.append(Mistake("PM641", f"the shape of {shown(name)} is {shown(value)}", hint))
                continue
            self._shapes[str(name)] = tuple(
                checked_size(f"the size of {name}[{axis}]", one, self._mistakes) for axis, one in enumerate(value)
            )

    def bind(self, graph: Any) -> None:
        """Write the sizes into the inputs of a graph, and into what it says of the results of its nodes. Raises
        InputError (PM641)."""
        weights = {each.name for each in graph.initializer}
        inputs = {each.name: each.type.tensor_type for each in graph.input if each.type.HasField("tensor_type")}
        self._check_inputs(inputs)
        dims = {
            (name, axis): dim
            for name, kind in inputs.items()
            for axis, dim in enumerate(kind.shape.dim)
            if name not in weights or not _is_fixed(dim)
        }
        known = {dim.dim_param for dim in dims.values() if not _is_fixed(dim) and _is_name(dim.dim_param)}
        self._sort_names(inputs, known)
        self._bind_names(dims)
        self._bind_batch(dims, known)
        missing: dict[str, None] = {}
        for (name, axis), dim in dims.items():
            if not _is_fixed(dim):
                size = self._size_of(name, axis, dim.dim_param)
                if size is not None:
                    dim.dim_value = size
                elif name not in weights:
                    missing[dim.dim_param if _is_name(dim.dim_param) else f"{name}[{axis}]"] = None
        self._refuse(missing)
        for value in graph.value_info:
            for dim in value.type.tensor_type.shape.dim:
                if not _is_fixed(dim) and dim.dim_param in self._names:
                    dim.dim_value = self._names[dim.dim_param]

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Take the shapes of whole inputs apart; an input without a shape in the file gets the one given."""
        for name, shape in self._shapes.items():
            kind = inputs.get(name)
            if kind is None:
                hint = f"Inputs: {', '.join(list(inputs)[:20])}."
                self._mistakes.append(Mistake("PM641", f"there is no input {shown(name)}", hint))
                continue
            if not kind.HasField("shape"):
                for _ in shape:
                    kind.shape.dim.add()
            if len(kind.shape.dim) != len(shape):
                what = f"the shape of {shown(name)} has {len(shape)} sizes, and the input {len(kind.shape.dim)} dims"
                self._mistakes.append(Mistake("PM641", what, "Give one size for each dim."))
                continue
            self._places |= {(name, axis): size for axis, size in enumerate(shape)}

    def _sort_names(self, inputs: Mapping[str, Any], known: set[str]) -> None:
        """Tell names of dims from places: INPUT[AXIS]. A batch is bound where it is not given otherwise."""
        for word in [each for each in self._names if each not in known]:
            size, match = self._names.pop(word), _PLACE.fullmatch(word)
            place = (match[1], int(match[2])) if match else ("", 0)
            kind = inputs.get(place[0])
            if kind is not None and place[1] < len(kind.shape.dim):
                if self._places.setdefault(place, size) != size:
                    self._mistakes.append(
                        Mistake("PM641", f"{shown(word)} is given twice: {size} and {self._places[place]}")
                    )
            elif word in inputs and _is_one_integer(inputs[word]):
                self.values[word] = size
            elif word in _BATCH:
                self._batch = size
            else:
                hint = f"Free dims: {', '.join(sorted(known)[:20]) or 'none with a name'}; others as INPUT[AXIS]."
                self._mistakes.append(Mistake("PM641", f"there is no free dim {shown(word)}", hint))
        name = next((each for each in _BATCH if each in known), None)
        if name is not None and self._batch is not None and name not in self._names:
            self._names[name] = -self._batch  # negative: what is given by place goes first

    def _bind_names(self, dims: Mapping[tuple[str, int], Any]) -> None:
        """Let what is given by place hold for all dims of the same name; note what the file contradicts."""
        for place, size in self._places.items():
            dim, told = dims.get(place), f"{place[0]}[{place[1]}]"
            if dim is not None and _is_fixed(dim) and dim.dim_value != size:
                what = f"{told} is given as {size}, and is {dim.dim_value} in the file"
                self._mistakes.append(Mistake("PM641", what, "Only free dims take a size."))
            elif dim is not None and not _is_fixed(dim) and _is_name(dim.dim_param):
                before = self._names.get(dim.dim_param, -1)
                if before > 0 and before != size:
                    what = f"{told} is given as {size}, and {shown(dim.dim_param)}, which is its name, as {before}"
                    self._mistakes.append(Mistake("PM641", what, "Dims of one name have one size in ONNX."))
                self._names[dim.dim_param] = size
        self._names = {name: abs(size) for name, size in self._names.items()}

    def _bind_batch(self, dims: Mapping[tuple[str, int], Any], known: set[str]) -> None:
        """Let the only first dim without a name or a size be the batch, where no dim has its name."""
        listed = {name for name, at in dims if (name, at + 1) not in dims and not at}  # of one axis, such as axes: []
        empty = {
            at for at, dim in dims.items() if dim.HasField("dim_value") and not dim.dim_value and at[0] not in listed
        }
        first = [place for place, dim in dims.items() if place[1] == 0 and place not in empty and not _is_fixed(dim)]
        left = [place for place in first if not _is_name(dims[place].dim_param) and place not in self._places]
        if len(left) == 1 and self._batch is not None and not known & set(_BATCH):
            self._places[left[0]] = self._batch

    def _size_of(self, name: str, axis: int, dim: str) -> int | None:
        """Return the size of a free dim; None where nothing tells it."""
        if _is_name(dim):
            size = self._names.get(dim)
        else:
            size = self._places.get((name, axis))
        return size if size is not None and 0 < size < TUNING.most_size else None

    def _refuse(self, missing: Mapping[str, None]) -> None:
        """Raise all mistakes at once."""
        if missing:
            what = f"{shown(self._file)} has dims without sizes: {', '.join(list(missing)[:20])}"
            hint = "Give them as from_onnx(path, sizes={...}) or shapes={...}, or NAME=INT after the file."
            self._mistakes.append(Mistake("PM641", what, hint))
        if self._mistakes:
            raise InputError(self._mistakes)


def _is_one_integer(kind: Any) -> bool:
    """Whether a value is an integer, or a truth, by itself: whatever else decides what runs has more elements."""
    return kind.elem_type in (6, 7, 9) and all(_is_fixed(dim) and dim.dim_value == 1 for dim in kind.shape.dim)


def _is_name(text: object) -> bool:
    """Whether the name of a dim is one: `?`, `unk__12` and numbers stand where exporters know none."""
    return isinstance(text, str) and _NO_NAME.fullmatch(text) is None


class _Graph:
    """The nodes of a model with the shapes, types and small constants of their values."""

    def __init__(self, onnx: Any, model: Any, bits: int | None) -> None:
        self._onnx, self._bits, self._graph = onnx, bits, model.graph
        versions = (each.version for each in model.opset_import if each.domain in OWN_DOMAINS)
        self._opset = Opset(onnx, max(versions, default=1), model.ir_version)

    def network(self, name: str, values: Mapping[str, int]) -> Network:
        nodes, scope = Nodes(), Scope(self._opset)
        scope.note(self._graph)
        for given, value in values.items():
            scope.give(given, value)
        nodes.returns(each.name for each in self._graph.output)
        self._tell(nodes, self._graph, set(), OUTER, scope)
        return nodes.network(name[:200] or "model")

    def _tell(self, nodes: Nodes, graph: Any, used: set[str], inner: Inner, scope: Scope) -> None:
        """Tell all nodes of a graph, and of the graphs inside its nodes."""
        for place, node in enumerate(graph.node):
            label = node.name or (node.output[0] if node.output else "") or f"{node.op_type}_{place}"
            label = "".join(letter if letter.isprintable() else "?" for letter in inner.prefix + label)[:150]
            label = label if label not in used else f"{label}#{place}"
            used.add(label)
            scope.learn(node)
            graphs = dict(graphs_of(node))
            branch = taken_branch(node, scope)
            if branch is not None:
                nodes.tell(label, node.op_type, lambda: None, list(node.input), [], inner)
                self._take(nodes, node, branch, used, Inner(f"{label}.", inner.operator, inner.times), scope)
                continue
            runs = runs_of(node, scope, self._opset.version) if graphs and inner.times is not None else None
            times = None if runs is None or inner.times is None else inner.times * runs
            around = Inner(f"{label}.", node.op_type if inner.times is not None else inner.operator, times)
            is_view = bool(graphs) and around.times is not None  # what it computes is told of the nodes inside
            read = (lambda: None) if is_view else partial(self._call, node, scope)
            nodes.tell(label, node.op_type, read, list(node.input), list(node.output), inner)
            for each in graphs.values():
                nodes.returns(one.name for one in each.output)
                self._tell(nodes, each, used, around, entered(node, each, scope))

    def _take(self, nodes: Nodes, node: Any, branch: Any, used: set[str], inner: Inner, scope: Scope) -> None:
        """Tell the nodes of the branch that runs, whatever the values are; its results are those of the If."""
        inside = entered(node, branch, scope)
        self._tell(nodes, branch, used, inner, inside)
        for name, made in zip(node.output, branch.output, strict=False):
            nodes.renames(made.name, name)
        adopt(node, branch, inside, scope)

    def _call(self, node: Any, scope: Scope) -> Call | None:
        """Return what a node computes, None for a view; raises NotMapped."""
        given = self._attributes(node)
        is_own = node.domain in OWN_DOMAINS
        if is_own and (node.op_type in VIEWS or scope.is_before_the_run(node)):
            return None
        if not node.output:
            raise NotMapped("it has no operands or no result")
        asked = NodeCall(
            operator=node.op_type,
            domain="" if is_own else node.domain,
            given=given,
            inputs=tuple(self._value(name, scope) if name else None for name in node.input),
            output=self._value(node.output[0], scope),
            opset=self._opset.version,
            scope=scope,
            bits=self._bits,
        )
        return asked.call()

    def _value(self, name: str, scope: Scope) -> Value:
        kind, bits = _element_type(self._onnx, scope.element(name))
        return Value(name, scope.shape(name), kind, bits, scope.cause(name))

    def _attributes(self, node: Any) -> dict[str, Any]:
        try:
            return {each.name: self._onnx.helper.get_attribute_value(each) for each in node.attribute}
        except ValueError as error:  # an attribute of no type
            raise NotMapped(f"its attributes cannot be read: {line_of(error)}") from None


def _element_type(onnx: Any, kind: int) -> tuple[str | None, int]:
    """Return the element type's name where workloads know it, and its bits."""
    try:
        name = str(onnx.TensorProto.DataType.Name(kind)).lower()
    except ValueError:
        return None, 8
    known = {"float": "float32", "double": "float64"}.get(name, name)
    digits = re.search(r"(?<=int|oat)\d+", known)
    bits = int(digits[0]) if digits else 8  # bool; text is no number
    widths = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    return (known if known in (*widths, "float16", "bfloat16", "float32", "float64") else None), bits


def taken_branch(node: Any, scope: Scope) -> Any:
    """Return the graph of an If that runs where its condition is known before the run; None otherwise."""
    if node.op_type != "If" or len(node.input) != 1:
        return None
    condition = scope.value(node.input[0])
    if condition is None or condition.size != 1:
        return None
    return dict(graphs_of(node)).get("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")


def adopt(node: Any, branch: Any, inside: Scope, scope: Scope) -> None:
    """Note the results of the branch that runs as those of its If. inside: what is known in the branch."""
    for name, made in zip(node.output, branch.output, strict=False):
        scope.bind(name, inside.kind(made.name), inside.value(made.name))


def _learn_all(graph: Any, scope: Scope) -> None:
    """Note what follows from the inputs of a graph, known branches included."""
    for node in graph.node:
        scope.learn(node)
        branch = taken_branch(node, scope)
        if branch is not None:
            inside = entered(node, branch, scope)
            _learn_all(branch, inside)
            adopt(node, branch, inside, scope)


def runs_of(node: Any, scope: Scope, opset: int) -> int | None:
    """Return how often the graph inside a node runs; None where that depends on values.

    A Scan: once for each slice of its last inputs. A Loop: as often as its first input says, where that is known and
    its condition stays true.
    """
    given = {each.name: each for each in node.attribute}
    if node.op_type == "Loop":
        return _trips(node, scope)
    if node.op_type != "Scan" or opset < 9 or "num_scan_inputs" not in given:
        return None
    count = int(given["num_scan_inputs"].i)
    axes: Sequence[int] = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * count
    shape = scope.shape(node.input[-count]) if 0 < count <= len(node.input) and axes else None
    if shape is None or not -len(shape) <= axes[0] < len(shape):
        return None
    return int(shape[axes[0]])


def _trips(node: Any, scope: Scope) -> int | None:
    """Return how often the body of a Loop runs; None where values decide."""
    body = dict(graphs_of(node)).get("body")
    trips = scope.integers(node.input[0]) if len(node.input) > 0 and node.input[0] else None
    if body is None or trips is None or len(trips) != 1 or not body.output or len(body.input) < 2:
        return None
    if len(node.input) > 1 and node.input[1] and scope.integers(node.input[1]) != (1,):
        return None
    is_kept = _source(body, body.output[0].name) == body.input[1].name
    if not is_kept:
        inside = scope.inside()
        inside.note(body)
        _learn_all(body, inside)
        if inside.integers(body.output[0].name) != (1,):
            return None
    return trips[0] if 0 < trips[0] < 2**31 else None


def _source(graph: Any, name: str) -> str:
    """Return the value that a value of a graph repeats, itself where it repeats none."""
    for node in reversed(graph.node):
        if node.op_type == "Identity" and not node.domain and list(node.output) == [name]:
            name = node.input[0]
    return name


def entered(node: Any, graph: Any, scope: Scope) -> Scope:
    """Return what is known inside a graph of a node.

    What a Loop carries from one run to the next has the shapes that it starts with, where the body keeps them.
    """
    inside = scope.inside()
    inside.note(graph)
    if node.op_type != "Loop" or len(graph.input) != len(node.input):
        return inside
    carried = list(zip(graph.input[2:], node.input[2:], graph.output[1:], strict=False))
    trial = scope.inside()
    trial.note(graph)
    for into, start, _ in carried:
        if start and scope.shape(start) is not None:
            trial.bind(into.name, scope.kind(start))
    _learn_all(graph, trial)
    if all(trial.shape(into.name) == trial.shape(back.name) for into, _, back in carried):
        for into, _, _ in carried:
            if trial.kind(into.name) is not None:
                inside.bind(into.name, trial.kind(into.name))
    return inside
