"""Einsums: what the notation says, and every message about what it cannot say."""

from __future__ import annotations

import numpy as np
import pytest

from polymap.ir.errors import WorkloadError
from polymap.ir.loopnest import Access, Apply, Operator, Read, Role
from polymap.ir.quasi_affine import Affine, Floor
from polymap.workload.einsums import einsum
from polymap.workload.notation import access_text, einsum_text


def index(constant: int = 0, **coefficients: int) -> Affine:
    return Affine(tuple((coefficient, name) for name, coefficient in coefficients.items()), constant)


def problems_of(text: object, **arguments: object) -> list[str]:
    """Return the lines "CODE what" of the error that the einsum raises."""
    with pytest.raises(WorkloadError, match="PM") as caught:
        einsum(text, **arguments)  # type: ignore[arg-type]
    return [f"{problem.code} {problem.what}" for problem in caught.value.mistakes]


def test_a_matrix_product_is_one_statement() -> None:
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32)
    (statement,) = gemm.statements
    assert gemm.extents() == {"m": 512, "n": 256, "k": 32}
    assert statement.name == "S"
    assert statement.dims == ("m", "n", "k")
    assert statement.target == Access("C", (index(m=1), index(n=1)))
    assert statement.operator is Operator.ADD
    assert statement.reads == (Access("A", (index(m=1), index(k=1))), Access("B", (index(k=1), index(n=1))))
    assert statement.expression == Apply("*", (Read(0), Read(1)))
    assert statement.position == (0, 0, 0, 0)
    assert statement.constraints == ()
    assert [(tensor.name, tensor.shape, tensor.origin, tensor.bits, tensor.role) for tensor in gemm.tensors] == [
        ("C", (512, 256), (0, 0), 8, Role.OUTPUT),
        ("A", (512, 32), (0, 0), 8, Role.INPUT),
        ("B", (32, 256), (0, 0), 8, Role.WEIGHT),
    ]
    assert gemm.associative


def test_dims_and_tensors_stand_in_order_of_first_occurrence() -> None:
    workload = einsum("O[q,p] += I[s+p,q] * W[r,s] * I[r,q]", p=2, q=3, r=2, s=4)
    assert tuple(workload.extents()) == ("q", "p", "s", "r")
    assert [tensor.name for tensor in workload.tensors] == ["O", "I", "W"]
    assert workload.statements[0].expression == Apply("*", (Apply("*", (Read(0), Read(1))), Read(2)))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("p", index(p=1)),
        ("2*p+r", index(p=2, r=1)),
        ("p*2 + r", index(p=2, r=1)),
        ("2p+r", index(p=2, r=1)),
        ("2 p + 3 * r", index(p=2, r=3)),
        ("-p+r-3", index(-3, p=-1, r=1)),
        ("+p - r", index(p=1, r=-1)),
        ("p-r+2", index(2, p=1, r=-1)),
        ("r+p", index(r=1, p=1)),
        ("p+p+r", index(p=2, r=1)),
        ("1 + p - r + 2", index(3, p=1, r=-1)),
        ("7", index(7)),
        ("0", index()),
    ],
)
def test_every_index_of_the_grammar_is_read(text: str, expected: Affine) -> None:
    workload = einsum(f"O[p,r] += I[{text}]", p=4, r=3)
    assert workload.statements[0].reads == (Access("I", (expected,)),)


@pytest.mark.parametrize("text", ["s += A[m] * B[m]", "s[] += A[m]*B[m]", " s [ ]\n+= A [ m ] * B[m]"])
def test_scalars_have_no_index(text: str) -> None:
    workload = einsum(text, m=4)
    assert workload.statements[0].target == Access("s", ())
    assert workload.tensor("s").shape == ()
    assert einsum_text(workload.statements[0]) == "s += A[m] * B[m]"


@pytest.mark.parametrize(
    "text, operator",
    [
        ("O[m] += I[m,k]", Operator.ADD),
        ("O[m]max=I[m,k]", Operator.MAX),
        ("O[m] min= I[m,k]", Operator.MIN),
        ("O[m] = I[m]", Operator.ASSIGN),
    ],
)
def test_operators(text: str, operator: Operator) -> None:
    sizes = {"m": 3, "k": 2} if "k" in text else {"m": 3}
    assert einsum(text, sizes=sizes).statements[0].operator is operator


