"""The house holds: layers, solvers in their rooms, sizes, no cycles, a cheap `import polymap`."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from polymap.faces import names_of_face

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "polymap"
FILES = sorted(PACKAGE.rglob("*.py"))

# Packages (and the modules of polymap itself) from top to bottom; those of one row do not know each other. What a
# package holds may import the rooms of the packages around it, and the face of any package in a row below.
ROWS = (
    ("demo", "__main__"),
    ("cli",),
    ("report.page",),
    ("report.space", "report.programs"),
    ("importers", "layouts"),
    ("compilation", "networks"),
    ("verify", "buffer_sweep", "tile_sizes", "comparison", "cpu", "fusion_gain"),
    ("explore",),
    ("report.text",),
    ("report.figures",),
    ("report",),
    ("sampling",),
    ("codegen.library", "search.parts"),
    ("codegen.execute", "search.run"),
    ("search.one_buffer", "search.product_bounds", "search.program_bounds"),
    ("codegen", "search.sibling_bounds"),
    ("codegen.programs",),
    (
        "codegen.native",
        "codegen.orders",
        "codegen.source",
        "search.heuristics",
        "search.product_tiles",
        "search.programs",
    ),
    ("codegen.faithful", "search.dividing", "search.enumeration"),
    ("codegen.lower", "search.objective"),
    ("codegen.c", "search.problem"),
    ("search.resources",),
    ("costmodel.tables", "costmodel.analysis"),
    ("costmodel",),
    ("costmodel.symbolic", "costmodel.sets", "costmodel.simulator"),
    ("costmodel.closed_form",),
    ("schedules.space", "transform"),
    ("schedules",),
    ("resolve",),
    ("arch", "workload", "workload.programs"),
    ("workload.c",),
    ("workload.preprocessor",),
    ("poly", "inputs", "arithmetic"),
    ("ir", "checker"),
    ("search",),
    ("processes",),
    ("faces", "version"),
)
ROW_OF = {room: row for row, rooms in enumerate(ROWS) for room in rooms}
PUBLIC = ("polymap", "polymap.transform")  # their names are for users: nobody inside needs to use them
MOST_MODULES = 24  # of a package, `__init__.py` aside

# Who may import what from outside the standard library.
HOME_OF = {
    "islpy": ("polymap.poly.", "polymap.codegen."),
    "ortools": ("polymap.search.", "polymap.layouts.assignment"),
    "sympy": ("polymap.costmodel.symbolic.", "polymap.poly."),
    "pycparser": ("polymap.workload.",),
    "numpy": ("polymap.",),
    "pandas": ("polymap.report.",),
    "plotly": ("polymap.report.",),
    "subprocess": ("polymap.processes.",),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """Return the package that holds a module, or the module itself where that is polymap: a room of ROWS."""
    parts = module.split(".")[1:]
    return ".".join(parts[:-1]) if len(parts) > 1 else parts[0]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def names_taken() -> frozenset[tuple[str, str]]:
    """Return (package or module, name) of everything that some module takes from another by name."""
    return frozenset(
        (str(node.module), alias.name)
        for path in INSIDE
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return every module that the file imports, anywhere in it; names of faces count as their modules."""
    return tuple(dict.fromkeys(target for _, target in written_imports(path)))


