"""Functions of one float without branches or calls, which compilers put into vectors: exp, tanh, erf; errors stated.

exp(x) = 2^n exp(r) with n the integer nearest to x / ln 2, and |r| <= ln 2 / 2: n ln 2 is subtracted in two parts, the
first of which is exact (Cody and Waite). exp(r) - 1 = r + r^2 p(r), where p has the least largest relative error of its
degree (Remez exchange: 3.1e-9 of r^2 for floats, 3.4e-18 for doubles). tanh(x) = e / (e + 2), e = exp(2x) - 1, which is
2^n (exp(r) - 1) + (2^n - 1). erf(x) = x + x p(x^2) below 1, and 1 - exp(-x^2) q((x - 2) / (x + 2)) from 1 on, p and q
interpolated at the points of Chebyshev (errors 1.3e-9 and 8.3e-9 of erf for floats, 7.4e-18 and 8.6e-18 for doubles).
Errors, in units in the last place: tests/referee/test_vector_math.py.
"""

from __future__ import annotations

from dataclasses import replace

from polymap.codegen.lower import operations_of
from polymap.ir import Apply, Convert, Expression, Number, with_parts
from polymap.workload.c import type_of

# Of each type: its C type, the integer of its size, the bits of a fraction and of the exponent's bias; 1.5 times the
# power of two from which on it holds integers only; 1 / ln 2; both parts of ln 2; the polynomial; where exp is 0 and
# infinite, and tanh 1.
_PARTS = {
    "float": (
        *("float", "int32_t", "uint32_t", "23", "127", "12582912.0f", "0x4B400000"),
        *("1.44269504f", "0.693145752f", "1.42860677e-06f", "-104.0f", "89.0f", "10.0f", "f", "f"),
        ("0.00139504918f", "0.00836888935f", "0.0416662058f", "0.166665188f", "0.5f"),
    ),
    "double": (
        *("double", "int64_t", "uint64_t", "52", "1023", "6755399441055744.0", "0x4338000000000000"),
        *("1.4426950408889634", "0x1.62e42feep-1", "0x1.a39ef35793c76p-33", "-746.0", "710.0", "20.0", "", ""),
        (
            *("2.511786246692230607715912e-8", "2.763128048385740056904597e-7", "2.755721629624749759288628e-6"),
            *("2.480148994172266492152293e-5", "1.984126991738896542023381e-4", "1.388888894701649888221324e-3"),
            *("8.333333333307202247224053e-3", "4.166666666651541572601693e-2", "0.1666666666666669907087247"),
            "0.5000000000000012741770675",
        ),
    ),
}
# Of each type: where erf is 1, p, q.
_ERF_PARTS = {
    "float": (
        "4.0f",
        (
            *("7.875875063e-5f", "-0.0008016864287f", "0.005189087423f", "-0.02685421201f", "0.1128359472f"),
            *("-0.3761262667f", "0.1283791658f"),
        ),
        (
            *("0.006837366788f", "0.003592670701f", "-0.07897195229f", "0.2416640251f", "-0.4271858883f"),
            "0.2553956403f",
        ),
    ),
    "double": (
        "6.0",
        (
            *("-7.7958988270021422416e-10", "1.3720064546777685604e-8", "-1.6208483801871705902e-7"),
            *("1.644742470331736241e-6", "-0.000014924736907419660338", "0.00012055294904839707917"),
            *("-0.00085483259753896920806", "0.0052239776071164227321", "-0.02686617064323777036"),
            *("0.11283791670945006266", "-0.37612638903183540438", "0.12837916709551256654"),
        ),
        (
            *("3.9170592999253885102e-6", "1.8201431959750090543e-6", "-0.000014067532694582057696"),
            *("-0.000027647305443610053841", "0.000027543128185666717319", "0.00017436697232946863504"),
            *("0.000043554202452705895473", "-0.00098197732081310227208", "-0.00084714319807604235899"),
            *("0.0069974617477535736328", "0.0037328924034922397801", "-0.078978581015852534702"),
            *("0.24165819424246985691", "-0.42718584741395788524", "0.2553956763105057455"),
        ),
    ),
}
_REDUCE = """    const {t} shifted = u * {log2e} + {shift}, n = shifted - {shift};
    const {t} r = (u - n * {high}) - n * {low};
    {t} p = {first};
{steps}
    p = p * (r * r) + r; /* exp(r) - 1 */
    {i} k;
    memcpy(&k, &shifted, sizeof k);
    k -= {bits}; /* n */
"""
_EXP = """static inline {t} exp_{t}({t} x) /* error below 1.1 units in the last place */
{{
    {t} u = x > {most} ? {most} : x;
    u = u < {least} ? {least} : u;
{reduce}    const {i} half = k / 2;
    const {w} low_bits = ({w})(half + {bias}) << {fraction}, high_bits = ({w})(k - half + {bias}) << {fraction};
    {t} low, high; /* two powers of two, as results may have no full precision */
    memcpy(&low, &low_bits, sizeof low);
    memcpy(&high, &high_bits, sizeof high);
    return (p * low + low) * high;
}}
"""
_TANH = """static inline {t} tanh_{t}({t} x) /* error below 3 units in the last place */
{{
    const {t} size = fabs{f}(x), u = 2 * (size > {one} ? {one} : size);
{reduce}    const {w} power_bits = ({w})(k + {bias}) << {fraction};
    {t} power;
    memcpy(&power, &power_bits, sizeof power);
    const {t} e = power * p + (power - 1);
    return copysign{f}(e / (e + 2), x);
}}
"""
_ERF = """static inline {t} erf_{t}({t} x) /* error below 2 units in the last place */
{{
    const {t} size = fabs{f}(x), u = size > {one} ? {one} : size, z = x * x, w = (u - 2) / (u + 2);
    {t} p = {near[0]};
{near_steps}
    {t} q = {far[0]};
{far_steps}
    const {t} outer = copysign{f}(1 - exp_{t}(-(u * u)) * q, x);
    return size < 1 ? x + x * p : outer;
}}
"""
_OF_FLOATS = {"exp": "exp_float", "tanh": "tanh_float", "erf": "erf_float", "sqrt": "sqrtf", "fabs": "fabsf"}
_OF_DOUBLES = {"exp": "exp_double", "tanh": "tanh_double", "erf": "erf_double"}
_NAMES = _OF_DOUBLES | {f"{name}f": _OF_FLOATS[name] for name in _OF_DOUBLES}
_SINGLE = ("+", "-", "*", "/")


