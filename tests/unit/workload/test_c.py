"""What from_c reads, how it names things, and what it says of what it cannot read."""

# ruff: noqa: E501  # tables of sources and messages read best unbroken

from __future__ import annotations

import pytest

from polymap.codegen.source import transform_c
from polymap.ir.errors import InputError, PolymapError, WorkloadError
from polymap.ir.loopnest import Apply, Convert, Index, Number, Operator, Read, Role, Workload
from polymap.ir.quasi_affine import affine
from polymap.schedules.legality import Parallel, legal_orders, parallel_loops
from polymap.workload.c.reader import from_c


def nest(body: str, declarations: str = "", **sizes: int) -> Workload:
    return from_c(f"{declarations}\nvoid f(void) {{\n#pragma scop\n{body}\n#pragma endscop\n}}", sizes, file="f.c")


def complaint(source: str, **sizes: int) -> str:
    with pytest.raises(PolymapError) as caught:
        from_c(source, sizes, file="f.c")
    return str(caught.value)


def loop(body: str, header: str = "int i = 0; i < 8; i++") -> str:
    return f"void f(void) {{ for ({header})\n{body}\n}}"


def test_matrix_product() -> None:
    work = from_c(
        """
        #include <stdio.h>
        #define N 4
        static float A[N][N], B[N][N], C[N][N];
        void gemm() {
          for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
              for (int k = 0; k < N; k++)
                C[i][j] += A[i][k] * B[k][j];
        }
        """
    )
    (only,) = work.statements
    assert work.name == "gemm"
    assert [(each.name, each.extent, each.origin, each.step) for each in work.dims] == [(n, 4, 0, 1) for n in "ijk"]
    assert [(t.name, t.shape, t.bits, t.role, t.element_type) for t in work.tensors] == [
        ("C", (4, 4), 32, Role.OUTPUT, "float32"),
        ("A", (4, 4), 32, Role.INPUT, "float32"),
        ("B", (4, 4), 32, Role.WEIGHT, "float32"),
    ]
    assert (only.name, only.operator, only.dims, only.constraints) == ("S0", Operator.ADD, ("i", "j", "k"), ())
    assert only.expression == Apply("*", (Read(0), Read(1)))
    assert work.tensor("C").initial
    assert not work.tensor("A").initial


def test_sizes_replace_defines_parameters_and_constants() -> None:
    define = "#define N 100\nint a[N];\nvoid f(void) { for (int i = 0; i < N; i++) a[i] = 1; }"
    parameter = "void f(int N, int a[N]) { for (int i = 0; i < N; i++) a[i] = 1; }"
    constant = "const int N = 100; void f(int a[N]) { for (int i = 0; i < N; i++) a[i] = 1; }"
    bare = "for (i = 0; i < N; i++) a[i] = 1;"
    polybench = "for (i = 0; i < _PB_N; i++) a[i] = 1;"
    for text in (define, parameter, constant, bare, polybench):
        assert from_c(text, {"N": 8}).dims[0].extent == 8
    assert from_c(define).dims[0].extent == 100


def test_bare_nest_without_declarations_takes_shapes_from_what_is_touched() -> None:
    work = from_c("for (i = 0; i < 4; i++) for (j = 0; j <= i; j++) a[i + 1][2 * j] = b[i - j];")
    assert [(t.name, t.origin, t.shape, t.element_type) for t in work.tensors] == [
        ("a", (1, 0), (4, 7), "int32"),
        ("b", (0,), (4,), "int32"),
    ]
    assert from_c("for (i = 0; i < 4; i++) a[i] = b[i] / 3;").tensor("a").element_type == "float32"


def test_loops_become_counters_from_zero_that_know_the_users_values() -> None:
    work = nest("for (int i = 9; i >= 2; i -= 3) for (int j = i; j < 12; j++) a[i][j] = 0;")
    assert [(d.extent, d.origin, d.step) for d in work.dims] == [(3, 9, -3), (9, 3, 1)]
    assert work.statements[0].target.index == (affine(((-3, "i"),), 9), affine(((1, "j"),), 3))
    assert work.statements[0].constraints == (affine(((1, "j"), (3, "i")), -6),)


def test_constant_lower_bounds_keep_a_box_a_box() -> None:
    work = nest("for (int i = 1; i < 9 - 1; i++) for (int j = -2; j <= 2; j++) a[i][j + 2] = 0;")
    assert work.statements[0].constraints == ()
    assert [(d.extent, d.origin) for d in work.dims] == [(7, 1), (5, -2)]


