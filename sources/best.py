"""What is known to be the fastest configuration of a source, for a build that uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ..opts import parse
from . import text
from .configurations import schedule, texts
from .parameters import Value
from .recording import opened
from .resolving import SourceSettings, resolved
from .spec import SourceSpec

if TYPE_CHECKING:
    from ..opts.opt import Opt


@dataclass(frozen=True)
class TunedSource:
    """A configuration: its values by name, the source with them defined, and the compiler's flags. `seconds` is its time where
    it was measured. `origin`: 'cached', or 'untuned' where the cache knows nothing."""

    values: Mapping[str, Value]
    text: str
    flags: tuple[str, ...]
    seconds: float | None
    origin: str

    @property
    def defines(self) -> tuple[str, ...]:
        """The values as a compiler takes them: `-DTILE=8`."""
        from .parameters import text_of

        return tuple(f"-D{n}={text_of(v)}" for n, v in self.values.items())


def best_source(source: str | Path | SourceSpec, function: str = "", **settings: Unpack[SourceSettings]) -> TunedSource:
    """The configuration that the cache holds for this source on this device, else the untuned one. It takes what `tune_source` takes,
    and measures nothing. Raises UsageError, DeviceError, CacheError."""
    what = resolved(source, function, settings)
    with opened(settings.get("cache")) as store:
        row = store.best(what.key)
    opts = parse(row.opts) if row is not None else schedule(what.spec, what.spec.untuned)
    given = texts(opts)
    values = {p.name: p.values[p.texts.index(given[p.name])] for p in what.spec.parameters if not p.flag}
    origin = "untuned" if row is None else "cached"
    return TunedSource(values, text.plain(what.spec, given), text.flags_of(what.spec, given), None if row is None else row.t_min, origin)


def values_of(opts: Sequence[Opt]) -> dict[str, str]:
    """The values in a result's `opts` by name, each as the source has it."""
    return texts(opts)
