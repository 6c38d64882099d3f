"""A spec from what a user gives: a file, a function's name, tables (TOML, or a program's) of arguments, parameters, restrictions."""

from __future__ import annotations

import atexit
import difflib
import functools
import hashlib
import math
import os
import re
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ..files.write_file import read as read_text
from ..ir.dtypes import DType, dtype
from ..ir.errors import TilewrightError, UsageError
from ..search import expressions
from ..search.expressions import Expression
from .building import defined
from .parameters import SourceParameter, Value, number, parameter, parse, text_of
from .source_spec import LANGUAGES, MAKES, RANDOM, ROLES, VECTORS, CheckSpec, LaunchSpec, SourceArgument, SourceSpec, split_reference

if TYPE_CHECKING:
    import numpy as np


# given ------------------------------------------------------------------------------------------------------
# Arguments that a Python program gives as NumPy arrays and numbers: their values lie in files that the measuring
# processes read.


def with_array(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """An argument's table whose `array` is a NumPy array, with what follows from it instead: dtype, shape, and, but for an 'out'
    array, a file of its values. A number of NumPy's in `value` says its dtype too. Raises UsageError."""
    import numpy as np

    found = dict(table)
    value = found.get("value")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        found["value"] = value.item()
        found.setdefault("dtype", value.dtype)
    if "array" not in found:
        return found
    array = found.pop("array")
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{where}: array is a NumPy array, not {type(array).__name__}; a file of values is named by file")
    wrong = [k for k in ("shape", "make", "low", "high", "fill", "file", "value") if k in found]
    if wrong:
        raise UsageError(f"{where} has an array, which says what {wrong[0]} would: leave one of them out")
    if not array.size:
        raise UsageError(f"{where}: the array is empty")
    if found.setdefault("dtype", array.dtype) != array.dtype and str(found["dtype"]) != array.dtype.name:
        raise UsageError(f"{where}: the array is {array.dtype}, and dtype says {found['dtype']}: leave dtype out, or convert the array")
    found["shape"] = list(array.shape) or [1]
    if found.get("role") != "out":
        found |= {"file": _kept(array), "make": "raw"}
    return found


def _kept(array: np.ndarray[Any, Any]) -> str:
    """The file of an array's values: as bytes, since .npy has no name for some element types. Equal arrays have one."""
    import numpy as np

    data = np.ascontiguousarray(array).tobytes()
    path = _folder(os.getpid()) / f"{hashlib.sha256(data).hexdigest()}.bin"
    if not path.exists():
        path.write_bytes(data)
    return str(path)


@functools.lru_cache(maxsize=1)
def _folder(process: int) -> Path:
    """A folder of this process, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-arrays-"))

    def remove() -> None:
        if os.getpid() == process:  # not where a child of it ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


# tables -----------------------------------------------------------------------------------------------------
_MOST = 1e300
"""The largest tolerance: results are numbers of at most 64 bits."""
SECTIONS = ("sizes", "args", "launch", "check", "params", "flag_params", "restrict", "flags", "function", "cold", "flops")
_ARGUMENT = ("name", "dtype", "shape", "role", "make", "low", "high", "fill", "file", "array", "value", "check")
_LAUNCH = ("block", "grid", "problem", "grid_div", "shared")
_CHECK = ("reference", "rtol", "atol", "deterministic")
_C_NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
    "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "unsigned": "uint32", "size_t": "uint64",
}  # fmt: skip


def read_tables(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError for one that is not there, is no TOML, or has a section that means nothing."""
    try:
        found = tomllib.loads(read_text(path))
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise UsageError(f"{path} is no TOML file: {e}") from None
    known(found, SECTIONS, str(path))
    for arg in found.get("args", ()) if isinstance(found.get("args"), list) else ():
        if isinstance(arg, dict) and isinstance(arg.get("file"), str):  # what a file names lies beside it
            arg["file"] = str(Path(path).resolve().parent / arg["file"])
    check = found.get("check")
    if isinstance(check, dict) and isinstance(check.get("reference"), str) and ":" in check["reference"]:
        check["reference"] = str(Path(path).resolve().parent / check["reference"])
    return found


def known(table: Any, names: Collection[str], where: str) -> None:
    """Raise UsageError for a key that means nothing."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table")
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1)
            raise UsageError(f"{where}: unknown key {key!r}{f'; did you mean {near[0]}?' if near else ''} (keys: {', '.join(names)})")


def element_type(name: Any, where: str) -> DType:
    """An element type by our name or C's. Raises UsageError."""
    try:
        return dtype(_C_NAMES.get(name, name))
    except (TilewrightError, TypeError):
        names = "float64, float32, float16, bfloat16, int8 to int64, uint8 to uint64, bool"
        raise UsageError(f"{where}: unknown dtype {name!r}; use one of {names}") from None


def expression(given: Any, names: Mapping[str, bool], what: str) -> Expression:
    """An expression from text or a number."""
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise UsageError(f"{what} must be an expression or a number, not {given!r}")
    return expressions.parse(str(given), names, what)


def several(given: Any, names: Mapping[str, bool], what: str) -> tuple[Expression, ...]:
    """One to three expressions, one for each dimension."""
    items = [given] if isinstance(given, (str, int, float)) else given
    if not isinstance(items, Sequence) or not 1 <= len(items) <= 3:
        raise UsageError(f'{what} must be one to three expressions, such as ["block_size_x"], not {given!r}')
    return tuple(expression(x, names, what) for x in items)


def sizes_of(table: Any, where: str = "[sizes]") -> dict[str, int]:
    """Numbers by name. Raises UsageError."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table such as n = 1000000")
    for name, value in table.items():
        if not str(name).isidentifier() or not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{where}: {name} = {value!r} must be a name and a whole number")
    return dict(table)


def argument(table: Any, names: Mapping[str, bool], extents: Mapping[str, bool], at: int) -> SourceArgument:
    """One argument. `names`: what a scalar's value may use (sizes and parameters); `extents`: what a shape may (sizes). Raises UsageError."""
    known(table, _ARGUMENT, f"argument {at + 1}")
    name = table.get("name")
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f'argument {at + 1} needs a name, such as name = "x"; the order of arguments is that of the call')
    where = f"argument {name}"
    table = with_array(table, where)
    if "dtype" not in table:
        raise UsageError(f'{where} needs a dtype, such as dtype = "float32"')
    of = element_type(table["dtype"], where)
    if "value" in table:
        wrong = [k for k in table if k not in ("name", "dtype", "value")]
        if wrong:
            raise UsageError(f"{where} has a value, so it is a scalar, and {wrong[0]} is for arrays: leave one of them out")
        listed = table["value"] if isinstance(table["value"], (list, tuple)) else [table["value"]]
        if len(listed) not in (1, *VECTORS):
            raise UsageError(f"{where}: a vector has {', '.join(map(str, VECTORS))} components, not {len(listed)}")
        value, *more = (expression(x, names, f"{where}: value") for x in listed)
        return SourceArgument(name, of, value=value, more=tuple(more))
    if table.get("role") == "local":
        wrong = [k for k in table if k not in ("name", "dtype", "shape", "role")]
        if wrong:
            raise UsageError(f"{where} is memory of each group, which begins undefined: leave {wrong[0]} out")
        extents = names
    return _array(dict(table), name, of, extents)


