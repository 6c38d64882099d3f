"""A PyTorch module as a library of C: its graph of ATen operators (`torch.export`) is captured as a function of tensors, without ONNX."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from ...export import of_function, write_program
from ...ir.dtypes import dtype as dtype_of
from ...ir.errors import UsageError
from ...tensor import Tensor
from .decompositions import decompositions, resizing
from .dtypes import name_of
from .graph import CALLS, ExpectedTensor
from .operators import OPERATORS
from .sizes import KnownSymbols

LEAST_VARIED = 3
"""A size of the recorded call, where its range has it and the inputs' own size cannot be varied."""


def export(
    folder: str | os.PathLike[str], module: torch.nn.Module, inputs: Sequence[Any], *, name: str | None = None,
    symbols: Mapping[str, Mapping[int, Any]] | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    """Write a module's forward pass as a library of C, for tensors like `inputs`; returns the files' names. Parameters and buffers become
    weights. `symbols`: as for `jit`, by the names of `forward`'s arguments; `options`: as for `tilewright.export.write`. Raises UsageError
    for what PyTorch cannot export, operators that we lack (all of them at once), random numbers, and buffers that a call changes."""
    inputs, ranges = with_ranges(module, inputs, symbols or {})
    try:
        with torch.no_grad(), resizing():
            made = torch.export.export(module.eval(), inputs, dynamic_shapes=ranges, strict=False)
            program = made.run_decompositions(decompositions())
    except Exception as e:
        raise UsageError(f"torch.export cannot take {type(module).__name__} apart: {_said(e)}") from e
    function, given, places = captured(program, symbols or {})
    count = len(program.graph_signature.user_outputs)
    outs = [f"y{i}" for i in range(count)] if count > 1 else ["y"]
    title = name or type(module).__name__
    names = (list(given), lambda: outs)
    return write_program(Path(folder), of_function(function, tuple(given.values()), name=title, names=names, symbols=places, **options))


def _said(e: Exception) -> str:
    """The lines of PyTorch's message that say what is wrong."""
    lines = [x.strip() for x in str(e).strip().splitlines() if x.strip()]
    return " ".join(lines[: 2 if lines and lines[0].startswith("Constraints violated") else 1])


def with_ranges(
    module: torch.nn.Module, inputs: Sequence[Any], symbols: Mapping[str, Mapping[int, Any]]
) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """The inputs, with sizes that PyTorch takes for sizes of a call (of 0 and 1 it does not) and the ranges have, and the ranges as
    `torch.export` has them. Raises UsageError."""
    if not symbols:
        return tuple(inputs), None
    names = list(inspect.signature(module.forward).parameters)[: len(inputs)]
    dims: dict[str, Any] = {}
    values: dict[str, int] = {}
    given = dict(zip(names, inputs))
    ranges: dict[str, Any] = dict.fromkeys(names)
    for label, places in symbols.items():
        x = given.get(label)
        if not isinstance(x, torch.Tensor):
            raise UsageError(f"{type(module).__name__} has no tensor {label!r} to give sizes a range in; its inputs are {', '.join(names)}")
        ranges[label] = {}
        for d, size in places.items():
            symbol = size.node
            if symbol.op != "sym" or not 0 <= d < x.ndim:
                raise UsageError(f"{label} has {x.ndim} dimensions, and a range is a size of one of them by itself: {d}: {size!r}")
            n, low, high = symbol.arg.name, symbol.arg.lo, symbol.arg.hi
            ranges[label][d] = dims.setdefault(n, torch.export.Dim(n, min=low, max=high))
            wanted = values.setdefault(n, x.shape[d] if max(low, 2) <= x.shape[d] <= high else min(high, max(low, LEAST_VARIED)))
            if wanted != x.shape[d]:
                x = x.index_select(d, torch.arange(wanted) % max(1, x.shape[d]))
        given[label] = x
    return (*given.values(), *inputs[len(names) :]), ranges


def captured(
    program: ExportedProgram, symbols: Mapping[str, Mapping[int, Any]] | None = None
) -> tuple[Any, dict[str, Tensor], dict[str, dict[int, Any]]]:
    """(a function of our tensors, their values by name, where sizes with a range are, as `jit` has it) of an exported module. Raises
    UsageError."""
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    changed = [s.target for s in signature.output_specs if s.kind not in (OutputKind.USER_OUTPUT,)]
    if changed:
        raise UsageError(f"the module changes {', '.join(map(str, changed))} in a call, which cannot be exported")
    calls = [n for n in nodes if n.op in CALLS and n.target is not operator.getitem and _makes_tensors(n)]
    lacking = sorted({str(n.target) for n in calls if n.target not in OPERATORS})
    if lacking:
        raise UsageError(f"these operators cannot be exported: {', '.join(lacking)}")
    known: dict[str, Any] = {}
    given: dict[str, Tensor] = {}
    places: dict[str, dict[int, Any]] = {}
    sizes = KnownSymbols({})
    placeholders = {n.name: n for n in nodes if n.op == "placeholder"}
    arguments = dict(zip(signature.user_inputs, torch.utils._pytree.tree_leaves(program.example_inputs), strict=True))
    for spec in signature.input_specs:
        label = spec.arg.name
        if spec.kind is not InputKind.USER_INPUT:
            known[label] = ours(
                program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[str(spec.target)]
            )
        elif isinstance(arguments.get(label), torch.Tensor):
            given[label] = ours(arguments[label])
            for d, size in (symbols or {}).get(label, {}).items():
                seen = placeholders[label].meta["val"].shape[d]
                if isinstance(seen, torch.SymInt):  # (another may be found to be equal to it)
                    places.setdefault(label, {})[d] = sizes.vars.setdefault(seen.node.expr, size)

    def run(*tensors: Tensor) -> Any:
        made: dict[Any, Any] = {placeholders[k]: v for k, v in {**known, **dict(zip(given, tensors, strict=True))}.items()}

        def operand(n: Any) -> Any:
            value = n.meta.get("val")
            if n in made or not isinstance(value, (torch.SymInt, torch.SymFloat, int, float)):
                return made[n]
            return sizes.number(value) if isinstance(value, torch.SymFloat) else sizes.size(value)

        for n in nodes:
            if n.op == "output":
                leaves = [operand(x) for x in n.args[0] if x is not None]
                return leaves[0] if len(leaves) == 1 else tuple(leaves)
            if n.op not in CALLS or not _makes_tensors(n):
                continue
            try:
                args, kwargs = torch.fx.node.map_arg((n.args, dict(n.kwargs)), operand)
                if n.target is operator.getitem:
                    made[n] = args[0][args[1]]
                    continue
                value = expected(n.meta["val"], sizes)
                made[n] = checked(OPERATORS[n.target](value, *args, **kwargs), value)
            except NotImplementedError as e:
                raise UsageError(f"{n.target} cannot be exported: {e}") from e
        raise AssertionError("a graph has an output")

    vars(run)["__signature__"] = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in given])
    return run, given, places


