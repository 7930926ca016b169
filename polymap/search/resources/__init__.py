"""What a search may use: time, memory, work, processes."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.resources.best_first import BestFirst as BestFirst
    from polymap.search.resources.caches import SearchCaches as SearchCaches
    from polymap.search.resources.limits import (
        Limits as Limits,
        OutOfTime as OutOfTime,
        Processes as Processes,
        Stop as Stop,
        Work as Work,
        never as never,
    )
    from polymap.search.resources.memory import Memory as Memory
    from polymap.search.resources.worker_pool import WorkerPool as WorkerPool
