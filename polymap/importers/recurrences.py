"""Recurrent layers as loop nests: the products with the inputs of all steps at once, then step by step the products
with the state before, the gates, and the new state."""

from __future__ import annotations

from math import prod

from polymap.importers.calls import Call, NotMapped, Shape, integer
from polymap.importers.functions import sigmoid
from polymap.importers.tuning import TUNING
from polymap.ir import Apply, Expression, Number, Read
from polymap.networks import Part

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrence(call: Call) -> tuple[Part, ...]:
    """Return the loop nests of LSTM, GRU and RNN, layer by layer and direction by direction.

    inputs: x [steps, batch, width], then for each layer and direction the weights of the inputs [gates * hidden,
    width] and of the states [gates * hidden, hidden]. options: reset_first (a GRU whose reset gate scales the state
    before the product, not behind it), relu (an RNN with it instead of tanh). What is made of one step is counted by
    itself, as the next one needs it.
    """
    (steps, batch, *_), weights = call.inputs[0], call.inputs[1:]
    macs = steps * batch * sum(map(prod, weights))
    pairs = list(zip(weights[::2], weights[1::2], strict=False))
    if len(call.inputs[0]) != 3 or not pairs or len(weights) % 2:
        raise NotMapped("not the weights of inputs and states in turn", macs)
    if steps * len(pairs) > TUNING.most_steps:
        raise NotMapped(f"a recurrence of more than {TUNING.most_steps} steps", macs)
    gates = GATES[call.operator]
    parts: list[Part] = []
    for place, (inputs, states) in enumerate(pairs):
        (rows, _), (high, hidden) = inputs, states
        if not rows == high == gates * hidden:
            raise NotMapped("the shapes of its weights do not fit together", macs)
        parts += _layer(call, f"_{place}" if place else "", inputs, hidden)
    return tuple(parts)


def _layer(call: Call, tag: str, weights: Shape, hidden: int) -> list[Part]:
    steps, batch, _ = call.inputs[0]
    rows, width = weights
    sizes = {"t": steps, "b": batch, "n": rows, "k": width}
    made = call.workload("G[t,b,n] += X[t,b,k] * W[n,k]", sizes, f"inputs{tag}")
    return [Part(made, is_product=True), *_step(call, tag, hidden) * steps]


def _step(call: Call, tag: str, hidden: int) -> list[Part]:
    """Return the loop nests of one step. H, C: states before; G: product of the inputs; R: of the states; E, F, Z:
    gates; A: candidates."""
    batch = call.inputs[0][1]

    def product(name: str, gates: int) -> Part:
        sizes = {"b": batch, "n": gates * hidden, "k": hidden}
        return Part(call.workload("R[b,n] += H[b,k] * U[n,k]", sizes, f"{name}{tag}"), is_product=True)

    def cells(name: str, reads: str, value: Expression, gates: int = 1) -> Part:
        text = f"O[b,n] += {' * '.join(f'{each}[b,n]' for each in reads)}"
        sizes = {"b": batch, "n": gates * hidden}
        return Part(call.workload(text, sizes, f"{name}{tag}", value), is_product=False)

    total = Apply("+", (Read(0), Read(1)))
    match call.operator:
        case "lstm":
            state = Apply("+", (Apply("*", (Read(0), Read(1))), Apply("*", (Read(2), Read(3)))))
            let_through = Apply("*", (Read(0), Apply("tanh", (Read(1),))))
            return [
                *(product("states", 4), cells("gates", "GR", sigmoid(total), 3)),
                cells("candidates", "GR", Apply("tanh", (total,))),
                *(cells("cells", "FCEA", state), cells("outputs", "EC", let_through)),
            ]
        case "gru":
            rest = Apply("-", (Number("1.0"), Read(0)))
            state = Apply("+", (Apply("*", (rest, Read(1))), Apply("*", (Read(0), Read(2)))))
            gates, outputs = cells("gates", "GR", sigmoid(total), 2), cells("outputs", "ZAH", state)
            if integer(call, "reset_first", 0):
                reset = cells("reset", "EH", Apply("*", (Read(0), Read(1))))
                candidates = cells("candidates", "GR", Apply("tanh", (total,)))
                return [product("states", 2), gates, reset, product("reset_states", 1), candidates, outputs]
            scaled = Apply("tanh", (Apply("+", (Read(0), Apply("*", (Read(2), Read(1))))),))
            return [product("states", 3), gates, cells("candidates", "GRE", scaled), outputs]
        case _:
            is_relu = integer(call, "relu", 0)
            value = Apply("max", (total, Number("0.0"))) if is_relu else Apply("tanh", (total,))
            return [product("states", 1), cells("outputs", "GR", value)]