def _array(table: dict[str, Any], name: str, of: DType, extents: Mapping[str, bool]) -> SourceArgument:
    where = f"argument {name}"
    role = table.get("role", "in")
    if role not in ROLES:
        raise UsageError(f"{where}: role is one of {', '.join(ROLES)}, not {role!r}")
    path = table.get("file", "")
    how = table.get("make", "file" if path else "fill" if "fill" in table else "normal" if of.is_float else "integers")
    if how not in MAKES:
        raise UsageError(f"{where}: make is one of {', '.join(MAKES)}, not {how!r}")
    if (how in ("file", "raw")) != bool(path):
        raise UsageError(f'{where}: make = "{how}" {"needs" if not path else "does not go with"} file = "..."')
    shape = table.get("shape")
    if shape is None and how == "file":
        shape = _shape_of(path, where)
    if shape is None:
        raise UsageError(f'{where} needs a shape, such as shape = ["n"], or a value where it is a scalar')
    listed = [shape] if isinstance(shape, (str, int)) else shape
    if not isinstance(listed, (list, tuple)) or not listed:
        raise UsageError(f"{where}: shape must be a list of extents, not {shape!r}")
    low, high = (
        table.get(k, d) for k, d in (("low", -8 if how == "integers" and of.kind == "i" else 0), ("high", 8 if how == "integers" else 1))
    )
    for key, value in (("low", low), ("high", high), ("fill", table.get("fill", 0))):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{where}: {key} must be a number, not {value!r}")
        if not math.isfinite(value) and (key != "fill" or not of.is_float):
            raise UsageError(f"{where}: {key} is {value!r}; it must be finite")
    if low > high or (how in RANDOM and how != "normal" and not of.is_float and of.kind == "u" and low < 0):
        raise UsageError(f"{where}: values from {low} to {high} do not exist for {of.name}")
    check = table.get("check", True)
    if not isinstance(check, bool):
        raise UsageError(f"{where}: check is true or false")
    dims = tuple(expression(x, extents, f"{where}: shape") for x in listed)
    return SourceArgument(name, of, dims, role, how, float(low), float(high), float(table.get("fill", 0)), path, None, check)


