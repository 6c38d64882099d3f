"""The batch child: links candidates in turn, runs, verifies and times them on operands that stay mapped.

It is forked from the runner, which holds the operands and the reference; it may be killed at any point. Before each step that may
not return it says so, and the runner sets the deadline."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..ir.errors import BuildError, DeviceError, MeasureError, TilewrightError
from .bench import Bench
from .checking.repeated_runs import Watch, WrongResultError, repeat
from .energy.meter import paired_windows
from .operands import PATTERNS, Shifted
from .outcome import EnergyUse, Outcome
from .processes.process import Slots
from .timing import median, paired_bursts, time_adaptively, torn

if TYPE_CHECKING:
    from ..devices import Executable
    from ..program.program import Signature
    from .processes.protocol import Channel


_LONG_S = 0.1
"""Calls that are longer are made no more often than they are timed."""
NATIVE = "native"
"""A step inside the candidate's code: the candidate's deadline applies."""
FIRST = "first"
"""The same at the first launch, where the device's driver may still be compiling."""
MOVED = "moved"
"""Inside the candidate's code, with operands at other addresses."""
OPEN = "open"
"""The device is opened and the operands are copied there: its driver has to answer."""
JUDGED = "judged"
"""Outputs are compared on the device: its driver has to answer."""
OURS = "ours"
"""A step inside this program."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A built candidate, as the runner needs it."""

    obj: bytes
    signature: Signature
    nondeterministic: bool = False


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """Which of a duel's two candidates (0 or 1) was not right, and how."""

    which: int
    detail: str


@dataclass(frozen=True, slots=True)
class Fought:
    """(seconds of the first, seconds of the second) in each round of a duel, or joules of both; `compared`: runs of either whose outputs were compared;
    `torn`: as in Duel."""

    pairs: list[tuple[float, float]]
    compared: int
    torn: bool = False


TIME, REPEAT, ALIGN = "time", "repeat", "align"
"""What may follow the first verified run: timing, many runs that must give the same, other alignments."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """What to do with a task: `incumbent_s` rejects early; `full` compares with NumPy; `steps` follow the first run,
    in order; `hashed` also says which bits the outputs are."""

    task: BatchTask
    incumbent_s: float | None = None
    full: bool = False
    steps: tuple[str, ...] = (TIME,)
    hashed: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a job; times in seconds per call. `broken`: the child ended over it (a signal, an exit, a
    deadline). `cleared`: it failed once beside others and was right alone. `checks`: names of what it passed, as in
    Measurement. `compared`: runs whose outputs were compared. `outputs`: hex digest of the outputs' bytes, where it
    was asked for. `clocks`: what the device was like while it was timed (`Executable.clocks`). `note`: what to tell of the
    reference (`verify.Expect`)."""

    outcome: Outcome
    times: list[float] = field(default_factory=list)
    error: float | None = None
    detail: str = ""
    broken: bool = False
    cleared: bool = False
    checks: tuple[str, ...] = ()
    compared: int = 0
    outputs: str | None = None
    clocks: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    energy: EnergyUse | None = None


def serve(bench: Bench, channel: Channel) -> None:
    """Do jobs until the runner hangs up. Messages out: ("step", one of the steps above), ("result", …)."""
    try:
        if bench.device.isolation == "worker":
            channel.send(("step", OPEN))
        bench.open(lambda: channel.send(("step", OURS)))
    except TilewrightError as e:
        channel.receive()  # the runner is about to send its first job, and may find nobody
        channel.send(("lost", str(e)))
        return
    while True:
        kind, job, group = channel.receive()
        bench.slots = Slots(group)
        result = _duel(bench, channel, *job) if kind == "duel" else _measure(bench, channel, job)
        channel.send(("result", result))
        if isinstance(result, BatchResult) and result.broken:
            return


def _measure(bench: Bench, channel: Channel, job: BatchJob) -> BatchResult:
    """One candidate, start to end. A failure of this child's own Python is reported, and the child ends: memory is suspect."""
    exe: Executable | None = None
    try:
        channel.send(("step", FIRST))
        exe = bench.device.load(job.task.obj, job.task.signature, bench.threads)
        return _examine(bench, channel, Watch(bench, exe, not job.task.nondeterministic), job)
    except WrongResultError as e:
        return BatchResult(Outcome.wrong, error=e.error, detail=e.detail)
    except BuildError as e:
        return BatchResult(Outcome.build, detail=str(e))
    except MeasureError as e:
        return BatchResult(Outcome.crash, detail=str(e), broken=bench.broken())
    except TilewrightError as e:
        return BatchResult(Outcome.crash, detail=str(e))
    except MemoryError:
        return BatchResult(Outcome.crash, detail="ran out of the memory a candidate may use", broken=True)
    except Exception as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return BatchResult(Outcome.crash, detail=f"{type(e).__name__}: {e} ({last.name}, line {last.lineno})", broken=True)
    finally:
        if exe is not None:
            exe.close()


