"""The public API in groups, those of the top level and the namespaces, and the page that Sphinx builds of it."""

from __future__ import annotations

import inspect
from operator import attrgetter
from types import ModuleType
from typing import Any

import polymap as pm

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Workloads", "What is computed.", (
        *("conv2d", "depthwise", "conv1d", "conv3d", "pool", "matmul", "attention", "einsum", "program"),
        *("nest", "from_c", "load_workload", "Workload", "dependences"),
    )),
    ("Machines", "What it runs on.", (
        *("load_arch", "Architecture", "MemoryLevel", "Fanout", "ComputeUnit"),
    )),
    ("Mappings and schedules", "How it runs there, and in which order.", (
        *("Mapping", "Storage", "Temporal", "Spatial", "Compute", "Branch", "violations", "Schedule"),
    )),
    ("Costs", "What a mapping does.", ("evaluate", "simulate", "evaluate_many", "Cost", "Picture")),
    ("Searching", "The best mapping, and its proof.", (
        *("explore", "SearchResult", "load_result", "candidates", "choose_tiles", "verify", "compare"),
        *("dataflow", "order", "sample_mappings"),
    )),
    ("Networks", "All layers of a model, over many machines.", (
        *("network", "from_onnx", "from_torch", "from_linalg", "from_timeloop", "to_timeloop", "Network"),
        *("explore_network", "sweep"),
    )),
    ("Programs", "C that runs.", (
        *("compile", "CompiledFunction", "Requantize", "generate_c", "run_c", "transform_c"),
    )),
    ("Errors", "What every error is.", ("PolymapError",)),
)  # fmt: skip
NAMESPACES = ("plot", "study", "space", "io", "layouts", "transform", "errors")
OTHERS = ("Further names", "Public, and not in a group yet.")


def groups() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (title, sentence, names) of every public name, those of namespaces with a dot; names of the top level in
    no group come last."""
    listed = {name for _, _, names in GROUPS for name in names} | set(NAMESPACES)
    left = tuple(name for name in dir(pm) if name not in listed and not name.startswith("_"))
    found = [*GROUPS, *([(*OTHERS, left)] if left else [])]
    for namespace in NAMESPACES:
        module: Any = getattr(pm, namespace)
        own = tuple(f"{namespace}.{name}" for name in module.__all__ if is_documented(module, name))
        sentence = inspect.cleandoc(module.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("`", "")
        found.append((f"pm.{namespace}", sentence, own))
    return found


def is_documented(module: ModuleType, name: str) -> bool:
    """Return whether a name of a namespace has its place there: functions and classes not of the top level, too."""
    value = getattr(module, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    return value is not getattr(pm, name, None)


def api_page() -> str:
    """Return the reStructuredText of the page: a directive for each name."""
    parts = ["Python interface", "================", "", "Built from the docstrings of ``import polymap as pm``.", ""]
    for title, told, names in groups():
        parts += [title, "-" * len(title), "", told if told.endswith(".") else f"{told}.", ""]
        for name in names:
            kind = "autoclass" if inspect.isclass(attrgetter(name)(pm)) else "autofunction"
            parts.append(f".. {kind}:: polymap.{name}")
            parts.append("   :members:\n   :undoc-members:\n" if kind == "autoclass" else "")
    return "\n".join(parts) + "\n"
