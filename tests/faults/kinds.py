"""The registry of kinds, and what an injection found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

FILES = (
    "kills", "signals", "stops", "disks", "locks", "together", "servers", "planted", "flips", "tables", "bundles_changed", "store_damage", "clocks", "power",
)  # fmt: skip
"""The files of this package that register kinds."""


@dataclass
class Verdict:
    """What came of `injections` of one kind. Everything else counts failures: `lost`, rows that were committed and
    are gone; `wrong`, answers that no valid measurement stands behind; `orphans`, processes, locks and temporary
    files that were left; `hung`, runs that did not end in time; `broken`, exit codes and messages that are not the
    documented ones, and next runs that did not work. `notes` says what, a line each."""

    injections: int = 0
    lost: int = 0
    wrong: int = 0
    orphans: int = 0
    hung: int = 0
    broken: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether anything failed."""
        return bool(self.lost or self.wrong or self.orphans or self.hung or self.broken)

    def add(self, other: Verdict) -> None:
        """Count `other` too."""
        for name in ("injections", "lost", "wrong", "orphans", "hung", "broken"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += other.notes

    def fail(self, what: str, note: str, count: int = 1) -> None:
        """Note `count` failures of the kind `what`."""
        setattr(self, what, getattr(self, what) + count)
        self.notes.append(f"{what}: {note}")


Inject = Callable[[random.Random, Path], Verdict]


@dataclass(frozen=True)
class Kind:
    """`inject(rng, scratch)` makes at least one injection; `scratch` is kept between the calls of one worker. `what`
    is a sentence for the table. `missing` says why it cannot be run here ('' where it can); `quick`: takes well under
    a second, so that a few run in the usual tests."""

    name: str
    what: str
    inject: Inject
    missing: Callable[[], str]
    quick: bool


KINDS: dict[str, Kind] = {}


def kind(name: str, what: str, *, missing: Callable[[], str] = lambda: "", quick: bool = False) -> Callable[[Inject], Inject]:
    """Register a function as a kind."""

    def register(inject: Inject) -> Inject:
        KINDS[name] = Kind(name, what, inject, missing, quick)
        return inject

    return register


def load() -> dict[str, Kind]:
    """Every kind, by name."""
    for file in FILES:
        import_module(f"{__package__}.{file}")
    return KINDS
