"""The batch child: links candidates in turn, runs, verifies and times them on operands that stay mapped.

It is forked from the runner, which holds the operands and the reference; it may be killed at any point. Before each step that may
not return it says so, and the runner sets the deadline."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.errors import BuildError, MeasureError, TilewrightError
from .outcome import Outcome
from .slots import Slots
from .stats import median, paired_bursts, time_adaptively

if TYPE_CHECKING:
    from ..devices import Device, Executable
    from ..lower.program import Signature
    from .compare import Checker
    from .memory import Operands
    from .mirror import Mirror
    from .protocol import Channel

NATIVE = "native"
"""A step inside the candidate's code: the candidate's deadline applies."""
FIRST = "first"
"""The same at the first launch, where the device's driver may still be compiling."""
OURS = "ours"
"""A step inside this program."""


@dataclass(frozen=True, slots=True)
class Task:
    """A built candidate, as the runner needs it."""

    obj: bytes
    signature: Signature
    nondeterministic: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with a task: `incumbent_s` rejects early; `full` compares with NumPy; `twice` runs again and compares bits; `hashed` also says which
    bits they are."""

    task: Task
    incumbent_s: float | None = None
    full: bool = False
    twice: bool = False
    hashed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job; times in seconds per call. `broken`: the child ended over it (a signal, an exit, a deadline). `outputs`: hex digest of the
    outputs' bytes, where it was asked for."""

    outcome: Outcome
    times: list[float] = field(default_factory=list)
    error: float | None = None
    detail: str = ""
    broken: bool = False
    outputs: str | None = None


@dataclass
class Bench:
    """Everything a child inherits from the runner for one set of inputs."""

    device: Device
    threads: int
    host: Operands
    checker: Checker
    vars: Sequence[int]
    slots: Slots
    mirror: Mirror | None = None

    @property
    def operands(self) -> Operands | Mirror:
        """What candidates run on: the host's operands, or their copies on the device."""
        return self.mirror or self.host

    def open(self) -> None:
        """In a child: open the device's memory, if it has one, and get the operands ready."""
        memory = self.device.memory()
        if memory is not None:
            from .mirror import Mirror

            self.mirror = Mirror(self.host, memory)
        self.operands.touch()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.host.nbytes + self.checker.nbytes


def serve(bench: Bench, channel: Channel) -> None:
    """Do jobs until the runner hangs up. Messages out: ("step", NATIVE | FIRST | OURS), ("result", …)."""
    try:
        bench.open()
    except TilewrightError as e:
        channel.receive()  # the runner is about to send its first job, and may find nobody
        channel.send(("lost", str(e)))
        return
    while True:
        kind, job, group = channel.receive()
        bench.slots = Slots(group)
        result = _duel(bench, channel, *job) if kind == "duel" else _measure(bench, channel, job)
        channel.send(("result", result))
        if isinstance(result, Result) and result.broken:
            return


def _measure(bench: Bench, channel: Channel, job: Job) -> Result:
    """One candidate, start to end. A failure of this child's own Python is reported, and the child ends: memory is suspect."""
    exe: Executable | None = None
    try:
        channel.send(("step", FIRST))
        exe = bench.device.load(job.task.obj, job.task.signature, bench.threads)
        wrong = _verify(bench, channel, exe, bench.operands.checked, job)
        if wrong.outcome is not Outcome.ok:
            return wrong
        channel.send(("step", NATIVE))
        return _time(bench, channel, exe, job, wrong)
    except BuildError as e:
        return Result(Outcome.build, detail=str(e))
    except MeasureError as e:
        # the device failed: nothing that it holds for this process can be relied on
        return Result(Outcome.crash, detail=str(e), broken=bench.mirror is not None)
    except TilewrightError as e:
        return Result(Outcome.crash, detail=str(e))
    except MemoryError:
        return Result(Outcome.crash, detail="ran out of the memory a candidate may use", broken=True)
    except Exception as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return Result(Outcome.crash, detail=f"{type(e).__name__}: {e} ({last.name}, line {last.lineno})", broken=True)
    finally:
        if exe is not None:
            exe.close()


