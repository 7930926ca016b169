"""Random ONNX models with random mistakes, and how many multiply-accumulates each node has by its definition.

The referee runs the model with onnx's own evaluator, and counts over the shapes that came out: windows one by one,
never with a formula for a size. Run `python -m tests.extras.onnx_mutants 1000` for a tally.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import polymap as pm

FLOAT, UINT8, INT8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8
NAMES = ("batch", "N", "length", "?", "unk__7", "", "width")
PRODUCTS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "MatMul", "MatMulInteger", "QLinearMatMul", "Gemm",
            "Einsum", "Attention")  # fmt: skip
BESIDE = ("Relu", "Add", "Softmax", "ReduceSum", "MaxPool", "AveragePool", "Transpose", "LSTM", "Softplus", "Cast")


class Model:
    """A model under way: its inputs with their true shapes, weights and nodes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.opset = rng, rng.choice((11, 13, 17, 23))
        self.inputs: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.weights: list[TensorProto] = []
        self.nodes: list[NodeProto] = []

    def value(self, shape: tuple[int, ...], kind: int = FLOAT) -> str:
        """Return a new input or, half of the time, a new weight."""
        name = f"{'xyzq'[len(self.inputs) % 4]}{len(self.inputs) + len(self.weights)}"
        if self.inputs and self.rng.random() < 0.5:
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            data = np.random.default_rng(len(self.weights)).integers(0, 3, shape).astype(dtype)
            self.weights.append(numpy_helper.from_array(data, name))
        else:
            self.inputs[name] = kind, shape
        return name

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}{'_' * n}" for n in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=f"n{len(self.nodes)}", **given))
        return names[0]

    def proto(self) -> ModelProto:
        ins = [helper.make_tensor_value_info(name, *told) for name, told in self.inputs.items()]
        outs = [helper.make_tensor_value_info(node.output[0], FLOAT, None) for node in self.nodes]
        for out in outs:
            out.ClearField("type")
        graph = helper.make_graph(self.nodes, "g", ins, outs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])


def several(rng: random.Random, count: int, low: int, high: int) -> list[int] | None:
    return None if rng.random() < 0.3 else [rng.randint(low, high) for _ in range(count)]


def convolution(model: Model, operator: str) -> None:
    rng = model.rng
    rank, groups = rng.choice((1, 2, 2, 2, 3, 4)), rng.choice((1, 1, 2))
    kernel = [rng.randint(1, 3) for _ in range(rank)]
    per_in, per_out = rng.randint(1, 2), rng.randint(1, 2)
    size = [rng.randint(5, 8) if rank < 3 else rng.randint(4, 5) for _ in range(rank)]
    is_integer = operator in ("ConvInteger", "QLinearConv")
    x = model.value((rng.randint(1, 2), per_in * groups, *size), UINT8 if is_integer else FLOAT)
    first = (per_in * groups, per_out) if operator == "ConvTranspose" else (per_out * groups, per_in)
    w = model.value((*first, *kernel), UINT8 if is_integer else FLOAT)
    options: dict[str, object] = {"strides": several(rng, rank, 1, 3), "dilations": several(rng, rank, 1, 2)}
    options |= {"group": groups, "kernel_shape": kernel if rng.random() < 0.5 else None}
    options["auto_pad"] = rng.choice((None, None, "SAME_UPPER", "SAME_LOWER", "VALID"))
    if options["auto_pad"] is None:
        options["pads"] = several(rng, 2 * rank, 0, 1)
    if operator == "ConvTranspose" and rng.random() < 0.3 and options["strides"]:
        options["output_padding"] = [rng.randint(0, step - 1) for step in options["strides"]]  # type: ignore[union-attr]
    model.node(operator, *_scaled(model, operator, x, w), **options)


def _scaled(model: Model, operator: str, x: str, w: str) -> tuple[str, ...]:
    """Return the inputs of an operator on two operands; quantised ones have scales and zero points between them."""
    if not operator.startswith("QLinear"):
        return x, w
    scale, zero = f"s{len(model.weights)}", f"o{len(model.weights)}"
    model.weights += [numpy_helper.from_array(np.float32(0.5), scale), numpy_helper.from_array(np.uint8(1), zero)]
    return x, scale, zero, w, scale, zero, scale, zero


