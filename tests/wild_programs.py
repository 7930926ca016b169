"""Random C functions over a size `n`: triangular, banded, reversed and strided loops, guards, imperfect nests up to 5
deep, variables of loops, arrays that are read and written, and every form of accumulation.

Counters stay from 0 to n + 2 and arrays have 2n + 6 elements along every axis, so that no subscript leaves them. With a
number as size (`size=4`) the text has no parameter: programs of the search. Nothing that C leaves undefined is written:
signed integers stay small, and fractions become integers inside bounds. `lazy`: `?:`, `&&` and `||` about counters
anywhere, with elements outside their arrays on the side that is not evaluated, and subscripts by pieces.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

INTEGERS = ("int", "int", "long", "short", "unsigned")
FRACTIONS = ("double", "double", "float")
LETTERS = "ijklm"
NAMES = (  # words of isl's notation, of Python and sympy, and of what we write
    "max", "min", "floor", "mod", "and", "or", "not", "exists", "rat", "infty", "true", "false", "implies", "ceil",
    "ceild", "floord", "NaN", "nan", "infinity", "MIN", "LEAST", "MOST", "lambda", "None", "def", "pass", "I", "E",
    "S", "N", "Q", "O", "pi", "oo", "zoo", "S0", "S1", "c0", "c1", "c2", "t0", "t1", "p0", "p1", "i0", "o0",
    "pm_min", "pm_max", "pm_floor", "block", "floor_div", "polymap", "x_", "_", "__a", "domain", "schedule",
    "coincident", "i_2", "A_2", "restrict_", "POW",
)  # fmt: skip
MACROS = "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define score(a, b) ((a >= b) ? a : b)\n"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the function; axes 0: a variable that a loop declares, or a parameter."""

    name: str
    type: str
    axes: int

    @property
    def is_fraction(self) -> bool:
        return self.type in FRACTIONS


@dataclass(frozen=True, slots=True)
class Function:
    """A text, the arrays that it is given, the length of their axes, the depth of its nests. whole: no fractions. size:
    what the text calls its size."""

    text: str
    given: tuple[Array, ...]
    length: str
    depth: int
    whole: bool
    size: str = "n"

    def shape(self, array: Array) -> tuple[str, ...]:
        """Return the sizes of an array, as text."""
        return (self.length,) * array.axes


