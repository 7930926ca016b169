"""The loops that run a region at given times: isl's loop structure printed as C, statement bodies unchanged.

Loop counters and bounds are `long`. Names in them are this package's or the program's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polymap.codegen.lower import (
    Binary,
    Block,
    Choice,
    Declare,
    Expr,
    Extreme,
    For,
    If,
    Int,
    Invoke,
    Name,
    Scope,
    Stmt,
    expression as printed,
    in_parts,
)
from polymap.codegen.source.dependences import Conflict, Times, carried_conflict, stays_within
from polymap.codegen.source.region import Region, SourceStatement
from polymap.ir import Mistake, SolverError

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pdiv_q": "/", "pdiv_r": "%", "zdiv_r": "%", "eq": "==", "le": "<=",
    "lt": "<", "ge": ">=", "gt": ">", "and_": "&&", "and_then": "&&", "or_": "||", "or_else": "||",
}  # fmt: skip
OPENMP = "#pragma omp parallel for"
_ARITHMETIC = ("+", "-", "*")


@dataclass(frozen=True, slots=True)
class Names:
    """Identifiers that do not occur in the text: a prefix of loop counters, and macros. apart: of the pragmas before a
    loop whose iterations touch no element in common; single: of one that keeps clang's vectors from a loop.
    part: of the parts in which a maximum is found, and at the head of the names that go with them. likely: of a
    condition that mostly holds."""

    counter: str
    minimum: str
    maximum: str
    floor: str
    apart: str = "APART"
    single: str = "SINGLE"
    part: str = "polymap_part"
    likely: str = "LIKELY"

    def definitions(self) -> tuple[tuple[str, str], ...]:
        """Return (name, lines that define it) of the macros."""
        return (
            (self.minimum, f"#define {self.minimum}(a, b) ((a) < (b) ? (a) : (b))"),
            (self.maximum, f"#define {self.maximum}(a, b) ((a) > (b) ? (a) : (b))"),
            (self.floor, f"#define {self.floor}(n, d) ((n) / (d) - ((n) % (d) < 0))"),
            (self.apart, _APART.format(name=self.apart)),
            (self.single, _SINGLE.format(name=self.single)),
            (self.likely, _LIKELY.format(name=self.likely)),
        )


# gcc 12 lays out a text's own loops behind a condition as they are laid out alone (else 0.8 times as fast).
_LIKELY = """\
#if defined(__GNUC__)
#define {name}(a) __builtin_expect(a, 1)
#else
#define {name}(a) (a)
#endif"""
# clang writes out short loops before it looks for vectors.
_APART = """\
#if defined(__clang__)
#define {name} _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#elif defined(__GNUC__)
#define {name} _Pragma("GCC ivdep")
#else
#define {name}
#endif"""
_SINGLE = """\
#if defined(__clang__)
#define {name} _Pragma("clang loop vectorize(disable)")
#else
#define {name}
#endif"""
_PLAIN = Names("c", "min", "max", "floor")


@dataclass(frozen=True, slots=True)
class LoopPragma:
    """A loop that gets a pragma. position: in the times. statements: inside. independent: its iterations must be.
    optional: it gets none where they are not."""

    position: int
    statements: frozenset[str]
    pragma: str
    independent: bool = True
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Parallel:
    """The loops that become parallel: the outermost possible ones if `outermost`; those of `demanded` in any case.

    clauses: of OpenMP, appended to the pragma of the outermost ones. tiles: the same for loops around complete tiles.
    extremes: loops whose maxima are found in parts.
    least: loops that run fewer instances (the product of bounds on their dims) stay sequential.
    """

    outermost: bool = False
    demanded: tuple[LoopPragma, ...] = ()
    clauses: str = ""
    tiles: str = ""
    least: int = 0
    extremes: tuple[Extreme, ...] = ()


class LoopConflictError(Exception):
    """A loop that must be parallel carries a dependence; it does not leave this package."""

    def __init__(self, conflict: Conflict, pairs: isl.Map) -> None:
        super().__init__(conflict.array)
        self.conflict, self.pairs = conflict, pairs


def isl_loops(region: Region, times: Times, names: Names) -> isl.AstNode:
    """Return isl's AST for every instance of the region, in the order of its times."""
    length = max(each.dim(isl.dim_type.out) for each in times.values())
    whole: isl.UnionMap | None = None
    context = isl.Set.universe(isl.Space.params_alloc(next(iter(times.values())).get_ctx(), 0))
    for each in region.statements:
        part = times[each.name].intersect_domain(each.domain).to_union_map()
        whole = part if whole is None else whole.union(part)
    assert whole is not None
    iterators = isl.IdList.alloc(context.get_ctx(), length)
    for place in range(length):
        iterators = iterators.add(isl.Id(f"{names.counter}{place}", None, context.get_ctx()))
    build = isl.AstBuild.from_context(context).set_iterators(iterators)
    return build.node_from_schedule_map(whole)