def test_hull_of_a_triangular_loop_is_tight() -> None:
    work = nest("for (i = 0; i < 9; i++) for (j = i + 1; j < 9; j++) for (k = i + 1; k < j; k++) a[i][j] = k;")
    assert [(d.name, d.origin, d.extent) for d in work.dims] == [("i", 0, 9), ("j", 1, 8), ("k", 1, 7)]


def test_loops_of_one_variable_are_told_apart() -> None:
    work = nest(
        "for (i = 0; i < 4; i++) a[i] = 0; for (i = 0; i < 5; i++) b[i] = i_2; for (i = 0; i < 6; i++) c[i] = 1;",
        "float i_2;",
    )
    assert [(d.name, d.variable, d.extent) for d in work.dims] == [("i", "", 4), ("i_3", "i", 5), ("i_4", "i", 6)]
    assert [each.position for each in work.statements] == [(0, 0), (1, 0), (2, 0)]


def test_positions_tell_where_statements_share_loops() -> None:
    work = nest("for (i = 0; i < 4; i++) { a[i] = 0; for (j = 0; j < 4; j++) { a[i] += 1; b[j] = 2; } a[i] *= 2; }")
    assert [(each.dims, each.position) for each in work.statements] == [
        (("i",), (0, 0)),
        (("i", "j"), (0, 1, 0)),
        (("i", "j"), (0, 1, 1)),
        (("i",), (0, 2)),
    ]


@pytest.mark.parametrize(
    "text, operator",
    [
        ("s += a[i];", Operator.ADD),
        ("s -= a[i];", Operator.ADD),
        ("s *= a[i];", Operator.MULTIPLY),
        ("s /= a[i];", Operator.ASSIGN),
        ("s++;", Operator.ADD),
        ("s = fmax(s, a[i]);", Operator.MAX),
        ("s = fminf(a[i], s);", Operator.MIN),
        ("s = a[i] > s ? a[i] : s;", Operator.MAX),
        ("s = a[i] < s ? s : a[i];", Operator.MAX),
        ("s = s <= a[i] ? s : a[i];", Operator.MIN),
        ("if (a[i] > s) s = a[i];", Operator.MAX),
        ("s = s + a[i];", Operator.ADD),
        ("s = a[i] + s;", Operator.ADD),
        ("s = s - a[i];", Operator.ADD),
        ("s = a[i] - s;", Operator.ASSIGN),
        ("s = a[i] * s;", Operator.MULTIPLY),
        ("s = s / a[i];", Operator.ASSIGN),
        ("a[i] = a[i] + a[i - 1 + 1];", Operator.ASSIGN),
        ("s = a[i] > s ? s + 1 : s;", Operator.ASSIGN),
        ("s += s;", Operator.ASSIGN),
        ("a[i] += a[0];", Operator.ASSIGN),
        ("a[i] += a[i + 8];", Operator.ADD),
        ("a[i] += a[7 - i];", Operator.ADD),
    ],
)
def test_what_accumulates(text: str, operator: Operator) -> None:
    assert nest(f"for (i = 0; i < 8; i++) {text}").statements[0].operator is operator


def test_subtraction_accumulates_the_negative() -> None:
    (only,) = nest("for (i = 0; i < 8; i++) s -= a[i] * 2;").statements
    assert only.expression == Apply("neg", (Apply("*", (Read(0), Number("2"))),))


def test_accumulation_that_reads_its_target_becomes_a_plain_assignment() -> None:
    (only,) = nest("for (i = 0; i < 8; i++) s /= a[i] + s;").statements
    assert [read.tensor for read in only.reads] == ["s", "a", "s"]
    assert only.expression == Apply("/", (Read(0), Apply("+", (Read(1), Read(2)))))


def test_loop_variables_are_values() -> None:
    (only,) = nest("for (i = 4; i < 8; i++) a[i] = 2 * i + 1 + 0.5f * b[i / 2] - 7 / 2;").statements
    assert isinstance(only.expression, Apply)
    first, last = only.expression.arguments
    assert last == Convert("float32", Number("3"))
    assert isinstance(first, Apply)
    assert first.arguments[0] == Convert("float32", Convert("int32", Index(affine(((2, "i"),), 9))))