@dataclass(slots=True)
class Writer:
    """Writes one function. size: the text of the size. depth: of the deepest nest. whole: without fractions."""

    rng: random.Random
    size: str
    depth: int
    whole: bool
    narrow: bool = True  # short and unsigned arrays too
    chains: bool = False  # if, else if, else
    lazy: bool = False
    arrays: list[Array] = field(default_factory=list[Array])
    scalars: list[Array] = field(default_factory=list[Array])
    counters: list[str] = field(default_factory=list[str])
    found: int = 0
    left: int = 0  # statements still to write

    def function(self, statements: int) -> Function:
        rng, self.left = self.rng, statements
        for name in "ABCD"[: rng.randint(1, 4)]:
            integers = INTEGERS if self.narrow else ("int",)
            kind = rng.choice(integers if self.whole else (*integers, *FRACTIONS * 2))
            self.arrays.append(Array(name, kind, rng.choice((1, 1, 2, 2))))
        length = f"{2 * int(self.size) + 6}" if self.size.isdigit() else f"2 * {self.size} + 6"
        given = tuple(self.arrays)
        listed = [f"{each.type} {each.name}" + f"[{length}]" * each.axes for each in given]
        body: list[str] = []
        if rng.random() < 0.3:
            body = self.temporary(length)
        while self.left > 0:
            body.append(self.loop() if rng.random() < 0.95 else self.assignment())
        head = ", ".join(([] if self.size.isdigit() else [f"int {self.size}"]) + listed)
        smaller = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n" if self.lazy else ""
        text = f"{MACROS}{smaller}void f({head}) {{\n" + "\n".join(body) + "\n}\n"
        return Function(text, given, length, self.depth, self.whole)

    def temporary(self, length: str) -> list[str]:
        """Return the declaration of an array of the function's own, and loops that give it its first values."""
        own = Array("T", "int" if self.whole else "double", self.rng.choice((1, 2)))
        at = "".join(f"[{i}]" for i in LETTERS[: own.axes])
        loops = "".join(f"for (int {i} = 0; {i} < {length}; {i}++) " for i in LETTERS[: own.axes])
        self.arrays += [own, own]
        return [f"{own.type} T" + f"[{length}]" * own.axes + ";", f"{loops}T{at} = {self.rng.choice(('0', '3', 'i'))};"]

    # --- loops ---

    def block(self) -> str:
        rng, deep = self.rng, len(self.counters)
        form = rng.random()
        if deep < self.depth and form < (0.75 if deep + 1 < self.depth else 0.5):
            return self.loop()
        if form < 0.8:
            return self.assignment()
        if self.chains and rng.random() < 0.7:
            return self.chain()
        first = self.block() if rng.random() < 0.6 else self.assignment()
        other = f" else {{ {self.assignment()} }}" if rng.random() < 0.3 else ""
        return f"if ({self.guard()}) {{ {first} }}{other}"

    def chain(self) -> str:
        """Return a chain of conditions; those of one counter leave some of its values to each of them."""
        parts = [f"if ({self.guard()}) {{ {self.assignment()} }}" for _ in range(self.rng.randint(2, 4))]
        last = [f"{{ {self.assignment()} }}"] if self.rng.random() < 0.8 else []
        return " else ".join((*parts, *last))

    def loop(self) -> str:
        rng = self.rng
        name = LETTERS[len(self.counters)]
        head = self.head(name)
        scalars = list(self.scalars)
        self.counters.append(name)
        inside: list[str] = []
        if rng.random() < 0.2:
            self.found += 1
            kind = rng.choice(("int", "long") if self.whole else ("int", "double", "float"))
            scalar = Array(f"t{self.found}", kind, 0)
            inside.append(f"{kind} {scalar.name} = {self.value(scalar)};")
            self.scalars.append(scalar)
        inside += [self.block() for _ in range(rng.choice((1, 1, 2)))]
        self.counters.pop()
        self.scalars = scalars
        return f"{head} {{\n{chr(10).join(inside)}\n}}"

    def head(self, i: str) -> str:
        """Return the head of a loop over a counter from 0 to n + 2."""
        rng, n = self.rng, self.size
        if self.counters and rng.random() < 0.55:
            o = rng.choice(self.counters)
            return rng.choice((
                f"for (int {i} = 0; {i} <= {o}; {i}++)", f"for (int {i} = 0; {i} < {o}; {i}++)",
                f"for (int {i} = {o}; {i} < {n}; {i}++)", f"for (int {i} = {o} + 1; {i} <= {n}; {i}++)",
                f"for (int {i} = {n} - 1; {i} >= {o}; {i}--)", f"for (int {i} = {o}; {i} >= 0; {i}--)",
                f"for (int {i} = 0; {i} < {n} - {o}; {i}++)", f"for (int {i} = {o}; {i} < {n}; {i} += 2)",
                f"for (int {i} = {o}; {i} <= {o} + 2 && {i} < {n}; {i}++)",
                f"for (int {i} = {o} / 2; 2 * {i} <= {n} + {o}; {i} += 3)" if o == "i" else
                f"for (int {i} = {o} / 2; {i} <= {o}; {i}++)",
            ))  # fmt: skip
        return rng.choice((
            *(f"for (int {i} = 0; {i} < {n}; {i}++)",) * 4, f"for (int {i} = 1; {i} <= {n}; {i}++)",
            f"for (int {i} = 1; {i} < {n} - 1; ++{i})", f"for (int {i} = {n} - 1; {i} >= 0; {i}--)",
            f"for (int {i} = 0; {i} < {n}; {i} += 2)", f"for (int {i} = {n} + 1; {i} > 1; {i} -= 3)",
            f"for (long {i} = 0; {i} < 3; {i}++)",
        ))  # fmt: skip

    def guard(self) -> str:
        rng, n, i = self.rng, self.size, self.rng.choice(self.counters)
        o, low = rng.choice(self.counters), rng.randint(0, 3)
        text = rng.choice((
            f"{i} + {o} < {n}", f"{i} % 2 == 0", f"{i} == {o}", f"{i} != {low}", f"{i} > {low}", f"{i} <= {n} / 2",
            f"({i} + {o}) % 3 != 1", f"2 * {i} >= {o}", f"{i} - {o} <= 1",
        ))  # fmt: skip
        return rng.choice((text, text, f"{text} && {o} > 0", f"!({text})", f"{i} == 0 || {text}"))

    def index(self) -> str:
        """Return a subscript from 0 to 2n + 5."""
        rng, n = self.rng, self.size
        if not self.counters or rng.random() < 0.06:
            return rng.choice(("0", "1", n))
        i, o = rng.choice(self.counters), rng.choice(self.counters)
        if self.lazy and rng.random() < 0.3:
            return rng.choice((
                f"({i} == 0 ? {n} + 1 : {i} - 1)", f"({i} > 0 ? {i} - 1 : 0)", f"MAX({i} - 1, {o})",
                f"({i} >= {n} ? 0 : {i} + 1)", f"MIN({i} + 1, {n})", f"MAX({i} - 2, 0)",
                f"({self.guard()} ? {i} : {o})", f"MIN(MAX({i} + {o} - {n}, 0), {n})",
                f"({i} > {o} ? {i} - {o} : {o} - {i})",
            ))  # fmt: skip
        return rng.choice((
            i, i, i, i, f"{i} + 1", f"{i} + 1", f"{i} + 2", f"{n} + 2 - {i}", f"2 * {i}", f"2 * {i} + 1", f"{i} + {o}",
            f"{i} - {o} + {n} + 2", f"{i} / 2", f"{i} % 3",
        ))  # fmt: skip

    # --- statements ---

    def place(self, array: Array) -> str:
        return array.name + "".join(f"[{self.index()}]" for _ in range(array.axes))

    def assignment(self) -> str:
        rng, self.left = self.rng, self.left - 1
        target = rng.choice([*self.arrays, *self.arrays, *self.scalars])
        place, form = self.place(target), rng.random()
        if form < 0.4:
            return f"{place} = {self.value(target)};"
        if form < 0.7:
            operator = rng.choice(("+=", "+=", "-="))
            return f"{place} {operator} {self.small(target)};"
        if form < 0.78 and (target.is_fraction or target.type == "unsigned"):
            return f"{place} *= {self.small(target)};"
        if form < 0.85:
            return rng.choice(
                (f"{place} = {place} + {self.small(target)};", f"{place} = {place} - {self.small(target)};")
            )
        value = self.small(target)
        forms = (
            f"{place} = {place} > {value} ? {place} : {value};", f"{place} = MAX({place}, {value});",
            f"{place} = score({place}, {value});", f"if ({value} < {place}) {place} = {value};",
            f"{place} = {value} < {place} ? {value} : {place};",
        )  # fmt: skip
        if target.is_fraction:
            forms += (f"{place} = fmax({place}, {value});", f"{place} = fmin({value}, {place});")
        return rng.choice(forms)

    def value(self, target: Array) -> str:
        """Return a value for a target that stays below 10000 where it is a signed integer."""
        if target.is_fraction:
            return self.fraction(2)
        return f"({self.integer(2)}) % {self.rng.choice(('7', '101', '9001', '-13'))}"

    def small(self, target: Array) -> str:
        """Return a value of at most 3 digits where the target is an integer."""
        if target.is_fraction:
            return self.rng.choice((self.fraction(1), self.element(fractions=True), "0.5"))
        return self.rng.choice((f"({self.integer(1)}) % 97", "1", self.rng.choice(self.counters or ["3"])))

    def integer(self, depth: int) -> str:
        """Return an integer expression whose parts stay inside int: elements are cut to 3 digits first."""
        rng = self.rng
        if self.lazy and self.counters and rng.random() < 0.3:
            return self.chosen(f"({self.element(fractions=False)} % 97)", f"{self.near(fractions=False)} % 53")
        if depth == 0 or rng.random() < 0.25:
            forms = [f"({self.element(fractions=False)} % 1009)", *self.counters, str(rng.randint(-9, 9))]
            if not self.whole and rng.random() < 0.3:
                forms = [f"(int)fmax(fmin({self.element(fractions=True)}, 99.5), -99.5)"]
            return rng.choice(forms)
        one, two = self.integer(depth - 1), self.integer(depth - 1)
        return rng.choice((
            f"({one} + {two})", f"({one} - {two})", f"(({one}) % 31 * ({two}))", f"({one}) / {rng.choice((2, 3, -5))}",
            f"({one} < {two} ? {one} : {two})", f"(short)({one})", f"-({one})", f"(unsigned)({one}) % 50u",
        ))  # fmt: skip

    def chosen(self, one: str, other: str) -> str:
        """Return an expression of which a guard decides what is evaluated; other: what may lie outside its array."""
        rng, i, low = self.rng, self.rng.choice(self.counters), 3
        return rng.choice((
            f"({i} >= {low} ? {other.replace('@', f'{i} - {low}')} : {one})", f"({self.guard()} ? {one} : 2)",
            f"({i} < {low} ? {one} : {other.replace('@', f'{i} - {low}')})", f"({self.guard()} && {one})",
            f"({self.guard()} || {i} >= {low} && {other.replace('@', f'{i} - {low}')})",
            f"(({one} > 3 && {i} >= {low}) ? {other.replace('@', f'{i} - {low}')} : 1)",
        ))  # fmt: skip

    def near(self, *, fractions: bool) -> str:
        """Return an element of one of the arrays, at `@` along its first axis."""
        usable = [each for each in self.arrays if each.is_fraction == fractions]
        if not usable:
            return "7"
        array = self.rng.choice(usable)
        return f"{array.name}[@]" + "".join(f"[{self.index()}]" for _ in range(array.axes - 1))

    def fraction(self, depth: int) -> str:
        rng = self.rng
        if self.lazy and self.counters and rng.random() < 0.3:
            return self.chosen(self.element(fractions=True), self.near(fractions=True))
        if depth == 0 or rng.random() < 0.25:
            return rng.choice((self.element(fractions=True), self.element(fractions=True), "0.25", "1.5f", "3"))
        one, two = self.fraction(depth - 1), self.fraction(depth - 1)
        return rng.choice((
            f"({one} + {two})", f"({one} - {two})", f"({one} * {two}) * 0.25", f"({one}) / 3.0", f"fmax({one}, {two})",
            f"({one} < {two} ? {one} : {two})", f"(float)({one})", f"({self.integer(1)} + {one})", f"sqrt(fabs({one}))",
        ))  # fmt: skip

    def element(self, *, fractions: bool) -> str:
        """Return an element or a variable of the kind; a literal where there is none."""
        usable = [each for each in (*self.arrays, *self.arrays, *self.scalars) if each.is_fraction == fractions]
        if not usable:
            return "0.75" if fractions else "5"
        return self.place(self.rng.choice(usable))


