"""Counts what keeps the house in order: tokens a room, files a folder, file names that two files share, long files, long functions,
many parameters, names that stand for two things, circles of imports.

`python scripts/house.py` prints the figures. `tests/test_layout.py` holds those that have a limit. The limits of rooms are in
`scripts/house.toml`: they are lowered when a room has shrunk, and raised only with a capability, in the commit that adds it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINES, FUNCTION, PARAMETERS = 700, 100, 7
"""Limits of a file (one concept), of a function, and of what a function takes without a dataclass."""
TOKEN = re.compile(
    r"""[ \t\f\r\n]+ | \\\r?\n | \#[^\r\n]* | (?P<token>
    (?i:[rbuf]|br|rb|fr|rf)?(?:\"{3}(?:[^\\"]|\\.|"(?!""))*\"{3}|'{3}(?:[^\\']|\\.|'(?!''))*'{3}|"(?:[^\\"\n]|\\.)*"|'(?:[^\\'\n]|\\.)*')
    | (?:\d[\d_]*)?\.\d[\d_]*(?:[eE][-+]?\d+)?[jJ]? | 0[xX][\da-fA-F_]+ | 0[bB][01_]+ | 0[oO][0-7_]+ | \d[\d_]*\.?(?:[eE][-+]?\d+)?[jJ]? | \w+
    | \*\*=?|//=?|>>=?|<<=?|\.\.\.|->|:=|[-+*/%&|^@=<>!]=|[^\s])""",
    re.X | re.S,
)
"""A token, or layout and comments, which are none. (What `tokenize` counts up to Python 3.11, in a third of its time.)"""
IMPORTED = re.compile(r"^[ \t]*from (tilewright\.[\w.]+) import", re.M)
Graph = dict[str, set[str]]


@dataclass
class House:
    """What was counted. `files`: lines by module; `tokens`: by module; `functions`: (lines, parameters) by module and name; `classes`:
    the modules of each name; `imports`: the modules that a module imports, lazily or for types only too; `relative` (as `imports()` says)
    and `absolute` (name, line): what it says of them; `loads`: those of `relative` that run, and whether when the module is loaded;
    `silent`: modules without a docstring."""

    files: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: Graph = field(default_factory=dict)
    relative: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    absolute: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    loads: dict[str, list[tuple[str, str, bool]]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)

    def rooms(self) -> dict[str, int]:
        """Tokens of each room, which is a top-level folder."""
        rooms: Counter[str] = Counter()
        for name, tokens in self.tokens.items():
            rooms[name.partition(".")[0]] += tokens
        return dict(sorted(rooms.items()))

    def shared_names(self) -> dict[str, list[str]]:
        """The modules of each file name that several files have. (Packages are no files.)"""
        by_name: dict[str, list[str]] = defaultdict(list)
        packages = {name.rpartition(".")[0] for name in self.files}
        for name in self.files.keys() - packages:
            by_name[name.rpartition(".")[2]].append(name)
        return {name: sorted(both) for name, both in sorted(by_name.items()) if len(both) > 1}

    def races(self) -> list[str]:
        """Imports of a file before its package, where loading the package loads the file: a thread that loads the file waits for the package,
        and one that loads the package for the file. (Inside a room nobody waits: whoever is there has loaded the room.)"""
        packages = {name.rpartition(".")[0] for name in self.loads} - {""}

        def above(name: str) -> list[str]:
            parts = name.split(".")
            return [p for i in range(len(parts)) if (p := ".".join(parts[: i + 1])) in packages]

        @cache
        def packages_first(package: str) -> frozenset[str]:
            found = {p for x, base, at_once in self.loads.get(package, ()) if at_once for p in (x, base) if p in packages}
            others = {q for p in found for q in above(p) if not f"{package}.".startswith(f"{q}.")}
            return frozenset(others).union(*map(packages_first, others))

        @cache
        def needs(package: str) -> frozenset[str]:
            found, left = set[str](), [package]
            while left:
                found.add(name := left.pop())
                left += {x if x in self.loads else base for x, base, at_once in self.loads.get(name, ()) if at_once} - found
            return frozenset(found)

        out = []
        for name, imported in self.loads.items():
            loaded = {*above(name)}.union(*map(packages_first, above(name)))
            for inside, base, at_once in sorted(imported, key=lambda x: not x[2]):
                own = at_once and base.partition(".")[0] == name.partition(".")[0]
                out += [f"{name}: {base} before {p}" for p in above(base) if not own and p != base and p not in loaded and base in needs(p)]
                for p in {inside, base} & packages:
                    loaded |= packages_first(p).union(above(p))
        return out


