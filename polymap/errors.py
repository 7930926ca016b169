"""`pm.errors`: what polymap raises, each class derived from `PolymapError` and the fitting built-in; broken rules."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.ir.errors import (
        ArchError as ArchError,
        BudgetError as BudgetError,
        CompilerError as CompilerError,
        InputError as InputError,
        MappingError as MappingError,
        MissingPackageError as MissingPackageError,
        Mistake as Mistake,
        OptionError as OptionError,
        OutputError as OutputError,
        PolymapError as PolymapError,
        ScheduleError as ScheduleError,
        SolverError as SolverError,
        WorkloadError as WorkloadError,
    )
    from polymap.ir.violation import Violation as Violation