def product(model: Model, operator: str) -> None:
    rng = model.rng
    m, n, k = (rng.randint(1, 5) for _ in range(3))
    kind = FLOAT if operator in ("MatMul", "Gemm") else UINT8
    if operator == "Gemm":
        turns = [rng.choice((0, 1, None)) for _ in range(2)]
        shapes = [shape[::-1] if turn else shape for shape, turn in zip(((m, k), (k, n)), turns, strict=True)]
        x, w = (model.value(shape, kind) for shape in shapes)
        bias = (model.value((n,)),) if rng.random() < 0.5 else ()
        model.node("Gemm", x, w, *bias, transA=turns[0], transB=turns[1], alpha=rng.choice((None, 0.5)))
        return
    lead = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    other = [size if rng.random() < 0.6 else 1 for size in lead][rng.randint(0, len(lead)) :]
    first, second = (*lead, m, k), (*other, k, n)
    if operator == "MatMul" and rng.random() < 0.3:
        first, second = rng.choice((((k,), second), (first, (k,)), ((k,), (k,))))
    x, w = model.value(first, kind), model.value(second, kind)
    model.node(operator, *_scaled(model, operator, x, w))


def einsum(model: Model, _: str) -> None:
    equation = model.rng.choice(("ij,jk->ik", "bij,bkj->bik", "ij,jk", "i,j->ij", "bhmk,bhnk->bhmn", "ij,ij->",
                                 "ii,ij->j", "ij,jk,kl->il", "...ij,...jk->...ik", "ij->ji", "i,k->ik"))  # fmt: skip
    sizes = {letter: model.rng.randint(1, 4) for letter in "bhijklmn"}
    terms = equation.replace("...", "b").split("->")[0].split(",")
    model.node("Einsum", *(model.value(tuple(sizes[letter] for letter in term)) for term in terms), equation=equation)


def attention(model: Model, _: str) -> None:
    rng = model.rng
    model.opset = 23
    batch, kv, share, m, n, past = (rng.randint(1, 3) for _ in range(6))
    width, context = rng.choice((2, 4)), rng.choice((2, 4))
    heads = kv * share
    extra: tuple[str, ...] = ()
    is_flat = rng.random() < 0.5

    def shape(count: int, length: int, wide: int) -> tuple[int, ...]:
        return (batch, length, count * wide) if is_flat else (batch, count, length, wide)

    q, k, v = (model.value(shape(*each)) for each in ((heads, m, width), (kv, n, width), (kv, n, context)))
    if rng.random() < 0.5:
        extra = ("", model.value((batch, kv, past, width)), model.value((batch, kv, past, context)))
    outputs = 3 if extra else 1
    counts = {"q_num_heads": heads, "kv_num_heads": kv} if is_flat else {}
    model.node("Attention", q, k, v, *extra, outputs=outputs, is_causal=rng.choice((0, 1)), **counts)


def beside(model: Model, operator: str) -> None:
    """Add an operator without products, on what the last node made, or on a new value."""
    rng = model.rng
    x = model.nodes[-1].output[0] if model.nodes and rng.random() < 0.7 else model.value((2, 3, 6, 6))
    match operator:
        case "Add":
            model.node("Add", x, x)
        case "Softmax":
            model.node("Softmax", x, axis=rng.choice((None, -1, 0, 1, -2)))
        case "ReduceSum":
            model.node("ReduceSum", x, keepdims=rng.choice((0, 1)))
        case "MaxPool" | "AveragePool":
            y = model.value((1, 2, rng.randint(4, 7), rng.randint(4, 7)))
            ceil = rng.choice((None, 0, 1))
            model.node(operator, y, kernel_shape=[2, 3], strides=several(rng, 2, 1, 3), ceil_mode=ceil)
        case "LSTM":
            t, b, i, h = (rng.randint(1, 3) for _ in range(4))
            weights = (model.value((1, 4 * h, i)), model.value((1, 4 * h, h)))
            model.node("LSTM", model.value((t, b, i)), *weights, hidden_size=h)
        case "Cast":
            model.node("Cast", x, to=FLOAT)
        case _:
            model.node(operator, x)


MAKERS = {
    **dict.fromkeys(PRODUCTS[:4], convolution),
    **dict.fromkeys(PRODUCTS[4:8], product),
    "Einsum": einsum,
    "Attention": attention,
    **dict.fromkeys(BESIDE, beside),
}


def random_model(rng: random.Random) -> tuple[ModelProto, dict[str, tuple[int, ...]]]:
    """Return a model of one to three nodes, and the true shapes of its inputs."""
    model = Model(rng)
    for _ in range(rng.randint(1, 3)):
        operator = rng.choice(PRODUCTS) if rng.random() < 0.7 else rng.choice(BESIDE)
        MAKERS[operator](model, operator)
    return model.proto(), {name: shape for name, (_, shape) in model.inputs.items()}


def mutated(model: ModelProto, rng: random.Random) -> ModelProto:
    """Return a copy with free dims, and with up to two mistakes: attributes, inputs, shapes, operators."""
    made = ModelProto()
    made.CopyFrom(model)
    for place in made.graph.input:
        for dim in place.type.tensor_type.shape.dim:
            if rng.random() < 0.3:
                dim.ClearField("dim_value")
                dim.dim_param = rng.choice(NAMES)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        _mistake(made, rng.choice(made.graph.node), rng)
    return made


