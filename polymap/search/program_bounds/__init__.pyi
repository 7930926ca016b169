from polymap.search.program_bounds.bounds import (
    can_be_bounded as can_be_bounded,
    program_traffic_bits as program_traffic_bits,
)
