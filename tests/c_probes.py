"""Small C programs, each about one of C's rules for values: all of them once computed something else than the compiler."""

# ruff: noqa: E501  # a table

from __future__ import annotations

_LOOP = "for (int i = 0; i < 9; i++)"


def _program(arrays: str, body: str) -> str:
    parameters = ", ".join(f"{each}[9]" for each in arrays.split(", "))
    return f"void f({parameters}) {{ {body if 'for' in body else f'{_LOOP} {{ {body} }}'} }}"


PROBES = {
    name: _program(arrays, body)
    for name, arrays, body in (
        ("a fraction becomes an integer", "int A, double B", "A[i] = B[i] * 9.5;"),
        ("integers divide", "double A, int B", "A[i] = B[i] / 2;"),
        ("integers divide by a literal with a suffix", "double A, int B", "A[i] = B[i] / 3L;"),
        ("negative integers divide", "int A, int B", "A[i] = -B[i] / 3 + B[i] % 7;"),
        ("int8 wraps", "int8_t A, int B", "A[i] = B[i] + 100;"),
        ("uint8 wraps", "uint8_t A, int B", "A[i] = B[i] - 300;"),
        ("int16 wraps", "int16_t A, int B", "A[i] = B[i] * 41;"),
        ("uint16 wraps", "uint16_t A, int16_t B", "A[i] = B[i] * 3;"),
        ("int wraps", "int A, int B", "A[i] = B[i] * 1000000 * 1000;"),
        ("unsigned wraps", "unsigned A, unsigned B", "A[i] = B[i] - 4000000000;"),
        ("unsigned is not negative", "double A, unsigned B", "A[i] = B[i] - 5000;"),
        ("unsigned compares", "int A, unsigned B, int C", "A[i] = C[i] < B[i];"),
        ("unsigned divides", "unsigned A, unsigned B", "A[i] = (B[i] - 5000) / 7 + (B[i] - 4500) % 5;"),
        ("minus one is the largest unsigned", "long A, unsigned B", "A[i] = B[i] > -1;"),
        ("small types are promoted", "int A, uint8_t B, uint8_t C", "A[i] = B[i] * C[i] - B[i] - C[i];"),
        ("unsigned short times unsigned short", "long A, uint16_t B", "A[i] = B[i] * 7 - 65000;"),
        ("long and unsigned", "long A, long B, unsigned C", "A[i] = B[i] * 3 - C[i];"),
        ("int and unsigned long", "double A, int B, unsigned long C", "A[i] = B[i] + C[i] / 3;"),
        ("a temporary integer cuts off", "double A, double B", "int t = B[i] * 9.5; A[i] = t * 0.5;"),
        ("a temporary char wraps", "int A, int B", "signed char t = B[i]; A[i] = t;"),
        ("a temporary float is rounded", "double A, double B", "float t = B[i] * 0.1; A[i] = t;"),
        ("float stays float in several statements", "float A, float B, int C", "A[i] = B[i] * 0.1f; C[i] = C[i] + 1; A[i] = A[i] + B[i] * 3.3f;"),
        ("float times a double literal", "float A, float B", "A[i] = B[i] * 0.1;"),
        ("float sums round in every step", "float A, float B", "for (int i = 0; i < 9; i++) A[0] += B[i] * 0.1f;"),
        ("float sums of doubles", "float A, double B", "for (int i = 0; i < 9; i++) A[0] += B[i] * 0.1;"),
        ("an integer sum of fractions", "int A, double B", "for (int i = 0; i < 9; i++) A[0] += B[i] * 9.5;"),
        ("an integer times fractions", "long A, double B", "A[i] *= B[i] * 1.5;"),
        ("an integer minus fractions", "short A, float B", "A[i] -= B[i] * 7.5f;"),
        ("an integer divided by a fraction", "int A, double B", "A[i] /= 2.5;"),
        ("a char sum wraps", "int8_t A, int8_t B", "for (int i = 0; i < 9; i++) A[0] += B[i];"),
        ("a char product wraps", "uint8_t A, int B", "for (int i = 0; i < 9; i++) A[0] *= B[i];"),
        ("an unsigned difference", "unsigned long A, unsigned B", "A[i] -= B[i];"),
        ("a char minus a long", "int8_t A, long B", "A[i] -= B[i] * 77;"),
        ("a char divided", "int8_t A, int B", "A[i] /= 3;"),
        ("increment of a char", "uint8_t A", "A[i]++;"),
        ("a cast cuts off", "double A, double B", "A[i] = (int)(B[i] * 7.5) * 0.5;"),
        ("a cast wraps", "int A, int B", "A[i] = (signed char)B[i] + (uint8_t)(B[i] * 3);"),
        ("a cast to float rounds", "double A, double B", "A[i] = (float)B[i] * 3.0 + (float)(B[i] * 0.1);"),
        ("an integer in a fraction", "double A, int B, int C", "A[i] = 0.5 * (B[i] / 3) + C[i] / 7 * 1.5;"),
        ("integers become float first", "double A, float B, int C", "A[i] = B[i] * (C[i] * 65537);"),
        ("the type of a choice", "double A, float B, int C", "A[i] = B[i] > 0 ? B[i] : C[i] * 65537;"),
        ("the type of a choice by counters", "double A, float B, int C", "A[i] = i > 3 ? B[i] : C[i] * 65537;"),
        ("hexadecimal literals are unsigned", "long A, int B", "A[i] = B[i] + 0xFFFFFFFF;"),
        ("decimal literals are not", "long A, int B", "A[i] = B[i] * 4294967295;"),
        ("octal literals", "int A, int B", "A[i] = B[i] * 0377;"),
        ("suffixes", "long A, int B", "A[i] = B[i] * 1000000u + B[i] * 1000000L;"),
        ("truth is an int", "double A, int B, double C", "A[i] = !B[i] / 2 + (C[i] > 0) / 2 + (B[i] && C[i]) * 0.5;"),
        ("a maximum through unsigned", "int A, unsigned B", "A[i] = A[i] > B[i] ? A[i] : B[i];"),
        ("a minimum that wraps", "int8_t A, int B", "for (int i = 0; i < 9; i++) A[0] = A[0] < B[i] ? A[0] : B[i];"),
        ("a guarded maximum", "unsigned A, float B", "A[i] = B[i] > A[i] ? B[i] : A[i];"),
        ("a guarded maximum by if", "uint32_t A, float B", "if (A[i] < B[i]) A[i] = B[i];"),
        ("fmax of integers", "int A, int B", "A[i] = fmax(A[i], B[i]) / 2;"),
        ("fmaxf rounds", "double A, double B", "A[i] = fmaxf(A[i] * 0.1, B[i] * 0.1);"),
        ("float functions are float", "double A, float B", "A[i] = sqrtf(fabs(B[i])) * 3.0;"),
        ("double functions are double", "double A, double B", "A[i] = sqrt(fabs(B[i])) * 3.0;"),
        ("abs takes an int", "int A, double B", "A[i] = abs(B[i] * 9.5);"),
        ("minus zero", "double A, double B", "A[i] = 1.0 / (B[i] * 0.0 + 2.0) + -B[i];"),
        ("statements outside all loops", "double A, double B", "for (int i = 0; i < 9; i++) A[i] = B[i]; A[2] = 7.0;"),
        ("counters have types", "double A, long B", "for (unsigned i = 0; i < 9; i++) { A[i] = i - 5; B[i] = i - 5; }"),
        ("counters divide in their type", "long A", "for (unsigned i = 0; i < 9; i++) A[i] = (i - 5) / 2;"),
        ("char counters are promoted", "int A", "for (uint8_t i = 0; i < 9; i++) A[i] = i - 5;"),
        ("constants have types", "long A, int B", "const unsigned n = 7; for (int i = 0; i < 9; i++) A[i] = B[i] - n;"),
        ("products of counters", "long A", "for (int i = 0; i < 9; i++) A[i] = i * 100000000 * 100L;"),
        ("an array that only a dead statement mentions", "int A, int B", "A[i] = 1; if (i > 20) A[i] = B[i];"),
    )
}  # fmt: skip
