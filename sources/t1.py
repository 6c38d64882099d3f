"""T1: the file in which auto-tuning tools describe a kernel and its space (Kernel Tuner, KTT, BAT), read and written.

It becomes the tables that a TOML file holds, and then a spec as any other. Values and expressions in it are Python texts, which are parsed
and never run. What a file says beside what is understood here is named (`SourceSpec.notes`), and where it would change the result it is an
error."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files.write_file import read as read_text
from ..ir.errors import UsageError
from .parameters import listed
from .reading import spec_of
from .source_spec import SourceSpec

_LANGUAGES = {"opencl": "opencl", "cuda": "cuda", "c": "c", "c++": "c++", "cpp": "c++"}
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
ROLES = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}
_UNUSED = {
    "": ("Search", "General"),
    "KernelSpecification": ("BenchmarkName", "Device", "Profiling", "SimulationInput", "Stream", "GlobalSizeType"),
}
"""What is known of the format and says nothing that is needed here."""
_TOP = ("General", "ConfigurationSpace", "KernelSpecification", "Search", "Budget")
_SPACE = ("TuningParameters", "Conditions")
_PARAMETER = ("Name", "Type", "Values", "Default")
_CONDITION = ("Expression", "Parameters")
_KERNEL = (
    *_UNUSED["KernelSpecification"],
    *("Language", "CompilerOptions", "KernelName", "KernelFile", "KernelTypeNames", "SharedMemory", "GlobalSize", "LocalSize", "GridDivX"),
    *("GridDivY", "GridDivZ", "ProblemSize", "Arguments", "ReferenceArguments"),
)
_ARGUMENT = (
    "Name",
    "Type",
    "TypeSize",
    "Size",
    "FillType",
    "FillValue",
    "DataSource",
    "AccessType",
    "MemoryType",
    "MemType",
    "Output",
    "RandomSeed",
)


@dataclasses.dataclass(frozen=True)
class InputFile:
    """What a T1 file says: the spec, and the budget that it wants, None where it says nothing of it."""

    spec: SourceSpec
    seconds: float | None = None
    trials: int | None = None


def read(path: str | Path, **settings: Any) -> InputFile:
    """The spec that a T1 file describes. `settings` are those of `spec_of` and go before what the file says. Raises UsageError."""
    path = Path(path)
    try:
        data = json.loads(read_text(path))
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path} is no JSON: {e}") from None
    notes: list[str] = []
    _keys(data, _TOP, "the file", notes)
    space, kernel = (_object(data, k, str(path)) for k in ("ConfigurationSpace", "KernelSpecification"))
    _keys(space, _SPACE, "ConfigurationSpace", notes)
    _keys(kernel, _KERNEL, "KernelSpecification", notes)
    language = _LANGUAGES.get(str(kernel.get("Language", "")).lower())
    if language is None:
        raise UsageError(f"{path}: Language is {kernel.get('Language')!r}; OpenCL, CUDA and C can be tuned here")
    if kernel.get("KernelTypeNames"):
        raise UsageError(f"{path}: KernelTypeNames asks for a template; write the types into the kernel")
    if kernel.get("ReferenceArguments"):
        notes.append(
            "KernelSpecification: ReferenceArguments is ignored; the untuned configuration is the reference, or --check file.py:function"
        )
    parameters, defaults = _parameters(space, notes)
    table: dict[str, Any] = {
        "function": str(kernel.get("KernelName", "")),
        "params": parameters,
        "restrict": _conditions(space, notes),
        "flags": _flags(kernel, language, notes),
        "args": [_argument(a, i, path.parent, language, notes) for i, a in enumerate(kernel.get("Arguments") or ())],
    }
    if language in ("opencl", "cuda"):
        table["launch"] = _launch(kernel, path)
    elif "args" in table and not any("value" not in a for a in table["args"]):
        raise UsageError(f"{path}: no argument is a Vector, so there is nothing to check")
    given = dict(settings)
    if "args" in given:
        raise UsageError("a T1 file says what the arguments are: leave --args out")
    source = path.parent / str(kernel.get("KernelFile", ""))
    spec = spec_of(source, **{**given, "language": language, "args": table})
    by_name = {n: str(int(v)) if isinstance(v, bool) else str(v) for n, v in defaults.items()}
    named = [_with_default(p, by_name, notes) for p in spec.parameters]
    seconds, trials = _budget(data.get("Budget"), spec, notes)
    return InputFile(dataclasses.replace(spec, parameters=tuple(named), notes=tuple(notes)), seconds, trials)


def _with_default(p: Any, defaults: Mapping[str, str], notes: list[str]) -> Any:
    want = defaults.get(p.name)
    if want is None:
        return p
    if want not in p.texts:
        notes.append(f"parameter {p.name}: its Default {want} is ignored, because it is not among its values")
        return p
    return dataclasses.replace(p, default=p.values[p.texts.index(want)])


def _object(data: Any, key: str, where: str) -> Mapping[str, Any]:
    found = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(found, Mapping):
        raise UsageError(f"{where}: no T1 file: it has no object {key!r}")
    return found


def _keys(table: Any, names: Collection[str], where: str, notes: list[str]) -> None:
    """Name what is not known; it is left out of account."""
    if not isinstance(table, Mapping):
        raise UsageError(f"T1: {where} must be an object, not {table!r}"[:300])
    notes += [f"{where}: unknown key {k!r} is ignored" for k in table if k not in names]


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    found = table.get(key) or []
    if not isinstance(found, list):
        raise UsageError(f"T1: {key} must be a list, not {found!r}"[:300])
    return found


def _parameters(space: Mapping[str, Any], notes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values, and defaults where there are, by name."""
    values: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for i, p in enumerate(_list(space, "TuningParameters")):
        _keys(p, _PARAMETER, f"parameter {i + 1}", notes)
        name, raw = str(p.get("Name", "")), p.get("Values")
        if name in values:
            raise UsageError(f"T1: two parameters are called {name}")
        values[name] = raw if isinstance(raw, list) else listed(str(raw), f"T1: parameter {name}")
        if p.get("Type") in ("int", "uint") and any(isinstance(v, str) for v in values[name]):
            raise UsageError(f"T1: parameter {name} is of type {p['Type']} and has values that are text")
        if p.get("Default") is not None:
            defaults[name] = p["Default"]
    return values, defaults


