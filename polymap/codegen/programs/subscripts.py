"""Subscripts of elements, in forms of which compilers make vectors."""

from __future__ import annotations

import re
from math import gcd

from polymap.codegen.lower import Binary, Element, Expr, Name, affine_expr
from polymap.codegen.programs.storage import Storage
from polymap.codegen.source import TUNING
from polymap.ir import Access, Affine, Workload

Products = dict[str, Expr]
"""dim -> what stands for its product with its factor in a subscript."""


def element(storage: Storage, access: Access, values: dict[str, Expr], products: Products | None = None) -> Expr:
    """Return an element of an array, or a variable."""
    form = storage.forms[access.tensor]
    if storage.is_variable(access.tensor):
        return Name(form.parameter)
    position, products = form.position(access), products or {}
    terms = tuple((1 if atom in products else factor, atom) for factor, atom in position.terms)
    return Element(form.parameter, (affine_expr(Affine(terms, position.constant), {**values, **products}),))


def hidden_step(storage: Storage, access: Access, values: dict[str, Expr], inner: str) -> Products:
    """Return the product of the innermost loop's dim with a variable, where an access steps by a large power of two.

    Reads that are a known power of two apart gcc 12 takes for parts of whole vectors, which then cost too much.
    """
    position = storage.forms[access.tensor].position(access)
    step = position.coefficients().get(inner, 0) if position.is_linear else 0
    is_hidden = step >= TUNING.hidden_step and not step & (step - 1)
    return {inner: Binary("*", values[inner], Name(f"step_{step}"))} if is_hidden else {}


def hidden_steps(body: str) -> list[str]:
    """Return the declarations of such steps that the text uses, as values that compilers do not know."""
    lines: list[str] = []
    for step in sorted({int(each) for each in re.findall(r"\bstep_(\d+)\b", body)}):
        lines.append(f"    const volatile long step_{step}_held = {step};")
        lines.append(f"    const long step_{step} = step_{step}_held; /* gcc finds no vectors where it is known */")
    return lines


def shared_product(
    workload: Workload, storage: Storage, access: Access, values: dict[str, Expr]
) -> tuple[str, Expr] | None:
    """Return a dim and its product that should be a constant of its own, where all factors of a subscript have a common
    one that other reads of the array lack.

    Compilers put it outside, and then do not see that `a[4 * i + 2 * j]` is among `a[4 * i + 2 * j + k]`.
    """
    form = storage.forms[access.tensor]
    position = form.position(access)
    if len(position.terms) < 2 or _factor(position) == 1:
        return None
    others = (read for each in workload.statements for read in each.reads if read.tensor == access.tensor)
    if all(_factor(form.position(each)) > 1 for each in others):
        return None
    factor, dim = position.terms[0]
    return (dim, affine_expr(Affine(((factor, dim),)), values)) if isinstance(dim, str) else None


def _factor(position: Affine) -> int:
    """Return the common factor of a subscript's terms."""
    return gcd(position.constant, *(factor for factor, _ in position.terms))
