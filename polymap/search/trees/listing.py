"""All legal structures of a statement's loop trees, one after the other (docs/howto/structures.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table

from polymap.inputs import answers_in_words
from polymap.ir import Architecture, Mistake, OptionError, Workload
from polymap.poly import split
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import any_order_is_legal, check_machine
from polymap.search.problem import AtMost, Rules, analyse, rules_from_document
from polymap.search.trees.structure import MappingStructure, keeps_dependences, signs_of


@answers_in_words
def structures(
    workload: WorkloadLike, arch: ArchitectureLike, constraints: Table[str, object] | None = None
) -> Iterator[MappingStructure]:
    """Yield the legal structures of one statement's loop trees, each once, in an order that is the same each time.

    CP-SAT finds them and forbids what it found; the iterator ends where it proves that none is left. It looks ahead for
    at most as many as were taken, so that the first ones of a large space come at once.

    A structure is legal if some canonical tree with dividing tiles has it and respects the machine (fan-outs' sizes and
    `dims`, `holds`, `must_hold`), the dependences and the constraints. Capacities and `limits` depend on tile sizes: a
    structure's `score` looks at them, the list does not.
    Where dependences restrict the loops, a structure is legal if its plainest tree (`nest`) keeps them.

    constraints: a table as of `explore`. Raises OptionError for mistakes in it, for several statements, and for extents
    whose prime factors are not found; SolverError where CP-SAT ends without an answer.
    """
    workload, arch = question_of(workload, arch)
    check_machine(workload, arch)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    if len(workload.statements) != 1:
        what = f"'{workload.name}' has {len(workload.statements)} statements"
        raise OptionError(Mistake("PM568", what, "Structures are listed of one; ask of each statement by itself."))
    long = [dim.name for dim in workload.dims if not split(dim.extent)[1]]
    if long:
        what = f"the extents of {', '.join(long)} could not be split into primes"
        raise OptionError(Mistake("PM568", what, "Structures have factors of extents; take extents below 10^18."))
    return _structures(workload, arch, rules)


def _structures(workload: Workload, arch: Architecture, rules: Rules) -> Iterator[MappingStructure]:
    from polymap.search.problem import list_structures  # CP-SAT takes half a second to load

    problem = analyse(workload, arch)
    is_free = any_order_is_legal(workload)
    vectors = None if is_free else [[*signs.values()] for signs in signs_of(workload, strict=False)]
    about_structure = tuple(rule for rule in rules if not isinstance(rule, AtMost))
    for found in list_structures(problem, about_structure, vectors):
        (chosen,) = found.statements
        spread = tuple(
            (fanout.name, dim, count)
            for fanout, row in zip(arch.fanouts, chosen.factors, strict=True)
            for dim, count in zip(problem.dims, row, strict=True)
            if count > 1
        )
        pairs = [(level.name, tensor.name) for level in arch.levels[1:] for tensor in workload.tensors]
        held = tuple(pair for pair in pairs if pair in found.held)
        structure = MappingStructure(spread, held, chosen.order, workload, arch, rules)
        if is_free or keeps_dependences(structure):
            yield structure
