"""Every field of a certificate's tables is dropped, doubled, added to and given values of other kinds, hashes repaired:
what no machine, workload, constraint or loop tree can say is refused, at the outermost level as at any other.

What each field can say is written down here once more (`LAWFUL`); the checker's own reading is not asked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from polymap.checker import verify
from polymap.checker.counts import cost
from polymap.checker.model import Problem
from polymap.explore import search
from polymap.ir import OptionError
from tests.case_machines import with_wires
from tests.referee.demands import random_demands
from tests.referee.problems import random_problem

CERTIFICATES = 20
Path = tuple[Any, ...]

OTHERS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 3.0, 0.5, float("nan"), float("inf"), 10**400, -(10**400)),
    *("", "1", "3/2", "2/4", "-1", "01", "1e3", " 1", "A", "@input", "any", "\u0661", [], {}, [1], ["A"], ["A", 1]),
    *({"A": 1}, [["m", 2]], [None]),
)


def is_rational(value: Any) -> bool:
    """Return whether a value is a text of a number that is not negative, in lowest terms."""
    if type(value) is not str or not value.isascii() or not value.replace("/", "", 1).isdigit():
        return False
    top, bar, bottom = value.partition("/")
    return value == str(Fraction(int(top), int(bottom) if bar else 1)) if (bottom != "0" and top) else False


def is_whole(value: Any) -> bool:
    return type(value) is int and value > 0


def is_name(value: Any) -> bool:
    return type(value) is str and value != ""


def is_names(value: Any) -> bool:
    return type(value) is list and all(map(is_name, value))


def null_or(law: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or law(value)


def is_band(value: Any) -> bool:
    return value is None or (is_rational(value) and value != "0")


LAWFUL: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("read_pj", "write_pj", "leak_pj_per_cycle", "pj"), is_rational),
    **dict.fromkeys(("pj_per_word", "pj_per_word_hop", "reduce_pj"), is_rational),
    "hops": lambda value: value in ("unicast", "multicast"),
    **dict.fromkeys(("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle"), is_band),
    "write_bandwidth_bits_per_cycle": is_band,
    **dict.fromkeys(("buffering", "word_bits", "per_cycle", "bits", "tile"), is_whole),
    "capacity_bits": null_or(is_whole),
    **dict.fromkeys(("level", "fanout", "compute", "name", "store", "for", "par", "over", "tensor", "dim"), is_name),
    **dict.fromkeys(("outer", "inner", "objective"), is_name),
    **dict.fromkeys(("holds",), null_or(is_names)),
    **dict.fromkeys(("must_hold", "tensors"), is_names),
    **dict.fromkeys(("initial", "reduction", "overlap", "must"), lambda value: type(value) is bool),
    "role": lambda value: value in ("input", "weight", "output"),
    "multicast": lambda value: value in ("identical", "union", "none"),
}


@cache
def certificates() -> tuple[str, ...]:
    """Return certificates of small random problems, some under constraints, some of a bound over any tiles."""
    found: list[str] = []
    rng = random.Random("certificate fields")
    while len(found) < CERTIFICATES:
        number = len(found)
        problem = random_problem(rng, most=1_500, tiles="divide")
        demands = random_demands(rng, problem.workload, problem.arch) if number % 2 else None
        tiles = "any" if number % 4 == 3 else "divide"
        arch = with_wires(rng, problem.arch) if number % 3 == 2 else problem.arch
        asked = problem.workload, arch, rng.choice(("energy", problem.objective)), tiles
        answer = search(*asked, constraints=demands, work_limit=50, time_limit_s=5)
        try:
            text = answer.certificate() if answer.best is not None else ""
        except OptionError:  # of another kind than those that are certified
            continue
        if text and verify(text).proven:
            found.append(text)
    return tuple(found)


def finished(given: Iterable[str]) -> str:
    """Return a certificate of these lines, both hashes repaired."""

    def digest(some: list[str]) -> str:
        return sha256("".join(f"{line}\n" for line in some).encode()).hexdigest()

    lines = [*given]
    lines = [*lines[:5], f"sha256 {digest(lines[1:5])}", *lines[6:]]
    return "\n".join((*lines, f"end {digest(lines)}", ""))


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the way to everything inside a JSON value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from paths(item, (*path, key))


def owner(value: Any, path: Path) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def tables(text: str) -> Iterator[tuple[int, str, Any]]:
    """Yield (line, its word, its JSON) of a certificate."""
    for number, line in enumerate(text.split("\n")):
        word, _, rest = line.partition(" ")
        if word in ("workload", "machine", "constraints", "mapping"):
            yield number, word, json.loads(rest)


def with_line(text: str, number: int, line: str) -> str:
    lines = text.split("\n")[:-2]
    return finished([*lines[:number], line, *lines[number + 1 :]])


def same(one: Any, other: Any) -> bool:
    return written(one) == written(other)


def retyped(text: str) -> Iterator[tuple[str, str]]:
    """Yield (what was done, certificate) of every field with every value that it cannot have."""
    for number, word, table in tables(text):
        for path in paths(table):
            law = LAWFUL.get(str(path[-1]), lambda _: True)
            inside = owner(table, path)
            if not isinstance(inside, dict) or (word == "workload" and "index" in path[:-1]):
                continue
            for value in OTHERS:
                if law(value) or same(value, inside[path[-1]]):
                    continue
                changed = deepcopy(table)
                owner(changed, path)[path[-1]] = value
                yield f"{word} {path} is {value!r:.40}", with_line(text, number, f"{word} {written(changed)}")


def dropped(text: str) -> Iterator[tuple[str, str]]:
    """Yield certificates with a field dropped, added, said twice, and every coefficient as a truth value or float."""
    for number, word, table in tables(text):
        for path in ((), *paths(table)):
            inside = table if not path else owner(table, path)[path[-1]]
            if path and isinstance(owner(table, path), dict) and "index" not in path[:-1]:
                changed = deepcopy(table)
                del owner(changed, path)[path[-1]]
                yield f"{word} {path} dropped", with_line(text, number, f"{word} {written(changed)}")
            if isinstance(inside, dict) and (not path or "index" not in path[:-1]):
                added = written({**inside, "more": 1})
                line = written(table).replace(written(inside), added, 1)
                yield f"{word} {path} with more", with_line(text, number, f"{word} {line}")
                key = next(iter(sorted(inside)))
                twice = f"{{{json.dumps(key)}:{written(inside[key])},{written(inside)[1:]}"
                line = written(table).replace(written(inside), twice, 1)
                yield f"{word} {path} says {key} twice", with_line(text, number, f"{word} {line}")
            if path and "index" in path[:-1] and type(inside) is int:
                for value in (True, float(inside), str(inside), 0, None):
                    changed = deepcopy(table)
                    owner(changed, path)[path[-1]] = value
                    yield f"{word} {path} is {value!r}", with_line(text, number, f"{word} {written(changed)}")


def names_of_others(text: str) -> Iterator[tuple[str, str]]:
    """Yield certificates whose mappings name what there is not, or hold a tensor twice, at every level."""
    for number, word, nodes in tables(text):
        if word != "mapping":
            continue
        for place, node in enumerate(nodes):
            wrong = [{**node, key: "Nobody"} for key in ("store", "for", "par", "over") if key in node]
            if "tensors" in node:
                wrong += [{**node, "tensors": more} for more in ([*node["tensors"], "Nobody"], node["tensors"] * 2)]
                wrong += [{**node, "tensors": "".join(node["tensors"])}, {**node, "tensors": [node["tensors"]]}]
            for one in wrong:
                line = written([*nodes[:place], one, *nodes[place + 1 :]])
                yield f"mapping[{place}] is {one}", with_line(text, number, f"mapping {line}")


def forgeries(text: str) -> Iterator[tuple[str, str]]:
    yield from retyped(text)
    yield from dropped(text)
    yield from names_of_others(text)


def check(number: int, share: float) -> int:
    """Check a share of the forgeries of one certificate; return how many."""
    text, rng, seen = certificates()[number], random.Random(number), 0
    for what, forged in forgeries(text):
        if rng.random() < share and forged != text:
            verdict = verify(forged)
            assert not verdict.proven, f"certificate {number}: {what}"
            assert verdict.reason, f"certificate {number}: {what} rests on nobody's word"
            seen += 1
    return seen


@pytest.mark.slow
def test_no_field_takes_what_it_cannot_say() -> None:
    assert sum(check(number, 0.02) for number in range(CERTIFICATES)) > 150


@pytest.mark.soak
@pytest.mark.parametrize("number", range(CERTIFICATES))
def test_no_field_of_any_certificate_takes_what_it_cannot_say(number: int) -> None:
    assert check(number, 1) > 500


OUTER = """polymap certificate 3
workload {"dims":[["p",2],["r",2]],"tensors":[{"bits":32,"index":[{"p":1}],"initial":false,"name":"O","role":"output"},\
{"bits":8,"index":[{"p":1,"r":1}],"initial":false,"name":"I","role":"input"},\
{"bits":8,"index":[{"r":1}],"initial":false,"name":"W","role":"weight"}]}
machine {"nodes":[{"bandwidth_bits_per_cycle":null,"buffering":1,"capacity_bits":null,"holds":null,\
"leak_pj_per_cycle":"0","level":"L0","must_hold":[],"read_bandwidth_bits_per_cycle":null,"read_pj":"1/2",\
"word_bits":8,"write_bandwidth_bits_per_cycle":null,"write_pj":"1/2"},{"bandwidth_bits_per_cycle":"7","buffering":2,\
"capacity_bits":72,"holds":null,"leak_pj_per_cycle":"0","level":"L1","must_hold":["O"],\
"read_bandwidth_bits_per_cycle":null,"read_pj":"6","word_bits":16,"write_bandwidth_bits_per_cycle":null,\
"write_pj":"0"},{"bandwidth_bits_per_cycle":null,"buffering":1,"capacity_bits":8,"holds":null,"leak_pj_per_cycle":"0",\
"level":"L2","must_hold":[],"read_bandwidth_bits_per_cycle":null,"read_pj":"3","word_bits":16,\
"write_bandwidth_bits_per_cycle":null,"write_pj":"2"},{"compute":"M","per_cycle":1,"pj":"0"}],"overlap":false}
constraints []
objective traffic:L0
sha256
value 120
mapping [{"store":"L0","tensors":["O","I","W"]},{"for":"p","tile":1},{"store":"L1","tensors":["O"]},\
{"for":"r","tile":1},{"store":"L2","tensors":["I"]},{"compute":"S"}]
structures 1
- search 1024:0,1088,0 116 5"""


@pytest.mark.parametrize("value", ["8", "1000000000", '"O"', "true", "{}", "[1]", "NaN"])
def test_the_outermost_level_is_read_as_strictly_as_the_others(value: str) -> None:
    assert verify(finished(OUTER.split("\n"))).proven
    for place in range(3):
        before, after = OUTER.split('"holds":null')[: place + 1], OUTER.split('"holds":null')[place + 1 :]
        changed = '"holds":null'.join(before) + f'"holds":{value}' + '"holds":null'.join(after)
        verdict = verify(finished(changed.split("\n")))
        assert not verdict.proven
        assert "holds: expected a" in verdict.reason


@pytest.mark.parametrize(
    ("objective", "rules", "may"),
    [
        ("traffic:L0", "", (0, 1, 1)),
        ("latency", "", (0, 1, 1, 1)),
        ("traffic:L0", '{"most":"999","objective":"latency","rule":"at_most"}', (0, 1, 1, 0)),
    ],
)
def test_only_what_is_scarce_has_a_price(objective: str, rules: str, may: tuple[int, ...]) -> None:
    """A price of bits that are not limited, or of cycles that the value does not count, proves any bound."""
    text = OUTER.replace("constraints []", f"constraints [{rules}]").replace("traffic:L0", objective)
    tables = {line.split(" ")[0]: line.partition(" ")[2] for line in text.split("\n")}
    head = [json.loads(tables[key]) for key in ("workload", "machine", "constraints")]
    problem = Problem(head[0], head[1], head[2], objective)
    value = Fraction(cost(problem, json.loads(tables["mapping"])), problem.scale)
    lines = [f"value {value}" if line.startswith("value") else line for line in text.split("\n")]
    below_0 = [tuple(-3 * (one == at) for one in range(len(may))) for at in range(len(may))]
    for prices in (*product((0, 3), repeat=len(may)), *below_0):
        levels, bands = (",".join(map(str, part)) for part in (prices[:3], prices[3:]))
        claim = f"- search 1024:{levels}{':' * bool(bands)}{bands} 116 5"
        told = verify(finished([*lines[:-1], claim])).reason
        wrong = any(price < 0 or (price and not own) for price, own in zip(prices, may, strict=True))
        assert ("no such price" in told) == wrong, (claim, told)
