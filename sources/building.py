"""What builder processes do with a configuration: its text, how it is called, its object.

The text is the user's, with a `#define` for each parameter before it. A definition that the text itself has of a parameter gives way,
whether it is guarded by `#ifndef` or not: it is the untuned value. Lines keep their numbers, so that a compiler's messages name the user's
own."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import OptError, UsageError
from ..opts import Opt, opt, parse
from ..plan.artefacts import Built
from ..renderers import Source
from .parameters import At, Lattice, Value, number
from .source_spec import CALL, SourceSpec, signature

if TYPE_CHECKING:
    from ..search.space import Schedule
    from .source_device import SourceDevice


# configurations -------------------------------------------------------------------------------------------------------
#
# Configurations as schedules: one SET for each parameter, so that a search, the cache and reports treat a source as
# they treat a kernel.


def schedule(spec: SourceSpec, at: At) -> Schedule:
    """The options that stand for a point."""
    return tuple(opt("SET", p.name, to=p.texts[i]) for p, i in zip(spec.parameters, at, strict=True))


def texts(opts: Sequence[Opt]) -> dict[str, str]:
    """The text of each parameter's value. Raises OptError for an option that is no SET."""
    wrong = next((o for o in opts if o.op != "SET"), None)
    if wrong is not None:
        raise OptError(f"{wrong}: a source has parameters (SET) and no options of kernels")
    return {o.on: str(o.fields["to"]) for o in opts}


def chosen(opts: Sequence[Any]) -> dict[str, Value]:
    """The values that options in JSON form set, {} where these are options of kernels, or none at all."""
    try:
        return {name: number(text) for name, text in texts(parse(opts)).items()}
    except OptError:
        return {}


def point(spec: SourceSpec, opts: Sequence[Opt]) -> At:
    """The point that options stand for. Raises OptError where a parameter or a value is missing, or a restriction refuses it."""
    given = texts(opts)
    names = [p.name for p in spec.parameters]
    if sorted(given) != sorted(names) or len(given) != len(opts):
        raise OptError(f"a configuration of {spec.function} has a value for each of {', '.join(names) or 'no parameters'}, once")
    out = []
    for p in spec.parameters:
        if given[p.name] not in p.texts:
            raise OptError(f"parameter {p.name} has no value {given[p.name]}")
        out.append(p.texts.index(given[p.name]))
    at = tuple(out)
    if at not in spec.lattice:
        raise OptError(spec.lattice.refusal(at))
    return at


@dataclass(frozen=True, slots=True)
class Configured:
    """A legal configuration, as `search.space` wants what an engine applies."""

    opts: Schedule
    hash: str
    effects: frozenset[str] = frozenset()


class ParameterTemplate:
    """All configurations as one template: what samplers, walks and models over choices search."""

    name = "configuration"

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self.params: dict[str, tuple[Value, ...]] = {p.name: p.values for p in spec.parameters}
        self._options = [{v: opt("SET", p.name, to=t) for v, t in zip(p.values, p.texts, strict=True)} for p in spec.parameters]

    @property
    def lattice(self) -> Lattice:
        """Which of them are legal."""
        return self._spec.lattice

    def make(self, params: Mapping[str, Any]) -> Schedule:
        """The schedule of these values."""
        return tuple(of[params[p]] for p, of in zip(self.params, self._options, strict=True))


class ParameterEngine:
    """The parameters of a source as what a `Space` asks. Nothing is known of a configuration's time before it was measured, and no
    option is ever appended to another."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._effects = frozenset() if spec.check.deterministic else frozenset({"NONDET"})
        self._template = ParameterTemplate(spec)

    def starts(self) -> Sequence[Schedule]:
        return [schedule(self.spec, self.spec.untuned)]

    def apply(self, opts: Schedule) -> Configured:
        at = point(self.spec, opts)
        return Configured(tuple(opts), hashlib.sha256(repr(at).encode()).hexdigest(), self._effects)

    def actions(self, applied: Configured) -> Sequence[Schedule]:
        return []

    def estimate(self, applied: Configured) -> float:
        return 1e-3

    def code_size(self, applied: Configured) -> float:
        return 0.0

    def templates(self) -> Sequence[ParameterTemplate]:
        return [self._template] if self.spec.parameters else []


class ParameterNames:
    """What a cache calls parameters: by their own names, which are a part of the key."""

    def to_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, Any]) -> list[list[Any]]:
        """The same options."""
        return [list(o) for o in opts]

    def from_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, Any]) -> list[list[Any]]:
        """The same options."""
        return [list(o) for o in opts]


# building -------------------------------------------------------------------------------------------------------------

_C_TYPES = {
    "float64": "double", "float32": "float", "float16": "_Float16", "bfloat16": "__bf16", "int64": "__INT64_TYPE__", "int32": "int",
    "int16": "short", "int8": "signed char", "uint64": "__UINT64_TYPE__", "uint32": "unsigned int", "uint16": "unsigned short",
    "uint8": "unsigned char", "bool": "_Bool",
}  # fmt: skip


def _define(name: str) -> re.Pattern[str]:
    return re.compile(rf"^([ \t]*)#([ \t]*)define([ \t]+){re.escape(name)}(?![A-Za-z0-9_(])((?:[^\n\\]|\\\n|\\[^\n])*)$", re.M)


def defined(text: str, name: str) -> str | None:
    """What the text itself defines a name as, None where it does not. Comments at the end of the line do not count."""
    found = _define(name).search(text)
    return None if found is None else re.sub(r"/\*.*?\*/|//.*", "", found[4].replace("\\\n", " "), flags=re.S).strip()


def without_definitions(text: str, names: list[str]) -> str:
    """The text without its own definitions of these names, every line at its place."""
    for name in names:
        text = _define(name).sub(lambda m: "\n" * m[0].count("\n"), text)
    return text


def definitions(spec: SourceSpec, texts: Mapping[str, str]) -> str:
    """The lines that define a configuration's parameters."""
    return "".join(f"#define {p.name} {texts[p.name]}\n" for p in spec.parameters if not p.flag)


