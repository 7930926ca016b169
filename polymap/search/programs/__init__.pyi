from polymap.search.programs.search import (
    ProgramSearch as ProgramSearch,
    ProgramTree as ProgramTree,
    may_be_climbed as may_be_climbed,
)
