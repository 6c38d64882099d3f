"""`kernels.lock.json` beside `kernels.toml`: which kernel each of the manifest's Python files makes, so that looking
up needs to run none of them.

    {"schema":1,"tilewright":"lock","kernels":[
     {"dtype":"","kernel":"<canonical hash>","name":"mine.py:make_kernel","sha256":"<of the file>","shape":{"m":256}}
    ]}

`tune run --manifest` writes it, in an order and form that depend on nothing but its content, for version control.
Reading is strict. A record counts while the file's bytes are those it was told from; what the file imports is not
looked at."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...cache.strict import canon, parse
from ...ir.errors import CacheError, UsageError

SCHEMA = 1
MAX_BYTES = 1 << 24
_SHA = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"dtype": str, "kernel": str, "name": str, "sha256": str, "shape": dict}


@dataclass(frozen=True, slots=True)
class Record:
    """What a file made. `name`, `shape` and `dtype` as the manifest has them ('' where it has no dtype); `sha256` of
    the file's bytes; `kernel`: canonical hash."""

    name: str
    shape: Mapping[str, int]
    dtype: str
    sha256: str
    kernel: str = ""

    @property
    def entry(self) -> tuple[Any, ...]:
        """What it is a record of."""
        return self.name, tuple(sorted(self.shape.items())), self.dtype


def path_of(manifest: str | os.PathLike[str]) -> Path:
    """Where the lock of a manifest is: `kernels.lock.json` for `kernels.toml`."""
    return Path(manifest).with_suffix(".lock.json")


def read(manifest: str | os.PathLike[str]) -> dict[tuple[Any, ...], Record]:
    """The records by entry; none where there is no lock. Raises UsageError for a file that is no lock."""
    path = path_of(manifest)
    try:
        raw = content(path)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    try:
        data = parse(raw.decode(), str(path))
    except (CacheError, ValueError) as e:
        raise _no_lock(path, str(e)) from None
    if (
        not isinstance(data, dict)
        or set(data) != {"schema", "tilewright", "kernels"}
        or data["tilewright"] != "lock"
        or data["schema"] != SCHEMA
    ):
        raise _no_lock(path, "other fields than this version writes")
    records = data["kernels"]
    if not isinstance(records, list) or not all(map(_sound, records)):
        raise _no_lock(path, "a record has other fields than this version writes")
    return {r.entry: r for r in (Record(**x) for x in records)}


def write(manifest: str | os.PathLike[str], records: Iterable[Record]) -> bool:
    """Write the lock where it would change; whether it did. Without records, one that is there is emptied. Raises OSError."""
    from ...files.output import replace

    path = path_of(manifest)
    each = sorted({canon({f: getattr(r, f) if f != "shape" else dict(r.shape) for f in _FIELDS}) for r in records})
    text = f'{{"schema":{SCHEMA},"tilewright":"lock","kernels":[\n ' + ",\n ".join(each) + "\n]}\n"
    try:
        before = content(path)
    except FileNotFoundError:
        if not each:
            return False
        before = b""
    if before == text.encode():
        return False
    replace(path, text, "lock")
    return True


def content(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError, also for what is no regular file or is too large."""
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as f:  # a FIFO would wait for ever
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        raw = f.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES} bytes")
    return raw


def sha256(path: Path) -> str:
    """Of a file's bytes, in hexadecimal. Raises OSError."""
    return hashlib.sha256(content(path)).hexdigest()


def _sound(record: Any) -> bool:
    if not isinstance(record, dict) or set(record) != set(_FIELDS) or any(type(record[f]) is not t for f, t in _FIELDS.items()):
        return False
    return all(_SHA.fullmatch(record[f]) for f in ("sha256", "kernel")) and all(type(v) is int and v >= 0 for v in record["shape"].values())


def _no_lock(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a lock ({why}); delete it, and tune run --manifest writes it again")
