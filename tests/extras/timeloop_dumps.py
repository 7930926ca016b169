"""Timeloop files written for the tests, with the constructs of its exercises: a machine for a convolution row by row as
a list of nodes (0.4), as its front end dumps it, and as libconfig (0.2); a problem that templates put together."""

from __future__ import annotations

from pathlib import Path

BASE = """\
shape_ignore: &shape
  version: 0.4
  shape:
    name: conv2D
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R], [P, Wstride]], [[S], [Q, Hstride]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read_write: true}
  instance: {N: 1, C: 1, R: 1, S: 1}
"""
LAYER = """\
{{include_text('../base.yaml')}}
problem:
  <<<: *shape
  instance: {C: 3, H: 224, Hpad: 1, Hstride: 2, M: 32, P: 112, Q: 112, R: 3, S: 3, Wstride: 2}
"""
TOP = """\
{{add_to_path(cwd() ~ '/machines')}}
{% set given = machine | default('rows') %}
{% if path_exists(given ~ '.yaml') %}
architecture: {{include(given ~ '.yaml', 'architecture')}}
{% endif %}
components:
  classes: {{include_all('components/*.yaml', 'compound_components.classes')}}
variables: {version: 0.4, DATAWIDTH: {{bits | default(8)}}}
"""
ROWS = """\
architecture:
  version: 0.4
  nodes:
  - !Container
    name: system
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 64, datawidth: DATAWIDTH}
  - !Component
    name: shared_glb
    class: smartbuffer_SRAM
    attributes: {depth: 16384, width: 64, datawidth: DATAWIDTH, read_bandwidth: 16, write_bandwidth: 16}
    constraints:
      dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}
  - !Container
    name: PE_column
    spatial: {meshX: 14}
    constraints:
      spatial: {permutation: [N, C, P, R, S, Q, M], factors: [N=1, C=1, P=1, R=1, S=1], split: 999}
  - !Container
    name: PE
    spatial: {meshY: 12}
    constraints:
      spatial: {split: 0, permutation: [N, P, Q, R, S, C, M], factors: [N=1, P=1, Q=1, R=1]}
  - !Parallel
    nodes:
    - !Component
      name: ifmap_spad
      class: smartbuffer_RF
      attributes: {depth: 12, width: 16, datawidth: 8, read_bandwidth: 2, write_bandwidth: 2}
      constraints:
        dataspace: {keep: [Inputs]}
        temporal: {permutation: [N, M, C, P, Q, R, S], factors: [N=1, M=1, C=1, P=1, Q=1, R=1, S=1]}
    - !Component
      name: weights_spad
      class: smartbuffer_RF
      attributes: {depth: 192, width: DATAWIDTH * 2, datawidth: 8, read_bandwidth: 2, write_bandwidth: 2}
      constraints:
        dataspace: {keep: [Weights]}
    - !Component
      name: psum_spad
      class: smartbuffer_RF
      attributes: {depth: 16, width: 16, datawidth: 16, update_fifo_depth: 2, read_bandwidth: 2, write_bandwidth: 2}
      constraints:
        dataspace: {keep: [Outputs]}
  - !Component
    name: mac
    class: intmac
"""
ROWS_MAPPING = """\
mapping:
- {target: DRAM, type: temporal, factors: M=4 P=8 Q=2, permutation: MQPCRSN}
- {target: shared_glb, type: temporal, factors: P=14 Q=4, permutation: QPCMRSN}
- {target: PE_column, type: spatial, factors: Q=14, permutation: QCMRSNP}
- {target: PE, type: spatial, factors: C=3 S=3, permutation: SCMRNPQ}
- {target: weights_spad, type: temporal, factors: R=3, permutation: RCMSNPQ}
- {target: psum_spad, type: temporal, factors: M=8, permutation: MCRSNPQ}
"""


def _storage(name: str, kind: str, attributes: str, mesh: tuple[int, int]) -> str:
    return f"""\
      - name: {name}[1..{mesh[0] * mesh[1]}]
        class: {kind}
        attributes: {{{attributes}, has_power_gating: false, n_banks: 2, cluster_size: 1, reduction_supported: true,
          multiple_buffering: 1, min_utilization: 0, allow_overbooking: false, meshX: {mesh[0]}, meshY: {mesh[1]},
          power_gated_at: null}}
        required_actions: [leak, write, read, update]
        enabled: true
"""


