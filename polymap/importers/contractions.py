"""Products of any number of tensors that an equation such as "ij,jk,kl->il" says, as torch and onnxruntime compute
them: from left to right, two at a time."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from polymap.importers.calls import Call, NotMapped
from polymap.networks import Part

_ELLIPSIS = "."


def contraction(call: Call) -> tuple[Part, ...]:
    """Return a loop nest for each product of two operands, or the reduction of a single one; options: equation.

    What only one operand has and neither the result nor a later operand needs is summed before it is multiplied.
    Without an arrow the result has the letters that stand once, in alphabetical order, as numpy has it.
    """
    terms, output = _terms(call)
    sizes = _sizes(terms, call.inputs)
    terms = [_without_ones(term, shape, sizes) for term, shape in zip(terms, call.inputs, strict=True)]
    if not set(output) <= set("".join(terms)) | {letter for letter, size in sizes.items() if size == 1}:
        raise NotMapped("the equation's result has a letter that no operand has")
    output = "".join(letter for letter in output if letter in set("".join(terms)))
    if any(len(set(term)) < len(term) for term in (*terms, output)):
        raise NotMapped("an equation with a diagonal")
    if len(terms) == 1:
        return (_nest(call, "contraction", "O", output, [("A", terms[0])], sizes),)
    names = [*string.ascii_uppercase[:14]][: len(terms)]
    parts: list[Part] = []
    made, name = terms[0], names[0]
    for place, (term, other) in enumerate(zip(terms[1:], names[1:], strict=True), 1):
        later = set("".join(terms[place + 1 :])) | set(output)
        name, made = _reduced(call, parts, name, made, set(term) | later, sizes)
        other, term = _reduced(call, parts, other, term, set(made) | later, sizes)
        is_last = place == len(terms) - 1
        kept = output if is_last else "".join(dict.fromkeys(each for each in made + term if each in later))
        result = "O" if is_last else f"O{place}"
        label = "contraction" if is_last else f"contraction_{place}"
        parts.append(_nest(call, label, result, kept, [(name, made), (other, term)], sizes))
        name, made = result, kept
    return tuple(parts)


def is_permutation(equation: str) -> bool:
    """Whether an equation of one operand only says its axes in another order."""
    term, arrow, result = equation.replace(" ", "").partition("->")
    return bool(arrow) and sorted(term) == sorted(result) and len(set(term) - {"."}) == len(term.replace(".", ""))


def _terms(call: Call) -> tuple[list[str], str]:
    """Return the letters of the operands and of the result, an ellipsis written out in letters of its own."""
    equation = str(call.options.get("equation", "")).replace(" ", "").replace("...", _ELLIPSIS)
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    letters = "".join((*terms, output)).replace(_ELLIPSIS, "")
    if not letters.isascii() or (letters and not letters.isalpha()) or len(terms) != len(call.inputs):
        raise NotMapped("the equation does not fit the shapes of the operands")
    if any(each.count(_ELLIPSIS) > 1 for each in (*terms, output)) or len(terms) > 14:
        raise NotMapped("the equation does not fit the shapes of the operands")
    wide = [len(shape) - len(term) + 1 for term, shape in zip(terms, call.inputs, strict=True) if _ELLIPSIS in term]
    spare = [each for each in string.ascii_letters if each not in letters][: max([0, *wide])]
    if min(wide, default=0) < 0 or len(spare) < max([0, *wide]):
        raise NotMapped("the equation does not fit the shapes of the operands")
    if not arrow:
        joined = "".join(terms).replace(_ELLIPSIS, "")
        output = _ELLIPSIS + "".join(sorted(letter for letter in joined if joined.count(letter) == 1))
    whole = "".join(spare)
    for place, (term, shape) in enumerate(zip(terms, call.inputs, strict=True)):
        count = len(shape) - len(term) + 1
        terms[place] = term.replace(_ELLIPSIS, whole[len(whole) - count :] if _ELLIPSIS in term else "")
        if len(terms[place]) != len(shape):
            raise NotMapped("the equation does not fit the shapes of the operands")
    return terms, output.replace(_ELLIPSIS, whole)


def _sizes(terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the size of each letter; along 1 an operand is broadcast."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known != size and 1 not in (known, size):
                raise NotMapped("the shapes of the operands do not fit together")
            sizes[letter] = max(known, size)
    return sizes


def _without_ones(term: str, shape: Sequence[int], sizes: Mapping[str, int]) -> str:
    return "".join(letter for letter, size in zip(term, shape, strict=True) if size == sizes[letter])


def _reduced(
    call: Call, parts: list[Part], name: str, term: str, needed: set[str], sizes: Mapping[str, int]
) -> tuple[str, str]:
    """Sum an operand over the letters that nothing else has; return its name and letters then."""
    kept = "".join(letter for letter in term if letter in needed)
    if kept == term:
        return name, term
    parts.append(_nest(call, f"sums_{name}", f"{name}S", kept, [(name, term)], sizes))
    return f"{name}S", kept


def _nest(
    call: Call, name: str, result: str, kept: str, operands: Sequence[tuple[str, str]], sizes: Mapping[str, int]
) -> Part:
    def listed(letters: str) -> str:
        return ",".join(f"i{letter}" for letter in letters)

    right = " * ".join(f"{tensor}[{listed(letters)}]" for tensor, letters in operands)
    used = {f"i{letter}": sizes[letter] for _, letters in operands for letter in letters}
    workload = call.workload(f"{result}[{listed(kept)}] += {right}", used, name)
    return Part(workload, is_product=len(operands) > 1)
