from polymap.workload.c.reader import from_c as from_c
from polymap.workload.c.types import (
    FLOATS as FLOATS,
    bits_of as bits_of,
    limits as limits,
    number_type as number_type,
    type_of as type_of,
)
