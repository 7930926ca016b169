"""Timeloop's files as they lie around: templates, merges, front-end dumps, libconfig, constraints of nodes; what has no
equal is told, all at once."""

from __future__ import annotations

import random
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import polymap as pm
from polymap.importers.timeloop.expressions import value_of
from polymap.importers.timeloop.libconfig import read_libconfig
from tests.extras.test_timeloop import damaged
from tests.extras.timeloop_dumps import DUMP, DUMP_MAPPING, LAYER, ROWS, folder_of_files
from tests.extras.timeloop_zoo import GEMM

ROWS_TEXT = ROWS.replace("DATAWIDTH * 2", "16").replace("DATAWIDTH", "8")


@pytest.fixture(name="files")
def files_(tmp_path: Path) -> Path:
    return folder_of_files(tmp_path)


def counts(cost: pm.Cost) -> tuple[object, ...]:
    rows = {(row.level, row.tensor): (row.reads, row.writes, row.fills, row.drains) for row in cost.traffic}
    return cost.legal, rows, cost.latency_cycles


def test_the_reference_statistics_of_an_exercise_are_recomputed_from_a_dump(files: Path) -> None:
    """The design eyeriss_like of timeloop-accelergy-exercises (2d55108), ref_outputs/default_problem: scalar reads,
    fills and updates of all instances in timeloop-mapper.stats.txt. Here reads of drained sums are reads, too, and
    windows slide: rows of Inputs above the scratchpads are lower."""
    _, arch, mapping = found = pm.from_timeloop(
        files / "layers/0.yaml", files / "dump.yaml", files / "dump.map.yaml", folders=[files]
    )
    cost = pm.evaluate(*found)
    assert cost.legal, "the mapping of the exercise is legal"
    assert cost.latency_cycles == 86016
    assert mapping is not None
    assert [level.name for level in arch.levels] == ["DRAM", "shared_glb", "ifmap_spad", "weights_spad", "psum_spad"]
    rows = {(row.level, row.tensor): row for row in cost.traffic}
    reads_fills_updates = {
        ("psum_spad", "Outputs"): (7225344, 0, 10838016),
        ("weights_spad", "Weights"): (10838016, 193536, 0),
        ("ifmap_spad", "Inputs"): (10838016, 1354752, 0),
        ("shared_glb", "Outputs"): (0, 0, 401408),
        ("DRAM", "Weights"): (13824, 0, 0),
        ("DRAM", "Outputs"): (0, 0, 401408),
    }
    for place, (reads, fills, updates) in reads_fills_updates.items():
        assert (rows[place].reads - rows[place].drains, rows[place].writes) == (reads, fills + updates), place
    # Windows of 14 x 56 outputs have 29 x 113 inputs of each channel. The second one along Q shares a column with the
    # first; the first of the next row of tiles shares one element with the last of this one.
    assert rows["DRAM", "Inputs"].reads == 3 * (8 * (29 * 113 + 29 * 112) - 7)
    assert 3 * 16 * 29 * 113 == 157296  # as its statistics say


def test_a_list_of_nodes_and_its_dump_are_one_machine_and_one_mapping(files: Path) -> None:
    problem, top = files / "layers/0.yaml", files / "designs/top.yaml.jinja2"
    listed = pm.from_timeloop(problem, top, files / "map.yaml", folders=[files], values={"machine": "rows"})
    dumped = pm.from_timeloop(problem, files / "dump.yaml", files / "dump.map.yaml", folders=[files])
    assert counts(pm.evaluate(*listed)) == counts(pm.evaluate(*dumped))
    # The list says what levels hold, a dump's constraints do.
    plain = [replace(level, holds=None, must_hold=()) for level in listed[1].levels]
    assert plain == list(dumped[1].levels)


def test_templates_tell_file_and_line_of_what_they_put_together(files: Path) -> None:
    top = files / "designs/top.yaml.jinja2"
    (files / "designs/machines/rows.yaml").write_text(ROWS.replace("depth: 12,", "dpeth: 12,"), encoding="utf-8")
    with pytest.raises(pm.errors.InputError, match=r"PM661 'rows.yaml', line 31: ifmap_spad.dpeth is not read"):
        pm.from_timeloop(files / "layers/0.yaml", top, folders=[files])
    (files / "base.yaml").write_text("one: 1\ntwo: 2\n  three: 3\n", encoding="utf-8")
    with pytest.raises(pm.errors.InputError, match=r"PM660 'base.yaml', line 3: mapping values are not allowed"):
        pm.from_timeloop(files / "layers/0.yaml", top, folders=[files])


