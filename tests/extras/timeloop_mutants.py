"""Random mutants of Timeloop files: machines of both versions, problems, mappings, constraints.

A file is data: tables are lists of pairs, so that a key may stand twice. Each mutant changes one to three keys or
values. What Timeloop reads in them: tests/extras/timeloop_readings.py.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

SIZES = {"C": 4, "P": 8, "R": 3}
SPACES = ("I", "W", "O")
ARRAY = """\
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {width: 16}}
    - {name: GLB, class: SRAM, attributes: {width: 16, depth: 4096}}
    subtree:
    - name: PE[0..7]
      local:
      - {name: Spad, class: regfile, attributes: {width: 16, depth: 4096, meshX: 4}}
      - {name: MAC, class: intmac, attributes: {meshX: 4}}
"""


class Table(list[tuple[str, Any]]):
    """Pairs of key and value, with a tag such as "!Component"."""

    def __init__(self, pairs: Any = (), tag: str = "") -> None:
        super().__init__(pairs)
        self.tag = tag


def table(tag: str = "", /, **pairs: Any) -> Table:
    return Table(((key.removesuffix("_"), value) for key, value in pairs.items()), tag)


def text_of(value: Any, indent: int = 0) -> str:
    """The value as YAML, a key on a line of its own."""
    pad = " " * indent
    if isinstance(value, Table):
        inner = "".join(f"{pad} {key}: {text_of(each, indent + 1)},\n" for key, each in value)
        return f"{value.tag} {{\n{inner}{pad}}}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(each, indent + 1) for each in value) + "]"
    return json.dumps(value)


# ---- files to begin with


def tree(rng: random.Random) -> Table:
    """A machine of version 0.3."""
    bits = rng.choice([8, 16])
    block, cluster = rng.choice([1, 2, 4]), rng.choice([1, 1, 2])
    width = bits * block * cluster
    spelled = rng.choice(
        [("depth", "width"), ("memory_depth", "memory_width"), ("data_storage_depth", "data_storage_width")]
    )
    glb = Table([(spelled[0], rng.choice([64, 256])), (spelled[1], width), ("datawidth", bits), ("block-size", block)])
    glb += [("technology", "45nm"), ("n_banks", 4)] if rng.random() < 0.5 else []
    glb += [("multiple_buffering", 2)] if rng.random() < 0.3 else []
    x, y = rng.choice([1, 2, 4]), rng.choice([1, 2, 3])
    many = cluster * x * y
    spad = table(**{rng.choice(["entries", "depth"]): 64}, **{"word-bits": bits}, meshX=cluster * x)
    spad += [("read_bandwidth", 2), ("write_bandwidth", 1)] if rng.random() < 0.5 else [("shared_bandwidth", 4)]
    mac = table(datawidth=bits, meshX=cluster * x)
    by_name = rng.random() < 0.5
    glb += [("instances", cluster)]
    for each in [] if by_name else [spad, mac]:
        each.append(("instances", many))
    branch = table(
        name="PE" + (f"[0..{many - 1}]" if by_name else ""),
        local=[
            table(name="Spad", class_="regfile", attributes=spad),
            table(name="MAC", class_="intmac", attributes=mac),
        ],
    )
    chip = table(name="chip", local=[table(name="GLB", class_="smartbuffer_SRAM", attributes=glb)], subtree=[branch])
    dram = table(name="DRAM", class_="DRAM", attributes=table(width=64, datawidth=bits, type="LPDDR4"))
    system = table(name="system", local=[dram], subtree=[chip])
    return table(architecture=table(version=0.3, subtree=[system]), ERT=tables(["DRAM", "GLB", "Spad", "MAC"], rng))


def nodes(rng: random.Random) -> Table:
    """A machine of version 0.4."""
    bits = rng.choice([8, 16])
    inherits = rng.random() < 0.4
    word = {} if inherits else {"datawidth": bits}
    top = table(technology="45nm", global_cycle_seconds=1e-9, **({"datawidth": bits} if inherits else {}))
    glb = table(
        depth=rng.choice([64, 256]),
        width=bits * rng.choice([1, 4]),
        **word,
        n_banks=2,
        read_bandwidth=4,
        write_bandwidth=4,
    )
    spad = table(entries=16, width=bits, **word, multiple_buffering=rng.choice([1, 2]))
    parts = [
        table("!Container", name="system", attributes=top),
        table("!Component", name="DRAM", class_="DRAM", attributes=table(width=64, **word)),
        table("!Component", name="GLB", class_="SRAM", attributes=glb, constraints=table(dataspace=table(keep=["I"]))),
        table("!Container", name="PE", spatial=table(meshX=rng.choice([2, 4]), meshY=rng.choice([1, 3]))),
        table("!Component", name="Spad", class_="regfile", attributes=spad, enabled=rng.random() < 0.8),
        table("!Component", name="MAC", class_="intmac", attributes=table(latency="5ns"), spatial=table(meshX=2)),
    ]
    names = ["DRAM", "GLB", "Spad", "MAC"] if dict(parts[4])["enabled"] else ["DRAM", "GLB", "MAC"]
    return table(architecture=table(version=0.4, nodes=parts), ERT=tables(names, rng))


def tables(names: list[str], rng: random.Random) -> Table:
    found = []
    for name in names:
        actions = ["compute"] if name == "MAC" else ["read", "write", "leak"]
        pairs = [table(name=each, energy=rng.choice([0.5, 2, 6.25])) for each in actions]
        found.append(table(name=f"system.{name}[1..4]", actions=pairs))
    return table(version=0.4, tables=found)


def question(rng: random.Random) -> Table:
    """A problem, with a mapping of it onto DRAM, GLB and PEs of any of these machines."""
    space = "data-spaces" if rng.random() < 0.5 else "data_spaces"
    spaces = [
        table(name="I", projection=[[["C"]], [["P"], ["R", "Stride"]]]),
        table(name="W", projection=[[["C"]], [["R"]]]),
        table(name="O", projection=[[["P"]]], read_write=True),
    ]
    shape = Table([("name", "window"), ("dimensions", ["C", "P", "R"]), (space, spaces)])
    shape.append(("coefficients", [table(name="Stride", default=1)]))
    sizes = {"C": 4, "P": 8, "R": 3} | ({"Stride": 2} if rng.random() < 0.5 else {})
    return table(problem=table(version=0.4, shape=shape, instance=table(**sizes)))


def mapping(rng: random.Random) -> Table:
    """A mapping of the window onto ARRAY."""
    left = dict(SIZES)

    def factor(dim: str, *among: int) -> int:
        found = rng.choice([each for each in among if left[dim] % each == 0])
        left[dim] //= found
        return found

    across = {"C": factor("C", 1, 2), "P": factor("P", 1, 2, 4)}
    outer = {"P": factor("P", 1, 2), "R": factor("R", 1, 3)}
    middle = {"C": factor("C", 1, 2), "R": factor("R", 1, 3)}
    spatial = table(target="GLB", type="spatial", factors=_factors(across, rng), permutation="PCR", split=1)
    rest = _factors(left | {rng.choice("CPR"): 0}, rng)
    return table(
        mapping=[
            table(target="DRAM", type="temporal", factors=_factors(outer, rng), permutation=rng.choice(["PRC", "CRP"])),
            table(target="GLB", type="bypass", keep=["I", "O"], bypass=["W"]),
            table(target="GLB", type="temporal", factors=_factors(middle, rng), permutation=["R", "C", "P"]),
            spatial,
            table(target="Spad", type="temporal", factors=rest, permutation="RPC"),
        ]
    )


def constraints(rng: random.Random) -> Table:
    """Constraints of explorations on ARRAY."""
    targets = [
        table(target="GLB", type="spatial", factors=_factors({"R": 1, "C": 1}, rng)),
        table(target="GLB", type=rng.choice(["bypass", "dataspace"]), keep=["I"], bypass=["W"]),
        table(target="Spad", type="datatype", keep=["O"]),
    ]
    return table(constraints=table(version=0.3, targets=targets))


def _factors(factors: dict[str, int], rng: random.Random) -> Any:
    texts = [f"{dim}={factor}" for dim, factor in factors.items()]
    return rng.choice([" ".join(texts), texts, Table(factors.items())])


# ---- mutations

_OTHERS = {
    "word_bits": ["word-bits", "word_width", "datawidth"], "datawidth": ["word_bits", "word-bits", "word_width"],
    "depth": ["memory_depth", "data_storage_depth"], "width": ["memory_width", "data-storage-width"],
    "block_size": ["n_words", "block_size"], "read_write": ["read-write"], "data_spaces": ["data-spaces"],
    "memory_depth": ["depth"], "memory_width": ["width"], "data_storage_depth": ["depth"],
}  # fmt: skip
_FOREIGN: list[tuple[str, Any]] = [
    ("min_utilization", 0), ("min_utilization", 0.5), ("allow_overbooking", True), ("multiple-buffering", 2),
    ("multiple_buffering", 1.5), ("network_read", "noc"), ("network_fill_latency", 3), ("technology", "7nm"),
    ("metadata_storage_width", 4), ("vector_access_energy", 3), ("power_gated_at", "GLB"), ("sizeKB", 1),
    ("entries", 32), ("cluster_size", 2), ("cluster-size", 1), ("block-size", 2), ("instances", 8), ("meshX", 2),
    ("meshY", 2), ("bandwidth", 4), ("shared_bandwidth", 2), ("read_bandwidth", 8), ("enabled", False),
    ("enabled", True),
    ("data_width", 8), ("densities", {}), ("required_actions", []), ("n_instances", 2), ("subclass", "SRAM"),
    ("energy_scale", 2), ("has_power_gating", False), ("depth", None), ("reduction_supported", False), ("keep", ["W"]),
]  # fmt: skip


def mutant(whole: Table, rng: random.Random) -> tuple[Table, list[str]]:
    """A changed copy, and what was changed."""
    whole = copy.deepcopy(whole)
    told: list[str] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        found = [each for each in _tables(whole) if each]
        if not found:
            break
        # Most changes are of attributes: they are what the others are about.
        weights = [
            4 if any(key in _OTHERS or key in ("meshX", "entries", "instances") for key, _ in each) else 1
            for each in found
        ]
        told.append(_change(rng.choices(found, weights)[0], rng))
    return whole, told


def _tables(value: Any) -> list[Table]:
    inner = [each for _, each in value] if isinstance(value, Table) else value if isinstance(value, list) else []
    own = [value] if isinstance(value, Table) else []
    return own + [found for each in inner for found in _tables(each)]


def _change(place: Table, rng: random.Random) -> str:
    at = rng.randrange(len(place))
    key, value = place[at]
    kind = rng.choice(["misspell", "spell", "twice", "drop", "retype", "value", "add", "add"])
    if kind == "misspell":
        place[at] = (misspelt(key, rng), value)
    elif kind == "spell":
        place[at] = (_other_spelling(key, rng), value)
    elif kind == "twice":
        place.append((_other_spelling(key, rng), value if rng.random() < 0.5 else _other_value(value, rng)))
    elif kind == "drop":
        del place[at]
    elif kind == "retype":
        place[at] = (key, rng.choice([f"{value}", None, [1], Table([("x", 1)]), True, -1, 0, 1.5, "2*x", 10**40]))
    elif kind == "value":
        place[at] = (key, _other_value(value, rng))
    else:
        place.append(rng.choice(_FOREIGN))
        return f"add {place[-1][0]}: {place[-1][1]!r}"
    return f"{kind} {key}" + (f" -> {place[at][0]}" if kind in ("misspell", "spell") else "")


def misspelt(key: str, rng: random.Random) -> str:
    """The key with a slip of the keyboard."""
    at = rng.randrange(len(key))
    slips = [
        key[:at] + key[at + 1 :],
        key[: at + 1] + key[at:],
        key.swapcase(),
        key + "s",
        "x" + key,
        key.replace("_", ""),
    ]
    return rng.choice([each for each in slips if each and each != key])


def _other_spelling(key: str, rng: random.Random) -> str:
    plain = key.replace("-", "_")
    return rng.choice(_OTHERS.get(plain, [key.replace("_", "-"), plain]))


def _other_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value * 2, value + 1, 1, max(1, int(value) // 2)])
    if isinstance(value, list) and not isinstance(value, Table) and value:
        return rng.choice([value[:-1], value + value[:1], list(reversed(value))])
    return "other" if isinstance(value, str) else value
