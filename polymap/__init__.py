"""polymap: the best mapping of a loop nest onto an accelerator, its proof, its numbers and its program.

The public names, each loaded when it is first used, so that `import polymap` costs next to nothing.
"""

import sys

# `python -m polymap` (its words come after "-m" when packages are imported) or the installed command: a signal that
# comes while modules are loaded ends it with one line. Who imports the package keeps their own signals.
if (sys.argv[:1] == ["-m"] and "polymap" in sys.orig_argv) or "".join(sys.argv[:1]).endswith("/polymap"):
    from polymap.cli.first_interrupt import end_at_once

    end_at_once()

from importlib import import_module
from typing import TYPE_CHECKING

# At once and not on first use: the module and the function share their name, and this import decides it.
from polymap.explore import explore as explore
from polymap.ir.display import when_first_shown

if TYPE_CHECKING:
    from polymap.arch.document import arch_from_document as arch_from_document, arch_to_document as arch_to_document
    from polymap.arch.presets import load_arch as load_arch, preset_names as preset_names
    from polymap.buffer_sweep import buffer_curve as buffer_curve
    from polymap.checker.check import Verdict as Verdict
    from polymap.codegen.execute.run import CRun as CRun, generate_c as generate_c, run_c as run_c
    from polymap.codegen.forms import Form as Form
    from polymap.costmodel.analysis.buffer_bound import BufferCurve as BufferCurve
    from polymap.costmodel.analysis.crossovers import Crossover as Crossover, Family as Family, crossover as crossover
    from polymap.costmodel.cost import Cost as Cost, Traffic as Traffic
    from polymap.costmodel.evaluation import evaluate as evaluate, simulate as simulate, violations as violations
    from polymap.costmodel.symbolic.derivation import formula as formula
    from polymap.costmodel.symbolic.formulas import Formula as Formula
    from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays, evaluate_many as evaluate_many
    from polymap.ir.errors import (
        ArchError as ArchError,
        BudgetError as BudgetError,
        CompilerError as CompilerError,
        InputError as InputError,
        MappingError as MappingError,
        MissingPackageError as MissingPackageError,
        OptionError as OptionError,
        OutputError as OutputError,
        PolymapError as PolymapError,
        Problem as Problem,
        SolverError as SolverError,
        WorkloadError as WorkloadError,
    )
    from polymap.ir.loopnest import Role as Role, Workload as Workload
    from polymap.ir.machine import (
        Architecture as Architecture,
        ComputeUnit as ComputeUnit,
        Fanout as Fanout,
        MemoryLevel as MemoryLevel,
        Multicast as Multicast,
    )
    from polymap.ir.mapping import (
        Branch as Branch,
        Compute as Compute,
        Mapping as Mapping,
        Spatial as Spatial,
        Storage as Storage,
        Temporal as Temporal,
    )
    from polymap.ir.violation import InstancePoint as InstancePoint, Violation as Violation
    from polymap.proofs import verify as verify
    from polymap.report.figures.front import front_svg as front_svg
    from polymap.report.figures.history import history_svg as history_svg
    from polymap.report.figures.machine import machine_svg as machine_svg
    from polymap.report.figures.nest import mapping_text as mapping_text
    from polymap.report.figures.nest_svg import mapping_svg as mapping_svg
    from polymap.report.figures.roofline import roofline_svg as roofline_svg, roofline_text as roofline_text
    from polymap.report.figures.traffic import traffic_svg as traffic_svg, traffic_text as traffic_text
    from polymap.report.text.explanation import explain as explain
    from polymap.schedules.document import (
        mapping_from_document as mapping_from_document,
        mapping_to_document as mapping_to_document,
    )
    from polymap.search.run.result import SearchResult as SearchResult
    from polymap.search.run.stages import candidates as candidates
    from polymap.workload.c.reader import from_c as from_c
    from polymap.workload.dependence_analysis import Dependence as Dependence, dependences as dependences
    from polymap.workload.document import (
        load_workload as load_workload,
        workload_from_document as workload_from_document,
        workload_to_document as workload_to_document,
    )
    from polymap.workload.einsums import einsum as einsum
    from polymap.workload.layers import conv2d as conv2d, matmul as matmul
    from polymap.workload.networks import builtin_names as builtin_names, builtin_workload as builtin_workload

__version__ = "0.1.0"

_HOME = {
    "polymap.arch.document": ("arch_from_document", "arch_to_document"),
    "polymap.ir.machine": ("Architecture", "ComputeUnit", "Fanout", "MemoryLevel", "Multicast"),
    "polymap.arch.presets": ("load_arch", "preset_names"),
    "polymap.checker.check": ("Verdict",),
    "polymap.codegen.forms": ("Form",),
    "polymap.codegen.execute.run": ("CRun", "generate_c", "run_c"),
    "polymap.costmodel.tables.cost_arrays": ("CostArrays", "evaluate_many"),
    "polymap.costmodel.cost": ("Cost", "Traffic"),
    "polymap.costmodel.analysis.buffer_bound": ("BufferCurve",),
    "polymap.costmodel.analysis.crossovers": ("Crossover", "Family", "crossover"),
    "polymap.costmodel.evaluation": ("evaluate", "simulate", "violations"),
    "polymap.costmodel.symbolic.derivation": ("formula",),
    "polymap.costmodel.symbolic.formulas": ("Formula",),
    "polymap.ir.errors": (
        "ArchError", "BudgetError", "CompilerError", "InputError", "MappingError", "MissingPackageError",
        "OptionError", "OutputError", "PolymapError", "Problem", "SolverError", "WorkloadError",
    ),
    "polymap.proofs": ("verify",),
    "polymap.report.text.explanation": ("explain",),
    "polymap.report.figures.front": ("front_svg",),
    "polymap.report.figures.history": ("history_svg",),
    "polymap.report.figures.machine": ("machine_svg",),
    "polymap.report.figures.nest": ("mapping_text",),
    "polymap.report.figures.nest_svg": ("mapping_svg",),
    "polymap.report.figures.roofline": ("roofline_svg", "roofline_text"),
    "polymap.report.figures.traffic": ("traffic_svg", "traffic_text"),
    "polymap.schedules.document": ("mapping_from_document", "mapping_to_document"),
    "polymap.ir.mapping": ("Branch", "Compute", "Mapping", "Spatial", "Storage", "Temporal"),
    "polymap.ir.violation": ("InstancePoint", "Violation"),
    "polymap.search.run.result": ("SearchResult",),
    "polymap.search.run.stages": ("candidates",),
    "polymap.buffer_sweep": ("buffer_curve",),
    "polymap.workload.c.reader": ("from_c",),
    "polymap.workload.dependence_analysis": ("Dependence", "dependences"),
    "polymap.workload.document": ("load_workload", "workload_from_document", "workload_to_document"),
    "polymap.workload.einsums": ("einsum",),
    "polymap.workload.layers": ("conv2d", "matmul"),
    "polymap.ir.loopnest": ("Role", "Workload"),
    "polymap.workload.networks": ("builtin_names", "builtin_workload"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> object:
    """Return a public name, imported now."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'polymap' has no attribute '{name}'")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


# Values know nothing of reports: the first one that is printed or shown in a notebook loads them.
when_first_shown(lambda: import_module("polymap.report.page.shown"))


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(("__version__", "explore", *_MODULE_OF))
