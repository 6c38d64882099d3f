"""Artefacts on disk, in two levels, so that a warm start neither lowers nor renders nor compiles.

    plan/KEY      kernel × options × target × code of the tool → the source's SHA-256, signature, effects
    text/SHA      the source
    object/KEY    source × compiler → the object
    start/KEY     kernel × target × threads × code → the options of the start schedule
    jit/KEY       a captured graph × target × threads × code × state of the cache → its list of calls

An entry is one file: a line with the SHA-256 of the rest, then the rest. It is written to a temporary name and renamed; what does
not match its checksum is removed and made again.

Objects in it are run, so the store counts only where this user owns it and nobody else may write in it, or put
another in its place (`files.owned`); so does each file, which is asked when it is open. Where that is not so, nothing
is read or kept, and code is made in memory."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache.file_check import CacheWarning
from ..cache.version import tool_version
from ..files import folders, owned
from ..files.strict import Codec, canon
from ..ir.dtypes import DType, dtype, index
from ..ir.errors import TilewrightError
from ..ir.kernel import Kernel
from ..ir.node import Node, SymInfo, const, make
from ..ir.normal_form import normalise
from ..log import logger
from ..program.program import Signature
from ..renderers import Source
from .identity import source_key

if TYPE_CHECKING:
    from ..devices import Device
    from ..opts.opt import Opt
    from ..targets import Target


# signatures -------------------------------------------------------------------------------------------------------
_OPS = ("sum", "prod", "div", "mod", "min", "max")


def _as_json(x: Node) -> Any:
    """An index expression over symbols as plain data."""
    if x.op == "const":
        return ["const", int(x.arg)]
    if x.op == "sym":
        return ["sym", x.arg.name, x.arg.lo, x.arg.hi]
    if x.op not in _OPS:
        raise ValueError(f"a signature cannot hold {x!r}")
    arg = [list(x.arg[0]), x.arg[1]] if x.op == "sum" else x.arg
    return [x.op, arg, [_as_json(s) for s in x.src]]


def _index(data: Any) -> Node:
    op, *rest = data
    if op == "const":
        return const(int(rest[0]))
    if op == "sym":
        return make("sym", index, (), SymInfo(str(rest[0]), int(rest[1]), int(rest[2])))
    if op not in _OPS:
        raise ValueError(f"unknown operation {op!r} in a signature")
    arg, operands = rest
    if op == "sum":
        coefficients, constant = arg
        arg = (tuple(int(c) for c in coefficients), int(constant))
    elif op in ("div", "mod"):
        arg = int(arg)
    return make(op, index, tuple(map(_index, operands)), arg)


_SIGNATURES = Codec({Node: (_as_json, _index), DType: (lambda t: t.name, dtype)})


def encode_signature(signature: Signature) -> Any:
    """Plain data that `decode_signature` turns back into an equal signature: nothing that is read from disk is unpickled."""
    return _SIGNATURES.plain(signature)


def decode_signature(data: Any) -> Signature:
    """The signature; raises ValueError for data that is not one."""
    return _SIGNATURES.read(Signature, data)


# the store --------------------------------------------------------------------------------------------------------
MAGIC = b"tilewright artefact 1 "
LIMIT = 512 << 20
"""Bytes the store may hold; the least recently used entries go first."""
_TOUCH_S = 3600.0
"""An entry's use is noted when the last note is older than this: reading costs no write otherwise."""
_TRIM_EVERY = 128
"""Writes of this process after which a store is looked through."""
_TRIM_S = 3600.0
"""It is looked through at the first write as well, when nobody did for so long: it may hold tens of thousands of files."""
_LOOKED = ".trimmed"
_writes: Counter[Path] = Counter()


@dataclass(frozen=True, slots=True)
class Rendered:
    """Source of a schedule. `scheduled_hash` is equal for schedules with the same loops; `lower_s` (apply and lower) and `render_s`
    are seconds, 0.0 where the source came from the artefact store."""

    opts: tuple[Opt, ...]
    source: Source
    effects: frozenset[str]
    scheduled_hash: str
    lower_s: float
    render_s: float

    @property
    def sha(self) -> str:
        """SHA-256 of the source."""
        return self.source.sha

    @property
    def signature(self) -> Signature:
        """How to call it."""
        return self.source.signature

    def built(self, obj: bytes, build_s: float) -> Built:
        """The artefact with the object that the device's compiler made of the source, and the seconds it took."""
        return Built(self.opts, self.source, self.effects, self.scheduled_hash, self.lower_s, self.render_s, obj, build_s)


@dataclass(frozen=True, slots=True)
class Built(Rendered):
    """A schedule as an object that `Device.load` takes. `build_s`: seconds, 0.0 from the artefact store."""

    obj: bytes
    build_s: float


