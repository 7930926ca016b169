"""Lowers a loop tree to the parts of a C program: loops, storage nodes, buffers, elements."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.lower.buffers import (
        Buffer as Buffer,
        Layout as Layout,
        Rule as Rule,
        axis_values as axis_values,
        buffer_arrays as buffer_arrays,
        cell_of as cell_of,
        check_indices as check_indices,
        check_memory as check_memory,
        combine as combine,
        counter as counter,
        forms_of as forms_of,
        layout_of as layout_of,
        rules as rules,
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
    from polymap.codegen.lower.sums import (
        IN_TURN as IN_TURN,
        order_of_sums as order_of_sums,
        sums_in_turn as sums_in_turn,
    )
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
