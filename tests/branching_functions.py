"""Random C functions with what `wild_programs` leaves out: branches on data with several statements, else and loops,
switches, `while` and `for (;;)`, calls of the file's functions, integers counted beside loops (also wrapped around),
pointers to arrays, returned values, and arrays of every integer type.

Counters stay from 0 to n + 2, counted integers from 0 to n + 5, and arrays have 2n + 6 elements along every axis.
Divisors in branches are zero in other instances.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.wild_programs import LETTERS, MACROS, Array, Function, Writer

NARROW = ("char", "signed char", "unsigned char", "short", "unsigned short", "int", "int8_t", "uint8_t", "uint16_t")


@dataclass(slots=True)
class BranchingWriter(Writer):
    """moving: counted integers in scope. waiting: statements that change them, still to write in the loop's body."""

    moving: list[str] = field(default_factory=list[str])
    waiting: list[list[str]] = field(default_factory=list[list[str]])
    helped: Array | None = None  # the array that a function of the file changes
    helper: str = ""
    pointers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # name, kind of its elements

    def text(self, seed: int, statements: int) -> Function:
        rng, self.left = self.rng, statements
        for name in "ABCD"[: rng.randint(2, 4)]:
            kinds = NARROW if self.whole else (*NARROW, "float", "double", "float", "double")
            self.arrays.append(Array(name, rng.choice(kinds), rng.choice((1, 1, 2))))
        length = f"{2 * int(self.size) + 6}" if self.size.isdigit() else f"2 * {self.size} + 6"
        given = tuple(self.arrays)
        sized = not self.size.isdigit()
        returns = rng.random() < 0.4
        kind = rng.choice(("int", "long", "unsigned char") if self.whole else ("float", "double"))
        body = self.pointed(given)
        flat = [each for each in self.arrays if each.axes == 1 and not each.is_fraction]
        if flat and rng.random() < 0.4:
            self.helped = rng.choice(flat)
            does = "{ a[at] = a[at] % 50 + by % 9; }"
            self.helper = f"static void bump_{seed}({self.helped.type} a[], int at, int by) {does}\n"
        if returns:
            self.scalars.append(Array("total", kind, 0))
            body.append(f"{kind} total = {rng.randint(0, 3)};")
        while self.left > 0:
            body.append(self.loop())
        listed = [f"{each.type} {each.name}" + f"[{length}]" * each.axes for each in given]
        head = ", ".join(([f"int {self.size}"] if sized else []) + listed)
        inner, outer = "\n".join(body), ""
        if not returns:
            return Function(
                f"{MACROS}{self.helper}void f({head}) {{\n{inner}\n}}\n", given, length, self.depth, self.whole
            )
        result = rng.choice(("total", "total + 1", "-total"))
        text = f"{MACROS}{self.helper}static {kind} g_{seed}({head}) {{\n{inner}\nreturn {result};\n}}\n"
        if sized:
            shown = Array("R", kind, 1)
            passed = ", ".join([self.size, *(each.name for each in given)])
            outer = f"void f({head}, {kind} R[{length}]) {{ R[0] = g_{seed}({passed}); }}\n"
            given = (*given, shown)
        return Function(text + outer, given, length, self.depth, self.whole)

    def pointed(self, given: tuple[Array, ...]) -> list[str]:
        """Return declarations of pointers to arrays that nothing else names."""
        rng, found = self.rng, list[str]()
        for number, each in enumerate(given):
            if rng.random() < 0.2 and len(self.arrays) > 1:
                self.arrays.remove(each)
                row = f"[{rng.randint(0, 2)}]" * (each.axes - 1)
                origin = rng.choice((f"{each.name}{row}", f"{each.name}{row} + 2", f"&{each.name}{row}[{self.size}]"))
                found.append(f"{each.type} *p{number} = {origin};")
                self.pointers.append((f"p{number}", each.type))
        return found

    # --- loops ---

    def loop(self) -> str:
        rng = self.rng
        self.found += 1
        name = f"{LETTERS[len(self.counters)]}{self.found}"
        scalars, moving = list(self.scalars), list(self.moving)
        before, changes = self.counted(name)
        self.waiting.append(changes)
        self.counters.append(name)
        inside: list[str] = []
        if rng.random() < 0.2:
            kind = rng.choice(("int", "long") if self.whole else ("int", "double", "float"))
            scalar = Array(f"t{self.found}", kind, 0)
            inside.append(f"{kind} {scalar.name} = {self.value(scalar)};")
            self.scalars.append(scalar)
        inside += [self.block() for _ in range(rng.choice((1, 2, 2)))]
        for change in changes:
            inside.insert(
                rng.randint(len(inside) - 1 if "=" in change and "+=" not in change else 0, len(inside)), change
            )
        self.counters.pop()
        self.waiting.pop()
        self.scalars, self.moving = scalars, moving
        return "\n".join([*before, self.written(name, inside)])

    def counted(self, name: str) -> tuple[list[str], list[str]]:
        """Return the declaration of an integer that a loop counts, and the statement that changes it."""
        rng, n, k = self.rng, self.size, f"k{self.found}"
        if rng.random() > 0.6:
            return [], []
        start, change = rng.choice((
            (f"{rng.randint(0, 1)}", f"{k}++;"), (f"{rng.randint(0, 1)}", f"{k} += 1;"), (f"{n} + 4", f"{k}--;"),
            (f"{n} - 1 + 1", f"{k} = {name};"), ("0", f"if ({self.data_test()}) {{ {k}++; }} else {{ {k} += 1; }}"),
        ))  # fmt: skip
        self.moving.append(k)
        kind = rng.choice(("int", "int", "long"))
        return [f"{kind} {k} = {start};"], [change]

    def written(self, i: str, inside: list[str]) -> str:
        """Return a loop over a counter from 0 to n + 2 in one of C's forms."""
        rng, n, form = self.rng, self.size, self.rng.random()
        body = "\n".join(inside)
        if form < 0.55 or len(self.counters) > 1:
            return f"{self.head(i)} {{\n{body}\n}}"
        if form < 0.7:
            return f"int {i} = {rng.randint(0, 1)};\nwhile ({i} < {n}) {{\n{body}\n{i}++;\n}}"
        if form < 0.8:
            return f"int {i} = -1;\nwhile ({i} < {n} - 1) {{\n{i} += 1;\n{body}\n}}"
        if form < 0.9:
            return f"int {i} = {n};\nfor (;;) {{\nif ({i} < 0) break;\n{body}\n{i} -= {rng.randint(1, 3)};\n}}"
        return f"int {i} = 0;\nfor (; {i} <= {n}; {i} += 2) {{\n{body}\n}}"

    # --- branches ---

    def block(self) -> str:
        rng, form = self.rng, self.rng.random()
        if form < 0.45:
            return super(BranchingWriter, self).block()
        if form < 0.55:
            cases = [f"case {number}: {self.several()} break;" for number in range(rng.randint(1, 2))]
            last = f"default: {self.several()}" if rng.random() < 0.7 else ""
            return f"switch (({self.element(fractions=False)}) % 3) {{ {' '.join(cases)} {last} }}"
        other = f" else {{ {self.several()} }}" if rng.random() < 0.5 else ""
        if rng.random() < 0.2:
            other = f" else if ({self.data_test()}) {{ {self.several()} }}" + other
        return f"if ({self.data_test()}) {{ {self.several()} }}{other}"

    def several(self) -> str:
        rng = self.rng
        found = [self.assignment() for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.2:
            found.append(f"if ({self.data_test()}) {{ {self.assignment()} {self.assignment()} }}")
        if rng.random() < 0.2 and self.counters:
            found.insert(0, f"if ({self.guard()}) {{ {self.assignment()} }} else {{ {self.assignment()} }}")
        if rng.random() < 0.15 and len(self.counters) < self.depth:
            found.append(self.loop())
        if rng.random() < 0.15:
            divisor = self.element(fractions=False)
            target = rng.choice([each for each in self.arrays if not each.is_fraction] or [Array("total", "int", 0)])
            if target.name != "total" or any(each.name == "total" for each in self.scalars):
                found.append(f"if ({divisor} != 0) {{ {self.place(target)} = 100 / ({divisor}); }}")
        return " ".join(found)

    def data_test(self) -> str:
        rng = self.rng
        tests = [
            f"{self.element(fractions=False)} > {rng.randint(-3, 40)}",
            f"{self.element(fractions=False)} % 3 == 0",
        ]
        if any(each.is_fraction for each in (*self.arrays, *self.scalars)):
            tests += [f"{self.element(fractions=True)} <= {rng.randint(-20, 40)}.5"] * 2
        test = rng.choice(tests)
        if self.counters and rng.random() < 0.3:
            return rng.choice((f"{test} && {self.guard()}", f"({self.guard()}) || {test}"))
        return rng.choice((test, test, f"!({test})", f"{test} && {rng.choice(tests)}"))

    # --- places ---

    def index(self) -> str:
        if self.moving and self.rng.random() < 0.4:
            k = self.rng.choice(self.moving)
            return self.rng.choice((k, k, f"{k} / 2"))
        return super(BranchingWriter, self).index()

    def element(self, *, fractions: bool) -> str:
        usable = [name for name, kind in self.pointers if (kind in ("float", "double")) == fractions]
        if usable and self.counters and self.rng.random() < 0.3:
            return f"{self.rng.choice(usable)}[{self.rng.choice(self.counters)}]"
        return super(BranchingWriter, self).element(fractions=fractions)

    def assignment(self) -> str:
        if self.pointers and self.counters and self.rng.random() < 0.15:
            name, kind = self.rng.choice(self.pointers)
            self.left -= 1
            return f"{name}[{self.rng.choice(self.counters)}] = {self.value(Array(name, kind, 1))};"
        if self.helped is not None and self.counters and self.rng.random() < 0.2:
            self.left -= 1
            name = self.helper.split("(")[0].split()[-1]
            return f"{name}({self.helped.name}, {self.index()}, {self.rng.choice(self.counters)} + 2);"
        return super(BranchingWriter, self).assignment()


def branching_function(seed: int) -> Function:
    """Return a function over `int n`."""
    rng = random.Random(f"branching {seed}")
    writer = BranchingWriter(rng, "n", rng.choice((1, 2, 2, 3)), whole=rng.random() < 0.5)
    return writer.text(seed, rng.randint(1, 2))


def branching_program(seed: int) -> str:
    """Return a function without parameters of size, small enough to run all its instances."""
    rng = random.Random(f"branching program {seed}")
    writer = BranchingWriter(rng, "4", rng.choice((1, 2, 2)), whole=rng.random() < 0.5)
    return writer.text(seed, rng.randint(1, 4)).text