class Artefacts:
    """The store in `folder`. Never raises for a bad or full disk: it warns once and behaves as if empty. Safe for many processes."""

    def __init__(self, folder: str | os.PathLike[str], limit: int = LIMIT) -> None:
        self.folder, self.limit = Path(folder), limit
        self._warned = False
        self._checked: bool | None = None

    @classmethod
    def default(cls) -> Artefacts:
        """The store in the platform's cache folder, e.g. ~/.cache/tilewright/artefacts."""
        return cls(folders.made() / "artefacts")

    # level one --------------------------------------------------------------------------------------------------------
    def source(self, key: str, opts: tuple[Opt, ...], target: Target) -> Rendered | None:
        """What `put_source` kept under `key` (see `identity.source_key`)."""
        data = self._get("plan", key)
        if data is None:
            return None
        try:
            head = json.loads(data)
            sha, text = str(head["sha"]), self._get("text", str(head["sha"]))
            if text is None:
                raise ValueError("the text is gone")
            source = Source(text.decode(), target.lang, target, decode_signature(head["signature"]))
            if source.sha != sha:
                raise ValueError("the text does not belong to this entry")
            return Rendered(opts, source, frozenset(map(str, head["effects"])), str(head["scheduled"]), 0.0, 0.0)
        except (ValueError, TypeError, KeyError, TilewrightError):
            self._remove(self._path("plan", key))  # of another version, damaged, or its text was trimmed: it is made again
            return None

    def put_source(self, key: str, rendered: Rendered) -> None:
        """Keep a rendered source."""
        sha = rendered.sha
        head = {
            "sha": sha,
            "signature": encode_signature(rendered.signature),
            "effects": sorted(rendered.effects),
            "scheduled": rendered.scheduled_hash,
        }
        self._put("text", sha, rendered.source.text.encode())
        self._put("plan", key, canon(head).encode())

    def start(self, key: str) -> str | None:
        """The start schedule (options as JSON) that was found under `key`: trying all of them takes tens of milliseconds."""
        data = self._get("start", key)
        return None if data is None else data.decode()

    def put_start(self, key: str, opts: str) -> None:
        """Keep a start schedule."""
        self._put("start", key, opts.encode())

    def head(self, key: str) -> tuple[str, Signature] | None:
        """(SHA-256 of the source, signature) of what `put_source` kept, without reading the source."""
        data = self._get("plan", key)
        if data is None:
            return None
        try:
            head = json.loads(data)
            return str(head["sha"]), decode_signature(head["signature"])
        except (ValueError, TypeError, KeyError, TilewrightError):
            self._remove(self._path("plan", key))
            return None

    def record(self, kind: str, key: str) -> str | None:
        """A text of another kind that `put_record` kept."""
        data = self._get(kind, key)
        return None if data is None else data.decode()

    def put_record(self, kind: str, key: str, text: str) -> None:
        """Keep a text of another kind; `key` are hex digits."""
        self._put(kind, key, text.encode())

    # level two --------------------------------------------------------------------------------------------------------
    def object(self, sha: str, compiler: str) -> bytes | None:
        """The object a compiler made of a source."""
        return self._get("object", _object_key(sha, compiler))

    def put_object(self, sha: str, compiler: str, obj: bytes) -> None:
        """Keep an object."""
        self._put("object", _object_key(sha, compiler), obj)

    # files --------------------------------------------------------------------------------------------------------------
    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def _ours(self) -> bool:
        """Whether the store may be used, asked once. Raises OSError, FileNotFoundError before there is one."""
        if self._checked is None:
            why = owned.why_not(self.folder)
            self._checked = why is None
            if why is not None:
                self._tell(
                    f"the artefact store {self.folder} is not used, because {why}: compiled code is run from folders that only you can write. Every start compiles "
                    "again until that is mended (chmod 700), or XDG_CACHE_HOME names a folder of your own"
                )
        return self._checked

    def _get(self, kind: str, key: str) -> bytes | None:
        path = self._path(kind, key)
        try:
            if not self._ours():
                return None
            if not (owned.is_own(path.parent.parent) and owned.is_own(path.parent)):
                raise owned.NotOurs(errno.EPERM, f"others can write {path.parent}", str(path))
            try:
                data = owned.read(path)
            except owned.NotOurs:
                self._remove(path)  # put there by somebody else, while others could
                return None
            head, _, rest = data.partition(b"\n")
            if head != MAGIC + _digest(kind, key, rest):
                self._remove(path)
                return None
            if time.time() - path.stat().st_mtime > _TOUCH_S:
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as e:
            self._warn(e)
            return None
        return rest

    def _put(self, kind: str, key: str, rest: bytes) -> None:
        path = self._path(kind, key)
        try:
            if self._checked is None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._ours():
                return
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
                if not owned.is_own(folder):
                    raise owned.NotOurs(errno.EPERM, f"others can write {folder}", str(path))
            if path.exists():
                return
            fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(fd, "wb") as f:
                    f.write(MAGIC + _digest(kind, key, rest) + b"\n" + rest)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            _writes[self.folder] += 1
            if _writes[self.folder] % _TRIM_EVERY == 0 or (_writes[self.folder] == 1 and self._due()):
                self.trim()
        except OSError as e:
            self._warn(e)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as e:
            self._warn(e)

    def _warn(self, error: OSError) -> None:
        self._tell(
            f"the artefact store {self.folder} cannot be used ({error.strerror}); every start compiles again until there is room and permission"
        )

    def _tell(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(text, CacheWarning, stacklevel=4)

    def _due(self) -> bool:
        """Whether nobody has looked through the store lately."""
        try:
            return time.time() - (self.folder / _LOOKED).stat().st_mtime > _TRIM_S
        except FileNotFoundError:
            return True

    def trim(self) -> int:
        """Remove the least recently used entries, and what interrupted writers left, until the store holds 80 % of its limit (if
        it is past it). Returns the bytes removed."""
        try:
            if not self._ours():
                return 0
        except OSError:
            return 0  # there is none
        try:
            (self.folder / _LOOKED).touch(mode=0o600)
        except OSError as e:
            self._warn(e)
        entries: list[tuple[float, int, Path]] = []
        now, removed = time.time(), 0
        for top, _, files in os.walk(self.folder):
            for name in files:
                path = Path(top) / name
                if name == _LOOKED:
                    continue
                try:
                    st = path.stat()
                except FileNotFoundError:
                    continue
                if name.startswith(".new-") and now - st.st_mtime > _TOUCH_S:
                    removed += st.st_size
                    self._remove(path)
                else:
                    entries.append((st.st_mtime, st.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return removed
        for _, size, path in sorted(entries):
            if total <= self.limit * 4 // 5:
                break
            self._remove(path)
            total -= size
            removed += size
        return removed


def _digest(kind: str, key: str, rest: bytes) -> bytes:
    """Over the content and its place: an entry under another's name is none."""
    return hashlib.sha256(f"{kind}\0{key}\0".encode() + rest).hexdigest().encode()


def _object_key(sha: str, compiler: str) -> str:
    return hashlib.sha256(f"{sha}\0{compiler}".encode()).hexdigest()


# compile ----------------------------------------------------------------------------------------------------
# Options to object: apply → lower → render → build, with the artefact store in front.


log = logger("plan")


def render(kernel: Kernel, opts: Iterable[Opt], device: Device, store: Artefacts | None = None) -> Rendered:
    """The source of a schedule of `kernel` as it is given. The store knows only kernels in normal form
    (`ir.normal_form.normalise`). Raises OptError for options that are not legal here, BuildError where they cannot be
    rendered."""
    opts, target = tuple(opts), device.target
    key = ""
    if store is not None and normalise(kernel) is kernel:
        key = source_key(kernel, opts, target, tool_version())
        found = store.source(key, opts, target)
        if found is not None:
            return found
    from ..lower import lower_once
    from ..opts import apply
    from ..renderers import render as to_source

    begin = time.perf_counter()
    scheduled = apply(kernel, opts, target)
    program = lower_once(scheduled)
    middle = time.perf_counter()
    source = to_source(program, target)
    rendered = Rendered(opts, source, scheduled.effects, scheduled.hash, middle - begin, time.perf_counter() - middle)
    if store is not None and key:
        store.put_source(key, rendered)
    return rendered


def build(rendered: Rendered, device: Device, store: Artefacts | None = None) -> Built:
    """The object of a source. Raises BuildError."""
    sha, compiler = rendered.sha, device.compiler_id()
    obj = store.object(sha, compiler) if store is not None else None
    seconds = 0.0
    if obj is None:
        begin = time.perf_counter()
        obj = device.build(rendered.source)
        seconds = time.perf_counter() - begin
        log.debug("source %.12s: %d bytes of object by %s in %.3g ms", sha, len(obj), compiler, 1e3 * seconds)
        if store is not None:
            store.put_object(sha, compiler, obj)
    return rendered.built(obj, seconds)


def compile(kernel: Kernel, opts: Iterable[Opt], device: Device, store: Artefacts | None = None) -> Built:
    """`render`, then `build`. Without a store nothing is read from or written to disk."""
    return build(render(kernel, opts, device, store), device, store)
