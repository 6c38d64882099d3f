"""A sweep file: a manifest whose shapes are formulas over the values of models.

    [targets.server]
    device = "cpu"
    target = "znver5"
    threads = 16

    [defaults]
    dtypes = ["float32", "bfloat16"]
    budget = "30s"

    [models.small]
    hidden = 768
    tokens = [1, 128, 1024]        # every one of them

    [models.large]
    hidden = 4096
    tokens = [1, 1024]

    [[kernel]]
    name = "matmul"
    shape = { m = "tokens", n = "4*hidden", k = "hidden" }

Everything else is as in a manifest (`search.manifest.manifest`), `shapes` in place of `shape` too. A kernel is tuned for every
model that has all the values that its shape names, or for those that its `models` lists. Each shape is tuned once, however many
models need it."""

from __future__ import annotations

import ast
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir.errors import UsageError
from . import manifest as manifests
from .manifest import Lines, Manifest, near
from .sweep_journal import identity

# formula ----------------------------------------------------------------------------------------------------
# Extents as formulas over a model's values: `4*hidden`, `heads*head_dim`, `(tokens+127)//128*128`. Read strictly;
# nothing is evaluated but whole numbers, names, `+ - * // %`, `min`, `max` and brackets.


MAX_TEXT = 200
MOST = 1 << 48
"""No extent, and nothing on the way to one, is larger."""
_OPS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max}
SAYS = "a formula has whole numbers, names of values, + - * // %, min(), max() and brackets"


def names(text: str) -> frozenset[str]:
    """The values that a formula needs. Raises UsageError for what is no formula."""
    tree = _parsed(text)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


def value(text: str, values: Mapping[str, int]) -> int:
    """What a formula is with these values. Raises UsageError, also for a division by zero and a result that is no extent."""
    found = _value(_parsed(text).body, values, text)
    if not 1 <= found <= MOST:
        raise UsageError(f"{text!r} is {found}, and an extent is at least 1")
    return found


def _parsed(text: str) -> ast.Expression:
    try:
        if len(text) > MAX_TEXT:
            raise ValueError
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text[:MAX_TEXT]!r} is no formula: {SAYS}") from None
    for n in ast.walk(tree):
        if isinstance(n, ast.Call):
            sound = isinstance(n.func, ast.Name) and n.func.id in _CALLS and n.args and not n.keywords
        elif isinstance(n, ast.Constant):
            sound = type(n.value) is int
        else:
            sound = isinstance(n, ast.Expression | ast.BinOp | ast.Name | ast.Load | ast.operator) and (
                not isinstance(n, ast.BinOp) or type(n.op) in _OPS
            )
        if not sound:
            raise UsageError(f"{text!r} is no formula: {SAYS}")
    return tree


def _value(node: ast.AST, values: Mapping[str, int], text: str) -> int:
    if isinstance(node, ast.Constant):
        found = node.value
        assert isinstance(found, int)
    elif isinstance(node, ast.Name):
        if node.id not in values:
            raise UsageError(f"{text!r} needs {node.id}, which has no value")
        found = values[node.id]
    elif isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        found = _CALLS[node.func.id](_value(a, values, text) for a in node.args)
    else:
        assert isinstance(node, ast.BinOp)
        try:
            found = _OPS[type(node.op)](_value(node.left, values, text), _value(node.right, values, text))
        except ZeroDivisionError:
            raise UsageError(f"{text!r} divides by zero") from None
    if abs(found) > MOST:
        raise UsageError(f"{text!r} is larger than any extent")
    return found


# sweep file -------------------------------------------------------------------------------------------------
MAX_VALUES = 1000
Shape = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """`models`: which models need an entry, by its `identity`, in the order of the file; none for shapes that stand there by themselves."""

    manifest: Manifest
    models: Mapping[str, tuple[str, ...]]

    def only(self, targets: Sequence[str] | None, models: Sequence[str] | None, known: Iterable[str]) -> Sweep:
        """The part for some targets and models; `known`: the models of the file. Raises UsageError for a name that is not there."""
        whole = self.manifest.only(targets)
        for name in models or ():
            if name not in (there := list(known)):
                raise UsageError(f"{whole.path} has no model {name!r}{near(name, there)}; it has {', '.join(there) or 'none'}")
        kept = tuple(e for e in whole.entries if not models or set(models) & set(self.models[identity(e)]))
        return Sweep(replace(whole, entries=kept), self.models)


