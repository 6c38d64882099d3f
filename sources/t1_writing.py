"""A spec as a T1 file, so that other tools can tune the same space."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..ir.errors import UsageError
from .spec import SourceSpec
from .t1 import ROLES, TYPES


def write(spec: SourceSpec) -> str:
    """The spec as a T1 file's text, for a folder that holds the source. Sizes become numbers; parameters of flags, and how random
    numbers are distributed, have no place in the format. Raises UsageError for a flag parameter."""
    flag = next((p.name for p in spec.parameters if p.flag), None)
    if flag is not None:
        raise UsageError(f"T1 has no parameters of compiler flags, and {flag} is one: leave it out, or write a #define for it")
    kinds = {"opencl": "OpenCL", "cuda": "CUDA", "c": "C", "c++": "C++"}
    kernel: dict[str, Any] = {
        "Language": kinds[spec.language], "KernelName": spec.function, "KernelFile": Path(spec.file).name,
        "CompilerOptions": list(spec.flags),
    }  # fmt: skip
    if spec.launch.block:
        kernel |= {
            "GlobalSizeType": "CUDA",
            "LocalSize": dict(zip("XYZ", (_fixed(e.text, spec) for e in spec.launch.block))),
            "GlobalSize": dict(zip("XYZ", (_fixed(e.text, spec) for e in spec.launch.grid))),
        }
    kernel["Arguments"] = [_written(a, spec) for a in spec.arguments]
    parameters = [{"Name": p.name, "Type": _kind(p.values), "Values": repr(list(p.values)), "Default": p.default} for p in spec.parameters]
    conditions = [
        {"Expression": _fixed(r.text, spec), "Parameters": [n for n in r.names if n not in spec.sizes]} for r in spec.restrictions
    ]
    data = {
        "General": {"BenchmarkName": spec.function, "OutputFormat": "JSON"},
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": kernel,
    }
    return json.dumps(data, indent=1) + "\n"


def _kind(values: Sequence[Any]) -> str:
    kinds = {type(v) for v in values}
    return "bool" if kinds == {bool} else "int" if kinds == {int} else "float" if kinds <= {int, float} else "string"


def _fixed(text: str, spec: SourceSpec) -> str:
    """An expression with sizes as numbers."""
    tree = ast.parse(text.replace("&&", " and ").replace("||", " or "), mode="eval")
    for node in ast.walk(tree):
        for name, old in ast.iter_fields(node):
            if isinstance(old, list):
                setattr(node, name, [_number(x, spec) for x in old])
            else:
                setattr(node, name, _number(old, spec))
    return ast.unparse(tree)


def _number(node: Any, spec: SourceSpec) -> Any:
    return ast.Constant(spec.sizes[node.id]) if isinstance(node, ast.Name) and node.id in spec.sizes else node


def _written(a: Any, spec: SourceSpec) -> dict[str, Any]:
    kind = {v: k for k, v in TYPES.items()}.get(a.dtype.name, a.dtype.name)
    if a.scalar:
        return {"Name": a.name, "Type": kind, "MemoryType": "Scalar", "FillValue": a.value(spec.values(spec.untuned))}
    fill = "BinaryRaw" if a.how == "raw" else "Random" if a.how in ("normal", "uniform", "integers") else "Constant"
    out = {
        "Name": a.name, "Type": kind, "MemoryType": "Vector", "AccessType": {v: k for k, v in ROLES.items()}[a.role],
        "FillType": fill, "Size": math.prod(a.extents(spec.sizes)),
    }  # fmt: skip
    value = {"Random": a.high, "Constant": {"ones": 1.0}.get(a.how, a.fill)}.get(fill)
    return out | ({"DataSource": Path(a.path).name} if fill == "BinaryRaw" else {"FillValue": value})
