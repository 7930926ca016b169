"""PyTorch models as networks: multiply-accumulates against torch's own counter, every node told."""

from __future__ import annotations

import time
from importlib import import_module

import pytest
import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import polymap as pm
from polymap.networks.groups import plan_of
from tests.extras.torch_zoo import cases

CASES = cases()
UNMAPPED: dict[str, list] = {"resnet50": [], "mobilenet_v2": [], "block": [], "unet": []}


def macs_of_torch(name: str) -> int:
    model, inputs = CASES[name]
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


@pytest.mark.parametrize("name", CASES)
def test_macs_equal_half_of_the_flops_that_torch_counts(name: str) -> None:
    model, inputs = CASES[name]
    start = time.process_time()
    net = pm.from_torch(model, inputs)
    assert time.process_time() - start < 10
    assert net.macs == macs_of_torch(name)
    assert net.unmapped == UNMAPPED[name]


@pytest.mark.parametrize("name", CASES)
def test_every_node_is_mapped_or_a_view_or_left_out(name: str) -> None:
    model, inputs = CASES[name]
    net = pm.from_torch(model, inputs)
    calls = [node for node in torch.export.export(model, inputs).graph.nodes if node.op == "call_function"]
    told = {view.node for view in net.views} | {left.node for left in net.unmapped}
    ends = {node for edge in net.edges for node in edge}
    assert told <= {node.name for node in calls}
    assert ends <= {node.name for node in calls}
    assert len(net.layers) > 0


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_products_are_those_of_the_builtin_network(name: str) -> None:
    net = pm.from_torch(*CASES[name], bits=8).products()

    def shapes(network: pm.Network) -> dict:
        found: dict = {}
        for layer in network.layers:
            key = (layer.workload.statements, layer.workload.dims)
            found[key] = found.get(key, 0) + layer.multiplicity
        return found

    assert shapes(net) == shapes(pm.network(name))


