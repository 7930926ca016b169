"""C programs as workloads: from text, macros and conditions included, to a loop nest with C's meaning."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.workload.c.affine import known_name as known_name
    from polymap.workload.c.branches import without_branch as without_branch
    from polymap.workload.c.conditions import Group as Group
    from polymap.workload.c.decisions import Assumption as Assumption
    from polymap.workload.c.loops import misused_counters as misused_counters
    from polymap.workload.c.reader import (
        CProgram as CProgram,
        checked_sizes as checked_sizes,
        from_c as from_c,
        read_program as read_program,
        workload_of_program as workload_of_program,
    )
    from polymap.workload.c.source import VALUE_MACROS as VALUE_MACROS
    from polymap.workload.c.tree import (
        Assign as Assign,
        Binary as Binary,
        Block as Block,
        Call as Call,
        Cast as Cast,
        CExpression as CExpression,
        Choice as Choice,
        Complaints as Complaints,
        CStatement as CStatement,
        Declare as Declare,
        For as For,
        If as If,
        Item as Item,
        Literal as Literal,
        Name as Name,
        Program as Program,
        Refused as Refused,
        Rules as Rules,
        Unary as Unary,
        all_statements as all_statements,
        assign_with as assign_with,
        check_count as check_count,
        decided as decided,
        is_piecewise as is_piecewise,
        names_of as names_of,
        next_condition as next_condition,
        parts as parts,
        render as render,
        replaced as replaced,
        simplified as simplified,
        with_guard as with_guard,
    )
    from polymap.workload.c.types import (
        FLOATS as FLOATS,
        INTEGERS as INTEGERS,
        SPELLING as SPELLING,
        bits_of as bits_of,
        common as common,
        keeps_values as keeps_values,
        limits as limits,
        number_type as number_type,
        promoted as promoted,
        type_of as type_of,
    )
    from polymap.workload.c.values import (
        LARGEST_INDEX as LARGEST_INDEX,
        accumulation as accumulation,
        is_pure as is_pure,
    )
