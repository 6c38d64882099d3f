"""Bundles: rows as sorted JSON Lines, to be kept in version control and reviewed like code.

The first line is `{"schema":1,"tilewright":"bundle"}`; every other line is one row, an object with exactly the fields of `Row`,
whose JSON fields are nested objects. They are parsed strictly: an unknown field, a wrong type or a value out of range is a CacheError
that names the line, and then nothing at all is imported.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ..ir.errors import CacheError, OptError
from .rows import COLUMNS, JSON_FIELDS, Row, from_dict
from .strict import canon, parse
from .version import SCHEMA

MAX_LINE = 1 << 20
"""Bytes in one line."""
MAX_ROWS = 1_000_000
MAX_BYTES = 1 << 30

HEADER = {"tilewright": "bundle", "schema": SCHEMA}


def dumps(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a bundle (without newlines): duplicates merged, in an order that does not depend on how rows came about."""
    unique = {r.digest: r for r in rows}
    yield canon(HEADER)
    for r in sorted(unique.values(), key=_order):
        values = r.to_dict()
        yield canon({**values, **{f: parse(values[f], f"row, field {f}") for f in JSON_FIELDS}})


def _order(r: Row) -> tuple[Any, ...]:
    return (
        r.name,
        r.dtype,
        r.shape,
        r.kernel,
        r.target,
        r.threads,
        r.compiler,
        r.policy,
        not r.usable,
        r.t_med if r.t_med is not None else float("inf"),
        r.digest,
    )


def loads(lines: Iterable[bytes], name: str = "bundle") -> list[Row]:
    """The rows of a bundle, duplicates merged. Raises CacheError naming `name` and the line."""
    out: dict[str, Row] = {}
    size = 0
    started = False
    for number, raw in enumerate(lines, 1):
        what = f"{name}, line {number}"
        size += len(raw)
        if len(raw) > MAX_LINE or size > MAX_BYTES or number > MAX_ROWS + 1:
            raise CacheError(f"{what}: larger than a bundle may be ({MAX_LINE} bytes a line, {MAX_ROWS} rows, {MAX_BYTES} bytes)")
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise CacheError(f"{what}: not UTF-8 text; a bundle is made by `tune cache export`") from None
        if started and not text:
            continue
        value = parse(text, what)
        if not isinstance(value, dict):
            raise CacheError(f"{what}: must be a JSON object")
        if not started:
            _check_header(value, what)
            started = True
            continue
        row = row_from(value, what)
        out[row.digest] = row
    if not started:
        raise CacheError(f"{name}: empty; a bundle begins with {canon(HEADER)}")
    return list(out.values())


def row_from(value: dict[str, Any], what: str) -> Row:
    """One line's object as a row; its options must be options of ours."""
    unknown = sorted(set(value) - set(COLUMNS))
    if unknown:
        raise CacheError(f"{what}: unknown field {', '.join(map(ascii, unknown[:3]))}")
    row = from_dict({f: canon(v) if f in JSON_FIELDS else v for f, v in value.items()}, what)
    from ..opts.opt import parse as parse_opts

    for f in ("opts", "opts_display"):
        try:
            parse_opts(getattr(row, f))
        except OptError as e:
            raise CacheError(f"{what}, field {f}: {e}") from None
    return row


def _check_header(value: dict[str, Any], what: str) -> None:
    schema = value.get("schema")
    if value.get("tilewright") != "bundle" or type(schema) is not int or set(value) != set(HEADER):
        raise CacheError(f"{what}: a bundle begins with {canon(HEADER)}")
    if schema > SCHEMA:
        raise CacheError(f"{what}: schema {schema} is newer than this Tilewright reads ({SCHEMA}): upgrade it")
    if schema != SCHEMA:
        raise CacheError(f"{what}: schema {schema} is older than any this Tilewright reads ({SCHEMA}): export it again")


def write(rows: Iterable[Row], file: str | os.PathLike[str] | IO[str]) -> int:
    """Write a bundle, a file whole or not at all; returns the number of rows. Raises CacheError where it cannot be written."""
    lines = list(dumps(rows))
    text = "\n".join(lines) + "\n"
    if not isinstance(file, (str, os.PathLike)):
        file.write(text)
        return len(lines) - 1
    import tempfile

    path = Path(file)
    try:
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(fd, "w", encoding="utf-8", newline="\n") as f:
                f.write(text)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as e:
        raise CacheError(f"cannot write the bundle {path}: {e.strerror}; choose another file") from None
    return len(lines) - 1


def read(file: str | os.PathLike[str]) -> list[Row]:
    """The rows of a bundle file. Raises CacheError; nothing in a bundle is ever executed."""
    try:
        with open(file, "rb") as f:
            return loads(_lines(f), os.fspath(file))
    except OSError as e:
        raise CacheError(f"cannot read the bundle {os.fspath(file)}: {e.strerror}") from None


def _lines(f: IO[bytes]) -> Iterator[bytes]:
    """Lines, none longer than one byte past the limit in memory."""
    while line := f.readline(MAX_LINE + 1):
        yield line


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
