"""The shape of what a certificate is about: tables with just their fields, each value of its kind, at every node."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

from polymap.checker.rules import Refused, fields, flag, need, rational, whole

Kind = Callable[[Any], object]


def name(value: Any) -> str:
    """Return a name."""
    need(isinstance(value, str) and 0 < len(value) <= 1000, "expected a name")
    return value


def step(value: Any) -> int:
    """Return a coefficient: an integer other than 0."""
    need(type(value) is int and value != 0, "a coefficient is no integer other than 0")
    return value


def positive(value: Any) -> Fraction:
    """Return a number above 0 that "a/b" says."""
    number = rational(value)
    need(number > 0, "a bandwidth is 0")
    return number


def one_of(*words: str) -> Kind:
    """Return the kind of these words."""

    def read(value: Any) -> object:
        need(isinstance(value, str) and value in words, f"expected one of {', '.join(words)}")
        return value

    return read


def absent_or(kind: Kind) -> Kind:
    """Return the kind of null and what `kind` is."""
    return lambda value: value if value is None else kind(value)


def items(value: Any) -> list[Any]:
    """Return what a list holds."""
    need(type(value) is list, "expected a list")
    return cast("list[Any]", value)


def listed(kind: Kind) -> Kind:
    """Return the kind of lists of what `kind` is."""

    def read(value: Any) -> object:
        return [kind(item) for item in items(value)]

    return read


def table(**kinds: Kind) -> Kind:
    """Return the kind of tables that have just these fields, each of its kind."""

    def read(value: Any) -> object:
        for (word, kind), item in zip(kinds.items(), fields(value, *kinds), strict=True):
            try:
                kind(item)
            except Refused as refusal:
                raise Refused(f"{word}: {refusal}") from None
        return value

    return read


def dim(value: Any) -> object:
    """Return a dim and its extent."""
    need(len(pair := items(value)) == 2, "expected a dim and its extent")
    return name(pair[0]), whole(pair[1])


def axis(value: Any) -> object:
    """Return the coefficients of an axis, by dim."""
    need(type(value) is dict, "expected a table of coefficients")
    return {name(key): step(item) for key, item in cast("dict[Any, Any]", value).items()}


TENSOR = table(bits=whole, index=listed(axis), initial=flag, name=name, role=one_of("input", "weight", "output"))
WORKLOAD = table(dims=listed(dim), tensors=listed(TENSOR))
ACCESS = table(index=listed(axis), tensor=name)
STATEMENT = table(accesses=listed(ACCESS), adds=flag, dims=listed(name), name=name)
HELD = table(bits=whole, initial=flag, name=name, role=one_of("input", "weight", "output"), temporary=flag)
PROGRAM = table(dims=listed(dim), statements=listed(STATEMENT), tensors=listed(HELD))
BAND = absent_or(positive)
LEVEL = table(
    bandwidth_bits_per_cycle=BAND,
    buffering=whole,
    capacity_bits=absent_or(whole),
    holds=absent_or(listed(name)),
    leak_pj_per_cycle=rational,
    level=name,
    must_hold=listed(name),
    read_bandwidth_bits_per_cycle=BAND,
    read_pj=rational,
    word_bits=whole,
    write_bandwidth_bits_per_cycle=BAND,
    write_pj=rational,
)
FANOUT: dict[str, Kind] = {"dims": absent_or(listed(name)), "fanout": name, "reduction": flag, "size": whole}
FANOUT["multicast"] = one_of("identical", "union", "none")
WIRES = {
    "hops": one_of("unicast", "multicast"),
    **dict.fromkeys(("pj_per_word", "pj_per_word_hop", "reduce_pj"), rational),
}
COMPUTE = table(compute=name, per_cycle=whole, pj=rational)


def fanout(node: Any) -> object:
    """Return a fan-out, with what its wires cost where these are not free."""
    return table(**FANOUT, **(WIRES if "hops" in node else {}))(node)


NODES = {"level": LEVEL, "fanout": fanout, "compute": COMPUTE}
RULE = one_of("outermost", "innermost", "outside", "factor", "held", "at_least", "intrinsic", "utilization", "at_most")
RULES = {
    "outermost": table(rule=RULE, dims=listed(name)),
    "innermost": table(rule=RULE, dims=listed(name)),
    "outside": table(rule=RULE, outer=name, inner=name),
    "factor": table(rule=RULE, fanout=name, dim=name, least=whole, most=absent_or(whole)),
    "held": table(rule=RULE, level=name, tensor=name, must=flag),
    "at_least": table(rule=RULE, level=name, tensor=name, elements=whole),
    "intrinsic": table(rule=RULE, dim=name, size=whole),
    "utilization": table(rule=RULE, least=rational),
    "at_most": table(rule=RULE, objective=name, most=rational),
}
STEPS = {
    "store": table(store=name, tensors=listed(name)),
    "for": table(**{"for": name, "tile": whole}),
    "par": table(par=name, tile=whole, over=name),
    "compute": table(compute=name),
}


def of_kinds(kinds: dict[str, Kind], value: Any) -> str:
    """Return which of the kinds a table is, by the field that only it has; refuse what is none of them."""
    found = [word for word in kinds if isinstance(value, dict) and word in value]
    need(len(found) == 1, f"expected a table with one of {', '.join(kinds)}")
    kinds[found[0]](value)
    return found[0]


def check_head(workload: Any, machine: Any, constraints: Any) -> None:
    """Refuse what is no workload, machine or list of constraints."""
    WORKLOAD(workload)
    nodes, _ = fields(machine, "nodes", "overlap")
    table(nodes=listed(lambda node: of_kinds(NODES, node)), overlap=flag)(machine)
    kinds = [of_kinds(NODES, node) for node in nodes]
    need(len(kinds) >= 2 and kinds[0] == "level" and kinds[-1] == "compute", "the machine's ends are malformed")
    need(kinds.count("compute") == 1, "the machine has several compute units")
    need(len(items(constraints)) <= 200, "expected a list of up to 200 constraints")
    for row in items(constraints):
        need(isinstance(row, dict) and "rule" in row, "expected a table with a rule")
        RULE(row["rule"])
        RULES[row["rule"]](row)


def check_tree(nodes: Any, levels: list[str], tensors: list[str], deep: int = 0) -> None:
    """Refuse what is no tree of a program: chains of nodes, the last one a statement or the children of a branch."""
    steps = items(nodes)
    need(1 <= len(steps) <= 500 and deep < 20, "the mapping is malformed")
    is_branch = type(steps[-1]) is dict and "branch" in steps[-1]
    kinds = [of_kinds(STEPS, node) for node in (steps[:-1] if is_branch else steps)]
    need(kinds.count("compute") == (not is_branch) and "compute" not in kinds[:-1], "the mapping is malformed")
    check_stored(steps[: len(kinds)], levels, tensors)
    if is_branch:
        children = items(fields(steps[-1], "branch")[0])
        need(2 <= len(children) <= 16, "the mapping is malformed")
        for child in children:
            check_tree(child, levels, tensors, deep + 1)


def check_mapping(nodes: Any, levels: list[str], tensors: list[str]) -> None:
    """Refuse what is no list of a loop tree's nodes."""
    steps = items(nodes)
    need(1 <= len(steps) <= 500, "the mapping is malformed")
    kinds = [of_kinds(STEPS, node) for node in steps]
    need(kinds[-1] == "compute" and kinds.count("compute") == 1, "the mapping is malformed")
    check_stored(steps, levels, tensors)


def check_stored(steps: list[Any], levels: list[str], tensors: list[str]) -> None:
    """Refuse nodes of no level or tensor. A tensor stands once at most in the nodes of a level, the outermost one among
    them."""
    stored = [(node["store"], tensor) for node in steps if "store" in node for tensor in node["tensors"]]
    need(all(level in levels and tensor in tensors for level, tensor in stored), "no such level or tensor is stored")
    need(len({*stored}) == len(stored), "a tensor is stored twice in a level")