def _examine(bench: Bench, channel: Channel, watch: Watch, job: BatchJob) -> BatchResult:
    """The first run, compared with the reference in every element, then the job's steps."""
    checks = [bench.name]
    outputs = _first(bench, channel, watch, job)
    times: list[float] = []
    clocks: Mapping[str, Any] = {}
    rejected, energy, note = False, None, ""
    for step in job.steps:
        channel.send(("step", NATIVE))
        if step == TIME:
            if bench.on_device is None and watch.ran_s < _LONG_S:  # (once where what lies before the first byte is inaccessible)
                watch.exe.time(bench.operands.timed[:1], bench.vars)
            with bench.slots.exclusive(), bench.host.beside_others():
                times, rejected = time_adaptively(watch, bench.operands.timed, bench.vars, job.incumbent_s, watch.ran_s)
                if bench.energy and not rejected:
                    channel.send(("step", OURS))
                    energy, note = _energy(watch, min(times))
            clocks = watch.exe.clocks()
        elif step == REPEAT:
            checks.append(f"repeat{repeat(watch, lambda: channel.send(('step', NATIVE)))}")
        elif step == ALIGN and _elsewhere(watch, channel):
            checks.append("aligned")
    channel.send(("step", OURS))
    outcome = Outcome.slow if rejected else Outcome.ok
    made = BatchResult(outcome, times, watch.error, checks=tuple(checks), compared=watch.compared, outputs=outputs, clocks=clocks)
    made = replace(made, energy=energy)
    return replace(made, note=bench.checker.note or note) if bench.name == "random" else made


def _energy(watch: Watch, call_s: float) -> tuple[EnergyUse | None, str]:
    """(joules of a call, or why they are not known) of a candidate whose time is known; nothing else runs meanwhile."""
    bench = watch.bench
    try:
        used = bench.meter().measure(lambda n: watch.calls(bench.operands.timed, bench.vars, n), call_s)
    except DeviceError as e:
        return None, str(e)
    return used, ""


def _elsewhere(watch: Watch, channel: Channel) -> bool:
    """Run on operands at other addresses. False: not possible, in a device's own memory (whose buffers begin where
    the driver says), or for want of memory."""
    if watch.bench.on_device is not None:
        return False
    try:
        shifted = Shifted(watch.bench.host)
    except MeasureError:
        return False  # what has no room here is no fault of the candidate; that this was not done shows in `checks`
    try:
        for pattern in PATTERNS:
            channel.send(("step", OURS))
            addresses = shifted.place(pattern)
            channel.send(("step", MOVED))
            watch.moved(addresses, shifted, pattern)
    finally:
        shifted.free()
    return True


def _first(bench: Bench, channel: Channel, watch: Watch, job: BatchJob) -> str | None:
    """Run once on poisoned outputs, compare every element with the reference, keep the bits; their digest where it is wanted."""
    addresses = bench.operands.checked
    watch.run(addresses)
    channel.send(("step", OURS if bench.judge is None or job.full else JUDGED))
    watch.compare(addresses, job.full)
    watch.keep(addresses)
    channel.send(("step", OURS))
    return _digest(bench.operands.snapshot(addresses)) if job.hashed else None


def _digest(outputs: Sequence[bytes]) -> str:
    """16 bytes of BLAKE2 over all outputs, in hex: equal for schedules whose results agree bit for bit."""
    h = hashlib.blake2b(digest_size=16)
    for data in outputs:
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def _duel(
    bench: Bench, channel: Channel, a: BatchTask, b: BatchTask, rounds: int, energy: bool = False
) -> Fought | BatchFailed | BatchResult:
    """Seconds (or joules) of a call of both, per round; or which of them failed; or a Result that is `broken` where the device failed."""
    watches: list[Watch] = []
    try:
        for task in (a, b):
            channel.send(("step", FIRST))
            exe = bench.device.load(task.obj, task.signature, bench.threads)
            watches.append(Watch(bench, exe, not task.nondeterministic, len(watches)))
            _first(bench, channel, watches[-1], BatchJob(task))
        # both ran before, and the number of calls is bounded: no candidate's deadline here
        channel.send(("step", OURS))
        with bench.slots.exclusive(), bench.host.beside_others():
            if energy:
                pairs = _energies(bench, watches, rounds)
            else:
                pairs = paired_bursts(watches[0], watches[1], bench.operands.timed, bench.vars, bench.threads, rounds, time.sleep)
        two_places = not energy and len(bench.operands.timed) > 1
        return Fought(pairs, min(w.compared for w in watches), two_places and torn(pairs))
    except WrongResultError as e:
        return BatchFailed(e.slot, f"is wrong: {e.detail}")
    except MeasureError as e:
        return BatchResult(Outcome.crash, detail=str(e), broken=bench.broken())
    except TilewrightError as e:
        return BatchFailed(len(watches), f"fails: {e}")
    finally:
        for w in watches:
            w.exe.close()


def _energies(bench: Bench, watches: Sequence[Watch], rounds: int) -> list[tuple[float, float]]:
    """Joules of a call of both candidates, in each round. Raises MeasureError where they cannot be read."""
    sets = bench.operands.timed
    runs = [lambda n, w=w: w.calls(sets, bench.vars, n) for w in watches]
    times = [min(w.time(sets, bench.vars, 3)) for w in watches]
    try:
        return paired_windows(bench.meter(), runs, times, rounds)
    except DeviceError as e:
        raise MeasureError(str(e)) from None


def summary(times: Sequence[float]) -> Mapping[str, Any]:
    """t_min, t_med (seconds per call) and n as Measurement takes them."""
    return {"t_min": min(times), "t_med": median(times), "n": len(times)} if times else {}