def test_files_are_included_only_from_below_the_folders_given(files: Path) -> None:
    with pytest.raises(pm.errors.InputError, match=r"line 1: '../base.yaml' is not below .*\n.*folders=\['") as caught:
        pm.from_timeloop(files / "layers/0.yaml", files / "dump.yaml")
    assert str(files.resolve()) in str(caught.value)
    text = LAYER.replace("../base.yaml", "base.yaml")
    assert pm.from_timeloop(text, DUMP, folders=files)[0].extents()["M"] == 32
    with pytest.raises(pm.errors.InputError, match="there is no file 'nothing.yaml'"):
        pm.from_timeloop(LAYER.replace("../base.yaml", "nothing.yaml"), DUMP, folders=[files])
    (files / "layers/loop.yaml").write_text("{{include_text('loop.yaml')}}\n", encoding="utf-8")
    with pytest.raises(pm.errors.InputError, match="PM660 'loop.yaml', line 1: files include each other too deeply"):
        pm.from_timeloop(files / "layers/loop.yaml", DUMP)
    (files / "layers/out.yaml").symlink_to("/etc/hostname")
    with pytest.raises(pm.errors.InputError, match=r"'layers/out.yaml' is not below the folder"):
        pm.from_timeloop("{{include_text('layers/out.yaml')}}\n", DUMP, folders=[files])


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ ''.__class__ }}", "the template has a Getattr"),
        ("{{ cwd['x'] }}", "the template has a Getitem"),
        ("{% for i in [1] %}{% endfor %}", "the template has a For"),
        ("{{ 'x' * 9 }}", "the template has a Mul"),
        ("{{ range(9) }}", "calls a function that is not known"),
        ("{% import 'x' as x %}", "the template has a Import"),
        ("{{ bits }}", "'bits' is undefined"),
        ("{% if %}", "the template is not read: Expected an expression"),
        ("{{ include(3) }}", "3 is no name of a file"),
        ("{{ include('**/x') }}", "'[*][*]/x' is no name of a file"),
        ("{% set a = 'xxxxxxxxxxxxxxxx' %}" + "{% set a = a ~ a ~ a ~ a %}" * 12, "has over 16,777,216 characters"),
        ("{{ 'x' | replace('x', 'y') }}", "No filter named 'replace'"),
    ],
)
def test_templates_that_are_not_read_are_told(template: str, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM660 the text, line 2: .*{told}"):
        pm.from_timeloop(f"a: 1\n{template}\n", DUMP)


def test_merges_join_tables_and_lists() -> None:
    """The front end's rules: `<<` adds fields, `<<<` joins tables inside each other and puts lists after the own."""
    merged = "  <<<: {shape: {dimensions: [K]}, instance: {K: 6, M: 9}}\n  instance: {M: 8, N: 12}\n"
    text = GEMM.replace("  instance: {M: 8, N: 12, K: 6}\n", merged).replace("[M, N, K]", "[M, N]")
    assert pm.from_timeloop(text, GEMM)[0].extents() == {"M": 8, "N": 12, "K": 6}
    kept = text.replace("dimensions: [M, N]", "dimensions: !nomerge [M, N]")
    with pytest.raises(pm.errors.InputError, match=r"the term \['K'\] is not read"):
        pm.from_timeloop(kept, GEMM)
    with pytest.raises(pm.errors.InputError, match="<<< is 3"):
        pm.from_timeloop(GEMM.replace("problem:\n", "problem:\n  <<<: 3\n"), GEMM)


def test_libconfig_says_what_yaml_says(files: Path) -> None:
    workload, arch, mapping = pm.from_timeloop(*[files / "sample.cfg"] * 3)
    assert workload.extents() == {"R": 1, "S": 1, "P": 56, "Q": 2, "C": 16, "K": 32, "N": 1}
    nodes = [
        {"level": "DRAM", "word_bits": 16}, {"level": "GlobalBuffer", "word_bits": 16, "capacity_bits": 128 * 8192},
        {"fanout": "X", "size": 8}, {"fanout": "Y", "size": 8},
        {"level": "Registers", "word_bits": 16, "capacity_bits": 1024}, {"compute": "arithmetic"},
    ]  # fmt: skip
    tree = [
        {"store": "DRAM", "tensors": ["Weights", "Inputs", "Outputs"]},
        {"store": "GlobalBuffer", "tensors": ["Weights", "Inputs", "Outputs"]},
        {"for": "Q", "tile": 1}, {"for": "P", "tile": 8},
        {"par": "K", "tile": 4, "over": "X"}, {"par": "C", "tile": 2, "over": "Y"},
        {"store": "Registers", "tensors": ["Weights", "Outputs"]},
        {"for": "K", "tile": 1}, {"for": "C", "tile": 1}, {"for": "P", "tile": 1}, {"compute": "S"},
    ]  # fmt: skip
    native = pm.einsum("Outputs[N,K,Q,P] += Weights[C,K,R,S] * Inputs[N,C,R+P,S+Q]", sizes=workload.extents(), bits=16)
    mine = pm.evaluate(native, pm.io.arch_from_document({"nodes": nodes}), pm.io.mapping_from_document({"nodes": tree}))
    assert counts(pm.evaluate(workload, arch, mapping)) == counts(mine)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = {b = 1;\n c = [1, 2; }", r"line 2: found ';'\n.*Expected \], for the \[ of line 2"),
        ("a = 1;\na = 2;", "line 2: 'a' is given twice"),
        ("a = ;", r"line 1: found ';'\n.*Expected a value"),
        ("a 1", "line 1: found '1'\n.*Expected = or : after a"),
        ("a = 1;\n\n$", r"line 3: '\$' is no libconfig"),
        ("# nothing", "is empty"),
        ("a = " + "(" * 200, "at most 100 levels"),
        ('a = "x\n', "line 1: '\"x.*' is no libconfig"),
    ],
)
def test_what_is_no_libconfig_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"(?s)PM660 f.cfg.*{told}"):
        read_libconfig(text, "f.cfg")


