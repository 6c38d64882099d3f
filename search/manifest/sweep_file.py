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

Everything else is as in a manifest (`search.manifest.manifest_file`), `shapes` in place of `shape` too. A kernel is tuned for every
model that has all the values that its shape names, or for those that its `models` lists. Each shape is tuned once, however many
models need it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir.errors import UsageError
from .. import expressions
from ..expressions import Expression
from . import manifest_file as manifests
from .manifest_file import Lines, Manifest, near
from .sweep_journal import identity

MAX_TEXT = 200
MOST = 1 << 48
"""No extent is larger."""


def formula(text: str) -> Expression:
    """An extent as a formula over a model's values: `4*hidden`, `(tokens+127)//128*128`. Raises UsageError for what is none."""
    if len(text) > MAX_TEXT:
        raise UsageError(f"the formula {text[:MAX_TEXT]!r} is longer than {MAX_TEXT} characters")
    return expressions.parse(text, what="the formula")


def extent(of: Expression, values: Mapping[str, int]) -> int:
    """What a formula is with these values. Raises UsageError, also for a division by zero and a result that is no extent."""
    missing = [n for n in of.names if n not in values]
    if missing:
        raise UsageError(f"the formula {of.text!r} needs {missing[0]}, which has no value")
    found = of.whole(values, "the formula", 1)
    if found > MOST:
        raise UsageError(f"the formula {of.text!r} is larger than any extent")
    return found


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
    formulas = {n: formula(f) for n, f in table.items()}
    wanted = sorted({n for f in formulas.values() for n in f.names})
    if not wanted:
        return [("", {n: extent(f, {}) for n, f in formulas.items()})]
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
            out.append((model, {n: extent(f, values) for n, f in formulas.items()}))
    if not out:
        raise UsageError(f"no model has all of {', '.join(wanted)}")
    return out


def _count(model: Mapping[str, list[int]], wanted: Sequence[str]) -> int:
    found = 1
    for n in wanted:
        found *= len(model[n])
    return found