def random_function(seed: int, *, lazy: bool = False) -> Function:
    """Return a function over `int n`."""
    rng = random.Random(f"wild {seed}{' lazy' * lazy}")
    depth = rng.choice((1, 2, 2, 3) if lazy else (1, 2, 2, 3, 3, 3, 4, 5))
    writer = Writer(rng, "n", depth, whole=rng.random() < 0.5, lazy=lazy)
    return writer.function(rng.randint(1, 3) if lazy else rng.randint(1, 5))


def random_sized(seed: int, *, lazy: bool = False) -> Function:
    """Return a function of integers without parameters, small enough to look at all its instances."""
    rng = random.Random(f"wild sized {seed}{' lazy' * lazy}")
    depth = rng.choice((1, 2, 2, 3, 3, 4, 5))
    size = {1: 6, 2: 5, 3: 4, 4: 3, 5: 3}[depth]
    return Writer(rng, str(size), depth, whole=True, narrow=False, lazy=lazy).function(rng.randint(1, 4))


def random_counted(seed: int) -> Function:
    """Return a function whose size and loop variables have other integer types, unsigned ones too; it may have loops
    that never end, or that wrap around."""
    found = random_function(seed)
    rng = random.Random(f"wild counted {seed}")
    text = found.text.replace("void f(int n", f"void f({rng.choice(('unsigned char', 'unsigned short', 'unsigned'))} n")
    kinds = ("unsigned", "size_t", "long", "int", "int")
    return replace(found, text=re.sub(r"for \(int ", lambda _: f"for ({rng.choice(kinds)} ", text))