def _shape_of(path: str, where: str) -> list[int]:
    import numpy as np

    try:
        return list(np.load(path, mmap_mode="r", allow_pickle=False).shape) or [1]
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"{where}: {path} is no .npy file that can be read: {e}") from None


def launch_table(table: Any) -> dict[str, Any]:
    """The [launch] table, its keys checked."""
    known(table, _LAUNCH, "[launch]")
    return dict(table)


def check_table(table: Any) -> dict[str, Any]:
    """The [check] table, its keys and types checked. Raises UsageError."""
    known(table, _CHECK, "[check]")
    kinds: dict[str, Any] = {"reference": str, "rtol": (int, float), "atol": (int, float), "deterministic": bool}
    for key, value in table.items():
        if key in ("rtol", "atol") and (isinstance(value, bool) or not isinstance(value, kinds[key]) or not 0 <= value <= _MOST):
            raise UsageError(f"[check]: {key} = {value!r} makes no sense: give a finite number that is not negative")
        if not isinstance(value, kinds[key]):
            raise UsageError(f"[check]: {key} = {value!r} makes no sense")
    return dict(table)


Values = Iterable[Value] | str


class SpecSettings(TypedDict, total=False):
    """What a source may be given beside its file and its function. `args`: a TOML file, or its tables, or a list of arguments alone; `array` of an argument may be a NumPy array, and its `value` a number of NumPy's.
    `params` and `flag_params`: values by name, each a list or text such as `"1..8"`. `restrict`: expressions that must hold.
    `sizes`: numbers by name, before those of the file. `check`: `file.py:function`."""

    language: str
    args: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    params: Mapping[str, Values]
    flag_params: Mapping[str, Values]
    restrict: Sequence[str]
    sizes: Mapping[str, int]
    check: str
    rtol: float
    atol: float
    deterministic: bool
    block: Any
    grid: Any
    problem: Any
    flags: str | Sequence[str]
    cold: bool


