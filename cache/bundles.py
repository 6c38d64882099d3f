"""Bundles: rows as sorted JSON Lines, to be kept in version control and reviewed like code.

The first line is `{"schema":1,"tilewright":"bundle"}`; every other line is one row, an object with exactly the fields of `Row`,
whose JSON fields are nested objects. They are parsed strictly: an unknown field, a wrong type or a value out of range is a CacheError
that names the line, and then nothing at all is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from ..files.strict import canon, parse
from ..files.write_file import replace
from ..ir.errors import CacheError, OptError
from .rows import COLUMNS, MAX_NAME, TREE, Row, from_dict, line_of, printable
from .version import BUNDLE_SCHEMA

MAX_LINE = 1 << 20
"""Bytes in one line."""
MAX_ROWS = 1_000_000
MAX_BYTES = 1 << 28

HEADER = {"tilewright": "bundle", "schema": BUNDLE_SCHEMA}


class Imported(NamedTuple):
    """What an import did: rows added, rows that were there already."""

    added: int
    known: int


def dumps(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a bundle (without newlines): duplicates merged, in an order that does not depend on how rows came about."""
    # whether a row came with a bundle is this cache's knowledge, not the bundle's
    unique = {r.digest: r for r in (r.marked(imported=False) for r in rows)}
    yield canon(HEADER)
    yield from map(line_of, sorted(unique.values(), key=_order))


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
        value = parse(text, what, CacheError)
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
    row = from_dict(value, what, nested=True)
    from ..opts import parse as parse_opts

    if TREE in row.facts:
        from .size_tree import check_trees

        check_trees(row.facts[TREE], f"{what}, field provenance")
    for f in ("opts", "opts_display"):
        try:
            found = parse_opts(value[f])
        except OptError as e:
            raise CacheError(f"{what}, field {f}: {_one_line(str(e))}") from None
        if not all(len(str(o)) <= MAX_NAME and printable(str(o)) for o in found):
            raise CacheError(f"{what}, field {f}: an option is too long or holds a character that cannot be shown")
    return row


def _check_header(value: dict[str, Any], what: str) -> None:
    schema = value.get("schema")
    if value.get("tilewright") != "bundle" or type(schema) is not int or set(value) != set(HEADER):
        raise CacheError(f"{what}: a bundle begins with {canon(HEADER)}")
    if schema > BUNDLE_SCHEMA:
        raise CacheError(f"{what}: schema {schema} is newer than this Tilewright reads ({BUNDLE_SCHEMA}): upgrade it")
    if schema != BUNDLE_SCHEMA:
        raise CacheError(f"{what}: schema {schema} is older than any this Tilewright reads ({BUNDLE_SCHEMA}): export it again")


def write(rows: Iterable[Row], file: str | os.PathLike[str] | IO[str], overwrite: bool = False) -> int:
    """Write a bundle, a file whole or not at all; returns the number of rows. `overwrite`: in the place of any file that is there, else
    only of a bundle. Raises CacheError where it cannot be written, or would be larger than `read` takes."""
    lines = list(dumps(rows))
    size = sum(len(line) + 1 for line in lines)  # ASCII
    if size > MAX_BYTES or len(lines) > MAX_ROWS + 1 or max(map(len, lines)) >= MAX_LINE:
        raise CacheError(
            f"{len(lines) - 1} rows, {size} bytes, are more than a bundle may hold ({MAX_ROWS}, {MAX_BYTES}): narrow it with --best or --kernel"
        )
    text = "\n".join(lines) + "\n"
    try:
        if not isinstance(file, (str, os.PathLike)):
            file.write(text)
            file.flush()
        else:
            replace(file, text, None if overwrite else "bundle")
    except BrokenPipeError:
        raise  # the reader has gone, which is no error
    except OSError as e:
        name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "the stream")
        raise CacheError(f"cannot write the bundle {name}: {e.strerror}; choose another file") from None
    return len(lines) - 1


def read(file: str | os.PathLike[str]) -> list[Row]:
    """The rows of a bundle file. Raises CacheError; nothing in a bundle is ever executed."""
    try:
        with open(file, "rb") as f:
            return loads(_lines(f), os.fspath(file))
    except OSError as e:
        raise CacheError(f"cannot read the bundle {os.fspath(file)}: {e.strerror}") from None


def content(path: str | os.PathLike[str]) -> bytes:
    """A bundle's bytes. Raises CacheError where it cannot be read or is larger than a bundle may be."""
    try:
        with open(path, "rb") as f:
            raw = f.read(MAX_BYTES + 1)
    except OSError as e:
        raise CacheError(f"cannot read the bundle {os.fspath(path)}: {e.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise CacheError(f"{os.fspath(path)} is larger than a bundle may be ({MAX_BYTES} bytes)")
    return raw


def _one_line(text: str) -> str:
    """An error's text without what it quotes from a bundle being able to do anything to a terminal."""
    return "".join(c if printable(c) else ascii(c)[1:-1] for c in text[:1000])


def _lines(f: IO[bytes]) -> Iterator[bytes]:
    """Lines, none longer than one byte past the limit in memory."""
    while line := f.readline(MAX_LINE + 1):
        yield line