def test_conditional_value_of_loop_counters_is_an_if() -> None:
    work = nest("for (i = 0; i < 8; i++) b[i] = i > 0 ? a[i - 1] : 1;", "int a[7], b[8];")
    assert [(each.name, len(each.reads), len(each.constraints)) for each in work.statements] == [
        ("S0", 1, 1),
        ("S1", 0, 1),
    ]


def test_variables_declared_inside_are_temporary_and_one_per_iteration() -> None:
    work = from_c(
        "void f(int n, float a[n], float b[n]) {"
        " for (int i = 0; i < n; i++) { float t = a[i]; for (int j = 0; j < 3; j++) t += j; b[i] = t; } }",
        {"n": 8},
    )
    assert [(t.name, t.temporary, t.shape) for t in work.tensors] == [
        ("t", True, (8,)),
        ("a", False, (8,)),
        ("b", False, (8,)),
    ]
    assert dict(parallel_loops(work)) == {"i": Parallel.YES, "j": Parallel.REDUCTION}


def test_initial_are_arrays_that_are_read_before_they_are_set() -> None:
    work = nest(
        "for (i = 1; i < 8; i++) { a[i] = a[i - 1]; b[i] = 0; c[i] += b[i]; d[i] = 1; } for (i = 0; i < 8; i++) e += d[i];"
    )
    assert {t.name: t.initial for t in work.tensors} == {"a": True, "b": False, "c": True, "e": True, "d": True}


def test_statement_that_never_runs_is_left_out_and_keeps_its_number() -> None:
    work = nest("for (i = 0; i < 8; i++) { if (i > 9) a[i] = 0; if (i < 4 && i > 6) b[i] = 0; c[i] = 1; }")
    assert [each.name for each in work.statements] == ["S2"]


def test_continued_lines_and_macros_with_arguments() -> None:
    work = nest(
        "for (i = 0; i < N; i++) AT(a, i, 0) = SQ(b[i]);",
        "#define N \\\n  8\n#define AT(x, i, j) x[(i)*2 + j]\n#define SQ(x) ((x)*(x))",
    )
    assert work.tensor("a").shape == (15,)
    assert len(work.statements[0].reads) == 2


def test_conditional_text() -> None:
    text = "#ifdef BIG\n#define N 64\n#else\n#define N 8\n#endif\n#if 0\nnonsense (\n#endif\nfor (i = 0; i < N; i++) a[i] = 0;"
    assert from_c(text).dims[0].extent == 8


def test_only_the_marked_region_is_read() -> None:
    work = from_c(
        "int main(void) { float a[8]; init(a); while (1) {}\n#pragma scop\nfor (int i = 0; i < 8; i++) a[i] *= 2;\n"
        '#pragma endscop\nprintf("%f", a[0]); return 0; }'
    )
    assert len(work.statements) == 1
    assert not work.tensor("a").temporary


@pytest.mark.parametrize(
    "before, inside",
    [
        ("int k = 2; void g(void) { k = 5; }", "a[i] *= k;"),
        ("int k = 2; void g(void) { h(&k); }", "a[i] *= k;"),
        ("int m = 1, k = 2; void g(void) { ++k; }", "a[i] *= k;"),
        ("static float k = 2; void g(void) { if (k) h(); else k = 3; }", "a[i] *= k;"),
        ("float k = 2;", "a[i] *= k; k -= 1;"),
    ],
)
def test_a_variable_that_the_file_changes_has_not_the_value_of_its_declaration(before: str, inside: str) -> None:
    work = from_c(f"{before}\nvoid f(float a[8]) {{ for (int i = 0; i < 8; i++) {{ {inside} }} }}")
    assert work.statements[0].target.tensor == "a"  # k is not set first
    assert "k" in {each.tensor for each in work.statements[0].reads}


def test_a_variable_that_is_changed_before_a_region_has_not_the_value_of_its_declaration() -> None:
    text = """void f(int n, float a[n]) {{ int k = 2; float w = 2; {}
      #pragma scop
      for (int i = 0; i < k; i++) a[i] *= w;
      #pragma endscop
    }}"""
    assert (
        len(from_c(text.format('int j = k == 2; printf("k = %d, w = %f", k, w); j = w;'), {"n": 8}).statements) == 2
    )  # the first is w = 2
    assert "PM265 'k' has no value that is known" in complaint(text.format("k = n - 1;"))
    assert len(from_c(text.format("w = n * 2;"), {"n": 8}).statements) == 1


