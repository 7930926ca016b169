"""Lower bounds of the traffic of programs that know what the memories hold."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.program_bounds.bounds import (
        can_be_bounded as can_be_bounded,
        program_traffic_bits as program_traffic_bits,
    )
