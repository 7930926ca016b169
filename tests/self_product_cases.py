"""Random small products of a tensor with itself on random machines, all trees of which can be walked."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir import Architecture, Fanout, Hops, Mapping, Workload
from polymap.search.problem import Rules, objective_values, parse_objective, refusals, rules_from_document

TEXTS = (
    "C[m,n] += A[m,k] * A[n,k]",
    "C[m,n] += A[m,k] * A[k,n]",
    "S[i] += A[i,j] * A[j,i]",
    "O[i] += A[i+j] * A[i]",
    "C[d] += A[i] * A[i+d]",
    "O[i,r] += A[i] * A[j] * B[r]",
    "O[i] += A[i+r] * A[k]",
    "S[] += A[i] * A[i] * A[j]",
    "C[b,m,n] += A[b,m] * A[b,n]",
    "O[i,r] += A[i,j] * A[j,i] * B[j,r]",
)
MULTICAST = ("identical", "union", "none")


@dataclass(frozen=True, slots=True)
class Question:
    """A self-product on a machine, what is asked of it, and the requirements."""

    workload: Workload
    arch: Architecture
    objective: str
    tiles: str
    constraints: dict[str, object] | None

    @property
    def rules(self) -> Rules:
        return () if self.constraints is None else rules_from_document(self.constraints, self.workload, self.arch)


def random_question(rng: random.Random, texts: tuple[str, ...] = TEXTS, *, priced: bool = False) -> Question:
    """Return a small question: two or three levels, fan-outs of every multicast, levels that may be bypassed.

    priced: whether fan-outs cost energy.
    """
    text = rng.choice(texts)
    sizes = {letter: rng.choice((1, 2, 2, 3, 4)) for letter in dict.fromkeys(text) if letter.islower()}
    workload = pm.einsum(text, sizes=sizes, bits=rng.choice((8, 16)))
    arch = _machine(rng, [tensor.name for tensor in workload.tensors])
    arch = _with_prices(rng, arch) if priced else arch
    levels = [level.name for level in arch.levels]
    kinds = ("energy", "energy", "latency", "edp", f"traffic:{rng.choice(levels)}", f"capacity:{levels[-1]}")
    constraints = _constraints(rng, workload, arch) if rng.random() < 0.4 else None
    return Question(workload, arch, rng.choice(kinds), rng.choice(("divide", "any")), constraints)


def _machine(rng: random.Random, tensors: list[str]) -> Architecture:
    nodes: list[dict[str, object]] = [_level(rng, "D", [], outermost=True)]
    for name in ("L1", "L2")[: rng.choice((1, 1, 2))]:
        nodes += [_fanout(rng, f"X{name}")] if rng.random() < 0.5 else []
        nodes.append(_level(rng, name, tensors, outermost=False))
    nodes += [_fanout(rng, "Y")] if rng.random() < 0.4 else []
    nodes.append({"compute": "M", "pj": 1})
    return pm.io.arch_from_document({"name": "a", "overlap": rng.random() < 0.7, "nodes": nodes})


def _with_prices(rng: random.Random, arch: Architecture) -> Architecture:
    def priced(fanout: Fanout) -> Fanout:
        prices = {name: Fraction(rng.randint(0, 5)) for name in ("pj_per_word", "pj_per_word_hop", "reduce_pj")}
        return replace(fanout, hops=rng.choice(list(Hops)), **prices)

    return replace(arch, nodes=tuple(priced(node) if isinstance(node, Fanout) else node for node in arch.nodes))


def _level(rng: random.Random, name: str, tensors: list[str], *, outermost: bool) -> dict[str, object]:
    found: dict[str, object] = {"level": name, "read_pj": rng.randint(0, 9), "write_pj": rng.randint(0, 9)}
    if rng.random() < 0.4:
        found["bandwidth_bits_per_cycle"] = rng.choice((4, 8, 64))
    if rng.random() < 0.15:
        found["leak_pj_per_cycle"] = rng.randint(1, 3)
    if outermost:
        return found
    found["capacity_bits"] = 8 * rng.randint(3, 24)
    found["buffering"] = rng.choice((1, 1, 2))
    if rng.random() < 0.3:
        found["holds"] = rng.sample(tensors, rng.randint(1, len(tensors)))
    if rng.random() < 0.2:
        allowed = found.get("holds", tensors)
        assert isinstance(allowed, list)
        found["must_hold"] = [rng.choice(allowed)]
    return found


def _fanout(rng: random.Random, name: str) -> dict[str, object]:
    return {
        "fanout": name,
        "size": rng.choice((2, 3, 4)),
        "multicast": rng.choice(MULTICAST),
        "reduction": rng.random() < 0.6,
    }


def _constraints(rng: random.Random, workload: Workload, arch: Architecture) -> dict[str, object]:
    dims, levels = list(workload.extents()), [level.name for level in arch.levels[1:]]
    kind = rng.choice(("innermost", "must", "never", "intrinsic"))
    if kind == "innermost":
        return {"innermost": [rng.choice(dims)]}
    if kind == "intrinsic":
        return {"intrinsic": {rng.choice(dims): 2}}
    tensor = rng.choice(workload.tensors).name
    return {"store": {rng.choice(levels): {kind: [tensor]}}}


def best_tree(question: Question, most_trees: int) -> tuple[Mapping | None, Fraction] | None:
    """Return the best tree of all that fit and meet the rules, and its exact value; None: there are too many trees.

    Every tree that would be the best is counted by the simulator, alone.
    """
    asked = question.workload, question.arch
    meets: Callable[[Mapping], bool] = partial(_is_answer, question)
    found = exhaustive(*asked, question.objective, question.tiles, most_trees=most_trees, meets=meets)
    if found is None or found.best is None:
        return None if found is None else (None, Fraction(0))
    objective = parse_objective(question.objective, question.arch)
    return found.best, objective_values(*asked, objective, pm.simulate(*asked, found.best))[0]


def _is_answer(question: Question, mapping: Mapping) -> bool:
    cost = pm.simulate(question.workload, question.arch, mapping)
    return cost.legal and not refusals(question.workload, question.arch, question.rules, mapping, cost)