def test_other_functions_are_not_read() -> None:
    work = from_c(
        "static void init(int a[8]) { int i = 0; while (i < 8) a[i] = i; }\n"
        "void f(int a[8]) { for (int i = 0; i < 8; i++) a[i] = 1; }\nint main(void) { return 0; }"
    )
    assert work.name == "f"


def test_gauss_seidel_has_two_legal_orders() -> None:
    text = """
    for (t = 0; t < 4; t++) for (i = 1; i < 7; i++) for (j = 1; j < 7; j++)
      a[i][j] = 0.2 * (a[i][j] + a[i-1][j] + a[i+1][j] + a[i][j-1] + a[i][j+1]);"""
    assert list(legal_orders(from_c(text))) == [("t", "i", "j"), ("t", "j", "i")]


def test_quotients_of_loop_variables_stay_exact_below_zero() -> None:
    work = nest("for (i = -7; i <= 7; i++) a[i / 3 + 2] = i % 3;")
    (only,) = work.statements
    values = {i - 7: only.target.index[0].evaluate({"i": i}) for i in range(15)}
    assert values == {i: int(i / 3) + 2 for i in range(-7, 8)}


# --- what cannot be read ---


BAD = [
    (loop("for (int j = 0; j < 8; j++) a[i * j] = 0;"), "PM262 the product 'i * j' of two loop variables is not affine (f.c:2)"),
    (loop("a[b[i]] = 0;"), "PM262 'b[i]' is not affine: it depends on data (f.c:2)"),
    (loop("a[i] = 0;", "int i = 0; ; i++"), "PM263 the loop is unbounded: it has no condition (f.c:1)"),
    (loop("a[i] = 0;", "int i = 0; i >= 0; i++"), "PM263 the loop over 'i' is unbounded: 'i >= 0' never ends it (f.c:1)"),
    (loop("a[i] = 0;", "unsigned i = 7; i >= 0; i--"), "An unsigned variable is never negative."),
    (loop("a[i] = 0;", "int i = 0; i < 8; i += 0"), "unbounded: its step is '0'"),
    (loop("a[i] = 0;", "int i = 0; i < 8; i *= 2"), "PM261 the step of the loop over 'i' cannot be read (f.c:1)"),
    (loop("a[i] = 0;", "int i = 0; i != 8; i += 3"), "PM263 the loop over 'i' may step over '8', and would not end"),
    (loop("a[i] = 0;", "int i = 0; i < 7.5; i++"), "PM264 '7.5' is no integer (f.c:1)"),
    (loop("a[i] = 0;", "int i = 0; i < n; i++"), "PM265 'n' is not known (f.c:1)"),
    (loop("a[i % 0] = 0;"), "PM262 'i % 0' divides by zero"),
    (loop("{ a[i] = i;\n i += 2; }"), "PM267 'i' is a loop variable or a constant, and is assigned to (f.c:3)"),
    (loop("while (i) a[i] = 0;"), "PM261 a while loop cannot be read (f.c:2)"),
    (loop("{ a[i] = 0; break; }"), "PM261 a break cannot be read (f.c:2)"),
    (loop("{ a[i] = 0; next: ; }"), "PM261 the label 'next' cannot be read (f.c:2)\n      Nothing here jumps to it"),
    ("void f(void) { int i = 0;\ntop: a[i] = 0; if (++i < 8) goto top; }", "PM261 'goto top' jumps, and a loop nest has"),
    (loop('printf("%d", i);'), "PM261 a call stands alone, and what it does is not known: 'printf(\"%d\", i)' (f.c:2)"),
    (loop("a[i] = rand();"), "PM266 the function 'rand' is not known to be pure (f.c:2)"),
    *(
        (f"static void set(int *p, int v) {{ {body} }}\n" + loop("{ set(a, i); a += 2; }"), "PM261 a call stands alone")
        for body in ("*p++ = v; *p = 1;", "*++p = v;", "*(p)++ = v;", "p += v; *p = 1;", "*p = v; v &= 1; p[1] = v;")
    ),
    ("void f(int n, int a[8], int b[8]) { (void)n; int *p = n > 3 ? a : b; for (int i = 0; i < 8; i++) p[i] = i; }",
     "Pointers that are set anew, or by ?:, are not read."),
    ("#include <tgmath.h>\n" + loop("x[i] = exp(x[i]);"), "PM152 'exp' of <tgmath.h> depends on the type of its arg"),
    ("#include <math.h>\n" + loop("x[i] = INFINITY;"), "PM152 'INFINITY' is a macro of <math.h>, and no number (f.c:3)"),
    (
        "int max(int a, int b) { if (a > b) return b; return a; }\n" + loop("a[i] = max(a[i], b[i]);"),
        "PM266 the file has a function 'max' of its own, and its body is not read: 'max(a[i], b[i])' (f.c:3)",
    ),
    (
        "static double fabs(double x) { x = 1; return x; }\n" + loop("a[i] = 1 - fabs(b[i]);"),
        "PM266 the file has a function 'fabs' of its own, and its body is not read: 'fabs(b[i])' (f.c:3)",
    ),
    (
        "int MIN(int a, int b) { return own; }\n" + loop("a[i] = 1;", "int i = 0; i < MIN(5, 9); i++"),
        "PM266 the file has a function 'MIN' of its own, and its body is not read: 'MIN(5, 9)' (f.c:2)",
    ),
    (loop("a[i] = sqrt(i, i);"), "PM266 'sqrt' takes 1 arguments, not 2 (f.c:2)"),
    (loop("*(i > 2 ? a : b) = i;"), "PM261 a pointer cannot be read: '*((i > 2) ? (a) : (b))' (f.c:2)"),
    (loop("*(i + a) = b[i];"), "PM265 'i' is a loop variable or a constant, and 'i[a]' uses it as data (f.c:2)"),
    ("void f(float a[8]) {\nfor (int i = 0; i < 8; i++) a[i] = a[i] & 1; }", "PM266 'a[i] & 1' takes a remainder, or bits, of fractions (f.c:2)"),
    (loop("a[i] = 1 >> b[i];"), "PM266 '1 >> b[i]' shifts by no constant, or by more than there are bits (f.c:2)"),
    (loop("a[i << 40] = 1;"), "PM262 'i << 40' shifts by no constant, or by more than there are bits (f.c:2)"),
    (loop("a[i & 6] = 1;"), "PM262 'i & 6' is not affine (f.c:2)"),
    (loop("a[i] = sizeof a;"), "PM261 sizeof cannot be read: 'sizeof(a)' (f.c:2)"),
    (loop("a[i] = b[i].x;"), "PM261 a member of a structure cannot be read: 'b[i].x' (f.c:2)"),
    (loop("a[i] = b[i]++;"), "PM261 '++' inside an expression cannot be read: 'b[i]++' (f.c:2)"),
    (loop("a[i] = '\\x100';"), "PM261 the character '\\x100' cannot be read (f.c:2)"),
    (loop("a[i] <<= b[i];"), "PM266 'a[i] << b[i]' shifts by no constant"),
    (loop("a[i] = 1 + (b[i] = 0);"), "PM261 an assignment inside an expression cannot be read: 'b[i] = 0' (f.c:2)"),
    (loop("{ a[i] = 0; a[i][i] = 1; }"), "PM268 'a[i][i]' has 2 subscripts, 'a' has 1 (line 2) (f.c:2)"),
    ("void f(int a[8]) { static int s = 5; for (int i = 0; i < 8; i++) s += a[i]; a[0] = s; }", "PM269 's' is read before it is set"),
    (loop("{ static float t[4] = {0}; a[i] = t[0]; }"), "PM261 't' is set by a list before the loops run (f.c:2)"),
    (loop("{ float t; a[i] = t; }"), "PM269 't' is read but never set (f.c:2)"),
    (loop("{ float t; if (i > 2) t = 1; a[i] = t; }"), "PM269 't' is read before it is set, first in S1[i=0] (f.c:2)"),
    (loop("{ float t[i + 1]; t[0] = 1; a[i] = t[0]; }"), "PM264 't' is declared with the size 'i + 1', which depends on a loop"),
    ("void f(float a[8]) { for (int i = 0; i < 8; i++) { int *p = a; p[i] = 0; } }", "PM261 'p' points to other elements or axes than it declares (f.c:1)"),
    ("void f(char *a, int *b) { for (int i = 0; i < 8; i++) { unsigned char *p = a + 1; b[i] = p[i]; } }", "PM261 'p' points to other elements or axes than it declares (f.c:1)"),
    (loop("{ float *p = a; p[i] = 0; { p[i] = 1; float *p = b; p[i] = 2; } }"), "PM268 'p' has 0 subscripts"),
    ("void g(const int *x, float y[], int i) { y[i] = x[i]; }\nvoid f(float a[8], float b[8]) { for (int i = 0; i < 8; i++) g(a, b, i); }", "PM261 'x' points to other elements or axes than it declares (f.c:2)"),
    ("void g(float x[][4], int i) { x[i][0] = 1; }\nvoid f(float a[8][8]) { for (int i = 0; i < 8; i++) g(a, i); }", "PM261 'x' points to other elements or axes than it declares (f.c:2)"),
    ("struct s { int x; }; void f(struct s a[8]) { for (int i = 0; i < 8; i++) a[i].x = 0; }", "PM261 the type 'struct' is not read"),
    ("void f(long double a[8]) { for (int i = 0; i < 8; i++) a[i] = 0; }", "PM261 the type 'long double' is not read (f.c:1)"),
    ("float a[8];\nvoid f(void) {\n  for (int i = 0; i <= 8; i++)\n    a[i] = 0;\n}", "PM270 S0[i=8] touches a[8], but axis 0 has the indices 0 to 7 (f.c:4)"),
    ("int a[8][8]; void f(void) { for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) if (i + j > 5) a[i - j][0] = 0; }", "PM270 S0[i=0, j=6] touches a[-6][0]"),
    ("void f(void) { for (int i = 0; i < 8; i++) ; }", "PM271 there is no assignment to read (f.c)"),
    ("void f(void) { for (int i = 0; i < 0; i++) a[i] = 0; }", "PM271 no statement is ever executed (f.c)"),
    ("for (i = 0; i < 8; i++) a[i] = 0;\nj = i;", "PM265 the loop variable 'i' is used outside its loop (f.c:2)"),
    ("for (i = 0; i < 8; i++ a[i] = 0;", "PM150 this is no C that can be read: unexpected 'a' (f.c:1:24)"),
    ("for (i = 0; i < 8; i++) { a[i] = 0;", "PM150 this is no C that can be read: the end comes too early (f.c:1:36)"),
    ("void f(int A[3])\n{\n  for (int i = 0; i < 3; i++ /* ah */ A[i] = 1;\n}", "unexpected 'A' (f.c:3:39)"),
    ("void f(int A[3]) {\n  for (int i = 0; i < 3; i++)\n    A[i] = = 1;\n}", "unexpected '=' (f.c:3:12)"),
    ("#define N 8\nfor (i = 0; i < N; i++ a[i] = 0;", "unexpected 'a' (f.c:2:24)"),
    ("void f(int A[3]) {\n  for (int i = 0; i < 3; i++) A[i] = 1;", "the end comes too early (f.c:2:40)"),
    ("", "PM153 f.c is empty"),
    (" \n\t\n", "PM153 f.c is empty"),
    ("/* a */ // b\n", "PM153 f.c holds nothing but comments"),
    ("void f(void) { }", "PM153 no functions of f.c have loops"),
    ("void g(void) { }\nvoid f(int a[8])\n{ while (a[0]) a[0]--; }", "PM261 a while loop cannot be read (f.c:3)"),
    ("void f(int a[8])\n{ do a[0]--; while (a[0]); }", "PM261 a do loop cannot be read (f.c:2)"),
    (loop("a[i] = 0;", "signed char i = 0; i < 200; i++"), "PM272 the loop variable 'i' would reach 200 (f.c:1)"),
    (loop("a[i] = 0;", "unsigned char i = 0; i <= 255; i++"), "PM272 the loop variable 'i' would reach 256 (f.c:1)"),
    (loop("a[i] = 0;", "unsigned i = 7; i >= 1; i -= 3"), "PM272 the loop variable 'i' would reach -2 (f.c:1)"),
    (loop("a[i] = 0;", "float i = 0; i < 8; i++"), "PM263 the loop variable 'i' is a float (f.c:1)"),
    ("void f(int a[8]) { double x; for (x = 0; x < 8; x++) a[0] += 1; }", "PM263 the loop variable 'x' is a double"),
    (loop("a[0] = 0;", "int i = 0; i < 100000000000000000000; i++"), "PM261 no integer type of C holds the number"),
    (loop("a[0] = 0;", "int i = 0; i < 10000000000; i++"), "PM272 the loop variable 'i' would reach 10000000000"),
    (loop("a[i] = 99999999999999999999;"), "PM261 no integer type of C holds the number '99999999999999999999' (f.c:2)"),
    (loop("a[i] = 1e999;"), "PM261 the number '1e999' is larger than any double (f.c:2)"),
    ("void f(volatile int a[8]) { for (int i = 0; i < 8; i++) a[i] = 0; }", "PM261 the qualifier 'volatile' is not read"),
    (loop("{ volatile int t = i; a[i] = t; }"), "PM261 the qualifier 'volatile' is not read (f.c:2)"),
    (loop("$x[i] = 0;"), "PM150 '$' stands in a name or by itself (f.c:2)"),
    (loop("a[i - 3] = 0;", "unsigned i = 0; i < 8; i++"), "PM272 'i - 3' reaches -3, which 'unsigned' does not hold (f.c:2)"),
    (loop("if (i - 3 < 1) a[i] = 0;", "unsigned i = 0; i < 8; i++"), "PM272 'i - 3' reaches -3"),
    (loop("a[0] = 0;", "int i = -3; i < 5u; i++"), "PM272 'i' reaches -3, which 'unsigned' does not hold (f.c:1)"),
    (loop("a[i] = 7 / 0;"), "PM266 '7 / 0' divides by zero (f.c:2)"),
    (loop("a[i] = 1.5 % 2;"), "PM266 '1.5 % 2' takes a remainder, or bits, of fractions (f.c:2)"),
    ("void f(_Bool a[8]) { for (int i = 0; i < 8; i++) a[i] = 1; }", "PM261 the type '_Bool' is not read"),
    ("void f(bool a[8]) { for (int i = 0; i < 8; i++) a[i] = 1; }", "PM261 the type 'bool' is not read"),
    ("/* for", "PM150 a comment is not closed (f.c:1)"),
    ("#pragma scop\nfor (i = 0; i < 8; i++) a[i] = 0;", "PM152 '#pragma scop' is never closed (f.c:1)"),
    ("#pragma scop\n#pragma endscop\n#pragma scop\n#pragma endscop", "PM152 a second '#pragma scop' was found (f.c:3)"),
    ("#if N >\n#endif", "PM152 '#if' cannot be decided: it ends too early (f.c:1)"),
    ("#if 1.5\n#endif", "PM152 '#if' cannot be decided: '1.5' is not expected there (f.c:1)"),
    ("#endif", "PM152 '#endif' has no '#if' (f.c:1)"),
    ("#define CAT(a, b) a ## b\na[0] = CAT(+, 1 - 1);", "PM152 '+' ## '1' is no word of C (f.c:2)"),
    ("#define SQ(x) x\nfor (i = 0; i < 8; i++) a[i] = SQ(1, 2);", "PM152 the macro 'SQ' takes 1 arguments, not 2 (f.c:2)"),
    ("#error no\n", "PM152 '#error no' is reached (f.c:1)"),
    ("#blah no\n", "PM152 the directive '#blah' is not read (f.c:1)"),
    ("void f(void) { for (;;) ; } void g(void) { for (;;) ; }", "PM153 2 functions of f.c have loops: f, g"),
    ("int f(void) { return 0; }", "PM153 no functions of f.c have loops"),
    ("x" * 1_000_001, "PM151 f.c has 1,000,001 characters"),
    ("int x = " + "(" * 5000 + "1" + ")" * 5000 + ";", "PM151 brackets are nested deeper than 200 (f.c:1)"),
    (loop("a[i] = " + "1 + " * 5000 + "1;"), "PM151 "),
    (loop("a[i] = " + "!" * 20000 + "1;"), "PM151 f.c is nested too deeply"),
    ("{" * 190 + "}" * 190, "PM271 there is no assignment to read"),
    ("\n".join(f"#define A{n} A{n + 1} A{n + 1}" for n in range(35)) + "\nA0", "PM151 f.c has more than 200,000 words"),
    (loop("a[i] = 0x" + "F" * 200 + ";"), "PM261 the number '0x"),
    (loop("for (int j = 0; j < 8; j++) a[i + j / i] = 0;"), "PM262 'j / i' is not affine"),
    (loop(f"{'x' * 65} = 0;"), "PM264 the name 'xxx"),
    ("for (i = 0; i < 8; i++) a[i] = 0", "PM150 this is no C that can be read: the end comes too early (f.c:1:33)"),
    ("for (i = 0; i < 8; i++) { a[i] = 0; }}", "PM150 this is no C that can be read: there is a '}' too many (f.c:1:3"),
]  # fmt: skip


