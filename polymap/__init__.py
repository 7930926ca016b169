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

from polymap.ir.display import when_first_shown
from polymap.lazy import lazy

with lazy(__name__, renamed={"Problem": "Mistake"}):
    from polymap import space as space, transform as transform
    from polymap.arch.document import arch_from_document as arch_from_document, arch_to_document as arch_to_document
    from polymap.arch.presets import load_arch as load_arch, preset_names as preset_names
    from polymap.buffer_sweep import buffer_curve as buffer_curve
    from polymap.checker.check import Verdict as Verdict
    from polymap.codegen.execute.preprocess import preprocessed as preprocessed
    from polymap.codegen.execute.run import CRun as CRun, generate_c as generate_c, run_c as run_c
    from polymap.codegen.forms import Form as Form
    from polymap.codegen.native.tails import Requantize as Requantize
    from polymap.codegen.source.symbolic import (
        SymbolicCheckup as SymbolicCheckup,
        SymbolicDependence as SymbolicDependence,
        SymbolicLoop as SymbolicLoop,
        SymbolicStatement as SymbolicStatement,
        symbolic_checkup as symbolic_checkup,
    )
    from polymap.codegen.source.transform import transform_c as transform_c
    from polymap.comparison import Comparison as Comparison, compare as compare, dataflow as dataflow, order as order
    from polymap.compilation import CompiledFunction as CompiledFunction, compile as compile
    from polymap.costmodel.analysis.buffer_bound import BufferCurve as BufferCurve
    from polymap.costmodel.analysis.crossovers import Crossover as Crossover, Family as Family, crossover as crossover
    from polymap.costmodel.analysis.machine_fit import (
        MachineFit as MachineFit,
        MeasuredRun as MeasuredRun,
        fit_machine as fit_machine,
    )
    from polymap.costmodel.analysis.nest import mapping_text as mapping_text
    from polymap.costmodel.cost import Cost as Cost
    from polymap.costmodel.counts import Traffic as Traffic, WireUse as WireUse
    from polymap.costmodel.evaluation import evaluate as evaluate, simulate as simulate, violations as violations
    from polymap.costmodel.symbolic.derivation import formula as formula
    from polymap.costmodel.symbolic.formulas import Formula as Formula
    from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays, evaluate_many as evaluate_many
    from polymap.explore import explore as explore
    from polymap.fusion_gain import (
        Fusion as Fusion,
        MovedElements as MovedElements,
        UnfusedPart as UnfusedPart,
        fusion as fusion,
    )
    from polymap.importers.accelergy import from_accelergy as from_accelergy
    from polymap.importers.linalg import from_linalg as from_linalg
    from polymap.importers.onnx_models import from_onnx as from_onnx
    from polymap.importers.timeloop import from_timeloop as from_timeloop
    from polymap.importers.timeloop_export import to_timeloop as to_timeloop
    from polymap.importers.torch_models import from_torch as from_torch
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
    from polymap.ir.loopnest import Role as Role, Workload as Workload
    from polymap.ir.machine import (
        Architecture as Architecture,
        ComputeUnit as ComputeUnit,
        Fanout as Fanout,
        FanoutKind as FanoutKind,
        Hops as Hops,
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
    from polymap.layouts.bursts import (
        BurstCounts as BurstCounts,
        TensorBursts as TensorBursts,
        burst_counts as burst_counts,
    )
    from polymap.layouts.choice import LayoutChoice as LayoutChoice, choose_layouts as choose_layouts
    from polymap.layouts.layout import Layout as Layout
    from polymap.layouts.misses import (
        CacheMisses as CacheMisses,
        TensorMisses as TensorMisses,
        cache_misses as cache_misses,
    )
    from polymap.networks.exploration import (
        LayerAnswer as LayerAnswer,
        NetworkAnswer as NetworkAnswer,
        explore_network as explore_network,
        run_question as run_question,
    )
    from polymap.networks.fusion import GroupAnswer as GroupAnswer, Passing as Passing
    from polymap.networks.model import Network as Network, NetworkLayer as NetworkLayer, network as network
    from polymap.networks.parts import explore_in_parts as explore_in_parts
    from polymap.networks.resource_prices import (
        NextChange as NextChange,
        OtherAmount as OtherAmount,
        ResourcePrice as ResourcePrice,
        Sensitivity as Sensitivity,
        sensitivity as sensitivity,
    )
    from polymap.networks.stores import merge_stores as merge_stores
    from polymap.networks.sweep_run import MachineTotal as MachineTotal, SweepProgress as SweepProgress
    from polymap.networks.sweeps import SweepRow as SweepRow, SweepTable as SweepTable, sweep as sweep
    from polymap.poly import CountFormula as CountFormula
    from polymap.report.figures.array_map import array_figure as array_figure, array_svg as array_svg
    from polymap.report.figures.domain import domain_figure as domain_figure, domain_svg as domain_svg
    from polymap.report.figures.front import front_svg as front_svg
    from polymap.report.figures.layer_bars import (
        layer_bars_figure as layer_bars_figure,
        layer_bars_svg as layer_bars_svg,
    )
    from polymap.report.figures.machine import machine_svg as machine_svg
    from polymap.report.figures.nest_svg import mapping_svg as mapping_svg
    from polymap.report.figures.residency import residency_figure as residency_figure, residency_svg as residency_svg
    from polymap.report.figures.roofline import roofline_svg as roofline_svg, roofline_text as roofline_text
    from polymap.report.figures.schedule import schedule_figure as schedule_figure, schedule_svg as schedule_svg
    from polymap.report.figures.statements import (
        dependence_graph as dependence_graph,
        dependence_graph_svg as dependence_graph_svg,
    )
    from polymap.report.figures.traffic import traffic_svg as traffic_svg, traffic_text as traffic_text
    from polymap.report.page.machines import (
        binding_figure as binding_figure,
        binding_svg as binding_svg,
        machine_front_figure as machine_front_figure,
        machine_front_svg as machine_front_svg,
    )
    from polymap.report.page.progress import ProgressLine as ProgressLine
    from polymap.report.page.report import report_page as report_page
    from polymap.report.space.capacity import capacity_figure as capacity_figure, capacity_svg as capacity_svg
    from polymap.report.space.cloud import cloud_figure as cloud_figure, cloud_svg as cloud_svg
    from polymap.report.space.coordinates import (
        coordinates_figure as coordinates_figure,
        coordinates_plot as coordinates_plot,
    )
    from polymap.report.space.course import (
        course_figure as course_figure,
        course_svg as course_svg,
        fate_figure as fate_figure,
        fate_svg as fate_svg,
        history_svg as history_svg,
    )
    from polymap.report.space.order_classes import order_figure as order_figure, order_svg as order_svg
    from polymap.report.space.rarity import rarity_figure as rarity_figure, rarity_svg as rarity_svg
    from polymap.report.space.sensitivity import (
        sensitivity_figure as sensitivity_figure,
        sensitivity_svg as sensitivity_svg,
    )
    from polymap.report.space.smoothness import smooth_figure as smooth_figure, smooth_svg as smooth_svg
    from polymap.report.space.tile_map import tile_map_figure as tile_map_figure, tile_map_svg as tile_map_svg
    from polymap.report.space.two_mappings import side_by_side as side_by_side
    from polymap.report.space.winners import winner_figure as winner_figure, winner_svg as winner_svg
    from polymap.report.text.explanation import explain as explain
    from polymap.resolve import dependences as dependences
    from polymap.sampling.moves import distance as distance, features as features, neighbours as neighbours
    from polymap.sampling.sample import Sample as Sample, sample_mappings as sample_mappings
    from polymap.sampling.scores import Scores as Scores, score_mappings as score_mappings
    from polymap.schedules.document import (
        mapping_from_document as mapping_from_document,
        mapping_to_document as mapping_to_document,
    )
    from polymap.schedules.fusions import ForbiddenFusion as ForbiddenFusion
    from polymap.schedules.scattering import LoopKind as LoopKind, Schedule as Schedule
    from polymap.search.result.reading import load_result as load_result
    from polymap.search.result.result import SearchResult as SearchResult
    from polymap.search.run.ranked import candidates as candidates
    from polymap.tile_sizes import TileChoice as TileChoice, choose_tiles as choose_tiles
    from polymap.verify import verify as verify
    from polymap.version import __version__ as __version__
    from polymap.workload.attention import attention as attention
    from polymap.workload.c.reader import from_c as from_c
    from polymap.workload.dependence_analysis import Dependence as Dependence
    from polymap.workload.document import (
        load_workload as load_workload,
        workload_from_document as workload_from_document,
        workload_to_document as workload_to_document,
    )
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
    from polymap.workload.networks import builtin_names as builtin_names, builtin_workload as builtin_workload

# Values know nothing of reports: the first one that is printed or shown in a notebook loads them.
when_first_shown(lambda: import_module("polymap.report.page.shown"))
