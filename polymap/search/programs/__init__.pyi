from polymap.search.programs.instances import (
    Ints as Ints,
    instance_bound as instance_bound,
    program_arrays as program_arrays,
)
from polymap.search.programs.search import (
    ProgramSearch as ProgramSearch,
    ProgramTree as ProgramTree,
    may_be_climbed as may_be_climbed,
)
