"""The arrays of a C program: shapes, element types, and whether they hold values before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polymap.ir import Access, Affine, Dim, Role, Statement, Tensor, Workload, bounds, evaluated_reads, written_tensors
from polymap.poly import budget, dim_bounds, first_point, function, integer_set
from polymap.workload.c.assign import Variable
from polymap.workload.c.tree import Complaints
from polymap.workload.c.types import bits_of
from polymap.workload.dependence_analysis import unset_read


@dataclass(frozen=True, slots=True)
class Site:
    """What messages need to name an instance: the dims by name and each statement's line."""

    dims: Mapping[str, Dim]
    lines: Mapping[str, int]

    def text(self, statement: Statement, counters: Sequence[int]) -> str:
        """Return `S0[i=3, j=4]` with the user's own loop values."""
        pairs = zip((self.dims[name] for name in statement.dims), counters, strict=True)
        values = (f"{each.name}={each.origin + each.step * counter}" for each, counter in pairs)
        return f"{statement.name}[{', '.join(values)}]"


def tensors_of(
    statements: Sequence[Statement], variables: Mapping[str, Variable], site: Site, complaints: Complaints
) -> tuple[Tensor, ...]:
    """Return the tensors in order of first occurrence, targets first; subscripts outside their arrays are reported.

    Undeclared sizes are those that the accesses reach. The first array that is only read is the input, others
    are weights.
    """
    accesses: dict[str, list[tuple[Statement, Access]]] = {}
    for statement in statements:
        for access in (statement.target, *statement.reads):
            accesses.setdefault(access.tensor, []).append((statement, access))
    written = {statement.target.tensor for statement in statements}
    arrays_read = [name for name in accesses if name not in written and variables[name].shape]
    tensors: list[Tensor] = []
    for name, listed in accesses.items():
        variable = variables[name]
        element_type = variable.element_type
        around = tuple(site.dims[each].extent for each in variable.around)
        axes = [_axis(place, size, listed, site, complaints) for place, size in enumerate((*around, *variable.shape))]
        role = Role.OUTPUT if name in written else Role.INPUT if arrays_read[:1] == [name] else Role.WEIGHT
        bits = bits_of(element_type)
        origin, shape = tuple(low for low, _ in axes), tuple(high - low + 1 for low, high in axes)
        tensors.append(Tensor(name, shape, origin, bits, role, element_type, temporary=variable.temporary))
    return tuple(tensors)


def with_initial(workload: Workload, variables: Mapping[str, Variable], site: Site, complaints: Complaints) -> Workload:
    """Return the workload with `initial` set for the written tensors that are read somewhere before they are set.

    A temporary that is read before it is set is reported.
    """
    tensors: list[Tensor] = []
    written = written_tensors(workload)
    for tensor in workload.tensors:
        if tensor.temporary and tensor.name not in written:
            line = variables[tensor.name].line
            complaints.add("PM269", line, f"'{tensor.name}' is read but never set", "Make it a parameter, or set it.")
        found = unset_read(workload, tensor.name)
        if found is not None and tensor.temporary:
            statement, counters = found
            what = f"'{tensor.name}' is read before it is set, first in {site.text(statement, counters)}"
            hint = f"It is declared inside (line {variables[tensor.name].line}): set it first, or make it a parameter."
            complaints.add("PM269", site.lines[statement.name], what, hint)
        tensors.append(replace(tensor, initial=found is not None and not tensor.temporary))
    return replace(workload, tensors=tuple(tensors))


def _axis(
    place: int, size: int | None, listed: Sequence[tuple[Statement, Access]], site: Site, complaints: Complaints
) -> tuple[int, int]:
    """Return the least and largest index of an axis: as declared, or as far as the accesses reach."""
    ranges: list[tuple[int, int]] = []
    for statement, access in listed:
        index = access.index[place]
        extents = {name: site.dims[name].extent for name in statement.dims}
        low, high = bounds(index, extents)
        if size is not None and low >= 0 and high < size:
            continue
        if index.terms and (statement.constraints or not index.is_linear):
            low, high = _exact_range(statement, index, extents)
        ranges.append((low, high))
        if size is not None and (low < 0 or high >= size):
            _complain(statement, access, place, size, extents, site, complaints)
    if size is not None:
        return 0, size - 1
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _exact_range(statement: Statement, index: Affine, extents: Mapping[str, int]) -> tuple[int, int]:
    with budget(what="the range of a subscript"):
        points = integer_set("S", extents.items(), statement.constraints)
        return dim_bounds(points.apply(function("S", statement.dims, [index])))[0]


def _complain(
    statement: Statement,
    access: Access,
    place: int,
    size: int,
    extents: Mapping[str, int],
    site: Site,
    complaints: Complaints,
) -> None:
    """Report the first instance whose subscript leaves the declared size."""
    index = access.index[place]
    with budget(what="whether a subscript stays inside its array"):
        for outside in (-index - 1, index - size):
            found = first_point(integer_set("", extents.items(), (*statement.constraints, outside)))
            if found is not None:
                values = dict(zip(statement.dims, found, strict=True))
                element = access.tensor + "".join(f"[{each.evaluate(values)}]" for each in access.index)
                what = (
                    f"{site.text(statement, found)} touches {element}, but axis {place} has the indices 0 to {size - 1}"
                )
                complaints.add("PM270", site.lines[statement.name], what, _outside_hint(statement, access))
                return


def _outside_hint(statement: Statement, access: Access) -> str:
    certain = [statement.target, *(statement.reads[number] for number in evaluated_reads(statement.expression))]
    data = "" if access in certain else " A condition on data does not prove that it is not read."
    return f"Change the bounds or the declared size.{data}"
