"""C programs compute what their own text computes, compiled by itself: in program order and in another legal tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from polymap.codegen.lower import elements, expressions, steps
from polymap.codegen.lower.ast import Expr
from polymap.codegen.lower.elements import ElementType, Registers
from polymap.codegen.run import generate_c, run_c
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Convert, Statement, Workload
from polymap.workload.c import assign as c_assign, values as c_values
from polymap.workload.c.reader import from_c
from polymap.workload.c.tree import Choice
from polymap.workload.c.values import Typed, ValueReader
from tests.c_probes import PROBES
from tests.c_tally import MACHINE, Tally, check, program_order, run

pytestmark = pytest.mark.slow


def probed(names: tuple[str, ...] = tuple(PROBES)) -> Tally:
    tally = Tally()
    check({number: PROBES[name] for number, name in enumerate(names)}, tally, trees=1)
    return tally


def test_every_rule_of_values_is_the_compilers() -> None:
    tally = probed()
    assert (tally.wrong, tally.split, dict(tally.refused), tally.undefined) == ([], [], {}, 0)
    assert tally.compared == len(PROBES) > 60


def test_random_programs_compute_what_their_text_computes() -> None:
    tally = Tally()
    run(0, 8, tally)
    assert (tally.wrong, tally.split) == ([], [])
    assert tally.compared > 5


def without_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No conversion is written down: what the front end did for years."""

    def wrong(value: Typed, kind: str, **_: bool) -> Typed:
        return replace(value, kind=kind)

    monkeypatch.setattr(Typed, "to", wrong)


def registers_of_the_targets_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operand is read as the target's type."""

    def wrong(workload: Workload, types: dict[str, ElementType], statement: Statement) -> Registers:
        kind = types[statement.target.tensor].c_type
        return Registers((kind,) * len(statement.reads), kind, kind)

    monkeypatch.setattr(steps, "registers", wrong)


def casts_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emitter leaves conversions away."""
    emit: Callable[..., Expr] = expressions.c_expression

    def wrong(expression: object, *rest: object) -> Expr:
        while isinstance(expression, Convert):
            expression = expression.value
        return emit(expression, *rest)

    monkeypatch.setattr(expressions, "c_expression", wrong)
    monkeypatch.setattr(steps, "c_expression", wrong)


def fractions_added_to_integers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """`int += double` counts as a sum whose terms may be reordered: what is cut off is cut off once per term."""
    monkeypatch.setattr(c_assign, "FLOATS", ("float32", "float64", *(f"int{bits}" for bits in (8, 16, 32, 64))))


def extremes_of_any_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """`m = m < x ? m : x` is a minimum whatever the types are."""

    def wrong(source: str, target: str) -> bool:
        return bool(source and target)

    monkeypatch.setattr(c_assign, "keeps_values", wrong)


def an_if_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """`if (x > m) m = x` converts m as well, like `m = x > m ? x : m`."""

    def wrong(self: ValueReader, choice: Choice, kind: str) -> Typed:
        return self.read(choice).to(kind)

    monkeypatch.setattr(c_values.ValueReader, "guarded", wrong)


def functions_of_float_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """sqrt and fabs compute in float."""

    def wrong(name: str) -> str:
        return "float32" if name else ""

    monkeypatch.setattr(c_values, "function_type", wrong)


def unsigned_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsigned operands compute as signed ones."""
    usual: Callable[[str, str], str] = c_values.common

    def wrong(left: str, right: str) -> str:
        return usual(left, right).removeprefix("u")

    monkeypatch.setattr(c_values, "common", wrong)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, ...]] = {
    without_conversions: ("a fraction becomes an integer", "integers divide", "a cast wraps"),
    registers_of_the_targets_type: ("a fraction becomes an integer", "integers divide"),
    casts_are_not_printed: ("a cast cuts off", "a cast wraps"),
    fractions_added_to_integers_in_any_order: ("an integer sum of fractions", "an integer times fractions"),
    extremes_of_any_types: ("a maximum through unsigned", "a minimum that wraps"),
    an_if_is_a_choice: ("a guarded maximum by if", "a guarded maximum"),
    functions_of_float_alone: ("double functions are double",),
    unsigned_is_signed: ("unsigned divides", "unsigned compares", "minus one is the largest unsigned"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_seen(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert probed(BUGS[bug]).wrong


@pytest.mark.parametrize("name", ["statements outside all loops", "an integer sum of fractions", "a char sum wraps"])
def test_run_c_says_that_a_right_program_is_right_and_a_wrong_one_wrong(name: str) -> None:
    workload = from_c(PROBES[name])
    mapping = program_order(workload)
    expected = count_by_simulation(workload, MACHINE, mapping)
    ran = run_c(workload, MACHINE, mapping, expected=expected.traffic)
    assert (ran.matches_reference, ran.counts_match) == (True, True)


def test_the_reference_does_not_share_the_rules_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    # The text is compiled as it stands: a wrong reading of it cannot make a wrong program right.
    without_conversions(monkeypatch)
    workload = from_c(PROBES["a cast cuts off"])
    mapping = program_order(workload)
    assert "(int32_t)" not in generate_c(workload, MACHINE, mapping)
    expected = count_by_simulation(workload, MACHINE, mapping)
    assert not run_c(workload, MACHINE, mapping, expected=expected.traffic).matches_reference


def test_text_that_is_compiled_holds_nothing_but_what_was_read() -> None:
    workload = from_c(
        '#include "/etc/passwd"\n#pragma GCC poison printf\n'
        '__attribute__((constructor)) void g(void) { system("x"); }\n'
        "int main; double exp[4]; void f(int stdin[4]) {\n"
        "#pragma scop\nfor (int i = 0; i < 4; i++) exp[i] = stdin[i];\n#pragma endscop\n}"
    )
    assert workload.original is not None
    text = workload.original.text
    assert not any(word in text for word in ("passwd", "pragma", "system", "constructor"))
    assert "own_exp[own_i] = own_stdin[own_i]" in text
    mapping = program_order(workload)
    assert run_c(workload, MACHINE, mapping, expected=()).matches_reference


def test_elements_have_the_types_of_the_text() -> None:
    workload = from_c(PROBES["a char product wraps"])
    assert [elements.element_types(workload)[name].c_type for name in "AB"] == ["uint8_t", "int32_t"]