def test_types_of_the_model_are_the_bits_of_its_tensors() -> None:
    model = torch.nn.Linear(4, 5).to(torch.bfloat16)
    net = pm.from_torch(model, (torch.empty(2, 4, dtype=torch.bfloat16),))
    assert {(t.bits, t.element_type) for t in net.layers[0].workload.tensors} == {(16, "bfloat16")}


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(pm.errors.InputError, match="PM642 from_torch was given 'int'"):
        pm.from_torch(3, ())

    class Broken(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(pm.errors.InputError, match="PM642 torch.export refuses"):
        pm.from_torch(Broken(), (torch.ones(2),))


def test_operators_without_a_loop_nest_are_named() -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.sort(torch.relu(x)).values

    net = pm.from_torch(Sorted(), (torch.ones(4),))
    assert [(node.operator, node.reason) for node in net.unmapped] == [
        ("sort", "which elements are read depends on values")
    ]


class Two(torch.nn.Module):
    """A convolution and a linear layer, in blocks of different kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(8, 4)

    def first(self, x):
        return self.a(x).relu().mean((2, 3))


class NoGrad(Two):
    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
        return self.b(x)


class Autocast(Two):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.b(self.first(x))


class Nested(Two):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                x = self.first(x)
            return self.b(x), x


class EnableGrad(Two):
    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
            with torch.enable_grad():
                return self.b(x) + self.b(x * 2)


class Checkpoint(Two):
    def forward(self, x):
        return self.b(checkpoint(self.first, x, use_reentrant=False))


class Vmap(Two):
    def forward(self, x):
        return torch.vmap(self.b)(self.first(x).expand(6, 8))


class Functions(Two):
    def forward(self, x):
        y = self.first(x).reshape(2, 4)
        products = torch.tensordot(y, y, ([1], [1])), torch.inner(y, y), torch.linalg.multi_dot([y, y.T, y])
        return *products, torch.nn.functional.scaled_dot_product_attention(y[None], y[None], y[None])


@pytest.mark.parametrize("kind", [NoGrad, Autocast, Nested, EnableGrad, Checkpoint, Vmap, Functions])
def test_blocks_are_entered_and_count_what_torch_counts(kind: type) -> None:
    model, inputs = kind().eval(), (torch.zeros(1, 3, 16, 16),)
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    net = pm.from_torch(model, inputs)
    assert net.unmapped == []
    assert net.macs == counter.get_total_flops() // 2
    assert net.macs > 42336


def test_edges_go_through_blocks_and_know_their_operands() -> None:
    net = pm.from_torch(NoGrad().eval(), (torch.zeros(1, 3, 16, 16),))
    assert [(feed.producer, feed.consumer, feed.tensor) for feed in net.feeds] == [
        ("conv2d", "relu", "A"),
        ("relu", "mean", "I"),
        ("mean", "linear", "A"),
    ]


def test_weights_that_a_linear_layer_reads_transposed_are_no_boundary() -> None:
    class Made(torch.nn.Module):
        def forward(self, x, w):
            return torch.nn.functional.linear(x.relu(), w.relu()), torch.matmul(w.relu(), x.relu())

    feeds = pm.from_torch(Made(), (torch.zeros(4, 4), torch.zeros(4, 4))).feeds
    assert [(feed.consumer, feed.tensor, feed.reason) for feed in feeds] == [
        ("linear", "A", ""),
        ("linear", "", "linear reads what relu_1 writes transposed"),
        ("matmul", "A", ""),
        ("matmul", "B", ""),
    ]


class Transposed(torch.nn.Module):
    def __init__(self, rank: int, options: dict) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, f"ConvTranspose{rank}d")(4, 6, **options)

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "stride": 2},
        {"kernel_size": 4},
        {"kernel_size": 4, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel_size": 3, "dilation": 2, "padding": 2},
        {"kernel_size": 3, "stride": 3, "dilation": 2, "output_padding": 2, "groups": 2},
        {"kernel_size": 1, "stride": 3, "groups": 2},
    ],
)
def test_transposed_convolutions_count_as_torch_does(rank: int, options: dict) -> None:
    model, inputs = Transposed(rank, options).eval(), (torch.zeros(2, 4, *(3, 5, 2)[:rank]),)
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    net = pm.from_torch(model, inputs)
    assert (net.macs, net.unmapped) == (counter.get_total_flops() // 2, [])


def test_loops_with_known_ends_count_each_run_and_others_are_told_node_by_node() -> None:
    class Loops(torch.nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.layer, self.kind = torch.nn.Linear(8, 8), kind

        def forward(self, x):
            if self.kind == "map":
                return torch_map(lambda y: self.layer(y), x)
            if self.kind == "scan":
                return scan(lambda c, y: (self.layer(c) + y, c.clone()), x[0].clone(), x)
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, self.layer(y)), (torch.tensor(0), x[0]))

    for kind in ("map", "scan"):
        torch._dynamo.reset()  # else it takes what it has seen before for dynamic shapes
        net = pm.from_torch(Loops(kind), (torch.zeros(5, 2, 8),))
        assert (net.macs, net.unmapped) == (5 * 2 * 64, [])
    torch._dynamo.reset()
    net = pm.from_torch(Loops("while"), (torch.zeros(5, 2, 8),))
    told = {node: reason for node, _, reason in net.unmapped}
    assert net.macs == 0
    assert told["while_loop"] == "how often it runs depends on values"
    assert told["while_loop.while_loop_body_graph_0.linear"].endswith(
        "whether and how often it runs depends on values; 128 MACs each time"
    )
    assert (net.unmapped_macs, pm.explore_network(net, "flat3").status) == (None, "UNMAPPED")


def test_both_branches_are_told_node_by_node() -> None:
    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: self.one(y), lambda y: self.two(y.sin()), (x,))

    net = pm.from_torch(Branches(), (torch.zeros(2, 8),))
    nodes = [left.node for left in net.unmapped]
    assert len(set(nodes)) == len(nodes)
    assert [left.operator for left in net.unmapped] == ["cond", "linear", "sin", "linear"]
    assert (net.macs, net.unmapped_macs) == (0, None)


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("is_both", [False, True])
def test_recurrences_are_products_of_the_inputs_and_of_each_step(kind: str, gates: int, is_both: bool) -> None:
    model = getattr(torch.nn, kind)(4, 8, 2, batch_first=True, bidirectional=is_both)
    net, turns = pm.from_torch(model, (torch.zeros(2, 5, 4),)), 1 + is_both
    assert (net.macs, net.unmapped) == (2 * 5 * turns * gates * 8 * ((4 + 8) + (8 * turns + 8)), [])
    assert {layer.multiplicity for layer in net.layers if layer.name.endswith(".states")} == {2 * turns * 5}
    unbatched = getattr(torch.nn, kind)(4, 8)
    assert pm.from_torch(unbatched, (torch.zeros(5, 4),)).macs == 5 * gates * 8 * (4 + 8)


def test_a_recurrence_with_projected_states_is_told() -> None:
    net = pm.from_torch(torch.nn.LSTM(4, 8, proj_size=3), (torch.zeros(5, 2, 4),))
    assert [(left.operator, left.reason) for left in net.unmapped] == [("lstm", "its states are projected")]
    assert net.unmapped_macs == 5 * 2 * (32 * (4 + 3) + 3 * 8)


def z(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


attend = torch.nn.functional.scaled_dot_product_attention
FORMS: dict = {
    "attention of 2 axes": (lambda q: attend(q, q, q), (z(5, 8),), 5 * 5 * 16),
    "attention of 3 axes": (lambda q: attend(q, q, q), (z(2, 5, 8),), 2 * 5 * 5 * 16),
    "attention of 5 axes": (lambda q: attend(q, q, q), (z(2, 3, 4, 5, 8),), 24 * 5 * 5 * 16),
    "shared batch": (lambda q, k: attend(q, k, k), (z(2, 8, 4, 5), z(1, 8, 7, 5)), 16 * 4 * 7 * 10),
    "grouped queries": (lambda q, k: attend(q, k, k, enable_gqa=True), (z(2, 8, 4, 5), z(2, 2, 7, 5)), 16 * 4 * 7 * 10),
    "three operands": (
        *(lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), (z(2, 5), z(5, 3), z(3, 4))),
        2 * 5 * 3 + 2 * 3 * 4,
    ),
    "ellipsis": (lambda a, b: torch.einsum("...ij,jk->...ik", a, b), (z(2, 3, 4, 5), z(5, 3)), 6 * 4 * 5 * 3),
    "summed first": (lambda a, b: torch.einsum("ij,kl->ik", a, b), (z(4, 5), z(5, 3)), 4 * 5),
    "one operand": (lambda a: torch.einsum("ij->ji", a).relu(), (z(4, 5),), 0),
    "sum of one": (lambda a: torch.einsum("ij->j", a), (z(4, 5),), 0),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), (z(4, 4, 3), z(4, 3, 7)), 4 * 12 * 7),
    "bilinear": (lambda a, b: torch.nn.functional.bilinear(a, b, z(6, 4, 5)), (z(2, 4), z(2, 5)), 2 * 6 * 5 * (4 + 1)),
    "addbmm": (lambda a: torch.addbmm(z(4, 4), a, a), (z(3, 4, 4),), 3 * 64),
    "outer": (lambda a, b: torch.outer(a, b), (z(2), z(4)), 0),
    "unbatched convolution": (lambda a: torch.nn.functional.conv2d(a, z(8, 3, 3, 3)), (z(3, 8, 8),), 36 * 8 * 27),
    "unbatched transposed": (
        *(lambda a: torch.nn.functional.conv_transpose1d(a, z(3, 4, 3), stride=2), (z(3, 8),)),
        8 * 3 * 4 * 3,
    ),
    "unbatched pools": (
        *(lambda a: torch.nn.functional.adaptive_avg_pool2d(torch.max_pool2d(a, 2), 1), (z(3, 8, 8),)),
        0,
    ),
    "grouped rows": (
        lambda a, b: torch._grouped_mm(a, b, offs=torch.tensor([16, 32], dtype=torch.int32)),
        (z(32, 16, dtype=torch.bfloat16), z(2, 16, 24, dtype=torch.bfloat16)),
        32 * 16 * 24,
    ),
    "enlarged": (lambda a: torch.nn.functional.interpolate(a, scale_factor=2), (z(1, 3, 4, 4),), 0),
    "statistics": (lambda a: a.var(1) + a.std(1) + a.norm(dim=1) + torch.logsumexp(a, 1) + a.amax(1), (z(2, 4),), 0),
    "instance norm": (lambda a: torch.nn.functional.instance_norm(a), (z(1, 4, 4, 4),), 0),
    "activations": (
        lambda a: torch.nn.functional.glu(
            torch.nn.functional.prelu(
                torch.nn.functional.mish(torch.nn.functional.elu(a.log_softmax(1))), a[0, :, 0, 0]
            )
        ),
        (z(1, 4, 4, 4),),
        0,
    ),
    "logic": (lambda a: (((a > 0) & (a < 1)) | (a == 2) ^ (a != 3)).any(1).to(a.dtype), (z(3, 8),), 0),
    "rows": (lambda a, i: a[i] + a.index_select(0, i), (z(8, 4), z(3, dtype=torch.long)), 0),
}


class Form(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_operators_are_mapped_and_count_what_they_multiply(name: str) -> None:
    function, inputs, macs = FORMS[name]
    net = pm.from_torch(Form(function), inputs)
    assert (net.macs, net.unmapped) == (macs, [])
    assert net.layers
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    assert counter.get_total_flops() in (0, 2 * macs)  # 0: torch has no formula, as for bilinear and grouped products


def test_elements_at_constant_places_are_a_view() -> None:
    net = pm.from_torch(Form(lambda x: x[:, [0, 2]].relu()), (z(3, 8),))
    assert "index" in {view.operator for view in net.views}
    assert net.unmapped == []
    net = pm.from_torch(Form(lambda x, i: x[:, i].relu()), (z(3, 8), z(2, dtype=torch.long)))
    assert [left.reason for left in net.unmapped] == ["which elements are read depends on values"]


@pytest.mark.parametrize("times", [1.5, 2.5])
def test_enlarging_by_fractions_is_told(times: float) -> None:
    net = pm.from_torch(Form(lambda a: torch.nn.functional.interpolate(a, scale_factor=times)), (z(1, 3, 4, 4),))
    assert [left.reason.split(":")[0] for left in net.unmapped] == ["which elements are read follows from rounding"]
    assert net.unmapped_macs == 0


def test_what_no_loop_nest_says_is_told_with_its_reason() -> None:
    net = pm.from_torch(Form(lambda a: (a.argmax(1), a.cumsum(1), a.prod(1), a.topk(2), torch.cdist(a, a))), (z(3, 8),))
    told = {left.operator: left.reason for left in net.unmapped}
    assert set(told) == {"argmax", "cumsum", "prod", "topk", "cdist"}
    assert told["cumsum"] == "each element of the result is made of the one before"
    assert net.unmapped_macs is None  # cdist multiplies


def test_operands_have_the_types_of_their_values() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x, y):
            return torch._int_mm(x, y)

    kinds = (torch.zeros(32, 16, dtype=torch.int8), torch.zeros(16, 8, dtype=torch.int8))
    net = pm.from_torch(Mixed(), kinds)
    assert {each.name: each.bits for each in net.layers[0].workload.tensors} == {"C": 32, "A": 8, "B": 8}


def test_quantised_layers_are_read_with_their_types() -> None:
    import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
    ops = torch.ops.quantized_decomposed

    class Quantised(torch.nn.Module):
        def forward(self, x, w):
            x = ops.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8)
            w = ops.dequantize_per_tensor(w, 0.1, 0, -128, 127, torch.int8)
            return torch.nn.functional.linear(ops.dequantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8), w)

    net = pm.from_torch(Quantised(), (torch.zeros(3, 4), torch.zeros(5, 4, dtype=torch.int8)))
    assert (net.macs, net.unmapped) == (60, [])
    first, second = net.layers[0].workload, net.layers[1].workload
    assert [each.bits for each in (*first.tensors, *second.tensors)] == [8, 32, 32, 8]


def test_neighbours_of_a_block_are_known() -> None:
    net = pm.from_torch(*CASES["block"])
    names = [name for group in plan_of(net).groups for name in group.names]
    assert any(name.endswith(".exponentials") for name in names)
    assert {"linear_2", "gelu"} <= set(names)
    assert net.returned <= {each.node for each in net.views} | {node for node, _ in net.mapped}
    assert len(net.returned) == 3


class Windows(torch.nn.Module):
    """Elements in windows, several times and set to 0; how often, the last time, a tensor says."""

    def forward(self, x, counts):
        windows = x.unfold(1, 4, 2).repeat_interleave(3, dim=0).clone()
        windows[0].zero_()
        return windows @ windows.transpose(-1, -2), x.repeat_interleave(counts, dim=0, output_size=9)


def test_windows_and_copies_of_elements_are_views() -> None:
    net = pm.from_torch(Windows(), (torch.empty(2, 8), torch.tensor([4, 5])))
    assert {"unfold", "repeat_interleave", "zero"} <= {each.operator for each in net.views}
    assert [each.operator for each in net.unmapped] == ["repeat_interleave"]
    assert net.macs == 6 * 3 * 3 * 4
