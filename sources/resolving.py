"""A source on a device: what identifies it in the cache, and what is shown of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..cache.keys import DEFAULT_POLICY, Key
from ..cache.strict import canon
from ..ir.errors import UsageError
from ..search.budget import Budget, written
from ..search.result import Job
from .device import SourceDevice
from .making import SpecSettings, spec_of
from .spec import DEVICES, SourceSpec

if TYPE_CHECKING:
    import os

    from ..cache import Cache


class SearchSettings(TypedDict, total=False):
    """How a source is searched: as the arguments of `tune` of the same names. `first`: configurations to begin with."""

    device: str
    budget: str | float | Budget | None
    trials: int | None
    threads: int | None
    strategy: str | None
    seed: int
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

    def job(self, strategy: str, seed: int, budget: Budget, command: str = "") -> SourceJob:
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
            seed=seed,
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