def test_the_name_of_a_file_is_told_in_printable_characters() -> None:
    for text in ("void f( {", "", "for (i = 0; i < 4; i++) a[i] = b[i] >> c[i];"):
        with pytest.raises(PolymapError) as caught:
            from_c(text, file="k\x1b[31m\n.c")
        assert "k\\x1b[31m\\n.c" in str(caught.value)
        assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("source, expected", BAD, ids=[str(number) for number in range(len(BAD))])
def test_complaint(source: str, expected: str) -> None:
    assert expected in complaint(source)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_text() -> None:
    text = complaint(
        "int a[8];\nfor (i = 0; i < 9; i++)\n  for (j = 0; j < 8; j++) {\n    a[i*j] = 0;\n    a[b[i]] = q();\n    while (1);\n  }"
    )
    assert [line.split()[0] for line in text.splitlines() if line.startswith("PM")] == ["PM262", "PM262", "PM263"]
    assert [line.rstrip(")").rsplit(":", 1)[1] for line in text.splitlines() if line.startswith("PM")] == [
        "4",
        "5",
        "6",
    ]


@pytest.mark.parametrize(
    "statement, codes",
    [
        ("a[i*i] = a[i%0] + a[i][i] + c[b[i]];", ["PM262", "PM262", "PM268", "PM262"]),
        ("a[p->x] = (i++) + g(*(&a), sizeof a) * (i ? q->y : 1);", ["PM261"] * 5),
        ("a[a[q->y]][p->x] = 0;", ["PM261"] * 2),
    ],
)
def test_all_mistakes_of_one_statement_are_told(statement: str, codes: list[str]) -> None:
    text = complaint(f"int a[8], b[8], c[8]; for (i = 0; i < 8; i++) {statement}")
    assert [line.split()[0] for line in text.splitlines() if line.startswith("PM")] == codes


