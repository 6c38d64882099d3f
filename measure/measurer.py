"""The Measurer: what a search uses to build, verify and time candidates of one kernel on one device."""

from __future__ import annotations

import pickle
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import devices
from ..ir.errors import DeviceError, MeasureError
from ..ir.units import duration
from ..log import logger
from ..opts.opt import Opt, short
from ..opts.registry import OPTIONS
from ..targets import usable_cores
from ..targets.free_memory import free_memory
from .bench import Data, RunnerSetup
from .inputs import require_operands
from .measurement_policy import AS_PROGRAMS, MeasurementPolicy
from .outcome import Duel, DuelError, Measurement, Outcome, Race
from .processes import builder, process, runner
from .processes.buildpool import BuildPool, Builds
from .processes.child import Candidate
from .processes.process import STILL_S, Slots, Stillness, needs_pause
from .processes.protocol import Closed
from .timing import DUEL_S

if TYPE_CHECKING:
    from ..devices import Device
    from ..ir.kernel import Kernel
    from ..opts.opt import Opt
    from ..plan import Built
    from .bench import Bench
    from .processes.forked import Helper


# runner link ----------------------------------------------------------------------------------------------------------
#
# The main process's end of a runner: started, told what to prepare, asked, and started again when it was lost.


class RunnerLink:
    """One runner process, or its successor."""

    def __init__(self, setup: RunnerSetup, pool: BuildPool, longest_s: float, prepared: Sequence[Data], beside: bool = False) -> None:
        """`prepared`: the inputs that it makes at once, with their references, before it is asked anything. `longest_s`: seconds
        that a step of a child may take: while one runs, the runner itself waits. `beside`: it makes them as a builder works, so
        it stands still while something is timed, until it is asked to measure."""
        self.longest_s = longest_s
        self.prepared_s: list[tuple[float, float] | None] = []
        """Processor seconds that inputs and references took, and copies of operands, of all that is prepared by now (None: not known)."""
        self._setup, self._pool, self._wanted, self._beside = setup, pool, tuple(prepared), beside
        self.process: Helper
        self._start()

    def _start(self) -> None:
        self._lost = False
        self.process, self.channel = process.start(runner.MODULE, self._setup, self._pool.group if self._beside else 0)
        self.prepared_s = []
        for data in self._wanted:
            self.channel.send(("prepare", data))
        self._busy = True

    @property
    def preparing(self) -> bool:
        """Something that was to be prepared at once is not known to be there."""
        return len(self.prepared_s) < len(self._wanted)

    def still_to_make(self, estimate_s: float) -> float:
        """Seconds that what is to be prepared will still take, where all of it takes `estimate_s`: what it had no room for, or was lost,
        is made when it is asked."""
        self._pump()
        if self._lost:
            return estimate_s
        later = estimate_s * self.prepared_s.count(None) / max(1, len(self._wanted))
        return max(later, estimate_s - self.used_s()) if self.preparing else later

    def _pump(self) -> None:
        """Take what it has said of its preparations by now. What went wrong is an error when it is asked."""
        try:
            while not self._lost and self.preparing and (self.channel.pending() or select.select([self.channel], [], [], 0)[0]):
                self._prepared()
        except Closed as e:
            self._lost = True
            log.info("what is prepared beside the search is lost: %s", e)
        except MeasureError as e:
            log.info("something could not be prepared beside the search: %s", e)

    def used_s(self) -> float:
        """Processor seconds that it has used."""
        return process.used_s(self.process.pid)

    def send(self, message: Any) -> None:
        """Ask it, when all is prepared. Raises Closed, and MeasureError for an error there."""
        if self._busy and not self.preparing:
            self.restart()  # an interrupted call left its answers on the way
        while self.preparing:
            self._prepared()
        self._busy = True
        self.channel.send(message)

    def _prepared(self) -> None:
        try:
            self.prepared_s.append(self.receive()[1])
        except MeasureError:
            self.prepared_s.append(None)  # who needs it will see why
            raise

    def receive(self) -> tuple[str, Any]:
        """The next message; the builders are served meanwhile. Raises Closed, and MeasureError for an error there."""
        channel, stillness = self.channel, Stillness(self.process.pid, STILL_S if self.preparing else self.longest_s)
        while not channel.pending():
            ready = select.select([channel, *self._pool.channels()], [], [], 1.0)[0]
            if channel in ready:
                channel.pump()
                ready.remove(channel)
            elif stillness.over():
                raise Closed(f"it stood still for {stillness.limit_s:.0f} s")
            self._pool.pump(0.0)
        kind, payload = channel.receive(0)
        if kind in ("done", "error"):
            self._busy = False
        if kind == "error":
            raise MeasureError(payload)
        return kind, payload

    def restart(self) -> str:
        """Start a new runner; how the old one ended."""
        self.channel.close()
        self.process.kill()
        how = process.how_it_ended(self.process.wait())
        Slots(self._pool.group).release()
        log.info("the runner %s; a new one is started", how)
        self._start()
        return how

    def stop(self) -> None:
        """End it and whatever it forked, now."""
        process.stop(self.process, self.channel)


