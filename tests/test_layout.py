"""The shape of the repository: which folder may import which, and that nothing is left out of the package."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = script("house")


@functools.cache
def counted() -> Any:
    """The whole package, read once."""
    return house.count()


_ORDER = ("files", "ir", "targets", "opts", "program", "interp", "lower", "heuristics", "renderers", "devices", "cache", "plan")
_ALL = (*_ORDER, "named_kernels", "measure", "search", "cli")
MAY_IMPORT: dict[str, frozenset[str]] = {
    "files": frozenset(),
    "log": frozenset({"files"}),
    "ir": frozenset(),
    "targets": frozenset({"files", "ir"}),
    "named_kernels": frozenset({"files", "ir"}),
    "opts": frozenset({"ir", "targets"}),
    "program": frozenset({"ir", "targets"}),
    "interp": frozenset({"ir", "targets", "program"}),
    "lower": frozenset({"ir", "targets", "opts", "program"}),
    "heuristics": frozenset({"ir", "targets", "opts", "program", "lower"}),
    "renderers": frozenset({"ir", "targets", "program"}),
    "devices": frozenset({"files", "ir", "targets", "program", "renderers"}),
    "cache": frozenset({"files", "ir", "targets", "opts"}),
    "plan": frozenset({*_ORDER, "named_kernels"} - {"plan"}),
    "measure": frozenset({*_ORDER, "named_kernels"} - {"cache"}),
    "search": frozenset({*_ORDER, "named_kernels", "measure"}),
    "sources": frozenset({"files", "ir", "targets", "opts", "program", "renderers", "devices", "cache", "plan", "measure", "search"}),
    "tensor": frozenset({"ir", "targets", "opts", "devices", "plan", "cache", "search"}),
    "tile": frozenset({"ir", "tensor"}),
    "xp": frozenset({"ir", "tensor"}),
    "weights": frozenset({"files", "ir", "targets", "tensor", "xp"}),
    "export": frozenset({"ir", "targets", "opts", "program", "lower", "heuristics", "renderers", "devices", "plan", "measure", "tensor"}),
    "bridges": frozenset({"ir", "devices", "tensor", "xp", "export"}),
    "fleet": frozenset({*_ORDER, "named_kernels", "measure", "search"}),
    "placement": frozenset({*_ORDER, "named_kernels", "measure", "search", "tensor"}),
    "testing": frozenset({*_ALL} - {"cli", "files", "interp"}),
    "cli": frozenset({*_ALL, "bridges", "export", "sources", "tensor", "tile", "xp", "weights", "fleet", "placement"}) - {"cli"},
}


def package_folders() -> set[str]:
    return {p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name not in ("tests", "examples")}


def test_every_folder_has_a_row_in_the_table() -> None:
    assert package_folders() == set(MAY_IMPORT)


@pytest.mark.many
@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_imports_point_one_way(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder, "log", "__version__"}
    wrong = [
        f"{module}:{line} imports {inside}"
        for module, found in counted().relative.items()
        if module.split(".")[0] == folder
        for inside, _, line in found
        if inside.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_no_absolute_import_of_own_folders() -> None:
    """Run from the repository's root, `from cache import x` or `import tilewright` inside would load a second copy."""
    forbidden = package_folders() | {"tilewright"}
    root = [("__init__", name, line) for name, line in house.absolute(ast.walk(ast.parse((ROOT / "__init__.py").read_text())))]
    every = [*root, *((module, name, line) for module, found in counted().absolute.items() for name, line in found)]
    wrong = [f"{module}:{line} imports {name}" for module, name, line in every if name.split(".")[0] in forbidden]
    assert len(every) > 1000 and not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_files_and_functions_stay_short() -> None:
    """One concept a file, 100 lines or 700. `python scripts/house.py` prints all that is counted."""
    found = counted()
    assert len(found.files) > 300 and len(found.functions) > 2000
    assert not {name: lines for name, lines in found.files.items() if lines > house.LINES}
    assert not {name: lines for name, (lines, _) in found.functions.items() if lines > house.FUNCTION}