def loops_of(
    region: Region,
    times: Times,
    conflicts: Sequence[Conflict],
    parallel: Parallel,
    names: Names,
    node: isl.AstNode | None = None,
) -> Block:
    """Return the loops that run every instance of the region once, in the order of its times. node: isl's AST, if
    known."""
    statements = {each.name: each for each in region.statements}
    printer = _Loops(region, statements, times, conflicts, parallel, names)
    return printer.block(isl_loops(region, times, names) if node is None else node, inside_parallel=False)


def expression_text(value: isl.PwAff, context: isl.Set, names: Names, region: Region) -> str:
    """Return the C text of a function of parameters that is equal to it where the context holds."""
    build = isl.AstBuild.from_context(context)
    found = _Loops(region, {}, {}, (), Parallel(), names).expression(build.expr_from_pw_aff(value))
    return printed(found)


def assumption_of(region: Region, names: Names = _PLAIN) -> str:
    """Return the C condition on the parameters under which the region was read, "" for none."""
    if region.assumed is None:
        return ""
    build = isl.AstBuild.from_context(isl.Set.universe(isl.Space.params_alloc(region.assumed.get_ctx(), 0)))
    return printed(_Loops(region, {}, {}, (), Parallel(), names).expression(build.expr_from_set(region.assumed)))