_DUMMY = "width: 1, depth: 1, datawidth: 1, technology: -1"
_SPAD = "width: 16, read_bandwidth: 2, write_bandwidth: 2"
DUMP = (
    """\
dumped_by_timeloop_front_end: true
architecture:
  version: '0.4'
  subtree:
  - name: system_top_level
    attributes: {version: '0.4', technology: "SET ME", DATAWIDTH: 8, has_power_gating: false, power_gated_at: null}
    local:
"""
    + _storage("DRAM", "DRAM", "width: 64, datawidth: 8", (1, 1))
    + _storage("shared_glb", "smartbuffer_SRAM", "depth: 16384, width: 64, datawidth: 8, read_bandwidth: 16, "
               "write_bandwidth: 16", (1, 1))
    + _storage("inter_PE_column_spatial", "dummy_storage", _DUMMY, (1, 1))
    + _storage("inter_PE_spatial", "dummy_storage", _DUMMY, (14, 1))
    + _storage("ifmap_spad", "smartbuffer_RF", f"{_SPAD}, depth: 12, datawidth: 8", (14, 12))
    + _storage("weights_spad", "smartbuffer_RF", f"{_SPAD}, depth: 192, datawidth: 8", (14, 12))
    + _storage("psum_spad", "smartbuffer_RF", f"{_SPAD}, depth: 16, datawidth: 16", (14, 12))
    + """\
      - name: mac[1..168]
        class: intmac
        attributes: {multiplier_width: 8, adder_width: 16, meshX: 14, meshY: 12}
        required_actions: [compute]
        enabled: true
architecture_constraints:
  targets:
  - {type: temporal, permutation: N, target: DRAM}
  - {keep: [Inputs, Outputs], bypass: [Weights], type: bypass, target: shared_glb}
  - {type: spatial, factors: 'N=1,C=1,P=1,R=1,S=1', permutation: NCPRSQM, split: 999, target: inter_PE_column_spatial}
  - {factors: 'C=1,M=1,R=1,S=1,N=1,P=1,Q=1', permutation: CMRSNPQ, type: temporal, target: inter_PE_spatial}
  - {bypass: [Weights, Inputs, Outputs], type: bypass, target: inter_PE_spatial}
mapspace: {version: '0.4', template: uber}
mapper: {timeout: 10000}
"""
)  # fmt: skip
DUMP_MAPPING = """\
mapping:
- {target: psum_spad, type: datatype, keep: [Outputs], bypass: [Weights, Inputs]}
- {target: weights_spad, type: datatype, keep: [Weights], bypass: [Inputs, Outputs]}
- {target: ifmap_spad, type: datatype, keep: [Inputs], bypass: [Weights, Outputs]}
- {target: inter_PE_spatial, type: datatype, keep: [], bypass: [Weights, Inputs, Outputs]}
- {target: inter_PE_column_spatial, type: datatype, keep: [], bypass: [Weights, Inputs, Outputs]}
- {target: shared_glb, type: datatype, keep: [Inputs, Outputs], bypass: [Weights]}
- {target: DRAM, type: datatype, keep: [Weights, Inputs, Outputs], bypass: []}
- {target: psum_spad, type: temporal, factors: C1 M8 R1 S1 N1 P1 Q1, permutation: MCRSNPQ}
- {target: weights_spad, type: temporal, factors: C1 M1 R3 S1 N1 P1 Q1, permutation: RCMSNPQ}
- {target: inter_PE_spatial, type: spatial, factors: C3 M1 R1 S3 N1 P1 Q1, permutation: SCMRNPQ, split: 0}
- {target: inter_PE_spatial, type: temporal, factors: C1 M1 R1 S1 N1 P1 Q1, permutation: CMRSNPQ}
- {target: inter_PE_column_spatial, type: spatial, factors: C1 M1 R1 S1 N1 P1 Q14, permutation: QCMRSNP, split: 1}
- {target: shared_glb, type: temporal, factors: C1 M1 R1 S1 N1 P14 Q4, permutation: QPCMRSN}
- {target: DRAM, type: temporal, factors: C1 M4 R1 S1 N1 P8 Q2, permutation: MQPCRSN}
"""
CFG = """\
# A machine, a problem and a mapping of version 0.2.
arch :
{
  arithmetic : { instances = 64; word_bits = 16; meshX = 8; };
  storage = (
    { name = "Registers"; entries = 64; instances = 64; meshX = 8; word_bits = 16; },
    { name = "DummyBuffer"; entries = 0; instances = 8; meshX = 8; },  // a fan-out's own
    { name = "GlobalBuffer"; sizeKB = 128; instances = 1; word_bits = 16; },
    { name = "DRAM"; technology = "DRAM"; instances = 1; word_bits = 16; } );
};
problem : { R = 1; S = 1; P = 56; Q = 2; C = 16; K = 32; N = 1; Wstride = 1; Hstride = 1; Wdilation = 1; };
mapping = (
  { target = 0; type = "datatype"; keep = [ "Weights", "Outputs" ]; bypass = [ "Inputs" ]; },
  { target = 0; type = "temporal"; factors = "R1 S1 P8 Q1 C2 K4 N1"; permutation = "PCK RSQN"; },
  { target = 1; type = "datatype"; keep = [ ]; bypass = [ "Weights", "Inputs", "Outputs" ]; },
  { target = 1; type = "spatial"; factors = "R1 S1 P1 Q1 C8 K1 N1"; permutation = "CKRSPQN"; split = 0; },
  { target = 2; type = "spatial"; factors = "R1 S1 P1 Q1 C1 K8 N1"; permutation = "KCRSPQN"; split = 1; },
  { target = 2; type = "temporal"; factors = "R1 S1 P7 Q2 C1 K1 N1"; permutation = "PQCKRSN"; },
  { target = 3; type = "temporal"; factors = "R1 S1 P1 Q1 C1 K1 N1"; permutation = "PQCKRSN"; } );
"""


def folder_of_files(folder: Path) -> Path:
    """Write the files below a folder, as the exercises lay them out; return the folder."""
    texts = {
        "base.yaml": BASE,
        "layers/0.yaml": LAYER,
        "designs/top.yaml.jinja2": TOP,
        "designs/machines/rows.yaml": ROWS,
        "designs/components/a.yaml": "compound_components: {classes: [{name: smartbuffer_RF}]}\n",
        "designs/components/b.yaml": "compound_components: {classes: [{name: smartbuffer_SRAM}]}\n",
        "map.yaml": ROWS_MAPPING,
        "dump.yaml": DUMP,
        "dump.map.yaml": DUMP_MAPPING,
        "sample.cfg": CFG,
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
