"""What is tuned: a source, the function in it, its parameters and arguments, how it is launched and checked; and how a configuration of it is
called."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.write_file import decoded
from ..ir.dtypes import DType
from ..ir.errors import BuildError, UsageError
from ..program.program import Param, Signature
from ..search.expressions import Expression
from .parameters import At, Lattice, SourceParameter, text_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


LANGUAGES = {
    ".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cl": "opencl", ".ocl": "opencl", ".opencl": "opencl", ".cu": "cuda",
}  # fmt: skip
"""The language of a file, by its suffix."""
DEVICES = {"c": "cpu", "c++": "cpu", "opencl": "opencl", "cuda": "cuda"}
"""Where a language runs unless something else is asked for."""
MOST_BYTES = 4 << 20
"""Of a source with what it includes."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


@dataclass(frozen=True)
class LaunchSpec:
    """How a GPU's function is launched: threads of a group and number of groups, each in up to three dimensions, and bytes of
    dynamic shared memory. Expressions of parameters and sizes."""

    block: tuple[Expression, ...] = ()
    grid: tuple[Expression, ...] = ()
    shared: Expression | None = None

    def about(self) -> list[Any]:
        """Plain data that identifies it."""
        return [[e.text for e in self.block], [e.text for e in self.grid], self.shared and self.shared.text]


@dataclass(frozen=True)
class CheckSpec:
    """What results are held to. `reference`: `file.py:function`, or '' for what the untuned configuration gives.

    An element may be `rtol` · |reference| + `atol` off; None: by the type (`TOLERANCES`), with the root mean square of the
    reference in the place of atol. Whole numbers must be equal. `deterministic`: every run of one configuration gives the same bits."""

    reference: str = ""
    rtol: float | None = None
    atol: float | None = None
    deterministic: bool = True


@dataclass(frozen=True)
class SourceSpec:
    """Everything about one function. `file` is where `text` is from; `sizes` are numbers by name that expressions may use;
    `flags` are the compiler's; `cold`: timed on arrays that are in no cache. `flops`: operations of a call, for rates.
    `notes`: what was read and is not used."""

    function: str
    language: str
    text: str
    file: str = ""
    parameters: tuple[SourceParameter, ...] = ()
    restrictions: tuple[Expression, ...] = ()
    arguments: tuple[SourceArgument, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    launch: LaunchSpec = LaunchSpec()
    check: CheckSpec = CheckSpec()
    flags: tuple[str, ...] = ()
    cold: bool = False
    flops: Expression | None = None
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where files that it includes are looked for."""
        return Path(self.file).resolve().parent if self.file else Path.cwd()

    @cached_property
    def lattice(self) -> Lattice:
        """Every legal configuration. Raises UsageError where there is none."""
        return Lattice(self.parameters, self.restrictions, self.sizes)

    @cached_property
    def untuned(self) -> At:
        """The configuration that the source has by itself, or the legal one nearest to it."""
        return self.lattice.nearest(tuple(p.texts.index(text_of(p.default)) for p in self.parameters))

    @property
    def arrays(self) -> tuple[SourceArgument, ...]:
        """The arguments that are arrays: no scalars, and no memory of groups."""
        return tuple(a for a in self.arguments if not a.scalar and not a.local)

    @property
    def nbytes(self) -> int:
        """Bytes of the arguments, and of what a reference holds of those that are written."""
        sizes = ((prod(a.extents(self.sizes)) * a.dtype.size, a) for a in self.arrays)
        return sum(n * (2 if a.written else 1) for n, a in sizes)

    def values(self, at: At) -> dict[str, Any]:
        """The values of a point's parameters that are no flags, and the sizes: what expressions see."""
        return {**self.sizes, **{p.name: p.values[i] for p, i in zip(self.parameters, at, strict=True)}}

    def at(self, texts: Mapping[str, str]) -> At:
        """The point with these texts of values. Raises UsageError for a name or a value that is not there."""
        unknown = [n for n in texts if n not in {p.name for p in self.parameters}]
        if unknown:
            raise UsageError(f"{self.function} has no parameter {unknown[0]!r}; it has {', '.join(p.name for p in self.parameters)}")
        out = []
        for p in self.parameters:
            text = texts.get(p.name, text_of(p.default))
            if text not in p.texts:
                raise UsageError(f"parameter {p.name} has no value {text}; it has {', '.join(p.texts[:20])}")
            out.append(p.texts.index(text))
        return tuple(out)

    def bytes(self) -> int:
        """Bytes of a call's arrays: read once where they are read, written once where they are written."""
        import math

        return sum(math.prod(a.extents(self.sizes)) * a.dtype.size * (2 if a.role == "inout" else 1) for a in self.arrays)

    def identity(self) -> dict[str, Any]:
        """What a measurement is about, as plain data: two specs with the same are the same kernel to the cache."""
        check = self.check
        return {
            "function": self.function,
            "language": self.language,
            "text": self.text,
            "includes": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.includes().items()},
            "parameters": [[p.name, list(p.texts), p.flag] for p in self.parameters],
            "restrictions": sorted(r.text for r in self.restrictions),
            "arguments": [a.about() for a in self.arguments],
            "sizes": dict(self.sizes),
            "launch": self.launch.about(),
            "check": [reference_text(check.reference), check.rtol, check.atol, check.deterministic],
            "flags": list(self.flags),
            "cold": self.cold,
        }

    def includes(self) -> dict[str, str]:
        """The texts of files of the user's that the source includes, by their paths as written."""
        found: dict[str, str] = {}
        todo = [(self.text, self.folder)]
        while todo:
            text, folder = todo.pop()
            for name, path in _included(text, folder, (self.folder, *self.include_folders())):
                if name not in found and sum(map(len, found.values())) < MOST_BYTES:
                    found[name] = decoded(path.read_bytes(), "replace")
                    todo.append((found[name], path.parent))
        return found

    def include_folders(self) -> list[Path]:
        """Those that the flags name by -I."""
        words = [w for f in self.flags for w in f.split()]
        joined = [w[2:] for w in words if w.startswith("-I") and len(w) > 2]
        return [self.folder / w for w in (*joined, *(b for a, b in itertools.pairwise(words) if a == "-I"))]