# measurer -------------------------------------------------------------------------------------------------------------

log = logger("measure")
_RESTARTS = 2


class Measurer:
    """Builds, verifies and times candidates. A context manager: it owns builder processes and the runner, which end with it (and
    with the thread that made it).

        with Measurer(kernel, "cpu", threads=2) as m:
            built = [b for _, b in m.build(schedules) if not isinstance(b, Measurement)]
            for r in m.measure(built): print(r.outcome, r.t_min)
    """

    heard: Callable[[int, Measurement], None] | None = None
    """Called with every result of `measure` as it comes: its position, and what it is. What it raises ends the call."""

    def __init__(
        self,
        kernel: Kernel,
        device: str | Device,
        threads: int | None = None,
        *,
        seed: int = 0,
        vars: Mapping[str, int] | None = None,
        deadline_s: float = 10.0,
        builders: int | None = None,
        memory_limit: int | None = None,
        build_deadline_s: float = 30.0,
        compile: Callable[..., Built] | None = None,
        extra: Mapping[str, Any] | None = None,
        hash_outputs: bool = False,
        reference: Kernel | None = None,
        prepare: Callable[[RunnerSetup, Device, Data, bool], Bench] | None = None,
        energy: str = "",
        policy: MeasurementPolicy | None = None,
        building: int = 0,
    ) -> None:
        """`threads` defaults to the device's. `seed` fixes the inputs. `vars`: values of the kernel's symbols.
        `deadline_s`: seconds one call (or one timing) may take. `builders`: processes (default: usable cores; one
        less where the device is a GPU, or its driver compiles at the first launch). `memory_limit`: bytes a candidate may allocate (default: half of what is
        free). `compile(kernel, opts, device, **extra)` defaults to `plan.compile`; it must be importable by name.
        `hash_outputs` fills `Measurement.outputs`, some milliseconds a candidate. `reference`: the kernel to whose error
        bound results are held, where that is another one (`ir.lower_precision`). `prepare`: makes inputs and references,
        where `kernel` is something that only it and `compile` understand (a user's source). `energy`: 'energy' or 'dynamic-energy'
        fills `Measurement.energy`. `policy`: where operands lie (the caller keeps other cores busy). `building`: so many builders,
        at most, work on beside what is timed, where a core is free. Raises DeviceError where the device cannot run here, NoRoom for operands that memory cannot hold."""
        self.kernel, self.vars, self.seed, self.deadline_s = kernel, dict(vars or {}), seed, deadline_s
        self.device = devices.get(device)
        self.device.check()
        if self.device.isolation not in ("fork", "worker"):
            raise DeviceError(f"device {self.device.name} says isolation {self.device.isolation!r}; it must be 'fork' or 'worker'")
        self.threads = threads if threads is not None else self.device.threads
        self.device.check_threads(self.threads)
        spec = _portable(self.device, device)
        limit = memory_limit if memory_limit is not None else free_memory() // 2
        if compile is None:
            from ..plan import compile as compile_default

            compile = compile_default
        gpu = self.device.target.kind == "gpu"
        # beside a GPU that is timed, or a driver that takes long to start in the runner, builders have all cores but the runner's
        cores = usable_cores() if gpu else self.device.threads
        count = builders if builders is not None else max(1, cores - (gpu or self.device.first_launch_s > 0))
        build_deadline_s = max(
            build_deadline_s, self.device.first_launch_s / 2
        )  # (the first build of a process loads the driver's compiler)
        self._runner_setup = RunnerSetup(
            kernel,
            spec,
            self.threads,
            self.vars,
            deadline_s,
            limit,
            hash_outputs,
            reference,
            prepare,
            energy,
            policy or AS_PROGRAMS,
        )
        self._pool = BuildPool(
            builder.BuilderSetup(kernel, spec, compile, dict(extra or {}), max(limit, 1 << 30)),
            count,
            build_deadline_s,
            free := max(0, min(building, cores - self.threads)),
        )
        self._pause = needs_pause(self.threads, count, cores)
        self._core_free = cores > (1 if gpu else self.threads) + (free if self._pause else count)
        """Whether this process has a core of its own while something is timed: builders that do not pause have theirs."""
        self._meanwhile: Callable[[], None] | None = None
        self._runner: RunnerLink | None = None
        self._second: RunnerLink | None = None
        self._likely = False, False
        """Whether the first right candidate flushes subnormal numbers, and regroups factors: a winner mostly does so too."""
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    # life ---------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the builders and the runner now; safe to call twice."""
        links, self._runner, self._second = (self._runner, self._second), None, None
        for link in links:
            if link is not None:
                link.stop()
        self._pool.close()

    def _prepare(self) -> None:
        """Start the runner: inputs and reference are made while the first candidates are being built."""
        self._runner = self._start_runner([Data(self.seed)])

    def _start_runner(self, prepared: Sequence[Data], beside: bool = False) -> RunnerLink:
        if self._runner_setup.prepare is None:
            require_operands(self.kernel, self.vars)
        longest_s = self._runner_setup.deadline_s + self.device.first_launch_s + runner.OWN_STEP_S + STILL_S
        return RunnerLink(self._runner_setup, self._pool, longest_s, prepared, beside)

    @property
    def width(self) -> int:
        """Devices that candidates are timed on at once."""
        return 1

    @property
    def builders(self) -> Slots:
        """Whoever holds this keeps the builders still, until it is released."""
        return Slots(self._pool.group)

    def exclusive(self) -> AbstractContextManager[None]:
        """Inside, the builders stand still."""
        return self.builders.exclusive()

    def listen(self, told: Callable[[Measurement], None]) -> bool:
        """False: nothing is told between two timings, since writing would disturb the next."""
        return False

    # building -----------------------------------------------------------------------------------------------------
    def build(self, schedules: Sequence[tuple[Opt, ...]]) -> Builds:
        """Queue schedules with the builders, at once; an iterator of (position, Built) as they finish, or (position, Measurement)
        for those that are illegal or do not build. The builders work on while other methods of this object run; closing the
        iterator drops the rest."""
        return Builds(self._pool, schedules)

    # measuring ----------------------------------------------------------------------------------------------------
    def measure(self, built: Sequence[Built], incumbent_s: float | None = None) -> list[Measurement]:
        """One Measurement for each, in order: verified on its whole output, then timed. Candidates over 3 × `incumbent_s` (seconds;
        it follows the best of this batch) are timed no further."""
        meanwhile, self._meanwhile = self._meanwhile, None
        return self._measure(built, Data(self.seed), incumbent_s, full=False, heard=self.heard, meanwhile=meanwhile)

    def again(self, built: Sequence[Built]) -> list[Measurement]:
        """As `measure`, every candidate timed to the end."""
        return self.measure(built)

    def meanwhile(self, todo: Callable[[], None]) -> None:
        """Call `todo` once, while the next call of `measure` waits, if this process has a core of its own then. What it raises ends that
        call."""
        if self._core_free:
            self._meanwhile = todo

    def confirm(self, built: Built) -> Measurement:
        """Measure a winner again in full: whole-number inputs, on which results must be exact where no rounding can
        happen; zeros, subnormals, infinities, NaN and the largest numbers (without the last three where an option
        regroups factors); other random inputs, also at other addresses, on which many runs must agree bit for bit
        unless the schedule is declared NONDET. Where Oclgrind is installed, it runs the first groups of OpenCL C. The result's `checks`
        say what was done."""
        checks: tuple[str, ...] = ()
        compared = 0
        for data in self._second_data(_flushes(built), _regroups(built)):
            last = self._measure([built], data, None, full=True)[0]
            checks, compared = (*checks, *last.checks), compared + last.compared
            if not last.ok:
                break
        said = self._fault(built) if last.ok else None
        if said:
            return replace(last, outcome=Outcome.wrong, detail=f"Oclgrind: {said}", checks=checks, compared=compared)
        return replace(last, checks=checks if said is None else (*checks, "oclgrind"), compared=compared)

    def _fault(self, built: Built) -> str | None:
        """What Oclgrind says of the first groups of a winner in OpenCL C; None where it is not asked."""
        from .checking.sanitise import fault

        return fault(self.kernel, built.source, self.vars, self.seed, self.deadline_s)

    def _second_data(self, flushes: bool, regroups: bool) -> list[Data]:
        """The inputs of a second check. What drivers of other devices make of special values is theirs."""
        seed = self.seed + 1
        special = Data(seed, "special", subnormal=not flushes, moderate=regroups)
        return [Data(seed, "whole"), *([special] if self.device.isolation == "fork" else []), Data(seed, "fresh")]

    def _measure(
        self,
        built: Sequence[Built],
        data: Data,
        incumbent_s: float | None,
        full: bool,
        heard: Callable[[int, Measurement], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Measurement]:
        out: list[Measurement] = []
        deaths, link = 0, self._link(full)
        while len(out) < len(built):
            rest = built[len(out) :]
            before = len(out)
            try:
                link.send(("measure", [_candidate(b) for b in rest], data, incumbent_s, full, self._group()))
                if meanwhile is not None:
                    todo, meanwhile = meanwhile, None
                    todo()
                while True:
                    kind, payload = link.receive()
                    if kind == "done":
                        break
                    out.append(self._of(rest[payload[0]], payload[1]))
                    if out[-1].ok and out[-1].t_min is not None and not out[-1].cleared:
                        if incumbent_s is None:
                            self._likely = _flushes(rest[payload[0]]), _regroups(rest[payload[0]])
                        incumbent_s = min(incumbent_s or out[-1].t_min, out[-1].t_min)
                    if heard is not None:
                        heard(len(out) - 1, out[-1])
            except Closed as e:
                how = link.restart()
                # a death before the first result is blamed on the inputs once, then on the candidate; one that has a process of its own
                # within the runner's can hardly end the runner, so a first death is nobody's fault: it may have been killed
                deaths = deaths + 1 if len(out) == before else 1
                if deaths > _RESTARTS:
                    raise MeasureError(f"the runner process keeps ending ({how}); free some memory or measure a smaller shape") from e
                if deaths == _RESTARTS or (len(out) > before and self.device.isolation != "fork"):
                    out.append(
                        Measurement(
                            tuple(built[len(out)].opts),
                            Outcome.crash,
                            detail=f"the runner was lost over it ({how})",
                            sha=built[len(out)].sha,
                        )
                    )
                    if heard is not None:
                        heard(len(out) - 1, out[-1])
        if log.listens():  # now, when nothing is being timed
            for m in out:
                time = f", {m.n} calls, the shortest {duration(m.t_min)}" if m.t_min else ""
                log.debug("%s on %s inputs: %s%s%s", short(m.opts), data.kind, m.outcome, time, f" ({m.detail})" if m.detail else "")
        return out

    def duel(self, a: Built, b: Built, rounds: int = 8, energy: bool = False) -> Duel:
        """Time two candidates against each other in `rounds` pairs (bursts above one thread), or measure their energy. Both are
        verified first, and compared after every burst; raises DuelError when one of them fails."""
        return self._race([a, b], rounds, DUEL_S, energy).duel(0, 1)

    def race(self, built: Sequence[Built], rounds: int, limit_s: float) -> Race | None:
        """Time several in common rounds, as `duel` times two, for about `limit_s` seconds; None where a copy of the outputs of each would take too
        much memory."""
        found = self._race(built, rounds, limit_s, False)
        return found if found.rows else None

    @property
    def races(self) -> bool:
        """It does."""
        return True

    def _race(self, built: Sequence[Built], rounds: int, limit_s: float, energy: bool) -> Race:
        link = self._link(False)
        try:
            link.send(("race", [_candidate(b) for b in built], rounds, limit_s, Data(self.seed), energy, self._group()))
            result: Race | DuelError = link.receive()[1]
        except Closed as e:
            raise MeasureError(f"the runner was lost in a comparison ({link.restart()}); try again") from e
        if isinstance(result, DuelError):
            raise result
        return result

    def _of(self, b: Built, m: Measurement) -> Measurement:
        """What the runner found of a candidate, with what is known of its build."""
        beside = getattr(b.signature, "working_memory", None)  # a user's source does not say
        scratch = None if beside is None else beside(self.threads)
        return replace(m, opts=tuple(b.opts), sha=b.sha, build_s=b.build_s, lower_s=b.lower_s + b.render_s, scratch=scratch)

    # the second check's own runner ------------------------------------------------------------------------------------
    def expect_confirm(self) -> None:
        """Begin to make the inputs and references of second checks, in a process of its own that stands still with the builders. Safe to
        call again; does nothing for a GPU, which makes references itself, or may not hold the operands twice."""
        if self._second is None and self.device.target.kind == "cpu":
            self._second = self._start_runner(self._second_data(*self._likely), beside=True)

    def second_left_s(self, estimate_s: float) -> float:
        """Seconds that the inputs and references of a second check will still take, where all of them take `estimate_s`."""
        return estimate_s if self._second is None else self._second.still_to_make(estimate_s)

    @property
    def prepared_s(self) -> tuple[float, float] | None:
        """Processor seconds that inputs and references took, and copies of operands, once that is known."""
        return self._runner.prepared_s[0] if self._runner is not None and self._runner.prepared_s else None

    def _group(self) -> int | None:
        return self._pool.group if self._pause else None

    def _link(self, second: bool) -> RunnerLink:
        """The runner that is asked. Raises MeasureError after `close`."""
        link = self._second if second and self._second is not None else self._runner
        if link is None:
            raise MeasureError("this Measurer is closed; make a new one")
        return link


def _candidate(b: Built) -> Candidate:
    return Candidate(b.obj, b.signature, "NONDET" in b.effects)


def _flushes(b: Built) -> bool:
    """Whether it uses a matrix instruction that takes subnormal numbers for zero, as docs/options.md says of bfloat16's."""
    return any(OPTIONS[o.op].flushes(o) for o in b.opts if isinstance(o, Opt) and o.op in OPTIONS)


def _regroups(b: Built) -> bool:
    """Whether factors of a product meet in another order: infinities, NaN and the largest numbers may come out otherwise."""
    return any(OPTIONS[o.op].regroups(o) for o in b.opts if isinstance(o, Opt) and o.op in OPTIONS)


def _portable(device: Device, asked: Any) -> Any:
    """What `devices.get` in another process turns into this device: its spec, or itself where only this process knows that name."""
    spec = asked if isinstance(asked, str) else device.spec
    if spec and spec not in devices.local_names():
        return spec
    try:
        pickle.dumps(device)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        raise DeviceError(
            f"device {device.name} cannot be handed to another process ({e}); name it as module:factory or file.py:factory"
        ) from e
    return device
