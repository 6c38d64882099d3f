"""What a disk may hold after the power went: images made from the log of `disk.c`.

The model is SQLite's own, for disks that keep their promises: what a file held at its last sync is there; of what was
written since, any part may be, in any order and torn at sectors of 512 bytes, and a torn sector may hold garbage.
Names (files made, deleted, renamed) reach the disk in order, some prefix of those since the last sync of anything. A
new file that was synced has its name."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = struct.Struct("<IIIIq")
MAGIC = 0x7A11FEED
SECTOR = 512


@dataclass(frozen=True, slots=True)
class Change:
    """One call: `op` is c(reate), w(rite), t(runcate), s(ync), u(nlink), r(ename: `data` is the new path)."""

    op: str
    path: str
    offset: int
    data: bytes


def read(log: Path) -> list[Change]:
    """Every change of a log, in order."""
    raw, at, out = log.read_bytes(), 0, []
    while at < len(raw):
        magic, op, path, data, offset = _HEAD.unpack_from(raw, at)
        assert magic == MAGIC, f"the log is damaged at {at}"
        at += _HEAD.size
        out.append(Change(chr(op), raw[at : at + path].decode(), offset, raw[at + path : at + path + data]))
        at += path + data
    return out


@dataclass
class _File:
    """`kept`: what is surely on the disk; `pending`: what was changed since."""

    kept: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)


def image(changes: list[Change], cut: int, rng: random.Random) -> dict[str, bytes]:
    """Contents by path of what the disk may hold when the power goes after `cut` changes."""
    names: dict[str, _File] = {}
    states: list[dict[str, _File]] = [{}]
    for c in changes[:cut]:
        if c.op == "c":
            names = {**names, c.path: _File()}
        elif c.op == "u":
            names = {p: f for p, f in names.items() if p != c.path}
        elif c.op == "r":
            names = {**{p: f for p, f in names.items() if p != c.path}, c.data.decode(): names.get(c.path, _File())}
        elif c.op == "s":
            file = names.get(c.path)
            if file is not None:  # a folder otherwise
                for p in file.pending:
                    _apply(file.kept, p)
                file.pending.clear()
            states = []
        else:
            names.setdefault(c.path, _File()).pending.append(c)
        if c.op != "w" and c.op != "t":
            states.append(names)
    chosen = rng.choice(states) if rng.random() < 0.5 else states[-1]
    how = rng.choice(("none", "all", "first", "some", "torn"))
    return {path: _what_is_left(file, how, rng) for path, file in chosen.items()}


def _what_is_left(file: _File, how: str, rng: random.Random) -> bytes:
    out = bytearray(file.kept)
    pending = file.pending
    if how == "first":
        pending = pending[: rng.randrange(len(pending) + 1)]
    for c in pending:
        if how in ("all", "first") or (how in ("some", "torn") and rng.random() < 0.6):
            for part in _torn(c, rng) if how == "torn" and c.op == "w" else (c,):
                _apply(out, part)
    return bytes(out)


def _torn(c: Change, rng: random.Random) -> Iterator[Change]:
    """Some sectors of a write, one in ten of them garbage."""
    at = 0
    while at < len(c.data):
        size = min(SECTOR - (c.offset + at) % SECTOR, len(c.data) - at)
        if rng.random() < 0.6:
            yield Change("w", c.path, c.offset + at, rng.randbytes(size) if rng.random() < 0.1 else c.data[at : at + size])
        at += size


def _apply(out: bytearray, c: Change) -> None:
    if c.op == "t":
        del out[c.offset :]
        out.extend(bytes(c.offset - len(out)))
    else:
        out.extend(bytes(max(0, c.offset - len(out))))
        out[c.offset : c.offset + len(c.data)] = c.data
