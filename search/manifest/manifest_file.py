"""A manifest: which kernels, shapes and element types a project wants tuned, for which targets. `docs/ci.md` shows one.

    [targets.ci]                      # a name of your own
    device = "cpu"
    target = "znver5"                 # a name of `tune show --target`, host, or a target key, in which * stands for anything
    threads = 4

    [defaults]
    dtypes = ["float32"]

    [[kernel]]
    name = "matmul"
    shapes = ["m=1024,n=1024,k=1024", { m = 64, n = 64, k = 64 }]

An entry is one kernel at one shape and element type for one target. Reading is strict: an unknown key, a wrong type
or a kernel that cannot be made is an error that names the line, before anything is tuned. Files that it names are
below its folder, links followed, unless its reader trusts it; whoever only looks runs none of them (see
`manifest_lock`)."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...cache.keys import Numerics, allowed, for_text, policy, with_numerics
from ...cache.objective_types import TIME, objective
from ...files.plugins import is_path
from ...files.write_file import decoded
from ...ir.argument_checks import LARGEST
from ...ir.errors import OptError, TilewrightError, UsageError
from ...ir.fixed_sums import fixed
from ...ir.normal_form import normalise
from ...opts.opt import parse
from .. import strategy as strategies
from ..budget import parse_seconds
from . import lock as locks

if TYPE_CHECKING:
    from ...ir.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Place:
    """A target of the manifest. `target`: a name, 'host', or a target key with * for anything; `compiler`: a compiler
    id, likewise (None: what this installation has, where that does not take the device, else any). `threads` None:
    the device's own number."""

    name: str
    device: str = "cpu"
    target: str = "host"
    threads: int | None = None
    compiler: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to tune. `kernel` is a name or `file.py:function`; `shape` is whole; `dtype` '' means what the
    function makes. `numerics` 'fixed': `made` has one order of its sums. `budget` is the most seconds, `trials` the most measurements it may take (None: no limit of its
    own). `made` is the kernel, None for that of a file which was not run: then the lock's `record` knows its hash, or
    `why` says why nobody does. `given`: the kernel itself, where no name makes it again. `weight`: its part of a budget
    that all share is in proportion to it."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    place: Place
    line: int
    budget: float | None = None
    trials: int | None = None
    strategy: str | None = None
    start: str = "auto"
    random_seed: int = 0
    objective: str = TIME
    numerics: Numerics = "free"
    made: Kernel | None = field(default=None, compare=False, repr=False)
    record: locks.Record | None = field(default=None, compare=False, repr=False)
    why: str = field(default="", compare=False, repr=False)
    given: Kernel | None = field(default=None, compare=False, repr=False)
    weight: float = 1.0

    @property
    def tuned(self) -> str | Kernel:
        """What `tune` is asked for."""
        return self.given or self.kernel

    @property
    def title(self) -> str:
        """`matmul m=64,n=64,k=64 float32 for ci`."""
        shape = ",".join(f"{k}={v}" for k, v in self.shape.items())
        return " ".join(filter(None, (self.kernel, shape, self.dtype, "for", self.purpose)))

    @property
    def purpose(self) -> str:
        """`ci, for energy`: where it is tuned, and for what."""
        return self.place.name + for_text(self.objective, self.policy)

    @property
    def policy(self) -> str:
        """That of its key."""
        return policy(allowed(with_numerics((), self.numerics)))


@dataclass(frozen=True, slots=True)
class Manifest:
    """`entries` in the order of the file."""

    path: str
    places: tuple[Place, ...]
    entries: tuple[Entry, ...]

    def only(self, names: Sequence[str] | None) -> Manifest:
        """The part for some of its targets; all of it for none. Raises UsageError for a name that is not there."""
        if not names:
            return self
        known = [p.name for p in self.places]
        for name in names:
            if name not in known:
                raise UsageError(f"{self.path} has no target {name!r}{near(name, known)}; it has {', '.join(known)}")
        places = tuple(p for p in self.places if p.name in names)
        return Manifest(self.path, places, tuple(e for e in self.entries if e.place in places))


def sizes_of(kernel: Kernel) -> dict[str, int]:
    """The extents of a kernel's axes by name, as the shape of its entry; those that are symbols are left out."""
    found = {family: axes[0].arg.extent for family, axes in normalise(kernel).families.items()}
    return {family: extent for family, extent in found.items() if isinstance(extent, int)}


