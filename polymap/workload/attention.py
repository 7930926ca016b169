"""Attention and softmax as einsums: the formulas, once, for layers of people's own and for those of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from polymap.inputs import LIMITS, answers_in_words, as_integer, shown
from polymap.ir import Apply, Expression, Mistake, Read, Role, Workload, WorkloadError, did_you_mean
from polymap.workload.einsums import (
    Extras,
    build,
    checked_associative,
    checked_label,
    listed_names,
    roles_of,
    widths_of,
)
from polymap.workload.joining import join_nests, links_by_name

_FORMS = ("passes", "blocks", "none")
_ONLINE = (
    "A running maximum is a recurrence, which einsums cannot write. softmax='blocks' with blocks=N reads each key and "
    "value once, too: blocks of keys each by their own maximum, put together at the end."
)


class Step(NamedTuple):
    """One nest: its einsum, where its right side is no product the value of an instance, and whether it multiplies and
    accumulates."""

    name: str
    text: str
    expression: Expression | None = None
    is_product: bool = False


@dataclass(frozen=True, slots=True)
class Letters:
    """The dims of an attention: heads (and what stands before them), those that only queries have, positions of queries
    and keys, widths of keys and values."""

    head: tuple[str, ...]
    shared: tuple[str, ...] = ()
    queries: str = "q"
    keys: str = "k"
    width: str = "e"
    values: str = "d"


def softmax_steps(each: str, row: str, x: str = "X", sums: str = "S", result: str = "O") -> tuple[Step, ...]:
    """Return the passes of a softmax: the largest element of each row, exponentials of the differences, their sums,
    quotients. each, row: the dims of all elements, and of the rows, as in a subscript; x, sums, result: tensors."""
    return (
        Step("largest", f"M[{row}] max= {x}[{each}]"),
        Step("exponentials", f"E[{each}] += {x}[{each}] * M[{row}]", _exponential()),
        Step("sums", f"{sums}[{row}] += E[{each}]"),
        Step("quotients", f"{result}[{each}] += E[{each}] * {sums}[{row}]", Apply("/", (Read(0), Read(1)))),
    )


def attention_steps(letters: Letters, *, softmax: bool = True, context: str = "O") -> tuple[Step, ...]:
    """Return scores, softmax over the keys, context. context: the tensor of the last."""
    every = ",".join((*letters.head, *letters.shared))
    row, each = f"{every},{letters.queries}", f"{every},{letters.queries},{letters.keys}"
    head, key = ",".join(letters.head), letters.keys
    scores = f"S[{each}] += Q[{row},{letters.width}] * K[{head},{key},{letters.width}]"
    weights = "P" if softmax else "S"
    last = f"{context}[{row},{letters.values}] += {weights}[{each}] * V[{head},{key},{letters.values}]"
    passes = softmax_steps(each, row, "S", "D", "P") if softmax else ()
    return (Step("scores", scores, is_product=True), *passes, Step("context", last, is_product=True))


def blocked_steps(letters: Letters, block: str) -> tuple[Step, ...]:
    """Return an attention that reads keys and values once: for each block of keys its own maximum (L), exponentials
    (E), sums (B) and context (C); then the largest of the maxima (M), what each block counts for (F), and the quotient.

    The same values: exp(s - M) is exp(s - L) exp(L - M), and F = exp(L - M) is taken out of the sums over a block.
    """
    every = ",".join((*letters.head, *letters.shared))
    row, head = f"{every},{letters.queries}", ",".join(letters.head)
    part, each, key = f"{row},{block}", f"{row},{block},{letters.keys}", f"{head},{block},{letters.keys}"
    value, width = letters.values, letters.width
    quotient = Apply("/", (Apply("*", (Read(0), Read(1))), Read(2)))
    return (
        Step("scores", f"S[{each}] += Q[{row},{width}] * K[{key},{width}]", is_product=True),
        Step("largest_of_block", f"L[{part}] max= S[{each}]"),
        Step("exponentials", f"E[{each}] += S[{each}] * L[{part}]", _exponential()),
        Step("sums_of_block", f"B[{part}] += E[{each}]"),
        Step("context_of_block", f"C[{part},{value}] += E[{each}] * V[{key},{value}]", is_product=True),
        Step("largest", f"M[{row}] max= L[{part}]"),
        Step("shares", f"F[{part}] += L[{part}] * M[{row}]", _exponential()),
        Step("sums", f"D[{row}] += F[{part}] * B[{part}]"),
        Step("context", f"O[{row},{value}] += C[{part},{value}] * F[{part}] * D[{row}]", quotient),
    )


def _exponential() -> Expression:
    return Apply("exp", (Apply("-", (Read(0), Read(1))),))


def sizes_within(text: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of the dims that stand in the brackets of an einsum."""
    inside = {word for part in text.split("[")[1:] for word in part.split("]")[0].split(",")}
    return {name: size for name, size in sizes.items() if name in inside}


