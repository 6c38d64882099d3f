"""A spec from what a user gives: a file, a function's name, a table of arguments, parameters, restrictions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from ..files.text import read as read_text
from ..ir.errors import UsageError
from . import expressions, tables
from .arguments import SourceArgument
from .expressions import Expression
from .parameters import SourceParameter, Value, number, parameter, parse, text_of
from .spec import LANGUAGES, CheckSpec, LaunchSpec, SourceSpec, split_reference
from .text import defined

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
    sizes = {**tables.sizes(table.get("sizes", {})), **tables.sizes(settings.get("sizes", {}), "the sizes")}
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
    arguments = tuple(tables.argument(a, names, extents, i) for i, a in enumerate(listed))
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
        flops=tables.expression(table["flops"], extents, "flops") if "flops" in table else None,
    )
    _complete(spec)
    return spec


def _source(source: str | Path, language: str | None) -> tuple[Path, str, str]:
    path = Path(source)
    found = language or LANGUAGES.get(path.suffix.lower())
    if found not in set(LANGUAGES.values()):
        raise UsageError(
            f"{path}: the language is told by the suffix ({', '.join(LANGUAGES)}), and {path.suffix or 'none'} is none of them"
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
        return tables.read(args)
    if isinstance(args, Mapping):
        tables.known(args, tables.SECTIONS, "args")
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
    given = {**tables.launch_table(table.get("launch", {})), **{k: settings[k] for k in ("block", "grid", "problem") if k in settings}}
    if language not in ("opencl", "cuda"):
        if given:
            raise UsageError(f"block and grid are for OpenCL and CUDA; {language} has no launch")
        return LaunchSpec()
    usual = [n for n in ("block_size_x", "block_size_y", "block_size_z") if n in names]
    block = given.get("block", usual)
    if not block:
        raise UsageError('say how many threads a group has: block = ["block_size_x"] under [launch], or --block block_size_x')
    blocks = tables.several(block, names, "launch: block")
    shared = tables.expression(given["shared"], names, "launch: shared") if "shared" in given else None
    if "grid" in given:
        return LaunchSpec(blocks, tables.several(given["grid"], names, "launch: grid"), shared)
    if "problem" not in given:
        raise UsageError('say how many groups there are: grid = ["ceil(n / block_size_x)"] under [launch], or --grid, or --problem n')
    problem = tables.several(given["problem"], names, "launch: problem")
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
    given = tables.check_table(table.get("check", {}))
    given |= {k: settings[k] for k in ("rtol", "atol", "deterministic") if k in settings}
    if "check" in settings:
        given["reference"] = settings["check"]
    made = CheckSpec(**tables.check_table(given))
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