def _mistake(model: ModelProto, node: NodeProto, rng: random.Random) -> None:
    attribute = rng.choice(node.attribute) if node.attribute else None
    match rng.randrange(9):
        case 0 if attribute is not None:
            node.attribute.remove(attribute)
        case 1 if attribute is not None and attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice((-1, 0, 1, 2, 3, 7, 2**40))
        case 2 if attribute is not None and attribute.ints:
            del attribute.ints[-1]
        case 3 if attribute is not None and attribute.ints:
            attribute.ints.append(rng.choice((0, 1, 2)))
        case 4 if attribute is not None and attribute.type == onnx.AttributeProto.INT:
            attribute.i = rng.choice((-1, 0, 1, 2, 3, 100))
        case 5 if node.input:
            del node.input[rng.randrange(len(node.input))]
        case 6 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(
                ("", "nothing", *(e.name for e in model.graph.input))
            )
        case 7:
            node.op_type = rng.choice((*PRODUCTS, *BESIDE, "Sorted"))
        case _:
            node.input[:] = rng.sample(list(node.input), len(node.input))


def asked_sizes(model: ModelProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, object]:
    return {"shapes": {place.name: shapes[place.name] for place in model.graph.input}}


def bound(model: ModelProto, shapes: dict[str, tuple[int, ...]]) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    for place in made.graph.input:
        for dim, size in zip(place.type.tensor_type.shape.dim, shapes[place.name], strict=True):
            dim.dim_value = size
    return made


