"""OpenScop as C: each statement in the loops and conditions of its domain, in the order that its scattering gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from polymap.inputs import answers_in_words
from polymap.ir import Access, Affine, InputError, Mistake, Operator, Statement, Workload, dim
from polymap.poly import Guard, Instance, Loop, Map, Node, budget, is_output, loops_in_order, missing_bound, relation_of
from polymap.workload.openscop import Relation, Scop, ScopStatement, outputs_of, scop_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_TIMES = "Two instances of a statement never run at one time; `from_openscop(workload, text)` reads other orders."


@answers_in_words
def openscop_to_c(text: str, *, file: str = "the text") -> str:
    """Return C between `#pragma scop` and `#pragma endscop` that runs an OpenScop file's statements in its order.

    Raises InputError (PM437) for a text that is no OpenScop file, (PM438) for domains and scatterings that are no nest,
    (PM439) where a statement's accesses are not those of its text, and what `from_c` raises for texts of statements.
    """
    scop = scop_of(text, file)
    for number, statement in enumerate(scop.statements):
        _check_accesses(number, statement, scop, file)
    with budget(what="the loops of an OpenScop file"):
        times = [(f"S{number}", _times(number, each)) for number, each in enumerate(scop.statements)]
        nodes = loops_in_order(times)
        if not nodes:
            raise InputError(Mistake("PM438", f"{file}: no statement of the OpenScop file has an instance"))
        lines = _Text(scop, dict(times)).lines(nodes, {})
    return "\n".join(("#pragma scop", *lines, "#pragma endscop", ""))


def _check_accesses(number: int, statement: ScopStatement, scop: Scop, file: str) -> None:
    """Refuse a statement whose text accesses other elements than its relations say."""
    from polymap.workload.c import from_c

    loops = " ".join(f"for (int {name} = 0; {name} < 2; {name}++)" for name in statement.iterators)
    sizes = {name: 1009 + 4 * place for place, name in enumerate(scop.parameters)}  # no two sums of a text are equal
    text = f"#pragma scop\n{loops} {statement.body.strip().rstrip(';')};\n#pragma endscop\n"
    words = set(_WORD.findall(text))
    used = {name: size for name, size in sizes.items() if name in words}
    read = from_c(text, used, file=f"{file}, statement {number} as C")
    in_text = {(is_write, access) for each in read.statements for is_write, access in _accesses(each)}
    arrays = {tensor.name for tensor in read.tensors}
    inputs, values = [dim(name) for name in statement.iterators], [Affine((), size) for size in sizes.values()]
    in_file: set[tuple[bool, Access]] = set()
    for relation in statement.accesses:
        if len(relation.parts) != 1:
            raise _refusal(number, f"{relation.kind} has {len(relation.parts)} parts")
        array, *index = outputs_of(relation.parts[0], inputs, values)
        if array.terms or array.constant not in scop.arrays:
            raise _refusal(number, f"{relation.kind} names no array of <arrays> in its first output")
        name = scop.arrays[array.constant]
        if name in arrays:
            in_file.add((relation.kind != "READ", Access(name, tuple(index))))
    if {_as_text(each) for each in in_text} != {_as_text(each) for each in in_file}:
        only = sorted({_as_text(each) for each in in_text} ^ {_as_text(each) for each in in_file})
        what = f"{', '.join(only[:6])}: the text of statement {number} and its relations do not both access this"
        hint = "A tool that changed the accesses has to change the <body> too."
        raise InputError(Mistake("PM439", f"{file}, line {statement.domain.line}: {what}", hint))


def _accesses(statement: Statement) -> Iterator[tuple[bool, Access]]:
    """Yield (is it a write, access) of a statement; accumulating reads, too."""
    yield True, statement.target
    for access in (*statement.reads, *([statement.target] if statement.operator is not Operator.ASSIGN else [])):
        yield False, access


def _as_text(found: tuple[bool, Access]) -> str:
    is_write, access = found
    sums = (Affine(tuple(sorted(each.terms, key=str)), each.constant) for each in access.index)
    index = "".join(f"[{each}]" for each in sums)
    return f"{'write' if is_write else 'read'} of {access.tensor}{index}"


def _refusal(number: int, what: str, hint: str = "") -> InputError:
    return InputError(Mistake("PM438", f"statement {number} of the OpenScop file: {what}", hint))


def _times(number: int, statement: ScopStatement) -> Map:
    """Return { iterators -> times } of a statement's instances."""
    points = _relation(statement.domain).range()
    if (missing := missing_bound(points)) is not None:
        raise _refusal(number, f"its iterator {statement.iterators[missing[0]]} has no {missing[1]} bound")
    times = _relation(statement.scattering).intersect_domain(points)
    if not (times.is_single_valued() and times.is_injective() and times.domain().is_equal(points)):
        raise _refusal(number, "its scattering gives an instance no time, several, or that of another", _TIMES)
    return times