def helpers(body: str) -> str:
    """Return the functions of this module that a C text calls."""
    found: list[str] = []
    for kind, parts in _PARTS.items():
        t, i, w, fraction, bias, shift, bits, log2e, high, low, least, most, one, f, _, terms = parts
        steps = "\n".join(f"    p = p * r + {each};" for each in terms[1:])
        reduce = _REDUCE.format(
            t=t, i=i, log2e=log2e, shift=shift, high=high, low=low, first=terms[0], steps=steps, bits=bits
        )
        words = {"t": t, "i": i, "w": w, "fraction": fraction, "bias": bias, "reduce": reduce, "f": f}
        if f"exp_{kind}(" in body or f"erf_{kind}(" in body:
            found.append(_EXP.format(**words, least=least, most=most))
        if f"tanh_{kind}(" in body:
            found.append(_TANH.format(**words, one=one))
        if f"erf_{kind}(" in body:
            found.append(_erf_text(kind, t, f))
    return "".join(found)


def _erf_text(kind: str, t: str, f: str) -> str:
    one, near, far = _ERF_PARTS[kind]
    near_steps = "\n".join(f"    p = p * z + {each};" for each in near[1:])
    far_steps = "\n".join(f"    q = q * w + {each};" for each in far[1:])
    return _ERF.format(t=t, f=f, one=one, near=near, far=far, near_steps=near_steps, far_steps=far_steps)