@answers_in_words
def attention(
    *,
    heads: int,
    queries: int,
    keys: int,
    dim: int,
    value_dim: int | None = None,
    kv_heads: int | None = None,
    batch: int | None = None,
    softmax: str = "passes",
    blocks: int | None = None,
    bits: int | Mapping[str, int] | None = None,
    types: str | Mapping[str, str] | None = None,
    temporary: Iterable[str] | None = None,
    associative: bool = True,
    name: str | None = None,
) -> Workload:
    """Return an attention as a program of several nests: scores S, softmax over the keys, context O.

        S[h,q,k] += Q[h,q,e] * K[h,k,e]        M[h,q] max= S[h,q,k]        E[h,q,k] = exp(S[h,q,k] - M[h,q])
        D[h,q] += E[h,q,k]        P[h,q,k] = E[h,q,k] / D[h,q]        O[h,q,d] += P[h,q,k] * V[h,k,d]

    queries, keys: how many positions; dim: the width of queries and keys, and of values but for value_dim. kv_heads:
    fewer heads of keys and values, each shared by as many consecutive heads of queries (dim g: grouped queries). batch:
    a dim b in front. No scale and no mask: scale Q before. softmax: "passes" as above; "blocks", which computes the
    same for blocks of the keys, each by its own maximum, and puts them together at the end, so that keys and values are
    read once (blocks: how many, a divisor of keys); "none", without it (O is S times V). What lies between is temporary
    but for what `temporary` leaves out. types or bits as in `einsum`: to run it, types="float32".
    Raises WorkloadError with every mistake.
    """
    mistakes: list[Mistake] = []
    numbers = {"heads": heads, "queries": queries, "keys": keys, "dim": dim}
    more = {"value_dim": value_dim, "kv_heads": kv_heads, "batch": batch, "blocks": blocks}
    sizes = _checked({**numbers, **{key: value for key, value in more.items() if value is not None}}, mistakes)
    _check_form(softmax, sizes, mistakes)
    label = checked_label("attention" if name is None else name, mistakes)
    if mistakes:
        raise WorkloadError(mistakes)
    steps, extents = _steps_of(softmax, sizes)
    nests = [_nest(step, extents) for step in steps]
    joined = join_nests(nests, links_by_name(nests), label or "attention")
    return _as_asked(joined, Extras(bits, types, None, (), temporary, associative))


def _steps_of(softmax: str, sizes: Mapping[str, int]) -> tuple[tuple[Step, ...], dict[str, int]]:
    """Return the nests, and how long their dims are."""
    heads = sizes.get("kv_heads", sizes["heads"])
    extents = {"b": sizes.get("batch", 1), "h": heads, "g": sizes["heads"] // heads, "q": sizes["queries"]}
    extents |= {"k": sizes["keys"], "e": sizes["dim"], "d": sizes.get("value_dim", sizes["dim"])}
    letters = Letters(("b", "h") if "batch" in sizes else ("h",), ("g",) if "kv_heads" in sizes else ())
    if softmax != "blocks":
        return attention_steps(letters, softmax=softmax == "passes"), extents
    blocks = sizes["blocks"]
    return blocked_steps(letters, "j"), extents | {"j": blocks, "k": sizes["keys"] // blocks}


def _nest(step: Step, extents: Mapping[str, int]) -> Workload:
    found = build(step.text, sizes_within(step.text, extents), Extras(name=step.name), [])
    if step.expression is None:
        return found
    return replace(found, statements=(replace(found.statements[0], expression=step.expression),))


def _as_asked(workload: Workload, extras: Extras) -> Workload:
    """Return the program with bits, types and temporary tensors as they were given. Raises WorkloadError."""
    mistakes: list[Mistake] = []
    names = tuple(each.name for each in workload.tensors)
    written = {each.target.tensor for each in workload.statements}
    widths = widths_of(names, extras, mistakes)
    usual = {name: Role.OUTPUT if name in written else Role.WEIGHT for name in names} | {"Q": Role.INPUT}
    roles = roles_of(names, usual, extras.roles, mistakes)
    between = [each.name for each in workload.tensors if each.temporary]
    dead = listed_names("temporary", between if extras.temporary is None else extras.temporary, names, mistakes)
    mistakes += [
        Mistake("PM214", f"temporary lists {name}, which is only read", f"These may be: {', '.join(between)}.")
        for name in dead
        if name not in written
    ]
    associative = checked_associative(extras.associative, mistakes)
    if mistakes:
        raise WorkloadError(mistakes)
    tensors = tuple(
        replace(each, bits=widths[each.name][0], element_type=widths[each.name][1])
        for each in (replace(one, role=roles[one.name], temporary=one.name in dead) for one in workload.tensors)
    )
    return replace(workload, tensors=tensors, associative=associative)


def _checked(given: Mapping[str, object], mistakes: list[Mistake]) -> dict[str, int]:
    """Return the sizes; what is no size is noted, and 1 is returned for it."""
    found: dict[str, int] = {}
    for name, value in given.items():
        number = as_integer(value)
        if number is None or not 1 <= number <= LIMITS.integer:
            mistakes.append(Mistake("PM222", f"{name} is {shown(value)}", "Expected an integer >= 1 (at most 10^100)."))
        found[name] = number if number is not None and number >= 1 else 1
    return found


def _check_form(softmax: object, sizes: Mapping[str, int], mistakes: list[Mistake]) -> None:
    """Note an unknown form of the softmax, and numbers that do not divide each other."""
    if softmax == "online":
        mistakes.append(Mistake("PM219", "softmax is 'online'", _ONLINE))
    elif not isinstance(softmax, str) or softmax not in _FORMS:
        hint = did_you_mean(softmax[:64] if isinstance(softmax, str) else "", _FORMS)
        mistakes.append(Mistake("PM219", f"softmax is {shown(softmax)}", hint))
    elif softmax == "blocks" and "blocks" not in sizes:
        mistakes.append(Mistake("PM221", "softmax='blocks' lacks blocks", "Add blocks=..., a divisor of keys."))
    elif softmax != "blocks" and "blocks" in sizes:
        mistakes.append(Mistake("PM219", f"blocks is given with softmax={shown(softmax)}", "Use softmax='blocks'."))
    for part, whole, why in (
        ("blocks", "keys", "Blocks are equally long."),
        ("kv_heads", "heads", "Each head of keys serves equally many heads of queries."),
    ):
        if part in sizes and sizes[whole] % sizes[part]:
            mistakes.append(Mistake("PM225", f"{part}={sizes[part]} does not divide {whole}={sizes[whole]}", why))
