"""The files that a command's arguments name, looked at before it runs: whether each output can be written, would take the
place of another kind of file, or is one that the command reads."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from ...files import folders
from ...files.kinds import KINDS
from ...files.write_file import why_not
from ...ir.errors import UsageError
from ..grammar.parser import PathUse

Named = tuple[str, str]
"""An argument and the file that it names; in the place of the argument, what the file is."""
PICTURES = (".png", ".svg", ".pdf")


def check_paths(args: Namespace) -> None:
    """Raise UsageError for an output that the command must not write."""
    uses: dict[str, tuple[str, PathUse]] = getattr(args, "_paths", {})
    written = [(label, path, use.kind) for label, use, path in _named_paths(args, uses) if use.does == "writes" and path != "-"]
    if not written:
        return
    for label, path, named in written:
        kind = _picture(path) if named == "picture" else named
        why = why_not(path, None if args.overwrite else kind)
        if why is not None:
            also = "" if args.overwrite or why_not(path) is not None else ", or say --overwrite"
            raise UsageError(f"cannot write {label} {path}: {why}; name a file in a folder that exists and is writable{also}")
    read = [*_read(args, uses)]
    for i, (label, path, _) in enumerate(written):
        for other, place in (*read, *((o, p) for o, p, _ in written[:i])):
            if _same_file(path, place):
                raise UsageError(f"{label} {path} is {other} of the same command: name another file")


def _named_paths(args: Namespace, uses: dict[str, tuple[str, PathUse]]) -> Iterator[tuple[str, PathUse, str]]:
    for dest, (label, use) in uses.items():
        value = getattr(args, dest, None)
        yield from ((label, use, v) for v in (value if isinstance(value, list) else [value]) if v is not None)


def _read(args: Namespace, uses: dict[str, tuple[str, PathUse]]) -> Iterator[Named]:
    """What the command reads, or adds to."""
    for label, use, text in _named_paths(args, uses):
        if use.does != "writes":
            for place in _files(text):
                yield from _with_companions(label, place)
    if "cache" in uses:
        yield from _caches(getattr(args, "cache", None))
    yield from _own_files()


def _files(text: str) -> Iterator[str]:
    """The file that an argument names: also in an SQLite URL, or before a function's name."""
    if "://" in text:
        if text.startswith("sqlite"):
            yield text.partition("://")[2][1:].partition("?")[0]
        return
    yield text
    if ":" in text:
        yield text.rpartition(":")[0].partition(":constant=")[0]


def _with_companions(label: str, place: str) -> Iterator[Named]:
    """A file with those that are read and written beside it, by their names."""
    yield label, place
    yield from ((f"beside {label}", place + tail) for tail in ("-wal", "-shm", "-journal", ".minisig"))
    if place.endswith(".toml"):
        yield from ((f"beside {label}", place.removesuffix(".toml") + tail) for tail in (".lock.json", ".journal.jsonl"))


def _caches(named: str | None) -> Iterator[Named]:
    from ...cache import layers

    found = named or os.environ.get(layers.ENV)
    places = [*_files(found)] if found else [str(p) for p in (layers.user_path(), layers.project_path()) if p is not None]
    for place in places:
        yield from _with_companions("the cache", place)


def _own_files() -> Iterator[Named]:
    """What Tilewright keeps in its own folders: a machine's limits, settings, trusted keys."""
    for folder, pattern in ((folders.state(), "limits-*.json"), (folders.config(), "*.json"), (folders.config(), "*.toml")):
        try:
            yield from (("a file that is kept", str(p)) for p in folder.glob(pattern))
        except OSError:  # a folder that this user may not look into holds nothing that could be replaced
            continue


def _same_file(a: str, b: str) -> bool:
    """Whether two names are of one file, which need not be there."""
    try:
        one, other = folders.expanded(a), folders.expanded(b)
        return one.resolve() == other.resolve() or (one.is_file() and other.is_file() and one.samefile(other))
    except (OSError, ValueError, RuntimeError):
        return False


def _picture(path: str) -> str | None:
    ending = Path(path).suffix.lower()
    return ending[1:] if ending in PICTURES and ending[1:] in KINDS else None