def flags_of(spec: SourceSpec, texts: Mapping[str, str]) -> tuple[str, ...]:
    """The compiler's flags in a configuration: those of the spec, then those that parameters choose (a value may hold several)."""
    import shlex

    return (*spec.flags, *(w for p in spec.parameters if p.flag for w in shlex.split(texts[p.name])))


def plain_text(spec: SourceSpec, texts: Mapping[str, str]) -> str:
    """The source of a configuration for people: definitions, then the user's text."""
    body = without_definitions(spec.text, [p.name for p in spec.parameters if not p.flag])
    flags = flags_of(spec, texts)
    said = f"// flags: {' '.join(flags)}\n" if flags and spec.language != "c" else f"/* flags: {' '.join(flags)} */\n" if flags else ""
    return f"{said}{definitions(spec, texts)}{body}"


def compiled_text(spec: SourceSpec, texts: Mapping[str, str]) -> str:
    """What the compiler gets: the source of a configuration, and for C what calls the function. Flags are a comment, so that
    texts tell configurations apart."""
    name = spec.file.replace("\\", "/").rsplit("/", 1)[-1].replace('"', "'") or "source"
    body = without_definitions(spec.text, [p.name for p in spec.parameters if not p.flag])
    if spec.language == "cuda":
        body = _without_mangling(spec, body)
    head = f"/* {' '.join(flags_of(spec, texts)).replace('*/', '')} */\n{definitions(spec, texts)}"
    line = f'#line 1 "{name}"\n'
    return f"{head}{line}{body.rstrip()}\n{_caller(spec) if spec.language in ('c', 'c++') else ''}"


def _caller(spec: SourceSpec) -> str:
    """C that calls the function with arguments at given addresses. A wrong number of arguments, or a pointer to another kind of
    float, is the compiler's error."""
    given = []
    for i, a in enumerate(spec.arguments):
        kind = _C_TYPES.get(a.dtype.name)
        if kind is None:
            raise UsageError(f"argument {a.name}: C has no type for {a.dtype.name}; use one of {', '.join(_C_TYPES)}")
        if kind == "_Bool" and spec.language == "c++":
            kind = "bool"
        at = f"tilewright_p[{i}]"
        # in C, void * may become any pointer: int64_t is long here and long long elsewhere
        loose = spec.language == "c" and not a.dtype.is_float
        given.append(f"*({kind} const *){at}" if a.scalar else at if loose else f"({kind} *){at}")
    strict = '#pragma GCC diagnostic error "-Wincompatible-pointer-types"\n#pragma GCC diagnostic error "-Wimplicit-function-declaration"\n'
    linkage = 'extern "C" ' if spec.language == "c++" else ""
    return (
        f'#line 1 "the arguments of {spec.function}"\n{strict if spec.language == "c" else ""}'
        f"{linkage}void {CALL}(void *const *tilewright_p)\n{{ {spec.function}({', '.join(given)}); }}\n"
    )


def _without_mangling(spec: SourceSpec, body: str) -> str:
    """CUDA C++ whose kernel keeps its name in the object."""
    kernel = re.compile(rf"(?<![A-Za-z0-9_])__global__(?=[^;{{}}]*?(?<![A-Za-z0-9_]){re.escape(spec.function)}\s*\()")
    return kernel.sub('extern "C" __global__', re.sub(r'extern\s*"C"\s*(?=__global__)', "", body))


@dataclass(frozen=True)
class CheckedSource:
    """A spec, and the folder in which `references` keeps what is expected of it. What builders and the runner are told."""

    spec: SourceSpec
    references: Path


def build(task: CheckedSource, opts: Schedule, device: SourceDevice) -> Built:
    """A configuration as an object that the device loads. Raises OptError for one that is not legal, or whose launch makes no
    sense, and BuildError where it does not compile."""
    spec, began = task.spec, time.perf_counter()
    at = point(spec, opts)
    given = texts(opts)
    try:
        called = signature(spec, at, flags_of(spec, given))
    except UsageError as e:
        raise OptError(str(e)) from None
    target = replace(device.target, lang="c") if device.family_name == "cpu" else device.target
    launch = f"// {called.block} {called.grid} {called.dynamic}\n" if spec.language in ("opencl", "cuda") else ""
    source = Source(compiled_text(spec, given) + launch, spec.language, target, called)
    middle = time.perf_counter()
    obj = device.build(source)
    effects = frozenset() if spec.check.deterministic else frozenset({"NONDET"})
    return Built(tuple(opts), source, effects, source.sha, 0.0, middle - began, obj, time.perf_counter() - middle)
