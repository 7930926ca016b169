from polymap.search.program_bounds.bounds import (
    MOST_INSTANCES as MOST_INSTANCES,
    program_traffic_bits as program_traffic_bits,
)
