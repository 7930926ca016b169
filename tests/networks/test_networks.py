"""Built-in networks and the exploration of all their layers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks.coverage import missing_text
from polymap.networks.documents import answer_document, answer_rows, sweep_document
from polymap.networks.model import MappedNode, Part, Unmapped, network_of_nodes

# Published multiply-accumulates (batch 1; torchvision's figures where the paper has none), and the number of layers.
PUBLISHED = {
    "resnet50": (4.09e9, 54),
    "vgg16": (15.47e9, 16),
    "alexnet": (0.714e9, 8),
    "mobilenet_v2": (0.30e9, 53),
    # 12 layers: 4 h^2 n + 8 h^2 n + 2 n^2 h with h = 768, n = 512; and the pooler's h^2.
    "bert_base": (12 * (12 * 768**2 * 512 + 2 * 512**2 * 768) + 768**2, 12 * 8 + 1),
}


def small(k: int, n: int = 2) -> pm.Workload:
    return pm.matmul(m=2, n=n, k=k)


def small_network() -> pm.Network:
    nodes = [MappedNode(name, "Gemm", (Part(small(k), True),)) for name, k in (("a", 4), ("b", 6), ("c", 4), ("d", 4))]
    return network_of_nodes("small", nodes)


@pytest.mark.parametrize("name", PUBLISHED)
def test_builtin_networks_have_the_published_layers_and_macs(name: str) -> None:
    net = pm.network(name)
    macs, layers = PUBLISHED[name]
    assert net.macs == pytest.approx(macs, rel=0.01)
    assert sum(layer.multiplicity for layer in net.layers) == layers
    assert net.views == ()
    assert net.unmapped == []


def test_resnet50_has_53_convolutions_and_one_product() -> None:
    net = pm.network("resnet50")
    assert net.macs == 4_089_184_256  # torchvision's resnet50: 4.09 GMAC
    convolutions = [layer for layer in net.layers if len(layer.workload.dims) == 7]
    assert sum(layer.multiplicity for layer in convolutions) == 53


def test_an_unknown_network_is_refused_with_a_suggestion() -> None:
    with pytest.raises(pm.errors.WorkloadError, match="PM235 there is no built-in network 'resnet5'"):
        pm.network("resnet5")
    with pytest.raises(pm.errors.WorkloadError, match="PM120 the network is 3"):
        pm.explore_network(3, "flat3")  # type: ignore[arg-type]


def test_equal_workloads_are_one_layer_and_every_value_counts_as_often_as_its_nodes() -> None:
    net = small_network()
    assert [(layer.name, layer.multiplicity) for layer in net.layers] == [("a", 3), ("b", 1)]
    assert net.macs == 3 * 16 + 24
    answer = pm.explore_network(net, "flat3", tiles="divide")
    values = [pm.explore(small(k), "flat3", tiles="divide").value for k in (4, 6)]
    assert answer.value == 3 * values[0] + values[1]
    assert answer.status == "OPTIMAL"
    assert answer.exact == answer.exact_bound
    assert answer.gap == 0


def test_totals_are_exact_rationals() -> None:
    arch = pm.io.arch_from_document(pm.io.arch_to_document(pm.load_arch("flat3")) | {"name": "thirds"})
    document = pm.io.arch_to_document(arch)
    document["nodes"][0]["read_pj"] = 0.1  # type: ignore[index]
    answer = pm.explore_network(small_network(), pm.io.arch_from_document(document), tiles="divide")
    assert answer.exact == sum((Fraction(each.result.cost.energy_pj_exact) * each.layer.multiplicity
                                for each in answer.layers), Fraction(0))  # fmt: skip


def test_the_weakest_layer_decides_the_status() -> None:
    tiny = pm.io.arch_to_document(pm.load_arch("flat3"))
    answer = pm.explore_network(pm.network("alexnet"), pm.io.arch_from_document(tiny), tiles="divide", work_limit=1)
    states = [each.result.status for each in answer.layers]
    assert answer.status in states
    assert answer.status != "OPTIMAL"
    assert answer.exact is None or answer.exact_bound <= answer.exact


def test_an_executor_gives_the_same_answer() -> None:
    net = small_network()
    alone = pm.explore_network(net, "flat3", tiles="divide")
    with ThreadPoolExecutor(1) as pool:
        assert pm.explore_network(net, "flat3", tiles="divide", executor=pool).exact == alone.exact


def test_a_question_is_plain_json_in_and_out() -> None:
    question = {"workload": {"matmul": {"m": 2, "n": 2, "k": 4}}, "arch": "flat3", "tiles": "divide"}
    answer = json.loads(json.dumps(pm.study.run_question(json.loads(json.dumps(question)))))
    assert answer["value"] == pm.explore(small(4), "flat3", tiles="divide").value
    with pytest.raises(pm.errors.OptionError, match="PM110 a question has an unknown field 'machine'"):
        pm.study.run_question({"machine": "flat3"})


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(pm.errors.WorkloadError, match="PM236 the network 'none' has no layers"):
        pm.explore_network(network_of_nodes("none", []), "flat3")


def test_objectives_of_several_numbers_are_refused() -> None:
    with pytest.raises(pm.errors.OptionError, match="PM508"):
        pm.explore_network(small_network(), "flat3", "pareto:energy,latency")


def test_only_products_count_as_multiply_accumulates() -> None:
    parts = (Part(pm.einsum("O[p] += A[p] * B[p]", p=5), False), Part(small(3), True))
    assert network_of_nodes("both", [MappedNode("a", "Mul", parts)]).macs == 12


def test_the_text_names_the_costliest_layers_and_the_unmapped_nodes() -> None:
    net = small_network()
    left = network_of_nodes(
        "left", [MappedNode("a", "Gemm", (Part(small(4), True),))], (), [Unmapped("n", "NonZero", "its size")]
    )
    answer = pm.explore_network(net, "flat3", tiles="divide")
    assert "costliest:\n  a (3 nodes, " in str(answer)
    assert "2 of them distinct" in str(net)
    assert [row["multiplicity"] for row in answer_rows(answer)] == [3, 1]
    assert len(answer.table()) == 2
    assert left.unmapped == [("n", "NonZero", "its size")]


def test_the_command_line_explores_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("explore", "alexnet", "--arch", "flat3", "--tiles", "divide", "--json", "-")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "OPTIMAL"
    assert answer["value"] == sum(row["value"] * row["multiplicity"] for row in answer["rows"])
    assert len(answer["layers"]) == 8


def test_options_of_one_workload_are_refused_for_networks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("explore", "alexnet", "--arch", "flat3", "--constraints", "{}")) == 2
    assert "PM556 --constraints: an option of one workload" in capsys.readouterr().err


def partial_network(*, with_products: bool = True) -> pm.Network:
    """Return a network of which a convolution of 388,186,112 multiply-accumulates and a softplus are not mapped."""
    nodes = [MappedNode("r", "Relu", (Part(pm.einsum("O[i] += A[i]", i=4), False),))]
    nodes += [MappedNode(name, "Gemm", (Part(small(4), True),)) for name in "ab"] if with_products else []
    left = [Unmapped("c", "Conv", "four axes"), Unmapped("s", "Softplus", "no loop nest")]
    return network_of_nodes("part", nodes, (), left, left_out_macs=[("c", 388_186_112), ("s", 0)])


HEADLINE = "OPTIMAL over 3 of 5 nodes; 1 Conv (388,186,112 MACs) and 1 Softplus (no MACs) are not mapped"


def test_the_headline_tells_first_what_is_missing() -> None:
    answer = pm.explore_network(partial_network(), "flat3", tiles="divide")
    whole = pm.explore_network(small_network(), "flat3", tiles="divide")
    assert (answer.status, answer.proof, answer.complete) == ("PARTIAL", "OPTIMAL", False)
    assert (whole.status, whole.proof, whole.complete) == ("OPTIMAL", "OPTIMAL", True)
    assert answer.headline == HEADLINE
    assert str(answer).startswith(HEADLINE + "\n")
    assert f"<pre>{HEADLINE}\n" in answer._repr_html_()
    assert repr(answer).startswith(HEADLINE + "\n"), "its summary"
    assert str(partial_network()).startswith("mapped: 3 of 5 nodes; 1 Conv (388,186,112 MACs)")
    document = answer_document(answer)
    assert {name: document[name] for name in ("status", "proof", "complete", "mapped_nodes", "unmapped_nodes")} == {
        "status": "PARTIAL", "proof": "OPTIMAL", "complete": False, "mapped_nodes": 3, "unmapped_nodes": 2}  # fmt: skip
    assert document["headline"] == HEADLINE
    assert document["unmapped_macs"] == 388_186_112


def test_where_nothing_that_multiplies_is_mapped_there_is_no_answer() -> None:
    net = partial_network(with_products=False)
    for asked in (net, network_of_nodes("none", [], (), [Unmapped("c", "Conv", "four axes")])):
        answer = pm.explore_network(asked, "flat3", tiles="divide")
        assert (answer.status, answer.value, answer.layers) == ("UNMAPPED", None, ())
        for told in (str(answer), repr(answer), json.dumps(answer_document(answer)), answer._repr_html_()):
            assert "OPTIMAL" not in told
            assert "nothing that multiplies is mapped, so there is no answer" in told
    assert pm.layouts.choose_layouts(
        pm.explore_network(net, with_bursts(), tiles="divide"), edges=[]
    ).chosen == ()  # fmt: skip


def with_bursts() -> pm.Architecture:
    document = pm.io.arch_to_document(pm.load_arch("flat3"))
    document["nodes"][0]["burst_bits"] = 512  # type: ignore[index]
    return pm.io.arch_from_document(document)


def test_macs_that_are_not_known_are_not_told_as_none() -> None:
    net = network_of_nodes("n", [MappedNode("a", "Gemm", (Part(small(4), True),))], (), [
        Unmapped("x", "Fancy", "?"), Unmapped("y", "Fancy", "?"), Unmapped("z", "Conv", "?")],
        left_out_macs=[("x", 7), ("z", 9)])  # fmt: skip
    assert net.unmapped_macs is None
    assert missing_text(net) == "1 of 4 nodes; 1 Conv (9 MACs) and 2 Fancy (MACs not known) are not mapped"


def test_a_network_that_was_interrupted_tells_what_was_not_asked() -> None:
    for net in (pm.network("alexnet"), small_network()):
        part = net.beginning(1)
        assert len(part.layers) == 1
        assert part.mapped_nodes + len(part.left_out) == net.mapped_nodes
        assert part.macs + (part.unmapped_macs or 0) == net.macs
        assert {each.reason for each in part.left_out} == {"it was not asked"}
        assert pm.explore_network(part, "flat3", tiles="divide").status == "PARTIAL"
    assert small_network().beginning(2) == small_network()


def test_products_keep_the_nodes_that_have_some() -> None:
    parts = (Part(small(3), True), Part(pm.einsum("O[p] += A[p]", p=5), False), Part(small(5), True))
    net = network_of_nodes("n", [MappedNode("att", "Attention", parts), *[
        MappedNode("r", "Relu", (Part(pm.einsum("O[p] += A[p]", p=5), False),))]]).products()  # fmt: skip
    assert net.mapped == (("att", (0, 1)),)
    assert (net.mapped_nodes, net.macs) == (1, 12 + 20)


def test_nodes_that_run_several_times_count_as_often() -> None:
    net = network_of_nodes("loop", [MappedNode("a", "MatMul", (Part(small(4), True),), 5)])
    assert (net.macs, net.layers[0].multiplicity, net.mapped_nodes) == (5 * 16, 5, 1)


def test_a_sweep_over_a_network_with_missing_nodes_says_so() -> None:
    table = pm.sweep([partial_network(), small(4)], ["flat3", "eyeriss_like"], tiles="divide")
    assert str(table).startswith("part: 3 of 5 nodes; 1 Conv (388,186,112 MACs)")
    assert {total.status for total in table.totals()} == {"PARTIAL"}
    document = sweep_document(table)
    assert document["complete"] is False
    assert [each["network"] for each in document["incomplete"]] == ["part"]  # type: ignore[attr-defined]
    assert {total.status for total in pm.sweep([small(4)], ["flat3"], tiles="divide").totals()} == {"OPTIMAL"}
    assert pm.sweep([partial_network(with_products=False)], ["flat3"], tiles="divide").front() == []
