"""The house holds: layers, solvers in their rooms, sizes, no cycles, a cheap `import polymap`."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "polymap"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each package holds, from top to bottom (of polymap itself, its modules, too); those of one row do not know each
# other. A module may import the packages that hold it, the rooms inside its own, and the faces of what they lie above.
ROWS = {
    "": (
        ("__main__",),
        ("cli",),
        ("errors", "io", "layouts", "plot", "space", "study"),
        ("report",),
        ("codegen", "importers"),
        ("networks",),
        ("explore", "tile_sizes", "verify"),
        ("search",),
        ("costmodel", "transform"),
        ("schedules",),
        ("resolve",),
        ("workload",),
        ("inputs", "poly"),
        ("resources",),
        ("checker", "formatting", "ir", "lazy", "version"),
    ),
    "report": (("figures",),),
    "search": (
        ("single_level",),
        ("any_size",),
        ("trees",),
        ("dividing", "programs"),
        ("problem",),
    ),
    "codegen": (("programs",), ("native",), ("source",), ("lower",)),
    "costmodel": (("tables",), ("closed_form", "referees")),
    "workload": (("c",),),
    "importers": (("timeloop",),),
}
ROW_OF = {
    f"{package}.{room}".strip("."): row
    for package, rows in ROWS.items()
    for row, rooms in enumerate(rows)
    for room in rooms
}
# Faces for users: they may name what is not their own, and nobody inside needs to use it.
PUBLIC = (
    *("polymap", "polymap.errors", "polymap.io", "polymap.layouts", "polymap.plot"),
    *("polymap.space", "polymap.study", "polymap.transform"),
)
MOST_MODULES = 24  # of a package, `__init__.py` aside

# Who may import what from outside the standard library.
HOME_OF = {
    "islpy": ("polymap.poly.", "polymap.codegen."),
    "ortools": ("polymap.search.", "polymap.networks.layout_choice"),
    "sympy": (
        *(f"polymap.costmodel.closed_form.{module}" for module in ("derivation", "formulas", "progressions")),
        "polymap.poly.formulas",
    ),
    "pycparser": ("polymap.workload.",),
    "numpy": ("polymap.",),
    "pandas": ("polymap.report.",),
    "subprocess": ("polymap.resources.",),
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    gc.freeze()  # trees stay: walking them for garbage took three times as long as parsing them
    return tree


@cache
def statements(path: Path) -> tuple[ast.AST, ...]:
    """Return all statements of a file, those inside of others too; expressions are not looked into."""
    found: list[ast.AST] = [parsed(path)]
    for node in found:
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            found += getattr(node, part, ())
    return tuple(found)


@cache
def names_taken() -> frozenset[tuple[str, str]]:
    """Return (package or module, name) of everything that some module takes from another by name, or of a face that it
    imports as a whole (`figures.machine_svg`)."""
    found: set[tuple[str, str]] = set()
    for path in INSIDE:
        lines = statements(path)
        taken = {
            (str(node.module), alias.name) for node in lines if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        faces = {name: f"{module}.{name}" for module, name in taken if f"{module}.{name}" in PACKAGES}
        found |= taken
        found |= {
            (faces[node.value.id], node.attr)
            for node in (ast.walk(parsed(path)) if faces else ())
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in faces
        }
    return frozenset(found)


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return every module that the file imports, anywhere in it; names of faces count as their modules."""
    return tuple(dict.fromkeys(target for _, target in written_imports(path)))


