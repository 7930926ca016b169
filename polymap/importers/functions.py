"""What elementwise operators compute of their operands, as expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from polymap.ir import Apply, Expression, Number


@dataclass(frozen=True, slots=True)
class Function:
    """What an elementwise operator computes of its operands. operands: how many are read; 0: all."""

    operands: int
    make: Callable[[tuple[Expression, ...]], Expression]


def _number(value: float) -> Number:
    return Number(repr(float(value)))


def _call(name: str) -> Function:
    return Function(1, lambda reads: Apply(name, reads[:1]))


def _folded(operation: str) -> Function:
    def make(reads: tuple[Expression, ...]) -> Expression:
        value = reads[0]
        for read in reads[1:]:
            value = Apply(operation, (value, read))
        return value

    return Function(0, make)


def sigmoid(value: Expression) -> Expression:
    """Return 1 / (1 + exp(-value))."""
    return Apply("/", (_number(1), Apply("+", (_number(1), Apply("exp", (Apply("neg", (value,)),))))))


def _gelu(value: Expression) -> Expression:
    erf = Apply("erf", (Apply("*", (value, _number(0.5**0.5))),))
    return Apply("*", (Apply("*", (_number(0.5), value)), Apply("+", (_number(1), erf))))


def _relu6(value: Expression) -> Expression:
    return Apply("min", (Apply("max", (value, _number(0))), _number(6)))


def _hard_sigmoid(value: Expression) -> Expression:
    return Apply("/", (_relu6(Apply("+", (value, _number(3)))), _number(6)))


def _softplus(value: Expression) -> Expression:
    return Apply("log1p", (Apply("exp", (value,)),))


def _if_positive(value: Expression, then: Expression, other: Expression) -> Expression:
    return Apply("?:", (Apply(">", (value, _number(0))), then, other))


def _elu(value: Expression, alpha: float = 1, scale: float = 1) -> Expression:
    low = Apply("*", (_number(alpha), Apply("expm1", (value,))))
    made = _if_positive(value, value, low)
    return made if scale == 1 else Apply("*", (_number(scale), made))


def _sign(value: Expression) -> Expression:
    return Apply("-", (Apply("<", (_number(0), value)), Apply("<", (value, _number(0)))))


def _scaled_sum(operation: str) -> Function:
    """x + f(y, z), as in addcmul and addcdiv."""

    def make(reads: tuple[Expression, ...]) -> Expression:
        return Apply("+", (reads[0], Apply(operation, reads[1:]))) if reads[2:] else reads[0]

    return Function(3, make)


def _between(reads: tuple[Expression, ...]) -> Expression:
    """x + w (y - x); w is a half where it is no tensor."""
    if not reads[1:]:
        return reads[0]
    weight = reads[2] if reads[2:] else _number(0.5)
    return Apply("+", (reads[0], Apply("*", (weight, Apply("-", (reads[1], reads[0]))))))


def _compared(sign: str) -> Function:
    return Function(0, lambda reads: Apply(sign, reads[:2]) if reads[1:] else reads[0])


FUNCTIONS: dict[str, Function] = {
    **{name: _folded(sign) for name, sign in (("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/"))},
    **{name: _folded(name) for name in ("max", "min")},
    **{name: _call(name) for name in ("exp", "log", "sqrt", "tanh", "erf", "fabs", "sin", "cos", "floor", "ceil")},
    **{name: _call(name) for name in ("tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{name: _call(name) for name in ("rint", "trunc", "log1p", "expm1")},
    "power": Function(2, lambda reads: Apply("pow", reads) if reads[1:] else Apply("*", (*reads, *reads))),
    "negate": Function(1, lambda reads: Apply("neg", reads)),
    "reciprocal": Function(1, lambda reads: Apply("/", (_number(1), reads[0]))),
    "rsqrt": Function(1, lambda reads: Apply("/", (_number(1), Apply("sqrt", reads)))),
    "relu": Function(1, lambda reads: Apply("max", (reads[0], _number(0)))),
    "relu6": Function(1, lambda reads: _relu6(reads[0])),
    "sigmoid": Function(1, lambda reads: sigmoid(reads[0])),
    "silu": Function(1, lambda reads: Apply("*", (reads[0], sigmoid(reads[0])))),
    "gelu": Function(1, lambda reads: _gelu(reads[0])),
    "hard_sigmoid": Function(1, lambda reads: _hard_sigmoid(reads[0])),
    "hard_swish": Function(1, lambda reads: Apply("*", (reads[0], _hard_sigmoid(reads[0])))),
    "leaky_relu": Function(1, lambda reads: Apply("max", (reads[0], Apply("*", (_number(0.01), reads[0]))))),
    "softplus": Function(1, lambda reads: _softplus(reads[0])),
    "log_sigmoid": Function(1, lambda reads: Apply("neg", (_softplus(Apply("neg", reads)),))),
    "softsign": Function(1, lambda reads: Apply("/", (reads[0], Apply("+", (_number(1), Apply("fabs", reads)))))),
    "mish": Function(1, lambda reads: Apply("*", (reads[0], Apply("tanh", (_softplus(reads[0]),))))),
    "elu": Function(1, lambda reads: _elu(reads[0])),
    "selu": Function(1, lambda reads: _elu(reads[0], 1.6732632423543772, 1.0507009873554805)),
    "prelu": Function(
        2, lambda reads: _if_positive(reads[0], reads[0], Apply("*", (reads[1], reads[0]))) if reads[1:] else reads[0]
    ),
    "thresholded": Function(1, lambda reads: Apply("?:", (Apply(">", (reads[0], _number(1))), reads[0], _number(0)))),
    "shrunk": Function(
        1, lambda reads: Apply("?:", (Apply(">", (Apply("fabs", reads), _number(0.5))), reads[0], _number(0)))
    ),
    "sign": Function(1, lambda reads: _sign(reads[0])),
    "square": Function(1, lambda reads: Apply("*", (reads[0], reads[0]))),
    "is_nan": Function(1, lambda reads: Apply("!=", (reads[0], reads[0]))),
    "not": Function(1, lambda reads: Apply("!", reads)),
    "and": _compared("&&"),
    "or": _compared("||"),
    "unequal": _compared("!="),
    "remainder": Function(2, lambda reads: Apply("fmod", reads) if reads[1:] else reads[0]),
    "atan2": Function(2, lambda reads: Apply("atan2", reads) if reads[1:] else reads[0]),
    "mean_of": Function(0, lambda reads: Apply("/", (_folded("+").make(reads), _number(len(reads))))),
    "added_product": _scaled_sum("*"),
    "added_quotient": _scaled_sum("/"),
    "between": Function(3, _between),
    "gated": Function(2, lambda reads: Apply("*", (reads[0], sigmoid(reads[1]))) if reads[1:] else reads[0]),
    "biased_gelu": Function(2, lambda reads: _gelu(_folded("+").make(reads))),
    "where": Function(
        3, lambda reads: Apply("?:", (Apply("!=", (reads[0], _number(0))), *reads[1:])) if reads[2:] else reads[0]
    ),
    "less": _compared("<"),
    "equal": _compared("=="),
    "copy": Function(1, lambda reads: reads[0]),  # casts, constants applied, masks
}
