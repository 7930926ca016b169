"""Other processes and their limits; time that a busy machine does not use up."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.processes.clocks import (
        cpu_seconds as cpu_seconds,
        ending_within as ending_within,
        wall_left_s as wall_left_s,
    )
    from polymap.processes.run import Caps as Caps, Ended as Ended, run_within as run_within