def random_named(seed: int) -> Function:
    """Return a function with chains of conditions whose names are words that mean something elsewhere; some count with
    variables of the function, which they also read where no loop counts them."""
    rng = random.Random(f"wild named {seed}")
    depth = rng.choice((1, 2, 2, 3, 3))
    found = Writer(rng, "n", depth, whole=rng.random() < 0.7, chains=True).function(rng.randint(1, 5))
    if rng.random() < 0.3:
        found = replace(found, text=_late(found, rng))
    words = [*LETTERS, *"ABCDT", "n", *sorted(set(re.findall(r"\bt[0-9]+\b", found.text)))]
    unused = [name for name in NAMES if name not in words]
    new = dict(zip(words, rng.sample(unused, len(words)), strict=True))
    kept = {"n": "n"} if rng.random() < 0.3 else {}
    names = {word: name for word, name in {**new, **kept}.items() if rng.random() < 0.7}
    text = re.sub(r"\b\w+\b", lambda word: names.get(word.group(), word.group()), found.text)
    return replace(found, text=text, size=names.get("n", "n"))


def random_crossed(seed: int) -> Function:
    """Return a function with all at once: macros that are defined again between its nests, conditions of them, counters
    that are read behind loops, and reads that conditions decide."""
    rng = random.Random(f"wild crossed {seed}")
    depth = rng.choice((1, 2, 2, 3))
    found = Writer(rng, "n", depth, whole=True, chains=True, lazy=True).function(rng.randint(1, 4))
    text = _late(found, rng) if rng.random() < 0.5 else found.text
    return replace(found, text=_with_macros(text, rng))


