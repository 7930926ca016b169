"""A mapping as loops, buffers and elements; programs as data and as text; the one that follows it step by step."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.lower.ast import (
        Array as Array,
        Assign as Assign,
        Binary as Binary,
        Block as Block,
        Choice as Choice,
        Copy as Copy,
        Declare as Declare,
        Element as Element,
        Expr as Expr,
        For as For,
        Function as Function,
        If as If,
        Int as Int,
        Invoke as Invoke,
        LocalArray as LocalArray,
        Name as Name,
        Program as Program,
        Run as Run,
        Scope as Scope,
        Stmt as Stmt,
        Text as Text,
        Verbatim as Verbatim,
        add as add,
        minimum as minimum,
        multiply as multiply,
        total as total,
        with_parts as with_parts,
    )
    from polymap.codegen.lower.buffers import (
        Layout as Layout,
        axis_values as axis_values,
        check_indices as check_indices,
        check_memory as check_memory,
        combine as combine,
        layout_of as layout_of,
        neutral as neutral,
        slot_of as slot_of,
    )
    from polymap.codegen.lower.elements import (
        SHORT_FLOATS as SHORT_FLOATS,
        ElementType as ElementType,
        c_name as c_name,
        check_sums as check_sums,
        element_types as element_types,
        has_values_at_start as has_values_at_start,
        registers as registers,
        registers_of as registers_of,
    )
    from polymap.codegen.lower.expressions import c_expression as c_expression, operations_of as operations_of
    from polymap.codegen.lower.main_part import (
        extremes as extremes,
        has_floors as has_floors,
        includes as includes,
        main_text as main_text,
    )
    from polymap.codegen.lower.nest import (
        Clock as Clock,
        ClockBranch as ClockBranch,
        ClockLoop as ClockLoop,
        ClockStep as ClockStep,
        Loop as Loop,
        StoragePoint as StoragePoint,
        Use as Use,
        read_nest as read_nest,
    )
    from polymap.codegen.lower.partial_extremes import Extreme as Extreme, in_parts as in_parts
    from polymap.codegen.lower.prelude import (
        ALIGNED_ALLOC as ALIGNED_ALLOC,
        ALIGNED_ARRAY as ALIGNED_ARRAY,
        EXTREMES as EXTREMES,
        FLOAT_EXTREMES as FLOAT_EXTREMES,
        FLOOR_DIV as FLOOR_DIV,
        INCLUDES as INCLUDES,
        LIBRARIES as LIBRARIES,
        LINE_BYTES as LINE_BYTES,
        MAIN as MAIN,
        NATIVE_HEAD as NATIVE_HEAD,
        OPENMP_HINTS as OPENMP_HINTS,
        RESTRICT as RESTRICT,
        TRANSFER as TRANSFER,
        WIDE as WIDE,
        comment_of as comment_of,
    )
    from polymap.codegen.lower.printer import emit as emit, expression as expression, lines_of as lines_of
    from polymap.codegen.lower.program import lower_faithful as lower_faithful
    from polymap.codegen.lower.sums import (
        IN_TURN as IN_TURN,
        NO_INTERCHANGE as NO_INTERCHANGE,
        NO_VECTORS as NO_VECTORS,
        loop_extent as loop_extent,
        order_of_sums as order_of_sums,
        sums_in_turn as sums_in_turn,
        sums_of_several_loops as sums_of_several_loops,
    )
    from polymap.codegen.lower.tidy import inline_constants as inline_constants, prune as prune
    from polymap.codegen.lower.tiles import (
        Frame as Frame,
        Values as Values,
        affine_expr as affine_expr,
        clock_bound as clock_bound,
        point_layers as point_layers,
        wrap as wrap,
    )
    from polymap.codegen.lower.tuning import TUNING as TUNING
