"""Workloads as JSON, and what WORKLOAD of the command line may be."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from polymap.ir.errors import InputError, WorkloadError
from polymap.ir.loopnest import Access, Workload
from polymap.ir.quasi_affine import Floor, affine
from polymap.workload.attention import attention
from polymap.workload.document import load_workload, workload_from_document, workload_to_document
from polymap.workload.einsum_programs import program
from polymap.workload.einsums import einsum
from polymap.workload.joining import Link, join_nests
from polymap.workload.layers import conv2d, matmul
from polymap.workload.networks import builtin_names, builtin_workload
from tests.programs import random_chain, with_temporaries

# The example of the interface.
GEMM = {
    "name": "gemm",
    "einsum": "C[m,n] += A[m,k] * B[k,n]",
    "sizes": {"m": 512, "n": 256, "k": 32},
    "bits": {"A": 8, "B": 8, "C": 8},
    "roles": {"A": "input", "B": "weight", "C": "output"},
    "initial": [],
    "temporary": [],
    "associative": True,
}


def problems_of(document: object) -> list[str]:
    with pytest.raises(WorkloadError, match="PM") as caught:
        workload_from_document(document)
    return [f"{problem.code} {problem.what}" for problem in caught.value.mistakes]


def test_the_example_of_the_interface_is_read_and_written() -> None:
    workload = workload_from_document(GEMM)
    assert workload == matmul(512, 256, 32, name="gemm")
    assert workload_to_document(workload) == GEMM
    assert list(workload_to_document(workload)) == list(GEMM)


def test_all_fields_but_the_einsum_have_defaults() -> None:
    assert workload_from_document({"einsum": "s = A"}) == einsum("s = A")
    assert workload_from_document({"einsum": "C[m] += A[m]", "sizes": {"m": 3}}) == einsum("C[m] += A[m]", m=3)


LAYERS = [
    einsum("C[m] max= A[m+k-3] * A[-2*k]", m=4, k=5, bits={"A": 4}, types={"C": "float32"}, initial=["C"]),
    einsum("C[m] = A[m]", m=4, temporary=["C"], associative=False, roles={"A": "weight"}),
    einsum("s min= A * B[7]"),
    conv2d(K=4, C=4, H=9, W=9, R=3, S=3, stride=2, padding=1, groups=2, dilation=2),
    conv2d(K=4, C=4, H=9, W=9, R=3, S=3, stride=2, padding=1, skip_padding=True),
    einsum("C[m] += A[m]", m=10**30),
]


@pytest.mark.parametrize("workload", LAYERS, ids=range(len(LAYERS)))
def test_documents_are_read_back(workload: Workload) -> None:
    text = json.dumps(workload_to_document(workload))
    assert workload_from_document(json.loads(text)) == workload


def test_builtin_workloads_are_read_back() -> None:
    for name in builtin_names():
        workload = builtin_workload(name)
        assert workload_from_document(workload_to_document(workload)) == workload


def test_what_is_no_einsum_is_not_written() -> None:
    gemm = matmul(2, 3, 4)
    (statement,) = gemm.statements
    twice = replace(gemm, statements=(statement, statement))
    halved = replace(statement, target=Access("C", (affine(((1, Floor(statement.target.index[0], 2)),)),)))
    for workload in (twice, replace(gemm, statements=(halved,))):
        with pytest.raises(WorkloadError, match="PM231 the workload 'matmul' cannot be written as JSON"):
            workload_to_document(workload)


SQUARE = conv2d(K=2, C=2, H=4, W=4, R=1, S=1)
PROGRAMS = [
    program(["T[m,n] += A[m,k] * B[k,n]", "C[m,n] = max(T[m,n], 0)"], m=4, n=4, k=2, temporary=["T"]),
    program(["C[i] = exp(A[i]) / 2.5 + 0.5 if A[i] > 1 else sqrt(A[i] + 2 * i)"], i=8, types="float32"),
    program(["T[m] = A[m // 2] * 2 + 1", "C[m] += T[m]"], m=8, types={"T": "int32", "A": "int8", "C": "float64"}),
    program(["T[i] = A[2i] - A[2i+1]", "C[] min= T[i]"], i=8, initial=["C"], bits={"C": 17}, associative=False),
    attention(heads=2, queries=4, keys=4, dim=2, softmax="blocks", blocks=2),
    join_nests([SQUARE, conv2d(K=2, C=2, H=4, W=4, R=3, S=3)], [Link(0, 1, "I")], "pair"),
]


@pytest.mark.parametrize("workload", PROGRAMS, ids=range(len(PROGRAMS)))
def test_documents_of_programs_are_read_back(workload: Workload) -> None:
    document = json.loads(json.dumps(workload_to_document(workload)))
    again = workload_from_document(document)
    assert (again, str(again)) == (workload, str(workload))
    for number, statement in enumerate(document["statements"]):
        for field in (*statement, "value", "unknown"):
            for wrong in (..., None, 7, "x[", [], ["system", 0], {"number": "0;"}, [[]]):
                other = {name: value for name, value in statement.items() if name != field or wrong is not ...}
                other |= {} if wrong is ... else {field: wrong}
                statements = [*document["statements"][:number], other, *document["statements"][number + 1 :]]
                try:
                    read = workload_from_document(document | {"statements": statements})
                except WorkloadError:
                    continue
                assert read == workload or field in ("name", "dims", "reads", "value", "position", "constraints"), (
                    field,
                    wrong,
                )


@pytest.mark.parametrize("seed", range(20))
def test_documents_of_random_programs_are_read_back(seed: int) -> None:
    workload = with_temporaries(random.Random(seed), random_chain(random.Random(seed)))
    assert workload_from_document(json.loads(json.dumps(workload_to_document(workload)))) == workload


def test_a_statement_multiplies_what_it_reads_and_follows_those_before_it() -> None:
    first = {"dims": ["m", "n", "k"], "target": "T[m,n]", "operator": "+=", "reads": ["A[m,k]", "B[k,n]"]}
    second = {"dims": ["m", "n"], "target": "C[m,n]", "operator": "=", "reads": ["T[m,n]"] * 2}
    found = workload_from_document({"statements": [first, second], "sizes": {"m": 4, "n": 4, "k": 2}})
    assert found == program(["T[m,n] += A[m,k] * B[k,n]", "C[m,n] = T[m,n] * T[m,n]"], m=4, n=4, k=2)
    with pytest.raises(WorkloadError, match="PM269 T is read before it is set"):
        workload_from_document({"statements": [second, first], "sizes": {"m": 4, "n": 4, "k": 2}})


def test_mistakes_of_a_document_are_told_at_once() -> None:
    document = {
        "einsum": "C[m] += A[m,k]",
        "size": {},
        "sizes": {"m": 3.5, "k": "4"},
        "bits": None,
        "roles": [],
        "initial": {},
        "associative": "yes",
        "name": 7,
        "constraints": ["m*m", "z-1", 3],
    }
    assert problems_of(document) == [
        "PM110 the workload has an unknown field 'size'",
        "PM112 the workload: bits is null",
        "PM202 the product m*m in constraints[0] (column 1) is not affine: it multiplies dims",
        "PM201 constraints[2] is 3",
        "PM207 the size of m is 3.5",
        "PM207 the size of k is '4'",
        "PM204 a constraint names z, which is no dim of the einsum",
        "PM112 roles is a list",
        "PM112 initial is a table",
        "PM115 the workload's name is 7",
        "PM112 associative is 'yes'",
    ]


@pytest.mark.parametrize(
    "document, message",
    [
        ([], "PM112 the workload is a list"),
        ({}, "PM111 the workload lacks the field 'einsum'"),
        ({"einsum": 3}, "PM201 the einsum is 3"),
        ({"einsum": "C[m] += A[m]", "sizes": [3]}, "PM112 the workload: sizes is a list"),
        ({"einsum": "C[m] += A[m]", "sizes": {"m": 3}, "constraints": ["-m-1"]}, "PM218 no statement instance is left"),
    ],
)
def test_a_mistake_of_a_document(document: object, message: str) -> None:
    assert message in problems_of(document)


def test_constraints_cut_the_domain_and_the_tensors() -> None:
    document = {"einsum": "C[i] += A[i,j]", "sizes": {"i": 5, "j": 9}, "constraints": ["i-j", "i-2"]}
    workload = workload_from_document(document)  # j <= i, 2 <= i < 5
    assert workload.tensor("C").shape == (3,)
    assert workload.tensor("C").origin == (2,)
    assert workload.tensor("A").shape == (3, 5)


def test_builtin_names_and_einsums_are_loaded() -> None:
    assert load_workload("resnet50.conv2_x") == builtin_workload("resnet50.conv2_x")
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=5, k=6)
    assert load_workload("C[m,n] += A[m,k] * B[k,n]", ["m=4", "n=5", "k=6"]) == gemm
    assert load_workload("C[m,n] += A[m,k] * B[k,n]", {"m": 4, "n": 5, "k": 6}) == gemm
    assert load_workload("s = A") == einsum("s = A")


def test_files_are_known_by_their_suffix(tmp_path: Path) -> None:
    file = tmp_path / "a=1 [x].JSON"
    file.write_text(json.dumps(GEMM), encoding="utf-8")
    assert load_workload(str(file)) == workload_from_document(GEMM)
    with pytest.raises(InputError, match="PM101 cannot read .*No such file"):
        load_workload(str(tmp_path / "none.json"))
    with pytest.raises(WorkloadError, match="PM232 'layer.toml' is no workload file"):
        load_workload("layer.toml")


def test_c_files_are_read_with_their_sizes(tmp_path: Path) -> None:
    file = tmp_path / "scale.c"
    file.write_text("void scale(float A[N], float B[N]) { for (int i = 0; i < N; i++) A[i] = B[i]; }", encoding="utf-8")
    assert load_workload(str(file), ["N=8"]).extents() == {"i": 8}
    assert load_workload(str(file), {"N": 9}).extents() == {"i": 9}
    file.write_text("void scale(float A[N]) { for (int i = 0; i < N; i++) A[i*i] = 1; }", encoding="utf-8")
    with pytest.raises(WorkloadError, match="scale.c"):
        load_workload(str(file), ["N=8"])


def test_a_wrong_size_is_told_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "gemm.json"
    file.write_text('{"einsum": "C[m] += A[m]",\n "bits": {"m": 8},\n "sizes": {\n  "m": 3.5}}', encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"the size of m is 3.5 \('gemm.json', line 4\)"):
        load_workload(str(file))
    file.write_text('{"einsum": "C[m] += A[m]", "sizes": {"m": 3, "m": 3}}', encoding="utf-8")
    with pytest.raises(InputError, match="PM107 'gemm.json': the key 'm' stands twice"):
        load_workload(str(file))


def test_wrong_words_are_told() -> None:
    with pytest.raises(WorkloadError, match="(?s)PM206 the size of 'm' is given twice.*PM233 'n' is no size"):
        load_workload("C[m] += A[m]", ["m=3", "m=4", "n"])
    with pytest.raises(WorkloadError, match="PM207 the size of m is '1_0'"):
        load_workload("C[m] += A[m]", ["m=1_0"])
    with pytest.raises(WorkloadError, match="PM205 'resnet50.conv2_x' has its sizes, but 'm' is given"):
        load_workload("resnet50.conv2_x", ["m=3"])
    with pytest.raises(WorkloadError, match="PM207 the size of 'N' is 'a'"):
        load_workload("kernel.c", ["N=a"])
    with pytest.raises(WorkloadError, match="PM230 there is no built-in workload ''"):
        load_workload("")
