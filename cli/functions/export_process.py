"""The process that calls a user's function of tensors for `tune export`: `python -m tilewright.cli.functions.export_process JSON`.

Its arguments get values here: normal numbers, 0 and 1 for integers, which are most often places, and what `NAME_inputs()` or a default value
has. The last line of standard output is a JSON object with the key `error`, null where the library was written."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...export import write
from ...ir.errors import TilewrightError, UsageError
from ...named_kernels import split_path
from ...named_kernels.user_process import function_of, namespace_of
from ...tensor import Tensor, Var
from .tracing import makes_module
from .tracing_process import Placeholders, parse_specs


def main(arguments: Sequence[str]) -> int:
    """Write the library; 0, or 2 where something is not as it must be."""
    asked = json.loads(arguments[0])
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the file prints is no answer
    error = None
    try:
        _export(asked)
    except TilewrightError as e:
        error = str(e)
    except Exception as e:
        error = f"{asked['path']} failed: {type(e).__name__}: {e}"
    print(json.dumps({"error": error}), file=answer, flush=True)
    return 2 if error else 0


def _export(asked: dict[str, Any]) -> None:
    path = asked["path"]
    if makes_module(path, asked["shape"]):
        from ...bridges.pytorch import export
        from ...bridges.pytorch.tune_process import load

        file, _, which = path.rpartition(":")
        module, inputs, named = load(file, which)
        if named:
            raise UsageError(f"{path} gives inputs by name: return a tuple of them, in the order of the module's arguments, to export it")
        forward = inspect.signature(getattr(module, "forward", module)).parameters
        text, symbols = with_sizes(asked["shape"] or "", forward)
        for label, spec in parse_specs(text).items():
            shape = getattr(dict(zip(forward, inputs)).get(label), "shape", None)
            fixed = [d for d in range(len(spec.shape)) if d not in symbols.get(label, {})]
            if shape is None or len(shape) != len(spec.shape) or any(spec.shape[d] != shape[d] for d in fixed):
                said = "none" if shape is None else list(shape)
                raise UsageError(f"--shape gives ranges to sizes of {which}'s inputs, and {label} is {said}")
        export(asked["folder"], module, inputs, symbols=symbols, **asked["options"])
        return
    names = namespace_of(path)
    given = function_of(path, names)
    function = inspect.unwrap(given)
    offered = names.get(f"{split_path(path)[1]}_inputs")
    made = offered() if callable(offered) and not asked["shape"] else None
    if made is not None:
        several = made if isinstance(made, tuple) else tuple(made.values()) if isinstance(made, dict) else (made,)
        args: tuple[Any, ...] = tuple(_tensors(a) for a in several)
    else:
        text, symbols = with_sizes(asked["shape"] or "", inspect.signature(function).parameters)
        asked["options"] |= {"symbols": symbols} if symbols else {}
        specs = parse_specs(text) if text else {}
        found = Placeholders(path, asked["dtype"]).arguments(function, offered if callable(offered) else None, specs)
        random = np.random.default_rng(0)
        args = tuple(_valued(a, random) for a in (found.values() if isinstance(found, dict) else found))
    if any(type(a).__module__.startswith("torch") for a in args):
        raise UsageError(f"{path} takes PyTorch's tensors: write a function that returns the module and its inputs, and export that")
    write(asked["folder"], given, *args, **asked["options"])


RECORDED = 37
"""The size of the recorded call, where its range has it."""


def with_sizes(text: str, parameters: Collection[str]) -> tuple[str, dict[str, Any]]:
    """`n=1..4096,x=nx20` as (what `parse_specs` reads: sizes of the recorded call, `jit`'s symbols). Raises UsageError."""
    parts = [tuple(t.strip() for t in p.partition("=")) for p in text.split(",")]
    ranges = {name: found for name, _, size in parts if (found := re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", size))}
    sizes = {name: Var(name, int(r[1]), int(r[2])) for name, r in ranges.items()}
    values = {name: str(min(int(r[2]), max(int(r[1]), RECORDED))) for name, r in ranges.items()}
    plain, symbols, used = [], dict[str, Any](), set[str]()
    for name, equals, size in parts:
        if name in sizes and name not in parameters:
            continue
        extents = [e.strip() for e in size.split("x")] if name not in sizes else [name]
        places = {i: sizes[e] for i, e in enumerate(extents) if e in sizes}
        used |= {extents[i] for i in places}
        if places:
            symbols[name] = places[0] if name in sizes else places
        plain.append(f"{name}{equals}{'x'.join(values.get(e, e) for e in extents)}")
    if sizes.keys() - used:
        raise UsageError(f"no array has the size {min(sizes.keys() - used)}: write --shape n=1..64,x=nx128 (a size's name has no letter x)")
    return ",".join(plain), symbols


def _tensors(tree: Any) -> Any:
    """What `NAME_inputs()` returned, with arrays as tensors."""
    if isinstance(tree, dict):
        return {k: _tensors(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_tensors(v) for v in tree)
    return Tensor(tree) if isinstance(tree, np.ndarray) else tree


def _valued(tree: Any, random: np.random.Generator) -> Any:
    """A tree with values for its tensors without."""
    if isinstance(tree, dict):
        return {k: _valued(v, random) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_valued(v, random) for v in tree)
    if not isinstance(tree, Tensor):
        return tree
    if tree.dtype.is_float:
        return Tensor(random.standard_normal(tree.shape).astype(np.float32).astype(tree.dtype.np))
    return Tensor(random.integers(0, 2, tree.shape).astype(tree.dtype.np))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