@cache
def written_imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Return what the file imports as it is written (a package, a module), and the module that is behind it."""
    found: dict[tuple[str, str], None] = {}
    for node in statements(path):
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
    """Return the module of each name that a package imports lazily for others."""
    path = ROOT.joinpath(*package.split("."))
    init = next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each in FILES), None)
    if init is None or not is_face(init):
        return {}
    return {name: str(line.module) for line in lazy_lines(init) for name in names_bound(line)}


def lazy_lines(init: Path) -> list[ast.ImportFrom]:
    """Return the imports of a package under `with lazy(__name__):`, where nothing else stands."""
    blocks = [node for node in parsed(init).body if isinstance(node, ast.With)]
    lines = [line for block in blocks for line in block.body]
    found = [line for line in lines if isinstance(line, ast.ImportFrom)]
    assert found == lines, f"{init} has other lines than imports under `with lazy(__name__)`"
    return found


def names_bound(line: ast.ImportFrom) -> Iterator[str]:
    """Yield the names of an import, each written twice, so that type checkers take it for exported."""
    for alias in line.names:
        assert alias.name == alias.asname, f"{alias.name} of {line.module} is not imported as itself"
        yield alias.name


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def is_face(path: Path) -> bool:
    """Return whether a file imports names lazily for others, and nothing else."""
    if path.name == "__init__.py":
        return True
    # Most files have no such line: they are not parsed.
    has_line = "\nwith " in path.read_text(encoding="utf-8")
    return has_line and any(isinstance(node, ast.With) for node in parsed(path).body)


PACKAGES = tuple(sorted(module_name(path) for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE))
FACES = (*PACKAGES, *(module_name(path) for path in FILES if path.name != "__init__.py" and is_face(path)))
INSIDE = tuple(path for path in FILES if not is_face(path))


def test_every_room_is_known() -> None:
    modules = (path for path in FILES if path.name != "__init__.py")
    rooms = {package_of(module_name(path)) for path in modules} | {name.removeprefix("polymap.") for name in PACKAGES}
    assert rooms == set(ROW_OF), f"without a place in the house, or gone: {sorted(rooms ^ set(ROW_OF))}"


def is_around(package: str, room: str) -> bool:
    return f"{room}.".startswith(f"{package}.")


def lies_above(room: str, other: str) -> bool:
    """Return whether, in the package that holds both, the one's part stands in a row above the other's."""
    one, two = room.split("."), other.split(".")
    depth = next(depth for depth in range(len(one)) if one[depth] != two[depth]) + 1
    return ROW_OF[".".join(one[:depth])] < ROW_OF[".".join(two[:depth])]


def told(faults: Iterable[str]) -> None:
    """Fail with all faults, a line each."""
    found = list(faults)
    assert not found, "\n".join(found)


def wrong_imports(path: Path) -> Iterator[str]:
    """Yield what a module imports from above its room, or past a face."""
    module, room = module_name(path), package_of(module_name(path))
    packages = {name.removeprefix("polymap.") for name in PACKAGES}
    for written, target in written_imports(path):
        if not target.startswith("polymap."):
            # The command line asks for the version; else the module that has a name is the one to import it from.
            if target == "polymap" and room != "cli":
                yield f"{module} imports the public names"
            continue
        other = package_of(target)
        if not (is_around(other, room) or is_around(room, other) or lies_above(room, other)):
            yield f"{module} imports {target} of a room above"
        if not (is_around(other, room) or other not in packages or written in FACES):
            yield f"{module} imports {written}, not the face of {other}"


def test_modules_import_only_from_rooms_below() -> None:
    told(fault for path in INSIDE for fault in wrong_imports(path))


def wrong_faces(package: str) -> Iterator[str]:
    """Yield what is wrong with a package's face and size."""
    folder = ROOT.joinpath(*package.split("."))
    modules = sorted(path.stem for path in folder.glob("*.py") if path.name != "__init__.py")
    if len(modules) > MOST_MODULES:
        yield f"{package} holds {len(modules)} modules"
    names = face_of(package)
    for name, module in names.items():
        if not is_module(module):
            yield f"{package}: {name} comes from {module}, which does not exist"
        elif package not in PUBLIC and module.rpartition(".")[0] != package:
            yield f"{package}: {name} is not its own"
    if package == "polymap":
        return
    inner = set(modules) | {path.parent.name for path in folder.glob("*/__init__.py")}
    if inner & set(names):
        yield f"{package}: {sorted(inner & set(names))} of its face are modules, too"
    init = folder / "__init__.py"  # a folder of compiled modules alone is what a package that is gone leaves
    path = init if init.exists() else folder.with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    if len(ast.parse(text).body) != (3 if names else 1):
        yield f"{path} holds more than its face"
    used = {name for source, name in names_taken() if source == package}
    if package not in PUBLIC and not set(names) <= used:
        yield f"nobody uses {sorted(set(names) - used)} of {package}"


def test_faces_name_what_others_use_and_packages_are_small() -> None:
    told(fault for package in ("polymap", *FACES) for fault in wrong_faces(package))


def strangers(path: Path) -> Iterator[str]:
    """Yield imports of packages that are no dependency, or are not used in this room."""
    module = module_name(path)
    for target in imports_of(path):
        package = target.split(".")[0]
        if package == "polymap" or (package in sys.stdlib_module_names and package not in HOME_OF):
            continue
        if not module.startswith(HOME_OF.get(package, ())):
            yield f"{module} imports {package}"


def test_packages_are_imported_only_in_their_rooms() -> None:
    told(fault for path in FILES for fault in strangers(path))


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


def long_parts(path: Path) -> Iterator[str]:
    """Yield a module, and functions of it, that are too long."""
    count = path.read_text(encoding="utf-8").count("\n")
    if count > 700:
        yield f"{path} has {count} lines"
    for node in statements(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > 50:
                yield f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_modules_and_functions_are_short() -> None:
    told(fault for path in FILES for fault in long_parts(path))


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
        ("polymap.costmodel.referees.walk", "polymap.costmodel.closed_form.counts"),
        ("polymap.costmodel.referees.walk", "polymap.costmodel.referees.set_counts"),
        ("polymap.costmodel.closed_form.counts", "polymap.costmodel.referees.set_counts"),
    ],
)
def test_counters_share_no_code(one: str, other: str) -> None:
    common = inner_imports(one, "polymap.costmodel.") & inner_imports(other, "polymap.costmodel.")
    assert common <= SHARED, f"{one} and {other} share {sorted(common - SHARED)}"


