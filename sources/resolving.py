"""A source on a device: what identifies it in the cache, its rows there, and the fastest configuration that is known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from ..cache.keys import DEFAULT_POLICY, Key
from ..files.strict import canon
from ..ir.errors import UsageError
from ..opts import parse
from ..search.budget import Budget, written
from ..search.cache_recorder import CacheRecorder
from ..search.result import Job, Result
from ..search.warm_start import Effort
from .building import flags_of, plain_text
from .configurations import schedule, texts
from .parameters import Value
from .reading import SpecSettings, spec_of
from .source_device import SourceDevice
from .spec import DEVICES, SourceSpec

if TYPE_CHECKING:
    import os

    from ..cache import Cache, Row
    from ..measure import Measurement
    from ..opts.opt import Opt


class SearchSettings(TypedDict, total=False):
    """How a source is searched: as the arguments of `tune` of the same names. `first`: configurations to begin with."""

    device: str
    budget: str | float | Budget | None
    trials: int | None
    threads: int | None
    strategy: str | None
    random_seed: int
    cache: str | os.PathLike[str] | Cache | None
    retune: bool
    study: str | None
    mode: Literal["use", "refresh", "require"]
    first: Sequence[Mapping[str, Any]]


class SourceSettings(SpecSettings, SearchSettings, total=False):
    """Everything that `tune_source` takes by name."""


@dataclass(frozen=True, slots=True)
class SourceJob(Job):
    """What is tuned, and how, with the command that a user gave."""

    command: str = ""

    def reproduce(self) -> str:
        """The command that runs this search again."""
        return self.command


@dataclass(frozen=True)
class SourceRun:
    """A spec on a device, resolved: what identifies it in the cache, and what is shown of it."""

    spec: SourceSpec
    device: SourceDevice
    threads: int

    @property
    def key(self) -> Key:
        """The strict key: everything that a time depends on but the machine's moods."""
        about = hashlib.sha256(canon(self.spec.identity()).encode()).hexdigest()
        policy = DEFAULT_POLICY if self.spec.check.deterministic else f"NONDET+{DEFAULT_POLICY}"
        return Key(f"source-{about}", self.device.target.key, self.threads, self.device.compiler_id(), policy)

    def job(self, strategy: str, random_seed: int, budget: Budget, command: str = "") -> SourceJob:
        """The description a result carries."""
        spec = self.spec
        flops = spec.flops.whole(spec.sizes, "flops") if spec.flops is not None else 0
        return SourceJob(
            kernel=spec.function,
            shape=dict(spec.sizes),
            dtype=spec.arrays[0].dtype.name if spec.arrays else "",
            device=self.device.name,
            threads=self.threads,
            strategy=strategy,
            flops=flops,
            bytes=spec.bytes(),
            random_seed=random_seed,
            budget="" if budget.seconds is None else written(budget.seconds),
            trials=budget.trials,
            command=command,
        )


def resolved(source: str | Path | SourceSpec, function: str, settings: Mapping[str, Any]) -> SourceRun:
    """What `source` and the settings name, on its device. Raises UsageError, DeviceError."""
    about = {k: v for k, v in settings.items() if k not in SearchSettings.__annotations__}
    if isinstance(source, SourceSpec):
        if about or function:
            raise UsageError(f"a SourceSpec is complete: {next(iter(about), 'function')} goes to spec_of")
        spec = source
    else:
        spec = spec_of(source, function, **about)
    device = SourceDevice(settings.get("device") or DEVICES[spec.language], spec.language)
    device.check()
    threads = settings.get("threads") or (1 if device.family_name == "cpu" else device.threads)
    device.check_threads(threads)
    return SourceRun(spec, device, threads)


class SourceRecorder(CacheRecorder):
    """Rows of a source: how long each build took, and with the winner the source itself, so that it can be shown."""

    spec: SourceSpec

    def _row(self, m: Measurement, strategy: str, verified: bool, start_s: float | None, more: Mapping[str, Any]) -> Any:
        about: dict[str, Any] = {"build_s": round(m.build_s, 6)} if m.build_s else {}
        if verified:
            given = texts(m.opts)
            about["source"] = {
                "file": Path(self.spec.file).name,
                "language": self.spec.language,
                "flags": list(flags_of(self.spec, given)),
                "text": plain_text(self.spec, given)[: 1 << 16],
            }
        return super()._row(m, strategy, verified, start_s, {**about, **more})


def answered(row: Row, job: SourceJob, seconds: float) -> Result:
    """A cached row as a result."""
    from ..opts import parse
    from ..search import result as results

    facts, gain, effort = row.facts, row.facts.get("gain"), Effort.of(row)
    said = f"found in the cache (measured {row.when}{f', after {effort}' if effort else ''})"
    return results.make(
        job,
        opts=parse(row.opts),
        t_min=row.t_min,
        t_med=row.t_med,
        n=row.n,
        start_opts=parse(facts["start_opts"]) if facts.get("start_opts") else None,
        start_s=row.start_s,
        gain=gain if isinstance(gain, float) else None,
        verified=row.verified,
        confirmed=bool(facts.get("confirmed")),
        origin="cached",
        seconds=seconds,
        source_sha=row.source_sha or None,
        message=said,
    )


def opened(cache: Any) -> AbstractContextManager[Cache]:
    """The cache that is named, or one that was given open, which stays open."""
    from contextlib import nullcontext

    from .. import cache as caches

    return nullcontext(cache) if isinstance(cache, caches.Cache) else caches.open(cache)


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
    return TunedSource(values, plain_text(what.spec, given), flags_of(what.spec, given), None if row is None else row.t_min, origin)


def values_of(opts: Sequence[Opt]) -> dict[str, str]:
    """The values in a result's `opts` by name, each as the source has it."""
    return texts(opts)
