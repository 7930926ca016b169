"""Timeloop files written for the tests from the format's documentation: a convolution on a tree of version 0.3, a
product on a list of nodes of version 0.4, and the same questions in polymap's own words."""

from __future__ import annotations

import polymap as pm

CONV_PROBLEM = """\
problem:
  shape:
    name: window
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
      - {name: Wstride, default: 1}
      - {name: Hstride, default: 1}
    data-spaces:
      - name: Weights
        projection:
          - [ [C] ]
          - [ [M] ]
          - [ [R] ]
          - [ [S] ]
      - name: Inputs
        projection:
          - [ [N] ]
          - [ [C] ]
          - [ [R], [P, Wstride] ]
          - [ [S], [Q, Hstride] ]
      - name: Outputs
        projection: [ [[N]], [[M]], [[Q]], [[P]] ]
        read-write: True
  instance: {C: 4, M: 8, R: 3, S: 3, N: 1, P: 4, Q: 6, Wstride: 2, Hstride: 2}
"""
CONV_ARCH = """\
architecture:
  version: 0.3
  subtree:
    - name: system
      local:
        - name: DRAM
          class: DRAM
          attributes: {type: LPDDR4, width: 64, block-size: 4, word-bits: 16, read_bandwidth: 8, write_bandwidth: 4}
      subtree:
        - name: chip
          local:
            - name: Buffer
              class: smartbuffer_SRAM
              attributes: &words {depth: 1024, width: 32, word-bits: 16}
          subtree:
            - name: PE[0..7]
              local:
                - name: Spad
                  class: regfile
                  attributes: {<<: *words, depth: 64, width: 16, meshX: 4}
                - name: MACC
                  class: intmac
                  attributes: {datawidth: 16}
ERT:
  version: 0.3
  tables:
    - name: system.DRAM
      actions: [{name: read, energy: 512}, {name: write, energy: 512}]
    - name: system.chip.Buffer
      actions: [{name: read, energy: 6.5}, {name: update, energy: 7}]
    - name: system.chip.PE[0..7].Spad
      actions: [{name: read, energy: 0.5}, {name: write, energy: 0.5}]
    - name: system.chip.PE[0..7].MACC
      actions: [{name: mac_random, energy: 2.2}]
"""
CONV_MAPPING = """\
mapping:
  - target: DRAM
    type: temporal
    factors: C=1 M=2 R=1 S=1 N=1 P=2 Q=1
    permutation: RSCQNPM
  - target: Buffer
    type: bypass
    keep: [Inputs, Outputs]
    bypass: [Weights]
  - target: Buffer
    type: temporal
    factors: C=2 M=1 R=3 S=1 N=1 P=1 Q=3
    permutation: CQRSNPM
  - target: Buffer
    type: spatial
    factors: C=2 M=4 R=1 S=1 N=1 P=1 Q=1
    permutation: MCRSNPQ
    split: 1
  - target: Spad
    type: temporal
    factors: C=1 M=1 R=1 S=3 N=1 P=0 Q=2
    permutation: SQPCMRN
"""
CONV_CONSTRAINTS = """\
architecture_constraints:
  targets:
    - {target: Buffer, type: bypass, keep: [Inputs], bypass: [Weights]}
    - {target: Buffer, type: spatial, factors: R=1 S=1 Q=1}
"""
GEMM = """\
problem:
  version: 0.4
  shape:
    name: product
    dimensions: [M, N, K]
    data_spaces:
      - {name: A, projection: [[[M]], [[K]]]}
      - {name: W, projection: [[[K]], [[N]]]}
      - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 8, N: 12, K: 6}
architecture:
  version: 0.4
  nodes:
    - !Component
      name: main_memory
      class: DRAM
      attributes: {datawidth: 8, width: 64, shared_bandwidth: 16}
    - !Container
      name: core
    - !Component
      name: buffer
      class: SRAM
      attributes: {datawidth: 8, width: 32, depth: 128}
      constraints: {dataspace: {keep: [A]}}
    - !Container
      name: row
      spatial: {meshX: 4}
    - !Hierarchical
      nodes:
        - !Container
          name: column
          spatial: {meshY: 3}
        - !Component
          name: register
          class: regfile
          attributes: {datawidth: 8, depth: 8, width: 8}
    - !Component
      name: mac
      class: intmac
      spatial: {meshX: 2}
mapping:
  - {target: main_memory, type: temporal, factors: [M=2, N=2], permutation: [M, N]}
  - {target: buffer, type: temporal, factors: [K=3], permutation: [K]}
  - {target: row, type: spatial, factors: [M=4]}
  - {target: column, type: spatial, factors: [N=3]}
  - {target: register, type: temporal, factors: {N: 2}}
  - {target: register, type: dataspace, keep: [A, Z], bypass: [W]}
  - {target: mac, type: spatial, factors: [K=2]}
"""


def native_conv() -> tuple[pm.Workload, pm.Architecture, pm.Mapping]:
    """The convolution without Timeloop's words."""
    workload = pm.einsum(
        "Outputs[N,M,Q,P] += Weights[C,M,R,S] * Inputs[N,C,R+2P,S+2Q]",
        sizes={"C": 4, "M": 8, "R": 3, "S": 3, "N": 1, "P": 4, "Q": 6},
        bits=16,
        name="window",
    )
    dram = {"level": "DRAM", "word_bits": 64, "read_pj": 512, "write_pj": 512}
    dram |= {"read_bandwidth_bits_per_cycle": 128, "write_bandwidth_bits_per_cycle": 64}
    nodes = [
        dram,
        {"level": "Buffer", "word_bits": 32, "capacity_bits": 32768, "read_pj": 6.5, "write_pj": 7},
        {"fanout": "across", "size": 4},
        {"fanout": "down", "size": 2},
        {"level": "Spad", "word_bits": 16, "capacity_bits": 1024, "read_pj": 0.5, "write_pj": 0.5},
        {"compute": "MACC", "pj": 2.2},
    ]
    tree = [
        {"store": "DRAM", "tensors": ["Weights", "Inputs", "Outputs"]},
        {"for": "M", "tile": 4}, {"for": "P", "tile": 2},
        {"store": "Buffer", "tensors": ["Inputs", "Outputs"]},
        {"for": "R", "tile": 1}, {"for": "Q", "tile": 2}, {"for": "C", "tile": 2},
        {"par": "M", "tile": 1, "over": "across"}, {"par": "C", "tile": 1, "over": "down"},
        {"store": "Spad", "tensors": ["Weights", "Inputs", "Outputs"]},
        {"for": "P", "tile": 1}, {"for": "Q", "tile": 1}, {"for": "S", "tile": 1},
        {"compute": "S"},
    ]  # fmt: skip
    arch = pm.io.arch_from_document({"name": "timeloop", "nodes": nodes})
    return workload, arch, pm.io.mapping_from_document({"nodes": tree})