def has_functions(expression: Expression) -> bool:
    """Return whether a value calls exp, tanh or erf."""
    return not _NAMES.keys().isdisjoint(operations_of(expression))


def in_vectors(expression: Expression, kinds: tuple[str, ...], target: str) -> Expression:
    """Return a value with the functions of this module, rounded to the target's type. kinds: of the reads.

    C computes `exp(x) * 0.5` of a float in doubles. Where a float is computed whose exact value is rounded once, or a
    function of a float, this is done with floats: no other value for + - * / and sqrt, and for the functions the stated
    error of the float's own.
    """
    return _round_to_float32(expression, kinds) if target == "float32" else _value(expression, kinds)


def _round_to_float32(expression: Expression, kinds: tuple[str, ...]) -> Expression:
    """Return a value as a float32."""
    match expression:
        case Convert("float32", value):
            return _round_to_float32(value, kinds)
        case Apply(operation, (argument,)) if operation in _OF_FLOATS:
            exact = _exact_float32(argument, kinds, scaled=operation in ("exp", "tanh"))
            if exact is not None:
                return Apply(_OF_FLOATS[operation], (exact,))
        case Apply(operation, (left, right)) if operation in _SINGLE:
            parts = (_exact_float32(left, kinds), _exact_float32(right, kinds))
            if parts[0] is not None and parts[1] is not None:
                return Apply(operation, (parts[0], parts[1]))
        case _:
            pass
    value = _value(expression, kinds)
    return value if type_of(expression, kinds) == "float32" else Convert("float32", value)


def _exact_float32(expression: Expression, kinds: tuple[str, ...], *, scaled: bool = False) -> Expression | None:
    """Return a float32 equal to the value, None where there may be none. scaled: also of floats times powers of two,
    which differ only beyond the ends of the range."""
    if type_of(expression, kinds) == "float32":
        return _value(expression, kinds)
    match expression:
        case Convert("float64", value) if type_of(value, kinds) == "float32":
            return _value(value, kinds)
        case Number(text) if _is_float(text):
            return Number(f"{float(text)!r}f")
        case Convert(_, Number(text)) if _is_float(text):
            return Number(f"{float(text)!r}f")
        case Apply("neg", (value,)):
            part = _exact_float32(value, kinds, scaled=scaled)
            return None if part is None else Apply("neg", (part,))
        case Apply("*" | "/" as operation, (value, Number(text))) if scaled and _is_power_of_two(text):
            part, factor = _exact_float32(value, kinds, scaled=True), _exact_float32(Number(text), kinds)
            return None if part is None or factor is None else Apply(operation, (part, factor))
        case _:
            return None


def _is_float(text: str) -> bool:
    """Return whether a literal is a float of 24 bits."""
    try:
        numerator, denominator = abs(float(text)).as_integer_ratio()
    except (ValueError, OverflowError):
        return False
    return (numerator >> max(0, numerator.bit_length() - 24)) << max(0, numerator.bit_length() - 24) == numerator and (
        denominator <= 2**100 and numerator < 2**120
    )


def _is_power_of_two(text: str) -> bool:
    if not _is_float(text) or float(text) <= 0:
        return False
    numerator, denominator = float(text).as_integer_ratio()
    return numerator & (numerator - 1) == 0 and max(numerator, denominator) <= 2**32


def _value(expression: Expression, kinds: tuple[str, ...]) -> Expression:
    match expression:
        case Convert("float32", value):
            return _round_to_float32(value, kinds)
        case _:
            found = with_parts(expression, lambda part: _value(part, kinds))
            if isinstance(found, Apply):
                return replace(found, operation=_NAMES.get(found.operation, found.operation))
            return found