def contradicts(model: ModelProto, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether dims of one name have several sizes."""
    sizes: dict[str, set[int]] = {}
    for place in model.graph.input:
        for dim, size in zip(place.type.tensor_type.shape.dim, shapes[place.name], strict=True):
            if dim.dim_param not in ("", "?", "unk__7"):
                sizes.setdefault(dim.dim_param, set()).add(size)
    return any(len(own) > 1 for own in sizes.values())


def run_shapes(model: ModelProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of all values when the model runs; None where onnx's evaluator does not run it."""
    try:
        for node in model.graph.node:
            onnx.checker.check_node(node, _context(model))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            feeds = {}
            for place in model.graph.input:
                dtype = helper.tensor_dtype_to_np_dtype(place.type.tensor_type.elem_type)
                feeds[place.name] = np.ones(shapes[place.name], dtype)
            evaluator = ReferenceEvaluator(bound(model, shapes))
            made = evaluator.run(None, feeds)
    except Exception:  # noqa: BLE001  # whatever the evaluator raises
        return None
    found = {out.name: np.shape(value) for out, value in zip(model.graph.output, made, strict=True)}
    found |= {each.name: tuple(each.dims) for each in model.graph.initializer}
    return found | shapes


def _context(model: ModelProto) -> onnx.checker.C.CheckerContext:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {each.domain: each.version for each in model.opset_import}
    return context


def windows(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Return how many windows of a kernel fit into a padded axis, one by one."""
    count, start = 0, -before
    while start + dilation * (kernel - 1) < size + after:
        count, start = count + 1, start + stride
    return count


def _padded(given: dict, x: tuple, kernel: tuple, strides: list, dilations: list, axis: int) -> int:
    """Return the windows along an axis, padded as auto_pad says (ONNX, Conv)."""
    rank, auto = len(kernel), given.get("auto_pad", b"NOTSET")
    size, reach = x[2 + axis], dilations[axis] * (kernel[axis] - 1) + 1
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        return len(range(0, size, strides[axis]))
    pads = [0] * 2 * rank if auto == b"VALID" else given.get("pads", [0] * 2 * rank)
    assert reach > 0
    return windows(size, kernel[axis], strides[axis], dilations[axis], pads[axis], pads[rank + axis])


def macs_by_definition(node: NodeProto, shapes: dict[str, tuple[int, ...]]) -> int | None:
    """Return the multiply-accumulates of a node by what the operator computes; None for those without."""
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    second = 3 if node.op_type.startswith("QLinear") else 1
    if node.op_type == "LSTM":  # a step at a time
        x, w, r = (shapes[name] for name in node.input[:3])
        gates = [np.ones(x[1:], int) @ np.ones(w[1:], int).T, np.ones((x[1], r[2]), int) @ np.ones(r[1:], int).T]
        return sum(int(each.sum()) for _ in range(x[0] * w[0]) for each in gates)
    if node.op_type not in PRODUCTS:
        return None
    x, w = shapes[node.input[0]], shapes[node.input[second]] if len(node.input) > second else ()
    match node.op_type:
        case "Conv" | "ConvInteger" | "QLinearConv":
            kernel, rank = w[2:], len(w) - 2
            strides, dilations = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
            places = math.prod(_padded(given, x, kernel, strides, dilations, axis) for axis in range(rank))
            return sum(places for _ in itertools.product(range(x[0]), *map(range, w)))
        case "ConvTranspose":
            per_group = w[1]
            return sum(per_group for _ in itertools.product(*map(range, x), *map(range, w[2:])))
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return int(np.matmul(np.ones(x, int), np.ones(w, int)).sum())
        case "Gemm":
            a, b = np.ones(x, int), np.ones(w, int)
            return int(((a.T if given.get("transA") else a) @ (b.T if given.get("transB") else b)).sum())
        case "Einsum":
            return _einsum_macs(given["equation"].decode(), [shapes[name] for name in node.input])
        case _:
            return _attention_macs(node, given, shapes)


def _einsum_macs(equation: str, shapes: list[tuple[int, ...]]) -> int | None:
    """Return the products of an equation, two operands at a time from the left; what only one of them has, and nothing
    behind, is summed first (torch.einsum, onnxruntime)."""
    left, arrow, result = equation.replace(" ", "").replace("...", "Z").partition("->")
    terms = left.split(",")
    if not arrow:
        result = "".join(letter for letter in sorted(set(left) - {","}) if left.count(letter) == 1)
    if any(len(set(term)) < len(term) for term in terms) or len(terms) < 2:
        return None
    sizes = {
        letter: size
        for term, shape in zip(terms, shapes, strict=True)
        for letter, size in zip(term, shape, strict=True)
    }
    total, made = 0, set(terms[0])
    for place, term in enumerate(terms[1:], 1):
        behind = set(result).union(*terms[place + 1 :])
        total += math.prod(sizes[letter] for letter in made & (set(term) | behind) | set(term) & (made | behind))
        made = (made | set(term)) & behind
    return total


def _attention_macs(node: NodeProto, given: dict, shapes: dict[str, tuple[int, ...]]) -> int:
    q, k, v = (shapes[name] for name in node.input[:3])
    past = shapes[node.input[4]][2] if len(node.input) > 4 and node.input[4] else 0
    if len(q) == 3:
        heads, own = given["q_num_heads"], given["kv_num_heads"]
        q, k, v = ((s[0], n, s[1], s[2] // n) for s, n in ((q, heads), (k, own), (v, own)))
    scores = np.einsum("bhmk,bhnk->bhmn", np.ones(q, int), np.ones((*q[:2], past + k[2], q[3]), int))
    context = np.einsum("bhmn,bhnd->bhmd", np.ones(scores.shape, int), np.ones((*q[:2], past + v[2], v[3]), int))
    return int(scores.sum() + context.sum())


def verdict(seed: int, folder: Path) -> tuple[str, str]:
    """Return what becomes of a mutated model, and what is wrong with that, "" if nothing is."""
    rng = random.Random(seed)
    model, shapes = random_model(rng)
    model = mutated(model, rng)
    path = folder / "mutant.onnx"
    path.write_bytes(model.SerializeToString())
    true = run_shapes(model, shapes)
    try:
        net = pm.from_onnx(path, **asked_sizes(model, shapes))  # type: ignore[arg-type]
    except pm.errors.InputError as error:
        runs = true is not None and not contradicts(model, shapes)
        return "refused", f"refused, and runs: {error}" if runs else ""
    told = [view.node for view in net.views] + [left.node for left in net.unmapped] + [node for node, _ in net.mapped]
    if sorted(told) != sorted(node.name for node in model.graph.node):
        return "read", "a node is not told once"
    if not all(left.reason for left in net.unmapped):
        return "read", "a node without a reason"
    mapped = {node: sum(net.layers[number].macs for number in own) for node, own in net.mapped}
    known = dict(net.left_out_macs)
    if true is None:
        products = [node.name for node in model.graph.node if node.op_type in PRODUCTS and node.name in mapped]
        return "read, does not run" if products else "unmapped, does not run", ""
    views = {view.node for view in net.views}
    for node in model.graph.node:
        found = mapped.get(node.name, known.get(node.name))
        try:
            expected = macs_by_definition(node, true)
        except (IndexError, ValueError):  # onnx's evaluator reads beyond what a malformed attribute says
            expected = -1
        if node.name not in views and expected is not None and found is not None and found != expected:
            return "read", f"{node.op_type}: {found} MACs, by definition {expected}"
    return ("unmapped" if net.unmapped else "read"), ""


def tally(seeds: range) -> tuple[Counter[str], list[str]]:
    """Return how many models became what, and what is wrong."""
    counts, wrong = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            became, reason = verdict(seed, Path(folder))
            counts[became] += 1
            wrong += [f"{seed}: {reason}"] if reason else []
    return counts, wrong


if __name__ == "__main__":
    counted, mistakes = tally(range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
    print(dict(counted), *mistakes, sep="\n")
    sys.exit(bool(mistakes))
