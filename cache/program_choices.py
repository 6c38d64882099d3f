"""What a program runs in the place of a kernel's answer: choices that were made by timing the whole program.

A choice is a row like any other, under a key that is made of the program's and the kernel's. So bundles, layers, servers and checks of files
have it without a word about it. Its options are what the program runs; its time is the whole program's."""

from __future__ import annotations

import hashlib
import uuid
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..files.strict import canon
from ..ir.errors import CacheError
from .file_check import CacheWarning
from .keys import Key
from .rows import Row, now
from .version import tool_version

if TYPE_CHECKING:
    from .store import Cache

STRATEGY = "program"
"""What these rows have for the strategy of a search."""
_WINNER, _KERNEL, _PROGRAM = "winner", "kernel", "program"


@dataclass(frozen=True, slots=True)
class ProgramChoice:
    """Schedules in canonical names, as rows keep them. `opts`: what the program runs as long as the cache answers `winner` for the kernel."""

    opts: str
    winner: str

    @property
    def kept(self) -> bool:
        """Whether the program runs the cache's answer."""
        return self.opts == self.winner


def key_in(program: str, key: Key) -> Key:
    """The key of a kernel's choice in a program. `program`: the digest of its graph."""
    return replace(key, kernel=hashlib.sha256(f"kernel {key.kernel} of program {program}".encode()).hexdigest())


def choice(cache: Cache, program: str, key: Key) -> ProgramChoice | None:
    """The newest choice of a program for a kernel; None where there is none, or the cache's answer is not the one it was about."""
    rows = _rows(cache, program, key)
    answer = cache.best(key) if rows else None
    return None if answer is None else _about(rows, answer.opts)


def choice_about(cache: Cache, program: str, key: Key, winner: str) -> ProgramChoice | None:
    """The newest choice of a program about one answer of the cache, which may be its answer no more."""
    return _about(_rows(cache, program, key), winner)


def keep(cache: Cache, rows: Iterable[Row]) -> None:
    """Record choices that were made just now. Where the cache cannot be written they go into a bundle, with a warning. Raises CacheError where
    neither can be done."""
    dated = [replace(r, when=now(max((a.when for a in cache.answers(r.key)), default=""))) for r in rows]
    if not dated:
        return
    try:
        cache.record(dated)
    except CacheError as e:
        kept = [cache.spill(dated, uuid.uuid4().hex[:16])]
        said = f"{e}. What the program runs is in {kept[0]}; {cache.waiting.advice(kept)}"
        warnings.warn(said, CacheWarning, stacklevel=2)


def _rows(cache: Cache, program: str, key: Key) -> list[Row]:
    return [r for r in cache.answers(key_in(program, key)) if r.strategy == STRATEGY]


def _about(rows: list[Row], winner: str) -> ProgramChoice | None:
    about = [r for r in rows if isinstance(said := r.facts.get(_WINNER), str) and said == winner]
    newest = max(about, key=lambda r: (r.when, r.digest), default=None)
    return None if newest is None else ProgramChoice(newest.opts, winner)


def row_of(
    program: str, key: Key, found: ProgramChoice, *, name: str, device: str, before_s: float, after_s: float, pairs: int,
    facts: Mapping[str, Any],
) -> Row:  # fmt: skip
    """The row of a choice. `name`: the program's and the kernel's; `before_s`, `after_s`: seconds of the program without and with it, in so many
    `pairs`; `facts`: more for its provenance."""
    at = key_in(program, key)
    return Row(
        kernel=at.kernel, target=at.target, threads=at.threads, compiler=at.compiler, policy=at.policy, name=name, device=device,
        opts=found.opts, opts_display=found.opts, t_min=after_s, t_med=after_s, n=pairs, start_s=before_s, strategy=STRATEGY, verified=True,
        tool_version=tool_version(), provenance=canon({**facts, _PROGRAM: program, _KERNEL: key.kernel, _WINNER: found.winner}),
    )  # fmt: skip
