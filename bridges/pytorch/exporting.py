"""A PyTorch module as a library of C: its graph of ATen operators (`torch.export`) is captured as a function of tensors, without ONNX."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
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
from .decompositions import decompositions
from .dtypes import name_of
from .graph import CALLS, ExpectedTensor
from .layout import has_symbols
from .operators import OPERATORS


def export(
    folder: str | os.PathLike[str], module: torch.nn.Module, inputs: Sequence[Any], *, name: str | None = None, **options: Any
) -> list[str]:
    """Write a module's forward pass as a library of C, for tensors like `inputs`; returns the files' names. Parameters and buffers become
    weights. `options`: as for `tilewright.export.write`. Raises UsageError for what PyTorch cannot export, operators that we lack (all of
    them at once), random numbers, and buffers that a call changes."""
    try:
        with torch.no_grad():
            program = torch.export.export(module.eval(), tuple(inputs), strict=False).run_decompositions(decompositions())
    except Exception as e:
        raise UsageError(f"torch.export cannot take {type(module).__name__} apart: {str(e).strip().partition(chr(10))[0]}") from e
    function, names, given = captured(program)
    count = len(program.graph_signature.user_outputs)
    outs = [f"y{i}" for i in range(count)] if count > 1 else ["y"]
    title = name or type(module).__name__
    return write_program(Path(folder), of_function(function, given, name=title, names=(names, lambda: outs), **options))


def captured(program: ExportedProgram) -> tuple[Any, list[str], tuple[Tensor, ...]]:
    """(a function of our tensors, their names, their values) of an exported module. Raises UsageError."""
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    changed = [s.target for s in signature.output_specs if s.kind not in (OutputKind.USER_OUTPUT,)]
    if changed:
        raise UsageError(f"the module changes {', '.join(map(str, changed))} in a call, which cannot be exported")
    calls = [n for n in nodes if n.op in CALLS and n.target is not operator.getitem]
    lacking = sorted({str(n.target) for n in calls if n.target not in OPERATORS or has_symbols(n.meta.get("val"))})
    if lacking:
        raise UsageError(f"these operators cannot be exported: {', '.join(lacking)}")
    known: dict[str, Any] = {}
    names: list[str] = []
    values: list[Tensor] = []
    placeholders = {n.name: n for n in nodes if n.op == "placeholder"}
    arguments = dict(zip(signature.user_inputs, torch.utils._pytree.tree_leaves(program.example_inputs), strict=True))
    for spec in signature.input_specs:
        label = spec.arg.name
        if spec.kind is not InputKind.USER_INPUT:
            known[label] = ours(
                program.state_dict[spec.target] if spec.target in program.state_dict else program.constants[str(spec.target)]
            )
        elif isinstance(arguments.get(label), torch.Tensor):
            names.append(label)
            values.append(ours(arguments[label]))

    def run(*tensors: Tensor) -> Any:
        made: dict[Any, Any] = {placeholders[k]: v for k, v in {**known, **dict(zip(names, tensors, strict=True))}.items()}
        for n in nodes:
            if n.op == "output":
                leaves = [made[x] for x in n.args[0] if x is not None]
                return leaves[0] if len(leaves) == 1 else tuple(leaves)
            if n.op not in CALLS:
                continue
            args, kwargs = torch.fx.node.map_arg((n.args, dict(n.kwargs)), made.__getitem__)
            if n.target is operator.getitem:
                made[n] = args[0][args[1]]
                continue
            try:
                value = expected(n.meta["val"])
                made[n] = checked(OPERATORS[n.target](value, *args, **kwargs), value)
            except NotImplementedError as e:
                raise UsageError(f"{n.target} cannot be exported: {e}") from e
        raise AssertionError("a graph has an output")

    return run, names, tuple(values)


def expected(value: Any) -> Any:
    """What a node makes, without data."""
    if isinstance(value, (tuple, list)):
        return tuple(map(expected, value))
    return ExpectedTensor(tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value


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