def test_libconfig_reads_all_its_values() -> None:
    text = 'a: "x" "\\"y"; b = 0x1F; c = 2.5e1; d = TRUE, e = ( 1L, [ ], { f = -3 } ) /* x\n */ g = .5'
    plain = {name: value for name, (value, _) in read_libconfig(text, "f.cfg")[0].items() if name != "e"}
    assert plain == {"a": 'x"y', "b": 31, "c": 25.0, "d": True, "g": 0.5}
    assert read_libconfig(text, "f.cfg")[0]["e"] == ([(1, 1), ([], 1), ({"f": (-3, 1)}, 1)], 1)
    assert read_libconfig(text, "f.cfg")[0]["g"] == (0.5, 2)


def test_expressions_are_arithmetic_over_names() -> None:
    names = {"w": 8, "t": "45nm", "b": True}
    texts = {"w * 2 + 1": 17, "ceil(log2(w + 1))": 4, "max(1, -w) % 3": 1, "w / 16": 0.5, "2 // 1": 2}
    assert {text: value_of(text, names) for text in texts} == texts
    for text in ("w ** 9", "t", "b", "x", "w.real", "[w]", "1 / 0", "w if w else 1", "9" * 300, "10.0 * 10 % 0", "("):
        assert value_of(text, names) is None, text


def test_branches_side_by_side_hold_what_they_keep() -> None:
    arch = pm.from_timeloop(GEMM, PARALLEL)[1]
    assert [(level.name, level.holds, level.must_hold) for level in arch.levels[1:]] == [
        ("a", ("A",), ("A",)), ("z", ("Z",), ("Z",)),
    ]  # fmt: skip
    for old, new, told in (
        ("keep: [Z]", "keep: [A]", "A is kept in two branches"),
        ("keep: [W]", "bypass: [W]", r"no branch of a !Parallel keeps W\n.*!Nothing"),
        ("class: regfile, attributes", "class: regfile, spatial: {meshX: 2}, attributes", "a in a !Parallel is a cont"),
    ):
        assert old in PARALLEL
        with pytest.raises(pm.errors.InputError, match=f"PM661 the text, line .*{told}"):
            pm.from_timeloop(GEMM, PARALLEL.replace(old, new))


