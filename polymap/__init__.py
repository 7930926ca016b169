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

from polymap.ir.display import when_first_reported, when_first_shown
from polymap.lazy import lazy

with lazy(__name__):
    from polymap import (
        errors as errors,
        io as io,
        layouts as layouts,
        plot as plot,
        space as space,
        study as study,
        transform as transform,
    )
    from polymap.codegen.host_function import CompiledFunction as CompiledFunction, compile as compile
    from polymap.codegen.native.tails import Requantize as Requantize
    from polymap.codegen.run import generate_c as generate_c, run_c as run_c
    from polymap.codegen.source.transform import transform_c as transform_c
    from polymap.costmodel.cost import Cost as Cost
    from polymap.costmodel.evaluation import evaluate as evaluate, simulate as simulate, violations as violations
    from polymap.costmodel.tables.cost_arrays import evaluate_many as evaluate_many
    from polymap.explore import candidates as candidates, explore as explore
    from polymap.importers.linalg import from_linalg as from_linalg
    from polymap.importers.onnx_models import from_onnx as from_onnx
    from polymap.importers.timeloop.export import to_timeloop as to_timeloop
    from polymap.importers.timeloop.reading import from_timeloop as from_timeloop
    from polymap.importers.torch_models import from_torch as from_torch
    from polymap.inputs.presets import load_arch as load_arch
    from polymap.ir.errors import PolymapError as PolymapError
    from polymap.ir.loopnest import Workload as Workload
    from polymap.ir.machine import (
        Architecture as Architecture,
        ComputeUnit as ComputeUnit,
        Fanout as Fanout,
        MemoryLevel as MemoryLevel,
    )
    from polymap.ir.mapping import (
        Branch as Branch,
        Compute as Compute,
        Mapping as Mapping,
        Spatial as Spatial,
        Storage as Storage,
        Temporal as Temporal,
    )
    from polymap.networks.answer_files import load_result as load_result
    from polymap.networks.comparison import compare as compare, dataflow as dataflow, order as order
    from polymap.networks.exploration import explore_network as explore_network
    from polymap.networks.model import Network as Network, network as network
    from polymap.networks.sweeps import sweep as sweep
    from polymap.report.figures.svg import Picture as Picture
    from polymap.resolve import dependences as dependences
    from polymap.schedules.scattering import Schedule as Schedule
    from polymap.search.result import SearchResult as SearchResult
    from polymap.search.trees.samples import sample_mappings as sample_mappings
    from polymap.tile_sizes import choose_tiles as choose_tiles
    from polymap.verify import verify as verify
    from polymap.version import __version__ as __version__
    from polymap.workload.attention import attention as attention
    from polymap.workload.c.reader import from_c as from_c
    from polymap.workload.document import load_workload as load_workload
    from polymap.workload.einsum_programs import program as program
    from polymap.workload.einsums import einsum as einsum
    from polymap.workload.layers import (
        conv1d as conv1d,
        conv2d as conv2d,
        conv3d as conv3d,
        depthwise as depthwise,
        matmul as matmul,
        pool as pool,
    )
    from polymap.workload.nests import nest as nest

# Values know nothing of reports: the first one that is printed or shown in a notebook loads them.
when_first_shown(lambda: import_module("polymap.report.shown"))
when_first_reported(lambda: import_module("polymap.report.results"))
