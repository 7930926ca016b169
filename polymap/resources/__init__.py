"""What a computation may use: time, memory, work, processes; the queue that a search works on."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.resources.best_first import BestFirst as BestFirst
    from polymap.resources.caches import SearchCaches as SearchCaches
    from polymap.resources.clocks import (
        cpu_seconds as cpu_seconds,
        ending_within as ending_within,
        is_time_up as is_time_up,
        wall_left_s as wall_left_s,
        with_at_least as with_at_least,
    )
    from polymap.resources.limits import (
        Limits as Limits,
        OutOfTime as OutOfTime,
        Processes as Processes,
        Stop as Stop,
        Work as Work,
        never as never,
    )
    from polymap.resources.memory import Memory as Memory
    from polymap.resources.run import Caps as Caps, Ended as Ended, run_within as run_within
    from polymap.resources.worker_pool import WorkerPool as WorkerPool
