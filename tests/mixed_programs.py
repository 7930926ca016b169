"""Random programs of several element types, and C texts of them that share nothing with those that polymap prints."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import polymap as pm

Values = np.ndarray
SIZES = {"i": 3, "j": 4}
INTEGERS = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
KINDS = (*INTEGERS, "float32", "float64")
FUNCTIONS = ("fabs", "sqrt", "floor", "trunc")
_C_TYPES = {"float32": "float", "float64": "double"}
_PLACE = re.compile(r"(\w+)\[([\w,]+)\]")
_STATEMENT = re.compile(r"(\w+)\[([\w,]+)\] (\S+) (.*)")
_HEAD = """\
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#define larger(a, b) ((a) > (b) ? (a) : (b))
#define smaller(a, b) ((a) < (b) ? (a) : (b))
"""
_CHECKED = ("-fsanitize=float-cast-overflow,integer-divide-by-zero", "-fsanitize-undefined-trap-on-error")
_FLAGS = ("-std=c99", "-O1", "-fwrapv", "-ffp-contract=off", "-fno-builtin")


@dataclass(frozen=True)
class Mixed:
    """A program: its statements, and per tensor its dims and element type; those named X are read alone."""

    statements: tuple[str, ...]
    tensors: dict[str, tuple[str, str]]

    @property
    def types(self) -> dict[str, str]:
        return {name: kind for name, (_, kind) in self.tensors.items()}

    @property
    def written(self) -> list[str]:
        return [name for name in self.tensors if name.startswith("T")]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(SIZES[dim] for dim in self.tensors[name][0])

    def workload(self) -> pm.Workload:
        """Return the program as polymap reads it. Raises WorkloadError where it refuses the mix of types."""
        dims = "".join(dims for dims, _ in self.tensors.values())
        sizes = {dim: size for dim, size in SIZES.items() if dim in dims}
        return pm.program(self.statements, types=self.types, sizes=sizes, associative=False)


def random_mix(seed: int) -> Mixed:
    """Return a program of one to four statements; each reads what is given or was written before it."""
    rng = random.Random(seed)
    tensors = {f"X{n}": (rng.choice(["i", "j", "ij"]), rng.choice(KINDS)) for n in range(rng.randint(1, 3))}
    statements: list[str] = []
    for number in range(rng.randint(1, 4)):
        dims, operator = rng.choice(["i", "j", "ij"]), rng.choice(["=", "=", "+=", "max=", "min="])
        fitting = [name for name, (own, _) in tensors.items() if operator != "=" or set(own) <= set(dims)]
        if fitting:
            places = [f"{name}[{','.join(tensors[name][0])}]" for name in fitting]
            value = _value(rng, places, rng.randint(1, 3))
            statements.append(f"T{number}[{','.join(dims)}] {operator} {value}")
            tensors[f"T{number}"] = dims, rng.choice(KINDS)
    used = {name for name, _ in _PLACE.findall(" ".join(statements))}
    return Mixed(tuple(statements), {name: tensors[name] for name in tensors if name in used})


def _value(rng: random.Random, places: list[str], depth: int) -> str:
    if not depth or rng.random() < 0.2:
        return rng.choice([*places, *places, *places, rng.choice(["1", "2", "3", "7", "100", "0.5", "0.1"])])
    first, second = (_value(rng, places, depth - 1) for _ in range(2))
    forms = (f"({first} {rng.choice('+-*/<')} {second})", f"({first} / {rng.choice('237')})", f"(-{first})")
    calls = (f"{rng.choice(FUNCTIONS)}({first})", f"{rng.choice(['max', 'min'])}({first}, {second})")
    chosen = f"({first} if {second} > {rng.choice(places)} else {rng.choice(places)})"
    return rng.choice([forms[0], forms[0], *forms, *calls, chosen])


def c_text(mixed: Mixed) -> str:
    """Return the program in C, written from the statements alone."""
    sizes = {name: int(np.prod(mixed.shape(name))) for name in mixed.tensors}
    arrays = [f"static {_c_type(kind)} {name}[{sizes[name]}];" for name, kind in mixed.types.items()]
    read = [name for name in mixed.tensors if name not in mixed.written]
    lines = ["int main(int count, char **paths)", "{", 'FILE *in = fopen(paths[count - 2], "rb");']
    lines += [f"if (fread({name}, sizeof *{name}, {sizes[name]}, in) != {sizes[name]}) return 1;" for name in read]
    lines += [line for statement in mixed.statements for line in (_start(mixed, statement), _loops(mixed, statement))]
    lines += ['FILE *out = fopen(paths[count - 1], "wb");']
    lines += [f"fwrite({name}, sizeof *{name}, {sizes[name]}, out);" for name in mixed.written]
    return _HEAD + "\n".join([*arrays, *lines, "return fclose(out);", "}"]) + "\n"


def _c_type(kind: str) -> str:
    return _C_TYPES.get(kind, f"{kind}_t")


def _start(mixed: Mixed, statement: str) -> str:
    """Return the loop that sets what is accumulated into."""
    target, _, operator, _ = _parts(statement)
    kind, size = mixed.types[target], int(np.prod(mixed.shape(target)))
    if operator == "=":
        return ""
    least = "-HUGE_VAL" if kind in _C_TYPES else f"{kind.upper()}_MIN" if kind.startswith("i") else "0"
    most = "HUGE_VAL" if kind in _C_TYPES else f"{kind.upper()}_MAX"
    value = {"+=": "0", "max=": least, "min=": most}[operator]
    return f"for (int n = 0; n < {size}; n++) {target}[n] = {value};"


def _parts(statement: str) -> tuple[str, str, str, str]:
    found = _STATEMENT.fullmatch(statement)
    assert found is not None, statement
    target, dims, operator, value = found.groups()
    return target, dims, operator, value


def _loops(mixed: Mixed, statement: str) -> str:
    target, dims, operator, value = _parts(statement)
    indices = ",".join([dims, *(index for _, index in _PLACE.findall(value))]).split(",")
    value = re.sub(r"\bmax\(", "larger(", re.sub(r"\bmin\(", "smaller(", _with_choices(value)))
    if all(mixed.types[name] == "float32" for name, _ in _PLACE.findall(statement)):
        value = re.sub(r"(\d\.\d)", r"\1f", re.sub(rf"\b({'|'.join(FUNCTIONS)})\(", r"\1f(", value))
    place = f"{target}[{dims}]"
    update = {"+=": f"{place} += {value}", "=": f"{place} = {value}"}
    for name, macro in (("max=", "larger"), ("min=", "smaller")):
        update[name] = f"{place} = {macro}({place}, {value})"
    body = _PLACE.sub(lambda found: f"{found[1]}[{_position(found[2])}]", update[operator]) + ";"
    for dim in reversed(dict.fromkeys(indices)):
        body = f"for (int {dim} = 0; {dim} < {SIZES[dim]}; {dim}++) {body}"
    return body


def _with_choices(value: str) -> str:
    """Return the value with C's `c ? a : b` instead of `a if c else b`; each stands in parentheses of its own."""
    at = value.find(" if ")
    if at < 0:
        return value
    start, middle = _open_before(value, at), value.find(" else ", at)
    while value[at + 4 : middle].count("(") != value[at + 4 : middle].count(")"):
        middle = value.find(" else ", middle + 1)
    depth, end = 1, middle + 6
    while depth:
        depth += {"(": 1, ")": -1}.get(value[end], 0)
        end += 1
    then, condition, other = value[start:at], value[at + 4 : middle], value[middle + 6 : end - 1]
    return _with_choices(f"{value[:start]}{condition} ? {then} : {other}{value[end - 1 :]}")


