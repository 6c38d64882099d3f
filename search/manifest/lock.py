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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...cache.keys import Numerics
from ...files.strict import Natural, Sha256, canon, parse, plain
from ...files.strict import read as read_data
from ...files.write_file import content
from ...ir.errors import UsageError

SCHEMA = 1
MAX_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Record:
    """What a file made. `name`, `shape` and `dtype` as the manifest has them ('' where it has no dtype); `sha256` of
    the file's bytes; `kernel`: canonical hash,
    of a kernel with these `numerics`."""

    name: str
    shape: Mapping[str, Natural]
    dtype: str
    sha256: Sha256
    kernel: Sha256
    numerics: Numerics = "free"

    @property
    def entry(self) -> tuple[Any, ...]:
        """What it is a record of."""
        return self.name, tuple(sorted(self.shape.items())), self.dtype, self.numerics


@dataclass(frozen=True, slots=True)
class _LockFile:
    tilewright: Literal["lock"]
    kernels: list[Record]
    schema: Literal[1]


def path_of(manifest: str | os.PathLike[str]) -> Path:
    """Where the lock of a manifest is: `kernels.lock.json` for `kernels.toml`."""
    return Path(manifest).with_suffix(".lock.json")


def read(manifest: str | os.PathLike[str]) -> dict[tuple[Any, ...], Record]:
    """The records by entry; none where there is no lock. Raises UsageError for a file that is no lock."""
    path = path_of(manifest)
    try:
        raw = content(path, MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    try:
        file = read_data(_LockFile, parse(raw.decode(), str(path)), whole=True)
    except ValueError as e:
        raise UsageError(f"{path} is not a lock ({e}); delete it, and tune run --manifest writes it again") from None
    return {r.entry: r for r in file.kernels}


def write(manifest: str | os.PathLike[str], records: Iterable[Record]) -> bool:
    """Write the lock where it would change; whether it did. Without records, one that is there is emptied. Raises OSError."""
    from ...files.write_file import replace

    path = path_of(manifest)
    each = sorted({canon({k: v for k, v in plain(r).items() if (k, v) != ("numerics", "free")}) for r in records})
    text = f'{{"schema":{SCHEMA},"tilewright":"lock","kernels":[\n ' + ",\n ".join(each) + "\n]}\n"
    try:
        before = content(path, MAX_BYTES)
    except FileNotFoundError:
        if not each:
            return False
        before = b""
    if before == text.encode():
        return False
    replace(path, text, "lock")
    return True


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal. Raises OSError."""
    return hashlib.sha256(content(path, MAX_BYTES)).hexdigest()