def _makes_tensors(n: torch.fx.Node) -> bool:
    """Whether a node is no arithmetic of sizes, and no check of them."""
    return any(isinstance(v, torch.Tensor) for v in torch.utils._pytree.tree_leaves(n.meta.get("val")))


def expected(value: Any, sizes: KnownSymbols) -> Any:
    """What a node makes, without data."""
    if isinstance(value, (tuple, list)):
        return tuple(expected(v, sizes) for v in value)
    return ExpectedTensor(tuple(map(sizes.size, value.shape)), value.dtype) if isinstance(value, torch.Tensor) else value


def checked(made: Any, value: Any) -> Any:
    """What an operator made, in the type that PyTorch gives it. Raises NotImplementedError where the shape is another."""
    if isinstance(value, tuple):
        return tuple(checked(m, v) for m, v in zip(made, value, strict=True))
    if not isinstance(value, ExpectedTensor) or not isinstance(made, Tensor):
        return made
    if tuple(made.shape) != value.shape:
        raise NotImplementedError(f"the result has shape {list(made.shape)}, not {list(value.shape)}")
    return made if made.dtype.name == name_of(value.dtype) else made.astype(name_of(value.dtype))


def ours(x: torch.Tensor) -> Tensor:
    """A tensor of ours with the same numbers."""
    try:
        wanted = dtype_of(name_of(x.dtype)).np
    except NotImplementedError as e:
        raise UsageError(f"a tensor cannot be exported: {e}") from e
    plain = x.detach().cpu().contiguous()
    return Tensor(np.array((plain.view(torch.int16) if x.dtype is torch.bfloat16 else plain).numpy()).view(wanted))
