"""Laws of the einsum notation, on random affine einsums."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given, strategies as st

from polymap.ir.errors import Mistake, WorkloadError
from polymap.ir.loopnest import Access, Operator, Role, Workload
from polymap.ir.quasi_affine import Affine, affine
from polymap.workload.document import workload_from_document, workload_to_document
from polymap.workload.einsums import einsum
from polymap.workload.notation import access_text, affine_text, einsum_text, read_einsum, read_index

DIMS = ("m", "n2", "_k", "max", "int", "A")
numbers = st.integers(-5, 5) | st.sampled_from([2**31, 2**53 + 1, -(2**63), 10**30])
indices = st.builds(
    lambda terms, constant: affine(tuple(terms), constant),
    st.lists(st.tuples(numbers, st.sampled_from(DIMS)), max_size=4),
    numbers,
)
names = st.sampled_from(("A", "B", "max", "T_1", "x"))
accesses = st.builds(Access, names, st.lists(indices, max_size=3).map(tuple))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw a valid workload with everything a document can say."""
    ranks = {name: draw(st.integers(0, 3)) for name in ("A", "B", "max", "T_1", "x")}

    def access(name: str) -> Access:
        return Access(name, tuple(draw(indices) for _ in range(ranks[name])))

    target, *reads = draw(st.lists(st.sampled_from(tuple(ranks)), min_size=2, max_size=4))
    written = access(target)
    read = [access(name) for name in reads if name != target] or [Access("other", ())]
    kept = {dim for index in written.index for dim in index.dims}
    dims = kept | {dim for each in read for index in each.index for dim in index.dims}
    operator = draw(st.sampled_from(Operator if dims == kept else [Operator.ADD, Operator.MAX, Operator.MIN]))
    operator = Operator.ADD if operator is Operator.MULTIPLY else operator
    tensors = sorted({written.tensor, *(each.tensor for each in read)})
    typed = draw(st.sets(st.sampled_from(tensors)))
    text = f"{access_text(written)} {operator.value} {' * '.join(access_text(each) for each in read)}"
    return einsum(
        text,
        sizes={dim: draw(st.integers(1, 9) | st.sampled_from([2**31 - 1, 2**53 + 1, 10**30])) for dim in dims},
        bits={name: draw(st.integers(1, 64)) for name in tensors if name not in typed},
        types={name: draw(st.sampled_from(("int8", "uint16", "float64"))) for name in typed},
        roles={name: draw(st.sampled_from(Role)).value for name in tensors},
        initial=draw(st.sampled_from([(), (target,)])),
        temporary=draw(st.sets(st.sampled_from(tensors)).map(sorted)),
        associative=draw(st.booleans()),
        name=draw(st.none() | st.text(max_size=20).filter(str.isprintable)),
    )


@given(indices)
def test_an_index_that_is_printed_is_read_back(index: Affine) -> None:
    problems: list[Mistake] = []
    assert read_index(affine_text(index), "here", problems) == index
    assert not problems


@given(workloads(), st.sampled_from(["", " ", "\n  "]))
def test_an_einsum_that_is_printed_is_read_back(workload: Workload, space: str) -> None:
    (statement,) = workload.statements
    text = einsum_text(statement)
    for piece in ",[]*+-":
        text = text.replace(piece, space + piece + space) if piece != "+" or "+=" not in text else text
    reading = read_einsum(text, [])
    assert reading is not None
    assert (reading.target, reading.operator, reading.reads) == (statement.target, statement.operator, statement.reads)


@given(workloads())
def test_a_document_that_is_written_is_read_back(workload: Workload) -> None:
    assert workload_from_document(workload_to_document(workload)) == workload


@pytest.mark.slow
@given(workloads().filter(lambda workload: all(dim.extent <= 9 for dim in workload.dims) and len(workload.dims) <= 3))
def test_tensors_are_the_hull_of_what_is_accessed(workload: Workload) -> None:
    (statement,) = workload.statements
    for tensor in workload.tensors:
        touched = [
            tuple(index.evaluate(dict(zip(statement.dims, point, strict=True))) for index in access.index)
            for access in (statement.target, *statement.reads)
            if access.tensor == tensor.name
            for point in product(*(range(dim.extent) for dim in workload.dims))
        ]
        for axis, (origin, size) in enumerate(zip(tensor.origin, tensor.shape, strict=True)):
            values = [place[axis] for place in touched]
            assert (min(values), max(values)) == (origin, origin + size - 1)


@given(
    st.text(alphabet="CAmk[]()+-*=,2 /%x.\n\u0663", max_size=40),
    st.dictionaries(st.text(max_size=3), st.integers() | st.none()),
)
def test_no_text_raises_anything_but_workload_error(text: str, sizes: dict[str, int]) -> None:
    with suppress(WorkloadError):
        workload = einsum(text, sizes=sizes)
        assert read_einsum(einsum_text(workload.statements[0]), []) is not None
