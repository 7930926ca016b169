"""C as data, and its text."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.c.ast import (
        Array as Array,
        Assign as Assign,
        Binary as Binary,
        Block as Block,
        Choice as Choice,
        Copy as Copy,
        Count as Count,
        Declare as Declare,
        Element as Element,
        Expr as Expr,
        For as For,
        Function as Function,
        If as If,
        Int as Int,
        Invoke as Invoke,
        Local as Local,
        Name as Name,
        Program as Program,
        Run as Run,
        Scope as Scope,
        Stmt as Stmt,
        Text as Text,
        add as add,
        minimum as minimum,
        modulo as modulo,
        multiply as multiply,
        subtract as subtract,
        total as total,
    )
    from polymap.codegen.c.prelude import (
        EXTREMES as EXTREMES,
        FAITHFUL_HEAD as FAITHFUL_HEAD,
        FLOAT_EXTREMES as FLOAT_EXTREMES,
        FLOOR_DIV as FLOOR_DIV,
        INCLUDES as INCLUDES,
        LINE_BYTES as LINE_BYTES,
        MACROS as MACROS,
        MAIN as MAIN,
        MESSAGES as MESSAGES,
        NATIVE_HEAD as NATIVE_HEAD,
        OPENMP_HINTS as OPENMP_HINTS,
        PRINT_COUNTS as PRINT_COUNTS,
        RANDOM as RANDOM,
        TRANSFER as TRANSFER,
    )
    from polymap.codegen.c.printer import emit as emit, expression as expression, lines_of as lines_of
    from polymap.codegen.c.tidy import function as function, inlined as inlined, prune as prune