def _with_macros(text: str, rng: random.Random) -> str:
    """Return the same text with numbers written as macros, which stand for others from nest to nest; some lines stand
    in the part of a condition that is taken."""
    lines, value = [], ""
    for line in text.split("\n"):
        is_code = not line.startswith(("#", "void", "int i", "}")) and bool(line)
        if not value or (line.startswith("for") and rng.random() < 0.6):
            lines += ["#undef K"] * bool(value)
            value = rng.choice("123") if is_code else value or "2"
            lines += [f"#define K {rng.choice((value, f'({value})', f'({value} + 0)'))}"]
        new = re.sub(rf"(?<![\w.]){value}(?![\w.])", lambda word: rng.choice((word.group(), "K")), line)
        new = re.sub(r"(?<=[-+] )([ijk])\b", lambda word: rng.choice((word.group(), f"ID({word.group()})")), new)
        own = [new if is_code else line]
        if is_code and line.endswith(";") and not line.startswith("int") and rng.random() < 0.3:
            condition = rng.choice((f"K == {value}", f"defined K && K < {int(value) + 1}", f"!(K - {value})"))
            own = [f"#if {condition}", *own, "#else", line.replace("=", "= 5 +", 1), "#endif"]
        lines += own
    return "\n".join(["#define ID(x) (x)", *lines, "#undef K", "#undef ID", ""])


def _late(function: Function, rng: random.Random) -> str:
    """Return the text with counters of the function, some of which are read behind loops."""
    head, body = function.text.split("{", 1)
    array = rng.choice(function.given)
    place = array.name + "[0]" * array.axes
    lines: list[str] = []
    for line in re.sub(r"for \(int ", "for (", body).split("\n"):
        lines.append(line)
        if line == "}" and rng.random() < 0.5 and len(lines) < body.count("\n"):
            lines.append(f"{place} = {rng.choice(LETTERS[: function.depth])};")
    return f"{head}{{\nint {', '.join(LETTERS)};" + "\n".join(lines)