PARALLEL = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: "D[1..1]", class: DRAM, attributes: {datawidth: 8, width: 8, depth: 1000}}
  - !Parallel
    nodes:
    - !Component {name: a, class: regfile, attributes: {datawidth: 8, width: 8, depth: 8}, constraints: {dataspace: {keep: [A]}}}
    - !Component {name: z, class: regfile, attributes: {datawidth: 8, width: 8, depth: 8}, constraints: {dataspace: {keep: [Z]}}}
    - !Nothing {constraints: {dataspace: {keep: [W]}}}
  - !Component {name: mac, class: intmac}
"""  # noqa: E501


def test_branches_side_by_side_may_be_kept_apart_by_a_list_of_constraints() -> None:
    """As the front end attaches them: of the machine's own file, or of the file of constraints."""
    apart = PARALLEL
    for name in "AZ":
        apart = apart.replace(f", constraints: {{dataspace: {{keep: [{name}]}}}}", "")
    with pytest.raises(pm.errors.InputError, match="no branch of a !Parallel keeps A, Z"):
        pm.from_timeloop(GEMM, apart)
    targets = "  - {target: a, type: dataspace, keep: [A]}\n  - {target: z, type: bypass, keep: [Z], bypass: [A, W]}\n"
    constraints = f"constraints:\n  targets:\n{targets}"
    expected = pm.from_timeloop(GEMM, PARALLEL)[1]
    assert pm.from_timeloop(GEMM, apart + constraints)[1] == expected
    workload, arch, _, found = pm.from_timeloop(GEMM, apart, constraints=constraints)
    assert arch == expected
    assert found["store"] == {"a": {"must": ["A"]}, "z": {"must": ["Z"], "never": ["A", "W"]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the machine states no energies
        assert pm.explore(workload, arch, objective="latency", constraints=found).status == "OPTIMAL"


def test_a_compute_unit_is_innermost_in_a_tree_wherever_it_stands() -> None:
    """Timeloop reads it apart from the memories."""
    local = "  - {name: b, class: SRAM, attributes: {depth: 99, width: 16}}\n"
    unit = "  - {name: m, class: intmac}\n"
    register = "  - {name: r, class: regfile, attributes: {depth: 3, width: 16}}\n"
    head = "architecture:\n  subtree:\n  - name: s\n    local:\n  - {name: d, class: DRAM, attributes: {width: 16}}\n"
    text = (head + local + "%s").replace("\n  - {", "\n    - {")
    first, last = (
        pm.from_timeloop(GEMM, text % each.replace("  - {", "    - {"))[1]
        for each in (unit + register, register + unit)
    )
    assert first == last
    assert [node.name for node in first.nodes] == ["d", "b", "r", "m"]


def test_names_that_files_leave_open_are_given_as_values() -> None:
    machine = SPREAD % "{}"
    problem = CONVOLUTION + "variables: {ROWS: BATCH * 4}\n"
    told = r"instance.N is 'BATCH'\n.*variables, or of values=\{'BATCH': ...\}"
    with pytest.raises(pm.errors.InputError, match=told):
        pm.from_timeloop(problem, machine)
    assert "depth: 8" in PARALLEL
    told = r"depth of a is 'ROWS'\n.*variables, or of values=\{'ROWS': ...\}.$"
    with pytest.raises(pm.errors.InputError, match=told):
        pm.from_timeloop(GEMM, PARALLEL.replace("depth: 8", "depth: ROWS", 1))
    given = pm.from_timeloop(problem, machine, values={"BATCH": 2})[0]
    assert given == pm.from_timeloop(CONVOLUTION + "variables: {BATCH: 2, ROWS: BATCH * 4}\n", machine)[0]


def test_constraints_of_nodes_are_those_of_explore_where_they_say_the_same(files: Path) -> None:
    problem = files / "layers/0.yaml"
    found = pm.from_timeloop(problem, ROWS_TEXT, constraints=ROWS_TEXT, folders=[files], strict=False)
    assert found[3] == {"fanouts": {"PE_column": {"forbid": ["C", "P", "R", "S"]}, "PE": {"forbid": ["P", "Q", "R"]}}}
    assert [(each.file, each.line) for each in found.warnings if "temporal" in each.what] == [("the text", 34)]
    with pytest.raises(
        pm.errors.InputError, match="line 34: a temporal constraint of ifmap_spad is not read: M=1, C=1"
    ):
        pm.from_timeloop(problem, ROWS_TEXT, constraints=ROWS_TEXT, folders=[files])
    told = [str(each) for each in pm.from_timeloop(problem, ROWS_TEXT, folders=[files]).warnings]
    assert any("constraints.spatial of PE limits Timeloop's search" in each for each in told)


@pytest.mark.parametrize(
    ("spatial", "expected"),
    [
        ("{permutation: [M, N, K], split: 1}", {"mac_X": {"forbid": ["N", "K"]}, "mac_Y": {"forbid": ["M"]}}),
        ("{permutation: [K], split: 1, factors: [K=2]}",
         {"mac_X": {"forbid": ["M", "N"], "factors": {"K": 2}}, "mac_Y": {"forbid": ["K"]}}),
        ("{split: 3}", {"mac_Y": {"forbid": ["M", "N", "K"]}}),
        ("{no_iteration_over_dataspaces: [A]}", {"mac_X": {"forbid": ["M", "K"]}, "mac_Y": {"forbid": ["M", "K"]}}),
        ("{must_iterate_over_dataspaces: [A]}", {"mac_X": {"forbid": ["N"]}, "mac_Y": {"forbid": ["N"]}}),
        ("{factors_only: [M=2], permutation: [M], split: 1}",
         {"mac_X": {"forbid": ["N", "K"], "factors": {"M": 2}}, "mac_Y": {"forbid": ["N", "K", "M"]}}),
    ],
)  # fmt: skip
def test_splits_and_macros_are_fan_outs(spatial: str, expected: dict[str, object]) -> None:
    arch = SPREAD % spatial
    assert pm.from_timeloop(GEMM, arch, constraints=arch)[3] == {"fanouts": expected}


def test_explore_obeys_what_comes_from_the_files() -> None:
    arch = SPREAD % "{permutation: [K, M, N], split: 1, factors: [M=2]}"
    workload, machine, _, constraints = pm.from_timeloop(GEMM, arch, constraints=arch)
    found = pm.explore(workload, machine, tiles="divide", constraints=constraints)
    assert found.status == "OPTIMAL"
    assert found.best is not None
    spread = {(node.dim, node.fanout) for node in found.best.nodes if isinstance(node, pm.Spatial)}
    assert spread <= {("K", "mac_X"), ("M", "mac_Y"), ("N", "mac_Y")}
    assert ("M", "mac_Y") in spread


def test_sizes_may_be_expressions_and_coefficients_0() -> None:
    """A dilation of 0, as in published layers of 1 x 1 windows: the term is no part of the index."""
    problem = CONVOLUTION + "variables: {BATCH: 2, ROWS: BATCH * 4}\n"
    workload = pm.from_timeloop(problem, SPREAD % "{}")[0]
    native = pm.einsum(
        "Outputs[N,K,Q,P] += Weights[C,K,R,S] * Inputs[N,C,2*P,S+Q]",
        sizes={"R": 3, "S": 1, "P": 8, "Q": 1, "C": 4, "K": 2, "N": 2},
    )
    accesses = [[(each.target, each.reads) for each in one.statements] for one in (workload, native)]
    assert accesses[0] == accesses[1]
    assert workload.extents() == native.extents()
    with pytest.raises(pm.errors.InputError, match="instance.P is 'COLUMNS'"):
        pm.from_timeloop(problem.replace("P: ROWS", "P: COLUMNS"), SPREAD % "{}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{keep: [A]}", "{keep: [A], no_coalesce: [Z]}", "no_coalesce of buffer is not read (it is a list)"),
        ("{keep: [A]}", "{keep: [A]}, temporal: {no_reuse: [A]}", "no_reuse of buffer is not read (it is a list)"),
        ("{keep: [A]}", "{keep: [A]}, temporl: {}", "constraints.temporl of buffer is not read"),
        ("{keep: [A]}", "{keep: [A]}, temporal: {factor: [M=1]}", "constraints.temporal.factor is not read (it is"),
        (
            "{meshX: 2}",
            "{meshX: 2}\n      constraints: {dataspace: {keep: [A]}}",
            "constraints.dataspace of mac is not",
        ),
    ],
)
def test_constraints_that_change_counts_are_told_with_a_mapping_too(old: str, new: str, told: str) -> None:
    assert old in GEMM
    text = GEMM.replace(old, new)
    with pytest.raises(pm.errors.InputError) as caught:
        pm.from_timeloop(text, text, text)
    assert [each.what.partition(": ")[2][: len(told)] for each in caught.value.mistakes] == [told]
    assert len(pm.from_timeloop(text, text, text, strict=False).warnings) == 1