def test_wrong_sizes_are_told_with_unused_ones() -> None:
    source = "void f(int n, int a[n]) { for (int i = 0; i < n; i++) a[i] = 0; }"
    for read in (from_c, transform_c):
        with pytest.raises(
            WorkloadError, match=r"PM264 the size of 'n' is -1(.|\n)*PM264 the size 'm' is used nowhere"
        ):
            read(source, sizes={"n": -1, "m": 2})


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "8", 10**101])
def test_size_must_be_a_positive_integer(size: object) -> None:
    with pytest.raises(WorkloadError, match="PM264 the size of 'N' is"):
        from_c("for (i = 0; i < N; i++) a[i] = 0;", {"N": size})  # type: ignore[dict-item]


def test_size_that_nothing_uses_is_refused_with_a_suggestion() -> None:
    with pytest.raises(WorkloadError, match=r"PM264 the size 'M' is used nowhere in C source\n +Known: N\."):
        from_c("double A[N]; for (int i = 0; i < N; i++) A[i] = 0;", {"M": 3})
    typed = "typedef float T;\nvoid f(uint32_t n, T *a) { for (uint32_t i = 0; i < n; i++) a[i] = sqrtf(a[i]); }"
    with pytest.raises(WorkloadError, match=r"PM264 the size 'k' is used nowhere in C source\n +Known: n\.$"):
        from_c(typed, {"n": 8, "k": 2})
    with pytest.raises(WorkloadError, match="PM264 the size 'NN' is used nowhere in C source\n.*Did you mean 'N'"):
        from_c("for (i = 0; i < N; i++) a[i] = 0;", {"N": 8, "NN": 8})


def test_text_that_is_no_c_is_an_input_error() -> None:
    with pytest.raises(InputError, match="PM150"):
        from_c("for for for")


def test_extents_far_beyond_64_bits_stay_exact() -> None:
    work = from_c("for (i = 0; i < N; i++) for (j = i; j < N; j++) s += a[i];", {"N": 10**30})
    assert [each.extent for each in work.dims] == [10**30, 10**30]
    assert work.tensor("a").shape == (10**30,)
