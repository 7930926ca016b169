"""Random C programs: every type, every form of assignment, mixed types, casts and literals of every type.

What C leaves undefined is mostly kept out: divisors are literals or elements of an array that is only read (all trial
values of a program that divides are positive), fractions that become integers are small.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

INTEGER_TYPES = (
    "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long",
    "long long", "unsigned long long", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t",
    "uint64_t", "short int", "long unsigned int", "size_t",
)  # fmt: skip
TYPES = (*INTEGER_TYPES, *("float", "double") * 5)
COUNTER_TYPES = ("int", "int", "int", "unsigned", "size_t", "short", "signed char", "uint8_t", "long", "int64_t")
LITERALS = (
    "0", "1", "2", "3", "7", "-1", "-5", "127", "128", "200", "255", "256", "1000", "32767", "40000", "65536", "0x7F",
    "0xFF", "0377", "3u", "250u", "4000000000", "4294967295u", "5L", "7ul", "2147483647", "2147483648", "0x80000000",
    "9LL", "0xFFFFFFFFu", "1ull",
)  # fmt: skip
FRACTIONS = ("0.5", "0.5f", "1.25", "0.1", "0.1f", "2.0", "3.f", ".75", "1e-1", "1.5e0f")
DIVISORS = ("2", "3", "5", "7u", "-3", "2L", "3ul", "2.0", "1.5f", "0.5", "10")
EXTENT = 14
AXES = (EXTENT,), (EXTENT, EXTENT), ()


@dataclass(frozen=True, slots=True)
class Array:
    name: str
    type: str
    axes: int

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")


@dataclass(slots=True)
class Writer:
    """Writes one program. counters: loop variables in scope with their least and largest values."""

    rng: random.Random
    arrays: list[Array] = field(default_factory=list[Array])
    divisor: Array = Array("D", "int", 1)  # frozen
    fractions: Array = Array("F", "double", 1)
    counters: dict[str, tuple[str, int, int]] = field(default_factory=dict[str, tuple[str, int, int]])
    scalars: list[Array] = field(default_factory=list[Array])
    names: int = 0
    statements: int = 0
    lazy: bool = False  # conditions of counters inside expressions and subscripts

    def program(self) -> str:
        rng = self.rng
        for name in "ABCE"[: rng.randint(2, 4)]:
            self.arrays.append(Array(name, rng.choice(TYPES), rng.choice((0, 1, 1, 1, 2, 2))))
        self.divisor = Array("D", rng.choice(TYPES), 1)
        self.fractions = Array("F", rng.choice(("float", "double")), 1)
        body = "\n".join((self.loop(0), *(self.block(0) for _ in range(rng.randint(0, 2)))))
        listed = [*self.arrays, self.divisor, self.fractions]
        if rng.random() < 0.5:
            inside = ", ".join(f"{each.type} {each.name}{_brackets(each)}" for each in listed)
            return f"#define MAX(a, b) ((a) > (b) ? (a) : (b))\nvoid f({inside})\n{{\n{body}\n}}\n"
        top = "\n".join(f"static {each.type} {each.name}{_brackets(each)};" for each in listed)
        return f"#define MAX(a, b) ((a) > (b) ? (a) : (b))\n{top}\nvoid f(void)\n{{\n{body}\n}}\n"

    # --- statements ---

    def block(self, depth: int) -> str:
        rng = self.rng
        form = rng.random()
        if depth < 3 and form < (0.75 if depth == 0 else 0.35):
            return self.loop(depth)
        if self.counters and form < 0.5:
            other = f" else {{ {self.assignment()} }}" if rng.random() < 0.4 else ""
            return f"if ({self.condition()}) {{ {self.assignment()} }}{other}"
        return self.assignment()

    def loop(self, depth: int) -> str:
        rng = self.rng
        self.names += 1
        name, kind = f"{'ijk'[depth]}{self.names if rng.random() < 0.3 else ''}", rng.choice(COUNTER_TYPES)
        if name in self.counters:
            name = f"{name}{self.names}"
        low, trips, step = rng.randint(0, 2), rng.randint(1, 4), rng.choice((1, 1, 1, 2))
        first, last = str(low), low + trips
        outer = [key for key, (_, least, _) in self.counters.items() if least >= 0]
        if outer and rng.random() < 0.3:
            first = rng.choice(outer)
            low, last = self.counters[first][1], max(last, self.counters[first][2])
        head = f"for ({kind} {name} = {first}; {name} <= {last}; {rng.choice((f'{name} += {step}', f'{name}++'))})"
        if rng.random() < 0.2 and first.isdigit():
            low += 1 if low == 0 else 0
            head = f"for ({kind} {name} = {last + 1}; {name} >= {low}; {name}--)"
            last += 1
        before = dict(self.counters), list(self.scalars)
        self.counters[name] = (kind, low, last)
        inside: list[str] = []
        if rng.random() < 0.25:
            scalar = Array(f"t{self.names}", rng.choice(TYPES), 0)
            inside.append(f"{scalar.type} {scalar.name} = {self.value(scalar)};")
            self.scalars.append(scalar)
        inside += [self.block(depth + 1) for _ in range(rng.randint(1, 2))]
        self.counters, self.scalars = before
        return f"{head} {{\n{chr(10).join(inside)}\n}}"

    def assignment(self) -> str:
        self.statements += 1
        rng = self.rng
        target = rng.choice([*self.arrays, *self.arrays, *self.scalars])
        place = self.place(target)
        form = rng.random()
        if form < 0.3:
            return f"{place} = {self.value(target)};"
        if form < 0.7:
            operator = rng.choice(("+=", "+=", "+=", "-=", "-=", "*=", "/="))
            value = self.divided() if operator == "/=" else self.value(target)
            return f"{place} {operator} {value};"
        if form < 0.75:
            return rng.choice((f"{place}++;", f"--{place};"))
        other = self.value(target) if rng.random() < 0.3 else self.place(rng.choice(self.arrays))
        forms = (
            f"{place} = {place} > {other} ? {place} : {other};", f"{place} = {other} < {place} ? {other} : {place};",
            f"{place} = MAX({place}, {other});", f"if ({other} > {place}) {place} = {other};",
        )  # fmt: skip
        if target.is_float or target.type in ("int", "long"):
            small = other if target.is_float else f"({self.small()})"
            forms += (f"{place} = fmax({place}, {small});", f"{place} = fmin({small}, {place});")
            forms += (f"{place} = fmaxf({place}, {small});",) if target.is_float else ()
        return rng.choice(forms)

    # --- expressions ---

    def place(self, array: Array) -> str:
        return array.name + "".join(f"[{self.index()}]" for _ in range(array.axes))

    def index(self) -> str:
        """Return a subscript from 0 to EXTENT - 1."""
        if not self.counters or self.rng.random() < 0.1:
            return str(self.rng.randrange(EXTENT))
        name = self.rng.choice(list(self.counters))
        _, low, high = self.counters[name]
        other = self.rng.choice(list(self.counters))
        forms = [name, name, name, f"{name} / 2", f"{name} % 3", f"{high} - {name}"]
        forms += [f"{name} + 1"] * (high + 1 < EXTENT) + [f"{name} - 1"] * (low > 0)
        forms += [f"2 * {name}"] * (2 * high < EXTENT)
        forms += [f"{name} + {other}"] * (high + self.counters[other][2] < EXTENT)
        if self.lazy and self.rng.random() < 0.4:
            return self.rng.choice((
                f"({name} > {low} ? {name} - 1 : {high})", f"MAX({name}, {other})",
                f"({self.condition()} ? {name} : {self.rng.randrange(EXTENT)})",
                f"({name} < {high} ? {name} + 1 : 0)", f"({name} == {other} ? 0 : {other} / 2)",
            ))  # fmt: skip
        return self.rng.choice(forms)

    def condition(self) -> str:
        rng = self.rng
        name = rng.choice(list(self.counters))
        _, low, high = self.counters[name]
        text = f"{name} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {rng.randint(low, high)}"
        other = rng.choice(list(self.counters))
        return rng.choice((text, text, f"{text} && {name} % 2 == 0", f"!({text})", f"{name} < {other} || {text}"))

    def value(self, target: Array) -> str:
        """Return a value for a target: small where a fraction may become an integer."""
        if target.is_float:
            return self.expression(2, fractions=True)
        if self.rng.random() < 0.3:
            return f"fabs({self.small()})" if "u" in target.type or target.type == "size_t" else self.small()
        return self.expression(2, fractions=False)

    def small(self) -> str:
        """Return a fraction of small size."""
        rng = self.rng
        text = f"{self.place(self.fractions)} * {rng.choice((*FRACTIONS, '20', '9.75', '30.5f'))}"
        return rng.choice((text, f"{text} + {rng.choice(FRACTIONS)}", f"({text} - {self.place(self.fractions)}) * 1.5"))

    def divided(self) -> str:
        return self.place(self.divisor) if self.rng.random() < 0.4 else self.rng.choice(DIVISORS)

    def expression(self, depth: int, *, fractions: bool) -> str:
        """Return an expression; without fractions every part is an integer."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self.leaf(fractions=fractions)
        parts = [self.expression(depth - 1, fractions=fractions) for _ in range(3)]
        wanted = [each for each in TYPES if fractions or each in INTEGER_TYPES]
        forms = [f"({parts[0]} {operator} {parts[1]})" for operator in ("+", "-", "*", "+", "-", "*")]
        forms += [f"({parts[0]} {operator} {parts[1]})" for operator in ("<", ">=", "==", "!=", "&&")]
        if fractions:
            integer = rng.choice(("float", "double"))
            forms += [f"({integer})({parts[0]})", f"fabs({parts[0]})", f"fmax({parts[0]}, {parts[1]})"]
            forms += [f"sqrtf(fabs({parts[0]}))", f"fminf({parts[0]}, {parts[1]})", f"floor({parts[0]})"]
            forms += [f"({parts[0]} / {rng.choice(DIVISORS)})"]
        else:
            divisor = rng.choice([each for each in DIVISORS if "." not in each])
            forms += [f"({parts[0]} / {divisor})", f"({parts[0]} % {divisor})", f"({rng.choice(wanted)})({parts[0]})"]
            if not self.divisor.is_float:
                forms += [f"({parts[0]} % {self.place(self.divisor)})", f"({parts[0]} / {self.place(self.divisor)})"]
        forms += [f"-({parts[0]})", f"!({parts[0]})", f"({parts[0]} < {parts[1]} ? {parts[2]} : {parts[0]})"]
        forms += [f"MAX({parts[0]}, {parts[1]})"]
        if self.lazy and self.counters and rng.random() < 0.5:
            test = self.condition()
            forms = [f"({test} ? {parts[0]} : {parts[1]})", f"({test} && {parts[0]})", f"(({test}) || {parts[0]})"]
            forms += [f"({parts[0]} > {parts[1]} && ({test}) ? {parts[2]} : {parts[1]})"]
        return rng.choice(forms)

    def leaf(self, *, fractions: bool) -> str:
        rng = self.rng
        usable = [each for each in (*self.arrays, *self.scalars) if fractions or not each.is_float]
        form = rng.random()
        if usable and form < 0.55:
            return self.place(rng.choice(usable))
        if self.counters and form < 0.7:
            name = rng.choice(list(self.counters))
            return rng.choice((name, f"({name} - 5)", f"({name} * 3 - 1)", f"({name} / 2)"))
        if fractions and form < 0.85:
            return rng.choice((self.place(self.fractions), rng.choice(FRACTIONS)))
        return rng.choice(LITERALS)


def _brackets(array: Array) -> str:
    return f"[{EXTENT}]" * array.axes


def random_program(seed: int, *, lazy: bool = False) -> str:
    """Return the program of a seed; lazy: with conditions of counters inside expressions and subscripts."""
    return Writer(random.Random(f"lazy {seed}" if lazy else seed), lazy=lazy).program()