def test_the_enumeration_stands_apart_from_the_search() -> None:
    reached = inner_imports("polymap.costmodel.referees.trees", "polymap.")
    walked = {name for name in reached if name.startswith("polymap.costmodel.referees.")}
    assert walked
    assert not [name for name in reached - walked if name.startswith(("polymap.search.", "polymap.costmodel."))]
    # Both engines are compared with it; small spaces are walked by it (run.provers), and say so.
    for engine in ("dividing.engine", "any_size.geometric_answers", "any_size.sibling_search", "certificate"):
        own = inner_imports(f"polymap.search.{engine}", "polymap.")
        assert own
        assert not walked & own


def test_the_second_prover_stands_apart_from_the_search() -> None:
    for path in (ROOT / "tests" / "second_prover").glob("*.py"):
        own = [name for name in imports_of(path) if name.startswith("polymap")]
        assert all(name.startswith("polymap.ir.") for name in own), f"{path} imports {own}"


def test_the_checker_of_certificates_knows_nothing_of_the_rest() -> None:
    files = sorted(PACKAGE.glob("checker/*.py"))
    for path in files:
        for target in imports_of(path):
            own = (
                target.startswith(("polymap.checker.", "polymap.lazy"))
                or target.split(".")[0] in sys.stdlib_module_names
            )
            assert own or target.split(".")[0] == "numpy", f"{path} imports {target}"


def test_code_is_emitted_without_the_cost_model_and_the_search() -> None:
    above = ("polymap.costmodel", "polymap.search", "polymap.explore", "polymap.transform", "polymap.networks")
    for path in PACKAGE.glob("codegen/**/*.py"):
        if path.parent != PACKAGE / "codegen":  # asks for mappings, runs programs and counts what they should do
            assert not [name for name in imports_of(path) if name.startswith(above)], path


def loaded_after(program: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after `program`."""
    text = f"{program}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


LATE = {"ortools", "sympy", "pandas", "pycparser"}


def test_import_polymap_loads_no_heavy_package() -> None:
    assert not loaded_after("import polymap") & (LATE | {"islpy", "numpy"})


def test_evaluating_a_layer_loads_no_solver_and_no_arrays() -> None:
    program = """
import polymap as pm
layer = pm.conv2d(K=4, C=4, H=6, W=6, R=3, S=3, padding=1)
arch = pm.load_arch("flat3")
tree = [{"store": arch.levels[0].name, "tensors": [tensor.name for tensor in layer.tensors]}]
tree += [{"for": dim.name, "tile": 1} for dim in layer.dims if dim.extent > 1]
mapping = pm.io.mapping_from_document({"nodes": [*tree, {"compute": layer.statements[0].name}]})
assert pm.evaluate(layer, arch, mapping).instances == 4 * 4 * 6 * 6 * 9
"""
    assert not loaded_after(program) & (LATE | {"islpy", "numpy"})


def test_a_search_without_rules_loads_no_solver_and_no_process_pool() -> None:
    program = """
import polymap as pm
for tiles in ("divide", "any"):
    assert pm.explore(pm.matmul(m=4, n=4, k=4), pm.load_arch("flat3"), tiles=tiles).best is not None
"""
    assert not loaded_after(program) & {"ortools", "concurrent.futures.process", "multiprocessing.process"}


def _asserts(path: Path) -> list[tuple[int, ast.Assert]]:
    return [(node.lineno, node) for node in statements(path) if isinstance(node, ast.Assert)]


def _narrows(test: ast.expr) -> bool:
    """Return whether an assertion only tells the type checker what a value is."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(map(_narrows, test.values))
    if isinstance(test, ast.Compare):
        (compared,) = test.comparators[:1]
        return isinstance(test.ops[0], ast.IsNot) and isinstance(compared, ast.Constant) and compared.value is None
    return isinstance(test, ast.Call) and ast.unparse(test.func) in ("isinstance", "is_table")


def without_reason(path: Path) -> Iterator[str]:
    """Yield the assertions of a file that narrow no type and give no reason, in a message or a comment on the line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for line, node in _asserts(path):
        if node.msg is None and not _narrows(node.test) and "  # " not in lines[line - 1]:
            yield f"{path.relative_to(PACKAGE)}:{line}: {ast.unparse(node)}"
    for node in statements(path):
        has_reason = isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
        if isinstance(node, ast.Raise) and not has_reason and ast.unparse(node).startswith("raise AssertionError"):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def test_asserts_say_why_they_hold() -> None:
    """What is no narrowing of a type is an invariant, with its reason."""
    told(fault for path in FILES for fault in without_reason(path))


def test_assertions_that_give_no_reason_would_be_seen() -> None:
    tests = [ast.parse(text, mode="eval").body for text in ("x is not None", "isinstance(x, int) and y is not None")]
    assert all(map(_narrows, tests))
    assert not any(_narrows(ast.parse(text, mode="eval").body) for text in ("x", "x is None", "x > 0", "x and y"))
