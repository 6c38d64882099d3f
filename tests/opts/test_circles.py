"""No file of the action space needs one that needs it: imports of opts and heuristics form no circle, type-only and lazy ones included."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imports(folder: str) -> dict[str, set[str]]:
    """Module → the modules of its folder that it imports, wherever it does so; names from the package's root."""
    modules = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in (ROOT / folder).rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = path.relative_to(ROOT).parent.parts
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join((*package[: len(package) - node.level + 1], *(node.module or "").split("."))).strip(".")
                found[name] |= {f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names} & set(modules)
    return {name: used - {name} for name, used in found.items()}


def without_circles(graph: dict[str, set[str]]) -> set[str]:
    """The modules left over after taking away, again and again, those that need none that is left: those in circles, and those that need them."""
    left = {name: set(used) for name, used in graph.items()}
    while free := {name for name, used in left.items() if not used & set(left)}:
        left = {name: used for name, used in left.items() if name not in free}
    return set(left)


@pytest.mark.parametrize("folder", ["opts", "heuristics"])
def test_imports_form_no_circle(folder: str) -> None:
    graph = imports(folder)
    assert sum(map(len, graph.values())) > len(graph) and without_circles(graph) == set()


def test_a_circle_is_found() -> None:
    assert without_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}