def test_tensors_reach_as_far_as_all_their_accesses() -> None:
    workload = einsum("O[p] += I[p-r+2] * I[2*p] * W[r+3] * Z[7,-p]", p=5, r=3)
    shapes = {tensor.name: (tensor.shape, tensor.origin) for tensor in workload.tensors}
    # p-r+2 in 0..6, 2p in 0..8; r+3 in 3..5; 7 and -p in -4..0
    assert shapes == {"O": ((5,), (0,)), "I": ((9,), (0,)), "W": ((3,), (3,)), "Z": ((1, 5), (7, -4))}
    assert einsum("O[p] += I[p-r]", p=5, r=3).tensor("I").origin == (-2,)


def test_bits_types_and_roles_are_set_per_tensor() -> None:
    workload = einsum(
        "C[m] += A[m,k] * B[k]",
        m=2,
        k=2,
        bits={"B": 4},
        types={"C": "int32"},
        roles={"A": "weight", "B": "input"},
        initial=["C"],
        temporary=("A",),
        associative=False,
        name="mine",
    )
    found = {tensor.name: (tensor.bits, tensor.element_type, tensor.role) for tensor in workload.tensors}
    assert found == {"C": (32, "int32", Role.OUTPUT), "A": (8, None, Role.WEIGHT), "B": (4, None, Role.INPUT)}
    assert [tensor.initial for tensor in workload.tensors] == [True, False, False]
    assert [tensor.temporary for tensor in workload.tensors] == [False, True, False]
    assert (workload.name, workload.associative) == ("mine", False)
    assert {tensor.bits for tensor in einsum("C[m] += A[m]", m=2, bits=16).tensors} == {16}
    assert {tensor.element_type for tensor in einsum("C[m] += A[m]", m=2, types="float32").tensors} == {"float32"}


def test_dims_may_be_called_like_options() -> None:
    assert einsum("C[bits] += A[bits,name]", sizes={"bits": 2, "name": 3}).extents() == {"bits": 2, "name": 3}


def test_numpy_integers_and_huge_sizes_are_integers() -> None:
    workload = einsum("C[m] += A[m]", m=np.int64(4))  # pyright: ignore[reportArgumentType]
    assert type(workload.dims[0].extent) is int
    assert einsum("C[m] += A[3*m]", m=10**30).tensor("A").shape == (3 * 10**30 - 2,)