CONVOLUTION = """\
problem:
  shape: cnn-layer
  R: 3
  S: 1
  C: 4
  K: 2
  N: BATCH
  P: ROWS
  Q: 1
  Wstride: 2
  Wdilation: 0
"""


@pytest.mark.parametrize(
    ("spatial", "told"),
    [
        ("{permutation: [M], split: 2}", "split of mac is 2, of a permutation of 1"),
        ("{factors: [M<=2]}", "the spatial factors M<=2 of mac"),
        ("{factors: [M=0]}", "the spatial factors M=0 of mac"),
        ("{factors: [M=2]}", "the spatial factor 2 of M at mac"),
        ("{maximize_dims: [[M]]}", "maximize_dims of mac is not read"),
        ("{no_reuse: [A]}", "no_reuse of mac is not read"),
        ("{split: len(x)}", "split of mac is 'len.x.'"),
    ],
)
def test_constraints_without_an_equal_are_told(spatial: str, told: str) -> None:
    arch = SPREAD % spatial
    with pytest.raises(pm.errors.InputError, match=f"PM661 the text, line 5: {told}"):
        pm.from_timeloop(GEMM, arch, constraints=arch)
    warnings = pm.from_timeloop(GEMM, arch, constraints=arch, strict=False).warnings
    assert [each.line for each in warnings] == [5]