def _relation(relation: Relation) -> Map:
    first = relation.parts[0]
    return relation_of([part.rows for part in relation.parts], first.outputs, first.inputs, first.parameters)


class _Text:
    """Writes loops as C: a loop that is one iterator of all statements inside has its name."""

    def __init__(self, scop: Scop, times: Mapping[str, Map]) -> None:
        self._statements = {f"S{number}": each for number, each in enumerate(scop.statements)}
        self._parameters = {f"p{place}": name for place, name in enumerate(scop.parameters)}
        self._times = times
        words = {word for each in scop.statements for word in _WORD.findall(each.body) if word not in each.iterators}
        self._taken = words.union(scop.parameters)

    def lines(self, nodes: tuple[Node, ...], counters: Mapping[str, str]) -> list[str]:
        """Return the lines of nodes. counters: c0, c1, ... of the loops around -> their names."""
        found: list[str] = []
        for node in nodes:
            match node:
                case Loop(place, start, condition, step, body):
                    inner = {**counters, f"c{place}": self._name(node, counters)}
                    name = inner[f"c{place}"]
                    head = (
                        f"for (int {name} = {self._of(start, inner)}; {self._of(condition, inner)}; {name} += {step})"
                    )
                    found += [f"{head} {{", *self._block(body, inner)]
                case Guard(condition, then, other):
                    found += [f"if ({self._of(condition, counters)}) {{", *self._block(then, counters)]
                    found += ["else {", *self._block(other, counters)] if other else []
                case Instance(name, arguments):
                    statement = self._statements[name]
                    values = zip(statement.iterators, (self._of(each, counters) for each in arguments), strict=True)
                    known = {word: each if _WORD.fullmatch(each) else f"({each})" for word, each in values}
                    found.append(_replaced(statement.body.strip().rstrip(";"), known) + ";")
        return found

    def _block(self, nodes: tuple[Node, ...], counters: Mapping[str, str]) -> list[str]:
        return [*(f"  {line}" for line in self.lines(nodes, counters)), "}"]

    def _of(self, text: str, counters: Mapping[str, str]) -> str:
        return _replaced(text, {**self._parameters, **counters})

    def _name(self, loop: Loop, counters: Mapping[str, str]) -> str:
        """Return the name of a loop: of the one iterator that it is in all statements inside, if that is free."""
        inside = [(self._statements[each].iterators, self._times[each]) for each in _names(loop.body)]
        called = [
            next((name for at, name in enumerate(names) if is_output(times, at, loop.place)), "")
            for names, times in inside
        ]
        taken = {*self._taken, *counters.values(), ""}
        if called[0] not in taken and all(name == called[0] for name in called):
            return called[0]
        fresh = (f"c{number}" for number in range(len(taken) + 1))
        return next(each for each in fresh if each not in taken)


def _names(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield the names of the statements in nodes."""
    for node in nodes:
        match node:
            case Loop():
                yield from _names(node.body)
            case Guard():
                yield from _names((*node.then, *node.other))
            case Instance():
                yield node.name


def _replaced(text: str, known: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: known.get(found[0], found[0]), text)


@answers_in_words
def workload_from_openscop(
    text: str,
    sizes: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    file: str = "the text",
    associative: bool = True,
) -> Workload:
    """Return the loop nest of an OpenScop file: `from_c` of what `openscop_to_c` writes, with values of parameters.

    Raises what these raise; the lines in messages are those of the C text.
    """
    from polymap.workload.c import from_c

    written = openscop_to_c(text, file=file)
    return from_c(written, sizes, name=name or "scop", file=f"{file} as C", associative=associative)