MISTAKES = [
    (
        "C[m] += A[m*k]",
        {"m": 2, "k": 2},
        "PM202 the product m*k in A[m*k] (column 11) is not affine: it multiplies dims",
    ),
    ("C[m] += A[m*m*2]", {"m": 2}, "PM202 the product m*m*2 in A[m*m*2] (column 11) is not affine: it multiplies dims"),
    ("C[m] += A[m/2]", {"m": 2}, "PM202 'm/2' in A[m/2] (column 11) divides"),
    ("C[m] += A[m%2]", {"m": 2}, "PM202 'm%2' in A[m%2] (column 11) divides"),
    ("C[m] += A[B[m]]", {"m": 2}, "PM202 'B[m]' in A[B[m]] (column 11) reads a tensor inside an index"),
    ("C[m] += A[2*(m+1)]", {"m": 2}, "PM201 '2*(m+1)' in A[2*(m+1)] (column 11) cannot be read"),
    ("C[m] += A[2*3]", {"m": 2}, "PM201 '2*3' in A[2*3] (column 11) cannot be read"),
    ("C[m] += A[m,]", {"m": 2}, "PM201 an index is empty in A[m,]"),
    ("C[m] += A[m+]", {"m": 2}, "PM201 a term is missing in A[m+]"),
    ("C[m] += A[--m]", {"m": 2}, "PM201 a term is missing in A[--m]"),
    ("C[m] += A[m m]", {"m": 2}, "PM202 the product m m in A[m m] (column 11) is not affine: it multiplies dims"),
    ("C[m] += A[1.5]", {"m": 2}, "PM201 '1.5' in A[1.5] (column 11) cannot be read"),
    ("C[m] += A[m", {"m": 2}, "PM201 the bracket after A in column 9 is never closed"),
    ("C[m) += A[m]", {"m": 2}, "PM201 the bracket after C in column 1 is never closed"),
    ("C[m]] += A[m]", {"m": 2}, "PM201 ']' in column 5 is no operator of an einsum"),
    ("C[m] *= A[m]", {"m": 2}, "PM201 '*=' in column 6 is no operator of an einsum"),
    ("C[m] == A[m]", {"m": 2}, "PM201 '==' in column 6 is no operator of an einsum"),
    ("C[m] -> A[m]", {"m": 2}, "PM201 '->' in column 6 is no operator of an einsum"),
    ("C[m]", {"m": 2}, "PM201 the einsum ends before its operator"),
    ("C[m] +=", {"m": 2}, "PM201 the einsum ends too early"),
    ("", {}, "PM201 the einsum ends too early"),
    ("C[m] += A[m] *", {"m": 2}, "PM201 the einsum ends too early"),
    ("C[m] += A[m] + B[m]", {"m": 2}, "PM201 '+' in column 14 cannot stand here"),
    ("C[m] += A[m] B[m]", {"m": 2}, "PM201 'B' in column 14 cannot stand here"),
    ("C[m] += 2 * A[m]", {"m": 2}, "PM201 the number '2' in column 9 is no tensor"),
    ("ﬁ[m] += A[m]", {"m": 2}, "PM201 'ﬁ' in column 1 is no tensor"),
    (None, {}, "PM201 the einsum is null"),
    ("C" * 20001, {}, "PM201 the einsum is 20,001 characters long"),
    ("a" * 65 + "[m] += A[m]", {"m": 2}, f"PM114 the name in column 1 is '{'a' * 60}'..."),
    (
        "C[m] += A[m+" + "9" * 200 + "]",
        {"m": 2},
        f"PM201 an integer in A[m+{'9' * 73}... (column 13) is larger than 10^100",
    ),
    ("C[m] += A[m,k]", {"m": 2}, "PM204 unknown dim k in A[m,k] (column 13): it has no size"),
    ("C[m] += A[m]", {"m": 2, "k": 3}, "PM205 there is no dim 'k' in the einsum, but it has a size"),
    ("C[m] += A[m]", {"m": 2, "sizes": {"m": 3}}, "PM206 the size of m is given twice: 3 and 2"),
    ("C[m] += A[m]", {"m": 0}, "PM207 the size of m is 0"),
    ("C[m] += A[m]", {"m": -5}, "PM207 the size of m is -5"),
    ("C[m] += A[m]", {"m": True}, "PM207 the size of m is true"),
    ("C[m] += A[m]", {"m": 4.0}, "PM207 the size of m is 4.0"),
    ("C[m] += A[m]", {"m": "4"}, "PM207 the size of m is '4'"),
    ("C[m] += A[m]", {"m": 10**5000}, "PM207 the size of m is too large: an integer of about 5001 digits"),
    ("C[m] += C[m-1] * A[m]", {"m": 2}, "PM208 the output C is read on the right, in C[m-1]"),
    ("C[m] += A[m] * A[m,m]", {"m": 2}, "PM209 the number of indices of A is 1 in A[m], but 2 in A[m,m]"),
    ("C[m] = A[m,k]", {"m": 2, "k": 2}, "PM210 = overwrites, but k does not occur in C[m]"),
    (
        "C[m] += A[m+0*k]",
        {"m": 2, "k": 2},
        "PM211 the dim k has no effect: it cancels out in A[m+0*k] (column 15) and occurs in no other access",
    ),
    (
        "C[m] += A[k-k]",
        {"m": 2, "k": 2},
        "PM211 the dim k has no effect: it cancels out in A[k-k] (column 11) and occurs in no other access",
    ),
    ("C[m] += A[m]", {"m": 2, "bits": 0}, "PM212 bits is 0"),
    ("C[m] += A[m]", {"m": 2, "bits": {"A": True}}, "PM212 bits of A is true"),
    ("C[m] += A[m]", {"m": 2, "types": "int9"}, "PM212 types is 'int9'"),
    ("C[m] += A[m]", {"m": 2, "types": {"A": 8}}, "PM212 the type of A is 8"),
    (
        "C[m] += A[m]",
        {"m": 2, "bits": {"A": 8}, "types": {"A": "int32"}},
        "PM212 A has 8 bits and the type int32, which has 32",
    ),
    ("C[m] += A[m]", {"m": 2, "bits": {"D": 8}}, "PM213 bits names 'D', which is no tensor of the workload"),
    ("C[m] += A[m]", {"m": 2, "roles": {"A": "inptu"}}, "PM213 the role of A is 'inptu'"),
    ("C[m] += A[m]", {"m": 2, "roles": "input"}, "PM112 roles is 'input'"),
    ("C[m] += A[m]", {"m": 2, "roles": {"Z": "input"}}, "PM213 roles names 'Z', which is no tensor of the workload"),
    ("C[m] += A[m]", {"m": 2, "initial": ["A"]}, "PM214 initial lists A, which is only read"),
    ("C[m] += A[m]", {"m": 2, "initial": "C"}, "PM112 initial is 'C'"),
    ("C[m] += A[m]", {"m": 2, "initial": ["C", "C"]}, "PM116 initial lists C twice"),
    ("C[m] += A[m]", {"m": 2, "temporary": ["Z"]}, "PM213 temporary names 'Z', which is no tensor of the workload"),
    ("C[m] += A[m]", {"m": 2, "associative": 1}, "PM112 associative is 1"),
    ("C[m] += A[m]", {"m": 2, "name": "a\nb"}, "PM115 the workload's name is 'a\\nb'"),
    ("C[m] += A[m]", {"sizes": 3}, "PM112 sizes is 3"),
]