def limits(root: Path = ROOT) -> dict[str, Any]:
    """What `scripts/house.toml` allows."""
    return tomllib.loads((root / "scripts" / "house.toml").read_text())


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the package, by its dotted name below the package."""
    folders = [p.parent for p in root.glob("*/__init__.py") if p.parent.name not in ("tests", "examples")]
    found = {}
    for path in (p for f in folders for p in f.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def count(root: Path = ROOT) -> House:
    """Read every module of the package at `root`."""
    house, known = House(), modules(root)
    for name, path in known.items():
        text = path.read_text()
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        house.files[name] = len(text.splitlines())
        house.tokens[name] = sum(m.lastgroup == "token" for m in TOKEN.finditer(text))
        house.relative[name] = [*imports(nodes, path.relative_to(root).parent.parts)]
        house.imports[name] = {
            inside if inside in known else base for inside, base, _ in house.relative[name] if inside in known or base in known
        } - {name}
        house.loads[name] = [
            (x, base, at_once) for n, at_once in executed(tree) for x, base, _ in imports([n], path.relative_to(root).parent.parts)
        ]
        house.absolute[name] = [*absolute(nodes)]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                a = node.args
                taken = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs) if x.arg not in ("self", "cls")]
                house.functions[f"{name}:{node.lineno} {node.name}"] = ((node.end_lineno or 0) - node.lineno + 1, len(taken))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                house.classes[node.name].append(name)
        if not ast.get_docstring(tree):
            house.silent.append(name)
    return house


def imports(nodes: Iterable[ast.AST], package: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """(what is imported, as if it were a module; what it is imported from; line) of each relative import among the nodes of a module in
    `package`, as dotted names below the package, "" for its root. Imports inside functions and for types only count too. Raises ValueError
    where an import climbs out of the package."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level > len(package) + 1:
                raise ValueError(f"line {node.lineno} of a module of {'.'.join(package) or 'the root'} climbs out of the package")
            above = package[: len(package) - node.level + 1]
            base = ".".join((*above, *((node.module or "").split(".") if node.module else ())))
            yield from ((f"{base}.{alias.name}" if base else alias.name, base, node.lineno) for alias in node.names)


def executed(node: ast.AST, at_once: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """The imports that run (none for types only), and whether they do so when the module is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child, at_once
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (found for x in child.orelse for found in executed(ast.Module([x], []), at_once))
        elif not isinstance(child, ast.expr):
            yield from executed(child, at_once and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def absolute(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(module, line) of each import among the nodes of a module that is not relative."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module, node.lineno


def depths(root: Path = ROOT) -> Counter[int]:
    """How many imports of the package in `tests`, those of scripts that they write too, name a module so many folders deep: 1 is a room,
    2 a file of it."""
    found = (IMPORTED.findall(path.read_text()) for path in (root / "tests").rglob("*.py"))
    return Counter(name.count(".") for names in found for name in names)


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected sets of more than one module (R. Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: list[list[str]] = []

    def visit(v: str) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(graph.get(v, ())):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                out.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(graph):
        if v not in index:
            visit(v)
    return out


def main() -> None:
    """Print the figures, and what is above a limit."""
    house = count()
    found = circles(house.imports)
    print(f"{len(house.files)} files, {sum(house.files.values())} lines; the longest has {max(house.files.values())} lines")
    print(f"{sum(house.tokens.values())} tokens: " + ", ".join(f"{room} {n}" for room, n in house.rooms().items()))
    shared = house.shared_names()
    print(f"{len(shared)} file names are shared: " + ", ".join(f"{name} {len(files)}" for name, files in shared.items()))
    print(f"largest strongly connected set of files: {max(map(len, found), default=1)}")
    print(f"imports of tests, by how deep they reach: {dict(sorted(depths().items()))}")
    for name, size in house.files.items():
        if size > LINES:
            print(f"long file      {name}: {size} lines")
    for name, (size, taken) in house.functions.items():
        if size > FUNCTION:
            print(f"long function  {name}: {size} lines")
        if taken > PARAMETERS:
            print(f"parameters     {name}: {taken}")
    for name, places in house.classes.items():
        if len(places) > 1:
            print(f"class twice    {name}: {', '.join(places)}")
    for circle in found:
        print(f"circle         {', '.join(circle)}")


if __name__ == "__main__":
    main()