def spec_of(source: str | Path, function: str = "", **settings: Any) -> SourceSpec:
    """The spec of a function in a file; `settings` are those of SpecSettings and go before what the args file says. Raises
    UsageError that says what is missing, unknown or does not fit."""
    unknown = [k for k in settings if k not in SpecSettings.__annotations__]
    if unknown:
        raise UsageError(f"a source has no setting {unknown[0]!r}; there are {', '.join(SpecSettings.__annotations__)}")
    path, text, language = _source(source, settings.get("language"))
    table = _table(settings.get("args"))
    function = function or table.get("function", "")
    if not isinstance(function, str) or not function.isidentifier():
        raise UsageError(f"name the function of {path} that is tuned: --function NAME")
    sizes = {**sizes_of(table.get("sizes", {})), **sizes_of(settings.get("sizes", {}), "the sizes")}
    parameters = _parameters(text, table, settings)
    double = next((p.name for p in parameters if p.name in sizes), None)
    if double is not None:
        raise UsageError(f"{double} is a parameter and a size: give one of them another name")
    extents = dict.fromkeys(sizes, False)
    names = {**extents, **{p.name: p.is_text for p in parameters if not p.flag}}
    # restrictions may also be about flags
    all_names = {**extents, **{p.name: p.is_text for p in parameters}}
    restrict = [r for given in (table, settings) for r in _listed(given.get("restrict", ()))]
    listed = table.get("args", ())
    if not isinstance(listed, (list, tuple)):
        raise UsageError("arguments are a list: write [[args]] before each in TOML")
    arguments = tuple(argument(a, names, extents, i) for i, a in enumerate(listed))
    _distinct(arguments)
    spec = SourceSpec(
        function=function,
        language=language,
        text=text,
        file=str(path),
        parameters=tuple(parameters),
        restrictions=tuple(expressions.parse(r, all_names, "the restriction") for r in restrict),
        arguments=arguments,
        sizes=sizes,
        launch=_launch(language, table, settings, names),
        check=_check(table, settings),
        flags=tuple(_words(settings["flags"] if "flags" in settings else table.get("flags", ()))),
        cold=bool(settings.get("cold", table.get("cold", False))),
        flops=expression(table["flops"], extents, "flops") if "flops" in table else None,
    )
    _complete(spec)
    return spec


def _source(source: str | Path, language: str | None) -> tuple[Path, str, str]:
    path = Path(source)
    found = language or LANGUAGES.get(path.suffix.lower())
    if found not in set(LANGUAGES.values()):
        fix = "; a T1 file is given by --t1" if path.suffix.lower() == ".json" else ""
        raise UsageError(
            f"{path}: the language is told by the suffix ({', '.join(LANGUAGES)}), and {path.suffix or 'none'} is none of them{fix}"
        )
    try:
        return path, read_text(path), found
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text") from None


def _table(args: Any) -> dict[str, Any]:
    if args is None:
        return {}
    if isinstance(args, (str, Path)):
        return read_tables(args)
    if isinstance(args, Mapping):
        known(args, SECTIONS, "args")
        return dict(args)
    return {"args": list(args)}


def _parameters(text: str, table: Mapping[str, Any], settings: Mapping[str, Any]) -> list[SourceParameter]:
    """Parameters of the file, then those that were given; a later one of the same name takes its place."""
    found: dict[str, SourceParameter] = {}
    for key, flag in (("params", False), ("flag_params", True)):
        for name, values in {**_by_name(table.get(key, {}), key), **_by_name(settings.get(key, {}), key)}.items():
            if name in found:
                raise UsageError(f"{name} is a parameter of the source and a flag's: give one of them another name")
            made = parse(f"{name}={values}", flag) if isinstance(values, str) else parameter(name, values, flag=flag)
            own = None if flag else defined(text, name)
            found[name] = replace(made, default=_value(made, own)) if own in made.texts else made
    return list(found.values())


