"""The public API in groups, and the page that Sphinx builds of it from the docstrings."""

from __future__ import annotations

import inspect
from operator import attrgetter

import polymap as pm

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Workloads", "What is computed.", (
        *("conv2d", "depthwise", "conv1d", "conv3d", "pool", "matmul", "attention", "einsum", "program"),
        *("nest", "from_c", "load_workload", "builtin_workload"),
        *("builtin_names", "workload_from_document", "workload_to_document", "Workload", "Role"),
        *("dependences", "Dependence"),
    )),
    ("Machines", "What it runs on.", (
        *("load_arch", "preset_names", "arch_from_document", "arch_to_document", "Architecture", "MemoryLevel"),
        *("Fanout", "FanoutKind", "Hops", "Multicast", "ComputeUnit"),
    )),
    ("Mappings", "How it runs there.", (
        *("mapping_from_document", "mapping_to_document", "Mapping", "Storage", "Temporal", "Spatial", "Compute"),
        *("Branch", "violations", "Violation", "InstancePoint"),
    )),
    ("Schedules", "In which order it runs.", ("Schedule", "LoopKind", "transform")),
    ("Costs", "What a mapping does.", (
        *("evaluate", "simulate", "evaluate_many", "Cost", "Traffic", "CostArrays", "formula", "Formula", "explain"),
        "WireUse", "fit_machine", "MeasuredRun", "MachineFit",
    )),
    ("Searching", "The best mapping, and its proof.", (
        *("explore", "SearchResult", "candidates", "choose_tiles", "TileChoice", "verify", "Verdict"),
        *("compare", "Comparison", "dataflow", "order", "buffer_curve", "BufferCurve", "crossover", "Crossover"),
        *("sensitivity", "Sensitivity", "ResourcePrice", "OtherAmount", "NextChange"),
        "Family", "fusion", "Fusion", "MovedElements", "UnfusedPart", "ForbiddenFusion",
    )),
    ("Networks", "All layers of a model.", (
        *("network", "from_onnx", "from_torch", "from_linalg", "Network", "NetworkLayer", "explore_network"),
        *("NetworkAnswer", "LayerAnswer", "GroupAnswer", "Passing", "run_question"),
        *("explore_in_parts", "sweep", "SweepTable", "SweepRow"),
        *("MachineTotal", "SweepProgress", "merge_stores", "from_timeloop", "to_timeloop", "from_accelergy"),
    )),
    ("Layouts", "How tensors lie in memory.", (
        *("burst_counts", "BurstCounts", "TensorBursts", "Layout", "choose_layouts", "LayoutChoice"),
        *("cache_misses", "CacheMisses", "TensorMisses"),
    )),
    ("The mapping space", "What there is to choose from.", (
        *("space", "sample_mappings", "Sample", "score_mappings", "Scores", "neighbours", "features", "distance"),
    )),
    ("Programs", "C that runs.", (
        *("compile", "CompiledFunction", "Requantize", "generate_c", "run_c", "transform_c", "CRun", "Form"),
        *("symbolic_checkup", "SymbolicCheckup", "SymbolicStatement", "SymbolicDependence", "SymbolicLoop"),
        *("CountFormula", "preprocessed"),
    )),
    ("Pictures and tables", "Each figure is data first (`..._figure`), then drawn (`..._svg`).", (
        *("mapping_text", "mapping_svg", "traffic_text", "traffic_svg", "roofline_text", "roofline_svg"),
        *("machine_svg", "front_svg", "history_svg", "domain_figure", "domain_svg", "side_by_side"),
        *("dependence_graph", "dependence_graph_svg", "schedule_figure", "schedule_svg"),
        *("cloud_figure", "cloud_svg", "rarity_figure"),
        *("rarity_svg", "order_figure", "order_svg", "tile_map_figure", "tile_map_svg", "winner_figure"),
        *("winner_svg", "capacity_figure", "capacity_svg", "course_figure", "course_svg", "fate_figure", "fate_svg"),
        *("sensitivity_figure", "sensitivity_svg", "smooth_figure", "smooth_svg", "report_page"),
        *("array_figure", "array_svg", "residency_figure", "residency_svg", "layer_bars_figure", "layer_bars_svg"),
        *("coordinates_figure", "coordinates_plot", "machine_front_figure", "machine_front_svg"),
        *("binding_figure", "binding_svg"),
    )),
    ("Errors", "Codes, causes and cures: [errors](errors.md).", (
        *("PolymapError", "Mistake", "InputError", "WorkloadError", "ArchError", "MappingError", "OptionError"),
        *("BudgetError", "CompilerError", "MissingPackageError", "OutputError", "ScheduleError"),
        "SolverError",
    )),
)  # fmt: skip
OTHERS = ("Further names", "Public, and not in a group yet.")


def groups() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (title, sentence, names) of every public name; names in no group come last."""
    listed = {name for _, _, names in GROUPS for name in names}
    left = tuple(name for name in dir(pm) if name not in listed and not name.startswith("_"))
    known = [(title, told, tuple(name for name in names if hasattr(pm, name))) for title, told, names in GROUPS]
    return [*known, *([(*OTHERS, left)] if left else [])]


def _documented(name: str) -> list[str]:
    """Return the name, or the names in it where it is a package."""
    value = getattr(pm, name)
    return [f"{name}.{inner}" for inner in dir(value)] if inspect.ismodule(value) else [name]


def api_page() -> str:
    """Return the reStructuredText of the page: a directive for each name."""
    parts = ["Python interface", "================", "", "Built from the docstrings of ``import polymap as pm``.", ""]
    for title, told, names in groups():
        plain = told.split(": [")[0].replace("`", "``")
        parts += [title, "-" * len(title), "", plain if plain.endswith(".") else f"{plain}: :doc:`errors`.", ""]
        for name in (inner for each in names for inner in _documented(each)):
            kind = "autoclass" if inspect.isclass(attrgetter(name)(pm)) else "autofunction"
            parts.append(f".. {kind}:: polymap.{name}")
            parts.append("   :members:\n   :undoc-members:\n" if kind == "autoclass" else "")
    return "\n".join(parts) + "\n"
