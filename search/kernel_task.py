"""A kernel on a device as what a search is about: its keys, limits, inputs, measurer, recorder and start schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..cache.keys import FIXED, allowed, policy
from ..cache.objective_types import TIME
from ..cache.objective_types import objective as named_objective
from ..cache.ranking import Standing
from ..cache.rows import OBJECTIVE, POLICY
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import CacheMiss, OptError, UsageError
from ..ir.normal_form import loose, normalise
from ..lower import lower
from ..opts import apply
from ..opts.opt import parse
from ..plan.identity import canonical_of, key_of, with_numerics
from . import strategy as strategies
from .budget import written
from .cache_recorder import CacheRecorder
from .objective import SearchObjective
from .result import Job, Result
from .run_state import Start
from .space import OptEngine, Space
from .task import CachedAnswer, TuneRequest
from .warm_start import answer, front_of, related, stored

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel
    from ..measure import Measurer
    from ..measure.roofline import Roofline
    from ..opts.opt import Opt
    from .space import Space


HOPELESS = 3.0
"""Start schedules that the model expects to be this many times slower than the best of them are left out, but for the first few."""
WORTH_A_LOOK_S = 2.0
"""An empty start schedule that the model expects to be slower than this is not measured: its one call would eat the budget."""


class KernelTask:
    """A kernel on a device, resolved: the `Task` of `tune`."""

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
        """Raises UsageError, KernelError, DeviceError. `objective`: what is made small, as `cache.objective_types.objective` reads it."""
        from .. import devices, named_kernels

        if isinstance(kernel, str):
            self.kernel = named_kernels.make(kernel, shape, dtype)
            self.name = kernel
            sizes = (shape or {}) if named_kernels.is_path(kernel) else named_kernels.get(kernel).complete(shape)
        else:
            self.kernel, self.name = kernel, kernel.name
            sizes = shape or {}
        self.shape = {k: v for k, v in sizes.items() if isinstance(v, int)}
        # the form that the cache's option lists speak of: unit axes dropped, adjacent axes merged
        self.effects = frozenset({FIXED}) if self.kernel.fixed else allowed(allow)
        self.kernel = normalise(with_numerics(self.kernel, policy(self.effects)))
        self.dtype = dtype_of(dtype).name if dtype is not None else (self.kernel.inputs or self.kernel.outputs)[0].dtype.name
        self.device = devices.get(device)
        self.device.check()
        self.device.check_timing()
        self.threads = int(threads or self.device.threads)
        self.device.check_threads(self.threads)
        self.vars = symbol_values(self.kernel, vars or {})
        if self.kernel.fixed and not {"fma", "neon"} & self.device.target.features:
            lower(apply(self.kernel, (), self.device.target))  # where a product is joined, every candidate would be refused
        self.canonical = canonical_of(self.kernel)
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

    def strategy(self, request: TuneRequest) -> str:
        return request.strategy or strategies.DEFAULT

    def job(self, strategy: str, request: TuneRequest) -> Job:
        from ..heuristics import necessary
        from ..ir.cost import cost

        work = cost(necessary(self.kernel), self.vars)
        roof = self.roofline()
        budget = request.budget
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
            random_seed=int(request.random_seed),
            start=request.start,
            budget="" if budget.seconds is None else written(budget.seconds),
            trials=budget.trials,
            allow=tuple(sorted(self.effects - allowed())),
            objective=self.key.objective,
            policy=str(request.policy or ""),
        )

    def look(self, cache: Cache, required: bool = False) -> CachedAnswer | None:
        """The cache's own answer, if its options still mean what was measured."""
        from ..plan import resolve

        about: dict[str, Any] = {"policy": self.key.policy, "objective": self.key.objective}
        try:  # without an answer no start schedule is wanted yet: helpers can begin while start schedules are made
            plan = resolve(self.kernel, self.device, self.threads, cache, exact_only=True, own_only=True, **about)
        except CacheMiss:
            if required:
                raise
            return None
        row = plan.row
        assert row is not None

        def result(job: Job, seconds: float) -> Result:
            return answer(job, row, plan.opts, seconds, plan.standing, front=front_of(self.key, cache))

        return CachedAnswer(row, result, checked=plan.standing is Standing.verified)

    def check(self, request: TuneRequest) -> None:
        from ..measure.inputs import require_operands

        require_operands(self.kernel, self.vars)
        if request.policy is not None:
            request.policy.check(self.kernel, self.vars, self.device.target, self.threads)

    def space(self) -> Space:
        return Space(OptEngine(self.kernel, self.device.target, self.threads, self.device.limits(), self.effects), self.effects)

    def fit(self, opts: Sequence[Opt]) -> None:
        """Raise OptError for a schedule that does not apply, or has effects that are not allowed."""
        try:
            scheduled = apply(self.kernel, opts, self.device.target)
        except OptError as e:
            sizes = ",".join(f"{k}={v}" for k, v in self.shape.items())
            raise OptError(f"this schedule does not fit {' '.join(filter(None, (self.name, sizes, self.dtype)))}: {e}") from e
        refused = sorted(scheduled.effects - self.effects)
        if refused:
            raise OptError(f"this schedule has the effect {', '.join(refused)}; allow it by --allow {refused[0].lower()}")

    def measurer(self, request: TuneRequest, hashed: bool = False, builders: int | None = None) -> Measurer:
        """What measures its candidates, here. `builders`: processes that build (default: as many as the cores allow)."""
        from ..measure import Measurer

        return Measurer(
            self.kernel,
            self.device,
            self.threads,
            builders=builders,
            seed=request.random_seed,
            vars=self.vars,
            hash_outputs=hashed,
            reference=self.reference,
            deadline_s=request.deadline_s,
            build_deadline_s=request.build_deadline_s,
            energy=SearchObjective(self.key.objective).energy,
            policy=request.policy,
        )

    def recorder(self, cache: Cache, space: Space, job: Job, facts: Mapping[str, Any] | None = None) -> CacheRecorder:
        """What writes its measurements into a cache. `facts`: more provenance of each row."""
        roof, answers = self.roofline(), cache.answers(self.key)
        return CacheRecorder(
            cache,
            self.key,
            self.canonical,
            loose(self.kernel),
            job,
            effects=lambda o: frozenset(space.engine.apply(o).effects),
            provenance={
                "machine": self.device.fingerprint(),
                "seed": job.random_seed,
                **({"vars": self.vars} if self.vars else {}),
                **({"roofline": roof.facts} if roof else {}),
                **({POLICY: job.policy} if job.policy else {}),
                **({OBJECTIVE: self.key.objective} if self.key.objective != TIME else {}),
                **(facts or {}),
            },
            earlier={row.opts for row in answers},
            after=max((row.when for row in answers), default=""),
        )

    def starts(self, cache: Cache, space: Space, job: Job) -> list[Start]:
        """The start schedules, and what the cache remembers of this kernel and its relatives. `job.start` says whether."""
        from ..heuristics import quick_starts

        if job.start == "none":
            empty = space.state(())
            return [Start(())] if empty is not None and empty.estimate < WORTH_A_LOOK_S else []
        guesses = [g for g in map(space.state, space.starts()) if g is not None]
        fastest = min(g.estimate for g in guesses)
        # the list ends with schedules that always apply; those the model calls hopeless are not worth their time
        out = {g.opts: Start(g.opts) for i, g in enumerate(guesses) if (i < 4 and (i == 0 or g.opts)) or g.estimate < HOPELESS * fastest}
        quick = quick_starts(self.kernel, self.device.target, self.threads, self.effects)[0]
        if space.state(quick) is not None:
            out[quick] = Start(quick, quick=True)
        if job.start != "auto":
            given = parse(job.start)
            if space.state(given) is None:
                apply(self.kernel, given, self.device.target)  # says why, unless it is for its effects
                raise OptError("the schedule to start from has an effect that is not allowed; see --allow")
            out.setdefault(given, Start(given, "stored"))
        ours = stored(cache, self.key, self.canonical, space)
        for opts in (*ours, *related(cache, self.key, self.canonical, space, loose(self.kernel), job)):
            out.setdefault(opts, Start(opts, "stored"))
        return list(out.values())

    def searcher(self, strategy: str) -> Mapping[str, Any]:
        return {}

    def study_of(self, job: Job) -> tuple[str, Mapping[str, Any]]:
        from ..named_kernels import short_name

        shape = ",".join(f"{k}={v}" for k, v in job.shape.items())
        name = " ".join(filter(None, (short_name(job.kernel), shape, job.dtype, job.device, f"{job.threads} threads", self.key.hash[:8])))
        return name, {
            "kernel": job.kernel,
            "shape": shape,
            "dtype": job.dtype,
            "device": job.device,
            "threads": job.threads,
            "target": self.key.target,
            "compiler": self.key.compiler,
            "flops": job.flops,
        }

    def worded(self, result: Result) -> Result:
        return result


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