@dataclass(frozen=True, slots=True)
class _Loops:
    region: Region
    statements: Mapping[str, SourceStatement]
    times: Times
    conflicts: Sequence[Conflict]
    parallel: Parallel
    names: Names

    def block(self, node: isl.AstNode, *, inside_parallel: bool) -> Block:
        match _word(node.get_type()):
            case "block":
                children = node.block_get_children()
                parts = [children.get_at(place) for place in range(children.n_ast_node())]
                return tuple(each for part in parts for each in self.block(part, inside_parallel=inside_parallel))
            case "for_":
                return (self._loop(node, inside_parallel=inside_parallel),)
            case "if_":
                body = self.block(node.if_get_then_node(), inside_parallel=inside_parallel)
                other: Block = ()
                if node.if_has_else_node():
                    other = self.block(node.if_get_else_node(), inside_parallel=inside_parallel)
                return (
                    If(self.expression(node.if_get_cond()), _statements_of_scope(body), _statements_of_scope(other)),
                )
            case "user":
                return (self._instance(node.user_get_expr()),)
            case kind:
                raise SolverError(Mistake("PM511", f"isl gave a node of kind {kind}", "Please report this as a bug."))

    def _loop(self, node: isl.AstNode, *, inside_parallel: bool) -> For | Scope:
        name = str(node.for_get_iterator().get_id().get_name())
        start = self.expression(node.for_get_init())
        if node.for_is_degenerate():
            body = self.block(node.for_get_body(), inside_parallel=inside_parallel)
            return Scope((Declare("const long", name, start), *_statements_of_scope(body)))
        pragma = self._pragma(
            int(name.removeprefix(self.names.counter)), _inside(node), inside_parallel=inside_parallel
        )
        body = self.block(node.for_get_body(), inside_parallel=inside_parallel or bool(pragma))
        end = self.expression(node.for_get_cond())
        assert isinstance(end, Binary) and end.left == Name(name) and end.symbol in ("<", "<=")  # so isl writes loops
        step = self.expression(node.for_get_inc())
        assert isinstance(step, Int)
        loop = For(name, start, end.right, _statements_of_scope(body), pragma, "long", end.symbol, step.value)
        place, inside = int(name.removeprefix(self.names.counter)), _inside(node)
        found = [
            each for each in self.parallel.extremes if each.position == place and inside == frozenset((each.statement,))
        ]
        return in_parts(loop, found[0], self.names.part) if found and not pragma else loop

    def _pragma(self, place: int, inside: frozenset[str], *, inside_parallel: bool) -> str:
        """Return the pragma of a loop; "" for none."""
        asked = self.parallel.demanded
        demanded = [each for each in asked if each.position == place and each.statements & inside]
        if demanded and not demanded[0].independent:
            return demanded[0].pragma
        if not demanded and (inside_parallel or not self.parallel.outermost):
            return ""
        clauses = self.parallel.tiles if inside & set(self.region.stands_for) else self.parallel.clauses
        inside = frozenset(self.region.stands_for.get(each, each) for each in inside)
        least = self.parallel.least
        if not demanded and least and sum(self._work(place, name) for name in inside) < least:
            return ""
        private = self._private(place, inside)
        if demanded and demanded[0].optional:
            private = tuple(each for each in private if self._is_variable(each))
        found = carried_conflict(self.conflicts, self.times, place, inside, private)
        if found is not None and demanded and not demanded[0].optional:
            raise LoopConflictError(*found)
        if found is not None:
            return ""
        if demanded and demanded[0].optional:
            return demanded[0].pragma
        clause = f" private({', '.join(private)})" if private else ""
        return f"{demanded[0].pragma if demanded else OPENMP + clauses}{clause}"

    def _work(self, place: int, name: str) -> int:
        """Return an upper bound on the instances of a statement that one execution of a loop runs."""
        times, domain = self.times[name], self.times[name].domain()
        outer = times.project_out(isl.dim_type.out, place, times.dim(isl.dim_type.out) - place)
        work = 1
        for number in range(domain.dim(isl.dim_type.set)):
            if outer.remove_divs().gist_domain(domain).involves_dims(isl.dim_type.in_, number, 1):
                values = _one_dim(outer, number)
                distances = values.reverse().apply_range(values).deltas()  # of two instances in one iteration around
                span = distances.dim_max_val(0)
            else:
                span = domain.dim_max_val(number).sub(domain.dim_min_val(number))
            if not span.is_int():  # a symbolic size may be large
                return self.parallel.least
            work *= span.to_python() + 1
        return work

    def _private(self, place: int, inside: frozenset[str]) -> tuple[str, ...]:
        """Return the variables, declared in loops, of which each iteration of this loop may have its own copy.

        They are written in the loop, and what it writes is only read in the same iteration.
        """
        references = [each for name in sorted(inside) for each in self.statements[name].references]
        written = {each.array for each in references if each.writes} & self.region.inside
        return tuple(
            name
            for name in sorted(written)
            if all(
                {each.source, each.sink} <= inside and stays_within(each, self.times, place)
                for each in self.conflicts
                if each.array == name
                and {each.source, each.sink} & inside
                and not (each.living is not None and each.living.is_empty())
            )
        )

    def _is_variable(self, name: str) -> bool:
        """Return whether a name is one of a single variable."""
        references = [each for own in self.statements.values() for each in own.references if each.array == name]
        return all(each.elements.dim(isl.dim_type.out) == 0 for each in references)

    def _instance(self, call: isl.AstExpr) -> Stmt:
        """Return an instance of a statement: its body inside constants for the integers that it names."""
        arguments = [call.get_op_arg(place) for place in range(call.get_op_n_arg())]
        statement = self.statements[str(arguments[0].get_id().get_name())]
        values = [self.expression(each) for each in arguments[1:]]
        constants = tuple(
            Declare(f"const {each.type}", each.name, values[each.value] if isinstance(each.value, int) else each.value)
            for each in statement.constants
        )
        return Scope((*constants, statement.body)) if constants else statement.body

    def expression(self, value: isl.AstExpr) -> Expr:
        match _word(value.get_type()):
            case "id":
                name = str(value.get_id().get_name())
                # Compared with an unsigned size, a negative counter would wrap around.
                is_unsigned = self.region.parameters.get(name, "").startswith("unsigned")
                return Name(f"(long){name}" if is_unsigned else name)
            case "int":
                return Int(int(value.get_val().to_str()))
            case _:
                return self._operation(value)

    def _operation(self, value: isl.AstExpr) -> Expr:
        operation = _word(value.get_op_type())
        parts = [self.expression(value.get_op_arg(place)) for place in range(value.get_op_n_arg())]
        if operation in ("min", "max"):
            name = self.names.minimum if operation == "min" else self.names.maximum
            whole = parts[0]
            for each in parts[1:]:
                whole = Invoke(name, (whole, each))
            return whole
        if operation == "minus":
            return Int(-parts[0].value) if isinstance(parts[0], Int) else Binary("-", Int(0), self._as_long(parts[0]))
        if operation == "fdiv_q":
            return Invoke(self.names.floor, (parts[0], parts[1]))
        if operation in ("cond", "select"):
            return Choice(*parts)
        symbol = _SYMBOLS[operation]
        if symbol not in _ARITHMETIC:
            return Binary(symbol, parts[0], parts[1])
        return Binary(symbol, self._as_long(parts[0]), self._as_long(parts[1]))

    def _as_long(self, value: Expr) -> Expr:
        """Return the value as a `long`: sums of parameters may exceed their own type."""
        if isinstance(value, Name) and self.region.parameters.get(value.text, "long") != "long":
            return Name(f"(long){value.text}")
        return value


def _statements_of_scope(block: Block) -> Block:
    """Return the statements of a block that is one scope; the braces of a loop suffice for it."""
    return block[0].body if len(block) == 1 and isinstance(block[0], Scope) else block


def _word(kind: object) -> str:
    """Return the name of a member of one of isl's enumerations."""
    return str(kind).rpartition(".")[2]


def _one_dim(outer: isl.Map, number: int) -> isl.Map:
    """Return { times -> one dim } from { dims -> times }."""
    reverse = outer.reverse()
    after = reverse.dim(isl.dim_type.out) - number - 1
    return reverse.project_out(isl.dim_type.out, number + 1, after).project_out(isl.dim_type.out, 0, number)


def _inside(node: isl.AstNode) -> frozenset[str]:
    """Return the names of the statements below a node."""
    found: set[str] = set()

    def visit(each: isl.AstNode) -> bool:
        if _word(each.get_type()) == "user":
            found.add(str(each.user_get_expr().get_op_arg(0).get_id().get_name()))
        return True

    node.foreach_descendant_top_down(visit)
    return frozenset(found)