@pytest.mark.parametrize(
    "text, arguments, message", MISTAKES, ids=[f"{case[2][:5]}-{place}" for place, case in enumerate(MISTAKES)]
)
def test_a_mistake_is_told_by_name_and_place(text: object, arguments: dict[str, object], message: str) -> None:
    assert message in problems_of(text, **arguments)


def test_suggestions_name_what_was_meant() -> None:
    with pytest.raises(WorkloadError, match=r"unknown dim kk in A\[m,kk\] .column 13.*\n.*Did you mean 'k'"):
        einsum("C[m] += A[m,kk]", m=2, k=3)
    with pytest.raises(WorkloadError, match="no dim 'bit'.*\n.*Did you mean 'bits'"):
        einsum("C[m] += A[m]", m=2, bit=3)
    with pytest.raises(WorkloadError, match="'int9'\n.*Did you mean 'int8'"):
        einsum("C[m] += A[m]", m=2, types="int9")


def test_an_access_of_a_c_program_is_printed_with_its_floors() -> None:
    halves = Affine(((1, Floor(index(p=1, constant=1), 2)), (3, "r")))
    assert access_text(Access("I", (halves,))) == "I[floor((p+1)/2)+3*r]"


def test_all_mistakes_are_told_at_once() -> None:
    found = problems_of(
        "C[m,n] += A[m,kk] * B[k*n,n,]", m=1, n=0, k=True, bits={"D": 3}, roles={"A": "x"}, initial=["A"], name="\n"
    )
    assert [problem[:5] for problem in found] == [
        "PM202", "PM201", "PM204", "PM207", "PM207", "PM213", "PM213", "PM214", "PM115",
    ]  # fmt: skip


def test_sizes_are_checked_even_where_the_text_makes_no_sense() -> None:
    assert problems_of("C[m", m=0) == [
        "PM201 the bracket after C in column 1 is never closed",
        "PM207 the size of m is 0",
    ]


def test_very_many_mistakes_are_counted() -> None:
    found = problems_of("C[m] += A[m]", sizes={"m": 1} | {f"x{number}": 0 for number in range(3000)})
    assert len(found) == 101
    assert found[-1] == "PM217 and 5,900 more mistakes"


def test_a_nest_beyond_any_number_is_refused() -> None:
    dims = [f"d{number}" for number in range(11)]
    text = f"C[{','.join(dims)}] += A[d0]"
    assert problems_of(text, **dict.fromkeys(dims, 10**100)) == ["PM216 the loop nest has more than 10^1000 instances"]