@pytest.mark.slow
def test_rooms_do_not_grow_unnoticed() -> None:
    """The limits are in `scripts/house.toml`. A capability may raise one, in the commit that adds it; `python scripts/house.py` says where
    the tokens are."""
    found, limits = counted(), house.limits()
    rooms = found.rooms()
    assert rooms.keys() == limits["tokens"].keys() and sum(rooms.values()) > 100_000
    assert not {room: tokens for room, tokens in rooms.items() if tokens > limits["tokens"][room]}
    assert len(found.files) <= limits["files"]
    shared = found.shared_names()
    assert len(shared) <= limits["shared_names"], shared


@pytest.mark.slow
def test_tests_import_rooms() -> None:
    """Tests that reach into a folder of a room break when its files move."""
    depths = house.depths()
    assert sum(depths.values()) > 100
    assert sum(n for depth, n in depths.items() if depth > 2) <= house.limits()["deep_test_imports"]


@pytest.mark.slow
def test_imports_form_no_circle() -> None:
    """Not for types only, nor inside a function: whoever reads a file can read what it needs first."""
    graph = counted().imports
    assert sum(map(len, graph.values())) > len(graph) and house.circles(graph) == []


@pytest.mark.slow
def test_packages_are_loaded_before_their_files() -> None:
    """Of threads that load both at once, one would find modules half made."""
    alone = ("bridges", "cli", "doors", "fleet", "placement", "testing")  # commands, and what loads frameworks first
    house_found = counted()
    assert sum(map(len, house_found.loads.values())) > 1000
    assert not [x for x in house_found.races() if x.split(".")[0] not in alone]


def test_an_import_is_resolved() -> None:
    text = "from .. import cache\nfrom ..ir.node import walk\ndef f():\n    from . import x\nimport os\nfrom os import path"
    found = [(inside, base, line) for inside, base, line in house.imports(ast.walk(ast.parse(text)), ("plan",))]
    assert found == [("cache", "", 1), ("ir.node.walk", "ir.node", 2), ("plan.x", "plan", 4)]
    with pytest.raises(ValueError, match="line 1 of a module of plan climbs out"):
        [*house.imports(ast.walk(ast.parse("from ...ir import node")), ("plan",))]


def test_a_file_before_its_package_is_found() -> None:
    found = house.House(
        loads={"a": [("a.x", "a.x", True)], "a.x": [], "a.y": [], "b": [], "b.z": [("a.x", "a.x", False), ("a.y", "a.y", False)]}
    )
    assert found.races() == ["b.z: a.x before a"]
    found.loads["b"] = [("a", "", True)]
    assert found.races() == []
    tree = house.ast.parse("if TYPE_CHECKING:\n    from . import x\nelse:\n    from . import y\ndef f():\n    from . import z")
    assert [(node.names[0].name, at_once) for node, at_once in house.executed(tree)] == [("y", True), ("z", False)]


def test_a_circle_is_found() -> None:
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c"]]


@pytest.mark.slow
def test_a_class_name_stands_for_one_thing() -> None:
    assert not {name: places for name, places in counted().classes.items() if len(places) > 1}


def test_pyproject_lists_every_package() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"tilewright", "tilewright.examples", *(f"tilewright.{p.parent.name}" for p in (ROOT / "doors").glob("*/__init__.py"))}
    for folder in MAY_IMPORT:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join(("tilewright", *init.parent.relative_to(ROOT).parts)))
    assert listed == found


@pytest.mark.slow
def test_every_module_says_what_it_is() -> None:
    assert counted().silent == []


def test_no_folder_hides_a_library() -> None:
    """A program that runs in a checkout finds our folders first: `transformers` asks whether there is a package `kernels`."""
    libraries = {
        "jax",
        "kernels",
        "mlx",
        "numba",
        "numpy",
        "onnx",
        "onnxruntime",
        "pandas",
        "scipy",
        "sklearn",
        "tokenizers",
        "torch",
        "transformers",
        "triton",
    }
    named = {path.stem for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert not named & (libraries | sys.stdlib_module_names)