SPREAD = """\
architecture:
  nodes:
  - !Component {name: D, class: DRAM, attributes: {datawidth: 8}}
  - !Component {name: mac, class: intmac, spatial: {meshX: 4, meshY: 2},
      constraints: {spatial: %s}}
"""


def test_constraints_of_nodes_complete_a_mapping() -> None:
    """The front end joins them: a directive need not repeat what its node says, and must not contradict it."""
    arch = SPREAD % "{permutation: [M, N, K], split: 1, factors: [M=4, N=2]}"
    mapping = "mapping:\n- {target: D, type: temporal, factors: M=2 N=6 K=6, permutation: KNM}\n"
    given = pm.from_timeloop(GEMM, arch, mapping)[2]
    written = mapping + "- {target: mac, type: spatial, factors: M=4 N=2, permutation: MNK, split: 1}\n"
    assert given == pm.from_timeloop(GEMM, SPREAD % "{}", written)[2]
    with pytest.raises(pm.errors.InputError, match="the factor of N is 1, and the node's constraint N=2"):
        pm.from_timeloop(GEMM, arch, written.replace("N=2", "N=1").replace("N=6", "N=12"))


def test_what_counts_do_not_depend_on_is_noted_and_what_they_would_is_refused() -> None:
    dense = GEMM.replace("{M: 8,", "{densities: {A: 0.5}, H: 10, M: 8,")
    found = pm.from_timeloop(dense, GEMM)
    assert [each.what.split(" is ")[0] for each in found.warnings] == ["instance.densities", "instance.H"]
    assert found == pm.from_timeloop(GEMM, GEMM)
    sparse = GEMM.replace("name: buffer\n", "name: buffer\n      sparse_optimizations: {action_optimization: [x]}\n")
    with pytest.raises(pm.errors.InputError, match="line 22: sparse_optimizations of buffer are not modelled"):
        pm.from_timeloop(GEMM, sparse)
    [warning] = pm.from_timeloop(GEMM, sparse, strict=False).warnings
    assert (warning.file, warning.line) == ("the text", 22)
    assert "counts those of dense ones" in str(warning)


