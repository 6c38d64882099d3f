"""What a manifest asks for, as it was read: entries, and where in the file each stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ...cache.keys import for_text
from ...cache.objectives import TIME
from ...ir.errors import UsageError
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
    function makes. `budget` is the most seconds, `trials` the most measurements it may take (None: no limit of its
    own). `made` is the kernel, None for that of a file which was not run: then the lock's `record` knows its hash, or
    `why` says why nobody does. `given`: the kernel itself, where no name makes it again."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    place: Place
    line: int
    budget: float | None = None
    trials: int | None = None
    strategy: str | None = None
    seeds: str = "auto"
    seed: int = 0
    objective: str = TIME
    made: Kernel | None = field(default=None, compare=False, repr=False)
    record: locks.Record | None = field(default=None, compare=False, repr=False)
    why: str = field(default="", compare=False, repr=False)
    given: Kernel | None = field(default=None, compare=False, repr=False)

    @property
    def tuned(self) -> str | Kernel:
        """What `tune` is asked for."""
        return self.given or self.kernel

    @property
    def title(self) -> str:
        """`matmul m=64,n=64,k=64 float32 for ci`."""
        shape = ",".join(f"{k}={v}" for k, v in self.shape.items())
        return " ".join(filter(None, (self.kernel, shape, self.dtype, "for", self.place.name))) + for_text(self.objective)


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


def near(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?` where a known name is near, else nothing."""
    found = get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
