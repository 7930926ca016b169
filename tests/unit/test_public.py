"""The public names: each exists, is typed as it is loaded, and is listed."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import polymap as pm
from polymap.lazy import lazy

INIT = Path(inspect.getfile(pm))
INTERFACE = [
    "conv2d",
    "einsum",
    "matmul",
    "from_c",
    "load_arch",
    "explore",
    "evaluate",
    "simulate",
    "violations",
    "evaluate_many",
    "candidates",
    "generate_c",
    "run_c",
]


@pytest.mark.parametrize("name", dir(pm))
def test_every_listed_name_can_be_loaded(name: str) -> None:
    assert getattr(pm, name) is not None


@pytest.mark.parametrize("name", INTERFACE)
def test_the_interface_is_there(name: str) -> None:
    assert callable(getattr(pm, name))
    assert name in dir(pm)


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    """Names that are imported as themselves are public: type checkers say so of typed packages."""
    seen = {
        alias.asname: (node.module, alias.name)
        for node in ast.walk(ast.parse(INIT.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert dir(pm) == sorted(seen) == pm.__all__  # type: ignore[attr-defined]
    for name, (module, original) in seen.items():
        assert getattr(pm, str(name)) is getattr(import_module(str(module)), original)


NAMESPACES = {
    "plot": "mapping traffic roofline machine residency array steps front convergence fate cloud rarity smoothness "
    "coordinates orders tiles winners capacity sensitivity layers machines binding domain schedule dependences compare "
    "fusion proof",
    "study": "compare sweep merge_stores buffer_curve capacity tiles winners sensitivity crossover fusion",
    "space": "sample score neighbours features distance structures size",
    "io": "from_torch from_onnx from_linalg from_timeloop to_timeloop from_accelergy from_zigzag from_accelforge "
    "from_openscop to_openscop openscop_to_c workload_from_openscop affine_to_c workload_from_affine "
    "arch_from_document",
    "layouts": "burst_counts choose_layouts cache_misses",
    "errors": "PolymapError InputError WorkloadError ArchError MappingError OptionError BudgetError",
    "transform": "split interchange tile skew shift reverse fuse distribute unroll unroll_and_jam vectorize inline",
}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_namespace_holds_its_names(namespace: str) -> None:
    module = getattr(pm, namespace)
    assert set(NAMESPACES[namespace].split()) <= set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None, name


def test_the_top_level_is_small_and_each_name_has_one_home() -> None:
    names = set(pm.__all__) - set(NAMESPACES) - {"__version__"}  # type: ignore[attr-defined]
    assert len(names) <= 58
    for namespace in NAMESPACES:
        module = getattr(pm, namespace)
        for name in set(module.__all__) & names:
            both = getattr(module, name), getattr(pm, name)
            assert both[0] is both[1] or namespace in ("plot", "transform"), name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'polymap' has no attribute 'evalute'$"):
        pm.evalute  # type: ignore[attr-defined]  # noqa: B018


def test_names_of_namespaces_are_told_where_they_are_missed() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'OptionError'; it is polymap\.errors\.OptionError"):
        pm.OptionError  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"it is polymap\.io\.arch_from_document"):
        pm.arch_from_document  # type: ignore[attr-defined]  # noqa: B018


def test_explore_is_the_function_whatever_is_imported_first() -> None:
    program = "import polymap.explore, polymap, polymap.search; print(callable(polymap.explore))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_version_is_the_installed_one() -> None:
    assert version("polymap") == pm.__version__


def test_stars_and_reloads_keep_the_names() -> None:
    program = (
        "from importlib import reload; from polymap import *; import polymap; reload(polymap); import inspect\n"
        "assert callable(explore) and polymap.explore is explore and conv2d(K=4, C=4, H=6, W=6, R=3, S=3)\n"
        "assert {name for name, _ in inspect.getmembers(polymap)} == set(polymap.__all__)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def in_package(tmp_path: Path, lines: str) -> ModuleType:
    """Return a package whose `__init__.py` has the lines under `with lazy(__name__)`."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").write_text(f"from polymap.lazy import lazy\n\nwith lazy(__name__):\n{lines}")
    (tmp_path / "late" / "one.py").write_text("print('loaded')\nfirst = 1\nlast = 2\n")
    return import_module("late")


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("late", "late.one"):
        sys.modules.pop(name, None)


def test_lazy_imports_load_nothing_until_a_name_is_used(late: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = in_package(late, "    from late import one\n    from late.one import first, last\n")
    assert dir(package) == ["first", "last", "one"]
    assert "first" not in vars(package)
    assert capsys.readouterr().out == ""
    assert (package.first, package.last, package.one.first) == (1, 2, 1)
    assert capsys.readouterr().out == "loaded\n"
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'frist'"):
        package.frist  # noqa: B018


def test_lazy_imports_are_ordinary_elsewhere(late: Path) -> None:
    before = builtins.__import__
    with pytest.raises(ZeroDivisionError, match="by zero"):
        in_package(late, "    __import__('json').dumps\n    __import__('late.one')\n    1 / 0\n")
    assert builtins.__import__ is before
    assert "late.one" in sys.modules


def test_lazy_imports_hold_up_no_other_thread(late: Path) -> None:
    """While one thread is in a block, another one imports as ever, and a block of its own waits."""
    sys.modules["late"] = ModuleType("late")
    inside, others = threading.Event(), []

    def imports() -> None:
        inside.wait()
        sys.modules.pop("colorsys", None)
        others.append(import_module("colorsys").rgb_to_hsv)

    thread = threading.Thread(target=imports)
    thread.start()
    with lazy("late"):
        inside.set()
        thread.join()
    assert len(others) == 1
