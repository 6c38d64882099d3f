"""What one tuning run is about: a kernel on a device, with its inputs, limits and keys; its measurer, and the recorder of its measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..cache.objectives import TIME
from ..cache.objectives import objective as named_objective
from ..cache.rows import OBJECTIVE
from ..ir.errors import UsageError
from .budget import Budget, written
from .cache_recorder import LAST_PATIENCE_S, CacheRecorder
from .objective import Aim
from .result import Job

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel
    from ..measure import Measurer
    from ..measure.roofline import Roofline
    from .candidate_measurer import CandidateMeasurer
    from .space import Space


class TuningTask:
    """A kernel on a device, resolved: what identifies it in the cache and what is shown of it."""

    def __init__(
        self,
        kernel: str | Kernel,
        shape: Mapping[str, Extent] | None,
        dtype: DTypeLike | str | None,
        device: str | Device,
        threads: int | None,
        vars: Mapping[str, int] | None = None,
        allow: Iterable[str] = (),
        objective: str | Sequence[str] = TIME,
    ) -> None:
        """Raises UsageError, KernelError, DeviceError. `objective`: what is made small, as `cache.objectives.objective` reads it."""
        from .. import devices, kernels
        from ..cache.keys import allowed, policy
        from ..ir.dtypes import dtype as dtype_of
        from ..ir.normal_form import normalise
        from ..plan.identity import canonical_of, key_of

        if isinstance(kernel, str):
            self.kernel = kernels.make(kernel, shape, dtype)
            self.name = kernel
            sizes = (shape or {}) if kernels.is_path(kernel) else kernels.get(kernel).complete(shape)
        else:
            self.kernel, self.name = kernel, kernel.name
            sizes = shape or {}
        self.shape = {k: v for k, v in sizes.items() if isinstance(v, int)}
        # the form that the cache's option lists speak of: unit axes dropped, adjacent axes merged
        self.kernel = normalise(self.kernel)
        self.dtype = dtype_of(dtype).name if dtype is not None else (self.kernel.inputs or self.kernel.outputs)[0].dtype.name
        self.device = devices.get(device)
        self.device.check()
        self.threads = int(threads or self.device.threads)
        self.device.check_threads(self.threads)
        self.vars = symbol_values(self.kernel, vars or {})
        self.canonical = canonical_of(self.kernel)
        self.effects = allowed(allow)
        self.key = key_of(self.kernel, self.device, self.threads, policy(self.effects), named_objective(objective))

    @property
    def reference(self) -> Kernel | None:
        """The kernel to whose error bound results are held, where it is not the kernel itself."""
        from ..measure.checking.verify import reference_kernel

        found = reference_kernel(self.kernel, self.device.target, "DOWNCONVERT" in self.effects)
        return None if found is self.kernel else found

    def roofline(self) -> Roofline | None:
        """What bounds the kernel here; None where the machine's limits are not known."""
        from ..measure.roofline import roofline

        limits = self.device.limits()
        lossy = "DOWNCONVERT" in self.effects
        return None if limits is None else roofline(self.kernel, limits, self.threads, self.vars, self.device.target, lossy=lossy)

    def job(self, strategy: str, start: str, random_seed: int, budget: Budget) -> Job:
        """The description a result carries."""
        from ..cache.keys import allowed
        from ..heuristics.contraction_order import necessary
        from ..ir.cost import cost

        work = cost(necessary(self.kernel), self.vars)
        roof = self.roofline()
        return Job(
            kernel=self.name,
            shape=self.shape,
            dtype=self.dtype,
            device=self.device.name,
            threads=self.threads,
            strategy=strategy,
            flops=work.flops,
            bytes=work.bytes,
            roofline_s=roof.seconds if roof else None,
            random_seed=int(random_seed),
            start=start,
            budget="" if budget.seconds is None else written(budget.seconds),
            trials=budget.trials,
            allow=tuple(sorted(self.effects - allowed())),
            objective=self.key.objective,
        )


def symbol_values(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """A value for every symbolic extent: the one given, else the middle of its range. UsageError for one that is not
    there or out of range."""
    known = {s.arg.name: s.arg for s in kernel.symbols}
    for name in given:
        if name not in known:
            raise UsageError(f"{kernel.name} has no symbol {name!r}{'; its symbols are ' + ', '.join(known) if known else ''}")
    out = {}
    for name, symbol in known.items():
        value = given.get(name, (symbol.lo + symbol.hi) // 2)
        if not symbol.lo <= value <= symbol.hi:
            raise UsageError(f"symbol {name} is {value}; its range is {symbol.lo} to {symbol.hi}")
        out[name] = value
    return out


BUILD_S = 30.0
"""Seconds that a build may take where there is no limit on all."""
Measuring = Callable[["TuningTask", Budget, int, bool], AbstractContextManager["CandidateMeasurer"]]
"""What makes a measurer of (task, budget, seed of the inputs, whether outputs are hashed)."""


def deadline_s(budget: Budget) -> float:
    """Seconds that a call of a candidate may take: one endless loop must not cost the whole budget."""
    return 10.0 if budget.seconds is None else min(10.0, max(2.0, budget.seconds / 6))


def build_deadline_s(budget: Budget) -> float:
    """Seconds that a build may take: a third of the budget, within 5 s and what the largest kernels need."""
    return BUILD_S if budget.seconds is None else min(BUILD_S, max(5.0, budget.seconds / 3))


def begin_helpers() -> bool:
    """Start the process that forks a measurer's helpers: it has imports of its own to do while this one does its. Whether that has
    begun only now."""
    from ..measure.processes import process

    return process.begin()


def measurer_of(task: TuningTask, budget: Budget, seed: int, hashed: bool, builders: int | None = None) -> Measurer:
    """What measures a task's candidates, here."""
    from ..measure import Measurer

    told: dict[str, Any] = {"seed": seed, "vars": task.vars, "hash_outputs": hashed, "reference": task.reference}
    told["deadline_s"], told["build_deadline_s"] = deadline_s(budget), build_deadline_s(budget)
    told["energy"] = Aim(task.key.objective).energy
    return Measurer(task.kernel, task.device, task.threads, builders=builders, **told)


def recorder_of(
    task: TuningTask, cache: Cache, space: Space, job: Job, facts: Mapping[str, Any] | None = None, last_s: float = LAST_PATIENCE_S
) -> CacheRecorder:
    """What writes a task's measurements into a cache. `facts`: more provenance of each row; `last_s`: seconds that the last write may wait."""
    from ..ir.normal_form import loose

    roof = task.roofline()
    return CacheRecorder(
        cache,
        task.key,
        task.canonical,
        loose(task.kernel),
        job,
        effects=lambda o: frozenset(space.engine.apply(o).effects),
        provenance={
            "machine": task.device.fingerprint(),
            "seed": job.random_seed,
            **({"vars": task.vars} if task.vars else {}),
            **({"roofline": roof.facts} if roof else {}),
            **({OBJECTIVE: task.key.objective} if task.key.objective != TIME else {}),
            **(facts or {}),
        },
        earlier={row.schedule for row in cache.answers(task.key)},
        last_s=min(last_s, LAST_PATIENCE_S),
    )