def _verify(bench: Bench, channel: Channel, exe: Executable, addresses: list[int], job: Job) -> Result:
    """Run once on poisoned outputs and compare every element; with `twice`, the bits must repeat."""
    bench.operands.poison(addresses, bench.checker.stale)
    exe.poison()
    exe.run(addresses, bench.vars)
    channel.send(("step", OURS))
    verdict = bench.checker.check(bench.host, bench.operands.fetch(addresses), full=job.full)
    if not verdict.ok:
        return Result(Outcome.wrong, error=verdict.error, detail=verdict.detail)
    if broken := bench.operands.broken():
        bench.operands.set_canaries()
        return Result(Outcome.wrong, error=verdict.error, detail=broken)
    if job.twice and not job.task.nondeterministic:
        before = bench.operands.snapshot(addresses)
        channel.send(("step", NATIVE))
        bench.operands.poison(addresses, bench.checker.stale)
        exe.poison()
        exe.run(addresses, bench.vars)
        channel.send(("step", OURS))
        if bench.operands.snapshot(addresses) != before:
            return Result(Outcome.wrong, error=verdict.error, detail="two runs on the same inputs gave different bits")
    return Result(Outcome.ok, error=verdict.error, outputs=_digest(bench.operands.snapshot(addresses)) if job.hashed else None)


def _digest(outputs: Sequence[bytes]) -> str:
    """16 bytes of BLAKE2 over all outputs, in hex: equal for schedules whose results agree bit for bit."""
    h = hashlib.blake2b(digest_size=16)
    for data in outputs:
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def _time(bench: Bench, channel: Channel, exe: Executable, job: Job, verified: Result) -> Result:
    """Time it, then check what the timed calls left in the first set."""
    sets = bench.operands.timed
    if sets[0] != bench.operands.checked:
        bench.operands.poison(sets[0], bench.checker.stale)
    with bench.slots.exclusive():
        times, rejected = time_adaptively(exe, sets, bench.vars, job.incumbent_s)
    channel.send(("step", OURS))
    verdict = bench.checker.check(bench.host, bench.operands.fetch(sets[0]))
    if not verdict.ok:
        return Result(Outcome.wrong, error=verdict.error, detail=f"after {len(times)} timed calls: {verdict.detail}")
    if broken := bench.operands.broken():
        bench.operands.set_canaries()
        return Result(Outcome.wrong, error=verdict.error, detail=broken)
    return Result(Outcome.slow if rejected else Outcome.ok, times, max(verified.error or 0.0, verdict.error), outputs=verified.outputs)


def _duel(bench: Bench, channel: Channel, a: Task, b: Task, rounds: int) -> list[tuple[float, float]] | str | Result:
    """Median seconds of both, per round; or what is wrong with one of them; or a Result that is `broken` where the device failed."""
    try:
        return _rounds(bench, channel, a, b, rounds)
    except MeasureError as e:
        return Result(Outcome.crash, detail=str(e), broken=bench.mirror is not None)


def _rounds(bench: Bench, channel: Channel, a: Task, b: Task, rounds: int) -> list[tuple[float, float]] | str:
    exes = []
    for name, task in (("first", a), ("second", b)):
        channel.send(("step", FIRST))
        try:
            exe = bench.device.load(task.obj, task.signature, bench.threads)
            got = _verify(bench, channel, exe, bench.operands.checked, Job(task))
        except MeasureError:
            raise
        except TilewrightError as e:
            return f"the {name} candidate fails: {e}"
        if got.outcome is not Outcome.ok:
            return f"the {name} candidate is wrong: {got.detail}"
        exes.append(exe)
    # both ran before, and the number of calls is bounded: no candidate's deadline here
    channel.send(("step", OURS))
    with bench.slots.exclusive():
        return paired_bursts(exes[0], exes[1], bench.operands.timed, bench.vars, bench.threads, rounds, time.sleep)


def summary(times: Sequence[float]) -> Mapping[str, Any]:
    """t_min, t_med (seconds per call) and n as Measurement takes them."""
    return {"t_min": min(times), "t_med": median(times), "n": len(times)} if times else {}