def _open_before(value: str, at: int) -> int:
    depth = 0
    while depth >= 0:
        at -= 1
        depth += {")": 1, "(": -1}.get(value[at], 0)
    return at + 1


def _position(index: str) -> str:
    first, *rest = index.split(",")
    return f"{first} * {SIZES['j']} + {rest[0]}" if rest else first


def random_arrays(mixed: Mixed, seed: int) -> dict[str, Values]:
    """Return values of what the program reads: narrow integers of the whole range, no zeros, fractions; now and then
    small and positive ones, where more programs are defined."""
    generator, given = np.random.default_rng(seed), {}
    for name, (_, kind) in mixed.tensors.items():
        if name in mixed.written:
            continue
        shape = mixed.shape(name)
        if kind in _C_TYPES:
            drawn = generator.uniform(0.5, 1.5, shape) if seed % 3 == 1 else generator.normal(0, 5, shape)
        else:
            low, high = (1, 20) if seed % 3 == 1 else (np.iinfo(kind).min, np.iinfo(kind).max)
            drawn = generator.integers(max(low, -40000), min(high, 40000), shape, endpoint=True)
            drawn = np.where(drawn == 0, 3, drawn)
        given[name] = drawn.astype(kind)
    return given


def by_own_text(mixed: Mixed, given: dict[str, Values], where: Path) -> dict[str, Values] | None:
    """Return what gcc makes of the text above; None where C does not define it or something is no number."""
    raw = _run(mixed, c_text(mixed), given, where, _CHECKED)
    if raw is None:
        return None
    found = _cut(mixed, mixed.written, raw)
    return None if any(np.isnan(array.astype(float)).any() for array in found.values()) else found


def by_program(
    mixed: Mixed, workload: pm.Workload, source: str, given: dict[str, Values], where: Path
) -> dict[str, Values]:
    """Return what a printed program writes."""
    names = [each.name for each in workload.tensors]
    raw = _run(
        mixed, source, {name: given[name] for name in names if name in given}, where, ("-Wall", "-Wextra", "-Werror")
    )
    assert raw is not None, f"the program fails: {mixed}"
    return _cut(mixed, [name for name in names if name not in given], raw)


def _run(mixed: Mixed, source: str, given: dict[str, Values], where: Path, flags: tuple[str, ...]) -> bytes | None:
    """Return what a program writes into its second file, of the values in its first; None where it fails."""
    text, program = where / "program.c", where / "program"
    text.write_text(source, encoding="utf-8")
    subprocess.run(["gcc", *_FLAGS, *flags, "-o", program, text, "-lm"], check=True)
    (where / "in").write_bytes(b"".join(array.tobytes() for array in given.values()))
    ran = subprocess.run([program, where / "in", where / "out"], check=False, stdout=subprocess.DEVNULL)
    return None if ran.returncode else (where / "out").read_bytes()


def _cut(mixed: Mixed, names: list[str], raw: bytes) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for name in names:
        size = int(np.prod(mixed.shape(name))) * np.dtype(mixed.types[name]).itemsize
        found[name] = np.frombuffer(raw[:size], mixed.types[name]).reshape(mixed.shape(name))
        raw = raw[size:]
    assert not raw, "the program wrote more than its tensors"
    return found


def by_call(workload: pm.Workload, given: dict[str, Values]) -> dict[str, Values]:
    """Return what the compiled function returns."""
    function = pm.compile(workload, time_limit_s=1)
    forms = function.function.arrays
    found = function(*(given[form.tensor] for form in forms if not form.is_written))
    names = [form.tensor for form in forms if form.is_written]
    return dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))
