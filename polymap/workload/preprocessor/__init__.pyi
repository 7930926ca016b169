from polymap.workload.preprocessor.conditions import Group as Group
from polymap.workload.preprocessor.decisions import (
    Assumption as Assumption,
    Interest as Interest,
    Part as Part,
    assumptions as assumptions,
    identifiers as identifiers,
    undecided_error as undecided_error,
)
from polymap.workload.preprocessor.directives import Expanded as Expanded, expanded as expanded
from polymap.workload.preprocessor.macros import Macro as Macro
