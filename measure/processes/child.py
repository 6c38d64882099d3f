"""The batch child: links candidates in turn, runs, verifies and times them on operands that stay mapped.

It is forked from the runner, which holds the operands and the reference; it may be killed at any point. Before each step that may
not return it says so, and the runner sets the deadline."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError, DeviceError, MeasureError, TilewrightError
from ..bench import Bench
from ..checking.repeated_runs import Watch, WrongResultError, repeat
from ..energy import paired_windows
from ..operands import PATTERNS, Shifted
from ..outcome import DuelError, EnergyUse, Measurement, Outcome, Race
from ..timing import common_rounds, median, time_adaptively
from .process import Slots

if TYPE_CHECKING:
    from ...devices import Executable
    from ...program.program import Signature
    from .protocol import Channel


_COPIES = 256 << 20
"""Bytes that the first outputs of all in a race may take."""
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


TIME, REPEAT, ALIGN = "time", "repeat", "align"
"""What may follow the first verified run: timing, many runs that must give the same, other alignments."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A built schedule, as it is loaded."""

    obj: bytes
    signature: Signature
    nondeterministic: bool = False


@dataclass(frozen=True, slots=True)
class CandidateJob:
    """What to do with a candidate: `incumbent_s` rejects early; `full` compares with NumPy; `steps` follow the first run, in order;
    `hashed` also says which bits the outputs are."""

    candidate: Candidate
    incumbent_s: float | None = None
    full: bool = False
    steps: tuple[str, ...] = (TIME,)
    hashed: bool = False


def serve(bench: Bench, channel: Channel) -> None:
    """Do jobs until the runner hangs up. Messages out: ("step", one of the steps above), ("result", what came of a job), ("broken", the
    same, and the child ends: its memory, or its device, is suspect), ("lost", why the device cannot be used)."""
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
        result, broken = _race(bench, channel, *job) if kind == "race" else _measure(bench, channel, job)
        channel.send(("broken" if broken else "result", result))
        if broken:
            return


def failed(outcome: Outcome, detail: str, error: float | None = None) -> Measurement:
    """A candidate that is not right; the process that asked knows its options."""
    return Measurement((), outcome, detail=detail, error=error)


def _measure(bench: Bench, channel: Channel, job: CandidateJob) -> tuple[Measurement, bool]:
    """(one candidate, start to end; whether this child must end). After a failure of its own Python memory is suspect."""
    exe: Executable | None = None
    try:
        channel.send(("step", FIRST))
        exe = bench.device.load(job.candidate.obj, job.candidate.signature, bench.threads)
        return _examine(bench, channel, Watch(bench, exe, not job.candidate.nondeterministic), job), False
    except WrongResultError as e:
        return failed(Outcome.wrong, e.detail, e.error), False
    except BuildError as e:
        return failed(Outcome.build, str(e)), False
    except MeasureError as e:
        return failed(Outcome.crash, str(e)), bench.broken()
    except TilewrightError as e:
        return failed(Outcome.crash, str(e)), False
    except MemoryError:
        return failed(Outcome.crash, "ran out of the memory a candidate may use"), True
    except Exception as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return failed(Outcome.crash, f"{type(e).__name__}: {e} ({last.name}, line {last.lineno})"), True
    finally:
        if exe is not None:
            exe.close()


def _examine(bench: Bench, channel: Channel, watch: Watch, job: CandidateJob) -> Measurement:
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
        elif step == ALIGN and _at_other_addresses(watch, channel):
            checks.append("aligned")
    channel.send(("step", OURS))
    return Measurement(
        (),
        Outcome.slow if rejected else Outcome.ok,
        min(times, default=None),
        median(times) if times else None,
        len(times),
        watch.error,
        outputs=outputs,
        checks=tuple(checks),
        compared=watch.compared,
        clocks=clocks,
        note=(bench.checker.note or note) if bench.name == "random" else "",
        energy=energy,
    )


def _energy(watch: Watch, call_s: float) -> tuple[EnergyUse | None, str]:
    """(joules of a call, or why they are not known) of a candidate whose time is known; nothing else runs meanwhile."""
    bench = watch.bench
    try:
        used = bench.meter().measure(lambda n: watch.calls(bench.operands.timed, bench.vars, n), call_s)
    except DeviceError as e:
        return None, str(e)
    return used, ""


def _at_other_addresses(watch: Watch, channel: Channel) -> bool:
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


def _first(bench: Bench, channel: Channel, watch: Watch, job: CandidateJob) -> str | None:
    """Run once on poisoned outputs, compare every element with the reference, keep the bits; their digest where it is wanted."""
    addresses = bench.operands.checked
    if bench.device.first_launch_s:
        watch.exe.begun = lambda: channel.send(("step", NATIVE))
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


def _race(
    bench: Bench, channel: Channel, candidates: Sequence[Candidate], rounds: int, limit_s: float, energy: bool
) -> tuple[Race | DuelError, bool]:
    """(seconds, or joules, of a call of all in each round, none where outputs of each would take too much memory, or which of them failed; whether
    this child must end)."""
    watches: list[Watch] = []
    if len(candidates) > 2 and len(candidates) * sum(p.nbytes for p in bench.host.places.values() if p.output) > _COPIES:
        return Race((), 0, False), False
    try:
        for candidate in candidates:
            channel.send(("step", FIRST))
            exe = bench.device.load(candidate.obj, candidate.signature, bench.threads)
            watches.append(Watch(bench, exe, not candidate.nondeterministic, len(watches)))
            _first(bench, channel, watches[-1], CandidateJob(candidate))
        # all ran before, and the number of calls is bounded: no candidate's deadline here
        channel.send(("step", OURS))
        with bench.slots.exclusive(), bench.host.beside_others():
            if energy:
                rows: Sequence[tuple[float, ...]] = _energies(bench, watches, rounds)
            else:
                sets, turns = bench.operands.timed, bench.turns
                rows = common_rounds(watches, sets, bench.vars, bench.threads, rounds, time.sleep, turns, limit_s)
        two_places = not energy and bench.turns and len(bench.operands.timed) > 1
        return Race(tuple(rows), min(w.compared for w in watches), two_places), False
    except WrongResultError as e:
        return _lost(e.slot, f"is wrong: {e.detail}"), False
    except MeasureError as e:
        return pair_failed(failed(Outcome.crash, str(e))), bench.broken()
    except TilewrightError as e:
        return _lost(len(watches), f"fails: {e}"), False
    finally:
        for w in watches:
            w.exe.close()


def _lost(which: int, why: str) -> DuelError:
    return DuelError(f"cannot compare: the {('first', 'second', 'third')[which] if which < 3 else f'{which + 1}th'} candidate {why}", which)


def pair_failed(m: Measurement) -> DuelError:
    """The error of a race over which its child ended, or its device failed."""
    return DuelError(f"cannot compare: the pair failed: {m.outcome.value}, {m.detail}")


def _energies(bench: Bench, watches: Sequence[Watch], rounds: int) -> list[tuple[float, float]]:
    """Joules of a call of both candidates, in each round. Raises MeasureError where they cannot be read."""
    sets = bench.operands.timed
    runs = [lambda n, w=w: w.calls(sets, bench.vars, n) for w in watches]
    times = [min(w.time(sets, bench.vars, 3)) for w in watches]
    try:
        return paired_windows(bench.meter(), runs, times, rounds)
    except DeviceError as e:
        raise MeasureError(str(e)) from None