@cache
def written_imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Return what the file imports as it is written (a package, a module), and the module that is behind it."""
    found: dict[tuple[str, str], None] = {}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys((alias.name, alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                source = str(node.module)
                inner = f"{source}.{alias.name}"
                found[inner if is_module(inner) else source, behind(source, alias.name)] = None
    return tuple(found)


def behind(source: str, name: str) -> str:
    """Return the module that `from source import name` reaches."""
    inner = f"{source}.{name}"
    return inner if is_module(inner) else face_of(source).get(name, source)


@cache
def face_of(package: str) -> dict[str, str]:
    stub = ROOT.joinpath(*package.split("."), "__init__.pyi")
    return names_of_face(stub) if package.startswith("polymap") and stub.exists() else {}


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


PACKAGES = tuple(sorted(module_name(path) for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE))
INSIDE = tuple(path for path in FILES if path.name != "__init__.py")


def test_every_room_is_known() -> None:
    rooms = {package_of(module_name(path)) for path in INSIDE} | {name.removeprefix("polymap.") for name in PACKAGES}
    assert rooms == set(ROW_OF), f"without a place in the house, or gone: {sorted(rooms ^ set(ROW_OF))}"


def is_around(package: str, room: str) -> bool:
    return f"{room}.".startswith(f"{package}.")


@pytest.mark.parametrize("path", INSIDE, ids=module_name)
def test_modules_import_only_from_rooms_below(path: Path) -> None:
    room = package_of(module_name(path))
    for written, target in written_imports(path):
        if not target.startswith("polymap."):
            # The command line asks for the version; else the module that has a name is the one to import it from.
            assert target != "polymap" or room == "cli", f"{path} imports the public names"
            continue
        other = package_of(target)
        below = is_around(other, room) or ROW_OF[other] > ROW_OF[room]
        assert below or is_around(room, other), f"{module_name(path)} imports {target}"
        inside = is_around(other, room) or other not in {name.removeprefix("polymap.") for name in PACKAGES}
        assert inside or written in PACKAGES, f"{module_name(path)} imports {written}, not the face of {other}"


@pytest.mark.parametrize("package", ("polymap", *PACKAGES))
def test_faces_name_what_others_use_and_packages_are_small(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    modules = sorted(path.stem for path in folder.glob("*.py") if path.name != "__init__.py")
    assert len(modules) <= MOST_MODULES, f"{package} holds {len(modules)} modules"
    inner = set(modules) | {path.parent.name for path in folder.glob("*/__init__.py")}
    names = face_of(package)
    assert package == "polymap" or not inner & set(names), "a name of a face that is also a module's is ambiguous"
    for name, module in names.items():
        assert is_module(module), f"{package}: {name} comes from {module}, which does not exist"
        assert package == "polymap" or module.rpartition(".")[0] == package, f"{package}: {name} is not its own"
    if package != "polymap":
        text = folder.joinpath("__init__.py").read_text(encoding="utf-8")
        own = [node for node in ast.parse(text).body if not isinstance(node, ast.Expr)]
        assert len(own) == (2 if names else 0), f"{package}/__init__.py holds more than its face"
    used = {name for source, name in names_taken() if source == package}
    assert package in PUBLIC or set(names) <= used, f"nobody uses {sorted(set(names) - used)} of {package}"


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
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= 50, f"{path}:{node.lineno} {node.name} has {lines} lines"


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


SHARED = {"polymap.costmodel.counts"}  # data


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


def test_the_enumeration_stands_apart_from_the_search() -> None:
    reached = inner_imports("polymap.search.enumeration.trees", "polymap.search.")
    assert all(name.startswith("polymap.search.enumeration.") for name in reached)
    # Both engines are compared with it; small spaces are walked by it (run.stages), and say so.
    for engine in ("dividing.engine", "product_bounds.answers", "run.certificate"):
        assert not reached & inner_imports(f"polymap.search.{engine}", "polymap.search.")


def test_the_second_prover_stands_apart_from_the_search() -> None:
    for path in (ROOT / "tests" / "second_prover").glob("*.py"):
        own = [name for name in imports_of(path) if name.startswith("polymap")]
        assert all(name.startswith("polymap.ir.") for name in own), f"{path} imports {own}"


def test_the_checker_of_certificates_knows_nothing_of_the_rest() -> None:
    files = sorted(PACKAGE.glob("checker/*.py"))
    for path in files:
        for target in imports_of(path):
            own = (
                target.startswith(("polymap.checker.", "polymap.faces"))
                or target.split(".")[0] in sys.stdlib_module_names
            )
            assert own or target.split(".")[0] == "numpy", f"{path} imports {target}"


def test_code_is_emitted_without_the_cost_model() -> None:
    for path in PACKAGE.glob("codegen/**/*.py"):
        if path.parent.name != "execute":
            assert not [name for name in imports_of(path) if name.startswith("polymap.costmodel")], path


def loaded_after(program: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after `program`."""
    text = f"{program}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


LATE = {"ortools", "sympy", "pandas", "plotly", "pycparser"}


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


def test_a_search_without_rules_loads_no_solver_and_no_process_pool() -> None:
    program = """
import polymap as pm
for tiles in ("divide", "any"):
    assert pm.explore(pm.matmul(m=4, n=4, k=4), pm.load_arch("flat3"), tiles=tiles).best is not None
"""
    assert not loaded_after(program) & {"ortools", "concurrent.futures.process", "multiprocessing.process"}