def _by_name(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{what} must be values by name, such as TILE = [8, 16, 32]")
    return {n: [v] if isinstance(v, (int, float)) else v for n, v in given.items()}


def _value(p: SourceParameter, text: str | None) -> Value:
    """The value that a source's own definition stands for."""
    return next(v for v in p.values if text_of(v) == text)


def _distinct(arguments: Sequence[SourceArgument]) -> None:
    names = [a.name for a in arguments]
    double = next((n for n in names if names.count(n) > 1), None)
    if double is not None:
        raise UsageError(f"two arguments are called {double}: give each a name of its own")


def _launch(language: str, table: Mapping[str, Any], settings: Mapping[str, Any], names: Mapping[str, bool]) -> LaunchSpec:
    """The launch of a GPU's function: what is given; else Kernel Tuner's names of parameters, and a grid that covers `problem`."""
    given = {**launch_table(table.get("launch", {})), **{k: settings[k] for k in ("block", "grid", "problem") if k in settings}}
    if language not in ("opencl", "cuda"):
        if given:
            raise UsageError(f"block and grid are for OpenCL and CUDA; {language} has no launch")
        return LaunchSpec()
    usual = [n for n in ("block_size_x", "block_size_y", "block_size_z") if n in names]
    block = given.get("block", usual)
    if not block:
        raise UsageError('say how many threads a group has: block = ["block_size_x"] under [launch], or --block block_size_x')
    blocks = several(block, names, "launch: block")
    shared = expression(given["shared"], names, "launch: shared") if "shared" in given else None
    if "grid" in given:
        return LaunchSpec(blocks, several(given["grid"], names, "launch: grid"), shared)
    if "problem" not in given:
        raise UsageError('say how many groups there are: grid = ["ceil(n / block_size_x)"] under [launch], or --grid, or --problem n')
    problem = several(given["problem"], names, "launch: problem")
    return LaunchSpec(blocks, covering(problem, blocks, given.get("grid_div"), names), shared)


def covering(
    problem: Sequence[Expression], block: Sequence[Expression], divisors: Any, names: Mapping[str, bool]
) -> tuple[Expression, ...]:
    """A grid that covers a problem: each extent over the product of its divisors, which are the block's extents unless others
    are given (a list for each dimension), rounded up."""
    out = []
    for i, p in enumerate(problem):
        given = divisors[i] if isinstance(divisors, (list, tuple)) and i < len(divisors) else [block[i].text] if i < len(block) else []
        by = [given] if isinstance(given, (str, int)) else list(given)
        product = " * ".join(f"({d})" for d in by) or "1"
        out.append(expressions.parse(f"-(-({p.text}) // ({product}))", names, "launch: grid"))
    return tuple(out)


def _check(table: Mapping[str, Any], settings: Mapping[str, Any]) -> CheckSpec:
    given = check_table(table.get("check", {}))
    given |= {k: settings[k] for k in ("rtol", "atol", "deterministic") if k in settings}
    if "check" in settings:
        given["reference"] = settings["check"]
    made = CheckSpec(**check_table(given))
    if made.reference:
        split_reference(made.reference)
    return made


def _listed(restrict: Any) -> Sequence[Any]:
    """Restrictions, of which one alone need not be in a list."""
    if isinstance(restrict, str):
        return [restrict]
    if not isinstance(restrict, (list, tuple)):
        raise UsageError(f"restrictions are text or a list of texts, not {restrict!r}")
    return restrict


def _words(flags: Any) -> list[str]:
    if isinstance(flags, str):
        try:
            return shlex.split(flags)
        except ValueError as e:
            raise UsageError(f"the flags {flags!r} are no words as a shell has them: {e}") from None
    if not isinstance(flags, (list, tuple)) or not all(isinstance(f, str) for f in flags):
        raise UsageError(f"flags are text or a list of words, not {flags!r}")
    return list(flags)


def _complete(spec: SourceSpec) -> None:
    """Raise UsageError for a spec that could never work: no such function, or a parameter that changes nothing."""
    texts = [spec.text, *spec.includes().values()]
    if not any(re.search(rf"\b{re.escape(spec.function)}\b", t) for t in texts):
        raise UsageError(f"{spec.file} has no function {spec.function!r}")
    if not spec.arguments:
        raise UsageError(f"say what {spec.function} is called with: --args spec.toml, a table [[args]] for each argument (docs/sources.md)")
    values = [e for a in spec.arguments for e in (a.value,) if e is not None]
    launch = [*spec.launch.block, *spec.launch.grid, *([spec.launch.shared] if spec.launch.shared else [])]
    used = {n for e in (*values, *launch) for n in e.names}
    for p in spec.parameters:
        if not p.flag and p.name not in used and not any(re.search(rf"\b{re.escape(p.name)}\b", t) for t in texts):
            raise UsageError(f"the parameter {p.name} is nowhere in {spec.file} nor in its launch: it would change nothing; leave it out")
    for a in spec.arrays:
        a.extents(spec.sizes)


def shape_sizes(text: str) -> dict[str, int]:
    """Sizes from `n=1000,m=20`. Raises UsageError."""
    out: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        found = number(value.strip()) if equals else ""
        if not name.strip().isidentifier() or not isinstance(found, int):
            raise UsageError(f"--shape {text}: write NAME=NUMBER, several with commas, such as n=1000000,m=20")
        out[name.strip()] = found
    return out