def test_the_outermost_level_may_have_a_depth_that_holds_the_problem() -> None:
    needed = 8 * 6 + 6 * 12 + 8 * 12
    arch = PARALLEL.replace("depth: 1000", f"depth: {needed}")
    assert pm.from_timeloop(GEMM, arch)[1].levels[0].capacity_bits is None
    less = PARALLEL.replace("depth: 1000", f"depth: {needed - 1}")
    with pytest.raises(
        pm.errors.InputError, match="line 4: the outermost level D has a capacity of 215 elements, .* 216"
    ):
        pm.from_timeloop(GEMM, less)
    assert len(pm.from_timeloop(GEMM, less, strict=False).warnings) == 1


def test_words_of_other_widths_are_elements_as_timeloop_counts() -> None:
    wide = PARALLEL.replace("name: z, class: regfile, attributes: {datawidth: 8, width: 8,",
                            "name: z, class: regfile, attributes: {datawidth: 24, width: 48,")  # fmt: skip
    workload, arch, _ = found = pm.from_timeloop(GEMM, wide)
    assert workload.tensors[0].bits == 8
    assert (arch.levels[2].capacity_bits, arch.levels[2].word_bits) == (8 * 16, 16)  # 8 rows of 2 elements
    assert "words of z have 24 bits, of the outermost level 8" in found.warnings[0].what


def test_all_mistakes_are_told_at_once_and_the_others_read_when_not_strict() -> None:
    arch = GEMM.replace("width: 32, depth: 128", "width: 32, depth: 128, network_read: noc, n_bansk: 2").replace(
        "class: regfile", "class: regfile\n          subclas: x"
    )
    problem = GEMM.replace("{M: 8,", "{Mm: 3, M: 8,")
    with pytest.raises(pm.errors.InputError) as caught:
        pm.from_timeloop(problem, arch)
    told = [mistake.what.partition(": ")[2] for mistake in caught.value.mistakes]
    assert told == [
        "instance.Mm is no dimension or coefficient of the shape (it is 3)",
        "buffer.n_bansk is not read (it is 2)",
        "buffer.network_read is not read (it is 'noc')",
        "register.subclas is not read (it is 'x')",
    ]
    found = pm.from_timeloop(problem, arch, strict=False)
    assert found == pm.from_timeloop(GEMM, GEMM)
    assert [each.what for each in found.warnings] == told
    wrong = GEMM.replace("factors: [K=3]", "factors: [L=3]").replace("bypass: [W]", "bypass: [V]")
    with pytest.raises(pm.errors.InputError) as caught:
        pm.from_timeloop(GEMM, GEMM, wrong, strict=False)
    assert len(caught.value.mistakes) == 2, "two directives of the mapping are wrong"


def test_a_shape_may_be_a_file_of_its_name(files: Path) -> None:
    shape = GEMM.partition("  instance")[0].replace("problem:\n  version: 0.4\n  shape", "shape")
    (files / "product.yaml").write_text(shape.replace("\n    ", "\n  "), encoding="utf-8")
    problem = "problem:\n  shape: product\n  M: 8\n  N: 12\n  K: 6\n"
    assert pm.from_timeloop(problem, GEMM, folders=[files])[0] == pm.from_timeloop(GEMM, GEMM)[0]
    with pytest.raises(pm.errors.InputError, match=r"there is no file of the shape 'product'\n.*folders="):
        pm.from_timeloop(problem, GEMM)


