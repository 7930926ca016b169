from polymap.workload.c.reader import (
    checked_sizes as checked_sizes,
    from_c as from_c,
    workload_of_program as workload_of_program,
)
from polymap.workload.c.tree import (
    Assign as Assign,
    Binary as Binary,
    Call as Call,
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
    parts as parts,
    render as render,
)
from polymap.workload.c.types import (
    FLOATS as FLOATS,
    INTEGERS as INTEGERS,
    bits_of as bits_of,
    limits as limits,
    number_type as number_type,
    type_of as type_of,
)