def load(
    path: str | os.PathLike[str],
    files: manifests.Files = "inside",
    targets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
) -> Sweep:
    """Read a sweep file, or the part of it for some targets and models. Raises UsageError naming file, line and table."""
    shown, text, data = manifests.toml(path)
    lines = Lines(text)
    known = _models(shown, lines, data.pop("models", {}))
    needs: dict[tuple[int, Shape], list[str]] = {}
    kernels = data.get("kernel", [])
    if isinstance(kernels, list) and all(isinstance(k, dict) for k in kernels):
        for i, k in enumerate(kernels):
            _expand(i, k, known, needs, lambda key, i=i: f"{shown}, line {lines.of('kernel', i, key)}, [[kernel]] {i + 1}")
    found = manifests.read(shown, text, data, files)
    at = {lines.of("kernel", i): i for i in range(len(kernels))}
    asked = {identity(e): tuple(needs.get((at[e.line], tuple(sorted(e.shape.items()))), ())) for e in found.entries}
    return Sweep(found, asked).only(targets, models, known)


def _models(shown: str, lines: Lines, tables: Any) -> dict[str, dict[str, list[int]]]:
    """The values of each model, as lists."""
    if not isinstance(tables, dict):
        raise UsageError(f"{shown}, line {lines.of('models')}: write each model as a table, [models.NAME]")
    out: dict[str, dict[str, list[int]]] = {}
    for name, table in tables.items():
        where = f"{shown}, line {lines.of(f'models.{name}')}, [models.{name}]"
        if not isinstance(table, dict) or not table:
            raise UsageError(f"{where}: a model has values, such as hidden = 768")
        out[name] = {}
        for key, given in table.items():
            listed = given if isinstance(given, list) else [given]
            if not key.isidentifier():
                raise UsageError(f"{where}: {key!r} cannot be named in a formula: use letters, digits and _")
            if not listed or len(listed) > MAX_VALUES or not all(type(v) is int and 0 <= v <= MOST for v in listed):
                raise UsageError(f"{where}: {key} must be a whole number or a list of them, not {given!r}")
            out[name][key] = list(dict.fromkeys(listed))
    return out


def _expand(
    i: int, k: dict[str, Any], known: Mapping[str, Mapping[str, list[int]]], needs: dict[tuple[int, Shape], list[str]], where: Any
) -> None:
    """Write the shapes of one [[kernel]] as a manifest has them."""
    listed = k.pop("models", None)
    if "shape" not in k:
        if listed is not None:
            raise UsageError(f"{where('models')}: models are for a `shape` of formulas")
        return
    if "shapes" in k:
        raise UsageError(f"{where('shape')}: give `shape` (formulas) or `shapes`, not both")
    given = k.pop("shape")
    tables = given if isinstance(given, list) else [given]
    if not tables or not all(isinstance(t, dict) and t and all(isinstance(v, str) or type(v) is int for v in t.values()) for t in tables):
        raise UsageError(f'{where("shape")}: write shape = {{ m = "tokens", n = "4*hidden" }}, or a list of such')
    if listed is not None and (not isinstance(listed, list) or not listed or not all(isinstance(m, str) for m in listed)):
        raise UsageError(f"{where('models')}: models must be a list of names")
    for m in listed or ():
        if m not in known:
            raise UsageError(f"{where('models')}: unknown model {m!r}{near(m, list(known))}; the file has {', '.join(known) or 'none'}")
    shapes: dict[Shape, dict[str, int]] = {}
    for table in tables:
        try:
            for model, shape in _shapes({n: str(f) for n, f in table.items()}, known, listed):
                key = tuple(sorted(shape.items()))
                shapes.setdefault(key, shape)
                if model and model not in needs.setdefault((i, key), []):
                    needs[i, key].append(model)
        except UsageError as e:
            raise UsageError(f"{where('shape')}: {e}") from None
    k["shapes"] = list(shapes.values())


def _shapes(
    table: Mapping[str, str], known: Mapping[str, Mapping[str, list[int]]], listed: Sequence[str] | None
) -> list[tuple[str, dict[str, int]]]:
    """(model, shape) for every model that a table of formulas is for, and every combination of its values."""
    wanted = sorted(frozenset().union(*(names(f) for f in table.values())))
    if not wanted:
        return [("", {n: value(f, {}) for n, f in table.items()})]
    every = {n for values in known.values() for n in values}
    for n in wanted:
        if n not in every:
            raise UsageError(f"no model has a value {n!r}{near(n, sorted(every))}")
    out: list[tuple[str, dict[str, int]]] = []
    for model in listed or known:
        lacking = [n for n in wanted if n not in known[model]]
        if lacking and listed:
            raise UsageError(f"the model {model} has no {', '.join(lacking)}")
        if lacking:
            continue
        if (count := _count(known[model], wanted)) > manifests.MAX_ENTRIES:
            raise UsageError(f"the model {model} asks for {count} shapes, and a sweep has at most {manifests.MAX_ENTRIES} entries")
        for some in itertools.product(*(known[model][n] for n in wanted)):
            values = dict(zip(wanted, some, strict=True))
            out.append((model, {n: value(f, values) for n, f in table.items()}))
    if not out:
        raise UsageError(f"no model has all of {', '.join(wanted)}")
    return out


def _count(model: Mapping[str, list[int]], wanted: Sequence[str]) -> int:
    found = 1
    for n in wanted:
        found *= len(model[n])
    return found