def _included(text: str, folder: Path, others: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for name in _INCLUDE.findall(text):
        path = next((p for f in (folder, *others) if (p := f / name).is_file()), None)
        if path is not None:
            yield name, path


def reference_text(reference: str) -> list[str]:
    """The function's name and its file's content, by its hash. Raises UsageError where there is no such file."""
    if not reference:
        return []
    path, function = split_reference(reference)
    return [function, hashlib.sha256(path.read_bytes()).hexdigest()]


def split_reference(reference: str) -> tuple[Path, str]:
    """The file and the function of `file.py:function`. Raises UsageError."""
    path, colon, function = reference.rpartition(":")
    if not colon or not function.isidentifier() or not path:
        raise UsageError(f"--check {reference}: write file.py:function, the function that computes the right result")
    if not Path(path).is_file():
        raise UsageError(f"--check {reference}: there is no file {path}")
    return Path(path), function


Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LocalBytes:
    """So many bytes that the threads of a group share, as an argument."""

    count: int


@dataclass(frozen=True, slots=True)
class SourceSignature(Signature):
    """`function` is the entry; `order` says of each of its arguments where it is from: an int is the position of an array in
    `params`, bytes are a scalar's value, and LocalBytes are memory of each group. `block`, `grid` and `dynamic`: threads of a group, groups, bytes of dynamic shared
    memory. `restore`: positions of arrays that a call changes and that must begin as they were. `flags`: the compiler's."""

    function: str = ""
    language: str = "c"
    order: tuple[int | bytes | LocalBytes, ...] = ()
    types: tuple[str, ...] = ()
    block: Three = (1, 1, 1)
    grid: Three = (1, 1, 1)
    dynamic: int = 0
    restore: tuple[int, ...] = ()
    flags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each array."""
        import math

        return tuple(math.prod(d for d in p.shape if isinstance(d, int)) * p.dtype.size for p in self.params)


def signature(spec: SourceSpec, at: At, flags: tuple[str, ...]) -> SourceSignature:
    """How the configuration at a point is called. Raises UsageError for expressions without a sensible value there."""
    values = spec.values(at)
    places = {a.name: i for i, a in enumerate(spec.arrays)}
    params = tuple(Param(a.name, a.dtype, a.extents(spec.sizes), "out" if a.written else "in") for a in spec.arrays)
    order = tuple(_passed(a, values, places, spec) for a in spec.arguments)
    gpu = spec.language in ("opencl", "cuda")
    launch = spec.launch
    block = [e.whole(values, "launch: block", 1) for e in launch.block] if gpu else []
    grid = [e.whole(values, "launch: grid", 1) for e in launch.grid] if gpu else []
    return SourceSignature(
        name=spec.function,
        params=params,
        symbols=(),
        items=(),
        scratch=0,
        work=0,
        function=spec.function,
        language=spec.language,
        order=order,
        types=tuple(a.dtype.name for a in spec.arguments),
        block=_three(block),
        grid=_three(grid),
        dynamic=launch.shared.whole(values, "launch: shared") if gpu and launch.shared is not None else 0,
        restore=tuple(places[a.name] for a in spec.arrays if a.role == "inout"),
        flags=flags,
        folders=tuple(str(p) for p in (spec.folder, *spec.include_folders())),
    )


def _passed(a: SourceArgument, values: Mapping[str, Any], places: Mapping[str, int], spec: SourceSpec) -> int | bytes | LocalBytes:
    if spec.language != "opencl" and (a.local or a.more):
        what = 'role = "local" is for __local pointers' if a.local else "vectors as values are for kernels"
        raise UsageError(f"argument {a.name}: {what} of OpenCL, and this is {spec.language}")
    if a.local:
        return LocalBytes(prod(a.extents(values)) * a.dtype.size)
    return scalar(a, values) if a.scalar else places[a.name]


def _three(given: Sequence[int]) -> Three:
    x, y, z, *_ = (*given, 1, 1, 1)
    return x, y, z


def check_group(s: SourceSignature, most: int, name: str) -> None:
    """Raise BuildError for a group that the device does not take."""
    count = s.block[0] * s.block[1] * s.block[2]
    if count > most:
        shape = "x".join(map(str, s.block))
        raise BuildError(
            f"the block is {shape} = {count} threads and {name} takes at most {most}: add a restriction such as 'block_size_x <= {most}'"
        )


def word(s: SourceSignature, value: int | bytes | LocalBytes, pointers: Sequence[int]) -> int | bytes:
    """An argument's value in a call with these pointers. Raises UsageError where their number is wrong."""
    if len(pointers) != len(s.params):
        raise UsageError(f"{s.name} takes {len(s.params)} arrays, not {len(pointers)}")
    assert not isinstance(value, LocalBytes)  # `signature` has refused it
    return pointers[value] if isinstance(value, int) else value


def number(data: bytes) -> int:
    """A scalar's bytes as a whole number of the same bits."""
    return int(struct.unpack("<q", data.ljust(8, b"\0"))[0])


CALL = "tilewright_call"
"""The function that is appended to C: it takes the addresses of all arguments."""


# source arguments -------------------------------------------------------------------------------------------
# The arguments of a function: arrays and scalars, how large they are, and how their values are made.


ROLES = ("in", "out", "inout", "local")
VECTORS = (2, 3, 4, 8, 16)
"""Components of OpenCL's vectors; three lie in the room of four."""
MAKES = ("normal", "uniform", "integers", "zeros", "ones", "fill", "arange", "file", "raw")
"""How the values of an array may be made."""
RANDOM = ("normal", "uniform", "integers")


@dataclass(frozen=True)
class SourceArgument:
    """One argument, in the order of the call.

    An array has a `shape`, a `role` and a way in which its values are made: `how`, with `low` and `high` (of uniform and
    integers), `fill`, or `path` (a .npy file, or raw bytes). A scalar has no shape but a `value`: an expression of sizes and
    parameters; a vector of OpenCL's has `more` of them. A 'local' one is memory that the threads of a group share (OpenCL's __local),
    of a shape of sizes and parameters. An 'out' array begins as what no kernel would write, so every element must be written; an 'inout' one
    begins as it is made, each time. `check` false: what it holds afterwards is not looked at."""

    name: str
    dtype: DType
    shape: tuple[Expression, ...] | None = None
    role: str = "in"
    how: str = "normal"
    low: float = 0.0
    high: float = 1.0
    fill: float = 0.0
    path: str = ""
    value: Expression | None = None
    check: bool = True
    more: tuple[Expression, ...] = ()

    @property
    def local(self) -> bool:
        """Whether it is memory of each group, and no array of a call."""
        return self.role == "local"

    @property
    def scalar(self) -> bool:
        """Whether it is passed by value."""
        return self.shape is None

    @property
    def written(self) -> bool:
        """Whether the function writes it."""
        return not self.scalar and self.role in ("out", "inout")

    def extents(self, sizes: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape in numbers. Raises UsageError."""
        return tuple(e.whole(sizes, f"argument {self.name}: the extent", 1) for e in self.shape or ())

    def about(self) -> list[Any]:
        """Plain data that identifies it, file contents included by their hash."""
        shape = None if self.shape is None else [e.text for e in self.shape]
        value: Any = None if self.value is None else self.value.text
        if self.more:
            value = [value, *(e.text for e in self.more)]
        made = [self.how, self.low, self.high, self.fill, _digest(self.path) if self.path else ""]
        return [self.name, self.dtype.name, shape, self.role, made, value, self.check]


def _digest(path: str) -> str:
    import hashlib

    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None


def make(a: SourceArgument, position: int, sizes: Mapping[str, Any], seed: int) -> Array:
    """The array's first values, C-contiguous: the same for the same seed. Raises UsageError for a file that does not fit."""
    import numpy as np

    dims = a.extents(sizes)
    rng = np.random.default_rng([seed, position])
    found: Any
    if a.how == "normal":
        found = rng.standard_normal(dims, dtype=np.float64 if a.dtype.size == 8 else np.float32)
    elif a.how == "uniform":
        found = a.low + (a.high - a.low) * rng.random(dims, dtype=np.float64 if a.dtype.size == 8 else np.float32)
    elif a.how == "integers":
        found = rng.integers(int(a.low), int(a.high), dims, endpoint=True, dtype=np.int64)
    elif a.how == "arange":
        found = np.arange(int(np.prod(dims))).reshape(dims)
    elif a.how in ("file", "raw"):
        found = _from_file(a, dims)
    else:
        found = np.full(dims, {"zeros": 0, "ones": 1}.get(a.how, a.fill))
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(np.asarray(found).astype(a.dtype.np))


def _from_file(a: SourceArgument, dims: tuple[int, ...]) -> Array:
    import numpy as np

    try:
        raw = a.how == "raw"
        found: Array = np.fromfile(a.path, a.dtype.np) if raw else np.load(a.path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"argument {a.name}: {a.path} is no array that can be read: {e}") from None
    count = int(np.prod(dims))
    if found.size != count or (a.how == "file" and found.ndim > 1 and found.shape != dims):
        raise UsageError(f"argument {a.name}: {a.path} holds {found.shape}, and the argument is {dims}: give that shape")
    if a.how == "file" and found.dtype != a.dtype.np:
        raise UsageError(f"argument {a.name}: {a.path} holds {found.dtype}, and the argument is {a.dtype.name}: save it as that type")
    return found.reshape(dims)


def scalar(a: SourceArgument, values: Mapping[str, Any]) -> bytes:
    """The bytes of a scalar's value, or a vector's. Raises UsageError where its type does not hold it."""
    assert a.value is not None
    parts = [_number(a, e(values)) for e in (a.value, *a.more)]
    return b"".join(parts + parts[:1] * (len(parts) == 3))


def _number(a: SourceArgument, found: Any) -> bytes:
    import numpy as np

    if not isinstance(found, (int, float)):
        raise UsageError(f"argument {a.name}: its value {found!r} is no number")
    if a.dtype.is_int and (not math.isfinite(found) or found != int(found)):
        raise UsageError(f"argument {a.name}: its value is {found}, and {a.dtype.name} holds whole numbers only")
    try:
        wide = bool(found) if a.dtype.kind == "b" else found if a.dtype.is_float else int(found)
        return np.array([wide], dtype=None if a.dtype.is_float else a.dtype.np).astype(a.dtype.np).tobytes()
    except OverflowError:
        raise UsageError(f"argument {a.name}: {found} is more than {a.dtype.name} holds") from None