def test_a_flattened_architecture_is_read(files: Path) -> None:
    """As Accelergy writes it: whole paths as names, its own variables among the attributes."""
    head, _, rest = DUMP.partition("  subtree:")
    local = rest.partition("    local:\n")[2].partition("architecture_constraints")[0]
    local = local.replace("- name: ", "- name: system.").replace(
        "depth: 12,", "depth: 12, real_depth: 9, memory_depth: 64, X: 1,"
    )
    flat = f"{head}  local:\n{local}"
    problem = files / "layers/0.yaml"
    one = pm.from_timeloop(problem, flat, DUMP_MAPPING, folders=[files])
    two = pm.from_timeloop(problem, DUMP, DUMP_MAPPING, folders=[files])
    assert one[1:] == two[1:]
    assert any("components of a flattened architecture" in each.what for each in one.warnings)
    deepest_first = """
architecture:
  local:
  - {name: s.chip.PE.r, class: regfile, attributes: {datawidth: 8, width: 8, depth: 9, Y: 2}}
  - {name: "s.chip.PE.m[0..3]", class: intmac}
  - {name: s.chip.b, class: SRAM, attributes: {datawidth: 8, width: 8, depth: 99}}
  - {name: s.d, class: DRAM, attributes: {datawidth: 8, width: 8}}
"""
    nodes = pm.from_timeloop(GEMM, deepest_first)[1].nodes
    assert [node.name for node in nodes] == ["d", "b", "r", "m_X", "m"]
    most_copies_first = """
architecture:
  local:
  - {name: "s.m[1..8]", class: intmac}
  - {name: "s.r[1..8]", class: regfile, attributes: {datawidth: 8, width: 8, depth: 9}}
  - {name: "s.d[1..1]", class: DRAM, attributes: {datawidth: 8, width: 8}}
  - {name: s.b, subclass: SRAM, attributes: {datawidth: 8, width: 8, depth: 99}}
"""
    found = pm.from_timeloop(GEMM, most_copies_first, strict=False)
    assert [node.name for node in found[1].nodes] == ["d", "b", "r_X", "r", "m"]
    assert any("b has no class, and the subclass 'SRAM'" in each.what for each in found.warnings)
    with pytest.raises(pm.errors.InputError, match="line 7: b has no class, and the subclass 'SRAM'"):
        pm.from_timeloop(GEMM, most_copies_first)


def test_a_dummy_storage_holds_nothing(files: Path) -> None:
    wrong = DUMP_MAPPING.replace(
        "keep: [], bypass: [Weights, Inputs, Outputs]", "keep: [Inputs], bypass: [Weights, Outputs]"
    )
    with pytest.raises(pm.errors.InputError, match="inter_PE_spatial is a dummy storage, which holds nothing"):
        pm.from_timeloop(files / "layers/0.yaml", DUMP, wrong, folders=[files])
    constraints = pm.from_timeloop(files / "layers/0.yaml", DUMP, constraints=DUMP, folders=[files])[3]
    assert constraints["store"] == {"shared_glb": {"must": ["Inputs", "Outputs"], "never": ["Weights"]}}
    assert constraints["fanouts"] == {"inter_PE_spatial_X": {"forbid": ["C", "P", "R", "S"]}}


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_damaged_templates_dumps_and_libconfig_never_fail_unforeseen(first: int, files: Path) -> None:
    told = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        for name in (
            "designs/top.yaml.jinja2",
            "designs/machines/rows.yaml",
            "layers/0.yaml",
            "sample.cfg",
            "dump.yaml",
        ):
            path = files / name
            whole = path.read_text(encoding="utf-8")
            path.write_text(damaged(whole, rng), encoding="utf-8")
            question = [path] * 3 if name == "sample.cfg" else [files / "layers/0.yaml", path, files / "map.yaml"]
            question[1] = files / "designs/top.yaml.jinja2" if name.startswith(("des", "lay")) else path
            for strict in (True, False):
                try:
                    pm.from_timeloop(*question, constraints=question[1], folders=[files], strict=strict)
                except pm.errors.InputError as error:
                    told += "PM66" in str(error)
            path.write_text(whole, encoding="utf-8")
    assert told > 75


def test_arguments_of_another_kind_are_told() -> None:
    with pytest.raises(pm.errors.InputError, match=r"folders are no list of paths"):
        pm.from_timeloop(GEMM, GEMM, folders=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(pm.errors.InputError, match=r"values are no table"):
        pm.from_timeloop(GEMM, GEMM, values={"a": [1]})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "line"),
    [("\na: " + "[" * 5000, 2), ("\n" + "{a: " * 3000 + "1", 2), ("\n".join(" " * i + "a:" for i in range(1000)), 101)],
)
def test_what_is_nested_too_deeply_is_refused_at_once(text: str, line: int) -> None:
    start = time.process_time()
    with pytest.raises(pm.errors.InputError, match=f"line {line}: nested over 100 levels"):
        pm.from_timeloop(text, DUMP)
    assert time.process_time() - start < 3
