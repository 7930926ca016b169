"""The house holds: layers, solvers in their rooms, sizes, no cycles, a cheap `import polymap`."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "polymap"
FILES = sorted(PACKAGE.rglob("*.py"))

# Rooms from top to bottom; rooms of one row do not know each other.
ROWS = (
    ("demo",),
    ("cli",),
    ("explore", "proofs", "studies"),
    ("report",),
    ("codegen", "search"),
    ("costmodel",),
    ("schedules",),
    ("arch", "workload"),
    ("poly",),
    ("parsing",),
    ("inputs", "display", "first_interrupt"),
    ("texts",),
    ("errors",),
    ("checker",),
)
ROW_OF = {room: row for row, rooms in enumerate(ROWS) for room in rooms}

# Who may import what from outside the standard library.
HOME_OF = {
    "islpy": ("polymap.poly.", "polymap.codegen."),
    "ortools": ("polymap.search.",),
    "sympy": ("polymap.costmodel.symbolic.derivation", "polymap.poly."),
    "pycparser": ("polymap.workload.",),
    "numpy": ("polymap.",),
    "matplotlib": ("polymap.report.",),
    "plotly": ("polymap.report.",),
    "subprocess": ("polymap.codegen.", "polymap.poly."),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """Return the room of a module: its first part below polymap, the command line's modules as one."""
    room = module.split(".")[1]
    return "cli" if room == "__main__" or room.startswith("cli_") else "demo" if room.startswith("demo_") else room


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return every module that the file imports, anywhere in it, as full dotted names."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found[inner if is_module(inner) else str(node.module)] = None
    return tuple(found)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


INSIDE = tuple(path for path in FILES if module_name(path) != "polymap")


def test_every_room_is_known() -> None:
    rooms = {room_of(module_name(path)) for path in INSIDE}
    assert rooms <= set(ROW_OF), f"rooms without a place in the house: {sorted(rooms - set(ROW_OF))}"


@pytest.mark.parametrize("path", INSIDE, ids=module_name)
def test_modules_import_only_from_rooms_below(path: Path) -> None:
    room = room_of(module_name(path))
    for target in imports_of(path):
        if not target.startswith("polymap."):
            # The command line asks for the version; else the module that has a name is the one to import it from.
            assert target != "polymap" or room == "cli", f"{path} imports the public names"
            continue
        other = room_of(target)
        assert other == room or ROW_OF[other] > ROW_OF[room], f"{module_name(path)} imports {target}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_packages_are_imported_only_in_their_rooms(path: Path) -> None:
    module = module_name(path)
    for target in imports_of(path):
        package = target.split(".")[0]
        if package == "polymap" or (package in sys.stdlib_module_names and package not in HOME_OF):
            continue
        assert package in HOME_OF, f"{module} imports {package}, which is no dependency of polymap"
        assert module.startswith(HOME_OF[package]), f"{module} imports {package}"


def test_no_import_cycles() -> None:
    graph = {module_name(path): imports_of(path) for path in INSIDE}
    finished: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module in finished:
            return
        for target in graph.get(module, ()):
            visit(target, (*trail, module))
        finished.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_modules_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 700, f"{path} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= 50, f"{path}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.parametrize("path", [path for path in INSIDE if path.name == "__init__.py"], ids=module_name)
def test_rooms_open_with_a_docstring_only(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert len(body) == 1, f"{path} holds more than a docstring"
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)


def test_every_folder_is_a_package() -> None:
    missing = {str(path.parent) for path in FILES if not (path.parent / "__init__.py").exists()}
    assert not missing


def inner_imports(module: str, within: str) -> set[str]:
    """Return the modules of `within` that `module` reaches through imports, itself included."""
    reached: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if name in reached or not name.startswith(within) or not path.exists():
            continue
        reached.add(name)
        todo.extend(imports_of(path))
    return reached


SHARED = {"polymap.costmodel.cost", "polymap.costmodel.symbolic.formulas"}  # data


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("polymap.costmodel.simulator.walk", "polymap.costmodel.closed_form.counts"),
        ("polymap.costmodel.simulator.walk", "polymap.costmodel.sets.counts"),
        ("polymap.costmodel.closed_form.counts", "polymap.costmodel.sets.counts"),
    ],
)
def test_counters_share_no_code(one: str, other: str) -> None:
    common = inner_imports(one, "polymap.costmodel.") & inner_imports(other, "polymap.costmodel.")
    assert common <= SHARED, f"{one} and {other} share {sorted(common - SHARED)}"


def test_the_exhaustive_referee_stands_apart_from_the_search() -> None:
    reached = inner_imports("polymap.search.enumeration.trees", "polymap.search.")
    own = {name for name in reached if name.startswith("polymap.search.enumeration.trees")}
    assert reached - own <= {"polymap.search.objective.measure"}
    # Both engines are compared with it; spaces small enough are walked by it (any_search), and say so.
    for engine in ("engine", "any_engine", "certificate", "second_prover"):
        assert not own & inner_imports(f"polymap.search.{engine}", "polymap.search.")


def test_the_second_prover_stands_apart_from_the_search() -> None:
    reached = inner_imports("polymap.referees.second_prover", "polymap.search.")
    assert all(name.startswith("polymap.referees.second_prover") for name in reached)
    assert not reached & inner_imports("polymap.search.run.stages", "polymap.search.")


def test_the_checker_of_certificates_knows_nothing_of_the_rest() -> None:
    files = sorted(PACKAGE.glob("checker/*.py"))
    for path in files:
        for target in imports_of(path):
            own = target.startswith("polymap.checker.") or target.split(".")[0] in sys.stdlib_module_names
            assert own or target.split(".")[0] == "numpy", f"{path} imports {target}"


def test_code_is_emitted_without_the_cost_model() -> None:
    for path in PACKAGE.glob("codegen/*.py"):
        if not path.stem.startswith("run"):
            assert not [name for name in imports_of(path) if name.startswith("polymap.costmodel")], path


def loaded_after(program: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after `program`."""
    text = f"{program}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


LATE = {"ortools", "sympy", "pandas", "matplotlib", "pycparser"}


def test_import_polymap_loads_no_heavy_package() -> None:
    assert not loaded_after("import polymap") & (LATE | {"islpy", "numpy"})


def test_evaluating_a_layer_loads_no_solver() -> None:
    program = """
import polymap as pm
layer = pm.conv2d(K=4, C=4, H=6, W=6, R=3, S=3, padding=1)
arch = pm.load_arch("flat3")
tree = [{"store": arch.levels[0].name, "tensors": [tensor.name for tensor in layer.tensors]}]
tree += [{"for": dim.name, "tile": 1} for dim in layer.dims if dim.extent > 1]
mapping = pm.mapping_from_document({"nodes": [*tree, {"compute": layer.statements[0].name}]})
assert pm.evaluate(layer, arch, mapping).instances == 4 * 4 * 6 * 6 * 9
"""
    assert not loaded_after(program) & LATE
