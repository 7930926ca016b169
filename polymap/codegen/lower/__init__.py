"""A loop tree as the parts of a C program: loops, storage nodes, buffers, elements; C as data and as text."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.lower.ast import (
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
        multiply as multiply,
        total as total,
    )
    from polymap.codegen.lower.buffers import (
        CHANGED as CHANGED,
        CLEAN as CLEAN,
        Buffer as Buffer,
        Layout as Layout,
        axis_values as axis_values,
        buffer_arrays as buffer_arrays,
        cell_of as cell_of,
        check_indices as check_indices,
        check_memory as check_memory,
        combine as combine,
        counter as counter,
        element_number as element_number,
        forms_of as forms_of,
        layout_of as layout_of,
        neutral as neutral,
        operator_of_sums as operator_of_sums,
        slot_of as slot_of,
    )
    from polymap.codegen.lower.elements import (
        SHORT_FLOATS as SHORT_FLOATS,
        ElementType as ElementType,
        Registers as Registers,
        c_name as c_name,
        element_types as element_types,
        has_values_at_start as has_values_at_start,
        registers as registers,
    )
    from polymap.codegen.lower.expressions import c_expression as c_expression
    from polymap.codegen.lower.nest import (
        Clock as Clock,
        ClockBranch as ClockBranch,
        ClockLoop as ClockLoop,
        ClockStep as ClockStep,
        Loop as Loop,
        StoragePoint as StoragePoint,
        Use as Use,
        clock_below as clock_below,
        instance_order as instance_order,
        read_nest as read_nest,
    )
    from polymap.codegen.lower.prelude import (
        ELEMENT_OF_KEY as ELEMENT_OF_KEY,
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
        RESTRICT as RESTRICT,
        TRANSFER as TRANSFER,
    )
    from polymap.codegen.lower.printer import emit as emit, expression as expression, lines_of as lines_of
    from polymap.codegen.lower.sums import (
        IN_TURN as IN_TURN,
        NO_VECTORS as NO_VECTORS,
        loop_extent as loop_extent,
        order_of_sums as order_of_sums,
        sums_in_turn as sums_in_turn,
    )
    from polymap.codegen.lower.tidy import function as function, inlined as inlined, prune as prune
    from polymap.codegen.lower.tiles import (
        Frame as Frame,
        Guard as Guard,
        Layer as Layer,
        Values as Values,
        affine_expr as affine_expr,
        clock_bound as clock_bound,
        instance_layers as instance_layers,
        instance_number as instance_number,
        point_layers as point_layers,
        temporal as temporal,
        wrap as wrap,
    )
    from polymap.codegen.lower.tuning import TUNING as TUNING