def near(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?` where a known name is near, else nothing."""
    found = get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]\]?\s*(#.*)?$")


class Lines:
    """Line numbers of tables and of the keys directly in them. A guess for text that is laid out oddly; never more
    than a message depends on it."""

    def __init__(self, text: str) -> None:
        self._tables: dict[tuple[str, int], int] = {("", 0): 1}
        self._keys: dict[tuple[str, int, str], int] = {}
        counts: dict[str, int] = {}
        at = ("", 0)
        for number, line in enumerate(text.splitlines(), 1):
            header = _HEADER.match(line)
            if header:
                name = header[2]
                at = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
                self._tables[at] = number
            elif key := re.match(r"\s*([\w\-]+|\"[^\"]*\"|'[^']*')\s*=", line):
                self._keys.setdefault((*at, key[1].strip("\"'")), number)

    def of(self, table: str, index: int = 0, key: str = "") -> int:
        """The line of a key in the `index`-th table of that name; of the table's header where the key is not found."""
        return self._keys.get((table, index, key)) or self._tables.get((table, index)) or self._keys.get(("", 0, table)) or 1


Files = Literal["none", "inside", "all"]
"""Which files of a manifest may run: none (what their kernels are is told from the lock), those below its folder, all."""
MAX_TEXT = 1000
"""Characters of a device, target or compiler."""
MAX_BYTES = 1 << 20
MAX_ENTRIES = 10_000
HOW = ("budget", "trials", "strategy", "objective", "numerics", "start", "random-seed")
"""How an entry is tuned: keys of [defaults] that a [[kernel]] may override."""
_TABLES = {
    "": ("defaults", "targets", "kernel"),
    "defaults": ("targets", "dtypes", *HOW),
    "target": ("device", "target", "threads", "compiler"),
    "kernel": ("name", "shapes", "dtypes", "targets", *HOW),
}


def load(path: str | os.PathLike[str], files: Files = "inside") -> Manifest:
    """Read a manifest file. Raises UsageError naming file, line and entry."""
    shown, text, data = toml(path)
    return read(shown, text, data, files)


def toml(path: str | os.PathLike[str]) -> tuple[str, str, dict[str, Any]]:
    """(its name, its text, its data) of a TOML file. Raises UsageError."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as f:
            raw = f.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{shown} is larger than a manifest may be ({MAX_BYTES} bytes)")
        text = decoded(raw)
        data = tomllib.loads(text)
    except OSError as e:
        raise UsageError(f"cannot read the manifest {shown}: {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{shown} is not a manifest: {e or 'nested too deeply'} (it is TOML; see docs/ci.md)") from None
    return shown, text, data


def read(shown: str, text: str, data: dict[str, Any], files: Files = "inside") -> Manifest:
    """The manifest that `data` is. `shown`: the file's name, and `text` what it holds, for messages. Raises UsageError."""
    return _Reader(shown, Lines(text), files).read(data)


class _Reader:
    def __init__(self, path: str, lines: Lines, files: Files) -> None:
        self.path, self.folder, self.lines, self.files = path, Path(path).parent, lines, files
        self._locked: dict[tuple[Any, ...], locks.Record] | None = None

    def read(self, data: dict[str, Any]) -> Manifest:
        self._known("", data, lambda key: self._fail(self.lines.of("", 0, key), "top level"))
        defaults = self._table(data.get("defaults", {}), "defaults")
        self._known("defaults", defaults, lambda key: self._fail(self.lines.of("defaults", 0, key), "[defaults]"))
        places = self._places(data.get("targets", {}))
        kernels = data.get("kernel", [])
        if not isinstance(kernels, list) or not all(isinstance(k, dict) for k in kernels):
            raise self._fail(self.lines.of("kernel"), "kernel")("write each kernel as a table of its own, under [[kernel]]")
        entries: list[Entry] = []
        for i, k in enumerate(kernels):
            entries += self._entries(i, k, defaults, places)
            if len(entries) > MAX_ENTRIES:
                raise UsageError(f"{self.path}: more than {MAX_ENTRIES} entries")
        if not entries:
            raise UsageError(f'{self.path} names no kernel: add a [[kernel]] with name = "matmul" (see docs/ci.md)')
        seen: dict[tuple[Any, ...], Entry] = {}
        for e in entries:
            twin = seen.setdefault((e.kernel, tuple(e.shape.items()), e.dtype, e.place.name, e.objective, e.numerics), e)
            if twin is not e:
                raise self._fail(e.line, e.title)("the same entry stands on line " + str(twin.line))
        return Manifest(self.path, tuple(places.values()), tuple(entries))

    def _places(self, tables: Any) -> dict[str, Place]:
        out = {}
        for name, t in self._table(tables, "targets").items():
            where = f"targets.{name}"
            fail = self._failer(where, 0, f"[{where}]")
            self._known("target", self._table(t, where), fail)
            for key in ("device", "target", "compiler"):
                if key in t and (not isinstance(t[key], str) or not 0 < len(t[key]) <= MAX_TEXT):
                    raise fail(key)(f"{key} must be a text of at most {MAX_TEXT} characters")
            threads = t.get("threads")
            if "threads" in t and (type(threads) is not int or threads < 1):
                raise fail("threads")("threads must be a whole number of at least 1")
            device = t.get("device", "cpu")
            if ".py:" in device:
                self._inside(device.rpartition(":")[0], fail("device"))
                device = str(self.folder / device)
            out[name] = Place(name, device, t.get("target", "host"), threads, t.get("compiler"))
        return out or {"host": Place("host")}

    def _entries(self, i: int, k: dict[str, Any], defaults: dict[str, Any], places: dict[str, Place]) -> list[Entry]:
        name = k.get("name")
        fail = self._failer("kernel", i, f"[[kernel]] {i + 1}{f' ({name})' if isinstance(name, str) else ''}")
        self._known("kernel", k, fail)
        if not isinstance(name, str) or not name:
            raise fail("name")('name = "matmul" is missing: a kernel of `tune kernels`, or file.py:function')
        both = {**defaults, **k}
        chosen = [places[p] for p in self._names(both, "targets", fail, list(places)) or places]
        dtypes: list[str] | list[None] = self._names(both, "dtypes", fail, None) or [None]
        how = self._how(both, fail)
        out = []
        for shape in self._shapes(k, fail):
            for dtype in dtypes:
                made = self._make(name, shape, dtype, how, fail)
                out += [Entry(**made, place=p, line=self.lines.of("kernel", i), **how) for p in chosen]
        return out

    def _make(
        self,
        name: str,
        shape: dict[str, int] | None,
        dtype: str | None,
        how: Mapping[str, Any],
        fail: Callable[[str], Callable[[str], UsageError]],
    ) -> dict[str, Any]:
        """What an Entry says of its kernel, which is tuned as `how` says."""
        from ... import named_kernels

        numerics: Numerics = how.get("numerics", "free")
        try:
            if named_kernels.is_path(name):
                said = self._file(name, shape or {}, dtype, numerics, fail("name"))
            else:
                d = named_kernels.get(name)
                said = {"kernel": name, "shape": d.complete(shape), "dtype": d.dtype(dtype).name, "made": d.kernel(shape, dtype)}
            return {**said, "made": fixed(said["made"])} if numerics == "fixed" and "made" in said else said
        except TilewrightError as e:
            if isinstance(e, UsageError):
                raise
            raise fail("shapes" if shape else "name")(str(e)) from None

    def _file(
        self, name: str, shape: dict[str, int], dtype: str | None, numerics: Numerics, fail: Callable[[str], UsageError]
    ) -> dict[str, Any]:
        """The same for `file.py:function`: the file is run where it may, else it is looked up in the lock."""
        from ... import named_kernels

        base = named_kernels.split_name(name)[0]
        file, _ = named_kernels.split_path(base)
        self._inside(file, fail)
        try:
            here = locks.Record(name, shape, dtype or "", locks.sha256(self.folder / file), kernel="", numerics=numerics)
        except FileNotFoundError:
            raise fail(f"there is no file {self.folder / file}") from None
        except (OSError, ValueError) as e:
            raise fail(f"cannot read {self.folder / file}: {getattr(e, 'strerror', None) or e}") from None
        path = f"{self.folder / file}{name[len(file) :]}"
        said: dict[str, Any] = {"kernel": path, "shape": shape, "dtype": dtype or ""}
        if self.files != "none":
            return {**said, "made": named_kernels.make(path, shape or None, dtype), "record": here}
        if self._locked is None:
            self._locked = locks.read(self.path)
        known = self._locked.get(here.entry)
        mend = f"tune run --manifest {self.path} where the file is trusted, which writes {locks.path_of(self.path).name} again, or add --trust to run it"
        if known is None:
            return {**said, "why": f"the lock does not know what {file} makes: {mend}"}
        if known.sha256 != here.sha256:
            return {**said, "why": f"the kernel file {file} changed since the lock was written: {mend}"}
        return {**said, "record": known}

    def _placed(self, said: Any, fail: Callable[[str], UsageError]) -> Any:
        """What is said, but `file.py:thing` with the file's place, which is where kernels' files may lie."""
        file, _, thing = said.rpartition(":") if isinstance(said, str) else ("", "", "")
        if not file.endswith(".py"):
            return said
        self._inside(file, fail)
        return f"{self.folder / file}:{thing}"

    def _inside(self, file: str, fail: Callable[[str], UsageError]) -> None:
        """A file's place: below the manifest's folder, links followed, unless the manifest is trusted."""
        if self.files == "all":
            return
        try:
            outside = not (self.folder / file).resolve().is_relative_to(self.folder.resolve())
        except (OSError, ValueError, RuntimeError) as e:
            raise fail(f"{file!r} is no path ({e})") from None
        if outside:
            raise fail(f"{file} is not below the manifest's folder: move it there, or add --trust if you trust all that the manifest names")

    def _shapes(self, k: dict[str, Any], fail: Callable[[str], Callable[[str], UsageError]]) -> list[dict[str, int] | None]:
        from ...named_kernels import parse_shape

        if "shapes" not in k:
            return [None]
        found: list[dict[str, int] | None] = []
        if not isinstance(k["shapes"], list) or not k["shapes"]:
            raise fail("shapes")('shapes must be a list such as ["m=64,n=64"] or [{ m = 64, n = 64 }]')
        for s in k["shapes"]:
            if isinstance(s, str):
                try:
                    found.append(parse_shape(s))
                except TilewrightError as e:
                    raise fail("shapes")(str(e)) from None
            elif isinstance(s, dict) and all(type(v) is int and v >= 0 for v in s.values()):
                found.append(s)
            else:
                raise fail("shapes")(f'cannot read {s!r} as a shape; write "m=64,n=64" or {{ m = 64, n = 64 }}')
        return found

    def _names(
        self, both: dict[str, Any], key: str, fail: Callable[[str], Callable[[str], UsageError]], known: list[str] | None
    ) -> list[str]:
        found = both.get(key, [])
        # no element types: as the kernel makes it, which is how a file's function without a dtype is named where there is a default
        if not isinstance(found, list) or not all(isinstance(x, str) for x in found) or (key in both and not found and known):
            raise fail(key)(f'{key} must be a list of names, such as ["{(known or ["float32"])[0]}"]')
        for x in found:
            if known is not None and x not in known:
                raise fail(key)(f"unknown target {x!r}{near(x, known)}; the manifest has {', '.join(known)}")
        return list(dict.fromkeys(found))

    def _how(self, both: dict[str, Any], fail: Callable[[str], Callable[[str], UsageError]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        both = both | {key: self._placed(both[key], fail(key)) for key in ("objective", "strategy") if key in both}
        unrun = {key for key in ("objective", "strategy") if self.files == "none" and isinstance(both.get(key), str) and is_path(both[key])}
        if "objective" in unrun:
            raise fail("objective")(f"{both['objective']} is not run to ask for its name: name a package's entry point, or add --trust")
        try:
            if "budget" in both:
                out["budget"] = parse_seconds(both["budget"])
            if "objective" in both:
                said = both["objective"]
                out["objective"] = objective([str(x) for x in said] if isinstance(said, list) else str(said))
            if "strategy" in both:
                asked = both["strategy"] if isinstance(both["strategy"], str) else repr(both["strategy"])
                out["strategy"] = asked if "strategy" in unrun else strategies.check(asked)
        except UsageError as e:
            at = next((k for k in ("budget", "objective") if k in both and k not in out), "strategy")
            raise fail(at)(str(e)) from None
        for key, least in (("trials", 1), ("random-seed", 0)):
            if key in both:
                if type(both[key]) is not int or not least <= both[key] <= LARGEST:
                    raise fail(key)(f"{key} must be a whole number of at least {least} (and of 64 bits)")
                out[key.replace("-", "_")] = both[key]
        if "numerics" in both:
            if both["numerics"] not in get_args(Numerics):
                raise fail("numerics")(f'numerics is "free" or "fixed", not {both["numerics"]!r}')
            out["numerics"] = both["numerics"]
        if "start" in both:
            out["start"] = _start(both["start"], fail("start"))
        return out

    # messages -------------------------------------------------------------------------------------------------------
    def _table(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._fail(self.lines.of("", 0, name), name)(f"must be a table, [{name}]")
        return value

    def _known(self, table: str, value: dict[str, Any], fail: Callable[[str], Callable[[str], UsageError]]) -> None:
        for key in value:
            if key not in _TABLES[table]:
                raise fail(key)(f"unknown key {key!r}{near(key, _TABLES[table])}; known: {', '.join(_TABLES[table])}")

    def _failer(self, table: str, index: int, what: str) -> Callable[[str], Callable[[str], UsageError]]:
        return lambda key: self._fail(self.lines.of(table, index, key), what)

    def _fail(self, line: int, what: str) -> Callable[[str], UsageError]:
        return lambda text: UsageError(f"{self.path}, line {line}, {what}: {text}")


def _start(value: Any, fail: Callable[[str], UsageError]) -> str:
    """What a search begins with, in the words of `tune`: auto, none, or a schedule."""
    if value == "auto":
        return "auto"
    if isinstance(value, str):
        try:
            if value != "none":
                parse(value)
            return value
        except OptError as e:
            raise fail(f'start is "auto", "none" or a schedule: {e}') from None
    raise fail(f'start is "auto", "none" or a schedule such as "Um8 Un32 Pn", not {value!r}')
