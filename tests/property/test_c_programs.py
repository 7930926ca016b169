"""Random C programs: the workload read from the text does what an interpreter of the text does."""

from __future__ import annotations

import pytest
from hypothesis import event, given, reject, settings, strategies as st

from polymap.ir.errors import BudgetError, WorkloadError
from polymap.schedules.legality import schedule_violations
from polymap.schedules.relation import original_schedule
from polymap.workload.c.reader import from_c
from tests.c_interpreter import CProgram, run_workload

pytestmark = pytest.mark.slow


@st.composite
def affine_texts(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    """Return an affine expression of the loop variables, with quotients and remainders now and then."""
    terms = [str(draw(st.integers(-4, 4)))]
    for name in names:
        factor = draw(st.sampled_from([0, 0, 1, 1, 1, -1, 2, -3]))
        if factor:
            terms.append(name if factor == 1 else f"{factor} * {name}")
    text = " + ".join(terms)
    form = draw(st.integers(0, 7))
    divisor = draw(st.sampled_from([2, 3, 5, -2]))
    if form == 0:
        return f"({text}) / {divisor}"
    if form == 1:
        return f"({text}) % {divisor} + {draw(st.sampled_from(names))}" if names else text
    return f"({text})"


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> str:
    form = draw(st.integers(0, 5 if depth else 2))
    if form <= 2:
        operator = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        return f"{draw(affine_texts(names))} {operator} {draw(affine_texts(names))}"
    if form == 3:
        return f"!({draw(conditions(names, depth - 1))})"
    operator = "&&" if form == 4 else "||"
    return f"({draw(conditions(names, depth - 1))}) {operator} ({draw(conditions(names, depth - 1))})"


@st.composite
def assignments(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    def item() -> str:
        if draw(st.booleans()):
            return f"a[{draw(affine_texts(names))}]"
        return f"b[{draw(affine_texts(names))}][{draw(affine_texts(names))}]"

    target, value = item(), item()
    form = draw(st.integers(0, 7))
    if form == 0:
        return f"{target} = {target} < {value} ? {value} : {target};"
    if form == 1:
        return f"{target} = min({target}, {value});"
    if form == 2:
        return f"{target} = {draw(conditions(names, 1))} ? {value} : {item()} + 1;"
    if form == 3:
        return f"{target} = {value} * 0.5 - {draw(affine_texts(names))};"
    operator = draw(st.sampled_from(["=", "+=", "-=", "+="]))
    return f"{target} {operator} {value};"


@st.composite
def blocks(draw: st.DrawFn, names: tuple[str, ...], depth: int) -> str:
    """Return one to two statements: loops, conditions and assignments."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        form = draw(st.integers(0, 5))
        if depth and (form <= 3 or not names):
            name = "ijk"[len(names)]
            lines.append(f"for ({draw(headers(name, names))}) {{ {draw(blocks((*names, name), depth - 1))} }}")
        elif form == 4:
            other = f" else {{ {draw(assignments(names))} }}" if draw(st.booleans()) else ""
            lines.append(f"if ({draw(conditions(names))}) {{ {draw(assignments(names))} }}{other}")
        else:
            lines.append(draw(assignments(names)))
    return " ".join(lines)


@st.composite
def headers(draw: st.DrawFn, name: str, names: tuple[str, ...]) -> str:
    low, high = (draw(affine_texts(names)) if names and draw(st.booleans()) else None for _ in range(2))
    first, count = draw(st.integers(-3, 3)), draw(st.integers(1, 5))
    step = draw(st.sampled_from([1, 1, 1, 2, 3]))
    extra = f" && {draw(conditions(names, 0))}" if names and draw(st.integers(0, 5)) == 0 else ""
    if extra and not any(each in extra for each in ("<", ">")):
        extra = ""
    if draw(st.integers(0, 3)) == 0:
        return f"int {name} = {high or first + count}; {name} >= {low or first}{extra}; {name} -= {step}"
    if low and draw(st.integers(0, 3)) == 0 and step == 1:
        low = f"max({low}, {first})"
    return f"int {name} = {low or first}; {name} <= {high or first + count}{extra}; {name} += {step}"


@given(blocks((), 3))
@settings(max_examples=25)
def test_workload_computes_what_the_text_computes(body: str) -> None:
    text = f"void f(int a[], int b[][100]) {{ {body} }}"
    try:
        work = from_c(text.replace("int a[], int b[][100]", ""))
    except WorkloadError as error:
        refused = {problem.code for problem in error.mistakes}
        event("refused")
        if refused != {"PM271"} and "!=" not in body and "!(" not in body and "||" not in body:
            raise
        return
    program = CProgram(text, {}, {tensor.name: tensor.element_type or "" for tensor in work.tensors})
    program.run()
    found = run_workload(work)
    assert {place: value for place, value in found.items() if place in program.store} == program.store
    assert set(found) <= set(program.store) | {p for p in found if p[0] in "ab"}


@given(blocks((), 3))
@settings(max_examples=4)
def test_program_order_of_what_is_read_breaks_no_dependence(body: str) -> None:
    try:
        work = from_c(f"void f(void) {{ {body} }}")
    except WorkloadError:
        return
    try:
        found = schedule_violations(work, original_schedule(work), strict=True)
    except BudgetError:  # of a large draw, on a busy machine
        reject()
    assert found == ()
