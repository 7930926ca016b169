"""Random C nests whose reads depend on conditions, and what each executed assignment touches, by walking the text.

`?:`, `&&` and `||` stand inside sums, calls, casts, conditions and subscripts; subscripts are clamped, periodic and
otherwise by pieces, of reads and of targets, also through integers that the loops compute. On the side that C does not
evaluate, subscripts leave their arrays. `data`: conditions depend on elements as well.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pycparser import c_ast

from polymap.ir.loopnest import Operator, Workload
from tests.c_interpreter import CProgram
from tests.nests import instances

SIZE = 6
HEAD = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n"
Element = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """One executed assignment: the element that it writes, and how often it reads each."""

    target: Element
    reads: frozenset[tuple[Element, int]]


@dataclass(slots=True)
class Writer:
    rng: random.Random
    data: bool
    counters: list[str] = field(default_factory=list[str])
    integers: list[str] = field(default_factory=list[str])
    found: int = 0

    def program(self) -> str:
        kinds = [self.rng.choice(("int", "double", "short")) for _ in "ABC"]
        listed = f"{kinds[0]} A[{SIZE}], {kinds[1]} B[{SIZE}][{SIZE}], {kinds[2]} C[{SIZE}]"
        body = "\n".join(self.loop() for _ in range(self.rng.choice((1, 1, 2))))
        return f"{HEAD}void f({listed}) {{\n{body}\n}}\n"

    def loop(self) -> str:
        rng, name = self.rng, "ij"[len(self.counters)]
        before = list(self.integers)
        head = rng.choice((
            f"for (int {name} = 0; {name} < {SIZE}; {name}++)", f"for (int {name} = {SIZE - 1}; {name} >= 0; {name}--)",
            f"for (int {name} = 1; {name} < {SIZE - 1}; {name}++)",
            f"for (int {name} = 0; {name} < {SIZE}; {name} += 2)", *self.bounded(name),
        ))  # fmt: skip
        self.counters.append(name)
        inside = [self.integer()] if rng.random() < 0.3 else []
        for _ in range(rng.choice((1, 1, 2))):
            deeper = len(self.counters) < 2 and rng.random() < 0.5
            inside.append(self.loop() if deeper else self.statement())
        self.counters.pop()
        self.integers = before
        return f"{head} {{\n{chr(10).join(inside)}\n}}"

    def bounded(self, name: str) -> tuple[str, ...]:
        """Return heads of loops whose bounds are by pieces."""
        if not self.counters:
            return ()
        o = self.counters[0]
        return (
            f"for (int {name} = MAX({o} - 1, 0); {name} <= MIN({o} + 1, {SIZE - 1}); {name}++)",
            f"for (int {name} = {o} > 1 ? {o} - 2 : 0; {name} < {SIZE}; {name}++)",
            f"for (int {name} = 0; {name} <= ({o} % 2 == 0 ? {o} : {SIZE - 1} - {o}); {name}++)",
            f"for (int {name} = MIN({o} + 1, {SIZE - 1}); {name} >= ({o} > 2 ? 1 : 0); {name}--)",
            f"for (int {name} = {o} % 2 == 0 ? 1 : {o}; {name} < ({o} < 4 ? {SIZE} : {o}); {name} += 2)",
            f"for (int {name} = {o} > 3 ? {SIZE - 1} : MAX({o} - 1, 1); {name} > 0; {name} -= 2)",
        )

    def integer(self) -> str:
        self.found += 1
        name = f"p{self.found}"
        text = f"const int {name} = {self.index(2)};"
        self.integers.append(name)
        return text

    def statement(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            other = f" else {{ {self.assignment()} }}" if rng.random() < 0.4 else ""
            return f"if ({self.condition(1)}) {{ {self.assignment()} }}{other}"
        return self.assignment()

    def assignment(self) -> str:
        place = self.place(rng.choice("ABC") if (rng := self.rng) else "")
        return f"{place} {rng.choice(('=', '=', '+=', '-='))} {self.value(3)};"

    def place(self, array: str) -> str:
        return array + "".join(f"[{self.index(2)}]" for _ in range(2 if array == "B" else 1))

    def index(self, depth: int) -> str:
        """Return a subscript from 0 to SIZE - 1."""
        rng, i, last = self.rng, self.rng.choice([*self.counters, *self.integers]), SIZE - 1
        if not depth or rng.random() < 0.4:
            return rng.choice((i, i, f"{last} - {i}", f"{i} / 2", f"({i} + 2) % {SIZE}", str(rng.randrange(SIZE))))
        inner = self.index(depth - 1)
        return rng.choice((
            f"({i} == 0 ? {last} : {i} - 1)", f"({i} == {last} ? 0 : {i} + 1)", f"({i} > 0 ? {i} - 1 : 0)",
            f"MIN({i} + 1, {last})", f"MAX({i} - 1, 0)", f"MIN(MAX({inner} - 2, 0), {last})", f"max({i} - 2, 0)",
            f"min({inner} + 2, {last})", f"({self.condition(0)} ? {inner} : {self.index(depth - 1)})",
            f"({self.condition(0)} ? {last} - {i} : {i}) / 2", f"({i} < 2 ? {i} + {SIZE} : {i}) - ({i} < 2 ? 4 : 2)",
            f"MAX({i}, {inner})", f"({i} + ({self.condition(0)} ? 1 : {last})) % {SIZE}",
            f"(int)fmin({i} + 1, {last})",
        ))  # fmt: skip

    def condition(self, depth: int) -> str:
        """Return a condition of loop counters."""
        rng, i, o = self.rng, self.rng.choice([*self.counters, *self.integers]), self.rng.choice(self.counters)
        text = rng.choice((
            f"{i} == {rng.randrange(SIZE)}", f"{i} < {rng.randrange(1, SIZE)}", f"{i} > {o}", f"{i} % 2 == 0",
            f"{i} + {o} < {SIZE}", f"{i} != {o}", f"MIN({i}, {o}) > 1", f"{i}", f"!({i} - 2)",
        ))  # fmt: skip
        if not depth:
            return text
        other = self.condition(depth - 1)
        return rng.choice((text, text, f"({text} && {other})", f"({text} || {other})", f"!({text})"))

    def guard(self, depth: int) -> str:
        """Return a condition, which depends on elements as well if the program may."""
        if not self.data or self.rng.random() < 0.4:
            return self.condition(1)
        text, own = self.condition(0), f"{self.place(self.rng.choice('ABC'))} > {self.rng.randint(0, 60)}"
        forms = (own, f"({text} && {own})", f"({own} && {text})", f"({text} || {own})", f"({own} || {text})")
        return self.rng.choice((*forms, f"!({own} && {text})", f"({text} ? {own} : {text})") if depth else forms)

    def far(self) -> str:
        """Return `condition ? element : value` whose element lies outside its array elsewhere."""
        rng, i, rest = self.rng, self.rng.choice(self.counters), self.value(0)
        shift = rng.randint(1, 3)
        return rng.choice((
            f"({i} >= {shift} ? A[{i} - {shift}] : {rest})", f"({i} < {SIZE - shift} ? C[{i} + {shift}] : {rest})",
            f"({i} < {shift} ? {rest} : B[{i} - {shift}][{i}])", f"({i} >= {shift} && A[{i} - {shift}])",
            f"({i} > {SIZE - 1 - shift} || C[{i} + {shift}] > 9)",
            f"(({i} >= {shift} && {self.guard(0)}) ? C[{i} - {shift}] : {rest})",
            f"(!({i} < {shift} || {self.guard(0)}) ? A[{i} - {shift}] : 1)",
        ))  # fmt: skip

    def value(self, depth: int) -> str:
        rng = self.rng
        if not depth or rng.random() < 0.2:
            return rng.choice((self.place("A"), self.place("B"), self.place("C"), rng.choice(self.counters), "2"))
        one, two = self.value(depth - 1), self.value(depth - 1)
        return rng.choice((
            f"({one} + {two})", f"({one} - {two})", f"({self.guard(1)} ? {one} : {two})", f"fabs({one})",
            f"({self.guard(1)} ? {one} : {two})", f"({self.condition(1)} ? {one} : {two})", f"fmax({one}, {two})",
            f"({self.condition(0)} && {one})", f"({self.condition(0)} || {one})", f"(double)({one})",
            f"({self.guard(0)} ? {one} : {self.condition(0)} ? {two} : 3)", self.far(), self.far(),
            f"MAX({self.condition(0)} ? 3 : {one}, {two})" if self.data else f"(-{one})",
        ))  # fmt: skip


def random_nest(seed: int, *, data: bool = False) -> str:
    """Return the text of a seed."""
    return Writer(random.Random(f"lazy {data} {seed}"), data).program()


class Walk(CProgram):
    """Runs a text and notes what each assignment touches; an element outside the arrays is an error."""

    def __init__(self, source: str, kinds: Mapping[str, str], size: int) -> None:
        self.size = size
        plain = "\n".join(line for line in source.split("\n") if not line.startswith("#define M"))
        super().__init__(plain.replace("(int)", "").replace("(double)", "").replace("const int", "int"), {}, kinds)
        self.seen: list[Element] = []
        self.steps: list[Step] = []

    def place(self, node: c_ast.Node) -> Element:
        found = super().place(node)
        assert all(0 <= each < self.size for each in found[1]), found
        return found

    def value(self, node: c_ast.Node) -> float:
        if isinstance(node, c_ast.FuncCall) and node.name.name in ("MIN", "MAX"):  # macros: one operand is read twice
            one, two = node.args.exprs
            first = self.value(one) < self.value(two) if node.name.name == "MIN" else self.value(one) > self.value(two)
            return self.value(one if first else two)
        if isinstance(node, c_ast.ArrayRef):
            found = super().value(node)
            self.seen.append(self.place(node))
            return found
        return super().value(node)

    def write(self, node: c_ast.Node, value: float) -> None:
        seen, self.seen = self.seen, []
        super().write(node, value)
        self.seen = []
        if isinstance(node, c_ast.ArrayRef):
            self.steps.append(Step(self.place(node), frozenset(Counter(seen).items())))
        self.seen = []


def steps_of_text(source: str, kinds: Mapping[str, str], size: int = SIZE) -> Walk:
    """Return the text after it ran; size: of every axis."""
    walk = Walk(source, kinds, size)
    walk.run()
    return walk


def steps_of_workload(work: Workload) -> list[Step]:
    """Return what the instances of a workload touch, in program order; an accumulation reads its target."""
    found: list[Step] = []
    for statement, point in instances(work):
        at = dict(zip(statement.dims, point, strict=True))
        places = [
            (each.tensor, tuple(index.evaluate(at) for index in each.index))
            for each in (statement.target, *statement.reads)
        ]
        read = places[1:] if statement.operator is Operator.ASSIGN else places
        found.append(Step(places[0], frozenset(Counter(read).items())))
    return found
