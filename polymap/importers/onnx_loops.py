"""Graphs inside the nodes of an ONNX graph: which branch runs, how often a body runs, and what it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polymap.importers.onnx_scopes import Scope, graphs_of


def taken_branch(node: Any, scope: Scope) -> Any:
    """Return the graph of an If that runs where its condition is known before the run; None otherwise."""
    if node.op_type != "If" or len(node.input) != 1:
        return None
    condition = scope.value(node.input[0])
    if condition is None or condition.size != 1:
        return None
    return dict(graphs_of(node)).get("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")


def adopt(node: Any, branch: Any, inside: Scope, scope: Scope) -> None:
    """Note the results of the branch that runs as those of its If. inside: what is known in the branch."""
    for name, made in zip(node.output, branch.output, strict=False):
        scope.bind(name, inside.kind(made.name), inside.value(made.name))


def _learn_all(graph: Any, scope: Scope) -> None:
    """Note what follows from the inputs of a graph, known branches included."""
    for node in graph.node:
        scope.learn(node)
        branch = taken_branch(node, scope)
        if branch is not None:
            inside = entered(node, branch, scope)
            _learn_all(branch, inside)
            adopt(node, branch, inside, scope)


def runs_of(node: Any, scope: Scope, opset: int) -> int | None:
    """Return how often the graph inside a node runs; None where that depends on values.

    A Scan: once for each slice of its last inputs. A Loop: as often as its first input says, where that is known and
    its condition stays true.
    """
    given = {each.name: each for each in node.attribute}
    if node.op_type == "Loop":
        return _trips(node, scope)
    if node.op_type != "Scan" or opset < 9 or "num_scan_inputs" not in given:
        return None
    count = int(given["num_scan_inputs"].i)
    axes: Sequence[int] = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * count
    shape = scope.shape(node.input[-count]) if 0 < count <= len(node.input) and axes else None
    if shape is None or not -len(shape) <= axes[0] < len(shape):
        return None
    return int(shape[axes[0]])


def _trips(node: Any, scope: Scope) -> int | None:
    """Return how often the body of a Loop runs; None where values decide."""
    body = dict(graphs_of(node)).get("body")
    trips = scope.integers(node.input[0]) if len(node.input) > 0 and node.input[0] else None
    if body is None or trips is None or len(trips) != 1 or not body.output or len(body.input) < 2:
        return None
    if len(node.input) > 1 and node.input[1] and scope.integers(node.input[1]) != (1,):
        return None
    is_kept = _source(body, body.output[0].name) == body.input[1].name
    if not is_kept:
        inside = scope.inside()
        inside.note(body)
        _learn_all(body, inside)
        if inside.integers(body.output[0].name) != (1,):
            return None
    return trips[0] if 0 < trips[0] < 2**31 else None


def _source(graph: Any, name: str) -> str:
    """Return the value that a value of a graph repeats, itself where it repeats none."""
    for node in reversed(graph.node):
        if node.op_type == "Identity" and not node.domain and list(node.output) == [name]:
            name = node.input[0]
    return name


def entered(node: Any, graph: Any, scope: Scope) -> Scope:
    """Return what is known inside a graph of a node.

    What a Loop carries from one run to the next has the shapes that it starts with, where the body keeps them.
    """
    inside = scope.inside()
    inside.note(graph)
    if node.op_type != "Loop" or len(graph.input) != len(node.input):
        return inside
    carried = list(zip(graph.input[2:], node.input[2:], graph.output[1:], strict=False))
    trial = scope.inside()
    trial.note(graph)
    for into, start, _ in carried:
        if start and scope.shape(start) is not None:
            trial.bind(into.name, scope.kind(start))
    _learn_all(graph, trial)
    if all(trial.shape(into.name) == trial.shape(back.name) for into, _, back in carried):
        for into, _, _ in carried:
            if trial.kind(into.name) is not None:
                inside.bind(into.name, trial.kind(into.name))
    return inside