def _conditions(space: Mapping[str, Any], notes: list[str]) -> list[str]:
    out = []
    for i, c in enumerate(_list(space, "Conditions")):
        if isinstance(c, str):
            out.append(c)
            continue
        _keys(c, _CONDITION, f"condition {i + 1}", notes)
        out.append(str(c.get("Expression", "")))
    return out


def _flags(kernel: Mapping[str, Any], language: str, notes: list[str]) -> list[str]:
    """The compiler's options; those that only make sense for nvcc's driver are left out, and named."""
    found = [str(f) for f in _list(kernel, "CompilerOptions")]
    if language != "opencl":
        return found
    kept = [f for f in found if not f.startswith("-std=")]
    if kept != found:
        notes.append("KernelSpecification: CompilerOptions: -std is ignored, because OpenCL has none (-cl-std=CL2.0 is its own)")
    return kept


def _launch(kernel: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Block, and grid or what it has to cover."""
    block = _axes(kernel.get("LocalSize"), "LocalSize")
    if not block:
        raise UsageError(f"{path}: KernelSpecification has no LocalSize")
    out: dict[str, Any] = {"block": block}
    if kernel.get("SharedMemory"):
        out["shared"] = str(kernel["SharedMemory"])
    problem = kernel.get("ProblemSize")
    if problem is not None:
        out["problem"] = [str(x) for x in (problem if isinstance(problem, list) else [problem])]
        given = [kernel.get(f"GridDiv{a}") for a in "XYZ"][: len(out["problem"])]
        # as Kernel Tuner has it: without divisors a dimension is divided by the block's
        out["grid_div"] = [
            [str(x) for x in (d if isinstance(d, list) else [d])] if d is not None else [block[i]] if i < len(block) else []
            for i, d in enumerate(given)
        ]
        return out
    grid = _axes(kernel.get("GlobalSize"), "GlobalSize")
    if not grid:
        raise UsageError(f"{path}: KernelSpecification has neither ProblemSize nor GlobalSize")
    if str(kernel.get("GlobalSizeType", kernel.get("Language"))).lower() != "cuda":
        # OpenCL counts threads, CUDA counts groups
        grid = [f"({g}) // ({b})" for g, b in zip(grid, (*block, "1", "1", "1"))]
    out["grid"] = grid
    return out


def _axes(given: Any, what: str) -> list[str]:
    """X, Y and Z as a list, without ones at its end."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise UsageError(f"T1: {what} must be an object with X, Y and Z")
    out = [str(given.get(a, "1")) for a in "XYZ"]
    while len(out) > 1 and out[-1].strip() == "1":
        out.pop()
    return out


def _argument(a: Any, at: int, folder: Path, language: str, notes: list[str]) -> dict[str, Any]:
    """One argument as a table. Raises UsageError for what cannot be made here."""
    _keys(a, _ARGUMENT, f"argument {at + 1}", notes)
    name = str(a.get("Name") or f"argument_{at + 1}")
    where = f"T1: argument {name}"
    kind, times = _type(str(a.get("Type")), where)
    memory, fill = a.get("MemoryType", "Vector"), a.get("FillValue")
    if memory == "Scalar":
        if times > 1 or not isinstance(fill, (int, float)):
            raise UsageError(f"{where}: a scalar needs a plain type and a FillValue that is a number, not {fill!r}")
        return {"name": name, "dtype": kind, "value": int(fill) if isinstance(fill, bool) else fill}
    if memory != "Vector" or (language == "cuda" and a.get("MemType") == "Constant"):
        raise UsageError(
            f"{where}: memory of the kind {a.get('MemType') if memory == 'Vector' else memory} cannot be given here; pass an array"
        )
    role = ROLES.get(str(a.get("AccessType", "ReadWrite" if a.get("Output") else "ReadOnly")))
    if role is None:
        raise UsageError(f"{where}: AccessType is {a['AccessType']!r}; use one of {', '.join(ROLES)}")
    out: dict[str, Any] = {"name": name, "dtype": kind, "role": role}
    how = a.get("FillType", "Constant")
    if how == "BinaryRaw":
        out |= {"make": "raw", "file": str(folder / str(a.get("DataSource", "")))}
    elif how == "Random":
        whole = not kind.startswith(("float", "bfloat"))
        out |= {"make": "integers" if whole else "uniform", "low": 0, "high": fill if isinstance(fill, (int, float)) and fill > 0 else 1}
    elif how == "Constant":
        out |= {"make": "fill", "fill": fill if isinstance(fill, (int, float)) else 0}
    else:
        raise UsageError(f"{where}: FillType {how!r} runs code or needs a library; use Constant, Random or BinaryRaw")
    if "Size" not in a:
        raise UsageError(f"{where}: it has no Size")
    out["shape"] = [f"({a['Size']}) * {times}" if times > 1 else str(a["Size"])]
    return out


def _type(name: str, where: str) -> tuple[str, int]:
    """Our element type, and how many of them make one of theirs (float4: four)."""
    if name in ("float16", "float8", "float4", "float2", "half16", "half8", "half4", "half2", "double16", "double8", "double4", "double2"):
        plain = name.rstrip("0123456789")
        return TYPES[plain], int(name[len(plain) :])
    if name == "custom":
        raise UsageError(f"{where}: a type of one's own cannot be made here; use an array of a plain type")
    return TYPES.get(name, name), 1


def _budget(given: Any, spec: SourceSpec, notes: list[str]) -> tuple[float | None, int | None]:
    seconds, trials = None, None
    for b in given if isinstance(given, list) else [given] if given else []:
        kind, value = (b.get("Type"), b.get("BudgetValue")) if isinstance(b, Mapping) else (None, None)
        if not isinstance(value, (int, float)) or not value > 0:
            notes.append(f"Budget: {b!r} is ignored")
        elif kind == "TuningDuration":
            seconds = float(value)
        elif kind in ("ConfigurationCount", "ConfigurationFraction"):
            trials = max(1, math.ceil(value * spec.lattice.size if kind == "ConfigurationFraction" else value))
        else:
            notes.append(f"Budget: the type {kind!r} is ignored")
    return seconds, trials


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
    if a.local or a.more:
        raise UsageError(f"argument {a.name}: T1 files have no form for memory of groups and vectors: give an args file")
    if a.scalar:
        return {"Name": a.name, "Type": kind, "MemoryType": "Scalar", "FillValue": a.value(spec.values(spec.untuned))}
    fill = "BinaryRaw" if a.how == "raw" else "Random" if a.how in ("normal", "uniform", "integers") else "Constant"
    out = {
        "Name": a.name, "Type": kind, "MemoryType": "Vector", "AccessType": {v: k for k, v in ROLES.items()}[a.role],
        "FillType": fill, "Size": math.prod(a.extents(spec.sizes)),
    }  # fmt: skip
    value = {"Random": a.high, "Constant": {"ones": 1.0}.get(a.how, a.fill)}.get(fill)
    return out | ({"DataSource": Path(a.path).name} if fill == "BinaryRaw" else {"FillValue": value})
