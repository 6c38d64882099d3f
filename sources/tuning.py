"""`tilewright.tune_source`: find the fastest configuration of a source on a device, within a budget, and remember it; `best_source`: use it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ..ir.errors import UsageError
from ..opts import parse
from ..search.api import carried_out, opened
from ..search.progress import Progress, shown
from ..search.task import OnInterrupt, TuneRequest
from .building import flags_of, plain_text, schedule, texts
from .parameters import Value, text_of
from .source_spec import SourceSpec
from .source_task import SourceSettings, resolved

if TYPE_CHECKING:
    from ..opts.opt import Opt
    from ..search.result import Result
    from .loaded_source import LoadedSource
    from .source_task import SourceTask


def tune_source(
    source: str | Path | SourceSpec,
    function: str = "",
    *,
    progress: Progress | None = None,
    interrupt: OnInterrupt = "raise",
    command: str = "",
    **settings: Unpack[SourceSettings],
) -> Result:
    """Search for the fastest configuration of `function` in the file `source`, and record every measurement.

    The settings are those of `SpecSettings` (args, params, flag_params, restrict, sizes, check, flags, block, grid and so on) and
    `SearchSettings` (device, budget, trials, threads, strategy, random_seed, cache, retune, study, mode, first). A configuration's whole
    output is checked before it counts. The answer must beat the untuned configuration by more than the noise of paired runs,
    and is checked again with other inputs. `threads` (default 1) is for OpenMP. `mode` is "use" (from the cache where that
    will do), "refresh" (search again) or "require" (from the cache, or CacheMiss).

    Returns a Result whose `opts` are the values (`tilewright.sources.values_of` makes a dictionary of them). Raises UsageError,
    DeviceError, CacheError; Interrupted, a KeyboardInterrupt, after Ctrl-C unless `interrupt` is "return"."""
    started = time.monotonic()
    mode = settings.get("mode", "use")
    if mode not in ("use", "refresh", "require"):
        raise UsageError(f"mode is use, refresh or require, not {mode!r}")
    request = TuneRequest.make(
        settings.get("budget"),
        settings.get("trials"),
        strategy=settings.get("strategy"),
        mode=mode,
        retune=settings.get("retune", False),
        study=settings.get("study"),
        random_seed=settings.get("random_seed", 0),
        started=started,
        progress=shown(progress),
        command=command,
    )
    return carried_out(request, lambda: resolved(source, function, settings), settings.get("cache"), interrupt, "the source was being read")


@dataclass(frozen=True)
class TunedSource:
    """A configuration: its values by name, the source with them defined, and the compiler's flags. `seconds` is its time where
    it was measured. `origin`: 'cached', or 'untuned' where the cache knows nothing."""

    values: Mapping[str, Value]
    text: str
    flags: tuple[str, ...]
    seconds: float | None
    origin: str
    task: SourceTask | None = field(default=None, repr=False, compare=False)
    opts: tuple[Opt, ...] = field(default=(), repr=False, compare=False)

    def loaded(self) -> LoadedSource:
        """The configuration, built: a function of its input arrays to a tuple of its outputs. Raises UsageError for sources that are not in
        C or C++ and for arrays that are read and written; BuildError."""
        from .loaded_source import load

        assert self.task is not None
        return load(self.task, self.opts)

    @property
    def defines(self) -> tuple[str, ...]:
        """The values as a compiler takes them: `-DTILE=8`."""
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
    return TunedSource(
        values, plain_text(what.spec, given), flags_of(what.spec, given), None if row is None else row.t_min, origin, what, tuple(opts)
    )


def values_of(opts: Sequence[Opt]) -> dict[str, str]:
    """The values in a result's `opts` by name, each as the source has it."""
    return texts(opts)
