"""C programs as workloads: from text, macros and conditions included, to a loop nest with C's meaning."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.workload.c.affine import known_name as known_name
    from polymap.workload.c.conditions import Group as Group
    from polymap.workload.c.nest import IntegerText as IntegerText, Nest as Nest
    from polymap.workload.c.reader import (
        CProgram as CProgram,
        checked_sizes as checked_sizes,
        from_c as from_c,
        parametric_nest as parametric_nest,
        read_program as read_program,
        workload_of_program as workload_of_program,
    )
    from polymap.workload.c.source import Assumption as Assumption
    from polymap.workload.c.tree import (
        EXTREMES as EXTREMES,
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
        Unary as Unary,
        all_statements as all_statements,
        inside as inside,
        names_of as names_of,
        parts as parts,
        rebuilt as rebuilt,
        render as render,
    )
    from polymap.workload.c.types import (
        FLOATS as FLOATS,
        INTEGERS as INTEGERS,
        SPELLING as SPELLING,
        bits_of as bits_of,
        common as common,
        limits as limits,
        number_type as number_type,
        promoted as promoted,
        type_of as type_of,
        value_types as value_types,
    )
    from polymap.workload.c.values import (
        FUNCTIONS as FUNCTIONS,
        LARGEST_INDEX as LARGEST_INDEX,
        arguments_of as arguments_of,
    )
    from polymap.workload.c.words import KEYWORDS as KEYWORDS
