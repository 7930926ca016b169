"""The same question twice: the same answer, whatever the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NEST = """
import polymap as pm
product = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=6, k=4)
found = pm.explore(product, "cluster4", "edp", tiles="divide", time_limit_s=600)
print(found.status, found.value, found.bound, found.mapping_text(), found.work)
"""

FUSED = """
import polymap as pm
edge = pm.io.arch_from_document({"name": "edge", "nodes": [
    {"level": "DRAM", "word_bits": 32, "read_pj": 200, "write_pj": 200},
    {"level": "SRAM", "word_bits": 32, "capacity_bits": "64 KiB", "read_pj": 6, "write_pj": 6},
    {"fanout": "X", "size": 16}, {"fanout": "Y", "size": 16},
    {"level": "RF", "word_bits": 32, "capacity_bits": "256 B", "read_pj": 1, "write_pj": 1},
    {"compute": "PE", "pj": 1}]})
attention = pm.program(
    ["S[h,m,n] += Q[h,m,e] * K[h,n,e]", "M[h,m] max= S[h,m,n]", "P[h,m,n] = exp(S[h,m,n] - M[h,m])",
     "L[h,m] += P[h,m,n]", "C[h,m,e] += P[h,m,n] * V[h,n,e]", "Z[h,m,e] = C[h,m,e] / L[h,m]",
     "A[m,d] += Z[h,m,e] * WO[h,e,d]", "R[m,d] = X[m,d] + A[m,d]"],
    h=4, m=256, n=256, e=16, d=64, temporary=list("SMPLCZA"), types="float32",
)
found = pm.explore(attention, edge, tiles="divide", time_limit_s=3600, work_limit=5000)
print(found.status, found.value, found.bound, found.mapping_text(), found.work)
"""

TEXT = """
import polymap as pm
text = '''
for (int i = 0; i < alpha + beta; i++)
  for (int j = 0; j < gamma * delta; j++)
    A[i][j] = w * B[i + zeta][j + eta] + u * v * B[i][j];
'''
print(pm.from_c(text, sizes=dict(alpha=3, beta=2, gamma=2, delta=3, zeta=1, eta=4)))
for wrong in ("for (i = 0; i < q * r; i += s * t) A[i] = A[i * x + A[y * z]];", "x = 1; x += y * z; A[x * q] = w;"):
    try:
        print(pm.from_c(wrong))
    except pm.errors.PolymapError as error:
        print(error)
"""

QUESTIONS = {"nest and text": NEST + TEXT, "fused": FUSED}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["nest and text", pytest.param("fused", marks=pytest.mark.soak)])
def test_the_answer_does_not_depend_on_the_seed_of_hashes(asked: str) -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", QUESTIONS[asked]],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(answers) == 1
    assert answers != {""}
